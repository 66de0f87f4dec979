//! SELECT … FOR UPDATE over rows of several nodes: see [`planner::Locked`].
//!
//! ```text
//!  query without locks, under a global snapshot ─ rows and their addresses ─ lock by address, in order ─ all as they were? ─ client
//!         ▲                                                                                    │ no: READ COMMITTED
//!         └────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! What is locked cannot change any more. So once every row has been locked as it was found, the answer is that of one state of
//! all nodes, the global snapshot's, which PostgreSQL could have given. In READ COMMITTED, PostgreSQL would look at the newest version of a row
//! that was changed meanwhile; here all rows are found anew, so that one that has moved to another node is not lost. The locks
//! of the round before stay. In REPEATABLE READ a changed row is PostgreSQL's own error (40001).
//!
//! Invariants: no more rows are locked than LIMIT and OFFSET ask for, but for those of a round that is repeated; nothing goes to the client before
//! all its rows are locked.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use catalog::{NodeId, Relation};
use pgerror::{PgError, Result, SqlState};
use pgproto::backend::{self, Field};
use planner::{LockTarget, LockWait, Locked, LockedBy};

use crate::backend::call::Call;
use crate::backend::isolation::Isolation;
use crate::backend::request::frame_bodies;
use crate::backend::slot::Slot;
use crate::block::Mode;
use crate::engine::gather::without_position;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::engine::spool::Spool;
use crate::session::Session;

/// Rounds before the statement fails.
const ROUNDS_MAX: usize = 100;
/// Rounds in which rows that are gone, and might only have been changed, are looked for anew.
const SKIPPING_ROUNDS_MAX: usize = 5;
/// Rows that one text locks.
const BATCH_ROWS: usize = 1000;

/// The number of a row, and what it was when it was found.
type Numbered<'p> = (usize, &'p str);

/// What a round has found.
struct Found {
    fields: Option<Vec<Field>>,
    rows: Spool,
    /// For each row the places of its parts, one for each target.
    places: Vec<Vec<String>>,
}

/// How a round ended.
struct Round {
    /// Numbers of the rows that are locked.
    kept: Vec<usize>,
    /// Rows that others had locked, or that are gone.
    missed: Vec<usize>,
    /// A row was not what it was when it was found.
    is_changed: bool,
}

