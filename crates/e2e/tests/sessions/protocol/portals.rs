//! Portals: in parts, out of order, and by the names that SQL gives them.

use testkit::wire::CopyInput;

use crate::{Message, Pair, create, same, statement};

/// Execute with a row limit, then again, then Close.
pub fn suspended_portals(pair: &mut Pair) {
    create(pair, "portal");
    let fill = "INSERT INTO portal SELECT g, 'v' || g FROM generate_series(1, 100) g";
    same(pair, fill, |client| Ok(vec![client.simple(fill)?]));
    let parse = b"s\0SELECT k FROM portal ORDER BY k\0\0\0";
    let bind = b"p\0s\0\0\0\0\0\0\0";
    let execute = |rows: u32| [&b"p\0"[..], &rows.to_be_bytes()].concat();
    let (first, second, rest) = (execute(30), execute(30), execute(0));
    let messages: [(u8, &[u8]); 10] = [
        (b'P', parse),
        (b'D', b"Ss\0"),
        (b'B', bind),
        (b'D', b"Pp\0"),
        (b'E', &first),
        (b'E', &second),
        (b'E', &rest),
        (b'C', b"Pp\0"),
        (b'C', b"Ss\0"),
        (b'S', b""),
    ];
    for in_memory in ["64MB", "0", "1kB"] {
        // For one server that is a name like any other.
        let set = format!("SET loxo.work_mem = '{in_memory}'");
        same(pair, &set, |client| Ok(vec![client.simple(&set)?, client.simple("SHOW loxo.work_mem")?]));
        same(pair, "a portal in three parts", |client| {
            client.send_messages(&messages)?;
            client.wait()
        });
    }
    commands_in_parts(pair);
    let again: [(u8, &[u8]); 2] = [(b'B', bind), (b'S', b"")];
    same(pair, "a closed statement", |client| {
        client.send_messages(&again)?;
        client.wait()
    });
}

/// The same of commands that give rows.
fn commands_in_parts(pair: &mut Pair) {
    let begin = "BEGIN; DECLARE parts CURSOR FOR SELECT k, v FROM portal ORDER BY k; PREPARE ten AS SELECT k FROM portal WHERE k < 11 ORDER BY k";
    same(pair, begin, |client| client.simple_all(begin, CopyInput::default()));
    for sql in
        ["SHOW datestyle", "SHOW loxo.work_mem", "FETCH 5 FROM parts", "EXECUTE ten", "EXPLAIN (COSTS OFF) SELECT 1"]
    {
        let parse = [b"\0", sql.as_bytes(), b"\0\0\0"].concat();
        for rows in [1u32, 2, 0] {
            let execute = [&b"\0"[..], &rows.to_be_bytes()].concat();
            let messages: [(u8, &[u8]); 6] = [
                (b'P', &parse),
                (b'B', b"\0\0\0\0\0\0\0\0"),
                (b'E', &execute),
                (b'E', &execute),
                (b'E', b"\0\0\0\0\0"),
                (b'S', b""),
            ];
            same(pair, sql, |client| {
                client.send_messages(&messages)?;
                client.wait()
            });
        }
    }
    let end = "COMMIT; DEALLOCATE ten";
    same(pair, end, |client| client.simple_all(end, CopyInput::default()));
}

