//! Rules: a change of a table or view that has some becomes the statements that PostgreSQL's rewriter would make of it.
//!
//! ```text
//! INSERT INTO t VALUES (1, 'a')        t has  ON INSERT DO ALSO INSERT INTO log VALUES (new.a, now())
//!   → INSERT INTO t VALUES (1, 'a');  INSERT INTO log VALUES (1::int, now())
//! DELETE FROM t WHERE b < 5            t has  ON DELETE WHERE old.a > 9 DO INSTEAD UPDATE u SET x = old.b
//!   → UPDATE u SET x = r.o2 FROM (SELECT t.b AS o2 … FROM t WHERE b < 5) r WHERE r.o1 > 9
//!     DELETE FROM t WHERE b < 5 AND (t.a > 9) IS NOT TRUE
//! ```
//!
//! Each is then a statement like any other, run by the coordinator in one transaction ([`Routine::Rewritten`](crate::Routine)).
//! No datanode rewrites again: rules of tables are, on the nodes, rules for replicas (see [`ddl::rule`](crate::ddl)), and a
//! view that has rules is in none of the statements. See decision 14.

use std::sync::Arc;

use catalog::{Oid, Relation, Rule, RuleEvent, RuleState};
use pg_query::protobuf::RangeVar;
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result, SqlState};

use crate::context::{Context, Named};
use crate::dml::{self, event_of};
use crate::parse::{self, Statement, StatementKind};
use crate::plan::{OfOwner, Rewritten, Step};
use crate::tree::{self, Ref, Walk};
use crate::views::VIEW_DEPTH_MAX;

mod action;
mod keys;
mod parsed;
mod query;
mod returning;
mod rights;

use parsed::Parsed;
use query::Query;

/// Most statements that rules may make of one.
const STEPS_MAX: usize = 1000;

/// What rules make of a statement; `None` if none is about it.
pub(crate) fn plan(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Rewritten>> {
    use StatementKind::{Delete, Explain, Insert, Merge, Select, Update};
    if !ctx.catalog.has_rules() {
        return Ok(None);
    }
    match (&statement.kind, statement.node()) {
        (Explain(explain), _) => match plan(ctx, &explain.inner)? {
            Some(_) => Err(PgError::unsupported("EXPLAIN of a change that rules rewrite")
                .hint("Explain the rules' own statements.")),
            None => Ok(None),
        },
        (Select | Insert | Update | Delete | Merge, Some(tree)) => {
            check_parts(ctx, tree)?;
            rewritten(ctx, statement, tree)
        }
        _ => Ok(None),
    }
}

/// Data changes in WITH.
fn check_parts(ctx: &Context<'_>, tree: &NodeEnum) -> Result<()> {
    let whole = target(tree).map(|(name, _)| name);
    tree.walk(&mut |node| {
        let Some((name, event)) = target_of(node) else { return Ok(true) };
        if whole.is_some_and(|whole| std::ptr::eq(whole, name)) {
            return Ok(true);
        }
        match ctx.resolve(name)? {
            Named::Distributed(relation) | Named::View(relation) if concerns(ctx, &relation, event, 0)? => {
                Err(PgError::unsupported(format!("a data change in WITH of \"{}\", which has rules,", relation.name))
                    .hint("Write one statement after the other."))
            }
            _ => Ok(true),
        }
    })
}

/// The table or view that a statement changes; MERGE does not say how.
fn target_of(node: Ref<'_>) -> Option<(&RangeVar, Option<RuleEvent>)> {
    tree::changed(node).map(|name| (name, event_of(node)))
}

fn target(tree: &NodeEnum) -> Option<(&RangeVar, Option<RuleEvent>)> {
    Ref::of(tree).and_then(target_of)
}

/// Do rules rewrite such a change of the relation, or of what lies under the view?
fn concerns(ctx: &Context<'_>, relation: &Relation, event: Option<RuleEvent>, depth: usize) -> Result<bool> {
    let is_meant = |rule: &&Rule| event.is_none_or(|event| rule.event == event);
    if relation.rules.iter().filter(is_meant).any(|rule| rule.state != RuleState::Disabled) {
        return Ok(true);
    }
    if depth > VIEW_DEPTH_MAX {
        return Err(PgError::unsupported(format!("view \"{}\", nested too deep,", relation.name))
            .hint("Change the table under the view."));
    }
    let Some(base) = dml::table_under(relation, event.map_or(-1, RuleEvent::bit))? else { return Ok(false) };
    match ctx.resolve(&base)? {
        Named::Distributed(under) | Named::View(under) => concerns(ctx, &under, event, depth + 1),
        Named::Home(_) => Ok(false),
    }
}

fn rewritten(ctx: &Context<'_>, statement: &Statement, tree: &NodeEnum) -> Result<Option<Rewritten>> {
    let Some((name, event)) = target(tree) else { return Ok(None) };
    let relation = match ctx.resolve(name)? {
        Named::Distributed(relation) | Named::View(relation) => relation,
        Named::Home(_) => return Ok(None),
    };
    let Some(event) = event else {
        return match relation.rules.is_empty() {
            true => Ok(None),
            // In PostgreSQL's own words.
            false => {
                let message = format!("cannot execute MERGE on relation \"{}\"", relation.name);
                Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                    .detail("MERGE is not supported for relations with rules."))
            }
        };
    };
    if !concerns(ctx, &relation, Some(event), 0)? {
        return Ok(None);
    }
    let mut rewriter = Rewriter { ctx, under_way: Vec::new(), made: Vec::new(), of_owners: Vec::new() };
    rewriter.rewrite(tree.clone(), Origin::Statement)?;
    let answer = rewriter.answer(event);
    let checks_rights = !rewriter.made.is_empty() && !rewriter.made.iter().any(|made| made.tree == *tree);
    let of_owners = std::mem::take(&mut rewriter.of_owners);
    let step = |(at, made): (usize, Made)| {
        let statement = match made.tree == *tree {
            true => statement.clone(),
            false => parse::build(&tree::deparse(&made.tree)?, made.tree)?,
        };
        Ok(Step { statement: Statement { is_rewritten: true, ..statement }, answers: answer == Some(at) })
    };
    let steps = rewriter.made.into_iter().enumerate().map(step).collect::<Result<_>>()?;
    let tag = match event {
        RuleEvent::Insert => "INSERT 0 0",
        RuleEvent::Update => "UPDATE 0",
        RuleEvent::Delete => "DELETE 0",
    };
    Ok(Some(Rewritten { steps, tag, checks_rights, of_owners }))
}

