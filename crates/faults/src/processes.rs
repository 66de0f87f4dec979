//! The processes of a cluster, found in /proc, and their sudden death.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pgerror::{PgError, Result, SqlState};
use rustix::process::{Pid, Signal, kill_process};
use testkit::Cluster;

/// SIGKILL takes a moment to be carried out, longer on a busy machine.
const DEATH_MAX: Duration = Duration::from_secs(20);
/// Between two looks at the process table.
const POLL: Duration = Duration::from_millis(5);

/// What a process is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Coordinator,
    Gtm,
    Datanode,
}

/// A coordinator, a gtm or a datanode's postmaster.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Process {
    pub kind: Kind,
    /// As in the configuration: `coord1`, `gtm`, `dn2`.
    pub name: String,
    pub pid: i32,
}

/// What of the cluster runs now.
///
/// # Errors
/// When /proc cannot be read.
pub fn running(cluster: &Cluster) -> Result<Vec<Process>> {
    let dir = cluster.dir();
    let mut found: Vec<Process> = pids()?.into_iter().filter_map(|pid| daemon(pid, &dir)).collect();
    // Also servers that are to become datanodes.
    for entry in fs::read_dir(&dir)?.flatten() {
        let pid = postmaster(&entry.path());
        let name = entry.file_name().to_string_lossy().into_owned();
        found.extend(pid.map(|pid| Process { kind: Kind::Datanode, name, pid }));
    }
    // The order of a directory's entries is no one's choice, that of the random numbers is.
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// The running process of this name.
///
/// # Errors
/// When it does not run.
pub fn find(cluster: &Cluster, name: &str) -> Result<Process> {
    let found = running(cluster)?.into_iter().find(|process| process.name == name);
    found.ok_or_else(|| failure(format!("{name} does not run")))
}

/// SIGSTOP, of a datanode to its backends too: it goes on living, but does and says nothing until [`thaw`]. Like a virtual machine that
/// is paused, or a host behind a broken cable. Gives the stopped process.
///
/// # Errors
/// When /proc cannot be read.
pub fn freeze(cluster: &Cluster, process: &Process) -> Result<Vec<i32>> {
    let mut pids = vec![process.pid];
    signal(process.pid, Signal::STOP);
    if process.kind == Kind::Datanode {
        pids.extend(servers_in(&cluster.dir().join(&process.name))?);
    }
    pids.iter().for_each(|pid| signal(*pid, Signal::STOP));
    Ok(pids)
}

/// Lets them go on.
pub fn thaw(pids: &[i32]) {
    pids.iter().for_each(|pid| signal(*pid, Signal::CONT));
}

/// SIGKILL, of a datanode to its backends too; returns when they are gone.
///
/// # Errors
/// When it lives on.
pub fn kill(cluster: &Cluster, process: &Process) -> Result<()> {
    let data = cluster.dir().join(&process.name);
    // The postmaster first: it would start new children for those that die.
    signal(process.pid, Signal::KILL);
    let family = || match process.kind {
        Kind::Datanode => servers_in(&data),
        Kind::Coordinator | Kind::Gtm => Ok(Vec::new()),
    };
    family()?.into_iter().for_each(|pid| signal(pid, Signal::KILL));
    let deadline = Instant::now() + DEATH_MAX;
    while is_alive(process.pid) || !family()?.is_empty() {
        if Instant::now() >= deadline {
            return Err(failure(format!("{} (process {}) survives SIGKILL", process.name, process.pid)));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Does the process exist, and not only as a zombie? Its first thread may be one while others are about to end: ports are in use until
/// the last has.
pub fn is_alive(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    if threads > 1 {
        return true;
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the program's name, which is in parentheses and may contain anything.
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

fn signal(pid: i32, signal: Signal) {
    // It may be gone already, which is what is wanted.
    let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, signal));
}

fn pids() -> Result<Vec<i32>> {
    let entries = fs::read_dir("/proc")?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|pid| is_alive(*pid)).collect())
}

/// A process that runs our binary with this cluster's configuration.
fn daemon(pid: i32, dir: &Path) -> Option<Process> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<String> =
        command.split(|byte| *byte == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
    let kind = match words.get(1)?.as_str() {
        "coordinator" => Kind::Coordinator,
        "gtm" => Kind::Gtm,
        _ => return None,
    };
    let option = |name: &str| words.iter().skip_while(|word| *word != name).nth(1).cloned();
    (PathBuf::from(option("--config")?).parent()? == dir).then_some(())?;
    let name = option("--name").unwrap_or_else(|| "gtm".to_owned());
    Some(Process { kind, name, pid })
}

/// The live server of a data directory.
fn postmaster(data: &Path) -> Option<i32> {
    let pid = fs::read_to_string(data.join("postmaster.pid")).ok()?.lines().next()?.trim().parse().ok()?;
    servers_in(data).ok()?.contains(&pid).then_some(pid)
}

/// Every PostgreSQL process at work in a data directory.
fn servers_in(data: &Path) -> Result<Vec<i32>> {
    let at_work = |pid: &i32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_server = String::from_utf8_lossy(&command).split('\0').next().is_some_and(|program| {
            program.starts_with("postgres: ") || Path::new(program).file_name().is_some_and(|name| name == "postgres")
        });
        is_server && fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == data)
    };
    Ok(pids()?.into_iter().filter(at_work).collect())
}

pub(crate) fn failure(message: String) -> PgError {
    PgError::new(SqlState::IO_ERROR, message)
}
