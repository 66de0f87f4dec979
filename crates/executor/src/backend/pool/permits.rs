//! How many connections to a node may be open at the same time: a number that can change while they are.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Those of one node.
pub(crate) struct Permits {
    free: Arc<Semaphore>,
    sizes: Mutex<Sizes>,
}

struct Sizes {
    most: usize,
    /// So many are given away above that; whoever gives one back gives it back to nobody.
    surplus: usize,
}

/// The right to one connection; the drop gives it back.
pub(crate) struct Permit {
    of: Arc<Permits>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Permits {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { free: Arc::new(Semaphore::new(most)), sizes: Mutex::new(Sizes { most, surplus: 0 }) })
    }

    /// `None` if all are given away.
    pub(crate) fn try_acquire(self: &Arc<Self>) -> Option<Permit> {
        let permit = self.free.clone().try_acquire_owned().ok()?;
        Some(Permit { of: self.clone(), permit: Some(permit) })
    }

    /// Waits for one.
    pub(crate) async fn acquire(self: &Arc<Self>) -> Permit {
        // Nobody closes the semaphore.
        Permit { of: self.clone(), permit: self.free.clone().acquire_owned().await.ok() }
    }

    /// So many from here on; those that are given away stay so.
    pub(crate) fn resize(&self, most: usize) {
        let mut sizes = self.sizes();
        let before = sizes.most;
        sizes.most = most;
        match most.checked_sub(before) {
            Some(more) => {
                let owed = more.min(sizes.surplus);
                sizes.surplus -= owed;
                self.free.add_permits(more - owed);
            }
            None => sizes.surplus += before - most - self.free.forget_permits(before - most),
        }
    }

    /// Are more given away than there may be?
    pub(crate) fn are_too_many(&self) -> bool {
        self.sizes().surplus > 0
    }

    /// How many are given away.
    pub(crate) fn given(&self) -> usize {
        let sizes = self.sizes();
        (sizes.most + sizes.surplus).saturating_sub(self.free.available_permits())
    }

    fn sizes(&self) -> MutexGuard<'_, Sizes> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Given back while the sizes are held: they are counted together.
        let mut sizes = self.of.sizes();
        let Some(permit) = self.permit.take() else { return };
        match sizes.surplus {
            0 => drop(permit),
            _ => {
                sizes.surplus -= 1;
                permit.forget();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_away_stays_so() {
        let permits = Permits::new(3);
        let mut given: Vec<Permit> = (0..3).filter_map(|_| permits.try_acquire()).collect();
        permits.resize(1);
        assert_eq!((permits.given(), permits.are_too_many()), (3, true));
        given.pop();
        assert!(permits.try_acquire().is_none() && permits.are_too_many());
        // One of the two that are given away above one is none too many again.
        permits.resize(2);
        assert_eq!((permits.given(), permits.are_too_many()), (2, false));
        given.pop();
        assert!(permits.try_acquire().is_some());
        permits.resize(4);
        let more: Vec<Permit> = (0..9).map_while(|_| permits.try_acquire()).collect();
        assert_eq!((more.len(), permits.given()), (3, 4));
    }
}
