//! The cluster's configuration file (TOML); every field is described in `docs/configuration.md`.
//!
//! One format serves real hosts (written by a person) and local clusters (written by `loxo up` as
//! `D/cluster.toml`, with the table `[local]` added).

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use pgerror::{PgError, Result};
use pgproto::hba::Rules;
use pgproto::kept::Kept;

use crate::certificates;
use crate::disk;
use crate::sql::Endpoint;

mod hba;
pub(crate) mod invalid;
mod order;
pub(crate) mod sections;
mod tls;

pub use hba::{Hba, Map};
pub(crate) use invalid::invalid;
pub use sections::*;

/// Node ids are int2: datanodes count from 0, coordinators from 1000, gtms from 2000.
pub(crate) const DATANODES_MAX: usize = 1000;
pub(crate) const COORDINATORS_MAX: usize = 1000;
pub(crate) const COORDINATOR_ID_FIRST: usize = 1000;
pub(crate) const GTM_ID: usize = 2000;
const GTMS_MAX: usize = 9;

impl Config {
    /// Reads and validates a file. Errors (F0000) name the file, the place in it and what is expected.
    pub fn load(path: &Path) -> Result<Self> {
        let path = disk::absolute(path)?;
        let text = disk::read(&path).map_err(|e| {
            e.hint("Give the configuration file with --config, or make a local cluster with \"loxo up\".")
        })?;
        Self::parse(&text, &path)
    }

