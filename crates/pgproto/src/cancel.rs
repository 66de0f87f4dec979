//! Cancel requests: how a backend is told to stop what it does, and a connection not to wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pgerror::{PgError, Result};
use tokio::sync::Notify;

use crate::dial::{self, Opened};
use crate::frontend;
use crate::tls::Encryption;

/// Longest wait for a server to take a cancel request.
const CANCEL_MAX: Duration = Duration::from_secs(2);

/// What a CancelRequest needs.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct CancelKey {
    pub host: String,
    pub port: u16,
    pub process_id: i32,
    pub secret: Bytes,
    encryption: Encryption,
    pub(crate) given_up: Arc<GivenUp>,
}

/// Somebody has asked the owner of a connection not to wait for its server any longer.
#[derive(Debug, Default)]
pub(crate) struct GivenUp {
    is_asked: AtomicBool,
    asked: Notify,
}

impl GivenUp {
    pub(crate) async fn comes(&self) -> PgError {
        while !self.is_asked.load(Ordering::Acquire) {
            self.asked.notified().await;
        }
        PgError::connection("the datanode did not answer when its statement was to be cancelled")
    }
}

impl CancelKey {
    /// The key of a backend.
    pub fn new(host: &str, port: u16, process_id: i32, secret: Bytes, encryption: Encryption) -> Self {
        Self { host: host.to_owned(), port, process_id, secret, encryption, given_up: Arc::default() }
    }

    /// Asks the server to cancel what that backend is doing. A server that does not even take that in time is given up: its
    /// connection breaks, so a cancel that comes late can hit nobody else. False if the request may still come to the backend.
    pub async fn cancel(&self) -> bool {
        let sent = tokio::time::timeout(CANCEL_MAX, self.send()).await;
        if sent.is_err() {
            self.give_up();
        }
        matches!(sent, Ok(Ok(())))
    }

    /// Ends the wait for an answer on the connection (08006).
    pub fn give_up(&self) {
        self.given_up.is_asked.store(true, Ordering::Release);
        self.given_up.asked.notify_one();
    }

    /// Asks the server to cancel what that backend is doing. Errors are of no use to anyone: the statement ends anyway.
    async fn send(&self) -> Result<()> {
        let Opened { mut reader, mut writer, .. } = dial::open(&self.host, self.port, &self.encryption).await?;
        frontend::cancel_request(writer.buffer(), self.process_id, &self.secret);
        writer.flush().await?;
        // The server closes the connection once the signal is sent; waiting for that keeps a late cancel from hitting
        // the backend's next statement.
        let _ = reader.fill().await;
        Ok(())
    }
}
