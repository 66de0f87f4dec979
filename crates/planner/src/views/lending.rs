//! Tables under views that are read with their owners' rights: see [`rewrite::owner_reads`](crate::rewrite::owner_reads).

use std::sync::Arc;

use catalog::Relation;
use pgerror::Result;

use super::reads_as_table;
use crate::context::{Context, Named};
use crate::plan::Lent;
use crate::tree::{self, Ask, Walk};

/// Where our views on tables are.
const SCHEMA: &str = "loxo";

/// Notes which tables are lent, and puts our views in their places.
pub(crate) struct Lending {
    pub(crate) prefix: String,
    pub(crate) as_tables: bool,
    pub(crate) lent: Vec<Lent>,
    /// Our views, for all that is not the home node's alone.
    pub(crate) relations: Vec<Arc<Relation>>,
}

impl Lending {
    /// For the definition of a view with this owner. Views that it names are left to be expanded.
    pub(crate) fn lend(&mut self, ctx: &Context<'_>, owner: &str, definition: &mut impl Walk) -> Result<()> {
        let ctes = definition.with_names()?;
        definition.change_tables(|name| {
            if name.schemaname.is_empty() && ctes.contains(&name.relname) {
                return Ok(());
            }
            let (relation, is_everywhere) = match ctx.resolve(name)? {
                Named::Distributed(table) => (table, true),
                Named::Home(Some(table)) => (table, false),
                Named::View(view) if self.as_tables && reads_as_table(ctx, &view)? => {
                    match ctx.planner.view_as_table(ctx, &view) {
                        Some(table) => (table, true),
                        None => return Ok(()),
                    }
                }
                Named::View(_) | Named::Home(None) => return Ok(()),
            };
            let alias = name.alias.clone();
            let alias = alias.unwrap_or_else(|| tree::alias(&name.relname));
            *name = tree::table(SCHEMA, &self.view_on(&relation, owner, !name.inh, is_everywhere), Some(alias));
            Ok(())
        })
    }

    fn view_on(&mut self, relation: &Arc<Relation>, owner: &str, only: bool, is_everywhere: bool) -> String {
        let view = format!("{}_{}", self.prefix, self.lent.len() + 1);
        let lent =
            Lent { view, prefix: self.prefix.clone(), owner: owner.to_owned(), table: relation.qualified_name(), only };
        let is_same = |known: &&Lent| (&known.owner, &known.table, known.only) == (&lent.owner, &lent.table, lent.only);
        if let Some(known) = self.lent.iter().find(is_same) {
            return known.view.clone();
        }
        let view = lent.view.clone();
        if is_everywhere {
            self.relations.push(Arc::new(Relation {
                schema: SCHEMA.to_owned(),
                name: view.clone(),
                parents: Vec::new(),
                has_children: false,
                is_partition: false,
                ..relation.as_ref().clone()
            }));
        }
        self.lent.push(lent);
        view
    }
}
