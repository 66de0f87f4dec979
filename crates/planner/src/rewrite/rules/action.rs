//! What an action of a rule becomes for one statement.

use std::collections::BTreeMap;

use pg_query::protobuf::{ColumnRef, InsertStmt, List, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result, SqlState};

use super::Origin;
use super::query::{Query, ROWS, Which, add};
use crate::tree::{self, Ask, Get, Ref, Syntax, Walk};

/// What an action of several rows calls them.
const VALUES: &str = "loxo_values";

/// Puts values in the place of `old.x` and `new.x`, as PostgreSQL prints them.
pub(super) fn replace<T: Walk>(part: &mut T, value: &mut dyn FnMut(Which, &str) -> Result<Node>) -> Result<()> {
    part.put(|node| {
        let Some(column) = node.get::<ColumnRef>() else { return Ok(None) };
        let which = match column.fields.first().and_then(tree::text_of) {
            Some("old") => Which::Old,
            Some("new") => Which::New,
            _ => return Ok(None),
        };
        match column.fields.as_slice() {
            [_, name] if let Some(name) = tree::text_of(name) => value(which, name).map(Some),
            [_] => Ok(None),
            _ => Err(PgError::unsupported("a row as a whole in a rule").hint("Name the columns one by one.")),
        }
    })?;
    Ok(())
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
        if let NodeEnum::UpdateStmt(update) = &mut tree {
            self.keep_key(update)?;
        }
        let mut needed = BTreeMap::new();
        let mut value = |which, column: &str| self.value(which, column, &mut needed);
        replace(&mut condition, &mut value)?;
        replace(&mut tree, &mut value)?;
        let rows = self.item(&needed)?;
        let condition: Vec<Node> = condition.into_iter().collect();
        match &mut tree {
            NodeEnum::InsertStmt(insert) => self.insert(insert, rows, condition)?,
            NodeEnum::UpdateStmt(u) => look_at(rows, &mut u.from_clause, &mut u.where_clause, condition)?,
            NodeEnum::DeleteStmt(d) => look_at(rows, &mut d.using_clause, &mut d.where_clause, condition)?,
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
            Some(NodeEnum::SelectStmt(select)) => self.as_query(insert, *select)?,
            _ => return Err(self.refused("a rule with DEFAULT VALUES")),
        };
        look_at(rows, &mut select.from_clause, &mut select.where_clause, condition)?;
        insert.select_stmt = select.into_box();
        Ok(())
    }

    /// VALUES as a SELECT; columns that get their default are left out.
    fn as_query(&self, insert: &mut InsertStmt, select: SelectStmt) -> Result<SelectStmt> {
        if select.values_lists.is_empty() {
            return Ok(select);
        }
        let values_of = |row: Node| if let Some(NodeEnum::List(row)) = row.node { Some(row.items) } else { None };
        let mut rows: Vec<Vec<Node>> = select.values_lists.into_iter().filter_map(values_of).collect();
        let defaults = |column: usize| rows.iter().filter(|row| row.get(column).is_none_or(tree::is_default)).count();
        let counts: Vec<usize> = (0..insert.cols.len()).map(defaults).collect();
        if counts.iter().any(|count| *count != 0 && *count != rows.len()) {
            return Err(self.refused("a rule with DEFAULT for some of its rows"));
        }
        let mut keeps = counts.iter().map(|count| *count == 0);
        insert.cols.retain(|_| keeps.next().unwrap_or(true));
        rows.iter_mut().for_each(|row| row.retain(|value| !tree::is_default(value)));
        match <[Vec<Node>; 1]>::try_from(rows) {
            Ok([row]) => {
                let target_list = row.into_iter().map(|value| tree::target(value, None)).collect();
                Ok(SelectStmt { target_list, ..tree::empty_select() })
            }
            Err(rows) => Ok(of_values(rows)),
        }
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
        let with = tree::with_of(self.tree).is_some();
        let queries = products.iter().filter(|(tree, _)| !matches!(tree, NodeEnum::NotifyStmt(_))).count();
        if with && queries + usize::from(!is_replaced) > 1 {
            let message = "WITH cannot be used in a query that is rewritten by rules into multiple queries";
            return Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if with && self.tree.count(|node| super::target_of(node).is_some())? > 1 {
            return Err(self.refused("a WITH that changes rows"));
        }
        Ok(())
    }
}

/// Adds OLD and NEW to a FROM, and conditions about them to its WHERE.
fn look_at(rows: Option<Node>, from: &mut Vec<Node>, condition: &mut Option<Box<Node>>, more: Vec<Node>) -> Result<()> {
    let_see_rows(from)?;
    from.splice(0..0, rows);
    add(condition, more);
    Ok(())
}

/// Sub-selects in FROM see OLD and NEW, also without LATERAL.
fn let_see_rows(items: &mut [Node]) -> Result<()> {
    for item in items {
        match &mut item.node {
            Some(NodeEnum::RangeSubselect(query)) => query.lateral |= mentions_rows(&query.subquery)?,
            Some(NodeEnum::JoinExpr(join)) => {
                for side in [&mut join.larg, &mut join.rarg].into_iter().flatten() {
                    let_see_rows(std::slice::from_mut(side))?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// `SELECT * FROM (VALUES …)`.
fn of_values(rows: Vec<Vec<Node>>) -> SelectStmt {
    let list = |items| tree::node(NodeEnum::List(List { items }));
    let values = SelectStmt { values_lists: rows.into_iter().map(list).collect(), ..tree::empty_select() };
    let all = vec![tree::target(tree::star(Some(VALUES)), None)];
    tree::select_from(all, vec![tree::sub_select(values, tree::alias(VALUES))])
}

fn mentions_rows(part: &impl Walk) -> Result<bool> {
    part.any(
        |node| matches!(node, Ref::ColumnRef(column) if column.fields.first().and_then(tree::text_of) == Some(ROWS)),
    )
}
