//! VALUES with sub-selects that other nodes have rows of.
//!
//! PostgreSQL coerces each value of an INSERT's VALUES to its column by itself, where a list of VALUES in a query has one type a
//! column. So such values are computed as columns of one row, each with its own type, and the list stays where it was:
//! `WITH loxo_v AS MATERIALIZED (SELECT …) INSERT INTO t VALUES (1, DEFAULT, (SELECT loxo_c1 FROM loxo_v)), …`.

use pg_query::protobuf::{InsertStmt, List, SelectStmt};
use pgerror::Result;

use super::Markers;
use crate::context::Context;
use crate::plan::Input;
use crate::select;
use crate::tree::{self, Ask, Get, Syntax};

/// PostgreSQL's `MaxTupleAttributeNumber`: with more of them, the tables are copied that they read.
const COLUMNS_MAX: usize = 1664;

/// Has the values of a plain list that have sub-selects, or `all`, computed apart.
pub(super) fn compute_apart(ctx: &Context<'_>, insert: &mut InsertStmt, all: bool) -> Result<(Vec<Input>, Markers)> {
    let Some(query) = insert.select_stmt.get::<SelectStmt>().cloned() else { return Ok(Default::default()) };
    let (mut list, mut apart) = (query.clone(), Vec::new());
    for value in list.values_lists.iter_mut().filter_map(|row| row.get_mut::<List>()).flat_map(|row| &mut row.items) {
        if tree::is_default(value) || tree::is_bare(value) || !(all || value.has_sub_select()?) {
            continue;
        }
        let name = format!("loxo_c{}", apart.len() + 1);
        let reference = tree::parse_expression(&format!("(SELECT {name} FROM loxo_v)"))?;
        apart.push(tree::target(std::mem::replace(value, reference), Some(&name)));
    }
    if apart.is_empty() {
        return Ok(Default::default());
    }
    if apart.len() > COLUMNS_MAX || super::row_parts::has_records(insert) {
        let gather = select::copied(ctx, &query.into_tree())?;
        insert.select_stmt = tree::parse_select(&gather.final_sql.text)?.into_box();
        return Ok((gather.inputs, gather.final_sql.types));
    }
    let columns: Vec<String> = (1..=apart.len()).map(|number| format!("loxo_c{number}")).collect();
    let row = SelectStmt { target_list: apart, ..tree::empty_select() };
    let (inputs, source) = select::source(ctx, &row.into_tree())?;
    let with = format!("WITH loxo_v ({}) AS MATERIALIZED ({}) SELECT", columns.join(", "), source.text);
    insert.with_clause = tree::parse_select(&with)?.with_clause;
    insert.select_stmt = list.into_box();
    Ok((inputs, source.types))
}
