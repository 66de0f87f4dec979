//! Where the rows of a bucket are found: SQL for a row's bucket, and indexes over it for the time of a rebalance.
//!
//! Without an index each step would read each table whole, under a lock that keeps writers off. An index is made without a lock
//! (CREATE INDEX CONCURRENTLY) on tables of more than [`PAGES_UNINDEXED_MAX`] pages, on the nodes that give rows. All go when the
//! rebalance ends, and what a killed coordinator has left of them goes when the next one begins.
//!
//! A node that takes rows compares them after each step. Into a table that begins small they come one after the other at its
//! end, and are found there ([`Place`]). One that is large from the start has free space amid its rows, and so may the other one once
//! it is vacuumed: these have the index as well.

use std::collections::BTreeSet;

use catalog::{Catalog, Distribution, MapId, NodeId, Relation, RelationKind, quote_identifier};
use futures_util::{StreamExt, stream};
use pgerror::{PgError, Result};

use crate::session::Session;
use crate::shared::catalog_load::{Row, number, text};
use crate::shared::context::Context;

/// A table of so many pages is read whole within some milliseconds.
const PAGES_UNINDEXED_MAX: u64 = 500;

/// Nodes that work at their indexes and statistics at the same time.
pub(crate) const NODES_AT_ONCE: usize = 8;

/// What the names of these indexes begin with.
const INDEX_PREFIX: &str = "loxo_rebalance_";

/// A table whose rows move, bucket by bucket.
pub(crate) struct Moving<'c> {
    pub(crate) table: &'c Relation,
    /// `schema.name`, quoted.
    pub(crate) name: String,
    /// A row's bucket, over the columns of the table.
    pub(crate) bucket: String,
}

/// What a node has of a table.
#[derive(Clone, Copy)]
struct Look {
    pages: u64,
    is_indexed: bool,
}

/// Where a node that takes rows of a table finds them afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Anywhere,
    /// From this page on, unless there was room before it.
    From(u64),
}

impl Place {
    /// Where rows can be, by what the table was before.
    fn of(look: Look) -> Self {
        match look.is_indexed || look.pages <= PAGES_UNINDEXED_MAX {
            true => Self::Anywhere,
            // The last page may have room.
            false => Self::From(look.pages - 1),
        }
    }

    /// As a condition on the table, to follow others.
    pub(super) fn condition(self) -> String {
        match self {
            Self::Anywhere => String::new(),
            Self::From(page) => format!(" AND ctid OPERATOR(pg_catalog.>=) '({page},0)'::pg_catalog.tid"),
        }
    }
}

/// The tables of a map that hold rows themselves.
pub(crate) fn tables_of(catalog: &Catalog, map: MapId) -> Result<Vec<Moving<'_>>> {
    let mut tables: Vec<Moving<'_>> = Vec::new();
    for relation in catalog.relations() {
        let (Distribution::Hash { map_id, .. } | Distribution::Modulo { map_id, .. }) = &relation.distribution else {
            continue;
        };
        if relation.kind == RelationKind::Table && *map_id == map {
            let bucket = bucket_of(relation)?;
            tables.push(Moving { table: relation, name: relation.qualified_name(), bucket });
        }
    }
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(tables)
}

fn bucket_of(table: &Relation) -> Result<String> {
    let unknown = || PgError::internal(format!("the key of {} cannot be computed in SQL", table.qualified_name()));
    let name = |key: &catalog::KeyColumn| Some(quote_identifier(&table.column_at(key.number)?.name));
    let bucket = match &table.distribution {
        Distribution::Hash { columns, .. } => {
            let names: Vec<String> = columns.iter().map(name).collect::<Option<_>>().ok_or_else(unknown)?;
            let key: Vec<_> = columns.iter().zip(&names).map(|(key, name)| (key.key_type, name.as_str())).collect();
            placement::sql_bucket(&key)
        }
        Distribution::Modulo { column, .. } => {
            let value = name(column).and_then(|name| column.key_type.sql_modulo_bucket(&name)).ok_or_else(unknown)?;
            format!("coalesce({value}, 0)")
        }
        _ => return Err(unknown()),
    };
    let qualified = planner::own_text(&format!("SELECT {bucket}"))?;
    Ok(qualified.trim_start_matches("SELECT ").to_owned())
}

