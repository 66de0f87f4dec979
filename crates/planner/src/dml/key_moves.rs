//! Rows that get another distribution key where they are, and are moved when the statement is done.
//!
//! A foreign key may give a row another distribution key: by SET NULL, SET DEFAULT or ON UPDATE CASCADE. So may an UPDATE of a
//! table to which foreign keys refer, which a DELETE of the row would tell something else. In both cases the datanodes change the
//! row and follow the actions as if it could stay. Then the coordinator moves what belongs elsewhere, in the user's name: DELETE,
//! what refers first, and INSERT, what is referred to first. Of rows that an action has changed a trigger tells
//! (`loxo.tell_move()` in `metadata.sql`), so that most statements need not look for any.
//!
//! Invariant: nobody else writes such a table meanwhile (a waiter for the row would find it deleted), and what a datanode checks
//! of a row before it moves, it can know: foreign keys to tables beside it go with rows that move too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catalog::{AttNum, Catalog, Distribution, Event, ForeignKey, Oid, Relation, RelationKind, RuleEvent};
use pg_query::Node;
use pgerror::{PgError, Result};

use crate::plan::Movable;
use crate::tree;

/// What is done to rows of a table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Done {
    Deleted,
    /// These columns get other values.
    Updated(Vec<AttNum>),
}

/// Does an UPDATE of the key leave the rows of this table where they are until it is done?
pub(crate) fn moves_afterwards(catalog: &Catalog, table: &Relation) -> bool {
    let is_alone = table.kind == RelationKind::Table && !table.has_children && table.parents.is_empty();
    let is_beside = |key: &ForeignKey| is_by_key(catalog, key.referenced) && key.referenced != table.oid;
    is_alone
        && !table.distribution.key().is_empty()
        && catalog.relations().any(|other| other.foreign_keys.iter().any(|key| key.referenced == table.oid))
        && fixed(table).is_none()
        // The row that it will refer to is on the other node.
        && !table.foreign_keys.iter().any(is_beside)
}

/// The tables with rows that may have to move then.
pub(crate) fn movable(catalog: &Catalog, changed: &Arc<Relation>, events: &[Event]) -> Result<Vec<Movable>> {
    let found = reached(catalog, changed, events);
    let goes_along = |oid: Oid| found.contains_key(&oid);
    let moves_target = moves_afterwards(catalog, changed) && goes_along(changed.oid);
    let mut movable = Vec::new();
    for (table, gets_value) in found.values() {
        let is_left = |key: &&ForeignKey| is_by_key(catalog, key.referenced) && !goes_along(key.referenced);
        if let Some(key) = table.foreign_keys.iter().find(is_left).filter(|_| *gets_value) {
            return Err(refused(table)
                .detail(format!("By foreign key \"{}\" its rows refer to rows where they would move to.", key.name))
                .hint("Insert the rows with the other key, then delete those with the old one."));
        }
        let rooted = rooted(catalog, table, &goes_along);
        // Nobody would tell that there are such rows.
        if let Some(why) = rooted.filter(|_| moves_target) {
            return Err(refused(table)
                .detail(format!("A row would be deleted on one node and inserted on another, but {why}."))
                .hint("Insert the rows with the other key, then delete those with the old one."));
        }
        let is_target = moves_target && table.oid == changed.oid;
        movable.push(Movable { table: table.clone(), is_target, rooted });
    }
    Ok(movable)
}

fn refused(table: &Relation) -> PgError {
    PgError::unsupported(format!("a foreign key that gives rows of table \"{}\" another distribution key", table.name))
}

/// Tables by object id, and whether their rows may get another key than NULL.
type Found = BTreeMap<Oid, (Arc<Relation>, bool)>;

/// Tables whose rows get another distribution key.
fn reached(catalog: &Catalog, changed: &Arc<Relation>, events: &[Event]) -> Found {
    let mut found = Found::new();
    let done: Vec<Done> = events.iter().filter_map(|event| done(changed, event)).collect();
    let sets_key = done.iter().any(|done| matches!(done, Done::Updated(columns) if sets_key(changed, columns)));
    if sets_key && (moves_afterwards(catalog, changed) || is_watched(catalog, changed)) {
        found.insert(changed.oid, (changed.clone(), false));
    }
    let leads_to_moves = changed.code.as_ref().is_some_and(|code| code.moves);
    if !found.is_empty() || leads_to_moves {
        // A table found by one way may lead to others by another that was gone before.
        while follow_all(catalog, changed, &done, &mut found) {}
    }
    found
}

