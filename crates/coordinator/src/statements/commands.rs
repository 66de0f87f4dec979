//! Commands of the session's own that run other statements: EXECUTE, DECLARE over calls of functions, MOVE in a portal.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use executor::{Call, Completion, Parameters, Spool};
use pgerror::{PgError, Result, SqlState, field};
use planner::Plan;
use planner::parse::{CopyEndpoint, DeclareCursor, Fetch, FetchDirection, Statement, StatementKind};

use super::plans::{SameSchema, keeps_columns};
use super::{Ran, Statements};
use crate::protocol::prepared::Prepared;
use crate::session_commands::Declared;

impl Statements {
    /// Runs the statement if it is one of the session's own; `None` if it has to be planned.
    pub(super) async fn command(&mut self, statement: &Statement, call: &Call) -> Result<Option<Ran>> {
        if let Some(executed) = statement.executed()? {
            let (prepared, arguments) = self.arguments_of(&executed.name, &executed.arguments).await?;
            let Some(query) = &prepared.statement else { return Ok(None) };
            let constants = self.own.session.constants(&arguments, &prepared.description.parameters).await?;
            let statement = statement.with_executed(query, &constants)?;
            let ran = Box::pin(self.execute_inner(&statement, call)).await?;
            // PostgreSQL counts the rows of an EXECUTE that gives none.
            let counts =
                matches!(&ran, Ran::Done(Completion::Tag(tag)) if tag == "CREATE TABLE AS" && statement.skips_data());
            return Ok(Some(if counts { Ran::Done(Completion::tag("SELECT 0")) } else { ran }));
        }
        // What makes the table on all nodes takes no parameters.
        if statement.kind == StatementKind::CreateTableAs && statement.parameters > 0 {
            let statement = statement.with_constants(&self.bound(statement.parameters, call).await?)?;
            let call = Call { parameters: Some(Arc::default()), ..call.clone() };
            return Box::pin(self.execute_inner(&statement, &call)).await.map(Some);
        }
        let done = match &statement.kind {
            StatementKind::Execute { name, arguments } => {
                return self.execute_named(name, arguments, statement, call).await.map(Some);
            }
            StatementKind::DeclareCursor(declare) => {
                let declared = self.declare_cursor(declare, statement, call).await;
                declared.map(Some).map_err(|error| error.moved(declare.inner.offset))?
            }
            StatementKind::Fetch(fetch) if let Some(portal) = self.own.portal_called(&fetch.cursor) => {
                self.move_portal(&portal, fetch).await.map(Some)?
            }
            _ => self.own.command(statement, call).await?,
        };
        if done.is_some() {
            executor::count_command(&statement.kind);
        }
        Ok(done.map(Ran::Done))
    }

