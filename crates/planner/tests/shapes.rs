//! How texts of statements are cut: constants out of a shape, rows out of an INSERT.

/// Rows of INSERT.
mod rows {
    use planner::ManyRows;

    /// One row of each kind as a statement.
    fn scanned(sql: &str) -> Option<Vec<String>> {
        let mut rows = ManyRows::default();
        rows.scan(sql).then(|| (0..rows.kinds()).map(|kind| rows.one(sql, kind)).collect())
    }

    #[test]
    fn rows_are_cut_out() {
        let sql = "Insert into \"A b\".t (x, values) VALUES (1, 'it''s'),\n ( -2.5 , NULL),($1,true)  RETURNING x";
        assert_eq!(scanned(sql).unwrap(), ["Insert into \"A b\".t (x, values) VALUES (1, 'it''s')  RETURNING x"]);
        let mut many = ManyRows::default();
        assert!(many.scan(sql));
        let twice = "Insert into \"A b\".t (x, values) VALUES (1, 'it''s'), (1, 'it''s')  RETURNING x";
        assert_eq!(many.twice(sql, 0), twice);
    }

    #[test]
    fn rows_that_differ_in_more_than_constants_are_of_several_kinds() {
        for (sql, expected) in [
            ("INSERT INTO t VALUES (1, upper('a')), (NULL, upper(\n 'b,)' ) ), (-3,upper('c'))", 2),
            ("INSERT INTO t VALUES (1, DEFAULT), (2, 5), (3, DEFAULT)", 2),
            ("INSERT INTO t VALUES (1, 2 + 3), (2, 2.5 + 3), (2, '2' + 3), (3, 4 + 5)", 3),
            ("INSERT INTO t VALUES (1, f(1)), (2, f(NULL)), (3, f(-1)), (4, f(1 ))", 4),
            ("INSERT INTO t VALUES (1, array[1, 2]), (2, array[3]), (3, (array[3, 4])[1])", 3),
            ("INSERT INTO t VALUES (1, '{1}'::int[]), (2, '{2}'::int[]), (3, '{2}'::text[])", 2),
            ("INSERT INTO t VALUES (1, f($1)), (2, f($2)), (3, f($1))", 2),
            ("INSERT INTO t VALUES (1, 2 - 3), (2, 2 -3), (3, 2-3)", 3),
        ] {
            assert_eq!(scanned(sql).map(|kinds| kinds.len()), Some(expected), "{sql}");
        }
        let many = |kinds: usize| (0..kinds).map(|n| format!("(f{n}())")).collect::<Vec<_>>().join(",");
        assert!(scanned(&format!("INSERT INTO t VALUES {}", many(64))).is_some());
        assert!(scanned(&format!("INSERT INTO t VALUES {}", many(65))).is_none());
    }

    #[test]
    fn whatever_is_not_sure_to_be_read_takes_the_long_way() {
        for sql in [
            "INSERT INTO t VALUES (1)",
            "INSERT INTO t VALUES (1), (2, 3)",
            "INSERT INTO t VALUES (1, 2), (3)",
            "INSERT INTO t VALUES (1), ('now')",
            "INSERT INTO t VALUES (1), (upper('now'))",
            "INSERT INTO t VALUES (1), (upper(E'a'))",
            "INSERT INTO t VALUES (1), ($$a$$)",
            "INSERT INTO t VALUES (1), (date '2020-01-01'), (upper('a\\b'))",
            "INSERT INTO t VALUES (1), (--2)",
            "INSERT INTO t VALUES (1), (/* x */ 2)",
            "INSERT INTO t VALUES (1), ()",
            "INSERT INTO t VALUES (1), ( , 2)",
            "INSERT INTO t VALUES (1), (2",
            "INSERT INTO t VALUES (1), ((2)",
            "INSERT INTO t VALUES (1), (2])",
            "INSERT INTO t VALUES (1), (f(2; 3))",
            "INSERT INTO t SELECT 1",
            "INSERT INTO t VALUES (1), ('a' 'b')",
            "WITH x AS (SELECT 1) INSERT INTO t VALUES (1), (2)",
            "INSERT INTO t /* x */ VALUES (1), (2)",
        ] {
            assert_eq!(scanned(sql), None, "{sql}");
        }
    }
}

/// Shapes of statements.
mod shape {
    use planner::Shape;

    fn shape(sql: &str) -> Option<String> {
        let mut shape = Shape::default();
        shape.scan(sql).then(|| shape.text().iter().map(|b| if *b < 4 { '_' } else { char::from(*b) }).collect())
    }

    #[test]
    fn constants_are_cut_out() {
        let text = shape("select a1, -5, 2.50, 'it''s é' from \"T 1\" where x = $12 and y[3]>='x'");
        assert_eq!(text.as_deref(), Some("select a1, -_, _, _ from \"T 1\" where x = $12 and y[_]>=_"));
    }

    #[test]
    fn whatever_might_be_read_otherwise_has_no_shape() {
        for sql in [
            "SELECT 1; SELECT 2",
            "SELECT 1 -- x",
            "SELECT /* x */ 1",
            "SELECT E'a'",
            "SELECT e'a'",
            "SELECT U&'a'",
            "SELECT U&\"a\"",
            "SELECT B'1'",
            "SELECT x'1f'",
            "SELECT date'2024-01-01'",
            "SELECT 'a\\b'",
            "SELECT 'a'\n'b'",
            "SELECT 'a' 'b'",
            "SELECT 'a",
            "SELECT \"a",
            "SELECT $$a$$",
            "SELECT $a$b$a$",
            "SELECT $1a",
            "SELECT 1e5",
            "SELECT 1_000",
            "SELECT 0x1f",
            "SELECT 1a",
            "SELECT .5",
            "SELECT 1..2",
            "SELECT é",
            "SELECT aé",
            "SELECT 1\u{1}",
            "SELECT ' Now '",
            "SELECT \\x",
        ] {
            assert_eq!(shape(sql), None, "{sql}");
        }
        assert_eq!(shape(&format!("SELECT '{}'", "x".repeat(4096))), None);
    }
}
