//! INSERT whose rows PostgreSQL has to make first.
//!
//! The home node evaluates the source into a temp copy of the target (defaults, sequences, casts, `DEFAULT` markers, any
//! query); the rows are read back in batches through a cursor, hashed on their binary form and written to their nodes.
//! A batch is held in memory, never the whole: [`BATCH_ROWS`] rows at a time.
//! Rows that the nodes make by themselves go past the stage if nothing is to be added to them ([`Session::insert_direct`]).

use bytes::{BufMut, Bytes, BytesMut};
use catalog::{NodeId, quote_identifier};
use pgerror::{PgError, Result, SqlState, field};
use pgproto::Frame;
use pgproto::backend::Field;
use planner::{Direct, InsertStaged, Route, Stage, Through};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::backend::call::Call;
use crate::backend::call::is_node_specific;
use crate::backend::call::travels_in_binary;
use crate::backend::leased::LeasedConnection;
use crate::backend::request::Event;
use crate::backend::request::frame_bodies;
use crate::backend::slot::slots;
use crate::block::Mode;
use crate::dml::returning::{Returned, pass_in_order};
use crate::dml::trigger_events::is_trigger_event;
use crate::engine::fixed_text::{fix, restore};
use crate::engine::gather::without_position;
use crate::engine::mover::rows::{Values, put_row, split_bodies};
use crate::engine::output::Output;
use crate::engine::row_router::{Destination, RowRouter};
use crate::engine::run::Completion;
use crate::engine::spool::Spool;
use crate::engine::temp::placement::rename_stage;
use crate::session::Session;

/// `Failing row contains` shows all that the stage brings, where a right was lent also what the user has neither named nor may read.
fn without_row(error: PgError) -> PgError {
    let shows_row = [SqlState::NOT_NULL_VIOLATION, SqlState::CHECK_VIOLATION].contains(&error.code());
    if shows_row { error.without(field::DETAIL) } else { error }
}

/// Rows read back at a time.
const BATCH_ROWS: usize = 10_000;
/// Values of one multi-row INSERT; the protocol's limit is 65,535 parameters.
pub(crate) const INSERT_VALUES_MAX: usize = 30_000;

const CURSOR: &str = "loxo_stage_rows";

impl Session {
    /// Runs inside a block.
    pub(crate) async fn insert_staged(
        &mut self,
        insert: &InsertStaged,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let done = self.insert_part(insert, call, output).await?;
        if insert.rights_sql.is_none() && done.rows() == Some(0) {
            // No datanode has been asked for more than to read.
            self.check_rights(Some(&insert.original), call).await?;
        }
        Ok(done)
    }

