//! Distribution clauses: Postgres-XL's `DISTRIBUTE BY … TO …`, Greenplum's `DISTRIBUTED BY`, Redshift's `DISTSTYLE`, and
//! `ALTER TABLE` actions about distribution.

use std::ops::Range;

use pg_query::NodeEnum;
use pg_query::protobuf::{List, ObjectType};
use pgerror::{PgError, Result, SqlState};
use plpgsql::tokens::{self, Cursor, Token};

use super::{DistributeBy, DistributionKind, NodeSelection, Redistribution};
use crate::tree::{self, Get};

/// Finds the clauses of one statement that starts with CREATE … TABLE; gives what they say and the byte ranges to blank.
pub(crate) fn find_in_create<'a>(
    sql: &'a str,
    tokens: &[Token<'a>],
) -> Result<Option<(DistributeBy, Vec<Range<usize>>)>> {
    if !is_create_table(tokens) {
        return Ok(None);
    }
    let mut clause = DistributeBy::default();
    let mut ranges = Vec::new();
    let mut style: Option<String> = None;
    let mut dist_key: Option<String> = None;
    let mut depth = 0i32;
    let mut at = 0;
    let mut in_query = false;
    while at < tokens.len() {
        let token = &tokens[at];
        depth += i32::from(token.is_char('(')) - i32::from(token.is_char(')'));
        let mut cursor = Cursor { tokens, at, sql };
        in_query |= depth == 0 && token.is("as") && at > 2;
        let found = match depth {
            // Greenplum puts its clause behind the query of CREATE TABLE AS; no other words there are ours.
            0 if in_query && !token.is("distribute") && !token.is("distributed") => false,
            0 => clause_at(&mut cursor, &mut clause, &mut style, &mut dist_key)?,
            1 => column_dist_key(&mut cursor, &mut dist_key)? || like_option(&mut cursor, &mut clause)?,
            _ => false,
        };
        if found {
            ranges.push(token.start..tokens[cursor.at - 1].end);
            at = cursor.at;
        } else {
            at += 1;
        }
    }
    apply_redshift(&mut clause, style, dist_key)?;
    Ok((!ranges.is_empty()).then_some((clause, ranges)))
}

