//! Which tables a data change names: the one it changes and those it reads.

use std::sync::Arc;

use catalog::{Catalog, Column, FIRST_USER_OID, Oid, Relation};
use pg_query::NodeEnum;
use pg_query::protobuf::{FuncCall, InsertStmt, RangeVar, TypeName};
use pgerror::Result;

use super::Input;
use crate::parse::{Statement, parse};
use crate::tree::{Ask, Get, Ref, last_name, target_of, with_items};

/// The type whose own collation goes on to a text made of it.
const NAME: Oid = 19;

/// The tables of a statement, as it names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// The one that INSERT, UPDATE, DELETE or MERGE changes; of a query the first that its WITH changes.
    pub written: Option<String>,
    /// Those that it reads besides: sub-selects, FROM, USING. No WITH items; in order of their names.
    pub read: Vec<String>,
    /// Clauses of an INSERT.
    pub clauses: Option<Clauses>,
}

/// What an INSERT has besides its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Clauses {
    pub with: bool,
    pub on_conflict: bool,
    pub returning: bool,
}

impl Clauses {
    pub(crate) fn of(insert: &InsertStmt) -> Self {
        Self {
            with: insert.with_clause.is_some(),
            on_conflict: insert.on_conflict_clause.is_some(),
            returning: insert.returning_clause.is_some(),
        }
    }

    /// Does the INSERT nothing that waits for a row lock of another statement for long?
    pub fn only_inserts(self) -> bool {
        !self.with && !self.on_conflict
    }
}

impl Tables {
    /// The tables of one statement's text.
    pub fn in_text(sql: &str) -> Result<Self> {
        let statements = parse(sql)?;
        statements.first().and_then(|statement| statement.node()).map_or_else(|| Ok(Self::default()), Self::of)
    }

    /// The tables of a statement whose tree has been walked before.
    pub(crate) fn of_statement(statement: &Statement) -> Arc<Self> {
        Arc::new(statement.node().and_then(|node| Self::of(node).ok()).unwrap_or_default())
    }

    pub(crate) fn of(node: &NodeEnum) -> Result<Self> {
        let with_items = node.with_names()?;
        let target = target(node);
        let is_target = |table: &RangeVar| target.is_some_and(|target| std::ptr::eq(target, table));
        let is_table = |table: &RangeVar| !table.schemaname.is_empty() || !with_items.contains(&table.relname);
        let read = node.tables()?.into_iter().filter(|table| !is_target(table) && is_table(table));
        let mut read: Vec<String> = read.map(name).collect();
        read.sort_unstable();
        read.dedup();
        let clauses = node.get::<InsertStmt>().map(Clauses::of);
        Ok(Self { written: target.map(name), read, clauses })
    }

    /// Is this an INSERT that does nothing else, of rows that it brings itself?
    pub fn brings_rows(&self) -> bool {
        self.only_inserts() && self.read.is_empty()
    }

    /// Is this an INSERT that does nothing else?
    pub fn only_inserts(&self) -> bool {
        self.clauses.is_some_and(Clauses::only_inserts)
    }
}

/// Does a query read nothing but these inputs, and call no function of the user's, which might read more?
pub fn reads_only(sql: &str, inputs: &[Input], catalog: &Catalog) -> bool {
    let Ok(statements) = parse(sql) else { return false };
    let Some(node) = statements.first().and_then(|statement| statement.node()) else { return false };
    let is_users = |call: &FuncCall| !catalog.functions(last_name(&call.funcname).unwrap_or_default()).is_empty();
    let calls = node.may_have(|part| matches!(part, Ref::FuncCall(call) if is_users(call)));
    let Ok(Tables { read, .. }) = Tables::of(node) else { return false };
    let is_input = |name: &String| {
        let name = name.strip_prefix("pg_temp.").unwrap_or(name);
        inputs.iter().any(|input| catalog::quote_identifier(&input.table) == name)
    };
    !calls && read.iter().all(is_input)
}

/// Does a query over tables give values of built-in types in their default collations only? Judged by all columns of its tables
/// and all names in its text. What PostgreSQL says of such a value's type is all there is to know of it then.
pub fn gives_plain_values(sql: &str, catalog: &Catalog) -> bool {
    let Ok(statements) = parse(sql) else { return false };
    let Some(node) = statements.first().and_then(|statement| statement.node()) else { return false };
    let Ok(with_items) = node.with_names() else { return false };
    let plain = node.every(|part| match part {
        Ref::RangeVar(table) => {
            (table.schemaname.is_empty() && with_items.contains(&table.relname)) || has_plain_columns(table, catalog)
        }
        Ref::FuncCall(call) => last_name(&call.funcname).is_some_and(|name| {
            let of_postgresql = catalog.builtins().functions(name);
            catalog.functions(name).is_empty() && of_postgresql.iter().all(|function| function.result != NAME)
        }),
        Ref::TypeName(name) => is_built_in(name, catalog),
        // The operator may be the user's own, and what it gives.
        Ref::AExpr(expression) => !last_name(&expression.name).is_some_and(|name| catalog.has_user_operator(name)),
        // Most give a `name`.
        Ref::CollateClause(_) | Ref::SqlvalueFunction(_) => false,
        _ => true,
    });
    plain.unwrap_or(false)
}

fn has_plain_columns(table: &RangeVar, catalog: &Catalog) -> bool {
    let is_plain =
        |column: &Column| column.type_oid < FIRST_USER_OID && column.type_oid != NAME && column.default_collation;
    let mut meant = named_relations(catalog, table).peekable();
    meant.peek().is_some() && meant.all(|relation| relation.columns.iter().all(is_plain))
}

/// The relations that a name may mean, under whatever search path.
pub(crate) fn named_relations<'c>(catalog: &'c Catalog, name: &'c RangeVar) -> impl Iterator<Item = &'c Relation> {
    let schema = name.schemaname.as_str();
    let named = catalog.relations_named(&name.relname);
    named.filter(move |relation| schema.is_empty() || relation.schema == schema).map(|relation| relation.as_ref())
}

fn is_built_in(name: &TypeName, catalog: &Catalog) -> bool {
    let bare = last_name(&name.names).unwrap_or_default();
    let is_name = catalog.builtins().type_named(bare).is_some_and(|of| of.oid == NAME);
    !is_name && !catalog.user_types().any(|known| known.name == bare)
}

fn target(node: &NodeEnum) -> Option<&RangeVar> {
    match node {
        // A query in WITH has no target, for it changes nothing.
        NodeEnum::SelectStmt(select) => with_items(select.with_clause.as_ref())
            .filter_map(|item| item.ctequery.as_deref()?.node.as_ref())
            .filter(|query| !matches!(query, NodeEnum::SelectStmt(_)))
            .find_map(target),
        _ => target_of(node),
    }
}

fn name(table: &RangeVar) -> String {
    let relation = catalog::quote_identifier(&table.relname);
    match table.schemaname.is_empty() {
        true => relation,
        false => format!("{}.{relation}", catalog::quote_identifier(&table.schemaname)),
    }
}
