//! A template must give the plan that the planner gives: every statement of the plan tests and of the case files, with
//! other constants and parameters each time, planned both ways.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use catalog::{Catalog, Column, ForeignKey, NodeId, Relation, RelationKind, Rule, RuleEvent, RuleState};
use planner::{
    Exchanges, Learned, ManyRows, Parameter, ParameterValue, Plan, SessionFacts, Shape, Stop, Template, parse, plan,
};

mod common;

/// Times that each statement is tried with other constants.
const VARIANTS: usize = 24;

/// Statements that must have a template, or this test would prove nothing about them.
const TEMPLATED: [&str; 22] = [
    "SELECT * FROM orders WHERE o_orderkey = 5",
    "SELECT o_total + 1.5 FROM orders o WHERE 7 = o.o_orderkey AND o_total > -3 ORDER BY 1 LIMIT 3",
    "SELECT count(*), 'it''s' FROM orders WHERE o_orderkey = $1 AND o_custkey IN (1, 2) FOR UPDATE",
    "SELECT * FROM pairs WHERE p_a = 5 AND p_b = 'x' AND p_c = 1",
    "SELECT * FROM public.modded WHERE m_id = 3 AND (m_text = 'a' OR m_text = 'b')",
    "SELECT o_total FROM orders WHERE o_orderkey = '12'",
    "UPDATE orders SET o_total = o_total + 5 WHERE o_orderkey = 9 AND o_custkey = 3",
    "UPDATE pairs SET p_c = 3 WHERE p_b = 'y' AND p_a = $1 RETURNING p_c",
    "DELETE FROM modded WHERE m_id = 4",
    "DELETE FROM orders WHERE o_orderkey = $1 AND o_date < CURRENT_DATE",
    "INSERT INTO orders (o_custkey, o_orderkey, o_date) VALUES (1, 2, now())",
    "INSERT INTO orders VALUES (1, 2, '2024-01-01', 1.5)",
    "INSERT INTO modded VALUES ($1, 'x') ON CONFLICT DO NOTHING RETURNING 1",
    "INSERT INTO customer (c_custkey, c_name) VALUES ('7', 'x')",
    "INSERT INTO orders SELECT * FROM orders WHERE o_orderkey = 5",
    "INSERT INTO orders (o_total, o_orderkey) SELECT x.o_total + 5, x.o_orderkey FROM orders x WHERE x.o_orderkey = $1",
    "INSERT INTO orders SELECT o_orderkey, 7 FROM orders WHERE o_custkey = 3 AND o_total < 1.5",
    "INSERT INTO orders SELECT orders.* FROM orders",
    "SELECT o_total + 5 FROM orders WHERE o_custkey = 12",
    "SELECT * FROM pairs WHERE p_c IN (1, 2)",
    "UPDATE orders SET o_total = 5 WHERE o_custkey = $1",
    "DELETE FROM modded WHERE m_text = 'x'",
];

/// Statements that a template would get wrong.
const UNTEMPLATED: [&str; 22] = [
    "SELECT * FROM orders WHERE o_orderkey = 5 AND o_orderkey = 6",
    "SELECT * FROM orders WHERE o_orderkey = 5 OR o_custkey = 6",
    "SELECT * FROM orders WHERE o_orderkey = 5 AND o_custkey = o_orderkey",
    "SELECT * FROM orders WHERE o_orderkey IN (5)",
    "SELECT * FROM orders WHERE o_orderkey = 5 AND o_custkey = (SELECT 5)",
    "SELECT * FROM orders, customer WHERE o_orderkey = 5 AND c_custkey = 5",
    "WITH x AS (SELECT 1) SELECT * FROM orders WHERE o_orderkey = 5",
    "SELECT count_orders() FROM orders WHERE o_orderkey = 5",
    "SELECT nextval('s') FROM orders WHERE o_orderkey = 5",
    "UPDATE orders SET o_orderkey = 5 WHERE o_orderkey = 5",
    "INSERT INTO orders VALUES (1), (2)",
    "SELECT * FROM nation WHERE n_key = 1",
    "SELECT o_orderkey FROM orders GROUP BY 1",
    "SELECT o_custkey FROM orders WHERE o_custkey = 5 ORDER BY 1",
    "SELECT o_custkey FROM orders WHERE o_custkey = 5 LIMIT 1",
    "SELECT count(*) FROM orders WHERE o_custkey = 5",
    "SELECT * FROM orders WHERE o_date < now()",
    "INSERT INTO orders SELECT 5, o_custkey FROM orders WHERE o_orderkey = 5",
    "INSERT INTO orders SELECT o_custkey, o_orderkey FROM orders WHERE o_orderkey = 5",
    "INSERT INTO orders SELECT o_orderkey, o_custkey FROM orders WHERE o_orderkey = 5 AND o_custkey = o_orderkey",
    "INSERT INTO orders SELECT o_orderkey, 5 FROM orders GROUP BY 1",
    "INSERT INTO orders SELECT o_orderkey FROM orders LIMIT 5",
];

