//! A change that rules are about, as the source of the rows OLD and NEW.

use std::collections::BTreeMap;

use catalog::{Column, Generated, Relation, RuleEvent};
use pg_query::protobuf::{self, Alias, BoolTestType, InsertStmt, List, RangeVar, ResTarget, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::Context;
use crate::facts::functions::facts;
use crate::tree::{self, Ask, Get, Ref, Syntax};

/// What an action calls the rows of the change.
pub(super) const ROWS: &str = "loxo_rows";

/// See the module's page.
pub(super) struct Query<'a> {
    pub ctx: &'a Context<'a>,
    pub relation: &'a Relation,
    pub event: RuleEvent,
    pub tree: &'a NodeEnum,
    /// What the statement calls the table.
    pub alias: String,
    rows: Rows,
}

/// Where the values come from.
enum Rows {
    /// An INSERT of one row: these columns, with these values.
    One(Vec<(String, Node)>),
    /// An INSERT of the rows of a query.
    Many { columns: Vec<String>, query: Box<SelectStmt> },
    /// Rows that are there; UPDATE sets some columns, `None` where it does not say to what by an expression of its own.
    There(Vec<(String, Option<Node>)>),
}

/// Which row a name means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Old,
    New,
}

impl<'a> Query<'a> {
    pub fn of(ctx: &'a Context<'a>, relation: &'a Relation, event: RuleEvent, tree: &'a NodeEnum) -> Result<Self> {
        let (name, rows) = match tree {
            NodeEnum::InsertStmt(insert) => (&insert.relation, inserted(relation, insert)?),
            NodeEnum::UpdateStmt(update) => (&update.relation, Rows::There(set_columns(&update.target_list))),
            NodeEnum::DeleteStmt(delete) => (&delete.relation, Rows::There(Vec::new())),
            _ => return Err(PgError::internal("no data change")),
        };
        let own = |name: &RangeVar| tree::alias_of(name).to_owned();
        let alias = name.as_ref().map(own).unwrap_or_default();
        Ok(Self { ctx, relation, event, tree, alias, rows })
    }

    pub fn refused(&self, what: &str) -> PgError {
        PgError::unsupported(format!("{what} in a change of \"{}\", which has rules,", self.relation.name))
            .hint("Write it in another way, or do what the rule does by a statement of your own.")
    }

    pub fn column(&self, name: &str) -> Result<&Column> {
        self.relation.column(name).ok_or_else(|| self.refused(&format!("system column \"{name}\" of a rule")))
    }

    /// What a generated column will be is known when the row is there.
    fn named(&self, which: Which, name: &str) -> Result<&Column> {
        let column = self.column(name)?;
        match which == Which::New && column.generated.is_computed() {
            true => Err(self.refused(&format!("new.{name}, a generated column,"))),
            false => Ok(column),
        }
    }

    /// A column of OLD or NEW, for a statement that has [`ROWS`] in its FROM, unless there is one row. Notes what these need.
    pub fn value(&self, which: Which, column: &str, needed: &mut BTreeMap<String, Node>) -> Result<Node> {
        let column = self.named(which, column)?;
        match &self.rows {
            Rows::One(values) => match values.iter().find(|(name, _)| *name == column.name) {
                Some((_, value)) => self.given(column, value),
                None => self.default(column),
            },
            Rows::Many { columns, .. } if columns.contains(&column.name) => {
                self.coerced(tree::column(&[ROWS, &column.name]), column)
            }
            Rows::Many { .. } => self.default(column),
            Rows::There(_) => {
                let is_set = which == Which::New && self.sets(&column.name);
                let name = format!("{}{}", if is_set { "n" } else { "o" }, column.number);
                needed.insert(name.clone(), self.own_value(which, &column.name)?);
                Ok(tree::column(&[ROWS, &name]))
            }
        }
    }

