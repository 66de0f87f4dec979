//! COPY FROM: bytes in, rows routed, one writer task a datanode.
//!
//! ```text
//!  client or file ── chunks ──> Router ──┬─ 64 KiB frames ─> writer ── COPY FROM STDIN ──> dn1
//!                                        └─ 64 KiB frames ─> writer ── COPY FROM STDIN ──> dn2
//! ```
//!
//! The session's task reads, splits, converts and hashes; each writer owns its link while the COPY lasts. Queues are
//! bounded ([`FRAMES_QUEUED`] a node), so a slow node slows the input down. Frames go round: a writer gives its empty
//! buffer back.
//!
//! Errors: PostgreSQL reports the first bad line. When one node or the router finds an error, all rows before it are
//! still sent and every node finishes what it got, and the error of the smallest line is reported.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use catalog::NodeId;
use copyfmt::{CopyColumn, CopyOptions, Format, KeyPart, KeyValue, OptionValue, Router, RouterSpec, Routing, Step};
use pgerror::{PgError, Result, SqlState, field};
use pgproto::{FrameReader, FrameWriter, backend, frontend};
use planner::parse::{CopyStatement, CopyValue};
use planner::{CopyFrom, KeySource, Route, Stage};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::call::{Call, Event};
use crate::convert::Converter;
use crate::output::{Output, Spool};
use crate::run::Completion;
use crate::session::{Held, Mode, Session};

/// Bytes of rows in one CopyData to a datanode.
const FRAME_BYTES: usize = 64 * 1024;
/// Frames waiting for one datanode.
const FRAMES_QUEUED: usize = 4;
/// Bytes read from a file at once.
const FILE_CHUNK_BYTES: usize = 64 * 1024;

/// Where the bytes come from.
pub enum CopySource<'a> {
    /// CopyData messages.
    Client(&'a mut FrameReader, &'a mut FrameWriter),
    /// A file on the coordinator's host.
    File(PathBuf),
}

impl Session {
    /// Runs `COPY table FROM`, in the open block or in one of its own: all rows or none.
    pub async fn copy_from(
        &mut self,
        plan: &CopyFrom,
        statement: &CopyStatement,
        source: CopySource<'_>,
    ) -> Result<Completion> {
        let loaded = self.catalog().await?;
        let options = copy_options(statement, true, loaded.catalog.server_version())?;
        let result = self
            .atomically(async |this| match &plan.stage {
                Some(stage) => this.copy_staged(plan, stage, statement, &options, source).await,
                None => this.copy_routed(plan, &options, source, loaded.catalog.server_version()).await,
            })
            .await;
        if result.is_err() {
            self.fail();
        }
        self.release();
        result.map(|rows| Completion::Tag(format!("COPY {rows}")))
    }

    async fn copy_routed(
        &mut self,
        plan: &CopyFrom,
        options: &CopyOptions,
        source: CopySource<'_>,
        server_version: u32,
    ) -> Result<u64> {
        let is_client = matches!(source, CopySource::Client(..));
        let mut spec = self.router_spec(plan, options, is_client, server_version).await?;
        let all_binary = plan.columns.iter().all(|column| copyfmt::transcodable(column.type_oid));
        let is_text = options.format != Format::Binary;
        let can_transcode = all_binary && options.default.is_none() && is_utf8(options, &spec.client_encoding);
        spec.output = if is_text && !can_transcode { copyfmt::Output::Raw } else { copyfmt::Output::Binary };
        let binary = spec.output == copyfmt::Output::Binary;
        let router = Router::new(spec)?;

        let destinations = destinations(&plan.route);
        let sql = node_copy_sql(plan, options, binary);
        let nodes: Vec<NodeId> = destinations.iter().flatten().copied().collect();
        self.start_copy(&nodes, &sql).await?;
        let mut input = Input::open(source, options.format == Format::Binary, plan.columns.len()).await?;
        let ignores_errors = options.on_error == copyfmt::OnError::Ignore;
        let converter = Converter::new(self, options.encoding.as_deref(), ignores_errors);
        let links = self.take(&nodes)?;
        let (links, result) = Copy::new(router, converter, destinations, links, binary).run(&mut input).await;
        self.put_back(links);
        let (rows, skipped) = result?;
        if skipped > 0 {
            let verb = if skipped == 1 { "row was" } else { "rows were" };
            self.notice(&PgError::with_severity(
                "NOTICE",
                SqlState::SUCCESSFUL_COMPLETION,
                format!("{skipped} {verb} skipped due to data type incompatibility"),
            ));
        }
        Ok(rows)
    }

