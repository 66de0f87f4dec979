//! Which node a row goes to, by a route: the only place where rows between nodes are looked into.

use catalog::NodeId;
use pgerror::{PgError, Result};
use planner::{KeySource, Route};

use crate::engine::mover::rows::Values;
use crate::session::encoding::check_key;

/// Where a row goes.
pub(crate) enum Destination<'a> {
    One(NodeId),
    All(&'a [NodeId]),
}

/// Finds the node of rows that come as DataRow bodies.
pub(crate) struct RowRouter<'a> {
    route: &'a Route,
    binary: bool,
    turn: usize,
    /// The encoding that texts come in, if they have other bytes in the server.
    foreign: Option<String>,
}

impl<'a> RowRouter<'a> {
    pub(crate) fn new(route: &'a Route, binary: bool, turn: usize) -> Self {
        Self { route, binary, turn, foreign: None }
    }

    pub(crate) fn is_binary(&self) -> bool {
        self.binary
    }

    pub(crate) fn of_encoding(mut self, foreign: Option<String>) -> Self {
        self.foreign = foreign;
        self
    }

    pub(crate) fn destination(&mut self, body: &[u8]) -> Result<Destination<'a>> {
        let bad = |_| PgError::internal("a key value cannot be hashed");
        Ok(match self.route {
            Route::Single { node } => Destination::One(*node),
            Route::Replicated { nodes } => Destination::All(nodes),
            Route::RoundRobin { nodes } => {
                self.turn = (self.turn + 1) % nodes.len();
                Destination::One(nodes[self.turn])
            }
            Route::Hash { key, map, .. } => {
                let mut hasher = placement::KeyHasher::new();
                for (source, key_type) in key {
                    let value = value_of(body, source)?;
                    check_key(self.foreign.as_deref(), *key_type, value)?;
                    match self.binary {
                        true => hasher.binary(*key_type, value).map_err(bad)?,
                        false => {
                            hasher.text(*key_type, value).ok_or_else(unknown_spelling)?;
                        }
                    }
                }
                Destination::One(NodeId(map.node(hasher.bucket())))
            }
            Route::Modulo { key: (source, key_type), map, .. } => {
                let bucket = match (value_of(body, source)?, self.binary) {
                    (None, _) => 0,
                    (Some(value), true) => match key_type.modulo_value(value) {
                        Some(number) => placement::modulo_bucket(number.map_err(bad)?),
                        None => return Err(PgError::internal("a MODULO key of this type")),
                    },
                    (Some(value), false) => {
                        let number = key_type.modulo_text(value).ok_or_else(unknown_spelling)?;
                        placement::modulo_bucket(number)
                    }
                };
                Destination::One(NodeId(map.node(bucket)))
            }
        })
    }
}

fn unknown_spelling() -> PgError {
    PgError::unsupported("a key value of this spelling next to a user-defined type")
        .hint("Use an integer or text distribution key in this table.")
}

/// A part of a key, out of a DataRow body.
fn value_of<'b>(body: &'b [u8], source: &KeySource) -> Result<Option<&'b [u8]>> {
    match source {
        KeySource::Column(index) => Values::of(body)
            .nth(*index)
            .unwrap_or_else(|| Err(PgError::protocol("a row has fewer columns than expected"))),
        KeySource::Null => Ok(None),
    }
}

/// Where a route may send rows.
pub(crate) fn nodes_of(route: &Route) -> Vec<NodeId> {
    match route {
        Route::Hash { nodes, .. }
        | Route::Modulo { nodes, .. }
        | Route::RoundRobin { nodes }
        | Route::Replicated { nodes } => nodes.clone(),
        Route::Single { node } => vec![*node],
    }
}
