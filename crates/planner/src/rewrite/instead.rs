//! Changes of views with INSTEAD OF triggers: the coordinator makes the rows, and the triggers do what they do.
//!
//! ```text
//! UPDATE v SET a = 1 WHERE b > 2 RETURNING a
//!   rows   see `made_rows`
//!   each   the view's triggers, with OLD and NEW
//!   then   SELECT a FROM unnest($1::v[]) AS v
//! ```

use std::borrow::Cow;

use pg_query::NodeEnum;
use pgerror::Result;

use crate::context::{Context, Named};
use crate::dml::{event_of, one_view_down};
use crate::parse::Statement;
use crate::plan::{Instead, Routine};
use crate::rewrite::made_rows::Change;
use crate::tree::{self, Ref};

/// How the statement is run if it changes such a view, or one over it.
pub(crate) fn plan(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Routine>> {
    let Some(tree) = statement.node() else { return Ok(None) };
    let Some(event) = Ref::of(tree).and_then(event_of) else { return Ok(None) };
    let mut tree = Cow::Borrowed(tree);
    let (view, target) = loop {
        let Some(target) = tree::target_of(&tree).cloned() else { return Ok(None) };
        let Named::View(view) = ctx.resolve(&target)? else { return Ok(None) };
        if view.is_changed_instead(event.bit()) {
            break (view, target);
        }
        // What cannot go down is refused as other changes through views are.
        if view.check_option || ctx.analysis.is_none() || one_view_down(ctx, &view, tree.to_mut()).is_err() {
            return Ok(None);
        }
    };
    let (tree, target) = (&*tree, &target);
    if view.captured.is_empty() {
        return Ok(None);
    }
    let triggers = view.captured.iter().filter(|one| one.kind & event.bit() != 0);
    let change = Change { catalog: ctx.catalog, relation: &view, target, has_analysis: ctx.analysis.is_some() };
    if let Some(other) = triggers.clone().find(|one| !one.is_instead()) {
        return Err(change.refused(&format!("Its trigger \"{}\" is one FOR EACH STATEMENT.", other.name)));
    }
    if matches!(tree, NodeEnum::InsertStmt(insert) if insert.on_conflict_clause.is_some()) {
        return Err(change.refused("It has ON CONFLICT."));
    }
    let rows = change.made_rows(tree)?;
    let returning =
        tree::returning_of(tree).map(|clause| change.returning(clause, statement.parameters, tree)).transpose()?;
    let mut triggers: Vec<String> = triggers.map(|one| one.name.clone()).collect();
    triggers.sort();
    Ok(Some(Routine::Instead(Box::new(Instead {
        view: view.name.clone(),
        schema: view.schema.clone(),
        operation: event.name(),
        triggers,
        rows,
        returning,
        parameters: statement.parameters,
    }))))
}
