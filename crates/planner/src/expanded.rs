//! Which views a plan replaces by their definitions, and whose rights their tables are read with then.

use std::borrow::Cow;

use catalog::{Oid, Relation, RelationKind};
use pg_query::NodeEnum;
use pg_query::protobuf::RangeVar;
use pgerror::Result;

use crate::context::{Context, Named};
use crate::facts::definitions::definition;
use crate::parse::{self, Statement, StatementKind};
use crate::plan::Plan;
use crate::rewrite::inline;
use crate::tree::{self, Ask, Ref, Walk};
use crate::views::{VIEW_DEPTH_MAX, is_temporary, reads_as_table, reads_as_tables};
use crate::{ddl, first_copy};

/// Views of a statement that a plan which moves their rows replaces by their definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Expanded {
    /// Those that the statement itself reads: the user needs the right to.
    pub read: Vec<(String, Oid)>,
    /// Owners of the views.
    pub owners: Vec<String>,
    /// There are views under them, on which their owners need rights.
    pub nested: bool,
    /// What they read with their owners' rights, and the plan with the user's.
    pub tables: Vec<ReadAs>,
    /// The query or change that names them: the statement, or what is in it, with the bodies of functions that the plan puts in.
    pub sql: String,
}

/// A table under a view.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ReadAs {
    pub view: String,
    /// The view of the statement that it is under; none if the statement changes rows by way of that.
    pub under: Option<Oid>,
    pub owner: String,
    pub table: Oid,
    /// Policies say which rows are there.
    pub has_policies: bool,
}

/// See [`Expanded`].
pub(crate) fn expanded(ctx: &Context<'_>, plan: &Plan, statement: &Statement) -> Result<Expanded> {
    let mut found = Expanded::default();
    let Some(statement) = rows_of(ctx, statement)? else { return Ok(found) };
    let moves_rows = match plan {
        Plan::Ddl(ddl) => ddl.fills_by.is_some() && ctx.planner.plan_as_it_stands(ctx, &statement)?.facts().moves_rows,
        plan => plan.facts().moves_rows,
    };
    let statement = inline::inline(ctx, &statement, false)?.map_or(statement, Cow::Owned);
    let Some(tree) = statement.node() else { return Ok(found) };
    let target = tree::target_of(tree).map(|name| name as *const RangeVar);
    let is_opened = |node| match node {
        Ref::RangeVar(name) if Some(name as *const RangeVar) != target => inline::calling_view(ctx, name),
        _ => Ok(None),
    };
    if !moves_rows && !tree.try_any(|node| Ok(is_opened(node)?.is_some()))? {
        return Ok(found);
    }
    found.sql = statement.sql.to_string();
    let on_first = first_copy::may_be_taken(ctx, &statement)?;
    let ctx = &Context { on_first: Some(&on_first), ..*ctx };
    let as_tables = reads_as_tables(tree)?;
    let (mut targets, mut filled): (Vec<*const RangeVar>, Vec<*const RangeVar>) = (Vec::new(), Vec::new());
    tree.each(|node| {
        targets.extend(tree::changed(node).map(|name| name as *const RangeVar));
        // Nothing is read there, and the right to insert is lent.
        if let Ref::InsertStmt(insert) = node
            && !plan.is_by_users_policies()
            && insert.returning_clause.is_none()
            && insert.on_conflict_clause.is_none()
        {
            filled.extend(insert.relation.as_ref().map(|name| name as *const RangeVar));
        }
    })?;
    let mut views = Vec::new();
    tree.walk(&mut |node| {
        if let Ref::RangeVar(name) = node
            && let Named::View(view) = ctx.resolve(name)?
        {
            let is_target = targets.contains(&(name as *const RangeVar));
            let is_filled = filled.contains(&(name as *const RangeVar));
            if !is_filled && (is_target || !(as_tables && reads_as_table(ctx, &view)?)) {
                views.push((view, is_target));
            }
        }
        Ok(true)
    })?;
    let read = views.iter().filter(|(view, is_target)| !is_target && !is_temporary(view));
    found.read = read.map(|(view, _)| (view.name.clone(), view.oid)).collect();
    for (view, is_target) in views {
        let under = (!is_target).then_some(view.oid);
        add_tables(&ctx.of_body(), &view, under, (as_tables, 0), &mut found)?;
    }
    Ok(found)
}

/// The query or change whose rows a statement is about.
fn rows_of<'s>(ctx: &Context<'_>, statement: &'s Statement) -> Result<Option<Cow<'s, Statement>>> {
    let built = |query: NodeEnum| parse::build(&tree::deparse(&query)?, query).map(Cow::Owned);
    if let Some(inner) = statement.inner() {
        return rows_of(ctx, inner);
    }
    match (&statement.kind, statement.node()) {
        (StatementKind::CreateTableAs, Some(node)) => {
            let query = ddl::normal_form(node)?.query.and_then(|query| query.node);
            query.map(built).transpose()
        }
        (StatementKind::RefreshMaterializedView, Some(NodeEnum::RefreshMatViewStmt(refresh))) => {
            ddl::refreshed_query(ctx, refresh)?.map(built).transpose()
        }
        (kind, _) => Ok(kind.row_command().map(|_| Cow::Borrowed(statement))),
    }
}

fn add_tables(
    ctx: &Context<'_>,
    view: &Relation,
    under: Option<Oid>,
    (as_tables, depth): (bool, usize),
    found: &mut Expanded,
) -> Result<()> {
    let body = definition(view)?;
    found.nested |= depth > 0;
    let mut read = ctx.tables(&body)?;
    let mut inner = Vec::new();
    for name in body.tables()? {
        match ctx.resolve(name)? {
            Named::View(view) if as_tables && reads_as_table(ctx, &view)? => read.push(view),
            Named::View(view) => inner.push(view),
            Named::Home(Some(of_home)) if of_home.kind == RelationKind::MaterializedView => read.push(of_home),
            Named::Home(_) | Named::Distributed(_) => {}
        }
    }
    if let Some(owner) = ctx.catalog.view_owner(view.oid) {
        if !found.owners.iter().any(|known| known == owner) {
            found.owners.push(owner.to_owned());
        }
        found.tables.extend(read.into_iter().map(|table| ReadAs {
            view: view.name.clone(),
            under,
            owner: owner.to_owned(),
            table: table.oid,
            has_policies: table.is_barrier && table.kind != RelationKind::View,
        }));
    }
    let mut deeper = inner.iter().filter(|_| depth < VIEW_DEPTH_MAX);
    deeper.try_for_each(|view| add_tables(ctx, view, under, (as_tables, depth + 1), found))
}
