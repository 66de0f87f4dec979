//! Runs a case file on a stock server and on a cluster and lists what differs.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pgerror::{Result, SqlState};
use testkit::Cluster;
use testkit::wire::{Answer, Client, CopyInput, Row, describe};

use crate::script::{self, Statement, Variant};

/// How statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Query messages, results as text.
    Simple,
    /// Parse, Bind, Execute; built-in scalar types come back in binary.
    Extended,
}

/// What one run of one file gave.
#[derive(Debug, Default)]
pub struct Report {
    /// Statements sent to both sides and compared, or checked to be refused.
    pub compared: usize,
    /// Statements that the cluster refused with 0A000 and one server did not.
    pub refused: Vec<Refusal>,
    /// Everything else that was not the same.
    pub differences: Vec<String>,
    /// How long the cluster took for each statement.
    pub times: Vec<(Duration, String)>,
}

/// A statement that the cluster refused.
#[derive(Debug)]
pub struct Refusal {
    /// Its line in the file.
    pub line: usize,
    /// The file says so.
    pub expected: bool,
    /// The statement and what differs.
    pub text: String,
}

/// One session on each side.
#[derive(Debug)]
pub struct Pair {
    /// The stock server.
    pub reference: Client,
    /// The coordinator.
    pub cluster: Client,
    /// False in a self test: `DISTRIBUTE BY` and refusals are left out.
    pub distributed: bool,
    /// The cluster whose rows are looked at before the tables of a run are gone.
    pub audited: Option<Arc<Cluster>>,
}

impl Pair {
    /// What is wrong with the rows of the cluster.
    pub fn wrong_rows(&self) -> Option<String> {
        self.audited.as_ref()?.wrong_rows()
    }
}

/// Runs a file in one variant and protocol.
///
/// # Errors
/// Only when a session cannot be set up or cleaned up; what differs, or where a connection broke, is in the report.
pub fn run(pair: &mut Pair, file: &str, source: &str, variant: &Variant, protocol: Protocol) -> Result<Report> {
    let statements = script::parse(source);
    let schema = format!("e2e_{file}_{}_{}", variant.tag(), format!("{protocol:?}").to_lowercase());
    let mut report = Report::default();
    for client in [&mut pair.reference, &mut pair.cluster] {
        set_up(client, &schema)?;
    }
    if pair.distributed {
        pair.cluster.run(if variant.brings_few_rows() { "RESET loxo.few_rows" } else { "SET loxo.few_rows = 0" })?;
    }
    let mut table = 0;
    for statement in &statements {
        if statement.parameters.is_some() && protocol == Protocol::Simple {
            continue;
        }
        let distributed = script::distribute(&statement.text, variant, &mut table);
        let sql = if pair.distributed { &distributed } else { &statement.text };
        let refused = statement.refused.as_ref().filter(|_| pair.distributed);
        let must_refuse = refused.is_some_and(|names| names.is_empty() || names.contains(&variant.tag()));
        let place = format!("{file}.sql:{}", statement.line);
        report.compared += 1;
        if let Err(error) = step(pair, statement, sql, protocol, must_refuse, &place, &mut report) {
            report.differences.push(format!("{place}: {sql}\n    the run broke off here: {error:?}"));
            return Ok(report);
        }
    }
    // The file may have left a transaction open.
    pair.cluster.simple("ROLLBACK")?;
    report.differences.extend(pair.wrong_rows().map(|found| format!("{file}.sql: rows after all statements: {found}")));
    for client in [&mut pair.reference, &mut pair.cluster] {
        clean_up(client)?;
    }
    Ok(report)
}

/// What the two sides may have been configured with differently, and an empty schema.
pub(crate) fn set_up(client: &mut Client, schema: &str) -> Result<()> {
    set_alike(client)?;
    client.run(&format!("CREATE SCHEMA {schema}"))?;
    client.run(&format!("SET search_path = {schema}"))?;
    Ok(())
}

/// What the two sides may have been configured with differently.
pub(crate) fn set_alike(client: &mut Client) -> Result<()> {
    client.run("SET TimeZone = 'UTC'")?;
    client.run("SET DateStyle = 'ISO, MDY'")?;
    for category in ["lc_messages", "lc_monetary", "lc_numeric", "lc_time"] {
        client.run(&format!("SET {category} = 'C'"))?;
    }
    Ok(())
}

