//! Can rows that every node sorts be merged by the coordinator? Only where it knows the order for sure: of built-in types whose
//! bytes tell it, of texts where the collation goes by bytes. All else is sorted again on the home node.
//!
//! ```text
//! SELECT int8send(loxo_m.loxo_c1), loxo_m.loxo_c1 AS k, … FROM (the query, ORDER BY 1 LIMIT …) loxo_m
//! ```
//!
//! The query is a sub-select so that what it computes is computed once: the key is of the value that the user gets. It sorts and cuts
//! itself: what need not be known for that (volatile functions) is computed of the rows that are left.

use catalog::{NodeId, Oid};
use pg_query::protobuf::{ColumnRef, LimitOption, SelectStmt, SortBy, SortByDir, SortByNulls};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::{constant, output, sort_by};
use crate::facts::{builtins, numbers::Number};
use crate::plan::{KeyForm, Merge, MergeKey, RowCount};
use crate::select::exact;
use crate::select::locality::{Analyzer, Body};
use crate::select::shape;
use crate::tree::{self, Get};

const ALIAS: &str = "loxo_m";
/// PostgreSQL allows 1664 columns in an output list.
const COLUMNS_MAX: usize = 1600;
const INT8_MAX: u64 = i64::MAX as u64;

/// What a merge is made of.
pub(super) struct Sorted<'a> {
    pub select: &'a SelectStmt,
    /// Gives `loxo_c1`, `loxo_c2`, …: the user's columns and after them what else is sorted by.
    pub rows: &'a SelectStmt,
    /// Names of the user's columns.
    pub names: Vec<&'a str>,
    /// ORDER BY with the numbers of its columns.
    pub sort: &'a [(SortBy, usize)],
}

/// The merge that puts rows in order which are final on every node.
pub(super) fn merge(
    analyzer: &Analyzer<'_>,
    body: &Body,
    nodes: &[NodeId],
    sorted: &Sorted<'_>,
) -> Result<Option<Merge>> {
    let Sorted { select, rows, names, sort } = sorted;
    let fits = !names.is_empty() && names.len() + sort.len() <= COLUMNS_MAX;
    if nodes.len() < 2 || !fits || select.limit_option == LimitOption::WithTies as i32 {
        return Ok(None);
    }
    let (Some(limit), Some(offset)) = (row_count(&select.limit_count), row_count(&select.limit_offset)) else {
        return Ok(None);
    };
    let key = |(by, at): &(SortBy, usize)| {
        let value = shape::target_value(rows, *at)?;
        merge_key(by, *at, key_type(analyzer, body, value)?)
    };
    let Some(keys) = sort.iter().map(key).collect::<Option<Vec<MergeKey>>>() else { return Ok(None) };
    let text = tree::deparse_select(&over_rows(sorted, limit, offset)?)?;
    let rest = text.strip_prefix("SELECT ").unwrap_or(&text).to_owned();
    Ok(Some(Merge { nodes: nodes.to_vec(), keys, columns: names.len(), offset, limit, rest }))
}

/// The SELECT of each node but for the keys.
fn over_rows(sorted: &Sorted<'_>, limit: Option<RowCount>, offset: Option<RowCount>) -> Result<SelectStmt> {
    let mut rows = sorted.rows.clone();
    let limit_count = rows_of_a_node(limit, offset).map(|text| tree::parse_expression(&text)).transpose()?;
    rows.sort_clause = sorted.sort.iter().map(|(by, at)| sort_by(by, tree::integer(*at as i64))).collect();
    rows.limit_option = if limit_count.is_some() { LimitOption::Count } else { LimitOption::Default } as i32;
    rows.limit_count = limit_count.map(Box::new);
    rows.limit_offset = None;
    let names = sorted.names.iter().enumerate();
    let value = |at: usize| tree::column(&[ALIAS, &output(at)]);
    let columns = names.map(|(i, name)| tree::target(value(i + 1), Some(name))).collect();
    Ok(tree::select_from(columns, vec![tree::sub_select(rows, tree::alias(ALIAS))]))
}

/// As many rows as the whole statement skips and gives. A limit of NULL is none, an offset of NULL is 0.
fn rows_of_a_node(limit: Option<RowCount>, offset: Option<RowCount>) -> Option<String> {
    let bigint = |count: RowCount| match count {
        RowCount::Constant(count) => format!("{count}::bigint"),
        RowCount::Parameter(number) => format!("${number}::bigint"),
    };
    match (limit?, offset) {
        (RowCount::Constant(limit), None) => Some(limit.to_string()),
        (limit, None) => Some(bigint(limit)),
        (RowCount::Constant(limit), Some(RowCount::Constant(offset))) => {
            limit.checked_add(offset).filter(|sum| *sum <= INT8_MAX).map(|sum| sum.to_string())
        }
        (limit, Some(offset)) => {
            let (limit, offset) = (bigint(limit), bigint(offset));
            Some(format!("LEAST({limit}::numeric + COALESCE({offset}, 0), {INT8_MAX})"))
        }
    }
}

