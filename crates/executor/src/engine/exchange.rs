//! Exchanges: rows of a fragment go from the nodes that make them to temp tables on the nodes that need them.
//!
//! One session a node does all of a statement's work there, in one REPEATABLE READ transaction that is rolled back at the
//! end: what it reads is one snapshot, and its temp tables are gone afterwards. The rows go by the [mover](crate::engine::mover),
//! batch by batch from open portals where a node gives rows and takes some.

use bytes::Bytes;
use catalog::{NodeId, quote_identifier};
use pgerror::{PgError, Result};
use pgproto::backend::Field;
use pgproto::frontend::{self, Bind};
use planner::{Exchange, ExchangePlan, Index, Plan, Route};

use crate::backend::call::Call;
use crate::backend::call::travels_in_binary;
use crate::backend::leased::LeasedConnection;
use crate::backend::slot::Slot;
use crate::block::Mode;
use crate::block::table_locks::Locks;
use crate::engine::fixed_text::{restore, travelling};
use crate::engine::gather::without_position;
use crate::engine::mover::rows::copy_into;
use crate::engine::mover::{BATCH_BYTES, BATCH_ROWS_MAX, Delivery, Gives, Moved, PORTAL, Worker, move_rows};
use crate::engine::output::Output;
use crate::engine::row_router::{RowRouter, nodes_of};
use crate::engine::run::Completion;
use crate::engine::temp::own_temp::TempAs;
use crate::session::Session;

/// Rows of the first batch, if their types do not say how large they may be.
const FIRST_BATCH_ROWS: usize = 2_000;

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
        let targets = nodes_of(&exchange.route);
        // Bounds are those of binary forms. A node that only gives is asked for all rows.
        let batch = if binary { first_batch(&columns) } else { FIRST_BATCH_ROWS };
        let first = |node: &NodeId| if targets.contains(node) { batch } else { 0 };
        let sent = travelling(&sql, binary);
        for node in &sources {
            open_portal(self.links.link(*node)?, &sent, &types, &row_call, first(node));
        }
        for node in sources.iter().filter(|node| !started.contains(&Slot::from(**node))) {
            self.links.link(*node)?.flush().await?;
        }
        // The sources work while the node that keeps its own part makes it.
        let made = self.links.finish_all(&started).await?;
        let then = self.after_fill_sql(&exchange.table, &exchange.indexes, exchange.is_analysed).await?;
        let to = Delivery {
            copy: &copy_into(&quote_identifier(&exchange.table), binary),
            at_once: false,
            then: (!then.is_empty()).then_some((&exchange_plan.nodes, then)),
        };
        let router = RowRouter::new(&exchange.route, binary, self.links.number()).of_encoding(self.encoding_of_links());
        let mut links = self.links.take(&exchange_plan.nodes)?;
        let workers = links.iter_mut().map(|(slot, leased)| {
            let node = slot.node();
            let gives = if sources.contains(&node) { Gives::Portal(first(&node)) } else { Gives::Nothing };
            Worker { node, leased, gives, takes: targets.contains(&node) }
        });
        let moved = move_rows(workers.collect(), router, &to).await;
        self.links.put_back(links);
        let mut moved = moved?;
        if !binary {
            self.links.broadcast(&sources, &restore()).await?;
        }
        let stayed = started.iter().zip(&made).filter(|(node, _)| stays == Some(**node));
        self.count_moved(&moved);
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
        let (call, version) = (call.with_formats(Vec::new()), self.schema_version);
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

fn temp_as<'a>(exchange: &'a Exchange, sql: &'a str, fields: &'a [Field]) -> TempAs<'a> {
    TempAs {
        table: &exchange.table,
        columns: exchange.columns.clone(),
        fields,
        sql,
        indexes: &exchange.indexes,
        receives: true,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