    /// Starts the COPY on every node and waits until all are ready for data.
    async fn start_copy(&mut self, nodes: &[NodeId], sql: &str) -> Result<()> {
        for node in nodes {
            self.hold(*node, Mode::InBlock).await?;
            self.link(*node)?.link.connection.query(sql.as_bytes());
        }
        let work = self.held.iter_mut().filter(|(node, _)| nodes.contains(node)).map(|(_, held)| async {
            held.flush().await?;
            match held.next().await? {
                Event::CopyIn => Ok(()),
                other => Err(PgError::protocol(format!("unexpected answer {other:?} to COPY"))),
            }
        });
        let results = futures_util::future::join_all(work).await;
        let Some(error) = results.into_iter().find_map(Result::err) else { return Ok(()) };
        for node in nodes {
            if let Ok(held) = self.link(*node)
                && !held.link.connection.is_settled()
            {
                frontend::copy_fail(held.link.connection.out(), b"another node refused");
            }
        }
        // Their own errors only say that we gave up.
        let _ = self.settle(nodes).await;
        Err(error)
    }

    /// Reads what links still owe.
    async fn settle(&mut self, nodes: &[NodeId]) -> Result<()> {
        let open: Vec<NodeId> = nodes
            .iter()
            .copied()
            .filter(|node| self.held.get(node).is_some_and(|held| !held.link.connection.is_settled()))
            .collect();
        self.finish_all(&open).await.map(|_| ())
    }

    async fn router_spec(
        &mut self,
        plan: &CopyFrom,
        options: &CopyOptions,
        is_client: bool,
        server_version: u32,
    ) -> Result<RouterSpec> {
        self.hold(self.home, self.mode()).await?;
        let parameter = |this: &Self, name: &str| this.home_parameters().and_then(|p| p.get(name).cloned());
        let client_encoding = parameter(self, "client_encoding").unwrap_or_else(|| "UTF8".into());
        let timezone = parameter(self, "TimeZone").unwrap_or_default();
        let key_part = |(source, key_type): &(KeySource, placement::KeyType)| KeyPart {
            key_type: *key_type,
            value: match source {
                KeySource::Column(index) => KeyValue::Column(*index),
                KeySource::Null => KeyValue::Default(None),
            },
        };
        let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect::<Vec<u16>>();
        let routing = match &plan.route {
            Route::Hash { key, map, nodes } => {
                Routing::Hash { key: key.iter().map(key_part).collect(), map: map.clone(), nodes: ids(nodes) }
            }
            Route::Modulo { key, map, nodes } => {
                Routing::Modulo { key: key_part(key), map: map.clone(), nodes: ids(nodes) }
            }
            Route::RoundRobin { nodes } => {
                Routing::RoundRobin { destinations: nodes.len(), start: self.spread % nodes.len().max(1) }
            }
            Route::Replicated { .. } | Route::Single { .. } => Routing::Single,
        };
        let column = |column: &planner::RowColumn| CopyColumn {
            name: column.name.clone(),
            type_oid: column.type_oid,
            type_modifier: column.type_modifier,
        };
        Ok(RouterSpec {
            relation: plan.target.name.clone(),
            columns: plan.columns.iter().map(column).collect(),
            options: options.clone(),
            client_encoding,
            server_version,
            timezone_is_utc: matches!(timezone.as_str(), "UTC" | "Etc/UTC" | "GMT"),
            source: if is_client { copyfmt::Source::Client } else { copyfmt::Source::File },
            output: copyfmt::Output::Binary,
            routing,
            frame_bytes: FRAME_BYTES,
        })
    }

