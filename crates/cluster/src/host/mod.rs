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

use std::path::Path;

use pgerror::{PgError, Result, SqlState};

use crate::disk;
use crate::local::directory::{Directory, Kind, Part};
use crate::local::lock::Lock;
use crate::postgres::OsUser;
use crate::progress::Progress;

mod datanodes;
mod files;
mod metadata;
mod processes;
mod wanted;

pub use wanted::{Answer, Deed, File, HOME, Joining, Process, Report, Server, Step, Wanted};

/// The configuration's name in [`HOME`].
pub const CONFIG_FILE: &str = "loxo.toml";

/// A host while it works.
struct Host<'a> {
    wanted: &'a Wanted,
    directory: Directory,
    user: Option<OsUser>,
    loxo: &'a Path,
    progress: Progress,
}

/// Does a step. `loxo`: the program that gtms and coordinators are started from.
pub async fn perform(step: Step, wanted: &Wanted, loxo: &Path, progress: &Progress) -> Result<Report> {
    let home = wanted.directory.join(HOME);
    let user = OsUser::for_servers()?;
    if let Some(user) = user.as_ref().filter(|user| !user.reaches(&wanted.directory)) {
        let text =
            format!("the OS user \"postgres\" (uid {}) cannot get to \"{}\"", user.uid, wanted.directory.display());
        return Err(PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, text)
            .hint("Name another \"directory\" in the inventory, or open those above it to search (chmod o+x)."));
    }
    files::make_home(&home, user.as_ref())?;
    // A call whose ssh connection was lost may still be at work.
    let _lock = Lock::wait(&home).await?;
    let directory = Directory::new(&home, CONFIG_FILE);
    let host = Host { wanted, directory, user, loxo, progress: *progress };
    let mut report = Report::default();
    if !matches!(step, Step::StopCoordinators | Step::StopGtms | Step::StopDatanodes) {
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
