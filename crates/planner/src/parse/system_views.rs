//! System views that would show one node's inner life: their names are led to views of ours with the same columns.
//!
//! `pg_prepared_xacts` is the only one: on a datanode it lists our gids, users expect their own names. The text is changed
//! before it is parsed, so describing, planning and running it all mean the same view. A position that PostgreSQL
//! reports behind the name is too large by the length of the schema's.

use pg_query::{Node, NodeEnum};

use super::scan;
use crate::tree::{Ref, Walk};

const VIEW: &str = "pg_prepared_xacts";
const SCHEMA: &str = "loxo";

/// The query string with other names in it, if it reads such a view.
pub(super) fn redirect(sql: &str) -> Option<String> {
    let mentioned = sql.as_bytes().windows(VIEW.len()).any(|word| word.eq_ignore_ascii_case(VIEW.as_bytes()));
    if !mentioned {
        return None;
    }
    let parsed = pg_query::parse(sql, 0).ok()?;
    let mut places: Vec<(usize, bool)> = Vec::new();
    for node in parsed.protobuf.stmts.iter().filter_map(|raw| query(raw.stmt.as_deref())) {
        places.extend(names_in(node));
    }
    if places.is_empty() {
        return None;
    }
    let tokens = scan::tokens(sql)?;
    places.sort_unstable();
    let mut changed = sql.to_owned();
    for (start, is_qualified) in places.into_iter().rev() {
        match is_qualified {
            true => {
                let schema = tokens.iter().find(|token| token.start == start)?;
                changed.replace_range(start..schema.end, SCHEMA);
            }
            false => changed.insert_str(start, &format!("{SCHEMA}.")),
        }
    }
    Some(changed)
}

/// The part of a statement that reads tables. Other statements name the view without reading it, or make something of
/// that name.
fn query(node: Option<&Node>) -> Option<&NodeEnum> {
    let node = node?.node.as_ref()?;
    match node {
        NodeEnum::SelectStmt(_)
        | NodeEnum::InsertStmt(_)
        | NodeEnum::UpdateStmt(_)
        | NodeEnum::DeleteStmt(_)
        | NodeEnum::MergeStmt(_) => Some(node),
        NodeEnum::CopyStmt(copy) => query(copy.query.as_deref()),
        NodeEnum::ExplainStmt(explain) => query(explain.query.as_deref()),
        NodeEnum::PrepareStmt(prepare) => query(prepare.query.as_deref()),
        NodeEnum::DeclareCursorStmt(declare) => query(declare.query.as_deref()),
        NodeEnum::CreateTableAsStmt(create) => query(create.query.as_deref()),
        NodeEnum::ViewStmt(view) => query(view.query.as_deref()),
        _ => None,
    }
}

/// Byte offsets of the view's names, and whether `pg_catalog.` stands before them. A WITH clause may define the bare name.
fn names_in(node: &NodeEnum) -> Vec<(usize, bool)> {
    let (mut found, mut is_hidden) = (Vec::new(), false);
    let walked = node.walk(&mut |node| {
        match node {
            Ref::RangeVar(name) if name.relname == VIEW && name.catalogname.is_empty() => {
                let start = usize::try_from(name.location).ok();
                match name.schemaname.as_str() {
                    "" => found.extend(start.map(|at| (at, false))),
                    "pg_catalog" => found.extend(start.map(|at| (at, true))),
                    _ => {}
                }
            }
            Ref::CommonTableExpr(cte) => is_hidden |= cte.ctename == VIEW,
            _ => {}
        }
        Ok(true)
    });
    if walked.is_err() {
        return Vec::new();
    }
    found.retain(|(_, is_qualified)| *is_qualified || !is_hidden);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_view_is_read_elsewhere() {
        let cases = [
            ("SELECT gid FROM pg_prepared_xacts", "SELECT gid FROM loxo.pg_prepared_xacts"),
            (
                "SELECT 'é', PG_Prepared_Xacts.gid FROM \"pg_catalog\" . PG_Prepared_Xacts; SELECT 1",
                "SELECT 'é', PG_Prepared_Xacts.gid FROM loxo . PG_Prepared_Xacts; SELECT 1",
            ),
            (
                "SELECT 1; EXPLAIN SELECT (SELECT count(*) FROM pg_prepared_xacts p) FROM t",
                "SELECT 1; EXPLAIN SELECT (SELECT count(*) FROM loxo.pg_prepared_xacts p) FROM t",
            ),
            (
                "DECLARE c CURSOR FOR SELECT * FROM pg_prepared_xacts a JOIN pg_catalog.pg_prepared_xacts b USING (gid)",
                "DECLARE c CURSOR FOR SELECT * FROM loxo.pg_prepared_xacts a JOIN loxo.pg_prepared_xacts b USING (gid)",
            ),
        ];
        for (sql, expected) in cases {
            assert_eq!(redirect(sql).as_deref(), Some(expected));
        }
    }

    #[test]
    fn other_things_of_that_name_are_left_alone() {
        for sql in [
            "SELECT 'pg_prepared_xacts'::regclass",
            "SELECT pg_prepared_xacts FROM t",
            "SELECT * FROM mine.pg_prepared_xacts",
            "WITH pg_prepared_xacts AS (SELECT 1) SELECT * FROM pg_prepared_xacts",
            "GRANT SELECT ON pg_prepared_xacts TO PUBLIC",
            "SELECT * FROM pg_prepared_statements",
        ] {
            assert_eq!(redirect(sql), None, "{sql}");
        }
    }
}
