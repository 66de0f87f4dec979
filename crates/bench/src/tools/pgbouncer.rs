//! PgBouncer in front of a stock server: what a pooler that relays and plans nothing takes of the same clients.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pgerror::{PgError, Result, SqlState};

use crate::tools::program;
use crate::tools::stock::{Pattern, StockServer};

/// Where packages put it: not all of them are in every user's PATH.
const PLACES: [&str; 3] = ["/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// How long it may take to listen.
const START_MAX: Duration = Duration::from_secs(10);

/// Connections to the server that all clients share, as many as a coordinator's pool has of one datanode by default.
const POOL_SIZE: u32 = 60;

/// Name of the database in which each client keeps a connection: versions before 1.21 know no prepared statements otherwise.
const OF_SESSIONS: &str = "sessions";

/// A running PgBouncer; stopped when dropped.
#[derive(Debug)]
pub(crate) struct PgBouncer {
    child: Child,
    port: u16,
}

impl PgBouncer {
    /// Starts one in `dir`, for so many clients.
    pub(crate) fn start(pattern: &Pattern, dir: &Path, server: &StockServer, clients: u32) -> Result<Self> {
        let program = self::program()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let (file, log) = (dir.join("pgbouncer.ini"), dir.join("pgbouncer.log"));
        let server = format!("host=127.0.0.1 port={} dbname=postgres user=postgres", server.port);
        let text = format!(
            "[databases]\npostgres = {server} pool_mode=transaction pool_size={POOL_SIZE}\n\
             {OF_SESSIONS} = {server} pool_mode=session pool_size={clients}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
             ignore_startup_parameters = extra_float_digits\n\
             max_client_conn = {}\nlogfile = {}\nlog_connections = 0\nlog_disconnections = 0\n",
            clients + 20,
            log.display()
        );
        std::fs::write(&file, text)?;
        let mut command = pattern.command_of(&program);
        command.arg("--quiet").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let failed =
            |text: String| PgError::new(SqlState::IO_ERROR, format!("{} failed", program.display())).detail(text);
        let child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let mut bouncer = Self { child, port };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if bouncer.child.try_wait()?.is_some() || began.elapsed() > START_MAX {
                return Err(failed(std::fs::read_to_string(&log).unwrap_or_default().trim().to_owned()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(bouncer)
    }

    /// Connections that a server must have for it: both of its pools keep theirs while nobody uses them.
    pub(crate) fn connections(clients: u32) -> u32 {
        clients + POOL_SIZE
    }

    /// Where transactions of all clients share the connections, or each client keeps one.
    pub(crate) fn uri(&self, keeps_connections: bool) -> String {
        let database = if keeps_connections { OF_SESSIONS } else { "postgres" };
        format!("postgresql://postgres@127.0.0.1:{}/{database}", self.port)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where it is.
///
/// # Errors
/// SQLSTATE 58P01 with the package that has it.
pub fn program() -> Result<PathBuf> {
    program::find("pgbouncer", &PLACES.map(PathBuf::from)).ok_or_else(|| {
        PgError::new(SqlState::UNDEFINED_FILE, "pgbouncer is not installed")
            .hint("On Debian and Ubuntu: apt-get install pgbouncer. With --no-pgbouncer the benchmark runs without it.")
    })
}
