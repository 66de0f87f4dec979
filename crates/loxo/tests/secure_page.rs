//! The commands of docs/operate/secure.md, in their order, with names and ports of this machine.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::wire::Client;
use testkit::{Server, ServerOptions, TempDir};

const PAGE: &str = include_str!("../../../docs/operate/secure.md");

const SOON: Duration = Duration::from_secs(30);

/// What stands between the fences, and behind the first of them.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let parts: Vec<&str> = PAGE.split("```").collect();
    parts.chunks_exact(2).map(|pair| pair[1].split_once('\n').expect("a language and a text")).collect()
}

struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_cluster_is_secured_as_the_page_says() {
    let server = Server::start(&ServerOptions::default()).unwrap();
    // The test alone needs no password.
    std::fs::write(server.data_dir().join("pg_hba.conf"), "host all postgres 127.0.0.1/32 trust\n").unwrap();
    let dir = TempDir::new("page").unwrap();
    dir.write("password", b"it is secret\n").unwrap();
    let port = testkit::free_ports(&[0, 1]).unwrap();
    let here = |text: &str| {
        // Longer ones first: a coordinator's port is not the datanode's.
        text.replace("host = \"10.0.0.10\"\nport = 6666", &format!("host = \"127.0.0.1\"\nport = {}", port + 1))
            .replace("10.0.0.10/32 10.0.0.11/32", "127.0.0.1/32")
            .replace("10.0.0.11:5432", &format!("127.0.0.1:{port}"))
            .replace("coord1.example.com port=5432", &format!("localhost port={port}"))
            .replace("coord1.example.com:5432", &format!("localhost:{port}"))
            .replace("port = 5432", &format!("port = {}", server.port()))
            .replace("dn1.example.com coord1.example.com", "localhost")
            .replace("dn1.example.com", "localhost")
            .replace("coord1.example.com", "localhost")
    };
    let mut running = Running(Vec::new());
    for (language, text) in blocks() {
        match language {
            "toml" => drop(dir.write("loxo.toml", here(text).as_bytes()).unwrap()),
            "sh" => {
                run(dir.path(), &server, &here(text));
                if text.contains("pg_reload_conf") {
                    until("the server encrypts", || encrypts(server.port()));
                }
            }
            "sh background" => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_loxo"));
                command.args(text.split_whitespace().skip(1)).current_dir(dir.path());
                running.0.push(command.stderr(Stdio::null()).spawn().unwrap());
                let at = if text.starts_with("loxo gtm") { port + 1 } else { port };
                until(text, || TcpStream::connect(("127.0.0.1", at)).is_ok());
            }
            other => panic!("the page has a block of {other}"),
        }
    }
    let mut client = server.connect().unwrap();
    assert_eq!(client.strings("SELECT count(*) FROM t").unwrap(), [["1000"]]);
    assert_eq!(std::fs::read_to_string(dir.path().join("password")).unwrap(), "the next password\n");
    the_password_is_followed(&dir, &mut client, port);
    let plain =
        "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename <> 'postgres' AND NOT ssl";
    assert_eq!(client.strings(plain).unwrap(), [["0"]]);
}

/// Coordinator and gtm live on no connection of before, whoever changes the password first.
fn the_password_is_followed(dir: &TempDir, datanode: &mut Client, port: u16) {
    let count = |user: &str, password: &str| {
        let to = format!("host=localhost port={port} user={user} dbname=postgres sslmode=require");
        let mut psql = Command::new("psql");
        let output = psql.env("PGPASSWORD", password).args(["-XAt", "-c", "SELECT count(*) FROM t", &to]).output();
        let output = output.unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let cut_off =
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename IN ('loxo_admin', 'app')";
    let leads = "SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) \
         WHERE l.relation = 'loxo.leader'::regclass AND l.mode = 'ExclusiveLock' AND a.usename = 'loxo_admin'";
    let works = |datanode: &mut Client, password: &str| {
        until("both are let in", || {
            count("app", "choose another").trim() == "1000" && count("loxo_admin", password).trim() == "1000"
        });
        let since = Instant::now();
        while datanode.scalar(leads).unwrap() != "1" {
            assert!(since.elapsed() < SOON, "nobody leads");
        }
    };
    datanode.run(cut_off).unwrap();
    works(datanode, "the next password");

    // Past the coordinators, and the file does not have it: that is told to no client.
    datanode.run("ALTER ROLE loxo_admin PASSWORD 'a third one'").unwrap();
    datanode.run(cut_off).unwrap();
    until("clients are told", || count("app", "choose another").contains("the cluster's own role cannot log in"));
    let told = count("app", "choose another");
    assert!(!told.contains("loxo_admin") && told.contains("FATAL"), "{told}");
    let mut check = Command::new(env!("CARGO_BIN_EXE_loxo"));
    let check = check.args(["check", "--config", "loxo.toml"]).current_dir(dir.path()).output().unwrap();
    let check = String::from_utf8(check.stdout).unwrap();
    assert!(
        check.contains("password authentication failed") && check.contains("The server runs. password_file"),
        "{check}"
    );
    dir.write("password", b"a third one\n").unwrap();
    works(datanode, "a third one");
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < SOON, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Asks for encryption, and gives up.
fn encrypts(port: u16) -> bool {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).is_ok() && answer == *b"S"
}

/// As a shell would that stops at the first error.
fn run(dir: &Path, server: &Server, text: &str) {
    let loxo = Path::new(env!("CARGO_BIN_EXE_loxo")).parent().unwrap();
    let path = format!("{}:{}", loxo.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", text]).current_dir(dir).env("PATH", path);
    shell.env("PGDATA", server.data_dir()).envs([
        ("PGHOST", "127.0.0.1"),
        ("PGUSER", "postgres"),
        ("PGDATABASE", "postgres"),
    ]);
    let output = shell.env("PGPORT", server.port().to_string()).output().unwrap();
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&said));
}
