//! INSERTs of many rows that lack only what one node must say for all: numbers of sequences, and the time.
//!
//! ```text
//!  INSERT INTO t (a, at) VALUES (1, now()), (2, DEFAULT)
//!  →  INSERT INTO t (a, at, "id") VALUES (1, ('…'::timestamptz), 7), (2, …, 8)
//! ```
//!
//! Said into the text, it leaves rows that each node can store by itself ([`ManyRows`]), and no tree of all rows is made. What a kind
//! of row lacks is found out from one row of it, by the columns' defaults and the calls in its tree. Rows of one kind have the
//! same tokens but for their constants, so a call stands at the same tokens in each of them.

use std::ops::Range;

use catalog::{Column, Distribution, Meaning, meaning};
use pg_query::NodeEnum;
use pg_query::protobuf::{InsertStmt, OverridingKind};
use plpgsql::tokens as scan;

use super::rows::ManyRows;
use super::{plain_column, single};
use crate::context::Context;
use crate::dml::Insert;
use crate::facts::clock;
use crate::plan::names_list;
use crate::session::Moment;
use crate::tree;

/// What to put into the text of an INSERT. See the module's page.
#[derive(Debug)]
pub struct Completion {
    /// Columns that the rows do not have.
    added: Vec<(String, Fill)>,
    /// Parts of each kind of row.
    kinds: Vec<Vec<Part>>,
    /// Columns that may be given by OVERRIDING SYSTEM VALUE only.
    overrides: bool,
    names_columns: bool,
    /// Those that the statement gives.
    given: Vec<String>,
    /// The expressions that draw numbers.
    draws: Vec<String>,
}

/// A value.
#[derive(Clone, Debug)]
enum Fill {
    Text(String),
    /// The next number of that expression.
    Number(usize),
}

/// A part of a row that gives way to a value.
#[derive(Debug)]
struct Part {
    /// Which value of the row.
    value: usize,
    /// Which of its tokens, blanks not counted; `None` if it is all of them.
    tokens: Option<Range<usize>>,
    fill: Fill,
}

impl ManyRows {
    /// What the rows lack, with the time of `moment`; `None` if it is nothing, or more than that.
    pub(crate) fn completion_in(&self, ctx: &Context<'_>, sql: &str, moment: &Moment) -> Option<Completion> {
        let clocks = [Meaning::Now, Meaning::StatementTime].into_iter().flat_map(meaning::names);
        // Names are read as PostgreSQL's own.
        if !ctx.session.temp_relations.is_empty()
            || clocks.into_iter().any(|name| !ctx.catalog.functions(name).is_empty())
        {
            return None;
        }
        let mut whole: Option<Completion> = None;
        for kind in 0..self.kinds() {
            let text = self.one(sql, kind);
            let statement = single(&text)?;
            let Some(NodeEnum::InsertStmt(insert)) = statement.node() else { return None };
            let insert_of = Insert::of_table(ctx, &statement, insert).ok()??;
            let of_kind = Lack { insert: &insert_of, tree: insert, moment };
            let mut completion = whole.take().map_or_else(|| of_kind.of_all(), Some)?;
            let values = self.ranges_of_values(sql, self.range_of(self.first_of(kind)).start)?;
            let values: Vec<&str> = values.into_iter().map(|value| &sql[value]).collect();
            let parts = of_kind.of_row(&values, &mut completion)?;
            completion.kinds.push(parts);
            whole = Some(completion);
        }
        whole.filter(|all| !all.added.is_empty() || all.kinds.iter().any(|parts| !parts.is_empty()))
    }

    /// How often each expression is to be computed.
    pub fn draws(&self, completion: &Completion) -> Vec<(String, usize)> {
        let mut counts = vec![0; completion.draws.len()];
        for row in 0..self.row_count() {
            let parts = completion.kinds.get(self.kind_of(row)).into_iter().flatten().map(|part| &part.fill);
            for fill in parts.chain(completion.added.iter().map(|(_, fill)| fill)) {
                if let Fill::Number(draw) = fill {
                    counts[*draw] += 1;
                }
            }
        }
        completion.draws.iter().cloned().zip(counts).collect()
    }

