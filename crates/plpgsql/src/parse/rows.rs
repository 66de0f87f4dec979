//! FOR, FOREACH, EXECUTE, cursors.

use pgerror::{PgError, Result};

use crate::ast::{Fetch, Kind, Opened, Rows, Sql, Target};
use crate::parse::Parser;

impl Parser<'_> {
    pub(super) fn for_loop(&mut self, label: Option<String>) -> Result<Kind> {
        let target = self.target()?;
        self.cursor.expect("in")?;
        if self.cursor.accept("execute") {
            let (query, using) = self.dynamic(&["using", "loop"])?;
            let rows = Rows::Dynamic { query, using };
            return Ok(Kind::ForRows { label, target, rows, body: self.loop_body()? });
        }
        let reverse = self.cursor.accept("reverse");
        let from = self.cursor.at;
        // Two dots make it a range; a query has none outside of brackets.
        if let Ok(lower) = self.cursor.until(&["..", "loop"])
            && self.cursor.accept_mark("..")
        {
            let lower = self.sql(lower, true);
            let upper = self.expression(&["by", "loop"])?;
            let step = if self.cursor.accept("by") { Some(self.expression(&["loop"])?) } else { None };
            let Target::One(names) = &target else { return Err(self.cursor.error()) };
            let [variable] = names.as_slice() else { return Err(self.cursor.error()) };
            let (variable, body) = (variable.clone(), self.loop_body()?);
            return Ok(Kind::ForInteger { label, variable, lower, upper, step, reverse, body });
        }
        if reverse {
            return Err(self.cursor.error());
        }
        self.cursor.at = from;
        let rows = match self.bound_cursor()? {
            Some(rows) => rows,
            None => {
                let text = self.cursor.until(&["loop"])?;
                Rows::Query(self.sql(text, false))
            }
        };
        Ok(Kind::ForRows { label, target, rows, body: self.loop_body()? })
    }

    /// `cursor [(arguments)] LOOP`.
    fn bound_cursor(&mut self) -> Result<Option<Rows>> {
        const QUERIES: [&str; 10] =
            ["select", "with", "values", "table", "insert", "update", "delete", "merge", "explain", "show"];
        let from = self.cursor.at;
        if QUERIES.iter().any(|word| self.cursor.is(word)) || self.cursor.is_mark("(") {
            return Ok(None);
        }
        let name = self.cursor.names()?;
        let arguments = self.cursor_values()?;
        if !self.cursor.is("loop") {
            self.cursor.at = from;
            return Ok(None);
        }
        Ok(Some(Rows::Cursor { name, arguments }))
    }

    /// `(value, name := value, …)`.
    fn cursor_values(&mut self) -> Result<Vec<(Option<String>, Sql)>> {
        let mut values = Vec::new();
        if !self.cursor.accept_mark("(") {
            return Ok(values);
        }
        loop {
            let is_named = self.cursor.peek_at(1).is_some_and(|token| token.is_mark(":=") || token.is_mark("=>"));
            let name = if is_named { Some(self.cursor.name()?) } else { None };
            self.cursor.at += usize::from(is_named);
            values.push((name, self.expression(&[",", ")"])?));
            if self.cursor.accept_mark(")") {
                return Ok(values);
            }
            self.cursor.expect_mark(",")?;
        }
    }

    pub(super) fn foreach(&mut self, label: Option<String>) -> Result<Kind> {
        let target = self.target()?;
        let slice = match self.cursor.accept("slice") {
            true => self.cursor.next()?.text.parse().map_err(|_| self.cursor.error())?,
            false => 0,
        };
        self.cursor.expect("in array")?;
        let array = self.expression(&["loop"])?;
        Ok(Kind::ForEach { label, target, slice, array, body: self.loop_body()? })
    }

    /// `query [USING …]`.
    pub(super) fn dynamic(&mut self, ends: &[&str]) -> Result<(Sql, Vec<Sql>)> {
        let query = self.expression(ends)?;
        let using = if self.cursor.accept("using") { self.using(&[",", "into", ";", "loop"])? } else { Vec::new() };
        Ok((query, using))
    }

    fn using(&mut self, ends: &[&str]) -> Result<Vec<Sql>> {
        let mut values = vec![self.expression(ends)?];
        while self.cursor.accept_mark(",") {
            values.push(self.expression(ends)?);
        }
        Ok(values)
    }

    /// USING and INTO in any order.
    pub(super) fn execute(&mut self) -> Result<Kind> {
        let query = self.expression(&["into", "using", ";"])?;
        let (mut into, mut using) = (None, Vec::new());
        loop {
            if into.is_none() && self.cursor.accept("into") {
                into = Some(self.into()?);
            } else if using.is_empty() && self.cursor.accept("using") {
                using = self.using(&[",", "into", ";"])?;
            } else {
                return Ok(Kind::Execute { query, using, into });
            }
        }
    }

    fn scroll(&mut self) -> Option<bool> {
        match (self.cursor.accept("no scroll"), self.cursor.accept("scroll")) {
            (true, _) => Some(false),
            (_, true) => Some(true),
            _ => None,
        }
    }

    pub(super) fn open(&mut self) -> Result<Kind> {
        let cursor = self.cursor.names()?;
        let scroll = self.scroll();
        let opened = match self.cursor.accept("for") {
            false if scroll.is_none() => Opened::Bound(self.cursor_values()?),
            false => return Err(self.cursor.error()),
            true if self.cursor.accept("execute") => {
                let (query, using) = self.dynamic(&["using", ";"])?;
                Opened::Dynamic { scroll, query, using }
            }
            true => {
                let text = self.cursor.until(&[";"])?;
                Opened::Query { scroll, query: self.sql(text, false) }
            }
        };
        Ok(Kind::Open { cursor, opened })
    }

    pub(super) fn fetch(&mut self, is_move: bool) -> Result<Kind> {
        let (mut direction, mut count) = ("NEXT".to_owned(), None);
        let is_over = |parser: &Self| parser.cursor.is("from") || parser.cursor.is("in");
        let words = ["next", "prior", "first", "last", "all"];
        if let Some(word) = words.iter().find(|word| self.cursor.is(word)) {
            self.cursor.at += 1;
            direction = word.to_uppercase();
        } else if let Some(word) = ["absolute", "relative"].iter().find(|word| self.cursor.is(word)) {
            self.cursor.at += 1;
            direction = word.to_uppercase();
            count = Some(self.expression(&["from", "in"])?);
        } else if let Some(word) = ["forward", "backward"].iter().find(|word| self.cursor.is(word)) {
            self.cursor.at += 1;
            direction = word.to_uppercase();
            if self.cursor.accept("all") {
                direction.push_str(" ALL");
            } else if !is_over(self) {
                count = Some(self.expression(&["from", "in"])?);
            }
        }
        if !self.cursor.accept("from") {
            self.cursor.accept("in");
        }
        let cursor = self.cursor.names()?;
        let into = match is_move {
            true => None,
            false => {
                self.cursor.expect("into")?;
                Some(self.target()?)
            }
        };
        let several = direction.contains("ALL") || (count.is_some() && direction.ends_with("WARD"));
        if several && !is_move {
            return Err(PgError::new(
                pgerror::SqlState::FEATURE_NOT_SUPPORTED,
                "FETCH statement cannot return multiple rows",
            ));
        }
        Ok(Kind::Fetch(Box::new(Fetch { cursor, direction, count, into })))
    }
}
