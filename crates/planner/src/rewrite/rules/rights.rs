//! With whose rights the statements of rules run: PostgreSQL asks for those of the owner of the table or view that has the rule.
//!
//! A coordinator runs them as the user. That is the same only if both may do it and no policy shows them other rows, or if they are
//! the same role.

use catalog::{Relation, RuleEvent};
use pg_query::NodeEnum;
use pg_query::protobuf::RangeVar;
use pgerror::Result;

use super::target;
use crate::context::{Context, Named};
use crate::plan::OfOwner;
use crate::tree::{Ref, Walk};

/// The change of what lies under a view.
pub(super) fn of_view(ctx: &Context<'_>, view: &Relation, below: &NodeEnum, found: &mut Vec<OfOwner>) -> Result<()> {
    let Some((name, Some(event))) = target(below) else { return Ok(()) };
    add(ctx, view, name, rights_of(event), found)
}

/// What an action names.
pub(super) fn of(ctx: &Context<'_>, owned: &Relation, action: &NodeEnum, found: &mut Vec<OfOwner>) -> Result<()> {
    if matches!(action, NodeEnum::NotifyStmt(_)) {
        return Ok(());
    }
    let changed = target(action);
    action.walk(&mut |node| {
        let Ref::RangeVar(name) = node else { return Ok(true) };
        let event = changed.filter(|(target, _)| std::ptr::eq(*target, name)).and_then(|(_, event)| event);
        add(ctx, owned, name, event.map_or_else(|| vec!["SELECT"], rights_of), found)?;
        Ok(true)
    })
}

/// To find the rows it changes, a change may have to read them.
fn rights_of(event: RuleEvent) -> Vec<&'static str> {
    match event {
        RuleEvent::Insert => vec![event.name()],
        RuleEvent::Update | RuleEvent::Delete => vec![event.name(), "SELECT"],
    }
}

fn add(
    ctx: &Context<'_>,
    owned: &Relation,
    name: &RangeVar,
    rights: Vec<&'static str>,
    found: &mut Vec<OfOwner>,
) -> Result<()> {
    let (Named::Distributed(on) | Named::View(on) | Named::Home(Some(on))) = ctx.resolve(name)? else {
        return Ok(());
    };
    let has_policies = on.is_barrier && on.view_definition.is_none();
    let one = OfOwner { relation: owned.oid, name: owned.name.clone(), on: on.oid, rights, has_policies };
    if !found.contains(&one) {
        found.push(one);
    }
    Ok(())
}
