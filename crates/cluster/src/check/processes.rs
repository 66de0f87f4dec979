//! Whether the gtms and coordinators of a configuration run and answer, wherever they are.

use std::time::Duration;

use futures_util::future::join_all;
use pgerror::{PgError, Result, SqlState};
use serde::Serialize;
use tokio::net::TcpStream;

use super::Report;
use crate::config::{Config, Coordinator, Gtm, gtm_name};
use crate::sql::Session;

const CONNECT_MAX: Duration = Duration::from_secs(5);

/// What a gtm or a coordinator tells.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Process {
    /// `None`: it may run on another host, nobody here can say.
    pub is_up: Option<bool>,
    /// Of a gtm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leads: Option<bool>,
    /// These are not known of one that only listens to who has no certificate, or does not let the cluster's user in.
    pub version: Option<String>,
    pub up_seconds: Option<u64>,
    /// Why it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl Process {
    fn of(answer: Result<Self>) -> Self {
        answer.unwrap_or_else(|error| Self {
            is_up: Some(false),
            trouble: Some(error.message().into_owned()),
            ..Self::default()
        })
    }

    /// It listens, or has said no.
    fn is_there() -> Self {
        Self { is_up: Some(true), ..Self::default() }
    }
}

/// Reports those that do not answer.
pub(super) async fn check(config: &Config, report: &mut Report) {
    let gtms = join_all(config.gtms.iter().map(|gtm| process_of_gtm(config, gtm))).await;
    for (at, trouble) in gtms.into_iter().enumerate().filter_map(|(at, gtm)| Some((at, gtm.trouble?))) {
        let (name, gtm) = (gtm_name(at), &config.gtms[at]);
        let text = format!("this gtm does not answer at {}:{}: {trouble}", gtm.host, gtm.port);
        report.error(&name, text, start(config, "gtm", &name));
    }
    let coordinators = join_all(config.coordinators.iter().map(|own| process_of_coordinator(config, own))).await;
    for (own, process) in config.coordinators.iter().zip(coordinators) {
        let Some(trouble) = process.trouble else { continue };
        match process.is_up {
            Some(true) => report.warning(
                &own.name,
                trouble,
                "Sessions may hold them all: look into pg_stat_activity, and at pool_size.",
            ),
            Some(false) => {
                let text = format!("this coordinator does not answer at {}: {trouble}", own.listen);
                report.error(&own.name, text, start(config, "coordinator", &own.name));
            }
            None => report.warning(&own.name, trouble, "Check on its host, or give it an address in \"listen\"."),
        }
    }
}

fn start(config: &Config, what: &str, name: &str) -> String {
    match config.local {
        Some(_) => "\"loxo up\" starts what does not run; \"loxo status\" names the log.".to_owned(),
        None => format!(
            "Start it on its host (\"loxo {what} --config F --name {name}\", or its service), or look into its log."
        ),
    }
}

/// Asks a gtm.
pub(crate) async fn process_of_gtm(config: &Config, gtm: &Gtm) -> Process {
    Process::of(ask_gtm(config, gtm).await)
}

/// One that asks for certificates hears nobody who has none of them, and not every host has one: then it is enough that it listens.
async fn ask_gtm(config: &Config, gtm: &Gtm) -> Result<Process> {
    let address = format!("{}:{}", gtm.host, gtm.port);
    let own = config.any_mutual();
    if own.is_none() && config.cluster.tls_directory.is_some() {
        return listens(&address).await;
    }
    let role = txn::gtm::role(&address, own.as_ref()).await?;
    let (leads, version) = (Some(role.leads), Some(format!("loxo {}", role.version)));
    Ok(Process { leads, version, up_seconds: Some(role.up_seconds), ..Process::is_there() })
}

/// Asks a coordinator.
pub(crate) async fn process_of_coordinator(config: &Config, own: &Coordinator) -> Process {
    let process = Process::of(ask_coordinator(config, own).await);
    if process.is_up == Some(true) || !own.is_anywhere() {
        return process;
    }
    let text = format!("no coordinator answers on this host, and {} does not say on which it is", own.listen);
    Process { trouble: Some(text), ..Process::default() }
}

/// A coordinator whose rules keep the cluster's own user out, or that is full, has answered, too. Without its certificate nobody can be sure that it is
/// the coordinator: then it is enough that it listens.
async fn ask_coordinator(config: &Config, own: &Coordinator) -> Result<Process> {
    let Ok(endpoint) = config.coordinator_endpoint(own) else { return listens(&own.listen).await };
    let session = match Session::connect(&endpoint).await {
        Err(error) if error.code().as_bytes().starts_with(b"28") => return Ok(Process::is_there()),
        Err(error) if error.code() == SqlState::TOO_MANY_CONNECTIONS => return Ok(Process::is_there()),
        session => session?,
    };
    let told = async {
        let version = session.value("SHOW loxo.version").await?.map(|version| format!("loxo {version}"));
        let up = session.value("SHOW loxo.uptime").await?;
        let up_seconds = up.and_then(|up| up.trim_end_matches('s').parse().ok());
        Ok(Process { version, up_seconds, ..Process::is_there() })
    };
    // Each takes a connection to a datanode, and all may be in use.
    let late = |_| Err(PgError::connection("it lets clients in, but has no connection to a datanode for them in time"));
    let process: Result<Process> = tokio::time::timeout(CONNECT_MAX, told).await.unwrap_or_else(late);
    Ok(process.unwrap_or_else(|error| Process { trouble: Some(error.message().into_owned()), ..Process::is_there() }))
}

async fn listens(address: &str) -> Result<Process> {
    match tokio::time::timeout(CONNECT_MAX, TcpStream::connect(address)).await {
        Ok(connected) => Ok(connected.map(|_| Process::is_there())?),
        Err(_) => Err(PgError::connection("no answer in time")),
    }
}
