//! Unique keys, foreign keys and indexes: each must be enforceable by every node on its own.

use std::sync::Arc;

use catalog::{AttNum, Column, Distribution, Generated, Relation};
use pg_query::Node;
use pg_query::protobuf::{ConstrType, Constraint, IndexElem, List};
use pgerror::{PgError, Result, SqlState};
use placement::KeyType;

use super::placements;
use crate::context::Context;
use crate::plan::{MapRequest, Placement};
use crate::tree::{self, Get};

/// Equal values of such a key could lie on different nodes.
pub(crate) const NONDETERMINISTIC: &str = "has a collation that may be nondeterministic";

/// A row is sent to its node before that computes such a column.
pub(crate) const GENERATED: &str = "is generated";

/// A column of a table to be.
#[derive(Clone, Debug)]
pub(crate) struct NewColumn {
    pub name: String,
    /// `None`: cannot be a distribution key.
    pub key_type: Option<KeyType>,
    /// The type is hashable but the collation is, or may be, nondeterministic, or the column is generated.
    pub unfit: Option<&'static str>,
}

/// UNIQUE or PRIMARY KEY.
#[derive(Clone, Debug)]
pub(crate) struct NewUnique {
    pub columns: Vec<String>,
    pub primary: bool,
}

/// REFERENCES.
#[derive(Clone, Debug)]
pub(crate) struct NewForeignKey {
    pub columns: Vec<String>,
    pub is_self: bool,
    /// `None` if the table is not distributed or is the new one itself.
    pub referenced: Option<Arc<Relation>>,
    pub referenced_name: String,
    pub referenced_columns: Vec<String>,
    /// ON UPDATE CASCADE.
    pub cascades: bool,
    /// Columns that SET NULL and SET DEFAULT give another value.
    pub resets: Vec<String>,
    /// One of these is SET DEFAULT.
    pub defaults: bool,
}

/// What placing a table must know of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewTable {
    pub name: String,
    pub columns: Vec<NewColumn>,
    pub unique: Vec<NewUnique>,
    pub foreign_keys: Vec<NewForeignKey>,
    /// Of each EXCLUDE the columns of which rows that conflict have the same values.
    pub exclusions: Vec<Vec<String>>,
}

impl NewTable {
    pub fn column(&self, name: &str) -> Option<&NewColumn> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// An existing table, without its constraints: new ones are checked one by one.
    pub fn existing(ctx: &Context<'_>, relation: &Relation) -> Self {
        let columns = relation.columns.iter().map(|c| NewColumn {
            name: c.name.clone(),
            key_type: ctx.catalog.key_type(c.type_oid),
            unfit: match c.generated {
                Generated::Stored | Generated::Virtual => Some(GENERATED),
                _ => (!c.deterministic).then_some(NONDETERMINISTIC),
            },
        });
        Self { name: relation.name.clone(), columns: columns.collect(), ..Self::default() }
    }

    /// An existing table with its constraints.
    pub fn with_constraints(ctx: &Context<'_>, relation: &Relation) -> Self {
        let names = |of: &Relation, numbers: &[AttNum]| -> Vec<String> { Column::names(of.columns_at(numbers)) };
        let keys = relation.unique_keys.iter().map(|key| (&key.columns, key.primary));
        let others = relation.other_unique.iter().map(|columns| (columns, false));
        let foreign_keys = relation.foreign_keys.iter().map(|key| {
            let referenced = ctx.catalog.relation_by_oid(key.referenced);
            NewForeignKey {
                columns: names(relation, &key.columns),
                is_self: key.referenced == relation.oid,
                referenced: referenced.cloned(),
                referenced_name: referenced.map(|table| table.name.clone()).unwrap_or_default(),
                referenced_columns: referenced.map(|table| names(table, &key.referenced_columns)).unwrap_or_default(),
                cascades: key.cascades,
                resets: names(relation, &key.resets),
                defaults: [key.on_delete, key.on_update].contains(&'d'),
            }
        });
        Self {
            unique: keys
                .chain(others)
                .map(|(columns, primary)| NewUnique { columns: names(relation, columns), primary })
                .collect(),
            foreign_keys: foreign_keys.collect(),
            exclusions: relation.exclusions.iter().map(|columns| names(relation, columns)).collect(),
            ..Self::existing(ctx, relation)
        }
    }

