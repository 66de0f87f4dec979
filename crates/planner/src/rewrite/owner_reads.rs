//! Views whose owners may read what the user may not, in statements that move rows.
//!
//! A datanode that reads a view by its name applies its owner's rights and policies. Where the view's rows are those of several
//! nodes together (groups, joins by other columns), its definition takes its place, and PostgreSQL would check the user's rights on
//! the tables under it. So the view is read ahead of the statement:
//!
//! ```text
//! SELECT … FROM totals WHERE f(sum) > 3
//!   →  SELECT * FROM totals;     SELECT … FROM (its rows) totals WHERE f(sum) > 3
//!      │
//!      └ over loxo.x_1, loxo.x_2, …: views of ours on the tables, owned by the owner of the view that names the table
//! ```
//!
//! Invariants:
//! - No text of the user's runs while those views of ours exist, neither his query nor a function: he could name them in it. So
//!   definitions that call functions of users are refused, by columns of their types too, and no condition of the statement goes
//!   into the view. What a definition calls `count` is PostgreSQL's own, whatever the user has of that name in his search path:
//!   the query runs under [`OWN_PATH`].
//! - Whether the user may read the view, and its owner the tables, PostgreSQL says of the user's own statement.

use std::collections::HashSet;

use catalog::{Column, Oid};
use pg_query::protobuf::RangeVar;
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::{Context, Named};
use crate::ddl;
use crate::facts::functions::facts;
use crate::parse::{Statement, StatementKind};
use crate::plan::{Explain, Gather, Lifted, Plan, Routine};
use crate::rewrite::{inline, of_rows};
use crate::select::{self, names::names_row};
use crate::session::{Exchanges, SessionFacts};
use crate::tree::{self, Ask, Get, Ref};
use crate::views::{self, Expander, Lending};

/// The search path of queries that run with the rights of others.
pub const OWN_PATH: &str = "pg_catalog, pg_temp";

/// How a statement gets these views' rows; `None` if they are not all named in it, or it is none that could.
pub(crate) fn with_views_first(ctx: &Context<'_>, statement: &Statement, wanted: &[Oid]) -> Result<Option<Plan>> {
    let routine = match &statement.kind {
        StatementKind::Explain(explain) if !explain.analyze => {
            let inner = with_views_first(ctx, &explain.inner, wanted)?.map(Box::new);
            return Ok(
                inner.map(|inner| Plan::Explain(Explain { options: explain.options.clone(), analyze: false, inner }))
            );
        }
        kind if kind.row_command().is_some() => {
            let inlined = inline::inline(ctx, statement, false)?;
            views_first(ctx, inlined.as_ref().unwrap_or(statement), wanted)?.map(Routine::Lifted)
        }
        _ => of_rows::over_views(ctx, statement)?.map(Routine::Rows),
    };
    Ok(routine.map(|routine| Plan::Routine(Box::new(routine))))
}

/// The statement with these views read ahead of it; `None` if they are not all named in it.
fn views_first(ctx: &Context<'_>, statement: &Statement, wanted: &[Oid]) -> Result<Option<Lifted>> {
    let Some(tree) = statement.node() else { return Ok(None) };
    let mut tree = tree.clone();
    let ctes = tree.with_names()?;
    let (mut views, mut parts) = (Vec::new(), Vec::new());
    tree.put(|node| {
        let Some(name) = node.get::<RangeVar>() else { return Ok(None) };
        if name.schemaname.is_empty() && ctes.contains(&name.relname) {
            return Ok(None);
        }
        let Named::View(view) = ctx.resolve(name)? else { return Ok(None) };
        if !wanted.contains(&view.oid) {
            return Ok(None);
        }
        let at = match views.iter().position(|known| *known == view.oid) {
            Some(at) => at,
            None => {
                parts.push(format!("SELECT * FROM {}", view.qualified_name()));
                views.push(view.oid);
                views.len() - 1
            }
        };
        let rows = tree::parse_select(&Lifted::marker(at))?;
        Ok(Some(views::in_place_of(&view, name.alias.clone(), rows)))
    })?;
    if !wanted.iter().all(|view| views.contains(view)) {
        return Ok(None);
    }
    let rest = tree::deparse(&tree)?;
    Ok(Some(Lifted { parts, rest, parameters: statement.parameters, of_views: true, may_be_unwanted: false }))
}

