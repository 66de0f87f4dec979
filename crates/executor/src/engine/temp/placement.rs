//! In which session the temp tables of a statement are.
//!
//! A transaction that has touched temp tables cannot be PREPAREd, by the user's PREPARE TRANSACTION or as one of several writers. A
//! transaction of our own, for one statement, makes the home node its commit point. But inside the user's block they belong to
//! a session beside it on the home node, whose transaction sees nothing of the block: rows come from the block's own sessions
//! as those of any other node do.
//!
//! ```text
//!  own sessions ── rows ──> BESIDE: inputs, stage, last step ── rows ──> client, or own sessions
//! ```
//!
//! What may not run there ([`planner::runs_apart`]) stays in the block's own session: it reads what only the home node has, or calls
//! functions that may change something. Defaults are computed in the block's own session, whose last values those of sequences
//! are, and come to the rows when these are all there ([`planner::Late`]).

use catalog::{Catalog, quote_identifier};
use pgerror::{PgError, Result};
use planner::{Input, InsertStaged, Late, Plan, SessionFacts, Stage};

use crate::backend::call::Call;
use crate::engine::gather::without_position;
use crate::session::Session;

/// The rows of a stage before they get their late defaults, and these.
const WITHOUT: &str = "loxo_without";
const LATE: &str = "loxo_late";

impl Session {
    /// Does the work, which runs the plan, with its temp tables in the right session.
    pub(crate) async fn apart<T>(
        &mut self,
        plan: impl FnOnce() -> Plan,
        work: impl AsyncFnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if !self.stays_clean() || !self.goes_apart(&plan()).await? {
            return work(self).await;
        }
        self.beside_it(work).await
    }

