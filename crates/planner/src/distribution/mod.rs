//! How the rows of a table are to be placed: by what its clause says or the default rule, as its constraints allow, and what gives way to them.
//!
//! ```text
//! clause ──> decide ──> placements          constraints ──> may every node enforce them on its own?
//!              └─> auto_replicate ──> redistribute: tables that nobody has placed become others
//! ```

pub(crate) mod auto_replicate;
pub(crate) mod constraints;
pub(crate) mod decide;
pub(crate) mod placements;
pub(crate) mod redistribute;