    /// [`Session::insert_staged`] for a part of a statement.
    pub(crate) async fn insert_part(
        &mut self,
        insert: &InsertStaged,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        if self.is_read_only() {
            // No datanode would say so if there is no row for it.
            let message = "cannot execute INSERT in a read-only transaction";
            return Err(PgError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        self.check_rights(insert.rights_sql.as_deref(), call).await?;
        // Rights are lent for rows that are made already: what the user's functions do, they do with his own.
        if insert.rights_sql.is_none()
            && let Some(rows) = self.insert_direct(insert, call).await?
        {
            return Ok(Completion::Tag(format!("INSERT 0 {rows}")));
        }
        self.fill_insert_stage(insert, call).await?;
        if let Some((through, view)) = self.lend_view(insert).await? {
            let done = self.insert_from_stage(&through, call, output).await.map_err(without_row)?;
            let nodes = self.nodes_with_home(&through.stage.target.distribution.nodes());
            self.take_views_back(&nodes, &[view]).await?;
            return Ok(done);
        }
        let lent = self.lend_insert(insert).await?;
        let done = self.insert_from_stage(insert, call, output).await;
        let done = if lent.is_empty() { done } else { done.map_err(without_row) }?;
        self.take_rights_back(&insert.stage.target.qualified_name(), lent).await?;
        Ok(done)
    }

    /// Where [`Session::lend_view`] gave none, and the user has no right to insert all that the stage brings, he has it until
    /// [`Session::take_rights_back`]. Policies would be asked as his own; through a view they are the owner's.
    async fn lend_insert(&mut self, insert: &InsertStaged) -> Result<Vec<(NodeId, String)>> {
        let target = &insert.stage.target;
        if insert.rights_sql.is_none() || target.is_barrier && insert.through.is_some() {
            return Ok(Vec::new());
        }
        self.lend_rights(&target.distribution.nodes(), &target.qualified_name(), &["INSERT"]).await
    }

    /// The home node describes a RETURNING that no row reaches.
    fn nodes_with_home(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let home = (!nodes.contains(&self.home)).then_some(self.home);
        nodes.iter().copied().chain(home).collect()
    }

    /// The user may have no right to insert all that the stage brings, a sequence's number beside the columns he named, say. Names of
    /// the table want USAGE on its schema, too, which a user who inserts through a view need not have. Then the rows go through a view
    /// of ours: to change the rights on the table itself would keep others who need that, and ANALYZE, waiting to the end of the block.
    /// Gives the INSERT into it, and its name.
    async fn lend_view(&mut self, insert: &InsertStaged) -> Result<Option<(InsertStaged, String)>> {
        let target = &insert.stage.target;
        if insert.rights_sql.is_none() || insert.through.is_some() {
            return Ok(None);
        }
        let rights = if insert.tail.is_empty() { "INSERT" } else { "INSERT, UPDATE, SELECT" };
        let [may_use, may_insert, owner_lacks] = self.may_insert(target, rights).await?;
        let asks_user = target.is_barrier || owner_lacks || !insert.names_columns_only;
        if may_use && (may_insert || asks_user) {
            return Ok(None);
        }
        if target.is_barrier {
            let what = format!("this INSERT through a view into \"{}\", which has policies,", target.name);
            return Err(PgError::unsupported(what).hint("GRANT USAGE on the table's schema."));
        }
        let nodes = self.nodes_with_home(&target.distribution.nodes());
        // Of what is read and changed there he has the rights already: nothing more of that is lent for what his functions may do.
        let lent: Vec<String> = insert.stage.columns.iter().map(|column| quote_identifier(&column.name)).collect();
        let own = if insert.tail.is_empty() { String::new() } else { self.rights_to_columns(target).await? };
        let view = self.lend_change(&nodes, target, &format!("INSERT ({}){own}", lent.join(", "))).await?;
        let table = target.qualified_name();
        let alias = match insert.target_sql.strip_prefix(&table) {
            Some(alias) if !alias.is_empty() => alias.to_owned(),
            _ => format!(" AS {}", quote_identifier(&target.name)),
        };
        let columns = insert.stage.columns.iter().map(|column| column.name.clone()).collect();
        let through = InsertStaged {
            target_sql: format!("loxo.{view}{alias}"),
            through: Some(Through { columns }),
            direct: None,
            ..insert.clone()
        };
        Ok(Some((through, view)))
    }

    async fn fill_insert_stage(&mut self, insert: &InsertStaged, call: &Call) -> Result<()> {
        let stage = &insert.stage;
        let late = self.late_defaults(insert).await?;
        let definitions = late.as_ref().map_or(&stage.definitions, |late| &late.definitions);
        self.create_temp(self.sink, &stage.table, definitions).await.map_err(without_position)?;
        let sink = self.links.link(self.sink)?;
        (sink.temp, sink.gathered) = (true, true);
        let fill = self.fill_all(&insert.inputs, &insert.fill, call).await?;
        let types = stage.columns.iter().map(|column| column.type_oid);
        self.refuse_users_code_staged(&fill, types, call).await.map_err(without_position)?;
        let version = self.schema_version;
        let leased = self.links.link(self.sink)?;
        leased.start(&fill, &call.with_formats(Vec::new()), version);
        leased.flush().await?;
        let tag = leased.finish().await.map_err(|error| rename_stage(without_position(error), &insert.stage))?;
        if let Some(late) = &late {
            let rows = tag.and_then(|tag| pgproto::backend::split_command_tag(&tag).1).unwrap_or(0);
            self.add_late(insert, late, rows, call).await?;
        }
        self.statement_finished();
        Ok(())
    }

    async fn insert_from_stage(
        &mut self,
        insert: &InsertStaged,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let tail = insert.needs_insert().then_some(insert);
        let rows = self.drain_stage(&insert.stage, tail, call, output).await.map_err(without_copy_context)?;
        self.describe_nothing(insert, call, output).await?;
        self.drop_stage(&insert.stage, &insert.inputs).await?;
        Ok(Completion::Tag(format!("INSERT 0 {rows}")))
    }

    /// The columns of a RETURNING that no row has reached.
    async fn describe_nothing(&mut self, insert: &InsertStaged, call: &Call, output: &mut Output<'_>) -> Result<()> {
        if !(insert.clauses.returning && call.describe && output.wants_description()) {
            return Ok(());
        }
        let mut types = call.own_parameters(insert.parameters).types;
        types.extend(insert.stage.columns.iter().map(|column| column.type_oid));
        types.iter_mut().filter(|oid| is_node_specific(**oid)).for_each(|oid| *oid = 0);
        // In the block's own session: describing takes the lock of a writer.
        self.acquire(self.home, Mode::InBlock).await?;
        let home = self.links.link(self.home)?;
        home.start_describe(&insert.insert_sql(1), &types);
        home.flush().await?;
        if let Some(fields) = home.read_description().await?.1 {
            output.description(&fields);
        }
        Ok(())
    }

    /// Rows of an ExchangePlan, which the nodes of the query have, need no stage if they are of the target's own types; `None` if that is not so.
    async fn insert_direct(&mut self, insert: &InsertStaged, call: &Call) -> Result<Option<u64>> {
        let (Some(direct), [input]) = (&insert.direct, insert.inputs.as_slice()) else { return Ok(None) };
        let Some(exchange_plan) = &input.exchange_plan else { return Ok(None) };
        let given = self.describe_input(self.home, input, call).await.map_err(without_position)?;
        let types = direct.columns.iter().map(|column| column.type_oid);
        let same = given.columns.iter().map(|field| field.type_oid).eq(types);
        if !same
            || !has_stored_keys(direct, &given.columns)
            || direct.columns.iter().any(|column| !travels_in_binary(column.type_oid))
        {
            return Ok(None);
        }
        let poured = self.pour(exchange_plan, &direct.route, None, &direct.copy_sql, given.binary, call).await;
        poured.map(Some).map_err(|error| without_copy_context(without_position(error)))
    }

    async fn drop_stage(&mut self, stage: &Stage, inputs: &[planner::Input]) -> Result<()> {
        let mut tables = vec![format!("pg_temp.{}", quote_identifier(&stage.table))];
        tables.extend(inputs.iter().map(|input| format!("pg_temp.{}", quote_identifier(&input.table))));
        self.run_on(self.sink, &format!("DROP TABLE {}", tables.join(", "))).await?;
        Ok(())
    }

    /// Moves the rows of a filled stage table to where they belong; gives their number (as the target counts them).
    pub(crate) async fn drain_stage(
        &mut self,
        stage: &Stage,
        tail: Option<&InsertStaged>,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<u64> {
        // Rows that do not come from or go to the client can be moved in any encoding.
        let mut nodes = if tail.is_none() { slots(&stage.target.distribution.nodes()) } else { Vec::new() };
        if tail.is_none() && !nodes.contains(&self.sink) {
            nodes.push(self.sink);
        }
        let encoding = self.begin_plain_texts(&nodes).await?;
        let rows = self.drain(stage, tail, call, output).await?;
        self.end_plain_texts(&nodes, encoding).await?;
        Ok(rows)
    }

    async fn drain(
        &mut self,
        stage: &Stage,
        tail: Option<&InsertStaged>,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<u64> {
        let binary = stage.columns.iter().all(|column| travels_in_binary(column.type_oid));
        self.open_stage(&stage.read_sql(), binary).await?;
        let mut router =
            RowRouter::new(&stage.route, binary, self.links.number()).of_encoding(self.encoding_of_links());
        let (mut total, mut fetched) = (0, 0);
        loop {
            let batch = self.fetch_batch(&mut router).await?;
            let rows = batch.rows;
            if rows == 0 {
                break;
            }
            total += match tail {
                None => self.copy_batch(stage, batch, binary, fetched).await?,
                Some(insert) => self.insert_batch(insert, batch, binary, call, output).await?,
            };
            fetched += rows;
        }
        self.close_stage().await?;
        Ok(total)
    }

    /// Opens a cursor over a filled stage, for [`Session::fetch_batch`].
    pub(crate) async fn open_stage(&mut self, read_sql: &str, binary: bool) -> Result<()> {
        let kind = if binary { "BINARY " } else { "" };
        let declare = format!("DECLARE {CURSOR} {kind}NO SCROLL CURSOR FOR {read_sql}");
        self.run_on(self.sink, &declare).await.map(|_| ())
    }

    pub(crate) async fn close_stage(&mut self) -> Result<()> {
        self.run_on(self.sink, &format!("CLOSE {CURSOR}")).await.map(|_| ())
    }

    pub(crate) async fn fetch_batch(&mut self, router: &mut RowRouter<'_>) -> Result<Batch> {
        let sink = self.sink;
        let leased = self.links.link(sink)?;
        if !router.is_binary() {
            leased.queue_query(&fix());
        }
        leased.link.connection.query(format!("FETCH {BATCH_ROWS} FROM {CURSOR}").as_bytes());
        leased.flush().await?;
        let mut batch = Batch::default();
        let mut failure = None;
        loop {
            match leased.next().await? {
                Event::Done => break,
                Event::Rows(run, _) if failure.is_none() => {
                    for body in frame_bodies(&run) {
                        match router.destination(body) {
                            Ok(Destination::One(node)) => batch.push(node, body),
                            Ok(Destination::All(nodes)) => nodes.iter().for_each(|node| batch.push(*node, body)),
                            Err(error) => failure = Some(error),
                        }
                        batch.rows += 1;
                    }
                }
                _ => {}
            }
        }
        if !router.is_binary() {
            self.run_on(sink, &restore()).await?;
        }
        failure.map_or(Ok(batch), Err)
    }

    /// Gives the rows that were stored: a trigger may leave some out. An error's CONTEXT names the row by its number in the stage.
    async fn copy_batch(&mut self, stage: &Stage, mut batch: Batch, binary: bool, rows_before: u64) -> Result<u64> {
        let copy = match binary {
            true => stage.copy_sql(),
            false => stage.copy_sql().replace("(FORMAT binary)", "(FORMAT text)"),
        };
        let nodes: Vec<NodeId> = batch.per_node.keys().copied().collect();
        self.connect_to(&nodes).await?;
        for node in &nodes {
            self.acquire(*node, Mode::InBlock).await?;
        }
        let mut links = self.links.take(&nodes)?;
        let work = links.iter_mut().zip(batch.per_node.values_mut()).map(|((_, leased), part)| {
            let copy = &copy;
            async move {
                let mut lines = part.bodies.split();
                if !binary {
                    let rows = split_bodies(lines.split().freeze())?;
                    rows.iter().try_for_each(|row| put_row(row, binary, &mut lines))?;
                }
                let tag = leased.copy_whole(copy, &lines, binary).await?;
                Ok(tag.and_then(|tag| pgproto::backend::split_command_tag(&tag).1).unwrap_or(0))
            }
        });
        let results = futures_util::future::join_all(work).await;
        let stored = results.iter().flatten();
        let stored = match &stage.route {
            Route::Replicated { .. } => stored.take(1).sum(),
            _ => stored.sum(),
        };
        links.iter_mut().for_each(|(_, leased)| tell_of_insert(leased));
        self.links.put_back(links);
        if let (Route::Replicated { .. }, Some((_, others))) = (&stage.route, nodes.split_first()) {
            self.keep_trigger_events_only(others);
        }
        let row = |node, sent: u64| {
            Some(rows_before + batch.per_node.get(node)?.places.get(sent.checked_sub(1)? as usize)? + 1)
        };
        let name = &stage.target.name;
        let failures = nodes.iter().zip(results).filter_map(|(node, result)| {
            let error = result.err()?;
            Some(copyfmt::renumber(error, name, |sent| row(node, sent)))
        });
        let first = failures.min_by_key(|error| copyfmt::line_of(error, name).unwrap_or(u64::MAX));
        first.map_or(Ok(stored), Err)
    }

    async fn insert_batch(
        &mut self,
        insert: &InsertStaged,
        mut batch: Batch,
        binary: bool,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<u64> {
        let columns = insert.stage.columns.len().max(1);
        let rows_max = (INSERT_VALUES_MAX / columns).max(1);
        let replicated = matches!(insert.stage.route, Route::Replicated { .. });
        let mut total = 0;
        let mut returned = Vec::new();
        for (position, (node, part)) in batch.per_node.iter_mut().enumerate() {
            let rows = part.take_rows()?;
            let part = &*part;
            let mut kept = Spool::of(self.work_mem()).described();
            for chunk in rows.chunks(rows_max) {
                let chunk_call = self.row_parameters(insert, call, chunk, binary)?;
                let sql = insert.insert_sql(chunk.len());
                let mut output = match replicated && position > 0 {
                    // Rows of RETURNING come from the first copy only.
                    true => Output::nowhere(),
                    false => Output::spool(&mut kept),
                };
                let completion = self.scatter(Mode::InBlock, vec![(*node, sql)], &chunk_call, &mut output).await;
                let completion = completion.map_err(without_position)?;
                if replicated && position > 0 {
                    self.keep_trigger_events_only(&[*node]);
                }
                if let (Completion::Tag(tag), true) = (completion, position == 0 || !replicated) {
                    total += pgproto::backend::split_command_tag(&tag).1.unwrap_or(0);
                }
            }
            if !(replicated && position > 0) {
                returned.push(Returned { places: &part.places, rows: kept });
            }
        }
        pass_in_order(returned, output).await?;
        Ok(total)
    }

    /// The user's parameters, then the values of the rows.
    fn row_parameters(&self, insert: &InsertStaged, call: &Call, rows: &[Bytes], binary: bool) -> Result<Call> {
        let mut parameters = call.own_parameters(insert.parameters);
        for row in rows {
            let types = insert.stage.columns.iter().map(|column| column.type_oid);
            parameters.types.extend(types.map(|oid| if is_node_specific(oid) { 0 } else { oid }));
            for value in Values::of(row) {
                parameters.formats.push(i16::from(binary));
                parameters.values.push(value?.map(|value| row.slice_ref(value)));
            }
        }
        Ok(Call { parameters: Some(Arc::new(parameters)), ..call.clone() })
    }
}

/// Are the key's values already what an assignment to the columns makes of them? By PostgreSQL's own rule
/// (`coerce_type_typmod`): the column has no modifier, or the value has the same.
fn has_stored_keys(direct: &Direct, given: &[Field]) -> bool {
    direct.route.key_columns().into_iter().all(|at| match (direct.columns.get(at), given.get(at)) {
        (Some(column), Some(field)) => column.type_modifier == -1 || column.type_modifier == field.type_modifier,
        _ => false,
    })
}

/// Rows of one batch by node.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) per_node: BTreeMap<NodeId, BatchPart>,
    pub(crate) rows: u64,
}

/// The rows of one node.
#[derive(Default)]
pub(crate) struct BatchPart {
    /// DataRow bodies, one after the other.
    bodies: BytesMut,
    /// The rows' numbers (from 0) in the batch.
    places: Vec<u64>,
}

impl Batch {
    fn push(&mut self, node: NodeId, body: &[u8]) {
        let part = self.per_node.entry(node).or_default();
        part.bodies.put_slice(body);
        part.places.push(self.rows);
    }
}

impl BatchPart {
    /// Takes the rows out.
    pub(crate) fn take_rows(&mut self) -> Result<Vec<Bytes>> {
        split_bodies(self.bodies.split().freeze())
    }
}

/// The user wrote INSERT; that the rows went by COPY is our business.
pub(crate) fn without_copy_context(error: PgError) -> PgError {
    let context = error.get(pgerror::field::WHERE).unwrap_or_default();
    match context.iter().rposition(|byte| *byte == b'\n') {
        // What a trigger says comes from within it.
        Some(end) if context[end + 1..].starts_with(b"COPY ") => {
            let within = context[..end].to_vec();
            error.with(pgerror::field::WHERE, within)
        }
        None if context.starts_with(b"COPY ") => error.without(pgerror::field::WHERE),
        _ => error,
    }
}

/// Takes COPY out of the notices that triggers have sent meanwhile.
fn tell_of_insert(leased: &mut LeasedConnection) {
    let told = |frame: Frame| {
        let mut body = BytesMut::new();
        without_copy_context(PgError::decode_body(frame.body)).encode_body(&mut body);
        Frame { tag: frame.tag, body: body.freeze() }
    };
    let notices = leased.link.connection.take_notices();
    let told = notices.into_iter().map(|frame| if is_trigger_event(&frame) { frame } else { told(frame) });
    leased.link.connection.put_back_notices(told.collect());
}