/// A small generator of its own: the same cases every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn one_of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }

    fn integer(&mut self) -> String {
        match self.below(4) {
            0 => self.one_of(&["0", "007", "2147483647", "2147483648", "9223372036854775808", "00"]).to_owned(),
            _ => self.below(100_000).to_string(),
        }
    }

    /// Another constant of the kind.
    fn literal(&mut self, literal: &str) -> String {
        if literal.starts_with('\'') {
            return match self.below(3) {
                0 => format!("'{}'", self.integer()),
                _ => {
                    self.one_of(&["''", "'x'", "' 12'", "'it''s'", "'é ü'", "'2024-02-29'", "'-3'", "'a;b'"]).to_owned()
                }
            };
        }
        match literal.contains('.') {
            true => self.one_of(&["1.5", "2.0", "0.1", "5.", "00.5", "123456789012.25"]).to_owned(),
            false => self.integer(),
        }
    }

    fn parameter(&mut self) -> Parameter<'static> {
        const VALUES: [ParameterValue<'static>; 7] = [
            ParameterValue::Unknown,
            ParameterValue::Null,
            ParameterValue::Text(b"42"),
            ParameterValue::Text(b" 43"),
            ParameterValue::Text(b"x"),
            ParameterValue::Binary(&[0, 0, 0, 0, 0, 0, 1, 2]),
            ParameterValue::Binary(&[0, 0, 0, 9]),
        ];
        Parameter { type_oid: [0, 20, 23, 25, 1700][self.below(5)], value: VALUES[self.below(VALUES.len())] }
    }
}

fn facts<'a>(path: &'a [String], parameters: &'a [Parameter<'a>], in_transaction: bool) -> SessionFacts<'a> {
    SessionFacts {
        home: NodeId(0),
        search_path: path,
        temp_relations: &[],
        temp_views: &[],
        temp_code: &[],
        temp_functions: &[],
        temp_types: &[],
        parameters,
        describe: None,
        in_transaction,
        clock: None,
        now: None,
        exchanges: Exchanges::Seeing,
        estimates: None,
        few_rows: 0.0,
        stop: Stop::default(),
        depends: None,
    }
}

fn with_other_constants(sql: &str, shape: &Shape, random: &mut Random) -> String {
    let (mut text, mut at) = (Vec::new(), 0);
    for byte in shape.text() {
        let is_mark = byte.is_ascii_control() && !byte.is_ascii_whitespace();
        let end = at + if is_mark { literal_length(&sql[at..]) } else { 1 };
        match is_mark {
            true => text.extend_from_slice(random.literal(&sql[at..end]).as_bytes()),
            false => text.push(*byte),
        }
        at = end;
    }
    String::from_utf8(text).unwrap()
}

/// Of the constant that a text begins with.
fn literal_length(text: &str) -> usize {
    match text.strip_prefix('\'') {
        Some(string) => 2 + string.replace("''", "__").find('\'').expect("the end of a string"),
        None => text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()),
    }
}

