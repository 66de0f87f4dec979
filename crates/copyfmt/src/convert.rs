//! Text spelling → binary send format, for the types and spellings whose meaning we know for sure.

use pgerror::{PgError, SqlState};
use placement::parse;

use crate::options::OnError;
use crate::spec::RouterSpec;

/// The version byte of `jsonb_send`.
const JSONB_VERSION: u8 = 1;

/// What becomes of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Length word and value were appended.
    Done,
    /// Nothing was appended: PostgreSQL must read (or refuse) it.
    Ask,
    /// Nothing was appended: longer than `varchar(n)` or `char(n)` allows.
    TooLong,
}

/// How to encode a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Codec {
    Bool,
    Bytea,
    Char,
    Name,
    Int2,
    Int4,
    Int8,
    Oid,
    Text,
    Float4,
    Float8,
    Bpchar(Limit),
    Varchar(Limit),
    Date,
    /// Microseconds are a multiple of this, or PostgreSQL must round.
    Time(i64),
    Timestamp(i64),
    TimestampTz(i64),
    Numeric(NumericModifier),
    Uuid,
    /// The text as it is, which the datanode parses.
    Json,
    /// The text behind a version number.
    Jsonb,
    /// Always PostgreSQL's work.
    Unknown,
}

/// At most so many characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limit {
    characters_max: usize,
    /// The server's encoding is SQL_ASCII: a byte is a character.
    bytes: bool,
}

/// `numeric(p, s)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NumericModifier {
    None,
    /// Digits before the point, at most; digits after the point.
    Fixed {
        whole_max: u32,
        scale: u16,
    },
    /// A negative scale, or one above the precision.
    Unusual,
}

/// Can all values be sent in binary, by us or with PostgreSQL's help, with the result and the errors of the text form? Those of
/// some types (xml, arrays, domains, …) travel as they came. With json, whose own gain is small, so do all where the rest
/// would often be PostgreSQL's work, or where rows are left out that only the datanode knows to be wrong.
pub fn transcodable(spec: &RouterSpec) -> bool {
    let codecs = || spec.columns.iter().map(|column| Codec::new(column.type_oid, -1, false));
    let is_sure = |codec| spec.timezone_is_utc || !matches!(codec, Codec::TimestampTz(_));
    let ignores_errors = spec.options.on_error == OnError::Ignore;
    let takes_unread = !ignores_errors && codecs().all(is_sure);
    codecs().all(|codec| codec != Codec::Unknown && (takes_unread || !codec.is_unread()))
}

impl Codec {
    pub(crate) fn new(type_oid: u32, modifier: i32, byte_is_character: bool) -> Self {
        // PostgreSQL adds VARHDRSZ to the modifiers of character types and numeric.
        let limit = || Limit {
            characters_max: if modifier >= 4 { (modifier - 4) as usize } else { usize::MAX },
            bytes: byte_is_character,
        };
        let step = if (0..6).contains(&modifier) { 10_i64.pow(6 - modifier as u32) } else { 1 };
        match type_oid {
            16 => Codec::Bool,
            17 => Codec::Bytea,
            18 => Codec::Char,
            19 => Codec::Name,
            20 => Codec::Int8,
            21 => Codec::Int2,
            23 => Codec::Int4,
            25 => Codec::Text,
            26 => Codec::Oid,
            114 => Codec::Json,
            700 => Codec::Float4,
            701 => Codec::Float8,
            1042 => Codec::Bpchar(limit()),
            1043 => Codec::Varchar(limit()),
            1082 => Codec::Date,
            1083 => Codec::Time(step),
            1114 => Codec::Timestamp(step),
            1184 => Codec::TimestampTz(step),
            1700 => Codec::Numeric(NumericModifier::new(modifier)),
            2950 => Codec::Uuid,
            3802 => Codec::Jsonb,
            _ => Codec::Unknown,
        }
    }

    /// Nobody has looked at the value before the datanode reads it.
    pub(crate) fn is_unread(self) -> bool {
        matches!(self, Codec::Json | Codec::Jsonb)
    }

