//! Real PostgreSQL servers for the tests of this crate: each in its own temporary directory, on a free port, gone with
//! its value.

#![allow(dead_code)] // each test binary uses a part of it

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use pgproto::{ConnectOptions, Connection};
use tokio::sync::oneshot;
use txn::control::{Script, with_script};
use txn::gtm::serve;
use txn::seal::{KEY_BYTES, Seal};
use txn::{CommitTools, Datanodes, GidSource, GtmClient, GtmOptions, Interrupt, Outcome, Participant, commit};

/// Nobody raises it.
static NEVER: LazyLock<Interrupt> = LazyLock::new(Interrupt::new);

/// The keys on all nodes.
pub static SEAL: LazyLock<Seal> = LazyLock::new(|| {
    let key = |digit: &str| Some(digit.repeat(2 * KEY_BYTES).into());
    Seal::read(&[vec![key("1"), key("2")]]).unwrap()
});

/// A condition that has not come true by then never will.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What a gtm reads of it.
const NODE_SQL: &str = "CREATE TABLE loxo.node (id int2, type \"char\", host text, port int4, is_primary bool)";

/// A datanode.
pub struct Server {
    directory: PathBuf,
    port: u16,
    process: Option<Child>,
}

fn binary(name: &str) -> PathBuf {
    let given = std::env::var_os("PG_BIN").map(PathBuf::from);
    let directory = given.or_else(|| {
        let mut found: Vec<_> =
            std::fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(|e| Some(e.ok()?.path())).collect();
        found.sort();
        found.pop().map(|version| version.join("bin"))
    });
    directory.expect("no PostgreSQL found; set PG_BIN").join(name)
}

