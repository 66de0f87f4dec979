//! The query levels of a statement and the tables in each: which level's condition is about which table.
//!
//! A level is one SELECT with its FROM. Every table reference carries a number (in the otherwise unused `location` field,
//! see [`number_tables`]), so that what is found out about it can be applied to the tree later.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use catalog::{BuiltinFunction, Column, Distribution, Meaning, Relation};
use pg_query::protobuf::{
    AExprKind, BoolExpr, BoolExprType, ColumnRef, FuncCall, JoinExpr, JoinType, RangeVar, SelectStmt, SubLink,
    SubLinkType,
};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::{shape, terms};
use crate::context::{Context, Named};
use crate::facts::numbers::{self, Number};
use crate::tree::{self, Ask, Get, Ref, Walk};

/// Gives every table reference a number of its own. NATURAL JOIN is written out by PostgreSQL, but in what it was not asked about.
pub(super) fn number_tables(statement: &mut NodeEnum) -> Result<usize> {
    let mut tables = 0;
    statement.rewrite(&mut |node: &mut Node| {
        if let Some(name) = node.get_mut::<RangeVar>() {
            tables += 1;
            name.location = tables;
        }
        match node.get::<JoinExpr>().is_some_and(|join| join.is_natural) {
            true => Err(PgError::unsupported("NATURAL JOIN of rows of several nodes in this transaction")
                .hint("Name the join's columns by USING.")),
            false => Ok(true),
        }
    })?;
    Ok(tables as usize)
}

/// Conditions that may be evaluated early, by table number.
pub(super) fn filters(ctx: &Context<'_>, statement: &impl Walk) -> Result<HashMap<i32, Vec<Node>>> {
    Ok(filters_of(ctx, &levels(ctx, statement)?))
}

/// [`filters`] of levels that are known already.
pub(super) fn filters_of(ctx: &Context<'_>, levels: &[Level<'_>]) -> HashMap<i32, Vec<Node>> {
    let mut filters: HashMap<i32, Vec<Node>> = HashMap::new();
    for level in levels {
        for condition in &level.conditions {
            for (table, condition) in level.early(ctx, condition) {
                filters.entry(table).or_default().push(condition);
            }
        }
        for (table, condition) in &level.on_conditions {
            filters.entry(*table).or_default().push((*condition).clone());
        }
    }
    filters
}

/// Conditions that say nothing but which rows of one table count, as they stand in the tree, by table number.
pub(super) fn own_conditions(ctx: &Context<'_>, levels: &[Level<'_>]) -> HashMap<i32, Vec<Node>> {
    let mut own: HashMap<i32, Vec<Node>> = HashMap::new();
    for level in levels {
        let conditions = level.conditions.iter().copied();
        let of_table = conditions.filter_map(|condition| Some((level.only_table(ctx, condition)?, condition)));
        let all = of_table.chain(level.on_conditions.iter().copied());
        all.for_each(|(table, condition)| own.entry(table).or_default().push(condition.clone()));
    }
    own
}

/// A table of a level.
pub(super) struct LevelTable<'t> {
    pub alias: String,
    pub number: i32,
    pub name: &'t RangeVar,
    pub relation: Arc<Relation>,
    /// Conditions of the level may be applied to its rows early: no outer join can make up rows for it.
    pub keeps: bool,
    /// Nothing forbids to filter its rows early, if the conditions allow it, and its columns go by their own names.
    pub may_be_filtered: bool,
}

/// One SELECT of a statement.
#[derive(Default)]
pub(super) struct Level<'t> {
    /// The level whose columns it may also see.
    pub parent: Option<usize>,
    pub tables: Vec<LevelTable<'t>>,
    /// Some item's columns are not known: a bare name may be one of them.
    pub has_other_items: bool,
    /// FROM has an outer join.
    pub has_outer_join: bool,
    /// What every row fulfils; see [`shape::inner_conditions`].
    pub conditions: Vec<&'t Node>,
    /// All columns that are compared for equality anywhere in it, by name.
    pub compared: HashSet<String>,
    /// A sub-select in an expression, not in FROM or WITH.
    pub in_expression: bool,
    /// The sub-select of EXISTS or IN, without grouping or LIMIT: how often a row comes does not matter.
    pub counts_once: bool,
    /// Grouping, DISTINCT or a window on top.
    pub gathers: bool,
    /// Conditions in ON of outer joins about the side that need not match: other rows of it never do.
    on_conditions: Vec<(i32, &'t Node)>,
    /// Numbers of the tables in FROM tell one level from another.
    from: &'t [Node],
}

