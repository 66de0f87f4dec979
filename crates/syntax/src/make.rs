//! Builds nodes.

use pg_query::protobuf::{
    self, AConst, Alias, ColumnRef, FuncCall, RangeFunction, RangeSubselect, RangeVar, ResTarget, SelectStmt, a_const,
};
use pg_query::{Node, NodeEnum};

use super::get::{Get, Syntax};
use super::{deparse_expression, is_plain_call, last_name, parse_expression, text_of};

/// A SELECT without anything.
pub fn empty_select() -> SelectStmt {
    SelectStmt {
        limit_option: protobuf::LimitOption::Default as i32,
        op: protobuf::SetOperation::SetopNone as i32,
        ..SelectStmt::default()
    }
}

/// `SELECT targets FROM items`.
pub fn select_from(target_list: Vec<Node>, from_clause: Vec<Node>) -> SelectStmt {
    SelectStmt { target_list, from_clause, ..empty_select() }
}

/// Wraps a node.
pub fn node(inner: NodeEnum) -> Node {
    Node { node: Some(inner) }
}

/// A name as PostgreSQL's lists of names hold it.
pub fn string(text: &str) -> Node {
    node(NodeEnum::String(protobuf::String { sval: text.to_owned() }))
}

/// `expression [AS name]` in a target list.
pub fn target(expression: Node, name: Option<&str>) -> Node {
    ResTarget { name: name.unwrap_or_default().to_owned(), val: Some(Box::new(expression)), ..ResTarget::default() }
        .into_node()
}

/// A column name as INSERT's column list holds it.
pub fn target_name_only(name: &str) -> Node {
    ResTarget { name: name.to_owned(), ..ResTarget::default() }.into_node()
}

/// A reference to a column, `name` or `a.name`.
pub fn column(parts: &[&str]) -> Node {
    node(NodeEnum::ColumnRef(ColumnRef { fields: parts.iter().map(|p| string(p)).collect(), location: -1 }))
}

/// `*`, or `alias.*`.
pub fn star(alias: Option<&str>) -> Node {
    let star = node(NodeEnum::AStar(protobuf::AStar {}));
    let fields = alias.map(string).into_iter().chain([star]).collect();
    node(NodeEnum::ColumnRef(ColumnRef { fields, location: -1 }))
}

/// `(query) AS alias (columns)` in FROM.
pub fn sub_select(query: SelectStmt, alias: Alias) -> Node {
    let subquery = Some(Box::new(query.into_node()));
    RangeSubselect { lateral: false, subquery, alias: Some(alias) }.into_node()
}

/// An alias without names of columns.
pub fn alias(name: &str) -> Alias {
    Alias { aliasname: name.to_owned(), colnames: Vec::new() }
}

/// An alias that names the columns, too, for which none is given.
pub fn alias_of_columns<'n>(mut alias: Alias, names: impl Iterator<Item = &'n String>) -> Alias {
    let given = alias.colnames.len();
    alias.colnames.extend(names.skip(given).map(|name| string(name)));
    alias
}

/// An integer constant.
pub fn integer(value: i64) -> Node {
    constant(Some(match i32::try_from(value) {
        Ok(ival) => a_const::Val::Ival(protobuf::Integer { ival }),
        Err(_) => a_const::Val::Fval(protobuf::Float { fval: value.to_string() }),
    }))
}

/// TRUE or FALSE.
pub fn boolean(boolval: bool) -> Node {
    constant(Some(a_const::Val::Boolval(protobuf::Boolean { boolval })))
}

/// A string constant.
pub fn text(value: &str) -> Node {
    constant(Some(a_const::Val::Sval(protobuf::String { sval: value.to_owned() })))
}

/// NULL.
pub fn null() -> Node {
    constant(None)
}

fn constant(val: Option<a_const::Val>) -> Node {
    AConst { isnull: val.is_none(), location: -1, val }.into_node()
}

/// `$number`.
pub fn parameter(number: usize) -> Node {
    protobuf::ParamRef { number: i32::try_from(number).unwrap_or(i32::MAX), location: -1 }.into_node()
}

/// `ROW(a, b, …)`.
pub fn row(args: Vec<Node>) -> Node {
    let row_format = protobuf::CoercionForm::CoerceExplicitCall as i32;
    protobuf::RowExpr { args, row_format, ..Default::default() }.into_node()
}

/// A query of one row, whose columns get these names, counted from 0.
pub fn one_row(values: Vec<Node>, name: impl Fn(usize) -> String) -> SelectStmt {
    let list = values.into_iter().enumerate().map(|(at, value)| target(value, Some(&name(at))));
    SelectStmt { target_list: list.collect(), ..empty_select() }
}

/// A record whose fields have names, as `(SELECT r FROM (SELECT a AS x, b AS y) AS r)`; `ROW(a, b)` has none.
pub fn record<'n>(fields: impl Iterator<Item = (&'n str, Node)>) -> Node {
    // A field of this name would be meant instead.
    const ALIAS: &str = "loxo:record";
    let list = fields.map(|(name, value)| target(value, Some(name))).collect();
    let row = SelectStmt { target_list: list, ..empty_select() };
    let whole = vec![target(column(&[ALIAS]), None)];
    scalar_sub_select(select_from(whole, vec![sub_select(row, alias(ALIAS))]))
}

/// `a AND b AND …`.
pub fn and(args: Vec<Node>) -> Node {
    let boolop = protobuf::BoolExprType::AndExpr as i32;
    protobuf::BoolExpr { xpr: None, boolop, args, location: -1 }.into_node()
}

