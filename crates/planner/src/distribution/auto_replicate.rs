//! Tables whose distribution nobody chose give way to constraints that it does not allow: they become replicated.
//!
//! A schema as most programs make it has tables with two unique keys, and foreign keys to tables that are distributed by
//! something else. Under the default rule no choice is right for a table whose constraints come later: `CREATE UNIQUE INDEX`, or a
//! table that refers to it. What a clause said is never changed.
//!
//! Where an UPDATE sets the key and its rows cannot move to other nodes, a table whose rows no constraint keeps together goes on without a key.
//!
//! A table that joins a family of partitions or children with constraints that the family's distribution does not allow takes all of it along.
//!
//! Invariant: what a moved table refers to is replicated on the same nodes, by then or before.

use std::sync::Arc;

use catalog::{Distribution, Oid, Relation};
use pgerror::Result;

use super::constraints::{self, NewForeignKey, NewTable};
use super::{placements, redistribute};
use crate::context::Context;
use crate::plan::{Placement, Redistribute};

/// Checks a table's constraints under a placement; gives the other tables that have to become replicated for them.
pub(crate) fn check(ctx: &Context<'_>, table: &NewTable, placement: &Placement) -> Result<Vec<Redistribute>> {
    let Err(objection) = constraints::check(ctx, table, placement) else { return Ok(Vec::new()) };
    let mut moves = Vec::new();
    let mut then = table.clone();
    for foreign_key in &mut then.foreign_keys {
        let alone = NewTable { foreign_keys: vec![foreign_key.clone()], unique: Vec::new(), ..table.clone() };
        if constraints::check(ctx, &alone, placement).is_err() {
            let moved =
                foreign_key.referenced.as_ref().is_some_and(|referenced| replicate(ctx, referenced, &mut moves));
            if !moved {
                return Err(objection);
            }
        }
    }
    then.foreign_keys.iter_mut().for_each(|foreign_key| after(foreign_key, &moves));
    constraints::check(ctx, &then, placement).map(|()| moves).map_err(|_| objection)
}

/// Checks constraints to be added to an existing table, which may have to give way itself.
pub(crate) fn check_existing(
    ctx: &Context<'_>,
    relation: &Arc<Relation>,
    added: &NewTable,
) -> Result<Vec<Redistribute>> {
    let Some(placement) = placements::placement_of(relation) else { return Ok(Vec::new()) };
    let objection = match check(ctx, added, &placement) {
        Ok(moves) => return Ok(moves),
        Err(error) => error,
    };
    let mut moves = Vec::new();
    if !replicate(ctx, relation, &mut moves) {
        return Err(objection);
    }
    let mut then = added.clone();
    for foreign_key in &then.foreign_keys {
        let replicated = |referenced| replicate(ctx, referenced, &mut moves);
        if !foreign_key.is_self && !foreign_key.referenced.as_ref().is_some_and(replicated) {
            return Err(objection);
        }
    }
    then.foreign_keys.iter_mut().for_each(|foreign_key| after(foreign_key, &moves));
    let replicated = Placement::Replicated { nodes: relation.distribution.nodes() };
    constraints::check(ctx, &then, &replicated).map(|()| moves).map_err(|_| objection)
}

/// The moves, of no row, that leave a table without a distribution key, and all of its kin, if no constraint needs one.
pub(crate) fn without_key(ctx: &Context<'_>, relation: &Arc<Relation>) -> Option<Vec<Redistribute>> {
    let (root, family) = placed_by_nobody(ctx, relation)?;
    if family.iter().any(|table| table.distribution.key().is_empty()) {
        return None;
    }
    redistribute::moved(ctx, &root, &Placement::RoundRobin { nodes: root.distribution.nodes() }, true).ok()
}

/// The moves that make a table, which has constraints of its own, and a family of tables that it joins replicated.
pub(crate) fn together(ctx: &Context<'_>, child: &Arc<Relation>, parent: &Arc<Relation>) -> Option<Vec<Redistribute>> {
    let (root, _) = placed_by_nobody(ctx, parent)?;
    let placement = Placement::Replicated { nodes: root.distribution.nodes() };
    let mut moves = redistribute::moved(ctx, child, &placement, true).ok()?;
    moves.extend(redistribute::moved(ctx, &root, &placement, true).ok()?);
    let is_there = |table: &Relation| matches!(table.distribution, Distribution::Replicated { .. });
    moves.retain(|moved| !is_there(&moved.target));
    Some(moves)
}

