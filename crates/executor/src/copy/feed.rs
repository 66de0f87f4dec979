//! What the router of a COPY reads: chunks as they come, or blocks whose rows other threads have converted ahead.
//!
//! ```text
//!            ┌── chunk ─────────────────────────────────────────────┐
//!  input ────┤                                                      ├──> router
//!            └── Cutter ── block ──┬──> helpers:   ParallelParse::work ─────┤
//!                                  └──> this task: ParallelParse::work ─────┘  in the order of the input
//! ```
//!
//! Work done ahead costs a copy of the rows. So there are helpers only while they make a COPY faster: the input comes as fast as
//! it is read and the nodes take what they are sent, which means that all wait for the router; and the coordinator's host has a
//! core to spare ([`cores`](crate::shared::cores)). When one of these is no longer so, the COPY goes on by itself. Small ones never have helpers.
//! `loxo.copy_helpers` names a number instead: then it is only the input that must not run dry.
//!
//! Rows are held back only while the input does not run dry: an error is told as soon as its line has come.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use copyfmt::{BLOCK_BYTES, CopyOptions, Cutter, ParallelParse, Router};
use futures_util::FutureExt;
use pgerror::Result;

use crate::copy::input::Input;
use crate::copy::workers::ParseWorkers;
use crate::session::own_settings::HELPERS_MAX;
use crate::shared::cores::{Claim, Cores};

/// Input that has to come without a wait before helpers are called.
const EAGER_BYTES: usize = 1 << 20;
/// Smaller pieces, each row in a message of its own say, are not worth a helper: taking them apart is most of the work.
const PIECE_BYTES_MIN: usize = 4 * 1024;

/// What the router is to be given.
pub(crate) enum Fed {
    Chunk(Bytes),
    ParallelParse(Box<ParallelParse>),
    End,
}

/// The input of one COPY.
pub(crate) struct Feed<'a> {
    input: Input<'a>,
    /// `None` if rows cannot be found without reading them.
    cutter: Option<Cutter>,
    cores: Arc<Cores>,
    /// So many helpers, whatever else needs cores; `None`: as the page says.
    helpers: Option<usize>,
    _claim: Claim,
    workers: Option<ParseWorkers>,
    /// Read, but not by the router.
    waiting: VecDeque<Bytes>,
    /// Bytes that came without a wait, in pieces of some size.
    eager_bytes: usize,
    /// How the input ended, if that was found out ahead of the router.
    ended: Option<Result<()>>,
}

impl<'a> Feed<'a> {
    pub(crate) fn new(input: Input<'a>, options: &CopyOptions, cores: &Arc<Cores>, helpers: Option<usize>) -> Self {
        Self {
            input,
            cutter: Cutter::new(options, BLOCK_BYTES),
            _claim: cores.claim(),
            cores: cores.clone(),
            helpers,
            workers: None,
            waiting: VecDeque::new(),
            eager_bytes: 0,
            ended: None,
        }
    }

    /// The next piece of the input. `nodes_keep_up`: they take rows as fast as they are sent.
    pub(crate) async fn next(&mut self, router: &mut Router, nodes_keep_up: bool) -> Result<Fed> {
        let is_worth_it = self.workers.is_some() || self.eager_bytes >= EAGER_BYTES;
        let may_help = match self.helpers {
            Some(count) => count > 0,
            None => nodes_keep_up && is_worth_it && !self.cores.are_short(),
        };
        if let Some(workers) = &mut self.workers {
            workers.take_back(router.spent());
        }
        loop {
            if let Some(parsed) = self.next_parsed(may_help).await? {
                return Ok(Fed::ParallelParse(parsed));
            }
            let was_waiting = !self.waiting.is_empty();
            let chunk = match self.waiting.pop_front() {
                Some(chunk) => chunk,
                None => match self.read().await? {
                    Some(chunk) => chunk,
                    None => return Ok(Fed::End),
                },
            };
            if !may_help || self.eager_bytes < EAGER_BYTES || self.cutter.is_none() {
                return Ok(Fed::Chunk(chunk));
            }
            if !router.is_at_row_start() {
                return Ok(Fed::Chunk(if was_waiting { chunk } else { self.first_line(chunk) }));
            }
            if !self.call_helpers(router) {
                return Ok(Fed::Chunk(chunk));
            }
            self.waiting.push_front(chunk);
        }
    }

    /// Reads and drops what is left.
    pub(crate) async fn drain(&mut self) -> Result<()> {
        self.workers = None;
        match self.ended.take() {
            Some(ended) => ended,
            None => self.input.drain().await,
        }
    }

