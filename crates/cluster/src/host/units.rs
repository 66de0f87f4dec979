//! The units by which systemd starts a host's processes: when the host starts, and again when one has died.
//!
//! ```text
//!  root                                          the servers' OS user
//!                                    ──▶  Starting::Later   files and data directories; says what has to be started
//!  writes, enables and starts units
//!                                    ──▶  Starting::Done    waits until all answer
//! ```
//!
//! Only where systemd runs the host, root asks, and the inventory does not say otherwise: then units that there are go. What runs without a
//! unit's doing is left alone; the unit starts it next time. What has units is stopped by them, since systemd would start it again.

use std::path::{Path, PathBuf};
use std::process::Output;

use pgerror::{PgError, Result, SqlState, field};
use tokio::process::Command;

use super::wanted::{Report, Server, Starting, Step, Wanted};
use super::{CONFIG_FILE, HOME, as_user, files};
use crate::disk;
use crate::local::directory::Kind;
use crate::postgres::OsUser;

/// As `sd_booted(3)` looks.
const BOOTED: &str = "/run/systemd/system";
const UNITS: &str = "/etc/systemd/system";

pub(super) struct Units<'a> {
    wanted: &'a Wanted,
    loxo: &'a Path,
}

/// A unit's process.
struct Unit {
    /// Of the node.
    name: String,
    text: String,
}

impl<'a> Units<'a> {
    /// `None` where there is no systemd.
    pub(super) fn here(wanted: &'a Wanted, loxo: &'a Path) -> Option<Self> {
        Path::new(BOOTED).is_dir().then_some(Self { wanted, loxo })
    }

    /// Does a step, with units.
    pub(super) async fn perform(&self, user: &OsUser, step: Step) -> Result<Report> {
        let asked = |starting| Wanted { starting, ..self.wanted.clone() };
        match step {
            Step::StopCoordinators | Step::StopGtms | Step::StopDatanodes => {
                let stopped = self.stop(&self.of(step)).await?;
                let mut report = as_user(user, step, &asked(Starting::Done), self.loxo).await?;
                for deed in report.deeds.iter_mut().filter(|deed| stopped.contains(&deed.subject)) {
                    deed.done = Some("stopped".to_owned());
                }
                Ok(report)
            }
            Step::Datanodes | Step::Gtms | Step::Coordinators if self.wanted.starting != Starting::Systemd => {
                self.retire(&[]).await?;
                as_user(user, step, self.wanted, self.loxo).await
            }
            Step::Datanodes | Step::Gtms | Step::Coordinators => {
                let units = self.of(step);
                self.refuse_foreign(&units)?;
                let first = as_user(user, step, &asked(Starting::Later), self.loxo).await?;
                let started = self.start(&units, &first.to_start).await;
                // What did not start says why in its log.
                let answered = as_user(user, step, &asked(Starting::Done), self.loxo).await;
                let mut report = match (started, answered) {
                    (Ok(()), answered) => answered?,
                    (Err(error), Ok(_)) => return Err(error),
                    (Err(error), Err(seen)) => {
                        let said = [error.text(field::DETAIL), seen.message(), seen.text(field::DETAIL)].join("\n");
                        return Err(error.detail(said.trim().to_owned()));
                    }
                };
                report.is_unattended = false;
                report.begins_with(first);
                Ok(report)
            }
            Step::Initialise | Step::Join | Step::Check => as_user(user, step, &asked(Starting::Done), self.loxo).await,
        }
    }

    async fn start(&self, units: &[Unit], to_start: &[String]) -> Result<()> {
        let wanted = self.wanted;
        let processes = wanted.gtms.iter().chain(&wanted.coordinators).map(|process| &process.name);
        let names: Vec<&String> = processes.chain(wanted.datanodes.iter().map(|server| &server.name)).collect();
        self.retire(&names).await?;
        let mut is_changed = false;
        for unit in units {
            is_changed |= files::write(&self.path(&unit.name), &unit.text, 0o644)?;
        }
        if is_changed {
            read_again().await?;
        }
        for Unit { name, .. } in units {
            let unit = self.unit(name);
            done(systemctl(&["enable", "--quiet", &unit]).await?, &format!("{unit} was not enabled"))?;
            if to_start.contains(name) {
                let started = systemctl(&["start", &unit]).await?;
                done(started, &format!("{name} did not start"))
                    .map_err(|error| error.hint(format!("See \"systemctl status {unit}\" on the host.")))?;
            }
        }
        Ok(())
    }

