//! Which files, and their bytes without compression.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;
use pgerror::{PgError, Result, SqlState};

use crate::files::counters::Counters;

const BUFFER_BYTES: usize = 256 * 1024;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const LZ4_FRAME: &[u8] = &[0x04, 0x22, 0x4d, 0x18];

/// Something to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The absolute path, or `-`: what errors say.
    pub(crate) name: String,
    /// `None` is stdin.
    pub(crate) path: Option<PathBuf>,
    /// As it lies on the disk.
    pub(crate) bytes: Option<u64>,
    /// This part of a Parquet file.
    pub(crate) group: Option<RowGroup>,
}

/// Rows that are stored together in a Parquet file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowGroup {
    pub(crate) number: usize,
    pub(crate) rows: u64,
    pub(crate) rows_before: u64,
    /// Columns of the whole file.
    pub(crate) columns: Arc<Vec<parquet_rows::Column>>,
}

impl Source {
    /// What the journal calls it.
    pub(crate) fn key(&self) -> Cow<'_, str> {
        match &self.group {
            Some(group) => Cow::Owned(format!("{}, row group {}", self.name, group.number)),
            None => Cow::Borrowed(&self.name),
        }
    }
}

/// The files that the arguments name, each once, in their order.
pub(crate) fn expand(arguments: &[String]) -> Result<Vec<Source>> {
    let mut sources: Vec<Source> = Vec::new();
    for argument in arguments {
        for source in expand_one(argument)? {
            if sources.contains(&source) {
                return Err(PgError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("\"{}\" is named twice", source.name),
                ));
            }
            sources.push(source);
        }
    }
    Ok(sources)
}

/// The names of the files, each once.
pub(crate) fn files(sources: &[Source]) -> Vec<&str> {
    let mut names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    names.dedup();
    names
}

fn expand_one(argument: &str) -> Result<Vec<Source>> {
    if argument == "-" {
        return Ok(vec![Source { name: "-".to_owned(), path: None, bytes: None, group: None }]);
    }
    let plain = PathBuf::from(argument);
    if plain.exists() || !argument.contains(['*', '?', '[']) {
        return file(plain);
    }
    let invalid = |e: String| PgError::new(SqlState::INVALID_PARAMETER_VALUE, format!("\"{argument}\": {e}"));
    let paths = glob::glob(argument).map_err(|e| invalid(e.to_string()))?;
    let mut found = Vec::new();
    for path in paths {
        let path = path.map_err(|e| invalid(e.to_string()))?;
        if !path.is_dir() {
            found.extend(file(path)?);
        }
    }
    if found.is_empty() { Err(invalid("no file matches".to_owned())) } else { Ok(found) }
}

/// A file, or the row groups of one.
fn file(path: PathBuf) -> Result<Vec<Source>> {
    let shown = path.display().to_string();
    let path = path.canonicalize().map_err(|e| unreadable(&shown, &e))?;
    let metadata = path.metadata().map_err(|e| unreadable(&shown, &e))?;
    if metadata.is_dir() {
        return Err(PgError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{shown}\" is a directory"))
            .hint(format!("Name its files: \"{}/*\".", shown.trim_end_matches('/'))));
    }
    // A pipe has no size.
    let bytes = metadata.is_file().then_some(metadata.len());
    if metadata.is_file() && begins_with(&path, parquet_rows::MAGIC).map_err(|e| unreadable(&shown, &e))? {
        return row_groups(path);
    }
    Ok(vec![Source { name: path.display().to_string(), path: Some(path), bytes, group: None }])
}

fn begins_with(path: &Path, magic: &[u8]) -> io::Result<bool> {
    let mut start = Vec::with_capacity(magic.len());
    File::open(path)?.take(magic.len() as u64).read_to_end(&mut start)?;
    Ok(start == magic)
}

fn row_groups(path: PathBuf) -> Result<Vec<Source>> {
    let contents = parquet_rows::contents(&path)?;
    let (name, columns) = (path.display().to_string(), Arc::new(contents.columns));
    let source = |(number, group): (usize, parquet_rows::Group)| Source {
        name: name.clone(),
        path: Some(path.clone()),
        bytes: Some(group.bytes),
        group: Some(RowGroup {
            number,
            rows: group.rows,
            rows_before: group.rows_before,
            columns: Arc::clone(&columns),
        }),
    };
    // A file without rows has columns too.
    let none = contents.groups.is_empty().then_some(parquet_rows::Group { rows: 0, rows_before: 0, bytes: 0 });
    Ok(contents.groups.into_iter().chain(none).enumerate().map(source).collect())
}

/// An error of reading.
pub(crate) fn unreadable(name: &str, error: &io::Error) -> PgError {
    PgError::new(SqlState::IO_ERROR, format!("could not read \"{name}\": {error}"))
}

/// Opens a source; gzip, zstd and lz4 are told by their first bytes.
pub(crate) fn open(source: &Source, counters: Arc<Counters>) -> Result<Box<dyn Read>> {
    if let (Some(group), Some(path)) = (&source.group, &source.path) {
        return open_group(path, source.bytes.unwrap_or_default(), group, counters);
    }
    let raw: io::Result<Box<dyn Read>> = match &source.path {
        None => Ok(Box::new(io::stdin())),
        Some(path) => File::open(path).map(|file| Box::new(file) as _),
    };
    let plain = raw.and_then(|inner| decompress(Counted { inner, counters }));
    plain.map_err(|e| unreadable(&source.name, &e)).and_then(|plain| no_parquet(&source.name, plain))
}

