//! The rows of a query that the coordinator runs, as a query of constants: see [`planner::OfRows`].

use executor::Call;
use pgerror::Result;
use routine::array_text;

use super::host::ClientHost;
use super::lifted::rows_sql;
use crate::protocol::client::Client;
use crate::protocol::simple::text;

const UNKNOWN: u32 = 705;
const TEXT: u32 = 25;

impl Client {
    /// Runs the query with all its steps; gives one that has its rows, with their names and types.
    pub(crate) async fn kept_rows(&mut self, query: &str, call: &Call) -> Result<String> {
        let with = Call { describe: true, result_formats: Vec::new(), ..call.clone() };
        let (_, (fields, rows)) = self.captured(query, &with).await?;
        let mut columns = Vec::new();
        for (at, field) in fields.unwrap_or_default().iter().enumerate() {
            let oid = if field.type_oid == UNKNOWN { TEXT } else { field.type_oid };
            let of = ClientHost { client: self }.find_type(oid, field.type_modifier).await?.name;
            let name = catalog::quote_identifier(&String::from_utf8_lossy(&field.name));
            let values = array_text(rows.iter().map(|row| row.get(at).and_then(Option::as_deref)));
            // They become part of a text, which a coordinator reads in UTF-8.
            columns.push((name, of, catalog::quote_literal(text(&values)?)));
        }
        Ok(rows_sql(&columns, rows.len()))
    }
}
