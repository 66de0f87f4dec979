//! Which statements are about what all databases of a server share.

use pg_query::NodeEnum;
use pg_query::protobuf::ObjectType;

/// Roles with their memberships and settings, tablespaces, databases themselves, rights on parameters. DROP OWNED takes away rights on
/// such things too, and REASSIGN OWNED gives them another owner.
pub(super) fn is_shared(node: &NodeEnum) -> bool {
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
