//! Changes through views, as far as PostgreSQL allows them without triggers: one table, some columns, a condition.
//!
//! Where the change runs is found out from the statement about the table. The nodes get the user's own text whenever they can
//! run a text as it is: then rights, CHECK OPTION and errors are the view's.

use std::sync::Arc;

use catalog::Relation;
use pg_query::protobuf::{Alias, ColumnRef, RangeVar, SelectStmt, SetOperation};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::{has_sub_link, width};
use crate::context::{Context, Named};
use crate::parse::Statement;
use crate::plan::Plan;
use crate::tree::{self, Ref, Walk};

/// PostgreSQL has no limit of its own but its stack.
const DEPTH_MAX: usize = 32;

/// The plan, if the statement's target is a view.
pub(crate) fn through_view(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Plan>> {
    let Some(original) = statement.node() else { return Ok(None) };
    let mut tree = original.clone();
    let mut checked = None;
    let mut depth = 0;
    while let Some(view) = target_view(ctx, &tree)? {
        depth += 1;
        if depth > DEPTH_MAX {
            return Err(refused(&view, "It is nested too deep."));
        }
        if view.check_option {
            checked = Some(view.clone());
        }
        Through::new(ctx, view, &tree)?.rewrite(&mut tree)?;
    }
    if depth == 0 {
        return Ok(None);
    }
    let rewritten = crate::parse::build(&tree::deparse(&tree)?, tree)?;
    let mut plan = crate::plan_in(ctx, &rewritten)?;
    let own = || statement.sql.to_string();
    match &mut plan {
        Plan::Forward(forward) if *forward.sql == *rewritten.sql => forward.sql = own(),
        Plan::Scatter(scatter) if *scatter.sql == *rewritten.sql => scatter.sql = own(),
        Plan::Replicate(replicate) if *replicate.sql == *rewritten.sql => replicate.sql = own(),
        _ if let Some(view) = checked => {
            return Err(refused(&view, "It has CHECK OPTION, and the rows do not stay on the nodes that check them."));
        }
        Plan::Change(change) => change.original = own(),
        _ => {}
    }
    Ok(Some(plan))
}

fn refused(view: &Relation, why: &str) -> PgError {
    PgError::unsupported(format!("this change of view \"{}\"", view.name))
        .detail(why)
        .hint("Change the table under the view.")
}

fn target_mut(tree: &mut NodeEnum) -> Option<&mut RangeVar> {
    match tree {
        NodeEnum::InsertStmt(insert) => insert.relation.as_mut(),
        NodeEnum::UpdateStmt(update) => update.relation.as_mut(),
        NodeEnum::DeleteStmt(delete) => delete.relation.as_mut(),
        _ => None,
    }
}

fn target_view(ctx: &Context<'_>, tree: &NodeEnum) -> Result<Option<Arc<Relation>>> {
    let target = match tree {
        NodeEnum::InsertStmt(insert) => &insert.relation,
        NodeEnum::UpdateStmt(update) => &update.relation,
        NodeEnum::DeleteStmt(delete) => &delete.relation,
        _ => return Ok(None),
    };
    Ok(match target.as_ref().map(|name| ctx.resolve(name)).transpose()? {
        Some(Named::View(view)) => Some(view),
        _ => None,
    })
}

/// One view, and what the statement calls it.
struct Through {
    view: Arc<Relation>,
    alias: String,
    base: RangeVar,
    /// The view's columns and, if they are plain columns of the table, those.
    columns: Vec<(String, Option<String>)>,
    /// How the others are computed of the table's columns.
    computed: Vec<(String, Node)>,
    /// Of the table, and not to be seen through the view.
    hidden: Vec<String>,
    condition: Option<Node>,
}

impl Through {
    fn new(ctx: &Context<'_>, view: Arc<Relation>, tree: &NodeEnum) -> Result<Self> {
        if view.has_triggers || view.columns.iter().any(|column| column.default.is_some()) {
            return Err(refused(&view, "It has triggers, or defaults of its own."));
        }
        let text = view.view_definition.as_deref().unwrap_or_default();
        let select = tree::parse_select(text.trim_end().trim_end_matches(';'))?;
        let Some(base) = only_table(&select) else {
            return Err(refused(&view, "It is not just some columns and rows of one table."));
        };
        let names = select.target_list.iter().map(plain_column);
        let columns: Vec<_> = view.columns.iter().map(|column| column.name.clone()).zip(names).collect();
        let all: Vec<String> = match ctx.resolve(&base)? {
            Named::Distributed(table) | Named::View(table) => table.columns.iter().map(|c| c.name.clone()).collect(),
            Named::Home(_) => return Err(refused(&view, "Its table is no distributed one.")),
        };
        let seen = |name: &String| columns.iter().any(|(own, of)| own == name && of.as_ref() == Some(name));
        let hidden = all.into_iter().filter(|name| !seen(name)).collect();
        let condition = select.where_clause.as_deref().cloned();
        let conditions: Vec<&Node> = condition.iter().collect();
        if has_sub_link(&conditions)? {
            return Err(refused(&view, "Its condition has a sub-select."));
        }
        let alias = target_alias(tree);
        let mut computed = Vec::new();
        for ((name, plain), target) in columns.iter().zip(&select.target_list) {
            let Some(NodeEnum::ResTarget(target)) = &target.node else { continue };
            if let (None, Some(value)) = (plain, target.val.as_deref())
                && !has_sub_link(&[value])?
            {
                computed.push((name.clone(), qualified(value.clone(), &alias)?));
            }
        }
        Ok(Self { view, alias, base, columns, computed, hidden, condition })
    }

    fn refused(&self, why: &str) -> PgError {
        refused(&self.view, why)
    }

    /// Makes the statement one about what lies under the view.
    fn rewrite(&self, tree: &mut NodeEnum) -> Result<()> {
        let others = match &*tree {
            NodeEnum::UpdateStmt(update) => !update.from_clause.is_empty(),
            NodeEnum::DeleteStmt(delete) => !delete.using_clause.is_empty(),
            _ => false,
        };
        self.check_names(tree, others)?;
        match tree {
            NodeEnum::InsertStmt(insert) => {
                if insert.cols.is_empty() {
                    let query = super::select_of(insert.select_stmt.as_deref());
                    let count = query.and_then(width).unwrap_or(self.columns.len());
                    insert.cols =
                        self.columns.iter().take(count).map(|(name, _)| tree::target_name_only(name)).collect();
                }
                self.rename_targets(&mut insert.cols)?;
                if insert.on_conflict_clause.is_some() && self.columns.iter().any(|(own, of)| of.as_ref() != Some(own))
                {
                    return Err(self.refused("ON CONFLICT would have to name other columns."));
                }
                if let Some(returning) = &mut insert.returning_clause {
                    self.show(&mut returning.exprs)?;
                }
            }
            NodeEnum::UpdateStmt(update) => {
                self.rename_targets(&mut update.target_list)?;
                self.restrict(&mut update.where_clause)?;
                if let Some(returning) = &mut update.returning_clause {
                    self.show(&mut returning.exprs)?;
                }
            }
            NodeEnum::DeleteStmt(delete) => {
                self.restrict(&mut delete.where_clause)?;
                if let Some(returning) = &mut delete.returning_clause {
                    self.show(&mut returning.exprs)?;
                }
            }
            _ => return Err(PgError::internal("no data change")),
        }
        let Some(target) = target_mut(tree) else { return Err(PgError::internal("a data change without a target")) };
        let alias = Alias { aliasname: self.alias.clone(), colnames: Vec::new() };
        *target = RangeVar { alias: Some(alias), ..self.base.clone() };
        Ok(())
    }

    /// A column under another name, or one that the view hides, is told from other tables' columns only if there are none.
    fn check_names(&self, tree: &NodeEnum, others: bool) -> Result<()> {
        let renamed = |name: &str| self.columns.iter().any(|(own, of)| own == name && of.as_deref() != Some(name));
        let mut doubtful = None;
        let mut links = false;
        let mut look = |node: Ref<'_>| {
            match node {
                Ref::ColumnRef(column) => match column.fields.last().and_then(tree::text_of) {
                    Some(name) if renamed(name) || self.hidden.iter().any(|hidden| hidden == name) => {
                        doubtful = Some(name.to_owned());
                    }
                    _ => {}
                },
                Ref::SelectStmt(select) => links |= !select.from_clause.is_empty(),
                _ => {}
            }
            Ok(true)
        };
        match tree {
            // Its query sees other tables only.
            NodeEnum::InsertStmt(insert) => {
                insert.returning_clause.walk(&mut look)?;
                insert.on_conflict_clause.walk(&mut look)?;
            }
            other => other.walk(&mut look)?,
        }
        let Some(name) = doubtful else { return Ok(()) };
        let is_known = self.columns.iter().any(|(own, of)| *own == name && (of.is_some() || self.value(own).is_some()));
        match others || links || !is_known {
            true => Err(self.refused(&format!("Column \"{name}\" bears another name in its table."))),
            false => Ok(()),
        }
    }

    fn under(&self, name: &str) -> Result<&str> {
        let found = self.columns.iter().find(|(own, _)| own == name).and_then(|(_, of)| of.as_deref());
        found.ok_or_else(|| self.refused(&format!("Column \"{name}\" is no column of its table.")))
    }

    /// A computed column's expression.
    fn value(&self, name: &str) -> Option<&Node> {
        self.computed.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    fn rename_targets(&self, targets: &mut [Node]) -> Result<()> {
        for target in targets {
            if let Some(NodeEnum::ResTarget(target)) = &mut target.node {
                target.name = self.under(&target.name)?.to_owned();
                self.rename(&mut target.val)?;
            }
        }
        Ok(())
    }

    /// Column references of the user's, as the table names them.
    fn rename<T: Walk>(&self, expression: &mut T) -> Result<()> {
        expression.rewrite(&mut |node| {
            let Some(NodeEnum::ColumnRef(column)) = &mut node.node else { return Ok(true) };
            let Some(name) = column.fields.last().and_then(tree::text_of) else { return Ok(true) };
            if let Some((_, Some(of))) = self.columns.iter().find(|(own, _)| own == name) {
                let of = tree::string(of);
                column.fields.pop();
                column.fields.push(of);
            } else if let Some(value) = self.value(name) {
                *node = value.clone();
            }
            Ok(false)
        })
    }

    /// Adds the view's condition.
    fn restrict(&self, condition: &mut Option<Box<Node>>) -> Result<()> {
        self.rename(condition)?;
        let Some(own) = self.condition.clone() else { return Ok(()) };
        let own = qualified(own, &self.alias)?;
        let all = [condition.take().map(|condition| *condition), Some(own)].into_iter().flatten().collect();
        *condition = tree::conjunction(all).map(Box::new);
        Ok(())
    }

    /// RETURNING gives the view's columns under the view's names.
    fn show(&self, list: &mut Vec<Node>) -> Result<()> {
        let mut shown = Vec::new();
        for mut item in std::mem::take(list) {
            let Some(NodeEnum::ResTarget(target)) = &mut item.node else { return Err(PgError::internal("RETURNING")) };
            if target.val.as_deref().is_some_and(|value| is_star_of(value, &self.alias)) {
                for (own, of) in &self.columns {
                    let value = match of {
                        Some(of) => tree::column(&[&self.alias, of]),
                        None => {
                            self.value(own).cloned().ok_or_else(|| self.refused("RETURNING gives a sub-select."))?
                        }
                    };
                    shown.push(tree::target(value, Some(own)));
                }
                continue;
            }
            if target.name.is_empty() {
                target.name = tree::output_name(target);
            }
            self.rename(&mut target.val)?;
            shown.push(item);
        }
        *list = shown;
        Ok(())
    }
}

/// An expression of the view's, whose columns are those of what the statement calls `alias`.
fn qualified(mut expression: Node, alias: &str) -> Result<Node> {
    expression.rewrite(&mut |node| {
        if let Some(NodeEnum::ColumnRef(column)) = &mut node.node {
            let name = column.fields.last().cloned();
            *column = ColumnRef { fields: [tree::string(alias)].into_iter().chain(name).collect(), location: -1 };
        }
        Ok(true)
    })?;
    Ok(expression)
}

fn is_star_of(value: &Node, alias: &str) -> bool {
    let Some(NodeEnum::ColumnRef(column)) = &value.node else { return false };
    let is_star = |node: &Node| matches!(node.node, Some(NodeEnum::AStar(_)));
    match column.fields.as_slice() {
        [star] => is_star(star),
        [name, star] => is_star(star) && tree::text_of(name) == Some(alias),
        _ => false,
    }
}

fn target_alias(tree: &NodeEnum) -> String {
    let target = match tree {
        NodeEnum::InsertStmt(insert) => insert.relation.as_ref(),
        NodeEnum::UpdateStmt(update) => update.relation.as_ref(),
        NodeEnum::DeleteStmt(delete) => delete.relation.as_ref(),
        _ => None,
    };
    let alias = |target: &RangeVar| target.alias.as_ref().map_or(target.relname.clone(), |a| a.aliasname.clone());
    target.map(alias).unwrap_or_default()
}

/// `view_query_is_auto_updatable` (PostgreSQL's `rewriteHandler.c`): the only table, if nothing is done but choosing from it.
fn only_table(select: &SelectStmt) -> Option<RangeVar> {
    let plain = select.op == SetOperation::SetopNone as i32
        && select.distinct_clause.is_empty()
        && select.group_clause.is_empty()
        && select.having_clause.is_none()
        && select.window_clause.is_empty()
        && select.values_lists.is_empty()
        && select.limit_count.is_none()
        && select.limit_offset.is_none()
        && select.with_clause.is_none();
    match select.from_clause.as_slice() {
        [Node { node: Some(NodeEnum::RangeVar(name)) }] if plain => Some(RangeVar { alias: None, ..name.clone() }),
        _ => None,
    }
}

fn plain_column(target: &Node) -> Option<String> {
    let Some(NodeEnum::ResTarget(target)) = &target.node else { return None };
    match &target.val.as_deref()?.node {
        Some(NodeEnum::ColumnRef(column)) => column.fields.last().and_then(tree::text_of).map(str::to_owned),
        _ => None,
    }
}
