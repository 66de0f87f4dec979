//! Texts of users, and what PostgreSQL's analysis prints of them.

/// Statements and their places.
mod statements {
    use planner::{StatementKind, own_text, parse};

    fn position(sql: &str) -> String {
        parse(sql).unwrap_err().text(pgerror::field::POSITION).into_owned()
    }

    #[test]
    fn syntax_errors_point_at_the_offending_character() {
        assert_eq!(position("SELECT 1 FRM x"), "14");
        assert_eq!(position("SELECT 'é', 1 FROM WHERE"), "20");
        assert_eq!(position("SELECT 1; SELECT (2"), "20");
        assert_eq!(position("CREATE TABLE t (a int) DISTRIBUTE BY HASH a"), "43");
        assert_eq!(position("CREATE TABLE é (a int,) DISTRIBUTE BY HASH (a)"), "23");
    }

    /// Statements of the same shape, deeper and deeper, until one is too deep: what is read can be printed and dropped.
    fn deepest(shape: impl Fn(usize) -> String) -> usize {
        let mut read = 0;
        for levels in (6..).map(|power| 1 << power) {
            match parse(&shape(levels)) {
                Ok(statements) => {
                    let printed = own_text(&statements[0].sql);
                    assert!(printed.is_ok() || printed.is_err_and(|error| error.code().as_str() == "54001"));
                    read = levels;
                }
                Err(error) => {
                    // Before the stack ends PostgreSQL's grammar may be at the end of its own.
                    let is_full =
                        error.code().as_str() == "42601" && error.message().starts_with("memory exhausted at or near");
                    assert!(is_full || error.code().as_str() == "54001", "{levels} levels: {error:?}");
                    return read;
                }
            }
        }
        unreachable!()
    }

    #[test]
    fn deep_statements_are_read_and_too_deep_ones_refused() {
        let run = || {
            let sum = deepest(|levels| format!("SELECT {}", vec!["1"; levels].join(" + ")));
            let union = deepest(|levels| vec!["SELECT 1, 2"; levels].join(" UNION "));
            let nested = deepest(|levels| format!("SELECT {}1{}", "f(".repeat(levels), ")".repeat(levels)));
            let selects = deepest(|levels| format!("{}SELECT 1{}", "SELECT (".repeat(levels), ")".repeat(levels)));
            let found = [sum, union, nested, selects];
            println!("levels that are read: {found:?}");
            assert!(found.iter().all(|levels| *levels >= 128), "{found:?}");
        };
        std::thread::Builder::new().stack_size(256 << 20).spawn(run).unwrap().join().unwrap();
    }

    #[test]
    fn statements_keep_their_text_and_place() {
        let statements = parse("/* é */ SELECT 1; -- x\nPAUSE CLUSTER;; EXPLAIN (COSTS off) SELECT $2 ;").unwrap();
        let texts: Vec<(&str, usize)> = statements.iter().map(|s| (&*s.sql, s.offset)).collect();
        assert_eq!(texts, [("SELECT 1", 8), ("PAUSE CLUSTER", 23), ("EXPLAIN (COSTS off) SELECT $2", 39)]);
        let StatementKind::Explain(explain) = &statements[2].kind else { panic!("not an EXPLAIN") };
        assert_eq!((&*explain.inner.sql, explain.inner.parameters), ("SELECT $2", 2));
    }

    #[test]
    fn our_words_are_ordinary_names_elsewhere() {
        let statements = parse("SELECT node, distribute FROM t distribute, \"group\"").unwrap();
        assert_eq!(statements[0].kind, StatementKind::Select);
        assert_eq!(statements[0].sql, statements[0].node_sql);
    }
}

/// Statements with marks in the places of constants.
mod marked {
    use planner::{Analysis, Marked, Uses};

    /// Of a name in PostgreSQL.
    const NAME_BYTES_MAX: usize = 63;

    /// As if PostgreSQL printed a text as it stands.
    fn analysis(body: &str) -> Analysis {
        Analysis::new(&format!("BEGIN ATOMIC\n {body};\nEND"), Uses::default(), &[]).unwrap()
    }

