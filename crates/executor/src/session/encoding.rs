//! Client encodings that are not the servers'.
//!
//! Datanodes convert what they are sent and what they send, as the session's client_encoding says. But a hash is of the
//! bytes in the server, so rows that are routed on their way from node to node must not be converted.

use std::collections::HashMap;

use placement::KeyType;

use pgerror::{PgError, Result};

use crate::backend::slot::Slot;
use crate::session::Session;

impl Session {
    /// The session's client encoding, if texts have other bytes in it than in the servers. Here they cannot be read as they will be there.
    pub fn foreign_encoding(&self) -> Option<String> {
        match self.reported_now() {
            Some(reported) => foreign(reported),
            // A node could not be asked what a function has set: any may hold.
            None if self.links.iter().next().is_none() => Some("unknown".to_owned()),
            None => self.encoding_of_links(),
        }
    }

    /// The encoding in which the nodes send and take texts now, if it is such a one. Some link must be held.
    pub(crate) fn encoding_of_links(&self) -> Option<String> {
        foreign(self.links.iter().next()?.1.link.connection.parameters())
    }

    /// From here on the nodes send and take texts as they are; gives what [`Session::end_plain_texts`] wants.
    pub(crate) async fn begin_plain_texts(&mut self, nodes: &[impl Copy + Into<Slot>]) -> Result<Option<String>> {
        let encoding = self.encoding_of_links();
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

fn foreign(parameters: &HashMap<String, String>) -> Option<String> {
    parameters.get("client_encoding").filter(|encoding| is_foreign(encoding)).cloned()
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