    /// A column of OLD or NEW within the statement itself.
    pub fn own_value(&self, which: Which, column: &str) -> Result<Node> {
        if !matches!(self.rows, Rows::There(_)) {
            return self.value(which, column, &mut BTreeMap::new());
        }
        let column = self.named(which, column)?;
        match which == Which::New && self.sets(&column.name) {
            true => self.set_value(column),
            false => Ok(tree::column(&[&self.alias, &column.name])),
        }
    }

    /// Is it an UPDATE of this column?
    pub fn sets(&self, column: &str) -> bool {
        matches!(&self.rows, Rows::There(set) if set.iter().any(|(name, _)| name == column))
    }

    /// What UPDATE sets a column to.
    fn set_value(&self, column: &Column) -> Result<Node> {
        let Rows::There(set) = &self.rows else { return Err(PgError::internal("no UPDATE")) };
        let value = set.iter().find(|(name, _)| *name == column.name).and_then(|(_, value)| value.as_ref());
        let value = value.ok_or_else(|| self.refused(&format!("such an assignment to column \"{}\"", column.name)))?;
        if let NodeEnum::SetToDefault(_) = inner(value)? {
            return self.default(column);
        }
        // PostgreSQL evaluates it once for each time that a rule names it.
        let facts = facts(self.ctx, value)?;
        if let Some(what) = facts.volatile.or(facts.home) {
            return Err(self.refused(&format!("{what}, which gives column \"{}\" its value,", column.name)));
        }
        self.coerced(value.clone(), column)
    }

    /// A value of VALUES.
    fn given(&self, column: &Column, value: &Node) -> Result<Node> {
        match inner(value)? {
            NodeEnum::SetToDefault(_) => self.default(column),
            _ => self.coerced(value.clone(), column),
        }
    }

    /// What a column gets that the statement does not name.
    fn default(&self, column: &Column) -> Result<Node> {
        let is_plain = column.generated == Generated::No;
        match column.default.as_deref() {
            Some(default) if is_plain => tree::parse_expression(default),
            // Nothing of NULL can be cut off.
            None if is_plain => cast(tree::null(), &column.type_name),
            _ => Err(self.refused(&format!("the default of column \"{}\"", column.name))),
        }
    }

    /// A value as it is stored in a column, by an assignment cast: a text that is too long is an error.
    fn coerced(&self, value: Node, column: &Column) -> Result<Node> {
        const VARCHAR: u32 = 1043;
        const BPCHAR: u32 = 1042;
        const BIT: [u32; 2] = [1560, 1562];
        // timestamp, timestamptz, time, timetz, interval, numeric: a cast does what an assignment does.
        const ROUNDED: [u32; 6] = [1114, 1184, 1083, 1266, 1186, 1700];
        let (base, modifier) = self.ctx.catalog.value_type(column.type_oid, column.type_modifier);
        let is_domain = base != column.type_oid;
        let cuts = is_domain && modifier != -1 && ([VARCHAR, BPCHAR].contains(&base) || BIT.contains(&base));
        let with_length = |function: &str, of: &str| {
            let arguments =
                vec![cast(value.clone(), of)?, tree::integer(column.type_modifier.into()), tree::boolean(false)];
            Ok(tree::call(function, arguments))
        };
        match (column.type_oid, column.type_modifier) {
            (VARCHAR, 0..) => with_length("varchar", "pg_catalog.varchar"),
            (BPCHAR, 0..) => with_length("bpchar", "bpchar"),
            (of, -1) if !cuts && !BIT.contains(&of) => cast(value, &column.type_name),
            (of, _) if ROUNDED.contains(&of) => cast(value, &column.type_name),
            _ => Err(self.refused(&format!("column \"{}\" of type {}", column.name, column.type_name))),
        }
    }

    /// The rows as an item of FROM: what OLD and NEW are. `None` for the one row of an INSERT.
    pub fn item(&self, needed: &BTreeMap<String, Node>) -> Result<Option<Node>> {
        let (query, columns) = match &self.rows {
            Rows::One(_) => return Ok(None),
            Rows::Many { columns, query } => (self.typed(columns, query)?, columns.as_slice()),
            Rows::There(_) => (self.rows_there(needed)?, [].as_slice()),
        };
        let colnames = columns.iter().map(|name| tree::string(name)).collect();
        Ok(Some(tree::sub_select(query, Alias { aliasname: ROWS.to_owned(), colnames })))
    }

