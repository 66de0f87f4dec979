//! A session on the home node that keeps the rows of a READ ONLY block's cursors, since the block itself can make no temp
//! tables. Its transaction has the block's savepoints, so that cursors go with them, and is rolled back when the block ends.

use pgerror::Result;

use crate::session::{Block, KEEPER, Mode, Session};

impl Session {
    /// Opens its transaction, unless it is open.
    pub(crate) async fn open_cursor_holder(&mut self) -> Result<()> {
        if self.held.contains_key(&KEEPER) {
            return Ok(());
        }
        self.hold_as_is(KEEPER, Mode::Autocommit).await?;
        let savepoints = self.block.as_ref().map(Block::savepoints).unwrap_or_default();
        let held = self.link(KEEPER)?;
        held.begun = true;
        held.link.connection.query(format!("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE{savepoints}").as_bytes());
        held.flush().await?;
        held.finish().await?;
        self.cancel.set_in_transaction(KEEPER, true);
        Ok(())
    }

    /// What it keeps ends with the block, and nothing of it is to be committed.
    pub(crate) async fn close_cursor_holder(&mut self) {
        if let Some(mut held) = self.held.remove(&KEEPER)
            && held.link.connection.is_settled()
            && held.link.connection.execute("ROLLBACK").await.is_ok()
        {
            self.give_back(KEEPER, held);
        }
        let _ = self.cancel.remove(KEEPER);
    }
}
