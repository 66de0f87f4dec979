//! `[[hba]]`: the first rule that fits a client decides, and how he proves who he is.

#[path = "secure_links/pki.rs"]
mod pki;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pki::Authority;
use testkit::{Server, ServerOptions, TempDir};
use tokio::net::{TcpListener, TcpSocket};

const SOON: Duration = Duration::from_secs(30);

const RULES: &str = r#"
[[hba]]
type = "host"
database = "all"
user = ["mallory", "postgres", "long_long_long_long_long_long_long_long_long_long_long_long_nam"]
address = "all"
method = "reject"
[[hba]]
type = "hostssl"
database = "postgres"
user = "+staff"
address = "127.0.0.0/8"
method = "cert"
[[hba]]
type = "hostssl"
database = "all"
user = "reports"
address = "samehost"
method = "cert"
map = "programs"
[[hba]]
type = "hostssl"
database = "all"
user = "audit"
address = "samehost"
method = "cert"
map = "subjects"
clientname = "DN"
[[hba]]
type = "hostssl"
database = "all"
user = ["app", "guessed"]
address = "127.0.0.0/8"
method = "scram-sha-256"
[[map]]
name = "programs"
certificate = "ann"
user = "reports"
[[map]]
name = "subjects"
certificate = 'DISTINGUISHED'
user = "audit"
"#;

/// All that RFC 2253 writes in another way, and as openssl writes it.
const SUBJECT: &str = r#"/DC=org/C=DE/O=A, "B" \+ <C>;/OU=#7+UID=7/emailAddress=a@b.c/CN= Änn 中\\ "#;

struct Ruled {
    dir: TempDir,
    _server: Server,
    daemons: Vec<Child>,
    port: u16,
    /// [`SUBJECT`] as openssl writes it.
    distinguished: String,
}

impl Ruled {
    fn start() -> Self {
        let server = Server::start(&ServerOptions::default()).unwrap();
        let dir = TempDir::new("rules").unwrap();
        let authority = Authority::new(dir.path(), "root");
        authority.issue("server", "DNS:localhost", 30);
        ["ann", "bob"].iter().for_each(|name| authority.issue(name, "", 30));
        authority.issue("late", "", -1);
        let distinguished = issue_by_subject(dir.path());
        Authority::new(dir.path(), "other").issue("foreign", "", 30);
        let roles = "CREATE ROLE staff; CREATE ROLE ann LOGIN IN ROLE staff; CREATE ROLE bob LOGIN; CREATE ROLE reports LOGIN; \
                     CREATE ROLE mallory LOGIN PASSWORD 'secret'; CREATE ROLE app LOGIN PASSWORD 'secret'; \
                     CREATE ROLE audit LOGIN; CREATE ROLE guessed LOGIN PASSWORD 'secret'";
        server.connect().unwrap().run(roles).unwrap();
        let port = testkit::free_ports(&[0, 1, 2]).unwrap();
        let base = format!(
            "[cluster]\nname = \"test\"\n[gtm]\nhost = \"127.0.0.1\"\nport = {}\n\
             [[coordinator]]\nname = \"coord1\"\nlisten = \"0.0.0.0:{port}\"\n\
             tls_certificate = \"server.crt\"\ntls_key = \"server.key\"\ntls_client_ca = \"root.crt\"\ntls_required = true\n\
             failed_logins_max = 4\nmetrics = \"127.0.0.1:{}\"\n\
             [[datanode]]\nname = \"dn1\"\nhost = \"127.0.0.1\"\nport = {}\n",
            port + 1,
            port + 2,
            server.port()
        );
        dir.write("base.toml", base.as_bytes()).unwrap();
        let mut ruled = Self { dir, _server: server, daemons: Vec::new(), port, distinguished };
        ruled.rule(RULES);
        assert!(ruled.loxo("init").output().unwrap().status.success());
        let log = std::fs::File::create(ruled.file("log")).unwrap();
        ruled.daemons.push(ruled.loxo("gtm").stderr(Stdio::null()).spawn().unwrap());
        ruled.daemons.push(ruled.loxo("coordinator").stderr(log).spawn().unwrap());
        until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        ruled
    }

    fn rule(&self, rules: &str) {
        let base = std::fs::read_to_string(self.file("base.toml")).unwrap();
        std::fs::write(self.file("loxo.toml"), base + &rules.replace("DISTINGUISHED", &self.distinguished)).unwrap();
    }

