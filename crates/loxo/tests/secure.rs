//! Clients that come by TLS, to a coordinator of real servers that asks for passwords.

#[path = "live_page/http.rs"]
mod http;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use testkit::{Server, ServerOptions, TempDir};

/// A datanode, a gtm and a coordinator that takes encrypted connections only; its certificates are in a directory beside.
struct Secure {
    dir: TempDir,
    server: Server,
    daemons: Vec<Child>,
    port: u16,
}

const SOON: Duration = Duration::from_secs(30);

impl Secure {
    fn start() -> Self {
        let settings = vec![("max_prepared_transactions".to_owned(), "100".to_owned())];
        let server = Server::start(&ServerOptions { settings, ..ServerOptions::default() }).unwrap();
        let dir = TempDir::new("secure").unwrap();
        for (name, curve, hash) in [("one", "prime256v1", "sha256"), ("two", "secp384r1", "sha384")] {
            make_certificate(dir.path(), name, curve, hash);
        }
        use_certificate(dir.path(), "one");
        let port = testkit::free_ports(&[0, 1, 2]).unwrap();
        let text = format!(
            "[cluster]\nname = \"test\"\n[gtm]\nhost = \"127.0.0.1\"\nport = {}\n\
             [[coordinator]]\nname = \"coord1\"\nlisten = \"127.0.0.1:{port}\"\n\
             tls_certificate = \"server.crt\"\ntls_key = \"server.key\"\ntls_required = true\npage = \"127.0.0.1:{}\"\n\
             [[datanode]]\nname = \"dn1\"\nhost = \"127.0.0.1\"\nport = {}\n",
            port + 1,
            port + 2,
            server.port()
        );
        dir.write("loxo.toml", text.as_bytes()).unwrap();
        let mut secure = Self { dir, server, daemons: Vec::new(), port };
        let init = secure.loxo("init").output().unwrap();
        assert!(init.status.success(), "{init:?}");
        let sql = "CREATE ROLE app LOGIN PASSWORD 'it''s secret'; GRANT CREATE ON SCHEMA public TO app";
        secure.server.connect().unwrap().run(sql).unwrap();
        secure
            .daemons
            .extend(["gtm", "coordinator"].map(|what| secure.loxo(what).stderr(Stdio::null()).spawn().unwrap()));
        let since = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(since.elapsed() < SOON, "there is no coordinator");
            std::thread::sleep(Duration::from_millis(20));
        }
        secure
    }

    fn loxo(&self, what: &str) -> Command {
        let mut loxo = Command::new(env!("CARGO_BIN_EXE_loxo"));
        loxo.arg(what).arg("--config").arg(self.dir.path().join("loxo.toml"));
        loxo
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// psql with these connection options.
    fn psql(&self, options: &str, sql: &str) -> Output {
        let connection = format!("host=localhost port={} user=app dbname=postgres {options}", self.port);
        let mut psql = Command::new("psql");
        psql.env("PGPASSWORD", "it's secret").args([
            "-X",
            "-q",
            "-At",
            "-v",
            "ON_ERROR_STOP=1",
            &connection,
            "-c",
            sql,
        ]);
        psql.output().unwrap()
    }

    #[track_caller]
    fn answers(&self, options: &str, sql: &str) -> String {
        let output = self.psql(options, sql);
        assert!(output.status.success(), "{options}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[track_caller]
    fn refuses(&self, options: &str, words: &str) {
        let output = self.psql(options, "SELECT 1");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(words), "{options}: {text}");
    }

    fn root(&self, name: &str) -> String {
        format!("sslrootcert={}", self.file(&format!("{name}.crt")).display())
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Signed by itself, for localhost.
fn make_certificate(dir: &Path, name: &str, curve: &str, hash: &str) {
    let [key, certificate] = ["key", "crt"].map(|kind| dir.join(format!("{name}.{kind}")));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", &format!("ec_paramgen_curve:{curve}"), "-nodes"])
        .args(["-days", "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", &format!("-{hash}")])
        .arg("-keyout")
        .arg(key)
        .arg("-out")
        .arg(certificate)
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{made:?}");
}

fn use_certificate(dir: &Path, name: &str) {
    use std::os::unix::fs::PermissionsExt;
    for kind in ["crt", "key"] {
        std::fs::copy(dir.join(format!("{name}.{kind}")), dir.join(format!("server.{kind}"))).unwrap();
    }
    std::fs::set_permissions(dir.join("server.key"), PermissionsExt::from_mode(0o600)).unwrap();
}

#[test]
fn clients_are_encrypted_and_know_whom_they_talk_to() {
    let secure = Secure::start();
    secure.refuses("sslmode=disable", "encrypted connections only");
    assert_eq!(secure.answers("sslmode=require", "SELECT current_user"), "app");
    assert_eq!(secure.answers("sslmode=require channel_binding=require", "SELECT 1"), "1");
    assert_eq!(secure.answers("sslmode=require channel_binding=disable", "SELECT 1"), "1");
    assert_eq!(secure.answers(&format!("sslmode=verify-full {}", secure.root("one")), "SELECT 1"), "1");
    secure.refuses(&format!("sslmode=verify-full {}", secure.root("two")), "certificate verify failed");
    secure.refuses("sslmode=require password=wrong", "password authentication failed");

    let ssl = "SELECT ssl, version, cipher LIKE 'TLS_%', bits IN (128, 256), client_dn IS NULL FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert_eq!(secure.answers("sslmode=require", ssl), "t|TLSv1.3|t|t|t");
    refusals_are_those_of_one_server(&secure);

    // Many bytes in both directions, and a statement that is cancelled.
    let make = "CREATE TABLE t (k int PRIMARY KEY, v text) DISTRIBUTE BY HASH (k)";
    secure.answers("sslmode=require", make);
    let rows: String = (0..20_000).map(|k| format!("{k}\t{}\n", "x".repeat(200))).collect();
    let rows = secure.dir.write("rows", rows.as_bytes()).unwrap();
    secure.answers("sslmode=require", &format!("\\copy t FROM '{}'", rows.display()));
    let copy = secure.file("copy");
    secure.answers("sslmode=require", &format!("\\copy (SELECT * FROM t ORDER BY k) TO '{}'", copy.display()));
    assert!(std::fs::read(rows).unwrap() == std::fs::read(copy).unwrap(), "the rows are others");
    let selected = secure.answers("sslmode=require", "SELECT * FROM t");
    assert_eq!((selected.lines().count(), selected.len()), (20_000, 88_890 + 20_000 * 202 - 1));
    let slow = secure.psql("sslmode=require", "SET statement_timeout = '200ms'; SELECT pg_sleep(60)");
    assert!(String::from_utf8_lossy(&slow.stderr).contains("statement timeout"), "{slow:?}");

    // Another certificate, for clients to come.
    use_certificate(secure.dir.path(), "two");
    let pid = secure.daemons[1].id().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    let two = format!("sslmode=verify-full channel_binding=require {}", secure.root("two"));
    let since = Instant::now();
    while !secure.psql(&two, "SELECT 1").status.success() {
        assert!(since.elapsed() < SOON, "the certificate is not read again");
    }
    // One that cannot be used: what was there stays.
    std::fs::write(secure.file("server.crt"), "no certificate").unwrap();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    assert_eq!(secure.answers(&two, "SELECT 2"), "2");
}

/// Statement by statement: the datanode says the same to a client that comes to it.
fn refusals_are_those_of_one_server(secure: &Secure) {
    let hba = secure.server.data_dir().join("pg_hba.conf");
    let rules = std::fs::read_to_string(&hba).unwrap();
    std::fs::write(&hba, format!("host all app,nobody,bare 127.0.0.1/32 scram-sha-256\n{rules}")).unwrap();
    let mut datanode = secure.server.connect().unwrap();
    datanode.run("CREATE ROLE bare LOGIN; SELECT pg_reload_conf()").unwrap();
    let login = |port: u16, user: &str, password: &str| {
        let to = format!(
            "host=localhost port={port} user={user} dbname=postgres sslmode={}",
            if port == secure.port { "require" } else { "disable" }
        );
        let output = Command::new("psql").env("PGPASSWORD", password).args(["-XAt", "-c", "SELECT 1", &to]).output();
        let said = String::from_utf8(output.unwrap().stderr).unwrap();
        said.rsplit_once("FATAL: ").map(|(_, words)| words.trim().to_owned())
    };
    let since = Instant::now();
    while login(secure.server.port(), "app", "wrong").is_none() {
        assert!(since.elapsed() < SOON, "the server still trusts");
    }
    // Through the coordinator, which learns of it.
    let alter = |what: &str| {
        let to = format!("host=localhost port={} user=postgres dbname=postgres sslmode=require", secure.port);
        let sql = format!("ALTER ROLE app {what}");
        let output = Command::new("psql").env("PGPASSWORD", "root").args(["-X", "-c", &sql, &to]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    datanode.run("ALTER ROLE postgres PASSWORD 'root'").unwrap();
    for (what, back) in
        [("NOLOGIN", "LOGIN"), ("VALID UNTIL '2001-01-01'", "VALID UNTIL 'infinity'"), ("LOGIN", "LOGIN")]
    {
        alter(what);
        for (user, password) in [("app", "it's secret"), ("app", "wrong"), ("bare", "any"), ("nobody", "any")] {
            let [own, one] = [secure.port, secure.server.port()].map(|port| login(port, user, password));
            assert_eq!(own, one, "{what} {user} {password}");
        }
        alter(back);
    }
    std::fs::write(&hba, rules).unwrap();
    datanode.run("SELECT pg_reload_conf()").unwrap();
}

/// It logs in encrypted, by the password.
#[test]
fn the_live_page_asks_for_the_same_password() {
    let secure = Secure::start();
    let page = secure.port + 2;
    let since = Instant::now();
    while TcpStream::connect(("127.0.0.1", page)).is_err() {
        assert!(since.elapsed() < SOON, "there is no page");
        std::thread::sleep(Duration::from_millis(20));
    }
    let refused = http::login(page, "app", "its secret");
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (422, &serde_json::json!("28P01")), "{refused:?}");
    let app = http::User::login(page, "app", "it's secret");
    assert_eq!(app.rows("nodes")[0]["node_name"], "dn1");
    assert!(app.cookie != app.token && app.post("/api/logout", &serde_json::json!({})).status == 200);
    assert_eq!(app.get("/api/now").status, 401);
}

#[test]
fn what_comes_in_the_clear_is_never_taken_for_encrypted() {
    let secure = Secure::start();
    // SSLRequest and, in one packet with it, what a client would say only once it is encrypted.
    let mut stream = TcpStream::connect(("127.0.0.1", secure.port)).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut bytes = vec![0, 0, 0, 8, 4, 210, 22, 47];
    let startup = b"\0\x03\0\0user\0app\0database\0postgres\0\0";
    bytes.extend((startup.len() as u32 + 4).to_be_bytes());
    bytes.extend(startup);
    stream.write_all(&bytes).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    // 21: an alert of TLS.
    assert!(answer == b"S" || answer.starts_with(b"S\x15"), "{answer:?}");

    // A client that begins with TLS says by ALPN that it wants PostgreSQL.
    let s_client = |alpn: &[&str]| {
        let mut openssl = Command::new("openssl");
        openssl.args(["s_client", "-connect", &format!("127.0.0.1:{}", secure.port)]).args(alpn);
        let output = openssl.stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(s_client(&["-alpn", "postgresql"]).contains("ALPN protocol: postgresql"));
    assert!(!s_client(&["-alpn", "http/1.1"]).contains("ALPN protocol"));
    assert_eq!(secure.answers("sslmode=require", "SELECT 1"), "1");
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let mut secure = Secure::start();
    for daemon in &mut secure.daemons {
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }
    std::fs::set_permissions(secure.file("server.key"), PermissionsExt::from_mode(0o644)).unwrap();
    let output = secure.loxo("coordinator").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("chmod 0600"), "{text}");
}
