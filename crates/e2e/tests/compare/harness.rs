//! The differential suite finds what it is there to find. Two databases of one server stand for the two sides; a setting
//! tells a statement on which side it is.

use e2e::differential::{Pair, Protocol, Report, run};
use e2e::script::Variant;
use testkit::wire::Client;
use testkit::{Server, ServerOptions};

/// Refuses on the "cluster" only, as a coordinator would.
const REFUSE: &str = "DO $$ BEGIN \
     IF current_database() = 'cluster' THEN RAISE EXCEPTION 'refused' USING ERRCODE = '0A000'; END IF; \
     INSERT INTO t VALUES (99); END $$";

fn report(source: &str) -> Report {
    let server = Server::start(&ServerOptions::default()).expect("a stock server");
    let mut client = server.connect().expect("a session");
    let mut side = |database: &str| {
        client.run(&format!("CREATE DATABASE {database}")).expect("a database");
        Client::connect_with(server.port(), &[("user", "postgres"), ("database", database)]).expect("a session")
    };
    let mut pair = Pair { reference: side("reference"), cluster: side("cluster"), distributed: true, audited: None };
    let variant = Variant::Alternative(0, "default".into());
    run(&mut pair, "harness", source, &variant, Protocol::Simple).expect("both sides answer")
}

#[test]
fn what_differs_is_reported_with_its_line() {
    let report =
        report("SELECT 1;\nSELECT current_database();\nSELECT 2;\nSELECT 1 / (current_database() <> 'cluster')::int;");
    let differences = report.differences.join("\n");
    assert_eq!((report.compared, report.differences.len(), report.refused.len()), (4, 2, 0), "{differences}");
    assert!(differences.contains("harness.sql:2: SELECT current_database()"), "{differences}");
    assert!(
        differences.contains("one server :  ('reference')") && differences.contains("the cluster:  ('cluster')"),
        "{differences}"
    );
    assert!(differences.contains("22012: division by zero"), "{differences}");
}

#[test]
fn a_refused_statement_has_no_effect_on_either_side() {
    let source = format!(
        "CREATE TABLE t (a int);\n-- refused\n{REFUSE};\nSELECT * FROM t;\n\
         BEGIN;\nINSERT INTO t VALUES (1);\n-- refused: v1\n{REFUSE};\nSELECT * FROM t;\nROLLBACK;\nSELECT * FROM t;\n{REFUSE};\nSELECT * FROM t"
    );
    let report = report(&source);
    assert_eq!(report.differences, Vec::<String>::new());
    let refused: Vec<(usize, bool)> = report.refused.iter().map(|refusal| (refusal.line, refusal.expected)).collect();
    assert_eq!(refused, [(3, true), (8, true), (12, false)]);
}

#[test]
fn a_refusal_that_does_not_come_is_reported() {
    let report = report("-- refused\nSELECT 1;\n-- refused: v2\nSELECT 2;");
    assert_eq!((report.differences.len(), report.refused.len()), (1, 0), "{:?}", report.differences);
    assert!(report.differences[0].contains("is not refused, but the file says so"));
}

#[test]
fn what_postgresql_itself_does_not_support_is_no_refusal() {
    let report = report("SELECT count(*) FROM pg_class GROUP BY relname FOR UPDATE;");
    assert_eq!(
        (report.differences.len(), report.refused.len()),
        (0, 0),
        "{:?} {:?}",
        report.differences,
        report.refused
    );
}