    /// The statement with all rows; `numbers` are those of [`ManyRows::draws`], one expression's after the other's.
    pub fn completed<'n>(
        &self,
        sql: &str,
        completion: &Completion,
        numbers: impl Fn(usize) -> Option<&'n str>,
    ) -> Option<String> {
        let rows: Vec<usize> = (0..self.row_count()).collect();
        self.completed_rows(sql, completion, &rows, numbers)
    }

    /// The statement with one row of each kind, twice; the numbers are all the same.
    pub fn completed_sample(&self, sql: &str, completion: &Completion) -> Option<String> {
        let rows: Vec<usize> = (0..self.kinds()).flat_map(|kind| [self.first_of(kind); 2]).collect();
        self.completed_rows(sql, completion, &rows, |_| Some("1"))
    }

    fn completed_rows<'n>(
        &self,
        sql: &str,
        completion: &Completion,
        rows: &[usize],
        numbers: impl Fn(usize) -> Option<&'n str>,
    ) -> Option<String> {
        let mut next = Vec::new();
        let mut before = 0;
        for (_, count) in self.draws(completion) {
            next.push(before);
            before += count;
        }
        let mut text = String::with_capacity(sql.len() + sql.len() / 2);
        text.push_str(&completion.head(self.head(sql))?);
        let mut put = |text: &mut String, fill: &Fill| {
            match fill {
                Fill::Text(value) => text.push_str(value),
                Fill::Number(draw) => {
                    text.push_str(numbers(next[*draw])?);
                    next[*draw] += 1;
                }
            }
            Some(())
        };
        for (place, row) in rows.iter().enumerate() {
            if place > 0 {
                text.push_str(",\n");
            }
            let range = self.range_of(*row);
            // Up to the parenthesis at its end.
            let end = range.end - 1;
            let mut at = range.start;
            let parts = completion.kinds.get(self.kind_of(*row))?;
            if !parts.is_empty() {
                let values = self.ranges_of_values(sql, range.start)?;
                for part in parts {
                    let place = part.range(sql, values.get(part.value)?.clone())?;
                    text.push_str(sql.get(at..place.start)?);
                    put(&mut text, &part.fill)?;
                    at = place.end;
                }
            }
            text.push_str(&sql[at..end]);
            for (_, fill) in &completion.added {
                text.push_str(", ");
                put(&mut text, fill)?;
            }
            text.push(')');
        }
        text.push_str(self.tail(sql));
        Some(text)
    }
}

impl Completion {
    /// Does it take numbers of sequences?
    pub fn draws_numbers(&self) -> bool {
        !self.draws.is_empty()
    }

    fn head(&self, head: &str) -> Option<String> {
        let tokens = scan::tokens(head)?;
        let values = tokens.last()?;
        let overriding = tokens.iter().find(|token| token.text.eq_ignore_ascii_case("overriding"));
        let mut text = head.to_owned();
        if self.overrides && overriding.is_none() {
            text.insert_str(values.start, "OVERRIDING SYSTEM VALUE ");
        }
        let added = names_list(self.added.iter().map(|(name, _)| name));
        match (added.is_empty(), self.names_columns) {
            (true, _) => {}
            (false, true) => {
                let list_end = tokens.iter().rfind(|token| token.is_char(')'))?.start;
                text.insert_str(list_end, &format!(", {added}"));
            }
            (false, false) => {
                let place = overriding.unwrap_or(values).start;
                let given = names_list(&self.given);
                text.insert_str(place, &format!("({given}, {added}) "));
            }
        }
        Some(text)
    }

    fn number(&mut self, draw: String) -> Fill {
        // Rows of all kinds draw in their order.
        let known = self.draws.iter().position(|known| *known == draw);
        Fill::Number(known.unwrap_or_else(|| {
            self.draws.push(draw);
            self.draws.len() - 1
        }))
    }
}

impl Part {
    fn range(&self, sql: &str, value: Range<usize>) -> Option<Range<usize>> {
        let Some(tokens) = &self.tokens else { return Some(value) };
        let all = tokens_of(&sql[value.clone()])?;
        let (first, last) = (all.get(tokens.start)?, all.get(tokens.end.checked_sub(1)?)?);
        Some(value.start + first.start..value.start + last.end)
    }
}

