//! `SET column = DEFAULT` with the default written out, wherever it matters which node evaluates it.
//!
//! A node knows a column's default and would evaluate it by itself: a sequence is its own there, and the clock and
//! `gen_random_uuid()` give each copy another value. As an expression of the statement a default is seen by all that decides
//! where a statement runs, and a moment can be put into it.
//!
//! Columns that an INSERT of a query leaves out get the moment too, once that is known, so that every node can insert its rows.
//!
//! Plain constants stay as they are. So does the user's text if, after all, the nodes run the statement as it stands.

use catalog::{Column, Generated, Relation};
use pg_query::protobuf::{CmdType, InsertStmt, MergeWhenClause, MultiAssignRef, ResTarget, RowExpr, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::identity;
use crate::context::{Context, Named};
use crate::facts::{clock, constant::is_literal};
use crate::parse::{Statement, StatementKind};
use crate::plan::Plan;
use crate::tree::{self, Ask, Get, Ref, Walk};

/// A statement without those DEFAULTs.
pub(crate) struct WrittenOut {
    pub statement: Statement,
    /// A moment stands in its text.
    is_timed: bool,
}

/// Does a data change, in WITH too, set a column to DEFAULT?
pub fn sets_default(statement: &Statement) -> bool {
    let sets = |node: Ref<'_>| match node {
        Ref::UpdateStmt(update) => has_default(&update.target_list),
        Ref::OnConflictClause(conflict) => has_default(&conflict.target_list),
        Ref::MergeWhenClause(when) => has_default(&when.target_list),
        _ => false,
    };
    let tree = statement.node().filter(|_| statement.kind.row_command().is_some());
    tree.is_some_and(|tree| tree.any(sets).unwrap_or(false))
}

/// The statement with its DEFAULTs written out; `None` if there are none that need it.
pub(crate) fn written_out(ctx: &Context<'_>, statement: &Statement) -> Result<Option<WrittenOut>> {
    let is_timed_insert = ctx.session.now.is_some() && statement.kind == StatementKind::Insert;
    let Some(tree) = statement.node().filter(|_| is_timed_insert || sets_default(statement)) else { return Ok(None) };
    let mut writer = Writer { ctx, is_timed: false, has_written: false };
    let mut whole = tree::node(tree.clone());
    whole.rewrite(&mut |node: &mut Node| writer.statement(node).map(|()| true))?;
    let Some(tree) = whole.node.filter(|_| writer.has_written) else { return Ok(None) };
    let rewritten = crate::parse::build(&tree::deparse(&tree)?, tree)?;
    let statement = Statement { is_rewritten: statement.is_rewritten, ..rewritten };
    Ok(Some(WrittenOut { statement, is_timed: writer.is_timed }))
}

impl WrittenOut {
    /// Gives the nodes the user's text where it does the same.
    pub(crate) fn give_back(&self, plan: &mut Plan, own: &Statement) {
        let give_back = |sql: &mut String| {
            if !self.is_timed && **sql == *self.statement.sql {
                *sql = own.sql.to_string();
            }
        };
        match plan {
            Plan::Forward(forward) => give_back(&mut forward.sql),
            Plan::Scatter(scatter) => give_back(&mut scatter.sql),
            Plan::Replicate(replicate) => give_back(&mut replicate.sql),
            Plan::StagedDml(change) => change.original = own.sql.to_string(),
            _ => {}
        }
    }
}

struct Writer<'a> {
    ctx: &'a Context<'a>,
    is_timed: bool,
    has_written: bool,
}