/// The statement with rows of all its kinds so many times, each changed.
fn mixed(rows: &ManyRows, sql: &str, times: usize, mut change: impl FnMut(&str) -> String) -> String {
    let values = sql.to_ascii_lowercase();
    let mut words = values.match_indices("values").map(|(at, word)| at + word.len());
    let before = words.find(|at| values[*at..].trim_start().starts_with('(')).expect("rows");
    let start = before + values[before..].find('(').expect("rows");
    let kinds: Vec<(String, usize)> = (0..rows.kinds())
        .map(|kind| {
            let one = rows.one(sql, kind);
            let length = rows.twice(sql, kind).len() - one.len() - ", ".len();
            (one, start + length)
        })
        .collect();
    let all = kinds.iter().cycle().take(kinds.len() * times);
    let texts: Vec<String> = all.map(|(one, end)| change(&one[start..*end])).collect();
    let (one, end) = &kinds[0];
    [&sql[..start], &texts.join(", "), &one[*end..]].concat()
}

/// All statements of plan tests and case files.
fn statements() -> HashSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found: HashSet<String> = TEMPLATED.iter().chain(&UNTEMPLATED).map(|sql| (*sql).to_owned()).collect();
    let mut folders = vec![root.join("tests/plans"), root.join("../e2e/cases")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap();
            let pieces = text.split(";\n").flat_map(|piece| piece.split("\n\n")).flat_map(|p| p.split("\n----"));
            found.extend(pieces.map(|piece| piece.trim().trim_end_matches(';').to_owned()));
        }
    }
    found
}

fn learn(sql: &str, shape: &mut Shape, catalog: &Catalog, path: &[String]) -> Option<Template> {
    let parameters = [Parameter { type_oid: 20, value: ParameterValue::Text(b"42") }; 4];
    shape.scan(sql).then(|| Template::learn(sql, shape, catalog, &facts(path, &parameters, false))).flatten()
}

#[test]
fn a_template_gives_the_planner_s_own_plan() {
    let (catalog, path, mut random) = (common::catalog(), ["public".to_owned()], Random(0x5eed));
    let (mut templates, mut compared, mut scattered, mut nodes) = (0, 0, 0, HashSet::new());
    for sql in statements() {
        let mut shape = Shape::default();
        let Some(template) = learn(&sql, &mut shape, &catalog, &path) else { continue };
        templates += 1;
        for variant in 0..VARIANTS {
            let other = with_other_constants(&sql, &shape, &mut random);
            let mut other_shape = Shape::default();
            assert!(other_shape.scan(&other) && other_shape.text() == shape.text(), "{other} has another shape");
            let parameters: Vec<Parameter<'_>> = (0..4).map(|_| random.parameter()).collect();
            let Some(mine) = template.plan(&other, &other_shape, &parameters) else { continue };
            let facts = facts(&path, &parameters, variant % 2 == 0);
            let fresh = parse(&other).and_then(|list| plan(&list[0], &catalog, &facts));
            let is_same = fresh.as_ref().is_ok_and(|fresh| fresh.does_the_same(&mine));
            assert!(is_same, "{other}: {mine:?}, not {fresh:?}");
            compared += 1;
            match mine {
                Plan::Forward(forward) => nodes.extend(forward.nodes),
                _ => scattered += 1,
            }
        }
    }
    assert!(templates >= TEMPLATED.len() && compared >= 5 * templates, "{templates} templates, {compared} plans");
    assert!(scattered > 0);
    assert_eq!(nodes.len(), 3, "all nodes are met");
}

/// INSERTs whose rows must have templates, or the next test would prove nothing about them.
const ROWS: [&str; 7] = [
    "INSERT INTO orders (o_orderkey, o_custkey, o_total) VALUES (1, 2 + 3, DEFAULT), (2, abs(-5), 1.5), ($1, NULL, 2 * (3 + 4.5))",
    "INSERT INTO modded VALUES (1, upper('a')), (2, NULL), ($1, 'it''s' || lower('B, (c)')), (4, repeat('x', 3)) RETURNING m_id",
    "INSERT INTO modded VALUES (7, 'x'::text), (8, CASE WHEN 1 < 2 THEN 'a' ELSE 'b' END) ON CONFLICT DO NOTHING",
    "INSERT INTO orders (o_custkey, o_orderkey) VALUES (random() * 5, 1), ((array[1, 2])[1], 2), (('{3}'::int[])[1], 3)",
    "INSERT INTO pairs VALUES (1, 'x', 2), (3, 'y', 4 % 5), (6, 'z', coalesce(NULL, 7))",
    "INSERT INTO modded VALUES ($1, upper($2)), (2, upper($2)), (3, $2::text)",
    "INSERT INTO customer (c_custkey, c_name) VALUES (7, substr('abc', 2)), (8, current_user::text)",
];

