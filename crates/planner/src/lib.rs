//! The planner: SQL text + catalog snapshot + session facts → plan. Pure: no I/O, no clock, no global state.
//!
//! ```text
//! text ── parse ──> Statement ── plan ──> Plan ── (executor)
//!                     kind       │
//!                                ├─ rules: the statements that rules make of a change
//!                                ├─ inline, views: bodies of functions and views in place of their names
//!                                ├─ select/  locality analysis, partial aggregates, gathering
//!                                ├─ dml/     routing of writes
//!                                ├─ with/    WITH items that change rows
//!                                └─ ddl/     distribution of new tables, what DDL does to the catalog
//! text ── (executor: PostgreSQL's analysis) ──> the same statement with every name, cast and column written out
//! text ── references ──> names that may be variables, for who runs a function's body statement by statement
//! text ── leavings ──> what the backends may hold afterwards
//! text ── template ──> the same plan as that of an earlier statement that differs in its constants only
//! ```
//!
//! Invariants:
//! - *Correct or refused.* Every analysis is conservative: "local" must be proved, whatever is in doubt is gathered to the
//!   home node, and what cannot be gathered is refused with SQLSTATE 0A000, naming the construct and a way round.
//! - The planner never evaluates SQL. It hashes literal keys only where [`placement::hash_text`] knows the spelling.
//! - Statements are taken to be valid: PostgreSQL has accepted them before the planner sees them. Queries and changes of rows
//!   come as PostgreSQL has understood them ([`Analysis`]): in their trees a bare name of a function, operator or type is
//!   PostgreSQL's own. Schema changes, bodies of functions and templates are read by their words.
//! - A statement that needs no rewriting is passed on as the very text the user wrote.

mod context;
mod copy;
mod ddl;
mod dml;
mod facts;
mod first_copy;
mod look_alikes;
pub mod parse;
mod plan;
mod rewrite;
mod select;
mod session;
mod template;
mod tree;
mod with;

use catalog::Catalog;
use pg_query::NodeEnum;
use pgerror::{PgError, Result, SqlState};

pub use ddl::passwords::with_verifier;
pub use dml::{Drawn, STAGE, sets_default};
pub use facts::bodies::sql_statements;
pub use facts::clock::{at_one_moment, bodies_read_clock, reads_clock, some_moment, views_read_clock};
pub use facts::effects::leavings;
pub use facts::references::{Place, Reference, References, names_in_from, references};
pub use facts::setting_calls::{SettingCalls, setting_calls};
pub use facts::tables::{Clauses, Tables, gives_plain_values, read_tables, reads_only};
pub use facts::temp_placement::{Late, late_defaults, runs_apart};
pub use facts::used::may_use;
pub use facts::values_drawn::{LastDrawn, ValuesDrawn, with_values_drawn};
pub use look_alikes::Qualifier;
pub use parse::own_text::own_text;
pub use parse::{Analysis, Marked, Statement, StatementKind, Undeclared, Uses, only_creates, parse, parse_for_dump};
pub use plan::*;
pub use rewrite::before::{BeforeRows, Conflict, trigger_condition};
pub use rewrite::in_trigger::in_trigger;
pub use rewrite::inline::{WantedBody, wanted_bodies};
pub use rewrite::instead::Instead;
pub use rewrite::key_moves::Movable;
pub use rewrite::lifted::Lifted;
pub use rewrite::made_rows::MadeRows;
pub use rewrite::of_rows::OfRows;
pub use rewrite::owner_reads::{Lent, OWN_PATH};
pub use rewrite::per_row::{Each, Enough, PerRow, RowCall};
pub use rewrite::routine::{Argument, Explained, Routine, RoutineCall, Wanted, call_targets};
pub use rewrite::rules::{OfOwner, Rewritten, Step};
pub use rewrite::triggers::{OfStatement, Triggered};
pub use rewrite::views::{Expanded, ReadAs};
pub use session::*;
pub use template::{Completion, Learned, ManyRows, Parameterised, Repeated, Shape, Template};

use context::{AutoReplicate, Context};
use tree::Ask;

/// Plans one statement.
///
/// Errors: 0A000 for what cannot be run correctly, with a hint; others (42P16, 42703, …) where our own clauses are wrong.
pub fn plan(statement: &Statement, catalog: &Catalog, session: &SessionFacts<'_>) -> Result<Plan> {
    let auto_replicates = AutoReplicate::default();
    let may_auto_replicate = statement.kind == StatementKind::Update;
    let ctx = Context::new(catalog, session, statement.analysis.as_ref());
    let auto_replicates_to = may_auto_replicate.then_some(&auto_replicates);
    let plan = plan_as_it_stands(&Context { auto_replicates: auto_replicates_to, ..ctx }, statement);
    match auto_replicates.take() {
        Some(moves) => Ok(Plan::AutoReplicate(moves)),
        None => plan,
    }
}

