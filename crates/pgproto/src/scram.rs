//! SCRAM-SHA-256 (RFC 5802, RFC 7677), both ends, also with channel binding to the server's certificate (RFC 5929).
//!
//! The server end works from the verifier that PostgreSQL keeps in `pg_authid.rolpassword`
//! (`SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`). A client's proof reveals its ClientKey to a holder of the
//! verifier; with ClientKey and ServerKey the client end can then log in to any server that has the same verifier, so a
//! coordinator needs no password of its users (the idea of postgres_fdw's `use_scram_passthrough`).

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, Mac};
use pgerror::{PgError, Result, SqlState};
use rand::RngCore;
use sha2::{Digest, Sha256, Sha384, Sha512};

use crate::kept::Kept;
use crate::x509::element;

/// The mechanism's name in SASL messages.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// The mechanism's name with channel binding.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// What a client says first that binds itself to the server's certificate.
const BOUND: &str = "p=tls-server-end-point,,";
/// … that could, but was not offered it: the server will notice if it has been hidden from the client.
const NOT_OFFERED: &str = "y,,";
/// … that cannot.
const UNBOUND: &str = "n,,";
/// More rounds than this in a server's challenge would only burn our time.
const ITERATIONS_MAX: u32 = 1_000_000;
/// PostgreSQL's own number for new verifiers.
const ITERATIONS: u32 = 4096;
const NONCE_BYTES: usize = 18;

type Key = [u8; 32];

/// What proves an identity to a server.
#[derive(Clone)]
pub enum Secret {
    /// The password itself.
    Password(String),
    /// … that may change while the process runs.
    Kept(Arc<Kept>),
    /// Keys recovered from a client's proof.
    Keys(Keys),
}

/// ClientKey and ServerKey of RFC 5802.
#[derive(Clone)]
pub struct Keys {
    client_key: Key,
    server_key: Key,
}

