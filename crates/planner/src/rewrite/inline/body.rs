//! Functions whose bodies may be put into a statement: what they declare, and their bodies as PostgreSQL reads them.
//!
//! A body is analysed like a statement, as that of a function with the same parameters: in it every name has its schema, every
//! `*` is written out, and a parameter has the name of that function before its own, so nothing of the statement that it is put into can
//! give it another meaning.

use catalog::{Function, Oid, RelationKind};
use pg_query::protobuf::{
    self, ColumnRef, CreateFunctionStmt, DefElem, FuncCall, FunctionParameter, FunctionParameterMode, SelectStmt,
    TypeName,
};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::one_query;
use crate::context::{Context, Named};
use crate::facts::{code, functions};
use crate::parse::Analysis;
use crate::select::shape;
use crate::tree::{self, Ask, Get, Ref, Walk};
use crate::views;

/// Name of the function that a body is analysed under.
const ANALYSED_AS: &str = "loxo_analyse";

/// A body that PostgreSQL is to be asked about before the statement that calls its function is planned.
#[derive(Clone, Debug)]
pub struct WantedBody {
    /// The function.
    pub function: Oid,
    /// Its parameters, as CREATE FUNCTION has them.
    pub parameters: String,
    /// The query in it.
    pub sql: String,
}

/// The bodies that an analysed statement needs besides those it has.
pub(crate) fn wanted_bodies(ctx: &Context<'_>, analysis: &Analysis) -> Result<Vec<WantedBody>> {
    let mut unknown: Vec<Oid> = analysis.uses().functions.iter().copied().collect();
    let relations = analysis.uses().relations.iter().filter_map(|oid| ctx.catalog.relation_by_oid(*oid));
    for view in relations.filter(|relation| relation.kind == RelationKind::View) {
        let Ok(body) = views::whole(ctx, view) else { continue };
        let called = body.calls()?.into_iter().flat_map(|call| ctx.user_functions(call));
        unknown.extend(called.map(|function| function.oid));
    }
    unknown.retain(|function| !analysis.was_asked_about(*function));
    let mut wanted = Vec::new();
    for function in ctx.catalog.functions_by_oid(&unknown).filter(|function| may_be_query(function)) {
        if functions::function_facts(ctx, function)?.refused.is_none() {
            continue;
        }
        if let Some(declared) = Declared::of(ctx, function) {
            wanted.push(declared.wanted(function)?);
        }
    }
    Ok(wanted)
}

fn may_be_query(function: &Function) -> bool {
    ["sql", "plpgsql"].contains(&function.language.as_str()) && function.kind == 'f' && function.is_public
}

/// What a function of one query says of itself.
pub(super) struct Declared {
    parameters: Vec<Parameter>,
    pub returns: TypeName,
    pub set: bool,
    /// Columns of RETURNS TABLE, or of the table whose rows are returned.
    pub table: Option<Vec<(String, TypeName)>>,
    pub strict: bool,
    /// The query as it is written.
    query: SelectStmt,
    /// The type of the variable that gets the first row's value, in PL/pgSQL.
    variable: Option<TypeName>,
}

struct Parameter {
    name: String,
    of: TypeName,
    default: Option<Node>,
}

impl Declared {
    /// `None` if the function is of another kind.
    fn of(ctx: &Context<'_>, function: &Function) -> Option<Self> {
        if !may_be_query(function) {
            return None;
        }
        let NodeEnum::CreateFunctionStmt(create) = tree::parse_one(&function.definition).ok()?? else { return None };
        let strict = is_strict(&create)?;
        let (mut parameters, mut table) = (Vec::new(), Vec::new());
        for parameter in &create.parameters {
            let parameter = parameter.get::<FunctionParameter>()?;
            let of = parameter.arg_type.clone().filter(|of| is_concrete(ctx, of) && !is_domain(ctx, of));
            let of = tree::of_any_length(of?);
            // PostgreSQL prints one without a name as "" where others have names.
            let name = match parameter.name.as_str() {
                "" => format!("loxo_p{}", parameters.len() + 1),
                name => name.to_owned(),
            };
            let default = parameter.defexpr.as_deref().cloned();
            match parameter.mode() {
                FunctionParameterMode::FuncParamIn | FunctionParameterMode::FuncParamDefault => {
                    parameters.push(Parameter { name, of, default });
                }
                FunctionParameterMode::FuncParamTable => table.push((name, of)),
                _ => return None,
            }
        }
        let returns = create.return_type.clone().filter(|of| !table.is_empty() || is_concrete(ctx, of));
        let returns = returns.filter(|of| !is_domain(ctx, of));
        let returns = tree::of_any_length(returns?);
        let shown: Vec<&str> = table.iter().map(|(name, _)| name.as_str()).collect();
        let (query, variable) = match function.language.as_str() {
            "sql" => (only_query(&function.definition)?, None),
            _ => one_query::as_query(ctx, &function.definition, &shown)?,
        };
        // Items of WITH that change rows may stand at the top of a statement only.
        if code::changes_rows(&query).unwrap_or(true) {
            return None;
        }
        let set = returns.setof || !table.is_empty();
        let table = if table.is_empty() { row_columns(ctx, &returns) } else { Some(table) };
        let returns = TypeName { setof: false, ..returns };
        Some(Self { parameters, returns, set, table, strict, query, variable })
    }

