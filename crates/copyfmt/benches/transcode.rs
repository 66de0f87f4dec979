//! Nanoseconds a row of the COPY router: `cargo bench -p copyfmt`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use bytes::Bytes;
use copyfmt::{
    BLOCK_BYTES, CopyColumn, CopyOptions, Cutter, Format, KeyPart, KeyValue, Output, ParallelParse, Router, RouterSpec,
    Routing, Source, Step,
};
use placement::{BucketMap, KeyType};
use tpchgen::generators::LineItemGenerator;

const CHUNK_BYTES: usize = 64 * 1024;
const FRAME_BYTES: usize = 64 * 1024;
const ROUNDS: usize = 15;
const DESTINATIONS: u16 = 2;

const INT8: u32 = 20;
const INT4: u32 = 23;
const DATE: u32 = 1082;
const BPCHAR: u32 = 1042;
const VARCHAR: u32 = 1043;
const NUMERIC: u32 = 1700;
/// `numeric(15,2)`.
const NUMERIC_15_2: i32 = (15 << 16 | 2) + 4;

fn column(name: &str, type_oid: u32, type_modifier: i32) -> CopyColumn {
    CopyColumn { name: name.to_owned(), type_oid, type_modifier }
}

fn seven_columns() -> Vec<CopyColumn> {
    vec![
        column("l_orderkey", INT8, -1),
        column("l_partkey", INT8, -1),
        column("l_suppkey", INT8, -1),
        column("l_linenumber", INT8, -1),
        column("l_shipdate", DATE, -1),
        column("l_receiptdate", DATE, -1),
        column("l_shipinstruct", BPCHAR, 25 + 4),
    ]
}

fn sixteen_columns() -> Vec<CopyColumn> {
    let numeric = |name| column(name, NUMERIC, NUMERIC_15_2);
    vec![
        column("l_orderkey", INT8, -1),
        column("l_partkey", INT4, -1),
        column("l_suppkey", INT4, -1),
        column("l_linenumber", INT4, -1),
        numeric("l_quantity"),
        numeric("l_extendedprice"),
        numeric("l_discount"),
        numeric("l_tax"),
        column("l_returnflag", BPCHAR, 1 + 4),
        column("l_linestatus", BPCHAR, 1 + 4),
        column("l_shipdate", DATE, -1),
        column("l_commitdate", DATE, -1),
        column("l_receiptdate", DATE, -1),
        column("l_shipinstruct", BPCHAR, 25 + 4),
        column("l_shipmode", BPCHAR, 10 + 4),
        column("l_comment", VARCHAR, 44 + 4),
    ]
}

/// Lineitem rows of scale factor 0.1 with the wanted fields.
fn rows(separator: char, seven: bool) -> (Bytes, u64) {
    let (mut text, mut count) = (String::new(), 0);
    for line in LineItemGenerator::new(0.1, 1, 1).iter() {
        let line = line.to_string();
        let fields: Vec<&str> = line.trim_end_matches('|').split('|').collect();
        let picked: Vec<&str> = match seven {
            true => [0, 1, 2, 3, 10, 12, 13].iter().map(|i| fields[*i]).collect(),
            false => fields,
        };
        for (index, field) in picked.iter().enumerate() {
            if index > 0 {
                text.push(separator);
            }
            if separator == ',' && field.contains([',', '"']) {
                text.push('"');
                text.push_str(&field.replace('"', "\"\""));
                text.push('"');
            } else {
                text.push_str(field);
            }
        }
        text.push('\n');
        count += 1;
    }
    (Bytes::from(text), count)
}

fn spec(columns: Vec<CopyColumn>, format: Format, output: Output) -> RouterSpec {
    let nodes: Vec<u16> = (0..DESTINATIONS).collect();
    RouterSpec {
        relation: "lineitem".to_owned(),
        columns,
        options: CopyOptions::new(format),
        client_encoding: "UTF8".to_owned(),
        server_version: 150_000,
        timezone_is_utc: false,
        source: Source::Client,
        output,
        routing: Routing::Hash {
            key: vec![KeyPart { key_type: KeyType::Int8, value: KeyValue::Column(0) }],
            map: Arc::new(BucketMap::round_robin(&nodes)),
            nodes,
        },
        clockless: Vec::new(),
        frame_bytes: FRAME_BYTES,
    }
}

