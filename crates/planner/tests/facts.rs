//! What the planner finds in statements and makes of them, by its public functions.

mod common;

/// What a statement leaves in its backends.
mod effects {
    use catalog::{Builder, Catalog, Function, Leavings, Oid};
    use planner::leavings;

    fn catalog(functions: &[(&str, &str, &str)]) -> Catalog {
        let mut builder = Builder::new(1, 150_000);
        let builtins = catalog::Builtins::from_lines(include_str!("common/builtins.tsv")).unwrap();
        builder.builtins(builtins.into());
        for (number, (name, language, body)) in functions.iter().enumerate() {
            builder.function(Function {
                oid: 16384 + number as Oid,
                schema: "public".into(),
                name: (*name).into(),
                language: (*language).into(),
                volatility: 'v',
                kind: 'f',
                is_public: true,
                definition: format!(
                    "CREATE FUNCTION public.{name}() RETURNS int LANGUAGE {language} AS $function${body}$function$"
                ),
                parts: Vec::new(),
                is_parallel_safe: false,
                is_trigger: false,
                sets_path: false,
                is_definer: false,
                arguments: (0, None),
                leavings: Default::default(),
            });
        }
        builder.build()
    }

    fn left(sql: &str, functions: &[(&str, &str, &str)]) -> Leavings {
        leavings(&planner::parse(sql).unwrap()[0], &catalog(functions))
    }

    #[test]
    fn words_in_literals_and_names_are_nothing() {
        for sql in [
            "SELECT 'pg_advisory_lock(1)', 'nextval'",
            "SELECT nextval FROM t WHERE pg_advisory_lock = 1",
            "SELECT max(random()) FROM t",
            "BEGIN",
        ] {
            assert!(left(sql, &[]).is_nothing(), "{sql}");
        }
    }

    #[test]
    fn calls_are_found_wherever_they_stand() {
        assert!(left("SELECT (SELECT nextval('s'))", &[]).drawn);
        assert!(left("WITH a AS (SELECT pg_catalog.pg_advisory_lock(1)) SELECT * FROM a", &[]).told);
        assert!(left("SELECT pg_notify('a', 'b')", &[]).notifies);
        let set = left("SELECT set_config('App.X'::text, v, true) FROM t", &[]);
        assert_eq!(set.settings.iter().collect::<Vec<_>>(), ["app.x"]);
        assert!(left("SELECT set_config(name, v, true) FROM t", &[]).any_setting);
    }

    #[test]
    fn functions_are_what_their_bodies_are() {
        let functions = [
            ("plain", "sql", "SELECT 1"),
            ("sets", "plpgsql", "BEGIN SET LOCAL app.y = 1; PERFORM set_config('app.x', '1', false); RETURN 1; END"),
            ("outer_one", "plpgsql", "BEGIN RETURN sets() + inner_one(); END"),
            ("inner_one", "plpgsql", "BEGIN RETURN outer_one(); END"),
            ("makes", "sql", "CREATE TEMP TABLE x(); SELECT 1"),
            ("runs", "plpgsql", "BEGIN EXECUTE 'SELECT 1'; RETURN 1; END"),
            ("other", "plpython3u", "return 1"),
        ];
        assert!(left("SELECT plain()", &functions).is_nothing());
        for sql in ["SELECT sets()", "SELECT outer_one()", "SELECT t.inner_one FROM t"] {
            let found = left(sql, &functions);
            assert_eq!(found.settings.iter().collect::<Vec<_>>(), ["app.x", "app.y"], "{sql}");
            assert!(!found.hidden && !found.any_setting, "{sql}");
        }
        assert!(left("SELECT makes()", &functions).told);
        assert!(left("DO $$BEGIN PERFORM nextval('s'); END$$", &functions).drawn);
        for sql in ["SELECT runs()", "SELECT other()"] {
            assert!(left(sql, &functions).hidden, "{sql}");
        }
    }
}

/// Values of sequences that another backend has drawn.
mod values_drawn {
    use planner::{LastDrawn, StatementKind, ValuesDrawn, with_values_drawn};

    fn drawn() -> ValuesDrawn {
        let last = Some(LastDrawn { value: 7, sequences: vec![16400] });
        ValuesDrawn { values: [(16390, -2), (16400, 7)].into(), last }
    }

