//! What functions of the user's are made of: the SQL in their bodies, from `pg_get_functiondef` or the statement that makes them.

use std::collections::HashSet;

use pg_query::{NodeEnum, protobuf};
use plpgsql::Part;
use plpgsql::ast::{Body, Kind, Sql};

use crate::tree::{self, Get, Syntax};

/// The statements of a body; `None` if some of them are known only when it runs, or to nobody.
pub(crate) fn statements_of(language: &str, definition: &str) -> Option<Vec<NodeEnum>> {
    match language {
        "sql" => sql_bodies(definition),
        "plpgsql" => plpgsql_bodies(definition),
        _ => None,
    }
}

/// The statements of a SQL function, from `pg_get_functiondef` or the bare body.
pub(crate) fn sql_bodies(definition: &str) -> Option<Vec<NodeEnum>> {
    let parsed = tree::parse_printed(definition).ok()?;
    let mut first =
        parsed.protobuf.stmts.into_iter().map(|s| s.stmt.and_then(|n| n.node)).collect::<Option<Vec<_>>>()?;
    let [NodeEnum::CreateFunctionStmt(create)] = first.as_mut_slice() else { return Some(first) };
    if let Some(body) = create.sql_body.take() {
        return flatten(body.node?);
    }
    let text = function_text(create)?;
    let parsed = pg_query::parse(&text, 0).ok()?;
    parsed.protobuf.stmts.into_iter().map(|s| s.stmt.and_then(|n| n.node)).collect()
}

/// The statements of a SQL function as texts, from `pg_get_functiondef`; `None` if they cannot be told apart.
pub fn sql_statements(definition: &str) -> Option<Vec<String>> {
    let parsed = tree::parse_printed(definition).ok()?;
    let first = parsed.protobuf.stmts.into_iter().next()?.stmt?.node?;
    let NodeEnum::CreateFunctionStmt(mut create) = first else { return None };
    if let Some(body) = create.sql_body.take() {
        return flatten(body.node?)?.iter().map(|statement| tree::deparse(statement).ok()).collect();
    }
    let text = function_text(&create)?;
    let statements = pg_query::split_with_parser(&text).ok()?;
    Some(statements.into_iter().map(|statement| statement.trim().to_owned()).filter(|text| !text.is_empty()).collect())
}

/// `BEGIN ATOMIC … END` and `RETURN expression`.
fn flatten(body: NodeEnum) -> Option<Vec<NodeEnum>> {
    match body {
        NodeEnum::List(list) => {
            let parts = list.items.into_iter().map(|item| flatten(item.node?)).collect::<Option<Vec<_>>>()?;
            Some(parts.into_iter().flatten().collect())
        }
        NodeEnum::ReturnStmt(r) => {
            let value = *r.returnval?;
            let select = protobuf::SelectStmt { target_list: vec![tree::target(value, None)], ..tree::empty_select() };
            Some(vec![select.into_tree()])
        }
        other => Some(vec![other]),
    }
}

/// The text between the dollar quotes.
fn function_text(create: &protobuf::CreateFunctionStmt) -> Option<String> {
    let value = tree::option_of(&create.options, "as")?;
    let text = value.get::<protobuf::List>().map_or(Some(value), |list| list.items.first());
    text.and_then(tree::text_of).map(str::to_owned)
}

/// The body of a PL/pgSQL function or a DO block; `None` if it cannot be read.
pub(crate) fn plpgsql(definition: &str) -> Option<Body> {
    let text = match tree::parse_one(definition).ok()?? {
        NodeEnum::CreateFunctionStmt(create) => function_text(&create)?,
        NodeEnum::DoStmt(block) => tree::option_of(&block.args, "as").and_then(tree::text_of)?.to_owned(),
        _ => return None,
    };
    plpgsql::body(&text).ok()
}

/// Every SQL text in a PL/pgSQL function. `None` if there is dynamic SQL or a text we cannot read, or a cursor is used that it has not
/// opened: whatever that reads, and it may be one of the session's, which no node has.
fn plpgsql_bodies(definition: &str) -> Option<Vec<NodeEnum>> {
    let body = plpgsql(definition)?;
    let mut statements = Some(Vec::new());
    let (mut opened, mut used) = (HashSet::new(), HashSet::new());
    body.block.walk(&mut |part| match part {
        Part::Statement(Kind::Open { cursor, .. }) => drop(opened.insert(cursor.clone())),
        Part::Statement(Kind::Close(cursor)) => drop(used.insert(cursor.clone())),
        Part::Statement(Kind::Fetch(fetch)) => drop(used.insert(fetch.cursor.clone())),
        Part::Statement(kind) if kind.is_dynamic() || matches!(kind, Kind::End { .. }) => statements = None,
        Part::Sql(sql) => {
            statements = statements.take().and_then(|mut statements: Vec<NodeEnum>| {
                statements.push(statement(sql)?);
                Some(statements)
            });
        }
        Part::Statement(_) | Part::Declaration(_) => {}
    });
    statements.filter(|_| used.is_subset(&opened))
}

fn statement(sql: &Sql) -> Option<NodeEnum> {
    let text = if sql.is_expression { &format!("SELECT {}", sql.text) } else { &*sql.text };
    pg_query::parse(text, 0).ok()?.protobuf.stmts.into_iter().next()?.stmt?.node
}

/// Does a PL/pgSQL text have COMMIT or ROLLBACK in it?
pub(crate) fn ends_transactions(definition: &str) -> bool {
    let mut ends = false;
    if let Some(body) = plpgsql(definition) {
        body.block.walk(&mut |part| ends |= matches!(part, Part::Statement(Kind::End { .. })));
    }
    ends
}

/// Does a statement give a value of an enum type another name?
pub fn renames_value(sql: &str) -> bool {
    matches!(tree::parse_one(sql), Ok(Some(NodeEnum::AlterEnumStmt(alter))) if !alter.old_val.is_empty())
}