    /// What comes before the text in its send format; `None` if that is no text at all.
    #[inline]
    pub(crate) fn text_prefix(self) -> Option<&'static [u8]> {
        match self {
            Codec::Text | Codec::Varchar(_) | Codec::Bpchar(_) | Codec::Json => Some(b""),
            Codec::Jsonb => Some(&[JSONB_VERSION]),
            _ => None,
        }
    }

    /// Is a text of so many bytes surely not too long?
    #[inline]
    pub(crate) fn fits(self, bytes: usize) -> bool {
        match self {
            Codec::Varchar(limit) | Codec::Bpchar(limit) => limit.fits(bytes),
            _ => true,
        }
    }

    /// Its send format is the text itself, in the client's encoding.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Codec::Text | Codec::Varchar(_) | Codec::Bpchar(_) | Codec::Name)
    }

    /// Appends `text` in binary, with its length word.
    pub(crate) fn encode(self, text: &[u8], timezone_is_utc: bool, out: &mut Vec<u8>) -> Outcome {
        let step = |step: i64, value: &i64| value % step == 0;
        match self {
            Codec::Int8 => sized(out, parse::int8(text).map(i64::to_be_bytes)),
            Codec::Int4 => sized(out, parse::int4(text).map(i32::to_be_bytes)),
            Codec::Int2 => sized(out, parse::int2(text).map(i16::to_be_bytes)),
            Codec::Oid => sized(out, parse::oid(text).map(u32::to_be_bytes)),
            Codec::Date => sized(out, parse::date(text).map(i32::to_be_bytes)),
            Codec::Bool => sized(out, parse::boolean(text).map(|b| [u8::from(b)])),
            Codec::Char => sized(out, parse::char(text).map(|b| [b])),
            Codec::Float4 => sized(out, parse::float4(text).map(f32::to_be_bytes)),
            Codec::Float8 => sized(out, parse::float8(text).map(f64::to_be_bytes)),
            Codec::Uuid => sized(out, parse::uuid(text)),
            Codec::Time(unit) => sized(out, parse::time(text).filter(|v| step(unit, v)).map(i64::to_be_bytes)),
            Codec::Timestamp(unit) => {
                sized(out, parse::timestamp(text).filter(|v| step(unit, v)).map(i64::to_be_bytes))
            }
            Codec::TimestampTz(unit) => {
                let value = parse::timestamptz(text).or_else(|| parse::timestamp(text).filter(|_| timezone_is_utc));
                sized(out, value.filter(|v| step(unit, v)).map(i64::to_be_bytes))
            }
            Codec::Numeric(modifier) => numeric(text, modifier, out),
            Codec::Text | Codec::Json => bytes(out, text),
            Codec::Jsonb => {
                out.extend_from_slice(&(text.len() as u32 + 1).to_be_bytes());
                out.push(JSONB_VERSION);
                out.extend_from_slice(text);
                Outcome::Done
            }
            // `namein` cuts longer names.
            Codec::Name if text.len() < 64 => bytes(out, text),
            Codec::Varchar(limit) | Codec::Bpchar(limit) => match limit.cut(text) {
                Some(text) => bytes(out, text),
                None => Outcome::TooLong,
            },
            Codec::Bytea => bytea(text, out),
            Codec::Name | Codec::Unknown => Outcome::Ask,
        }
    }

    /// What the type's receive function makes of a binary value, as far as the hash sees it; `None` if PostgreSQL must
    /// round it.
    pub(crate) fn received(self, value: &[u8]) -> Option<&[u8]> {
        let is_round = |step: i64| !value.try_into().map(i64::from_be_bytes).is_ok_and(|value| value % step != 0);
        match self {
            // A value that is too long is the datanode's to refuse, wherever it goes. (char(n): the hash of a value
            // does not see trailing blanks.)
            Codec::Varchar(limit) => Some(limit.cut(value).unwrap_or(value)),
            Codec::Time(step) | Codec::Timestamp(step) | Codec::TimestampTz(step) => is_round(step).then_some(value),
            Codec::Numeric(NumericModifier::Unusual) => None,
            Codec::Numeric(NumericModifier::Fixed { scale: kept, .. }) => {
                let scale = value.get(6..8).map_or(0, |word| u16::from_be_bytes([word[0], word[1]]));
                (scale <= kept).then_some(value)
            }
            _ => Some(value),
        }
    }

    /// PostgreSQL's error for [`Outcome::TooLong`].
    pub(crate) fn too_long(self) -> PgError {
        let (name, limit) = match self {
            Codec::Bpchar(limit) => ("character", limit),
            Codec::Varchar(limit) => ("character varying", limit),
            _ => return PgError::internal("a value without a limit is too long"),
        };
        let message = format!("value too long for type {name}({})", limit.characters_max);
        PgError::new(SqlState::STRING_DATA_RIGHT_TRUNCATION, message)
    }
}