    fn rewritten(sql: &str) -> Option<String> {
        let statement = planner::parse(sql).unwrap().remove(0);
        let catalog = catalog::Builder::new(1, 150_000).build();
        with_values_drawn(&statement, &catalog, &drawn()).unwrap().map(|statement| statement.sql.to_string())
    }

    #[test]
    fn calls_get_what_is_remembered_and_columns_keep_their_names() {
        let known = "'{16390,16400}'::pg_catalog.oid[], '{-2,7}'::bigint[]";
        let last = "loxo.last_value_drawn('{16400}'::pg_catalog.oid[], '7'::bigint)";
        assert_eq!(
            rewritten("SELECT currval('s'), pg_catalog.currval($1) + 1, lastval()").unwrap(),
            format!(
                "SELECT loxo.value_drawn('s', {known}) AS currval, loxo.value_drawn($1, {known}) + 1, {last} AS lastval"
            )
        );
        let sql =
            rewritten("INSERT INTO t SELECT lastval(), a FROM s WHERE b = currval(pg_get_serial_sequence('t', 'a'))");
        assert!(sql.is_some_and(|sql| sql.contains(last) && sql.contains("drawn(pg_get_serial_sequence('t', 'a'), ")));
        let statement = planner::parse("EXPLAIN SELECT lastval()").unwrap().remove(0);
        let catalog = catalog::Builder::new(1, 150_000).build();
        let explained = with_values_drawn(&statement, &catalog, &drawn()).unwrap().unwrap();
        assert!(matches!(explained.kind, StatementKind::Explain(explain) if explain.inner.sql.contains(last)));
    }

    #[test]
    fn all_else_stays() {
        assert_eq!(rewritten("SELECT nextval('s'), 'currval(1)', public.currval('s'), lastval FROM t"), None);
        assert_eq!(rewritten("INSERT INTO t (a) VALUES (DEFAULT)"), None);
    }

    #[test]
    fn later_values_count() {
        let mut all = drawn();
        all.add(ValuesDrawn { values: [(16400, 9), (16410, 1)].into(), last: None });
        assert_eq!(all.values, [(16390, -2), (16400, 9), (16410, 1)].into());
        assert_eq!(all.last.as_ref().map(|last| last.value), Some(7));
        all.add(ValuesDrawn { last: Some(LastDrawn { value: 1, sequences: vec![16410] }), ..ValuesDrawn::default() });
        assert_eq!(all.last.map(|last| last.value), Some(1));
    }
}

/// Calls that change settings.
mod settings {
    use planner::{SettingCalls, setting_calls};

    fn calls(sql: &str) -> SettingCalls {
        setting_calls(&planner::parse(sql).unwrap()[0]).unwrap()
    }

    #[test]
    fn arguments_become_columns() {
        let listed = |sql: &str| SettingCalls::Listed(sql.to_owned());
        assert_eq!(
            calls("SELECT 1, set_config('role', $1, true), pg_catalog.set_config('a.b', 'it''s', false)"),
            listed(
                "SELECT 'role'::pg_catalog.text, $1::pg_catalog.text, true::boolean, \
                 'a.b'::pg_catalog.text, 'it''s'::pg_catalog.text, false::boolean"
            )
        );
        assert_eq!(
            calls("SELECT set_config(name, 'x', false) FROM pg_settings WHERE name = 'y'"),
            listed(
                "SELECT name::pg_catalog.text, 'x'::pg_catalog.text, false::boolean FROM pg_settings WHERE name = 'y'"
            )
        );
    }

    #[test]
    fn other_calls_are_found() {
        for sql in [
            "SELECT set_config('a', b, false) FROM t",
            "SELECT (SELECT set_config('a.b', 'x', false))",
            "SELECT set_config('a.b', random()::text, false)",
            "SELECT length(set_config('a.b', 'x', false))",
            "SELECT set_config('a.b', 'x', false) LIMIT 0",
            "INSERT INTO t SELECT set_config('a.b', 'x', false)",
        ] {
            let hidden = SettingCalls::Hidden(Some(
                [sql[sql.find('\'').unwrap() + 1..].split('\'').next().unwrap().to_owned()].into(),
            ));
            assert_eq!(calls(sql), hidden, "{sql}");
        }
        assert_eq!(calls("SELECT set_config(a, b, false) FROM t"), SettingCalls::Hidden(None));
        assert_eq!(calls("INSERT INTO t VALUES ('set_config(')"), SettingCalls::None);
    }
}

