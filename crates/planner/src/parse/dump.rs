//! What pg_dump reads by way of a coordinator: the catalogs without what is ours, since the cluster that a dump goes to has its own.
//!
//! A sub-select takes the place of each such catalog in FROM. Views would not do: pg_dump has the server refuse all but its
//! own (`restrict_nonsystem_relation_kind`), so that no view of a user's is run in its name.

use std::borrow::Cow;

use pg_query::protobuf::RangeVar;

use super::system_views::{aliased, ours, replaced};

/// A catalog, and which of its rows are not ours.
const CATALOGS: [(&str, &str); 7] = [
    ("pg_namespace", "SELECT n.*, n.tableoid FROM pg_catalog.pg_namespace n WHERE n.nspname <> 'loxo'"),
    ("pg_class", "SELECT c.*, c.tableoid FROM pg_catalog.pg_class c WHERE c.relnamespace <> 'loxo'::regnamespace"),
    ("pg_proc", "SELECT p.*, p.tableoid FROM pg_catalog.pg_proc p WHERE p.pronamespace <> 'loxo'::regnamespace"),
    ("pg_type", "SELECT t.*, t.tableoid FROM pg_catalog.pg_type t WHERE t.typnamespace <> 'loxo'::regnamespace"),
    (
        "pg_rewrite",
        "SELECT r.* FROM loxo.pg_rewrite() r JOIN pg_catalog.pg_class c ON c.oid = r.ev_class \
         WHERE c.relnamespace <> 'loxo'::regnamespace",
    ),
    ("pg_trigger", "SELECT * FROM loxo.pg_trigger()"),
    ("pg_seclabels", LABELS),
];

/// The clauses that tables were made with are labels in a dump, which a coordinator reads back.
const LABELS: &str = include_str!("../../sql/labels.sql");

/// The query string as pg_dump should have asked it.
pub(super) fn without_ours(sql: &str) -> Cow<'_, str> {
    let rows_of = |name: &RangeVar| {
        let is_ours = matches!(name.schemaname.as_str(), "" | "pg_catalog");
        let (_, rows) = CATALOGS.iter().find(|(catalog, _)| *catalog == name.relname).filter(|_| is_ours)?;
        Some(aliased(&format!("({rows})"), name))
    };
    let parsed = pg_query::parse(sql, 0).ok();
    let changed = parsed.and_then(|parsed| replaced(sql, &parsed.protobuf, |name, _| rows_of(name), ours));
    changed.map_or(Cow::Borrowed(sql), Cow::Owned)
}
