//! Functions called as if they were columns: `p.full_name` is `full_name(p)` if the table of `p` has no such column.
//!
//! What has no columns that are known here (functions in FROM, system catalogs) is taken to have those that the statement
//! names anywhere.

use std::collections::{HashMap, HashSet};

use catalog::{Catalog, Function};
use pg_query::Node;
use pg_query::protobuf::{AIndirection, ColumnRef};
use pgerror::Result;

use crate::context::Context;
use crate::tree::{self, Ref, Walk};

/// The user's functions that a statement may call so.
pub(crate) fn called<'c>(ctx: &Context<'c>, statement: &impl Walk) -> Result<Vec<&'c Function>> {
    // What PostgreSQL has analysed is written as a call.
    if ctx.analysis.is_some() {
        return Ok(Vec::new());
    }
    let catalog: &'c Catalog = ctx.catalog;
    let mut doubtful: Vec<(Option<String>, String)> = Vec::new();
    statement.walk(&mut |node| {
        let (of, names) = match node {
            Ref::ColumnRef(column) => attributes_of_column(column),
            Ref::AIndirection(part) => (None, attributes(part)),
            _ => return Ok(true),
        };
        let functions = names.into_iter().filter(|name| !catalog.functions(name).is_empty());
        doubtful.extend(functions.map(|name| (of.map(str::to_owned), name.to_owned())));
        Ok(true)
    })?;
    if doubtful.is_empty() {
        return Ok(Vec::new());
    }
    let known = Known::of(ctx, statement)?;
    let is_call = |(of, name): &(Option<String>, String)| !known.is_column(catalog, of.as_deref(), name);
    Ok(doubtful.iter().filter(|pair| is_call(pair)).flat_map(|(_, name)| catalog.functions(name)).collect())
}

/// In `t.a.b` any part may be a table's name, but the last.
fn attributes_of_column(column: &ColumnRef) -> (Option<&str>, Vec<&str>) {
    let names: Vec<&str> = column.fields.iter().filter_map(tree::text_of).collect();
    match names.as_slice() {
        [of, name] => (Some(of), vec![name]),
        _ => (None, names.into_iter().skip(1).collect()),
    }
}

fn attributes(part: &AIndirection) -> Vec<&str> {
    part.indirection.iter().filter_map(tree::text_of).collect()
}

/// Names of columns in a statement.
#[derive(Default)]
struct Known {
    tables: HashMap<String, HashSet<String>>,
    /// Of anything that is no table that is known.
    others: HashSet<String>,
}

impl Known {
    fn of(ctx: &Context<'_>, statement: &impl Walk) -> Result<Self> {
        let mut known = Self::default();
        let texts = |names: &[Node]| names.iter().filter_map(tree::text_of).map(str::to_owned).collect::<Vec<_>>();
        statement.walk(&mut |node| {
            match node {
                Ref::RangeVar(name) => {
                    if let Some(table) = ctx.resolve(name)?.relation() {
                        let columns = table.columns.iter().map(|column| column.name.clone());
                        known.tables.entry(tree::alias_of(name).to_owned()).or_default().extend(columns);
                    }
                }
                Ref::ResTarget(target) => {
                    known.others.insert(tree::output_name(target));
                }
                Ref::Alias(alias) => known.others.extend(texts(&alias.colnames)),
                Ref::CommonTableExpr(cte) => known.others.extend(texts(&cte.aliascolnames)),
                Ref::ColumnDef(column) => {
                    known.others.insert(column.colname.clone());
                }
                _ => {}
            }
            Ok(true)
        })?;
        Ok(known)
    }

    fn is_column(&self, catalog: &Catalog, of: Option<&str>, name: &str) -> bool {
        match of {
            Some(of) => self.tables.get(of).unwrap_or(&self.others).contains(name),
            // Part of a row, of whatever type.
            None => catalog.relations().any(|relation| relation.column(name).is_some()),
        }
    }
}
