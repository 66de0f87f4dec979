//! A statement in the body of a trigger that the coordinator runs: to the node that gets it, it is in no trigger.

use pg_query::NodeEnum::{self, ConstraintsSetStmt, LockStmt, NotifyStmt, VariableSetStmt, VariableShowStmt};
use pgerror::{PgError, Result, SqlState};

use crate::ddl::trigger::asks_depth;
use crate::tree::{self, Ask, Walk};

/// The text with the depth of the triggers where it asks for that; `None` if it does not.
///
/// # Errors
/// As PostgreSQL's if it would change one of the trigger's `transition_tables`, which are temporary tables here.
pub fn in_trigger(sql: &str, depth: usize, transition_tables: &[String]) -> Result<Option<String>> {
    let Ok(parsed) = pg_query::parse(sql, 0) else { return Ok(None) };
    let [statement] = parsed.protobuf.stmts.as_slice() else { return Ok(None) };
    let Some(mut whole) = statement.stmt.as_deref().cloned() else { return Ok(None) };
    if let Some(ConstraintsSetStmt(_) | LockStmt(_) | NotifyStmt(_) | VariableSetStmt(_) | VariableShowStmt(_)) =
        whole.node
    {
        return Ok(None);
    }
    whole.walk(&mut |node| match tree::changed(node) {
        Some(name) if name.schemaname.is_empty() && transition_tables.contains(&name.relname) => {
            let message = format!("relation \"{}\" cannot be the target of a modifying statement", name.relname);
            Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
        }
        _ => Ok(true),
    })?;
    let asks = whole.put(|node| {
        let is_depth = matches!(&node.node, Some(NodeEnum::FuncCall(call)) if asks_depth(call));
        Ok(is_depth.then(|| tree::integer(depth as i64)))
    })?;
    whole.node.filter(|_| asks).map(|tree| tree::deparse(&tree)).transpose()
}
