//! CREATE, ALTER and DROP NODE.
//!
//! `loxo node add` prepares a server first: schema `loxo` with the cluster's rows, all roles, and the schema of the primary datanode
//! as of a version of the catalog. CREATE NODE then makes it a datanode in one transaction: the version is still that one, every
//! datanode gets the row of `loxo.node`, and the new one copies of the tables that are replicated everywhere, whose writers
//! wait meanwhile. Rows of other tables stay where they are until ALTER CLUSTER REBALANCE.
//!
//! In a cluster of several databases each does so by itself, the first one first: page [`other_databases`](super::other_databases).
//!
//! The copies are made by a session of the service user: the caller's settings have no part in it.

use std::sync::Arc;

use catalog::{Catalog, Distribution, MapId, Node, NodeId, Relation, RelationKind, quote_identifier, quote_literal};
use pgerror::{PgError, Result, SqlState};
use planner::parse::NodeOptions;
use txn::Gid;

use crate::backend::own_calls::OwnCall;
use crate::backend::pool::Address;
use crate::backend::settings::Settings;
use crate::growth::other_databases::Gone;
use crate::growth::rows::{ENDS, Travel};
use crate::growth::scattered::scattered;
use crate::session::Session;
use crate::shared::catalog_load::{Row, number, text};

/// Ids of coordinators begin here, and those of gtms.
const COORDINATOR_FIRST: u16 = 1000;
const GTM_FIRST: u16 = 2000;

/// Postgres-XL's, where CREATE NODE says nothing else.
const DEFAULT_HOST: &str = "localhost";
const DEFAULT_PORT: u16 = 5432;

/// Generations that are skipped when a node leaves.
const GENERATIONS_AHEAD: u64 = 1000;

pub(super) const GENERATION: &str = "SELECT last_value FROM loxo.generation";

/// Longest wait for writers of a replicated table, or for holders of locks on a node that leaves.
const LOCK_WAIT: &str = "SET LOCAL lock_timeout = '10s'";

impl Session {
    pub(crate) async fn create_node(&mut self, name: &str, options: &NodeOptions) -> Result<()> {
        self.begin_node_command("CREATE NODE").await?;
        let loaded = self.catalog().await?;
        let catalog = &loaded.catalog;
        if known(catalog).any(|node| node.name == name) {
            return Err(PgError::new(SqlState::DUPLICATE_OBJECT, format!("PGXC Node {name}: object already defined")));
        }
        let Some(kind) = options.node_type.as_deref() else {
            return Err(PgError::new(SqlState::SYNTAX_ERROR, format!("PGXC node {name}: Node type not specified")));
        };
        if options.primary == Some(true) {
            return Err(primary_stays());
        }
        let host = options.host.clone().unwrap_or_else(|| DEFAULT_HOST.to_owned());
        let address = Address { host, port: options.port.unwrap_or(DEFAULT_PORT) };
        let preferred = options.preferred == Some(true);
        check_preferred(name, kind, preferred)?;
        match kind {
            "datanode" => {
                let mut all = self.all_databases().await?;
                let id = match self.context.is_first() {
                    true => self.next_datanode().await?,
                    false => all.id_in_first(name, &address).await?,
                };
                let mut own = self.for_the_cluster();
                own.let_join(catalog, id, name, address, preferred).await
            }
            "coordinator" => {
                let last = catalog.coordinators().iter().map(|node| node.id.0 + 1).max();
                let row = node_row(last.unwrap_or(COORDINATOR_FIRST), name, 'C', &address, preferred);
                self.change_metadata(&row).await
            }
            _ => {
                let row = node_row(next_gtm(catalog, name)?, name, 'G', &address, preferred);
                self.change_metadata(&row).await
            }
        }
    }

