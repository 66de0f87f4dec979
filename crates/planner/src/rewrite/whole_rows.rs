//! Rows as a whole, as PostgreSQL prints them: `t.*::s.t` where they stand alone, `t.*` within expressions. Where the table's rows are brought to another place, they are of
//! another type there, so the row is made of its columns:
//!
//! ```text
//! t.*::s.t, t.*   → CASE WHEN t.* IS DISTINCT FROM NULL THEN ROW(t.a, t.b)::s.t END
//! ```
//!
//! The test tells a row that an outer join left out, which is NULL, from a row of NULLs (`transformAExprDistinct` of parse_expr.c).

use std::collections::HashMap;
use std::sync::Arc;

use catalog::Relation;
use pg_query::protobuf::TypeCast;
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use crate::context::Context;
use crate::parse::Statement;
use crate::tree::{self, Ask, Ref, Walk};

/// The statement with such rows made of their columns; `None` if there are none.
pub(crate) fn of_columns(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Statement>> {
    if !ctx.analysis.is_some_and(|analysis| analysis.has_whole_rows()) {
        return Ok(None);
    }
    spelled(ctx, statement)
}

/// [`of_columns`] of a statement that functions have been put into: their arguments may be such rows.
pub(crate) fn of_inlined(ctx: &Context<'_>, statement: Statement) -> Result<Statement> {
    let Some(spelled) = spelled(ctx, &statement)? else { return Ok(statement) };
    let Some(tree) = spelled.node() else { return Ok(statement) };
    let text: Arc<str> = Arc::from(tree::deparse(tree)?);
    Ok(Statement { sql: text.clone(), node_sql: text, ..spelled })
}

fn spelled(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Statement>> {
    let Some(tree) = statement.query_tree() else { return Ok(None) };
    let mut whole = tree::node(tree.clone());
    // In words of the user's own `t.*` may stand for the columns.
    let tables = if ctx.analysis.is_some() { aliases(ctx, &whole)? } else { HashMap::new() };
    let found = whole.put(|node| match &node.node {
        Some(NodeEnum::TypeCast(cast)) => row_of_columns(ctx, cast),
        Some(NodeEnum::ColumnRef(column)) => match tree::row_alias(column) {
            Some(alias) => tables.get(alias).and_then(Option::as_ref).map(|of| row_of(alias, of)).transpose(),
            None => Ok(None),
        },
        _ => Ok(None),
    })?;
    Ok(whole.node.filter(|_| found).map(|tree| statement.with_query_tree(tree)))
}

/// What the names of FROM mean; `None` where it is no table's row, or not everywhere the same.
fn aliases(ctx: &Context<'_>, tree: &Node) -> Result<HashMap<String, Option<Arc<Relation>>>> {
    let mut meant: HashMap<String, Option<Arc<Relation>>> = HashMap::new();
    tree.walk(&mut |node| {
        let (alias, relation) = match node {
            Ref::RangeVar(name) => {
                let alias = name.alias.as_ref().map_or(&name.relname, |alias| &alias.aliasname);
                (alias, ctx.catalog.relation(&name.schemaname, &name.relname).cloned())
            }
            Ref::Alias(alias) => (&alias.aliasname, None),
            _ => return Ok(true),
        };
        let known = meant.entry(alias.clone()).or_insert_with(|| relation.clone());
        if known.as_ref().map(|known| known.oid) != relation.map(|relation| relation.oid) {
            *known = None;
        }
        Ok(false)
    })?;
    Ok(meant)
}

fn row_of_columns(ctx: &Context<'_>, cast: &TypeCast) -> Result<Option<Node>> {
    let Some((alias, of)) = tree::whole_row(cast) else { return Ok(None) };
    let [schema, name] = of.names.as_slice() else { return Ok(None) };
    let (Some(schema), Some(name)) = (tree::text_of(schema), tree::text_of(name)) else { return Ok(None) };
    ctx.catalog.relation(schema, name).map(|relation| row_of(alias, relation)).transpose()
}

fn row_of(alias: &str, relation: &Relation) -> Result<Node> {
    let alias = catalog::quote_identifier(alias);
    let column = |column: &catalog::Column| format!("{alias}.{}", catalog::quote_identifier(&column.name));
    let columns: Vec<String> = relation.columns.iter().map(column).collect();
    let row = format!(
        "CASE WHEN {alias}.* IS DISTINCT FROM NULL THEN CAST(ROW({}) AS {}) END",
        columns.join(", "),
        relation.qualified_name()
    );
    tree::parse_expression(&row)
}
