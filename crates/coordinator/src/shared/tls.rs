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

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use pgerror::{PgError, Result, SqlState};
use pgproto::scram::ChannelBinding;
use pgproto::tls::{ALPN, files};
use pgproto::{FrameReader, FrameWriter, x509};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;

/// Where certificate and key lie, and whether a client may do without.
#[derive(Clone, Debug)]
pub struct TlsOptions {
    /// PEM: the coordinator's certificate, then those that vouch for it.
    pub certificate: PathBuf,
    /// PEM, readable for nobody but the coordinator.
    pub key: PathBuf,
    /// PEM: authorities that sign clients' certificates. Without them clients are not asked for any.
    pub client_ca: Option<PathBuf>,
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

/// What is known of an encrypted connection.
pub(crate) struct Encrypted {
    /// What SCRAM binds itself to.
    pub(crate) binding: Option<ChannelBinding>,
    /// The client has shown a certificate that is verified: its common name, if it has one.
    pub(crate) certificate: Option<Option<String>>,
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

    /// Are clients asked for certificates?
    pub(crate) fn asks_clients(&self) -> bool {
        self.options.client_ca.is_some()
    }

    pub(crate) fn is_required(&self) -> bool {
        self.options.required
    }

    /// The handshake. A client that has begun with it must say what it wants.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        is_direct: bool,
    ) -> Result<(FrameReader, FrameWriter, Encrypted)> {
        let Present { config, binding } = self.present.read().unwrap_or_else(PoisonError::into_inner).clone();
        let stream = TlsAcceptor::from(config).accept(stream).await?;
        if is_direct && stream.get_ref().1.alpn_protocol() != Some(ALPN) {
            return Err(PgError::fatal(
                SqlState::PROTOCOL_VIOLATION,
                "received direct SSL connection request without ALPN protocol negotiation extension",
            ));
        }
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let certificate = shown.map(|certificate| x509::common_name(certificate));
        let (read, write) = tokio::io::split(stream);
        Ok((FrameReader::new(read), FrameWriter::new(write), Encrypted { binding, certificate }))
    }
}

impl Present {
    fn load(options: &TlsOptions) -> Result<Self> {
        let TlsOptions { certificate, key, client_ca, .. } = options;
        let chain = files::certificates(certificate)?;
        let binding = chain.first().and_then(|own| ChannelBinding::of_certificate(own));
        let own_key = files::key(key)?;
        let provider = Arc::new(ring::default_provider());
        let verifier = match client_ca {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(path) => {
                WebPkiClientVerifier::builder_with_provider(files::authorities(path)?.store(), provider.clone())
                    .allow_unauthenticated()
                    .build()
                    .map_err(|error| files::unusable("certificate", path, &error))?
            }
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_client_cert_verifier(verifier).with_single_cert(chain, own_key));
        let mut config = config.map_err(|error| files::unusable("certificate", certificate, &error))?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        files::resume_nothing(&mut config);
        Ok(Self { config: Arc::new(config), binding })
    }
}
