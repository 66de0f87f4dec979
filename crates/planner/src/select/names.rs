//! Does a sub-select refer to anything outside itself? Decided by names; in doubt it does.

use std::collections::HashMap;

use pg_query::protobuf::{ColumnRef, RangeVar, SelectStmt, SetOperation};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use crate::context::{Context, Named};
use crate::tree::{self, Ref, Walk};

/// Column names of WITH items; `None` where they are not known.
pub(crate) type Ctes = HashMap<String, Option<Vec<String>>>;

/// Alias and column names of one item of FROM.
type Item = (String, Option<Vec<String>>);

pub(crate) struct Names<'a> {
    pub ctx: &'a Context<'a>,
}

impl Names<'_> {
    /// Does every name in `select` lead to something in it (or to a WITH item of `ctes`)?
    pub fn is_closed(&self, select: &SelectStmt, ctes: &Ctes) -> Result<bool> {
        self.closed(select, ctes, &[])
    }

    /// Names of the output columns, if known.
    pub fn outputs(&self, select: &SelectStmt, ctes: &Ctes) -> Result<Option<Vec<String>>> {
        let ctes = self.with(select, ctes)?;
        let mut first = select;
        while first.op != SetOperation::SetopNone as i32 {
            let Some(left) = first.larg.as_deref() else { return Ok(None) };
            first = left;
        }
        if let Some(NodeEnum::List(row)) = first.values_lists.first().and_then(|r| r.node.as_ref()) {
            return Ok(Some((1..=row.items.len()).map(|i| format!("column{i}")).collect()));
        }
        let items = self.items(&first.from_clause, &ctes)?;
        let mut names = Vec::new();
        for target in &first.target_list {
            let Some(NodeEnum::ResTarget(target)) = &target.node else { return Ok(None) };
            match star_of(target.val.as_deref()) {
                Some(qualifier) => {
                    let simple = first.from_clause.iter().all(|i| !matches!(i.node, Some(NodeEnum::JoinExpr(_))));
                    for (alias, columns) in &items {
                        if qualifier.is_none_or(|q| q == alias) {
                            match columns {
                                Some(columns) if simple => names.extend(columns.iter().cloned()),
                                _ => return Ok(None),
                            }
                        }
                    }
                }
                None => names.push(tree::output_name(target)),
            }
        }
        Ok(Some(names))
    }

    /// The WITH items visible inside a SELECT.
    pub fn with(&self, select: &SelectStmt, ctes: &Ctes) -> Result<Ctes> {
        let mut ctes = ctes.clone();
        for item in select.with_clause.iter().flat_map(|with| &with.ctes) {
            let Some(NodeEnum::CommonTableExpr(cte)) = &item.node else { continue };
            let columns = match cte.ctequery.as_deref().and_then(|q| q.node.as_ref()) {
                Some(NodeEnum::SelectStmt(query)) => self.outputs(query, &ctes)?,
                _ => None,
            };
            ctes.insert(cte.ctename.clone(), renamed(columns, &tree::names_of(&cte.aliascolnames)));
        }
        Ok(ctes)
    }

    fn closed(&self, select: &SelectStmt, ctes: &Ctes, outer: &[&[Item]]) -> Result<bool> {
        let ctes = self.with(select, ctes)?;
        let items = self.items(&select.from_clause, &ctes)?;
        let mut scopes: Vec<&[Item]> = outer.to_vec();
        scopes.push(&items);
        let mut inner: Vec<&SelectStmt> = Vec::new();
        let mut closed = true;
        // Only there a name may be that of an output column.
        let upper: Vec<&Node> = [&select.sort_clause, &select.group_clause, &select.distinct_clause]
            .into_iter()
            .flatten()
            .filter(|item| item.node.is_some())
            .collect();
        let outputs = output_names(select);
        let mut in_upper: Vec<*const ColumnRef> = Vec::new();
        for item in upper {
            item.walk(&mut |node| {
                if let Ref::ColumnRef(column) = node {
                    in_upper.push(column);
                }
                Ok(!matches!(node, Ref::SelectStmt(_)))
            })?;
        }
        select.walk(&mut |node| {
            match node {
                Ref::SelectStmt(sub) if !std::ptr::eq(sub, select) => {
                    inner.push(sub);
                    return Ok(false);
                }
                Ref::ColumnRef(column) => {
                    let outputs = if in_upper.contains(&(&raw const *column)) { &outputs[..] } else { &[] };
                    closed &= is_known(column, &scopes, outputs);
                }
                _ => {}
            }
            Ok(closed)
        })?;
        for sub in inner {
            closed = closed && self.closed(sub, &ctes, &scopes)?;
        }
        Ok(closed)
    }

    fn items(&self, from: &[Node], ctes: &Ctes) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        for item in from {
            self.item(item, ctes, &mut items)?;
        }
        Ok(items)
    }

    fn item(&self, item: &Node, ctes: &Ctes, items: &mut Vec<Item>) -> Result<()> {
        match &item.node {
            Some(NodeEnum::RangeVar(name)) => {
                let alias = name.alias.as_ref().map_or(&name.relname, |a| &a.aliasname).clone();
                let given = name.alias.as_ref().map(|a| tree::names_of(&a.colnames)).unwrap_or_default();
                items.push((alias, renamed(self.table_columns(name, ctes)?, &given)));
            }
            Some(NodeEnum::RangeSubselect(sub)) => {
                let columns = match sub.subquery.as_deref().and_then(|q| q.node.as_ref()) {
                    Some(NodeEnum::SelectStmt(query)) => self.outputs(query, ctes)?,
                    _ => None,
                };
                let alias = sub.alias.as_ref();
                let given = alias.map(|a| tree::names_of(&a.colnames)).unwrap_or_default();
                items.push((alias.map(|a| a.aliasname.clone()).unwrap_or_default(), renamed(columns, &given)));
            }
            Some(NodeEnum::JoinExpr(join)) => {
                for side in [&join.larg, &join.rarg].into_iter().flatten() {
                    self.item(side, ctes, items)?;
                }
                if let Some(alias) = &join.alias {
                    items.push((alias.aliasname.clone(), None));
                }
            }
            Some(NodeEnum::RangeFunction(function)) => {
                let alias = function.alias.as_ref().map(|a| a.aliasname.clone()).unwrap_or_default();
                items.push((alias, None));
            }
            _ => items.push((String::new(), None)),
        }
        Ok(())
    }

    fn table_columns(&self, name: &RangeVar, ctes: &Ctes) -> Result<Option<Vec<String>>> {
        if let Some(columns) = ctes.get(&name.relname).filter(|_| name.schemaname.is_empty()) {
            return Ok(columns.clone());
        }
        Ok(match self.ctx.resolve(name)? {
            Named::Distributed(relation) | Named::Home(Some(relation)) => {
                Some(relation.columns.iter().map(|c| c.name.clone()).collect())
            }
            _ => None,
        })
    }
}

