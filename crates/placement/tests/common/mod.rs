//! A private PostgreSQL server for one test binary: a data directory under the temp directory, a Unix socket in it,
//! no TCP port. It is stopped and wiped when dropped.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use postgres::{Client, NoTls};

/// A running server.
pub struct Server {
    directory: PathBuf,
    bin: PathBuf,
    user: Option<(u32, u32)>,
}

impl Server {
    /// Runs initdb (UTF8, C collation) and starts the server with these extra settings.
    pub fn start(name: &str, settings: &[&str]) -> Self {
        let directory = std::env::temp_dir().join(format!("loxo-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory in the temp directory");
        let server = Server { directory, bin: bin_directory(), user: server_user() };
        if let Some((uid, gid)) = server.user {
            chown(&server.directory, Some(uid), Some(gid)).expect("chown");
        }
        let data = server.data();
        server.run("initdb", &["-D", &data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"]);
        let socket = server.directory.display().to_string();
        let mut options = format!("-c listen_addresses='' -c unix_socket_directories='{socket}' -c fsync=off");
        for setting in settings {
            options.push_str(&format!(" -c {setting}"));
        }
        let log = format!("{socket}/log");
        server.run("pg_ctl", &["start", "-w", "-D", &data, "-l", &log, "-o", &options]);
        server
    }

    /// A new connection.
    pub fn connect(&self) -> Client {
        let socket = self.directory.display();
        Client::connect(&format!("host={socket} user=postgres dbname=postgres"), NoTls).expect("connect")
    }

    fn data(&self) -> String {
        self.directory.join("data").display().to_string()
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(self.bin.join(program));
        command.args(arguments).current_dir(&self.directory).stdout(Stdio::null()).stderr(Stdio::inherit());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        let status = command.status().unwrap_or_else(|e| panic!("cannot run {program}: {e}"));
        assert!(status.success(), "{program} failed: {status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(log) = std::fs::read_to_string(self.directory.join("log"))
        {
            let last: Vec<&str> = log.lines().rev().take(20).collect();
            eprintln!("the server's last words, newest first:\n{}", last.join("\n"));
        }
        self.run("pg_ctl", &["stop", "-m", "immediate", "-D", &self.data()]);
        std::fs::remove_dir_all(&self.directory).expect("wipe the server's directory");
    }
}

/// `LOXO_PG_BIN`, or the newest of Debian's servers.
fn bin_directory() -> PathBuf {
    if let Some(bin) = std::env::var_os("LOXO_PG_BIN") {
        return bin.into();
    }
    let installed = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is not installed; set LOXO_PG_BIN");
    let newest = installed.flatten().map(|entry| entry.path().join("bin")).filter(|bin| bin.join("initdb").exists());
    newest.max_by_key(|bin| version_of(bin)).expect("no PostgreSQL server found; set LOXO_PG_BIN")
}

fn version_of(bin: &Path) -> u32 {
    let name = bin.parent().and_then(|p| p.file_name()).map(|n| n.to_string_lossy().into_owned());
    name.and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// PostgreSQL refuses to run as root: then the OS user `postgres` runs it.
fn server_user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| -> u32 {
        let output = Command::new("id").args(arguments).output().expect("run id");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("a user id")
    };
    (id(&["-u"]) == 0).then(|| (id(&["-u", "postgres"]), id(&["-g", "postgres"])))
}
