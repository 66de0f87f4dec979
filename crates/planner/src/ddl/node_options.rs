//! Options of roles and databases that datanodes get in another form.
//!
//! PostgreSQL stores a password with a random salt. Each datanode would take another one, and a client whom the coordinator has
//! asked for the proof of one of them could not be passed on to the others. So the coordinator sends all of them the same verifier.
//!
//! A datanode would count a coordinator's pooled connections against CONNECTION LIMIT. It gets one that it never meets, from
//! [`LIMIT_BASE`] on; coordinators count sessions, and read the limits less that (`loxo.pg_roles()`).

use pg_query::NodeEnum;
use pg_query::protobuf::DefElem;
use pgerror::Result;

use crate::tree::{self, Get};

/// What is added to a CONNECTION LIMIT; the sum is at most what PostgreSQL takes.
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
        NodeEnum::AlterDatabaseStmt(alter) => &mut alter.options,
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
                limit.ival = limit.ival.saturating_add(LIMIT_BASE);
            }
            _ => continue,
        }
        is_other = true;
    }
    if is_other { tree::deparse(&node).map(Some) } else { Ok(None) }
}

/// As PostgreSQL tells them (`get_password_type`).
fn is_verifier(password: &str) -> bool {
    let is_md5 = |digits: &str| digits.len() == 32 && digits.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    password.strip_prefix("md5").is_some_and(is_md5) || password.starts_with("SCRAM-SHA-256$")
}
