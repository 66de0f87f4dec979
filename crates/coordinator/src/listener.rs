//! Accepts clients.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use catalog::NodeId;
use executor::{Address, CancelSet, Context, Identity, Pool};
use pgerror::{PgError, Result, SqlState};
use tokio::net::{TcpListener, TcpStream};

use crate::prepared::{DescriptionCache, StatementCache};
use crate::startup::{self, Opening};

/// How clients prove who they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Authentication {
    /// Not at all. For loopback only.
    Trust,
    /// SCRAM-SHA-256 against the datanodes' own verifiers.
    Scram,
}

/// What a coordinator is told at its start.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct CoordinatorOptions {
    pub name: String,
    pub listen: SocketAddr,
    pub authentication: Authentication,
    /// In node id order.
    pub datanodes: Vec<Address>,
    pub primary: NodeId,
    /// The superuser that reads metadata.
    pub service: Identity,
    /// `host:port`.
    pub gtms: Vec<String>,
    /// Connections to each datanode.
    pub cluster_id: Option<String>,
    pub pool_size: usize,
    pub clients_max: usize,
}

/// What the sessions of one coordinator share.
pub(crate) struct Shared {
    pub(crate) context: Arc<Context>,
    pub(crate) authentication: Authentication,
    pub(crate) descriptions: DescriptionCache,
    pub(crate) statements: StatementCache,
    cancels: Mutex<HashMap<(i32, i32), Arc<CancelSet>>>,
    next_process_id: AtomicI32,
    clients: AtomicUsize,
    clients_max: usize,
}

/// A coordinator that is ready to accept.
pub struct Coordinator {
    listener: TcpListener,
    shared: Arc<Shared>,
}

impl Coordinator {
    /// Binds the port and starts to talk to the gtm. Datanodes are reached when they are needed, or to learn which cluster this is.
    pub async fn bind(options: CoordinatorOptions) -> Result<Self> {
        let listener = TcpListener::bind(options.listen).await.map_err(|error| {
            PgError::new(SqlState::CANNOT_CONNECT_NOW, format!("could not listen on {}: {error}", options.listen))
                .hint("Another program uses this port: stop it or choose another port.")
        })?;
        let roster = txn::Roster::new(options.cluster_id, options.service.database.clone());
        roster.survey(&executor::connect_options(&options.datanodes, &options.service, &roster)).await?;
        let gtm = txn::GtmClient::connect(options.gtms, &options.name);
        let context = Context::new(
            options.datanodes,
            options.primary,
            options.service,
            Pool::new(options.pool_size, roster),
            gtm,
            txn::GidSource::new(),
        );
        let shared = Shared {
            context: Arc::new(context),
            authentication: options.authentication,
            descriptions: DescriptionCache::default(),
            statements: StatementCache::default(),
            cancels: Mutex::default(),
            next_process_id: AtomicI32::new(1),
            clients: AtomicUsize::new(0),
            clients_max: options.clients_max,
        };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Where it listens; the port is chosen if the options said 0.
    ///
    /// # Errors
    /// The operating system's.
    pub fn address(&self) -> Result<SocketAddr> {
        Ok(self.listener.local_addr()?)
    }

    /// Serves clients until the future is dropped.
    pub async fn serve(self) -> Result<()> {
        loop {
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: those in use go on, new ones wait.
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    continue;
                }
            };
            let shared = self.shared.clone();
            tokio::spawn(async move {
                if let Err(error) = serve_client(shared, stream).await {
                    tracing::debug!(%peer, error = %error.message(), "session ended");
                }
            });
        }
    }
}

async fn serve_client(shared: Arc<Shared>, stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let _counted = Counted::new(&shared);
    let (read, write) = stream.into_split();
    match startup::open(&shared, read, write).await? {
        Opening::Cancel { process_id, secret, stream } => {
            let cancel = shared.cancels().get(&(process_id, secret)).cloned();
            if let Some(cancel) = cancel {
                cancel.cancel().await;
            }
            drop(stream);
            Ok(())
        }
        Opening::Session(client) => {
            let key = client.key();
            let result = client.run().await;
            shared.cancels().remove(&key);
            result
        }
        Opening::Nothing => Ok(()),
    }
}

impl Shared {
    fn cancels(&self) -> std::sync::MutexGuard<'_, HashMap<(i32, i32), Arc<CancelSet>>> {
        self.cancels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key under which this session can be cancelled.
    pub(crate) fn register(&self, cancel: Arc<CancelSet>, secret: i32) -> (i32, i32) {
        let process_id = self.next_process_id.fetch_add(1, Ordering::Relaxed);
        self.cancels().insert((process_id, secret), cancel);
        (process_id, secret)
    }

    /// 53300 when there are more clients than allowed.
    pub(crate) fn check_room(&self) -> Result<()> {
        if self.clients.load(Ordering::Relaxed) > self.clients_max {
            return Err(PgError::fatal(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already"));
        }
        Ok(())
    }
}

/// Counts a client while it lives.
struct Counted(Arc<Shared>);

impl Counted {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.clients.fetch_add(1, Ordering::Relaxed);
        Self(shared.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Relaxed);
    }
}
