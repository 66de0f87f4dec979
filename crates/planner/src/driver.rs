//! The order in which a statement is looked at: bodies and views in place of names, rules and triggers, calls that the coordinator
//! makes, and at last where its rows are. What is made of it on the way is planned by the same functions.

use std::sync::Arc;

use catalog::Relation;
use pg_query::NodeEnum;
use pgerror::Result;

use crate::context::{AutoReplicate, Context, Planner};
use crate::parse::{Statement, StatementKind};
use crate::plan::{Explain, Plan, Routine};
use crate::tree::{self, Ask};
use crate::{copy, ddl, distribution, dml, first_copy, rewrite, select, views, with};

/// The planner, for its own parts.
pub(crate) struct Driver;

impl Planner for Driver {
    fn plan(&self, ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
        let auto_replicates = AutoReplicate::default();
        let may_auto_replicate = statement.kind == StatementKind::Update;
        let auto_replicates_to = may_auto_replicate.then_some(&auto_replicates);
        let plan = self.plan_as_it_stands(&Context { auto_replicates: auto_replicates_to, ..*ctx }, statement);
        if let Some(moves) = auto_replicates.take() {
            return Ok(Plan::AutoReplicate(moves));
        }
        let plan = plan?;
        ctx.analysis.map_or(Ok(()), |analysis| analysis.check_meaning(plan.sends(statement))).map(|()| plan)
    }

    fn plan_as_it_stands(&self, ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
        if let Some(prefix) = &statement.as_owner {
            return rewrite::owner_reads::plan(ctx, statement, prefix);
        }
        if let Some(plan) = select::servers::plan(ctx, statement) {
            return Ok(plan);
        }
        let spelled = rewrite::whole_rows::of_columns(ctx, statement)?;
        let statement = spelled.as_ref().unwrap_or(statement);
        ctx.session.stop.check()?;
        let called = statement;
        let inlined = rewrite::inline::inline(ctx, statement, true)?
            .map(|inlined| rewrite::whole_rows::of_inlined(ctx, inlined))
            .transpose()?;
        let inlined = inlined.map(|inlined| inlined.in_place_of(statement));
        let statement = inlined.as_ref().unwrap_or(statement);
        ctx.session.stop.check()?;
        let expanded = views::without_temporary(ctx, statement)?;
        let expanded = expanded.map(|expanded| expanded.in_place_of(statement));
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
            && !matches!(self.plan_inlined(ctx, statement), Ok(Plan::Forward(_) | Plan::Scatter(_)))
            && let Some(lifted) = rewrite::lifted::lifted(ctx, statement)?
        {
            return Ok(Plan::Routine(Box::new(Routine::Lifted(lifted))));
        }
        ctx.session.stop.check()?;
        if (returns_sub_select(statement)?
            || meets_sub_select(statement)? && self.plan_inlined(ctx, statement).is_err())
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
                // What a body calls may be out of reach in the place of the call, but not in the body.
                let Some(own) = ctx.analysis.and_then(|analysis| analysis.without_bodies()) else { return Err(error) };
                let routine =
                    rewrite::routine::plan(&Context { analysis: Some(&own), ..*ctx }, called)?.ok_or(error)?;
                return Ok(Plan::Routine(Box::new(routine)));
            }
        };
        ctx.session.stop.check()?;
        match rewrite::per_row::of_filled(ctx, statement, &plan)? {
            Some(routine) => Ok(Plan::Routine(Box::new(routine))),
            None => rewrite::triggers::with_triggers(ctx, statement, plan),
        }
    }

    fn plan_part(&self, ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
        let inlined = rewrite::inline::inline(ctx, statement, true)?;
        let statement = inlined.as_ref().unwrap_or(statement);
        let expanded = views::without_temporary(ctx, statement)?;
        first_copy::plan(ctx, expanded.as_ref().unwrap_or(statement))
    }

    fn plan_in_steps(&self, ctx: &Context<'_>, statement: &Statement) -> Option<Plan> {
        match self.plan_as_it_stands(ctx, statement) {
            Ok(Plan::Routine(routine)) if !matches!(*routine, Routine::Rewritten(_)) => Some(Plan::Routine(routine)),
            _ => None,
        }
    }

    fn plan_inlined(&self, ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
        let Some(written_out) = dml::written_out(ctx, statement)? else { return plan_written_out(ctx, statement) };
        let mut plan = plan_written_out(ctx, &written_out.statement)?;
        written_out.give_back(&mut plan, statement);
        Ok(plan)
    }

    fn view_as_table(&self, ctx: &Context<'_>, view: &Relation) -> Option<Arc<Relation>> {
        select::shown::as_table(ctx, view)
    }

    fn view_needs_others(&self, ctx: &Context<'_>, view: &Relation) -> Result<bool> {
        views::needs_others(ctx, view)
    }
}

/// Is it an INSERT with a sub-select in ON CONFLICT?
fn meets_sub_select(statement: &Statement) -> Result<bool> {
    match statement.node() {
        Some(NodeEnum::InsertStmt(insert)) => insert.on_conflict_clause.has_sub_select(),
        _ => Ok(false),
    }
}

/// Is it a change with a sub-select in RETURNING?
fn returns_sub_select(statement: &Statement) -> Result<bool> {
    match statement.node() {
        None | Some(NodeEnum::MergeStmt(_)) => Ok(false),
        Some(tree) => tree::returning_of(tree).map_or(Ok(false), |clause| clause.exprs.has_sub_select()),
    }
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
            let inner = match (ctx.planner.plan_part(ctx, &explain.inner), analyze) {
                (Err(error), false) => ctx.planner.plan_in_steps(ctx, &explain.inner).ok_or(error)?,
                (inner, _) => inner?,
            };
            Ok(Plan::Explain(Explain { options, analyze, inner: Box::new(inner) }))
        }
        Kind::DeclareCursor(declare) => with::check_cursor(&declare.inner)
            .and_then(|()| ctx.planner.plan_part(ctx, &declare.inner))
            // Its rows are kept: there is no one to pass them on to yet.
            .map(|inner| Plan::DeclareCursor(Box::new(inner.without_merge()))),
        Kind::Redistribute(redistribution) => distribution::redistribute::redistribute(ctx, redistribution),
        Kind::Cluster(command) => Ok(Plan::Cluster(command.clone())),
        kind if kind.is_sessions_own() => Ok(Plan::Session),
        _ => ddl::plan(ctx, statement),
    }
}