impl Keys {
    /// As PostgreSQL does, a password that SASLprep refuses is used as it is.
    fn of_password(password: &str, salt: &[u8], iterations: u32) -> Self {
        let prepared = stringprep::saslprep(password).unwrap_or(password.into());
        let salted = salted_password(prepared.as_bytes(), salt, iterations);
        Self { client_key: hmac(&salted, &[b"Client Key"]), server_key: hmac(&salted, &[b"Server Key"]) }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Key {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn sha256(data: &[u8]) -> Key {
    Sha256::digest(data).into()
}

fn xor(a: Key, b: Key) -> Key {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// `Hi` of RFC 5802: PBKDF2 with one block.
fn salted_password(password: &[u8], salt: &[u8], iterations: u32) -> Key {
    let mut block = hmac(password, &[salt, &1u32.to_be_bytes()]);
    let mut sum = block;
    for _ in 1..iterations {
        block = hmac(password, &[&block]);
        sum = xor(sum, block);
    }
    sum
}

fn nonce() -> String {
    let mut bytes = [0; NONCE_BYTES];
    rand::rng().fill_bytes(&mut bytes);
    BASE64.encode(bytes)
}

fn malformed(what: &str) -> PgError {
    PgError::new(SqlState::PROTOCOL_VIOLATION, "malformed SCRAM message").detail(format!("{what}."))
}

/// Value of attribute `name` in a comma-separated SCRAM message.
fn attribute(message: &str, name: char) -> Option<&str> {
    message.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

/// The client's half of an exchange with a datanode.
pub struct Client {
    secret: Secret,
    /// How the first message begins.
    began: &'static str,
    /// What the server must have shown, as the last message repeats it.
    channel: String,
    client_first_bare: String,
    nonce: String,
    auth_message: Vec<u8>,
    server_key: Key,
}

impl Client {
    /// Starts an exchange; the user's name travels in the startup packet. `binding`: of the connection, if it is encrypted;
    /// `is_offered`: the server knows [`MECHANISM_PLUS`].
    pub fn new(secret: Secret, binding: Option<&ChannelBinding>, is_offered: bool) -> Self {
        let nonce = nonce();
        let (began, bound) = match binding {
            Some(binding) if is_offered => (BOUND, &binding.0[..]),
            Some(_) => (NOT_OFFERED, &[][..]),
            None => (UNBOUND, &[][..]),
        };
        Self {
            secret,
            began,
            channel: BASE64.encode([began.as_bytes(), bound].concat()),
            client_first_bare: format!("n=,r={nonce}"),
            nonce,
            auth_message: Vec::new(),
            server_key: [0; 32],
        }
    }

    /// The name of what it does.
    pub fn mechanism(&self) -> &'static str {
        if self.began == BOUND { MECHANISM_PLUS } else { MECHANISM }
    }

    /// client-first-message.
    pub fn first(&self) -> String {
        format!("{}{}", self.began, self.client_first_bare)
    }

    /// Takes server-first-message, gives client-final-message.
    pub fn respond(&mut self, server_first: &[u8]) -> Result<String> {
        let text = std::str::from_utf8(server_first).map_err(|_| malformed("It is not UTF-8"))?;
        let nonce = attribute(text, 'r').ok_or_else(|| malformed("The nonce is missing"))?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(malformed("The nonce is not ours"));
        }
        let salt =
            attribute(text, 's').and_then(|s| BASE64.decode(s).ok()).ok_or_else(|| malformed("The salt is bad"))?;
        let iterations: u32 =
            attribute(text, 'i').and_then(|i| i.parse().ok()).ok_or_else(|| malformed("The iteration count is bad"))?;
        if !(1..=ITERATIONS_MAX).contains(&iterations) {
            return Err(malformed("The iteration count is out of range"));
        }
        let keys = match &self.secret {
            Secret::Keys(keys) => keys.clone(),
            Secret::Password(password) => Keys::of_password(password, &salt, iterations),
            Secret::Kept(kept) => Keys::of_password(&kept.present(), &salt, iterations),
        };
        let without_proof = format!("c={},r={nonce}", self.channel);
        self.auth_message = format!("{},{text},{without_proof}", self.client_first_bare).into_bytes();
        let signature = hmac(&sha256(&keys.client_key), &[&self.auth_message]);
        self.server_key = keys.server_key;
        Ok(format!("{without_proof},p={}", BASE64.encode(xor(keys.client_key, signature))))
    }

    /// Checks server-final-message.
    pub fn finish(&self, server_final: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(server_final).map_err(|_| malformed("It is not UTF-8"))?;
        let expected = BASE64.encode(hmac(&self.server_key, &[&self.auth_message]));
        match attribute(text, 'v') {
            Some(signature) if signature == expected => Ok(()),
            _ => {
                Err(PgError::fatal(SqlState::INVALID_PASSWORD, "the server could not prove that it knows the password"))
            }
        }
    }
}

/// A verifier as PostgreSQL stores it.
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

impl Verifier {
    /// Parses `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`; `None` for md5 hashes and anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (parameters, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = parameters.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = |s: &str| BASE64.decode(s).ok()?.try_into().ok();
        Some(Self {
            iterations: iterations.parse().ok()?,
            salt: BASE64.decode(salt).ok()?,
            stored_key: key(stored)?,
            server_key: key(server)?,
        })
    }

    /// A new verifier of a password, as PostgreSQL writes it.
    pub fn text_of(password: &str) -> String {
        let mut salt = [0; 16];
        rand::rng().fill_bytes(&mut salt);
        let keys = Keys::of_password(password, &salt, ITERATIONS);
        let stored = sha256(&keys.client_key);
        let [salt, stored, server] = [&salt[..], &stored[..], &keys.server_key[..]].map(|bytes| BASE64.encode(bytes));
        format!("{MECHANISM}${ITERATIONS}:{salt}${stored}:{server}")
    }

    /// A verifier nobody can satisfy, for unknown users: the exchange then fails at its end like a wrong password. An attacker who
    /// could compute the salt would know that there is no such user.
    pub fn mock(salt: Vec<u8>) -> Self {
        let mut never = [0; 32];
        rand::rng().fill_bytes(&mut never);
        Self { iterations: 4096, salt, stored_key: never, server_key: never }
    }
}

/// What a client that uses channel binding proves to have seen: the server's certificate (`tls-server-end-point`).
#[derive(Clone, Debug)]
pub struct ChannelBinding(Vec<u8>);

impl ChannelBinding {
    /// From a certificate (DER), by the hash function of its signature; MD5 and SHA-1 count as SHA-256. `None` for signatures of
    /// which nothing is agreed on.
    pub fn of_certificate(der: &[u8]) -> Option<Self> {
        const RSA: [u8; 8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
        const ECDSA: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
        let (_, certificate, _) = element(der)?;
        let (_, _, after_content) = element(certificate)?;
        let (_, algorithm, _) = element(after_content)?;
        let (_, oid, _) = element(algorithm)?;
        let hash = match (oid.strip_prefix(&RSA), oid.strip_prefix(&ECDSA)) {
            (Some([4 | 5 | 11]), _) | (_, Some([2])) => Sha256::digest(der).to_vec(),
            (Some([12]), _) | (_, Some([3])) => Sha384::digest(der).to_vec(),
            (Some([13]), _) | (_, Some([4])) => Sha512::digest(der).to_vec(),
            _ => return None,
        };
        Some(Self(hash))
    }

    /// The hash.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// How a client's first message begins, which must go with the mechanism that it has chosen (`read_client_first_message`).
fn beginning(text: &str, is_bound: bool) -> Result<&'static str> {
    match (text.chars().next(), is_bound) {
        (None, _) => Err(malformed("The message is empty")),
        (Some('n' | 'y'), true) => Err(malformed(
            "The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data",
        )),
        (Some('p'), false) => Err(malformed(
            "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel binding data",
        )),
        (Some('p'), true) if attribute(text, 'p') != attribute(BOUND, 'p') => {
            let kind = attribute(text, 'p').unwrap_or_default();
            let text = format!("unsupported SCRAM channel-binding type \"{}\"", printable(kind));
            Err(PgError::fatal(SqlState::PROTOCOL_VIOLATION, text))
        }
        (Some('n' | 'y' | 'p'), _) => {
            [UNBOUND, NOT_OFFERED, BOUND].into_iter().find(|start| text.starts_with(start)).ok_or_else(|| {
                let text = "client uses authorization identity, but it is not supported";
                PgError::fatal(SqlState::FEATURE_NOT_SUPPORTED, text)
            })
        }
        (Some(other), _) => {
            Err(malformed(&format!("Unexpected channel-binding flag \"{}\"", printable(&other.to_string()))))
        }
    }
}

/// What a client has said, for a message (`sanitize_str`).
fn printable(text: &str) -> String {
    const BYTES_MAX: usize = 30;
    text.bytes().take(BYTES_MAX).map(|byte| if byte.is_ascii_graphic() { char::from(byte) } else { '?' }).collect()
}

/// The server's half of an exchange with a client.
pub struct Server {
    verifier: Verifier,
    /// What the client must repeat: how it began, and what it is bound to.
    channel: String,
    client_first_bare: String,
    server_first: String,
    nonce: String,
}

impl Server {
    /// Takes client-first-message; [`Server::first`] is the answer to it. `binding`: the client was offered it, and `is_bound`: it
    /// has chosen it.
    pub fn new(
        verifier: Verifier,
        client_first: &[u8],
        binding: Option<&ChannelBinding>,
        is_bound: bool,
    ) -> Result<Self> {
        let text = std::str::from_utf8(client_first).map_err(|_| malformed("It is not UTF-8"))?;
        let began = beginning(text, is_bound)?;
        if began == NOT_OFFERED && binding.is_some() {
            // Somebody in between may have hidden from the client that it can be used.
            return Err(PgError::fatal(SqlState::INVALID_AUTHORIZATION, "SCRAM channel binding negotiation error")
                .detail("The client supports SCRAM channel binding but thinks the server does not.  However, this server does support channel binding."));
        }
        let bound = binding.filter(|_| is_bound).map_or(&[][..], |binding| &binding.0);
        let channel = BASE64.encode([began.as_bytes(), bound].concat());
        let bare = &text[began.len()..];
        let theirs = attribute(bare, 'r').filter(|r| !r.is_empty()).ok_or_else(|| malformed("The nonce is missing"))?;
        let nonce = format!("{theirs}{}", nonce());
        let server_first = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        Ok(Self { client_first_bare: bare.to_owned(), channel, verifier, server_first, nonce })
    }

    /// server-first-message.
    pub fn first(&self) -> &str {
        &self.server_first
    }

    /// Takes client-final-message; gives server-final-message and the client's keys, or 28P01.
    pub fn finish(&self, client_final: &[u8], user: &str) -> Result<(String, Keys)> {
        let text = std::str::from_utf8(client_final).map_err(|_| malformed("It is not UTF-8"))?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or_else(|| malformed("The proof is missing"))?;
        if attribute(without_proof, 'r') != Some(&self.nonce) {
            return Err(malformed("The nonce is not that of this exchange"));
        }
        if attribute(without_proof, 'c') != Some(&self.channel) {
            return Err(PgError::fatal(SqlState::INVALID_AUTHORIZATION, "SCRAM channel binding check failed"));
        }
        let proof: Key =
            BASE64.decode(proof).ok().and_then(|p| p.try_into().ok()).ok_or_else(|| malformed("The proof is bad"))?;
        let auth_message = format!("{},{},{without_proof}", self.client_first_bare, self.server_first);
        let client_key = xor(proof, hmac(&self.verifier.stored_key, &[auth_message.as_bytes()]));
        if sha256(&client_key) != self.verifier.stored_key {
            return Err(PgError::fatal(
                SqlState::INVALID_PASSWORD,
                format!("password authentication failed for user \"{user}\""),
            ));
        }
        let signature = hmac(&self.verifier.server_key, &[auth_message.as_bytes()]);
        let keys = Keys { client_key, server_key: self.verifier.server_key };
        Ok((format!("v={}", BASE64.encode(signature)), keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A verifier for `password` as PostgreSQL's `scram_build_secret` makes it.
    fn verifier(password: &str) -> Verifier {
        let salt = b"0123456789abcdef".to_vec();
        let salted = salted_password(password.as_bytes(), &salt, 4096);
        Verifier {
            iterations: 4096,
            stored_key: sha256(&hmac(&salted, &[b"Client Key"])),
            server_key: hmac(&salted, &[b"Server Key"]),
            salt,
        }
    }

    fn exchange(secret: Secret, verifier: Verifier) -> Result<Keys> {
        bound_exchange(secret, verifier, [None, None], true)
    }

    /// What the client and the server take their channel for; whether the client hears of the better mechanism.
    fn bound_exchange(
        secret: Secret,
        verifier: Verifier,
        [of_client, of_server]: [Option<&ChannelBinding>; 2],
        is_heard: bool,
    ) -> Result<Keys> {
        let mut client = Client::new(secret, of_client, of_server.is_some() && is_heard);
        let is_bound = client.mechanism() == MECHANISM_PLUS;
        let server = Server::new(verifier, client.first().as_bytes(), of_server, is_bound)?;
        let answer = client.respond(server.first().as_bytes())?;
        let (last, keys) = server.finish(answer.as_bytes(), "u")?;
        client.finish(last.as_bytes())?;
        Ok(keys)
    }

    #[test]
    fn the_right_password_gives_keys_that_log_in_again() {
        let keys = exchange(Secret::Password("s3cret".into()), verifier("s3cret")).unwrap();
        exchange(Secret::Keys(keys), verifier("s3cret")).unwrap();
    }

    #[test]
    fn both_ends_see_the_same_certificate_or_there_is_no_login() {
        let [one, other] = [1, 2].map(|byte| ChannelBinding(vec![byte; 32]));
        let exchange = |bindings, is_heard| {
            bound_exchange(Secret::Password("s3cret".into()), verifier("s3cret"), bindings, is_heard).map(drop)
        };
        assert!(exchange([Some(&one), Some(&one)], true).is_ok());
        // A server without it, and a client that cannot.
        assert!(exchange([Some(&one), None], true).is_ok());
        assert!(exchange([None, Some(&one)], true).is_ok());
        for (bindings, is_heard) in [([Some(&one), Some(&other)], true), ([Some(&one), Some(&one)], false)] {
            assert_eq!(exchange(bindings, is_heard).unwrap_err().code(), SqlState::INVALID_AUTHORIZATION);
        }
    }

    #[test]
    fn a_wrong_password_is_28p01() {
        let error = exchange(Secret::Password("wrong".into()), verifier("s3cret")).err().unwrap();
        assert_eq!(error.code(), SqlState::INVALID_PASSWORD);
    }

    #[test]
    fn a_verifier_that_is_made_here_is_one_of_the_password() {
        let verifier = || Verifier::parse(&Verifier::text_of("se\u{a0}cret")).unwrap();
        assert!(exchange(Secret::Password("se cret".into()), verifier()).is_ok());
        assert!(exchange(Secret::Password("wrong".into()), verifier()).is_err());
        assert_ne!(Verifier::text_of("x"), Verifier::text_of("x"));
    }

    #[test]
    fn a_first_message_that_cannot_be_is_refused_as_postgresql_does() {
        let first = |text: &str, is_bound| {
            let server = Server::new(Verifier::mock(vec![1; 16]), text.as_bytes(), None, is_bound);
            let error = server.err().unwrap();
            format!("{} {} {}", error.code().as_str(), error.message(), error.text(pgerror::field::DETAIL))
        };
        assert_eq!(first("", false), "08P01 malformed SCRAM message The message is empty.");
        let unique = "08P01 unsupported SCRAM channel-binding type \"tls-unique\" ";
        assert_eq!(first("p=tls-unique,,n=,r=x", true), unique);
        assert!(first("p=tls-unique,,n=,r=x", false).contains("SCRAM-SHA-256 without channel binding"));
        assert!(first("n,,n=,r=x", true).contains("does not include channel binding data"));
        assert!(first("x,,n=,r=x", false).contains("Unexpected channel-binding flag \"x\""));
        assert!(first("n,a=other,n=,r=x", false).starts_with("0A000 client uses authorization identity"));
    }

    #[test]
    fn an_unknown_user_fails_like_a_wrong_password() {
        let error = exchange(Secret::Password("x".into()), Verifier::mock(vec![1; 16])).err().unwrap();
        assert_eq!(error.code(), SqlState::INVALID_PASSWORD);
    }
}
