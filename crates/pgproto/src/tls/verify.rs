//! What a server must show.
//!
//! Invariant: that the server has the key of its certificate is proven whatever else is asked of it.

use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use tokio_rustls::rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{self, CertificateError, DigitallySignedStruct, SignatureScheme};

use super::files::Authorities;
use crate::x509;

/// What is asked of a certificate.
#[derive(Debug)]
pub(super) enum Check {
    Nothing,
    /// The authority that has signed it.
    Authority(Authorities),
    /// And the host's name is in it.
    AuthorityAndName(Authorities),
    /// To be this one.
    Pinned(CertificateDer<'static>),
}

impl Check {
    pub(super) fn is_any(&self) -> bool {
        !matches!(self, Check::Nothing)
    }
}

#[derive(Debug)]
pub(super) struct Verifier {
    check: Check,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    pub(super) fn new(check: Check, provider: Arc<CryptoProvider>) -> Self {
        Self { check, provider }
    }

    fn chain(
        &self,
        authorities: &Authorities,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        if authorities.contain(shown) {
            return Ok(());
        }
        let algorithms = self.provider.signature_verification_algorithms.all;
        let parsed = ParsedCertificate::try_from(shown)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, &authorities.store(), others, now, algorithms)
    }
}

/// As libpq a certificate without other names is taken by its common name.
fn name(shown: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), rustls::Error> {
    let verified = verify_server_name(&ParsedCertificate::try_from(shown)?, name);
    let is_common_name = || x509::only_common_name(shown).is_some_and(|own| own.eq_ignore_ascii_case(&name.to_str()));
    verified.or_else(|error| if is_common_name() { Ok(()) } else { Err(error) })
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.check {
            Check::Nothing => {}
            Check::Authority(authorities) => self.chain(authorities, shown, others, now)?,
            Check::AuthorityAndName(authorities) => {
                self.chain(authorities, shown, others, now)?;
                name(shown, host)?;
            }
            Check::Pinned(expected) if **expected == **shown => {}
            Check::Pinned(_) => return Err(CertificateError::ApplicationVerificationFailure.into()),
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
