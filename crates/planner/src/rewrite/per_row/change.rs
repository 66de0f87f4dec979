//! Changes of rows with calls in them.
//!
//! ```text
//! INSERT INTO u SELECT f(x) FROM t    the query as any other, the INSERT over what came of it
//! UPDATE t SET a = f(x) WHERE g(y)    SELECT k, x, y FROM t FOR UPDATE; f and g; UPDATE t … FROM … WHERE t.k = …
//! DELETE FROM t … RETURNING f(x)      the change with RETURNING x; f; a query over what came of it
//! ```
//!
//! Rows of the table are found again by a unique key.

use pg_query::protobuf::{DeleteStmt, InsertStmt, RangeVar, ResTarget, ReturningClause, SelectStmt, UpdateStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::effects::{called, may_touch, meet, read_only};
use super::expression::Place;
use super::has_one_row;
use super::select;
use super::slots::{Draft, rows_item};
use crate::context::Named;
use crate::tree::{self, Get, Syntax};

/// The statement that gives the rows, and the one over them.
type Split = Option<(NodeEnum, NodeEnum)>;

pub(super) fn insert(draft: &mut Draft<'_>, insert: &InsertStmt) -> Result<Split> {
    let Some(target) = &insert.relation else { return Ok(None) };
    if let Some(split) = returning(draft, insert.returning_clause.as_ref(), |clause| {
        InsertStmt { returning_clause: Some(clause), ..insert.clone() }.into_tree()
    })? {
        // Of each row PostgreSQL makes the calls of RETURNING before those of the next.
        let (made, returned) = (called(draft.ctx, &insert.select_stmt)?, called(draft.ctx, &insert.returning_clause)?);
        draft.fails |= !has_one_row(insert) && (touches(draft, target)? || meet(draft.ctx, &made, &returned)?);
        return Ok(Some(split));
    }
    if draft.calls_in(&insert.on_conflict_clause)? || insert.with_clause.is_some() {
        return Ok(None);
    }
    let Some(source) = insert.select_stmt.get::<SelectStmt>() else { return Ok(None) };
    let Some((rows, rest)) = select::split(draft, &tree::without_values(source))? else { return Ok(None) };
    if touches(draft, target)? {
        // One row that two others meet is an error of the whole statement.
        draft.fails |= insert.on_conflict_clause.is_some();
        one_by_one(draft, target, insert.returning_clause.as_ref())?;
    }
    let select_stmt = rest.into_box();
    let rest = InsertStmt { select_stmt, ..insert.clone() }.into_tree();
    Ok(Some((rows.into_tree(), rest)))
}

pub(super) fn update(draft: &mut Draft<'_>, update: &UpdateStmt) -> Result<Split> {
    let Some(target) = &update.relation else { return Ok(None) };
    let in_rest = draft.calls_in(&update.target_list)? || draft.calls_in(&update.where_clause)?;
    if !in_rest {
        return returning_of_rows(draft, target, update.returning_clause.as_ref(), |clause| {
            UpdateStmt { returning_clause: Some(clause), ..update.clone() }.into_tree()
        });
    }
    if !update.from_clause.is_empty() || update.with_clause.is_some() {
        return Ok(None);
    }
    let mut rest = update.clone();
    let Some(changed) = Changed::of(draft, target, update.where_clause.as_deref())? else { return Ok(None) };
    if let Some(table) = draft.ctx.distributed(target)? {
        // In this order PostgreSQL computes them.
        let place = |target: &ResTarget| table.columns.iter().position(|column| column.name == target.name);
        rest.target_list.sort_by_key(|item| item.get::<ResTarget>().and_then(place));
    }
    for item in &mut rest.target_list {
        let Some(item) = item.get_mut::<ResTarget>() else { continue };
        draft.fails |= !item.indirection.is_empty();
        let Some(value) = item.val.as_deref_mut() else { continue };
        match &value.node {
            Some(NodeEnum::SetToDefault(_)) => {}
            Some(NodeEnum::MultiAssignRef(_)) => draft.fails = true,
            _ => {
                let place = Place { group: &[], when: changed.when.as_ref(), only_columns: changed.when.is_some() };
                *value = draft.part(value, place)?;
            }
        }
    }
    rest.from_clause = vec![rows_item()];
    let (rows, condition) = changed.split(draft, target, update.returning_clause.as_ref())?;
    rest.where_clause = condition;
    Ok(Some((rows, rest.into_tree())))
}

pub(super) fn delete(draft: &mut Draft<'_>, delete: &DeleteStmt) -> Result<Split> {
    let Some(target) = &delete.relation else { return Ok(None) };
    if !draft.calls_in(&delete.where_clause)? {
        return returning_of_rows(draft, target, delete.returning_clause.as_ref(), |clause| {
            DeleteStmt { returning_clause: Some(clause), ..delete.clone() }.into_tree()
        });
    }
    if !delete.using_clause.is_empty() || delete.with_clause.is_some() {
        return Ok(None);
    }
    let Some(changed) = Changed::of(draft, target, delete.where_clause.as_deref())? else { return Ok(None) };
    let (rows, where_clause) = changed.split(draft, target, delete.returning_clause.as_ref())?;
    Ok(Some((rows, DeleteStmt { using_clause: vec![rows_item()], where_clause, ..delete.clone() }.into_tree())))
}

/// A change of any number of rows whose RETURNING has calls, and nothing else of it.
fn returning_of_rows(
    draft: &mut Draft<'_>,
    target: &RangeVar,
    clause: Option<&ReturningClause>,
    with: impl FnOnce(ReturningClause) -> NodeEnum,
) -> Result<Split> {
    let split = returning(draft, clause, with)?;
    draft.fails |= split.is_some() && touches(draft, target)?;
    Ok(split)
}

fn touches(draft: &Draft<'_>, target: &RangeVar) -> Result<bool> {
    may_touch(draft.ctx, &draft.functions, target)
}

/// The calls of a row see what was changed for those before it. Triggers would fire too often, or too early.
fn one_by_one(draft: &mut Draft<'_>, target: &RangeVar, returning: Option<&ReturningClause>) -> Result<()> {
    draft.one_by_one = true;
    draft.fails |= has_triggers(draft, target)? || returning.is_some();
    Ok(())
}

/// Would it be seen that rows come by several statements?
pub(super) fn has_triggers(draft: &Draft<'_>, target: &RangeVar) -> Result<bool> {
    let table = draft.ctx.distributed(target)?;
    Ok(table.is_none_or(|table| table.has_triggers || !table.captured.is_empty() || table.has_children))
}

/// Which rows are changed.
struct Changed {
    /// Conditions of the rest: the key, and what calls say.
    conditions: Vec<Node>,
    /// Conditions without calls.
    early: Vec<Node>,
    /// What calls say, all in one.
    when: Option<Node>,
}

impl Changed {
    fn of(draft: &mut Draft<'_>, target: &RangeVar, condition: Option<&Node>) -> Result<Option<Self>> {
        let Named::Distributed(relation) = draft.ctx.resolve(target)? else { return Ok(None) };
        let Some(key) = relation.row_key().filter(|_| !relation.has_children) else { return Ok(None) };
        let alias = tree::alias_of(target);
        let mut conditions = Vec::new();
        for column in key {
            let column = tree::column(&[alias, &column.name]);
            let slot = draft.column(&column);
            conditions.push(tree::equal(column, slot));
        }
        let (early, kept, when) = select::conditions(draft, condition, &[])?;
        conditions.extend(kept);
        Ok(Some(Self { conditions, early, when }))
    }

    /// The rows, which nobody else changes from here on, and the condition of the rest.
    fn split(
        self,
        draft: &mut Draft<'_>,
        target: &RangeVar,
        returning: Option<&ReturningClause>,
    ) -> Result<(NodeEnum, Option<Box<Node>>)> {
        let returned = returning.map_or(Ok(Vec::new()), |clause| called(draft.ctx, clause))?;
        draft.fails |= meet(draft.ctx, &draft.functions, &returned)?;
        // A function that changes a row that is to be changed is an error in PostgreSQL, which nobody here finds.
        if touches(draft, target)? {
            draft.fails |= !read_only(draft.ctx, &draft.functions)?;
            one_by_one(draft, target, returning)?;
        }
        let rows = SelectStmt {
            target_list: draft.targets(),
            from_clause: vec![tree::node(NodeEnum::RangeVar(target.clone()))],
            where_clause: tree::conjunction(self.early).map(Box::new),
            locking_clause: vec![tree::for_update(Vec::new())],
            ..tree::empty_select()
        };
        Ok((rows.into_tree(), tree::conjunction(self.conditions).map(Box::new)))
    }
}

/// A change whose RETURNING has calls, and nothing else of it.
fn returning(
    draft: &mut Draft<'_>,
    clause: Option<&ReturningClause>,
    with: impl FnOnce(ReturningClause) -> NodeEnum,
) -> Result<Split> {
    let Some(clause) = clause.filter(|clause| clause.options.is_empty()) else { return Ok(None) };
    if !draft.calls_in(&clause.exprs)? {
        return Ok(None);
    }
    let mut rest = SelectStmt { from_clause: vec![rows_item()], ..tree::empty_select() };
    for item in &clause.exprs {
        let mut item = item.clone();
        tree::name_output(&mut item);
        if let Some(item) = item.get_mut::<ResTarget>()
            && let Some(value) = item.val.as_deref_mut()
        {
            *value = draft.part(value, Place { group: &[], when: None, only_columns: false })?;
        }
        rest.target_list.push(item);
    }
    draft.changes_first = true;
    let rows = with(ReturningClause { exprs: draft.targets(), ..clause.clone() });
    Ok(Some((rows, rest.into_tree())))
}