    /// The rows of an INSERT; the values of VALUES as the columns' types.
    fn typed(&self, columns: &[String], query: &SelectStmt) -> Result<SelectStmt> {
        let mut query = query.clone();
        for row in &mut query.values_lists {
            let Some(NodeEnum::List(List { items })) = &mut row.node else { continue };
            if items.len() != columns.len() {
                return Err(self.refused("VALUES of other lengths"));
            }
            for (value, name) in items.iter_mut().zip(columns) {
                *value = self.given(self.column(name)?, value)?;
            }
        }
        Ok(query)
    }

    fn rows_there(&self, needed: &BTreeMap<String, Node>) -> Result<SelectStmt> {
        let mut target_list: Vec<Node> =
            needed.iter().map(|(name, value)| tree::target(value.clone(), Some(name))).collect();
        if target_list.is_empty() {
            target_list.push(tree::target(tree::integer(1), Some("one")));
        }
        let (target, others, where_clause, with_clause) = match self.tree {
            NodeEnum::UpdateStmt(u) => (&u.relation, &u.from_clause, &u.where_clause, &u.with_clause),
            NodeEnum::DeleteStmt(d) => (&d.relation, &d.using_clause, &d.where_clause, &d.with_clause),
            _ => return Err(PgError::internal("no rows that are there")),
        };
        let target = target.clone().map(|target| tree::node(NodeEnum::RangeVar(target)));
        let from_clause = target.into_iter().chain(others.iter().cloned()).collect();
        let (where_clause, with_clause) = (where_clause.clone(), with_clause.clone());
        Ok(SelectStmt { target_list, from_clause, where_clause, with_clause, ..tree::empty_select() })
    }

    /// The statement for the rows of which none of these conditions is true.
    pub fn unless(&self, conditions: &[Node]) -> Result<NodeEnum> {
        let mut remaining = Vec::new();
        for condition in conditions {
            let mut condition = condition.clone();
            self.check_names(&condition)?;
            super::action::replace(&mut condition, &mut |which, column| self.own_value(which, column))?;
            remaining.push(tree::boolean_test(condition, BoolTestType::IsNotTrue));
        }
        let mut tree = self.tree.clone();
        match &mut tree {
            NodeEnum::InsertStmt(insert) => self.restrict_insert(insert, remaining)?,
            NodeEnum::UpdateStmt(update) => add(&mut update.where_clause, remaining),
            NodeEnum::DeleteStmt(delete) => add(&mut delete.where_clause, remaining),
            _ => return Err(PgError::internal("no data change")),
        }
        Ok(tree)
    }

    fn restrict_insert(&self, insert: &mut InsertStmt, conditions: Vec<Node>) -> Result<()> {
        let mut select = tree::empty_select();
        let mut columns: Vec<&str> = Vec::new();
        match &self.rows {
            Rows::One(values) => {
                for (name, value) in values {
                    if !matches!(inner(value)?, NodeEnum::SetToDefault(_)) {
                        columns.push(name);
                        select.target_list.push(tree::target(self.coerced(value.clone(), self.column(name)?)?, None));
                    }
                }
            }
            Rows::Many { columns: given, .. } => {
                columns.extend(given.iter().map(String::as_str));
                for name in given {
                    let value = self.coerced(tree::column(&[ROWS, name]), self.column(name)?)?;
                    select.target_list.push(tree::target(value, None));
                }
                select.from_clause.extend(self.item(&BTreeMap::new())?);
            }
            Rows::There(_) => return Err(PgError::internal("no INSERT")),
        }
        if columns.is_empty() {
            let column = self.relation.columns.iter().find(|column| self.default(column).is_ok());
            let column = column.ok_or_else(|| self.refused("DEFAULT VALUES"))?;
            columns.push(&column.name);
            select.target_list.push(tree::target(self.default(column)?, None));
        }
        add(&mut select.where_clause, conditions);
        insert.cols = columns.into_iter().map(tree::target_name_only).collect();
        insert.with_clause = None;
        insert.select_stmt = select.into_box();
        Ok(())
    }

