//! Passwords in CREATE ROLE and ALTER ROLE.
//!
//! PostgreSQL stores a password with a random salt. Each datanode would take another one, and a client whom the coordinator has
//! asked for the proof of one of them could not be passed on to the others. So the coordinator sends all of them the same verifier.

use pg_query::NodeEnum;
use pg_query::protobuf::{DefElem, String as Text};
use pgerror::Result;

use crate::tree::{self, Get};

/// The statement with `verifier` of the password in place of the password; `None` if it sets none, or one that is a verifier already.
pub fn with_verifier(sql: &str, verifier: impl FnOnce(&str) -> String) -> Result<Option<String>> {
    let Ok(parsed) = pg_query::parse(sql, 0) else { return Ok(None) };
    let node = parsed.protobuf.stmts.into_iter().next().and_then(|raw| raw.stmt).and_then(|statement| statement.node);
    let Some(mut node) = node else { return Ok(None) };
    let options = match &mut node {
        NodeEnum::CreateRoleStmt(create) => &mut create.options,
        NodeEnum::AlterRoleStmt(alter) => &mut alter.options,
        _ => return Ok(None),
    };
    let Some(password) = options.iter_mut().find_map(password_of) else { return Ok(None) };
    // An empty password is none, PostgreSQL says.
    if password.sval.is_empty() || is_verifier(&password.sval) {
        return Ok(None);
    }
    password.sval = verifier(&password.sval);
    tree::deparse(&node).map(Some)
}

fn password_of(option: &mut pg_query::Node) -> Option<&mut Text> {
    let element = option.get_mut::<DefElem>().filter(|element| element.defname == "password")?;
    element.arg.get_mut()
}

/// As PostgreSQL tells them (`get_password_type`).
fn is_verifier(password: &str) -> bool {
    let is_md5 = |digits: &str| digits.len() == 32 && digits.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    password.strip_prefix("md5").is_some_and(is_md5) || password.starts_with("SCRAM-SHA-256$")
}
