//! Types in `pg_temp` in statements that run on all nodes: the others do not have them, or have another of their name.

use pg_query::protobuf::{ColumnDef, List, RenameStmt, TypeName};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::Context;
use crate::parse;
use crate::plan::{DdlKind, DdlPlan};
use crate::tree::{self, Get, Ref, Walk};

/// Refuses what would be of one type on the home node, and of another or none elsewhere.
pub(super) fn check(ctx: &Context<'_>, node: &NodeEnum, plan: &DdlPlan) -> Result<()> {
    if ctx.session.temp_types.is_empty() || plan.temporary || plan.kind != DdlKind::Schema {
        return Ok(());
    }
    if let Some(names) = altered(node)
        && ctx.temporary_type(&TypeName { names: names.to_vec(), ..TypeName::default() })?.is_some()
    {
        let what = format!("a change of the temporary type \"{}\" by this statement", tree::qualified(names).1);
        return Err(PgError::unsupported(what).hint("Make it with what it is to have, in a new type."));
    }
    for statement in parse::parse(&plan.node_sql)? {
        let Some(node) = statement.node() else { continue };
        for of in types_in(node) {
            if let Some(of) = ctx.temporary_type(&of)? {
                return Err(PgError::unsupported(format!("{of} in a permanent object, or by its bare name,")).hint(
                    "Make the type in a schema of the database, or write pg_temp in front of what is temporary.",
                ));
            }
        }
    }
    Ok(())
}

/// The types that a statement names, as far as the walk knows what it consists of.
fn types_in(node: &NodeEnum) -> Vec<TypeName> {
    let of_columns = |nodes: &[Node]| -> Vec<TypeName> {
        nodes.iter().filter_map(|node| node.get::<ColumnDef>()?.type_name.clone()).collect()
    };
    match node {
        NodeEnum::CreateDomainStmt(domain) => domain.type_name.iter().cloned().collect(),
        NodeEnum::CompositeTypeStmt(composite) => of_columns(&composite.coldeflist),
        NodeEnum::CreateStmt(create) => of_columns(&create.table_elts),
        NodeEnum::AlterTableStmt(alter) => {
            let columns = tree::commands(alter).filter_map(|command| command.def.get::<ColumnDef>());
            columns.filter_map(|column| column.type_name.clone()).collect()
        }
        node => {
            let mut found = Vec::new();
            let _ = node.walk(&mut |part| {
                if let Ref::TypeName(of) = part {
                    found.push(of.clone());
                }
                Ok(true)
            });
            found
        }
    }
}

/// The type that a statement changes, where it says so by a list of names.
fn altered(node: &NodeEnum) -> Option<&[Node]> {
    match node {
        NodeEnum::AlterEnumStmt(alter) => Some(&alter.type_name),
        NodeEnum::AlterDomainStmt(alter) => Some(&alter.type_name),
        NodeEnum::AlterTypeStmt(alter) => Some(&alter.type_name),
        NodeEnum::RenameStmt(rename) => renamed(rename),
        _ => None,
    }
}

fn renamed(rename: &RenameStmt) -> Option<&[Node]> {
    use pg_query::protobuf::ObjectType::{ObjectDomain, ObjectDomconstraint, ObjectType};
    let is_type = [ObjectDomain, ObjectDomconstraint, ObjectType].contains(&rename.rename_type());
    let names = rename.object.as_deref().and_then(|object| object.get::<List>()).filter(|_| is_type)?;
    Some(&names.items)
}
