//! The PostgreSQL servers of a host.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use pgerror::{PgError, Result, SqlState};
use pgproto::Encryption;

use super::wanted::{HOME, Report, Server, Starting};
use super::{CONFIG_FILE, Host, check_address_free, check_space, files, part};
use crate::local::datanode::{self, Making};
use crate::local::directory::{Directory, Kind};
use crate::postgres::Installation;
use crate::proc::{self, Signal};
use crate::settings::{self, Machine, Setting};
use crate::sql::{Endpoint, Session};

/// Which settings a server has read, but takes at its next start only.
const PENDING_SQL: &str =
    "SELECT string_agg(name, ', ' ORDER BY name) FROM pg_catalog.pg_settings WHERE pending_restart";
/// Seconds since 1970.
const LOADED_SQL: &str = "SELECT extract(epoch FROM pg_catalog.pg_conf_load_time())";
/// Settings that keep a server from taking any of the file: it does not know them, or cannot read them.
const UNREAD_SQL: &str = "\
    SELECT string_agg(pg_catalog.concat_ws(': ', f.name, f.error), '; ' ORDER BY f.seqno) \
    FROM pg_catalog.pg_file_settings f LEFT JOIN pg_catalog.pg_settings s ON lower(s.name) = lower(f.name) \
    WHERE f.error IS NOT NULL AND s.name IS NULL";
/// Those that it does not take, once it has read the file, and would not take at its next start.
const WRONG_SQL: &str = "\
    SELECT string_agg(pg_catalog.concat_ws(': ', f.name, f.error), '; ' ORDER BY f.seqno) \
    FROM pg_catalog.pg_file_settings f LEFT JOIN pg_catalog.pg_settings s ON lower(s.name) = lower(f.name) \
    WHERE f.error IS NOT NULL AND s.pending_restart IS NOT TRUE";
const KEY: &str = "server.key";
const CERTIFICATE: &str = "server.crt";
const HBA: &str = "pg_hba.conf";
/// What it reads again, in its data directory.
const FILES: [&str; 4] = ["postgresql.conf", KEY, CERTIFICATE, HBA];
/// A server looks at signals between two things it does.
const RELOAD_MAX: Duration = Duration::from_secs(30);
/// A server that systemd starts, and that is not there for so long, does not start: what an earlier one left has 20 s to end, and systemd
/// waits 5 s before it tries again.
const ABSENCE_MAX: Duration = Duration::from_secs(40);
/// Nor does one that was there so often and ended again.
const STARTS_MAX: u32 = 2;
/// Longest recovery that is waited for; it goes on.
const ANSWER_MAX: Duration = Duration::from_secs(600);

