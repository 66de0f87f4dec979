//! The bytes of COPY: rows in any format and any chunking → rows for each datanode.
//!
//! ```text
//!              push(chunk)                        step(&mut outputs)
//!  client ───▶ encoding check ─▶ line scanner ─▶ fields ─▶ convert ─▶ place ─▶ outputs[destination] ─▶ datanode
//!   or file        (utf8)           (scan)      (fields)  (convert)  (place)
//!                       └──────────── fast lane (fast) ──────────┘
//! ```
//!
//! A [`Router`] is a pull state machine: the caller pushes chunks cut anywhere, calls [`Router::step`] until it asks for
//! more, and sends a buffer away when it is full. Text and CSV rows are transcoded to binary tuples ([`Output::Binary`])
//! or forwarded as they came ([`Output::Raw`]); binary rows are split by their length words.
//!
//! The fast lane's work can be done ahead by other threads, which the caller has: see [`Cutter`] and [`ParallelParse`].
//!
//! Invariants:
//! * The rows and the errors (message, SQLSTATE, CONTEXT) are those of PostgreSQL's `copyfromparse.c` in the version
//!   that the spec names, whatever the chunking.
//! * A value whose meaning we do not know for sure is never guessed: [`Step::Convert`] asks PostgreSQL.
//! * The fast lane accepts a subset of what the slow lane accepts, with the same result; so does what is done ahead.
//! * Nothing is allocated per row; memory is the outputs, one partial row (at most 1 GiB), the [`LineLog`] and the last 16 MiB
//!   of a client's input.
//!
//! Errors that a datanode finds when it stores a row (NOT NULL, CHECK, a trigger) have `COPY t, line N: "the row"` as
//! CONTEXT in text and CSV, and `COPY t, line N` in binary; those of an index have the latter always. So after
//! transcoding the row's text is missing from such a CONTEXT: [`Router::recent_line`] finds it in the input kept for
//! that, [`Router::line_finder`] in a file that is read again, and [`Router::quote_line`] puts it in. The same for a value of json
//! or jsonb, which only the datanode reads. If the router refuses a row behind such a value, PostgreSQL would have read that
//! first: [`Router::unread`].
//!
//! Absent on purpose: sockets, files, threads, SQL parsing, knowledge of which tables exist.

mod binary;
mod convert;
mod fast;
mod fields;
mod input;
mod lines;
mod options;
mod parallel;
mod place;
mod router;
mod scan;
mod spec;
mod stops;
mod utf8;

pub use binary::{BINARY_HEADER, BINARY_TRAILER, BinaryError, BinaryItem, BinarySplitter, tuple_fields};
pub use convert::transcodable;
pub use fields::fields_of;
pub use lines::context::{line_of, renumber};
pub use lines::history::LineFinder;
pub use lines::linelog::{LineLog, RowLines};
pub use options::{CopyOptions, ForceColumns, Format, Header, OnError, OptionValue};
pub use parallel::{BLOCK_BYTES, Cutter, ParallelParse};
pub use router::checks::reads_clock;
pub use router::{Conversion, Router, Step};
pub use scan::{Eol, LineScanner, Scan};
pub use spec::{CopyColumn, KeyPart, KeyValue, Output, RouterSpec, Routing, Source};
pub use utf8::{can_split, check_line};
