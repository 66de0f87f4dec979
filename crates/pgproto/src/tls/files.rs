//! Certificates and keys out of PEM files.

use std::fmt::Display;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use pgerror::{PgError, Result, SqlState};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::NoServerSessionStorage;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::x509;

/// The authorities whose certificates are believed.
#[derive(Debug)]
pub struct Authorities {
    store: Arc<RootCertStore>,
    certificates: Vec<CertificateDer<'static>>,
}

impl Authorities {
    /// As rustls wants them.
    pub fn store(&self) -> Arc<RootCertStore> {
        self.store.clone()
    }

    /// Is the certificate itself in the file? So are those that a server has signed for itself.
    pub(super) fn contain(&self, certificate: &CertificateDer<'_>) -> bool {
        self.certificates.iter().any(|known| **known == **certificate)
    }
}

/// All certificates of a file: authorities those that may sign others, the rest for servers that show just them.
pub fn authorities(path: &Path) -> Result<Authorities> {
    let certificates = certificates(path)?;
    let mut store = RootCertStore::empty();
    for certificate in certificates.iter().filter(|one| x509::is_authority(one)) {
        store.add(certificate.clone()).map_err(|error| unusable("certificate", path, &error))?;
    }
    Ok(Authorities { store: Arc::new(store), certificates })
}

/// The first certificate of a file.
pub fn certificate(path: &Path) -> Result<CertificateDer<'static>> {
    CertificateDer::from_pem_file(path).map_err(|error| unusable("certificate", path, &error))
}

/// All certificates of a file: somebody's own, then those that vouch for it. There is one at least.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unusable("certificate", path, &error))?;
    match found.is_empty() {
        true => Err(unusable("certificate", path, &"there is none in the file")),
        false => Ok(found),
    }
}

/// A key that nobody else may read.
pub fn key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    check_private(path)?;
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable("key", path, &error))
}

/// As PostgreSQL has it: nobody else may read the key, unless it is root's, and the group's to read (`check_ssl_key_file_permissions`).
fn check_private(key: &Path) -> Result<()> {
    let found = std::fs::metadata(key).map_err(|error| unusable("key", key, &error))?;
    let open_to = if found.uid() == 0 { 0o037 } else { 0o077 };
    match found.mode() & open_to {
        0 => Ok(()),
        _ => Err(unusable("key", key, &io::Error::other("others may read or write it"))
            .hint("chmod 0600, or 0640 if root owns it.")),
    }
}

/// In words for the maker of the certificate, where rustls has none.
pub(super) fn explained(why: &dyn Display) -> String {
    let why = why.to_string();
    match why.contains("UnsupportedCertVersion") {
        true => "it is a certificate of version 1; make it with extensions (openssl x509 -extfile)".to_owned(),
        false => why,
    }
}

/// As in PostgreSQL: a client that comes again shows the certificate again, which may be out of date by then.
pub fn resume_nothing(server: &mut ServerConfig) {
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
}

/// F0000.
pub fn unusable(what: &str, path: &Path, why: &dyn Display) -> PgError {
    let why = explained(why);
    let text = format!("the TLS {what} \"{}\" cannot be used: {why}", path.display());
    PgError::new(SqlState::CONFIG_FILE_ERROR, text)
}
