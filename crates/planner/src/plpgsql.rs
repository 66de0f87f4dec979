//! PL/pgSQL functions that do no more than one query: their bodies as SELECT.
//!
//! ```text
//! BEGIN RETURN expression; END                       → SELECT expression
//! BEGIN RETURN QUERY query; END                      → query
//! BEGIN SELECT … INTO x FROM …; RETURN x; END        → SELECT … FROM …, of which the first row counts, as the type of x
//! ```
//!
//! Whatever else a body may hold makes it something that only a server can run.

use pg_query::protobuf::{SelectStmt, TypeName};
use pg_query::{Node, NodeEnum};
use serde_json::Value;

use crate::bodies;
use crate::context::Context;
use crate::select::shape::bare_name;
use crate::tree::{self, Ref, Walk};

/// The body of a function as one query, if it is no more than that. `known` are the names of its parameters; `shown` those of
/// the columns of RETURNS TABLE, which are variables too. With the type of the variable that gets the first row's value, if there
/// is one.
pub(crate) fn as_query(
    ctx: &Context<'_>,
    definition: &str,
    known: &[&str],
    shown: &[&str],
) -> Option<(SelectStmt, Option<TypeName>)> {
    let parsed = pg_query::parse_plpgsql(definition).ok()?;
    let function = parsed.get(0)?.get("PLpgSQL_function")?;
    let block = function.get("action")?.get("PLpgSQL_stmt_block")?;
    if block.get("exceptions").is_some() {
        return None;
    }
    let mut body: Vec<&Value> = block.get("body")?.as_array()?.iter().collect();
    // What the parser adds at the end is on no line.
    if body.last()?.get("PLpgSQL_stmt_return").is_some_and(|end| end.get("lineno").is_none()) {
        body.pop();
    }
    let (query, variable) = match body.as_slice() {
        [only] => (one_statement(only)?, None),
        [fetch, end] => {
            let variable = returned(end, definition)?;
            (fetched(fetch, &variable)?, Some(variable))
        }
        _ => return None,
    };
    let mut hidden: Vec<&str> = shown.to_vec();
    hidden.push("found");
    hidden.extend(variable.as_deref());
    let datums = function.get("datums")?.as_array()?;
    let is_declared = |name: &str| known.contains(&name) || hidden.contains(&name);
    if !datums.iter().all(|datum| datum.get("PLpgSQL_row").is_some() || name_of(datum).is_some_and(is_declared)) {
        return None;
    }
    if mentions(&query, &hidden) {
        return None;
    }
    match variable {
        None => Some((query, None)),
        Some(variable) if has_length(definition, &variable) => None,
        Some(variable) => Some((query, Some(type_of(ctx, datums, &variable)?))),
    }
}

fn expression(of: &Value, field: &str) -> Option<String> {
    of.get(field)?.get("PLpgSQL_expr")?.get("query")?.as_str().map(str::to_owned)
}

/// `RETURN expression` or `RETURN QUERY query`.
fn one_statement(statement: &Value) -> Option<SelectStmt> {
    if let Some(end) = statement.get("PLpgSQL_stmt_return") {
        return tree::parse_select(&format!("SELECT {}", expression(end, "expr")?)).ok();
    }
    tree::parse_select(&expression(statement.get("PLpgSQL_stmt_return_query")?, "query")?).ok()
}

/// The variable of `RETURN variable`. Of a bare one the parser tells no more than that something is returned.
fn returned(statement: &Value, definition: &str) -> Option<String> {
    let end = statement.get("PLpgSQL_stmt_return")?;
    if end.get("expr").is_none() {
        return last_returned(definition);
    }
    let select = tree::parse_select(&format!("SELECT {}", expression(end, "expr")?));
    match select.ok()?.target_list.as_slice() {
        [Node { node: Some(NodeEnum::ResTarget(target)) }] => bare_name(target.val.as_deref()?).map(str::to_owned),
        _ => None,
    }
}

/// The variable of a body that ends in `RETURN variable; END`, as the last words of a function's definition tell.
fn last_returned(definition: &str) -> Option<String> {
    let body = bodies::text_of_body(definition)?.trim_end().trim_end_matches(';');
    let tokens = pg_query::scan(body).ok()?.tokens;
    let word = |from_end: usize| {
        let token = tokens.get(tokens.len().checked_sub(from_end)?)?;
        Some(body[token.start as usize..token.end as usize].to_ascii_lowercase())
    };
    let ends_so = word(1)? == "end" && word(2)? == ";" && word(4)? == "return";
    ends_so.then(|| word(3))?
}

/// Is a variable declared with a length or precision, `x numeric(5,1)`? In doubt it is.
fn has_length(definition: &str, variable: &str) -> bool {
    let Some(body) = bodies::text_of_body(definition) else { return true };
    let Ok(scanned) = pg_query::scan(body) else { return true };
    let word =
        |token: &pg_query::protobuf::ScanToken| body[token.start as usize..token.end as usize].to_ascii_lowercase();
    let words: Vec<String> = scanned.tokens.iter().map(word).collect();
    let starts = |at: usize| at > 0 && (words[at - 1] == ";" || words[at - 1] == "declare");
    let Some(at) = (0..words.len()).find(|at| words[*at] == variable && starts(*at)) else { return true };
    let declared = words[at..].iter().take_while(|word| ![";", ":=", "=", "default"].contains(&word.as_str()));
    declared.into_iter().any(|word| word == "(")
}

/// The query of `SELECT … INTO variable`.
fn fetched(statement: &Value, variable: &str) -> Option<SelectStmt> {
    let fetch = statement.get("PLpgSQL_stmt_execsql")?;
    let fields = fetch.get("target")?.get("PLpgSQL_row")?.get("fields")?.as_array()?;
    let into_it = fields.len() == 1 && fields[0].get("name")?.as_str()? == variable;
    if !into_it || fetch.get("strict").is_some() {
        return None;
    }
    tree::parse_select(&expression(fetch, "sqlstmt")?).ok()
}

fn name_of(datum: &Value) -> Option<&str> {
    datum.get("PLpgSQL_var")?.get("refname")?.as_str()
}

/// A type of PostgreSQL's own. The parser drops lengths and precisions: see [`has_length`].
fn type_of(ctx: &Context<'_>, datums: &[Value], variable: &str) -> Option<TypeName> {
    let datum = datums.iter().find(|datum| name_of(datum) == Some(variable))?.get("PLpgSQL_var")?;
    let constrained = datum.get("notnull").is_some() || datum.get("isconst").is_some();
    let name = datum.get("datatype")?.get("PLpgSQL_type")?.get("typname")?.as_str()?;
    let cast = tree::parse_expression(&format!("CAST(NULL AS {name})")).ok()?;
    let Some(NodeEnum::TypeCast(cast)) = cast.node else { return None };
    let of = cast.type_name.filter(|of| of.typmods.is_empty() && !constrained)?;
    ctx.builtin_type(&of).is_some().then_some(of)
}

/// Does the query use one of these variables?
fn mentions(query: &SelectStmt, names: &[&str]) -> bool {
    let mut found = false;
    let walked = query.walk(&mut |node| {
        if let Ref::ColumnRef(column) = node {
            found |= column.fields.first().and_then(tree::text_of).is_some_and(|name| names.contains(&name));
        }
        Ok(!found)
    });
    found || walked.is_err()
}
