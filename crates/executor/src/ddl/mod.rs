//! Statements that run on every datanode: schema changes, TRUNCATE, maintenance.
//!
//! A schema change runs on the primary datanode, where most errors show, and after that on all others at once: two that concern
//! the same object queue up on the primary one by PostgreSQL's own locks, others do not wait for each other. Our own metadata
//! changes in the same transaction. Commit raises the catalog's version (one row of `loxo.catalog_version`, so that commits of
//! schema changes come one by one) and tells every coordinator to drop its catalog before the client gets its answer. A
//! transaction that keeps its first snapshot could not change that row once another has, so it does so at its first schema
//! change, and the others' commits wait for it. So does one that may lock tables whose definitions every coordinator has to
//! print after the next commit: all would wait for it, not only schema changes.

mod judged_schema;
mod judged_triggers;
pub(crate) mod redistribute;
mod shared_objects;
mod unvalidated;
mod verbose;

use std::borrow::Cow;
use std::collections::HashMap;

use catalog::{NodeId, quote_identifier, quote_literal};
use pgerror::{PgError, Result, SqlState};
use pgproto::scram::Verifier;
use planner::{DdlKind, DdlPlan, Effect, Elsewhere, Fill, MapRequest, Placement, Plan};

use crate::backend::call::Call;
use crate::backend::isolation::Isolation;
use crate::backend::own_calls::OwnCall;
use crate::block::Mode;
use crate::dml::writes::Write;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::engine::spool::Spool;
use crate::session::Session;

impl Session {
    pub(crate) async fn ddl(&mut self, ddl: &DdlPlan) -> Result<Completion> {
        for notice in &ddl.notices {
            self.notice(notice);
        }
        if ddl.outside_transaction {
            return self.ddl_outside_transaction(ddl).await;
        }
        if let Some(block) = &mut self.block {
            block.ran_ddl_before = block.ran_ddl || block.schema_changed;
            block.ran_ddl = true;
        }
        if ddl.temporary {
            return self.temporary_ddl(ddl).await;
        }
        if let DdlKind::Lock { nowait } = ddl.kind {
            self.set_snapshotless(true);
            let result = match !nowait && ddl.elsewhere == Elsewhere::Same {
                true => self.lock_tables(&ddl.nodes, &ddl.node_sql).await.map(|()| Completion::tag("LOCK TABLE")),
                false => self.ddl_in_block(ddl).await,
            };
            self.set_snapshotless(false);
            self.locked_before_snapshot();
            return result;
        }
        if matches!(ddl.fill, Fill::Column { .. }) {
            self.refuse_old_snapshot("ADD COLUMN with values for the rows that are there")?;
        } else if ddl.follow_up.is_some() && !self.in_block() && self.is_consistent() {
            // CREATE TABLE AS: what it reads is one state.
            let nodes = self.context.nodes();
            let mut nothing = Spool::default();
            let mut output = Output::spool(&mut nothing);
            return self.write_under_snapshot(&nodes, "", Write::Table(ddl), &Call::default(), &mut output).await;
        }
        self.atomically(async |this| this.ddl_in_block(ddl).await).await
    }

    /// All rows have to be seen, also those committed while the table's lock was waited for.
    pub(crate) fn refuse_old_snapshot(&self, what: &str) -> Result<()> {
        match self.isolation().is_some_and(Isolation::keeps_snapshot) {
            false => Ok(()),
            true => {
                Err(PgError::unsupported(format!("{what} in a REPEATABLE READ transaction"))
                    .hint("Use READ COMMITTED."))
            }
        }
    }

    /// Temp objects live on the home node, whose backend then stays with the session.
    async fn temporary_ddl(&mut self, ddl: &DdlPlan) -> Result<Completion> {
        let home = self.home;
        let completion = self
            .atomically(async |this| {
                let tag = this.run_on(home, &ddl.node_sql).await?;
                this.links.link(home)?.temp = true;
                if planner::stores_expressions(&ddl.node_sql) {
                    this.judge_stored(home).await?;
                }
                this.pin(home);
                this.names_changed();
                this.follow_up(ddl, tag.unwrap_or_default()).await
            })
            .await?;
        self.names_changed();
        Ok(completion)
    }

    /// A change of our own metadata on all nodes, inside a block.
    pub(crate) async fn schema_change(&mut self, nodes: &[NodeId], sql: &str) -> Result<()> {
        let (primary, others) = split_primary(nodes, self.home);
        self.begin_schema_change(sql).await?;
        self.run_on(primary, sql).await?;
        self.run_on_all(&others, sql).await?;
        self.schema_changed();
        Ok(())
    }

