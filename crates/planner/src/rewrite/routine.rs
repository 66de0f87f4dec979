//! Functions, procedures and blocks that the coordinator runs statement by statement, since no node has all rows that they read or write.
//!
//! What [`inline`] cannot make part of the statement is run before it, and the statement gets the values:
//!
//! ```text
//! SELECT f(5) + 1                → f(5);  SELECT CAST($1 AS int) + 1
//! SELECT * FROM g(5) AS x        → g(5);  SELECT * FROM (SELECT unnest(CAST($1 AS int[])), …) AS x (a, …)
//! ```
//!
//! That is right only for calls that PostgreSQL would make exactly once: in FROM at the top, or in the select list of a query
//! without FROM, with arguments that name no column. A call that is not VOLATILE may stand anywhere. All other calls are left to be refused.

use catalog::{Catalog, Function};
use pg_query::protobuf::{
    self, AIndirection, FuncCall, FunctionParameter, FunctionParameterMode, List, NamedArgExpr, RangeFunction,
    ResTarget, SelectStmt,
};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::Context;
use crate::facts::functions;
use crate::parse::{self, ExplainStatement, Statement, StatementKind};
use crate::plan::{Argument, Explain, Explained, Routine, RoutineCall, Wanted};
use crate::rewrite::returns::Shape;
use crate::rewrite::{inline, of_rows, per_row};
use crate::select::names::is_closed;
use crate::select::shape::{gives_set, is_aggregate, merges_sets};
use crate::tree::{self, Ask, Get, Ref, Syntax, Walk};

/// How a statement is run of which functions or a body have to be run by the coordinator. `None`: as any other.
pub(crate) fn plan(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Routine>> {
    match (&statement.kind, statement.node()) {
        (StatementKind::Do, Some(NodeEnum::DoStmt(block))) => do_block(ctx, statement, block),
        (StatementKind::Call, Some(NodeEnum::CallStmt(call))) => call_procedure(ctx, call),
        (StatementKind::Explain(explain), _) if explain.analyze => explained(ctx, explain),
        (StatementKind::DeclareCursor(declare), _) => Ok(of_rows::of_cursor(ctx, declare)?.map(Routine::Rows)),
        (StatementKind::Merge, Some(NodeEnum::MergeStmt(merge))) => per_row::of_merge(ctx, statement, merge),
        (StatementKind::Select | StatementKind::Insert | StatementKind::Update | StatementKind::Delete, Some(tree)) => {
            match calls_inside(ctx, statement, tree, false)? {
                Some(routine) => Ok(Some(routine)),
                None => match per_row::plan(ctx, statement) {
                    Ok(Some(routine)) => Ok(Some(routine)),
                    other => calls_inside(ctx, statement, tree, true)?.map_or(other, |routine| Ok(Some(routine))),
                },
            }
        }
        _ => Ok(of_rows::plan(ctx, statement)?.map(Routine::Rows)),
    }
}

/// `None`: the nodes tell what they did.
fn explained(ctx: &Context<'_>, explain: &ExplainStatement) -> Result<Option<Routine>> {
    if ctx.planner.plan_part(ctx, &explain.inner).is_ok() {
        return Ok(None);
    }
    let Some(plan) = ctx.planner.plan_in_steps(ctx, &explain.inner) else { return Ok(None) };
    let (options, statement) = (explain.options.clone(), explain.inner.clone());
    let explain = Explain { options, analyze: true, inner: Box::new(plan) };
    Ok(Some(Routine::Explained(Box::new(Explained { statement, explain }))))
}

fn do_block(ctx: &Context<'_>, statement: &Statement, block: &protobuf::DoStmt) -> Result<Option<Routine>> {
    let option = |name: &str| tree::option_of(&block.args, name).and_then(tree::text_of);
    if option("language").is_some_and(|language| language != "plpgsql") {
        return Ok(None);
    }
    let (Some(source), facts) = (option("as"), functions::body_facts(ctx, "plpgsql", &statement.sql)?) else {
        return Ok(None);
    };
    Ok(facts.refused.is_some().then(|| Routine::Block { source: source.to_owned() }))
}

fn call_procedure(ctx: &Context<'_>, call: &protobuf::CallStmt) -> Result<Option<Routine>> {
    let Some(function) = call.funccall.as_ref() else { return Ok(None) };
    let Some(procedure) = called(ctx, function, 'p')? else { return Ok(None) };
    let Some(arguments) = arguments(function)? else { return Ok(None) };
    Ok(Some(Routine::Call(RoutineCall {
        function: procedure.oid,
        name: procedure.name.clone(),
        is_volatile: procedure.volatility == 'v',
        is_bare: function.funcname.len() == 1,
        arguments,
        wanted: Wanted::Nothing,
    })))
}

/// For each OUT and INOUT parameter of the procedure that a CALL names, the bare name that is its argument; `None` for any other argument.
pub fn call_targets(sql: &str, catalog: &Catalog) -> Result<Vec<Option<Vec<String>>>> {
    let unknown = || PgError::unsupported("this CALL inside a function").hint("Name the procedure with its schema.");
    let parse = |text: &str| tree::parse_one(text).map_err(|error| PgError::internal(error.to_string()));
    let Some(NodeEnum::CallStmt(call)) = parse(sql)? else { return Err(unknown()) };
    let call = call.funccall.ok_or_else(unknown)?;
    let (schema, name) = tree::qualified(&call.funcname);
    let is_meant = |procedure: &&Function| schema.is_none_or(|schema| procedure.schema == schema);
    let meant: Vec<&Function> = catalog.functions(name).iter().filter(is_meant).collect();
    let [procedure] = meant.as_slice() else { return Err(unknown()) };
    let Some(NodeEnum::CreateFunctionStmt(create)) = parse(&procedure.definition)? else { return Err(unknown()) };
    let mut targets = Vec::new();
    for (at, parameter) in create.parameters.iter().enumerate() {
        let Some(parameter) = parameter.get::<FunctionParameter>() else { return Err(unknown()) };
        let named = call.args.iter().find_map(|arg| {
            arg.get::<NamedArgExpr>()
                .filter(|named| named.name == parameter.name)
                .and_then(|named| named.arg.as_deref())
        });
        let argument = named.or_else(|| call.args.get(at)).and_then(|node| node.node.as_ref());
        if matches!(parameter.mode(), FunctionParameterMode::FuncParamOut | FunctionParameterMode::FuncParamInout) {
            targets.push(match argument {
                Some(NodeEnum::ColumnRef(column)) => Some(tree::names_of(&column.fields)),
                _ => None,
            });
        }
    }
    Ok(targets)
}

/// The one routine of that name, if it has to be run by us.
fn called<'a>(ctx: &Context<'a>, call: &FuncCall, kind: char) -> Result<Option<&'a Function>> {
    Ok(of_coordinator(ctx, call)?.filter(|function| function.kind == kind))
}

