//! SQL text → statements. The only module that calls pg_query's parser on the user's text.
//!
//! Distribution clauses and cluster commands are not in PostgreSQL's grammar: they are found on the scanner's tokens,
//! read by a small recursive descent and blanked out with spaces, so that every other byte keeps its place and error
//! positions stay right. PostgreSQL's parser reads the rest.

pub(crate) mod own_text;

use std::ops::Range;
use std::sync::Arc;

use pg_query::protobuf::{ColumnDef, ConstrType, Constraint, CreateStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result, SqlState};
use plpgsql::tokens::{self as scan, characters};

use crate::tree::Get;

mod analysed;
pub(crate) mod bodies;
mod classify;
mod cluster_commands;
mod copy;
mod distribute;
mod domain_arguments;
mod dump;
mod executed;
mod marked;
mod row_casts;
pub(crate) mod shape;
mod statement;
mod system_views;

pub use analysed::{Analysis, Undeclared, Uses, naming_temporary};
pub use executed::Executed;
pub use marked::Marked;
pub(crate) use marked::moment::{COMMON, mark};
pub use shape::{Shape, without_constants};
pub use statement::*;
pub use system_views::bare_system_views;
pub(crate) use system_views::{asks_cluster, system_view};

/// Splits a query string into its statements; empty ones are left out.
///
/// Trees are decoded, walked, changed, printed and dropped by functions that call themselves. How deep one can be libpg_query says, which gives
/// up (54001) where PostgreSQL would with its default `max_stack_depth`; `loxo` gives its threads the stack for all below that.
///
/// Errors: 42601 with PostgreSQL's message and the position in characters; 0A000 for statements we do not know.
pub fn parse(sql: &str) -> Result<Vec<Statement>> {
    parse_beside(sql, &[])
}

/// [`parse`] where these bare names are users' tables, though PostgreSQL has catalogs of these names.
pub fn parse_beside(sql: &str, hidden: &[String]) -> Result<Vec<Statement>> {
    statements(sql, Some(hidden))
}

/// [`parse`] for a text of pg_dump, which is to see nothing of our own.
pub fn parse_for_dump(sql: &str) -> Result<Vec<Statement>> {
    statements(&dump::without_ours(sql), None)
}

/// System views are read as they are, or others in their place, but for names that mean something else.
fn statements(sql: &str, but: Option<&[String]>) -> Result<Vec<Statement>> {
    // What PostgreSQL's grammar takes has nothing of ours in it.
    let first = pg_query::parse(sql, 0);
    if let (Some(hidden), Ok(parsed)) = (but, &first)
        && let Some(changed) = system_views::redirect(sql, &parsed.protobuf, hidden)
    {
        return statements(&changed, None);
    }
    let extracted = if first.is_ok() { Extracted::default() } else { extract(sql)? };
    let parsed = extracted.blanked.as_ref().map_or(first, |blanked| pg_query::parse(blanked, 0));
    let text = extracted.blanked.as_deref().unwrap_or(sql);
    let parsed = parsed.map_err(|error| syntax_error(text, error))?;
    let mut statements: Vec<(usize, Statement)> = Vec::new();
    for (range, kind) in extracted.commands {
        let statement = Statement::of_text(&sql[range.clone()], kind);
        let statement = Statement { offset: characters(sql, range.start), ..statement };
        statements.push((range.start, statement));
    }
    for raw in parsed.protobuf.stmts {
        let Some(node) = raw.stmt.and_then(|s| s.node) else { continue };
        // Blanks and comments at the ends go, but not a clause of ours that was blanked out.
        let range = exact_range(sql, raw.stmt_location, raw.stmt_len);
        let mut statement = match distribute::find_in_label(&node)? {
            Some(labelled) => Statement::of_text(&sql[range.clone()], StatementKind::Redistribute(Box::new(labelled))),
            None => build(text[range.clone()].trim_end(), node)?,
        };
        statement.offset = characters(sql, range.start);
        statement.sql = Arc::from(&sql[range.clone()]);
        statement.clause = extracted.clauses.iter().find(|(at, _)| range.contains(at)).map(|(_, c)| c.clone());
        if statement.clause.is_some()
            && !matches!(statement.kind, StatementKind::CreateTable | StatementKind::CreateTableAs)
        {
            return Err(PgError::new(SqlState::SYNTAX_ERROR, "a distribution clause belongs to CREATE TABLE"));
        }
        statements.push((range.start, statement));
    }
    statements.sort_by_key(|(start, _)| *start);
    Ok(statements.into_iter().map(|(_, statement)| statement).collect())
}

