//! `loxo gtm`.

use std::path::PathBuf;

use cluster::Config;
use pgerror::{PgError, Result, SqlState};
use tokio::net::TcpListener;

/// Run the global transaction manager of a cluster
///
/// Stays in the foreground; SIGTERM ends it. It holds soft state only: after a restart coordinators reconnect. Of
/// several, one leads and the others stand by; they agree on the primary datanode, the first of the file. Which datanodes
/// there are it reads there: the file need not list those that were added to the cluster later.
#[derive(clap::Args)]
#[command(after_help = "Example:
  loxo gtm --config /etc/loxo.toml")]
pub struct Arguments {
    /// Configuration file
    #[arg(long, value_name = "F")]
    config: PathBuf,
    /// Which gtm of the file: gtm, gtm2, …; may be left out if there is only one
    #[arg(long, value_name = "N")]
    name: Option<String>,
    /// Leave the caller's session (used by "loxo up")
    #[arg(long, hide = true)]
    pub detached: bool,
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    super::log_to_stderr();
    let config = Config::load(&arguments.config)?;
    let own = config.gtm(arguments.name.as_deref())?;
    config.check_gtm(own)?;
    let secured = config.mutual(arguments.name.as_deref().unwrap_or("gtm"))?;
    let (host, port) = (own.host.as_str(), own.port);
    let listener = TcpListener::bind((host, port)).await.map_err(|error| {
        PgError::new(SqlState::CANNOT_CONNECT_NOW, format!("the gtm could not listen on {host}:{port}: {error}"))
            .hint("Another program uses this port: stop it or choose another port.")
    })?;
    let service = super::service_identity(&config)?;
    let encryption = config.encryption()?;
    let roster = txn::Roster::new(config.cluster.id.clone(), service.database.clone());
    let options = |id, node: &cluster::Datanode| pgproto::ConnectOptions {
        host: node.host.clone(),
        port: node.port,
        user: service.user.clone(),
        database: service.database.clone(),
        secret: service.secret.clone(),
        parameters: txn::own_parameters("loxo gtm"),
        encryption: encryption.clone(),
        proof: Some(roster.proof(id)),
    };
    let datanodes: txn::Datanodes = config.datanodes_by_id().map(|(id, node)| (id, options(id, node))).collect();
    roster.survey(&datanodes).await?;
    let options = txn::GtmOptions { roster: Some(roster), secured, ..txn::GtmOptions::new(datanodes) };
    tokio::select! {
        ended = txn::gtm::serve(listener, options) => ended,
        () = super::asked_to_stop(|| Ok(())) => Ok(()),
    }
}
