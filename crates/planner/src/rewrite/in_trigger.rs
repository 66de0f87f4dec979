//! A statement in the body of a trigger that the coordinator runs: to the node that gets it, it is in no trigger.
//!
//! The triggers that are under way are counted by the coordinator, and transition tables are temporary tables with names of ours, which
//! only the statements of the trigger's own function know by the names that REFERENCING gave them.

use std::collections::HashSet;
use std::ops::Range;

use pg_query::protobuf::{CommonTableExpr, FuncCall, RangeVar, ResTarget, WithClause};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result, SqlState, field};
use plpgsql::tokens::{self as scan, Token};

use crate::ddl::trigger::asks_depth;
use crate::tree::{self, Get, Ref, Syntax, Walk};

/// A transition table: its name in the trigger, and the one of the temporary table.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct TransitionTable {
    pub name: String,
    pub table: String,
}

/// The statement as the nodes get it.
#[derive(Debug)]
pub struct InTrigger {
    /// Its text.
    pub sql: String,
    written: String,
    /// What stood there, and how many bytes stand there now.
    edits: Vec<(Range<usize>, usize)>,
}

impl InTrigger {
    /// The error with its place in the text as it was written.
    pub fn placed(&self, error: PgError) -> PgError {
        let Ok(position) = error.text(field::POSITION).parse::<usize>() else { return error };
        let mut starts = self.sql.char_indices().map(|(at, _)| at).chain([self.sql.len()]);
        let Some(here) = position.checked_sub(1).and_then(|before| starts.nth(before)) else { return error };
        let before = self.written.get(..self.written_at(here)).unwrap_or(&self.written);
        error.with(field::POSITION, (before.chars().count() + 1).to_string())
    }

    /// Where in the text as it was written that stands which stands at this byte now.
    fn written_at(&self, here: usize) -> usize {
        let (mut from, mut written) = (0, 0);
        for (range, length) in &self.edits {
            let start = from + range.start - written;
            if here < start {
                break;
            }
            if here < start + length {
                return range.start;
            }
            (from, written) = (start + length, range.end);
        }
        here - from + written
    }
}

/// The statement with the depth of the triggers where it asks for that, and with the tables that transition tables are; `None` if it
/// mentions neither.
///
/// # Errors
/// As PostgreSQL's if it would change a transition table.
pub fn in_trigger(sql: &str, depth: usize, tables: &[TransitionTable]) -> Result<Option<InTrigger>> {
    let Ok(parsed) = pg_query::parse(sql, 0) else { return Ok(None) };
    let [statement] = parsed.protobuf.stmts.as_slice() else { return Ok(None) };
    let mut search = Search { tables, tokens: None, sql, depth, edits: Vec::new() };
    match statement.stmt.as_ref().and_then(|node| node.node.as_ref()) {
        Some(NodeEnum::CreateTableAsStmt(create)) => search.query(create.query.as_deref())?,
        Some(NodeEnum::DeclareCursorStmt(declare)) => search.query(declare.query.as_deref())?,
        Some(NodeEnum::ExplainStmt(explain)) => search.query(explain.query.as_deref())?,
        // Only the arguments: the call itself stays one.
        Some(NodeEnum::CallStmt(call)) => match &call.funccall {
            Some(call) => search.search(&call.args, &HashSet::new())?,
            None => return Ok(None),
        },
        _ => search.query(statement.stmt.as_deref())?,
    }
    let mut edits = search.edits;
    if edits.is_empty() {
        return Ok(None);
    }
    edits.sort_by_key(|(range, _)| range.start);
    // The value of `SET (a, b) = …` stands in the tree once for each column.
    edits.dedup_by(|one, kept| one.0.start == kept.0.start);
    let (mut text, mut from) = (String::with_capacity(sql.len()), 0);
    for (range, new) in &edits {
        text.push_str(&sql[from..range.start]);
        text.push_str(new);
        from = range.end;
    }
    text.push_str(&sql[from..]);
    let edits = edits.into_iter().map(|(range, new)| (range, new.len())).collect();
    Ok(Some(InTrigger { sql: text, written: sql.to_owned(), edits }))
}

struct Search<'s> {
    tables: &'s [TransitionTable],
    sql: &'s str,
    depth: usize,
    /// Tokens of the text, once they are needed.
    tokens: Option<Vec<Token<'s>>>,
    edits: Vec<(Range<usize>, String)>,
}

impl<'s> Search<'s> {
    fn query(&mut self, query: Option<&Node>) -> Result<()> {
        match query.and_then(|query| query.node.as_ref()).filter(|query| Ref::of(query).is_some()) {
            Some(query) => self.search(query, &HashSet::new()),
            None => Ok(()),
        }
    }

