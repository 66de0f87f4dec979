//! Which tables a statement locks before it takes its snapshots, or locks rows.

use catalog::NodeId;
use planner::Tables;

/// Replicated tables whose rows a statement of a block locks. The tables come first.
#[derive(Default)]
pub(crate) struct LockedCopies {
    /// With each the node of its first copy.
    pub(crate) tables: Vec<(NodeId, String)>,
    /// The block has changed something, these tables perhaps.
    pub(crate) after_changes: bool,
}

/// Tables to lock before a snapshot.
pub(crate) struct Locks {
    written: Vec<String>,
    /// No other session may write the tables in `written`.
    exclusive: bool,
    read: Vec<String>,
}

impl Locks {
    /// Those of a statement with these tables.
    pub(crate) fn of_tables(tables: &Tables) -> Self {
        Self { written: tables.written.iter().cloned().collect(), exclusive: false, read: tables.read.clone() }.of_all()
    }

    /// Those that these texts read, and the one that is written.
    pub(crate) fn of<'t>(written: Option<&str>, texts: impl IntoIterator<Item = &'t str>) -> Self {
        // A text that cannot be read here has no tables to lock; PostgreSQL will say what it thinks of it.
        let read = texts.into_iter().flat_map(|text| Tables::in_text(text).unwrap_or_default().read);
        let written = written.filter(|table| !table.is_empty()).map(str::to_owned).into_iter().collect();
        Self { written, ..Self::reading(read) }.of_all()
    }

    /// These tables are read.
    pub(crate) fn reading(read: impl Iterator<Item = String>) -> Self {
        let mut read: Vec<String> = read.collect();
        read.sort_unstable();
        read.dedup();
        Self { written: Vec::new(), exclusive: false, read }.of_all()
    }

    /// Without the session's own temporary tables, which no other node has, and nobody else changes.
    fn of_all(mut self) -> Self {
        for tables in [&mut self.written, &mut self.read] {
            tables.retain(|table| !table.starts_with("pg_temp."));
        }
        self
    }

    /// These tables are written.
    pub(crate) fn writing(self, tables: &[String]) -> Self {
        Self { written: tables.to_vec(), ..self }.of_all()
    }

    /// Keeps other writers off the written tables.
    pub(crate) fn exclusive(self) -> Self {
        Self { exclusive: true, ..self }
    }

    /// Tables that nobody else may write.
    pub(crate) fn exclusive_tables(&self) -> &[String] {
        if self.exclusive { &self.written } else { &[] }
    }

    /// As SQL, without [`Locks::exclusive_tables`].
    pub(crate) fn shared_commands(&self) -> Vec<String> {
        let shared = Locks { written: Vec::new(), exclusive: false, read: self.read.clone() };
        if self.exclusive { shared.commands("") } else { self.commands("") }
    }

    /// All but these, which the statement makes itself.
    pub(crate) fn without<'t>(mut self, own: impl IntoIterator<Item = &'t str>) -> Self {
        let own: Vec<String> = own.into_iter().map(catalog::quote_identifier).collect();
        self.read.retain(|table| !own.contains(table));
        self
    }

    /// As SQL.
    pub(crate) fn commands(&self, wait: &str) -> Vec<String> {
        let mode = if self.exclusive { "SHARE ROW EXCLUSIVE" } else { "ROW EXCLUSIVE" };
        let written = self.written.iter().map(|table| format!("LOCK TABLE {table} IN {mode} MODE{wait}"));
        let read =
            (!self.read.is_empty()).then(|| format!("LOCK TABLE {} IN ACCESS SHARE MODE{wait}", self.read.join(", ")));
        written.chain(read).collect()
    }
}
