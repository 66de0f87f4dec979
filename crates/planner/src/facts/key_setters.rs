//! Whether a trigger's function may give its row another distribution key: the row would then lie where nobody looks for it.
//!
//! PL/pgSQL sets a row in few ways: `NEW.k := …`, `NEW := …`, `… INTO NEW.k` and the like, `RETURN` of something else. What is not
//! one of the harmless forms counts as setting the key.

use catalog::{Function, Relation};
use pg_query::protobuf::CaseWhen;
use pg_query::{Node, NodeEnum};
use plpgsql::Part;
use plpgsql::ast::{Block, Declared, Kind};

use crate::dml::key_names;
use crate::facts::bodies;
use crate::select::shape::bare_name;
use crate::tree::{self, Get};

/// May a row of this table get another key by the function? What a condition of a trigger calls cannot; libraries and
/// PostgreSQL's own functions do what they are made for.
pub(crate) fn may_set_key(function: &Function, table: &Relation) -> bool {
    let keys = key_names(table);
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
        Some(NodeEnum::ColumnRef(_)) => bare_name(value).is_some_and(|name| ["new", "old"].contains(&name)),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(body: &str) -> bool {
        sets_key(&plpgsql::body(body).unwrap().block, &["id", "Odd"])
    }

    #[test]
    fn a_key_is_set_by_assignment_into_and_return() {
        assert!(sets("BEGIN NEW.id := NEW.id + 1; RETURN NEW; END"));
        assert!(sets("BEGIN NEW.id[1] := NEW.id + 1; RETURN NEW; END"));
        assert!(sets("BEGIN IF true THEN new.\"Odd\" = 1; END IF; RETURN NEW; END"));
        assert!(sets("BEGIN SELECT 1, 2 INTO STRICT NEW.n, NEW.id; RETURN NEW; END"));
        assert!(sets("BEGIN EXECUTE 'SELECT 1' INTO NEW.id; RETURN NEW; END"));
        assert!(sets("BEGIN FOR NEW.id IN SELECT 1 LOOP NULL; END LOOP; RETURN NEW; END"));
        assert!(sets("BEGIN NEW := jsonb_populate_record(NEW, '{}'); RETURN NEW; END"));
        assert!(sets("BEGIN NULL; EXCEPTION WHEN OTHERS THEN NEW.id := 1; RETURN NEW; END"));
        assert!(sets("DECLARE r t; BEGIN RETURN r; END"));
        assert!(sets("DECLARE new t; BEGIN new.n := 1; RETURN new; END"));
        assert!(sets("DECLARE r ALIAS FOR new; BEGIN r.id := 1; RETURN NEW; END"));
        assert!(sets("BEGIN f.NEW.id := 1; RETURN NEW; END"));
        assert!(sets("BEGIN FETCH c INTO n, f.NEW.id; RETURN NEW; END"));
        assert!(sets("BEGIN GET DIAGNOSTICS n = ROW_COUNT, NEW.id = ROW_COUNT; RETURN NEW; END"));
    }

    #[test]
    fn it_is_not_set_by_reading_it() {
        assert!(!sets("BEGIN IF NEW.id = 5 THEN NEW.n := NEW.id; END IF; RETURN NEW; END"));
        assert!(!sets("BEGIN IF NEW IS DISTINCT FROM OLD THEN NEW.at = now(); END IF; RETURN COALESCE(NEW, OLD); END"));
        assert!(!sets("BEGIN SELECT NEW.id, 2 INTO x, NEW.n; RETURN NULL; END"));
        assert!(!sets("BEGIN RAISE NOTICE '%', NEW.id; RETURN OLD; END"));
        assert!(!sets(
            "DECLARE call int; BEGIN call := 1; RETURN CASE WHEN tg_op = 'DELETE' THEN old ELSE new END; END"
        ));
    }
}
