//! The session's open transaction: what is known of it, without a connection.
//!
//! * [`Block`]: its modes and how far it is; [`Replay`]: what a node that joins late is told.
//! * [`node_span`]: how many nodes it may go to; [`table_locks`]: what its statements lock before their snapshots.
//! * [`causality`]: which nodes might show the session less than it has seen.
//! * [`suspended`]: a block that is suspended while others work for it.

pub(crate) mod causality;
pub(crate) mod node_span;
pub(crate) mod suspended;
pub(crate) mod table_locks;

use std::collections::HashMap;
use std::sync::Arc;

use catalog::NodeId;
use planner::parse::{SetStatement, Statement, StatementKind};

use crate::backend::isolation::Isolation;
use crate::backend::settings::Settings;
use crate::backend::type_ids::NodeTypes;
use crate::block::node_span::NodeSpan;
use crate::shared::catalog_load::Loaded;

/// What a statement needs of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// A transaction of its own, ended by the node itself.
    Autocommit,
    /// Part of the session's transaction, which is opened on the node if it is not yet.
    InBlock,
}

/// The session's open transaction.
#[derive(Debug)]
pub(crate) struct Block {
    /// `BEGIN …` as it is sent to each node that joins.
    pub(crate) begin: String,
    /// What it says beside the isolation level.
    pub(crate) modes: String,
    /// Commands replayed on a node that joins: `SAVEPOINT`s and `SET`s, in order.
    pub(crate) replay: Vec<Replay>,
    /// Settings as they were at the start and at each savepoint, to go back to.
    pub(crate) settings_at_begin: Settings,
    /// The catalog as the transaction sees it after its own DDL.
    pub(crate) catalog: Option<Arc<Loaded>>,
    /// Types of nodes where this transaction has types that only it sees.
    pub(crate) own_types: HashMap<NodeId, Arc<NodeTypes>>,
    /// The one that counted when its snapshot was taken, which shows rows where they were then.
    pub(crate) first_catalog: Option<Arc<Loaded>>,
    /// The datanodes there were before its first schema change.
    pub(crate) changed_on: Option<Vec<NodeId>>,
    /// The transaction changed the catalog: others must be told at commit.
    pub(crate) schema_changed: bool,
    /// Names may mean other temp objects than before the block.
    pub(crate) names_changed: bool,
    /// The temp objects themselves may have changed, so statements prepared over them are forgotten when the block ends.
    pub(crate) temp_changed: bool,
    /// The search path may have changed.
    pub(crate) path_changed: bool,
    pub(crate) failed: bool,
    /// It was made for one statement of a session that has none.
    pub(crate) is_own: bool,
    /// A connection with a part of the transaction is gone: nothing but ROLLBACK can end it.
    pub(crate) is_torn: bool,
    /// SET CONSTRAINTS was run.
    pub(crate) constraints_set: bool,
    /// The catalog's version is raised, and its row locked, already.
    pub(crate) version_raised: bool,
    pub(crate) read_only: bool,
    pub(crate) isolation: Isolation,
    pub(crate) global_snapshot: GlobalSnapshot,
    pub(crate) node_span: NodeSpan,
    /// It has, or may have, changed or locked something.
    pub(crate) wrote: bool,
    /// What is being run takes no snapshot (SHOW, LOCK TABLE).
    pub(crate) snapshotless: bool,
    /// A statement was run that takes a snapshot, on whatever links.
    pub(crate) has_queried: bool,
    /// Its tables could not be locked before its snapshot: the user may write them, not lock them.
    pub(crate) lacks_locks: bool,
    /// LOCK TABLE was run before there was a snapshot.
    pub(crate) locked: bool,
    /// It has changed tables or locked them: no other session may look at them.
    pub(crate) ran_ddl: bool,
    /// `ran_ddl` as it was before the schema change that is under way.
    pub(crate) ran_ddl_before: bool,
    /// The table that CREATE TABLE AS has made is being filled.
    pub(crate) fills_table: bool,
    /// Its snapshot on the home node, for the session beside it.
    pub(crate) exported: Option<String>,
    /// The first node that was touched: the transaction's `now()` is that node's.
    pub(crate) clock: Option<NodeId>,
}

#[derive(Clone, Debug)]
pub(crate) enum Replay {
    Savepoint(String, Settings),
    /// A command, and what it is about.
    Set(String, About),
    /// A setting that no node is told of, and its value from here on.
    Own(&'static str, Option<String>),
    /// LISTEN or UNLISTEN, which counts from the commit on.
    Listen(Change),
}

/// What a command changes that a node is sent when it joins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum About {
    /// A setting, by which PostgreSQL may read constants and names.
    Setting,
    /// The transaction that it is sent in.
    Transaction,
    Locks,
}

/// A step of LISTEN or UNLISTEN, which takes effect when its transaction commits.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Add(String),
    Remove(String),
    RemoveAll,
}

