//! A bare TCP relay: what any hop between client and server costs that looks at nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pgerror::{PgError, Result};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::tools::cpu;

/// Runs on threads of its own, as many as a coordinator has, until it is dropped.
pub(super) struct Relay {
    address: SocketAddr,
    /// Where /proc has its threads.
    threads: Arc<Mutex<Vec<PathBuf>>>,
    runtime: Option<Runtime>,
}

impl Relay {
    /// Each connection to it is one to the server.
    pub(super) fn start(server: SocketAddr) -> Result<Self> {
        let threads = Arc::new(Mutex::new(Vec::new()));
        let begun = threads.clone();
        let note_thread = move || {
            // "self" is another process to whoever reads it later.
            let place = std::fs::read_link("/proc/thread-self").map(|place| PathBuf::from("/proc").join(place));
            begun.lock().unwrap_or_else(PoisonError::into_inner).extend(place);
        };
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.thread_name("relay").enable_io().on_thread_start(note_thread).build()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = {
            let _within = runtime.enter();
            TcpListener::from_std(listener)?
        };
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // A connection that fails is the client's error, which tells more.
                tokio::spawn(relay(client, server));
            }
        });
        Ok(Self { address, threads, runtime: Some(runtime) })
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Of all its threads until now.
    pub(super) fn processor_seconds(&self) -> Result<f64> {
        let threads = self.threads.lock().map_err(|error| PgError::internal(error.to_string()))?;
        threads.iter().map(|place| cpu::thread_seconds(place)).sum()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // A runtime must not wait for its threads within another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn relay(mut client: TcpStream, server: SocketAddr) -> std::io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn bytes_go_both_ways_until_one_side_ends() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Relay::start(server.local_addr().unwrap()).unwrap();
        let mut client = TcpStream::connect(("127.0.0.1", relay.port())).await.unwrap();
        let (mut behind, _) = server.accept().await.unwrap();
        client.write_all(b"question").await.unwrap();
        let mut bytes = [0; 8];
        behind.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"question");
        behind.write_all(b"answers!").await.unwrap();
        drop(behind);
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"answers!");
        assert!(relay.processor_seconds().unwrap() >= 0.0);
    }
}
