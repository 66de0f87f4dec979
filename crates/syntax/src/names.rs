//! The name PostgreSQL gives to an output column without AS (`FigureColname` of parse_target.c).

use pg_query::protobuf::{ResTarget, SelectStmt, SubLinkType, XmlExprOp};
use pg_query::{Node, NodeEnum};

use super::get::Get;
use super::parts::{last_name, leftmost, shows_star, text_of, type_of};

/// Name of a target list entry.
pub fn output_name(target: &ResTarget) -> String {
    if !target.name.is_empty() {
        return target.name.clone();
    }
    target.val.as_deref().and_then(|v| figure(v).0).unwrap_or_else(|| "?column?".to_owned())
}

/// Writes it to an entry without a name, whose value may be replaced; `*` has none. What PostgreSQL could not be asked about, such as
/// calls with parameters of type `void`, comes here as it was written.
pub fn name_output(target: &mut Node) {
    if shows_star(target) {
        return;
    }
    if let Some(target) = target.get_mut::<ResTarget>()
        && target.name.is_empty()
        && target.val.is_some()
    {
        target.name = output_name(target);
    }
}

/// Name and its strength (2: strong, 1: a fallback that a better one may replace).
fn figure(node: &Node) -> (Option<String>, u8) {
    let strong = |name: &str| (Some(name.to_owned()), 2);
    let if_strong = |name: Option<&str>| name.map_or((None, 0), strong);
    let below = |part: &Option<Box<Node>>| part.as_deref().map_or((None, 0), figure);
    let Some(inner) = &node.node else { return (None, 0) };
    match inner {
        NodeEnum::ColumnRef(c) => if_strong(c.fields.iter().rev().find_map(text_of)),
        NodeEnum::AIndirection(i) => match i.indirection.iter().rev().find_map(text_of) {
            Some(name) => strong(name),
            None => below(&i.arg),
        },
        NodeEnum::FuncCall(f) => if_strong(last_name(&f.funcname)),
        NodeEnum::AExpr(e) if e.kind == pg_query::protobuf::AExprKind::AexprNullif as i32 => strong("nullif"),
        NodeEnum::TypeCast(cast) => {
            let (name, strength) = below(&cast.arg);
            match type_of(cast) {
                Some(type_name) if strength <= 1 => (Some(type_name.to_owned()), 1),
                _ => (name, strength),
            }
        }
        NodeEnum::CollateClause(c) => below(&c.arg),
        NodeEnum::GroupingFunc(_) => strong("grouping"),
        NodeEnum::MergeSupportFunc(_) => strong("merge_action"),
        NodeEnum::SubLink(link) => match link.sub_link_type() {
            SubLinkType::ExistsSublink => strong("exists"),
            SubLinkType::ArraySublink => strong("array"),
            SubLinkType::ExprSublink => link.subselect.get().map_or((None, 0), first_column),
            _ => (None, 0),
        },
        NodeEnum::CaseExpr(case) => match below(&case.defresult) {
            (name, strength) if strength > 1 => (name, strength),
            _ => (Some("case".to_owned()), 1),
        },
        NodeEnum::AArrayExpr(_) => strong("array"),
        NodeEnum::RowExpr(_) => strong("row"),
        NodeEnum::CoalesceExpr(_) => strong("coalesce"),
        NodeEnum::MinMaxExpr(m) => {
            strong(if m.op == pg_query::protobuf::MinMaxOp::IsGreatest as i32 { "greatest" } else { "least" })
        }
        NodeEnum::SqlvalueFunction(function) => strong(&named(function.op().as_str_name(), "SVFOP_", "_N")),
        other => if_strong(special(other).as_deref()),
    }
}

fn special(node: &NodeEnum) -> Option<String> {
    let name = match node {
        NodeEnum::XmlExpr(xml) if xml.op() != XmlExprOp::IsDocument => {
            return Some(named(xml.op().as_str_name(), "IS_", ""));
        }
        NodeEnum::JsonFuncExpr(json) => return Some(named(json.op().as_str_name(), "", "_OP")),
        NodeEnum::XmlSerialize(_) => "xmlserialize",
        NodeEnum::JsonParseExpr(_) => "json",
        NodeEnum::JsonScalarExpr(_) => "json_scalar",
        NodeEnum::JsonSerializeExpr(_) => "json_serialize",
        NodeEnum::JsonObjectConstructor(_) => "json_object",
        NodeEnum::JsonArrayConstructor(_) | NodeEnum::JsonArrayQueryConstructor(_) => "json_array",
        NodeEnum::JsonObjectAgg(_) => "json_objectagg",
        NodeEnum::JsonArrayAgg(_) => "json_arrayagg",
        _ => return None,
    };
    Some(name.to_owned())
}

/// PostgreSQL's sources call its functions as users do, but for what stands before and behind: `SVFOP_CURRENT_TIME_N`.
fn named(name: &str, before: &str, behind: &str) -> String {
    name.trim_start_matches(before).trim_end_matches(behind).to_ascii_lowercase()
}

/// The name of a scalar sub-select is that of its first column.
fn first_column(select: &SelectStmt) -> (Option<String>, u8) {
    match leftmost(select).target_list.first().and_then(|target| target.get::<ResTarget>()) {
        Some(target) if !target.name.is_empty() => (Some(target.name.clone()), 2),
        target => target.and_then(|target| target.val.as_deref()).map_or((None, 0), figure),
    }
}
