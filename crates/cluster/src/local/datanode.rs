//! A datanode of a local cluster: a data directory and the postgres that runs on it.

use std::path::Path;
use std::time::Duration;

use pgerror::{PgError, Result, SqlState};
use tokio::process::Command;

use super::{Directory, Layout, Part};
use crate::disk;
use crate::postgres::{Installation, OsUser};
use crate::proc::{self, Process, Signal};
use crate::settings::{self, Machine};

/// Crash recovery replays up to max_wal_size, so it is given long.
const START_TIMEOUT_S: u32 = 600;
/// After its postmaster died a backend ends at its next wait; a long computation may take a while.
const ORPHANS_TIMEOUT: Duration = Duration::from_secs(10);
/// Lines of a server's log that are shown when it does not start.
const LOG_LINES_SHOWN: usize = 8;

/// The postmaster on a data directory. A pid file that names a dead or foreign process counts as none.
pub(crate) fn postmaster(directory: &Directory, name: &str) -> Option<i32> {
    let data = directory.data_dir(name);
    let text = std::fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let process = Process::read(text.lines().next()?.trim().parse().ok()?)?;
    let ours = process.program() == "postgres" && process.has_option("-D", data.to_str()?);
    ours.then_some(process.pid)
}

/// Every PostgreSQL process at work on the data directory: postmaster, backends (also orphaned ones), initdb and pg_ctl
/// of a call of ours that was killed.
pub(crate) fn processes(directory: &Directory, name: &str) -> Vec<i32> {
    let dirs = [directory.data_dir(name), draft_dir(directory, name)];
    // Someone's shell or editor may stand in the directory too.
    let is_server =
        |p: &Process| p.program() == "postgres" || p.args.first().is_some_and(|a| a.starts_with("postgres: "));
    let is_tool = |p: &Process| matches!(p.program(), "initdb" | "pg_ctl");
    let at_work = |p: &Process| {
        dirs.iter().any(|dir| {
            let named = || dir.to_str().is_some_and(|dir| p.has_option("-D", dir));
            (is_server(p) && p.cwd.as_ref() == Some(dir)) || (is_tool(p) && named())
        })
    };
    Process::all().into_iter().filter(at_work).map(|p| p.pid).collect()
}

/// initdb works here, so that a directory with the final name is always a complete one.
fn draft_dir(directory: &Directory, name: &str) -> std::path::PathBuf {
    directory.dir().join(format!("{name}.new"))
}

/// How a new server lets others in, and what it survives.
pub(crate) struct Making<'a> {
    pub(crate) hba: &'a str,
    /// The superuser's password.
    pub(crate) password: Option<&'a str>,
    /// The files are on the disk before it is used.
    pub(crate) sync: bool,
}

impl Making<'_> {
    /// A datanode of a local cluster. One that is to run without fsync needs no files that survive a power failure.
    pub(crate) fn local(layout: &Layout) -> Self {
        let sync = layout.local().set.get("fsync").is_none_or(|value| value != "off");
        Self { hba: settings::HBA, password: None, sync }
    }
}

/// Makes the data directory: initdb, access rules; all as the servers' OS user. Leaves nothing under the final name on failure.
pub(crate) async fn create(
    directory: &Directory,
    name: &str,
    postgres: &Installation,
    user: Option<&OsUser>,
    making: &Making<'_>,
) -> Result<()> {
    discard_draft(directory, name).await?;
    let draft = draft_dir(directory, name);
    let mut initdb = postgres.command("initdb", user);
    // One locale for all nodes, so that they sort alike whatever the environment says.
    initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions"]);
    initdb.arg("-D").arg(&draft).current_dir(directory.dir());
    if !making.sync {
        initdb.arg("--no-sync");
    }
    if let Some(password) = making.password {
        // A file without a name: the password is on no command line and on no disk.
        initdb.arg("--pwfile=/dev/stdin").stdin(disk::unnamed_with(&format!("{password}\n"))?);
    }
    let failed = |text: &str| {
        PgError::new(SqlState::IO_ERROR, format!("initdb of datanode {name} failed")).detail(text.trim().to_owned())
    };
    run(initdb).await?.map_err(|text| failed(&text))?;
    disk::write(&draft.join("pg_hba.conf"), making.hba)?;
    own(&draft.join("pg_hba.conf"), user)?;
    let data = directory.data_dir(name);
    std::fs::rename(&draft, &data).map_err(disk::context("rename", &draft))
}

/// Ends and removes what a call that was killed has left of an initdb.
pub(crate) async fn discard_draft(directory: &Directory, name: &str) -> Result<()> {
    let draft = draft_dir(directory, name);
    proc::end(&[(Signal::KILL, ORPHANS_TIMEOUT)], || processes(directory, name)).await?;
    match draft.exists() {
        true => std::fs::remove_dir_all(&draft).map_err(disk::context("remove", &draft)),
        false => Ok(()),
    }
}

/// Writes our part of postgresql.conf anew.
pub(crate) fn configure(layout: &Layout, part: &Part, user: Option<&OsUser>) -> Result<()> {
    let local = layout.local();
    let machine = Machine::here(layout.config().datanodes.len());
    let data = layout.data_dir(&part.name);
    let title = data.to_string_lossy();
    let socket_dir = local.socket_dir(&part.name, part.port);
    let list = settings::settings(local.profile, machine, part.port, &title, socket_dir.as_deref(), &local.set);
    write_settings(layout, &part.name, &list, user).map(drop)
}

