//! What the inventory makes of the cluster: its configuration, and what each host has to be.
//!
//! The inventory may add things to a cluster that exists. What it takes away or moves is refused: those are commands of their own.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use cluster::certificates;
use cluster::host::{File, Joining, Process, Server, Starting, Wanted};
use cluster::{
    Auth, ClusterSection, Config, Coordinator, Datanode, FAILED_LOGINS_MAX, FAILED_LOGINS_PAUSE, Gtm, MAX_CLIENTS,
    SslMode, gtm_name, pool_left,
};
use pgerror::{PgError, Result, SqlState};

use crate::inventory::{Host, Inventory, invalid};
use crate::kept::{AUTHORITY_FILE, CONFIG_FILE, Kept, PASSWORD_FILE};

/// With fewer connections to each datanode a coordinator is of little use.
const POOL_SIZE_LEAST: usize = 5;

/// In [`Kept`], and in the home on the hosts.
const TLS: &str = "tls";
const SERVERS: &str = "servers";

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Without the datanodes that are joining.
    pub config: Config,
    /// Datanodes that the inventory adds to the cluster.
    pub joining: Vec<Datanode>,
}

impl Plan {
    /// `known`: the configuration of an earlier call.
    pub(crate) fn new(inventory: &Inventory, known: Option<&Config>, path: PathBuf) -> Result<Self> {
        // Before there is a cluster nothing is bound to anything.
        let known = known.filter(|known| known.cluster.id.is_some());
        if let Some(known) = known.filter(|known| known.cluster.name != inventory.cluster.name) {
            let text = format!(
                "the inventory calls the cluster \"{}\", which is \"{}\"",
                inventory.cluster.name, known.cluster.name
            );
            return Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
                .hint("Write the name back: systemd knows the cluster's units by it."));
        }
        let cluster = ClusterSection {
            name: inventory.cluster.name.clone(),
            id: known.and_then(|known| known.cluster.id.clone()),
            database: "postgres".to_owned(),
            user: "postgres".to_owned(),
            password_file: Some(PASSWORD_FILE.into()),
            sslmode: SslMode::VerifyFull,
            sslrootcert: Some(AUTHORITY_FILE.into()),
            sslcert: None,
            sslkey: None,
            tls_directory: Some(TLS.into()),
        };
        let (datanodes, joining) = datanodes(inventory, known)?;
        let mut config = Config {
            cluster,
            gtms: gtms(inventory, known)?,
            coordinators: known.map_or_else(Vec::new, |known| known.coordinators.clone()),
            datanodes,
            log: inventory.log.clone(),
            hba: inventory.hba.clone(),
            maps: inventory.maps.clone(),
            local: None,
            path,
        };
        add_coordinators(inventory, &mut config)?;
        let mut whole = config.clone();
        whole.datanodes.extend(joining.iter().cloned());
        whole.validate()?;
        Ok(Self { config, joining })
    }

    /// Servers whose certificates clients verify.
    pub(crate) fn servers(&self, inventory: &Inventory) -> Vec<certificates::Host> {
        let of_host = |host: &Host| {
            let known_as: Vec<String> = std::iter::once(host.address.to_string()).chain(host.names.clone()).collect();
            let names = host.datanodes.iter().chain(&host.coordinator).cloned();
            names.map(|name| certificates::Host { name, known_as: known_as.clone() }).collect::<Vec<_>>()
        };
        inventory.hosts.iter().flat_map(of_host).collect()
    }

    /// The gtm of a host.
    fn gtm(&self, host: &Host) -> Option<Process> {
        let address = host.address.to_string();
        let found = self.config.gtms.iter().position(|gtm| host.gtm && gtm.host == address)?;
        Some(Process { name: gtm_name(found), port: self.config.gtms[found].port })
    }

    /// What runs on a host, without anything secret.
    pub(crate) fn outline(&self, inventory: &Inventory, host: &Host) -> Wanted {
        let server = |(name, port): (&String, u16)| Server {
            name: name.clone(),
            port,
            pg_bin: PathBuf::new(),
            profile: inventory.cluster.profile,
            set: inventory.set.clone(),
            password: None,
            certificate: String::new(),
            key: String::new(),
            clients: Vec::new(),
        };
        let coordinator = |name: &String| Process { name: name.clone(), port: inventory.ports.coordinator };
        let joining = |node: &Datanode| Joining { name: node.name.clone(), host: node.host.clone(), port: node.port };
        Wanted {
            cluster: inventory.cluster.name.clone(),
            directory: inventory.directory_of(host).to_owned(),
            address: host.address.to_string(),
            files: Vec::new(),
            datanodes: ports(inventory, host).map(server).collect(),
            gtms: self.gtm(host).into_iter().collect(),
            coordinators: host.coordinator.iter().map(coordinator).collect(),
            joining: self.joining.iter().map(joining).collect(),
            is_initialised: self.config.cluster.id.is_some(),
            starting: if inventory.cluster.systemd { Starting::Systemd } else { Starting::Here },
        }
    }

    /// All that a host needs, but for the password that servers are made with.
    pub(crate) fn wanted(&self, inventory: &Inventory, host: &Host, pg_bin: &Path, kept: &Kept) -> Result<Wanted> {
        let mut wanted = self.outline(inventory, host);
        let clients: Vec<String> = inventory.hosts.iter().filter(|host| is_client(host)).map(prefix).collect();
        for server in &mut wanted.datanodes {
            server.pg_bin = pg_bin.to_owned();
            server.certificate = kept.read(&format!("{SERVERS}/{}.crt", server.name))?;
            server.key = kept.read(&format!("{SERVERS}/{}.key", server.name))?;
            server.clients = clients.clone();
        }
        wanted.files = self.files(host, &wanted, kept)?;
        Ok(wanted)
    }

    fn files(&self, host: &Host, wanted: &Wanted, kept: &Kept) -> Result<Vec<File>> {
        let mut names = vec![AUTHORITY_FILE.to_owned()];
        if is_client(host) {
            names.extend([CONFIG_FILE.to_owned(), PASSWORD_FILE.to_owned(), format!("{TLS}/{AUTHORITY_FILE}")]);
            let own = wanted.gtms.iter().chain(&wanted.coordinators);
            names.extend(own.flat_map(|own| [format!("{TLS}/{}.crt", own.name), format!("{TLS}/{}.key", own.name)]));
            // Commands take no other certificate for a coordinator than its own.
            names.extend(self.config.coordinators.iter().map(|all| format!("{SERVERS}/{}.crt", all.name)));
            names.extend(wanted.coordinators.iter().map(|own| format!("{SERVERS}/{}.key", own.name)));
        }
        let file = |path: String| {
            let mode = if path.ends_with(".crt") { 0o644 } else { 0o600 };
            Ok(File { mode, text: kept.read(&path)?, path })
        };
        names.into_iter().map(file).collect()
    }
}