    /// Adds a constraint of the table, or of a column if one is given.
    pub fn constraint(&mut self, ctx: &Context<'_>, constraint: &Constraint, column: Option<&str>) -> Result<()> {
        let own = |names: &[Node]| -> Vec<String> {
            match column {
                Some(column) if names.is_empty() => vec![column.to_owned()],
                _ => tree::names_of(names),
            }
        };
        match constraint.contype() {
            kind @ (ConstrType::ConstrPrimary | ConstrType::ConstrUnique) if constraint.indexname.is_empty() => {
                self.unique
                    .push(NewUnique { columns: own(&constraint.keys), primary: kind == ConstrType::ConstrPrimary });
            }
            ConstrType::ConstrExclusion => self.exclusions.push(equal_columns(ctx, constraint)),
            ConstrType::ConstrForeign => {
                let columns = own(&constraint.fk_attrs);
                self.foreign_keys.push(self.foreign_key(ctx, constraint, columns)?);
            }
            _ => {}
        }
        Ok(())
    }

    fn foreign_key(&self, ctx: &Context<'_>, constraint: &Constraint, columns: Vec<String>) -> Result<NewForeignKey> {
        let Some(name) = &constraint.pktable else { return Err(PgError::internal("a foreign key without a table")) };
        let mut referenced_columns = tree::names_of(&constraint.pk_attrs);
        let referenced = ctx.distributed(name)?;
        let is_self = name.relname == self.name && referenced.is_none();
        if referenced_columns.is_empty() {
            referenced_columns = match &referenced {
                Some(relation) => relation.primary_key().map(Column::names).unwrap_or_default(),
                None => self.unique.iter().find(|u| u.primary).map(|u| u.columns.clone()).unwrap_or_default(),
            };
        }
        let cascades = constraint.fk_upd_action == "c";
        let resets = reset_columns(constraint, &columns);
        let defaults = [&constraint.fk_upd_action, &constraint.fk_del_action].into_iter().any(|action| action == "d");
        let referenced_name = name.relname.clone();
        Ok(NewForeignKey {
            columns,
            is_self,
            referenced,
            referenced_name,
            referenced_columns,
            cascades,
            resets,
            defaults,
        })
    }
}

/// Those that an EXCLUDE compares by PostgreSQL's own `=`.
fn equal_columns(ctx: &Context<'_>, constraint: &Constraint) -> Vec<String> {
    // Another one of this name could be meant.
    let has_own = ctx.catalog.builtin_operators("=").is_empty();
    let is_equal = |operator: &List| match tree::names_of(&operator.items).as_slice() {
        [name] => name == "=" && !has_own,
        [schema, name] => schema == "pg_catalog" && name == "=",
        _ => false,
    };
    let column = |element: &Node| {
        let [of, operator] = element.get::<List>()?.items.as_slice() else { return None };
        let of = of.get::<IndexElem>().filter(|of| of.expr.is_none() && of.collation.is_empty())?;
        operator.get::<List>().is_some_and(is_equal).then(|| of.name.clone())
    };
    constraint.exclusions.iter().filter_map(column).collect()
}

fn reset_columns(constraint: &Constraint, columns: &[String]) -> Vec<String> {
    let is_reset = |action: &str| matches!(action, "n" | "d");
    let chosen = tree::names_of(&constraint.fk_del_set_cols);
    match (is_reset(&constraint.fk_upd_action), is_reset(&constraint.fk_del_action)) {
        (true, _) => columns.to_vec(),
        (false, true) if chosen.is_empty() => columns.to_vec(),
        (false, true) => chosen,
        (false, false) => Vec::new(),
    }
}

/// The placement that follows a foreign key to a hash or modulo table.
pub(crate) fn colocated_with_referenced(foreign_key: &NewForeignKey) -> Option<Placement> {
    let referenced = foreign_key.referenced.as_ref()?;
    let own_column = |number| {
        let name = &referenced.column_at(number)?.name;
        let at = foreign_key.referenced_columns.iter().position(|c| c == name)?;
        foreign_key.columns.get(at).cloned()
    };
    let key = referenced.distribution.key();
    let mut columns = key.iter().map(|k| own_column(k.number)).collect::<Option<Vec<String>>>()?;
    Some(match &referenced.distribution {
        Distribution::Hash { map_id, .. } => Placement::Hash { columns, map: MapRequest::Existing(*map_id) },
        Distribution::Modulo { map_id, .. } => {
            Placement::Modulo { column: columns.pop()?, map: MapRequest::Existing(*map_id) }
        }
        _ => return None,
    })
}

