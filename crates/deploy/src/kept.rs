//! What is kept beside the inventory, for the administrator alone.
//!
//! ```text
//!  hosts.d/loxo.toml            the configuration, as gtms and coordinators have it; with "id", once the cluster exists
//!  hosts.d/password             of the cluster's superuser
//!  hosts.d/ca.crt, ca.key       the authority of servers; clients get ca.crt
//!  hosts.d/servers/NAME.crt …   certificates that datanodes and coordinators show to clients
//!  hosts.d/tls/…                those by which gtms and coordinators know each other
//! ```

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use cluster::Config;
use cluster::certificates::{self, Host};
use pgerror::{PgError, Result, SqlState};
use rand::Rng;
use rand::distr::Alphanumeric;

pub(crate) const CONFIG_FILE: &str = cluster::host::CONFIG_FILE;
pub(crate) const PASSWORD_FILE: &str = "password";
pub(crate) const AUTHORITY_FILE: &str = "ca.crt";

/// Letters of a password, from 62 characters: 190 bits.
const PASSWORD_LETTERS: usize = 32;

#[derive(Clone, Debug)]
pub(crate) struct Kept {
    dir: PathBuf,
}

impl Kept {
    /// `hosts.d` of `hosts.toml`.
    pub(crate) fn beside(inventory: &Path) -> Result<Self> {
        let path = std::path::absolute(inventory)?;
        let mut dir = path.with_extension("d");
        if dir == path {
            dir.as_mut_os_string().push(".d");
        }
        Ok(Self { dir })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// As an earlier call has written it.
    pub(crate) fn config(&self) -> Result<Option<Config>> {
        let path = self.path(CONFIG_FILE);
        if path.exists() { Config::load(&path).map(Some) } else { Ok(None) }
    }

    pub(crate) fn read(&self, name: &str) -> Result<String> {
        let path = self.path(name);
        std::fs::read_to_string(&path).map_err(|error| failed("read", &path, &error))
    }

    pub(crate) fn password(&self) -> Result<String> {
        Ok(self.read(PASSWORD_FILE)?.lines().next().unwrap_or_default().to_owned())
    }

    /// Makes what is missing.
    pub(crate) fn prepare(&self, config: &Config, hosts: &[Host]) -> Result<()> {
        match DirBuilder::new().mode(0o700).create(&self.dir) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.map_err(|error| failed("create", &self.dir, &error))?,
        }
        let closed = std::fs::set_permissions(&self.dir, Permissions::from_mode(0o700));
        closed.map_err(|error| failed("close", &self.dir, &error))?;
        if !self.path(PASSWORD_FILE).exists() {
            if config.cluster.id.is_some() {
                let text = format!("\"{}\" is missing", self.path(PASSWORD_FILE).display());
                return Err(PgError::new(SqlState::UNDEFINED_FILE, text)
                    .detail("The cluster exists, and has another password than a new one.")
                    .hint(format!("Bring it back; \"cluster/{PASSWORD_FILE}\" on a coordinator's host is a copy.")));
            }
            let letters = rand::rng().sample_iter(Alphanumeric).take(PASSWORD_LETTERS);
            let password: String = letters.map(char::from).collect();
            self.write(PASSWORD_FILE, &format!("{password}\n"))?;
        }
        certificates::make_servers(&self.dir, hosts)?;
        certificates::make(config)?;
        self.write_config(config)
    }

    pub(crate) fn write_config(&self, config: &Config) -> Result<()> {
        let text = config.to_toml()?;
        let header =
            "# Written by \"loxo deploy\" from the inventory. It says what the cluster is made of: keep it.\n\n";
        self.write(CONFIG_FILE, &format!("{header}{text}"))
    }

    /// A kill leaves the old or the new file.
    fn write(&self, name: &str, text: &str) -> Result<()> {
        let (path, draft) = (self.path(name), self.path(&format!("{name}.new")));
        let write = || {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&draft, &path)
        };
        write().map_err(|error| failed("write", &path, &error))
    }
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> PgError {
    PgError::new(SqlState::IO_ERROR, format!("could not {what} \"{}\": {error}", path.display()))
}
