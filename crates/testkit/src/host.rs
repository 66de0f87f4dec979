//! What a test needs of the machine: PostgreSQL's programs, the `postgres` user, free ports, a directory that goes away.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use pgerror::{PgError, Result, SqlState};

/// An error of the test's own surroundings.
pub(crate) fn failure(message: impl Into<String>) -> PgError {
    PgError::new(SqlState::IO_ERROR, message)
}

/// The path of one of PostgreSQL's programs, e.g. `psql`.
///
/// # Errors
/// When no installed PostgreSQL has it.
pub fn pg_program(name: &str) -> Result<PathBuf> {
    let path = pg_bin()?.join(name);
    if path.exists() { Ok(path) } else { Err(failure(format!("{} does not exist", path.display()))) }
}

/// The directory of PostgreSQL's programs: `LOXO_PG_BIN`, else the newest of Debian's, else the one on PATH.
pub(crate) fn pg_bin() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("LOXO_PG_BIN") {
        return Ok(dir.into());
    }
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = debian
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin)| bin.join("initdb").exists())
        .max();
    if let Some((_, bin)) = newest {
        return Ok(bin);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).find(|dir| dir.join("initdb").exists()).ok_or_else(|| {
        failure("no PostgreSQL server is installed (initdb not found); install Debian's postgresql or set LOXO_PG_BIN")
    })
}

/// The binary under test: `LOXO_BIN`, else the `loxo` that cargo built beside this test, else the other profile's.
///
/// # Errors
/// When none exists.
pub fn loxo_binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("LOXO_BIN") {
        return Ok(path.into());
    }
    // A test is target/<profile>/deps/<name>, an example or binary target/<profile>/<name>.
    let executable = std::env::current_exe().map_err(|e| failure(e.to_string()))?;
    let target = executable.ancestors().find(|dir| dir.join("debug").is_dir() || dir.join("release").is_dir());
    let own_profile = executable.ancestors().skip(1).take(2).map(|dir| dir.join("loxo"));
    let profiles = target.into_iter().flat_map(|dir| ["debug/loxo", "release/loxo"].map(|name| dir.join(name)));
    own_profile
        .chain(profiles)
        .find(|path| path.is_file())
        .ok_or_else(|| failure("the loxo binary is not built; run `cargo build -p loxo` or set LOXO_BIN"))
}

/// User and group id of the OS user that servers must run as, if this process is root.
pub(crate) fn server_user() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").ok()?.uid() != 0 {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").ok()?;
    let line = passwd.lines().find(|line| line.starts_with("postgres:"))?;
    let mut ids = line.split(':').skip(2);
    Some((ids.next()?.parse().ok()?, ids.next()?.parse().ok()?))
}

/// A command that runs as the servers' user.
pub(crate) fn server_command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    if let Some((uid, gid)) = server_user() {
        command.uid(uid).gid(gid);
    }
    command.current_dir("/");
    command
}

/// Runs a command to its end and gives what it printed; a non-zero status is an error that carries it.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let output: Output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| failure(format!("cannot run {}: {e}", command.get_program().display())))?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        return Ok(text);
    }
    Err(failure(format!("{:?} failed ({})", command, output.status)).detail(text))
}

/// Ports where no outgoing connection grabs one before the server does: below the kernel's ephemeral range.
const PORTS: Range<u16> = 10_500..30_500;

/// A base port `p` such that `p + offset` is free for every offset, and was given to nobody. `LOXO_TEST_PORTS=from-to` narrows
/// the choice.
///
/// A port stays given while this process lives, also while a killed server of it does not listen: the UDP port of that number,
/// which no server of ours uses, is held as a mark that other test processes see.
///
/// # Errors
/// When no such base is found.
pub fn free_ports(offsets: &[u16]) -> Result<u16> {
    static GIVEN: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let range = match std::env::var("LOXO_TEST_PORTS") {
        Ok(text) => port_range(&text).ok_or_else(|| failure(format!("LOXO_TEST_PORTS={text} is no range of ports")))?,
        Err(_) => PORTS,
    };
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let mut rng = crate::Rng::new(clock ^ u64::from(std::process::id()) << 32);
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let bases = range.len().saturating_sub(offsets.iter().copied().max().map_or(0, usize::from)).max(1);
    for _attempt in 0..200 {
        let base = range.start + rng.below(bases) as u16;
        let marks = offsets.iter().map(|offset| UdpSocket::bind(("127.0.0.1", base + offset)));
        let Ok(marks) = marks.collect::<std::io::Result<Vec<_>>>() else { continue };
        if offsets.iter().all(|offset| TcpListener::bind(("127.0.0.1", base + offset)).is_ok()) {
            given.extend(marks);
            return Ok(base);
        }
    }
    Err(failure(format!("no free ports between {} and {}", range.start, range.end)))
}

fn port_range(text: &str) -> Option<Range<u16>> {
    let (from, to) = text.split_once('-')?;
    let range = from.parse().ok()?..to.parse().ok()?;
    (!range.is_empty()).then_some(range)
}

/// A directory that the servers' user can work in, removed when dropped.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Makes an empty directory.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(label: &str) -> Result<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("loxo-test-{label}-{}-{number}", std::process::id()));
        let make = || -> std::io::Result<()> {
            fs::create_dir(&path)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            if let Some((uid, gid)) = server_user() {
                chown(&path, Some(uid), Some(gid))?;
            }
            Ok(())
        };
        make().map_err(|e| failure(format!("cannot make {}: {e}", path.display())))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file that the servers' user can read.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.0.join(name);
        fs::write(&path, bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        Ok(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // Best effort: the watchdog of a server may have removed it already.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A shell that waits for this process to die or to drop it, and then runs its clean-up script.
#[derive(Debug)]
pub(crate) struct Watchdog(Child);

impl Watchdog {
    /// `script` sees `arguments` as `$1`, `$2`, …
    pub(crate) fn start(mut command: Command, script: &str, arguments: &[&Path]) -> Result<Self> {
        let script = format!("trap '' INT TERM HUP; read -r line; {script}");
        let child = command
            .args(["-c", &script, "watchdog"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Its own group: Ctrl-C in the terminal must not end it before its work is done.
            .process_group(0)
            .spawn()
            .map_err(|e| failure(format!("cannot start the watchdog: {e}")))?;
        Ok(Self(child))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The last lines of a log file, for error messages.
pub(crate) fn tail(path: &Path) -> String {
    let mut text = String::new();
    if let Ok(mut file) = fs::File::open(path) {
        let _ = file.read_to_string(&mut text);
    }
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
