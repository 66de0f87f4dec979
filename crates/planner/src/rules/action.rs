//! What an action of a rule becomes for one statement.

use std::collections::BTreeMap;

use pg_query::protobuf::{InsertStmt, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result, SqlState};

use super::Origin;
use super::query::{Query, ROWS, Which, add};
use crate::tree::{self, Ref, Walk};

/// Puts values in the place of `old.x` and `new.x`, as PostgreSQL prints them.
pub(super) fn replace<T: Walk>(part: &mut T, value: &mut dyn FnMut(Which, &str) -> Result<Node>) -> Result<()> {
    part.rewrite(&mut |node| {
        let Some(NodeEnum::ColumnRef(column)) = &node.node else { return Ok(true) };
        let Some(which) = column.fields.first().and_then(tree::text_of).and_then(row_named) else { return Ok(true) };
        match column.fields.as_slice() {
            [_, name] if let Some(name) = tree::text_of(name) => *node = value(which, name)?,
            [_] => return Ok(true),
            _ => {
                return Err(PgError::unsupported("a row as a whole in a rule").hint("Name the columns one by one."));
            }
        }
        Ok(false)
    })
}

fn row_named(name: &str) -> Option<Which> {
    match name {
        "old" => Some(Which::Old),
        "new" => Some(Which::New),
        _ => None,
    }
}

impl Query<'_> {
    /// The action's own statement, once for each row of the change.
    pub fn fire(&self, action: &NodeEnum, condition: Option<&Node>) -> Result<NodeEnum> {
        if let NodeEnum::NotifyStmt(_) = action {
            return Ok(action.clone());
        }
        let mut tree = action.clone();
        let mut condition = condition.cloned();
        self.take_returning(&mut tree)?;
        let mut needed = BTreeMap::new();
        let mut value = |which, column: &str| self.value(which, column, &mut needed);
        replace(&mut condition, &mut value)?;
        replace(&mut tree, &mut value)?;
        let rows = self.item(&needed)?;
        let condition: Vec<Node> = condition.into_iter().collect();
        match &mut tree {
            NodeEnum::InsertStmt(insert) => self.insert(insert, rows, condition)?,
            NodeEnum::UpdateStmt(update) => {
                update.from_clause.splice(0..0, rows);
                add(&mut update.where_clause, condition);
            }
            NodeEnum::DeleteStmt(delete) => {
                delete.using_clause.splice(0..0, rows);
                add(&mut delete.where_clause, condition);
            }
            _ => return Err(PgError::internal("no action of a rule")),
        }
        Ok(tree)
    }

    fn insert(&self, insert: &mut InsertStmt, rows: Option<Node>, condition: Vec<Node>) -> Result<()> {
        if rows.is_some() && (mentions_rows(&insert.returning_clause)? || mentions_rows(&insert.on_conflict_clause)?) {
            return Err(self.refused("a rule that needs OLD or NEW in RETURNING or ON CONFLICT of an INSERT,"));
        }
        if rows.is_none() && condition.is_empty() {
            return Ok(());
        }
        let mut select = match insert.select_stmt.take().and_then(|node| node.node) {
            Some(NodeEnum::SelectStmt(select)) => as_query(insert, *select),
            _ => return Err(self.refused("a rule with DEFAULT VALUES")),
        };
        select.from_clause.splice(0..0, rows);
        add(&mut select.where_clause, condition);
        insert.select_stmt = Some(Box::new(tree::node(NodeEnum::SelectStmt(Box::new(select)))));
        Ok(())
    }

    /// What PostgreSQL refuses of the statement's own clauses.
    pub fn check_clauses(&self, products: &[(NodeEnum, Origin)], is_replaced: bool, is_view: bool) -> Result<()> {
        let has_update_rule = self.relation.rules.iter().any(|rule| rule.event == catalog::RuleEvent::Update);
        let has_conflict = matches!(self.tree, NodeEnum::InsertStmt(insert) if insert.on_conflict_clause.is_some());
        let is_through = is_view && !is_replaced;
        if has_conflict && (!products.is_empty() || has_update_rule) && !is_through {
            let message = "INSERT with ON CONFLICT clause cannot be used with table that has INSERT or UPDATE rules";
            return Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let with = match self.tree {
            NodeEnum::InsertStmt(insert) => insert.with_clause.is_some(),
            NodeEnum::UpdateStmt(update) => update.with_clause.is_some(),
            NodeEnum::DeleteStmt(delete) => delete.with_clause.is_some(),
            _ => false,
        };
        let queries = products.iter().filter(|(tree, _)| !matches!(tree, NodeEnum::NotifyStmt(_))).count();
        if with && queries + usize::from(!is_replaced) > 1 {
            let message = "WITH cannot be used in a query that is rewritten by rules into multiple queries";
            return Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if with && changes_rows_in_with(self.tree)? {
            return Err(self.refused("a WITH that changes rows"));
        }
        Ok(())
    }
}

/// `VALUES (…)` as a SELECT; columns that get their default are left out.
fn as_query(insert: &mut InsertStmt, select: SelectStmt) -> SelectStmt {
    let row = match select.values_lists.into_iter().next() {
        Some(Node { node: Some(NodeEnum::List(row)) }) => row.items,
        _ => return SelectStmt { values_lists: Vec::new(), ..select },
    };
    let is_default = |value: &Node| matches!(value.node, Some(NodeEnum::SetToDefault(_)));
    let columns = std::mem::take(&mut insert.cols);
    let kept = columns.into_iter().zip(row).filter(|(_, value)| !is_default(value));
    let (columns, values): (Vec<Node>, Vec<Node>) = kept.unzip();
    insert.cols = columns;
    let target_list = values.into_iter().map(|value| tree::target(value, None)).collect();
    SelectStmt { target_list, ..tree::empty_select() }
}

fn mentions_rows(part: &impl Walk) -> Result<bool> {
    let mut found = false;
    part.walk(&mut |node| {
        if let Ref::ColumnRef(column) = node {
            found |= column.fields.first().and_then(tree::text_of) == Some(ROWS);
        }
        Ok(!found)
    })?;
    Ok(found)
}

fn changes_rows_in_with(tree: &NodeEnum) -> Result<bool> {
    let mut changes = 0;
    tree.walk(&mut |node| {
        changes += usize::from(super::target_of(node).is_some());
        Ok(true)
    })?;
    Ok(changes > 1)
}
