//! The session's transaction over all its nodes: how it begins and ends.
//!
//! * [`begin`]: BEGIN, savepoints; here: COMMIT and ROLLBACK; [`prepared`]: PREPARE TRANSACTION and what follows.
//! * [`serializable`]: SERIALIZABLE over the cluster; [`exclusive_lock`]: keeping other writers off a table on several nodes.
//! * [`suspended`]: a block that is suspended while others work for it.
//!
//! Invariant: it is committed on all nodes or on none; a part that cannot be ended is thrown away with its connection.

pub(crate) mod begin;
pub(crate) mod exclusive_lock;
pub(crate) mod prepared;
pub(crate) mod serializable;
pub(crate) mod suspended;

use catalog::NodeId;
use pgerror::{PgError, Result, SqlState};
use pgproto::TransactionStatus;
use std::collections::BTreeMap;
use std::sync::Arc;
use txn::{GtmClient, Participant};

use crate::backend::leased::LeasedConnection;
use crate::backend::own_calls::OwnCall;
use crate::backend::slot::Slot;
use crate::block::Mode;
use crate::session::Session;
use crate::shared::catalog_load::{self, Known, Loaded};

/// Longest wait of a schema change for a gtm that is away.
pub(crate) const GTM_WAIT: std::time::Duration = std::time::Duration::from_secs(5);

/// Nodes with something to commit, and the ids of their transactions where they are known.
type Writers = BTreeMap<Slot, Option<u64>>;

/// The right to commit a schema change: no coordinator uses a catalog from before it until this is dropped.
struct Announced {
    _own: txn::InvalidationGuard,
    /// In the cluster's first database, from another one.
    _first: Option<txn::InvalidationGuard>,
}

