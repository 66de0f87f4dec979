//! DDL: where it runs, what it means for the distribution of tables, and what is refused.

pub(crate) mod node_options;

use catalog::{NodeId, RelationKind};
use pg_query::protobuf::{
    AlterPublicationStmt, CreatePublicationStmt, DropStmt, List, LockStmt, ObjectType, PublicationObjSpec, RangeVar,
    ReindexObjectType, TruncateStmt, TypeName, VacuumRelation,
};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result, SqlState};

use crate::context::{Context, Named};
use crate::facts::{code, functions};
use crate::parse::{ClusterCommand, Statement};
use crate::plan::{DdlKind, DdlPlan, Effect, Elsewhere, Fill, Forward, Plan};
use crate::tree::{self, Get};

mod add_column;
mod alter;
mod create;
mod create_as;
mod index;
mod materialized_view;
mod policy;
pub(crate) mod rule;
mod schema;
mod temporary_types;
pub(crate) mod trigger;

pub(crate) use create_as::{filled_apart, normal_form};
pub(crate) use materialized_view::{refreshed, refreshed_query};

/// Plans a statement that is neither a query nor a change of rows.
pub(crate) fn plan(ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
    let Some(node) = statement.node() else { return Err(PgError::internal("DDL without a tree")) };
    let plan = plan_node(ctx, statement, node)?;
    if let Plan::Ddl(ddl) = &plan {
        temporary_types::check(ctx, node, ddl)?;
    }
    Ok(plan)
}

