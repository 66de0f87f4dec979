//! A session on the home node that keeps the rows of a READ ONLY block's cursors, since the block itself can make no temp
//! tables. Its transaction has the block's savepoints, so that cursors go with them, and is rolled back when the block ends.

use pgerror::Result;

use crate::backend::slot::Slot;
use crate::block::Block;
use crate::block::Mode;
use crate::session::Session;

impl Session {
    /// Opens its transaction, unless it is open.
    pub(crate) async fn open_cursor_holder(&mut self) -> Result<()> {
        let holder = self.cursor_holder();
        if self.links.has(holder) {
            // Filling it with rows may touch settings.
            self.links.link(holder)?.settled = None;
            return Ok(());
        }
        self.acquire_as_is(holder, Mode::Autocommit).await?;
        let savepoints = self.block.as_ref().map(Block::savepoints).unwrap_or_default();
        let leased = self.links.link(holder)?;
        leased.begun = true;
        leased.link.connection.query(format!("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE{savepoints}").as_bytes());
        leased.flush().await?;
        leased.finish().await?;
        self.links.cancel().set_in_transaction(holder, true);
        Ok(())
    }

    /// Before rows are fetched from a session: if it is the holder, it gets the block's settings, which say how values are printed.
    pub async fn settle_cursor_holder(&mut self, slot: Slot) -> Result<()> {
        let made = self.block.as_ref().map(Block::settings_made).unwrap_or_default();
        if !slot.is_cursor_holder() || made.is_empty() {
            return Ok(());
        }
        let settings = Some(self.settings_now());
        if self.links.has(slot) && self.links.link(slot)?.settled == settings {
            return Ok(());
        }
        self.command_on(slot, &made.join("; ")).await?;
        self.links.link(slot)?.settled = settings;
        Ok(())
    }

    /// After ROLLBACK TO SAVEPOINT, which takes back settings there.
    pub(crate) fn unsettle_cursor_holder(&mut self) {
        let holder = self.cursor_holder();
        if let Ok(leased) = self.links.link(holder) {
            leased.settled = None;
        }
    }

    /// What it keeps ends with the block, and nothing of it is to be committed.
    pub(crate) async fn close_cursor_holder(&mut self) {
        self.links.end_one(self.cursor_holder()).await;
    }
}
