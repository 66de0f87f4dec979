//! The processes of a local cluster that are our own binary, gtm and coordinators; and waiting for any part's answer.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use pgerror::{PgError, Result, SqlState};

use super::{Directory, Kind, Layout, Part, datanode};
use crate::disk;
use crate::postgres::{OsUser, run_as};
use crate::proc::{self, Process, Signal};
use crate::sql::Session;

/// A coordinator waits for the datanodes' catalog before it answers, and a datanode for its crash recovery.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Written to a log before each start, so that what a process said is told from what earlier ones did.
const START_LINE: &str = "---- started by loxo ----\n";
/// After SIGTERM a coordinator may finish what it can.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// The arguments that make a process this part.
fn arguments(directory: &Directory, part: &Part) -> Vec<String> {
    let config = directory.config_file().to_string_lossy().into_owned();
    let mut arguments = vec![part.kind.to_string(), "--config".to_owned(), config];
    arguments.extend(["--name".to_owned(), part.name.clone()]);
    arguments
}

/// The processes that were started with a part's arguments: one if it runs.
pub(crate) fn pids(directory: &Directory, part: &Part) -> Vec<i32> {
    let wanted = arguments(directory, part);
    let is_part = |p: &Process| p.args.get(1..).is_some_and(|args| args.starts_with(&wanted));
    Process::all().into_iter().filter(is_part).map(|p| p.pid).collect()
}

/// Starts the part in the background, its output appended to its log.
pub(crate) fn start(directory: &Directory, part: &Part, loxo: &Path, user: Option<&OsUser>) -> Result<()> {
    let log_path = directory.log_file(&part.name);
    let mut log =
        File::options().create(true).append(true).open(&log_path).map_err(disk::context("open", &log_path))?;
    log.write_all(START_LINE.as_bytes()).map_err(disk::context("write", &log_path))?;
    datanode::own(&log_path, user)?;
    let log_again = log.try_clone().map_err(disk::context("open", &log_path))?;
    let mut command = run_as(&program(loxo, user), user);
    command.as_std_mut().env_remove("LC_ALL");
    command.arg0(loxo).args(arguments(directory, part)).arg("--detached").current_dir(directory.dir());
    command.stdin(Stdio::null()).stdout(log).stderr(log_again).kill_on_drop(false);
    command.spawn().map(drop).map_err(disk::context("run", loxo))
}

/// The path to execute. A checkout below /root is closed to the servers' OS user; the running image is not.
fn program(loxo: &Path, user: Option<&OsUser>) -> PathBuf {
    let closed = user.is_some_and(|user| loxo.parent().is_some_and(|dir| !user.reaches(dir)));
    if closed { PathBuf::from("/proc/self/exe") } else { loxo.to_owned() }
}

/// Waits until the part answers; fails as soon as its process is gone, with what it said.
pub(crate) async fn wait_until_it_answers(layout: &Layout, part: &Part) -> Result<()> {
    wait_until(layout, part, || layout.pid(part).is_some(), async || answers(layout, part).await).await
}

/// Waits for a part by other signs: whether there is a process (`lives`), and whether it answers.
pub(crate) async fn wait_until(
    directory: &Directory,
    part: &Part,
    lives: impl Fn() -> bool,
    answers: impl AsyncFn() -> Result<()>,
) -> Result<()> {
    let log = directory.log_file(&part.name);
    let deadline = tokio::time::Instant::now() + ANSWER_TIMEOUT;
    let not_started = |reason: String| {
        PgError::new(SqlState::CANNOT_CONNECT_NOW, format!("{} {} did not start", part.kind, part.name))
            .detail(reason)
            .hint(format!("The whole log is \"{}\".", log.display()))
    };
    loop {
        let Err(error) = answers().await else { return Ok(()) };
        if !lives() {
            return Err(not_started(said_since_start(&log)));
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(not_started(format!("It runs, but does not answer: {error}")));
        }
        tokio::time::sleep(proc::POLL).await;
    }
}

/// The last lines since the latest start.
fn said_since_start(log: &Path) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    datanode::last_lines(text.rsplit(START_LINE).next().unwrap_or_default())
}

/// Does the part do its work? A coordinator must answer a query, which takes a datanode; a gtm must say whether it leads.
pub(crate) async fn answers(layout: &Layout, part: &Part) -> Result<()> {
    match part.kind {
        Kind::Gtm => role(part).await.map(drop),
        Kind::Datanode | Kind::Coordinator => Session::connect(&layout.endpoint(part)?).await?.run("SELECT 1").await,
    }
}

/// What a gtm does.
pub(crate) async fn role(part: &Part) -> Result<&'static str> {
    let leads = txn::gtm::leads(&format!("127.0.0.1:{}", part.port)).await?;
    Ok(if leads { "leader" } else { "standby" })
}

/// Ends the part. No error if it does not run.
pub(crate) async fn stop(directory: &Directory, part: &Part) -> Result<()> {
    proc::end(&[(Signal::TERM, STOP_TIMEOUT), (Signal::KILL, STOP_TIMEOUT)], || pids(directory, part)).await
}
