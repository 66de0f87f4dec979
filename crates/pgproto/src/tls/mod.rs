//! TLS towards a server, as libpq has it.
//!
//! ```text
//!  SSLRequest ─► S ─► handshake ─► Verifier: who has signed the certificate, whose name is in it ─► encrypted stream
//!              └► N ─► an error, unless encryption was only preferred
//! ```
//!
//! * [`Encryption`]: what a connection needs to know; made from files ([`files`]) and shared by all connections. Files that have
//!   changed are taken by all who share it ([`Encryption::renew`]); a connection that is open stays as it is.
//! * [`verify`]: what a server must show.
//! * [`Mutual`]: both sides have certificates of one authority; for our own processes among each other.
//!
//! Invariants: a connection that must be encrypted never goes on in the clear; of the answer in the clear one byte is read, so
//! nothing that came before the handshake is taken for something that came encrypted.

pub mod files;
mod verify;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use pgerror::{PgError, Result, SqlState};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{IpAddr, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::frontend::request;
use crate::scram::ChannelBinding;
use crate::{FrameReader, FrameWriter};
use verify::{Check, Verifier};

/// As registered for PostgreSQL's protocol.
pub const ALPN: &[u8] = b"postgresql";

/// libpq's `sslmode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum SslMode {
    Disable,
    /// libpq's `allow`, too: a server that has no TLS is talked to in the clear. An attacker who can change bytes gets through.
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl FromStr for SslMode {
    type Err = PgError;

    fn from_str(word: &str) -> Result<Self> {
        Ok(match word {
            "disable" => SslMode::Disable,
            "allow" | "prefer" => SslMode::Prefer,
            "require" => SslMode::Require,
            "verify-ca" => SslMode::VerifyCa,
            "verify-full" => SslMode::VerifyFull,
            other => {
                let text = format!("invalid sslmode value: \"{other}\"");
                return Err(PgError::new(SqlState::INVALID_PARAMETER_VALUE, text)
                    .hint("The values are disable, prefer, require, verify-ca and verify-full."));
            }
        })
    }
}

/// PEM files of one side.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Certificates of authorities that may have signed the server's.
    pub root: Option<PathBuf>,
    /// What this side shows, and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// How a connection is encrypted. One over a Unix socket never is.
#[derive(Clone, Debug, Default)]
pub enum Encryption {
    /// Not at all.
    #[default]
    Plain,
    /// If the server can.
    Preferred(Arc<Tls>),
    /// Or there is no connection.
    Required(Arc<Tls>),
}

impl Encryption {
    /// Reads the files. As in libpq `require` is `verify-ca` if there is a file of authorities.
    pub fn load(mode: SslMode, files: &Files) -> Result<Self> {
        let check = match (mode, &files.root) {
            (SslMode::Disable, _) => return Ok(Encryption::Plain),
            (SslMode::Prefer, _) | (SslMode::Require, None) => Check::Nothing,
            (SslMode::Require | SslMode::VerifyCa, Some(root)) => Check::Authority(files::authorities(root)?),
            (SslMode::VerifyFull, Some(root)) => Check::AuthorityAndName(files::authorities(root)?),
            (SslMode::VerifyCa | SslMode::VerifyFull, None) => {
                let text = "no file of certificates is named that the server's could be verified with";
                return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, text)
                    .hint("Set sslrootcert, or change sslmode to disable server certificate verification."));
            }
        };
        let tls = Arc::new(Tls::new(check, files.own.as_ref())?);
        Ok(if mode == SslMode::Prefer { Encryption::Preferred(tls) } else { Encryption::Required(tls) })
    }

    /// Accepts a peer that shows this certificate, to the byte, whatever authority has signed it.
    pub fn pinned(certificate: &Path) -> Result<Self> {
        let certificate = files::certificate(certificate)?;
        Ok(Encryption::Required(Arc::new(Tls::new(Check::Pinned(certificate), None)?)))
    }

    /// Takes what the other one has read, for all who share this one and for handshakes to come. Whether there are any does not
    /// change.
    pub fn renew(&self, by: &Self) {
        if let (Some(own), Some(new)) = (self.tls(), by.tls()) {
            *own.present.write().unwrap_or_else(PoisonError::into_inner) = new.present();
        }
    }

    /// What a handshake needs.
    pub fn tls(&self) -> Option<&Arc<Tls>> {
        match self {
            Encryption::Plain => None,
            Encryption::Preferred(tls) | Encryption::Required(tls) => Some(tls),
        }
    }
}

/// One side of handshakes, as the client.
pub struct Tls {
    present: RwLock<Present>,
}

#[derive(Clone)]
struct Present {
    config: Arc<ClientConfig>,
    is_verified: bool,
    asks_for_name: bool,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("is_verified", &self.present().is_verified).finish_non_exhaustive()
    }
}