/// `a OR b OR …`.
pub fn or(args: Vec<Node>) -> Node {
    let boolop = protobuf::BoolExprType::OrExpr as i32;
    protobuf::BoolExpr { xpr: None, boolop, args, location: -1 }.into_node()
}

/// `left = right`.
pub fn equal(left: Node, right: Node) -> Node {
    let (kind, name) = (protobuf::AExprKind::AexprOp as i32, vec![string("=")]);
    let (lexpr, rexpr) = (Some(Box::new(left)), Some(Box::new(right)));
    protobuf::AExpr { kind, name, lexpr, rexpr, ..Default::default() }.into_node()
}

/// `CASE WHEN condition THEN value [ELSE otherwise] END`.
pub fn case_when(condition: Node, value: Node, otherwise: Option<Node>) -> Node {
    let (expr, result) = (Some(Box::new(condition)), Some(Box::new(value)));
    let args = vec![protobuf::CaseWhen { expr, result, ..Default::default() }.into_node()];
    protobuf::CaseExpr { args, defresult: otherwise.map(Box::new), ..Default::default() }.into_node()
}

/// `value IS NULL`, or `IS NOT NULL`.
pub fn null_test(value: Node, test: protobuf::NullTestType) -> Node {
    protobuf::NullTest { arg: Some(Box::new(value)), nulltesttype: test as i32, ..Default::default() }.into_node()
}

/// `CAST(value AS type)`.
pub fn cast(value: Node, of: &protobuf::TypeName) -> Node {
    protobuf::TypeCast { arg: Some(Box::new(value)), type_name: Some(of.clone()), location: -1 }.into_node()
}

/// `condition IS NOT TRUE`, or another such test.
pub fn boolean_test(condition: Node, test: protobuf::BoolTestType) -> Node {
    let arg = Some(Box::new(condition));
    protobuf::BooleanTest { xpr: None, arg, booltesttype: test as i32, location: -1 }.into_node()
}

/// `function(…) AS alias` in FROM.
pub fn call_in_from(call: Node, alias: Alias) -> RangeFunction {
    let list = protobuf::List { items: vec![call, Node { node: None }] };
    RangeFunction { functions: vec![list.into_node()], alias: Some(alias), ..Default::default() }
}

/// `unnest(a, b)` as PostgreSQL reads it, `ROWS FROM (pg_catalog.unnest(a), pg_catalog.unnest(b))`, which it does for the bare name
/// in FROM alone, whatever functions of that name there are. Was there one?
pub fn spread_unnest(item: &mut RangeFunction) -> bool {
    let whole = std::mem::take(&mut item.functions);
    let count = whole.len();
    let has_columns = !item.coldeflist.is_empty();
    item.functions = whole.into_iter().flat_map(|function| spread(function, has_columns)).collect();
    let was_one = item.functions.len() > count;
    item.is_rowsfrom |= was_one;
    was_one
}

fn spread(function: Node, has_columns: bool) -> Vec<Node> {
    let of = match function.get::<protobuf::List>().map(|list| list.items.as_slice()) {
        Some([call, columns @ ..]) if !has_columns && columns.iter().all(|one| one.node.is_none()) => call.get(),
        _ => None,
    };
    let is_unnest = |call: &&FuncCall| match call.funcname.as_slice() {
        [only] => text_of(only) == Some("unnest") && call.args.len() > 1 && is_plain_call(call),
        _ => false,
    };
    let Some(of) = of.filter(is_unnest) else { return vec![function] };
    let each = |argument: &Node| {
        let items = vec![call("unnest", vec![argument.clone()]), Node { node: None }];
        protobuf::List { items }.into_node()
    };
    of.args.iter().map(each).collect()
}

/// `FOR UPDATE [OF tables]`.
pub fn for_update(locked_rels: Vec<Node>) -> Node {
    let strength = protobuf::LockClauseStrength::LcsForupdate as i32;
    let wait_policy = protobuf::LockWaitPolicy::LockWaitBlock as i32;
    protobuf::LockingClause { locked_rels, strength, wait_policy }.into_node()
}

/// A sub-select as a value.
pub fn scalar_sub_select(query: SelectStmt) -> Node {
    let sub_link_type = protobuf::SubLinkType::ExprSublink as i32;
    protobuf::SubLink { sub_link_type, subselect: query.into_box(), ..Default::default() }.into_node()
}

/// A call of a function of PostgreSQL's own.
pub fn call(function: &str, args: Vec<Node>) -> Node {
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
pub fn conjunction(mut conditions: Vec<Node>) -> Option<Node> {
    match conditions.len() {
        0 => None,
        1 => conditions.pop(),
        _ => Some(and(conditions)),
    }
}

/// A bare table in FROM, with an alias if one is given.
pub fn table(schema: &str, name: &str, alias: Option<Alias>) -> RangeVar {
    RangeVar {
        schemaname: schema.to_owned(),
        relname: name.to_owned(),
        inh: true,
        relpersistence: "p".to_owned(),
        alias,
        ..RangeVar::default()
    }
}

/// GROUP BY tableoid as GROUP BY tableoid::regclass: the same groups, and the output may have the name.
pub fn grouped_by_name(select: &SelectStmt) -> Option<SelectStmt> {
    let mut grouped = select.clone();
    let mut found = false;
    for item in &mut grouped.group_clause {
        if let Some(column) = item.get::<ColumnRef>()
            && last_name(&column.fields) == Some("tableoid")
        {
            let text = format!("{}::regclass", deparse_expression(item).ok()?);
            *item = parse_expression(&text).ok()?;
            found = true;
        }
    }
    found.then_some(grouped)
}
