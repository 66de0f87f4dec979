//! A prepared statement whose session has other settings by now: its constants are what they were when it was prepared.
//!
//! PostgreSQL reads `'2020-01-01 12:00'` once, when it analyses the text. A coordinator keeps the text. So PostgreSQL is asked for it
//! again under the settings of that time, and what it prints is read alike under all.

use catalog::{Oid, quote_identifier, quote_literal};
use pgerror::{PgError, Result, SqlState, field};
use planner::Statement;

use super::{MY_TEMP, PRINTING, Place, READ_BACK, analysis_of, create_function};
use crate::session::Session;

impl Session {
    /// The statement with its constants as these settings read them; `None` if it has none that they could be about.
    ///
    /// # Errors
    /// 0A000 if PostgreSQL cannot be asked.
    pub async fn read_under(
        &mut self,
        statement: &Statement,
        types: &[Oid],
        settings: &[(&str, &str)],
    ) -> Result<Option<Statement>> {
        if !statement.may_have_moments() {
            return Ok(None);
        }
        let Some(sql) = statement.to_analyse() else { return Ok(None) };
        let loaded = self.catalog().await?;
        let temporary = self.temp_relations().await?;
        let names = self.context.clone().type_names_of(&loaded.catalog, types).await?;
        let place = self.place_of_analysis(statement, &loaded.catalog, &temporary);
        let (Some(names), Some(place)) = (names, place) else { return Err(changed()) };
        let hides_temp = place == Place::Block && self.may_be_prepared();
        if statement.has_inner() || hides_temp || self.known_to_make_no_temp() {
            return Err(changed());
        }
        let (mut opening, end) = self.frame(place);
        for (name, value) in settings {
            opening.push_str(&format!("; SET LOCAL {} = {}", quote_identifier(name), quote_literal(value)));
        }
        let create = create_function("pg_temp", &sql, &names.join(", "));
        let whole = format!(
            "{opening}; SET LOCAL check_function_bodies = off; {create}; {PRINTING}; {READ_BACK}{MY_TEMP}; {end}"
        );
        let rows = self.ask_on(place.node(self.home), &whole, end).await;
        if place == Place::Block
            && let Some(leased) = self.links.get_mut(self.home)
        {
            leased.temp = true;
        }
        self.leave(place);
        let rows = rows.map_err(|error| match error.code() {
            // No right to make temporary objects, or a lock of the block's own.
            SqlState::INSUFFICIENT_PRIVILEGE | SqlState::LOCK_NOT_AVAILABLE => changed(),
            _ => error.without(field::POSITION),
        })?;
        let analysis = analysis_of(&rows, &[])?.qualified(&loaded.catalog, &temporary.hidden())?.as_written(&sql)?;
        planner::parse(&analysis.text_to_run()?).map(|statements| statements.into_iter().next())
    }
}

fn changed() -> PgError {
    PgError::unsupported(
        "a prepared statement with quoted constants, after its session has set another time zone or style of dates,",
    )
    .hint("Prepare it again.")
}
