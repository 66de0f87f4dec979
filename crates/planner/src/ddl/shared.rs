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
    let shared = [
        ObjectType::ObjectRole,
        ObjectType::ObjectDatabase,
        ObjectType::ObjectTablespace,
        ObjectType::ObjectParameterAcl,
    ];
    shared.iter().any(|one| *one as i32 == kind)
}

#[cfg(test)]
mod tests {
    use super::is_shared;

    #[test]
    fn roles_and_databases_are_shared_and_tables_are_not() {
        let of = |sql: &str| {
            let statements = crate::parse(sql).unwrap();
            is_shared(statements[0].node().unwrap())
        };
        for sql in [
            "CREATE USER u",
            "ALTER ROLE u PASSWORD 'p'",
            "ALTER ROLE u IN DATABASE d SET work_mem = '1MB'",
            "ALTER ROLE u RENAME TO v",
            "DROP USER u",
            "GRANT a TO b",
            "REVOKE a FROM b",
            "ALTER GROUP a ADD USER b",
            "DROP OWNED BY u",
            "REASSIGN OWNED BY u TO v",
            "ALTER DATABASE d SET work_mem = '1MB'",
            "ALTER DATABASE d OWNER TO u",
            "GRANT CONNECT ON DATABASE d TO u",
            "GRANT SET ON PARAMETER work_mem TO u",
            "COMMENT ON ROLE u IS 'c'",
            "COMMENT ON DATABASE d IS 'c'",
            "DROP TABLESPACE s",
        ] {
            assert!(of(sql), "{sql}");
        }
        for sql in [
            "GRANT SELECT ON t TO u",
            "ALTER TABLE t OWNER TO u",
            "COMMENT ON TABLE t IS 'c'",
            "ALTER TABLE t RENAME TO s",
            "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO u",
            "CREATE SCHEMA AUTHORIZATION u",
        ] {
            assert!(!of(sql), "{sql}");
        }
    }
}