/// Likewise, whatever its kind is.
fn of_coordinator<'a>(ctx: &Context<'a>, call: &FuncCall) -> Result<Option<&'a Function>> {
    match ctx.temporary_functions(call).as_slice() {
        [function] => Ok(is_temporary_of_coordinator(ctx, call, function)?.then_some(*function)),
        _ => inline::function(ctx, call),
    }
}

/// A function in `pg_temp` that its node cannot run. What its arguments give is not known if they call others there.
fn is_temporary_of_coordinator(ctx: &Context<'_>, call: &FuncCall, function: &Function) -> Result<bool> {
    let is_other = |node: Ref<'_>| matches!(node, Ref::FuncCall(call) if !ctx.temporary_functions(call).is_empty());
    let is_read = ["sql", "plpgsql"].contains(&function.language.as_str()) && matches!(function.kind, 'f' | 'p');
    Ok(is_read && !call.args.may_have(is_other) && functions::function_facts_at_home(ctx, function)?.refused.is_some())
}

/// `None` if the call is not a plain one.
fn arguments(call: &FuncCall) -> Result<Option<Vec<Argument>>> {
    let argument = |node: &Node| {
        Ok(match &node.node {
            Some(NodeEnum::NamedArgExpr(named)) => {
                let value = named.arg.as_deref().ok_or_else(|| PgError::internal("an argument without a value"))?;
                Argument { name: Some(named.name.clone()), sql: tree::deparse_expression(value)? }
            }
            _ => Argument { name: None, sql: tree::deparse_expression(node)? },
        })
    };
    match tree::is_plain_call(call) {
        true => call.args.iter().map(argument).collect::<Result<_>>().map(Some),
        false => Ok(None),
    }
}

