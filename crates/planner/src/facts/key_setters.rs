//! Whether a trigger's function may give its row another distribution key: the row would then lie where nobody looks for it.
//!
//! PL/pgSQL sets a row in few ways: `NEW.k := …`, `NEW := …`, `… INTO NEW.k` and the like, `RETURN` of something else. What is not
//! one of the harmless forms counts as setting the key.

use catalog::{Function, Relation};
use pg_query::protobuf::CaseWhen;
use pg_query::{Node, NodeEnum};
use plpgsql::Part;
use plpgsql::ast::{Block, Declared, Kind};

use crate::parse::bodies;
use crate::tree::{self, Get};

/// May a row of this table get another key by the function? What a condition of a trigger calls cannot; libraries and
/// PostgreSQL's own functions do what they are made for.
pub(crate) fn may_set_key(function: &Function, table: &Relation) -> bool {
    let keys = table.key_names();
    if keys.is_empty() || function.language != "plpgsql" || !function.is_trigger {
        return false;
    }
    bodies::plpgsql(&function.definition).is_none_or(|body| sets_key(&body.block, &keys))
}

fn sets_key(body: &Block, keys: &[&str]) -> bool {
    let mut sets = false;
    body.walk(&mut |part| {
        sets |= match part {
            Part::Declaration(declaration) => {
                // Under another name a row is not followed, nor another thing under the name of a row.
                let is_alias =
                    matches!(&declaration.what, Declared::Alias(of) if of.last().is_some_and(|of| of == "new"));
                is_alias || ["new", "old"].contains(&declaration.name.as_str())
            }
            Part::Statement(Kind::Return(value)) => {
                let value = value.as_ref().and_then(|value| tree::parse_expression(&value.text).ok());
                !value.is_some_and(|value| is_row(&value))
            }
            // It may have parameters that it gives a value.
            Part::Statement(Kind::Call(_)) => true,
            Part::Statement(kind) => kind.targets().into_iter().any(|target| is_about_key(target, keys)),
            Part::Sql(_) => false,
        };
    });
    sets
}

/// Is it `NEW` as a whole, or a column of the key? Also by the name of its block, `f.NEW.k`.
fn is_about_key(target: &[String], keys: &[&str]) -> bool {
    let names: Vec<&str> = target.iter().map(String::as_str).collect();
    match names.as_slice() {
        ["new"] | [_, "new"] => true,
        ["new", column, ..] | [_, "new", column, ..] => keys.contains(column),
        _ => false,
    }
}

/// `NEW`, `OLD`, `NULL`, or one of them: `COALESCE(NEW, OLD)`, `CASE … THEN NEW ELSE OLD END`.
fn is_row(value: &Node) -> bool {
    match &value.node {
        Some(NodeEnum::ColumnRef(_)) => tree::bare_name(value).is_some_and(|name| ["new", "old"].contains(&name)),
        Some(NodeEnum::AConst(constant)) => constant.isnull,
        Some(NodeEnum::CoalesceExpr(either)) => either.args.iter().all(is_row),
        Some(NodeEnum::CaseExpr(case)) => {
            let result =
                |when: &Node| when.get::<CaseWhen>().is_some_and(|when| when.result.as_deref().is_some_and(is_row));
            case.args.iter().all(result) && case.defresult.as_deref().is_none_or(is_row)
        }
        _ => false,
    }
}
