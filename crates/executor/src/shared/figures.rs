//! What this crate counts: statements by their plans, rows that move, and the pool as it is now.

use metrics::{ByLabel, Counter, Page};
use planner::Plan;
use planner::parse::StatementKind;

use crate::backend::pool::cluster::Cluster;

/// The kinds of plans, in the order of [`class`].
const CLASSES: [&str; 20] = [
    "forward",
    "scatter",
    "replicate",
    "first_copy",
    "gather",
    "locked",
    "exchange",
    "insert_split",
    "insert_staged",
    "staged_dml",
    "sequenced_ctes",
    "copy_from",
    "copy_to",
    "explain",
    "cursor",
    "ddl",
    "redistribute",
    "cluster_command",
    "routine",
    "session",
];

const CURSOR: usize = 14;
const SESSION: usize = 19;

static STATEMENTS: [Counter; CLASSES.len()] = [const { Counter::new() }; CLASSES.len()];
static QUICK_PLANS: Counter = Counter::new();
static NEW_PLANS: Counter = Counter::new();
pub(crate) static EXCHANGED_ROWS: Counter = Counter::new();
pub(crate) static EXCHANGED_BYTES: Counter = Counter::new();
pub(crate) static COPIED_ROWS: ByLabel = ByLabel::new();

fn class(plan: &Plan) -> usize {
    match plan {
        Plan::Forward(_) => 0,
        Plan::Scatter(_) => 1,
        Plan::Replicate(_) => 2,
        Plan::FirstCopy(_) => 3,
        Plan::Gather(_) => 4,
        Plan::Locked(_) => 5,
        Plan::ExchangePlan(_) => 6,
        Plan::InsertSplit(_) => 7,
        Plan::InsertStaged(_) => 8,
        Plan::StagedDml(_) => 9,
        Plan::SequencedCtes(_) => 10,
        Plan::CopyFrom(_) | Plan::CopyHome(_) => 11,
        Plan::CopyTo(_) => 12,
        Plan::Explain(_) => 13,
        Plan::DeclareCursor(_) => CURSOR,
        Plan::Ddl(_) => 15,
        Plan::AutoReplicate(_) | Plan::Redistribute(_) => 16,
        Plan::Cluster(_) => 17,
        Plan::Routine(_) => 18,
        Plan::Session => SESSION,
    }
}

/// A statement is run by this plan, of this kind.
pub(crate) fn count_statement(plan: &Plan) -> &'static str {
    let class = class(plan);
    STATEMENTS[class].count();
    CLASSES[class]
}

/// A command of the session has been done without a plan.
pub fn count_command(kind: &StatementKind) {
    use StatementKind::{CloseCursor, DeclareCursor, Fetch};
    let is_cursor = matches!(kind, DeclareCursor(_) | Fetch(_) | CloseCursor(_));
    STATEMENTS[if is_cursor { CURSOR } else { SESSION }].count();
}

/// A statement has got a plan: that of one like it, or a new one.
pub fn count_plan(is_new: bool) {
    if is_new { NEW_PLANS.count() } else { QUICK_PLANS.count() }
}

impl Cluster {
    /// Writes all of it.
    pub fn figures(&self, page: &mut Page) {
        let statements = CLASSES.iter().zip(&STATEMENTS).map(|(class, count)| (*class, count.get()));
        page.counters("loxo_statements_total", "Statements by the kind of their plans.", "plan", statements);
        let plans = [("shape", QUICK_PLANS.get()), ("planner", NEW_PLANS.get())];
        page.counters("loxo_plans_total", "Plans, made after one like it, kept, or by the planner.", "source", plans);
        page.counter("loxo_exchange_rows_total", "Rows that were moved between nodes.", EXCHANGED_ROWS.get());
        page.counter("loxo_exchange_bytes_total", "Their bytes.", EXCHANGED_BYTES.get());
        page.by_label("loxo_copy_rows_total", "Rows that COPY FROM has stored.", "node", &COPIED_ROWS);
        let connections = self.pool.use_by_address();
        let mut values = Vec::new();
        for member in self.members().present().values() {
            let (used, idle) = connections.get(&member.address).copied().unwrap_or_default();
            let labels = |state: &str| vec![("node", member.name.to_string()), ("state", state.to_owned())];
            values.extend([(labels("used"), used), (labels("idle"), idle)]);
        }
        page.gauges("loxo_pool_connections", "Connections to datanodes.", values);
        page.gauge("loxo_pool_waiting", "Statements in line for connections.", self.admission.waiting());
    }

    /// Is a gtm heard of?
    pub fn has_gtm(&self) -> bool {
        self.gtm.has_lease()
    }
}