    /// A rule's condition is to stand among the statement's own: a name must not come to mean something else there.
    fn check_names(&self, condition: &Node) -> Result<()> {
        let Rows::There(set) = &self.rows else { return Ok(()) };
        let (mut has_query, mut bears_name) = (false, false);
        condition.each(|node| match node {
            Ref::SubLink(_) => has_query = true,
            Ref::RangeVar(name) if name.alias.is_none() => bears_name |= name.relname == self.alias,
            Ref::Alias(alias) => bears_name |= alias.aliasname == self.alias,
            _ => {}
        })?;
        let mut names_columns = false;
        for (_, value) in set {
            names_columns |= value.any(|node| matches!(node, Ref::ColumnRef(_)))?;
        }
        match has_query && (bears_name || names_columns) {
            true => Err(self.refused("a rule whose condition has a sub-select,")),
            false => Ok(()),
        }
    }
}

fn inserted(relation: &Relation, insert: &InsertStmt) -> Result<Rows> {
    let refused = |what: &str| {
        Err(PgError::unsupported(format!("{what} in an INSERT into \"{}\", which has rules,", relation.name))
            .hint("Leave it out."))
    };
    if insert.r#override != protobuf::OverridingKind::OverridingNotSet as i32 {
        return refused("OVERRIDING");
    }
    let Some(query) = insert.select_stmt.get::<SelectStmt>() else { return Ok(Rows::One(Vec::new())) };
    let mut columns = Vec::new();
    for column in &insert.cols {
        match &column.node {
            Some(NodeEnum::ResTarget(target)) if target.indirection.is_empty() => columns.push(target.name.clone()),
            _ => return refused("a part of a column"),
        }
    }
    if columns.is_empty() {
        let count = tree::width(query).unwrap_or(relation.columns.len());
        columns.extend(relation.columns.iter().take(count).map(|column| column.name.clone()));
    }
    let row = match query.values_lists.as_slice() {
        [Node { node: Some(NodeEnum::List(row)) }] => Some(&row.items),
        _ => None,
    };
    let has_clauses = insert.with_clause.is_some() || query.with_clause.is_some() || !tree::is_unlimited(query);
    match row {
        Some(items) if items.len() != columns.len() => refused("VALUES of another length"),
        Some(items) if !has_clauses => Ok(Rows::One(columns.into_iter().zip(items.iter().cloned()).collect())),
        _ if insert.with_clause.is_some() && query.with_clause.is_some() => refused("WITH in two places"),
        _ => {
            let with_clause = insert.with_clause.clone().or_else(|| query.with_clause.clone());
            Ok(Rows::Many { columns, query: Box::new(SelectStmt { with_clause, ..query.clone() }) })
        }
    }
}

fn set_columns(targets: &[Node]) -> Vec<(String, Option<Node>)> {
    let column = |target: &ResTarget| {
        let value = target.val.as_deref().filter(|_| target.indirection.is_empty());
        (target.name.clone(), value.and_then(tree::single_value))
    };
    targets.iter().filter_map(|target| target.get()).map(column).collect()
}

fn inner(node: &Node) -> Result<&NodeEnum> {
    node.node.as_ref().ok_or_else(|| PgError::internal("an expression without a tree"))
}

/// Adds to a WHERE.
pub(super) fn add(condition: &mut Option<Box<Node>>, more: Vec<Node>) {
    let all = condition.take().map(|own| *own).into_iter().chain(more).collect();
    *condition = tree::conjunction(all).map(Box::new);
}

/// A cast to a type as the catalog prints it.
fn cast(value: Node, of: &str) -> Result<Node> {
    Ok(tree::cast(value, &tree::parse_type(of)?))
}
