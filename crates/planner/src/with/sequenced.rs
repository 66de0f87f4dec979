//! Parts that run one after the other in one transaction.

use std::collections::{BTreeSet, HashMap, HashSet};

use catalog::NodeId;
use pg_query::protobuf::{OnConflictAction, SelectStmt, WithClause};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::{bare_names, changes, identity, query_of, returned_by, statement_of, target_of, with_items, with_mut};
use crate::context::{Context, Named};
use crate::facts::{code, functions::facts};
use crate::parse::Statement;
use crate::plan::{CteStep, Gather, Kept, Plan, SequencedCtes};
use crate::select;
use crate::session::{Exchanges, SessionFacts};
use crate::tree::{self, Ask, Ref, Syntax, Walk};

/// A data change, the main statement, or a query that several of them read.
pub(super) struct Part {
    /// The WITH item's; none for the main statement.
    name: Option<String>,
    /// The user's names for its columns.
    columns: Vec<Node>,
    pub query: NodeEnum,
    /// The parts whose rows it reads.
    pub reads: Vec<usize>,
}

/// Takes the statement apart and plans its parts.
pub(super) fn sequenced(ctx: &Context<'_>, statement: &Statement, with: &WithClause, main: &NodeEnum) -> Result<Plan> {
    let mut parts = parts(with, main)?;
    link(&mut parts, with.recursive)?;
    let order = super::order::order(ctx, &parts)?;
    let mut planner = Planner { ctx, parts: &parts, written: HashSet::new(), nodes: BTreeSet::from([ctx.home()]) };
    let steps = order.iter().map(|number| planner.step(*number)).collect::<Result<Vec<_>>>()?;
    let mut written: Vec<String> = Vec::new();
    for target in parts.iter().filter_map(|part| target_of(&part.query)) {
        match ctx.resolve(target)? {
            Named::Distributed(relation) => written.push(relation.qualified_name()),
            Named::View(view) => {
                return Err(PgError::unsupported(format!("a change of view \"{}\" beside others in WITH", view.name))
                    .hint("Change the table under the view."));
            }
            Named::Home(_) => {}
        }
    }
    written.sort_unstable();
    written.dedup();
    Ok(Plan::SequencedCtes(Box::new(SequencedCtes {
        node: ctx.home(),
        original: statement.sql.to_string(),
        steps,
        written,
        nodes: planner.nodes.into_iter().collect(),
        copies: None,
    })))
}

/// All parts, the main statement last. A query that one part reads goes into that part's own WITH.
fn parts(with: &WithClause, main: &NodeEnum) -> Result<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    let mut queries: Vec<Option<&Node>> = Vec::new();
    for (item, node) in with_items(Some(with)).zip(&with.ctes) {
        let Some(query) = query_of(item) else { return Err(PgError::internal("a WITH item without a query")) };
        queries.push((!changes(item)).then_some(node));
        let (name, columns) = (Some(item.ctename.clone()), item.aliascolnames.clone());
        parts.push(Part { name, columns, query: query.clone(), reads: Vec::new() });
    }
    parts.push(Part { name: None, columns: Vec::new(), query: main.clone(), reads: Vec::new() });
    queries.push(None);
    for number in (0..queries.len()).rev() {
        let Some(item) = queries[number] else { continue };
        let name = parts[number].name.clone().unwrap_or_default();
        let mut readers = Vec::new();
        for (other, part) in parts.iter().enumerate() {
            if other != number && (other > number || with.recursive) && bare_names(&part.query)?.contains(&name) {
                readers.push(other);
            }
        }
        match readers.as_slice() {
            [] => {}
            [reader] => own_item(&mut parts[*reader].query, item, with.recursive),
            _ => {
                parts[number].query = whole(item, &name, with.recursive);
                continue;
            }
        }
        parts.remove(number);
        queries.remove(number);
    }
    Ok(parts)
}

fn own_item(query: &mut NodeEnum, item: &Node, recursive: bool) {
    if let Some(with) = with_mut(query) {
        let with = with.get_or_insert_with(WithClause::default);
        with.ctes.insert(0, item.clone());
        with.recursive |= recursive;
    }
}

/// `WITH item SELECT * FROM item`.
fn whole(item: &Node, name: &str, recursive: bool) -> NodeEnum {
    SelectStmt {
        target_list: vec![tree::target(tree::star(None), None)],
        from_clause: vec![tree::node(NodeEnum::RangeVar(tree::table("", name, None)))],
        with_clause: Some(WithClause { ctes: vec![item.clone()], recursive, location: -1 }),
        ..tree::empty_select()
    }
    .into_tree()
}

/// The temp table with a part's rows.
fn table(number: usize) -> String {
    format!("loxo_w{}", number + 1)
}

/// Notes which item reads which, and lets the readers read temp tables.
fn link(parts: &mut [Part], recursive: bool) -> Result<()> {
    let names: Vec<Option<String>> = parts.iter().map(|part| part.name.clone()).collect();
    for (number, part) in parts.iter_mut().enumerate() {
        let own = own_items(&part.query);
        let visible: HashMap<&str, usize> = names
            .iter()
            .enumerate()
            .filter(|(other, _)| *other < number || (recursive && *other != number))
            .filter_map(|(other, name)| Some((name.as_deref()?, other)))
            .filter(|(name, _)| !own.contains(*name))
            .collect();
        let mut reads = BTreeSet::new();
        part.query.change_tables(|name| {
            if let Some(read) = visible.get(name.relname.as_str()).filter(|_| name.schemaname.is_empty()) {
                *name = select::in_place_of(name, &table(*read));
                reads.insert(*read);
            }
            Ok(())
        })?;
        part.reads = reads.into_iter().collect();
    }
    Ok(())
}