    /// DECLARE. Errors have their places in the query.
    pub(super) async fn declare_cursor(
        &mut self,
        declare: &DeclareCursor,
        statement: &Statement,
        call: &Call,
    ) -> Result<Completion> {
        let is_alone = self.own.begin_declare(declare, self.routines.depth() > 0)?;
        let made = match self.own.declare(declare, statement, is_alone, call).await {
            Ok(Declared::Made(cursor)) => Ok(cursor),
            Ok(Declared::OverRows(of)) => match self.runner().kept_rows(&of.query, call).await {
                Ok(rows) => self.own.declare_over(declare, &of, &rows).await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        self.own.end_declare(declare, is_alone, made).await
    }

    /// MOVE and CLOSE know a portal that Bind made as a cursor, one that goes forward only.
    async fn move_portal(&mut self, name: &Bytes, fetch: &Fetch) -> Result<Completion> {
        if !fetch.is_move || fetch.count == 0 {
            return Err(PgError::unsupported("FETCH from a portal of the extended protocol")
                .hint("Send Execute for the portal, or use DECLARE."));
        }
        let portal = self.own.portals.find(name)?;
        portal.may_run(name)?;
        if portal.prepared.description.fields.is_none() {
            // PostgreSQL's own words, of `PortalRunFetch` in `pquery.c`.
            return Err(PgError::internal("unsupported portal strategy"));
        }
        let (FetchDirection::Forward, Ok(rows_max)) = (fetch.direction, usize::try_from(fetch.count)) else {
            let message = "cursor can only scan forward";
            return Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                .hint("Declare it with SCROLL option to enable backward scan."));
        };
        let mut portal = self.own.portals.take(name)?;
        if portal.suspended.is_none()
            && let Some(statement) = &portal.prepared.clone().statement
        {
            let mut spool = Spool::of(self.own.session.work_mem());
            if let Completion::Tag(tag) = Box::pin(self.execute(statement, &portal.call, Some(&mut spool))).await? {
                portal.suspended = Some((spool, tag));
            }
        }
        let skipped = portal.suspended.as_mut().map(|(spool, _)| spool.take(rows_max, &mut BytesMut::new()));
        self.own.portals.put(name.clone(), portal);
        let (moved, _) = skipped.transpose()?.unwrap_or_default();
        Ok(Completion::Tag(format!("MOVE {moved}")))
    }

    async fn execute_named(
        &mut self,
        name: &str,
        arguments: &[String],
        execute: &Statement,
        call: &Call,
    ) -> Result<Ran> {
        let given = self.arguments_of(name, arguments).await;
        let (prepared, values) = given.map_err(|error| placed_in_list(error, &execute.sql, arguments))?;
        let Some(statement) = prepared.statement.clone() else { return Ok(Ran::Done(Completion::tag("EXECUTE"))) };
        self.own.refuse_changed_result(&prepared).await?;
        let types = prepared.description.parameters.clone();
        let parameters = Parameters { types, formats: Vec::new(), values };
        let call = Call { parameters: Some(Arc::new(parameters)), ..call.clone() };
        Box::pin(self.execute_inner(&statement, &call)).await
    }

    /// The values of so many parameters as constants in SQL.
    async fn bound(&mut self, count: usize, call: &Call) -> Result<Vec<String>> {
        let parameters: Vec<String> = (1..=count).map(|number| format!("${number}")).collect();
        let call = Call { parameters: call.parameters.clone(), ..Call::simple() };
        self.values_of(&format!("SELECT {}", parameters.join(", ")), &call).await
    }

    /// A prepared statement with the values of its arguments.
    async fn arguments_of(&mut self, name: &str, arguments: &[String]) -> Result<(Arc<Prepared>, Vec<Option<Bytes>>)> {
        let prepared = self.own.find_prepared(name.as_bytes()).await?;
        let types = &prepared.description.parameters;
        // PostgreSQL looks at arguments only if there are parameters.
        let arguments = if types.is_empty() { &[] } else { arguments };
        if arguments.len() != types.len() {
            return Err(PgError::new(
                SqlState::SYNTAX_ERROR,
                format!("wrong number of parameters for prepared statement \"{name}\""),
            )
            .detail(format!("Expected {} parameters but got {}.", types.len(), arguments.len())));
        }
        if types.iter().any(|of| *of >= catalog::FIRST_USER_OID) {
            self.own.session.refuse_users_code_passed(&arguments.join(", "), &Call::simple()).await?;
        }
        let arguments = self.for_home(arguments).await?;
        let values = self.own.session.evaluate(&arguments, types).await?;
        Ok((prepared, values))
    }

    /// Arguments that the home node can work out: what it cannot is run as a statement, and becomes constants.
    async fn for_home(&mut self, arguments: &[String]) -> Result<Vec<String>> {
        let sql = format!("SELECT {}", arguments.join(", "));
        let is_for_home = match planner::parse(&sql)?.as_slice() {
            [statement] => self.own.session.is_for_home(statement).await?,
            _ => true,
        };
        if is_for_home {
            return Ok(arguments.to_vec());
        }
        self.values_of(&sql, &Call::simple()).await
    }

    /// The only row of a query, as constants in SQL.
    async fn values_of(&mut self, sql: &str, call: &Call) -> Result<Vec<String>> {
        let (_, (fields, rows)) = self.runner().captured(sql, call).await?;
        let types: Vec<u32> = fields.iter().flatten().map(|field| field.type_oid).collect();
        self.own.session.constants(&rows.into_iter().next().unwrap_or_default(), &types).await
    }

    async fn execute_inner(&mut self, statement: &Statement, call: &Call) -> Result<Ran> {
        if let StatementKind::Copy(copy) = &statement.kind {
            self.own.may_copy(copy).await?;
            if copy.source == CopyEndpoint::Client {
                return Err(PgError::unsupported("COPY inside EXECUTE").hint("Send the COPY itself."));
            }
        }
        let by_key = self.own.at_current(statement).await?;
        let statement = by_key.as_ref().unwrap_or(statement);
        let plan = self.own.session.plan(statement, call, None).await?;
        if matches!(plan, Plan::Session) {
            return Err(PgError::unsupported("EXECUTE of a command of the session, which only Parse can prepare,")
                .hint("Send Bind and Execute for it, or the command itself."));
        }
        let schema = self.own.session.schema_version();
        match self.run_plan(&plan, statement, call, None).await {
            Err(_) if self.own.session.gathers() => self.run_anew(statement, call, None, None).await,
            Err(_)
                if !self.own.session.in_block() && self.own.session.must_replan() && keeps_columns(statement, call) =>
            {
                self.run_anew(statement, call, None, None).await
            }
            Err(error)
                if !self.own.session.in_block()
                    && self.own.session.must_replan()
                    && self.own.session.schema_is(schema) =>
            {
                self.run_anew(statement, call, None, Some(SameSchema::new(schema, error))).await
            }
            result => result,
        }
    }
}

/// An error in a list of arguments, with its place in the statement that has them.
fn placed_in_list(error: PgError, sql: &str, arguments: &[String]) -> PgError {
    match (sql.find(&arguments.join(", ")), error.text(field::POSITION).parse::<usize>()) {
        (Some(at), Ok(position)) => error.position(sql[..at].chars().count() + position),
        _ => error.without(field::POSITION),
    }
}
