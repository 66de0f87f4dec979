//! `loxo deploy` to three hosts over ssh: from nothing, again, after kills, with more in the inventory; and what it refuses. The first
//! deployment is docs/operate/deploy.md's, with its inventory and its commands.

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};

#[path = "deploy/booted.rs"]
mod booted;
#[path = "deploy/hosts.rs"]
mod hosts;

use hosts::{Hosts, said};

const PAGE: &str = include_str!("../../../docs/operate/deploy.md");
const ADDRESSES: [&str; 3] = ["10.0.0.10", "10.0.0.21", "10.0.0.22"];
const SOON: Duration = Duration::from_secs(120);

/// The page's blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    PAGE.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// The page's inventory, with what is this test's: keys, and a directory for each host.
fn inventory(hosts: &Hosts) -> String {
    let options = |option: &str, file: &str| format!("\"{option}={}\"", hosts.path(file).display());
    let options = [options("IdentityFile", "key"), options("UserKnownHostsFile", "known_hosts")].join(", ");
    let mut text = blocks("toml")[0].replace("user = \"root\"", &format!("user = \"root\"\noptions = [{options}]"));
    // These hosts have none of their own, whatever the machine has.
    text = text.replace("name = \"sales\"", "name = \"sales\"\nsystemd = false");
    for address in ADDRESSES {
        let directory = hosts.path(address).join("loxo");
        let line = format!("address = \"{address}\"\n");
        assert!(text.contains(&line), "the page has other hosts");
        text = text.replace(&line, &format!("{line}directory = \"{}\"\n", directory.display()));
    }
    text
}

/// Runs `loxo deploy`; while it runs, looks at all command lines for what is secret.
fn deploy(hosts: &Hosts, text: &str, arguments: &[&str]) -> std::process::Output {
    std::fs::write(hosts.path("hosts.toml"), text).unwrap();
    let mut command = hosts.admin(env!("CARGO_BIN_EXE_loxo"));
    command.args(["deploy", "--inventory", "hosts.toml"]).args(arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let waiting = std::thread::spawn(move || child.wait_with_output().unwrap());
    while !waiting.is_finished() {
        if let Some(password) = password(hosts) {
            assert_eq!(shown_in_processes(&password), None, "while {pid} runs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = waiting.join().unwrap();
    if let Some(password) = password(hosts) {
        for text in [&output.stdout, &output.stderr] {
            assert!(!String::from_utf8_lossy(text).contains(&password), "the password is shown");
        }
    }
    output
}

fn password(hosts: &Hosts) -> Option<String> {
    let text = std::fs::read_to_string(hosts.path("hosts.d/password")).ok()?;
    text.lines().next().map(str::to_owned)
}

/// A command line with the text.
fn shown_in_processes(text: &str) -> Option<String> {
    let lines = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).into_owned())
    });
    lines.into_iter().find(|line| line.contains(text))
}

/// A statement's rows, by a coordinator that proves who it is, asked from a host.
fn query(hosts: &Hosts, from: usize, coordinator: &str, sql: &str) -> String {
    let mut psql = hosts.on(from, testkit::pg_program("psql").unwrap().to_str().unwrap());
    let authority = hosts.path("hosts.d/ca.crt");
    psql.args(["-XAtc", sql]).arg(format!(
        "host={coordinator} user=postgres dbname=postgres sslmode=verify-full channel_binding=require sslrootcert={}",
        authority.display()
    ));
    psql.env("PGPASSWORD", password(hosts).unwrap());
    said(&psql.output().unwrap(), 0).trim().to_owned()
}

fn nothing_is_written(hosts: &Hosts) {
    assert!(!hosts.path("hosts.d").exists());
    for at in 0..ADDRESSES.len() {
        assert!(!hosts.home(at).parent().unwrap().exists(), "{}", hosts.address(at));
    }
}

