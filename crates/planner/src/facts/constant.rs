//! Constants and parameters, and which node a key made of them lives on.

use std::sync::Arc;

use catalog::{Distribution, KeyColumn, MapId, NodeId};
use pg_query::protobuf::{TypeName, a_const};
use pg_query::{Node, NodeEnum};
use placement::{BucketMap, KeyType, hash_binary, hash_text};

use crate::context::Context;
use crate::parse::shape::is_moment;
use crate::session::{Parameter, ParameterValue};
use crate::tree::{self, Get};

/// A value known while planning.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Constant {
    Null,
    /// A quoted literal without a type: it takes the type of what it meets.
    Untyped(String),
    /// A number as written.
    Number(String),
    Bool(bool),
    /// A literal or parameter of a known type, in text form.
    Text(KeyType, String),
    /// A parameter in binary form.
    Binary(KeyType, Vec<u8>),
}

impl Constant {
    /// Reads a constant expression; `None` if it is not one, or its value is not known yet.
    pub fn of(node: &Node, ctx: &Context<'_>) -> Option<Self> {
        match node.node.as_ref()? {
            NodeEnum::AConst(c) if c.isnull => Some(Self::Null),
            NodeEnum::AConst(c) => match c.val.as_ref()? {
                a_const::Val::Ival(i) => Some(Self::Number(i.ival.to_string())),
                a_const::Val::Fval(f) => Some(Self::Number(f.fval.clone())),
                a_const::Val::Boolval(b) => Some(Self::Bool(b.boolval)),
                a_const::Val::Sval(s) => Some(Self::Untyped(s.sval.clone())),
                a_const::Val::Bsval(_) => None,
            },
            NodeEnum::TypeCast(cast) => {
                let to = key_type_of(ctx, cast.type_name.as_ref()?)?;
                match Self::of(cast.arg.as_deref()?, ctx)? {
                    Self::Null => Some(Self::Null),
                    Self::Untyped(text) => Some(Self::Text(to, text)),
                    Self::Bool(b) if to == KeyType::Bool => Some(Self::Bool(b)),
                    // A whole number stays what it is in every integer type, or the cast fails.
                    Self::Number(n) if to.hash_class() == KeyType::Int8 && n.parse::<i64>().is_ok() => {
                        Some(Self::Text(to, n))
                    }
                    Self::Text(from, text) if from == to => Some(Self::Text(to, text)),
                    Self::Binary(from, bytes) if from == to => Some(Self::Binary(to, bytes)),
                    _ => None,
                }
            }
            NodeEnum::ParamRef(p) => {
                let index = usize::try_from(p.number).ok()?.checked_sub(1)?;
                Self::of_parameter(ctx.session.parameters.get(index)?)
            }
            _ => None,
        }
    }

    /// The value of a bound parameter, if its type can be a key's.
    pub fn of_parameter(parameter: &Parameter<'_>) -> Option<Self> {
        match parameter.value {
            ParameterValue::Unknown => None,
            ParameterValue::Null => Some(Self::Null),
            ParameterValue::Text(text) => {
                Some(Self::Text(KeyType::from_oid(parameter.type_oid)?, std::str::from_utf8(text).ok()?.to_owned()))
            }
            ParameterValue::Binary(bytes) => Some(Self::Binary(KeyType::from_oid(parameter.type_oid)?, bytes.to_vec())),
        }
    }

    /// The hash that a column of type `key` has if it is equal (`=`) to this constant.
    fn hash_if_equal(&self, key: KeyType, seed: u64) -> Option<u64> {
        match self {
            Self::Null => None,
            Self::Untyped(text) => hash_text(key, text.as_bytes(), seed),
            // A number meets the widest type of the column's class: `float4_column = 0.1` compares as float8.
            Self::Number(text) if is_numeric(key) => hash_text(key.hash_class(), text.as_bytes(), seed),
            Self::Number(_) => None,
            Self::Bool(b) if key == KeyType::Bool => hash_text(key, if *b { b"true" } else { b"false" }, seed),
            Self::Bool(_) => None,
            Self::Text(own, text) if own.hash_class() == key.hash_class() => hash_text(*own, text.as_bytes(), seed),
            Self::Binary(own, bytes) if own.hash_class() == key.hash_class() => hash_binary(*own, bytes, seed).ok(),
            Self::Text(..) | Self::Binary(..) => None,
        }
    }

    /// The value as an integer, for MODULO keys.
    fn integer(&self, key: KeyType) -> Option<i64> {
        match self {
            Self::Bool(b) if key == KeyType::Bool => Some(i64::from(*b)),
            Self::Number(text) if key.hash_class() == KeyType::Int8 => text.parse().ok(),
            Self::Untyped(text) if key.hash_class() == KeyType::Int8 => text.parse().ok(),
            Self::Text(own, text) if own.hash_class() == KeyType::Int8 && key.hash_class() == KeyType::Int8 => {
                text.parse().ok()
            }
            Self::Binary(own, bytes) if own.hash_class() == key.hash_class() => own.modulo_value(bytes)?.ok(),
            _ => None,
        }
    }
}

