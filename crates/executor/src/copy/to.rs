//! COPY TO: the nodes' streams as one.
//!
//! All nodes send at once and their CopyData goes on as it comes. A header line, or the header and trailer of the binary
//! format, must appear once: the first node's COPY makes the header line, binary streams are stripped and stitched.
//!
//! Where an ORDER BY needs nothing but the nodes' sorted rows, these are [`sorted_merge`](crate::engine::sorted_merge) by keys that come with each row
//! and are taken off.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use bytes::{BufMut, Bytes, BytesMut};
use catalog::NodeId;
use copyfmt::{CopyOptions, ForceColumns, Format, Header};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pgerror::{PgError, Result};
use pgproto::backend;
use pgproto::frame::{FrameWriter, HEADER_BYTES};
use planner::parse::CopyStatement;
use planner::{CopySource, CopyTo, Merge, Plan};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use crate::backend::call::Call;
use crate::backend::call::Order;
use crate::backend::leased::LeasedConnection;
use crate::backend::request::Event;
use crate::backend::request::frame_bodies;
use crate::backend::slot::{Slot, slots};
use crate::block::Mode;
use crate::copy::from::copy_options;
use crate::copy::input::{file_error_code, os_text};
use crate::engine::reads::bound_portals::not_one_snapshot;
use crate::engine::run::Completion;
use crate::engine::sorted_merge::{Layout, Merger, give_up};
use crate::session::Session;
use crate::snapshot::SNAPSHOT_WAIT_MAX;

/// Where the bytes go.
pub enum CopySink<'a> {
    /// CopyData messages.
    Client(&'a mut FrameWriter),
    /// A new file on the coordinator's host.
    File(PathBuf),
}

impl Session {
    /// Runs COPY TO. `sql` is the statement's text.
    pub async fn copy_to(
        &mut self,
        plan: &CopyTo,
        statement: &CopyStatement,
        sql: &str,
        sink: CopySink<'_>,
    ) -> Result<Completion> {
        self.links.cancel().cannot_be_repeated();
        self.note_write(plan.writes);
        let version = self.catalog().await?.catalog.server_version();
        // A datanode that is told to write a file might do so.
        let sql = matches!(sink, CopySink::Client(_)).then_some(sql);
        let options = copy_options(statement, false, version);
        let is_checked = options.is_ok();
        let result = match options {
            Ok(options) => self.copy_out(plan, &options, sink).await,
            Err(error) => Err(error),
        };
        let result = self.copy_placed_by_home(sql, false, is_checked, result).await;
        self.conclude(result).await.map(|rows| Completion::Tag(format!("COPY {rows}")))
    }

    async fn copy_out(&mut self, plan: &CopyTo, options: &CopyOptions, sink: CopySink<'_>) -> Result<u64> {
        self.lock_copies_first().await?;
        if let CopySource::Gather(gather) = &plan.source
            && let Some(merge) = gather.merged()
            && let Some(sorted) = Sorted::of(merge, options)
        {
            return self.copy_several(&merge.nodes, &sorted.what, Some(&sorted), options, sink).await;
        }
        match &plan.source {
            CopySource::One { nodes, what } => {
                let node = self.choose(nodes);
                self.copy_streams(self.mode(), &[node], what, None, options, sink).await
            }
            CopySource::All { nodes, what } if nodes.len() == 1 => {
                self.copy_streams(self.mode(), nodes, what, None, options, sink).await
            }
            CopySource::All { nodes, what } => self.copy_several(nodes, what, None, options, sink).await,
            CopySource::ExchangePlan(exchange_plan) => {
                self.widen_for_several().await?;
                let call = Call::default();
                let mut ready = self.begin_exchange_plan(exchange_plan, &call).await?;
                let result = match self.up_to_last(exchange_plan, &mut ready, &call).await {
                    Ok((nodes, sql)) => {
                        let what = format!("({sql})");
                        self.copy_streams(Mode::InBlock, &nodes, &what, None, options, sink).await
                    }
                    Err(error) => Err(error),
                };
                self.end_read(ready.read).await;
                result
            }
            CopySource::Gather(gather) if self.gathers_beside(&gather.inputs, &gather.final_sql).await? => {
                let sql = self.gather_beside(&gather.inputs, &gather.final_sql, &Call::default()).await?;
                let what = format!("({sql})");
                let result = self.copy_streams(Mode::InBlock, &[self.beside_home()], &what, None, options, sink).await;
                self.close_beside().await;
                result
            }
            CopySource::Gather(gather) => {
                self.widen_for_several().await?;
                let is_apart = self.goes_apart(&Plan::Gather(gather.clone())).await?;
                if self.is_read_only() && !is_apart {
                    self.refuse_temp_tables_beside(&gather.final_sql).await?;
                }
                let nodes = self.gathered_nodes(&gather.inputs);
                let read = self.begin_read(&nodes, gather.inputs.iter().map(|input| input.sql.as_str())).await?;
                // A read of its own has put the block aside.
                let result = match (is_apart && self.stays_clean(), self.is_read_only()) {
                    (true, _) => self.beside_it(async |this| this.copy_gathered(gather, options, sink).await).await,
                    (_, true) => self.beside(async |this| this.copy_gathered(gather, options, sink).await).await,
                    (_, false) => self.copy_gathered(gather, options, sink).await,
                };
                self.end_read(read).await;
                result
            }
        }
    }

