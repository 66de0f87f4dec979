//! Views in a query whose rows have to be moved.
//!
//! A view whose rows each node can work out from its own rows is read as if it were a table: fragments name the view itself. So
//! the nodes check its owner's rights, apply the policies that are for the owner, and show rows that the view hides to no function
//! of the reader's. Other views are replaced by their definitions.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::{Distribution, KeyColumn, Oid, Persistence, Relation, RelationKind};
use pg_query::protobuf::{Alias, FuncCall, LimitOption, RangeVar, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result, SqlState};

use crate::context::{Context, Named};
use crate::ddl;
use crate::facts::clock;
use crate::facts::code;
use crate::facts::functions;
use crate::first_copy;
use crate::parse::{Statement, StatementKind};
use crate::plan::Plan;
use crate::rewrite::inline;
use crate::rewrite::owner_reads::Lending;
use crate::select::locality::{Analyzer, Env, RowDistribution, Split};
use crate::session::Exchanges;
use crate::tree::{self, Ask, Get, Ref, Walk};

/// PostgreSQL has no limit of its own but its stack; nobody stacks views this deep.
const VIEW_DEPTH_MAX: usize = 32;

/// Which views.
pub(crate) type Which = fn(&Relation) -> bool;

/// `RangeVar::relpersistence` of a view that is read as a table. No SQL text says it, so it lasts as long as the tree.
const AS_TABLE: &str = "v";

/// `RangeVar::relpersistence` of a name that a WITH clause of the view's definition gives: no table or view bears it there, whatever the
/// search path finds. PostgreSQL writes the schema before every name that could be confused with one of these.
const WITH_ITEM: &str = "w";

/// Does the definition of a view mean an item of its own WITH clause by this name?
pub(crate) fn is_with_item(name: &RangeVar) -> bool {
    name.relpersistence == WITH_ITEM
}

/// Is the view of this name read as a table?
pub(crate) fn is_read_as_table(name: &RangeVar) -> bool {
    name.relpersistence == AS_TABLE
}

/// The view as a table: no node shows a row that another one shows, or all show the same.
pub(crate) fn as_table(ctx: &Context<'_>, view: &Relation) -> Option<Arc<Relation>> {
    ctx.catalog.shown(view.oid, || {
        let ctx = &Context { on_first: None, ..ctx.of_body() };
        distribution(ctx, view).ok().flatten().map(|distribution| {
            Arc::new(Relation { distribution, is_barrier: false, rows: rows(ctx, view), ..view.clone() })
        })
    })
}

/// Where the rows of a view are, if each node can show its part of them and it makes no difference which node evaluates what.
fn distribution(ctx: &Context<'_>, view: &Relation) -> Result<Option<Distribution>> {
    let mut body = definition(view)?;
    expand_in(ctx, &mut body, |_| true, false)?;
    let facts = functions::facts(ctx, &body)?;
    let is_alike = facts.home.is_none() && facts.volatile.is_none() && facts.clock.is_none() && !facts.writes;
    let is_own = facts.function_nodes.is_none() && facts.reads.is_none() && facts.reads_part.is_none();
    let is_plain = facts.system_column.is_none() && !facts.names_table && !facts.bare_tableoid && !facts.sizes;
    if !is_alike || !is_own || !is_plain || facts.sample || facts.locking || facts.refused.is_some() {
        return Ok(None);
    }
    let Ok(block) = Analyzer::new(ctx).block(&body, &Env::default()) else { return Ok(None) };
    Ok(match block.part {
        RowDistribution::Any | RowDistribution::Home => None,
        RowDistribution::Replicated(nodes) => Some(Distribution::Replicated { nodes }),
        RowDistribution::Partitioned(split) => {
            let by_key = ctx.tables(&body)?.iter().find_map(|table| keyed(view, table, &split));
            Some(by_key.unwrap_or_else(|| Distribution::RoundRobin { nodes: split.nodes.clone() }))
        }
    })
}

/// The view's rows are placed as those of a table under it.
fn keyed(view: &Relation, table: &Relation, split: &Split) -> Option<Distribution> {
    let columns: Option<Vec<KeyColumn>> = (0..table.distribution.key().len())
        .map(|at| {
            let key = table.distribution.key()[at];
            let column = split.output_key(at).and_then(|position| view.columns.get(position))?;
            let is_same = table.column_at(key.number).is_some_and(|of| of.type_oid == column.type_oid);
            is_same.then_some(KeyColumn { number: column.number, ..key })
        })
        .collect();
    let columns = columns.filter(|_| split.is_in_space_of(&table.distribution))?;
    match &table.distribution {
        Distribution::Hash { map_id, map, .. } => {
            Some(Distribution::Hash { columns, map_id: *map_id, map: map.clone() })
        }
        Distribution::Modulo { map_id, map, .. } => {
            Some(Distribution::Modulo { column: *columns.first()?, map_id: *map_id, map: map.clone() })
        }
        _ => None,
    }
}