/// The views of a statement that its plan replaces by their definitions, since it moves rows.
pub fn expanded_views(
    plan: &Plan,
    statement: &Statement,
    catalog: &Catalog,
    session: &SessionFacts<'_>,
) -> Result<Expanded> {
    let ctx = Context::new(catalog, session, statement.analysis.as_ref());
    rewrite::views::expanded(&ctx, plan, statement)
}

/// The materialized view that a REFRESH fills otherwise than the home node would by itself.
pub fn refreshed(statement: &Statement, catalog: &Catalog, session: &SessionFacts<'_>) -> Result<Option<catalog::Oid>> {
    let ctx = Context::new(catalog, session, statement.analysis.as_ref());
    ddl::refreshed(&ctx, statement)
}

/// How somebody else than its owner refreshes a materialized view: as the owner, as in PostgreSQL.
///
/// Errors: 0A000 if code of users would run, which could become the caller again.
pub fn refresh_as(owner: &str, statement: &Statement, catalog: &Catalog, session: &SessionFacts<'_>) -> Result<Plan> {
    let ctx = Context::new(catalog, session, statement.analysis.as_ref());
    rewrite::owner_reads::check_refresh(&ctx, statement)?;
    let sql = rewrite::owner_reads::qualified_refresh(&ctx, statement)?;
    Ok(Plan::Routine(Box::new(Routine::As { owner: owner.to_owned(), sql })))
}

/// A plan that reads these views ahead of the statement, [as their owners](Statement::reading_as_owner); `None` if that cannot be
/// done.
pub fn views_ahead(
    statement: &Statement,
    catalog: &Catalog,
    session: &SessionFacts<'_>,
    views: &[catalog::Oid],
) -> Result<Option<Plan>> {
    let ctx = Context::new(catalog, session, statement.analysis.as_ref());
    rewrite::owner_reads::with_views_ahead(&ctx, statement, views)
}

/// The plan, unless it turns out that tables have to give way to it.
fn plan_as_it_stands(ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
    if let Some(prefix) = &statement.as_owner {
        return rewrite::owner_reads::plan(ctx, statement, prefix);
    }
    let spelled = rewrite::whole_rows::of_columns(ctx, statement)?;
    let statement = spelled.as_ref().unwrap_or(statement);
    ctx.session.stop.check()?;
    let called = statement;
    let inlined = rewrite::inline::inline(ctx, statement)?
        .map(|inlined| rewrite::whole_rows::of_inlined(ctx, inlined))
        .transpose()?;
    let inlined = inlined.map(|inlined| Statement { is_rewritten: statement.is_rewritten, ..inlined });
    let statement = inlined.as_ref().unwrap_or(statement);
    ctx.session.stop.check()?;
    let expanded = rewrite::views::without_temporary(ctx, statement)?;
    let expanded = expanded.map(|expanded| Statement { is_rewritten: statement.is_rewritten, ..expanded });
    let statement = expanded.as_ref().unwrap_or(statement);
    if !statement.is_rewritten
        && let Some(rewritten) = rewrite::rules::plan(ctx, statement)?
    {
        return Ok(Plan::Routine(Box::new(Routine::Rewritten(Box::new(rewritten)))));
    }
    ctx.session.stop.check()?;
    if let Some(routine) = rewrite::instead::plan(ctx, statement)? {
        return Ok(Plan::Routine(Box::new(routine)));
    }
    if !called.stores_rows
        && let Some(routine) = rewrite::before::plan(ctx, statement)?
    {
        return Ok(Plan::Routine(Box::new(routine)));
    }
    ctx.session.stop.check()?;
    if let Some(drawn) = dml::drawn(ctx, statement)? {
        return Ok(Plan::Routine(Box::new(Routine::Drawn(drawn))));
    }
    if rewrite::lifted::locks_below(statement)?
        && !matches!(plan_inlined(ctx, statement), Ok(Plan::Forward(_) | Plan::Scatter(_)))
        && let Some(lifted) = rewrite::lifted::lifted(ctx, statement)?
    {
        return Ok(Plan::Routine(Box::new(Routine::Lifted(lifted))));
    }
    ctx.session.stop.check()?;
    if returns_sub_select(statement)?
        && first_copy::plan(ctx, statement).is_err()
        && let Some(routine) = rewrite::per_row::sub_selects(ctx, statement)?
    {
        return Ok(Plan::Routine(Box::new(routine)));
    }
    // Where no body has come in, overloads that only bodies call are none that the statement may mean.
    let own = match statement.kind.row_command() {
        Some(_) if inlined.is_none() => ctx.analysis.and_then(|analysis| analysis.without_bodies()),
        _ => None,
    };
    ctx.session.stop.check()?;
    let own_context = Context { analysis: own.as_ref().or(ctx.analysis), ..*ctx };
    if let Some(routine) = rewrite::routine::plan(&own_context, statement)? {
        return Ok(Plan::Routine(Box::new(routine)));
    }
    let plan = match first_copy::plan(ctx, statement) {
        Ok(plan) => plan,
        Err(error) => {
            let routine = called_alone(ctx, called)?.ok_or(error)?;
            return Ok(Plan::Routine(Box::new(routine)));
        }
    };
    ctx.session.stop.check()?;
    match rewrite::per_row::of_filled(ctx, statement, &plan)? {
        Some(routine) => Ok(Plan::Routine(Box::new(routine))),
        None => rewrite::triggers::with_triggers(ctx, statement, plan),
    }
}

