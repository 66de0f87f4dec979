//! The row mover: rows of some links go to COPYs on others.
//!
//! ```text
//!  link that gives ─┐              ┌─> link that takes     one future a link, at most
//!  link that gives ─┼─> Partitions ┼─> link that takes     [`ROOM_BYTES`] wait for a node
//!  gives and takes <┘              └─> gives and takes
//! ```
//!
//! * A link that only takes has one COPY, from its first row to its last; rows go there while others still come.
//! * A link that only gives is left unread while a node's buffer is full.
//! * A session cannot send rows and take some at once, so a link that does both gives a batch ([`BATCH_BYTES`] or so) from an open
//!   portal, then takes what waits for it in a COPY of its own, behind which it is asked for the next batch in the same flight. Such
//!   links do not wait for each other's batches: one takes while another gives.
//!
//! **No circle of waits.** What waits for another link is only the reading of a link that does nothing but give, and the start of a
//! batch; both wait for room in the buffers. Room is made by COPYs, which begin and end without waiting for any other link: a link
//! that has begun a batch reads it to its end, however full the buffers are (that is why a batch is bounded), and then takes. The
//! end of the last COPY waits for the end of all sources, and no source waits for that.
//!
//! **Errors.** The first one cancels what the other links are doing; each reads its answer to the end, so every link is drained, or
//! broken, when the move is over. A cancel does not wait for a slow target: only the owner of a link reads and writes there.
//!
//! Memory: for each node [`ROOM_BYTES`], and a batch or a read of each source beyond.

pub(crate) mod partitions;
pub(crate) mod rows;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use catalog::NodeId;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pgerror::{PgError, Result};
use pgproto::{CancelKey, frontend};
use tokio::sync::Notify;

use crate::backend::leased::LeasedConnection;
use crate::backend::request::Event;
use crate::engine::row_router::RowRouter;
use crate::session::Session;
use crate::shared::figures::{EXCHANGED_BYTES, EXCHANGED_ROWS};
use partitions::Partitions;
use rows::FRAME_BYTES;

/// What a source that also takes gives at a time, about.
pub(crate) const BATCH_BYTES: usize = 8 << 20;
pub(crate) const BATCH_ROWS_MAX: usize = 200_000;
const BATCH_ROWS_MIN: usize = 100;
/// A batch may have so many times the rows of the one before.
const BATCH_GROWTH: usize = 8;
/// Nothing is fetched while more waits for a node.
const ROOM_BYTES: usize = 2 * BATCH_BYTES;
/// What makes a COPY of its own worthwhile on a link that also gives.
const COPY_BYTES_MIN: usize = BATCH_BYTES / 2;

/// The portal of a source that gives batches.
pub(crate) const PORTAL: &[u8] = b"loxo_exchange";

/// A link and its part in a move.
pub(crate) struct Worker<'a> {
    pub(crate) node: NodeId,
    pub(crate) leased: &'a mut LeasedConnection,
    pub(crate) gives: Gives,
    pub(crate) takes: bool,
}

/// Rows that a link gives; the first of them are asked for already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    Nothing,
    /// All that comes up to ReadyForQuery.
    Answer,
    /// Out of [`PORTAL`], so many rows at first.
    Portal(usize),
}

/// What happens at the links that take.
pub(crate) struct Delivery<'a> {
    pub(crate) copy: &'a str,
    /// A COPY begins before there are rows, and so in any case.
    pub(crate) at_once: bool,
    /// Nodes and what they do once they have all rows.
    pub(crate) then: Option<(&'a [NodeId], String)>,
}

/// What a source has given.
#[derive(Clone, Debug)]
pub(crate) struct Moved {
    pub(crate) node: NodeId,
    pub(crate) rows: u64,
    /// On their way: none for rows that stayed where they were.
    pub(crate) bytes: u64,
}

impl Moved {
    pub(crate) fn stayed(node: NodeId, command_tag: Option<&str>) -> Self {
        let rows = command_tag.and_then(|tag| pgproto::backend::split_command_tag(tag).1).unwrap_or(0);
        Self { node, rows, bytes: 0 }
    }
}

impl Session {
    /// Rows have moved for the present statement.
    pub(crate) fn count_moved(&mut self, moved: &[Moved]) {
        self.spent.rows_moved += moved.iter().map(|moved| moved.rows).sum::<u64>();
    }
}