    /// Moves a node's address, or says that it is preferred.
    pub(crate) async fn alter_node(&mut self, name: &str, options: &NodeOptions) -> Result<()> {
        self.begin_node_command("ALTER NODE").await?;
        let loaded = self.catalog().await?;
        let node = known(&loaded.catalog).find(|node| node.name == name).ok_or_else(|| no_node(name))?;
        if options.primary.is_some_and(|primary| primary != node.primary) {
            return Err(primary_stays());
        }
        check_preferred(name, type_of(&loaded.catalog, node), options.preferred == Some(true))?;
        if options.node_type.as_deref().is_some_and(|wanted| wanted != type_of(&loaded.catalog, node)) {
            return Err(PgError::unsupported("ALTER NODE with another TYPE").hint("DROP NODE, then CREATE NODE."));
        }
        let (host, port) = (options.host.as_ref().unwrap_or(&node.host), options.port.unwrap_or(node.port));
        let mut all = match type_of(&loaded.catalog, node) {
            "datanode" => Some(self.all_databases().await?),
            _ => None,
        };
        if let Some(all) = all.as_mut().filter(|_| !self.context.is_first()) {
            all.id_in_first(name, &Address { host: host.clone(), port }).await?;
        }
        let sql = format!(
            "UPDATE loxo.node SET host = {}, port = {port}, is_preferred = {} WHERE id OPERATOR(pg_catalog.=) {}",
            quote_literal(host),
            options.preferred.unwrap_or(node.preferred),
            node.id.0
        );
        self.change_metadata(&sql).await?;
        if (host, port) != (&node.host, node.port) && self.context.members().is_configured(node) {
            let message = format!(
                "the configuration of this coordinator names an address of {}, which still counts here",
                node.name
            );
            let warning = PgError::with_severity("WARNING", SqlState::WARNING, message);
            self.notice(&warning.hint("Change the file too, and start the coordinator anew."));
        }
        Ok(())
    }

    pub(crate) async fn drop_node(&mut self, name: &str) -> Result<()> {
        self.begin_node_command("DROP NODE").await?;
        let loaded = self.catalog().await?;
        let catalog = &loaded.catalog;
        if let Some(node) = catalog.coordinators().iter().chain(catalog.gtms()).find(|node| node.name == name) {
            check_last_gtm(catalog, node)?;
            let id = node.id.0;
            return self.change_metadata(&format!("DELETE FROM loxo.node WHERE id OPERATOR(pg_catalog.=) {id}")).await;
        }
        let node = catalog.node_by_name(name).ok_or_else(|| no_node(name))?;
        check_empty(catalog, node)?;
        let all = self.all_databases().await?;
        if self.context.is_first() {
            self.no_other_database_has(&all, node, Gone::Emptied).await?;
        }
        let mut own = self.for_the_cluster();
        own.let_leave(catalog, node.id).await
    }

