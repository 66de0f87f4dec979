//! Nobody gains a right by what he makes in a schema that others search: objects that look like PostgreSQL's operators and
//! functions are never called by statements of our own, and nothing in schema `loxo` does anything for a user.

use pgerror::field;
use testkit::Cluster;
use testkit::wire::Client;

/// Makes, in schema `%`, an operator of every common name for every pair of these types, and a function for every one of
/// PostgreSQL's. Each says so in the server's log, whoever calls it.
const LOOKALIKES: &str = "DO $make$
DECLARE
    kinds text[] := string_to_array('int2 int4 int8 oid text name \"char\" bool numeric float8 regclass regproc xid xid8 int2[] int4[] text[] \
        name[] int2vector interval timestamptz tid varchar', ' ');
    names text[] := '{=,<>,<,>,<=,>=,+,-,*,/,%,&,|,||,&&,~~,~,!~}';
    l text; r text; n text; f record;
BEGIN
    SET LOCAL search_path = pg_catalog;
    SET LOCAL check_function_bodies = off;
    FOREACH l IN ARRAY kinds LOOP FOREACH r IN ARRAY kinds LOOP
        EXECUTE format($f$CREATE FUNCTION %1$s.lookalike(a %2$s, b %3$s) RETURNS bool LANGUAGE plpgsql
            SET search_path = pg_catalog AS 'BEGIN RAISE LOG ''look-alike of an operator for %4$s and %5$s''; RETURN NULL; END'$f$,
            '%', l, r, replace(l, '\"', ''), replace(r, '\"', ''));
        FOREACH n IN ARRAY names LOOP
            EXECUTE format('CREATE OPERATOR %s.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = %s.lookalike)', '%', n, l, r, '%');
        END LOOP;
    END LOOP; END LOOP;
    FOR f IN SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result
        FROM pg_proc AS p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND p.pronargs <= 4
        AND NOT EXISTS (SELECT FROM unnest(p.proargtypes::oid[] || p.prorettype) AS u JOIN pg_type AS t ON t.oid = u
            WHERE t.typtype = 'p') AND p.proargmodes IS NULL AND p.provariadic = 0
    LOOP
        EXECUTE format($f$CREATE FUNCTION %s.%I(%s) RETURNS %s LANGUAGE plpgsql SET search_path = pg_catalog
            AS 'BEGIN RAISE LOG ''look-alike of function %s''; RETURN; END'$f$, '%', f.proname, f.arguments, f.result, f.proname);
    END LOOP;
    -- What takes arguments of any type gives way to what takes those of the very one.
    FOREACH l IN ARRAY kinds LOOP
        EXECUTE format($f$CREATE FUNCTION %1$s.counts(a int8, b %2$s) RETURNS int8 LANGUAGE plpgsql
            SET search_path = pg_catalog AS 'BEGIN RAISE LOG ''look-alike of count for %3$s''; RETURN 1; END'$f$,
            '%', l, replace(l, '\"', ''));
        EXECUTE format('CREATE AGGREGATE %s.count(%s) (SFUNC = %s.counts, STYPE = int8)', '%', l, '%');
    END LOOP;
END $make$";

/// Makes them in the schemas that the default search path names for these roles.
fn make_lookalikes(cluster: &Cluster) {
    for node in 0..cluster.datanodes().len() {
        let mut client = cluster.connect_datanode(node).expect("a datanode");
        for schema in ["public", "plain", "postgres"] {
            if schema != "public" {
                client
                    .run(&format!("CREATE SCHEMA {schema}; GRANT ALL ON SCHEMA {schema} TO PUBLIC"))
                    .expect("a schema");
            }
            client.run(&LOOKALIKES.replace("'%'", &format!("'{schema}'"))).expect("look-alikes");
        }
    }
    // Coordinators read the catalog again.
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE TABLE public.pg_catalog_changed (a int) DISTRIBUTE BY REPLICATION").expect("a table");
}

/// Lines of the servers' logs that tell of a call.
fn calls(cluster: &Cluster) -> Vec<String> {
    let mut lines = Vec::new();
    let mut directories = vec![cluster.dir()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("the cluster's directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "log") {
                let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned();
                let found = text.lines().filter(|line| line.contains("LOG:  look-alike"));
                lines.extend(found.map(str::to_owned));
            }
        }
    }
    lines
}

