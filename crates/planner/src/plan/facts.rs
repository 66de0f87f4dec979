//! What others ask of a plan whatever its kind: no one else has to know what each kind of plan does.

use crate::parse::Statement;
use crate::plan::{CopySource, CopyTo, ExchangePlan, Forward, Input, Plan, Replicate, Routine, Scatter};

/// See [`Plan::facts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanFacts {
    /// It may change or lock something. Of a routine each statement says so itself.
    pub writes: bool,
    /// Several datanodes work it out. COPY says so itself, and the statements of a routine come one by one.
    pub is_on_several: bool,
    /// Rows of tables leave their nodes before the statement is done with them.
    pub moves_rows: bool,
    /// The nodes get other texts than the user's.
    pub is_rewritten: bool,
}

impl PlanFacts {
    /// Facts of a plan that is worked out on one node, or nowhere.
    const READS: Self = Self { writes: false, is_on_several: false, moves_rows: false, is_rewritten: false };
    const WRITES: Self = Self { writes: true, ..Self::READS };
    const WRITES_ON_SEVERAL: Self = Self { is_on_several: true, ..Self::WRITES };
    const WRITES_MOVED_ROWS: Self = Self { moves_rows: true, ..Self::WRITES_ON_SEVERAL };
}

impl Plan {
    /// What is known of it by its kind.
    pub fn facts(&self) -> PlanFacts {
        match self {
            Plan::Forward(forward) => PlanFacts { writes: forward.writes, ..PlanFacts::READS },
            Plan::Scatter(scatter) => {
                PlanFacts { writes: scatter.writes, is_on_several: scatter.nodes.len() > 1, ..PlanFacts::READS }
            }
            Plan::Replicate(replicate) => PlanFacts { is_on_several: replicate.nodes.len() > 1, ..PlanFacts::WRITES },
            Plan::InsertSplit(insert) => {
                PlanFacts { is_on_several: insert.parts.len() > 1, is_rewritten: true, ..PlanFacts::WRITES }
            }
            Plan::FirstCopy(first) => PlanFacts { writes: true, is_on_several: true, ..first.plan.facts() },
            Plan::Gather(gather) => PlanFacts { writes: gather.writes, ..PlanFacts::WRITES_MOVED_ROWS },
            Plan::ExchangePlan(_) => PlanFacts { writes: false, ..PlanFacts::WRITES_MOVED_ROWS },
            Plan::InsertStaged(_) | Plan::StagedDml(_) => {
                PlanFacts { is_rewritten: true, ..PlanFacts::WRITES_MOVED_ROWS }
            }
            Plan::Locked(_) | Plan::SequencedCtes(_) => PlanFacts::WRITES_MOVED_ROWS,
            Plan::CopyTo(CopyTo { source, writes }) => {
                let moves_rows = matches!(source, CopySource::ExchangePlan(_) | CopySource::Gather(_));
                PlanFacts { writes: *writes, moves_rows, ..PlanFacts::READS }
            }
            Plan::CopyFrom(_) | Plan::CopyHome(_) => PlanFacts::WRITES,
            Plan::Explain(explain) => {
                let inner = explain.inner.facts();
                PlanFacts { writes: explain.analyze && inner.writes, is_rewritten: false, ..inner }
            }
            Plan::DeclareCursor(inner) => PlanFacts { is_rewritten: false, ..inner.facts() },
            Plan::Ddl(_) | Plan::AutoReplicate(_) | Plan::Redistribute(_) => PlanFacts::WRITES_ON_SEVERAL,
            Plan::Routine(routine) => match routine.as_ref() {
                Routine::TriggeredDml(change) => {
                    PlanFacts { moves_rows: change.plan.facts().moves_rows, ..PlanFacts::READS }
                }
                _ => PlanFacts::READS,
            },
            Plan::Cluster(_) | Plan::Session => PlanFacts::READS,
        }
    }

    /// Do the nodes get this statement's own text, or is it only shown what they would?
    pub(crate) fn sends(&self, statement: &Statement) -> bool {
        let of_inner = |plan: &Plan| statement.inner().is_some_and(|inner| plan.sends(inner));
        match self {
            Plan::Forward(Forward { sql, .. })
            | Plan::Scatter(Scatter { sql, .. })
            | Plan::Replicate(Replicate { sql, .. }) => **sql == *statement.sql,
            Plan::FirstCopy(first) => first.plan.sends(statement),
            Plan::Explain(explain) => !explain.analyze || of_inner(&explain.inner),
            Plan::DeclareCursor(inner) => of_inner(inner),
            Plan::CopyTo(CopyTo { source: CopySource::One { what, .. } | CopySource::All { what, .. }, .. }) => {
                statement.inner().is_none_or(|inner| *what == format!("({})", inner.sql))
            }
            Plan::Session | Plan::Cluster(_) => true,
            _ => false,
        }
    }

    /// Are rows that one node makes written to a table by its own name, so under policies that are for the user?
    pub(crate) fn is_by_users_policies(&self) -> bool {
        match self.change() {
            Plan::InsertStaged(insert) => insert.stage.target.is_barrier && insert.through.is_none(),
            Plan::SequencedCtes(ctes) => ctes.steps.iter().any(|step| step.plan.is_by_users_policies()),
            Plan::Explain(explain) => explain.inner.is_by_users_policies(),
            _ => false,
        }
    }

    /// The plan itself, or the change of rows that triggers are to follow.
    pub fn change(&self) -> &Plan {
        match self {
            Plan::Routine(routine) => match routine.as_ref() {
                Routine::TriggeredDml(change) => change.plan.change(),
                _ => self,
            },
            Plan::FirstCopy(first) => &first.plan,
            _ => self,
        }
    }

    /// The temp tables that are filled on the home node first.
    pub fn inputs(&self) -> &[Input] {
        match self {
            Plan::Gather(gather) | Plan::CopyTo(CopyTo { source: CopySource::Gather(gather), .. }) => &gather.inputs,
            Plan::InsertStaged(insert) => &insert.inputs,
            Plan::StagedDml(change) => &change.inputs,
            _ => &[],
        }
    }

    /// The exchanges of a plan, wherever they are in it.
    pub fn exchange_plan(&self) -> Option<&ExchangePlan> {
        match self.change() {
            Plan::ExchangePlan(exchange_plan)
            | Plan::CopyTo(CopyTo { source: CopySource::ExchangePlan(exchange_plan), .. }) => Some(exchange_plan),
            Plan::Explain(explain) => explain.inner.exchange_plan(),
            Plan::DeclareCursor(inner) => inner.exchange_plan(),
            plan => plan.inputs().iter().find_map(|input| input.exchange_plan.as_deref()),
        }
    }
}
