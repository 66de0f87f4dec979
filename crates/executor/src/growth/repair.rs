//! `ALTER CLUSTER REPAIR`: rows of one table go to where they belong, and copies become alike. What is wrong `loxo check --data` finds.
//!
//! ```text
//!  all nodes   LOCK TABLE ONLY t IN EXCLUSIVE MODE: writers wait, readers do not; is the catalog still that of now?
//!              count and sum of the hashes of all rows
//!  distributed by a key: for each node, and each node whose rows it has
//!    judge     which of these rows are there too, which are there with other values, which are not ([`judged_rows`])
//!    move      COPY (DELETE … RETURNING …) TO STDOUT ──▶ COPY … FROM STDIN: those that are not
//!    delete    those that are there too. Rows with another one's key stay, and are told
//!  round robin: rows of nodes outside the list move to the first one of it
//!  replicated: copies that differ get the rows of the first copy; outside the list what the copies have is deleted
//!  all nodes   count and sum: those of before without what was deleted?
//!              COMMIT
//! ```
//!
//! Nothing of the catalog changes, so plans go on to hold: to others it is a transaction that changes rows.
//!
//! [`judged_rows`]: crate::growth::judged_rows

use catalog::{Catalog, Distribution, MapId, NodeId, Relation, RelationKind};
use pgerror::{PgError, Result, SqlState};

use crate::growth::judged_rows::{Judged, MISSING, SAME, judged_as, whole_row};
use crate::growth::rows::{ENDS, Travel};
use crate::growth::slices::tables_of;
use crate::session::Session;
use crate::shared::catalog_load::{Row, number};

/// Longest wait for writers of the table; and what else the text of a value depends on.
const SETTINGS: &str = "SET LOCAL lock_timeout = '10s'; SET LOCAL TimeZone = 'UTC'; SET LOCAL lc_monetary = 'C'";

/// Rows of a table: how many, and the sum of their hashes.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) rows: i64,
    pub(super) hashes: i128,
}

impl Sums {
    fn of(row: &Row) -> Result<Self> {
        Ok(Self { rows: number(row, 0)?, hashes: number(row, 1)? })
    }

    fn plus(self, other: Self) -> Self {
        Self { rows: self.rows + other.rows, hashes: self.hashes + other.hashes }
    }

    fn minus(self, other: Self) -> Self {
        Self { rows: self.rows - other.rows, hashes: self.hashes - other.hashes }
    }
}

/// What the rows that are judged become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// They move, but for those that are there too.
    Move,
    /// They stay, but for those that are there too.
    DeleteOnly,
}

impl Session {
    pub(crate) async fn repair_table(&mut self, schema: Option<&str>, name: &str) -> Result<()> {
        const COMMAND: &str = "ALTER CLUSTER REPAIR";
        self.begin_node_command(COMMAND).await?;
        let loaded = self.catalog().await?;
        let path = match schema {
            Some(schema) => vec![schema.to_owned()],
            None => self.search_path(&loaded.catalog).await?.iter().cloned().collect(),
        };
        let table = path.iter().find_map(|schema| loaded.catalog.relation(schema, name)).ok_or_else(|| {
            PgError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
                .hint("Name its schema: ALTER CLUSTER REPAIR schema.table")
        })?;
        if table.kind != RelationKind::Table || table.distribution.nodes().is_empty() {
            return Err(PgError::unsupported(format!("{COMMAND} of anything but a distributed table"))
                .hint("Of a partitioned table each partition is repaired by itself."));
        }
        let mut own = self.for_the_cluster();
        let said = own.repair(&loaded.catalog, table).await?;
        for line in said {
            self.notice(&PgError::with_severity("NOTICE", SqlState::SUCCESSFUL_COMPLETION, line));
        }
        Ok(())
    }

