//! `loxo load`: what is in the files (bad rows, Parquet, tables made for them), and `loxo unload` into several.

use std::fs::File;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parquet::data_type as kind;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use testkit::wire::Client;
use testkit::{Cluster, TempDir};

mod loading;
use loading::{client, cluster, fails_saying, load_command, loads, pid_of, wait_until, write};

#[test]
fn rejected_rows_are_left_out_and_told() {
    let (mut client, dir) = (client(), TempDir::new("load-rejects").unwrap());
    client
        .run("CREATE TABLE rejects (id bigint PRIMARY KEY, note text NOT NULL, at date CHECK (at > '2000-01-01')) DISTRIBUTE BY HASH (id)")
        .unwrap();
    let good =
        |from: u64, to: u64| (from..=to).map(|id| format!("{id},\"a\n\"\"{id}\"\"\",2020-01-01\n")).collect::<String>();
    // Line 401 is a value, 602 a key, 603 a column too many, 606 too few, then NULL, CHECK, a row over two lines.
    let data = [
        "0,PostgreSQL does not count newlines in quotes of the first row,2020-01-01\n",
        &good(1, 200),
        "x,y,2020-01-01\n",
        &good(201, 300),
        "7,twice,2020-01-01\n8,c,2020-01-01,9\n",
        &good(301, 301),
        "302,\n303,,2020-01-01\n304,old,1999-01-01\n305,\"two\nlines\",2020-02-30\n",
        &good(306, 3000),
        "3001,ends,here",
    ]
    .concat();
    let file = write(&dir, "rejects.csv", &data);
    let lines: Vec<&str> = data.lines().collect();
    let line_of = |text: &str| lines.iter().position(|line| line.contains(text)).unwrap() + 1;
    let expected = [
        (line_of("x,y"), "22P02", "invalid input syntax for type bigint: \"\"x\"\""),
        (line_of("twice"), "23505", "duplicate key value violates unique constraint"),
        (line_of("8,c"), "22P04", "extra data after last expected column"),
        (line_of("302,"), "22P04", "missing data for column \"\"at\"\""),
        (line_of("303,"), "23502", "null value in column \"\"note\"\""),
        (line_of("304,"), "23514", "violates check constraint"),
        (line_of("lines\","), "22008", "date/time field value out of range: \"\"2020-02-30\"\""),
        (line_of("ends"), "22007", "invalid input syntax for type date: \"\"here\"\""),
    ];
    let rejects = dir.path().join("bad.csv");
    let path = rejects.to_str().unwrap();
    let check = |said: &str, client: &mut Client| {
        assert!(said.contains("8 rows were refused"), "{said}");
        let told = std::fs::read_to_string(&rejects).unwrap();
        let mut told = told.strip_prefix("file,line,sqlstate,message,detail,row\n").unwrap().to_owned();
        for (line, code, message) in expected {
            let start = format!("\"{file}\",{line},{code},\"");
            let at = told.find(&start).unwrap_or_else(|| panic!("no {start} in {told}"));
            assert!(told[at..].split('\n').next().unwrap().contains(message), "{message}: {told}");
            told = told.replacen(&start, "", 1);
        }
        assert!(told.contains("\"305,\"\"two\nlines\"\",2020-02-30\"\n"), "{told}");
        assert!(!told.contains(&file), "{told}");
        let count = "SELECT count(*) || ' ' || sum(id) FROM rejects";
        assert_eq!(client.scalar(count).unwrap(), format!("2997 {}", 3000 * 3001 / 2 - 302 - 303 - 304 - 305));
        std::fs::remove_file(&rejects).unwrap();
    };
    check(&loads(&["rejects", &file, "--rejects", path]), &mut client);
    for batch in ["1000", "70"] {
        client.run("TRUNCATE rejects").unwrap();
        // What a killed run wrote, the last record not to its end, is not repeated.
        let line = line_of("x,y");
        std::fs::write(&rejects, format!("file,line,sqlstate,message,detail,row\n\"{file}\",{line},22P02,\"inv"))
            .unwrap();
        check(
            &loads(&["rejects", &file, "--rejects", path, "--batch", batch, "--name", &format!("rejects {batch}")]),
            &mut client,
        );
    }
    client.run("TRUNCATE rejects").unwrap();
    let more = ["rejects", &file, "--rejects", path, "--reject-limit", "7"];
    fails_saying(&more, &[&format!("more than 7 rows were refused; the last: {file}:"), "--reject-limit"]);
    assert_eq!(client.scalar("SELECT count(*) FROM rejects").unwrap(), "0");
    fails_saying(&more, &["bad.csv\" exists"]);
    fails_saying(&["rejects", &file, "--rejects", &file, "--batch", "9"], &["is not a file of rejected rows"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), data);
}

