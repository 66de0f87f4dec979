//! Queries → plans.
//!
//! ```text
//! views expanded ─ facts (functions, locks) ─ locality ─┬─ Free, Whole, Home → Forward
//!                                                       ├─ Split, nothing left to do → Scatter
//!                                                       ├─ Split, ORDER BY / LIMIT / aggregates on top → finish: Gather of one fragment, or a merge of sorted rows,
//!                                                       │  or, with many rows, exchange: they move by what is grouped → ExchangePlan
//!                                                       └─ anything else ─┬─ exchange: rows move between nodes until it is local → ExchangePlan
//!                                                                         └─ gather: each table comes to the home node → Gather
//! ```

use std::sync::Arc;

use catalog::{NodeId, Relation};
use pg_query::protobuf::SelectStmt;
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::{Context, intersect};
use crate::facts::{Facts, functions::facts};
use crate::parse::Statement;
use crate::plan::{ExchangePlan, FinalSql, Forward, Gather, Input, Plan, Scatter};
use crate::tree::{self, Ask, Ref, Syntax};
use crate::views;

pub(crate) mod exact;
mod exchange;
mod gather;
pub(crate) mod levels;
pub(crate) mod locality;
mod locked;
pub(crate) mod names;
mod outer_aggregates;
pub(crate) mod row_address;
pub(crate) mod servers;
pub(crate) mod shape;
pub(crate) mod shown;
pub(crate) mod sizes;
mod table_ids;
pub(crate) mod terms;
mod two_phase;

/// For a home node that has to run a query whatever it is.
pub(crate) use gather::gather as gather_tables;
pub(crate) use gather::replacement as in_place_of;
use locality::{Analyzer, Env, Not, RowDistribution, Split};
pub(crate) use locked::with_places;

/// Plans a SELECT (VALUES, TABLE, set operations).
pub(crate) fn plan(ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
    let query = &*views::over_tables(ctx, statement)?;
    let facts = facts(ctx, query)?;
    if facts.sizes
        && let Some(gather) = sizes::plan(ctx, query)?
    {
        return Ok(Plan::Gather(gather));
    }
    facts.check()?;
    let NodeEnum::SelectStmt(select) = query else { return Err(PgError::internal("not a query")) };
    if facts.bare_tableoid
        && let Some(grouped) = tree::grouped_by_name(select)
    {
        let tree = grouped.into_tree();
        return plan(ctx, &crate::parse::build(&tree::deparse(&tree)?, tree)?);
    }
    let local = local_plan(ctx, statement, select, &facts);
    if facts.locking
        && !matches!(&local, Ok(Plan::Forward(_)))
        && let Some(locked) = locked::plan(ctx, &statement.sql, select, &facts)?
    {
        return Ok(locked);
    }
    match local {
        Ok(Plan::Gather(gather)) => match exchange::repartitioned(ctx, select, &facts)? {
            Some(better) => Ok(better),
            None => Ok(Plan::Gather(gather)),
        },
        Ok(plan) => Ok(plan),
        Err(Not::Refused(error)) => Err(error),
        Err(Not::Local(reason)) => match exchange::plan(ctx, select, &facts)? {
            Some(exchange_plan) => Ok(Plan::ExchangePlan(Box::new(exchange_plan))),
            None => fallback(ctx, query, &facts, &reason).map(Plan::Gather),
        },
    }
}