    fn filled(marked: &Marked, body: &str) -> String {
        marked.filled(&analysis(body)).unwrap().unwrap().printed().unwrap()
    }

    #[test]
    fn constants_come_back_to_their_places() {
        let marked = Marked::of("SELECT a FROM t WHERE b > -7 AND c = 2.50 AND d = 'it''s' AND e = 7", &[]).unwrap();
        assert_eq!(
            marked.text,
            "SELECT a FROM t WHERE b > -1986040000 AND c = 1986040001.5 AND d = 'loxo1986040002' AND e = 1986040000"
        );
        let printed = "SELECT t.a FROM public.t WHERE t.b > '-1986040000'::integer AND t.c = 1986040001.5 \
                       AND t.d = 'loxo1986040002'::text AND t.e = 1986040000";
        assert_eq!(marked.lost(&analysis(printed)).unwrap(), None);
        assert_eq!(
            filled(&marked, printed),
            "SELECT t.a FROM public.t WHERE t.b > '-7'::int AND t.c = 2.50 AND t.d = 'it''s'::text AND t.e = 7"
        );
    }

    #[test]
    fn names_that_postgresql_cuts_are_not_filled_in() {
        let fills = |value: &str, body: &str| {
            let marked = Marked::of(&format!("SELECT a FROM t WHERE n = '{value}'"), &[]).unwrap();
            marked.filled(&analysis(body)).unwrap().is_some()
        };
        let of_name = "SELECT t.a FROM public.t WHERE t.n = 'loxo1986040000'::name";
        assert!(fills(&"n".repeat(NAME_BYTES_MAX), of_name));
        assert!(!fills(&"n".repeat(NAME_BYTES_MAX + 1), of_name));
        assert!(fills(&"n".repeat(NAME_BYTES_MAX + 1), "SELECT t.a FROM public.t WHERE t.n = 'loxo1986040000'::text"));
    }

    #[test]
    fn what_postgresql_does_not_hand_on_is_pinned() {
        let marked = Marked::of("SELECT 'abc'::\"char\", 5", &[]).unwrap();
        let pinned = marked.lost(&analysis("SELECT 'l'::\"char\" AS \"char\", 1986040001")).unwrap();
        assert_eq!(pinned, Some(vec![true, false]));
        let marked = Marked::of("SELECT 'abc'::\"char\", 5", &[true, false]).unwrap();
        assert_eq!(marked.text, "SELECT 'abc'::\"char\", 1986040000");
        // As a part of something else it is found in the text only.
        let hidden = analysis("SELECT 'x1986040000'::text AS x, 1986040000");
        assert_eq!(marked.lost(&hidden).unwrap(), Some(vec![true, true]));
        // One mark in two places, and only one of them hands it on.
        let marked = Marked::of("SELECT f('a', 'a')", &[]).unwrap();
        let bytes = analysis("SELECT f('\\x6c6f786f31393836303430303030'::bytea, 'loxo1986040000'::text)");
        assert_eq!(marked.lost(&bytes).unwrap(), Some(vec![true, true]));
        let first = analysis("SELECT f('l'::\"char\", 'loxo1986040000'::text)");
        assert_eq!(marked.lost(&first).unwrap(), Some(vec![true, true]));
    }

    #[test]
    fn the_constant_that_is_refused_is_pinned() {
        let marked = Marked::of("SELECT 1 ORDER BY 2", &[]).unwrap();
        let at = marked.text.find("1986040001").unwrap();
        assert_eq!(marked.pinned_at(at), Some(vec![false, true]));
        assert_eq!(marked.pinned_at(marked.text.len()), None);
    }

