//! The last values that a session has drawn from sequences (`currval`, `lastval`): which backend has them, or had.
//!
//! PostgreSQL keeps them in the backend and lets nobody put them into another one. The link is not kept by the session for their
//! sake: most sessions that insert into a table with a serial column never ask. It goes back to the pool with a note whose values
//! it has, and is given to that session again as long as it is there. Others get it only when there is no other link and none may be
//! opened. Then the values are read first, and the session remembers them ([`DrawnValues`]).
//!
//! ```text
//!  session   present ───────────► Drawn ◄─── DrawnHere   link in the pool or in hand
//!            older ─────────────► Drawn ◄─── DrawnHere   link that is being given away: its values are on their way
//!            remembered           what came of earlier ones
//! ```
//!
//! Invariant: of two places the later one counts: a backend before the older ones, these before what is remembered. Of a backend that
//! has ended nobody knows the values, so what was there before it is forgotten too.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use catalog::Leavings;
use pgerror::{PgError, Result, SqlState, field};
use planner::{LastDrawn, ValuesDrawn};
use tokio::sync::watch;

/// Longest wait for values that another session's link is asked for.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// What a backend has drawn.
const READ: &str = "SELECT sequence, value, is_last FROM loxo.values_drawn()";

/// Where values are.
#[derive(Debug, Default)]
enum Place {
    #[default]
    Backend,
    Read(ValuesDrawn),
    Nowhere,
}

/// What a session knows of the values in one backend.
#[derive(Debug, Default)]
pub(crate) struct Drawn {
    place: watch::Sender<Place>,
}

impl Drawn {
    fn are_in_backend(&self) -> bool {
        matches!(*self.place.borrow(), Place::Backend)
    }

    /// The values, once the backend has told them; `None` if it has not.
    async fn read(&self) -> Option<ValuesDrawn> {
        let mut place = self.place.subscribe();
        let read = place.wait_for(|place| !matches!(place, Place::Backend));
        match tokio::time::timeout(READ_TIMEOUT, read).await.ok()?.ok().as_deref()? {
            Place::Read(values) => Some(values.clone()),
            Place::Backend | Place::Nowhere => None,
        }
    }
}

/// A link's note that its backend has them; once it is dropped they are lost.
#[derive(Debug)]
pub(crate) struct DrawnHere(Arc<Drawn>);

impl Drop for DrawnHere {
    fn drop(&mut self) {
        self.0.place.send_if_modified(|place| {
            let is_lost = matches!(place, Place::Backend);
            if is_lost {
                *place = Place::Nowhere;
            }
            is_lost
        });
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

    /// Gives the values to the session, before the backend is another's.
    pub(crate) async fn hand_over(self, connection: &mut pgproto::Connection) -> Result<()> {
        if self.has_owner() {
            let values = values_of(connection.query_rows(READ).await?)?;
            self.0.place.send_replace(Place::Read(values));
        }
        Ok(())
    }
}

fn values_of(rows: Vec<Vec<Option<Bytes>>>) -> Result<ValuesDrawn> {
    let unreadable = || PgError::internal("values of sequences that cannot be read");
    let mut drawn = ValuesDrawn::default();
    for row in rows {
        let [Some(sequence), Some(value), Some(is_last)] = row.as_slice() else { return Err(unreadable()) };
        let number = |text: &Bytes| str::from_utf8(text).ok()?.parse::<i64>().ok();
        let sequence = number(sequence).and_then(|oid| u32::try_from(oid).ok()).ok_or_else(unreadable)?;
        let value = number(value).ok_or_else(unreadable)?;
        drawn.values.insert(sequence, value);
        if is_last.as_ref() == b"t" {
            drawn.last.get_or_insert(LastDrawn { value, sequences: Vec::new() }).sequences.push(sequence);
        }
    }
    Ok(drawn)
}

/// The values of a session, wherever they are.
#[derive(Default)]
pub(crate) struct DrawnValues {
    present: Option<Arc<Drawn>>,
    /// From the oldest on.
    older: Vec<Arc<Drawn>>,
    remembered: ValuesDrawn,
    /// Some are nowhere.
    were_lost: bool,
}

/// What a link to the home node does not have of the values that a statement may ask for.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere {
    pub(crate) remembered: ValuesDrawn,
    pub(crate) were_lost: bool,
}

impl DrawnValues {
    /// What a link to the home node should have.
    pub(crate) fn present(&self) -> Option<&Arc<Drawn>> {
        self.present.as_ref()
    }

    /// A backend draws values, and notes it `here`.
    pub(crate) fn drawn(&mut self, here: &mut Option<DrawnHere>) {
        if !here.as_ref().is_some_and(|here| here.is_of(self.present.as_ref())) {
            let new = Arc::<Drawn>::default();
            *here = Some(DrawnHere(new.clone()));
            self.older.extend(self.present.replace(new));
            self.take_read();
        }
    }

    /// The older values are one by one remembered, as far as they have been read.
    fn take_read(&mut self) {
        while self.older.first().is_some_and(|oldest| !oldest.are_in_backend()) {
            let oldest = self.older.remove(0);
            let values = match &*oldest.place.borrow() {
                Place::Read(values) => Some(values.clone()),
                Place::Backend | Place::Nowhere => None,
            };
            self.remember(values);
        }
    }

    fn remember(&mut self, values: Option<ValuesDrawn>) {
        match values {
            Some(values) => self.remembered.add(values),
            None => (self.remembered, self.were_lost) = (ValuesDrawn::default(), true),
        }
    }

    /// Has the session drawn anything at all?
    pub(crate) fn are_any(&self) -> bool {
        self.present.is_some() || self.has_earlier()
    }

