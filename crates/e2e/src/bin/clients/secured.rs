//! A server, and a coordinator of two more of them, that take encrypted connections only and ask for passwords.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pgerror::{PgError, Result};
use testkit::{Server, ServerOptions, TempDir, free_ports, loxo_binary, pg_program};

const SOON: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Certificates for localhost: of an authority, which the programs know, and of another one, which has signed nothing.
const CERTIFICATES: &str = r"
set -e
key() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout $1.key -subj /CN=$2 ${@:3}; }
for name in root other; do key $name $name -x509 -days 30 -out $name.crt; done
key server localhost -addext subjectAltName=DNS:localhost -out server.csr
openssl x509 -req -in server.csr -copy_extensions copy -CA root.crt -CAkey root.key -CAcreateserial -days 30 -out server.crt
chmod 0600 server.key
";
const ROLE: &str = "CREATE ROLE app LOGIN PASSWORD 'secret'; GRANT ALL ON SCHEMA public TO app";
const RULES: &str = "host all postgres 127.0.0.1/32 trust\nhostssl all app 127.0.0.1/32 scram-sha-256\n";

/// All of them end when it is dropped.
pub struct Secured {
    dir: TempDir,
    server: Server,
    _datanodes: [Server; 2],
    daemons: Vec<Child>,
    port: u16,
}

impl Secured {
    /// Makes the certificates, starts all.
    pub fn start() -> Result<Self> {
        let dir = TempDir::new("secured")?;
        run(Command::new("bash").args(["-c", CERTIFICATES]).current_dir(dir.path()))?;
        let [server, one, two] = [encrypted(dir.path())?, encrypted(dir.path())?, encrypted(dir.path())?];
        server.connect()?.run(ROLE)?;
        let port = free_ports(&[0, 1])?;
        dir.write("loxo.toml", configuration(port, [&one, &two]).as_bytes())?;
        let mut secured = Self { dir, server, _datanodes: [one, two], daemons: Vec::new(), port };
        run(&mut secured.loxo("init")?)?;
        secured.start_daemon("gtm", port + 1)?;
        secured.start_daemon("coordinator", port)?;
        let mut root = Command::new(pg_program("psql")?);
        let to = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres sslmode=require");
        run(root.args(["-X", "-v", "ON_ERROR_STOP=1", "-c", ROLE, &to]))?;
        Ok(secured)
    }

    /// Of the server and of the coordinator.
    pub fn uris(&self) -> [String; 2] {
        let authority = self.dir.path().join("root.crt");
        let uri = |port| {
            format!(
                "postgresql://app:secret@localhost:{port}/postgres?sslmode=verify-full&sslrootcert={}",
                authority.display()
            )
        };
        [self.server.port(), self.port].map(uri)
    }

    fn loxo(&self, what: &str) -> Result<Command> {
        let mut loxo = Command::new(loxo_binary()?);
        loxo.arg(what).arg("--config").arg(self.dir.path().join("loxo.toml"));
        Ok(loxo)
    }

    fn start_daemon(&mut self, what: &str, port: u16) -> Result<()> {
        let daemon = self.loxo(what)?.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        self.daemons.push(daemon);
        until(what, || TcpStream::connect(("127.0.0.1", port)).is_ok())
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// A server with its certificate.
fn encrypted(certificates: &Path) -> Result<Server> {
    let server = Server::start(&ServerOptions::default())?;
    let data = server.data_dir();
    for name in ["server.crt", "server.key"] {
        let to = data.join(name);
        std::fs::copy(certificates.join(name), &to)?;
        run(Command::new("chown").arg("--reference").arg(&data).arg(&to))?;
    }
    std::fs::write(data.join("pg_hba.conf"), RULES)?;
    let mut client = server.connect()?;
    client.run("ALTER SYSTEM SET ssl = on")?;
    client.run("SELECT pg_reload_conf()")?;
    let port = server.port();
    let to = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres sslmode=require");
    let psql = pg_program("psql")?;
    until("a server that encrypts", || run(Command::new(&psql).args(["-X", "-c", "SELECT 1", &to])).is_ok())?;
    Ok(server)
}

fn configuration(port: u16, datanodes: [&Server; 2]) -> String {
    let mut text = format!(
        "[cluster]\nname = \"secured\"\nsslmode = \"verify-full\"\nsslrootcert = \"root.crt\"\n\
         [gtm]\nhost = \"127.0.0.1\"\nport = {}\n\
         [[coordinator]]\nname = \"coord1\"\nlisten = \"127.0.0.1:{port}\"\n\
         tls_certificate = \"server.crt\"\ntls_key = \"server.key\"\n",
        port + 1
    );
    for (kind, user, method) in [("host", "postgres", "trust"), ("hostssl", "app", "scram-sha-256")] {
        text += &format!(
            "[[hba]]\ntype = \"{kind}\"\ndatabase = \"all\"\nuser = \"{user}\"\naddress = \"127.0.0.1/32\"\nmethod = \"{method}\"\n"
        );
    }
    for (at, node) in datanodes.iter().enumerate() {
        text += &format!("[[datanode]]\nname = \"dn{at}\"\nhost = \"localhost\"\nport = {}\n", node.port());
    }
    text
}

fn until(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    let since = Instant::now();
    while !is_so() {
        if since.elapsed() > SOON {
            return Err(PgError::internal(format!("not in time: {what}")));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or_else(|| PgError::internal(format!("{command:?}: {}", said())))
}
