//! Hosts that systemd runs: it starts what was deployed when they start, and what has died.

use super::hosts::{self, Hosts, said};
use super::{deploy, inventory, kill, query, until};

const ADDRESSES: [&str; 3] = super::ADDRESSES;

fn count(hosts: &Hosts) -> String {
    query(hosts, 2, "10.0.0.10", "SELECT count(*) FROM t")
}

/// Does a coordinator answer with all rows?
fn serves(hosts: &Hosts, rows: &str) -> bool {
    let authority = hosts.path("hosts.d/ca.crt");
    let mut psql = hosts.on(2, testkit::pg_program("psql").unwrap().to_str().unwrap());
    psql.args(["-XAtc", "SELECT count(*) FROM t"]).env("PGPASSWORD", super::password(hosts).unwrap());
    psql.arg(format!(
        "host=10.0.0.10 user=postgres dbname=postgres sslmode=verify-full sslrootcert={} connect_timeout=5",
        authority.display()
    ));
    let output = psql.output().unwrap();
    output.status.success() && String::from_utf8_lossy(&output.stdout).trim() == rows
}

/// Servers, gtms and coordinators.
fn run(hosts: &Hosts) -> usize {
    super::pids(hosts).len()
}

#[test]
fn systemd_starts_what_was_deployed() {
    if let Some(why) = hosts::cannot_boot() {
        eprintln!("SKIPPED: {why}");
        return;
    }
    let hosts = Hosts::booted(&ADDRESSES);
    let text = inventory(&hosts).replace("systemd = false\n", "");
    let first = hosts.path("units-10.0.0.21/loxo-sales-dn1.service");
    for address in ADDRESSES {
        let login = || {
            let mut ssh = hosts.admin("ssh");
            ssh.args(["-i", "key", "-o", "UserKnownHostsFile=known_hosts", "-o", "BatchMode=yes", "-l", "root"]);
            ssh.args([address, "true"]).output().unwrap().status.success()
        };
        until("the host is up", login);
    }
    std::fs::write(&first, "[Unit]\n").unwrap();
    let refused = said(&deploy(&hosts, &text, &[]), 1);
    assert!(refused.contains("/loxo-sales-dn1.service\" is not of this cluster"), "{refused}");
    std::fs::remove_file(&first).unwrap();

    let done = said(&deploy(&hosts, &text, &[]), 0);
    assert!(done.contains("systemd starts these processes after a reboot of a host"), "{done}");
    query(&hosts, 2, "10.0.0.10", "CREATE TABLE t (k int) DISTRIBUTE BY HASH (k)");
    query(&hosts, 2, "10.0.0.10", "INSERT INTO t SELECT generate_series(1, 1000)");
    assert_eq!(run(&hosts), 4);
    let done = said(&deploy(&hosts, &text, &[]), 0);
    assert!(done.contains("nothing was to be done"), "{done}");

    // What dies is started again, by nobody's doing.
    for (at, words) in [(0, "/loxo coordinator"), (0, "/loxo gtm"), (1, "/postgres -D")] {
        kill(&hosts, at, words);
        until("it runs again", || run(&hosts) == 4 && serves(&hosts, "1000"));
    }
    // So is everything after a power failure.
    (0..ADDRESSES.len()).for_each(|at| hosts.boot(at));
    until("all hosts serve again", || serves(&hosts, "1000"));
    query(&hosts, 2, "10.0.0.10", "INSERT INTO t SELECT generate_series(1001, 1100)");
    assert_eq!(count(&hosts), "1100");
    let done = said(&deploy(&hosts, &text, &[]), 0);
    assert!(done.contains("nothing was to be done"), "{done}");

    let done = said(&deploy(&hosts, &text, &["--stop"]), 0);
    assert!(done.contains("changed: coord1, dn1, dn2, gtm\n"), "{done}");
    assert_eq!(run(&hosts), 0);
    let done = said(&deploy(&hosts, &text, &[]), 0);
    assert!(done.contains("changed: coord1, dn1, dn2, gtm\n"), "{done}");
    assert_eq!(count(&hosts), "1100");
}