/// Follows all actions from what is done to a table; `true` if another table was found.
fn follow_all(catalog: &Catalog, changed: &Arc<Relation>, done: &[Done], found: &mut Found) -> bool {
    let before = found.len();
    let mut next: Vec<(Oid, Done)> = done.iter().map(|done| (changed.oid, done.clone())).collect();
    let mut seen = BTreeSet::new();
    while let Some((table, done)) = next.pop() {
        if !seen.insert((table, done.clone())) {
            continue;
        }
        for other in catalog.relations() {
            for key in other.foreign_keys.iter().filter(|key| key.acts && key.referenced == table) {
                let Some((action, done)) = follows(key, &done) else { continue };
                // Beside a row that stays one stays that follows it.
                let stays = action == 'c' && is_by_key(catalog, table) && !found.contains_key(&table);
                if matches!(&done, Done::Updated(columns) if sets_key(other, columns)) && !stays {
                    found.entry(other.oid).or_insert((other.clone(), false)).1 |= action != 'n';
                }
                next.push((other.oid, done));
            }
        }
    }
    found.len() > before
}

fn sets_key(table: &Relation, columns: &[AttNum]) -> bool {
    table.distribution.key().iter().any(|key| columns.contains(&key.number))
}

fn done(changed: &Relation, event: &Event) -> Option<Done> {
    match event.kind {
        RuleEvent::Delete => Some(Done::Deleted),
        RuleEvent::Update => {
            let columns = event.changing.iter().filter_map(|name| changed.column(name));
            Some(Done::Updated(columns.map(|column| column.number).collect()))
        }
        RuleEvent::Insert => None,
    }
}

/// What a foreign key does to the rows that refer to one of which this is done, and by which action.
fn follows(key: &ForeignKey, done: &Done) -> Option<(char, Done)> {
    let (action, columns) = match done {
        Done::Deleted if key.on_delete == 'c' => return Some(('c', Done::Deleted)),
        Done::Deleted => (key.on_delete, &key.resets),
        Done::Updated(columns) if key.referenced_columns.iter().any(|column| columns.contains(column)) => {
            (key.on_update, &key.columns)
        }
        Done::Updated(_) => return None,
    };
    matches!(action, 'c' | 'n' | 'd').then(|| (action, Done::Updated(columns.clone())))
}

/// Does a trigger tell of the table's rows? `loxo.watch_moves()` decides it likewise.
fn is_watched(catalog: &Catalog, table: &Relation) -> bool {
    table.foreign_keys.iter().any(|key| {
        let cascades = key.cascades && !is_by_key(catalog, key.referenced);
        let mut own = table.distribution.key().iter().map(|column| column.number);
        own.any(|number| key.resets.contains(&number) || (cascades && key.columns.contains(&number)))
    })
}

fn is_by_key(catalog: &Catalog, table: Oid) -> bool {
    catalog
        .relation_by_oid(table)
        .is_some_and(|table| matches!(table.distribution, Distribution::Hash { .. } | Distribution::Modulo { .. }))
}

/// What a datanode runs by itself would be told of a DELETE and an INSERT, or forbid them.
fn fixed(table: &Relation) -> Option<&'static str> {
    if table.has_other_triggers || !table.captured.is_empty() {
        Some("the table has triggers")
    } else if table.is_barrier {
        Some("the table has row level security")
    } else {
        None
    }
}

fn rooted(catalog: &Catalog, table: &Relation, goes_along: &impl Fn(Oid) -> bool) -> Option<&'static str> {
    let mut family = vec![table.oid];
    let mut next = table.parents.clone();
    while let Some(parent) = next.pop() {
        next.extend(catalog.relation_by_oid(parent).iter().flat_map(|parent| parent.parents.iter().copied()));
        family.push(parent);
    }
    let acts_on_update = |key: &ForeignKey| matches!(key.on_update, 'c' | 'n' | 'd');
    // Where nothing follows an UPDATE, no row refers to one whose key has just changed.
    let is_left = |other: &Arc<Relation>| {
        other.foreign_keys.iter().any(|key| {
            family[1..].contains(&key.referenced)
                || (key.referenced == table.oid && acts_on_update(key) && !goes_along(other.oid))
        })
    };
    fixed(table).or_else(|| catalog.relations().any(is_left).then_some("foreign keys refer to it"))
}

/// An UPDATE of these columns, some of which may be changing.
pub(crate) fn update_of(targets: &[Node], changing: &[Node]) -> Event {
    let names = |targets: &[Node]| targets.iter().filter_map(tree::name_of).map(str::to_owned).collect();
    Event { kind: RuleEvent::Update, columns: names(targets), changing: names(changing) }
}