    /// Lines that only PostgreSQL can complete (defaults, generated values): into a temp copy of the table first. It has the
    /// table's name, so errors read as they should.
    async fn copy_staged(
        &mut self,
        plan: &CopyFrom,
        stage: &Stage,
        statement: &CopyStatement,
        options: &CopyOptions,
        source: CopySource<'_>,
    ) -> Result<u64> {
        self.run_on(self.home, &stage.create_sql).await?;
        self.link(self.home)?.temp = true;
        let columns: Vec<String> = plan.columns.iter().map(|column| catalog::quote_identifier(&column.name)).collect();
        let mut sql = format!(
            "COPY pg_temp.{} ({}) FROM STDIN {}",
            catalog::quote_identifier(&stage.table),
            columns.join(", "),
            all_options(options, statement)
        );
        if let Some(condition) = &plan.where_sql {
            sql.push_str(" WHERE ");
            sql.push_str(condition);
        }
        let home = self.home;
        self.start_copy(&[home], &sql).await?;
        let mut input = Input::open(source, options.format == Format::Binary, plan.columns.len()).await?;
        let failure = loop {
            let chunk = match input.next().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            let connection = &mut self.link(home)?.link.connection;
            connection.out().extend_from_slice(&frontend::copy_data_header(chunk.len()));
            connection.write_through(&chunk).await?;
        };
        let held = self.link(home)?;
        match &failure {
            Some(_) => frontend::copy_fail(held.link.connection.out(), b"the input failed"),
            None => frontend::copy_done(held.link.connection.out()),
        }
        held.flush().await?;
        let ended = held.finish().await.map_err(|error| crate::staged::rename_stage(error, stage));
        failure.map_or(Ok(()), Err)?;
        ended?;
        let mut nothing = Spool::default();
        let rows = self.drain_stage(stage, None, &Call::default(), &mut Output::spool(&mut nothing)).await?;
        self.run_on(home, &format!("DROP TABLE pg_temp.{}", catalog::quote_identifier(&stage.table))).await?;
        Ok(rows)
    }
}

/// Can the transcoder read the input's encoding?
fn is_utf8(options: &CopyOptions, client_encoding: &str) -> bool {
    let name = options.encoding.as_deref().unwrap_or(client_encoding).to_ascii_uppercase();
    matches!(name.as_str(), "UTF8" | "UTF-8" | "UNICODE" | "SQL_ASCII")
}

/// Nodes of each of the router's outputs.
fn destinations(route: &Route) -> Vec<Vec<NodeId>> {
    match route {
        Route::Hash { nodes, .. } | Route::Modulo { nodes, .. } | Route::RoundRobin { nodes } => {
            nodes.iter().map(|node| vec![*node]).collect()
        }
        Route::Replicated { nodes } => vec![nodes.clone()],
        Route::Single { node } => vec![vec![*node]],
    }
}

fn node_copy_sql(plan: &CopyFrom, options: &CopyOptions, binary: bool) -> String {
    let columns: Vec<String> = plan.columns.iter().map(|column| catalog::quote_identifier(&column.name)).collect();
    let mut list = match binary {
        true => "(FORMAT binary)".to_owned(),
        false => options.to_sql(),
    };
    if let (false, Some(encoding)) = (binary, &options.encoding) {
        list = list.replacen('(', &format!("(ENCODING {}, ", catalog::quote_literal(encoding)), 1);
    }
    if options.freeze {
        list = list.replacen('(', "(FREEZE, ", 1);
    }
    let mut sql = format!("COPY {} ({}) FROM STDIN {list}", plan.target.qualified_name(), columns.join(", "));
    if let Some(condition) = &plan.where_sql {
        sql.push_str(" WHERE ");
        sql.push_str(condition);
    }
    sql
}

/// Options for a node that gets the input as it is, header and encoding included.
fn all_options(options: &CopyOptions, statement: &CopyStatement) -> String {
    let mut list = options.to_sql();
    let mut more = Vec::new();
    for (name, value) in &statement.options {
        match (name.as_str(), value) {
            ("header", Some(CopyValue::Text(value))) => more.push(format!("HEADER {value}")),
            ("header", _) => more.push("HEADER".to_owned()),
            ("encoding", Some(CopyValue::Text(value))) => {
                more.push(format!("ENCODING {}", catalog::quote_literal(value)));
            }
            _ => {}
        }
    }
    if !more.is_empty() {
        list = list.replacen('(', &format!("({}, ", more.join(", ")), 1);
    }
    list
}