/// What reads the clock.
mod clock {
    use planner::{Moment, at_one_moment};

    fn moment() -> Moment {
        Moment { transaction: "2024-05-06 07:08:09.1+00".to_owned(), statement: "2024-05-06 07:08:10+00".to_owned() }
    }

    fn rewritten(sql: &str) -> Option<String> {
        let statement = planner::parse(sql).unwrap().remove(0);
        at_one_moment(&statement, &moment()).unwrap().map(|statement| statement.sql.to_string())
    }

    #[test]
    fn clocks_become_constants_and_columns_keep_their_names() {
        let sql = rewritten("SELECT now(), current_date - 1, a FROM t WHERE b > CURRENT_TIMESTAMP(0)").unwrap();
        assert!(sql.contains("AS now") && sql.contains("::pg_catalog.date") && sql.contains("(0)"), "{sql}");
        assert!(!sql.to_lowercase().contains("now()") && !sql.to_lowercase().contains("current_"), "{sql}");
        assert!(rewritten("UPDATE t SET at = now() WHERE k = $1").unwrap().contains("$1"));
        let sql = rewritten("UPDATE t SET a = now(), b = statement_timestamp()").unwrap();
        assert!(sql.contains("07:08:09.1+00") && sql.contains("07:08:10+00"), "{sql}");
    }

    #[test]
    fn words_that_read_the_clock_become_constants() {
        let sql = rewritten("SELECT timestamp(2) with time zone 'now', date ' Tomorrow' FROM t").unwrap();
        assert!(sql.contains("AS timestamptz") && sql.contains("(2)") && sql.contains("+) 1"), "{sql}");
        assert!(!sql.contains("'now'") && !sql.contains("Tomorrow"), "{sql}");
        assert!(rewritten("SELECT 'now'::text::timestamptz FROM t").unwrap().contains("07:08:09.1+00"));
        assert_eq!(rewritten("SELECT 'now'::text, time 'today' FROM t"), None);
    }

    #[test]
    fn other_statements_stay_as_they_are() {
        assert_eq!(rewritten("SELECT current_user, clock_timestamp(), 'now' FROM t"), None);
        assert_eq!(rewritten("CREATE TABLE t (at timestamptz DEFAULT now())"), None);
    }
}

/// Texts of our own.
mod own_text {
    use planner::own_text;

    #[test]
    fn operators_functions_and_types_get_their_schema() {
        let sql = "SELECT count(*), CASE t.k WHEN 'd' THEN a::text END FROM pg_catalog.t WHERE oid = 7 AND b IN ('x', 'y') \
                   AND c NOT IN (1, 2) AND NOT d & 7 = 7 AND e <> ALL (f) AND n LIKE 'a%' AND a[1] > 0 AND x = y || z";
        assert_eq!(
            own_text(sql).unwrap(),
            "SELECT pg_catalog.count(*), CASE WHEN t.k OPERATOR(pg_catalog.=) 'd' THEN a::pg_catalog.text END \
             FROM pg_catalog.t WHERE oid OPERATOR(pg_catalog.=) 7 AND b OPERATOR(pg_catalog.=) ANY(ARRAY['x', 'y']) \
             AND c OPERATOR(pg_catalog.<>) ALL(ARRAY[1, 2]) \
             AND NOT d OPERATOR(pg_catalog.&) 7 OPERATOR(pg_catalog.=) 7 \
             AND e OPERATOR(pg_catalog.<>) ALL(f) AND n OPERATOR(pg_catalog.~~) 'a%' AND a[1] OPERATOR(pg_catalog.>) 0 \
             AND x OPERATOR(pg_catalog.=) (y OPERATOR(pg_catalog.||) z)"
        );
    }

    #[test]
    fn what_has_no_place_for_a_schema_is_refused() {
        for sql in
            ["SELECT nullif(a, b) FROM t", "SELECT a IS DISTINCT FROM b FROM t", "SELECT 1 FROM a JOIN b USING (c)"]
        {
            assert!(own_text(sql).is_err(), "{sql}");
        }
    }
}

