//! Which line of the input a row was, for the CONTEXT of an error.
//!
//! * [`linelog`]: which input line was the n-th sent to a datanode; [`batches`]: where one PostgreSQL would have stored what it had.
//! * [`context`]: the CONTEXT itself; [`history`]: the text of a line that is long gone.
//!
//! Invariants: nothing is allocated per row, and of a row nothing is kept but one varint; the text of at most the last 16 MiB is.

pub(crate) mod batches;
pub(crate) mod context;
pub(crate) mod history;
pub(crate) mod linelog;