/// What a handshake tells of the server.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// What SCRAM binds itself to.
    pub binding: Option<ChannelBinding>,
    /// It is known to be the one that was meant.
    pub is_verified: bool,
}

impl Tls {
    fn new(check: Check, own: Option<&(PathBuf, PathBuf)>) -> Result<Self> {
        let (is_verified, asks_for_name) = (check.is_any(), matches!(check, Check::AuthorityAndName(_)));
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| PgError::internal(format!("TLS cannot be set up: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier::new(check, provider)));
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(files::certificates(certificate)?, files::key(key)?)
                .map_err(|error| files::unusable("certificate", certificate, &error))?,
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        // PostgreSQL resumes no sessions.
        config.resumption = Resumption::disabled();
        Ok(Self { present: RwLock::new(Present { config: Arc::new(config), is_verified, asks_for_name }) })
    }

    fn present(&self) -> Present {
        self.present.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The handshake, with a server that expects it.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        host: &str,
    ) -> io::Result<(TlsStream<S>, Peer)> {
        let Present { config, is_verified, asks_for_name } = self.present();
        let name = match ServerName::try_from(host.to_owned()) {
            Ok(name) => name,
            Err(_) if !asks_for_name => nameless(),
            Err(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("no certificate can be for \"{host}\""),
                ));
            }
        };
        let stream = TlsConnector::from(config).connect(name, stream).await.map_err(explained)?;
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let binding = shown.and_then(|certificate| ChannelBinding::of_certificate(certificate));
        Ok((stream, Peer { binding, is_verified }))
    }
}

/// The error of a handshake, in words for the maker of the certificate that the other end has shown.
pub fn explained(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), files::explained(&error))
}

/// A handshake wants a name, also where nobody looks at it.
fn nameless() -> ServerName<'static> {
    ServerName::IpAddress(IpAddr::V4([0; 4].into()))
}

/// Asks a PostgreSQL server for encryption. False: it has none.
pub(crate) async fn ask<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<bool> {
    let mut message = [0; 8];
    message[..4].copy_from_slice(&8_u32.to_be_bytes());
    message[4..].copy_from_slice(&request::SSL.to_be_bytes());
    stream.write_all(&message).await?;
    match stream.read_u8().await? {
        b'S' => Ok(true),
        b'N' => Ok(false),
        // The sender is not authenticated, so its words are not repeated.
        b'E' => Err(PgError::connection("server sent an error response during SSL exchange")),
        other => Err(PgError::protocol(format!("received invalid response to SSL negotiation: {other:#04x}"))),
    }
}

/// TLS among processes that have certificates of one authority, which has signed for nobody else.
/// Copies share what is read.
#[derive(Clone)]
pub struct Mutual {
    present: Arc<RwLock<Sides>>,
}

#[derive(Clone)]
struct Sides {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl fmt::Debug for Mutual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutual(…)")
    }
}

impl Mutual {
    /// The authority's certificate, and a certificate of its with the key.
    pub fn load(authority: &Path, certificate: &Path, key: &Path) -> Result<Self> {
        let roots = files::authorities(authority)?;
        let chain = files::certificates(certificate)?;
        let key = files::key(key)?;
        let provider = Arc::new(ring::default_provider());
        let unusable = |error: &dyn fmt::Display| files::unusable("certificate", certificate, error);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.store(), provider.clone())
            .build()
            .map_err(|error| files::unusable("certificate", authority, &error))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|error| unusable(&error))?;
        files::resume_nothing(&mut server);
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier::new(Check::Authority(roots), provider)))
            .with_client_auth_cert(chain, key)
            .map_err(|error| unusable(&error))?;
        client.resumption = Resumption::disabled();
        let sides = Sides { client: Arc::new(client), server: Arc::new(server) };
        Ok(Self { present: Arc::new(RwLock::new(sides)) })
    }

    /// Takes what the other one has read, for all copies of this one and for handshakes to come.
    pub fn renew(&self, by: &Self) {
        *self.present.write().unwrap_or_else(PoisonError::into_inner) = by.present();
    }

    fn present(&self) -> Sides {
        self.present.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Encrypts as the client.
    pub async fn connect<S>(&self, stream: S) -> io::Result<(FrameReader, FrameWriter)>
    where
        S: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static,
    {
        Ok(halves(TlsConnector::from(self.present().client).connect(nameless(), stream).await?))
    }

    /// Encrypts as the server.
    pub async fn accept<S>(&self, stream: S) -> io::Result<(FrameReader, FrameWriter)>
    where
        S: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static,
    {
        Ok(halves(TlsAcceptor::from(self.present().server).accept(stream).await?))
    }
}

fn halves<S: AsyncRead + AsyncWrite + Send + Sync + 'static>(stream: S) -> (FrameReader, FrameWriter) {
    let (read, write) = tokio::io::split(stream);
    (FrameReader::new(read), FrameWriter::new(write))
}
