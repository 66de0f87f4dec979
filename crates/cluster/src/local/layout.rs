//! What a local cluster consists of and where each thing is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pgerror::{PgError, Result, SqlState};
use pgproto::Encryption;

use super::directory::{Directory, Kind, Part};
use super::{DATANODE_PORT_OFFSET, GTM_PORT_OFFSET, PAGE_PORT_OFFSET, PAGES_MAX};
use crate::check::pool_left;
use crate::config::{
    Auth, ClusterSection, Config, Coordinator, Datanode, FAILED_LOGINS_MAX, FAILED_LOGINS_PAUSE, Gtm, Local, Log,
    MAX_CLIENTS, SslMode, gtm_name, invalid,
};
use crate::disk;
use crate::settings::{Machine, Profile, max_connections};
use crate::sql::Endpoint;

/// A local cluster: its configuration, which always has `[local]`, and the paths that follow from it.
#[derive(Clone, Debug)]
pub struct Layout {
    config: Config,
    local: Local,
    directory: Directory,
}

impl std::ops::Deref for Layout {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        &self.directory
    }
}

const CONFIG_FILE: &str = "cluster.toml";

/// With fewer connections to each datanode a coordinator is of little use.
pub(crate) const POOL_SIZE_LEAST: usize = 5;

/// How many of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub coordinators: usize,
    pub gtms: usize,
    pub datanodes: usize,
}

impl Layout {
    /// A new cluster of this shape; nothing is touched yet. `dir` must be absolute.
    pub(crate) fn new(
        dir: &Path,
        port: u16,
        shape: Shape,
        profile: Profile,
        set: BTreeMap<String, String>,
        pg_bin: PathBuf,
    ) -> Result<Self> {
        let Shape { coordinators, gtms, datanodes } = shape;
        check_shape(dir, port, coordinators, datanodes)?;
        let host = || "127.0.0.1".to_owned();
        let local = Local { dir: dir.to_owned(), port, profile, pg_bin, set };
        let datanode = |i: usize| Datanode {
            name: format!("dn{}", i + 1),
            id: None,
            host: host(),
            port: port + DATANODE_PORT_OFFSET + i as u16,
            primary: i == 0,
            preferred: false,
        };
        let mut config = Config {
            cluster: ClusterSection {
                name: "local".to_owned(),
                id: None,
                database: "postgres".to_owned(),
                user: "postgres".to_owned(),
                password_file: None,
                sslmode: SslMode::Disable,
                sslrootcert: None,
                sslcert: None,
                sslkey: None,
                tls_directory: None,
            },
            log: Log::default(),
            gtms: (0..gtms)
                .map(|i| Gtm { host: host(), port: port + GTM_PORT_OFFSET + i as u16, metrics: None, insecure: false })
                .collect(),
            coordinators: Vec::new(),
            hba: Vec::new(),
            maps: Vec::new(),
            datanodes: (0..datanodes).map(datanode).collect(),
            local: Some(local.clone()),
            path: dir.join(CONFIG_FILE),
        };
        let left = pool_left(&config, max_connections(&local.set), coordinators);
        let pool_size = left.min(Machine::here(datanodes).pool_size(coordinators)).max(POOL_SIZE_LEAST);
        config.coordinators = (0..coordinators).map(|place| coordinator(port, place, pool_size)).collect();
        Ok(Self { config, local, directory: Directory::new(dir, CONFIG_FILE) })
    }

    /// The cluster in a directory; `None` if there is none.
    pub fn load(dir: &Path) -> Result<Option<Self>> {
        let dir = disk::absolute(dir)?;
        let path = dir.join(CONFIG_FILE);
        if !path.try_exists().map_err(disk::context("look at", &path))? {
            return Ok(None);
        }
        let config = Config::load(&path)?;
        let local = config.local.clone().filter(|local| local.dir == dir).ok_or_else(|| {
            invalid(format!("\"{}\" is not the configuration of a local cluster in this directory", path.display()))
                .hint("A local cluster's directory cannot be moved: move it back, or make a new one with \"loxo up\".")
        })?;
        Ok(Some(Self { config, local, directory: Directory::new(&dir, CONFIG_FILE) }))
    }

    /// The configuration, as coordinators and the gtm read it.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The `[local]` table.
    pub fn local(&self) -> &Local {
        &self.local
    }

