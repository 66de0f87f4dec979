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

use std::path::PathBuf;
use std::sync::Arc;

use catalog::{Column, Generated, NodeId};
use copyfmt::{
    CopyColumn, CopyOptions, ForceColumns, Format, KeyPart, KeyValue, OnError, OptionValue, Router, RouterSpec,
    Routing, Step,
};
use pgerror::{PgError, Result, SqlState};
use pgproto::{backend, frontend};
use planner::parse::{CopyStatement, CopySubject, CopyValue};
use planner::{CopyFrom, KeySource, Route, Stage};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::call::{Call, Event};
use crate::convert::Converter;
use crate::copy_input::{CLIENT_GAVE_UP, CopySource, Input, read_line_again};
use crate::output::{Output, Spool};
use crate::run::Completion;
use crate::session::{Held, Mode, Session};
use crate::staged::without_copy_context;

/// Bytes of rows in one CopyData to a datanode.
const FRAME_BYTES: usize = 64 * 1024;
/// Input bytes after which rows leave even if their frame is not full: a node's error then comes while its line is still
/// among those that the router remembers.
const SWEEP_BYTES: usize = 4 << 20;
/// Frames waiting for one datanode.
const FRAMES_QUEUED: usize = 4;

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
        named_columns_exist(plan, statement, &options)?;
        let result = self
            .atomically(async |this| match &plan.stage {
                Some(stage) => this.copy_staged(plan, stage, statement, &options, source).await,
                None if !this.can_split(&options).await? => {
                    let stage = Stage::of(&plan.target);
                    this.copy_staged(plan, &stage, statement, &options, source).await
                }
                None => this.copy_routed(plan, &options, source, loaded.catalog.server_version()).await,
            })
            .await;
        if result.is_err() {
            self.fail();
        }
        self.release();
        result.map(|rows| Completion::Tag(format!("COPY {rows}")))
    }

    /// Is the input in an encoding whose lines can be found without decoding it?
    async fn can_split(&mut self, options: &CopyOptions) -> Result<bool> {
        if options.format == Format::Binary {
            return Ok(true);
        }
        Ok(match &options.encoding {
            Some(encoding) => copyfmt::can_split(encoding),
            None => {
                self.hold(self.home, self.mode()).await?;
                let session = self.home_parameters().and_then(|parameters| parameters.get("client_encoding").cloned());
                session.is_none_or(|encoding| copyfmt::can_split(&encoding))
            }
        })
    }

    async fn copy_routed(
        &mut self,
        plan: &CopyFrom,
        options: &CopyOptions,
        source: CopySource<'_>,
        server_version: u32,
    ) -> Result<u64> {
        let file = source.path();
        let mut spec = self.router_spec(plan, options, file.is_none(), server_version).await?;
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
        let mut input = self.open_input(source, options, plan.columns.len(), &nodes).await?;
        let ignores_errors = options.on_error == OnError::Ignore;
        let converter = Converter::new(self, options.encoding.as_deref(), ignores_errors);
        let links = self.take(&nodes)?;
        let mut copy = Copy::new(router, converter, destinations, links, binary);
        let (links, result) = copy.run(&mut input).await;
        self.put_back(links);
        let (rows, skipped) = match result {
            Ok(counts) => counts,
            Err(error) => return Err(copy.with_line_text(error, plan, file).await),
        };
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
        self.abandon_copy(nodes).await;
        Err(error)
    }

    /// Ends COPYs that have got no data yet. Their own errors only say that we gave up.
    async fn abandon_copy(&mut self, nodes: &[NodeId]) {
        for node in nodes {
            if let Ok(held) = self.link(*node)
                && !held.link.connection.is_settled()
            {
                frontend::copy_fail(held.link.connection.out(), b"the COPY was abandoned");
            }
        }
        let _ = self.settle(nodes).await;
    }

    /// Asks the client for data, or opens the file; the nodes' COPYs end if that cannot be done.
    async fn open_input<'a>(
        &mut self,
        source: CopySource<'a>,
        options: &CopyOptions,
        columns: usize,
        nodes: &[NodeId],
    ) -> Result<Input<'a>> {
        let opened = Input::open(source, options.format == Format::Binary, columns).await;
        if opened.is_err() {
            self.abandon_copy(nodes).await;
        }
        opened
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

    async fn create_copy_stage(&mut self, stage: &Stage) -> Result<()> {
        let home = self.home;
        let target = catalog::quote_literal(&stage.target.qualified_name());
        // LIKE wants to read the table, COPY FROM does not.
        let may_read = format!("SELECT pg_catalog.has_table_privilege({target}, 'SELECT')");
        let may_read =
            self.rows_on(home, &may_read).await?.first().and_then(|row| row.first()?.as_deref()) == Some(b"t");
        let sql = checking_stage(stage).filter(|_| may_read).unwrap_or_else(|| stage.create_sql.clone());
        self.run_on(home, &sql).await?;
        self.link(home)?.temp = true;
        Ok(())
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
        self.create_copy_stage(stage).await?;
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
        let mut input = self.open_input(source, options, plan.columns.len(), &[home]).await?;
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
            // The reason comes back in the node's error, with the line it had come to.
            Some(error) => {
                let message = error.message();
                let reason = message.strip_prefix(CLIENT_GAVE_UP).unwrap_or("the input failed");
                frontend::copy_fail(held.link.connection.out(), reason.as_bytes());
            }
            None => frontend::copy_done(held.link.connection.out()),
        }
        held.flush().await?;
        let ended = held.finish().await.map_err(|error| crate::staged::rename_stage(error, stage));
        match failure {
            Some(error) if error.code() != SqlState::QUERY_CANCELED => return Err(error),
            _ => ended?,
        };
        let mut nothing = Spool::default();
        let drained = self.drain_stage(stage, None, &Call::default(), &mut Output::spool(&mut nothing)).await;
        // Rows are lines, but for a header, unless one of them spans several or was left out.
        let is_line = options.format != Format::Csv && plan.where_sql.is_none() && options.on_error == OnError::Stop;
        let header = u64::from(options.header != copyfmt::Header::No);
        let rows = drained.map_err(|error| match is_line {
            true => copyfmt::renumber(error, &stage.target.name, |row| Some(row + header)),
            false => without_copy_context(error),
        })?;
        self.run_on(home, &format!("DROP TABLE pg_temp.{}", catalog::quote_identifier(&stage.table))).await?;
        Ok(rows)
    }
}

