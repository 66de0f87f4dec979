//! Definitions of views.

use catalog::Relation;
use pg_query::protobuf::SelectStmt;
use pgerror::{PgError, Result, SqlState};

use crate::tree::{self, Ask, WITH_ITEM};

pub(crate) fn definition(view: &Relation) -> Result<SelectStmt> {
    let mut select = printed(view)?;
    let items = select.with_names()?;
    if !items.is_empty() {
        select.change_tables(|name| {
            if name.schemaname.is_empty() && items.contains(&name.relname) {
                name.relpersistence = WITH_ITEM.to_owned();
            }
            Ok(())
        })?;
    }
    Ok(select)
}

fn printed(view: &Relation) -> Result<SelectStmt> {
    let text = view.view_definition.as_deref().unwrap_or_default();
    let unreadable = |error: PgError| {
        PgError::unsupported(format!(
            "view \"{}\", which PostgreSQL prints in words that it does not read itself,",
            view.name
        ))
        .detail(error.message())
        .hint("The marks of CYCLE can be text, numbers and booleans.")
    };
    tree::parse_select(text.trim_end().trim_end_matches(';')).map_err(|error| match error.code() {
        SqlState::INTERNAL_ERROR => unreadable(error),
        _ => error,
    })
}
