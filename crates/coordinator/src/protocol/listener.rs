//! Accepts clients.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use catalog::NodeId;
use executor::{Address, CancelSet, Context, Identity, Pool};
use pgerror::{PgError, Result, SqlState};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

use crate::protocol::prepared::{DescriptionCache, StatementCache};
use crate::protocol::startup::{self, Opening};

/// Connections that have not said who they are.
const STRANGERS_MAX: usize = 500;
/// Of the clients that may be connected, those that only superusers may be (`superuser_reserved_connections`).
const SUPERUSERS_RESERVED: usize = 3;
/// How long sessions may take to end.
const STOP_MAX: Duration = Duration::from_secs(5);

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
    /// A client has gone.
    departed: Notify,
    strangers: Mutex<VecDeque<Arc<Notify>>>,
    /// True from the moment when the coordinator is told to end.
    pub(crate) stopping: watch::Sender<bool>,
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
        roster.survey(&executor::own_options(&options.datanodes, &options.service, &roster)).await?;
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
            departed: Notify::new(),
            strangers: Mutex::default(),
            stopping: watch::Sender::new(false),
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

    /// What ends the sessions once nobody serves new ones.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.shared.clone())
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
                if let Err(error) = serve_client(shared, stream, peer).await {
                    tracing::debug!(%peer, error = %error.message(), "session ended");
                }
            });
        }
    }
}

async fn serve_client(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr) -> Result<()> {
    stream.set_nodelay(true)?;
    let (read, write) = stream.into_split();
    let opening = {
        let stranger = Stranger::new(&shared);
        tokio::select! {
            opening = startup::open(&shared, read, write, peer) => opening?,
            () = stranger.sent_away.notified() => return Err(too_many()),
        }
    };
    match opening {
        Opening::Cancel { process_id, secret, stream } => {
            let cancel = shared.cancels().get(&(process_id, secret)).cloned();
            if let Some(cancel) = cancel {
                cancel.cancel().await;
            }
            drop(stream);
            Ok(())
        }
        Opening::Session(client, _admitted) => {
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

    /// Takes in a client that has said who it is; 53300 when there are as many as allowed.
    pub(crate) fn admit(self: &Arc<Self>, is_superuser: bool) -> Result<Admitted> {
        let admitted = Admitted(self.clone());
        let before = self.clients.fetch_add(1, Ordering::Relaxed);
        let reserved = SUPERUSERS_RESERVED.min(self.clients_max / 2);
        match before {
            _ if before >= self.clients_max => Err(too_many()),
            _ if before >= self.clients_max - reserved && !is_superuser => Err(PgError::fatal(
                SqlState::TOO_MANY_CONNECTIONS,
                "remaining connection slots are reserved for roles with the SUPERUSER attribute",
            )),
            _ => Ok(admitted),
        }
    }

    fn strangers(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn too_many() -> PgError {
    PgError::fatal(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already")
}

/// A connection that has not said who it is. Of too many the oldest has to go: whoever means it is known within milliseconds, so
/// connections that say nothing keep nobody out.
struct Stranger {
    shared: Arc<Shared>,
    sent_away: Arc<Notify>,
}

impl Stranger {
    fn new(shared: &Arc<Shared>) -> Self {
        let sent_away = Arc::new(Notify::new());
        let mut strangers = shared.strangers();
        strangers.push_back(sent_away.clone());
        if strangers.len() > STRANGERS_MAX
            && let Some(oldest) = strangers.pop_front()
        {
            oldest.notify_one();
        }
        drop(strangers);
        Self { shared: shared.clone(), sent_away }
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.shared.strangers().retain(|other| !Arc::ptr_eq(other, &self.sent_away));
    }
}

/// Ends the sessions of a coordinator.
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Tells all clients that the coordinator ends (57P01): those that are idle at once, others when their statement has
    /// been cancelled. Returns when all are gone, or have had [`STOP_MAX`] for it; a commit under way is then left to recovery.
    pub async fn stop(&self) {
        self.0.stopping.send_replace(true);
        let cancels: Vec<_> = self.0.cancels().values().cloned().collect();
        let gone = async {
            for cancel in cancels {
                cancel.cancel().await;
            }
            while self.0.clients.load(Ordering::Acquire) > 0 {
                self.0.departed.notified().await;
            }
        };
        if tokio::time::timeout(STOP_MAX, gone).await.is_err() {
            tracing::warn!("sessions that do not end in time are cut off");
        }
    }
}

/// Counts a client while it lives.
pub(crate) struct Admitted(Arc<Shared>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::Release);
        self.0.departed.notify_one();
    }
}
