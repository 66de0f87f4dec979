//! What pg_dump reads by way of a coordinator: the catalogs without what is ours, since the cluster that a dump goes to has its own.
//!
//! A sub-select takes the place of each such catalog in FROM. Views would not do: pg_dump has the server refuse all but its
//! own (`restrict_nonsystem_relation_kind`), so that no view of a user's is run in its name.

use std::borrow::Cow;

use super::system_views::{replaced, system_view};

/// The query string as pg_dump should have asked it.
pub(super) fn without_ours(sql: &str) -> Cow<'_, str> {
    let parsed = pg_query::parse(sql, 0).ok();
    let changed = parsed.and_then(|parsed| replaced(sql, &parsed.protobuf, |name, _| system_view(name).in_dump()));
    changed.map_or(Cow::Borrowed(sql), Cow::Owned)
}