    /// These commands stand alone: they take their time, and end with all coordinators told.
    pub(super) async fn begin_node_command(&mut self, what: &str) -> Result<()> {
        self.require_superuser(what).await?;
        match self.in_block() {
            false => Ok(()),
            true => Err(PgError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("{what} cannot run inside a transaction block"),
            )),
        }
    }

    /// A session of the service user's, as new.
    pub(super) fn for_the_cluster(&self) -> Session {
        Session::new(self.context.clone(), self.context.service().clone(), Settings::default())
    }

    async fn let_join(
        &mut self,
        catalog: &Catalog,
        id: NodeId,
        name: &str,
        address: Address,
        preferred: bool,
    ) -> Result<()> {
        self.context.members().let_join(id, address.clone());
        let row = node_row(id.0, name, 'D', &address, preferred);
        self.atomically(async |this| {
            this.run_on(this.home, LOCK_WAIT).await?;
            this.raise_version().await?;
            this.check_prepared(id, name).await?;
            if this.context.is_first() {
                this.check_roles(id, name).await?;
            }
            let next = id.0 + 1;
            let row =
                format!("{row}; UPDATE loxo.next_datanode SET id = {next} WHERE id OPERATOR(pg_catalog.<) {next}");
            let version = "UPDATE loxo.catalog_version SET version = version OPERATOR(pg_catalog.+) 1";
            this.run_on(id, &format!("{ENDS}; {row}; {version}")).await?;
            this.run_on_members(&row).await?;
            this.run_on(this.home, ENDS).await?;
            for table in everywhere(catalog) {
                this.give_copy(table, id).await?;
            }
            this.schema_changed();
            this.give_generation(id).await
        })
        .await
    }

    async fn next_datanode(&mut self) -> Result<NodeId> {
        let rows = self.rows_on(self.home, "SELECT id FROM loxo.next_datanode").await?;
        let id = rows.first().map(|row| number(row, 0)).transpose()?;
        let id = id.map(NodeId).ok_or_else(|| PgError::internal("loxo.next_datanode is empty"))?;
        self.context.pool.roster().forget(id.0);
        Ok(id)
    }

    /// The new node has the generation of the others, and no fence comes before the commit, whose point is the home node: see the page of
    /// `txn::members`. Last, since a fence is not to wait for long.
    async fn give_generation(&mut self, id: NodeId) -> Result<()> {
        let known = self.context.gtm.known_generation();
        let may_commit = self.call_on(self.home, &[OwnCall::new("may_commit", known.to_string())]).await?;
        if may_commit.as_deref() != Some(b"t") {
            return Err(PgError::new(
                SqlState::SERIALIZATION_FAILURE,
                "another gtm has begun to lead since the command began",
            )
            .hint("Run it again."));
        }
        let rows = self.rows_on(self.home, GENERATION).await?;
        let value: i64 = rows.first().map(|row| number(row, 0)).transpose()?.unwrap_or_default();
        self.run_on(id, &format!("SELECT pg_catalog.setval('loxo.generation', {value})")).await.map(drop)
    }

    /// Is the schema of the new server that of the cluster now? The version on the home node is raised already.
    async fn check_prepared(&mut self, id: NodeId, name: &str) -> Result<()> {
        const VERSION: &str = "SELECT version FROM loxo.catalog_version";
        let now = self.rows_on(self.home, VERSION).await?;
        let prepared = self.rows_on(id, VERSION).await?;
        let of = |rows: &[Row]| rows.first().map(|row| number::<u64>(row, 0)).transpose();
        match of(&prepared)?.map(|version| version + 1) == of(&now)? {
            true => Ok(()),
            false => Err(PgError::new(
                SqlState::SERIALIZATION_FAILURE,
                format!("the schema of the cluster has changed since datanode {name} was prepared"),
            )
            .hint("`loxo node add` prepares the server again.")),
        }
    }

    /// Rows of a replicated table, and the place in its list; a table without rows of its own gets the place only.
    async fn give_copy(&mut self, table: &Relation, id: NodeId) -> Result<()> {
        let name = table.qualified_name();
        let is_replicated = matches!(table.distribution, Distribution::Replicated { .. });
        if is_replicated && table.kind == RelationKind::Table {
            self.run_on(self.home, &format!("LOCK TABLE ONLY {name} IN SHARE MODE")).await?;
            self.refuse_users_code(&[table]).await?;
            let travel = Travel::of(table);
            let what = if travel.columns.is_empty() { name.clone() } else { format!("{name} ({})", travel.columns) };
            let triggers = self.always_firing(id, &name).await?;
            for trigger in &triggers {
                self.run_on(id, &format!("ALTER TABLE {name} DISABLE TRIGGER {trigger}")).await?;
            }
            let unvalidated = self.unvalidated(id, std::slice::from_ref(&name), "c").await?;
            for constraint in &unvalidated {
                self.run_on(id, &constraint.off).await?;
            }
            self.pass_rows((self.home, &travel.copy_out(&what)), (id, &travel.copy_in(&name))).await?;
            for constraint in &unvalidated {
                self.run_on(id, &constraint.on).await?;
            }
            for trigger in &triggers {
                self.run_on(id, &format!("ALTER TABLE {name} ENABLE ALWAYS TRIGGER {trigger}")).await?;
            }
        }
        let regclass = format!("{}::pg_catalog.regclass", quote_literal(&name));
        let list = format!(
            "UPDATE loxo.class SET nodes = nodes OPERATOR(pg_catalog.||) {}::pg_catalog.int2 WHERE relid OPERATOR(pg_catalog.=) {regclass}",
            id.0
        );
        self.run_on_members(&list).await?;
        self.run_on(id, &list).await?;
        if is_replicated {
            self.run_on(id, &format!("SELECT loxo.tend_copy({regclass}, false)")).await?;
        }
        Ok(())
    }

    async fn always_firing(&mut self, id: NodeId, table: &str) -> Result<Vec<String>> {
        let sql = format!(
            "SELECT pg_catalog.quote_ident(tgname) FROM pg_catalog.pg_trigger \
             WHERE tgrelid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass AND NOT tgisinternal AND tgenabled OPERATOR(pg_catalog.=) 'A'",
            quote_literal(table)
        );
        let rows = self.rows_on(id, &sql).await?;
        let text = |value: Option<bytes::Bytes>| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
        Ok(rows.into_iter().flatten().map(text).collect())
    }

    /// The home node first: schema changes queue up there.
    pub(crate) async fn run_on_members(&mut self, sql: &str) -> Result<()> {
        let others: Vec<NodeId> = self.context.nodes().into_iter().filter(|node| *node != self.home).collect();
        self.run_on(self.home, sql).await?;
        self.run_on_all(&others, sql).await
    }

    async fn let_leave(&mut self, catalog: &Catalog, id: NodeId) -> Result<()> {
        let is_concerned = |table: &&Arc<Relation>| {
            let is_scattered = matches!(table.distribution, Distribution::RoundRobin { .. });
            table.kind == RelationKind::Table && (is_scattered || table.distribution.nodes().contains(&id))
        };
        let mut tables: Vec<String> =
            catalog.relations().filter(is_concerned).map(|table| format!("ONLY {}", table.qualified_name())).collect();
        tables.sort();
        let mut generation = None;
        let left = self.atomically(async |this| {
            this.run_on(this.home, LOCK_WAIT).await?;
            this.raise_version().await?;
            this.version_follows(catalog).await?;
            // All writers there have ended then, and nobody waits for them once the node is gone.
            if !tables.is_empty() {
                this.run_on(id, &format!("{LOCK_WAIT}; LOCK TABLE {} IN EXCLUSIVE MODE", tables.join(", "))).await?;
            }
            // Also those that have left it.
            for table in scattered(catalog) {
                let name = table.qualified_name();
                if !this.rows_on(id, &format!("SELECT FROM ONLY {name} LIMIT 1")).await?.is_empty() {
                    return Err(holds(&format!("rows of table {name}"), id.0, catalog));
                }
            }
            this.run_on_members(&format!(
                "UPDATE loxo.class SET nodes = pg_catalog.array_remove(nodes, {id}::pg_catalog.int2) \
                 WHERE {id}::pg_catalog.int2 OPERATOR(pg_catalog.=) ANY (nodes); \
                 DELETE FROM loxo.bucket_map AS m WHERE m.id OPERATOR(pg_catalog.<>) 1 AND {id}::pg_catalog.int2 OPERATOR(pg_catalog.=) ANY (m.nodes) \
                 AND NOT EXISTS (SELECT FROM loxo.class AS k WHERE k.map_id OPERATOR(pg_catalog.=) m.id); \
                 DELETE FROM loxo.node WHERE id OPERATOR(pg_catalog.=) {id}",
                id = id.0
            ))
            .await?;
            this.schema_changed();
            this.is_asked_for_nothing(id).await?;
            generation = Some(this.shut_out(id).await?);
            Ok(())
        });
        let left = left.await;
        // A sequence keeps what it was set to.
        // Unless it may have left, or a fence has come since and raised all others as far.
        if let (Err(error), Some((before, ahead))) = (&left, generation)
            && error.code() != SqlState::STATEMENT_COMPLETION_UNKNOWN
        {
            let back = format!(
                "DO $$ BEGIN LOCK TABLE loxo.fence IN EXCLUSIVE MODE; PERFORM pg_catalog.setval('loxo.generation', {before}) \
                 FROM loxo.generation WHERE last_value OPERATOR(pg_catalog.=) {ahead}; END $$"
            );
            if let Err(error) = self.context.query_as_service(id, &back).await {
                tracing::warn!(%error, node = id.0, "the generation of a datanode that stays could not be set back");
            }
        }
        left
    }

    /// No transaction of this database needs the node to come to its end.
    async fn is_asked_for_nothing(&mut self, id: NodeId) -> Result<()> {
        for node in self.context.nodes() {
            let sql =
                "SELECT gid FROM pg_catalog.pg_prepared_xacts WHERE database OPERATOR(pg_catalog.=) current_database()";
            let rows = self.rows_on(node, sql).await?;
            let gids = rows.iter().filter_map(|row| text(row, 0).ok()?.parse::<Gid>().ok());
            if let Some(gid) = gids.into_iter().find(|gid| node == id || gid.commit_point == id.0) {
                return Err(PgError::new(SqlState::OBJECT_IN_USE, format!("transaction {gid} needs the datanode"))
                    .hint(
                        "A commit under way ends within seconds; for what users have prepared, see pg_prepared_xacts.",
                    ));
            }
        }
        Ok(())
    }

    /// Nobody decides there any more: the node is ahead of all others by more than they will ever catch up, and by so little that a
    /// fence can put them all in front if we die before the commit. Gives the generation that it had, and has.
    async fn shut_out(&mut self, id: NodeId) -> Result<(i64, i64)> {
        self.run_on(id, "LOCK TABLE loxo.fence IN EXCLUSIVE MODE").await?;
        let rows = self.rows_on(id, GENERATION).await?;
        let value: i64 = rows.first().map(|row| number(row, 0)).transpose()?.unwrap_or_default();
        let ahead = value.saturating_add_unsigned(GENERATIONS_AHEAD * txn::marks::GENERATION);
        self.run_on(id, &format!("SELECT pg_catalog.setval('loxo.generation', {ahead})")).await?;
        Ok((value, ahead))
    }
}

