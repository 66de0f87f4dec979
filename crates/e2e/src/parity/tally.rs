//! How the output of one step on the cluster compares with one server's, and the table of all reasons.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::script::{Printed, Step};
use crate::script::is_ordered;

/// Why a step did not print the same; in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// 0A000 where one server does it.
    Refused,
    /// An object is missing, or the transaction failed, since an earlier statement did not do the same.
    FollowsFromEarlier,
    /// Both answer, with other rows, tags or notices.
    Answer,
    /// EXPLAIN, whose plans are the cluster's own.
    Explain,
    /// The cluster fails where one server does not.
    FailsOnlyHere,
    /// One server fails where the cluster does not.
    FailsOnlyThere,
    /// Both fail in other words.
    Error,
    /// psql did not come this far: the connection broke or the file took too long.
    Lost,
}

impl Reason {
    fn title(self) -> &'static str {
        match self {
            Self::Refused => "refused (0A000)",
            Self::FollowsFromEarlier => "follows from an earlier statement",
            Self::Answer => "other rows, tag or notices",
            Self::Explain => "EXPLAIN of another plan",
            Self::FailsOnlyHere => "error on the cluster only",
            Self::FailsOnlyThere => "error on one server only",
            Self::Error => "another error",
            Self::Lost => "not reached",
        }
    }
}

/// Compares what a step printed; `None` is the same. Without ORDER BY lines may come in any order.
pub fn compare(step: &Step, server: &Printed, cluster: Option<&Printed>) -> Option<Reason> {
    let Some(cluster) = cluster else { return Some(Reason::Lost) };
    if lines(step, &server.text) == lines(step, &cluster.text) {
        return None;
    }
    let failed = |printed: &Printed| printed.text.contains("ERROR:  ") || printed.text.contains("FATAL:  ");
    Some(match (failed(server), failed(cluster)) {
        (_, true) if cluster.state == "0A000" && server.state != "0A000" => Reason::Refused,
        (_, true) if follows(&cluster.state) => Reason::FollowsFromEarlier,
        (true, false) => Reason::FailsOnlyThere,
        (false, true) => Reason::FailsOnlyHere,
        (true, true) => Reason::Error,
        (false, false) if step.head() == "EXPLAIN" => Reason::Explain,
        (false, false) => Reason::Answer,
    })
}

/// SQLSTATEs of undefined objects, of a failed transaction, and of cursors and prepared statements that are not there.
fn follows(state: &str) -> bool {
    const STATES: [&str; 8] = ["25P02", "42P01", "42703", "42704", "42883", "3F000", "34000", "26000"];
    STATES.contains(&state)
}

fn lines<'a>(step: &Step, text: &'a str) -> Vec<&'a str> {
    let mut lines: Vec<&str> = text.lines().collect();
    if !is_ordered(&step.text) {
        lines.sort_unstable();
    }
    lines
}

/// All that was found.
#[derive(Debug, Default)]
pub struct Tally {
    steps: usize,
    same: usize,
    accepted: usize,
    accepted_same: usize,
    reasons: BTreeMap<Reason, BTreeMap<String, usize>>,
}

impl Tally {
    /// Counts a step.
    pub fn add(&mut self, step: &Step, server: &Printed, cluster: Option<&Printed>) -> Option<Reason> {
        let reason = compare(step, server, cluster);
        let accepted = !server.text.contains("ERROR:  ");
        self.steps += 1;
        self.same += usize::from(reason.is_none());
        self.accepted += usize::from(accepted);
        self.accepted_same += usize::from(accepted && reason.is_none());
        if let Some(reason) = reason {
            let detail = detail(reason, step, cluster.unwrap_or(server));
            *self.reasons.entry(reason).or_default().entry(detail).or_default() += 1;
        }
        reason
    }

    /// Adds another tally to this one.
    pub fn merge(&mut self, other: Tally) {
        self.steps += other.steps;
        self.same += other.same;
        self.accepted += other.accepted;
        self.accepted_same += other.accepted_same;
        for (reason, details) in other.reasons {
            let mine = self.reasons.entry(reason).or_default();
            details.into_iter().for_each(|(detail, count)| *mine.entry(detail).or_default() += count);
        }
    }

    /// `same of steps (share)`.
    pub fn share(&self) -> String {
        share(self.same, self.steps)
    }

    /// How many steps psql did not come to on the cluster.
    pub fn lost(&self) -> usize {
        self.reasons.get(&Reason::Lost).map_or(0, |details| details.values().sum())
    }