fn plan_node(ctx: &Context<'_>, statement: &Statement, node: &NodeEnum) -> Result<Plan> {
    let ddl = Ddl { ctx, statement };
    refuse_our_schema(ctx, node)?;
    match node {
        node if tree::is_of_large_object(node) => Ok(boxed(as_it_stands(statement, vec![ctx.home()], DdlKind::Data))),
        NodeEnum::CreateStmt(create) => create::create_table(ctx, statement, create).map(boxed),
        NodeEnum::CreateTableAsStmt(_) | NodeEnum::SelectStmt(_) => create_as::create_table_as(ctx, statement, node),
        NodeEnum::AlterTableStmt(alter) => alter::alter_table(ctx, statement, alter).map(boxed),
        NodeEnum::IndexStmt(index) => index::create_index(ctx, statement, index).map(boxed),
        NodeEnum::RenameStmt(rename) if rename.rename_type == ObjectType::ObjectDatabase as i32 => {
            let (name, new_name) = (rename.subname.clone(), rename.newname.clone());
            Ok(Plan::Cluster(Box::new(ClusterCommand::RenameDatabase { name, new_name })))
        }
        NodeEnum::RenameStmt(rename) => alter::rename(ctx, statement, rename).map(boxed),
        NodeEnum::AlterObjectSchemaStmt(move_to) => alter::set_schema(ctx, statement, move_to).map(boxed),
        NodeEnum::DropStmt(drop) => ddl.drop(drop),
        NodeEnum::CreatedbStmt(create) => {
            let (name, sql) = (create.dbname.clone(), statement.node_sql.to_string());
            let template = tree::option_of(&create.options, "template").and_then(tree::text_of).map(str::to_owned);
            Ok(Plan::Cluster(Box::new(ClusterCommand::CreateDatabase { name, template, sql })))
        }
        NodeEnum::AlterDatabaseStmt(alter) => {
            node_options::alter_database(ddl.everywhere(DdlKind::Schema), alter).map(boxed)
        }
        NodeEnum::DropdbStmt(drop) => {
            let force = tree::options(&drop.options).any(|option| option.defname == "force");
            let (name, missing_ok, sql) = (drop.dbname.clone(), drop.missing_ok, statement.node_sql.to_string());
            Ok(Plan::Cluster(Box::new(ClusterCommand::DropDatabase { name, missing_ok, force, sql })))
        }
        NodeEnum::TruncateStmt(truncate) => {
            let mut names = truncate.relations.iter().filter_map(Node::get::<RangeVar>);
            names.try_for_each(|name| code::check_truncate(ctx, name))?;
            let rest = |relations| NodeEnum::TruncateStmt(TruncateStmt { relations, ..truncate.clone() });
            ddl.on_listed(&truncate.relations, DdlKind::Data, rest).map(boxed)
        }
        NodeEnum::LockStmt(lock) => {
            let rest = |relations| NodeEnum::LockStmt(LockStmt { relations, ..lock.clone() });
            ddl.on_listed(&lock.relations, DdlKind::Lock { nowait: lock.nowait }, rest).map(boxed)
        }
        NodeEnum::VacuumStmt(vacuum) => {
            if tree::options(&vacuum.options).any(|option| option.defname == "coordinator") {
                return Err(PgError::unsupported("ANALYZE (COORDINATOR)")
                    .hint("Coordinators keep no statistics: leave it out, or run ANALYZE."));
            }
            let names = vacuum.rels.iter().filter_map(|r| r.get::<VacuumRelation>().and_then(|v| v.relation.as_ref()));
            let mut plan = ddl.relations(&names.collect::<Vec<_>>(), DdlKind::Maintenance)?;
            plan.outside_transaction = vacuum.is_vacuumcmd;
            Ok(boxed(plan))
        }
        NodeEnum::ReindexStmt(reindex) => {
            let mut plan = ddl.relations(&reindex.relation.iter().collect::<Vec<_>>(), DdlKind::Maintenance)?;
            let one = [ReindexObjectType::ReindexObjectIndex as i32, ReindexObjectType::ReindexObjectTable as i32]
                .contains(&reindex.kind);
            let many = !one || reindex.relation.as_ref().is_some_and(|name| ddl.takes_many_transactions(name));
            plan.outside_transaction =
                many || tree::options(&reindex.params).any(|option| option.defname == "concurrently");
            Ok(boxed(plan))
        }
        NodeEnum::ClusterStmt(cluster) => {
            let mut plan = ddl.relations(&cluster.relation.iter().collect::<Vec<_>>(), DdlKind::Maintenance)?;
            plan.outside_transaction = cluster.relation.as_ref().is_none_or(|name| ddl.takes_many_transactions(name));
            Ok(boxed(plan))
        }
        NodeEnum::CreateTableSpaceStmt(create) => {
            let undo = format!("DROP TABLESPACE {}", catalog::quote_identifier(&create.tablespacename));
            Ok(boxed(DdlPlan { undo: Some(undo), outside_transaction: true, ..ddl.everywhere(DdlKind::Maintenance) }))
        }
        NodeEnum::CheckPointStmt(_) | NodeEnum::DropTableSpaceStmt(_) => {
            Ok(boxed(DdlPlan { outside_transaction: true, ..ddl.everywhere(DdlKind::Maintenance) }))
        }
        NodeEnum::RefreshMatViewStmt(refresh) => materialized_view::refresh(ctx, statement, refresh),
        NodeEnum::ViewStmt(view) => ddl.view(view),
        NodeEnum::CreateSeqStmt(sequence) => ddl.named(sequence.sequence.as_ref()),
        NodeEnum::AlterSeqStmt(sequence) => ddl.named(sequence.sequence.as_ref()),
        NodeEnum::CreateTrigStmt(trigger) => trigger::create(ctx, statement, trigger),
        NodeEnum::RuleStmt(rule) => rule::create(ctx, statement, rule),
        NodeEnum::CreatePolicyStmt(p) => {
            policy::plan(ctx, statement, p.table.as_ref(), [p.qual.as_deref(), p.with_check.as_deref()]).map(boxed)
        }
        NodeEnum::AlterPolicyStmt(p) => {
            policy::plan(ctx, statement, p.table.as_ref(), [p.qual.as_deref(), p.with_check.as_deref()]).map(boxed)
        }
        other if is_in_temporary_schema(other) => Ok(boxed(temporary(ctx, statement, DdlKind::Schema))),
        NodeEnum::CreateFunctionStmt(_) => {
            let mut plan = ddl.everywhere(DdlKind::Schema);
            // The other nodes lack the temporary tables and types that the body may name; the primary one has checked it.
            if !ctx.session.temp_relations.is_empty() || !ctx.session.temp_types.is_empty() {
                let unchecked = format!("SET LOCAL check_function_bodies = off; {}", statement.node_sql);
                plan.elsewhere = Elsewhere::Without(unchecked);
            }
            plan.effects.extend(code::nodes_fire_triggers(ctx.catalog).then_some(Effect::JudgeTriggers));
            Ok(boxed(plan))
        }
        NodeEnum::CreateSchemaStmt(schema) => schema::create_schema(ctx, statement, schema).map(boxed),
        NodeEnum::DoStmt(block) => ddl.code_block(block),
        NodeEnum::CallStmt(call) => ddl.call(call),
        NodeEnum::DropOwnedStmt(_) => {
            let mut plan = ddl.everywhere(DdlKind::Schema);
            plan.effects.push(Effect::ForgetMissing);
            Ok(boxed(plan))
        }
        other => match refusal(other) {
            Some(error) => Err(error),
            None => Ok(boxed(ddl.everywhere(DdlKind::Schema))),
        },
    }
}

