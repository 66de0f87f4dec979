//! CREATE SCHEMA, with elements or without: one statement for every node, whose tables are placed as by CREATE TABLE.

use pg_query::protobuf::{CreateSchemaStmt, CreateStmt, RangeVar, RoleSpecType};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::{as_it_stands, create, create_as, everywhere};
use crate::context::Context;
use crate::parse::Statement;
use crate::plan::{DdlKind, DdlPlan};
use crate::session::SessionFacts;
use crate::tree::Get;

pub(super) fn create_schema(ctx: &Context<'_>, statement: &Statement, schema: &CreateSchemaStmt) -> Result<DdlPlan> {
    let mut plan = as_it_stands(statement, everywhere(ctx), DdlKind::Schema);
    let elements: Vec<&NodeEnum> = schema.schema_elts.iter().filter_map(|element| element.node.as_ref()).collect();
    if elements.is_empty() {
        return Ok(plan);
    }
    let mut search_path = vec![name(schema)?];
    search_path.extend_from_slice(ctx.session.search_path);
    let session = SessionFacts { search_path: &search_path, ..ctx.session.clone() };
    let inside = Context { session: &session, ..*ctx };
    for element in &elements {
        match element {
            NodeEnum::CreateStmt(table) => {
                refuse_references(table, &elements)?;
                let made = create::create_table(&inside, statement, table)?;
                if made.temporary {
                    return Err(refused("a temporary table"));
                }
                plan.moves.extend(made.moves);
                plan.effects.extend(made.effects);
                plan.notices.extend(made.notices);
            }
            NodeEnum::IndexStmt(index) if !index.unique => {}
            NodeEnum::ViewStmt(view) => {
                let query = view.query.as_deref().and_then(|query| query.node.as_ref());
                if query.map(|query| create_as::mentions_temporary(&inside, query)).transpose()?.unwrap_or_default() {
                    return Err(refused("a view over temporary tables"));
                }
            }
            NodeEnum::CreateSeqStmt(_) | NodeEnum::GrantStmt(_) => {}
            NodeEnum::IndexStmt(_) => return Err(refused("a unique index")),
            NodeEnum::CreateTrigStmt(_) => return Err(refused("a trigger")),
            _ => return Err(refused("such an element")),
        }
    }
    Ok(plan)
}

/// Without a name the schema bears its owner's.
fn name(schema: &CreateSchemaStmt) -> Result<String> {
    let owner = schema.authrole.as_ref().filter(|role| role.roletype == RoleSpecType::RolespecCstring as i32);
    match (schema.schemaname.as_str(), owner) {
        ("", Some(owner)) => Ok(owner.rolename.clone()),
        ("", None) => {
            Err(PgError::unsupported("CREATE SCHEMA with elements and without a name").hint("Name the schema."))
        }
        (name, _) => Ok(name.to_owned()),
    }
}

/// Where a table lies may depend on one that is not there yet.
fn refuse_references(table: &CreateStmt, elements: &[&NodeEnum]) -> Result<()> {
    let own = table.relation.as_ref().map(|name| name.relname.as_str());
    let new_tables: Vec<&str> = elements
        .iter()
        .filter_map(|element| Some(element.get::<CreateStmt>()?.relation.as_ref()?.relname.as_str()))
        .filter(|name| Some(*name) != own)
        .collect();
    let parts = table.inh_relations.iter().chain(&table.table_elts).chain(&table.constraints);
    match parts.flat_map(references).any(|name| new_tables.contains(&name.relname.as_str())) {
        true => Err(refused("a table that refers to another one of them")),
        false => Ok(()),
    }
}

/// Tables that a part of CREATE TABLE names.
fn references(part: &Node) -> Vec<&RangeVar> {
    match &part.node {
        Some(NodeEnum::RangeVar(name)) => vec![name],
        Some(NodeEnum::TableLikeClause(like)) => like.relation.iter().collect(),
        Some(NodeEnum::Constraint(constraint)) => constraint.pktable.iter().collect(),
        Some(NodeEnum::ColumnDef(column)) => column.constraints.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

fn refused(what: &str) -> PgError {
    PgError::unsupported(format!("{what} among the elements of CREATE SCHEMA"))
        .hint("Create it in a statement of its own.")
}
