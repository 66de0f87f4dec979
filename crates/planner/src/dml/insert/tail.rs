//! ON CONFLICT and RETURNING of an INSERT: the nodes run them, each with its own rows.

use catalog::{Distribution, NodeId, Relation};
use pg_query::protobuf::{ColumnRef, InsertStmt, OverridingKind, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::is_whole;
use crate::context::{Context, Named};
use crate::dml::update::{assignments, key_change};
use crate::facts::functions::facts;
use crate::tree::{self, Ask, Get, Ref, Syntax, Walk};

/// As text: what they add to a bare INSERT.
pub(in crate::dml) fn text(insert: &InsertStmt) -> Result<String> {
    let mut bare = insert.clone();
    bare.cols.clear();
    bare.select_stmt = None;
    bare.with_clause = None;
    bare.r#override = OverridingKind::OverridingNotSet as i32;
    let head = InsertStmt { on_conflict_clause: None, returning_clause: None, ..bare.clone() };
    let text = |insert: InsertStmt| tree::deparse(&insert.into_tree());
    let (text, head) = (text(bare)?, text(head)?);
    let tail = text.strip_prefix(&head).ok_or_else(|| PgError::internal("an INSERT whose clauses do not come last"))?;
    Ok(tail.trim().to_owned())
}

/// What stands after INSERT INTO, by the user's alias.
pub(in crate::dml) fn target(insert: &InsertStmt, into: &Relation) -> String {
    let alias = insert.relation.as_ref().and_then(|target| target.alias.as_ref());
    let alias = alias.map(|alias| format!(" AS {}", catalog::quote_identifier(&alias.aliasname)));
    into.qualified_name() + &alias.unwrap_or_default()
}

/// DO UPDATE must not move a row. The row that is met has the key of the new one, since every unique key contains the
/// distribution key: `SET key = EXCLUDED.key` changes nothing.
pub(in crate::dml) fn check_key(ctx: &Context<'_>, insert: &InsertStmt, relation: &Relation) -> Result<()> {
    let Some(conflict) = &insert.on_conflict_clause else { return Ok(()) };
    let keys = relation.key_names();
    let named = conflict.target_list.iter().filter_map(tree::name_of);
    let Some(first) = named.into_iter().find(|name| keys.contains(name)) else { return Ok(()) };
    let values = assignments(ctx, &conflict.target_list).map_err(|_| key_change(relation, first))?;
    match values.iter().find(|(name, value)| keys.contains(&name.as_str()) && !is_same(name, value.as_ref())) {
        Some((name, _)) => Err(key_change(relation, name)),
        None => Ok(()),
    }
}

/// `EXCLUDED.name`.
fn is_same(name: &str, value: Option<&Node>) -> bool {
    let Some(column) = value.and_then(|value| value.get::<ColumnRef>()) else { return false };
    let fields: Vec<Option<&str>> = column.fields.iter().map(tree::text_of).collect();
    fields == [Some("excluded"), Some(name)]
}

/// A sub-select must be what it is on every node that may get rows, and not about the table that changes meanwhile.
pub(in crate::dml) fn check_sub_selects(ctx: &Context<'_>, insert: &InsertStmt, relation: &Relation) -> Result<()> {
    let mut selects = Vec::new();
    for node in expressions(insert) {
        node.walk(&mut |node| {
            let Ref::SubLink(link) = node else { return Ok(true) };
            selects.extend(link.subselect.as_deref());
            Ok(false)
        })?;
    }
    let nodes = relation.distribution.nodes();
    let is_target = |named: &Named| matches!(named, Named::Distributed(table) if table.oid == relation.oid);
    for select in selects {
        let is_whole = select.get().map_or(Ok(false), |query| is_whole(ctx, query, &nodes))?;
        if !is_whole || ctx.names(select, is_target)? {
            return Err(PgError::unsupported("a sub-select in ON CONFLICT or RETURNING")
                .detail("It needs rows that are not on every node of the table, or reads the table itself.")
                .hint("Run the sub-select first."));
        }
    }
    Ok(())
}

/// Do sub-selects of these clauses read tables of which this node has not all rows?
pub(super) fn reads_elsewhere(ctx: &Context<'_>, insert: &InsertStmt, node: NodeId) -> Result<bool> {
    let is_here =
        |table: &Relation| matches!(&table.distribution, Distribution::Replicated { nodes } if nodes.contains(&node));
    let is_elsewhere = |named: &Named| matches!(named, Named::Distributed(table) if !is_here(table));
    crate::try_any(expressions(insert), |part| ctx.names(part, is_elsewhere))
}

/// The nodes that get the rows would evaluate it: with sequences of their own, say, or without the tables that a function reads.
pub(in crate::dml) fn check_home(ctx: &Context<'_>, insert: &InsertStmt, relation: &Relation) -> Result<()> {
    let conflict = insert.on_conflict_clause.clone().map(|clause| tree::node(NodeEnum::OnConflictClause(clause)));
    let target_list = crate::dml::returning_list(insert.returning_clause.as_ref());
    let tail = SelectStmt { target_list, where_clause: conflict.map(Box::new), ..tree::empty_select() };
    let facts = facts(ctx, &tail)?;
    if !relation.distribution.nodes().iter().all(|node| facts.has_what_functions_read(*node)) {
        return Err(PgError::unsupported("a function that reads tables in ON CONFLICT or RETURNING")
            .detail("The tables that it reads are not on every node of the table.")
            .hint("Replicate the tables it reads to all datanodes."));
    }
    match facts.home {
        Some(what) => Err(PgError::unsupported(format!("{what} in ON CONFLICT or RETURNING"))
            .detail("Only the home node can evaluate it, and the rows may lie on others.")
            .hint("Compute the value first and send it as a constant.")),
        None => Ok(()),
    }
}

/// Do the clauses name nothing of the target but its columns: no row as a whole, no constraint, and nothing that only PostgreSQL
/// adds to a row?
pub(super) fn names_columns_only(insert: &InsertStmt, relation: &Relation) -> Result<bool> {
    let infer = insert.on_conflict_clause.as_ref().and_then(|conflict| conflict.infer.as_ref());
    if infer.is_some_and(|infer| !infer.conname.is_empty()) {
        return Ok(false);
    }
    for node in expressions(insert) {
        let is_one = |fields: &[Node]| {
            fields.len() <= 2
                && fields.last().and_then(tree::text_of).is_some_and(|name| relation.column(name).is_some())
        };
        let holds = |node: Ref<'_>| match node {
            Ref::ColumnRef(column) => is_one(&column.fields),
            Ref::SubLink(_) => false,
            _ => true,
        };
        if !node.every(holds)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Those of RETURNING and ON CONFLICT.
fn expressions(insert: &InsertStmt) -> Vec<&Node> {
    let mut all: Vec<&Node> = insert.returning_clause.iter().flat_map(|returning| &returning.exprs).collect();
    if let Some(conflict) = &insert.on_conflict_clause {
        all.extend(&conflict.target_list);
        all.extend(conflict.where_clause.as_deref());
    }
    all
}
