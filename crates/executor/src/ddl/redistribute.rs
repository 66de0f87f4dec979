//! `ALTER TABLE t DISTRIBUTE BY … | TO NODE … | TO GROUP … | ADD NODE … | DELETE NODE …` of a table with rows.
//!
//! ```text
//!  lock on all nodes ─ copy under the new distribution ─ empty the table ─ note the new distribution ─ each node: fill from its copy
//! ```
//!
//! A hash or modulo table that becomes replicated is not emptied: each node adds what it lacks, so that foreign keys may refer
//! to the table all the while.
//!
//! One transaction does it all, so it happens on all nodes or on none and may be rolled back. The table stays the same object,
//! with its indexes, grants and dependants; its triggers do not fire.

use catalog::{Generated, NodeId, quote_identifier, quote_literal};
use pgerror::{PgError, Result, SqlState};
use planner::{Effect, Placement, Redistribute};

use crate::backend::call::Call;
use crate::dml::key_moves::node_of_row;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::session::Session;

impl Session {
    /// See the module's page.
    pub(crate) async fn redistribute(&mut self, moves: &[Redistribute]) -> Result<Completion> {
        self.atomically(async |this| {
            this.must_own(moves).await?;
            this.redistribute_in_block(moves).await
        })
        .await?;
        Ok(Completion::tag("ALTER TABLE"))
    }

