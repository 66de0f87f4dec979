//! Threads that convert rows ahead of a COPY's router, and the blocks they work on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use copyfmt::{ParallelParse, Router};
use pgerror::{PgError, Result};
use tokio::sync::oneshot;

use crate::shared::cores::Claim;

/// As `top -H` shows them.
const THREAD_NAME: &str = "copy helper";
/// Blocks waiting for a helper while it works on one.
const BLOCKS_READY: usize = 1;

/// A block in work.
struct Task {
    parsed: Box<ParallelParse>,
    block: Vec<Bytes>,
    done: oneshot::Sender<Box<ParallelParse>>,
}

/// A block that the router has not come to.
enum Job {
    HandedOut(oneshot::Receiver<Box<ParallelParse>>),
    Done(Box<ParallelParse>),
}

/// The helpers of one COPY. They end when it is dropped.
pub(crate) struct ParseWorkers {
    claims: Vec<Claim>,
    tasks: SyncSender<Task>,
    /// Tasks that no helper has ended.
    open: Arc<AtomicUsize>,
    /// In the order of the input.
    jobs: VecDeque<Job>,
    /// For more blocks: so they are bounded. They stay in their boxes on the way through all hands.
    #[expect(clippy::vec_box, reason = "a box is what is handed on")]
    spare: Vec<Box<ParallelParse>>,
}

impl ParseWorkers {
    /// One helper for each claim. `None` if nothing can be done ahead yet, or there are no threads for it.
    pub(crate) fn new(claims: Vec<Claim>, router: &Router) -> Option<Self> {
        // For each helper one in work, those that wait, and one that the router has; as many more are the COPY's own task's.
        let blocks = claims.len() * (1 + BLOCKS_READY) + 2;
        let spare: Vec<_> = (0..blocks).map_while(|_| router.parallel_parse()).collect();
        if claims.is_empty() || spare.len() < blocks {
            return None;
        }
        let (tasks, inbox) = sync_channel(blocks);
        let (inbox, open) = (Arc::new(Mutex::new(inbox)), Arc::new(AtomicUsize::new(0)));
        for _ in &claims {
            let (inbox, open) = (inbox.clone(), open.clone());
            std::thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || help(&inbox, &open)).ok()?;
        }
        Some(Self { claims, tasks, open, jobs: VecDeque::new(), spare })
    }

    /// Would a helper soon have nothing to do?
    pub(crate) fn wants_work(&self) -> bool {
        self.has_room() && self.open.load(Ordering::Acquire) < self.claims.len() * (1 + BLOCKS_READY)
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.spare.is_empty()
    }

    /// The router is done with a block.
    pub(crate) fn take_back(&mut self, parsed: Option<Box<ParallelParse>>) {
        self.spare.extend(parsed);
    }

    /// A helper works on the next block.
    pub(crate) fn hand_out(&mut self, block: Vec<Bytes>) -> Result<()> {
        let (done, answer) = oneshot::channel();
        let parsed = self.spare.pop().ok_or_else(|| PgError::internal("a block for helpers too many"))?;
        self.open.fetch_add(1, Ordering::AcqRel);
        self.jobs.push_back(Job::HandedOut(answer));
        self.tasks.send(Task { parsed, block, done }).map_err(|_| helper_is_gone())
    }

    /// The caller itself works on the next block.
    pub(crate) fn work(&mut self, block: &[Bytes]) {
        if let Some(mut parsed) = self.spare.pop() {
            parsed.work(block);
            self.jobs.push_back(Job::Done(parsed));
        }
    }

    /// The first block, if it is done.
    pub(crate) fn try_first(&mut self) -> Result<Option<Box<ParallelParse>>> {
        if let Some(Job::HandedOut(answer)) = self.jobs.front_mut() {
            match answer.try_recv() {
                Ok(parsed) => self.jobs[0] = Job::Done(parsed),
                Err(oneshot::error::TryRecvError::Empty) => return Ok(None),
                Err(oneshot::error::TryRecvError::Closed) => return Err(helper_is_gone()),
            }
        }
        Ok(match self.jobs.pop_front() {
            Some(Job::Done(parsed)) => Some(parsed),
            Some(Job::HandedOut(_)) | None => None,
        })
    }

    /// The first block; `None` if there is none.
    pub(crate) async fn first(&mut self) -> Result<Option<Box<ParallelParse>>> {
        match self.jobs.pop_front() {
            Some(Job::Done(parsed)) => Ok(Some(parsed)),
            Some(Job::HandedOut(answer)) => answer.await.map(Some).map_err(|_| helper_is_gone()),
            None => Ok(None),
        }
    }
}

/// Works until there will be no more tasks.
fn help(inbox: &Mutex<Receiver<Task>>, open: &AtomicUsize) {
    loop {
        let task = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Task { mut parsed, block, done }) = task else { return };
        parsed.work(&block);
        open.fetch_sub(1, Ordering::AcqRel);
        // Nobody wants it if the COPY has failed.
        let _ = done.send(parsed);
    }
}

fn helper_is_gone() -> PgError {
    PgError::internal("a thread that converts rows of a COPY has ended")
}
