//! Replicated tables whose rows a query locks, to change them perhaps: FOR UPDATE and FOR NO KEY UPDATE.
//!
//! A change of such a table locks it on its first copy before any row. Row locks that came before would be in the wrong order: one
//! transaction has the row and waits for the table, another has the table and waits for the row. With NOWAIT and SKIP LOCKED nobody
//! may be waited for, and FOR SHARE and FOR KEY SHARE, which several may have, are not taken for a change.

use std::collections::HashSet;
use std::sync::Arc;

use catalog::{Distribution, Relation};
use pg_query::protobuf::{LockClauseStrength, LockWaitPolicy, LockingClause, RangeVar, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use crate::context::{Context, Named};
use crate::tree::{self, Ask, Get, Ref, Walk};

/// Those of a statement, or of a part of one. Views count where they have been put in place.
pub(crate) fn copies(ctx: &Context<'_>, statement: &impl Walk) -> Result<Vec<Arc<Relation>>> {
    let mut search = Search { ctx, with_items: statement.with_names()?, found: Vec::new() };
    let queries = statement.collect(|node| if let Ref::SelectStmt(select) = node { Some(select) } else { None })?;
    for query in queries.into_iter().filter(|query| !query.locking_clause.is_empty()) {
        search.query(query)?;
    }
    Ok(search.found)
}

struct Search<'a> {
    ctx: &'a Context<'a>,
    with_items: HashSet<String>,
    found: Vec<Arc<Relation>>,
}

impl Search<'_> {
    fn query(&mut self, select: &SelectStmt) -> Result<()> {
        let clauses: Vec<&LockingClause> = select.locking_clause.iter().filter_map(Get::get).collect();
        select.from_clause.iter().try_for_each(|item| self.item(item, &clauses))
    }

    fn item(&mut self, item: &Node, clauses: &[&LockingClause]) -> Result<()> {
        match &item.node {
            Some(NodeEnum::RangeVar(name)) if locks(clauses, tree::alias_of(name)) => self.table(name),
            Some(NodeEnum::JoinExpr(join)) => {
                [&join.larg, &join.rarg].into_iter().flatten().try_for_each(|side| self.item(side, clauses))
            }
            // All that it reads is locked.
            Some(NodeEnum::RangeSubselect(part)) => {
                let alias = part.alias.as_ref().map_or("", |alias| alias.aliasname.as_str());
                match part.subquery.get::<SelectStmt>() {
                    Some(query) if locks(clauses, alias) => self.all(query),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn all(&mut self, query: &SelectStmt) -> Result<()> {
        let whole = tree::for_update(Vec::new());
        let clauses: Vec<&LockingClause> = whole.get().into_iter().collect();
        query.from_clause.iter().try_for_each(|item| self.item(item, &clauses))
    }

    fn table(&mut self, name: &RangeVar) -> Result<()> {
        if name.schemaname.is_empty() && self.with_items.contains(&name.relname) {
            return Ok(());
        }
        let Named::Distributed(table) = self.ctx.resolve(name)? else { return Ok(()) };
        let has_copies = matches!(&table.distribution, Distribution::Replicated { nodes } if nodes.len() > 1);
        if has_copies && self.found.iter().all(|known| known.oid != table.oid) {
            self.found.push(table);
        }
        Ok(())
    }
}

/// Do the clauses lock rows of this item against changes, and wait for those that others have locked? The strongest of them counts, and
/// NOWAIT and SKIP LOCKED before waiting.
fn locks(clauses: &[&LockingClause], alias: &str) -> bool {
    let is_named = |clause: &LockingClause| {
        let mut names = clause.locked_rels.iter().filter_map(|node| node.get::<RangeVar>());
        clause.locked_rels.is_empty() || names.any(|name| name.relname == alias)
    };
    let meant = || clauses.iter().filter(|clause| is_named(clause));
    let is_strong = |clause: &LockingClause| {
        matches!(clause.strength(), LockClauseStrength::LcsForupdate | LockClauseStrength::LcsFornokeyupdate)
    };
    meant().any(|clause| is_strong(clause))
        && meant().all(|clause| clause.wait_policy() == LockWaitPolicy::LockWaitBlock)
}
