//! CREATE TABLE AS and SELECT INTO: an empty table on every node, then INSERT … SELECT.

use catalog::Oid;
use pg_query::NodeEnum;
use pg_query::protobuf::{CreateStmt, CreateTableAsStmt, IntoClause, ObjectType};
use pgerror::{PgError, Result};

use super::{as_it_stands, boxed, create, everywhere, materialized_view};
use crate::context::Context;
use crate::distribution::constraints::{NewColumn, NewTable};
use crate::distribution::decide;
use crate::parse::Statement;
use crate::plan::{DdlKind, DdlPlan, Effect, Forward, Gather, Plan};
use crate::select;
use crate::tree::{self, Ask, Ref, Syntax};

/// Plans all forms; SELECT INTO is brought into the form of CREATE TABLE AS first.
pub(super) fn create_table_as(ctx: &Context<'_>, statement: &Statement, node: &NodeEnum) -> Result<Plan> {
    let ctas = normal_form(node)?;
    let (Some(query), Some(into)) = (ctas.query.as_deref().and_then(|q| q.node.clone()), ctas.into.as_deref()) else {
        return Err(PgError::internal("CREATE TABLE AS without a query"));
    };
    if !matches!(query, NodeEnum::SelectStmt(_)) {
        return Err(PgError::internal("CREATE TABLE AS of no query"));
    }
    let Some(name) = &into.rel else { return Err(PgError::internal("CREATE TABLE AS without a name")) };
    if ctas.objtype == ObjectType::ObjectMatview as i32 {
        return materialized_view::create(ctx, statement, &ctas, &query);
    }
    if name.relpersistence == "t" || name.schemaname == "pg_temp" {
        create::refuse_clause_on_temporary(statement)?;
        return temporary(ctx, statement, &ctas, &query);
    }
    let (schema, name) = create::qualified(ctx, name)?;
    let mut plan = as_it_stands(statement, everywhere(ctx), DdlKind::Schema);
    plan.node_sql = shell(&ctas)?;
    if mentions_temporary(ctx, &query)? {
        plan.elsewhere = create::copied(&bare(into, ctas.if_not_exists), &schema)?;
    }
    if ctx.catalog.relation(&schema, &name).is_some() {
        return Ok(boxed(plan));
    }
    let table = described(ctx, into, &name)?;
    let decision = decide::decide(ctx, &table, statement.clause.as_ref(), None)?;
    if !into.skip_data {
        let target = format!("{}.{}", catalog::quote_identifier(&schema), catalog::quote_identifier(&name));
        let insert = format!("INSERT INTO {target}");
        plan.follow_up = Some(format!("{insert} {}", tree::deparse(&query)?));
        plan.fills_by = Some(insert);
    }
    let (distribution, by_default) = (decision.placement, decision.by_default);
    plan.effects.push(Effect::CreateTable { schema, name, distribution, by_default });
    Ok(boxed(plan))
}

/// The plan of a statement whose query is run by itself, and whose rows are then put in.
pub(crate) fn filled_apart(ctx: &Context<'_>, statement: &Statement, node: &NodeEnum) -> Result<Option<DdlPlan>> {
    let ctas = normal_form(node)?;
    let name = ctas.into.as_ref().and_then(|into| into.rel.as_ref());
    let name = name.filter(|_| ctas.objtype == ObjectType::ObjectTable as i32);
    let plan = match name.filter(|name| name.relpersistence == "t" || name.schemaname == "pg_temp") {
        // PostgreSQL has something to say about that.
        Some(name) if ctx.session.temp_relations.contains(&name.relname) => return Ok(None),
        Some(name) => {
            create::refuse_clause_on_temporary(statement)?;
            let mut plan = super::temporary(ctx, statement, DdlKind::Schema);
            plan.node_sql = shell(&ctas)?;
            plan.fills_by = Some(format!("INSERT INTO pg_temp.{}", catalog::quote_identifier(&name.relname)));
            plan
        }
        None => match create_table_as(ctx, statement, node)? {
            Plan::Ddl(plan) => *plan,
            _ => return Ok(None),
        },
    };
    Ok(plan.fills_by.is_some().then_some(plan))
}

