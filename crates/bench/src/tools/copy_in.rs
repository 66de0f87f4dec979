//! One COPY FROM STDIN, fed with generated blocks or with a file.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::SinkExt;
use pgerror::{PgError, Result, SqlState};
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, watch};
use tokio_postgres::Client;

use crate::lineitem::{BLOCK_BYTES, Blocks};
use crate::tools::progress::Progress;
use crate::tools::sql;

/// Blocks waiting between the generator and the socket.
const BLOCKS_WAITING_MAX: usize = 4;

/// Tells every running COPY to stop and roll back.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<watch::Sender<bool>>);

impl Default for Cancel {
    fn default() -> Self {
        Self(Arc::new(watch::channel(false).0))
    }
}

impl Cancel {
    /// From now on nothing more is committed, except a COPY whose last byte is sent already.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Waits for [`Cancel::cancel`].
    pub(crate) async fn cancelled(&self) {
        // The sender lives as long as `self`, so this ends only when the value is true.
        let _ = self.0.subscribe().wait_for(|cancelled| *cancelled).await;
    }
}

/// A block of whole rows.
pub(crate) struct Block {
    pub(crate) rows: u64,
    pub(crate) bytes: Bytes,
}

/// Makes blocks on a thread of its own; a full channel holds it back.
pub(crate) fn generate(mut blocks: Blocks) -> mpsc::Receiver<Block> {
    let (sender, receiver) = mpsc::channel(BLOCKS_WAITING_MAX);
    tokio::task::spawn_blocking(move || {
        loop {
            // One buffer a block: it travels to the socket without a copy.
            let mut bytes = Vec::with_capacity(BLOCK_BYTES + 1024);
            let rows = blocks.fill(&mut bytes);
            if rows == 0 || sender.blocking_send(Block { rows, bytes: bytes.into() }).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Sends all blocks as one COPY, which is one transaction; gives the server's row count. When cancelled, waits until the
/// server has rolled back.
pub(crate) async fn copy_blocks(
    client: &Client,
    copy: &str,
    mut blocks: mpsc::Receiver<Block>,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<u64> {
    let mut sink = Box::pin(client.copy_in::<_, Bytes>(copy).await.map_err(sql::error)?);
    loop {
        let block = tokio::select! {
            block = blocks.recv() => block,
            () = cancel.cancelled() => {
                // Dropping the sink sends CopyFail; the next statement is answered after the rollback.
                drop(sink);
                sql::run(client, "SELECT 1").await?;
                return Err(PgError::new(SqlState::QUERY_CANCELED, "the load was interrupted"));
            }
        };
        let Some(block) = block else { break };
        let length = block.bytes.len() as u64;
        sink.send(block.bytes).await.map_err(sql::error)?;
        progress.add(block.rows, length);
    }
    sink.as_mut().finish().await.map_err(sql::error)
}

/// Sends a file as one COPY, and counts its bytes in `progress`.
pub(crate) async fn copy_file(client: &Client, copy: &str, path: &Path, progress: Option<&Progress>) -> Result<u64> {
    let mut file = tokio::fs::File::open(path).await?;
    let mut sink = Box::pin(client.copy_in::<_, Bytes>(copy).await.map_err(sql::error)?);
    loop {
        let mut bytes = bytes::BytesMut::with_capacity(BLOCK_BYTES);
        if file.read_buf(&mut bytes).await? == 0 {
            return sink.as_mut().finish().await.map_err(sql::error);
        }
        let length = bytes.len() as u64;
        sink.send(bytes.freeze()).await.map_err(sql::error)?;
        if let Some(progress) = progress {
            progress.add(0, length);
        }
    }
}
