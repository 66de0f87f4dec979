//! DROP NODE … LOST, whose coordinator dies between the mark of the datanode as lost and the end of the commit.
//!
//! Before the commit is decided everything is as it was, but for the mark: the same command does it then, or takes the mark away if the
//! server answers again. Afterwards the datanode is gone.

use std::process::Command;
use std::time::{Duration, Instant};

use faults::{aftermath, points, processes};
use pgerror::SqlState;
use testkit::wire::Client;
use testkit::{Cluster, Server, ServerOptions};

const RESOLVED_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
const DROP: &str = "DROP NODE far LOST";
const MARKS: &str = "SELECT count(*) FROM loxo.lost_datanode";

#[test]
fn whoever_dies_while_a_datanode_is_given_up_leaves_all_or_nothing() {
    points::check_binary().expect("a binary with control points");
    let cluster = Cluster::start(2, 1).expect("a cluster");
    let server = Server::start(&ServerOptions::default()).expect("a server");
    add(&cluster, &server);
    let mut client = cluster.connect(0).expect("a client");
    client.run("CREATE TABLE t (k int PRIMARY KEY) DISTRIBUTE BY HASH (k)").expect("a table");
    client.run("INSERT INTO t SELECT generate_series(1, 3000)").expect("rows");
    drop(client);

    for point in ["lost-noted", "lost-changed", "prepared-all"] {
        dies_at(&cluster, &server, point);
        assert_eq!(names(&cluster), ["dn1", "dn2", "far"], "{point}");
        assert_eq!(home(&cluster).scalar(MARKS).expect("marks"), "1", "{point}");
        // It comes back, and is none that is lost.
        server.start_again().expect("it starts");
        let refused = cluster.connect(0).expect("a client").run(DROP).expect_err("it answers");
        assert_eq!(refused.code(), SqlState::OBJECT_IN_USE, "{point}");
        assert_eq!(home(&cluster).scalar(MARKS).expect("marks"), "0", "{point}");
        is_whole(&cluster, point);
    }

    let kept = kept_rows(&cluster);
    // Nothing is decided yet, and the same command does it.
    dies_at(&cluster, &server, "lost-changed");
    cluster.connect(0).expect("a client").run(DROP).expect("the same again");
    is_gone(&cluster, kept);

    empty_again(&server);
    add(&cluster, &server);
    let kept = kept_rows(&cluster);
    // It is decided: recovery does the rest.
    dies_at(&cluster, &server, "decided");
    is_gone(&cluster, kept);
    let refused = cluster.connect(0).expect("a client").run(DROP).expect_err("nobody is called that any more");
    assert_eq!(refused.code(), SqlState::UNDEFINED_OBJECT);
}

/// As on real hosts: the server is not one of those that `loxo up` starts.
fn add(cluster: &Cluster, server: &Server) {
    let (config, port) = (cluster.dir().join("cluster.toml"), server.port().to_string());
    let mut command = Command::new(testkit::loxo_binary().expect("a binary"));
    command.args(["node", "add", "--rebalance", "--name", "far", "--host", "127.0.0.1", "--port", &port]);
    let output = command.arg("--config").arg(config).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The server has rows of before, which `loxo node add` refuses.
fn empty_again(server: &Server) {
    server.start_again().expect("it starts");
    let mut back = server.connect().expect("a client");
    for gid in back.strings("SELECT gid FROM pg_prepared_xacts").expect("gids").concat() {
        back.run(&format!("ROLLBACK PREPARED '{gid}'")).expect("it ends");
    }
    back.run("TRUNCATE t").expect("it is empty");
}

fn home(cluster: &Cluster) -> Client {
    cluster.connect_datanode(0).expect("the primary datanode")
}

fn names(cluster: &Cluster) -> Vec<String> {
    home(cluster).strings("SELECT name FROM loxo.node WHERE type = 'D' ORDER BY name").expect("names").concat()
}

fn kept_rows(cluster: &Cluster) -> usize {
    let count = |node| -> usize {
        let count =
            cluster.connect_datanode(node).expect("a datanode").scalar("SELECT count(*) FROM t").expect("a count");
        count.parse().expect("a number")
    };
    count(0) + count(1)
}

/// The server stops for good, the command is given, and its coordinator dies at the point; another one runs then.
fn dies_at(cluster: &Cluster, server: &Server, point: &str) {
    let coordinator = || processes::find(cluster, "coord1").expect("a coordinator");
    processes::kill(cluster, &coordinator()).expect("it dies");
    cluster.up_with(&[("LOXO_CONTROL_POINTS", &format!("{point}=abort"))]).expect("it comes with an order");
    let mut client = cluster.connect(0).expect("a client");
    server.stop().expect("it stops");
    client.run(DROP).expect_err("its coordinator dies");
    cluster.up().expect("another coordinator");
}

/// Fences have gone on without it: it takes part again after the next one, which the gtm makes once it sees that it is none that is lost.
fn is_whole(cluster: &Cluster, point: &str) {
    let deadline = Instant::now() + RESOLVED_MAX;
    let mut client = cluster.connect(0).expect("a client");
    while let Err(error) = client.run("INSERT INTO t SELECT generate_series(1, 3000) ON CONFLICT DO NOTHING") {
        assert!(Instant::now() < deadline, "{point}: {error}");
        std::thread::sleep(POLL);
    }
    assert_eq!(client.scalar("SELECT count(*) FROM t").expect("a count"), "3000", "{point}");
    aftermath::until_quiet(cluster, RESOLVED_MAX).expect("nothing is in doubt");
}

/// The others hold what they held, and everything can be written.
fn is_gone(cluster: &Cluster, kept: usize) {
    let deadline = Instant::now() + RESOLVED_MAX;
    while names(cluster) != ["dn1", "dn2"] {
        assert!(Instant::now() < deadline, "it is still there");
        std::thread::sleep(POLL);
    }
    aftermath::until_quiet(cluster, RESOLVED_MAX).expect("nothing is in doubt");
    let mut client = cluster.connect(0).expect("a client");
    assert_eq!(client.scalar("SELECT count(*) FROM t").expect("a count"), kept.to_string());
    client.run("INSERT INTO t SELECT generate_series(1, 3000) ON CONFLICT DO NOTHING").expect("all can be written");
    assert_eq!(client.scalar("SELECT count(*) FROM t").expect("a count"), "3000");
    assert_eq!(cluster.wrong_rows(), None);
}