/// Does a publication name our own metadata?
fn is_in_our_schema(object: &Node) -> bool {
    let Some(object) = object.get::<PublicationObjSpec>() else { return false };
    let table = object.pubtable.as_ref().and_then(|table| table.relation.as_ref());
    object.name == "loxo" || table.is_some_and(|table| table.schemaname == "loxo")
}

fn boxed(plan: DdlPlan) -> Plan {
    Plan::Ddl(Box::new(plan))
}

/// A statement as it stands, on these nodes, without any effect on our metadata.
fn as_it_stands(statement: &Statement, nodes: Vec<NodeId>, kind: DdlKind) -> DdlPlan {
    DdlPlan {
        kind,
        nodes,
        moves: Vec::new(),
        node_sql: statement.node_sql.to_string(),
        elsewhere: Elsewhere::Same,
        effects: Vec::new(),
        notices: Vec::new(),
        temporary: false,
        of_all_databases: statement.node().is_some_and(tree::is_shared),
        outside_transaction: false,
        undo: None,
        follow_up: None,
        fills_by: None,
        fill: Fill::Table,
    }
}

/// Nothing of users is made in schema loxo, where nobody looks for their objects, and nothing there is changed by a name.
fn refuse_our_schema(ctx: &Context<'_>, node: &NodeEnum) -> Result<()> {
    let is_ours = |schema: &str| match schema {
        "" => ctx.session.search_path.first().is_some_and(|first| first == "loxo"),
        named => named == "loxo",
    };
    if tree::schemas_changed(node).contains(&"loxo") {
        return Err(PgError::unsupported("a change of schema loxo, which is the cluster's own,")
            .hint("loxo node, CREATE NODE GROUP and ALTER TABLE … DISTRIBUTE BY change what it says."));
    }
    match tree::schema_of_new(node).is_some_and(is_ours) {
        false => Ok(()),
        true => Err(PgError::unsupported("an object in schema loxo, which is the cluster's own,").hint(
            "Name another schema. Where none is named, search_path decides: for a role named loxo it begins with that one.",
        )),
    }
}

fn is_in_pg_temp(names: &[Node]) -> bool {
    names.len() > 1 && tree::text_of(&names[0]).is_some_and(tree::is_temporary_schema)
}

/// Does an item in the list of DROP name something in `pg_temp`?
fn names_temporary(object: &Node) -> bool {
    match &object.node {
        Some(NodeEnum::ObjectWithArgs(object)) => is_in_pg_temp(&object.objname),
        Some(NodeEnum::TypeName(object)) => is_in_pg_temp(&object.names),
        Some(NodeEnum::List(names)) => is_in_pg_temp(&names.items),
        _ => false,
    }
}

/// A function, type or the like that is made or altered in `pg_temp`, which the home node alone has.
fn is_in_temporary_schema(node: &NodeEnum) -> bool {
    match node {
        NodeEnum::AlterFunctionStmt(alter) => alter.func.as_ref().is_some_and(|object| is_in_pg_temp(&object.objname)),
        // Every node gets these.
        NodeEnum::CreateForeignTableStmt(_) | NodeEnum::CreateExtensionStmt(_) => false,
        other => tree::schema_of_new(other).is_some_and(tree::is_temporary_schema),
    }
}

