//! What has to hold of the rows of a change, and of other triggers of the table, so that what stores the rows does what PostgreSQL
//! does.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use pgerror::{PgError, Result, SqlState, field};
use planner::{BeforeRows, Conflict};
use routine::row_fields;

use super::{Passage, Row};

/// `TRIGGER_TYPE_…` of `pg_trigger.h`.
const FOR_EACH_ROW: u32 = 1;
const BEFORE: u32 = 2;
const ON_UPDATE: u32 = 16;

/// Another trigger of the table: the nodes run it.
pub(super) struct Beside {
    pub name: String,
    pub kind: u32,
    /// UPDATE OF, by number.
    pub columns: Vec<i16>,
}

impl Beside {
    pub fn is_before_row(&self) -> bool {
        self.kind & (FOR_EACH_ROW | BEFORE) == FOR_EACH_ROW | BEFORE
    }

    pub fn is_of_statement(&self) -> bool {
        self.kind & FOR_EACH_ROW == 0
    }
}

/// The event's bit in `pg_trigger.tgtype`.
fn bit(operation: &str) -> u32 {
    match operation {
        "INSERT" => 4,
        "DELETE" => 8,
        _ => ON_UPDATE,
    }
}

/// What the nodes run comes when the row is stored.
pub(super) fn check_order(change: &BeforeRows, beside: &[Beside]) -> Result<()> {
    let of_event = |other: &&Beside| other.is_before_row() && other.kind & bit(change.operation) != 0;
    let last = change.triggers.last();
    let earlier = |other: &&Beside| last.is_some_and(|last| other.name < *last);
    match beside.iter().filter(of_event).find(|other| change.checks_old || earlier(other)) {
        None => Ok(()),
        Some(other) => Err(beside_triggers(&format!("trigger \"{}\" of table \"{}\"", other.name, change.table.name))
            .hint("Write its function in PL/pgSQL, or give it a name behind those of the others.")),
    }
}

/// Constraints and triggers that PostgreSQL comes to when all rows are stored.
pub(super) fn check_one_by_one(change: &BeforeRows, beside: &[Beside]) -> Result<()> {
    let table = &change.table;
    if change.operation != "INSERT" && table.foreign_keys.iter().any(|key| key.referenced == table.oid) {
        return Err(several(change, "a foreign key to itself"));
    }
    match beside.iter().any(|other| other.kind & FOR_EACH_ROW == 0 && other.kind & bit(change.operation) != 0) {
        true => Err(several(change, "a trigger FOR EACH STATEMENT")),
        false => Ok(()),
    }
}

/// The columns of SET, and those that the triggers have changed: these fire no trigger UPDATE OF.
pub(super) fn columns_to_set(change: &BeforeRows, rows: &[Row], beside: &[Beside]) -> Result<Vec<String>> {
    if change.operation != "UPDATE" {
        return Ok(Vec::new());
    }
    let columns = &change.table.columns;
    let mut differs = vec![false; columns.len()];
    for (old, new) in rows {
        let fields = [old, new].map(|row| row_fields(row.as_deref().unwrap_or_default()));
        let [old, new] = fields;
        differs.iter_mut().zip(old?.iter().zip(new?.iter())).for_each(|(differs, (old, new))| *differs |= old != new);
    }
    let is_stored = |column: &catalog::Column| {
        !matches!(column.generated, catalog::Generated::Stored | catalog::Generated::Virtual)
    };
    let is_key =
        |column: &catalog::Column| change.table.distribution.key().iter().any(|key| key.number == column.number);
    let mut set = Vec::new();
    for (column, differs) in columns.iter().zip(differs).filter(|(column, _)| is_stored(column)) {
        let is_set = change.set.contains(&column.name);
        if !is_set && differs && fires_of(change, beside, column.number) {
            return Err(PgError::unsupported(format!("a trigger that sets column \"{}\"", column.name))
                .detail("Another trigger of the table looks whether an UPDATE sets that column.")
                .hint("Set the column in the statement, or have the other trigger look at its value."));
        }
        if differs || is_set && !is_key(column) {
            set.push(column.name.clone());
        }
    }
    // All as it was: the row is written nevertheless.
    if set.is_empty() {
        set.extend(change.set.first().cloned().or_else(|| columns.first().map(|column| column.name.clone())));
    }
    Ok(set)
}

/// Would another trigger fire because of this column alone? What is not in PL/pgSQL may look for itself.
fn fires_of(change: &BeforeRows, beside: &[Beside], column: i16) -> bool {
    let is_set = |number: &i16| change.table.column_at(*number).is_some_and(|set| change.set.contains(&set.name));
    let fires =
        |kind: u32, columns: &[i16]| kind & ON_UPDATE != 0 && columns.contains(&column) && !columns.iter().any(is_set);
    let captured = change.table.captured.iter().filter(|one| one.is_enabled && !one.is_before_row());
    captured.into_iter().any(|one| fires(u32::from(one.kind.unsigned_abs()), &one.columns))
        || beside
            .iter()
            .any(|other| fires(other.kind, &other.columns) || other.kind & (BEFORE | ON_UPDATE) == BEFORE | ON_UPDATE)
}

