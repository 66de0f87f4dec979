//! DROP NODE … LOST: a datanode that does not answer, and will not any more, is taken out of the cluster with what it alone held.
//!
//! ```text
//!  the node       does not answer? A server that is behind the generation of the first mark is an old copy, and none
//!  home           loxo.lost_datanode gets its id: the gtm goes on without it (page `txn::members`), and so can decide what follows
//!  all the others, in one transaction, as a schema change
//!                 its buckets go to the others, evenly, and are empty there
//!                 it leaves the lists of tables and groups; a table that lay there alone lies on the primary datanode, empty
//!                 it leaves loxo.node
//! ```
//!
//! Rows of the others stay as they are. What was prepared on them and only the lost node could decide recovery ends
//! (page `txn::recovery`).
//!
//! Each database does so by itself, with a gtm's work of its own, and the first one last (page [`other_databases`](super::other_databases)).
//!
//! If the server comes back, it is none of the cluster's: its id is not listed and never given again, and `loxo node add` refuses
//! a server that holds rows.

use std::collections::BTreeMap;
use std::time::Duration;

use catalog::{Catalog, MapId, NodeId};
use pgerror::{PgError, Result, SqlState};
use pgproto::Connection;
use placement::BucketMap;
use tokio::time::{sleep, timeout};

use crate::backend::isolation::SnapshotMode;
use crate::backend::own_calls::OwnCall;
use crate::growth::nodes::{GENERATION, no_node, primary_stays};
use crate::growth::other_databases::Gone;
use crate::session::Session;
use crate::shared::catalog_load::number;

/// A server that is just started again answers before.
const TRIES: u32 = 3;
const TRY_PAUSE: Duration = Duration::from_secs(1);
const ANSWER_MAX: Duration = Duration::from_secs(3);

const LOCK_WAIT: &str = "SET LOCAL lock_timeout = '10s'";

impl Session {
    pub(crate) async fn drop_lost_nodes(&mut self, names: &[String]) -> Result<()> {
        self.begin_node_command("DROP NODE").await?;
        let all = self.all_databases().await?;
        let loaded = self.catalog().await?;
        let catalog = &loaded.catalog;
        let mut lost = Vec::new();
        for name in names {
            let node = catalog.node_by_name(name).ok_or_else(|| no_node(name))?;
            if node.primary {
                return Err(primary_stays());
            }
            if self.context.is_first() {
                self.no_other_database_has(&all, node, Gone::Lost).await?;
            }
            lost.push(node.id);
        }
        let marks = self.marks().await?;
        for (name, id) in names.iter().zip(&lost) {
            if let Some(said) = self.answer_of(*id, marks.get(id).copied()).await {
                // An earlier call that was interrupted may have noted it.
                self.note_lost(&lost, false).await?;
                return Err(answers(name, said));
            }
        }
        self.note_lost(&lost, true).await?;
        txn::control_point!("lost-noted");
        let mut own = self.for_the_cluster();
        // What is in doubt on the others may be so until this is done.
        own.settings_mut().set_snapshot(SnapshotMode::Local, false);
        let left = own.let_go(catalog, &lost).await;
        if left.as_ref().is_err_and(|error| error.code() != SqlState::STATEMENT_COMPLETION_UNKNOWN) {
            self.note_lost(&lost, false).await?;
        }
        left
    }

    /// Datanodes that an earlier call has noted, with the generation of that time.
    async fn marks(&mut self) -> Result<BTreeMap<NodeId, u64>> {
        let rows = self.rows_on(self.home, "SELECT id, generation FROM loxo.lost_datanode").await?;
        rows.iter().map(|row| Ok((NodeId(number(row, 0)?), number(row, 1)?))).collect()
    }

    /// What it says, if it says anything; an error counts, but for one of the connection, and for another server than the datanode. One
    /// that is marked has missed the fences since then: of later ones it knows nothing.
    async fn answer_of(&self, id: NodeId, mark: Option<u64>) -> Option<Option<String>> {
        let options = self.context.own_options();
        let mut options = options.get(id.0)?.clone();
        if mark.is_some() {
            options.proof = Some(self.context.pool.roster().regardless_of_generation().proof(id.0));
        }
        for turn in 0..TRIES {
            if turn > 0 {
                sleep(TRY_PAUSE).await;
            }
            let ask = async { Connection::connect(&options).await?.query_rows(GENERATION).await };
            match timeout(ANSWER_MAX, ask).await {
                Ok(Ok(rows)) => {
                    let generation = rows.first().and_then(|row| number::<u64>(row, 0).ok());
                    let is_old_copy = mark.is_some_and(|since| generation.is_none_or(|generation| generation < since));
                    if !is_old_copy {
                        return Some(None);
                    }
                }
                Ok(Err(error)) if !is_silence(&error) => return Some(Some(error.message().into_owned())),
                Ok(Err(_)) | Err(_) => {}
            }
        }
        None
    }

    async fn note_lost(&self, lost: &[NodeId], are_lost: bool) -> Result<()> {
        let ids = id_array(lost);
        let sql = match are_lost {
            // What coordinators have been told every datanode had by then. The primary one may be further already.
            true => format!(
                "INSERT INTO loxo.lost_datanode (id, generation) SELECT m.id, {} \
                 FROM pg_catalog.unnest({ids}) AS m (id) ON CONFLICT (id) DO NOTHING",
                self.context.gtm.known_generation()
            ),
            false => format!("DELETE FROM loxo.lost_datanode WHERE id OPERATOR(pg_catalog.=) ANY ({ids})"),
        };
        self.context.query_as_service(self.home, &sql).await.map(drop)
    }

