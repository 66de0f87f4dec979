//! RAISE.

use pgerror::Result;

use crate::ast::Raise;
use crate::parse::Parser;

const LEVELS: [&str; 6] = ["EXCEPTION", "WARNING", "NOTICE", "INFO", "LOG", "DEBUG"];

impl Parser<'_> {
    pub(super) fn raise(&mut self) -> Result<Raise> {
        let level = LEVELS.into_iter().find(|level| self.cursor.accept(&level.to_lowercase()));
        let mut raise = Raise {
            level: level.unwrap_or("EXCEPTION"),
            condition: None,
            message: None,
            parameters: Vec::new(),
            options: Vec::new(),
        };
        if let Some(message) = self.cursor.peek().and_then(|token| token.string()) {
            self.cursor.at += 1;
            raise.message = Some(message);
            while self.cursor.accept_mark(",") {
                raise.parameters.push(self.expression(&[",", "using", ";"])?);
            }
        } else if self.cursor.accept("sqlstate") {
            raise.condition = Some(self.cursor.next()?.string().ok_or_else(|| self.cursor.error())?);
        } else if !self.cursor.is("using") && !self.cursor.is_mark(";") {
            raise.condition = Some(self.cursor.name()?);
        }
        if self.cursor.accept("using") {
            loop {
                let name = self.cursor.name()?.to_uppercase();
                if !self.cursor.accept_mark("=") {
                    self.cursor.expect_mark(":=")?;
                }
                raise.options.push((name, self.expression(&[",", ";"])?));
                if !self.cursor.accept_mark(",") {
                    break;
                }
            }
        }
        Ok(raise)
    }
}
