//! CREATE TABLE.

use std::sync::Arc;

use catalog::{Relation, RelationKind, UserType};
use pg_query::protobuf::{ColumnDef, ConstrType, Constraint, CreateStmt, RangeVar, TableLikeClause, TypeName};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result, SqlState};
use placement::KeyType;

use super::{as_it_stands, everywhere, is_temporary};
use crate::context::{Context, Named};
use crate::distribution::constraints::{GENERATED, NONDETERMINISTIC, NewColumn, NewTable};
use crate::distribution::decide::{self, Decision};
use crate::distribution::{auto_replicate, placements};
use crate::parse::Statement;
use crate::plan::{DdlKind, DdlPlan, Effect, Elsewhere, Placement, Redistribute};
use crate::tree::{self, Get};

/// Plans CREATE TABLE in all its forms but AS.
pub(super) fn create_table(ctx: &Context<'_>, statement: &Statement, create: &CreateStmt) -> Result<DdlPlan> {
    let Some(name) = &create.relation else { return Err(PgError::internal("CREATE TABLE without a name")) };
    if name.relpersistence == "t" || name.schemaname == "pg_temp" {
        refuse_clause_on_temporary(statement)?;
        refuse_distributed_parents(ctx, create.inh_relations.iter())?;
        return Ok(super::temporary(ctx, statement, DdlKind::Schema));
    }
    let mut plan = as_it_stands(statement, everywhere(ctx), DdlKind::Schema);
    let (schema, name) = qualified(ctx, name)?;
    if ctx.catalog.relation(&schema, &name).is_some() {
        // PostgreSQL says so: an error, or a notice with IF NOT EXISTS.
        return Ok(plan);
    }
    if let Some(elsewhere) = like_temporary(ctx, create, &schema)? {
        plan.elsewhere = elsewhere;
    }
    let (table, like) = describe(ctx, create, &name)?;
    let acts = table.foreign_keys.iter().any(|key| key.cascades || !key.resets.is_empty());
    let decision = match parents(ctx, create)?.as_slice() {
        parents @ [first, ..] => {
            if statement.clause.as_ref().is_some_and(|c| c.kind.is_some() || c.nodes.is_some()) {
                let text = "Inherited/partition tables inherit distribution from the parent";
                plan.notices.push(
                    PgError::with_severity("WARNING", SqlState::WARNING, text)
                        .detail("Explicitly specified distribution will be ignored"),
                );
            }
            let (placement, mut moves) = beside(ctx, parents)?;
            let inherited = parents.iter().flat_map(|parent| NewTable::existing(ctx, parent).columns);
            // What the table says of a column of its parents' comes first.
            let columns = table.columns.into_iter().chain(inherited).collect();
            moves.extend(auto_replicate::check(ctx, &NewTable { columns, ..table }, &placement)?);
            Decision { placement, moves, by_default: first.by_default }
        }
        [] => {
            let like = like_clause(ctx, statement)?.or(like);
            decide::decide(ctx, &table, statement.clause.as_ref(), like.as_ref())?
        }
    };
    let Decision { placement: distribution, moves, by_default } = decision;
    plan.moves = moves;
    let qualified_name = format!("{}.{}", catalog::quote_identifier(&schema), catalog::quote_identifier(&name));
    plan.effects.push(Effect::CreateTable { schema, name, distribution, by_default });
    if acts {
        plan.effects.push(Effect::WatchMoves { table: qualified_name });
    }
    Ok(plan)
}

