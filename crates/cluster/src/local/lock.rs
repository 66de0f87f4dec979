//! One command at a time changes a cluster.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use pgerror::{PgError, Result, SqlState};
use rustix::fs::{FlockOperation, flock};

use crate::disk;

/// Between two looks whether another command has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Held while `up` or `down` works on a directory; the kernel frees it when the holder ends, however it ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    pub(crate) fn take(dir: &Path) -> Result<Self> {
        let path = dir.join("lock");
        let file = File::options().create(true).append(true).open(&path).map_err(disk::context("open", &path))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            PgError::new(
                SqlState::LOCK_NOT_AVAILABLE,
                format!("another loxo command is at work on the cluster in \"{}\"", dir.display()),
            )
            .hint("Wait for it to end, then try again.")
        })?;
        Ok(Self { _file: file })
    }

    /// Takes the lock for a command that has done too much already to give up because another one is at work for a moment.
    pub(crate) async fn wait(dir: &Path) -> Result<Self> {
        loop {
            match Self::take(dir) {
                Err(error) if error.code() == SqlState::LOCK_NOT_AVAILABLE => tokio::time::sleep(LOOK).await,
                taken => return taken,
            }
        }
    }
}
