//! May the home node's part of a plan run in another session than the writing one?
//!
//! A transaction that has touched temp tables cannot be PREPAREd. So inside a transaction block a plan's temp tables belong to a
//! session beside it, if what runs over them reads nothing else, changes nothing, and asks nothing that only the block's own session knows.
//!
//! Defaults that do (most draw from a sequence, whose last value is the session's) come to the rows afterwards: the block's own
//! session computes them, once for each row ([`Late`]).

use std::collections::HashSet;

use catalog::{Column, Generated, Relation};
use pg_query::NodeEnum;
use pgerror::Result;

use crate::context::Context;
use crate::dml::stage;
use crate::facts::{clock::expression_at, functions::facts};
use crate::plan::{Gather, Input, InsertStaged, Plan, STAGE, SequencedCtes, StagedDml, Tables};
use crate::tree::{self, Ask, Ref};

/// See the module's page; false in doubt.
pub(crate) fn runs_apart(ctx: &Context<'_>, plan: &Plan) -> bool {
    let mut apart = Apart { ctx: *ctx, made: HashSet::from([STAGE.to_owned()]) };
    apart.plan(plan).unwrap_or(false)
}

/// Defaults that the block's own session computes for rows of a stage which has been filled without them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// The columns' names, quoted, and their defaults.
    pub defaults: Vec<(String, String)>,
    /// The stage's columns, as CREATE TABLE has them, without these defaults.
    pub definitions: Vec<String>,
}

/// The defaults that an INSERT into a stage leaves to be computed afterwards, if its plan [runs apart](runs_apart).
pub(crate) fn late_defaults(ctx: &Context<'_>, insert: &InsertStaged) -> Result<Late> {
    let apart = Apart { ctx: *ctx, made: HashSet::new() };
    let (target, made) = (&insert.stage.target, &insert.stage.definitions);
    let late = apart.late(target, made, &insert.fill.text)?.unwrap_or_default();
    let bare = |column: &Column| format!("{} {}", catalog::quote_identifier(&column.name), column.type_name);
    let columns: Vec<String> = late.iter().map(|(column, _)| bare(column)).collect();
    let without = |definition: &String| {
        let is_of = |column: &&String| definition.starts_with(&format!("{column} DEFAULT "));
        columns.iter().find(is_of).unwrap_or(definition).clone()
    };
    Ok(Late {
        definitions: made.iter().map(without).collect(),
        defaults: late.into_iter().map(|(column, value)| (catalog::quote_identifier(&column.name), value)).collect(),
    })
}

struct Apart<'a> {
    ctx: Context<'a>,
    /// Temp tables of the plan.
    made: HashSet<String>,
}

