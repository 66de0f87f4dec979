//! Where the bytes of COPY FROM come from: the client's CopyData, or a file on the coordinator's host.
//!
//! What the kernel has of a file in its cache is read at once: a copy of 64 KiB takes less than waking a thread for it. A
//! thread waits for the disk; and it reads whatever else has a file's name, ahead of the router.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use copyfmt::LineFinder;
use pgerror::{PgError, Result, SqlState, field};
use pgproto::{Frame, FrameReader, FrameWriter, backend, frontend};
use tokio::sync::{mpsc, watch};

use crate::backend::cancel::terminated;

/// How the error begins that a client's CopyFail becomes.
pub(crate) const CLIENT_GAVE_UP: &str = "COPY from stdin failed: ";
/// Bytes read from a file at once.
const FILE_CHUNK_BYTES: usize = 64 * 1024;

/// Where the bytes come from.
pub enum CopySource<'a> {
    /// CopyData messages.
    Client(&'a mut FrameReader, &'a mut FrameWriter),
    /// A file on the coordinator's host.
    File(PathBuf),
}

/// Bytes of the client's messages read ahead while nothing is asked of it yet.
const READ_AHEAD_BYTES: usize = 64 * 1024;

impl CopySource<'_> {
    /// Returns when the client has hung up.
    pub(crate) async fn gone(&mut self) -> PgError {
        match self {
            CopySource::Client(reader, _) => reader.closed(READ_AHEAD_BYTES).await.with(field::SEVERITY, "FATAL"),
            CopySource::File(_) => std::future::pending().await,
        }
    }

    /// The file, if it is one.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match self {
            CopySource::Client(..) => None,
            CopySource::File(path) => Some(path.clone()),
        }
    }
}

/// The bytes of a COPY, in chunks.
pub(crate) enum Input<'a> {
    Client { reader: &'a mut FrameReader, ended: bool, ending: watch::Receiver<bool> },
    File(mpsc::Receiver<Result<Bytes>>),
    Cached(Cached),
}

impl<'a> Input<'a> {
    /// Asks the client for data, or opens the file. `ending` is true when the session is to end, whatever the client does.
    pub(crate) async fn open(
        source: CopySource<'a>,
        binary: bool,
        columns: usize,
        ending: watch::Receiver<bool>,
    ) -> Result<Self> {
        match source {
            CopySource::Client(reader, writer) => {
                backend::copy_response(writer.buffer(), backend::tag::COPY_IN, binary, columns);
                writer.flush().await?;
                Ok(Input::Client { reader, ended: false, ending })
            }
            CopySource::File(path) => {
                let file = open_file(&path)?;
                Ok(match Cached::knows(&file) {
                    true => Input::Cached(Cached { file: Arc::new(file), at: 0, chunks: Chunks::default() }),
                    false => Input::File(read_ahead(file)),
                })
            }
        }
    }

    /// The client goes on sending until it has been answered; its data are read and dropped.
    pub(crate) async fn drain(&mut self) -> Result<()> {
        match self {
            Input::File(chunks) => chunks.close(),
            Input::Cached(_) => {}
            Input::Client { .. } => while self.next().await?.is_some() {},
        }
        Ok(())
    }

    /// `None` at the end. A client that gives up or hangs up is an error.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        let (reader, ended, ending) = match self {
            Input::File(chunks) => return chunks.recv().await.transpose(),
            Input::Cached(file) => return file.next().await,
            Input::Client { ended: true, .. } => return Ok(None),
            Input::Client { reader, ended, ending } => (reader, ended, ending),
        };
        loop {
            let frame = tokio::select! {
                biased;
                frame = message_of_copy(reader) => frame?,
                _ = ending.wait_for(|ends| *ends) => return Err(terminated()),
            };
            match frame.tag {
                frontend::tag::COPY_DATA => return Ok(Some(frame.body)),
                frontend::tag::COPY_DONE => {
                    *ended = true;
                    return Ok(None);
                }
                frontend::tag::COPY_FAIL => {
                    *ended = true;
                    let reason = pgproto::frame::Cursor::new(frame.body).cstr()?;
                    return Err(PgError::new(
                        SqlState::QUERY_CANCELED,
                        format!("{CLIENT_GAVE_UP}{}", String::from_utf8_lossy(&reason)),
                    ));
                }
                // Flush and Sync.
                _ => {}
            }
        }
    }
}

/// The next message, which must be one that belongs to a COPY: after another, as after a length that cannot be, nothing that the client
/// sends is understood any more.
async fn message_of_copy(reader: &mut FrameReader) -> Result<Frame> {
    use frontend::tag::{COPY_DATA, COPY_DONE, COPY_FAIL, FLUSH, SYNC};
    let tag = loop {
        match reader.peek_tag() {
            Some(tag) => break tag,
            None if reader.fill().await? == 0 => return Err(hung_up()),
            None => {}
        }
    };
    if !matches!(tag, COPY_DATA | COPY_DONE | COPY_FAIL | FLUSH | SYNC) {
        reader.break_off();
        return Err(PgError::protocol(format!("unexpected message type 0x{tag:02X} during COPY from stdin")));
    }
    let frame = reader.next().await?;
    if reader.is_out_of_step() {
        reader.break_off();
        return Err(hung_up().with(field::SEVERITY, "ERROR").with(field::SEVERITY_LOCALIZED, "ERROR"));
    }
    frame.ok_or_else(hung_up)
}

fn hung_up() -> PgError {
    PgError::connection("unexpected EOF on client connection with an open transaction").with(field::SEVERITY, "FATAL")
}