/// `(LIKE temporary_table)`: the other nodes get the columns.
fn like_temporary(ctx: &Context<'_>, create: &CreateStmt, schema: &str) -> Result<Option<Elsewhere>> {
    let is_temporary_source = |element: &&Node| {
        element
            .get::<TableLikeClause>()
            .is_some_and(|like| like.relation.as_ref().is_some_and(|name| is_temporary(ctx, name)))
    };
    let Some(Node { node: Some(NodeEnum::TableLikeClause(like)) }) = create.table_elts.iter().find(is_temporary_source)
    else {
        return Ok(None);
    };
    if create.table_elts.len() > 1 || !create.inh_relations.is_empty() || like.options != 0 {
        return Err(PgError::unsupported("LIKE of a temporary table beside other columns, or INCLUDING something")
            .hint("CREATE TABLE with the columns written out."));
    }
    let bare = CreateStmt { table_elts: Vec::new(), ..create.clone() };
    copied(&bare, schema).map(Some)
}

/// What nodes run that lack the temporary tables in a statement: the table without columns, which it gets from the primary datanode.
pub(super) fn copied(table: &CreateStmt, schema: &str) -> Result<Elsewhere> {
    let Some(name) = &table.relation else { return Err(PgError::internal("CREATE TABLE without a name")) };
    let name = RangeVar { schemaname: schema.to_owned(), ..name.clone() };
    let qualified = format!("{}.{}", catalog::quote_identifier(schema), catalog::quote_identifier(&name.relname));
    let sql = tree::deparse(&NodeEnum::CreateStmt(CreateStmt { relation: Some(name), ..table.clone() }))?;
    Ok(Elsewhere::Copied { table: qualified, sql })
}

/// The source of `LIKE … INCLUDING DISTRIBUTE`.
fn like_clause(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Arc<Relation>>> {
    let Some((schema, name)) = statement.clause.as_ref().and_then(|c| c.like.as_ref()) else { return Ok(None) };
    let other = || PgError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a distributed table"));
    ctx.distributed(&tree::table(schema.as_deref().unwrap_or_default(), name, None))?.ok_or_else(other).map(Some)
}

/// The rows of a temporary child would be a part of a table that is read on other nodes, and in other sessions.
pub(super) fn refuse_distributed_parents<'n>(ctx: &Context<'_>, parents: impl Iterator<Item = &'n Node>) -> Result<()> {
    for parent in parents {
        if let Some(name) = parent.get::<RangeVar>()
            && let Named::Distributed(parent) = ctx.resolve(name)?
        {
            return Err(PgError::unsupported(format!("a temporary child of table \"{}\"", parent.name))
                .detail("Its rows would be on one node only and not be seen as rows of the table.")
                .hint("Create the child as an ordinary table, or the temporary table with LIKE."));
        }
    }
    Ok(())
}

pub(super) fn refuse_clause_on_temporary(statement: &Statement) -> Result<()> {
    match statement.clause {
        None => Ok(()),
        Some(_) => Err(PgError::unsupported("a distribution clause of a temporary table")
            .hint("A temporary table lives on one node: leave the clause out.")),
    }
}

/// The schema a new relation goes to.
pub(super) fn qualified(ctx: &Context<'_>, name: &RangeVar) -> Result<(String, String)> {
    let schema = if name.schemaname.is_empty() { ctx.session.search_path.first() } else { Some(&name.schemaname) };
    let missing = || PgError::new(SqlState::INVALID_SCHEMA_NAME, "no schema has been selected to create in");
    Ok((schema.ok_or_else(missing)?.clone(), name.relname.clone()))
}

/// What the table inherits from, or is a partition of.
fn parents(ctx: &Context<'_>, create: &CreateStmt) -> Result<Vec<Arc<Relation>>> {
    create.inh_relations.iter().filter_map(Node::get).map(|name| parent(ctx, name)).collect()
}