/// Most roads that statements of our own take. The texts themselves name no operator that a look-alike would be better for.
const WORK: [&str; 28] = [
    "CREATE TABLE h (k int PRIMARY KEY, v text) DISTRIBUTE BY HASH (k)",
    "CREATE TABLE r (k int PRIMARY KEY, v text, s serial) DISTRIBUTE BY REPLICATION",
    "CREATE TABLE n (k int, v text) DISTRIBUTE BY ROUNDROBIN",
    "CREATE INDEX ON h (v)",
    "INSERT INTO h VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
    "INSERT INTO r (k, v) SELECT k, v FROM h",
    "INSERT INTO n TABLE h",
    "UPDATE r SET v = 'x'",
    "BEGIN; UPDATE h SET v = 'y'; UPDATE r SET v = 'z'; COMMIT",
    "BEGIN ISOLATION LEVEL SERIALIZABLE; TABLE h; UPDATE h SET v = 'y'; COMMIT",
    "CREATE VIEW w AS SELECT k, v FROM h",
    "UPDATE h SET v = x.v FROM h x WHERE x.k = h.k + 1",
    "CREATE MATERIALIZED VIEW m AS SELECT h.k, n.v FROM h, n",
    "REFRESH MATERIALIZED VIEW m",
    "BEGIN; CREATE TEMP TABLE own (a int); CREATE TEMP VIEW ow AS SELECT a FROM own; TABLE ow; SELECT v FROM h; COMMIT",
    "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $$ DECLARE x int; BEGIN UPDATE h SET v = 'q'; \
     SELECT r.k INTO x FROM r; RETURN x; END $$",
    "SELECT f()",
    "CREATE FUNCTION t() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO n VALUES (NEW.k, NEW.v); RETURN NULL; END $$",
    "CREATE TRIGGER t AFTER INSERT ON h FOR EACH ROW EXECUTE FUNCTION t()",
    "INSERT INTO h VALUES (5, 'e')",
    "SELECT tgname FROM pg_trigger",
    "SELECT rulename FROM pg_rewrite",
    "ALTER TABLE n DISTRIBUTE BY REPLICATION",
    "ALTER TABLE h RENAME COLUMN v TO w",
    "BEGIN; SET TRANSACTION READ ONLY; DECLARE c CURSOR FOR SELECT h.k FROM h, n; FETCH 2 FROM c; COMMIT",
    "BEGIN; INSERT INTO n VALUES (9, 'p'); PREPARE TRANSACTION 'p'",
    "COMMIT PREPARED 'p'",
    "DROP MATERIALIZED VIEW m; DROP TABLE h CASCADE; DROP TABLE r; DROP TABLE n; DROP FUNCTION t(); DROP FUNCTION f()",
];

fn as_role(cluster: &Cluster, role: &str) -> Client {
    let parameters = [("user", role), ("database", "postgres")];
    Client::connect_with(cluster.coordinators()[0], &parameters).expect("a session")
}

fn lookalikes_are_never_called(cluster: &Cluster) {
    make_lookalikes(cluster);
    for (role, makes_temp) in [("postgres", true), ("plain", true), ("plain", false)] {
        if !makes_temp {
            let mut owner = cluster.connect(0).expect("a session");
            owner.run("REVOKE TEMP ON DATABASE postgres FROM PUBLIC").expect("a right taken");
        }
        let mut client = as_role(cluster, role);
        for sql in WORK.iter().filter(|sql| makes_temp || !sql.contains("CREATE TEMP")) {
            client.run(sql).unwrap_or_else(|error| panic!("{role}: {sql}: {error}"));
            assert_eq!(calls(cluster), Vec::<String>::new(), "{role}: {sql}");
        }
        // A search path in which PostgreSQL's own schema comes last. The session has no temp view: pg_get_viewdef() itself looks
        // its operators up there.
        let mut client = as_role(cluster, role);
        client.run("SET search_path = public, pg_catalog").expect("a setting");
        for sql in [
            "CREATE TABLE late (k int, v text) DISTRIBUTE BY HASH (k)",
            "INSERT INTO late VALUES (1, 'a'), (2, 'b')",
            "BEGIN; UPDATE late SET v = 'y'; COMMIT",
            "ALTER TABLE late DISTRIBUTE BY REPLICATION",
            "DROP TABLE late",
        ] {
            client.run(sql).unwrap_or_else(|error| panic!("{role}: {sql}: {error}"));
            assert_eq!(calls(cluster), Vec::<String>::new(), "{role}, pg_catalog last: {sql}");
        }
    }
    a_deadlock_is_found(cluster);
    assert_eq!(calls(cluster), Vec::<String>::new(), "the gtm");
    let mut client = cluster.connect_datanode(0).expect("a datanode");
    client.run("SELECT 1::int4 OPERATOR(public.=) 1::int4").expect("a call");
    assert_eq!(calls(cluster).len(), 1, "the test sees a call");
}

