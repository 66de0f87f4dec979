//! What DDL is about: schemas that it names, what all databases of a server share, large objects.

use pg_query::protobuf::{List, ObjectType, ObjectWithArgs, RangeVar, TypeName};
use pg_query::{Node, NodeEnum};

use super::get::Get;
use super::parts::{option_of, qualified, text_of};

/// The schema of what a statement makes or moves there, empty if none is named; none of what is temporary by its own word.
pub fn schema_of_new(node: &NodeEnum) -> Option<&str> {
    fn of_relation(name: &Option<RangeVar>) -> Option<&str> {
        name.as_ref().filter(|name| name.relpersistence != "t").map(|name| name.schemaname.as_str())
    }
    fn of_names(names: &[Node]) -> Option<&str> {
        Some(qualified(names).0.unwrap_or_default())
    }
    match node {
        NodeEnum::CreateStmt(create) => of_relation(&create.relation),
        NodeEnum::CreateTableAsStmt(create) => create.into.as_ref().and_then(|into| of_relation(&into.rel)),
        NodeEnum::SelectStmt(select) => select.into_clause.as_ref().and_then(|into| of_relation(&into.rel)),
        NodeEnum::ViewStmt(view) => of_relation(&view.view),
        NodeEnum::CreateSeqStmt(sequence) => of_relation(&sequence.sequence),
        NodeEnum::CompositeTypeStmt(create) => of_relation(&create.typevar),
        NodeEnum::CreateFunctionStmt(create) => of_names(&create.funcname),
        NodeEnum::CreateEnumStmt(create) => of_names(&create.type_name),
        NodeEnum::CreateRangeStmt(create) => of_names(&create.type_name),
        NodeEnum::CreateDomainStmt(create) => of_names(&create.domainname),
        NodeEnum::DefineStmt(create) => of_names(&create.defnames),
        NodeEnum::CreateForeignTableStmt(create) => {
            create.base_stmt.as_ref().and_then(|base| of_relation(&base.relation))
        }
        NodeEnum::CreateExtensionStmt(create) => {
            Some(option_of(&create.options, "schema").and_then(text_of).unwrap_or_default())
        }
        NodeEnum::AlterObjectSchemaStmt(moved) => Some(moved.newschema.as_str()),
        _ => None,
    }
}

/// The schemas, as they are named, of what a statement drops, alters, renames, moves away or empties.
pub fn schemas_changed(node: &NodeEnum) -> Vec<&str> {
    fn of_relation(name: &Option<RangeVar>) -> Vec<&str> {
        name.iter().map(|name| name.schemaname.as_str()).collect()
    }
    let is_schema = |kind: i32| kind == ObjectType::ObjectSchema as i32;
    match node {
        NodeEnum::DropStmt(drop) if is_schema(drop.remove_type) => drop.objects.iter().filter_map(text_of).collect(),
        // `DROP TRIGGER name ON schema.table` and its kin have the table in front of the name.
        NodeEnum::DropStmt(drop) if is_of_table(drop.remove_type()) => {
            let lists = drop.objects.iter().filter_map(|object| object.get::<List>()?.items.split_last());
            lists.filter_map(|(_, table)| qualified(table).0).collect()
        }
        NodeEnum::DropStmt(drop) => drop.objects.iter().filter_map(schema_of_object).collect(),
        NodeEnum::TruncateStmt(truncate) => truncate.relations.iter().filter_map(schema_of_object).collect(),
        NodeEnum::AlterTableStmt(alter) => of_relation(&alter.relation),
        NodeEnum::AlterSeqStmt(alter) => of_relation(&alter.sequence),
        NodeEnum::IndexStmt(index) => of_relation(&index.relation),
        NodeEnum::CreateTrigStmt(trigger) => of_relation(&trigger.relation),
        NodeEnum::RuleStmt(rule) => of_relation(&rule.relation),
        NodeEnum::CreatePolicyStmt(policy) => of_relation(&policy.table),
        NodeEnum::AlterPolicyStmt(policy) => of_relation(&policy.table),
        NodeEnum::AlterFunctionStmt(alter) => {
            alter.func.iter().filter_map(|object| qualified(&object.objname).0).collect()
        }
        NodeEnum::AlterEnumStmt(alter) => qualified(&alter.type_name).0.into_iter().collect(),
        NodeEnum::AlterDomainStmt(alter) => qualified(&alter.type_name).0.into_iter().collect(),
        NodeEnum::RenameStmt(rename) if is_schema(rename.rename_type) => vec![&rename.subname],
        NodeEnum::RenameStmt(rename) => {
            let object = rename.object.as_deref().and_then(schema_of_object);
            of_relation(&rename.relation).into_iter().chain(object).collect()
        }
        NodeEnum::AlterOwnerStmt(alter) if is_schema(alter.object_type) => {
            alter.object.as_deref().and_then(text_of).into_iter().collect()
        }
        NodeEnum::AlterOwnerStmt(alter) => alter.object.as_deref().and_then(schema_of_object).into_iter().collect(),
        NodeEnum::AlterObjectSchemaStmt(moved) => {
            let object = moved.object.as_deref().and_then(schema_of_object);
            of_relation(&moved.relation).into_iter().chain(object).collect()
        }
        _ => Vec::new(),
    }
}

