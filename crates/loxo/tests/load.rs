//! `loxo load` and `loxo unload`: the real binary, real clusters, and a sudden end in the middle.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use testkit::wire::{Client, CopyInput};
use testkit::{Cluster, Server, ServerOptions, TempDir};

mod loading;
use loading::{client, cluster, fails_saying, load, load_command, loads, pid_of, wait_until, write};

fn table(client: &mut Client, name: &str) {
    client.run(&format!("CREATE TABLE {name} (id bigint PRIMARY KEY, note text) DISTRIBUTE BY HASH (id)")).unwrap();
}

/// What tells one set of rows from another.
fn contents(client: &mut Client, table: &str) -> String {
    let sql = format!(
        "SELECT count(*) || ' ' || coalesce(sum(id), 0) || ' ' || coalesce(sum(hashtext(note)::bigint), 0) FROM {table}"
    );
    client.scalar(&sql).unwrap()
}

/// What a plain COPY of the same bytes makes of it.
fn contents_of_copy(client: &mut Client, table_name: &str, data: &str, options: &str) -> String {
    table(client, table_name);
    let data = [data.as_bytes()];
    let copy = CopyInput { frames: &data, fail: false };
    let answer = client.simple_copy(&format!("COPY {table_name} FROM STDIN ({options})"), copy).unwrap();
    assert!(answer.error.is_none(), "{:?}", answer.error);
    contents(client, table_name)
}