/// Plans a statement that reads such a view and nothing else.
pub(crate) fn plan(ctx: &Context<'_>, statement: &Statement, prefix: &str) -> Result<Plan> {
    let Some(original) = statement.node() else { return Err(PgError::internal("a view's query without a tree")) };
    let session = SessionFacts { exchanges: Exchanges::No, ..ctx.session.clone() };
    let ctx = Context { session: &session, ..*ctx };
    check(&ctx, original, "a view that is read with its owner's rights")
        .map_err(|error| error.hint("Read it as its owner, or as a role that may read its tables."))?;
    let as_tables = views::reads_as_tables(original)?;
    let lending = Lending { prefix: prefix.to_owned(), as_tables, lent: Vec::new(), relations: Vec::new() };
    let mut expander = Expander { ctx: &ctx, which: |_| true, as_tables, lending: Some(lending) };
    let mut query = original.clone();
    expander.expand(&mut query, 0)?;
    let Some(Lending { lent, relations, .. }) = expander.lending else {
        return Err(PgError::internal("tables of a view were lent to nobody"));
    };
    let ctx = Context { exchanged: &relations, ..ctx };
    // A view of ours has no primary key: grouped by that, a table's columns must come to where it has one.
    let copies = Context { copies: Some("loxo_"), ..ctx };
    let gather = match select::groups_by_primary_key(&query, &relations)? {
        true => select::copied(&copies, &query)?,
        false => {
            let (inputs, final_sql) = select::source(&ctx, &query)?;
            Gather::new(ctx.home(), inputs, final_sql)
        }
    };
    Ok(Plan::Gather(Gather { writes: false, merge: None, lent, ..gather }))
}

/// REFRESH runs the query of a materialized view in a backend that has become the view's owner for it.
pub(crate) fn check_refresh(ctx: &Context<'_>, statement: &Statement) -> Result<()> {
    let Some(NodeEnum::RefreshMatViewStmt(refresh)) = statement.node() else { return Ok(()) };
    let Some(query) = ddl::refreshed_query(ctx, refresh)? else { return Ok(()) };
    let subject = "a materialized view of another role, over several datanodes,";
    let hint = "Refresh it in a session of its owner.";
    check(ctx, &query, subject).map_err(|error| error.hint(hint))?;
    // Its rows are stored by the session, so what their storing calls is called by it.
    let view = refresh.relation.as_ref().map(|name| ctx.resolve(name)).transpose()?;
    match view {
        Some(Named::Home(Some(view)))
            if view.code.as_ref().is_some_and(|code| !code.expressions.is_empty())
                || view.columns.iter().any(|column| !ctx.catalog.is_plain_type(column.type_oid)) =>
        {
            Err(PgError::unsupported(format!("a function of users in an index or type of {subject}")).hint(hint))
        }
        _ => Ok(()),
    }
}

/// The REFRESH with its view's schema, under whatever search path it runs.
pub(crate) fn qualified_refresh(ctx: &Context<'_>, statement: &Statement) -> Result<String> {
    let lost = || PgError::internal("REFRESH without a materialized view");
    let Some(NodeEnum::RefreshMatViewStmt(refresh)) = statement.node() else { return Err(lost()) };
    let name = refresh.relation.as_ref().ok_or_else(lost)?;
    let Named::Home(Some(view)) = ctx.resolve(name)? else { return Err(lost()) };
    let mut refresh = refresh.clone();
    refresh.relation = Some(RangeVar { schemaname: view.schema.clone(), ..name.clone() });
    tree::deparse(&NodeEnum::RefreshMatViewStmt(refresh))
}

