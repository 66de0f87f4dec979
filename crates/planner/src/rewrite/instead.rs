//! Changes of views with INSTEAD OF triggers: the coordinator makes the rows, and the triggers do what they do.
//!
//! ```text
//! UPDATE v SET a = 1 WHERE b > 2 RETURNING a
//!   rows   see `made_rows`
//!   each   the view's triggers, with OLD and NEW
//!   then   SELECT a FROM unnest($1::v[]) AS v
//! ```

use pg_query::NodeEnum;
use pgerror::Result;

use crate::context::{Context, Named};
use crate::dml::key_moves::Event;
use crate::parse::Statement;
use crate::plan::{Instead, Routine};
use crate::rewrite::made_rows::Change;
use crate::tree::{self};

/// `TRIGGER_TYPE_INSTEAD` of `pg_trigger.h`.
const INSTEAD: i16 = 64;

/// How the statement is run if it changes such a view.
pub(crate) fn plan(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Routine>> {
    let Some(tree) = statement.node() else { return Ok(None) };
    let operation = match tree {
        NodeEnum::InsertStmt(_) => "INSERT",
        NodeEnum::UpdateStmt(_) => "UPDATE",
        NodeEnum::DeleteStmt(_) => "DELETE",
        _ => return Ok(None),
    };
    let event = Event::of(operation).bit();
    let Some(target) = tree::target_of(tree) else { return Ok(None) };
    let view = match ctx.resolve(target)? {
        Named::View(view) if view.captured.iter().any(|one| one.kind & INSTEAD != 0 && one.kind & event != 0) => view,
        _ => return Ok(None),
    };
    let change = Change { catalog: ctx.catalog, relation: &view, target, has_analysis: ctx.analysis.is_some() };
    if let Some(other) = view.captured.iter().find(|one| one.kind & INSTEAD == 0) {
        return Err(change.refused(&format!("Its trigger \"{}\" is one FOR EACH STATEMENT.", other.name)));
    }
    if matches!(tree, NodeEnum::InsertStmt(insert) if insert.on_conflict_clause.is_some()) {
        return Err(change.refused("It has ON CONFLICT."));
    }
    let rows = change.made_rows(tree)?;
    let returning =
        tree::returning_of(tree).map(|clause| change.returning(clause, statement.parameters, tree)).transpose()?;
    let of_event = view.captured.iter().filter(|one| one.kind & event != 0);
    let mut triggers: Vec<String> = of_event.map(|one| one.name.clone()).collect();
    triggers.sort();
    Ok(Some(Routine::Instead(Box::new(Instead {
        view: view.name.clone(),
        schema: view.schema.clone(),
        operation,
        triggers,
        rows,
        returning,
        parameters: statement.parameters,
    }))))
}