fn is_numeric(key: KeyType) -> bool {
    matches!(key.hash_class(), KeyType::Int8 | KeyType::Float8 | KeyType::Numeric | KeyType::Oid)
}

/// The node of rows whose key columns are equal to these constants. `None`: not known.
pub(crate) fn node_of_key(distribution: &Distribution, values: &[&Constant]) -> Option<NodeId> {
    node_by(distribution, values, Constant::hash_if_equal)
}

fn node_by(
    distribution: &Distribution,
    values: &[&Constant],
    hash: fn(&Constant, KeyType, u64) -> Option<u64>,
) -> Option<NodeId> {
    match (distribution, values) {
        (Distribution::Hash { columns, map, .. }, _) if columns.len() == values.len() => {
            let mut pairs = columns.iter().zip(values);
            let hash = pairs.try_fold(0, |seed, (column, value)| hash(value, column.key_type, seed))?;
            Some(NodeId(map.node((hash % placement::BUCKETS as u64) as u16)))
        }
        (Distribution::Modulo { column, map, .. }, [value]) => {
            Some(NodeId(map.node(placement::modulo_bucket(value.integer(column.key_type)?))))
        }
        _ => None,
    }
}

/// A distribution by a key of these types, for [`node_of_key`].
pub(crate) fn distribution_like(
    types: &[KeyType],
    modulo: bool,
    map_id: MapId,
    map: Arc<BucketMap>,
) -> Option<Distribution> {
    let column = |key_type: &KeyType| KeyColumn { number: 0, key_type: *key_type };
    Some(if modulo {
        Distribution::Modulo { column: column(types.first()?), map_id, map }
    } else {
        Distribution::Hash { columns: types.iter().map(column).collect(), map_id, map }
    })
}

/// The node of a row that is inserted with these key values, NULL included.
pub(crate) fn node_of_row(distribution: &Distribution, values: &[&Constant]) -> Option<NodeId> {
    match (distribution, values) {
        (Distribution::Modulo { map, .. }, [Constant::Null]) => Some(NodeId(map.node(0))),
        _ => node_by(distribution, values, Constant::hash_as_stored),
    }
}

impl Constant {
    /// The hash after assignment to a column of type `key` without a type modifier; NULL adds nothing to it. Only where the
    /// assignment cast surely keeps the value: same type, or an integer within the column's range.
    fn hash_as_stored(&self, key: KeyType, seed: u64) -> Option<u64> {
        match self {
            Self::Null => Some(seed),
            Self::Untyped(text) => hash_text(key, text.as_bytes(), seed),
            Self::Number(text)
                if key.hash_class() == KeyType::Int8 || matches!(key, KeyType::Numeric | KeyType::Float8) =>
            {
                hash_text(key, text.as_bytes(), seed)
            }
            Self::Number(_) => None,
            Self::Bool(_) => self.hash_if_equal(key, seed),
            Self::Text(own, text) if *own == key || both_integers(*own, key) => hash_text(key, text.as_bytes(), seed),
            Self::Binary(own, bytes) if *own == key || both_integers(*own, key) => hash_binary(*own, bytes, seed).ok(),
            Self::Text(..) | Self::Binary(..) => None,
        }
    }
}

fn both_integers(a: KeyType, b: KeyType) -> bool {
    a.hash_class() == KeyType::Int8 && b.hash_class() == KeyType::Int8
}

/// The key type that a type's name without modifiers and array bounds means; none if the text of a value is not the value.
pub(crate) fn key_type_of(ctx: &Context<'_>, name: &TypeName) -> Option<KeyType> {
    let of = ctx.builtin_type(name).filter(|_| name.typmods.is_empty() && !name.pct_type)?;
    let changes = |of: &KeyType| {
        matches!(of, KeyType::Char | KeyType::Bpchar | KeyType::Money | KeyType::TimeTz | KeyType::Interval)
    };
    KeyType::from_oid(of.oid).filter(|of| !changes(of))
}

/// A constant that is the same whenever it is read.
pub(crate) fn is_literal(node: &pg_query::Node) -> bool {
    match &node.node {
        Some(NodeEnum::AConst(_)) => true,
        Some(NodeEnum::TypeCast(cast)) => {
            let is_clock = cast.arg.get().and_then(tree::quoted).is_some_and(is_moment);
            !is_clock && cast.arg.as_deref().is_some_and(is_literal)
        }
        _ => false,
    }
}
