//! The moving part of COPY FROM: one task routes, one task a datanode writes.
//!
//! Queues are bounded ([`FRAMES_QUEUED`] a node), so a slow node slows the input down. Frames go round: a writer gives its
//! empty buffer back.
//!
//! When one node or the router finds an error, all rows before it are still sent and every node finishes what it got; the
//! error that PostgreSQL meets first is reported: that of the smallest line, but that it finds a key that is taken only when
//! it stores a batch of rows.

use std::path::PathBuf;
use std::sync::Arc;

use catalog::{NodeId, Relation};
use copyfmt::{CopyOptions, Router, Step};
use pgerror::{PgError, Result, SqlState};
use pgproto::{backend, frontend};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinHandle;

use crate::backend::leased::LeasedConnection;
use crate::backend::slot::Slot;
use crate::copy::convert::Converter;
use crate::copy::feed::{Fed, Feed};
use crate::copy::from::FRAME_BYTES;
use crate::copy::input::read_line_again;

/// Input bytes after which rows leave even if their frame is not full: a node's error then comes while its line is still
/// among those that the router remembers.
const SWEEP_BYTES: usize = 4 << 20;
/// Frames waiting for one datanode.
const FRAMES_QUEUED: usize = 4;
/// Frames sent without a wait that outweigh one that had to wait for its node.
const WAIT_WEIGHT: u32 = 8;
/// Waits at which nodes no longer count as keeping up.
const WAITS_MANY: u32 = 2;
/// Waits that are remembered.
const WAITS_MAX: u32 = 8;

/// Notices about rows left out; the rest is only counted.
const NOTICES_MAX: usize = 100_000;

/// What a writer is told.
enum Order {
    /// Rows; shared if several nodes get the same.
    Rows(Arc<Vec<u8>>),
    /// The COPY is given up.
    Abandon,
}

/// One COPY under way.
pub(crate) struct Copy {
    router: Router,
    converter: Converter,
    /// Nodes of each output.
    destinations: Vec<Vec<NodeId>>,
    outputs: Vec<Vec<u8>>,
    writers: Vec<Writer>,
    empty_buffers: mpsc::UnboundedReceiver<Arc<Vec<u8>>>,
    binary: bool,
    /// Grows with each frame that has to wait for its node, fades with those that have not.
    waits: u32,
    /// Rows that each node has, once all writers have ended.
    stored: Vec<(NodeId, u64)>,
    /// The error to report is one of a datanode.
    node_failed: bool,
    target: Arc<Relation>,
    /// `ON_ERROR ignore`.
    rejects: Option<Rejects>,
}

/// `ON_ERROR ignore`: rows that a type's input function refuses are left out. Datanodes before 17 know no such thing.
pub(crate) struct Rejects {
    limit: Option<u64>,
    is_verbose: bool,
    is_silent: bool,
    /// One of each row left out, if they are wanted; not more than [`NOTICES_MAX`].
    notices: Vec<PgError>,
}

impl Rejects {
    pub(crate) fn new(options: &CopyOptions) -> Self {
        let verbosity = options.log_verbosity.as_deref();
        Self {
            limit: options.reject_limit.and_then(|limit| u64::try_from(limit).ok()),
            is_verbose: verbosity == Some("verbose"),
            is_silent: verbosity == Some("silent"),
            notices: Vec::new(),
        }
    }
}

/// Errors of input functions that PostgreSQL 17 would have got back softly. Bytes that are wrong in their encoding are
/// found before.
fn is_soft(error: &PgError) -> bool {
    let code = error.code();
    match code.as_str() {
        "22021" | "22P05" => false,
        // A domain's constraints.
        "23502" | "23514" => true,
        code => code.starts_with("22"),
    }
}

/// A unique key, an exclusion constraint, a row too large for an index.
fn is_of_index(error: &PgError) -> bool {
    match error.code().as_str() {
        "23505" | "23P01" => true,
        "54000" => error.message().starts_with("index row"),
        _ => false,
    }
}

struct Writer {
    slot: Slot,
    orders: mpsc::Sender<Order>,
    task: JoinHandle<(LeasedConnection, Result<Option<String>>)>,
}

impl Copy {
    pub(crate) fn new(
        router: Router,
        converter: Converter,
        destinations: Vec<Vec<NodeId>>,
        links: Vec<(Slot, LeasedConnection)>,
        binary: bool,
        target: Arc<Relation>,
        rejects: Option<Rejects>,
    ) -> Self {
        let (recycle, empty_buffers) = mpsc::unbounded_channel();
        let writers = links
            .into_iter()
            .map(|(slot, leased)| {
                let (orders, inbox) = mpsc::channel(FRAMES_QUEUED);
                let task = tokio::spawn(write_rows(leased, inbox, recycle.clone()));
                Writer { slot, orders, task }
            })
            .collect();
        let header: &[u8] = if binary { &copyfmt::BINARY_HEADER } else { b"" };
        let outputs = (0..router.destinations()).map(|_| header.to_vec()).collect();
        Self {
            router,
            converter,
            destinations,
            outputs,
            writers,
            empty_buffers,
            binary,
            waits: 0,
            stored: Vec::new(),
            node_failed: false,
            target,
            rejects,
        }
    }