/// An estimate.
fn rows(ctx: &Context<'_>, view: &Relation) -> f64 {
    let Ok(mut body) = definition(view) else { return 0.0 };
    let tables = expand_in(ctx, &mut body, |_| true, false).and_then(|()| ctx.tables(&body)).unwrap_or_default();
    tables.iter().map(|table| table.rows).fold(0.0, f64::max)
}

/// Views of a statement that a plan which moves their rows replaces by their definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Expanded {
    /// Those that the statement itself reads: the user needs the right to.
    pub read: Vec<(String, Oid)>,
    /// Who owns them.
    pub owners: Vec<String>,
    /// There are views under them, on which their owners need rights.
    pub nested: bool,
    /// What they read with their owners' rights, and the plan with the user's.
    pub tables: Vec<ReadAs>,
    /// The query or change that names them: the statement, or what is in it, with the bodies of functions that the plan puts in.
    pub sql: String,
}

/// A table under a view.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ReadAs {
    pub view: String,
    /// The view of the statement that it is under; none if the statement changes rows by way of that.
    pub under: Option<Oid>,
    pub owner: String,
    pub table: Oid,
    /// Policies say which rows are there.
    pub has_policies: bool,
}

/// See [`Expanded`].
pub(crate) fn expanded(ctx: &Context<'_>, plan: &Plan, statement: &Statement) -> Result<Expanded> {
    let mut found = Expanded::default();
    let Some(statement) = rows_of(ctx, statement)? else { return Ok(found) };
    let moves_rows = match plan {
        Plan::Ddl(ddl) => ddl.fills_by.is_some() && crate::plan_as_it_stands(ctx, &statement)?.facts().moves_rows,
        plan => plan.facts().moves_rows,
    };
    if !moves_rows {
        return Ok(found);
    }
    let statement = inline::inline(ctx, &statement)?.map_or(statement, Cow::Owned);
    let Some(tree) = statement.node() else { return Ok(found) };
    found.sql = statement.sql.to_string();
    let on_first = first_copy::may_be_taken(ctx, &statement)?;
    let ctx = &Context { on_first: Some(&on_first), ..*ctx };
    let as_tables = reads_as_tables(tree)?;
    let (mut targets, mut filled): (Vec<*const RangeVar>, Vec<*const RangeVar>) = (Vec::new(), Vec::new());
    tree.each(|node| {
        targets.extend(code::changed(node).map(|name| name as *const RangeVar));
        // Nothing is read there, and the right to insert is lent.
        if let Ref::InsertStmt(insert) = node
            && insert.returning_clause.is_none()
            && insert.on_conflict_clause.is_none()
        {
            filled.extend(insert.relation.as_ref().map(|name| name as *const RangeVar));
        }
    })?;
    let mut views = Vec::new();
    tree.walk(&mut |node| {
        if let Ref::RangeVar(name) = node
            && let Named::View(view) = ctx.resolve(name)?
        {
            let is_target = targets.contains(&(name as *const RangeVar));
            let is_filled = filled.contains(&(name as *const RangeVar));
            if !is_filled && (is_target || !(as_tables && reads_as_table(ctx, &view)?)) {
                views.push((view, is_target));
            }
        }
        Ok(true)
    })?;
    let read = views.iter().filter(|(view, is_target)| !is_target && !is_temporary(view));
    found.read = read.map(|(view, _)| (view.name.clone(), view.oid)).collect();
    for (view, is_target) in views {
        let under = (!is_target).then_some(view.oid);
        add_tables(&ctx.of_body(), &view, under, (as_tables, 0), &mut found)?;
    }
    Ok(found)
}

/// The query or change whose rows a statement is about.
fn rows_of<'s>(ctx: &Context<'_>, statement: &'s Statement) -> Result<Option<Cow<'s, Statement>>> {
    let built = |query: NodeEnum| crate::parse::build(&tree::deparse(&query)?, query).map(Cow::Owned);
    if let Some(inner) = statement.inner() {
        return rows_of(ctx, inner);
    }
    match (&statement.kind, statement.node()) {
        (StatementKind::CreateTableAs, Some(node)) => {
            let query = ddl::normal_form(node)?.query.and_then(|query| query.node);
            query.map(built).transpose()
        }
        (StatementKind::RefreshMaterializedView, Some(NodeEnum::RefreshMatViewStmt(refresh))) => {
            ddl::refreshed_query(ctx, refresh)?.map(built).transpose()
        }
        (kind, _) => Ok(kind.row_command().map(|_| Cow::Borrowed(statement))),
    }
}

