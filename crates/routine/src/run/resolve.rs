//! Which names of a statement are variables, and the statement with their values as parameters.

use std::collections::BTreeMap;
use std::sync::Arc;

use pgerror::{PgError, Result, SqlState, field};
use planner::{Place, References};

use crate::Pending;
use crate::run::{Run, Scope};
use crate::value::{Cell, FIRST_USER_OID, Holds, RECORD, Typed};
use plpgsql::ast::{Conflict, Sql};

/// Before an expression.
const SELECT: &str = "SELECT ";

/// A statement whose names are told apart.
pub(crate) struct Resolved {
    /// With SELECT before an expression.
    pub text: String,
    is_expression: bool,
    /// Byte ranges of variables, in order, and what they name.
    uses: Vec<Use>,
    pub changes: Option<&'static str>,
    /// No tables, no sub-selects.
    pub is_plain: bool,
}

impl Resolved {
    /// The names of the variables in it.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &[String]> {
        self.uses.iter().map(|one| one.parts.as_slice())
    }

    /// The text as the body has it.
    fn written(&self) -> &str {
        self.text.get(if self.is_expression { SELECT.len() } else { 0 }..).unwrap_or_default()
    }

    /// An error about what stands at this byte of it.
    fn at(&self, error: PgError, byte: usize) -> PgError {
        let before = byte.checked_sub(self.text.len() - self.written().len());
        let place = before.and_then(|byte| self.written().get(..byte)).map(|before| before.chars().count() + 1);
        in_text(error, self.written(), place)
    }

    /// No variable is in it.
    pub(crate) fn is_constant(&self) -> bool {
        self.uses.is_empty()
    }
}

struct Use {
    start: usize,
    end: usize,
    parts: Vec<String>,
    star: bool,
    listed: bool,
    /// The output column that is called by the variable: where its expression ends, and its name.
    names_column: Option<(usize, String)>,
    /// It is the cursor of WHERE CURRENT OF.
    is_cursor: bool,
}

/// A variable, or a field of one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub scope: usize,
    pub at: usize,
    pub field: Option<String>,
}

impl Scope<'_> {
    /// The variable of this name, and its field if a name follows; `None`: there is none with fields.
    fn start(&self, scope: usize, name: &String, rest: &[String]) -> Option<(Spot, Vec<String>)> {
        let at = self.variables.iter().rposition(|variable| variable.name == *name)?;
        let Some((field, inside)) = rest.split_first() else {
            return Some((Spot { scope, at, field: None }, Vec::new()));
        };
        let is_row = !matches!(self.variables[at].holds, Holds::Scalar(_));
        is_row.then(|| (Spot { scope, at, field: Some(field.clone()) }, inside.to_vec()))
    }
}

impl<'a> Run<'a> {
    /// What a name means among the variables.
    pub(crate) fn look_up(&self, parts: &[String]) -> Option<Spot> {
        self.look_up_start(parts).filter(|(_, rest)| rest.is_empty()).map(|(spot, _)| spot)
    }

    /// The variable, or the field of one, that a name begins with, and the names of fields inside it. As in PostgreSQL the innermost
    /// variable is meant that the name can begin with, whether it has such fields or not.
    pub(crate) fn look_up_start(&self, parts: &[String]) -> Option<(Spot, Vec<String>)> {
        let (first, rest) = parts.split_first()?;
        for (number, scope) in self.scopes.iter().enumerate().rev() {
            if let Some((_, meant)) = scope.aliases.iter().rev().find(|(alias, _)| alias == first) {
                let mut path = meant.clone();
                path.extend_from_slice(rest);
                return self.look_up_start(&path);
            }
            let unlabelled = scope.start(number, first, rest);
            let is_label = scope.label.as_ref() == Some(first);
            let labelled = || rest.split_first().filter(|_| is_label);
            if let Some(found) =
                unlabelled.or_else(|| labelled().and_then(|(name, rest)| scope.start(number, name, rest)))
            {
                return Some(found);
            }
        }
        None
    }