/// One pass over the data; the sum of output bytes, so that nothing is optimised away.
fn route(spec: RouterSpec, data: &Bytes, chunks: usize) -> (u64, u64) {
    let mut router = Router::new(spec).expect("a valid spec");
    let mut outputs: Vec<Vec<u8>> =
        (0..router.destinations()).map(|_| Vec::with_capacity(FRAME_BYTES + 4096)).collect();
    let (mut at, mut bytes) = (0, 0);
    loop {
        match router.step(&mut outputs).expect("valid data") {
            Step::NeedInput if at < data.len() => {
                let end = data.len().min(at + chunks);
                router.push(data.slice(at..end));
                at = end;
            }
            Step::NeedInput => router.finish(),
            Step::Full { dest } => {
                bytes += outputs[dest].len() as u64;
                outputs[dest].clear();
            }
            Step::Convert(conversion) => panic!("{conversion:?}"),
            Step::End => break,
        }
    }
    (bytes + outputs.iter().map(|o| o.len() as u64).sum::<u64>(), router.rows())
}

/// As [`route`], with a second thread that works ahead on every block that this one does not work on itself.
fn route_with_helper(spec: RouterSpec, data: &Bytes, chunks: usize) -> (u64, u64) {
    let mut router = Router::new(spec.clone()).expect("a valid spec");
    let mut cutter = Cutter::new(&spec.options, BLOCK_BYTES).expect("text or CSV");
    let mut outputs: Vec<Vec<u8>> = vec![Vec::new(); router.destinations()];
    let mut input = (0..data.len()).step_by(chunks).map(|at| data.slice(at..data.len().min(at + chunks)));
    let mut bytes = 0;
    std::thread::scope(|scope| {
        let (tasks, inbox) = sync_channel::<(Box<ParallelParse>, Vec<Bytes>)>(2);
        let (done, answers) = sync_channel(4);
        scope.spawn(move || {
            for (mut parsed, block) in inbox {
                parsed.work(&block);
                if done.send(parsed).is_err() {
                    return;
                }
            }
        });
        // Whose the next blocks are: the helper's, or done here.
        let mut jobs: VecDeque<Option<Box<ParallelParse>>> = VecDeque::new();
        let (mut spare, mut open, mut over) = (Vec::new(), 0, false);
        loop {
            match router.step(&mut outputs).expect("valid data") {
                Step::NeedInput if router.parallel_parse().is_none() => {
                    router.push(first_line(&mut cutter, &mut input))
                }
                Step::NeedInput => {
                    if spare.is_empty() && jobs.is_empty() && !over {
                        spare = (0..6).map_while(|_| router.parallel_parse()).collect();
                    }
                    spare.extend(router.spent());
                    while !over && !spare.is_empty() {
                        let Some(block) = next_block(&mut cutter, &mut input) else {
                            over = true;
                            break;
                        };
                        let Some(mut parsed) = spare.pop() else { break };
                        if open < 2 {
                            open += 1;
                            jobs.push_back(None);
                            tasks.send((parsed, block)).expect("the helper is there");
                            continue;
                        }
                        parsed.work(&block);
                        jobs.push_back(Some(parsed));
                        break;
                    }
                    match jobs.pop_front() {
                        Some(Some(parsed)) => router.push_parsed(parsed),
                        Some(None) => {
                            open -= 1;
                            router.push_parsed(answers.recv().expect("the helper is there"));
                        }
                        None => router.finish(),
                    }
                }
                Step::Full { dest } => {
                    bytes += outputs[dest].len() as u64;
                    outputs[dest].clear();
                }
                Step::Convert(conversion) => panic!("{conversion:?}"),
                Step::End => break,
            }
        }
        drop(tasks);
    });
    (bytes + outputs.iter().map(|o| o.len() as u64).sum::<u64>(), router.rows())
}

/// The first line, from which the router learns what rows look like.
fn first_line(cutter: &mut Cutter, input: &mut impl Iterator<Item = Bytes>) -> Bytes {
    let mut chunk = input.next().expect("rows");
    let end = chunk.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    let line = chunk.split_to(end);
    assert!(cutter.push(chunk).is_none(), "a chunk is no block");
    line
}

