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
use crate::tree::{self, Ask};

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

/// The query string with other names in it, if it reads such a view.
pub(super) fn redirect(sql: &str, parsed: &ParseResult) -> Option<String> {
    replaced(sql, parsed, |name| {
        let is_meant = |(schema, view): &&(&str, &str)| {
            name.relname == *view && (name.schemaname == *schema || (name.schemaname.is_empty() && *schema == CATALOG))
        };
        let (_, view) = VIEWS.iter().find(is_meant).filter(|_| name.catalogname.is_empty())?;
        Some(format!("{SCHEMA}.{view}{}", if FUNCTIONS.contains(view) { "()" } else { "" }))
    })
}

/// The query string with other texts in the place of names of tables; `None` if there is nothing to be replaced. A WITH clause may
/// define a bare name.
pub(super) fn replaced(sql: &str, parsed: &ParseResult, by: impl Fn(&RangeVar) -> Option<String>) -> Option<String> {
    let mut places = Vec::new();
    for node in parsed.stmts.iter().filter_map(|raw| query(raw.stmt.as_deref())) {
        let (Ok(hidden), Ok(names)) = (node.with_names(), node.tables()) else { continue };
        let is_hidden = |name: &RangeVar| name.schemaname.is_empty() && hidden.contains(&name.relname);
        for name in names.into_iter().filter(|name| !is_hidden(name)) {
            if let (Some(text), Ok(start)) = (by(name), usize::try_from(name.location)) {
                places.push((start, !name.schemaname.is_empty(), text));
            }
        }
    }
    if places.is_empty() {
        return None;
    }
    let tokens = scan::tokens(sql)?;
    places.sort_unstable_by_key(|(start, ..)| std::cmp::Reverse(*start));
    let mut changed = sql.to_owned();
    for (start, is_qualified, text) in places {
        let first = tokens.iter().position(|token| token.start == start)?;
        // A schema, a dot, and then the name.
        let last = tokens.get(if is_qualified { first + 2 } else { first })?;
        changed.replace_range(start..last.end, &text);
    }
    Some(changed)
}

/// The part of a statement that reads tables. Other statements name the view without reading it, or make something of
/// that name.
pub(super) fn query(node: Option<&Node>) -> Option<&NodeEnum> {
    let node = node?.node.as_ref()?;
    match node {
        node if tree::is_about_rows(node) => Some(node),
        NodeEnum::CopyStmt(copy) => query(copy.query.as_deref()),
        NodeEnum::ExplainStmt(explain) => query(explain.query.as_deref()),
        NodeEnum::PrepareStmt(prepare) => query(prepare.query.as_deref()),
        NodeEnum::DeclareCursorStmt(declare) => query(declare.query.as_deref()),
        NodeEnum::CreateTableAsStmt(create) => query(create.query.as_deref()),
        NodeEnum::ViewStmt(view) => query(view.query.as_deref()),
        _ => None,
    }
}
