//! The way of real hosts: a configuration file, servers that somebody else made, `loxo check` and `loxo init`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::wire::Client;
use testkit::{Server, ServerOptions, TempDir};

/// A configuration file over stock servers.
struct Setup {
    servers: Vec<Server>,
    dir: TempDir,
}

impl Setup {
    fn new(settings: &[&[(&str, &str)]]) -> Self {
        let start = |settings: &&[(&str, &str)]| {
            let settings = settings.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            Server::start(&ServerOptions { settings, ..ServerOptions::default() }).unwrap()
        };
        let setup = Self { servers: settings.iter().map(start).collect(), dir: TempDir::new("hosts").unwrap() };
        setup.write_config("user = \"postgres\"");
        setup
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("loxo.toml")
    }

    fn write_config(&self, login: &str) {
        let mut text = format!("[cluster]\nname = \"test\"\n{login}\n[gtm]\nhost = \"127.0.0.1\"\nport = 1\n");
        text += "[[coordinator]]\nname = \"coord1\"\nlisten = \"127.0.0.1:2\"\n";
        for (i, server) in self.servers.iter().enumerate() {
            text += &format!("[[datanode]]\nname = \"dn{}\"\nhost = \"127.0.0.1\"\nport = {}\n", i + 1, server.port());
        }
        std::fs::write(self.config(), text).unwrap();
    }

