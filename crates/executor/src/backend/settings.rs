//! A session's settings, replayed on every datanode backend that comes to work for it.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use catalog::quote_literal;
use pgerror::{PgError, SqlState};

use crate::backend::isolation::Isolation;
use crate::backend::isolation::SnapshotMode;

/// The setting by which a backslash in a constant means itself, to the coordinator always. Backends have it from their start, whatever
/// servers and roles are configured with.
pub(crate) const CONFORMING_STRINGS: &str = "standard_conforming_strings";

/// Takes a backend to the settings that it started with. RESET ALL leaves out who the session is; ALTER ROLE can set a role.
const RESET: &str = "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL";

/// Names of settings of applications (`my.tenant`), which PostgreSQL does not know before somebody sets them. A backend that has
/// heard of one answers `current_setting` with an empty text from then on, whatever becomes of the value, and with an error before.
pub(crate) type Placeholders = BTreeSet<String>;

/// Numbers each SET of a role or user.
static WHO: AtomicU64 = AtomicU64::new(0);

/// Ordered `SET` commands, the last one for a name wins.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    commands: Vec<(String, String)>,
    /// Which SET of a role or user was the last.
    who: u64,
    snapshot: SnapshotMode,
    /// `SET LOCAL loxo.snapshot`.
    snapshot_in_block: Option<SnapshotMode>,
    /// `default_transaction_isolation`, once the session has changed it.
    default_isolation: Option<Isolation>,
    default_read_only: bool,
    /// Those that no backend is told of: see the page of `own_settings`.
    own: Vec<(String, String)>,
    /// Those that the session has set at any time. No RESET and no rollback takes one back.
    placeholders: Placeholders,
    /// Those that the connection started with, which RESET goes back to.
    start: Option<Arc<Settings>>,
}

