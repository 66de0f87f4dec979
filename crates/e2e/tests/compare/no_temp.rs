//! A role that may make no temp tables gets the answers that one PostgreSQL gives it, whatever the coordinator makes temp tables
//! for: case files, and statements of its own, are run as such a role.

use std::path::Path;
use std::sync::Arc;

use e2e::differential::{Pair, Protocol, run};
use e2e::script;
use testkit::wire::Client;
use testkit::{Cluster, Server, ServerOptions};

/// Files of `cases/` with queries, changes, cursors and COPY that take the coordinator temp tables. All but the few statements of
/// theirs that want a superuser do what they do.
const CASES: [&str; 5] =
    ["copy/copy", "txn/cursors", "txn/exchange_blocks", "procedural/instead_of", "dml/with_changes"];

const OWN: &str = include_str!("no_temp.sql");

/// Bare ANALYZE warns of tables in schema `loxo`, and words about files of the server are not those of every version.
const SETUP: [&str; 6] = [
    "CREATE ROLE modest LOGIN",
    "GRANT CREATE ON DATABASE postgres TO modest",
    "GRANT SET ON PARAMETER lc_messages TO modest",
    "ALTER ROLE modest SET client_min_messages = error",
    "GRANT pg_read_server_files, pg_write_server_files TO modest",
    "REVOKE TEMP ON DATABASE postgres FROM PUBLIC",
];

fn connect(port: u16) -> Client {
    Client::connect_with(port, &[("user", "modest"), ("database", "postgres")]).expect("a session")
}

#[test]
fn nobody_needs_the_right_to_make_temp_tables() {
    let cluster = Arc::new(Cluster::start(2, 1).expect("a cluster"));
    let options = ServerOptions::like(&mut cluster.connect(0).expect("a session")).expect("its locale");
    let reference = Server::start(&options).expect("a stock server");
    for mut client in [cluster.connect(0).expect("a session"), reference.connect().expect("a session")] {
        SETUP.iter().for_each(|sql| drop(client.run(sql).expect(sql)));
    }
    let mut files: Vec<(&str, String)> = CASES.map(|path| (path.rsplit('/').next().unwrap_or(path), case(path))).into();
    files.push(("no_temp", OWN.to_owned()));
    let runs_all = std::env::var_os("LOXO_E2E_ALL").is_some();
    let (mut compared, mut wrong) = (0, Vec::new());
    for (at, (file, source)) in files.iter().enumerate() {
        let variants = script::variants(&script::parse(source));
        for (turn, variant) in variants.iter().enumerate() {
            // Of files that other tests run too, one layout is enough for every day.
            if *file != "no_temp" && !runs_all && turn != at % variants.len() {
                continue;
            }
            let protocol = [Protocol::Simple, Protocol::Extended][(at + turn) % 2];
            let mut pair = Pair {
                reference: connect(reference.port()),
                cluster: connect(cluster.coordinators()[0]),
                distributed: cluster.is_distributed(),
                audited: Some(cluster.clone()),
            };
            let report = run(&mut pair, file, source, variant, protocol).expect("a run to the end");
            compared += report.compared;
            let unexpected = report.refused.into_iter().filter(|refusal| !refusal.expected).map(|refusal| refusal.text);
            let texts = report.differences.into_iter().chain(unexpected);
            wrong.extend(texts.map(|text| format!("[{protocol:?}, {variant}] {text}")));
        }
    }
    wrong.iter().for_each(|text| eprintln!("{text}"));
    eprintln!("{compared} statements compared, {} wrong", wrong.len());
    assert!(compared > 0 && wrong.is_empty());
    if cluster.is_distributed() {
        the_right_goes_by_role_and_time(&cluster);
    }
}

/// The right belongs to the role that is on, as of the moment, and other rights of its do not come into it.
fn the_right_goes_by_role_and_time(cluster: &Cluster) {
    const GATHERED: &str = "SELECT count(*), min(x.c), max(y.c) FROM paint x JOIN paint y ON x.k = y.n WHERE x.k < 90";
    let mut owner = cluster.connect(0).expect("a session");
    owner
        .run(
            "CREATE SCHEMA hidden; CREATE TYPE hidden.colour AS ENUM ('red', 'green', 'blue'); \
             CREATE TABLE paint (k int, n int, c hidden.colour) DISTRIBUTE BY HASH (k); \
             INSERT INTO paint SELECT g, g % 7, 'green' FROM generate_series(1, 100) g; \
             GRANT ALL ON paint TO modest; SET loxo.few_rows = 0",
        )
        .expect("tables");
    let expected = owner.strings(GATHERED).expect("an answer of the owner's");
    owner.run("BEGIN").expect("a block");
    for role in ["modest", "postgres", "modest"] {
        owner.run(&format!("SET LOCAL ROLE {role}")).expect("a role");
        assert_eq!(owner.strings(GATHERED).expect(role), expected);
    }
    owner.run("COMMIT; RESET ROLE").expect("an end");
    let mut modest = connect(cluster.coordinators()[0]);
    modest.run("SET loxo.few_rows = 0").expect("a setting");
    for (sql, may) in [
        ("REVOKE TEMP ON DATABASE postgres FROM modest", false),
        ("GRANT TEMP ON DATABASE postgres TO modest", true),
        ("REVOKE TEMP ON DATABASE postgres FROM modest", false),
        ("GRANT TEMP ON DATABASE postgres TO PUBLIC", true),
    ] {
        owner.run(sql).expect(sql);
        assert_eq!(modest.strings(GATHERED).expect(sql), expected);
        assert_eq!(modest.run("CREATE TEMP TABLE own (a int); DROP TABLE own").is_ok(), may, "{sql}");
    }
    let left = "SELECT nspname FROM pg_namespace WHERE nspname ~ '^loxo_analyse' \
        UNION ALL SELECT relname FROM pg_class WHERE relpersistence = 't' AND relname ~ '^loxo_'";
    for node in 0..cluster.datanodes().len() {
        let mut client = cluster.connect_datanode(node).expect("a datanode");
        assert_eq!(client.strings(left).expect("names"), Vec::<Vec<String>>::new());
    }
}

fn case(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join(path).with_extension("sql");
    std::fs::read_to_string(path).expect("a case file")
}
