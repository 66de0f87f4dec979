//! Conditions that the fragments of moved tables have applied need not be asked again, and columns that only they mention need not travel.

use std::collections::HashSet;

use pg_query::protobuf::SelectStmt;
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use crate::tree::{self, Walk};

/// The query without these conditions; `None` unless each of them was found exactly once.
///
/// (A view that is used twice gives two conditions that nothing tells apart, and only one of its tables may have moved.)
pub(super) fn without(query: &SelectStmt, conditions: &[Node]) -> Result<Option<SelectStmt>> {
    let mut found: Vec<usize> = vec![0; conditions.len()];
    let mut query = query.clone();
    query.where_clause = rest(query.where_clause.take(), conditions, &mut found).map(Box::new);
    query.rewrite(&mut |node: &mut Node| {
        match &mut node.node {
            Some(NodeEnum::SelectStmt(select)) => {
                select.where_clause = rest(select.where_clause.take(), conditions, &mut found).map(Box::new);
            }
            Some(NodeEnum::JoinExpr(join)) if join.quals.is_some() => {
                // ON needs some condition.
                let left = rest(join.quals.take(), conditions, &mut found).unwrap_or_else(|| tree::boolean(true));
                join.quals = Some(Box::new(left));
            }
            _ => {}
        }
        Ok(true)
    })?;
    Ok(found.iter().all(|count| *count == 1).then_some(query))
}

/// What is left of a conjunction.
fn rest(condition: Option<Box<Node>>, removed: &[Node], found: &mut [usize]) -> Option<Node> {
    let condition = *condition?;
    let mut dropped = HashSet::new();
    for (i, part) in tree::conjuncts(Some(&condition)).into_iter().enumerate() {
        if let Some(at) = removed.iter().position(|other| other == part) {
            found[at] += 1;
            dropped.insert(i);
        }
    }
    if dropped.is_empty() {
        return Some(condition);
    }
    let kept = tree::conjuncts(Some(&condition)).into_iter().enumerate().filter(|(i, _)| !dropped.contains(i));
    tree::conjunction(kept.map(|(_, part)| part.clone()).collect())
}
