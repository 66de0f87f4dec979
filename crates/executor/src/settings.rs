//! A session's settings, replayed on every datanode backend that comes to work for it.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

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
}

impl Settings {
    /// Remembers a complete `SET …` command for `name` (lower case).
    pub fn set(&mut self, name: &str, command: String) {
        self.reset(name);
        self.commands.push((name.to_owned(), command));
    }

    /// Was there a `SET` for this name?
    pub(crate) fn has(&self, name: &str) -> bool {
        self.commands.iter().any(|(known, _)| known == name)
    }

    /// Forgets a name.
    pub fn reset(&mut self, name: &str) {
        self.commands.retain(|(known, _)| known != name);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::default();
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
}
