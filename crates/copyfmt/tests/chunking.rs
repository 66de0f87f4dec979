//! However the input is cut, the outputs, the error and the line log are the same.

use std::sync::Arc;

use bytes::Bytes;
use copyfmt::{
    CopyColumn, CopyOptions, Cutter, ForceColumns, Format, Header, KeyPart, KeyValue, Output, Router, RouterSpec,
    Routing, Source, Step,
};
use placement::{BucketMap, KeyType};
use proptest::prelude::*;

fn spec(options: CopyOptions, output: Output, source: Source, server_version: u32) -> RouterSpec {
    let column = |name: &str, type_oid| CopyColumn { name: name.to_owned(), type_oid, type_modifier: -1 };
    RouterSpec {
        relation: "t".to_owned(),
        columns: vec![column("a", 25), column("k", 20)],
        options,
        client_encoding: "UTF8".to_owned(),
        server_version,
        timezone_is_utc: false,
        source,
        output,
        routing: Routing::Hash {
            key: vec![KeyPart { key_type: KeyType::Int8, value: KeyValue::Column(1) }],
            map: Arc::new(BucketMap::round_robin(&[0, 1, 2])),
            nodes: vec![0, 1, 2],
        },
        clockless: Vec::new(),
        frame_bytes: 64,
    }
}

/// Everything that can be seen from outside. A value that must be converted is replaced by 7.
#[derive(PartialEq, Debug)]
struct Seen {
    streams: Vec<Vec<u8>>,
    error: Option<String>,
    lines: Vec<Vec<Option<u64>>>,
    conversions: Vec<Option<Vec<u8>>>,
    batches: u64,
    /// Lines that are found again.
    known: Vec<Option<Vec<u8>>>,
}

fn route<'a>(spec: RouterSpec, chunks: impl Iterator<Item = &'a [u8]>) -> Seen {
    let mut chunks = chunks;
    route_by(spec, |router| match chunks.next() {
        Some(chunk) => router.push(Bytes::copy_from_slice(chunk)),
        None => router.finish(),
    })
}

/// The same with work done ahead on every chunk, wherever it begins and ends.
fn route_in_parallel<'a>(spec: RouterSpec, chunks: impl Iterator<Item = &'a [u8]>) -> (Seen, u64) {
    let (mut chunks, mut rows_in_parallel) = (chunks, 0);
    let seen = route_by(spec, |router| {
        rows_in_parallel = router.rows_in_parallel();
        let Some(chunk) = chunks.next() else { return router.finish() };
        let chunk = Bytes::copy_from_slice(chunk);
        match router.spent().or_else(|| router.parallel_parse()) {
            Some(mut parsed) => {
                let middle = chunk.len() / 2;
                parsed.work(&[chunk.slice(..middle), chunk.slice(middle..)]);
                router.push_parsed(parsed);
            }
            None => router.push(chunk),
        }
    });
    (seen, rows_in_parallel)
}

fn route_by(spec: RouterSpec, mut feed: impl FnMut(&mut Router)) -> Seen {
    let mut router = Router::new(spec).expect("a valid spec");
    let mut outputs = vec![Vec::new(); router.destinations()];
    let mut seen = Seen {
        streams: outputs.clone(),
        error: None,
        lines: Vec::new(),
        conversions: Vec::new(),
        batches: 0,
        known: Vec::new(),
    };
    loop {
        match router.step(&mut outputs) {
            Ok(Step::NeedInput) => feed(&mut router),
            Ok(Step::Full { dest }) => seen.streams[dest].append(&mut outputs[dest]),
            Ok(Step::Convert(conversion)) => {
                seen.conversions.push(conversion.value);
                router.supply(Some(&7i64.to_be_bytes()));
            }
            Ok(Step::End) => break,
            Err(error) => {
                seen.error = Some(format!("{error:?} {}", error.text(pgerror::field::WHERE)));
                break;
            }
        }
    }
    for (dest, output) in outputs.iter().enumerate() {
        seen.streams[dest].extend_from_slice(output);
        let sent = router.line_log().lines_sent(dest);
        seen.lines.push((1..=sent).map(|n| router.line_log().input_line(dest, n)).collect());
    }
    seen.batches = router.batches();
    let ends = |lines: &Vec<Option<u64>>| [lines.first().copied().flatten(), lines.last().copied().flatten()];
    seen.known = seen.lines.iter().flat_map(ends).flatten().map(|line| router.recent_line(line)).collect();
    seen
}

/// Pieces that lines are made of, with all that is special.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => Just(&b"\n"[..]),
        6 => Just(&b"\t"[..]),
        6 => Just(&b","[..]),
        6 => Just(&b"12"[..]),
        3 => Just(&b"abc"[..]),
        3 => Just(&b"\""[..]),
        2 => Just(&b"\r\n"[..]),
        1 => Just(&b"\r"[..]),
        1 => Just(&b"\\"[..]),
        1 => Just(&b"\\."[..]),
        1 => Just(&b"\\.\n"[..]),
        1 => Just(&b"\\N"[..]),
        2 => Just("é日🐘".as_bytes()),
        1 => Just(&b"\xff"[..]),
        1 => Just(&b"\xe6\x97"[..]),
        1 => Just(&b"\0"[..]),
    ];
    // Whole good lines in front, so that the fast lane gets going.
    let lines = prop_oneof![
        Just(&b"x\t1\n"[..]),
        Just(&b"x,1\n"[..]),
        Just(&b"x\t1\r\n"[..]),
        Just(&b"x,1\r\n"[..]),
        Just(&b"\"x\",1\n"[..])
    ];
    (lines, 0..6usize, prop::collection::vec(piece, 0..40))
        .prop_map(|(line, count, pieces)| [line.repeat(count), pieces.concat()].concat())
}