/// The table at the top of a table's family and all of the family, if nobody has chosen where its rows lie.
fn placed_by_nobody(ctx: &Context<'_>, relation: &Arc<Relation>) -> Option<(Arc<Relation>, Vec<Arc<Relation>>)> {
    let mut root = relation.clone();
    while let Some(parent) = root.parents.first() {
        root = ctx.catalog.relation_by_oid(*parent)?.clone();
    }
    let family = ctx.family(&root);
    let is_of_family = |oid: &Oid| family.iter().any(|table| table.oid == *oid);
    let free = family.iter().all(|table| table.by_default && table.parents.iter().all(is_of_family));
    free.then_some((root, family))
}

/// The moves that make a table replicated, if it may be.
pub(crate) fn replicated(ctx: &Context<'_>, relation: &Arc<Relation>) -> Option<Vec<Redistribute>> {
    let mut moves = Vec::new();
    replicate(ctx, relation, &mut moves).then_some(moves)
}

/// Notes that a table, and before it what it refers to, becomes replicated. Is it then?
fn replicate(ctx: &Context<'_>, relation: &Arc<Relation>, moves: &mut Vec<Redistribute>) -> bool {
    replicate_behind(ctx, relation, &mut Vec::new(), moves)
}

/// `path` are the tables that wait for this one: a circle of foreign keys may be entered anywhere only if its tables are
/// all empty, which is not known here.
fn replicate_behind(
    ctx: &Context<'_>,
    relation: &Arc<Relation>,
    path: &mut Vec<catalog::Oid>,
    moves: &mut Vec<Redistribute>,
) -> bool {
    let is_replicated = matches!(relation.distribution, Distribution::Replicated { .. });
    if is_replicated || moves.iter().any(|moved| moved.target.oid == relation.oid) {
        return true;
    }
    let has_kin = relation.has_children || relation.is_partition || !relation.parents.is_empty();
    if !relation.by_default || has_kin || path.contains(&relation.oid) || pulls_keys(ctx, relation, path, moves) {
        return false;
    }
    path.push(relation.oid);
    let mut referenced = relation.foreign_keys.iter().filter(|key| key.referenced != relation.oid);
    let follows = referenced.all(|key| {
        let table = ctx.catalog.relation_by_oid(key.referenced);
        table.is_some_and(|table| replicate_behind(ctx, table, path, moves))
    });
    path.pop();
    if follows {
        let placement = Placement::Replicated { nodes: relation.distribution.nodes() };
        moves.push(Redistribute { target: relation.clone(), placement, by_default: true });
    }
    follows
}

/// Would ON UPDATE CASCADE from the table, once it is replicated, change the key of a table that is not?
fn pulls_keys(ctx: &Context<'_>, relation: &Relation, path: &[catalog::Oid], moves: &[Redistribute]) -> bool {
    let stays =
        |table: &Relation| !path.contains(&table.oid) && moves.iter().all(|moved| moved.target.oid != table.oid);
    let pulls = |table: &Relation| {
        let mut keys = table.foreign_keys.iter().filter(|key| key.cascades && key.referenced == relation.oid);
        keys.any(|key| table.distribution.key().iter().any(|column| key.columns.contains(&column.number)))
    };
    ctx.catalog.relations().any(|table| pulls(table) && stays(table))
}

/// The foreign key as it is once the tables have moved.
fn after(foreign_key: &mut NewForeignKey, moves: &[Redistribute]) {
    let Some(referenced) = &mut foreign_key.referenced else { return };
    if let Some(moved) = moves.iter().find(|moved| moved.target.oid == referenced.oid) {
        let distribution = Distribution::Replicated { nodes: moved.target.distribution.nodes() };
        *referenced = Arc::new(Relation { distribution, ..(**referenced).clone() });
    }
}