/// How a statement with calls is run if no body is put into it: what a body calls may be out of reach in the place of the call,
/// but not in the body.
fn called_alone(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Routine>> {
    let Some(own) = ctx.analysis.and_then(|analysis| analysis.without_bodies()) else { return Ok(None) };
    rewrite::routine::plan(&Context { analysis: Some(&own), ..*ctx }, statement)
}

/// Is it a change with a sub-select in RETURNING?
fn returns_sub_select(statement: &Statement) -> Result<bool> {
    match statement.node() {
        None | Some(NodeEnum::MergeStmt(_)) => Ok(false),
        Some(tree) => tree::returning_of(tree).map_or(Ok(false), |clause| clause.exprs.has_sub_select()),
    }
}

/// PostgreSQL's own refusal of a cursor over data changes.
pub fn check_cursor(inner: &Statement) -> Result<()> {
    match with::changes_rows(inner) {
        true => Err(PgError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "DECLARE CURSOR must not contain data-modifying statements in WITH",
        )),
        false => Ok(()),
    }
}

fn plan_in(ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
    let inlined = rewrite::inline::inline(ctx, statement)?;
    let statement = inlined.as_ref().unwrap_or(statement);
    let expanded = rewrite::views::without_temporary(ctx, statement)?;
    first_copy::plan(ctx, expanded.as_ref().unwrap_or(statement))
}

/// The plan of a statement with calls that the coordinator makes.
fn plan_in_steps(ctx: &Context<'_>, statement: &Statement) -> Option<Plan> {
    match plan_as_it_stands(ctx, statement) {
        Ok(Plan::Routine(routine)) if !matches!(*routine, Routine::Rewritten(_)) => Some(Plan::Routine(routine)),
        _ => None,
    }
}

fn plan_inlined(ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
    let Some(written_out) = dml::written_out(ctx, statement)? else { return plan_written_out(ctx, statement) };
    let mut plan = plan_written_out(ctx, &written_out.statement)?;
    written_out.give_back(&mut plan, statement);
    Ok(plan)
}

fn plan_written_out(ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
    use StatementKind as Kind;
    if let Some(plan) = with::plan(ctx, statement)? {
        return Ok(plan);
    }
    if let Some(plan) = dml::through_view(ctx, statement)? {
        return Ok(plan);
    }
    match &statement.kind {
        Kind::Select => select::plan(ctx, statement),
        Kind::Insert => dml::insert(ctx, statement),
        Kind::Update => dml::update(ctx, statement),
        Kind::Delete => dml::delete(ctx, statement),
        Kind::Merge => dml::merge(ctx, statement),
        Kind::Copy(copy) => copy::copy(ctx, copy),
        Kind::Explain(explain) => {
            let (options, analyze) = (explain.options.clone(), explain.analyze);
            let inner = match (plan_in(ctx, &explain.inner), analyze) {
                (Err(error), false) => plan_in_steps(ctx, &explain.inner).ok_or(error)?,
                (inner, _) => inner?,
            };
            Ok(Plan::Explain(Explain { options, analyze, inner: Box::new(inner) }))
        }
        Kind::DeclareCursor(declare) => check_cursor(&declare.inner)
            .and_then(|()| plan_in(ctx, &declare.inner))
            // Its rows are kept: there is no one to pass them on to yet.
            .map(|inner| Plan::DeclareCursor(Box::new(inner.without_merge()))),
        Kind::Redistribute(redistribution) => ddl::redistribute(ctx, redistribution),
        Kind::Cluster(command) => Ok(Plan::Cluster(command.clone())),
        kind if kind.is_sessions_own() => Ok(Plan::Session),
        _ => ddl::plan(ctx, statement),
    }
}
