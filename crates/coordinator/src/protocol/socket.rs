//! The client's end of a session: messages in, messages out.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::BytesMut;
use executor::{CancelSet, Completion, Output, ReportedParameters, Spool};
use pgerror::{PgError, Result, field};
use pgproto::frontend::tag;
use pgproto::{Frame, FrameReader, FrameWriter, backend};

use crate::shared::figures::ERRORS;

/// Bytes of a client's further messages read ahead while a statement runs; more wait in the socket.
const READ_AHEAD_BYTES: usize = 1024 * 1024;

/// See the page.
pub(crate) struct Socket {
    reader: FrameReader,
    writer: FrameWriter,
    /// Rows of statements go here, not to the client: they are those of a function's body.
    capture: Option<Spool>,
    /// How many columns the client was told that the present statement has.
    told: Option<usize>,
    /// Settings as the client was last told of them.
    reported: ReportedParameters,
    /// The last ReadyForQuery or error ends here: PostgreSQL sends these at once.
    answered: u64,
}

impl Socket {
    pub(crate) fn new(reader: FrameReader, writer: FrameWriter) -> Self {
        Self { reader, writer, capture: None, told: None, reported: ReportedParameters::default(), answered: 0 }
    }

    /// The next message, if all of it has been read.
    pub(crate) fn try_next(&mut self) -> Result<Option<Frame>> {
        self.reader.try_next()
    }

    /// Has the client sent a length that cannot be? Its connection ends there.
    pub(crate) fn is_out_of_step(&self) -> bool {
        self.reader.is_out_of_step()
    }

    /// The error that ends the session of a client whose messages cannot be understood any more.
    pub(crate) fn in_step(&self) -> Result<()> {
        self.reader.in_step()
    }

    /// Reads more; 0 bytes if the client has hung up.
    pub(crate) async fn fill(&mut self) -> Result<usize> {
        self.reader.fill().await
    }

    /// Is Sync the next message? Not of another length, nor cut off by the end of the connection.
    pub(crate) async fn sync_is_next(&mut self) -> Result<bool> {
        const SYNC: [u8; 5] = [tag::SYNC, 0, 0, 0, 4];
        loop {
            if let Some(is_next) = self.reader.begins_with(&SYNC) {
                return Ok(is_next);
            }
            if self.reader.fill().await? == 0 {
                return Ok(false);
            }
        }
    }

    /// Both ends, for a COPY.
    pub(crate) fn ends(&mut self) -> (&mut FrameReader, &mut FrameWriter) {
        (&mut self.reader, &mut self.writer)
    }

    /// The watch for a client that hangs up, and its end for a COPY.
    pub(crate) fn watched_writer(&mut self) -> (Watch<'_>, &mut FrameWriter) {
        (Watch(&mut self.reader), &mut self.writer)
    }

