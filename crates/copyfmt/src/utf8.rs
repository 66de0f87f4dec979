//! Encoding checks as `pg_verifymbstr` and `report_invalid_encoding` (PostgreSQL's `mbutils.c`) make them.

use std::fmt::Write;

use pgerror::{PgError, SqlState};

use crate::CopyOptions;

/// Encodings whose bytes below 0x80 are always themselves, so rows can be split without decoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoding {
    Utf8,
    SqlAscii,
    /// Another ASCII-safe encoding: the datanode checks and converts it.
    Other,
}

/// Can lines in this encoding be split, and routed, without decoding them? Otherwise PostgreSQL must read them.
pub fn can_split(encoding: &str) -> bool {
    Encoding::by_name(encoding).is_ok()
}

/// Are the first `line_bytes` right in the encoding that the options name? Others than UTF8, the default, and SQL_ASCII are not
/// known here.
pub fn check_line(bytes: &[u8], line_bytes: usize, options: &CopyOptions) -> Result<(), PgError> {
    let encoding = options.input_encoding("UTF8")?;
    match encoding.validate(&bytes[..line_bytes]) {
        Validity::Valid => Ok(()),
        Validity::Incomplete(at) | Validity::Invalid(at) => Err(encoding.invalid_sequence(&bytes[at..])),
    }
}

/// How far some bytes are valid.
pub(crate) enum Validity {
    Valid,
    /// Valid up to here; a character begins but does not end.
    Incomplete(usize),
    /// Valid up to here; then a wrong sequence.
    Invalid(usize),
}

impl Encoding {
    /// By name as PostgreSQL knows it (case and punctuation do not count); an error for encodings in which bytes such
    /// as `\` may be the second half of a character.
    pub(crate) fn by_name(name: &str) -> Result<Self, PgError> {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        match plain.as_str() {
            "utf8" | "unicode" => Ok(Encoding::Utf8),
            "sqlascii" => Ok(Encoding::SqlAscii),
            "sjis" | "shiftjis" | "mskanji" | "win932" | "windows932" | "shiftjis2004" | "big5" | "win950"
            | "windows950" | "gbk" | "win936" | "windows936" | "gb18030" | "uhc" | "win949" | "windows949"
            | "johab" => Err(PgError::unsupported(format_args!("COPY FROM in encoding \"{name}\""))
                .hint("Convert the data to UTF8 first.")),
            _ => Ok(Encoding::Other),
        }
    }

    /// Checks the beginning of a stream. Other encodings are checked by the datanode.
    #[inline]
    pub(crate) fn validate(self, bytes: &[u8]) -> Validity {
        if self == Encoding::Other {
            return Validity::Valid;
        }
        if is_plain(bytes) { Validity::Valid } else { self.validate_slowly(bytes) }
    }

    fn validate_slowly(self, bytes: &[u8]) -> Validity {
        let zero = memchr::memchr(0, bytes);
        let before_zero = &bytes[..zero.unwrap_or(bytes.len())];
        if self == Encoding::Utf8
            && let Err(error) = std::str::from_utf8(before_zero)
        {
            return match (error.error_len(), zero) {
                (None, None) => Validity::Incomplete(error.valid_up_to()),
                _ => Validity::Invalid(error.valid_up_to()),
            };
        }
        zero.map_or(Validity::Valid, Validity::Invalid)
    }

    /// Checks a whole value, as after unescaping.
    pub(crate) fn check(self, value: &[u8]) -> Result<(), PgError> {
        match self.validate(value) {
            Validity::Valid => Ok(()),
            Validity::Incomplete(at) | Validity::Invalid(at) => Err(self.invalid_sequence(&value[at..])),
        }
    }

    /// Bytes of the character that begins with this byte (`pg_utf_mblen`).
    pub(crate) fn sequence_length(self, lead: u8) -> usize {
        match lead {
            _ if self != Encoding::Utf8 => 1,
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            _ => 1,
        }
    }

    /// The error for a wrong sequence at the start of `bytes`.
    pub(crate) fn invalid_sequence(self, bytes: &[u8]) -> PgError {
        let name = match self {
            Encoding::Utf8 => "UTF8",
            _ => "SQL_ASCII",
        };
        let length = bytes.first().map_or(0, |lead| self.sequence_length(*lead));
        let mut message = format!("invalid byte sequence for encoding \"{name}\":");
        for byte in bytes.iter().take(length) {
            // Writing to a String cannot fail.
            let _ = write!(message, " 0x{byte:02x}");
        }
        PgError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
    }
}

/// Is every byte in 1..=0x7f? Written so that the compiler makes vector code of it: the high bit of `b | (b - 1)` is set
/// for zero and for everything above 0x7f.
#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    const LANES: usize = 64;
    let mut seen = [0u8; LANES];
    let mut blocks = bytes.chunks_exact(LANES);
    for block in &mut blocks {
        for (seen, byte) in seen.iter_mut().zip(block) {
            *seen |= byte | byte.wrapping_sub(1);
        }
    }
    let rest = blocks.remainder().iter().map(|byte| byte | byte.wrapping_sub(1));
    seen.iter().copied().chain(rest).fold(0, |sum, byte| sum | byte) < 0x80
}
