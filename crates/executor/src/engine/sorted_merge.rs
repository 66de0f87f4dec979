//! Rows that every node has sorted, merged as they come: nothing is kept but what was read of each socket and not given yet.
//!
//! A row has its keys in front, which are taken off again. They become bytes that compare as the values do
//! ([`sort_key`]); a heap holds each node's first row. Only the node with the smallest key is read; the others wait
//! once their sockets are full.
//!
//! ```text
//!  node 1  3 7 8 ─┐
//!  node 2  1 4 9 ─┼─ heads {3, 1, 5} ─> 1 ─> client
//!  node 3  5 6   ─┘
//! ```
//!
//! Invariants: nothing is allocated per row; the rows of a node must come in the order asked for, else (its collation is not that
//! of the home node) the statement fails; all answers are read to their end.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use catalog::NodeId;
use futures_util::future::join_all;
use pgerror::{PgError, Result, SqlState};
use pgproto::backend::tag;
use pgproto::frame::HEADER_BYTES;
use planner::{Merge, MergeKey};

use crate::backend::call::Call;
use crate::backend::call::Order;
use crate::backend::leased::LeasedConnection;
use crate::backend::request::Event;
use crate::backend::slot::Slot;
use crate::engine::gather::without_position;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::engine::sort_key;
use crate::session::Session;

/// Rows are passed on at the latest when there are so many bytes of them.
const RUN_BYTES: usize = 64 * 1024;

impl Call {
    /// For the text of a merge: the keys are binary, the user's columns as the user wants them.
    fn of_merge(&self, merge: &Merge, order: Order) -> Self {
        let wanted = match self.result_formats.as_slice() {
            [] => vec![0; merge.columns],
            [all] => vec![*all; merge.columns],
            each => each.to_vec(),
        };
        Self {
            parameters: Some(self.parameters.clone().unwrap_or_default()),
            result_formats: vec![1; merge.keys.len()].into_iter().chain(wanted).collect(),
            describe: self.describe,
            // A text of the simple protocol is not kept as a prepared statement.
            one_off: self.one_off || self.parameters.is_none(),
            order: Some(Arc::new(order)),
            types: self.types.clone(),
            now: self.now.clone(),
        }
    }
}

impl Session {
    /// Runs a merge in the place of a gather; `None`, and nothing done, if that is not possible with these parameters.
    pub(crate) async fn run_merge(
        &mut self,
        merge: &Merge,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Option<Completion>> {
        let Some(order) = Order::of(merge, call) else { return Ok(None) };
        let scatter = merge.scatter();
        let parts = merge.nodes.iter().map(|node| (*node, scatter.sql.clone())).collect();
        let call = call.of_merge(merge, order);
        let result = self.read_several_nodes(&scatter, parts, &call, output).await;
        result.map(Some).map_err(without_position)
    }

    /// Passes on the rows of nodes that have been sent the text of a merge.
    pub(crate) async fn merge_sorted(
        &mut self,
        links: &mut [(Slot, LeasedConnection)],
        order: &Order,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let mut merger = Merger::new(links, order, Layout::Rows);
        match self.pass_on_sorted(&mut merger, order, output).await {
            Ok(rows) => merger.finish().await.map(|()| Completion::Tag(format!("SELECT {rows}"))),
            Err(error) => {
                merger.give_up().await;
                Err(error)
            }
        }
    }

    async fn pass_on_sorted(
        &mut self,
        merger: &mut Merger<'_, '_>,
        order: &Order,
        output: &mut Output<'_>,
    ) -> Result<u64> {
        merger.flush().await?;
        let mut rows = 0;
        loop {
            let run = merger.next_run().await?;
            if let Some((node, body)) = merger.description.take() {
                self.describe_rows(body, node, order.keys.len(), output).await?;
            }
            let Some((run, count)) = run else { return Ok(rows) };
            rows += count as u64;
            output.rows(run, count).await?;
        }
    }
}

/// Cancels what still runs on links that have been sent nothing else, and reads the answers to their end.
pub(crate) async fn give_up(links: &mut [(Slot, LeasedConnection)]) {
    let running = links.iter().filter(|(_, leased)| !leased.link.connection.is_drained());
    join_all(running.map(|(_, leased)| leased.link.connection.cancel_key().cancel())).await;
    let open = links.iter_mut().filter(|(_, leased)| !leased.link.connection.is_drained());
    // That they were cancelled is no news.
    join_all(open.map(|(_, leased)| leased.finish())).await;
}

/// How a row has its keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// DataRow: the first columns.
    Rows,
    /// CopyData of the binary format: the first columns.
    CopyBinary,
    /// CopyData of the text formats: packed into the first field ([`Merge::packed_sql`]), which this byte ends.
    CopyText { delimiter: u8, quote: Option<u8> },
}

