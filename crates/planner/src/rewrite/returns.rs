//! What a function returns, and how a statement takes it from a parameter.

use catalog::{Column, FIRST_USER_OID, Function, Relation};
use pg_query::protobuf::{self, FuncCall, FunctionParameter, FunctionParameterMode, ResTarget, TypeName};
use pg_query::{Node, NodeEnum};

use crate::context::Context;
use crate::plan::Wanted;
use crate::tree::sql_statements;
use crate::tree::{self, Get};

/// What a function returns.
pub(crate) struct Shape {
    /// The type after RETURNS, if it is not a record or void.
    pub returns: Option<TypeName>,
    pub is_void: bool,
    /// The void function gives NULL, as in PostgreSQL, not an empty value.
    is_null: bool,
    pub set: bool,
    /// OUT parameters and columns of RETURNS TABLE.
    pub outs: Vec<(String, TypeName)>,
}

impl Shape {
    /// `None` if it cannot be told from the function alone.
    pub fn of(ctx: &Context<'_>, function: &Function) -> Option<Self> {
        let NodeEnum::CreateFunctionStmt(create) = tree::parse_one(&function.definition).ok()?? else { return None };
        let (mut outs, mut table) = (Vec::new(), false);
        for parameter in &create.parameters {
            let parameter = parameter.get::<FunctionParameter>()?;
            let of = parameter.arg_type.clone()?;
            let name = match parameter.name.as_str() {
                "" => format!("column{}", outs.len() + 1),
                name => name.to_owned(),
            };
            match parameter.mode() {
                FunctionParameterMode::FuncParamIn | FunctionParameterMode::FuncParamDefault => {}
                FunctionParameterMode::FuncParamOut | FunctionParameterMode::FuncParamInout => {
                    outs.push((name, tree::of_any_length(of)));
                }
                FunctionParameterMode::FuncParamTable => {
                    table = true;
                    outs.push((name, tree::of_any_length(of)));
                }
                _ => return None,
            }
        }
        let name = |of: &TypeName| tree::last_name(&of.names).unwrap_or_default().to_owned();
        let declared = create.return_type.clone().map(tree::of_any_length);
        let set = table || declared.as_ref().is_some_and(|of| of.setof);
        let word = declared.as_ref().map(&name).unwrap_or_default();
        let returns = declared.filter(|_| !table && outs.is_empty()).map(|of| TypeName { setof: false, ..of });
        let all = returns.iter().chain(outs.iter().map(|(_, of)| of));
        let is_unclear = |of: &TypeName| name(of) != "void" && ctx.is_pseudo_type(of);
        let is_nested = |of: &TypeName| set && !of.array_bounds.is_empty();
        if all.clone().any(|of| is_unclear(of) || is_nested(of)) {
            return None;
        }
        Some(Self { returns, is_void: word == "void", is_null: gives_null(ctx, function, DEPTH_MAX), set, outs })
    }

    pub fn columns(&self) -> Vec<TypeName> {
        match &self.returns {
            Some(of) => vec![of.clone()],
            None => self.outs.iter().map(|(_, of)| of.clone()).collect(),
        }
    }

    /// Names of the columns that it has in FROM under this alias; `None` if they cannot be told.
    pub fn names(&self, ctx: &Context<'_>, alias: &str) -> Option<Vec<String>> {
        let Some(of) = &self.returns else { return Some(self.outs.iter().map(|(name, _)| name.clone()).collect()) };
        if !self.is_row(ctx) {
            return Some(vec![alias.to_owned()]);
        }
        Some(row_of(ctx, of)?.columns.iter().map(|column| column.name.clone()).collect())
    }

    /// Does unnest() give each value of its columns as it is? Not arrays, and in FROM no composite ones.
    pub fn unnests(&self, ctx: &Context<'_>, in_from: bool) -> bool {
        match self.returns.as_ref().filter(|_| self.is_row(ctx)) {
            Some(of) => row_of(ctx, of).is_some_and(|row| {
                let is_bare = |of: &Column| !of.type_name.ends_with("[]") && (!in_from || of.type_oid < FIRST_USER_OID);
                row.columns.iter().all(is_bare)
            }),
            None => {
                let is_bare =
                    |of: &TypeName| of.array_bounds.is_empty() && (!in_from || ctx.builtin_type(of).is_some());
                self.columns().iter().all(is_bare)
            }
        }
    }