    /// The rows of several nodes, all of one state.
    async fn copy_several(
        &mut self,
        nodes: &[NodeId],
        what: &str,
        sorted: Option<&Sorted>,
        options: &CopyOptions,
        sink: CopySink<'_>,
    ) -> Result<u64> {
        self.widen_for_several().await?;
        let query = copied_query(what);
        let read = self.begin_read(nodes, [query.as_str()]).await?;
        let result = self.copy_streams(Mode::InBlock, nodes, what, sorted, options, sink).await;
        self.end_read(read).await;
        result
    }

    async fn copy_gathered(
        &mut self,
        gather: &planner::Gather,
        options: &CopyOptions,
        sink: CopySink<'_>,
    ) -> Result<u64> {
        let sql = self.fill_all(&gather.inputs, &gather.final_sql, &Call::default()).await?;
        let home = self.sink;
        let rows = self.copy_streams(Mode::InBlock, &[home], &format!("({sql})"), None, options, sink).await?;
        if self.sink == self.home {
            self.drop_inputs(&gather.inputs).await?;
        }
        Ok(rows)
    }

    async fn copy_streams(
        &mut self,
        mode: Mode,
        nodes: &[impl Copy + Into<Slot>],
        what: &str,
        sorted: Option<&Sorted>,
        options: &CopyOptions,
        sink: CopySink<'_>,
    ) -> Result<u64> {
        let nodes = slots(nodes);
        let places: Vec<NodeId> = nodes.iter().map(|slot| slot.node()).collect();
        let under_snapshot = self.binds(&places);
        if under_snapshot {
            // A node that owes a read barrier could not pass it within the gate.
            self.open_on(&places).await?;
        }
        self.connect_to(&nodes).await?;
        for (position, node) in nodes.iter().enumerate() {
            self.acquire(*node, mode).await?;
            self.causality.touch(node.node());
            let sql = format!("COPY {what} TO STDOUT {}", node_options(options, position == 0));
            self.links.link(*node)?.link.connection.query(sql.as_bytes());
        }
        // In READ COMMITTED a COPY has its snapshot when it answers that data will follow.
        let snapshot = match under_snapshot {
            true => Some(self.barrier(&places, Instant::now() + SNAPSHOT_WAIT_MAX).await?),
            false => None,
        };
        let generation = snapshot.as_ref().map(txn::GlobalSnapshot::generation);
        let mut links = self.links.take(&nodes)?;
        let result = stream(&mut links, sorted, options, sink, snapshot).await;
        if result.is_err() {
            give_up(&mut links).await;
        }
        self.links.put_back(links);
        let rows = result?;
        if generation.is_some() && self.links.generations(&places).await?.iter().any(|read| *read != generation) {
            return Err(not_one_snapshot());
        }
        Ok(rows)
    }
}

/// A COPY whose rows are merged.
struct Sorted {
    what: String,
    order: Order,
    layout: Layout,
    /// Fields in front of each row that are not the user's.
    fields: usize,
}

impl Sorted {
    /// `None` where the options could make a key look like something else.
    fn of(merge: &Merge, options: &CopyOptions) -> Option<Self> {
        let order = Order::of(merge, &Call::default())?;
        if options.format == Format::Binary {
            let (what, fields) = (format!("({})", merge.sql()), merge.keys.len());
            return Some(Self { what, order, layout: Layout::CopyBinary, fields });
        }
        let is_csv = options.format == Format::Csv;
        let may_be_of_key = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        // A line of one column is written otherwise in CSV.
        let is_unclear = is_csv && (may_be_of_key(options.quote) || merge.columns == 1 || quotes_key(options));
        if may_be_of_key(options.delimiter) || is_unclear {
            return None;
        }
        let layout = Layout::CopyText { delimiter: options.delimiter, quote: is_csv.then_some(options.quote) };
        let fields = merge.keys.len().min(1);
        Some(Self { what: format!("({})", merge.packed_sql()), order, layout, fields })
    }
}

