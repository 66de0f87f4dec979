//! Whether the gtms and coordinators of a configuration run and answer, wherever they are.

use std::time::Duration;

use futures_util::future::join_all;
use pgerror::{PgError, Result, SqlState};
use tokio::net::TcpStream;

use super::Report;
use crate::config::{Config, Coordinator, Gtm, gtm_name};
use crate::sql::Session;

const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Reports those that do not answer.
pub(super) async fn check(config: &Config, report: &mut Report) {
    let gtms = join_all(config.gtms.iter().map(|gtm| ask_gtm(config, gtm))).await;
    for (at, error) in gtms.into_iter().enumerate().filter_map(|(at, answer)| Some((at, answer.err()?))) {
        let (name, gtm) = (gtm_name(at), &config.gtms[at]);
        let text = format!("this gtm does not answer at {}:{}: {}", gtm.host, gtm.port, error.message());
        report.error(&name, text, start(config, "gtm", &name));
    }
    let coordinators = join_all(config.coordinators.iter().map(|own| ask_coordinator(config, own))).await;
    for (own, answer) in config.coordinators.iter().zip(coordinators) {
        let Err(error) = answer else { continue };
        match own.is_anywhere() {
            false => {
                let text = format!("this coordinator does not answer at {}: {error}", own.listen);
                report.error(&own.name, text, start(config, "coordinator", &own.name));
            }
            true => {
                let text =
                    format!("no coordinator answers on this host, and {} does not say on which it is", own.listen);
                report.warning(&own.name, text, "Check on its host, or give it an address in \"listen\".");
            }
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

/// One that asks for certificates hears nobody who has none of them, and not every host has one: then it is enough that it listens.
async fn ask_gtm(config: &Config, gtm: &Gtm) -> Result<()> {
    let address = format!("{}:{}", gtm.host, gtm.port);
    if config.cluster.tls_directory.is_none() {
        return txn::gtm::leads(&address).await.map(drop);
    }
    listens(&address).await
}

/// A coordinator whose rules keep the cluster's own user out, or that is full, has answered, too. Without its certificate nobody can be sure that it is
/// the coordinator: then it is enough that it listens.
async fn ask_coordinator(config: &Config, own: &Coordinator) -> Result<()> {
    let Ok(endpoint) = config.coordinator_endpoint(own) else { return listens(&own.listen).await };
    match Session::connect(&endpoint).await {
        Err(error) if error.code().as_bytes().starts_with(b"28") => Ok(()),
        Err(error) if error.code() == SqlState::TOO_MANY_CONNECTIONS => Ok(()),
        Err(error) => Err(error),
        Ok(session) => session.run("SELECT 1").await,
    }
}

async fn listens(address: &str) -> Result<()> {
    match tokio::time::timeout(CONNECT_MAX, TcpStream::connect(address)).await {
        Ok(connected) => Ok(connected.map(drop)?),
        Err(_) => Err(PgError::connection("no answer in time")),
    }
}
