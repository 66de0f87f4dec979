//! Between trees and SQL texts.

use pg_query::protobuf::{self, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result, SqlState};
use plpgsql::tokens as scan;

use super::get::{Get, Syntax};
use super::make::{cast, empty_select, null, target};
use super::walk::Walk;

/// `SelectStmt`, `CreateRoleStmt`, …: the variant's name.
pub fn kind_name(node: &NodeEnum) -> String {
    let text = format!("{node:?}");
    text.split(['(', ' ', '{']).next().unwrap_or_default().to_owned()
}

/// 54001 if libpg_query gave up a tree since it is too deep; the two other messages are how its protobuf library says so.
pub fn too_deep(error: &pg_query::Error) -> Option<PgError> {
    const MESSAGES: [&str; 3] = [
        "stack depth limit exceeded",
        "parse tree is nested too deeply to serialize to protobuf",
        "could not parse protobuf",
    ];
    // libpg_query measures by PostgreSQL's default, which cannot be set there.
    matches!(error, pg_query::Error::Parse(message) if MESSAGES.contains(&message.as_str())).then(|| {
        PgError::new(SqlState::STATEMENT_TOO_COMPLEX, MESSAGES[0])
            .detail("Coordinators read statements with PostgreSQL's default of this limit, whatever the datanodes' is.")
            .hint(
                "Increase the configuration parameter \"max_stack_depth\" (currently 2048kB), after ensuring the \
                 platform's stack depth limit is adequate.",
            )
    })
}

/// The SQL text of a statement.
pub fn deparse(node: &NodeEnum) -> Result<String> {
    node.deparse(Default::default()).map_err(|error| {
        too_deep(&error).unwrap_or_else(|| PgError::internal(format!("cannot print a statement: {error}")))
    })
}

/// The SQL text of a SELECT.
pub fn deparse_select(select: &SelectStmt) -> Result<String> {
    deparse(&select.clone().into_tree())
}

/// The SQL text of an expression.
pub fn deparse_expression(expression: &Node) -> Result<String> {
    let select = SelectStmt { target_list: vec![target(expression.clone(), None)], ..empty_select() };
    let text = deparse_select(&select)?;
    Ok(text.strip_prefix("SELECT ").unwrap_or(&text).to_owned())
}

/// The SQL text of a type.
pub fn deparse_type(of: &protobuf::TypeName) -> Result<String> {
    let text = deparse_expression(&cast(null(), of))?;
    Ok(text.strip_prefix("NULL::").unwrap_or(&text).to_owned())
}

/// The only statement of a text that PostgreSQL has printed.
pub fn parse_one(text: &str) -> std::result::Result<Option<NodeEnum>, pg_query::Error> {
    let parsed = parse_printed(text)?;
    Ok(parsed.protobuf.stmts.into_iter().next().and_then(|raw| raw.stmt?.node))
}

/// Parses an expression.
pub fn parse_expression(text: &str) -> Result<Node> {
    let mut select = parse_select(&format!("SELECT {text}"))?;
    match select.target_list.pop().and_then(|t| t.node) {
        Some(NodeEnum::ResTarget(target)) => {
            target.val.map(|v| *v).ok_or_else(|| PgError::internal("an expression without a value"))
        }
        _ => Err(PgError::internal(format!("not an expression: {text}"))),
    }
}

/// Parses a type, as it is written after `CAST (… AS`.
pub fn parse_type(text: &str) -> Result<protobuf::TypeName> {
    let cast = parse_expression(&format!("CAST(NULL AS {text})"))?;
    let of = cast.get::<protobuf::TypeCast>().and_then(|cast| cast.type_name.clone());
    of.ok_or_else(|| PgError::internal(format!("not a type: {text}")))
}

/// Parses what PostgreSQL has printed.
pub fn parse_printed(text: &str) -> pg_query::Result<pg_query::ParseResult> {
    let parsed = pg_query::parse(text, 0).or_else(|error| match with_plain_marks(text) {
        Some(text) => pg_query::parse(&text, 0),
        None => Err(error),
    });
    parsed.map(|mut parsed| {
        parsed.protobuf.stmts.iter_mut().filter_map(|raw| raw.stmt.as_deref_mut()).for_each(quote_windows);
        parsed
    })
}

/// The parser's printer writes the names of windows as they are.
pub(super) fn quote_windows(statement: &mut impl Walk) {
    // Where the walk ends, at something that is not known, nothing will be printed either.
    let _ = statement.rewrite(&mut |node: &mut Node| {
        let window = match &mut node.node {
            Some(NodeEnum::WindowDef(window)) => Some(window),
            Some(NodeEnum::FuncCall(call)) => call.over.as_mut(),
            _ => None,
        };
        if let Some(window) = window.filter(|window| !window.name.is_empty()) {
            window.name = format!("\"{}\"", window.name.replace('"', "\"\""));
        }
        Ok(true)
    });
}

/// Parses a SELECT that PostgreSQL or we made, e.g. a view definition.
pub fn parse_select(text: &str) -> Result<SelectStmt> {
    let parsed = parse_one(text).map_err(|error| {
        too_deep(&error).unwrap_or_else(|| PgError::internal(format!("cannot parse {text:?}: {error}")))
    })?;
    match parsed {
        Some(NodeEnum::SelectStmt(select)) => Ok(*select),
        _ => Err(PgError::internal(format!("not a query: {text}"))),
    }
}

/// It prints the marks of CYCLE like other constants, `TO 'Y'::text DEFAULT 'N'::text`, where its grammar takes no casts.
/// The text as it can be read, if the marks are of the type that they have without a cast; `None` if nothing is to be changed.
pub fn with_plain_marks(printed: &str) -> Option<String> {
    let tokens = scan::tokens(printed)?;
    let (mut text, mut done, mut in_cycle) = (String::new(), 0, false);
    for (at, token) in tokens.iter().enumerate() {
        in_cycle = (in_cycle || token.is("cycle")) && !token.is("using");
        let [constant, colons, of @ ..] = tokens.get(at + 1..).unwrap_or_default() else { break };
        if !in_cycle || !(token.is("to") || token.is("default")) || colons.text != "::" {
            continue;
        }
        let of = &of[..of.iter().position(|token| token.is("default") || token.is("using"))?];
        let [of] = of else { return None };
        if !of.is("text") {
            return None;
        }
        text.push_str(&printed[done..constant.end]);
        done = of.end;
    }
    text.push_str(&printed[done..]);
    (done > 0).then_some(text)
}

/// Are two expressions the same but for their places in the text?
pub fn same_expression(a: &Node, b: &Node) -> bool {
    a == b || deparse_expression(a).ok() == deparse_expression(b).ok()
}