impl Writer<'_> {
    fn statement(&mut self, node: &mut Node) -> Result<()> {
        if let Some(insert) = node.get_mut::<InsertStmt>() {
            self.left_out(insert)?;
        }
        let (name, lists) = match &mut node.node {
            Some(NodeEnum::UpdateStmt(update)) => (&update.relation, vec![&mut update.target_list]),
            Some(NodeEnum::InsertStmt(insert)) => {
                (&insert.relation, insert.on_conflict_clause.iter_mut().map(|clause| &mut clause.target_list).collect())
            }
            Some(NodeEnum::MergeStmt(merge)) => {
                let lists = merge.merge_when_clauses.iter_mut().filter_map(|when| {
                    when.get_mut::<MergeWhenClause>()
                        .filter(|when| when.command_type() == CmdType::CmdUpdate)
                        .map(|when| &mut when.target_list)
                });
                (&merge.relation, lists.collect())
            }
            _ => return Ok(()),
        };
        // A view's target is named when it is taken apart.
        let Some(Named::Distributed(relation)) = name.as_ref().map(|name| self.ctx.resolve(name)).transpose()? else {
            return Ok(());
        };
        lists.into_iter().filter(|list| has_default(list)).try_for_each(|list| self.targets(&relation, list))
    }

    /// Puts the moment into the columns that an INSERT of a plain query leaves out.
    fn left_out(&mut self, insert: &mut InsertStmt) -> Result<()> {
        let (Some(now), Some(name)) = (self.ctx.session.now, &insert.relation) else { return Ok(()) };
        let Named::Distributed(relation) = self.ctx.resolve(name)? else { return Ok(()) };
        let Some(query) = insert.select_stmt.get_mut::<SelectStmt>() else { return Ok(()) };
        let is_plain =
            !tree::is_operation(query) && query.values_lists.is_empty() && query.target_list.len() == insert.cols.len();
        if !is_plain {
            return Ok(());
        }
        let given: Vec<String> = insert.cols.iter().filter_map(tree::name_of).map(str::to_owned).collect();
        for column in relation.columns.iter().filter(|column| !given.contains(&column.name)) {
            let at = column.default.as_ref().filter(|_| column.generated == Generated::No);
            let Some(at) = at.and_then(|text| clock::expression_at(text, now)) else { continue };
            insert.cols.push(tree::target_name_only(&column.name));
            query.target_list.push(tree::target(tree::parse_expression(&at)?, None));
            (self.is_timed, self.has_written) = (true, true);
        }
        Ok(())
    }

    fn targets(&mut self, relation: &Relation, targets: &mut [Node]) -> Result<()> {
        for target in targets {
            let Some(target) = target.get_mut::<ResTarget>() else { continue };
            let is_default = target.val.as_deref().is_some_and(tree::is_default);
            if let Some(column) = relation.column(&target.name).filter(|_| is_default)
                && let Some(value) = self.default(relation, column)?
            {
                target.val = Some(Box::new(value));
                self.has_written = true;
            }
        }
        Ok(())
    }

    /// A default that is no plain constant.
    fn default(&mut self, relation: &Relation, column: &Column) -> Result<Option<Node>> {
        match (column.generated, &column.default) {
            (Generated::IdentityAlways, _) => {
                Err(PgError::unsupported(format!("SET of identity column \"{}\" to DEFAULT", column.name))
                    .hint("Make it GENERATED BY DEFAULT."))
            }
            (Generated::IdentityByDefault, _) => tree::parse_expression(&identity(relation, column)).map(Some),
            (Generated::No, Some(text)) => {
                let at = self.ctx.session.now.and_then(|now| clock::expression_at(text, now));
                self.is_timed |= at.is_some();
                let value = tree::parse_expression(at.as_ref().unwrap_or(text))?;
                Ok((at.is_some() || !is_literal(&value)).then_some(value))
            }
            _ => Ok(None),
        }
    }
}

fn has_default(targets: &[Node]) -> bool {
    targets.iter().filter_map(tree::value_of).any(|value| match value.get::<MultiAssignRef>() {
        Some(several) => several.source.get::<RowExpr>().is_some_and(|row| row.args.iter().any(tree::is_default)),
        None => tree::is_default(value),
    })
}
