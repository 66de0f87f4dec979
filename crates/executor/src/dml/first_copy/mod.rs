//! Changes that the first copy of a replicated table makes; the others get the rows that came of them.
//!
//! ```text
//!  the change, as it stands ── first copy ── loxo.tell_row(): each row as it was and is ── net of them ── other copies
//! ```
//!
//! A trigger on the first copy tells of each row that changes, in a message like those of [`trigger_events`](crate::dml::trigger_events): that comes
//! beside the answer, and nothing is left after a rollback. What several steps made of one row is put together ([`net`]), and
//! the others get plain values ([`sql`]), in statements of the user's own: first what is deleted, then what is changed, then what
//! is new. Triggers of the user's do not fire there (`loxo.tend_copy()`); foreign keys act, since rows of other tables refer to
//! every copy. So what they did to other replicated tables is done there already, but for what triggers of these made of it on
//! the first copy: that follows last.
//!
//! Invariant: each copy has as many rows to change as the first one had, or the statement fails.

mod net;
mod sql;
mod standing;

use std::sync::Arc;

use catalog::{Generated, NodeId, Relation};
use pgerror::{PgError, Result, SqlState};
use pgproto::backend::split_command_tag;
use planner::{Copies, FirstCopy, Plan};

use crate::backend::call::Call;
use crate::backend::call::Parameters;
use crate::backend::own_calls::OwnCall;
use crate::block::Mode;
use crate::dml::first_copy::net::{Changed, RowChange};
use crate::dml::first_copy::sql::Texts;
use crate::dml::first_copy::standing::Standing;
use crate::dml::writes::Write;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::session::Session;

/// Values of one statement; the protocol's limit is 65,535 parameters.
const VALUES_MAX: usize = 30_000;

/// Is it a row of a kind?
type Kind = fn(&RowChange) -> bool;

impl Session {
    /// See the module's page.
    pub(crate) async fn write_first_copy(
        &mut self,
        plan: &FirstCopy,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let target = plan.written.first().map(String::as_str).unwrap_or_default();
        let brings_rows = plan.brings_rows();
        if !brings_rows && !self.in_block() && self.is_consistent() {
            return self.write_under_snapshot(&plan.nodes, target, Write::FirstCopy(plan), call, output).await;
        }
        self.refuse_serializable(&plan.nodes)?;
        self.atomically(async |this| {
            match brings_rows {
                true => this.join_writers(plan.copies.first, target).await?,
                false => this.lock_copies(plan.copies.first, target, &[]).await?,
            }
            this.first_copy_in_block(plan, call, output).await
        })
        .await
    }

    /// Runs inside a block.
    pub(crate) async fn first_copy_in_block(
        &mut self,
        plan: &FirstCopy,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        self.tell_rows(plan.copies.first, true).await?;
        let done = Box::pin(self.dispatch(&plan.plan, call, output)).await?;
        self.tell_rows(plan.copies.first, false).await?;
        // With changes in WITH the count may be of another table, or each step has passed on its own.
        let is_in_steps = matches!(plan.plan, Plan::SequencedCtes(_));
        let is_one = !is_in_steps && plan.tables.written.as_ref().is_some_and(|table| plan.written.contains(table));
        self.pass_rows_on(&plan.copies, if is_one { done.rows_changed() } else { 0 }).await?;
        Ok(done)
    }

    /// Has the first copy tell of the rows that change there, or stop that.
    pub(crate) async fn tell_rows(&mut self, first: NodeId, wanted: bool) -> Result<()> {
        if wanted {
            self.forget_rows_told();
        }
        self.call_on(first, &[OwnCall::new("tell_rows", wanted.to_string())]).await.map(drop)
    }

