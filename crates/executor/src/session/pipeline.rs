//! Executions of one INSERT that wait for each other: see [`insert_pipeline`](crate::dml::insert_pipeline).

use std::sync::Arc;

use catalog::NodeId;
use planner::{Repeated, Shape, Template};

use crate::backend::call::Call;
use crate::backend::call::Parameters;
use crate::shared::plan_validity::PlanValidity;

/// A statement that is executed again and again.
pub(crate) struct Again {
    pub(crate) template: Arc<Template>,
    pub(crate) shape: Shape,
    pub(crate) validity: Arc<PlanValidity>,
}

/// What waits to be sent.
pub(crate) struct InsertPipeline {
    pub(crate) sql: Arc<str>,
    pub(crate) call: Call,
    pub(crate) schema_version: u64,
    pub(crate) again: Again,
    pub(crate) rows: Vec<(NodeId, Arc<Parameters>)>,
    pub(crate) bytes: usize,
}

impl InsertPipeline {
    /// Is this one more execution of what waits?
    pub(crate) fn is_like(&self, sql: &Arc<str>, parameters: &Parameters) -> bool {
        Arc::ptr_eq(&self.sql, sql) && self.rows.first().is_none_or(|(_, first)| first.types == parameters.types)
    }

    /// The statement in a form that takes several rows, if it has one.
    pub(crate) fn repeated(&self) -> Option<&Repeated> {
        self.again.template.repeated(&self.sql)
    }

    /// The node whose time counts, if the block has none yet.
    pub(crate) fn clock(&self) -> Option<NodeId> {
        self.rows.first().map(|(node, _)| *node)
    }
}
