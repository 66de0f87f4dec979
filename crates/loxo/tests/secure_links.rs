//! TLS on the links behind a coordinator: datanodes that take encrypted connections only, a gtm that asks for certificates, and
//! those in between who would like to listen.

#[path = "secure_links/pki.rs"]
mod pki;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pki::Authority;
use testkit::wire::Client;
use testkit::{Server, ServerOptions, TempDir};

const SOON: Duration = Duration::from_secs(30);

/// Two datanodes with certificates of a private authority, and what is to be their cluster.
struct Hosts {
    dir: TempDir,
    servers: Vec<Server>,
    daemons: Vec<Child>,
    /// Of the coordinator; the gtm's is the next one.
    port: u16,
}

impl Hosts {
    fn new() -> Self {
        let dir = TempDir::new("links").unwrap();
        let authority = Authority::new(dir.path(), "root");
        authority.issue("server", "DNS:localhost", 30);
        authority.issue("client", "", 30);
        Authority::new(dir.path(), "other").issue("stranger", "DNS:localhost", 30);
        let servers: Vec<Server> = (0..2).map(|_| Server::start(&ServerOptions::default()).unwrap()).collect();
        for server in &servers {
            only_encrypted(server, &authority);
        }
        Self { dir, servers, daemons: Vec::new(), port: testkit::free_ports(&[0, 1]).unwrap() }
    }

    /// Writes the configuration; datanodes are at `host`, the first of them at `port` if it is said.
    fn configure(&self, cluster: &str, host: &str, port: Option<u16>) {
        self.dir.write("password", b"it's secret\n").unwrap();
        let mut text = format!(
            "[cluster]\nname = \"test\"\nuser = \"svc\"\npassword_file = \"password\"\n{cluster}\n\
             [gtm]\nhost = \"127.0.0.1\"\nport = {}\n\
             [[coordinator]]\nname = \"coord1\"\nlisten = \"127.0.0.1:{}\"\n",
            self.port + 1,
            self.port
        );
        let ports =
            self.servers.iter().enumerate().map(|(at, server)| port.filter(|_| at == 0).unwrap_or(server.port()));
        for (at, port) in ports.enumerate() {
            text += &format!("[[datanode]]\nname = \"dn{}\"\nhost = \"{host}\"\nport = {port}\n", at + 1);
        }
        self.dir.write("loxo.toml", text.as_bytes()).unwrap();
    }

    fn loxo(&self, arguments: &[&str]) -> Command {
        let mut loxo = Command::new(env!("CARGO_BIN_EXE_loxo"));
        loxo.args(arguments).arg("--config").arg(self.file("loxo.toml"));
        loxo
    }

