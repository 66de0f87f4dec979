//! Reads over several nodes in one state of theirs.
//!
//! * [`optimistic_read`]: outside a block, in as few waits as a global snapshot allows.
//! * [`optimistic_few_rows`]: such a read that gathers few rows.
//! * [`bound_portals`]: inside a READ COMMITTED block, in its own sessions.
//! * [`bound_few_rows`]: such a read that gathers few rows.
//! * [`readers`]: by sessions beside a block, which may exchange rows for it.
//!
//! Invariant: no row goes on that was not read under one valid barrier, unless the session asks for no more (`loxo.snapshot = local`).

pub(crate) mod bound_few_rows;
pub(crate) mod bound_portals;
mod optimistic_few_rows;
pub(crate) mod optimistic_read;
pub(crate) mod readers;
