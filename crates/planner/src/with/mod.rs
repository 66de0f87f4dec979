//! WITH items that change rows.
//!
//! ```text
//! items and main statement ─┬─ all on one node, or each node on its own rows ─ push → Forward, Scatter
//!                           └─ parts, in order ─ chain → SequencedCtes
//! ```
//!
//! In PostgreSQL all parts of such a statement see the tables as they were before it; what one part changes reaches another
//! only through RETURNING. In a [`SequencedCtes`](crate::SequencedCtes) that is kept up so: a part runs as a statement of its own only if it
//! reads nothing that an earlier part has changed. Any other works on copies of its tables, made before the first part runs,
//! and changes rows by their addresses in that state; a row that an earlier part has changed is not found there any more, and is
//! left alone, as PostgreSQL leaves it. What others read of a part lies in a temp table.
//!
//! Order: PostgreSQL runs the main statement, which draws upon the items it reads, then all other items, the last first. Foreign
//! keys, which it checks at the very end, may demand another order of parts that do not read each other.

use std::collections::HashSet;
use std::sync::Arc;

use catalog::Relation;
use pg_query::NodeEnum;
use pg_query::protobuf::{CommonTableExpr, RangeVar, WithClause};
use pgerror::{PgError, Result, SqlState};

use crate::context::Context;
use crate::parse::Statement;
use crate::plan::Plan;
use crate::tree::{self, Ask, returned_by, target_of, with_items, with_mut, with_of};
use crate::views;

mod order;
mod push;
mod sequenced;

/// Plans a statement if one of its WITH items changes rows.
pub(crate) fn plan(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Plan>> {
    if !changes_rows(statement) {
        return Ok(None);
    }
    let mut main = views::over_tables(ctx, statement)?.into_owned();
    let Some(with) = with_mut(&mut main).and_then(Option::take) else { return Ok(None) };
    refuse_hidden_names(&with, &main)?;
    match push::push_down(ctx, statement, &with, &main)? {
        Some(plan) => Ok(Some(plan)),
        None => sequenced::sequenced(ctx, statement, &with, &main).map(Some),
    }
}

/// Does one of its WITH items change rows?
pub(crate) fn changes_rows(statement: &Statement) -> bool {
    statement.node().and_then(with_of).is_some_and(|with| with_items(Some(with)).any(changes))
}

fn query_of(item: &CommonTableExpr) -> Option<&NodeEnum> {
    item.ctequery.as_deref().and_then(|query| query.node.as_ref())
}

fn changes(item: &CommonTableExpr) -> bool {
    query_of(item).is_some_and(|query| !matches!(query, NodeEnum::SelectStmt(_)))
}

/// A name that two WITH clauses define means one thing here and another there: it is not followed.
fn refuse_hidden_names(with: &WithClause, main: &NodeEnum) -> Result<()> {
    let names: HashSet<&str> = with_items(Some(with)).map(|item| item.ctename.as_str()).collect();
    for tree in with_items(Some(with)).filter_map(query_of).chain([main]) {
        if let Some(name) = tree.with_names()?.into_iter().find(|name| names.contains(name.as_str())) {
            return Err(PgError::unsupported(format!("the WITH item \"{name}\", defined twice, beside data changes,"))
                .hint("Rename one of them."));
        }
    }
    Ok(())
}

/// What a name stands for, the same for a table and its partitions and children.
fn identity(ctx: &Context<'_>, name: &RangeVar) -> Result<String> {
    let named = ctx.resolve(name)?;
    let Some(relation) = named.relation() else { return Ok(format!("{}.{}", name.schemaname, name.relname)) };
    let mut family = vec![relation];
    let mut at = 0;
    while let Some(one) = family.get(at).copied() {
        let is_kin = |other: &&Arc<Relation>| {
            one.parents.contains(&other.oid) || one.has_children && other.parents.contains(&one.oid)
        };
        let is_new = |other: &&Arc<Relation>| family.iter().all(|known| known.oid != other.oid);
        let kin: Vec<_> = ctx.catalog.relations().filter(is_kin).filter(is_new).collect();
        family.extend(kin);
        at += 1;
    }
    let first = family.into_iter().min_by_key(|table| table.oid);
    Ok(first.unwrap_or(relation).qualified_name())
}

/// All bare names in FROM and its kin, without the target.
fn bare_names(node: &NodeEnum) -> Result<HashSet<String>> {
    let target = target_of(node);
    let is_target = |name: &RangeVar| target.is_some_and(|target| std::ptr::eq(target, name));
    let bare = node.tables()?.into_iter().filter(|name| name.schemaname.is_empty() && !is_target(name));
    Ok(bare.map(|name| name.relname.clone()).collect())
}

fn statement_of(node: &NodeEnum) -> Result<Statement> {
    crate::parse::build(&tree::deparse(node)?, node.clone())
}

/// PostgreSQL's own refusal of a cursor over data changes.
pub fn check_cursor(inner: &Statement) -> Result<()> {
    match changes_rows(inner) {
        true => Err(PgError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "DECLARE CURSOR must not contain data-modifying statements in WITH",
        )),
        false => Ok(()),
    }
}
