//! Statements whose WITH items change rows, part after part: see [`planner::SequencedCtes`].
//!
//! What the parts work on is copied before the first of them runs, so that all of them see the tables as they were. Rows that
//! RETURNING gives to other parts are kept in a [`Spool`] until the part is done:
//! the home node, whose temp table they go to, may be one of those that give them.

use std::collections::HashSet;

use catalog::quote_identifier;
use pgerror::{PgError, Result};
use planner::{CteStep, FinalSql, Gather, Input, InsertStaged, Kept, Plan, SequencedCtes, StagedDml};

use crate::backend::call::Call;
use crate::backend::isolation::Isolation;
use crate::backend::type_ids::is_storable;
use crate::dml::writes::Write;
use crate::engine::gather::{Filled, names_if_twice, without_position};
use crate::engine::mover::rows::copy_into;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::engine::spool::Spool;
use crate::engine::temp::own_temp::TempAs;
use crate::session::Session;

impl Session {
    /// See the module's page.
    pub(crate) async fn write_sequenced_ctes(
        &mut self,
        ctes: &SequencedCtes,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        if !self.in_block() && self.is_consistent() {
            return self.write_under_snapshot(&ctes.nodes, "", Write::SequencedCtes(ctes), call, output).await;
        }
        self.refuse_serializable(&ctes.nodes)?;
        self.atomically(async |this| {
            if changes_by_address(ctes) && !this.isolation().is_some_and(Isolation::keeps_snapshot) {
                this.keep_writers_off(&ctes.nodes, &ctes.written).await?;
                this.statement_finished();
            }
            let plan = || Plan::SequencedCtes(Box::new(ctes.clone()));
            this.apart(plan, async |this| this.ctes_in_block(ctes, call, output).await).await
        })
        .await
    }

    /// Runs inside a block.
    pub(crate) async fn ctes_in_block(
        &mut self,
        ctes: &SequencedCtes,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let columns = self.complain_of(&ctes.original, call).await?;
        self.check_rights(Some(&ctes.original), call).await?;
        if call.describe
            && output.wants_description()
            && let Some(columns) = columns
        {
            output.description(&columns);
        }
        let call = Call { one_off: true, ..call.clone() };
        let mut plans = Vec::with_capacity(ctes.steps.len());
        for step in &ctes.steps {
            plans.push(self.copy_for(step, &call).await.map_err(without_position)?);
        }
        self.statement_finished();
        let mut completion = Completion::Empty;
        for (step, plan) in ctes.steps.iter().zip(&plans) {
            let done = self.step(step, plan, &call, output).await.map_err(without_position)?;
            if step.is_main {
                completion = done;
            }
            if let Some(copies) = &ctes.copies {
                self.pass_rows_on(copies, 0).await?;
            }
            self.statement_finished();
        }
        self.drop_copies(ctes).await?;
        Ok(completion)
    }

    /// Fills the inputs of a step that works on copies; gives its plan without them.
    async fn copy_for(&mut self, step: &CteStep, call: &Call) -> Result<Plan> {
        Ok(match &step.plan {
            Plan::Gather(gather) if step.copies => {
                let text = self.fill_all(&gather.inputs, &gather.final_sql, call).await?;
                Plan::Gather(Gather { inputs: Vec::new(), final_sql: FinalSql::plain(text), ..gather.clone() })
            }
            Plan::InsertStaged(insert) if step.copies => {
                let fill = FinalSql::plain(self.fill_all(&insert.inputs, &insert.fill, call).await?);
                Plan::InsertStaged(Box::new(InsertStaged { inputs: Vec::new(), fill, ..insert.as_ref().clone() }))
            }
            Plan::StagedDml(change) if step.copies => {
                self.fill_all(&change.inputs, &FinalSql::plain(""), call).await?;
                Plan::StagedDml(Box::new(StagedDml { inputs: Vec::new(), ..change.as_ref().clone() }))
            }
            other => other.clone(),
        })
    }

    async fn step(&mut self, step: &CteStep, plan: &Plan, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        match (&step.keep, plan) {
            // A change of a temporary table is gathered for too.
            (Some(keep), Plan::Gather(gather)) if !step.returns => self.keep_query(keep, gather, call).await,
            (Some(keep), _) => self.keep_returned(keep, plan, call).await,
            (None, _) if step.is_main => self.run_step(plan, call, output).await,
            (None, _) => self.run_step(plan, &call.with_formats(Vec::new()), &mut Output::nowhere()).await,
        }
    }

    async fn run_step(&mut self, plan: &Plan, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        match plan {
            Plan::Gather(gather) if gather.inputs.is_empty() => self.gather_in_block(gather, call, output).await,
            Plan::InsertStaged(insert) => self.insert_part(insert, call, output).await,
            Plan::StagedDml(change) => self.change_part(change, call, output).await,
            other => Box::pin(self.dispatch(other, call, output)).await,
        }
    }

