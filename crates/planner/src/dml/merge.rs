//! MERGE: where target and source are both whole on the nodes that run it, else by way of the home node.

use std::sync::Arc;

use catalog::{Distribution, Relation};
use pg_query::protobuf::{CmdType, JoinExpr, JoinType, MergeMatchKind, MergeStmt, MergeWhenClause, ResTarget};
use pg_query::protobuf::{OverridingKind, RangeVar};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::staged_dml::{Clause, Draft, Kind};
use super::{Target, check_same_everywhere, is_replicated, returning_list, stage, update};
use crate::context::Context;
use crate::facts::{constant::is_literal, functions::facts};
use crate::parse::Statement;
use crate::plan::{Forward, Gather, Plan, Replicate, Scatter};
use crate::select::locality::{Analyzer, Env, Not, RowDistribution};
use crate::select::{fallback, refusal};
use crate::tree::{self, Get, Syntax};
use crate::views;

/// Plans a MERGE. A node alone may update and delete rows of a partitioned target, but not insert: a row that no node
/// matches would be inserted by each of them.
pub(crate) fn merge(ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
    let tree = &*views::over_tables(ctx, statement)?;
    let NodeEnum::MergeStmt(merge) = tree else { return Err(PgError::internal("not a MERGE")) };
    let facts = facts(ctx, tree)?;
    let Some(name) = &merge.relation else { return Err(PgError::internal("MERGE without a target")) };
    let target = super::target(ctx, name, &facts)?;
    let others: Vec<_> = merge.source_relation.as_deref().cloned().into_iter().collect();
    let mut expressions = returning_list(merge.returning_clause.as_ref());
    // ON leaves rows out only where those that match nothing are left out, too.
    let all_matched = when_clauses(merge).all(|when| when.match_kind == MergeMatchKind::MergeWhenMatched as i32);
    let condition = merge.join_condition.as_deref().filter(|_| all_matched);
    expressions.extend(merge.join_condition.as_deref().map(|on| tree::target(on.clone(), None)));
    let mut each_by_itself = all_matched && facts.home.is_none() && facts.function_nodes.is_none();
    for when in when_clauses(merge) {
        expressions.extend(when.condition.as_deref().map(|c| tree::target(c.clone(), None)));
        expressions.extend(when.target_list.iter().cloned());
        expressions.extend(when.values.iter().map(|v| tree::target(v.clone(), None)));
        if let (Target::Table(relation), CmdType::CmdUpdate) = (&target, when.command_type()) {
            each_by_itself &= update::check_key(relation, &when.target_list).is_ok();
        }
    }
    let of = |relation: Arc<Relation>| Merge { ctx, statement, merge, name, relation };
    if let (true, Target::Table(relation)) = (ctx.copies.is_some(), &target) {
        return of(relation.clone()).by_way_of_home("other parts of its WITH change rows too");
    }
    let mut analyzer = Analyzer::new(ctx);
    let part = analyzer
        .with(merge.with_clause.as_ref(), &Env::default())
        .and_then(|env| analyzer.write_body(name, &others, condition, &expressions, &env))
        .map(|body| body.part);
    match (target, part) {
        (Target::Table(relation), Err(Not::Local(reason))) => of(relation).by_way_of_home(&reason),
        (Target::Home, Err(Not::Local(reason))) => {
            let gather = fallback(ctx, tree, &facts, &reason)?;
            Ok(Plan::Gather(Gather { writes: true, ..gather }))
        }
        (_, Err(not)) => Err(refusal(not, "this MERGE")),
        (Target::Home, Ok(RowDistribution::Home)) => {
            facts.check_functions_at_home(ctx)?;
            Ok(Plan::Forward(Forward::of(statement, vec![ctx.home()], true)))
        }
        (Target::Table(relation), Ok(RowDistribution::Replicated(whole))) if is_replicated(&relation) => {
            let nodes = ctx.primary_first(relation.distribution.nodes());
            let is_everywhere = nodes.iter().all(|n| whole.contains(n)) && facts.function_nodes.is_none();
            let planned = of(relation);
            match check_same_everywhere(&facts, &planned.relation.name) {
                Ok(()) if planned.takes_defaults()? => {
                    planned.by_way_of_home("each copy would make defaults of its own")
                }
                Ok(()) if is_everywhere => Ok(Plan::Replicate(Replicate::of(statement, nodes))),
                Ok(()) => planned.by_way_of_home("the source is not on every node of the copies"),
                Err(error) => planned.by_way_of_home(&error.message()),
            }
        }
        // Each node would change its copies by its own part of the source.
        (Target::Table(relation), Ok(_)) if is_replicated(&relation) => {
            of(relation).by_way_of_home("the source is not whole on every node of the copies")
        }
        (Target::Table(relation), Ok(RowDistribution::Partitioned(split)))
            if each_by_itself && split.nodes.len() > 1 && facts.moving.is_some() =>
        {
            let reason = format!("{} is another on every node", facts.moving.as_deref().unwrap_or_default());
            of(relation).by_way_of_home(&reason)
        }
        (Target::Table(_), Ok(RowDistribution::Partitioned(split))) if each_by_itself => {
            Ok(Plan::Scatter(Scatter::of(statement, split.nodes, true)))
        }
        (Target::Table(relation), Ok(RowDistribution::Replicated(nodes)))
            if each_by_itself
                || matches!(relation.distribution, Distribution::Replicated { .. })
                    && facts.function_nodes.is_none()
                    && (facts.home.is_none() || nodes[0] == ctx.home()) =>
        {
            Ok(Plan::Forward(Forward::of(statement, nodes[..1].to_vec(), true)))
        }
        (Target::Table(relation), Ok(_)) => {
            of(relation).by_way_of_home("which row is new, and on which node it belongs, no node can tell")
        }
        _ => Err(refused("The source is not where the target is.")),
    }
}