/// Writes the next column of a row group; a level of 0 is NULL.
fn column<T: kind::DataType>(group: &mut SerializedRowGroupWriter<'_, File>, values: &[T::T], levels: &[i16]) {
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, Some(levels), None).unwrap();
    column.close().unwrap();
}

const SCHEMA: &str = "message rows {
    optional int64 Id; optional boolean flag; optional int32 small (INTEGER(16,true)); optional int32 u32 (INTEGER(32,false));
    optional int64 u64 (INTEGER(64,false)); optional float f4; optional double f8; optional binary note (STRING);
    optional binary bytes; optional fixed_len_byte_array(16) id16 (UUID); optional binary doc (JSON);
    optional int32 day (DATE); optional int64 at (TIMESTAMP(MICROS,true)); optional int64 local (TIMESTAMP(NANOS,false));
    optional int32 clock (TIME(MILLIS,true)); optional int32 d4 (DECIMAL(9,2)); optional int64 d8 (DECIMAL(18,0));
    optional fixed_len_byte_array(16) d16 (DECIMAL(38,10)); optional int96 old;
}";

/// Two rows a group, the second of NULLs; `Id` counts the groups.
fn write_group(group: &mut SerializedRowGroupWriter<'_, File>, id: i64) {
    let one: &[i16] = &[1, 0];
    let bytes = |bytes: &[u8]| kind::ByteArray::from(bytes.to_vec());
    column::<kind::Int64Type>(group, &[id, -id], &[1, 1]);
    column::<kind::BoolType>(group, &[true], one);
    column::<kind::Int32Type>(group, &[-32_768], one);
    column::<kind::Int32Type>(group, &[-1], one);
    column::<kind::Int64Type>(group, &[-1], one);
    column::<kind::FloatType>(group, &[0.1], one);
    column::<kind::DoubleType>(group, &[f64::NEG_INFINITY], one);
    column::<kind::ByteArrayType>(group, &[bytes("a\t\\N\nü".as_bytes())], one);
    column::<kind::ByteArrayType>(group, &[bytes(b"\\\x00\xff")], one);
    column::<kind::FixedLenByteArrayType>(group, &[bytes(&[0xAB; 16]).into()], one);
    column::<kind::ByteArrayType>(group, &[bytes(br#"{"a": "\n"}"#)], one);
    column::<kind::Int32Type>(group, &[-719_163], one);
    column::<kind::Int64Type>(group, &[1_582_934_399_123_456], one);
    column::<kind::Int64Type>(group, &[-1_000], one);
    column::<kind::Int32Type>(group, &[86_399_999], one);
    column::<kind::Int32Type>(group, &[-5], one);
    column::<kind::Int64Type>(group, &[999_999_999_999_999_999], one);
    column::<kind::FixedLenByteArrayType>(group, &[bytes(&(-12_345_678_901_i128).to_be_bytes()).into()], one);
    let nanoseconds: u64 = 3_600_000_000_000;
    let old = kind::Int96::from(vec![nanoseconds as u32, (nanoseconds >> 32) as u32, 2_440_589]);
    column::<kind::Int96Type>(group, &[old], one);
}

fn write_parquet(dir: &TempDir, name: &str, schema: &str, groups: i64) -> String {
    let path = dir.path().join(name);
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let compression = parquet::basic::Compression::ZSTD(Default::default());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, Arc::new(properties)).unwrap();
    for id in 1..=groups {
        let mut group = writer.next_row_group().unwrap();
        write_group(&mut group, id);
        group.close().unwrap();
    }
    writer.close().unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn parquet_files_are_loaded_with_the_values_they_have() {
    let (mut client, dir) = (client(), TempDir::new("load-parquet").unwrap());
    let file = write_parquet(&dir, "rows.parquet", SCHEMA, 40);
    let said = loads(&["parquet", &file, "--create", "--distribute-by", "HASH (id)", "--streams", "3"]);
    assert!(
        said.contains("\"d16\" numeric(38,10)") && said.contains("80 rows in ") && said.contains("1 file"),
        "{said}"
    );
    client.run("SET TimeZone TO 'UTC'").unwrap();
    let row = "SELECT flag, small, u32, u64, f4, f8, note = E'a\\t\\\\N\\nü', bytes, id16, doc, day, at, local, clock, d4, d8, d16, \
               old FROM parquet WHERE id = 7";
    let values = &client.strings(row).unwrap()[0];
    let expected = [
        "t",
        "-32768",
        "4294967295",
        "18446744073709551615",
        "0.1",
        "-Infinity",
        "t",
        "\\x5c00ff",
        "abababab-abab-abab-abab-abababababab",
        "{\"a\": \"\\n\"}",
        "0001-12-31 BC",
        "2020-02-28 23:59:59.123456+00",
        "1969-12-31 23:59:59.999999",
        "23:59:59.999",
        "-0.05",
        "999999999999999999",
        "-1.2345678901",
        "1970-01-02 01:00:00+00",
    ];
    assert_eq!(values, &expected);
    let nulls = "SELECT count(*), sum(id), count(DISTINCT id), num_nulls(flag, small, u32, u64, f4, f8, note, bytes, id16, doc, \
                 day, at, local, clock, d4, d8, d16, old) FROM parquet GROUP BY 4 ORDER BY 4";
    assert_eq!(client.strings(nulls).unwrap(), [["40", "820", "40", "0"], ["40", "-820", "40", "18"]]);

    // In batches, which are not loaded again; into columns of other names and types.
    client.run("CREATE TABLE parquet_ids (k text, a bigint) DISTRIBUTE BY HASH (k)").unwrap();
    let ids = write_ids(&dir, "ids.parquet");
    for expected in ["5 rows in ", "0 rows in "] {
        let said = loads(&["parquet_ids", &ids, "--columns", "a,k", "--batch", "2"]);
        assert!(said.starts_with(expected), "{said}");
    }
    assert_eq!(client.scalar("SELECT string_agg(k, ',' ORDER BY a) FROM parquet_ids").unwrap(), "a,b,c,d,e");
    // The row of the file, from 1 on, is its line.
    client.run("CREATE TABLE parquet_bad (a smallint, \"B\" int) DISTRIBUTE BY HASH (a)").unwrap();
    fails_saying(
        &["parquet_bad", &ids],
        &[&format!("{ids}:1: invalid input syntax for type integer: \"a\""), "column B"],
    );
    fails_saying(&["parquet_ids", &ids], &["column \"B\" of the Parquet file is not one of \"parquet_ids\""]);
    fails_saying(&["parquet_ids", &ids, "--header"], &["option of COPY with Parquet", "hint"]);
    let list =
        "message rows { optional group tags (LIST) { repeated group list { optional binary element (STRING); } } }";
    let lists = write_parquet(&dir, "lists.parquet", list, 0);
    fails_saying(&["parquet_ids", &lists], &["Parquet column \"tags\" is a list", "hint"]);
    std::fs::write(dir.path().join("broken.parquet"), &std::fs::read(&ids).unwrap()[..60]).unwrap();
    fails_saying(&["parquet_ids", dir.path().join("broken.parquet").to_str().unwrap()], &["could not read"]);
    let empty = write_parquet(&dir, "empty.parquet", "message rows { required int32 a; }", 0);
    assert!(loads(&["parquet_ids", &empty]).starts_with("0 rows in "));
}

/// Row groups of 2, 2 and 1 rows.
fn write_ids(dir: &TempDir, name: &str) -> String {
    let path = dir.path().join(name);
    let schema =
        Arc::new(parse_message_type("message rows { required int32 A; required binary B (STRING); }").unwrap());
    let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, Default::default()).unwrap();
    for rows in [&[1, 2][..], &[3, 4], &[5]] {
        let mut group = writer.next_row_group().unwrap();
        let letter = |row: &i32| kind::ByteArray::from(vec![b'a' + *row as u8 - 1]);
        column::<kind::Int32Type>(&mut group, rows, &vec![1; rows.len()]);
        column::<kind::ByteArrayType>(&mut group, &rows.iter().map(letter).collect::<Vec<_>>(), &vec![1; rows.len()]);
        group.close().unwrap();
    }
    writer.close().unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_table_is_made_of_a_header_and_a_sample() {
    let (mut client, dir) = (client(), TempDir::new("load-create").unwrap());
    let data = "Id,Price,rate,active,born,seen,zip,note\n1,1.50,1e3,true,1999-12-31,2020-01-01 10:00:00+02,01234,\"a\nb\"\n\
                2,,,,,,,\n";
    let file = write(&dir, "created.csv", data);
    let arguments = ["created", &file, "--create", "--header", "--distribute-by", "REPLICATION"];
    let said = loads(&arguments);
    assert!(
        said.starts_with("CREATE TABLE created (\n    \"id\" bigint,\n") && said.contains("DISTRIBUTE BY REPLICATION;"),
        "{said}"
    );
    let sql = "SELECT string_agg(format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute \
               WHERE attrelid = 'created'::regclass AND attnum > 0";
    let types = "bigint, numeric, double precision, boolean, date, timestamp with time zone, text, text";
    assert_eq!(client.scalar(sql).unwrap(), types);
    assert_eq!(
        client.scalar("SELECT count(*) || note || zip FROM created WHERE id = 1 GROUP BY note, zip").unwrap(),
        "1a\nb01234"
    );
    fails_saying(&arguments, &["relation \"created\" already exists"]);
    fails_saying(&["created2", &file, "--create"], &["without a header", "--header"]);
    for expected in ["2 rows in ", "0 rows in "] {
        let said = loads(&["created2", &file, "--create", "--header", "--batch", "1"]);
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_direct_load_needs_no_coordinator() {
    let (cluster, dir) = (Cluster::start(2, 1).unwrap(), TempDir::new("load-direct").unwrap());
    let mut client = cluster.connect(0).unwrap();
    client.run("CREATE TABLE direct (id bigint PRIMARY KEY, note text) DISTRIBUTE BY HASH (id)").unwrap();
    drop(client);
    let pid = pid_of(&cluster, "coord1");
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    let rows: String = (1..=200_000).map(|id| format!("{id},note {id}\n")).collect();
    let file = write(&dir, "rows.csv", &rows);
    let bad = write(&dir, "bad.csv", "200001,x\n200002\n");
    let load = |files: &[&str]| {
        let arguments = [&["load", "--quiet", "direct", "--direct", "--streams", "2"], files].concat();
        load_command(&cluster, &arguments).output().unwrap()
    };
    let counts =
        || [0, 1].map(|node| cluster.connect_datanode(node).unwrap().scalar("SELECT count(*) FROM direct").unwrap());
    let failed = load(&[&file, &bad]);
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(said.contains(&format!("{bad}:2: missing data for column \"note\"")), "{said}");
    assert_eq!(counts(), ["0", "0"]);
    let loaded = load(&[&file]);
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    let sum: u64 = counts().iter().map(|count| count.parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 200_000);
}

#[test]
fn dropped_indexes_come_back_whoever_dies() {
    let (mut client, dir) = (client(), TempDir::new("load-indexes").unwrap());
    client.run("CREATE TABLE indexed (id bigint PRIMARY KEY, note text) DISTRIBUTE BY HASH (id)").unwrap();
    for index in [
        "INDEX \"Of note\" ON indexed (note DESC) WITH (fillfactor = 70)",
        "INDEX indexed_lower ON indexed (lower(note))",
        "INDEX indexed_some ON indexed (id) WHERE note IS NOT NULL",
        "INDEX indexed_commented ON indexed (id, note)",
        "UNIQUE INDEX indexed_unique ON indexed (id, note)",
    ] {
        client.run(&format!("CREATE {index}")).unwrap();
    }
    client.run("COMMENT ON INDEX indexed_commented IS 'stays'").unwrap();
    let list = "SELECT string_agg(indexdef, ';' ORDER BY indexname) FROM pg_indexes WHERE tablename = 'indexed'";
    let count = "SELECT count(*) FROM pg_indexes WHERE tablename = 'indexed'";
    let whole = client.scalar(list).unwrap();
    let on_nodes = || [0, 1].map(|node| cluster().connect_datanode(node).unwrap().scalar(list).unwrap());
    let rows = |from: u64, to: u64| (from..to).map(|id| format!("{id},note {id}\n")).collect::<String>();
    let file = write(&dir, "rows.csv", rows(1, 1000));
    let said = loads(&["indexed", &file, "--drop-indexes"]);
    assert!(said.contains("3 indexes were made again in "), "{said}");
    assert_eq!(on_nodes(), [whole.clone(), whole.clone()]);
    fails_saying(&["indexed", &file, "--drop-indexes"], &["duplicate key value"]);
    assert_eq!(on_nodes(), [whole.clone(), whole.clone()]);

    // Killed in the middle, twice; found and made again by a command for it, then by any other load.
    let many = write(&dir, "many.csv", rows(1000, 60_000));
    let few = write(&dir, "few.csv", rows(0, 1));
    for attempt in 0..2 {
        let arguments = ["load", "--quiet", "indexed", &many, "--drop-indexes", "--batch", "500", "--streams", "1"];
        for tries in 0.. {
            let mut child = load_command(cluster(), &arguments).spawn().unwrap();
            wait_until(&mut child, "dropped indexes", || client.scalar(count).unwrap() == "3");
            let _ = child.kill();
            if child.wait().unwrap().code().is_none() {
                break;
            }
            assert!(tries < 5, "the load is always too fast to be killed");
            client.run("DELETE FROM indexed WHERE id >= 1000").unwrap();
            client.run("DELETE FROM loxo_load_progress WHERE load LIKE '%.indexed %'").unwrap();
        }
        assert_eq!(client.scalar(count).unwrap(), "3");
        let said = match attempt {
            0 => loads(&["indexed", "--restore-indexes"]),
            _ => loads(&["indexed", &few]),
        };
        assert!(said.contains("3 indexes were made again"), "{said}");
        assert_eq!(on_nodes(), [whole.clone(), whole.clone()]);
    }
    assert!(loads(&["indexed", "--restore-indexes"]).starts_with("0 indexes were made again"));
}

#[test]
fn unloaded_compressed_and_loaded_again() {
    let (mut client, dir) = (client(), TempDir::new("load-compress").unwrap());
    client.run("CREATE TABLE packed (id bigint, note text) DISTRIBUTE BY HASH (id)").unwrap();
    client.run("INSERT INTO packed SELECT g, repeat('x', g % 50) FROM generate_series(1, 20000) g").unwrap();
    let out = dir.path().to_str().unwrap();
    for (how, extension) in [("gzip", "gz"), ("zstd", "zst")] {
        let output = load_command(cluster(), &["unload", "packed", "--to", out, "--compress", how]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let file = format!("{out}/packed.csv.{extension}");
        assert!(std::fs::metadata(&file).unwrap().len() < 200_000);
        client.run("CREATE TABLE again (LIKE packed) DISTRIBUTE BY HASH (id)").unwrap();
        loads(&["again", &file]);
        let differ = "SELECT count(*) FROM (TABLE packed EXCEPT ALL TABLE again) d";
        assert_eq!(client.scalar(differ).unwrap(), "0");
        assert_eq!(client.scalar("SELECT count(*) FROM again").unwrap(), "20000");
        client.run("DROP TABLE again").unwrap();
    }
    assert_eq!(std::fs::read_dir(out).unwrap().count(), 2, "a part of a file is left");
}

/// Says that it is over, when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn files_of_several_nodes_are_of_one_moment() {
    let (mut client, dir) = (client(), TempDir::new("load-nodes").unwrap());
    client.run("CREATE TABLE moved (id bigint PRIMARY KEY, amount int) DISTRIBUTE BY HASH (id)").unwrap();
    client.run("INSERT INTO moved SELECT g, 100 FROM generate_series(0, 999) g").unwrap();
    let done = AtomicBool::new(false);
    let unload = |more: &[&str]| {
        let out = dir.path().to_str().unwrap();
        let arguments = [&["unload", "moved", "--to", out, "--per-node", "--overwrite"], more].concat();
        load_command(cluster(), &arguments).output().unwrap()
    };
    let read = |node: &str| std::fs::read_to_string(dir.path().join(format!("moved.{node}.csv"))).unwrap();
    std::thread::scope(|scope| {
        let move_amounts = || {
            let (mut client, mut moves) = (loading::client(), 0);
            while !done.load(Ordering::Relaxed) {
                moves += 1;
                let (from, to) = (moves % 1000, (moves * 7 + 1) % 1000);
                client
                    .run(&format!(
                        "BEGIN; UPDATE moved SET amount = amount - 1 WHERE id = {from}; \
                                     UPDATE moved SET amount = amount + 1 WHERE id = {to}; COMMIT"
                    ))
                    .unwrap();
            }
            moves
        };
        let movers = [scope.spawn(move_amounts), scope.spawn(move_amounts)];
        // Whatever goes wrong, the movers end.
        let ends = Ends(&done);
        let mut different = std::collections::HashSet::new();
        for _ in 0..12 {
            let output = unload(&[]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let rows = read("dn1") + &read("dn2");
            assert_eq!(rows.lines().count(), 1000);
            let sum: i64 = rows.lines().map(|row| row.split_once(',').unwrap().1.parse::<i64>().unwrap()).sum();
            assert_eq!(sum, 100_000, "half of a transfer is in the files");
            different.insert(rows);
        }
        drop(ends);
        let moves: Vec<u64> = movers.into_iter().map(|mover| mover.join().unwrap()).collect();
        assert!(different.len() > 1 && moves.iter().all(|moves| *moves > 20), "{} {moves:?}", different.len());
    });
    let header = unload(&["--header", "--compress", "gzip"]);
    assert!(header.status.success(), "{}", String::from_utf8_lossy(&header.stderr));
    assert!(dir.path().join("moved.dn2.csv.gz").exists());
    let query = load_command(cluster(), &["unload", "SELECT 1", "--to", "/nowhere", "--per-node"]).output().unwrap();
    assert!(String::from_utf8_lossy(&query.stderr).contains("\"--per-node\" with a query"));
}

#[test]
fn the_summary_tells_what_the_datanodes_were_seen_at() {
    let (mut client, dir) = (client(), TempDir::new("load-summary").unwrap());
    client.run("CREATE TABLE seen (id bigint PRIMARY KEY, note text) DISTRIBUTE BY HASH (id)").unwrap();
    client.run("BEGIN; INSERT INTO seen VALUES (30000, 'in the way')").unwrap();
    let data: String = (1..60_000).map(|id| format!("{id},{}\n", "x".repeat(100))).collect();
    let file = write(&dir, "seen.csv", data);
    let mut child = load_command(cluster(), &["load", "--quiet", "seen", &file]).spawn().unwrap();
    let waits = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND query LIKE 'COPY public.seen%' \
                 AND waitstart < clock_timestamp() - interval '2 s'";
    let mut nodes = [0, 1].map(|node| cluster().connect_datanode(node).unwrap());
    wait_until(&mut child, "a COPY that waits", || nodes.iter_mut().any(|node| node.scalar(waits).unwrap() != "0"));
    client.run("ROLLBACK").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let seen = said.lines().find(|line| line.starts_with("COPYs on the datanodes: "));
    assert!(seen.is_some_and(|line| line.contains("locks")), "{said}");
    assert!(said.contains("into dn1 ") && said.contains("bottleneck: "), "{said}");
}