/// A statement about something in `pg_temp`, as it stands.
fn temporary(ctx: &Context<'_>, statement: &Statement, kind: DdlKind) -> DdlPlan {
    DdlPlan { temporary: true, ..as_it_stands(statement, vec![ctx.home()], kind) }
}

/// All datanodes, the primary first: every DDL locks in the same order.
fn everywhere(ctx: &Context<'_>) -> Vec<NodeId> {
    ctx.primary_first(ctx.catalog.all_nodes())
}

/// Is this the name of something temporary, on the home node alone?
fn is_temporary(ctx: &Context<'_>, name: &RangeVar) -> bool {
    let by_schema = tree::is_temporary_schema(&name.schemaname);
    let by_name = name.schemaname.is_empty() && ctx.session.temp_relations.contains(&name.relname);
    name.relpersistence == "t" || by_schema || by_name
}

/// What we do not run on all nodes. Everything else that the grammar knows is run as it stands.
fn refusal(node: &NodeEnum) -> Option<PgError> {
    let (what, hint) = match node {
        NodeEnum::CreateSubscriptionStmt(_)
        | NodeEnum::AlterSubscriptionStmt(_)
        | NodeEnum::DropSubscriptionStmt(_) => ("a subscription", "Load the rows through a coordinator instead."),
        // Nobody could commit over several nodes any more: our own tables have no replica identities.
        NodeEnum::CreatePublicationStmt(publication) if publication.for_all_tables => {
            ("a publication FOR ALL TABLES", "Name the tables, or FOR TABLES IN SCHEMA.")
        }
        NodeEnum::CreatePublicationStmt(CreatePublicationStmt { pubobjects, .. })
        | NodeEnum::AlterPublicationStmt(AlterPublicationStmt { pubobjects, .. })
            if pubobjects.iter().any(is_in_our_schema) =>
        {
            ("a publication of schema loxo", "Publish the tables of your own schemas.")
        }
        NodeEnum::CreateForeignTableStmt(table)
            if table.base_stmt.as_ref().is_some_and(|base| !base.inh_relations.is_empty()) =>
        {
            (
                "a foreign table as a partition or child",
                "Put the foreign table and the other one into a view by UNION ALL.",
            )
        }
        NodeEnum::CreateEventTrigStmt(_) | NodeEnum::AlterEventTrigStmt(_) => {
            ("an event trigger", "Check the schema from the client instead.")
        }
        NodeEnum::LoadStmt(_) => ("LOAD", "Set shared_preload_libraries on every datanode."),
        NodeEnum::AlterSystemStmt(_) => ("ALTER SYSTEM", "Change the setting in every datanode's configuration."),
        NodeEnum::CreateAmStmt(_) => ("an access method", "Create it on each datanode."),
        _ => return None,
    };
    Some(PgError::unsupported(what).hint(hint))
}

/// The plan of a statement about temporary tables too: as that of its other tables.
fn beside_temporary(others: DdlPlan, rest: &NodeEnum) -> Result<DdlPlan> {
    Ok(DdlPlan { elsewhere: Elsewhere::Without(tree::deparse(rest)?), ..others })
}

struct Ddl<'a> {
    ctx: &'a Context<'a>,
    statement: &'a Statement,
}