fn when_clauses(merge: &MergeStmt) -> impl Iterator<Item = &MergeWhenClause> {
    merge.merge_when_clauses.iter().filter_map(|clause| clause.get::<MergeWhenClause>())
}

struct Merge<'a> {
    ctx: &'a Context<'a>,
    statement: &'a Statement,
    merge: &'a MergeStmt,
    name: &'a RangeVar,
    relation: Arc<Relation>,
}

impl Merge<'_> {
    /// Does a new row get a default that is more than a constant?
    fn takes_defaults(&self) -> Result<bool> {
        let stored = stage::stored_columns(&self.relation);
        let inserts = when_clauses(self.merge).filter(|when| when.command_type() == CmdType::CmdInsert);
        crate::try_any(inserts, |when| {
            let given = self.inserted(when)?;
            let is_given = |name: &str| given.iter().any(|(given, value)| given == name && value.is_some());
            crate::try_any(stored.iter().filter(|column| !is_given(&column.name)), |column| {
                let default = column.default.as_deref().map(tree::parse_expression).transpose()?;
                Ok(column.generated.is_identity() || default.is_some_and(|default| !is_literal(&default)))
            })
        })
    }

    /// `source LEFT JOIN target ON …`, each row of which takes the first WHEN that fits.
    fn by_way_of_home(self, reason: &str) -> Result<Plan> {
        let clauses = when_clauses(self.merge).map(|when| self.clause(when)).collect::<Result<Vec<_>>>()?;
        let is_inner = clauses.iter().all(|clause| clause.matched && !clause.asks_elsewhere());
        let jointype = if is_inner { JoinType::JoinInner } else { JoinType::JoinLeft };
        let join = JoinExpr {
            jointype: jointype as i32,
            larg: self.merge.source_relation.clone(),
            rarg: Some(Box::new(tree::node(NodeEnum::RangeVar(self.name.clone())))),
            quals: self.merge.join_condition.clone(),
            ..JoinExpr::default()
        };
        Draft {
            ctx: self.ctx,
            statement: self.statement,
            command: "MERGE",
            name: self.name,
            relation: self.relation.clone(),
            from: vec![join.into_node()],
            condition: None,
            with: self.merge.with_clause.clone(),
            returning: self.merge.returning_clause.as_ref(),
            clauses,
            reason,
        }
        .plan()
    }

    fn clause(&self, when: &MergeWhenClause) -> Result<Clause> {
        let matched = match when.match_kind() {
            MergeMatchKind::MergeWhenMatched => true,
            MergeMatchKind::MergeWhenNotMatchedByTarget => false,
            _ => return Err(refused("WHEN NOT MATCHED BY SOURCE needs all rows of both on one node.")),
        };
        let (kind, values) = match when.command_type() {
            CmdType::CmdUpdate => (Kind::Update, update::assignments(self.ctx, &when.target_list)?),
            CmdType::CmdDelete => (Kind::Delete, Vec::new()),
            CmdType::CmdInsert => (Kind::Insert, self.inserted(when)?),
            _ => (Kind::Nothing, Vec::new()),
        };
        Ok(Clause { kind, matched, condition: when.condition.as_deref().cloned(), values })
    }

    /// The columns of INSERT and their values.
    fn inserted(&self, when: &MergeWhenClause) -> Result<Vec<(String, Option<Node>)>> {
        if when.r#override() == OverridingKind::OverridingUserValue {
            return Err(refused("OVERRIDING USER VALUE makes the column's value twice."));
        }
        let mut names = Vec::new();
        for target in &when.target_list {
            let Some(target) = target.get::<ResTarget>() else { continue };
            if !target.indirection.is_empty() {
                return Err(refused("INSERT names a part of a column."));
            }
            names.push(target.name.clone());
        }
        if names.is_empty() {
            names = self.relation.columns.iter().map(|column| column.name.clone()).collect();
        }
        let stored = stage::stored_columns(&self.relation);
        let values = when.values.iter().map(|value| (!tree::is_default(value)).then(|| value.clone()));
        Ok(names.into_iter().zip(values).filter(|(name, _)| stored.iter().any(|column| column.name == *name)).collect())
    }
}

fn refused(why: &str) -> PgError {
    PgError::unsupported("this MERGE")
        .detail(why)
        .hint("Use INSERT … ON CONFLICT DO UPDATE, or UPDATE and INSERT in one transaction.")
}
