//! CONNECTION LIMIT of roles and databases: sessions count, wherever they are, and pooled connections do not. One script on a cluster
//! and on one PostgreSQL.

use std::thread;
use std::time::{Duration, Instant};

use testkit::Cluster;
use testkit::wire::{Client, CopyInput};

/// Longest wait for a server to notice that a client has gone.
const SOON: Duration = Duration::from_secs(20);

const TABLES: &str = "CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t SELECT g, g % 7 FROM generate_series(1, 200) g; \
     GRANT SELECT ON t TO PUBLIC; CREATE VIEW limits AS SELECT rolname FROM pg_roles WHERE rolcanlogin";
/// Needs connections of every kind.
const JOIN: &str = "SELECT count(*), sum(a.k) FROM t a JOIN t b ON a.v = b.k";

struct Script<'c> {
    cluster: &'c Cluster,
    next: usize,
    seen: Vec<String>,
}

impl Script<'_> {
    /// By one coordinator after the other.
    fn connect(&mut self, user: &str, database: &str) -> Option<Client> {
        let ports = self.cluster.coordinators();
        self.next += 1;
        let came = Client::connect_with(ports[self.next % ports.len()], &[("user", user), ("database", database)]);
        let error = came.as_ref().err().map(|error| format!("{} {}", error.code().as_str(), error.message()));
        self.seen.push(format!("{user} to {database}: {}", error.as_deref().unwrap_or("comes")));
        came.ok()
    }

    fn run(&mut self, client: &mut Client, sql: &str) {
        for answer in client.simple_all(sql, CopyInput::default()).expect("an answer") {
            let rows: Vec<String> = answer.rows.iter().map(|row| format!("{row:?}")).collect();
            let error = answer.error.map(|error| format!("{} {}", error.code().as_str(), error.message()));
            self.seen.push(format!("{sql}: {:?} {rows:?} {error:?}", answer.tag));
        }
    }

    /// Once a server has seen that somebody has gone.
    fn comes_again(&mut self, user: &str, database: &str) -> Client {
        let until = Instant::now() + SOON;
        loop {
            let before = self.seen.len();
            match self.connect(user, database) {
                Some(client) => return client,
                None => assert!(Instant::now() < until, "{:?}", self.seen.last()),
            }
            self.seen.truncate(before);
            thread::sleep(Duration::from_millis(50));
        }
    }
}

fn script(cluster: &Cluster) -> Vec<String> {
    let mut script = Script { cluster, next: 0, seen: Vec::new() };
    let mut admin = cluster.connect(0).expect("a session");
    admin.run(TABLES).expect("tables");
    script.run(&mut admin, "CREATE ROLE few LOGIN CONNECTION LIMIT 2");
    let mut sessions: Vec<Client> = (0..4).filter_map(|_| script.connect("few", "postgres")).collect();
    assert_eq!(sessions.len(), 2, "{:?}", script.seen);
    for session in &mut sessions {
        script.run(session, JOIN);
    }
    sessions.pop();
    sessions.push(script.comes_again("few", "postgres"));
    script.run(&mut admin, "ALTER USER few WITH CONNECTION LIMIT 0");
    assert!(script.connect("few", "postgres").is_none(), "nobody comes any more");
    for session in &mut sessions {
        script.run(session, &format!("BEGIN; {JOIN}; COMMIT"));
    }
    let of_role =
        "SELECT r.rolconnlimit, a.rolconnlimit FROM pg_roles r JOIN pg_authid a USING (oid) WHERE r.rolname = 'few'";
    script.run(&mut admin, of_role);
    script.run(&mut admin, "SELECT pg_get_viewdef('limits'::regclass), count(*) FROM limits WHERE rolname = 'few'");
    script.run(&mut admin, "DO $$ BEGIN EXECUTE 'ALTER ROLE few CONNECTION LIMIT 3'; END $$");
    script.run(&mut admin, of_role);
    sessions.extend(script.connect("few", "postgres"));
    assert!(script.connect("few", "postgres").is_none(), "three are there");
    script.run(&mut admin, "ALTER ROLE few SUPERUSER CONNECTION LIMIT 1");
    sessions.extend(script.connect("few", "postgres"));
    script.run(&mut admin, "ALTER ROLE few NOSUPERUSER CONNECTION LIMIT -1");
    sessions.extend(script.connect("few", "postgres"));
    script.run(&mut admin, of_role);

    script.run(&mut admin, "CREATE DATABASE d TEMPLATE template0 LC_COLLATE 'C' CONNECTION LIMIT = 1");
    let mut one = script.connect("few", "d").expect("the first");
    script.run(&mut one, "SELECT 1");
    assert!(script.connect("few", "d").is_none(), "one is there");
    let superuser = script.connect("postgres", "d");
    script.run(&mut admin, "ALTER DATABASE d CONNECTION LIMIT 2");
    assert!(script.connect("few", "d").is_none(), "a superuser counts");
    script.run(&mut admin, "ALTER DATABASE d WITH CONNECTION LIMIT 3");
    sessions.extend(script.connect("few", "d"));
    script.run(&mut admin, "SELECT datconnlimit FROM pg_database WHERE datname = 'd'");
    script.run(&mut admin, "BEGIN; ALTER DATABASE d CONNECTION LIMIT 0; ROLLBACK");
    drop(superuser);
    sessions.push(script.comes_again("few", "d"));
    script.seen
}

#[test]
fn sessions_count_and_pooled_connections_do_not() {
    let (cluster, stock) = (Cluster::start(3, 2).expect("a cluster"), Cluster::stock(1).expect("a server"));
    let (here, there) = (script(&cluster), script(&stock));
    for (here, there) in here.iter().zip(&there) {
        assert_eq!(here, there);
    }
    assert_eq!(here.len(), there.len());
}
