//! What is asked of a host, and what it answers; both cross ssh as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pgerror::{PgError, Result, SqlState, field};
use serde::{Deserialize, Serialize};

use crate::settings::Profile;

/// What a host has to be. It holds secrets, so it is never printed.
#[derive(Clone, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Wanted {
    /// The cluster's name, for people and for names of units.
    pub cluster: String,
    /// Absolute. The program is in its `bin`, all else in its [`HOME`].
    pub directory: PathBuf,
    /// Where its processes listen, and others reach them.
    pub address: String,
    pub files: Vec<File>,
    pub datanodes: Vec<Server>,
    pub gtms: Vec<Process>,
    pub coordinators: Vec<Process>,
    /// Servers to become datanodes, on any host.
    pub joining: Vec<Joining>,
    /// The cluster exists, so a data directory that is missing is a loss and is not made.
    pub is_initialised: bool,
    pub starting: Starting,
}

/// Who starts what does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Starting {
    /// Who does the step.
    Here,
    /// systemd, where it runs the host and root asks; else as [`Starting::Here`].
    Systemd,
    /// Who asks for it, afterwards.
    Later,
    /// That was done, so it runs.
    Done,
}

/// A gtm or a coordinator.
#[derive(Clone, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Process {
    pub name: String,
    pub port: u16,
}

/// A server that is to become a datanode of the cluster.
#[derive(Clone, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Joining {
    pub name: String,
    pub host: String,
    pub port: u16,
}

/// A file in [`HOME`].
#[derive(Clone, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct File {
    pub path: String,
    pub mode: u32,
    pub text: String,
}

/// A datanode.
#[derive(Clone, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Server {
    pub name: String,
    pub port: u16,
    /// Where initdb and postgres are.
    pub pg_bin: PathBuf,
    pub profile: Profile,
    pub set: BTreeMap<String, String>,
    /// The superuser's password, only for a data directory that is to be made.
    pub password: Option<String>,
    /// PEM.
    pub certificate: String,
    pub key: String,
    /// Addresses that may connect, each with the length of its prefix.
    pub clients: Vec<String>,
}

/// The folder in the directory that belongs to the user that servers run as. The program is outside: root runs it, so nobody else may
/// write it.
pub const HOME: &str = "cluster";

/// One thing a host can be asked to do. Each leaves alone what is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Makes and starts datanodes.
    Datanodes,
    /// Writes the metadata on all datanodes of the cluster, or upgrades it.
    Initialise,
    /// Writes the files, and starts gtms.
    Gtms,
    /// Writes the files, and starts coordinators.
    Coordinators,
    /// Makes the servers in `joining`, which run, datanodes of the cluster.
    Join,
    /// Notes new coordinators and gtms in the metadata, then looks at everything.
    Check,
    /// Stops coordinators.
    StopCoordinators,
    /// Stops gtms.
    StopGtms,
    /// Stops datanodes.
    StopDatanodes,
}

impl Step {
    const NAMES: [(Step, &'static str); 9] = [
        (Step::Datanodes, "datanodes"),
        (Step::Initialise, "initialise"),
        (Step::Gtms, "gtms"),
        (Step::Coordinators, "coordinators"),
        (Step::Join, "join"),
        (Step::Check, "check"),
        (Step::StopCoordinators, "stop-coordinators"),
        (Step::StopGtms, "stop-gtms"),
        (Step::StopDatanodes, "stop-datanodes"),
    ];

    /// Does it end processes?
    pub fn stops(self) -> bool {
        matches!(self, Self::StopCoordinators | Self::StopGtms | Self::StopDatanodes)
    }

    /// Its word on the command line.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(step, _)| *step == self).map_or("", |(_, name)| name)
    }

    /// The step of a word.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(step, _)| *step)
    }
}

/// What a host did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Report {
    pub deeds: Vec<Deed>,
    /// Warnings of [`Step::Check`].
    pub warnings: Vec<String>,
    /// Result of [`Step::Initialise`].
    pub cluster_id: Option<String>,
    /// Result of [`Step::Join`]: ids by the datanodes' names.
    pub joined: BTreeMap<String, u16>,
    /// What has to be started by who asks.
    pub to_start: Vec<String>,
    /// Nobody starts the step's processes when the host is started again.
    pub is_unattended: bool,
}

/// What became of one process, or of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Deed {
    pub subject: String,
    /// Nothing, if it was left as it was.
    pub done: Option<String>,
}

/// What a host says in the end.
#[derive(Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Answer {
    Done(Report),
    Failed { code: String, message: String, detail: Option<String>, hint: Option<String> },
}

impl Answer {
    /// To be sent.
    pub fn of(result: Result<Report>) -> Self {
        match result {
            Ok(report) => Self::Done(report),
            Err(error) => {
                let text = |code| error.get(code).map(|_| error.text(code).into_owned());
                Self::Failed {
                    code: error.text(field::CODE).into_owned(),
                    message: error.message().into_owned(),
                    detail: text(field::DETAIL),
                    hint: text(field::HINT),
                }
            }
        }
    }

    /// This answer with every text for people changed by `make`.
    pub fn with_texts(self, make: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Done(mut report) => {
                for deed in &mut report.deeds {
                    deed.subject = make(&deed.subject);
                    deed.done = deed.done.as_deref().map(&make);
                }
                for warning in &mut report.warnings {
                    *warning = make(warning);
                }
                Self::Done(report)
            }
            Self::Failed { code, message, detail, hint } => Self::Failed {
                code,
                message: make(&message),
                detail: detail.as_deref().map(&make),
                hint: hint.as_deref().map(&make),
            },
        }
    }

    /// As it was.
    pub fn result(self) -> Result<Report> {
        match self {
            Self::Done(report) => Ok(report),
            Self::Failed { code, message, detail, hint } => {
                let code = SqlState::from_bytes(code.as_bytes()).unwrap_or(SqlState::INTERNAL_ERROR);
                let error = PgError::new(code, message);
                let error = detail.into_iter().fold(error, PgError::detail);
                Err(hint.into_iter().fold(error, PgError::hint))
            }
        }
    }
}

impl Report {
    pub(super) fn did(&mut self, subject: &str, done: &str) {
        self.deeds.push(Deed { subject: subject.to_owned(), done: Some(done.to_owned()) });
    }

    pub(super) fn left(&mut self, subject: &str) {
        self.deeds.push(Deed { subject: subject.to_owned(), done: None });
    }

    /// What was done before counts where nothing was to be done any more.
    pub(super) fn begins_with(&mut self, first: Report) {
        for before in first.deeds.into_iter().filter(|deed| deed.done.is_some()) {
            match self.deeds.iter_mut().find(|deed| deed.subject == before.subject && deed.done.is_none()) {
                Some(deed) => deed.done = before.done,
                None => self.deeds.push(before),
            }
        }
    }
}