    /// Parses and validates the text of a file at `path` (absolute).
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let mut config: Config = toml::from_str(text).map_err(|e| {
            invalid(format!("configuration file \"{}\" is not valid", path.display()))
                .detail(e.to_string().trim_end().to_owned())
                .hint("docs/configuration.md describes every field.")
        })?;
        config.path = path.to_owned();
        config.put_primary_first();
        if config.datanodes.iter().all(|node| node.id.is_some()) {
            config.datanodes.sort_by_key(|node| node.id);
        }
        config.validate().map_err(|e| match e.get(pgerror::field::DETAIL) {
            Some(_) => e,
            None => e.detail(format!("Found in the configuration file \"{}\".", path.display())),
        })?;
        Ok(config)
    }

    /// Says what cannot be (F0000).
    pub fn validate(&self) -> Result<()> {
        if self.datanodes.is_empty() {
            return Err(invalid("no [[datanode]] is configured".to_owned()));
        }
        if self.gtms.is_empty() || self.gtms.len() > GTMS_MAX {
            return Err(invalid(format!("{} gtms are configured", self.gtms.len()))
                .hint(format!("Write one [[gtm]], and up to {} more that stand by.", GTMS_MAX - 1)));
        }
        if self.datanodes.len() > DATANODES_MAX || self.coordinators.len() > COORDINATORS_MAX {
            return Err(invalid(format!("more than {DATANODES_MAX} datanodes or coordinators")));
        }
        if !self.datanodes[0].primary || self.datanodes[1..].iter().any(|d| d.primary) {
            return Err(invalid("one datanode must be the primary one, and it must have the lowest id".to_owned())
                .hint("Write primary = true for the datanode that the metadata call so, or for none."));
        }
        let ids: Vec<u16> = self.datanodes_by_id().map(|(id, _)| id).collect();
        if !ids.is_sorted_by(|a, b| a < b) || ids.iter().any(|id| usize::from(*id) >= DATANODES_MAX) {
            return Err(invalid(format!("the ids of the datanodes are {ids:?}"))
                .hint(format!("Give each datanode an id of its own below {DATANODES_MAX}, or none of them.")));
        }
        self.validate_names()?;
        self.validate_addresses()?;
        self.cluster.validate_tls()?;
        self.validate_hba()?;
        for (at, gtm) in self.gtms.iter().enumerate() {
            check_metrics(&gtm_name(at), gtm.metrics.as_deref(), gtm.insecure)?;
        }
        for coordinator in &self.coordinators {
            let name = format!("coordinator \"{}\"", coordinator.name);
            check_metrics(&name, coordinator.metrics.as_deref(), coordinator.insecure)?;
            coordinator.validate_tls()?;
            // Three are the superusers'.
            if coordinator.max_clients < 4 {
                let text = format!("max_clients of coordinator \"{}\" must be 4 at least", coordinator.name);
                return Err(invalid(text));
            }
            if coordinator.auth == Auth::Trust && !coordinator.is_loopback()? {
                return Err(invalid(format!(
                    "coordinator \"{}\" would let everybody in: auth = \"trust\" on {}",
                    coordinator.name, coordinator.listen
                ))
                .hint("Use auth = \"scram\", or listen on 127.0.0.1."));
            }
        }
        Ok(())
    }

    fn validate_names(&self) -> Result<()> {
        let gtms: Vec<String> = (0..self.gtms.len().max(2)).map(gtm_name).collect();
        let mut seen: HashSet<&str> = gtms.iter().map(String::as_str).collect();
        let names = self.datanodes.iter().map(|d| &d.name).chain(self.coordinators.iter().map(|c| &c.name));
        for name in names {
            let word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !word || name.is_empty() || name.len() > 63 || name.as_bytes()[0].is_ascii_digit() {
                return Err(invalid(format!("\"{name}\" cannot be a node's name"))
                    .hint("Use 1 to 63 letters, digits and underscores, not beginning with a digit."));
            }
            if !seen.insert(name) {
                return Err(invalid(format!("the node name \"{name}\" is used twice")));
            }
        }
        // The names of the authority and of the loader: their files lie beside those of coordinators.
        let taken = [certificates::AUTHORITY, certificates::LOADER];
        let is_taken = |c: &&Coordinator| taken.contains(&c.name.as_str());
        match self.coordinators.iter().find(is_taken).filter(|_| self.cluster.tls_directory.is_some()) {
            Some(coordinator) => Err(invalid(format!("\"{}\" cannot be a coordinator's name", coordinator.name))
                .hint("Certificates in tls_directory have this name already; choose another one.")),
            None => Ok(()),
        }
    }

    fn validate_addresses(&self) -> Result<()> {
        let mut seen = HashSet::new();
        let mut addresses: Vec<_> = self.gtms.iter().map(|gtm| (gtm.host.clone(), gtm.port)).collect();
        addresses.extend(self.datanodes.iter().map(|d| (d.host.clone(), d.port)));
        for coordinator in &self.coordinators {
            addresses.push(coordinator.address()?);
            addresses.extend(coordinator.page_address()?);
        }
        for (host, port) in addresses {
            if host.is_empty() || port == 0 {
                return Err(invalid(format!("\"{host}:{port}\" is not an address")));
            }
            if !seen.insert((host.clone(), port)) {
                return Err(invalid(format!("the address {host}:{port} is used twice")));
            }
        }
        Ok(())
    }

    /// The datanodes with their ids, ascending.
    pub fn datanodes_by_id(&self) -> impl Iterator<Item = (u16, &Datanode)> {
        self.datanodes.iter().enumerate().map(|(place, node)| (node.id.unwrap_or(place as u16), node))
    }

    /// The primary datanode.
    pub fn primary(&self) -> &Datanode {
        // The configuration was validated: it is the first.
        &self.datanodes[0]
    }

    /// The file's text.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|e| PgError::internal(format!("could not write the configuration: {e}")))
    }

    /// A coordinator by name; without a name the only one there is.
    pub fn coordinator(&self, name: Option<&str>) -> Result<&Coordinator> {
        let names = || self.coordinators.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
        match name {
            Some(name) => self.coordinators.iter().find(|c| c.name == name).ok_or_else(|| {
                invalid(format!("there is no coordinator \"{name}\" in \"{}\"", self.path.display()))
                    .hint(format!("The coordinators are: {}.", names()))
            }),
            None if self.coordinators.len() == 1 => Ok(&self.coordinators[0]),
            None => Err(invalid(format!("\"{}\" has {} coordinators", self.path.display(), self.coordinators.len()))
                .hint(format!("Say which one with --name: {}.", names()))),
        }
    }

    /// A gtm by name; without a name the only one there is.
    pub fn gtm(&self, name: Option<&str>) -> Result<&Gtm> {
        let names: Vec<String> = (0..self.gtms.len()).map(gtm_name).collect();
        let at = match name {
            Some(name) => names.iter().position(|known| known == name),
            None => (names.len() == 1).then_some(0),
        };
        at.map(|at| &self.gtms[at]).ok_or_else(|| {
            let names = names.join(", ");
            match name {
                Some(name) => invalid(format!("there is no gtm \"{name}\" in \"{}\"", self.path.display()))
                    .hint(format!("The gtms are: {names}.")),
                None => invalid(format!("\"{}\" has several gtms", self.path.display()))
                    .hint(format!("Say which one with --name: {names}.")),
            }
        })
    }

    /// How coordinators reach a datanode: its host or, in a local cluster, the directory of its Unix socket.
    pub fn shortest_way(&self, datanode: &Datanode) -> String {
        let socket_dir = self.local.as_ref().and_then(|local| local.socket_dir(&datanode.name, datanode.port));
        socket_dir.unwrap_or_else(|| datanode.host.clone())
    }

    /// Where coordinators look for the gtm that leads.
    pub fn gtm_addresses(&self) -> Vec<String> {
        self.gtms.iter().map(|gtm| format!("{}:{}", gtm.host, gtm.port)).collect()
    }

    /// The password for the datanodes: the first line of `password_file`.
    pub fn password(&self) -> Result<Option<String>> {
        let Some(file) = &self.cluster.password_file else { return Ok(None) };
        first_line(&self.beside(file)).map(Some)
    }

    /// [`Self::password`] for a process that goes on when the file gets another password.
    pub fn kept_password(&self) -> Result<Option<Kept>> {
        let Some(file) = &self.cluster.password_file else { return Ok(None) };
        let path = self.beside(file);
        Kept::new(move || first_line(&path)).map(Some)
    }

    /// How to reach a server of the cluster with the cluster's user and database.
    pub fn endpoint(&self, host: &str, port: u16) -> Result<Endpoint> {
        Ok(Endpoint {
            host: host.to_owned(),
            port,
            user: self.cluster.user.clone(),
            database: self.cluster.database.clone(),
            password: self.password()?,
            encryption: self.encryption()?,
            environment: self.ssl_environment(),
        })
    }

    /// How to reach a coordinator with the cluster's user and database.
    pub fn coordinator_endpoint(&self, coordinator: &Coordinator) -> Result<Endpoint> {
        let (host, port) = coordinator.address()?;
        Ok(Endpoint { encryption: self.pinned(coordinator)?, environment: Vec::new(), ..self.endpoint(&host, port)? })
    }

    /// Where a path of the file leads.
    pub fn beside(&self, path: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("/")).join(path)
    }

    /// One connection URI per coordinator, without passwords.
    pub fn coordinator_uris(&self) -> Result<Vec<String>> {
        let uri = |c: &Coordinator| {
            let (host, port) = c.address()?;
            Ok(self.endpoint(&host, port)?.uri())
        };
        self.coordinators.iter().map(uri).collect()
    }
}

