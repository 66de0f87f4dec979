//! Named portals of a transaction: bound on several nodes at one moment, executed later.

use bytes::Bytes;
use catalog::NodeId;
use futures_util::future::join_all;
use pgerror::{PgError, Result, field};
use pgproto::backend::tag;
use pgproto::connection::unexpected;
use pgproto::frontend::{self, Bind, Target};

use crate::backend::call::Call;
use crate::backend::call::Parameters;
use crate::backend::leased::LeasedConnection;
use crate::backend::links::LinkSet;
use crate::backend::own_statements::Own;
use crate::backend::slot::Slot;

/// A SELECT that is to run on several nodes in the state of one global snapshot.
pub(crate) struct Portal {
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) sql: String,
    result_formats: Vec<i16>,
    pub(crate) name: Bytes,
    /// Its statement may come again.
    pub(crate) is_kept: bool,
}

impl Portal {
    pub(crate) fn new(number: usize, nodes: &[NodeId], sql: &str, result_formats: Vec<i16>) -> Self {
        Self {
            nodes: nodes.to_vec(),
            sql: sql.to_owned(),
            result_formats,
            name: format!("loxo_portal_{number}").into(),
            is_kept: false,
        }
    }

    /// With a statement that the backends keep, or without.
    pub(crate) fn kept(self, is_kept: bool) -> Self {
        Self { is_kept, ..self }
    }
}

