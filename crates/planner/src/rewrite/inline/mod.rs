//! Functions that read partitioned tables, put into the statement that calls them.
//!
//! A node that ran such a function would see its own rows only. If its body is one query, in SQL or (see [`one_query`]) no more than that in
//! PL/pgSQL, a call is that query as a sub-select, in which the arguments stand for the parameters, and the sub-select is planned like any other:
//!
//! ```text
//! f(5)        → CAST((SELECT … WHERE k = CAST(5 AS int) LIMIT 1) AS text)
//! f(t.k)      → CAST((SELECT (SELECT … WHERE k = loxo_f1.p1 LIMIT 1) FROM (SELECT CAST(t.k AS int) AS p1) AS loxo_f1) AS text)
//! FROM g(5)   → FROM (SELECT CAST(c1 AS int) AS a FROM (SELECT …) AS loxo_f1 (c1)) AS g
//! ```
//!
//! The body is what PostgreSQL's analysis makes of it ([`body`]); without that a function is left alone.
//!
//! What is left alone is run by the coordinator if it is called once (see [`routine`](crate::rewrite::routine)), or refused, with the reason. A
//! VOLATILE function sees what the very statement that calls it has changed so far, which no sub-select does: it is put into queries only.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::{Function, Relation};
use pg_query::protobuf::{Alias, FuncCall, RangeFunction, RangeVar, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

mod body;
mod one_query;
mod unread;

pub use body::WantedBody;
pub(crate) use body::wanted_bodies;
use body::{Routine, first_row};

use crate::context::{Context, Named};
use crate::facts::{clock, functions};
use crate::parse::Statement;
use crate::rewrite::per_row::{called, sees_changes, writers};
use crate::select::shape::{self, gives_set};
use crate::tree::{self, Ask, Ref, Syntax, Walk};
use crate::views;

/// Functions may call functions, but not for ever.
const DEPTH_MAX: usize = 16;

/// The statement with such functions' bodies in it, if there are any, and perhaps with the definitions of views that call them.
pub(crate) fn inline(ctx: &Context<'_>, statement: &Statement, opens_views: bool) -> Result<Option<Statement>> {
    let Some(original) = statement.node() else { return Ok(None) };
    if !tree::is_about_rows(original) || !calls_any(ctx, original, opens_views)? {
        return Ok(None);
    }
    let changes = !matches!(original, NodeEnum::SelectStmt(_)) || crate::with::changes_rows(statement);
    let writers = writers(ctx, called(ctx, original)?)?;
    let mut inliner = Inliner { ctx, changes, writers, opens_views, count: 0, made: HashMap::new() };
    let mut tree = original.clone();
    let mut leaves_out = false;
    for _ in 0..DEPTH_MAX {
        leaves_out |= unread::take_out(ctx, &mut tree)?;
        if !inliner.pass(&mut tree)? {
            break;
        }
    }
    if let Some(now) = ctx.session.now.filter(|_| inliner.count > 0) {
        clock::replace(&mut tree, now)?;
    }
    match inliner.count {
        0 if !leaves_out => Ok(None),
        _ => crate::parse::build(&tree::deparse(&tree)?, tree).map(Some),
    }
}

/// Is there a call of a function that has to be put into the statement, or a view with one?
pub(crate) fn calls_any(ctx: &Context<'_>, tree: &impl Walk, in_views: bool) -> Result<bool> {
    tree.try_any(|node| match node {
        Ref::FuncCall(call) => Ok(function(ctx, call)?.is_some()),
        Ref::RangeVar(name) if in_views => Ok(calling_view(ctx, name)?.is_some()),
        _ => Ok(false),
    })
}

/// The view that a name means, if it calls such a function: no node can read it as it stands. A bare name is that of no such view.
pub(crate) fn calling_view(ctx: &Context<'_>, name: &RangeVar) -> Result<Option<Arc<Relation>>> {
    match ctx.resolve(name)? {
        Named::View(view) if !name.schemaname.is_empty() && calls_any(ctx, &views::whole(ctx, &view)?, false)? => {
            Ok(Some(view))
        }
        _ => Ok(None),
    }
}

/// The one function or procedure of that name that takes so many arguments, if its body can be read and the nodes cannot run it.
pub(crate) fn function<'a>(ctx: &Context<'a>, call: &FuncCall) -> Result<Option<&'a Function>> {
    let is_seen =
        |f: &Function| ctx.analysis.is_some() || call.funcname.len() > 1 || ctx.session.search_path.contains(&f.schema);
    let all = ctx.user_functions(call);
    let seen: Vec<&Function> = all.iter().copied().filter(|f| is_seen(f)).collect();
    let function = match (all.as_slice(), seen.as_slice()) {
        ([function], _) | (_, [function]) => *function,
        _ => return Ok(None),
    };
    let is_read = ["sql", "plpgsql"].contains(&function.language.as_str()) && matches!(function.kind, 'f' | 'p');
    Ok(match is_read && functions::function_facts(ctx, function)?.refused.is_some() {
        true => Some(function),
        false => None,
    })
}