    #[test]
    fn dates_and_times_come_back_as_they_are_printed() {
        let text = "SELECT a FROM t WHERE d >= '2024-02-29' AND at < '2024-03-01T10:00:00.50' AND n = '2024-03-02 07:05' \
                    AND i = '1 day'";
        let marked = Marked::of(text, &[]).unwrap();
        assert_eq!(
            marked.text,
            "SELECT a FROM t WHERE d >= '2986-01-01' AND at < '2986-01-02' AND n = '2986-01-03' AND i = '1986040003 days'"
        );
        let printed = |at: &str| {
            format!(
                "SELECT t.a FROM public.t WHERE t.d >= '2986-01-01'::date AND t.at < {at} \
                 AND t.n = '2986-01-03'::text AND t.i = '1986040003 days'::interval"
            )
        };
        let plain = printed("'2986-01-02 00:00:00'::timestamp without time zone");
        assert_eq!(marked.lost(&analysis(&plain)).unwrap(), None);
        assert_eq!(
            filled(&marked, &plain),
            "SELECT t.a FROM public.t WHERE t.d >= '2024-02-29'::date AND t.at < '2024-03-01 10:00:00.5'::timestamp \
             AND t.n = '2024-03-02 07:05'::text AND t.i = '1 day'::interval"
        );
        // A date keeps nothing of the time.
        let date = printed("'2986-01-02'::date");
        assert!(filled(&marked, &date).contains("t.at < '2024-03-01'::date"));
        // Other zones than UTC may have summer time.
        let zoned = printed("'2986-01-02 00:00:00+00'::timestamp with time zone");
        assert_eq!(marked.lost(&analysis(&zoned)).unwrap(), Some(vec![false, true, false, false]));
        let in_utc = analysis(&zoned).in_zone("UTC");
        assert_eq!(marked.lost(&in_utc).unwrap(), None);
        let zoned = marked.filled(&in_utc).unwrap().unwrap().printed().unwrap();
        assert!(zoned.contains("t.at < '2024-03-01 10:00:00.5+00'::timestamp with time zone"), "{zoned}");
    }

    #[test]
    fn only_dates_that_are_read_in_one_way_are_marked_as_dates() {
        let mark = |text: &str| Marked::of(&format!("SELECT a FROM t WHERE d = '{text}'"), &[]).unwrap().text;
        for text in ["2024-02-28", "2024-02-29", "2000-02-29", "2024-12-31 23:59", "2024-12-31 23:59:59.123456"] {
            assert!(mark(text).ends_with("'2986-01-01'"), "{text}");
        }
        for text in [
            "2023-02-29",
            "1900-02-29",
            "2024-13-01",
            "2024-04-31",
            "2024-00-10",
            "2024-01-00",
            "0999-01-01",
            "01-02-2024",
            "2024-1-1",
            "2024-01-01 24:00:00",
            "2024-01-01 10:60",
            "2024-01-01 10:00:60",
            "2024-01-01 10",
            "2024-01-01 1:00",
            "2024-01-01 10:00:00.1234567",
            "2024-01-01 10:00+02",
            "2024-01-01 10:00 BC",
            "2024-01-01x",
            "3 weeks",
            "-3 days",
        ] {
            assert!(mark(text).ends_with("'loxo1986040000'"), "{text}: {}", mark(text));
        }
        // A date would read both as equal, so one of them stays.
        let marked = Marked::of("SELECT '2024-01-01'::date, '2024-01-01 10:00'::date", &[]).unwrap();
        assert_eq!(marked.text, "SELECT '2986-01-01'::date, '2024-01-01 10:00'::date");
        let marked = Marked::of("SELECT '2024-01-01'::date, '2024-01-01'::date", &[]).unwrap();
        assert_eq!(marked.text, "SELECT '2986-01-01'::date, '2986-01-01'::date");
        // Their own year.
        assert!(Marked::of("SELECT '2986-01-01'::date, 5", &[]).is_none());
        // As a part of something else, or cut, it is found in the text only.
        let marked = Marked::of("SELECT f('2024-01-01', '2024-01-01')", &[]).unwrap();
        for other in ["'\\x323938362d30312d3031'::bytea", "'2986-01-01 00:00:00+01'::timestamptz"] {
            let found = analysis(&format!("SELECT f('2986-01-01'::date, {other})"));
            assert_eq!(marked.lost(&found).unwrap(), Some(vec![true, true]), "{other}");
        }
        // A type that takes everything leaves nothing of it.
        let lenient = analysis("SELECT f('2986-01-01'::text, '0'::xid)");
        assert_eq!(marked.lost(&lenient).unwrap(), Some(vec![true, true]));
        let first = analysis("SELECT f('2'::\"char\", '2986-01-01'::text)");
        assert_eq!(marked.lost(&first).unwrap(), Some(vec![true, true]));
    }

