//! A rule as PostgreSQL prints it, and which rules we can follow.

use catalog::Rule;
use pg_query::protobuf::RuleStmt;
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::ddl::rule::check_actions;

/// What a rule says.
pub(super) struct Parsed {
    pub condition: Option<Node>,
    pub is_instead: bool,
    /// The rule's actions; none for NOTHING.
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
