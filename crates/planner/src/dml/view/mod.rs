//! Changes through views, as far as PostgreSQL allows them without triggers: one table, plain columns, a condition.
//!
//! Where the change runs is found out from the statement about the table. The nodes get the user's own text whenever they can
//! run a text as it is: then rights, CHECK OPTION and errors are the view's. Otherwise the user needs rights on both.

use std::sync::Arc;

use catalog::{Relation, RelationKind, RuleEvent};
use pg_query::protobuf::{ColumnRef, IndexElem, OnConflictClause, RangeVar, ResTarget, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::{Context, Named};
use crate::dml::event_of;
use crate::facts::code;
use crate::parse::Statement;
use crate::plan::{InsertStaged, Plan, Replicate, Scatter};
use crate::select::shape;
use crate::tree::{self, Get, Ref, Walk};
use crate::views::{self, VIEW_DEPTH_MAX};

mod defaults;
mod insert;

use insert::Shown;

/// The plan, if the statement's target is a view.
pub(crate) fn through_view(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Plan>> {
    let Some(original) = statement.node() else { return Ok(None) };
    let mut tree = original.clone();
    let (mut checked, mut outermost, mut by_columns) = (None, None, false);
    let (mut depth, mut shown) = (0, Shown::default());
    while let Some(view) = target_view(ctx, &tree)? {
        depth += 1;
        // Without PostgreSQL's analysis a bare name may be anybody's.
        if ctx.analysis.is_none() && !statement.inserts_constants() {
            return Err(refused(&view, "Its names have not been looked up, since a lock or READ ONLY was in the way."));
        }
        if depth > VIEW_DEPTH_MAX {
            return Err(refused(&view, "It is nested too deep."));
        }
        if view.check_option {
            checked = Some(view.clone());
        }
        by_columns |= ctx.catalog.has_column_grants(view.oid);
        outermost.get_or_insert_with(|| view.clone());
        let through = Through::new(ctx, view, &tree)?;
        shown.under(through.columns.iter().map(|seen| (seen.name.clone(), seen.of.clone())));
        if checked.is_some() && matches!(tree, NodeEnum::InsertStmt(_)) {
            through.check_everywhere(ctx)?;
        }
        through.rewrite(&mut tree)?;
    }
    let Some(outermost) = outermost else { return Ok(None) };
    let rewritten = crate::parse::build(&tree::deparse(&tree)?, tree)?;
    let mut plan = ctx.planner.plan_part(ctx, &rewritten)?;
    let own = || statement.sql.to_string();
    // Its owner's. A user with rights on some columns has them for what he names, and a row of the stage has all.
    let asks_policies =
        |insert: &InsertStaged| insert.stage.target.is_barrier && !by_columns && insert.rights_sql.is_none();
    let is_temporary = views::is_temporary(&outermost);
    match &mut plan {
        // Only the home node knows it.
        Plan::Forward(_) | Plan::Scatter(_) | Plan::Replicate(_) | Plan::InsertSplit(_) if is_temporary => {
            if let Some(view) = checked {
                return Err(refused(&view, "It has CHECK OPTION and is temporary."));
            }
        }
        Plan::Forward(forward) if *forward.sql == *rewritten.sql => forward.sql = own(),
        // The user may have no right on what is under the view: its own name is locked.
        Plan::Scatter(scatter) if *scatter.sql == *rewritten.sql => {
            *scatter = Scatter::of(statement, std::mem::take(&mut scatter.nodes), scatter.writes);
        }
        Plan::Replicate(replicate) if *replicate.sql == *rewritten.sql => {
            *replicate = Replicate::of(statement, std::mem::take(&mut replicate.nodes));
        }
        Plan::InsertSplit(split) => insert::split(statement, split)?,
        Plan::InsertStaged(insert) if !is_temporary && (checked.is_some() || asks_policies(insert)) => {
            insert.rights_sql = Some(own());
            let through = insert::staged(statement, &outermost, &shown, insert);
            checked.map_or(Ok(()), |_| through)?;
        }
        _ if let Some(view) = checked => {
            return Err(refused(&view, "It has CHECK OPTION, and the rows do not stay on the nodes that check them."));
        }
        Plan::StagedDml(change) => {
            change.original = own();
            change.rights_sql = Some(own());
        }
        Plan::InsertStaged(insert) => insert.rights_sql = Some(own()),
        _ => {}
    }
    Ok(Some(plan))
}

/// The only table or view that a view shows, if a change of it, by this bit of `pg_trigger.tgtype`, is one of that.
pub(crate) fn table_under(view: &Relation, event: i16) -> Result<Option<RangeVar>> {
    match &view.view_definition {
        Some(definition) if view.kind == RelationKind::View && !view.is_changed_instead(event) => {
            Ok(only_table(&tree::parse_select(definition)?))
        }
        _ => Ok(None),
    }
}

/// The distributed table that a name means, or that is changed by such a change of the view of that name.
pub(crate) fn table_behind(ctx: &Context<'_>, name: &RangeVar, event: i16) -> Result<Option<Arc<Relation>>> {
    let mut name = name.clone();
    for _ in 0..VIEW_DEPTH_MAX {
        match ctx.resolve(&name)? {
            Named::Distributed(table) => return Ok(Some(table)),
            Named::View(view) => match table_under(&view, event)? {
                Some(under) => name = under,
                None => return Ok(None),
            },
            Named::Home(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// Makes a change of the view one of what lies under it.
pub(crate) fn one_view_down(ctx: &Context<'_>, view: &Arc<Relation>, tree: &mut NodeEnum) -> Result<()> {
    Through::new(ctx, view.clone(), tree)?.rewrite(tree)
}

pub(super) fn refused(view: &Relation, why: &str) -> PgError {
    PgError::unsupported(format!("this change of view \"{}\"", view.name))
        .detail(why)
        .hint("Change the table under the view.")
}

fn target_view(ctx: &Context<'_>, tree: &NodeEnum) -> Result<Option<Arc<Relation>>> {
    // MERGE comes to its view by itself.
    let target = tree::target_of(tree).filter(|_| !matches!(tree, NodeEnum::MergeStmt(_)));
    Ok(match target.map(|name| ctx.resolve(name)).transpose()? {
        Some(Named::View(view)) => Some(view),
        _ => None,
    })
}

/// One view, and what the statement calls it.
struct Through {
    view: Arc<Relation>,
    alias: String,
    base: RangeVar,
    /// What the view's own text calls its table.
    base_name: String,
    columns: Vec<Seen>,
    condition: Option<Node>,
}

/// A column of a view.
struct Seen {
    name: String,
    /// The table's column, if it is plainly one.
    of: Option<String>,
    value: Node,
}

impl Through {
    fn new(ctx: &Context<'_>, view: Arc<Relation>, tree: &NodeEnum) -> Result<Self> {
        if view.is_changed_instead(Ref::of(tree).and_then(event_of).map_or(-1, RuleEvent::bit)) {
            let why = "Its INSTEAD OF triggers are not fired in WITH, under CHECK OPTION, or of a temporary view.";
            return Err(refused(&view, why));
        }
        let text = view.view_definition.as_deref().unwrap_or_default();
        let select = tree::parse_select(text.trim_end().trim_end_matches(';'))?;
        views::says_all(&view, &select)?;
        let Some(base) = only_table(&select) else {
            return Err(refused(&view, "It is not just some columns and rows of one table."));
        };
        let seen = view.columns.iter().zip(&select.target_list).filter_map(|(column, target)| {
            let value = tree::value_of(target)?.clone();
            let of = value.get::<ColumnRef>().and_then(|column| tree::last_name(&column.fields).map(str::to_owned));
            Some(Seen { name: column.name.clone(), of, value })
        });
        let columns = seen.collect();
        if matches!(ctx.resolve(&base)?, Named::Home(_)) {
            return Err(refused(&view, "Its table is no distributed one."));
        }
        let condition = select.where_clause.as_deref().cloned();
        let base_name = tree::alias_of(&base).to_owned();
        let base = RangeVar { alias: None, ..base };
        let alias = tree::target_of(tree).map(tree::alias_of).unwrap_or_default().to_owned();
        Ok(Self { view, alias, base, base_name, columns, condition })
    }

    /// CHECK OPTION of new rows: each node must have all that the condition looks at.
    fn check_everywhere(&self, ctx: &Context<'_>) -> Result<()> {
        let is_everywhere = |table: &Relation| code::is_on_all_nodes(ctx.catalog, table);
        let is_elsewhere = |named: &Named| !matches!(named, Named::Distributed(table) if is_everywhere(table));
        match ctx.names(&self.condition, is_elsewhere)? {
            true => Err(self.refused("It has CHECK OPTION, and looks at rows that are not on every node.")),
            false => Ok(()),
        }
    }

    fn refused(&self, why: &str) -> PgError {
        refused(&self.view, why)
    }

    /// Makes the statement one about what lies under the view.
    fn rewrite(self, tree: &mut NodeEnum) -> Result<()> {
        match tree {
            NodeEnum::InsertStmt(insert) => {
                defaults::of_insert(&self.view, insert)?;
                if insert.cols.is_empty() && insert.select_stmt.is_some() {
                    let query = insert.select_stmt.get::<SelectStmt>();
                    let count = query.and_then(tree::width).unwrap_or(self.columns.len());
                    insert.cols =
                        self.columns.iter().take(count).map(|seen| tree::target_name_only(&seen.name)).collect();
                }
                self.rename_targets(&mut insert.cols, false)?;
                if let Some(conflict) = &mut insert.on_conflict_clause {
                    self.conflict(conflict)?;
                }
            }
            NodeEnum::UpdateStmt(update) => {
                defaults::of_update(&self.view, &mut update.target_list)?;
                self.rename_targets(&mut update.target_list, false)?;
                self.restrict(&mut update.where_clause)?;
            }
            NodeEnum::DeleteStmt(delete) => self.restrict(&mut delete.where_clause)?,
            _ => return Err(PgError::internal("no data change")),
        }
        if let Some(Some(returning)) = tree::returning_mut(tree) {
            self.show(&mut returning.exprs)?;
        }
        let Some(Some(target)) = tree::target_mut(tree) else {
            return Err(PgError::internal("a data change without a target"));
        };
        let alias = tree::alias(&self.alias);
        *target = RangeVar { alias: Some(alias), ..self.base.clone() };
        Ok(())
    }

    /// Is it a column of the view? In ON CONFLICT bare ones are, and those of the row that was to be inserted.
    fn is_ours(&self, column: &ColumnRef, in_conflict: bool) -> bool {
        match column.fields.iter().rev().nth(1) {
            Some(table) => {
                let table = tree::text_of(table).unwrap_or_default();
                table == self.alias || in_conflict && table == "excluded"
            }
            None => in_conflict,
        }
    }

    fn seen(&self, name: &str) -> Option<&Seen> {
        self.columns.iter().find(|seen| seen.name == name)
    }

    fn under(&self, name: &str) -> Result<&str> {
        let found = self.seen(name).and_then(|seen| seen.of.as_deref());
        found.ok_or_else(|| self.refused(&format!("Column \"{name}\" is no column of its table.")))
    }

    /// ON CONFLICT names columns of the view, and EXCLUDED has them too.
    fn conflict(&self, conflict: &mut OnConflictClause) -> Result<()> {
        if let Some(infer) = &mut conflict.infer {
            for element in &mut infer.index_elems {
                if let Some(element) = element.get_mut::<IndexElem>() {
                    if element.expr.is_none() {
                        element.name = self.under(&element.name)?.to_owned();
                    }
                    self.rename(&mut element.expr, true)?;
                }
            }
            self.rename(&mut infer.where_clause, true)?;
        }
        self.rename_targets(&mut conflict.target_list, true)?;
        self.rename(&mut conflict.where_clause, true)
    }

    fn rename_targets(&self, targets: &mut [Node], in_conflict: bool) -> Result<()> {
        for target in targets {
            if let Some(target) = target.get_mut::<ResTarget>() {
                target.name = self.under(&target.name)?.to_owned();
                self.rename(&mut target.val, in_conflict)?;
            }
        }
        Ok(())
    }

    /// Column references of the user's, as the table names them.
    fn rename<T: Walk>(&self, expression: &mut T, in_conflict: bool) -> Result<()> {
        expression.rewrite(&mut |node| {
            let Some(column) = node.get_mut::<ColumnRef>() else { return Ok(true) };
            let name = tree::last_name(&column.fields);
            let Some(seen) = name.and_then(|name| self.seen(name)).filter(|_| self.is_ours(column, in_conflict)) else {
                return Ok(true);
            };
            match &seen.of {
                Some(of) => {
                    column.fields.pop();
                    column.fields.push(tree::string(of));
                }
                None => {
                    let before = column.fields.iter().rev().nth(1).and_then(tree::text_of);
                    let prefix = before.unwrap_or(&self.alias).to_owned();
                    *node = self.of_row(&seen.value, &prefix)?;
                }
            }
            Ok(false)
        })
    }

    /// An expression of the view's own text, of the row that the statement calls so.
    fn of_row(&self, expression: &Node, prefix: &str) -> Result<Node> {
        let mut expression = expression.clone();
        self.prefix(&mut expression, prefix, false)?;
        Ok(expression)
    }

    /// PostgreSQL writes the table before each column within a sub-select, under a name that is used once.
    fn prefix<T: Walk>(&self, expression: &mut T, prefix: &str, is_inner: bool) -> Result<()> {
        expression.rewrite(&mut |node| {
            match &mut node.node {
                Some(NodeEnum::SubLink(link)) => {
                    self.prefix(&mut link.testexpr, prefix, is_inner)?;
                    self.prefix(&mut link.subselect, prefix, true)?;
                    return Ok(false);
                }
                Some(NodeEnum::RangeVar(name)) => {
                    let own = tree::alias_of(name);
                    if own == prefix {
                        return Err(self.refused(&format!("Its condition has another table \"{own}\".")));
                    }
                }
                Some(NodeEnum::ColumnRef(column)) => match column.fields.as_mut_slice() {
                    [_] if is_inner => return Err(self.refused("A column in a sub-select of its may be any table's.")),
                    [_] => column.fields.insert(0, tree::string(prefix)),
                    [first, ..] if tree::text_of(first) == Some(&self.base_name) => *first = tree::string(prefix),
                    _ => {}
                },
                _ => {}
            }
            Ok(true)
        })
    }

    /// Adds the view's condition.
    fn restrict(&self, condition: &mut Option<Box<Node>>) -> Result<()> {
        self.rename(condition, false)?;
        let own = self.condition.as_ref().map(|own| self.of_row(own, &self.alias)).transpose()?;
        let all = [condition.take().map(|condition| *condition), own].into_iter().flatten().collect();
        *condition = tree::conjunction(all).map(Box::new);
        Ok(())
    }

    /// RETURNING gives the view's columns under the view's names.
    fn show(&self, list: &mut [Node]) -> Result<()> {
        for item in list {
            tree::name_output(item);
            let Some(target) = item.get_mut::<ResTarget>() else { return Err(PgError::internal("RETURNING")) };
            self.rename(&mut target.val, false)?;
        }
        Ok(())
    }
}

/// `view_query_is_auto_updatable` (PostgreSQL's `rewriteHandler.c`): the only table, if nothing is done but choosing from it.
fn only_table(select: &SelectStmt) -> Option<RangeVar> {
    let plain = shape::only_chooses(select) && select.window_clause.is_empty();
    match select.from_clause.as_slice() {
        [Node { node: Some(NodeEnum::RangeVar(name)) }] if plain => Some(name.clone()),
        _ => None,
    }
}
