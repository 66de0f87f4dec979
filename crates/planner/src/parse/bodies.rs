//! What functions of the user's are made of: the SQL in their bodies, from `pg_get_functiondef` or the statement that makes them.

use std::collections::HashSet;

use pg_query::NodeEnum;
use pg_query::protobuf::TypeName;
use plpgsql::Part;
use plpgsql::ast::{Body, Declared, Kind, Sql, TypeText};

use crate::tree::{self, sql_bodies};

/// The statements of a body; `None` if some of them are known only when it runs, or to nobody.
pub(crate) fn statements_of(language: &str, definition: &str) -> Option<Vec<NodeEnum>> {
    match language {
        "sql" => sql_bodies(definition),
        "plpgsql" => plpgsql_bodies(definition),
        _ => None,
    }
}

/// The types that a function's parameters, results and variables have: of `x%TYPE` and `x%ROWTYPE` that of the row.
pub(crate) fn types_named(language: &str, definition: &str) -> Vec<TypeName> {
    let mut types = tree::signature_types(definition);
    let Some(body) = Some(language).filter(|of| *of == "plpgsql").and_then(|_| plpgsql(definition)) else {
        return types;
    };
    let names = |name: &[String]| name.iter().map(|part| tree::string(part)).collect();
    let row = |name: &[String]| TypeName { names: names(name), ..TypeName::default() };
    let mut add = |of: &TypeText| {
        types.extend(match of {
            TypeText::Named(text) => tree::parse_type(text).ok(),
            TypeText::RowOf(name) => Some(row(name)),
            TypeText::Like { name, .. } => Some(row(&name[..name.len().saturating_sub(1)])),
            TypeText::Record => None,
        });
    };
    body.block.walk(&mut |part| match part {
        Part::Declaration(declared) => match &declared.what {
            Declared::Variable { of, .. } => add(of),
            Declared::Cursor(cursor) => cursor.arguments.iter().for_each(|(_, of)| add(of)),
            Declared::Alias(_) => {}
        },
        Part::Statement(_) | Part::Sql(_) => {}
    });
    types
}

/// The body of a PL/pgSQL function or a DO block; `None` if it cannot be read.
pub(crate) fn plpgsql(definition: &str) -> Option<Body> {
    let text = match tree::parse_one(definition).ok()?? {
        NodeEnum::CreateFunctionStmt(create) => tree::function_text(&create)?,
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