/// The gtm looks for circles of waits.
fn a_deadlock_is_found(cluster: &Cluster) {
    let (mut one, mut two) = (cluster.connect(0).expect("a session"), cluster.connect(0).expect("a session"));
    one.run("CREATE TABLE d (k int PRIMARY KEY, v text) DISTRIBUTE BY HASH (k)").expect("a table");
    one.run("INSERT INTO d VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')").expect("rows");
    one.run("BEGIN; UPDATE d SET v = 'x' WHERE k = 1").expect("a row");
    two.run("BEGIN; UPDATE d SET v = 'x' WHERE k = 2").expect("a row");
    one.send_query("UPDATE d SET v = 'x' WHERE k = 2").expect("sent");
    let second = two.run("UPDATE d SET v = 'x' WHERE k = 1");
    let first = one.wait().map(|answers| answers.into_iter().any(|answer| answer.error.is_some()));
    assert!(second.is_err() || first.expect("an answer"), "one of them gives way");
}

/// What a role tries in schema `loxo`, and in the key space of its database.
fn nothing_in_our_schema_is_for_users(cluster: &Cluster) {
    let mut client = as_role(cluster, "plain");
    client.run("CREATE TABLE mine (k int PRIMARY KEY, v text) DISTRIBUTE BY REPLICATION").expect("a table");
    client.run("CREATE MATERIALIZED VIEW own AS TABLE mine").expect("a view");
    for call in [
        "loxo.begin_schema_change('')",
        "loxo.lock_for_commit(NULL)",
        "loxo.register_table('', 'mine', 'R', '{}', NULL, '{0}', false)",
        "loxo.keep_writers_off('', 'mine', true)",
        "loxo.join_writers('', 'mine')",
        "loxo.lend_rights('', 'mine', '{INSERT}')",
        "loxo.take_rights_back('', 'mine', '')",
        "loxo.lend_change('', 'mine', 'v', 'INSERT')",
        "loxo.lend_address('', 'mine')",
        "loxo.take_address_back('', 'mine', 'ctid')",
        "loxo.make_temp('', 't', '{a}', '{23}', '{-1}', '{0}')",
        "loxo.make_schema('')",
        "loxo.index_temp('', 't', '{a}', true)",
        "loxo.forget_missing('')",
        "loxo.open_matview('', 'own')",
        "loxo.close_matview('', 'own', '')",
        "loxo.columns_of('own')",
        "loxo.tell_rows('', true)",
        "loxo.tend_copy(''::bytea, 'mine')",
        "loxo.tend_copy('mine'::regclass, false)",
        "loxo.follows('mine')",
        "loxo.tie_capture('', 'mine', 't')",
        "loxo.untie_capture('', 'mine', 't')",
        "loxo.tie('mine', 't')",
        "loxo.check_trigger_right('mine')",
        "loxo.capture_others('', 'mine')",
        "loxo.let_rows('', 'mine', true)",
        "loxo.watch_moves('', 'mine')",
        "loxo.may_commit('', 1)",
        "loxo.announce('', 0::int2, 1, 1, 1)",
        "loxo.check_proof('announce', '')",
        "loxo.bucket_map_over('{0}')",
        "loxo.are_datanodes('{0}')",
        "loxo.can_be_keys('mine', '{k}')",
    ] {
        // In a block the coordinator cannot see into: it is the datanode that refuses.
        let sql = format!("DO $$ BEGIN PERFORM {call}; END $$");
        let error = client.run(&sql).expect_err(call);
        assert_eq!(error.code().as_str(), "42501", "{call}: {error}");
        let error = client.run(&format!("SELECT {call}")).expect_err(call);
        assert!(["42501", "0A000"].contains(&error.code().as_str()), "{call}: {error}");
    }
    for table in
        ["committing", "fence", "leader", "decision", "seal", "capture_token", "catalog_version", "class", "node"]
    {
        for mode in ["EXCLUSIVE", "ACCESS EXCLUSIVE", "SHARE", "ROW EXCLUSIVE"] {
            let sql = format!("DO $$ BEGIN LOCK TABLE loxo.{table} IN {mode} MODE; END $$");
            assert_eq!(client.run(&sql).expect_err(&sql).code().as_str(), "42501", "{sql}");
        }
    }
    advisory_locks_hold_nothing_up(cluster);
}

