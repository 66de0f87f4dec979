//! Calls in HAVING: the groups come first, without the conditions that call; what is left is about them as about rows.

use pg_query::protobuf::SelectStmt;
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::select::{conditions, value_mut};
use super::slots::{Draft, rows_item};
use crate::select::shape;
use crate::tree::{self, Walk};

/// The query that gives the groups, and the one over them, whose select list may have calls still.
pub(super) fn split(draft: &mut Draft<'_>, query: &SelectStmt) -> Result<(SelectStmt, SelectStmt)> {
    let has_sets = query.group_clause.iter().any(|item| matches!(item.node, Some(NodeEnum::GroupingSet(_))));
    draft.fails |= has_sets || !shape::windows(query)?.is_empty() || !query.locking_clause.is_empty();
    let (early, kept, _) = conditions(draft, query.having_clause.as_deref(), &query.group_clause)?;
    let mut rest = SelectStmt {
        with_clause: None,
        from_clause: vec![rows_item()],
        where_clause: tree::conjunction(kept).map(Box::new),
        group_clause: Vec::new(),
        having_clause: None,
        ..query.clone()
    };
    let mut groups = Groups { group: &query.group_clause, known: Vec::new() };
    for target in &mut rest.target_list {
        if let Some(value) = value_mut(target) {
            groups.over(draft, value)?;
        }
    }
    for item in &mut rest.sort_clause {
        if let Some(value) = tree::sorted_mut(item).filter(|value| shape::ordinal(value).is_none()) {
            groups.over(draft, value)?;
        }
    }
    for item in &mut rest.distinct_clause {
        groups.over(draft, item)?;
    }
    let rows = SelectStmt {
        target_list: draft.targets(),
        having_clause: tree::conjunction(early).map(Box::new),
        sort_clause: Vec::new(),
        distinct_clause: Vec::new(),
        limit_count: None,
        limit_offset: None,
        limit_option: tree::empty_select().limit_option,
        ..query.clone()
    };
    Ok((rows, rest))
}

/// What is known of a group.
struct Groups<'q> {
    group: &'q [Node],
    /// Expressions, and the slots of their values.
    known: Vec<(Node, Node)>,
}

impl Groups<'_> {
    /// Slots in place of what the groups are made by, aggregates, and columns that depend on these. Calls stay.
    fn over(&mut self, draft: &mut Draft<'_>, value: &mut Node) -> Result<()> {
        value.rewrite(&mut |node| {
            let is_of_group = match &node.node {
                Some(NodeEnum::ColumnRef(_)) => true,
                Some(NodeEnum::FuncCall(call)) => call.over.is_some() || shape::is_aggregate(draft.ctx, call),
                Some(NodeEnum::GroupingFunc(_) | NodeEnum::SubLink(_)) => {
                    draft.fails = true;
                    false
                }
                _ => self.group.iter().any(|by| tree::same_expression(by, node)),
            };
            if is_of_group {
                *node = self.slot(draft, node)?;
            }
            Ok(!is_of_group)
        })
    }

    fn slot(&mut self, draft: &mut Draft<'_>, value: &Node) -> Result<Node> {
        // One with a call in it was computed before, and is a column now.
        draft.fails |= draft.calls_in(value)?;
        if let Some((_, slot)) = self.known.iter().find(|(known, _)| tree::same_expression(known, value)) {
            return Ok(slot.clone());
        }
        let slot = draft.column(value);
        self.known.push((value.clone(), slot.clone()));
        Ok(slot)
    }
}
