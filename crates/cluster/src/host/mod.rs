//! What one real host does of `loxo deploy`, asked over ssh by `loxo host STEP`.
//!
//! ```text
//!  loxo deploy ── Step, Wanted (JSON on stdin) ──▶ perform ──▶ initdb, pg_ctl, loxo gtm, loxo coordinator
//!              ◀─ Report (JSON on stdout), or an error ───┘      in DIRECTORY/cluster, as the servers' OS user
//! ```
//!
//! Invariants:
//! - Every step may be repeated, also after a call that was killed at any point; what is as it should be is left alone.
//! - One step at a time works on a directory.
//! - Files with secrets are closed to others from the moment they exist.
//! - Asked by root, everything is done as the servers' OS user but the making of that user's directory, and what systemd is asked for
//!   (page [`units`]).

use std::path::Path;

use pgerror::{PgError, Result, SqlState};

use crate::disk;
use crate::local::directory::{Directory, Kind, Part};
use crate::local::lock::Lock;
use crate::postgres::{OsUser, run_as};
use crate::progress::Progress;

mod datanodes;
mod files;
mod metadata;
mod processes;
mod units;
mod wanted;

pub use datanodes::become_datanode;
pub use wanted::{Answer, Deed, File, HOME, Joining, Process, Report, Server, Starting, Step, Wanted};

/// The configuration's name in [`HOME`].
pub const CONFIG_FILE: &str = "loxo.toml";

/// A host while it works, as the servers' OS user.
struct Host<'a> {
    wanted: &'a Wanted,
    directory: Directory,
    loxo: &'a Path,
    progress: Progress,
}

/// Does a step. `loxo`: this program, that gtms and coordinators are started from.
pub async fn perform(step: Step, wanted: &Wanted, loxo: &Path, progress: &Progress) -> Result<Report> {
    let home = wanted.directory.join(HOME);
    if let Some(user) = OsUser::for_servers()? {
        return match units::Units::here(wanted, loxo) {
            Some(units) => units.perform(&user, step).await,
            None => as_user(&user, step, &Wanted { starting: Starting::Here, ..wanted.clone() }, loxo).await,
        };
    }
    files::make_directory(&home)?;
    files::make_directory(&home.join("log"))?;
    // A call whose ssh connection was lost may still be at work.
    let _lock = Lock::wait(&home).await?;
    let directory = Directory::new(&home, CONFIG_FILE);
    let host = Host { wanted, directory, loxo, progress: *progress };
    let mut report = Report::default();
    if !step.stops() {
        host.update_files(&mut report)?;
    }
    match step {
        Step::Datanodes => host.datanodes(&mut report).await?,
        Step::Gtms => host.processes(Kind::Gtm, &wanted.gtms, &mut report).await?,
        Step::Coordinators => host.processes(Kind::Coordinator, &wanted.coordinators, &mut report).await?,
        Step::Initialise => host.initialise(&mut report).await?,
        Step::Join => host.join(&mut report).await?,
        Step::Check => host.check(&mut report).await?,
        Step::StopCoordinators => host.stop(Kind::Coordinator, &wanted.coordinators, &mut report).await?,
        Step::StopGtms => host.stop(Kind::Gtm, &wanted.gtms, &mut report).await?,
        Step::StopDatanodes => host.stop_datanodes(&mut report).await?,
    }
    Ok(report)
}

/// Has this program do the step as another user. Root itself touches nothing in a directory of that user's, who could have put a
/// link there.
async fn as_user(user: &OsUser, step: Step, wanted: &Wanted, loxo: &Path) -> Result<Report> {
    if !user.reaches(&wanted.directory) {
        let text = format!("the OS user \"postgres\" cannot get to \"{}\"", wanted.directory.display());
        return Err(PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, text)
            .hint("Name another \"directory\" in the inventory, or open those above it to search (chmod o+x)."));
    }
    files::make_directory_of(&wanted.directory.join(HOME), user)?;
    let request = serde_json::to_string(wanted).map_err(|error| PgError::internal(error.to_string()))?;
    let mut command = run_as(loxo, Some(user));
    // libpq looks for files in it, and root's is closed.
    command.env_remove("HOME");
    command.args(["host", step.name()]).stdin(disk::unnamed_with(&request)?).current_dir("/");
    let output = command.output().await.map_err(disk::context("run", loxo))?;
    serde_json::from_slice::<Answer>(&output.stdout)
        .map_err(|_| {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            PgError::internal(format!("\"loxo host {}\" ended with {}", step.name(), output.status)).detail(said)
        })?
        .result()
}

impl Host<'_> {
    fn config(&self) -> Result<crate::Config> {
        crate::Config::load(&self.directory.config_file())
    }
}

fn part(kind: Kind, name: &str, port: u16) -> Part {
    Part { kind, name: name.to_owned(), port }
}

/// Fails unless a server can listen there.
fn check_address_free(address: &str, port: u16, wanted_by: &str) -> Result<()> {
    std::net::TcpListener::bind((address, port)).map(drop).map_err(|error| {
        let text = format!("{wanted_by} cannot listen on {address} port {port}: {error}");
        let text = PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text);
        match crate::proc::listener(port) {
            Some(who) => text.detail(format!("The port is used by {who}.")),
            None => text,
        }
        .hint("\"address\" in the inventory must be an address of the host itself; ports are chosen in [ports].")
    })
}

fn check_space(home: &Path, new_datanodes: u64) -> Result<()> {
    disk::check_space(home, new_datanodes * crate::local::SPACE_NEW_DATANODE)
}
