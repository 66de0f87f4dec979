//! The session behind a body.

use std::collections::HashSet;
use std::sync::Arc;

use executor::{Call, Parameters};
use pgerror::{PgError, Result, SqlState};
use planner::StatementKind;
use routine::{Answer, Host, Opening, Pending, Type, Typed};

use crate::protocol::client::Client;

/// A client whose session runs a body.
pub(super) struct ClientHost<'c> {
    pub(super) client: &'c mut Client,
}

/// Undone at once: PostgreSQL was only asked.
const ASKED: &str = "loxo_asked";

impl ClientHost<'_> {
    async fn run_text(&mut self, sql: &str, parameters: Vec<Typed>, context: String) -> Result<Answer> {
        let call = call_with(parameters);
        let routines = &self.client.routines;
        let in_trigger = match routines.trigger_depth {
            0 => None,
            depth => planner::in_trigger(sql, depth, &routines.transition_tables)?,
        };
        let outside = std::mem::replace(&mut self.client.routines.context, context);
        let captured = self.client.captured(in_trigger.as_deref().unwrap_or(sql), &call).await;
        self.client.routines.context = outside;
        let (tag, (fields, rows)) = captured?;
        let columns = fields.map(|fields| {
            let column = |field: pgproto::backend::Field| {
                (String::from_utf8_lossy(&field.name).into_owned(), field.type_oid, field.type_modifier)
            };
            fields.into_iter().map(column).collect()
        });
        Ok(Answer { columns, rows, tag })
    }

    /// The type with this id on the home node.
    pub(super) async fn find_type(&mut self, oid: u32, modifier: i32) -> Result<Type> {
        if let Some(known) = well_known(oid, modifier) {
            return Ok(known);
        }
        if let Some(known) = self.client.routines.types.get(&(oid, modifier)) {
            return Ok(known.clone());
        }
        let sql = format!(
            "SELECT pg_catalog.format_type({oid}, {modifier}), a.attname, a.atttypid, a.atttypmod, \
             t.typtype = 'd' AND t.typtypmod >= 0 AND t.typbasetype IN (1042, 1043, 1560, 1562) \
             FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_attribute a \
             ON a.attrelid = t.typrelid AND t.typrelid <> 0 AND a.attnum > 0 AND NOT a.attisdropped \
             WHERE t.oid = {oid} ORDER BY a.attnum"
        );
        let rows = self.client.asked(&planner::own_text(&sql)?).await?;
        let text = |row: &Vec<Option<bytes::Bytes>>, at: usize| {
            row.get(at).cloned().flatten().map(|text| String::from_utf8_lossy(&text).into_owned())
        };
        let first = rows.first().ok_or_else(|| PgError::new(SqlState::UNDEFINED_OBJECT, "the type is gone"))?;
        let name = text(first, 0).unwrap_or_default();
        if text(first, 4).as_deref() == Some("t") {
            return Err(PgError::unsupported(format!("a PL/pgSQL variable of domain {name}, which has a length,"))
                .hint("Give the domain a CHECK of the length instead."));
        }
        let mut fields = Vec::new();
        for row in &rows {
            if let Some(column) = text(row, 1) {
                let number = |at: usize| text(row, at).unwrap_or_default();
                let (oid, modifier) = (number(2).parse().unwrap_or(0), number(3).parse().unwrap_or(-1));
                fields.push((column, Box::pin(self.find_type(oid, modifier)).await?));
            }
        }
        let of = Type { oid, modifier, name, fields: (!fields.is_empty()).then_some(fields) };
        self.client.routines.types.insert((oid, modifier), of.clone());
        Ok(of)
    }

    async fn find_type_of(&mut self, expression: &str) -> Result<Type> {
        if let Some(known) = self.client.routines.expressions.get(expression) {
            return Ok(known.clone());
        }
        let home = self.client.session.home();
        let fields = self.client.session.describe_on(home, &format!("SELECT {expression}")).await;
        let fields = fields.map_err(|error| error.without(pgerror::field::POSITION))?.unwrap_or_default();
        let field = fields.first().ok_or_else(|| PgError::internal("an expression without a type"))?;
        let of = self.find_type(field.type_oid, field.type_modifier).await?;
        self.client.routines.expressions.insert(expression.to_owned(), of.clone());
        Ok(of)
    }

    async fn find_cast(&mut self, from: u32, to: u32) -> Result<bool> {
        if let Some(known) = self.client.routines.casts.get(&(from, to)) {
            return Ok(*known);
        }
        // Domains are cast as what they are made of, arrays element by element.
        let sql = format!(
            "WITH b AS (SELECT nth, CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END AS oid \
               FROM pg_catalog.unnest(ARRAY[{from}, {to}]::oid[]) WITH ORDINALITY u(oid, nth) JOIN pg_catalog.pg_type t ON t.oid = u.oid), \
             e AS (SELECT b.nth, t.typcategory = 'A' AS is_array, t.typcategory = 'S' AS is_text, \
               CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE t.oid END AS oid FROM b JOIN pg_catalog.pg_type t ON t.oid = b.oid) \
             SELECT f.is_array = t.is_array AND (f.oid = t.oid OR t.is_text OR EXISTS (SELECT FROM pg_catalog.pg_cast c \
               WHERE c.castsource = f.oid AND c.casttarget = t.oid AND c.castcontext <> 'e')) \
             FROM e f, e t WHERE f.nth = 1 AND t.nth = 2"
        );
        let rows = self.client.asked(&planner::own_text(&sql)?).await?;
        let has = rows.first().and_then(|row| row.first()?.as_deref()) == Some(b"t");
        self.client.routines.casts.insert((from, to), has);
        Ok(has)
    }

    async fn ask_about(&mut self, sql: &str, types: &[u32]) -> Result<()> {
        self.client.session.savepoint(ASKED).await?;
        let described = self.client.session.describe(sql, types).await;
        self.client.session.rollback_to(ASKED).await?;
        self.client.session.release_savepoint(ASKED).await?;
        described.map(drop)
    }

    async fn roll_back_to(&mut self, savepoint: &str) -> Result<()> {
        self.client.session.fail();
        self.client.session.release();
        self.client.session.rollback_to(savepoint).await?;
        self.client.forget_lost_cursors().await?;
        self.client.session.release_savepoint(savepoint).await
    }

    async fn end(&mut self, commit: bool, chain: bool) -> Result<()> {
        let kind = match commit {
            true => planner::parse::Transaction::Commit { chain },
            false => planner::parse::Transaction::Rollback { chain },
        };
        self.client.transaction(&kind).await?;
        if !self.client.session.in_block() {
            self.client.session.begin(None, "", None);
        }
        self.client.session.reach_for_body().await
    }

    async fn open_cursor(&mut self, opening: Opening) -> Result<String> {
        let name = match opening.name {
            Some(name) => name,
            None => {
                self.client.routines.portals += 1;
                format!("<unnamed portal {}>", self.client.routines.portals)
            }
        };
        let scroll = match opening.scroll {
            Some(true) => "SCROLL ",
            Some(false) => "NO SCROLL ",
            None => "",
        };
        let quoted = catalog::quote_identifier(&name);
        let sql = format!("DECLARE {quoted} {scroll}CURSOR FOR {}", opening.sql);
        let statements = planner::parse(&sql)?;
        let Some((statement, StatementKind::DeclareCursor(declare))) =
            statements.first().map(|statement| (statement, &statement.kind))
        else {
            return Err(PgError::new(state(b"42P11"), "cannot open this query as cursor"));
        };
        let call = call_with(opening.parameters);
        self.client.declare_cursor(declare, statement, &Call { describe: false, ..call }).await?;
        Ok(name)
    }
}

