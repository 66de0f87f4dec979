//! Functions that read partitioned tables, put into the statement that calls them.
//!
//! A node that ran such a function would see its own rows only. If its body is one query, in SQL
//! or (see [`plpgsql`]) no more than that in PL/pgSQL, a call is that query as a sub-select,
//! in which the arguments stand for the parameters, and the sub-select is planned like any other:
//!
//! ```text
//! f(5)        → CAST((SELECT … WHERE k = CAST(5 AS int) LIMIT 1) AS text)
//! f(t.k)      → (SELECT CAST((SELECT … WHERE k = loxo_f1.p1 LIMIT 1) AS text) FROM (SELECT CAST(t.k AS int) AS p1) AS loxo_f1)
//! FROM g(5)   → FROM (SELECT CAST(c1 AS int) AS a FROM (SELECT …) AS loxo_f1 (c1)) AS g
//! ```
//!
//! What is left alone is run by the coordinator if it is called once (see [`routine`](crate::routine)), or refused, with the
//! reason. A VOLATILE function sees what the very statement that calls it has changed
//! so far, which no sub-select does: it is put into queries only.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::{Function, Persistence, Relation};
use pg_query::protobuf::{
    self, Alias, BoolExpr, BoolExprType, CaseExpr, CaseWhen, FuncCall, FunctionParameterMode, NullTest, NullTestType,
    RangeFunction, RangeSubselect, RangeVar, SelectStmt, SetOperation, SubLink, SubLinkType, TypeCast, TypeName,
};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use crate::context::{Context, Named};
use crate::parse::Statement;
use crate::plpgsql;
use crate::select::shape;
use crate::tree::{self, Ref, Walk};
use crate::{bodies, functions};

/// Functions may call functions, but not for ever.
const DEPTH_MAX: usize = 16;

