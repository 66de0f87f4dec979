//! `CREATE TABLE … AS EXECUTE` and `EXPLAIN EXECUTE`: the query of a prepared statement in its place. Which query that is only
//! the session knows. And constants in the place of parameters.

use pg_query::protobuf::{ExecuteStmt, ParamRef};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result, SqlState};

use super::{Statement, StatementKind};
use crate::tree::{self, Get, Walk};

/// The prepared statement within a statement, and its arguments as SQL.
pub struct Executed {
    /// Its name.
    pub name: String,
    /// Expressions.
    pub arguments: Vec<String>,
}

impl Statement {
    /// Does it hold an EXECUTE?
    pub fn executed(&self) -> Result<Option<Executed>> {
        let Some(execute) = self.node().and_then(inner_of).and_then(|node| node.get::<ExecuteStmt>()) else {
            return Ok(None);
        };
        let arguments = execute.params.iter().map(tree::deparse_expression).collect::<Result<_>>()?;
        Ok(Some(Executed { name: execute.name.clone(), arguments }))
    }

    /// CREATE TABLE AS … WITH NO DATA of a table that need not be looked for.
    pub fn skips_data(&self) -> bool {
        let Some(NodeEnum::CreateTableAsStmt(ctas)) = self.node() else { return false };
        !ctas.if_not_exists && ctas.into.as_ref().is_some_and(|into| into.skip_data)
    }

    /// The statement with the prepared one instead of EXECUTE, and constants instead of its parameters.
    pub fn with_executed(&self, prepared: &Statement, constants: &[String]) -> Result<Statement> {
        let (Some(mut outer), Some(mut query)) = (self.node().cloned(), prepared.node().cloned()) else {
            return Err(PgError::internal("EXECUTE of something else than SQL"));
        };
        if prepared.kind != StatementKind::Select && !matches!(outer, NodeEnum::ExplainStmt(_)) {
            return Err(PgError::new(SqlState::WRONG_OBJECT_TYPE, "prepared statement is not a SELECT"));
        }
        put(constants, &mut query)?;
        if let Some(place) = inner_of_mut(&mut outer) {
            place.node = Some(query);
        }
        self.of_tree(outer)
    }

    /// The statement with constants instead of its parameters.
    pub fn with_constants(&self, constants: &[String]) -> Result<Statement> {
        let mut tree =
            self.node().cloned().ok_or_else(|| PgError::internal("parameters of something else than SQL"))?;
        match inner_of_mut(&mut tree).and_then(|query| query.node.as_mut()) {
            Some(query) => put(constants, query)?,
            None => put(constants, &mut tree)?,
        }
        self.of_tree(tree)
    }

    fn of_tree(&self, tree: NodeEnum) -> Result<Statement> {
        let rewritten = super::build(&tree::deparse(&tree)?, tree)?;
        Ok(Statement { clause: self.clause.clone(), ..rewritten })
    }
}

/// In the place of parameters.
fn put(constants: &[String], tree: &mut NodeEnum) -> Result<()> {
    let constants: Vec<Node> = constants.iter().map(|text| tree::parse_expression(text)).collect::<Result<_>>()?;
    tree.rewrite(&mut |node: &mut Node| {
        let Some(parameter) = node.get::<ParamRef>() else { return Ok(true) };
        let at = usize::try_from(parameter.number - 1).ok();
        *node = at.and_then(|at| constants.get(at)).cloned().ok_or_else(|| PgError::internal("a missing argument"))?;
        Ok(false)
    })
}

/// Where EXECUTE may stand.
fn inner_of(outer: &NodeEnum) -> Option<&Node> {
    match outer {
        NodeEnum::CreateTableAsStmt(ctas) => ctas.query.as_deref(),
        NodeEnum::ExplainStmt(explain) => match explain.query.as_deref() {
            Some(Node { node: Some(inner @ NodeEnum::CreateTableAsStmt(_)) }) => inner_of(inner),
            query => query,
        },
        _ => None,
    }
}

fn inner_of_mut(outer: &mut NodeEnum) -> Option<&mut Node> {
    match outer {
        NodeEnum::CreateTableAsStmt(ctas) => ctas.query.as_deref_mut(),
        NodeEnum::ExplainStmt(explain) => match explain.query.as_deref_mut() {
            Some(Node { node: Some(NodeEnum::CreateTableAsStmt(ctas)) }) => ctas.query.as_deref_mut(),
            query => query,
        },
        _ => None,
    }
}
