//! Assignments to a place inside a value: an element of an array, a key of a jsonb, a field of a field.

use std::fmt::Write;

use bytes::Bytes;
use pgerror::{PgError, Result, SqlState, field};

use crate::Pending;
use crate::run::resolve::{Spot, quoted};
use crate::run::{Run, with_context};
use crate::value::{Holds, RECORD, TEXT, Type, Typed};
use plpgsql::ast::{Sql, Step};

/// The variable that a block has for the value that is assigned; those of its subscripts have a number behind the other name.
const VALUE: &str = "loxo_value";
const SUBSCRIPT: &str = "loxo_subscript";

/// The setting that brings the new value out of the block. Something stands before it, for it may be empty or NULL.
const OUTCOME: &str = "loxo.element";

/// A block that assigns, while it is put together.
#[derive(Default)]
struct Block {
    /// Before the block.
    label: String,
    declarations: String,
    /// What its own variables must hold at first, if a declaration cannot say that.
    start: String,
    place: String,
    /// What the outcome is.
    whole: String,
    subscripts: usize,
}

impl<'a> Run<'a> {
    /// Is the name that of a field inside another one?
    pub(crate) fn is_inside(&self, target: &[String]) -> bool {
        self.look_up_start(target).is_some_and(|(_, inside)| !inside.is_empty())
    }

    /// `target[subscript].field := value`. There is no expression for that, and each type has subscripts of its own: PostgreSQL
    /// makes the assignment, in a block with a variable of the target's type.
    pub(crate) fn assign_inside<'s>(
        &'s mut self,
        target: &'s [String],
        path: &'s [Step],
        value: &'s Sql,
        shown: &'s str,
    ) -> Pending<'s, ()> {
        Box::pin(async move {
            let (spot, inside) = self.look_up_start(target).ok_or_else(|| unknown(target))?;
            let names = &target[..target.len() - inside.len()];
            let (of, held) = self.held(&spot).await.map_err(|error| with_context(error, shown))?;
            if held.is_some() && (of.over.is_none() || spot.field.is_some()) {
                self.host.may_make(of.oid).await?;
            }
            let mut block = Block::new(names, spot.field.is_some(), &of.name, held.as_deref());
            inside.iter().for_each(|field| block.step(field));
            for step in path {
                self.step(&mut block, step, shown).await?;
            }
            let typed = self.value_shown(value, shown).await?;
            let value_type = self.declared_type(&typed).await?;
            block.declare(VALUE, &value_type, typed.value.as_deref());
            let rows = self.host.ask(block.sql()).await.map_err(in_place_of_block)?;
            let outcome = rows.into_iter().flatten().next().flatten();
            let value = outcome.filter(|text| !text.is_empty()).map(|text| text.slice(1..));
            let value = self.host.kept(Typed { oid: of.oid, modifier: of.modifier, value }).await?;
            self.assign(names, Typed { oid: of.oid, modifier: of.modifier, value }).await
        })
    }

    /// The value of a variable or a field, and its type.
    async fn held(&mut self, spot: &Spot) -> Result<(Type, Option<Bytes>)> {
        let variable = &self.scopes[spot.scope].variables[spot.at];
        match (&spot.field, &variable.holds) {
            (Some(field), _) => {
                let typed = variable.cell(field)?.typed.clone();
                Ok((self.host.type_with(typed.oid, typed.modifier).await?, typed.value))
            }
            (None, Holds::Scalar(of)) => Ok((of.clone(), variable.value.clone())),
            (None, Holds::Row(of)) => Ok((of.clone(), variable.row())),
            (None, Holds::Record) => {
                Err(PgError::unsupported("a subscript of a record variable").hint("Name the field."))
            }
        }
    }

    async fn step(&mut self, block: &mut Block, step: &Step, shown: &str) -> Result<()> {
        match step {
            Step::Field(name) => block.step(name),
            Step::Subscript(subscript) => {
                let subscript = self.subscript(block, subscript, shown).await?;
                let _ = write!(block.place, "[{subscript}]");
            }
            Step::Slice(lower, upper) => {
                let mut bounds = [String::new(), String::new()];
                for (bound, given) in bounds.iter_mut().zip([lower, upper]) {
                    if let Some(given) = given {
                        *bound = self.subscript(block, given, shown).await?;
                    }
                }
                let _ = write!(block.place, "[{} : {}]", bounds[0], bounds[1]);
            }
        }
        Ok(())
    }

    /// A subscript as it stands in the block. NULL and a constant in quotes have no type of their own: they stay what they are.
    async fn subscript(&mut self, block: &mut Block, subscript: &Sql, shown: &str) -> Result<String> {
        if plpgsql::is_string(&subscript.text) || subscript.text.eq_ignore_ascii_case("null") {
            return Ok(subscript.text.to_string());
        }
        let typed = self.value_shown(subscript, shown).await?;
        let of = self.declared_type(&typed).await?;
        let name = format!("{SUBSCRIPT}{}", block.subscripts);
        block.subscripts += 1;
        block.declare(&name, &of, typed.value.as_deref());
        Ok(name)
    }

    /// The type of a block's variable for the value: a record comes as the text that a composite type reads.
    async fn declared_type(&mut self, typed: &Typed) -> Result<String> {
        let oid = if typed.oid == RECORD { TEXT } else { typed.oid };
        Ok(self.host.type_with(oid, typed.modifier).await?.name)
    }
}