fn next_block(cutter: &mut Cutter, input: &mut impl Iterator<Item = Bytes>) -> Option<Vec<Bytes>> {
    input.find_map(|chunk| cutter.push(chunk)).or_else(|| Some(cutter.rest()).filter(|rest| !rest.is_empty()))
}

/// Prints a line, if the name has the words of the command line in it.
fn measure(name: &str, data: &Bytes, rows: u64, spec: impl Fn() -> RouterSpec) {
    measure_by(route, name, data, rows, spec);
}

fn measure_by(
    route: impl Fn(RouterSpec, &Bytes, usize) -> (u64, u64),
    name: &str,
    data: &Bytes,
    rows: u64,
    spec: impl Fn() -> RouterSpec,
) {
    if !std::env::args().skip(1).filter(|word| !word.starts_with('-')).all(|word| name.contains(&word)) {
        return;
    }
    let mut best_ns = f64::INFINITY;
    let mut bytes_out = 0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let (bytes, routed) = route(spec(), data, CHUNK_BYTES);
        best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / rows as f64);
        assert_eq!(routed, rows, "{name}");
        bytes_out = bytes;
    }
    let (in_bytes, out_bytes) = (data.len() as f64 / rows as f64, bytes_out as f64 / rows as f64);
    println!(
        "{name:32} {best_ns:7.1} ns/row {:7.2} M rows/s {:6.2} GB/s in   {in_bytes:5.1} B -> {out_bytes:5.1} B a row",
        1000.0 / best_ns,
        in_bytes / best_ns
    );
}

fn main() {
    let (csv7, count) = rows(',', true);
    let (text7, _) = rows('\t', true);
    let (csv16, _) = rows(',', false);
    let (text16, _) = rows('\t', false);
    measure("csv, 7 columns -> binary", &csv7, count, || spec(seven_columns(), Format::Csv, Output::Binary));
    measure("text, 7 columns -> binary", &text7, count, || spec(seven_columns(), Format::Text, Output::Binary));
    measure("csv, 16 columns -> binary", &csv16, count, || spec(sixteen_columns(), Format::Csv, Output::Binary));
    measure("text, 16 columns -> binary", &text16, count, || spec(sixteen_columns(), Format::Text, Output::Binary));
    for (name, data, columns, format) in [
        ("csv, 7 columns, two threads", &csv7, seven_columns(), Format::Csv),
        ("text, 7 columns, two threads", &text7, seven_columns(), Format::Text),
        ("csv, 16 columns, two threads", &csv16, sixteen_columns(), Format::Csv),
        ("text, 16 columns, two threads", &text16, sixteen_columns(), Format::Text),
    ] {
        measure_by(route_with_helper, name, data, count, || spec(columns.clone(), format, Output::Binary));
    }
    measure("csv, 7 columns, raw", &csv7, count, || spec(seven_columns(), Format::Csv, Output::Raw));
    measure("text, 16 columns, raw", &text16, count, || spec(sixteen_columns(), Format::Text, Output::Raw));
    let slow = || {
        // A letter as quote (it never occurs) is out of the ordinary: every row takes the slow lane.
        let mut spec = spec(seven_columns(), Format::Csv, Output::Binary);
        (spec.options.quote, spec.options.escape) = (b'z', b'z');
        spec
    };
    measure("slow lane: csv, 7 -> binary", &csv7, count, slow);
    let mut binary = copyfmt::BINARY_HEADER.to_vec();
    let mut outputs = vec![Vec::new()];
    let mut single = spec(seven_columns(), Format::Csv, Output::Binary);
    single.routing = Routing::Single;
    single.frame_bytes = usize::MAX;
    let mut router = Router::new(single).expect("a valid spec");
    router.push(csv7.clone());
    assert_eq!(router.step(&mut outputs).expect("valid data"), Step::NeedInput);
    binary.append(&mut outputs[0]);
    binary.extend_from_slice(&copyfmt::BINARY_TRAILER);
    let binary = Bytes::from(binary);
    measure("binary, 7 columns -> binary", &binary, count, || spec(seven_columns(), Format::Binary, Output::Binary));
}
