//! TLS towards clients.
//!
//! ```text
//!  SSLRequest ─► S ─┐
//!  ClientHello ─────┴─► handshake ─► FrameReader, FrameWriter over the encrypted stream
//! ```
//!
//! A client either asks for it in the clear, or begins with it (`sslnegotiation=direct`), and says then by ALPN that it wants
//! PostgreSQL. TLS 1.2 and 1.3, as rustls has them.
//!
//! Invariant: not a byte that came in the clear after SSLRequest is taken for one that came encrypted.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use pgerror::{PgError, Result, SqlState};
use pgproto::scram::ChannelBinding;
use pgproto::{FrameReader, FrameWriter};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// As registered for PostgreSQL's protocol.
const ALPN: &[u8] = b"postgresql";

/// Where certificate and key lie, and whether a client may do without.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// PEM: the coordinator's certificate, then those that vouch for it.
    pub certificate: PathBuf,
    /// PEM, readable for nobody but the coordinator.
    pub key: PathBuf,
    /// Clients without TLS are refused.
    pub required: bool,
}

/// See the page.
pub(crate) struct Tls {
    options: TlsOptions,
    present: RwLock<Present>,
}

#[derive(Clone)]
struct Present {
    config: Arc<ServerConfig>,
    binding: Option<ChannelBinding>,
}

impl Tls {
    pub(crate) fn load(options: TlsOptions) -> Result<Self> {
        let present = RwLock::new(Present::load(&options)?);
        Ok(Self { options, present })
    }

    /// Takes what the files hold now, for connections to come. What was there stays if they cannot be used.
    pub(crate) fn reload(&self) -> Result<()> {
        let present = Present::load(&self.options)?;
        *self.present.write().unwrap_or_else(PoisonError::into_inner) = present;
        Ok(())
    }

    pub(crate) fn is_required(&self) -> bool {
        self.options.required
    }

    /// The handshake. A client that has begun with it must say what it wants.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        is_direct: bool,
    ) -> Result<(FrameReader, FrameWriter, Option<ChannelBinding>)> {
        let Present { config, binding } = self.present.read().unwrap_or_else(PoisonError::into_inner).clone();
        let stream = TlsAcceptor::from(config).accept(stream).await?;
        if is_direct && stream.get_ref().1.alpn_protocol() != Some(ALPN) {
            return Err(PgError::fatal(
                SqlState::PROTOCOL_VIOLATION,
                "received direct SSL connection request without ALPN protocol negotiation extension",
            ));
        }
        let (read, write) = tokio::io::split(stream);
        Ok((FrameReader::new(read), FrameWriter::new(write), binding))
    }
}

impl Present {
    fn load(options: &TlsOptions) -> Result<Self> {
        let TlsOptions { certificate, key, .. } = options;
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|error| unusable("certificate", certificate, &error))?;
        let binding = chain.first().and_then(|own| ChannelBinding::of_certificate(own));
        check_private(key)?;
        let own_key = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable("key", key, &error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, own_key));
        let mut config = config.map_err(|error| unusable("certificate", certificate, &error))?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self { config: Arc::new(config), binding })
    }
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

fn unusable(what: &str, path: &Path, why: &dyn std::fmt::Display) -> PgError {
    let text = format!("the TLS {what} \"{}\" cannot be used: {why}", path.display());
    PgError::new(SqlState::CONFIG_FILE_ERROR, text)
}
