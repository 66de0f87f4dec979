//! Accepts clients.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use catalog::NodeId;
use executor::{Configured, Context, Identity, Pool, Who};
use pgerror::{PgError, Result, SqlState};
use pgproto::Encryption;
use pgproto::tls::Mutual;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::client::Client;
use crate::protocol::startup::{self, Opening};
use crate::query_id;
use crate::shared::admission::Stranger;
use crate::shared::failed_logins::LoginLimits;
use crate::shared::figures::{Figures, LOGINS};
use crate::shared::tls::{Tls, TlsOptions};
use crate::shared::{Authentication, Shared};

/// How long sessions may take to end.
const STOP_MAX: Duration = Duration::from_secs(5);

/// What a coordinator is told at its start.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct CoordinatorOptions {
    pub name: String,
    /// Another one for each coordinator: the process ids that clients are told begin with it.
    pub number: u16,
    pub listen: SocketAddr,
    pub authentication: Authentication,
    pub tls: Option<TlsOptions>,
    /// As the configuration has them.
    pub datanodes: Vec<Configured>,
    pub primary: NodeId,
    /// The superuser that reads metadata.
    pub service: Identity,
    /// `host:port`.
    pub gtms: Vec<String>,
    /// The certificate that gtms ask for.
    pub secured: Option<Mutual>,
    /// Encryption of connections to datanodes.
    pub encryption: Encryption,
    pub cluster_id: Option<String>,
    /// What makes schema `loxo` in a new database.
    pub metadata: &'static str,
    /// Connections to each datanode.
    pub pool_size: usize,
    pub clients_max: usize,
    pub login_limits: LoginLimits,
}

/// A coordinator that is ready to accept.
pub struct Coordinator {
    listener: TcpListener,
    listens: watch::Sender<SocketAddr>,
    moves: (mpsc::Sender<Move>, mpsc::Receiver<Move>),
    shared: Arc<Shared>,
}

/// Where it is to listen from here on, and who wants to know whether it does.
type Move = (SocketAddr, oneshot::Sender<Result<()>>);

impl Coordinator {
    /// Binds the port and starts to talk to the gtm. Datanodes are reached when they are needed, or to learn which cluster this is.
    pub async fn bind(options: CoordinatorOptions) -> Result<Self> {
        let listener = TcpListener::bind(options.listen).await.map_err(|error| not_there(options.listen, &error))?;
        let listens = watch::Sender::new(listener.local_addr()?);
        let roster = txn::Roster::new(options.cluster_id, options.service.database.clone());
        let gtm = txn::GtmClient::connect_secured(options.gtms, &options.name, options.secured);
        let context = Context::new(
            options.datanodes,
            options.primary,
            options.service,
            Pool::new(options.pool_size, roster, options.encryption),
            gtm,
            options.metadata,
        );
        context.survey().await?;
        let tls = options.tls.map(Tls::load).transpose()?;
        let CoordinatorOptions { name, authentication, clients_max, login_limits, number, .. } = options;
        let shared = Shared::new(&name, context, authentication, tls, clients_max, login_limits, number);
        Ok(Self { listener, listens, moves: mpsc::channel(1), shared: Arc::new(shared) })
    }

    /// Where it listens; the port is chosen if the options said 0.
    pub fn listens(&self) -> watch::Receiver<SocketAddr> {
        self.listens.subscribe()
    }

    /// What is told to read files again.
    pub fn reloader(&self) -> Reloader {
        Reloader { shared: self.shared.clone(), moves: self.moves.0.clone() }
    }

    /// What there is to tell of it.
    pub fn figures(&self) -> Figures {
        Figures(self.shared.clone())
    }

