//! Parameters like `now` or `today 04:05` in text form, which each node would read by its own clock.
//!
//! The node whose time counts reads them once and gives them as values in binary form, which are the same everywhere. Texts of digits
//! and punctuation need none of that: for them a statement pays one look at their bytes.

use std::sync::Arc;

use bytes::Bytes;
use catalog::Oid;
use pgerror::{PgError, Result};
use pgproto::backend;
use planner::{Moment, Plan};

use crate::backend::call::{Call, Parameters};
use crate::backend::own_statements::NOW;
use crate::backend::request::{Event, frame_bodies};
use crate::session::Session;

/// The type of parameters that are not read.
const TEXT: Oid = 25;

impl Session {
    /// Is there a parameter that may be read by the clock?
    pub fn gives_moments(&self, call: &Call) -> bool {
        call.moments(|oid| self.below_domains(oid)).next().is_some()
    }

    /// Does the plan leave it to one node, which is the one whose time counts?
    pub fn reads_moments_by(&self, plan: &Plan) -> bool {
        let clock = self.clock();
        matches!(plan.change(), Plan::Forward(forward) if clock.is_none_or(|clock| clock == self.choose(&forward.nodes)))
    }

    /// The call with these parameters as one node reads them.
    pub async fn with_moments_read(&mut self, call: &Call) -> Result<Call> {
        let wanted: Vec<(usize, Oid)> = call.moments(|oid| self.below_domains(oid)).collect();
        let count = call.parameters.as_ref().map_or(0, |parameters| parameters.values.len());
        let mut given = call.own_parameters(count);
        let mut asked = Parameters { types: vec![TEXT; count], formats: Vec::new(), values: vec![None; count] };
        for (at, oid) in &wanted {
            asked.types[*at] = *oid;
            asked.values[*at] = given.values[*at].take();
        }
        let list: Vec<String> = wanted.iter().map(|(at, _)| format!("${}", at + 1)).collect();
        let sql = format!("SELECT {}, {NOW}", list.join(", "));
        let ask = Call { parameters: Some(Arc::new(asked)), result_formats: vec![1], one_off: true, ..Call::default() };
        let mut values = self.row_of(&sql, &ask).await?.into_iter();
        for (at, _) in &wanted {
            given.values[*at] = values.next().flatten();
            given.formats[*at] = 1;
        }
        let now = String::from_utf8_lossy(&values.next().flatten().unwrap_or_default()).into_owned();
        // In a block all statements have that time anyway.
        let now = (!self.in_block()).then(|| Arc::new(Moment { transaction: now.clone(), statement: now }));
        Ok(Call { parameters: Some(Arc::new(given)), now, ..call.clone() })
    }

    /// The only row of a query, of the node whose time counts.
    async fn row_of(&mut self, sql: &str, call: &Call) -> Result<Vec<Option<Bytes>>> {
        let node = self.clock().unwrap_or(self.home);
        self.acquire_to_ask(node).await?;
        let leased = self.links.link(node)?;
        leased.start(sql, call, self.schema_version);
        leased.flush().await?;
        let mut row = None;
        loop {
            match leased.next().await? {
                Event::Done => break,
                Event::Rows(run, _) => {
                    let body = frame_bodies(&run).next().map(Bytes::copy_from_slice);
                    row = body.map(backend::decode_data_row).transpose()?;
                }
                _ => {}
            }
        }
        self.release();
        row.ok_or_else(|| PgError::internal("a node has read no parameter"))
    }
}