/// What no driver sends: PostgreSQL has an answer to it all the same. Each time so many ReadyForQuery are awaited.
pub fn messages_out_of_order(pair: &mut Pair) {
    create(pair, "odd");
    let parse = |name: &str, sql: &str| vec![(b'P', [name.as_bytes(), b"\0", sql.as_bytes(), b"\0\0\0"].concat())];
    let bind = |portal: &str, name: &str| {
        vec![(b'B', [portal.as_bytes(), b"\0", name.as_bytes(), b"\0\0\0\0\0\0\0"].concat())]
    };
    let execute = |portal: &str, rows: u32| vec![(b'E', [portal.as_bytes(), b"\0", &rows.to_be_bytes()].concat())];
    let describe = |what: &str| vec![(b'D', [what.as_bytes(), b"\0"].concat())];
    let query = |sql: &str| vec![(b'Q', [sql.as_bytes(), b"\0"].concat())];
    let sync = || vec![(b'S', Vec::new())];
    let call = |function: i32, argument: &str| {
        let argument = [&(argument.len() as u32).to_be_bytes()[..], argument.as_bytes()].concat();
        vec![(b'F', [&function.to_be_bytes()[..], b"\0\0\0\x01", &argument, b"\0\0"].concat())]
    };
    let (lo_create, lo_close, lo_unlink) = (715, 953, 964);
    let insert = "INSERT INTO odd VALUES (1, 'v')";
    let count = || query("SELECT count(*) FROM odd");
    let cases: Vec<(usize, Vec<Vec<Message>>)> = vec![
        // A simple query ends the transaction of what came before it, and its own is no part of what follows.
        (2, vec![statement(insert), query("INSERT INTO odd VALUES (2, 'w')"), query("SELEC 1")]),
        (2, vec![count(), sync()]),
        (3, vec![statement(insert), query("SELECT 1/0"), statement(insert), sync(), count()]),
        (2, vec![statement("SELECT 1"), query(insert), statement("SELECT 1/0"), sync()]),
        (1, vec![count()]),
        // Portals end with it.
        (3, vec![parse("o1", "SELECT 1"), bind("p", "o1"), query("SELECT 2"), execute("p", 0), sync(), sync()]),
        (2, vec![bind("p", "o1"), query("SELECT 1/0"), bind("p", "o1"), execute("p", 0), sync()]),
        // A name that is taken is the last thing that is wrong with a statement.
        (1, vec![parse("o1", "SELEC 1"), sync()]),
        (1, vec![parse("o1", "SELECT * FROM nosuch"), sync()]),
        (1, vec![parse("o1", "SELECT 1"), sync()]),
        // As many rows as were asked for, and none after that.
        (1, vec![bind("p", "o1"), execute("p", 1), execute("p", 1), execute("p", 1), sync()]),
        (
            1,
            vec![
                parse("", "INSERT INTO odd VALUES (9, 'x') RETURNING k"),
                bind("p", ""),
                execute("p", 1),
                execute("p", 5),
                sync(),
            ],
        ),
        // What gives no rows runs once.
        (1, vec![parse("", insert), bind("p", ""), execute("p", 0), execute("p", 0), sync()]),
        (1, vec![parse("", insert), bind("p", ""), execute("p", 3), execute("p", 3), sync()]),
        (1, vec![count()]),
        // A cursor that is not there, or comes later.
        (
            1,
            vec![
                parse("", "FETCH 1 FROM later"),
                describe("S"),
                bind("p", ""),
                describe("Pp"),
                execute("p", 0),
                sync(),
            ],
        ),
        (1, vec![parse("o4", "FETCH 1 FROM later"), describe("So4"), sync()]),
        (2, vec![query("BEGIN"), query("DECLARE later CURSOR FOR SELECT k FROM odd ORDER BY k")]),
        (1, vec![bind("p", "o4"), describe("Pp"), execute("p", 0), sync()]),
        (1, vec![describe("So4"), sync()]),
        (1, vec![query("COMMIT")]),
        (1, vec![bind("p", "o4"), describe("Pp"), execute("p", 0), sync()]),
        // A function call ends the transaction of what came before it, as a simple query does.
        (2, vec![statement(insert), call(lo_create, "4711"), statement("SELECT 1/0"), sync()]),
        (1, vec![count()]),
        (3, vec![statement(insert), call(lo_close, "5"), statement(insert), sync(), count()]),
        (1, vec![statement("SELECT 1/0"), call(lo_unlink, "4711"), sync()]),
        (3, vec![query("BEGIN"), call(lo_unlink, "4711"), query("ROLLBACK")]),
        (2, vec![parse("o5", "SELECT 5"), bind("p", "o5"), call(lo_unlink, "4711"), execute("p", 0), sync()]),
        (1, vec![count()]),
        // A failed block.
        (1, vec![parse("o2", "ROLLBACK"), sync()]),
        (1, vec![parse("o3", "SELECT k FROM odd WHERE k = 1"), sync()]),
        (2, vec![query("BEGIN"), query("SELECT 1/0")]),
        (1, vec![parse("", "BEGIN"), sync()]),
        (1, vec![parse("", "SELECT 1"), sync()]),
        (1, vec![parse("", ""), bind("", ""), sync()]),
        (1, vec![describe("So3"), sync()]),
        (1, vec![describe("So2"), sync()]),
        (1, vec![bind("p", "o3"), sync()]),
        (1, vec![bind("p", "o2"), describe("Pp"), sync()]),
        (1, vec![execute("p", 0), execute("p", 0), sync()]),
        (2, vec![query("BEGIN"), bind("p", "o3"), query("SELECT 1/0")]),
        (1, vec![execute("p", 0), sync()]),
        (1, vec![query("ROLLBACK")]),
        // No string in it.
        (2, vec![vec![(b'Q', b"SELECT 1".to_vec())], count()]),
        // More in it than belongs there, or less.
        (2, vec![vec![(b'Q', b"DELETE FROM odd\0SELECT 1\0".to_vec())], count()]),
        (1, vec![vec![(b'P', b"\0SELECT 1\0\0\0\0".to_vec())], sync()]),
        (1, vec![vec![(b'B', b"p\0o3\0\0\0\0\0\0\0\0".to_vec())], sync()]),
        (1, vec![vec![(b'D', b"So3\0\0".to_vec())], sync()]),
        (1, vec![vec![(b'C', b"So3".to_vec())], sync()]),
        (1, vec![vec![(b'E', b"p\0\0\0\0\0\0".to_vec())], sync()]),
        (1, vec![parse("one", "SELECT $1::text"), sync()]),
        (1, vec![vec![(b'B', b"p\0one\0\0\0\0\x01\xff\xff\xff\xff\0\0".to_vec())], execute("p", 0), sync()]),
        (1, vec![parse("\u{e4}", "SELECT 1"), describe("S\u{e4}"), sync()]),
    ];
    for (number, (answers, case)) in cases.iter().enumerate() {
        let messages: Vec<(u8, &[u8])> = case.iter().flatten().map(|(tag, body)| (*tag, body.as_slice())).collect();
        same(pair, &format!("odd messages {number}"), |client| {
            client.send_messages(&messages)?;
            let waits: pgerror::Result<Vec<_>> = (0..*answers).map(|_| client.wait()).collect();
            Ok(waits?.into_iter().flatten().collect())
        });
    }
}

