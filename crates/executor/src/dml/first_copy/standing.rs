//! How the other copies of a table may be changed: by the user as he is, or by way of a view that he is lent.
//!
//! The first copy has asked the table's policies, for the user or for the owner of a view that he has changed rows by. They are not asked
//! again: values are no statement of his, and a row that he changes without reading any is one that he may not find by its key. So under
//! policies he is lent the view, which is the table's owner's, unless they hold for the owner too.

use bytes::Bytes;
use catalog::{Relation, quote_literal};

/// The answers that [`Standing::of`] takes.
pub(super) const QUESTIONS: usize = 3;

/// See the module's page.
pub(super) enum Standing {
    /// He may change the table, and no policies are in the way.
    Free,
    /// By a view.
    ByView,
    /// He may change the table, under policies that a view would not lift.
    UnderPolicies,
    /// He may not, and a view would run functions or policies.
    Lacking,
}

impl Standing {
    pub(super) fn of(table: &Relation, answers: &[Option<Bytes>]) -> Self {
        let is_true = |at: usize| answers.get(at).and_then(Option::as_deref) == Some(b"t");
        let (has_rights, has_policies, is_lifted) = (is_true(0), is_true(1), is_true(2));
        let has_code = table.code.as_ref().is_some_and(|code| !code.expressions.is_empty());
        match (has_rights, has_policies) {
            (true, false) => Self::Free,
            _ if is_lifted && !has_code => Self::ByView,
            (true, true) => Self::UnderPolicies,
            (false, _) => Self::Lacking,
        }
    }
}

/// Has the user these rights, do policies hold for him, and does none hold for the table's owner?
pub(super) fn questions(table: &Relation, rights: &[&str]) -> [String; QUESTIONS] {
    let may = |right: &&str| format!("pg_catalog.has_table_privilege({}::pg_catalog.oid, '{right}')", table.oid);
    let schema = format!("pg_catalog.has_schema_privilege({}, 'USAGE')", quote_literal(&table.schema));
    let may = rights.iter().map(may).chain([schema]).collect::<Vec<_>>().join(" AND ");
    if !table.is_barrier {
        return [may, "false".to_owned(), "true".to_owned()];
    }
    let of_table = |what: &str| {
        let (schema, name) = (quote_literal(&table.schema), quote_literal(&table.name));
        format!(
            "(SELECT {what} FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_roles AS o ON o.oid = c.relowner \
             WHERE c.relname = {name} AND c.relnamespace = \
             (SELECT n.oid FROM pg_catalog.pg_namespace AS n WHERE n.nspname = {schema}))"
        )
    };
    let owner = "NOT c.relforcerowsecurity OR o.rolsuper OR o.rolbypassrls";
    [may, of_table("pg_catalog.row_security_active(c.oid)"), of_table(owner)]
}
