//! A table or a query into a file.
//!
//! One COPY, so one snapshot. The file has its name only when it is whole and on the disk.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use copyfmt::Format;
use flate2::write::GzEncoder;
use pgerror::{PgError, Result, SqlState};

use crate::options::{self, Copy};
use crate::session;

const BUFFER_BYTES: usize = 256 * 1024;

/// What `loxo unload` is asked to do.
#[derive(Clone, Debug)]
pub struct UnloadOptions {
    /// A table as SQL names it, or a query.
    pub what: String,
    /// Connection URI of a coordinator.
    pub from: String,
    /// The directory; made if it is missing.
    pub to: PathBuf,
    /// COPY's options; the format is CSV if none is given.
    pub copy: Copy,
    /// How the file is compressed.
    pub compression: Compression,
    /// Write over a file that is there?
    pub overwrite: bool,
}

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
    fn extension(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
        }
    }
}

/// What was written.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Unloaded {
    pub file: PathBuf,
    pub rows: u64,
    /// Before compression.
    pub bytes: u64,
    pub seconds: f64,
}

/// Writes the file.
///
/// # Errors
/// The server's, or one of writing; there is no new file then.
pub async fn unload(options: &UnloadOptions) -> Result<Unloaded> {
    let started = std::time::Instant::now();
    let mut connection = session::connect(&options.from).await?;
    let version = crate::load::server_version(&mut connection).await?;
    let mut copy = options.copy.clone();
    copy.format.get_or_insert_with(|| "csv".to_owned());
    let checked = copy.checked(version, false)?;
    let extension = match checked.format {
        Format::Csv => "csv",
        Format::Text => "txt",
        Format::Binary => "bin",
    };
    let (what, name) = match is_query(&options.what) {
        true => (format!("({})", options.what.trim_end().trim_end_matches(';')), "query".to_owned()),
        false => (options.what.clone(), crate::load::resolve(&mut connection, &options.what).await?.1),
    };
    let list = options::sql(&checked);
    let file = options.to.join(format!("{}.{extension}{}", name.replace('/', "_"), options.compression.extension()));
    let mut output = Output::create(&file, options)?;
    let header = if copy.header { "HEADER, " } else { "" };
    let sql = format!("COPY {what} TO STDOUT ({header}{}", list.strip_prefix('(').unwrap_or(&list));
    let rows = session::copy_out(&mut connection, &sql, |bytes| output.write(&bytes)).await?;
    let bytes = output.finish()?;
    Ok(Unloaded { file, rows, bytes, seconds: started.elapsed().as_secs_f64() })
}

fn is_query(what: &str) -> bool {
    let first = what.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let is_keyword = ["select", "with", "values", "table"].iter().any(|word| first.eq_ignore_ascii_case(word));
    is_keyword && what.trim().contains(char::is_whitespace)
}

/// A file that appears under its name when it is finished.
struct Output {
    name: PathBuf,
    temporary: PathBuf,
    writer: Option<Writer>,
    bytes: u64,
    is_finished: bool,
}

impl Output {
    fn create(name: &Path, options: &UnloadOptions) -> Result<Self> {
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

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        let written = self.writer.as_mut().map_or(Ok(()), |writer| writer.write_all(bytes));
        written.map_err(|e| unwritable(&self.temporary, &e))
    }

    fn finish(mut self) -> Result<u64> {
        let done = self.writer.take().map_or(Ok(()), Writer::finish);
        done.and_then(|()| fs::rename(&self.temporary, &self.name)).map_err(|e| unwritable(&self.name, &e))?;
        self.is_finished = true;
        Ok(self.bytes)
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

fn unwritable(path: &Path, error: &std::io::Error) -> PgError {
    PgError::new(SqlState::IO_ERROR, format!("could not write \"{}\": {error}", path.display()))
}