/// Without blanks.
fn tokens_of(text: &str) -> Option<Vec<Range<usize>>> {
    let (mut scratch, mut at, mut tokens) = (crate::parse::Shape::default(), 0, Vec::new());
    while at < text.len() {
        let end = scratch.token(text, at)?;
        if !text[at..end].trim().is_empty() {
            tokens.push(at..end);
        }
        at = end;
    }
    Some(tokens)
}

/// What one row lacks.
struct Lack<'a> {
    insert: &'a Insert<'a>,
    tree: &'a InsertStmt,
    moment: &'a Moment,
}

impl Lack<'_> {
    /// As far as it concerns all rows.
    fn of_all(&self) -> Option<Completion> {
        let relation = &self.insert.relation;
        let is_keyed = matches!(relation.distribution, Distribution::Hash { .. } | Distribution::Modulo { .. });
        let is_plain = self.tree.with_clause.is_none()
            && self.tree.r#override != OverridingKind::OverridingUserValue as i32
            && self.tree.cols.iter().all(|column| plain_column(column).is_some())
            && !self.insert.ctx.catalog.has_column_grants(relation.oid);
        if !is_keyed || !is_plain || !self.insert.needs_only_defaults() || self.insert.check_identity().is_err() {
            return None;
        }
        let given = self.insert.known_columns()?;
        let names_columns = !self.tree.cols.is_empty();
        let (added, kinds, draws) = (Vec::new(), Vec::new(), Vec::new());
        let mut all = Completion { added, kinds, overrides: false, names_columns, given, draws };
        for column in crate::dml::stored_columns(relation) {
            if !all.given.contains(&column.name)
                && let Some(fill) = self.fill(column, &mut all)?
            {
                all.added.push((column.name.clone(), fill));
            }
        }
        Some(all)
    }

    /// What stands for the default of a column; `Some(None)` if each node can say it.
    #[allow(clippy::option_option)]
    fn fill(&self, column: &Column, all: &mut Completion) -> Option<Option<Fill>> {
        if let Some(draw) = self.insert.draw_of(column) {
            all.overrides |= column.generated == catalog::Generated::IdentityAlways;
            return Some(Some(all.number(draw)));
        }
        match &column.default {
            Some(_) if !column.default_is_stable => None,
            Some(default) if clock::expression_reads(default) => {
                let at = clock::expression_at(default, self.moment)?;
                Some(Some(Fill::Text(format!("({at})"))))
            }
            _ => Some(None),
        }
    }

    /// As far as it concerns rows of this kind, which has these values.
    fn of_row(&self, values: &[&str], all: &mut Completion) -> Option<Vec<Part>> {
        if self.insert.check_identity().is_err() || !self.insert.needs_only_defaults() {
            return None;
        }
        let mut parts = Vec::new();
        for (value, text) in values.iter().enumerate() {
            if text.eq_ignore_ascii_case("default") {
                let column = self.insert.relation.column(all.given.get(value)?)?;
                let fill = self.fill(column, all)?;
                parts.extend(fill.map(|fill| Part { value, tokens: None, fill }));
                continue;
            }
            for (tokens, constant) in clocks_in(text, self.moment)? {
                parts.push(Part { value, tokens: Some(tokens), fill: Fill::Text(format!("({constant})")) });
            }
        }
        Some(parts)
    }
}

/// The tokens of each reading of the clock in an expression, and what stands for it.
fn clocks_in(expression: &str, moment: &Moment) -> Option<Vec<(Range<usize>, String)>> {
    // Most values have no words in them.
    if !expression.bytes().any(|byte| byte.is_ascii_alphabetic()) || !clock::expression_reads(expression) {
        return Some(Vec::new());
    }
    let tokens = tokens_of(expression)?;
    let found = clock::constants_in(&tree::parse_expression(expression).ok()?, moment)?;
    let mut clocks = Vec::with_capacity(found.len());
    for (location, constant) in found {
        // The parser has read it behind `SELECT `.
        let start = location.checked_sub("SELECT ".len())?;
        let first = tokens.iter().position(|token| token.start == start)?;
        let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| &expression[token.clone()] == text);
        let mut end = first + 1;
        while is(end, ".") {
            end += 2;
        }
        if is(end, "(") {
            end += (end..tokens.len()).position(|at| is(at, ")"))? + 1;
        }
        clocks.push((first..end, constant));
    }
    clocks.sort_by_key(|(tokens, _)| tokens.start);
    Some(clocks)
}
