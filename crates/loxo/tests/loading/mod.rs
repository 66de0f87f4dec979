//! What tests of `loxo load` and `loxo unload` share.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use testkit::wire::Client;
use testkit::{Cluster, TempDir};

/// One cluster for all tests that break nothing; each has tables of its own.
pub fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::start(2, 2).unwrap())
}

pub fn load_command(cluster: &Cluster, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loxo"));
    command.args(arguments).arg("--dir").arg(cluster.dir());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn load(arguments: &[&str]) -> Output {
    let arguments = [&["load", "--quiet"], arguments].concat();
    load_command(cluster(), &arguments).output().unwrap()
}

#[track_caller]
pub fn loads(arguments: &[&str]) -> String {
    let output = load(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
pub fn fails_saying(arguments: &[&str], words: &[&str]) {
    let output = load(arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
    for word in words {
        assert!(text.contains(word), "{arguments:?}: \"{word}\" is not in: {text}");
    }
}

pub fn client() -> Client {
    cluster().connect(0).unwrap()
}

pub fn write(dir: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path: PathBuf = dir.write(name, bytes.as_ref()).unwrap();
    path.to_str().unwrap().to_owned()
}

pub fn pid_of(cluster: &Cluster, name: &str) -> String {
    let status = load_command(cluster, &["status", "--json"]).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let parts = status["processes"].as_array().unwrap();
    parts.iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("no {name} in {status}"))["pid"].to_string()
}

#[track_caller]
pub fn wait_until(child: &mut Child, what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() && !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
