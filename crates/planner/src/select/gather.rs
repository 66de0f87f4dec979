//! The fallback that makes every query work: the needed rows and columns of each table come to temp tables on the home
//! node, and the statement runs there over them. Slow, never wrong.
//!
//! What cannot be right that way is refused: row locks, system columns and TABLESAMPLE of tables that are elsewhere.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use catalog::{Distribution, NodeId, Relation};
use pg_query::protobuf::{ColumnRef, RangeVar, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::locality::{Analyzer, Env, RowDistribution};
use super::{levels, locked, table_ids};
use crate::context::{Context, Named};
use crate::facts::Facts;
use crate::plan::{Index, Input};
use crate::select::row_address;
use crate::tree::{self, Ask, Get, Ref, Walk};

/// Rewrites a statement to read gathered temp tables; gives the inputs. `reason` says why it is not local.
pub(crate) fn gather(ctx: &Context<'_>, statement: &mut NodeEnum, facts: &Facts, reason: &str) -> Result<Vec<Input>> {
    check(facts, reason)?;
    levels::number_tables(statement)?;
    let needs = Needs::of(statement)?;
    let filters = levels::filters(ctx, statement)?;
    let ctes = statement.with_names()?;
    let mut inputs: Vec<Input> = Vec::new();
    statement.rewrite(&mut |node: &mut Node| match &mut node.node {
        Some(NodeEnum::RangeVar(name)) => {
            let Named::Distributed(relation) = ctx.resolve(name)? else { return Ok(false) };
            if name.schemaname.is_empty() && ctes.contains(&name.relname) {
                return Err(PgError::unsupported(format!("the WITH item \"{}\", named like a table,", name.relname))
                    .detail(format!("The rows must be gathered: {reason}."))
                    .hint("Rename the WITH item."));
            }
            if let Distribution::Replicated { nodes } = &relation.distribution
                && nodes.contains(&ctx.home())
                && ctx.copies.is_none()
            {
                return Ok(false);
            }
            let filter = filters.get(&name.location).map(Vec::as_slice).unwrap_or_default();
            let input = input(ctx, &relation, name, &needs, filter)?;
            let table = add(ctx, &mut inputs, input);
            *name = replacement(name, &table);
            Ok(false)
        }
        _ => Ok(true),
    })?;
    Ok(inputs)
}

fn check(facts: &Facts, reason: &str) -> Result<()> {
    let refuse = |what: &str, hint: &str| {
        Err(PgError::unsupported(what).detail(format!("The rows must be gathered: {reason}.")).hint(hint))
    };
    if facts.locking {
        return refuse("FOR UPDATE or FOR SHARE in this query", "Lock the rows of each table by its distribution key.");
    }
    if let Some(column) = &facts.system_column {
        return refuse(&format!("system column \"{column}\" in this query"), "Leave the system column out.");
    }
    if facts.sample {
        return refuse("TABLESAMPLE in this query", "Sample one table in a query of its own.");
    }
    if facts.modifying_cte {
        return refuse("a data-modifying WITH in this query", "Run the data change as a statement of its own.");
    }
    Ok(())
}

/// Adds an input unless the same rows come already.
fn add(ctx: &Context<'_>, inputs: &mut Vec<Input>, mut input: Input) -> String {
    if let Some(same) = inputs.iter().find(|i| i.sql == input.sql && i.nodes == input.nodes) {
        return same.table.clone();
    }
    input.table = ctx.input_table(format_args!("g{}", inputs.len() + 1));
    inputs.push(input);
    inputs[inputs.len() - 1].table.clone()
}

/// Which columns a statement can mention at all: an over-estimate by names, that of the table as far as it is there.
#[derive(Default)]
pub(super) struct Needs {
    /// It can mention all columns, or whole rows.
    all: bool,
    /// Tables, as they are called, whose rows it mentions as a whole.
    whole: HashSet<String>,
    /// Bare column names, of any table.
    names: HashSet<String>,
    /// After a table's name, or its alias.
    qualified: HashMap<String, HashSet<String>>,
    /// Those that some GROUP BY mentions.
    pub grouped: HashSet<String>,
    /// Used beside a GROUP BY that does not name them: in aggregates, or since they depend on a primary key that it names.
    beside_groups: HashSet<String>,
}

impl Needs {
    pub fn of(statement: &impl Walk) -> Result<Self> {
        let mut needs = Needs::default();
        let mut joins: Vec<String> = Vec::new();
        let mut tables = HashSet::new();
        statement.walk(&mut |node| {
            match node {
                Ref::ColumnRef(column) => needs.column(column),
                Ref::JoinExpr(join) => {
                    // The names of a column list go by position.
                    needs.all |= join.alias.as_ref().is_some_and(|a| !a.colnames.is_empty());
                    needs.names.extend(tree::names_of(&join.using_clause));
                    joins.extend(join.alias.as_ref().map(|alias| alias.aliasname.clone()));
                }
                Ref::RangeVar(name) => {
                    tables.insert(tree::alias_of(name).to_owned());
                    needs.all |= name.alias.as_ref().is_some_and(|a| !a.colnames.is_empty());
                }
                Ref::SelectStmt(select) => {
                    for item in &select.group_clause {
                        needs.group(item)?;
                    }
                    needs.beside_groups(select)?;
                }
                _ => {}
            }
            Ok(true)
        })?;
        // What has the name of a join before it may be of any table in that.
        for join in joins {
            needs.names.extend(needs.qualified.remove(&join).unwrap_or_default());
            needs.all |= needs.whole.contains(&join);
        }
        // A name that is also a table's may mean its row.
        needs.all |= needs.names.iter().any(|name| tables.contains(name));
        Ok(needs)
    }

    fn column(&mut self, column: &ColumnRef) {
        let Some((name, qualifiers)) = column.fields.split_last() else { return };
        if tree::is_star(&column.fields) {
            match qualifiers.last().and_then(tree::text_of) {
                Some(table) => drop(self.whole.insert(table.to_owned())),
                None => self.all = true,
            }
        }
        let Some(name) = tree::text_of(name).map(str::to_owned) else { return };
        match qualifiers.last().and_then(tree::text_of) {
            Some(table) => drop(self.qualified.entry(table.to_owned()).or_default().insert(name)),
            None => drop(self.names.insert(name)),
        }
    }

    fn group(&mut self, item: &Node) -> Result<()> {
        item.each(|node| {
            if let Ref::ColumnRef(column) = node {
                self.grouped.extend(tree::last_name(&column.fields).map(str::to_owned));
            }
        })
    }

    fn beside_groups(&mut self, select: &SelectStmt) -> Result<()> {
        if select.group_clause.is_empty() {
            return Ok(());
        }
        let name_of = |column: &ColumnRef| tree::last_name(&column.fields).map(str::to_owned);
        let itself = |item: &Node| item.get::<ColumnRef>().and_then(&name_of);
        let grouped: HashSet<String> = select.group_clause.iter().filter_map(itself).collect();
        let parts = select.target_list.iter().chain(&select.sort_clause).chain(select.having_clause.as_deref());
        parts.chain(&select.window_clause).chain(&select.distinct_clause).try_for_each(|part| {
            part.each(|node| {
                if let Ref::ColumnRef(column) = node {
                    self.beside_groups.extend(name_of(column).filter(|name| !grouped.contains(name)));
                }
            })
        })
    }

    pub fn has_whole_rows(&self) -> bool {
        self.all || !self.whole.is_empty()
    }

    /// Can it mention this column of a table that it calls so?
    fn mentions(&self, alias: &str, column: &str) -> bool {
        self.names.contains(column) || self.qualified.get(alias).is_some_and(|names| names.contains(column))
    }

    /// The needed columns of a table that the statement calls so, in table order.
    pub fn columns<'r>(&self, relation: &'r Relation, alias: &str) -> Vec<&'r str> {
        let all = || relation.columns.iter().map(|c| c.name.as_str());
        all().filter(|c| self.all || self.whole.contains(alias) || self.mentions(alias, c)).collect()
    }

    /// The needed columns of a table, whatever the statement calls it.
    pub fn columns_by_any_name<'r>(&self, relation: &'r Relation) -> Vec<&'r str> {
        let is_mentioned = |column: &&str| {
            self.has_whole_rows()
                || self.names.contains(*column)
                || self.qualified.values().any(|names| names.contains(*column))
        };
        relation.columns.iter().map(|column| column.name.as_str()).filter(is_mentioned).collect()
    }
}