impl Host<'_> {
    pub(super) async fn datanodes(&self, report: &mut Report) -> Result<()> {
        let is_new = |server: &&Server| !self.directory.data_dir(&server.name).exists();
        check_space(self.directory.dir(), self.wanted.datanodes.iter().filter(is_new).count() as u64)?;
        for server in &self.wanted.datanodes {
            self.datanode(server, report).await?;
        }
        report.is_unattended = !self.wanted.datanodes.is_empty();
        Ok(())
    }

    async fn datanode(&self, server: &Server, report: &mut Report) -> Result<()> {
        let (directory, name) = (&self.directory, &server.name);
        let postgres = Installation::find(Some(&server.pg_bin))?;
        let is_new = !directory.data_dir(name).exists();
        let is_there = || !is_new && datanode::postmaster(directory, name).is_some();
        if self.wanted.starting == Starting::Done || is_there() {
            self.progress.step(&format!("waiting for {name}"), self.wait_for(server)).await?;
        }
        let runs = is_there();
        if !runs {
            check_address_free(&self.wanted.address, server.port, name)?;
        }
        if is_new && self.wanted.is_initialised && !self.wanted.joining.iter().any(|new| new.name == *name) {
            return Err(lost(directory, name));
        }
        let hba = hba(&server.clients);
        if is_new {
            // It was there when the hosts were looked at.
            let password = server.password.as_deref().ok_or_else(|| lost(directory, name))?;
            let making = Making { hba: &hba, password: Some(password), sync: true };
            let create = datanode::create(directory, name, &postgres, None, &making);
            self.progress.step(&format!("creating {name}"), create).await?;
        }
        let changed = self.write_files(server, &hba)?;
        if !runs {
            match self.wanted.starting {
                Starting::Later => report.to_start.push(name.clone()),
                Starting::Done => {
                    let text = format!("datanode {name} was started, and has ended again");
                    return Err(PgError::new(SqlState::CANNOT_CONNECT_NOW, text).hint("Run \"loxo deploy\" again."));
                }
                Starting::Here | Starting::Systemd => {
                    let start = datanode::start(directory, name, &postgres, None);
                    self.progress.step(&format!("starting {name}"), start).await?;
                }
            }
            report.did(name, if is_new { "made and started" } else { "started" });
            return Ok(());
        }
        match changed || self.is_unread(server).await? {
            true => {
                let pending = self.reload(server).await?;
                let pending = pending.map_or(String::new(), |names| format!("; {names}: from its next start on"));
                report.did(name, &format!("reads changed files{pending}"));
            }
            false => {
                refuse(server, self.session(server).await?.value(WRONG_SQL).await?)?;
                report.left(name);
            }
        }
        Ok(())
    }

    /// For the answer of a server that is there, or that systemd starts: recovery after a crash takes its time.
    async fn wait_for(&self, server: &Server) -> Result<()> {
        let log = self.directory.log_file(&server.name);
        let log_begin = log.metadata().map_or(0, |found| found.len());
        let (began, mut last_seen, mut last, mut starts) = (Instant::now(), Instant::now(), None, 0);
        loop {
            let Err(error) = self.session(server).await else { return Ok(()) };
            let is_absent = error.code() == SqlState::CANNOT_CONNECT_NOW || error.code().as_bytes().starts_with(b"08");
            if !is_absent {
                return Err(error);
            }
            let seen = datanode::postmaster(&self.directory, &server.name);
            if seen.is_some() {
                last_seen = Instant::now();
                starts += u32::from(seen != last);
                last = seen;
            }
            if starts > STARTS_MAX || last_seen.elapsed() > ABSENCE_MAX || began.elapsed() > ANSWER_MAX {
                let text = format!("datanode {} did not start", server.name);
                let said = datanode::log_tail(&log, log_begin);
                return Err(PgError::new(SqlState::CANNOT_CONNECT_NOW, text)
                    .detail(if said.is_empty() { error.message().into_owned() } else { said })
                    .hint(format!("The whole log is \"{}\".", log.display())));
            }
            tokio::time::sleep(proc::POLL).await;
        }
    }

    /// An earlier call may have died between writing files and having the server read them.
    async fn is_unread(&self, server: &Server) -> Result<bool> {
        let data = self.directory.data_dir(&server.name);
        let written = files::newest(&FILES.map(|name| data.join(name)))?;
        let loaded = self.session(server).await?.value(LOADED_SQL).await?;
        Ok(loaded.and_then(|loaded| loaded.parse().ok()).is_none_or(|loaded: f64| written >= loaded))
    }

    /// Says whether any of them is another one now.
    fn write_files(&self, server: &Server, hba: &str) -> Result<bool> {
        let data = self.directory.data_dir(&server.name);
        let mut changed = datanode::write_settings(&self.directory, &server.name, &self.settings(server)?, None)?;
        for (name, text) in [(KEY, server.key.as_str()), (CERTIFICATE, &server.certificate), (HBA, hba)] {
            changed |= files::write(&data.join(name), text, 0o600)?;
        }
        Ok(changed)
    }

    fn settings(&self, server: &Server) -> Result<Vec<Setting>> {
        let data = self.directory.data_dir(&server.name).to_string_lossy().into_owned();
        let machine = Machine::here(self.wanted.datanodes.len());
        let mut list = settings::settings(server.profile, machine, server.port, &data, Some(&data), &server.set);
        let mut set = |name: &str, value: &str, reason| {
            list.retain(|setting| setting.name != name);
            list.push(Setting { name: name.to_owned(), value: value.to_owned(), reason });
        };
        set("listen_addresses", &self.wanted.address, "where the other hosts of the cluster reach it");
        set("ssl", "on", "pg_hba.conf lets nobody in from other hosts without it");
        if !server.set.contains_key("timezone") {
            set("timezone", "UTC", "the same on all datanodes, whatever the hosts say");
        }
        Ok(list)
    }

    /// Has a server read its files again; gives the settings that need more than that.
    async fn reload(&self, server: &Server) -> Result<Option<String>> {
        let loaded = self.session(server).await?.value(LOADED_SQL).await?;
        if let Some(pid) = datanode::postmaster(&self.directory, &server.name) {
            proc::send(pid, Signal::HUP)?;
        }
        let since = Instant::now();
        loop {
            // What a new session sees, all later ones see.
            let session = self.session(server).await?;
            if session.value(LOADED_SQL).await? != loaded {
                refuse(server, session.value(WRONG_SQL).await?)?;
                return session.value(PENDING_SQL).await;
            }
            refuse(server, session.value(UNREAD_SQL).await?)?;
            if since.elapsed() > RELOAD_MAX {
                let text = format!("{} does not read its files again", server.name);
                return Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text));
            }
            tokio::time::sleep(proc::POLL).await;
        }
    }

    /// By the Unix socket, which is closed to other users.
    async fn session(&self, server: &Server) -> Result<Session> {
        let socket = self.directory.data_dir(&server.name).to_string_lossy().into_owned();
        Session::connect(&Endpoint {
            host: socket,
            port: server.port,
            user: "postgres".to_owned(),
            database: "postgres".to_owned(),
            password: None,
            encryption: Encryption::Plain,
            environment: Vec::new(),
        })
        .await
    }

    pub(super) async fn stop_datanodes(&self, report: &mut Report) -> Result<()> {
        for server in &self.wanted.datanodes {
            let name = &server.name;
            if datanode::processes(&self.directory, name).is_empty() {
                report.left(name);
                continue;
            }
            let stop = datanode::stop(&self.directory, name);
            self.progress.step(&format!("stopping {}", part(Kind::Datanode, name, server.port).name), stop).await?;
            report.did(name, "stopped");
        }
        Ok(())
    }
}