/// Where a statement comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The user's own, perhaps with more conditions.
    Statement,
    /// The action of a rule DO INSTEAD.
    Instead,
    /// The action of a rule DO ALSO.
    Also,
}

struct Made {
    tree: NodeEnum,
    origin: Origin,
}

struct Rewriter<'a> {
    ctx: &'a Context<'a>,
    /// Rules of these relations, for these events, are being followed.
    under_way: Vec<(Oid, RuleEvent)>,
    made: Vec<Made>,
    of_owners: Vec<OfOwner>,
}

impl Rewriter<'_> {
    /// Follows PostgreSQL's `RewriteQuery`.
    fn rewrite(&mut self, tree: NodeEnum, origin: Origin) -> Result<()> {
        let Some((relation, event)) = self.concerned(&tree)? else { return self.push(tree, origin) };
        let step = (relation.oid, event);
        if self.under_way.contains(&step) {
            let code = SqlState::from_bytes(b"42P17").unwrap_or(SqlState::INTERNAL_ERROR);
            let message = format!("infinite recursion detected in rules for relation \"{}\"", relation.name);
            return Err(PgError::new(code, message));
        }
        let (left, products) = follow(self.ctx, &relation, event, &tree, &mut self.of_owners)?;
        self.under_way.push(step);
        // What a rule does at an INSERT finds the new rows; at other events it finds the old ones.
        let (first, last) = if event == RuleEvent::Insert { (left, Left::Nothing) } else { (Left::Nothing, left) };
        self.keep(first, origin)?;
        for (tree, origin) in products {
            self.rewrite(tree, origin)?;
        }
        self.keep(last, origin)?;
        self.under_way.pop();
        Ok(())
    }

    fn keep(&mut self, left: Left, origin: Origin) -> Result<()> {
        match left {
            Left::Nothing => Ok(()),
            Left::Itself(tree) => self.push(tree, origin),
            Left::Below(tree) => self.rewrite(tree, origin),
        }
    }

    fn concerned(&self, tree: &NodeEnum) -> Result<Option<(Arc<Relation>, RuleEvent)>> {
        let Some((name, Some(event))) = target(tree) else { return Ok(None) };
        Ok(match self.ctx.resolve(name)? {
            Named::Distributed(relation) | Named::View(relation) if concerns(self.ctx, &relation, Some(event), 0)? => {
                Some((relation, event))
            }
            _ => None,
        })
    }

    fn push(&mut self, tree: NodeEnum, origin: Origin) -> Result<()> {
        if self.made.len() >= STEPS_MAX {
            return Err(PgError::unsupported(format!("a statement of which rules make more than {STEPS_MAX}"))
                .hint("Drop some of the rules."));
        }
        self.made.push(Made { tree, origin });
        Ok(())
    }

    /// Which statement the client hears of: its own, or the last that came in its place and is of its kind.
    fn answer(&self, event: RuleEvent) -> Option<usize> {
        let is_of_kind = |made: &Made| target(&made.tree).is_some_and(|(_, kind)| kind == Some(event));
        let own = self.made.iter().position(|made| made.origin == Origin::Statement);
        own.or_else(|| self.made.iter().rposition(|made| made.origin == Origin::Instead && is_of_kind(made)))
    }
}