    /// The statement with its variables found, once a run.
    pub(crate) fn resolve<'s>(&'s mut self, sql: &'s Sql) -> Pending<'s, Arc<Resolved>> {
        Box::pin(async move {
            if let Some(known) = self.resolved.get(&sql.id) {
                return Ok(known.clone());
            }
            let text = if sql.is_expression { format!("{SELECT}{}", sql.text) } else { sql.text.to_string() };
            let references = planner::references(&text)?;
            if let Some(message) = references.forbidden {
                return Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            let resolved = Arc::new(self.resolve_new(text, sql.is_expression, references).await?);
            self.resolved.insert(sql.id, resolved.clone());
            Ok(resolved)
        })
    }

    async fn resolve_new(&mut self, text: String, is_expression: bool, references: References) -> Result<Resolved> {
        let (changes, is_plain) = (references.changes, references.is_plain);
        let mut resolved = Resolved { text, is_expression, uses: Vec::new(), changes, is_plain };
        let mut unsure = Vec::new();
        let is_unknown =
            |name: &&planner::Reference| name.place == Place::Parameter && self.look_up(&name.parts).is_none();
        if let Some(unknown) = references.names.iter().find(is_unknown) {
            let code = SqlState::from_bytes(b"42P02").unwrap_or(SqlState::INTERNAL_ERROR);
            let error = PgError::new(code, format!("there is no parameter {}", unknown.parts[0]));
            return Err(resolved.at(error, unknown.start));
        }
        let names: Vec<_> = references.names.into_iter().filter(|name| self.look_up(&name.parts).is_some()).collect();
        let all_sure = names.iter().all(|name| name.place == Place::Parameter);
        let known = match references.is_plain || all_sure || !references.takes_parameters {
            true => None,
            false => self.host.names_in_from(&resolved.text).await?,
        };
        for name in names {
            let is_surely = references.is_plain
                || name.place == Place::Parameter
                || (self.conflict == Conflict::Variable && name.place == Place::Expression)
                || known.as_ref().is_some_and(|known| !known.contains(&name.parts[0]));
            let (star, listed, names_column) = (name.star, name.listed, name.names_column);
            let (start, end, parts) = (name.start, name.end, name.parts);
            let found = Use { start, end, parts, star, listed, names_column, is_cursor: false };
            match is_surely && name.place != Place::Conflict {
                true => resolved.uses.push(found),
                false => unsure.push((name.place, found)),
            }
        }
        resolved.uses.extend(self.current_cursor(&resolved.text));
        self.ask(&mut resolved, unsure).await?;
        Ok(resolved)
    }

    /// The name in WHERE CURRENT OF, if it is that of a variable of type refcursor.
    fn current_cursor(&self, text: &str) -> Option<Use> {
        const REFCURSOR: u32 = 1790;
        let (range, name) = planner::current_of(text)?;
        let parts = vec![name];
        let spot = self.look_up(&parts)?;
        let is_cursor =
            matches!(&self.scopes[spot.scope].variables[spot.at].holds, Holds::Scalar(of) if of.oid == REFCURSOR);
        let (star, listed, names_column) = (false, false, None);
        is_cursor.then_some(Use { start: range.start, end: range.end, parts, star, listed, names_column, is_cursor })
    }

    /// Has the home node say which of the names it does not know.
    async fn ask(&mut self, resolved: &mut Resolved, mut unsure: Vec<(Place, Use)>) -> Result<()> {
        while unsure.iter().any(|(place, _)| *place == Place::Expression) {
            resolved.uses.sort_by_key(|one| one.start);
            let bound = self.bind(resolved).await?;
            let types = bound.parameters.iter().map(|typed| typed.oid).collect();
            let Err(error) = self.host.analyse(&bound.sql, types).await else { break };
            let position: usize = error.text(field::POSITION).parse().unwrap_or(0);
            let is_name = [SqlState::UNDEFINED_COLUMN, SqlState::UNDEFINED_TABLE].contains(&error.code());
            let at = unsure.iter().position(|(place, one)| {
                *place == Place::Expression && bound.place_of(one.start, &bound.sql) + 1 == position
            });
            match at.filter(|_| is_name) {
                Some(at) => resolved.uses.push(unsure.remove(at).1),
                None => return Err(in_query(error, resolved, &bound)),
            }
        }
        resolved.uses.sort_by_key(|one| one.start);
        if self.conflict == Conflict::Column {
            return Ok(());
        }
        for (place, one) in unsure {
            match place {
                Place::Output | Place::Parameter => {}
                Place::Grouped => {
                    let what =
                        format!("the name \"{}\" in GROUP BY, which is a variable and an output column,", one.parts[0]);
                    return Err(PgError::unsupported(what).hint("Rename the variable, or group by the expression."));
                }
                Place::Expression | Place::Conflict => {
                    let message = format!("column reference \"{}\" is ambiguous", one.parts.join("."));
                    let error = PgError::new(SqlState::AMBIGUOUS_COLUMN, message)
                        .detail("It could refer to either a PL/pgSQL variable or a table column.");
                    return Err(resolved.at(error, one.start));
                }
            }
        }
        Ok(())
    }

    /// The statement as it is sent.
    pub(crate) fn bind<'s>(&'s mut self, resolved: &'s Resolved) -> Pending<'s, Bound> {
        Box::pin(async move {
            let mut bound = Bound::starting("");
            let (mut from, mut known, mut names) = (0, BTreeMap::new(), BTreeMap::new());
            for one in &resolved.uses {
                bound.name_columns(&resolved.text, &mut from, &mut names, one.start);
                bound.sql.push_str(&resolved.text[from..one.start]);
                self.bind_use_once(&mut bound, one, &mut known).await?;
                bound.shifts.push((one.end, bound.sql.len()));
                from = one.end;
                names.extend(one.names_column.clone().filter(|_| !one.star));
            }
            bound.name_columns(&resolved.text, &mut from, &mut names, resolved.text.len());
            bound.sql.push_str(&resolved.text[from..]);
            Ok(bound)
        })
    }

    /// All uses of a variable are one parameter: `GROUP BY a / v` is to be the same expression as the `a / v` that is selected.
    async fn bind_use_once(&mut self, bound: &mut Bound, one: &Use, known: &mut BTreeMap<Spot, String>) -> Result<()> {
        if one.is_cursor {
            bound.sql.push_str(&format!("WHERE CURRENT OF {}", quoted(&self.portal(&one.parts)?)));
            return Ok(());
        }
        let spot = self.look_up(&one.parts).filter(|_| !one.star);
        if let Some(text) = spot.as_ref().and_then(|spot| known.get(spot)) {
            bound.sql.push_str(text);
            return Ok(());
        }
        let from = bound.sql.len();
        self.bind_use(bound, one).await?;
        known.extend(spot.map(|spot| (spot, bound.sql[from..].to_owned())));
        Ok(())
    }

    async fn bind_use(&mut self, bound: &mut Bound, one: &Use) -> Result<()> {
        let spot = self.look_up(&one.parts).ok_or_else(|| PgError::internal("a variable is gone"))?;
        let variable = &self.scopes[spot.scope].variables[spot.at];
        if one.star && spot.field.is_some() {
            return Err(PgError::unsupported("the .* of a row variable's field").hint("Name its fields one by one."));
        }
        // In any other place `.*` adds nothing to the name.
        if one.star && one.listed {
            let cells = variable.cells.clone().ok_or_else(|| variable.unassigned())?;
            for (at, cell) in cells.into_iter().enumerate() {
                bound.sql.push_str(if at > 0 { ", " } else { "" });
                self.bind_field(bound, cell.typed).await?;
                if one.names_column.is_some() {
                    bound.sql.push_str(&format!(" AS {}", quoted(&cell.name)));
                }
            }
            return Ok(());
        }
        match (&spot.field, &variable.holds) {
            (Some(field), _) => {
                let typed = variable.cell(field)?.typed.clone();
                self.bind_field(bound, typed).await
            }
            (None, Holds::Scalar(of)) => {
                // PostgreSQL, too, makes what is assigned to a variable of a domain one of it.
                let is_made = of.over.is_some();
                let typed = Typed { oid: of.oid, modifier: of.modifier, value: variable.value.clone() };
                let name = (of.oid >= FIRST_USER_OID).then(|| of.name.clone());
                self.bind_named(bound, typed, name, is_made).await
            }
            (None, Holds::Row(of)) => {
                let (oid, modifier, name) = (of.oid, of.modifier, of.name.clone());
                let value = variable.row();
                self.bind_named(bound, Typed { oid, modifier, value }, Some(name), false).await
            }
            (None, Holds::Record) => match variable.cells.clone() {
                None => {
                    bound.sql.push_str("(NULL::pg_catalog.record)");
                    Ok(())
                }
                Some(cells) => self.bind_record(bound, cells).await,
            },
        }
    }

    /// A record that keeps the names of its columns.
    async fn bind_record(&mut self, bound: &mut Bound, cells: Vec<Cell>) -> Result<()> {
        bound.sql.push_str("(SELECT loxo_r FROM (SELECT ");
        for (at, cell) in cells.into_iter().enumerate() {
            bound.sql.push_str(if at > 0 { ", " } else { "" });
            let name = quoted(&cell.name);
            self.bind_field(bound, cell.typed).await?;
            bound.sql.push_str(" AS ");
            bound.sql.push_str(&name);
        }
        bound.sql.push_str(") AS loxo_r)");
        Ok(())
    }

    pub(crate) async fn bind_value(&mut self, bound: &mut Bound, typed: Typed) -> Result<()> {
        if typed.oid == RECORD {
            return Err(PgError::unsupported("a record inside a record variable")
                .hint("Select its fields as columns of their own."));
        }
        let of = match typed.oid >= FIRST_USER_OID {
            true => Some(self.host.type_with(typed.oid, typed.modifier).await?),
            false => None,
        };
        let is_made = of.as_ref().is_some_and(|of| of.over.is_some());
        self.bind_named(bound, typed, of.map(|of| of.name), is_made).await
    }

    /// A field's value, which PostgreSQL has from a row as it was.
    async fn bind_field(&mut self, bound: &mut Bound, typed: Typed) -> Result<()> {
        if typed.oid >= FIRST_USER_OID && typed.value.is_some() {
            self.host.may_make(typed.oid).await?;
        }
        self.bind_value(bound, typed).await
    }

    /// A value, and the name of its type if that is in no statement's parameters: the user's own, or a row's. `is_made`: PostgreSQL makes
    /// it one of the type, too.
    async fn bind_named(
        &mut self,
        bound: &mut Bound,
        mut typed: Typed,
        name: Option<String>,
        is_made: bool,
    ) -> Result<()> {
        if name.is_some() && typed.value.is_some() {
            if !is_made {
                self.host.may_make(typed.oid).await?;
            }
            typed.value = self.host.sent(typed.clone()).await?;
        }
        bound.push(typed, name);
        Ok(())
    }
}

/// An error about a text of the body: its place is in that text, not in the client's.
pub(crate) fn in_query(error: PgError, resolved: &Resolved, bound: &Bound) -> PgError {
    let Ok(position) = error.text(field::POSITION).parse::<usize>() else { return error };
    match bound.byte_of(position) {
        Some(byte) => resolved.at(error, byte),
        None => in_text(error, resolved.written(), None),
    }
}

/// An error at this place of a text that is not the client's.
pub(crate) fn in_text(error: PgError, text: &str, place: Option<usize>) -> PgError {
    let error = error.without(field::POSITION).with(field::INTERNAL_QUERY, text.to_owned());
    match place {
        Some(place) => error.with(field::INTERNAL_POSITION, place.to_string()),
        None => error,
    }
}

pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A statement and its parameters.
pub(crate) struct Bound {
    pub sql: String,
    pub parameters: Vec<Typed>,
    /// Ends of variables in the body's text and in this one.
    shifts: Vec<(usize, usize)>,
}

impl Bound {
    pub(crate) fn starting(sql: &str) -> Self {
        Self { sql: sql.to_owned(), parameters: Vec::new(), shifts: Vec::new() }
    }