/// A statement over its tree; `sql` is its exact text.
pub(crate) fn build(sql: &str, node: NodeEnum) -> Result<Statement> {
    let kind = classify::classify(sql, &node)?;
    let (parameters, tree) = (highest_parameter(sql), Some(Arc::new(node)));
    Ok(Statement { parameters, tree, ..Statement::of_text(sql, kind) })
}

/// What is ours in a query string.
#[derive(Default)]
struct Extracted {
    /// The text without it; `None` if there is nothing of ours.
    blanked: Option<String>,
    commands: Vec<(Range<usize>, StatementKind)>,
    /// Byte offset of the clause's first word, and the clause.
    clauses: Vec<(usize, DistributeBy)>,
}

/// Do the statements make something that was not there, and lock nothing against readers? A policy, a rule and a partition lock
/// the table that they are for.
pub fn only_creates(sql: &str) -> bool {
    use NodeEnum as Made;
    let Ok(parsed) = pg_query::parse(sql, 0) else { return false };
    parsed.protobuf.stmts.iter().all(|raw| match raw.stmt.as_ref().and_then(|node| node.node.as_ref()) {
        Some(Made::CreateStmt(table)) => table.partbound.is_none() && table.inh_relations.is_empty(),
        Some(Made::CreateFunctionStmt(function)) => !function.replace,
        Some(Made::ViewStmt(view)) => !view.replace,
        Some(Made::CreateTrigStmt(trigger)) => !trigger.replace,
        Some(Made::DefineStmt(define)) => !define.replace,
        Some(
            Made::CreateTableAsStmt(_)
            | Made::CreateSeqStmt(_)
            | Made::IndexStmt(_)
            | Made::CreateSchemaStmt(_)
            | Made::CreateDomainStmt(_)
            | Made::CreateEnumStmt(_)
            | Made::CreateRangeStmt(_)
            | Made::CompositeTypeStmt(_)
            | Made::CreateStatsStmt(_)
            | Made::CreateCastStmt(_)
            | Made::CreateExtensionStmt(_)
            | Made::CreateRoleStmt(_),
        ) => true,
        _ => false,
    })
}

/// May the statements store an expression with a table, a domain or a policy? In doubt they may.
pub fn stores_expressions(sql: &str) -> bool {
    use NodeEnum as Made;
    let Ok(parsed) = pg_query::parse(sql, 0) else { return true };
    parsed.protobuf.stmts.iter().any(|raw| match raw.stmt.as_ref().and_then(|node| node.node.as_ref()) {
        Some(Made::CreateStmt(table)) => !table.table_elts.iter().all(is_plain_column) || !is_alone(table),
        Some(
            Made::CreateTableAsStmt(_)
            | Made::ViewStmt(_)
            | Made::CreateSeqStmt(_)
            | Made::AlterSeqStmt(_)
            | Made::CreateFunctionStmt(_)
            | Made::CreateEnumStmt(_)
            | Made::CompositeTypeStmt(_)
            | Made::RenameStmt(_)
            | Made::DropStmt(_),
        ) => false,
        _ => true,
    })
}

/// Is a new table made of what is written there alone?
fn is_alone(table: &CreateStmt) -> bool {
    table.inh_relations.is_empty() && table.partspec.is_none()
}

/// A column whose values are not computed, and that may have keys.
fn is_plain_column(element: &Node) -> bool {
    let is_key = |node: &Node| {
        let kind = node.get::<Constraint>().map(Constraint::contype);
        kind.is_some_and(|kind| {
            !matches!(kind, ConstrType::ConstrDefault | ConstrType::ConstrCheck | ConstrType::ConstrGenerated)
        })
    };
    element.get::<ColumnDef>().is_some_and(|column| column.constraints.iter().all(is_key))
}

