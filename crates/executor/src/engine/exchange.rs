//! Exchanges: rows of a fragment go from the nodes that make them to temp tables on the nodes that need them.
//!
//! One session a node does all of a statement's work there, in one REPEATABLE READ transaction that is rolled back at the
//! end: what it reads is one snapshot, and its temp tables are gone afterwards. A session cannot send rows and take some
//! at the same time, so an exchange goes in rounds: every source gives a batch ([`BATCH_BYTES`] or so) from an open
//! portal, then every target takes what is meant for it as one binary COPY. All sources work at the same time, then all
//! targets; memory is bounded by a batch of each source.
//!
//! A row is looked into only for its key (see [`staged`](crate::dml::staged)).

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use catalog::{NodeId, quote_identifier};
use pgerror::{PgError, Result};
use pgproto::backend::Field;
use pgproto::frontend::{self, Bind};
use planner::{Exchange, ExchangePlan, Index, Plan, Route};

use crate::backend::call::Call;
use crate::backend::call::travels_in_binary;
use crate::backend::leased::LeasedConnection;
use crate::backend::links::LinkSet;
use crate::backend::request::Event;
use crate::backend::request::frame_bodies;
use crate::backend::slot::{Slot, slots};
use crate::block::Mode;
use crate::block::suspended::SuspendedTransaction;
use crate::block::table_locks::Locks;
use crate::engine::fixed_text::{restore, travelling};
use crate::engine::gather::{BINARY_HEADER, BINARY_TRAILER, FRAME_BYTES, Moved, text_line, without_position};
use crate::engine::output::Output;
use crate::engine::row_router::Destination;
use crate::engine::row_router::RowRouter;
use crate::engine::run::Completion;
use crate::engine::temp::own_temp::TempAs;
use crate::session::Session;

/// What a source gives in one round, about.
const BATCH_BYTES: usize = 8 << 20;
/// Rows of the first round, if their types do not say how large they may be; each later one may have so many times more.
pub(crate) const FIRST_BATCH_ROWS: usize = 2_000;
const BATCH_GROWTH: usize = 8;
const BATCH_ROWS_MIN: usize = 100;
const BATCH_ROWS_MAX: usize = 200_000;

const PORTAL: &[u8] = b"loxo_exchange";

impl Session {
    /// See [`ExchangePlan`].
    pub(crate) async fn exchange_plan(
        &mut self,
        exchange_plan: &ExchangePlan,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let call = Call { one_off: true, ..call.clone() };
        let mut ready = self.begin_exchange_plan(exchange_plan, &call).await?;
        let result = match self.up_to_last(exchange_plan, &mut ready, &call).await {
            Ok((nodes, sql)) => {
                let parts = nodes.into_iter().map(|node| (node, sql.clone())).collect();
                self.scatter(Mode::InBlock, parts, &call, output).await.map_err(without_position)
            }
            Err(error) => Err(error),
        };
        self.end_read(ready.read).await;
        result
    }

    /// Makes the temp table of an exchange on all nodes and fills it; gives its columns and what each source gave.
    pub(crate) async fn exchange(
        &mut self,
        exchange: &Exchange,
        exchange_plan: &ExchangePlan,
        filled: &[Vec<Field>],
        call: &Call,
    ) -> Result<(Vec<Field>, Vec<Moved>)> {
        let sql = self.fragment_text(exchange, filled).await?;
        let columns = self.describe_fragment(exchange, &sql, call).await?;
        let binary = columns.iter().all(|column| travels_in_binary(column.type_oid));

        // What one node alone gets stays where it is if that node makes it.
        let stays = match &exchange.route {
            Route::Single { node } if exchange.nodes.contains(node) => Some(Slot::from(*node)),
            _ => None,
        };
        let started = self.start_temp_as(&exchange_plan.nodes, &temp_as(exchange, &sql, &columns), stays, call).await?;
        let sources: Vec<NodeId> =
            exchange.nodes.iter().copied().filter(|node| stays.is_none_or(|stays| stays != *node)).collect();
        let types = call.fragment_types(&sql);
        let row_call = call.with_formats(vec![i16::from(binary)]);
        // Bounds are those of binary forms.
        let first = if binary { first_batch(&columns) } else { FIRST_BATCH_ROWS };
        let sent = travelling(&sql, binary);
        for node in &sources {
            open_portal(self.links.link(*node)?, &sent, &types, &row_call, first);
        }
        for node in sources.iter().filter(|node| !started.contains(&Slot::from(**node))) {
            self.links.link(*node)?.flush().await?;
        }
        // The sources work while the node that keeps its own part makes it.
        let made = self.links.finish_all(&started).await?;
        let format = if binary { "binary" } else { "text" };
        let copy = format!("COPY pg_temp.{} FROM STDIN (FORMAT {format})", quote_identifier(&exchange.table));
        let then = self.after_fill_sql(&exchange.table, &exchange.indexes, exchange.is_analysed).await?;
        let to =
            Target { copy: &copy, then: (!then.is_empty()).then_some((&exchange_plan.nodes, then)), first, at: None };
        let mut moved = self.move_rows(slots(&sources), &exchange.route, binary, &to, None).await?;
        let stayed = started.iter().zip(&made).filter(|(node, _)| stays == Some(**node));
        moved.extend(stayed.map(|(node, tag)| Moved::stayed(node.node(), tag.as_deref())));
        Ok((columns, moved))
    }

