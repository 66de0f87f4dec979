//! The text of a PL/pgSQL body → [`Body`]. The datanodes have accepted it already; what is not read here is refused.

use std::sync::Arc;

use pgerror::{PgError, Result};

use crate::ast::{
    Block, Body, Conflict, Cursor as BoundCursor, Declaration, Declared, Handler, Kind, Sql, Statement, TypeText,
};
use crate::conditions;
use crate::scan::Cursor;

mod raise;
mod rows;
mod statement;

/// The variable that holds what CASE compares.
pub const CASE_SUBJECT: &str = "loxo_case";

/// Blocks and loops inside each other.
const DEPTH_MAX: usize = 100;

/// Reads a body.
pub fn body(text: &str) -> Result<Body> {
    let mut parser = Parser { cursor: Cursor::new(text)?, sqls: 0, depth: 0 };
    let (conflict, prints_parameters) = parser.options()?;
    let label = parser.label()?;
    let block = parser.block(label)?;
    parser.cursor.accept_mark(";");
    match parser.cursor.peek() {
        None => Ok(Body { block, conflict, prints_parameters }),
        Some(_) => Err(parser.cursor.error()),
    }
}

/// The body of a SQL function.
pub fn sql_body(statements: Vec<String>) -> Body {
    let count = statements.len();
    let step = |(at, text): (usize, String)| {
        let sql = Sql { text: text.into(), id: at, is_expression: false };
        Statement { line: at + 1, kind: Kind::Step { sql, is_last: at + 1 == count } }
    };
    let body = statements.into_iter().enumerate().map(step).collect();
    let block = Block { label: None, declarations: Vec::new(), body, handlers: None };
    Body { block, conflict: Conflict::Column, prints_parameters: None }
}

/// What [`compile_only`] puts before the body.
pub const BEFORE_COMPILED: &str = "BEGIN RETURN; ";

/// A body that does nothing but to have PostgreSQL compile this one. `None`: it begins with options.
pub fn compile_only(text: &str) -> Result<Option<String>> {
    let cursor = Cursor::new(text)?;
    if cursor.is_mark("#") {
        return Ok(None);
    }
    let end = match cursor.tokens.last() {
        Some(last) if last.is_mark(";") => last.start,
        Some(last) => last.end,
        None => return Ok(None),
    };
    Ok(Some(format!("{BEFORE_COMPILED}{}; END", &text[..end])))
}

/// Where a character of the body, counted from 0, stands in the statement that has the body as a string constant, as PostgreSQL's
/// `match_prosrc_to_query` finds it. `None`: not in one place.
pub fn place_in(statement: &str, body: &str, at: usize) -> Option<usize> {
    let cursor = Cursor::new(statement).ok()?;
    let mut constants = cursor.tokens.iter().filter(|token| token.string().as_deref() == Some(body));
    let (token, None) = (constants.next()?, constants.next()) else { return None };
    let before = statement[..token.start].chars().count();
    let (opening, written) = match token.text.split_inclusive(['$', '\'']).collect::<Vec<_>>().as_slice() {
        ["$", tag, ..] => (1 + tag.chars().count(), None),
        [opening, ..] => (opening.chars().count(), token.text.get(opening.len()..)),
        [] => return None,
    };
    let Some(written) = written else { return Some(before + opening + at) };
    // A doubled quote, or what a backslash stands before, is one character of the body.
    let has_escapes = token.text.starts_with(['e', 'E']);
    let (mut place, mut written) = (before + opening, written.chars());
    for _ in 0..at {
        let next = written.next()?;
        place += 1;
        if next == '\'' || has_escapes && next == '\\' {
            written.next()?;
            place += 1;
        }
    }
    Some(place)
}

/// Is the text a string constant and nothing else?
pub fn is_string(text: &str) -> bool {
    Cursor::new(text).is_ok_and(|cursor| matches!(cursor.tokens.as_slice(), [token] if token.string().is_some()))
}