    #[test]
    fn constants_whose_type_depends_on_them_stay() {
        assert!(Marked::of("SELECT 3000000000", &[]).is_none());
        assert!(Marked::of("SELECT a FROM t", &[]).is_none());
        assert!(Marked::of("SELECT 198604, 1", &[]).is_none());
        assert!(Marked::of("SELECT a - - 0.0 FROM t", &[]).is_none());
    }
}

/// What PostgreSQL prints.
mod analysed {
    use planner::{Analysis, Uses};

    fn analysed(body: &str) -> String {
        let analysis = Analysis::new(&format!("BEGIN ATOMIC\n {body};\nEND"), Uses::default(), &[]).unwrap();
        analysis.printed().unwrap()
    }

    #[test]
    fn queries_that_nothing_reads_are_left_out() {
        let sql = "WITH a AS (SELECT 1 AS x), b AS (SELECT a.x FROM a), c AS (SELECT 2 AS y) SELECT c.y FROM c";
        assert_eq!(analysed(sql), "WITH c AS (SELECT 2 AS y) SELECT c.y FROM c");
        let recursive = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT r.n FROM r) SELECT 1 AS one";
        assert_eq!(analysed(recursive), "SELECT 1 AS one");
        let change = "WITH d AS (DELETE FROM public.t RETURNING t.k) SELECT 1 AS one";
        assert_eq!(analysed(change), change);
    }
}

/// Casts that PostgreSQL has put in.
mod row_casts {
    use planner::{Analysis, Uses};

    fn printed(sql: &str, body: &str) -> String {
        let analysis = Analysis::new(&format!("BEGIN ATOMIC\n {body};\nEND"), Uses::default(), &[]).unwrap();
        analysis.as_written(sql).unwrap().printed().unwrap()
    }

    #[test]
    fn only_casts_that_the_user_wrote_stay() {
        let body = "UPDATE t SET c = ROW(t.id, 'abcdef'::character varying(4), ROW('a'::character(2)))";
        assert_eq!(
            printed("UPDATE t SET c = ROW(id, 'abcdef', ROW('a'))", body),
            "UPDATE t SET c = ROW(t.id, 'abcdef', ROW('a'))"
        );
        let kept = "UPDATE t SET c = ROW(t.id, 'abcdef'::varchar(4), ROW('a'::char(2)))";
        assert_eq!(printed("UPDATE t SET c = ROW(id, 'abcdef'::varchar(4), ROW('a'))", body), kept);
        assert_eq!(
            printed("SELECT 'a'::varchar(4), ROW(1)", "SELECT 'a'::varchar(4), ROW(1)"),
            "SELECT 'a'::varchar(4) AS \"?column?\", ROW(1) AS \"?column?\""
        );
    }
}

/// System views that are read elsewhere.
mod system_views {

    fn redirected(sql: &str) -> Option<String> {
        let texts: Vec<_> = planner::parse(sql).unwrap().into_iter().map(|statement| statement.sql).collect();
        Some(texts.join("; ")).filter(|text| text != sql)
    }