/// Drops all that files may leave behind, also when they broke off in the middle.
pub(crate) fn clean_up(client: &mut Client) -> Result<()> {
    // The file may have left a transaction open, or another role on.
    client.simple("ROLLBACK")?;
    client.simple("RESET ROLE")?;
    client.simple("SET client_min_messages = error")?;
    for row in client.strings("SELECT quote_literal(gid) FROM pg_prepared_xacts")? {
        client.run(&format!("ROLLBACK PREPARED {}", row[0]))?;
    }
    for row in client.strings("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'e2e\\_%'")? {
        client.run(&format!("DROP SCHEMA {} CASCADE", row[0]))?;
    }
    for row in client.strings("SELECT rolname FROM pg_roles WHERE rolname LIKE 'e2e\\_%'")? {
        client.run(&format!("DROP OWNED BY {}", row[0]))?;
        client.run(&format!("DROP ROLE {}", row[0]))?;
    }
    Ok(())
}

/// Sends one statement to the cluster, then to the reference, and compares. What the cluster refuses must not change the
/// reference either, or all that follows would differ.
fn step(
    pair: &mut Pair,
    statement: &Statement,
    sql: &str,
    protocol: Protocol,
    must_refuse: bool,
    place: &str,
    report: &mut Report,
) -> Result<()> {
    let begin = Instant::now();
    let actual = send(&mut pair.cluster, statement, sql, protocol)?;
    report.times.push((begin.elapsed(), format!("{place}: {sql}")));
    let refused = is_refusal(&actual);
    let expected = match refused && pair.distributed {
        true => send_undone(&mut pair.reference, statement, protocol)?,
        false => send(&mut pair.reference, statement, &statement.text, protocol)?,
    };
    let (expected_text, actual_text) = (summary(&expected, statement.ordered), summary(&actual, statement.ordered));
    let text = format!("{place}: {sql}\n{}", diff(&expected_text, &actual_text));
    if refused && !is_refusal(&expected) {
        report.refused.push(Refusal { line: statement.line, expected: must_refuse, text });
    } else if must_refuse {
        report.differences.push(format!("{place}: {sql}\n    is not refused, but the file says so\n{actual_text}"));
    } else if expected_text != actual_text {
        report.differences.push(text);
    }
    Ok(())
}

fn is_refusal(answer: &Answer) -> bool {
    answer.error.as_ref().is_some_and(|error| error.code() == SqlState::FEATURE_NOT_SUPPORTED)
}

/// What the reference says to a statement that the cluster refused, without its effect. A transaction block is left failed,
/// as the cluster's is.
fn send_undone(client: &mut Client, statement: &Statement, protocol: Protocol) -> Result<Answer> {
    let in_block = client.simple("SELECT 1")?.status != 'I';
    client.simple(if in_block { "SAVEPOINT undone" } else { "BEGIN" })?;
    let mut answer = send(client, statement, &statement.text, protocol)?;
    client.simple(if in_block { "ROLLBACK TO undone" } else { "ROLLBACK" })?;
    if in_block {
        client.simple("SELECT 1 / 0")?;
    }
    answer.status = if in_block { 'E' } else { 'I' };
    Ok(answer)
}

fn send(client: &mut Client, statement: &Statement, sql: &str, protocol: Protocol) -> Result<Answer> {
    let data = statement.copy_data.as_deref().unwrap_or_default().as_bytes();
    let (head, tail) = data.split_at(data.len() / 3);
    let frames = [head, tail];
    let copy = CopyInput { frames: &frames, fail: statement.copy_data.is_none() };
    match protocol {
        Protocol::Simple => client.simple_copy(sql, copy),
        Protocol::Extended => {
            let parameters: Vec<Option<&str>> = statement.parameters.iter().flatten().map(Option::as_deref).collect();
            client.extended(sql, &parameters, copy, is_plain_scalar)
        }
    }
}

/// Built-in types whose binary form holds no object id.
fn is_plain_scalar(type_oid: u32) -> bool {
    matches!(
        type_oid,
        16 | 17
            | 18
            | 19
            | 20
            | 21
            | 23
            | 25
            | 114
            | 700
            | 701
            | 1042
            | 1043
            | 1082
            | 1083
            | 1114
            | 1184
            | 1186
            | 1266
            | 1700
            | 2950
            | 3802
    )
}

/// Where a row lies in its table is nobody's business: `tuple (0,12)`.
pub fn without_places(text: &str) -> String {
    let mut parts = text.split("tuple (");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "tuple" + part.split_once(')').map_or(part, |(_, rest)| rest))
}

/// The answers to one message as text, rows in the order they came.
pub fn answers_text(answers: &[Answer]) -> String {
    answers.iter().map(|answer| summary(answer, true)).collect::<Vec<_>>().join("  --\n")
}

