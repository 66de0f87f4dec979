//! A statement's text with its constants taken out: what thousands of statements of one program have in common.
//!
//! This is a scanner of its own, so it accepts only what it is sure to cut as PostgreSQL does: ASCII words, `"quoted"` names,
//! `$n`, plain numbers, plain `'…'` strings, operators. Comments, backslashes, `E'…'` and other prefixed or continued
//! strings, dollar quotes, exponents, several statements: no shape, and the statement takes the long way.

use std::ops::Range;

use plpgsql::tokens as scan;

/// Longer statements are planned anew each time: they are rarely sent twice.
const SHAPE_BYTES_MAX: usize = 4096;
const LITERALS_MAX: usize = 128;

/// What stands in the shape for a constant. None of these bytes is accepted in a statement.
const INTEGER_MARK: u8 = 1;
const DECIMAL_MARK: u8 = 2;
const STRING_MARK: u8 = 3;
/// For a value of a [row](crate::template::ManyRows) that is any constant at all.
pub(crate) const PLAIN_MARK: u8 = 4;

/// See the module's page.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    text: Vec<u8>,
    literals: Vec<Literal>,
}

/// A constant and where it stands in the statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    pub range: Range<usize>,
    pub kind: LiteralKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiteralKind {
    Integer,
    Decimal,
    /// Without a doubled quote in it if false.
    String {
        doubled: bool,
    },
}

/// The words of a text that has no shape, without comments and with marks in place of the constants that PostgreSQL's scanner finds.
pub fn without_constants(sql: &str) -> Option<Vec<u8>> {
    let tokens = scan::tokens(sql)?;
    let words: Vec<&[u8]> =
        tokens.iter().map(|token| if token.is_constant() { &[STRING_MARK] } else { token.text.as_bytes() }).collect();
    Some(words.join(&b' '))
}

impl Shape {
    /// Scans one statement (no semicolon, no blanks around it). False if it has no shape; what is in `self` is then meaningless.
    pub fn scan(&mut self, sql: &str) -> bool {
        self.clear();
        sql.len() <= SHAPE_BYTES_MAX && self.scan_all(sql).is_some()
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.literals.clear();
    }

    /// Puts a mark in place of something.
    pub(crate) fn mark(&mut self, mark: u8) {
        self.text.push(mark);
    }

    /// The text with marks in place of the constants. Two statements with equal texts differ in their constants only.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Are there no constants, so that the text is the statement itself?
    pub fn is_constant_free(&self) -> bool {
        self.literals.is_empty()
    }

    pub(crate) fn literals(&self) -> &[Literal] {
        &self.literals
    }

    fn scan_all(&mut self, sql: &str) -> Option<()> {
        let mut at = 0;
        while at < sql.len() {
            at = self.token(sql, at)?;
        }
        (self.literals.len() <= LITERALS_MAX).then_some(())
    }

    /// Adds what stands here; gives the place behind it.
    pub(crate) fn token(&mut self, sql: &str, at: usize) -> Option<usize> {
        let bytes = sql.as_bytes();
        let next = bytes.get(at + 1).copied();
        Some(match *bytes.get(at)? {
            b'\'' => self.put(string(sql, at)?),
            b'0'..=b'9' => self.put(number(bytes, at)?),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.copy(bytes, at, word_end(bytes, at)),
            b'"' => self.copy(bytes, at, quoted_name_end(bytes, at)?),
            b'$' => self.copy(bytes, at, parameter_end(bytes, at)?),
            b'-' if next == Some(b'-') => return None,
            b'/' if next == Some(b'*') => return None,
            b'.' if next.is_some_and(|b| b.is_ascii_digit() || b == b'.') => return None,
            b' ' | b'\t' | b'\n' | b'\r' => self.copy(bytes, at, at + 1),
            b'(' | b')' | b'[' | b']' | b',' | b'.' | b':' => self.copy(bytes, at, at + 1),
            b'+' | b'-' | b'*' | b'/' | b'<' | b'>' | b'=' | b'~' | b'!' | b'@' | b'#' | b'%' | b'^' | b'&' | b'|'
            | b'?' => self.copy(bytes, at, at + 1),
            _ => return None,
        })
    }