    #[track_caller]
    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.loxo(arguments).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    }

    #[track_caller]
    fn fails(&self, arguments: &[&str], words: &str) {
        let output = self.loxo(arguments).output().unwrap();
        assert!(!output.status.success() && said(&output).contains(words), "\"{words}\": {}", said(&output));
    }

    /// What a client is told by a coordinator that cannot talk to the first datanode.
    #[track_caller]
    fn client_hears(&mut self, words: &str) {
        self.start("coordinator");
        let output = self.psql().args(["-c", "SELECT 1"]).output().unwrap();
        self.stop_last();
        assert!(!output.status.success() && said(&output).contains(words), "\"{words}\": {}", said(&output));
    }

    fn stop_last(&mut self) {
        let mut daemon = self.daemons.pop().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    fn start(&mut self, what: &str) {
        let log = std::fs::File::create(self.file(&format!("{what}.log"))).unwrap();
        let daemon = self.loxo(&[what]).stderr(log).spawn().unwrap();
        self.daemons.push(daemon);
        let port = if what == "gtm" { self.port + 1 } else { self.port };
        until("the daemon listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    /// Has all read their files again.
    fn reload(&self) {
        let daemons = ["gtm", "coordinator"];
        let heard = || daemons.map(|what| self.log(what).matches("SIGHUP: ").count());
        let before = heard();
        for daemon in &self.daemons {
            assert!(Command::new("kill").args(["-HUP", &daemon.id().to_string()]).status().unwrap().success());
        }
        until("the files are read again", || heard().iter().zip(before).all(|(now, before)| *now > before));
    }

    fn log(&self, what: &str) -> String {
        std::fs::read_to_string(self.file(&format!("{what}.log"))).unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// psql to the coordinator as a user without privileges.
    fn psql(&self) -> Command {
        let mut psql = Command::new("psql");
        psql.env("PGPASSWORD", "apps").env("PGCONNECT_TIMEOUT", "20").args([
            "-X",
            "-q",
            "-At",
            "-v",
            "ON_ERROR_STOP=1",
        ]);
        psql.arg(format!("host=localhost port={} user=app dbname=postgres", self.port));
        psql
    }

    #[track_caller]
    fn answers(&self, sql: &str) -> String {
        let output = self.psql().args(["-c", sql]).output().unwrap();
        assert!(output.status.success(), "{}\n{}", said(&output), self.log("coordinator"));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// TLS by the authority's certificate `server`; everybody but the test itself must encrypt, and shows a password or, as `svc` with one,
/// a certificate.
fn only_encrypted(server: &Server, authority: &Authority) {
    let data = server.data_dir();
    for (name, kind, to) in
        [("server", "crt", "server.crt"), ("server", "key", "server.key"), ("root", "crt", "root.crt")]
    {
        copy_for(&data, &authority.file(name, kind), &data.join(to));
    }
    let mut client = server.connect().unwrap();
    client.run("CREATE ROLE svc SUPERUSER LOGIN PASSWORD 'it''s secret'").unwrap();
    client.run("CREATE ROLE app LOGIN PASSWORD 'apps'; GRANT ALL ON SCHEMA public TO app").unwrap();
    for setting in ["ssl = on", "ssl_ca_file = 'root.crt'"] {
        client.run(&format!("ALTER SYSTEM SET {setting}")).unwrap();
    }
    let rules = "host all postgres 127.0.0.1/32 trust\nhostssl all all all scram-sha-256\n";
    std::fs::write(data.join("pg_hba.conf"), rules).unwrap();
    client.run("SELECT pg_reload_conf()").unwrap();
    until("the server encrypts", || encrypts(server.port()));
}

fn encrypts(port: u16) -> bool {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).is_ok() && answer == *b"S"
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < SOON, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[test]
fn every_link_to_a_datanode_is_encrypted_and_verified() {
    let mut hosts = Hosts::new();
    let verify = "sslmode = \"verify-full\"\nsslrootcert = \"root.crt\"";
    // Without encryption, by a name that the certificate does not have, by another authority.
    hosts.configure("", "localhost", None);
    hosts.fails(&["init"], "no pg_hba.conf entry");
    hosts.client_hears("no pg_hba.conf entry");
    hosts.configure(verify, "127.0.0.1", None);
    hosts.fails(&["init"], "not valid for name");
    hosts.client_hears("not valid for name");
    hosts.configure("sslmode = \"verify-full\"\nsslrootcert = \"other.crt\"", "localhost", None);
    hosts.fails(&["init"], "UnknownIssuer");
    hosts.client_hears("UnknownIssuer");
    hosts.configure("sslmode = \"verify-full\"", "localhost", None);
    hosts.fails(&["init"], "no authority is named");
    hosts.configure("sslmode = \"prefer\"", "localhost", None);
    hosts.fails(&["init"], "unknown variant `prefer`");
    // The authority alone does not mind the name.
    hosts.configure(&verify.replace("verify-full", "verify-ca"), "127.0.0.1", None);
    hosts.fails(&["check"], "has no metadata of a cluster");

    hosts.configure(verify, "localhost", None);
    hosts.succeeds(&["init"]);
    hosts.start("gtm");
    hosts.start("coordinator");
    hosts.answers("CREATE TABLE t (k int PRIMARY KEY, v text) DISTRIBUTE BY HASH (k)");
    hosts.answers("INSERT INTO t SELECT k, repeat('x', 300) FROM generate_series(1, 20000) AS k");
    assert_eq!(hosts.answers("SELECT count(*), sum(length(v)) FROM t"), "20000|6000000");
    assert_eq!(hosts.answers("SELECT * FROM t ORDER BY k").len(), 88_894 + 20_000 * 302 - 1);
    hosts.answers("BEGIN; UPDATE t SET v = 'y' WHERE k <= 100; COMMIT");
    assert_eq!(hosts.answers("SELECT count(*) FROM t WHERE v = 'y'"), "100");

    // A cancel request.
    let mut sleeper = hosts.psql().args(["-c", "SELECT pg_sleep(600)"]).stderr(Stdio::piped()).spawn().unwrap();
    let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid()";
    let asleep = || hosts.servers.iter().any(|server| one(&mut server.connect().unwrap(), sleeps) != "0");
    until("it sleeps", asleep);
    assert!(Command::new("kill").args(["-INT", &sleeper.id().to_string()]).status().unwrap().success());
    until("it is woken", || sleeper.try_wait().unwrap().is_some());
    let mut words = String::new();
    sleeper.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    assert!(words.contains("canceling statement due to user request"), "{words}");
    until("nobody sleeps", || !asleep());

    for server in &hosts.servers {
        let open =
            "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename IN ('svc', 'app') AND ";
        let mut client = server.connect().unwrap();
        assert_eq!(one(&mut client, &format!("{open} NOT ssl")), "0");
        assert_ne!(one(&mut client, &format!("{open} ssl AND version = 'TLSv1.3'")), "0");
    }
    assert!(hosts.succeeds(&["check"]).contains("no errors"));
}

#[test]
fn a_client_certificate_opens_the_datanodes() {
    let mut hosts = Hosts::new();
    for server in &hosts.servers {
        let rules = "host all postgres 127.0.0.1/32 trust\nhostssl all all all scram-sha-256 clientcert=verify-ca\n";
        std::fs::write(server.data_dir().join("pg_hba.conf"), rules).unwrap();
        server.connect().unwrap().run("SELECT pg_reload_conf()").unwrap();
    }
    let verify = "sslmode = \"verify-full\"\nsslrootcert = \"root.crt\"\n";
    hosts.configure(verify, "localhost", None);
    until("a certificate is asked for", || {
        said(&hosts.loxo(&["check"]).output().unwrap()).contains("valid client certificate")
    });
    let with = |name: &str| format!("{verify}sslcert = \"{name}.crt\"\nsslkey = \"{name}.key\"");
    hosts.configure(&with("stranger"), "localhost", None);
    hosts.fails(&["init"], "datanode dn");
    hosts.configure(&with("client"), "localhost", None);
    hosts.succeeds(&["init"]);

    // Another one, for connections to come; then one that cannot be used, which leaves what was there.
    hosts.start("gtm");
    hosts.start("coordinator");
    hosts.answers("SELECT 1");
    let kept = ["crt", "key"].map(|kind| std::fs::read(hosts.file(&format!("client.{kind}"))).unwrap());
    let shows = |[certificate, key]: &[Vec<u8>; 2]| {
        std::fs::write(hosts.file("client.crt"), certificate).unwrap();
        std::fs::write(hosts.file("client.key"), key).unwrap();
        hosts.reload();
        for server in &hosts.servers {
            let close = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename IN ('svc', 'app')";
            server.connect().unwrap().run(close).unwrap();
        }
    };
    let is_let_in = || hosts.psql().args(["-c", "SELECT 1"]).output().unwrap().status.success();
    shows(&["crt", "key"].map(|kind| std::fs::read(hosts.file(&format!("stranger.{kind}"))).unwrap()));
    assert!(!is_let_in(), "the certificate is not read again");
    shows(&kept);
    until("the certificate is read again", is_let_in);
    shows(&[b"no certificate".to_vec(), kept[1].clone()]);
    assert!(hosts.log("coordinator").contains("SIGHUP: what was read before stays"));
    until("what was there stays", is_let_in);
}

/// Whoever sits between a coordinator and a datanode, and has no certificate that it believes.
#[test]
fn nobody_in_between_gets_anything() {
    let mut hosts = Hosts::new();
    // He says that the server cannot encrypt, and would pass on what he hears.
    let (port, heard) = stripper();
    hosts.configure("sslmode = \"require\"", "localhost", Some(port));
    hosts.fails(&["init"], "does not support TLS");
    hosts.client_hears("SSL was required");
    assert!(!heard.lock().unwrap().windows(3).any(|bytes| bytes == b"svc"), "the startup packet was sent in the clear");

    // He encrypts by himself towards both sides: the password's proof holds for the certificate that was seen.
    let own_port = testkit::free_ports(&[0]).unwrap();
    let mut relay = Command::new("python3");
    relay.args(["-c", RELAY, &own_port.to_string(), &hosts.servers[0].port().to_string()]);
    let mut relay = relay.current_dir(hosts.dir.path()).stdout(Stdio::piped()).spawn().unwrap();
    // Held to the end: an unbuffered python writes the line in two parts, and fails if nobody listens to the second.
    let mut ready = relay.stdout.take().unwrap();
    hosts.daemons.push(relay);
    ready.read_exact(&mut [0]).unwrap();
    hosts.configure("sslmode = \"require\"", "localhost", Some(own_port));
    hosts.fails(&["init"], "channel binding");
    hosts.client_hears("channel binding");
    hosts.configure("sslmode = \"verify-ca\"\nsslrootcert = \"root.crt\"", "localhost", Some(own_port));
    hosts.client_hears("UnknownIssuer");
}

/// Ends TLS with a certificate of its own, and begins another TLS connection to the server.
const RELAY: &str = "
import socket, ssl, sys, threading
def words(stream, count):
    got = b''
    while len(got) < count:
        more = stream.recv(count - len(got))
        if not more:
            raise SystemExit
        got += more
    return got
def pump(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
    except OSError:
        pass
    for end in (a, b):
        try: end.shutdown(socket.SHUT_RDWR)
        except OSError: pass
def serve(client):
    words(client, 8)
    client.sendall(b'S')
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain('stranger.crt', 'stranger.key')
    try:
        client = own.wrap_socket(client, server_side=True)
    except OSError:
        return
    server = socket.create_connection(('127.0.0.1', int(sys.argv[2])))
    server.sendall(bytes([0, 0, 0, 8, 4, 210, 22, 47]))
    words(server, 1)
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    server = anybody.wrap_socket(server)
    threading.Thread(target=pump, args=(client, server), daemon=True).start()
    pump(server, client)
listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))
print('!', flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
";

/// Answers N to whoever asks for encryption; and what it was told.
fn stripper() -> (u16, std::sync::Arc<std::sync::Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let ears = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 1024];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                ears.lock().unwrap().extend(&bytes[..count]);
                let _ = stream.write_all(b"N");
            }
        }
    });
    (port, heard)
}