pub(crate) fn nodes_of(portals: &[&Portal]) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = portals.iter().flat_map(|portal| portal.nodes.clone()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

impl LinkSet {
    /// Binds portals that have been parsed; gives the generations of their nodes, read after it.
    pub(crate) async fn bind_portals(
        &mut self,
        portals: &[&Portal],
        parameters: &Parameters,
    ) -> Result<Vec<Option<i64>>> {
        let nodes = nodes_of(portals);
        for (slot, link) in self.of(&nodes) {
            on(slot, portals).for_each(|portal| link.bind_portal(portal, parameters));
            link.bind_generation();
        }
        self.portal_answers(&nodes).await
    }

    /// Closes portals that were bound in vain.
    pub(crate) async fn close_portals(&mut self, portals: &[&Portal]) -> Result<()> {
        let nodes = nodes_of(portals);
        for (slot, link) in self.of(&nodes) {
            on(slot, portals).for_each(|portal| link.close_portal(&portal.name));
            link.link.connection.sync();
        }
        self.portal_answers(&nodes).await.map(|_| ())
    }

    /// Reads the generation on all of these nodes at once, which takes a snapshot.
    pub(crate) async fn generations(&mut self, nodes: &[NodeId]) -> Result<Vec<Option<i64>>> {
        for node in nodes {
            self.link(*node)?.bind_generation();
        }
        self.portal_answers(nodes).await
    }

    /// Sends what is queued on these links, up to a Sync each, and reads the answers; the first error wins.
    pub(crate) async fn portal_answers(&mut self, nodes: &[NodeId]) -> Result<Vec<Option<i64>>> {
        let work = self.of(nodes).map(|(_, leased)| async {
            leased.flush().await?;
            leased.portal_answers().await
        });
        join_all(work).await.into_iter().collect()
    }
}

/// Those that are on this node.
fn on<'p>(slot: Slot, portals: &'p [&'p Portal]) -> impl Iterator<Item = &'p Portal> {
    portals.iter().copied().filter(move |portal| portal.nodes.contains(&slot.node()))
}

impl LeasedConnection {
    /// Queues what gives a portal its statement, and the transaction the locks of its tables. Of one that is `kept`, with the version
    /// of the schema, those come by parsing a text that is not: PostgreSQL would compare its columns with those of before once it has the
    /// locks.
    pub(crate) fn parse_portal(&mut self, portal: &Portal, call: &Call, kept: Option<(Option<String>, u64)>) {
        // What an earlier statement of this name, cancelled half-way perhaps, has left.
        frontend::close(self.link.connection.out(), Target::Portal, &portal.name);
        self.portal_statements.retain(|(name, _)| *name != portal.name);
        let types = call.fragment_types(&portal.sql);
        if let Some((locking, version)) = kept
            && let Some((statement, was_there)) = self.prepare_to_keep(&portal.sql, &types, version)
        {
            if was_there {
                let (text, types) = locking.as_deref().map_or((&*portal.sql, &*types), |text| (text, &[]));
                frontend::parse(self.link.connection.out(), b"", text.as_bytes(), types);
                self.parsing.push_back(None);
            }
            self.portal_statements.push((portal.name.clone(), statement));
            return;
        }
        let out = self.link.connection.out();
        frontend::close(out, Target::Statement, &portal.name);
        frontend::parse(out, &portal.name, portal.sql.as_bytes(), &types);
        self.parsing.push_back(None);
    }

    fn bind_portal(&mut self, portal: &Portal, parameters: &Parameters) {
        let kept = self.portal_statements.iter().find(|(name, _)| *name == portal.name);
        let bind = Bind {
            portal: portal.name.clone(),
            statement: kept.map_or_else(|| portal.name.clone(), |(_, statement)| statement.clone()),
            parameter_formats: parameters.formats.clone(),
            parameters: parameters.values.clone(),
            result_formats: portal.result_formats.clone(),
        };
        frontend::bind(self.link.connection.out(), &bind);
    }

    /// After the portals: the generation read is at least as new as their snapshots.
    fn bind_generation(&mut self) {
        Own::Generation.queue(&mut self.link.connection);
        self.link.connection.sync();
    }

    fn close_portal(&mut self, name: &[u8]) {
        frontend::close(self.link.connection.out(), Target::Portal, name);
    }

    /// Queues the execution of a bound portal, which is closed at its end.
    pub(crate) fn execute_portal(&mut self, name: &[u8], describe: bool) {
        let out = self.link.connection.out();
        if describe {
            frontend::describe(out, Target::Portal, name);
        }
        frontend::execute(out, name, 0);
        frontend::close(out, Target::Portal, name);
        self.link.connection.sync();
    }

    /// Queues the execution of a bound portal for no more than so many rows, without a Sync.
    pub(crate) fn execute_some(&mut self, name: &[u8], rows: i32) {
        let out = self.link.connection.out();
        frontend::execute(out, name, rows);
        frontend::close(out, Target::Portal, name);
    }

    /// Reads up to ReadyForQuery; gives the generation if it was among the answers.
    async fn portal_answers(&mut self) -> Result<Option<i64>> {
        self.skip_preamble().await?;
        let (mut read, mut failure) = (None, None);
        loop {
            let frame = self.link.connection.recv().await?;
            match frame.tag {
                tag::READY_FOR_QUERY => {
                    let Some(error) = failure else { return Ok(read) };
                    self.give_up_without_statements(&error);
                    return Err(error);
                }
                tag::DATA_ROW => {
                    let row = pgproto::backend::decode_data_row(frame.body)?;
                    read = row.first().and_then(|value| generation(value.as_deref()?));
                }
                tag::ERROR => failure = Some(in_users_words(PgError::decode_body(frame.body))),
                tag::PARSE_COMPLETE => drop(self.parsing.pop_front()),
                tag::BIND_COMPLETE | tag::CLOSE_COMPLETE | tag::COMMAND_COMPLETE => {}
                other => return Err(unexpected(other, "the binding of portals")),
            }
        }
    }
}

/// An error about a parameter names the portal that it was bound to, of which the user knows nothing.
fn in_users_words(error: PgError) -> PgError {
    let context = error.text(field::WHERE).into_owned();
    match context.strip_prefix("portal \"loxo_portal_").and_then(|rest| rest.split_once('"')) {
        Some((_, rest)) => error.context(format!("unnamed portal{rest}")),
        None => error,
    }
}

/// What [`txn::SNAPSHOT_SQL`] answered.
pub(crate) fn generation(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}
