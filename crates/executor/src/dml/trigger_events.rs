//! What datanodes tell of triggers that the coordinator has to run.
//!
//! Beside each such trigger lies one that calls `loxo.capture()` (see `metadata.sql`): PostgreSQL decides by itself for which
//! rows it fires, and the function says so in a message that no client ever sees. These messages are collected here while
//! a statement runs; what comes of them is the coordinator's affair. Only `loxo.capture()` knows the token in them, so that
//! no function of a user's can make one up.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use catalog::{Catalog, Distribution, NodeId, Oid, Relation, RelationKind};
use pgerror::{PgError, Result, SqlState, field};
use pgproto::Frame;
use pgproto::backend::tag;
use planner::Tables;

use crate::backend::leased::LeasedConnection;
use crate::backend::slot::Slot;
use crate::session::Session;

/// The messages' SQLSTATE, as it stands in them.
const CODE: &[u8] = b"CLX001\0";
/// SQLSTATE of messages about rows of replicated tables: see [`first_copy`](crate::dml::first_copy).
const ROW_CODE: &[u8] = b"CLX002\0";

/// SQLSTATE of messages about rows that belong to another node now: see [`key_moves`](crate::dml::key_moves).
const MOVE_CODE: &[u8] = b"CLX003\0";

/// A row for whose sake a trigger is to run.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct TriggerEvent {
    pub schema: String,
    pub table: String,
    pub trigger: String,
    /// `INSERT`, `UPDATE` or `DELETE`.
    pub operation: String,
    /// The text of the row.
    pub old: Option<Bytes>,
    pub new: Option<Bytes>,
}

/// What has become of a row of a replicated table.
pub(crate) struct RowTold {
    pub(crate) schema: String,
    pub(crate) table: String,
    /// The text of the row.
    pub(crate) old: Option<Bytes>,
    pub(crate) new: Option<Bytes>,
}

/// Is it one of these messages, or one about a row of a replicated table, or one that belongs to another node?
pub(crate) fn is_trigger_event(frame: &Frame) -> bool {
    has_code(frame, CODE) || is_of_row(frame) || is_of_move(frame)
}

fn is_of_move(frame: &Frame) -> bool {
    has_code(frame, MOVE_CODE)
}

fn is_of_row(frame: &Frame) -> bool {
    has_code(frame, ROW_CODE)
}

/// The fields before it are short.
fn has_code(frame: &Frame, code: &[u8]) -> bool {
    const BYTES_BEFORE_MAX: usize = 64;
    let start = &frame.body[..frame.body.len().min(BYTES_BEFORE_MAX)];
    frame.tag == tag::NOTICE && start.windows(code.len()).any(|part| part == code)
}

/// What a notice says: severity, code, message, detail, hint and context. Where in PostgreSQL's source it comes from may differ between
/// servers.
type Said = [Option<Vec<u8>>; 6];

fn said(frame: &Frame) -> Said {
    let message = PgError::decode_body(frame.body.clone());
    let fields = [field::SEVERITY, field::CODE, field::MESSAGE, field::DETAIL, field::HINT, field::WHERE];
    fields.map(|code| message.get(code).map(<[u8]>::to_vec))
}

fn counted(frames: &[Frame]) -> HashMap<Said, usize> {
    let mut times = HashMap::new();
    for frame in frames.iter().filter(|frame| !is_trigger_event(frame)) {
        *times.entry(said(frame)).or_default() += 1;
    }
    times
}

/// How often each thing is said by the first copy and by every other one.
fn by_all(of_first: &[Frame], told: &[Vec<Frame>]) -> HashMap<Said, usize> {
    let mut all = counted(of_first);
    for frames in told {
        let times = counted(frames);
        all.retain(|said, most| {
            *most = times.get(said).map_or(0, |times| (*most).min(*times));
            *most > 0
        });
    }
    all
}

/// Takes one away, if there is one left.
fn takes_one(left: &mut HashMap<Said, usize>, said: &Said) -> bool {
    let Some(times) = left.get_mut(said).filter(|times| **times > 0) else { return false };
    *times -= 1;
    true
}

/// May foreign keys take a change of these tables on to tables of which each node has rows of its own?
fn reaches_partitioned(catalog: &Catalog, changed: Vec<Oid>) -> bool {
    let mut reached: HashSet<Oid> = changed.into_iter().collect();
    loop {
        let before = reached.len();
        for table in catalog.relations() {
            let is_led_to = table.foreign_keys.iter().any(|key| key.acts && reached.contains(&key.referenced));
            if is_led_to && !matches!(table.distribution, Distribution::Replicated { .. }) {
                return true;
            }
            // Rows of a partition are its parent's too.
            if is_led_to || reached.contains(&table.oid) || table.parents.iter().any(|parent| reached.contains(parent))
            {
                reached.insert(table.oid);
                reached.extend(&table.parents);
            }
        }
        if reached.len() == before {
            return false;
        }
    }
}