/// Writes our part of postgresql.conf from a list; says whether that changes the file.
pub(crate) fn write_settings(
    directory: &Directory,
    name: &str,
    list: &[settings::Setting],
    user: Option<&OsUser>,
) -> Result<bool> {
    let path = directory.data_dir(name).join("postgresql.conf");
    let before = disk::read(&path)?;
    let after = settings::render(&before, list);
    if before == after {
        return Ok(false);
    }
    disk::write(&path, &after)?;
    own(&path, user).map(|()| true)
}

/// Starts the server; returns when pg_ctl sees it ready.
pub(crate) async fn start(
    directory: &Directory,
    name: &str,
    postgres: &Installation,
    user: Option<&OsUser>,
) -> Result<()> {
    let (data, log) = (directory.data_dir(name), directory.log_file(name));
    if clear_leftovers(directory, name).await? {
        return Ok(());
    }
    let log_begin = log.metadata().map_or(0, |m| m.len());
    let mut pg_ctl = postgres.command("pg_ctl", user);
    pg_ctl.args(["start", "--silent", "--wait", "--timeout"]).arg(START_TIMEOUT_S.to_string());
    pg_ctl.arg("-D").arg(&data).arg("-l").arg(&log).current_dir(directory.dir());
    run(pg_ctl).await?.map_err(|said| {
        let reason = log_tail(&log, log_begin);
        let reason = if reason.is_empty() { said.trim().to_owned() } else { reason };
        PgError::new(SqlState::CANNOT_CONNECT_NOW, format!("datanode {name} did not start"))
            .detail(reason)
            .hint(format!("The whole log is \"{}\".", log.display()))
    })
}

/// This process becomes the server, with its output, and so does not come back, unless the server runs already.
pub(crate) async fn become_server(directory: &Directory, name: &str, postgres: &Installation) -> Result<()> {
    if clear_leftovers(directory, name).await? {
        return Ok(());
    }
    let mut server = postgres.command("postgres", None).into_std();
    let program = Path::new(server.get_program()).to_owned();
    server.arg("-D").arg(directory.data_dir(name)).current_dir(directory.dir());
    Err(disk::context("run", &program)(std::os::unix::process::CommandExt::exec(&mut server)))
}

/// Waits for what a killed postmaster left behind, ends it if it does not end itself, then removes stale lock files.
/// The order matters: while an orphaned backend lives, a second server on the directory would destroy data.
/// Says whether a server runs after all, started by a call of ours that was killed meanwhile.
async fn clear_leftovers(directory: &Directory, name: &str) -> Result<bool> {
    let find = || processes(directory, name);
    let runs = || postmaster(directory, name).is_some();
    let all_ended = proc::wait_until(ORPHANS_TIMEOUT, || runs() || find().is_empty()).await;
    if runs() {
        return Ok(true);
    }
    if !all_ended {
        proc::end(&[(Signal::KILL, ORPHANS_TIMEOUT)], find).await?;
    }
    let data = directory.data_dir(name);
    remove_if_there(&data.join("postmaster.pid"))?;
    // PostgreSQL takes these for another server's if their process id belongs to anyone, be it a zombie.
    for entry in std::fs::read_dir(&data).map_err(disk::context("read", &data))? {
        let path = entry.map_err(disk::context("read", &data))?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".s.PGSQL.")) {
            remove_if_there(&path)?;
        }
    }
    Ok(false)
}

fn remove_if_there(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(disk::context("remove", path)(e)),
        _ => Ok(()),
    }
}

/// How a server is asked to end, and for how long it has time: fast, then immediate, then by SIGKILL.
const STOP_LADDER: [(Signal, Duration); 3] = [
    (Signal::INT, Duration::from_secs(60)),
    (Signal::QUIT, Duration::from_secs(10)),
    (Signal::KILL, Duration::from_secs(10)),
];

/// Stops the server. No error if it does not run.
pub(crate) async fn stop(directory: &Directory, name: &str) -> Result<()> {
    end(directory, name, &STOP_LADDER).await
}

/// Stops a server without a checkpoint, since its data are not wanted any more.
pub(crate) async fn stop_at_once(directory: &Directory, name: &str) -> Result<()> {
    end(directory, name, &STOP_LADDER[1..]).await
}

async fn end(directory: &Directory, name: &str, ladder: &[(Signal, Duration)]) -> Result<()> {
    proc::end(ladder, || postmaster(directory, name).into_iter().collect()).await?;
    let patience = Duration::from_secs(5);
    proc::end(&[(Signal::QUIT, patience), (Signal::KILL, patience)], || processes(directory, name)).await
}

/// Gives a file to the servers' OS user.
pub(crate) fn own(path: &Path, user: Option<&OsUser>) -> Result<()> {
    let Some(user) = user else { return Ok(()) };
    std::os::unix::fs::chown(path, Some(user.uid), Some(user.gid)).map_err(disk::context("change the owner of", path))
}

/// Runs a program to its end; the inner error is what it said.
async fn run(mut command: Command) -> Result<std::result::Result<(), String>> {
    let program = Path::new(command.as_std().get_program()).to_owned();
    // A server that pg_ctl starts would keep a pipe open for ever, so output goes to a file that needs no name.
    let mut output = disk::unnamed()?;
    let both = || output.try_clone().map_err(disk::context("open", Path::new("/tmp")));
    command.stdout(both()?).stderr(both()?);
    let status = command.status().await.map_err(disk::context("run", &program))?;
    if status.success() {
        return Ok(Ok(()));
    }
    let said = disk::read_back(&mut output)?.trim().to_owned();
    Ok(Err(if said.is_empty() { status.to_string() } else { said }))
}

/// The last lines written to a log from `begin` on.
pub(crate) fn log_tail(log: &Path, begin: u64) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    last_lines(&String::from_utf8_lossy(bytes.get(begin as usize..).unwrap_or_default()))
}

/// The last few lines of a text.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..].join("\n")
}
