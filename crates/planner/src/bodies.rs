//! What functions of the user's are made of: the SQL in their bodies, from `pg_get_functiondef` or the statement that makes them.

use std::borrow::Cow;

use pg_query::{NodeEnum, protobuf};

use crate::tree;

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
    let parsed = pg_query::parse(definition, 0).ok()?;
    let first = parsed.protobuf.stmts.into_iter().map(|s| s.stmt.and_then(|n| n.node)).collect::<Option<Vec<_>>>()?;
    let [NodeEnum::CreateFunctionStmt(create)] = first.as_slice() else { return Some(first) };
    if let Some(body) = &create.sql_body {
        return flatten(body.node.as_ref()?);
    }
    let text = function_text(create)?;
    let parsed = pg_query::parse(&text, 0).ok()?;
    parsed.protobuf.stmts.into_iter().map(|s| s.stmt.and_then(|n| n.node)).collect()
}

/// The statements of a SQL function as texts, from `pg_get_functiondef`; `None` if they cannot be told apart.
pub fn sql_statements(definition: &str) -> Option<Vec<String>> {
    let parsed = pg_query::parse(definition, 0).ok()?;
    let first = parsed.protobuf.stmts.into_iter().next()?.stmt?.node?;
    let NodeEnum::CreateFunctionStmt(create) = first else { return None };
    if let Some(body) = &create.sql_body {
        return flatten(body.node.as_ref()?)?.iter().map(|statement| tree::deparse(statement).ok()).collect();
    }
    let text = function_text(&create)?;
    let statements = pg_query::split_with_parser(&text).ok()?;
    Some(statements.into_iter().map(|statement| statement.trim().to_owned()).filter(|text| !text.is_empty()).collect())
}

/// `BEGIN ATOMIC … END` and `RETURN expression`.
fn flatten(body: &NodeEnum) -> Option<Vec<NodeEnum>> {
    match body {
        NodeEnum::List(list) => {
            let parts = list.items.iter().map(|item| flatten(item.node.as_ref()?)).collect::<Option<Vec<_>>>()?;
            Some(parts.into_iter().flatten().collect())
        }
        NodeEnum::ReturnStmt(r) => {
            let value = r.returnval.as_deref()?.clone();
            let select = protobuf::SelectStmt { target_list: vec![tree::target(value, None)], ..tree::empty_select() };
            Some(vec![NodeEnum::SelectStmt(Box::new(select))])
        }
        other => Some(vec![other.clone()]),
    }
}

/// The text between the dollar quotes.
fn function_text(create: &protobuf::CreateFunctionStmt) -> Option<String> {
    create.options.iter().find_map(|option| match &option.node {
        Some(NodeEnum::DefElem(def)) if def.defname == "as" => match &def.arg.as_deref()?.node {
            Some(NodeEnum::List(list)) => list.items.first().and_then(tree::text_of).map(str::to_owned),
            Some(NodeEnum::String(s)) => Some(s.sval.clone()),
            _ => None,
        },
        _ => None,
    })
}

/// Every SQL text in a PL/pgSQL function. `None` if there is dynamic SQL or a text we cannot read.
fn plpgsql_bodies(definition: &str) -> Option<Vec<NodeEnum>> {
    let tree = pg_query::parse_plpgsql(&without_trigger(definition)).ok()?;
    let mut texts = Vec::new();
    collect_queries(&tree, &mut texts).then_some(())?;
    texts.iter().map(|text| plpgsql_statement(text)).collect()
}

/// The function of a trigger with the variables that it is given as parameters: for those of a trigger libpg_query prints
/// broken JSON.
pub(crate) fn without_trigger(definition: &str) -> Cow<'_, str> {
    const HEAD: &str = "()\n RETURNS trigger\n";
    const SAME: &str = "(new record, old record, tg_name name, tg_when text, tg_level text, tg_op text, tg_relid oid, \
        tg_relname name, tg_table_name name, tg_table_schema name, tg_nargs integer, tg_argv text[])\n RETURNS record\n";
    match definition.split_once(HEAD) {
        Some((name, rest)) if !name.contains('\n') => Cow::Owned(format!("{name}{SAME}{rest}")),
        _ => Cow::Borrowed(definition),
    }
}

/// Does a PL/pgSQL text have COMMIT or ROLLBACK in it?
pub(crate) fn ends_transactions(definition: &str) -> bool {
    fn has_end(value: &serde_json::Value) -> bool {
        const ENDS: [&str; 2] = ["PLpgSQL_stmt_commit", "PLpgSQL_stmt_rollback"];
        match value {
            serde_json::Value::Object(fields) => {
                fields.iter().any(|(name, field)| ENDS.contains(&name.as_str()) || has_end(field))
            }
            serde_json::Value::Array(items) => items.iter().any(has_end),
            _ => false,
        }
    }
    pg_query::parse_plpgsql(definition).is_ok_and(|tree| has_end(&tree))
}

/// Gathers the `query` of every PLpgSQL_expr; false on dynamic SQL.
fn collect_queries(value: &serde_json::Value, texts: &mut Vec<String>) -> bool {
    const DYNAMIC: [&str; 5] =
        ["PLpgSQL_stmt_dynexecute", "PLpgSQL_stmt_dynfors", "dynquery", "PLpgSQL_stmt_commit", "PLpgSQL_stmt_rollback"];
    match value {
        serde_json::Value::Object(fields) => fields.iter().all(|(name, field)| {
            if DYNAMIC.contains(&name.as_str()) {
                return false;
            }
            if name == "PLpgSQL_expr" {
                texts.extend(field.get("query").and_then(|q| q.as_str()).map(str::to_owned));
            }
            collect_queries(field, texts)
        }),
        serde_json::Value::Array(items) => items.iter().all(|item| collect_queries(item, texts)),
        _ => true,
    }
}

/// A PL/pgSQL text is a statement, an expression, or an assignment `target := expression`.
fn plpgsql_statement(text: &str) -> Option<NodeEnum> {
    let whole = pg_query::parse(text, 0).ok().and_then(|p| p.protobuf.stmts.into_iter().next()?.stmt?.node);
    if whole.is_some() {
        return whole;
    }
    let expression = |text: &str| tree::parse_select(&format!("SELECT {text}")).ok();
    let select = expression(text).or_else(|| {
        let (_, value) = text.split_once(":=").or_else(|| text.split_once('='))?;
        expression(value)
    })?;
    Some(NodeEnum::SelectStmt(Box::new(select)))
}

/// What stands between the dollar quotes of a definition, as `pg_get_functiondef` prints it.
pub(crate) fn text_of_body(definition: &str) -> Option<&str> {
    let (_, rest) = definition.split_once("AS $")?;
    let (tag, rest) = rest.split_once('$')?;
    rest.rsplit_once(&format!("${tag}$")).map(|(body, _)| body)
}
