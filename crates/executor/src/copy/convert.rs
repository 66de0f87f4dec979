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
use pgerror::{PgError, Result, field};
use pgproto::backend;

use crate::backend::call::Call;
use crate::backend::call::Parameters;
use crate::backend::leased::LeasedConnection;
use crate::backend::pool::Identity;
use crate::backend::pool::login::Login;
use crate::backend::request::Event;
use crate::backend::request::frame_bodies;
use crate::backend::settings::Settings;
use crate::session::Session;
use crate::shared::context::Context;

const CSTRING_OID: u32 = 2275;

/// See the module's page. Connects when it is needed first.
pub(crate) struct Converter {
    context: Arc<Context>,
    identity: Identity,
    node: NodeId,
    login: Arc<Login>,
    settings: Settings,
    encoding: Option<String>,
    leased: Option<LeasedConnection>,
    input_functions: HashMap<u32, InputFunction>,
}

/// A type's input function, with its number of arguments and its second argument.
struct InputFunction {
    name: String,
    arguments: u32,
    parameter: String,
    /// For a domain: the function is that of the type below it, with this modifier.
    base_modifier: Option<String>,
}

impl Converter {
    pub(crate) fn new(session: &Session, encoding: Option<&str>) -> Self {
        Self {
            context: session.context.clone(),
            identity: session.identity().clone(),
            node: session.home,
            login: session.links.known_login().cloned().unwrap_or_default(),
            settings: session.settings().clone(),
            encoding: encoding.map(str::to_owned),
            leased: None,
            input_functions: HashMap::new(),
        }
    }

    /// The value in the type's send format, or PostgreSQL's error.
    pub(crate) async fn convert(&mut self, conversion: &Conversion) -> Result<Option<Bytes>> {
        self.ask(conversion).await.map_err(without_portal)
    }

    async fn ask(&mut self, conversion: &Conversion) -> Result<Option<Bytes>> {
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
        let leased = self.link().await?;
        leased.start(&sql, &call, 0);
        leased.flush().await?;
        let mut value = None;
        loop {
            match leased.next().await? {
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

    /// A call of the type's input function; of a domain that of the type below it, once the domain has taken the value: what
    /// `domain_in` gives has no type and cannot be sent.
    async fn input_call(&mut self, conversion: &Conversion) -> Result<String> {
        let oid = conversion.type_oid;
        if !self.input_functions.contains_key(&oid) {
            let function = self.input_function(oid).await?;
            self.input_functions.insert(oid, function);
        }
        let InputFunction { name, arguments, parameter, base_modifier } = &self.input_functions[&oid];
        let modifier = base_modifier.as_deref().map_or_else(|| conversion.type_modifier.to_string(), str::to_owned);
        let call = match arguments {
            1 => format!("{name}($1)"),
            2 => format!("{name}($1, {parameter})"),
            _ => format!("{name}($1, {parameter}, {modifier})"),
        };
        Ok(match base_modifier {
            Some(_) => format!("CASE WHEN (pg_catalog.domain_in($1, {oid}, -1)) IS NOT NULL THEN {call} END"),
            None => call,
        })
    }

    async fn input_function(&mut self, oid: u32) -> Result<InputFunction> {
        // The parameter is what `getTypeIOParam` gives, the modifier that of `getBaseTypeAndTypmod`.
        let row = self
            .one_row(&format!(
                "WITH RECURSIVE base (oid, modifier) AS (SELECT {oid}::pg_catalog.oid, -1 UNION ALL \
                 SELECT t.typbasetype, t.typtypmod FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.oid \
                 WHERE t.typtype = 'd') \
                 SELECT p.oid::pg_catalog.regproc, p.pronargs, \
                 CASE WHEN t.typelem <> 0 THEN t.typelem ELSE t.oid END, b.modifier, t.oid <> {oid} FROM base b \
                 JOIN pg_catalog.pg_type t ON t.oid = b.oid AND t.typtype <> 'd' \
                 JOIN pg_catalog.pg_proc p ON p.oid = t.typinput"
            ))
            .await?;
        let mut row = row.into_iter();
        let mut next = || row.next().unwrap_or_default();
        let (name, arguments, parameter, modifier) = (next(), next().parse().unwrap_or(1), next(), next());
        let is_domain = next() == "t";
        Ok(InputFunction { name, arguments, parameter, base_modifier: is_domain.then_some(modifier) })
    }

    async fn one_row(&mut self, sql: &str) -> Result<Vec<String>> {
        let leased = self.link().await?;
        let rows = leased.link.connection.query_rows(&planner::own_text(sql)?).await?;
        let row = rows.into_iter().next().ok_or_else(|| PgError::internal("a type is not in pg_type"))?;
        Ok(row.into_iter().map(|v| String::from_utf8_lossy(&v.unwrap_or_default()).into_owned()).collect())
    }

    async fn link(&mut self) -> Result<&mut LeasedConnection> {
        let leased = match self.leased.take() {
            Some(leased) if !leased.link.connection.is_broken() => leased,
            _ => {
                let mut link = {
                    let known = self.settings.placeholders();
                    self.context.link_for(self.node, &self.identity, &self.login, known, None).await?
                };
                link.hears_of(&self.settings);
                let first = self.login.commands_on(&link.login);
                link.connection.execute(&self.settings.replay_after(&first)).await?;
                if let Some(encoding) = &self.encoding {
                    let encoding = catalog::quote_literal(encoding);
                    link.connection.execute(&format!("SET client_encoding TO {encoding}")).await?;
                }
                // Not the settings of any session: the session that gets this link next sets its own.
                link.applied_settings = u64::MAX;
                LeasedConnection::new(link)
            }
        };
        Ok(self.leased.insert(leased))
    }
}

/// That the value was a parameter of ours is no news for the user.
fn without_portal(error: PgError) -> PgError {
    let context = error.get(field::WHERE).unwrap_or_default();
    match context.strip_suffix(b"unnamed portal parameter $1").map(<[u8]>::trim_ascii_end) {
        Some([]) => error.without(field::WHERE),
        Some(rest) => {
            let rest = rest.to_vec();
            error.with(field::WHERE, rest)
        }
        None => error,
    }
}

impl Drop for Converter {
    fn drop(&mut self) {
        if let Some(leased) = self.leased.take() {
            self.context.pool.give_back(leased.link);
        }
    }
}
