//! A session on the home node that keeps the rows of a READ ONLY block's cursors, since the block itself can make no temp
//! tables. Its transaction has the block's savepoints, so that cursors go with them, and is rolled back when the block ends.

use pgerror::Result;

use crate::session::{Block, CURSOR_HOLDER, Mode, Session};

impl Session {
    /// Opens its transaction, unless it is open.
    pub(crate) async fn open_cursor_holder(&mut self) -> Result<()> {
        if self.leased.contains_key(&CURSOR_HOLDER) {
            return Ok(());
        }
        self.acquire_as_is(CURSOR_HOLDER, Mode::Autocommit).await?;
        let savepoints = self.block.as_ref().map(Block::savepoints).unwrap_or_default();
        let leased = self.link(CURSOR_HOLDER)?;
        leased.begun = true;
        leased.link.connection.query(format!("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE{savepoints}").as_bytes());
        leased.flush().await?;
        leased.finish().await?;
        self.cancel.set_in_transaction(CURSOR_HOLDER, true);
        Ok(())
    }

    /// What it keeps ends with the block, and nothing of it is to be committed.
    pub(crate) async fn close_cursor_holder(&mut self) {
        if let Some(mut leased) = self.leased.remove(&CURSOR_HOLDER)
            && leased.link.connection.is_settled()
            && leased.link.connection.execute("ROLLBACK").await.is_ok()
        {
            self.give_back(CURSOR_HOLDER, leased);
        }
        let _ = self.cancel.remove(CURSOR_HOLDER);
    }
}