/// A plan that moves no base rows.
fn local_plan(ctx: &Context<'_>, statement: &Statement, select: &SelectStmt, facts: &Facts) -> Result<Plan, Not> {
    let mut analyzer = Analyzer::new(ctx);
    let env = analyzer.with_of_query(select, &Env::default())?;
    if tree::is_operation(select) {
        return set_operation(ctx, &mut analyzer, statement, select, &env, facts);
    }
    let body = analyzer.body(select, &env)?;
    let RowDistribution::Partitioned(split) = &body.part else {
        return whole_plan(ctx, statement, &body.part, facts);
    };
    check_split(ctx, select, facts, split)?;
    let unfinished = analyzer.incomplete(select, &body, split)?;
    // A regclass is a number to a client that reads binary results: it shall be the home node's.
    if unfinished.is_none() && !tree::is_ordered(select) && !facts.names_table {
        return Ok(scatter(split.nodes.clone(), statement, facts));
    }
    if let (true, Some(what)) = (facts.locking, unfinished) {
        let error = PgError::unsupported(format!("FOR UPDATE or FOR SHARE with {what}"))
            .hint("Pin the distribution key, or lock the rows in a query of its own.");
        return Err(Not::Refused(error));
    }
    let reason = unfinished.unwrap_or("ORDER BY or LIMIT over rows of several nodes");
    let separated = two_phase::separated(ctx, &analyzer, select, &body, split, unfinished.is_none())?;
    match separated.map(|planned| planned.gather(ctx, split.nodes.clone())).transpose()? {
        Some(gather) if !facts.has_what_functions_read(ctx.home()) && calls_in_last(ctx, &gather)? => {
            Err(Not::Local(reason.to_owned()))
        }
        Some(gather) if facts.locking => Ok(Plan::Gather(two_phase::locked_in_order(gather)?)),
        // May rows go from the nodes to the client as they are?
        Some(gather) if !facts.names_table && !facts.writes && ctx.exchanged.is_empty() && ctx.copies.is_none() => {
            Ok(Plan::Gather(gather))
        }
        Some(gather) => Ok(Plan::Gather(Gather { merge: None, ..gather })),
        None => Err(Not::Local(reason.to_owned())),
    }
}

/// Does the home node call functions of the user's over the gathered rows?
fn calls_in_last(ctx: &Context<'_>, gather: &Gather) -> Result<bool> {
    let is_users = |node: Ref<'_>| matches!(node, Ref::FuncCall(call) if !ctx.user_functions(call).is_empty());
    tree::parse_select(&gather.final_sql.text)?.any(is_users)
}

/// Everything is on one node, or on each of several.
fn whole_plan(ctx: &Context<'_>, statement: &Statement, part: &RowDistribution, facts: &Facts) -> Result<Plan, Not> {
    let home = ctx.home();
    let mut nodes = match part {
        RowDistribution::Any | RowDistribution::Home => vec![home],
        RowDistribution::Replicated(nodes) => nodes.clone(),
        RowDistribution::Partitioned(_) => return Err(Not::Local("rows of several nodes".to_owned())),
    };
    if let (RowDistribution::Any, Some(readable)) = (part, &facts.function_nodes) {
        nodes = readable.clone();
    } else if let Some(readable) = &facts.function_nodes {
        nodes = intersect(&nodes, readable);
    }
    if facts.home.is_some() {
        nodes.retain(|n| *n == home);
    }
    if nodes.is_empty() {
        return Err(Not::Local("functions and tables that no node has all of".to_owned()));
    }
    let writes = facts.writes || facts.locking;
    let nodes = if facts.locking { ctx.primary_first(nodes)[..1].to_vec() } else { ctx.home_first(nodes) };
    Ok(Plan::Forward(Forward::of(statement, nodes, writes)))
}

/// Conditions under which a split query may run on its nodes at all.
fn check_split(ctx: &Context<'_>, select: &SelectStmt, facts: &Facts, split: &Split) -> Result<(), Not> {
    if let Some(what) = &facts.home {
        return Err(Not::Local(format!("{what} belongs to the home node")));
    }
    if let Some(nodes) = &facts.function_nodes
        && !split.nodes.iter().all(|n| nodes.contains(n))
    {
        return Err(Not::Local("a function reads tables that are not on all of the nodes".to_owned()));
    }
    if facts.bare_tableoid && split.nodes.len() > 1 {
        return Err(Not::Local("a table has another object id on each datanode".to_owned()));
    }
    if let Some(what) = facts.moving.as_ref().filter(|_| split.nodes.len() > 1) {
        return Err(Not::Local(format!("{what} is another on every node")));
    }
    if let Some(what) = &facts.volatile
        && volatile_beyond_rows(ctx, select)?
    {
        return Err(Not::Local(format!("{what} would be evaluated once on every node")));
    }
    Ok(())
}

