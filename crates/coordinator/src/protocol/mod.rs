//! The wire between client and coordinator, and what the protocol has names for.
//!
//! * [`startup`]: from the first byte to a session that is logged in, with the settings of [`startup_settings`].
//! * [`socket`]: messages from and to the client, and the watch for one that hangs up.
//! * [`prepared`], [`portals`]: statements and bound statements by name.
//!
//! Invariant: nothing here runs a statement. An answer is put into the socket's buffer in the order in which it is to be read.

use pgerror::{PgError, Result, SqlState};

pub(crate) mod portals;
pub(crate) mod prepared;
pub(crate) mod socket;
pub(crate) mod startup;
pub(crate) mod startup_settings;

/// Statement text as UTF-8. Bytes of another client encoding cannot be parsed here.
pub(crate) fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let bad = bytes[error.valid_up_to()];
        PgError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, format!("invalid byte sequence for encoding \"UTF8\": 0x{bad:02x}"))
            .hint("A coordinator reads statements in UTF-8: SET client_encoding TO 'UTF8', or use COPY with ENCODING for other data.")
    })
}