pub(crate) struct Parser<'a> {
    cursor: Cursor<'a>,
    /// Texts of SQL so far.
    sqls: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// `#variable_conflict …` and its kin.
    fn options(&mut self) -> Result<(Conflict, Option<bool>)> {
        let (mut conflict, mut prints_parameters) = (Conflict::Error, None);
        while self.cursor.accept_mark("#") {
            match self.cursor.name()?.as_str() {
                "variable_conflict" => {
                    conflict = match self.cursor.name()?.as_str() {
                        "use_variable" => Conflict::Variable,
                        "use_column" => Conflict::Column,
                        _ => Conflict::Error,
                    }
                }
                "print_strict_params" => prints_parameters = Some(self.cursor.name()? == "on"),
                _ => return Err(self.cursor.error()),
            }
        }
        Ok((conflict, prints_parameters))
    }

    /// `<<label>>`.
    fn label(&mut self) -> Result<Option<String>> {
        if !self.cursor.accept_mark("<<") {
            return Ok(None);
        }
        let name = self.cursor.name()?;
        self.cursor.expect_mark(">>")?;
        Ok(Some(name))
    }

    /// From DECLARE or BEGIN to END and the label after it.
    fn block(&mut self, label: Option<String>) -> Result<Block> {
        let mut declarations = Vec::new();
        if self.cursor.accept("declare") {
            while !self.cursor.is("begin") {
                // A DECLARE may be said again.
                if !self.cursor.accept("declare") {
                    declarations.push(self.declaration()?);
                }
            }
        }
        self.cursor.expect("begin")?;
        let body = self.statements(&["exception", "end"])?;
        let handlers = if self.cursor.accept("exception") { Some(self.handlers()?) } else { None };
        self.cursor.expect("end")?;
        self.end_label()?;
        Ok(Block { label, declarations, body, handlers })
    }

    fn end_label(&mut self) -> Result<()> {
        if self.cursor.peek().is_some_and(|token| token.name().is_some()) {
            self.cursor.name()?;
        }
        Ok(())
    }

    fn handlers(&mut self) -> Result<Vec<Handler>> {
        let mut handlers = Vec::new();
        while self.cursor.accept("when") {
            let mut conditions = Vec::new();
            loop {
                let name = self.cursor.name()?;
                match name.as_str() {
                    "others" => conditions.push(None),
                    "sqlstate" => {
                        let state = self.cursor.next()?.string().ok_or_else(|| self.cursor.error())?;
                        conditions.push(Some(conditions::state(&state)?));
                    }
                    _ => conditions.extend(conditions::named(&name)?.into_iter().map(Some)),
                }
                if !self.cursor.accept("or") {
                    break;
                }
            }
            self.cursor.expect("then")?;
            handlers.push(Handler { conditions, body: self.statements(&["when", "end"])? });
        }
        Ok(handlers)
    }

    fn declaration(&mut self) -> Result<Declaration> {
        let line = self.cursor.line_here();
        let name = self.cursor.name()?;
        let what = self.declared()?;
        self.cursor.expect_mark(";")?;
        Ok(Declaration { name, line, what })
    }

    fn declared(&mut self) -> Result<Declared> {
        if self.cursor.accept("alias for") {
            return Ok(Declared::Alias(self.cursor.names()?));
        }
        let scroll = match (self.cursor.accept("no scroll"), self.cursor.accept("scroll")) {
            (true, _) => Some(false),
            (_, true) => Some(true),
            _ => None,
        };
        if self.cursor.accept("cursor") {
            let arguments = if self.cursor.accept_mark("(") { self.cursor_arguments()? } else { Vec::new() };
            if !self.cursor.accept("for") {
                self.cursor.expect("is")?;
            }
            let text = self.cursor.until(&[";"])?;
            return Ok(Declared::Cursor(BoundCursor { scroll, arguments, query: self.sql(text, false) }));
        }
        let constant = self.cursor.accept("constant");
        let of = self.type_text(&["collate", "not", "default", ":=", "=", ";"])?;
        let collated = self.cursor.accept("collate");
        if collated {
            self.cursor.names()?;
        }
        let not_null = self.cursor.accept("not null");
        let has_default =
            self.cursor.accept("default") || self.cursor.accept_mark(":=") || self.cursor.accept_mark("=");
        let default = if has_default { Some(self.expression(&[";"])?) } else { None };
        Ok(Declared::Variable { of, collated, constant, not_null, default })
    }

    fn cursor_arguments(&mut self) -> Result<Vec<(String, TypeText)>> {
        let mut arguments = Vec::new();
        loop {
            arguments.push((self.cursor.name()?, self.type_text(&[",", ")"])?));
            if self.cursor.accept_mark(")") {
                return Ok(arguments);
            }
            self.cursor.expect_mark(",")?;
        }
    }

    fn type_text(&mut self, ends: &[&str]) -> Result<TypeText> {
        let from = self.cursor.at;
        if self.cursor.peek().is_some_and(|token| token.name().is_some()) {
            let name = self.cursor.names()?;
            if self.cursor.accept_mark("%") {
                if self.cursor.accept("rowtype") {
                    return Ok(TypeText::RowOf(name));
                }
                self.cursor.expect("type")?;
                let mut array = false;
                while self.cursor.accept_mark("[") {
                    self.cursor.expect_mark("]")?;
                    array = true;
                }
                return Ok(TypeText::Like { name, array });
            }
        }
        self.cursor.at = from;
        let text = self.cursor.until(ends)?;
        match text.eq_ignore_ascii_case("record") {
            true => Ok(TypeText::Record),
            false if text.is_empty() => Err(self.cursor.error()),
            false => Ok(TypeText::Named(text.to_owned())),
        }
    }

    fn statements(&mut self, ends: &[&str]) -> Result<Vec<Statement>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(PgError::unsupported("blocks inside each other more than 100 times").hint("Use functions."));
        }
        let mut statements = Vec::new();
        while !ends.iter().any(|end| self.cursor.is(end)) {
            statements.push(self.statement()?);
        }
        self.depth -= 1;
        Ok(statements)
    }

    fn sql(&mut self, text: impl Into<Arc<str>>, is_expression: bool) -> Sql {
        self.sqls += 1;
        Sql { text: text.into(), id: self.sqls, is_expression }
    }

    fn expression(&mut self, ends: &[&str]) -> Result<Sql> {
        let text = self.cursor.until(ends)?;
        if text.is_empty() {
            return Err(self.cursor.error());
        }
        Ok(self.sql(text, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(usize, &'static str)> {
        body(text).unwrap().block.body.iter().map(|statement| (statement.line, statement.kind.name())).collect()
    }

    #[test]
    fn statements_are_told_apart() {
        let text = "DECLARE a int := 1; c CURSOR FOR SELECT 1;\nBEGIN\n a := 2;\n a[1] = 3; FOR i IN 1..a LOOP NULL; END LOOP;\n\
                    FOR r IN SELECT 1 LOOP EXIT; END LOOP; FOR r IN c LOOP CONTINUE; END LOOP;\n\
                    SELECT 1 INTO a; EXECUTE 'x' INTO a USING 1; IF a = 1 THEN NULL; END IF; END;";
        let expected = [
            (3, "assignment"),
            (4, "assignment"),
            (4, "FOR with integer loop variable"),
            (5, "FOR over SELECT rows"),
            (5, "FOR over cursor"),
            (6, "SQL statement"),
            (6, "EXECUTE"),
            (6, "IF"),
        ];
        assert_eq!(names(text), expected);
    }

    #[test]
    fn into_is_cut_out_of_a_statement() {
        let body = body("BEGIN INSERT INTO t VALUES (1) RETURNING a INTO STRICT b; END").unwrap();
        let crate::ast::Kind::Sql { sql, into: Some((_, true)) } = &body.block.body[0].kind else { panic!("{body:?}") };
        assert_eq!(&*sql.text, "INSERT INTO t VALUES (1) RETURNING a");
    }

    #[test]
    fn what_is_not_read_is_refused() {
        for text in ["BEGIN IF; END", "BEGIN RETURN", "SELECT 1", "BEGIN NULL; END extra more"] {
            assert!(body(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_body_is_compiled_without_effect() {
        assert_eq!(
            compile_only("BEGIN DELETE FROM t; END; -- x").unwrap().unwrap(),
            "BEGIN RETURN; BEGIN DELETE FROM t; END; END"
        );
    }

    #[test]
    fn places_of_a_body_are_found_in_its_statement() {
        let found = |statement: &str, body: &str, word: &str| {
            let at = body[..body.find(word).unwrap()].chars().count();
            let place = place_in(statement, body, at).unwrap();
            statement.chars().skip(place).take(word.chars().count()).collect::<String>()
        };
        assert_eq!(found("DO $$ BEGIN x y; END $$", " BEGIN x y; END ", "x"), "x");
        assert_eq!(found("do /* ä */ $ä$BEGIN 'ö' x$ä$;", "BEGIN 'ö' x", "x"), "x");
        assert_eq!(found("DO LANGUAGE plpgsql 'BEGIN ''a'' x'", "BEGIN 'a' x", "x"), "x");
        assert_eq!(found(r"DO E'\\ ''a\' x'", r"\ 'a' x", "x"), "x");
        assert_eq!(place_in("DO $$ x $$; DO $$ x $$", " x ", 1), None);
        assert_eq!(place_in("DO $$ x $$", "another", 1), None);
    }
}