    /// The temp table of an exchange on all nodes, empty, so that what reads it can be explained.
    pub(crate) async fn exchange_without_rows(
        &mut self,
        exchange: &Exchange,
        exchange_plan: &ExchangePlan,
        filled: &[Vec<Field>],
        call: &Call,
    ) -> Result<(Vec<Field>, Vec<Moved>)> {
        let sql = self.fragment_text(exchange, filled).await?;
        let columns = self.describe_fragment(exchange, &sql, call).await?;
        let started = self.start_temp_as(&exchange_plan.nodes, &temp_as(exchange, &sql, &columns), None, call).await?;
        self.links.finish_all(&started).await?;
        Ok((columns, Vec::new()))
    }

    async fn describe_fragment(&mut self, exchange: &Exchange, sql: &str, call: &Call) -> Result<Vec<Field>> {
        let first = exchange.nodes.first().copied().ok_or_else(|| PgError::internal("an exchange without a source"))?;
        let leased = self.links.link(first)?;
        leased.start_describe(sql, &call.fragment_types(sql));
        leased.flush().await?;
        Ok(leased.read_description().await?.1.unwrap_or_default())
    }

    /// Queues a statement without rows on each of these nodes.
    pub(crate) fn start_on(&mut self, nodes: &[impl Copy + Into<Slot>], sql: &str, call: &Call) -> Result<()> {
        let (call, version) = (call.with_formats(Vec::new()), self.catalog_version);
        nodes.iter().try_for_each(|node| {
            self.links.link(*node)?.start(sql, &call, version);
            Ok(())
        })
    }

    /// The fragment with the type markers of what it reads replaced.
    pub(crate) async fn fragment_text(&mut self, exchange: &Exchange, filled: &[Vec<Field>]) -> Result<String> {
        if exchange.sql.types.is_empty() {
            return Ok(exchange.sql.text.clone());
        }
        let inputs: Vec<&[Field]> =
            exchange.inputs.iter().map(|at| filled.get(*at).map(Vec::as_slice).unwrap_or_default()).collect();
        self.resolve_types(&exchange.sql, &inputs).await
    }

    /// Indexes and statistics; on all nodes, since a plan may ask any of them.
    pub(crate) async fn after_fill(
        &mut self,
        table: &str,
        indexes: &[Index],
        exchange_plan: &ExchangePlan,
    ) -> Result<()> {
        let sql = self.after_fill_sql(table, indexes, true).await?;
        for node in &exchange_plan.nodes {
            self.links.link(*node)?.link.connection.query(sql.as_bytes());
        }
        self.links.finish_all(&exchange_plan.nodes).await.map(|_| ())
    }

    /// Nothing, or what every node does when it has all rows of an exchange.
    async fn after_fill_sql(&mut self, table: &str, indexes: &[Index], is_analysed: bool) -> Result<String> {
        let name = quote_identifier(table);
        let indexes = if self.makes_temp(self.home).await? { indexes } else { &[] };
        let analyze = is_analysed.then(|| format!("ANALYZE pg_temp.{name}"));
        Ok(indexes.iter().map(|index| index.create_sql(&name)).chain(analyze).collect::<Vec<_>>().join("; "))
    }