fn extract(sql: &str) -> Result<Extracted> {
    let Some(tokens) = scan::tokens(sql) else { return Ok(Extracted::default()) };
    let mut extracted = Extracted::default();
    let mut blank: Vec<Range<usize>> = Vec::new();
    for segment in tokens.split(|t| t.is_char(';')) {
        let (Some(first), Some(last)) = (segment.first(), segment.last()) else { continue };
        let range = first.start..last.end;
        if let Some(command) = cluster_commands::find(sql, segment)? {
            extracted.commands.push((range.clone(), StatementKind::Cluster(Box::new(command))));
            blank.push(range);
        } else if let Some(redistribution) = distribute::find_in_alter(sql, segment)? {
            extracted.commands.push((range.clone(), StatementKind::Redistribute(Box::new(redistribution))));
            blank.push(range);
        } else if let Some((clause, ranges)) = distribute::find_in_create(sql, segment)? {
            extracted.clauses.push((ranges[0].start, clause));
            blank.extend(ranges);
        }
    }
    if !blank.is_empty() {
        let mut bytes = sql.as_bytes().to_vec();
        blank.into_iter().for_each(|range| bytes[range].fill(b' '));
        extracted.blanked = String::from_utf8(bytes).ok();
    }
    Ok(extracted)
}

/// The byte range of a raw statement without surrounding blanks and comments. A length of 0 means "to the end".
fn exact_range(sql: &str, location: i32, len: i32) -> Range<usize> {
    let start = usize::try_from(location).unwrap_or(0).min(sql.len());
    let end = match usize::try_from(len) {
        Ok(0) | Err(_) => sql.len(),
        Ok(len) => (start + len).min(sql.len()),
    };
    let text = &sql[start..end];
    if (text.contains("--") || text.contains("/*"))
        && let Some(tokens) = scan::tokens(text)
        && let (Some(first), Some(last)) = (tokens.first(), tokens.iter().rfind(|t| !t.is_char(';')))
    {
        return start + first.start..start + last.end;
    }
    let trimmed = text.trim_end().trim_end_matches(';').trim_end();
    let lead = trimmed.len() - trimmed.trim_start().len();
    start + lead..start + trimmed.len()
}

fn highest_parameter(sql: &str) -> usize {
    if !sql.contains('$') {
        return 0;
    }
    let tokens = scan::tokens(sql).unwrap_or_default();
    tokens.iter().filter_map(scan::Token::parameter).max().unwrap_or(0)
}

/// PostgreSQL's message. libpg_query's Rust binding drops the position, so it is found again: the parser fails at the
/// first token that no viable prefix can have, hence at the shortest run of tokens that fails other than by its end.
fn syntax_error(sql: &str, error: pg_query::Error) -> PgError {
    if let Some(too_deep) = crate::tree::too_deep(&error) {
        return too_deep;
    }
    let message = match error {
        pg_query::Error::Parse(message) => message,
        other => return PgError::new(SqlState::SYNTAX_ERROR, other.to_string()),
    };
    let error = PgError::new(SqlState::SYNTAX_ERROR, message.clone());
    if message.ends_with("at end of input") {
        return error.position(characters(sql, sql.len()) + 1);
    }
    let Some(tokens) = scan::tokens(sql).filter(|t| !t.is_empty() && message.contains("at or near")) else {
        return error;
    };
    // This reads the text, but makes no tree of it.
    let fails = |token: &scan::Token<'_>| match pg_query::is_utility_stmt(&sql[..token.end]) {
        Err(pg_query::Error::IsUtility(message)) => !message.ends_with("at end of input"),
        _ => false,
    };
    let named = message.split_once("at or near \"").map_or("", |(_, named)| named);
    let (mut candidates, mut rest): (Vec<_>, Vec<_>) =
        tokens.iter().partition(|token| !token.text.is_empty() && named.starts_with(token.text));
    // The last candidate fails, unless the message names something else.
    if candidates.last().is_none_or(|last| !fails(last)) {
        std::mem::swap(&mut candidates, &mut rest);
    }
    let first = candidates.partition_point(|token| !fails(token)).min(candidates.len().saturating_sub(1));
    match candidates.get(first) {
        Some(token) => error.position(characters(sql, token.start) + 1),
        None => error,
    }
}

/// The query of CREATE TABLE AS or SELECT INTO.
pub(crate) fn query_of_ctas(node: &NodeEnum) -> Option<String> {
    match node {
        NodeEnum::CreateTableAsStmt(ctas) => crate::tree::deparse(ctas.query.as_ref()?.node.as_ref()?).ok(),
        NodeEnum::SelectStmt(select) => {
            let mut select = select.clone();
            select.into_clause = None;
            crate::tree::deparse_select(&select).ok()
        }
        _ => None,
    }
}
