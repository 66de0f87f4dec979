//! Where a statement's rows go: straight to the client's socket, or into a [`Spool`], for a portal that is read in pieces and the like.

use bytes::Bytes;
use pgerror::Result;
use pgproto::backend::{self, Field};
use pgproto::frame::FrameWriter;

use crate::engine::spool::{Spool, check_columns};

/// Receives one statement's result.
pub struct Output<'a> {
    target: Target<'a>,
    /// Where the client's writer was.
    begin: u64,
    described: bool,
    /// How many columns the client has been told of.
    told: Option<usize>,
    rows: u64,
}

enum Target<'a> {
    Client(&'a mut FrameWriter),
    Spool(&'a mut Spool),
    Nowhere,
}

impl<'a> Output<'a> {
    /// To the client, which may have been told of so many columns before.
    pub fn client(writer: &'a mut FrameWriter, told: Option<usize>) -> Self {
        let begin = writer.position();
        Self { target: Target::Client(writer), begin, described: false, told, rows: 0 }
    }

    /// Kept.
    pub fn spool(spool: &'a mut Spool) -> Self {
        Self { target: Target::Spool(spool), begin: 0, described: false, told: None, rows: 0 }
    }

    /// Rows that nobody reads.
    pub(crate) fn nowhere() -> Self {
        Self { target: Target::Nowhere, begin: 0, described: false, told: None, rows: 0 }
    }

    /// Rows so far.
    pub fn rows_sent(&self) -> u64 {
        self.rows
    }

    /// Has nothing been passed on?
    pub(crate) fn is_untouched(&self) -> bool {
        !self.described && self.rows == 0
    }

    /// Takes back what was passed on, if none of it is on its way to the client. Is it as if nothing had been passed on?
    pub(crate) fn take_back(&mut self) -> bool {
        if let Target::Client(writer) = &mut self.target
            && writer.take_back(self.begin)
        {
            (self.described, self.rows) = (false, 0);
        }
        self.is_untouched()
    }

    /// Is a RowDescription still to be passed on?
    pub(crate) fn wants_description(&self) -> bool {
        !self.described
            && match &self.target {
                Target::Client(_) => true,
                Target::Spool(spool) => spool.describes,
                Target::Nowhere => false,
            }
    }

    /// Passes a RowDescription on, once.
    pub(crate) fn description(&mut self, fields: &[Field]) {
        match (std::mem::replace(&mut self.described, true), &mut self.target) {
            (false, Target::Client(writer)) => backend::row_description(writer.buffer(), fields),
            (false, Target::Spool(spool)) => spool.describe(fields),
            _ => {}
        }
    }

    /// Passes whole DataRow frames on.
    ///
    /// # Errors
    /// 0A000 if they have more or fewer columns than the client was told of: a table has got other ones while the statement waited.
    pub(crate) async fn rows(&mut self, run: Bytes, count: usize) -> Result<()> {
        if self.rows == 0 {
            check_columns(&run, self.told)?;
        }
        self.rows += count as u64;
        match &mut self.target {
            Target::Nowhere => Ok(()),
            Target::Client(writer) => writer.write_through(&run).await,
            Target::Spool(spool) => spool.push(run, count),
        }
    }
}