fn state(code: &[u8; 5]) -> SqlState {
    SqlState::from_bytes(code).unwrap_or(SqlState::INTERNAL_ERROR)
}

fn call_with(parameters: Vec<Typed>) -> Call {
    if parameters.is_empty() {
        return Call::simple();
    }
    let types = parameters.iter().map(|typed| typed.oid).collect();
    let values = parameters.into_iter().map(|typed| typed.value).collect();
    let parameters = Parameters { types, formats: Vec::new(), values };
    Call { parameters: Some(Arc::new(parameters)), describe: true, ..Call::default() }
}

/// Types of most variables.
fn well_known(oid: u32, modifier: i32) -> Option<Type> {
    const KNOWN: [(u32, &str); 10] = [
        (16, "boolean"),
        (17, "bytea"),
        (20, "bigint"),
        (21, "smallint"),
        (23, "integer"),
        (25, "text"),
        (701, "double precision"),
        (1043, "character varying"),
        (1082, "date"),
        (1700, "numeric"),
    ];
    let (_, name) = KNOWN.iter().find(|(known, _)| *known == oid && modifier == -1)?;
    Some(Type { oid, modifier, name: (*name).to_owned(), fields: None })
}

impl Host for ClientHost<'_> {
    fn run<'a>(&'a mut self, sql: &'a str, parameters: Vec<Typed>, context: String) -> Pending<'a, Answer> {
        Box::pin(self.run_text(sql, parameters, context))
    }

    fn ask(&mut self, sql: String) -> Pending<'_, Vec<Vec<Option<bytes::Bytes>>>> {
        Box::pin(async move { self.client.asked(&sql).await })
    }

    fn analyse<'a>(&'a mut self, sql: &'a str, types: Vec<u32>) -> Pending<'a, ()> {
        Box::pin(async move { self.ask_about(sql, &types).await })
    }

    fn names_in_from<'a>(&'a mut self, sql: &'a str) -> Pending<'a, Option<HashSet<String>>> {
        Box::pin(self.client.session.names_in_from(sql))
    }

    fn type_of<'a>(&'a mut self, expression: &'a str) -> Pending<'a, Type> {
        Box::pin(self.find_type_of(expression))
    }

    fn type_with(&mut self, oid: u32, modifier: i32) -> Pending<'_, Type> {
        Box::pin(self.find_type(oid, modifier))
    }

    fn has_cast(&mut self, from: u32, to: u32) -> Pending<'_, bool> {
        Box::pin(self.find_cast(from, to))
    }

    fn pause(&mut self) -> Pending<'_, ()> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.client.session.check_cancel()
        })
    }

    fn notice(&mut self, notice: PgError) {
        self.client.session.notice(&notice);
        self.client.send_notices();
    }

    fn savepoint<'a>(&'a mut self, name: &'a str) -> Pending<'a, ()> {
        Box::pin(self.client.session.savepoint(name))
    }

    fn undo<'a>(&'a mut self, savepoint: &'a str) -> Pending<'a, ()> {
        Box::pin(self.roll_back_to(savepoint))
    }

    fn release<'a>(&'a mut self, savepoint: &'a str) -> Pending<'a, ()> {
        Box::pin(self.client.session.release_savepoint(savepoint))
    }

    fn end_transaction(&mut self, commit: bool, chain: bool) -> Pending<'_, ()> {
        Box::pin(self.end(commit, chain))
    }

    fn depth(&self) -> usize {
        self.client.routines.depth()
    }

    fn call_targets<'a>(&'a mut self, call: &'a str) -> Pending<'a, Vec<Option<Vec<String>>>> {
        Box::pin(async move {
            let loaded = self.client.session.catalog().await?;
            planner::call_targets(call, &loaded.catalog)
        })
    }

    fn calls(&mut self, may_end: bool) {
        self.client.routines.call_may_end = may_end;
    }

    fn open(&mut self, opening: Opening) -> Pending<'_, String> {
        Box::pin(self.open_cursor(opening))
    }
}
