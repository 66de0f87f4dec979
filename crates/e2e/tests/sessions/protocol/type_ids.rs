//! Values in binary form that name types by their ids: those are the ids a client finds in `pg_type`, whichever node a row comes from.

use std::collections::HashMap;

use pgerror::Result;
use testkit::wire::{Answer, Client, CopyInput};

use crate::Pair;

const FIRST_USER_OID: u32 = 16_384;

const TABLES: [(&str, &str); 2] = [("made_of", "HASH (id)"), ("made_of_everywhere", "REPLICATION")];

const STATEMENTS: &[&str] = &[
    "SELECT * FROM made_of WHERE id = 1",
    "SELECT * FROM made_of WHERE id = 2",
    "SELECT * FROM made_of WHERE id = 3",
    "SELECT * FROM made_of ORDER BY id",
    "SELECT made_of FROM made_of ORDER BY id",
    "SELECT ROW(m, c, ms), ARRAY[ROW(m, c)] FROM made_of ORDER BY id",
    "SELECT array_agg(c ORDER BY id) FROM made_of",
    "SELECT c, count(*) FROM made_of GROUP BY c ORDER BY c",
    "SELECT os, r FROM made_of ORDER BY id DESC LIMIT 2",
    "SELECT x.c, y.o FROM made_of x JOIN made_of y ON x.id = y.id + 1 ORDER BY x.id",
    "SELECT x.c, y.o FROM made_of_everywhere x JOIN made_of y ON x.id = y.id + 1 ORDER BY x.id",
    "SELECT c, o, r FROM made_of_everywhere ORDER BY id",
    "SELECT unnest(cs) FROM made_of ORDER BY id",
    "SELECT o, d FROM made_of ORDER BY id FOR UPDATE",
    "UPDATE made_of SET m = 'b' WHERE id = 3 RETURNING *",
    "UPDATE made_of SET id = id + 10 WHERE id = 4 RETURNING *",
    "UPDATE made_of_everywhere SET m = 'b' WHERE id = 3 RETURNING c, o",
    "WITH u AS (UPDATE made_of SET m = 'a' RETURNING *) SELECT c, o, us FROM u ORDER BY id",
];

pub fn values_name_types(pair: &mut Pair) {
    create(pair);
    let (there, here) = (names(&mut pair.reference), names(&mut pair.cluster));
    for begin in ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"] {
        for sql in STATEMENTS {
            let run = |client: &mut Client, names: &HashMap<u32, String>| {
                client.run(begin).expect("a block");
                let mut read = vec![values(client, sql, names).expect("an answer")];
                client.run("ROLLBACK").expect("its end");
                if sql.starts_with("SELECT") {
                    read.push(values(client, sql, names).expect("an answer"));
                }
                // Rows without a type cannot be kept for a cursor.
                if sql.starts_with("SELECT") && !sql.contains("ROW(") {
                    client.run(&format!("{begin}; DECLARE rows_of_it CURSOR FOR {sql}")).expect("a cursor");
                    read.push(values(client, "FETCH ALL FROM rows_of_it", names).expect("its rows"));
                    client.run("ROLLBACK").expect("its end");
                }
                read
            };
            let (expected, actual) = (run(&mut pair.reference, &there), run(&mut pair.cluster, &here));
            assert!(expected[0].len() > 1, "{sql}");
            assert_eq!(actual, expected, "{sql}\n(left: the cluster, right: one server)");
        }
    }
}

fn create(pair: &mut Pair) {
    // Large objects take ids of the primary datanode only, so types get others there than elsewhere.
    pair.cluster.run("SELECT lo_create(0), lo_create(0), lo_create(0)").expect("large objects");
    for client in [&mut pair.reference, &mut pair.cluster] {
        client
            .run(
                "CREATE TYPE mood AS ENUM ('a', 'b', 'c'); CREATE TYPE pair AS (x int, m mood); CREATE DOMAIN paired AS pair; \
                 CREATE TYPE outer_pair AS (c pair, ms mood[], d paired); CREATE TYPE pairs AS RANGE (subtype = pair)",
            )
            .expect("types");
    }
    for (name, distribution) in TABLES {
        let sql = format!(
            "CREATE TABLE {name} (id int, m mood, ms mood[], c pair, cs pair[], o outer_pair, os outer_pair[], d paired, \
             r pairs, us pairs_multirange[])"
        );
        let clause = if pair.distributed { format!(" DISTRIBUTE BY {distribution}") } else { String::new() };
        pair.reference.run(&sql).expect("a table");
        pair.cluster.run(&format!("{sql}{clause}")).expect("a table");
        for client in [&mut pair.reference, &mut pair.cluster] {
            client
                .run(&format!(
                    "INSERT INTO {name} SELECT g, 'a', '{{a,b}}', ROW(g, 'b')::pair, ARRAY['(1,a)', NULL]::pair[], '(\"(1,a)\",\"{{b,c}}\",\"(2,c)\")', \
                     ARRAY['(\"(1,a)\",\"{{{{b}},{{c}}}}\",)']::outer_pair[], '(5,a)', pairs('(1,a)', '(2,b)'), \
                     ARRAY[pairs_multirange(pairs('(1,a)', '(2,)'))] FROM generate_series(1, 6) g"
                ))
                .expect("rows");
        }
    }
    if pair.distributed {
        let ids = |client: &mut Client, node: &str| {
            client.scalar(&format!("EXECUTE DIRECT ON ({node}) 'SELECT ''mood''::regtype::oid'")).expect("an id")
        };
        assert_ne!(ids(&mut pair.cluster, "dn1"), ids(&mut pair.cluster, "dn2"), "or nothing is tested");
    }
}

fn names(client: &mut Client) -> HashMap<u32, String> {
    let rows = client.strings("SELECT oid, typname FROM pg_type").expect("the catalog");
    rows.into_iter().map(|row| (row[0].parse().expect("an id"), row[1].clone())).collect()
}

/// The types of the columns, then the rows, binary, with names in the place of ids of users' types. No other four bytes in them can be read as such an id.
fn values(client: &mut Client, sql: &str, names: &HashMap<u32, String>) -> Result<Vec<Vec<Vec<String>>>> {
    let Answer { columns, rows, error, .. } = client.extended(sql, &[], CopyInput::default(), |_| true)?;
    if let Some(error) = error {
        return Err(error);
    }
    let named = |value: &[u8]| {
        let mut parts = Vec::new();
        let mut at = 0;
        while let Some(word) = value.get(at..at + 4) {
            let word = u32::from_be_bytes(word.try_into().expect("four bytes"));
            if (FIRST_USER_OID..FIRST_USER_OID + 10_000).contains(&word) && value[at] == 0 && value[at + 1] == 0 {
                parts.push(names.get(&word).cloned().unwrap_or_else(|| format!("no type {word}")));
                at += 4;
            } else {
                parts.push(value[at].to_string());
                at += 1;
            }
        }
        parts.extend(value[at..].iter().map(u8::to_string));
        parts
    };
    let row = |row: Vec<Option<bytes::Bytes>>| {
        row.iter().map(|value| value.as_deref().map(named).unwrap_or_default()).collect()
    };
    let types = columns.iter().flatten().map(|column| vec![names.get(&column.type_oid).cloned().unwrap_or_default()]);
    Ok(std::iter::once(types.collect()).chain(rows.into_iter().map(row)).collect())
}