/// Does it connect to datanodes?
fn is_client(host: &Host) -> bool {
    host.gtm || host.coordinator.is_some()
}

fn prefix(host: &Host) -> String {
    let bits = if host.address.is_ipv4() { 32 } else { 128 };
    format!("{}/{bits}", host.address)
}

/// The datanodes of a host with their ports.
fn ports<'a>(inventory: &'a Inventory, host: &'a Host) -> impl Iterator<Item = (&'a String, u16)> {
    let first = inventory.ports.datanode;
    host.datanodes.iter().enumerate().map(move |(at, name)| (name, first.saturating_add(at as u16)))
}

/// Those that the cluster has, in its order, and those to be added.
fn datanodes(inventory: &Inventory, known: Option<&Config>) -> Result<(Vec<Datanode>, Vec<Datanode>)> {
    let node = |host: &Host, name: &String, port| Datanode {
        name: name.clone(),
        id: None,
        host: host.address.to_string(),
        port,
        primary: false,
        preferred: false,
    };
    let of_host = |host| ports(inventory, host).map(move |(name, port)| node(host, name, port)).collect::<Vec<_>>();
    let mut all: Vec<Datanode> = inventory.hosts.iter().flat_map(of_host).collect();
    let Some(known) = known else {
        if let Some(first) = all.first_mut() {
            first.primary = true;
        }
        return Ok((all, Vec::new()));
    };
    for old in &known.datanodes {
        let found = all.iter().find(|new| new.name == old.name).ok_or_else(|| {
            missing("datanode", &old.name).hint(format!(
                "Write it back. \"loxo node remove {}\" takes a datanode out; remove it from {} then.",
                old.name,
                known.path.display()
            ))
        })?;
        same_place("datanode", &old.name, (&old.host, old.port), (&found.host, found.port))?;
    }
    all.retain(|new| known.datanodes.iter().all(|old| old.name != new.name));
    Ok((known.datanodes.clone(), all))
}