/// Is there a volatile call other than in the output list, WHERE or ORDER BY of the top level, where it is called for each row?
fn volatile_beyond_rows(ctx: &Context<'_>, select: &SelectStmt) -> Result<bool> {
    let mut rest = select.clone();
    if shape::sub_links(select)?.is_empty() {
        rest.target_list = vec![tree::target(tree::integer(1), None)];
        rest.where_clause = None;
        rest.sort_clause.clear();
    }
    Ok(facts(ctx, &rest)?.volatile.is_some())
}

fn scatter(nodes: Vec<NodeId>, statement: &Statement, facts: &Facts) -> Plan {
    Plan::Scatter(Scatter::of(statement, nodes, facts.locking || facts.writes))
}

fn set_operation(
    ctx: &Context<'_>,
    analyzer: &mut Analyzer<'_>,
    statement: &Statement,
    select: &SelectStmt,
    env: &Env<'_>,
    facts: &Facts,
) -> Result<Plan, Not> {
    let mut inner = shape::below_order(select);
    let block = analyzer.block(&inner, env)?;
    let RowDistribution::Partitioned(split) = block.part else {
        return whole_plan(ctx, statement, &block.part, facts);
    };
    check_split(ctx, select, facts, &split)?;
    if !tree::is_ordered(select) && !facts.names_table {
        return Ok(scatter(split.nodes, statement, facts));
    }
    inner.with_clause = select.with_clause.clone();
    match two_phase::finish_set(ctx, select, &inner, &split.nodes)? {
        Some(gather) => Ok(Plan::Gather(gather)),
        None => Err(Not::Local("ORDER BY or LIMIT over rows of several nodes".to_owned())),
    }
}

/// Gathers tables and runs the statement on the home node.
pub(crate) fn fallback(ctx: &Context<'_>, query: &NodeEnum, facts: &Facts, reason: &str) -> Result<Gather> {
    let mut rewritten = query.clone();
    let mut rest = facts.clone();
    if facts.system_column.as_deref() == Some("tableoid") {
        table_ids::rename(ctx, &mut rewritten)?;
        rest.system_column = None;
    }
    let inputs = gather::gather(ctx, &mut rewritten, &rest, reason)?;
    facts.check_functions_at_home(ctx)?;
    let final_sql = FinalSql::plain(tree::deparse(&rewritten)?);
    Ok(Gather { writes: facts.writes, ..Gather::new(ctx.home(), inputs, final_sql) })
}

/// A query as the source of something else on the home node: `INSERT INTO stage <query>`. Gives inputs and the query's text over them.
pub(crate) fn source(ctx: &Context<'_>, query: &NodeEnum) -> Result<(Vec<Input>, FinalSql)> {
    source_or_rows(ctx, query, false)
}