/// Nothing of a user's may run in what all views under it come to, and it must give the same whenever it is read.
fn check(ctx: &Context<'_>, original: &NodeEnum, subject: &str) -> Result<()> {
    let mut whole = original.clone();
    Expander { ctx, which: |_| true, as_tables: false, lending: None }.expand(&mut whole, 0)?;
    let query = &whole;
    let facts = facts(ctx, query)?;
    facts.check()?;
    let own = code_of_users(ctx, query)?.or(code_of_policies(ctx, query)?).or(code_of_columns(ctx, query)?);
    let what = own
        .or(facts.volatile.map(|function| format!("the volatile function {function}")))
        .or(facts.locking.then(|| "FOR UPDATE or FOR SHARE".to_owned()))
        .or(facts.sample.then(|| "TABLESAMPLE".to_owned()))
        .or(facts.system_column.map(|column| format!("system column \"{column}\"")));
    what.map_or(Ok(()), |what| Err(PgError::unsupported(format!("{what} in {subject}"))))
}

/// A policy's function runs as the reader, so with what his search path makes of its text.
fn code_of_policies(ctx: &Context<'_>, query: &NodeEnum) -> Result<Option<String>> {
    for name in query.tables()? {
        if let Named::Distributed(table) | Named::Home(Some(table)) = ctx.resolve(name)?
            && table.code.as_ref().is_some_and(|code| !code.policies.is_empty())
        {
            return Ok(Some(format!("a policy of table \"{}\" that calls a function,", table.name)));
        }
    }
    Ok(None)
}

/// A value of a domain passes its constraints wherever it is stored; casts are made that no definition shows (`to_json` looks for one
/// when it runs), and so are comparisons of what composite types consist of.
fn code_of_columns(ctx: &Context<'_>, query: &NodeEnum) -> Result<Option<String>> {
    let (mut names, mut tables) = (HashSet::new(), Vec::new());
    query.each(|node| match node {
        Ref::ColumnRef(column) => names.extend(column.fields.iter().filter_map(tree::text_of)),
        Ref::JoinExpr(join) => names.extend(join.using_clause.iter().filter_map(tree::text_of)),
        Ref::RangeVar(name) => tables.push(name),
        _ => {}
    })?;
    for name in tables {
        let (Named::Distributed(table) | Named::Home(Some(table))) = ctx.resolve(name)? else { continue };
        let alias = tree::alias_of(name);
        // Names of columns that the alias gives, and rows as a whole, stand for all.
        let all = table.is_barrier
            || name.alias.as_ref().is_some_and(|alias| !alias.colnames.is_empty())
            || names_row(query, |name| name == alias)?
            || query.any(|node| matches!(node, Ref::AStar(_)))?;
        let is_read = |column: &&Column| all || names.contains(column.name.as_str());
        if let Some(column) =
            table.columns.iter().filter(is_read).find(|column| !ctx.catalog.is_plain_type(column.type_oid))
        {
            return Ok(Some(format!("column \"{}\" of type {}", column.name, column.type_name)));
        }
    }
    Ok(None)
}

/// Definitions are written out by PostgreSQL: what has a schema other than `pg_catalog` is a user's.
fn code_of_users(ctx: &Context<'_>, query: &NodeEnum) -> Result<Option<String>> {
    let enums = ctx.catalog.user_types().filter(|of| of.kind == 'e' && ctx.catalog.is_plain_type(of.oid));
    let harmless: HashSet<(&str, &str)> = enums.map(|of| (of.schema.as_str(), of.name.as_str())).collect();
    let is_other = |schema: &Node| tree::text_of(schema).is_some_and(|schema| schema != "pg_catalog");
    let is_users = |names: &[Node]| matches!(names, [schema, _] if is_other(schema));
    let found = query.collect(|node| {
        let (what, names) = match node {
            Ref::FuncCall(call) => ("function", &call.funcname),
            Ref::AExpr(expression) => ("operator", &expression.name),
            Ref::TypeName(of) => ("type", &of.names),
            _ => return None,
        };
        let last = tree::last_name(names).unwrap_or_default();
        let schema = names.first().and_then(tree::text_of).unwrap_or_default();
        let is_meant = is_users(names) && !(what == "type" && harmless.contains(&(schema, last)));
        is_meant.then(|| format!("{what} {schema}.{last}"))
    });
    Ok(found?.into_iter().next())
}