    /// Exit status and everything that was printed.
    fn loxo(&self, command: &str) -> (Option<i32>, String) {
        let mut loxo = Command::new(env!("CARGO_BIN_EXE_loxo"));
        let output = loxo.arg(command).arg("--config").arg(self.config()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    #[track_caller]
    fn says(&self, command: &str, status: i32, words: &[&str]) {
        let (code, text) = self.loxo(command);
        assert_eq!(code, Some(status), "{text}");
        for word in words {
            assert!(text.contains(word), "\"{word}\" is not in: {text}");
        }
    }

    fn value(&self, server: usize, sql: &str) -> Option<String> {
        let mut client = self.servers[server].connect().unwrap();
        client.strings(sql).unwrap().into_iter().next().and_then(|row| row.into_iter().next())
    }
}

const PREPARED: (&str, &str) = ("max_prepared_transactions", "100");

#[test]
fn empty_servers_become_datanodes_once() {
    let setup = Setup::new(&[&[PREPARED], &[PREPARED]]);
    // Each server has salted the password by itself.
    let verifier = |server| setup.value(server, "SELECT rolpassword FROM pg_authid WHERE rolname = 'the \"app\"'");
    for server in &setup.servers {
        server.connect().unwrap().run("CREATE ROLE \"the \"\"app\"\"\" LOGIN PASSWORD 'one'").unwrap();
    }
    let of_primary = verifier(0);
    assert_ne!(of_primary, verifier(1));
    setup.says("check", 1, &["error: dn2: has no metadata", "loxo init", "stored passwords of these roles differ"]);
    setup.says("init", 0, &["2 datanodes initialised"]);
    // Nothing else is wrong but that nothing has been started.
    setup.says("check", 1, &["error: gtm: this gtm does not answer", "loxo gtm --config F --name gtm", "2 errors"]);
    let (_, checked) = setup.loxo("check");
    assert!(checked.contains("error: coord1: this coordinator does not answer at 127.0.0.1:2"), "{checked}");
    assert!(!checked.contains("stored passwords") && !checked.contains("loxo status"), "{checked}");
    assert_eq!((verifier(0), verifier(1)), (of_primary.clone(), of_primary));
    let gid = "loxo_9_0_700_00000000000000ff_1";
    let mut second = setup.servers[1].connect().unwrap();
    second.run(&format!("BEGIN; CREATE TABLE doubtful (); PREPARE TRANSACTION '{gid}'")).unwrap();
    setup.says(
        "status",
        1,
        &["not all is well", "DOWN", "no gtm leads", &format!("{gid} on dn2, prepared"), "in postgres"],
    );
    second.run(&format!("ROLLBACK PREPARED '{gid}'")).unwrap();
    setup.says("init", 1, &["not empty"]);

    let id = |server| setup.value(server, "SELECT cluster_id FROM loxo.identity").unwrap();
    assert_eq!(id(0), id(1));
    for server in [0, 1] {
        assert_eq!(setup.value(server, "SELECT node_id FROM loxo.identity"), Some(server.to_string()));
        let nodes = setup.value(server, "SELECT string_agg(id || name || type::text, ' ' ORDER BY id) FROM loxo.node");
        assert_eq!(nodes.unwrap(), "0dn1D 1dn2D 1000coord1C 2000gtmG");
        let buckets = "SELECT count(*) FROM loxo.bucket_map, unnest(nodes) WITH ORDINALITY AS b (node, place)
            WHERE node = (place - 1) % 2";
        assert_eq!(setup.value(server, buckets).unwrap(), "4096");
    }
}

#[test]
fn nothing_is_written_unless_all_servers_can_take_it() {
    // The second server cannot prepare a transaction.
    let setup = Setup::new(&[&[PREPARED], &[("max_prepared_transactions", "0")]]);
    setup.says("check", 1, &["error: dn2: max_prepared_transactions = 0", "no distributed transaction"]);
    setup.says("init", 1, &["datanode dn2", "prepared transactions are disabled"]);
    for server in [0, 1] {
        assert_eq!(setup.value(server, "SELECT count(*) FROM pg_namespace WHERE nspname = 'loxo'").unwrap(), "0");
        assert_eq!(setup.value(server, "SELECT count(*) FROM pg_prepared_xacts").unwrap(), "0");
    }

    // The second server holds something.
    let setup = Setup::new(&[&[PREPARED], &[PREPARED, ("fsync", "off"), ("timezone", "Asia/Tokyo")]]);
    setup.servers[1].connect().unwrap().run("CREATE TABLE precious (a int)").unwrap();
    setup.says("init", 1, &["datanode dn2", "not empty", "relation public.precious"]);
    assert_eq!(setup.value(0, "SELECT count(*) FROM pg_namespace WHERE nspname = 'loxo'").unwrap(), "0");
    setup.says("check", 1, &["warning: dn2: fsync = off", "TimeZone differs"]);
}

#[test]
fn the_password_file_is_used_and_unreachable_servers_are_named() {
    let setup = Setup::new(&[&[PREPARED]]);
    let mut client = setup.servers[0].connect().unwrap();
    client.run("CREATE ROLE loader LOGIN SUPERUSER PASSWORD 'it''s secret'").unwrap();
    let hba = setup.servers[0].data_dir().join("pg_hba.conf");
    let rules = std::fs::read_to_string(&hba).unwrap();
    std::fs::write(&hba, format!("host all loader 127.0.0.1/32 scram-sha-256\n{rules}")).unwrap();
    client.run("SELECT pg_reload_conf()").unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while Client::connect_with(setup.servers[0].port(), &[("user", "loader")]).is_ok() {
        assert!(Instant::now() < deadline, "the server still lets everybody in");
        std::thread::sleep(Duration::from_millis(20));
    }

    setup.write_config("user = \"loader\"\npassword_file = \"password\"");
    let password = setup.dir.path().join("password");
    std::fs::write(&password, "wrong\n").unwrap();
    setup.says("check", 1, &["error: dn1: unreachable", "password authentication failed", "The server runs."]);
    std::fs::write(&password, "it's secret\n").unwrap();
    setup.says("init", 0, &["1 datanode initialised"]);
    setup.says(
        "check",
        1,
        &["warning: cluster: there is only one datanode", "error: gtm: ", "error: coord1: ", "2 errors"],
    );
    load_directly(&setup);

    let Setup { servers, dir } = setup;
    let port = servers[0].port();
    drop(servers);
    let gone = Setup { servers: Vec::new(), dir };
    let text = format!(
        "[cluster]\nname = \"x\"\n[gtm]\nhost = \"127.0.0.1\"\nport = 1\n\
         [[datanode]]\nname = \"dn1\"\nhost = \"127.0.0.1\"\nport = {port}\n"
    );
    std::fs::write(gone.config(), text).unwrap();
    gone.says("check", 1, &["error: dn1: unreachable", "no [[coordinator]] is configured"]);
    gone.says("coordinator", 1, &["0 coordinators"]);
}

/// The coordinator inside the loader logs in with the password too, and asks for it.
fn load_directly(setup: &Setup) {
    let port = testkit::free_ports(&[0]).unwrap();
    let config = std::fs::read_to_string(setup.config()).unwrap();
    std::fs::write(setup.config(), config.replace("port = 1\n", &format!("port = {port}\n"))).unwrap();
    let loxo = || Command::new(env!("CARGO_BIN_EXE_loxo"));
    let mut gtm = loxo().arg("gtm").arg("--config").arg(setup.config()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline && gtm.try_wait().unwrap().is_none(), "there is no gtm");
        std::thread::sleep(Duration::from_millis(20));
    }
    let file = setup.dir.write("people.csv", b"id,name\n1,one\n2,two\n").unwrap();
    let arguments = ["load", "people", "--create", "--header", "--direct", "--config"];
    let output = loxo().args(arguments).arg(setup.config()).arg(file).output().unwrap();
    gtm.kill().unwrap();
    gtm.wait().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(setup.value(0, "SELECT string_agg(name, ',' ORDER BY id) FROM people").unwrap(), "one,two");
}

/// A gtm and a coordinator over a configuration, in which lines may be wrong.
struct Daemons(Vec<Child>);

impl Daemons {
    /// Ends them as they are dropped. Writes a configuration of these servers, as dn1, dn2, …
    fn start(dir: &TempDir, id: Option<&str>, ports: &[u16]) -> (Self, u16) {
        Self::start_listed(dir, id, ports.iter().copied().enumerate())
    }