    fn copy(&mut self, bytes: &[u8], start: usize, end: usize) -> usize {
        self.text.extend_from_slice(&bytes[start..end]);
        end
    }

    fn put(&mut self, literal: Literal) -> usize {
        self.text.push(match literal.kind {
            LiteralKind::Integer => INTEGER_MARK,
            LiteralKind::Decimal => DECIMAL_MARK,
            LiteralKind::String { .. } => STRING_MARK,
        });
        let end = literal.range.end;
        self.literals.push(literal);
        end
    }
}

/// `12`, `12.`, `12.5`; not what PostgreSQL might read on into (`12e3`, `0x1f`, `1_000`, `1..2`).
pub(crate) fn number(bytes: &[u8], start: usize) -> Option<Literal> {
    let digits = |at: usize| at + bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = digits(start);
    let mut kind = LiteralKind::Integer;
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
        kind = LiteralKind::Decimal;
    }
    match bytes.get(end) {
        Some(b) if continues_word(*b) || *b == b'.' => None,
        _ => Some(Literal { range: start..end, kind }),
    }
}

/// `'…'` with nothing before the quote that could give it another meaning, and no second piece after it.
pub(crate) fn string(sql: &str, start: usize) -> Option<Literal> {
    let bytes = sql.as_bytes();
    let before = start.checked_sub(1).map(|at| bytes[at]);
    if before.is_some_and(|b| continues_word(b) || matches!(b, b'&' | b'"' | b'\'')) {
        return None;
    }
    let mut doubled = false;
    let mut at = start + 1;
    let end = loop {
        match (*bytes.get(at)?, bytes.get(at + 1)) {
            (b'\'', Some(b'\'')) => (at, doubled) = (at + 2, true),
            (b'\'', _) => break at + 1,
            (b'\\', _) => return None,
            _ => at += 1,
        }
    };
    let next = bytes[end..].iter().find(|b| !b.is_ascii_whitespace() && **b != 0x0b);
    let value = sql[start + 1..end - 1].trim();
    if next == Some(&b'\'') || is_moment(value) {
        return None;
    }
    Some(Literal { range: start..end, kind: LiteralKind::String { doubled } })
}

/// Can the byte go on an identifier? Those beyond ASCII can.
fn continues_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

pub(crate) fn word_end(bytes: &[u8], start: usize) -> usize {
    // A byte beyond ASCII that follows has no place in a shape, so cutting the word there is of no consequence.
    start + bytes[start..].iter().take_while(|b| b.is_ascii() && continues_word(**b)).count()
}

/// `"…"`; not after `U&`.
pub(crate) fn quoted_name_end(bytes: &[u8], start: usize) -> Option<usize> {
    if start.checked_sub(1).is_some_and(|at| bytes[at] == b'&') {
        return None;
    }
    let mut at = start + 1;
    loop {
        match (*bytes.get(at)?, bytes.get(at + 1)) {
            (b'"', Some(b'"')) => at += 2,
            (b'"', _) => return Some(at + 1),
            (b, _) if b.is_ascii_control() => return None,
            _ => at += 1,
        }
    }
}

/// `$1`; dollar quotes have no shape.
pub(crate) fn parameter_end(bytes: &[u8], start: usize) -> Option<usize> {
    let end = start + 1 + bytes[start + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
    let is_parameter = end > start + 1 && !bytes.get(end).is_some_and(|b| continues_word(*b));
    is_parameter.then_some(end)
}

/// What PostgreSQL reads the clock for in the text of a date or a time.
pub(crate) const MOMENTS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];

/// Is it a word that PostgreSQL reads the clock for, in a date or a time?
pub(crate) fn is_moment(text: &str) -> bool {
    MOMENTS.iter().any(|word| text.trim().eq_ignore_ascii_case(word))
}