    pub fn wanted(&self, columns: usize) -> Wanted {
        match (self.is_void, self.set) {
            (true, _) => Wanted::Nothing,
            (_, true) => Wanted::Arrays(columns),
            (_, false) => Wanted::Values(columns),
        }
    }

    /// May the type be that of rows?
    pub fn is_row(&self, ctx: &Context<'_>) -> bool {
        let Some(of) = &self.returns else { return false };
        let name = tree::last_name(&of.names).unwrap_or_default();
        of.array_bounds.is_empty() && ctx.catalog.relations().any(|relation| relation.name == name)
    }

    /// A column of the result from its parameter.
    pub fn value(&self, parameter: usize, of: &TypeName) -> Node {
        if self.is_void {
            return tree::cast(if self.is_null { tree::null() } else { tree::text("") }, of);
        }
        let value = tree::parameter(parameter);
        if !self.set {
            return tree::cast(value, of);
        }
        let bound = tree::node(NodeEnum::Integer(protobuf::Integer { ival: -1 }));
        let array = TypeName { array_bounds: vec![bound], ..of.clone() };
        tree::call("unnest", vec![tree::cast(value, &array)])
    }

    /// The column's value as a set, also if it is a single value.
    pub fn rows(&self, parameter: usize, of: &TypeName) -> Node {
        match (self.set, self.value(parameter, of)) {
            (true, rows) => rows,
            (false, value) => {
                let array = protobuf::AArrayExpr { elements: vec![value], ..protobuf::AArrayExpr::default() };
                tree::call("unnest", vec![tree::node(NodeEnum::AArrayExpr(array))])
            }
        }
    }
}

fn row_of<'a>(ctx: &Context<'a>, of: &TypeName) -> Option<&'a Relation> {
    match tree::names_of(&of.names).as_slice() {
        [schema, name] => ctx.catalog.relation(schema, name).map(|relation| &**relation),
        _ => None,
    }
}

/// How deep void functions of SQL may call each other before nobody looks.
const DEPTH_MAX: usize = 16;

/// Does a void function give NULL? One in SQL does, unless it is but a call of another one, which PostgreSQL puts in its place
/// (`inline_function` in `clauses.c`).
fn gives_null(ctx: &Context<'_>, function: &Function, depth: usize) -> bool {
    function.language == "sql"
        && depth > 0
        && only_call(ctx, function).is_none_or(|one| gives_null(ctx, one, depth - 1))
}

/// The function of the user's that is all of the body.
fn only_call<'a>(ctx: &Context<'a>, function: &Function) -> Option<&'a Function> {
    let NodeEnum::CreateFunctionStmt(create) = tree::parse_one(&function.definition).ok()?? else { return None };
    let keeps_apart = ["set", "strict", "security"].iter().any(|name| tree::option_of(&create.options, name).is_some());
    let statements = sql_statements(&function.definition)?;
    let [statement] = statements.as_slice() else { return None };
    let mut select = tree::parse_select(statement).ok()?;
    let targets = std::mem::take(&mut select.target_list);
    let is_bare = select == tree::empty_select();
    let [target] = targets.as_slice() else { return None };
    let call = target.get::<ResTarget>()?.val.as_deref()?.get::<FuncCall>()?;
    let called = ctx.of_body().user_functions(call);
    let [one] = called.as_slice() else { return None };
    let is_as_volatile = function.volatility == 'v' || one.volatility != 'v';
    (!keeps_apart && is_bare && is_as_volatile && returns_void(one)).then_some(*one)
}

fn returns_void(function: &Function) -> bool {
    match tree::parse_one(&function.definition) {
        Ok(Some(NodeEnum::CreateFunctionStmt(create))) => {
            create.return_type.is_some_and(|of| !of.setof && tree::last_name(&of.names) == Some("void"))
        }
        _ => false,
    }
}