impl Layout {
    fn tag(self) -> u8 {
        match self {
            Layout::Rows => tag::DATA_ROW,
            Layout::CopyBinary | Layout::CopyText { .. } => tag::COPY_DATA,
        }
    }
}

/// The first row of a source that has not been given yet.
struct Head {
    key: Vec<u8>,
    source: usize,
}

impl Ord for Head {
    /// The greatest is the one to be given next.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key).then(other.source.cmp(&self.source))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

/// A node's rows.
struct Source<'l> {
    node: NodeId,
    leased: &'l mut LeasedConnection,
    /// Its answer is not read to the end.
    is_open: bool,
    /// Whole frames, given up to `at`.
    run: Bytes,
    at: usize,
    /// What the client is to get of the present row, and of how many columns that is.
    row: Range<usize>,
    columns: i16,
    /// The key of the row before.
    before: Vec<u8>,
    /// Nothing was read yet: a binary COPY begins with its header.
    at_start: bool,
}

/// Merges the rows of several nodes.
pub(crate) struct Merger<'l, 'o> {
    sources: Vec<Source<'l>>,
    heads: BinaryHeap<Head>,
    /// Sources whose next row is still to come.
    waiting: Vec<Head>,
    keys: &'o [MergeKey],
    layout: Layout,
    skip: u64,
    left: u64,
    /// How long the last run was: the next is likely to be as long.
    run_bytes: usize,
    /// A key on its way from hexadecimal digits.
    scratch: Vec<u8>,
    /// RowDescription, from whichever node it came first.
    pub(crate) description: Option<(NodeId, Bytes)>,
}

