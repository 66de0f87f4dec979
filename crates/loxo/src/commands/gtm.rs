//! `loxo gtm`.

use std::path::PathBuf;

use cluster::Config;
use pgerror::{PgError, Result, SqlState};
use sd_notify::NotifyState;
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

struct Figures;

impl metrics::Source for Figures {
    fn page(&self) -> String {
        let mut page = metrics::Page::default();
        txn::figures::of_gtm(&mut page);
        page.text()
    }

    fn health(&self) -> std::result::Result<String, String> {
        Ok(if txn::figures::leads() { "leads" } else { "stands by" }.to_owned())
    }
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    let config = Config::load_numbered(&arguments.config).await?;
    let log = super::log::to_stderr(&config.log)?;
    let own = config.gtm(arguments.name.as_deref())?;
    config.check_gtm(own)?;
    let name = arguments.name.as_deref().unwrap_or("gtm");
    let secured = config.mutual(name)?;
    let (host, port) = (own.host.as_str(), own.port);
    let listener = TcpListener::bind((host, port)).await.map_err(|error| {
        PgError::new(SqlState::CANNOT_CONNECT_NOW, format!("the gtm could not listen on {host}:{port}: {error}"))
            .hint("Another program uses this port: stop it or choose another port.")
    })?;
    super::tell_figures(own.metrics.as_deref(), Figures).await?;
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
    let options = txn::GtmOptions { roster: Some(roster), secured: secured.clone(), ..txn::GtmOptions::new(datanodes) };
    super::tell_service_manager(&[NotifyState::Ready]);
    super::show_life();
    // A task, so that it goes on in the thread which has read a coordinator's message: the main one would have to be woken for each.
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(txn::gtm::serve(listener, options));
    tokio::select! {
        Some(ended) = serving.join_next() => {
            ended.unwrap_or_else(|error| Err(PgError::internal(format!("the gtm ended: {error}"))))
        }
        () = super::asked_to_stop(&log, async || {
            super::read_password_again(service.secret.as_ref())?;
            let config = Config::load(&arguments.config)?;
            super::certificates_again(&config, name, &encryption, secured.as_ref())?();
            log.reload(&arguments.config)
        }) => Ok(()),
    }
}
