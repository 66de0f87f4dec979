//! An outcome as text for a terminal.

use std::fmt;

use super::result::{Cell, Outcome, Sheet, Table};
use crate::tools::stats::text_table;

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = |cell: &Cell| match cell.spread_shown() {
            spread if spread.is_empty() => cell.shown(),
            spread => format!("{} {spread:>5}", cell.shown()),
        };
        let mut rows = vec![self.columns.clone()];
        rows.extend(self.rows.iter().map(|row| row.iter().map(cell).collect()));
        if !self.title.is_empty() {
            writeln!(f, "{}", self.title)?;
        }
        f.write_str(&text_table(&rows))
    }
}

impl fmt::Display for Sheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        blocks(f, &self.tables, &self.findings)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let settings: Vec<String> = self.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        writeln!(f, "{}; PostgreSQL {}", settings.join(", "), self.server_version)?;
        writeln!(f, "medians, ± half of the range of the rounds\n")?;
        blocks(f, &self.tables, &self.findings)
    }
}

fn blocks(f: &mut fmt::Formatter<'_>, tables: &[Table], findings: &[String]) -> fmt::Result {
    let tables: Vec<String> = tables.iter().filter(|table| !table.rows.is_empty()).map(Table::to_string).collect();
    f.write_str(&tables.join("\n"))?;
    if !findings.is_empty() {
        writeln!(f)?;
    }
    findings.iter().try_for_each(|finding| writeln!(f, "{finding}"))
}