    /// To be called before the first change.
    pub(crate) async fn begin_schema_change(&mut self, sql: &str) -> Result<()> {
        let nodes = self.context.nodes();
        if let Some(block) = &mut self.block {
            block.changed_on.get_or_insert(nodes);
        }
        let keeps_snapshot = self.isolation().is_some_and(Isolation::keeps_snapshot);
        if keeps_snapshot || (!planner::only_creates(sql) && self.catalog().await?.catalog.prints_under_locks()) {
            self.raise_version().await?;
            // Another change may just have been committed. It is read before this one locks a table that the load would wait for.
            self.catalog().await?;
        }
        Ok(())
    }

    /// The block's own catalog is another one from here on, and everybody's once it commits.
    pub(crate) fn schema_changed(&mut self) {
        if let Some(block) = &mut self.block {
            block.schema_changed = true;
            block.catalog = None;
        }
        self.names_changed();
    }

    pub(crate) async fn ddl_in_block(&mut self, ddl: &DdlPlan) -> Result<Completion> {
        if ddl.of_all_databases {
            self.hold_shared_objects(&ddl.nodes).await?;
        }
        let for_nodes = self.for_nodes(&ddl.node_sql).await?.map(|node_sql| DdlPlan { node_sql, ..ddl.clone() });
        let ddl = for_nodes.as_ref().unwrap_or(ddl);
        let schema_change = ddl.kind == DdlKind::Schema;
        let (primary, others) = split_primary(&ddl.nodes, self.home);
        if schema_change {
            self.begin_schema_change(&ddl.node_sql).await.map_err(|error| about(error, &ddl.node_sql))?;
        }
        self.redistribute_in_block(&ddl.moves).await?;
        let has_temporary = !self.temp_relations().await?.all.is_empty();
        let tag = self.run_on(primary, &ddl.node_sql).await?.unwrap_or_default();
        // CASCADE may have taken temporary objects along: such a backend cannot be prepared.
        self.links.link(primary)?.temp |= has_temporary;
        if schema_change {
            self.judge_stored(primary).await?;
        }
        let elsewhere = self.elsewhere(ddl, primary).await?;
        let is_run = ddl.kind == DdlKind::Maintenance
            && !others.is_empty()
            && self.run_heard(primary, &others, &elsewhere, true).await.map_err(from_other_node)?;
        if !is_run {
            self.run_on_all(&others, &elsewhere).await.map_err(from_other_node)?;
        }
        for effect in &ddl.effects {
            self.apply_effect(effect, primary, &others).await?;
        }
        if schema_change {
            self.schema_changed();
        }
        if ddl.effects.iter().any(|effect| matches!(effect, Effect::JudgeTriggers)) {
            self.judge_triggers(primary).await?;
        }
        self.follow_up(ddl, tag).await
    }

    /// With the same verifier of a password for all nodes, and a limit of connections that none of them meets.
    pub(crate) async fn for_nodes(&mut self, sql: &str) -> Result<Option<String>> {
        let mut has_password = false;
        let for_nodes = planner::for_nodes(sql, |password| {
            has_password = true;
            Verifier::text_of(password)
        })?;
        if !has_password {
            return Ok(for_nodes);
        }
        let rows = self.rows_on(self.home, "SHOW password_encryption").await?;
        match rows.first().and_then(|row| row.first()?.as_deref()) {
            Some(b"scram-sha-256") => Ok(for_nodes),
            // What md5 makes of a password is the same everywhere.
            _ => planner::for_nodes(sql, str::to_owned),
        }
    }

    /// A change of our own metadata, on the primary first.
    pub(crate) async fn apply_effect(&mut self, effect: &Effect, primary: NodeId, others: &[NodeId]) -> Result<()> {
        if let Effect::Run(sql) = effect {
            self.run_on(primary, sql).await?;
            return self.run_on_all(others, sql).await;
        }
        let Some(call) = effect_call(effect) else { return Ok(()) };
        self.call_on(primary, std::slice::from_ref(&call)).await?;
        self.call_on_all(others, &call).await
    }