fn is_create_table(tokens: &[Token<'_>]) -> bool {
    let mut cursor = Cursor::new("", tokens);
    if !cursor.accept("create") {
        return false;
    }
    while ["global", "local", "temp", "temporary", "unlogged"].iter().any(|word| cursor.accept(word)) {}
    cursor.accept("table")
}

/// A clause at depth 0. `TO` is ours only after DISTRIBUTE BY or before NODE / GROUP.
fn clause_at(
    cursor: &mut Cursor<'_, '_>,
    clause: &mut DistributeBy,
    style: &mut Option<String>,
    dist_key: &mut Option<String>,
) -> Result<bool> {
    if cursor.accept("distribute by") {
        set(&mut clause.kind, postgres_xl_kind(cursor)?, "DISTRIBUTE BY")
    } else if cursor.accept("distributed by") {
        set(&mut clause.kind, DistributionKind::Hash(cursor.name_list()?), "DISTRIBUTED BY")
    } else if cursor.accept("distributed randomly") {
        set(&mut clause.kind, DistributionKind::RoundRobin, "DISTRIBUTED")
    } else if cursor.accept("distributed replicated") {
        set(&mut clause.kind, DistributionKind::Replication, "DISTRIBUTED")
    } else if cursor.accept("to node") {
        set(&mut clause.nodes, NodeSelection::Nodes(cursor.name_list()?), "TO NODE")
    } else if cursor.accept("to group") {
        set(&mut clause.nodes, NodeSelection::Group(cursor.identifier()?), "TO GROUP")
    } else if cursor.accept("diststyle") {
        set(style, cursor.value()?.to_lowercase(), "DISTSTYLE")
    } else if cursor.accept("distkey") {
        cursor.expect_char('(')?;
        let column = cursor.identifier()?;
        cursor.expect_char(')')?;
        set(dist_key, column, "DISTKEY")
    } else {
        Ok(false)
    }
}

/// `DISTKEY` as an attribute of a column: the word stands before the comma or parenthesis that ends the column, and the
/// column's name is the first word of the definition.
fn column_dist_key(cursor: &mut Cursor<'_, '_>, dist_key: &mut Option<String>) -> Result<bool> {
    let mut start = cursor.at;
    let before = &cursor.tokens[start - 1];
    if before.is_char('(') || before.is_char(',') || !cursor.accept("distkey") {
        return Ok(false);
    }
    let mut depth = 0i32;
    while start > 0 {
        let previous = &cursor.tokens[start - 1];
        depth += i32::from(previous.is_char(')')) - i32::from(previous.is_char('('));
        if depth < 0 || (depth == 0 && previous.is_char(',')) {
            break;
        }
        start -= 1;
    }
    let column = Cursor { tokens: cursor.tokens, at: start, sql: cursor.sql }.identifier()?;
    set(dist_key, column, "DISTKEY")
}

/// `LIKE source … INCLUDING DISTRIBUTE`, the only LIKE options that PostgreSQL does not have.
fn like_option(cursor: &mut Cursor<'_, '_>, clause: &mut DistributeBy) -> Result<bool> {
    let here = cursor.at;
    let including = cursor.accept("including distribute") || cursor.accept("including node");
    if !including && !cursor.accept("excluding distribute") && !cursor.accept("excluding node") {
        return Ok(false);
    }
    let like = cursor.tokens[..here].iter().rposition(|t| t.is("like")).ok_or_else(|| cursor.error())?;
    let source = Cursor { tokens: cursor.tokens, at: like + 1, sql: cursor.sql }.qualified_name()?;
    if including {
        clause.like = Some(source);
    }
    Ok(true)
}

fn set<T>(slot: &mut Option<T>, value: T, what: &str) -> Result<bool> {
    if slot.replace(value).is_some() {
        return Err(PgError::new(SqlState::SYNTAX_ERROR, format!("conflicting or redundant {what} clauses")));
    }
    Ok(true)
}

fn apply_redshift(clause: &mut DistributeBy, style: Option<String>, dist_key: Option<String>) -> Result<()> {
    let kind = match (style.as_deref(), dist_key) {
        (None, None) => return Ok(()),
        (Some("key" | "auto") | None, Some(column)) => DistributionKind::Hash(vec![column]),
        (Some("even"), None) => DistributionKind::RoundRobin,
        (Some("all"), None) => DistributionKind::Replication,
        (Some("auto"), None) => DistributionKind::Default,
        (Some("key"), None) => {
            return Err(PgError::new(SqlState::INVALID_TABLE_DEFINITION, "DISTSTYLE KEY needs a DISTKEY column")
                .hint("Add DISTKEY (column)."));
        }
        (Some("even" | "all"), Some(_)) => {
            let message = "DISTKEY can only be used with DISTSTYLE KEY";
            return Err(PgError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        (Some(other), _) => return Err(unrecognized(other)),
    };
    set(&mut clause.kind, kind, "distribution").map(|_| ())
}

fn unrecognized(kind: &str) -> PgError {
    PgError::new(SqlState::SYNTAX_ERROR, format!("unrecognized distribution option \"{kind}\""))
        .hint("Known are REPLICATION, ROUNDROBIN, HASH (column, …) and MODULO (column).")
}

/// What stands after `DISTRIBUTE BY`.
fn postgres_xl_kind(cursor: &mut Cursor<'_, '_>) -> Result<DistributionKind> {
    if cursor.accept("round robin") {
        return Ok(DistributionKind::RoundRobin);
    }
    let word = cursor.identifier()?;
    match word.as_str() {
        "replication" | "replicated" => Ok(DistributionKind::Replication),
        "roundrobin" => Ok(DistributionKind::RoundRobin),
        "hash" | "shard" => Ok(DistributionKind::Hash(cursor.name_list()?)),
        "modulo" => {
            let mut columns = cursor.name_list()?;
            match (columns.pop(), columns.is_empty()) {
                (Some(column), true) => Ok(DistributionKind::Modulo(column)),
                _ => Err(PgError::new(SqlState::SYNTAX_ERROR, "MODULO takes exactly one column")),
            }
        }
        other => Err(unrecognized(other)),
    }
}

/// `ALTER TABLE t` whose first action is about distribution. Such actions cannot be mixed with others.
pub(crate) fn find_in_alter<'a>(sql: &'a str, tokens: &[Token<'a>]) -> Result<Option<Redistribution>> {
    let mut cursor = Cursor::new(sql, tokens);
    if !cursor.accept("alter table") {
        return Ok(None);
    }
    let if_exists = cursor.accept("if exists");
    let _ = cursor.accept("only");
    let Ok((schema, name)) = cursor.qualified_name() else { return Ok(None) };
    let _ = cursor.accept_char('*');
    actions(&mut cursor, Redistribution { schema, name, if_exists, ..Redistribution::default() })
}

/// `SECURITY LABEL FOR loxo ON TABLE t IS 'DISTRIBUTE BY …'`: what a dump says of a table's place.
pub(crate) fn find_in_label(node: &NodeEnum) -> Result<Option<Redistribution>> {
    let NodeEnum::SecLabelStmt(label) = node else { return Ok(None) };
    if label.provider != "loxo" {
        return Ok(None);
    }
    let object = label.object.as_deref().and_then(|object| object.get::<List>());
    let (Some(List { items }), ObjectType::ObjectTable) = (object, label.objtype()) else {
        return Err(PgError::unsupported("a security label of provider \"loxo\" that is not of a table"));
    };
    let (schema, name) = tree::qualified(items);
    let named =
        Redistribution { schema: schema.map(str::to_owned), name: name.to_owned(), ..Redistribution::default() };
    let tokens = tokens::tokens(&label.label).unwrap_or_default();
    actions(&mut Cursor::new(&label.label, &tokens), named)?.map(Some).ok_or_else(|| {
        PgError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid label \"{}\"", label.label))
            .hint("A label of provider \"loxo\" is a distribution clause: DISTRIBUTE BY …")
    })
}

/// `None` if the first one is not about distribution.
fn actions(cursor: &mut Cursor<'_, '_>, mut result: Redistribution) -> Result<Option<Redistribution>> {
    if !alter_action(cursor, &mut result)? {
        return Ok(None);
    }
    loop {
        let _ = cursor.accept_char(',');
        if cursor.at_end() {
            return Ok(Some(result));
        }
        if !alter_action(cursor, &mut result)? {
            let message = "Incompatible operation with data redistribution";
            return Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .hint("Put the other actions into an ALTER TABLE of their own."));
        }
    }
}

fn alter_action(cursor: &mut Cursor<'_, '_>, result: &mut Redistribution) -> Result<bool> {
    if cursor.accept("add node") {
        result.add.extend(cursor.name_list()?);
    } else if cursor.accept("delete node") {
        result.delete.extend(cursor.name_list()?);
    } else {
        return clause_at(cursor, &mut result.clause, &mut None, &mut None);
    }
    Ok(true)
}