    /// Gives a line for each thing that was done, or left.
    async fn repair(&mut self, catalog: &Catalog, table: &Relation) -> Result<Vec<String>> {
        self.atomically(async |this| {
            this.keep_still(catalog, table).await?;
            this.refuse_users_code(&[table]).await?;
            match &table.distribution {
                Distribution::Replicated { nodes } => this.repair_copies(catalog, table, nodes).await,
                Distribution::RoundRobin { nodes } => this.repair_scattered(catalog, table, nodes).await,
                Distribution::Hash { map_id, .. } | Distribution::Modulo { map_id, .. } => {
                    this.repair_keyed(catalog, table, *map_id).await
                }
                _ => Err(PgError::internal("a table of no known distribution")),
            }
        })
        .await
    }

    /// Nobody writes the table from here on, and its rows belong where the catalog says: moving them takes a lock on it.
    async fn keep_still(&mut self, catalog: &Catalog, table: &Relation) -> Result<()> {
        for node in self.all_members() {
            let lock = format!("{ENDS}; {SETTINGS}; LOCK TABLE ONLY {} IN EXCLUSIVE MODE", table.qualified_name());
            self.run_on(node, &lock).await?;
        }
        match self.version_in_block().await? == Some(catalog.version()) {
            true => Ok(()),
            false => {
                Err(PgError::new(SqlState::SERIALIZATION_FAILURE, "the schema has changed meanwhile")
                    .hint("Run it again."))
            }
        }
    }

    /// The home node first.
    fn all_members(&self) -> Vec<NodeId> {
        let mut nodes = self.context.nodes();
        nodes.sort_by_key(|node| (*node != self.home, *node));
        nodes
    }

    async fn repair_keyed(&mut self, catalog: &Catalog, table: &Relation, map: MapId) -> Result<Vec<String>> {
        let gone = || PgError::internal("a table that is distributed by no map");
        let moving = tables_of(catalog, map)?.into_iter().find(|moving| moving.table.oid == table.oid);
        let (moving, map) = (moving.ok_or_else(gone)?, catalog.map(map).ok_or_else(gone)?);
        let slots: Vec<String> = map.as_slice().iter().map(u16::to_string).collect();
        let owners = format!(
            "SELECT owner FROM (SELECT ('{{{}}}'::int2[])[1 + ({})::int4] AS owner FROM ONLY {}) AS o \
             GROUP BY owner ORDER BY owner",
            slots.join(","),
            moving.bucket,
            moving.name
        );
        let (before, mut deleted, mut said) = (self.sums_of_all(table).await?, Sums::default(), Vec::new());
        for from in self.all_members() {
            for row in self.rows_on(from, &owners).await? {
                let owner = NodeId(number(&row, 0)?);
                if owner == from {
                    continue;
                }
                let buckets: Vec<u16> =
                    (0..).zip(map.as_slice()).filter(|(_, of)| **of == owner.0).map(|(b, _)| b).collect();
                let judged = self.judge(table, (from, owner), &moving.condition(&buckets)).await?;
                let gone = self.act(catalog, table, (from, owner), judged, Fate::Move, &mut said).await?;
                deleted = deleted.plus(gone);
            }
        }
        self.are_all_there(table, before.minus(deleted)).await?;
        Ok(said)
    }

    /// Such a table may have a row as often as it likes, so each one is kept.
    async fn repair_scattered(&mut self, catalog: &Catalog, table: &Relation, nodes: &[NodeId]) -> Result<Vec<String>> {
        let (before, mut said) = (self.sums_of_all(table).await?, Vec::new());
        let to = *nodes.first().ok_or_else(|| PgError::internal("a table on no node"))?;
        for from in self.all_members().into_iter().filter(|node| !nodes.contains(node)) {
            if self.sums_of(from, table).await?.rows > 0 {
                let moved = self.move_judged(table, (from, to), "true").await?;
                said.push(format!(
                    "{} from {} to {}",
                    rows(moved as i64, "moved"),
                    name(catalog, from),
                    name(catalog, to)
                ));
            }
        }
        self.are_all_there(table, before).await?;
        Ok(said)
    }