impl Settings {
    /// Remembers a complete `SET …` command for `name` (lower case).
    pub fn set(&mut self, name: &str, command: String) {
        self.heard_of(name);
        self.commands.retain(|(known, _)| !is_reached(known, Some(name)));
        self.commands.push((name.to_owned(), command));
        if is_who(name) {
            self.who = WHO.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Remembers what a backend turned out to have. A name that was set keeps its place among the others: it may have been set
    /// by another role than the present one, who had the right to.
    pub(crate) fn adopt(&mut self, name: &str, command: String) {
        match self.commands.iter_mut().find(|(known, _)| known == name && !is_who(known)) {
            Some((_, known)) => *known = command,
            None => self.set(name, command),
        }
    }

    /// The session has set it, if for a moment only.
    pub(crate) fn heard_of(&mut self, name: &str) {
        if name.contains('.') && !self.placeholders.contains(name) {
            self.placeholders.insert(name.to_owned());
        }
    }

    pub(crate) fn placeholders(&self) -> &Placeholders {
        &self.placeholders
    }

    /// These from now on, but nothing is unheard of again.
    pub(crate) fn become_again(&mut self, others: Self) {
        let placeholders = std::mem::take(&mut self.placeholders);
        *self = others;
        self.placeholders.extend(placeholders);
    }

    /// RESET goes back to what is set now.
    pub fn are_the_start(&mut self) {
        self.start = Some(Arc::new(Self { start: None, ..self.clone() }));
    }

    /// The command that does on a node what `RESET name`, or RESET ALL, does: `sql`, unless the connection started with a
    /// value.
    pub(crate) fn reset_sql(&self, name: Option<&str>, sql: &str) -> String {
        let started: Vec<_> = self.started(name).collect();
        let starts_with_it = started.iter().any(|(known, _)| Some(known.as_str()) == name);
        let first = (!starts_with_it).then_some(sql);
        first.into_iter().chain(started.iter().map(|(_, command)| command.as_str())).collect::<Vec<_>>().join("; ")
    }

    /// The connection's first commands for what `RESET name`, or RESET ALL, reaches.
    fn started(&self, name: Option<&str>) -> impl Iterator<Item = &(String, String)> {
        self.start.iter().flat_map(|start| &start.commands).filter(move |(known, _)| is_reached(known, name))
    }

    /// `loxo.snapshot` at the connection's start.
    pub fn snapshot_at_start(&self) -> SnapshotMode {
        self.start.as_ref().map(|start| start.snapshot).unwrap_or_default()
    }

    /// The command that sets this name.
    pub(crate) fn command(&self, name: &str) -> Option<&str> {
        self.commands.iter().find(|(known, _)| known == name).map(|(_, command)| command.as_str())
    }

    /// Was there a `SET` for this name?
    pub fn has(&self, name: &str) -> bool {
        self.commands.iter().any(|(known, _)| known == name)
    }

    /// Has the session set how constants are read, and the backend does not tell?
    pub(crate) fn read_otherwise_untold(&self) -> bool {
        ["array_nulls", "lc_monetary", "transform_null_equals", "xmloption"].into_iter().any(|name| self.has(name))
    }

    /// Remembers the value of one of the coordinator's own settings, as SHOW writes it.
    pub(crate) fn set_own(&mut self, name: &str, value: String) {
        self.own.retain(|(known, _)| known != name);
        self.own.push((name.to_owned(), value));
    }

    pub(crate) fn reset_own(&mut self, name: &str) {
        match self.own_at_start(name).map(str::to_owned) {
            Some(value) => self.set_own(name, value),
            None => self.own.retain(|(known, _)| known != name),
        }
    }

    pub(crate) fn own_at_start(&self, name: &str) -> Option<&str> {
        self.start.as_ref()?.own(name)
    }

    pub(crate) fn own(&self, name: &str) -> Option<&str> {
        self.own.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Takes a name back to what the connection started with.
    pub fn reset(&mut self, name: &str) {
        let started: Vec<_> = self.started(Some(name)).cloned().collect();
        self.commands.retain(|(known, _)| !is_reached(known, Some(name)));
        self.commands.extend(started);
    }

    /// RESET ALL.
    pub fn reset_all(&mut self) {
        let kept: Vec<_> = self.commands.iter().filter(|(known, _)| !is_reached(known, None)).cloned().collect();
        self.clear();
        self.commands.retain(|(known, _)| is_reached(known, None));
        self.commands.extend(kept);
    }

    /// All as the connection started.
    pub fn clear(&mut self) {
        let start = self.start.take();
        self.become_again(start.as_deref().cloned().unwrap_or_default());
        self.start = start;
    }

    /// `loxo.snapshot`.
    pub fn snapshot(&self) -> SnapshotMode {
        self.snapshot_in_block.unwrap_or(self.snapshot)
    }

    /// `SET [LOCAL] loxo.snapshot`.
    pub fn set_snapshot(&mut self, mode: SnapshotMode, local: bool) {
        match local {
            true => self.snapshot_in_block = Some(mode),
            false => (self.snapshot, self.snapshot_in_block) = (mode, None),
        }
    }

    /// What `SET LOCAL` set is over.
    pub(crate) fn block_ended(&mut self) {
        self.snapshot_in_block = None;
    }

    pub(crate) fn default_isolation(&self) -> Option<Isolation> {
        self.default_isolation
    }

    /// What `SHOW default_transaction_isolation` answers now.
    pub fn set_default_isolation(&mut self, isolation: Isolation) {
        self.default_isolation = Some(isolation);
    }

    pub(crate) fn default_read_only(&self) -> bool {
        self.default_read_only
    }

    /// Whether transactions that do not say are READ ONLY now.
    pub(crate) fn set_default_read_only(&mut self, read_only: bool) {
        self.default_read_only = read_only;
    }

    /// The commands of other settings with this session's way of reading.
    pub(crate) fn go_back_to(&mut self, before: &Settings) {
        self.commands = before.commands.clone();
    }

    /// Two sessions with the same fingerprint can use each other's backends; 0 means "as the server starts".
    pub fn fingerprint(&self) -> u64 {
        if self.commands.is_empty() && self.placeholders.is_empty() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        (&self.commands, &self.placeholders).hash(&mut hasher);
        // A backend keeps the role that had the name then; by now it may be another's.
        if self.commands.iter().any(|(name, _)| is_who(name)) {
            self.who.hash(&mut hasher);
        }
        hasher.finish().max(1)
    }

    /// A fingerprint of what a backend with these settings reports once these commands were run in a block, too.
    pub(crate) fn state<'c>(&self, made: impl Iterator<Item = &'c str>) -> u64 {
        let mut made = made.peekable();
        if self.commands.is_empty() && made.peek().is_none() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        (&self.commands, self.who).hash(&mut hasher);
        made.for_each(|command| command.hash(&mut hasher));
        hasher.finish().max(1)
    }

    /// A fingerprint of what unqualified names depend on.
    pub fn path_fingerprint(&self) -> u64 {
        let about_names: Vec<_> =
            self.commands.iter().filter(|(name, _)| is_who(name) || name == "search_path").collect();
        if about_names.is_empty() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        about_names.hash(&mut hasher);
        if about_names.iter().any(|(name, _)| is_who(name)) {
            self.who.hash(&mut hasher);
        }
        hasher.finish().max(1)
    }

    /// The statements that bring any idle backend to these settings.
    pub fn replay(&self) -> String {
        self.replay_after(&[])
    }

    /// [`Settings::replay`] with these commands before the session's own.
    pub(crate) fn replay_after(&self, first: &[String]) -> String {
        let own = self.commands.iter().map(|(_, command)| command);
        let heard_of = (!self.placeholders.is_empty()).then(|| hear_of(&self.placeholders));
        first.iter().chain(&heard_of).chain(own).fold(RESET.to_owned(), |sql, command| format!("{sql}; {command}"))
    }
}

/// A time as SHOW writes it: a number and its unit. `None` for 0, which means no limit.
pub fn duration(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let milliseconds: u64 = match unit {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60 * 1000,
        "h" => 3600 * 1000,
        "d" => 24 * 3600 * 1000,
        _ => return None,
    };
    let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
    Some(Duration::from_millis(number.saturating_mul(milliseconds)))
}

/// Makes a backend know them, without another value than it has: a library that is loaded later and asks for a number would not
/// take an empty text.
fn hear_of(placeholders: &Placeholders) -> String {
    let names: Vec<String> = placeholders.iter().map(|name| quote_literal(name)).collect();
    format!(
        "SELECT pg_catalog.set_config(n, '', true) FROM pg_catalog.unnest(ARRAY[{}]) n \
         WHERE pg_catalog.current_setting(n, true) IS NULL",
        names.join(", ")
    )
}

/// Does `RESET name`, or RESET ALL, reach the setting `known`? Another user begins without a role; RESET ALL leaves who the
/// session is.
fn is_reached(known: &str, name: Option<&str>) -> bool {
    match name {
        Some("session_authorization") => is_who(known),
        Some(name) => known == name,
        None => !is_who(known),
    }
}

fn is_who(name: &str) -> bool {
    matches!(name, "session_authorization" | "role")
}

/// Whose body the present statement belongs to; by default it is the client's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// A body that the coordinator runs.
    pub is_body: bool,
    /// A SECURITY DEFINER function is under way, this one or one around it.
    pub is_definer: bool,
}

/// The error of a setting that nobody may change there; `None` for any other.
pub fn refused_in_definer(name: &str) -> Option<PgError> {
    let message = || format!("cannot set parameter \"{name}\" within security-definer function");
    is_who(name).then(|| PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, message()))
}

