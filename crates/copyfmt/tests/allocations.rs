//! Nothing is allocated per row: twice the rows need no more memory requests than a few buffers that grow.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use copyfmt::{CopyColumn, CopyOptions, Format, KeyPart, KeyValue, Output, Router, RouterSpec, Routing, Source, Step};
use placement::{BucketMap, KeyType};

struct Counting;

static REQUESTS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        REQUESTS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

type Line = fn(usize) -> String;

/// Rows of the first half and of the second.
const ROWS: usize = 50_000;
/// Chunks cut rows anywhere, as those of a client do.
const CHUNK_BYTES: usize = 8000;

fn router(format: Format, output: Output) -> Router {
    let column = |name: &str, type_oid| CopyColumn { name: name.to_owned(), type_oid, type_modifier: -1 };
    // xml is never transcoded.
    let last = if output == Output::Raw { 142 } else { 1700 };
    let columns = vec![column("k", 20), column("t", 25), column("d", 1082), column("n", last)];
    let spec = RouterSpec {
        relation: "t".to_owned(),
        columns,
        options: CopyOptions::new(format),
        client_encoding: "UTF8".to_owned(),
        server_version: 150_000,
        timezone_is_utc: false,
        source: Source::File,
        output,
        routing: Routing::Hash {
            key: vec![KeyPart { key_type: KeyType::Int8, value: KeyValue::Column(0) }],
            map: Arc::new(BucketMap::round_robin(&[0, 1])),
            nodes: vec![0, 1],
        },
        clockless: Vec::new(),
        frame_bytes: 64 * 1024,
    };
    Router::new(spec).expect("a valid spec")
}

/// Requests for memory while these chunks are routed.
fn route(router: &mut Router, outputs: &mut [Vec<u8>], chunks: Vec<Bytes>) -> usize {
    let before = REQUESTS.load(Ordering::Relaxed);
    let mut chunks = chunks.into_iter();
    loop {
        match router.step(outputs).expect("good rows") {
            Step::NeedInput => match chunks.next() {
                Some(chunk) => router.push(chunk),
                None => return REQUESTS.load(Ordering::Relaxed) - before,
            },
            Step::Full { dest } => outputs[dest].clear(),
            other => panic!("unexpected {other:?}"),
        }
    }
}

fn chunks(rows: &[String]) -> Vec<Bytes> {
    let data = Bytes::from(rows.concat());
    (0..data.len()).step_by(CHUNK_BYTES).map(|at| data.slice(at..data.len().min(at + CHUNK_BYTES))).collect()
}

#[test]
fn nothing_is_allocated_per_row() {
    // Quotes and escapes take the slow lane.
    let csv = |i: usize| format!("{i},\"a \"\"b\"\" {i}\",2024-02-29,{i}.25\n");
    let plain = |i: usize| format!("{i},word {i},2024-02-29,{i}.25\n");
    let text = |i: usize| format!("{i}\ta\\tb {i}\t2024-02-29\t{i}.25\n");
    let cases: [(&str, Format, Output, Line); 5] = [
        ("plain CSV", Format::Csv, Output::Binary, plain),
        ("quoted CSV", Format::Csv, Output::Binary, csv),
        ("text", Format::Text, Output::Binary, text),
        ("CSV as it comes", Format::Csv, Output::Raw, csv),
        ("text as it comes", Format::Text, Output::Raw, text),
    ];
    for (what, format, output, line) in cases {
        let rows: Vec<String> = (0..2 * ROWS).map(line).collect();
        let (first, second) = (chunks(&rows[..ROWS]), chunks(&rows[ROWS..]));
        let mut router = router(format, output);
        let mut outputs = vec![Vec::new(); router.destinations()];
        let warm_up = route(&mut router, &mut outputs, first);
        let requests = route(&mut router, &mut outputs, second);
        // The line log doubles now and then.
        assert!(requests <= 8, "{what}: {requests} requests for {ROWS} rows, after {warm_up} for the first ones");
    }
    nothing_is_allocated_per_row_in_parallel();
}

/// Nor is it when rows are converted ahead: a block costs its buffer. (No test of its own: requests of all threads are counted.)
fn nothing_is_allocated_per_row_in_parallel() {
    let rows: Vec<String> = (0..2 * ROWS).map(|i| format!("{i},word {i},2024-02-29,{i}.25\n")).collect();
    let mut router = router(Format::Csv, Output::Binary);
    let mut outputs = vec![Vec::new(); router.destinations()];
    route(&mut router, &mut outputs, vec![Bytes::from(rows[0].clone())]);
    let mut parsed = router.parallel_parse().expect("rows are known");
    let mut blocks = rows[1..].chunks(ROWS / 5).map(|rows| Bytes::from(rows.concat()));
    for number in 0..10 {
        let block = blocks.next().expect("a block");
        let before = REQUESTS.load(Ordering::Relaxed);
        parsed.work(std::slice::from_ref(&block));
        router.push_parsed(parsed);
        while let Step::Full { dest } = router.step(&mut outputs).expect("good rows") {
            outputs[dest].clear();
        }
        parsed = router.spent().expect("it comes back");
        let requests = REQUESTS.load(Ordering::Relaxed) - before;
        assert!(number < 5 || requests <= 6, "{requests} requests for a block of {} rows", ROWS / 5);
    }
    assert_eq!(router.rows(), router.rows_in_parallel() + 1);
}
