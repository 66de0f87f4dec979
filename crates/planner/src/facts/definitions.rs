//! Definitions of views.

use catalog::{Persistence, Relation};
use pg_query::protobuf::SelectStmt;
use pgerror::{PgError, Result, SqlState};

use crate::tree::{self, Ask, WITH_ITEM};

pub(crate) fn definition(view: &Relation) -> Result<SelectStmt> {
    let mut select = printed(view)?;
    let items = select.with_names()?;
    let may_be_temporary = view.persistence == Persistence::Temporary;
    select.change_tables(|name| {
        match name.schemaname.is_empty() {
            true if items.contains(&name.relname) => name.relpersistence = WITH_ITEM.to_owned(),
            // The catalogs': where the definition stands, a WITH clause may have another of that name.
            true if !may_be_temporary => name.schemaname = "pg_catalog".to_owned(),
            _ => {}
        }
        Ok(())
    })?;
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
