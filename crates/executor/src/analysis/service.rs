//! Analysis for a role that may make no temporary objects: the service user analyses what it has written, as if under its settings.
//!
//! The text comes from a user and the link is a superuser's, so it travels in a Parse message of its own: PostgreSQL takes no more than
//! one statement there, and that one makes a function which nobody runs. What the role itself may not name (a schema it has no
//! right to) PostgreSQL has refused before.

use pgerror::{PgError, Result};
use pgproto::Connection;
use pgproto::frontend;

use super::{PRINTING, Place, READ_BACK};
use crate::load::{Row, optional};
use crate::session::{BESIDE, Session};

/// As SQL, all settings of a session that may say how a text is read: whatever was not left as the server has it, and the search
/// path without what is temporary.
const SETTINGS: &str = "SELECT pg_catalog.concat_ws('; ', \
       (SELECT pg_catalog.string_agg(pg_catalog.format('SELECT pg_catalog.set_config(%L, %L, true)', name, setting), '; ') \
        FROM pg_catalog.pg_settings WHERE context OPERATOR(pg_catalog.=) ANY ('{user,superuser}') \
          AND source OPERATOR(pg_catalog.=) ANY ('{client,database,user,database user,session}') \
          AND name OPERATOR(pg_catalog.<>) 'search_path' AND name OPERATOR(pg_catalog.!~) '^transaction_'), \
       pg_catalog.format('SET LOCAL search_path = %s', coalesce((SELECT pg_catalog.string_agg(pg_catalog.quote_ident(name), ', ') \
        FROM pg_catalog.unnest(pg_catalog.current_schemas(true)) AS name WHERE name OPERATOR(pg_catalog.!~) '^pg_temp'), '''''')))";

const MAY_MAKE_TEMPORARY: &str = "SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMP')";

impl Session {
    pub(super) async fn may_make_temporary(&mut self, place: Place) -> Result<bool> {
        let rows = self.asked_at(place, MAY_MAKE_TEMPORARY).await?;
        let answer = rows.last().map(|row| optional(row, 0)).transpose()?.flatten();
        Ok(answer != Some("f"))
    }

    async fn asked_at(&mut self, place: Place, sql: &str) -> Result<Vec<Row>> {
        let (opening, end) = self.frame(place);
        let node = if place == Place::Beside { BESIDE } else { self.home };
        let asked = self.ask_on(node, &format!("{opening}; {sql}; {end}"), end).await;
        if place == Place::Beside {
            self.let_go(BESIDE);
        }
        asked
    }

    /// What [`READ_BACK`] gives for a function that [`create_function`](super::create_function) has written.
    pub(super) async fn ask_as_service(&mut self, create: &str, place: Place) -> Result<Vec<Row>> {
        let rows = self.asked_at(place, SETTINGS).await?;
        let settings = rows.last().map(|row| optional(row, 0)).transpose()?.flatten();
        let settings = settings.ok_or_else(|| PgError::internal("settings without an answer"))?;
        let context = self.context.clone();
        let mut link = context.service_link(self.home).await?;
        let begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
        let result = match link.connection.execute(&format!("{begin}; {settings}")).await {
            Ok(_) => made_and_read(&mut link.connection, create).await,
            Err(error) => Err(error),
        };
        let ended = link.connection.execute("ROLLBACK").await;
        link.connection.take_notices();
        context.pool.give_back(link);
        ended?;
        result
    }
}

async fn made_and_read(connection: &mut Connection, create: &str) -> Result<Vec<Row>> {
    connection.execute("SET LOCAL check_function_bodies = off").await?;
    frontend::parse(connection.out(), b"", create.as_bytes(), &[]);
    frontend::bind(connection.out(), &frontend::Bind::default());
    frontend::execute(connection.out(), b"", 0);
    connection.sync();
    connection.flush().await?;
    connection.read_rows().await?;
    connection.query_rows(&format!("{PRINTING}; {READ_BACK}")).await
}