/// Tables that a text may change or delete rows of. Of all those that it names; if views are among them, or what is not known, it may be
/// any table that has copies.
fn may_change(sql: &str, catalog: &Catalog) -> Vec<Oid> {
    let has_copies = |table: &&Arc<Relation>| matches!(table.distribution, Distribution::Replicated { .. });
    let any = || catalog.relations().filter(has_copies).map(|table| table.oid).collect();
    let Ok(tables) = Tables::in_text(sql) else { return any() };
    if tables.only_inserts() {
        return Vec::new();
    }
    let mut changed = Vec::new();
    for name in tables.written.iter().chain(&tables.read) {
        let is_meant =
            |table: &&Arc<Relation>| *name == table.qualified_name() || *name == catalog::quote_identifier(&table.name);
        let before = changed.len();
        for table in catalog.relations().filter(is_meant) {
            if table.kind == RelationKind::View {
                return any();
            }
            changed.push(table.oid);
        }
        if changed.len() == before {
            return any();
        }
    }
    changed
}

impl Session {
    /// What one link has to say: trigger events are set aside, the rest is for the client.
    pub(crate) fn keep_notices(&mut self, node: NodeId, frames: Vec<Frame>) {
        for frame in frames {
            match is_trigger_event(&frame) {
                true => self.trigger_events.push((node, frame)),
                false => self.notices.push(frame),
            }
        }
    }

    /// What nodes tell of a text that each ran on its copies.
    pub(crate) async fn keep_notices_of_text(&mut self, first: NodeId, others: &[NodeId], sql: &str) -> Result<()> {
        self.keep_notices_of_copies(first, others, |catalog| may_change(sql, catalog)).await
    }

    /// What nodes tell of a change of their copies. What concerns the rows of all copies the client hears once, from the first. If foreign
    /// keys take the change of these tables on to rows that only one node has, the others may have something of their own to say:
    /// what not all of them say alike is taken for that.
    pub(crate) async fn keep_notices_of_copies(
        &mut self,
        first: NodeId,
        others: &[NodeId],
        changed: impl FnOnce(&Catalog) -> Vec<Oid>,
    ) -> Result<()> {
        let mut take = |node: &NodeId| {
            self.links.get_mut(*node).map(|leased| leased.link.connection.take_notices()).unwrap_or_default()
        };
        let of_first = take(&first);
        let told: Vec<Vec<Frame>> = others.iter().map(take).collect();
        self.keep_notices(first, of_first);
        let says_more = told.iter().flatten().any(|frame| !is_trigger_event(frame));
        let reaches_others = says_more && {
            let catalog = &self.catalog().await?.catalog;
            reaches_partitioned(catalog, changed(catalog))
        };
        let by_all = if reaches_others { by_all(&self.notices, &told) } else { HashMap::new() };
        for (node, mut frames) in others.iter().zip(told) {
            let mut left = by_all.clone();
            frames.retain(|frame| is_trigger_event(frame) || reaches_others && !takes_one(&mut left, &said(frame)));
            self.keep_notices(*node, frames);
        }
        Ok(())
    }

    /// Keeps only trigger events of what these nodes tell of a change of their copies: the first copy has told the client the rest.
    pub(crate) fn keep_trigger_events_only(&mut self, nodes: &[NodeId]) {
        for node in nodes {
            let frames = self.links.get_mut(*node).map(|leased| leased.link.connection.take_notices());
            let trigger_events = frames.unwrap_or_default().into_iter().filter(is_trigger_event);
            self.trigger_events.extend(trigger_events.map(|frame| (*node, frame)));
        }
    }

    /// Sets aside what links that are out of the session's hands tell of trigger events, and leaves the rest with them.
    pub(crate) fn keep_trigger_events(&mut self, links: &mut [(Slot, LeasedConnection)]) {
        for (slot, leased) in links {
            let all = leased.link.connection.take_notices();
            let (trigger_events, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_trigger_event);
            self.trigger_events.extend(trigger_events.into_iter().map(|frame| (slot.node(), frame)));
            leased.link.connection.put_back_notices(others);
        }
    }

