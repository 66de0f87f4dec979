//! Conditions that the fragments of moved tables have applied need not be asked again, and columns that only they mention
//! need not travel.

use std::collections::HashSet;

use pg_query::protobuf::{Boolean, SelectStmt, a_const};
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
                let left = rest(join.quals.take(), conditions, &mut found).unwrap_or_else(always);
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

/// ON needs some condition.
fn always() -> Node {
    let val = Some(a_const::Val::Boolval(Boolean { boolval: true }));
    tree::node(NodeEnum::AConst(pg_query::protobuf::AConst { isnull: false, location: -1, val }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(query: &SelectStmt, at: usize) -> Node {
        tree::conjuncts(query.where_clause.as_deref())[at].clone()
    }

    #[test]
    fn a_condition_found_once_is_removed() {
        let query = tree::parse_select("SELECT a FROM t LEFT JOIN u ON u.k = t.k WHERE a > 1 AND b < 2").unwrap();
        let left = without(&query, &[condition(&query, 0)]).unwrap().unwrap();
        assert_eq!(tree::deparse_select(&left).unwrap(), "SELECT a FROM t LEFT JOIN u ON u.k = t.k WHERE b < 2");
    }

    #[test]
    fn a_condition_found_twice_or_never_stays() {
        let query = tree::parse_select("SELECT a FROM t WHERE a > 1").unwrap();
        let once = condition(&query, 0);
        let mut twice = query.clone();
        twice.where_clause = Some(Box::new(tree::and(vec![once.clone(), once.clone()])));
        assert!(without(&twice, std::slice::from_ref(&once)).unwrap().is_none());
        let other = tree::parse_select("SELECT a FROM t WHERE b").unwrap();
        assert!(without(&other, &[once]).unwrap().is_none());
    }
}
