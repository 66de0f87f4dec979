//! SQL cursors: DECLARE, FETCH, MOVE, CLOSE.
//!
//! A cursor lives in a backend of one node. A query that one node answers alone is declared there as it is; any other is
//! gathered into a temp table on the home node first and the cursor reads that, so PostgreSQL itself does SCROLL,
//! BACKWARD, ABSOLUTE and the rest. A READ ONLY block can make no temp tables: there a session beside it does.
//!
//! One WITH HOLD lives on the home node, whose backend then stays with the session: at COMMIT PostgreSQL keeps its
//! rows, in bounded memory and a file. No backend with such a cursor can be prepared, so it is the commit point.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use catalog::NodeId;
use executor::{Call, Completion, Slot};
use pgerror::{PgError, Result, SqlState};
use pgproto::backend::Field;
use planner::parse::{DeclareCursor, Fetch, Statement};
use planner::{ExchangePlan, Input, LockTarget, Locked, OfRows, Plan, Routine};

use super::client_session::ClientSession;
use super::current_of::Places;

/// What came of a DECLARE.
pub(crate) enum Declared {
    Made(Cursor),
    /// The rows are to be computed first, by the functions that the query calls.
    OverRows(OfRows),
}

/// Where a cursor lives.
pub(crate) struct Cursor {
    pub(super) slot: Slot,
    hold: bool,
    /// The transaction that made it has committed.
    pub(super) is_kept: bool,
    /// It reads a temp table of its own.
    gathered: bool,
    /// Its rows were computed by functions that see changes of the transaction.
    sees_changes: bool,
    /// There has been one since.
    is_stale: bool,
    /// The rows that it locks, if they can be found again: its last columns say where they are.
    pub(super) places: Option<Places>,
}

impl Cursor {
    fn at(slot: Slot) -> Self {
        Self { slot, hold: false, is_kept: false, gathered: false, sees_changes: false, is_stale: false, places: None }
    }
}

impl ClientSession {
    /// Begins a DECLARE; is it a transaction of its own?
    pub(crate) fn begin_declare(&mut self, declare: &DeclareCursor, in_routine: bool) -> Result<bool> {
        let is_alone = !self.session.in_block();
        if !declare.hold && !in_routine {
            self.require_block_or_several("DECLARE CURSOR")?;
        }
        if self.cursors.contains_key(&declare.name) {
            return Err(PgError::new(
                SqlState::DUPLICATE_CURSOR,
                format!("cursor \"{}\" already exists", declare.name),
            ));
        }
        if is_alone {
            self.session.begin(None, "", None);
        }
        Ok(is_alone)
    }

    /// Ends a DECLARE whose cursor has been made, or not.
    pub(crate) async fn end_declare(
        &mut self,
        declare: &DeclareCursor,
        is_alone: bool,
        made: Result<Cursor>,
    ) -> Result<Completion> {
        let declared = match made {
            Ok(cursor) => self.session.plan_holds_to_the_end().await.map(|()| cursor),
            Err(error) => Err(error),
        };
        match declared {
            Ok(cursor) => drop(self.cursors.insert(declare.name.clone(), cursor)),
            Err(error) => {
                if is_alone {
                    self.session.rollback().await;
                }
                return Err(error);
            }
        }
        if is_alone {
            let committed = self.commit().await;
            self.transaction_ended(committed.is_ok());
            committed?;
        }
        Ok(Completion::tag("DECLARE CURSOR"))
    }