impl Moving<'_> {
    /// True of the rows in these buckets.
    pub(crate) fn condition(&self, buckets: &[u16]) -> String {
        let list: Vec<String> = buckets.iter().map(u16::to_string).collect();
        format!(
            "({})::pg_catalog.int4 OPERATOR(pg_catalog.=) ANY ('{{{}}}'::pg_catalog.int4[])",
            self.bucket,
            list.join(",")
        )
    }

    fn index_name(&self) -> String {
        format!("{INDEX_PREFIX}{}", self.table.oid)
    }

    async fn look(&self, context: &Context, node: NodeId) -> Result<Look> {
        let looks = looks(&context.query_as_service(node, &looks_sql(std::slice::from_ref(self))).await?)?;
        looks.first().copied().ok_or_else(|| PgError::internal("nothing is known of a table"))
    }

    async fn index(&self, context: &Context, node: NodeId) -> Result<()> {
        if self.look(context, node).await?.is_indexed {
            return Ok(());
        }
        // One whose making was interrupted may be there, of no use.
        let (name, schema) = (self.index_name(), quote_identifier(&self.table.schema));
        let unmake = format!("DROP INDEX CONCURRENTLY IF EXISTS {schema}.{name}");
        context.query_as_service(node, &unmake).await?;
        let make = format!("CREATE INDEX CONCURRENTLY {name} ON {} ((({})::pg_catalog.int4))", self.name, self.bucket);
        context.query_as_service(node, &make).await.map(drop)
    }
}

/// The query that looks at each of the tables, in this order.
fn looks_sql(tables: &[Moving<'_>]) -> String {
    let asked = tables.iter().enumerate().map(|(place, moving)| {
        format!("({place}, {}::pg_catalog.regclass, '{}')", catalog::quote_literal(&moving.name), moving.index_name())
    });
    let asked: Vec<String> = asked.collect();
    format!(
        "SELECT pg_catalog.pg_relation_size(t.relid) OPERATOR(pg_catalog./) \
         pg_catalog.current_setting('block_size')::pg_catalog.int8, \
         EXISTS (SELECT FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) i.indexrelid \
         WHERE i.indrelid OPERATOR(pg_catalog.=) t.relid AND c.relname OPERATOR(pg_catalog.=) t.name AND i.indisvalid) \
         FROM (VALUES {}) AS t (place, relid, name) ORDER BY t.place",
        asked.join(", ")
    )
}

fn looks(rows: &[Row]) -> Result<Vec<Look>> {
    rows.iter().map(|row| Ok(Look { pages: number(row, 0)?, is_indexed: text(row, 1)? == "t" })).collect()
}

impl Session {
    /// Where rows of these tables that come to a node will be found.
    pub(super) async fn places(&mut self, tables: &[Moving<'_>], node: NodeId) -> Result<Vec<Place>> {
        if tables.is_empty() {
            return Ok(Vec::new());
        }
        let looks = looks(&self.rows_on(node, &looks_sql(tables)).await?)?;
        Ok(looks.into_iter().map(Place::of).collect())
    }
}

/// Makes the indexes of tables that are large on one of the nodes that give rows, where they are not there yet: on all nodes that
/// give rows, and on those that take them if the table is large there, too. `everywhere`: of tables that are large on any of these
/// nodes, on all. A node makes one after the other, and a few nodes work at once.
pub(crate) async fn make_indexes(
    context: &Context,
    tables: &[Moving<'_>],
    moves: &[(NodeId, NodeId)],
    everywhere: bool,
) -> Result<()> {
    let sources: BTreeSet<NodeId> = moves.iter().map(|(from, _)| *from).collect();
    let targets: BTreeSet<NodeId> = moves.iter().map(|(_, to)| *to).collect();
    let mut large = Vec::new();
    for table in tables {
        let takers = targets.iter().filter(|_| everywhere);
        for node in sources.iter().chain(takers) {
            let Look { pages, is_indexed } = table.look(context, *node).await?;
            if pages > PAGES_UNINDEXED_MAX || is_indexed {
                large.push(table);
                break;
            }
        }
    }
    let on_node = async |node: &NodeId| -> Result<()> {
        for table in &large {
            let needs_one =
                everywhere || sources.contains(node) || Place::of(table.look(context, *node).await?) != Place::Anywhere;
            if needs_one {
                table.index(context, *node).await?;
            }
        }
        Ok(())
    };
    // An error of one node does not leave the others in the middle: what they build would have to be built again.
    let made: Vec<Result<()>> =
        stream::iter(sources.union(&targets).map(on_node)).buffer_unordered(NODES_AT_ONCE).collect().await;
    made.into_iter().collect()
}

/// Drops the indexes of all tables on a node.
pub(crate) async fn drop_indexes(context: &Context, node: NodeId) -> Result<()> {
    let find = format!(
        "SELECT pg_catalog.concat(pg_catalog.quote_ident(n.nspname), '.', pg_catalog.quote_ident(c.relname)) \
         FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace \
         WHERE c.relkind OPERATOR(pg_catalog.=) 'i' AND c.relname::pg_catalog.text OPERATOR(pg_catalog.~) '^{INDEX_PREFIX}[0-9]+$'"
    );
    for row in context.query_as_service(node, &find).await? {
        let name = row.into_iter().next().flatten().unwrap_or_default();
        context
            .query_as_service(node, &format!("DROP INDEX CONCURRENTLY IF EXISTS {}", String::from_utf8_lossy(&name)))
            .await?;
    }
    Ok(())
}
