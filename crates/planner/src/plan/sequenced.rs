//! What the executor is told to do for WITH items that change rows.

use catalog::NodeId;

use super::{Copies, Plan};

/// See [`Plan::SequencedCtes`]. Steps of the executor, all in one transaction under one cut:
/// 1. have `original` described; 2. fill the inputs of every step that works on copies; 3. the steps in order; rows that others
///    read go into temp tables on `node`, those of the main step to the client.
///
/// Nobody else may change the rows of a [`Plan::StagedDml`] meanwhile.
#[derive(Clone, Debug)]
pub struct SequencedCtes {
    /// The home node.
    pub node: NodeId,
    /// The user's text.
    pub original: String,
    /// In order.
    pub steps: Vec<CteStep>,
    /// The tables that are changed.
    pub written: Vec<String>,
    /// Every node that takes part.
    pub nodes: Vec<NodeId>,
    /// Replicated tables that steps change on their first copy alone: the others get the rows after each step, since other
    /// nodes' rows may refer to them.
    pub copies: Option<Copies>,
}

/// A part of a [`SequencedCtes`].
#[derive(Clone, Debug)]
pub struct CteStep {
    /// A [`Plan::Gather`], [`Plan::InsertStaged`] or [`Plan::StagedDml`] if it works on copies, or any plan that is no [`Plan::ExchangePlan`].
    pub plan: Plan,
    /// Its inputs are filled before the first step runs.
    pub copies: bool,
    /// Others read its rows.
    pub keep: Option<Kept>,
    /// It is a data change with RETURNING.
    pub returns: bool,
    /// Its rows and its command tag are the statement's.
    pub is_main: bool,
}

/// The rows of a part, as a temp table on the home node.
#[derive(Clone, Debug)]
pub struct Kept {
    /// `loxo_w1`, `loxo_w2`, …
    pub table: String,
    /// The user's names for the first columns; the others keep theirs.
    pub columns: Vec<String>,
    /// What tells the types of the columns when it is described: the part's own text.
    pub sql: String,
}
