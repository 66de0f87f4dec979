//! Defaults that a view's columns have of their own, by `ALTER VIEW … ALTER COLUMN … SET DEFAULT` or by their type: they go before the table's.

use catalog::Relation;
use pg_query::protobuf::{InsertStmt, List, ResTarget, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::refused;
use crate::tree::{self, Ask, Get, Ref, Syntax};

/// Writes them out where an INSERT into the view takes them.
pub(super) fn of_insert(view: &Relation, insert: &mut InsertStmt) -> Result<()> {
    let defaults = defaults(view)?;
    if defaults.is_empty() {
        return Ok(());
    }
    let Some(query) = insert.select_stmt.as_deref_mut() else {
        insert.cols = defaults.iter().map(|(name, _)| tree::target_name_only(name)).collect();
        let items = defaults.into_iter().map(|(_, value)| value).collect();
        let row = tree::node(NodeEnum::List(List { items }));
        let rows = SelectStmt { values_lists: vec![row], ..tree::empty_select() };
        insert.select_stmt = rows.into_box();
        return Ok(());
    };
    let given: Vec<String> = match insert.cols.is_empty() {
        false => insert.cols.iter().filter_map(tree::name_of).map(str::to_owned).collect(),
        true => {
            let count = query.get::<SelectStmt>().and_then(tree::width).unwrap_or(view.columns.len());
            view.columns.iter().take(count).map(|column| column.name.clone()).collect()
        }
    };
    let missing: Vec<_> = defaults.iter().filter(|(name, _)| !given.contains(name)).collect();
    let rows = match &mut query.node {
        Some(NodeEnum::SelectStmt(select)) if !select.values_lists.is_empty() => &mut select.values_lists,
        _ if missing.is_empty() => return Ok(()),
        Some(NodeEnum::SelectStmt(select)) if may_grow(select) => {
            select.target_list.extend(missing.iter().map(|(_, value)| tree::target(value.clone(), None)));
            name_columns(insert, &given, &missing);
            return Ok(());
        }
        _ => return Err(refused(view, "It has defaults of its own, and a query gives its rows.")),
    };
    for row in rows {
        let Some(row) = row.get_mut::<List>() else { continue };
        for (value, name) in row.items.iter_mut().zip(&given) {
            let default = defaults.iter().find(|(known, _)| known == name);
            if let (Some(NodeEnum::SetToDefault(_)), Some((_, default))) = (&value.node, default) {
                *value = default.clone();
            }
        }
        row.items.extend(missing.iter().map(|(_, value)| value.clone()));
    }
    name_columns(insert, &given, &missing);
    Ok(())
}

/// Those that the statement names stay as they stand: they may be parts of columns.
fn name_columns(insert: &mut InsertStmt, given: &[String], missing: &[&(String, Node)]) {
    if insert.cols.is_empty() {
        insert.cols = given.iter().map(|name| tree::target_name_only(name)).collect();
    }
    insert.cols.extend(missing.iter().map(|(name, _)| tree::target_name_only(name)));
}

/// Does a query give the same rows if it has one more column?
fn may_grow(select: &SelectStmt) -> bool {
    !tree::is_operation(select)
        && select.distinct_clause.is_empty()
        && select.values_lists.is_empty()
        && select.into_clause.is_none()
}

/// Replaces the `SET column = DEFAULT` of an UPDATE, which is NULL without a default of the view's.
pub(super) fn of_update(view: &Relation, targets: &mut [Node]) -> Result<()> {
    let defaults = defaults(view)?;
    for target in targets {
        let Some(target) = target.get_mut::<ResTarget>() else { continue };
        let Some(value) = target.val.as_deref_mut() else { continue };
        let default = defaults.iter().find(|(name, _)| *name == target.name);
        match (&value.node, default) {
            (Some(NodeEnum::SetToDefault(_)), Some((_, default))) => *value = default.clone(),
            (Some(NodeEnum::SetToDefault(_)), None) => *value = tree::null(),
            _ if value.any(|node| matches!(node, Ref::SetToDefault(_)))? => {
                return Err(refused(view, "Its defaults are its own: set one column at a time."));
            }
            _ => {}
        }
    }
    Ok(())
}

fn defaults(view: &Relation) -> Result<Vec<(String, Node)>> {
    let texts = view.columns.iter().filter_map(|column| Some((column.name.clone(), column.default.as_deref()?)));
    texts.map(|(name, text)| Ok((name, tree::parse_expression(text)?))).collect()
}