    /// [`Session::apart`] of a plan that goes there.
    pub(crate) async fn beside_it<T>(&mut self, work: impl AsyncFnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.open_beside("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await?;
        let result = work(self).await;
        self.close_beside().await;
        result
    }

    pub(crate) async fn goes_apart(&mut self, plan: &Plan) -> Result<bool> {
        if !self.stays_clean() {
            return Ok(false);
        }
        self.with_facts(|catalog, facts| Ok(planner::runs_apart(plan, catalog, facts))).await
    }

    /// Asks about names and effects: neither time nor parameters are known.
    pub(crate) async fn with_facts<T>(
        &mut self,
        ask: impl FnOnce(&Catalog, &SessionFacts<'_>) -> Result<T>,
    ) -> Result<T> {
        let loaded = self.catalog().await?;
        let search_path = self.search_path(&loaded.catalog).await?;
        let temporary = self.temp_relations().await?;
        let facts = SessionFacts {
            search_path: &search_path,
            temp_relations: &temporary.names,
            temp_views: &temporary.views,
            temp_code: &temporary.code,
            temp_functions: &temporary.functions,
            temp_types: &temporary.types,
            in_transaction: true,
            clock: None,
            exchanges: planner::Exchanges::No,
            ..self.bare_facts()
        };
        ask(&loaded.catalog, &facts)
    }

    /// The defaults that the stage of an INSERT cannot have where it is: none if that is the block's own session.
    pub(crate) async fn late_defaults(&mut self, insert: &InsertStaged) -> Result<Option<Late>> {
        if self.sink == self.home {
            return Ok(None);
        }
        let late = self.with_facts(|catalog, facts| planner::late_defaults(insert, catalog, facts)).await?;
        Ok(Some(late).filter(|late| !late.defaults.is_empty()))
    }

    /// Gives the rows of a filled stage the defaults that the block's own session computes, so many as there are rows, in their
    /// order: they are copied into a stage that has them.
    pub(crate) async fn add_late(&mut self, insert: &InsertStaged, late: &Late, rows: u64, call: &Call) -> Result<()> {
        let table = quote_identifier(&insert.stage.table);
        // Another name wants the right to make temp tables.
        if self.makes_temp(self.sink).await? {
            self.run_on(self.sink, &format!("ALTER TABLE pg_temp.{table} RENAME TO {WITHOUT}")).await?;
        } else {
            self.create_temp(self.sink, WITHOUT, &late.definitions).await?;
            self.run_on(self.sink, &format!("INSERT INTO pg_temp.{WITHOUT} SELECT * FROM pg_temp.{table}")).await?;
            self.run_on(self.sink, &format!("DROP TABLE pg_temp.{table}")).await?;
        }
        self.create_temp(self.sink, &insert.stage.table, &insert.stage.definitions).await?;
        let list = |text: &dyn Fn(usize, &(String, String)) -> String| {
            late.defaults.iter().enumerate().map(|(at, default)| text(at, default)).collect::<Vec<_>>().join(", ")
        };
        let values = list(&|at, (_, default)| format!("{default} AS loxo_d{at}"));
        let input = Input {
            table: LATE.to_owned(),
            sql: format!("SELECT {values} FROM pg_catalog.generate_series(1, {rows})"),
            nodes: vec![self.home],
            indexes: Vec::new(),
            exchange_plan: None,
        };
        self.leaves.drawn = true;
        self.fill(&input, &Call { parameters: None, ..call.clone() }, false).await.map_err(without_position)?;
        self.links.note_drawn(self.home);
        let is_late = |name: &String| late.defaults.iter().any(|(late, _)| late == name);
        let names = insert.stage.columns.iter().map(|column| quote_identifier(&column.name));
        let names: Vec<String> = names.filter(|name| !is_late(name)).collect();
        let own = |of: &str| names.iter().map(|name| format!(", {of}{name}")).collect::<String>();
        let numbered = |table: &str| {
            format!("(SELECT *, pg_catalog.row_number() OVER (ORDER BY ctid) AS loxo_row FROM pg_temp.{table})")
        };
        let sql = format!(
            "INSERT INTO pg_temp.{table} ({}{}) SELECT {}{} FROM {} AS loxo_d JOIN {} AS loxo_s USING (loxo_row) ORDER BY loxo_row",
            list(&|_, (name, _)| name.clone()),
            own(""),
            list(&|at, _| format!("loxo_d.loxo_d{at}")),
            own("loxo_s."),
            numbered(LATE),
            numbered(WITHOUT),
        );
        self.run_on(self.sink, &sql).await.map_err(|error| rename_stage(without_position(error), &insert.stage))?;
        self.run_on(self.sink, &format!("DROP TABLE pg_temp.{WITHOUT}, pg_temp.{LATE}")).await.map(drop)
    }

    /// Is this a block of the user's that can still be PREPAREd, and hides no table from other sessions?
    pub(crate) fn stays_clean(&self) -> bool {
        let is_clean = self.links.get(self.home).is_none_or(|leased| !leased.temp);
        let may_ask = self.block.as_ref().is_some_and(|block| !block.is_own && !block.hides_schema());
        is_clean && may_ask && self.sink == self.home
    }
}

/// An error about the stage table is meant for the target.
pub(crate) fn rename_stage(error: PgError, stage: &Stage) -> PgError {
    rename_from(error, &stage.table, &stage.target)
}

/// An error about a stage table of the usual name is meant for the target.
pub(crate) fn rename(error: PgError, target: &catalog::Relation) -> PgError {
    rename_from(error, "loxo_stage", target)
}

/// A text in the client's encoding with another name in it.
fn replaced(text: &[u8], from: &str, to: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(at) = rest.windows(from.len()).position(|bytes| bytes == from.as_bytes()) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to.as_bytes());
        rest = &rest[at + from.len()..];
    }
    out.extend_from_slice(rest);
    out
}

fn rename_from(error: PgError, stage: &str, target: &catalog::Relation) -> PgError {
    let mut error = error;
    for code in [pgerror::field::MESSAGE, pgerror::field::TABLE, pgerror::field::WHERE] {
        if let Some(text) = error.get(code) {
            let text = replaced(text, stage, &target.name);
            error = error.with(code, text);
        }
    }
    match error.get(pgerror::field::SCHEMA) {
        Some(_) => error.with(pgerror::field::SCHEMA, target.schema.clone()),
        None => error,
    }
}
