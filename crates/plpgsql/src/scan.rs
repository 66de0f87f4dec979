//! Tokens of a body, and a cursor over them.

use pg_query::protobuf::{KeywordKind, Token as Code};
use pgerror::{PgError, Result, SqlState};

/// A token and its byte range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub start: usize,
    pub end: usize,
    pub text: &'a str,
    code: i32,
    is_word: bool,
}

impl Token<'_> {
    /// This word in any case, not quoted?
    pub fn is(&self, word: &str) -> bool {
        self.is_word && self.text.eq_ignore_ascii_case(word)
    }

    /// This punctuation?
    pub fn is_mark(&self, mark: &str) -> bool {
        !self.is_word && self.text == mark
    }

    /// A name, folded as PostgreSQL does.
    pub fn name(&self) -> Option<String> {
        match self.text.strip_prefix('"') {
            Some(quoted) if self.code == Code::Ident as i32 => {
                Some(quoted.strip_suffix('"').unwrap_or(quoted).replace("\"\"", "\""))
            }
            _ => self.is_word.then(|| self.text.to_lowercase()),
        }
    }

    /// `$n` as a name.
    pub fn parameter(&self) -> Option<String> {
        (self.code == Code::Param as i32).then(|| self.text.to_owned())
    }

    /// The value of a string constant.
    pub fn string(&self) -> Option<String> {
        if self.code != Code::Sconst as i32 {
            return None;
        }
        // PostgreSQL's parser knows every way of quoting.
        let parsed = pg_query::parse(&format!("SELECT {}", self.text), 0).ok()?;
        let statement = parsed.protobuf.stmts.into_iter().next()?.stmt?.node?;
        let pg_query::NodeEnum::SelectStmt(select) = statement else { return None };
        let pg_query::NodeEnum::ResTarget(target) = select.target_list.into_iter().next()?.node? else { return None };
        let pg_query::NodeEnum::AConst(constant) = target.val?.node? else { return None };
        match constant.val? {
            pg_query::protobuf::a_const::Val::Sval(value) => Some(value.sval),
            _ => None,
        }
    }
}

/// Reads tokens of a text one by one.
pub(crate) struct Cursor<'a> {
    pub text: &'a str,
    pub tokens: Vec<Token<'a>>,
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Result<Self> {
        let scanned = pg_query::scan(text).map_err(|error| PgError::new(SqlState::SYNTAX_ERROR, error.to_string()))?;
        let mut tokens = Vec::with_capacity(scanned.tokens.len());
        for token in scanned.tokens {
            if [Code::SqlComment as i32, Code::CComment as i32].contains(&token.token) {
                continue;
            }
            let (start, end) =
                (usize::try_from(token.start).unwrap_or(0), usize::try_from(token.end).unwrap_or(text.len()));
            let piece = text.get(start..end).ok_or_else(|| PgError::internal("a token outside of its text"))?;
            let is_word = token.keyword_kind != KeywordKind::NoKeyword as i32
                || (token.token == Code::Ident as i32 && !piece.starts_with('"'));
            tokens.push(Token { start, end, text: piece, code: token.token, is_word });
        }
        Ok(Self { text, tokens, at: 0 })
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
        if let Some(parameter) = self.peek().and_then(Token::parameter) {
            self.at += 1;
            return Ok(vec![parameter]);
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
