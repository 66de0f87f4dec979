//! ALTER TABLE, RENAME, SET SCHEMA.

use std::sync::Arc;

use catalog::{Column, Relation, RelationKind};
use pg_query::protobuf::{
    AlterObjectSchemaStmt, AlterTableCmd, AlterTableStmt, AlterTableType, ColumnDef, ConstrType, Constraint,
    ObjectType, PartitionCmd, RangeVar, RenameStmt, SelectStmt, TypeName,
};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::add_column::{self, Source};
use super::{as_it_stands, create, everywhere, is_temporary, rule, trigger};
use crate::context::{Context, Named};
use crate::distribution::constraints::{NewTable, NewUnique};
use crate::distribution::{auto_replicate, placements, redistribute};
use crate::facts::code;
use crate::facts::{Facts, functions::facts};
use crate::parse::Statement;
use crate::plan::{DdlKind, DdlPlan, Effect, Placement, Redistribute};
use crate::tree::{self, Get};

/// Plans ALTER TABLE and its kin for views, indexes, sequences and types.
pub(super) fn alter_table(ctx: &Context<'_>, statement: &Statement, alter: &AlterTableStmt) -> Result<DdlPlan> {
    let Some(name) = &alter.relation else { return Err(PgError::internal("ALTER TABLE without a name")) };
    if is_temporary(ctx, name) {
        let inherits = tree::commands(alter).filter(|command| command.subtype() == AlterTableType::AtAddInherit);
        let inherits = inherits.filter_map(|command| command.def.as_deref());
        create::refuse_distributed_parents(ctx, inherits)?;
        code::check_alter(ctx, name, alter)?;
        return Ok(super::temporary(ctx, statement, DdlKind::Schema));
    }
    let mut plan = as_it_stands(statement, everywhere(ctx), DdlKind::Schema);
    let relation = match ctx.resolve(name)? {
        Named::Distributed(relation) => relation,
        Named::View(view) => {
            rule::switch(alter, &view, &mut plan)?;
            return Ok(plan);
        }
        _ => return Ok(plan),
    };
    rule::switch(alter, &relation, &mut plan)?;
    trigger::switch(alter, &relation, &mut plan)?;
    let alone = alter.cmds.len() == 1;
    if tree::commands(alter).any(|command| may_act_on_key(&relation, command)) {
        plan.effects.push(Effect::WatchMoves { table: relation.qualified_name() });
    }
    for command in tree::commands(alter) {
        // What told of its rows was the parent's.
        if let Some(partition) = command.def.get::<PartitionCmd>()
            && command.subtype() == AlterTableType::AtDetachPartition
            && relation.foreign_keys.iter().any(|key| key.acts)
            && let Some(partition) = &partition.name
            && let Named::Distributed(partition) = ctx.resolve(partition)?
        {
            plan.effects.push(Effect::WatchMoves { table: partition.qualified_name() });
        }
        let alter = Alter { ctx, relation: &relation };
        let moves = alter.command(command)?;
        if let Some(column) = command.def.get::<ColumnDef>()
            && command.subtype() == AlterTableType::AtAddColumn
            && let Some(source) = alter.source_of(column)?
        {
            if !alone {
                return Err(PgError::unsupported(format!("ADD COLUMN \"{}\" with other commands", column.colname))
                    .detail("Its values for the rows that are there must be made in one place.")
                    .hint("Add it in a statement of its own."));
            }
            add_column::fill(ctx, &relation, column, &source, &mut plan)?;
        }
        moves.into_iter().for_each(|moved| add_move(&mut plan.moves, moved));
        if command.def.get::<PartitionCmd>().is_some_and(|partition| partition.concurrent) {
            return Err(PgError::unsupported("DETACH PARTITION … CONCURRENTLY")
                .detail("Each datanode would wait for its own transactions, and the rows be gone on some of them only.")
                .hint("DETACH PARTITION without CONCURRENTLY."));
        }
    }
    Ok(plan)
}

/// Does it add a foreign key whose actions change rows of the table, or may it switch off what tells of them?
fn may_act_on_key(relation: &Relation, command: &AlterTableCmd) -> bool {
    use AlterTableType as Type;
    let definition = command.def.as_deref().and_then(|definition| definition.node.as_ref());
    match (command.subtype(), definition) {
        (Type::AtAddConstraint, Some(NodeEnum::Constraint(constraint))) => rule::acts(constraint),
        (Type::AtAddColumn, Some(NodeEnum::ColumnDef(column))) => {
            column.constraints.iter().any(|node| node.get().is_some_and(rule::acts))
        }
        (Type::AtDisableTrigAll | Type::AtDisableTrigUser, _) => relation.foreign_keys.iter().any(|key| key.acts),
        _ => false,
    }
}