/// All levels, outer ones before inner ones.
pub(super) fn levels<'t>(ctx: &Context<'_>, statement: &'t impl Walk) -> Result<Vec<Level<'t>>> {
    let mut list = Vec::new();
    let ctes = statement.with_names()?;
    let mut found: Vec<&'t SelectStmt> = Vec::new();
    statement.walk(&mut |node| match node {
        Ref::SelectStmt(select) => {
            found.push(select);
            Ok(false)
        }
        _ => Ok(true),
    })?;
    for select in found {
        add(ctx, select, None, Place::From, &ctes, &mut list)?;
    }
    Ok(list)
}

fn add<'t>(
    ctx: &Context<'_>,
    select: &'t SelectStmt,
    parent: Option<usize>,
    place: Place,
    ctes: &HashSet<String>,
    list: &mut Vec<Level<'t>>,
) -> Result<()> {
    let gathers =
        shape::is_aggregated(ctx, select)? || !select.distinct_clause.is_empty() || !shape::windows(select)?.is_empty();
    let is_plain = !tree::is_operation(select) && !gathers && tree::is_unlimited(select);
    let mut level = Level {
        parent,
        conditions: shape::inner_conditions(select),
        in_expression: place != Place::From,
        counts_once: place == Place::Exists && is_plain,
        gathers,
        from: &select.from_clause,
        ..Level::default()
    };
    for item in &select.from_clause {
        level.item(ctx, item, true, ctes)?;
    }
    level.learn_compared(ctx, select)?;
    let above = if tree::is_operation(select) { parent } else { Some(list.len()) };
    list.push(level);
    for (child, place) in children(select)? {
        add(ctx, child, above, place, ctes, list)?;
    }
    Ok(())
}

/// Where a SELECT stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// FROM, WITH, or the top.
    From,
    /// EXISTS or IN.
    Exists,
    /// Another expression.
    Value,
}

/// The SELECTs directly below one.
fn children(select: &SelectStmt) -> Result<Vec<(&SelectStmt, Place)>> {
    let mut found: Vec<(&SelectStmt, Place)> = Vec::new();
    let mut in_expressions: Vec<(*const SelectStmt, Place)> = Vec::new();
    select.walk(&mut |node| {
        match node {
            Ref::SubLink(link) => {
                let place = match link.sub_link_type() {
                    SubLinkType::ExistsSublink | SubLinkType::AnySublink => Place::Exists,
                    _ => Place::Value,
                };
                if let Some(sub) = link.subselect.get::<SelectStmt>() {
                    in_expressions.push((&raw const *sub, place));
                }
            }
            Ref::SelectStmt(sub) if !std::ptr::eq(sub, select) => {
                let known = in_expressions.iter().find(|(link, _)| std::ptr::eq(*link, sub));
                found.push((sub, known.map_or(Place::From, |(_, place)| *place)));
                return Ok(false);
            }
            _ => {}
        }
        Ok(true)
    })?;
    Ok(found)
}

impl<'t> Level<'t> {
    fn item(&mut self, ctx: &Context<'_>, item: &'t Node, keeps: bool, ctes: &HashSet<String>) -> Result<()> {
        match &item.node {
            Some(NodeEnum::RangeVar(name)) => self.table(ctx, name, keeps, ctes)?,
            Some(NodeEnum::JoinExpr(join)) => {
                let kind = join.jointype();
                self.has_outer_join |= kind != JoinType::JoinInner;
                let before = self.tables.len();
                let keeps_left = matches!(kind, JoinType::JoinInner | JoinType::JoinLeft);
                let keeps_right = matches!(kind, JoinType::JoinInner | JoinType::JoinRight);
                for (side, side_keeps) in [(&join.larg, keeps_left), (&join.rarg, keeps_right)] {
                    if let Some(side) = side.as_deref() {
                        self.item(ctx, side, keeps && side_keeps, ctes)?;
                    }
                }
                self.learn_on(ctx, join, before);
                if let Some(alias) = &join.alias {
                    self.has_other_items = true;
                    // Outside, a name of these tables may mean another column.
                    let renamed = self.tables[before..].iter_mut().filter(|_| !alias.colnames.is_empty());
                    renamed.for_each(|table| (table.keeps, table.may_be_filtered) = (false, false));
                }
            }
            _ => self.has_other_items = true,
        }
        Ok(())
    }