/// An error inside a call of ours would tell the call's parameters, the proof among them, to whoever asks for parameters in errors.
fn errors_do_not_show_a_proof(cluster: &Cluster) {
    let mut holder = cluster.connect(0).expect("a session");
    holder.run("CREATE TABLE lent (id serial, v int) DISTRIBUTE BY HASH (v)").expect("a table");
    holder.run("CREATE TABLE source (k int, v int) DISTRIBUTE BY HASH (k)").expect("a table");
    holder.run("INSERT INTO source SELECT g, g FROM generate_series(1, 9) g").expect("rows");
    holder.run("GRANT INSERT (v), SELECT ON lent TO plain; GRANT SELECT ON source TO plain").expect("rights");
    holder.run("GRANT USAGE ON SEQUENCE lent_id_seq TO plain").expect("rights");
    holder.run("BEGIN; LOCK TABLE lent IN SHARE UPDATE EXCLUSIVE MODE").expect("a lock");
    let mut client = as_role(cluster, "plain");
    client.run("SET log_parameter_max_length_on_error = -1; SET lock_timeout = '200ms'").expect("settings");
    // The right is lent for this statement, which names what a view has not, by a call that waits for the lock.
    let error = client.run("INSERT INTO lent (v) SELECT v FROM source RETURNING lent").expect_err("a locked table");
    assert_eq!(error.code().as_str(), "55P03", "{error}");
    assert_eq!(error.get(field::WHERE), None, "{error}");
    holder.run("ROLLBACK").expect("no lock");
    client.run("RESET lock_timeout").expect("a setting");
    client.run("INSERT INTO lent (v) SELECT v FROM source").expect("rows");
    let error = client.run("INSERT INTO lent (id) SELECT v FROM source").expect_err("another column");
    assert_eq!(error.code().as_str(), "42501", "{error}");
}

/// Functions that run while rows are stored see our settings: none tells the word by which datanodes prove what they say.
fn settings_do_not_show_a_token(cluster: &Cluster) {
    let mut datanode = cluster.connect_datanode(0).expect("a datanode");
    let token = datanode.scalar("SELECT token FROM loxo.capture_token").expect("a token");
    let mut client = as_role(cluster, "plain");
    for sql in [
        "CREATE TABLE looked_at (k int, v int) DISTRIBUTE BY HASH (k)",
        "CREATE FUNCTION tells(int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN \
         RAISE EXCEPTION 'seen: %', (SELECT string_agg(setting, ' ') FROM (SELECT current_setting('loxo.rows_made', true) \
           UNION ALL SELECT current_setting('loxo.tell_rows', true)) AS s (setting)); END $$",
        "CREATE TABLE guarded (k int, v int CHECK (tells(v))) DISTRIBUTE BY HASH (k)",
        "CREATE FUNCTION looks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         NEW.v := (SELECT count(*) FROM looked_at); RETURN NEW; END $$",
        "CREATE TRIGGER looks BEFORE INSERT ON guarded FOR EACH ROW EXECUTE FUNCTION looks()",
    ] {
        client.run(sql).expect(sql);
    }
    let error = client.run("INSERT INTO guarded VALUES (1)").expect_err("the check fails");
    let message = error.message().into_owned();
    // It says something of the kind, or the test has lost its object.
    assert!(message.starts_with("seen: ") && message.len() > 40 && !message.contains(&token), "{message}");
    client.run("DROP TABLE guarded, looked_at; DROP FUNCTION tells(int), looks()").expect("no more of it");
}

/// Keys that earlier versions used, in both forms, held by a user: schema changes, loads of the catalog and PREPARE go on.
fn advisory_locks_hold_nothing_up(cluster: &Cluster) {
    let mut holder = as_role(cluster, "plain");
    for key in ["1819244655", "1819244655, 2", "1819244661, hashtext('q')"] {
        holder.run(&format!("SELECT pg_advisory_lock({key})")).expect("a lock");
    }
    let mut other = cluster.connect(0).expect("a session");
    other.run("SET statement_timeout = '20s'; CREATE TABLE free (k int) DISTRIBUTE BY REPLICATION").expect("a table");
    other.run("BEGIN; INSERT INTO free VALUES (1); PREPARE TRANSACTION 'q'").expect("prepared");
    other.run("COMMIT PREPARED 'q'").expect("committed");
    other.run("DROP TABLE free").expect("dropped");
    cluster.connect(1).expect("a session").run("TABLE mine").expect("another coordinator reads the catalog");
}

#[test]
fn users_gain_nothing_by_what_they_make_or_call() {
    let cluster = Cluster::start(2, 2).expect("a cluster");
    let mut client = cluster.connect(0).expect("a session");
    client.run("CREATE ROLE plain LOGIN; GRANT CREATE ON SCHEMA public TO plain").expect("a role");
    client.run("GRANT CREATE ON DATABASE postgres TO plain").expect("a right");
    nothing_in_our_schema_is_for_users(&cluster);
    errors_do_not_show_a_proof(&cluster);
    settings_do_not_show_a_token(&cluster);
    lookalikes_are_never_called(&cluster);
}
