//! WHERE CURRENT OF: the session that runs the statement puts the key of the cursor's row there.

use std::ops::Range;

use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result, SqlState};
use plpgsql::tokens as scan;

use crate::context::{Context, Named};
use crate::parse::Statement;
use crate::plan::CurrentOf;
use crate::tree::{self, Ask, Ref};

/// Where `WHERE CURRENT OF name` stands first in a statement, and the name.
pub fn current_of(sql: &str) -> Option<(Range<usize>, String)> {
    const WORD: &[u8] = b"current";
    if !sql.as_bytes().windows(WORD.len()).any(|word| word.eq_ignore_ascii_case(WORD)) {
        return None;
    }
    let tokens = scan::tokens(sql)?;
    (0..tokens.len()).find_map(|at| {
        let mut from = scan::Cursor { tokens: &tokens, at, sql };
        let name = from.accept("where current of").then(|| from.identifier().ok())??;
        Some((tokens[at].start..tokens[from.at - 1].end, name))
    })
}

/// What the statement changes, if it is an UPDATE or DELETE of this kind; `None` if it is not, or changes a table of the home node.
pub(crate) fn changes_current(ctx: &Context<'_>, statement: &Statement) -> Result<Option<CurrentOf>> {
    let Some(tree) = statement.inner().unwrap_or(statement).node() else { return Ok(None) };
    let (target, condition) = match tree {
        NodeEnum::UpdateStmt(update) => (&update.relation, &update.where_clause),
        NodeEnum::DeleteStmt(delete) => (&delete.relation, &delete.where_clause),
        _ => (&None, &None),
    };
    let is_current = matches!(condition.as_deref(), Some(Node { node: Some(NodeEnum::CurrentOfExpr(_)) }));
    if tree.count(|node| matches!(node, Ref::CurrentOfExpr(_)))? > usize::from(is_current) {
        return Err(PgError::unsupported("WHERE CURRENT OF in WITH").hint("Change the row by a statement of its own."));
    }
    let Some(target) = target.as_ref().filter(|_| is_current) else { return Ok(None) };
    match ctx.resolve(target)? {
        Named::Distributed(relation) => {
            let alias = tree::alias_of(target).to_owned();
            let key = relation.primary_key().unwrap_or_default().into_iter().cloned().collect();
            Ok(Some(CurrentOf { relation, alias, key }))
        }
        Named::View(_) => {
            let message = "WHERE CURRENT OF on a view is not implemented";
            Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        }
        Named::Home(_) => Ok(None),
    }
}