impl Limit {
    #[inline]
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        bytes <= self.characters_max
    }

    /// The text as far as it fits; `None` if more than blanks would be lost (`varchar_input`, `bpchar_input`).
    fn cut(self, text: &[u8]) -> Option<&[u8]> {
        if self.fits(text.len()) {
            return Some(text);
        }
        let end = match self.bytes {
            true => self.characters_max,
            false => {
                let starts = text.iter().enumerate().filter(|(_, b)| **b & 0xC0 != 0x80);
                starts.map(|(at, _)| at).nth(self.characters_max).unwrap_or(text.len())
            }
        };
        text[end..].iter().all(|b| *b == b' ').then(|| &text[..end])
    }
}

impl NumericModifier {
    /// `numeric_typmod_precision` and `numeric_typmod_scale`.
    fn new(modifier: i32) -> Self {
        if modifier < 4 {
            return NumericModifier::None;
        }
        let packed = modifier - 4;
        let precision = packed >> 16 & 0xFFFF;
        let scale = ((packed & 0x7FF) ^ 1024) - 1024;
        if scale < 0 || scale > precision {
            return NumericModifier::Unusual;
        }
        NumericModifier::Fixed { whole_max: (precision - scale) as u32, scale: scale as u16 }
    }

    /// The display scale of a value with these digits; `None` if it must be rounded, or does not fit.
    #[inline]
    pub(crate) fn display_scale(self, whole_digits: u32, fraction_digits: u32) -> Option<u16> {
        match self {
            NumericModifier::None => Some(fraction_digits as u16),
            NumericModifier::Fixed { whole_max, scale } => {
                (fraction_digits <= u32::from(scale) && whole_digits <= whole_max).then_some(scale)
            }
            NumericModifier::Unusual => None,
        }
    }
}

#[inline]
fn sized<const N: usize>(out: &mut Vec<u8>, value: Option<[u8; N]>) -> Outcome {
    let Some(value) = value else { return Outcome::Ask };
    out.extend_from_slice(&(N as u32).to_be_bytes());
    out.extend_from_slice(&value);
    Outcome::Done
}

#[inline]
fn bytes(out: &mut Vec<u8>, value: &[u8]) -> Outcome {
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
    Outcome::Done
}

/// The hex form, or the escape form without any escape.
fn bytea(text: &[u8], out: &mut Vec<u8>) -> Outcome {
    if memchr::memchr(b'\\', text).is_none() {
        return bytes(out, text);
    }
    let Some(values) = parse::bytea(text) else { return Outcome::Ask };
    let start = out.len();
    out.extend_from_slice(&(text.len() as u32 / 2 - 1).to_be_bytes());
    for value in values {
        match value {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(start);
                return Outcome::Ask;
            }
        }
    }
    Outcome::Done
}

/// Numbers of up to 16 digits before and 8 after the point take the short way.
fn numeric(text: &[u8], modifier: NumericModifier, out: &mut Vec<u8>) -> Outcome {
    if let Some((block, length)) = short_decimal(text).and_then(|decimal| decimal.encode(modifier)) {
        out.extend_from_slice(&block[..length]);
        return Outcome::Done;
    }
    let mut digits = Vec::new();
    let Some(decimal) = parse::numeric(text, &mut digits) else { return Outcome::Ask };
    let fraction_digits = u32::from(decimal.display_scale);
    match modifier.display_scale(decimal.integer_digits, fraction_digits) {
        Some(scale) => {
            numeric_words(out, &digits, decimal.weight, decimal.negative, scale);
            Outcome::Done
        }
        None => Outcome::Ask,
    }
}

/// `numeric_send`.
fn numeric_words(out: &mut Vec<u8>, digits: &[i16], weight: i16, negative: bool, scale: u16) {
    out.extend_from_slice(&numeric_head(digits.len(), weight, negative, scale));
    for digit in digits {
        out.extend_from_slice(&digit.to_be_bytes());
    }
}

