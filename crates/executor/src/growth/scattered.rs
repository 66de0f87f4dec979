//! Rows of tables without a distribution key, which may be on any of their nodes: they leave a datanode that is to be emptied, and
//! go from fuller datanodes to emptier ones (`ALTER CLUSTER REBALANCE LEVEL`).
//!
//! ```text
//!  level    rows of each table on each of its nodes are counted, and the fewest moves found that make these even
//!  find     the last pages that hold about as many rows as a step takes, by a look that locks nothing
//!  old      LOCK the table IN EXCLUSIVE MODE, for a moment at most: writers wait, readers do not
//!  old      COPY (DELETE … those of these pages … RETURNING …) TO STDOUT ──▶ new  COPY … FROM STDIN
//!  new      sum of the hashes of the rows that have come: that of those that have gone?
//!  all      the row of loxo.class is written: sessions that planned before notice
//!           COMMIT; all coordinators look anew where rows are first
//! ```
//!
//! Tables with parents leave a node together with these and all that these have: PostgreSQL reads and writes children through a
//! parent, and planners want one list of nodes for all. So the last step of one takes the last rows of all.
//!
//! Pages are taken from the end, so that no step reads what earlier ones have left behind, and a vacuum can give them back.
//!
//! What is to move is known to the job alone: a coordinator that carries it on counts anew.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::{Catalog, Distribution, NodeId, Oid, Relation, RelationKind, quote_literal};
use pgerror::{PgError, Result};

use crate::growth::journal::Wanted;
use crate::growth::rows::{Passed, Travel};
use crate::growth::step::{Changes, ROWS_MAX, Taken};
use crate::growth::sums::{came_out_changed, sum_at};
use crate::session::Session;
use crate::shared::catalog_load::{Row, number};
use crate::shared::context::Context;

/// The first look for rows goes over so many pages.
const LOOK_PAGES: u64 = 64;
/// And each further one over so many times the pages of the one before, if they hold too few.
const LOOK_GROWTH: u64 = 4;
/// No table has more.
const PAGES_MAX: u64 = u32::MAX as u64;
/// A table of so many pages is read whole to find the rows that have come, within some milliseconds.
const PAGES_READ_WHOLE_MAX: u64 = 2000;
/// Counts that are taken while others write may be those of a moment ago. So they are taken again, but not for ever.
const ROUNDS_MAX: u32 = 3;

/// Rows that are to go from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Surplus {
    pub(crate) table: Oid,
    from: NodeId,
    to: NodeId,
    rows: u64,
}

impl Surplus {
    fn is_possible(&self, catalog: &Catalog, wanted: &Wanted) -> bool {
        let nodes = catalog.relation_by_oid(self.table).map_or(&[][..], |table| nodes_of(table));
        nodes.contains(&self.from) && nodes.contains(&self.to) && !wanted.without.contains(&self.to)
    }
}

/// What has still to be levelled.
#[derive(Default)]
pub(crate) struct Level {
    surpluses: VecDeque<Surplus>,
    rounds: u32,
}

impl Level {
    /// The next move, after a count if there is none; `None`: the tables are level.
    pub(crate) async fn next(
        &mut self,
        context: &Context,
        catalog: &Catalog,
        wanted: &Wanted,
    ) -> Result<Option<Surplus>> {
        // Tables may have been dropped or moved since they were counted.
        while let Some(first) = self.surpluses.front() {
            if first.is_possible(catalog, wanted) {
                return Ok(Some(first.clone()));
            }
            self.surpluses.pop_front();
        }
        if self.rounds == ROUNDS_MAX {
            return Ok(None);
        }
        self.rounds += 1;
        self.surpluses = count(context, catalog, wanted).await?.into();
        Ok(self.surpluses.front().cloned())
    }

    /// How many rows have still to move, by the last count.
    pub(crate) fn rest(&self) -> u64 {
        self.surpluses.iter().map(|surplus| surplus.rows).sum()
    }

    /// So many of the first ones have moved. None could be found if it is none.
    pub(crate) fn passed(&mut self, rows: u64) {
        if let Some(first) = self.surpluses.front_mut() {
            first.rows = first.rows.saturating_sub(rows);
            if first.rows == 0 || rows == 0 {
                self.surpluses.pop_front();
            }
        }
    }
}

