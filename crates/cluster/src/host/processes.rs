//! The gtms and coordinators of a host.

use std::time::Duration;

use pgerror::{PgError, Result};
use tokio::net::TcpStream;

use super::wanted::{Process, Report, Starting};
use super::{Host, check_address_free, files, part};
use crate::config::Config;
use crate::local::daemon;
use crate::local::directory::{Kind, Part};
use crate::proc::{self, Signal};
use crate::sql::Session;

/// In the home while files may have changed that not all processes were told to read. No node's name has a dot.
const RELOAD_OWED: &str = "reload.owed";

const CONNECT_MAX: Duration = Duration::from_secs(5);

impl Host<'_> {
    pub(super) async fn processes(&self, kind: Kind, processes: &[Process], report: &mut Report) -> Result<()> {
        // A host that has none has no configuration either.
        if processes.is_empty() {
            return Ok(());
        }
        let (directory, config) = (&self.directory, self.config()?);
        for process in processes {
            let part = part(kind, &process.name, process.port);
            let running = daemon::pids(directory, &part);
            if running.is_empty() && self.wanted.starting != Starting::Done {
                check_address_free(&self.wanted.address, part.port, &part.name)?;
                if self.wanted.starting == Starting::Later {
                    report.to_start.push(process.name.clone());
                    report.did(&part.name, "started");
                    continue;
                }
                daemon::start(directory, &part, self.loxo, None)?;
            }
            let lives = || !daemon::pids(directory, &part).is_empty();
            let wait = daemon::wait_until(directory, &part, lives, async || self.answers(&config, &part).await);
            self.progress.step(&format!("waiting for {}", part.name), wait).await?;
            match running.is_empty() {
                true => report.did(&part.name, "started"),
                false => report.left(&part.name),
            }
        }
        report.is_unattended = true;
        Ok(())
    }

    /// Writes the configuration and what it names. Running processes read it again: rules, certificates, and how much is logged.
    pub(super) fn update_files(&self, report: &mut Report) -> Result<()> {
        let (home, owed) = (self.directory.dir(), self.directory.dir().join(RELOAD_OWED));
        if !owed.exists() && !files::differ(home, &self.wanted.files) {
            return Ok(());
        }
        // A step that dies in between leaves files that are as they should be, and were not read.
        files::write(&owed, "", 0o600)?;
        files::write_all(home, &self.wanted.files)?;
        let of = |kind, processes: &[Process]| -> Vec<Part> {
            processes.iter().map(|process| part(kind, &process.name, process.port)).collect()
        };
        let parts = [of(Kind::Gtm, &self.wanted.gtms), of(Kind::Coordinator, &self.wanted.coordinators)].concat();
        for part in parts {
            for pid in daemon::pids(&self.directory, &part) {
                proc::send(pid, Signal::HUP)?;
                report.did(&part.name, "reads changed files");
            }
        }
        files::remove(&owed)
    }

    async fn answers(&self, config: &Config, part: &Part) -> Result<()> {
        if part.kind == Kind::Coordinator {
            let endpoint = config.coordinator_endpoint(config.coordinator(Some(&part.name))?)?;
            return match Session::connect(&endpoint).await {
                // Rules of the administrator's may keep the cluster's own user out.
                Err(error) if error.code().as_bytes().starts_with(b"28") => Ok(()),
                Err(error) => Err(error),
                Ok(session) => session.run("SELECT 1").await,
            };
        }
        // It listens last, and hears nobody who does not show a certificate.
        let connect = TcpStream::connect((self.wanted.address.as_str(), part.port));
        match tokio::time::timeout(CONNECT_MAX, connect).await {
            Ok(connected) => connected.map(drop).map_err(PgError::from),
            Err(_) => Err(PgError::connection(format!("no answer on port {}", part.port))),
        }
    }

    pub(super) async fn stop(&self, kind: Kind, processes: &[Process], report: &mut Report) -> Result<()> {
        for process in processes {
            let part = part(kind, &process.name, process.port);
            if daemon::pids(&self.directory, &part).is_empty() {
                report.left(&part.name);
                continue;
            }
            let stop = daemon::stop(&self.directory, &part);
            self.progress.step(&format!("stopping {}", part.name), stop).await?;
            report.did(&part.name, "stopped");
        }
        Ok(())
    }
}
