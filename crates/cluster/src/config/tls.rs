//! What the configuration says about TLS: to datanodes, among our own processes, and who may listen without.

use std::path::PathBuf;

use pgerror::Result;
use pgproto::Encryption;
use pgproto::tls::{Files, Mutual};

use super::invalid::invalid;
use super::sections::{ClusterSection, Config, Coordinator, Gtm, SslMode, gtm_name, is_loopback};
use crate::certificates::{LOADER, Pair};

impl ClusterSection {
    pub(crate) fn validate_tls(&self) -> Result<()> {
        let is_half = self.sslcert.is_some() != self.sslkey.is_some();
        let is_unused = self.sslmode.is_disable() && (self.sslrootcert.is_some() || self.sslcert.is_some());
        let is_blind = matches!(self.sslmode, SslMode::VerifyCa | SslMode::VerifyFull) && self.sslrootcert.is_none();
        let problem = match (is_half, is_unused, is_blind) {
            (true, ..) => ("sslcert and sslkey go together", "Write both, paths of PEM files."),
            (_, true, _) => ("certificates for datanodes are named, and not used", "Add sslmode = \"verify-full\"."),
            (.., true) => ("sslmode verifies certificates, but no authority is named", "Add sslrootcert."),
            _ => return Ok(()),
        };
        Err(invalid(format!("[cluster]: {}", problem.0)).hint(problem.1))
    }
}

impl Config {
    /// Encryption of connections to datanodes.
    pub fn encryption(&self) -> Result<Encryption> {
        let ClusterSection { sslmode, sslrootcert, sslcert, sslkey, .. } = &self.cluster;
        let path = |path: &PathBuf| self.beside(path);
        let own = sslcert.as_ref().map(path).zip(sslkey.as_ref().map(path));
        Encryption::load((*sslmode).into(), &Files { root: sslrootcert.as_ref().map(path), own })
    }

    /// Encryption of connections to datanodes, for programs of PostgreSQL. The caller's environment would decide otherwise.
    pub(crate) fn ssl_environment(&self) -> Vec<(&'static str, String)> {
        let ClusterSection { sslmode, sslrootcert, sslcert, sslkey, .. } = &self.cluster;
        let files = [("PGSSLROOTCERT", sslrootcert), ("PGSSLCERT", sslcert), ("PGSSLKEY", sslkey)];
        let files = files.into_iter().filter_map(|(name, path)| Some((name, self.beside(path.as_ref()?))));
        let files = files.map(|(name, path)| (name, path.to_string_lossy().into_owned()));
        [("PGSSLMODE", sslmode.word().to_owned())].into_iter().chain(files).collect()
    }

    /// Where the certificates of coordinators and gtms are.
    pub(crate) fn tls_directory(&self) -> Option<PathBuf> {
        self.cluster.tls_directory.as_deref().map(|directory| self.beside(directory))
    }

    /// What a coordinator or a gtm shows to the others; `None`: they do not ask each other.
    pub fn mutual(&self, name: &str) -> Result<Option<Mutual>> {
        let Some(directory) = self.tls_directory() else { return Ok(None) };
        let (authority, own) = (Pair::authority(&directory), Pair::of(&directory, name));
        let mutual = Mutual::load(&authority.certificate, &own.certificate, &own.key);
        mutual.map(Some).map_err(|error| match error.get(pgerror::field::HINT) {
            Some(_) => error,
            None => error.hint("\"loxo init --certificates\" makes those that are missing; copy them to this host."),
        })
    }

    /// A certificate that this host's processes may show to a gtm: the first whose key can be read. `None`: there is none.
    pub(crate) fn any_mutual(&self) -> Option<Mutual> {
        let gtms = (0..self.gtms.len()).map(gtm_name);
        let coordinators = self.coordinators.iter().map(|own| own.name.clone());
        let mut names = gtms.chain(coordinators).chain([LOADER.to_owned()]);
        names.find_map(|name| self.mutual(&name).ok().flatten())
    }

    /// Only a server with the coordinator's own certificate is taken for it.
    pub(crate) fn pinned(&self, coordinator: &Coordinator) -> Result<Encryption> {
        match coordinator.tls() {
            None => Ok(Encryption::Plain),
            Some((certificate, _)) => Encryption::pinned(&self.beside(certificate))
                .map_err(|error| error.hint("Copy the coordinator's certificate to this host; not the key.")),
        }
    }

    /// May the gtm listen where the file says?
    pub fn check_gtm(&self, gtm: &Gtm) -> Result<()> {
        if is_loopback(&gtm.host) || gtm.insecure || self.cluster.tls_directory.is_some() {
            return Ok(());
        }
        Err(invalid(format!("the gtm would obey everybody who can connect to {}:{}", gtm.host, gtm.port)).hint(
            "Add tls_directory = \"tls\" to [cluster] and run \"loxo init --certificates\"; or, where only the cluster's \
             hosts can connect, insecure = true to [gtm].",
        ))
    }

    /// May the coordinator?
    pub fn check_coordinator(&self, coordinator: &Coordinator) -> Result<()> {
        if coordinator.is_loopback()? || coordinator.insecure || coordinator.tls().is_some() {
            return Ok(());
        }
        let Coordinator { name, listen, .. } = coordinator;
        Err(invalid(format!("coordinator \"{name}\" would serve other hosts without encryption on {listen}")).hint(
            "Add tls_certificate and tls_key to it; or, where nobody can listen to the network, insecure = true.",
        ))
    }
}
