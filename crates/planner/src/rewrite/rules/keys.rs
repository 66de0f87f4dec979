//! Distribution keys that an action sets to what they are.

use catalog::{Column, Relation};
use pg_query::Node;
use pg_query::protobuf::{ColumnRef, ResTarget, UpdateStmt};
use pgerror::Result;

use super::query::Query;
use crate::context::Named;
use crate::select::terms::equal_sides;
use crate::tree::{self, Get};

impl Query<'_> {
    /// `SET key = new.k, … WHERE key = old.k`, as views are made writable, for a statement that sets no `k`: without the
    /// first assignment no row has to move.
    pub fn keep_key(&self, update: &mut UpdateStmt) -> Result<()> {
        let Some(name) = &update.relation else { return Ok(()) };
        let Named::Distributed(table) = self.ctx.resolve(name)? else { return Ok(()) };
        // UPDATE OF is about what is set, changed or not.
        if table.has_triggers {
            return Ok(());
        }
        let own = tree::alias_of(name).to_owned();
        let condition = update.where_clause.clone();
        let stays = |target: &Node| self.keeps(&table, &own, target, condition.as_deref());
        let rest: Vec<Node> = update.target_list.iter().filter(|target| !stays(target)).cloned().collect();
        if !rest.is_empty() {
            update.target_list = rest;
        }
        Ok(())
    }

    fn keeps(&self, table: &Relation, own: &str, target: &Node, condition: Option<&Node>) -> bool {
        let Some(target) = target.get::<ResTarget>() else { return false };
        let Some(name) = target.val.as_deref().and_then(|value| field(value, "new")) else { return false };
        let (Some(key), Some(column)) = (table.column(&target.name), self.relation.column(name)) else { return false };
        let is_alike = key.type_oid == column.type_oid && is_equal_only_to_itself(key);
        let is_pinned = |(left, right): (&Node, &Node)| {
            (field(left, own) == Some(&key.name) && field(right, "old") == Some(name))
                || (field(right, own) == Some(&key.name) && field(left, "old") == Some(name))
        };
        table.key_names().contains(&target.name.as_str())
            && target.indirection.is_empty()
            && !self.sets(name)
            && is_alike
            && tree::conjuncts(condition).into_iter().flat_map(equal_sides).any(is_pinned)
    }
}

/// Integers, text, bool, date, uuid: 1.0 and 1.00 are equal, too.
fn is_equal_only_to_itself(column: &Column) -> bool {
    [20, 21, 23, 25, 1043, 16, 1082, 2950].contains(&column.type_oid) && column.deterministic
}

fn field<'n>(node: &'n Node, table: &str) -> Option<&'n str> {
    let column = node.get::<ColumnRef>()?;
    match column.fields.as_slice() {
        [of, name] if tree::text_of(of) == Some(table) => tree::text_of(name),
        _ => None,
    }
}