impl Session {
    /// Commits the block on all its nodes or on none. A failed block is rolled back, as COMMIT does in PostgreSQL; gives
    /// the command tag.
    pub async fn commit(&mut self) -> Result<&'static str> {
        let Some(block) = &self.block else { return Ok("COMMIT") };
        if block.failed {
            self.rollback().await;
            return Ok("ROLLBACK");
        }
        if self.is_torn() {
            self.rollback().await;
            return Err(PgError::connection("a datanode was lost in this transaction, which is rolled back"));
        }
        let schema_changed = block.schema_changed;
        self.close_cursor_holder().await;
        let guard = match schema_changed {
            true => Some(self.announce_schema_change().await),
            false => None,
        };
        let result = match guard {
            Some(Err(error)) => Err(error),
            Some(Ok(guard)) => {
                let result = self.commit_participants().await;
                drop(guard);
                result
            }
            None => self.commit_participants().await,
        };
        match result {
            Ok(()) => {
                self.settings_committed();
                self.channels_committed();
                self.end_block();
                Ok("COMMIT")
            }
            Err(error) => {
                self.fail();
                self.rollback().await;
                Err(error)
            }
        }
    }

    /// Has every coordinator drop its catalog; see the page of `load` for the lock. Schema changes come one by one from here to
    /// their commit, not earlier: they may have been made side by side.
    async fn announce_schema_change(&mut self) -> Result<Announced> {
        // Deferred constraints may wait for a session which would wait for the end of this schema change from here on.
        let nodes: Vec<Slot> = self.links.begun();
        let gtm = self.context.gtm.clone();
        let was_connected = self.is_connected(&gtm).await?;
        self.links.broadcast(&nodes, "SET CONSTRAINTS ALL IMMEDIATE").await?;
        self.raise_version().await?;
        self.call_on(self.home, &[OwnCall::new("lock_for_commit", "")]).await?;
        let own = self.invalidate_catalogs(&gtm, was_connected).await?;
        // What databases share may have changed: roles and their settings.
        let first = match self.context.is_first() {
            true => None,
            false => {
                let gtm = self.context.first().gtm.clone();
                let was_connected = self.is_connected(&gtm).await?;
                Some(self.invalidate_catalogs(&gtm, was_connected).await?)
            }
        };
        Ok(Announced { _own: own, _first: first })
    }

    async fn is_connected(&mut self, gtm: &GtmClient) -> Result<bool> {
        // A gtm that was just started again is found within a second or two. Otherwise `invalidate_catalogs` below fails.
        let connected = tokio::time::timeout(GTM_WAIT, gtm.connected());
        Ok(self.links.cancel().interrupt().or(connected).await?.is_ok())
    }

    async fn invalidate_catalogs(&mut self, gtm: &GtmClient, was_connected: bool) -> Result<txn::InvalidationGuard> {
        let announced = self.links.cancel().interrupt().or(gtm.invalidate_catalogs()).await?;
        match announced {
            // One of the two has stood still for the length of a lease: that ends their connection, and they make another.
            Err(error) if was_connected && error.code() == SqlState::CANNOT_CONNECT_NOW => {
                self.is_connected(gtm).await?;
                self.links.cancel().interrupt().or(gtm.invalidate_catalogs()).await?
            }
            announced => announced,
        }
    }

    /// Once a transaction; the home node's row first, and with it the right to be next.
    pub(crate) async fn raise_version(&mut self) -> Result<()> {
        let raise = OwnCall::new("begin_schema_change", "");
        let Some(block) = self.block.as_mut().filter(|block| !block.version_raised) else { return Ok(()) };
        block.version_raised = true;
        let changed_on = block.changed_on.clone();
        let members = self.call_on(self.home, std::slice::from_ref(&raise)).await?.unwrap_or_default();
        let members: Vec<u16> = catalog_load::numbers(Some(&String::from_utf8_lossy(&members)))?;
        if changed_on.is_some_and(|nodes| nodes.iter().map(|node| node.0).ne(members.iter().copied())) {
            return Err(PgError::new(
                SqlState::SERIALIZATION_FAILURE,
                "a datanode has joined or left the cluster since this transaction began to change the schema",
            )
            .hint("Run the transaction again."));
        }
        let others: Vec<NodeId> = self.context.nodes().into_iter().filter(|node| *node != self.home).collect();
        self.call_on_all(&others, &raise).await
    }

    /// [`Session::raise_version`] for a transaction that changes bucket maps and nothing else of the catalog.
    pub(crate) async fn raise_version_for_maps(&mut self) -> Result<()> {
        const RAISE: &str = "UPDATE loxo.catalog_version SET version = version OPERATOR(pg_catalog.+) 1, \
                             moves = moves OPERATOR(pg_catalog.+) 1";
        if let Some(block) = &mut self.block {
            block.version_raised = true;
        }
        self.run_on(self.home, RAISE).await?;
        let others: Vec<NodeId> = self.context.nodes().into_iter().filter(|node| *node != self.home).collect();
        self.run_on_all(&others, RAISE).await
    }

    async fn commit_participants(&mut self) -> Result<()> {
        let nodes: Vec<Slot> = self.links.begun();
        self.links.opened(&nodes).await?;
        // With several nodes this is asked together with what they wrote.
        if nodes.len() == 1 {
            self.run_deferred_read_barriers().await?;
        }
        self.note_notifier();
        let writers = match nodes.len() {
            0 => return Ok(()),
            1 => {
                self.links.opened(&nodes).await?;
                // Not in the gate: the check may wait for rows of others.
                if self.defers_constraints() {
                    self.links.broadcast(&nodes, "SET CONSTRAINTS ALL IMMEDIATE").await?;
                }
                nodes.iter().map(|node| (*node, None)).collect()
            }
            _ => self.writers(&nodes).await?,
        };
        let commit_point = self.commit_point(&nodes, &writers)?;
        let (nodes, writers, commit_point) = match writers.len() > 1 && self.takes_no_decision(commit_point).await? {
            true => self.with_decider(nodes, writers).await?,
            false => (nodes, writers, commit_point),
        };
        let context = self.context.clone();
        let seal = context.seal().await?;
        // Nobody but a superuser may look at decisions.
        let inquiry = context.own_options();
        let cancel = self.links.cancel().clone();
        let at = nodes.iter().position(|slot| *slot == commit_point).unwrap_or(0);
        let mut participants: Vec<Participant<'_>> = self
            .links
            .of(&nodes)
            .map(|(slot, leased)| Participant {
                node: slot.node().0,
                connection: &mut leased.link.connection,
                wrote: writers.contains_key(&slot),
                xid: writers.get(&slot).copied().flatten(),
            })
            .collect();
        let tools = txn::CommitTools {
            seal: &seal,
            ids: &context.gids,
            nodes: &inquiry,
            gtm: &context.gtm,
            interrupt: cancel.interrupt(),
        };
        let committed = txn::commit(&mut participants, at, &tools).await;
        if committed.as_ref().is_err_and(|error| error.code() == SqlState::STATEMENT_COMPLETION_UNKNOWN) {
            nodes.iter().for_each(|slot| context.raise_doubt(slot.node()));
        }
        let outcome = committed?;
        if !outcome.unresolved.is_empty() {
            outcome.unresolved.iter().for_each(|node| context.raise_doubt(NodeId(*node)));
            self.causality.behind(&outcome.unresolved);
            self.notices.extend(unresolved_warning(&outcome.unresolved));
        }
        Ok(())
    }

    /// Nodes that were to pass a read barrier before the end of the transaction at the latest are told so: a session that sees its
    /// rows sees what the session saw before. The answer is still to be read.
    pub(crate) async fn run_deferred_read_barriers(&mut self) -> Result<()> {
        let nodes: Vec<Slot> = self.links.nodes_where(|leased| leased.owes_read_barrier);
        for node in nodes {
            self.acquire(node, Mode::InBlock).await?;
        }
        Ok(())
    }

    /// Which nodes have something to commit, and in which transactions of theirs. They are asked, since any function may have written.
    async fn writers(&mut self, nodes: &[Slot]) -> Result<Writers> {
        for node in nodes {
            self.links.link(*node)?.ask_whether_wrote();
        }
        let work = self.links.of(nodes).map(|(slot, leased)| async move {
            leased.flush().await?;
            leased.skip_preamble().await?;
            let (rows, _) = leased.link.connection.read_rows().await?;
            leased.asked_whether_wrote = false;
            let xid = rows.first().and_then(|row| row.first()?.as_deref()).map(transaction_id).transpose()?;
            // What cannot be prepared, a cursor WITH HOLD say, must not be done before it is decided.
            let wrote = leased.temp || xid.is_some();
            Ok::<_, PgError>(wrote.then_some((slot, xid)))
        });
        let answers = futures_util::future::join_all(work).await;
        answers.into_iter().filter_map(Result::transpose).collect()
    }

    /// The participant that commits without being prepared: one that cannot be prepared, if there is one.
    fn commit_point(&self, nodes: &[Slot], writers: &Writers) -> Result<Slot> {
        let temp = self.links.nodes_where(|leased| leased.temp);
        let unpreparable: Vec<Slot> = temp.into_iter().filter(|slot| writers.contains_key(slot)).collect();
        match unpreparable.as_slice() {
            // The metadata on it are those that count.
            [] if self.schema_has_changed() && writers.contains_key(&Slot::from(self.home)) => Ok(self.home.into()),
            [] => Ok(writers.keys().next().or(nodes.first()).copied().unwrap_or(self.home.into())),
            [one] => Ok(*one),
            _ => Err(PgError::unsupported("a transaction with temporary objects on several nodes")),
        }
    }

    /// May this node write no row any more? Some may have been written before, and ANALYZE and the like write even so. What was set since
    /// a savepoint is taken back with it, so the node says.
    async fn takes_no_decision(&mut self, at: Slot) -> Result<bool> {
        let is_own = self.block.as_ref().is_some_and(|block| block.is_own);
        let may = self.is_read_only() || is_own && self.settings().default_read_only();
        if !may {
            return Ok(false);
        }
        let rows = self.rows_on(at, "SHOW transaction_read_only").await?;
        Ok(rows.iter().flatten().flatten().any(|value| value.as_ref() == b"on"))
    }

    /// Adds a participant that may write, and decides.
    async fn with_decider(&mut self, mut nodes: Vec<Slot>, mut writers: Writers) -> Result<(Vec<Slot>, Writers, Slot)> {
        let decider = self.beside_home();
        self.acquire(decider, Mode::Autocommit).await?;
        let leased = self.links.link(decider)?;
        leased.begun = true;
        leased.link.connection.query(b"BEGIN READ WRITE");
        leased.flush().await?;
        leased.finish().await?;
        self.links.cancel().set_in_transaction(decider, true);
        nodes.push(decider);
        writers.insert(decider, None);
        Ok((nodes, writers, decider))
    }

    fn schema_has_changed(&self) -> bool {
        self.block.as_ref().is_some_and(|block| block.schema_changed)
    }

    /// Rolls the block back everywhere. Links that do not answer are thrown away, which rolls back there too.
    pub async fn rollback(&mut self) {
        let mut participants: Vec<Participant<'_>> = Vec::new();
        for (slot, leased) in self.links.iter_mut().filter(|(_, leased)| leased.begun) {
            // An answer that was not read to its end, BEGIN's perhaps, comes before that of ROLLBACK.
            if leased.drain().await {
                participants.push(Participant {
                    node: slot.node().0,
                    connection: &mut leased.link.connection,
                    wrote: true,
                    xid: None,
                });
            }
        }
        txn::rollback(&mut participants).await;
        self.notified = false;
        self.settings_rolled_back();
        self.end_block();
    }

    /// A transaction that has failed gives its locks up at once, as in PostgreSQL, not only when the client has rolled it
    /// back: those since the last savepoint, or all. To be called after each error. (The node of the error has done so itself.)
    pub async fn give_up_locks(&mut self) {
        let Some(block) = self.block.as_ref().filter(|block| block.failed) else { return };
        let savepoint = block.last_savepoint().map(catalog::quote_identifier);
        let is_open = |leased: &LeasedConnection| {
            let connection = &leased.link.connection;
            leased.begun && connection.is_drained() && connection.status() == TransactionStatus::InTransaction
        };
        let open: Vec<Slot> = self.links.nodes_where(is_open);
        let sql = savepoint.as_ref().map_or("ROLLBACK".to_owned(), |name| format!("ROLLBACK TO SAVEPOINT {name}"));
        if self.links.broadcast(&open, &sql).await.is_err() || savepoint.is_some() {
            // A node that could not do it has lost its connection, or keeps its transaction until the client ends it.
            return;
        }
        for node in open {
            self.links.cancel().set_in_transaction(node, false);
            if let Some(leased) = self.links.get_mut(node) {
                leased.begun = false;
                leased.temp = false;
            }
        }
    }

    pub(crate) fn end_block(&mut self) {
        self.statement_finished();
        self.names_restored();
        self.node_span_ended();
        self.block = None;
        self.shared_objects = None;
        self.settings_mut().block_ended();
        self.links.block_ended();
        self.release();
    }

    /// The catalog as this session sees it.
    pub async fn catalog(&mut self) -> Result<Arc<Loaded>> {
        let loaded = match &self.block {
            Some(block) if block.schema_changed => match &block.catalog {
                Some(loaded) => loaded.clone(),
                None => self.load_own_catalog().await?,
            },
            _ => match self.context.current_catalog() {
                Some(loaded) => loaded,
                None => Box::pin(self.links.cancel().interrupt().or(self.context.catalog())).await??,
            },
        };
        self.note_catalog(&loaded.catalog);
        Ok(loaded)
    }

    /// After DDL of its own a transaction sees a catalog nobody else has.
    async fn load_own_catalog(&mut self) -> Result<Arc<Loaded>> {
        let home = self.home;
        let version = self.context.next_own_version();
        let epoch = self.context.epoch();
        self.acquire(home, Mode::InBlock).await?;
        let leased = self.links.link(home)?;
        leased.flush().await?;
        leased.skip_preamble().await?;
        let (builtins, definitions) = (self.context.builtins.clone(), self.context.definitions.clone());
        let known = Known { builtins: &builtins, definitions: &definitions, before: None };
        let catalog = catalog_load::load(&mut self.links.link(home)?.link.connection, Some(version), &known).await?;
        let loaded = Arc::new(Loaded { catalog: Arc::new(catalog), epoch });
        if let Some(block) = &mut self.block {
            block.catalog = Some(loaded.clone());
        }
        self.learn_own_types(&loaded.catalog).await?;
        Ok(loaded)
    }
}

fn transaction_id(value: &[u8]) -> Result<u64> {
    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| PgError::internal("a datanode's transaction id is not a number"))
}

pub(crate) fn unresolved_warning(nodes: &[u16]) -> Option<pgproto::Frame> {
    let list: Vec<String> = nodes.iter().map(u16::to_string).collect();
    let warning = PgError::with_severity(
        "WARNING",
        SqlState::WARNING,
        format!("the transaction is committed, but datanode {} has not confirmed it yet", list.join(", ")),
    )
    .hint("It will as soon as it is reachable again; until then its rows of this transaction are locked.");
    let mut body = bytes::BytesMut::new();
    warning.encode_body(&mut body);
    Some(pgproto::Frame { tag: pgproto::backend::tag::NOTICE, body: body.freeze() })
}
