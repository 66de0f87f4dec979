//! Which files, and their bytes without compression.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;
use pgerror::{PgError, Result, SqlState};

use crate::progress::Counters;

const BUFFER_BYTES: usize = 256 * 1024;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const LZ4_FRAME: &[u8] = &[0x04, 0x22, 0x4d, 0x18];

/// Something to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The absolute path, or `-`: what errors and the journal say.
    pub(crate) name: String,
    /// `None` is stdin.
    pub(crate) path: Option<PathBuf>,
    /// As it lies on the disk.
    pub(crate) bytes: Option<u64>,
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

fn expand_one(argument: &str) -> Result<Vec<Source>> {
    if argument == "-" {
        return Ok(vec![Source { name: "-".to_owned(), path: None, bytes: None }]);
    }
    let plain = PathBuf::from(argument);
    if plain.exists() || !argument.contains(['*', '?', '[']) {
        return Ok(vec![file(plain)?]);
    }
    let invalid = |e: String| PgError::new(SqlState::INVALID_PARAMETER_VALUE, format!("\"{argument}\": {e}"));
    let paths = glob::glob(argument).map_err(|e| invalid(e.to_string()))?;
    let mut found = Vec::new();
    for path in paths {
        let path = path.map_err(|e| invalid(e.to_string()))?;
        if !path.is_dir() {
            found.push(file(path)?);
        }
    }
    if found.is_empty() { Err(invalid("no file matches".to_owned())) } else { Ok(found) }
}

fn file(path: PathBuf) -> Result<Source> {
    let shown = path.display().to_string();
    let path = path.canonicalize().map_err(|e| unreadable(&shown, &e))?;
    let metadata = path.metadata().map_err(|e| unreadable(&shown, &e))?;
    if metadata.is_dir() {
        return Err(PgError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{shown}\" is a directory"))
            .hint(format!("Name its files: \"{}/*\".", shown.trim_end_matches('/'))));
    }
    // A pipe has no size.
    let bytes = metadata.is_file().then_some(metadata.len());
    Ok(Source { name: path.display().to_string(), path: Some(path), bytes })
}

/// An error of reading.
pub(crate) fn unreadable(name: &str, error: &io::Error) -> PgError {
    PgError::new(SqlState::IO_ERROR, format!("could not read \"{name}\": {error}"))
}

/// Opens a source; gzip, zstd and lz4 are told by their first bytes.
pub(crate) fn open(source: &Source, counters: Arc<Counters>) -> io::Result<Box<dyn Read>> {
    let raw: Box<dyn Read> = match &source.path {
        None => Box::new(io::stdin()),
        Some(path) => Box::new(File::open(path)?),
    };
    decompress(Counted { inner: raw, counters })
}

/// A file of a known size that is not compressed.
pub(crate) fn open_plain(source: &Source) -> io::Result<Option<File>> {
    let (Some(path), Some(_)) = (&source.path, source.bytes) else { return Ok(None) };
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

fn decompress(mut raw: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    // A pipe may give the first bytes one by one.
    let mut start = Vec::with_capacity(ZSTD.len());
    raw.by_ref().take(ZSTD.len() as u64).read_to_end(&mut start)?;
    let kind = start.clone();
    let all = io::Cursor::new(start).chain(raw);
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
