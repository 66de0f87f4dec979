//! Rows of VALUES with calls in them that may see, or change, the table the rows go to: each row is an INSERT by itself, for
//! PostgreSQL stores a row before it makes the calls of the next.

use pg_query::protobuf::{InsertStmt, OnConflictAction, SelectStmt};
use pgerror::Result;

use super::change::has_triggers;
use super::effects::may_touch;
use super::slots::Draft;
use crate::parse::{self, Statement};
use crate::plan::Each;
use crate::tree::{self, Get, Syntax};

/// `None` if it is no such INSERT, or if more than the rows depends on its being one statement: triggers, RETURNING, a row that is met twice.
pub(super) fn row_by_row(draft: &Draft<'_>, statement: &Statement, insert: &InsertStmt) -> Result<Option<Each>> {
    let Some(source) = insert.select_stmt.get::<SelectStmt>() else { return Ok(None) };
    let conflict = insert.on_conflict_clause.as_ref();
    let updates = conflict.is_some_and(|conflict| conflict.action() != OnConflictAction::OnconflictNothing);
    let is_bare = source.values_lists.len() > 1 && source.with_clause.is_none() && !tree::is_ordered(source);
    let (Some(target), true) = (&insert.relation, is_bare) else { return Ok(None) };
    let is_whole = updates || insert.with_clause.is_some() || insert.returning_clause.is_some();
    if is_whole || has_triggers(draft, target)? || !may_touch(draft.ctx, &draft.functions_in(source)?, target)? {
        return Ok(None);
    }
    let mut statements = Vec::with_capacity(source.values_lists.len());
    for row in &source.values_lists {
        let select_stmt = SelectStmt { values_lists: vec![row.clone()], ..source.clone() }.into_box();
        let node = InsertStmt { select_stmt, ..insert.clone() }.into_tree();
        statements.push(parse::build(&tree::deparse(&node)?, node)?.in_place_of(statement));
    }
    Ok(Some(Each { statements }))
}