async fn count(context: &Context, catalog: &Catalog, wanted: &Wanted) -> Result<Vec<Surplus>> {
    let mut tables: Vec<&Arc<Relation>> =
        catalog.relations().filter(|table| table.kind == RelationKind::Table && nodes_of(table).len() > 1).collect();
    tables.sort_by_key(|table| table.qualified_name());
    let mut surpluses = Vec::new();
    for table in tables {
        let sql = format!("SELECT pg_catalog.count(*) FROM ONLY {}", table.qualified_name());
        let mut rows_by_node: Vec<(u16, u64)> = Vec::new();
        for node in nodes_of(table).iter().filter(|node| !wanted.without.contains(node)) {
            let rows = context.query_as_service(*node, &sql).await?;
            rows_by_node.push((node.0, rows.first().map(|row| number(row, 0)).transpose()?.unwrap_or(0)));
        }
        let moves = placement::levelled(&rows_by_node).into_iter();
        surpluses.extend(moves.map(|(from, to, rows)| Surplus {
            table: table.oid,
            from: NodeId(from),
            to: NodeId(to),
            rows,
        }));
    }
    Ok(surpluses)
}

/// Empty if rows have no choice of their node.
fn nodes_of(table: &Relation) -> &[NodeId] {
    match &table.distribution {
        Distribution::RoundRobin { nodes } => nodes,
        _ => &[],
    }
}

/// Tables without a key whose rows lie on this node, among others.
fn scattered_on(catalog: &Catalog, node: NodeId) -> impl Iterator<Item = &Arc<Relation>> {
    scattered(catalog).filter(move |table| nodes_of(table).contains(&node))
}

/// All tables with rows of their own and without a key.
pub(super) fn scattered(catalog: &Catalog) -> impl Iterator<Item = &Arc<Relation>> {
    catalog.relations().filter(|table| has_rows(table) && !nodes_of(table).is_empty())
}

fn has_rows(table: &Relation) -> bool {
    table.kind != RelationKind::PartitionedTable
}

/// The table, and all that read it or that it reads as parent or child and that are on the same nodes: rows of others do not belong
/// where its rows go.
fn family<'c>(catalog: &'c Catalog, table: &'c Relation) -> Vec<&'c Relation> {
    let mut family = vec![table];
    let mut at = 0;
    while let Some(member) = family.get(at).copied() {
        let is_near = |other: &&Arc<Relation>| {
            let is_related = member.parents.contains(&other.oid) || other.parents.contains(&member.oid);
            is_related && nodes_of(other) == nodes_of(table)
        };
        for other in catalog.relations().filter(is_near) {
            if family.iter().all(|known| known.oid != other.oid) {
                family.push(other);
            }
        }
        at += 1;
    }
    family.sort_by_key(|member| member.qualified_name());
    family
}

/// A table without a key on a node that is to be emptied, that node, and one that stays.
pub(crate) fn to_be_emptied<'c>(catalog: &'c Catalog, wanted: &Wanted) -> Option<(&'c Relation, NodeId, NodeId)> {
    wanted.without.iter().find_map(|from| {
        let mut tables: Vec<_> = scattered_on(catalog, *from).collect();
        tables.sort_by_key(|table| table.qualified_name());
        tables.into_iter().find_map(|table| {
            let to = nodes_of(table).iter().find(|node| !wanted.without.contains(node))?;
            Some((&**table, *from, *to))
        })
    })
}

/// Where the last rows of a table on a node may be: before this page, or anywhere.
#[derive(Default)]
pub(crate) struct Tail {
    of: Option<(Oid, NodeId)>,
    end: Option<u64>,
}

/// Pages with rows that a step may move.
struct Found {
    pages: Range<u64>,
    /// There are fewer than were wanted.
    are_all: bool,
}

/// What a step moves.
pub(crate) struct Batch<'c> {
    pub(crate) table: &'c Relation,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    /// About so many rows are wanted.
    pub(crate) rows: u64,
    pages: Range<u64>,
    rows_max: u64,
    /// The table is to leave the node.
    pub(crate) leaves: bool,
    /// All that leave the node with it, if these are the last rows.
    leaving: Vec<&'c Relation>,
}

impl<'c> Batch<'c> {
    /// The rows of a surplus, `rows` at most.
    pub(crate) async fn of_surplus(
        context: &Context,
        catalog: &'c Catalog,
        surplus: &Surplus,
        rows: u64,
        tail: &mut Tail,
    ) -> Result<Self> {
        let table = catalog.relation_by_oid(surplus.table).ok_or_else(|| PgError::internal("a table is gone"))?;
        let (from, to, rows) = (surplus.from, surplus.to, surplus.rows.min(rows).min(ROWS_MAX));
        let found = tail.find(context, table, from, rows).await?;
        Ok(Self { table, from, to, rows, pages: found.pages, rows_max: rows, leaves: false, leaving: Vec::new() })
    }

