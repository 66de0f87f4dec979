//! OVERRIDING USER VALUE: what an INSERT gives for identity columns is left out; without OVERRIDING it may be refused.

use catalog::{Column, Generated, quote_identifier};
use pg_query::protobuf::{InsertStmt, List, OverridingKind};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result, SqlState};

use super::Insert;
use crate::plan::Stage;
use crate::tree::{self, Get};

/// Has the stage make the values of these columns; those that a query gives go to columns of the stage that nobody reads.
pub(super) fn ignore_values(
    ignored: &[&Column],
    given: &[&str],
    is_rows: bool,
    fill: &mut InsertStmt,
    stage: &mut Stage,
) {
    for column in ignored {
        let Some(place) = given.iter().position(|name| *name == column.name) else { continue };
        if is_rows {
            set_to_default(fill, place);
        } else {
            let name = format!("loxo_ignored_{}", column.name);
            stage.definitions.insert(0, format!("{} {}", quote_identifier(&name), column.type_name));
            fill.cols[place] = tree::target_name_only(&name);
        }
    }
}

/// In all rows of a VALUES list.
fn set_to_default(fill: &mut InsertStmt, place: usize) {
    let query = fill.select_stmt.as_deref_mut().and_then(|query| query.node.as_mut());
    let Some(NodeEnum::SelectStmt(select)) = query else { return };
    for row in &mut select.values_lists {
        if let Some(row) = row.get_mut::<List>()
            && let Some(value) = row.items.get_mut(place)
        {
            *value = tree::node(NodeEnum::SetToDefault(Box::default()));
        }
    }
}

impl Insert<'_> {
    /// `rewriteTargetListIU` (PostgreSQL's `rewriteHandler.c`): the stage would take such a value, the table does not.
    pub(crate) fn check_identity(&self) -> Result<()> {
        if self.insert.r#override != OverridingKind::OverridingNotSet as i32 {
            return Ok(());
        }
        let rows = self.rows();
        for (position, name) in self.given_columns().iter().enumerate() {
            let is_always =
                self.relation.column(name).is_some_and(|column| column.generated == Generated::IdentityAlways);
            let is_default = |row: &&[Node]| row.get(position).is_some_and(tree::is_default);
            let all_default = rows.as_ref().is_some_and(|rows| rows.iter().all(is_default));
            if is_always && !all_default {
                let code = SqlState::from_bytes(b"428C9").unwrap_or(SqlState::SYNTAX_ERROR);
                return Err(PgError::new(code, format!("cannot insert a non-DEFAULT value into column \"{name}\""))
                    .detail(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS."))
                    .hint("Use OVERRIDING SYSTEM VALUE to override."));
            }
        }
        Ok(())
    }
}