/// The parser's options, checked as PostgreSQL checks them.
pub(crate) fn copy_options(statement: &CopyStatement, is_from: bool, server_version: u32) -> Result<CopyOptions> {
    let pairs: Vec<(String, OptionValue)> = statement
        .options
        .iter()
        .map(|(name, value)| {
            let value = match value {
                None => OptionValue::None,
                Some(CopyValue::Text(text)) => OptionValue::Text(text.clone()),
                Some(CopyValue::List(list)) => OptionValue::List(list.clone()),
                Some(CopyValue::Star) => OptionValue::Star,
            };
            (name.clone(), value)
        })
        .collect();
    CopyOptions::from_pairs(&pairs, is_from, server_version)
}

/// The bytes of a COPY, in chunks.
enum Input<'a> {
    Client { reader: &'a mut FrameReader, ended: bool },
    File(mpsc::Receiver<Result<Bytes>>),
}

impl<'a> Input<'a> {
    /// Asks the client for data, or opens the file.
    async fn open(source: CopySource<'a>, binary: bool, columns: usize) -> Result<Self> {
        match source {
            CopySource::Client(reader, writer) => {
                backend::copy_response(writer.buffer(), backend::tag::COPY_IN, binary, columns);
                writer.flush_stream().await?;
                Ok(Input::Client { reader, ended: false })
            }
            CopySource::File(path) => Ok(Input::File(read_file(&path)?)),
        }
    }

    /// `None` at the end. A client that gives up or hangs up is an error.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let (reader, ended) = match self {
            Input::File(chunks) => return chunks.recv().await.transpose(),
            Input::Client { ended: true, .. } => return Ok(None),
            Input::Client { reader, ended } => (reader, ended),
        };
        loop {
            let Some(frame) = reader.next().await? else {
                return Err(PgError::connection("unexpected EOF on client connection with an open transaction")
                    .with(field::SEVERITY, "FATAL"));
            };
            match frame.tag {
                frontend::tag::COPY_DATA => return Ok(Some(frame.body)),
                frontend::tag::COPY_DONE => {
                    *ended = true;
                    return Ok(None);
                }
                frontend::tag::COPY_FAIL => {
                    *ended = true;
                    let reason = pgproto::frame::Cursor::new(frame.body).cstr().unwrap_or_default();
                    return Err(PgError::new(
                        SqlState::QUERY_CANCELED,
                        format!("COPY from stdin failed: {}", String::from_utf8_lossy(&reason)),
                    ));
                }
                frontend::tag::FLUSH | frontend::tag::SYNC => {}
                other => {
                    return Err(PgError::protocol(format!(
                        "unexpected message type 0x{other:02X} during COPY from stdin"
                    )));
                }
            }
        }
    }
}

/// A thread reads ahead; chunks whose memory nobody uses any more are filled again.
fn read_file(path: &Path) -> Result<mpsc::Receiver<Result<Bytes>>> {
    use std::io::Read;
    let display = path.display().to_string();
    let mut file = std::fs::File::open(path).map_err(|error| {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => SqlState::UNDEFINED_FILE,
            std::io::ErrorKind::PermissionDenied => SqlState::INSUFFICIENT_PRIVILEGE,
            _ => SqlState::IO_ERROR,
        };
        PgError::new(code, format!("could not open file \"{display}\" for reading: {}", os_text(&error))).hint(
            "COPY FROM instructs the PostgreSQL server process to read a file. You may want a client-side facility \
             such as psql's \\copy.",
        )
    })?;
    if file.metadata().is_ok_and(|data| data.is_dir()) {
        return Err(PgError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{display}\" is a directory")));
    }
    let (sender, receiver) = mpsc::channel(2);
    tokio::task::spawn_blocking(move || {
        let mut lent: std::collections::VecDeque<Bytes> = std::collections::VecDeque::new();
        loop {
            let reused = lent.front().is_some_and(Bytes::is_unique).then(|| lent.pop_front()).flatten();
            let mut buffer: Vec<u8> = reused.map(Vec::from).unwrap_or_default();
            buffer.resize(FILE_CHUNK_BYTES, 0);
            let chunk = match file.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => {
                    buffer.truncate(count);
                    Ok(Bytes::from(buffer))
                }
                Err(error) => {
                    Err(PgError::new(SqlState::IO_ERROR, format!("could not read from COPY file: {}", os_text(&error))))
                }
            };
            lent.extend(chunk.as_ref().ok().cloned());
            let failed = chunk.is_err();
            if sender.blocking_send(chunk).is_err() || failed {
                return;
            }
        }
    });
    Ok(receiver)
}

