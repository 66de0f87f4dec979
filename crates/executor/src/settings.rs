//! A session's settings, replayed on every datanode backend that comes to work for it.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::snapshot::{Isolation, SnapshotMode};

/// Ordered `SET` commands, the last one for a name wins.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    commands: Vec<(String, String)>,
    snapshot: SnapshotMode,
    /// `SET LOCAL loxo.snapshot`.
    snapshot_in_block: Option<SnapshotMode>,
    /// `default_transaction_isolation`, once the session has changed it.
    default_isolation: Option<Isolation>,
    /// Those that no backend is told of: see the page of `own_settings`.
    own: Vec<(String, String)>,
    /// Those that the connection started with, which RESET goes back to.
    start: Option<Arc<Settings>>,
}

impl Settings {
    /// Remembers a complete `SET …` command for `name` (lower case).
    pub fn set(&mut self, name: &str, command: String) {
        self.commands.retain(|(known, _)| known != name);
        self.commands.push((name.to_owned(), command));
    }

    /// RESET goes back to what is set now.
    pub fn are_the_start(&mut self) {
        self.start = Some(Arc::new(Self { start: None, ..self.clone() }));
    }

    /// The command that does on a node what `RESET name`, or RESET ALL, does: `sql`, unless the connection started with a
    /// value.
    pub(crate) fn reset_sql(&self, name: Option<&str>, sql: &str) -> String {
        let mut started = self.start.iter().flat_map(|start| &start.commands);
        match name {
            Some(name) => started.find(|(known, _)| known == name).map_or(sql, |(_, command)| command).to_owned(),
            None => started.fold(sql.to_owned(), |sql, (_, command)| format!("{sql}; {command}")),
        }
    }

    /// `loxo.snapshot` at the connection's start.
    pub fn snapshot_at_start(&self) -> SnapshotMode {
        self.start.as_ref().map(|start| start.snapshot).unwrap_or_default()
    }

    /// Was there a `SET` for this name?
    pub(crate) fn has(&self, name: &str) -> bool {
        self.commands.iter().any(|(known, _)| known == name)
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
        self.commands.retain(|(known, _)| known != name);
        let started = self.start.iter().flat_map(|start| &start.commands).find(|(known, _)| known == name);
        self.commands.extend(started.cloned());
    }

    /// The same for all.
    pub fn clear(&mut self) {
        let start = self.start.take();
        *self = start.as_deref().cloned().unwrap_or_default();
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

    /// The commands of other settings with this session's way of reading.
    pub(crate) fn go_back_to(&mut self, before: &Settings) {
        self.commands = before.commands.clone();
    }

    /// Two sessions with the same fingerprint can use each other's backends; 0 means "as the server starts".
    pub fn fingerprint(&self) -> u64 {
        if self.commands.is_empty() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        self.commands.hash(&mut hasher);
        hasher.finish().max(1)
    }

    /// The statements that bring any idle backend to these settings.
    pub fn replay(&self) -> String {
        let mut sql = String::from("RESET SESSION AUTHORIZATION; RESET ALL");
        for (_, command) in &self.commands {
            sql.push_str("; ");
            sql.push_str(command);
        }
        sql
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_command_for_a_name_wins() {
        let mut settings = Settings::default();
        assert_eq!(settings.fingerprint(), 0);
        settings.set("a", "SET a = 1".into());
        settings.set("b", "SET b = 1".into());
        settings.set("a", "SET a = 2".into());
        assert_eq!(settings.replay(), "RESET SESSION AUTHORIZATION; RESET ALL; SET b = 1; SET a = 2");
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
}
