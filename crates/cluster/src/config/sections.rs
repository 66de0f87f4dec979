//! What the sections of the configuration file hold.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use pgerror::Result;
use pgproto::tls;
use serde::{Deserialize, Deserializer, Serialize};

use super::hba::{Hba, Map};
use super::invalid::invalid;
use crate::settings::Profile;

/// A whole configuration file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Config {
    pub cluster: ClusterSection,
    /// `[gtm]`, or one `[[gtm]]` for each.
    #[serde(rename = "gtm", deserialize_with = "one_or_many")]
    pub gtms: Vec<Gtm>,
    #[serde(rename = "coordinator", default)]
    pub coordinators: Vec<Coordinator>,
    #[serde(rename = "datanode", default)]
    pub datanodes: Vec<Datanode>,
    #[serde(default)]
    pub log: Log,
    /// Whom coordinators let in; the first rule that fits decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hba: Vec<Hba>,
    #[serde(rename = "map", default, skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<Map>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<Local>,
    /// Where it was read from; relative paths inside are relative to its directory.
    #[serde(skip)]
    pub path: PathBuf,
}

/// `[log]`: what coordinators and gtms write to stderr.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Log {
    #[serde(default)]
    pub format: LogFormat,
    /// By module, as `LOXO_LOG` has it.
    #[serde(default = "log_level")]
    pub level: String,
    /// `loxo.log_min_duration` of sessions that do not say.
    #[serde(default = "log_min_duration")]
    pub min_duration: String,
    /// `loxo.log_parameters` of sessions that do not say.
    #[serde(default, skip_serializing_if = "is_false")]
    pub parameters: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::default(), level: log_level(), min_duration: log_min_duration(), parameters: false }
    }
}

/// What a line of the log looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// `[cluster]`: how coordinators log in to datanodes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct ClusterSection {
    pub name: String,
    /// As `loxo init` has printed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default = "postgres")]
    pub database: String,
    #[serde(default = "postgres")]
    pub user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// TLS of connections to datanodes.
    #[serde(default, skip_serializing_if = "SslMode::is_disable")]
    pub sslmode: SslMode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sslrootcert: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sslcert: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sslkey: Option<PathBuf>,
    /// Where certificates are by which coordinators and gtms know each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_directory: Option<PathBuf>,
}

/// `[gtm]`: where a gtm listens and coordinators reach it. One of them leads, the others stand by.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Gtm {
    pub host: String,
    pub port: u16,
    /// `host:port` where it tells its figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// It may serve other hosts although nobody has to show a certificate, and tell them its figures.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
}

/// How clients of a coordinator prove who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// Everybody who can connect is let in; on loopback addresses only.
    Trust,
    /// SCRAM-SHA-256 with the verifiers stored on the datanodes.
    #[default]
    Scram,
}

/// `[[coordinator]]`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Coordinator {
    pub name: String,
    /// `host:port` to listen on.
    pub listen: String,
    #[serde(default)]
    pub auth: Auth,
    /// Most connections to each datanode.
    #[serde(default = "pool_size")]
    pub pool_size: usize,
    /// Most clients at a time, three of them superusers only.
    #[serde(default = "max_clients")]
    pub max_clients: usize,
    /// Of one user from one address; 0: any number.
    #[serde(default = "failed_logins_max")]
    pub failed_logins_max: u32,
    /// How many seconds further ones are refused.
    #[serde(default = "failed_logins_pause")]
    pub failed_logins_pause: u32,
    /// `host:port` where it tells its figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// `host:port` of its live page, a loopback address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// PEM: its certificate for TLS, and those that vouch for it. A relative path begins where this file is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_certificate: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    /// PEM: authorities that sign clients' certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_client_ca: Option<PathBuf>,
    /// Clients without TLS are refused.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tls_required: bool,
    /// It may serve other hosts without TLS, and tell them its figures.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
}

/// `[[datanode]]`: a PostgreSQL server.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Datanode {
    pub name: String,
    /// As the metadata have it; its place in the file, counted from 0, if it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u16>,
    pub host: String,
    pub port: u16,
    #[serde(default)]
    pub primary: bool,
    #[serde(default)]
    pub preferred: bool,
}

/// `[local]`: what only a cluster made by `loxo up` has.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Local {
    /// The cluster's directory, absolute.
    pub dir: PathBuf,
    /// First coordinator's port.
    pub port: u16,
    pub profile: Profile,
    /// Where initdb and postgres are.
    pub pg_bin: PathBuf,
    /// Settings given with `--set`.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
}

impl Local {
    /// Where a datanode makes its Unix socket: in its data directory. `None` if the path is too long for a socket, or would be a
    /// list to PostgreSQL.
    pub(crate) fn socket_dir(&self, datanode: &str, port: u16) -> Option<String> {
        let dir = self.dir.join(datanode).to_str()?.to_owned();
        let fits = format!("{dir}/.s.PGSQL.{port}").len() <= SOCKET_PATH_BYTES_MAX;
        (fits && !dir.contains([',', '"'])).then_some(dir)
    }
}

impl Coordinator {
    /// Host (without brackets) and port of `listen`.
    pub fn address(&self) -> Result<(String, u16)> {
        host_and_port(&self.listen).ok_or_else(|| {
            invalid(format!("coordinator \"{}\": listen = \"{}\" is not host:port", self.name, self.listen))
                .hint("Write for example listen = \"127.0.0.1:5433\".")
        })
    }