/// Checks key columns, unique keys and foreign keys against a placement.
pub(crate) fn check(ctx: &Context<'_>, table: &NewTable, placement: &Placement) -> Result<()> {
    check_key(table, placement)?;
    for unique in &table.unique {
        check_unique(table, placement, &unique.columns)?;
    }
    let key = key_columns(placement);
    let is_on_one_node = |equal: &Vec<String>| !key.is_empty() && key.iter().all(|column| equal.contains(column));
    if !matches!(placement, Placement::Replicated { .. }) && !table.exclusions.iter().all(is_on_one_node) {
        return Err(PgError::unsupported("an EXCLUDE constraint over rows of several nodes")
            .detail("Each node sees only its own rows.")
            .hint("Distribute by columns that the constraint compares WITH =, or use DISTRIBUTE BY REPLICATION."));
    }
    table.foreign_keys.iter().try_for_each(|f| check_foreign_key(ctx, table, placement, f))
}

fn key_columns(placement: &Placement) -> &[String] {
    match placement {
        Placement::Hash { columns, .. } => columns,
        Placement::Modulo { column, .. } => std::slice::from_ref(column),
        Placement::Replicated { .. } | Placement::RoundRobin { .. } => &[],
    }
}

fn check_key(table: &NewTable, placement: &Placement) -> Result<()> {
    let is_modulo = matches!(placement, Placement::Modulo { .. });
    for (i, name) in key_columns(placement).iter().enumerate() {
        let missing = || {
            PgError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{name}\" named in the distribution key does not exist"),
            )
        };
        let column = table.column(name).ok_or_else(missing)?;
        if key_columns(placement)[..i].contains(name) {
            return Err(PgError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" appears twice in the distribution key"),
            ));
        }
        // Also where nobody has chosen the column, but a foreign key or a parent.
        if column.unfit == Some(GENERATED) {
            return Err(PgError::unsupported(format!("a distribution key of generated column \"{name}\""))
                .hint("Choose another column."));
        }
        let invalid = |why: &str| PgError::new(SqlState::INVALID_TABLE_DEFINITION, format!("column \"{name}\" {why}"));
        match column.key_type {
            None => {
                return Err(invalid("is not of a type that can be a distribution key")
                    .hint("Choose a column of an integer, text, numeric, date, time or uuid type, or ROUNDROBIN."));
            }
            Some(key_type) if is_modulo && key_type.sql_modulo_bucket("x").is_none() => {
                return Err(invalid("is not of a type that MODULO can use").hint("Use HASH."));
            }
            Some(_) => {}
        }
        if let Some(why) = column.unfit {
            return Err(invalid(why).hint("Choose another column."));
        }
    }
    Ok(())
}

fn check_unique(table: &NewTable, placement: &Placement, columns: &[String]) -> Result<()> {
    let error = |message: &str| PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
    // An expression is equal for different keys.
    let list = if columns.is_empty() { "expressions only".to_owned() } else { columns.join(", ") };
    let kind = match placement {
        Placement::Replicated { .. } => return Ok(()),
        Placement::RoundRobin { .. } => {
            return Err(error("Cannot locally enforce a unique index on round robin distributed table.")
                .detail(format!("The unique key of table \"{}\" is ({list}).", table.name))
                .hint("Distribute by HASH on a column of the unique key, or by REPLICATION."));
        }
        Placement::Hash { .. } => "hash",
        Placement::Modulo { .. } => "hash/modulo",
    };
    let key = key_columns(placement);
    if key.iter().all(|column| columns.contains(column)) {
        return Ok(());
    }
    let (name, key) = (&table.name, key.join(", "));
    Err(error(&format!("Unique index of distributed table must contain the {kind} distribution column."))
        .detail(format!("The distribution key of table \"{name}\" is ({key}), the unique key is ({list})."))
        .hint("Add the distribution column to the unique key, or distribute by another column or by REPLICATION."))
}

