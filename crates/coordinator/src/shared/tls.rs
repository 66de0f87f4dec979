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

use executor::TlsStatus;
use pgerror::{PgError, Result, SqlState};
use pgproto::hba::ClientName;
use pgproto::scram::ChannelBinding;
use pgproto::tls::{ALPN, explained, files};
use pgproto::{FrameReader, FrameWriter, x509};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ServerConfig, ServerConnection};

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
    /// Names of the certificate that the client has shown and that is verified.
    pub(crate) certificate: Option<Subject>,
    /// What others are told.
    pub(crate) status: TlsStatus,
}

/// Names that say whose a certificate is, as far as it has them.
pub(crate) struct Subject {
    common_name: Option<String>,
    distinguished_name: Option<String>,
}

impl Subject {
    fn of(certificate: &[u8]) -> Self {
        let (common_name, distinguished_name) = (x509::common_name(certificate), x509::distinguished_name(certificate));
        Self { common_name, distinguished_name }
    }

    /// The one that a rule asks for.
    pub(crate) fn name(&self, which: ClientName) -> Option<&str> {
        match which {
            ClientName::Common => self.common_name.as_deref(),
            ClientName::Distinguished => self.distinguished_name.as_deref(),
        }
    }
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
        let stream = TlsAcceptor::from(config).accept(stream).await.map_err(explained)?;
        if is_direct && stream.get_ref().1.alpn_protocol() != Some(ALPN) {
            return Err(PgError::fatal(
                SqlState::PROTOCOL_VIOLATION,
                "received direct SSL connection request without ALPN protocol negotiation extension",
            ));
        }
        let connection = stream.get_ref().1;
        let shown = connection.peer_certificates().and_then(|chain| chain.first());
        let certificate = shown.map(|certificate| Subject::of(certificate));
        let status = status(connection, shown.and_then(|certificate| x509::Names::of(certificate)));
        let (read, write) = tokio::io::split(stream);
        Ok((FrameReader::new(read), FrameWriter::new(write), Encrypted { binding, certificate, status }))
    }
}

/// As PostgreSQL with OpenSSL names it all.
fn status(connection: &ServerConnection, client: Option<x509::Names>) -> TlsStatus {
    let suite = connection.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite()));
    let version = connection.protocol_version().and_then(|version| version.as_str());
    TlsStatus {
        version: version.map(|version| version.replacen("TLSv1_", "TLSv1.", 1)),
        bits: suite.as_deref().map(|suite| if suite.contains("AES_128") { 128 } else { 256 }),
        cipher: suite.map(|suite| cipher_name(&suite)),
        client_dn: client.as_ref().map(|client| client.subject.clone()),
        client_serial: client.as_ref().map(|client| client.serial.clone()),
        issuer_dn: client.map(|client| client.issuer),
    }
}

/// `TLS13_AES_256_GCM_SHA384` and `TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384` as OpenSSL names them: those of TLS 1.3 as the RFC does.
fn cipher_name(suite: &str) -> String {
    match suite.strip_prefix("TLS13_") {
        Some(name) => format!("TLS_{name}"),
        None => {
            let name = suite.trim_start_matches("TLS_").replace("_WITH_", "_").replace("AES_", "AES");
            name.replace("POLY1305_SHA256", "POLY1305").replace('_', "-")
        }
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

#[cfg(test)]
mod tests {
    use super::cipher_name;

    #[test]
    fn ciphers_have_the_names_of_openssl() {
        for (suite, name) in [
            ("TLS13_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
            ("TLS13_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
            ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
            ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ] {
            assert_eq!(cipher_name(suite), name);
        }
    }
}