fn is_of_table(kind: ObjectType) -> bool {
    matches!(kind, ObjectType::ObjectTrigger | ObjectType::ObjectPolicy | ObjectType::ObjectRule)
}

/// The schema in the name of an object.
fn schema_of_object(object: &Node) -> Option<&str> {
    match object.node.as_ref()? {
        NodeEnum::RangeVar(RangeVar { schemaname, .. }) => Some(schemaname),
        NodeEnum::List(List { items: names }) | NodeEnum::TypeName(TypeName { names, .. }) => qualified(names).0,
        NodeEnum::ObjectWithArgs(ObjectWithArgs { objname, .. }) => qualified(objname).0,
        _ => None,
    }
}

/// Is it about large objects?
pub fn is_of_large_object(node: &NodeEnum) -> bool {
    let kind = match node {
        NodeEnum::GrantStmt(grant) => grant.objtype,
        NodeEnum::CommentStmt(comment) => comment.objtype,
        NodeEnum::SecLabelStmt(label) => label.objtype,
        NodeEnum::AlterOwnerStmt(alter) => alter.object_type,
        _ => return false,
    };
    kind == ObjectType::ObjectLargeobject as i32
}

/// Is it about what all databases of a server share? Roles with their memberships and settings, tablespaces, databases themselves, rights on parameters. DROP OWNED takes away rights on
/// such things too, and REASSIGN OWNED gives them another owner.
pub fn is_shared(node: &NodeEnum) -> bool {
    match node {
        NodeEnum::CreateRoleStmt(_)
        | NodeEnum::AlterRoleStmt(_)
        | NodeEnum::AlterRoleSetStmt(_)
        | NodeEnum::DropRoleStmt(_)
        | NodeEnum::GrantRoleStmt(_)
        | NodeEnum::DropOwnedStmt(_)
        | NodeEnum::ReassignOwnedStmt(_)
        | NodeEnum::AlterDatabaseStmt(_)
        | NodeEnum::AlterDatabaseSetStmt(_)
        | NodeEnum::AlterDatabaseRefreshCollStmt(_)
        | NodeEnum::CreateTableSpaceStmt(_)
        | NodeEnum::DropTableSpaceStmt(_)
        | NodeEnum::AlterTableSpaceOptionsStmt(_) => true,
        NodeEnum::GrantStmt(grant) => is_kind_shared(grant.objtype),
        NodeEnum::CommentStmt(comment) => is_kind_shared(comment.objtype),
        NodeEnum::SecLabelStmt(label) => is_kind_shared(label.objtype),
        NodeEnum::AlterOwnerStmt(alter) => is_kind_shared(alter.object_type),
        NodeEnum::RenameStmt(rename) => is_kind_shared(rename.rename_type),
        _ => false,
    }
}

fn is_kind_shared(kind: i32) -> bool {
    use ObjectType::{ObjectDatabase, ObjectParameterAcl, ObjectRole, ObjectTablespace};
    matches!(kind.try_into(), Ok(ObjectDatabase | ObjectParameterAcl | ObjectRole | ObjectTablespace))
}
