//! pg_dump, pg_dumpall and psql.

use std::fs::File;
use std::io::Seek;
use std::path::{Path, PathBuf};

use pgerror::{PgError, Result, SqlState};
use tokio::process::Command;

use crate::disk;
use crate::postgres::{parse_major, places, run_as};
use crate::sql::Endpoint;

/// All three are needed, of one version: a dump may hold commands that an older psql does not know.
const NEEDED: [&str; 3] = ["pg_dump", "pg_dumpall", "psql"];

/// How a program's session behaves. A deadlock with users ends pg_dump, not them.
const OPTIONS: &str = "-c lc_messages=C -c client_min_messages=warning -c statement_timeout=0 -c lock_timeout=0 \
    -c idle_in_transaction_session_timeout=0 -c deadlock_timeout=100ms -c default_transaction_read_only=off";

/// Lines of an error that are shown.
const LINES_SHOWN: usize = 12;

/// A directory with PostgreSQL's client programs.
#[derive(Debug)]
pub(crate) struct Programs {
    bin: PathBuf,
}

impl Programs {
    /// In the directory asked for, where servers are usually installed, or in `PATH`; able to dump a server of `major`.
    pub(crate) fn find(asked: Option<&Path>, major: u32) -> Result<Self> {
        let candidates = asked.map(Path::to_owned).into_iter().chain(places());
        let able =
            |bin: &PathBuf| NEEDED.iter().all(|program| bin.join(program).is_file()) && version(bin) >= Some(major);
        candidates.into_iter().find(able).map(|bin| Self { bin }).ok_or_else(|| {
            let text = format!("no pg_dump, pg_dumpall and psql of PostgreSQL {major} or later were found");
            PgError::new(SqlState::UNDEFINED_FILE, text).hint(format!(
                "On Debian and Ubuntu run \"apt install postgresql-client-{major}\"; elsewhere put their directory into PATH."
            ))
        })
    }

    /// What a program writes for the database of an endpoint.
    pub(crate) async fn dump(&self, program: &str, at: &Endpoint, arguments: &[&str]) -> Result<File> {
        let mut output = disk::unnamed()?;
        let mut command = self.command(program, at);
        let database = if program == "pg_dumpall" { "--database" } else { "--dbname" };
        command.args(arguments).args([database, &at.database]);
        let (succeeded, said) = run(command, None, Some(output.try_clone()?)).await?;
        if !succeeded {
            return Err(failed(&format!("{program} of the primary datanode failed"), &said));
        }
        output.rewind()?;
        Ok(output)
    }

    /// Has psql run what `dump` has written; what it said, and whether it went to the end.
    pub(crate) async fn restore(&self, at: &Endpoint, arguments: &[&str], input: File) -> Result<(bool, String)> {
        let mut command = self.command("psql", at);
        command.args(["--no-psqlrc", "--quiet", "--dbname", &at.database]).args(arguments);
        run(command, Some(input), None).await
    }

    fn command(&self, program: &str, at: &Endpoint) -> Command {
        let mut command = run_as(&self.bin.join(program), None);
        command.args(["--no-password", "--host", &at.host, "--port", &at.port.to_string(), "--username", &at.user]);
        command.env("PGOPTIONS", OPTIONS).env("PGCONNECT_TIMEOUT", "10").env("PGAPPNAME", "loxo");
        command.envs(at.environment.iter().map(|(name, value)| (name, value)));
        if let Some(password) = &at.password {
            command.env("PGPASSWORD", password);
        }
        command
    }
}

/// Something that a program has refused, in its own words.
pub(crate) fn failed(message: &str, said: &str) -> PgError {
    let lines: Vec<&str> = said.trim().lines().take(LINES_SHOWN).collect();
    PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).detail(lines.join("\n"))
}

async fn run(mut command: Command, input: Option<File>, output: Option<File>) -> Result<(bool, String)> {
    let program = Path::new(command.as_std().get_program()).to_owned();
    let mut said = disk::unnamed()?;
    if let Some(input) = input {
        command.stdin(input);
    }
    command.stdout(output.map_or_else(std::process::Stdio::null, Into::into)).stderr(said.try_clone()?);
    let status = command.status().await.map_err(disk::context("run", &program))?;
    Ok((status.success(), disk::read_back(&mut said)?))
}

/// Major version of the programs in a directory.
fn version(bin: &Path) -> Option<u32> {
    let output = std::process::Command::new(bin.join("pg_dump")).arg("--version").output().ok()?;
    parse_major(&String::from_utf8_lossy(&output.stdout))
}