/// Moves all rows; gives what each source gave.
pub(crate) async fn move_rows(
    workers: Vec<Worker<'_>>,
    router: RowRouter<'_>,
    to: &Delivery<'_>,
) -> Result<Vec<Moved>> {
    let giving = workers.iter().filter(|worker| worker.gives != Gives::Nothing).count();
    let binary = router.is_binary();
    let targets = workers.iter().filter(|worker| worker.takes).map(|worker| worker.node);
    let state = State { partitions: Partitions::new(router, targets), giving, has_failed: false };
    let mover = Mover { to, binary, state: Mutex::new(state), changed: Notify::new() };
    let mut running: BTreeMap<usize, CancelKey> =
        workers.iter().map(|worker| worker.leased.link.connection.cancel_key().clone()).enumerate().collect();
    let steps = workers.into_iter().enumerate().map(|(at, worker)| {
        let work = mover.work(worker);
        async move { (at, work.await) }
    });
    let mut steps: FuturesUnordered<_> = steps.collect();
    let (mut moved, mut failure) = (Vec::new(), None);
    while let Some((at, done)) = steps.next().await {
        running.remove(&at);
        match done {
            Ok(given) => moved.extend(given),
            Err(error) if failure.is_none() => {
                failure = Some(error);
                mover.change(|state| state.has_failed = true);
                // Waited for: a cancel that comes late would hit the next statement.
                futures_util::future::join_all(running.values().map(CancelKey::cancel)).await;
            }
            // That it was cancelled is no news.
            Err(_) => {}
        }
    }
    failure.map_or(Ok(moved), Err)
}

/// What the links share.
struct Mover<'d, 'r> {
    to: &'d Delivery<'d>,
    binary: bool,
    state: Mutex<State<'r>>,
    /// Rows have come or gone, a source is at its end, or a link has failed.
    changed: Notify,
}

struct State<'a> {
    partitions: Partitions<'a>,
    /// Sources that are not at their end.
    giving: usize,
    has_failed: bool,
}

/// What a link that gives does next.
struct Round {
    rows: Vec<Bytes>,
    fetch: Option<usize>,
    is_last: bool,
}

impl State<'_> {
    fn has_room(&self) -> bool {
        self.partitions.most() < ROOM_BYTES
    }

    /// `target`: the node, if the link takes as well. `batch_rows`: of the batch before, if the portal has more. `None`: wait;
    /// `Some(None)`: it is all in vain.
    fn round(&mut self, target: Option<NodeId>, batch_rows: Option<usize>) -> Option<Option<Round>> {
        if self.has_failed {
            return Some(None);
        }
        let is_last = self.giving == 0;
        let waiting = target.map_or(0, |node| self.partitions.waiting(node));
        let takes = waiting >= COPY_BYTES_MIN || waiting > 0 && (is_last || !self.has_room());
        let rows = target.filter(|_| takes).map(|node| self.partitions.take(node)).unwrap_or_default();
        if is_last {
            return Some(Some(Round { rows, fetch: None, is_last }));
        }
        let batch = |before| {
            let rows = self.partitions.rows_for(BATCH_BYTES).clamp(BATCH_ROWS_MIN, BATCH_ROWS_MAX);
            rows.min(before * BATCH_GROWTH)
        };
        let fetch = batch_rows.filter(|_| self.has_room()).map(batch);
        (takes || fetch.is_some()).then_some(Some(Round { rows, fetch, is_last }))
    }

    /// Rows for a link that only takes: none at the end.
    fn frames(&mut self, node: NodeId) -> Option<Option<Vec<Bytes>>> {
        let waiting = self.partitions.waiting(node);
        match self.has_failed {
            true => Some(None),
            false if waiting >= FRAME_BYTES || self.giving == 0 => Some(Some(self.partitions.take(node))),
            false => None,
        }
    }
}