    /// ON of a LEFT or RIGHT JOIN with a plain table on the side that need not match.
    fn learn_on(&mut self, ctx: &Context<'_>, join: &'t JoinExpr, before: usize) {
        let optional = match join.jointype() {
            JoinType::JoinLeft => join.rarg.as_deref(),
            JoinType::JoinRight => join.larg.as_deref(),
            _ => return,
        };
        let Some(name) = optional.and_then(|item| item.get::<RangeVar>()) else { return };
        let optional = self.tables[before..].iter().find(|table| table.number == name.location);
        let Some(number) = optional.filter(|table| table.may_be_filtered).map(|table| table.number) else { return };
        for condition in tree::conjuncts(join.quals.as_deref()) {
            let mut tables = Vec::new();
            if self.simple(ctx, condition, &mut tables) && tables.iter().all(|table| *table == number) {
                self.on_conditions.push((number, condition));
            }
        }
    }

    /// Is this the level of that SELECT?
    pub fn is_of(&self, select: &SelectStmt) -> bool {
        std::ptr::eq(self.from, &*select.from_clause) || self.from == select.from_clause
    }

    fn table(&mut self, ctx: &Context<'_>, name: &'t RangeVar, keeps: bool, ctes: &HashSet<String>) -> Result<()> {
        let is_cte = name.schemaname.is_empty() && ctes.contains(&name.relname);
        let Named::Distributed(relation) = ctx.resolve(name)? else {
            self.has_other_items = true;
            return Ok(());
        };
        let plain_alias = name.alias.as_ref().is_none_or(|a| a.colnames.is_empty());
        self.tables.push(LevelTable {
            alias: tree::alias_of(name).to_owned(),
            number: name.location,
            name,
            keeps: keeps && plain_alias && !relation.is_barrier && !is_cte,
            may_be_filtered: plain_alias && !relation.is_barrier && !is_cte,
            relation,
        });
        Ok(())
    }

    fn learn_compared(&mut self, ctx: &Context<'_>, select: &SelectStmt) -> Result<()> {
        let mut names = HashSet::new();
        select.walk(&mut |node| {
            match node {
                Ref::SelectStmt(sub) if !std::ptr::eq(sub, select) => return Ok(false),
                Ref::AExpr(e) if tree::own_name(&e.name) == Some("=") => {
                    let sides = [e.lexpr.as_deref(), e.rexpr.as_deref()];
                    sides.into_iter().flatten().for_each(|side| column_names(ctx, side, &mut names));
                }
                Ref::SubLink(link) => link.testexpr.iter().for_each(|test| column_names(ctx, test, &mut names)),
                Ref::JoinExpr(join) => names.extend(tree::names_of(&join.using_clause)),
                _ => {}
            }
            Ok(true)
        })?;
        self.compared = names;
        Ok(())
    }

    /// What a condition says of single tables: itself if it is a simple one about one table, and of a disjunction what
    /// each branch says of that table.
    fn early(&self, ctx: &Context<'_>, condition: &Node) -> Vec<(i32, Node)> {
        if let Some(table) = self.only_table(ctx, condition) {
            return vec![(table, condition.clone())];
        }
        let Some(any) = condition.get::<BoolExpr>() else { return Vec::new() };
        if any.boolop != BoolExprType::OrExpr as i32 {
            return Vec::new();
        }
        self.tables
            .iter()
            .filter_map(|table| Some((table.number, self.implied(ctx, &any.args, table.number)?)))
            .collect()
    }

    /// `(a AND b) OR (c AND d)` with a and c about the table implies `a OR c`.
    fn implied(&self, ctx: &Context<'_>, branches: &[Node], table: i32) -> Option<Node> {
        let of_branch = |branch: &Node| {
            let about: Vec<Node> = tree::conjuncts(Some(branch))
                .into_iter()
                .filter(|part| self.only_table(ctx, part) == Some(table))
                .cloned()
                .collect();
            tree::conjunction(about)
        };
        let parts: Vec<Node> = branches.iter().map(of_branch).collect::<Option<_>>()?;
        Some(tree::or(parts))
    }

