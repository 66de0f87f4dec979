//! What pg_dump reads by way of a coordinator: the catalogs without what is ours, since the cluster that a dump goes to has its own.
//!
//! A sub-select takes the place of each such catalog in FROM. Views would not do: pg_dump has the server refuse all but its
//! own (`restrict_nonsystem_relation_kind`), so that no view of a user's is run in its name.

use std::borrow::Cow;

use super::scan;
use super::system_views::query;
use crate::tree::{Ref, Walk};

/// A catalog, and which of its rows are not ours.
const CATALOGS: [(&str, &str); 6] = [
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
];

/// A catalog's name in a text.
struct Place {
    start: usize,
    is_qualified: bool,
    has_alias: bool,
    /// In [`CATALOGS`].
    catalog: usize,
}

/// The query string as pg_dump should have asked it.
pub(super) fn without_ours(sql: &str) -> Cow<'_, str> {
    match places(sql) {
        Some(places) if !places.is_empty() => rewritten(sql, places).map_or(Cow::Borrowed(sql), Cow::Owned),
        _ => Cow::Borrowed(sql),
    }
}

fn places(sql: &str) -> Option<Vec<Place>> {
    let parsed = pg_query::parse(sql, 0).ok()?;
    let mut places = Vec::new();
    for statement in parsed.protobuf.stmts.iter().filter_map(|raw| query(raw.stmt.as_deref())) {
        let walked = statement.walk(&mut |node| {
            if let Ref::RangeVar(name) = node
                && matches!(name.schemaname.as_str(), "" | "pg_catalog")
                && let Some(catalog) = CATALOGS.iter().position(|(catalog, _)| *catalog == name.relname)
                && let Ok(start) = usize::try_from(name.location)
            {
                let is_qualified = !name.schemaname.is_empty();
                places.push(Place { start, is_qualified, has_alias: name.alias.is_some(), catalog });
            }
            Ok(true)
        });
        walked.ok()?;
    }
    places.sort_unstable_by_key(|place| std::cmp::Reverse(place.start));
    Some(places)
}

fn rewritten(sql: &str, places: Vec<Place>) -> Option<String> {
    let tokens = scan::tokens(sql)?;
    let mut changed = sql.to_owned();
    for place in places {
        let first = tokens.iter().position(|token| token.start == place.start)?;
        // A schema, a dot, and then the name.
        let name = tokens.get(if place.is_qualified { first + 2 } else { first })?;
        let (catalog, rows) = CATALOGS[place.catalog];
        let alias = if place.has_alias { String::new() } else { format!(" AS {catalog}") };
        changed.replace_range(place.start..name.end, &format!("({rows}){alias}"));
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_sees_nothing_of_ours() {
        let sql = "PREPARE p(oid) AS SELECT n.tableoid, 'pg_class'::regclass FROM pg_namespace n, pg_attribute, pg_catalog.pg_class";
        let [(_, namespaces), (_, classes), ..] = CATALOGS;
        let seen = format!(
            "PREPARE p(oid) AS SELECT n.tableoid, 'pg_class'::regclass FROM ({namespaces}) n, pg_attribute, ({classes}) AS pg_class"
        );
        assert_eq!(without_ours(sql), seen);
    }

    #[test]
    fn other_texts_stay() {
        for sql in ["SELECT 1 FROM pg_index", "LOCK TABLE public.pg_class", "SELECT * FROM public.pg_class", "not SQL"]
        {
            assert_eq!(without_ours(sql), sql);
        }
    }
}