/// Chunks of a file. Memory that nobody uses any more is filled again.
#[derive(Default)]
struct Chunks {
    lent: VecDeque<Bytes>,
}

impl Chunks {
    fn empty(&mut self) -> Vec<u8> {
        let reused = self.lent.front().is_some_and(Bytes::is_unique).then(|| self.lent.pop_front()).flatten();
        let mut buffer: Vec<u8> = reused.map(Vec::from).unwrap_or_default();
        buffer.resize(FILE_CHUNK_BYTES, 0);
        buffer
    }

    /// What was read into a buffer; `None` at the end of the file.
    fn filled(&mut self, mut buffer: Vec<u8>, read: std::io::Result<usize>) -> Result<Option<Bytes>> {
        let count = read.map_err(|error| {
            let message = format!("could not read from COPY file: {}", os_text(&error));
            PgError::new(file_error_code(&error), message)
        })?;
        if count == 0 {
            return Ok(None);
        }
        buffer.truncate(count);
        let chunk = Bytes::from(buffer);
        self.lent.push_back(chunk.clone());
        Ok(Some(chunk))
    }
}

/// A file that can be read as far as it is in the kernel's cache.
pub(crate) struct Cached {
    file: Arc<File>,
    at: u64,
    chunks: Chunks,
}

impl Cached {
    /// Is this such a file? Not every file system can tell.
    fn knows(file: &File) -> bool {
        let can_tell = || match read_cached(file, &mut [0], 0) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        file.metadata().is_ok_and(|data| data.is_file()) && can_tell()
    }

    async fn next(&mut self) -> Result<Option<Bytes>> {
        let mut buffer = self.chunks.empty();
        let mut read = read_cached(&self.file, &mut buffer, self.at);
        if read.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            (buffer, read) = self.wait_and_read(buffer).await?;
        }
        let chunk = self.chunks.filled(buffer, read)?;
        self.at += chunk.as_ref().map_or(0, Bytes::len) as u64;
        Ok(chunk)
    }

    /// Reads by a thread that may wait for the disk.
    async fn wait_and_read(&self, mut buffer: Vec<u8>) -> Result<(Vec<u8>, std::io::Result<usize>)> {
        let (file, at) = (self.file.clone(), self.at);
        let work = tokio::task::spawn_blocking(move || {
            let read = file.read_at(&mut buffer, at);
            (buffer, read)
        });
        work.await.map_err(|_| PgError::internal("the thread that reads a file panicked"))
    }
}

/// Reads as much as needs no waiting; WouldBlock if that is nothing.
#[cfg(target_os = "linux")]
fn read_cached(file: &File, buffer: &mut [u8], at: u64) -> std::io::Result<usize> {
    use rustix::io::{ReadWriteFlags, preadv2};
    let mut buffers = [std::io::IoSliceMut::new(buffer)];
    loop {
        match preadv2(file, &mut buffers, at, ReadWriteFlags::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            read => return Ok(read?),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn read_cached(_: &File, _: &mut [u8], _: u64) -> std::io::Result<usize> {
    Err(ErrorKind::Unsupported.into())
}

/// Reads ahead by a thread.
fn read_ahead(mut file: File) -> mpsc::Receiver<Result<Bytes>> {
    let (sender, receiver) = mpsc::channel(2);
    tokio::task::spawn_blocking(move || {
        let mut chunks = Chunks::default();
        loop {
            let mut buffer = chunks.empty();
            let read = file.read(&mut buffer);
            let Some(chunk) = chunks.filled(buffer, read).transpose() else { return };
            let failed = chunk.is_err();
            if sender.blocking_send(chunk).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

/// Opens a file as `BeginCopyFrom` (PostgreSQL's `copyfrom.c`) does.
fn open_file(path: &Path) -> Result<File> {
    let display = path.display();
    let file = File::open(path).map_err(|error| {
        let message = format!("could not open file \"{display}\" for reading: {}", os_text(&error));
        let failure = PgError::new(file_error_code(&error), message);
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied => failure.hint(
                "COPY FROM instructs the PostgreSQL server process to read a file. You may want a client-side facility \
                 such as psql's \\copy.",
            ),
            _ => failure,
        }
    })?;
    match file.metadata() {
        Ok(data) if data.is_dir() => {
            Err(PgError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{display}\" is a directory")))
        }
        _ => Ok(file),
    }
}

/// Reads a file again up to the line wanted; `None` if it is not there any more.
pub(crate) async fn read_line_again(path: PathBuf, mut finder: LineFinder) -> Option<Vec<u8>> {
    let search = move || {
        let mut file = open_file(&path).ok()?;
        while !finder.is_over() {
            let mut buffer = vec![0; FILE_CHUNK_BYTES];
            let count = file.read(&mut buffer).ok()?;
            if count == 0 {
                return finder.finish();
            }
            buffer.truncate(count);
            if let Some(text) = finder.push(Bytes::from(buffer)) {
                return Some(text);
            }
        }
        None
    };
    tokio::task::spawn_blocking(search).await.ok().flatten()
}

/// The system's words without Rust's "(os error 2)".
pub(crate) fn os_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// `errcode_for_file_access` of PostgreSQL's `elog.c`.
pub(crate) fn file_error_code(error: &std::io::Error) -> SqlState {
    match error.kind() {
        ErrorKind::NotFound => SqlState::UNDEFINED_FILE,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => SqlState::INSUFFICIENT_PRIVILEGE,
        ErrorKind::NotADirectory | ErrorKind::IsADirectory => SqlState::WRONG_OBJECT_TYPE,
        ErrorKind::StorageFull => SqlState::DISK_FULL,
        _ => SqlState::IO_ERROR,
    }
}