/// Adds a move. Among several moves of one table that to all nodes suits all commands.
fn add_move(moves: &mut Vec<Redistribute>, moved: Redistribute) {
    match moves.iter_mut().find(|known| known.target.oid == moved.target.oid) {
        Some(known) if matches!(moved.placement, Placement::Replicated { .. }) => *known = moved,
        Some(_) => {}
        None => moves.push(moved),
    }
}

struct Alter<'a> {
    ctx: &'a Context<'a>,
    relation: &'a Arc<Relation>,
}

impl Alter<'_> {
    /// Refuses what would break the distribution; gives the tables that must move for it. Every other action is each node's own business.
    fn command(&self, command: &AlterTableCmd) -> Result<Vec<Redistribute>> {
        let definition = command.def.as_deref().and_then(|d| d.node.as_ref());
        match (command.subtype(), definition) {
            (AlterTableType::AtAddColumn, Some(NodeEnum::ColumnDef(column))) => self.add_column(column),
            (AlterTableType::AtAddConstraint, Some(NodeEnum::Constraint(constraint))) => {
                rule::check_foreign_key(self.relation, constraint)?;
                self.add_constraint(constraint)
            }
            (AlterTableType::AtDropColumn, _) => self.drop_column(&command.name),
            (AlterTableType::AtAlterColumnType, Some(NodeEnum::ColumnDef(column))) => {
                self.alter_type(&command.name, column)
            }
            (AlterTableType::AtSetExpression | AlterTableType::AtDropExpression, _) if self.is_key(&command.name) => {
                Err(refused_key(&command.name, "changing"))
            }
            (AlterTableType::AtAttachPartition, Some(NodeEnum::PartitionCmd(partition))) => {
                let child = self.distributed(partition.name.as_ref(), "a partition")?;
                self.join(&child, self.relation, "a partition")
            }
            (AlterTableType::AtAddInherit, Some(NodeEnum::RangeVar(parent))) => {
                let parent = self.distributed(Some(parent), "a parent")?;
                self.join(self.relation, &parent, "a parent")
            }
            (AlterTableType::AtAddOf, _) => {
                Err(PgError::unsupported("ALTER TABLE … OF").hint("Create the table OF the type."))
            }
            _ => Ok(Vec::new()),
        }
    }

    fn add_constraint(&self, constraint: &Constraint) -> Result<Vec<Redistribute>> {
        let mut table = NewTable::existing(self.ctx, self.relation);
        let primary = self.relation.primary_key().map(Column::names);
        table.unique.extend(primary.map(|columns| NewUnique { columns, primary: true }));
        table.constraint(self.ctx, constraint, None)?;
        self.own_references(&mut table);
        auto_replicate::check_existing(self.ctx, self.relation, &table)
    }

    /// A foreign key to the table itself was resolved as one to a table that exists.
    fn own_references(&self, table: &mut NewTable) {
        for foreign_key in &mut table.foreign_keys {
            foreign_key.is_self |= foreign_key.referenced.as_ref().is_some_and(|r| r.oid == self.relation.oid);
        }
    }

    fn add_column(&self, column: &ColumnDef) -> Result<Vec<Redistribute>> {
        let mut table = NewTable::existing(self.ctx, self.relation);
        create::add_column(self.ctx, &mut table, column);
        create::column_constraints(self.ctx, &mut table, column)?;
        self.own_references(&mut table);
        auto_replicate::check_existing(self.ctx, self.relation, &table)
    }

    /// Where the values of existing rows come from, if the nodes cannot make them.
    fn source_of<'c>(&self, column: &'c ColumnDef) -> Result<Option<Source<'c>>> {
        if self.relation.column(&column.colname).is_some() {
            return Ok(None);
        }
        if let Some(integer) = add_column::serial_type(column) {
            return Ok(Some(Source::Serial(integer)));
        }
        for constraint in column.constraints.iter().filter_map(|node| node.get::<Constraint>()) {
            match (constraint.contype(), constraint.raw_expr.as_deref()) {
                (ConstrType::ConstrIdentity, _) => return Ok(Some(Source::Identity(constraint))),
                (ConstrType::ConstrDefault, Some(default)) if !self.fills_alike(default)? => {
                    return Ok(Some(Source::Default(default)));
                }
                (ConstrType::ConstrDefault | ConstrType::ConstrGenerated, _) => return Ok(None),
                _ => {}
            }
        }
        self.check_type_default(column)?;
        Ok(None)
    }

    /// What a domain gives the rows that are there must be the same on every node.
    fn check_type_default(&self, column: &ColumnDef) -> Result<()> {
        let of = column.type_name.as_ref().and_then(|name| create::user_type(self.ctx, name));
        let Some(default) = of.and_then(|of| of.default.as_deref()) else { return Ok(()) };
        if self.fills_alike(&tree::parse_expression(default)?)? {
            return Ok(());
        }
        Err(PgError::unsupported(format!("ADD COLUMN \"{}\" with the default of its type", column.colname))
            .detail("Its values for the rows that are there must be made in one place.")
            .hint("Add it with DEFAULT NULL, UPDATE the rows, then ALTER COLUMN … DROP DEFAULT."))
    }

    /// Would the nodes fill a new column's rows with what one server would not? A value that is another for each row may be
    /// so on every node; `now()` will be one constant.
    fn fills_alike(&self, default: &Node) -> Result<bool> {
        let at_one_moment = crate::facts::clock::expression_at(
            &tree::deparse_expression(default)?,
            &crate::facts::clock::some_moment(),
        );
        let constant = at_one_moment.map(|text| tree::parse_expression(&text)).transpose()?;
        let facts = self.facts_of(constant.as_ref().unwrap_or(default))?;
        let each_its_own = facts.volatile.is_some() && self.relation.distribution.is_partitioned();
        let is_one_value = facts.volatile.is_none() && facts.clock.is_none();
        Ok((each_its_own || is_one_value) && facts.home.is_none() && facts.refused.is_none())
    }

    fn facts_of(&self, expression: &Node) -> Result<Facts> {
        let target_list = vec![tree::target(expression.clone(), None)];
        facts(self.ctx, &SelectStmt { target_list, ..tree::empty_select() })
    }

    /// Does an expression give each node another value?
    fn differs(&self, expression: Option<&Node>) -> Result<bool> {
        let Some(expression) = expression else { return Ok(false) };
        let facts = self.facts_of(expression)?;
        Ok(facts.volatile.is_some() || facts.clock.is_some() || facts.home.is_some() || facts.refused.is_some())
    }

    fn is_key(&self, column: &str) -> bool {
        self.relation.key_names().contains(&column)
    }

    /// Without its key a table may lie as it does, unless a clause said where its rows are: no unique key survives that could need the place.
    fn drop_column(&self, name: &str) -> Result<Vec<Redistribute>> {
        if !self.is_key(name) {
            return Ok(Vec::new());
        }
        let children_lose_it_too = !self.relation.has_children || self.relation.kind == RelationKind::PartitionedTable;
        if !self.may_move() || !children_lose_it_too {
            return Err(refused_key(name, "dropping"));
        }
        Ok(self.scattered())
    }

    fn may_move(&self) -> bool {
        self.relation.by_default && self.relation.parents.is_empty()
    }

    /// The table and its partitions where they are, by no key.
    fn scattered(&self) -> Vec<Redistribute> {
        let placement = Placement::RoundRobin { nodes: self.relation.distribution.nodes() };
        let to = |target| Redistribute { target, placement: placement.clone(), by_default: true };
        self.ctx.family(self.relation).into_iter().rev().map(to).collect()
    }

    /// The key may change within its hash class without moving a row, as long as the values stay. Otherwise places mean
    /// nothing any more, and a table with constraints has to be everywhere.
    fn alter_type(&self, name: &str, column: &ColumnDef) -> Result<Vec<Redistribute>> {
        if self.is_key(name) && self.keeps_places(name, column) {
            return Ok(Vec::new());
        }
        if self.differs(column.raw_default.as_deref())? {
            return Err(PgError::unsupported("USING with a value that is not the same everywhere")
                .hint("Use an immutable expression."));
        }
        if !self.is_key(name) {
            return Ok(Vec::new());
        }
        let refers_to_it = |table: &Arc<Relation>| table.foreign_keys.iter().any(|k| k.referenced == self.relation.oid);
        let table = NewTable::with_constraints(self.ctx, self.relation);
        let is_free =
            table.unique.is_empty() && table.foreign_keys.is_empty() && !self.ctx.catalog.relations().any(refers_to_it);
        let moves = match is_free {
            true if self.may_move() && !self.relation.has_children => Some(self.scattered()),
            true => None,
            false => auto_replicate::replicated(self.ctx, self.relation),
        };
        moves.ok_or_else(|| refused_key(name, "changing the type of"))
    }

    fn keeps_places(&self, name: &str, column: &ColumnDef) -> bool {
        let old = self.relation.column(name).and_then(|c| self.ctx.catalog.key_type(c.type_oid));
        let new = column.type_name.as_ref().and_then(|t| create::key_type(self.ctx, t));
        let of_domain = |t: &TypeName| Some(self.ctx.catalog.value_type(create::user_type(self.ctx, t)?.oid, -1).1);
        let cuts = |t: &TypeName| !t.typmods.is_empty() || of_domain(t).is_some_and(|modifier| modifier != -1);
        let has_modifier = column.type_name.as_ref().is_some_and(cuts);
        // A domain may have a collation under which other values are equal.
        let is_of_user = column.type_name.as_ref().is_some_and(|t| create::user_type(self.ctx, t).is_some());
        let same = old.is_some()
            && old.map(|t| t.hash_class()) == new.map(|t| t.hash_class())
            && !(is_of_user && create::unknown_collation(self.ctx, new).is_some());
        same && !has_modifier && column.raw_default.is_none() && column.coll_clause.is_none()
    }

    fn distributed(&self, name: Option<&RangeVar>, what: &str) -> Result<Arc<Relation>> {
        let other =
            || PgError::unsupported(format!("{what} that is not a distributed table")).hint("Create it as one.");
        name.map(|name| self.ctx.distributed(name)).transpose()?.flatten().ok_or_else(other)
    }

    /// A child must lie as its parent does. One whose distribution nobody chose moves there.
    fn join(&self, child: &Arc<Relation>, parent: &Arc<Relation>, what: &str) -> Result<Vec<Redistribute>> {
        if placements::are_alike(child, parent) {
            return Ok(Vec::new());
        }
        let objection = PgError::unsupported(format!("{what} with another distribution"))
            .hint("Create both tables with the same DISTRIBUTE BY clause.");
        let Some(placement) = placements::placement_of(parent) else { return Err(objection) };
        if !child.by_default || !child.parents.is_empty() {
            return Err(objection);
        }
        redistribute::moved(self.ctx, child, &placement, parent.by_default)
            .or_else(|_| auto_replicate::together(self.ctx, child, parent).ok_or(objection))
    }
}