    fn has_earlier(&self) -> bool {
        !self.older.is_empty() || self.were_lost || self.remembered != ValuesDrawn::default()
    }

    /// Whose backends have yet to tell their values before [`elsewhere`](Self::elsewhere) is known.
    pub(crate) fn untold(&self, here: Option<&DrawnHere>) -> Vec<Arc<Drawn>> {
        let present = self.present.iter().filter(|_| !self.is_here(here));
        self.older.iter().chain(present).filter(|drawn| drawn.are_in_backend()).cloned().collect()
    }

    /// What the link that the session holds does not have; `None` if that has all.
    pub(crate) async fn elsewhere(&mut self, here: Option<&DrawnHere>) -> Option<Elsewhere> {
        if !self.is_here(here) {
            self.older.extend(self.present.take());
        }
        // The wait may end before its time: what has not been read stays in its place.
        while let Some(oldest) = self.older.first() {
            let values = oldest.clone().read().await;
            self.older.remove(0);
            self.remember(values);
        }
        let elsewhere = || Elsewhere { remembered: self.remembered.clone(), were_lost: self.were_lost };
        self.has_earlier().then(elsewhere)
    }

    fn is_here(&self, here: Option<&DrawnHere>) -> bool {
        here.is_some_and(|here| here.is_of(self.present.as_ref()))
    }

    /// To be called with a link to the home node that is new to the session: are the values there that the statement wants?
    ///
    /// # Errors
    /// 0A000 if they are not.
    pub(crate) fn check(&self, here: Option<&DrawnHere>, leaves: &Leavings) -> Result<()> {
        let is_refused = self.are_any() && !self.is_here(here) && leaves.reads_drawn && !leaves.drawn;
        if is_refused { Err(not_here()) } else { Ok(()) }
    }

    /// The error of a statement that wanted a value which the backend did not have.
    pub(crate) fn explained(&self, error: PgError, leaves: &Leavings) -> PgError {
        let may_be = self.has_earlier() && leaves.reads_drawn;
        match may_be && error.code() == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE {
            true => not_here(),
            false => without_own_context(error),
        }
    }

    /// May a backend still have the values?
    pub(crate) fn are_there(&self) -> bool {
        self.present.as_ref().is_some_and(|drawn| drawn.are_in_backend())
    }
}

/// PostgreSQL's error about a sequence says nothing of a function of ours.
pub(crate) fn without_own_context(error: PgError) -> PgError {
    let context = error.text(field::WHERE);
    let own = ["value_drawn", "last_value_drawn", "next_identity", "draw_identity", "identity_sequence"];
    let is_own = |line: &&str| own.iter().any(|name| line.contains(&format!(" loxo.{name}(")));
    if !context.lines().any(|line| is_own(&line)) {
        return error;
    }
    let rest: Vec<&str> = context.lines().filter(|line| !is_own(line)).collect();
    let rest = rest.join("\n");
    match rest.is_empty() {
        true => error.without(field::WHERE),
        false => error.with(field::WHERE, rest),
    }
}

/// What asks for values that another backend had, where they cannot be put in.
pub(crate) fn not_here() -> PgError {
    PgError::unsupported("currval() or lastval() in a function, view or default, or after the backend that drew the value has ended,")
        .detail("The value was drawn over another connection to the primary datanode than the one that the session has now.")
        .hint("Write the call into the statement itself, use INSERT … RETURNING, or ask in the transaction that draws the value.")
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn values(of: &[(u32, i64)]) -> ValuesDrawn {
        let last = of.last().map(|(sequence, value)| LastDrawn { value: *value, sequences: vec![*sequence] });
        ValuesDrawn { values: of.iter().copied().collect(), last }
    }

    fn read(here: Option<DrawnHere>, of: &[(u32, i64)]) {
        here.expect("a note").0.place.send_replace(Place::Read(values(of)));
    }

    fn elsewhere(session: &mut DrawnValues, here: Option<&DrawnHere>) -> Option<Elsewhere> {
        session.elsewhere(here).now_or_never().expect("nothing to wait for")
    }

    #[tokio::test]
    async fn values_of_a_link_that_was_given_away_are_remembered() {
        let (mut session, mut first, mut second) = (DrawnValues::default(), None, None);
        session.drawn(&mut first);
        assert!(elsewhere(&mut session, first.as_ref()).is_none());
        read(first, &[(1, 5), (2, 6)]);
        assert_eq!(elsewhere(&mut session, None).unwrap().remembered, values(&[(1, 5), (2, 6)]));
        session.drawn(&mut second);
        read(second, &[(1, 9)]);
        let both = elsewhere(&mut session, None).unwrap();
        assert_eq!((both.remembered.values, both.were_lost), ([(1, 9), (2, 6)].into(), false));
    }

    #[tokio::test]
    async fn values_are_waited_for() {
        let (mut session, mut first, mut second) = (DrawnValues::default(), None, None);
        session.drawn(&mut first);
        session.drawn(&mut second);
        assert!(session.elsewhere(second.as_ref()).now_or_never().is_none());
        read(first, &[(1, 5)]);
        assert_eq!(elsewhere(&mut session, second.as_ref()).unwrap().remembered, values(&[(1, 5)]));
    }

    #[tokio::test]
    async fn what_was_there_before_a_lost_value_is_forgotten() {
        let (mut session, mut first, mut second) = (DrawnValues::default(), None, None);
        session.drawn(&mut first);
        read(first, &[(1, 5)]);
        session.drawn(&mut second);
        drop(second);
        let left = elsewhere(&mut session, None).unwrap();
        assert!(left.were_lost && left.remembered == ValuesDrawn::default());
    }
}