impl<'r> Mover<'_, 'r> {
    fn state(&self) -> MutexGuard<'_, State<'r>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, work: impl FnOnce(&mut State<'r>) -> T) -> T {
        let done = work(&mut self.state());
        self.changed.notify_waiters();
        done
    }

    /// Waits until the state has what is asked for.
    async fn wait<T>(&self, mut ready: impl FnMut(&mut State<'r>) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            let found = ready(&mut self.state());
            if let Some(found) = found {
                self.changed.notify_waiters();
                return found;
            }
            changed.await;
        }
    }

    /// All that a link does; gives what it gave.
    async fn work(&self, worker: Worker<'_>) -> Result<Option<Moved>> {
        match worker.gives {
            Gives::Nothing => self.take_all(worker.node, worker.leased).await.map(|()| None),
            _ => self.give(worker).await.map(Some),
        }
    }

    async fn give(&self, mut worker: Worker<'_>) -> Result<Moved> {
        let mut moved = Moved { node: worker.node, rows: 0, bytes: 0 };
        let mut batch_rows = match worker.gives {
            Gives::Portal(first) => first,
            _ => BATCH_ROWS_MAX,
        };
        // Another link to the node may be the one that takes.
        let target = worker.takes.then_some(worker.node);
        let mut is_open = self.read(&mut worker, &mut moved).await?;
        loop {
            let open = is_open.then_some(batch_rows);
            let Some(round) = self.wait(|state| state.round(target, open)).await else { return Ok(moved) };
            let then = self.to.then.as_ref().filter(|(nodes, _)| round.is_last && nodes.contains(&worker.node));
            let leased = &mut *worker.leased;
            if !round.rows.is_empty() {
                self.queue_whole(leased, &round.rows).await?;
            }
            if let Some(rows) = round.fetch {
                batch_rows = rows;
                frontend::execute(leased.link.connection.out(), PORTAL, rows as i32);
                leased.link.connection.sync();
            }
            if let Some((_, sql)) = then {
                leased.link.connection.query(sql.as_bytes());
            }
            leased.flush().await?;
            // Each answer is read, whatever has become of those before it.
            let copied = if round.rows.is_empty() { Ok(None) } else { leased.read_copied().await };
            let done = if then.is_some() { leased.finish().await } else { Ok(None) };
            if round.fetch.is_some() {
                is_open = copied.and(self.read(&mut worker, &mut moved).await)?;
                continue;
            }
            copied.and(done)?;
            if round.is_last {
                return Ok(moved);
            }
        }
    }

    async fn queue_whole(&self, leased: &mut LeasedConnection, rows: &[Bytes]) -> Result<()> {
        leased.begin_copy(self.to.copy, self.binary);
        for rows in rows {
            leased.copy_rows(rows).await?;
        }
        leased.end_copy(self.binary);
        Ok(())
    }

    /// Reads rows up to ReadyForQuery; has the portal more?
    async fn read(&self, worker: &mut Worker<'_>, moved: &mut Moved) -> Result<bool> {
        let leased = &mut *worker.leased;
        let (mut has_ended, mut failure) = (false, None);
        loop {
            if !worker.takes {
                self.wait(|state| (state.has_failed || state.has_room()).then_some(())).await;
            }
            let outcome = match leased.next().await {
                Ok(Event::Done) => break,
                Ok(Event::Rows(run, _)) if failure.is_none() => self.add(&run, moved),
                Ok(Event::Complete(_) | Event::Empty) => {
                    has_ended = true;
                    Ok(())
                }
                Ok(Event::Rows(..) | Event::Description(_) | Event::Suspended) => Ok(()),
                Ok(other) => Err(PgError::protocol(format!("unexpected answer {other:?} to a fragment"))),
                // The link is drained, or broken.
                Err(error) => return Err(failure.unwrap_or(error)),
            };
            if let (Err(error), None) = (outcome, &failure) {
                failure = Some(error);
                leased.link.connection.cancel_key().cancel().await;
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        if has_ended {
            if matches!(worker.gives, Gives::Portal(_)) {
                // The next exchange opens a portal of the same name.
                frontend::close(leased.link.connection.out(), frontend::Target::Portal, PORTAL);
            }
            self.change(|state| state.giving -= 1);
        }
        Ok(!has_ended)
    }

    fn add(&self, run: &Bytes, moved: &mut Moved) -> Result<()> {
        let (rows, bytes) = self.change(|state| match state.has_failed {
            true => Ok((0, 0)),
            false => state.partitions.add(run),
        })?;
        EXCHANGED_ROWS.add(rows as u64);
        EXCHANGED_BYTES.add(bytes as u64);
        moved.rows += rows as u64;
        moved.bytes += bytes as u64;
        Ok(())
    }

    /// One COPY of all that comes, if any does.
    async fn take_all(&self, node: NodeId, leased: &mut LeasedConnection) -> Result<()> {
        let mut is_copying = self.to.at_once;
        if is_copying {
            leased.begin_copy(self.to.copy, self.binary);
            leased.flush().await?;
        }
        loop {
            let frames = tokio::select! {
                biased;
                event = leased.next(), if is_copying => match event? {
                    Event::CopyIn(_) => continue,
                    other => return Err(PgError::protocol(format!("unexpected {other:?} in the middle of COPY"))),
                },
                frames = self.wait(|state| state.frames(node)) => frames,
            };
            let Some(frames) = frames else {
                if is_copying {
                    frontend::copy_fail(leased.link.connection.out(), b"a source node failed");
                    leased.flush().await?;
                    leased.finish().await?;
                }
                return Ok(());
            };
            if frames.is_empty() {
                break;
            }
            if !std::mem::replace(&mut is_copying, true) {
                leased.begin_copy(self.to.copy, self.binary);
            }
            for rows in frames {
                leased.copy_rows(&rows).await?;
            }
        }
        if is_copying {
            leased.end_copy(self.binary);
        }
        let then = self.to.then.as_ref().filter(|(nodes, _)| nodes.contains(&node));
        if let Some((_, sql)) = then {
            leased.link.connection.query(sql.as_bytes());
        }
        leased.flush().await?;
        let copied = if is_copying { leased.read_copied().await } else { Ok(None) };
        let done = if then.is_some() { leased.finish().await } else { Ok(None) };
        copied.and(done).map(drop)
    }
}
