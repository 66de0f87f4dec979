//! The error of a file that does not fit.

use pgerror::{PgError, SqlState};

/// F0000: something is wrong in a configuration file or on the command line.
pub(crate) fn invalid(message: String) -> PgError {
    PgError::new(SqlState::CONFIG_FILE_ERROR, message)
}
