//! A cursor over the tokens of a body.

use pgerror::{PgError, Result};

use crate::tokens::{Token, scanned};

/// Reads tokens of a text one by one.
pub(crate) struct Cursor<'a> {
    pub text: &'a str,
    pub tokens: Vec<Token<'a>>,
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Result<Self> {
        Ok(Self { text, tokens: scanned(text)?, at: 0 })
    }

    pub fn peek(&self) -> Option<&Token<'a>> {
        self.tokens.get(self.at)
    }

    pub fn peek_at(&self, by: usize) -> Option<&Token<'a>> {
        self.tokens.get(self.at + by)
    }

    pub fn next(&mut self) -> Result<Token<'a>> {
        let token = self.tokens.get(self.at).copied().ok_or_else(|| self.error())?;
        self.at += 1;
        Ok(token)
    }

    pub fn is(&self, word: &str) -> bool {
        self.peek().is_some_and(|token| token.is(word))
    }

    pub fn is_mark(&self, mark: &str) -> bool {
        self.peek().is_some_and(|token| token.is_mark(mark))
    }

    /// Takes these words if they come next.
    pub fn accept(&mut self, words: &str) -> bool {
        let mut at = self.at;
        for word in words.split(' ') {
            if !self.tokens.get(at).is_some_and(|token| token.is(word)) {
                return false;
            }
            at += 1;
        }
        self.at = at;
        true
    }

    pub fn accept_mark(&mut self, mark: &str) -> bool {
        let found = self.is_mark(mark);
        self.at += usize::from(found);
        found
    }

    pub fn expect(&mut self, words: &str) -> Result<()> {
        if self.accept(words) { Ok(()) } else { Err(self.error()) }
    }

    pub fn expect_mark(&mut self, mark: &str) -> Result<()> {
        if self.accept_mark(mark) { Ok(()) } else { Err(self.error()) }
    }

    pub fn name(&mut self) -> Result<String> {
        let name = self.peek().and_then(Token::name).ok_or_else(|| self.error())?;
        self.at += 1;
        Ok(name)
    }

    /// `a.b.c` or `$1`.
    pub fn names(&mut self) -> Result<Vec<String>> {
        if let Some(parameter) = self.peek().filter(|token| token.parameter().is_some()) {
            let name = parameter.text.to_owned();
            self.at += 1;
            return Ok(vec![name]);
        }
        let mut names = vec![self.name()?];
        while self.is_mark(".") && self.peek_at(1).is_some_and(|token| token.name().is_some()) {
            self.at += 1;
            names.push(self.name()?);
        }
        Ok(names)
    }

    /// The line that a byte is in.
    pub fn line(&self, byte: usize) -> usize {
        1 + self.text.as_bytes()[..byte.min(self.text.len())].iter().filter(|b| **b == b'\n').count()
    }

    /// The line of the next token.
    pub fn line_here(&self) -> usize {
        self.line(self.peek().map_or(self.text.len(), |token| token.start))
    }

    /// Something that this parser does not read.
    pub fn error(&self) -> PgError {
        let near = match self.peek() {
            Some(token) => format!("\"{}\" in line {}", token.text, self.line(token.start)),
            None => "its end".to_owned(),
        };
        PgError::unsupported(format!("this form of a PL/pgSQL statement, near {near},"))
            .hint("Write it in a simpler form, or send the statements one by one.")
    }

    /// The end of the text up to one of these words or marks outside of brackets; stands before it then.
    pub fn until(&mut self, ends: &[&str]) -> Result<&'a str> {
        let from = self.peek().ok_or_else(|| self.error())?.start;
        let (mut depth, mut to) = (0_usize, from);
        loop {
            let token = self.peek().copied().ok_or_else(|| self.error())?;
            if depth == 0 && ends.iter().any(|end| token.is(end) || token.is_mark(end)) {
                return Ok(self.text[from..to].trim_end());
            }
            match token.text {
                "(" | "[" => depth += 1,
                ")" | "]" if depth == 0 => return Err(self.error()),
                ")" | "]" => depth -= 1,
                ";" => return Err(self.error()),
                _ => {}
            }
            to = token.end;
            self.at += 1;
        }
    }
}