/// PostgreSQL refuses to run as root: then it runs as the OS user postgres.
fn server_user() -> Option<(u32, u32)> {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let ids = |name: &str| {
        let line = passwd.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let own = Command::new("id").arg("-u").output().unwrap().stdout;
    (own == b"0\n").then(|| ids("postgres").expect("no OS user postgres"))
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((uid, gid)) = server_user() {
        command.uid(uid).gid(gid);
    }
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn run(command: &mut Command) {
    let output = command.stderr(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Server {
    fn new(directory: PathBuf) -> Self {
        Self { directory, port: testkit::free_ports(&[0]).unwrap(), process: None }
    }

    pub fn start(&mut self) {
        let log =
            std::fs::OpenOptions::new().create(true).append(true).open(self.directory.with_extension("log")).unwrap();
        let mut start = command(&binary("postgres"));
        start.arg("-D").arg(&self.directory).args(["-p", &self.port.to_string()]).stderr(log);
        self.process = Some(start.spawn().unwrap());
    }

    /// Ends the server like a power global snapshot: what is in the WAL buffers is lost.
    pub fn crash(&mut self) {
        self.end("QUIT");
    }

    fn end(&mut self, signal: &str) {
        if let Some(mut process) = self.process.take() {
            let _ = Command::new("kill").args([&format!("-{signal}"), &process.id().to_string()]).status();
            process.wait().unwrap();
        }
    }

    pub fn options(&self) -> ConnectOptions {
        ConnectOptions {
            host: "127.0.0.1".into(),
            port: self.port,
            user: "postgres".into(),
            database: "postgres".into(),
            secret: None,
            parameters: Vec::new(),
            encryption: pgproto::Encryption::Plain,
            proof: None,
        }
    }

    /// A connection, as soon as the server accepts one.
    pub async fn connect(&self) -> Connection {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Connection::connect(&self.options()).await {
                Ok(connection) => return connection,
                Err(error) => {
                    let log = self.directory.with_extension("log");
                    assert!(Instant::now() < deadline, "{error}\n{}", std::fs::read_to_string(log).unwrap_or_default());
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end("QUIT");
    }
}

/// Some datanodes, each with a table `t (k int primary key deferrable initially deferred)`.
pub struct Nodes {
    pub servers: Vec<Server>,
    /// A coordinator's client that a gtm has registered which is gone: it may decide, and nobody interferes.
    pub gtm: GtmClient,
    directory: PathBuf,
}

impl Nodes {
    pub async fn start(count: usize) -> Self {
        // Without a standby nothing but our own transactions writes or flushes WAL.
        Self::start_with(count, "wal_level = minimal\nmax_wal_senders = 0\n").await
    }

    pub async fn start_with(count: usize, further_settings: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("loxo-txn-{}-{number}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        if let Some((uid, gid)) = server_user() {
            std::os::unix::fs::chown(&directory, Some(uid), Some(gid)).unwrap();
        }
        let first = directory.join("0");
        run(command(&binary("initdb")).arg("-D").arg(&first).args([
            "-A",
            "trust",
            "-U",
            "postgres",
            "-N",
            "--no-locale",
        ]));
        // The tests kill processes, not machines: what was written survives without fsync.
        let settings = "fsync = off\nmax_prepared_transactions = 20\nlisten_addresses = '127.0.0.1'\n\
            unix_socket_directories = ''\nshared_buffers = 8MB\nmax_connections = 40\nautovacuum = off\n\
            wal_writer_delay = 10s\n";
        let file = first.join("postgresql.conf");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text + settings + further_settings).unwrap();
        for n in 1..count {
            run(command(Path::new("cp")).arg("-a").arg(&first).arg(directory.join(n.to_string())));
        }
        let mut servers = Vec::new();
        for n in 0..count {
            let mut server = Server::new(directory.join(n.to_string()));
            server.start();
            servers.push(server);
        }
        for server in &servers {
            let mut connection = server.connect().await;
            connection.execute(txn::decision::SCHEMA_SQL).await.unwrap();
            let keys = format!(
                "INSERT INTO loxo.seal (inner_key, outer_key) SELECT decode(repeat('1', {0}), 'hex'), decode(repeat('2', {0}), 'hex')",
                2 * KEY_BYTES
            );
            connection.execute(&keys).await.unwrap();
            connection.execute("RESET search_path").await.unwrap();
            let table = "CREATE TABLE t (k int, CONSTRAINT t_key UNIQUE (k) DEFERRABLE INITIALLY DEFERRED)";
            connection.execute(table).await.unwrap();
            connection.execute(NODE_SQL).await.unwrap();
        }
        write_members(&servers, &(0..count as u16).collect::<Vec<_>>()).await;
        let gtm = registered(datanodes(&servers)).await;
        Self { servers, gtm, directory }
    }

    /// These servers are the cluster's datanodes from now on.
    pub async fn set_members(&self, ids: &[u16]) {
        write_members(&self.servers, ids).await;
    }

    /// What a commit needs; `options` are the nodes'.
    pub fn tools<'a>(&'a self, ids: &'a GidSource, options: &'a Datanodes) -> CommitTools<'a> {
        CommitTools { ids, nodes: options, gtm: &self.gtm, seal: &SEAL, interrupt: &NEVER }
    }

    pub fn options(&self) -> Datanodes {
        datanodes(&self.servers)
    }

    /// New connections to all nodes.
    pub async fn connect(&self) -> Vec<Connection> {
        let mut connections = Vec::new();
        for server in &self.servers {
            connections.push(server.connect().await);
        }
        connections
    }

    /// On how many nodes is `k` in the table?
    pub async fn count(&self, k: i32) -> usize {
        let mut count = 0;
        for connection in &mut self.connect().await {
            count += connection.query_rows(&format!("SELECT FROM t WHERE k = {k}")).await.unwrap().len();
        }
        count
    }

    /// Number of prepared transactions on all nodes.
    /// Does any client but us have a transaction open?
    pub async fn in_transaction(&self) -> bool {
        let mut open = false;
        for connection in &mut self.connect().await {
            let others = "SELECT FROM pg_stat_activity WHERE backend_type = 'client backend' AND xact_start IS NOT NULL \
                AND pid <> pg_backend_pid()";
            open |= !connection.query_rows(others).await.unwrap().is_empty();
        }
        open
    }

    pub async fn prepared(&self) -> usize {
        let mut count = 0;
        for connection in &mut self.connect().await {
            count += connection.query_rows("SELECT FROM pg_prepared_xacts").await.unwrap().len();
        }
        count
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.servers.clear();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// On those that are members.
async fn write_members(servers: &[Server], ids: &[u16]) {
    let members: Vec<(u16, &Server)> = ids.iter().map(|id| (*id, &servers[usize::from(*id)])).collect();
    let row = |(id, server): &(u16, &Server)| format!("({id}, 'D', '127.0.0.1', {}, {})", server.port, *id == 0);
    let rows: Vec<String> = members.iter().map(row).collect();
    let sql = format!("BEGIN; DELETE FROM loxo.node; INSERT INTO loxo.node VALUES {}; COMMIT", rows.join(", "));
    for (_, server) in members {
        server.connect().await.execute(&sql).await.unwrap();
    }
}

fn datanodes(servers: &[Server]) -> Datanodes {
    (0..).zip(servers.iter().map(Server::options)).collect()
}

/// A client that knows the nodes' generation; its gtm has ended again.
async fn registered(nodes: Datanodes) -> GtmClient {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gtm = GtmClient::connect(vec![listener.local_addr().unwrap().to_string()], "test");
    let mut options = GtmOptions::new(nodes);
    options.lease = Duration::from_millis(500);
    let server = tokio::spawn(serve(listener, options));
    assert!(gtm.global_snapshot().await.unwrap().complete());
    // The gtm has said that the barrier is over: no marks are needed later.
    drop(gtm.enter(&[], Datanodes::default).await.unwrap());
    server.abort();
    assert!(server.await.unwrap_err().is_cancelled());
    while gtm.has_lease() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    gtm
}

/// All connections as writers of nodes 0, 1, ….
pub fn writers(connections: &mut [Connection]) -> Vec<Participant<'_>> {
    let participant = |(node, connection)| Participant { node: node as u16, connection, wrote: true, xid: None };
    connections.iter_mut().enumerate().map(participant).collect()
}

/// The outcome of a commit that went well.
pub fn committed() -> Outcome {
    Outcome { committed: true, unresolved: vec![] }
}

/// A commit of an insert of `k` on all nodes that has come to a control point and waits there.
pub struct Paused {
    coordinator: tokio::task::JoinHandle<pgerror::Result<Outcome>>,
    go: tokio::sync::oneshot::Sender<()>,
}

impl Paused {
    /// Node 0 is the commit point.
    pub async fn at(nodes: &Nodes, point: &'static str, k: i32) -> Self {
        Self::with(nodes, nodes.gtm.clone(), point, k).await
    }

    /// By the coordinator of this client.
    pub async fn with(nodes: &Nodes, gtm: GtmClient, point: &'static str, k: i32) -> Self {
        Self::on(nodes, nodes.servers.len(), gtm, point, k).await
    }

    /// … on the first `count` nodes.
    pub async fn on(nodes: &Nodes, count: usize, gtm: GtmClient, point: &'static str, k: i32) -> Self {
        let (options, mut connections) = (nodes.options(), nodes.connect().await);
        connections.truncate(count);
        all(&mut connections, &format!("BEGIN; INSERT INTO t VALUES ({k})")).await;
        let (reached, at_point) = oneshot::channel();
        let (go, may_go) = oneshot::channel();
        let once = Mutex::new(Some((reached, may_go)));
        let script: Script = Arc::new(move |name| {
            let first = (name == point).then(|| once.lock().unwrap().take()).flatten();
            Box::pin(async move {
                if let Some((reached, may_go)) = first {
                    let _ = reached.send(());
                    let _: Result<(), _> = may_go.await;
                }
            })
        });
        let coordinator = tokio::spawn(async move {
            let mut participants = writers(&mut connections);
            let tools =
                CommitTools { ids: &GidSource::new(), nodes: &options, gtm: &gtm, seal: &SEAL, interrupt: &NEVER };
            with_script(script, commit(&mut participants, 0, &tools)).await
        });
        at_point.await.unwrap();
        Self { coordinator, go }
    }

    /// Lets it go on to its end.
    pub async fn go_on(self) -> pgerror::Result<Outcome> {
        let _ = self.go.send(());
        self.coordinator.await.unwrap()
    }

    /// Ends it where it is, with its connections.
    pub async fn kill(self) {
        self.coordinator.abort();
        assert!(self.coordinator.await.unwrap_err().is_cancelled());
    }
}

/// Runs statements, which must not fail, on each connection.
pub async fn all(connections: &mut [Connection], sql: &str) {
    for connection in connections {
        connection.execute(sql).await.unwrap();
    }
}

/// `SELECT` of one value as text.
pub async fn value(connection: &mut Connection, sql: &str) -> String {
    let rows = connection.query_rows(sql).await.unwrap();
    String::from_utf8(rows[0][0].as_ref().expect("a value").to_vec()).unwrap()
}