    /// Empties the portals of `sources`, the first batch of which is on its way, into tables of the same sessions or of those
    /// that rest; gives what each source gave.
    pub(crate) async fn move_rows(
        &mut self,
        mut sources: Vec<Slot>,
        route: &Route,
        binary: bool,
        to: &Target<'_>,
        mut resting: Option<&mut SuspendedTransaction>,
    ) -> Result<Vec<Moved>> {
        let mut router = RowRouter::new(route, binary, self.links.number()).of_encoding(self.foreign_encoding());
        let (mut asked, mut batch_rows) = (None, to.first);
        let mut moved: Vec<Moved> = sources.iter().map(|node| Moved::nothing(node.node())).collect();
        let all_sources = sources.clone();
        loop {
            let (batches, open) = self.fetch(&sources, asked).await?;
            let mut partitions = PartitionBuffers::new(binary);
            for (node, run) in &batches {
                let before = (partitions.rows, partitions.bytes);
                partitions.add(run, &mut router)?;
                let counts = moved.iter_mut().filter(|moved| moved.node == node.node());
                counts.for_each(|moved| moved.add(partitions.rows - before.0, partitions.bytes - before.1));
            }
            batch_rows = partitions.rows_for(BATCH_BYTES).min(batch_rows * BATCH_GROWTH);
            asked = Some(batch_rows);
            let leased = match resting.as_deref_mut() {
                None => &mut *self.links,
                Some(aside) => aside.links.links(),
            };
            deliver(leased, to, &partitions, open.is_empty()).await?;
            if open.is_empty() {
                if !binary {
                    self.links.broadcast(&all_sources, &restore()).await?;
                }
                return Ok(moved);
            }
            sources = open;
        }
    }

    /// The next rows of every open portal (those asked for already if no number is given), and the nodes whose portals
    /// have more.
    async fn fetch(&mut self, sources: &[Slot], rows: Option<usize>) -> Result<Batches> {
        let mut links = self.links.take(sources)?;
        let work = links.iter_mut().map(|(_, leased)| async {
            if let Some(rows) = rows {
                frontend::execute(leased.link.connection.out(), PORTAL, rows as i32);
                leased.link.connection.sync();
                leased.flush().await?;
            }
            read_batch(leased).await
        });
        let results = futures_util::future::join_all(work).await;
        self.links.put_back(links);
        let (mut runs, mut open) = (Vec::new(), Vec::new());
        for (node, result) in sources.iter().zip(results) {
            let (batch, ended) = result?;
            runs.extend(batch.into_iter().map(|run| (*node, run)));
            if !ended {
                open.push(*node);
            }
        }
        Ok((runs, open))
    }
}

/// Where moved rows go, and how.
pub(crate) struct Target<'a> {
    pub(crate) copy: &'a str,
    /// Nodes and what they do once they have all rows.
    pub(crate) then: Option<(&'a [NodeId], String)>,
    /// Rows that each source has been asked for first.
    pub(crate) first: usize,
    /// Which session on the one node of the route gets them, if not the node's own.
    pub(crate) at: Option<Slot>,
}

/// As many rows as make a batch, if no row of these types can be so large that they would make more.
fn first_batch(columns: &[Field]) -> usize {
    match columns.iter().map(bytes_at_most).sum::<Option<usize>>() {
        Some(bytes) => (BATCH_BYTES / bytes.max(1)).clamp(FIRST_BATCH_ROWS, BATCH_ROWS_MAX),
        None => FIRST_BATCH_ROWS,
    }
}

/// What a value takes in a row, with its length, if its type sets a bound.
fn bytes_at_most(column: &Field) -> Option<usize> {
    const LENGTH: usize = 4;
    /// `VARHDRSZ`, which length modifiers include.
    const HEADER: i32 = 4;
    let modifier = column.type_modifier.checked_sub(HEADER).and_then(|modifier| usize::try_from(modifier).ok());
    let size = match (usize::try_from(column.type_size), column.type_oid) {
        (Ok(size), _) => size,
        // char(n) and varchar(n): a character may have four bytes.
        (_, 1042 | 1043) => modifier? * 4,
        // numeric(p, s): four digits in two bytes, after a header.
        (_, 1700) => (modifier? >> 16) + 16,
        _ => return None,
    };
    Some(LENGTH + size)
}

/// One COPY for each node that gets rows, all at once; with the last one comes what is to be done afterwards.
async fn deliver(links: &mut LinkSet, to: &Target<'_>, partitions: &PartitionBuffers, is_last: bool) -> Result<()> {
    let then = to.then.as_ref().filter(|_| is_last);
    let mut nodes = partitions.targets();
    nodes.extend(then.iter().flat_map(|(nodes, _)| nodes.iter()));
    nodes.sort_unstable();
    nodes.dedup();
    let slots: Vec<Slot> = nodes.into_iter().map(|node| to.at.unwrap_or(node.into())).collect();
    let mut taken = links.take(&slots)?;
    let work = taken.iter_mut().map(|(slot, leased)| async {
        let rows = partitions.of(slot.node());
        if !rows.is_empty() {
            queue_partition(leased, to.copy, rows, partitions.binary).await?;
        }
        if let Some((_, sql)) = then {
            leased.link.connection.query(sql.as_bytes());
        }
        leased.flush().await?;
        let copied = if rows.is_empty() { Ok(()) } else { read_copied(leased).await };
        let done = if then.is_some() { leased.finish().await.map(|_| ()) } else { Ok(()) };
        copied.and(done)
    });
    let results = futures_util::future::join_all(work).await;
    links.put_back(taken);
    results.into_iter().collect()
}

