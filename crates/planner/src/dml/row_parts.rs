//! `SET c = ROW(…)` where the values are made by a query.
//!
//! PostgreSQL gives a ROW the type of the column that it is assigned to, but not one that comes out of `INSERT … SELECT`. A cast
//! would cut what is too long for a part of the row, so each part is assigned by itself: `INSERT INTO … (c.x, c.y) SELECT …`.

use catalog::{Catalog, Column, Oid};
use pg_query::protobuf::{InsertStmt, ResTarget, SelectStmt};
use pg_query::{Node, NodeEnum};

use crate::tree::{self, Get, Syntax};

/// A value, and the column or the part of one that it is for.
pub(crate) struct Part {
    /// The column, then the names of parts within parts.
    path: Vec<String>,
    pub value: Node,
}

impl Part {
    /// As an INSERT names it.
    pub fn target(&self) -> Node {
        let parts = self.path.iter().skip(1).map(|part| tree::string(part)).collect();
        let name = self.path.first().cloned().unwrap_or_default();
        ResTarget { name, indirection: parts, ..ResTarget::default() }.into_node()
    }

    /// The target as text.
    pub fn name(&self) -> String {
        let names: Vec<String> = self.path.iter().map(|name| catalog::quote_identifier(name)).collect();
        names.join(".")
    }
}

/// Does an INSERT name a part of a column, `c.x` or `a[1]`?
pub(super) fn is_part(target: &Node) -> bool {
    matches!(&target.node, Some(NodeEnum::ResTarget(target)) if !target.indirection.is_empty())
}

/// Has a row of VALUES a `ROW(…)`?
pub(super) fn has_records(insert: &InsertStmt) -> bool {
    let is_record = |value: &Node| matches!(value.node, Some(NodeEnum::RowExpr(_)));
    let has_record = |row: &Node| matches!(&row.node, Some(NodeEnum::List(row)) if row.items.iter().any(is_record));
    insert.select_stmt.get::<SelectStmt>().is_some_and(|query| query.values_lists.iter().any(has_record))
}

/// What is assigned to a column: the value, or each part of a ROW.
pub(crate) fn parts(catalog: &Catalog, column: &Column, value: &Node) -> Vec<Part> {
    let mut parts = Vec::new();
    add(catalog, vec![column.name.clone()], column.type_oid, value, &mut parts);
    parts
}

fn add(catalog: &Catalog, path: Vec<String>, type_oid: Oid, value: &Node, parts: &mut Vec<Part>) {
    match (&value.node, fields(catalog, type_oid)) {
        (Some(NodeEnum::RowExpr(row)), Some(fields)) if fields.len() == row.args.len() && !fields.is_empty() => {
            for (field, value) in fields.iter().zip(&row.args) {
                let path = path.iter().chain([&field.name]).cloned().collect();
                add(catalog, path, field.type_oid, value, parts);
            }
        }
        _ => parts.push(Part { path, value: value.clone() }),
    }
}

/// The columns of a composite type, or of one under a domain.
fn fields(catalog: &Catalog, type_oid: Oid) -> Option<&[Column]> {
    let (oid, _) = catalog.value_type(type_oid, -1);
    let of = catalog.user_type(oid)?;
    Some(&catalog.relation(&of.schema, &of.name)?.columns)
}