    /// The one table that a simple condition is about.
    pub fn only_table(&self, ctx: &Context<'_>, condition: &Node) -> Option<i32> {
        let mut tables = Vec::new();
        if !self.simple(ctx, condition, &mut tables) {
            return None;
        }
        tables.dedup();
        match tables.as_slice() {
            [table] => self.tables.iter().find(|t| t.number == *table && t.keeps).map(|t| t.number),
            _ => None,
        }
    }

    /// Comparisons of a column, or of a part of it, with constants, joined by AND, OR, NOT: they cannot fail and read nothing
    /// else but a single value that every node has.
    fn simple(&self, ctx: &Context<'_>, node: &Node, tables: &mut Vec<i32>) -> bool {
        match node.node.as_ref() {
            Some(NodeEnum::BoolExpr(b)) => b.args.iter().all(|arg| self.simple(ctx, arg, tables)),
            Some(NodeEnum::NullTest(test)) => test.arg.as_deref().is_some_and(|a| self.plain_value(ctx, a, tables)),
            Some(NodeEnum::AExpr(e)) => {
                let (Some(left), Some(right)) = (e.lexpr.as_deref(), e.rexpr.as_deref()) else { return false };
                let builtin = tree::own_name(&e.name).is_some_and(|op| {
                    ["=", "<>", "<", ">", "<=", ">=", "~~", "!~~", "~~*", "!~~*", "BETWEEN", "NOT BETWEEN"]
                        .contains(&op)
                        && !ctx.has_user_operator(op)
                });
                let kind_is_plain = matches!(
                    e.kind(),
                    AExprKind::AexprOp
                        | AExprKind::AexprIn
                        | AExprKind::AexprOpAny
                        | AExprKind::AexprOpAll
                        | AExprKind::AexprLike
                        | AExprKind::AexprIlike
                        | AExprKind::AexprBetween
                        | AExprKind::AexprNotBetween
                );
                builtin
                    && kind_is_plain
                    && ((self.plain_value(ctx, left, tables) && is_single_value(ctx, right))
                        || (is_single_value(ctx, left) && self.plain_value(ctx, right, tables))
                        || (self.plain_value(ctx, left, tables) && self.plain_value(ctx, right, tables)))
            }
            _ => false,
        }
    }

    /// A column, or what a function that cannot fail makes of one.
    fn plain_value(&self, ctx: &Context<'_>, node: &Node, tables: &mut Vec<i32>) -> bool {
        let Some(call) = node.get::<FuncCall>() else { return self.plain_column(ctx, node, tables) };
        let meant = numbers::meant(ctx, &|_| Number::Other, call);
        // One that takes the column as it is comes before all others.
        let means = |value, at: usize, meaning| {
            let of_column = self.source(ctx, value).map_or(0, |column| column.type_oid);
            let takes = |function: &&&BuiltinFunction| function.arguments.get(at) == Some(&of_column);
            let is_any = meant.iter().filter(takes).count() == 0;
            let mut meant = meant.iter().filter(|function| is_any || takes(function)).peekable();
            meant.peek().is_some() && meant.all(|function| function.meaning == Some(meaning))
        };
        let value = match call.args.as_slice() {
            [value, numbers @ ..] if numbers.iter().all(is_positive) && means(value, 0, Meaning::CannotFail) => value,
            [field, value] if is_part_of_a_date(field) && means(value, 1, Meaning::PartOfDate) => value,
            _ => return false,
        };
        ctx.is_builtin(&call.funcname) && self.plain_column(ctx, value, tables)
    }

    fn plain_column(&self, ctx: &Context<'_>, node: &Node, tables: &mut Vec<i32>) -> bool {
        match self.owner(ctx, node) {
            Found::Table(table, _) => {
                tables.push(self.tables[table].number);
                true
            }
            Found::Nowhere | Found::Unknown => false,
        }
    }

    /// The column of a table that an expression shows as it is.
    pub fn source(&self, ctx: &Context<'_>, node: &Node) -> Option<&Column> {
        let _ = node.get::<ColumnRef>()?;
        match self.owner(ctx, node) {
            Found::Table(table, name) => self.tables[table].relation.column(&name),
            Found::Nowhere | Found::Unknown => None,
        }
    }