    /// The rows that each node has stored, when all are moved.
    pub(crate) fn stored(&self) -> &[(NodeId, u64)] {
        &self.stored
    }

    /// Moves all rows; gives the links back with the number of rows stored.
    pub(crate) async fn run(&mut self, feed: &mut Feed<'_>) -> (Vec<(Slot, LeasedConnection)>, Result<u64>) {
        let routed = self.route_all(feed).await;
        let fatal = routed.as_ref().is_err_and(PgError::is_fatal);
        if fatal {
            for writer in &self.writers {
                let _ = writer.orders.send(Order::Abandon).await;
            }
        } else {
            self.send_rest().await;
        }
        let (links, rows, errors) = self.join().await;
        let result = match (routed, errors.is_empty()) {
            (Ok(()), true) => {
                self.count_rejects();
                Ok(rows)
            }
            (Err(error), _) if fatal => Err(error),
            (routed, _) => Err(self.first_met(errors, routed.err()).await),
        };
        (links, result)
    }

    async fn route_all(&mut self, feed: &mut Feed<'_>) -> Result<()> {
        let mut unswept = 0;
        // Batches there were when a node had failed: in the one after it PostgreSQL has found out at the latest.
        let mut failed_at = None;
        loop {
            if failed_at.is_some_and(|batches| self.router.batches() > batches) {
                return feed.drain().await;
            }
            let step = match self.router.step(&mut self.outputs) {
                Ok(step) => step,
                Err(error) => return Err(self.first_of_row(error).await),
            };
            match step {
                Step::NeedInput => {
                    unswept += self.read_on(feed).await?;
                    if unswept >= SWEEP_BYTES {
                        unswept = 0;
                        self.sweep().await;
                    }
                }
                Step::Full { dest } => {
                    if !self.send(dest).await {
                        failed_at.get_or_insert(self.router.batches());
                    }
                }
                Step::Convert(conversion) => match self.converter.convert(&conversion).await {
                    Ok(value) => self.router.supply(value.as_deref()),
                    Err(error) if self.rejects.is_some() && is_soft(&error) => self.reject()?,
                    Err(error) => {
                        let error = self.router.refuse(error, &mut self.outputs);
                        return Err(self.first_of_row(error).await);
                    }
                },
                Step::End => {
                    return feed.drain().await.map_err(|error| self.router.while_reading(error, &mut self.outputs));
                }
            }
        }
    }

    /// Gives the router more input; how many bytes.
    async fn read_on(&mut self, feed: &mut Feed<'_>) -> Result<usize> {
        let nodes_keep_up = self.waits < WAITS_MANY * WAIT_WEIGHT;
        let fed = feed.next(&mut self.router, nodes_keep_up).await;
        Ok(match fed.map_err(|error| self.router.while_reading(error, &mut self.outputs))? {
            Fed::Chunk(chunk) => {
                let bytes = chunk.len();
                self.router.push(chunk);
                bytes
            }
            Fed::ParallelParse(parsed) => {
                let bytes = parsed.bytes();
                self.router.push_parsed(parsed);
                bytes
            }
            Fed::End => {
                self.router.finish();
                0
            }
        })
    }

    /// The error that PostgreSQL meets first in the refused row.
    async fn first_of_row(&mut self, error: PgError) -> PgError {
        for conversion in self.router.unread() {
            if let Err(earlier) = self.converter.convert(&conversion).await {
                return self.router.refuse_earlier(earlier, &conversion);
            }
        }
        error
    }

    /// Leaves the row out that is being converted.
    fn reject(&mut self) -> Result<()> {
        let Some(rejects) = &mut self.rejects else { return Ok(()) };
        if rejects.is_verbose && rejects.notices.len() < NOTICES_MAX {
            rejects.notices.push(self.router.skip_notice());
        }
        match rejects.limit {
            Some(limit) if self.router.rows_skipped() >= limit => Err(self.router.too_many_skipped(limit)),
            _ => {
                self.router.skip_row();
                Ok(())
            }
        }
    }

    /// The last word about rows left out.
    fn count_rejects(&mut self) {
        let skipped = self.router.rows_skipped();
        let Some(rejects) = self.rejects.as_mut().filter(|rejects| skipped > 0 && !rejects.is_silent) else { return };
        let verb = if skipped == 1 { "row was" } else { "rows were" };
        rejects.notices.push(PgError::with_severity(
            "NOTICE",
            SqlState::SUCCESSFUL_COMPLETION,
            format!("{skipped} {verb} skipped due to data type incompatibility"),
        ));
    }

