//! The gtm and its clients over real sockets, no datanodes.

use std::future::Future;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use pgerror::SqlState;
use pgproto::{FrameReader, FrameWriter};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use txn::Datanodes;
use txn::gtm::message::{Message, PROTOCOL_VERSION};
use txn::gtm::{CatalogState, GtmClient, GtmOptions, MARGIN, serve};

/// Longer than a machine stands still.
const LEASE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(20);

type Gtm = JoinHandle<pgerror::Result<()>>;

async fn start(address: &str) -> (Gtm, SocketAddr) {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut options = GtmOptions::new(Datanodes::default());
    options.lease = LEASE;
    (tokio::spawn(serve(listener, options)), address)
}

async fn stop(gtm: Gtm) {
    gtm.abort();
    assert!(gtm.await.unwrap_err().is_cancelled());
}

async fn within<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    timeout(limit, future).await.unwrap_or_else(|_| panic!("{what} did not happen within {limit:?}"))
}

async fn wait_for(client: &GtmClient, what: &str, condition: impl Fn(CatalogState) -> bool) -> CatalogState {
    within(PATIENCE, what, async {
        while !condition(client.catalog_state()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        client.catalog_state()
    })
    .await
}

async fn valid_epoch(client: &GtmClient) -> u64 {
    match wait_for(client, "a valid state", |state| matches!(state, CatalogState::Valid { .. })).await {
        CatalogState::Valid { epoch } => epoch,
        other => panic!("{other:?}"),
    }
}

async fn connect(address: SocketAddr, name: &str) -> GtmClient {
    let client = GtmClient::connect(vec![address.to_string()], name);
    valid_epoch(&client).await;
    client
}

/// A coordinator whose every message the test writes itself.
struct RawClient {
    reader: FrameReader,
    writer: FrameWriter,
}

impl RawClient {
    async fn connect(address: SocketAddr, version: u32) -> Self {
        let (read, write) = TcpStream::connect(address).await.unwrap().into_split();
        let mut this = Self { reader: FrameReader::new(read), writer: FrameWriter::new(write) };
        this.say(Message::Hello { version, name: "raw".into(), database: Default::default() }).await;
        this
    }

    async fn say(&mut self, message: Message) {
        let mut wire = BytesMut::new();
        message.encode(&mut wire);
        self.writer.buffer().extend_from_slice(&wire);
        self.writer.flush().await.unwrap();
    }

    /// `None` when the gtm has closed the connection. Generations are no matter of these tests.
    async fn hear(&mut self) -> Option<Message> {
        loop {
            let frame = within(PATIENCE, "a message", self.reader.next()).await.ok().flatten()?;
            match Message::decode(frame).unwrap() {
                Message::Generation(_) => {}
                message => return Some(message),
            }
        }
    }
}

#[tokio::test]
async fn every_coordinator_drops_its_catalog_before_the_ddl_may_commit() {
    let (_gtm, address) = start("127.0.0.1:0").await;
    let (asker, other) = (connect(address, "asker").await, connect(address, "other").await);
    let (asker_epoch, other_epoch) = (valid_epoch(&asker).await, valid_epoch(&other).await);

    let guard = asker.invalidate_catalogs().await.unwrap();
    // Not "soon": when the call returns.
    assert_eq!((asker.catalog_state(), other.catalog_state()), (CatalogState::Pending, CatalogState::Pending));
    let late = connect_pending(address).await;
    assert!(timeout(Duration::from_millis(50), other.schema_changes_resolved()).await.is_err());

    // Two at once are counted.
    let second = other.invalidate_catalogs().await.unwrap();
    guard.finish();
    assert!(timeout(Duration::from_millis(50), other.schema_changes_resolved()).await.is_err());
    drop(second);
    for client in [&asker, &other, &late] {
        within(PATIENCE, "resolved", client.schema_changes_resolved()).await;
    }
    assert!(valid_epoch(&asker).await > asker_epoch);
    assert!(valid_epoch(&other).await > other_epoch);
    valid_epoch(&late).await;
}

/// A coordinator that joins while a DDL is about to commit.
async fn connect_pending(address: SocketAddr) -> GtmClient {
    let client = GtmClient::connect(vec![address.to_string()], "late");
    wait_for(&client, "pending", |state| state == CatalogState::Pending).await;
    client
}

#[tokio::test]
async fn the_ddl_waits_for_an_ack_but_not_longer_than_a_lease() {
    let (_gtm, address) = start("127.0.0.1:0").await;
    let asker = connect(address, "asker").await;
    let mut stuck = RawClient::connect(address, PROTOCOL_VERSION).await;
    assert!(matches!(stuck.hear().await, Some(Message::Welcome { pending, .. }) if pending.is_empty()));

    // It acks: the answer comes then, not before.
    let asking = tokio::spawn({
        let asker = asker.clone();
        async move { asker.invalidate_catalogs().await }
    });
    let Some(Message::Pending(id)) = stuck.hear().await else { panic!("no pending") };
    assert!(!asking.is_finished());
    stuck.say(Message::Ack(id)).await;
    within(PATIENCE, "ready", asking).await.unwrap().unwrap().finish();
    assert_eq!(stuck.hear().await, Some(Message::Resolved(id)));

    // It does not ack, though it goes on pinging: it is thrown out when its lease must be over.
    stuck.say(Message::Ping(1)).await;
    assert_eq!(stuck.hear().await, Some(Message::Pong(1)));
    let started = Instant::now();
    let guard = within(PATIENCE, "ready", asker.invalidate_catalogs()).await.unwrap();
    assert!(started.elapsed() >= LEASE + MARGIN);
    assert!(matches!(stuck.hear().await, Some(Message::Pending(_))));
    assert_eq!(stuck.hear().await, None);
    guard.finish();
    valid_epoch(&asker).await;
}

#[tokio::test]
async fn a_broken_connection_is_waited_for_as_long_as_its_lease() {
    let (_gtm, address) = start("127.0.0.1:0").await;
    let asker = connect(address, "asker").await;
    asker.invalidate_catalogs().await.unwrap().finish(); // the gtm's own start is over
    for in_good_order in [false, true] {
        let mut gone = RawClient::connect(address, PROTOCOL_VERSION).await;
        gone.hear().await.unwrap();
        let lease_began = Instant::now();
        gone.say(Message::Ping(1)).await;
        assert_eq!(gone.hear().await, Some(Message::Pong(1)));
        if in_good_order {
            gone.say(Message::Goodbye).await;
            assert_eq!(gone.hear().await, None);
        }
        drop(gone);
        within(PATIENCE, "ready", asker.invalidate_catalogs()).await.unwrap().finish();
        let waited = lease_began.elapsed();
        assert_eq!(waited < LEASE, in_good_order, "{waited:?}");
    }
}

#[tokio::test]
async fn a_ddl_coordinator_that_dies_is_resolved_by_the_gtm() {
    let (_gtm, address) = start("127.0.0.1:0").await;
    let other = connect(address, "other").await;
    let mut dying = RawClient::connect(address, PROTOCOL_VERSION).await;
    dying.hear().await.unwrap();
    dying.say(Message::Invalidate(9)).await;
    let Some(Message::Pending(id)) = dying.hear().await else { panic!("no pending") };
    dying.say(Message::Ack(id)).await;
    assert_eq!(dying.hear().await, Some(Message::Ready(9)));
    wait_for(&other, "pending", |state| state == CatalogState::Pending).await;
    drop(dying);
    within(PATIENCE, "resolved", other.schema_changes_resolved()).await;
    valid_epoch(&other).await;
}

#[tokio::test]
async fn one_that_dies_as_soon_as_it_has_asked_holds_nobody_up() {
    let (_gtm, address) = start("127.0.0.1:0").await;
    let other = connect(address, "other").await;
    for request in 0..50 {
        let mut dying = RawClient::connect(address, PROTOCOL_VERSION).await;
        assert!(matches!(dying.hear().await, Some(Message::Welcome { .. })));
        dying.say(Message::Invalidate(request)).await;
    }
    // Whatever was announced to the others was taken back behind that.
    within(PATIENCE, "ready", other.invalidate_catalogs()).await.unwrap().finish();
    within(PATIENCE, "resolved", other.schema_changes_resolved()).await;
    valid_epoch(&other).await;
}

#[tokio::test]
async fn a_gtm_that_restarts_is_found_again_and_trusts_nobody_at_first() {
    let (gtm, address) = start("127.0.0.1:0").await;
    let client = connect(address, "c").await;
    let epoch = valid_epoch(&client).await;
    let guard = client.invalidate_catalogs().await.unwrap();
    stop(gtm).await;
    wait_for(&client, "disconnected", |state| state == CatalogState::Disconnected).await;
    within(PATIENCE, "resolved", client.schema_changes_resolved()).await;
    let error = client.invalidate_catalogs().await.err().unwrap();
    assert_eq!(error.code(), SqlState::CANNOT_CONNECT_NOW);
    assert!(error.message().contains(&address.to_string()));

    let restarted = Instant::now();
    let (_gtm, _) = start(&address.to_string()).await;
    assert!(valid_epoch(&client).await > epoch);
    guard.finish(); // of the former gtm's invalidation: means nothing to the new one
    within(PATIENCE, "ready", client.invalidate_catalogs()).await.unwrap().finish();
    // A coordinator that the new gtm does not know may have held a lease of the old one until now.
    assert!(restarted.elapsed() >= LEASE + MARGIN);
}

#[tokio::test]
async fn a_silent_gtm_is_no_gtm() {
    // It says welcome and grants one lease, then nothing more.
    let lease = Duration::from_secs(12);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = GtmClient::connect(vec![listener.local_addr().unwrap().to_string()], "c");
    assert_eq!(client.catalog_state(), CatalogState::Disconnected);
    let (read, write) = listener.accept().await.unwrap().0.into_split();
    let mut gtm = RawClient { reader: FrameReader::new(read), writer: FrameWriter::new(write) };
    assert_eq!(
        gtm.hear().await,
        Some(Message::Hello { version: PROTOCOL_VERSION, name: "c".into(), database: Default::default() })
    );
    gtm.say(Message::Welcome { lease_ms: lease.as_millis() as u64, pending: vec![] }).await;
    let Some(Message::Ping(clock)) = gtm.hear().await else { panic!("no ping") };
    // A pong to an earlier ping grants only what is left of the lease since that one.
    let earlier = Duration::from_secs(8);
    gtm.say(Message::Pong(clock - earlier.as_micros() as u64)).await;
    let answered = Instant::now();
    valid_epoch(&client).await;
    wait_for(&client, "disconnected", |state| state == CatalogState::Disconnected).await;
    assert!(answered.elapsed() < lease - earlier / 2, "{:?}", answered.elapsed());
    // And a question to it ends in an error, not in waiting.
    let error = within(PATIENCE, "an answer", client.invalidate_catalogs()).await.err().unwrap();
    assert_eq!(error.code(), SqlState::CANNOT_CONNECT_NOW);
}

#[tokio::test]
async fn strangers_are_turned_away() {
    let (_gtm, address) = start("127.0.0.1:0").await;
    let mut newer = RawClient::connect(address, PROTOCOL_VERSION + 1).await;
    assert!(matches!(newer.hear().await, Some(Message::Refused(_))));
    assert_eq!(newer.hear().await, None);
    // A PostgreSQL client's startup packet.
    let mut psql = TcpStream::connect(address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut psql, &[0, 0, 0, 9, 0, 3, 0, 0, 0]).await.unwrap();
    let mut end = Vec::new();
    let read = within(PATIENCE, "the end", tokio::io::AsyncReadExt::read_to_end(&mut psql, &mut end)).await;
    assert!(read.is_err() || end.is_empty());
    // The gtm lives.
    connect(address, "c").await;
}
