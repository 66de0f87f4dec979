//! What the functions that are called may do to the tables of the statement that calls them.

use std::collections::HashSet;

use catalog::{Function, Oid};
use pg_query::NodeEnum;
use pg_query::protobuf::RangeVar;
use pgerror::Result;

use crate::context::{Context, Named};
use crate::facts::{code::changes_rows, definitions::definition, used};
use crate::parse::bodies::statements_of;
use crate::tree::{self, Ask, Walk};

/// May one of the functions change the table, or see what the statement has changed of it? Only VOLATILE ones do.
pub(crate) fn may_touch(ctx: &Context<'_>, functions: &[&Function], name: &RangeVar) -> Result<bool> {
    let mut volatile = functions.iter().filter(|function| function.volatility == 'v').peekable();
    let relation = match ctx.resolve(name)? {
        Named::Distributed(relation) | Named::Home(Some(relation)) => relation,
        Named::View(_) | Named::Home(None) => return Ok(volatile.peek().is_some()),
    };
    Ok(volatile.any(|function| used::function_may_use(function, &relation, ctx.catalog)))
}

/// Those of the functions that change rows.
pub(crate) fn writers<'f>(ctx: &Context<'_>, functions: Vec<&'f Function>) -> Result<Vec<&'f Function>> {
    let mut writers = Vec::new();
    for function in functions {
        writers.extend(change_rows(ctx, &[function])?.then_some(function));
    }
    Ok(writers)
}

/// May the function see what the others change? What a VOLATILE one reads is as it is at its turn.
pub(crate) fn sees_changes(ctx: &Context<'_>, writers: &[&Function], reader: &Function) -> bool {
    reader.volatility == 'v' && share_a_table(ctx, writers, reader)
}

/// May the changes of some be seen by a STABLE one of the others that is called later? What that reads is as it was before the statement.
pub(crate) fn outdate(ctx: &Context<'_>, some: &[&Function], others: &[&Function]) -> Result<bool> {
    let writers = writers(ctx, some.to_vec())?;
    Ok(others.iter().any(|reader| reader.volatility == 's' && share_a_table(ctx, &writers, reader)))
}

fn share_a_table(ctx: &Context<'_>, writers: &[&Function], reader: &Function) -> bool {
    let uses = |function: &Function, table| used::function_may_use(function, table, ctx.catalog);
    let meet = |table| uses(reader, table) && writers.iter().any(|writer| uses(writer, table));
    !writers.is_empty() && ctx.catalog.relations().any(|table| meet(table))
}

/// Does it matter which of the two are called first: may one see what another of the others changes?
pub(super) fn meet(ctx: &Context<'_>, some: &[&Function], others: &[&Function]) -> Result<bool> {
    crate::try_any([(some, others), (others, some)], |(readers, functions)| {
        let writers = writers(ctx, functions.to_vec())?;
        Ok(readers.iter().any(|reader| sees_changes(ctx, &writers, reader)))
    })
}

/// The functions of users that are called here, by name or by way of views.
pub(crate) fn called<'f>(ctx: &Context<'f>, tree: &impl Walk) -> Result<Vec<&'f Function>> {
    let mut called = called_by_views(ctx, tree)?;
    for call in tree.calls()? {
        called.extend(ctx.user_functions(call).into_iter().chain(ctx.temporary_functions(call)));
    }
    Ok(called)
}

/// Those that views call which are read here.
pub(super) fn called_by_views<'f>(ctx: &Context<'f>, tree: &impl Walk) -> Result<Vec<&'f Function>> {
    let mut found = Vec::new();
    for name in tree.tables()? {
        // What is no table of the user's here is refused where it is read.
        if let Ok(Named::View(view)) = ctx.resolve(name) {
            found.extend(called(&ctx.of_body(), &definition(&view)?)?);
        }
    }
    Ok(found)
}

/// May one of the functions change a table that is read here, by its name or by another function?
pub(crate) fn change_what_is_read(ctx: &Context<'_>, functions: &[&Function], tree: &impl Walk) -> Result<bool> {
    let writers = writers(ctx, functions.to_vec())?;
    let sees = |reader: &&Function| sees_changes(ctx, &writers, reader);
    Ok(change_tables_read(ctx, functions, tree)? || called(ctx, tree)?.iter().any(sees))
}

/// May one of the functions change a table that is named here? PostgreSQL reads a statement's tables as they were before its calls.
pub(crate) fn change_tables_read(ctx: &Context<'_>, functions: &[&Function], tree: &impl Walk) -> Result<bool> {
    if !change_rows(ctx, functions)? {
        return Ok(false);
    }
    crate::try_any(tree.tables()?, |name| {
        if let Ok(Named::View(view)) = ctx.resolve(name) {
            return change_tables_read(&ctx.of_body(), functions, &definition(&view)?);
        }
        // Other bare names are WITH items, or catalogs.
        let is_table = !name.schemaname.is_empty() || ctx.session.temp_relations.contains(&name.relname);
        Ok(is_table && may_touch(ctx, functions, name)?)
    })
}

/// Do the functions, or those that they call, change rows? What only shows when a body runs is not known.
pub(super) fn change_rows(ctx: &Context<'_>, functions: &[&Function]) -> Result<bool> {
    let only_reads =
        |statement: &NodeEnum| -> Result<bool> { Ok(!tree::is_about_rows(statement) || !changes_rows(statement)?) };
    every_statement(ctx, functions, true, only_reads).map(|only_reads| !only_reads)
}

/// Do all statements of the functions, and of those that they call, surely do nothing but read?
pub(crate) fn read_only(ctx: &Context<'_>, functions: &[&Function]) -> Result<bool> {
    every_statement(ctx, functions, false, |statement| {
        Ok(matches!(statement, NodeEnum::SelectStmt(_)) && !changes_rows(statement)?)
    })
}

/// Are all statements of VOLATILE functions, and of those that they call, such? Bodies that cannot be read are what `hidden` says.
fn every_statement(
    ctx: &Context<'_>,
    functions: &[&Function],
    hidden: bool,
    is_such: impl Fn(&NodeEnum) -> Result<bool>,
) -> Result<bool> {
    let ctx = ctx.of_body();
    let mut seen: HashSet<Oid> = HashSet::new();
    let mut pending: Vec<&Function> = functions.to_vec();
    while let Some(function) = pending.pop() {
        if function.volatility != 'v' || !seen.insert(function.oid) {
            continue;
        }
        let statements = statements_of(&function.language, &function.definition);
        if statements.is_none() && !hidden {
            return Ok(false);
        }
        for statement in statements.iter().flatten() {
            if !is_such(statement)? {
                return Ok(false);
            }
            if tree::is_about_rows(statement) {
                pending.extend(called(&ctx, statement)?);
            }
        }
    }
    Ok(true)
}
