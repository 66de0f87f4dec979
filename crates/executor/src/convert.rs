//! Asks PostgreSQL what a value means that the COPY transcoder does not know for sure.
//!
//! The type's own input function is called with the column's type modifier, as COPY does; a cast would silently cut a
//! text that is too long. The links of the COPY are busy, so a link of its own is used, with the session's settings
//! (DateStyle and TimeZone matter).

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use catalog::NodeId;
use copyfmt::Conversion;
use pgerror::{PgError, Result};
use pgproto::backend;

use crate::call::{Call, Event, Parameters};
use crate::context::Context;
use crate::held::Held;
use crate::output::frame_bodies;
use crate::pool::Identity;
use crate::session::Session;

const CSTRING_OID: u32 = 2275;

/// See the module's page. Connects when it is needed first.
pub(crate) struct Converter {
    context: Arc<Context>,
    identity: Identity,
    node: NodeId,
    settings: String,
    held: Option<Held>,
    /// Name, number of arguments, and the second argument of types' input functions.
    input_functions: HashMap<u32, (String, u32, String)>,
}

impl Converter {
    pub(crate) fn new(session: &Session, encoding: Option<&str>) -> Self {
        let mut settings = session.settings().replay();
        if let Some(encoding) = encoding {
            settings.push_str(&format!("; SET client_encoding TO {}", catalog::quote_literal(encoding)));
        }
        Self {
            context: session.context.clone(),
            identity: session.identity.clone(),
            node: session.home,
            settings,
            held: None,
            input_functions: HashMap::new(),
        }
    }

    /// The value in the type's send format, or PostgreSQL's error.
    pub(crate) async fn convert(&mut self, conversion: &Conversion) -> Result<Option<Bytes>> {
        let (value, types, format) = match conversion.is_binary {
            true => (self.cast(conversion).await?, conversion.type_oid, 1),
            false => (self.input_call(conversion).await?, CSTRING_OID, 0),
        };
        // A text would come back in the encoding it was sent in.
        let sql = match conversion.is_foreign {
            // Whatever the type, this answer can be sent.
            _ if conversion.is_check => format!("SELECT ({value}) IS NULL"),
            true => {
                format!("SELECT pg_catalog.convert_to(({value})::pg_catalog.text, pg_catalog.getdatabaseencoding())")
            }
            false => format!("SELECT {value}"),
        };
        let parameters = Parameters {
            types: vec![types],
            formats: vec![format],
            values: vec![conversion.value.as_deref().map(Bytes::copy_from_slice)],
        };
        let call = Call { parameters: Some(Arc::new(parameters)), result_formats: vec![1], ..Call::default() };
        let held = self.link().await?;
        held.start(&sql, &call, 0);
        held.flush().await?;
        let mut value = None;
        loop {
            match held.next().await? {
                Event::Done => return Ok(value),
                Event::Rows(run, _) => {
                    if let Some(body) = frame_bodies(&run).next() {
                        value = backend::decode_data_row(Bytes::copy_from_slice(body))?.into_iter().next().flatten();
                    }
                }
                _ => {}
            }
        }
    }

    /// Does the table have BEFORE ROW triggers? Then PostgreSQL puts each row into the indexes at once
    /// (`CopyFrom`, `CIM_SINGLE`). A table made in this transaction is not seen from here and counts as one without.
    pub(crate) async fn inserts_row_by_row(&mut self, table: &catalog::Relation) -> bool {
        // TRIGGER_TYPE_ROW, _BEFORE and _INSERT of `pg_trigger.h`.
        let sql = format!(
            "SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid = pg_catalog.to_regclass({}) AND tgtype & 7 = 7",
            catalog::quote_literal(&table.qualified_name())
        );
        self.one_row(&sql).await.is_ok_and(|row| row[0] != "0")
    }

    async fn cast(&mut self, conversion: &Conversion) -> Result<String> {
        let name = self
            .one_row(&format!("SELECT pg_catalog.format_type({}, {})", conversion.type_oid, conversion.type_modifier))
            .await?
            .swap_remove(0);
        Ok(format!("$1::{name}"))
    }

    async fn input_call(&mut self, conversion: &Conversion) -> Result<String> {
        let oid = conversion.type_oid;
        if !self.input_functions.contains_key(&oid) {
            let row = self
                .one_row(&format!(
                    "SELECT p.oid::pg_catalog.regproc, p.pronargs, \
                     CASE WHEN t.typelem <> 0 THEN t.typelem ELSE t.oid END FROM pg_catalog.pg_type t \
                     JOIN pg_catalog.pg_proc p ON p.oid = t.typinput WHERE t.oid = {oid}"
                ))
                .await?;
            let arguments = row[1].parse().unwrap_or(1);
            // What `getTypeIOParam` gives.
            self.input_functions.insert(oid, (row[0].clone(), arguments, row[2].clone()));
        }
        let (function, arguments, parameter) = &self.input_functions[&oid];
        Ok(match arguments {
            1 => format!("{function}($1)"),
            2 => format!("{function}($1, {parameter})"),
            _ => format!("{function}($1, {parameter}, {})", conversion.type_modifier),
        })
    }

    async fn one_row(&mut self, sql: &str) -> Result<Vec<String>> {
        let held = self.link().await?;
        let rows = held.link.connection.query_rows(sql).await?;
        let row = rows.into_iter().next().ok_or_else(|| PgError::internal("a type is not in pg_type"))?;
        Ok(row.into_iter().map(|v| String::from_utf8_lossy(&v.unwrap_or_default()).into_owned()).collect())
    }

    async fn link(&mut self) -> Result<&mut Held> {
        let held = match self.held.take() {
            Some(held) if !held.link.connection.is_broken() => held,
            _ => {
                let address = self.context.address(self.node)?;
                let mut link = self.context.pool.checkout(self.node, &address, &self.identity).await?;
                link.connection.execute(&self.settings).await?;
                // Not the settings of any session: whoever gets this link next sets its own.
                link.applied_settings = u64::MAX;
                Held::new(link)
            }
        };
        Ok(self.held.insert(held))
    }
}

impl Drop for Converter {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.context.pool.give_back(held.link);
        }
    }
}