/// Runs of rows and the nodes they come from, and the nodes that have more.
type Batches = (Vec<(Slot, Bytes)>, Vec<Slot>);

fn temp_as<'a>(exchange: &'a Exchange, sql: &'a str, fields: &'a [Field]) -> TempAs<'a> {
    TempAs { table: &exchange.table, columns: exchange.columns.clone(), fields, sql, indexes: &exchange.indexes }
}

/// The tables that the fragments read.
pub(crate) fn locks_of(exchange_plan: &ExchangePlan) -> Locks {
    let last: Vec<&str> = match &exchange_plan.last {
        Plan::Gather(gather) => gather.inputs.iter().map(|input| input.sql.as_str()).collect(),
        Plan::Scatter(scatter) => vec![&scatter.sql],
        Plan::Forward(forward) => vec![&forward.sql],
        // Refused when it is run.
        _ => Vec::new(),
    };
    let fragments = exchange_plan.exchanges.iter().map(|exchange| exchange.sql.text.as_str());
    let made = exchange_plan.exchanges.iter().map(|exchange| exchange.table.as_str());
    let made = made.chain(exchange_plan.local_copies.iter().map(|local_copy| local_copy.table.as_str()));
    Locks::of(None, fragments.chain(last)).without(made)
}

/// Queues the opening of a portal and the first batch of its rows.
pub(crate) fn open_portal(leased: &mut LeasedConnection, sql: &str, types: &[u32], call: &Call, first: usize) {
    let parameters = call.parameters.as_deref().cloned().unwrap_or_default();
    let out = leased.link.connection.out();
    frontend::parse(out, b"", sql.as_bytes(), types);
    let bind = Bind {
        portal: Bytes::from_static(PORTAL),
        statement: Bytes::new(),
        parameter_formats: parameters.formats,
        parameters: parameters.values,
        result_formats: call.result_formats.clone(),
    };
    frontend::bind(out, &bind);
    frontend::execute(out, PORTAL, first as i32);
    leased.link.connection.sync();
}

/// Rows up to ReadyForQuery; the second value says that the portal is at its end.
async fn read_batch(leased: &mut LeasedConnection) -> Result<(Vec<Bytes>, bool)> {
    let (mut runs, mut ended) = (Vec::new(), false);
    loop {
        match leased.next().await? {
            Event::Rows(run, _) => runs.push(run),
            Event::Complete(_) | Event::Empty => ended = true,
            Event::Suspended => {}
            Event::Done => break,
            other => return Err(PgError::protocol(format!("unexpected answer {other:?} to a fragment"))),
        }
    }
    if ended {
        // The next exchange opens a portal of the same name.
        frontend::close(leased.link.connection.out(), frontend::Target::Portal, PORTAL);
    }
    Ok((runs, ended))
}

/// A whole COPY at once: if the backend refuses it, it drops the rows.
async fn queue_partition(leased: &mut LeasedConnection, copy: &str, rows: &[u8], binary: bool) -> Result<()> {
    leased.link.connection.query(copy.as_bytes());
    if binary {
        send(leased, BINARY_HEADER).await?;
    }
    let mut rest = rows;
    while !rest.is_empty() {
        let (frame, later) = rest.split_at(rest.len().min(FRAME_BYTES));
        send(leased, frame).await?;
        rest = later;
    }
    if binary {
        send(leased, &BINARY_TRAILER).await?;
    }
    frontend::copy_done(leased.link.connection.out());
    Ok(())
}

async fn read_copied(leased: &mut LeasedConnection) -> Result<()> {
    loop {
        match leased.next().await? {
            Event::CopyIn(_) | Event::Complete(_) => {}
            Event::Done => return Ok(()),
            other => return Err(PgError::protocol(format!("unexpected answer {other:?} to COPY"))),
        }
    }
}

async fn send(leased: &mut LeasedConnection, bytes: &[u8]) -> Result<()> {
    leased.link.connection.out().extend_from_slice(&frontend::copy_data_header(bytes.len()));
    leased.link.connection.write_through(bytes).await
}

