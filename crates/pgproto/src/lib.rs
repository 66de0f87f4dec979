//! PostgreSQL's wire protocol 3, both ends.
//!
//! ```text
//!  bytes ── FrameReader ──> Frame (tag, body)  ── decode ──> typed views of the body
//!  typed arguments ── frontend / backend ──> bytes in a BytesMut ── FrameWriter ──> socket
//! ```
//!
//! * [`frame`]: framing over any byte stream; a run of equal frames (DataRow, CopyData) can be taken as one slice.
//! * [`frontend`]: messages a client sends (builders) and their decoding on the server side.
//! * [`backend`]: messages a server sends (builders) and their decoding on the client side.
//! * [`connection`]: a connection to a datanode as a state machine that owns its socket; no task of its own.
//! * [`tls`]: what a server must show before anything is said to it, as `sslmode` has it; TLS among our own processes.
//! * [`hba`]: which rule is for a client, and how it must authenticate.
//! * [`kept`]: the password of a process, which may be changed while it runs.
//! * [`scram`]: SCRAM-SHA-256, both ends, so that a session can log in to a datanode with what the client proved.
//!
//! Invariants: nothing is made UTF-8 on the way; a frame longer than [`frame::FRAME_BYTES_MAX`] is refused before memory is
//! taken for it; a [`Connection`] whose protocol state is unknown (an I/O error, an answer not read to its end)
//! is broken for good and says so.

pub mod backend;
mod cancel;
pub mod connection;
mod dial;
pub mod frame;
pub mod frontend;
pub mod hba;
pub mod kept;
mod reported;
pub mod scram;
pub mod tls;
mod unix;
pub mod x509;

pub use cancel::CancelKey;
pub use connection::{ConnectOptions, Connection, Proof, Question, Rows, TransactionStatus};
pub use frame::{Frame, FrameReader, FrameWriter};
pub use tls::Encryption;

/// An object id as it stands in messages.
pub type Oid = u32;