    /// Looks at a part of the statement in which items of WITH have these names.
    fn search(&mut self, part: &impl Walk, items: &HashSet<String>) -> Result<()> {
        part.walk(&mut |node| {
            if let Some(name) = tree::changed(node) {
                self.check_changed(name)?;
            }
            let below = match node {
                // The names in it are aliases.
                Ref::LockingClause(_) | Ref::IntoClause(_) => return Ok(false),
                Ref::SelectStmt(of) => apart(of, &of.with_clause, |rest| rest.with_clause = None),
                Ref::InsertStmt(of) => apart(of, &of.with_clause, |rest| rest.with_clause = None),
                Ref::UpdateStmt(of) => apart(of, &of.with_clause, |rest| rest.with_clause = None),
                Ref::DeleteStmt(of) => apart(of, &of.with_clause, |rest| rest.with_clause = None),
                Ref::MergeStmt(of) => apart(of, &of.with_clause, |rest| rest.with_clause = None),
                _ => None,
            };
            match node {
                Ref::RangeVar(name) if !items.contains(&name.relname) => self.name(name)?,
                Ref::ResTarget(target) => self.named_depth(target)?,
                Ref::FuncCall(call) if asks_depth(call) => self.depth_at(call, "")?,
                _ => {}
            }
            let Some((with, rest)) = below else { return Ok(true) };
            let inside = self.items(with, items)?;
            self.search(&rest, &inside)?;
            Ok(false)
        })
    }

    /// Looks at the items of WITH; gives the names of all that hide others behind it.
    fn items(&mut self, with: &WithClause, outer: &HashSet<String>) -> Result<HashSet<String>> {
        let items: Vec<_> = with.ctes.iter().filter_map(|item| item.get::<CommonTableExpr>()).collect();
        let mut inside = outer.clone();
        if with.recursive {
            inside.extend(items.iter().map(|item| item.ctename.clone()));
        }
        for item in items {
            self.search(&item.ctequery, &inside)?;
            inside.insert(item.ctename.clone());
        }
        Ok(inside)
    }

    fn meant(&self, name: &RangeVar) -> Option<&TransitionTable> {
        let is_bare = name.schemaname.is_empty() && name.catalogname.is_empty();
        self.tables.iter().find(|table| is_bare && table.name == name.relname)
    }

    fn check_changed(&self, name: &RangeVar) -> Result<()> {
        match self.meant(name) {
            Some(_) => {
                let message = format!("relation \"{}\" cannot be the target of a modifying statement", name.relname);
                Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
            }
            None => Ok(()),
        }
    }

    /// The table in place of the transition table.
    fn name(&mut self, name: &RangeVar) -> Result<()> {
        let Some(meant) = self.meant(name) else { return Ok(()) };
        let table = catalog::quote_identifier(&meant.table);
        let text = match name.alias {
            Some(_) => table,
            None => format!("{table} AS {}", catalog::quote_identifier(&name.relname)),
        };
        let (sql, at) = (self.sql, self.token(name.location)?);
        let tokens = self.tokens();
        let before = |count: usize| at.checked_sub(count).and_then(|at| tokens.get(at));
        let is_word = |token: Option<&Token<'_>>, word: &str| token.is_some_and(|token| token.is(word));
        let is_char = |token: Option<&Token<'_>>, c: char| token.is_some_and(|token| token.is_char(c));
        let (start, end, select) = match () {
            // `TABLE d`, `ONLY (d)` and `d *` take no alias.
            () if is_word(before(1), "table") => (at - 1, at, "SELECT * FROM "),
            () if is_char(before(1), '(') && is_word(before(2), "only") => (at - 2, at + 1, ""),
            () if is_char(tokens.get(at + 1), '*') => (at, at + 1, ""),
            () => (at, at, ""),
        };
        let (start, end) = (tokens[start].start, tokens.get(end).map_or(sql.len(), |token| token.end));
        self.edits.push((start..end, format!("{select}{text}")));
        Ok(())
    }

    /// An output column that is called by the function.
    fn named_depth(&mut self, target: &ResTarget) -> Result<()> {
        let call = target.val.as_deref().and_then(|value| value.get::<FuncCall>());
        match call.filter(|call| asks_depth(call) && target.name.is_empty()) {
            Some(call) => self.depth_at(call, " AS pg_trigger_depth"),
            None => Ok(()),
        }
    }

    fn depth_at(&mut self, call: &FuncCall, named: &str) -> Result<()> {
        let mut at = self.token(call.location)?;
        let tokens = self.tokens();
        let mut end = at + tokens[at..].iter().position(|token| token.is_char(')')).unwrap_or_default();
        // Its name stands behind its brackets.
        while !named.is_empty() && is_in_brackets(tokens, at, end) {
            (at, end) = (at - 1, end + 1);
        }
        let range = tokens[at].start..tokens[end].end;
        if !self.edits.iter().any(|(known, _)| known.contains(&range.start)) {
            // A number by itself is that of a column in GROUP BY and ORDER BY.
            self.edits.push((range, format!("CAST({} AS pg_catalog.int4){named}", self.depth)));
        }
        Ok(())
    }

    fn tokens(&mut self) -> &[Token<'s>] {
        let sql = self.sql;
        self.tokens.get_or_insert_with(|| scan::tokens(sql).unwrap_or_default())
    }

