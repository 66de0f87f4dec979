//! How a datanode tells a coordinator's calls from a user's.
//!
//! Decisions, metadata of DDL and a few locks belong to the user's own transaction: they end with it. So the calls that make them
//! are made in the user's backend, with the user's rights, and everybody may execute those functions of schema `loxo`. Each of
//! them wants a *proof*: `sha256(outer_key || sha256(inner_key || "pid function"))`. The keys are a row of
//! `loxo.seal`, made by `loxo init`, which only superusers can read. They are as long as a block of SHA-256, so this is the
//! construction of HMAC with two keys that do not depend on each other.
//!
//! Invariant: a proof holds for one backend and one function, and users do not get to see it. It travels as a parameter:
//! `pg_stat_activity` shows texts without parameters. What the backend says meanwhile (`debug_print_plan` would print the value) is
//! thrown away, and so is the context of an error, which has the parameters in it if `log_parameter_max_length_on_error` says so.

use bytes::Bytes;
use pgerror::{PgError, Result, field};
use pgproto::Connection;
use pgproto::frontend::{self, Bind};
use sha2::{Digest, Sha256};

/// The type of a proof.
const BYTEA: u32 = 17;

/// Length of each key.
pub const KEY_BYTES: usize = 64;

/// Asks a datanode for the keys; to be run by a superuser.
pub const SEAL_SQL: &str =
    "SELECT pg_catalog.encode(inner_key, 'hex'), pg_catalog.encode(outer_key, 'hex') FROM loxo.seal";

/// The keys. They are the same on all datanodes.
#[derive(Clone)]
pub struct Seal {
    inner_key: Vec<u8>,
    outer_key: Vec<u8>,
}

impl Seal {
    /// From the answer to [`SEAL_SQL`].
    pub fn read(rows: &[Vec<Option<Bytes>>]) -> Result<Self> {
        let empty = || PgError::internal("loxo.seal has no keys");
        let Some([Some(inner), Some(outer)]) = rows.first().map(Vec::as_slice) else { return Err(empty()) };
        let keys = (from_hex(inner), from_hex(outer));
        let (Some(inner_key), Some(outer_key)) = keys else { return Err(empty()) };
        Ok(Self { inner_key, outer_key })
    }

    /// Queues a statement that calls a function of schema `loxo`; in the text `$1` is the proof. Its answer is read by
    /// [`answer`] and by nothing else.
    pub fn queue(&self, connection: &mut Connection, function: &str, sql: &str) {
        let proof = Bytes::copy_from_slice(&self.proof(connection.cancel_key().process_id, function));
        let out = connection.out();
        frontend::parse(out, b"", sql.as_bytes(), &[BYTEA]);
        let bind = Bind {
            portal: Bytes::new(),
            statement: Bytes::new(),
            parameter_formats: vec![1],
            parameters: vec![Some(proof)],
            result_formats: vec![],
        };
        frontend::bind(out, &bind);
        frontend::execute(out, b"", 0);
        connection.sync();
    }

    /// What a user without a password is offered as its salt: always the same, by all coordinators, and nobody can tell it from
    /// one that was drawn. It is no proof, since no process has the number 0.
    pub fn salt_of(&self, user: &str) -> Vec<u8> {
        self.proof(0, user)[..16].to_vec()
    }

    fn proof(&self, process_id: i32, function: &str) -> [u8; 32] {
        let message = format!("{process_id} {function}");
        let inner = Sha256::new().chain_update(&self.inner_key).chain_update(message).finalize();
        Sha256::new().chain_update(&self.outer_key).chain_update(inner).finalize().into()
    }
}

/// Reads the answer to what [`Seal::queue`] has queued, without all that might show the proof.
pub async fn answer(connection: &mut Connection) -> Result<Vec<Vec<Option<Bytes>>>> {
    let told = connection.take_notices();
    let answer = connection.read_rows().await;
    connection.take_notices();
    connection.put_back_notices(told);
    answer.map(|(rows, _)| rows).map_err(|error| error.without(field::WHERE))
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(pair).collect::<Option<Vec<u8>>>().filter(|key| key.len() == KEY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal() -> Seal {
        let key = |digit: &str| Some(Bytes::from(digit.repeat(2 * KEY_BYTES)));
        Seal::read(&[vec![key("1"), key("2")]]).unwrap()
    }

    #[test]
    fn a_proof_holds_for_one_backend_and_one_function() {
        let proof = seal().proof(17, "announce");
        assert_ne!(proof, seal().proof(18, "announce"));
        assert_ne!(proof, seal().proof(17, "may_commit"));
    }

    #[test]
    fn keys_of_another_length_are_refused() {
        assert!(Seal::read(&[vec![Some("11".into()), Some("22".into())]]).is_err());
        assert!(Seal::read(&[]).is_err());
    }
}