/// Tables that new datanodes get a part in: those on all datanodes there are.
fn everywhere(catalog: &Catalog) -> Vec<&Relation> {
    let all = catalog.all_nodes();
    let mut tables: Vec<&Relation> = catalog
        .relations()
        .filter(|table| match &table.distribution {
            Distribution::Replicated { nodes } | Distribution::RoundRobin { nodes } => *nodes == all,
            _ => false,
        })
        .map(|table| &**table)
        .collect();
    tables.sort_by_key(|table| table.qualified_name());
    tables
}

/// What keeps a node from leaving, as far as the catalog tells.
fn check_empty(catalog: &Catalog, node: &catalog::Node) -> Result<()> {
    let id = node.id;
    if node.primary {
        return Err(primary_stays());
    }
    let maps = catalog.maps().filter(|(map, _)| is_used(catalog, *map));
    let buckets: usize = maps.map(|(_, map)| map.as_slice().iter().filter(|holder| **holder == id.0).count()).sum();
    if buckets > 0 {
        return Err(holds(&format!("{buckets} buckets"), id.0, catalog));
    }
    if let Some(group) = catalog.groups().iter().find(|group| group.members.contains(&id)) {
        return Err(PgError::new(
            SqlState::OBJECT_IN_USE,
            format!("datanode {} is a member of node group {}", node.name, quote_identifier(&group.name)),
        )
        .hint("ALTER NODE GROUP … DELETE NODE, or DROP NODE GROUP, first."));
    }
    refuse_last_copies(catalog, &[id])
}