fn calls_inside(ctx: &Context<'_>, statement: &Statement, tree: &NodeEnum, deep: bool) -> Result<Option<Routine>> {
    let before = count(ctx, tree)?;
    if before == 0 {
        return Ok(None);
    }
    let mut taker = Taker { ctx, calls: Vec::new(), functions: Vec::new(), parameters: statement.parameters, deep };
    let mut tree = tree.clone();
    match &mut tree {
        NodeEnum::SelectStmt(select) => taker.query(select)?,
        NodeEnum::InsertStmt(insert) => {
            if let Some(select) = insert.select_stmt.get_mut::<SelectStmt>() {
                taker.query(select)?;
            }
        }
        _ => {}
    }
    taker.anywhere(&mut tree)?;
    let are_taken = !taker.calls.is_empty() && count(ctx, &tree)? == 0;
    if !are_taken || !is_before_all_rows(ctx, &taker, &tree)? {
        return Ok(None);
    }
    let changes_it = match &tree {
        NodeEnum::InsertStmt(insert) => per_row::change_what_is_read(ctx, &taker.functions, &insert.select_stmt)?,
        _ => per_row::change_what_is_read(ctx, &taker.functions, &tree)?,
    };
    if changes_it || per_row::outdate(ctx, &taker.functions, &per_row::called(ctx, &tree)?)? {
        return Ok(None);
    }
    let rest = Statement { is_rewritten: statement.is_rewritten, ..parse::build(&tree::deparse(&tree)?, tree)? };
    Ok(Some(Routine::Inside { calls: taker.calls, rest: Box::new(rest) }))
}

/// Are the calls made before all rows? PostgreSQL inserts one of several VALUES rows before it makes the calls of the next.
fn is_before_all_rows(ctx: &Context<'_>, taker: &Taker<'_>, tree: &NodeEnum) -> Result<bool> {
    let NodeEnum::InsertStmt(insert) = tree else { return Ok(true) };
    let rows = insert.select_stmt.get::<SelectStmt>().map_or(0, |select| select.values_lists.len());
    match &insert.relation {
        Some(target) if rows > 1 => Ok(!per_row::may_touch(ctx, &taker.functions, target)?),
        _ => Ok(true),
    }
}

/// Calls that are ours to run.
fn count(ctx: &Context<'_>, tree: &NodeEnum) -> Result<usize> {
    let mut found = 0;
    for call in tree.calls()? {
        found += usize::from(of_coordinator(ctx, call)?.is_some());
    }
    Ok(found)
}

/// Puts parameters in place of calls.
struct Taker<'a> {
    ctx: &'a Context<'a>,
    calls: Vec<RoutineCall>,
    functions: Vec<&'a Function>,
    /// Parameters so far.
    parameters: usize,
    deep: bool,
}

impl<'a> Taker<'a> {
    /// Calls that a query makes once.
    fn query(&mut self, select: &mut SelectStmt) -> Result<()> {
        if tree::is_operation(select) || select.with_clause.is_some() || !tree::asks_for_rows(select) {
            return Ok(());
        }
        let is_row = select.from_clause.is_empty() && select.where_clause.is_none() && tree::is_unlimited(select);
        if is_row && !merges_sets(self.ctx, &select.target_list, false)? {
            for target in &mut select.target_list {
                tree::name_output(target);
                self.target(target)?;
            }
            for value in select.values_lists.iter_mut() {
                value.rewrite(&mut |node| self.plain(node))?;
            }
        }
        select.from_clause.iter_mut().try_for_each(|item| self.item(item))
    }

    /// An entry of a select list: the call may give a set.
    fn target(&mut self, target: &mut Node) -> Result<()> {
        let Some(target) = target.get_mut::<ResTarget>() else { return Ok(()) };
        let Some(value) = target.val.as_deref_mut() else { return Ok(()) };
        if let Some(call) = value.get::<FuncCall>()
            && let Some(taken) = self.take(call, true)?
        {
            *value = taken;
            return Ok(());
        }
        value.rewrite(&mut |node| self.plain(node))
    }

