//! The file that says which hosts there are and what runs on each; `docs/operate/deploy.md` describes its fields.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cluster::settings::{Profile, parse_assignment};
use cluster::{Hba, Log, Map};
use pgerror::{PgError, Result, SqlState};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Inventory {
    pub cluster: Cluster,
    #[serde(default)]
    pub ssh: Ssh,
    #[serde(default)]
    pub ports: Ports,
    /// Settings of the datanodes, beside the profile's.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    #[serde(default)]
    pub log: Log,
    #[serde(default)]
    pub hba: Vec<Hba>,
    #[serde(rename = "map", default)]
    pub maps: Vec<Map>,
    #[serde(rename = "host")]
    pub hosts: Vec<Host>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cluster {
    pub name: String,
    #[serde(default = "directory")]
    pub directory: PathBuf,
    #[serde(default)]
    pub profile: Profile,
    /// Where initdb and postgres are on the hosts.
    pub pg_bin: Option<PathBuf>,
    /// Units of systemd start the processes, where it runs a host and root logs in.
    #[serde(default = "by_systemd")]
    pub systemd: bool,
}

fn by_systemd() -> bool {
    true
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ssh {
    pub user: Option<String>,
    pub port: Option<u16>,
    #[serde(default)]
    pub options: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Ports {
    pub coordinator: u16,
    /// Port of a host's first datanode; the others follow.
    pub datanode: u16,
    pub gtm: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self { coordinator: 5432, datanode: 5440, gtm: 6666 }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Host {
    pub address: IpAddr,
    /// Names that clients know it by.
    #[serde(default)]
    pub names: Vec<String>,
    /// Where ssh finds it, if that is not the address.
    pub ssh: Option<String>,
    pub directory: Option<PathBuf>,
    #[serde(default)]
    pub gtm: bool,
    pub coordinator: Option<String>,
    #[serde(default)]
    pub datanodes: Vec<String>,
}

/// Names of other things in [`cluster::host::HOME`] and in the folders of certificates.
const TAKEN: [&str; 9] = ["bin", "ca", "load", "lock", "log", "loxo", "password", "servers", "tls"];

/// A byte may be four in a unit's name, which is a file's, beside a node's name of 63.
const CLUSTER_NAME_MAX: usize = 40;

fn directory() -> PathBuf {
    PathBuf::from("/var/lib/loxo")
}

impl Inventory {
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            PgError::new(SqlState::UNDEFINED_FILE, format!("could not read \"{}\": {error}", path.display()))
                .hint("docs/operate/deploy.md has an example of an inventory.")
        })?;
        Self::parse(&text).map_err(|error| match error.get(pgerror::field::DETAIL) {
            Some(_) => error,
            None => error.detail(format!("Found in the inventory \"{}\".", path.display())),
        })
    }

    fn parse(text: &str) -> Result<Self> {
        let mut inventory: Self = toml::from_str(text).map_err(|error| {
            invalid("the inventory is not valid")
                .detail(error.to_string().trim_end().to_owned())
                .hint("docs/operate/deploy.md describes every field.")
        })?;
        inventory.set = settings(&inventory.set)?;
        inventory.validate().map(|()| inventory)
    }

    pub(crate) fn directory_of<'a>(&'a self, host: &'a Host) -> &'a Path {
        host.directory.as_deref().unwrap_or(&self.cluster.directory)
    }

    fn validate(&self) -> Result<()> {
        let some =
            |what: &str, any: bool| match any {
                true => Ok(()),
                false => Err(invalid(format!("no host has a {what}"))
                    .hint("A cluster needs a gtm, a coordinator and a datanode.")),
            };
        some("datanode", self.hosts.iter().any(|host| !host.datanodes.is_empty()))?;
        some("gtm", self.hosts.iter().any(|host| host.gtm))?;
        some("coordinator", self.hosts.iter().any(|host| host.coordinator.is_some()))?;
        if self.cluster.systemd && self.cluster.name.len() > CLUSTER_NAME_MAX {
            return Err(invalid(format!("the cluster's name is longer than {CLUSTER_NAME_MAX} bytes")).hint(
                "It is part of the names of systemd's units; with systemd = false in [cluster] there are none.",
            ));
        }
        let mut seen = HashSet::new();
        for host in &self.hosts {
            let address = host.address;
            if address.is_unspecified() {
                return Err(invalid(format!("{address} is no address of a host")));
            }
            if !seen.insert(address) {
                return Err(invalid(format!("the host {address} is there twice"))
                    .hint("Write all that runs on it into one [[host]]."));
            }
            if !host.gtm && host.coordinator.is_none() && host.datanodes.is_empty() {
                return Err(invalid(format!("nothing runs on the host {address}"))
                    .hint("Give it \"datanodes\", \"coordinator\" or \"gtm\", or leave it out."));
            }
            check_path(self.directory_of(host))?;
            check_destination(host.ssh.as_deref())?;
            host.names.iter().try_for_each(|name| check_name(name))?;
            host.datanodes.iter().chain(&host.coordinator).try_for_each(|name| check_node(name))?;
        }
        self.cluster.pg_bin.as_deref().map_or(Ok(()), check_path)?;
        check_destination(self.ssh.user.as_deref())?;
        Ok(())
    }
}

/// As PostgreSQL takes them. What a command line may not set, a file may not either.
fn settings(set: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let mut settings = BTreeMap::new();
    for (name, value) in set {
        let (name, value) = parse_assignment(&format!("{name}={value}"))?;
        if settings.insert(name.clone(), value).is_some() {
            return Err(
                invalid(format!("[set] has \"{name}\" twice")).hint("Names are the same in small and capital letters.")
            );
        }
    }
    Ok(settings)
}

/// A datanode's directory has its name, and so have files of certificates.
fn check_node(name: &str) -> Result<()> {
    match TAKEN.contains(&name) {
        true => Err(invalid(format!("\"{name}\" cannot be a node's name: files of the cluster have it"))
            .hint("Choose another name, for example dn1 or coord1.")),
        false => Ok(()),
    }
}

/// The path is a word of a command on the host's shell, and of pg_ctl's.
fn check_path(path: &Path) -> Result<()> {
    let text = path.to_str().unwrap_or_default();
    let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b));
    let is_clean = path.components().collect::<PathBuf>().as_os_str() == path.as_os_str() && !text.contains("..");
    match path.is_absolute() && is_plain && is_clean && text.len() > 1 {
        true => Ok(()),
        false => Err(invalid(format!("the directory \"{}\" cannot be used", path.display()))
            .hint("Write an absolute path of letters, digits, dots, hyphens and underscores.")),
    }
}

