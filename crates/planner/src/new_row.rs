//! Whether a trigger's function may give its row another distribution key: the row would then lie where nobody looks for it.
//!
//! Read off the tokens of PL/pgSQL, which sets a row in few ways: `NEW.k := …`, `NEW := …`, `… INTO NEW.k`, `RETURN` of something
//! else. What is not one of the harmless forms counts as setting the key.

use catalog::{Function, Relation};

use crate::bodies::text_of_body;
use crate::dml::key_names;
use crate::parse::scan::{Token, tokens};

/// May a row of this table get another key by the function? What a condition of a trigger calls cannot; libraries and
/// PostgreSQL's own functions do what they are made for.
pub(crate) fn may_set_key(function: &Function, table: &Relation) -> bool {
    let keys = key_names(table);
    if keys.is_empty() || function.language != "plpgsql" || !function.is_trigger {
        return false;
    }
    let Some(body) = text_of_body(&function.definition) else { return true };
    tokens(body).is_none_or(|tokens| Body { tokens: &tokens, keys: &keys }.sets_key())
}

struct Body<'t, 'a> {
    tokens: &'t [Token<'a>],
    keys: &'t [&'t str],
}

impl Body<'_, '_> {
    fn sets_key(&self) -> bool {
        (0..self.tokens.len()).any(|at| {
            let token = &self.tokens[at];
            if token.is("new") {
                self.is_set(at) && self.is_about_key(at)
            } else if token.is("into") {
                let row = |target: usize| {
                    if self.is_char('.', target + 1) && self.is("new", target + 2) { target + 2 } else { target }
                };
                let mut rows = self.targets(at + 1).into_iter().map(row);
                rows.any(|target| self.is("new", target) && self.is_about_key(target))
            } else {
                // Under another name it is not followed.
                token.is("alias") || token.is("call") || token.is("return") && !self.gives_row(at + 1)
            }
        })
    }

    fn is(&self, word: &str, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(word))
    }

    fn is_char(&self, c: char, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is_char(c))
    }

    /// Does a statement that begins with this word, or a loop over it, give it a value?
    fn is_set(&self, at: usize) -> bool {
        const BEFORE: [&str; 6] = ["begin", "then", "else", "loop", "for", "foreach"];
        let Some(before) = at.checked_sub(1) else { return true };
        // Also by the name of its block, `f.NEW.k := …`; reading it so counts too.
        let starts = self.is_char(';', before)
            || self.is_char('.', before)
            || self.tokens[before].text == ">>"
            || BEFORE.iter().any(|word| self.is(word, before))
            || self.is("diagnostics", before);
        starts || self.is_char(',', before) && self.is_in_diagnostics(before)
    }

    fn is_in_diagnostics(&self, at: usize) -> bool {
        let statement = self.tokens[..at].iter().rev().take_while(|token| !token.is_char(';'));
        statement.into_iter().any(|token| token.is("diagnostics"))
    }

    /// Is it `NEW` as a whole, or a column of the key?
    fn is_about_key(&self, at: usize) -> bool {
        let column = self.tokens.get(at + 2).and_then(Token::identifier).filter(|_| self.is_char('.', at + 1));
        column.is_none_or(|column| self.keys.contains(&column.as_str()))
    }

    /// Where the names after INTO begin.
    fn targets(&self, mut at: usize) -> Vec<usize> {
        at += usize::from(self.is("strict", at));
        let mut targets = vec![at];
        while self.tokens.get(at).and_then(Token::identifier).is_some() || self.is("new", at) {
            at += 1;
            while self.is_char('.', at) {
                at += 2;
            }
            if !self.is_char(',', at) {
                break;
            }
            at += 1;
            targets.push(at);
        }
        targets
    }

    /// `RETURN NEW`, `OLD`, `NULL`, `COALESCE(NEW, OLD)`.
    fn gives_row(&self, at: usize) -> bool {
        let is_row = |at: usize| ["new", "old", "null"].iter().any(|word| self.is(word, at));
        let is_either = self.is("coalesce", at)
            && self.is_char('(', at + 1)
            && is_row(at + 2)
            && self.is_char(',', at + 3)
            && is_row(at + 4)
            && self.is_char(')', at + 5)
            && self.is_char(';', at + 6);
        is_row(at) && self.is_char(';', at + 1) || is_either
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(body: &str) -> bool {
        Body { tokens: &tokens(body).unwrap(), keys: &["id", "Odd"] }.sets_key()
    }

    #[test]
    fn a_key_is_set_by_assignment_into_and_return() {
        assert!(sets("BEGIN NEW.id := NEW.id + 1; RETURN NEW; END"));
        assert!(sets("BEGIN IF true THEN new.\"Odd\" = 1; END IF; RETURN NEW; END"));
        assert!(sets("BEGIN SELECT 1, 2 INTO STRICT NEW.n, NEW.id; RETURN NEW; END"));
        assert!(sets("BEGIN NEW := jsonb_populate_record(NEW, '{}'); RETURN NEW; END"));
        assert!(sets("DECLARE r t; BEGIN RETURN r; END"));
        assert!(sets("DECLARE r ALIAS FOR new; BEGIN r.id := 1; RETURN NEW; END"));
        assert!(sets("BEGIN f.NEW.id := 1; RETURN NEW; END"));
        assert!(sets("BEGIN FETCH c INTO n, f.NEW.id; RETURN NEW; END"));
        assert!(sets("BEGIN GET DIAGNOSTICS n = ROW_COUNT, NEW.id = ROW_COUNT; RETURN NEW; END"));
    }

    #[test]
    fn it_is_not_set_by_reading_it() {
        assert!(!sets("BEGIN IF NEW.id = 5 THEN NEW.n := NEW.id; END IF; RETURN NEW; END"));
        assert!(!sets("BEGIN IF NEW IS DISTINCT FROM OLD THEN NEW.at = now(); END IF; RETURN COALESCE(NEW, OLD); END"));
        assert!(!sets("BEGIN SELECT NEW.id, 2 INTO x, NEW.n; RETURN NULL; END"));
        assert!(!sets("BEGIN RAISE NOTICE '%', NEW.id; RETURN OLD; END"));
    }
}