/// Refuses what would be a Parquet file, were it not in a pipe or compressed as a whole.
fn no_parquet(name: &str, plain: impl Read + 'static) -> Result<Box<dyn Read>> {
    let (start, all) = start_of(plain).map_err(|e| unreadable(name, &e))?;
    if start != parquet_rows::MAGIC {
        return Ok(Box::new(all));
    }
    let message = format!("\"{name}\" is a Parquet file that can only be read from its start");
    Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .hint("Such a file is read from its end: name it as a file that is not compressed as a whole."))
}

fn open_group(path: &Path, bytes: u64, group: &RowGroup, counters: Arc<Counters>) -> Result<Box<dyn Read>> {
    if group.rows == 0 {
        return Ok(Box::new(io::empty()));
    }
    let rows = parquet_rows::rows(path, group.number)?;
    Ok(Box::new(CountedRows { rows, of: group.rows, bytes, counted: 0, counters }))
}

/// A file of a known size that is not compressed.
pub(crate) fn open_plain(source: &Source) -> io::Result<Option<File>> {
    let (Some(path), Some(_), None) = (&source.path, source.bytes, &source.group) else { return Ok(None) };
    let mut file = File::open(path)?;
    let mut start = Vec::with_capacity(ZSTD.len());
    file.by_ref().take(ZSTD.len() as u64).read_to_end(&mut start)?;
    let is_compressed = start.starts_with(GZIP) || start == ZSTD || start == LZ4_FRAME;
    Ok((!is_compressed).then_some(file))
}

/// Counts what is read from it.
pub(crate) fn counted(inner: impl Read, counters: Arc<Counters>) -> impl Read {
    Counted { inner, counters }
}

/// The first bytes, and all of them, these again.
fn start_of(mut raw: impl Read) -> io::Result<(Vec<u8>, impl Read)> {
    // A pipe may give them one by one.
    let mut start = Vec::with_capacity(ZSTD.len());
    raw.by_ref().take(ZSTD.len() as u64).read_to_end(&mut start)?;
    Ok((start.clone(), io::Cursor::new(start).chain(raw)))
}

fn decompress(raw: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let (kind, all) = start_of(raw)?;
    Ok(if kind.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, all)))
    } else if kind == ZSTD {
        Box::new(zstd::Decoder::new(all)?)
    } else if kind == LZ4_FRAME {
        Box::new(Lz4Frames(lz4_flex::frame::FrameDecoder::new(BufReader::with_capacity(BUFFER_BYTES, all))))
    } else {
        Box::new(all)
    })
}

/// All frames of an lz4 file; the decoder ends after each.
struct Lz4Frames<R: BufRead>(lz4_flex::frame::FrameDecoder<R>);

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.0.read(buffer)?;
            if count > 0 || buffer.is_empty() || self.0.get_mut().fill_buf()?.is_empty() {
                return Ok(count);
            }
        }
    }
}

/// Counts what is read, for the progress bar.
struct Counted<R> {
    inner: R,
    counters: Arc<Counters>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.counters.read(count as u64);
        Ok(count)
    }
}

/// Counts the part of a row group's bytes that its rows so far stand for.
struct CountedRows {
    rows: parquet_rows::GroupRows,
    of: u64,
    bytes: u64,
    counted: u64,
    counters: Arc<Counters>,
}

impl Read for CountedRows {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.rows.read(buffer)?;
        let part = u128::from(self.bytes) * u128::from(self.rows.rows_read()) / u128::from(self.of);
        let read = u64::try_from(part).unwrap_or(self.bytes);
        self.counters.read(read - self.counted);
        self.counted = read;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        decompress(io::Cursor::new(bytes))?.read_to_end(&mut out)?;
        Ok(out)
    }

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn files_of_several_members_are_read_to_their_end() {
        let (a, b) = (b"first,1\n".repeat(5000), b"second,2\n".repeat(5000));
        let whole = [a.clone(), b.clone()].concat();
        let zstd = |data: &[u8]| zstd::encode_all(data, 1).unwrap();
        assert_eq!(read([gzip(&a), gzip(&b)].concat()).unwrap(), whole);
        assert_eq!(read([zstd(&a), zstd(&b)].concat()).unwrap(), whole);
        assert_eq!(read(whole.clone()).unwrap(), whole);
        assert_eq!(read(b"x".to_vec()).unwrap(), b"x");
        assert_eq!(read(Vec::new()).unwrap(), b"");
    }

    #[test]
    fn a_parquet_file_that_cannot_be_read_from_its_end_is_refused() {
        let open = |bytes: &[u8]| no_parquet("x.gz", decompress(io::Cursor::new(gzip(bytes))).unwrap());
        assert_eq!(open(b"PAR1 and more").err().unwrap().code(), SqlState::FEATURE_NOT_SUPPORTED);
        let mut text = String::new();
        open(b"PAR0,1\n").unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "PAR0,1\n");
    }

    #[test]
    fn a_cut_file_is_an_error() {
        let data = b"first,1\n".repeat(5000);
        let zstd = zstd::encode_all(data.as_slice(), 1).unwrap();
        for whole in [gzip(&data), zstd] {
            assert!(read(whole[..whole.len() - 5].to_vec()).is_err());
        }
    }

    #[test]
    fn a_pattern_that_matches_nothing_and_a_file_named_twice_are_errors() {
        let none = expand(&["/nowhere/*.csv".to_owned()]).unwrap_err();
        assert!(none.message().contains("no file matches"), "{none}");
        let twice = expand(&["/proc/self/stat".to_owned(), "/proc/self/../self/stat".to_owned()]).unwrap_err();
        assert!(twice.message().contains("named twice"), "{twice}");
    }
}