impl<'l, 'o> Merger<'l, 'o> {
    pub(crate) fn new(links: &'l mut [(Slot, LeasedConnection)], order: &'o Order, layout: Layout) -> Self {
        let source = |(slot, leased): &'l mut (Slot, LeasedConnection)| Source {
            node: slot.node(),
            leased,
            is_open: true,
            run: Bytes::new(),
            at: 0,
            row: 0..0,
            columns: 0,
            before: Vec::new(),
            at_start: true,
        };
        let sources: Vec<Source<'l>> = links.iter_mut().map(source).collect();
        Self {
            heads: BinaryHeap::with_capacity(sources.len()),
            waiting: (0..sources.len()).rev().map(|source| Head { key: Vec::new(), source }).collect(),
            sources,
            keys: &order.keys,
            layout,
            skip: order.offset,
            left: order.limit,
            run_bytes: 0,
            scratch: Vec::new(),
            description: None,
        }
    }

    /// Sends what is queued for the nodes.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        let flushed = join_all(self.sources.iter_mut().map(|source| source.leased.flush())).await;
        flushed.into_iter().collect()
    }

    /// Reads the rest of all answers, without the rows beyond the limit; the first error wins.
    pub(crate) async fn finish(mut self) -> Result<()> {
        self.read_to_the_end().await.into_iter().try_for_each(|ended| ended.map(|_| ()))
    }

    /// Cancels what still runs and reads its answers to their end.
    pub(crate) async fn give_up(mut self) {
        let open = self.sources.iter().filter(|source| source.is_open);
        // Waited for: a cancel that comes late would hit the next statement.
        join_all(open.map(|source| source.leased.link.connection.cancel_key().cancel())).await;
        self.read_to_the_end().await;
    }

    async fn read_to_the_end(&mut self) -> Vec<Result<Option<String>>> {
        let open = self.sources.iter_mut().filter(|source| source.is_open);
        join_all(open.map(|source| source.leased.finish())).await
    }

    /// The header line of a COPY, which its first node sends before all rows, as a frame; `None` if the node has failed to.
    pub(crate) async fn header(&mut self) -> Result<Option<Bytes>> {
        loop {
            let first = &mut self.sources[0];
            if let Some(body) = first.next_body(self.layout) {
                let names = match self.keys.is_empty() {
                    true => 0,
                    false => after_packed(&first.run[body.clone()], self.layout)?,
                };
                let mut out = BytesMut::new();
                put_frame(&mut out, self.layout.tag(), &first.run[body.start + names..body.end]);
                return Ok(Some(out.freeze()));
            }
            if !first.refill(&mut self.description).await? {
                return Ok(None);
            }
        }
    }

    /// Rows in order, as many as there are without waiting; `None` once all are given.
    pub(crate) async fn next_run(&mut self) -> Result<Option<(Bytes, usize)>> {
        loop {
            // Also without a row to give: what the rows look like comes before the first.
            while let Some(head) = self.waiting.pop() {
                self.wait_for(head).await?;
            }
            let (run, count) = self.merge_at_hand()?;
            if count > 0 {
                return Ok(Some((run, count)));
            }
            if self.left == 0 || self.waiting.is_empty() {
                return Ok(None);
            }
        }
    }

    /// Puts the next row of a source among the heads, unless it has none.
    async fn wait_for(&mut self, mut head: Head) -> Result<()> {
        loop {
            if self.sources[head.source].next_row(&mut head.key, self.keys, self.layout, &mut self.scratch)? {
                self.heads.push(head);
                return Ok(());
            }
            if !self.sources[head.source].refill(&mut self.description).await? {
                return Ok(());
            }
        }
    }

    /// Merges until a source has to be waited for.
    fn merge_at_hand(&mut self) -> Result<(Bytes, usize)> {
        let mut out = BytesMut::with_capacity(self.run_bytes);
        let mut count = 0;
        while self.left > 0
            && out.len() < RUN_BYTES
            && let Some(mut head) = self.heads.peek_mut()
        {
            let source = &mut self.sources[head.source];
            if self.skip > 0 {
                self.skip -= 1;
            } else {
                source.give(self.layout, &mut out);
                count += 1;
                self.left -= 1;
            }
            if !source.next_row(&mut head.key, self.keys, self.layout, &mut self.scratch)? {
                self.waiting.push(PeekMut::pop(head));
                break;
            }
        }
        self.run_bytes = out.len();
        Ok((out.freeze(), count))
    }
}

impl Source<'_> {
    /// Waits for more rows; false if there are none.
    async fn refill(&mut self, description: &mut Option<(NodeId, Bytes)>) -> Result<bool> {
        loop {
            let event = self.leased.next().await.inspect_err(|_| self.is_open = false)?;
            match event {
                Event::Rows(run, _) | Event::CopyData(run) => {
                    (self.run, self.at) = (run, 0);
                    return Ok(true);
                }
                Event::Description(body) => *description = Some((self.node, body)),
                Event::Complete(_) => {}
                Event::Done => {
                    self.is_open = false;
                    return Ok(false);
                }
                other => return Err(PgError::protocol(format!("unexpected answer {other:?} in a merge"))),
            }
        }
    }

    /// The place of the next row's bytes in the run.
    fn next_body(&mut self, layout: Layout) -> Option<Range<usize>> {
        loop {
            let header = self.run.get(self.at..self.at + HEADER_BYTES)?;
            let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
            let mut body = self.at + HEADER_BYTES..self.at + 1 + length;
            self.at = body.end;
            if layout != Layout::CopyBinary {
                return Some(body);
            }
            if std::mem::take(&mut self.at_start) && self.run[body.clone()].starts_with(&copyfmt::BINARY_HEADER) {
                body.start += copyfmt::BINARY_HEADER.len();
            }
            if self.run[body.clone()] != copyfmt::BINARY_TRAILER {
                return Some(body);
            }
        }
    }

    /// Goes on to the next row of the run and puts its keys into `key`; false at the end of the run.
    fn next_row(
        &mut self,
        key: &mut Vec<u8>,
        keys: &[MergeKey],
        layout: Layout,
        scratch: &mut Vec<u8>,
    ) -> Result<bool> {
        let Some(body) = self.next_body(layout) else { return Ok(false) };
        std::mem::swap(key, &mut self.before);
        key.clear();
        let bytes = &self.run[body.clone()];
        let rest = match layout {
            Layout::CopyText { .. } => packed_keys(bytes, keys, layout, key, scratch)?,
            Layout::Rows | Layout::CopyBinary => {
                let (columns, rest) = column_keys(bytes, keys, key)?;
                self.columns = columns;
                rest
            }
        };
        self.row = body.start + rest..body.end;
        if *key < self.before {
            return Err(not_in_order());
        }
        Ok(true)
    }

    /// Appends the present row, without its keys, as a frame.
    fn give(&self, layout: Layout, out: &mut BytesMut) {
        let row = &self.run[self.row.clone()];
        if matches!(layout, Layout::CopyText { .. }) {
            return put_frame(out, layout.tag(), row);
        }
        out.reserve(row.len() + HEADER_BYTES + 2);
        out.put_u8(layout.tag());
        out.put_u32((row.len() + 6) as u32);
        out.put_i16(self.columns);
        out.put_slice(row);
    }
}

