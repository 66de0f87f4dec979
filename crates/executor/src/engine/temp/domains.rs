//! Values of domains on their way into temp tables of ours.
//!
//! PostgreSQL checks a value against its domain when it is made, not when it is read. One that is stored may be older than a constraint
//! `NOT VALID`, and an outer join makes nulls of a domain that is NOT NULL. COPY checks all that it stores: so while rows of other
//! backends come to a temp table, its columns have the types underneath. A value is stored as one of these is.

use catalog::{Catalog, Oid};
use pgerror::Result;
use pgproto::backend::Field;

use crate::backend::own_calls::OwnCall;
use crate::backend::slot::{Slot, slots};
use crate::session::Session;

/// Types with such numbers are users', another one on each node.
const FIRST_USER_OID: Oid = 16_384;

/// What [`Session::restore_domains`] has to do on each node.
#[derive(Default)]
pub(crate) struct Bared(Vec<(Slot, String)>);

impl Session {
    pub(crate) async fn may_have_domains(&mut self, columns: &[Field]) -> Result<bool> {
        Ok(has_domains_over(&self.catalog().await?.catalog, columns))
    }

    /// Before rows of these columns are copied into a temp table on some nodes.
    pub(crate) async fn bare_domains(
        &mut self,
        nodes: &[impl Copy + Into<Slot>],
        table: &str,
        columns: &[Field],
    ) -> Result<Bared> {
        let mut bared = Bared::default();
        if !self.may_have_domains(columns).await? {
            return Ok(bared);
        }
        let name = catalog::quote_literal(table);
        for slot in slots(nodes) {
            let domains = self.call_on(slot, &[OwnCall::new("bare_domains", name.as_str())]).await?;
            bared.0.extend(domains.map(|domains| (slot, String::from_utf8_lossy(&domains).into_owned())));
        }
        Ok(bared)
    }

    /// When all rows are there.
    pub(crate) async fn restore_domains(&mut self, table: &str, bared: Bared) -> Result<()> {
        for (slot, domains) in bared.0 {
            let arguments = format!("{}, {}", catalog::quote_literal(table), catalog::quote_literal(&domains));
            self.call_on(slot, &[OwnCall::new("restore_domains", arguments)]).await?;
        }
        Ok(())
    }
}

/// PostgreSQL describes a column by the type under its domain.
fn has_domains_over(catalog: &Catalog, columns: &[Field]) -> bool {
    let is_over = |base: Oid| {
        columns
            .iter()
            .any(|column| column.type_oid == base || (column.type_oid >= FIRST_USER_OID && base >= FIRST_USER_OID))
    };
    catalog.user_types().any(|of| of.kind == 'd' && is_over(catalog.value_type(of.oid, -1).0))
}