/// 55006 if a table lies on no other datanodes than these.
pub(crate) fn refuse_last_copies(catalog: &Catalog, without: &[NodeId]) -> Result<()> {
    let is_alone = |table: &Relation| {
        let nodes = table.distribution.nodes();
        !nodes.is_empty() && nodes.iter().all(|node| without.contains(node))
    };
    let mut tables: Vec<String> =
        catalog.relations().filter(|table| is_alone(table)).map(|table| table.qualified_name()).collect();
    tables.sort();
    match tables.first() {
        None => Ok(()),
        Some(table) => Err(PgError::new(
            SqlState::OBJECT_IN_USE,
            format!("table {table} lies on no other datanodes than those it is to leave"),
        )
        .hint("ALTER TABLE … TO NODE (…) moves it.")),
    }
}

/// Coordinators read nothing of each other.
fn check_preferred(name: &str, kind: &str, preferred: bool) -> Result<()> {
    match preferred && kind != "datanode" {
        false => Ok(()),
        true => {
            let message = format!("PGXC node {name}: cannot be a preferred node, it has to be a Datanode");
            Err(PgError::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}

/// The word for it in CREATE NODE.
fn type_of(catalog: &Catalog, node: &Node) -> &'static str {
    let is_in = |nodes: &[Node]| nodes.iter().any(|other| other.name == node.name);
    match (is_in(catalog.nodes()), is_in(catalog.coordinators())) {
        (true, _) => "datanode",
        (_, true) => "coordinator",
        _ => "gtm",
    }
}

pub(crate) fn known(catalog: &Catalog) -> impl Iterator<Item = &Node> {
    catalog.nodes().iter().chain(catalog.coordinators()).chain(catalog.gtms())
}

/// Gtms are told apart by their place in the configuration: gtm, gtm2, …
fn next_gtm(catalog: &Catalog, name: &str) -> Result<u16> {
    let place = u16::try_from(catalog.gtms().len()).unwrap_or(u16::MAX);
    let wanted = if place == 0 { "gtm".to_owned() } else { format!("gtm{}", place + 1) };
    match name == wanted {
        true => Ok(GTM_FIRST + place),
        false => Err(PgError::new(SqlState::INVALID_PARAMETER_VALUE, format!("the next gtm's name is {wanted}"))
            .hint(format!("CREATE NODE {wanted} …, as the configuration files call it."))),
    }
}

fn check_last_gtm(catalog: &Catalog, node: &Node) -> Result<()> {
    let [.., before, last] = catalog.gtms() else {
        return match catalog.gtms().first().is_some_and(|only| only.id == node.id) {
            false => Ok(()),
            true => Err(PgError::new(SqlState::OBJECT_IN_USE, "a cluster cannot do without a gtm")),
        };
    };
    match node.id < last.id && node.id >= catalog.gtms()[0].id {
        false => Ok(()),
        true => Err(PgError::new(SqlState::OBJECT_IN_USE, format!("{} is not the last of the gtms", node.name))
            .detail("They are told apart by their place in the configuration.")
            .hint(format!(
                "Drop {} first, or give {} the address of another one by ALTER NODE.",
                last.name, before.name
            ))),
    }
}

/// A map stays when the last table over it is dropped.
fn is_used(catalog: &Catalog, wanted: MapId) -> bool {
    let goes_by_it = |table: &Relation| match &table.distribution {
        Distribution::Hash { map_id, .. } | Distribution::Modulo { map_id, .. } => *map_id == wanted,
        _ => false,
    };
    wanted == MapId::OF_ALL || catalog.relations().any(|table| goes_by_it(table))
}

fn holds(what: &str, id: u16, catalog: &Catalog) -> PgError {
    let name = catalog.nodes().iter().find(|node| node.id.0 == id).map_or("", |node| node.name.as_str());
    PgError::new(SqlState::OBJECT_IN_USE, format!("datanode {name} still holds {what}")).hint(format!(
        "ALTER CLUSTER REBALANCE WITHOUT NODE ({}) empties it; `loxo node remove` does both.",
        quote_identifier(name)
    ))
}

pub(super) fn primary_stays() -> PgError {
    PgError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "the primary datanode cannot leave, nor be another one by a statement",
    )
    .hint("`loxo node primary NAME` makes another one the primary, while no coordinator runs.")
}

fn node_row(id: u16, name: &str, kind: char, address: &Address, preferred: bool) -> String {
    format!(
        "INSERT INTO loxo.node (id, name, type, host, port, is_preferred) VALUES ({id}, {}, '{kind}', {}, {}, {preferred})",
        quote_literal(name),
        quote_literal(&address.host),
        address.port
    )
}

pub(crate) fn no_node(name: &str) -> PgError {
    PgError::new(SqlState::UNDEFINED_OBJECT, format!("datanode {} does not exist", quote_identifier(name)))
        .hint("SELECT node_name FROM pgxc_node lists the nodes.")
}
