//! Options of roles and databases that datanodes get in another form.
//!
//! PostgreSQL stores a password with a random salt. Each datanode would take another one, and a client whom the coordinator has
//! asked for the proof of one of them could not be passed on to the others. So the coordinator sends all of them the same verifier.
//!
//! A datanode would count a coordinator's pooled connections against CONNECTION LIMIT. It gets one that it never meets, from
//! [`LIMIT_BASE`] on; coordinators count sessions, and read the limits less that (`loxo.pg_roles()`). With ALLOW_CONNECTIONS false it
//! would keep coordinators out too: that is noted in the limit (`loxo.stored_limit`).

use pg_query::protobuf::{AlterDatabaseStmt, DefElem};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::plan::{DdlPlan, Effect};
use crate::tree::{self, Get};

/// What is added to a CONNECTION LIMIT; one of half as much or more is none.
pub const LIMIT_BASE: i32 = 1 << 30;

/// The statement as datanodes get it, with `verifier` of a password in its place; `None` if that is no other.
pub fn for_nodes(sql: &str, mut verifier: impl FnMut(&str) -> String) -> Result<Option<String>> {
    let Ok(parsed) = pg_query::parse(sql, 0) else { return Ok(None) };
    let node = parsed.protobuf.stmts.into_iter().next().and_then(|raw| raw.stmt).and_then(|statement| statement.node);
    let Some(mut node) = node else { return Ok(None) };
    let options = match &mut node {
        NodeEnum::CreateRoleStmt(create) => &mut create.options,
        NodeEnum::AlterRoleStmt(alter) => &mut alter.options,
        NodeEnum::CreatedbStmt(create) => &mut create.options,
        _ => return Ok(None),
    };
    let mut is_other = false;
    for option in options.iter_mut().filter_map(|option| option.get_mut::<DefElem>()) {
        match (&*option.defname, option.arg.as_mut().and_then(|value| value.node.as_mut())) {
            // An empty password is none, PostgreSQL says.
            ("password", Some(NodeEnum::String(text))) if !text.sval.is_empty() && !is_verifier(&text.sval) => {
                text.sval = verifier(&text.sval);
            }
            ("connectionlimit" | "connection_limit", Some(NodeEnum::Integer(limit))) if limit.ival >= 0 => {
                limit.ival = LIMIT_BASE + limit.ival.min(LIMIT_BASE / 2 - 1);
            }
            _ => continue,
        }
        is_other = true;
    }
    if is_other { tree::deparse(&node).map(Some) } else { Ok(None) }
}

/// ALTER DATABASE: nodes get what it does not say of connections. What they are to refuse they get as it stands.
pub(super) fn alter_database(plan: DdlPlan, alter: &AlterDatabaseStmt) -> Result<DdlPlan> {
    if tree::options(&alter.options).any(|option| option.defname == "tablespace") {
        return Err(PgError::unsupported("ALTER DATABASE … SET TABLESPACE, which some nodes might do and others not,")
            .hint("Move tables by ALTER TABLE ALL IN TABLESPACE, or create another database there with this one as its template."));
    }
    let (mut rest, mut limit, mut allowed) = (alter.clone(), None, None);
    rest.options.retain(|option| {
        let Some(DefElem { defname, arg, .. }) = option.get() else { return true };
        match (&**defname, arg.as_deref()) {
            ("connection_limit", value) => limit = value.map_or(Some(-1), number).filter(|most| *most >= -1),
            ("allow_connections", value) => allowed = value.map_or(Some(true), truth),
            _ => return true,
        }
        false
    });
    let understood = usize::from(limit.is_some()) + usize::from(allowed.is_some());
    if understood == 0 || rest.options.len() + understood < alter.options.len() {
        return Ok(plan);
    }
    let effects = vec![Effect::SetConnections { database: alter.dbname.clone(), limit, allowed }];
    Ok(DdlPlan { node_sql: tree::deparse(&NodeEnum::AlterDatabaseStmt(rest))?, effects, ..plan })
}

fn number(value: &Node) -> Option<i32> {
    if let Some(NodeEnum::Integer(number)) = &value.node { Some(number.ival) } else { None }
}

/// As PostgreSQL reads it (`defGetBoolean`).
fn truth(value: &Node) -> Option<bool> {
    let text = tree::text_of(value).unwrap_or_default().to_ascii_lowercase();
    match (number(value), text.as_str()) {
        (Some(1), _) | (_, "true" | "on") => Some(true),
        (Some(0), _) | (_, "false" | "off") => Some(false),
        _ => None,
    }
}

/// As PostgreSQL tells them (`get_password_type`).
fn is_verifier(password: &str) -> bool {
    let is_md5 = |digits: &str| digits.len() == 32 && digits.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    password.strip_prefix("md5").is_some_and(is_md5) || password.starts_with("SCRAM-SHA-256$")
}
