//! FROM: registers its items as leaves of the scope and sorts the joins into regions of inner joins.

use super::*;

impl Analyzer<'_> {
    /// Registers an item of FROM.
    pub(super) fn register<'t>(
        &mut self,
        item: &'t Node,
        scope: &mut Scope,
        region: &mut Region<'t>,
        env: &Env<'_>,
    ) -> Local<()> {
        match item.node.as_ref() {
            Some(NodeEnum::RangeVar(name)) => {
                let leaf = self.table(name, scope, env)?;
                region.items.push(Item::Leaf(leaf));
            }
            Some(NodeEnum::RangeSubselect(sub)) => self.sub_select_item(sub, scope, region, env)?,
            Some(NodeEnum::JoinExpr(join)) => self.join_item(join, scope, region, env)?,
            Some(NodeEnum::RangeFunction(f)) => {
                let name = f.functions.first().and_then(function_name);
                self.unknown_item(scope, region, f.alias.as_ref(), name);
            }
            Some(NodeEnum::RangeTableFunc(f)) => self.unknown_item(scope, region, f.alias.as_ref(), None),
            Some(NodeEnum::JsonTable(f)) => self.unknown_item(scope, region, f.alias.as_ref(), None),
            Some(NodeEnum::RangeTableSample(sample)) => match sample.relation.as_deref() {
                Some(relation) => self.register(relation, scope, region, env)?,
                None => return not_local("TABLESAMPLE without a table"),
            },
            _ => return not_local("an unknown item in FROM"),
        }
        Ok(())
    }

    /// One whose columns are not known, and that any node can make.
    fn unknown_item(
        &mut self,
        scope: &mut Scope,
        region: &mut Region<'_>,
        alias: Option<&pg_query::protobuf::Alias>,
        name: Option<String>,
    ) {
        let alias = alias.map(|alias| alias.aliasname.clone()).or(name).unwrap_or_default();
        let leaf = self.leaf(scope, alias, None, RowDistribution::Any);
        region.items.push(Item::Leaf(leaf));
    }

    pub(super) fn leaf(
        &mut self,
        scope: &mut Scope,
        alias: String,
        columns: Option<Vec<LeafColumn>>,
        part: RowDistribution,
    ) -> usize {
        let leaf = self.leaves.len();
        self.leaves.push(Leaf { alias, columns, primary_key: Vec::new() });
        self.parts.push(part);
        scope.leaves.push(leaf);
        leaf
    }

    pub(super) fn table(&mut self, name: &RangeVar, scope: &mut Scope, env: &Env<'_>) -> Local<usize> {
        let alias = name.alias.as_ref();
        let alias_name = alias.map_or_else(|| name.relname.clone(), |a| a.aliasname.clone());
        let given = alias.map_or(&[][..], |a| &a.colnames);
        if name.schemaname.is_empty()
            && let Some((_, block)) = env.ctes.iter().rev().find(|(cte, _)| *cte == name.relname)
        {
            let mut block = block.clone();
            rename(&mut block, given);
            return Ok(self.block_leaf(scope, alias_name, block));
        }
        let mut primary_key = Vec::new();
        let (part, columns) = match self.ctx.resolve(name)? {
            Named::Home(exchanged) => {
                let known = exchanged.filter(|table| self.ctx.exchanged.iter().any(|other| other.name == table.name));
                (RowDistribution::Home, known.map(|table| terms::table_columns(self.ctx, &table)))
            }
            Named::View(view) => {
                let error = PgError::unsupported(format!("view \"{}\" under a name that WITH also defines", view.name));
                return Err(Not::Refused(error.hint("Rename the WITH item.")));
            }
            Named::Distributed(relation) => {
                if name.inh {
                    self.check_children(&relation)?;
                }
                let mut columns = terms::table_columns(self.ctx, &relation);
                for (column, name) in columns.iter_mut().zip(given.iter().filter_map(tree::text_of)) {
                    column.name = name.to_owned();
                }
                let leaf = self.leaves.len();
                let position = |number: &catalog::AttNum| relation.columns.iter().position(|c| c.number == *number);
                let key = relation.unique_keys.iter().find(|key| key.primary);
                primary_key = key.map(|key| key.columns.iter().filter_map(position).collect()).unwrap_or_default();
                (self.table_part(&relation, leaf), Some(columns))
            }
        };
        let leaf = self.leaf(scope, alias_name, columns, part);
        self.leaves[leaf].primary_key = primary_key;
        Ok(leaf)
    }

    /// Rows of a parent are those of its children too: they must be placed alike.
    fn check_children(&self, parent: &catalog::Relation) -> Local<()> {
        if !parent.has_children {
            return Ok(());
        }
        let differs = |child: &catalog::Relation| {
            let same_space = Space::of(&child.distribution) == Space::of(&parent.distribution);
            !same_space || child.distribution.nodes() != parent.distribution.nodes()
        };
        let children = self.ctx.catalog.relations().filter(|r| r.parents.contains(&parent.oid));
        match children.map(|child| self.ctx.as_taken(child)).find(|child| differs(child)) {
            None => Ok(()),
            Some(child) => {
                let what =
                    format!("table \"{}\", whose child \"{}\" is distributed in another way,", parent.name, child.name);
                Err(Not::Refused(PgError::unsupported(what).hint("Query parent and child one by one with ONLY.")))
            }
        }
    }

    pub(super) fn table_part(&self, relation: &catalog::Relation, leaf: usize) -> RowDistribution {
        let distribution = &relation.distribution;
        match distribution {
            Distribution::Replicated { nodes } => return RowDistribution::Replicated(nodes.clone()),
            Distribution::RoundRobin { nodes } => {
                return RowDistribution::Partitioned(Split { nodes: nodes.clone(), space: None, key: Vec::new() });
            }
            Distribution::Hash { .. } | Distribution::Modulo { .. } => {}
            Distribution::CatalogNode | Distribution::Temporary | Distribution::View => return RowDistribution::Home,
            // A name of such a table is not resolved.
            Distribution::Broken(_) => return RowDistribution::Home,
        }
        let position = |number| relation.columns.iter().position(|c| c.number == number);
        let key: Option<Vec<Term>> = distribution.key().iter().map(|k| Some((leaf, position(k.number)?))).collect();
        RowDistribution::Partitioned(Split {
            nodes: distribution.nodes(),
            space: Space::of(distribution).filter(|_| key.is_some()),
            key: key.unwrap_or_default(),
        })
    }

    pub(super) fn block_leaf(&mut self, scope: &mut Scope, alias: String, block: Block) -> usize {
        let leaf = self.leaves.len();
        let part = match block.part {
            RowDistribution::Partitioned(mut split) => {
                split.key.iter_mut().for_each(|term| term.0 = leaf);
                RowDistribution::Partitioned(split)
            }
            other => other,
        };
        self.leaf(scope, alias, block.columns, part)
    }

    pub(super) fn sub_select_item<'t>(
        &mut self,
        sub: &'t RangeSubselect,
        scope: &mut Scope,
        region: &mut Region<'t>,
        env: &Env<'_>,
    ) -> Local<()> {
        let alias = sub.alias.as_ref().map_or_else(String::new, |a| a.aliasname.clone());
        if sub.lateral {
            self.leaf(scope, alias, None, RowDistribution::Any);
            region.items.push(Item::Lateral(sub));
            return Ok(());
        }
        let mut block = self.block(query_of(sub)?, env)?;
        rename(&mut block, sub.alias.as_ref().map_or(&[][..], |a| &a.colnames));
        let leaf = self.block_leaf(scope, alias, block);
        region.items.push(Item::Leaf(leaf));
        Ok(())
    }

    pub(super) fn join_item<'t>(
        &mut self,
        join: &'t JoinExpr,
        scope: &mut Scope,
        region: &mut Region<'t>,
        env: &Env<'_>,
    ) -> Local<()> {
        let kind = join.jointype();
        let (Some(left), Some(right)) = (join.larg.as_deref(), join.rarg.as_deref()) else {
            return not_local("half a join");
        };
        let (mut left_region, mut right_region) = (Region::default(), Region::default());
        let (mut left_scope, mut right_scope) = (Scope::default(), Scope::default());
        self.register(left, &mut left_scope, &mut left_region, env)?;
        self.register(right, &mut right_scope, &mut right_region, env)?;
        let mut on: Vec<Condition<'t>> =
            tree::conjuncts(join.quals.as_deref()).into_iter().map(Condition::Expression).collect();
        self.merge_columns(join, kind, &left_scope, &right_scope, scope, &mut on);
        for (side, leaves) in [(left_scope.merged, left_scope.leaves), (right_scope.merged, right_scope.leaves)] {
            for merged in side {
                if !scope.merged.iter().any(|(name, _)| *name == merged.0) {
                    scope.merged.push(merged);
                }
            }
            scope.leaves.extend(leaves);
        }
        if let Some(alias) = &join.alias {
            if !alias.colnames.is_empty() {
                // Outside, a name of these may mean another column.
                scope.leaves.iter().for_each(|leaf| self.leaves[*leaf].columns = None);
            }
            self.leaf(scope, alias.aliasname.clone(), None, RowDistribution::Any);
        }
        match kind {
            JoinType::JoinInner => {
                region.items.extend(left_region.items);
                region.items.extend(right_region.items);
                region.conditions.extend(left_region.conditions);
                region.conditions.extend(right_region.conditions);
                region.conditions.extend(on);
            }
            JoinType::JoinLeft | JoinType::JoinRight | JoinType::JoinFull => {
                region.items.push(Item::Join(kind, Box::new(left_region), Box::new(right_region), on));
            }
            _ => return not_local("an unknown kind of join"),
        }
        Ok(())
    }

    /// USING: which columns are equated, and what the merged column is.
    pub(super) fn merge_columns(
        &self,
        join: &JoinExpr,
        kind: JoinType,
        left: &Scope,
        right: &Scope,
        scope: &mut Scope,
        on: &mut Vec<Condition<'_>>,
    ) {
        for name in tree::names_of(&join.using_clause) {
            let find = |side: &Scope| {
                let fields = vec![tree::string(&name)];
                terms::resolve_here(&self.leaves, side, &pg_query::protobuf::ColumnRef { fields, location: -1 })
                    .ok()
                    .flatten()
            };
            let (l, r) = (find(left), find(right));
            if let (Some(l), Some(r)) = (l, r)
                && self.comparable(l, r)
            {
                on.push(Condition::Same(l, r));
            }
            let merged = match kind {
                JoinType::JoinInner | JoinType::JoinLeft => l,
                JoinType::JoinRight => r,
                _ => None,
            };
            scope.merged.push((name, merged));
        }
    }
}

fn function_name(item: &Node) -> Option<String> {
    match &item.node {
        Some(NodeEnum::List(list)) => list.items.first().and_then(function_name),
        Some(NodeEnum::FuncCall(call)) => tree::last_name(&call.funcname).map(str::to_owned),
        _ => None,
    }
}