struct Inliner<'a> {
    ctx: &'a Context<'a>,
    /// The statement changes rows.
    changes: bool,
    /// What it calls that does.
    writers: Vec<&'a Function>,
    opens_views: bool,
    count: usize,
    /// What calls have become, by their texts: the same call in GROUP BY and in the select list must stay the same.
    made: HashMap<String, Node>,
}

impl Inliner<'_> {
    /// Replaces the calls that stand in the tree now. Were there any?
    fn pass(&mut self, tree: &mut NodeEnum) -> Result<bool> {
        tree.put(|node| match &node.node {
            Some(NodeEnum::FuncCall(call)) => self.value_of(call),
            Some(NodeEnum::RangeFunction(item)) => self.item(item),
            Some(NodeEnum::RangeVar(name)) if self.opens_views => self.view(name),
            _ => Ok(None),
        })
    }

    fn view(&mut self, name: &RangeVar) -> Result<Option<Node>> {
        let Some(view) = calling_view(self.ctx, name)? else { return Ok(None) };
        self.count += 1;
        views::in_place(&view, name.alias.clone()).map(Some)
    }

    fn routine(&self, call: &FuncCall) -> Result<Option<Routine>> {
        let plain = call.agg_order.is_empty()
            && call.agg_filter.is_none()
            && call.over.is_none()
            && !call.agg_distinct
            && !call.func_variadic;
        let Some(function) = function(self.ctx, call)?.filter(|_| plain) else { return Ok(None) };
        if function.volatility == 'v'
            && (self.changes
                || sees_changes(self.ctx, &self.writers, function)
                || functions::function_facts(self.ctx, function)?.differs_each_time())
        {
            return Ok(None);
        }
        Routine::of(self.ctx, function)
    }

    fn alias(&mut self) -> String {
        self.count += 1;
        format!("loxo_f{}", self.count)
    }

    /// [`Inliner::scalar`], once for each text of a call.
    fn value_of(&mut self, call: &FuncCall) -> Result<Option<Node>> {
        if function(self.ctx, call)?.is_none() {
            return Ok(None);
        }
        let text = tree::deparse_expression(&call.clone().into_node())?;
        if let Some(value) = self.made.get(&text) {
            self.count += 1;
            return Ok(Some(value.clone()));
        }
        let value = self.scalar(call)?;
        if let Some(value) = &value {
            self.made.insert(text, value.clone());
        }
        Ok(value)
    }

    /// A call that gives one value.
    fn scalar(&mut self, call: &FuncCall) -> Result<Option<Node>> {
        let Some(routine) = self.routine(call)? else { return Ok(None) };
        let declared = &routine.declared;
        if declared.set || declared.table.is_some() {
            return Ok(None);
        }
        let Some(arguments) = routine.arguments(call) else { return Ok(None) };
        if is_of_the_level(self.ctx, call)? {
            return Ok(None);
        }
        let Some(body) = first_row(self.ctx, routine.body.clone())? else { return Ok(None) };
        if arguments.iter().all(tree::is_constant) {
            if declared.strict && arguments.iter().any(|argument| !tree::is_known(argument)) {
                return Ok(None);
            }
            let body = routine.with(body, |at| arguments[at].clone())?;
            self.count += 1;
            return Ok(Some(tree::cast(tree::scalar_sub_select(body), &declared.returns)));
        }
        let alias = format!("loxo_f{}", self.count + 1);
        let parameter = |at: usize| tree::column(&[&alias, &parameter_name(at)]);
        let body = routine.with(body, parameter)?;
        let mut value = tree::scalar_sub_select(body);
        if declared.strict {
            value = tree::case_when(tree::all_known((0..arguments.len()).map(parameter).collect()), value, None);
        }
        let alias = self.alias();
        let from = vec![tree::sub_select(tree::one_row(arguments, parameter_name), tree::alias(&alias))];
        let query = tree::select_from(vec![tree::target(value, None)], from);
        // A bare sub-select after ANY would be one whose rows are compared.
        Ok(Some(tree::cast(tree::scalar_sub_select(query), &declared.returns)))
    }

    /// A call in FROM.
    fn item(&mut self, item: &RangeFunction) -> Result<Option<Node>> {
        let Some(call) = tree::bare_call(item) else { return Ok(None) };
        let Some(routine) = self.routine(call)? else { return Ok(None) };
        let declared = &routine.declared;
        let Some(arguments) = routine.arguments(call) else { return Ok(None) };
        // A STRICT function gives no row for a NULL, or one of NULLs, which no sub-select does.
        let may_be_null = declared.strict && !arguments.iter().all(tree::is_known);
        if may_be_null && !declared.set {
            return Ok(None);
        }
        let plain = !may_be_null && arguments.iter().all(tree::is_constant);
        let name = tree::last_name(&call.funcname).unwrap_or_default();
        let shown = item.alias.clone().unwrap_or_else(|| tree::alias(name));
        let body = if declared.set { Some(routine.body.clone()) } else { first_row(self.ctx, routine.body.clone())? };
        let Some(body) = body else { return Ok(None) };
        let columns = match &declared.table {
            Some(columns) => columns.clone(),
            None => vec![(shown.aliasname.clone(), declared.returns.clone())],
        };
        if columns.len() != body.target_list.len() || body.target_list.iter().any(tree::shows_star) {
            return Ok(None);
        }
        let given = format!("loxo_f{}", self.count + 1);
        let parameter = |at: usize| tree::column(&[&given, &parameter_name(at)]);
        let body = match plain {
            true => routine.with(body, |at| arguments[at].clone())?,
            false => routine.with(body, parameter)?,
        };
        let known = may_be_null.then(|| Box::new(tree::all_known((0..arguments.len()).map(parameter).collect())));
        let mut from = Vec::new();
        if !plain {
            from.push(tree::sub_select(tree::one_row(arguments, parameter_name), tree::alias(&self.alias())));
        }
        let alias = self.alias();
        let inner = |at: usize| format!("c{}", at + 1);
        let list = columns
            .iter()
            .enumerate()
            .map(|(at, (name, of))| tree::target(tree::cast(tree::column(&[&alias, &inner(at)]), of), Some(name)));
        let colnames = (0..columns.len()).map(|at| tree::string(&inner(at))).collect();
        from.push(tree::beside(!plain, body, Alias { aliasname: alias.clone(), colnames }));
        let outer =
            SelectStmt { target_list: list.collect(), from_clause: from, where_clause: known, ..tree::empty_select() };
        Ok(Some(tree::beside(!plain, outer, shown)))
    }
}

/// Is there something that means the level of the query where the call stands, and not a sub-select's FROM: a window function, an
/// aggregate of no column (`count(*)`), a set? What is VOLATILE and of no column would be evaluated once there, not for each row.
fn is_of_the_level(ctx: &Context<'_>, call: &FuncCall) -> Result<bool> {
    let mut found = false;
    call.args.walk(&mut |node| {
        if let Ref::FuncCall(call) = node {
            found |= call.over.is_some() || gives_set(ctx, call);
            found |= shape::is_aggregate(ctx, call) && !tree::has_column(call)?;
        }
        Ok(!found)
    })?;
    Ok(found || (!tree::has_column(&call.args)? && functions::facts(ctx, &call.args)?.differs_each_time()))
}

/// The name of an argument in the row of a call's arguments.
fn parameter_name(at: usize) -> String {
    format!("p{}", at + 1)
}
