//! Who is logged in: a connection to the coordinator for each, found by a cookie, used with a token.
//!
//! Browsers send a cookie to every port of a host, so another program's page on this host may come to know it. It is worth nothing
//! without the token, which stands in the answer to the login only, and comes back in a header.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand::RngCore;

use crate::client::Link;

pub(crate) const SESSIONS_MAX: usize = 16;
/// Without a request.
const UNUSED_MAX: Duration = Duration::from_secs(15 * 60);
/// A page that is left open asks all the time.
const AGE_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// How often sessions are looked through.
const SWEEP: Duration = Duration::from_secs(30);

/// Someone who has logged in.
pub(crate) struct Session {
    token: String,
    pub(crate) user: String,
    /// The statements of others, too.
    pub(crate) sees_all: bool,
    /// One statement at a time.
    pub(crate) link: tokio::sync::Mutex<Link>,
    begun: Instant,
    used: Mutex<Instant>,
}

impl Session {
    /// Compares all of it, whatever differs first.
    pub(crate) fn has_token(&self, told: &str) -> bool {
        let differences = self.token.bytes().zip(told.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        self.token.len() == told.len() && differences == 0
    }

    /// Someone has asked, and not only a browser that has the cookie.
    pub(crate) fn is_used(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn is_over(&self, now: Instant) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        now.duration_since(used) > UNUSED_MAX || now.duration_since(self.begun) > AGE_MAX
    }
}

/// All of them, by cookie.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Arc<Session>>>);

impl Sessions {
    /// Cookie and token of a new one; `None` if there are too many.
    pub(crate) fn begin(&self, link: Link, user: String, sees_all: bool) -> Option<(String, String)> {
        let (cookie, token, now) = (secret(), secret(), Instant::now());
        let session = Session {
            token: token.clone(),
            user,
            sees_all,
            link: tokio::sync::Mutex::new(link),
            begun: now,
            used: Mutex::new(now),
        };
        let mut all = self.all();
        all.retain(|_, session| !session.is_over(now));
        if all.len() >= SESSIONS_MAX {
            return None;
        }
        all.insert(cookie.clone(), Arc::new(session));
        Some((cookie, token))
    }

    /// Is there room for another one?
    pub(crate) fn has_room(&self) -> bool {
        let now = Instant::now();
        self.all().values().filter(|session| !session.is_over(now)).count() < SESSIONS_MAX
    }

    /// The one of a cookie.
    pub(crate) fn find(&self, cookie: &str) -> Option<Arc<Session>> {
        let now = Instant::now();
        self.all().get(cookie).filter(|session| !session.is_over(now)).cloned()
    }

    /// Closes its connection as soon as no statement of it runs.
    pub(crate) fn end(&self, cookie: &str) {
        self.all().remove(cookie);
    }

    /// Ends those that nobody uses, until the future is dropped.
    pub(crate) async fn sweep(&self) {
        loop {
            tokio::time::sleep(SWEEP).await;
            let now = Instant::now();
            self.all().retain(|_, session| !session.is_over(now));
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 192 bits nobody guesses, in hexadecimal digits.
pub(crate) fn secret() -> String {
    let mut bytes = [0; 24];
    rand::rng().fill_bytes(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