/// FORCE_QUOTE of a column that only we know.
fn quotes_key(options: &CopyOptions) -> bool {
    match &options.force_quote {
        ForceColumns::Columns(names) => names.iter().any(|name| name == Merge::PACKED),
        ForceColumns::None | ForceColumns::All => false,
    }
}

/// The query that gives the rows of a COPY.
fn copied_query(what: &str) -> String {
    match what.starts_with('(') {
        true => what.to_owned(),
        // Only the name matters here; a column list looks like a call's.
        false => format!("TABLE {}", what.split(" (").next().unwrap_or(what)),
    }
}

fn node_options(options: &CopyOptions, first: bool) -> String {
    let mut list = options.to_sql();
    if first && options.header != Header::No {
        list = list.replacen('(', "(HEADER, ", 1);
    }
    if let Some(encoding) = &options.encoding {
        list = list.replacen('(', &format!("(ENCODING {}, ", catalog::quote_literal(encoding)), 1);
    }
    list
}

/// Merges the streams of all links into the sink.
async fn stream(
    links: &mut [(Slot, LeasedConnection)],
    sorted: Option<&Sorted>,
    options: &CopyOptions,
    sink: CopySink<'_>,
    snapshot: Option<txn::GlobalSnapshot>,
) -> Result<u64> {
    let mut columns: usize = 0;
    let starts = links.iter_mut().map(|(_, leased)| async {
        leased.flush().await?;
        match leased.next().await? {
            Event::CopyOut(body) => Ok(backend::decode_copy_response(body)?.1),
            other => Err(PgError::protocol(format!("unexpected answer {other:?} to COPY"))),
        }
    });
    for started in futures_util::future::join_all(starts).await {
        columns = started?;
    }
    if snapshot.is_some_and(|snapshot| !snapshot.complete()) {
        return Err(not_one_snapshot());
    }
    let binary = options.format == Format::Binary;
    columns = columns.saturating_sub(sorted.map_or(0, |sorted| sorted.fields));
    let mut target = Target::open(sink, binary, columns).await?;
    let rows = match sorted {
        Some(sorted) => merge_rows(links, sorted, options, &mut target).await?,
        None => all_rows(links, options, &mut target).await?,
    };
    if binary {
        target.message(&copyfmt::BINARY_TRAILER).await?;
    }
    target.close().await?;
    Ok(rows)
}

/// Rows in order.
async fn merge_rows(
    links: &mut [(Slot, LeasedConnection)],
    sorted: &Sorted,
    options: &CopyOptions,
    target: &mut Target<'_>,
) -> Result<u64> {
    let mut merger = Merger::new(links, &sorted.order, sorted.layout);
    if options.header != Header::No
        && let Some(line) = merger.header().await?
    {
        target.run(line).await?;
    }
    let mut rows = 0;
    while let Some((run, count)) = merger.next_run().await? {
        target.run(run).await?;
        rows += count as u64;
    }
    merger.finish().await?;
    Ok(rows)
}

/// Rows as they come.
async fn all_rows(
    links: &mut [(Slot, LeasedConnection)],
    options: &CopyOptions,
    target: &mut Target<'_>,
) -> Result<u64> {
    let binary = options.format == Format::Binary;
    let mut rows = 0;
    // A header line is the first thing its node sends: wait for it before the others may speak.
    if options.header != Header::No
        && let Some((_, first)) = links.first_mut()
    {
        match first.next().await? {
            Event::CopyData(run) => target.run(run).await?,
            Event::Complete(tag) => rows += backend::split_command_tag(&tag).1.unwrap_or(0),
            Event::Done => {}
            other => return Err(PgError::protocol(format!("unexpected {other:?} in COPY"))),
        }
    }
    let mut steps = FuturesUnordered::new();
    for (_, leased) in links.iter_mut().filter(|(_, leased)| !leased.link.connection.is_drained()) {
        steps.push(next(leased, true));
    }
    while let Some((leased, mut at_start, event)) = steps.next().await {
        match event? {
            Event::Done => continue,
            Event::CopyData(run) if binary => target.run(tuples_only(run, &mut at_start)).await?,
            Event::CopyData(run) => target.run(run).await?,
            Event::Complete(tag) => rows += backend::split_command_tag(&tag).1.unwrap_or(0),
            _ => {}
        }
        steps.push(next(leased, at_start));
    }
    Ok(rows)
}

