//! What PostgreSQL decides when a session starts: whether the user may connect, and the settings of the user and the database.
//!
//! A backend keeps what `ALTER ROLE … SET` and `ALTER DATABASE … SET` said when it was opened, and a pooled link may have
//! been opened long ago. So each link carries the [`Login`] that it was opened under, and a session gets links of its own
//! login: of the one that holds when the session starts. A session that outlives a change of its role's settings keeps its
//! values: a link that has to be opened for it later is given them by SET.
//!
//! The gtm's epoch tells when a login has to be read again: ALTER ROLE, ALTER DATABASE and GRANT are schema changes.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use catalog::quote_literal;
use planner::LIMIT_BASE;

/// Between two settings in what a datanode answers: it cannot be in one.
const SEPARATOR: char = '\u{1}';

/// The stamp of links that only the coordinator itself uses.
pub(crate) const SERVICE: u64 = 0;

/// A role by what does not change when it gets another name. Another primary datanode may have other numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Role {
    pub(crate) oid: u32,
    /// `system_identifier` of the primary datanode.
    pub(crate) server: i64,
}

impl Role {
    fn of(facts: &str) -> Option<Self> {
        let mut words = facts.split(' ');
        Some(Self { oid: words.next()?.parse().ok()?, server: words.next()?.parse().ok()? })
    }

    /// Gives its name.
    pub(super) fn name_sql(self) -> String {
        format!(
            "SELECT r.rolname FROM pg_catalog.pg_roles r, pg_catalog.pg_control_system() s \
             WHERE r.oid = {} AND s.system_identifier = {}",
            self.oid, self.server
        )
    }
}

/// How a user's sessions start.
#[derive(Debug, Default)]
pub(crate) struct Login {
    /// `None`: there is no such role, or nobody has asked.
    pub(crate) role: Option<Role>,
    /// Two logins of a user with the same stamp are the same.
    pub(crate) stamp: u64,
    /// From `pg_db_role_setting`.
    settings: HashMap<String, String>,
    /// What `RESET name` goes back to; read when the first session starts.
    pub(crate) defaults: OnceLock<HashMap<String, String>>,
    pub(crate) limits: Limits,
}

/// How many sessions there may be at the same time; -1: as many as come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub(crate) of_role: i32,
    pub(crate) in_database: i32,
    /// The database takes no clients.
    pub(crate) is_closed: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { of_role: -1, in_database: -1, is_closed: false }
    }
}

impl Limits {
    /// The role's as a datanode has it, and the database's as users have set it.
    fn of(text: &str) -> Self {
        let mut words = text.split(' ');
        let mut limit = || words.next().and_then(|limit| limit.parse().ok()).unwrap_or(-1);
        let (of_role, in_database) = (limit(), limit());
        let of_role = if of_role >= LIMIT_BASE { of_role - LIMIT_BASE } else { of_role };
        Self { of_role, in_database, is_closed: words.next() == Some("t") }
    }
}

/// Epochs of the gtm in the session's database, and in the cluster's first one if that is another; else 0.
type Epochs = (u64, u64);

/// By user, as of these epochs.
#[derive(Default)]
pub(crate) struct Logins {
    known: Mutex<(Epochs, HashMap<String, Arc<Login>>)>,
}

impl Logins {
    pub(super) fn get(&self, epochs: Epochs, user: &str) -> Option<Arc<Login>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 == epochs { known.1.get(user).cloned() } else { None }
    }

    /// Keeps what is known of a login that has not changed.
    pub(super) fn put(&self, epochs: Epochs, user: &str, login: Login) -> Arc<Login> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != epochs {
            let stale = std::mem::take(&mut known.1);
            let is_same = |old: &Login| old.stamp == login.stamp && old.limits == login.limits;
            let same = stale.into_iter().filter(|(name, old)| name == user && is_same(old));
            *known = (epochs, same.collect());
        }
        known.1.entry(user.to_owned()).or_insert_with(|| Arc::new(login)).clone()
    }
}

impl Login {
    /// From what a datanode answers; of no row: such a user does not exist.
    pub(super) fn of(row: Option<Vec<Option<bytes::Bytes>>>) -> Self {
        let mut values = row.unwrap_or_default().into_iter().map(|value| {
            let value = value.unwrap_or_default();
            String::from_utf8_lossy(&value).into_owned()
        });
        let mut next = || values.next().unwrap_or_default();
        let (facts, settings, limits) = (next(), next(), next());
        let mut hasher = DefaultHasher::new();
        (&facts, &settings).hash(&mut hasher);
        // The later of two has the higher rank.
        let pairs = settings.split(SEPARATOR).filter_map(|setting| setting.split_once('='));
        let settings = pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        let limits = Limits::of(&limits);
        let role = Role::of(&facts);
        Self { role, stamp: hasher.finish().max(SERVICE + 1), settings, defaults: OnceLock::new(), limits }
    }

