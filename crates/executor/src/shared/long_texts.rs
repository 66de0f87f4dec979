//! Long texts take long to parse and to plan. Meanwhile other sessions must go on, and the statement can be cancelled.
//!
//! The planner looks now and then whether its plan is still wanted ([`planner::Stop`]). PostgreSQL's parser does not: it reads a text
//! [`Apart`], and is left alone with it if that is not wanted any more.

use std::sync::Arc;

use pgerror::{PgError, Result};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

use crate::backend::cancel::CancelSet;

/// From this length on a text is worth the handing over: about a millisecond of parsing.
const LENGTHY_BYTES: usize = 16 << 10;

/// For each core so many texts are read apart, those included that nobody waits for any more.
const APART_PER_CORE: usize = 2;

/// Does work whose time grows with a text. The sessions of this thread are handed over to another one if it may take long.
pub fn lengthy<T>(text_bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_others = || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    match is_lengthy(text_bytes) && has_others() {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}

/// May work that grows with a text of this length take long?
pub fn is_lengthy(text_bytes: usize) -> bool {
    text_bytes >= LENGTHY_BYTES
}

/// Threads for work that cannot be stopped. The time of a statement goes on meanwhile.
pub struct Apart(Arc<Semaphore>);

impl Default for Apart {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Semaphore::new(cores * APART_PER_CORE)))
    }
}

impl Apart {
    /// What the work gives.
    ///
    /// # Errors
    /// 57014 if the session's statement is to stop before: the work then goes on to its end, for nobody.
    pub async fn run<T: Send + 'static>(
        &self,
        cancel: &CancelSet,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let lost = || PgError::internal("the work on a long text was lost");
        let permit = cancel.interrupt().or(self.0.clone().acquire_owned()).await?.map_err(|_| lost())?;
        let working = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        cancel.interrupt().or(working).await?.map_err(|_| lost())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn whoever_is_cancelled_does_not_wait_and_the_work_keeps_its_place() {
        let (apart, cancel) = (Apart(Arc::new(Semaphore::new(1))), CancelSet::new());
        assert_eq!(apart.run(&cancel, || 5).await.unwrap(), 5);
        let (end, ends) = mpsc::channel::<()>();
        let (begun, begins) = tokio::sync::oneshot::channel();
        let work = move || {
            let _ = begun.send(());
            let _ = ends.recv();
        };
        let cancelled = async {
            begins.await.unwrap();
            cancel.cancel().await;
        };
        let (stopped, ()) = tokio::join!(apart.run(&cancel, work), cancelled);
        assert_eq!(stopped.unwrap_err().code().as_str(), "57014");
        assert_eq!(apart.0.available_permits(), 0);
        end.send(()).unwrap();
        assert_eq!(apart.run(&CancelSet::new(), || 7).await.unwrap(), 7);
    }
}