    /// Makes the cursor where it can live.
    pub(crate) async fn declare(
        &mut self,
        declare: &DeclareCursor,
        statement: &Statement,
        is_alone: bool,
        call: &Call,
    ) -> Result<Declared> {
        planner::check_cursor(&declare.inner)?;
        let plan = self.session.plan(&declare.inner, call, None).await?;
        let cancel = self.session.cancel_set();
        self.socket.watch().during(&cancel, pin!(self.session.lock_copies_first())).await?;
        let home = self.session.home();
        let all_of = |input: Input| (vec![input], planner::FinalSql::plain(WHOLE));
        let (inputs, final_sql) = match plan {
            // Where rows are locked: PostgreSQL says that it cannot hold such a cursor.
            Plan::Forward(forward) if !declare.hold || forward.writes || forward.nodes.contains(&home) => {
                let nodes = if forward.nodes.contains(&home) && declare.hold { vec![home] } else { forward.nodes };
                let placed = match nodes.as_slice() {
                    [node] if forward.writes && !declare.hold && forward.sql == declare.inner.sql.as_ref() => {
                        self.session.with_places(&declare.inner, *node).await?
                    }
                    _ => None,
                };
                let sql = placed.as_ref().map_or(&forward.sql, |(sql, _)| sql);
                let made = self.session.declare_on_node(&nodes, &format!("{}{sql}", declaration(declare)), call).await;
                let node = match made {
                    Err(error) if placed.is_some() => {
                        return Err(self.session.as_read_by_home(&declare.inner.sql, error).await);
                    }
                    node => node?,
                };
                let cursor = self.made(declare, node.into(), false);
                return Ok(Declared::Made(self.with_places(cursor, placed.map(|(_, targets)| targets))));
            }
            Plan::Forward(forward) => all_of(whole(forward.nodes, forward.sql, None)),
            Plan::Scatter(scatter) if !scatter.writes => all_of(whole(scatter.nodes, scatter.sql, None)),
            Plan::ExchangePlan(exchange_plan) => {
                let (nodes, sql) = (exchange_plan.nodes.clone(), declare.inner.sql.to_string());
                all_of(whole(nodes, sql, Some(Arc::new(*exchange_plan))))
            }
            Plan::Gather(gather) => (gather.inputs, gather.final_sql),
            Plan::Locked(locked) => return self.declare_locked(declare, *locked, call).await.map(Declared::Made),
            Plan::Routine(_) => return self.over_rows(declare, statement, is_alone, call).await,
            _ => return Err(refused()),
        };
        if declare.hold && self.session.is_read_only() {
            return Err(PgError::unsupported(
                "a cursor WITH HOLD over rows of several nodes in a READ ONLY transaction",
            )
            .hint("Declare it outside the transaction block, or without HOLD."));
        }
        let (prefix, name, query) = (declaration(declare), &declare.name, &declare.inner.sql);
        let cancel = self.session.cancel_set();
        let work = self.session.declare_gathered(&inputs, &final_sql, &prefix, name, query, declare.hold, call);
        let slot = self.socket.watch().during(&cancel, pin!(work)).await?;
        Ok(Declared::Made(self.made(declare, slot, true)))
    }

    /// A cursor over a query that the coordinator runs in steps: its rows are kept. PostgreSQL does so only with a cursor that outlives
    /// its transaction, when that ends; functions that may change rows are called when rows are fetched otherwise.
    async fn over_rows(
        &mut self,
        declare: &DeclareCursor,
        statement: &Statement,
        is_alone: bool,
        call: &Call,
    ) -> Result<Declared> {
        let of = match self.session.plan(statement, call, None).await? {
            Plan::Routine(routine) => match *routine {
                Routine::Rows(of) => of,
                _ => return Err(refused()),
            },
            _ => return Err(refused()),
        };
        if of.may_write && !(declare.hold && is_alone) {
            return Err(PgError::unsupported("a cursor over calls of functions that may change rows")
                .detail("PostgreSQL calls them when rows are fetched.")
                .hint("Declare the cursor WITH HOLD outside of a transaction block, run the query without a cursor, or declare the functions STABLE if they only read."));
        }
        Ok(Declared::OverRows(of))
    }