/// What cannot be deployed is said before anything is written.
fn refusals(hosts: &Hosts, inventory: &str) {
    let refused = |from: &str, to: &str, words: &[&str]| {
        assert!(inventory.contains(from), "{from}");
        let text = said(&deploy(hosts, &inventory.replace(from, to), &[]), 1);
        for word in words {
            assert!(text.contains(word), "\"{word}\" is not in: {text}");
        }
        nothing_is_written(hosts);
    };
    refused("known_hosts", "other_hosts", &["10.0.0.", "cannot be reached by ssh", "Host key verification failed"]);
    refused("address = \"10.0.0.22\"", "address = \"10.0.0.99\"", &["the host 10.0.0.99 cannot be reached by ssh"]);
    let nowhere = "name = \"sales\"\npg_bin = \"/nowhere/bin\"";
    refused("name = \"sales\"", nowhere, &["10.0.0.21: no PostgreSQL is installed", "apt install postgresql"]);
    refused("[ssh]", "[ports]\ncoordinator = 22\n[ssh]", &["10.0.0.10: port 22, for coord1, is in use"]);
    let (own, foreign) = (hosts.path("10.0.0.22/loxo"), hosts.path("10.0.0.22"));
    std::fs::write(foreign.join("precious"), "").unwrap();
    let directory = format!("directory = \"{}\"", own.display());
    refused(&directory, &format!("directory = \"{}\"", foreign.display()), &["holds something else: precious"]);
    std::fs::remove_file(foreign.join("precious")).unwrap();
    // Another user, who could put another program where root runs it.
    chown(&foreign, Some(65534), None).unwrap();
    refused("[ssh]", "[ssh]", &["10.0.0.22: another user could replace the program", "belongs to the user 65534"]);
    chown(&foreign, Some(0), None).unwrap();
}

