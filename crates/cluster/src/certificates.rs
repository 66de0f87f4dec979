//! The cluster's own certificates, by which coordinators and gtms know each other (`tls_directory`).
//!
//! ```text
//!  DIR/ca.crt, ca.key          the authority: signs for this cluster only. Only who makes certificates needs the key
//!  DIR/gtm.crt, gtm.key …      each gtm's; it may be asked for by clients
//!  DIR/coord1.crt, coord1.key  each coordinator's: it can be a client, not a gtm
//!  DIR/load.crt, load.key      of `loxo load --direct`
//! ```
//!
//! Whoever has an authority already puts its files there under the same names.
//!
//! Invariant: a file that is there is never overwritten.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pgerror::{PgError, Result, SqlState};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::config::sections::{Config, gtm_name};
use crate::disk;

/// The name that the program of `loxo load --direct` has here.
pub const LOADER: &str = "load";

const AUTHORITY: &str = "ca";
const AUTHORITY_NAME: &str = "Loxodonta cluster authority";

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Clocks of hosts differ.
const VALID_BEFORE: Duration = DAY;
const VALID_FOR: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The files of somebody.
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Pair {
    pub(crate) fn of(directory: &Path, name: &str) -> Self {
        let file = |kind: &str| directory.join(format!("{name}.{kind}"));
        Self { certificate: file("crt"), key: file("key") }
    }

    pub(crate) fn authority(directory: &Path) -> Self {
        Self::of(directory, AUTHORITY)
    }

    fn is_there(&self) -> bool {
        self.certificate.exists()
    }

    /// The key first: a certificate without one would never be made again.
    fn write(&self, certificate: &str, key: &KeyPair) -> Result<()> {
        write_new(&self.key, &key.serialize_pem(), 0o600)?;
        write_new(&self.certificate, certificate, 0o644)
    }
}

/// Makes those that are missing: for the cluster's gtms and coordinators, and the authority before. Gives the new files of
/// certificates; none without `tls_directory`.
pub fn make(config: &Config) -> Result<Vec<PathBuf>> {
    let Some(directory) = config.tls_directory() else { return Ok(Vec::new()) };
    std::fs::create_dir_all(&directory).map_err(disk::context("create", &directory))?;
    let authority = Pair::authority(&directory);
    let mut made = Vec::new();
    if !authority.is_there() {
        let key = KeyPair::generate().map_err(|error| cannot(&error))?;
        let certificate = authority_parameters().self_signed(&key).map_err(|error| cannot(&error))?;
        authority.write(&certificate.pem(), &key)?;
        made.push(authority.certificate.clone());
    }
    let names = (0..config.gtms.len()).map(|at| (gtm_name(at), true));
    let names = names.chain(config.coordinators.iter().map(|coordinator| (coordinator.name.clone(), false)));
    for (name, is_server) in names.chain([(LOADER.to_owned(), false)]) {
        let pair = Pair::of(&directory, &name);
        if !pair.is_there() {
            sign(&authority, &pair, &name, is_server)?;
            made.push(pair.certificate);
        }
    }
    Ok(made)
}

fn sign(authority: &Pair, own: &Pair, name: &str, is_server: bool) -> Result<()> {
    let shown = pgproto::tls::files::certificate(&authority.certificate)?;
    if pgproto::x509::common_name(&shown).as_deref() != Some(AUTHORITY_NAME) {
        let text = format!("\"{}\" is an authority of your own", authority.certificate.display());
        let hint = format!("Sign {} with it.", own.certificate.display());
        return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, text).hint(hint));
    }
    let text = disk::read(&authority.key).map_err(|error| {
        error.hint(format!("Sign {} with the authority of your own, or bring its key here.", own.certificate.display()))
    })?;
    let authority_key = KeyPair::from_pem(&text).map_err(|error| cannot(&error))?;
    let issuer = Issuer::new(authority_parameters(), authority_key);
    let mut parameters = parameters(name);
    parameters.use_authority_key_identifier_extension = true;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if is_server {
        parameters.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    let key = KeyPair::generate().map_err(|error| cannot(&error))?;
    let certificate = parameters.signed_by(&key, &issuer).map_err(|error| cannot(&error))?;
    own.write(&certificate.pem(), &key)
}

/// Always the same but for the times, so that the issuer can be told from its key alone.
fn authority_parameters() -> CertificateParams {
    let mut parameters = parameters(AUTHORITY_NAME);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters
}

fn parameters(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    parameters.distinguished_name = subject;
    let now = SystemTime::now();
    parameters.not_before = (now - VALID_BEFORE).into();
    parameters.not_after = (now + VALID_FOR).into();
    parameters
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<()> {
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = opened.map_err(disk::context("create", path))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(disk::context("write", path))
}

fn cannot(error: &rcgen::Error) -> PgError {
    PgError::new(SqlState::CONFIG_FILE_ERROR, format!("a certificate of the cluster cannot be made: {error}"))
}