/// The statement with such functions' bodies in it, if there are any.
pub(crate) fn inline(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Statement>> {
    let Some(original) = statement.node() else { return Ok(None) };
    let changes = !matches!(original, NodeEnum::SelectStmt(_)) || crate::with::changes_rows(statement);
    if !matches!(
        original,
        NodeEnum::SelectStmt(_)
            | NodeEnum::InsertStmt(_)
            | NodeEnum::UpdateStmt(_)
            | NodeEnum::DeleteStmt(_)
            | NodeEnum::MergeStmt(_)
    ) || !calls_any(ctx, original)?
    {
        return Ok(None);
    }
    let mut inliner = Inliner { ctx, changes, count: 0, made: HashMap::new() };
    let mut tree = original.clone();
    for _ in 0..DEPTH_MAX {
        let before = inliner.count;
        inliner.pass(&mut tree)?;
        if inliner.count == before {
            break;
        }
    }
    match inliner.count {
        0 => Ok(None),
        _ => crate::parse::build(&tree::deparse(&tree)?, tree).map(Some),
    }
}

/// Is there a call of a function that has to be put into the statement?
fn calls_any(ctx: &Context<'_>, tree: &NodeEnum) -> Result<bool> {
    let mut found = false;
    tree.walk(&mut |node| {
        if let Ref::FuncCall(call) = node {
            found = found || function(ctx, call)?.is_some();
        }
        Ok(!found)
    })?;
    Ok(found)
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
    count: usize,
    /// What calls have become, by their texts: the same call in GROUP BY and in the select list must stay the same.
    made: HashMap<String, Node>,
}

impl Inliner<'_> {
    /// Replaces the calls that stand in the tree now.
    fn pass(&mut self, tree: &mut NodeEnum) -> Result<()> {
        tree.rewrite(&mut |node| {
            match &mut node.node {
                Some(NodeEnum::ResTarget(target)) if target.name.is_empty() && target.val.is_some() => {
                    let holds_call = match target.val.as_deref().and_then(|value| value.node.as_ref()) {
                        Some(value) => calls_any(self.ctx, value)?,
                        None => false,
                    };
                    if holds_call {
                        target.name = tree::output_name(target);
                    }
                }
                Some(NodeEnum::FuncCall(call)) => {
                    if let Some(value) = self.value_of(call)? {
                        *node = value;
                        return Ok(false);
                    }
                }
                Some(NodeEnum::RangeFunction(item)) => {
                    if let Some(item) = self.item(item)? {
                        *node = item;
                        return Ok(false);
                    }
                }
                _ => {}
            }
            Ok(true)
        })
    }

    fn routine(&self, call: &FuncCall) -> Result<Option<Routine>> {
        let plain = call.agg_order.is_empty()
            && call.agg_filter.is_none()
            && call.over.is_none()
            && !call.agg_distinct
            && !call.func_variadic
            && !call.args.iter().any(|arg| matches!(arg.node, Some(NodeEnum::NamedArgExpr(_))));
        let Some(function) = function(self.ctx, call)?.filter(|_| plain) else { return Ok(None) };
        if function.volatility == 'v'
            && (self.changes || functions::function_facts(self.ctx, function)?.volatile.is_some())
        {
            return Ok(None);
        }
        Ok(Routine::of(&self.ctx.of_body(), function))
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
        let text = tree::deparse_expression(&tree::node(NodeEnum::FuncCall(Box::new(call.clone()))))?;
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
        let Some(routine) = self.routine(call)?.filter(|routine| !routine.set && routine.table.is_none()) else {
            return Ok(None);
        };
        let Some(arguments) = routine.arguments(call).filter(|_| !has_window(&call.args)) else { return Ok(None) };
        let Some(body) = first_row(self.ctx, routine.body.clone())? else { return Ok(None) };
        if arguments.iter().all(is_constant) {
            if routine.strict && arguments.iter().any(|argument| !is_known(argument)) {
                return Ok(None);
            }
            let Some(body) = routine.with(self.ctx, body, |at| arguments[at].clone())? else { return Ok(None) };
            self.count += 1;
            return Ok(Some(cast(sub_select(body), &routine.returns)));
        }
        let alias = format!("loxo_f{}", self.count + 1);
        let parameter = |at: usize| tree::column(&[&alias, &parameter_name(at)]);
        let Some(body) = routine.with(self.ctx, body, parameter)? else { return Ok(None) };
        let mut value = cast(sub_select(body), &routine.returns);
        if routine.strict {
            value = unless_null((0..arguments.len()).map(parameter).collect(), value);
        }
        let alias = self.alias();
        Ok(Some(sub_select(SelectStmt {
            target_list: vec![tree::target(value, None)],
            from_clause: vec![in_from(values(arguments), &alias, Vec::new())],
            ..tree::empty_select()
        })))
    }

    /// A call in FROM.
    fn item(&mut self, item: &RangeFunction) -> Result<Option<Node>> {
        let call = match item.functions.as_slice() {
            [Node { node: Some(NodeEnum::List(list)) }] => match list.items.first().and_then(|n| n.node.as_ref()) {
                Some(NodeEnum::FuncCall(call)) => call,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        if item.ordinality || item.is_rowsfrom || !item.coldeflist.is_empty() {
            return Ok(None);
        }
        let Some(routine) = self.routine(call)? else { return Ok(None) };
        let Some(arguments) = routine.arguments(call) else { return Ok(None) };
        // A STRICT function gives no row for a NULL, or one of NULLs, which no sub-select does.
        let may_be_null = routine.strict && !arguments.iter().all(is_known);
        if may_be_null && !routine.set {
            return Ok(None);
        }
        let plain = !may_be_null && arguments.iter().all(is_constant);
        let name = call.funcname.last().and_then(tree::text_of).unwrap_or_default();
        let shown = item.alias.clone().unwrap_or_else(|| Alias { aliasname: name.to_owned(), colnames: Vec::new() });
        let body = if routine.set { Some(routine.body.clone()) } else { first_row(self.ctx, routine.body.clone())? };
        let Some(body) = body else { return Ok(None) };
        let columns = match &routine.table {
            Some(columns) => columns.clone(),
            None => vec![(shown.aliasname.clone(), routine.returns.clone())],
        };
        if columns.len() != body.target_list.len() || body.target_list.iter().any(shape::is_star) {
            return Ok(None);
        }
        let given = format!("loxo_f{}", self.count + 1);
        let parameter = |at: usize| tree::column(&[&given, &parameter_name(at)]);
        let body = match plain {
            true => routine.with(self.ctx, body, |at| arguments[at].clone())?,
            false => routine.with(self.ctx, body, parameter)?,
        };
        let Some(body) = body else { return Ok(None) };
        let known = may_be_null.then(|| Box::new(all_known((0..arguments.len()).map(parameter).collect())));
        let mut from = Vec::new();
        if !plain {
            from.push(in_from(values(arguments), &self.alias(), Vec::new()));
        }
        let alias = self.alias();
        let inner = |at: usize| format!("c{}", at + 1);
        let list = columns
            .iter()
            .enumerate()
            .map(|(at, (name, of))| tree::target(cast(tree::column(&[&alias, &inner(at)]), of), Some(name)));
        let names = (0..columns.len()).map(|at| tree::string(&inner(at))).collect();
        from.push(beside(!plain, in_from(body, &alias, names)));
        let outer =
            SelectStmt { target_list: list.collect(), from_clause: from, where_clause: known, ..tree::empty_select() };
        Ok(Some(beside(!plain, in_from(outer, &shown.aliasname, shown.colnames))))
    }
}

/// Is there a window function, which cannot stand in a sub-select's FROM?
fn has_window(arguments: &[Node]) -> bool {
    let mut found = false;
    let walked = arguments.iter().try_for_each(|argument| {
        argument.walk(&mut |node| {
            found |= matches!(node, Ref::FuncCall(call) if call.over.is_some());
            Ok(!found)
        })
    });
    found || walked.is_err()
}

/// The name of an argument in [`values`].
fn parameter_name(at: usize) -> String {
    format!("p{}", at + 1)
}

/// A query of one row: the arguments of a call.
fn values(arguments: Vec<Node>) -> SelectStmt {
    let list = arguments.into_iter().enumerate().map(|(at, value)| tree::target(value, Some(&parameter_name(at))));
    SelectStmt { target_list: list.collect(), ..tree::empty_select() }
}

/// A query in FROM that may use the columns of the items before it.
fn beside(lateral: bool, mut item: Node) -> Node {
    if let Some(NodeEnum::RangeSubselect(query)) = &mut item.node {
        query.lateral = lateral;
    }
    item
}

/// A function of one query.
struct Routine {
    name: String,
    parameters: Vec<(String, TypeName, Option<Node>)>,
    returns: TypeName,
    set: bool,
    /// Columns of RETURNS TABLE, or of the table whose rows are returned.
    table: Option<Vec<(String, TypeName)>>,
    strict: bool,
    body: SelectStmt,
}

impl Routine {
    /// `None` if it is of another kind.
    fn of(ctx: &Context<'_>, function: &Function) -> Option<Self> {
        if !function.is_public {
            return None;
        }
        let parsed = pg_query::parse(&function.definition, 0).ok()?;
        let create = match parsed.protobuf.stmts.into_iter().next()?.stmt?.node? {
            NodeEnum::CreateFunctionStmt(create) => create,
            _ => return None,
        };
        let mut strict = false;
        for option in &create.options {
            let Some(NodeEnum::DefElem(option)) = &option.node else { return None };
            let is_true =
                matches!(option.arg.as_deref().and_then(|a| a.node.as_ref()), Some(NodeEnum::Boolean(b)) if b.boolval);
            match option.defname.as_str() {
                "language" | "as" | "volatility" | "cost" | "rows" | "parallel" | "leakproof" => {}
                "strict" => strict = is_true,
                "security" if !is_true => {}
                _ => return None,
            }
        }
        let (mut parameters, mut table) = (Vec::new(), Vec::new());
        for parameter in &create.parameters {
            let Some(NodeEnum::FunctionParameter(parameter)) = &parameter.node else { return None };
            let of = parameter.arg_type.clone().filter(is_concrete).and_then(of_any_length)?;
            match parameter.mode() {
                FunctionParameterMode::FuncParamIn | FunctionParameterMode::FuncParamDefault => {
                    parameters.push((parameter.name.clone(), of, parameter.defexpr.as_deref().cloned()));
                }
                FunctionParameterMode::FuncParamTable => table.push((parameter.name.clone(), of)),
                _ => return None,
            }
        }
        let declared: Vec<String> = table.iter().map(|(name, _)| name.clone()).collect();
        let returns = create.return_type.clone().filter(|of| !table.is_empty() || is_concrete(of));
        let returns = returns.and_then(of_any_length)?;
        let set = returns.setof || !table.is_empty();
        let table = if table.is_empty() { row_columns(ctx, &returns) } else { Some(table) };
        let returns = TypeName { setof: false, ..returns };
        let known: Vec<&str> = parameters.iter().map(|(name, ..)| name.as_str()).collect();
        let shown: Vec<&str> = declared.iter().map(String::as_str).collect();
        let mut body = body_of(ctx, function, &known, &shown)?;
        expand_star(ctx, &mut body);
        qualify(ctx, &mut body).ok()?;
        let usual =
            body.into_clause.is_none() && body.locking_clause.is_empty() && body.op == SetOperation::SetopNone as i32;
        if !usual || !body.values_lists.is_empty() {
            return None;
        }
        Some(Self { name: function.name.clone(), parameters, returns, set, table, strict, body })
    }

    /// The arguments of a call, as the parameters' types.
    fn arguments(&self, call: &FuncCall) -> Option<Vec<Node>> {
        if call.args.len() > self.parameters.len() {
            return None;
        }
        let value = |(at, (_, of, default)): (usize, &(String, TypeName, Option<Node>))| {
            Some(cast(call.args.get(at).cloned().or_else(|| default.clone())?, of))
        };
        self.parameters.iter().enumerate().map(value).collect()
    }

    /// The body with something in place of its parameters. `None` if a name may mean a parameter or a column.
    fn with(&self, ctx: &Context<'_>, body: SelectStmt, value: impl Fn(usize) -> Node) -> Result<Option<SelectStmt>> {
        let columns = columns_of(ctx, &body)?;
        let mut doubtful = false;
        let mut node = tree::node(NodeEnum::SelectStmt(Box::new(body)));
        node.rewrite(&mut |node| {
            let at = match &node.node {
                Some(NodeEnum::ParamRef(parameter)) => usize::try_from(parameter.number - 1).ok(),
                Some(NodeEnum::ColumnRef(column)) => {
                    let names: Vec<Option<&str>> = column.fields.iter().map(tree::text_of).collect();
                    let position = |name: &str| self.parameters.iter().position(|(own, ..)| own == name);
                    match names.as_slice() {
                        [Some(name)] => {
                            let found = position(name);
                            doubtful |=
                                found.is_some() && columns.as_ref().is_none_or(|all| all.iter().any(|c| c == name));
                            found
                        }
                        [Some(function), Some(name)] if *function == self.name => position(name),
                        _ => None,
                    }
                }
                _ => return Ok(true),
            };
            match at.filter(|at| *at < self.parameters.len()) {
                Some(at) => {
                    *node = value(at);
                    Ok(false)
                }
                None => Ok(true),
            }
        })?;
        match node.node {
            Some(NodeEnum::SelectStmt(body)) if !doubtful => Ok(Some(*body)),
            _ => Ok(None),
        }
    }
}

/// All names that columns of the body's tables have; `None` if not all of them are known.
fn columns_of(ctx: &Context<'_>, body: &SelectStmt) -> Result<Option<Vec<String>>> {
    let mut names = Some(Vec::new());
    body.walk(&mut |node| {
        match node {
            Ref::RangeVar(name) => match ctx.resolve(name)? {
                Named::Distributed(relation) | Named::View(relation) | Named::Home(Some(relation)) => {
                    if let Some(names) = &mut names {
                        names.extend(relation.columns.iter().map(|column| column.name.clone()));
                    }
                }
                Named::Home(None) => names = None,
            },
            Ref::Alias(alias) => {
                if let Some(names) = &mut names {
                    names.extend(tree::names_of(&alias.colnames));
                }
            }
            Ref::ResTarget(target) => {
                if let Some(names) = &mut names {
                    names.extend((!target.name.is_empty()).then(|| target.name.clone()));
                }
            }
            _ => {}
        }
        Ok(true)
    })?;
    Ok(names)
}

/// The columns of `RETURNS SETOF some_table`.
fn row_columns(ctx: &Context<'_>, returns: &TypeName) -> Option<Vec<(String, TypeName)>> {
    let names: Vec<&str> = returns.names.iter().map(tree::text_of).collect::<Option<_>>()?;
    let (schema, name) = match names.as_slice() {
        [name] => ("", *name),
        [schema, name] => (*schema, *name),
        _ => return None,
    };
    if !returns.setof || !returns.array_bounds.is_empty() {
        return None;
    }
    let relation = relation_of(ctx, &tree::table(schema, name, None))?;
    relation.columns.iter().map(|column| Some((column.name.clone(), type_of(&column.type_name)?))).collect()
}

fn relation_of(ctx: &Context<'_>, name: &RangeVar) -> Option<Arc<Relation>> {
    match ctx.resolve(name).ok()? {
        Named::Distributed(relation) | Named::View(relation) | Named::Home(Some(relation)) => Some(relation),
        Named::Home(None) => None,
    }
}

/// Puts the schema before the names of a body's tables, so that no WITH item of the caller's catches them.
fn qualify(ctx: &Context<'_>, body: &mut SelectStmt) -> Result<()> {
    let mut own = Vec::new();
    body.walk(&mut |node| {
        if let Ref::CommonTableExpr(cte) = node {
            own.push(cte.ctename.clone());
        }
        Ok(true)
    })?;
    body.rewrite(&mut |node| {
        if let Some(NodeEnum::RangeVar(name)) = &mut node.node
            && name.schemaname.is_empty()
            && !own.contains(&name.relname)
            && let Named::Distributed(relation) | Named::View(relation) = ctx.resolve(name)?
            && relation.persistence != Persistence::Temporary
        {
            if name.alias.is_none() {
                name.alias = Some(Alias { aliasname: name.relname.clone(), colnames: Vec::new() });
            }
            name.schemaname.clone_from(&relation.schema);
        }
        Ok(true)
    })
}

/// A type as the catalog prints it.
fn type_of(text: &str) -> Option<TypeName> {
    let select = tree::parse_select(&format!("SELECT NULL::{text}")).ok()?;
    match &shape::target_value(&select, 1)?.node {
        Some(NodeEnum::TypeCast(cast)) => cast.type_name.clone(),
        _ => None,
    }
}

/// `SELECT * FROM t …` of one table: its columns.
fn expand_star(ctx: &Context<'_>, body: &mut SelectStmt) {
    let ([star], [Node { node: Some(NodeEnum::RangeVar(name)) }]) =
        (body.target_list.as_slice(), body.from_clause.as_slice())
    else {
        return;
    };
    let is_with = body.with_clause.is_some() && name.schemaname.is_empty();
    if !is_bare_star(star) || is_with || name.alias.as_ref().is_some_and(|alias| !alias.colnames.is_empty()) {
        return;
    }
    let table = name.alias.as_ref().map_or(&name.relname, |alias| &alias.aliasname).clone();
    if let Some(relation) = relation_of(ctx, name) {
        let columns = relation.columns.iter().map(|column| tree::column(&[&table, &column.name]));
        body.target_list = columns.map(|column| tree::target(column, None)).collect();
    }
}

/// `*`
fn is_bare_star(target: &Node) -> bool {
    let Some(NodeEnum::ResTarget(target)) = &target.node else { return false };
    match target.val.as_deref().and_then(|value| value.node.as_ref()) {
        Some(NodeEnum::ColumnRef(column)) => {
            matches!(column.fields.as_slice(), [Node { node: Some(NodeEnum::AStar(_)) }])
        }
        _ => false,
    }
}

/// The function's only query.
fn body_of(ctx: &Context<'_>, function: &Function, known: &[&str], shown: &[&str]) -> Option<SelectStmt> {
    if function.language == "sql" {
        return match bodies::sql_bodies(&function.definition)?.as_slice() {
            [NodeEnum::SelectStmt(select)] => Some(select.as_ref().clone()),
            _ => None,
        };
    }
    match plpgsql::as_query(&function.definition, known, shown)? {
        (query, None) => Some(query),
        (query, Some(of)) => {
            let query = tree::deparse_select(&first_row(ctx, query).ok()??).ok()?;
            tree::parse_select(&format!("SELECT CAST(({query}) AS pg_catalog.{of})")).ok()
        }
    }
}

/// A function's value is that of the first row.
fn first_row(ctx: &Context<'_>, mut body: SelectStmt) -> Result<Option<SelectStmt>> {
    let several = body.target_list.len() != 1 || body.target_list.iter().any(shape::is_star);
    if body.limit_count.is_some() || body.limit_offset.is_some() || several {
        return Ok(None);
    }
    if shape::is_aggregated(ctx, &body)? && body.group_clause.is_empty() && body.having_clause.is_none() {
        return Ok(Some(body));
    }
    body.limit_count = Some(Box::new(tree::integer(1)));
    body.limit_option = protobuf::LimitOption::Count as i32;
    Ok(Some(body))
}

fn is_concrete(of: &TypeName) -> bool {
    let name = of.names.last().and_then(tree::text_of).unwrap_or_default();
    !name.starts_with("any") && !["record", "void", "trigger", "internal", "cstring", "refcursor"].contains(&name)
}

/// The type of a parameter or result, which has no length, whatever its name means elsewhere: `character` is `char(1)`.
fn of_any_length(of: TypeName) -> Option<TypeName> {
    match of.names.last().and_then(tree::text_of) {
        Some("bpchar") => Some(TypeName { names: vec![tree::string("bpchar")], typmods: Vec::new(), ..of }),
        // Without a length it has no name that is no keyword.
        Some("bit") => None,
        _ => Some(TypeName { typmods: Vec::new(), ..of }),
    }
}

fn is_constant(value: &Node) -> bool {
    match &value.node {
        Some(NodeEnum::AConst(_) | NodeEnum::ParamRef(_)) => true,
        Some(NodeEnum::TypeCast(cast)) => cast.arg.as_deref().is_some_and(is_constant),
        _ => false,
    }
}

/// A constant that is surely not NULL.
fn is_known(value: &Node) -> bool {
    match &value.node {
        Some(NodeEnum::AConst(constant)) => !constant.isnull,
        Some(NodeEnum::TypeCast(cast)) => cast.arg.as_deref().is_some_and(is_known),
        _ => false,
    }
}

fn cast(value: Node, of: &TypeName) -> Node {
    tree::node(NodeEnum::TypeCast(Box::new(TypeCast {
        arg: Some(Box::new(value)),
        type_name: Some(of.clone()),
        location: -1,
    })))
}

fn sub_select(query: SelectStmt) -> Node {
    tree::node(NodeEnum::SubLink(Box::new(SubLink {
        sub_link_type: SubLinkType::ExprSublink as i32,
        subselect: Some(Box::new(tree::node(NodeEnum::SelectStmt(Box::new(query))))),
        ..SubLink::default()
    })))
}

fn in_from(query: SelectStmt, alias: &str, colnames: Vec<Node>) -> Node {
    tree::node(NodeEnum::RangeSubselect(Box::new(RangeSubselect {
        lateral: false,
        subquery: Some(Box::new(tree::node(NodeEnum::SelectStmt(Box::new(query))))),
        alias: Some(Alias { aliasname: alias.to_owned(), colnames }),
    })))
}

/// `a IS NOT NULL AND b IS NOT NULL`.
fn all_known(parameters: Vec<Node>) -> Node {
    let known = |parameter: Node| {
        tree::node(NodeEnum::NullTest(Box::new(NullTest {
            arg: Some(Box::new(parameter)),
            nulltesttype: NullTestType::IsNotNull as i32,
            ..NullTest::default()
        })))
    };
    tree::node(NodeEnum::BoolExpr(Box::new(BoolExpr {
        boolop: BoolExprType::AndExpr as i32,
        args: parameters.into_iter().map(known).collect(),
        ..BoolExpr::default()
    })))
}

/// `CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN value END`.
fn unless_null(parameters: Vec<Node>, value: Node) -> Node {
    let when =
        CaseWhen { expr: Some(Box::new(all_known(parameters))), result: Some(Box::new(value)), ..CaseWhen::default() };
    tree::node(NodeEnum::CaseExpr(Box::new(CaseExpr {
        args: vec![tree::node(NodeEnum::CaseWhen(Box::new(when)))],
        ..CaseExpr::default()
    })))
}
