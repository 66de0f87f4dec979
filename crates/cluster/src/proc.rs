//! The process table (Linux `/proc`): who runs, who listens, and how to end them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pgerror::{PgError, Result, SqlState};
use rustix::io::Errno;
pub(crate) use rustix::process::Signal;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, kill_process, setrlimit, setsid};
use tokio::signal::unix::{SignalKind, signal};

use crate::disk;

/// How often a wait looks again.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// One live process, as far as we may look at it.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) args: Vec<String>,
    /// `None` for a process of another user.
    pub(crate) cwd: Option<PathBuf>,
}

impl Process {
    /// Reads one process; `None` if it is gone or a zombie.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        let root = PathBuf::from(format!("/proc/{pid}"));
        let stat = fs::read_to_string(root.join("stat")).ok()?;
        // The command name before the state may hold anything, also ')': the last one ends it.
        let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
        if matches!(state, 'Z' | 'X') {
            return None;
        }
        let line = fs::read(root.join("cmdline")).ok()?;
        let args = line.split(|b| *b == 0).filter(|a| !a.is_empty());
        let args = args.map(|a| String::from_utf8_lossy(a).into_owned()).collect();
        Some(Self { pid, args, cwd: fs::read_link(root.join("cwd")).ok() })
    }

    /// Every process there is.
    pub(crate) fn all() -> Vec<Self> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
        pids.filter_map(Self::read).collect()
    }

    /// The file name of the program, without its directory.
    pub(crate) fn program(&self) -> &str {
        self.args.first().and_then(|a| Path::new(a).file_name()?.to_str()).unwrap_or("")
    }

    /// Is `option value` (two neighbouring arguments) on the command line?
    pub(crate) fn has_option(&self, option: &str, value: &str) -> bool {
        self.args.windows(2).any(|pair| pair[0] == option && pair[1] == value)
    }
}

/// Sends a signal. A process that is gone is no error; one of another user is.
pub(crate) fn send(pid: i32, signal: Signal) -> Result<()> {
    let Some(target) = Pid::from_raw(pid) else { return Ok(()) };
    match kill_process(target, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(e) => Err(PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("could not stop process {pid}: {e}"))
            .hint("Run this as the user who started the cluster, or as root.")),
    }
}

/// Ends what `find` finds: sends each signal of the ladder, waits that long for `find` to find nothing, then climbs on.
/// The processes are looked up anew each time, so a reused pid is never hit.
pub(crate) async fn end(ladder: &[(Signal, Duration)], find: impl Fn() -> Vec<i32>) -> Result<()> {
    for (name, patience) in ladder {
        for pid in find() {
            send(pid, *name)?;
        }
        if wait_until(*patience, || find().is_empty()).await {
            return Ok(());
        }
    }
    let left = find();
    Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("processes {left:?} do not end"))
        .hint("They may hang in the kernel, e.g. on a disk that does not answer; look at them with ps."))
}

/// Waits until `done` or until the time is up; says which.
pub(crate) async fn wait_until(patience: Duration, done: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !done() {
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(POLL).await;
    }
    true
}

/// Resolves when the user or the system wants us to stop, with the name of how they said it.
pub async fn interrupted() -> &'static str {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => "Ctrl-C",
        _ = terminate.recv() => "SIGTERM",
    }
}

/// The process that listens on a local TCP port, as `name (pid N)`; `None` if nobody does or it is not ours to see.
pub(crate) fn listener(port: u16) -> Option<String> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"].iter().flat_map(|t| listening(t, port)).collect();
    Process::all().into_iter().find_map(|process| {
        let fds = fs::read_dir(format!("/proc/{}/fd", process.pid)).ok()?;
        let mut links = fds.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
        links
            .any(|link| inodes.iter().any(|inode| link.as_os_str() == format!("socket:[{inode}]").as_str()))
            .then(|| format!("{} (pid {})", process.args.join(" "), process.pid))
    })
}

/// Socket inodes that listen on the port, from a table in the format of proc(5) `/proc/net/tcp`.
fn listening(table: &str, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let text = fs::read_to_string(table).unwrap_or_default();
    let lines = text.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let local = columns.get(1)?.rsplit_once(':')?.1;
        let matches = u16::from_str_radix(local, 16) == Ok(port) && columns.get(3) == Some(&LISTEN);
        matches.then(|| columns.get(9).map(|inode| (*inode).to_owned()))?
    });
    lines.collect()
}

/// A process that was killed is nobody's any more before the last of its threads has given its ports back, this much later at most.
const PORT_GIVEN_BACK_MAX: Duration = Duration::from_secs(5);

/// Fails unless a server can listen on 127.0.0.1 at this port now.
pub(crate) fn check_port_free(port: u16, wanted_by: &str) -> Result<()> {
    let since = Instant::now();
    loop {
        let Err(e) = std::net::TcpListener::bind(("127.0.0.1", port)) else { return Ok(()) };
        let error = PgError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("port {port} (for {wanted_by}) cannot be used: {e}"),
        )
        .hint("Choose other ports with --port, or stop the program that uses this one.");
        match listener(port) {
            Some(who) => return Err(error.detail(format!("It is used by {who}."))),
            None if since.elapsed() > PORT_GIVEN_BACK_MAX => return Err(error),
            None => std::thread::sleep(POLL),
        }
    }
}

/// Has stderr lead to a file from now on, and stdout too if it went where stderr did.
pub fn redirect_output(path: &Path) -> Result<()> {
    let file = fs::File::options().append(true).create(true).open(path).map_err(disk::context("open", path))?;
    let [out, err] = [1, 2].map(|descriptor| fs::read_link(format!("/proc/self/fd/{descriptor}")).ok());
    let failed = |error: Errno| disk::context("write to", path)(error.into());
    rustix::stdio::dup2_stderr(&file).map_err(failed)?;
    match out == err {
        true => rustix::stdio::dup2_stdout(&file).map_err(failed),
        false => Ok(()),
    }
}

/// Makes the calling process a daemon's: a session of its own, so that the terminal's end does not end it, and its
/// proper name in `ps` even if it was started through `/proc/self/exe`.
pub fn detach(name: &str) {
    // Fails only for a process group leader, which has no terminal of its parent's group to fear.
    let _ = setsid();
    if let Ok(name) = std::ffi::CString::new(name) {
        let _ = rustix::thread::set_name(&name);
    }
}

/// Lets this process have as many open files as the system allows it; gives how many, `u64::MAX` for no limit.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    now.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_with_its_arguments() {
        let me = Process::read(std::process::id() as i32).unwrap();
        assert_eq!(me.cwd, std::env::current_dir().ok());
        assert_eq!(me.args[0], std::env::args().next().unwrap());
    }

    #[test]
    fn a_port_in_use_names_its_user() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let error = check_port_free(port, "coord1").unwrap_err();
        let me = format!("(pid {})", std::process::id());
        assert!(error.text(pgerror::field::DETAIL).contains(&me), "{error}");
        drop(socket);
        check_port_free(port, "coord1").unwrap();
    }

    #[test]
    fn open_files_are_allowed_up_to_the_hard_limit() {
        let allowed = raise_open_files();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!((limit.current, limit.current.unwrap_or(u64::MAX)), (limit.maximum, allowed));
    }

    #[test]
    fn a_zombie_is_no_process() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        let deadline = Instant::now() + Duration::from_secs(10);
        while Process::read(pid).is_some() {
            assert!(Instant::now() < deadline, "still seen as running");
            std::thread::sleep(POLL);
        }
        child.wait().unwrap();
    }
}