fn output_names(select: &SelectStmt) -> Vec<String> {
    let name = |target: &Node| match &target.node {
        Some(NodeEnum::ResTarget(target)) => Some(tree::output_name(target)),
        _ => None,
    };
    select.target_list.iter().filter_map(name).collect()
}

fn renamed(columns: Option<Vec<String>>, given: &[String]) -> Option<Vec<String>> {
    let mut columns = columns?;
    for (column, name) in columns.iter_mut().zip(given) {
        column.clone_from(name);
    }
    Some(columns)
}

/// `*` is `Some(None)`, `t.*` is `Some(Some("t"))`.
fn star_of(value: Option<&Node>) -> Option<Option<&str>> {
    let Some(NodeEnum::ColumnRef(column)) = &value?.node else { return None };
    match column.fields.as_slice() {
        [star] if is_star(star) => Some(None),
        [alias, star] if is_star(star) => Some(tree::text_of(alias)),
        _ => None,
    }
}

fn is_star(field: &Node) -> bool {
    matches!(field.node, Some(NodeEnum::AStar(_)))
}

fn is_known(column: &ColumnRef, scopes: &[&[Item]], outputs: &[String]) -> bool {
    let items = || scopes.iter().flat_map(|scope| scope.iter());
    match column.fields.as_slice() {
        [only] if is_star(only) => true,
        [only] => {
            let name = tree::text_of(only).unwrap_or_default();
            let has_column = |item: &Item| item.1.as_ref().is_some_and(|columns| columns.iter().any(|c| c == name));
            items().any(|item| item.0 == name || has_column(item)) || outputs.iter().any(|output| output == name)
        }
        [alias, ..] => items().any(|item| tree::text_of(alias) == Some(&item.0)),
        [] => false,
    }
}
