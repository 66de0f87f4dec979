//! The last values that a session has drawn from sequences (`currval`, `lastval`): which link has them.
//!
//! PostgreSQL keeps them in the backend, shows no list of them, and lets nobody put them into another one. The link is not kept by the
//! session for their sake: most sessions that insert into a table with a serial column never ask. It goes back to the pool with a
//! note whose values it has, is given to that session again as long as it is there, and to others only when there is no other link and
//! none may be opened. Then the values are lost, and a statement that asks for them is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use catalog::Leavings;
use pgerror::{PgError, Result, SqlState};

/// What a session knows of its values.
#[derive(Debug, Default)]
pub(crate) struct Drawn {
    are_lost: AtomicBool,
}

impl Drawn {
    fn are_lost(&self) -> bool {
        self.are_lost.load(Ordering::Acquire)
    }
}

/// A link's note that its backend has them; once it is dropped they are lost.
#[derive(Debug)]
pub(crate) struct DrawnHere(Arc<Drawn>);

impl Drop for DrawnHere {
    fn drop(&mut self) {
        self.0.are_lost.store(true, Ordering::Release);
    }
}

impl DrawnHere {
    /// Are they of the session that has this?
    pub(crate) fn is_of(&self, session: Option<&Arc<Drawn>>) -> bool {
        session.is_some_and(|drawn| Arc::ptr_eq(drawn, &self.0))
    }

    /// Is the session still there?
    pub(crate) fn has_owner(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

/// The values of a session, wherever they are.
#[derive(Default)]
pub(crate) struct DrawnValues {
    present: Option<Arc<Drawn>>,
    /// Earlier ones were.
    were_lost: bool,
}

impl DrawnValues {
    /// What a link to the home node should have.
    pub(crate) fn present(&self) -> Option<&Arc<Drawn>> {
        self.present.as_ref()
    }

    /// A backend draws values, and notes it `here`. What another backend has is of no use from then on: nobody could say which value
    /// is the later one.
    pub(crate) fn drawn(&mut self, here: &mut Option<DrawnHere>) {
        if !here.as_ref().is_some_and(|here| here.is_of(self.present.as_ref())) {
            let new = Arc::<Drawn>::default();
            *here = Some(DrawnHere(new.clone()));
            self.were_lost |= self.present.replace(new).is_some();
        }
    }

    /// To be called with a link to the home node that is new to the session: are the values there that the statement wants?
    ///
    /// # Errors
    /// 0A000 if they are lost.
    pub(crate) fn check(&self, here: Option<&DrawnHere>, leaves: &Leavings) -> Result<()> {
        let Some(drawn) = &self.present else { return Ok(()) };
        let is_here = here.is_some_and(|here| here.is_of(Some(drawn)));
        if !is_here {
            // Whatever became of the link, its login perhaps: the session does not find it again.
            drawn.are_lost.store(true, Ordering::Release);
        }
        match !is_here && leaves.reads_drawn && !leaves.drawn {
            true => Err(lost()),
            false => Ok(()),
        }
    }

    /// The error of a statement that wanted a value which may have been lost.
    pub(crate) fn without_lost(&self, error: PgError, leaves: &Leavings) -> PgError {
        let may_be = self.were_lost && leaves.reads_drawn;
        match may_be && error.code() == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE {
            true => lost(),
            false => error,
        }
    }

    /// May a backend still have the values?
    pub(crate) fn are_there(&self) -> bool {
        self.present.as_ref().is_some_and(|drawn| !drawn.are_lost())
    }
}

fn lost() -> PgError {
    PgError::unsupported("currval() or lastval() after other sessions needed this one's connection to the primary datanode")
        .hint("Use INSERT … RETURNING, or ask in the transaction that draws the value; or raise pool_size of the coordinators.")
}