/// States of the settings that are kept.
const STATES_MAX: usize = 64;

/// Values by name, as ParameterStatus tells them.
pub type Parameters = Arc<HashMap<String, String>>;

/// What backends report under states of the session's settings, the last one first used last.
#[derive(Default)]
pub(crate) struct Reported {
    known: Vec<(u64, Parameters)>,
    /// The state that the session was in when it was last asked for, and what holds there, if that is known.
    pub(crate) now: (u64, Option<Parameters>),
}

impl Reported {
    pub(crate) fn is_at(&self, state: u64) -> bool {
        self.now.0 == state && self.now.1.is_some()
    }

    /// In this state from here on; `false` if nobody knows what holds in it.
    pub(crate) fn goes_to(&mut self, state: u64) -> bool {
        let known = self.known.iter().find(|(of, _)| *of == state).map(|(_, values)| values.clone());
        let is_known = known.is_some();
        self.now = (state, known);
        is_known
    }

    pub(crate) fn keep(&mut self, state: u64, values: &HashMap<String, String>) {
        self.known.retain(|(of, _)| *of != state);
        if self.known.len() == STATES_MAX {
            self.known.remove(0);
        }
        let same = self.known.iter().find(|(_, known)| **known == *values).map(|(_, known)| known.clone());
        self.known.push((state, same.unwrap_or_else(|| Arc::new(values.clone()))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_backend_has_keeps_its_place() {
        let mut settings = Settings::default();
        settings.set("a", "SET a = 1".into());
        settings.set("role", "SET ROLE r".into());
        settings.adopt("a", "SET a = 2".into());
        settings.adopt("b", "SET b = 3".into());
        let all = "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; SET a = 2; SET ROLE r; SET b = 3";
        assert_eq!(settings.replay(), all);
    }

    #[test]
    fn the_last_command_for_a_name_wins() {
        let mut settings = Settings::default();
        assert_eq!(settings.fingerprint(), 0);
        settings.set("a", "SET a = 1".into());
        settings.set("b", "SET b = 1".into());
        settings.set("a", "SET a = 2".into());
        assert_eq!(settings.replay(), "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; SET b = 1; SET a = 2");
        settings.clear();
        assert_eq!(settings.fingerprint(), 0);
    }

    #[test]
    fn reset_goes_back_to_the_start() {
        let mut settings = Settings::default();
        settings.set("a", "SET a = 1".into());
        settings.set_own("o", "5s".into());
        settings.are_the_start();
        let at_start = settings.fingerprint();
        settings.set("a", "SET a = 2".into());
        settings.set("b", "SET b = 2".into());
        settings.set_own("o", "7s".into());
        assert_eq!(settings.reset_sql(Some("a"), "RESET a"), "SET a = 1");
        assert_eq!(settings.reset_sql(Some("b"), "RESET b"), "RESET b");
        assert_eq!(settings.reset_sql(None, "RESET ALL"), "RESET ALL; SET a = 1");
        settings.reset("a");
        settings.reset("b");
        settings.reset_own("o");
        assert_eq!((settings.fingerprint(), settings.own("o")), (at_start, Some("5s")));
        settings.set("a", "SET a = 2".into());
        settings.clear();
        assert_eq!(settings.fingerprint(), at_start);
    }

    #[test]
    fn a_user_begins_without_a_role_and_reset_all_keeps_both() {
        let mut settings = Settings::default();
        settings.set("session_authorization", "SET SESSION AUTHORIZATION u".into());
        settings.set("role", "SET ROLE r".into());
        settings.set("a", "SET a = 1".into());
        settings.reset_all();
        let both = "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; SET SESSION AUTHORIZATION u; SET ROLE r";
        assert_eq!(settings.replay(), both);
        settings.set("session_authorization", "SET SESSION AUTHORIZATION v".into());
        assert_eq!(
            settings.replay(),
            "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; SET SESSION AUTHORIZATION v"
        );
        settings.set("role", "SET ROLE r".into());
        settings.reset("session_authorization");
        assert_eq!(settings.fingerprint(), 0);
    }

    #[test]
    fn a_role_of_another_session_is_set_anew() {
        let (mut one, mut other) = (Settings::default(), Settings::default());
        one.set("a", "SET a = 1".into());
        other.set("a", "SET a = 1".into());
        assert_eq!(one.fingerprint(), other.fingerprint());
        one.set("role", "SET ROLE r".into());
        other.set("role", "SET ROLE r".into());
        assert_ne!(one.fingerprint(), other.fingerprint());
        assert_eq!(one.fingerprint(), one.clone().fingerprint());
    }
}