fn put_frame(out: &mut BytesMut, tag: u8, body: &[u8]) {
    out.reserve(body.len() + HEADER_BYTES);
    out.put_u8(tag);
    out.put_u32((body.len() + 4) as u32);
    out.put_slice(body);
}

/// Reads the keys of a row whose first columns they are; gives the number of the other columns and where those begin.
fn column_keys(body: &[u8], keys: &[MergeKey], out: &mut Vec<u8>) -> Result<(i16, usize)> {
    let short = || PgError::protocol("a row without its sort keys");
    let columns = body.first_chunk().map(|count| i16::from_be_bytes(*count)).ok_or_else(short)?;
    let mut at = 2;
    for key in keys {
        let length = body.get(at..).and_then(<[u8]>::first_chunk).map(|length| i32::from_be_bytes(*length));
        at += 4;
        let value = match usize::try_from(length.ok_or_else(short)?) {
            Err(_) => None,
            Ok(length) => {
                at += length;
                Some(body.get(at - length..at).ok_or_else(short)?)
            }
        };
        sort_key::push(key, value, out)?;
    }
    Ok((columns - keys.len() as i16, at))
}

/// Where the first field of a line of COPY has ended, and its delimiter.
fn after_packed(line: &[u8], layout: Layout) -> Result<usize> {
    let Layout::CopyText { delimiter, .. } = layout else { return Ok(0) };
    let end = line.iter().position(|byte| *byte == delimiter);
    end.map(|at| at + 1).ok_or_else(|| PgError::protocol("a line without its sort keys"))
}

/// Reads the keys of a line whose first field they are; gives where the others begin.
fn packed_keys(
    line: &[u8],
    keys: &[MergeKey],
    layout: Layout,
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) -> Result<usize> {
    if keys.is_empty() {
        return Ok(0);
    }
    let Layout::CopyText { quote, .. } = layout else { return Ok(0) };
    let rest = after_packed(line, layout)?;
    let mut field = &line[..rest - 1];
    // FORCE_QUOTE *, or a null string that looks like a key.
    if let [first, inner @ .., last] = field
        && first == last
        && Some(*first) == quote
    {
        field = inner;
    }
    let mut parts = field.split(|byte| *byte == Merge::SEPARATOR);
    for key in keys {
        let part = parts.next().unwrap_or_default();
        match part == Merge::NULL.as_bytes() {
            true => sort_key::push(key, None, out)?,
            false => {
                unhex(part, scratch)?;
                sort_key::push(key, Some(scratch), out)?;
            }
        }
    }
    Ok(rest)
}

pub(crate) fn unhex(digits: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(PgError::protocol("a sort key that is not hexadecimal")),
    };
    out.clear();
    for pair in digits.chunks(2) {
        let [high, low] = pair else { return Err(PgError::protocol("a sort key of half a byte")) };
        out.push(value(*high)? << 4 | value(*low)?);
    }
    Ok(())
}

fn not_in_order() -> PgError {
    PgError::new(SqlState::INTERNAL_ERROR, "a datanode's rows are not in the order of the home node")
        .detail("Rows that each datanode had sorted could not be merged.")
        .hint("All databases must have the same default collation.")
}