    /// What the nodes and we ourselves have to say, about lines of the input and in their order. Of copies of a row one
    /// speaks. Behind the line of the error PostgreSQL would have stored no row.
    pub(crate) fn take_notices(
        &mut self,
        links: &mut [(Slot, LeasedConnection)],
        error: Option<&PgError>,
    ) -> Vec<PgError> {
        let mut notices = Vec::new();
        for (slot, leased) in links {
            let speaks = self.destinations.iter().any(|nodes| nodes.first() == Some(&slot.node()));
            let frames = leased.link.connection.take_notices();
            for frame in frames.into_iter().filter(|frame| speaks && frame.tag == backend::tag::NOTICE) {
                let notice = self.with_input_line(PgError::decode_body(frame.body), slot.node());
                notices.push(self.with_recent_text(notice));
            }
        }
        notices.sort_by_key(|notice| self.line_of(notice));
        let last = error.filter(|error| !is_of_index(error)).map_or(u64::MAX, |error| self.line_of(error));
        notices.retain(|notice| self.line_of(notice) <= last);
        notices.extend(self.rejects.iter_mut().flat_map(|rejects| rejects.notices.drain(..)));
        notices
    }

    /// What a trigger says while a row is stored; lines of a file are not read again for it.
    fn with_recent_text(&self, notice: PgError) -> PgError {
        let Some(line) = self.router.unquoted_line(&notice) else { return notice };
        match self.router.recent_line(line) {
            Some(text) => self.router.quote_line(notice, line, &text),
            None => notice,
        }
    }

    /// Hands an output to its writers; `false` if one of them has ended before its time.
    async fn send(&mut self, destination: usize) -> bool {
        let returned = self.empty_buffers.try_recv().ok().and_then(Arc::into_inner);
        // A huge row's buffer is not kept for the narrow ones behind it.
        let mut next = returned.filter(|buffer| buffer.capacity() <= 4 * FRAME_BYTES).unwrap_or_default();
        next.clear();
        let rows = Arc::new(std::mem::replace(&mut self.outputs[destination], next));
        for node in &self.destinations[destination] {
            let Some(writer) = self.writers.iter().find(|writer| writer.slot == *node) else { return false };
            let sent = match writer.orders.try_send(Order::Rows(rows.clone())) {
                Ok(()) => {
                    self.waits = self.waits.saturating_sub(1);
                    true
                }
                Err(TrySendError::Full(order)) => {
                    self.waits = (self.waits + WAIT_WEIGHT).min(WAITS_MAX * WAIT_WEIGHT);
                    writer.orders.send(order).await.is_ok()
                }
                Err(TrySendError::Closed(_)) => false,
            };
            if !sent {
                return false;
            }
        }
        true
    }

    /// Sends what is in the outputs. A node that has failed is noticed when its next frame is full.
    async fn sweep(&mut self) {
        for destination in 0..self.outputs.len() {
            if !self.outputs[destination].is_empty() {
                let _ = self.send(destination).await;
            }
        }
    }

    async fn send_rest(&mut self) {
        for destination in 0..self.outputs.len() {
            if self.binary {
                self.outputs[destination].extend_from_slice(&copyfmt::BINARY_TRAILER);
            }
            if !self.outputs[destination].is_empty() {
                // A writer that has ended will tell why when it is joined.
                let _ = self.send(destination).await;
            }
        }
    }

    /// Waits for the writers; gives the rows stored and the nodes' errors.
    async fn join(&mut self) -> (Vec<(Slot, LeasedConnection)>, u64, Vec<PgError>) {
        let mut links = Vec::new();
        let mut counts: Vec<(NodeId, u64)> = Vec::new();
        let mut errors = Vec::new();
        for writer in std::mem::take(&mut self.writers) {
            drop(writer.orders);
            let (leased, result) = match writer.task.await {
                Ok(ended) => ended,
                Err(_) => {
                    errors.push(PgError::internal("a COPY writer panicked"));
                    continue;
                }
            };
            links.push((writer.slot, leased));
            match result {
                Ok(tag) => {
                    counts.push((writer.slot.node(), tag.and_then(|t| backend::split_command_tag(&t).1).unwrap_or(0)))
                }
                Err(error) => errors.push(self.with_input_line(error, writer.slot.node())),
            }
        }
        let rows = self
            .destinations
            .iter()
            .filter_map(|nodes| nodes.first())
            .filter_map(|first| counts.iter().find(|(node, _)| node == first))
            .map(|(_, count)| count)
            .sum();
        self.stored = counts;
        (links, rows, errors)
    }

