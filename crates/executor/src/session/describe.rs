//! What PostgreSQL says of a statement before it runs: its parameters and columns.

use pgerror::Result;
use pgproto::backend::Field;
use planner::{Parameter, ParameterValue};

use crate::backend::call::Call;
use crate::backend::slot::Slot;
use crate::session::Session;

/// Parameter types and result columns of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Types of `$1`, `$2`, ….
    pub parameters: Vec<u32>,
    /// `None` for a statement that gives no rows.
    pub fields: Option<Vec<Field>>,
}

impl Session {
    /// Parses and describes a statement on the home node, where every table exists: PostgreSQL's own errors, types and names.
    pub async fn describe(&mut self, sql: &str, types: &[u32]) -> Result<Description> {
        let home = self.home;
        self.acquire_to_ask(home).await?;
        let leased = self.links.link(home)?;
        leased.start_describe(sql, types);
        leased.flush().await?;
        let result = leased.read_description().await;
        self.release();
        let (parameters, fields) = result?;
        Ok(Description { parameters, fields })
    }

    /// Result columns of a text on a node.
    pub async fn describe_on(&mut self, slot: impl Into<Slot>, sql: &str) -> Result<Option<Vec<Field>>> {
        let slot = slot.into();
        self.acquire_to_ask(slot).await?;
        let leased = self.links.link(slot)?;
        leased.start_describe(sql, &[]);
        leased.flush().await?;
        let (_, fields) = leased.read_description().await?;
        Ok(fields)
    }
}

pub(crate) fn parameter_facts<'a>(call: &'a Call, known: Option<&Description>) -> Vec<Parameter<'a>> {
    let Some(parameters) = &call.parameters else { return Vec::new() };
    let count = parameters.values.len().max(parameters.types.len());
    (0..count)
        .map(|i| {
            let declared = parameters.types.get(i).copied().unwrap_or(0);
            let described = known.and_then(|description| description.parameters.get(i)).copied().unwrap_or(0);
            let binary = match parameters.formats.as_slice() {
                [] => false,
                [all] => *all == 1,
                each => each.get(i) == Some(&1),
            };
            let value = match parameters.values.get(i) {
                None => ParameterValue::Unknown,
                Some(None) => ParameterValue::Null,
                Some(Some(bytes)) if binary => ParameterValue::Binary(bytes),
                Some(Some(bytes)) => ParameterValue::Text(bytes),
            };
            Parameter { type_oid: if described != 0 { described } else { declared }, value }
        })
        .collect()
}