/// The system's words without Rust's "(os error 2)".
pub(crate) fn os_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// What a writer is told.
enum Order {
    /// Rows; shared if several nodes get the same.
    Rows(Arc<Vec<u8>>),
    /// The COPY is given up.
    Abandon,
}

/// One COPY under way.
struct Copy {
    router: Router,
    converter: Converter,
    /// Nodes of each output.
    destinations: Vec<Vec<NodeId>>,
    outputs: Vec<Vec<u8>>,
    writers: Vec<Writer>,
    empty_buffers: mpsc::UnboundedReceiver<Arc<Vec<u8>>>,
    binary: bool,
}

struct Writer {
    node: NodeId,
    orders: mpsc::Sender<Order>,
    task: JoinHandle<(Held, Result<Option<String>>)>,
}

impl Copy {
    fn new(
        router: Router,
        converter: Converter,
        destinations: Vec<Vec<NodeId>>,
        links: Vec<(NodeId, Held)>,
        binary: bool,
    ) -> Self {
        let (recycle, empty_buffers) = mpsc::unbounded_channel();
        let writers = links
            .into_iter()
            .map(|(node, held)| {
                let (orders, inbox) = mpsc::channel(FRAMES_QUEUED);
                let task = tokio::spawn(write_rows(held, inbox, recycle.clone()));
                Writer { node, orders, task }
            })
            .collect();
        let header: &[u8] = if binary { &copyfmt::BINARY_HEADER } else { b"" };
        let outputs = (0..router.destinations()).map(|_| header.to_vec()).collect();
        Self { router, converter, destinations, outputs, writers, empty_buffers, binary }
    }

    /// Moves all rows; gives the links back with the number of rows stored and of those skipped.
    async fn run(mut self, input: &mut Input<'_>) -> (Vec<(NodeId, Held)>, Result<(u64, u64)>) {
        let routed = self.route_all(input).await;
        let fatal = matches!(&routed, Err(error) if error.is_fatal() || error.code() == SqlState::QUERY_CANCELED);
        if fatal {
            for writer in &self.writers {
                let _ = writer.orders.send(Order::Abandon).await;
            }
        } else {
            self.send_rest().await;
        }
        let (links, ended) = self.join().await;
        let skipped = self.router.rows_skipped();
        let result = match (routed, ended) {
            (Err(error), _) if fatal => Err(error),
            (routed, Err(error)) => Err(first_line(routed.err(), error)),
            (Err(error), Ok(_)) => Err(error),
            (Ok(()), Ok(rows)) => Ok((rows, skipped)),
        };
        (links, result)
    }

    async fn route_all(&mut self, input: &mut Input<'_>) -> Result<()> {
        loop {
            match self.router.step(&mut self.outputs)? {
                Step::NeedInput => match input.next().await? {
                    Some(chunk) => self.router.push(chunk),
                    None => self.router.finish(),
                },
                Step::Full { dest } => {
                    if !self.send(dest).await {
                        // A node has failed: nothing behind the row it failed at matters.
                        return drain_input(input).await;
                    }
                }
                Step::Convert(conversion) => match self.converter.convert(&conversion).await {
                    Ok(value) => self.router.supply(value.as_deref()),
                    Err(error) if self.converter.ignores_errors && error.code().as_str().starts_with("22") => {
                        self.router.skip_row();
                    }
                    Err(error) => return Err(self.router.refuse(error, &mut self.outputs)),
                },
                Step::End => return drain_input(input).await,
            }
        }
    }