    /// Host and port of `page`, which is served to this host only: it has no encryption.
    pub fn page_address(&self) -> Result<Option<(String, u16)>> {
        let Some(page) = &self.page else { return Ok(None) };
        in_the_clear(page, false).map(Some).map_err(|wrong| {
            invalid(format!("coordinator \"{}\": page = \"{page}\" {wrong}", self.name)).hint(
                "Write for example page = \"127.0.0.1:8433\", and reach it from elsewhere by a tunnel: \
                 \"ssh -L 8433:127.0.0.1:8433 host\".",
            )
        })
    }

    /// Certificate and key, if it has them.
    pub fn tls(&self) -> Option<(&Path, &Path)> {
        self.tls_certificate.as_deref().zip(self.tls_key.as_deref())
    }

    pub(super) fn validate_tls(&self) -> Result<()> {
        let half = self.tls_certificate.is_some() != self.tls_key.is_some();
        let needed = self.tls_required || self.tls_client_ca.is_some();
        match half || needed && self.tls().is_none() {
            false => Ok(()),
            true => Err(invalid(format!("coordinator \"{}\" has no certificate and key for TLS", self.name))
                .hint("Write both tls_certificate and tls_key, paths of PEM files.")),
        }
    }

    /// Can only programs of this host connect?
    pub fn is_loopback(&self) -> Result<bool> {
        Ok(is_loopback(&self.address()?.0))
    }

    /// Does it listen on whatever addresses its host has?
    pub(crate) fn is_anywhere(&self) -> bool {
        let address = self.address().ok().and_then(|(host, _)| host.parse::<IpAddr>().ok());
        address.is_some_and(|address| address.is_unspecified())
    }
}

/// Longest path of a Unix socket on Linux, without its NUL (`sockaddr_un`).
const SOCKET_PATH_BYTES_MAX: usize = 107;

fn log_level() -> String {
    "info".to_owned()
}

fn log_min_duration() -> String {
    "-1".to_owned()
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The name of the gtm at this place in the file.
pub fn gtm_name(index: usize) -> String {
    if index == 0 { "gtm".to_owned() } else { format!("gtm{}", index + 1) }
}

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Vec<Gtm>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "[gtm] or [[gtm]] with host and port")]
    enum Either {
        One(Gtm),
        Many(Vec<Gtm>),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::One(gtm) => vec![gtm],
        Either::Many(gtms) => gtms,
    })
}

/// Connections of a coordinator to each datanode, unless the file says another number.
pub(crate) const POOL_SIZE: usize = 60;

fn pool_size() -> usize {
    POOL_SIZE
}

/// Clients of a coordinator, unless the file says another number.
pub const MAX_CLIENTS: usize = 5000;

fn max_clients() -> usize {
    MAX_CLIENTS
}

/// Failed logins of a user from an address, unless the file says another number.
pub const FAILED_LOGINS_MAX: u32 = 10;
/// For so many seconds after the last of them further ones are refused.
pub const FAILED_LOGINS_PAUSE: u32 = 60;

fn failed_logins_max() -> u32 {
    FAILED_LOGINS_MAX
}

fn failed_logins_pause() -> u32 {
    FAILED_LOGINS_PAUSE
}

fn postgres() -> String {
    "postgres".to_owned()
}

/// The host without brackets.
fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    (!host.is_empty()).then(|| (host.trim_start_matches('[').trim_end_matches(']').to_owned(), port))
}

/// Host and port of what has neither encryption nor a password, or what is wrong with it.
fn in_the_clear(text: &str, is_insecure: bool) -> std::result::Result<(String, u16), &'static str> {
    let (host, port) = host_and_port(text).ok_or("is not host:port")?;
    if is_insecure || is_loopback(&host) { Ok((host, port)) } else { Err("is no loopback address") }
}

/// May a process tell its figures there? Beyond its host only if the file says that this is insecure.
pub(super) fn check_metrics(process: &str, metrics: Option<&str>, is_insecure: bool) -> Result<()> {
    let Some(metrics) = metrics else { return Ok(()) };
    in_the_clear(metrics, is_insecure).map(drop).map_err(|wrong| {
        invalid(format!("{process}: metrics = \"{metrics}\" {wrong}")).hint(
            "Write for example metrics = \"127.0.0.1:9187\"; or, where everybody who can connect may read them, \
             insecure = true beside it.",
        )
    })
}

/// `localhost` and the loopback addresses of both families.
pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// libpq's, but for the values that fall back to no encryption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum SslMode {
    #[default]
    Disable,
    Require,
    VerifyCa,
    VerifyFull,
}

impl SslMode {
    pub(crate) fn is_disable(&self) -> bool {
        *self == SslMode::Disable
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            SslMode::Disable => "disable",
            SslMode::Require => "require",
            SslMode::VerifyCa => "verify-ca",
            SslMode::VerifyFull => "verify-full",
        }
    }
}

impl From<SslMode> for tls::SslMode {
    fn from(mode: SslMode) -> Self {
        match mode {
            SslMode::Disable => tls::SslMode::Disable,
            SslMode::Require => tls::SslMode::Require,
            SslMode::VerifyCa => tls::SslMode::VerifyCa,
            SslMode::VerifyFull => tls::SslMode::VerifyFull,
        }
    }
}