/// The plan by templates of one row of each kind; `None` if a kind has none.
fn plan_of_rows(sql: &str, catalog: &Catalog, path: &[String], parameters: &[Parameter<'_>]) -> Option<Plan> {
    let mut rows = ManyRows::default();
    if !rows.scan(sql) {
        return None;
    }
    let learned = (0..rows.kinds()).map(|kind| {
        let mut shape = Shape::default();
        learn(&rows.one(sql, kind), &mut shape, catalog, path).map(|template| (template, shape))
    });
    let learned: Vec<(Template, Shape)> = learned.collect::<Option<_>>()?;
    let learned: Vec<Learned<'_>> = learned.iter().map(|(template, shape)| (template, shape)).collect();
    rows.plan(sql, &learned, parameters)
}

#[test]
fn rows_of_several_kinds_go_where_the_planner_sends_them() {
    let (catalog, path, mut random) = (common::catalog(), ["public".to_owned()], Random(0xf00d));
    let listed: Vec<String> = ROWS.iter().map(|sql| (*sql).to_owned()).collect();
    let others = statements().into_iter().filter(|sql| ManyRows::default().scan(sql));
    let (mut split, mut kinds_max) = (0, 0);
    for (number, sql) in listed.iter().cloned().chain(others).enumerate() {
        let mut compared = 0;
        let mut rows = ManyRows::default();
        assert!(rows.scan(&sql), "no rows: {sql}");
        kinds_max = kinds_max.max(rows.kinds());
        for variant in 0..VARIANTS {
            let other = mixed(&rows, &sql, 1 + usize::from(rows.kinds() == 1) + variant % 5, |row| {
                let mut shape = Shape::default();
                if shape.scan(row) { with_other_constants(row, &shape, &mut random) } else { row.to_owned() }
            });
            let parameters: Vec<Parameter<'_>> = (0..4).map(|_| random.parameter()).collect();
            let Some(mine) = plan_of_rows(&other, &catalog, &path, &parameters) else { continue };
            let facts = facts(&path, &parameters, variant % 2 == 0);
            let fresh = parse(&other).and_then(|list| plan(&list[0], &catalog, &facts));
            assert!(fresh.as_ref().is_ok_and(|fresh| fresh.does_the_same(&mine)), "{other}: {mine:?}, not {fresh:?}");
            compared += 1;
            split += usize::from(matches!(mine, Plan::InsertSplit(_)));
        }
        assert!(compared > 0 || number >= listed.len(), "never planned by its rows: {sql}");
    }
    assert!(split > 20 && kinds_max >= 4, "{split} plans over several nodes, {kinds_max} kinds of rows");
}

#[test]
fn rows_of_any_kind_without_a_template_take_the_long_way() {
    let (catalog, path) = (common::catalog(), ["public".to_owned()]);
    for sql in [
        "INSERT INTO orders (o_orderkey, o_custkey) VALUES (1, 2), (2, (SELECT 3))",
        "INSERT INTO orders (o_orderkey, o_custkey) VALUES (1, 2), (2, nextval('s'))",
        "INSERT INTO orders (o_orderkey, o_custkey) VALUES (1, 2), (2, count_orders())",
        "INSERT INTO orders (o_orderkey, o_custkey) VALUES (1, 2), (1 + 1, 3)",
        "INSERT INTO orders (o_orderkey, o_custkey) VALUES (1, 2), (abs(2), 3)",
        "INSERT INTO orders (o_orderkey, o_custkey) VALUES (1, 2), (DEFAULT, 3)",
        "INSERT INTO orders (o_orderkey, o_custkey) VALUES (1, 2), (NULL, 3)",
        "INSERT INTO orders (o_orderkey, o_custkey) VALUES (1, 2), ((2), 3)",
        "INSERT INTO orders (o_orderkey, o_date) VALUES (1, now()), (2, now()), (3, now())",
        "INSERT INTO orders (o_orderkey, o_date) VALUES (1, '2024-01-01'), (2, '2024-01-01'), (3, now())",
        "INSERT INTO nation VALUES (1, upper('a')), (2, upper('b'))",
    ] {
        assert!(ManyRows::default().scan(sql), "no rows: {sql}");
        assert!(plan_of_rows(sql, &catalog, &path, &[]).is_none(), "{sql}");
    }
    let of_one_node = "INSERT INTO orders (o_orderkey, o_date) VALUES (1, '2024-01-01'), (1, now())";
    assert!(plan_of_rows(of_one_node, &catalog, &path, &[]).is_some());
}

#[test]
fn numbers_in_plain_places_become_parameters() {
    let (catalog, path) = (common::catalog(), ["public".to_owned()]);
    let parameterised = |sql: &str| {
        let mut shape = Shape::default();
        let template = learn(sql, &mut shape, &catalog, &path).unwrap_or_else(|| panic!("no template: {sql}"));
        template.parameterise(sql, &shape)
    };
    let text =
        parameterised("UPDATE orders SET o_custkey=o_custkey + -15, o_total = 3 WHERE o_orderkey = 123").unwrap();
    assert_eq!(text.sql, "UPDATE orders SET o_custkey=o_custkey + $1, o_total = $2 WHERE o_orderkey = $3");
    assert_eq!(text.values, ["-15", "3", "123"]);
    // The same word after each number, in both texts.
    let places = [(20, 20), (43, 44), (57, 57), (61, 61)];
    assert_eq!(places.map(|(here, _)| text.user_position(here)), places.map(|(_, there)| there));
    let row = parameterised("INSERT INTO orders VALUES (1, -2, CURRENT_DATE, 4)").unwrap();
    assert_eq!((row.sql.as_str(), row.values.len()), ("INSERT INTO orders VALUES ($1, $2, CURRENT_DATE, $3)", 3));
    for sql in [
        "SELECT o_total FROM orders WHERE o_orderkey = 5 ORDER BY 1",
        "SELECT o_custkey + 1 FROM orders WHERE o_orderkey = 5 GROUP BY o_custkey + 1",
        "SELECT o_total FROM orders WHERE o_orderkey = 5 LIMIT 1",
        "SELECT abs(o_total) FROM orders WHERE o_orderkey = 5",
        "SELECT 1 FROM orders WHERE o_orderkey = 5",
        "SELECT o_total::numeric(9, 1) FROM orders WHERE o_orderkey = 5",
        "SELECT o_total FROM orders WHERE o_orderkey = 5 AND o_custkey IN (1, 2)",
        "SELECT o_total FROM orders WHERE o_orderkey = 5 AND o_custkey = 1.5",
        "SELECT o_total FROM orders WHERE o_orderkey = 5 AND o_custkey = - 1",
        "SELECT o_total FROM orders WHERE o_orderkey = 5 AND o_custkey = '1'",
        "SELECT o_total FROM orders WHERE o_orderkey = 5 AND o_custkey = $1",
        "SELECT o_total FROM orders WHERE o_orderkey = 1234567890",
        "INSERT INTO modded VALUES (1, 'x')",
        "INSERT INTO orders VALUES (1, 2) ON CONFLICT DO NOTHING",
    ] {
        assert_eq!(parameterised(sql), None, "{sql}");
    }
}

#[test]
fn another_nodes_time_is_a_parameter_or_a_constant() {
    let (catalog, path) = (common::catalog(), ["public".to_owned()]);
    let moment = planner::Moment { transaction: "then".to_owned(), statement: "later".to_owned() };
    let template = |sql: &str| {
        let mut shape = Shape::default();
        let template = learn(sql, &mut shape, &catalog, &path).unwrap_or_else(|| panic!("no template: {sql}"));
        assert!(template.reads_clock(), "{sql}");
        (template, shape)
    };
    let timed = |sql: &str, own: Option<usize>| {
        let (template, shape) = template(sql);
        let timed = template.at_one_moment(sql, &shape, &moment, own);
        assert_eq!(timed.is_some(), template.takes_moment(sql), "{sql}");
        timed.map(|timed| (timed.sql, timed.values.join(","), timed.moments.join(",")))
    };
    for (sql, own, expected, values, moments) in [
        (
            "INSERT INTO orders VALUES (1, -2, CURRENT_DATE, 4)",
            None,
            "INSERT INTO orders VALUES ($1, $2, (($4::pg_catalog.timestamptz)::pg_catalog.date), $3)",
            "1,-2,4",
            "then",
        ),
        (
            "INSERT INTO orders (o_date, o_orderkey) VALUES (pg_catalog.now ( ) - '1 day'::interval, 1)",
            None,
            "INSERT INTO orders (o_date, o_orderkey) VALUES (('then'::pg_catalog.timestamptz) - '1 day'::interval, 1)",
            "",
            "",
        ),
        (
            "UPDATE orders SET (o_date, o_total) = (now(), 3) WHERE o_orderkey = 7",
            None,
            "UPDATE orders SET (o_date, o_total) = (('then'::pg_catalog.timestamptz), 3) WHERE o_orderkey = 7",
            "",
            "",
        ),
        (
            "INSERT INTO orders (o_date, o_orderkey) VALUES (now(), 1)",
            None,
            "INSERT INTO orders (o_date, o_orderkey) VALUES (($2::pg_catalog.timestamptz), $1)",
            "1",
            "then",
        ),
        (
            "UPDATE orders SET o_date = statement_timestamp(), o_total = $2 WHERE o_orderkey = $1 AND o_date < now()",
            Some(2),
            "UPDATE orders SET o_date = ($4::pg_catalog.timestamptz), o_total = $2 WHERE o_orderkey = $1 \
             AND o_date < ($3::pg_catalog.timestamptz)",
            "",
            "then,later",
        ),
        (
            "DELETE FROM orders WHERE CURRENT_TIMESTAMP > o_date AND o_orderkey = 7",
            None,
            "DELETE FROM orders WHERE (($2::pg_catalog.timestamptz)::pg_catalog.timestamptz) > o_date AND o_orderkey = $1",
            "7",
            "then",
        ),
    ] {
        let (of_sql, of_values, of_moments) = timed(sql, own).unwrap_or_else(|| panic!("no time: {sql}"));
        assert_eq!((of_sql.as_str(), of_values.as_str(), of_moments.as_str()), (expected, values, moments));
    }
    // Columns that are named after it, a precision among the constants, other spellings, a text with positions of its own.
    for sql in [
        "SELECT o_total FROM orders WHERE o_orderkey = 5 AND o_date < now()",
        "UPDATE orders SET o_total = 1 WHERE o_orderkey = 5 RETURNING now()",
        "INSERT INTO orders (o_orderkey, o_date) VALUES (1, CURRENT_TIMESTAMP(2))",
        "INSERT INTO orders (o_orderkey, o_date) VALUES (1, pg_catalog.\"now\"())",
        "INSERT INTO orders (o_orderkey, o_date) VALUES (1, pg_catalog . now())",
        "INSERT INTO orders (o_orderkey, o_date) VALUES (1, pg_catalog. now())",
        "UPDATE orders SET o_date = now() WHERE o_orderkey = 5 AND o_comment = 'é'",
    ] {
        assert_eq!(timed(sql, None), None, "{sql}");
    }
}

#[test]
fn which_statements_have_a_template() {
    let (catalog, path) = (common::catalog(), ["public".to_owned()]);
    for (list, expected) in [(&TEMPLATED[..], true), (&UNTEMPLATED[..], false)] {
        for sql in list {
            let learned = learn(sql, &mut Shape::default(), &catalog, &path);
            assert_eq!(learned.is_some(), expected, "{sql}");
        }
    }
}

#[test]
fn which_inserts_look_at_nothing_but_their_row() {
    let (catalog, path) = (common::catalog(), ["public".to_owned()]);
    let found = |sql: &str| {
        let template =
            learn(sql, &mut Shape::default(), &catalog, &path).unwrap_or_else(|| panic!("no template: {sql}"));
        (template.is_snapshot_independent(), template.repeated(sql).is_some())
    };
    assert_eq!(found("INSERT INTO orders (o_orderkey, o_custkey) VALUES ($1, $2)"), (true, true));
    for sql in [
        "INSERT INTO orders VALUES (1, 2, '2024-01-01', DEFAULT)",
        "INSERT INTO orders (o_orderkey) VALUES ($1) RETURNING o_orderkey, o_total",
    ] {
        assert_eq!(found(sql), (true, false), "{sql}");
    }
    let texts = |sql: &str, catalog: &Catalog| {
        let template = learn(sql, &mut Shape::default(), catalog, &path).expect("a template");
        template.repeated(sql).expect("texts").texts.clone()
    };
    let (rows, text) = texts("INSERT INTO orders (o_custkey, o_orderkey) VALUES ($2, $1)", &catalog).pop().unwrap();
    assert_eq!(rows, 8);
    assert!(
        text.starts_with("INSERT INTO orders (o_custkey, o_orderkey) VALUES ($2, $1), ($4, $3), ($6, $5), "),
        "{text}"
    );
    assert!(text.ends_with(", ($14, $13), ($16, $15)"), "{text}");
    let wide = common::catalog_but(
        |table| {
            let more =
                (5..=600).map(|number| Column { number, name: format!("c{number}"), ..table.columns[1].clone() });
            let more: Vec<Column> = if table.name == "orders" { more.collect() } else { Vec::new() };
            table.columns.extend(more);
        },
        |_| {},
    );
    let values: Vec<String> = (1..=600).map(|number| format!("${number}")).collect();
    let sizes: Vec<usize> = texts(&format!("INSERT INTO orders VALUES ({})", values.join(",")), &wide)
        .into_iter()
        .map(|(rows, _)| rows)
        .collect();
    assert_eq!(sizes, [32, 8]);
    for sql in [
        "INSERT INTO orders (o_orderkey, o_date) VALUES ($1, now())",
        "INSERT INTO orders (o_orderkey) VALUES ($1) ON CONFLICT DO NOTHING",
        "INSERT INTO orders (o_orderkey) VALUES ($1) RETURNING abs(o_total)",
        "UPDATE orders SET o_total = $1 WHERE o_orderkey = $2",
    ] {
        assert_eq!(found(sql), (false, false), "{sql}");
    }
}

#[test]
fn nothing_of_the_user_s_may_happen_at_a_snapshot_independent_insert() {
    let key = || ForeignKey {
        on_delete: 'a',
        on_update: 'a',
        name: "f".to_owned(),
        columns: vec![2],
        referenced: 1,
        referenced_columns: vec![1],
        cascades: false,
        resets: Vec::new(),
        acts: false,
    };
    let rule = || Rule {
        name: "r".to_owned(),
        event: RuleEvent::Insert,
        state: RuleState::Disabled,
        definition: String::new(),
    };
    let acts: [&dyn Fn(&mut Relation); 6] = [
        &|relation| relation.has_triggers = true,
        &|relation| relation.rules.push(rule()),
        &|relation| relation.is_barrier = true,
        &|relation| relation.code = Some(Arc::default()),
        &|relation| relation.kind = RelationKind::PartitionedTable,
        &|relation| relation.foreign_keys.push(key()),
    ];
    let sql = "INSERT INTO orders (o_orderkey) VALUES ($1)";
    let is_independent = |catalog: &Catalog| {
        let template = learn(sql, &mut Shape::default(), catalog, &["public".to_owned()]);
        template.is_some_and(|template| template.is_snapshot_independent())
    };
    assert!(is_independent(&common::catalog()));
    for (number, act) in acts.iter().enumerate() {
        let changed = common::catalog_but(
            |table| {
                if table.name == "orders" {
                    act(table)
                }
            },
            |_| {},
        );
        assert!(!is_independent(&changed), "change {number}");
    }
}

/// Rows that lack something.
mod completed {
    use planner::{ManyRows, Moment};

    use super::{common, facts, plan_of_rows};

    const AT: &str = "'2024-05-06 07:08:09+00'::pg_catalog.timestamptz";
    /// As a tree is printed.
    const PRINTED: &str = "'2024-05-06 07:08:09+00'::timestamp with time zone";

    fn completed(sql: &str) -> Option<String> {
        let (catalog, path) = (common::catalog(), ["public".to_owned()]);
        let moment =
            Moment { transaction: "2024-05-06 07:08:09+00".into(), statement: "2024-05-06 07:08:10+00".into() };
        let mut rows = ManyRows::default();
        assert!(rows.scan(sql), "no rows: {sql}");
        let completion = rows.completion(sql, &catalog, &facts(&path, &[], false), &moment)?;
        let count: usize = rows.draws(&completion).iter().map(|(_, count)| count).sum();
        let numbers: Vec<String> = (0..count).map(|number| (number + 7).to_string()).collect();
        let completed = rows.completed(sql, &completion, |at| numbers.get(at).map(String::as_str)).expect("numbers");
        assert!(plan_of_rows(&completed, &catalog, &path, &[]).is_some(), "{completed}");
        let sample = rows.completed_sample(sql, &completion).expect("a sample");
        assert!(plan_of_rows(&sample, &catalog, &path, &[]).is_some(), "{sample}");
        Some(completed)
    }

    #[test]
    fn rows_get_the_time_and_numbers() {
        for (sql, expected) in [
            (
                "INSERT INTO orders (o_orderkey, o_date) VALUES (1, now()), (2, pg_catalog.now( ) + '2 d'::interval), (3, NULL)",
                format!(
                    "INSERT INTO orders (o_orderkey, o_date) VALUES (1, ({AT})),\n(2, ({AT}) + '2 d'::interval),\n(3, NULL)"
                ),
            ),
            (
                "INSERT INTO orders (o_orderkey, o_date) VALUES (1, date_trunc('d', CURRENT_TIMESTAMP(0))), (2, date_trunc( 'm',CURRENT_TIMESTAMP (0)))",
                format!(
                    "INSERT INTO orders (o_orderkey, o_date) VALUES (1, date_trunc('d', (({AT})::pg_catalog.timestamptz(0)))),\n(2, date_trunc( 'm',(({AT})::pg_catalog.timestamptz(0))))"
                ),
            ),
            (
                "INSERT INTO stamped VALUES (1), (2) RETURNING s_id",
                format!(
                    "INSERT INTO stamped (s_id, s_on) VALUES (1, ({PRINTED}::pg_catalog.date)),\n(2, ({PRINTED}::pg_catalog.date)) RETURNING s_id"
                ),
            ),
            (
                "INSERT INTO stamped AS s (s_text, s_id) VALUES ('a)', 1), ('b', 2) ON CONFLICT DO NOTHING",
                format!(
                    "INSERT INTO stamped AS s (s_text, s_id, s_on) VALUES ('a)', 1, ({PRINTED}::pg_catalog.date)),\n('b', 2, ({PRINTED}::pg_catalog.date)) ON CONFLICT DO NOTHING"
                ),
            ),
            (
                "INSERT INTO stamped (s_id, s_on) VALUES (1, DEFAULT), (2, '2020-01-01'), (3, default)",
                format!(
                    "INSERT INTO stamped (s_id, s_on) VALUES (1, ({PRINTED}::pg_catalog.date)),\n(2, '2020-01-01'),\n(3, ({PRINTED}::pg_catalog.date))"
                ),
            ),
            (
                "INSERT INTO accounts (a_name) VALUES ('x'), ('y')",
                "INSERT INTO accounts (a_name, a_id) VALUES ('x', 7),\n('y', 8)".to_owned(),
            ),
            (
                "INSERT INTO accounts VALUES (DEFAULT, 'x'), (5, 'y'), (DEFAULT, upper('z'))",
                "INSERT INTO accounts VALUES (7, 'x'),\n(5, 'y'),\n(8, upper('z'))".to_owned(),
            ),
        ] {
            assert_eq!(completed(sql).as_deref(), Some(expected.as_str()), "{sql}");
        }
    }

    #[test]
    fn rows_that_lack_nothing_or_more_stay_as_they_are() {
        for sql in [
            "INSERT INTO orders VALUES (1, 2), (2, 3)",
            "INSERT INTO stamped VALUES (1, '2020-01-01'), (2, '2020-01-02')",
            "INSERT INTO orders (o_orderkey, o_custkey) VALUES (1, nextval('s')), (2, nextval('s'))",
            "INSERT INTO accounts (a_name) VALUES (now()::text), (currval('s')::text)",
            "INSERT INTO events (e_text) VALUES (now()), (now())",
            "INSERT INTO nowhere VALUES (now()), (now())",
        ] {
            assert_eq!(completed(sql), None, "{sql}");
        }
    }
}
