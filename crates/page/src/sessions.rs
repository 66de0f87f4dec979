//! Browsers that are logged in: a connection to the coordinator for each, found by a cookie, used with a token.
//!
//! Browsers send a cookie to every port of a host, so another program's page on this host may come to know it. It is worth nothing
//! without the token, which stands in the answer to the login only, and comes back in a header.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand::RngCore;
use tokio::sync::Semaphore;

use crate::client::{Failure, Link};

pub(crate) const SESSIONS_MAX: usize = 16;
/// Sessions of one role, so that it does not shut out the others.
pub(crate) const ROLE_SESSIONS_MAX: usize = 4;
/// Questions of a session that are asked or wait, whether or not a browser still waits for their answers.
const QUESTIONS_MAX: usize = 4;
/// For a statement, which ends within 5 s if the coordinator works, or the few of a plan.
const WORK_MAX: Duration = Duration::from_secs(20);
/// Without a request.
const UNUSED_MAX: Duration = Duration::from_secs(15 * 60);
/// A page that is left open asks all the time.
const AGE_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// How often sessions are looked through.
const SWEEP: Duration = Duration::from_secs(30);

/// Why a question has no answer.
pub(crate) enum Trouble {
    /// The coordinator says why.
    Failed(Failure),
    /// The session has ended, or its connection is of no use.
    Over,
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Trouble::Failed(failure)
    }
}

/// A login.
pub(crate) struct Session {
    token: String,
    user: String,
    link: tokio::sync::Mutex<Link>,
    /// A place for each question.
    pub(crate) places: Arc<Semaphore>,
    /// Nothing more is sent for it: it has ended.
    over: AtomicBool,
    /// A statement is on its way. A question after it that finds this still set knows that it was given up, maybe within a block.
    halfway: AtomicBool,
    begun: Instant,
    used: Mutex<Instant>,
}

/// The connection of a session, for one statement.
pub(crate) struct Turn<'s> {
    session: &'s Session,
    pub(crate) link: tokio::sync::MutexGuard<'s, Link>,
}

impl Turn<'_> {
    /// Does some work by its connection, within the time that it may take. If that has passed, or the connection is closed, or the work
    /// is given up, the session is over.
    pub(crate) async fn run<T, E: Into<Trouble>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Trouble> {
        self.session.halfway.store(true, Ordering::SeqCst);
        let Ok(ended) = tokio::time::timeout(WORK_MAX, work).await else { return Err(Trouble::Over) };
        let result = ended.map_err(Into::into);
        if self.link.client.is_closed() || matches!(result, Err(Trouble::Over)) {
            return Err(Trouble::Over);
        }
        self.session.halfway.store(false, Ordering::SeqCst);
        result
    }
}

impl Session {
    /// Waits for the statements before, which take their turns in the order they came.
    pub(crate) async fn turn(&self) -> Result<Turn<'_>, Trouble> {
        let link = self.link.lock().await;
        if self.over.load(Ordering::SeqCst) || self.halfway.load(Ordering::SeqCst) {
            return Err(Trouble::Over);
        }
        Ok(Turn { session: self, link })
    }

    /// Compares all of it, whatever differs first.
    pub(crate) fn has_token(&self, told: &str) -> bool {
        let differences = self.token.bytes().zip(told.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        self.token.len() == told.len() && differences == 0
    }

    /// Someone has asked, and not only a browser that has the cookie.
    pub(crate) fn is_used(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last_used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_old(&self, now: Instant) -> bool {
        now.duration_since(self.last_used()) > UNUSED_MAX || now.duration_since(self.begun) > AGE_MAX
    }

    /// Its connection is closed as soon as no statement of it runs.
    fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

type ByCookie = HashMap<String, Arc<Session>>;

/// All of them, by cookie.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<ByCookie>);

impl Sessions {
    /// Cookie and token of a new one; `None` if there are too many. It takes the place of the one that the same browser had, or of the
    /// role's that was used longest ago if that has its share.
    pub(crate) fn begin(&self, link: Link, user: String, before: Option<&str>) -> Option<(String, String)> {
        let (cookie, token, now) = (secret(), secret(), Instant::now());
        let mut all = self.all();
        end_old(&mut all, now);
        for cookie in [before.map(str::to_owned), surplus(&all, &user, before)].into_iter().flatten() {
            end(&mut all, &cookie);
        }
        if all.len() >= SESSIONS_MAX {
            return None;
        }
        let session = Session {
            token: token.clone(),
            user,
            link: tokio::sync::Mutex::new(link),
            places: Arc::new(Semaphore::new(QUESTIONS_MAX)),
            over: AtomicBool::new(false),
            halfway: AtomicBool::new(false),
            begun: now,
            used: Mutex::new(now),
        };
        all.insert(cookie.clone(), Arc::new(session));
        Some((cookie, token))
    }

    /// Is there room for another one of this role and browser?
    pub(crate) fn has_room(&self, user: &str, before: Option<&str>) -> bool {
        let mut all = self.all();
        end_old(&mut all, Instant::now());
        let takes_anothers =
            before.is_some_and(|cookie| all.contains_key(cookie)) || surplus(&all, user, None).is_some();
        all.len() < SESSIONS_MAX || takes_anothers
    }

    /// The one of a cookie.
    pub(crate) fn find(&self, cookie: &str) -> Option<Arc<Session>> {
        let now = Instant::now();
        self.all().get(cookie).filter(|session| !session.is_old(now)).cloned()
    }

    /// Closes its connection as soon as no statement of it runs.
    pub(crate) fn end(&self, cookie: &str) {
        end(&mut self.all(), cookie);
    }

    /// Ends those that nobody uses, until the future is dropped.
    pub(crate) async fn sweep(&self) {
        loop {
            tokio::time::sleep(SWEEP).await;
            end_old(&mut self.all(), Instant::now());
        }
    }

    fn all(&self) -> MutexGuard<'_, ByCookie> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end(all: &mut ByCookie, cookie: &str) {
    if let Some(session) = all.remove(cookie) {
        session.end();
    }
}

fn end_old(all: &mut ByCookie, now: Instant) {
    for (_, session) in all.extract_if(|_, session| session.is_old(now)) {
        session.end();
    }
}

/// Which of a role's must end before there is another one, beside the one of a cookie, which ends anyway.
fn surplus(all: &ByCookie, user: &str, before: Option<&str>) -> Option<String> {
    let others = all.iter().filter(|(cookie, session)| session.user == user && before != Some(cookie.as_str()));
    let others: Vec<_> = others.map(|(cookie, session)| (session.last_used(), cookie)).collect();
    let is_full = others.len() >= ROLE_SESSIONS_MAX;
    others.into_iter().min().filter(|_| is_full).map(|(_, cookie)| cookie.clone())
}

/// 192 bits nobody guesses, in hexadecimal digits.
pub(crate) fn secret() -> String {
    let mut bytes = [0; 24];
    rand::rng().fill_bytes(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
