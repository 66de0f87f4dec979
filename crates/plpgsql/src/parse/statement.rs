//! Statements but those that take rows from somewhere, and RAISE.

use std::sync::Arc;

use pgerror::Result;

use crate::ast::{Kind, Sql, Statement, Step, Target};
use crate::parse::{CASE_SUBJECT, Parser};

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Result<Statement> {
        let label = self.label()?;
        let line = self.cursor.line_here();
        if label.is_none()
            && let Some(kind) = self.assignment()?
        {
            return Ok(Statement { line, kind });
        }
        // The line of a block is that of its BEGIN.
        let kind = match () {
            () if self.cursor.is("declare") || self.cursor.is("begin") => {
                let block = Kind::Block(self.block(label)?);
                self.cursor.expect_mark(";")?;
                block
            }
            () if self.cursor.is("loop") => Kind::Loop { label, body: self.loop_body()? },
            () if self.cursor.accept("while") => {
                let condition = self.expression(&["loop"])?;
                Kind::While { label, condition, body: self.loop_body()? }
            }
            () if self.cursor.accept("for") => self.for_loop(label)?,
            () if self.cursor.accept("foreach") => self.foreach(label)?,
            () if label.is_some() => return Err(self.cursor.error()),
            () => self.simple()?,
        };
        Ok(Statement { line, kind })
    }

    pub(super) fn loop_body(&mut self) -> Result<Vec<Statement>> {
        self.cursor.expect("loop")?;
        let body = self.statements(&["end"])?;
        self.cursor.expect("end loop")?;
        self.end_label()?;
        self.cursor.expect_mark(";")?;
        Ok(body)
    }

    /// `target := value`, if that is what comes.
    fn assignment(&mut self) -> Result<Option<Kind>> {
        let from = self.cursor.at;
        let start = self.cursor.peek().map_or(0, |token| token.start);
        let Ok(target) = self.cursor.names() else {
            self.cursor.at = from;
            return Ok(None);
        };
        let path = self.path()?;
        if !self.cursor.accept_mark(":=") && !self.cursor.accept_mark("=") {
            self.cursor.at = from;
            return Ok(None);
        }
        let value = self.expression(&[";"])?;
        let end = self.cursor.peek().map_or(self.cursor.text.len(), |token| token.start);
        let whole: Arc<str> = self.cursor.text[start..end].trim_end().into();
        self.cursor.expect_mark(";")?;
        Ok(Some(match path.is_empty() {
            true => Kind::Assign { target, value, whole },
            false => Kind::AssignElement { target, path, value, whole },
        }))
    }

    /// `[1].a[2:3]`: the steps from a variable to the place in it.
    fn path(&mut self) -> Result<Vec<Step>> {
        let mut path = Vec::new();
        loop {
            if self.cursor.accept_mark("[") {
                path.push(self.subscript()?);
                self.cursor.expect_mark("]")?;
            } else if !path.is_empty() && self.cursor.accept_mark(".") {
                path.push(Step::Field(self.cursor.name()?));
            } else {
                return Ok(path);
            }
        }
    }

    fn subscript(&mut self) -> Result<Step> {
        let lower = if self.cursor.is_mark(":") { None } else { Some(self.expression(&[":", "]"])?) };
        if self.cursor.accept_mark(":") {
            let upper = if self.cursor.is_mark("]") { None } else { Some(self.expression(&["]"])?) };
            return Ok(Step::Slice(lower, upper));
        }
        lower.map(Step::Subscript).ok_or_else(|| self.cursor.error())
    }

    fn simple(&mut self) -> Result<Kind> {
        let kind = match () {
            () if self.cursor.accept("if") => return self.if_then(),
            () if self.cursor.accept("case") => return self.case(),
            () if self.cursor.accept("null") => Kind::Null,
            () if self.cursor.accept("exit") => self.exit(true)?,
            () if self.cursor.accept("continue") => self.exit(false)?,
            () if self.cursor.accept("return next") => Kind::ReturnNext(self.optional()?),
            () if self.cursor.accept("return query execute") => {
                let (query, using) = self.dynamic(&["using", ";"])?;
                Kind::ReturnExecute { query, using }
            }
            () if self.cursor.accept("return query") => {
                let text = self.cursor.until(&[";"])?;
                Kind::ReturnQuery(self.sql(text, false))
            }
            () if self.cursor.accept("return") => Kind::Return(self.optional()?),
            () if self.cursor.accept("raise") => Kind::Raise(Box::new(self.raise()?)),
            () if self.cursor.accept("assert") => {
                let condition = self.expression(&[",", ";"])?;
                let message = if self.cursor.accept_mark(",") { Some(self.expression(&[";"])?) } else { None };
                Kind::Assert { condition, message }
            }
            () if self.cursor.accept("perform") => {
                let text = format!("SELECT {}", self.cursor.until(&[";"])?);
                Kind::Perform(self.sql(text, false))
            }
            () if self.cursor.is("call") => {
                let text = self.cursor.until(&[";"])?;
                Kind::Call(self.sql(text, false))
            }
            () if self.cursor.accept("execute") => self.execute()?,
            () if self.cursor.accept("get stacked diagnostics") => self.diagnostics(true)?,
            () if self.cursor.accept("get current diagnostics") => self.diagnostics(false)?,
            () if self.cursor.accept("get diagnostics") => self.diagnostics(false)?,
            () if self.cursor.accept("open") => self.open()?,
            () if self.cursor.accept("fetch") => self.fetch(false)?,
            () if self.cursor.accept("move") => self.fetch(true)?,
            () if self.cursor.accept("close") => Kind::Close(self.cursor.names()?),
            () if self.cursor.accept("commit") => self.end(true)?,
            () if self.cursor.accept("rollback") => self.end(false)?,
            () => self.plain_sql()?,
        };
        self.cursor.expect_mark(";")?;
        Ok(kind)
    }

    fn end(&mut self, commit: bool) -> Result<Kind> {
        self.cursor.accept("and no chain");
        let chain = self.cursor.accept("and chain");
        Ok(Kind::End { commit, chain })
    }

    fn optional(&mut self) -> Result<Option<Sql>> {
        match self.cursor.is_mark(";") {
            true => Ok(None),
            false => self.expression(&[";"]).map(Some),
        }
    }

    fn if_then(&mut self) -> Result<Kind> {
        let (mut branches, mut line) = (Vec::new(), self.cursor.line_here());
        loop {
            let condition = self.expression(&["then"])?;
            self.cursor.expect("then")?;
            branches.push((line, condition, self.statements(&["elsif", "elseif", "else", "end"])?));
            line = self.cursor.line_here();
            if !self.cursor.accept("elsif") && !self.cursor.accept("elseif") {
                break;
            }
        }
        let otherwise = if self.cursor.accept("else") { self.statements(&["end"])? } else { Vec::new() };
        self.cursor.expect("end if")?;
        self.cursor.expect_mark(";")?;
        Ok(Kind::If { branches, otherwise })
    }

    fn case(&mut self) -> Result<Kind> {
        let subject = if self.cursor.is("when") { None } else { Some(self.expression(&["when"])?) };
        let mut branches = Vec::new();
        loop {
            let line = self.cursor.line_here();
            if !self.cursor.accept("when") {
                break;
            }
            let mut value = self.expression(&["then"])?;
            if subject.is_some() {
                value.text = format!("{CASE_SUBJECT} IN ({})", value.text).into();
            }
            self.cursor.expect("then")?;
            branches.push((line, value, self.statements(&["when", "else", "end"])?));
        }
        let otherwise = if self.cursor.accept("else") { Some(self.statements(&["end"])?) } else { None };
        self.cursor.expect("end case")?;
        self.cursor.expect_mark(";")?;
        Ok(Kind::Case { subject, branches, otherwise })
    }

    fn exit(&mut self, is_exit: bool) -> Result<Kind> {
        let is_label = !self.cursor.is("when") && !self.cursor.is_mark(";");
        let label = if is_label { Some(self.cursor.name()?) } else { None };
        let when = if self.cursor.accept("when") { Some(self.expression(&[";"])?) } else { None };
        Ok(Kind::Exit { is_exit, label, when })
    }

    fn diagnostics(&mut self, stacked: bool) -> Result<Kind> {
        let mut items = Vec::new();
        loop {
            let target = self.cursor.names()?;
            if !self.cursor.accept_mark("=") {
                self.cursor.expect_mark(":=")?;
            }
            items.push((target, self.cursor.name()?));
            if !self.cursor.accept_mark(",") {
                return Ok(Kind::Diagnostics { stacked, items });
            }
        }
    }

    /// Any other statement, with INTO anywhere in it.
    fn plain_sql(&mut self) -> Result<Kind> {
        let start = self.cursor.peek().ok_or_else(|| self.cursor.error())?.start;
        let (mut into, mut cut) = (None, None);
        let mut before = String::new();
        loop {
            let token = *self.cursor.peek().ok_or_else(|| self.cursor.error())?;
            if token.is_mark(";") {
                let mut text = self.cursor.text[start..token.start].trim_end().to_owned();
                if let Some((from, to)) = cut {
                    let blank = " ".repeat(to - from);
                    text.replace_range(from - start..to - start, &blank);
                    text.truncate(text.trim_end().len());
                }
                let sql = self.sql(text, false);
                return Ok(Kind::Sql { sql, into });
            }
            if token.is("into") && into.is_none() && !["insert", "merge", "import"].contains(&before.as_str()) {
                self.cursor.at += 1;
                into = Some(self.into()?);
                let last = self.cursor.tokens[self.cursor.at - 1].end;
                let next = self.cursor.peek().map_or(last, |token| token.start);
                cut = Some((token.start, if next > last { next.min(last + 1) } else { last }));
                continue;
            }
            before = token.text.to_lowercase();
            self.cursor.at += 1;
        }
    }

    /// `[STRICT] targets`, after INTO.
    pub(super) fn into(&mut self) -> Result<(Target, bool)> {
        let strict = self.cursor.accept("strict");
        Ok((self.target()?, strict))
    }

    pub(super) fn target(&mut self) -> Result<Target> {
        let mut names = vec![self.cursor.names()?];
        while self.cursor.accept_mark(",") {
            names.push(self.cursor.names()?);
        }
        Ok(match names.len() {
            1 => Target::One(names.remove(0)),
            _ => Target::List(names),
        })
    }
}
