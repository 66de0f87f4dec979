//! The cluster's own certificates, by which coordinators and gtms know each other (`tls_directory`).
//!
//! ```text
//!  DIR/ca.crt, ca.key          the authority: signs for this cluster only. Only who makes certificates needs the key
//!  DIR/gtm.crt, gtm.key …      each gtm's; it may be asked for by clients
//!  DIR/coord1.crt, coord1.key  each coordinator's: it can be a client, not a gtm
//!  DIR/load.crt, load.key      of `loxo load --direct`
//! ```
//!
//! The files of an existing authority can be put there under these names.
//!
//! Another authority, of servers, vouches to clients of theirs for the addresses of datanodes and coordinators. It is
//! another one because names are not looked at between coordinators and gtms: a datanode's certificate must not open that door.
//!
//! Invariant: a file that is there is never overwritten.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use pgerror::{PgError, Result, SqlState};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose as Usage, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};

use crate::config::sections::{Config, gtm_name};
use crate::disk;

/// The name that the program of `loxo load --direct` has here.
pub const LOADER: &str = "load";

pub(crate) const AUTHORITY: &str = "ca";
const AUTHORITY_NAME: &str = "Loxodonta cluster authority";
const SERVERS_AUTHORITY_NAME: &str = "Loxodonta authority of servers";

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

    /// A new key; or the one that is there without a certificate, since a call that made both was killed.
    fn key(&self) -> Result<KeyPair> {
        if self.key.exists() {
            return KeyPair::from_pem(&disk::read(&self.key)?).map_err(|error| cannot(&error));
        }
        let key = KeyPair::generate().map_err(|error| cannot(&error))?;
        write_new(&self.key, &key.serialize_pem(), 0o600).map(|()| key)
    }

    /// After the key: a certificate without one would never be made again.
    fn write(&self, certificate: &str) -> Result<()> {
        write_new(&self.certificate, certificate, 0o644)
    }
}

/// A server that is shown to others, and the addresses and host names that they know it by.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Host {
    pub name: String,
    pub known_as: Vec<String>,
}

/// Makes the authority of servers in `directory`, and in its folder `servers` certificates of those hosts that have none.
pub fn make_servers(directory: &Path, hosts: &[Host]) -> Result<()> {
    let folder = directory.join("servers");
    std::fs::create_dir_all(&folder).map_err(disk::context("create", &folder))?;
    let authority = Pair::authority(directory);
    make_authority(&authority, SERVERS_AUTHORITY_NAME)?;
    for Host { name, known_as } in hosts {
        let pair = Pair::of(&folder, name);
        if !pair.is_there() {
            sign(&authority, SERVERS_AUTHORITY_NAME, &pair, Subject { name, known_as, usages: &[Usage::ServerAuth] })?;
        }
    }
    Ok(())
}

/// Makes those that are missing: for the cluster's gtms and coordinators, and the authority before. Gives the new files of
/// certificates; none without `tls_directory`.
pub fn make(config: &Config) -> Result<Vec<PathBuf>> {
    let Some(directory) = config.tls_directory() else { return Ok(Vec::new()) };
    std::fs::create_dir_all(&directory).map_err(disk::context("create", &directory))?;
    let authority = Pair::authority(&directory);
    let mut made = Vec::new();
    if make_authority(&authority, AUTHORITY_NAME)? {
        made.push(authority.certificate.clone());
    }
    let names = (0..config.gtms.len()).map(|at| (gtm_name(at), true));
    let names = names.chain(config.coordinators.iter().map(|coordinator| (coordinator.name.clone(), false)));
    for (name, is_server) in names.chain([(LOADER.to_owned(), false)]) {
        let pair = Pair::of(&directory, &name);
        if !pair.is_there() {
            let usages: &[Usage] =
                if is_server { &[Usage::ClientAuth, Usage::ServerAuth] } else { &[Usage::ClientAuth] };
            sign(&authority, AUTHORITY_NAME, &pair, Subject { name: &name, known_as: &[], usages })?;
            made.push(pair.certificate);
        }
    }
    Ok(made)
}

/// Says whether it was missing.
fn make_authority(own: &Pair, name: &str) -> Result<bool> {
    if own.is_there() {
        return Ok(false);
    }
    let certificate = authority_parameters(name)?.self_signed(&own.key()?).map_err(|error| cannot(&error))?;
    own.write(&certificate.pem()).map(|()| true)
}

/// What a certificate says.
struct Subject<'a> {
    name: &'a str,
    known_as: &'a [String],
    usages: &'a [Usage],
}

fn sign(authority: &Pair, authority_name: &str, own: &Pair, subject: Subject<'_>) -> Result<()> {
    let shown = pgproto::tls::files::certificate(&authority.certificate)?;
    if pgproto::x509::common_name(&shown).as_deref() != Some(authority_name) {
        let text = format!("\"{}\" is an authority of your own", authority.certificate.display());
        let hint = format!("Sign {} with it.", own.certificate.display());
        return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, text).hint(hint));
    }
    let text = disk::read(&authority.key).map_err(|error| {
        error.hint(format!("Sign {} with the authority of your own, or bring its key here.", own.certificate.display()))
    })?;
    let authority_key = KeyPair::from_pem(&text).map_err(|error| cannot(&error))?;
    let issuer = Issuer::new(authority_parameters(authority_name)?, authority_key);
    let mut parameters = parameters(subject.name, subject.known_as)?;
    parameters.use_authority_key_identifier_extension = true;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = subject.usages.to_vec();
    let certificate = parameters.signed_by(&own.key()?, &issuer).map_err(|error| cannot(&error))?;
    own.write(&certificate.pem())
}

/// Always the same but for the times, so that the issuer can be told from its key alone.
fn authority_parameters(name: &str) -> Result<CertificateParams> {
    let mut parameters = parameters(name, &[])?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(parameters)
}

fn parameters(name: &str, known_as: &[String]) -> Result<CertificateParams> {
    let mut parameters = CertificateParams::new(known_as).map_err(|error| cannot(&error))?;
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    parameters.distinguished_name = subject;
    let now = SystemTime::now();
    parameters.not_before = (now - VALID_BEFORE).into();
    parameters.not_after = (now + VALID_FOR).into();
    Ok(parameters)
}

/// Whole or not at all, whenever this process is killed.
fn write_new(path: &Path, text: &str, mode: u32) -> Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    let opened = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&draft);
    let mut file = opened.map_err(disk::context("create", &draft))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(disk::context("write", &draft))?;
    std::fs::rename(&draft, path).map_err(disk::context("create", path))
}

fn cannot(error: &rcgen::Error) -> PgError {
    PgError::new(SqlState::CONFIG_FILE_ERROR, format!("a certificate of the cluster cannot be made: {error}"))
}