    /// Gives the other copies what the first one has told, which is of `changed` rows of the tables at least.
    pub(crate) async fn pass_rows_on(&mut self, copies: &Copies, changed: u64) -> Result<()> {
        let told = self.take_rows_told(copies.first).await?;
        let of_tables =
            told.iter().filter(|row| copies.tables.iter().any(|(s, t)| (s, t) == (&row.schema, &row.table)));
        if (of_tables.count() as u64) < changed {
            return Err(not_told(copies));
        }
        if told.is_empty() {
            return Ok(());
        }
        self.statement_finished();
        let catalog = self.catalog().await?.catalog.clone();
        let mut own = Vec::new();
        let mut led_to = Vec::new();
        for (schema, name, rows) in net::net(told) {
            let lost = || PgError::internal(format!("rows of {schema}.{name}, which is not in the catalog"));
            let table = catalog.relation(&schema, &name).ok_or_else(lost)?.clone();
            let changed = Changed::of(&table, rows)?;
            match copies.tables.contains(&(schema, name)) {
                true => own.push(changed),
                false => led_to.push(changed),
            }
        }
        net::referenced_first(&mut own);
        self.lend_copies(copies, own.iter_mut().chain(&mut led_to)).await?;
        for changed in own.iter().rev() {
            self.pass_on(copies, changed, RowChange::is_deleted).await?;
        }
        for changed in &own {
            self.pass_on(copies, changed, RowChange::is_updated).await?;
        }
        for changed in &own {
            self.pass_on(copies, changed, RowChange::is_new).await?;
        }
        // What led to a change was told of after it.
        for changed in led_to.iter().rev() {
            self.pass_on_led_to(copies, changed).await?;
        }
        let lent: Vec<String> = own.iter().chain(&led_to).filter_map(|changed| changed.view.clone()).collect();
        if !lent.is_empty() {
            self.take_views_back(&copies.others, &lent).await?;
        }
        self.statement_finished();
        Ok(())
    }

    /// A user with rights on some columns only, on a view, or none on a table that a foreign key has changed, or is under policies,
    /// which the first copy has asked already and for another role perhaps, changes the other copies by way of views that he is
    /// lent: they are given values, and find rows by all that is in them.
    async fn lend_copies(&mut self, copies: &Copies, tables: impl Iterator<Item = &mut Changed>) -> Result<()> {
        const KINDS: [(&str, Kind); 3] =
            [("INSERT", RowChange::is_new), ("UPDATE", RowChange::is_updated), ("DELETE", RowChange::is_deleted)];
        let wanted: Vec<(&mut Changed, Vec<&str>)> = tables
            .map(|changed| {
                let kinds = KINDS.iter().filter(|(_, which)| changed.has(*which)).map(|(right, _)| *right);
                let rights = kinds.chain(["SELECT"]).collect();
                (changed, rights)
            })
            .collect();
        let questions = wanted.iter().flat_map(|(changed, rights)| standing::questions(&changed.table, rights));
        let sql = format!("SELECT {}", questions.collect::<Vec<_>>().join(", "));
        let answers: Vec<_> =
            self.rows_on(copies.first, &planner::own_text(&sql)?).await?.into_iter().flatten().collect();
        for ((changed, rights), answers) in wanted.into_iter().zip(answers.chunks(standing::QUESTIONS)) {
            match Standing::of(&changed.table, answers) {
                Standing::Free => {}
                Standing::UnderPolicies => changed.is_under_policies = true,
                Standing::ByView => {
                    let view = self.lend_change(&copies.others, &changed.table, &rights.join(", ")).await?;
                    changed.view = Some(view);
                }
                Standing::Lacking => {
                    let name = &changed.table.name;
                    let what =
                        format!("this change of replicated table \"{name}\", on which the user has not all rights,");
                    return Err(PgError::unsupported(what)
                        .detail(
                            "The other copies get the rows from the first one, and run functions or policies for them.",
                        )
                        .hint("GRANT the rights on the table."));
                }
            }
        }
        Ok(())
    }

    /// Rows that a foreign key has changed on every copy already.
    async fn pass_on_led_to(&mut self, copies: &Copies, changed: &Changed) -> Result<()> {
        let texts = Texts::of(changed).with_new_key();
        self.change_rows(copies, changed, &texts, RowChange::is_updated).await?;
        self.pass_on(copies, changed, RowChange::is_new).await
    }

    async fn pass_on(&mut self, copies: &Copies, changed: &Changed, which: Kind) -> Result<()> {
        self.change_rows(copies, changed, &Texts::of(changed), which).await
    }

