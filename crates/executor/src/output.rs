//! Where a statement's rows go: straight to the client's socket, or into memory for a portal that is read in pieces.

use bytes::{BufMut, Bytes, BytesMut};
use pgerror::{PgError, Result, SqlState};
use pgproto::backend::{self, Field};
use pgproto::frame::{FrameWriter, HEADER_BYTES};

/// Most bytes kept for a portal that the client reads in pieces.
pub const SPOOL_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Receives one statement's result.
pub struct Output<'a> {
    target: Target<'a>,
    described: bool,
    rows: u64,
}

enum Target<'a> {
    Client(&'a mut FrameWriter),
    Spool(&'a mut Spool),
    Nowhere,
}

/// Rows kept in memory: runs of whole DataRow frames.
#[derive(Default)]
pub struct Spool {
    runs: std::collections::VecDeque<(Bytes, usize)>,
    bytes: usize,
    /// Their description, if it is wanted.
    fields: Option<Vec<Field>>,
    describes: bool,
}

/// Columns, and rows of values.
pub type Rows = (Option<Vec<Field>>, Vec<Vec<Option<Bytes>>>);

impl Spool {
    /// One that keeps the description of its rows too.
    pub fn described() -> Self {
        Self { describes: true, ..Self::default() }
    }

    /// The description and the rows.
    pub fn into_rows(self) -> Result<Rows> {
        let mut rows = Vec::with_capacity(self.len());
        for (run, _) in &self.runs {
            for body in frame_bodies(run) {
                rows.push(backend::decode_data_row(run.slice_ref(body))?);
            }
        }
        Ok((self.fields, rows))
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.runs.iter().map(|(_, count)| count).sum()
    }

    /// Takes the description, if one was kept.
    pub(crate) fn take_fields(&mut self) -> Option<Vec<Field>> {
        self.fields.take()
    }

    /// Takes at most `rows_max` rows off the front; `true` if some are left.
    pub fn take(&mut self, rows_max: usize, out: &mut BytesMut) -> (usize, bool) {
        let mut taken = 0;
        while taken < rows_max {
            let Some((mut run, count)) = self.runs.pop_front() else { break };
            if taken + count <= rows_max {
                taken += count;
                self.bytes -= run.len();
                out.put_slice(&run);
                continue;
            }
            let wanted = rows_max - taken;
            let end = frames_end(&run, wanted);
            out.put_slice(&run.split_to(end));
            self.bytes -= end;
            self.runs.push_front((run, count - wanted));
            taken = rows_max;
        }
        (taken, !self.runs.is_empty())
    }
}

/// Where the first `count` frames of a run end.
fn frames_end(run: &[u8], count: usize) -> usize {
    (0..count).fold(0, |at, _| {
        let length = u32::from_be_bytes([run[at + 1], run[at + 2], run[at + 3], run[at + 4]]) as usize;
        at + 1 + length
    })
}

impl<'a> Output<'a> {
    /// To the client.
    pub fn client(writer: &'a mut FrameWriter) -> Self {
        Self { target: Target::Client(writer), described: false, rows: 0 }
    }

    /// Into memory.
    pub fn spool(spool: &'a mut Spool) -> Self {
        Self { target: Target::Spool(spool), described: false, rows: 0 }
    }

    /// Rows that nobody reads.
    pub(crate) fn nowhere() -> Self {
        Self { target: Target::Nowhere, described: false, rows: 0 }
    }

    /// Rows so far.
    pub fn rows_sent(&self) -> u64 {
        self.rows
    }

    /// Has nothing been passed on?
    pub(crate) fn is_untouched(&self) -> bool {
        !self.described && self.rows == 0
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
            (false, Target::Spool(spool)) => spool.fields = Some(fields.to_vec()),
            _ => {}
        }
    }

    /// Passes whole DataRow frames on.
    pub(crate) async fn rows(&mut self, run: Bytes, count: usize) -> Result<()> {
        self.rows += count as u64;
        match &mut self.target {
            Target::Nowhere => Ok(()),
            Target::Client(writer) => writer.write_through(&run).await,
            Target::Spool(spool) => {
                spool.bytes += run.len();
                if spool.bytes > SPOOL_BYTES_MAX {
                    return Err(PgError::new(
                        SqlState::PROGRAM_LIMIT_EXCEEDED,
                        "the rows that a coordinator has to keep exceed 256 MiB",
                    )
                    .hint("Fetch all rows of a portal at once, or use DECLARE CURSOR and FETCH; let RETURNING in WITH give fewer rows."));
                }
                spool.runs.push_back((run, count));
                Ok(())
            }
        }
    }
}

/// The bodies of a run of frames.
pub(crate) fn frame_bodies(run: &Bytes) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let header = run.get(at..at + HEADER_BYTES)?;
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        let body = &run[at + HEADER_BYTES..at + 1 + length];
        at += 1 + length;
        Some(body)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> BytesMut {
        let mut out = BytesMut::new();
        backend::data_row(&mut out, [Some(text.as_bytes())].into_iter());
        out
    }

    #[tokio::test]
    async fn a_spool_gives_rows_in_pieces() {
        let mut spool = Spool::default();
        let mut output = Output::spool(&mut spool);
        let mut run = row("a");
        run.extend_from_slice(&row("bb"));
        run.extend_from_slice(&row("c"));
        output.rows(run.freeze(), 3).await.unwrap();
        let mut first = BytesMut::new();
        assert_eq!(spool.take(2, &mut first), (2, true));
        let mut rest = BytesMut::new();
        assert_eq!(spool.take(9, &mut rest), (1, false));
        assert_eq!(rest, row("c"));
        assert_eq!(frame_bodies(&first.freeze()).count(), 2);
    }
}
