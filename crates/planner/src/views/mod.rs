//! Views in a query whose rows have to be moved.
//!
//! A view whose rows each node can work out from its own rows is read as if it were a table: fragments name the view itself. So
//! the nodes check its owner's rights, apply the policies that are for the owner, and show rows that the view hides to no function
//! of the reader's. Other views are replaced by their definitions.

use std::borrow::Cow;

use catalog::{Persistence, Relation};
use pg_query::protobuf::{AExprKind, Alias, FuncCall, LimitOption, RangeVar, RowExpr, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::{Context, Named};
use crate::facts::{clock, definitions::definition, functions};
use crate::parse::Statement;
use crate::session::Exchanges;
use crate::tree::{self, AS_TABLE, Ask, Get, Ref, Walk};
pub(crate) use lending::Lending;

mod lending;

/// PostgreSQL has no limit of its own but its stack; nobody stacks views this deep.
pub(crate) const VIEW_DEPTH_MAX: usize = 32;

/// Which views.
pub(crate) type Which = fn(&Relation) -> bool;

/// May this view of the statement be read as a table? Not if the sessions that exchange rows do not see what became of its tables,
/// nor if one of these is to be taken as another than the nodes have it.
pub(crate) fn reads_as_table(ctx: &Context<'_>, view: &Relation) -> Result<bool> {
    let changed = match ctx.session.exchanges {
        Exchanges::SeeingBut(changed) | Exchanges::SeeingNot(changed) => changed,
        Exchanges::No | Exchanges::Seeing => &[],
    };
    if is_temporary(view) || ctx.planner.view_as_table(ctx, view).is_none() {
        return Ok(false);
    }
    let on_first = ctx.on_first.unwrap_or_default();
    if changed.is_empty() && on_first.is_empty() {
        return Ok(true);
    }
    let body = whole(&ctx.of_body(), view)?;
    for table in ctx.of_body().tables(&body)? {
        let is_one = |of: &Relation| {
            on_first.contains(&of.oid) || changed.iter().any(|other| other.schema == of.schema && other.name == of.name)
        };
        if ctx.family(&table).iter().any(|of| is_one(of)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// May views of this statement be read as tables? Not where rows are locked: it is the tables' rows that are.
pub(crate) fn reads_as_tables(statement: &NodeEnum) -> Result<bool> {
    Ok(!statement.any(|node| matches!(node, Ref::LockingClause(_)))?)
}

/// The statement with all user views expanded.
pub(crate) fn over_tables<'s>(ctx: &Context<'_>, statement: &'s Statement) -> Result<Cow<'s, NodeEnum>> {
    let Some(tree) = statement.node() else { return Err(PgError::internal("a change or query without a tree")) };
    Ok(expand_some(ctx, tree, |_| true)?.map_or(Cow::Borrowed(tree), Cow::Owned))
}

/// Expands the session's temporary views, of which no other node than the home node knows.
pub(crate) fn without_temporary(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Statement>> {
    let is_concerned = statement.kind.row_command().is_some() && !ctx.session.temp_views.is_empty();
    let Some(tree) = statement.node().filter(|_| is_concerned) else { return Ok(None) };
    let expanded = expand_some(ctx, tree, is_temporary)?;
    expanded.map(|tree| crate::parse::build(&tree::deparse(&tree)?, tree)).transpose()
}

pub(crate) fn is_temporary(view: &Relation) -> bool {
    view.persistence == Persistence::Temporary
}

/// Does a temporary view show rows of tables that other nodes have too, or call functions that may read such tables?
pub(crate) fn needs_others(ctx: &Context<'_>, view: &Relation) -> Result<bool> {
    definition(view)?.try_any(|node| match node {
        Ref::RangeVar(name) => Ok(!matches!(ctx.resolve(name)?, Named::Home(_))),
        Ref::FuncCall(call) => calls_reader(ctx, call),
        _ => Ok(false),
    })
}

fn calls_reader(ctx: &Context<'_>, call: &FuncCall) -> Result<bool> {
    crate::try_any(ctx.user_functions(call), |function| {
        let facts = functions::function_facts(ctx, function)?;
        Ok(facts.reads.is_some() || facts.reads_part.is_some() || facts.writes || facts.refused.is_some())
    })
}

fn expand_some(ctx: &Context<'_>, statement: &NodeEnum, which: Which) -> Result<Option<NodeEnum>> {
    if !ctx.names(statement, |named| matches!(named, Named::View(view) if which(view)))? {
        return Ok(None);
    }
    let mut expanded = statement.clone();
    let as_tables = reads_as_tables(statement)?;
    Expander { ctx, which, as_tables, lending: None }.expand(&mut expanded, 0)?;
    Ok(Some(expanded))
}

/// Puts definitions in the place of views.
pub(crate) struct Expander<'a> {
    pub(crate) ctx: &'a Context<'a>,
    pub(crate) which: Which,
    /// Views may be read as tables.
    pub(crate) as_tables: bool,
    /// The tables under views are read with their owners' rights.
    pub(crate) lending: Option<Lending>,
}

impl Expander<'_> {
    pub(crate) fn expand(&mut self, tree: &mut impl Walk, depth: usize) -> Result<()> {
        if depth > VIEW_DEPTH_MAX {
            return Err(PgError::unsupported(format!("a view nested more than {VIEW_DEPTH_MAX} deep"))
                .hint("Use the tables in the query itself."));
        }
        let ctx = self.ctx;
        // A name that a WITH clause defines is not a view; hiding one by the other is rare enough to be refused.
        let ctes = tree.with_names()?;
        tree.put(|node| {
            let Some(name) = node.get_mut::<RangeVar>() else { return Ok(None) };
            if name.schemaname.is_empty() && ctes.contains(&name.relname) {
                return Ok(None);
            }
            let Named::View(view) = ctx.resolve(name)? else { return Ok(None) };
            if !(self.which)(&view) {
                return Ok(None);
            }
            if self.as_tables && reads_as_table(ctx, &view)? {
                name.relpersistence = AS_TABLE.to_owned();
                return Ok(None);
            }
            let mut body = text_of(&view)?;
            if let Some(now) = ctx.session.now {
                clock::replace(&mut body, now)?;
            }
            if let (Some(lending), Some(owner)) = (&mut self.lending, ctx.catalog.view_owner(view.oid)) {
                lending.lend(ctx, owner, &mut body)?;
            }
            self.expand(&mut body, depth + 1)?;
            if view.is_barrier && self.as_tables {
                keep_barrier(&mut body)?;
            }
            Ok(Some(in_place_of(&view, name.alias.clone(), body)))
        })?;
        Ok(())
    }
}

/// The definition of a view that is to stand in another text: it says all that it means.
fn text_of(view: &Relation) -> Result<SelectStmt> {
    let body = definition(view)?;
    says_all(view, &body).map(|()| body)
}

/// Refuses the text of a view that leaves out an operator of a user's, or its schema, since PostgreSQL has no place for it there.
pub(crate) fn says_all(view: &Relation, body: &impl Walk) -> Result<()> {
    let is_row = |node: &Option<Box<Node>>| node.get::<RowExpr>().is_some();
    let hides = view.hides_operator
        && body.any(|node| match node {
            Ref::JoinExpr(join) => join.is_natural || !join.using_clause.is_empty(),
            Ref::AExpr(e) => {
                use AExprKind::{AexprDistinct, AexprNotDistinct, AexprNullif};
                matches!(e.kind(), AexprDistinct | AexprNotDistinct | AexprNullif)
                    || is_row(&e.lexpr) && is_row(&e.rexpr)
            }
            Ref::SubLink(link) => is_row(&link.testexpr),
            Ref::CaseExpr(case) => case.arg.is_some(),
            _ => false,
        })?;
    let what = "USING, NATURAL JOIN, IS DISTINCT FROM, NULLIF, CASE by values or rows compared by a user's operator";
    let refused = || PgError::unsupported(format!("view \"{}\", which may have {what},", view.name));
    if hides { Err(refused().hint("Write the comparison out, as OPERATOR(schema.=).")) } else { Ok(()) }
}

/// The definition of a view with those of all views in it.
pub(crate) fn whole(ctx: &Context<'_>, view: &Relation) -> Result<SelectStmt> {
    let mut body = text_of(view)?;
    Expander { ctx, which: |_| true, as_tables: false, lending: None }.expand(&mut body, 0)?;
    Ok(body)
}

/// The definition of a view where it was named.
pub(crate) fn in_place(view: &Relation, alias: Option<Alias>) -> Result<Node> {
    let mut body = text_of(view)?;
    if view.is_barrier {
        keep_barrier(&mut body)?;
    }
    Ok(in_place_of(view, alias, body))
}

/// A query where a view was named: under the user's alias, or the view's name, and the view's own names of columns where the user gives none.
pub(crate) fn in_place_of(view: &Relation, alias: Option<Alias>, query: SelectStmt) -> Node {
    let alias = alias.unwrap_or_else(|| tree::alias(&view.name));
    tree::sub_select(query, tree::alias_of_columns(alias, view.columns.iter().map(|column| &column.name)))
}

/// PostgreSQL evaluates no condition from outside below OFFSET.
fn keep_barrier(select: &mut SelectStmt) -> Result<()> {
    if select.limit_offset.is_none() {
        select.limit_offset = Some(Box::new(tree::parse_expression("0")?));
        select.limit_option = LimitOption::Count as i32;
    }
    Ok(())
}
