//! Rules that a server of one version, reading from STDIN, cannot show: PostgreSQL 18, files, routing methods.

use std::sync::Arc;

use bytes::Bytes;
use copyfmt::{
    BinaryItem, BinarySplitter, CopyColumn, CopyOptions, Format, KeyPart, KeyValue, OptionValue, Output, Router,
    RouterSpec, Routing, Source, Step, reads_clock, tuple_fields,
};
use pgerror::field;
use placement::{BUCKETS, BucketMap, KeyHasher, KeyType};

const TEXT: u32 = 25;
const INT8: u32 = 20;

fn spec(format: Format, types: &[u32]) -> RouterSpec {
    let column =
        |(i, type_oid): (usize, &u32)| CopyColumn { name: format!("c{i}"), type_oid: *type_oid, type_modifier: -1 };
    RouterSpec {
        relation: "t".to_owned(),
        columns: types.iter().enumerate().map(column).collect(),
        options: CopyOptions::new(format),
        client_encoding: "UTF8".to_owned(),
        server_version: 150_000,
        timezone_is_utc: false,
        source: Source::Client,
        output: Output::Binary,
        routing: Routing::Single,
        clockless: Vec::new(),
        frame_bytes: 1 << 20,
    }
}

/// The outputs, or the error's message and context.
fn route(spec: RouterSpec, data: &[u8]) -> Result<Vec<Vec<u8>>, (String, String)> {
    let words = |e: pgerror::PgError| (e.message().into_owned(), e.text(field::WHERE).into_owned());
    let mut router = Router::new(spec).map_err(words)?;
    let mut outputs = vec![Vec::new(); router.destinations()];
    router.push(Bytes::copy_from_slice(data));
    loop {
        match router.step(&mut outputs).map_err(words)? {
            Step::NeedInput => router.finish(),
            Step::End => return Ok(outputs),
            other => panic!("{other:?}"),
        }
    }
}

/// The first column's values of binary tuples.
fn first_values(mut tuples: &[u8]) -> Vec<Option<Vec<u8>>> {
    let mut splitter = BinarySplitter::new();
    splitter.next(&copyfmt::BINARY_HEADER, false, None).expect("a header");
    let mut values = Vec::new();
    while let Ok(BinaryItem::Tuple(length)) = splitter.next(tuples, false, None) {
        values.push(tuple_fields(&tuples[..length]).next().expect("a column").map(<[u8]>::to_vec));
        tuples = &tuples[length..];
    }
    assert!(tuples.is_empty(), "whole tuples only");
    values
}

fn texts(values: &[&str]) -> Vec<Option<Vec<u8>>> {
    values.iter().map(|v| Some(v.as_bytes().to_vec())).collect()
}

#[test]
fn the_end_of_copy_marker_by_version_and_source() {
    let corrupt = "end-of-copy marker corrupt";
    let not_alone = "end-of-copy marker is not alone on its line";
    let mixed = "end-of-copy marker does not match previous newline style";
    for (format, version, source, data, expected) in [
        (Format::Text, 150_000, Source::Client, "a\n\\.\nb\n", Ok(&["a"][..])),
        (Format::Text, 180_000, Source::Client, "a\n\\.\nb\n", Ok(&["a"])),
        (Format::Text, 150_000, Source::Client, "a\nb\\.\nc\n", Ok(&["a", "b"])),
        (Format::Text, 150_000, Source::File, "a\nb\\.\nc\n", Ok(&["a", "b", "c"])),
        (Format::Text, 150_000, Source::File, "a\n\\.\nc\n", Ok(&["a"])),
        (Format::Text, 180_000, Source::Client, "a\nb\\.\nc\n", Err(not_alone)),
        (Format::Text, 150_000, Source::Client, "a\n\\.x\n", Err(corrupt)),
        (Format::Text, 180_000, Source::Client, "a\n\\.x\n", Err(not_alone)),
        (Format::Text, 150_000, Source::Client, "a\n\\.\r\n", Err(mixed)),
        (Format::Csv, 170_000, Source::Client, "a\n\\.\nb\n", Ok(&["a"])),
        (Format::Csv, 180_000, Source::Client, "a\n\\.\nb\n", Ok(&["a", "\\.", "b"])),
        (Format::Csv, 170_000, Source::Client, "a\n\\.x\n\"\\.\"\n", Ok(&["a", "\\.x", "\\."])),
    ] {
        let mut spec = spec(format, &[TEXT]);
        (spec.server_version, spec.source) = (version, source);
        match (route(spec, data.as_bytes()), expected) {
            (Ok(outputs), Ok(rows)) => {
                assert_eq!(first_values(&outputs[0]), texts(rows), "{data:?} {version} {source:?}")
            }
            (Err((message, context)), Err(expected)) => {
                assert_eq!(message, expected, "{data:?} {version}");
                assert_eq!(context, "COPY t, line 2");
            }
            (got, _) => panic!("{data:?} {version} {source:?}: {got:?}"),
        }
    }
}

