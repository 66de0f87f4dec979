//! Names to terms, and conditions to equalities.

use super::*;
use crate::tree::Get;

impl Analyzer<'_> {
    pub(super) fn comparable(&self, a: Term, b: Term) -> bool {
        let class = |(leaf, column): Term| self.leaves[leaf].columns.as_ref().and_then(|c| c.get(column)?.class);
        class(a).is_some() && class(a) == class(b)
    }

    /// The term of a column, at this level or (second value false) an outer one.
    pub(super) fn resolve(
        &self,
        column: &pg_query::protobuf::ColumnRef,
        scope: &Scope,
        env: &Env<'_>,
    ) -> Option<(Term, bool)> {
        match terms::resolve_here(&self.leaves, scope, column) {
            Ok(term) => term.map(|t| (t, true)),
            Err(()) => {
                let mut outer = env.outer;
                while let Some(level) = outer {
                    match terms::resolve_here(&self.leaves, level.scope, column) {
                        Ok(term) => return term.map(|t| (t, false)),
                        Err(()) => outer = level.next,
                    }
                }
                None
            }
        }
    }

    /// The term behind an expression: a column, perhaps under casts that keep the hash class.
    pub fn term(&self, node: &Node, scope: &Scope, env: &Env<'_>) -> Option<Term> {
        let (column, class) = terms::peel(self.ctx, node)?;
        let (term, _) = self.resolve(column, scope, env)?;
        let own = self.leaves[term.0].columns.as_ref()?.get(term.1)?.class;
        (class.is_none() || class == own).then_some(term)
    }

    /// Are two expressions of a level the same, however they name their columns?
    pub fn same(&self, a: &Node, b: &Node, body: &Body) -> bool {
        let kind = |node: &Node| node.node.as_ref().map(std::mem::discriminant);
        tree::same_expression(a, b)
            || kind(a) == kind(b) && self.resolved(a, body).is_some_and(|a| Some(a) == self.resolved(b, body))
    }

    /// An expression's text with terms in the place of columns.
    fn resolved(&self, expression: &Node, body: &Body) -> Option<String> {
        let term = |node: &Node| {
            let (leaf, position) = terms::resolve_here(&self.leaves, &body.scope, node.get()?).ok()??;
            Some(tree::column(&[&format!("leaf {leaf}"), &format!("column {position}")]))
        };
        let mut expression = expression.clone();
        expression.put(|node| Ok(term(node))).ok()?;
        tree::deparse_expression(&expression).ok()
    }

    /// Is a column the same in all rows of a group, since its table's primary key is grouped?
    pub fn depends_on(&self, column: &Node, group: &[Node], body: &Body) -> bool {
        let term = |node: &Node| {
            node.get::<ColumnRef>()
                .and_then(|column| terms::resolve_here(&self.leaves, &body.scope, column).ok().flatten())
        };
        let Some((leaf, _)) = term(column) else { return false };
        let key = &self.leaves[leaf].primary_key;
        !key.is_empty() && key.iter().all(|at| group.iter().any(|item| term(item) == Some((leaf, *at))))
    }

    /// What is known of the column that an expression of a level shows.
    pub fn column(&self, node: &Node, body: &Body) -> Option<&LeafColumn> {
        let (leaf, position) = self.term(node, &body.scope, &Env::default())?;
        self.leaves[leaf].columns.as_ref()?.get(position)
    }

    pub(super) fn learn(&self, conditions: &[Condition<'_>], scope: &Scope, env: &Env<'_>, equal: &mut Equalities) {
        if self.ctx.has_user_operator("=") {
            return;
        }
        for condition in conditions {
            match condition {
                Condition::Same(..) if self.ctx.may_use_user_operator("=") => {}
                Condition::Same(a, b) => equal.join(*a, *b),
                Condition::Expression(e) => self.learn_expression(e, scope, env, equal),
            }
        }
    }

    pub(super) fn learn_expression(&self, condition: &Node, scope: &Scope, env: &Env<'_>, equal: &mut Equalities) {
        let constant = |node: &Node| Constant::of(node, self.ctx);
        for (left, right) in terms::equal_pairs(condition) {
            match (self.term(left, scope, env), self.term(right, scope, env)) {
                (Some(a), Some(b)) if self.comparable(a, b) => equal.join(a, b),
                (Some(term), None) => {
                    if let Some(value) = constant(right) {
                        equal.pin(term, value);
                    }
                }
                (None, Some(term)) => {
                    if let Some(value) = constant(left) {
                        equal.pin(term, value);
                    }
                }
                _ => {}
            }
        }
        for (left, items) in terms::in_lists(condition) {
            let values: Option<Vec<Constant>> = items.into_iter().map(constant).collect();
            if let (Some(term), Some(values)) = (self.term(left, scope, env), values) {
                equal.lists.push((term, values));
            }
        }
    }
}