    /// The trigger events since the last call: node by node, in their order on each. Of the copies of a row one speaks.
    pub async fn take_trigger_events(&mut self) -> Result<Vec<TriggerEvent>> {
        self.forget_rows_told();
        if self.trigger_events.is_empty() {
            return Ok(Vec::new());
        }
        // Rows that nobody has asked for would stay where they are: the statement fails by `no_trigger_events`.
        let (moves, mut frames) =
            std::mem::take(&mut self.trigger_events).into_iter().partition(|(_, frame)| is_of_move(frame));
        self.trigger_events = moves;
        frames.sort_by_key(|(node, _)| *node);
        let token = self.context.capture_token().await?;
        let loaded = self.catalog().await?;
        let mut trigger_events = Vec::with_capacity(frames.len());
        for (node, frame) in frames {
            let message = PgError::decode_body(frame.body.clone());
            if message.get(field::CONSTRAINT) != Some(token.as_ref()) {
                self.notices.push(frame);
                continue;
            }
            let text = |code| message.text(code).into_owned();
            let (schema, table) = (text(field::SCHEMA), text(field::TABLE));
            let lost = || PgError::internal(format!("a trigger of {schema}.{table}, which is not in the catalog"));
            if !speaks(&loaded.catalog.relation(&schema, &table).ok_or_else(lost)?.distribution, node) {
                continue;
            }
            let row = |code| message.get(code).filter(|row| !row.is_empty()).map(Bytes::copy_from_slice);
            trigger_events.push(TriggerEvent {
                schema,
                table,
                trigger: text(field::MESSAGE),
                operation: text(field::COLUMN),
                old: row(field::DETAIL),
                new: row(field::HINT),
            });
        }
        Ok(trigger_events)
    }

    /// The tables, by schema and name, that have told of rows with another distribution key, and on which node.
    pub(crate) async fn take_moves_told(&mut self) -> Result<BTreeSet<(String, String, NodeId)>> {
        self.collect_notices();
        let (told, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.trigger_events).into_iter().partition(|(_, frame)| is_of_move(frame));
        self.trigger_events = others;
        if told.is_empty() {
            return Ok(BTreeSet::new());
        }
        let token = self.context.capture_token().await?;
        let messages = told.into_iter().map(|(node, frame)| (node, PgError::decode_body(frame.body)));
        let proven = messages.filter(|(_, message)| message.get(field::CONSTRAINT) == Some(token.as_ref()));
        let text = |message: &PgError, code| message.text(code).into_owned();
        Ok(proven.map(|(node, message)| (text(&message, field::SCHEMA), text(&message, field::TABLE), node)).collect())
    }

    /// Forgets what was told of rows by a statement that has failed.
    pub(crate) fn forget_rows_told(&mut self) {
        self.collect_notices();
        self.trigger_events.retain(|(_, frame)| !is_of_row(frame));
    }

    /// What the first copy has told of rows, in the order in which they changed.
    pub(crate) async fn take_rows_told(&mut self, first: NodeId) -> Result<Vec<RowTold>> {
        self.collect_notices();
        let (told, others) =
            std::mem::take(&mut self.trigger_events).into_iter().partition(|(_, frame)| is_of_row(frame));
        self.trigger_events = others;
        let told: Vec<(NodeId, Frame)> = told;
        if told.is_empty() {
            return Ok(Vec::new());
        }
        let token = self.context.capture_token().await?;
        let messages = told.into_iter().filter(|(node, _)| *node == first);
        let messages = messages.map(|(_, frame)| PgError::decode_body(frame.body));
        let row = |message: &PgError, code| message.get(code).filter(|row| !row.is_empty()).map(Bytes::copy_from_slice);
        Ok(messages
            .filter(|message| message.get(field::CONSTRAINT) == Some(token.as_ref()))
            .map(|message| RowTold {
                schema: message.text(field::SCHEMA).into_owned(),
                table: message.text(field::TABLE).into_owned(),
                old: row(&message, field::DETAIL),
                new: row(&message, field::HINT),
            })
            .collect())
    }

    /// [`Session::no_trigger_events`] at the end of a statement, whose plan a new trigger may have overtaken.
    pub async fn all_fired(&mut self, failed: bool) -> Result<()> {
        let planned = self.schema_version;
        let Err(error) = self.no_trigger_events(failed) else { return Ok(()) };
        match self.catalog().await?.catalog.schema_version() == planned {
            true => Err(error),
            false => Err(PgError::new(SqlState::SERIALIZATION_FAILURE, "a trigger was made while the statement ran")
                .hint("Run the statement again, or the whole transaction if it was part of one.")),
        }
    }

    /// Forgets the trigger events of a statement that has failed. An error if one that has not left any: its triggers would not run.
    pub fn no_trigger_events(&mut self, failed: bool) -> Result<()> {
        self.forget_rows_told();
        match std::mem::take(&mut self.trigger_events).is_empty() || failed {
            true => Ok(()),
            false => Err(PgError::unsupported("a trigger that reads or writes tables, fired by this statement,")
                .hint("Change the table by INSERT, UPDATE, DELETE, MERGE or COPY.")),
        }
    }
}

/// Do the trigger events of a table on this node count?
fn speaks(distribution: &Distribution, node: NodeId) -> bool {
    match distribution {
        Distribution::Replicated { nodes } => nodes.first() == Some(&node),
        _ => true,
    }
}
