//! Does a sub-select refer to anything outside itself? Decided by names; in doubt it does.

use std::collections::HashMap;

use pg_query::protobuf::{ColumnRef, List, RangeVar, ResTarget, SelectStmt, SetOperation};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use crate::context::{Context, Named};
use crate::tree::{self, Get, Ref, Walk};

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

    /// The WITH items visible inside a SELECT.
    pub fn with(&self, select: &SelectStmt, ctes: &Ctes) -> Ctes {
        let mut ctes = ctes.clone();
        for cte in tree::with_items(select.with_clause.as_ref()) {
            let columns = cte.ctequery.get().and_then(outputs);
            ctes.insert(cte.ctename.clone(), renamed(columns, &tree::names_of(&cte.aliascolnames)));
        }
        ctes
    }

    fn closed(&self, select: &SelectStmt, ctes: &Ctes, outer: &[&[Item]]) -> Result<bool> {
        let ctes = self.with(select, ctes);
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
                let alias = tree::alias_of(name).to_owned();
                let given = name.alias.as_ref().map(|a| tree::names_of(&a.colnames)).unwrap_or_default();
                items.push((alias, renamed(self.table_columns(name, ctes)?, &given)));
            }
            Some(NodeEnum::RangeSubselect(sub)) => {
                let columns = sub.subquery.get().and_then(outputs);
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

/// Names of the output columns, if known.
pub(crate) fn outputs(select: &SelectStmt) -> Option<Vec<String>> {
    let mut first = select;
    while first.op != SetOperation::SetopNone as i32 {
        first = first.larg.as_deref()?;
    }
    if let Some(row) = first.values_lists.first().and_then(|row| row.get::<List>()) {
        return Some((1..=row.items.len()).map(|i| format!("column{i}")).collect());
    }
    (!first.target_list.iter().any(tree::shows_star)).then(|| output_names(first))
}

fn output_names(select: &SelectStmt) -> Vec<String> {
    let name = |target: &Node| target.get::<ResTarget>().map(tree::output_name);
    select.target_list.iter().filter_map(name).collect()
}

fn renamed(columns: Option<Vec<String>>, given: &[String]) -> Option<Vec<String>> {
    let mut columns = columns?;
    for (column, name) in columns.iter_mut().zip(given) {
        column.clone_from(name);
    }
    Some(columns)
}

fn is_known(column: &ColumnRef, scopes: &[&[Item]], outputs: &[String]) -> bool {
    let items = || scopes.iter().flat_map(|scope| scope.iter());
    match column.fields.as_slice() {
        [_] if tree::is_star(&column.fields) => true,
        [only] => {
            let name = tree::text_of(only).unwrap_or_default();
            let has_column = |item: &Item| item.1.as_ref().is_some_and(|columns| columns.iter().any(|c| c == name));
            items().any(|item| item.0 == name || has_column(item)) || outputs.iter().any(|output| output == name)
        }
        [alias, ..] => items().any(|item| tree::text_of(alias) == Some(&item.0)),
        [] => false,
    }
}