    /// The servers are listed in this order, each with its number.
    fn start_listed(dir: &TempDir, id: Option<&str>, servers: impl IntoIterator<Item = (usize, u16)>) -> (Self, u16) {
        let free = testkit::free_ports(&[0, 1]).unwrap();
        let id = id.map(|id| format!("id = \"{id}\"\n")).unwrap_or_default();
        let mut text = format!("[cluster]\nname = \"test\"\n{id}[gtm]\nhost = \"127.0.0.1\"\nport = {}\n", free + 1);
        text += &format!("[[coordinator]]\nname = \"coord1\"\nlisten = \"127.0.0.1:{free}\"\nauth = \"trust\"\n");
        for (number, port) in servers {
            text += &format!("[[datanode]]\nname = \"dn{}\"\nhost = \"127.0.0.1\"\nport = {port}\n", number + 1);
        }
        let config = dir.write(&format!("{free}.toml"), text.as_bytes()).unwrap();
        let daemon = |what| {
            let mut loxo = Command::new(env!("CARGO_BIN_EXE_loxo"));
            loxo.arg(what).arg("--config").arg(&config).stderr(Stdio::piped()).spawn().unwrap()
        };
        (Self(vec![daemon("gtm"), daemon("coordinator")]), free)
    }

    /// A client, as soon as there is a coordinator.
    fn client(&self, port: u16) -> Client {
        Self::wait_for(port);
        Client::connect(port).unwrap()
    }

    /// The error of a statement, or of the connection that it needs.
    fn error(&self, port: u16, sql: &str) -> String {
        Self::wait_for(port);
        let error = Client::connect(port).and_then(|mut client| client.run(sql)).unwrap_err();
        let detail = error.get(pgerror::field::DETAIL).unwrap_or_default();
        format!("{} {}", error.message(), String::from_utf8_lossy(detail))
    }

