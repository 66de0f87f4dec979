//! Questions about whole trees.

use std::collections::HashSet;

use pg_query::Node;
use pg_query::protobuf::{FuncCall, LockingClause, RangeVar};
use pgerror::Result;

use super::get::Get;
use super::walk::{Ref, Walk};

/// What can be asked of everything that can be walked.
pub trait Ask: Walk {
    /// Shows every node.
    fn each<'a>(&'a self, mut visit: impl FnMut(Ref<'a>)) -> Result<()> {
        self.walk(&mut |node| {
            visit(node);
            Ok(true)
        })
    }

    /// Is there such a node?
    fn any<'a>(&'a self, mut holds: impl FnMut(Ref<'a>) -> bool) -> Result<bool> {
        self.try_any(|node| Ok(holds(node)))
    }

    /// Is there such a node? The answer may be an error.
    fn try_any<'a>(&'a self, mut holds: impl FnMut(Ref<'a>) -> Result<bool>) -> Result<bool> {
        let mut found = false;
        self.walk(&mut |node| {
            found = found || holds(node)?;
            Ok(!found)
        })?;
        Ok(found)
    }

    /// Are all nodes such?
    fn every<'a>(&'a self, mut holds: impl FnMut(Ref<'a>) -> bool) -> Result<bool> {
        Ok(!self.any(|node| !holds(node))?)
    }

    /// Is there such a node, or one that is not known and might be it?
    fn may_have<'a>(&'a self, holds: impl FnMut(Ref<'a>) -> bool) -> bool {
        self.any(holds).unwrap_or(true)
    }

    /// How many such nodes are there?
    fn count<'a>(&'a self, mut holds: impl FnMut(Ref<'a>) -> bool) -> Result<usize> {
        let mut count = 0;
        self.each(|node| count += usize::from(holds(node)))?;
        Ok(count)
    }

    /// What there is of the nodes, in the order of the walk.
    fn collect<'a, T>(&'a self, mut of: impl FnMut(Ref<'a>) -> Option<T>) -> Result<Vec<T>> {
        let mut found = Vec::new();
        self.each(|node| found.extend(of(node)))?;
        Ok(found)
    }

    /// The tables, views and WITH items that it names.
    fn tables(&self) -> Result<Vec<&RangeVar>> {
        self.collect(|node| if let Ref::RangeVar(name) = node { Some(name) } else { None })
    }

    /// The calls of functions in it.
    fn calls(&self) -> Result<Vec<&FuncCall>> {
        self.collect(|node| if let Ref::FuncCall(call) = node { Some(call) } else { None })
    }

    /// Has an expression a sub-select?
    fn has_sub_select(&self) -> Result<bool> {
        self.any(|node| matches!(node, Ref::SubLink(_)))
    }

    /// Names of all WITH items, at whatever level.
    fn with_names(&self) -> Result<HashSet<String>> {
        let names =
            self.collect(|node| if let Ref::CommonTableExpr(cte) = node { Some(cte.ctename.clone()) } else { None });
        Ok(names?.into_iter().collect())
    }

    /// Puts nodes in the place of others, and looks below those that stay. Was there a place for one?
    fn put(&mut self, mut instead_of: impl FnMut(&mut Node) -> Result<Option<Node>>) -> Result<bool> {
        let mut found = false;
        self.rewrite(&mut |node| {
            let Some(made) = instead_of(node)? else { return Ok(true) };
            (*node, found) = (made, true);
            Ok(false)
        })?;
        Ok(found)
    }

    /// Shows the tables, views and WITH items in FROM, to be changed. What FOR UPDATE OF names are aliases of these.
    fn change_tables(&mut self, mut change: impl FnMut(&mut RangeVar) -> Result<()>) -> Result<()> {
        self.rewrite(&mut |node| match node.get_mut::<RangeVar>() {
            Some(name) => change(name).map(|()| true),
            None => Ok(node.get::<LockingClause>().is_none()),
        })
    }
}

impl<T: Walk + ?Sized> Ask for T {}
