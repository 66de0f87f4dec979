//! A whole cluster, brought up by the binary under test.

use std::path::{Path, PathBuf};
use std::process::Command;

use pgerror::Result;

use crate::host::{TempDir, Watchdog, free_ports, loxo_binary, pg_bin, run};
use crate::server::{Server, ServerOptions, uri};
use crate::wire::Client;

/// Does a stock server play the cluster (`LOXO_E2E_SELFTEST=1`)?
pub fn self_test() -> bool {
    std::env::var_os("LOXO_E2E_SELFTEST").is_some_and(|value| value == "1")
}

/// Datanodes that may be added without meeting others' ports.
const DATANODES_MORE: u16 = 2;

/// A running cluster; taken down and removed when dropped or when this process dies.
#[derive(Debug)]
pub struct Cluster {
    coordinators: Vec<u16>,
    datanodes: Vec<u16>,
    backing: Backing,
}

#[derive(Debug)]
enum Backing {
    Loxo { _watchdog: Watchdog, dir: TempDir, loxo: PathBuf, pg_bin: PathBuf },
    StockServer(Server),
}

impl Cluster {
    /// `loxo up` in a new directory on free ports.
    ///
    /// # Errors
    /// What `loxo up` printed, as detail.
    pub fn start(datanodes: u16, coordinators: u16) -> Result<Self> {
        Self::start_with(datanodes, coordinators, &[])
    }

    /// [`Cluster::start`] with more arguments of `loxo up`, e.g. `["--gtm-standby"]`.
    ///
    /// # Errors
    /// What `loxo up` printed, as detail.
    pub fn start_with(datanodes: u16, coordinators: u16, arguments: &[&str]) -> Result<Self> {
        if self_test() {
            return Self::stock(coordinators);
        }
        let (loxo, pg_bin) = (loxo_binary()?, pg_bin()?);
        // Ports as `loxo up` lays them out: coordinators from P, gtms from P + 50, pages from P + 60, datanodes from P + 100.
        let pages = 60..60 + coordinators;
        let offsets: Vec<u16> =
            (0..coordinators).chain([50, 51]).chain(pages).chain(100..100 + datanodes + DATANODES_MORE).collect();
        let base = free_ports(&offsets)?;
        let dir = TempDir::new("cluster")?;
        let down = r#""$1" down --dir "$2/c" --wipe; rm -rf "$2""#;
        let watchdog = Watchdog::start(Command::new("/bin/sh"), down, &[&loxo, dir.path()])?;
        let cluster = Self {
            coordinators: (base..base + coordinators).collect(),
            datanodes: (base + 100..base + 100 + datanodes).collect(),
            backing: Backing::Loxo { _watchdog: watchdog, dir, loxo, pg_bin },
        };
        // A test's data need not survive a power cut, and what a killed server has written the system keeps.
        let [port, datanodes, coordinators] = [base, datanodes, coordinators].map(|number| number.to_string());
        let shape = ["--port", &port, "--datanodes", &datanodes, "--coordinators", &coordinators];
        run(cluster.up_command(&[]).args(shape).args(["--set", "fsync=off"]).args(arguments))?;
        Ok(cluster)
    }

    /// One stock server that plays all coordinators and the only datanode.
    ///
    /// # Errors
    /// When it does not start.
    pub fn stock(coordinators: u16) -> Result<Self> {
        let server = Server::start(&ServerOptions::default())?;
        let ports = |count: u16| vec![server.port(); usize::from(count)];
        let (coordinators, datanodes) = (ports(coordinators), ports(1));
        Ok(Self { coordinators, datanodes, backing: Backing::StockServer(server) })
    }

    /// `loxo up` on the same directory: starts again what died.
    ///
    /// # Errors
    /// What `loxo up` printed, as detail.
    pub fn up(&self) -> Result<String> {
        self.up_with(&[])
    }

    /// [`Cluster::up`] with environment variables, which what is started now inherits: the orders of control points, say.
    ///
    /// # Errors
    /// What `loxo up` printed, as detail.
    pub fn up_with(&self, environment: &[(&str, &str)]) -> Result<String> {
        if self.is_distributed() { run(&mut self.up_command(environment)) } else { Ok(String::new()) }
    }

