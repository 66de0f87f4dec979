//! Moves rows that have got another distribution key where they are.
//!
//! The datanodes have followed the foreign key's action, each for its own rows, and told of those that may belong elsewhere now
//! (see `planner::Movable`). Here they are deleted on one node and inserted on another, as the user, in the same transaction.
//! Constraints are checked again where a row comes to; the lock of the referenced row is taken there too.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use catalog::{Distribution, Generated, NodeId, Relation, quote_identifier, quote_literal};
use pgerror::{PgError, Result, field};
use pgproto::backend::split_command_tag;
use planner::Movable;

use crate::backend::call::Call;
use crate::backend::call::Parameters;
use crate::backend::call::is_node_specific;
use crate::backend::call::travels_in_binary;
use crate::block::Mode;
use crate::engine::fixed_text;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::engine::spool::Spool;
use crate::session::Session;

/// Values of one statement; the protocol's limit is 65,535 parameters.
const VALUES_MAX: usize = 30_000;

impl Session {
    /// Keeps other writers off tables whose rows the next statement may have to move: a writer that waits for such a row would find
    /// it deleted.
    pub async fn lock_movable(&mut self, movable: &[Movable]) -> Result<()> {
        if self.is_read_only() {
            // PostgreSQL refuses the statement itself.
            return Ok(());
        }
        for one in movable.iter().filter(|one| one.rooted.is_none()) {
            self.may_move(&one.table).await?;
            let nodes = one.table.distribution.nodes();
            self.refuse_serializable(&nodes)?;
            self.keep_writers_off(&nodes, &[one.table.qualified_name()]).await?;
            self.statement_finished();
        }
        Ok(())
    }

    /// PostgreSQL follows a foreign key's action with the rights of the table's owner; rows move with the user's.
    async fn may_move(&mut self, table: &Relation) -> Result<()> {
        let name = quote_literal(&table.qualified_name());
        let may = ["SELECT", "INSERT", "DELETE"]
            .map(|right| format!("pg_catalog.has_table_privilege({name}, '{right}')"))
            .join(" AND ");
        let rows = self.rows_on(self.home, &format!("SELECT {may}")).await?;
        match rows.first().and_then(|row| row.first()?.as_deref()) {
            Some(b"t") => Ok(()),
            _ => Err(refused(table, "the user may not SELECT, INSERT and DELETE there")
                .hint("GRANT these rights on the table.")),
        }
    }

    /// Moves the rows that the last statement, or a foreign key in it, gave another key.
    pub async fn follow_keys(&mut self, movable: &[Movable]) -> Result<()> {
        let told = self.take_moves_told().await?;
        if told.is_empty() && !movable.iter().any(|one| one.is_target) {
            return Ok(());
        }
        for (schema, table, _) in &told {
            let is_it = |one: &&Movable| one.table.schema == *schema && one.table.name == *table;
            let one = movable.iter().find(is_it);
            let one = one.ok_or_else(|| PgError::internal(format!("rows of {schema}.{table} have another key")))?;
            if let Some(why) = one.rooted {
                let hint = "Change the rows that refer to the row first, by their own statement.";
                return Err(refused(&one.table, why).hint(hint));
            }
        }
        self.statement_finished();
        let mut leaving = Vec::new();
        for table in referring_first(movable) {
            let one = Leaving::of(table)?;
            let rows = self.leaving_rows(table, &one).await?;
            if !rows.is_empty() {
                self.refuse_users_code_of_all(one.types.iter().copied()).await?;
            }
            leaving.push((one, rows));
        }
        self.statement_finished();
        for (one, rows) in leaving.iter().rev() {
            for (node, rows) in rows {
                self.insert_all(*node, one, rows).await?;
            }
        }
        self.statement_finished();
        Ok(())
    }

    /// Deletes the rows of a table that do not belong where they are; gives them by the node that they belong to.
    async fn leaving_rows(&mut self, table: &Relation, leaving: &Leaving) -> Result<BTreeMap<NodeId, Vec<Row>>> {
        let sql = fixed_text::travelling(&leaving.delete, leaving.binary).into_owned();
        let format = i16::from(leaving.binary);
        let parameters = Some(Arc::default());
        let call = Call { parameters, result_formats: vec![format], one_off: true, ..Call::default() };
        let mut spool = Spool::default();
        let nodes = table.distribution.nodes();
        let parts = nodes.iter().map(|node| (*node, sql.clone())).collect();
        self.scatter(Mode::InBlock, parts, &call, &mut Output::spool(&mut spool)).await?;
        if !leaving.binary {
            self.links.broadcast(&nodes, &fixed_text::restore()).await?;
        }
        let mut arriving: BTreeMap<NodeId, Vec<Row>> = BTreeMap::new();
        for mut row in spool.into_rows()?.1 {
            let place = row.pop().flatten().unwrap_or_default();
            arriving.entry(node_number(&place, leaving.binary)?).or_default().push(row);
        }
        Ok(arriving)
    }

    async fn insert_all(&mut self, node: NodeId, leaving: &Leaving, rows: &[Row]) -> Result<()> {
        let most = (VALUES_MAX / leaving.types.len().max(1)).max(1);
        if rows.len() > most && leaving.refers_to_itself {
            return Err(PgError::unsupported(format!("moving more than {most} rows that refer to each other"))
                .hint("Give fewer rows another distribution key at a time."));
        }
        for chunk in rows.chunks(most) {
            self.insert_rows(node, leaving, chunk).await?;
        }
        Ok(())
    }