impl Config {
    /// `None`: there are none, and each coordinator's `auth` decides.
    pub fn hba(&self) -> Result<Option<Rules>> {
        hba::rules(&self.hba, &self.maps)
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

fn first_line(path: &Path) -> Result<String> {
    Ok(disk::read(path)?.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        [cluster]
        name = "prod"
        [gtm]
        host = "10.0.0.1"
        port = 6666
        [[coordinator]]
        name = "coord1"
        listen = "127.0.0.1:5433"
        auth = "trust"
        [[datanode]]
        name = "dn1"
        host = "10.0.0.2"
        port = 5432
        [[datanode]]
        name = "dn2"
        host = "10.0.0.3"
        port = 5432
    "#;

    fn parse(text: &str) -> Result<Config> {
        Config::parse(text, Path::new("/etc/loxo.toml"))
    }

    fn refused(from: &str, to: &str) -> String {
        assert!(GOOD.contains(from));
        parse(&GOOD.replacen(from, to, 1)).unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_filled_in() {
        let config = parse(GOOD).unwrap();
        assert_eq!(config.cluster.user, "postgres");
        assert!(config.datanodes[0].primary && !config.datanodes[1].primary);
        assert_eq!(config.coordinator(None).unwrap().name, "coord1");
        assert_eq!(config.coordinator_uris().unwrap(), ["postgresql://postgres@127.0.0.1:5433/postgres"]);
    }

    #[test]
    fn certificates_have_names_of_their_own() {
        let named = |name: &str| GOOD.replacen("coord1", name, 1);
        let tls = |name: &str| named(name).replacen("\"prod\"", "\"prod\"\ntls_directory = \"tls\"", 1);
        for name in ["ca", "load"] {
            parse(&named(name)).unwrap();
            assert!(parse(&tls(name)).unwrap_err().to_string().contains("cannot be a coordinator's name"));
        }
        parse(&tls("coord1")).unwrap();
    }

    #[test]
    fn several_gtms_have_numbered_names() {
        let one = parse(GOOD).unwrap();
        assert_eq!((one.gtm_addresses(), one.gtm(None).unwrap().port), (vec!["10.0.0.1:6666".to_owned()], 6666));
        let second = "[[gtm]]\nhost = \"10.0.0.2\"\nport = 6667\n[[coordinator]]";
        let text = GOOD.replacen("[gtm]", "[[gtm]]", 1).replacen("[[coordinator]]", second, 1);
        let two = parse(&text).unwrap();
        assert_eq!(two.gtm_addresses(), ["10.0.0.1:6666", "10.0.0.2:6667"]);
        assert_eq!(two.gtm(Some("gtm2")).unwrap().port, 6667);
        assert!(two.gtm(None).unwrap_err().to_string().contains("gtm, gtm2"));
        assert!(two.gtm(Some("gtm3")).unwrap_err().to_string().contains("gtm, gtm2"));
        assert_eq!(parse(&two.to_toml().unwrap()).unwrap().gtm_addresses(), two.gtm_addresses());
    }

    #[test]
    fn what_is_written_can_be_read() {
        let config = parse(GOOD).unwrap();
        let again = parse(&config.to_toml().unwrap()).unwrap();
        assert_eq!(again.to_toml().unwrap(), config.to_toml().unwrap());
    }

    #[test]
    fn mistakes_are_named() {
        assert!(refused("127.0.0.1:5433", "0.0.0.0:5433").contains("let everybody in"));
        assert!(refused("127.0.0.1:5433", "5433").contains("not host:port"));
        for page in ["0.0.0.0:8433", "10.0.0.1:8433", "example.com:8433"] {
            let text = refused("auth = \"trust\"", &format!("auth = \"trust\"\npage = \"{page}\""));
            assert!(text.contains("is no loopback address"), "{text}");
        }
        assert!(refused("auth = \"trust\"", "auth = \"trust\"\npage = \"8433\"").contains("is not host:port"));
        for (line, process) in [("auth = \"trust\"", "coordinator \"coord1\""), ("port = 6666", "gtm")] {
            let metrics = |address: &str| format!("{line}\nmetrics = \"{address}\"");
            for address in ["0.0.0.0:9187", "10.0.0.1:9187", "[::]:9187", "example.com:9187"] {
                let text = refused(line, &metrics(address));
                assert!(text.contains(&format!("{process}: metrics = \"{address}\" is no loopback address")), "{text}");
                parse(&GOOD.replacen(line, &format!("{}\ninsecure = true", metrics(address)), 1)).unwrap();
            }
            assert!(refused(line, &format!("{}\ninsecure = true", metrics("9187"))).contains("is not host:port"));
            parse(&GOOD.replacen(line, &metrics("[::1]:9187"), 1)).unwrap();
        }
        assert!(refused("auth = \"trust\"", "auth = \"trust\"\npage = \"127.0.0.1:5433\"").contains("used twice"));
        assert!(refused("name = \"dn2\"", "name = \"dn1\"").contains("used twice"));
        assert!(refused("name = \"dn2\"", "name = \"gtm\"").contains("used twice"));
        assert!(refused("name = \"dn2\"", "name = \"a b\"").contains("cannot be a node's name"));
        assert!(refused("10.0.0.3", "10.0.0.2").contains("10.0.0.2:5432 is used twice"));
        let numbered = GOOD.replacen("name = \"dn1\"", "name = \"dn1\"\nid = 0", 1);
        let numbered = numbered.replacen("name = \"dn2\"", "name = \"dn2\"\nid = 1\nprimary = true", 1);
        assert!(parse(&numbered).unwrap_err().to_string().contains("must have the lowest id"));
        assert!(refused("name = \"prod\"", "name = \"prod\"\nuser_name = \"x\"").contains("user_name"));
    }

    #[test]
    fn the_primary_datanode_may_stand_anywhere() {
        let second = parse(&GOOD.replacen("host = \"10.0.0.3\"", "primary = true\nhost = \"10.0.0.3\"", 1)).unwrap();
        assert_eq!(second.primary().host, "10.0.0.3");
        let numbered: Vec<_> = second.datanodes_by_id().map(|(id, node)| (id, node.name.as_str())).collect();
        assert_eq!(numbered, [(0, "dn2"), (1, "dn1")]);
    }

    #[test]
    fn ids_are_places_unless_they_are_said() {
        let ids = |text: &str| Ok::<_, PgError>(parse(text)?.datanodes_by_id().map(|(id, _)| id).collect::<Vec<_>>());
        assert_eq!(ids(GOOD).unwrap(), [0, 1]);
        let with_hole = GOOD.replacen("name = \"dn2\"", "name = \"dn3\"\nid = 2", 1);
        assert_eq!(ids(&with_hole).unwrap(), [0, 2]);
        assert_eq!(ids(&parse(&with_hole).unwrap().to_toml().unwrap()).unwrap(), [0, 2]);
        for wrong in ["id = 0", "id = 1000"] {
            let text = GOOD.replacen("name = \"dn2\"", &format!("name = \"dn2\"\n{wrong}"), 1);
            assert!(ids(&text).unwrap_err().to_string().contains("ids of the datanodes"), "{wrong}");
        }
    }

    #[test]
    fn a_coordinator_is_found_by_name() {
        let error = parse(GOOD).unwrap().coordinator(Some("coord9")).unwrap_err();
        assert!(error.to_string().contains("coord1"));
    }
}