fn own_items(query: &NodeEnum) -> HashSet<String> {
    with_items(super::with_of(query)).map(|item| item.ctename.clone()).collect()
}

struct Planner<'a> {
    ctx: &'a Context<'a>,
    parts: &'a [Part],
    /// What the steps so far have changed.
    written: HashSet<String>,
    /// All nodes whose rows are read or changed.
    nodes: BTreeSet<NodeId>,
}

impl Planner<'_> {
    fn step(&mut self, number: usize) -> Result<CteStep> {
        let part = &self.parts[number];
        let copies = self.needs_copies(part)?;
        let prefix = format!("{}_", table(number));
        let session =
            SessionFacts { in_transaction: true, exchanges: Exchanges::No, describe: None, ..self.ctx.session.clone() };
        let ctx = Context { session: &session, copies: copies.then_some(prefix.as_str()), ..*self.ctx };
        let statement = statement_of(&part.query)?;
        let is_read = self.parts.iter().any(|other| other.reads.contains(&number));
        let keep = is_read.then(|| Kept {
            table: table(number),
            columns: tree::names_of(&part.columns),
            sql: statement.sql.to_string(),
        });
        let plan = match (&part.query, copies || keep.is_some()) {
            (NodeEnum::SelectStmt(_), true) => self.query(&ctx, &part.query)?,
            _ => ctx.planner.plan_part(&ctx, &statement)?,
        };
        if let Some(target) = target_of(&part.query) {
            self.written.insert(identity(self.ctx, target)?);
        }
        Ok(CteStep { plan, copies, keep, returns: !returned_by(&part.query).is_empty(), is_main: part.name.is_none() })
    }

    /// A query that ends on the home node, whatever it reads.
    fn query(&self, ctx: &Context<'_>, query: &NodeEnum) -> Result<Plan> {
        let (inputs, final_sql) = select::source(ctx, query)?;
        let writes = facts(ctx, query)?.writes;
        Ok(Plan::Gather(Gather { writes, ..Gather::new(ctx.home(), inputs, final_sql) }))
    }

    /// Does the part read other parts' rows, or what an earlier one has changed?
    fn needs_copies(&mut self, part: &Part) -> Result<bool> {
        let target = target_of(&part.query);
        let reads_target = match &part.query {
            NodeEnum::InsertStmt(insert) => {
                insert.on_conflict_clause.as_ref().is_some_and(|one| one.action() == OnConflictAction::OnconflictUpdate)
            }
            _ => true,
        };
        let own = own_items(&part.query);
        let (mut stale, mut home) = (None, false);
        let (ctx, written, nodes) = (self.ctx, &self.written, &mut self.nodes);
        part.query.walk(&mut |node| {
            let Ref::RangeVar(name) = node else { return Ok(true) };
            if name.schemaname.is_empty() && own.contains(&name.relname) {
                return Ok(true);
            }
            let named = ctx.resolve(name)?;
            if let Named::Distributed(relation) = &named {
                nodes.extend(relation.distribution.nodes());
            }
            let is_target = target.is_some_and(|target| std::ptr::eq(target, name));
            if (!is_target || reads_target) && written.contains(&identity(ctx, name)?) {
                stale = Some(name.relname.clone());
                home |= matches!(named, Named::Home(_));
            }
            Ok(true)
        })?;
        let Some(stale) = stale else { return self.check_function(part).map(|()| self.reads_parts(part)) };
        let refuse = |why: String| {
            Err(PgError::unsupported("this data-modifying WITH over several nodes")
                .detail(why)
                .hint("Run the data changes one by one, in one transaction."))
        };
        if home {
            return refuse(format!("One part changes the temporary table \"{stale}\", which another reads."));
        }
        if matches!(part.query, NodeEnum::InsertStmt(_)) && reads_target {
            return refuse(format!("ON CONFLICT would meet what another part does to table \"{stale}\"."));
        }
        self.check_function(part)?;
        Ok(true)
    }

    /// A temporary table is changed where all that is read lies already.
    fn reads_parts(&self, part: &Part) -> bool {
        let changes_home = target_of(&part.query).is_some_and(|target| {
            !matches!(part.query, NodeEnum::InsertStmt(_)) && matches!(self.ctx.resolve(target), Ok(Named::Home(_)))
        });
        !part.reads.is_empty() && !changes_home
    }

    /// What a function reads is not seen here.
    fn check_function(&self, part: &Part) -> Result<()> {
        if self.written.is_empty() {
            return Ok(());
        }
        if code::policies_read(self.ctx, &part.query)? {
            return Err(PgError::unsupported("a policy that reads tables beside data changes in WITH")
                .hint("Run the data changes one by one, in one transaction."));
        }
        if facts(self.ctx, &part.query)?.function_nodes.is_none() {
            return Ok(());
        }
        Err(PgError::unsupported("a function that reads tables beside data changes in WITH")
            .hint("Put the function's query into the statement itself."))
    }
}