/// `SELECT needed columns FROM table WHERE pushed conditions`.
pub(super) fn input(
    ctx: &Context<'_>,
    relation: &Arc<Relation>,
    name: &RangeVar,
    needs: &Needs,
    filter: &[Node],
) -> Result<Input> {
    let mut select = fragment(relation, name, needs, filter);
    let nodes = nodes_of(ctx, &select)?;
    let alias = tree::alias_of(name);
    if needs.mentions(alias, row_address::COLUMN) {
        select.target_list.push(tree::target(row_address::value()?, Some(row_address::COLUMN)));
    }
    if needs.mentions(alias, table_ids::COLUMN) {
        select.target_list.push(tree::target(table_ids::value()?, Some(table_ids::COLUMN)));
    }
    if needs.mentions(alias, locked::COLUMN) {
        select.target_list.push(tree::target(locked::gathered_place(ctx, name, relation)?, Some(locked::COLUMN)));
    }
    let columns = needs.columns(relation, alias);
    Ok(Input {
        table: String::new(),
        nodes,
        sql: tree::deparse_select(&select)?,
        indexes: primary_key(relation, &columns, needs).into_iter().collect(),
        exchange_plan: None,
    })
}

/// What a fragment gives instead of columns, if none is needed.
const NO_COLUMN: &str = "loxo_none";

