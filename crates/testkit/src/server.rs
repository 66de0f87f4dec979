//! One stock PostgreSQL server in a temporary directory.

use std::path::{Path, PathBuf};

use pgerror::Result;

use crate::host::{TempDir, Watchdog, failure, free_ports, pg_bin, run, server_command, tail};
use crate::wire::Client;

/// How a server is made.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// `initdb --locale`.
    pub locale: String,
    /// `initdb --encoding`.
    pub encoding: String,
    /// Lines of postgresql.conf.
    pub settings: Vec<(String, String)>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { locale: "C.UTF-8".into(), encoding: "UTF8".into(), settings: Vec::new() }
    }
}

impl ServerOptions {
    /// The locale and encoding of another database, so that both sort and compare alike.
    ///
    /// # Errors
    /// When that server does not answer.
    pub fn like(other: &mut Client) -> Result<Self> {
        let sql =
            "SELECT datcollate, pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()";
        let row =
            other.strings(sql)?.into_iter().next().ok_or_else(|| failure("pg_database shows no current database"))?;
        Ok(Self { locale: row[0].clone(), encoding: row[1].clone(), settings: Vec::new() })
    }
}

/// A running server; stopped and removed when dropped or when this process dies.
#[derive(Debug)]
pub struct Server {
    port: u16,
    // Order matters: the watchdog stops the server before the directory goes.
    _watchdog: Watchdog,
    dir: TempDir,
}

impl Server {
    /// initdb and start. Takes one to three seconds.
    ///
    /// # Errors
    /// When PostgreSQL is missing or does not start; the detail holds the server's log.
    pub fn start(options: &ServerOptions) -> Result<Self> {
        let bin = pg_bin()?;
        let dir = TempDir::new("pg")?;
        let stop = r#"cd /; "$1"/pg_ctl stop -D "$2/data" -m immediate; rm -rf "$2""#;
        let watchdog = Watchdog::start(server_command("/bin/sh"), stop, &[&bin, dir.path()])?;
        let server = Self { port: free_ports(&[0])?, _watchdog: watchdog, dir };
        let mut initdb = server_command(bin.join("initdb"));
        initdb.args(["--no-sync", "--auth=trust", "--username=postgres", "--no-instructions"]);
        initdb.args(["--locale", &options.locale, "--encoding", &options.encoding, "--pgdata"]);
        run(initdb.arg(server.data_dir()))?;
        server.write_settings(options)?;
        server.start_again()?;
        Ok(server)
    }

    /// After [`Server::stop`].
    ///
    /// # Errors
    /// When it does not start; the detail holds the server's log.
    pub fn start_again(&self) -> Result<()> {
        let mut start = server_command(pg_bin()?.join("pg_ctl"));
        start.args(["start", "-w", "-t", "60", "-s", "-D"]).arg(self.data_dir()).arg("-l").arg(self.log());
        // Its output goes to the log: the server would keep a pipe of ours open for ever.
        run(&mut start).map_err(|e| e.detail(tail(&self.log())))?;
        Ok(())
    }

    /// As if its machine had lost its power.
    ///
    /// # Errors
    /// When it does not run.
    pub fn stop(&self) -> Result<()> {
        let mut stop = server_command(pg_bin()?.join("pg_ctl"));
        run(stop.args(["stop", "-m", "immediate", "-s", "-D"]).arg(self.data_dir())).map(drop)
    }

    fn write_settings(&self, options: &ServerOptions) -> Result<()> {
        use std::io::Write;
        let path = self.data_dir().join("postgresql.conf");
        let mut file = std::fs::OpenOptions::new().append(true).open(path)?;
        writeln!(file, "port = {}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''", self.port)?;
        // A test's data need not survive a power cut.
        writeln!(file, "fsync = off\nmax_prepared_transactions = 100\nautovacuum = off")?;
        for (name, value) in &options.settings {
            writeln!(file, "{name} = '{}'", value.replace('\'', "''"))?;
        }
        Ok(())
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// `PGDATA`.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The directory around it; the server's user can write there.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `postgresql://postgres@127.0.0.1:PORT/postgres`.
    pub fn uri(&self) -> String {
        uri(self.port)
    }

    /// A new session of user `postgres` in database `postgres`.
    ///
    /// # Errors
    /// The server's refusal.
    pub fn connect(&self) -> Result<Client> {
        Client::connect(self.port)
    }
}

pub(crate) fn uri(port: u16) -> String {
    format!("postgresql://postgres@127.0.0.1:{port}/postgres")
}
