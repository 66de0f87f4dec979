//! RETURNING of a statement that a rule replaces: what the rule's own RETURNING gives for the columns.

use pg_query::protobuf::{ColumnRef, ResTarget};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result, SqlState};

use super::query::Query;
use crate::tree::{self, Get, Ref, Walk};

impl Query<'_> {
    fn returning(&self) -> &[Node] {
        tree::returned_by(self.tree)
    }

    /// Does the client get its rows from this action?
    pub fn takes_returning(&self, action: &NodeEnum) -> bool {
        !self.returning().is_empty() && tree::returning_of(action).is_some()
    }

    /// As PostgreSQL has it: one rule, which replaces the statement, gives the rows.
    pub fn check_returning(&self, rules: usize, is_replaced: bool) -> Result<()> {
        let error = |message: String| PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
        if rules > 1 {
            return Err(error("cannot have RETURNING lists in multiple rules".to_owned()));
        }
        if rules == 0 && is_replaced && !self.returning().is_empty() {
            let event = self.event.name();
            let message = format!("cannot perform {event} RETURNING on relation \"{}\"", self.relation.name);
            let hint = format!("You need an unconditional ON {event} DO INSTEAD rule with a RETURNING clause.");
            return Err(error(message).hint(hint));
        }
        Ok(())
    }

    /// Leaves the action the RETURNING that the statement asks for.
    pub fn take_returning(&self, action: &mut NodeEnum) -> Result<()> {
        let takes = self.takes_returning(action);
        let Some(clause) = tree::returning_mut(action) else { return Ok(()) };
        if !takes {
            *clause = None;
            return Ok(());
        }
        let Some(clause) = clause else { return Ok(()) };
        let values: Vec<Node> = clause.exprs.iter().filter_map(tree::value_of).cloned().collect();
        if values.len() != self.relation.columns.len() {
            return Err(self.refused("such a RETURNING of a rule"));
        }
        clause.exprs = self.shown(&values)?;
        Ok(())
    }

    /// The statement's list, with the rule's values in place of the columns.
    fn shown(&self, values: &[Node]) -> Result<Vec<Node>> {
        let mut shown = Vec::new();
        for item in self.returning() {
            let Some(target) = item.get::<ResTarget>() else { return Err(PgError::internal("RETURNING")) };
            let name = tree::output_name(target);
            let mut value = target.val.as_deref().cloned().ok_or_else(|| PgError::internal("RETURNING of nothing"))?;
            self.put_in(&mut value, values)?;
            shown.push(tree::target(value, Some(&name)));
        }
        Ok(shown)
    }

    fn put_in(&self, value: &mut Node, values: &[Node]) -> Result<()> {
        value.walk(&mut |node| match node {
            Ref::SubLink(_) => Err(self.refused("a sub-select in RETURNING")),
            _ => Ok(true),
        })?;
        value.rewrite(&mut |node| {
            let Some(column) = node.get::<ColumnRef>() else { return Ok(true) };
            let names: Vec<Option<&str>> = column.fields.iter().map(tree::text_of).collect();
            let name = match names.as_slice() {
                [Some(table), Some(name)] if *table == self.alias => Some(*name),
                _ => None,
            };
            let at = name.and_then(|name| self.relation.columns.iter().position(|column| column.name == name));
            let Some(value) = at.and_then(|at| values.get(at)) else {
                return Err(self.refused("RETURNING of something else than the columns"));
            };
            *node = value.clone();
            Ok(false)
        })
    }
}