impl Session {
    /// See the module's page.
    pub(crate) async fn locked(&mut self, locked: &Locked, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        if self.is_read_only() {
            let strength = locked.targets.first().map_or("UPDATE", |target| target.strength);
            let message = format!("cannot execute SELECT FOR {strength} in a read-only transaction");
            return Err(PgError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        if self.in_block() {
            return self.lock_in_block(locked, call, output).await;
        }
        self.begin_own(Isolation::ReadCommitted, Vec::new(), false);
        let worked = self.lock_in_block(locked, call, output).await;
        let worked = self.with_checked_plan(worked).await;
        // The locks are all that it leaves.
        self.rollback().await;
        worked
    }

    async fn lock_in_block(&mut self, locked: &Locked, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        self.check_rights(Some(&locked.original), call).await?;
        let lent = self.lend_places(&locked.targets).await?;
        let completion = self.lock_in_rounds(locked, call, output).await?;
        for (table, lent) in lent {
            self.take_address_back(&table, lent).await?;
        }
        Ok(completion)
    }

    /// Places of rows are shown to nobody who has rights on some columns only. For that, a table's rights are changed, which one transaction
    /// does at a time: a statement that must not wait is refused.
    async fn lend_places(&mut self, targets: &[LockTarget]) -> Result<Vec<(Arc<Relation>, Vec<(NodeId, String)>)>> {
        let loaded = self.catalog().await?;
        let mut lent = Vec::new();
        for target in targets {
            let name = target.name();
            let mut granted = loaded.catalog.relations().filter(|table| loaded.catalog.has_column_grants(table.oid));
            let Some(table) = granted.find(|table| table.qualified_name() == name).cloned() else { continue };
            let may = format!("SELECT pg_catalog.has_table_privilege({}, 'SELECT')", catalog::quote_literal(name));
            if self.rows_on(self.home, &may).await?.first().and_then(|row| row.first()?.as_deref()) == Some(b"t") {
                continue;
            }
            if target.wait != LockWait::Block || !matches!(target.by, LockedBy::Address { .. }) {
                let what = format!("this row lock by a role with rights on some columns of table \"{}\"", table.name);
                return Err(PgError::unsupported(what).hint("GRANT SELECT on the table, or lock rows of one datanode."));
            }
            let address = self.lend_address(&table).await?;
            lent.push((table, address));
        }
        Ok(lent)
    }

    /// Has nobody rights on some columns only of these tables, who could not read where rows are?
    pub async fn may_show_places(&mut self, targets: &[LockTarget]) -> Result<bool> {
        let loaded = self.catalog().await?;
        let mut granted = loaded.catalog.relations().filter(|table| loaded.catalog.has_column_grants(table.oid));
        Ok(!granted.any(|table| targets.iter().any(|target| target.name() == table.qualified_name())))
    }

    async fn lock_in_rounds(&mut self, locked: &Locked, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        let offset = self.row_count(locked.offset.as_deref(), "OFFSET", b"2201X", call).await?.unwrap_or(0);
        let limit = self.row_count(locked.limit.as_deref(), "LIMIT", b"2201W", call).await?;
        let wanted = limit.map(|limit| limit.saturating_add(offset));
        let (mut all, mut skipping) = (false, 0);
        for _ in 0..ROUNDS_MAX {
            let plan = if all { locked.all.as_ref().unwrap_or(&locked.query) } else { &locked.query };
            let found = self.find(plan, locked, call).await?;
            self.statement_finished();
            let round = self.lock_found(&locked.targets, &found.places, wanted).await?;
            self.statement_finished();
            let is_short = wanted.is_none_or(|wanted| round.kept.len() < wanted);
            let is_cut = wanted.is_some_and(|wanted| found.places.len() >= wanted.saturating_add(locked.spare));
            if round.is_changed {
                continue;
            }
            if is_short && is_cut && locked.all.is_some() && !all {
                all = true;
                continue;
            }
            if is_short && skipping < SKIPPING_ROUNDS_MAX && self.are_gone(&locked.targets, &found, &round).await? {
                skipping += 1;
                continue;
            }
            return send(found, &round.kept[offset.min(round.kept.len())..], call, output).await;
        }
        let message = "could not lock the rows of several datanodes, which others go on changing";
        Err(PgError::new(SqlState::SERIALIZATION_FAILURE, message).hint("Run the statement again."))
    }

    /// The number after LIMIT or OFFSET.
    async fn row_count(&mut self, sql: Option<&str>, what: &str, code: &[u8; 5], call: &Call) -> Result<Option<usize>> {
        let Some(sql) = sql else { return Ok(None) };
        if let Ok(number) = sql.parse() {
            return Ok(Some(number));
        }
        let mut spool = Spool::default();
        let call = Call { one_off: true, ..call.with_formats(vec![0]) };
        let part = vec![(self.home, format!("SELECT CAST(({sql}) AS pg_catalog.int8)"))];
        self.scatter(Mode::InBlock, part, &call, &mut Output::spool(&mut spool)).await.map_err(without_position)?;
        let value = spool.into_rows()?.1.into_iter().flatten().flatten().next();
        let Some(value) = value else { return Ok(None) };
        let number: i64 = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok()).unwrap_or(i64::MAX);
        usize::try_from(number).map(Some).map_err(|_| {
            let code = SqlState::from_bytes(code).unwrap_or(SqlState::INVALID_PARAMETER_VALUE);
            PgError::new(code, format!("{what} must not be negative"))
        })
    }

    /// The rows, without locks.
    async fn find(&mut self, plan: &planner::Plan, locked: &Locked, call: &Call) -> Result<Found> {
        let targets = locked.targets.len();
        let mut spool = Spool::of(self.work_mem()).described();
        let call = with_text_columns(call, targets);
        Box::pin(self.dispatch(plan, &call, &mut Output::spool(&mut spool))).await.map_err(without_position)?;
        Found::of(spool, targets, locked.keeps_places, Spool::of(self.work_mem()))
    }

    /// Rows of a cursor that has the places of its rows as last columns: passes them on without these, which it gives; none of
    /// them for MOVE.
    pub async fn fetch_placed(
        &mut self,
        slot: Slot,
        sql: &str,
        columns: usize,
        is_move: bool,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Vec<Vec<String>>> {
        let mut spool = Spool::of(self.work_mem()).described();
        let with = with_text_columns(call, columns);
        let part = vec![(slot, sql.to_owned())];
        let fetched = self.scatter(self.mode(), part, &with, &mut Output::spool(&mut spool)).await;
        self.release();
        fetched?;
        let mut found = Found::of(spool, columns, false, Spool::of(self.work_mem()))?;
        let places = std::mem::take(&mut found.places);
        if !is_move {
            let all: Vec<usize> = (0..places.len()).collect();
            send(found, &all, call, output).await?;
        }
        Ok(places)
    }

    /// The text values of columns of the row that was at a place, as it is now; `None` if it is gone.
    pub async fn row_at(
        &mut self,
        target: &LockTarget,
        place: &str,
        columns: &[String],
    ) -> Result<Option<Vec<Option<Bytes>>>> {
        let (node, of_table, is) = parse(target, place)?;
        let table = of_table.unwrap_or_else(|| target.name());
        let address = is.split_once(' ').map_or(is, |(address, _)| address);
        // PostgreSQL follows the row from version to version, as it does for a cursor's own.
        let sql = format!(
            "SELECT {} FROM ONLY {table} AS loxo_l WHERE loxo_l.ctid = (SELECT pg_catalog.currtid2({}, {}))",
            columns.iter().map(|column| format!("loxo_l.{column}::pg_catalog.text")).collect::<Vec<_>>().join(", "),
            catalog::quote_literal(table),
            catalog::quote_literal(address)
        );
        self.acquire(node, Mode::InBlock).await?;
        self.causality.touch(node);
        let rows = self.rows_on(node, &sql).await.map_err(without_position)?;
        Ok(rows.into_iter().next())
    }

    /// Locks as many rows as are wanted, in order; all of them node after node.
    async fn lock_found(
        &mut self,
        targets: &[LockTarget],
        places: &[Vec<String>],
        wanted: Option<usize>,
    ) -> Result<Round> {
        let mut round = Round { kept: Vec::new(), missed: Vec::new(), is_changed: false };
        let mut at = 0;
        while at < places.len() && wanted.is_none_or(|wanted| round.kept.len() < wanted) {
            let count = wanted.map_or(places.len(), |wanted| wanted - round.kept.len());
            let end = places.len().min(at.saturating_add(count));
            let mut rows: Vec<usize> = (at..end).collect();
            for (number, target) in targets.iter().enumerate() {
                let there = self.at_places(target, number, places, &rows, true).await?;
                let (kept, missed): (Vec<usize>, Vec<usize>) = rows.iter().partition(|row| there.contains(row));
                if target.wait != LockWait::Skip && !missed.is_empty() {
                    // What is still there, and not to be locked, is what a policy forbids.
                    round.is_changed |= !target.has_policies
                        || self.at_places(target, number, places, &missed, false).await?.len() < missed.len();
                }
                round.missed.extend(missed);
                rows = kept;
            }
            if round.is_changed {
                break;
            }
            round.kept.extend(rows);
            at = end;
        }
        Ok(round)
    }

    /// Has a row that could not be locked been changed or deleted, rather than locked by somebody else?
    async fn are_gone(&mut self, targets: &[LockTarget], found: &Found, round: &Round) -> Result<bool> {
        for (number, target) in targets.iter().enumerate() {
            let there = self.at_places(target, number, &found.places, &round.missed, false).await?;
            if there.len() < round.missed.len() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Which of these rows are still what they were; they are locked.
    async fn at_places(
        &mut self,
        target: &LockTarget,
        number: usize,
        places: &[Vec<String>],
        rows: &[usize],
        locks: bool,
    ) -> Result<HashSet<usize>> {
        let mut of_node: BTreeMap<(NodeId, Option<&str>), Vec<Numbered<'_>>> = BTreeMap::new();
        for row in rows {
            let place = places[*row].get(number).map(String::as_str).unwrap_or_default();
            let (node, table, is) = parse(target, place)?;
            of_node.entry((node, table)).or_default().push((*row, is));
        }
        let mut there = HashSet::new();
        for ((node, table), rows) in of_node {
            for chunk in rows.chunks(BATCH_ROWS) {
                let list = list(target, chunk.iter().map(|(_, is)| *is));
                let sql = if locks { target.lock_sql(&list, table) } else { target.find_sql(&list, table) };
                let now = self.texts_on(node, &sql).await.map_err(without_position)?;
                there.extend(chunk.iter().filter(|(_, is)| now.contains(*is)).map(|(row, _)| *row));
            }
            // The next node is not to know less than this one has shown.
            self.statement_finished();
        }
        Ok(there)
    }

    async fn texts_on(&mut self, node: NodeId, sql: &str) -> Result<HashSet<String>> {
        self.acquire(node, Mode::InBlock).await?;
        self.causality.touch(node);
        let leased = self.links.link(node)?;
        leased.link.connection.query(sql.as_bytes());
        leased.flush().await?;
        leased.skip_preamble().await?;
        let rows = leased.link.connection.read_rows().await?.0;
        Ok(rows.into_iter().flatten().flatten().map(|text| String::from_utf8_lossy(&text).into_owned()).collect())
    }
}

/// The call of a query that has so many columns more.
fn with_text_columns(call: &Call, columns: usize) -> Call {
    let mut formats = call.result_formats.clone();
    if formats.len() > 1 {
        formats.extend(std::iter::repeat_n(0, columns));
    }
    Call { result_formats: formats, ..call.clone() }
}

impl Found {
    /// Rows with the places of `targets`, which stay in them or not.
    fn of(mut spool: Spool, targets: usize, keeps_places: bool, rows: Spool) -> Result<Self> {
        let kept = if keeps_places { 0 } else { targets };
        let fields = spool.take_fields().map(|mut fields| {
            fields.truncate(fields.len().saturating_sub(kept));
            fields
        });
        let mut found = Self { fields, rows, places: Vec::with_capacity(spool.len()) };
        loop {
            let mut frames = BytesMut::new();
            let (_, more) = spool.take(BATCH_ROWS, &mut frames)?;
            let frames = frames.freeze();
            for body in frame_bodies(&frames) {
                found.add(frames.slice_ref(body), targets, keeps_places)?;
            }
            if !more {
                return Ok(found);
            }
        }
    }

    /// Takes the places off the end of a row, or a copy of them.
    fn add(&mut self, body: Bytes, targets: usize, keeps_places: bool) -> Result<()> {
        let mut values = backend::decode_data_row(body)?;
        let places = values.split_off(values.len().saturating_sub(targets));
        if keeps_places {
            values.extend_from_slice(&places);
        }
        let text = |place: Option<Bytes>| String::from_utf8_lossy(&place.unwrap_or_default()).into_owned();
        self.places.push(places.into_iter().map(text).collect());
        let mut row = BytesMut::new();
        backend::data_row(&mut row, values.iter().map(|value| value.as_deref()));
        self.rows.push(row.freeze(), 1)
    }
}

/// Passes the rows with these numbers on.
async fn send(mut found: Found, kept: &[usize], call: &Call, output: &mut Output<'_>) -> Result<Completion> {
    if call.describe
        && output.wants_description()
        && let Some(fields) = &found.fields
    {
        output.description(fields);
    }
    let kept: HashSet<usize> = kept.iter().copied().collect();
    for number in 0..found.rows.len() {
        let mut row = BytesMut::new();
        found.rows.take(1, &mut row)?;
        if kept.contains(&number) {
            output.rows(row.freeze(), 1).await?;
        }
    }
    Ok(Completion::Tag(format!("SELECT {}", kept.len())))
}

/// Node, table and the rest of a place.
fn parse<'p>(target: &LockTarget, place: &'p str) -> Result<(NodeId, Option<&'p str>, &'p str)> {
    let lost = || PgError::internal(format!("\"{place}\" is not the place of a row"));
    let LockedBy::Address { names_table } = target.by else {
        let LockedBy::Key { node, .. } = &target.by else { return Err(lost()) };
        return Ok((*node, None, place));
    };
    let (node, rest) = place.split_once(' ').ok_or_else(lost)?;
    let node = NodeId(node.parse().map_err(|_| lost())?);
    if !names_table {
        return Ok((node, None, rest));
    }
    let end = rest.match_indices(' ').nth(1).map(|(at, _)| at).ok_or_else(lost)?;
    Ok((node, Some(&rest[end + 1..]), &rest[..end]))
}

/// An array of what the rows are found by.
fn list<'p>(target: &LockTarget, rows: impl Iterator<Item = &'p str>) -> String {
    let value = |row: &'p str| match target.by {
        LockedBy::Address { .. } => row.split_once(' ').map_or(row, |(address, _)| address),
        LockedBy::Key { .. } => row.split_once(' ').map_or(row, |(_, key)| key),
    };
    let quoted = |row| format!("\"{}\"", value(row).replace('\\', "\\\\").replace('"', "\\\""));
    format!("{{{}}}", rows.map(quoted).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(by: LockedBy) -> LockTarget {
        LockTarget { table: "t".to_owned(), strength: "UPDATE", wait: LockWait::Block, by, has_policies: false }
    }

    #[test]
    fn places_are_taken_apart() {
        let plain = target(LockedBy::Address { names_table: false });
        assert_eq!(parse(&plain, "2 (0,1) 700").unwrap(), (NodeId(2), None, "(0,1) 700"));
        assert!(parse(&plain, "").is_err());
        let family = target(LockedBy::Address { names_table: true });
        assert_eq!(parse(&family, "2 (0,1) 700 s.\"a b\"").unwrap(), (NodeId(2), Some("s.\"a b\""), "(0,1) 700"));
        assert_eq!(list(&plain, ["(0,1) 700", "(0,2) 7"].into_iter()), "{\"(0,1)\",\"(0,2)\"}");
        let key =
            target(LockedBy::Key { node: NodeId(1), column: "k".to_owned(), type_name: "pg_catalog.text".to_owned() });
        assert_eq!(parse(&key, "0f a \"b").unwrap(), (NodeId(1), None, "0f a \"b"));
        assert_eq!(list(&key, ["0f a \"b"].into_iter()), "{\"a \\\"b\"}");
    }
}