    /// The result and the reasons, the most frequent first.
    pub fn table(&self) -> String {
        const DETAILS_MAX: usize = 40;
        let mut text = String::new();
        for (reason, details) in &self.reasons {
            let _ = writeln!(text, "{:6}  {}", details.values().sum::<usize>(), reason.title());
            let mut sorted: Vec<_> = details.iter().collect();
            sorted.sort_by_key(|(detail, count)| (usize::MAX - **count, *detail));
            for (detail, count) in sorted.iter().take(DETAILS_MAX) {
                let _ = writeln!(text, "        {count:5}  {detail}");
            }
            if sorted.len() > DETAILS_MAX {
                let rest: usize = sorted[DETAILS_MAX..].iter().map(|(_, count)| **count).sum();
                let _ = writeln!(text, "        {rest:5}  of {} other kinds", sorted.len() - DETAILS_MAX);
            }
        }
        let _ = writeln!(text, "the same: {}", self.share());
        let _ = writeln!(text, "of those that one server accepts: {}", share(self.accepted_same, self.accepted));
        text
    }
}

fn share(part: usize, whole: usize) -> String {
    format!("{part} of {whole} ({:.1} %)", 100.0 * part as f64 / whole.max(1) as f64)
}

/// What stands in the table: the error with names and numbers left out, else the statement's first word.
fn detail(reason: Reason, step: &Step, cluster: &Printed) -> String {
    let error = cluster.text.lines().find_map(|line| line.split_once("ERROR:  ").map(|(_, message)| message));
    match error {
        Some(message) if reason != Reason::Lost => without_names(message),
        _ => step.head(),
    }
}

fn without_names(message: &str) -> String {
    let quoted = message.split('"').enumerate().map(|(i, part)| if i % 2 == 1 { "…" } else { part });
    let text = quoted.collect::<Vec<_>>().join("\"");
    text.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::script::steps;
    use super::*;

    fn reason_of(sql: &str, server: (&str, &str), cluster: (&str, &str)) -> Option<Reason> {
        let printed = |(text, state): (&str, &str)| Printed { text: text.into(), state: state.into() };
        compare(&steps(sql)[0], &printed(server), Some(&printed(cluster)))
    }

    #[test]
    fn order_counts_where_it_is_asked_for() {
        assert_eq!(reason_of("select a from t;", ("1\n2\n", ""), ("2\n1\n", "")), None);
        assert_eq!(reason_of("select a from t order by a;", ("1\n2\n", ""), ("2\n1\n", "")), Some(Reason::Answer));
        assert_eq!(reason_of("select a from t;", ("1\n2\n", ""), ("2\n", "")), Some(Reason::Answer));
    }

    #[test]
    fn each_reason_is_found() {
        let ok = ("UPDATE 1\n", "00000");
        assert_eq!(reason_of("update t;", ok, ("ERROR:  no\n", "0A000")), Some(Reason::Refused));
        assert_eq!(reason_of("update t;", ok, ("ERROR:  no\n", "42P01")), Some(Reason::FollowsFromEarlier));
        assert_eq!(reason_of("update t;", ok, ("ERROR:  no\n", "22012")), Some(Reason::FailsOnlyHere));
        assert_eq!(reason_of("update t;", ("ERROR:  a\n", "22012"), ok), Some(Reason::FailsOnlyThere));
        let errors = (("ERROR:  a\n", "22012"), ("ERROR:  b\n", "22012"));
        assert_eq!(reason_of("update t;", errors.0, errors.1), Some(Reason::Error));
        assert_eq!(reason_of("explain select 1;", ("a\n", "00000"), ("b\n", "00000")), Some(Reason::Explain));
        assert_eq!(compare(&steps("x;")[0], &Printed::default(), None), Some(Reason::Lost));
    }

    #[test]
    fn the_table_counts_all() {
        let mut tally = Tally::default();
        let same = Printed { text: "1\n".into(), state: "00000".into() };
        let refused = Printed { text: "psql:f:1: ERROR:  \"a\" has 2\n".into(), state: "0A000".into() };
        tally.add(&steps("select 1;")[0], &same, Some(&same));
        tally.add(&steps("select 1;")[0], &same, Some(&refused));
        assert!(tally.table().contains("    1  \"…\" has #\n"), "{}", tally.table());
        assert_eq!(tally.share(), "1 of 2 (50.0 %)");
    }
}
