//! The wire between client and coordinator: from the first byte to the last ReadyForQuery.
//!
//! * [`listener`]: accepts; [`startup`]: authenticates; [`client`]: the message loop and what both protocols share.
//! * [`simple`], [`extended`], [`function_call`]: the three ways to send a statement; [`prepared`]: statements and portals;
//!   [`insert_batches`]: executions of one INSERT that go together.
//!
//! Invariant: every message is answered as PostgreSQL would answer it, one ReadyForQuery for each Query or Sync.

pub(crate) mod client;
pub(crate) mod extended;
pub(crate) mod function_call;
pub(crate) mod insert_batches;
pub(crate) mod listener;
pub(crate) mod prepared;
pub(crate) mod simple;
pub(crate) mod startup;
