//! Threads that read the files, and the queue between them and the streams.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use copyfmt::CopyOptions;
use pgerror::{PgError, Result};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::cut::{BLOCK_BYTES, Cutter, Done, Limits, Piece};
use crate::input::{self, Source};
use crate::progress::Counters;

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
    counters: Arc<Counters>,
}

impl Queue {
    /// The next piece; `None` when all files are read, or a reader failed.
    pub(crate) async fn next(&self) -> Option<Piece> {
        let waiting = Instant::now();
        let piece = self.pieces.lock().await.recv().await;
        self.counters.starved(waiting.elapsed());
        piece
    }
}

/// The threads. They are not of the runtime's: one that waits for stdin must not keep the program from ending.
pub(crate) struct Readers {
    running: usize,
    results: mpsc::UnboundedReceiver<Result<()>>,
}

impl Readers {
    /// Waits until all have ended; the first error is returned at once.
    pub(crate) async fn finish(mut self) -> Result<()> {
        for _ in 0..self.running {
            self.results.recv().await.unwrap_or_else(|| Err(PgError::internal("a reader of files failed")))?;
        }
        Ok(())
    }
}

/// Starts up to `threads` readers, each with a file of its own. They end when the files do or nobody holds the queue.
pub(crate) fn start(plan: Plan, threads: usize, pieces_waiting: usize) -> (Queue, Readers) {
    let (sender, receiver) = mpsc::channel(pieces_waiting);
    let queue = Queue { pieces: Arc::new(Mutex::new(receiver)), counters: Arc::clone(&plan.counters) };
    let running = threads.clamp(1, plan.sources.len());
    let (plan, next_file) = (Arc::new(plan), Arc::new(AtomicUsize::new(0)));
    let (report, results) = mpsc::unbounded_channel();
    for _ in 0..running {
        let (plan, next_file, sender) = (Arc::clone(&plan), Arc::clone(&next_file), sender.clone());
        let report = report.clone();
        std::thread::spawn(move || {
            // Nobody listens if the load has failed already.
            let _ = report.send(read_all(&plan, &next_file, &sender));
        });
    }
    (queue, Readers { running, results })
}

fn read_all(plan: &Plan, next_file: &AtomicUsize, pieces: &mpsc::Sender<Piece>) -> Result<()> {
    loop {
        let file = next_file.fetch_add(1, Ordering::Relaxed);
        if file >= plan.sources.len() || pieces.is_closed() {
            return Ok(());
        }
        read(plan, file, pieces)?;
    }
}

fn read(plan: &Plan, file: usize, pieces: &mpsc::Sender<Piece>) -> Result<()> {
    let source = &plan.sources[file];
    let mut input = input::open(source, Arc::clone(&plan.counters)).map_err(|e| input::unreadable(&source.name, &e))?;
    let cutter = Cutter {
        file,
        name: &source.name,
        options: &plan.options,
        server_version: plan.server_version,
        header: plan.header,
        limits: plan.limits,
        block_bytes: BLOCK_BYTES,
        done: plan.done.get(&source.name).map_or(&[], Vec::as_slice),
    };
    cutter.run(&mut *input, &mut |piece| pieces.blocking_send(piece).is_ok())
}

/// Waits for all tasks; the first error ends the others.
pub(crate) async fn all<T: 'static>(mut tasks: JoinSet<Result<T>>) -> Result<Vec<T>> {
    let mut results = Vec::new();
    while let Some(result) = tasks.join_next().await {
        results.push(result.map_err(|e| PgError::internal(format!("a task of the load failed: {e}")))??);
    }
    Ok(results)
}
