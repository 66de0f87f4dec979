//! What a session tells of itself to other sessions: `pg_stat_activity` and its kin, on any coordinator.
//!
//! A session notes what it does at the beginning and at the end of each statement, at the price of two looks at the clock and
//! a lock that nobody else wants. The text is cut where PostgreSQL's `track_activity_query_size` would cut it.
//!
//! Invariant: what is told to others is told by [`Told`], and the code that passes it on to a user takes away what that user
//! may not see.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// PostgreSQL's default of `track_activity_query_size`, without the byte that ends the text.
const TEXT_BYTES_MAX: usize = 1023;

/// The client, and where it comes from.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Who {
    /// Unique in the cluster; the client knows it as its backend's.
    pub pid: i32,
    pub user: String,
    pub database: String,
    pub application: String,
    pub address: String,
    pub port: u16,
    /// `None`: not encrypted.
    pub tls: Option<TlsStatus>,
}

/// How a client's connection is encrypted, as the columns of `pg_stat_ssl` name it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct TlsStatus {
    pub version: Option<String>,
    pub cipher: Option<String>,
    pub bits: Option<u16>,
    pub client_dn: Option<String>,
    pub client_serial: Option<String>,
    pub issuer_dn: Option<String>,
}

/// As `pg_stat_activity.state` names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Idle,
    Active,
    InTransaction,
    InFailedTransaction,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Active => "active",
            State::InTransaction => "idle in transaction",
            State::InFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

#[derive(Default)]
struct Doing {
    who: Who,
    state: State,
    text: Vec<u8>,
    backend_start: i64,
    xact_start: i64,
    query_start: i64,
    state_change: i64,
}

/// What one session does.
pub struct Activity {
    doing: Mutex<Doing>,
    /// True from the moment when somebody wants the session to end.
    ends: watch::Sender<bool>,
}

