//! Joins: what becomes of parts that meet, and which nodes a pinned key leaves.

use super::*;

impl Analyzer<'_> {
    /// Joins the items of a region.
    pub(super) fn region(
        &mut self,
        region: &Region<'_>,
        scope: &Scope,
        env: &Env<'_>,
        equal: &Equalities,
    ) -> Local<RowDistribution> {
        let mut all = RowDistribution::Any;
        for item in &region.items {
            let part = match item {
                Item::Leaf(leaf) => self.pinned(self.parts[*leaf].clone(), equal),
                Item::Lateral(sub) => self.lateral(sub, scope, env, equal, &all)?,
                Item::Join(kind, left, right, on) => self.outer_join(*kind, left, right, on, scope, env, equal)?,
            };
            all = self.meet(all, part, equal)?;
        }
        Ok(all)
    }

    pub(super) fn lateral(
        &mut self,
        sub: &RangeSubselect,
        scope: &Scope,
        env: &Env<'_>,
        equal: &Equalities,
        part: &RowDistribution,
    ) -> Local<RowDistribution> {
        let outer = Outer { scope, equal, part, next: env.outer };
        let inner = Env { ctes: env.ctes.clone(), outer: Some(&outer) };
        let mut block = self.block(query_of(sub)?, &inner)?;
        rename(&mut block, sub.alias.as_ref().map_or(&[][..], |a| &a.colnames));
        Ok(match block.part {
            // The leaf's columns are not known to conditions learnt before: its key must not be matched by name.
            RowDistribution::Partitioned(split) => RowDistribution::Partitioned(Split { key: Vec::new(), ..split }),
            other => other,
        })
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn outer_join(
        &mut self,
        kind: JoinType,
        left: &Region<'_>,
        right: &Region<'_>,
        on: &[Condition<'_>],
        scope: &Scope,
        env: &Env<'_>,
        equal: &Equalities,
    ) -> Local<RowDistribution> {
        // Equalities from above are strict: they also hold for every row that survives them.
        let mut matching = equal.clone();
        self.learn(on, scope, env, &mut matching);
        let (nullable_left, nullable_right) = (kind == JoinType::JoinRight, kind == JoinType::JoinLeft);
        let left_part = self.side(left, if nullable_left { &matching } else { equal }, scope, env)?;
        let right_part = self.side(right, if nullable_right { &matching } else { equal }, scope, env)?;
        self.learn(&left.conditions, scope, env, &mut matching);
        self.learn(&right.conditions, scope, env, &mut matching);
        match kind {
            JoinType::JoinLeft => self.preserve(left_part, right_part, &matching),
            JoinType::JoinRight => self.preserve(right_part, left_part, &matching),
            _ => match (left_part, right_part) {
                (RowDistribution::Partitioned(l), RowDistribution::Partitioned(r)) if colocated(&l, &r, &matching) => {
                    // A row may lack either side's key.
                    Ok(RowDistribution::Partitioned(Split {
                        nodes: union(&l.nodes, &r.nodes),
                        space: None,
                        key: Vec::new(),
                    }))
                }
                (RowDistribution::Partitioned(_), _) | (_, RowDistribution::Partitioned(_)) => {
                    not_local("FULL JOIN of tables that are not co-located")
                }
                (l, r) => self.meet(l, r, &matching),
            },
        }
    }

    /// One side of an outer join. ON narrows only a side that is not preserved.
    pub(super) fn side(
        &mut self,
        region: &Region<'_>,
        equal: &Equalities,
        scope: &Scope,
        env: &Env<'_>,
    ) -> Local<RowDistribution> {
        let mut known = equal.clone();
        self.learn(&region.conditions, scope, env, &mut known);
        self.region(region, scope, env, &known)
    }

    /// LEFT JOIN with the preserved side first.
    pub(super) fn preserve(
        &self,
        kept: RowDistribution,
        other: RowDistribution,
        matching: &Equalities,
    ) -> Local<RowDistribution> {
        match (kept, other) {
            (RowDistribution::Partitioned(kept), RowDistribution::Partitioned(other))
                if colocated(&kept, &other, matching) =>
            {
                Ok(RowDistribution::Partitioned(kept))
            }
            (RowDistribution::Partitioned(_), RowDistribution::Partitioned(_)) => {
                not_local("an outer join of tables that are not co-located")
            }
            (_, RowDistribution::Partitioned(_)) => not_local("an outer join that preserves rows every node has"),
            (kept, other) => self.meet(kept, other, matching),
        }
    }

    /// Inner join of two parts.
    pub(super) fn meet(&self, a: RowDistribution, b: RowDistribution, equal: &Equalities) -> Local<RowDistribution> {
        let home = self.ctx.home();
        match (a, b) {
            (RowDistribution::Any, other) | (other, RowDistribution::Any) => Ok(other),
            (RowDistribution::Home, RowDistribution::Home) => Ok(RowDistribution::Home),
            (RowDistribution::Home, RowDistribution::Replicated(nodes))
            | (RowDistribution::Replicated(nodes), RowDistribution::Home)
                if nodes.contains(&home) =>
            {
                Ok(RowDistribution::Home)
            }
            (RowDistribution::Replicated(a), RowDistribution::Replicated(b)) => match intersect(&a, &b) {
                common if common.is_empty() => not_local("tables that no node has all of"),
                common => Ok(RowDistribution::Replicated(common)),
            },
            (RowDistribution::Replicated(whole), RowDistribution::Partitioned(split))
            | (RowDistribution::Partitioned(split), RowDistribution::Replicated(whole)) => {
                if split.nodes.iter().all(|n| whole.contains(n)) {
                    Ok(RowDistribution::Partitioned(split))
                } else {
                    not_local("a join with a table that is not on all of the nodes")
                }
            }
            (RowDistribution::Partitioned(a), RowDistribution::Partitioned(b)) if colocated(&a, &b, equal) => {
                let nodes = intersect(&a.nodes, &b.nodes);
                // Contradicting constants: nothing matches, any node can say so.
                let nodes = if nodes.is_empty() { a.nodes[..1].to_vec() } else { nodes };
                Ok(self.single(Split { nodes, ..a }))
            }
            (RowDistribution::Partitioned(_), RowDistribution::Partitioned(_)) => {
                not_local("a join of tables that are not co-located")
            }
            (RowDistribution::Home, _) | (_, RowDistribution::Home) => {
                not_local("a join of a distributed table with one of the home node")
            }
        }
    }

    /// All rows on one node: complete there.
    fn single(&self, split: Split) -> RowDistribution {
        match self.narrows && split.nodes.len() == 1 {
            true => RowDistribution::Replicated(split.nodes),
            false => RowDistribution::Partitioned(split),
        }
    }

    /// Narrows a split part by the constants its key is equal to.
    pub(super) fn pinned(&self, part: RowDistribution, equal: &Equalities) -> RowDistribution {
        let RowDistribution::Partitioned(mut split) = part else { return part };
        if split.key.is_empty() || split.space.is_none() {
            return self.single(split);
        }
        if let Some(nodes) = self.nodes_of_key(&split, equal).filter(|_| self.narrows) {
            let kept = intersect(&split.nodes, &nodes);
            split.nodes = if kept.is_empty() { split.nodes[..1].to_vec() } else { kept };
        }
        self.single(split)
    }

    pub(super) fn nodes_of_key(&self, split: &Split, equal: &Equalities) -> Option<Vec<NodeId>> {
        let space = split.space.as_ref()?;
        let column = |(leaf, at): &Term| self.leaves[*leaf].columns.as_ref()?.get(*at);
        let types: Option<Vec<KeyType>> = split.key.iter().map(|term| column(term)?.key_type).collect();
        let distribution =
            constant::distribution_like(&types?, space.modulo, space.map, self.ctx.catalog.map(space.map)?.clone())?;
        let node_of = |values: &[&Constant]| constant::node_of_key(&distribution, values);
        if split.key.iter().any(|k| equal.constants(*k).next().is_some() || equal.lists(*k).next().is_some()) {
            let depends = self.ctx.session.depends;
            depends.inspect(|on| _ = on.fetch_or(crate::BY_VALUE, std::sync::atomic::Ordering::Relaxed));
        }
        let firsts = split.key.iter().map(|k| equal.constants(*k).find(|c| **c != Constant::Null));
        let single = firsts.collect::<Option<Vec<_>>>().and_then(|values| node_of(&values));
        if single.is_some() || split.key.len() != 1 {
            return single.map(|node| vec![node]);
        }
        let list = equal.lists(split.key[0]).next()?;
        let mut nodes: Vec<NodeId> =
            list.iter().filter(|c| **c != Constant::Null).map(|c| node_of(&[c])).collect::<Option<_>>()?;
        nodes.sort_unstable();
        nodes.dedup();
        Some(nodes)
    }
}