/// MOVE and CLOSE find what Bind has made.
pub fn portals_named_in_sql(pair: &mut Pair) {
    create(pair, "moved");
    let fill = "INSERT INTO moved SELECT g, 'v' || g FROM generate_series(1, 40) g";
    same(pair, fill, |client| Ok(vec![client.simple(fill)?]));
    let portal = |sql: &str| {
        let parse = [b"m\0", sql.as_bytes(), b"\0\0\0"].concat();
        vec![(b'P', parse), (b'B', b"Por tal\0m\0\0\0\0\0\0\0".to_vec())]
    };
    let execute = |rows: u32| vec![(b'E', [&b"Por tal\0"[..], &rows.to_be_bytes()].concat())];
    let last = |sql: &str| [statement(sql), vec![(b'C', b"Sm\0".to_vec()), (b'S', Vec::new())]].concat();
    let rows = || portal("SELECT k FROM moved ORDER BY k");
    let forward = |count: &str| statement(&format!("MOVE FORWARD {count} FROM \"Por tal\""));
    let close = || vec![(b'C', b"Sm\0".to_vec()), (b'S', Vec::new())];
    let pipelines: [Vec<Vec<Message>>; 6] = [
        vec![rows(), execute(3), forward("5"), execute(2), forward("ALL"), forward("1"), close()],
        vec![rows(), forward("7"), execute(2), statement("MOVE \"Por tal\""), execute(0), close()],
        vec![portal("SELECT 1"), forward("1"), forward("1"), close()],
        vec![rows(), execute(3), last("MOVE BACKWARD 1 FROM \"Por tal\"")],
        vec![rows(), execute(3), last("MOVE 3 FROM por_tal")],
        vec![rows(), execute(3), statement("CLOSE \"Por tal\""), execute(3), close()],
    ];
    for (number, pipeline) in pipelines.iter().enumerate() {
        let messages: Vec<(u8, &[u8])> = pipeline.iter().flatten().map(|(tag, body)| (*tag, body.as_slice())).collect();
        same(pair, &format!("portal {number}"), |client| {
            client.send_messages(&messages)?;
            let answers = client.wait()?;
            client.send_messages(&[(b'C', b"Sm\0"), (b'S', b"")])?;
            client.wait()?;
            Ok(answers)
        });
    }
    files_by_execute(pair);
}

