//! Columns that get their values by themselves.

/// `pg_attribute.attgenerated` and `attidentity`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Generated {
    No,
    Stored,
    Virtual,
    IdentityAlways,
    IdentityByDefault,
}

impl Generated {
    /// GENERATED … AS IDENTITY.
    pub fn is_identity(self) -> bool {
        matches!(self, Self::IdentityAlways | Self::IdentityByDefault)
    }

    /// From the row's other columns.
    pub fn is_computed(self) -> bool {
        matches!(self, Self::Stored | Self::Virtual)
    }
}