    /// The watch for a client that hangs up, and where rows go: into this spool, else where [`Self::rows_into`] says.
    pub(crate) fn split<'s>(&'s mut self, spool: Option<&'s mut Spool>) -> (Watch<'s>, Output<'s>) {
        let output = match spool.or(self.capture.as_mut()) {
            Some(spool) => Output::spool(spool),
            None => Output::client(&mut self.writer, self.told),
        };
        (Watch(&mut self.reader), output)
    }

    /// The client was told that the rows it gets next have so many columns.
    pub(crate) fn has_told(&mut self, columns: Option<usize>) {
        self.told = columns;
    }

    pub(crate) fn watch(&mut self) -> Watch<'_> {
        Watch(&mut self.reader)
    }

    /// From now on rows go into this spool, or to the client; gives where they went.
    pub(crate) fn rows_into(&mut self, spool: Option<Spool>) -> Option<Spool> {
        std::mem::replace(&mut self.capture, spool)
    }

    pub(crate) fn rows_go_to_client(&self) -> bool {
        self.capture.is_none()
    }

    /// See [`FrameWriter::position`].
    pub(crate) fn position(&self) -> u64 {
        self.writer.position()
    }

    /// What the client will be sent next.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        self.writer.buffer()
    }

    pub(crate) async fn flush(&mut self) -> Result<()> {
        self.writer.flush().await
    }

    pub(crate) async fn shutdown(&mut self) -> Result<()> {
        self.writer.shutdown().await
    }

    /// Ends the connection as PostgreSQL does that breaks off: what it would not have sent by then is never sent.
    pub(crate) async fn break_off(&mut self) -> Result<()> {
        if self.writer.take_back(self.answered) { self.writer.shutdown().await } else { Ok(()) }
    }

    pub(crate) fn send_frame(&mut self, frame: &Frame) {
        pgproto::frame::put_frame(self.writer.buffer(), frame.tag, |out| out.extend_from_slice(&frame.body));
    }

    /// Sends the last message of a statement's answer.
    pub(crate) fn send_completion(&mut self, completion: &Completion) {
        match completion {
            Completion::Tag(tag) => {
                if tracing::enabled!(tracing::Level::DEBUG) {
                    tracing::Span::current().record("tag", tag);
                }
                backend::command_complete(self.writer.buffer(), tag);
            }
            Completion::Empty => backend::bare(self.writer.buffer(), backend::tag::EMPTY_QUERY),
        }
    }

    /// Sends an error of a statement; a position counts from the start of the whole query string. The log has its code only: the
    /// message may quote values of rows or parameters.
    pub(crate) fn send_error(&mut self, error: PgError, offset: usize) {
        let error = error.moved(offset);
        ERRORS.add(error.code().as_str(), 1);
        tracing::debug!(code = error.code().as_str(), "statement failed");
        backend::error(self.writer.buffer(), &error);
        self.answered = self.writer.position();
    }

    pub(crate) fn send_ready(&mut self, status: u8) {
        backend::ready_for_query(self.writer.buffer(), status);
        self.answered = self.writer.position();
    }

    /// The client was told of these settings when it came.
    pub(crate) fn has_reported(&mut self, reported: ReportedParameters) {
        self.reported = reported;
    }

    /// Tells the client which of its reported settings have another value now; gives those.
    pub(crate) fn report<'c>(&mut self, current: &'c ReportedParameters) -> Vec<(&'c str, &'c str)> {
        if Arc::ptr_eq(current, &self.reported) {
            return Vec::new();
        }
        let is_new = |(name, value): &(&String, &String)| self.reported.get(*name) != Some(*value);
        let mut new: Vec<(&str, &str)> =
            current.iter().filter(is_new).map(|(name, value)| (&**name, &**value)).collect();
        new.sort_unstable();
        new.iter().for_each(|(name, value)| backend::parameter_status(self.writer.buffer(), name, value));
        self.reported = current.clone();
        new
    }
}

/// Looks, while work is under way, whether the client hangs up.
pub(crate) struct Watch<'s>(&'s mut FrameReader);

impl Watch<'_> {
    /// Does the work; when the client hangs up, what runs is cancelled and the session ends. Pinned by the caller: a statement's future
    /// is large, and copied whenever it is passed on.
    pub(crate) async fn during<T>(
        self,
        cancel: &CancelSet,
        mut work: Pin<&mut impl Future<Output = Result<T>>>,
    ) -> Result<T> {
        let gone = tokio::select! {
            biased;
            result = &mut work => return result,
            gone = self.0.closed(READ_AHEAD_BYTES) => gone,
        };
        // The work may stand in line for what a cancel takes, so it must go on meanwhile.
        let mut cancelling = pin!(cancel.cancel());
        tokio::select! {
            biased;
            () = &mut cancelling => {}
            _ = work => cancelling.await,
        }
        Err(gone.with(field::SEVERITY, "FATAL"))
    }

    /// Does work that is not to be dropped half-way: its end is waited for.
    pub(crate) async fn finishing<T>(
        self,
        cancel: &CancelSet,
        mut work: Pin<&mut impl Future<Output = Result<T>>>,
    ) -> Result<T> {
        let gone = tokio::select! {
            biased;
            result = &mut work => return result,
            gone = self.0.closed(READ_AHEAD_BYTES) => gone,
        };
        let _ = tokio::join!(cancel.cancel(), work);
        Err(gone.with(field::SEVERITY, "FATAL"))
    }
}