    fn token(&mut self, location: i32) -> Result<usize> {
        let found = self.tokens().iter().position(|token| i32::try_from(token.start) == Ok(location));
        found.ok_or_else(|| PgError::internal(format!("nothing stands at byte {location} of a statement")))
    }
}

/// Do these tokens, and nothing else, stand in a pair of brackets?
fn is_in_brackets(tokens: &[Token<'_>], start: usize, end: usize) -> bool {
    let before = start.checked_sub(1).and_then(|at| tokens.get(at));
    before.is_some_and(|token| token.is_char('(')) && tokens.get(end + 1).is_some_and(|token| token.is_char(')'))
}

/// The WITH of a statement, and the statement without it.
fn apart<'a, S: Clone + Syntax>(
    statement: &S,
    with: &'a Option<WithClause>,
    clear: impl Fn(&mut S),
) -> Option<(&'a WithClause, NodeEnum)> {
    let with = with.as_ref()?;
    let mut rest = statement.clone();
    clear(&mut rest);
    Some((with, rest.into_tree()))
}

#[cfg(test)]
mod tests {
    use pgerror::{PgError, SqlState, field};

    use super::{InTrigger, TransitionTable, in_trigger};

    fn rewritten(sql: &str) -> Option<InTrigger> {
        let table = TransitionTable { name: "d".to_owned(), table: "loxo_old_1".to_owned() };
        in_trigger(sql, 1, &[table]).unwrap()
    }

    #[track_caller]
    fn check(sql: &str, expected: &str) {
        let text = rewritten(sql).map_or_else(|| sql.to_owned(), |one| one.sql);
        assert_eq!(text, expected);
        assert!(pg_query::parse(&text, 0).is_ok(), "{text}");
    }

    #[test]
    fn transition_tables_have_their_names_where_nothing_hides_them() {
        check("SELECT d.id FROM d, s.d AS e", "SELECT d.id FROM loxo_old_1 AS d, s.d AS e");
        check("SELECT 1 FROM \"d\" x JOIN d USING (id)", "SELECT 1 FROM loxo_old_1 x JOIN loxo_old_1 AS d USING (id)");
        check("WITH d AS (SELECT * FROM d) TABLE d", "WITH d AS (SELECT * FROM loxo_old_1 AS d) TABLE d");
        check("WITH RECURSIVE d AS (SELECT * FROM d) TABLE d", "WITH RECURSIVE d AS (SELECT * FROM d) TABLE d");
        check(
            "SELECT (WITH d AS (SELECT 1) SELECT count(*) FROM d) FROM d",
            "SELECT (WITH d AS (SELECT 1) SELECT count(*) FROM d) FROM loxo_old_1 AS d",
        );
        check(
            "SELECT 1 FROM ONLY (d) WHERE EXISTS (TABLE d) UNION SELECT 1 FROM d *",
            "SELECT 1 FROM loxo_old_1 AS d WHERE EXISTS (SELECT * FROM loxo_old_1 AS d) UNION SELECT 1 FROM loxo_old_1 AS d",
        );
        check("CREATE TABLE e AS SELECT * FROM d", "CREATE TABLE e AS SELECT * FROM loxo_old_1 AS d");
        check("CREATE TABLE d (id int)", "CREATE TABLE d (id int)");
    }

    #[test]
    fn the_depth_stands_where_it_is_asked_for() {
        check("SELECT pg_trigger_depth()", "SELECT CAST(1 AS pg_catalog.int4) AS pg_trigger_depth");
        check("SELECT ((pg_trigger_depth()))", "SELECT CAST(1 AS pg_catalog.int4) AS pg_trigger_depth");
        check("SELECT 1 WHERE pg_catalog.pg_trigger_depth( )=1", "SELECT 1 WHERE CAST(1 AS pg_catalog.int4)=1");
        check("CALL p(pg_trigger_depth(), 1)", "CALL p(CAST(1 AS pg_catalog.int4), 1)");
        check("CALL p(v => 1 + pg_trigger_depth())", "CALL p(v => 1 + CAST(1 AS pg_catalog.int4))");
    }

    #[test]
    fn a_transition_table_is_not_changed() {
        let table = TransitionTable { name: "d".to_owned(), table: "loxo_old_1".to_owned() };
        let error = in_trigger("DELETE FROM d", 1, &[table]).unwrap_err();
        assert_eq!(error.message(), "relation \"d\" cannot be the target of a modifying statement");
    }

    #[test]
    fn errors_are_where_the_text_was_written() {
        let written = "SELECT 'é', pg_trigger_depth(), x FROM d, y";
        let one = rewritten(written).unwrap();
        let characters = |text: &str, word: &str| text[..text.find(word).unwrap()].chars().count() + 1;
        for word in ["x FROM", "y", "SELECT"] {
            let error = PgError::new(SqlState::UNDEFINED_COLUMN, "")
                .with(field::POSITION, characters(&one.sql, word).to_string());
            assert_eq!(one.placed(error).text(field::POSITION), characters(written, word).to_string());
        }
    }
}