    /// Takes other settings for the datanodes.
    pub(crate) fn with_local(mut self, local: Local) -> Self {
        self.config.local = Some(local.clone());
        self.local = local;
        self
    }

    /// With so many coordinators, more than there are. The datanodes have a limit to their connections, which only a new start changes.
    pub(crate) fn with_coordinators(mut self, wanted: usize) -> Result<Self> {
        check_shape(self.dir(), self.local.port, wanted, self.config.datanodes.len())?;
        let have = self.config.coordinators.len();
        let max_connections = max_connections(&self.local.set);
        let pool_size = pool_left(&self.config, max_connections, wanted - have);
        if pool_size < POOL_SIZE_LEAST {
            let text = format!(
                "max_connections = {max_connections} of the datanodes leaves no room for the pools of {wanted} coordinators"
            );
            return Err(invalid(text).hint("Make the pool_size of the others in cluster.toml smaller, or run \"loxo down\", then \"loxo up --set max_connections=N\"."));
        }
        let machine = Machine::here(self.config.datanodes.len());
        let pool_size = pool_size.min(machine.pool_size(wanted)).max(POOL_SIZE_LEAST);
        let new = (have..wanted).map(|place| coordinator(self.local.port, place, pool_size));
        self.config.coordinators.extend(new);
        self.config.validate()?;
        Ok(self)
    }

    /// With a second gtm.
    pub(crate) fn with_standby(mut self) -> Self {
        let port = self.local.port + GTM_PORT_OFFSET + self.config.gtms.len() as u16;
        self.config.gtms.push(Gtm { host: "127.0.0.1".to_owned(), port, metrics: None, insecure: false });
        self
    }

    /// With one more datanode.
    pub(crate) fn with_datanode(self, new: Datanode) -> Result<Self> {
        let id = self.config.datanodes_by_id().map(|(id, _)| id + 1).max().unwrap_or(0);
        let mut datanodes = self.config.datanodes.clone();
        datanodes.push(Datanode { id: Some(id), ..new });
        self.with_datanodes(datanodes)
    }

    /// With these datanodes.
    pub(crate) fn with_datanodes(mut self, datanodes: Vec<Datanode>) -> Result<Self> {
        // An id is written only where it is not the place in the file.
        let numbered =
            |(place, node): (usize, Datanode)| Datanode { id: node.id.filter(|id| usize::from(*id) != place), ..node };
        self.config.datanodes = datanodes.into_iter().enumerate().map(numbered).collect();
        self.config.validate()?;
        Ok(self)
    }

    /// Exists once the metadata is on every datanode; holds the cluster's id.
    pub(crate) fn marker(&self) -> PathBuf {
        self.dir().join("initialised")
    }

    /// The cluster's id; `None` until it has been up once.
    pub fn cluster_id(&self) -> Option<String> {
        std::fs::read_to_string(self.marker()).ok().map(|text| text.trim().to_owned())
    }

    /// All parts, in the order they start: datanodes, gtms, coordinators.
    pub fn parts(&self) -> Vec<Part> {
        let mut parts: Vec<Part> = (self.config.datanodes.iter())
            .map(|d| Part { kind: Kind::Datanode, name: d.name.clone(), port: d.port })
            .collect();
        let gtms = self.config.gtms.iter().enumerate();
        parts.extend(gtms.map(|(i, gtm)| Part { kind: Kind::Gtm, name: gtm_name(i), port: gtm.port }));
        parts.extend(self.config.coordinators.iter().map(|c| Part {
            kind: Kind::Coordinator,
            name: c.name.clone(),
            port: c.address().map_or(0, |(_, port)| port),
        }));
        parts
    }

    /// How to log in to a part; meaningless for the gtm, which does not speak SQL.
    pub fn endpoint(&self, part: &Part) -> Result<Endpoint> {
        Ok(Endpoint {
            host: "127.0.0.1".to_owned(),
            port: part.port,
            user: self.config.cluster.user.clone(),
            database: self.config.cluster.database.clone(),
            password: None,
            encryption: self
                .config
                .coordinators
                .iter()
                .find(|known| known.name == part.name)
                .map_or(Ok(Encryption::Plain), |coordinator| self.config.pinned(coordinator))?,
            environment: Vec::new(),
        })
    }