    /// The error that one PostgreSQL would have met first; about the same line a node has the last word, since it read the
    /// row as PostgreSQL does.
    async fn first_met(&mut self, nodes: Vec<PgError>, own: Option<PgError>) -> PgError {
        let several = nodes.len() + usize::from(own.is_some()) > 1;
        let at_once = several && nodes.iter().any(is_of_index) && self.stores_row_by_row().await;
        let mut first: Option<PgError> = None;
        for error in nodes {
            if first.as_ref().is_none_or(|first| self.precedes(&error, first, at_once)) {
                first = Some(error);
            }
        }
        self.node_failed = first.is_some();
        match (first, own) {
            (Some(node), Some(own)) if self.precedes(&own, &node, at_once) || self.router.is_of_cut(&node, &own) => {
                self.node_failed = false;
                own
            }
            (Some(error), _) | (None, Some(error)) => error,
            (None, None) => PgError::internal("a COPY failed without an error"),
        }
    }

    /// Does PostgreSQL meet this error before the other one? `at_once`: each row goes into the indexes before the next is read.
    fn precedes(&self, error: &PgError, other: &PgError, at_once: bool) -> bool {
        let (line, other_line) = (self.line_of(error), self.line_of(other));
        let waits = |error: &PgError, line: u64| line != u64::MAX && !at_once && is_of_index(error);
        let stored = |line: u64, later: u64| later == u64::MAX || self.router.is_stored_before(line, later);
        match (waits(error, line), waits(other, other_line)) {
            (true, false) => line < other_line && stored(line, other_line),
            (false, true) => line <= other_line || !stored(other_line, line),
            _ => line < other_line,
        }
    }

    async fn stores_row_by_row(&mut self) -> bool {
        self.target.has_triggers && self.converter.inserts_row_by_row(&self.target).await
    }

    /// A node counts the lines it got; the client wants the line of its input.
    fn with_input_line(&self, error: PgError, node: NodeId) -> PgError {
        let destination = self.destinations.iter().position(|nodes| nodes.contains(&node)).unwrap_or(0);
        self.router.with_input_line(error, destination)
    }

    /// PostgreSQL reports the error of the first line; one without a line comes at the end of all, but FREEZE is refused
    /// before the first one (`CopyFrom`).
    fn line_of(&self, error: &PgError) -> u64 {
        let before_all = || error.message().starts_with("cannot perform COPY FREEZE");
        self.router.line_of_error(error).unwrap_or_else(|| if before_all() { 0 } else { u64::MAX })
    }

    /// A node that got binary rows cannot quote the line its error is about; PostgreSQL would, unless the error came when
    /// the row was put into indexes together with others (`CopyMultiInsertBufferFlush`).
    pub(crate) async fn with_line_text(&mut self, error: PgError, file: Option<PathBuf>) -> PgError {
        let line = if self.node_failed { self.router.unquoted_line(&error) } else { None };
        let Some(line) = line else { return error };
        if is_of_index(&error) && !self.stores_row_by_row().await {
            return error;
        }
        let text = match file {
            Some(path) => read_line_again(path, self.router.line_finder(line)).await,
            None => self.router.recent_line(line),
        };
        match text {
            Some(text) => self.router.quote_line(error, line, &text),
            None => error,
        }
    }
}

/// Feeds one node; ends early when the node reports an error.
async fn write_rows(
    mut leased: LeasedConnection,
    mut orders: mpsc::Receiver<Order>,
    recycle: mpsc::UnboundedSender<Arc<Vec<u8>>>,
) -> (LeasedConnection, Result<Option<String>>) {
    let result = write_until_done(&mut leased, &mut orders, &recycle).await;
    (leased, result)
}

async fn write_until_done(
    leased: &mut LeasedConnection,
    orders: &mut mpsc::Receiver<Order>,
    recycle: &mpsc::UnboundedSender<Arc<Vec<u8>>>,
) -> Result<Option<String>> {
    loop {
        let order = tokio::select! {
            biased;
            event = leased.next() => {
                let event = event?;
                return Err(PgError::protocol(format!("unexpected {event:?} in the middle of COPY")));
            }
            order = orders.recv() => order,
        };
        match order {
            Some(Order::Rows(rows)) => {
                leased.link.connection.out().extend_from_slice(&frontend::copy_data_header(rows.len()));
                leased.link.connection.write_through(&rows).await?;
                // The last of several writers gives the buffer back; it is no loss if nobody wants it.
                let _ = recycle.send(rows);
            }
            Some(Order::Abandon) => {
                frontend::copy_fail(leased.link.connection.out(), b"the COPY was abandoned");
                leased.flush().await?;
                return leased.finish().await;
            }
            None => {
                frontend::copy_done(leased.link.connection.out());
                leased.flush().await?;
                return leased.finish().await;
            }
        }
    }
}