/// [`source`]; if `straight`, rows that need nothing more on the home node may come as those of an ExchangePlan.
fn source_or_rows(ctx: &Context<'_>, query: &NodeEnum, straight: bool) -> Result<(Vec<Input>, FinalSql)> {
    if ctx.copies.is_some() {
        let gather = copied(ctx, query)?;
        return Ok((gather.inputs, gather.final_sql));
    }
    let sql = tree::deparse(query)?;
    let statement = crate::parse::build(&sql, query.clone())?;
    match plan(ctx, &statement)? {
        Plan::ExchangePlan(exchange_plan) => {
            Ok(one_input(exchange_plan.nodes.clone(), sql, Some(Arc::from(exchange_plan))))
        }
        Plan::Gather(gather) => Ok((gather.inputs, gather.final_sql)),
        // Inside a block the home node's part may run beside the session that reads these rows.
        Plan::Forward(forward)
            if forward.nodes.contains(&ctx.home()) && ctx.session.in_transaction && !forward.writes =>
        {
            Ok(one_input(vec![ctx.home()], forward.sql, None))
        }
        Plan::Forward(forward) if forward.nodes.contains(&ctx.home()) => Ok((Vec::new(), FinalSql::plain(forward.sql))),
        // Any one of the nodes has all rows.
        Plan::Forward(forward) => Ok(one_input(forward.nodes[..1].to_vec(), forward.sql, None)),
        Plan::Scatter(scatter) => {
            let exchange_plan = if straight { exchange::of_scatter(ctx, &facts(ctx, query)?, &scatter) } else { None };
            Ok(one_input(scatter.nodes, scatter.sql, exchange_plan.map(Arc::new)))
        }
        Plan::Locked(_) => {
            Err(PgError::unsupported("FOR UPDATE or FOR SHARE of several nodes' rows in this statement")
                .hint("Lock the rows in a statement of its own first."))
        }
        _ => Err(PgError::internal("a query without rows")),
    }
}

/// [`source`] for INSERT. A bare constant of its output list has no type of its own, it takes that of the target's column: so it
/// must stand in the last text, since a fragment would make it text. `straight`: may rows go to their nodes past the stage?
pub(crate) fn source_of_insert(ctx: &Context<'_>, query: &NodeEnum, straight: bool) -> Result<(Vec<Input>, FinalSql)> {
    let (inputs, source) = source_or_rows(ctx, query, straight)?;
    let NodeEnum::SelectStmt(select) = query else { return Ok((inputs, source)) };
    let is_plain = !tree::is_operation(select) && select.distinct_clause.is_empty();
    let values: Option<Vec<&Node>> =
        (1..=select.target_list.len()).map(|position| shape::target_value(select, position)).collect();
    let Some(values) =
        values.filter(|values| is_plain && !inputs.is_empty() && values.iter().any(|v| tree::is_bare(v)))
    else {
        return Ok((inputs, source));
    };
    let names: Vec<String> = (1..=values.len()).map(|number| format!("loxo_c{number}")).collect();
    let column = |(value, name): (&&Node, &String)| match tree::is_bare(value) {
        true => tree::deparse_expression(value),
        false => Ok(name.clone()),
    };
    let columns: Vec<String> = values.iter().zip(&names).map(column).collect::<Result<_>>()?;
    let text = format!("SELECT {} FROM ({}) loxo_q({})", columns.join(", "), source.text, names.join(", "));
    Ok((inputs, FinalSql { text, ..source }))
}

/// Does the query group by the primary key of one of these tables, so that it may use the table's other columns?
pub(crate) fn groups_by_primary_key(query: &NodeEnum, tables: &[Arc<Relation>]) -> Result<bool> {
    let needs = gather::Needs::of(query)?;
    Ok(tables.iter().any(|table| gather::primary_key(table, &needs.columns_by_any_name(table), &needs).is_some()))
}

/// A query over copies of all tables that it reads.
pub(crate) fn copied(ctx: &Context<'_>, query: &NodeEnum) -> Result<Gather> {
    let facts = facts(ctx, query)?;
    facts.check()?;
    fallback(ctx, query, &facts, "its tables change while it runs")
}

fn one_input(nodes: Vec<NodeId>, sql: String, exchange_plan: Option<Arc<ExchangePlan>>) -> (Vec<Input>, FinalSql) {
    let input = Input { table: "loxo_g1".to_owned(), nodes, sql, indexes: Vec::new(), exchange_plan };
    (vec![input], FinalSql::plain("SELECT * FROM loxo_g1"))
}

/// The error for something that has no local plan where only a local plan will do.
pub(crate) fn refusal(not: Not, what: &str) -> PgError {
    match not {
        Not::Refused(error) => error,
        Not::Local(reason) => PgError::unsupported(what)
            .detail(format!("It needs rows of several nodes at once: {reason}."))
            .hint("Join on the distribution keys, pin the key by a constant, or use replicated tables."),
    }
}
