//! The live page of a coordinator, where the configuration says so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use cluster::{Config, Coordinator};
use coordinator::Figures;
use metrics::Source as _;
use page::{Inside, Options, SlowStatement};
use pgerror::Result;
use pgproto::Encryption;
use tokio::net::TcpListener;
use tokio::sync::watch::Receiver;

/// A port that another program has is no reason not to serve clients: the log says so.
pub async fn serve(config: &Config, own: &Coordinator, figures: Figures, listens: Receiver<SocketAddr>) -> Result<()> {
    let Some((host, port)) = own.page_address()? else { return Ok(()) };
    let listener = match TcpListener::bind((host.as_str(), port)).await {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "there is no live page on {host}:{port}; choose another \"page\" in the configuration");
            return Ok(());
        }
    };
    let database = config.cluster.database.clone();
    let options = Options { name: own.name.clone(), database };
    let inside = CoordinatorInside { figures, listens, config: config.clone(), own: own.clone() };
    tokio::spawn(page::serve(listener, options, Arc::new(inside)));
    Ok(())
}

/// What the page learns from the coordinator's process.
struct CoordinatorInside {
    figures: Figures,
    listens: Receiver<SocketAddr>,
    config: Config,
    own: Coordinator,
}

impl Inside for CoordinatorInside {
    fn figures(&self) -> String {
        self.figures.page()
    }

    fn health(&self) -> std::result::Result<String, String> {
        self.figures.health()
    }

    fn slow(&self) -> Vec<SlowStatement> {
        let slow = |one: executor::SlowStatement| SlowStatement {
            ended: one.ended.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
            duration_ms: one.took.as_secs_f64() * 1e3,
            user: one.user,
            text: one.text,
            plan: one.plan,
            code: one.code,
        };
        executor::recent_slow_statements().into_iter().map(slow).collect()
    }

    fn coordinator(&self) -> SocketAddr {
        *self.listens.borrow()
    }

    fn encryption(&self) -> Result<Encryption> {
        Ok(self.config.coordinator_endpoint(&self.own)?.encryption)
    }
}