    /// Whose column an expression is, at this level.
    pub fn owner(&self, ctx: &Context<'_>, node: &Node) -> Found {
        let Some((column, _)) = terms::peel(ctx, node) else { return Found::Unknown };
        let names: Option<Vec<&str>> = column.fields.iter().map(tree::text_of).collect();
        let (qualifier, name) = match names.as_deref() {
            Some([name]) => (None, *name),
            Some([.., qualifier, name]) => (Some(*qualifier), *name),
            _ => return Found::Unknown,
        };
        let mut owners = self.tables.iter().enumerate().filter(|(_, table)| {
            qualifier.is_none_or(|qualifier| table.alias == qualifier) && table.relation.column(name).is_some()
        });
        match (owners.next(), owners.next()) {
            (Some((table, _)), None) => Found::Table(table, name.to_owned()),
            (None, _) if !self.has_other_items => Found::Nowhere,
            _ => Found::Unknown,
        }
    }
}

/// Where a name leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A column of this table of the level.
    Table(usize, String),
    /// Not a column of the level.
    Nowhere,
    Unknown,
}

fn column_names(ctx: &Context<'_>, node: &Node, names: &mut HashSet<String>) {
    if let Some(NodeEnum::RowExpr(row)) = &node.node {
        row.args.iter().for_each(|part| column_names(ctx, part, names));
    } else if let Some((column, _)) = terms::peel(ctx, node) {
        names.extend(tree::last_name(&column.fields).map(str::to_owned));
    }
}

/// A constant, or the one value of a sub-select that has been computed and is on all nodes.
fn is_single_value(ctx: &Context<'_>, node: &Node) -> bool {
    let Some(link) = node.get::<SubLink>() else { return is_constant(ctx, node) };
    let Some(select) = link.subselect.get::<SelectStmt>() else { return false };
    let [Node { node: Some(NodeEnum::RangeVar(table)) }] = select.from_clause.as_slice() else { return false };
    let is_single = |made: &Arc<Relation>| {
        made.name == table.relname && made.rows == 1.0 && matches!(made.distribution, Distribution::Replicated { .. })
    };
    let is_bare = select.where_clause.is_none() && select.target_list.len() == 1;
    link.sub_link_type == SubLinkType::ExprSublink as i32
        && is_bare
        && table.schemaname.is_empty()
        && ctx.exchanged.iter().any(is_single)
}

/// A whole number above zero, small enough for any sum with another.
fn is_positive(node: &Node) -> bool {
    tree::integer_of(node).is_some_and(|number| (1..=i32::MAX / 4).contains(&number))
}

/// Every type with a date has these fields.
fn is_part_of_a_date(field: &Node) -> bool {
    field.get().and_then(tree::quoted).is_some_and(|name| ["year", "month", "day"].contains(&name))
}

/// Literals, parameters, and sums and differences of them (`date '1994-01-01' + interval '1 year'`).
fn is_constant(ctx: &Context<'_>, node: &Node) -> bool {
    let is_constant = |node: &Node| is_constant(ctx, node);
    match node.node.as_ref() {
        Some(NodeEnum::AConst(_) | NodeEnum::ParamRef(_)) => true,
        Some(NodeEnum::TypeCast(cast)) => {
            let name = cast.type_name.as_ref().map_or("", |of| tree::qualified(&of.names).1);
            let of = ctx.catalog.builtins().type_named(name);
            let names_object = of.is_some_and(|of| of.is_object_id && !of.reads_alike);
            let is_everywhere = cast.type_name.iter().all(|of| matches!(ctx.temporary_type(of), Ok(None)));
            cast.arg.as_deref().is_some_and(is_constant) && !names_object && is_everywhere
        }
        Some(NodeEnum::List(list)) => list.items.iter().all(is_constant),
        Some(NodeEnum::AArrayExpr(array)) => array.elements.iter().all(is_constant),
        Some(NodeEnum::AExpr(e)) => {
            e.kind == AExprKind::AexprOp as i32
                && matches!(tree::own_name(&e.name), Some("+" | "-"))
                && e.lexpr.as_deref().is_none_or(is_constant)
                && e.rexpr.as_deref().is_some_and(is_constant)
        }
        _ => false,
    }
}