    async fn let_go(&mut self, catalog: &Catalog, lost: &[NodeId]) -> Result<()> {
        let home = self.home;
        let changes = changes(catalog, lost, home);
        self.atomically(async |this| {
            this.run_on(home, LOCK_WAIT).await?;
            let nodes = this.context.nodes().into_iter();
            let others: Vec<NodeId> = nodes.filter(|node| *node != home && !lost.contains(node)).collect();
            // As `raise_version` does on all nodes.
            if let Some(block) = &mut this.block {
                block.version_raised = true;
            }
            let raise = OwnCall::new("begin_schema_change", "");
            this.call_on(home, std::slice::from_ref(&raise)).await?;
            this.call_on_all(&others, &raise).await?;
            this.version_follows(catalog).await?;
            this.run_on(home, &format!("{changes}; {}", only_at_home(lost))).await?;
            this.run_on_all(&others, &changes).await?;
            this.schema_changed();
            txn::control_point!("lost-changed");
            Ok(())
        })
        .await
    }
}

fn answers(name: &str, said: Option<String>) -> PgError {
    let said = said.map_or(String::new(), |said| format!(": {said}"));
    PgError::new(SqlState::OBJECT_IN_USE, format!("datanode {name} answers, and is not lost{said}")).hint(
        "`loxo node remove` moves its rows to the other datanodes first. A server that is to be given up must not run.",
    )
}

fn id_array(ids: &[NodeId]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| id.0.to_string()).collect();
    format!("'{{{}}}'::pg_catalog.int2[]", ids.join(","))
}

/// Nobody says anything, or it is not the datanode who does. A server whose certificate is out of date does say something.
fn is_silence(error: &PgError) -> bool {
    let is_broken = error.code().as_str().starts_with("08") && error.code() != SqlState::PROTOCOL_VIOLATION;
    is_broken || error.code() == SqlState::CONFIG_FILE_ERROR
}

/// The metadata without the nodes.
fn changes(catalog: &Catalog, lost: &[NodeId], home: NodeId) -> String {
    let home = home.0;
    let mut changes = Vec::new();
    for id in lost {
        let gone = format!("{}::pg_catalog.int2", id.0);
        changes.push(format!(
            "UPDATE loxo.class SET nodes = CASE WHEN {gone} OPERATOR(pg_catalog.=) ALL (nodes) THEN ARRAY[{home}]::pg_catalog.int2[] \
             ELSE pg_catalog.array_remove(nodes, {gone}) END WHERE {gone} OPERATOR(pg_catalog.=) ANY (nodes)"
        ));
        changes.push(format!(
            "UPDATE loxo.node_group SET members = pg_catalog.array_remove(members, {gone}) WHERE {gone} OPERATOR(pg_catalog.=) ANY (members)"
        ));
    }
    changes
        .push("DELETE FROM loxo.node_group WHERE pg_catalog.cardinality(members) OPERATOR(pg_catalog.=) 0".to_owned());
    changes.push(format!("DELETE FROM loxo.node WHERE id OPERATOR(pg_catalog.=) ANY ({})", id_array(lost)));
    let is_concerned = |map: &BucketMap| lost.iter().any(|id| map.nodes().contains(&id.0));
    for (map, slots) in catalog.maps().filter(|(_, map)| is_concerned(map)) {
        let slots: Vec<String> = without(catalog, map, slots, lost, home).iter().map(u16::to_string).collect();
        changes.push(format!(
            "UPDATE loxo.bucket_map SET nodes = '{{{}}}'::pg_catalog.int2[] WHERE id OPERATOR(pg_catalog.=) {}",
            slots.join(","),
            map.0
        ));
    }
    changes.join("; ")
}

/// Where the buckets lie afterwards: those of the others where they were, since their rows do not move now.
fn without(catalog: &Catalog, map: MapId, slots: &BucketMap, lost: &[NodeId], home: u16) -> Vec<u16> {
    let members = match map == MapId::OF_ALL {
        true => catalog.all_nodes().into_iter().map(|node| node.0).collect(),
        false => slots.nodes().to_vec(),
    };
    let mut kept: Vec<u16> = members.into_iter().filter(|node| !lost.contains(&NodeId(*node))).collect();
    if kept.is_empty() {
        kept.push(home);
    }
    let mut after = slots.as_slice().to_vec();
    for (bucket, from, to) in slots.rebalanced(&kept) {
        if lost.contains(&NodeId(from)) {
            after[usize::from(bucket)] = to;
        }
    }
    after
}

/// What users have prepared is ended without them, and a rebalance that was to empty one has nothing to do any more.
fn only_at_home(lost: &[NodeId]) -> String {
    let mut changes = Vec::new();
    for id in lost {
        let gone = format!("{}::pg_catalog.int2", id.0);
        changes.push(format!(
            "UPDATE loxo.prepared_transaction SET nodes = pg_catalog.array_remove(nodes, {gone}) WHERE {gone} OPERATOR(pg_catalog.=) ANY (nodes); \
             UPDATE loxo.rebalance SET state = 'cancelled', message = 'a datanode that was to be emptied was given up' \
                 WHERE {gone} OPERATOR(pg_catalog.=) ANY (without) \
                 AND state OPERATOR(pg_catalog.=) ANY ('{{running,paused,failed}}'::pg_catalog.text[]); \
             UPDATE loxo.rebalance SET without = pg_catalog.array_remove(without, {gone})"
        ));
    }
    changes.join("; ")
}