    /// The copies are made like the first one. Rows outside of the list are seen by nobody, so what the copies do not have is left.
    async fn repair_copies(&mut self, catalog: &Catalog, table: &Relation, nodes: &[NodeId]) -> Result<Vec<String>> {
        let first = first_copy(catalog, nodes).ok_or_else(|| PgError::internal("a table on no node"))?;
        let (wanted, mut said) = (self.sums_of_copy(first, table).await?, Vec::new());
        for node in self.all_members() {
            let found = self.sums_of_copy(node, table).await?;
            match nodes.contains(&node) {
                true if found != wanted => {
                    self.replace_copy(table, first, node).await?;
                    self.is_alike(catalog, table, node, wanted).await?;
                    said.push(format!(
                        "{} on {} replaced by {} of {}",
                        rows(found.rows, ""),
                        name(catalog, node),
                        wanted.rows,
                        name(catalog, first)
                    ));
                }
                false if found.rows > 0 => {
                    let judged = self.judge(table, (node, first), "true").await?;
                    self.act(catalog, table, (node, first), judged, Fate::DeleteOnly, &mut said).await?;
                }
                _ => {}
            }
        }
        Ok(said)
    }

    async fn replace_copy(&mut self, table: &Relation, first: NodeId, node: NodeId) -> Result<()> {
        let (name, travel) = (table.qualified_name(), Travel::of(table));
        let noise = self.noise(&[table], node, node).await?;
        let mut off = Vec::new();
        self.quieten(table, (first, "true"), &noise, &mut off).await?;
        self.run_on(node, &format!("DELETE FROM ONLY {name}")).await?;
        let what = match travel.columns.is_empty() {
            true => name.clone(),
            false => format!("{name} ({})", travel.columns),
        };
        self.pass_rows((first, &travel.copy_out(&what)), (node, &travel.copy_in(&name))).await?;
        self.let_sound(&off).await
    }

    async fn is_alike(&mut self, catalog: &Catalog, table: &Relation, node: NodeId, wanted: Sums) -> Result<()> {
        if self.sums_of_copy(node, table).await? == wanted {
            return Ok(());
        }
        let (table, node) = (table.qualified_name(), name(catalog, node));
        Err(PgError::new(SqlState::INTERNAL_ERROR, format!("the copy of {table} on {node} still differs"))
            .detail("Columns that are generated may be computed by another function there. Nothing was changed.")
            .hint("Compare the schema of the datanodes: pg_dump --schema-only."))
    }

    /// Says what becomes of the rows, and does it. Gives what was deleted.
    async fn act(
        &mut self,
        catalog: &Catalog,
        table: &Relation,
        (from, to): (NodeId, NodeId),
        judged: Judged,
        fate: Fate,
        said: &mut Vec<String>,
    ) -> Result<Sums> {
        let (there, here) = (name(catalog, to), name(catalog, from));
        if judged.others > 0 {
            let text = rows(judged.others, if judged.others == 1 { "stays" } else { "stay" });
            said.push(format!("{text} on {here}: {there} has other values under the same key"));
        }
        let deleted = self.delete_judged(table, from, &judged_as(table, SAME)).await?;
        if deleted.rows > 0 {
            said.push(format!("{} on {here}: {there} has the same", rows(deleted.rows, "deleted")));
        }
        match fate {
            Fate::Move if judged.missing > 0 => {
                let moved = self.move_judged(table, (from, to), &judged_as(table, MISSING)).await?;
                if moved != judged.missing as u64 {
                    return Err(PgError::internal(format!("{moved} rows were moved instead of {}", judged.missing)));
                }
                said.push(format!("{} from {here} to {there}", rows(judged.missing, "moved")));
            }
            Fate::DeleteOnly if judged.missing > 0 => {
                let text = rows(judged.missing, if judged.missing == 1 { "stays" } else { "stay" });
                said.push(format!("{text} on {here}, without its like in any copy"));
            }
            _ => {}
        }
        self.forget_judged(table, from).await?;
        Ok(deleted)
    }