    /// Rows of a node that the table is to leave: with the last ones it does.
    pub(crate) async fn of_leaving(
        context: &Context,
        catalog: &'c Catalog,
        table: &'c Relation,
        (from, to): (NodeId, NodeId),
        rows: u64,
        tail: &mut Tail,
    ) -> Result<Self> {
        let rows = rows.min(ROWS_MAX);
        let leaving = family(catalog, table);
        for table in leaving.iter().filter(|member| has_rows(member)) {
            let Found { pages, are_all } = tail.find(context, table, from, rows).await?;
            if !are_all {
                return Ok(Self { table, from, to, rows, pages, rows_max: rows, leaves: true, leaving: Vec::new() });
            }
        }
        // Others go on to insert rows there, wherever there is room: the last step takes those that come before it has its lock, too.
        for member in leaving.iter().filter(|member| has_rows(member)) {
            give_back_pages(context, member, from).await;
        }
        Ok(Self { table, from, to, rows, pages: 0..PAGES_MAX, rows_max: ROWS_MAX, leaves: true, leaving })
    }

    /// Those with rows to move.
    pub(crate) fn members(&self) -> Vec<&'c Relation> {
        match self.leaving.is_empty() {
            true => vec![self.table],
            false => self.leaving.iter().copied().filter(|member| has_rows(member)).collect(),
        }
    }
}

impl Tail {
    /// The last pages with so many rows, or all.
    async fn find(&mut self, context: &Context, table: &Relation, node: NodeId, rows: u64) -> Result<Found> {
        if self.of != Some((table.oid, node)) {
            *self = Self { of: Some((table.oid, node)), end: None };
        }
        let name = table.qualified_name();
        let size = context.query_as_service(node, &pages_sql(&name)).await?;
        let size: u64 = size.first().map(|row| number(row, 0)).transpose()?.unwrap_or(0);
        let before = self.end.filter(|end| *end > 0 && *end < size);
        let (mut end, mut may_restart) = (before.unwrap_or(size), before.is_some());
        let mut span = LOOK_PAGES;
        loop {
            let pages = end.saturating_sub(span)..end;
            let sql = format!(
                "SELECT pg_catalog.count(*) FROM (SELECT FROM ONLY {name} WHERE {} LIMIT {rows}) AS r",
                within(&pages)
            );
            let found = context.query_as_service(node, &sql).await?;
            let found: u64 = found.first().map(|row| number(row, 0)).transpose()?.unwrap_or(0);
            if pages.start == 0 && found == 0 && may_restart {
                // Rows that are wanted have come behind it since.
                (end, span, may_restart) = (size, LOOK_PAGES, false);
                continue;
            }
            if found >= rows || pages.start == 0 {
                self.end = Some(end);
                return Ok(Found { pages, are_all: found < rows });
            }
            if found == 0 {
                end = pages.start;
            }
            span *= LOOK_GROWTH;
        }
    }
}

/// The last step reads all pages that there are, under its lock. A failure only makes it slower.
async fn give_back_pages(context: &Context, table: &Relation, node: NodeId) {
    let vacuum = format!("VACUUM (SKIP_LOCKED) {}", table.qualified_name());
    if let Err(error) = context.query_as_service(node, &vacuum).await {
        tracing::debug!(%error, table = %table.qualified_name(), "no vacuum before the last step");
    }
}

fn pages_sql(table: &str) -> String {
    format!(
        "SELECT pg_catalog.pg_relation_size({}::pg_catalog.regclass) OPERATOR(pg_catalog./) \
         pg_catalog.current_setting('block_size')::pg_catalog.int8",
        quote_literal(table)
    )
}

/// A condition on a table: rows of these pages.
fn within(pages: &Range<u64>) -> String {
    format!(
        "ctid OPERATOR(pg_catalog.>=) '({},0)'::pg_catalog.tid AND ctid OPERATOR(pg_catalog.<) '({},0)'::pg_catalog.tid",
        pages.start, pages.end
    )
}