/// Kills a deployment when a host has begun to make its datanode.
fn interrupted(hosts: &Hosts, inventory: &str) {
    std::fs::write(hosts.path("hosts.toml"), inventory).unwrap();
    let mut command = hosts.admin(env!("CARGO_BIN_EXE_loxo"));
    let mut child = command.args(["deploy", "--inventory", "hosts.toml"]).stderr(Stdio::null()).spawn().unwrap();
    let begun = || ["dn1.new", "dn1"].iter().any(|name| hosts.home(1).join(name).exists());
    until("a datanode is made", begun);
    child.kill().unwrap();
    child.wait().unwrap();
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < SOON, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The page's commands.
fn deploy_as_the_page_does(hosts: &Hosts) {
    let program = Path::new(env!("CARGO_BIN_EXE_loxo")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    for block in blocks("sh") {
        let mut shell = hosts.admin("bash");
        let output = shell.args(["-euo", "pipefail", "-c", block]).env("PATH", &path).output().unwrap();
        said(&output, 0);
    }
}

/// Servers, gtms and coordinators of all hosts.
fn pids(hosts: &Hosts) -> BTreeSet<i32> {
    let is_main =
        |line: &str| line.contains("/postgres -D") || line.contains("/loxo gtm") || line.contains("/loxo coordinator");
    let all = (0..ADDRESSES.len()).flat_map(|at| hosts.processes(at));
    all.filter(|(_, line)| is_main(line)).map(|(pid, _)| pid).collect()
}

fn kill(hosts: &Hosts, at: usize, words: &str) {
    let found = hosts.processes(at).into_iter().find(|(_, line)| line.contains(words));
    let pid = found.unwrap_or_else(|| panic!("{words} does not run: {:?}", hosts.processes(at))).0;
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    until("it is dead", || hosts.processes(at).iter().all(|(other, _)| *other != pid));
}

/// Everything secret is closed to others, and only where it is needed.
fn secrets_are_kept(hosts: &Hosts) {
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let homes: Vec<_> = (0..ADDRESSES.len()).map(|at| hosts.home(at)).collect();
    for dir in homes.iter().chain([&hosts.path("hosts.d")]) {
        assert_eq!(mode(dir), 0o700, "{}", dir.display());
        let secrets = files(dir).into_iter().filter(|path| {
            path.extension().is_some_and(|kind| kind == "key")
                || path.file_name().is_some_and(|name| name == "password")
        });
        let secrets: Vec<_> = secrets.collect();
        assert!(!secrets.is_empty(), "{}", dir.display());
        for path in secrets {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
    }
    let names = |at: usize| -> BTreeSet<String> {
        let name = |path: std::path::PathBuf| path.strip_prefix(&homes[at]).unwrap().to_str().unwrap().to_owned();
        let is_ours = |name: &String| name.ends_with(".key") || name == "password";
        files(&homes[at]).into_iter().map(name).filter(is_ours).collect()
    };
    let expected = ["password", "servers/coord1.key", "tls/coord1.key", "tls/gtm.key"];
    assert_eq!(names(0), expected.map(str::to_owned).into());
    assert_eq!(names(1), ["dn1/server.key".to_owned()].into());
    let password = password(hosts).unwrap();
    for path in homes.iter().flat_map(|home| files(&home.join("log"))) {
        let log = std::fs::read(&path).unwrap();
        assert!(!String::from_utf8_lossy(&log).contains(&password), "{}", path.display());
    }
}

/// All files below, but those of data directories' own folders.
fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        let is_servers = dir.join("PG_VERSION").exists();
        match entry.is_dir() {
            true if !is_servers => found.extend(files(&entry)),
            true => {}
            false => found.push(entry),
        }
    }
    found
}

#[test]
fn a_cluster_is_deployed_and_looked_after_over_ssh() {
    if let Some(why) = hosts::missing() {
        eprintln!("SKIPPED: {why}");
        return;
    }
    let hosts = Hosts::new(&ADDRESSES);
    let first = inventory(&hosts);
    refusals(&hosts, &first);
    let text = said(&deploy(&hosts, &first, &["--dry-run"]), 0);
    assert!(text.contains("10.0.0.22: dn2 would be made and started"), "{text}");
    nothing_is_written(&hosts);

    interrupted(&hosts, &first);
    deploy_as_the_page_does(&hosts);
    let rows = |from, coordinator| query(&hosts, from, coordinator, "SELECT count(*), sum(k) FROM t");
    assert_eq!(rows(2, "10.0.0.10"), "1000|500500");
    let mut plain = hosts.on(2, testkit::pg_program("psql").unwrap().to_str().unwrap());
    plain.args(["-Xc", "SELECT 1", "host=10.0.0.10 user=postgres dbname=postgres sslmode=disable"]);
    let refused = said(&plain.env("PGPASSWORD", password(&hosts).unwrap()).output().unwrap(), 2);
    assert!(refused.to_lowercase().contains("encrypt") || refused.contains("SSL"), "{refused}");
    secrets_are_kept(&hosts);

    let before = pids(&hosts);
    assert_eq!(before.len(), 4, "{before:?}");
    let text = said(&deploy(&hosts, &first, &[]), 0);
    assert!(text.contains("nothing was to be done"), "{text}");
    assert!(text.contains("nothing starts the processes of 10.0.0.10, 10.0.0.21, 10.0.0.22 after a reboot"), "{text}");
    assert_eq!(pids(&hosts), before);

    kill(&hosts, 1, "/postgres -D");
    kill(&hosts, 0, "/loxo coordinator");
    let text = said(&deploy(&hosts, &first, &[]), 0);
    assert!(text.contains("changed: coord1, dn1\n"), "{text}");
    assert!(text.contains("10.0.0.21: dn1: started") && text.contains("10.0.0.10: coord1: started"), "{text}");
    assert_eq!(rows(2, "10.0.0.10"), "1000|500500");

    files_are_read(&hosts, &first);
    more_of_each(&hosts, &first);
    less_is_refused(&hosts, &first);

    let text = said(&deploy(&hosts, &larger(&first), &["--stop"]), 0);
    assert!(text.contains("changed: coord1, coord2, dn1, dn2, dn3, gtm, gtm2\n"), "{text}");
    let left: Vec<_> = (0..ADDRESSES.len()).flat_map(|at| hosts.processes(at)).collect();
    assert_eq!(left, [], "something still runs");
}

/// What a step that died has written but had nobody read, and settings that no server takes.
fn files_are_read(hosts: &Hosts, first: &str) {
    let config = hosts.home(1).join("dn1/postgresql.conf");
    std::fs::File::options().write(true).open(config).unwrap().set_modified(SystemTime::now()).unwrap();
    let owed = hosts.home(0).join("reload.owed");
    std::fs::write(&owed, "").unwrap();
    let text = said(&deploy(hosts, first, &[]), 0);
    assert!(text.contains("dn1: reads changed files") && text.contains("coord1: reads changed files"), "{text}");
    assert!(text.contains("changed: coord1, dn1, gtm\n") && !owed.exists(), "{text}");
    let wrong =
        [("nonsense", "1", "unrecognized configuration parameter"), ("work_mem", "lots", "could not be applied")];
    for (name, value, why) in wrong {
        let set = first.replace("[ssh]", &format!("[set]\n{name} = \"{value}\"\n[ssh]"));
        // The second call finds the files as they should be.
        for _ in 0..2 {
            let text = said(&deploy(hosts, &set, &[]), 1);
            assert!(text.contains("does not take its settings") && text.contains(name) && text.contains(why), "{text}");
        }
    }
    let text = said(&deploy(hosts, first, &[]), 0);
    assert!(text.contains("dn1: reads changed files") && text.contains("dn2: reads changed files"), "{text}");
    let text = said(&deploy(hosts, first, &[]), 0);
    assert!(text.contains("nothing was to be done"), "{text}");
}

/// A second coordinator and gtm, and a third datanode, on hosts there are.
fn larger(first: &str) -> String {
    let text = first.replace("datanodes = [\"dn1\"]", "datanodes = [\"dn1\", \"dn3\"]");
    text.replace("datanodes = [\"dn2\"]", "datanodes = [\"dn2\"]\ncoordinator = \"coord2\"\ngtm = true")
}

fn more_of_each(hosts: &Hosts, first: &str) {
    let before = pids(hosts);
    let text = said(&deploy(hosts, &larger(first), &[]), 0);
    assert!(text.contains("10.0.0.22: coord2: started") && text.contains("dn3: a datanode of the cluster"), "{text}");
    let after = pids(hosts);
    assert!(after.is_superset(&before) && after.len() == before.len() + 3, "{before:?} {after:?}");
    assert_eq!(query(hosts, 0, "10.0.0.22", "SELECT count(*), sum(k) FROM t"), "1000|500500");
    let nodes = "SELECT string_agg(node_name, ' ' ORDER BY node_name) FROM pgxc_node";
    assert_eq!(query(hosts, 0, "10.0.0.22", nodes), "coord1 coord2 dn1 dn2 dn3");
    let text = said(&deploy(hosts, &larger(first), &[]), 0);
    assert!(text.contains("nothing was to be done"), "{text}");
}

fn less_is_refused(hosts: &Hosts, first: &str) {
    let before = pids(hosts);
    let text = said(&deploy(hosts, first, &[]), 1);
    assert!(text.contains("the datanode dn3 is part of the cluster, but not of the inventory"), "{text}");
    assert!(text.contains("loxo node remove dn3"), "{text}");
    // The directory of a host that has lost its disk.
    let (data, aside) = (hosts.home(1).join("dn3"), hosts.home(1).join("aside"));
    std::fs::rename(&data, &aside).unwrap();
    let text = said(&deploy(hosts, &larger(first), &[]), 1);
    assert!(text.contains("the data directory of datanode dn3 is missing"), "{text}");
    std::fs::rename(&aside, &data).unwrap();
    // Somebody else's inventory.
    std::fs::rename(hosts.path("hosts.d"), hosts.path("kept")).unwrap();
    let text = said(&deploy(hosts, first, &[]), 1);
    assert!(text.contains("deployed by another inventory"), "{text}");
    let text = said(&deploy(hosts, &larger(first), &["--stop"]), 1);
    assert!(text.contains("deployed by another inventory") && text.contains("nothing was stopped"), "{text}");
    assert!(!hosts.path("hosts.d").exists());
    std::fs::rename(hosts.path("kept"), hosts.path("hosts.d")).unwrap();
    // Who has lost the configuration does not know what the cluster has.
    let (config, aside) = (hosts.path("hosts.d/loxo.toml"), hosts.path("aside.toml"));
    std::fs::rename(&config, &aside).unwrap();
    for arguments in [&[][..], &["--stop"]] {
        let text = said(&deploy(hosts, &larger(first), arguments), 1);
        assert!(text.contains("is missing, and the cluster exists") && text.contains("is a copy"), "{text}");
    }
    assert!(!config.exists());
    std::fs::rename(&aside, &config).unwrap();
    assert_eq!(pids(hosts), before);
}

/// Of the page's inventory, as a check that the two fit each other.
#[test]
fn the_page_has_an_inventory_and_the_commands() {
    assert_eq!((blocks("toml").len(), blocks("sh").len()), (1, 2));
    let help = Command::new(env!("CARGO_BIN_EXE_loxo")).args(["deploy", "--help"]).output().unwrap();
    let help = said(&help, 0);
    for word in ["--inventory", "--dry-run", "--stop"] {
        assert!(help.contains(word) && PAGE.contains(word), "{word}");
    }
}
