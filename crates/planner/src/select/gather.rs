//! The fallback that makes every query work: the needed rows and columns of each table come to temp tables on the home
//! node, and the statement runs there over them. Slow, never wrong.
//!
//! What cannot be right that way is refused: row locks, system columns and TABLESAMPLE of tables that are elsewhere.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use catalog::{Distribution, NodeId, Relation};
use pg_query::protobuf::{AExprKind, Alias, ColumnRef, JoinType, RangeVar, SelectStmt, SubLinkType};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::locality::{Analyzer, Env, Part};
use super::terms;
use crate::context::{Context, Named};
use crate::functions::Facts;
use crate::plan::Input;
use crate::tree::{self, Ref, Walk};

/// Rewrites a statement to read gathered temp tables; gives the inputs. `reason` says why it is not local.
pub(crate) fn gather(ctx: &Context<'_>, statement: &mut NodeEnum, facts: &Facts, reason: &str) -> Result<Vec<Input>> {
    check(facts, reason)?;
    number_tables(statement)?;
    let needs = Needs::of(statement)?;
    let filters = filters(ctx, statement)?;
    let ctes = cte_names(statement)?;
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
            {
                return Ok(false);
            }
            let filter = filters.get(&name.location).map(Vec::as_slice).unwrap_or_default();
            let input = input(ctx, &relation, name, &needs, filter)?;
            let table = add(&mut inputs, input);
            *name = replacement(name, &table);
            Ok(false)
        }
        Some(NodeEnum::ColumnRef(column)) => {
            unqualify(column);
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
fn add(inputs: &mut Vec<Input>, mut input: Input) -> String {
    if let Some(same) = inputs.iter().find(|i| i.sql == input.sql && i.nodes == input.nodes) {
        return same.table.clone();
    }
    input.table = format!("loxo_g{}", inputs.len() + 1);
    input.after_create.iter_mut().for_each(|action| *action = format!("ALTER TABLE {} {action}", input.table));
    inputs.push(input);
    inputs[inputs.len() - 1].table.clone()
}

/// Gives every table reference a number of its own in the unused `location` field.
fn number_tables(statement: &mut NodeEnum) -> Result<()> {
    let mut next = 0;
    statement.rewrite(&mut |node: &mut Node| {
        if let Some(NodeEnum::RangeVar(name)) = &mut node.node {
            next += 1;
            name.location = next;
        }
        Ok(true)
    })
}

fn cte_names(statement: &NodeEnum) -> Result<HashSet<String>> {
    let mut names = HashSet::new();
    statement.walk(&mut |node| {
        if let Ref::CommonTableExpr(cte) = node {
            names.insert(cte.ctename.clone());
        }
        Ok(true)
    })?;
    Ok(names)
}

/// Which columns a statement can mention at all, whatever the table: an over-estimate by name.
struct Needs {
    all: bool,
    names: HashSet<String>,
    grouped: HashSet<String>,
}

impl Needs {
    fn of(statement: &NodeEnum) -> Result<Self> {
        let mut needs = Needs { all: false, names: HashSet::new(), grouped: HashSet::new() };
        let mut tables = HashSet::new();
        let mut harmless_stars: Vec<*const ColumnRef> = Vec::new();
        statement.walk(&mut |node| {
            match node {
                Ref::SubLink(link) if link.sub_link_type == SubLinkType::ExistsSublink as i32 => {
                    if let Some(NodeEnum::SelectStmt(s)) = link.subselect.as_deref().and_then(|s| s.node.as_ref()) {
                        harmless_stars.extend(s.target_list.iter().filter_map(target_column));
                    }
                }
                Ref::ColumnRef(column) => needs.column(column, harmless_stars.contains(&(column as *const ColumnRef))),
                Ref::JoinExpr(join) => {
                    needs.all |= join.is_natural;
                    needs.names.extend(tree::names_of(&join.using_clause));
                }
                Ref::RangeVar(name) => {
                    tables.insert(name.alias.as_ref().map_or(&name.relname, |a| &a.aliasname).clone());
                    needs.all |= name.alias.as_ref().is_some_and(|a| !a.colnames.is_empty());
                }
                Ref::SelectStmt(select) => {
                    for item in &select.group_clause {
                        needs.group(item)?;
                    }
                }
                _ => {}
            }
            Ok(true)
        })?;
        // A bare name that is a table's alias may mean the whole row.
        needs.all |= needs.names.iter().any(|name| tables.contains(name));
        Ok(needs)
    }

    fn column(&mut self, column: &ColumnRef, harmless: bool) {
        self.all |= column.fields.iter().any(|f| matches!(f.node, Some(NodeEnum::AStar(_)))) && !harmless;
        // Qualifiers are left out unless they are all there is.
        self.names.extend(column.fields.last().and_then(tree::text_of).map(str::to_owned));
    }

    fn group(&mut self, item: &Node) -> Result<()> {
        item.walk(&mut |node| {
            if let Ref::ColumnRef(column) = node {
                self.grouped.extend(column.fields.last().and_then(tree::text_of).map(str::to_owned));
            }
            Ok(true)
        })
    }
}

fn target_column(target: &Node) -> Option<*const ColumnRef> {
    let Some(NodeEnum::ResTarget(target)) = &target.node else { return None };
    match target.val.as_deref()?.node.as_ref()? {
        NodeEnum::ColumnRef(column) => Some(column as *const ColumnRef),
        _ => None,
    }
}

/// `SELECT needed columns FROM table WHERE pushed conditions`.
fn input(
    ctx: &Context<'_>,
    relation: &Arc<Relation>,
    name: &RangeVar,
    needs: &Needs,
    filter: &[Node],
) -> Result<Input> {
    let mut columns: Vec<&str> =
        relation.columns.iter().map(|c| c.name.as_str()).filter(|c| needs.all || needs.names.contains(*c)).collect();
    if columns.is_empty() {
        columns.extend(relation.columns.first().map(|c| c.name.as_str()));
    }
    let mut table = name.clone();
    table.schemaname = relation.schema.clone();
    let alias = name.alias.as_ref().map_or(&name.relname, |a| &a.aliasname).clone();
    table.alias = (alias != relation.name).then(|| Alias { aliasname: alias, colnames: Vec::new() });
    let mut select = SelectStmt {
        target_list: columns.iter().map(|c| tree::target(tree::column(&[c]), None)).collect(),
        from_clause: vec![tree::node(NodeEnum::RangeVar(table))],
        ..tree::empty_select()
    };
    select.where_clause = conjunction(filter).map(Box::new);
    Ok(Input {
        table: String::new(),
        nodes: nodes_of(ctx, &select)?,
        sql: tree::deparse_select(&select)?,
        after_create: primary_key(relation, &columns, needs),
    })
}

fn conjunction(conditions: &[Node]) -> Option<Node> {
    match conditions {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(tree::and(many.to_vec())),
    }
}

/// The nodes that hold rows the fragment can give.
fn nodes_of(ctx: &Context<'_>, select: &SelectStmt) -> Result<Vec<NodeId>> {
    let mut analyzer = Analyzer::new(ctx);
    match analyzer.body(select, &Env::default()) {
        Ok(body) => match body.part {
            Part::Split(split) => Ok(split.nodes),
            Part::Whole(nodes) => Ok(nodes[..1].to_vec()),
            Part::Free | Part::Home => Ok(vec![ctx.home()]),
        },
        Err(not) => Err(super::refusal(not, "this table")),
    }
}

/// GROUP BY a primary key lets a query use the other columns: then the copy needs the key too.
fn primary_key(relation: &Relation, columns: &[&str], needs: &Needs) -> Vec<String> {
    let Some(key) = relation.unique_keys.iter().find(|k| k.primary) else { return Vec::new() };
    let names: Vec<&str> = key.columns.iter().filter_map(|n| relation.column_at(*n)).map(|c| c.name.as_str()).collect();
    if names.is_empty() || !names.iter().all(|n| needs.grouped.contains(*n) && columns.contains(n)) {
        return Vec::new();
    }
    let list: Vec<String> = names.iter().map(|n| catalog::quote_identifier(n)).collect();
    vec![format!("ADD PRIMARY KEY ({})", list.join(", "))]
}

fn replacement(name: &RangeVar, table: &str) -> RangeVar {
    let alias = name.alias.clone().unwrap_or_else(|| Alias { aliasname: name.relname.clone(), colnames: Vec::new() });
    tree::table("", table, Some(alias))
}

/// `schema.table.column` names a table that the final statement no longer reads: the alias is enough.
fn unqualify(column: &mut ColumnRef) {
    if column.fields.len() > 2 {
        column.fields.drain(..column.fields.len() - 2);
    }
}

/// Conditions that may be evaluated early, by table number.
fn filters(ctx: &Context<'_>, statement: &NodeEnum) -> Result<HashMap<i32, Vec<Node>>> {
    let mut filters: HashMap<i32, Vec<Node>> = HashMap::new();
    statement.walk(&mut |node| {
        if let Ref::SelectStmt(select) = node {
            let level = Level::of(ctx, select)?;
            for condition in super::shape::inner_conditions(select) {
                if let Some(table) = level.only_table(ctx, condition) {
                    let mut condition = condition.clone();
                    condition.rewrite(&mut |n: &mut Node| {
                        if let Some(NodeEnum::ColumnRef(column)) = &mut n.node {
                            unqualify(column);
                        }
                        Ok(true)
                    })?;
                    filters.entry(table).or_default().push(condition);
                }
            }
        }
        Ok(true)
    })?;
    Ok(filters)
}

/// The tables of one query level whose rows a condition of that level may filter.
#[derive(Default)]
struct Level {
    /// Alias, number, columns, and whether conditions may be pushed to it.
    tables: Vec<(String, i32, HashSet<String>, bool)>,
}

impl Level {
    fn of(ctx: &Context<'_>, select: &SelectStmt) -> Result<Self> {
        let mut level = Self::default();
        for item in &select.from_clause {
            level.item(ctx, item, true)?;
        }
        Ok(level)
    }

    /// `keeps`: no outer join can make up rows for this item.
    fn item(&mut self, ctx: &Context<'_>, item: &Node, keeps: bool) -> Result<()> {
        match &item.node {
            Some(NodeEnum::RangeVar(name)) => {
                let Named::Distributed(relation) = ctx.resolve(name)? else { return Ok(()) };
                let plain_alias = name.alias.as_ref().is_none_or(|a| a.colnames.is_empty());
                let alias = name.alias.as_ref().map_or(&name.relname, |a| &a.aliasname).clone();
                let columns = relation.columns.iter().map(|c| c.name.clone()).collect();
                self.tables.push((alias, name.location, columns, keeps && plain_alias && !relation.is_barrier));
            }
            Some(NodeEnum::JoinExpr(join)) => {
                let kind = join.jointype;
                let keeps_left = terms::is_join(kind, JoinType::JoinInner) || terms::is_join(kind, JoinType::JoinLeft);
                let keeps_right =
                    terms::is_join(kind, JoinType::JoinInner) || terms::is_join(kind, JoinType::JoinRight);
                for (side, side_keeps) in [(&join.larg, keeps_left), (&join.rarg, keeps_right)] {
                    if let Some(side) = side.as_deref() {
                        self.item(ctx, side, keeps && side_keeps)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The one table that a simple condition is about.
    fn only_table(&self, ctx: &Context<'_>, condition: &Node) -> Option<i32> {
        let mut tables = Vec::new();
        if !self.simple(ctx, condition, &mut tables) {
            return None;
        }
        tables.dedup();
        match tables.as_slice() {
            [table] => self.tables.iter().find(|t| t.1 == *table && t.3).map(|t| t.1),
            _ => None,
        }
    }

    /// Comparisons of a column with constants, joined by AND, OR, NOT: they cannot fail and read nothing else.
    fn simple(&self, ctx: &Context<'_>, node: &Node, tables: &mut Vec<i32>) -> bool {
        match node.node.as_ref() {
            Some(NodeEnum::BoolExpr(b)) => b.args.iter().all(|arg| self.simple(ctx, arg, tables)),
            Some(NodeEnum::NullTest(test)) => test.arg.as_deref().is_some_and(|a| self.column(a, tables)),
            Some(NodeEnum::AExpr(e)) => {
                let (Some(left), Some(right)) = (e.lexpr.as_deref(), e.rexpr.as_deref()) else { return false };
                let builtin = tree::operator_name(&e.name).is_some_and(|op| {
                    ["=", "<>", "<", ">", "<=", ">=", "~~", "!~~", "~~*", "!~~*", "BETWEEN", "NOT BETWEEN"]
                        .contains(&op)
                        && !ctx.catalog.has_user_operator(op)
                });
                let kind_is_plain = matches!(
                    AExprKind::try_from(e.kind),
                    Ok(AExprKind::AexprOp
                        | AExprKind::AexprIn
                        | AExprKind::AexprLike
                        | AExprKind::AexprIlike
                        | AExprKind::AexprBetween
                        | AExprKind::AexprNotBetween)
                );
                builtin
                    && kind_is_plain
                    && ((self.column(left, tables) && is_constant(right))
                        || (is_constant(left) && self.column(right, tables)))
            }
            _ => false,
        }
    }

    fn column(&self, node: &Node, tables: &mut Vec<i32>) -> bool {
        let Some((column, _)) = terms::peel(node) else { return false };
        let names: Option<Vec<&str>> = column.fields.iter().map(tree::text_of).collect();
        let mut owners = self.tables.iter().filter(|(alias, _, columns, _)| match names.as_deref() {
            Some([name]) => columns.contains(*name),
            Some([.., qualifier, name]) => alias == qualifier && columns.contains(*name),
            _ => false,
        });
        match (owners.next(), owners.next()) {
            (Some(owner), None) => {
                tables.push(owner.1);
                true
            }
            _ => false,
        }
    }
}

/// Literals, parameters, and sums and differences of them (`date '1994-01-01' + interval '1 year'`).
fn is_constant(node: &Node) -> bool {
    match node.node.as_ref() {
        Some(NodeEnum::AConst(_) | NodeEnum::ParamRef(_)) => true,
        Some(NodeEnum::TypeCast(cast)) => {
            let registry = cast.type_name.as_ref().and_then(|t| t.names.last()).and_then(tree::text_of);
            cast.arg.as_deref().is_some_and(is_constant) && !registry.is_some_and(|t| t.starts_with("reg"))
        }
        Some(NodeEnum::List(list)) => list.items.iter().all(is_constant),
        Some(NodeEnum::AExpr(e)) => {
            e.kind == AExprKind::AexprOp as i32
                && matches!(tree::operator_name(&e.name), Some("+" | "-"))
                && e.lexpr.as_deref().is_none_or(is_constant)
                && e.rexpr.as_deref().is_some_and(is_constant)
        }
        _ => false,
    }
}