fn add_tables(
    ctx: &Context<'_>,
    view: &Relation,
    under: Option<Oid>,
    (as_tables, depth): (bool, usize),
    found: &mut Expanded,
) -> Result<()> {
    let body = definition(view)?;
    found.nested |= depth > 0;
    let mut read = ctx.tables(&body)?;
    let mut inner = Vec::new();
    for name in body.tables()? {
        if let Named::View(view) = ctx.resolve(name)? {
            let is_table = as_tables && reads_as_table(ctx, &view)?;
            if is_table { read.push(view) } else { inner.push(view) }
        }
    }
    if let Some(owner) = ctx.catalog.view_owner(view.oid) {
        if !found.owners.iter().any(|known| known == owner) {
            found.owners.push(owner.to_owned());
        }
        found.tables.extend(read.into_iter().map(|table| ReadAs {
            view: view.name.clone(),
            under,
            owner: owner.to_owned(),
            table: table.oid,
            has_policies: table.is_barrier && table.kind != RelationKind::View,
        }));
    }
    let mut deeper = inner.iter().filter(|_| depth < VIEW_DEPTH_MAX);
    deeper.try_for_each(|view| add_tables(ctx, view, under, (as_tables, depth + 1), found))
}

/// May this view of the statement be read as a table? Not if the sessions that exchange rows do not see what became of its tables,
/// nor if one of these is to be taken as another than the nodes have it.
pub(crate) fn reads_as_table(ctx: &Context<'_>, view: &Relation) -> Result<bool> {
    let changed = match ctx.session.exchanges {
        Exchanges::SeeingBut(changed) | Exchanges::SeeingNot(changed) => changed,
        Exchanges::No | Exchanges::Seeing => &[],
    };
    if is_temporary(view) || as_table(ctx, view).is_none() {
        return Ok(false);
    }
    let on_first = ctx.on_first.unwrap_or_default();
    if changed.is_empty() && on_first.is_empty() {
        return Ok(true);
    }
    let mut body = definition(view)?;
    expand_in(&ctx.of_body(), &mut body, |_| true, false)?;
    for table in ctx.of_body().tables(&body)? {
        let is_one = |of: &Relation| {
            on_first.contains(&of.oid) || changed.iter().any(|other| other.schema == of.schema && other.name == of.name)
        };
        if ctx.family(&table).iter().any(|of| is_one(of)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// May views of this statement be read as tables? Not where rows are locked: it is the tables' rows that are.
pub(crate) fn reads_as_tables(statement: &NodeEnum) -> Result<bool> {
    Ok(!statement.any(|node| matches!(node, Ref::LockingClause(_)))?)
}

/// The statement with all user views expanded, if there are any.
pub(crate) fn expand(ctx: &Context<'_>, statement: &NodeEnum) -> Result<Option<NodeEnum>> {
    expand_some(ctx, statement, |_| true)
}

/// The same for the session's temporary views, of which no other node than the home node knows.
pub(crate) fn without_temporary(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Statement>> {
    let is_concerned = statement.kind.row_command().is_some() && !ctx.session.temp_views.is_empty();
    let Some(tree) = statement.node().filter(|_| is_concerned) else { return Ok(None) };
    match expand_some(ctx, tree, is_temporary)? {
        Some(tree) => crate::parse::build(&tree::deparse(&tree)?, tree).map(Some),
        None => Ok(None),
    }
}

pub(crate) fn is_temporary(view: &Relation) -> bool {
    view.persistence == Persistence::Temporary
}

/// Does a temporary view show rows of tables that other nodes have too, or call functions that may read such tables?
pub(crate) fn needs_others(ctx: &Context<'_>, view: &Relation) -> Result<bool> {
    definition(view)?.try_any(|node| match node {
        Ref::RangeVar(name) => Ok(!matches!(ctx.resolve(name)?, Named::Home(_))),
        Ref::FuncCall(call) => calls_reader(ctx, call),
        _ => Ok(false),
    })
}

fn calls_reader(ctx: &Context<'_>, call: &FuncCall) -> Result<bool> {
    for function in ctx.user_functions(call) {
        let facts = functions::function_facts(ctx, function)?;
        if facts.reads.is_some() || facts.reads_part.is_some() || facts.writes || facts.refused.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn expand_some(ctx: &Context<'_>, statement: &NodeEnum, which: Which) -> Result<Option<NodeEnum>> {
    if !ctx.names(statement, |named| matches!(named, Named::View(view) if which(view)))? {
        return Ok(None);
    }
    let mut expanded = statement.clone();
    let as_tables = reads_as_tables(statement)?;
    expand_in(ctx, &mut expanded, which, as_tables)?;
    Ok(Some(expanded))
}

/// Puts definitions in the place of views.
pub(crate) struct Expander<'a> {
    pub(crate) ctx: &'a Context<'a>,
    pub(crate) which: Which,
    /// Views may be read as tables.
    pub(crate) as_tables: bool,
    /// The tables under views are read with their owners' rights.
    pub(crate) lending: Option<Lending>,
}

impl Expander<'_> {
    pub(crate) fn expand(&mut self, tree: &mut impl Walk, depth: usize) -> Result<()> {
        if depth > VIEW_DEPTH_MAX {
            return Err(PgError::unsupported(format!("a view nested more than {VIEW_DEPTH_MAX} deep"))
                .hint("Use the tables in the query itself."));
        }
        let ctx = self.ctx;
        // A name that a WITH clause defines is not a view; hiding one by the other is rare enough to be refused.
        let ctes = tree.with_names()?;
        tree.rewrite(&mut |node: &mut Node| {
            let Some(name) = node.get_mut::<RangeVar>() else { return Ok(true) };
            if name.schemaname.is_empty() && ctes.contains(&name.relname) {
                return Ok(false);
            }
            let Named::View(view) = ctx.resolve(name)? else { return Ok(false) };
            if !(self.which)(&view) {
                return Ok(false);
            }
            if self.as_tables && reads_as_table(ctx, &view)? {
                name.relpersistence = AS_TABLE.to_owned();
                return Ok(false);
            }
            let mut body = definition(&view)?;
            if let Some(now) = ctx.session.now {
                clock::replace(&mut body, now)?;
            }
            if let (Some(lending), Some(owner)) = (&mut self.lending, ctx.catalog.view_owner(view.oid)) {
                lending.lend(ctx, owner, &mut body)?;
            }
            self.expand(&mut body, depth + 1)?;
            let alias = name.alias.clone();
            if view.is_barrier && self.as_tables {
                keep_barrier(&mut body)?;
            }
            *node = in_place_of(&view, alias, body);
            Ok(false)
        })
    }
}

fn expand_in(ctx: &Context<'_>, tree: &mut impl Walk, which: Which, as_tables: bool) -> Result<()> {
    Expander { ctx, which, as_tables, lending: None }.expand(tree, 0)
}

/// A query where a view was named.
pub(crate) fn in_place_of(view: &Relation, alias: Option<Alias>, query: SelectStmt) -> Node {
    tree::sub_select(query, view_alias(view, alias))
}

/// PostgreSQL evaluates no condition from outside below OFFSET.
fn keep_barrier(select: &mut SelectStmt) -> Result<()> {
    if select.limit_offset.is_none() {
        select.limit_offset = Some(Box::new(tree::parse_expression("0")?));
        select.limit_option = LimitOption::Count as i32;
    }
    Ok(())
}

pub(crate) fn definition(view: &Relation) -> Result<SelectStmt> {
    let mut select = printed(view)?;
    let items = select.with_names()?;
    if !items.is_empty() {
        select.rewrite(&mut |node: &mut Node| {
            if let Some(name) = node.get_mut::<RangeVar>()
                && name.schemaname.is_empty()
                && items.contains(&name.relname)
            {
                name.relpersistence = WITH_ITEM.to_owned();
            }
            Ok(true)
        })?;
    }
    Ok(select)
}

fn printed(view: &Relation) -> Result<SelectStmt> {
    let text = view.view_definition.as_deref().unwrap_or_default();
    let unreadable = |error: PgError| {
        PgError::unsupported(format!(
            "view \"{}\", which PostgreSQL prints in words that it does not read itself,",
            view.name
        ))
        .detail(error.message())
        .hint("The marks of CYCLE can be text, numbers and booleans.")
    };
    tree::parse_select(text.trim_end().trim_end_matches(';')).map_err(|error| match error.code() {
        SqlState::INTERNAL_ERROR => unreadable(error),
        _ => error,
    })
}

/// The user's alias, or the view's name; the view's own column names where the user gives none.
fn view_alias(view: &Relation, alias: Option<Alias>) -> Alias {
    let mut alias = alias.unwrap_or_else(|| tree::alias(&view.name));
    let given = alias.colnames.len();
    alias.colnames.extend(view.columns.iter().skip(given).map(|c| tree::string(&c.name)));
    alias
}