impl Session {
    /// Moves the rows. 40001 and 55P03 as [`take_step`](Session::take_step); either way nothing has happened then.
    pub(crate) async fn move_scattered(
        &mut self,
        catalog: &Catalog,
        batch: &Batch<'_>,
        patience: Duration,
    ) -> Result<Taken> {
        let (from, to, members) = (batch.from, batch.to, batch.members());
        let names: Vec<String> = members.iter().map(|member| member.qualified_name()).collect();
        self.atomically(async |this| {
            // The list of nodes may become shorter.
            let changes = if batch.leaves { Changes::Schema } else { Changes::Maps };
            this.begin_move(catalog, (from, to), changes, patience).await?;
            let noise = this.noise(&members, from, to).await?;
            this.lock(from, names.iter().map(String::as_str)).await?;
            this.refuse_users_code(&members).await?;
            let begun = Instant::now();
            let (mut passed, mut are_left) = (Vec::new(), !batch.leaving.is_empty());
            for (member, name) in members.iter().zip(&names) {
                let mut off = Vec::new();
                this.quieten(member, (from, &within(&batch.pages)), &noise, &mut off).await?;
                passed.push(this.pass_batch(batch, member, name).await?);
                this.let_sound(&off).await?;
                are_left &= this.rows_on(from, &format!("SELECT FROM ONLY {name} LIMIT 1")).await?.is_empty();
            }
            let passed: Passed = passed.into_iter().sum();
            txn::control_point!("scattered-rows-moved");
            // Plans notice by the row's writer that rows have moved.
            let (nodes, of) = match are_left {
                true => (
                    format!("pg_catalog.array_remove(nodes, {}::pg_catalog.int2)", from.0),
                    batch.leaving.iter().map(|member| member.qualified_name()).collect(),
                ),
                false => ("nodes".to_owned(), names),
            };
            let of: Vec<String> = of.iter().map(|name| quote_literal(name)).collect();
            let sql = format!(
                "UPDATE loxo.class SET nodes = {nodes} \
                 WHERE relid OPERATOR(pg_catalog.=) ANY (ARRAY[{}]::pg_catalog.regclass[])",
                of.join(", ")
            );
            this.run_on_members(&sql).await?;
            this.note_scattered(passed, !batch.leaves).await?;
            let delays_writers = this.delays_writers(from).await?;
            this.schema_changed();
            txn::control_point!("step-map-changed");
            Ok(Taken { passed, delays_writers, moving: begun.elapsed() })
        })
        .await
    }

    async fn pass_batch(&mut self, batch: &Batch<'_>, table: &Relation, name: &str) -> Result<Passed> {
        let (from, to) = (batch.from, batch.to);
        let travel = Travel::of(table);
        let hash = self.row_hashes([table].into_iter()).await?.concat();
        let some = format!(
            "ctid OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT ctid FROM ONLY {name} WHERE {} LIMIT {}))",
            within(&batch.pages),
            batch.rows_max
        );
        let sums = |condition: &str| {
            format!("SELECT pg_catalog.count(*), pg_catalog.sum({hash}) FROM ONLY {name} AS loxo_row WHERE {condition}")
        };
        let size = self.rows_on(to, &pages_sql(name)).await?;
        let size: u64 = size.first().map(|row| number(row, 0)).transpose()?.unwrap_or(0);
        let passed = self.pass(from.into(), to.into(), travel.passage(name, &some, &hash)).await?;

        // Those of this transaction. COPY begins in the last page that there was, if it finds no room elsewhere.
        let mine = "xmin OPERATOR(pg_catalog.=) pg_catalog.pg_current_xact_id()::pg_catalog.xid";
        let new = within(&(size.saturating_sub(1)..PAGES_MAX));
        let mut come = self.rows_on(to, &sums(&format!("{new} AND {mine}"))).await?;
        if sum_of(&come)?.0 != passed.rows && size <= PAGES_READ_WHOLE_MAX {
            come = self.rows_on(to, &sums(mine)).await?;
        }
        let (rows, sum) = sum_of(&come)?;
        let all_are_found = rows == passed.rows || size <= PAGES_READ_WHOLE_MAX;
        match (rows, sum) == (passed.rows, passed.hashes) || !all_are_found {
            true => Ok(passed),
            false => Err(came_out_changed(name, &passed, (rows, sum))),
        }
    }
}

fn sum_of(rows: &[Row]) -> Result<(u64, i128)> {
    let row = rows.first().ok_or_else(|| PgError::internal("a sum of no table"))?;
    Ok((number(row, 0)?, sum_at(row, 1)?))
}