    fn wanted(&self, function: &Function) -> Result<WantedBody> {
        let parameters = self.parameters.iter().map(|parameter| {
            Ok(format!("{} {}", catalog::quote_identifier(&parameter.name), tree::deparse_type(&parameter.of)?))
        });
        let parameters = parameters.collect::<Result<Vec<_>>>()?.join(", ");
        let mut query = self.query.clone();
        self.rename(&mut query, &function.name)?;
        Ok(WantedBody { function: function.oid, parameters, sql: tree::deparse_select(&query)? })
    }

    /// A body may write `f.x` for the parameter x of f; it is analysed under another name. A table called f comes first.
    fn rename(&self, query: &mut SelectStmt, function: &str) -> Result<()> {
        let is_table = query.any(|node| match node {
            Ref::RangeVar(name) => name.alias.is_none() && name.relname == function,
            Ref::Alias(alias) => alias.aliasname == function,
            _ => false,
        })?;
        if is_table {
            return Ok(());
        }
        query.rewrite(&mut |node| {
            if let Some(column) = node.get_mut::<ColumnRef>()
                && let [of, name, ..] = column.fields.as_mut_slice()
                && tree::text_of(of) == Some(function)
                && self.position(tree::text_of(name).unwrap_or_default()).is_some()
            {
                *of = tree::string(ANALYSED_AS);
            }
            Ok(true)
        })
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.parameters.iter().position(|parameter| parameter.name == name)
    }

