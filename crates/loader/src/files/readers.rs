//! Threads that read the files, and the queue between them and the streams.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Instant;

use copyfmt::{CopyOptions, Eol};
use pgerror::{PgError, Result};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinSet;

use crate::files::counters::Counters;
use crate::files::cut::{BLOCK_BYTES, Cutter, Done, Limits, Piece};
use crate::files::input::{self, RowGroup, Source};
use crate::files::ranges::{Part, RANGE_BYTES, Ranges, Tail};

/// What all readers share.
pub(crate) struct Plan {
    pub(crate) sources: Arc<Vec<Source>>,
    pub(crate) options: CopyOptions,
    pub(crate) server_version: u32,
    pub(crate) header: bool,
    pub(crate) limits: Limits,
    /// What is loaded already, of each file.
    pub(crate) done: HashMap<String, Vec<Done>>,
    pub(crate) counters: Arc<Counters>,
}

/// The streams' end of the queue.
#[derive(Clone)]
pub(crate) struct Queue {
    pieces: Arc<Mutex<mpsc::Receiver<Piece>>>,
    failed: watch::Receiver<bool>,
    counters: Arc<Counters>,
}

impl Queue {
    /// The next piece; `None` when all files are read, or a reader failed.
    pub(crate) async fn next(&self) -> Option<Piece> {
        let waiting = Instant::now();
        let mut failed = self.failed.clone();
        let mut pieces = self.pieces.lock().await;
        let piece = tokio::select! {
            biased;
            piece = pieces.recv() => piece,
            // Other readers may wait for their input for ever.
            Ok(_) = failed.wait_for(|failed| *failed) => pieces.try_recv().ok(),
        };
        self.counters.starved(waiting.elapsed());
        piece
    }
}

/// The threads. They are not of the runtime's: one that waits for stdin must not keep the program from ending.
pub(crate) struct Readers {
    running: usize,
    results: mpsc::UnboundedReceiver<Result<()>>,
    failed: watch::Sender<bool>,
}

impl Readers {
    /// Waits until all have ended, or one has failed.
    async fn ended(&mut self) -> Result<()> {
        for _ in 0..self.running {
            self.results.recv().await.unwrap_or_else(|| Err(PgError::internal("a reader of files failed")))?;
        }
        Ok(())
    }

    /// Waits for the streams and the readers; a stream's error is returned at once. When a reader fails, the streams still load
    /// what was read before, in which the servers may find an error that comes first.
    pub(crate) async fn join<T: 'static>(mut self, streams: JoinSet<Result<T>>) -> Result<Vec<T>> {
        let read = async {
            let read = self.ended().await;
            self.failed.send_replace(read.is_err());
            Ok(read)
        };
        let (loaded, read) = tokio::try_join!(all(streams), read)?;
        read.map(|()| loaded)
    }
}

/// Starts up to `threads` readers, each with a file or a part of one. They end when the files do or nobody holds the queue.
pub(crate) fn start(plan: Plan, threads: usize, pieces_waiting: usize) -> (Queue, Readers) {
    let (sender, receiver) = mpsc::channel(pieces_waiting);
    let (failed, has_failed) = watch::channel(false);
    let counters = Arc::clone(&plan.counters);
    let queue = Queue { pieces: Arc::new(Mutex::new(receiver)), failed: has_failed.clone(), counters };
    let shares_files = plan.sources.len() < threads;
    let running = if shares_files { threads } else { threads.clamp(1, plan.sources.len()) };
    let (work, plan) = (Arc::new(Work { shares_files, failed: has_failed, next: Default::default() }), Arc::new(plan));
    let (report, results) = mpsc::unbounded_channel();
    for _ in 0..running {
        let (plan, work, sender, report) = (Arc::clone(&plan), Arc::clone(&work), sender.clone(), report.clone());
        std::thread::spawn(move || {
            // Nobody listens if the load has failed already.
            let _ = report.send(read_all(&plan, &work, &sender));
        });
    }
    (queue, Readers { running, results, failed })
}

/// What nobody has begun to read.
struct Work {
    /// A large file is read by several.
    shares_files: bool,
    /// A reader has failed.
    failed: watch::Receiver<bool>,
    next: std::sync::Mutex<Next>,
}

#[derive(Default)]
struct Next {
    file: usize,
    /// Ranges of the file before, and the next of them.
    ranges: Option<(Shared, usize)>,
}