    /// Goes down only through what evaluates all of its parts, once.
    fn plain(&mut self, node: &mut Node) -> Result<bool> {
        match &node.node {
            Some(NodeEnum::FuncCall(call)) => {
                if let Some(taken) = self.take(call, false)? {
                    *node = taken;
                    return Ok(false);
                }
                Ok(true)
            }
            Some(NodeEnum::TypeCast(_) | NodeEnum::List(_) | NodeEnum::RowExpr(_) | NodeEnum::AArrayExpr(_)) => {
                Ok(true)
            }
            Some(NodeEnum::AExpr(e)) => Ok(e.kind == protobuf::AExprKind::AexprOp as i32),
            // `(f()).*` calls it once for each column.
            Some(NodeEnum::AIndirection(part)) => Ok(!self.is_of_record(part)?
                && !part.indirection.iter().any(|step| matches!(step.node, Some(NodeEnum::AStar(_))))),
            _ => Ok(false),
        }
    }

    /// An item of FROM, or a side of a join.
    fn item(&mut self, item: &mut Node) -> Result<()> {
        match &mut item.node {
            Some(NodeEnum::JoinExpr(join)) => {
                for side in [join.larg.as_deref_mut(), join.rarg.as_deref_mut()].into_iter().flatten() {
                    self.item(side)?;
                }
            }
            Some(NodeEnum::RangeFunction(function)) => match self.from(function)? {
                Some(taken) => *item = taken,
                None => self.rows_from(function)?,
            },
            Some(NodeEnum::RangeSubselect(part)) if self.deep && !part.lateral => {
                part.subquery.get_mut::<SelectStmt>().map_or(Ok(()), |query| self.query(query))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn from(&mut self, item: &RangeFunction) -> Result<Option<Node>> {
        let Some(call) = tree::bare_call(item) else { return Ok(None) };
        let Some((function, result)) = self.ours(call)? else { return Ok(None) };
        let function_name = tree::last_name(&call.funcname).unwrap_or_default();
        let alias = item.alias.clone().unwrap_or_else(|| tree::alias(function_name));
        let types = result.columns();
        let Some(at) = self.add(function, call, result.wanted(types.len()))? else { return Ok(None) };
        let values = types.iter().enumerate().map(|(nth, of)| result.value(at + nth, of));
        if let Some(row) = result.returns.as_ref().filter(|_| result.is_row(self.ctx)) {
            let rows = tree::call_in_from(result.rows(at, row), alias);
            return Ok(Some(RangeFunction { lateral: item.lateral, ..rows }.into_node()));
        }
        let target_list = values.map(|value| tree::target(value, None)).collect();
        let names = match &result.outs[..] {
            [] => vec![alias.aliasname.clone()],
            outs => outs.iter().map(|(name, _)| name.clone()).collect(),
        };
        let query = SelectStmt { target_list, ..tree::empty_select() };
        Ok(Some(tree::sub_select(query, tree::alias_of_columns(alias, names.iter()))))
    }

    /// An item of several functions, or with numbers of its rows. What cannot be taken as a whole stays as it is.
    fn rows_from(&mut self, item: &mut RangeFunction) -> Result<()> {
        let (calls, functions, parameters) = (self.calls.len(), self.functions.len(), self.parameters);
        match self.each_taken(item.clone())? {
            Some(taken) => *item = taken,
            None => {
                self.calls.truncate(calls);
                self.functions.truncate(functions);
                self.parameters = parameters;
            }
        }
        Ok(())
    }

    /// PostgreSQL prints the names of all of its columns. Of functions that the nodes run the arguments may be calls; one that names
    /// columns is called for each row. `None` if one of our calls cannot be taken.
    fn each_taken(&mut self, mut item: RangeFunction) -> Result<Option<RangeFunction>> {
        let has_names = item.alias.as_ref().is_some_and(|alias| !alias.colnames.is_empty());
        let mut functions = Vec::new();
        for mut part in std::mem::take(&mut item.functions) {
            let call = part.get_mut::<List>().and_then(|list| list.items.first_mut()?.get_mut::<FuncCall>());
            let ours = call.as_deref().map_or(Ok(None), |call| self.ours(call))?;
            match (call, ours) {
                (Some(call), Some((function, result))) if has_names && !result.is_void => {
                    let types = result.columns();
                    let unnests = result.is_row(self.ctx) || result.unnests(self.ctx, true);
                    let at = if unnests { self.add(function, call, result.wanted(types.len()))? } else { None };
                    let Some(at) = at else { return Ok(None) };
                    item.is_rowsfrom = true;
                    let rows = types.iter().enumerate().map(|(nth, of)| result.rows(at + nth, of));
                    functions.extend(rows.flat_map(|rows| tree::call_in_from(rows, tree::alias("")).functions));
                }
                (_, Some(_)) => return Ok(None),
                (call, None) => {
                    if let Some(call) = call
                        && !call.args.any(|node| matches!(node, Ref::ColumnRef(_)))?
                    {
                        call.args.rewrite(&mut |node| self.plain(node))?;
                    }
                    functions.push(part);
                }
            }
        }
        item.functions = functions;
        Ok(Some(item))
    }

    /// Calls of functions that are not VOLATILE, wherever they stand.
    fn anywhere(&mut self, tree: &mut NodeEnum) -> Result<()> {
        tree.rewrite(&mut |node| {
            tree::name_output(node);
            if let Some(part) = node.get::<AIndirection>()
                && self.is_of_record(part)?
            {
                return Ok(false);
            }
            if let Some(call) = node.get::<FuncCall>()
                && let Some((function, _)) = self.ours(call)?
                && function.volatility != 'v'
                && !functions::facts(self.ctx, &call.args)?.differs_each_time()
                && let Some(taken) = self.take(call, false)?
            {
                *node = taken;
                return Ok(false);
            }
            Ok(!matches!(&node.node, Some(NodeEnum::RangeFunction(_))))
        })
    }

    /// Is it a field of a record that a call gives? What comes back of such a call has no names.
    fn is_of_record(&self, part: &protobuf::AIndirection) -> Result<bool> {
        let Some(call) = part.arg.get::<FuncCall>() else { return Ok(false) };
        Ok(self.ours(call)?.is_some_and(|(_, result)| !result.outs.is_empty()))
    }

    /// What stands for a call in an expression.
    fn take(&mut self, call: &FuncCall, may_be_set: bool) -> Result<Option<Node>> {
        let Some((function, result)) = self.ours(call)? else { return Ok(None) };
        let types = result.columns();
        if result.set && (!may_be_set || types.len() != 1) {
            return Ok(None);
        }
        let Some(at) = self.add(function, call, result.wanted(types.len()))? else { return Ok(None) };
        let mut values = types.iter().enumerate().map(|(nth, of)| result.value(at + nth, of));
        let names = result.outs.iter().map(|(name, _)| name.as_str());
        Ok(if values.len() == 1 { values.next() } else { Some(tree::record(names.zip(values))) })
    }

    /// May a sub-select be computed by itself, after the calls so far? In PostgreSQL it sees nothing of what they have changed.
    fn is_apart(&self, query: &SelectStmt) -> Result<bool> {
        let reads_item = query.tables()?.iter().any(|table| table.schemaname.is_empty());
        Ok(self.ctx.analysis.is_some()
            && !reads_item
            && is_closed(self.ctx, query)?
            && per_row::read_only(self.ctx, &self.functions)?)
    }

    fn ours(&self, call: &FuncCall) -> Result<Option<(&'a Function, Shape)>> {
        let Some(function) = called(self.ctx, call, 'f')? else { return Ok(None) };
        Ok(Shape::of(self.ctx, function).map(|shape| (function, shape)))
    }

    /// Notes the call; gives the number of its first parameter. `None` if its arguments depend on rows, or are several.
    fn add(&mut self, function: &'a Function, call: &FuncCall, wanted: Wanted) -> Result<Option<usize>> {
        let mut depends = false;
        call.args.walk(&mut |node| {
            depends |= match node {
                Ref::SelectStmt(query) if self.is_apart(query)? => return Ok(false),
                Ref::ColumnRef(_) | Ref::SelectStmt(_) => true,
                Ref::FuncCall(call) => call.over.is_some() || is_aggregate(self.ctx, call) || gives_set(self.ctx, call),
                _ => false,
            };
            Ok(true)
        })?;
        let Some(arguments) = arguments(call)?.filter(|_| !depends) else { return Ok(None) };
        let first = self.parameters + 1;
        self.parameters += match wanted {
            Wanted::Nothing => 0,
            Wanted::Values(count) | Wanted::Arrays(count) => count,
        };
        self.functions.push(function);
        let (oid, name) = (function.oid, function.name.clone());
        let (is_volatile, is_bare) = (function.volatility == 'v', call.funcname.len() == 1);
        self.calls.push(RoutineCall { function: oid, name, is_volatile, is_bare, arguments, wanted });
        Ok(Some(first))
    }
}