    /// The rows in groups that one statement can change.
    async fn change_rows(&mut self, copies: &Copies, changed: &Changed, texts: &Texts<'_>, which: Kind) -> Result<()> {
        for rows in changed.groups(which) {
            let Some(first) = rows.first() else { continue };
            self.refuse_users_code_of_all(texts.types_of(first)).await?;
            let most = (VALUES_MAX / texts.values_of(first).max(1)).max(1);
            for chunk in rows.chunks(most) {
                let (sql, values) = texts.statement(chunk);
                let call = with_values(values);
                let counts =
                    self.on_copies(copies, changed, &sql, &call).await.map_err(|error| match error.code() {
                        SqlState::INSUFFICIENT_PRIVILEGE if changed.is_under_policies => under_policies(&changed.table),
                        _ => error,
                    })?;
                // A foreign key of the table to itself may have deleted some of them.
                let is_counted = !(first.is_deleted() && changed.table.foreign_keys.iter().any(|key| key.acts));
                let is_other = counts.iter().any(|count| *count != Some(chunk.len() as u64));
                if changed.is_under_policies && (is_other || !is_counted) {
                    return Err(under_policies(&changed.table));
                }
                if is_counted && is_other {
                    return Err(not_alike(&changed.table));
                }
                if generates_by_functions(&changed.table) && !first.is_deleted() {
                    self.compare_rows(copies, changed, texts, chunk).await?;
                }
            }
        }
        Ok(())
    }

    /// Generated columns are computed by each copy: have all come to the same?
    async fn compare_rows(
        &mut self,
        copies: &Copies,
        changed: &Changed,
        texts: &Texts<'_>,
        rows: &[&RowChange],
    ) -> Result<()> {
        self.refuse_users_code_of_all(changed.table.columns.iter().map(|column| column.type_oid)).await?;
        let most = (VALUES_MAX / changed.table.columns.len().max(1)).max(1);
        for chunk in rows.chunks(most) {
            let (sql, values) = texts.missing(chunk);
            let counts = self.on_copies(copies, changed, &sql, &with_values(values)).await?;
            if counts.iter().any(|count| *count != Some(0)) {
                let table = &changed.table.name;
                return Err(PgError::unsupported(format!("a generated column of replicated table \"{table}\""))
                    .detail("What it calls gives another value on each node, though it is said to be immutable.")
                    .hint("Compute the value in a trigger BEFORE … FOR EACH ROW, or in the statement."));
            }
        }
        Ok(())
    }

    /// A statement on all other copies; gives the number of rows on each.
    async fn on_copies(
        &mut self,
        copies: &Copies,
        changed: &Changed,
        sql: &str,
        call: &Call,
    ) -> Result<Vec<Option<u64>>> {
        let version = self.schema_version;
        self.connect_to(&copies.others).await?;
        for node in &copies.others {
            self.acquire_for(*node, Mode::InBlock, true).await?;
            self.causality.touch(*node);
            self.links.link(*node)?.start(sql, call, version);
        }
        let tags = self.links.finish_all(&copies.others).await?;
        self.keep_notices_of_copies(copies.first, &copies.others, |_| vec![changed.table.oid]).await?;
        Ok(tags.into_iter().map(|tag| split_command_tag(&tag.unwrap_or_default()).1).collect())
    }
}

fn with_values(values: Vec<Option<bytes::Bytes>>) -> Call {
    let parameters = Parameters { types: vec![0; values.len()], formats: Vec::new(), values };
    Call { parameters: Some(Arc::new(parameters)), one_off: true, ..Call::default() }
}

fn generates_by_functions(table: &Relation) -> bool {
    let calls = table.code.as_ref().is_some_and(|code| !code.expressions.is_empty());
    calls && table.columns.iter().any(|column| matches!(column.generated, Generated::Stored | Generated::Virtual))
}

/// Somebody has switched off what tells of rows.
fn not_told(copies: &Copies) -> PgError {
    let names: Vec<&str> = copies.tables.iter().map(|(_, name)| name.as_str()).collect();
    PgError::unsupported(format!("this change of replicated table \"{}\"", names.join("\" or \"")))
        .detail("The other copies get the rows from the first one, which does not tell of all of them.")
        .hint("ALTER TABLE … ENABLE TRIGGER ALL has it tell of them again.")
}

fn not_alike(table: &Relation) -> PgError {
    PgError::internal(format!("the copies of replicated table \"{}\" are not alike", table.name))
        .hint("Compare the table on the datanodes; the statement was rolled back.")
}

/// The first copy has asked its policies for the statement, as a view's owner perhaps; here they would be asked for the user.
fn under_policies(table: &Relation) -> PgError {
    PgError::unsupported(format!("this change of replicated table \"{}\", whose policies keep its copies from the user,", table.name))
        .detail(
            "The other copies get the rows from the first one under the user's own policies where the table has FORCE ROW LEVEL SECURITY, \
             or functions of users in constraints, indexes or generated columns, and these do not let him.",
        )
        .hint("ALTER TABLE … NO FORCE ROW LEVEL SECURITY, or distribute the table by a key.")
}