    /// The rows of a query.
    async fn keep_query(&mut self, keep: &Kept, gather: &Gather, call: &Call) -> Result<Completion> {
        let text = self.fill_all(&gather.inputs, &gather.final_sql, call).await?;
        let described = self.describe_kept(&text, call).await?;
        let made = TempAs {
            table: &keep.table,
            columns: names_if_twice(&described.columns),
            fields: &described.columns,
            sql: &text,
            indexes: &[],
            receives: false,
        };
        let sink = self.links.link(self.sink)?;
        (sink.temp, sink.gathered) = (true, true);
        self.create_temp_as(self.sink, &made, true, call).await?;
        self.drop_inputs(&gather.inputs).await?;
        self.run_on(self.sink, &format!("ANALYZE pg_temp.{}", keep.table)).await?;
        Ok(Completion::Empty)
    }

    /// The rows of RETURNING.
    async fn keep_returned(&mut self, keep: &Kept, plan: &Plan, call: &Call) -> Result<Completion> {
        let described = self.describe_kept(&keep.sql, call).await?;
        self.refuse_users_code_at_sink(&keep.sql, &described.columns, call).await?;
        if !described.binary {
            let types = described.columns.iter().map(|column| column.type_oid);
            self.require_plain_text("RETURNING of values of your own types in WITH", types).await?;
        }
        let mut spool = Spool::of(self.work_mem());
        let call = call.with_formats(vec![i16::from(described.binary)]);
        let completion = self.run_step(plan, &call, &mut Output::spool(&mut spool)).await?;
        let types = self.type_names(&described).await?;
        let list: Vec<String> = names(keep, &described)
            .into_iter()
            .zip(types)
            .map(|(name, of)| format!("{} {of}", quote_identifier(&name)))
            .collect();
        self.create_temp(self.sink, &keep.table, &list).await?;
        let sink = self.links.link(self.sink)?;
        (sink.temp, sink.gathered) = (true, true);
        self.put_rows(&keep.table, spool, described.binary).await?;
        self.run_on(self.sink, &format!("ANALYZE pg_temp.{}", keep.table)).await?;
        Ok(completion)
    }

    async fn describe_kept(&mut self, sql: &str, call: &Call) -> Result<Filled> {
        let input = Input {
            table: String::new(),
            nodes: Vec::new(),
            sql: sql.to_owned(),
            indexes: Vec::new(),
            exchange_plan: None,
        };
        let described = self.describe_input(self.sink, &input, call).await?;
        if !described.columns.iter().all(|column| is_storable(column.type_oid)) {
            return Err(PgError::unsupported("a part of WITH that gives records without a type, beside a data change")
                .hint("Cast ROW(…) to a type, or give its fields one by one."));
        }
        Ok(described)
    }

    pub(crate) async fn put_rows(&mut self, table: &str, spool: Spool, binary: bool) -> Result<()> {
        self.links.link(self.sink)?.copy_spool(&copy_into(table, binary), spool, binary).await
    }

    /// They would be in the way of the next such statement of the block.
    async fn drop_copies(&mut self, ctes: &SequencedCtes) -> Result<()> {
        let mut tables: Vec<String> = Vec::new();
        for step in &ctes.steps {
            tables.extend(step.keep.iter().map(|keep| keep.table.clone()));
            let inputs: &[Input] = match &step.plan {
                Plan::Gather(gather) => &gather.inputs,
                Plan::InsertStaged(insert) => &insert.inputs,
                Plan::StagedDml(change) => &change.inputs,
                _ => &[],
            };
            tables.extend(inputs.iter().filter(|_| step.copies).map(|input| input.table.clone()));
        }
        if tables.is_empty() {
            return Ok(());
        }
        let tables: Vec<String> = tables.iter().map(|table| format!("pg_temp.{}", quote_identifier(table))).collect();
        self.run_on(self.sink, &format!("DROP TABLE {}", tables.join(", "))).await.map(|_| ())
    }
}

/// Does a step find rows by their addresses, so that other writers have to be kept off?
pub(crate) fn changes_by_address(ctes: &SequencedCtes) -> bool {
    ctes.steps.iter().any(|step| matches!(step.plan, Plan::StagedDml(_)))
}

/// The columns' names; of several equal ones the later ones get names of ours, for nobody can refer to them.
fn names(keep: &Kept, described: &Filled) -> Vec<String> {
    let own = described.columns.iter().map(|column| String::from_utf8_lossy(&column.name).into_owned());
    let given = keep.columns.iter().cloned().chain(own.skip(keep.columns.len()));
    let mut seen = HashSet::new();
    given
        .enumerate()
        .map(|(at, name)| if seen.insert(name.clone()) { name } else { format!("loxo_column_{}", at + 1) })
        .collect()
}
