//! Materialized views: the home node has their rows, all of them; the other nodes have them empty, for what else is defined there over them.
//!
//! One over what the home node has is PostgreSQL's own business. Any other is made, or refreshed, empty; then the rows that its
//! query gives over all nodes are put in, for which it is a table for a moment ([`Fill`]).

use catalog::Oid;
use pg_query::NodeEnum;
use pg_query::protobuf::{CreateTableAsStmt, RefreshMatViewStmt};
use pgerror::{PgError, Result};

use super::create_as::shell;
use super::{as_it_stands, boxed, create, everywhere};
use crate::context::{Context, Named};
use crate::facts::functions::facts;
use crate::parse::Statement;
use crate::plan::{DdlKind, DdlPlan, Elsewhere, Fill, Plan};
use crate::select;
use crate::tree::{self, Syntax};
use crate::views;

/// CREATE MATERIALIZED VIEW.
pub(super) fn create(
    ctx: &Context<'_>,
    statement: &Statement,
    ctas: &CreateTableAsStmt,
    query: &NodeEnum,
) -> Result<Plan> {
    let mut plan = as_it_stands(statement, everywhere(ctx), DdlKind::Schema);
    plan.elsewhere = Elsewhere::Without(shell(ctas)?);
    if statement.clause.is_some() {
        return Err(PgError::unsupported("a distribution clause of a materialized view")
            .hint("A materialized view lives on one node: leave the clause out."));
    }
    let Some(into) = &ctas.into else { return Err(PgError::internal("a materialized view without a name")) };
    let Some(name) = &into.rel else { return Err(PgError::internal("a materialized view without a name")) };
    let (schema, name) = create::qualified(ctx, name)?;
    if ctx.catalog.relation(&schema, &name).is_none() && !into.skip_data && !is_at_home(ctx, query)? {
        plan.node_sql = shell(ctas)?;
        let view = format!("{}.{}", catalog::quote_identifier(&schema), catalog::quote_identifier(&name));
        fill(&mut plan, view, &tree::deparse(query)?);
    }
    Ok(boxed(plan))
}

/// REFRESH MATERIALIZED VIEW. With CONCURRENTLY the node does first what it can, for its own errors about it.
pub(super) fn refresh(ctx: &Context<'_>, statement: &Statement, refresh: &RefreshMatViewStmt) -> Result<Plan> {
    let mut plan = as_it_stands(statement, vec![ctx.home()], DdlKind::Data);
    let Some(name) = &refresh.relation else { return Err(PgError::internal("REFRESH without a name")) };
    let Named::Home(Some(view)) = ctx.resolve(name)? else { return Ok(boxed(plan)) };
    let Some(definition) = view.view_definition.as_deref().filter(|_| !refresh.skip_data) else {
        return Ok(boxed(plan));
    };
    let query = tree::parse_select(definition)?.into_tree();
    if !is_at_home(ctx, &query)? {
        views::says_all(&view, &query)?;
        if !refresh.concurrent {
            let empty = RefreshMatViewStmt { skip_data: true, ..refresh.clone() };
            plan.node_sql = tree::deparse(&NodeEnum::RefreshMatViewStmt(empty))?;
        }
        fill(&mut plan, view.qualified_name(), definition);
    }
    Ok(boxed(plan))
}

fn fill(plan: &mut DdlPlan, view: String, query: &str) {
    let insert = format!("INSERT INTO {view}");
    plan.follow_up = Some(format!("{insert} {query}"));
    plan.fills_by = Some(insert);
    plan.fill = Fill::MaterializedView(view);
}

/// Does the home node alone give the right rows? Not if the coordinator has to run what the query calls.
fn is_at_home(ctx: &Context<'_>, query: &NodeEnum) -> Result<bool> {
    // What is refused here is refused again when its rows are to be put in, unless the coordinator can run it.
    Ok(facts(ctx, query)?.refused.is_none() && select::source(ctx, query).is_ok_and(|(inputs, _)| inputs.is_empty()))
}

/// See [`crate::refreshed`].
pub(crate) fn refreshed(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Oid>> {
    let Some(NodeEnum::RefreshMatViewStmt(refresh)) = statement.node() else { return Ok(None) };
    let (Some(name), Some(query)) = (&refresh.relation, refreshed_query(ctx, refresh)?) else { return Ok(None) };
    match ctx.resolve(name)? {
        Named::Home(Some(view)) if !is_at_home(ctx, &query)? => Ok(Some(view.oid)),
        _ => Ok(None),
    }
}

/// The query that REFRESH runs.
pub(crate) fn refreshed_query(ctx: &Context<'_>, refresh: &RefreshMatViewStmt) -> Result<Option<NodeEnum>> {
    let Some(name) = &refresh.relation else { return Ok(None) };
    let Named::Home(Some(view)) = ctx.resolve(name)? else { return Ok(None) };
    match view.view_definition.as_deref().filter(|_| !refresh.skip_data) {
        Some(definition) => Ok(Some(tree::parse_select(definition)?.into_tree())),
        None => Ok(None),
    }
}