#[test]
fn long_lines_are_cut_in_contexts_at_a_character() {
    let line = format!("{}é tail", "x".repeat(99));
    let error = route(spec(Format::Text, &[TEXT, TEXT]), line.as_bytes()).expect_err("a column is missing");
    assert_eq!(error.0, "missing data for column \"c1\"");
    assert_eq!(error.1, format!("COPY t, line 1: \"{}...\"", "x".repeat(99)));
}

#[test]
fn a_key_of_two_columns_and_a_default_hashes_in_key_order() {
    let (nodes, map) = (vec![4u16, 2, 9], BucketMap::round_robin(&[4, 2, 9]));
    let part = |key_type, value| KeyPart { key_type, value };
    let mut spec = spec(Format::Csv, &[TEXT, INT8]);
    spec.routing = Routing::Hash {
        key: vec![
            part(KeyType::Int8, KeyValue::Column(1)),
            part(KeyType::Text, KeyValue::Default(Some(b"dflt".to_vec()))),
            part(KeyType::Text, KeyValue::Column(0)),
        ],
        map: Arc::new(map.clone()),
        nodes: nodes.clone(),
    };
    let rows: Vec<(String, i64)> = (0..60).map(|i| (format!("v{i}"), i * 7)).collect();
    let data: String = rows.iter().map(|(text, number)| format!("{text},{number}\n")).collect();
    let outputs = route(spec, data.as_bytes()).expect("good rows");
    for (text, number) in rows {
        let mut key = KeyHasher::new();
        key.binary(KeyType::Int8, Some(&number.to_be_bytes())).expect("a key");
        key.text(KeyType::Text, Some(b"dflt")).expect("a key");
        key.text(KeyType::Text, Some(text.as_bytes())).expect("a key");
        let dest = nodes.iter().position(|n| *n == map.node(key.bucket())).expect("a destination");
        assert!(first_values(&outputs[dest]).contains(&Some(text.clone().into_bytes())), "{text}");
    }
}

#[test]
fn modulo_and_round_robin() {
    let mut by_value = spec(Format::Csv, &[INT8]);
    let nodes: Vec<u16> = (0..BUCKETS as u16).map(|bucket| u16::from(bucket == 4095)).collect();
    by_value.routing = Routing::Modulo {
        key: KeyPart { key_type: KeyType::Int8, value: KeyValue::Column(0) },
        map: Arc::new(BucketMap::from_slice(&nodes).expect("a map")),
        nodes: vec![0, 1],
    };
    let outputs = route(by_value, b"-1\n4095\n4096\n\n8191\n").expect("good rows");
    assert_eq!(outputs.iter().map(|o| first_values(o).len()).collect::<Vec<_>>(), [2, 3]);

    let mut in_turn = spec(Format::Csv, &[TEXT]);
    in_turn.routing = Routing::RoundRobin { destinations: 2, start: 3 };
    let outputs = route(in_turn, b"a\nb\nc\n").expect("good rows");
    assert_eq!((first_values(&outputs[0]), first_values(&outputs[1])), (texts(&["b"]), texts(&["a", "c"])));
}

#[test]
fn encodings_that_cannot_be_split_are_refused() {
    for (name, is_refused) in [("SJIS", true), ("gb18030", true), ("Big5", true), ("LATIN1", false), ("EUC_JP", false)]
    {
        let mut spec = spec(Format::Csv, &[TEXT]);
        spec.output = Output::Raw;
        spec.client_encoding = name.to_owned();
        let result = Router::new(spec);
        assert_eq!(result.is_err(), is_refused, "{name}");
        if let Err(error) = result {
            assert_eq!(error.code(), pgerror::SqlState::FEATURE_NOT_SUPPORTED);
        }
    }
}

