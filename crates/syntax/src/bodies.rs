//! Definitions of functions: what a SQL body is made of, and the types that stand in front of it.

use pg_query::protobuf::{self, CreateFunctionStmt, FunctionParameter, TypeName};
use pg_query::{Node, NodeEnum};

use super::get::{Get, Syntax};
use super::text::quote_windows;
use super::{deparse, empty_select, option_of, parse_printed, target, text_of};

/// The statements of a SQL function, from `pg_get_functiondef` or the bare body.
pub fn sql_bodies(definition: &str) -> Option<Vec<NodeEnum>> {
    let parsed = parse_printed(definition).ok()?;
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
    let parsed = parse_printed(definition).ok()?;
    let first = parsed.protobuf.stmts.into_iter().next()?.stmt?.node?;
    let NodeEnum::CreateFunctionStmt(mut create) = first else { return None };
    if let Some(body) = create.sql_body.take() {
        return flatten(body.node?)?.iter().map(|statement| deparse(statement).ok()).collect();
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
            let select = protobuf::SelectStmt { target_list: vec![target(value, None)], ..empty_select() };
            Some(vec![select.into_tree()])
        }
        mut other => {
            quote_windows(&mut other);
            Some(vec![other])
        }
    }
}

/// The text between the dollar quotes of a function.
pub fn function_text(create: &protobuf::CreateFunctionStmt) -> Option<String> {
    let value = option_of(&create.options, "as")?;
    let text = value.get::<protobuf::List>().map_or(Some(value), |list| list.items.first());
    text.and_then(text_of).map(str::to_owned)
}

/// The types of a function's parameters and results, by its definition.
pub fn signature_types(definition: &str) -> Vec<TypeName> {
    let Some(create) = definition_of(definition) else { return Vec::new() };
    parameters(&create).filter_map(|parameter| parameter.arg_type.clone()).chain(create.return_type.clone()).collect()
}

/// The expressions that parameters have as defaults.
pub fn parameter_defaults(definition: &str) -> Vec<Node> {
    let Some(create) = definition_of(definition) else { return Vec::new() };
    parameters(&create).filter_map(|parameter| parameter.defexpr.as_deref().cloned()).collect()
}

fn parameters(create: &CreateFunctionStmt) -> impl Iterator<Item = &FunctionParameter> {
    create.parameters.iter().filter_map(Node::get)
}

fn definition_of(definition: &str) -> Option<CreateFunctionStmt> {
    match parse_printed(definition).ok()?.protobuf.stmts.into_iter().next()?.stmt?.node? {
        NodeEnum::CreateFunctionStmt(create) => Some(*create),
        _ => None,
    }
}