impl Apart<'_> {
    fn plan(&mut self, plan: &Plan) -> Result<bool> {
        match plan {
            Plan::Gather(gather) => self.gather(gather),
            Plan::InsertStaged(insert) => self.staged(insert),
            Plan::StagedDml(change) => self.change(change),
            Plan::SequencedCtes(ctes) => self.ctes(ctes),
            _ => Ok(false),
        }
    }

    /// Adds the tables of inputs; false if the session beside the block cannot make one, because its rows are those of a temp table of
    /// the user's.
    fn add(&mut self, inputs: &[Input]) -> Result<bool> {
        self.made.extend(inputs.iter().map(|input| input.table.clone()));
        let own: HashSet<String> = self.ctx.session.temp_relations.iter().cloned().collect();
        Ok(own.is_empty() || !crate::try_any(inputs, |input| reads_any(&input.sql, &own))?)
    }

    fn gather(&mut self, gather: &Gather) -> Result<bool> {
        Ok(self.add(&gather.inputs)? && !gather.writes && self.text(&gather.final_sql.text)?)
    }

    fn staged(&mut self, insert: &InsertStaged) -> Result<bool> {
        if !self.add(&insert.inputs)? {
            return Ok(false);
        }
        let (target, made) = (&insert.stage.target, &insert.stage.definitions);
        Ok(self.text(&insert.fill.text)? && self.late(target, made, &insert.fill.text)?.is_some())
    }

    fn change(&mut self, change: &StagedDml) -> Result<bool> {
        if !self.add(&change.inputs)? {
            return Ok(false);
        }
        for text in change.fills.iter().map(|fill| &fill.text) {
            let late = self.late(&change.target, &change.definitions, text)?;
            if !self.text(text)? || late.is_none_or(|late| !late.is_empty()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn ctes(&mut self, ctes: &SequencedCtes) -> Result<bool> {
        let kept: HashSet<String> =
            ctes.steps.iter().flat_map(|step| &step.keep).map(|keep| keep.table.clone()).collect();
        self.made.extend(kept.iter().cloned());
        for step in &ctes.steps {
            // To describe a data change takes locks that the block's own may conflict with.
            if step.keep.is_some() && !matches!(step.plan, Plan::Gather(_)) {
                return Ok(false);
            }
            let is_apart = match &step.plan {
                Plan::Forward(forward) => !reads_any(&forward.sql, &kept)?,
                Plan::Scatter(scatter) => !reads_any(&scatter.sql, &kept)?,
                Plan::Replicate(replicate) => !reads_any(&replicate.sql, &kept)?,
                Plan::InsertSplit(_) => true,
                // It is described in the block's own session, which does not see these tables.
                Plan::StagedDml(change) if reads_any(&change.original, &kept)? => false,
                plan => self.plan(plan)?,
            };
            if !is_apart {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A query or INSERT over the plan's tables.
    fn text(&self, sql: &str) -> Result<bool> {
        let statements = crate::parse(sql)?;
        let Some(node) = statements.first().and_then(|statement| statement.node()) else { return Ok(false) };
        let facts = facts(&self.ctx, node)?;
        let is_pure = !facts.writes
            && !facts.locking
            && facts.home.is_none()
            // The block's `now()` is not that of a transaction begun later.
            && facts.clock.is_none()
            && facts.function_nodes.is_none()
            && facts.refused.is_none();
        let is_made = |name: &String| self.made.iter().any(|made| catalog::quote_identifier(made) == bare(name));
        Ok(is_pure && Tables::in_text(sql)?.read.iter().all(is_made))
    }

    /// Those defaults of an INSERT into this table's stage, which `made` makes, that only the block's own session can compute;
    /// `None` if they cannot come afterwards.
    fn late<'r>(
        &self,
        relation: &'r Relation,
        made: &[String],
        fill: &str,
    ) -> Result<Option<Vec<(&'r Column, String)>>> {
        let statements = crate::parse(fill)?;
        let Some(NodeEnum::InsertStmt(insert)) = statements.first().and_then(|statement| statement.node()) else {
            return Ok(None);
        };
        let marked = insert.any(|node| matches!(node, Ref::List(list) if list.items.iter().any(|item| matches!(item.node, Some(NodeEnum::SetToDefault(_))))))?;
        let given: Vec<&str> = insert.cols.iter().filter_map(tree::name_of).collect();
        let mut late = Vec::new();
        for column in &relation.columns {
            if !marked && given.contains(&column.name.as_str()) {
                continue;
            }
            if column.generated.is_identity() {
                late.push((column, stage::identity(relation, column)));
                continue;
            }
            let Some(default) = &column.default else { continue };
            // The block's time may stand in it for the clock.
            let is_written = made.contains(&stage::definition(relation, column, None));
            let at_a_moment =
                if is_written { None } else { expression_at(default, &crate::facts::clock::some_moment()) };
            let is_apart = self.text(&format!("SELECT {}", at_a_moment.as_ref().unwrap_or(default)))?;
            if !is_apart && column.generated == Generated::No {
                late.push((column, default.clone()));
            }
        }
        // Rows with DEFAULT in some of them, and what is computed from columns, need the values at once.
        let may_be_late = !marked && !relation.columns.iter().any(|column| column.generated.is_computed());
        Ok((late.is_empty() || may_be_late).then_some(late))
    }
}

fn bare(name: &str) -> &str {
    name.strip_prefix("pg_temp.").unwrap_or(name)
}

fn reads_any(sql: &str, tables: &HashSet<String>) -> Result<bool> {
    let read = Tables::in_text(sql)?.read;
    Ok(read.iter().any(|name| tables.iter().any(|table| catalog::quote_identifier(table) == bare(name))))
}
