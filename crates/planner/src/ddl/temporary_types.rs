//! Types in `pg_temp` in statements that run on all nodes: the others do not have them, or have another of their name.

use pg_query::NodeEnum;
use pg_query::protobuf::TypeName;
use pgerror::{PgError, Result};

use crate::context::Context;
use crate::parse;
use crate::plan::{DdlKind, DdlPlan};
use crate::tree;

/// Refuses what would be of one type on the home node, and of another or none elsewhere.
pub(super) fn check(ctx: &Context<'_>, node: &NodeEnum, plan: &DdlPlan) -> Result<()> {
    if ctx.session.temp_types.is_empty() || plan.temporary || plan.kind != DdlKind::Schema {
        return Ok(());
    }
    for names in tree::types_altered(node) {
        if ctx.temporary_type(&TypeName { names: names.to_vec(), ..TypeName::default() })?.is_some() {
            let what = format!("a change of the temporary type \"{}\" by this statement", tree::qualified(names).1);
            return Err(PgError::unsupported(what).hint("Make it with what it is to have, in a new type."));
        }
    }
    for statement in parse::parse(&plan.node_sql)? {
        let Some(node) = statement.node() else { continue };
        for of in tree::types_in(node)? {
            if let Some(of) = ctx.temporary_type(&looked_up(of))? {
                return Err(PgError::unsupported(format!("{of} in a permanent object, or by its bare name,")).hint(
                    "Make the type in a schema of the database, or write pg_temp in front of what is temporary.",
                ));
            }
        }
    }
    Ok(())
}

/// The type itself, or for `table.column%TYPE` that of the table's rows.
fn looked_up(mut of: TypeName) -> TypeName {
    if of.pct_type {
        of.names.pop();
    }
    of
}