    /// Hands an output to its writers; `false` if one of them has ended before its time.
    async fn send(&mut self, destination: usize) -> bool {
        let mut next = self.empty_buffers.try_recv().ok().and_then(Arc::into_inner).unwrap_or_default();
        next.clear();
        let rows = Arc::new(std::mem::replace(&mut self.outputs[destination], next));
        for node in &self.destinations[destination] {
            let Some(writer) = self.writers.iter().find(|writer| writer.node == *node) else { return false };
            if writer.orders.send(Order::Rows(rows.clone())).await.is_err() {
                return false;
            }
        }
        true
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

    /// Waits for the writers; gives the rows stored or the error of the smallest line.
    async fn join(&mut self) -> (Vec<(NodeId, Held)>, Result<u64>) {
        let mut links = Vec::new();
        let mut counts: Vec<(NodeId, u64)> = Vec::new();
        let mut failure = None;
        for writer in std::mem::take(&mut self.writers) {
            drop(writer.orders);
            let (held, result) = match writer.task.await {
                Ok(ended) => ended,
                Err(_) => {
                    failure.get_or_insert(PgError::internal("a COPY writer panicked"));
                    continue;
                }
            };
            links.push((writer.node, held));
            match result {
                Ok(tag) => counts.push((writer.node, tag.and_then(|t| backend::split_command_tag(&t).1).unwrap_or(0))),
                Err(error) => failure = Some(first_line(failure.take(), self.with_input_line(error, writer.node))),
            }
        }
        let rows = self
            .destinations
            .iter()
            .filter_map(|nodes| nodes.first())
            .filter_map(|first| counts.iter().find(|(node, _)| node == first))
            .map(|(_, count)| count)
            .sum();
        (links, failure.map_or(Ok(rows), Err))
    }

    /// A node counts the lines it got; the client wants the line of its input.
    fn with_input_line(&self, error: PgError, node: NodeId) -> PgError {
        let destination = self.destinations.iter().position(|nodes| nodes.contains(&node)).unwrap_or(0);
        let context = error.text(field::WHERE).into_owned();
        match self.router.line_log().rewrite_context(&context, destination) {
            Some((_, context)) => error.context(context),
            None => error,
        }
    }
}

/// The client goes on sending until it has been answered; its data are read and dropped.
async fn drain_input(input: &mut Input<'_>) -> Result<()> {
    if let Input::File(chunks) = input {
        chunks.close();
        return Ok(());
    }
    while input.next().await?.is_some() {}
    Ok(())
}

/// Of two errors the one that PostgreSQL would have met first.
fn first_line(a: Option<PgError>, b: PgError) -> PgError {
    let line = |error: &PgError| -> Option<u64> {
        let context = error.text(field::WHERE).into_owned();
        let after = context.split(", line ").nth(1)?;
        after.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
    };
    match a {
        Some(a) if line(&a).unwrap_or(u64::MAX) <= line(&b).unwrap_or(u64::MAX) => a,
        _ => b,
    }
}

/// Feeds one node; ends early when the node reports an error.
async fn write_rows(
    mut held: Held,
    mut orders: mpsc::Receiver<Order>,
    recycle: mpsc::UnboundedSender<Arc<Vec<u8>>>,
) -> (Held, Result<Option<String>>) {
    let result = write_until_done(&mut held, &mut orders, &recycle).await;
    (held, result)
}

async fn write_until_done(
    held: &mut Held,
    orders: &mut mpsc::Receiver<Order>,
    recycle: &mpsc::UnboundedSender<Arc<Vec<u8>>>,
) -> Result<Option<String>> {
    loop {
        let order = tokio::select! {
            biased;
            event = held.next() => {
                let event = event?;
                return Err(PgError::protocol(format!("unexpected {event:?} in the middle of COPY")));
            }
            order = orders.recv() => order,
        };
        match order {
            Some(Order::Rows(rows)) => {
                held.link.connection.out().extend_from_slice(&frontend::copy_data_header(rows.len()));
                held.link.connection.write_through(&rows).await?;
                // The last of several writers gives the buffer back; it is no loss if nobody wants it.
                let _ = recycle.send(rows);
            }
            Some(Order::Abandon) => {
                frontend::copy_fail(held.link.connection.out(), b"the COPY was abandoned");
                held.flush().await?;
                return held.finish().await;
            }
            None => {
                frontend::copy_done(held.link.connection.out());
                held.flush().await?;
                return held.finish().await;
            }
        }
    }
}