    /// Which parameter a node stands for, in an analysed body or one with [`Declared::rename`] done.
    fn parameter(&self, node: &Ref<'_>) -> Option<usize> {
        match node {
            Ref::ParamRef(parameter) => usize::try_from(parameter.number - 1).ok(),
            Ref::ColumnRef(column) => {
                let names: Vec<&str> = column.fields.iter().map(tree::text_of).collect::<Option<_>>()?;
                match names.as_slice() {
                    // PostgreSQL prints the function's name where there are tables, and no column without its table's.
                    [name] | [ANALYSED_AS, name] => self.position(name),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// How often parameters occur.
    fn uses_of_parameters(&self, query: &SelectStmt) -> Result<usize> {
        query.count(|node| self.parameter(&node).is_some())
    }
}

/// A function of one query.
pub(super) struct Routine {
    pub declared: Declared,
    /// As PostgreSQL reads it.
    pub body: SelectStmt,
}

impl Routine {
    /// `None` if it is of another kind, or PostgreSQL could not be asked.
    pub fn of(ctx: &Context<'_>, function: &Function) -> Result<Option<Self>> {
        let Some(NodeEnum::SelectStmt(body)) = ctx.analysis.and_then(|analysis| analysis.body(function.oid)) else {
            return Ok(None);
        };
        let Some(declared) = Declared::of(ctx, function) else { return Ok(None) };
        let mut body = body.as_ref().clone();
        if function.language == "plpgsql" {
            // A name that may be a variable or a column is an error there, which the analysis takes for the column.
            let mut written = declared.query.clone();
            declared.rename(&mut written, &function.name)?;
            if declared.uses_of_parameters(&written)? != declared.uses_of_parameters(&body)? {
                return Ok(None);
            }
        }
        keep_names(ctx, &mut body)?;
        let is_usual = body.into_clause.is_none() && body.locking_clause.is_empty() && !tree::is_operation(&body);
        if !is_usual || !body.values_lists.is_empty() {
            return Ok(None);
        }
        if let Some(of) = &declared.variable {
            let Some(first) = first_row(ctx, body)? else { return Ok(None) };
            body = SelectStmt {
                target_list: vec![tree::target(tree::cast(tree::scalar_sub_select(first), of), None)],
                ..tree::empty_select()
            };
        }
        Ok(Some(Self { declared, body }))
    }

    /// The arguments of a call, as the parameters' types.
    pub fn arguments(&self, call: &FuncCall) -> Option<Vec<Node>> {
        let parameters = &self.declared.parameters;
        let mut given: Vec<Option<Node>> = vec![None; parameters.len()];
        for (at, argument) in call.args.iter().enumerate() {
            let (at, value) = match &argument.node {
                Some(NodeEnum::NamedArgExpr(named)) => {
                    (self.declared.position(&named.name)?, named.arg.as_deref()?.clone())
                }
                _ => (at, argument.clone()),
            };
            *given.get_mut(at)? = Some(value);
        }
        let value = |(value, parameter): (Option<Node>, &Parameter)| {
            Some(tree::cast(value.or_else(|| parameter.default.clone())?, &parameter.of))
        };
        given.into_iter().zip(parameters).map(value).collect()
    }

    /// A body with something in place of its parameters.
    pub fn with(&self, mut body: SelectStmt, value: impl Fn(usize) -> Node) -> Result<SelectStmt> {
        body.put(|node| {
            let at = node.node.as_ref().and_then(Ref::of).and_then(|node| self.declared.parameter(&node));
            Ok(at.filter(|at| *at < self.declared.parameters.len()).map(&value))
        })?;
        Ok(body)
    }
}

/// A function's value is that of the first row.
pub(super) fn first_row(ctx: &Context<'_>, mut body: SelectStmt) -> Result<Option<SelectStmt>> {
    let several = body.target_list.len() != 1 || body.target_list.iter().any(tree::shows_star);
    if !tree::is_unlimited(&body) || several {
        return Ok(None);
    }
    if shape::is_aggregated(ctx, &body)? && body.group_clause.is_empty() && body.having_clause.is_none() {
        return Ok(Some(body));
    }
    body.limit_count = Some(Box::new(tree::integer(1)));
    body.limit_option = protobuf::LimitOption::Count as i32;
    Ok(Some(body))
}

/// Is it STRICT? `None` if it has a property that a sub-select has not.
fn is_strict(create: &CreateFunctionStmt) -> Option<bool> {
    let mut strict = false;
    for option in &create.options {
        let option = option.get::<DefElem>()?;
        let is_true =
            matches!(option.arg.as_deref().and_then(|a| a.node.as_ref()), Some(NodeEnum::Boolean(b)) if b.boolval);
        match option.defname.as_str() {
            "language" | "as" | "volatility" | "cost" | "rows" | "parallel" | "leakproof" => {}
            "strict" => strict = is_true,
            "security" if !is_true => {}
            _ => return None,
        }
    }
    Some(strict)
}

/// The only statement of a function in SQL, if it is a query.
fn only_query(definition: &str) -> Option<SelectStmt> {
    match tree::sql_bodies(definition)?.as_slice() {
        [NodeEnum::SelectStmt(select)] => Some(select.as_ref().clone()),
        _ => None,
    }
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
    let of_body = ctx.of_body();
    let relation = match of_body.resolve(&tree::table(schema, name, None)).ok()? {
        Named::Distributed(relation) | Named::View(relation) | Named::Home(Some(relation)) => relation,
        Named::Home(None) => return None,
    };
    relation
        .columns
        .iter()
        .map(|column| Some((column.name.clone(), tree::parse_type(&column.type_name).ok()?)))
        .collect()
}

/// What PostgreSQL prints without a schema, and is neither temporary nor a WITH item of the body's own, is of `pg_catalog`: no WITH item of the caller's may
/// catch it.
fn keep_names(ctx: &Context<'_>, body: &mut SelectStmt) -> Result<()> {
    let own = body.with_names()?;
    body.change_tables(|name| {
        let is_known = own.contains(&name.relname) || ctx.session.temp_relations.contains(&name.relname);
        if name.schemaname.is_empty() && !is_known {
            name.schemaname = "pg_catalog".to_owned();
        }
        Ok(())
    })
}

/// A domain judges what is given to the function, whether the body looks at it or not, and what the function gives.
fn is_domain(ctx: &Context<'_>, of: &TypeName) -> bool {
    let mut named = ctx.catalog.types_named(tree::qualified(&of.names).1);
    named.any(|named| named.kind == 'd' || !ctx.catalog.functions_of_type(named.oid).is_empty())
}

/// A cursor's name means something to its own backend only.
fn is_concrete(ctx: &Context<'_>, of: &TypeName) -> bool {
    const REFCURSOR: Oid = 1790;
    !ctx.is_pseudo_type(of) && ctx.builtin_type(of).is_none_or(|of| of.oid != REFCURSOR)
}