#[test]
fn a_gtm_hears_only_who_has_a_certificate_of_the_cluster() {
    let mut hosts = Hosts::new();
    let cluster = "sslmode = \"verify-full\"\nsslrootcert = \"root.crt\"\ntls_directory = \"tls\"";
    hosts.configure(cluster, "localhost", None);
    hosts.fails(&["gtm"], "loxo init --certificates");
    hosts.succeeds(&["init"]);
    assert!(hosts.succeeds(&["init", "--certificates"]).contains("all certificates are there"));
    hosts.start("gtm");
    hosts.start("coordinator");
    hosts.answers("CREATE TABLE t (k int PRIMARY KEY) DISTRIBUTE BY HASH (k)");
    assert!(hosts.log("coordinator").contains("connected to the gtm"));

    // In the clear: a Hello as version after version has begun it. TLS without a certificate.
    let mut plain = TcpStream::connect(("127.0.0.1", hosts.port + 1)).unwrap();
    plain.set_read_timeout(Some(SOON)).unwrap();
    plain.write_all(b"H\0\0\0\x10\0\0\0\0\0\0\0\x01x\0\0\0").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer[0] == 21, "only an alert of TLS: {answer:?}");
    until("it is in the log", || hosts.log("gtm").contains("a connection was refused"));
    assert!(!talks_to_gtm(&hosts, None), "without a certificate");

    // Another authority's, one that is out of date; and then its own.
    Authority { dir: hosts.file("tls"), name: "ca" }.issue("late", "", -1);
    assert!(!talks_to_gtm(&hosts, Some("stranger")));
    assert!(!talks_to_gtm(&hosts, Some("tls/late")));
    assert!(talks_to_gtm(&hosts, Some("tls/coord1")));

    // The cluster's own authority made anew: who comes from now on must have a certificate of it. Links that are open stay. Then a
    // file that cannot be used, which changes nothing.
    std::fs::rename(hosts.file("tls"), hosts.file("former")).unwrap();
    hosts.succeeds(&["init", "--certificates"]);
    hosts.reload();
    assert!(!talks_to_gtm(&hosts, Some("former/coord1")));
    assert_eq!(hosts.log("coordinator").matches("connected to the gtm").count(), 1);
    let certificate = std::fs::read(hosts.file("tls/gtm.crt")).unwrap();
    std::fs::write(hosts.file("tls/gtm.crt"), "no certificate").unwrap();
    hosts.reload();
    assert!(hosts.log("gtm").contains("SIGHUP: what was read before stays"));
    std::fs::write(hosts.file("tls/gtm.crt"), certificate).unwrap();
    let status = hosts.succeeds(&["status"]);
    assert!(status.contains("all is well") && status.contains("leads"), "{status}");

    // A coordinator does not take a coordinator for a gtm, though it has a certificate of the cluster.
    hosts.daemons[0].kill().unwrap();
    hosts.daemons[0].wait().unwrap();
    let mut impostor = Command::new("openssl");
    impostor.args([
        "s_server",
        "-accept",
        &(hosts.port + 1).to_string(),
        "-cert",
        "tls/coord1.crt",
        "-key",
        "tls/coord1.key",
    ]);
    impostor.current_dir(hosts.dir.path()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    hosts.daemons.push(impostor.spawn().unwrap());
    until("the impostor is found out", || hosts.log("coordinator").contains("extended key usage"));
}

