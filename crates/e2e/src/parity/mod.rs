//! PostgreSQL's own regression files, run by psql on one stock server and on a cluster whose tables all are distributed
//! by the default rule: which share of the statements prints the same?
//!
//! The files come from PostgreSQL's source package (`scripts/postgresql-source.sh`) and are not part of this repository.
//! They run in the order of its schedule, on both sides at once, in one database that keeps what earlier files made. A
//! statement that fails leaves psql going; what later statements miss for it counts against the cluster too.
//!
//! Not comparable by nature, and left in: EXPLAIN, object ids, `ctid`, the order of rows where several are right.

pub mod script;
pub mod tally;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pgerror::{PgError, Result, SqlState};
use testkit::pg_program;

use script::{Printed, Step};
use tally::Tally;

/// A file that takes longer on one side is broken off there; a loaded machine takes minutes for the longest.
const FILE_SECONDS_MAX: u32 = 900;
/// A statement that takes longer fails.
const STATEMENT_MS_MAX: u32 = 20_000;

/// The two sides and what they share.
#[derive(Debug)]
pub struct Parity {
    sources: PathBuf,
    scratch: PathBuf,
    server: String,
    cluster: String,
}

impl Parity {
    /// `sources` is PostgreSQL's `src/test/regress`; `scratch` a directory to be made where the servers' user may read, for
    /// the data files that they load and a directory for each side; then the URIs of the stock server and of a coordinator.
    ///
    /// # Errors
    /// When the data files cannot be copied.
    pub fn new(sources: &Path, scratch: &Path, server: String, cluster: String) -> Result<Self> {
        make_dir(&scratch.join("data"))?;
        for file in fs::read_dir(sources.join("data"))? {
            let file = file?;
            if file.file_type()?.is_file() {
                fs::copy(file.path(), scratch.join("data").join(file.file_name()))?;
            }
        }
        Ok(Self { sources: sources.to_owned(), scratch: scratch.to_owned(), server, cluster })
    }

    /// The regression files in the order of PostgreSQL's schedule.
    ///
    /// # Errors
    /// When the schedule cannot be read.
    pub fn files(&self) -> Result<Vec<String>> {
        let schedule = fs::read_to_string(self.sources.join("parallel_schedule"))?;
        let tests = schedule.lines().filter_map(|line| line.strip_prefix("test:"));
        Ok(tests.flat_map(str::split_ascii_whitespace).map(str::to_owned).collect())
    }

    /// Runs one file on both sides at once. `differs` gets every step that did not print the same.
    ///
    /// # Errors
    /// When psql cannot be run.
    pub fn run(&self, file: &str, mut differs: impl FnMut(&Step, &Printed, Option<&Printed>)) -> Result<Tally> {
        let source = fs::read(self.sources.join("sql").join(format!("{file}.sql")))?;
        let steps = script::steps(&String::from_utf8_lossy(&source));
        let (server, cluster) = std::thread::scope(|scope| {
            let server = scope.spawn(|| self.side("server", &self.server, &steps));
            let cluster = self.side("cluster", &self.cluster, &steps);
            (server.join().unwrap_or_else(|_| Err(broken("the thread of psql panicked"))), cluster)
        });
        let mut tally = Tally::default();
        for ((step, server), cluster) in steps.iter().zip(server?).zip(cluster?) {
            // What the server's psql skipped (\if) does not count, nor does a command that prints nothing.
            let Some(server) = server else { continue };
            let silent = server.text.is_empty() && cluster.as_ref().is_none_or(|cluster| cluster.text.is_empty());
            if step.is_command() && silent {
                continue;
            }
            if tally.add(step, &server, cluster.as_ref()).is_some() {
                differs(step, &server, cluster.as_ref());
            }
        }
        Ok(tally)
    }

    /// psql's output on one side, with the settings that PostgreSQL's own `pg_regress` gives.
    fn side(&self, name: &str, uri: &str, steps: &[Step]) -> Result<Vec<Option<Printed>>> {
        let dir = self.scratch.join(name);
        make_dir(&dir.join("results"))?;
        let script = dir.join("script.sql");
        fs::write(&script, script::marked(steps, &dir)?)?;
        let output = dir.join("output");
        let stdout = File::create(&output)?;
        let mut psql = Command::new("timeout");
        psql.arg(FILE_SECONDS_MAX.to_string()).arg(pg_program("psql")?).args(["-X", "-d", uri, "-f"]).arg(&script);
        psql.env("PGOPTIONS", format!("-c intervalstyle=postgres_verbose -c statement_timeout={STATEMENT_MS_MAX}"));
        psql.envs([("PGTZ", "PST8PDT"), ("PGDATESTYLE", "Postgres, MDY"), ("LC_MESSAGES", "C"), ("PAGER", "cat")]);
        psql.envs([("PG_LIBDIR", "/nowhere"), ("PG_DLSUFFIX", ".so"), ("COLUMNS", "80")]);
        psql.env("PG_ABS_SRCDIR", &self.scratch).env("PG_ABS_BUILDDIR", &dir);
        psql.stdin(Stdio::null()).stderr(stdout.try_clone()?).stdout(stdout);
        psql.status()?;
        let text = String::from_utf8_lossy(&fs::read(&output)?).replace(&*dir.to_string_lossy(), "DIR");
        Ok(script::printed(&text, steps.len()))
    }
}

/// A directory in which the servers' user can write.
fn make_dir(dir: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir_all(dir)?;
    for dir in dir.ancestors().take(2) {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o777))?;
    }
    Ok(())
}

fn broken(message: &str) -> PgError {
    PgError::new(SqlState::IO_ERROR, message)
}
