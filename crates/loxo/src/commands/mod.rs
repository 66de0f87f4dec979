//! One file a subcommand: its arguments with their help, and what it does with them.

use std::io::{ErrorKind, Write};
use std::mem::discriminant;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use pgerror::{PgError, Result, SqlState};
use pgproto::Encryption;
use pgproto::scram::Secret;
use pgproto::tls::Mutual;
use sd_notify::NotifyState;

pub mod bench;
pub mod check;
pub mod coordinator;
pub mod demo;
pub mod deploy;
pub mod down;
pub mod gtm;
pub mod init;
mod live_page;
pub mod load;
mod log;
pub mod node;
pub mod rebalance;
pub mod status;
pub mod unload;
pub mod up;

/// The cluster a command is about.
#[derive(Args)]
pub struct DirArgument {
    /// Directory of the cluster [default: /var/lib/loxo for root, else ~/.local/share/loxo]
    #[arg(long, value_name = "D")]
    dir: Option<PathBuf>,
}

impl DirArgument {
    /// The directory asked for, or the default one.
    pub fn path(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(cluster::local::default_dir)
    }
}

/// The cluster a command is about, on this machine or on others.
#[derive(Args)]
pub struct ClusterArgument {
    /// Configuration file of a cluster of real hosts
    #[arg(long, value_name = "F", conflicts_with = "dir")]
    config: Option<PathBuf>,
    #[command(flatten)]
    dir: DirArgument,
}

impl ClusterArgument {
    /// Its configuration.
    async fn load(&self) -> Result<cluster::Config> {
        let local = || self.dir.path().join("cluster.toml");
        cluster::Config::load_numbered(&self.config.clone().unwrap_or_else(local)).await
    }
}

/// Writes a result to stdout. That nobody reads it to its end, as with `| head`, is no error.
fn print(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(()),
    }
}

/// `1 index was`, `2 indexes were`.
fn indexes(number: usize) -> String {
    if number == 1 { "1 index was".to_owned() } else { format!("{number} indexes were") }
}

/// `1 datanode`, `2 datanodes`.
fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Tells a server process' figures where the configuration says so.
async fn tell_figures(address: Option<&str>, source: impl metrics::Source) -> Result<()> {
    let Some(address) = address else { return Ok(()) };
    let listener = tokio::net::TcpListener::bind(address).await.map_err(|error| {
        PgError::new(SqlState::CANNOT_CONNECT_NOW, format!("could not tell figures on {address}: {error}"))
            .hint("Choose another \"metrics\" in the configuration.")
    })?;
    tokio::spawn(metrics::serve(listener, Arc::new(source)));
    Ok(())
}

/// The superuser that servers of the cluster use for themselves.
fn service_identity(config: &cluster::Config) -> Result<executor::Identity> {
    Ok(executor::Identity {
        user: config.cluster.user.clone(),
        database: config.cluster.database.clone(),
        secret: config.kept_password()?.map(Arc::new).map(Secret::Kept),
    })
}

/// Reads the password again that [`service_identity`] has read.
fn read_password_again(secret: Option<&Secret>) -> Result<()> {
    match secret {
        Some(Secret::Kept(kept)) => kept.reload(),
        _ => Ok(()),
    }
}

/// Reads the certificates again that a process shows to datanodes and to the others; gives what has all its links take them.
/// Whether there are any is not changed while it runs.
fn certificates_again(
    config: &cluster::Config,
    name: &str,
    encryption: &Encryption,
    secured: Option<&Mutual>,
) -> Result<impl FnOnce()> {
    let (files, own) = (config.encryption()?, config.mutual(name)?);
    if discriminant(encryption) != discriminant(&files) || secured.is_some() != own.is_some() {
        let text = "sslmode = \"disable\" and tls_directory cannot come or go while the process runs";
        return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, text).hint("Start it again."));
    }
    let (encryption, secured) = (encryption.clone(), secured.cloned());
    Ok(move || {
        encryption.renew(&files);
        if let (Some(secured), Some(own)) = (secured, own) {
            secured.renew(&own);
        }
    })
}

/// Tells a service manager that asks for it (systemd's `WatchdogSec`) that the process goes on: from a task, so only while the
/// runtime runs tasks.
fn show_life() {
    let Some(limit) = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()) else { return };
    tokio::spawn(async move {
        let mut beat = tokio::time::interval(limit / 3);
        loop {
            beat.tick().await;
            tell_service_manager(&[NotifyState::Watchdog]);
        }
    });
}

/// Tells the service manager that started the process (systemd's `Type=notify`), if one did.
fn tell_service_manager(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

/// SIGTERM or Ctrl-C. SIGHUP has read again what can change while the process runs, SIGUSR1 the log's file opened again.
async fn asked_to_stop(log: &log::Control, reload: impl AsyncFn() -> Result<()>) {
    let mut terminate = match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(signal) => signal,
        Err(error) => {
            tracing::warn!(%error, "SIGTERM cannot be caught");
            return std::future::pending().await;
        }
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
        never = outlive_other_signals(log, reload) => match never {},
    }
    tell_service_manager(&[NotifyState::Stopping]);
}

/// Log rotation and the like send them to servers.
async fn outlive_other_signals(log: &log::Control, reload: impl AsyncFn() -> Result<()>) -> std::convert::Infallible {
    use tokio::signal::unix::{SignalKind, signal};
    let [mut hangup, mut first, mut second] =
        [SignalKind::hangup(), SignalKind::user_defined1(), SignalKind::user_defined2()].map(|kind| signal(kind).ok());
    let next = async |signal: &mut Option<tokio::signal::unix::Signal>| match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    };
    loop {
        tokio::select! {
            _ = next(&mut hangup) => {
                if let Ok(now) = NotifyState::monotonic_usec_now() {
                    tell_service_manager(&[NotifyState::Reloading, now]);
                }
                match reload().await {
                    Ok(()) => tracing::info!(
                        "SIGHUP: the password, certificates, how much is logged, and a coordinator's rules, address and size of the pool \
                         were read again; the rest of the configuration is read at the start only"
                    ),
                    Err(error) => tracing::error!(%error, "SIGHUP: what was read before stays"),
                }
                tell_service_manager(&[NotifyState::Ready]);
            }
            _ = next(&mut first) => match log.reopen() {
                Ok(true) => tracing::info!("SIGUSR1: the log goes on in this file"),
                Ok(false) => tracing::info!("SIGUSR1 is ignored: the log goes to no file"),
                Err(error) => tracing::error!(%error, "SIGUSR1: the log's file cannot be opened"),
            },
            _ = next(&mut second) => tracing::info!("SIGUSR2 is ignored"),
        }
    }
}
