//! The password of the role that a process logs in to datanodes as for itself. It is changed in a file and on the servers, and these
//! changes have no order: a server may have another password before the file has, or two servers different ones for a moment.
//!
//! So a login tries the password that was right the last time; when the server refuses it, the file is read again, and what is there is
//! tried, then the one before. Links that are open are not touched: PostgreSQL asks for a password at the beginning only.
//!
//! That no password is right is nothing that a client of ours has done, or can do anything about: it is told that the servers cannot be
//! reached now (57P03), and the log has PostgreSQL's own words.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pgerror::{PgError, Result, SqlState};

/// Reads the password.
type Read = Box<dyn Fn() -> Result<String> + Send + Sync>;

/// See the module's page.
pub struct Kept {
    read: Read,
    known: Mutex<Known>,
}

struct Known {
    /// The one that is tried first.
    present: String,
    /// A server has taken it.
    is_accepted: bool,
    /// The one before that a server took, or that the file had.
    former: Option<String>,
    /// Servers whose refusal is in the log already.
    refused_at: HashSet<String>,
}

impl Kept {
    /// One that is read like this, now and when it turns out to be wrong.
    ///
    /// # Errors
    /// Those of the reading.
    pub fn new(read: impl Fn() -> Result<String> + Send + Sync + 'static) -> Result<Self> {
        let known = Known { present: read()?, is_accepted: false, former: None, refused_at: HashSet::new() };
        Ok(Self { read: Box::new(read), known: Mutex::new(known) })
    }

    /// Takes what the file has now, for connections to come.
    ///
    /// # Errors
    /// Those of the reading; what was known stays.
    pub fn reload(&self) -> Result<()> {
        let found = (self.read)()?;
        self.known().is_read(found);
        Ok(())
    }

    /// The one that was right the last time.
    pub(crate) fn present(&self) -> String {
        self.known().present.clone()
    }

    /// A server has refused what was tried last: what else is there to try?
    pub(crate) fn another(&self, tried: &[String]) -> Option<String> {
        if tried.len() == 1
            && let Err(error) = self.reload()
        {
            tracing::warn!(%error, "the password of the cluster's role cannot be read again");
        }
        self.known().untried(tried)
    }

    /// The server at this place has taken the password.
    pub(crate) fn is_right(&self, place: &str, password: String) {
        let mut known = self.known();
        known.is_accepted(password);
        known.refused_at.remove(place);
    }

    /// What is told instead. The log has the reason once, for a gtm asks again several times a second.
    pub(crate) fn refused(&self, place: &str, error: &PgError) -> PgError {
        if self.known().refused_at.insert(place.to_owned()) {
            let reason = error.message();
            tracing::error!("the datanode at {place} does not let the cluster's own role log in: {reason}");
        }
        let text = format!("the cluster's own role cannot log in to the datanode at {place}");
        PgError::fatal(SqlState::CANNOT_CONNECT_NOW, text)
            .hint("The administrator finds the reason in the log. The password of the role is in password_file of the configuration.")
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kept(…)")
    }
}

impl Known {
    /// What no server has taken gives way, so that a slip in the file does not cost the one that works.
    fn is_read(&mut self, password: String) {
        if password != self.present {
            let former = std::mem::replace(&mut self.present, password);
            if std::mem::take(&mut self.is_accepted) {
                self.former = Some(former);
            }
        }
    }

    fn is_accepted(&mut self, password: String) {
        if password != self.present {
            self.former = Some(std::mem::replace(&mut self.present, password));
        }
        self.is_accepted = true;
    }

    fn untried(&self, tried: &[String]) -> Option<String> {
        let mut all = std::iter::once(&self.present).chain(&self.former);
        all.find(|password| !tried.contains(password)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// What a file holds.
    fn file(text: &str) -> (Arc<Mutex<String>>, Kept) {
        let file = Arc::new(Mutex::new(text.to_owned()));
        let read = file.clone();
        (file, Kept::new(move || Ok(read.lock().unwrap().clone())).unwrap())
    }

    /// What is tried at a server with this password.
    fn log_in(kept: &Kept, right: &str) -> Vec<String> {
        let mut tried = vec![kept.present()];
        while tried.last().is_some_and(|last| last != right) {
            match kept.another(&tried) {
                Some(other) => tried.push(other),
                None => return tried,
            }
        }
        kept.is_right("dn1:5432", right.to_owned());
        tried
    }

    #[test]
    fn file_and_servers_change_in_any_order() {
        let (file, kept) = file("one");
        assert_eq!(log_in(&kept, "one"), ["one"]);
        // The file first.
        *file.lock().unwrap() = "two".to_owned();
        assert_eq!(log_in(&kept, "one"), ["one"]);
        kept.reload().unwrap();
        assert_eq!(log_in(&kept, "one"), ["two", "one"]);
        assert_eq!(log_in(&kept, "two"), ["one", "two"]);
        // One server has it before another.
        assert_eq!(log_in(&kept, "one"), ["two", "one"]);
        assert_eq!(log_in(&kept, "two"), ["one", "two"]);
        // A server first.
        assert_eq!(log_in(&kept, "three"), ["two", "one"]);
        let words = PgError::fatal(SqlState::INVALID_PASSWORD, "password authentication failed for user \"svc\"");
        let told = kept.refused("dn1:5432", &words);
        assert_eq!(told.code(), SqlState::CANNOT_CONNECT_NOW);
        assert!(!told.to_string().contains("svc"), "{told}");
        *file.lock().unwrap() = "three".to_owned();
        assert_eq!(log_in(&kept, "three"), ["two", "three"]);
        assert_eq!(log_in(&kept, "three"), ["three"]);
        // A slip of the pen, and then the right one, before the servers have it.
        for written in ["tow", "two"] {
            *file.lock().unwrap() = written.to_owned();
            kept.reload().unwrap();
        }
        assert_eq!(log_in(&kept, "three"), ["two", "three"]);
    }
}