/// Passwords of roles.
mod node_options {
    use planner::for_nodes;

    fn changed(sql: &str) -> Option<String> {
        for_nodes(sql, |password| format!("of {password}")).unwrap()
    }

    #[test]
    fn no_datanode_meets_a_limit_of_connections() {
        let of = |sql: &str| changed(sql).unwrap().replace(" WITH", "");
        assert_eq!(of("CREATE ROLE u LOGIN CONNECTION LIMIT 2"), "CREATE ROLE u LOGIN CONNECTION LIMIT 1073741826");
        assert_eq!(of("ALTER USER u CONNECTION LIMIT 2147483647"), "ALTER ROLE u CONNECTION LIMIT 1610612735");
        assert_eq!(of("CREATE DATABASE d CONNECTION LIMIT 0"), "CREATE DATABASE d CONNECTION LIMIT 1073741824");
        for kept in ["ALTER ROLE u CONNECTION LIMIT -1", "CREATE DATABASE d CONNECTION LIMIT -1", "CREATE DATABASE d"] {
            assert_eq!(changed(kept), None, "{kept}");
        }
    }

    #[test]
    fn a_password_becomes_a_verifier() {
        // The printer may put in a WITH, which says nothing.
        let of = |sql: &str| changed(sql).unwrap().replace(" WITH", "");
        assert_eq!(of("CREATE USER u WITH LOGIN PASSWORD 'it''s'"), "CREATE USER u LOGIN PASSWORD 'of it''s'");
        assert_eq!(of("ALTER ROLE u ENCRYPTED PASSWORD 'x'"), "ALTER ROLE u PASSWORD 'of x'");
        for kept in [
            "CREATE ROLE password",
            "ALTER ROLE u PASSWORD NULL",
            "ALTER ROLE u PASSWORD ''",
            "ALTER ROLE u PASSWORD 'SCRAM-SHA-256$4096:c2FsdA==$x:y'",
            "ALTER ROLE u PASSWORD 'md50123456789abcdef0123456789abcdef'",
            "CREATE TABLE users (password text)",
        ] {
            assert_eq!(changed(kept), None, "{kept}");
        }
    }
}

/// Tables that are read and written.
mod tables {
    use planner::Tables;

    #[test]
    fn the_target_is_told_from_the_sources() {
        let sql = "WITH w AS (SELECT * FROM c) UPDATE s.\"T\" SET a = 1 FROM w, b WHERE x IN (SELECT y FROM s.d)";
        let tables = Tables::in_text(sql).unwrap();
        assert_eq!(tables.written.as_deref(), Some("s.\"T\""));
        assert_eq!(tables.read, ["b", "c", "s.d"]);
        assert_eq!(Tables::in_text("INSERT INTO t SELECT * FROM t").unwrap().read, ["t"]);
        assert_eq!(Tables::in_text("INSERT INTO t VALUES (1)").unwrap().read, [""; 0]);
        assert_eq!(Tables::in_text("SELECT * FROM t FOR UPDATE").unwrap().written, None);
    }
}

/// Names of PostgreSQL's that users have taken too.
mod look_alikes {
    use catalog::LookAlikes;
    use planner::Qualifier;

    #[test]
    fn names_that_are_taken_get_their_schema() {
        let mut names = LookAlikes::default();
        assert_eq!(Qualifier(&names).statement("SELECT count(a) FROM t"), "SELECT count(a) FROM t");
        [('f', "count"), ('o', "="), ('t', "text")].into_iter().for_each(|(kind, name)| names.add(kind, name));
        let known = Qualifier(&names);
        assert_eq!(
            known.statement(" SELECT count(a), max(b), util.count(c) FROM t WHERE d = e AND f IN (SELECT g FROM u) AND h::text < 'x'::text"),
            "SELECT pg_catalog.count(a), max(b), util.count(c) FROM t WHERE d OPERATOR(pg_catalog.=) e \
             AND f OPERATOR(pg_catalog.=) ANY (SELECT g FROM u) AND h::pg_catalog.text < 'x'::pg_catalog.text"
        );
        assert_eq!(known.expression("(a || 'b'::text)"), "(a || 'b'::pg_catalog.text)");
        assert_eq!(known.expression("now()"), "now()");
        assert_eq!(known.type_name("text[]"), "pg_catalog.text[]");
        assert_eq!(known.type_name("numeric(10,2)"), "numeric(10,2)");
        assert_eq!(known.type_name("character varying(5)"), "character varying(5)");
    }