/// The names of gtms are their places, so that new ones come last.
fn gtms(inventory: &Inventory, known: Option<&Config>) -> Result<Vec<Gtm>> {
    let mut gtms = known.map_or_else(Vec::new, |known| known.gtms.clone());
    let addresses: Vec<String> =
        inventory.hosts.iter().filter(|host| host.gtm).map(|host| host.address.to_string()).collect();
    for (at, old) in gtms.iter().enumerate() {
        if !addresses.contains(&old.host) {
            return Err(missing("gtm", &format!("{} on {}", gtm_name(at), old.host)).hint("Write it back."));
        }
        let port = inventory.ports.gtm;
        same_place("gtm", &gtm_name(at), (&old.host, old.port), (&old.host, port))?;
    }
    let new: Vec<String> = addresses.into_iter().filter(|new| gtms.iter().all(|old| old.host != *new)).collect();
    gtms.extend(new.into_iter().map(|host| Gtm { host, port: inventory.ports.gtm, metrics: None, insecure: false }));
    Ok(gtms)
}

fn add_coordinators(inventory: &Inventory, config: &mut Config) -> Result<()> {
    let listed = || inventory.hosts.iter().filter_map(|host| Some((host.address, host.coordinator.as_ref()?)));
    for old in &config.coordinators {
        let (host, port) = old.address()?;
        let (found, _) = listed().find(|(_, name)| **name == old.name).ok_or_else(|| {
            missing("coordinator", &old.name)
                .hint("Write it back, or stop it and take it out with \"DROP NODE\" first.")
        })?;
        same_place("coordinator", &old.name, (&host, port), (&found.to_string(), inventory.ports.coordinator))?;
    }
    let new: Vec<(IpAddr, String)> = listed()
        .filter(|(_, name)| config.coordinators.iter().all(|old| old.name != **name))
        .map(|(address, name)| (address, name.clone()))
        .collect();
    if new.is_empty() {
        return Ok(());
    }
    let max_connections = cluster::settings::max_connections(&inventory.set);
    let pool_size = pool_left(config, max_connections, new.len());
    if pool_size < POOL_SIZE_LEAST {
        let text = format!(
            "max_connections = {max_connections} of the datanodes leaves no room for {} more coordinators",
            new.len()
        );
        return Err(invalid(text).hint("Raise max_connections in [set], deploy, and start the datanodes again."));
    }
    let coordinator = |(address, name): (IpAddr, String)| Coordinator {
        listen: SocketAddr::new(address, inventory.ports.coordinator).to_string(),
        auth: Auth::Scram,
        pool_size,
        max_clients: MAX_CLIENTS,
        failed_logins_max: FAILED_LOGINS_MAX,
        failed_logins_pause: FAILED_LOGINS_PAUSE,
        metrics: None,
        page: None,
        tls_certificate: Some(format!("{SERVERS}/{name}.crt").into()),
        tls_key: Some(format!("{SERVERS}/{name}.key").into()),
        tls_client_ca: None,
        tls_required: true,
        insecure: false,
        name,
    };
    config.coordinators.extend(new.into_iter().map(coordinator));
    Ok(())
}

fn missing(kind: &str, name: &str) -> PgError {
    PgError::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("the {kind} {name} is part of the cluster, but not of the inventory"),
    )
}

fn same_place(kind: &str, name: &str, old: (&str, u16), new: (&str, u16)) -> Result<()> {
    if old == new {
        return Ok(());
    }
    let text = format!("the {kind} {name} would move from {} port {} to {} port {}", old.0, old.1, new.0, new.1);
    Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
        .hint("Leave addresses, [ports] and the order of a host's datanodes as they are; new datanodes come last."))
}
