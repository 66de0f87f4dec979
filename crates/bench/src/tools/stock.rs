//! Stock servers to measure against: fresh, of the same programs and settings as the datanodes, under the same user.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pgerror::{PgError, Result, SqlState};
use tokio_postgres::Client;

use crate::tools::sql;

/// Settings that name a place or an address, and so cannot be the same on two servers.
const PRIVATE_SETTINGS: &[&str] = &[
    "port",
    "listen_addresses",
    "unix_socket_directories",
    "data_directory",
    "hba_file",
    "ident_file",
    "external_pid_file",
    "cluster_name",
    "log_directory",
    "log_filename",
    "logging_collector",
];

/// Connections for samples, for checkpoints, and those that PostgreSQL keeps for its superuser.
const OTHER_CONNECTIONS: u64 = 15;

/// What a datanode is made of.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    bin: PathBuf,
    /// Encoding and locale: of initdb's environment otherwise.
    initdb: Vec<String>,
    settings: Vec<(String, String)>,
    user: (u32, u32),
    /// Process id of the datanode's postmaster.
    pub(crate) postmaster: u32,
}

impl Pattern {
    /// Reads it off a datanode on this machine.
    pub(crate) async fn of(datanode: &Client) -> Result<Self> {
        let data = PathBuf::from(sql::scalar(datanode, "SHOW data_directory").await?);
        let not_here = |e: std::io::Error| {
            PgError::new(SqlState::IO_ERROR, format!("cannot look at the datanode in {}: {e}", data.display()))
                .hint("The load benchmark must run on the machine of the datanodes, as their user or as root.")
        };
        let pid_file = std::fs::read_to_string(data.join("postmaster.pid")).map_err(not_here)?;
        let postmaster = pid_file.lines().next().and_then(|line| line.trim().parse().ok()).unwrap_or_default();
        let program = std::fs::read_link(format!("/proc/{postmaster}/exe")).map_err(not_here)?;
        let owner = std::fs::metadata(&data).map_err(not_here)?;
        let applied =
            "SELECT DISTINCT ON (name) name, setting FROM pg_file_settings WHERE applied ORDER BY name, seqno DESC";
        let settings =
            sql::table(datanode, applied).await?.into_iter().skip(1).map(|mut row| (row.remove(0), row.remove(0)));
        let locale = "SELECT pg_encoding_to_char(encoding), datcollate, datctype FROM pg_database \
                      WHERE datname = current_database()";
        let locale = sql::table(datanode, locale).await?.into_iter().nth(1).unwrap_or_default();
        let options = ["--encoding", "--lc-collate", "--lc-ctype"].iter().zip(locale);
        Ok(Self {
            initdb: options.map(|(option, value)| format!("{option}={value}")).collect(),
            bin: program.parent().unwrap_or(Path::new("/")).to_owned(),
            settings: settings.filter(|(name, _)| !PRIVATE_SETTINGS.contains(&name.as_str())).collect(),
            user: (owner.uid(), owner.gid()),
            postmaster,
        })
    }

    /// For a server to which so many connections are made, one a client: a datanode has fewer, since coordinators share theirs among
    /// all clients.
    pub(crate) async fn with_room_for(mut self, datanode: &Client, connections: u32) -> Result<Self> {
        let needed = u64::from(connections) + OTHER_CONNECTIONS;
        if sql::number(datanode, "SHOW max_connections").await? < needed {
            self.settings.retain(|(name, _)| name != "max_connections");
            self.settings.push(("max_connections".to_owned(), needed.to_string()));
        }
        Ok(self)
    }

    /// A program beside the server's.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }

    fn command(&self, program: &str) -> Command {
        self.command_of(&self.program(program))
    }

    /// A program that runs as the servers' user.
    pub(crate) fn command_of(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // Only root may become another user; anybody else is that user already.
        if std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) {
            command.uid(self.user.0).gid(self.user.1);
        }
        command.current_dir("/").stdin(Stdio::null());
        command
    }

    /// A directory that the servers can read and this process can write.
    pub(crate) fn make_dir(&self, path: &Path) -> Result<WorkDir> {
        let make = || -> std::io::Result<()> {
            std::fs::create_dir(path)?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
            chown(path, Some(self.user.0), Some(self.user.1))
        };
        make().map_err(|e| PgError::new(SqlState::IO_ERROR, format!("cannot make {}: {e}", path.display())))?;
        Ok(WorkDir(path.to_owned()))
    }
}

/// Removed with all it holds when dropped.
#[derive(Debug)]
pub(crate) struct WorkDir(PathBuf);

impl WorkDir {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running stock server; stopped when dropped.
#[derive(Debug)]
pub(crate) struct StockServer {
    pattern: Pattern,
    data: PathBuf,
    pub(crate) uri: String,
    pub(crate) port: u16,
    pub(crate) postmaster: u32,
}

impl StockServer {
    /// initdb and start in `dir/name`.
    pub(crate) fn start(pattern: &Pattern, dir: &Path, name: &str) -> Result<Self> {
        let data = dir.join(name);
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut initdb = pattern.command("initdb");
        initdb.args(["--auth=trust", "--username=postgres", "--no-sync"]).args(&pattern.initdb);
        run(initdb.arg("-D").arg(&data))?;
        let mut conf = std::fs::OpenOptions::new().append(true).open(data.join("postgresql.conf"))?;
        for (name, value) in &pattern.settings {
            writeln!(conf, "{name} = '{}'", value.replace('\'', "''"))?;
        }
        writeln!(conf, "port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''")?;
        let uri = format!("postgresql://postgres@127.0.0.1:{port}/postgres");
        let mut server = Self { pattern: pattern.clone(), data, uri, port, postmaster: 0 };
        let log = server.data.join("start.log");
        run(pattern.command("pg_ctl").args(["start", "-w", "-s", "-D"]).arg(&server.data).arg("-l").arg(log))?;
        let pid_file = std::fs::read_to_string(server.data.join("postmaster.pid"))?;
        server.postmaster = pid_file.lines().next().and_then(|line| line.trim().parse().ok()).unwrap_or_default();
        Ok(server)
    }
}

impl Drop for StockServer {
    fn drop(&mut self) {
        // Its data are thrown away: no need for a shutdown checkpoint.
        let _ = run(self.pattern.command("pg_ctl").args(["stop", "-m", "immediate", "-s", "-D"]).arg(&self.data));
    }
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |text: String| PgError::new(SqlState::IO_ERROR, format!("{program} failed")).detail(text);
    let output = command.output().map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
