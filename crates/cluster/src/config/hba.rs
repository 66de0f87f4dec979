//! `[[hba]]` and `[[map]]` of the configuration: whom coordinators let in.

use pgerror::Result;
use pgproto::hba::{Line, Mapping, Rules};
use serde::{Deserialize, Serialize};

use super::invalid::invalid;

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
    /// Which name of a certificate: `CN` or `DN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clientname: Option<String>,
}

impl Hba {
    fn line(&self) -> Line<'_> {
        let Self { kind, database, user, address, method, map, clientname } = self;
        let (map, client_name) = (map.as_deref(), clientname.as_deref());
        Line { kind, databases: database.words(), users: user.words(), address, method, map, client_name }
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

/// A client whose certificate has this name, of the kind that the rule says, may be this user.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Map {
    pub name: String,
    pub certificate: String,
    pub user: String,
}

/// `None`: there are none.
pub(super) fn rules(hba: &[Hba], maps: &[Map]) -> Result<Option<Rules>> {
    if hba.is_empty() {
        return match maps.is_empty() {
            true => Ok(None),
            false => Err(invalid("there are maps, but no [[hba]] that uses them".to_owned())),
        };
    }
    let unknown =
        hba.iter().filter_map(|rule| rule.map.as_ref()).find(|name| maps.iter().all(|map| map.name != **name));
    if let Some(name) = unknown {
        return Err(invalid(format!("there is no [[map]] \"{name}\"")));
    }
    let mapping =
        |map: &Map| Mapping { map: map.name.clone(), certificate: map.certificate.clone(), user: map.user.clone() };
    Rules::parse(hba.iter().map(Hba::line), maps.iter().map(mapping).collect()).map(Some)
}
