//! Replaces views by their definitions, so that analysis sees tables only.

use catalog::{Persistence, Relation};
use pg_query::protobuf::{Alias, RangeSubselect};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::{Context, Named};
use crate::parse::{Statement, StatementKind};
use crate::tree::{self, Ref, Walk};

/// PostgreSQL has no limit of its own but its stack; nobody stacks views this deep.
const VIEW_DEPTH_MAX: usize = 32;

/// Which views.
type Which = fn(&Relation) -> bool;

/// The statement with all user views expanded, if there are any.
pub(crate) fn expand(ctx: &Context<'_>, statement: &NodeEnum) -> Result<Option<NodeEnum>> {
    expand_some(ctx, statement, |_| true)
}

/// The same for the session's temporary views, of which no other node than the home node knows.
pub(crate) fn without_temporary(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Statement>> {
    use StatementKind::{Delete, Insert, Merge, Select, Update};
    let is_query = matches!(statement.kind, Select | Insert | Update | Delete | Merge);
    let Some(tree) = statement.node().filter(|_| is_query && !ctx.session.temp_views.is_empty()) else {
        return Ok(None);
    };
    match expand_some(ctx, tree, is_temporary)? {
        Some(tree) => crate::parse::build(&tree::deparse(&tree)?, tree).map(Some),
        None => Ok(None),
    }
}

pub(crate) fn is_temporary(view: &Relation) -> bool {
    view.persistence == Persistence::Temporary
}

/// Does a view show rows of tables that other nodes have too?
pub(crate) fn reads_distributed(ctx: &Context<'_>, view: &Relation) -> Result<bool> {
    let mut found = false;
    definition(view)?.walk(&mut |node| {
        if let Ref::RangeVar(name) = node {
            found = found || !matches!(ctx.resolve(name)?, Named::Home(_));
        }
        Ok(!found)
    })?;
    Ok(found)
}

fn expand_some(ctx: &Context<'_>, statement: &NodeEnum, which: Which) -> Result<Option<NodeEnum>> {
    let mut found = false;
    statement.walk(&mut |node| {
        if let Ref::RangeVar(name) = node {
            found |= matches!(ctx.resolve(name)?, Named::View(view) if which(&view));
        }
        Ok(!found)
    })?;
    if !found {
        return Ok(None);
    }
    let mut expanded = statement.clone();
    expand_in(ctx, &mut expanded, which, 0)?;
    Ok(Some(expanded))
}

fn expand_in(ctx: &Context<'_>, tree: &mut NodeEnum, which: Which, depth: usize) -> Result<()> {
    if depth > VIEW_DEPTH_MAX {
        return Err(PgError::unsupported(format!("a view nested more than {VIEW_DEPTH_MAX} deep"))
            .hint("Use the tables in the query itself."));
    }
    // A name that a WITH clause defines is not a view; hiding one by the other is rare enough to be refused.
    let ctes = cte_names(tree)?;
    tree.rewrite(&mut |node: &mut Node| {
        let Some(NodeEnum::RangeVar(name)) = &node.node else { return Ok(true) };
        if name.schemaname.is_empty() && ctes.contains(&name.relname) {
            return Ok(false);
        }
        let Named::View(view) = ctx.resolve(name)? else { return Ok(false) };
        if !which(&view) {
            return Ok(false);
        }
        let mut body = NodeEnum::SelectStmt(Box::new(definition(&view)?));
        expand_in(ctx, &mut body, which, depth + 1)?;
        let alias = name.alias.clone();
        *node = tree::node(NodeEnum::RangeSubselect(Box::new(RangeSubselect {
            lateral: false,
            subquery: Some(Box::new(tree::node(body))),
            alias: Some(view_alias(&view, alias)),
        })));
        Ok(false)
    })
}

fn cte_names(tree: &NodeEnum) -> Result<Vec<String>> {
    let mut names = Vec::new();
    tree.walk(&mut |node| {
        if let Ref::CommonTableExpr(cte) = node {
            names.push(cte.ctename.clone());
        }
        Ok(true)
    })?;
    Ok(names)
}

fn definition(view: &Relation) -> Result<pg_query::protobuf::SelectStmt> {
    let text = view.view_definition.as_deref().unwrap_or_default();
    tree::parse_select(text.trim_end().trim_end_matches(';'))
}

/// The user's alias, or the view's name; the view's own column names where the user gives none.
fn view_alias(view: &Relation, alias: Option<Alias>) -> Alias {
    let mut alias = alias.unwrap_or_else(|| Alias { aliasname: view.name.clone(), colnames: Vec::new() });
    let given = alias.colnames.len();
    alias.colnames.extend(view.columns.iter().skip(given).map(|c| tree::string(&c.name)));
    alias
}