    /// The process of a part, if it runs.
    pub fn pid(&self, part: &Part) -> Option<i32> {
        match part.kind {
            Kind::Datanode => super::datanode::postmaster(self, &part.name),
            Kind::Gtm | Kind::Coordinator => super::daemon::pids(self, part).first().copied(),
        }
    }

    /// Is anything of the cluster running?
    pub(crate) fn is_running(&self) -> bool {
        self.parts().iter().any(|part| self.pid(part).is_some())
    }
}

fn coordinator(port: u16, place: usize, pool_size: usize) -> Coordinator {
    Coordinator {
        name: format!("coord{}", place + 1),
        listen: format!("127.0.0.1:{}", port + place as u16),
        pool_size,
        max_clients: MAX_CLIENTS,
        failed_logins_max: FAILED_LOGINS_MAX,
        failed_logins_pause: FAILED_LOGINS_PAUSE,
        auth: Auth::Trust,
        metrics: None,
        page: (place < PAGES_MAX).then(|| format!("127.0.0.1:{}", port + PAGE_PORT_OFFSET + place as u16)),
        tls_certificate: None,
        tls_key: None,
        tls_client_ca: None,
        tls_required: false,
        insecure: false,
    }
}

fn check_shape(dir: &Path, port: u16, coordinators: usize, datanodes: usize) -> Result<()> {
    let between = |what: &str, n: usize, max: u16| {
        let fits = (1..=usize::from(max)).contains(&n);
        if fits { Ok(()) } else { Err(invalid(format!("a local cluster has 1 to {max} {what}, not {n}"))) }
    };
    between("coordinators", coordinators, GTM_PORT_OFFSET)?;
    between("datanodes", datanodes, 100)?;
    if port == 0 || usize::from(port) + usize::from(DATANODE_PORT_OFFSET) + datanodes > usize::from(u16::MAX) {
        return Err(invalid(format!("--port {port} is out of range")).hint(
            "The ports from it to it + 100 + the number of datanodes are used; 1024 to 65000 is a good choice.",
        ));
    }
    // pg_ctl passes the path through a shell.
    let text = dir.to_str().unwrap_or("\n");
    if text.contains(|c: char| c.is_control() || "\"'`$\\".contains(c)) {
        return Err(PgError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("the directory name \"{}\" cannot be used", dir.display()),
        )
        .hint("Choose one without quotes, backslashes, dollar signs and control characters, in UTF-8."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(port: u16, coordinators: usize, datanodes: usize) -> Result<Layout> {
        let dir = Path::new("/d");
        let shape = Shape { coordinators, gtms: 2, datanodes };
        Layout::new(dir, port, shape, Profile::Default, BTreeMap::new(), PathBuf::from("/bin"))
    }

    #[test]
    fn ports_follow_from_the_first() {
        let layout = layout(6000, 2, 2).unwrap();
        let ports: Vec<(String, u16)> = layout.parts().into_iter().map(|p| (p.name, p.port)).collect();
        let expected =
            [("dn1", 6100), ("dn2", 6101), ("gtm", 6050), ("gtm2", 6051), ("coord1", 6000), ("coord2", 6001)];
        assert_eq!(ports, expected.map(|(name, port)| (name.to_owned(), port)));
        let pages = layout.config().coordinators.iter().map(|c| c.page.as_deref());
        assert!(pages.eq([Some("127.0.0.1:6060"), Some("127.0.0.1:6061")]));
        Config::parse(&layout.config().to_toml().unwrap(), Path::new("/d/cluster.toml")).unwrap();
    }

    #[test]
    fn impossible_shapes_are_refused() {
        assert!(layout(6000, 0, 2).is_err());
        assert!(layout(6000, 51, 2).is_err());
        let most = layout(6000, 50, 2).unwrap();
        assert_eq!(most.config().coordinators.iter().filter(|c| c.page.is_some()).count(), PAGES_MAX);
        Config::parse(&most.config().to_toml().unwrap(), Path::new("/d/cluster.toml")).unwrap();
        assert!(layout(6000, 1, 0).is_err());
        assert!(layout(65500, 1, 1).is_err());
        assert!(check_shape(Path::new("/a$b"), 6000, 1, 1).is_err());
    }
}