    /// As for any ALTER TABLE. The locks alone may be taken by any role that may write the tables.
    pub(crate) async fn must_own(&mut self, moves: &[Redistribute]) -> Result<()> {
        for Redistribute { target, .. } in moves {
            let owned = format!(
                "SELECT FROM pg_class WHERE oid = {}::regclass AND pg_has_role(relowner, 'USAGE')",
                quote_literal(&target.qualified_name())
            );
            if self.rows_on(self.home, &planner::own_text(&owned)?).await?.is_empty() {
                let message = format!("must be owner of table {}", target.name);
                return Err(PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
        }
        Ok(())
    }

    /// Tables that an UPDATE wants without a distribution key.
    pub(crate) async fn auto_replicate(&mut self, moves: &[Redistribute]) -> Result<()> {
        if self.is_read_only() {
            let message = "cannot execute UPDATE in a read-only transaction";
            return Err(PgError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
        }
        let table = moves.last().map_or("", |moved| &moved.target.name).to_owned();
        self.redistribute(moves).await.map(|_| ()).map_err(|error| match error.code() {
            SqlState::INSUFFICIENT_PRIVILEGE => PgError::unsupported(format!(
                "a change of the distribution key of table \"{table}\""
            ))
            .detail("The table would have to give way, which only its owner can make it do.")
            .hint("DELETE the row and INSERT it again, or let the owner run ALTER TABLE … DISTRIBUTE BY ROUNDROBIN."),
            _ => error,
        })
    }

    pub(crate) async fn redistribute_in_block(&mut self, moves: &[Redistribute]) -> Result<()> {
        for moved in moves {
            self.redistribute_one(moved).await?;
        }
        Ok(())
    }

    /// The table itself, without what is below it.
    async fn redistribute_one(&mut self, plan: &Redistribute) -> Result<()> {
        if let Some(block) = &mut self.block {
            block.ran_ddl = true;
        }
        let table = plan.target.qualified_name();
        if !plan.moves_nothing() {
            self.refuse_old_snapshot("moving the rows of a table")?;
        }
        self.begin_schema_change(&format!("ALTER TABLE {table}")).await?;
        self.on_every_node(&format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")).await?;
        // The new placement may be one of an older: ADD NODE, say. From here on nobody else moves the table.
        self.schema_changed();
        self.plan_holds_to_the_end().await?;
        self.check_dependants(plan).await?;
        if plan.moves_nothing() || self.is_empty_everywhere(&table).await? {
            self.note_placement(plan, plan.target.name.clone()).await?;
            self.watch_moves(plan).await?;
            self.schema_changed();
            return Ok(());
        }
        // Unlike PostgreSQL's ALTER TABLE it is the caller, not the owner, who writes the rows again.
        let rows = self.rows_on(self.home, "SHOW is_superuser").await?;
        if rows.iter().flatten().flatten().any(|value| value.as_ref() == b"on") {
            self.refuse_users_code(&[&plan.target]).await?;
        }
        let triggers = self.triggers_of(self.home, &table).await?;
        for (name, _) in &triggers {
            self.on_every_node(&format!("ALTER TABLE {table} DISABLE TRIGGER {name}")).await?;
        }
        let unvalidated = self.unvalidated(self.home, std::slice::from_ref(&table), "cf").await?;
        for constraint in &unvalidated {
            self.on_every_node(&constraint.off).await?;
        }
        self.refill(plan, &table).await?;
        for constraint in &unvalidated {
            self.on_every_node(&constraint.on).await?;
        }
        for (name, enable) in &triggers {
            self.on_every_node(&format!("ALTER TABLE {table} {enable} TRIGGER {name}")).await?;
        }
        if !triggers.is_empty() {
            self.note_effect(&Effect::TendCopy { table: table.clone() }).await?;
        }
        self.watch_moves(plan).await?;
        self.schema_changed();
        Ok(())
    }

    /// The columns of a foreign key may have become those of the distribution key.
    async fn watch_moves(&mut self, plan: &Redistribute) -> Result<()> {
        match plan.target.foreign_keys.iter().any(|key| key.acts) {
            true => self.note_effect(&Effect::WatchMoves { table: plan.target.qualified_name() }).await,
            false => Ok(()),
        }
    }

    async fn refill(&mut self, plan: &Redistribute, table: &str) -> Result<()> {
        let target = &plan.target;
        let stored = target.columns.iter().filter(|c| !matches!(c.generated, Generated::Stored | Generated::Virtual));
        let columns: Vec<String> = stored.map(|column| quote_identifier(&column.name)).collect();
        if columns.is_empty() {
            return Err(PgError::unsupported("redistribution of a table without columns").hint("Add a column first."));
        }
        let columns = columns.join(", ");
        let name = format!("loxo_copy_{}", target.oid);
        let copy = format!("{}.{}", quote_identifier(&target.schema), quote_identifier(&name));
        self.on_every_node(&format!("CREATE UNLOGGED TABLE {copy} (LIKE {table})")).await?;
        self.note_placement(plan, name).await?;
        // The catalog with the copy in it.
        self.schema_changed();
        let fill =
            self.plan_text(&format!("INSERT INTO {copy} ({columns}) SELECT {columns} FROM ONLY {table}")).await?;
        self.run_plan(&fill, &Call::default(), &mut Output::nowhere()).await?;
        // What follows changes these tables itself.
        self.plan_holds_to_the_end().await?;
        self.note_placement(plan, target.name.clone()).await?;
        let mut back = format!("INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {copy}");
        match rows_of_other_nodes(plan) {
            Some(condition) => {
                let own = planner::own_text(&format!("SELECT WHERE {condition}"))?;
                back.push_str(own.trim_start_matches("SELECT"));
            }
            None => self.on_every_node(&format!("TRUNCATE ONLY {table}")).await?,
        }
        self.on_every_node(&back).await?;
        self.on_every_node(&format!("DROP TABLE {copy}")).await?;
        self.note_effect(&Effect::ForgetMissing).await
    }

    async fn note_placement(&mut self, plan: &Redistribute, name: String) -> Result<()> {
        let (schema, distribution) = (plan.target.schema.clone(), plan.placement.clone());
        self.note_effect(&Effect::CreateTable { schema, name, distribution, by_default: plan.by_default }).await
    }

    async fn is_empty_everywhere(&mut self, table: &str) -> Result<bool> {
        for node in self.context.nodes() {
            if !self.rows_on(node, &format!("SELECT FROM ONLY {table} LIMIT 1")).await?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn note_effect(&mut self, effect: &Effect) -> Result<()> {
        let others: Vec<_> = self.context.nodes().into_iter().filter(|node| *node != self.home).collect();
        self.apply_effect(effect, self.home, &others).await
    }

    /// The home node first: schema changes queue up there.
    pub(super) async fn on_every_node(&mut self, sql: &str) -> Result<()> {
        let others: Vec<_> = self.context.nodes().into_iter().filter(|node| *node != self.home).collect();
        self.run_on(self.home, sql).await?;
        self.run_on_all(&others, sql).await
    }

    /// What hides rows from us.
    async fn check_dependants(&mut self, plan: &Redistribute) -> Result<()> {
        let table = quote_literal(&plan.target.qualified_name());
        let forced = format!(
            "SELECT FROM pg_catalog.pg_class WHERE oid = {table}::pg_catalog.regclass AND relrowsecurity AND relforcerowsecurity"
        );
        if !self.rows_on(self.home, &planner::own_text(&forced)?).await?.is_empty() {
            return Err(PgError::unsupported("redistribution of a table with FORCE ROW LEVEL SECURITY")
                .hint("ALTER TABLE … NO FORCE ROW LEVEL SECURITY for the time being."));
        }
        Ok(())
    }

    /// Names of the triggers that would fire on a node, quoted, and the words that enable them again.
    pub(super) async fn triggers_of(&mut self, node: NodeId, table: &str) -> Result<Vec<(String, &'static str)>> {
        let sql = format!(
            "SELECT pg_catalog.quote_ident(tgname), tgenabled FROM pg_catalog.pg_trigger \
             WHERE tgrelid = {}::pg_catalog.regclass AND NOT tgisinternal AND tgenabled <> 'D' \
             AND tgfoid NOT IN ('loxo.tell_row()'::pg_catalog.regprocedure, 'loxo.tell_move()'::pg_catalog.regprocedure) ORDER BY tgname",
            quote_literal(table)
        );
        let text = |value: Option<bytes::Bytes>| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
        let rows = self.rows_on(node, &planner::own_text(&sql)?).await?;
        rows.into_iter()
            .map(|row| {
                let mut values = row.into_iter().map(text);
                let (name, enabled) = (values.next().unwrap_or_default(), values.next().unwrap_or_default());
                match enabled.as_str() {
                    "O" => Ok((name, "ENABLE")),
                    "R" => Ok((name, "ENABLE REPLICA")),
                    "A" => Ok((name, "ENABLE ALWAYS")),
                    other => Err(PgError::internal(format!("trigger state {other}"))),
                }
            })
            .collect()
    }
}

/// True of the rows that a node does not have yet, if it is to keep those it has: then foreign keys may refer to the table.
fn rows_of_other_nodes(plan: &Redistribute) -> Option<String> {
    let Placement::Replicated { nodes } = &plan.placement else { return None };
    let target = &plan.target;
    if !target.distribution.nodes().iter().all(|node| nodes.contains(node)) {
        return None;
    }
    Some(format!("{} <> (SELECT node_id FROM loxo.identity)", node_of_row(target)?))
}
