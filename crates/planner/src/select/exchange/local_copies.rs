//! Tables that the sessions which exchange rows cannot read as the statement has to see them: a transaction block's own
//! changes are seen by its own sessions alone. These give the rows of such a table to temp tables beside them, node by node,
//! so the copy is distributed as the table is and everything else is planned over the copy.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::{Oid, Relation};
use pg_query::protobuf::RangeVar;
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::exchanged_table;
use crate::context::{Context, Named};
use crate::facts::code;
use crate::plan::Input;
use crate::select::gather::{self, Needs};
use crate::select::levels;
use crate::session::{ChangedTable, Exchanges};
use crate::tree::{self, Ask, Ref};

/// A table's copy.
pub(super) struct LocalCopy {
    pub input: Input,
    /// As the analysis sees it.
    pub table: Arc<Relation>,
}

/// Puts local copies in the place of tables, which have numbers; `None` if nobody may exchange rows of these tables.
pub(super) fn make(ctx: &Context<'_>, query: &mut NodeEnum) -> Result<Option<Vec<LocalCopy>>> {
    let (changed, blind) = match ctx.session.exchanges {
        Exchanges::No => return Ok(None),
        Exchanges::Seeing => return Ok(Some(Vec::new())),
        Exchanges::SeeingBut(changed) => (Changed::of(ctx, changed), false),
        Exchanges::SeeingNot(changed) => (Changed::of(ctx, changed), true),
    };
    // A function of the user's might read a table by itself, and not the local copy; so might a policy.
    let is_users = |node: Ref<'_>| matches!(node, Ref::FuncCall(call) if !ctx.is_builtin(&call.funcname));
    if query.any(is_users)? || code::policies_read(ctx, query)? {
        return Ok(None);
    }
    let needs = Needs::of(query)?;
    let filters = levels::filters(ctx, query)?;
    let mut local_copies: Vec<LocalCopy> = Vec::new();
    let mut locked = false;
    query.change_tables(|name| {
        // A WITH item may bear a table's name: then there is no such table in the statement.
        let Named::Distributed(relation) = ctx.resolve(name)? else { return Ok(()) };
        let known = changed.is_locked.get(&relation.oid);
        locked |= known == Some(&true);
        if blind || known.is_some() {
            let filter = filters.get(&name.location).map(Vec::as_slice).unwrap_or_default();
            let table = add(ctx, &mut local_copies, &relation, name, &needs, filter)?;
            let number = name.location;
            *name = gather::replacement(name, &table);
            name.location = number;
        }
        Ok(())
    })?;
    Ok((!locked).then_some(local_copies))
}

/// Changed tables and whether they are locked. What holds of a partition holds of the table above it.
struct Changed {
    is_locked: HashMap<Oid, bool>,
}

impl Changed {
    fn of(ctx: &Context<'_>, tables: &[ChangedTable]) -> Self {
        let mut is_locked: HashMap<Oid, bool> = HashMap::new();
        for table in tables {
            let mut next: Vec<_> = ctx.catalog.relation(&table.schema, &table.name).into_iter().collect();
            while let Some(relation) = next.pop() {
                *is_locked.entry(relation.oid).or_default() |= table.is_locked;
                next.extend(relation.parents.iter().filter_map(|parent| ctx.catalog.relation_by_oid(*parent)));
            }
        }
        Self { is_locked }
    }
}

/// Adds a local copy unless the same rows are in one already; gives its name.
fn add(
    ctx: &Context<'_>,
    local_copies: &mut Vec<LocalCopy>,
    relation: &Arc<Relation>,
    name: &RangeVar,
    needs: &Needs,
    filter: &[Node],
) -> Result<String> {
    let mut input = gather::input(ctx, relation, name, needs, filter)?;
    // Every node has a copy of its own rows, also those that the filter says are of no use.
    input.nodes = relation.distribution.nodes();
    if let Some(same) = local_copies.iter().find(|s| s.input.sql == input.sql && s.input.nodes == input.nodes) {
        return Ok(same.input.table.clone());
    }
    input.table = format!("loxo_s{}", local_copies.len() + 1);
    let needed = needs.columns(relation, tree::alias_of(name));
    let columns = relation.columns.iter().filter(|c| needed.contains(&c.name.as_str())).cloned().collect();
    let table = exchanged_table(Some(relation), input.table.clone(), columns, relation.distribution.clone());
    local_copies.push(LocalCopy { table: Arc::new(Relation { rows: relation.rows, ..table }), input: input.clone() });
    Ok(input.table)
}
