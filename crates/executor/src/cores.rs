//! The cores of a coordinator's host, and who has a claim to one: so that threads are added only where there is a core for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// See the module's page.
pub(crate) struct Cores {
    count: usize,
    claimed: AtomicUsize,
}

impl Default for Cores {
    fn default() -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        Self { count, claimed: AtomicUsize::new(0) }
    }
}

impl Cores {
    #[cfg(test)]
    pub(crate) fn of(count: usize) -> Arc<Self> {
        Arc::new(Self { count, claimed: AtomicUsize::new(0) })
    }

    /// Work that is done in any case.
    pub(crate) fn claim(self: &Arc<Self>) -> Claim {
        self.claimed.fetch_add(1, Ordering::Relaxed);
        Claim(self.clone())
    }

    /// A core that nobody has a claim to.
    pub(crate) fn claim_free(self: &Arc<Self>) -> Option<Claim> {
        let claim = self.claim();
        (!self.are_short()).then_some(claim)
    }

    /// Are there more claims than cores?
    pub(crate) fn are_short(&self) -> bool {
        self.claimed.load(Ordering::Relaxed) > self.count
    }
}

/// Lasts until it is dropped.
pub(crate) struct Claim(Arc<Cores>);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.claimed.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_claims_a_core_twice() {
        let cores = Cores::of(3);
        let (own, helper) = (cores.claim(), cores.claim_free());
        let second = cores.claim_free();
        assert!(helper.is_some() && second.is_some() && cores.claim_free().is_none() && !cores.are_short());
        let other = cores.claim();
        assert!(cores.are_short());
        drop((helper, second));
        assert!(cores.claim_free().is_some() && !cores.are_short());
        drop((own, other));
    }
}