    /// What ALTER ROLE and ALTER DATABASE have given it.
    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// The commands that give a backend that was opened under `other` this login's settings.
    pub(crate) fn commands_on(&self, other: &Login) -> Vec<String> {
        let mut names: Vec<&String> = self.settings.keys().chain(other.settings.keys()).collect();
        names.sort();
        names.dedup();
        let changed = names.into_iter().filter(|name| self.settings.get(*name) != other.settings.get(*name));
        let default = |name: &String| self.defaults.get().and_then(|defaults| defaults.get(name));
        let command = |name: &String| {
            // A setting that PostgreSQL does not know is empty where it is not set.
            let value = self.settings.get(name).or_else(|| default(name)).map_or("", String::as_str);
            format!("SELECT pg_catalog.set_config({}, {}, false)", quote_literal(name), quote_literal(value))
        };
        changed.map(command).collect()
    }

    /// What a backend that has these session settings, by their fingerprint, is marked with.
    pub(crate) fn applied(&self, fingerprint: u64, on: &Login) -> u64 {
        if self.stamp == on.stamp {
            return fingerprint;
        }
        let mut hasher = DefaultHasher::new();
        (fingerprint, self.stamp).hash(&mut hasher);
        hasher.finish().max(1)
    }
}

/// What the server looks at when a user connects, and the settings from the weakest to the strongest.
pub(super) fn login_sql(user: &str) -> String {
    format!(
        "SELECT pg_catalog.concat_ws(' ', r.oid, (SELECT s.system_identifier FROM pg_catalog.pg_control_system() s), r.rolcanlogin, r.rolsuper, \
           pg_catalog.has_database_privilege(r.oid, d.oid, 'CONNECT')), \
         (SELECT pg_catalog.string_agg(u.setting, pg_catalog.chr({}) ORDER BY s.setrole <> 0, s.setdatabase <> 0, u.number) \
          FROM pg_catalog.pg_db_role_setting s, pg_catalog.unnest(s.setconfig) WITH ORDINALITY u(setting, number) \
          WHERE s.setrole IN (0, r.oid) AND s.setdatabase IN (0, d.oid)), \
         pg_catalog.concat_ws(' ', r.rolconnlimit, loxo.connection_limit(d.datconnlimit), r.rolcanlogin AND loxo.is_closed(d.datconnlimit)) \
         FROM pg_catalog.pg_roles r, pg_catalog.pg_database d \
         WHERE r.rolname = {} AND d.datname = pg_catalog.current_database()",
        SEPARATOR as u32,
        quote_literal(user)
    )
}

/// The values behind a session's own.
pub(crate) const DEFAULTS: &str = "SELECT pg_catalog.lower(name), reset_val FROM pg_catalog.pg_settings \
     WHERE context OPERATOR(pg_catalog.=) ANY (ARRAY['user', 'superuser'])";

#[cfg(test)]
mod tests {
    use super::*;

    fn login(facts: &str, settings: &str) -> Login {
        Login::of(Some(vec![Some(facts.to_owned().into()), Some(settings.to_owned().into())]))
    }

    #[test]
    fn the_stronger_setting_wins() {
        let login = login("1 t t", "a=1\u{1}b=x=y\u{1}a=2");
        assert_eq!(login.settings.get("a").map(String::as_str), Some("2"));
        assert_eq!(login.settings.get("b").map(String::as_str), Some("x=y"));
    }

    #[test]
    fn a_role_is_known_by_its_number_on_a_server() {
        assert_eq!(login("16384 -7 t f t", "").role, Some(Role { oid: 16384, server: -7 }));
        assert_eq!(Login::of(None).role, None);
    }

    #[test]
    fn limits_are_those_that_users_set() {
        let limits = |of_role, in_database, is_closed| Limits { of_role, in_database, is_closed };
        assert_eq!(Limits::of("1073741824 7 f"), limits(0, 7, false));
        assert_eq!(Limits::of("-1 3 t"), limits(-1, 3, true));
        assert_eq!(Limits::of(""), limits(-1, -1, false));
    }

    #[test]
    fn an_older_session_keeps_its_values() {
        let (old, new) = (login("1 t t", "a=1\u{1}b=1"), login("1 t t", "a=2\u{1}b=1\u{1}c=3"));
        old.defaults.set([("c".to_owned(), "0".to_owned())].into()).unwrap();
        let expected =
            ["SELECT pg_catalog.set_config('a', '1', false)", "SELECT pg_catalog.set_config('c', '0', false)"];
        assert_eq!(old.commands_on(&new), expected);
        assert_eq!(old.applied(7, &old), 7);
        assert_ne!(old.applied(7, &new), 7);
        assert_ne!(login("1 f t", "").stamp, login("1 t t", "").stamp);
    }
}