/// A file that several readers have.
#[derive(Clone)]
struct Shared {
    source: usize,
    file: Arc<File>,
    ranges: Arc<Ranges>,
}

enum Task {
    Whole(usize),
    Range(Shared, usize),
}

impl Work {
    fn take(&self, plan: &Plan) -> Result<Option<Task>> {
        let mut next = self.next.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((shared, number)) = &mut next.ranges
            && *number < shared.ranges.count()
        {
            *number += 1;
            return Ok(Some(Task::Range(shared.clone(), *number - 1)));
        }
        let index = next.file;
        let Some(source) = plan.sources.get(index) else { return Ok(None) };
        next.file += 1;
        let shared = if self.shares_files { share(plan, index) } else { Ok(None) };
        Ok(Some(match shared.map_err(|e| input::unreadable(&source.name, &e))? {
            None => Task::Whole(index),
            Some(shared) => {
                next.ranges = Some((shared.clone(), 1));
                Task::Range(shared, 0)
            }
        }))
    }
}

/// The ranges of a file, if it is large enough for some and not compressed.
fn share(plan: &Plan, index: usize) -> io::Result<Option<Shared>> {
    let source = &plan.sources[index];
    let Some(file) = input::open_plain(source)? else { return Ok(None) };
    let done = plan.done.get(&*source.key()).map_or(&[][..], Vec::as_slice);
    let ranges = Ranges::plan(&file, RANGE_BYTES, &plan.options, plan.server_version, done)?;
    Ok(ranges.map(|ranges| Shared { source: index, file: Arc::new(file), ranges: Arc::new(ranges) }))
}

fn read_all(plan: &Plan, work: &Work, pieces: &mpsc::Sender<Piece>) -> Result<()> {
    let emit = &mut |piece| !*work.failed.borrow() && pieces.blocking_send(piece).is_ok();
    while !pieces.is_closed() && !*work.failed.borrow() {
        match work.take(plan)? {
            None => break,
            Some(Task::Whole(file)) => {
                let source = &plan.sources[file];
                let mut input = input::open(source, Arc::clone(&plan.counters))?;
                cut(plan, file, source.group.as_ref().map(of_row_group), &mut *input, emit)?;
            }
            Some(Task::Range(shared, number)) => read_range(plan, &shared, number, emit)?,
        }
    }
    Ok(())
}

fn read_range(plan: &Plan, shared: &Shared, number: usize, emit: &mut dyn FnMut(Piece) -> bool) -> Result<()> {
    let part = shared.ranges.part(&shared.file, number);
    let part = part.map_err(|e| input::unreadable(&plan.sources[shared.source].name, &e))?;
    let Some(part) = part else { return Ok(()) };
    let file = Tail { file: Arc::clone(&shared.file), at: part.start };
    cut(plan, shared.source, Some(part), &mut input::counted(file, Arc::clone(&plan.counters)), emit)
}

/// Its rows as text are a stream of their own; lines are counted over the whole file.
fn of_row_group(group: &RowGroup) -> Part {
    let lines_before = group.rows_before;
    Part { start: 0, end: u64::MAX, eol: Eol::Unknown, in_quote: false, begins_inside_row: false, lines_before }
}

fn cut(
    plan: &Plan,
    file: usize,
    part: Option<Part>,
    input: &mut dyn Read,
    emit: &mut dyn FnMut(Piece) -> bool,
) -> Result<()> {
    let source = &plan.sources[file];
    let done = plan.done.get(&*source.key()).map_or(&[][..], Vec::as_slice);
    let begin = |place| done.partition_point(|done| done.start < place);
    let cutter = Cutter {
        file,
        name: &source.name,
        options: &plan.options,
        server_version: plan.server_version,
        header: plan.header,
        limits: plan.limits,
        block_bytes: BLOCK_BYTES,
        done: part.map_or(done, |part| &done[begin(part.start)..begin(part.end)]),
        part,
    };
    cutter.run(input, emit)
}

/// Waits for all tasks; the first error ends the others.
pub(crate) async fn all<T: 'static>(mut tasks: JoinSet<Result<T>>) -> Result<Vec<T>> {
    let mut results = Vec::new();
    while let Some(result) = tasks.join_next().await {
        results.push(result.map_err(|e| PgError::internal(format!("a task of the load failed: {e}")))??);
    }
    Ok(results)
}
