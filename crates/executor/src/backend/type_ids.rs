//! Values in binary form that name types by their ids: rows, arrays, and what is made of them.
//!
//! A user's type has another id on every node, and PostgreSQL writes ids into the values of rows (one for each field) and arrays (one
//! for all elements): `record_send`, `array_send`. A client looks them up in the home node's catalog, so what another node sends is
//! rewritten on its way, in place. In the other direction nothing is to be done: `record_recv` and `array_recv` take ids of users' types for what
//! they should be.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use catalog::{NodeId, Oid};
use futures_util::future::BoxFuture;
use pgerror::{PgError, Result};
use pgproto::backend;
use pgproto::frame::HEADER_BYTES;

use crate::backend::call::{Call, is_node_specific};

const RECORD: Oid = 2249;
const RECORD_ARRAY: Oid = 2287;
const VOID: Oid = 2278;

/// Can values of the type name others by ids that differ between nodes?
pub(crate) fn may_name_types(oid: Oid) -> bool {
    is_node_specific(oid) || [RECORD, RECORD_ARRAY].contains(&oid)
}

/// Can a column of a table have the type? Rows without a type, and VOID, are values of queries only.
pub(crate) fn is_storable(oid: Oid) -> bool {
    ![RECORD, RECORD_ARRAY, VOID].contains(&oid)
}

/// How values of a type look in binary form. A domain looks as what it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Names no types.
    Plain,
    Array,
    Row,
    /// Two values of the type.
    Range(Oid),
    /// Ranges of the type.
    Multirange(Oid),
}

/// Each user's type of a datanode: its id there, its name, its kind, and what it is over.
pub(crate) const USER_TYPES: &str = "SELECT t.oid, pg_catalog.concat(pg_catalog.quote_ident(n.nspname), '.', t.typname), \
       CASE WHEN t.typsubscript = 'pg_catalog.array_subscript_handler'::pg_catalog.regproc THEN 'a' ELSE t.typtype END, \
       CASE t.typtype WHEN 'd' THEN t.typbasetype \
         WHEN 'r' THEN (SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE r.rngtypid = t.oid) \
         WHEN 'm' THEN (SELECT r.rngtypid FROM pg_catalog.pg_range r WHERE r.rngmultitypid = t.oid) END \
     FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE t.oid >= 16384";

/// A type as a datanode's catalog has it.
struct UserType {
    name: String,
    /// `None` for a domain: that of the type it is over.
    shape: Option<Shape>,
    /// What a domain is over, what a range is of.
    of: Oid,
}

/// The rows of [`USER_TYPES`].
type TypeRows = Vec<Vec<Option<Bytes>>>;

fn user_types(rows: TypeRows) -> HashMap<Oid, UserType> {
    let text = |value: Option<&Option<Bytes>>| {
        String::from_utf8_lossy(value.and_then(Option::as_deref).unwrap_or_default()).into_owned()
    };
    let pair = |row: Vec<Option<Bytes>>| {
        let id = |at: usize| text(row.get(at)).parse().unwrap_or(0);
        let shape = match text(row.get(2)).as_str() {
            "a" => Some(Shape::Array),
            "c" => Some(Shape::Row),
            "r" => Some(Shape::Range(id(3))),
            "m" => Some(Shape::Multirange(id(3))),
            "d" => None,
            _ => Some(Shape::Plain),
        };
        (id(0), UserType { name: text(row.get(1)), shape, of: id(3) })
    };
    rows.into_iter().map(pair).collect()
}

/// The users' types of a datanode, by their ids there.
#[derive(Debug, Default)]
pub struct NodeTypes(HashMap<Oid, (Oid, Shape)>);

impl NodeTypes {
    /// From each type's id there, its id on the home node, and its shape.
    pub(crate) fn new(types: impl Iterator<Item = (Oid, Oid, Shape)>) -> Self {
        Self(types.map(|(there, home, shape)| (there, (home, shape))).collect())
    }

    /// From what a node and the home node say of their types.
    pub(crate) fn of_rows(there: TypeRows, here: TypeRows) -> Self {
        let (there, here) = (user_types(there), user_types(here));
        let here: HashMap<&str, Oid> = here.iter().map(|(oid, of)| (of.name.as_str(), *oid)).collect();
        Self::new(there.iter().filter_map(|(oid, of)| {
            let domain = |of: &UserType| of.shape.is_none().then(|| there.get(&of.of)).flatten();
            let base = std::iter::successors(Some(of), |of| domain(of)).last()?;
            Some((*oid, *here.get(of.name.as_str())?, base.shape.unwrap_or(Shape::Plain)))
        }))
    }

    /// The id on the home node; 0 for a type that it does not know.
    pub(crate) fn at_home(&self, there: Oid) -> Oid {
        match is_node_specific(there) {
            true => self.0.get(&there).map_or(0, |(home, _)| *home),
            false => there,
        }
    }

    fn shape(&self, there: Oid) -> Shape {
        match there {
            RECORD => Shape::Row,
            RECORD_ARRAY => Shape::Array,
            _ => self.0.get(&there).map_or(Shape::Plain, |(_, shape)| *shape),
        }
    }