fn refused_key(column: &str, doing: &str) -> PgError {
    PgError::unsupported(format!("{doing} distribution column \"{column}\""))
        .hint("Create a table with another distribution key and copy the rows: INSERT … SELECT.")
}

/// RENAME of anything.
pub(super) fn rename(ctx: &Context<'_>, statement: &Statement, rename: &RenameStmt) -> Result<DdlPlan> {
    let mut plan = as_it_stands(statement, everywhere(ctx), DdlKind::Schema);
    let kind = rename.rename_type();
    if kind == ObjectType::ObjectSchema {
        let (schema, new_schema) = (rename.subname.clone(), rename.newname.clone());
        plan.effects.push(Effect::RenameSchema { schema, new_schema });
    }
    let Some(name) = &rename.relation else { return Ok(plan) };
    if is_temporary(ctx, name) {
        return Ok(super::temporary(ctx, statement, DdlKind::Schema));
    }
    if let Named::Distributed(relation) = ctx.resolve(name)? {
        let (schema, name) = (relation.schema.clone(), relation.name.clone());
        match kind {
            ObjectType::ObjectTrigger => trigger::rename(rename, &relation, &mut plan)?,
            ObjectType::ObjectColumn if relation.key_names().contains(&rename.subname.as_str()) => {
                let (column, new_column) = (rename.subname.clone(), rename.newname.clone());
                plan.effects.push(Effect::RenameColumn { schema, name, column, new_column });
            }
            ObjectType::ObjectTable => {
                let (new_schema, new_name) = (schema.clone(), rename.newname.clone());
                plan.effects.push(Effect::RenameTable { schema, name, new_schema, new_name });
            }
            _ => {}
        }
    }
    Ok(plan)
}

/// SET SCHEMA of anything.
pub(super) fn set_schema(ctx: &Context<'_>, statement: &Statement, alter: &AlterObjectSchemaStmt) -> Result<DdlPlan> {
    let mut plan = as_it_stands(statement, everywhere(ctx), DdlKind::Schema);
    let Some(name) = &alter.relation else { return Ok(plan) };
    if is_temporary(ctx, name) {
        plan = super::temporary(ctx, statement, DdlKind::Schema);
    } else if let Named::Distributed(relation) = ctx.resolve(name)? {
        plan.effects.push(Effect::RenameTable {
            schema: relation.schema.clone(),
            name: relation.name.clone(),
            new_schema: alter.newschema.clone(),
            new_name: relation.name.clone(),
        });
    }
    Ok(plan)
}