    /// What the nodes but the primary run.
    async fn elsewhere<'d>(&mut self, ddl: &'d DdlPlan, primary: NodeId) -> Result<Cow<'d, str>> {
        let (table, sql) = match &ddl.elsewhere {
            Elsewhere::Same => return Ok(Cow::Borrowed(&ddl.node_sql)),
            Elsewhere::Without(sql) => return Ok(Cow::Borrowed(sql)),
            Elsewhere::Copied { table, sql } => (table, sql),
        };
        let columns = self.rows_on(primary, &planner::own_text(&columns_sql(table))?).await?;
        let columns = columns.into_iter().next().and_then(|row| row.into_iter().next().flatten()).unwrap_or_default();
        Ok(Cow::Owned(sql.replacen("()", &format!("({})", String::from_utf8_lossy(&columns)), 1)))
    }

    /// Fills a table that CREATE TABLE AS made.
    async fn follow_up(&mut self, ddl: &DdlPlan, tag: String) -> Result<Completion> {
        let Some(sql) = &ddl.follow_up else { return Ok(Completion::Tag(tag)) };
        let home = self.home;
        match (&ddl.fill, &ddl.fills_by) {
            (Fill::MaterializedView(view), _) => self.refuse_users_code_filling(view).await?,
            (Fill::Table, Some(into)) => {
                self.refuse_users_code_filling(into.trim_start_matches("INSERT INTO ")).await?
            }
            (Fill::Table, None) | (Fill::Column { .. }, _) => {}
        }
        let mut columns = None;
        if let Fill::MaterializedView(view) = &ddl.fill {
            columns = self.call_on(home, &[OwnCall::about("open_matview", view, "")]).await?;
            self.run_on(home, &format!("TRUNCATE {view}")).await?;
        }
        let quiet = match &ddl.fill {
            Fill::Column { table, .. } => self.quiet_while_filled(table).await?,
            _ => Vec::new(),
        };
        for (node, off, _) in &quiet {
            self.run_on(*node, off).await?;
            self.schema_changed();
        }
        self.set_fills_table(true);
        let plan = self.plan_text(sql).await?;
        let fills_view = matches!(ddl.fill, Fill::MaterializedView(_));
        let before = if fills_view { self.settings_before_filling().await? } else { HashMap::new() };
        let mut nothing = Spool::default();
        let completion = Box::pin(self.run_plan(&plan, &Call::default(), &mut Output::spool(&mut nothing))).await?;
        if fills_view {
            self.forget_settings_of_filling(&before).await?;
        }
        self.set_fills_table(false);
        for (node, _, on) in &quiet {
            self.run_on(*node, on).await?;
        }
        if let Fill::Column { finish, .. } = &ddl.fill {
            let (primary, others) = split_primary(&ddl.nodes, home);
            if !finish.is_empty() {
                self.run_on(primary, finish).await?;
                self.run_on_all(&others, finish).await.map_err(from_other_node)?;
            }
            self.schema_changed();
        }
        if let Fill::MaterializedView(view) = &ddl.fill {
            let columns = String::from_utf8_lossy(&columns.unwrap_or_default()).into_owned();
            let more = format!(", {}", quote_literal(&columns));
            self.call_on(home, &[OwnCall::about("close_matview", view, &more)]).await?;
        }
        Ok(match completion {
            _ if matches!(ddl.kind, DdlKind::Data | DdlKind::Lock { .. })
                || matches!(ddl.fill, Fill::Column { .. }) =>
            {
                Completion::Tag(tag)
            }
            Completion::Tag(tag) => {
                Completion::Tag(format!("SELECT {}", pgproto::backend::split_command_tag(&tag).1.unwrap_or(0)))
            }
            Completion::Empty => Completion::Empty,
        })
    }

    /// What would act on the rows of a table, or judge them, though a new column is all that is filled in: statements that switch it off,
    /// and on again. A trigger's state differs from node to node.
    async fn quiet_while_filled(&mut self, table: &String) -> Result<Vec<(NodeId, String, String)>> {
        let constraints = self.unvalidated(self.home, std::slice::from_ref(table), "c").await?;
        let mut quiet = Vec::new();
        for node in self.context.nodes() {
            quiet.extend(constraints.iter().map(|constraint| (node, constraint.off.clone(), constraint.on.clone())));
            quiet.extend(self.triggers_of(node, table).await?.into_iter().map(|(name, enable)| {
                let off = format!("ALTER TABLE {table} DISABLE TRIGGER {name}");
                (node, off, format!("ALTER TABLE {table} {enable} TRIGGER {name}"))
            }));
        }
        Ok(quiet)
    }

    fn set_fills_table(&mut self, fills_table: bool) {
        if let Some(block) = &mut self.block {
            block.fills_table = fills_table;
        }
    }

    /// VACUUM, CREATE INDEX CONCURRENTLY and the like: each node for itself, the primary datanode first.
    async fn ddl_outside_transaction(&mut self, ddl: &DdlPlan) -> Result<Completion> {
        let (primary, others) = split_primary(&ddl.nodes, self.home);
        let _held = if ddl.of_all_databases { self.shared_objects_of(&ddl.nodes).await? } else { None };
        if self.in_block() {
            // PostgreSQL says that it cannot run there, or does it: CHECKPOINT.
            let tag = self.run_on(primary, &ddl.node_sql).await?;
            self.run_on_all(&others, &ddl.node_sql).await?;
            return Ok(Completion::Tag(tag.unwrap_or_default()));
        }
        if !ddl.moves.is_empty() {
            self.atomically(async |this| this.redistribute_in_block(&ddl.moves).await).await?;
        }
        if let Some(undo) = &ddl.undo {
            return self.ddl_with_undo(&ddl.nodes, &ddl.node_sql, undo).await;
        }
        let completion = self.run_only_on(primary, &ddl.node_sql).await?;
        if !others.is_empty() {
            let elsewhere = self.elsewhere(ddl, primary).await?;
            self.run_on_others(primary, &others, &elsewhere).await.map_err(|error| {
                error
                    .detail("The statement does not run in a transaction, and is done on other datanodes.")
                    .hint("Repeat it; what was to be made or dropped is there on some of them: DROP … IF EXISTS first.")
            })?;
        }
        if ddl.kind == DdlKind::Schema {
            self.atomically(async |this| {
                this.schema_changed();
                Ok(())
            })
            .await?;
        }
        Ok(completion)
    }

    /// Each node for itself.
    async fn run_on_others(&mut self, primary: NodeId, others: &[NodeId], sql: &str) -> Result<()> {
        if self.run_heard(primary, others, sql, false).await? {
            return Ok(());
        }
        let mut nothing = Spool::default();
        let mut output = Output::spool(&mut nothing);
        let parts = others.iter().map(|node| (*node, sql.to_owned())).collect();
        let notices = self.take_notices();
        let done = self.scatter(Mode::Autocommit, parts, &Call::default(), &mut output).await;
        // The others' notices are the primary's once more.
        self.take_notices();
        self.notices = notices;
        done.map(drop)
    }

    /// Node by node; what is done is undone if a later node cannot do it.
    async fn ddl_with_undo(&mut self, nodes: &[NodeId], sql: &str, undo: &str) -> Result<Completion> {
        let mut completion = Completion::Empty;
        for (done, node) in nodes.iter().enumerate() {
            match self.run_only_on(*node, sql).await {
                Ok(last) => completion = last,
                Err(error) => {
                    for earlier in &nodes[..done] {
                        self.run_only_on(*earlier, undo).await?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(completion)
    }

    pub(crate) async fn run_only_on(&mut self, node: NodeId, sql: &str) -> Result<Completion> {
        let mut nothing = Spool::default();
        let mut output = Output::spool(&mut nothing);
        self.scatter(Mode::Autocommit, vec![(node, sql.to_owned())], &Call::default(), &mut output).await
    }

    /// Plans a text of our own under the session's present catalog.
    pub(crate) async fn plan_text(&mut self, sql: &str) -> Result<Plan> {
        let statements = planner::parse(sql)?;
        let statement = statements.first().ok_or_else(|| PgError::internal("an empty follow-up statement"))?;
        self.plan(statement, &Call::default(), None).await
    }
}

fn split_primary(nodes: &[NodeId], home: NodeId) -> (NodeId, Vec<NodeId>) {
    let primary = nodes.iter().copied().find(|node| *node == home).or(nodes.first().copied()).unwrap_or(home);
    (primary, nodes.iter().copied().filter(|node| *node != primary).collect())
}

/// The columns of a table as CREATE TABLE has them.
fn columns_sql(table: &str) -> String {
    format!(
        "SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', pg_catalog.quote_ident(a.attname), \
           pg_catalog.format_type(a.atttypid, a.atttypmod), \
           CASE WHEN a.attcollation <> t.typcollation THEN 'COLLATE ' || pg_catalog.quote_ident(n.nspname) || '.' || \
             pg_catalog.quote_ident(c.collname) END, CASE WHEN a.attnotnull THEN 'NOT NULL' END), ', ' ORDER BY a.attnum) \
         FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
           LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation \
           LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace \
         WHERE a.attrelid = {}::pg_catalog.regclass AND a.attnum > 0",
        quote_literal(table)
    )
}

/// In a read-only transaction already our own first step fails: the user's statement is what cannot be done.
fn about(error: PgError, sql: &str) -> PgError {
    if error.code() != SqlState::READ_ONLY_SQL_TRANSACTION {
        return error;
    }
    let words: Vec<&str> = sql.split_ascii_whitespace().take(2).collect();
    let what = words.join(" ").to_uppercase();
    PgError::new(SqlState::READ_ONLY_SQL_TRANSACTION, format!("cannot execute {what} in a read-only transaction"))
}

/// The first node took the statement, so an error of another one means that the nodes are not alike, unless it is about the rows
/// that the node has.
fn from_other_node(error: PgError) -> PgError {
    let is_about_rows = ["22", "23"].contains(&&error.code().as_str()[..2]);
    match error.get(pgerror::field::DETAIL) {
        Some(_) => error,
        None if is_about_rows => error,
        None => error.detail("Another datanode accepted the statement; nothing was changed on any."),
    }
}

fn node_array(nodes: &[NodeId]) -> String {
    let ids: Vec<String> = nodes.iter().map(|node| node.0.to_string()).collect();
    format!("'{{{}}}'::pg_catalog.int2[]", ids.join(","))
}

fn name_array<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| quote_literal(name)).collect();
    format!("ARRAY[{}]::pg_catalog.name[]", names.join(", "))
}

/// The call that makes a metadata change on one node. Tables are known by object id there, so renaming needs nothing.
fn effect_call(effect: &Effect) -> Option<OwnCall> {
    let (schema, name, distribution, by_default) = match effect {
        Effect::CreateTable { schema, name, distribution, by_default } => (schema, name, distribution, *by_default),
        Effect::ForgetMissing => return Some(OwnCall::new("forget_missing", "")),
        Effect::TendCopy { table } => return Some(OwnCall::about("tend_copy", table, "")),
        Effect::WatchMoves { table } => return Some(OwnCall::about("watch_moves", table, "")),
        Effect::TieCapture { table, trigger } => {
            return Some(OwnCall::about("tie_capture", table, &format!(", {}", quote_literal(trigger))));
        }
        Effect::UntieCapture { table, trigger } => {
            return Some(OwnCall::about("untie_capture", table, &format!(", {}", quote_literal(trigger))));
        }
        Effect::SetConnections { database, limit, allowed } => {
            let word = |value: Option<String>| value.unwrap_or_else(|| "NULL".to_owned());
            let (limit, allowed) = (word(limit.map(|most| most.to_string())), word(allowed.map(|is| is.to_string())));
            return Some(OwnCall::new("set_connections", format!("{}, {limit}, {allowed}", quote_literal(database))));
        }
        Effect::CaptureOthers { table } => return Some(OwnCall::about("capture_others", table, "")),
        Effect::Run(_)
        | Effect::JudgeTriggers
        | Effect::RenameTable { .. }
        | Effect::RenameColumn { .. }
        | Effect::RenameSchema { .. } => {
            return None;
        }
    };
    let table = format!("{}.{}", quote_identifier(schema), quote_identifier(name));
    let map = |request: &MapRequest| match request {
        MapRequest::Existing(id) => format!("{}, NULL", id.0),
        MapRequest::Over(nodes) => format!("NULL, {}", node_array(nodes)),
    };
    let arguments = match distribution {
        Placement::Hash { columns, map: request } => format!("'H', {}, {}", name_array(columns), map(request)),
        Placement::Modulo { column, map: request } => format!("'M', {}, {}", name_array([column]), map(request)),
        Placement::Replicated { nodes } => format!("'R', '{{}}', NULL, {}", node_array(nodes)),
        Placement::RoundRobin { nodes } => format!("'N', '{{}}', NULL, {}", node_array(nodes)),
    };
    Some(OwnCall::about("register_table", &table, &format!(", {arguments}, {by_default}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_table_is_registered_by_quoted_name() {
        let effect = Effect::CreateTable {
            schema: "s".into(),
            name: "My'T".into(),
            distribution: Placement::Hash {
                columns: vec!["a".into()],
                map: MapRequest::Over(vec![NodeId(0), NodeId(2)]),
            },
            by_default: false,
        };
        let call = effect_call(&effect).unwrap();
        assert_eq!(
            (call.function, call.arguments.as_str()),
            (
                "register_table",
                "loxo.relation('s.\"My''T\"'), 'H', ARRAY['a']::pg_catalog.name[], NULL, '{0,2}'::pg_catalog.int2[], false"
            )
        );
    }
}
