//! `tableoid` of gathered rows.
//!
//! A table has another object id on each datanode, so its rows bring its name along, in a column of type regclass: on the home
//! node that is the home node's id.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::{Distribution, Relation};
use pg_query::protobuf::{ColumnRef, RangeVar, ResTarget};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::names::names_row;
use crate::context::{Context, Named};
use crate::tree::{self, Ask, Get, Ref, Walk};

/// The column's name.
pub(super) const COLUMN: &str = "loxo_tableoid";

/// What a fragment gives for it.
pub(super) fn value() -> Result<Node> {
    tree::parse_expression("tableoid::pg_catalog.regclass")
}

/// Puts the column in place of the `tableoid` of every table that will be gathered.
pub(super) fn rename(ctx: &Context<'_>, query: &mut NodeEnum) -> Result<()> {
    let tables = Tables::of(ctx, query)?;
    if names_row(query, |name| tables.relation(name).is_some())? {
        return Err(refused("a row as a whole, or a star, would show more than its columns"));
    }
    name_outputs(query)?;
    query.put(|node| {
        let Some(column) = node.get::<ColumnRef>() else { return Ok(None) };
        if tree::last_name(&column.fields) != Some("tableoid") {
            return Ok(None);
        }
        let Some(alias) = tables.owner(column)? else { return Ok(None) };
        let value = tree::deparse_expression(&tree::column(&[alias, COLUMN]))?;
        tree::parse_expression(&format!("{value}::pg_catalog.oid")).map(Some)
    })?;
    Ok(())
}

fn refused(why: &str) -> PgError {
    PgError::unsupported("system column \"tableoid\" in this query")
        .detail(format!("A table has another object id on each datanode, and {why}."))
        .hint("Write tableoid::regclass, in a query of one table.")
}

/// The tables of a statement, by the names it gives them.
struct Tables {
    /// `None`: a table whose rows are not gathered, or several under one name.
    known: HashMap<String, Option<Arc<Relation>>>,
    count: usize,
}

impl Tables {
    fn of(ctx: &Context<'_>, query: &NodeEnum) -> Result<Self> {
        let ctes = query.with_names()?;
        let mut tables = Self { known: HashMap::new(), count: 0 };
        let mut others: Vec<String> = Vec::new();
        let mut own_aliases = Vec::new();
        query.walk(&mut |node| {
            match node {
                Ref::RangeVar(name) => {
                    own_aliases.extend(name.alias.as_ref().map(std::ptr::from_ref));
                    tables.add(ctx, name, ctes.contains(&name.relname))?;
                }
                Ref::Alias(alias) if !own_aliases.contains(&std::ptr::from_ref(alias)) => {
                    others.push(alias.aliasname.clone());
                }
                _ => {}
            }
            Ok(true)
        })?;
        for other in others {
            tables.known.insert(other, None);
        }
        Ok(tables)
    }

    fn add(&mut self, ctx: &Context<'_>, name: &RangeVar, may_be_cte: bool) -> Result<()> {
        self.count += 1;
        let alias = tree::alias_of(name).to_owned();
        let has_columns = name.alias.as_ref().is_some_and(|alias| !alias.colnames.is_empty());
        let relation = match ctx.resolve(name)? {
            _ if may_be_cte && name.schemaname.is_empty() => None,
            Named::Distributed(relation) => Some(relation).filter(|relation| is_gathered(ctx, relation)),
            _ => None,
        };
        if relation.is_some() && has_columns {
            return Err(refused("the columns of a table have other names"));
        }
        let is_hidden = |table: &Arc<Relation>| ctx.session.temp_relations.contains(&table.name);
        if relation.iter().any(|relation| ctx.family(relation).iter().any(is_hidden)) {
            return Err(refused("a temporary table bears its name"));
        }
        let is_new = !self.known.contains_key(&alias);
        self.known.insert(alias, relation.filter(|_| is_new));
        Ok(())
    }

    fn relation(&self, alias: &str) -> Option<&Arc<Relation>> {
        self.known.get(alias)?.as_ref()
    }

    /// The gathered table whose `tableoid` it is; `None` if that is another item's column.
    fn owner<'s>(&'s self, column: &'s ColumnRef) -> Result<Option<&'s str>> {
        let qualifier = column.fields.iter().rev().nth(1).and_then(tree::text_of);
        match qualifier {
            Some(alias) => Ok(self.relation(alias).map(|_| alias)),
            None if self.count == 1 && self.known.len() == 1 => {
                Ok(self.known.iter().find_map(|(alias, relation)| relation.as_ref().map(|_| alias.as_str())))
            }
            None => Err(refused("the query does not say whose it is")),
        }
    }
}

/// As [`gather`](super::gather::gather) decides it.
fn is_gathered(ctx: &Context<'_>, relation: &Relation) -> bool {
    let is_there = matches!(&relation.distribution, Distribution::Replicated { nodes } if nodes.contains(&ctx.home()));
    !is_there || ctx.copies.is_some()
}

/// Outputs keep the names that they have by `tableoid`.
fn name_outputs(query: &mut NodeEnum) -> Result<()> {
    query.rewrite(&mut |node: &mut Node| {
        let Some(target) = node.get_mut::<ResTarget>() else { return Ok(true) };
        let found = target
            .val
            .any(|node| matches!(node, Ref::ColumnRef(c) if tree::last_name(&c.fields) == Some("tableoid")))?;
        if found && target.name.is_empty() {
            target.name = tree::output_name(target);
        }
        Ok(true)
    })
}