/// The rights to the server's files are asked for by whatever way a COPY comes.
fn files_by_execute(pair: &mut Pair) {
    for client in [&mut pair.reference, &mut pair.cluster] {
        client.run("CREATE ROLE no_files").expect("a role");
        client.run("GRANT INSERT ON moved TO no_files").expect("a right");
        for (name, sql) in [("give", "COPY (SELECT 1) TO '/nowhere/file'"), ("take", "COPY moved FROM '/nowhere/file'")]
        {
            let parse = [name.as_bytes(), b"\0", sql.as_bytes(), b"\0\0\0"].concat();
            client.send_messages(&[(b'P', &parse), (b'S', b"")]).expect(sql);
            client.wait().expect(sql);
            client.run("SET ROLE no_files").expect("the role");
            let error = client.run(&format!("EXECUTE {name}")).expect_err(sql);
            assert_eq!(error.code().as_str(), "42501", "{sql}: {error}");
            client.run("RESET ROLE").expect("the first role");
        }
        client.run("DROP OWNED BY no_files").expect("no rights");
        client.run("DROP ROLE no_files").expect("no role");
    }
}

/// Portals end with the savepoint they were bound after, and with CLOSE ALL; a statement is described as it is, or not at all.
pub fn portals_of_a_block(pair: &mut Pair) {
    create(pair, "saved");
    let fill = "INSERT INTO saved SELECT g, 'v' || g FROM generate_series(1, 40) g";
    same(pair, fill, |client| Ok(vec![client.simple(fill)?]));
    let prepare = [(b'P', b"rows\0SELECT k FROM saved ORDER BY k\0\0\0".to_vec())];
    let bind = |name: &str| vec![(b'B', [name.as_bytes(), b"\0rows\0\0\0\0\0\0\0"].concat())];
    let execute = |name: &str, rows: u32| vec![(b'E', [name.as_bytes(), b"\0", &rows.to_be_bytes()].concat())];
    let early = || [bind("early"), execute("early", 2)].concat();
    let late = || [bind("late"), execute("late", 2)].concat();
    let pipelines: [Vec<Vec<Message>>; 7] = [
        vec![statement("SAVEPOINT a"), late(), statement("ROLLBACK TO a"), execute("late", 2)],
        vec![
            early(),
            statement("SAVEPOINT a"),
            late(),
            statement("ROLLBACK TO a"),
            execute("early", 2),
            execute("late", 2),
        ],
        vec![
            statement("SAVEPOINT a"),
            late(),
            statement("RELEASE a"),
            statement("SAVEPOINT b"),
            statement("ROLLBACK TO b"),
            execute("late", 2),
        ],
        vec![
            statement("SAVEPOINT a"),
            statement("SAVEPOINT b"),
            late(),
            statement("ROLLBACK TO a"),
            execute("late", 2),
        ],
        vec![
            statement("SAVEPOINT a"),
            late(),
            statement("SAVEPOINT a"),
            statement("ROLLBACK TO a"),
            execute("late", 2),
        ],
        vec![early(), bind("late"), statement("CLOSE ALL"), execute("late", 2)],
        vec![early(), bind("late"), statement("CLOSE ALL"), execute("early", 2)],
    ];
    for (number, pipeline) in pipelines.iter().enumerate() {
        let all = prepare.iter().chain(pipeline.iter().flatten());
        let mut messages: Vec<(u8, &[u8])> = all.map(|(tag, body)| (*tag, body.as_slice())).collect();
        messages.push((b'S', b""));
        same(pair, &format!("portal of a block {number}"), |client| {
            let mut answers = vec![client.simple("BEGIN")?];
            client.send_messages(&messages)?;
            answers.extend(client.wait()?);
            answers.push(client.simple("COMMIT")?);
            client.send_messages(&[(b'C', b"Srows\0"), (b'S', b"")])?;
            client.wait()?;
            Ok(answers)
        });
    }
    same(pair, "a statement that gives other columns by now", |client| {
        let parse: &[u8] = b"all\0SELECT * FROM saved\0\0\0";
        client.send_messages(&[(b'P', parse), (b'D', b"Sall\0"), (b'S', b"")])?;
        let mut answers = client.wait()?;
        answers.push(client.simple("ALTER TABLE saved ADD COLUMN more int")?);
        client.send_messages(&[(b'D', b"Sall\0"), (b'S', b"")])?;
        answers.extend(client.wait()?);
        answers.push(client.simple("DROP TABLE saved")?);
        client.send_messages(&[(b'D', b"Sall\0"), (b'S', b"")])?;
        answers.extend(client.wait()?);
        Ok(answers)
    });
}
