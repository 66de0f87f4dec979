//! A rule as PostgreSQL prints it, and which rules we can follow.

use catalog::Rule;
use pg_query::protobuf::{InsertStmt, RuleStmt, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::tree::{self, Get};

/// What a rule says.
pub(super) struct Parsed {
    pub condition: Option<Node>,
    pub is_instead: bool,
    /// None at all for NOTHING.
    pub actions: Vec<NodeEnum>,
}

impl Parsed {
    pub fn of(rule: &Rule) -> Result<Self> {
        let unreadable = |why: String| PgError::internal(format!("cannot read rule \"{}\": {why}", rule.name));
        match crate::tree::parse_one(&rule.definition).map_err(|error| unreadable(error.to_string()))? {
            Some(NodeEnum::RuleStmt(statement)) => {
                check_actions(&statement)?;
                let RuleStmt { where_clause, instead, actions, .. } = *statement;
                let condition = where_clause.map(|condition| *condition);
                let actions = actions.into_iter().filter_map(|action| action.node).collect();
                Ok(Self { condition, is_instead: instead, actions })
            }
            _ => Err(unreadable(rule.definition.clone())),
        }
    }
}

/// Are its actions such as we can follow?
pub(crate) fn check_actions(rule: &RuleStmt) -> Result<()> {
    for action in rule.actions.iter().filter_map(|action| action.node.as_ref()) {
        let fault = match action {
            NodeEnum::InsertStmt(insert) => fault_of_insert(insert),
            NodeEnum::UpdateStmt(update) => update.with_clause.is_some().then_some("WITH"),
            NodeEnum::DeleteStmt(delete) => delete.with_clause.is_some().then_some("WITH"),
            NodeEnum::NotifyStmt(_) => None,
            NodeEnum::SelectStmt(_) => Some("SELECT"),
            _ => Some("a statement that changes no rows"),
        };
        if let Some(fault) = fault {
            return Err(PgError::unsupported(format!(
                "rule \"{}\" with {fault} as its action, or in it,",
                rule.rulename
            ))
            .hint("INSERT, UPDATE, DELETE, NOTIFY and NOTHING work, also several of them."));
        }
    }
    Ok(())
}

fn fault_of_insert(insert: &InsertStmt) -> Option<&'static str> {
    let select = insert.select_stmt.get::<SelectStmt>()?;
    let is_set = select.op != tree::empty_select().op;
    match (insert.with_clause.is_some() || select.with_clause.is_some(), is_set) {
        (true, _) => Some("WITH"),
        (false, true) => Some("UNION, INTERSECT or EXCEPT"),
        (false, false) => None,
    }
}
