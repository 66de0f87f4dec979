//! The values that an INSERT is given, as they are before they become those of its columns.

use pg_query::protobuf::{InsertStmt, List, ResTarget, RowExpr, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::{
    Get, deparse, deparse_select, has_distinct_on, is_bare, is_default, is_operation, null, parse_one, select_from,
    target, under_casts,
};

/// Columns of one query; PostgreSQL's limit is 1,664.
const COLUMNS_MAX: usize = 1_000;

/// Queries that have the types of these values; none if all are constants and parameters. They need not give the same rows.
///
/// # Errors
/// It is no INSERT.
pub fn given_to_insert(sql: &str) -> Result<Vec<String>> {
    let parsed = parse_one(sql).map_err(|error| PgError::internal(format!("cannot parse {sql:?}: {error}")))?;
    let Some(NodeEnum::InsertStmt(insert)) = parsed else {
        return Err(PgError::internal(format!("not an INSERT: {sql}")));
    };
    let InsertStmt { select_stmt, with_clause, .. } = *insert;
    let Some(NodeEnum::SelectStmt(mut query)) = select_stmt.and_then(|query| query.node) else { return Ok(Vec::new()) };
    if let Some(mut with) = with_clause {
        let own = query.with_clause.take();
        with.recursive |= own.as_ref().is_some_and(|own| own.recursive);
        with.ctes.extend(own.into_iter().flat_map(|own| own.ctes));
        query.with_clause = Some(with);
    }
    let queries = match query.values_lists.is_empty() {
        true => vec![without_casts(*query)],
        false => of_values(&query),
    };
    queries.iter().map(deparse_select).collect()
}

/// A statement without its WITH, and before it what comes before another WITH item, `WITH ` or more.
pub fn with_apart(sql: &str) -> Result<(String, String)> {
    let parsed = parse_one(sql).map_err(|error| PgError::internal(format!("cannot parse {sql:?}: {error}")))?;
    let mut statement = parsed.ok_or_else(|| PgError::internal("no statement"))?;
    let with = match &mut statement {
        NodeEnum::SelectStmt(query) => query.with_clause.take(),
        NodeEnum::InsertStmt(insert) => insert.with_clause.take(),
        NodeEnum::UpdateStmt(update) => update.with_clause.take(),
        NodeEnum::DeleteStmt(delete) => delete.with_clause.take(),
        NodeEnum::MergeStmt(merge) => merge.with_clause.take(),
        _ => None,
    };
    let Some(with) = with else { return Ok(("WITH ".to_owned(), deparse(&statement)?)) };
    let items =
        deparse_select(&SelectStmt { with_clause: Some(with), ..select_from(vec![target(null(), None)], Vec::new()) })?;
    let items = items.strip_suffix(" SELECT NULL").ok_or_else(|| PgError::internal("WITH is not printed first"))?;
    Ok((format!("{items}, "), deparse(&statement)?))
}

/// What is cast is not yet of the type, or the cast does nothing. Other clauses may refer to the columns.
fn without_casts(mut query: SelectStmt) -> SelectStmt {
    let is_distinct = !query.distinct_clause.is_empty() && !has_distinct_on(&query);
    let is_referred_to =
        is_operation(&query) || is_distinct || !query.sort_clause.is_empty() || !query.group_clause.is_empty();
    let columns = query.target_list.iter_mut().filter(|_| !is_referred_to);
    for column in columns.filter_map(|column| column.get_mut::<ResTarget>()) {
        let Some(value) = column.val.as_deref().map(under_casts) else { continue };
        if value.get::<RowExpr>().is_none() {
            column.val = Some(Box::new(if is_constant(value) { null() } else { value.clone() }));
        }
    }
    query
}

fn is_constant(value: &Node) -> bool {
    match &value.node {
        Some(NodeEnum::AConst(_)) => true,
        Some(NodeEnum::AArrayExpr(array)) => array.elements.iter().all(|element| is_constant(under_casts(element))),
        _ => is_bare(value),
    }
}

fn of_values(query: &SelectStmt) -> Vec<SelectStmt> {
    let mut values: Vec<Node> = Vec::new();
    let rows = query.values_lists.iter().filter_map(|row| row.get::<List>());
    rows.flat_map(|row| &row.items).for_each(|value| add(value, &mut values));
    let columns = |values: &[Node]| values.iter().map(|value| target(value.clone(), None)).collect();
    let queries = values.chunks(COLUMNS_MAX).map(|values| select_from(columns(values), Vec::new()));
    queries.map(|one| SelectStmt { with_clause: query.with_clause.clone(), ..one }).collect()
}

/// A row's fields become those of its type one by one.
fn add(value: &Node, values: &mut Vec<Node>) {
    let value = under_casts(value);
    match value.get::<RowExpr>() {
        Some(row) => row.args.iter().for_each(|field| add(field, values)),
        None if is_constant(value) || is_default(value) => {}
        None => values.push(value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_before_they_are_cast() {
        let given = |sql: &str| given_to_insert(sql).unwrap();
        assert_eq!(given("INSERT INTO t VALUES (1, 'a', DEFAULT, $1, '5'::d)"), [] as [&str; 0]);
        assert_eq!(given("INSERT INTO t DEFAULT VALUES"), [] as [&str; 0]);
        assert_eq!(given("INSERT INTO t VALUES (ARRAY[]::int[], ARRAY[$1, ARRAY[]]::d[])"), [] as [&str; 0]);
        assert_eq!(given("INSERT INTO t VALUES (1, f()::d), (2, ROW(3, g()))"), ["SELECT f(), g()"]);
        assert_eq!(given("INSERT INTO t SELECT a::d, ROW(b)::r FROM s"), ["SELECT a, ROW(b)::r FROM s"]);
        assert_eq!(given("INSERT INTO t SELECT a::d FROM s ORDER BY a::d"), ["SELECT a::d FROM s ORDER BY a::d"]);
        assert_eq!(given("INSERT INTO t SELECT $1::d, f($2) FROM s"), ["SELECT NULL, f($2) FROM s"]);
        let with = "WITH w AS (SELECT 1 AS a)";
        assert_eq!(given(&format!("{with} INSERT INTO t SELECT a FROM w")), [format!("{with} SELECT a FROM w")]);
        assert!(given_to_insert("SELECT 1").is_err());
    }

    #[test]
    fn a_statement_is_told_from_its_with() {
        let apart = |sql: &str| with_apart(sql).unwrap();
        assert_eq!(apart("SELECT  1 ; -- one"), ("WITH ".to_owned(), "SELECT 1".to_owned()));
        let (with, rest) = apart("WITH RECURSIVE w AS (DELETE FROM t RETURNING a) SELECT a FROM w");
        assert_eq!(
            (with.as_str(), rest.as_str()),
            ("WITH RECURSIVE w AS (DELETE FROM t RETURNING a), ", "SELECT a FROM w")
        );
    }
}