/// A round's rows, sorted by where they go.
struct PartitionBuffers {
    binary: bool,
    /// For single nodes.
    own: BTreeMap<NodeId, BytesMut>,
    /// For all of these nodes.
    common: (Vec<NodeId>, BytesMut),
    rows: usize,
    bytes: usize,
}

impl PartitionBuffers {
    fn new(binary: bool) -> Self {
        Self { binary, own: Default::default(), common: (Vec::new(), BytesMut::new()), rows: 0, bytes: 0 }
    }

    fn add(&mut self, run: &Bytes, router: &mut RowRouter<'_>) -> Result<()> {
        for body in frame_bodies(run) {
            self.rows += 1;
            self.bytes += body.len();
            let buffer = match router.destination(body)? {
                Destination::One(node) => self.own.entry(node).or_default(),
                Destination::All(nodes) => {
                    if self.common.0.is_empty() {
                        self.common.0 = nodes.to_vec();
                    }
                    &mut self.common.1
                }
            };
            match self.binary {
                true => buffer.extend_from_slice(body),
                false => text_line(body, buffer)?,
            }
        }
        Ok(())
    }

    /// How many rows like these make up so many bytes.
    fn rows_for(&self, bytes: usize) -> usize {
        let row_bytes = self.bytes.checked_div(self.rows).unwrap_or(0).max(1);
        (bytes / row_bytes).clamp(BATCH_ROWS_MIN, BATCH_ROWS_MAX)
    }

    fn targets(&self) -> Vec<NodeId> {
        if self.common.0.is_empty() { self.own.keys().copied().collect() } else { self.common.0.clone() }
    }

    fn of(&self, node: NodeId) -> &[u8] {
        if self.common.0.is_empty() { self.own.get(&node).map(|b| &b[..]).unwrap_or_default() } else { &self.common.1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(keys: impl Iterator<Item = i64>) -> Bytes {
        let mut rows = BytesMut::new();
        for key in keys {
            pgproto::backend::data_row(&mut rows, [Some(&key.to_be_bytes()[..])].into_iter());
        }
        rows.freeze()
    }

    #[test]
    fn a_repartitioned_row_is_in_one_parcel_and_a_broadcast_one_in_all() {
        let map = std::sync::Arc::new(placement::BucketMap::round_robin(&[0, 1]));
        let nodes = vec![NodeId(0), NodeId(1)];
        let key = vec![(planner::KeySource::Column(0), placement::KeyType::Int8)];
        let hash = Route::Hash { key, map, nodes: nodes.clone() };
        let mut partitions = PartitionBuffers::new(true);
        partitions.add(&run(0..1000), &mut RowRouter::new(&hash, true, 0)).unwrap();
        let row_bytes = 2 + 4 + 8;
        let sizes: Vec<usize> = nodes.iter().map(|node| partitions.of(*node).len()).collect();
        assert_eq!(sizes.iter().sum::<usize>(), 1000 * row_bytes);
        assert!(sizes.iter().all(|size| *size > 300 * row_bytes), "{sizes:?}");

        let all = Route::Replicated { nodes: nodes.clone() };
        let mut partitions = PartitionBuffers::new(true);
        partitions.add(&run(0..10), &mut RowRouter::new(&all, true, 0)).unwrap();
        assert!(nodes.iter().all(|node| partitions.of(*node).len() == 10 * row_bytes));
        assert_eq!(partitions.targets(), nodes);
    }

    #[test]
    fn the_first_batch_is_as_large_as_the_types_allow() {
        let column = |type_oid, type_size, type_modifier| Field {
            name: Bytes::new(),
            table_oid: 0,
            column_number: 0,
            type_oid,
            type_size,
            type_modifier,
            format: 1,
        };
        let (int8, text) = (column(20, 8, -1), column(25, -1, -1));
        let (phone, balance) = (column(1042, -1, 15 + 4), column(1700, -1, (15 << 16) + 2 + 4));
        assert_eq!(first_batch(&[int8.clone(), phone.clone(), balance]), BATCH_BYTES / (12 + 64 + 35));
        assert_eq!(first_batch(&[int8.clone(), text]), FIRST_BATCH_ROWS);
        assert_eq!(first_batch(&[int8.clone(), column(1700, -1, -1)]), FIRST_BATCH_ROWS);
        assert_eq!(first_batch(&[int8]), BATCH_ROWS_MAX);
        assert_eq!(first_batch(&[column(1043, -1, 10_000_000 + 4)]), FIRST_BATCH_ROWS);
    }
}