/// Everything that has to be the same, as text, one fact a line.
pub fn summary(answer: &Answer, ordered: bool) -> String {
    /// Object ids of user-defined types differ from server to server.
    const FIRST_USER_OID: u32 = 16384;
    let mut text = String::new();
    if !answer.parameter_types.is_empty() {
        let types: Vec<u32> = answer.parameter_types.iter().map(|oid| (*oid).min(FIRST_USER_OID)).collect();
        let _ = writeln!(text, "  parameter types {types:?}");
    }
    for notice in &answer.notices {
        let _ = writeln!(text, "  {}", describe(notice));
    }
    // Before an error there may or may not be a description of the rows that will not come.
    let columns = answer.columns.iter().flatten().filter(|_| answer.error.is_none());
    for column in columns {
        let oid = column.type_oid.min(FIRST_USER_OID);
        let size = if oid == FIRST_USER_OID { "".into() } else { format!(" size {}", column.type_size) };
        let modifier = column.type_modifier;
        let _ =
            writeln!(text, "  column {:?} type {oid}{size} modifier {modifier} format {}", column.name, column.format);
    }
    let mut lines: Vec<String> = answer.rows.iter().map(row).collect();
    if let Some(copied) = &answer.copied {
        lines.extend(copied.split_inclusive(|byte| *byte == b'\n').map(|line| format!("  | {}", line.escape_ascii())));
    }
    if !ordered {
        lines.sort_unstable();
    }
    // How many rows come before an error depends on the order of the rows, which SQL leaves open.
    if answer.error.is_none() {
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
    }
    if let Some(tag) = &answer.tag {
        let _ = writeln!(text, "  tag {tag:?}");
    }
    if let Some(error) = &answer.error {
        let _ = writeln!(text, "  {}", describe(error));
    }
    let _ = writeln!(text, "  transaction status {}", answer.status);
    text
}

fn row(row: &Row) -> String {
    let value = |value: &Option<Bytes>| value.as_ref().map_or("NULL".into(), |v| format!("'{}'", v.escape_ascii()));
    format!("  ({})", row.iter().map(value).collect::<Vec<_>>().join(", "))
}

/// Lines that are on one side only; both sides have few lines or the same ones in most places.
pub fn diff(expected: &str, actual: &str) -> String {
    const LINES_MAX: usize = 12;
    let mut text = String::new();
    for (sign, lines, others) in [("one server ", expected, actual), ("the cluster", actual, expected)] {
        let mut others: Vec<&str> = others.lines().collect();
        let mut only = Vec::new();
        for line in lines.lines() {
            match others.iter().position(|other| *other == line) {
                Some(at) => drop(others.swap_remove(at)),
                None => only.push(line),
            }
        }
        for line in only.iter().take(LINES_MAX) {
            let _ = writeln!(text, "    {sign}:{line}");
        }
        if only.len() > LINES_MAX {
            let _ = writeln!(text, "    {sign}: … and {} more lines", only.len() - LINES_MAX);
        }
    }
    if text.is_empty() {
        text = format!("    the same lines in another order\n    one server:\n{expected}    the cluster:\n{actual}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgerror::PgError;
    use testkit::wire::Column;

    fn answer() -> Answer {
        let column = Column { name: "a".into(), type_oid: 23, type_modifier: -1, type_size: 4, format: 0 };
        let rows = ["1", "2"].map(|value| vec![Some(Bytes::from(value)), None]).to_vec();
        Answer { columns: Some(vec![column]), rows, tag: Some("SELECT 2".into()), status: 'I', ..Answer::default() }
    }

    #[test]
    fn order_counts_only_where_it_is_asked_for() {
        let mut turned = answer();
        turned.rows.reverse();
        assert_eq!(summary(&answer(), false), summary(&turned, false));
        assert_ne!(summary(&answer(), true), summary(&turned, true));
    }

    #[test]
    fn nothing_that_differs_is_overlooked() {
        let changes: [fn(&mut Answer); 9] = [
            |a| a.rows[0][1] = Some(Bytes::new()),
            |a| drop(a.rows.pop()),
            |a| a.rows.push(a.rows[0].clone()),
            |a| a.tag = Some("SELECT 3".into()),
            |a| a.status = 'T',
            |a| a.columns.iter_mut().flatten().for_each(|c| c.name = "b".into()),
            |a| a.columns.iter_mut().flatten().for_each(|c| c.type_oid = 20),
            |a| a.error = Some(PgError::new(SqlState::SYNTAX_ERROR, "x")),
            |a| a.notices.push(PgError::new(SqlState::WARNING, "x")),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = answer();
            change(&mut changed);
            assert_ne!(summary(&answer(), false), summary(&changed, false), "change {number}");
            assert!(!diff(&summary(&answer(), false), &summary(&changed, false)).is_empty());
        }
    }

    #[test]
    fn object_ids_of_user_types_do_not_count() {
        let with_oid = |oid| {
            let mut answer = answer();
            answer.columns.iter_mut().flatten().for_each(|column| column.type_oid = oid);
            summary(&answer, false)
        };
        assert_eq!(with_oid(16400), with_oid(24000));
    }
}