    /// Makes the cursor over rows that have been computed, given as a query of constants.
    pub(crate) async fn declare_over(&mut self, declare: &DeclareCursor, of: &OfRows, rows: &str) -> Result<Cursor> {
        let node = self.session.home();
        let sql = format!("{}{rows}", declaration(declare));
        let node = self.session.declare_on_node(&[node], &sql, &Call::default()).await?;
        Ok(Cursor { sees_changes: of.is_volatile, ..self.made(declare, node.into(), false) })
    }

    /// A statement may change rows: what functions have made of them for a cursor is another thing then.
    pub(crate) fn rows_may_change(&mut self) {
        self.cursors.values_mut().for_each(|cursor| cursor.is_stale = cursor.sees_changes);
    }

    /// One that locks its rows, which are all locked at once.
    async fn declare_locked(&mut self, declare: &DeclareCursor, locked: Locked, call: &Call) -> Result<Cursor> {
        let refuse = |what: &str, must: &str| {
            Err(PgError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("DECLARE {what} ... FOR UPDATE is not supported"),
            )
            .detail(format!("{must} cursors must be READ ONLY.")))
        };
        if declare.hold {
            return refuse("CURSOR WITH HOLD", "Holdable");
        }
        if declare.scroll == Some(true) {
            return refuse("SCROLL CURSOR", "Scrollable");
        }
        let declare = &DeclareCursor { scroll: Some(false), ..declare.clone() };
        let (prefix, name, query) = (declaration(declare), &declare.name, &declare.inner.sql);
        let keeps_places = self.session.may_show_places(&locked.targets).await?;
        let targets = keeps_places.then(|| locked.targets.clone());
        let plan = Plan::Locked(Box::new(Locked { keeps_places, ..locked }));
        let cancel = self.session.cancel_set();
        let work = self.session.declare_rows(&plan, &prefix, name, query, call);
        let slot = self.socket.watch().during(&cancel, pin!(work)).await?;
        let cursor = self.made(declare, slot, true);
        Ok(self.with_places(cursor, targets))
    }

    fn with_places(&mut self, cursor: Cursor, targets: Option<Vec<LockTarget>>) -> Cursor {
        let path = self.session.settings_mut().path_fingerprint();
        Cursor { places: targets.map(|targets| Places::of(targets, path)), ..cursor }
    }

    fn made(&mut self, declare: &DeclareCursor, slot: Slot, gathered: bool) -> Cursor {
        if declare.hold {
            self.session.keep_cursor(slot);
        }
        Cursor { hold: declare.hold, gathered, ..Cursor::at(slot) }
    }

    pub(super) async fn fetch(&mut self, fetch: &Fetch, statement: &Statement, call: &Call) -> Result<Completion> {
        let cursor = self.cursor(&fetch.cursor).await?;
        if cursor.is_stale && !cursor.is_kept {
            return Err(PgError::unsupported(
                "FETCH after a change of rows from a cursor over calls of VOLATILE functions",
            )
            .detail("PostgreSQL would call them now, when the rows were computed by DECLARE.")
            .hint("Declare the functions STABLE, or the cursor after the change."));
        }
        if cursor.places.is_some() {
            return self.fetch_placed(fetch, statement, call).await;
        }
        let slot = cursor.slot;
        self.session.settle_cursor_holder(slot).await?;
        let cancel = self.session.cancel_set();
        let (watch, mut output) = self.socket.split(None);
        // The next cursor of this name may have other columns.
        let call = Call { one_off: true, ..call.clone() };
        let work = self.session.forward_to(slot, &statement.sql, &call, &mut output);
        watch.during(&cancel, pin!(work)).await
    }

    pub(super) async fn close_cursor(&mut self, name: Option<&str>) -> Result<Completion> {
        let Some(name) = name else {
            let names: Vec<String> = self.cursors.keys().cloned().collect();
            for name in names {
                self.close_one(&name).await?;
            }
            self.portals.close_all();
            return Ok(Completion::tag("CLOSE CURSOR ALL"));
        };
        self.close_one(name).await?;
        Ok(Completion::tag("CLOSE CURSOR"))
    }

    /// A portal that Bind made, which SQL may name.
    pub(crate) fn portal_called(&self, name: &str) -> Option<Bytes> {
        if self.is_declared(name) { None } else { self.portals.called(name) }
    }

    pub(crate) fn is_declared(&self, name: &str) -> bool {
        self.cursors.contains_key(name)
    }

    async fn close_one(&mut self, name: &str) -> Result<()> {
        if let Some(portal) = self.portal_called(name) {
            self.portals.close(&portal);
            return Ok(());
        }
        let (slot, gathered) = {
            let cursor = self.cursor(name).await?;
            (cursor.slot, cursor.gathered)
        };
        self.session.command_on(slot, &format!("CLOSE {}", catalog::quote_identifier(name))).await?;
        if gathered {
            self.session.drop_cursor_table(slot, name).await?;
        }
        self.cursors.remove(name);
        Ok(())
    }

    /// Result columns of a cursor.
    pub(crate) async fn cursor_fields(&mut self, name: &str) -> Result<Option<Vec<Field>>> {
        let cursor = self.cursor(name).await?;
        let (slot, places) = (cursor.slot, cursor.places.as_ref().map_or(0, Places::columns));
        let sql = format!("FETCH 0 FROM {}", catalog::quote_identifier(name));
        let mut fields = self.session.describe_on(slot, &sql).await?;
        if let Some(fields) = &mut fields {
            fields.truncate(fields.len().saturating_sub(places));
        }
        Ok(fields)
    }

    /// One that was declared, or that a function has opened on its node.
    pub(super) async fn cursor(&mut self, name: &str) -> Result<&Cursor> {
        if !self.cursors.contains_key(name)
            && self.session.in_block()
            && let Some(slot) = self.session.node_of_cursor(name).await?
        {
            self.cursors.insert(name.to_owned(), Cursor::at(slot));
        }
        self.cursors
            .get(name)
            .ok_or_else(|| PgError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist")))
    }

    /// Cursors end with their transaction; those WITH HOLD live on if it committed.
    pub(crate) fn transaction_ended(&mut self, committed: bool) {
        self.cursors.retain(|_, cursor| cursor.is_kept || (committed && cursor.hold));
        for cursor in self.cursors.values_mut() {
            // The temp table it read is gone: PostgreSQL has kept the rows.
            (cursor.is_kept, cursor.gathered) = (true, false);
        }
    }

    /// After ROLLBACK TO: cursors that were made since the savepoint are gone, and PostgreSQL knows which.
    pub(crate) async fn forget_lost_cursors(&mut self) -> Result<()> {
        let slots: std::collections::BTreeSet<Slot> = self.cursors.values().map(|cursor| cursor.slot).collect();
        for slot in slots {
            let open = self.session.cursor_names(slot).await?;
            self.cursors.retain(|name, cursor| cursor.slot != slot || open.contains(name));
        }
        Ok(())
    }
}

fn refused() -> PgError {
    PgError::unsupported("a cursor over this statement").hint("Run the statement without a cursor.")
}

/// Reads all of [`whole`].
const WHOLE: &str = "TABLE pg_temp.loxo_g1";

/// The rows of a query as an input.
fn whole(nodes: Vec<NodeId>, sql: String, exchange_plan: Option<Arc<ExchangePlan>>) -> Input {
    Input { table: "loxo_g1".into(), nodes, sql, indexes: Vec::new(), exchange_plan }
}

/// `DECLARE name … CURSOR FOR `.
fn declaration(declare: &DeclareCursor) -> String {
    let binary = if declare.binary { " BINARY" } else { "" };
    let scroll = match declare.scroll {
        Some(true) => " SCROLL",
        Some(false) => " NO SCROLL",
        None => "",
    };
    let hold = if declare.hold { " WITH HOLD" } else { "" };
    format!("DECLARE {}{binary}{scroll} CURSOR{hold} FOR ", catalog::quote_identifier(&declare.name))
}