/// The rows and columns of a table that a statement needs.
pub(super) fn fragment(relation: &Relation, name: &RangeVar, needs: &Needs, filter: &[Node]) -> SelectStmt {
    let alias = tree::alias_of(name).to_owned();
    let columns = needs.columns(relation, &alias);
    let mut table = name.clone();
    table.schemaname = relation.schema.clone();
    table.alias = (alias != relation.name).then(|| tree::alias(&alias));
    let targets = columns.iter().map(|c| tree::target(tree::column(&[c]), None)).collect();
    let mut select = tree::select_from(targets, vec![tree::node(NodeEnum::RangeVar(table))]);
    if columns.is_empty() {
        // A user may lack the right to read any given column of the table.
        select.target_list.push(tree::target(tree::integer(0), Some(NO_COLUMN)));
    }
    select.where_clause = tree::conjunction(filter.to_vec()).map(Box::new);
    select
}

/// The nodes that hold rows the fragment can give.
pub(super) fn nodes_of(ctx: &Context<'_>, select: &SelectStmt) -> Result<Vec<NodeId>> {
    let mut analyzer = Analyzer::new(ctx);
    match analyzer.body(select, &Env::default()) {
        Ok(body) => match body.part {
            RowDistribution::Partitioned(split) => Ok(split.nodes),
            RowDistribution::Replicated(nodes) => Ok(nodes[..1].to_vec()),
            RowDistribution::Any | RowDistribution::Home => Ok(vec![ctx.home()]),
        },
        Err(not) => Err(super::refusal(not, "this table")),
    }
}

/// GROUP BY a primary key lets a query use the other columns: then the copy needs the key too.
pub(super) fn primary_key(relation: &Relation, columns: &[&str], needs: &Needs) -> Option<Index> {
    let names: Vec<&str> = relation.primary_key()?.into_iter().map(|column| column.name.as_str()).collect();
    if names.is_empty() || !names.iter().all(|n| needs.grouped.contains(*n) && columns.contains(n)) {
        return None;
    }
    if !needs.has_whole_rows() && !columns.iter().any(|column| needs.beside_groups.contains(*column)) {
        return None;
    }
    Some(Index { columns: names.into_iter().map(str::to_owned).collect(), is_key: true })
}

/// A table of ours where another one is named.
pub(crate) fn replacement(name: &RangeVar, table: &str) -> RangeVar {
    let alias = name.alias.clone().unwrap_or_else(|| tree::alias(&name.relname));
    tree::table("", table, Some(alias))
}