    #[test]
    fn several_arrays_in_from_are_unnested_one_by_one() {
        let mut names = LookAlikes::default();
        names.add('f', "unnest");
        let known = Qualifier(&names);
        let sql = "SELECT a FROM unnest(c, d) WITH ORDINALITY u(a, b, n), ROWS FROM (unnest(e), unnest(f, g)) v, b.unnest(h, i)";
        let written = "SELECT a FROM ROWS FROM (pg_catalog.unnest(c), pg_catalog.unnest(d)) WITH ORDINALITY u(a, b, n), \
                       ROWS FROM (pg_catalog.unnest(e), pg_catalog.unnest(f), pg_catalog.unnest(g)) v, b.unnest(h, i)";
        assert_eq!(known.statement(sql), printed(written));
    }

    #[test]
    fn types_of_xml_get_their_schema() {
        let mut names = LookAlikes::default();
        names.add('t', "text");
        let of = |text| {
            format!(
                "SELECT xmlserialize(CONTENT x AS {text}) FROM t, XMLTABLE('/r' PASSING x COLUMNS y {text} PATH '.')"
            )
        };
        assert_eq!(Qualifier(&names).statement(&of("text")), printed(&of("pg_catalog.text")));
    }

    fn printed(sql: &str) -> String {
        pg_query::parse(sql, 0).unwrap().deparse(Default::default()).unwrap()
    }
}

/// What a statement may use.
mod used {
    use planner::may_use;

    use super::common;

    #[test]
    fn names_are_found_in_their_places() {
        let catalog = common::catalog();
        let uses = |sql: &str, table: &str| {
            let path = ["public".to_owned()];
            may_use(sql, catalog.relation("public", table).unwrap(), &catalog, Some(&path))
        };
        assert!(uses("SELECT count_orders() FROM nation", "orders"));
        assert!(uses("SELECT t.a FROM public.orders AS t", "orders"));
        assert!(uses("DROP TABLE nation; CREATE INDEX i ON orders (f(x))", "orders"));
        assert!(uses("ALTER TABLE orders ADD y int", "orders"));
        let elsewhere = |sql: &str, path| may_use(sql, catalog.relation("public", "orders").unwrap(), &catalog, path);
        assert!(!elsewhere("TABLE orders", Some(&[])));
        assert!(elsewhere("TABLE orders", None));
        assert!(elsewhere("SELECT count_orders() FROM nation", Some(&[])));
        assert!(!uses("SELECT t.a AS orders, f(1) FROM other.orders AS orders WHERE note = 'orders'", "orders"));
    }
}

/// Names of columns that have none.
mod output_names {
    use planner::{Moment, at_one_moment};

    #[test]
    fn functions_with_a_grammar_of_their_own_have_names() {
        let moment =
            Moment { transaction: "2024-05-06 07:08:09+00".into(), statement: "2024-05-06 07:08:09+00".into() };
        for (value, name) in [
            ("current_time(2)", "\"current_time\""),
            ("localtimestamp", "\"localtimestamp\""),
            ("xmlconcat(now()::text::xml)", "\"xmlconcat\""),
            ("now()::text::xml IS DOCUMENT", "\"?column?\""),
            ("json_value(now()::text::jsonb, '$')", "\"json_value\""),
        ] {
            let statement = planner::parse(&format!("SELECT {value}")).unwrap().remove(0);
            let sql = at_one_moment(&statement, &moment).unwrap().expect("a clock").sql.to_string();
            let shown = sql.rsplit(" AS ").next().unwrap().trim_matches('"');
            assert_eq!(shown, name.trim_matches('"'), "{sql}");
        }
    }
}

/// PostgreSQL's own functions in SQL.
mod builtins {
    use catalog::Builtins;
    use planner::{parse, sql_statements};

