//! Tokens of PostgreSQL's own scanner, without comments, with a cursor over them that reads SQL.

use pg_query::NodeEnum;
use pg_query::protobuf::{KeywordKind, Token as Kind, a_const};
use pgerror::{PgError, Result, SqlState};

/// A token and its byte range.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    pub start: usize,
    pub end: usize,
    pub text: &'a str,
    kind: i32,
    keyword: i32,
}

#[allow(missing_docs)]
impl Token<'_> {
    /// Is it this bare word (any case), keyword or not?
    pub fn is(&self, word: &str) -> bool {
        (self.keyword != KeywordKind::NoKeyword as i32 || self.kind == Kind::Ident as i32)
            && self.text.eq_ignore_ascii_case(word)
    }

    /// Is it this punctuation character?
    pub fn is_char(&self, c: char) -> bool {
        self.text.len() == c.len_utf8() && self.text.starts_with(c) && self.kind == c as i32
    }

    /// Is it this punctuation?
    pub(crate) fn is_mark(&self, mark: &str) -> bool {
        self.text == mark
    }

    pub fn is_constant(&self) -> bool {
        use Kind::{Bconst, Fconst, Iconst, Sconst, Usconst, Xconst};
        [Bconst, Fconst, Iconst, Sconst, Usconst, Xconst].iter().any(|kind| self.kind == *kind as i32)
    }

    /// `$n`.
    pub fn parameter(&self) -> Option<usize> {
        (self.kind == Kind::Param as i32).then(|| self.text[1..].parse().ok()).flatten()
    }

    pub fn identifier(&self) -> Option<String> {
        if self.kind == Kind::Ident as i32 && self.text.starts_with('"') {
            return Some(self.text[1..self.text.len() - 1].replace("\"\"", "\""));
        }
        let word = self.kind == Kind::Ident as i32
            || self.keyword == KeywordKind::UnreservedKeyword as i32
            || self.keyword == KeywordKind::ColNameKeyword as i32;
        word.then(|| self.text.to_lowercase())
    }

    /// A name, folded as PostgreSQL does; PL/pgSQL takes any word for one.
    pub(crate) fn name(&self) -> Option<String> {
        self.identifier().or_else(|| self.is(self.text).then(|| self.text.to_lowercase()))
    }

    /// The value of a string constant.
    pub fn string(&self) -> Option<String> {
        if self.kind != Kind::Sconst as i32 {
            return None;
        }
        // PostgreSQL's parser knows every quoting style: let it read the constant.
        let parsed = pg_query::parse(&format!("SELECT {}", self.text), 0).ok()?;
        let NodeEnum::SelectStmt(select) = parsed.protobuf.stmts.into_iter().next()?.stmt?.node? else { return None };
        let NodeEnum::ResTarget(target) = select.target_list.into_iter().next()?.node? else { return None };
        let NodeEnum::AConst(constant) = target.val?.node? else { return None };
        match constant.val? {
            a_const::Val::Sval(value) => Some(value.sval),
            _ => None,
        }
    }
}

/// All tokens of a text but comments. `None` if the text cannot be scanned: the parser has the better error.
pub fn tokens(sql: &str) -> Option<Vec<Token<'_>>> {
    scanned(sql).ok()
}

pub(crate) fn scanned(sql: &str) -> Result<Vec<Token<'_>>> {
    let scanned = pg_query::scan(sql).map_err(|error| PgError::new(SqlState::SYNTAX_ERROR, error.to_string()))?;
    let wanted =
        scanned.tokens.into_iter().filter(|t| t.token != Kind::SqlComment as i32 && t.token != Kind::CComment as i32);
    wanted
        .map(|t| {
            let range = usize::try_from(t.start).ok().zip(usize::try_from(t.end).ok());
            let (start, end) = range.ok_or_else(|| PgError::internal("a token without a place"))?;
            let text = sql.get(start..end).ok_or_else(|| PgError::internal("a token outside of its text"))?;
            Ok(Token { start, end, text, kind: t.token, keyword: t.keyword_kind })
        })
        .collect()
}

/// A position in a token list: a small recursive descent reads from it.
#[allow(missing_docs)]
pub struct Cursor<'t, 'a> {
    pub tokens: &'t [Token<'a>],
    pub at: usize,
    /// Where errors point: the whole query string.
    pub sql: &'a str,
}

#[allow(missing_docs)]
impl<'t, 'a> Cursor<'t, 'a> {
    pub fn new(sql: &'a str, tokens: &'t [Token<'a>]) -> Self {
        Self { tokens, at: 0, sql }
    }

    pub fn peek(&self) -> Option<&'t Token<'a>> {
        self.tokens.get(self.at)
    }

    pub fn at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Takes these words if all of them come next.
    pub fn accept(&mut self, words: &str) -> bool {
        let mut next = self.at;
        for word in words.split(' ') {
            if !self.tokens.get(next).is_some_and(|t| t.is(word)) {
                return false;
            }
            next += 1;
        }
        self.at = next;
        true
    }

    pub fn at_char(&self, c: char) -> bool {
        self.peek().is_some_and(|t| t.is_char(c))
    }

    pub fn accept_char(&mut self, c: char) -> bool {
        let found = self.peek().is_some_and(|t| t.is_char(c));
        self.at += usize::from(found);
        found
    }

    pub fn expect(&mut self, words: &str) -> Result<()> {
        if self.accept(words) { Ok(()) } else { Err(self.error()) }
    }

    pub fn expect_char(&mut self, c: char) -> Result<()> {
        if self.accept_char(c) { Ok(()) } else { Err(self.error()) }
    }

    pub fn identifier(&mut self) -> Result<String> {
        let name = self.peek().and_then(Token::identifier).ok_or_else(|| self.error())?;
        self.at += 1;
        Ok(name)
    }

    pub fn string(&mut self) -> Result<String> {
        let text = self.peek().and_then(Token::string).ok_or_else(|| self.error())?;
        self.at += 1;
        Ok(text)
    }

    /// A string or a word or a number.
    pub fn value(&mut self) -> Result<String> {
        let token = self.peek().ok_or_else(|| self.error())?;
        let value = token.string().or_else(|| token.identifier()).unwrap_or_else(|| token.text.to_owned());
        self.at += 1;
        Ok(value)
    }

    /// `(a, b, …)`, at least one name.
    pub fn name_list(&mut self) -> Result<Vec<String>> {
        self.expect_char('(')?;
        let mut names = vec![self.identifier()?];
        while self.accept_char(',') {
            names.push(self.identifier()?);
        }
        self.expect_char(')')?;
        Ok(names)
    }

    /// `[schema.]name`.
    pub fn qualified_name(&mut self) -> Result<(Option<String>, String)> {
        let first = self.identifier()?;
        if self.accept_char('.') { Ok((Some(first), self.identifier()?)) } else { Ok((None, first)) }
    }

    pub fn finish(&self) -> Result<()> {
        if self.at_end() { Ok(()) } else { Err(self.error()) }
    }

    /// PostgreSQL's syntax error at the next token.
    pub fn error(&self) -> PgError {
        match self.peek() {
            Some(token) => PgError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{}\"", token.text))
                .position(characters(self.sql, token.start) + 1),
            None => {
                let end = self.tokens.last().map_or(self.sql.len(), |t| t.end);
                PgError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input")
                    .position(characters(self.sql, end) + 1)
            }
        }
    }
}

/// Number of characters before a byte offset.
pub fn characters(sql: &str, byte: usize) -> usize {
    sql.bytes().take(byte).filter(|b| b & 0xC0 != 0x80).count()
}