/// Length word and all that comes before the digits.
#[inline(always)]
fn numeric_head(digits: usize, weight: i16, negative: bool, scale: u16) -> [u8; 12] {
    let weight = if digits == 0 { 0 } else { weight };
    let sign: u16 = if negative && digits > 0 { 0x4000 } else { 0 };
    let mut head = [0; 12];
    head[..4].copy_from_slice(&(8 + 2 * digits as u32).to_be_bytes());
    head[4..6].copy_from_slice(&(digits as u16).to_be_bytes());
    head[6..8].copy_from_slice(&weight.to_be_bytes());
    head[8..10].copy_from_slice(&sign.to_be_bytes());
    head[10..].copy_from_slice(&scale.to_be_bytes());
    head
}

/// A decimal in fixed-point base 10000: four groups before the point, two behind it.
pub(crate) struct ShortDecimal {
    groups: [i16; ShortDecimal::GROUPS],
    negative: bool,
    whole_digits: u32,
    fraction_digits: u32,
}

impl ShortDecimal {
    const GROUPS: usize = 6;
    const BLOCK: usize = 12 + 2 * Self::GROUPS;

    /// A decimal of up to 16 digits before the point and `fraction_digits`, up to 8, behind it.
    #[inline(always)]
    pub(crate) fn new(negative: bool, whole: u64, fraction: u32, fraction_digits: usize) -> Self {
        const SCALE_UP: [u32; 9] = [100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1000, 100, 10, 1];
        let fraction = fraction * SCALE_UP[fraction_digits];
        let mut groups = [0; Self::GROUPS];
        if whole >= 100_000_000 {
            let high = (whole / 100_000_000) as u32;
            (groups[0], groups[1]) = ((high / 10_000) as i16, (high % 10_000) as i16);
        }
        let low = (whole % 100_000_000) as u32;
        (groups[2], groups[3]) = ((low / 10_000) as i16, (low % 10_000) as i16);
        (groups[4], groups[5]) = ((fraction / 10_000) as i16, (fraction % 10_000) as i16);
        let whole_digits = whole.checked_ilog10().map_or(0, |log| log + 1);
        Self { groups, negative, whole_digits, fraction_digits: fraction_digits as u32 }
    }

    /// `numeric_send` with its length word, and how many bytes of the block that is; `None` if PostgreSQL must round or refuse it.
    #[inline(always)]
    pub(crate) fn encode(&self, modifier: NumericModifier) -> Option<([u8; Self::BLOCK], usize)> {
        let scale = modifier.display_scale(self.whole_digits, self.fraction_digits)?;
        let first = self.groups.iter().position(|g| *g != 0).unwrap_or(Self::GROUPS);
        let last = self.groups.iter().rposition(|g| *g != 0).map_or(first, |last| last + 1);
        let mut block = [0; Self::BLOCK];
        block[..12].copy_from_slice(&numeric_head(last - first, 3 - first as i16, self.negative, scale));
        for (bytes, digit) in block[12..].chunks_exact_mut(2).zip(&self.groups[first..last]) {
            bytes.copy_from_slice(&digit.to_be_bytes());
        }
        Some((block, 12 + 2 * (last - first)))
    }
}

#[inline]
fn short_decimal(text: &[u8]) -> Option<ShortDecimal> {
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let mut digits = unsigned.iter();
    let (mut whole, mut whole_digits) = (0u64, 0u32);
    let mut any = 0;
    let mut has_point = false;
    for byte in digits.by_ref() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            has_point = *byte == b'.';
            if has_point { break } else { return None }
        }
        whole = whole * 10 + u64::from(digit);
        whole_digits += u32::from(whole != 0);
        any += 1;
        if whole_digits > 16 {
            return None;
        }
    }
    let (mut fraction, mut fraction_digits) = (0u32, 0);
    if has_point {
        for byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 || fraction_digits == 8 {
                return None;
            }
            fraction = fraction * 10 + u32::from(digit);
            fraction_digits += 1;
        }
    }
    if any + fraction_digits == 0 {
        return None;
    }
    Some(ShortDecimal::new(negative, whole, fraction, fraction_digits))
}
