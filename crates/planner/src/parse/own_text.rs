//! Texts of our own that run in a user's backend, under that user's search path.
//!
//! `oid = 7` means whatever operator the search path finds: one of a user's for `oid` and `integer` comes before PostgreSQL's, which
//! wants a conversion. So every operator, function and type of such a text is written with its schema. [`own_text`] does it, for
//! people read `a = b` more easily than `a OPERATOR(pg_catalog.=) b`.
//!
//! Invariant: nothing of what comes out is looked up in the search path but the tables, which the texts qualify themselves. What
//! cannot be written with a schema (`NULLIF`, `IS DISTINCT FROM`, `USING`) is refused, so that tests find it.

use pg_query::protobuf::{AArrayExpr, AExpr, AExprKind, CaseExpr, CaseWhen};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::tree::{self, Get, Walk};

/// The text with `pg_catalog.` before everything that stands without a schema.
pub fn own_text(sql: &str) -> Result<String> {
    let parsed = pg_query::parse(sql, 0).map_err(|error| PgError::internal(format!("{error} in: {sql}")))?;
    let mut texts = Vec::new();
    for statement in parsed.protobuf.stmts {
        let mut node = *statement.stmt.ok_or_else(|| PgError::internal("a statement without a tree"))?;
        node.rewrite(&mut qualify)?;
        let node = node.node.ok_or_else(|| PgError::internal("a statement without a tree"))?;
        texts.push(tree::deparse(&node)?);
    }
    Ok(texts.join("; "))
}

fn qualify(node: &mut Node) -> Result<bool> {
    match &mut node.node {
        Some(NodeEnum::AExpr(expression)) => qualify_operator(expression)?,
        Some(NodeEnum::CaseExpr(case)) => search_case(case),
        Some(NodeEnum::FuncCall(call)) => qualify_name(&mut call.funcname),
        Some(NodeEnum::TypeCast(cast)) => {
            if let Some(name) = &mut cast.type_name {
                qualify_name(&mut name.names);
            }
        }
        // A temporary table of that name would come first. Others without a schema are WITH items, or ours.
        Some(NodeEnum::RangeVar(name)) if name.schemaname.is_empty() && name.relname.starts_with("pg_") => {
            name.schemaname = "pg_catalog".to_owned();
        }
        Some(NodeEnum::SubLink(link)) if !link.oper_name.is_empty() => qualify_name(&mut link.oper_name),
        Some(NodeEnum::JoinExpr(join)) if !join.using_clause.is_empty() => return Err(unqualifiable("USING")),
        _ => {}
    }
    Ok(true)
}

fn qualify_operator(expression: &mut AExpr) -> Result<()> {
    use AExprKind as Kind;
    match expression.kind() {
        Kind::AexprOp | Kind::AexprOpAny | Kind::AexprOpAll => {}
        // `=` or `<>`, and a list.
        Kind::AexprIn => {
            let is_in = expression.name.first().and_then(tree::text_of) == Some("=");
            expression.kind = if is_in { Kind::AexprOpAny } else { Kind::AexprOpAll } as i32;
            if let Some(list) = expression.rexpr.as_mut()
                && let Some(NodeEnum::List(items)) = list.node.take()
            {
                let array = AArrayExpr { elements: items.items, ..AArrayExpr::default() };
                list.node = Some(NodeEnum::AArrayExpr(array));
            }
        }
        Kind::AexprLike => expression.kind = Kind::AexprOp as i32,
        other => return Err(unqualifiable(other.as_str_name())),
    }
    qualify_name(&mut expression.name);
    Ok(())
}

/// `CASE x WHEN y` compares by `=`, whatever that is.
fn search_case(case: &mut CaseExpr) {
    let Some(of) = case.arg.take() else { return };
    for arm in &mut case.args {
        if let Some(when) = arm.get_mut::<CaseWhen>() {
            when.expr = when.expr.take().map(|value| Box::new(tree::equal(of.as_ref().clone(), *value)));
        }
    }
}

fn qualify_name(name: &mut Vec<Node>) {
    if name.len() == 1 {
        name.insert(0, tree::string("pg_catalog"));
    }
}

fn unqualifiable(what: &str) -> PgError {
    PgError::internal(format!("{what} in a text of our own: it cannot be written with a schema"))
}