/// Does the gtm take a TLS connection, and wait for a Hello?
fn talks_to_gtm(hosts: &Hosts, certificate: Option<&str>) -> bool {
    let mut openssl = Command::new("openssl");
    openssl.current_dir(hosts.dir.path()).args([
        "s_client",
        "-ign_eof",
        "-connect",
        &format!("127.0.0.1:{}", hosts.port + 1),
    ]);
    if let Some(name) = certificate {
        openssl.args(["-cert", &format!("{name}.crt"), "-key", &format!("{name}.key")]);
    }
    // Whoever is heard and says nothing is disconnected after a while; others get an alert.
    let output = openssl.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    !String::from_utf8_lossy(&output.stderr).contains("alert")
}

#[test]
fn what_others_can_reach_must_be_secured() {
    let mut hosts = Hosts::new();
    hosts.configure("sslmode = \"require\"", "localhost", None);
    let text = std::fs::read_to_string(hosts.file("loxo.toml")).unwrap();
    let path = hosts.file("loxo.toml");
    let write = |from: &str, to: &str| std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
    write("[gtm]\nhost = \"127.0.0.1\"", "[gtm]\nhost = \"0.0.0.0\"");
    hosts.fails(&["gtm"], "would obey everybody");
    hosts.fails(&["check"], "would obey everybody");
    write("listen = \"127.0.0.1", "listen = \"0.0.0.0");
    hosts.fails(&["coordinator"], "without encryption");
    write("listen = \"127.0.0.1", "insecure = true\nlisten = \"0.0.0.0");
    hosts.start("coordinator");
}

fn one(client: &mut Client, sql: &str) -> String {
    client.strings(sql).unwrap().remove(0).remove(0)
}

/// A copy that belongs to whoever owns a file or directory, and is nobody else's to read.
fn copy_for(owner: &Path, from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o600)).unwrap();
    let changed = Command::new("chown").arg("--reference").arg(owner).arg(to).status().unwrap();
    assert!(changed.success());
}
