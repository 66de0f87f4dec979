//! COPY FROM: bytes in, rows routed, one writer task a datanode.
//!
//! ```text
//!  client or file ── chunks ──> Router ──┬─ 64 KiB frames ─> writer ── COPY FROM STDIN ──> dn1
//!                                        └─ 64 KiB frames ─> writer ── COPY FROM STDIN ──> dn2
//! ```
//!
//! The session's task reads, splits, converts and hashes, and may have helpers for that ([`feed`](crate::copy::feed)); each
//! writer owns its link while the COPY lasts. Queues are
//! bounded, so a slow node slows the input down. Frames go round: a writer gives its empty
//! buffer back.
//!
//! Errors: PostgreSQL reports the first it meets. When one node or the router finds an error, all rows before it are still
//! sent and every node finishes what it got, so that `copy_pipeline` can tell which that is. A COPY that is wrong whatever
//! its data has the error of the home node, which is given the user's own text.

use catalog::{Generated, NodeId};
use copyfmt::{
    CopyColumn, CopyOptions, ForceColumns, Format, KeyPart, KeyValue, OnError, OptionValue, Router, RouterSpec, Routing,
};
use pgerror::{PgError, Result, SqlState};
use pgproto::frontend;
use planner::parse::{CopyStatement, CopySubject, CopyValue};
use planner::{CopyFrom, KeySource, Route, Stage};

use crate::backend::call::TIMES;
use crate::backend::request::Event;
use crate::block::Mode;
use crate::copy::convert::Converter;
use crate::copy::feed::Feed;
use crate::copy::input::{CopySource, Input};
use crate::copy::pipeline::{Copy, Rejects};
use crate::engine::run::Completion;
use crate::session::Session;
use crate::session::encoding;
use crate::shared::figures::COPIED_ROWS;

/// Bytes of rows in one CopyData to a datanode.
pub(crate) const FRAME_BYTES: usize = 64 * 1024;

impl Session {
    /// Runs `COPY table FROM`, in the open block or in one of its own: all rows or none. `sql` is the statement's text.
    pub async fn copy_from(
        &mut self,
        plan: &CopyFrom,
        statement: &CopyStatement,
        sql: &str,
        source: CopySource<'_>,
    ) -> Result<Completion> {
        self.links.cancel().cannot_be_repeated();
        let version = self.catalog().await?.catalog.server_version();
        self.note_write(true);
        // A datanode that is told to read a file might do so.
        let sql = source.path().is_none().then_some(sql);
        let options = checked_options(plan, statement, version);
        let is_checked = options.is_ok();
        let result = match options {
            Ok(options) => self.copy_rows(plan, statement, &options, source, version).await,
            Err(error) => Err(error),
        };
        let result = self.copy_placed_by_home(sql, true, is_checked, result).await;
        self.conclude(result).await.map(|rows| Completion::Tag(format!("COPY {rows}")))
    }

    async fn copy_rows(
        &mut self,
        plan: &CopyFrom,
        statement: &CopyStatement,
        options: &CopyOptions,
        source: CopySource<'_>,
        server_version: u32,
    ) -> Result<u64> {
        self.widen_for_several().await?;
        self.atomically(async |this| {
            if let Some(copies) = &plan.copies {
                this.join_writers(copies.first, &plan.target.qualified_name()).await?;
                this.tell_rows(copies.first, true).await?;
            }
            let rows = match &plan.stage {
                Some(stage) => this.copy_staged(plan, stage, statement, options, source).await?,
                None if !this.can_split(options).await? => {
                    let stage = Stage::of(&plan.target);
                    this.copy_staged(plan, &stage, statement, options, source).await?
                }
                None => this.copy_routed(plan, options, source, server_version).await?,
            };
            if let Some(copies) = &plan.copies {
                this.tell_rows(copies.first, false).await?;
                this.pass_rows_on(copies, 0).await?;
            }
            Ok(rows)
        })
        .await
    }

    /// Is the input in an encoding whose lines can be found without decoding it?
    async fn can_split(&mut self, options: &CopyOptions) -> Result<bool> {
        if options.format == Format::Binary {
            return Ok(true);
        }
        Ok(match &options.encoding {
            Some(encoding) => copyfmt::can_split(encoding),
            None => {
                self.acquire(self.home, self.mode()).await?;
                let session = self.home_parameters().and_then(|parameters| parameters.get("client_encoding").cloned());
                session.is_none_or(|encoding| copyfmt::can_split(&encoding))
            }
        })
    }

    /// Are the input's texts the server's, byte by byte? PostgreSQL takes any bytes for SQL_ASCII, in text form only.
    fn is_transcodable(&self, client_encoding: &str) -> bool {
        let server = || self.home_parameters().and_then(|parameters| parameters.get("server_encoding").cloned());
        match client_encoding.to_ascii_uppercase().as_str() {
            "UTF8" | "UTF-8" | "UNICODE" => true,
            "SQL_ASCII" => server().is_some_and(|server| server == "SQL_ASCII"),
            _ => false,
        }
    }