#[test]
fn options_go_to_sql_and_differ_by_version() {
    let text = |text: &str| OptionValue::Text(text.to_owned());
    let pairs = |list: &[(&str, OptionValue)]| -> Vec<(String, OptionValue)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    };
    let csv = pairs(&[
        ("format", text("csv")),
        ("delimiter", text("|")),
        ("null", text("\\N")),
        ("escape", text("'")),
        ("header", OptionValue::None),
        ("force_null", OptionValue::List(vec!["Odd \"name".to_owned()])),
    ]);
    let options = CopyOptions::from_pairs(&csv, true, 150_000).expect("good options");
    let sql = "(FORMAT csv, DELIMITER '|', NULL E'\\\\N', ESCAPE '''', FORCE_NULL (\"Odd \"\"name\"))";
    assert_eq!(options.to_sql(), sql);

    let default = pairs(&[("default", text("\\D"))]);
    let message = |version| CopyOptions::from_pairs(&default, true, version).map_err(|e| e.message().into_owned());
    assert_eq!(message(150_000), Err("option \"default\" not recognized".to_owned()));
    assert_eq!(message(160_000).map(|o| o.to_sql()), Ok("(FORMAT text, DEFAULT E'\\\\D')".to_owned()));

    let ignore = pairs(&[("on_error", text("ignore")), ("reject_limit", OptionValue::Integer(3))]);
    let sql = CopyOptions::from_pairs(&ignore, true, 180_000).expect("good options").to_sql();
    assert_eq!(sql, "(FORMAT text, ON_ERROR ignore, REJECT_LIMIT 3)");
    let to = CopyOptions::from_pairs(&pairs(&[("header", text("match"))]), false, 150_000).expect_err("COPY TO");
    assert_eq!(to.message(), "cannot use \"match\" with HEADER in COPY TO");
}

/// What a datanode says of a row it got in binary, and what PostgreSQL would have said.
#[test]
fn a_line_is_found_again_for_the_context() {
    let long = "x".repeat(150);
    let lines = ["h0,h1", "1,\"two\r\nlines\"", "2,", "\"3\",ä€", &long, "4,last"];
    // The quoted line feed counts: PostgreSQL names a row by its last line.
    let numbers = [1, 3, 4, 5, 6, 7];
    let data = lines.join("\n").into_bytes();
    for source in [Source::Client, Source::File] {
        for size in [1, 2, 3, 7, 20, 1000] {
            let mut options = CopyOptions::new(Format::Csv);
            options.header = copyfmt::Header::Yes;
            let mut router =
                Router::new(RouterSpec { options, source, ..spec(Format::Csv, &[TEXT, TEXT]) }).expect("a spec");
            let mut outputs = vec![Vec::new()];
            let mut chunks = data.chunks(size);
            while let Ok(Step::NeedInput) = router.step(&mut outputs) {
                match chunks.next() {
                    Some(chunk) => router.push(Bytes::copy_from_slice(chunk)),
                    None => router.finish(),
                }
            }
            let again = |number| {
                let mut finder = router.line_finder(number);
                data.chunks(size)
                    .find_map(|chunk| finder.push(Bytes::copy_from_slice(chunk)))
                    .or_else(|| finder.finish())
            };
            // The row of one column is an error: input behind it is read by nobody.
            for (line, number) in lines.iter().zip(numbers).take(5) {
                let text = Some(line.as_bytes().to_vec());
                assert_eq!(again(number), text, "line {number} in pieces of {size}");
                let kept = (source == Source::Client).then_some(text).flatten();
                assert_eq!(router.recent_line(number), kept, "line {number} in pieces of {size}");
            }
            assert_eq!(again(7).as_deref(), Some(&b"4,last"[..]));
            assert_eq!((again(2), again(8)), (None, None));
        }
    }
}

#[test]
fn a_context_gets_the_line_number_and_the_text() {
    let data = b"a\nb\n";
    let mut router = Router::new(spec(Format::Text, &[TEXT])).expect("a spec");
    let mut outputs = vec![Vec::new()];
    router.push(Bytes::from_static(data));
    assert_eq!(router.step(&mut outputs).expect("rows"), Step::NeedInput);
    let cases = [
        ("COPY t, line 2", Some("COPY t, line 2: \"b\"")),
        (
            "PL/pgSQL function f() line 1 at RAISE\nCOPY t, line 1",
            Some("PL/pgSQL function f() line 1 at RAISE\nCOPY t, line 1: \"a\""),
        ),
        ("COPY t, line 1, column c0: \"a\"", None),
        ("COPY t, line 1: \"a\"", None),
    ];
    for (context, expected) in cases {
        let error = pgerror::PgError::internal("").context(context);
        let found = router.with_input_line(error, 0);
        let line = router.unquoted_line(&found);
        assert_eq!(line.is_some(), expected.is_some(), "{context}");
        if let Some(line) = line {
            let text = router.recent_line(line).expect("it was just read");
            assert_eq!(Some(&*router.quote_line(found, line, &text).text(field::WHERE)), expected);
        }
    }
}

#[test]
fn words_that_read_the_clock_are_found_in_times_arrays_and_ranges() {
    let read = ["now", " Now ", "12:00 today", "TOMORROW 04:05", "{2024-01-01,now}", r#"{"n\o""w"}"#, "[yesterday,)"];
    assert!(read.iter().all(|text| reads_clock(text.as_bytes())));
    let plain =
        ["2024-01-01T10:00:00Z", "0044-03-15 BC", "infinity", "1 Jan 2024", "10:00 Europe/Berlin", "nowhere", ""];
    assert!(!plain.iter().any(|text| reads_clock(text.as_bytes())));
}