/// `CopyGetAttnums` (PostgreSQL's `copy.c`) for the column list and the FORCE_… options.
fn named_columns_exist(plan: &CopyFrom, statement: &CopyStatement, options: &CopyOptions) -> Result<()> {
    let list: &[String] = match &statement.subject {
        CopySubject::Relation { columns, .. } => columns,
        CopySubject::Query(_) => &[],
    };
    let forced = [&options.force_not_null, &options.force_null].into_iter().flat_map(|forced| match forced {
        ForceColumns::Columns(names) => names.as_slice(),
        _ => &[],
    });
    let Some(missing) = list.iter().chain(forced).find(|name| plan.target.column(name).is_none()) else {
        return Ok(());
    };
    let message = format!("column \"{missing}\" of relation \"{}\" does not exist", plan.target.name);
    Err(PgError::new(SqlState::UNDEFINED_COLUMN, message))
}

/// A stage with the target's conditions, so that a line that breaks one is named as PostgreSQL names it. `None` where they
/// must not be checked yet (a trigger may change the row).
fn checking_stage(stage: &Stage) -> Option<String> {
    let target = &stage.target;
    if target.has_triggers {
        return None;
    }
    let name = target.qualified_name();
    let table = catalog::quote_identifier(&stage.table);
    let mut sql = format!(
        "CREATE TEMP TABLE {table} (LIKE {name} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED) \
         ON COMMIT DROP"
    );
    let is_identity =
        |column: &&Column| matches!(column.generated, Generated::IdentityAlways | Generated::IdentityByDefault);
    for column in target.columns.iter().filter(is_identity) {
        sql.push_str(&format!(
            "; ALTER TABLE pg_temp.{table} ALTER {} SET DEFAULT \
             pg_catalog.nextval(pg_catalog.pg_get_serial_sequence({}, {}))",
            catalog::quote_identifier(&column.name),
            catalog::quote_literal(&name),
            catalog::quote_literal(&column.name)
        ));
    }
    Some(sql)
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
    /// The error to report is one of a datanode.
    node_failed: bool,
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
        Self { router, converter, destinations, outputs, writers, empty_buffers, binary, node_failed: false }
    }

    /// Moves all rows; gives the links back with the number of rows stored and of those skipped.
    async fn run(&mut self, input: &mut Input<'_>) -> (Vec<(NodeId, Held)>, Result<(u64, u64)>) {
        let routed = self.route_all(input).await;
        let fatal = routed.as_ref().is_err_and(PgError::is_fatal);
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
            (Ok(()), Ok(rows)) => Ok((rows, skipped)),
            (Err(error), Ok(_)) => Err(error),
            (Err(error), Err(_)) if fatal => Err(error),
            (Err(own), Err(node)) if self.line_of(&own) < self.line_of(&node) => Err(own),
            // About the same line the node has the last word: it read the row as PostgreSQL does.
            (_, Err(error)) => {
                self.node_failed = true;
                Err(error)
            }
        };
        (links, result)
    }

    async fn route_all(&mut self, input: &mut Input<'_>) -> Result<()> {
        let mut unswept = 0;
        loop {
            match self.router.step(&mut self.outputs)? {
                Step::NeedInput => match input.next().await.map_err(|error| self.router.while_reading(error))? {
                    Some(chunk) => {
                        unswept += chunk.len();
                        self.router.push(chunk);
                        if unswept >= SWEEP_BYTES {
                            unswept = 0;
                            self.sweep().await;
                        }
                    }
                    None => self.router.finish(),
                },
                Step::Full { dest } => {
                    if !self.send(dest).await {
                        // A node has failed: nothing behind the row it failed at matters.
                        return input.drain().await;
                    }
                }
                Step::Convert(conversion) => match self.converter.convert(&conversion).await {
                    Ok(value) => self.router.supply(value.as_deref()),
                    Err(error) if self.converter.ignores_errors && error.code().as_str().starts_with("22") => {
                        self.router.skip_row();
                    }
                    Err(error) => return Err(self.router.refuse(error, &mut self.outputs)),
                },
                Step::End => return input.drain().await.map_err(|error| self.router.while_reading(error)),
            }
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
            let Some(writer) = self.writers.iter().find(|writer| writer.node == *node) else { return false };
            if writer.orders.send(Order::Rows(rows.clone())).await.is_err() {
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

    /// Waits for the writers; gives the rows stored or the error of the smallest line.
    async fn join(&mut self) -> (Vec<(NodeId, Held)>, Result<u64>) {
        let mut links = Vec::new();
        let mut counts: Vec<(NodeId, u64)> = Vec::new();
        let mut failure: Option<PgError> = None;
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
                Err(error) => {
                    let error = self.with_input_line(error, writer.node);
                    if failure.as_ref().is_none_or(|first| self.line_of(&error) < self.line_of(first)) {
                        failure = Some(error);
                    }
                }
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
        self.router.with_input_line(error, destination)
    }

    /// PostgreSQL reports the error of the first line; one without a line comes at the end of all.
    fn line_of(&self, error: &PgError) -> u64 {
        self.router.line_of_error(error).unwrap_or(u64::MAX)
    }

    /// A node that got binary rows cannot quote the line its error is about; PostgreSQL would, unless the error came when
    /// the row was put into indexes together with others (`CopyMultiInsertBufferFlush`).
    async fn with_line_text(&mut self, error: PgError, plan: &CopyFrom, file: Option<PathBuf>) -> PgError {
        let line = if self.node_failed { self.router.unquoted_line(&error) } else { None };
        let Some(line) = line else { return error };
        // A unique key, an exclusion constraint, a row too large for an index.
        let of_index = matches!(error.code().as_str(), "23505" | "23P01" | "54000");
        if of_index && !(plan.target.has_triggers && self.converter.inserts_row_by_row(&plan.target).await) {
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