/// All forms as CREATE TABLE AS.
pub(crate) fn normal_form(node: &NodeEnum) -> Result<CreateTableAsStmt> {
    match node {
        NodeEnum::CreateTableAsStmt(ctas) => Ok((**ctas).clone()),
        NodeEnum::SelectStmt(select) => {
            let mut query = select.clone();
            let into = query.into_clause.take();
            Ok(CreateTableAsStmt {
                query: Some(Box::new(tree::node(NodeEnum::SelectStmt(query)))),
                into,
                objtype: ObjectType::ObjectTable as i32,
                is_select_into: false,
                if_not_exists: false,
            })
        }
        _ => Err(PgError::internal("not a CREATE TABLE AS")),
    }
}

/// The statement WITH NO DATA.
pub(super) fn shell(ctas: &CreateTableAsStmt) -> Result<String> {
    let mut shell = ctas.clone();
    if let Some(into) = &mut shell.into {
        into.skip_data = true;
    }
    tree::deparse(&shell.into_tree())
}

/// The table without the query.
fn bare(into: &IntoClause, if_not_exists: bool) -> CreateStmt {
    CreateStmt {
        relation: into.rel.clone(),
        options: into.options.clone(),
        oncommit: into.on_commit,
        tablespacename: into.table_space_name.clone(),
        access_method: into.access_method.clone(),
        if_not_exists,
        ..CreateStmt::default()
    }
}

/// Columns from the query's description.
fn described(ctx: &Context<'_>, into: &IntoClause, name: &str) -> Result<NewTable> {
    let Some(described) = ctx.session.describe else {
        return Err(PgError::internal("CREATE TABLE AS was not described"));
    };
    const UNKNOWN: Oid = 705;
    const TEXT: Oid = 25;
    let names = tree::names_of(&into.col_names);
    let columns = described.iter().enumerate().map(|(i, column)| {
        let key_type = ctx.catalog.key_type(if column.type_oid == UNKNOWN { TEXT } else { column.type_oid });
        let name = names.get(i).unwrap_or(&column.name).clone();
        NewColumn { name, key_type, unfit: super::create::unknown_collation(ctx, key_type) }
    });
    Ok(NewTable { name: name.to_owned(), columns: columns.collect(), ..NewTable::default() })
}

/// A temporary table of the home node, filled from anywhere.
fn temporary(ctx: &Context<'_>, statement: &Statement, ctas: &CreateTableAsStmt, query: &NodeEnum) -> Result<Plan> {
    let name = ctas.into.as_ref().and_then(|into| into.rel.as_ref());
    let columns = match ctas.into.as_deref().filter(|_| ctx.session.describe.is_some()) {
        Some(into) => described(ctx, into, "")?.columns,
        None => Vec::new(),
    };
    let twice = (1..columns.len()).any(|at| columns[..at].iter().any(|column| column.name == columns[at].name));
    if twice || name.is_some_and(|name| ctx.session.temp_relations.contains(&name.relname)) {
        // PostgreSQL says so, before it looks at any row.
        let is_there = super::temporary(ctx, statement, DdlKind::Schema);
        return Ok(boxed(DdlPlan { node_sql: shell(ctas)?, ..is_there }));
    }
    let (inputs, source) = select::source(ctx, query)?;
    let node = ctx.home();
    if inputs.is_empty() {
        return Ok(Plan::Forward(Forward::of(statement, vec![node], true)));
    }
    let mut rewritten = ctas.clone();
    let over_inputs = tree::parse_select(&source.text)?;
    rewritten.query = over_inputs.into_box();
    let text = tree::deparse(&rewritten.into_tree())?;
    let final_sql = crate::plan::FinalSql { text, types: source.types };
    Ok(Plan::Gather(Gather { writes: true, ..Gather::new(node, inputs, final_sql) }))
}

/// Does a query read a temporary table?
pub(super) fn mentions_temporary(ctx: &Context<'_>, query: &NodeEnum) -> Result<bool> {
    query.any(|node| matches!(node, Ref::RangeVar(name) if super::is_temporary(ctx, name)))
}
