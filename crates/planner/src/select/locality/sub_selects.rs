//! Sub-selects in expressions: they must see, on the node of the outer row, all rows they need.

use super::*;
use crate::tree::Get;

impl Analyzer<'_> {
    /// Every sub-select in the level's expressions must see the rows it needs.
    pub(super) fn sub_selects(
        &mut self,
        select: &SelectStmt,
        scope: &Scope,
        env: &Env<'_>,
        equal: &Equalities,
        part: RowDistribution,
    ) -> Local<RowDistribution> {
        let conditions = shape::inner_conditions(select);
        let mut result = part;
        for link in shape::sub_links(select)? {
            let is_it = |condition: &SubLink| std::ptr::eq(condition, link);
            let is_condition = conditions.iter().any(|condition| condition.get().is_some_and(is_it));
            let Some(query) = link.subselect.get::<SelectStmt>() else { return not_local("an unknown sub-select") };
            let outer = Outer { scope, equal, part: &result, next: env.outer };
            let inner = Env { ctes: env.ctes.clone(), outer: Some(&outer) };
            let block = self.block(query, &inner)?;
            result = match (&result, block.part) {
                (RowDistribution::Partitioned(split), RowDistribution::Partitioned(sub)) => {
                    if !(is_condition && self.is_local_in(link, &sub, split, scope, env, equal)) {
                        return not_local(
                            "a sub-select on a partitioned table that is not tied to the outer row's key",
                        );
                    }
                    result
                }
                (_, RowDistribution::Partitioned(_)) => return not_local("a sub-select on a partitioned table"),
                (_, other) => self.meet(result, other, equal)?,
            };
        }
        Ok(result)
    }

    /// Where the rows of a condition's sub-select are, seen from rows of a level that does not have it (yet).
    pub fn below(&mut self, body: &Body, link: &SubLink, env: &Env<'_>) -> Local<RowDistribution> {
        let Some(query) = link.subselect.get::<SelectStmt>() else { return not_local("an unknown sub-select") };
        let outer = Outer { scope: &body.scope, equal: &body.equal, part: &body.part, next: env.outer };
        Ok(self.block(query, &Env { ctes: env.ctes.clone(), outer: Some(&outer) })?.part)
    }

    /// `key IN (SELECT key …)` as a condition: rows that can match are on the same node.
    pub(super) fn is_local_in(
        &self,
        link: &SubLink,
        sub: &Split,
        outer: &Split,
        scope: &Scope,
        env: &Env<'_>,
        equal: &Equalities,
    ) -> bool {
        let is_in = link.sub_link_type == SubLinkType::AnySublink as i32
            && (link.oper_name.is_empty() || tree::own_name(&link.oper_name) == Some("="))
            && !self.ctx.has_user_operator("=");
        if !is_in || sub.space.is_none() || sub.space != outer.space || sub.key.is_empty() || outer.key.is_empty() {
            return false;
        }
        let tests: Vec<&Node> = match link.testexpr.as_deref() {
            Some(Node { node: Some(NodeEnum::RowExpr(row)) }) => row.args.iter().collect(),
            Some(test) => vec![test],
            None => return false,
        };
        sub.key.iter().zip(&outer.key).all(|((leaf, position), key)| {
            debug_assert_eq!(*leaf, OUTPUT);
            tests.get(*position).and_then(|t| self.term(t, scope, env)).is_some_and(|t| equal.same(t, *key))
        })
    }

    /// An aggregate in a sub-select whose argument has only outer columns belongs to the outer level: too subtle to split.
    pub(super) fn refuse_outer_aggregates(&self, select: &SelectStmt, scope: &Scope, env: &Env<'_>) -> Local<()> {
        if env.outer.is_none() {
            return Ok(());
        }
        for call in shape::aggregates(self.ctx, select)? {
            let mut own = false;
            let mut outer = false;
            call.each(|node| {
                if let Ref::ColumnRef(column) = node {
                    match self.resolve(column, scope, env) {
                        Some((_, false)) => outer = true,
                        _ => own = true,
                    }
                }
            })?;
            if outer && !own {
                return not_local("an aggregate over the outer query's columns");
            }
        }
        Ok(())
    }
}