/// A row to be changed is changed once, as the first of those that it is joined with says.
pub(super) fn distinct(change: &BeforeRows, rows: Vec<Vec<Option<Bytes>>>) -> Result<Vec<Row>> {
    let is_delete = change.operation == "DELETE";
    let mut seen = HashSet::new();
    let mut distinct = Vec::with_capacity(rows.len());
    for mut row in rows {
        let (new, old) = (row.pop().flatten().filter(|_| !is_delete), row.pop().flatten());
        if change.operation == "INSERT" {
            distinct.push((None, new));
            continue;
        }
        // Without a key there are no others that a row is joined with.
        if change.key.is_empty() || seen.insert(fields_of(change, &old, &change.key)?) {
            distinct.push((old, new));
        }
    }
    Ok(distinct)
}

/// Rows that are found by their text: of several that are alike one stands for all.
pub(super) fn alike(change: &BeforeRows, rows: Vec<Row>) -> Result<Vec<Row>> {
    if !change.by_text() {
        return Ok(rows);
    }
    let mut seen: HashMap<Option<Bytes>, Option<Bytes>> = HashMap::new();
    let mut kept = Vec::with_capacity(rows.len());
    for (old, new) in rows {
        match seen.get(&old) {
            None => {
                seen.insert(old.clone(), new.clone());
                kept.push((old, new));
            }
            Some(known) if *known == new => {}
            Some(_) => return Err(differ(change)),
        }
    }
    Ok(kept)
}

/// Rows that are stored one by one, and found by their text, must not be alike.
pub(super) fn check_different(change: &BeforeRows, rows: &[Row]) -> Result<()> {
    let mut seen = HashSet::new();
    match change.key.is_empty() && change.by_text() && rows.iter().any(|(old, _)| !seen.insert(old)) {
        true => Err(differ(change)),
        false => Ok(()),
    }
}

fn differ(change: &BeforeRows) -> PgError {
    PgError::unsupported(format!("this change of rows of table \"{}\" that are alike", change.table.name))
        .detail("A trigger BEFORE … FOR EACH ROW makes different rows of them, and the table has no primary key.")
        .hint("Give it a primary key.")
}

/// A foreign key to the table itself is checked for each row, but PostgreSQL comes to it when all are stored.
pub(super) fn in_order(change: &BeforeRows, passage: &Passage, error: PgError) -> PgError {
    let name = error.text(field::CONSTRAINT).into_owned();
    let mut own = change.table.foreign_keys.iter().filter(|key| key.referenced == change.table.oid);
    match passage.are_several && change.one_by_one && own.any(|key| key.name == name) {
        true => several(change, "a foreign key to itself"),
        false => error,
    }
}

fn several(change: &BeforeRows, what: &str) -> PgError {
    PgError::unsupported(format!("several rows of table \"{}\" in one statement", change.table.name))
        .detail(format!("It has {what}, and a trigger BEFORE … FOR EACH ROW whose function may use the table itself."))
        .hint("Change the rows one by one.")
}

pub(super) fn beside_triggers(what: &str) -> PgError {
    PgError::unsupported(format!("{what} beside a trigger BEFORE … FOR EACH ROW that the coordinator runs"))
}

/// By what a stored row meets others.
pub(super) fn key_of(conflict: &Conflict, row: &Option<Bytes>) -> Result<Vec<Option<Bytes>>> {
    fields_of(&conflict.update, row, &conflict.columns)
}

/// The values of these columns.
fn fields_of(change: &BeforeRows, row: &Option<Bytes>, names: &[String]) -> Result<Vec<Option<Bytes>>> {
    let fields = row_fields(row.as_deref().unwrap_or_default())?;
    let columns = change.table.columns.iter().zip(fields);
    Ok(columns.filter(|(column, _)| names.contains(&column.name)).map(|(_, field)| field).collect())
}

/// PostgreSQL's error of a row that is met, but hidden by a policy. If DO UPDATE has a condition it may be that which is not true.
pub(super) fn hidden(change: &BeforeRows, conflict: &Conflict) -> PgError {
    let table = &change.table.name;
    match conflict.is_conditional {
        true => PgError::unsupported(format!("ON CONFLICT DO UPDATE ... WHERE of table \"{table}\""))
            .detail("It has a trigger BEFORE ... FOR EACH ROW that the coordinator runs, and policies that may hide the row.")
            .hint("Leave the condition out, and use CASE in SET."),
        false => {
            let message = "new row violates row-level security policy (USING expression) for table";
            PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("{message} \"{table}\""))
        }
    }
}

/// PostgreSQL's error of a row that is met by two others.
pub(super) fn met_twice() -> PgError {
    PgError::new(SqlState::CARDINALITY_VIOLATION, "ON CONFLICT DO UPDATE command cannot affect row a second time")
        .hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values.")
}

/// PostgreSQL's error of a row that the triggers' own statements have changed.
pub(super) fn changed_meanwhile(operation: &str) -> PgError {
    let done = if operation == "DELETE" { "deleted" } else { "updated" };
    let message = format!("tuple to be {done} was already modified by an operation triggered by the current command");
    PgError::new(SqlState::TRIGGERED_DATA_CHANGE_VIOLATION, message)
        .hint("Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.")
}