    async fn copy_routed(
        &mut self,
        plan: &CopyFrom,
        options: &CopyOptions,
        mut source: CopySource<'_>,
        server_version: u32,
    ) -> Result<u64> {
        let file = source.path();
        let mut spec = self.router_spec(plan, options, file.is_none(), server_version).await?;
        // Texts in binary are read in the session's encoding, whatever the option says.
        let encodings = spec.options.encoding.iter().chain([&spec.client_encoding]);
        let is_utf8 = encodings.into_iter().all(|encoding| self.is_transcodable(encoding));
        let all_binary = copyfmt::transcodable(&spec);
        let is_text = options.format != Format::Binary;
        let can_transcode = all_binary && options.default.is_none() && is_utf8;
        spec.output = if is_text && !can_transcode { copyfmt::Output::Raw } else { copyfmt::Output::Binary };
        if spec.output == copyfmt::Output::Raw
            && matches!(&plan.route, Route::Replicated { nodes, .. } if nodes.len() > 1)
        {
            spec.clockless = self.times_among(&spec.columns);
        }
        let binary = spec.output == copyfmt::Output::Binary;
        let router = Router::new(spec)?;

        let destinations = destinations(&plan.route);
        let sql = node_copy_sql(plan, options, binary, self.encoding_of_links().is_some());
        let nodes: Vec<NodeId> = destinations.iter().flatten().copied().collect();
        if !nodes.contains(&self.home) {
            // What we asked it for may have queued a BEGIN, which no COPY takes along: unread, it would cost the link.
            self.run_on(self.home, "SELECT 1").await?;
        }
        self.start_copy(&nodes, &sql, &mut source).await?;
        // The nodes have their locks: from here on no row of the table moves. Better a new plan now than an error after the last row.
        if let Err(error) = self.plan_holds().await {
            self.abandon_copy(&nodes).await;
            self.must_replan = true;
            return Err(error);
        }
        let input = self.open_input(source, options, plan.columns.len(), &nodes).await?;
        let converter = Converter::new(self, options.encoding.as_deref());
        let links = self.links.take(&nodes)?;
        let rejects = (options.on_error == OnError::Ignore).then(|| Rejects::new(options));
        let mut copy = Copy::new(router, converter, destinations, links, binary, plan.target.clone(), rejects);
        let mut feed = Feed::new(input, options, &self.context.cores, self.copy_helpers());
        let (mut links, result) = copy.run(&mut feed).await;
        for (node, rows) in copy.stored() {
            COPIED_ROWS.add(&self.context.members().name(*node), *rows);
        }
        self.keep_trigger_events(&mut links);
        let notices = copy.take_notices(&mut links, result.as_ref().err());
        notices.iter().for_each(|notice| self.notice(notice));
        self.links.put_back(links);
        match result {
            Ok(rows) => Ok(rows),
            Err(error) => Err(copy.with_line_text(error, file).await),
        }
    }

    /// Starts the COPY on every node and waits until all are ready for data, which may take a while if the table is locked.
    /// Gives the number of columns.
    pub(crate) async fn start_copy(
        &mut self,
        nodes: &[NodeId],
        sql: &str,
        source: &mut CopySource<'_>,
    ) -> Result<usize> {
        let cancel = self.cancel_set();
        self.connect_to(nodes).await?;
        for node in nodes {
            self.acquire(*node, Mode::InBlock).await?;
            self.links.link(*node)?.link.connection.query(sql.as_bytes());
        }
        let work = self.links.of(nodes).map(|(_, leased)| async {
            leased.flush().await?;
            match leased.next().await? {
                Event::CopyIn(columns) => Ok(columns),
                other => Err(PgError::protocol(format!("unexpected answer {other:?} to COPY"))),
            }
        });
        let results = tokio::select! {
            results = futures_util::future::join_all(work) => results,
            gone = source.gone() => {
                cancel.cancel().await;
                return Err(gone);
            }
        };
        let columns: Result<Vec<usize>> = results.into_iter().collect();
        if columns.is_err() {
            self.abandon_copy(nodes).await;
        }
        Ok(columns?.first().copied().unwrap_or_default())
    }

    /// Ends COPYs that have got no data yet. Their own errors only say that we gave up.
    pub(crate) async fn abandon_copy(&mut self, nodes: &[NodeId]) {
        for node in nodes {
            if let Ok(leased) = self.links.link(*node)
                && !leased.link.connection.is_drained()
            {
                frontend::copy_fail(leased.link.connection.out(), b"the COPY was abandoned");
            }
        }
        let _ = self.read_to_the_end(nodes).await;
    }

