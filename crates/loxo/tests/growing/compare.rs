//! Two datanodes, compared by what PostgreSQL's own programs and the metadata tell of them.

use std::process::Command;

use testkit::wire::Client;

use super::succeeded;

/// Everything pg_dump and pg_dumpall tell of a server but what is its own: without schema loxo, whose rows are compared below.
pub fn dump(port: u16) -> String {
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(testkit::pg_program(program).unwrap());
        command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string()]).args(arguments);
        String::from_utf8(succeeded(command.output().unwrap()).stdout).unwrap()
    };
    let database = run("pg_dump", &["--create", "--schema-only", "--exclude-schema=loxo", "postgres"]);
    let text = database + &run("pg_dumpall", &["--roles-only"]);
    // A key that changes with each dump, and numbers of tables in names of triggers.
    let lines = text.lines().filter(|line| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict"));
    let without_number = |line: &str| match line.split_once("loxo.tell_move.") {
        Some((before, after)) => {
            format!("{before}loxo.tell_move.{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => line.to_owned(),
    };
    let mut lines: Vec<String> = lines.map(without_number).collect();
    // The order of objects follows their names, so that of these triggers is not the same.
    lines.sort_unstable();
    lines.join("\n")
}

/// What the metadata say, with names in place of numbers.
const METADATA: [&str; 10] = [
    "SELECT n::text FROM loxo.node AS n ORDER BY 1",
    "SELECT id::text FROM loxo.next_datanode",
    "SELECT g::text FROM loxo.node_group AS g ORDER BY 1",
    "SELECT id::text, md5(nodes::text) FROM loxo.bucket_map ORDER BY 1",
    "SELECT v::text FROM loxo.catalog_version AS v",
    "SELECT s::text FROM loxo.seal AS s",
    "SELECT t::text FROM loxo.capture_token AS t",
    "SELECT relid::regclass::text, locator, map_id::text, nodes::text, by_default::text, (SELECT string_agg(a.attname, ' '
        ORDER BY u.place) FROM unnest(key_columns) WITH ORDINALITY AS u (number, place)
        JOIN pg_attribute AS a ON a.attrelid = relid AND a.attnum = u.number) FROM loxo.class ORDER BY 1",
    "SELECT c.tgrelid::regclass::text, c.tgname, t.tgname FROM pg_depend AS d JOIN pg_trigger AS c ON c.oid = d.objid
        JOIN pg_trigger AS t ON t.oid = d.refobjid WHERE d.classid = 'pg_trigger'::regclass
        AND d.refclassid = 'pg_trigger'::regclass AND c.tgfoid = 'loxo.capture()'::regprocedure ORDER BY 1, 2",
    "SELECT cluster_id::text, layout::text FROM loxo.identity",
];

pub fn metadata(port: u16) -> Vec<Vec<Vec<String>>> {
    let mut client = Client::connect(port).unwrap();
    client.run("SET bytea_output = 'hex'").unwrap();
    METADATA.iter().map(|sql| client.strings(sql).unwrap()).collect()
}

#[track_caller]
pub fn assert_same_lines(one: &str, other: &str) {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (one, other) = (lines(one), lines(other));
    let only = |these: &[String], those: &[String]| {
        these.iter().filter(|line| !those.contains(line)).cloned().collect::<Vec<_>>().join("\n")
    };
    assert!(one == other, "only in the first:\n{}\nonly in the second:\n{}", only(&one, &other), only(&other, &one));
}