    async fn read(&mut self) -> Result<Option<Bytes>> {
        if let Some(ended) = self.ended.take() {
            return ended.map(|()| None);
        }
        let mut next = pin!(self.input.next());
        let (read, waited) = match at_once(next.as_mut()).await {
            Some(read) => (read?, false),
            None => (next.await?, true),
        };
        let length = read.as_ref().map_or(0, Bytes::len);
        self.eager_bytes = if waited || length < PIECE_BYTES_MIN { 0 } else { self.eager_bytes + length };
        Ok(read)
    }

    /// The chunk up to its first newline: a row may begin behind that.
    fn first_line(&mut self, mut chunk: Bytes) -> Bytes {
        match chunk.iter().position(|byte| *byte == b'\n') {
            Some(newline) if newline + 1 < chunk.len() => {
                let line = chunk.split_to(newline + 1);
                self.waiting.push_front(chunk);
                line
            }
            _ => chunk,
        }
    }

    /// Calls helpers, if there are cores for them or they must be.
    fn call_helpers(&mut self, router: &Router) -> bool {
        let claims = match self.helpers {
            Some(count) => (0..count).map(|_| self.cores.claim()).collect(),
            None => std::iter::from_fn(|| self.cores.claim_free()).take(HELPERS_MAX).collect(),
        };
        self.workers = ParseWorkers::new(claims, router);
        self.workers.is_some()
    }

    /// The next block, once its rows are converted. `None`: there is nobody to do it, or nothing more to do for them.
    async fn next_parsed(&mut self, may_help: bool) -> Result<Option<Box<ParallelParse>>> {
        let Some(mut workers) = self.workers.take() else { return Ok(None) };
        let first = loop {
            while may_help && workers.wants_work() {
                let Some(block) = self.next_block() else { break };
                workers.hand_out(block)?;
            }
            if let Some(first) = workers.try_first()? {
                break Some(first);
            }
            let own = if may_help && workers.has_room() { self.next_block() } else { None };
            match own {
                Some(block) => workers.work(&block),
                None => break workers.first().await?,
            }
        };
        match first {
            Some(_) => self.workers = Some(workers),
            None => {
                self.eager_bytes = 0;
                let rest = self.cutter.as_mut().map(Cutter::rest).unwrap_or_default();
                rest.into_iter().rev().for_each(|piece| self.waiting.push_front(piece));
            }
        }
        Ok(first)
    }

    /// Reads up to the end of a block, if that needs no wait.
    fn next_block(&mut self) -> Option<Vec<Bytes>> {
        while !self.cutter.as_ref()?.is_stuck() {
            let piece = self.next_piece()?;
            let block = self.cutter.as_mut()?.push(piece);
            if block.is_some() {
                return block;
            }
        }
        None
    }

    /// Bytes for a block, of a large message a part.
    fn next_piece(&mut self) -> Option<Bytes> {
        let mut chunk = match self.waiting.pop_front() {
            Some(chunk) => chunk,
            None => self.next_chunk()?,
        };
        if chunk.len() > BLOCK_BYTES {
            self.waiting.push_front(chunk.split_off(BLOCK_BYTES));
        }
        Some(chunk)
    }

    /// The next chunk, if there is one without a wait.
    fn next_chunk(&mut self) -> Option<Bytes> {
        if self.ended.is_some() {
            return None;
        }
        match tokio::task::unconstrained(self.input.next()).now_or_never()? {
            Ok(Some(chunk)) => return Some(chunk),
            Ok(None) => self.ended = Some(Ok(())),
            Err(error) => self.ended = Some(Err(error)),
        }
        None
    }
}

