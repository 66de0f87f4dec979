//! Helpers round pg_query's trees: walking, building, comparing, printing.

use pg_query::protobuf::{
    self, AConst, Alias, ColumnRef, FuncCall, RangeSubselect, RangeVar, ResTarget, SelectStmt, a_const,
};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result, SqlState};

mod ask;
mod get;
mod names;
mod parts;
mod walk;

use crate::parse::printed::with_plain_marks;
pub(crate) use ask::Ask;
pub(crate) use get::{Get, Syntax};
pub(crate) use names::{name_output, output_name};
pub(crate) use parts::{
    alias_of, is_about_rows, is_default, is_plain_call, is_star, last_name, name_of, only_call, option_of,
    reads_others, returned_by, returning_mut, returning_of, shows_star, sorted_mut, target_mut, target_of, value_of,
    width, with_items, with_mut, with_of,
};
pub(crate) use walk::{Ref, Walk};

/// `SelectStmt`, `CreateRoleStmt`, …: the variant's name.
pub(crate) fn kind_name(node: &NodeEnum) -> String {
    let text = format!("{node:?}");
    text.split(['(', ' ', '{']).next().unwrap_or_default().to_owned()
}

/// 54001 if libpg_query gave up a tree since it is too deep; the two other messages are how its protobuf library says so.
pub(crate) fn too_deep(error: &pg_query::Error) -> Option<PgError> {
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
pub(crate) fn deparse(node: &NodeEnum) -> Result<String> {
    node.deparse(Default::default()).map_err(|error| {
        too_deep(&error).unwrap_or_else(|| PgError::internal(format!("cannot print a statement: {error}")))
    })
}

/// The SQL text of a SELECT.
pub(crate) fn deparse_select(select: &SelectStmt) -> Result<String> {
    deparse(&select.clone().into_tree())
}

/// The SQL text of an expression.
pub(crate) fn deparse_expression(expression: &Node) -> Result<String> {
    let select = SelectStmt { target_list: vec![target(expression.clone(), None)], ..empty_select() };
    let text = deparse_select(&select)?;
    Ok(text.strip_prefix("SELECT ").unwrap_or(&text).to_owned())
}

/// A SELECT without anything.
pub(crate) fn empty_select() -> SelectStmt {
    SelectStmt {
        limit_option: protobuf::LimitOption::Default as i32,
        op: protobuf::SetOperation::SetopNone as i32,
        ..SelectStmt::default()
    }
}

/// `SELECT targets FROM items`.
pub(crate) fn select_from(target_list: Vec<Node>, from_clause: Vec<Node>) -> SelectStmt {
    SelectStmt { target_list, from_clause, ..empty_select() }
}

/// Wraps a node.
pub(crate) fn node(inner: NodeEnum) -> Node {
    Node { node: Some(inner) }
}

/// A name as PostgreSQL's lists of names hold it.
pub(crate) fn string(text: &str) -> Node {
    node(NodeEnum::String(protobuf::String { sval: text.to_owned() }))
}

/// `expression [AS name]` in a target list.
pub(crate) fn target(expression: Node, name: Option<&str>) -> Node {
    ResTarget { name: name.unwrap_or_default().to_owned(), val: Some(Box::new(expression)), ..ResTarget::default() }
        .into_node()
}

/// A column name as INSERT's column list holds it.
pub(crate) fn target_name_only(name: &str) -> Node {
    ResTarget { name: name.to_owned(), ..ResTarget::default() }.into_node()
}

/// A reference to a column, `name` or `a.name`.
pub(crate) fn column(parts: &[&str]) -> Node {
    node(NodeEnum::ColumnRef(ColumnRef { fields: parts.iter().map(|p| string(p)).collect(), location: -1 }))
}

/// `*`, or `alias.*`.
pub(crate) fn star(alias: Option<&str>) -> Node {
    let star = node(NodeEnum::AStar(protobuf::AStar {}));
    let fields = alias.map(string).into_iter().chain([star]).collect();
    node(NodeEnum::ColumnRef(ColumnRef { fields, location: -1 }))
}

/// `(query) AS alias (columns)` in FROM.
pub(crate) fn sub_select(query: SelectStmt, alias: Alias) -> Node {
    let subquery = Some(Box::new(query.into_node()));
    RangeSubselect { lateral: false, subquery, alias: Some(alias) }.into_node()
}

/// The only statement of a text that PostgreSQL has printed.
pub(crate) fn parse_one(text: &str) -> std::result::Result<Option<NodeEnum>, pg_query::Error> {
    let parsed = parse_printed(text)?;
    Ok(parsed.protobuf.stmts.into_iter().next().and_then(|raw| raw.stmt?.node))
}

/// An alias without names of columns.
pub(crate) fn alias(name: &str) -> Alias {
    Alias { aliasname: name.to_owned(), colnames: Vec::new() }
}

/// An integer constant.
pub(crate) fn integer(value: i64) -> Node {
    let val = match i32::try_from(value) {
        Ok(ival) => a_const::Val::Ival(protobuf::Integer { ival }),
        Err(_) => a_const::Val::Fval(protobuf::Float { fval: value.to_string() }),
    };
    node(NodeEnum::AConst(AConst { isnull: false, location: -1, val: Some(val) }))
}

/// TRUE or FALSE.
pub(crate) fn boolean(boolval: bool) -> Node {
    let val = Some(a_const::Val::Boolval(protobuf::Boolean { boolval }));
    node(NodeEnum::AConst(AConst { isnull: false, location: -1, val }))
}

/// A string constant.
pub(crate) fn text(value: &str) -> Node {
    let val = Some(a_const::Val::Sval(protobuf::String { sval: value.to_owned() }));
    node(NodeEnum::AConst(AConst { isnull: false, location: -1, val }))
}

/// `a AND b AND …`.
pub(crate) fn and(args: Vec<Node>) -> Node {
    let boolop = protobuf::BoolExprType::AndExpr as i32;
    protobuf::BoolExpr { xpr: None, boolop, args, location: -1 }.into_node()
}

/// `a OR b OR …`.
pub(crate) fn or(args: Vec<Node>) -> Node {
    let boolop = protobuf::BoolExprType::OrExpr as i32;
    protobuf::BoolExpr { xpr: None, boolop, args, location: -1 }.into_node()
}

/// `CAST(value AS type)`.
pub(crate) fn cast(value: Node, of: &protobuf::TypeName) -> Node {
    protobuf::TypeCast { arg: Some(Box::new(value)), type_name: Some(of.clone()), location: -1 }.into_node()
}

/// `condition IS NOT TRUE`, or another such test.
pub(crate) fn boolean_test(condition: Node, test: protobuf::BoolTestType) -> Node {
    let arg = Some(Box::new(condition));
    protobuf::BooleanTest { xpr: None, arg, booltesttype: test as i32, location: -1 }.into_node()
}

/// A sub-select as a value.
pub(crate) fn scalar_sub_select(query: SelectStmt) -> Node {
    let sub_link_type = protobuf::SubLinkType::ExprSublink as i32;
    protobuf::SubLink { sub_link_type, subselect: query.into_box(), ..Default::default() }.into_node()
}

/// A call of a function of PostgreSQL's own.
pub(crate) fn call(function: &str, args: Vec<Node>) -> Node {
    FuncCall {
        funcname: vec![string("pg_catalog"), string(function)],
        args,
        funcformat: protobuf::CoercionForm::CoerceExplicitCall as i32,
        location: -1,
        ..FuncCall::default()
    }
    .into_node()
}

/// All conditions in one, `None` if there are none.
pub(crate) fn conjunction(mut conditions: Vec<Node>) -> Option<Node> {
    match conditions.len() {
        0 => None,
        1 => conditions.pop(),
        _ => Some(and(conditions)),
    }
}

/// A bare table in FROM, with an alias if one is given.
pub(crate) fn table(schema: &str, name: &str, alias: Option<Alias>) -> RangeVar {
    RangeVar {
        schemaname: schema.to_owned(),
        relname: name.to_owned(),
        inh: true,
        relpersistence: "p".to_owned(),
        alias,
        ..RangeVar::default()
    }
}

/// A bare integer constant.
pub(crate) fn integer_of(node: &Node) -> Option<i32> {
    match &node.get::<AConst>()?.val {
        Some(a_const::Val::Ival(number)) => Some(number.ival),
        _ => None,
    }
}

/// The text of a String node.
pub(crate) fn text_of(node: &Node) -> Option<&str> {
    node.get::<protobuf::String>().map(|text| text.sval.as_str())
}

/// The schema, if it is written, and the name of a list of String nodes.
pub(crate) fn qualified(names: &[Node]) -> (Option<&str>, &str) {
    let schema = if names.len() > 1 { names.first().and_then(text_of) } else { None };
    (schema, names.last().and_then(text_of).unwrap_or_default())
}

/// All names of a list of String nodes.
pub(crate) fn names_of(nodes: &[Node]) -> Vec<String> {
    nodes.iter().filter_map(text_of).map(str::to_owned).collect()
}

/// Parses an expression.
pub(crate) fn parse_expression(text: &str) -> Result<Node> {
    let mut select = parse_select(&format!("SELECT {text}"))?;
    match select.target_list.pop().and_then(|t| t.node) {
        Some(NodeEnum::ResTarget(target)) => {
            target.val.map(|v| *v).ok_or_else(|| PgError::internal("an expression without a value"))
        }
        _ => Err(PgError::internal(format!("not an expression: {text}"))),
    }
}

/// Parses a type, as it is written after `CAST (… AS`.
pub(crate) fn parse_type(text: &str) -> Result<protobuf::TypeName> {
    let cast = parse_expression(&format!("CAST(NULL AS {text})"))?;
    let of = cast.get::<protobuf::TypeCast>().and_then(|cast| cast.type_name.clone());
    of.ok_or_else(|| PgError::internal(format!("not a type: {text}")))
}

/// The SQL text of a type.
pub(crate) fn deparse_type(of: &protobuf::TypeName) -> Result<String> {
    let text = deparse_expression(&cast(parse_expression("NULL")?, of))?;
    Ok(text.strip_prefix("NULL::").unwrap_or(&text).to_owned())
}

/// `pg_temp`, or a session's own name for it.
pub(crate) fn is_temporary_schema(name: &str) -> bool {
    name.starts_with("pg_temp")
}

/// Parses what PostgreSQL has printed.
pub(crate) fn parse_printed(text: &str) -> pg_query::Result<pg_query::ParseResult> {
    pg_query::parse(text, 0).or_else(|error| match with_plain_marks(text) {
        Some(text) => pg_query::parse(&text, 0),
        None => Err(error),
    })
}

/// Parses a SELECT that PostgreSQL or we made, e.g. a view definition.
pub(crate) fn parse_select(text: &str) -> Result<SelectStmt> {
    let parsed = parse_one(text).map_err(|error| {
        too_deep(&error).unwrap_or_else(|| PgError::internal(format!("cannot parse {text:?}: {error}")))
    })?;
    match parsed {
        Some(NodeEnum::SelectStmt(select)) => Ok(*select),
        _ => Err(PgError::internal(format!("not a query: {text}"))),
    }
}

/// Splits a condition at its top-level ANDs.
pub(crate) fn conjuncts(condition: Option<&Node>) -> Vec<&Node> {
    let mut list = Vec::new();
    let mut stack: Vec<&Node> = condition.into_iter().collect();
    while let Some(next) = stack.pop() {
        match &next.node {
            Some(NodeEnum::BoolExpr(b)) if b.boolop == protobuf::BoolExprType::AndExpr as i32 => {
                stack.extend(b.args.iter().rev());
            }
            _ => list.push(next),
        }
    }
    list
}

/// Are two expressions the same but for their places in the text?
pub(crate) fn same_expression(a: &Node, b: &Node) -> bool {
    a == b || strip_locations(a) == strip_locations(b)
}

/// A comparable print of a tree without byte offsets.
fn strip_locations(node: &Node) -> Option<String> {
    deparse_expression(node).ok()
}

/// The name of an operator if it is bare or of pg_catalog.
pub(crate) fn operator_name(names: &[Node]) -> Option<&str> {
    match names {
        [op] => text_of(op),
        [schema, op] if text_of(schema) == Some("pg_catalog") => text_of(op),
        _ => None,
    }
}