    /// What ends the sessions once nobody serves new ones.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.shared.clone())
    }

    /// Serves clients until the future is dropped.
    pub async fn serve(mut self) -> Result<()> {
        let mut works = JoinSet::new();
        works.spawn(executor::rebalance_when_wanted(self.shared.context().clone()));
        works.spawn(self.shared.databases().clone().leave_unused());
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some((address, told)) = self.moves.1.recv() => {
                    let moved;
                    (self.listener, moved) = listen_on(self.listener, address).await?;
                    self.listens.send_replace(self.listener.local_addr()?);
                    let _nobody_asks_any_more = told.send(moved);
                    continue;
                }
            };
            let (stream, peer) = match accepted {
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

/// A listener on this address and port, or the one before and why; the error is that there is none any more. An address and all
/// addresses cannot have the same port, so the one before may have to go first.
async fn listen_on(before: TcpListener, address: SocketAddr) -> Result<(TcpListener, Result<()>)> {
    let error = match TcpListener::bind(address).await {
        Ok(listener) => return Ok((listener, Ok(()))),
        Err(error) => error,
    };
    let old = before.local_addr()?;
    if error.kind() != ErrorKind::AddrInUse || old.port() != address.port() {
        return Ok((before, Err(not_there(address, &error))));
    }
    drop(before);
    match TcpListener::bind(address).await {
        Ok(listener) => Ok((listener, Ok(()))),
        Err(error) => {
            let before = TcpListener::bind(old).await.map_err(|error| not_there(old, &error))?;
            Ok((before, Err(not_there(address, &error))))
        }
    }
}

fn not_there(address: SocketAddr, error: &std::io::Error) -> PgError {
    PgError::new(SqlState::CANNOT_CONNECT_NOW, format!("could not listen on {address}: {error}"))
        .hint("Another program uses this port: stop it or choose another port.")
}

async fn serve_client(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr) -> Result<()> {
    stream.set_nodelay(true)?;
    let opening = {
        let stranger = Stranger::new(shared.admission());
        tokio::select! {
            // In a box, for this future is larger than a session's, and is needed once.
            opening = Box::pin(startup::open(&shared, stream, peer)) => opening?,
            error = stranger.sent_away() => return Err(error),
        }
    };
    match opening {
        Opening::Cancel { key, stream } => {
            shared.cancel(key).await;
            drop(stream);
            Ok(())
        }
        Opening::Session { socket, session, is_dump, application, tls, admitted: _admitted } => {
            LOGINS.count();
            let user = session.identity().user.clone();
            tracing::debug!(user, %peer, application, "a client has connected");
            let key = shared.register(session.cancel_set(), rand::random());
            session.activity().begins(Who {
                pid: key.0,
                user: session.identity().user.clone(),
                database: session.identity().database.clone(),
                application,
                address: peer.ip().to_canonical().to_string(),
                port: peer.port(),
                tls,
            });
            let client = Box::new(Client::new(shared.clone(), *socket, session, is_dump, key));
            let result = query_id::of_session(shared.name(), key.0, client.run()).await;
            shared.forget(key);
            tracing::debug!(user, %peer, "a client has left");
            result
        }
        Opening::Nothing => Ok(()),
    }
}

/// Reads files again that may have changed.
pub struct Reloader {
    shared: Arc<Shared>,
    moves: mpsc::Sender<Move>,
}

impl Reloader {
    /// So many connections to each datanode from here on. With fewer those that are used are waited for in the background. Gives
    /// whether that is another number.
    pub fn resize_pool(&self, connections_max: usize) -> bool {
        let context = self.shared.context().clone();
        let is_another = context.wants_connections() != connections_max;
        if is_another {
            context.want_connections(connections_max);
            tokio::spawn(async move { context.fit_pool().await });
        }
        is_another
    }

    /// Certificate and key, and how clients prove who they are, for connections to come. All that was there stays if the certificate cannot
    /// be used.
    pub fn reload(&self, authentication: Authentication) -> Result<()> {
        if let Authentication::Rules(rules) = &authentication
            && rules.ask_for_certificates()
            && !self.shared.tls().is_some_and(Tls::asks_clients)
        {
            let text = "the rules ask for certificates, and this coordinator has begun without tls_client_ca";
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, text).hint("Start the coordinator again."));
        }
        self.shared.tls().map_or(Ok(()), Tls::reload)?;
        self.shared.set_authentication(authentication);
        Ok(())
    }

    /// Clients come to this address from here on; those that are connected stay. Otherwise it goes on to listen where it does.
    ///
    /// # Errors
    /// The operating system's, if another program has the port, say.
    pub async fn listen_on(&self, address: SocketAddr) -> Result<()> {
        let (told, moved) = oneshot::channel();
        let ends = || PgError::new(SqlState::ADMIN_SHUTDOWN, "the coordinator ends");
        self.moves.send((address, told)).await.map_err(|_| ends())?;
        moved.await.map_err(|_| ends())?
    }

    /// May clients encrypt their connections?
    pub fn has_tls(&self) -> bool {
        self.shared.tls().is_some()
    }
}

/// Ends the sessions of a coordinator.
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Tells all clients that the coordinator ends (57P01): those that are idle at once, others when their statement has
    /// ended, for which it is cancelled; one that goes on all the same loses its backends, and a commit under way is left to recovery.
    /// Returns when all are gone, or have had [`STOP_MAX`] for it.
    pub async fn stop(&self) {
        self.0.begin_to_stop();
        if tokio::time::timeout(STOP_MAX, self.0.end_all()).await.is_err() {
            tracing::warn!("sessions that do not end in time are cut off");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_moves_between_one_address_and_all_and_stays_where_it_cannot() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let one = listener.local_addr().expect("an address");
        let all = SocketAddr::from(([0, 0, 0, 0], one.port()));
        let (listener, moved) = listen_on(listener, all).await.expect("a listener");
        assert!(moved.is_ok() && listener.local_addr().expect("an address") == all);
        let (listener, moved) = listen_on(listener, one).await.expect("a listener");
        assert!(moved.is_ok() && listener.local_addr().expect("an address") == one);
        let other = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let taken = other.local_addr().expect("an address");
        let (listener, moved) = listen_on(listener, taken).await.expect("a listener");
        assert!(moved.is_err_and(|error| error.message().contains("could not listen")));
        assert_eq!(listener.local_addr().expect("an address"), one);
        // The same port of another address that this machine does not have.
        let nowhere = SocketAddr::from(([192, 0, 2, 1], one.port()));
        let (listener, moved) = listen_on(listener, nowhere).await.expect("a listener");
        assert!(moved.is_err() && listener.local_addr().expect("an address") == one);
    }
}
