//! Analysis for a role that may make no temporary objects, or in a transaction that must not touch them: the function is made
//! in a schema of its own.
//!
//! A function that proves a coordinator calls it makes the schema, which is the role's and is taken back with all the rest. So
//! the statement is still read with the role's own rights, in the transaction that knows what its names mean.

use catalog::{quote_identifier, quote_literal};
use pgerror::Result;

use super::{PRINTING, Place, READ_BACK, before_body};
use crate::backend::slot::Slot;
use crate::session::Session;
use crate::session::temp_names::MAY_MAKE_TEMPORARY;
use crate::shared::catalog_load::{Row, optional};

impl Session {
    pub(super) async fn may_make_temporary(&mut self, place: Place) -> Result<bool> {
        let (opening, end) = self.frame(place);
        let asked = self.ask_on(place.node(self.home), &format!("{opening}; {MAY_MAKE_TEMPORARY}; {end}"), end).await;
        self.leave(place);
        let rows = asked?;
        let answer = rows.last().map(|row| optional(row, 0)).transpose()?.flatten();
        let makes = answer != Some("f");
        self.note_makes_temp(makes);
        Ok(makes)
    }

    /// What [`READ_BACK`] gives for a function that [`create_function`](super::create_function) writes into the schema, and how many
    /// characters stood before the user's text.
    pub(super) async fn ask_without_temp(
        &mut self,
        create: impl Fn(&str) -> String,
        place: Place,
    ) -> Result<(Result<Vec<Row>>, usize)> {
        let (opening, end) = self.frame(place);
        let node = place.node(self.home);
        self.acquire_at(node).await?;
        let schema = self.open_schema(node, &opening).await;
        let schema = self.or_end(node, end, schema).await?;
        let opening = "SET LOCAL check_function_bodies = off; ";
        let create = create(&quote_identifier(&schema));
        let of = format!("{}::pg_catalog.regnamespace", quote_literal(&quote_identifier(&schema)));
        let whole = format!("{opening}{create}; {PRINTING}; {READ_BACK}{of}; {end}");
        Ok((self.ask_on(node, &whole, end).await, before_body(opening, &create)))
    }

    /// Opens the transaction to analyse in, and makes the schema; gives its name.
    async fn open_schema(&mut self, node: Slot, opening: &str) -> Result<String> {
        let seal = self.context.seal().await?;
        let leased = self.links.link(node)?;
        leased.flush().await?;
        leased.skip_preamble().await?;
        leased.link.connection.execute(opening).await?;
        seal.queue(&mut leased.link.connection, "make_schema", "SELECT loxo.make_schema($1)");
        leased.flush().await?;
        let rows = txn::seal::answer(&mut leased.link.connection).await?;
        Ok(rows.first().map(|row| optional(row, 0)).transpose()?.flatten().unwrap_or_default().to_owned())
    }

    /// Ends what was opened if it has failed.
    async fn or_end<T>(&mut self, node: Slot, end: &str, result: Result<T>) -> Result<T> {
        if result.is_err() {
            let connection = &mut self.links.link(node)?.link.connection;
            if connection.is_drained() && !connection.is_broken() {
                // If nothing was opened, there is nothing to end.
                let _ = connection.execute(end).await;
            }
        }
        result
    }
}