impl Block {
    /// With the variable that the names say, which errors call as the user does: `[label,] variable [, field]`.
    fn new(names: &[String], has_field: bool, of: &str, value: Option<&[u8]>) -> Self {
        let quoted: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        let whole = quoted.join(".");
        let (owner, field) = match quoted.split_last() {
            Some((field, owner)) if has_field => (owner, Some(field)),
            _ => (quoted.as_slice(), None),
        };
        let label = owner.iter().rev().nth(1).map(|label| format!("<<{label}>> ")).unwrap_or_default();
        let mut block = Self { label, place: whole.clone(), whole, ..Self::default() };
        let variable = owner.last().map_or(VALUE, String::as_str);
        match field {
            None => block.declare(variable, of, value),
            // A record of this field alone.
            Some(field) => {
                block.declare(variable, "record", None);
                block.start = format!("SELECT {} AS {field} INTO {variable}; ", constant(of, value));
            }
        }
        block
    }

    /// The text is cast, for nothing but a composite value may be assigned to a variable that is composite.
    fn declare(&mut self, name: &str, of: &str, value: Option<&[u8]>) {
        let _ = match value {
            Some(_) => write!(self.declarations, "{name} {of} := {}; ", constant(of, value)),
            None => write!(self.declarations, "{name} {of}; "),
        };
    }

    fn step(&mut self, field: &str) {
        let _ = write!(self.place, ".{}", quoted(field));
    }

    /// The block, and what reads its outcome.
    fn sql(&self) -> String {
        let Self { label, declarations, start, place, whole, .. } = self;
        let block = format!(
            "{label}DECLARE {declarations}BEGIN {start}{place} := {VALUE}; \
             PERFORM pg_catalog.set_config('{OUTCOME}', COALESCE('=' OPERATOR(pg_catalog.||) CAST({whole} AS pg_catalog.text), ''), true); END"
        );
        format!("DO {}; SELECT pg_catalog.current_setting('{OUTCOME}')", literal(block.as_bytes()))
    }
}

pub(crate) fn unknown(name: &[String]) -> PgError {
    PgError::new(SqlState::SYNTAX_ERROR, format!("\"{}\" is not a known variable", name.join(".")))
}

/// An error in the block: neither its text nor its lines are of the user's body.
fn in_place_of_block(error: PgError) -> PgError {
    let context = error.text(field::WHERE).into_owned();
    let error = error.without(field::WHERE).without(field::INTERNAL_QUERY).without(field::INTERNAL_POSITION);
    let inner: Vec<&str> = context.lines().take_while(|line| !line.starts_with("PL/pgSQL ")).collect();
    if inner.is_empty() { error } else { error.context(inner.join("\n")) }
}

/// A value of a type.
fn constant(of: &str, value: Option<&[u8]>) -> String {
    let text = value.map_or_else(|| "NULL".to_owned(), literal);
    format!("CAST({text} AS {of})")
}

/// A value as a constant of SQL.
fn literal(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value).replace('\\', "\\\\").replace('\'', "\'\'");
    format!("E'{text}'")
}
