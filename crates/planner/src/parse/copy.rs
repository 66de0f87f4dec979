//! `COPY`.

use pg_query::protobuf::CopyStmt;
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};
use plpgsql::tokens::{self as scan, Cursor};

use super::classify::{inner, skip_parentheses, value_text};
use super::{CopyEndpoint, CopyStatement, CopySubject, CopyValue};
use crate::tree;

pub(super) fn classify(sql: &str, copy: &CopyStmt) -> Result<CopyStatement> {
    let source = match (copy.filename.as_str(), copy.is_program) {
        ("", _) => CopyEndpoint::Client,
        (command, true) => CopyEndpoint::Program(command.to_owned()),
        (path, false) => CopyEndpoint::File(path.to_owned()),
    };
    let options = tree::options(&copy.options).map(|d| Ok((d.defname.clone(), option(d.arg.as_deref())?)));
    Ok(CopyStatement {
        subject: subject(sql, copy)?,
        is_from: copy.is_from,
        source,
        options: options.collect::<Result<_>>()?,
        where_sql: copy.where_clause.as_deref().map(tree::deparse_expression).transpose()?,
    })
}

fn subject(sql: &str, copy: &CopyStmt) -> Result<CopySubject> {
    if let Some(relation) = &copy.relation {
        return Ok(CopySubject::Relation {
            schema: (!relation.schemaname.is_empty()).then(|| relation.schemaname.clone()),
            name: relation.relname.clone(),
            columns: tree::names_of(&copy.attlist),
        });
    }
    let tokens = scan::tokens(sql).ok_or_else(|| PgError::internal("COPY cannot be scanned"))?;
    let mut cursor = Cursor::new(sql, &tokens);
    cursor.expect("copy")?;
    let open = cursor.peek().map(|t| t.end).ok_or_else(|| cursor.error())?;
    skip_parentheses(&mut cursor)?;
    let close = tokens[cursor.at - 1].start;
    let start = open + sql[open..].len() - sql[open..].trim_start().len();
    Ok(CopySubject::Query(Box::new(inner(sql, start..close, copy.query.as_deref())?)))
}

fn option(value: Option<&Node>) -> Result<Option<CopyValue>> {
    let Some(inner) = value.and_then(|value| value.node.as_ref()) else { return Ok(None) };
    Ok(Some(match inner {
        NodeEnum::AStar(_) => CopyValue::Star,
        NodeEnum::Integer(number) => CopyValue::Integer(number.ival.into()),
        NodeEnum::List(list) => {
            let refused = || PgError::unsupported("this COPY option list").hint("Use a list of names.");
            let texts = list.items.iter().map(|item| value_text(Some(item)).ok_or_else(refused));
            CopyValue::List(texts.collect::<Result<_>>()?)
        }
        _ => {
            let refused = || PgError::unsupported("this COPY option value").hint("Use a constant or a list of names.");
            CopyValue::Text(value_text(value).ok_or_else(refused)?)
        }
    }))
}
