//! Errors say where in the statement they are, as those of one PostgreSQL do: in the client's text, or in that of a body.

use pgerror::field;
use testkit::wire::{Client, describe};
use testkit::{Cluster, Server, ServerOptions};

const TABLE: &str = "CREATE TABLE t (k int PRIMARY KEY, v text)";

/// Run by both.
const SETUP: [&str; 3] = [
    "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    "PREPARE q1(int) AS SELECT * FROM t WHERE k = $1",
    "PREPARE q2(int, date) AS SELECT * FROM t WHERE k = $1",
];

const WRONG: [&str; 50] = [
    // Blocks that the coordinator runs, which PostgreSQL compiles first.
    "do $$ declare c constant int := 5; begin perform 1 from t; c := 6; end $$",
    "do $$ begin perform 1 from t; x y; end $$",
    "do language plpgsql 'begin perform ''a'' from t; return 5; end'",
    r"do language plpgsql E'begin perform ''a\', ''\\\\'' from t; return 5; end'",
    "/* ä */ do $ä$ begin perform 'ö' from t; if then end if; end $ä$",
    "do $$ begin\n  perform 1 from t;\n  z := 1;\nend $$",
    // Texts in them.
    "do $$ declare x int; begin perform 1 from t; x := nope; end $$",
    "do $$ declare x int := 1; begin perform 1 from t; x := x + nope(x); end $$",
    "do $$ declare x int[]; begin perform 1 from t; x[1] := nope; end $$",
    "do $$ declare x int := nope; begin perform 1 from t; end $$",
    "do $$ declare x int; begin perform 1 from t; if x > nope then null; end if; end $$",
    "do $$ declare ä text := 'ö'; begin perform ä, nope from t; end $$",
    "do $$ declare x int := 7; begin insert into t values (x, x || nope); end $$",
    "do $$ declare x int := 7; begin update t set v = 'x' where k = x and nope = x; end $$",
    "do $$ declare x int; begin perform 1 from t; execute 'select ' || 'nope'; end $$",
    "do $$ declare k int := 7; begin perform k from t; end $$",
    "do $$ begin perform 1 from t; perform 'x'::int; end $$",
    "do $$ declare c cursor for select * from t; begin open c; open c; end $$",
    "do $$ declare c refcursor := 'name'; begin open c for select * from t; open c for select 1; end $$",
    // Queries that fill tables.
    "create table m as select nope from t",
    "create table m as table nope",
    "create table m as select   k,   nope    from t with no data",
    "create temp table if not exists m (a) with (fillfactor = 70) as (select nope(k) from t) with no data",
    "create materialized view m as select k || 7 = k from t",
    "create table m as select k, count(*) from t",
    "create table m as select k + date 'x' from t",
    "create table m as select k from t union select v from t",
    "create table m as values (1, 2), (1)",
    "select * into m from xcom",
    "with a as (select 1) select k, nope into unlogged m from t, a",
    "select 1; /* ä */ create table m as select nope from t",
    "  -- ö\n  create table m as select 'x'::int from t",
    "create table made (k int); create table m as select nope from made",
    "explain create table m as select nope from t",
    "explain (costs off) select k into m from t where nope",
    "select 1; explain analyze create materialized view m as select nope from t",
    "do $$ begin create table m as select nope from t; end $$",
    // Queries of cursors.
    "declare \"c d\" scroll cursor with hold for select k, count(*) from t",
    "declare c cursor with hold for select k + 'x' from t where k = 1",
    "select 1; /* ä */ declare c cursor for select  nope from t",
    "create temp table made (k int); declare c cursor for select nope from made",
    "select 1; declare c cursor for select k from t where v = 1 for update",
    "select 1; declare c cursor for select k from t for update of x",
    "do $$ declare c cursor for select nope from t; begin perform 1 from t; open c; end $$",
    "do $$ declare c refcursor; kk int; begin perform 1 from t; open c for select kk, nope from t; end $$",
    "do $$ declare c refcursor; begin perform 1 from t; open c for execute 'select ' || 'nope'; end $$",
    // Arguments.
    "execute q1('x')",
    "execute q2(1, 'x')",
    "/* ä */ execute q2 ( nope, 'x')",
    "execute q2(1, date '2020-01-01' + )",
];

fn place(client: &mut Client, sql: &str) -> String {
    let error = client.run(sql).expect_err(sql);
    let of = |code: u8| error.text(code).into_owned();
    let (position, place, query) = (of(field::POSITION), of(field::INTERNAL_POSITION), of(field::INTERNAL_QUERY));
    format!("{} | at {position:?} | at {place:?} of {query:?}", describe(&error))
}

#[test]
fn errors_are_placed_as_by_one_postgresql() {
    let cluster = Cluster::start(2, 1).expect("a cluster");
    let mut client = cluster.connect(0).expect("a session");
    let reference = Server::start(&ServerOptions::like(&mut client).expect("its locale")).expect("a stock server");
    let mut stock = reference.connect().expect("a session");
    let distributed = if cluster.is_distributed() { " DISTRIBUTE BY HASH (k)" } else { "" };
    client.run(&format!("{TABLE}{distributed}")).expect("a table");
    stock.run(TABLE).expect("a table");
    for sql in SETUP {
        client.run(sql).expect(sql);
        stock.run(sql).expect(sql);
    }
    let mut wrong = Vec::new();
    for sql in WRONG {
        let (here, there) = (place(&mut client, sql), place(&mut stock, sql));
        if here != there {
            wrong.push(format!("{sql}\n    one server : {there}\n    the cluster: {here}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
