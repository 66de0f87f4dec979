//! Client encodings that are not the servers'.
//!
//! Datanodes convert what they are sent and what they send, as the session's client_encoding says. But a hash is of the
//! bytes in the server, so rows that are routed on their way from node to node must not be converted.

use placement::KeyType;

use pgerror::{PgError, Result};

use crate::backend::slot::Slot;
use crate::session::Session;

impl Session {
    /// The client encoding, if texts have other bytes in it than in the servers. Here they cannot be read as they will be there.
    pub fn foreign_encoding(&self) -> Option<String> {
        let held = || self.links.iter().next().map(|(_, leased)| leased.link.connection.parameters());
        // A node could not be asked what a function has set: any may hold.
        let Some(parameters) = self.reported_now().or_else(held) else { return Some("unknown".to_owned()) };
        let encoding = parameters.get("client_encoding")?;
        is_foreign(encoding).then(|| encoding.clone())
    }

    /// From here on the nodes send and take texts as they are; gives what [`Session::end_plain_texts`] wants.
    pub(crate) async fn begin_plain_texts(&mut self, nodes: &[impl Copy + Into<Slot>]) -> Result<Option<String>> {
        let encoding = self.foreign_encoding();
        if encoding.is_some() {
            self.run_on_all(nodes, "SET LOCAL client_encoding TO 'UTF8'").await?;
        }
        Ok(encoding)
    }

    /// Only if all went well: an error's rollback brings the encoding back by itself.
    pub(crate) async fn end_plain_texts(
        &mut self,
        nodes: &[impl Copy + Into<Slot>],
        encoding: Option<String>,
    ) -> Result<()> {
        match encoding {
            Some(encoding) => {
                let sql = format!("SET LOCAL client_encoding TO {}", catalog::quote_literal(&encoding));
                self.run_on_all(nodes, &sql).await
            }
            None => Ok(()),
        }
    }
}

/// Has this client encoding other bytes than the servers'?
pub(crate) fn is_foreign(encoding: &str) -> bool {
    !matches!(encoding, "UTF8" | "SQL_ASCII")
}

/// A quoted name that is the same in every encoding.
pub(crate) fn ascii_identifier(name: &str) -> String {
    if name.is_ascii() {
        return catalog::quote_identifier(name);
    }
    let escaped = name.chars().map(|character| match character {
        '"' | '\\' => format!("{character}{character}"),
        character if character.is_ascii() => character.to_string(),
        character => format!("\\+{:06x}", u32::from(character)),
    });
    format!("U&\"{}\"", escaped.collect::<String>())
}

/// Can this key value be hashed in the encoding it has come in?
pub(crate) fn check_key(foreign: Option<&str>, key_type: KeyType, value: Option<&[u8]>) -> Result<()> {
    let is_text = matches!(key_type, KeyType::Text | KeyType::Bpchar | KeyType::Name);
    match foreign {
        Some(encoding) if is_text && value.is_some_and(|value| !value.is_ascii()) => {
            Err(PgError::unsupported(format!("a key value beyond ASCII in client encoding \"{encoding}\""))
                .hint("SET client_encoding TO 'UTF8'."))
        }
        _ => Ok(()),
    }
}
