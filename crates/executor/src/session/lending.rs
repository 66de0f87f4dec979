//! The calls that make and drop our views on tables read with others' rights: see [`owner_reads`](crate::engine::owner_reads).

use catalog::quote_literal;
use planner::Lent;

use crate::backend::own_calls::OwnCall;

/// The calls that make and drop our views.
#[derive(Clone, Debug)]
pub(crate) struct Lending {
    pub(crate) lend: OwnCall,
    pub(crate) take_back: OwnCall,
    /// With which the views' names begin, and nothing else in a text: it is drawn by lot.
    prefix: String,
}

impl Lending {
    pub(crate) fn of(lent: &[Lent]) -> Self {
        let list = |value: &dyn Fn(&Lent) -> String| lent.iter().map(value).collect::<Vec<_>>().join(", ");
        let views = format!("ARRAY[{}]::pg_catalog.name[]", list(&|one| quote_literal(&one.view)));
        let lend = format!(
            "{views}, ARRAY[{}]::pg_catalog.name[], ARRAY[{}]::pg_catalog.text[], ARRAY[{}]::pg_catalog.bool[]",
            list(&|one| quote_literal(&one.owner)),
            list(&|one| quote_literal(&one.table)),
            list(&|one| one.only.to_string()),
        );
        Self {
            lend: OwnCall::new("lend", lend),
            take_back: OwnCall::new("take_back", views),
            prefix: lent.first().map(|one| one.prefix.clone()).unwrap_or_default(),
        }
    }

    /// A text with the names that our views have beside the home node.
    pub(crate) fn beside(&self, sql: &str) -> String {
        sql.replace(&self.prefix, &format!("beside_{}", self.prefix))
    }
}
