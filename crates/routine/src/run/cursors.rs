//! Cursors: those of SQL, in the same transaction, by the names that the variables hold.

use pgerror::{PgError, Result, SqlState, field};

use crate::Opening;
use crate::run::control::quoted;
use crate::run::resolve::{Bound, Resolved, in_query, in_text};
use crate::run::statements::state;
use crate::run::{Run, Scope};
use crate::value::{Typed, Variable};
use plpgsql::ast::{Cursor, Fetch, Opened, Sql, TypeText};

impl<'a> Run<'a> {
    pub(crate) async fn open(&mut self, cursor: &[String], opened: &'a Opened) -> Result<()> {
        match opened {
            Opened::Bound(arguments) => self.open_bound(cursor, arguments).await.map(drop),
            Opened::Query { scroll, query } => {
                let resolved = self.resolve(query).await?;
                let bound = self.bind(&resolved).await?;
                self.open_over(cursor, *scroll, &resolved, bound).await.map(drop)
            }
            Opened::Dynamic { scroll, query, using } => {
                let text = self
                    .value(query)
                    .await?
                    .value
                    .ok_or_else(|| PgError::new(state(b"22004"), "query string argument of EXECUTE is null"))?;
                let mut parameters = Vec::with_capacity(using.len());
                for value in using {
                    parameters.push(self.value(value).await?);
                }
                let text = String::from_utf8_lossy(&text).into_owned();
                let opened = self.open_as(cursor, *scroll, text.clone(), parameters).await;
                opened.map(drop).map_err(|error| match error.text(field::POSITION).parse() {
                    Ok(position) => in_text(error, &text, Some(position)),
                    Err(_) => error,
                })
            }
        }
    }

    /// Opens a cursor whose query stands in DECLARE; gives its name.
    pub(crate) async fn open_bound(
        &mut self,
        cursor: &[String],
        values: &'a [(Option<String>, Sql)],
    ) -> Result<String> {
        let spot = self.spot(cursor)?;
        let scope = &self.scopes[spot.scope];
        let name = &scope.variables[spot.at].name;
        let Some(declared) = scope.cursors.iter().find(|(known, _)| known == name).map(|(_, cursor)| *cursor) else {
            return Err(PgError::unsupported(format!("the unbound cursor \"{name}\" here"))
                .hint("Declare it with its query, or write OPEN … FOR."));
        };
        let depth = self.scopes.len();
        let scope = self.cursor_arguments(declared, values).await?;
        self.scopes.push(scope);
        let resolved = self.resolve(&declared.query).await?;
        let bound = self.bind(&resolved).await?;
        self.scopes.truncate(depth);
        self.open_over(cursor, declared.scroll, &resolved, bound).await
    }

    /// Opens a cursor over a query of the body.
    async fn open_over(
        &mut self,
        cursor: &[String],
        scroll: Option<bool>,
        resolved: &Resolved,
        mut bound: Bound,
    ) -> Result<String> {
        let parameters = std::mem::take(&mut bound.parameters);
        let opened = self.open_as(cursor, scroll, bound.sql.clone(), parameters).await;
        opened.map_err(|error| in_query(error, resolved, &bound))
    }

    async fn cursor_arguments(
        &mut self,
        declared: &'a Cursor,
        values: &'a [(Option<String>, Sql)],
    ) -> Result<Scope<'a>> {
        if declared.arguments.len() != values.len() {
            return Err(PgError::new(SqlState::SYNTAX_ERROR, "wrong number of arguments for cursor"));
        }
        let mut scope = Scope::default();
        for (at, (name, of)) in declared.arguments.iter().enumerate() {
            let TypeText::Named(of) = of else {
                return Err(PgError::unsupported("a cursor's argument with %TYPE").hint("Name its type."));
            };
            let value = values.iter().find(|(given, _)| given.as_ref() == Some(name)).or_else(|| values.get(at));
            let Some((_, value)) = value else { continue };
            let typed = self.value(value).await?;
            let of = self.host.type_of(&format!("NULL::{of}")).await?;
            let value = self.coerce(typed, &of).await?;
            scope.variables.push(Variable::scalar(name, of, value));
        }
        Ok(scope)
    }

    async fn open_as(
        &mut self,
        cursor: &[String],
        scroll: Option<bool>,
        sql: String,
        parameters: Vec<Typed>,
    ) -> Result<String> {
        let spot = self.spot(cursor)?;
        let name = self.scopes[spot.scope].variables[spot.at].value.clone();
        let given = name.map(|name| String::from_utf8_lossy(&name).into_owned());
        let is_named = given.is_some();
        let name = self.host.open(Opening { name: given, scroll, sql, parameters }).await?;
        if !is_named {
            self.assign(cursor, Typed::text(Some(name.clone()))).await?;
        }
        Ok(name)
    }

    pub(crate) fn portal(&self, cursor: &[String]) -> Result<String> {
        let spot = self.spot(cursor)?;
        let variable = &self.scopes[spot.scope].variables[spot.at];
        match &variable.value {
            Some(name) => Ok(String::from_utf8_lossy(name).into_owned()),
            None => {
                let message = format!("cursor variable \"{}\" is null", variable.name);
                Err(PgError::new(state(b"22004"), message))
            }
        }
    }

    pub(crate) async fn fetch(&mut self, fetch: &Fetch) -> Result<()> {
        let portal = self.portal(&fetch.cursor)?;
        let mut direction = fetch.direction.clone();
        if let Some(count) = &fetch.count {
            let count = self.integer(count).await?;
            let count =
                count.ok_or_else(|| PgError::new(state(b"22004"), "relative or absolute cursor position is null"))?;
            direction = format!("{direction} {count}");
        }
        let word = if fetch.into.is_some() { "FETCH" } else { "MOVE" };
        let sql = format!("{word} {direction} FROM {}", quoted(&portal));
        let context = self.context();
        let answer = self.host.run(&sql, Vec::new(), context).await?;
        if let Some(target) = &fetch.into {
            self.into(target, &answer, answer.rows.first()).await?;
        }
        let count = answer.count();
        self.row_count = count;
        self.set_found(count > 0);
        Ok(())
    }

    pub(crate) async fn close(&mut self, cursor: &[String]) -> Result<()> {
        let portal = self.portal(cursor)?;
        let context = self.context();
        self.host.run(&format!("CLOSE {}", quoted(&portal)), Vec::new(), context).await.map(drop)
    }
}