/// LIMIT or OFFSET; `None` if it is something else than a number, a parameter or absent.
fn row_count(clause: &Option<Box<Node>>) -> Option<Option<RowCount>> {
    match clause.as_deref() {
        None => Some(None),
        Some(Node { node: Some(NodeEnum::AConst(value)) }) if value.isnull => Some(None),
        Some(Node { node: Some(NodeEnum::ParamRef(parameter)) }) => {
            usize::try_from(parameter.number).ok().map(RowCount::Parameter).map(Some)
        }
        Some(node) => constant(node).and_then(|count| u64::try_from(count).ok()).map(RowCount::Constant).map(Some),
    }
}

fn merge_key(by: &SortBy, at: usize, of: KeyType) -> Option<MergeKey> {
    let descending = match by.sortby_dir() {
        SortByDir::SortbyDefault | SortByDir::SortbyAsc => false,
        SortByDir::SortbyDesc => true,
        SortByDir::SortbyUsing | SortByDir::Undefined => return None,
    };
    let nulls_first = match by.sortby_nulls() {
        SortByNulls::SortbyNullsDefault => descending,
        SortByNulls::SortbyNullsFirst => true,
        SortByNulls::SortbyNullsLast => false,
        SortByNulls::Undefined => return None,
    };
    let (form, bytes_sql) = of.bytes_of(&format!("{ALIAS}.{}", output(at)));
    Some(MergeKey { bytes_sql, form, descending, nulls_first })
}

/// A built-in type whose order is known.
#[derive(Clone, Copy)]
enum KeyType {
    /// Sent by this function, which takes nothing of another order.
    Sent(&'static str, KeyForm),
    Oid,
    Bytea,
    Text,
}

impl KeyType {
    fn of_type(type_oid: Oid, bytewise: bool) -> Option<Self> {
        use KeyForm::{Bytes, Float, Integer, Numeric};
        Some(match type_oid {
            16 => KeyType::Sent("boolsend", Integer),
            17 => KeyType::Bytea,
            18 => KeyType::Sent("charsend", Bytes),
            // The width of an integer in whose place another stands (a sub-select's column) is not sure.
            builtins::INT2 | builtins::INT4 | builtins::INT8 => KeyType::Sent("int8send", Integer),
            builtins::NUMERIC => KeyType::Sent("numeric_send", Numeric),
            26 => KeyType::Oid,
            700 | 701 => KeyType::Sent("float8send", Float),
            1082 => KeyType::Sent("date_send", Integer),
            1083 => KeyType::Sent("time_send", Integer),
            1114 => KeyType::Sent("timestamp_send", Integer),
            1184 => KeyType::Sent("timestamptz_send", Integer),
            2950 => KeyType::Sent("uuid_send", Bytes),
            // name, text, character, character varying.
            19 | 25 | 1042 | 1043 if bytewise => KeyType::Text,
            _ => return None,
        })
    }

    /// The SQL that makes bytes of a value.
    fn bytes_of(self, value: &str) -> (KeyForm, String) {
        match self {
            KeyType::Sent(function, form) => (form, format!("pg_catalog.{function}({value})")),
            KeyType::Oid => (KeyForm::Integer, format!("pg_catalog.int8send({value}::pg_catalog.int8)")),
            KeyType::Bytea => (KeyForm::Bytes, value.to_owned()),
            // The cast takes the blanks off a character(n), which do not count.
            KeyType::Text => {
                let bytes =
                    format!("pg_catalog.convert_to({value}::pg_catalog.text, pg_catalog.getdatabaseencoding())");
                (KeyForm::Bytes, bytes)
            }
        }
    }
}

/// The type of what is sorted by.
fn key_type(analyzer: &Analyzer<'_>, body: &Body, value: &Node) -> Option<KeyType> {
    match &value.node {
        Some(NodeEnum::ColumnRef(column)) => {
            // What USING makes of two columns may have a type of its own.
            let is_merged = |name: &str| body.scope.merged.iter().any(|(merged, _)| merged == name);
            let column = exact::column_here(analyzer, body, column)
                .filter(|_| !tree::bare_name(value).is_some_and(is_merged))?;
            KeyType::of_type(column.type_oid, column.bytewise)
        }
        Some(NodeEnum::CollateClause(clause)) => {
            let column = clause.arg.get::<ColumnRef>()?;
            let column = exact::column_here(analyzer, body, column)?;
            let is_bytewise = matches!(tree::own_name(&clause.collname), Some("C" | "POSIX"));
            KeyType::of_type(column.type_oid, is_bytewise).filter(|of| matches!(of, KeyType::Text))
        }
        Some(NodeEnum::TypeCast(cast)) => {
            KeyType::of_type(analyzer.ctx.builtin_type(cast.type_name.as_ref()?)?.oid, false)
        }
        _ if body.scope.merged.is_empty() => match exact::of_expression(analyzer, body, value) {
            Number::Integer | Number::Bigint => KeyType::of_type(builtins::INT8, false),
            Number::Numeric => KeyType::of_type(builtins::NUMERIC, false),
            Number::Null | Number::Other => None,
        },
        _ => None,
    }
}