    #[test]
    fn bodies_in_sql_can_be_read() {
        let lines = include_str!("common/builtins.tsv");
        let builtins = Builtins::from_lines(lines).unwrap();
        for name in lines.lines().filter_map(|line| line.strip_prefix("f\t")?.split('\t').next()) {
            for body in builtins.functions(name).iter().filter_map(|function| function.body.as_deref()) {
                let statements = sql_statements(body).map(|statements| statements.len());
                let count = statements.or_else(|| parse(body).ok().map(|statements| statements.len()));
                assert!(count.is_some_and(|count| count > 0), "{name}: {body}");
            }
        }
    }
}

/// The plan of a statement outside a transaction.
fn planned(sql: &str, catalog: &catalog::Catalog) -> planner::Plan {
    planner::plan(&planner::parse(sql).unwrap()[0], catalog, &session(&["public".to_owned()])).unwrap()
}

fn session(search_path: &[String]) -> planner::SessionFacts<'_> {
    planner::SessionFacts {
        home: catalog::NodeId(0),
        search_path,
        temp_relations: &[],
        temp_views: &[],
        temp_code: &[],
        temp_functions: &[],
        temp_types: &[],
        parameters: &[],
        describe: None,
        in_transaction: false,
        clock: None,
        now: None,
        exchanges: planner::Exchanges::Seeing,
        estimates: None,
        few_rows: 0.0,
        stop: planner::Stop::default(),
        depends: None,
    }
}

/// Replicated tables that are locked before rows of theirs.
mod locked_copies {
    use catalog::NodeId;

    use super::{common, session};

    fn locked(sql: &str) -> Vec<(NodeId, String)> {
        let path = ["public".to_owned()];
        planner::locked_copies(&planner::parse(sql).unwrap()[0], &common::catalog(), &session(&path)).unwrap()
    }

    #[test]
    fn only_what_may_be_changed_next_is_locked() {
        let nation = (NodeId(0), "public.nation".to_owned());
        let subset = (NodeId(1), "public.subset".to_owned());
        for (sql, expected) in [
            ("SELECT * FROM nation FOR UPDATE", vec![&nation]),
            ("SELECT * FROM subset, nation FOR NO KEY UPDATE", vec![&nation, &subset]),
            ("SELECT * FROM subset JOIN nation ON s_key = n_key FOR UPDATE OF subset", vec![&subset]),
            (
                "SELECT * FROM orders JOIN nation n ON n_key = o_custkey FOR UPDATE OF n FOR SHARE OF orders",
                vec![&nation],
            ),
            ("SELECT * FROM (SELECT * FROM nation, (SELECT s_key FROM subset) s) q FOR UPDATE", vec![&nation, &subset]),
            ("WITH q AS (SELECT * FROM nation FOR UPDATE) SELECT * FROM q", vec![&nation]),
            ("UPDATE orders SET o_custkey = (SELECT n_key FROM nation FOR UPDATE)", vec![&nation]),
            ("DECLARE c CURSOR FOR SELECT * FROM subset FOR UPDATE", vec![&subset]),
            ("DO $$ BEGIN PERFORM FROM nation FOR UPDATE; END $$", vec![&nation]),
            ("SELECT * FROM nation FOR UPDATE NOWAIT", vec![]),
            ("SELECT * FROM nation FOR UPDATE SKIP LOCKED", vec![]),
            ("SELECT * FROM nation FOR UPDATE FOR SHARE OF nation SKIP LOCKED", vec![]),
            ("SELECT * FROM nation FOR SHARE", vec![]),
            ("SELECT * FROM nation FOR KEY SHARE", vec![]),
            ("SELECT * FROM orders FOR UPDATE", vec![]),
            ("WITH nation AS (SELECT 1 AS n_key) SELECT * FROM nation, subset FOR UPDATE OF subset", vec![&subset]),
            ("UPDATE nation SET n_name = ''", vec![]),
        ] {
            assert_eq!(locked(sql).iter().collect::<Vec<_>>(), expected, "{sql}");
        }
    }
}