    /// Rewrites the ids in a value; `None` if it does not have the form it should have.
    fn rewrite(&self, of: Oid, value: &mut [u8]) -> Option<()> {
        let mut rest = Reader(value);
        match self.shape(of) {
            Shape::Plain => return Some(()),
            Shape::Row => {
                for _ in 0..rest.number()? {
                    let field = rest.type_id(self)?;
                    rest.value(self, field)?;
                }
            }
            Shape::Array => {
                let dimensions = rest.number()?;
                rest.skip(4)?;
                let element = rest.type_id(self)?;
                rest.skip(usize::try_from(dimensions).ok()?.checked_mul(8)?)?;
                while !self.is_plain(element) && !rest.0.is_empty() {
                    rest.value(self, element)?;
                }
            }
            Shape::Range(of) => {
                rest.skip(1)?;
                while !rest.0.is_empty() {
                    rest.value(self, of)?;
                }
            }
            Shape::Multirange(range) => {
                for _ in 0..rest.number()? {
                    rest.value(self, range)?;
                }
            }
        }
        Some(())
    }

    fn is_plain(&self, there: Oid) -> bool {
        self.shape(there) == Shape::Plain
    }
}

/// What is left of a value.
struct Reader<'v>(&'v mut [u8]);

impl<'v> Reader<'v> {
    fn take(&mut self, length: usize) -> Option<&'v mut [u8]> {
        let (taken, rest) = std::mem::take(&mut self.0).split_at_mut_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn skip(&mut self, length: usize) -> Option<()> {
        self.take(length).map(|_| ())
    }

    fn number(&mut self) -> Option<i32> {
        self.take(4)?.first_chunk().map(|bytes| i32::from_be_bytes(*bytes))
    }

    /// Rewrites a type's id; gives what it was.
    fn type_id(&mut self, types: &NodeTypes) -> Option<Oid> {
        let id = self.take(4)?.first_chunk_mut::<4>()?;
        let there = Oid::from_be_bytes(*id);
        *id = types.at_home(there).to_be_bytes();
        Some(there)
    }

    fn skipped_value(&mut self) -> Option<()> {
        match usize::try_from(self.number()?) {
            Ok(length) => self.skip(length),
            Err(_) => Some(()),
        }
    }

    /// A value with its length in front, -1 for NULL.
    fn value(&mut self, types: &NodeTypes, of: Oid) -> Option<()> {
        match usize::try_from(self.number()?) {
            Ok(length) => types.rewrite(of, self.take(length)?),
            Err(_) => Some(()),
        }
    }
}

/// Where the types of datanodes are known.
pub trait TypesOfNodes: Send + Sync {
    /// The node whose ids the client knows.
    fn home(&self) -> NodeId;

    /// Those of one node, of a version of the schema.
    fn on(&self, node: NodeId, schema_version: u64) -> BoxFuture<'_, Result<Arc<NodeTypes>>>;
}

impl fmt::Debug for dyn TypesOfNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypesOfNodes {{ home: {} }}", self.home().0)
    }
}

/// The ids in the rows of one answer.
pub(crate) struct AnswerIds {
    types: Arc<dyn TypesOfNodes>,
    node: NodeId,
    schema_version: u64,
    /// The node describes the rows for us, not for the client.
    is_ours: bool,
    /// Described so, and not looked at yet.
    description: Option<Bytes>,
    rewriting: Option<Rewriting>,
}

/// Columns whose values are rewritten.
struct Rewriting {
    types: Arc<NodeTypes>,
    /// The type of each column that is rewritten.
    columns: Vec<Option<Oid>>,
}

impl AnswerIds {
    /// For the answer to a call that is about to be sent; the node must describe its rows. `None` if they have no ids in them, or
    /// those that the client knows.
    pub(crate) fn expected(call: &Call, node: NodeId, schema_version: u64) -> Option<Box<Self>> {
        let types = call.types.as_ref().filter(|types| types.home() != node)?.clone();
        let is_ours = !call.describe;
        Some(Box::new(Self { types, node, schema_version, is_ours, description: None, rewriting: None }))
    }

    /// Takes a RowDescription; gives it back if it is for the client.
    pub(crate) fn described(&mut self, body: Bytes) -> Option<Bytes> {
        self.description = Some(body.clone());
        (!self.is_ours).then_some(body)
    }

    /// Finds out which columns are to be rewritten. Cancel-safe.
    pub(crate) async fn learn(&mut self) -> Result<()> {
        let Some(description) = &self.description else { return Ok(()) };
        let types = self.types.on(self.node, self.schema_version).await?;
        let fields = backend::decode_row_description(description.clone())?;
        let is_rewritten = |field: &backend::Field| field.format == 1 && !types.is_plain(field.type_oid);
        let columns: Vec<_> = fields.iter().map(|field| is_rewritten(field).then_some(field.type_oid)).collect();
        self.rewriting = columns.iter().any(Option::is_some).then_some(Rewriting { types, columns });
        self.description = None;
        Ok(())
    }

    /// Whole DataRow frames as the client is to get them.
    pub(crate) fn rewritten(&self, run: Bytes) -> Result<Bytes> {
        let Some(rewriting) = &self.rewriting else { return Ok(run) };
        let mut run = BytesMut::from(run);
        let mut rest = Reader(&mut run);
        while !rest.0.is_empty() {
            let row = rewriting.row(&mut rest);
            row.ok_or_else(|| PgError::protocol("a row in binary form that has not the form of its types"))?;
        }
        Ok(run.freeze())
    }
}

impl Rewriting {
    fn row(&self, rest: &mut Reader<'_>) -> Option<()> {
        rest.skip(HEADER_BYTES + 2)?;
        for column in &self.columns {
            match column {
                Some(of) => rest.value(&self.types, *of)?,
                None => rest.skipped_value()?,
            }
        }
        Some(())
    }
}