/// What is left of the statement itself.
enum Left {
    Nothing,
    /// Perhaps with more conditions.
    Itself(NodeEnum),
    /// The change of what lies under a view.
    Below(NodeEnum),
}

/// Follows PostgreSQL's `fireRules`; gives what is left of the statement and what the rules of one relation make of it.
fn follow(
    ctx: &Context<'_>,
    relation: &Arc<Relation>,
    event: RuleEvent,
    tree: &NodeEnum,
    of_owners: &mut Vec<OfOwner>,
) -> Result<(Left, Vec<(NodeEnum, Origin)>)> {
    let query = Query::of(ctx, relation, event, tree)?;
    let (mut products, mut conditions) = (Vec::new(), Vec::new());
    let (mut is_replaced, mut returning) = (false, 0);
    for rule in in_force(relation, event)? {
        let Parsed { condition, is_instead, actions } = Parsed::of(rule)?;
        match &condition {
            None => is_replaced |= is_instead,
            Some(condition) if is_instead && !is_replaced => conditions.push(condition.clone()),
            Some(_) => {}
        }
        for action in &actions {
            rights::of(ctx, relation, action, of_owners)?;
            returning += usize::from(query.takes_returning(action));
            let origin = if is_instead { Origin::Instead } else { Origin::Also };
            products.push((query.fire(action, condition.as_ref())?, origin));
        }
    }
    let is_view = relation.view_definition.is_some();
    query.check_returning(returning, is_replaced || !conditions.is_empty())?;
    query.check_clauses(&products, is_replaced, is_view)?;
    let left = match (is_replaced, is_view) {
        (true, _) => Left::Nothing,
        (false, true) => {
            let below = through(ctx, relation, tree.clone(), &conditions)?;
            if ctx.catalog.view_owner(relation.oid).is_some() {
                rights::of_view(ctx, relation, &below, of_owners)?;
            }
            Left::Below(below)
        }
        (false, false) if conditions.is_empty() => Left::Itself(tree.clone()),
        (false, false) => Left::Itself(query.unless(&conditions)?),
    };
    Ok((left, products))
}

/// A change of a view as one of what lies under it.
fn through(ctx: &Context<'_>, view: &Arc<Relation>, mut tree: NodeEnum, conditions: &[Node]) -> Result<NodeEnum> {
    let refused = |why: &str| {
        Err(PgError::unsupported(format!("this change of view \"{}\"", view.name))
            .detail(why)
            .hint("Give the view an unconditional rule DO INSTEAD."))
    };
    if !conditions.is_empty() {
        return refused("Views with conditional DO INSTEAD rules are not automatically updatable.");
    }
    if view.check_option {
        return refused("It has CHECK OPTION, and what it shows has rules.");
    }
    dml::one_view_down(ctx, view, &mut tree)?;
    Ok(tree)
}

/// The rules about such a change, by name.
fn in_force(relation: &Relation, event: RuleEvent) -> Result<Vec<&Rule>> {
    let rules: Vec<&Rule> =
        relation.rules.iter().filter(|rule| rule.event == event && rule.state != RuleState::Disabled).collect();
    match rules.iter().find(|rule| rule.state == RuleState::OnNodes) {
        Some(rule) => Err(PgError::unsupported(format!("rule \"{}\" of table \"{}\"", rule.name, relation.name))
            .detail("It was not made through a coordinator, and the datanodes follow it.")
            .hint("Drop it and create it again, or ALTER TABLE … ENABLE RULE.")),
        None => Ok(rules),
    }
}