fn options() -> impl Strategy<Value = CopyOptions> {
    (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(csv, header, escape, force)| {
        let mut options = CopyOptions::new(if csv { Format::Csv } else { Format::Text });
        options.header = if header { Header::Yes } else { Header::No };
        options.escape = if csv && escape { b'\\' } else { b'"' };
        options.force_null = if csv && force { ForceColumns::All } else { ForceColumns::None };
        options
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn chunks_do_not_matter(
        data in pieces(),
        options in options(),
        raw: bool,
        file: bool,
        new: bool,
        in_turn: bool,
        cuts in prop::collection::vec(1..9usize, 1..6),
    ) {
        let output = if raw { Output::Raw } else { Output::Binary };
        let source = if file { Source::File } else { Source::Client };
        let spec = || {
            let mut spec = spec(options.clone(), output, source, if new { 180_000 } else { 150_000 });
            if in_turn {
                spec.routing = Routing::RoundRobin { destinations: 3, start: 1 };
            }
            spec
        };
        let whole = route(spec(), std::iter::once(&data[..]));
        let mut rest = &data[..];
        let mut sizes = cuts.iter().cycle();
        let cut = std::iter::from_fn(|| {
            let size = *sizes.next()?;
            let (chunk, behind) = rest.split_at(size.min(rest.len()));
            rest = behind;
            (!chunk.is_empty()).then_some(chunk)
        });
        prop_assert_eq!(&route(spec(), cut), &whole);
        // A chunk a byte never reaches the fast lane: both lanes agree.
        prop_assert_eq!(&route(spec(), data.chunks(1)), &whole);
        // Blocks cut anywhere, and where a cutter cuts them.
        let size = 9 * cuts[0];
        prop_assert_eq!(&route_in_parallel(spec(), data.chunks(size)).0, &whole);
        let blocks = cut_by_cutter(&options, &data, size);
        prop_assert_eq!(&route_in_parallel(spec(), blocks.iter().map(Vec::as_slice)).0, &whole);
    }
}

/// Blocks of at least `size` bytes that end where rows seem to end.
fn cut_by_cutter(options: &CopyOptions, data: &[u8], size: usize) -> Vec<Vec<u8>> {
    let Some(mut cutter) = Cutter::new(options, size) else { return vec![data.to_vec()] };
    let chunks = data.chunks(5).map(Bytes::copy_from_slice);
    let mut blocks: Vec<Vec<u8>> = chunks.filter_map(|chunk| cutter.push(chunk)).map(|block| block.concat()).collect();
    blocks.push(cutter.rest().concat());
    assert_eq!(blocks.concat(), data);
    blocks
}

/// Nearly all of many rows are converted ahead, and the blocks' ends are found in spite of newlines in quotes.
#[test]
fn ordinary_rows_are_taken_over() {
    let csv = |i: usize| match i % 50 {
        0 => format!("\"two\nlines, {i}\",{i}\n"),
        1 => format!("\"a \"\"word\"\" {i}\",{i}\n"),
        _ => format!("word {i},{i}\n"),
    };
    let text =
        |i: usize| if i.is_multiple_of(50) { format!("two\\\nlines\t{i}\n") } else { format!("word {i}\t{i}\n") };
    for (format, data) in [
        (Format::Csv, (0..10_000).map(csv).collect::<String>()),
        (Format::Text, (0..10_000).map(text).collect::<String>()),
    ] {
        let options = CopyOptions::new(format);
        let spec = || spec(options.clone(), Output::Binary, Source::Client, 150_000);
        let whole = route(spec(), data.as_bytes().chunks(65_536));
        assert_eq!(whole.error, None);
        let blocks = cut_by_cutter(&options, data.as_bytes(), 10_000);
        assert!(blocks.iter().all(|block| block.len() < 10_100), "a row end was not found");
        let (seen, ahead) = route_in_parallel(spec(), blocks.iter().map(Vec::as_slice));
        // All but the first block, in which the line ends are found out, and what is out of the ordinary.
        assert!(seen == whole && ahead > 9_000, "{ahead} rows");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn long_rows_survive(length in 0..200_000usize, cut in 1..70_000usize) {
        let mut data = b"first,1\n\"".to_vec();
        data.extend(b"x\n".repeat(length / 2));
        data.extend_from_slice(b"\",2\nlast,3\n");
        let spec = || spec(CopyOptions::new(Format::Csv), Output::Binary, Source::Client, 150_000);
        let whole = route(spec(), std::iter::once(&data[..]));
        prop_assert_eq!(whole.error.as_ref(), None);
        prop_assert_eq!(&route(spec(), data.chunks(cut)), &whole);
    }
}
