//! Replaces views by their definitions, so that analysis sees tables only.

use catalog::Relation;
use pg_query::protobuf::{Alias, RangeSubselect};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::{Context, Named};
use crate::tree::{self, Ref, Walk};

/// PostgreSQL has no limit of its own but its stack; nobody stacks views this deep.
const VIEW_DEPTH_MAX: usize = 32;

/// The statement with all user views expanded, if there are any.
pub(crate) fn expand(ctx: &Context<'_>, statement: &NodeEnum) -> Result<Option<NodeEnum>> {
    if !mentions_view(ctx, statement)? {
        return Ok(None);
    }
    let mut expanded = statement.clone();
    expand_in(ctx, &mut expanded, 0)?;
    Ok(Some(expanded))
}

fn mentions_view(ctx: &Context<'_>, statement: &NodeEnum) -> Result<bool> {
    let mut found = false;
    statement.walk(&mut |node| {
        if let Ref::RangeVar(name) = node {
            found |= matches!(ctx.resolve(name)?, Named::View(_));
        }
        Ok(!found)
    })?;
    Ok(found)
}

fn expand_in(ctx: &Context<'_>, tree: &mut NodeEnum, depth: usize) -> Result<()> {
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
        let mut body = NodeEnum::SelectStmt(Box::new(definition(&view)?));
        expand_in(ctx, &mut body, depth + 1)?;
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