/// What the unit of a datanode runs, as the servers' OS user: this process becomes the server. If that runs already, without the unit,
/// there is nothing to be done. `directory`: that of [`Wanted`](super::Wanted).
pub async fn become_datanode(directory: &Path, name: &str, pg_bin: &Path) -> Result<()> {
    let directory = Directory::new(&directory.join(HOME), CONFIG_FILE);
    datanode::become_server(&directory, name, &Installation::find(Some(pg_bin))?).await
}

/// `wrong`: what the server says of its settings.
fn refuse(server: &Server, wrong: Option<String>) -> Result<()> {
    wrong.map_or(Ok(()), |wrong| {
        let text = format!("{} does not take its settings", server.name);
        Err(PgError::new(SqlState::CONFIG_FILE_ERROR, text)
            .detail(wrong)
            .hint("Correct them in [set] of the inventory; the server goes on with those it had."))
    })
}

/// An empty server in its place would be a loss of data.
fn lost(directory: &Directory, name: &str) -> PgError {
    let data = directory.data_dir(name);
    let text = format!("the data directory \"{}\" of datanode {name} is missing", data.display());
    PgError::new(SqlState::UNDEFINED_FILE, text)
        .detail("It has existed, so an empty datanode in its place would be a loss of data.")
        .hint("Put the directory back from a backup; or take the datanode out with \"loxo node remove --lost\".")
}

/// pg_hba.conf: the hosts of the cluster, encrypted and with a password; and any user that reaches the socket, which lies in the
/// data directory.
fn hba(clients: &[String]) -> String {
    let mut text = "# Written by \"loxo deploy\". The socket lies in the data directory, which is closed to others.\n\
                    # TYPE   DATABASE  USER  ADDRESS  METHOD\n\
                    local    all       all            trust\n"
        .to_owned();
    for client in clients {
        writeln!(text, "hostssl  all       all   {client}  scram-sha-256").expect("a String takes all");
    }
    text
}
