//! PL/pgSQL functions that do no more than one query: their bodies as SELECT.
//!
//! ```text
//! BEGIN RETURN expression; END                       → SELECT expression
//! BEGIN RETURN QUERY query; [RETURN;] END            → query
//! BEGIN SELECT … INTO x FROM …; RETURN x; END        → SELECT … FROM …, of which the first row counts, as the type of x
//! ```
//!
//! Whatever else a body may hold makes it something that only a server can run.

use pg_query::protobuf::{SelectStmt, TypeName};
use plpgsql::ast::{Conflict, Declaration, Declared, Kind, Sql, Target, TypeText};

use crate::context::Context;
use crate::parse::bodies;
use crate::tree::{self, Ask, Ref};

/// The body of a function as one query, if it is no more than that. `shown` are the columns of RETURNS TABLE, which are
/// variables too. With the type of the variable that gets the first row's value, if there is one.
pub(super) fn as_query(ctx: &Context<'_>, definition: &str, shown: &[&str]) -> Option<(SelectStmt, Option<TypeName>)> {
    let body = bodies::plpgsql(definition)?;
    let block = body.block;
    if block.handlers.is_some() || body.conflict == Conflict::Variable {
        return None;
    }
    let (query, variable) = match (block.declarations.as_slice(), block.body.as_slice()) {
        ([], [only]) => (one_statement(&only.kind)?, None),
        ([], [query, end]) if matches!(end.kind, Kind::Return(None)) => (one_statement(&query.kind)?, None),
        ([declared], [fetch, end]) => {
            let of = type_of(ctx, declared)?;
            if !matches!(&end.kind, Kind::Return(Some(value)) if is_bare(value, &declared.name)) {
                return None;
            }
            (fetched(&fetch.kind, &declared.name)?, Some((declared.name.as_str(), of)))
        }
        _ => return None,
    };
    let mut hidden: Vec<&str> = shown.to_vec();
    hidden.push("found");
    hidden.extend(variable.iter().map(|(name, _)| *name));
    (!mentions(&query, &hidden)).then(|| (query, variable.map(|(_, of)| of)))
}

/// `RETURN expression` or `RETURN QUERY query`.
fn one_statement(statement: &Kind) -> Option<SelectStmt> {
    match statement {
        Kind::Return(Some(value)) => tree::parse_select(&format!("SELECT {}", value.text)).ok(),
        Kind::ReturnQuery(query) => tree::parse_select(&query.text).ok(),
        _ => None,
    }
}

fn is_bare(value: &Sql, variable: &str) -> bool {
    tree::parse_expression(&value.text).is_ok_and(|value| tree::bare_name(&value) == Some(variable))
}

/// The query of `SELECT … INTO variable`.
fn fetched(statement: &Kind, variable: &str) -> Option<SelectStmt> {
    let Kind::Sql { sql, into: Some((Target::One(target), false)) } = statement else { return None };
    if target.as_slice() != [variable] {
        return None;
    }
    tree::parse_select(&sql.text).ok()
}

/// A type of PostgreSQL's own without length or precision, to which a value is cast as if it was assigned.
fn type_of(ctx: &Context<'_>, declared: &Declaration) -> Option<TypeName> {
    let Declared::Variable {
        of: TypeText::Named(name),
        collated: false,
        constant: false,
        not_null: false,
        default: None,
    } = &declared.what
    else {
        return None;
    };
    tree::parse_type(name).ok().filter(|of| of.typmods.is_empty() && ctx.builtin_type(of).is_some())
}

/// Does the query use one of these variables?
fn mentions(query: &SelectStmt, names: &[&str]) -> bool {
    query.may_have(|node| matches!(node, Ref::ColumnRef(column) if column.fields.first().and_then(tree::text_of).is_some_and(|name| names.contains(&name))))
}
