//! In which order the parts run.

use std::collections::HashSet;

use catalog::Relation;
use pg_query::NodeEnum;
use pgerror::{PgError, Result};

use super::sequenced::Part;
use crate::context::Context;
use crate::tree;

/// What a part does to rows that foreign keys are about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Adds,
    Removes,
    Both,
}

/// The parts' numbers in their order; `main` is the last part.
pub(super) fn order(ctx: &Context<'_>, parts: &[Part]) -> Result<Vec<usize>> {
    let mut after: Vec<HashSet<usize>> = parts.iter().map(|part| part.reads.iter().copied().collect()).collect();
    for (child, parent) in pairs(parts.len()) {
        match between(ctx, &parts[child], &parts[parent])? {
            Some(First::Parent) => after[child].insert(parent),
            Some(First::Child) => after[parent].insert(child),
            None => continue,
        };
    }
    let mut order = Vec::new();
    let main = parts.len() - 1;
    for part in std::iter::once(main).chain((0..main).rev()) {
        visit(part, &after, &mut Vec::new(), &mut order)?;
    }
    Ok(order)
}

fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |a| (0..count).filter(move |b| a != *b).map(move |b| (a, b)))
}

fn visit(part: usize, after: &[HashSet<usize>], path: &mut Vec<usize>, order: &mut Vec<usize>) -> Result<()> {
    if order.contains(&part) {
        return Ok(());
    }
    if path.contains(&part) {
        return Err(refused("They read each other's rows in the opposite order."));
    }
    path.push(part);
    let mut before: Vec<usize> = after[part].iter().copied().collect();
    before.sort_unstable();
    before.into_iter().try_for_each(|earlier| visit(earlier, after, path, order))?;
    path.pop();
    order.push(part);
    Ok(())
}

enum First {
    Parent,
    Child,
}

/// Which goes first if one part changes a table with a foreign key to the table of the other.
fn between(ctx: &Context<'_>, child: &Part, parent: &Part) -> Result<Option<First>> {
    let (Some((of_child, table)), Some((of_parent, referenced))) = (effect(ctx, child)?, effect(ctx, parent)?) else {
        return Ok(None);
    };
    let Some(key) = table.foreign_keys.iter().find(|key| key.referenced == referenced.oid) else { return Ok(None) };
    if table.oid == referenced.oid {
        return Err(refused("The table has a foreign key to itself, which is checked too early then."));
    }
    if let NodeEnum::UpdateStmt(update) = &parent.query {
        let columns = referenced.columns_at(&key.referenced_columns);
        let is_of_key = |name: &str| columns.iter().any(|column| column.name == name);
        let sets_key = update.target_list.iter().any(|target| tree::name_of(target).is_none_or(is_of_key));
        return if sets_key { Err(refused("One of them sets a key that the other refers to.")) } else { Ok(None) };
    }
    match (of_child, of_parent) {
        (_, Effect::Adds) => Ok(Some(First::Parent)),
        (_, Effect::Removes) => Ok(Some(First::Child)),
        (_, Effect::Both) => Err(refused("One is a MERGE into a table that the other refers to.")),
    }
}

fn effect(ctx: &Context<'_>, part: &Part) -> Result<Option<(Effect, std::sync::Arc<Relation>)>> {
    let effect = match &part.query {
        NodeEnum::InsertStmt(_) => Effect::Adds,
        NodeEnum::DeleteStmt(_) => Effect::Removes,
        NodeEnum::UpdateStmt(_) | NodeEnum::MergeStmt(_) => Effect::Both,
        _ => return Ok(None),
    };
    let Some(target) = super::target_of(&part.query) else { return Ok(None) };
    Ok(ctx.distributed(target)?.map(|relation| (effect, relation)))
}

fn refused(why: &str) -> PgError {
    PgError::unsupported("this data-modifying WITH over several nodes")
        .detail(format!("Its parts have to run one after the other. {why}"))
        .hint("Run the data changes one by one, in one transaction.")
}
