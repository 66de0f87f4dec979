//! The name PostgreSQL gives to an output column without AS (`FigureColname` of parse_target.c).

use pg_query::protobuf::{ResTarget, SelectStmt, SqlValueFunctionOp, SubLinkType};
use pg_query::{Node, NodeEnum};

use super::text_of;

/// Name of a target list entry.
pub(crate) fn output_name(target: &ResTarget) -> String {
    if !target.name.is_empty() {
        return target.name.clone();
    }
    target.val.as_deref().and_then(|v| figure(v).0).unwrap_or_else(|| "?column?".to_owned())
}

/// Name and its strength (2: strong, 1: a fallback that a better one may replace).
fn figure(node: &Node) -> (Option<String>, u8) {
    let strong = |name: &str| (Some(name.to_owned()), 2);
    let Some(inner) = &node.node else { return (None, 0) };
    match inner {
        NodeEnum::ColumnRef(c) => match c.fields.iter().rev().find_map(text_of) {
            Some(name) => strong(name),
            None => (None, 0),
        },
        NodeEnum::AIndirection(i) => match i.indirection.iter().rev().find_map(text_of) {
            Some(name) => strong(name),
            None => i.arg.as_deref().map_or((None, 0), figure),
        },
        NodeEnum::FuncCall(f) => match f.funcname.last().and_then(text_of) {
            Some(name) => strong(name),
            None => (None, 0),
        },
        NodeEnum::AExpr(e) if e.kind == pg_query::protobuf::AExprKind::AexprNullif as i32 => strong("nullif"),
        NodeEnum::TypeCast(cast) => {
            let (name, strength) = cast.arg.as_deref().map_or((None, 0), figure);
            match cast.type_name.as_ref().and_then(|t| t.names.last()).and_then(text_of) {
                Some(type_name) if strength <= 1 => (Some(type_name.to_owned()), 1),
                _ => (name, strength),
            }
        }
        NodeEnum::CollateClause(c) => c.arg.as_deref().map_or((None, 0), figure),
        NodeEnum::GroupingFunc(_) => strong("grouping"),
        NodeEnum::MergeSupportFunc(_) => strong("merge_action"),
        NodeEnum::SubLink(link) => match SubLinkType::try_from(link.sub_link_type) {
            Ok(SubLinkType::ExistsSublink) => strong("exists"),
            Ok(SubLinkType::ArraySublink) => strong("array"),
            Ok(SubLinkType::ExprSublink) => match link.subselect.as_deref().and_then(|n| n.node.as_ref()) {
                Some(NodeEnum::SelectStmt(select)) => first_column(select),
                _ => (None, 0),
            },
            _ => (None, 0),
        },
        NodeEnum::CaseExpr(case) => match case.defresult.as_deref().map_or((None, 0), figure) {
            (name, strength) if strength > 1 => (name, strength),
            _ => (Some("case".to_owned()), 1),
        },
        NodeEnum::AArrayExpr(_) => strong("array"),
        NodeEnum::RowExpr(_) => strong("row"),
        NodeEnum::CoalesceExpr(_) => strong("coalesce"),
        NodeEnum::MinMaxExpr(m) => {
            strong(if m.op == pg_query::protobuf::MinMaxOp::IsGreatest as i32 { "greatest" } else { "least" })
        }
        NodeEnum::SqlvalueFunction(f) => strong(value_function(f.op)),
        other => match special(other) {
            Some(name) => strong(name),
            None => (None, 0),
        },
    }
}

fn special(node: &NodeEnum) -> Option<&'static str> {
    Some(match node {
        NodeEnum::XmlSerialize(_) => "xmlserialize",
        NodeEnum::XmlExpr(x) => match pg_query::protobuf::XmlExprOp::try_from(x.op).ok()? {
            pg_query::protobuf::XmlExprOp::IsXmlconcat => "xmlconcat",
            pg_query::protobuf::XmlExprOp::IsXmlelement => "xmlelement",
            pg_query::protobuf::XmlExprOp::IsXmlforest => "xmlforest",
            pg_query::protobuf::XmlExprOp::IsXmlparse => "xmlparse",
            pg_query::protobuf::XmlExprOp::IsXmlpi => "xmlpi",
            pg_query::protobuf::XmlExprOp::IsXmlroot => "xmlroot",
            pg_query::protobuf::XmlExprOp::IsXmlserialize => "xmlserialize",
            _ => return None,
        },
        NodeEnum::JsonParseExpr(_) => "json",
        NodeEnum::JsonScalarExpr(_) => "json_scalar",
        NodeEnum::JsonSerializeExpr(_) => "json_serialize",
        NodeEnum::JsonObjectConstructor(_) => "json_object",
        NodeEnum::JsonArrayConstructor(_) | NodeEnum::JsonArrayQueryConstructor(_) => "json_array",
        NodeEnum::JsonObjectAgg(_) => "json_objectagg",
        NodeEnum::JsonArrayAgg(_) => "json_arrayagg",
        NodeEnum::JsonFuncExpr(j) => match j.op {
            1 => "json_exists",
            2 => "json_query",
            3 => "json_value",
            _ => return None,
        },
        _ => return None,
    })
}

/// The name of a scalar sub-select is that of its first column.
fn first_column(select: &SelectStmt) -> (Option<String>, u8) {
    let mut leftmost = select;
    while let Some(left) = leftmost.larg.as_deref() {
        leftmost = left;
    }
    match leftmost.target_list.first().and_then(|t| t.node.as_ref()) {
        Some(NodeEnum::ResTarget(target)) if !target.name.is_empty() => (Some(target.name.clone()), 2),
        Some(NodeEnum::ResTarget(target)) => target.val.as_deref().map_or((None, 0), figure),
        _ => (None, 0),
    }
}

fn value_function(op: i32) -> &'static str {
    match SqlValueFunctionOp::try_from(op) {
        Ok(SqlValueFunctionOp::SvfopCurrentDate) => "current_date",
        Ok(SqlValueFunctionOp::SvfopCurrentTime | SqlValueFunctionOp::SvfopCurrentTimeN) => "current_time",
        Ok(SqlValueFunctionOp::SvfopCurrentTimestamp | SqlValueFunctionOp::SvfopCurrentTimestampN) => {
            "current_timestamp"
        }
        Ok(SqlValueFunctionOp::SvfopLocaltime | SqlValueFunctionOp::SvfopLocaltimeN) => "localtime",
        Ok(SqlValueFunctionOp::SvfopLocaltimestamp | SqlValueFunctionOp::SvfopLocaltimestampN) => "localtimestamp",
        Ok(SqlValueFunctionOp::SvfopCurrentRole) => "current_role",
        Ok(SqlValueFunctionOp::SvfopCurrentUser) => "current_user",
        Ok(SqlValueFunctionOp::SvfopUser) => "user",
        Ok(SqlValueFunctionOp::SvfopSessionUser) => "session_user",
        Ok(SqlValueFunctionOp::SvfopCurrentCatalog) => "current_catalog",
        Ok(SqlValueFunctionOp::SvfopCurrentSchema) => "current_schema",
        Ok(SqlValueFunctionOp::SqlvalueFunctionOpUndefined) | Err(_) => "?column?",
    }
}
