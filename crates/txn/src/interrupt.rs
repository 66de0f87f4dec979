//! How a wait in a coordinator is told to stop: a cancel request, a timeout, a client that has gone.
//!
//! What is under way on a datanode is cancelled there; what waits here, for the gate, a global snapshot, the gtm or a connection, waits in
//! [`Interrupt::or`].
//!
//! How long it stood at the gate is counted here too, for what a statement has cost.
//!
//! Invariant: an interrupt lasts until [`Interrupt::clear`], at the next statement, so it is not lost between two waits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pgerror::{PgError, Result};
use tokio::sync::Notify;

/// See the module's page; one a session.
#[derive(Debug)]
pub struct Interrupt {
    is_raised: Arc<AtomicBool>,
    reason: Mutex<Option<PgError>>,
    raised: Notify,
    /// In µs.
    at_gate: AtomicU64,
}

impl Interrupt {
    /// An interrupt that is not raised yet.
    pub fn new() -> Self {
        Self { is_raised: Arc::default(), reason: Mutex::new(None), raised: Notify::new(), at_gate: AtomicU64::new(0) }
    }

    /// Whatever waits ends with this error, unless there was another before.
    pub fn raise(&self, reason: PgError) {
        self.reason().get_or_insert(reason);
        self.is_raised.store(true, Ordering::Release);
        self.raised.notify_waiters();
    }

    /// The statement that was to stop is over.
    pub fn clear(&self) {
        if self.is_raised.load(Ordering::Acquire) {
            *self.reason() = None;
            self.is_raised.store(false, Ordering::Release);
        }
    }

    /// The error, if it has been raised.
    pub fn check(&self) -> Result<()> {
        match self.is_raised.load(Ordering::Acquire) {
            true => self.reason().clone().map_or(Ok(()), Err),
            false => Ok(()),
        }
    }

    /// For work that does not wait, but looks now and then: is it raised?
    pub fn flag(&self) -> Arc<AtomicBool> {
        self.is_raised.clone()
    }

    /// What the work gives, or the error if that comes first; the work is dropped then.
    pub async fn or<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            value = work => Ok(value),
            reason = self.comes() => Err(reason),
        }
    }

    /// [`Interrupt::or`] for work that waits at the gate, to commit or for a global snapshot.
    pub async fn or_gate<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let since = Instant::now();
        let value = self.or(work).await;
        self.at_gate.fetch_add(since.elapsed().as_micros() as u64, Ordering::Relaxed);
        value
    }

    /// How long that took since this was asked last.
    pub fn take_gate_wait(&self) -> Duration {
        Duration::from_micros(self.at_gate.swap(0, Ordering::Relaxed))
    }

    async fn comes(&self) -> PgError {
        loop {
            let raised = self.raised.notified();
            tokio::pin!(raised);
            // Registered before the look, so that none is missed in between.
            raised.as_mut().enable();
            if let Err(reason) = self.check() {
                return reason;
            }
            raised.await;
        }
    }

    fn reason(&self) -> MutexGuard<'_, Option<PgError>> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::FutureExt;
    use pgerror::SqlState;

    use super::*;

    #[tokio::test]
    async fn an_interrupt_ends_waits_until_it_is_cleared() {
        let interrupt = Interrupt::new();
        let mut waiting = std::pin::pin!(interrupt.or(pending::<()>()));
        assert!(waiting.as_mut().now_or_never().is_none());
        interrupt.raise(PgError::new(SqlState::QUERY_CANCELED, "first"));
        interrupt.raise(PgError::new(SqlState::QUERY_CANCELED, "second"));
        assert_eq!(waiting.await.unwrap_err().message(), "first");
        // One that was raised before counts, but not against what need not wait.
        assert!(interrupt.or(pending::<()>()).await.is_err() && interrupt.check().is_err());
        assert_eq!(interrupt.or(ready(1)).await.unwrap(), 1);
        assert!(interrupt.take_gate_wait().is_zero());
        interrupt.or_gate(tokio::time::sleep(Duration::from_millis(1))).await.unwrap_err();
        interrupt.clear();
        interrupt.or_gate(tokio::time::sleep(Duration::from_millis(1))).await.unwrap();
        assert!(interrupt.take_gate_wait() >= Duration::from_millis(1) && interrupt.take_gate_wait().is_zero());
        interrupt.raise(PgError::new(SqlState::QUERY_CANCELED, "third"));
        interrupt.clear();
        assert!(interrupt.check().is_ok() && interrupt.or(pending::<()>()).now_or_never().is_none());
    }
}
