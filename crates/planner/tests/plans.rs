//! Plans of many statements, as text files under `tests/plans`: a statement, `----`, its plan or error, a blank line.
//! Queries and changes of rows stand there as PostgreSQL's analysis prints them.
//! `UPDATE_PLANS=1 cargo test -p planner` rewrites them; read the difference before committing it.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use catalog::NodeId;
use planner::{
    Analysis, ChangedTable, Exchanges, Expected, OutputColumn, Parameter, ParameterValue, SessionFacts, Statement,
    Stop, Uses,
};

mod common;

/// Plans every statement of a text, or says why not.
fn answer(sql: &str) -> String {
    let catalog = common::catalog();
    let described = describe(sql);
    let changed = changed(sql);
    let session = SessionFacts {
        home: NodeId(0),
        search_path: &["public".to_owned()],
        temp_relations: &["scratch".to_owned()],
        temp_views: &[],
        temp_code: &[],
        temp_functions: &[],
        temp_types: &[],
        parameters: &[
            Parameter { type_oid: 20, value: ParameterValue::Text(b"42") },
            Parameter { type_oid: 20, value: ParameterValue::Unknown },
        ],
        describe: described.as_deref(),
        in_transaction: false,
        clock: None,
        now: None,
        exchanges: if changed.is_empty() { Exchanges::Seeing } else { Exchanges::SeeingBut(&changed) },
        estimates: Some(&estimates(sql)),
        few_rows: 0.0,
        stop: Stop::default(),
        depends: None,
    };
    let statements = match planner::parse(sql) {
        Ok(statements) => statements,
        Err(error) => return format!("ERROR {error:?}\n"),
    };
    let mut text = String::new();
    for statement in statements {
        match planner::plan(&analysed(statement), &catalog, &session) {
            Ok(plan) => write!(text, "{plan}").unwrap(),
            Err(error) => writeln!(text, "ERROR {error:?}").unwrap(),
        }
    }
    text
}

fn analysed(statement: Statement) -> Statement {
    let Some(sql) = statement.to_analyse() else { return statement };
    let analysis = Analysis::new(&format!("BEGIN ATOMIC\n {sql};\nEND"), Uses::default(), &[]).unwrap();
    statement.analysed(&analysis)
}

/// A first line `-- describe: a 20, b 25` stands for what a datanode would have said.
fn describe(sql: &str) -> Option<Vec<OutputColumn>> {
    let list = sql.lines().next()?.strip_prefix("-- describe:")?;
    let column = |item: &str| {
        let (name, oid) = item.trim().split_once(' ').unwrap();
        OutputColumn { name: name.to_owned(), type_oid: oid.parse().unwrap(), type_modifier: -1 }
    };
    Some(list.split(',').map(column).collect())
}

/// First lines `-- estimated 7: SELECT …` say how many rows the home node expects of a text.
fn estimates(sql: &str) -> HashMap<String, Expected> {
    let lines = sql.lines().map_while(|line| line.strip_prefix("-- estimated "));
    let estimate = |line: &str| {
        let (rows, text) = line.split_once(": ").unwrap();
        (text.to_owned(), Expected { rows: rows.parse().unwrap(), cost: 0.0 })
    };
    lines.map(estimate).collect()
}

/// A first line `-- changed: a, b!` is about tables that the transaction block has changed; b is locked besides.
fn changed(sql: &str) -> Vec<ChangedTable> {
    let list = sql.lines().next().and_then(|line| line.strip_prefix("-- changed:")).unwrap_or_default();
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let table = |name: &str| ChangedTable {
        schema: "public".to_owned(),
        name: name.trim_end_matches('!').to_owned(),
        is_locked: name.ends_with('!'),
    };
    names.map(table).collect()
}

#[test]
fn plans_are_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let mut different = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut fresh = String::new();
        for case in text.split("\n\n").map(str::trim).filter(|c| !c.is_empty()) {
            let sql = case.split("\n----").next().unwrap().trim_end();
            write!(fresh, "{sql}\n----\n{}\n", answer(sql)).unwrap();
        }
        if fresh != text {
            if std::env::var_os("UPDATE_PLANS").is_some() {
                std::fs::write(&file, &fresh).unwrap();
            } else {
                different.push(first_difference(&file, &text, &fresh));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

fn first_difference(file: &Path, old: &str, new: &str) -> String {
    let (mut old_lines, mut new_lines) = (old.lines(), new.lines());
    let mut number = 0;
    loop {
        number += 1;
        let (a, b) = (old_lines.next(), new_lines.next());
        if a != b || a.is_none() {
            return format!("{}:{number}: expected {a:?}, got {b:?}", file.display());
        }
    }
}

/// Each table is another choice for the search of exchanges, and what each try costs grows with their number.
#[test]
fn statements_of_many_tables_are_planned_in_time() {
    let branch = "SELECT o.o_custkey FROM public.orders o JOIN public.lineitem l ON l.l_partkey = o.o_custkey";
    for operation in [" UNION ALL ", " UNION "] {
        let sql = [branch; 150].join(operation);
        let began = Instant::now();
        let plan = answer(&sql);
        assert!(plan.contains("Exchange"), "{}", &plan[..200]);
        // Minutes, should it grow by more than the square.
        assert!(began.elapsed() < Duration::from_secs(30), "{operation}: {:?}", began.elapsed());
    }
}
