//! Temp tables of ours.
//!
//! * [`own_temp`]: made in backends that have the user's rights, and not always the right to make temp tables.
//! * [`placement`]: beside a block that may yet be PREPAREd, rather than in it.
//! * [`users_code`]: without code of users that runs where rows arrive.

pub(crate) mod own_temp;
pub(crate) mod placement;
pub(crate) mod users_code;