    fn read_again(&self) {
        assert!(Command::new("kill").args(["-HUP", &self.daemons[1].id().to_string()]).status().unwrap().success());
    }

    fn loxo(&self, what: &str) -> Command {
        let mut loxo = Command::new(env!("CARGO_BIN_EXE_loxo"));
        loxo.arg(what).arg("--config").arg(self.file("loxo.toml"));
        loxo
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn psql(&self, user: &str, options: &str) -> Output {
        self.asks(user, options, "SELECT current_user")
    }

    fn asks(&self, user: &str, options: &str, sql: &str) -> Output {
        // What comes last counts.
        let connection = format!("host=127.0.0.1 port={} user={user} dbname=postgres {options}", self.port);
        let mut psql = Command::new("psql");
        psql.env("PGPASSWORD", "secret").current_dir(self.dir.path());
        psql.args(["-X", "-q", "-At", &connection, "-c", sql]).output().unwrap()
    }

    #[track_caller]
    fn admits(&self, user: &str, options: &str) {
        let output = self.psql(user, options);
        assert!(output.status.success(), "{user} {options}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), user);
    }

    #[track_caller]
    fn refuses(&self, user: &str, options: &str, words: &str) {
        let output = self.psql(user, options);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(words), "{user} {options}: {text}");
    }
}

impl Drop for Ruled {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < SOON, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

const REQUEST: &str = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
const SIGN: &str = "x509 -req -CA root.crt -CAkey root.key -CAcreateserial -copy_extensions copy -days 30";

fn openssl(dir: &Path, arguments: &str, more: &[&str]) -> String {
    let mut openssl = Command::new("openssl");
    let output = openssl.args(arguments.split(' ')).args(more).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Of ann, without extensions.
fn old_certificate(ruled: &Ruled) {
    openssl(ruled.dir.path(), REQUEST, &["-subj", "/CN=ann", "-keyout", "old.key", "-out", "old.csr"]);
    openssl(ruled.dir.path(), SIGN, &["-in", "old.csr", "-out", "old.crt"]);
}

/// Gives the subject as RFC 2253 has it.
fn issue_by_subject(dir: &Path) -> String {
    let subject = ["-utf8", "-multivalue-rdn", "-subj", SUBJECT, "-addext", "keyUsage=digitalSignature"];
    openssl(dir, REQUEST, &[&subject[..], &["-keyout", "subject.key", "-out", "subject.csr"]].concat());
    openssl(dir, SIGN, &["-in", "subject.csr", "-out", "subject.crt"]);
    let shown = openssl(dir, "x509 -in subject.crt -noout -subject -nameopt RFC2253", &[]);
    shown.strip_prefix("subject=").unwrap().trim_end_matches('\n').to_owned()
}

/// A port that leads to another one; who connects to it comes from 127.0.0.2.
async fn leads_from_elsewhere(listener: TcpListener, port: u16) {
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let mut coordinator = socket.connect(([127, 0, 0, 1], port).into()).await.unwrap();
        // Whoever hangs up first.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut coordinator).await;
    }
}

/// From one address, and the user comes from another one.
fn guesses_are_few(ruled: &Ruled) {
    let guess = || ruled.refuses("guessed", "sslmode=require password=guess", "password authentication failed");
    (0..3).for_each(|_| guess());
    let since = Instant::now();
    guess();
    assert!(since.elapsed() > Duration::from_secs(1), "it is delayed");
    let told = "too many failed logins of user \"guessed\" from 127.0.0.1\nHINT:  Try again in ";
    ruled.refuses("guessed", "sslmode=require", told);
    ruled.refuses("guessed", "sslmode=require password=guess", told);
    ruled.admits("app", "sslmode=require");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let elsewhere = listener.local_addr().unwrap().port();
    runtime.spawn(leads_from_elsewhere(listener, ruled.port));
    ruled.admits("guessed", &format!("sslmode=require port={elsewhere}"));
    let log = std::fs::read_to_string(ruled.file("log")).unwrap();
    assert!(log.contains("too many logins have failed: further ones are refused"), "{log}");
    let mut figures = TcpStream::connect(("127.0.0.1", ruled.port + 2)).unwrap();
    figures.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    figures.read_to_string(&mut page).unwrap();
    for line in ["loxo_logins_held_total{how=\"delayed\"} 1\n", "loxo_logins_held_total{how=\"refused\"} 2\n"] {
        assert!(page.contains(line), "{page}");
    }
}

fn with(name: &str) -> String {
    format!("sslmode=require sslcert={name}.crt sslkey={name}.key")
}

#[test]
fn the_first_rule_that_fits_decides() {
    let ruled = Ruled::start();
    ruled.admits("app", "sslmode=require");
    let words = "no pg_hba.conf entry for host \"127.0.0.1\", user \"app\", database \"postgres\", no encryption";
    ruled.refuses("app", "sslmode=disable", words);
    ruled.refuses("app", "sslmode=require password=wrong", "password authentication failed");
    ruled.refuses(
        "mallory",
        "sslmode=require",
        "pg_hba.conf rejects connection for host \"127.0.0.1\", user \"mallory\"",
    );
    // A rule comes before the coordinator's wish for encryption.
    ruled.refuses("mallory", "sslmode=disable", "pg_hba.conf rejects connection");
    ruled.refuses("nobody", "sslmode=require", "no pg_hba.conf entry");
    // PostgreSQL cuts what is longer than a name can be.
    let long = "long_long_long_long_long_long_long_long_long_long_long_long_nam";
    ruled.refuses(&format!("{long}e"), "sslmode=require", "pg_hba.conf rejects connection");

    // By certificates; a member of the role.
    ruled.admits("ann", &with("ann"));
    ruled.refuses("ann", "sslmode=require", "connection requires a valid client certificate");
    ruled.refuses("ann", &with("bob"), "certificate authentication failed for user \"ann\"");
    ruled.refuses("bob", &with("bob"), "no pg_hba.conf entry");
    ruled.refuses("ann", &with("late"), "alert");
    ruled.refuses("ann", &with("foreign"), "alert");
    old_certificate(&ruled);
    ruled.refuses("ann", &with("old"), "alert");
    // The client hears its alert before the coordinator writes its line.
    until("the log says how to make it", || {
        std::fs::read_to_string(ruled.file("log"))
            .unwrap()
            .contains("it is a certificate of version 1; make it with extensions")
    });
    let shown = "SELECT ssl, client_dn, client_serial > 0, issuer_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let output = ruled.asks("ann", &with("ann"), shown);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "t|/O=test/CN=ann|t|/O=test/CN=root", "{output:?}");
    // By a map.
    ruled.admits("reports", &with("ann"));
    ruled.refuses("reports", &with("bob"), "certificate authentication failed");
    ruled.admits("audit", &with("subject"));
    ruled.refuses("audit", &with("ann"), "certificate authentication failed");
    guesses_are_few(&ruled);

    // Other rules, for clients to come.
    ruled.rule(&RULES.replace("\"+staff\"", "\"bob\""));
    ruled.read_again();
    until("bob is let in", || ruled.psql("bob", &with("bob")).status.success());
    ruled.refuses("ann", &with("ann"), "no pg_hba.conf entry");
    // A file with a mistake: the rules that were there stay.
    ruled.rule(&RULES.replace("\"+staff\"", "\"/regular expression\""));
    ruled.read_again();
    until("it is in the log", || {
        std::fs::read_to_string(ruled.file("log")).unwrap().contains("what was read before stays")
    });
    ruled.admits("bob", &with("bob"));
    // One that trusts everybody on loopback addresses has it listen there, and nowhere else.
    let base = std::fs::read_to_string(ruled.file("base.toml")).unwrap();
    let trusting = base.replace("0.0.0.0", "127.0.0.1").replace("tls_certificate", "auth = \"trust\"\ntls_certificate");
    std::fs::write(ruled.file("loxo.toml"), trusting).unwrap();
    ruled.read_again();
    until("it is in the log", || {
        let here = format!("clients come to 127.0.0.1:{} from here on", ruled.port);
        std::fs::read_to_string(ruled.file("log")).unwrap().contains(&here)
    });
    assert!(TcpStream::connect(("127.0.0.2", ruled.port)).is_err(), "it listens to others");
    until("ann is trusted", || ruled.psql("ann", "sslmode=require").status.success());
    // And back: who comes from elsewhere is asked for a certificate.
    ruled.rule(RULES);
    ruled.read_again();
    until("it listens to others", || TcpStream::connect(("127.0.0.2", ruled.port)).is_ok());
    ruled.refuses("ann", "sslmode=require", "");
    ruled.admits("ann", &with("ann"));
    ruled.rule(&RULES.replace("\"+staff\"", "\"/regular expression\""));
    let output = ruled.loxo("check").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("rule 2 of [[hba]]"), "{output:?}");
}
