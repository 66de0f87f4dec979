//! Where the bytes of COPY FROM come from: the client's CopyData, or a file on the coordinator's host that a thread reads
//! ahead of the router.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use copyfmt::LineFinder;
use pgerror::{PgError, Result, SqlState, field};
use pgproto::{FrameReader, FrameWriter, backend, frontend};
use tokio::sync::mpsc;

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
    Client { reader: &'a mut FrameReader, ended: bool },
    File(mpsc::Receiver<Result<Bytes>>),
}

impl<'a> Input<'a> {
    /// Asks the client for data, or opens the file.
    pub(crate) async fn open(source: CopySource<'a>, binary: bool, columns: usize) -> Result<Self> {
        match source {
            CopySource::Client(reader, writer) => {
                backend::copy_response(writer.buffer(), backend::tag::COPY_IN, binary, columns);
                writer.flush_stream().await?;
                Ok(Input::Client { reader, ended: false })
            }
            CopySource::File(path) => Ok(Input::File(read_file(&path)?)),
        }
    }

    /// The client goes on sending until it has been answered; its data are read and dropped.
    pub(crate) async fn drain(&mut self) -> Result<()> {
        if let Input::File(chunks) = self {
            chunks.close();
            return Ok(());
        }
        while self.next().await?.is_some() {}
        Ok(())
    }

    /// `None` at the end. A client that gives up or hangs up is an error.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        let (reader, ended) = match self {
            Input::File(chunks) => return chunks.recv().await.transpose(),
            Input::Client { ended: true, .. } => return Ok(None),
            Input::Client { reader, ended } => (reader, ended),
        };
        loop {
            let Some(frame) = reader.next().await? else {
                return Err(PgError::connection("unexpected EOF on client connection with an open transaction")
                    .with(field::SEVERITY, "FATAL"));
            };
            match frame.tag {
                frontend::tag::COPY_DATA => return Ok(Some(frame.body)),
                frontend::tag::COPY_DONE => {
                    *ended = true;
                    return Ok(None);
                }
                frontend::tag::COPY_FAIL => {
                    *ended = true;
                    let reason = pgproto::frame::Cursor::new(frame.body).cstr().unwrap_or_default();
                    return Err(PgError::new(
                        SqlState::QUERY_CANCELED,
                        format!("{CLIENT_GAVE_UP}{}", String::from_utf8_lossy(&reason)),
                    ));
                }
                frontend::tag::FLUSH | frontend::tag::SYNC => {}
                other => {
                    return Err(PgError::protocol(format!(
                        "unexpected message type 0x{other:02X} during COPY from stdin"
                    )));
                }
            }
        }
    }
}

/// A thread reads ahead; chunks whose memory nobody uses any more are filled again.
fn read_file(path: &Path) -> Result<mpsc::Receiver<Result<Bytes>>> {
    let mut file = open_file(path)?;
    let (sender, receiver) = mpsc::channel(2);
    tokio::task::spawn_blocking(move || {
        let mut lent: VecDeque<Bytes> = VecDeque::new();
        loop {
            let reused = lent.front().is_some_and(Bytes::is_unique).then(|| lent.pop_front()).flatten();
            let mut buffer: Vec<u8> = reused.map(Vec::from).unwrap_or_default();
            buffer.resize(FILE_CHUNK_BYTES, 0);
            let chunk = match file.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => {
                    buffer.truncate(count);
                    Ok(Bytes::from(buffer))
                }
                Err(error) => {
                    let message = format!("could not read from COPY file: {}", os_text(&error));
                    Err(PgError::new(file_error_code(&error), message))
                }
            };
            lent.extend(chunk.as_ref().ok().cloned());
            let failed = chunk.is_err();
            if sender.blocking_send(chunk).is_err() || failed {
                return;
            }
        }
    });
    Ok(receiver)
}

/// Opens a file as `BeginCopyFrom` (PostgreSQL's `copyfrom.c`) does.
fn open_file(path: &Path) -> Result<std::fs::File> {
    let display = path.display();
    let file = std::fs::File::open(path).map_err(|error| {
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