/// Where a child's rows go: where its parents' do. Parents that lie in different ways become replicated first, if nobody chose how they lie.
fn beside(ctx: &Context<'_>, parents: &[Arc<Relation>]) -> Result<(Placement, Vec<Redistribute>)> {
    let Some(first) = parents.first() else { return Err(PgError::internal("a child without parents")) };
    if parents.iter().all(|parent| placements::are_alike(first, parent)) {
        let placement = placements::placement_of(first).ok_or_else(|| {
            PgError::unsupported(format!("a child of table \"{}\"", first.name)).hint("Its parent is not distributed.")
        })?;
        return Ok((placement, Vec::new()));
    }
    let refused = || {
        PgError::unsupported("inheritance from parents with different distributions")
            .hint("Create all parents with the same DISTRIBUTE BY clause.")
    };
    let nodes = first.distribution.nodes();
    let mut moves: Vec<Redistribute> = Vec::new();
    for parent in parents {
        let moved = auto_replicate::replicated(ctx, parent).filter(|_| parent.distribution.nodes() == nodes);
        for table in moved.ok_or_else(refused)? {
            if moves.iter().all(|known| known.target.oid != table.target.oid) {
                moves.push(table);
            }
        }
    }
    Ok((Placement::Replicated { nodes }, moves))
}

fn parent(ctx: &Context<'_>, name: &RangeVar) -> Result<Arc<Relation>> {
    match ctx.resolve(name)? {
        Named::Distributed(relation) => Ok(relation),
        _ if is_temporary(ctx, name) => Err(PgError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("cannot create a permanent relation as partition of temporary relation \"{}\"", name.relname),
        )),
        _ => Err(PgError::unsupported(format!("a child of \"{}\"", name.relname))
            .hint("Its parent is not a distributed table.")),
    }
}

/// Columns and constraints of the new table, and the table that LIKE … INCLUDING DISTRIBUTE (or ALL) names.
fn describe(ctx: &Context<'_>, create: &CreateStmt, name: &str) -> Result<(NewTable, Option<Arc<Relation>>)> {
    let mut table = NewTable { name: name.to_owned(), ..NewTable::default() };
    let mut like = None;
    if let Some(type_name) = &create.of_typename {
        table.columns = columns_of_type(ctx, type_name);
    }
    // Columns first: a self-referencing key may come before what it refers to.
    for element in &create.table_elts {
        match &element.node {
            Some(NodeEnum::ColumnDef(column)) => add_column(ctx, &mut table, column),
            Some(NodeEnum::TableLikeClause(clause)) => {
                if let Some(source) = add_like(ctx, &mut table, clause)? {
                    like = like.or(Some(source));
                }
            }
            _ => {}
        }
    }
    for element in create.table_elts.iter().chain(&create.constraints) {
        match &element.node {
            Some(NodeEnum::Constraint(constraint)) => table.constraint(ctx, constraint, None)?,
            Some(NodeEnum::ColumnDef(column)) => column_constraints(ctx, &mut table, column)?,
            _ => {}
        }
    }
    Ok((table, like))
}

/// Adds the UNIQUE, PRIMARY KEY and REFERENCES of a column.
pub(super) fn column_constraints(ctx: &Context<'_>, table: &mut NewTable, column: &ColumnDef) -> Result<()> {
    let mut constraints = column.constraints.iter().filter_map(|node| node.get());
    constraints.try_for_each(|constraint| table.constraint(ctx, constraint, Some(&column.colname)))
}

/// A column or a typed table's column options.
pub(super) fn add_column(ctx: &Context<'_>, table: &mut NewTable, column: &ColumnDef) {
    let Some(type_name) = &column.type_name else { return };
    let key_type = key_type(ctx, type_name);
    let mut unfit = match &column.coll_clause {
        Some(clause) => {
            let names = tree::names_of(&clause.collname);
            let name = names.last().map(String::as_str);
            ctx.catalog.has_nondeterministic_collation(name).then_some(NONDETERMINISTIC)
        }
        // A domain has a collation of its own.
        None => tree::names_of(&type_name.names)
            .last()
            .filter(|word| builtin_key_type(ctx, word).is_none())
            .and_then(|_| unknown_collation(ctx, key_type)),
    };
    let mut constraints = column.constraints.iter().filter_map(|node| node.get::<Constraint>());
    if constraints.any(|constraint| constraint.contype() == ConstrType::ConstrGenerated) {
        unfit = Some(GENERATED);
    }
    table.columns.push(NewColumn { name: column.colname.clone(), key_type, unfit });
}

