//! Sub-selects that lock rows of several nodes are run before the statement they are in, which then gets their rows.
//!
//! ```text
//! UPDATE q … WHERE id = (SELECT id FROM q … FOR UPDATE SKIP LOCKED LIMIT 1)
//!   →  SELECT id FROM q … FOR UPDATE SKIP LOCKED LIMIT 1;   UPDATE q … WHERE id = (SELECT * FROM loxo_locked_1)
//! ```
//!
//! A sub-select that refers to nothing outside itself is computed once in PostgreSQL too. Items of WITH that it reads are
//! computed once more for it, so they must not change anything.

use pg_query::protobuf::{CommonTableExpr, SelectStmt, WithClause};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::Context;
use crate::facts::functions::facts;
use crate::parse::Statement;
use crate::plan::Lifted;
use crate::tree::{self, Ask, Get, Ref, Walk};

/// Does a sub-select lock rows?
pub(crate) fn locks_below(statement: &Statement) -> Result<bool> {
    if statement.kind.row_command().is_none() {
        return Ok(false);
    }
    let Some(tree) = statement.node() else { return Ok(false) };
    Ok(clauses(tree)? > top_clauses(tree))
}

fn clauses(tree: &NodeEnum) -> Result<usize> {
    tree.count(|node| matches!(node, Ref::LockingClause(_)))
}

fn top_clauses(tree: &NodeEnum) -> usize {
    tree.get::<SelectStmt>().map_or(0, |select| select.locking_clause.len())
}

/// `None` if a sub-select cannot be taken out.
pub(crate) fn lifted(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Lifted>> {
    let Some(tree) = statement.node() else { return Ok(None) };
    if facts(ctx, tree)?.refused.is_some() {
        return Ok(None);
    }
    let mut tree = tree.clone();
    let mut parts: Vec<SelectStmt> = Vec::new();
    tree.rewrite(&mut |node: &mut Node| {
        if let Some(select) = node.get_mut::<SelectStmt>()
            && !tree::is_operation(select)
            && (!select.locking_clause.is_empty() || locks_beside(&select.from_clause)?)
        {
            let rows = tree::parse_select(&Lifted::marker(parts.len()))?;
            parts.push(std::mem::replace(select, rows));
        }
        Ok(true)
    })?;
    if parts.is_empty() || clauses(&tree)? > top_clauses(&tree) {
        return Ok(None);
    }
    of_parts(parts, &tree, statement.parameters)
}

/// Does a LATERAL sub-select of FROM lock rows? It depends on the items before it, so the query is taken out with it.
fn locks_beside(items: &[Node]) -> Result<bool> {
    crate::try_any(items, |item| match &item.node {
        Some(NodeEnum::RangeSubselect(query)) if query.lateral => match query.subquery.as_deref() {
            Some(Node { node: Some(query) }) => Ok(clauses(query)? > 0),
            _ => Ok(false),
        },
        Some(NodeEnum::JoinExpr(join)) => {
            let sides = [join.larg.as_deref(), join.rarg.as_deref()];
            crate::try_any(sides.into_iter().flatten(), |side| locks_beside(std::slice::from_ref(side)))
        }
        _ => Ok(false),
    })
}

/// What is left of a statement whose parts have been taken out, with the items of WITH that they read; `None` if these change rows.
pub(crate) fn of_parts(parts: Vec<SelectStmt>, tree: &NodeEnum, parameters: usize) -> Result<Option<Lifted>> {
    let with = tree::with_of(tree).cloned();
    let parts = parts.into_iter().map(|part| with_items(part, with.as_ref())).collect::<Result<Option<Vec<_>>>>()?;
    let Some(parts) = parts else { return Ok(None) };
    let parts = parts.iter().map(tree::deparse_select).collect::<Result<_>>()?;
    Ok(Some(Lifted { parts, rest: tree::deparse(tree)?, parameters, of_views: false, may_be_unwanted: false }))
}

/// The sub-select with the items of the statement's WITH that it reads, and those that they read; `None` if one of them changes rows.
fn with_items(mut part: SelectStmt, with: Option<&WithClause>) -> Result<Option<SelectStmt>> {
    let Some(with) = with else { return Ok(Some(part)) };
    let mut wanted = names_in(&part)?;
    let mut items = Vec::new();
    for item in with.ctes.iter().rev() {
        let Some(cte) = item.get::<CommonTableExpr>() else { continue };
        if !wanted.contains(&cte.ctename) {
            continue;
        }
        let Some(query) = cte.ctequery.get::<SelectStmt>() else { return Ok(None) };
        wanted.extend(names_in(query)?);
        items.push(item.clone());
    }
    if items.is_empty() {
        return Ok(Some(part));
    }
    if part.with_clause.is_some() {
        return Err(PgError::unsupported(
            "a sub-select with FOR UPDATE or calls for each row, a WITH of its own and one of the statement's",
        )
        .hint("Write one WITH clause."));
    }
    items.reverse();
    part.with_clause = Some(WithClause { ctes: items, ..with.clone() });
    Ok(Some(part))
}

/// Unqualified names of tables.
fn names_in(select: &SelectStmt) -> Result<Vec<String>> {
    let bare = select.tables()?.into_iter().filter(|name| name.schemaname.is_empty());
    Ok(bare.map(|name| name.relname.clone()).collect())
}