/// Names of certificates.
fn check_name(name: &str) -> Result<()> {
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
    match is_name {
        true => Ok(()),
        false => Err(invalid(format!("\"{name}\" is no host name"))),
    }
}

/// ssh would take it for an option.
fn check_destination(word: Option<&str>) -> Result<()> {
    match word {
        Some(word) if word.is_empty() || word.starts_with('-') || word.contains(char::is_whitespace) => {
            Err(invalid(format!("\"{word}\" is nothing that ssh can connect to")))
        }
        _ => Ok(()),
    }
}

pub(crate) fn invalid(text: impl Into<String>) -> PgError {
    PgError::new(SqlState::CONFIG_FILE_ERROR, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        [cluster]
        name = "sales"
        [[host]]
        address = "10.0.0.10"
        gtm = true
        coordinator = "coord1"
        [[host]]
        address = "10.0.0.21"
        datanodes = ["dn1"]
    "#;

    #[track_caller]
    fn refused(from: &str, to: &str, words: &str) {
        assert!(GOOD.contains(from));
        let error = Inventory::parse(&GOOD.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }

    #[test]
    fn the_least_is_enough() {
        let inventory = Inventory::parse(GOOD).unwrap();
        assert_eq!(inventory.directory_of(&inventory.hosts[1]), Path::new("/var/lib/loxo"));
        assert_eq!((inventory.ports.coordinator, inventory.ports.datanode, inventory.ports.gtm), (5432, 5440, 6666));
    }

    #[test]
    fn settings_are_as_postgresql_has_them() {
        let text = GOOD.replacen("[[host]]", "[set]\nTimeZone = \" CET\"\n[[host]]", 1);
        let set = Inventory::parse(&text).unwrap().set;
        assert_eq!(set, [("timezone".to_owned(), "CET".to_owned())].into());
    }

    #[test]
    fn mistakes_are_named() {
        refused("gtm = true", "gmt = true", "unknown field `gmt`");
        refused("gtm = true", "", "no host has a gtm");
        refused("10.0.0.21", "10.0.0.10", "there twice");
        refused("10.0.0.21", "db1", "invalid IP address");
        refused("datanodes = [\"dn1\"]", "", "no host has a datanode");
        refused("name = \"sales\"", "name = \"sales\"\ndirectory = \"/a b\"", "cannot be used");
        refused("name = \"sales\"", "name = \"sales\"\ndirectory = \"/a/../b\"", "cannot be used");
        refused("gtm = true", "gtm = true\nssh = \"-oProxyCommand=x\"", "nothing that ssh can connect to");
        refused("\"coord1\"", "\"ca\"", "cannot be a node's name");
        refused("\"coord1\"", "\"load\"", "cannot be a node's name");
        refused("\"dn1\"", "\"log\"", "cannot be a node's name");
        refused("[[host]]", "[set]\nwork_mem = \"1MB\"\nWork_Mem = \"2MB\"\n[[host]]", "[set] has \"work_mem\" twice");
        refused("[[host]]", "[set]\nport = \"1\"\n[[host]]", "the cluster depends on it");
    }
}