    fn wait_for(port: u16) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "there is no coordinator");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the coordinator says before it gives up.
    fn refusal(mut self) -> String {
        let mut text = String::new();
        self.0[1].stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(!self.0[1].wait().unwrap().success());
        text
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_server_that_is_not_the_datanode_meant_is_left_alone() {
    let (ours, others) = (Setup::new(&[&[PREPARED], &[PREPARED]]), Setup::new(&[&[PREPARED], &[PREPARED]]));
    for setup in [&ours, &others] {
        setup.says("init", 0, &["2 datanodes initialised", "Add id ="]);
    }
    let [one, two] = [0, 1].map(|server| ours.servers[server].port());
    let foreign = [0, 1].map(|server| others.servers[server].port());
    let id = ours.value(0, "SELECT cluster_id FROM loxo.identity").unwrap();
    {
        let (daemons, port) = Daemons::start(&ours.dir, None, &[one, two]);
        let mut client = daemons.client(port);
        client.run("CREATE TABLE t (k int) DISTRIBUTE BY HASH (k)").unwrap();
        client.run("INSERT INTO t SELECT generate_series(1, 100)").unwrap();
        assert_eq!(client.scalar("SELECT count(*) FROM t").unwrap(), "100");
    }
    let rows = || [0, 1].map(|server| ours.value(server, "SELECT count(*) FROM t").unwrap());
    let before = rows();
    {
        // The order of the lines means nothing.
        let (daemons, port) = Daemons::start_listed(&ours.dir, Some(&id), [(1, two), (0, one)]);
        let mut client = daemons.client(port);
        assert_eq!(client.scalar("SELECT count(*) FROM t").unwrap(), "100");
        client.run("INSERT INTO t SELECT generate_series(1, 100)").unwrap();
        let doubled = before.clone().map(|rows| (2 * rows.parse::<u32>().unwrap()).to_string());
        assert_eq!(rows(), doubled);
        client.run("DELETE FROM t; INSERT INTO t SELECT generate_series(1, 100)").unwrap();
    }

    // Two lines are swapped; the second is another cluster's node of the same number; a copy of the first.
    let copy = ours.value(0, "SELECT system_identifier FROM loxo.identity").unwrap();
    others.servers[0].connect().unwrap().run("BEGIN; UPDATE loxo.identity SET node_id = 0; COMMIT").unwrap();
    for (ports, words) in [
        ([two, one], ["is not the datanode that was expected", "found was node 1 of"]),
        ([one, foreign[1]], ["is not the datanode that was expected", "found was node 1 of"]),
        ([foreign[0], two], ["is not the datanode that was expected", "found was node 0 of"]),
    ] {
        let (daemons, port) = Daemons::start(&ours.dir, Some(&id), &ports);
        for sql in ["INSERT INTO t SELECT generate_series(1, 100)", "SELECT count(*) FROM t", "CREATE TABLE u (k int)"]
        {
            let text = daemons.error(port, sql);
            assert!(words.iter().all(|word| text.contains(word)), "{ports:?}, {sql}: {text}");
        }
    }
    // Nobody has said which of the two clusters it is.
    let refusal = Daemons::start(&ours.dir, None, &[one, foreign[1]]).0.refusal();
    assert!(refusal.contains("belong to different clusters"), "{refusal}");
    // A dump of it that was restored elsewhere says that it is the same node of the same cluster.
    let imitate = format!("UPDATE loxo.identity SET node_id = 0, cluster_id = '{id}', system_identifier = {copy}");
    others.servers[0].connect().unwrap().run(&imitate).unwrap();
    let (daemons, port) = Daemons::start(&ours.dir, Some(&id), &[foreign[0], two]);
    let text = daemons.error(port, "SELECT count(*) FROM t");
    assert!(text.contains("is a copy of a datanode"), "{text}");
    assert_eq!(rows(), before);
    assert_eq!(others.value(0, "SELECT to_regclass('u') IS NULL AND to_regclass('t') IS NULL").unwrap(), "t");
}

#[test]
fn a_gtm_finds_the_datanodes_that_its_file_does_not_list() {
    let (ours, others) = (Setup::new(&[&[PREPARED], &[PREPARED]]), Setup::new(&[&[PREPARED], &[PREPARED]]));
    for setup in [&ours, &others] {
        setup.says("init", 0, &["2 datanodes initialised"]);
    }
    let generation = |setup: &Setup, server| setup.value(server, "SELECT last_value FROM loxo.generation").unwrap();
    let before = generation(&ours, 1);
    let (mut daemons, _) = Daemons::start(&ours.dir, None, &[ours.servers[0].port()]);
    let deadline = Instant::now() + Duration::from_secs(30);
    while generation(&ours, 1) == before {
        assert!(Instant::now() < deadline, "the second datanode is not fenced");
        std::thread::sleep(Duration::from_millis(20));
    }

    // It is not at its address any more: there is another cluster's.
    let moved = format!("UPDATE loxo.node SET port = {} WHERE id = 1", others.servers[1].port());
    ours.servers[0].connect().unwrap().run(&moved).unwrap();
    let mut said = BufReader::new(daemons.0[0].stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("is not the datanode that was expected")), "it is taken");
    assert_eq!(generation(&others, 1), before);
}

/// What a service manager is told: by a datagram for each change, as systemd's `Type=notify` wants it.
struct ServiceManager(UnixDatagram);

impl ServiceManager {
    fn new(dir: &TempDir) -> Self {
        let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self(socket)
    }

