//! CREATE INDEX.

use pg_query::Node;
use pg_query::protobuf::{IndexElem, IndexStmt};
use pgerror::{PgError, Result};

use super::{as_it_stands, everywhere, is_temporary};
use crate::context::{Context, Named};
use crate::distribution::auto_replicate;
use crate::distribution::constraints::{NewTable, NewUnique};
use crate::facts::code;
use crate::parse::Statement;
use crate::plan::{DdlKind, DdlPlan};
use crate::tree::{self, Get, Syntax};

/// CREATE INDEX.
pub(super) fn create_index(ctx: &Context<'_>, statement: &Statement, index: &IndexStmt) -> Result<DdlPlan> {
    let Some(name) = &index.relation else { return Err(PgError::internal("an index without a table")) };
    if is_temporary(ctx, name) {
        code::check_index(ctx, index)?;
        return temporary_index(ctx, statement, index);
    }
    let mut plan = as_it_stands(statement, everywhere(ctx), DdlKind::Schema);
    plan.outside_transaction = index.concurrent;
    match ctx.resolve(name)? {
        Named::Distributed(relation) if index.unique => {
            let columns = index.index_params.iter().filter_map(|param| index_column(ctx, param)).collect();
            let mut table = NewTable::existing(ctx, &relation);
            table.unique.push(NewUnique { columns, primary: false });
            plan.moves = auto_replicate::check_existing(ctx, &relation, &table)?;
        }
        _ => {}
    }
    Ok(plan)
}

/// PostgreSQL itself leaves CONCURRENTLY out of it for temporary tables, since nobody else can see them.
fn temporary_index(ctx: &Context<'_>, statement: &Statement, index: &IndexStmt) -> Result<DdlPlan> {
    let mut plan = super::temporary(ctx, statement, DdlKind::Schema);
    if index.concurrent && !ctx.session.in_transaction {
        let plain = IndexStmt { concurrent: false, ..index.clone() };
        plan.node_sql = tree::deparse(&plain.into_tree())?;
    }
    Ok(plan)
}

/// A column that a unique index keeps apart as the hash of the column does: not by a collation of its own under which other
/// values are equal, and not by an operator class, whose equality may be any.
fn index_column(ctx: &Context<'_>, param: &Node) -> Option<String> {
    let element = param.get::<IndexElem>()?;
    let names = tree::names_of(&element.collation);
    let collation = names.last().map(String::as_str);
    let is_equal_otherwise = collation.is_some_and(|name| ctx.catalog.has_nondeterministic_collation(Some(name)));
    let is_plain = element.expr.is_none() && element.opclass.is_empty() && !is_equal_otherwise;
    is_plain.then(|| element.name.clone())
}