    #[test]
    fn counts_of_all_nodes_are_asked_for_where_they_may_be_read() {
        let asks = |sql: &str| redirected(sql).is_some_and(|text| text.contains("told_statistics('pg_class')"));
        for sql in [
            "SELECT reltuples FROM pg_class",
            "SELECT c.relpages FROM pg_catalog.pg_class c",
            "SELECT * FROM t JOIN pg_class c ON true",
            "SELECT c.* FROM pg_class c, t",
            "SELECT (c).relname FROM pg_class c",
            "SELECT 1 FROM (SELECT * FROM pg_class) x",
            "SELECT relkind, sum(reltuples) FROM pg_class GROUP BY 1",
            "INSERT INTO t SELECT relpages FROM pg_class",
            "DELETE FROM t USING pg_class c WHERE c.relname = t.n RETURNING *",
            "CREATE TABLE t AS SELECT reltuples FROM pg_class",
        ] {
            assert!(asks(sql), "{sql}");
        }
        for sql in [
            "SELECT relname FROM pg_class",
            "SELECT * FROM (SELECT relname FROM pg_class) c",
            "SELECT a.* FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid",
            "SELECT count(*) FROM pg_class",
            "SELECT oid, reltuples FROM pg_class GROUP BY oid",
            "SELECT xmin, reltuples FROM pg_class",
            "SELECT reltuples FROM pg_class FOR SHARE",
            "DECLARE c CURSOR FOR SELECT reltuples FROM pg_class",
            "CREATE TABLE t AS SELECT * FROM pg_class",
            "CREATE VIEW v AS SELECT reltuples FROM pg_class",
            "UPDATE pg_class SET reltuples = 1",
            "SELECT reltuples FROM public.pg_class",
        ] {
            assert!(!asks(sql), "{sql}");
        }
    }

    #[test]
    fn the_view_is_read_elsewhere() {
        let cases = [
            ("SELECT gid FROM pg_prepared_xacts", "SELECT gid FROM loxo.pg_prepared_xacts"),
            (
                "SELECT 'é', PG_Prepared_Xacts.gid FROM \"pg_catalog\" . PG_Prepared_Xacts; SELECT 1",
                "SELECT 'é', PG_Prepared_Xacts.gid FROM loxo.pg_prepared_xacts; SELECT 1",
            ),
            (
                "SELECT tgname FROM pg_catalog.pg_trigger t, pg_prepared_xacts, information_schema.schemata",
                "SELECT tgname FROM loxo.pg_trigger() t, loxo.pg_prepared_xacts, (SELECT * FROM information_schema.schemata \
                 WHERE schema_name OPERATOR(pg_catalog.<>) 'loxo') AS schemata",
            ),
            (
                "SELECT 1; EXPLAIN SELECT (SELECT count(*) FROM pg_prepared_xacts p) FROM t",
                "SELECT 1; EXPLAIN SELECT (SELECT count(*) FROM loxo.pg_prepared_xacts p) FROM t",
            ),
            (
                "SELECT pg_table_size(c.oid), pg_table_size('t'::regclass), pg_database_size('d') FROM pg_class c",
                "SELECT loxo.pg_table_size(c.oid), pg_table_size('t'::regclass), loxo.pg_database_size('d') FROM \
                 (SELECT * FROM ONLY pg_catalog.pg_class WHERE relnamespace OPERATOR(pg_catalog.<>) 'loxo'::pg_catalog.regnamespace) c",
            ),
            (
                "COPY (TABLE pg_roles) TO STDOUT; CREATE VIEW v AS TABLE pg_locks; TABLE pg_stat_wal",
                "COPY (SELECT * FROM loxo.pg_roles()) TO STDOUT; CREATE VIEW v AS SELECT * FROM loxo.pg_locks(); SELECT * FROM loxo.pg_stat_wal()",
            ),
            ("SELECT rolname FROM ONLY pg_catalog.pg_authid a", "SELECT rolname FROM loxo.pg_authid() a"),
            (
                "SELECT pg_catalog . pg_terminate_backend(pid, 5) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
                "SELECT loxo.pg_terminate_backend(pid, 5) FROM loxo.pg_stat_activity() WHERE pid <> loxo.pg_backend_pid()",
            ),
            (
                "SELECT * FROM loxo_node_pg_stat_wal, pg_catalog.loxo_table_skew s, pg_statio_user_tables",
                "SELECT * FROM loxo.loxo_node_pg_stat_wal(), loxo.loxo_table_skew() s, loxo.pg_statio_user_tables()",
            ),
            (
                "DECLARE c CURSOR FOR SELECT * FROM pg_prepared_xacts a JOIN pg_catalog.pg_prepared_xacts b USING (gid)",
                "DECLARE c CURSOR FOR SELECT * FROM loxo.pg_prepared_xacts a JOIN loxo.pg_prepared_xacts b USING (gid)",
            ),
        ];
        for (sql, expected) in cases {
            assert_eq!(redirected(sql).as_deref(), Some(expected));
        }
        let triggers = redirected("TABLE information_schema.triggers").unwrap();
        assert!(triggers.starts_with("SELECT * FROM (SELECT trigger_catalog, "), "{triggers}");
        assert!(triggers.ends_with(") AS triggers"), "{triggers}");
    }

