//! SQL cursors: DECLARE, FETCH, MOVE, CLOSE.
//!
//! A cursor lives in a backend of one node. A query that one node answers alone is declared there as it is; any other is
//! gathered into a temp table on the home node first and the cursor reads that, so PostgreSQL itself does SCROLL,
//! BACKWARD, ABSOLUTE and the rest.

use catalog::NodeId;
use executor::{Call, Completion, Output};
use pgerror::{PgError, Result, SqlState};
use pgproto::backend::Field;
use planner::Plan;
use planner::parse::{DeclareCursor, Statement};

use crate::client::{Client, watched};

/// Where a cursor lives.
pub(crate) struct Cursor {
    node: NodeId,
    hold: bool,
    /// It reads a temp table of its own.
    gathered: bool,
}

impl Client {
    pub(crate) async fn declare_cursor(
        &mut self,
        declare: &DeclareCursor,
        statement: &Statement,
        call: &Call,
    ) -> Result<Completion> {
        if !self.session.in_block() || self.implicit_block {
            if declare.hold {
                return Err(PgError::unsupported("DECLARE CURSOR WITH HOLD outside a transaction block")
                    .hint("Declare and read the cursor inside BEGIN … COMMIT."));
            }
            return Err(PgError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                "DECLARE CURSOR can only be used in transaction blocks",
            ));
        }
        if declare.hold {
            return Err(PgError::unsupported("a cursor WITH HOLD").hint("Read the cursor before the transaction ends."));
        }
        if self.cursors.contains_key(&declare.name) {
            return Err(PgError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{}\" already exists", declare.name),
            ));
        }
        planner::check_cursor(&declare.inner)?;
        let plan = self.session.plan(&declare.inner, call, None).await?;
        let gathered = !matches!(plan, Plan::Forward(_));
        let node = match &plan {
            Plan::Forward(forward) => {
                let prefix = declaration(declare);
                self.session.declare_on_node(&forward.nodes, &format!("{prefix}{}", forward.sql), call).await?
            }
            Plan::Scatter(scatter) if !scatter.writes => {
                let input = planner::Input {
                    table: "loxo_g1".into(),
                    nodes: scatter.nodes.clone(),
                    sql: scatter.sql.clone(),
                    after_create: Vec::new(),
                };
                let whole = planner::FinalSql::plain("TABLE pg_temp.loxo_g1");
                let (prefix, name) = (declaration(declare), &declare.name);
                let inputs = [input];
                let cancel = self.session.cancel_set();
                let work = self.session.declare_gathered(&inputs, &whole, &prefix, name, &declare.inner.sql, call);
                watched(&mut self.reader, &cancel, work).await?
            }
            Plan::Gather(gather) => {
                let prefix = declaration(declare);
                let cancel = self.session.cancel_set();
                let work = self.session.declare_gathered(
                    &gather.inputs,
                    &gather.final_sql,
                    &prefix,
                    &declare.name,
                    &declare.inner.sql,
                    call,
                );
                watched(&mut self.reader, &cancel, work).await?
            }
            _ => {
                return Err(
                    PgError::unsupported("a cursor over this statement").hint("Run the statement without a cursor.")
                );
            }
        };
        debug_assert!(!statement.sql.is_empty());
        self.cursors.insert(declare.name.clone(), Cursor { node, hold: declare.hold, gathered });
        Ok(Completion::tag("DECLARE CURSOR"))
    }

    pub(crate) async fn fetch(&mut self, cursor: &str, statement: &Statement, call: &Call) -> Result<Completion> {
        let node = self.cursor(cursor)?.node;
        let cancel = self.session.cancel_set();
        let mut output = Output::client(&mut self.writer);
        let work = self.session.forward_to(node, &statement.sql, call, &mut output);
        watched(&mut self.reader, &cancel, work).await
    }

    pub(crate) async fn close_cursor(&mut self, name: Option<&str>) -> Result<Completion> {
        let Some(name) = name else {
            let names: Vec<String> = self.cursors.keys().cloned().collect();
            for name in names {
                self.close_one(&name).await?;
            }
            return Ok(Completion::tag("CLOSE CURSOR ALL"));
        };
        self.close_one(name).await?;
        Ok(Completion::tag("CLOSE CURSOR"))
    }

    async fn close_one(&mut self, name: &str) -> Result<()> {
        let (node, gathered) = {
            let cursor = self.cursor(name)?;
            (cursor.node, cursor.gathered)
        };
        self.session.command_on(node, &format!("CLOSE {}", catalog::quote_identifier(name))).await?;
        if gathered {
            self.session.drop_cursor_table(name).await?;
        }
        self.cursors.remove(name);
        Ok(())
    }

    /// Result columns of a cursor.
    pub(crate) async fn cursor_fields(&mut self, name: &str) -> Result<Option<Vec<Field>>> {
        let node = self.cursor(name)?.node;
        self.session.describe_on(node, &format!("FETCH 0 FROM {}", catalog::quote_identifier(name))).await
    }

    fn cursor(&self, name: &str) -> Result<&Cursor> {
        self.cursors
            .get(name)
            .ok_or_else(|| PgError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist")))
    }

    /// Cursors end with the transaction unless they were declared WITH HOLD.
    pub(crate) fn forget_cursors(&mut self) {
        self.cursors.retain(|_, cursor| cursor.hold);
    }
}

/// `DECLARE name … CURSOR FOR `.
fn declaration(declare: &DeclareCursor) -> String {
    let binary = if declare.binary { " BINARY" } else { "" };
    let scroll = match declare.scroll {
        Some(true) => " SCROLL",
        Some(false) => " NO SCROLL",
        None => "",
    };
    format!("DECLARE {}{binary}{scroll} CURSOR FOR ", catalog::quote_identifier(&declare.name))
}
