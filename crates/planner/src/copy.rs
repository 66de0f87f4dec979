//! COPY.

use catalog::{Column, Distribution, Relation, RuleEvent};
use pgerror::{PgError, Result, SqlState};

use crate::context::{Context, Named};
use crate::dml::{check_system, stage};
use crate::facts::{code, constant::is_literal, functions};
use crate::parse::{CopyStatement, CopySubject, Statement, StatementKind};
use crate::plan::{CopyFrom, CopyHome, CopySource, CopyTo, Forward, Plan, RowColumn, Scatter, names_list};
use crate::tree::{self};

/// Plans a COPY.
pub(crate) fn copy(ctx: &Context<'_>, copy: &CopyStatement) -> Result<Plan> {
    match (&copy.subject, copy.is_from) {
        (CopySubject::Relation { schema, name, columns }, true) => from(ctx, copy, schema.as_deref(), name, columns),
        (CopySubject::Relation { schema, name, columns }, false) => to(ctx, schema.as_deref(), name, columns),
        (CopySubject::Query(query), _) => to_query(ctx, query),
    }
}

/// A table's name and columns as COPY wants them.
fn subject(name: &str, columns: &[String]) -> String {
    if columns.is_empty() { name.to_owned() } else { format!("{name} ({})", names_list(columns)) }
}

fn from(ctx: &Context<'_>, copy: &CopyStatement, schema: Option<&str>, name: &str, columns: &[String]) -> Result<Plan> {
    let table = tree::table(schema.unwrap_or_default(), name, None);
    let relation = match ctx.resolve(&table)? {
        Named::Distributed(relation) => relation,
        Named::View(view) if view.is_changed_instead(RuleEvent::Insert.bit()) => {
            return Err(
                PgError::unsupported(format!("COPY into view \"{name}\"")).hint("Copy into the table under the view.")
            );
        }
        // Without a trigger PostgreSQL refuses a view too.
        other => {
            if let Named::Home(_) = other {
                code::check_temporary(ctx, &table)?;
                check_system(ctx, &table)?;
            }
            let what = subject(&home_name(&other, schema, name), columns);
            return Ok(Plan::CopyHome(CopyHome { node: ctx.home(), what, where_sql: copy.where_sql.clone() }));
        }
    };
    code::check_change(ctx, &relation)?;
    let copied = copied_columns(&relation, columns);
    let rows: Vec<RowColumn> = copied.iter().map(|c| stage::row_column(c)).collect();
    let stage = needs_stage(ctx, copy, &relation, &copied)?.then(|| stage::stage(&relation, ctx.session.now));
    let plan = CopyFrom {
        route: stage::route(&relation, &rows),
        target: relation,
        columns: rows,
        stage,
        node: ctx.home(),
        where_sql: copy.where_sql.clone(),
        copies: None,
    };
    Ok(Plan::CopyFrom(Box::new(plan)))
}

/// The columns of a line: the list's, or all that are not generated.
fn copied_columns<'r>(relation: &'r Relation, columns: &[String]) -> Vec<&'r Column> {
    if columns.is_empty() {
        return stage::stored_columns(relation);
    }
    columns.iter().filter_map(|name| relation.column(name)).collect()
}

/// Do missing columns, WHERE or DEFAULT markers need the home node?
fn needs_stage(ctx: &Context<'_>, copy: &CopyStatement, relation: &Relation, copied: &[&Column]) -> Result<bool> {
    let replicated = matches!(relation.distribution, Distribution::Replicated { .. });
    let key = relation.distribution.key();
    let same_everywhere = |column: &&Column| {
        let is_key = key.iter().any(|k| k.number == column.number);
        match &column.default {
            _ if column.generated.is_identity() => false,
            None => true,
            // The executor knows a missing key as NULL only.
            Some(_) if is_key => false,
            Some(text) if replicated => tree::parse_expression(text).is_ok_and(|e| is_literal(&e)),
            Some(_) => column.default_is_stable,
        }
    };
    let missing = stage::stored_columns(relation).into_iter().filter(|c| !copied.iter().any(|d| d.number == c.number));
    let has_marker = copy.options.iter().any(|(name, _)| name == "default");
    let marked = has_marker && !copied.iter().all(same_everywhere);
    let condition_differs = match &copy.where_sql {
        None => false,
        Some(text) => {
            let facts = functions::facts(ctx, &tree::parse_expression(text)?)?;
            facts.check()?;
            facts.home.is_some()
                || (replicated && (facts.volatile.is_some() || facts.clock.is_some()))
                || facts.function_nodes.is_some()
        }
    };
    Ok(!missing.into_iter().all(|c| same_everywhere(&c)) || marked || condition_differs)
}

/// What the user means by the name of a view, a temp table, a catalog, or of nothing that we know.
fn home_name(named: &Named, schema: Option<&str>, name: &str) -> String {
    match (named.relation(), schema) {
        (Some(relation), _) => relation.qualified_name(),
        (None, Some(schema)) => format!("{}.{}", catalog::quote_identifier(schema), catalog::quote_identifier(name)),
        (None, None) => catalog::quote_identifier(name),
    }
}

fn to(ctx: &Context<'_>, schema: Option<&str>, name: &str, columns: &[String]) -> Result<Plan> {
    let source = match ctx.resolve(&tree::table(schema.unwrap_or_default(), name, None))? {
        Named::Distributed(relation) => {
            code::check_read(ctx, &relation)?;
            let what = subject(&relation.qualified_name(), columns);
            let nodes = relation.distribution.nodes();
            match relation.distribution {
                Distribution::Replicated { .. } => CopySource::One { nodes: ctx.home_first(nodes), what },
                _ => CopySource::All { nodes, what },
            }
        }
        // PostgreSQL's own error about views, or the rows of a temp table.
        other => CopySource::One { nodes: vec![ctx.home()], what: subject(&home_name(&other, schema, name), columns) },
    };
    Ok(Plan::CopyTo(CopyTo { source, writes: false }))
}

/// PostgreSQL's own refusals of what gives no rows.
pub(crate) fn check_query(query: &Statement) -> Result<()> {
    let refused = |message: &str| Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    match query.kind {
        StatementKind::CreateTableAs => refused("COPY (SELECT INTO) is not supported"),
        _ if query.only_changes() => refused("COPY query must have a RETURNING clause"),
        _ => Ok(()),
    }
}

fn to_query(ctx: &Context<'_>, query: &Statement) -> Result<Plan> {
    check_query(query)?;
    let plan = ctx.planner.plan_part(ctx, query)?;
    let writes = plan.facts().writes;
    let source = match plan {
        Plan::ExchangePlan(exchange_plan) => CopySource::ExchangePlan(exchange_plan),
        Plan::Forward(Forward { nodes, sql, writes, .. }) => {
            let nodes = if writes { nodes[..1].to_vec() } else { nodes };
            CopySource::One { nodes, what: format!("({sql})") }
        }
        // Changes over several nodes take more than a COPY on each: see `rewrite::of_rows`.
        Plan::Scatter(Scatter { nodes, sql, .. }) if !writes || nodes.len() == 1 => {
            CopySource::All { nodes, what: format!("({sql})") }
        }
        Plan::Gather(gather) if !gather.writes => CopySource::Gather(gather),
        _ => return Err(PgError::unsupported("COPY of a data change").hint("Run it with RETURNING instead.")),
    };
    Ok(Plan::CopyTo(CopyTo { source, writes }))
}
