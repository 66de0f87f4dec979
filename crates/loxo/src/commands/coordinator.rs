//! `loxo coordinator`.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use cluster::{Auth, Config};
use coordinator::{Authentication, Coordinator, CoordinatorOptions, LoginLimits, Reloader, TlsOptions};
use pgerror::{PgError, Result, SqlState};
use sd_notify::NotifyState;

/// Run a coordinator: the process that clients connect to
///
/// Stays in the foreground; SIGTERM ends it. It holds no state, so any number may run and any may be killed.
#[derive(clap::Args)]
#[command(after_help = "Example:
  loxo coordinator --config /etc/loxo.toml --name coord1")]
pub struct Arguments {
    /// Configuration file
    #[arg(long, value_name = "F")]
    config: PathBuf,
    /// Which coordinator of the file; may be left out if there is only one
    #[arg(long, value_name = "N")]
    name: Option<String>,
    /// Leave the caller's session (used by "loxo up")
    #[arg(long, hide = true)]
    pub detached: bool,
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    let config = Config::load_numbered(&arguments.config).await?;
    let log = super::log::to_stderr(&config.log)?;
    executor::default_log_min_duration(&config.log.min_duration)?;
    executor::default_log_parameters(config.log.parameters);
    let own = config.coordinator(arguments.name.as_deref())?;
    config.check_coordinator(own)?;
    let listen = address_of(own).await?;
    let authentication = authentication(&config, own)?;
    let mut options = options(&config, &own.name, own.name.clone(), listen, authentication, own.pool_size)?;
    options.clients_max = own.max_clients;
    options.login_limits = login_limits(own.failed_logins_max, own.failed_logins_pause);
    options.tls = own.tls().map(|(certificate, key)| TlsOptions {
        certificate: config.beside(certificate),
        key: config.beside(key),
        client_ca: own.tls_client_ca.as_deref().map(|path| config.beside(path)),
        required: own.tls_required,
    });
    for (configured, node) in options.datanodes.iter_mut().zip(&config.datanodes) {
        configured.address.host = config.shortest_way(node);
    }
    let name = own.name.clone();
    let (secret, encryption, secured) =
        (options.service.secret.clone(), options.encryption.clone(), options.secured.clone());
    let coordinator = Coordinator::bind(options).await?;
    super::tell_figures(own.metrics.as_deref(), coordinator.figures()).await?;
    super::live_page::serve(&config, own, coordinator.figures(), coordinator.listens()).await?;
    warn_of_shortages(config.clone(), own);
    super::tell_service_manager(&[NotifyState::Ready]);
    super::show_life();
    let (stopper, reloader) = (coordinator.stopper(), coordinator.reloader());
    let listens = RefCell::new(own.listen.clone());
    tokio::select! {
        ended = coordinator.serve() => ended,
        () = super::asked_to_stop(&log, async || {
            let config = Config::load(&arguments.config)?;
            log.reload(&arguments.config)?;
            super::read_password_again(secret.as_ref())?;
            let own = config.coordinator(Some(&name))?;
            let take_certificates = super::certificates_again(&config, &name, &encryption, secured.as_ref())?;
            take_again(&config, own, &reloader, &listens).await?;
            take_certificates();
            if reloader.resize_pool(own.pool_size) {
                warn_of_shortages(config.clone(), own);
            }
            Ok(())
        }) => {
            stopper.stop().await;
            Ok(())
        }
    }
}

/// In the log, if files or connections may run short.
fn warn_of_shortages(config: Config, own: &cluster::Coordinator) {
    let allowed = cluster::raise_open_files();
    let shortage = cluster::open_files_shortage(config.datanodes.len(), own.pool_size, own.max_clients, allowed);
    shortage.into_iter().for_each(|warning| tracing::warn!("{warning}"));
    tokio::spawn(async move {
        cluster::pool_warnings(&config).await.into_iter().for_each(|warning| tracing::warn!("{warning}"))
    });
}

/// How the coordinator's clients prove who they are.
fn authentication(config: &Config, own: &cluster::Coordinator) -> Result<Authentication> {
    Ok(match (config.hba()?, own.auth) {
        (Some(rules), _) => Authentication::Rules(rules),
        (None, Auth::Trust) => Authentication::Trust,
        (None, Auth::Scram) => Authentication::Scram,
    })
}

async fn address_of(own: &cluster::Coordinator) -> Result<SocketAddr> {
    let (host, port) = own.address()?;
    tokio::net::lookup_host((host.as_str(), port)).await?.next().ok_or_else(|| {
        PgError::new(SqlState::CONFIG_FILE_ERROR, format!("the host name \"{host}\" of {} has no address", own.name))
    })
}

/// Takes what the file has now of clients' certificates, of how they prove who they are, and of the address they come to, which
/// was `listens` before.
async fn take_again(
    config: &Config,
    own: &cluster::Coordinator,
    reloader: &Reloader,
    listens: &RefCell<String>,
) -> Result<()> {
    config.check_coordinator(own)?;
    let found = authentication(config, own)?;
    if *listens.borrow() == own.listen {
        return reloader.reload(found);
    }
    if own.tls().is_some() != reloader.has_tls() {
        let text = "tls_certificate cannot come or go while the process runs, if it is to listen on another address";
        return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, text).hint("Start the coordinator again."));
    }
    let address = address_of(own).await?;
    let come = async || {
        reloader.listen_on(address).await?;
        tracing::info!("clients come to {address} from here on");
        listens.replace(own.listen.clone());
        Ok::<_, PgError>(())
    };
    // Nobody is let in from afar by what the file says of loopback, nor for a moment.
    if matches!(found, Authentication::Trust) {
        come().await?;
        return reloader.reload(found);
    }
    reloader.reload(found)?;
    if let Err(error) = come().await {
        tracing::error!(%error, "clients go on to come to the address before, by the rules of now");
    }
    Ok(())
}

/// Options of a coordinator of this cluster. `certificate`: the name of the one that gtms ask for.
pub fn options(
    config: &Config,
    certificate: &str,
    name: String,
    listen: SocketAddr,
    authentication: Authentication,
    pool_size: usize,
) -> Result<CoordinatorOptions> {
    let configured = |(id, node): (u16, &cluster::Datanode)| executor::Configured {
        id: catalog::NodeId(id),
        name: node.name.clone(),
        address: executor::Address { host: node.host.clone(), port: node.port },
    };
    // One that a command starts for itself is not in the file.
    let number = match config.coordinators.iter().position(|known| known.name == name) {
        Some(place) => place as u16,
        None => 256 + (std::process::id() % 256) as u16,
    };
    Ok(CoordinatorOptions {
        name,
        number,
        listen,
        authentication,
        datanodes: config.datanodes_by_id().map(configured).collect(),
        primary: catalog::NodeId(config.datanodes.iter().position(|node| node.primary).unwrap_or(0) as u16),
        service: super::service_identity(config)?,
        gtms: config.gtm_addresses(),
        secured: config.mutual(certificate)?,
        encryption: config.encryption()?,
        cluster_id: config.cluster.id.clone(),
        metadata: cluster::METADATA_SQL,
        pool_size,
        tls: None,
        clients_max: cluster::MAX_CLIENTS,
        login_limits: login_limits(cluster::FAILED_LOGINS_MAX, cluster::FAILED_LOGINS_PAUSE),
    })
}

fn login_limits(failures_max: u32, pause_seconds: u32) -> LoginLimits {
    LoginLimits { failures_max, pause: Duration::from_secs(pause_seconds.into()) }
}