    /// Output columns whose expressions end up to here get the names that variables in them gave them: a parameter gives none.
    fn name_columns(&mut self, text: &str, from: &mut usize, names: &mut BTreeMap<usize, String>, to: usize) {
        while let Some(name) = names.first_entry().filter(|name| *name.key() <= to) {
            let (end, name) = name.remove_entry();
            self.sql.push_str(&text[*from..end]);
            self.sql.push_str(&format!(" AS {}", quoted(&name)));
            self.shifts.push((end, self.sql.len()));
            *from = end;
        }
    }

    /// A parameter; a type of the user's own is named in a cast.
    pub(crate) fn push(&mut self, typed: Typed, cast: Option<String>) {
        let number = self.parameters.len() + 1;
        match cast {
            Some(name) => {
                self.sql.push_str(&format!("(CAST(${number} AS {name}))"));
                self.parameters.push(Typed { oid: 0, ..typed });
            }
            None => {
                self.sql.push_str(&format!("${number}"));
                self.parameters.push(typed);
            }
        }
    }

    /// The byte of the body's text that a place here stands for.
    fn byte_of(&self, position: usize) -> Option<usize> {
        let mut starts = self.sql.char_indices().map(|(at, _)| at).chain([self.sql.len()]);
        let here = starts.nth(position.checked_sub(1)?)?;
        let shift = self.shifts.iter().rev().find(|(_, to)| *to <= here);
        Some(shift.map_or(here, |(end, to)| end + here - to))
    }

    /// Characters before what stands at this byte of the body's text.
    fn place_of(&self, byte: usize, sql: &str) -> usize {
        let shift = self.shifts.iter().rev().find(|(end, _)| *end <= byte);
        let at = shift.map_or(byte, |(end, here)| here + byte - end);
        sql.as_bytes()[..at.min(sql.len())].iter().filter(|b| **b & 0xC0 != 0x80).count()
    }
}
