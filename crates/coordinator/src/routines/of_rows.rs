//! The rows of a query that the coordinator runs, as a query of constants: see [`planner::OfRows`].

use executor::Call;
use pgerror::Result;
use routine::array_text;

use super::host::ClientHost;
use super::text;
use crate::client::Client;

const UNKNOWN: u32 = 705;
const TEXT: u32 = 25;

impl Client {
    /// Runs the query with all its steps; gives one that has its rows, with their names and types.
    pub(crate) async fn kept_rows(&mut self, query: &str, call: &Call) -> Result<String> {
        let with = Call { describe: true, result_formats: Vec::new(), ..call.clone() };
        let (_, (fields, rows)) = self.captured(query, &with).await?;
        let (mut values, mut arrays, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (at, field) in fields.unwrap_or_default().iter().enumerate() {
            let oid = if field.type_oid == UNKNOWN { TEXT } else { field.type_oid };
            let of = ClientHost { client: self }.find_type(oid, field.type_modifier).await?.name;
            let name = catalog::quote_identifier(&String::from_utf8_lossy(&field.name));
            let column = array_text(rows.iter().map(|row| row.get(at).and_then(Option::as_deref)));
            values.push(format!("CAST(v.v{at} AS {of}) AS {name}"));
            let literal = catalog::quote_literal(&text(column));
            arrays.push(format!("pg_catalog.unnest(CAST({literal} AS pg_catalog.text[]))"));
            names.push(format!("v{at}"));
        }
        Ok(match values.is_empty() {
            true => format!("SELECT FROM pg_catalog.generate_series(1, {})", rows.len()),
            false => {
                let [values, arrays, names] = [values, arrays, names].map(|list| list.join(", "));
                format!("SELECT {values} FROM ROWS FROM ({arrays}) AS v ({names})")
            }
        })
    }
}