/// How far a transaction that keeps its first snapshot is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum GlobalSnapshot {
    /// It has no snapshot yet.
    #[default]
    Pending,
    /// Its snapshots on all nodes it may read are of one global snapshot.
    Taken,
    /// None is needed: it reads one node, or each node's own state.
    Unneeded,
}

impl Replay {
    pub(crate) fn set(command: String) -> Self {
        let is_about_itself = planner::parse(&command).is_ok_and(|statements| statements.iter().any(sets_transaction));
        Replay::Set(command, if is_about_itself { About::Transaction } else { About::Setting })
    }

    pub(crate) fn lock(command: String) -> Self {
        Replay::Set(command, About::Locks)
    }
}

/// Is it about the transaction that it is sent in?
fn sets_transaction(statement: &Statement) -> bool {
    let StatementKind::Set(set) = &statement.kind else { return false };
    match set {
        SetStatement::Transaction(_) | SetStatement::Snapshot(_) => true,
        SetStatement::Value { name, .. } | SetStatement::Default { name, .. } | SetStatement::Reset(name) => {
            ["transaction_isolation", "transaction_read_only", "transaction_deferrable"].contains(&name.as_str())
        }
        SetStatement::SessionCharacteristics(_) | SetStatement::ResetAll => false,
    }
}

impl Block {
    /// Does it read all datanodes as of one global snapshot?
    pub(crate) fn is_under_snapshot(&self) -> bool {
        self.isolation == Isolation::RepeatableRead || matches!(self.node_span, NodeSpan::MultiNode(..))
    }

    /// Has it made objects, or locked tables, that no other session may look at? CREATE TABLE AS reads nothing it has made.
    pub(crate) fn hides_schema(&self) -> bool {
        match self.fills_table {
            true => self.ran_ddl_before,
            false => self.ran_ddl || self.schema_changed,
        }
    }

    pub(crate) fn last_savepoint(&self) -> Option<&str> {
        self.replay.iter().rev().find_map(|step| match step {
            Replay::Savepoint(name, _) => Some(name.as_str()),
            Replay::Set(..) | Replay::Own(..) | Replay::Listen(_) => None,
        })
    }

    pub(crate) fn has_settings(&self) -> bool {
        self.replay.iter().any(|step| matches!(step, Replay::Set(..)))
    }

    /// Are there others than those of the transaction itself?
    pub(crate) fn has_settings_of_session(&self) -> bool {
        self.replay.iter().any(|step| matches!(step, Replay::Set(_, About::Setting)))
    }

    /// What a node that joins is sent.
    pub(crate) fn joining_commands(&self) -> String {
        let mut sql = self.begin.clone();
        if let Some(lock) = self.node_span.lock() {
            sql.push_str("; ");
            sql.push_str(lock);
        }
        for step in &self.replay {
            match step {
                Replay::Savepoint(name, _) => sql.push_str(&savepoint(name)),
                Replay::Set(command, _) => {
                    sql.push_str("; ");
                    sql.push_str(command);
                }
                Replay::Own(..) | Replay::Listen(_) => {}
            }
        }
        sql
    }

    /// The commands that make its savepoints, each after a semicolon.
    pub(crate) fn savepoints(&self) -> String {
        let commands = self.replay.iter().filter_map(|step| match step {
            Replay::Savepoint(name, _) => Some(savepoint(name)),
            Replay::Set(..) | Replay::Own(..) | Replay::Listen(_) => None,
        });
        commands.collect()
    }

    /// A fingerprint of what its backends report, whose session has these settings. An error takes it back to the last savepoint.
    pub(crate) fn settings_state(&self, of_session: &Settings) -> u64 {
        let savepoint = self.replay.iter().rposition(|step| matches!(step, Replay::Savepoint(..)));
        let (settings, steps) = match (self.failed, savepoint.map(|at| (&self.replay[at], at))) {
            (false, _) => (of_session, &self.replay[..]),
            (true, Some((Replay::Savepoint(_, settings), at))) => (settings, &self.replay[..at]),
            (true, _) => (&self.settings_at_begin, &self.replay[..0]),
        };
        let made = steps.iter().filter_map(|step| match step {
            Replay::Set(command, About::Setting) => Some(command.as_str()),
            _ => None,
        });
        settings.state(made)
    }

    /// The session's settings before the block.
    pub(crate) fn settings_at_begin(&self) -> &Settings {
        &self.settings_at_begin
    }

    /// The settings made in the block but those of the transaction itself, in order.
    pub(crate) fn settings_made(&self) -> Vec<String> {
        let commands = self.replay.iter().filter_map(|step| match step {
            Replay::Set(command, About::Setting | About::Locks) => Some(command.clone()),
            _ => None,
        });
        commands.collect()
    }
}

fn savepoint(name: &str) -> String {
    format!("; SAVEPOINT {}", catalog::quote_identifier(name))
}