/// What a future has without waiting.
async fn at_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    let polled = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
    match polled.await {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use copyfmt::{CopyColumn, Format, Output, RouterSpec, Routing, Source, Step};
    use tokio::sync::watch;

    use super::*;
    use crate::copy::input::CopySource;

    fn router(options: &CopyOptions) -> Router {
        let column = |name: &str, type_oid| CopyColumn { name: name.to_owned(), type_oid, type_modifier: -1 };
        let spec = RouterSpec {
            relation: "t".to_owned(),
            columns: vec![column("k", 20), column("t", 25), column("d", 1082)],
            options: options.clone(),
            client_encoding: "UTF8".to_owned(),
            server_version: 150_000,
            timezone_is_utc: false,
            source: Source::File,
            output: Output::Binary,
            routing: Routing::RoundRobin { destinations: 3, start: 1 },
            clockless: Vec::new(),
            frame_bytes: 64 * 1024,
        };
        Router::new(spec).expect("a valid spec")
    }

    /// All that can be seen of a COPY, and how many rows were converted ahead.
    async fn copy(
        path: &std::path::Path,
        cores: &Arc<Cores>,
        helpers: Option<usize>,
    ) -> (Vec<Vec<u8>>, Option<String>, u64, u64, u64) {
        let options = CopyOptions::new(Format::Csv);
        let input =
            Input::open(CopySource::File(path.to_owned()), false, 3, watch::channel(false).1).await.expect("a file");
        let mut feed = Feed::new(input, &options, cores, helpers);
        let mut router = router(&options);
        let mut outputs = vec![Vec::new(); 3];
        let mut streams = outputs.clone();
        let error = loop {
            match router.step(&mut outputs) {
                Ok(Step::NeedInput) => match feed.next(&mut router, true).await.expect("bytes") {
                    Fed::Chunk(chunk) => router.push(chunk),
                    Fed::ParallelParse(parsed) => router.push_parsed(parsed),
                    Fed::End => router.finish(),
                },
                Ok(Step::Full { dest }) => streams[dest].append(&mut outputs[dest]),
                // A date in words.
                Ok(Step::Convert(_)) => router.supply(Some(&[0; 4])),
                Ok(Step::End) => break None,
                Err(error) => break Some(error.text(pgerror::field::WHERE).into_owned()),
            }
        };
        streams.iter_mut().zip(outputs).for_each(|(stream, rest)| stream.extend(rest));
        (streams, error, router.rows(), router.batches(), router.rows_in_parallel())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn helpers_change_nothing() {
        let line = |row: u64| match row % 997 {
            0 => format!("{row},\"two\nlines\",2024-02-29\n"),
            1 => format!("{row},in words,29 February 2024\n"),
            2 => format!("{row},{},2024-02-29\n", "long".repeat(row as usize % 997 * 30)),
            _ => format!("{row},word,2024-02-29\n"),
        };
        let good: String = (0..200_000).map(line).collect();
        let bad = format!("{good}1,\"a\nb\",2024-02-29\nx,y\n{}", line(3));
        for data in [good, bad] {
            let mut file = tempfile::NamedTempFile::new().expect("a file");
            file.write_all(data.as_bytes()).expect("bytes");
            let (streams, error, rows, batches, parallel) = copy(file.path(), &Cores::of(1), None).await;
            assert_eq!((rows, parallel), (200_000 + u64::from(error.is_some()), 0));
            for (count, helpers) in [(2, None), (3, None), (8, None), (1, Some(2)), (8, Some(1))] {
                let cores = Cores::of(count);
                let seen = copy(file.path(), &cores, helpers).await;
                assert!((&seen.0, &seen.1, seen.2, seen.3) == (&streams, &error, rows, batches), "{count} cores");
                assert!(seen.4 > 80_000, "{} rows ahead with {count} cores", seen.4);
                assert!(cores.claim_free().is_some(), "a helper has kept its claim");
            }
            assert_eq!(copy(file.path(), &Cores::of(8), Some(0)).await.4, 0);
        }
    }

    /// A client that waits for an answer before it goes on gets it, however many rows came before.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_is_held_back_when_the_input_runs_dry() {
        let (sender, chunks) = tokio::sync::mpsc::channel(1000);
        let rows = Bytes::from("1,word,2024-02-29\n".repeat(1000));
        for _ in 0..200 {
            sender.send(Ok(rows.clone())).await.expect("room");
        }
        let options = CopyOptions::new(Format::Csv);
        let mut feed = Feed::new(Input::File(chunks), &options, &Cores::of(2), None);
        let mut router = router(&options);
        let mut outputs = vec![Vec::new(); 3];
        loop {
            match router.step(&mut outputs).expect("good rows") {
                Step::NeedInput if router.rows() == 200_000 => break,
                Step::NeedInput => match feed.next(&mut router, true).await.expect("bytes") {
                    Fed::Chunk(chunk) => router.push(chunk),
                    Fed::ParallelParse(parsed) => router.push_parsed(parsed),
                    Fed::End => panic!("the input is open"),
                },
                Step::Full { dest } => outputs[dest].clear(),
                other => panic!("unexpected {other:?}"),
            }
        }
        assert!(router.rows_in_parallel() > 50_000, "{}", router.rows_in_parallel());
        drop(sender);
    }
}