impl Ddl<'_> {
    fn everywhere(&self, kind: DdlKind) -> DdlPlan {
        as_it_stands(self.statement, everywhere(self.ctx), kind)
    }

    fn temporary(&self, kind: DdlKind) -> Plan {
        boxed(temporary(self.ctx, self.statement, kind))
    }

    /// TRUNCATE and LOCK of a list of tables, some of which may be temporary.
    fn on_listed(&self, tables: &[Node], kind: DdlKind, rest: impl FnOnce(Vec<Node>) -> NodeEnum) -> Result<DdlPlan> {
        let is_other = |table: &&Node| table.get::<RangeVar>().is_some_and(|name| !is_temporary(self.ctx, name));
        let others: Vec<Node> = tables.iter().filter(is_other).cloned().collect();
        let is_mixed = !others.is_empty() && others.len() < tables.len();
        let names: Vec<&RangeVar> = if is_mixed { &others } else { tables }.iter().filter_map(Node::get).collect();
        let plan = self.relations(&names, kind)?;
        if is_mixed { beside_temporary(plan, &rest(others.clone())) } else { Ok(plan) }
    }

    /// All nodes, or the home node if all relations live there alone.
    fn relations(&self, names: &[&RangeVar], kind: DdlKind) -> Result<DdlPlan> {
        let (mut temporary_ones, mut home) = (0, 0);
        for name in names {
            let is_temporary = is_temporary(self.ctx, name);
            temporary_ones += usize::from(is_temporary);
            home += usize::from(!is_temporary && self.is_home_relation(name, kind)?);
        }
        match (temporary_ones, home) {
            (0, 0) => Ok(self.everywhere(kind)),
            (n, 0) if n == names.len() => Ok(temporary(self.ctx, self.statement, kind)),
            (0, n) if n == names.len() => Ok(as_it_stands(self.statement, vec![self.ctx.home()], kind)),
            _ => {
                Err(PgError::unsupported("one statement for temporary and other tables").hint("Write two statements."))
            }
        }
    }

    /// All nodes define a materialized view or a foreign table, one has or reaches its rows.
    fn is_home_relation(&self, name: &RangeVar, kind: DdlKind) -> Result<bool> {
        const OF_ONE: [RelationKind; 2] = [RelationKind::MaterializedView, RelationKind::ForeignTable];
        let named = self.ctx.resolve(name)?;
        Ok(kind != DdlKind::Schema && matches!(named, Named::Home(Some(relation)) if OF_ONE.contains(&relation.kind)))
    }

    /// CLUSTER and REINDEX of a partitioned table are as many transactions as it has partitions; inside a block the node says
    /// that it cannot be. The catalog has no indexes, so that any name it does not know may be one of a partitioned table.
    fn takes_many_transactions(&self, name: &RangeVar) -> bool {
        let is_partitioned = |relation: &catalog::Relation| relation.kind == RelationKind::PartitionedTable;
        if self.ctx.session.in_transaction || is_temporary(self.ctx, name) {
            return false;
        }
        match self.ctx.resolve(name) {
            Ok(Named::Distributed(relation)) => is_partitioned(&relation),
            Ok(Named::Home(None)) => self.ctx.catalog.relations().any(|relation| is_partitioned(relation)),
            _ => false,
        }
    }

    fn is_broken(&self, name: &RangeVar) -> bool {
        let code = |error: PgError| error.code();
        self.ctx.resolve(name).err().map(code) == Some(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE)
    }

    fn named(&self, name: Option<&RangeVar>) -> Result<Plan> {
        match name {
            Some(name) if is_temporary(self.ctx, name) => Ok(self.temporary(DdlKind::Schema)),
            _ => Ok(boxed(self.everywhere(DdlKind::Schema))),
        }
    }

    fn view(&self, view: &pg_query::protobuf::ViewStmt) -> Result<Plan> {
        let over_temp = match view.query.as_deref().and_then(|q| q.node.as_ref()) {
            Some(query) => create_as::mentions_temporary(self.ctx, query)?,
            None => false,
        };
        if over_temp { Ok(self.temporary(DdlKind::Schema)) } else { self.named(view.view.as_ref()) }
    }

    fn drop(&self, drop: &pg_query::protobuf::DropStmt) -> Result<Plan> {
        use ObjectType::{ObjectForeignTable, ObjectIndex, ObjectMatview, ObjectSequence, ObjectTable, ObjectView};
        let kind = drop.remove_type();
        if [ObjectType::ObjectEventTrigger, ObjectType::ObjectAccessMethod].contains(&kind) {
            return Err(PgError::unsupported("DROP of an object that the cluster does not manage")
                .hint("Drop it on each datanode."));
        }
        // The table in DROP TRIGGER's list of name lists.
        let owner = |object: &Node| table_of(tree::names_of(&object.get::<List>()?.items).split_last()?.1);
        let is_part = [ObjectType::ObjectRule, ObjectType::ObjectTrigger, ObjectType::ObjectPolicy].contains(&kind);
        if is_part && drop.objects.iter().filter_map(owner).any(|table| is_temporary(self.ctx, &table)) {
            return Ok(self.temporary(DdlKind::Schema));
        }
        let is_relation = matches!(
            kind,
            ObjectTable | ObjectView | ObjectSequence | ObjectIndex | ObjectMatview | ObjectForeignTable
        );
        let is_type = |object: &Node| object.get::<TypeName>().map_or(Ok(None), |of| self.ctx.temporary_type(of));
        let types: Vec<_> = drop.objects.iter().map(is_type).collect::<Result<_>>()?;
        let is_all = |object: (&Node, &Option<String>)| names_temporary(object.0) || object.1.is_some();
        if !is_relation && !drop.objects.is_empty() && drop.objects.iter().zip(&types).all(is_all) {
            return Ok(self.temporary(DdlKind::Schema));
        }
        let mut plan = if is_relation { self.drop_relations(drop)? } else { self.everywhere(DdlKind::Schema) };
        plan.effects.push(Effect::ForgetMissing);
        plan.outside_transaction = drop.concurrent;
        if kind == ObjectIndex && plan.elsewhere == Elsewhere::Same {
            // Another node may lack an index that could not be made CONCURRENTLY on all of them.
            let lenient = NodeEnum::DropStmt(DropStmt { missing_ok: true, ..drop.clone() });
            plan.elsewhere = Elsewhere::Without(tree::deparse(&lenient)?);
        }
        Ok(boxed(plan))
    }

    fn drop_relations(&self, drop: &DropStmt) -> Result<DdlPlan> {
        let mut names: Vec<RangeVar> = drop.objects.iter().filter_map(relation_name).collect();
        // A table that is good for nothing else can be dropped.
        names.retain(|name| !self.is_broken(name));
        let others: Vec<&RangeVar> = names.iter().filter(|name| !is_temporary(self.ctx, name)).collect();
        if others.is_empty() || others.len() == names.len() {
            return self.relations(&names.iter().collect::<Vec<_>>(), DdlKind::Schema);
        }
        let is_other = |object: &&Node| relation_name(object).is_some_and(|name| !is_temporary(self.ctx, &name));
        let objects = drop.objects.iter().filter(is_other).cloned().collect();
        let rest = NodeEnum::DropStmt(DropStmt { objects, ..drop.clone() });
        beside_temporary(self.relations(&others, DdlKind::Schema)?, &rest)
    }

    /// DO runs on the home node, so it must not touch distributed tables.
    fn code_block(&self, block: &pg_query::protobuf::DoStmt) -> Result<Plan> {
        let language = tree::option_of(&block.args, "language").and_then(tree::text_of);
        let facts = functions::body_facts(self.ctx, language.unwrap_or("plpgsql"), &self.statement.sql)?;
        facts.check().map(|()| self.forward_home())
    }

    fn call(&self, call: &pg_query::protobuf::CallStmt) -> Result<Plan> {
        let Some(function) = &call.funccall else { return Err(PgError::internal("CALL without a procedure")) };
        functions::facts(self.ctx, function)?.check().map(|()| self.forward_home())
    }

    fn forward_home(&self) -> Plan {
        Plan::Forward(Forward::of(self.statement, vec![self.ctx.home()], true))
    }
}

/// The name in DROP TABLE's list of name lists.
fn relation_name(object: &Node) -> Option<RangeVar> {
    table_of(&tree::names_of(&object.get::<List>()?.items))
}

/// The name that `[…, schema,] table` means.
fn table_of(names: &[String]) -> Option<RangeVar> {
    match names {
        [name] => Some(tree::table("", name, None)),
        [.., schema, name] => Some(tree::table(schema, name, None)),
        [] => None,
    }
}
