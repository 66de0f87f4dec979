//! LISTEN, UNLISTEN and NOTIFY.
//!
//! A session that listens has a connection of its own to every datanode, each kept by a task, and hears of what any transaction
//! notifies on any of them, as PostgreSQL delivers it: after the commit. NOTIFY itself is done on the home node, in the session's
//! transaction. PostgreSQL does not prepare a transaction that notifies, so that node is the commit point.
//!
//! ```text
//!  datanode ── task ──┐
//!  datanode ── task ──┴─ bounded queue ─> session, when it is outside a transaction ─> client
//! ```
//!
//! A datanode that joins is listened on from the moment when the coordinator knows of it, a second at most; one that leaves is
//! no loss.
//!
//! Invariants: a channel counts from the commit of its LISTEN on; nothing is dropped on the way (a session that does not read
//! makes the datanodes keep what is to come), and a session that has lost one of its connections is ended.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Buf;
use catalog::NodeId;
use pgerror::{PgError, Result, SqlState, field};
use pgproto::backend::tag;
use pgproto::{Connection, Frame};
use tokio::sync::{mpsc, oneshot, watch};

use crate::backend::pool::Identity;
use crate::block::Change;
use crate::block::Replay;
use crate::session::Session;
use crate::shared::context::Context;

/// Notifications that wait for a session; more wait in the datanodes.
const QUEUE: usize = 256;

/// What a session that listens has.
pub(crate) struct Listening {
    ears: Vec<Ear>,
    members: watch::Receiver<()>,
    heard: mpsc::Sender<Result<Frame>>,
    queue: mpsc::Receiver<Result<Frame>>,
    /// Came while an order was carried out.
    early: VecDeque<Result<Frame>>,
    channels: BTreeSet<String>,
}

/// The task that keeps a datanode's connection.
struct Ear {
    node: NodeId,
    orders: mpsc::Sender<Order>,
}

/// A statement for a task's connection.
struct Order {
    sql: String,
    done: oneshot::Sender<Result<()>>,
}

/// Keeps a connection that listens.
async fn attend(
    (context, node): (Arc<Context>, NodeId),
    mut connection: Connection,
    mut orders: mpsc::Receiver<Order>,
    queue: mpsc::Sender<Result<Frame>>,
) {
    loop {
        let (mut lost, mut answer) = (None, None);
        tokio::select! {
            order = orders.recv() => match order {
                Some(order) => answer = Some((order.done, connection.execute(&order.sql).await.map(drop))),
                None => return,
            },
            heard = connection.hear() => lost = heard.err(),
        }
        for frame in connection.take_notices().into_iter().filter(|frame| frame.tag == tag::NOTIFICATION) {
            if queue.send(Ok(frame)).await.is_err() {
                return;
            }
        }
        if let Some((done, result)) = answer {
            // After what came before it: a session that waits for the answer has it in the queue.
            let _ = done.send(result);
        }
        if connection.is_broken() || lost.is_some() {
            if !has_left(&context, node).await {
                let _ = queue.send(Err(deaf())).await;
            }
            return;
        }
    }
}

/// Is it no datanode any more?
async fn has_left(context: &Context, node: NodeId) -> bool {
    context.catalog().await.is_ok_and(|loaded| loaded.catalog.nodes().iter().all(|member| member.id != node))
}

fn deaf() -> PgError {
    PgError::fatal(SqlState::CONNECTION_FAILURE, "a datanode that this session listens on was lost")
        .hint("Connect and LISTEN again.")
}

impl Listening {
    /// Runs a statement on all connections.
    async fn order(&mut self, sql: &str) -> Result<()> {
        let mut answers = Vec::with_capacity(self.ears.len());
        for ear in &self.ears {
            let (done, answer) = oneshot::channel();
            ear.orders.send(Order { sql: sql.to_owned(), done }).await.map_err(|_| deaf())?;
            answers.push(answer);
        }
        let mut all = std::pin::pin!(futures_util::future::join_all(answers));
        loop {
            tokio::select! {
                answers = &mut all => {
                    return answers.into_iter().try_for_each(|answer| answer.map_err(|_| deaf())?);
                }
                // A task that cannot get rid of what it has heard would not come to the order.
                Some(heard) = self.queue.recv() => self.early.push_back(heard),
            }
        }
    }

    /// Does it listen on the datanodes there are now?
    fn hears_all(&self, context: &Context) -> bool {
        let present = context.members().present();
        self.ears.len() == present.len() && self.ears.iter().all(|ear| present.contains_key(&ear.node))
    }

    /// Listens on the datanodes there are now. Cancel-safe.
    async fn follow_members(&mut self, context: &Arc<Context>, identity: &Identity) -> Result<()> {
        let present = context.connect_options(identity);
        self.ears.retain(|ear| present.get(ear.node.0).is_some());
        for (id, options) in present.iter() {
            let node = NodeId(id);
            if self.ears.iter().any(|ear| ear.node == node) {
                continue;
            }
            let mut connection = Connection::connect(options).await.map_err(PgError::of_a_statement)?;
            for channel in &self.channels {
                connection.execute(&format!("LISTEN {}", catalog::quote_identifier(channel))).await?;
            }
            let (orders, ordered) = mpsc::channel(1);
            tokio::spawn(attend((context.clone(), node), connection, ordered, self.heard.clone()));
            self.ears.push(Ear { node, orders });
        }
        Ok(())
    }