/// What a session does, as others are told. Times are in µs since 1970.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) pid: i32,
    pub(crate) usename: String,
    pub(crate) datname: String,
    pub(crate) application_name: String,
    pub(crate) client_addr: Option<String>,
    pub(crate) client_port: Option<i32>,
    pub(crate) backend_start: Option<i64>,
    pub(crate) xact_start: Option<i64>,
    pub(crate) query_start: Option<i64>,
    pub(crate) state_change: Option<i64>,
    pub(crate) state: Option<String>,
    pub(crate) query: String,
    pub(crate) backend_type: Option<String>,
    #[serde(default)]
    pub(crate) tls: Option<TlsStatus>,
    #[serde(default)]
    pub(crate) wait_event_type: Option<String>,
    #[serde(default)]
    pub(crate) wait_event: Option<String>,
    /// Sessions for whose locks it waits, by their pids; 0 for one that is no coordinator's.
    #[serde(default)]
    pub(crate) blocked_by: Vec<i32>,
    /// Datanodes and process ids.
    pub(crate) backends: Vec<(u16, i32)>,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self { doing: Mutex::default(), ends: watch::Sender::new(false) }
    }

    /// The session has begun.
    pub fn begins(&self, who: Who) {
        let now = now_us();
        let mut doing = self.lock();
        *doing = Doing { who, backend_start: now, state_change: now, ..Doing::default() };
    }

    /// The client's application has another name now.
    pub fn is_of_application(&self, name: &str) {
        self.lock().who.application = name.to_owned();
    }

    /// The client has sent this text, or has it run.
    pub fn works(&self, text: &[u8]) {
        let now = now_us();
        let mut doing = self.lock();
        if doing.state == State::Idle {
            doing.xact_start = now;
        }
        if doing.state != State::Active {
            doing.state_change = now;
        }
        doing.state = State::Active;
        doing.query_start = now;
        doing.text.clear();
        doing.text.extend_from_slice(Self::beginning(text));
    }

    /// The part of a text that others are told.
    pub fn beginning(text: &[u8]) -> &[u8] {
        &text[..text.len().min(TEXT_BYTES_MAX)]
    }

    /// The client has its answer, and the session this status: `I`, `T` or `E`.
    pub fn rests(&self, status: u8) {
        let state = match status {
            b'T' => State::InTransaction,
            b'E' => State::InFailedTransaction,
            _ => State::Idle,
        };
        let mut doing = self.lock();
        if doing.state == state {
            return;
        }
        doing.state_change = now_us();
        doing.state = state;
        if state == State::Idle {
            doing.xact_start = 0;
        }
    }

    /// Somebody wants the session to end.
    pub(crate) fn end(&self) {
        self.ends.send_replace(true);
    }

    /// True once somebody does.
    pub fn ending(&self) -> watch::Receiver<bool> {
        self.ends.subscribe()
    }

    /// The client's last text, or its beginning.
    pub(crate) fn text(&self) -> String {
        whole_characters(&self.lock().text)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.lock().who.pid
    }

    /// A client is being logged in to this database as this user.
    pub fn comes_to(&self, database: &str, user: &str) {
        let who = &mut self.lock().who;
        (who.database, who.user) = (database.to_owned(), user.to_owned());
    }

    /// Is it of this user, or about to be?
    pub(crate) fn is_of(&self, user: &str) -> bool {
        self.lock().who.user == user
    }

    /// Does it use this database, or is it about to?
    pub(crate) fn is_in(&self, database: &str) -> bool {
        self.lock().who.database == database
    }

    /// Is it this session, that began then? A coordinator that is started anew gives the same numbers.
    pub(crate) fn is(&self, pid: i32, backend_start: Option<i64>) -> bool {
        let doing = self.lock();
        doing.who.pid == pid && Some(doing.backend_start) == backend_start
    }

    /// `None` before the session has begun.
    pub(crate) fn told(&self, backends: Vec<(u16, i32)>) -> Option<Told> {
        let doing = self.lock();
        let time = |us: i64| (us > 0).then_some(us);
        let who = &doing.who;
        (who.pid != 0).then(|| Told {
            pid: who.pid,
            usename: who.user.clone(),
            datname: who.database.clone(),
            application_name: who.application.clone(),
            client_addr: Some(who.address.clone()),
            client_port: Some(i32::from(who.port)),
            backend_start: time(doing.backend_start),
            xact_start: time(doing.xact_start),
            query_start: time(doing.query_start),
            state_change: time(doing.state_change),
            state: Some(doing.state.name().to_owned()),
            query: whole_characters(&doing.text),
            backend_type: Some("client backend".to_owned()),
            tls: who.tls.clone(),
            wait_event_type: None,
            wait_event: None,
            blocked_by: Vec::new(),
            backends,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Doing> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    /// What PostgreSQL leaves of it for roles that may not see the session.
    pub(crate) fn for_strangers(self) -> Self {
        Self {
            pid: self.pid,
            usename: self.usename,
            datname: self.datname,
            application_name: self.application_name,
            query: "<insufficient privilege>".to_owned(),
            blocked_by: self.blocked_by,
            ..Self::default()
        }
    }
}

/// Without a character that was cut through, and without what JSON and PostgreSQL have no place for.
pub(crate) fn whole_characters(text: &[u8]) -> String {
    let text = match std::str::from_utf8(text) {
        Err(error) if error.error_len().is_none() => &text[..error.valid_up_to()],
        _ => text,
    };
    String::from_utf8_lossy(text).replace('\0', "")
}

fn now_us() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_tells_what_it_does() {
        let activity = Activity::new();
        assert!(activity.told(Vec::new()).is_none());
        activity.begins(Who { pid: 7, user: "u".into(), ..Who::default() });
        activity.works(b"BEGIN");
        let told = activity.told(vec![(1, 5)]).unwrap();
        assert_eq!(
            (told.state.as_deref(), told.query.as_str(), told.backends),
            (Some("active"), "BEGIN", vec![(1, 5)])
        );
        activity.rests(b'T');
        let begun = activity.told(Vec::new()).unwrap();
        assert_eq!((begun.state.as_deref(), begun.xact_start), (Some("idle in transaction"), told.xact_start));
        let long = "é".repeat(TEXT_BYTES_MAX);
        activity.works(long.as_bytes());
        activity.rests(b'I');
        let rests = activity.told(Vec::new()).unwrap();
        assert_eq!((rests.state.as_deref(), rests.xact_start, rests.query.len()), (Some("idle"), None, 1022));
        let hidden = rests.for_strangers();
        assert_eq!(
            (hidden.usename.as_str(), hidden.query.as_str(), hidden.state),
            ("u", "<insufficient privilege>", None)
        );
    }
}