/// Why a column may not be a key whose collation is not known here.
pub(super) fn unknown_collation(ctx: &Context<'_>, key_type: Option<KeyType>) -> Option<&'static str> {
    let has_collation = matches!(key_type, Some(KeyType::Text | KeyType::Bpchar | KeyType::Name));
    (has_collation && ctx.catalog.has_nondeterministic_collation(None)).then_some(NONDETERMINISTIC)
}

fn columns_of_type(ctx: &Context<'_>, type_name: &TypeName) -> Vec<NewColumn> {
    let names = tree::names_of(&type_name.names);
    let composite = match names.as_slice() {
        [name] => ctx.session.search_path.iter().find_map(|schema| ctx.catalog.relation(schema, name)),
        [schema, name] => ctx.catalog.relation(schema, name),
        _ => None,
    };
    composite.map(|relation| NewTable::existing(ctx, relation).columns).unwrap_or_default()
}

/// LIKE copies columns; with INDEXES unique keys too; with DISTRIBUTE (or ALL) the distribution.
fn add_like(ctx: &Context<'_>, table: &mut NewTable, clause: &TableLikeClause) -> Result<Option<Arc<Relation>>> {
    const GENERATED_ONES: u32 = 1 << 4;
    const INDEXES: u32 = 1 << 6;
    const ALL: u32 = 0x7FFF_FFFF;
    let Some(name) = &clause.relation else { return Ok(None) };
    let Some(source) = ctx.distributed(name)? else { return Ok(None) };
    debug_assert!(matches!(source.kind, RelationKind::Table | RelationKind::PartitionedTable));
    let is_computed = clause.options & GENERATED_ONES != 0;
    let columns = source.columns.iter().zip(NewTable::existing(ctx, &source).columns);
    table.columns.extend(columns.map(|(of, column)| match column.unfit {
        Some(GENERATED) if !is_computed => {
            NewColumn { unfit: (!of.deterministic).then_some(NONDETERMINISTIC), ..column }
        }
        _ => column,
    }));
    if clause.options & INDEXES != 0 {
        let copied = NewTable::with_constraints(ctx, &source);
        table.unique.extend(copied.unique);
        table.exclusions.extend(copied.exclusions);
    }
    Ok((clause.options == ALL).then_some(source))
}

/// The key type that a column definition means; domains count as their base type.
pub(super) fn key_type(ctx: &Context<'_>, name: &TypeName) -> Option<KeyType> {
    if !name.array_bounds.is_empty() || name.setof || name.pct_type {
        return None;
    }
    let names = tree::names_of(&name.names);
    let builtin = match names.as_slice() {
        [word] => builtin_key_type(ctx, word),
        [schema, word] if schema == "pg_catalog" => builtin_key_type(ctx, word),
        _ => None,
    };
    builtin.or_else(|| ctx.catalog.key_type(user_type(ctx, name)?.oid))
}

/// The user-defined type of this name.
pub(super) fn user_type<'c>(ctx: &Context<'c>, name: &TypeName) -> Option<&'c UserType> {
    let named = |schema: &str, word: &str| ctx.catalog.user_types().find(|t| t.schema == schema && t.name == word);
    match tree::names_of(&name.names).as_slice() {
        [word] => ctx.session.search_path.iter().find_map(|schema| named(schema, word)),
        [schema, word] => named(schema, word),
        _ => None,
    }
}

/// Also of the names that make an integer with a sequence.
fn builtin_key_type(ctx: &Context<'_>, word: &str) -> Option<KeyType> {
    match word {
        "smallserial" | "serial2" => Some(KeyType::Int2),
        "serial" | "serial4" => Some(KeyType::Int4),
        "bigserial" | "serial8" => Some(KeyType::Int8),
        _ => ctx.catalog.key_type(ctx.catalog.builtins().type_named(word)?.oid),
    }
}
