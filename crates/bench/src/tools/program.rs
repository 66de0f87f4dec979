//! Programs of others that send statements: where they are, and what they say.

use std::path::PathBuf;
use std::process::Stdio;

use conninfo::Target;
use pgerror::{PgError, Result, SqlState};
use pgproto::scram::Secret;
use pgproto::{ConnectOptions, Encryption};
use tokio::process::Command;

/// Looks in the directories of PATH, then in these.
pub(crate) fn find(name: &str, places: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::env::split_paths(&path).chain(places.iter().cloned());
    all.find_map(|place| Some(place.join(name)).filter(|file| file.is_file()))
}

/// A server as these programs want it, each part by itself.
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    password: String,
    pub(crate) database: String,
    /// A value of PGSSLMODE.
    ssl_mode: &'static str,
}

impl Address {
    pub(crate) fn of(uri: &str) -> Result<Self> {
        let ConnectOptions { host, port, user, database, secret, encryption, .. } = Target::parse(uri)?.options()?;
        let password = match secret {
            Some(Secret::Password(password)) => password,
            _ => String::new(),
        };
        // "prefer" is unknown to Go's driver.
        let ssl_mode = if matches!(encryption, Encryption::Required(_)) { "require" } else { "disable" };
        Ok(Self { host, port, user, password, database, ssl_mode })
    }

    /// What libpq, and Go's driver too, take from the environment.
    pub(crate) fn environment(&self, command: &mut Command, schema: Option<&str>) {
        command.env("PGSSLMODE", self.ssl_mode);
        if !self.password.is_empty() {
            // Not among the arguments, which everybody on the machine can read.
            command.env("PGPASSWORD", &self.password);
        }
        if let Some(schema) = schema {
            command.env("PGOPTIONS", format!("-c search_path={schema}"));
        }
    }
}

/// To its end, which comes early if the caller gives up; gives what it has printed.
pub(crate) async fn output(mut command: Command) -> Result<String> {
    let name = command.as_std().get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|error| PgError::new(SqlState::IO_ERROR, format!("cannot run {name}: {error}")))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    // Some write their errors to one, some to the other.
    Err(failed(&name, &format!("{}\n{}", last_lines(&said), last_lines(&errors))))
}

pub(crate) fn failed(name: &str, why: &str) -> PgError {
    PgError::new(SqlState::INTERNAL_ERROR, format!("{name} failed")).detail(why.trim().to_owned())
}

fn last_lines(text: &str) -> String {
    // A program in Go says where it was when it panicked, at length.
    let text = text.split("\ngoroutine ").next().unwrap_or_default();
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_taken_apart() {
        let address = Address::of("postgresql://me:secret@localhost:5433/db").unwrap();
        assert_eq!((address.host.as_str(), address.port, address.user.as_str()), ("localhost", 5433, "me"));
        assert_eq!((address.password.as_str(), address.database.as_str()), ("secret", "db"));
    }

    #[tokio::test]
    async fn what_a_program_has_said_before_it_failed_is_told() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);
        let error = output(command).await.unwrap_err();
        assert!(error.to_string().contains("sh failed"), "{error}");
        let detail = format!("{error:?}");
        assert!(detail.contains("one") && detail.contains("two"), "{detail}");
    }
}
