//! A file that is written: compressed or not, and with its name only at the end.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use pgerror::{PgError, Result, SqlState};

use crate::unload::UnloadOptions;

const BUFFER_BYTES: usize = 256 * 1024;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Compression {
    #[default]
    None,
    Gzip,
    Zstd,
}

impl Compression {
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
        }
    }
}

/// A file that appears under its name when it is finished.
pub(crate) struct Output {
    name: PathBuf,
    temporary: PathBuf,
    writer: Option<Writer>,
    /// Before compression.
    pub(crate) bytes: u64,
    is_finished: bool,
}

impl Output {
    pub(crate) fn create(name: &Path, options: &UnloadOptions) -> Result<Self> {
        if name.exists() && !options.overwrite {
            return Err(PgError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("\"{}\" exists", name.display()),
            )
            .hint("Use --overwrite to replace it."));
        }
        if let Some(dir) = name.parent() {
            fs::create_dir_all(dir).map_err(|e| unwritable(dir, &e))?;
        }
        let temporary = name.with_extension(format!("part{}", std::process::id()));
        let file = File::create(&temporary).map_err(|e| unwritable(&temporary, &e))?;
        let writer = Writer::new(BufWriter::with_capacity(BUFFER_BYTES, file), options.compression);
        let writer = Some(writer.map_err(|e| unwritable(&temporary, &e))?);
        Ok(Self { name: name.to_owned(), temporary, writer, bytes: 0, is_finished: false })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        let written = self.writer.as_mut().map_or(Ok(()), |writer| writer.write_all(bytes));
        written.map_err(|e| unwritable(&self.temporary, &e))
    }

    /// Everything onto the disk.
    pub(crate) fn complete(&mut self) -> Result<()> {
        let done = self.writer.take().map_or(Ok(()), Writer::finish);
        done.map_err(|e| unwritable(&self.temporary, &e))
    }

    /// Gives the file its name.
    pub(crate) fn publish(mut self) -> Result<PathBuf> {
        fs::rename(&self.temporary, &self.name).map_err(|e| unwritable(&self.name, &e))?;
        self.is_finished = true;
        Ok(self.name.clone())
    }
}

/// Into a file, by way of what compresses.
enum Writer {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

impl Writer {
    fn new(file: BufWriter<File>, compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Writer::Plain(file),
            Compression::Gzip => Writer::Gzip(GzEncoder::new(file, flate2::Compression::fast())),
            Compression::Zstd => Writer::Zstd(zstd::Encoder::new(file, zstd::DEFAULT_COMPRESSION_LEVEL)?),
        })
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Writer::Plain(writer) => writer.write_all(bytes),
            Writer::Gzip(writer) => writer.write_all(bytes),
            Writer::Zstd(writer) => writer.write_all(bytes),
        }
    }

    /// Everything onto the disk.
    fn finish(self) -> io::Result<()> {
        let mut file = match self {
            Writer::Plain(writer) => writer,
            Writer::Gzip(writer) => writer.finish()?,
            Writer::Zstd(writer) => writer.finish()?,
        };
        file.flush()?;
        file.get_ref().sync_all()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.is_finished {
            // Nobody can be told.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

fn unwritable(path: &Path, error: &io::Error) -> PgError {
    PgError::new(SqlState::IO_ERROR, format!("could not write \"{}\": {error}", path.display()))
}