    /// Gives the nodes that ran by their units.
    async fn stop(&self, units: &[Unit]) -> Result<Vec<String>> {
        let mut stopped = Vec::new();
        for Unit { name, .. } in units {
            let unit = self.unit(name);
            if !self.is_ours(name) {
                continue;
            }
            if systemctl(&["is-active", "--quiet", &unit]).await?.status.success() {
                stopped.push(name.clone());
            }
            done(systemctl(&["stop", &unit]).await?, &format!("{name} was not stopped"))?;
        }
        Ok(stopped)
    }

    /// Other nodes than these do not start by units any more; what runs, runs on.
    async fn retire(&self, but: &[&String]) -> Result<()> {
        let mut existing = self.existing()?;
        existing.retain(|name| !but.contains(&name));
        for name in &existing {
            let unit = self.unit(name);
            done(systemctl(&["disable", "--quiet", &unit]).await?, &format!("{unit} was not disabled"))?;
            files::remove(&self.path(name))?;
        }
        match existing.is_empty() {
            true => Ok(()),
            false => read_again().await,
        }
    }

    /// The nodes that have units of this cluster on the host.
    fn existing(&self) -> Result<Vec<String>> {
        let prefix = self.unit("").trim_end_matches(".service").to_owned();
        let mut names = Vec::new();
        for entry in std::fs::read_dir(UNITS).map_err(disk::context("read", Path::new(UNITS)))?.flatten() {
            let file = entry.file_name();
            let name = file.to_str().and_then(|file| file.strip_prefix(&prefix)?.strip_suffix(".service"));
            if let Some(name) = name.filter(|name| self.is_ours(name)) {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// The units that a step is about.
    fn of(&self, step: Step) -> Vec<Unit> {
        let processes = |kind: Kind| {
            let all = if kind == Kind::Gtm { &self.wanted.gtms } else { &self.wanted.coordinators };
            all.iter().map(move |process| Unit { name: process.name.clone(), text: self.process(kind, &process.name) })
        };
        match step {
            Step::Datanodes | Step::StopDatanodes => {
                let datanode = |server: &Server| Unit { name: server.name.clone(), text: self.datanode(server) };
                self.wanted.datanodes.iter().map(datanode).collect()
            }
            Step::Gtms | Step::StopGtms => processes(Kind::Gtm).collect(),
            Step::Coordinators | Step::StopCoordinators => processes(Kind::Coordinator).collect(),
            Step::Initialise | Step::Join | Step::Check => Vec::new(),
        }
    }

    fn refuse_foreign(&self, units: &[Unit]) -> Result<()> {
        match units.iter().find(|unit| self.path(&unit.name).exists() && !self.is_ours(&unit.name)) {
            None => Ok(()),
            Some(unit) => {
                let text = format!("\"{}\" is not of this cluster", self.path(&unit.name).display());
                Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text).hint(
                    "Give the cluster another name in the inventory, or remove that file; with systemd = false in [cluster] no units are made.",
                ))
            }
        }
    }

    fn unit(&self, node: &str) -> String {
        format!("loxo-{}-{node}.service", escaped(&self.wanted.cluster))
    }

    fn path(&self, node: &str) -> PathBuf {
        Path::new(UNITS).join(self.unit(node))
    }

    fn is_ours(&self, node: &str) -> bool {
        disk::read(&self.path(node)).is_ok_and(|text| text.lines().next() == Some(self.title().as_str()))
    }

    fn title(&self) -> String {
        format!(
            "# Written by \"loxo deploy\", which writes it anew; of the cluster in {}",
            self.wanted.directory.display()
        )
    }

    fn home(&self) -> PathBuf {
        self.wanted.directory.join(HOME)
    }

    fn begin(&self, what: &str) -> String {
        format!(
            "{title}\n[Unit]\nDescription=Loxodonta {what}, cluster {cluster}\nAfter=network-online.target\nWants=network-online.target\n\
             # However long another host is away.\nStartLimitIntervalSec=0\n\n\
             [Service]\nUser=postgres\nWorkingDirectory={home}\n",
            title = self.title(),
            cluster = escaped(&self.wanted.cluster),
            home = self.home().display(),
        )
    }

    /// Its log is opened by the servers' OS user, who owns the directory: root would follow a link there. All words are plain.
    fn exec(&self, arguments: &str, name: &str) -> String {
        let (home, loxo) = (self.home(), self.loxo.display());
        format!(
            "ExecStart=/bin/sh -c 'exec {loxo} {arguments} >>{}/log/{name}.log 2>&1'\nExecReload=/bin/kill -HUP $MAINPID\n",
            home.display()
        )
    }

    fn process(&self, kind: Kind, name: &str) -> String {
        let watchdog = if kind == Kind::Gtm { 10 } else { 30 };
        format!(
            "{begin}Type=notify\n{exec}\
             Restart=always\nRestartSec=1\n\
             # One that stands still says nothing for so long, and is killed and started again like a dead one.\n\
             WatchdogSec={watchdog}\nWatchdogSignal=SIGKILL\n\
             TimeoutStopSec=90\nLimitNOFILE=65536\nNoNewPrivileges=yes\n\n\
             [Install]\nWantedBy=multi-user.target\n",
            begin = self.begin(&format!("{kind} {name}")),
            exec = self.exec(&format!("{kind} --config {}/{CONFIG_FILE} --name {name}", self.home().display()), name),
        )
    }

    /// It counts as started when its process is there, however long its recovery takes. Nothing is read that the servers' OS user has
    /// written, as a file with its pid would be.
    fn datanode(&self, server: &Server) -> String {
        let name = &server.name;
        let (directory, pg_bin) = (self.wanted.directory.display(), server.pg_bin.display());
        let start = format!("host start-datanode --directory {directory} --name {name} --pg-bin {pg_bin}");
        format!(
            "{begin}Type=exec\n{exec}\
             KillSignal=SIGINT\nKillMode=mixed\n\
             Restart=on-failure\nRestartSec=5\n\
             # The kernel may take a backend's memory, but not the server's.\n\
             OOMScoreAdjust=-900\nEnvironment=PG_OOM_ADJUST_FILE=/proc/self/oom_score_adj PG_OOM_ADJUST_VALUE=0\n\
             TimeoutStopSec=300\nLimitNOFILE=65536\nNoNewPrivileges=yes\n\n\
             [Install]\nWantedBy=multi-user.target\n",
            begin = self.begin(&format!("datanode {name}")),
            exec = self.exec(&start, name),
        )
    }
}

/// A text as a part of a unit's name, as `systemd-escape` writes it: letters, digits and underscores stay.
fn escaped(text: &str) -> String {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.bytes().map(|byte| if word(byte) { char::from(byte).to_string() } else { format!("\\x{byte:02x}") }).collect()
}

async fn read_again() -> Result<()> {
    done(systemctl(&["daemon-reload"]).await?, "systemd does not read its units again")
}

async fn systemctl(arguments: &[&str]) -> Result<Output> {
    let output = Command::new("systemctl").args(arguments).stdin(std::process::Stdio::null()).output().await;
    output.map_err(disk::context("run", Path::new("systemctl")))
}

fn done(output: Output, failure: &str) -> Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, failure.to_owned()).detail(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_clusters_are_parts_of_names_of_units() {
        assert_eq!(escaped("sales_1"), "sales_1");
        assert_eq!(escaped("a-b c"), "a\\x2db\\x20c");
    }
}