    /// Asks the client for data, or opens the file; the nodes' COPYs end if that cannot be done.
    pub(crate) async fn open_input<'a>(
        &mut self,
        source: CopySource<'a>,
        options: &CopyOptions,
        columns: usize,
        nodes: &[NodeId],
    ) -> Result<Input<'a>> {
        let ending = self.links.cancel().activity().ending();
        let opened = Input::open(source, options.format == Format::Binary, columns, ending).await;
        if opened.is_err() {
            self.abandon_copy(nodes).await;
        }
        opened
    }

    /// Reads what links still owe.
    async fn read_to_the_end(&mut self, nodes: &[NodeId]) -> Result<()> {
        let open: Vec<NodeId> = nodes
            .iter()
            .copied()
            .filter(|node| self.links.get(*node).is_some_and(|leased| !leased.link.connection.is_drained()))
            .collect();
        self.links.finish_all(&open).await.map(|_| ())
    }

    /// The columns whose texts PostgreSQL may read the clock for.
    fn times_among(&self, columns: &[CopyColumn]) -> Vec<usize> {
        let is_time = |column: &CopyColumn| self.below_domains(column.type_oid).is_some_and(|oid| TIMES.contains(&oid));
        (0..columns.len()).filter(|at| is_time(&columns[*at])).collect()
    }

    async fn router_spec(
        &mut self,
        plan: &CopyFrom,
        options: &CopyOptions,
        is_client: bool,
        server_version: u32,
    ) -> Result<RouterSpec> {
        self.acquire(self.home, self.mode()).await?;
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
                Routing::RoundRobin { destinations: nodes.len(), start: self.links.number() % nodes.len().max(1) }
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
            clockless: Vec::new(),
            frame_bytes: FRAME_BYTES,
        })
    }
}

/// The options of a COPY FROM, and what `CopyGetAttnums` (PostgreSQL's `copy.c`) checks of the column list before them and of
/// the FORCE_… options behind them.
fn checked_options(plan: &CopyFrom, statement: &CopyStatement, server_version: u32) -> Result<CopyOptions> {
    if let CopySubject::Relation { columns, .. } = &statement.subject {
        named_once(plan, columns)?;
    }
    let options = copy_options(statement, true, server_version)?;
    for (option, forced) in [("FORCE_NOT_NULL", &options.force_not_null), ("FORCE_NULL", &options.force_null)] {
        let ForceColumns::Columns(names) = forced else { continue };
        named_once(plan, names)?;
        if let Some(name) = names.iter().find(|name| plan.columns.iter().all(|column| column.name != **name)) {
            let message = format!("{option} column \"{name}\" not referenced by COPY");
            return Err(PgError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
    }
    Ok(options)
}

/// Every name is a column's that can be copied, and none comes twice.
fn named_once(plan: &CopyFrom, names: &[String]) -> Result<()> {
    for (index, name) in names.iter().enumerate() {
        let relation = &plan.target.name;
        let Some(column) = plan.target.column(name) else {
            let message = format!("column \"{name}\" of relation \"{relation}\" does not exist");
            return Err(PgError::new(SqlState::UNDEFINED_COLUMN, message));
        };
        if matches!(column.generated, Generated::Stored | Generated::Virtual) {
            let error =
                PgError::new(SqlState::INVALID_COLUMN_REFERENCE, format!("column \"{name}\" is a generated column"));
            return Err(error.detail("Generated columns cannot be used in COPY."));
        }
        if names[..index].contains(name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(PgError::new(SqlState::DUPLICATE_COLUMN, message));
        }
    }
    Ok(())
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

/// ` (a, b)`, but nothing for a table without columns. `is_foreign`: the statement is read in another encoding than UTF8.
pub(crate) fn column_list(plan: &CopyFrom, is_foreign: bool) -> String {
    let quote = if is_foreign { encoding::ascii_identifier } else { catalog::quote_identifier };
    let columns: Vec<String> = plan.columns.iter().map(|column| quote(&column.name)).collect();
    if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) }
}

fn node_copy_sql(plan: &CopyFrom, options: &CopyOptions, binary: bool, is_foreign: bool) -> String {
    let columns = column_list(plan, is_foreign);
    let mut list = match binary {
        true => "(FORMAT binary)".to_owned(),
        // Rows to leave out never come so far.
        false => {
            CopyOptions { on_error: OnError::Stop, reject_limit: None, log_verbosity: None, ..options.clone() }.to_sql()
        }
    };
    // For binary input PostgreSQL only checks the name.
    let is_said = !binary || options.format == Format::Binary;
    if let (true, Some(encoding)) = (is_said, &options.encoding) {
        list = list.replacen('(', &format!("(ENCODING {}, ", catalog::quote_literal(encoding)), 1);
    }
    if options.freeze {
        list = list.replacen('(', "(FREEZE, ", 1);
    }
    let mut sql = format!("COPY {}{columns} FROM STDIN {list}", plan.target.qualified_name());
    if let Some(condition) = &plan.where_sql {
        sql.push_str(" WHERE ");
        sql.push_str(condition);
    }
    sql
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
                Some(CopyValue::Integer(number)) => OptionValue::Integer(*number),
                Some(CopyValue::List(list)) => OptionValue::List(list.clone()),
                Some(CopyValue::Star) => OptionValue::Star,
            };
            (name.clone(), value)
        })
        .collect();
    CopyOptions::from_pairs(&pairs, is_from, server_version)
}