    #[test]
    fn other_things_of_that_name_are_left_alone() {
        for sql in [
            "SELECT 'pg_prepared_xacts'::regclass",
            "SELECT * FROM mine.pg_trigger, triggers",
            "SELECT pg_prepared_xacts FROM t",
            "SELECT * FROM mine.pg_prepared_xacts",
            "WITH pg_prepared_xacts AS (SELECT 1) SELECT * FROM pg_prepared_xacts",
            "GRANT SELECT ON pg_prepared_xacts TO PUBLIC",
            "SELECT * FROM pg_prepared_statements, pg_stat_io, loxo_node_x, public.loxo_table_skew",
            "SELECT mine.pg_backend_pid(), pg_backend_pid FROM t",
            "CREATE VIEW v AS SELECT rolname, datname FROM pg_roles JOIN pg_database ON datdba = pg_roles.oid",
            "INSERT INTO mine.pg_roles VALUES (1)",
            // They need more than a sub-select has.
            "SELECT xmin, relname FROM pg_class",
            "SELECT c.relname, count(*) FROM pg_class c GROUP BY c.oid",
            "SELECT xmin, pg_catalog.pg_class.oid FROM pg_catalog.pg_class",
            // The schema tells two tables of one name apart.
            "SELECT pg_catalog.pg_class.oid, mine.pg_class.oid FROM pg_catalog.pg_class, mine.pg_class",
            "SELECT pg_catalog.pg_class.oid FROM pg_catalog.pg_class WHERE EXISTS (SELECT FROM t AS pg_class)",
            "SELECT oid FROM ONLY pg_class FOR SHARE",
            "CREATE VIEW v AS SELECT relname FROM pg_class",
            "CREATE MATERIALIZED VIEW v AS SELECT relname FROM pg_class",
        ] {
            assert_eq!(redirected(sql), None, "{sql}");
        }
    }
}

/// What pg_dump reads.
mod dump {
    use planner::parse_for_dump;

    fn seen(sql: &str) -> String {
        parse_for_dump(sql).unwrap()[0].sql.to_string()
    }

    #[test]
    fn a_dump_sees_nothing_of_ours() {
        let text =
            seen("SELECT n.tableoid, 'pg_class'::regclass FROM pg_namespace n, pg_attribute, pg_catalog.pg_class");
        assert!(
            text.starts_with(
                "SELECT n.tableoid, 'pg_class'::regclass FROM (SELECT *, tableoid FROM pg_catalog.pg_namespace "
            ),
            "{text}"
        );
        assert!(
            text.contains(" 'loxo') n, pg_attribute, (SELECT *, tableoid FROM ONLY pg_catalog.pg_class "),
            "{text}"
        );
        assert!(text.ends_with(" 'loxo'::pg_catalog.regnamespace) AS pg_class"), "{text}");
    }

    #[test]
    fn other_texts_stay() {
        for sql in ["SELECT 1 FROM pg_index", "LOCK TABLE public.pg_class", "SELECT * FROM public.pg_class"] {
            assert_eq!(seen(sql), sql);
        }
    }
}
