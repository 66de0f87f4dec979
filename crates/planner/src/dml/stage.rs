//! The temp copy of a target table on the home node, where PostgreSQL evaluates what routing must know.

use std::sync::Arc;

use catalog::{Column, Distribution, Generated, Relation, quote_identifier, quote_literal};
use placement::KeyType;

use crate::plan::{KeySource, Route, RowColumn, STAGE, Stage};
use crate::session::Moment;
use crate::tree::{self, Ask, Ref};

/// A column of a row in flight.
pub(crate) fn row_column(column: &Column) -> RowColumn {
    RowColumn {
        name: column.name.clone(),
        type_oid: column.type_oid,
        type_modifier: column.type_modifier,
        type_name: column.type_name.clone(),
    }
}

/// Columns that a row brings: generated ones are computed where the row is stored.
pub(crate) fn stored_columns(relation: &Relation) -> Vec<&Column> {
    relation.columns.iter().filter(|column| !column.generated.is_computed()).collect()
}

impl Stage {
    /// The stage of a table.
    pub fn of(relation: &Arc<Relation>) -> Self {
        stage(relation, None)
    }

    /// Leaves out columns that need not be brought.
    pub(crate) fn keep(&mut self, is_brought: impl Fn(&Column) -> bool) {
        let brought = stored_columns(&self.target).into_iter().filter(|column| is_brought(column));
        self.columns = brought.map(row_column).collect();
        self.route = route(&self.target, &self.columns);
    }
}

/// The stage of a table. `now` takes the place of `now()` in its defaults.
pub(crate) fn stage(relation: &Arc<Relation>, now: Option<&Moment>) -> Stage {
    let columns: Vec<RowColumn> = stored_columns(relation).into_iter().map(row_column).collect();
    // Generated columns too, so that PostgreSQL accepts DEFAULT for them and refuses anything else.
    // A column that is added to a table can be computed from those before it only.
    let (late, others): (Vec<&Column>, Vec<&Column>) =
        relation.columns.iter().partition(|column| reads_later(relation, column));
    let definitions = others.into_iter().chain(late).map(|column| definition(relation, column, now)).collect();
    Stage { table: STAGE.to_owned(), definitions, target: relation.clone(), route: route(relation, &columns), columns }
}

/// Is the column computed from one that comes after it? An expression that cannot be read may be.
fn reads_later(relation: &Relation, column: &Column) -> bool {
    let Some(expression) = column.default.as_ref().filter(|_| column.generated.is_computed()) else { return false };
    let Ok(expression) = tree::parse_expression(expression) else { return true };
    let is_later = |name: &str| relation.column(name).is_some_and(|other| other.number > column.number);
    expression
        .may_have(|node| matches!(node, Ref::ColumnRef(read) if tree::last_name(&read.fields).is_none_or(is_later)))
}

/// Name, type and default; no constraint.
pub(crate) fn definition(relation: &Relation, column: &Column, now: Option<&Moment>) -> String {
    let name = quote_identifier(&column.name);
    let default = match (column.generated, &column.default) {
        (generated, _) if generated.is_identity() => format!(" DEFAULT {}", identity(relation, column)),
        (Generated::Stored | Generated::Virtual, Some(expression)) => {
            format!(" GENERATED ALWAYS AS ({expression}) STORED")
        }
        (_, Some(default)) => match now.and_then(|now| crate::facts::clock::expression_at(default, now)) {
            Some(default) => format!(" DEFAULT {default}"),
            None => format!(" DEFAULT {default}"),
        },
        (_, None) => String::new(),
    };
    format!("{name} {}{default}", column.type_name)
}

/// What gives the next number of an identity column to a role that may insert: `nextval()` wants a right on the sequence.
pub fn identity(relation: &Relation, column: &Column) -> String {
    next_identity(&relation.qualified_name(), &column.name)
}

pub(crate) fn next_identity(table: &str, column: &str) -> String {
    format!("loxo.next_identity(loxo.identity_sequence({}, {}))", quote_literal(table), quote_literal(column))
}

/// How rows of these columns find their node.
pub(crate) fn route(relation: &Relation, columns: &[RowColumn]) -> Route {
    let nodes = relation.distribution.nodes();
    let source = |number| {
        let name = relation.column_at(number).map_or("", |c| c.name.as_str());
        columns.iter().position(|c| c.name == name).map_or(KeySource::Null, KeySource::Column)
    };
    match &relation.distribution {
        Distribution::Hash { columns: key, map, .. } => {
            let key: Vec<(KeySource, KeyType)> = key.iter().map(|k| (source(k.number), k.key_type)).collect();
            Route::Hash { key, map: map.clone(), nodes }
        }
        Distribution::Modulo { column, map, .. } => {
            Route::Modulo { key: (source(column.number), column.key_type), map: map.clone(), nodes }
        }
        Distribution::RoundRobin { .. } => Route::RoundRobin { nodes },
        _ => Route::Replicated { nodes },
    }
}
