//! System views that would show one node's inner life: their names are led to views of ours with the same columns.
//!
//! `pg_prepared_xacts`, which on a datanode lists our gids, while users expect their own names; and `pg_trigger`, where a trigger
//! that the coordinator runs looks as if it were switched off, with its kin in `information_schema`; and `pg_rewrite`, where a
//! rule looks as if it were a replica's. In place of `pg_trigger` and `pg_rewrite` functions stand, for some clients read no other views than the system's (`restrict_nonsystem_relation_kind`). The text is changed
//! before it is parsed, so describing, planning and running it all mean the same view. A position that PostgreSQL
//! reports behind the name is too large by the length of the schema's.

use pg_query::protobuf::{ParseResult, RangeVar};
use pg_query::{Node, NodeEnum};

use super::scan;
use crate::tree::{Ref, Walk};

const CATALOG: &str = "pg_catalog";
const VIEWS: [(&str, &str); 4] = [
    (CATALOG, "pg_prepared_xacts"),
    (CATALOG, "pg_trigger"),
    (CATALOG, "pg_rewrite"),
    ("information_schema", "triggers"),
];
const SCHEMA: &str = "loxo";
/// Those that are functions.
const FUNCTIONS: [&str; 2] = ["pg_trigger", "pg_rewrite"];

/// Where such a name stands.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Byte offset of the name, its schema's if that is there.
    start: usize,
    is_qualified: bool,
    is_function: bool,
}

/// The query string with other names in it, if it reads such a view.
pub(super) fn redirect(sql: &str, parsed: &ParseResult) -> Option<String> {
    let mut places: Vec<Place> = Vec::new();
    for node in parsed.stmts.iter().filter_map(|raw| query(raw.stmt.as_deref())) {
        places.extend(names_in(node));
    }
    if places.is_empty() {
        return None;
    }
    let tokens = scan::tokens(sql)?;
    places.sort_unstable();
    let mut changed = sql.to_owned();
    for Place { start, is_qualified, is_function } in places.into_iter().rev() {
        let at = tokens.iter().position(|token| token.start == start)?;
        let name = tokens.get(if is_qualified { at + 2 } else { at })?;
        if is_function {
            changed.insert_str(name.end, "()");
        }
        match is_qualified {
            true => changed.replace_range(start..tokens[at].end, SCHEMA),
            false => changed.insert_str(start, &format!("{SCHEMA}.")),
        }
    }
    Some(changed)
}

/// The part of a statement that reads tables. Other statements name the view without reading it, or make something of
/// that name.
pub(super) fn query(node: Option<&Node>) -> Option<&NodeEnum> {
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

/// The views' names. A WITH clause may define a bare one.
fn names_in(node: &NodeEnum) -> Vec<Place> {
    let (mut found, mut hidden) = (Vec::new(), Vec::new());
    let walked = node.walk(&mut |node| {
        match node {
            Ref::RangeVar(name) if name.catalogname.is_empty() => {
                let is_meant = |(schema, view): &&(&str, &str)| {
                    name.relname == *view
                        && (name.schemaname == *schema || (name.schemaname.is_empty() && *schema == CATALOG))
                };
                let start = usize::try_from(name.location).ok().filter(|_| VIEWS.iter().any(|view| is_meant(&view)));
                found.extend(start.map(|start| (start, name)));
            }
            Ref::CommonTableExpr(cte) => hidden.push(&cte.ctename),
            _ => {}
        }
        Ok(true)
    });
    if walked.is_err() {
        return Vec::new();
    }
    let is_hidden = |name: &RangeVar| name.schemaname.is_empty() && hidden.contains(&&name.relname);
    let place = |(start, name): (usize, &RangeVar)| Place {
        start,
        is_qualified: !name.schemaname.is_empty(),
        is_function: FUNCTIONS.contains(&name.relname.as_str()),
    };
    found.into_iter().filter(|(_, name)| !is_hidden(name)).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirected(sql: &str) -> Option<String> {
        redirect(sql, &pg_query::parse(sql, 0).unwrap().protobuf)
    }

    #[test]
    fn the_view_is_read_elsewhere() {
        let cases = [
            ("SELECT gid FROM pg_prepared_xacts", "SELECT gid FROM loxo.pg_prepared_xacts"),
            (
                "SELECT 'é', PG_Prepared_Xacts.gid FROM \"pg_catalog\" . PG_Prepared_Xacts; SELECT 1",
                "SELECT 'é', PG_Prepared_Xacts.gid FROM loxo . PG_Prepared_Xacts; SELECT 1",
            ),
            (
                "SELECT tgname FROM pg_catalog.pg_trigger t, pg_prepared_xacts, information_schema.triggers",
                "SELECT tgname FROM loxo.pg_trigger() t, loxo.pg_prepared_xacts, loxo.triggers",
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
            assert_eq!(redirected(sql).as_deref(), Some(expected));
        }
    }

    #[test]
    fn other_things_of_that_name_are_left_alone() {
        for sql in [
            "SELECT 'pg_prepared_xacts'::regclass",
            "SELECT * FROM mine.pg_trigger, triggers",
            "SELECT pg_prepared_xacts FROM t",
            "SELECT * FROM mine.pg_prepared_xacts",
            "WITH pg_prepared_xacts AS (SELECT 1) SELECT * FROM pg_prepared_xacts",
            "GRANT SELECT ON pg_prepared_xacts TO PUBLIC",
            "SELECT * FROM pg_prepared_statements",
        ] {
            assert_eq!(redirected(sql), None, "{sql}");
        }
    }
}