    /// Moves rows as a rebalance does: nothing fires, and values are not changed.
    async fn move_judged(&mut self, table: &Relation, (from, to): (NodeId, NodeId), condition: &str) -> Result<u64> {
        let (name, travel) = (table.qualified_name(), Travel::of(table));
        let noise = self.noise(&[table], from, to).await?;
        let mut off = Vec::new();
        self.quieten(table, (from, condition), &noise, &mut off).await?;
        let out = travel.copy_deleted(&name, condition);
        let passed = self.pass_rows((from, &out), (to, &travel.copy_in(&name))).await?;
        self.let_sound(&off).await?;
        Ok(passed.rows)
    }

    async fn delete_judged(&mut self, table: &Relation, from: NodeId, condition: &str) -> Result<Sums> {
        let gone = self.sums_where(from, table, condition).await?;
        if gone.rows > 0 {
            let noise = self.noise(&[table], from, from).await?;
            // None of the rows is written anywhere.
            let mut off = Vec::new();
            self.quieten(table, (from, "false"), &noise, &mut off).await?;
            self.run_on(from, &format!("DELETE FROM ONLY {} WHERE {condition}", table.qualified_name())).await?;
            self.let_sound(&off).await?;
        }
        Ok(gone)
    }

    async fn sums_of(&mut self, node: NodeId, table: &Relation) -> Result<Sums> {
        self.sums_where(node, table, "true").await
    }

    async fn sums_where(&mut self, node: NodeId, table: &Relation, condition: &str) -> Result<Sums> {
        self.sums_by(node, table, &whole_row(table), condition).await
    }

    /// With what is computed: another function there makes other copies.
    async fn sums_of_copy(&mut self, node: NodeId, table: &Relation) -> Result<Sums> {
        self.sums_by(node, table, "(loxo_row.*)::text COLLATE \"C\"", "true").await
    }

    async fn sums_by(&mut self, node: NodeId, table: &Relation, text: &str, condition: &str) -> Result<Sums> {
        let sql = format!(
            "SELECT count(*), coalesce(sum(hashtextextended({text}, 0)::numeric), 0) FROM ONLY {} AS loxo_row WHERE {condition}",
            table.qualified_name()
        );
        let rows = self.rows_on(node, &sql).await?;
        rows.first().map(Sums::of).transpose().map(Option::unwrap_or_default)
    }

    async fn sums_of_all(&mut self, table: &Relation) -> Result<Sums> {
        let mut all = Sums::default();
        for node in self.all_members() {
            all = all.plus(self.sums_of(node, table).await?);
        }
        Ok(all)
    }

    async fn are_all_there(&mut self, table: &Relation, wanted: Sums) -> Result<()> {
        let found = self.sums_of_all(table).await?;
        match found == wanted {
            true => Ok(()),
            false => Err(PgError::internal(format!(
                "rows of {} came out changed: {found:?} instead of {wanted:?}",
                table.qualified_name()
            ))),
        }
    }
}

/// The copy that the others are made like: the primary datanode's, else a preferred one's, else the first.
fn first_copy(catalog: &Catalog, nodes: &[NodeId]) -> Option<NodeId> {
    let known = catalog.nodes().iter().filter(|node| nodes.contains(&node.id));
    known.min_by_key(|node| (!node.primary, !node.preferred, node.id)).map(|node| node.id)
}

fn name(catalog: &Catalog, id: NodeId) -> &str {
    catalog.nodes().iter().find(|node| node.id == id).map_or("", |node| node.name.as_str())
}

/// `1 row moved`, `2 rows moved`.
fn rows(count: i64, what: &str) -> String {
    let rows = if count == 1 { "row" } else { "rows" };
    format!("{count} {rows} {what}").trim_end().to_owned()
}