/// What all databases of a server share.
mod shared_objects {
    fn is_shared(sql: &str) -> bool {
        match super::planned(sql, &super::common::catalog()) {
            planner::Plan::Ddl(plan) => plan.of_all_databases,
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn roles_and_databases_are_shared_and_tables_are_not() {
        for sql in [
            "CREATE USER u",
            "ALTER ROLE u PASSWORD 'p'",
            "ALTER ROLE u IN DATABASE d SET work_mem = '1MB'",
            "ALTER ROLE u RENAME TO v",
            "DROP USER u",
            "GRANT a TO b",
            "REVOKE a FROM b",
            "ALTER GROUP a ADD USER b",
            "DROP OWNED BY u",
            "REASSIGN OWNED BY u TO v",
            "ALTER DATABASE d SET work_mem = '1MB'",
            "ALTER DATABASE d OWNER TO u",
            "GRANT CONNECT ON DATABASE d TO u",
            "GRANT SET ON PARAMETER work_mem TO u",
            "COMMENT ON ROLE u IS 'c'",
            "COMMENT ON DATABASE d IS 'c'",
        ] {
            assert!(is_shared(sql), "{sql}");
        }
        for sql in [
            "GRANT SELECT ON pairs TO u",
            "ALTER TABLE pairs OWNER TO u",
            "COMMENT ON TABLE pairs IS 'c'",
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO u",
            "CREATE SCHEMA AUTHORIZATION u",
        ] {
            assert!(!is_shared(sql), "{sql}");
        }
    }
}

/// Triggers that may give a row another distribution key are run by the coordinator.
mod key_setters {
    use planner::{Effect, Plan};

    /// Is it so for a function with this body, on a table distributed by `p_a` and `p_b`?
    fn sets(body: &str) -> bool {
        let catalog = super::common::catalog_but(
            |_| {},
            |function| {
                if function.name == "rounds" {
                    let (head, _) = function.definition.split_once("BEGIN").unwrap();
                    function.definition = format!("{head}{body}$function$");
                }
            },
        );
        let sql = "CREATE TRIGGER r BEFORE INSERT ON pairs FOR EACH ROW EXECUTE FUNCTION rounds()";
        match super::planned(sql, &catalog) {
            Plan::Ddl(plan) => plan.effects.iter().any(|effect| matches!(effect, Effect::CaptureOthers { .. })),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_key_is_set_by_assignment_into_and_return() {
        assert!(sets("BEGIN NEW.p_a := NEW.p_a + 1; RETURN NEW; END"));
        assert!(sets("BEGIN NEW.p_a[1] := NEW.p_a + 1; RETURN NEW; END"));
        assert!(sets("BEGIN IF true THEN new.\"p_b\" = 1; END IF; RETURN NEW; END"));
        assert!(sets("BEGIN SELECT 1, 2 INTO STRICT NEW.p_c, NEW.p_a; RETURN NEW; END"));
        assert!(sets("BEGIN FOR NEW.p_a IN SELECT 1 LOOP NULL; END LOOP; RETURN NEW; END"));
        assert!(sets("BEGIN NEW := jsonb_populate_record(NEW, '{}'); RETURN NEW; END"));
        assert!(sets("BEGIN NULL; EXCEPTION WHEN OTHERS THEN NEW.p_a := 1; RETURN NEW; END"));
        assert!(sets("DECLARE r pairs; BEGIN RETURN r; END"));
        assert!(sets("DECLARE new pairs; BEGIN new.p_c := 1; RETURN new; END"));
        assert!(sets("DECLARE r ALIAS FOR new; BEGIN r.p_a := 1; RETURN NEW; END"));
        assert!(sets("BEGIN f.NEW.p_a := 1; RETURN NEW; END"));
        assert!(sets("BEGIN GET DIAGNOSTICS n = ROW_COUNT, NEW.p_a = ROW_COUNT; RETURN NEW; END"));
    }

    #[test]
    fn it_is_not_set_by_reading_it() {
        assert!(!sets("BEGIN IF NEW.p_a = 5 THEN NEW.p_c := NEW.p_a; END IF; RETURN NEW; END"));
        assert!(!sets("BEGIN IF NEW IS DISTINCT FROM OLD THEN NEW.p_c = 7; END IF; RETURN COALESCE(NEW, OLD); END"));
        assert!(!sets("BEGIN SELECT NEW.p_a, 2 INTO x, NEW.p_c; RETURN NULL; END"));
        assert!(!sets("BEGIN RAISE NOTICE '%', NEW.p_a; RETURN OLD; END"));
        assert!(!sets(
            "DECLARE call int; BEGIN call := 1; RETURN CASE WHEN tg_op = 'DELETE' THEN old ELSE new END; END"
        ));
    }
}