async fn next(leased: &mut LeasedConnection, at_start: bool) -> (&mut LeasedConnection, bool, Result<Event>) {
    let event = leased.next().await;
    (leased, at_start, event)
}

/// The tuples of a node's binary stream. PostgreSQL puts one tuple into each CopyData, which clients count on, the header before
/// the first and the trailer into one of its own (`CopySendEndOfRow`).
fn tuples_only(run: Bytes, at_start: &mut bool) -> Bytes {
    let is_last = frame_bodies(&run).last().is_some_and(|body| body.ends_with(&copyfmt::BINARY_TRAILER));
    if !*at_start && !is_last {
        return run;
    }
    let mut out = BytesMut::with_capacity(run.len());
    for mut body in frame_bodies(&run) {
        if std::mem::take(at_start) {
            body = body.strip_prefix(&copyfmt::BINARY_HEADER).unwrap_or(body);
        }
        if body != copyfmt::BINARY_TRAILER {
            out.put_slice(&pgproto::frontend::copy_data_header(body.len()));
            out.put_slice(body);
        }
    }
    out.freeze()
}

/// An open sink.
struct Target<'a> {
    to: Writer<'a>,
    /// The binary format's, until it has gone ahead of the first tuple, in one message with it.
    header: &'static [u8],
}

enum Writer<'a> {
    Client(&'a mut FrameWriter),
    File(tokio::io::BufWriter<tokio::fs::File>),
}

impl<'a> Target<'a> {
    async fn open(sink: CopySink<'a>, binary: bool, columns: usize) -> Result<Self> {
        let header: &[u8] = if binary { &copyfmt::BINARY_HEADER } else { &[] };
        match sink {
            CopySink::Client(writer) => {
                backend::copy_response(writer.buffer(), backend::tag::COPY_OUT, binary, columns);
                Ok(Self { to: Writer::Client(writer), header })
            }
            CopySink::File(path) => {
                let file = tokio::fs::File::create(&path).await.map_err(|error| cannot_create(&path, &error))?;
                Ok(Self { to: Writer::File(tokio::io::BufWriter::with_capacity(256 * 1024, file)), header })
            }
        }
    }

    /// Whole CopyData frames as a node sent them.
    async fn run(&mut self, mut run: Bytes) -> Result<()> {
        let first_bytes = frame_bodies(&run).next().map(<[u8]>::len);
        if let Some(first_bytes) = first_bytes.filter(|_| !self.header.is_empty()) {
            let first = run.split_to(HEADER_BYTES + first_bytes);
            self.message(&first[HEADER_BYTES..]).await?;
        }
        match &mut self.to {
            Writer::Client(writer) => writer.write_through(&run).await,
            Writer::File(file) => {
                for body in frame_bodies(&run) {
                    file.write_all(body).await.map_err(cannot_write)?;
                }
                Ok(())
            }
        }
    }

    /// Bytes that are no frame yet.
    async fn message(&mut self, bytes: &[u8]) -> Result<()> {
        let bytes = [std::mem::take(&mut self.header), bytes].concat();
        match &mut self.to {
            Writer::Client(writer) => {
                writer.buffer().put_slice(&pgproto::frontend::copy_data_header(bytes.len()));
                writer.write_through(&bytes).await
            }
            Writer::File(file) => file.write_all(&bytes).await.map_err(cannot_write),
        }
    }

    async fn close(self) -> Result<()> {
        match self.to {
            Writer::Client(writer) => {
                backend::bare(writer.buffer(), backend::tag::COPY_DONE);
                Ok(())
            }
            Writer::File(mut file) => file.flush().await.map_err(cannot_write),
        }
    }
}

/// As `BeginCopyTo` (PostgreSQL's `copyto.c`) says it.
fn cannot_create(path: &Path, error: &std::io::Error) -> PgError {
    let message = format!("could not open file \"{}\" for writing: {}", path.display(), os_text(error));
    let failure = PgError::new(file_error_code(error), message);
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::PermissionDenied => failure.hint(
            "COPY TO instructs the PostgreSQL server process to write a file. You may want a client-side facility such \
             as psql's \\copy.",
        ),
        _ => failure,
    }
}

fn cannot_write(error: std::io::Error) -> PgError {
    PgError::new(file_error_code(&error), format!("could not write to COPY file: {}", os_text(&error)))
}
