//! `[[hba]]` and `[[map]]` of the configuration: whom coordinators let in.

use pgerror::Result;
use pgproto::hba::{Line, Mapping, Rules};
use serde::{Deserialize, Serialize};

use crate::config::{Auth, Config, invalid};

/// One rule, as a line of pg_hba.conf.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Hba {
    #[serde(rename = "type")]
    pub kind: String,
    pub database: OneOrMany,
    pub user: OneOrMany,
    pub address: String,
    pub method: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<String>,
}

impl Hba {
    fn line(&self) -> Line<'_> {
        let Self { kind, database, user, address, method, map } = self;
        Line { kind, databases: database.words(), users: user.words(), address, method, map: map.as_deref() }
    }
}

/// `"a"`, or `["a", "b"]`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged, expecting = "a name in quotes, or several in brackets")]
#[allow(missing_docs)]
pub enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn words(&self) -> &[String] {
        match self {
            OneOrMany::One(word) => std::slice::from_ref(word),
            OneOrMany::Many(words) => words,
        }
    }
}

/// Whoever shows a certificate with this common name may be this user.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Map {
    pub name: String,
    pub certificate: String,
    pub user: String,
}

impl Config {
    /// `None`: there are none, and each coordinator's `auth` decides.
    pub fn hba(&self) -> Result<Option<Rules>> {
        if self.hba.is_empty() {
            return match self.maps.is_empty() {
                true => Ok(None),
                false => Err(invalid("there are maps, but no [[hba]] that uses them".to_owned())),
            };
        }
        let unknown = self
            .hba
            .iter()
            .filter_map(|rule| rule.map.as_ref())
            .find(|name| self.maps.iter().all(|map| map.name != **name));
        if let Some(name) = unknown {
            return Err(invalid(format!("there is no [[map]] \"{name}\"")));
        }
        let mapping =
            |map: &Map| Mapping { map: map.name.clone(), certificate: map.certificate.clone(), user: map.user.clone() };
        Rules::parse(self.hba.iter().map(Hba::line), self.maps.iter().map(mapping).collect()).map(Some)
    }

    pub(crate) fn validate_hba(&self) -> Result<()> {
        let Some(rules) = self.hba()? else { return Ok(()) };
        for coordinator in &self.coordinators {
            let name = &coordinator.name;
            if coordinator.auth == Auth::Trust {
                return Err(invalid(format!(
                    "[[hba]] decides who gets in, not auth = \"trust\" of coordinator \"{name}\""
                ))
                .hint("Leave one of them out."));
            }
            if rules.ask_for_certificates() && coordinator.tls_client_ca.is_none() {
                return Err(invalid(format!(
                    "coordinator \"{name}\" cannot verify the certificates that [[hba]] asks for"
                ))
                .hint("Add tls_client_ca to it, the path of a PEM file."));
            }
        }
        Ok(())
    }
}