    /// Only what the session listens to.
    fn wanted(&self, heard: Result<Frame>) -> Option<Result<Frame>> {
        match heard {
            Ok(frame) => self.channels.contains(&channel(&frame)).then_some(Ok(frame)),
            Err(error) => Some(Err(error)),
        }
    }
}

/// The channel of a NotificationResponse: process id, channel, payload.
fn channel(frame: &Frame) -> String {
    let mut body = frame.body.clone();
    body.advance(body.len().min(4));
    let end = body.iter().position(|byte| *byte == 0).unwrap_or(body.len());
    String::from_utf8_lossy(&body[..end]).into_owned()
}

impl Session {
    /// LISTEN.
    pub async fn listen(&mut self, channel: &str) -> Result<()> {
        if self.listening.is_none() {
            let (heard, queue) = mpsc::channel(QUEUE);
            let members = self.context.members().changes();
            let (ears, early, channels) = (Vec::new(), VecDeque::new(), BTreeSet::new());
            self.listening = Some(Listening { ears, members, heard, queue, early, channels });
        }
        if let Some(listening) = &mut self.listening {
            if !listening.hears_all(&self.context) {
                let follow = listening.follow_members(&self.context, self.links.identity());
                self.links.cancel().interrupt().or(follow).await??;
            }
            listening.order(&format!("LISTEN {}", catalog::quote_identifier(channel))).await?;
        }
        self.change_channels(Change::Add(channel.to_owned()));
        Ok(())
    }

    /// UNLISTEN; `None` for all channels.
    pub fn unlisten(&mut self, channel: Option<&str>) {
        if self.listening.is_none() {
            return;
        }
        self.change_channels(channel.map_or(Change::RemoveAll, |channel| Change::Remove(channel.to_owned())));
    }

    /// NOTIFY.
    pub async fn notify(&mut self, sql: &str) -> Result<()> {
        let (home, mode) = (self.home, self.mode());
        self.acquire_as_is(home, mode).await?;
        let leased = self.links.link(home)?;
        leased.link.connection.query(sql.as_bytes());
        leased.flush().await?;
        leased.finish().await?;
        self.notified = true;
        self.release();
        Ok(())
    }

    fn change_channels(&mut self, change: Change) {
        match &mut self.block {
            Some(block) => block.replay.push(Replay::Listen(change)),
            None => self.apply_changes([change]),
        }
    }

    /// The transaction has committed: its LISTENs count.
    pub(crate) fn channels_committed(&mut self) {
        let steps = self.block.iter().flat_map(|block| &block.replay);
        let changes: Vec<Change> = steps
            .filter_map(|step| match step {
                Replay::Listen(change) => Some(change.clone()),
                _ => None,
            })
            .collect();
        self.apply_changes(changes);
    }

    fn apply_changes(&mut self, changes: impl IntoIterator<Item = Change>) {
        let Some(listening) = &mut self.listening else { return };
        for change in changes {
            match change {
                Change::Add(channel) => drop(listening.channels.insert(channel)),
                Change::Remove(channel) => drop(listening.channels.remove(&channel)),
                Change::RemoveAll => listening.channels.clear(),
            }
        }
        if listening.channels.is_empty() {
            // Nobody listens: the tasks end with their connections.
            self.listening = None;
        }
    }

    /// The next notification for the client, of a session outside a transaction. Cancel-safe.
    pub async fn next_notification(&mut self) -> Result<Frame> {
        let in_block = self.in_block();
        let (context, identity) = (self.context.clone(), self.links.identity().clone());
        let Some(listening) = self.listening.as_mut().filter(|_| !in_block) else {
            return std::future::pending().await;
        };
        loop {
            if !listening.hears_all(&context) {
                listening.follow_members(&context, &identity).await.map_err(|_| deaf())?;
            }
            let heard = match listening.early.pop_front() {
                Some(heard) => heard,
                None => tokio::select! {
                    heard = listening.queue.recv() => heard.unwrap_or_else(|| Err(deaf())),
                    Ok(()) = listening.members.changed() => continue,
                },
            };
            if let Some(wanted) = listening.wanted(heard) {
                return wanted;
            }
        }
    }

    /// What has come so far, the session's own among it, if it is outside a transaction.
    pub async fn notifications(&mut self) -> Result<Vec<Frame>> {
        let (in_block, notified) = (self.in_block(), self.notified);
        let Some(listening) = self.listening.as_mut().filter(|_| !in_block) else { return Ok(Vec::new()) };
        if notified {
            // A backend tells what it has heard before it is ready again.
            self.notified = false;
            listening.order("SELECT").await?;
        }
        while let Ok(heard) = listening.queue.try_recv() {
            listening.early.push_back(heard);
        }
        let heard = std::mem::take(&mut listening.early);
        let wanted = heard.into_iter().filter_map(|heard| listening.wanted(heard));
        wanted.map(|heard| heard.map_err(|error| error.with(field::SEVERITY, "FATAL"))).collect()
    }

    /// Marks the node that has notified in this transaction as one that cannot be prepared.
    pub(crate) fn note_notifier(&mut self) {
        let home = self.home;
        if let Some(leased) = self.links.get_mut(home).filter(|_| self.notified) {
            leased.temp |= leased.begun;
        }
    }
}
