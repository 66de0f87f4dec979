//! The cores of a coordinator's host, and which threads have a claim to one: so that threads are added only where there is a core
//! for them. Other programs on that host, such as datanodes, claim nothing; that they need the cores is seen by what waits for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::shared::pressure::Pressure;

/// See the module's page.
pub(crate) struct Cores {
    count: usize,
    claimed: AtomicUsize,
    /// `None`: nobody else works there.
    others: Option<Pressure>,
}

impl Default for Cores {
    fn default() -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        Self { count, claimed: AtomicUsize::new(0), others: Some(Pressure::default()) }
    }
}

impl Cores {
    #[cfg(test)]
    pub(crate) fn of(count: usize) -> Arc<Self> {
        Arc::new(Self { count, claimed: AtomicUsize::new(0), others: None })
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

    /// Are there more claims than cores, or do tasks wait for one?
    pub(crate) fn are_short(&self) -> bool {
        self.claimed.load(Ordering::Relaxed) > self.count || self.others.as_ref().is_some_and(Pressure::is_high)
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
