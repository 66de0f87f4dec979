//! INSERT, UPDATE, DELETE, MERGE.

use std::sync::Arc;

use catalog::{Distribution, Relation, RuleEvent};
use pg_query::Node;
use pg_query::protobuf::{RangeVar, ReturningClause};
use pgerror::{PgError, Result};

use crate::context::{Context, Named};
use crate::facts::Facts;
use crate::tree::Ref;

mod current_of;
mod drawn;
mod insert;
pub(crate) mod key_moves;
mod lock;
mod merge;
mod returning;
mod row_parts;
mod set_default;
pub(crate) mod stage;
mod staged_dml;
mod staged_sql;
pub(crate) mod temp_placement;
mod update;
mod view;

pub(crate) use current_of::changes_current;
pub use current_of::current_of;
pub(crate) use drawn::drawn;
pub(crate) use insert::{Insert, insert, place_of_insert};
pub(crate) use merge::merge;
pub(crate) use row_parts::{Part, parts};
pub use set_default::sets_default;
pub(crate) use set_default::written_out;
pub use stage::identity;
pub(crate) use stage::{definition, next_identity, stored_columns};
pub(crate) use update::{changing_targets, check_key, delete, is_column, update};

pub(crate) use view::{one_view_down, table_behind, table_under, through_view};

/// What a write goes to.
enum Target {
    Home,
    Table(Arc<Relation>),
}

fn target(ctx: &Context<'_>, name: &RangeVar, facts: &Facts) -> Result<Target> {
    facts.check()?;
    let relation = match ctx.resolve(name)? {
        Named::Home(Some(_)) => return Ok(Target::Home),
        Named::Home(None) => return check_system(ctx, name).map(|()| Target::Home),
        Named::View(view) => {
            return Err(PgError::unsupported(format!("a change of view \"{}\"", view.name))
                .hint("Change the table under the view."));
        }
        Named::Distributed(relation) => relation,
    };
    if facts.current_of {
        return Err(PgError::unsupported("WHERE CURRENT OF in WITH").hint("Name the row by its key."));
    }
    if facts.modifying_cte {
        return Err(PgError::unsupported("a data-modifying WITH").hint("Run the data changes one by one."));
    }
    Ok(Target::Table(relation))
}

/// Each node has system catalogs of its own. Among their views there is one that is written to, which sets what it shows.
pub(crate) fn check_system(ctx: &Context<'_>, name: &RangeVar) -> Result<()> {
    let (schema, table) = (name.schemaname.as_str(), name.relname.as_str());
    let is_system = ["", "pg_catalog"].contains(&schema) && !ctx.session.temp_relations.contains(&name.relname);
    match is_system && table.starts_with("pg_") && table != "pg_settings" {
        true => Err(PgError::unsupported(format!("a change of rows of system catalog \"{table}\""))
            .hint("Use the command that is made for it.")),
        false => Ok(()),
    }
}

/// It is planned anew, on the first of the copies: see [`first_copy`](crate::first_copy).
fn several_copies(relation: &Relation, what: &str) -> PgError {
    PgError::unsupported(format!("{what} in a change of replicated table \"{}\"", relation.name))
        .detail("Its copies could come to differ.")
        .hint("Write one statement after the other.")
}

/// A replicated table must get the same values everywhere.
fn check_same_everywhere(facts: &Facts, table: &str) -> Result<()> {
    let refuse = |what: &str, hint: &str| {
        Err(PgError::unsupported(format!("{what} in a change of replicated table \"{table}\"")).hint(hint))
    };
    if let Some(what) = facts.volatile.as_ref().or(facts.home.as_ref()) {
        return refuse(what, "Every copy would get another value: compute the value first and send it as a constant.");
    }
    if let Some(what) = &facts.clock {
        return refuse(what, "The copies' clocks differ: select the time first and send it as a constant.");
    }
    if let Some(column) = &facts.system_column {
        return refuse(
            &format!("system column \"{column}\""),
            "It is another on each copy: name the rows by their key.",
        );
    }
    if let Some(what) = &facts.order_sensitive {
        return refuse(what, "The copies may hold their rows in another order: select the value first.");
    }
    Ok(())
}

fn returning_list(clause: Option<&ReturningClause>) -> Vec<Node> {
    clause.map(|r| r.exprs.clone()).unwrap_or_default()
}

/// On several nodes, so that a change has to be the same on each.
pub(crate) fn is_replicated(relation: &Relation) -> bool {
    matches!(&relation.distribution, Distribution::Replicated { nodes } if nodes.len() > 1)
}

/// What a statement does to its table; MERGE does not say.
pub(crate) fn event_of(node: Ref<'_>) -> Option<RuleEvent> {
    match node {
        Ref::InsertStmt(_) => Some(RuleEvent::Insert),
        Ref::UpdateStmt(_) => Some(RuleEvent::Update),
        Ref::DeleteStmt(_) => Some(RuleEvent::Delete),
        _ => None,
    }
}