    fn up_command(&self, environment: &[(&str, &str)]) -> Command {
        let Backing::Loxo { loxo, pg_bin, .. } = &self.backing else { return Command::new("true") };
        let mut command = Command::new(loxo);
        command.envs(environment.iter().copied());
        command.arg("up").arg("--dir").arg(self.dir()).arg("--pg-bin").arg(pg_bin);
        command
    }

    /// Runs another `loxo` command, e.g. `["status", "--json"]`, on this cluster; gives what it printed.
    ///
    /// # Errors
    /// What it printed, as detail.
    pub fn loxo(&self, arguments: &[&str]) -> Result<String> {
        if self.is_distributed() { run(&mut self.loxo_command(arguments)) } else { Ok(String::new()) }
    }

    /// Another `loxo` command on this cluster, to be run by the caller; a stock server has no such commands.
    pub fn loxo_command(&self, arguments: &[&str]) -> Command {
        let Backing::Loxo { loxo, .. } = &self.backing else { return Command::new("false") };
        let mut command = Command::new(loxo);
        command.args(arguments).arg("--dir").arg(self.dir());
        command
    }

    /// What `loxo check --data` finds wrong with the rows; `None` if all of them lie where they belong.
    pub fn wrong_rows(&self) -> Option<String> {
        let found = self.loxo(&["check", "--data"]).err()?;
        Some(String::from_utf8_lossy(found.get(pgerror::field::DETAIL).unwrap_or_default()).into_owned())
    }

    /// False when a stock server plays the cluster: no `DISTRIBUTE BY` then.
    pub fn is_distributed(&self) -> bool {
        matches!(self.backing, Backing::Loxo { .. })
    }

    /// What every process of the cluster carries on its command line.
    pub fn dir(&self) -> PathBuf {
        match &self.backing {
            Backing::Loxo { dir, .. } => dir.path().join("c"),
            Backing::StockServer(server) => server.dir().to_owned(),
        }
    }

    /// A directory that the servers' user can read, for files of `COPY t FROM '/file'`.
    pub fn scratch(&self) -> &Path {
        match &self.backing {
            Backing::Loxo { dir, .. } => dir.path(),
            Backing::StockServer(server) => server.dir(),
        }
    }

    /// Ports of the coordinators.
    pub fn coordinators(&self) -> &[u16] {
        &self.coordinators
    }

    /// Ports of the datanodes that it was made with, in the order of their ids.
    pub fn datanodes(&self) -> &[u16] {
        &self.datanodes
    }

    /// Ports of the coordinators' live pages.
    pub fn pages(&self) -> Vec<u16> {
        self.coordinators.iter().map(|port| port + 60).collect()
    }

    /// Connection URIs of the coordinators.
    pub fn coordinator_uris(&self) -> Vec<String> {
        self.coordinators.iter().map(|port| uri(*port)).collect()
    }

    /// Connection URIs of the datanodes.
    pub fn datanode_uris(&self) -> Vec<String> {
        self.datanodes.iter().map(|port| uri(*port)).collect()
    }

    /// A session on a coordinator.
    ///
    /// # Errors
    /// The coordinator's refusal.
    pub fn connect(&self, coordinator: usize) -> Result<Client> {
        Client::connect(self.coordinators[coordinator])
    }

    /// A session on a datanode itself.
    ///
    /// # Errors
    /// The datanode's refusal.
    pub fn connect_datanode(&self, datanode: usize) -> Result<Client> {
        Client::connect(self.datanodes[datanode])
    }

    /// Process ids of the coordinators (those of all of them, in no order).
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn coordinator_pids(&self) -> Result<Vec<u32>> {
        self.pids("coordinator")
    }

    /// Process ids of what runs as this subcommand of `loxo`.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn pids(&self, subcommand: &str) -> Result<Vec<u32>> {
        let dir = self.dir().to_string_lossy().into_owned();
        let mut pids = Vec::new();
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            let Ok(command) = std::fs::read(entry.path().join("cmdline")) else { continue };
            let words: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
            let carries_dir = words.iter().any(|word| String::from_utf8_lossy(word).contains(&dir));
            if carries_dir && words.get(1) == Some(&subcommand.as_bytes()) {
                pids.push(pid);
            }
        }
        Ok(pids)
    }
}