/// Rows with newlines, quotes and delimiters in quotes; some plain.
fn quoted_rows(first: u64, count: u64) -> String {
    let row = |id: u64| match id % 4 {
        0 => format!("{id},\"a\n\"\"b\"\"\n\n{id},\"\n"),
        1 => format!("{id},\"\"\"\n{}\"\n", "x\n".repeat((id % 50) as usize)),
        2 => format!("{id},plain {id}\n"),
        _ => format!("{id},\n"),
    };
    (first..first + count).map(row).collect()
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn lz4(data: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn newlines_in_quotes_never_end_a_row() {
    let (mut client, dir) = (client(), TempDir::new("load-quotes").unwrap());
    // More than a block, so that several streams have something to do.
    let data = quoted_rows(1, 120_000);
    assert!(data.len() > 3 << 20);
    let expected = contents_of_copy(&mut client, "quotes_copy", &data, "FORMAT csv");
    let file = write(&dir, "quotes.csv", format!("id,\"no\nte\"\n{data}"));
    table(&mut client, "quotes_all");
    let said = loads(&["quotes_all", &file, "--header", "--streams", "4"]);
    assert!(said.starts_with("120000 rows in "), "{said}");
    assert_eq!(contents(&mut client, "quotes_all"), expected);

    // Cuts after every 7 rows of a part.
    let (part, few) = (quoted_rows(1, 700), write(&dir, "few.csv", quoted_rows(1, 700)));
    let expected = contents_of_copy(&mut client, "quotes_few", &part, "FORMAT csv");
    table(&mut client, "quotes_batches");
    loads(&["quotes_batches", &few, "--batch", "7", "--streams", "3"]);
    assert_eq!(contents(&mut client, "quotes_batches"), expected);
    let sql = "SELECT count(*), sum(rows), max(rows) FROM loxo_load_progress WHERE load LIKE '%quotes_batches%'";
    assert_eq!(client.strings(sql).unwrap(), [["100", "700", "7"]]);
}

#[test]
fn every_compression_and_format() {
    let (mut client, dir) = (client(), TempDir::new("load-formats").unwrap());
    let data = quoted_rows(1, 4000);
    let quarter = |n: u64| quoted_rows(1 + n * 1000, 1000);
    let expected = contents_of_copy(&mut client, "formats_copy", &data, "FORMAT csv");
    write(&dir, "1.csv", quarter(0));
    write(&dir, "2.csv.gz", gzip(quarter(1).as_bytes()));
    write(&dir, "3.csv.zst", zstd::encode_all(quarter(2).as_bytes(), 1).unwrap());
    let (a, b) = (quoted_rows(3001, 400), quoted_rows(3401, 600));
    write(&dir, "4.csv.lz4", [lz4(a.as_bytes()), lz4(b.as_bytes())].concat());
    table(&mut client, "formats");
    let pattern = dir.path().join("?.csv*").to_str().unwrap().to_owned();
    for more in [&["--streams", "1"][..], &["--streams", "3"], &["--batch", "300"]] {
        client.run("TRUNCATE formats").unwrap();
        loads(&[&["formats", &pattern], more].concat());
        assert_eq!(contents(&mut client, "formats"), expected, "{more:?}");
    }
    // Out and in again: text and binary.
    for (format, file) in [("text", "formats.txt"), ("binary", "formats.bin"), ("csv", "formats.csv")] {
        let out = dir.path().to_str().unwrap();
        let output = load_command(cluster(), &["unload", "formats", "--to", out, "--format", format]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let file = dir.path().join(file);
        for more in [&["--streams", "2"][..], &["--batch", "130"]] {
            client.run("TRUNCATE formats").unwrap();
            client.run("DELETE FROM loxo_load_progress WHERE load LIKE '%.formats %'").unwrap();
            loads(&[&["formats", file.to_str().unwrap(), "--format", format], more].concat());
            assert_eq!(contents(&mut client, "formats"), expected, "{format} {more:?}");
        }
    }
}

#[test]
fn files_of_different_line_ends_and_without_a_last_newline() {
    let (mut client, dir) = (client(), TempDir::new("load-eol").unwrap());
    write(&dir, "1.txt", "1\ta\r\n2\tb\r\n");
    write(&dir, "2.txt", "3\tc\n4\td\\");
    write(&dir, "3.txt", "5\te");
    write(&dir, "4.txt", "6\tf\r7\tg\r");
    write(&dir, "5.txt", "");
    write(&dir, "6.txt", "8\th\n\\.\nnot a row");
    table(&mut client, "line_ends");
    let pattern = dir.path().join("*.txt").to_str().unwrap().to_owned();
    loads(&["line_ends", &pattern, "--streams", "1"]);
    let notes = client.scalar("SELECT string_agg(note, ',' ORDER BY id) FROM line_ends").unwrap();
    // PostgreSQL drops a backslash before nothing; before the next file's first row it would be a newline.
    assert_eq!(notes, "a,b,c,d,e,f,g,h");
}

#[test]
fn stdin_and_columns() {
    let mut client = client();
    table(&mut client, "from_stdin");
    let arguments = ["load", "from_stdin", "-", "--format", "csv", "--columns", "note,id", "--delimiter", ";"];
    let mut child = load_command(cluster(), &arguments).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&gzip(b"one;1\ntwo;2\n")).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(client.scalar("SELECT string_agg(note, ',' ORDER BY id) FROM from_stdin").unwrap(), "one,two");
    // Nobody says that this is CSV.
    let mut child = load_command(cluster(), &["load", "from_stdin", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&gzip(b"3,three\n4,four\n")).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--format csv"), "{output:?}");
    assert_eq!(client.scalar("SELECT count(*) FROM from_stdin").unwrap(), "2");
}

#[test]
fn an_error_names_file_and_line_and_nothing_is_loaded() {
    let (mut client, dir) = (client(), TempDir::new("load-errors").unwrap());
    table(&mut client, "errors");
    let good = write(&dir, "good.csv", quoted_rows(1, 1000));
    let before = quoted_rows(2000, 40_000);
    let lines = before.matches('\n').count();
    let bad = write(&dir, "bad.csv", format!("id,note\n{before}99999999,x,too many\n{}", quoted_rows(90_000, 5000)));
    let place = format!("{bad}:{}: extra data after last expected column", lines + 2);
    for streams in ["1", "3"] {
        fails_saying(&["errors", &good, &bad, "--header", "--streams", streams], &[&place]);
        assert_eq!(client.scalar("SELECT count(*) FROM errors").unwrap(), "0");
    }
    // A piece that begins with a row over several lines; the bad value is two rows behind.
    let text = "1,a\n2,\"b\nb\"\n3,\"c\n\nc\"\n4,d\nx,e\n";
    let small = write(&dir, "small.csv", text);
    for batch in ["1", "2", "3", "100"] {
        client.run("TRUNCATE errors").unwrap();
        client.run("DELETE FROM loxo_load_progress WHERE load LIKE '%.errors %'").unwrap();
        let place = format!("{small}:8: invalid input syntax for type bigint: \"x\"");
        fails_saying(
            &["errors", &small, "--batch", batch, "--streams", "1"],
            &[&place, "column id", "goes on after it"],
        );
        let committed = 4 / batch.parse::<usize>().unwrap() * batch.parse::<usize>().unwrap();
        assert_eq!(client.scalar("SELECT count(*) FROM errors").unwrap(), committed.to_string(), "batch {batch}");
    }
    fails_saying(&["errors", "/nowhere/x.csv"], &["could not read \"/nowhere/x.csv\""]);
    fails_saying(&["no_such_table", &small], &["relation \"no_such_table\" does not exist"]);
    let mixed = write(&dir, "mixed.csv", "1,a\n2,b\r\n");
    fails_saying(&["errors", &mixed], &[&format!("{mixed}:2: unquoted carriage return found in data")]);
    // Of two errors the first counts, whoever finds it.
    let earlier = write(&dir, "earlier.csv", "1,a\nx,b\n3,c\r\n");
    for batch in [&[][..], &["--batch", "1"], &["--batch", "100"]] {
        let place = format!("{earlier}:2: invalid input syntax for type bigint");
        fails_saying(&[&["errors", &earlier, "--streams", "1"], batch].concat(), &[&place]);
    }
    let cut = write(&dir, "cut.csv.gz", &gzip(quoted_rows(1, 9000).as_bytes())[..5000]);
    client.run("TRUNCATE errors").unwrap();
    fails_saying(&["errors", &cut], &["could not read"]);
    assert_eq!(client.scalar("SELECT count(*) FROM errors").unwrap(), "0");
}

/// Message and line that a plain COPY of the whole file gives; `None` if it is accepted.
fn refusal_of_copy(client: &mut Client, data: &[u8], format: &str) -> Option<(String, String)> {
    client.run("BEGIN").unwrap();
    let copy = CopyInput { frames: &[data], fail: false };
    let answer = client.simple_copy(&format!("COPY malformed FROM STDIN (FORMAT {format})"), copy).unwrap();
    client.run("ROLLBACK").unwrap();
    let error = answer.error?;
    let context = error.text(pgerror::field::WHERE).into_owned();
    let line = context.split_once(", line ")?.1.chars().take_while(char::is_ascii_digit).collect();
    Some((error.message().into_owned(), line))
}

#[test]
fn malformed_files_get_the_message_and_line_of_a_plain_copy() {
    let (mut client, dir) = (client(), TempDir::new("load-malformed").unwrap());
    client
        .run("CREATE TABLE malformed (id bigint NOT NULL, at date, note varchar(20)) DISTRIBUTE BY HASH (id)")
        .unwrap();
    let cases: &[(&str, &[u8])] = &[
        ("csv", b"1,2020-01-01,a\n2,2020-01-31,b\n3,2020-02-31,c\n4,,d\n"),
        ("csv", b"1,2020-01-01,\"a\n\n\"\n2,2020-01-31,\"b\nb\"\n3,,\"c\nc\nc\"\n4,,d,e\n5,,f\n"),
        ("csv", b"1,,\"a\r\na\"\r\n2,,\"b\r\n\"\r\n3,,\"c\nc\"\r\nx,,d\r\n"),
        ("csv", b"1,,a\n2,,b\n3,,\"c\n4,,d\n"),
        ("csv", b"1,,a\n2,,b\r\n3,,c\n"),
        ("csv", b"1,,a\r\n2,,b\n3,,c\r\n"),
        ("csv", b"1,,a\n2,,b\n3\n4,,d\n"),
        ("csv", b"1,,a\n2,,\"b\nb\"\n,,c\n4,,d\n"),
        ("csv", b"1,,a\n99999999999999999999,,b\n"),
        ("csv", b"1,,a\n\n3,,c\n"),
        ("csv", b"1,,a\n2,,\"123456789\n12345678901\"\n"),
        ("csv", b"\xef\xbb\xbf1,,a\n2,,b\n"),
        ("csv", b"1,,a\n2,,b\n3,,c\0\n"),
        ("csv", b"1,,a\n2,,b\n3,,\xff\xfe\n4,,d\n"),
        ("csv", b"1,,a\n2,,b\n3,,c"),
        ("text", b"1\t\\N\ta\n2\t\\N\tb\n3\t\\N\n"),
        ("text", b"1\t\\N\ta\\\na\n2\t\\N\tb\\\n\\\nb\nx\t\\N\tc\n"),
        ("text", b"1\t\\N\ta\n2\t\\N\tb\n3\t\\N\tc\r\n"),
        ("text", b"1\t\\N\ta\r2\t\\N\tb\r3\t31-Feb\tc\r"),
        ("text", b"1\t\\N\ta\n\\.\n2\n"),
        ("text", b"1\t\\N\ta\n2\t\\N\tb\n\\.x\n"),
        ("text", b"1\t\\N\ta\n2\t\\N\tb\n3\t\\N\t123456789012345678901\n"),
    ];
    let mut refused = 0;
    for (number, (format, data)) in cases.iter().enumerate() {
        let expected = refusal_of_copy(&mut client, data, format);
        refused += usize::from(expected.is_some());
        let file = write(&dir, &format!("{number}.dat"), data);
        for more in [&["--streams", "1"][..], &["--streams", "1", "--batch", "1"], &["--streams", "1", "--batch", "2"]]
        {
            client.run("TRUNCATE malformed").unwrap();
            let name = format!("{file} {more:?}");
            let more = if more.len() > 2 { [more, &["--name", &name]].concat() } else { more.to_vec() };
            let output = load(&[&["malformed", &file, "--format", format], more.as_slice()].concat());
            let said = String::from_utf8_lossy(&output.stderr);
            match &expected {
                None => assert!(output.status.success(), "{number} {more:?}: {said}"),
                Some((message, line)) => {
                    let place = format!("loxo: {file}:{line}: {message}\n");
                    assert!(said.starts_with(&place), "{number} {more:?}: not {place} but {said}");
                }
            }
        }
    }
    assert!(refused >= 18, "{refused}");
}

#[test]
fn a_changed_file_is_not_taken_for_the_one_that_was_loaded() {
    let (mut client, dir) = (client(), TempDir::new("load-changed").unwrap());
    table(&mut client, "changed");
    let rows = quoted_rows(1, 100);
    let file = write(&dir, "changed.csv", &rows);
    let arguments = ["changed", file.as_str(), "--batch", "10"];
    loads(&arguments);
    // Again, and with another size of batch: nothing is loaded twice.
    for batch in ["10", "7"] {
        let said = loads(&["changed", &file, "--batch", batch]);
        assert!(
            said.starts_with("0 rows in ") && said.contains("100 rows of these files were loaded before"),
            "{said}"
        );
    }
    for other in [rows.replace("plain 50", "plain 51"), rows[..rows.len() / 2].to_owned(), String::new()] {
        write(&dir, "changed.csv", other);
        fails_saying(&arguments, &["is not the file of which a part was loaded before", "--name"]);
    }
    // What was appended is loaded.
    write(&dir, "changed.csv", format!("{rows}{}", quoted_rows(101, 20)));
    loads(&arguments);
    assert_eq!(client.scalar("SELECT count(*) || ' ' || max(id) FROM changed").unwrap(), "120 120");
}

#[test]
fn killed_again_and_again_a_load_in_batches_loses_and_doubles_nothing() {
    let (mut client, dir) = (client(), TempDir::new("load-killed").unwrap());
    // No key: a doubled row would stay.
    client.run("CREATE TABLE killed (id bigint, note text) DISTRIBUTE BY HASH (id)").unwrap();
    let file = write(&dir, "killed.csv", quoted_rows(1, 40_000));
    let arguments = ["load", "--quiet", "killed", &file, "--batch", "500", "--streams", "3"];
    let progress = "SELECT count(*) FROM loxo_load_progress WHERE load LIKE '%.killed %'";
    loads(&["killed", &write(&dir, "empty.csv", ""), "--batch", "1"]);
    let mut kills = 0;
    loop {
        let before: u64 = client.scalar(progress).unwrap().parse().unwrap();
        let mut child = load_command(cluster(), &arguments).spawn().unwrap();
        let more = || client.scalar(progress).unwrap().parse::<u64>().unwrap() >= before + 8;
        wait_until(&mut child, "progress", more);
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            None => kills += 1,
            Some(0) if kills >= 3 => break,
            // It was too fast to be killed: all of it once more.
            Some(0) => {
                client.run("TRUNCATE killed").unwrap();
                client.run("DELETE FROM loxo_load_progress WHERE load LIKE '%.killed %'").unwrap();
            }
            Some(_) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        }
    }
    assert!(kills >= 3, "the load was too fast to be killed: {kills}");
    let expected = contents_of_copy(&mut client, "killed_copy", &quoted_rows(1, 40_000), "FORMAT csv");
    assert_eq!(contents(&mut client, "killed"), expected);
}

#[test]
fn several_readers_of_one_file_killed_again_and_again_lose_and_double_nothing() {
    let (mut client, dir) = (client(), TempDir::new("load-ranges").unwrap());
    client.run("CREATE TABLE ranges (id bigint, note text) DISTRIBUTE BY HASH (id)").unwrap();
    // Each row several lines with quotes, so that what is a row depends on all bytes before; two ranges and a bit.
    let filler = "filler, \"\"of\"\"\n1,\"\"this row\"\"\n".repeat(120);
    let row = |id: u64| format!("{id},\"{}\"\n", &filler[..30 * (3 + id as usize % 110)]);
    let mut data: String = (1..=11_000).map(row).collect();
    assert!(data.len() > 16 << 20, "{}", data.len());
    let file = write(&dir, "ranges.csv", &data);
    let arguments = ["load", "--quiet", "ranges", &file, "--batch", "1MB", "--streams", "3"];
    loads(&["ranges", &write(&dir, "empty.csv", ""), "--batch", "1"]);
    let progress = "SELECT count(*) FROM loxo_load_progress WHERE load LIKE '%.ranges %'";
    let mut kills = 0;
    loop {
        let before: u64 = client.scalar(progress).unwrap().parse().unwrap();
        let mut child = load_command(cluster(), &arguments).spawn().unwrap();
        let more = || client.scalar(progress).unwrap().parse::<u64>().unwrap() >= before + 5;
        wait_until(&mut child, "progress", more);
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            None => kills += 1,
            Some(0) if kills >= 1 => break,
            // It was too fast to be killed: all of it once more.
            Some(0) => {
                client.run("TRUNCATE ranges").unwrap();
                client.run("DELETE FROM loxo_load_progress WHERE load LIKE '%.ranges %'").unwrap();
            }
            Some(_) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        }
    }
    assert!(kills >= 1, "the load was too fast to be killed: {kills}");
    let whole = "SELECT count(*) || ' ' || count(DISTINCT id) FROM ranges WHERE length(note) = 26 * (3 + id % 110)";
    assert_eq!(client.scalar(whole).unwrap(), "11000 11000");
    // The line of an error behind two ranges; PostgreSQL does not count newlines in quotes of the first row.
    let line = data.matches('\n').count() + 1 - 8;
    data.push_str("x,y\n");
    let file = write(&dir, "bad.csv", &data);
    fails_saying(&["ranges", &file, "--streams", "3"], &[&format!("{file}:{line}: invalid input syntax"), "column id"]);
    assert_eq!(client.scalar(whole).unwrap(), "11000 11000");
}

#[test]
fn a_load_killed_while_it_commits_is_finished_or_undone() {
    // Its own cluster: other tests' loads prepare transactions too.
    let (cluster, dir) = (Cluster::start(2, 2).unwrap(), TempDir::new("load-decide").unwrap());
    let mut client = cluster.connect(0).unwrap();
    table(&mut client, "decided");
    let rows = 150_000;
    let file = write(&dir, "decided.csv", quoted_rows(1, rows));
    let find = "SELECT DISTINCT substr(gid, 1, 26) FROM pg_prepared_xacts";
    let finish = |name: &str| {
        let output = load_command(&cluster, &["load", "decided", "--finish", name]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let mut killed = 0;
    for _ in 0..40 {
        client.run("TRUNCATE decided").unwrap();
        let arguments = ["load", "--quiet", "decided", &file, "--streams", "6"];
        let mut child = load_command(&cluster, &arguments).spawn().unwrap();
        wait_until(&mut child, "a prepared transaction", || !client.strings(find).unwrap().is_empty());
        let _ = child.kill();
        child.wait().unwrap();
        let found = client.strings(find).unwrap();
        for name in &found {
            killed += 1;
            let said = finish(&name[0]);
            // Whoever asks again gets the same answer.
            assert_eq!(finish(&name[0]), said);
            let count = client.scalar("SELECT count(*) FROM decided").unwrap();
            assert_eq!(count, if said.contains("is loaded") { rows.to_string() } else { "0".to_owned() }, "{said}");
        }
        // One that was on its way when the load died may come after that.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while let Some(name) = client.strings(find).unwrap().pop() {
            assert!(std::time::Instant::now() < deadline, "{name:?} is left");
            finish(&name[0]);
        }
        if killed >= 4 {
            return;
        }
    }
    panic!("{killed} loads were killed between PREPARE and COMMIT PREPARED");
}

#[test]
fn streams_do_not_wait_for_each_other_for_ever() {
    let (mut client, dir) = (client(), TempDir::new("load-twice").unwrap());
    table(&mut client, "twice");
    // The same key in the first two pieces, which different streams have.
    let row = |id: u64| format!("{id},{}\n", "x".repeat(100));
    let data: String = (1..40_000).map(|id| row(if id == 5_000 || id == 15_000 { 0 } else { id })).collect();
    let file = write(&dir, "twice.csv", data);
    let uri = format!("{}?options=-c%20lock_timeout%3D1s", cluster().coordinator_uris()[0]);
    // One stream may have had both pieces, if the others were slow to connect: then the server says it.
    let arguments = ["twice", &file, "--streams", "3", "--to", &uri];
    let mut said = (0..10).map(|_| String::from_utf8_lossy(&load(&arguments).stderr).into_owned());
    let said = said.find(|said| !said.contains("duplicate key")).expect("two streams");
    for part in ["lock timeout", "rows with the same key", "--streams 1"] {
        assert!(said.contains(part), "{said}");
    }
    fails_saying(&["twice", &file, "--streams", "1"], &[&format!("{file}:15000: duplicate key value")]);
    assert_eq!(client.scalar("SELECT count(*) FROM twice").unwrap(), "0");
}

#[test]
fn a_decision_stands() {
    let (mut client, dir) = (client(), TempDir::new("load-stands").unwrap());
    table(&mut client, "stands");
    // Makes the table of decisions.
    loads(&["stands", &write(&dir, "one.csv", "1,x\n"), "--batch", "1"]);
    for _ in 0..2 {
        fails_saying(&["stands", "--finish", "stands_unknown"], &["no load named \"stands_unknown\"", "hint"]);
    }
    let noted = "SELECT count(*) FROM loxo_load_progress WHERE load = 'stands_unknown'";
    assert_eq!(client.scalar(noted).unwrap(), "0");
    for (name, decided) in [("stands_a", true), ("stands_b", false)] {
        client.run("TRUNCATE stands").unwrap();
        client.run("BEGIN").unwrap();
        client.run("INSERT INTO stands VALUES (1, 'x'), (2, 'x'), (3, 'x'), (4, 'x')").unwrap();
        client.run(&format!("PREPARE TRANSACTION '{name}_0'")).unwrap();
        let decide = format!("INSERT INTO loxo_load_progress VALUES ('{name}', '', 0, 0, 10, 0)");
        if decided {
            client.run(&decide).unwrap();
        }
        loads(&["stands", "--finish", name]);
        assert_eq!(client.scalar("SELECT count(*) FROM stands").unwrap(), if decided { "4" } else { "0" });
        // A load that still lives cannot decide otherwise.
        let late = client.simple(&decide).unwrap();
        assert_eq!(late.error.map(|error| error.code().to_string()).as_deref(), Some("23505"));
    }
}

#[test]
fn a_load_in_batches_outlives_a_coordinator() {
    let (cluster, dir) = (Cluster::start(2, 2).unwrap(), TempDir::new("load-coordinator").unwrap());
    let file = write(&dir, "rows.csv", quoted_rows(1, 60_000));
    let mut client = cluster.connect(0).unwrap();
    client.run("CREATE TABLE rows (id bigint, note text) DISTRIBUTE BY HASH (id)").unwrap();
    let arguments = ["load", "--quiet", "rows", &file, "--batch", "500", "--streams", "2"];
    let mut tries = 0..5;
    let child = loop {
        tries.next().expect("the load is always too fast");
        let victim = pid_of(&cluster, "coord2");
        let mut child = load_command(&cluster, &arguments).spawn().unwrap();
        wait_until(&mut child, "rows", || client.scalar("SELECT count(*) FROM rows").unwrap() != "0");
        assert!(Command::new("kill").args(["-9", &victim]).status().unwrap().success());
        if child.try_wait().unwrap().is_none() {
            break child;
        }
        cluster.up().unwrap();
        client.run("TRUNCATE rows").unwrap();
        client.run("DELETE FROM loxo_load_progress").unwrap();
    };
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let sql = "SELECT count(*) || ' ' || count(DISTINCT id) FROM rows";
    assert_eq!(client.scalar(sql).unwrap(), "60000 60000");
}

#[test]
fn a_load_in_batches_outlives_broken_connections_of_the_datanodes() {
    let (cluster, dir) = (Cluster::start(2, 1).unwrap(), TempDir::new("load-broken").unwrap());
    let file = write(&dir, "rows.csv", quoted_rows(1, 60_000));
    let mut client = cluster.connect(0).unwrap();
    client.run("CREATE TABLE rows (id bigint, note text) DISTRIBUTE BY HASH (id)").unwrap();
    let arguments = ["load", "--quiet", "rows", &file, "--batch", "500", "--streams", "3"];
    let mut datanodes = [cluster.connect_datanode(0).unwrap(), cluster.connect_datanode(1).unwrap()];
    // Only backends that write: the gtm's and idle ones have nothing to lose.
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                WHERE pid <> pg_backend_pid() AND state <> 'idle' AND (query LIKE 'COPY%' OR query LIKE '%PREPARE%')";
    let (mut killed, mut runs) = (0, 0);
    loop {
        runs += 1;
        assert!(runs < 100, "the load makes no progress");
        let mut child = load_command(&cluster, &arguments).spawn().unwrap();
        let mut turn = 0;
        wait_until(&mut child, "the end of the load", || {
            turn += 1;
            // Every now and then, so that the load comes to its end.
            if turn % 40 == 0 && killed < 30 {
                killed += datanodes[turn / 40 % 2].scalar(kill).unwrap().parse::<u32>().unwrap();
            }
            false
        });
        let output = child.wait_with_output().unwrap();
        if output.status.success() && killed >= 3 {
            break;
        }
        if output.status.success() {
            client.run("TRUNCATE rows").unwrap();
            client.run("DELETE FROM loxo_load_progress").unwrap();
        }
    }
    assert!(killed >= 3, "only {killed} backends were ended");
    let sql = "SELECT count(*) || ' ' || count(DISTINCT id) FROM rows";
    assert_eq!(client.scalar(sql).unwrap(), "60000 60000");
}

#[test]
fn a_stock_server_can_be_loaded_too() {
    let settings = vec![("max_prepared_transactions".to_owned(), "0".to_owned())];
    let server = Server::start(&ServerOptions { settings, ..ServerOptions::default() }).unwrap();
    let dir = TempDir::new("load-stock").unwrap();
    let mut client = server.connect().unwrap();
    client.run("CREATE SCHEMA other").unwrap();
    client.run("CREATE TABLE other.stock (id bigint PRIMARY KEY, note text)").unwrap();
    let (file, uri) = (write(&dir, "stock.csv", quoted_rows(1, 100_000)), server.uri());
    let count = "SELECT count(*) FROM other.stock";
    // It has no room for prepared transactions, and nothing is left of the attempt.
    fails_saying(
        &["other.stock", &file, "--to", &uri, "--streams", "2"],
        &["prepared transactions are disabled", "hint"],
    );
    assert_eq!(client.scalar(count).unwrap(), "0");
    for more in [&["--streams", "1"][..], &["--batch", "5000", "--streams", "2"]] {
        client.run("TRUNCATE other.stock").unwrap();
        loads(&[&["other.stock", &file, "--to", &uri], more].concat());
        assert_eq!(client.scalar(count).unwrap(), "100000", "{more:?}");
    }
    assert_eq!(client.scalar("SELECT sum(rows) FROM other.loxo_load_progress WHERE file <> ''").unwrap(), "100000");
}

#[test]
fn unload_leaves_no_half_file() {
    let (mut client, dir) = (client(), TempDir::new("load-unload").unwrap());
    table(&mut client, "unloaded");
    client.run("INSERT INTO unloaded SELECT g, 'n' || g FROM generate_series(1, 3) g").unwrap();
    let out = dir.path().to_str().unwrap();
    let unload = |what: &str, more: &[&str]| {
        load_command(cluster(), &[&["unload", what, "--to", out], more].concat()).output().unwrap()
    };
    let query = unload("SELECT id, note FROM unloaded ORDER BY id", &["--header"]);
    assert!(query.status.success(), "{}", String::from_utf8_lossy(&query.stderr));
    let read = |name: &str| std::fs::read_to_string(Path::new(out).join(name)).unwrap();
    assert_eq!(read("query.csv"), "id,note\n1,n1\n2,n2\n3,n3\n");
    let again = unload("SELECT 1 AS x", &[]);
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("--overwrite"));
    let failing = unload("SELECT 1 / (id - 2) FROM unloaded", &["--overwrite"]);
    assert!(String::from_utf8_lossy(&failing.stderr).contains("division by zero"));
    assert_eq!(std::fs::read_dir(out).unwrap().count(), 1, "a part of a file is left");
    assert_eq!(read("query.csv"), "id,note\n1,n1\n2,n2\n3,n3\n");
}