    fn starts(&self, what: &str, setup: &Setup) -> Child {
        self.program(what, setup).spawn().unwrap()
    }

    fn program(&self, what: &str, setup: &Setup) -> Command {
        let mut loxo = Command::new(env!("CARGO_BIN_EXE_loxo"));
        let path = self.0.local_addr().unwrap().as_pathname().unwrap().to_owned();
        loxo.arg(what).arg("--config").arg(setup.config()).env("NOTIFY_SOCKET", path);
        loxo
    }

    fn is_told(&self) -> String {
        let mut datagram = [0; 256];
        let length = self.0.recv(&mut datagram).unwrap();
        String::from_utf8(datagram[..length].to_vec()).unwrap()
    }
}

#[test]
fn a_service_manager_hears_of_start_reload_and_end() {
    let setup = Setup::new(&[&[PREPARED]]);
    let ports = testkit::free_ports(&[0, 1]).unwrap();
    let text = std::fs::read_to_string(setup.config()).unwrap();
    let text = text
        .replace("port = 1\n", &format!("port = {ports}\n"))
        .replace("127.0.0.1:2\"", &format!("127.0.0.1:{}\"\nauth = \"trust\"\npool_size = 1", ports + 1));
    std::fs::write(setup.config(), &text).unwrap();
    setup.says("init", 0, &["1 datanode initialised"]);

    let manager = ServiceManager::new(&setup.dir);
    let gtm = manager.starts("gtm", &setup);
    assert_eq!(manager.is_told(), "READY=1\n");
    let coordinator = manager.starts("coordinator", &setup);
    assert_eq!(manager.is_told(), "READY=1\n");
    // Whoever is told so may connect.
    assert_eq!(Client::connect(ports + 1).unwrap().strings("SELECT 1").unwrap(), [["1"]]);

    all_is_well_until_something_is_not(&setup);

    let reloads = |daemon: &Child| {
        signal(daemon, "HUP");
        let reloading = manager.is_told();
        assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
        assert_eq!(manager.is_told(), "READY=1\n");
    };
    reloads(&gtm);
    // The pool grows for who waits in line, and shrinks when nobody uses what is too much.
    let resized = |size: usize| {
        let text = text.replace("pool_size = 1", &format!("pool_size = {size}"));
        std::fs::write(setup.config(), text).unwrap();
        reloads(&coordinator);
    };
    let mut inside = Client::connect(ports + 1).unwrap();
    inside.run("BEGIN; SELECT 1").unwrap();
    let waiting = std::thread::spawn(move || Client::connect(ports + 1).unwrap().strings("SELECT 2").unwrap());
    resized(4);
    assert_eq!(waiting.join().unwrap(), [["2"]]);
    let mut others: Vec<Client> = (0..3).map(|_| Client::connect(ports + 1).unwrap()).collect();
    for other in &mut others {
        other.run("BEGIN; SELECT 1").unwrap();
    }
    resized(1);
    assert_eq!(inside.strings("SELECT 3").unwrap(), [["3"]]);
    drop((inside, others));
    let used = "SELECT count(*) <= 2 FROM pg_stat_activity WHERE application_name = 'loxo' AND usename = 'postgres'";
    let deadline = Instant::now() + Duration::from_secs(30);
    while setup.value(0, used).as_deref() != Some("t") {
        assert!(Instant::now() < deadline, "connections that are too many stay");
        std::thread::sleep(Duration::from_millis(20));
    }

    for mut daemon in [coordinator, gtm] {
        signal(&daemon, "TERM");
        assert_eq!(manager.is_told(), "STOPPING=1\n");
        assert!(daemon.wait().unwrap().success());
    }
    setup.says(
        "status",
        1,
        &["gtm: does not answer at", "no gtm leads", "coord1: does not answer", "3 things are wrong"],
    );

    // Signs of life, as long as there is life.
    let mut gtm = manager.program("gtm", &setup).env("WATCHDOG_USEC", "300000").spawn().unwrap();
    let mut told: Vec<String> = (0..3).map(|_| manager.is_told()).collect();
    told.sort();
    assert_eq!(told, ["READY=1\n", "WATCHDOG=1\n", "WATCHDOG=1\n"]);
    signal(&gtm, "STOP");
    manager.0.set_read_timeout(Some(Duration::from_millis(600))).unwrap();
    while manager.0.recv(&mut [0; 256]).is_ok() {}
    signal(&gtm, "CONT");
    assert_eq!(manager.is_told(), "WATCHDOG=1\n");
    gtm.kill().unwrap();
    gtm.wait().unwrap();
}

/// With a gtm, a coordinator, a datanode, and who receives its log like a standby.
fn all_is_well_until_something_is_not(setup: &Setup) {
    let mut standby = Command::new("pg_receivewal");
    standby
        .env("PGAPPNAME", "west")
        .args(["-h", "127.0.0.1", "-U", "postgres", "--no-loop", "-D"])
        .arg(setup.dir.path());
    let mut standby = standby.arg("-p").arg(setup.servers[0].port().to_string()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let seen = loop {
        let (code, text) = setup.loxo("status");
        if code == Some(0) && text.contains("standby west at 127.0.0.1: streaming, async") {
            break text;
        }
        assert!(Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(20));
    };
    for words in ["cluster test: all is well", "leads", "PostgreSQL 1", "loxo 0", "layout", "databases: postgres"] {
        assert!(seen.contains(words), "\"{words}\" is not in: {seen}");
    }
    let mut json = Command::new(env!("CARGO_BIN_EXE_loxo"));
    let json = json.args(["status", "--json", "--config"]).arg(setup.config()).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let (gtm, coordinator, datanode) = (&json["gtms"][0], &json["coordinators"][0], &json["datanodes"][0]);
    assert_eq!((&gtm["leads"], &coordinator["version"]), (&true.into(), &gtm["version"]), "{json}");
    assert!(coordinator["up_seconds"].is_u64() && datanode["up_seconds"].is_u64(), "{json}");
    assert!(datanode["standbys"][0]["behind_bytes"].is_u64(), "{json}");
    standby.kill().unwrap();
    standby.wait().unwrap();
}

fn signal(daemon: &Child, signal: &str) {
    let status = Command::new("kill").arg(format!("-{signal}")).arg(daemon.id().to_string()).status().unwrap();
    assert!(status.success());
}