    async fn insert_rows(&mut self, node: NodeId, leaving: &Leaving, rows: &[Row]) -> Result<()> {
        let known = |of: &u32| if is_node_specific(*of) { 0 } else { *of };
        let parameters = Parameters {
            types: rows.iter().flat_map(|_| leaving.types.iter().map(known)).collect(),
            formats: vec![i16::from(leaving.binary)],
            values: rows.iter().flatten().cloned().collect(),
        };
        let call = Call { parameters: Some(Arc::new(parameters)), one_off: true, ..Call::default() };
        let mut nothing = Spool::default();
        let parts = vec![(node, leaving.insert(rows.len()))];
        let done = self.scatter(Mode::InBlock, parts, &call, &mut Output::spool(&mut nothing)).await;
        match done.map_err(|error| error.without(field::POSITION))? {
            Completion::Tag(tag) if split_command_tag(&tag).1 == Some(rows.len() as u64) => Ok(()),
            _ => Err(PgError::internal("rows that were to move did not arrive")),
        }
    }
}

/// A row's values, and at first the node that it belongs to.
type Row = Vec<Option<Bytes>>;

/// Tables that refer to others of them come before those.
fn referring_first(movable: &[Movable]) -> Vec<&Arc<Relation>> {
    let mut rest: Vec<&Arc<Relation>> =
        movable.iter().filter(|one| one.rooted.is_none()).map(|one| &one.table).collect();
    let mut sorted = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let refers = |other: &Relation, table: &Relation| {
            other.oid != table.oid && other.foreign_keys.iter().any(|key| key.referenced == table.oid)
        };
        let is_free = |table: &&Arc<Relation>| !rest.iter().any(|other| refers(other, table));
        // In a circle of them any one is as good as another.
        let at = rest.iter().position(is_free).unwrap_or(0);
        sorted.push(rest.remove(at));
    }
    sorted
}

/// The texts that take rows away and put them elsewhere.
struct Leaving {
    /// Gives the stored columns, then the node that a row belongs to.
    delete: String,
    insert: String,
    types: Vec<u32>,
    type_names: Vec<String>,
    /// All values travel in binary.
    binary: bool,
    refers_to_itself: bool,
}

impl Leaving {
    fn of(table: &Relation) -> Result<Self> {
        let place = node_of_row(table).ok_or_else(|| PgError::internal("rows without a key have no place"))?;
        let stored = table.columns.iter().filter(|c| !matches!(c.generated, Generated::Stored | Generated::Virtual));
        let stored: Vec<_> = stored.collect();
        let names: Vec<String> = stored.iter().map(|column| quote_identifier(&column.name)).collect();
        let (names, target) = (names.join(", "), table.qualified_name());
        let delete = format!(
            "DELETE FROM ONLY {target} WHERE {place} <> (SELECT node_id FROM loxo.identity) RETURNING {names}, {place}"
        );
        Ok(Self {
            delete: planner::own_text(&delete)?,
            insert: format!("INSERT INTO {target} ({names}) OVERRIDING SYSTEM VALUE VALUES "),
            types: stored.iter().map(|column| column.type_oid).collect(),
            binary: stored.iter().all(|column| travels_in_binary(column.type_oid)),
            refers_to_itself: table.foreign_keys.iter().any(|key| key.referenced == table.oid),
            type_names: stored.iter().map(|column| column.type_name.clone()).collect(),
        })
    }

    fn insert(&self, rows: usize) -> String {
        let mut number = 0;
        let mut row = || {
            let value = |of: &String| {
                number += 1;
                format!("${number}::{of}")
            };
            format!("({})", self.type_names.iter().map(value).collect::<Vec<_>>().join(", "))
        };
        let rows: Vec<String> = (0..rows).map(|_| row()).collect();
        format!("{}{}", self.insert, rows.join(", "))
    }
}

fn node_number(value: &Bytes, binary: bool) -> Result<NodeId> {
    let number = match binary {
        true => <[u8; 2]>::try_from(value.as_ref()).ok().map(u16::from_be_bytes),
        false => std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()),
    };
    number.map(NodeId).ok_or_else(|| PgError::internal("a row belongs to no node"))
}

fn refused(table: &Relation, why: &str) -> PgError {
    PgError::unsupported(format!("a foreign key that gives rows of table \"{}\" another distribution key", table.name))
        .detail(format!("A row would be deleted on one node and inserted on another, but {why}."))
}

/// The node that a row of a table belongs to by its key, as SQL over the table's columns.
pub(crate) fn node_of_row(table: &Relation) -> Option<String> {
    let name = |key: &catalog::KeyColumn| Some(quote_identifier(&table.column_at(key.number)?.name));
    let (map, bucket) = match &table.distribution {
        Distribution::Hash { columns, map_id, .. } => {
            let names: Vec<String> = columns.iter().map(name).collect::<Option<_>>()?;
            let key: Vec<_> = columns.iter().zip(&names).map(|(key, name)| (key.key_type, name.as_str())).collect();
            (map_id, placement::sql_bucket(&key))
        }
        Distribution::Modulo { column, map_id, .. } => {
            let bucket = column.key_type.sql_modulo_bucket(&name(column)?)?;
            (map_id, format!("coalesce({bucket}, 0)"))
        }
        _ => return None,
    };
    Some(format!("(SELECT nodes FROM loxo.bucket_map WHERE id = {})[1 + {bucket}]", map.0))
}