/// The first column of the distribution key that an action of the foreign key may give another value, and the action. Rows stay
/// where they are while the datanodes follow it; then the coordinator moves them.
fn changed_key<'p>(placement: &'p Placement, foreign_key: &NewForeignKey) -> Option<(&'p String, &'static str)> {
    let is_replicated = |referenced: &Arc<Relation>| matches!(referenced.distribution, Distribution::Replicated { .. });
    let first_of = |columns: &[String]| key_columns(placement).iter().find(|column| columns.contains(column));
    // With a table beside it a row's new key lies where the referenced row lies.
    let cascades = foreign_key.cascades && foreign_key.referenced.as_ref().is_some_and(is_replicated);
    let by_cascade = first_of(&foreign_key.columns).filter(|_| cascades).map(|column| (column, "ON UPDATE CASCADE"));
    by_cascade.or_else(|| first_of(&foreign_key.resets).map(|column| (column, "SET NULL or SET DEFAULT")))
}

/// Would rows have to move for an action of a foreign key? Where nobody has chosen the key, another one is better.
pub(crate) fn may_move_rows(table: &NewTable, placement: &Placement) -> bool {
    table.foreign_keys.iter().any(|foreign_key| changed_key(placement, foreign_key).is_some())
}

/// A row that an action has changed must be right where it is until it is moved.
fn check_actions(table: &NewTable, placement: &Placement, foreign_key: &NewForeignKey) -> Result<()> {
    let Some((column, what)) = changed_key(placement, foreign_key) else { return Ok(()) };
    let is_beside = foreign_key.referenced.as_ref().is_some_and(|referenced| !referenced.distribution.key().is_empty());
    let why = if foreign_key.is_self {
        "The row would have to move to another node, but rows of the table refer to it."
    } else if foreign_key.defaults && is_beside {
        "The row would have to move to another node, and only there is the row that its default refers to."
    } else {
        return Ok(());
    };
    Err(PgError::unsupported(format!("{what} of distribution column \"{column}\" of table \"{}\"", table.name))
        .detail(why)
        .hint("Distribute the table by another column, or replicate it."))
}

fn check_foreign_key(
    ctx: &Context<'_>,
    table: &NewTable,
    placement: &Placement,
    foreign_key: &NewForeignKey,
) -> Result<()> {
    let target = &foreign_key.referenced_name;
    let error = |detail: String| {
        PgError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("cannot enforce the foreign key of table \"{}\" to \"{target}\" on each node", table.name),
        )
        .detail(detail)
        .hint("Replicate the referenced table, or distribute both by the columns of the foreign key.")
    };
    check_actions(table, placement, foreign_key)?;
    if foreign_key.is_self {
        let pairs = |key: &String| {
            let at = foreign_key.columns.iter().position(|c| c == key);
            at.is_some() && at == foreign_key.referenced_columns.iter().position(|c| c == key)
        };
        let is_anywhere = matches!(placement, Placement::RoundRobin { .. });
        return match !is_anywhere && key_columns(placement).iter().all(pairs) {
            true => Ok(()),
            false => Err(error("A row and the row it references may be on different nodes.".to_owned())),
        };
    }
    let Some(referenced) = &foreign_key.referenced else {
        return Err(error(format!("Table \"{target}\" is not a distributed table.")));
    };
    if let Distribution::Replicated { nodes } = &referenced.distribution {
        return match placements::nodes(ctx, placement).iter().all(|n| nodes.contains(n)) {
            true => Ok(()),
            false => Err(error(format!("Table \"{target}\" is not replicated to all of the nodes."))),
        };
    }
    let map = match (&referenced.distribution, placement) {
        (Distribution::Hash { map, .. }, Placement::Hash { map: own, .. }) => placements::is_map(ctx, own, map),
        (Distribution::Modulo { map, .. }, Placement::Modulo { map: own, .. }) => placements::is_map(ctx, own, map),
        _ => false,
    };
    let key = referenced.distribution.key();
    let same_key = key.len() == key_columns(placement).len()
        && key.iter().zip(key_columns(placement)).all(|(theirs, ours)| {
            let their_name = referenced.column_at(theirs.number).map(|c| &c.name);
            let at = foreign_key.columns.iter().position(|c| c == ours);
            let class = table.column(ours).and_then(|c| c.key_type).map(KeyType::hash_class);
            at.is_some_and(|at| foreign_key.referenced_columns.get(at) == their_name)
                && class == Some(theirs.key_type.hash_class())
        });
    match map && same_key {
        true => Ok(()),
        false => Err(error("The tables are not distributed alike by the columns of the foreign key.".to_owned())),
    }
}
