//! `ctid` in a change: `DELETE … WHERE ctid NOT IN (SELECT min(ctid) …)` is how duplicates are removed.
//!
//! A row's address means something on its own node only, so gathered rows bring along one that is unique over all nodes, as a
//! column of another name: the node's number in front of the block's (there is room for 64 nodes of 512 GiB a table). What it
//! is compared with must come from rows too.

use pg_query::protobuf::AExpr;
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::tree::{self, Ask, Ref, Walk};

/// The column's name.
pub(crate) const COLUMN: &str = "loxo_row";

/// What a fragment gives for it.
pub(crate) fn value() -> Result<Node> {
    tree::parse_expression(
        "('(' || ((ctid::pg_catalog.text::pg_catalog.point)[0]::pg_catalog.int8 \
         + 67108864 * (SELECT node_id FROM loxo.identity))::pg_catalog.text || ',' \
         || (ctid::pg_catalog.text::pg_catalog.point)[1]::pg_catalog.text || ')')::pg_catalog.tid",
    )
}

/// Puts the column in place of every `ctid`; was there one?
pub(crate) fn rename(query: &mut NodeEnum) -> Result<bool> {
    if !query.any(|node| matches!(node, Ref::ColumnRef(column) if tree::last_name(&column.fields) == Some("ctid")))? {
        return Ok(false);
    }
    check_constants(query)?;
    let rename = |name: &mut Node| {
        if tree::text_of(name) == Some("ctid") {
            *name = tree::string(COLUMN);
        }
    };
    query.rewrite(&mut |node: &mut Node| {
        match &mut node.node {
            Some(NodeEnum::ColumnRef(column)) => column.fields.iter_mut().next_back().into_iter().for_each(rename),
            Some(NodeEnum::ResTarget(target)) if target.name == "ctid" => COLUMN.clone_into(&mut target.name),
            Some(NodeEnum::CommonTableExpr(item)) => item.aliascolnames.iter_mut().for_each(rename),
            Some(NodeEnum::RangeSubselect(sub)) => {
                sub.alias.iter_mut().flat_map(|alias| &mut alias.colnames).for_each(rename);
            }
            _ => {}
        }
        Ok(true)
    })?;
    Ok(true)
}

/// `ctid = '(0,1)'` would mean another row on each node.
pub(crate) fn check_constants(query: &NodeEnum) -> Result<()> {
    let constant = query.try_any(|node| {
        Ok(match node {
            Ref::AExpr(AExpr { lexpr: Some(left), rexpr: Some(right), .. }) => {
                (is_ctid(left) && is_constant(right)?) || (is_ctid(right) && is_constant(left)?)
            }
            _ => false,
        })
    })?;
    match constant {
        false => Ok(()),
        true => Err(PgError::unsupported("a constant ctid in a change over several nodes")
            .detail("A row has its address on its own node, where others have the same.")
            .hint("Name the row by its key.")),
    }
}

fn is_ctid(node: &Node) -> bool {
    matches!(&node.node, Some(NodeEnum::ColumnRef(column)) if tree::last_name(&column.fields) == Some("ctid"))
}

fn is_constant(node: &Node) -> Result<bool> {
    Ok(!node.any(|node| matches!(node, Ref::ColumnRef(_) | Ref::SubLink(_)))?)
}
