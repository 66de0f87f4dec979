//! Key types and their hash, from binary and from text values.

use std::fmt;

use pgerror::{PgError, SqlState};

use crate::hashfn::{hash_bytes, hash_u32};
use crate::{BUCKETS, parse};

/// The key types with a hash we compute ourselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[allow(missing_docs)]
pub enum KeyType {
    Bool,
    /// The one-byte type `"char"`.
    Char,
    Name,
    Bytea,
    Int2,
    Int4,
    Int8,
    Oid,
    /// Also `varchar`.
    Text,
    /// `character(n)`.
    Bpchar,
    Float4,
    Float8,
    Money,
    Date,
    Time,
    TimeTz,
    Timestamp,
    TimestampTz,
    Interval,
    Numeric,
    Uuid,
}

/// A binary value that is not of its type's send format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadKey;

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("incorrect binary data format")
    }
}

impl std::error::Error for BadKey {}

impl From<BadKey> for PgError {
    fn from(bad: BadKey) -> Self {
        PgError::new(SqlState::INVALID_BINARY_REPRESENTATION, bad.to_string())
    }
}

impl KeyType {
    /// The key type of a built-in type (`pg_type.oid`); `None` if a column of it cannot be a distribution key.
    pub fn from_oid(oid: u32) -> Option<Self> {
        Some(match oid {
            16 => Self::Bool,
            17 => Self::Bytea,
            18 => Self::Char,
            19 => Self::Name,
            20 => Self::Int8,
            21 => Self::Int2,
            23 => Self::Int4,
            25 | 1043 => Self::Text,
            26 => Self::Oid,
            700 => Self::Float4,
            701 => Self::Float8,
            790 => Self::Money,
            1042 => Self::Bpchar,
            1082 => Self::Date,
            1083 => Self::Time,
            1114 => Self::Timestamp,
            1184 => Self::TimestampTz,
            1186 => Self::Interval,
            1266 => Self::TimeTz,
            1700 => Self::Numeric,
            2950 => Self::Uuid,
            _ => return None,
        })
    }

    /// Types of one class hash equal values equally, so tables keyed by them can be joined in place. The class is
    /// shown as one of its types.
    pub fn hash_class(self) -> Self {
        match self {
            Self::Int2 | Self::Int4 => Self::Int8,
            Self::Name => Self::Text,
            Self::Float4 => Self::Float8,
            other => other,
        }
    }

    /// SQL that computes this hash on PostgreSQL 15 to 18: `value` and `seed` (a `bigint`) are SQL expressions.
    /// `value` is not NULL; [`sql_bucket`] takes care of NULLs and of several columns.
    ///
    /// Where the `…extended` function has a name only since 18, `hash_record_extended` finds it: the hash of a
    /// one-column record is the hash of the column. `money` has no hash function; it hashes as its `bigint` of cents.
    pub fn sql_hash(self, value: &str, seed: &str) -> String {
        let function = match self {
            Self::Bool | Self::Bytea | Self::Date | Self::TimestampTz => {
                return format!("hash_record_extended(ROW({value}), {seed})");
            }
            Self::Money => return format!("hashint8extended({}, {seed})", sent_as_integer("cash_send", value, 64)),
            Self::Char => "hashcharextended",
            Self::Name => "hashnameextended",
            Self::Int2 => "hashint2extended",
            Self::Int4 => "hashint4extended",
            Self::Int8 => "hashint8extended",
            Self::Oid => "hashoidextended",
            Self::Text => "hashtextextended",
            Self::Bpchar => "hashbpcharextended",
            Self::Float4 => "hashfloat4extended",
            Self::Float8 => "hashfloat8extended",
            Self::Time => "time_hash_extended",
            Self::TimeTz => "timetz_hash_extended",
            Self::Timestamp => "timestamp_hash_extended",
            Self::Interval => "interval_hash_extended",
            Self::Numeric => "hash_numeric_extended",
            Self::Uuid => "uuid_hash_extended",
        };
        format!("{function}({value}, {seed})")
    }

    /// SQL for the bucket of a `MODULO` key (NULL for NULL, whose bucket is 0), or `None` if the type cannot be one.
    pub fn sql_modulo_bucket(self, value: &str) -> Option<String> {
        Some(match self {
            Self::Int2 | Self::Int4 | Self::Int8 => format!("({value} & 4095)"),
            Self::Bool | Self::Char => format!("({value}::int4 & 4095)"),
            Self::Date => format!("({} & 4095)", sent_as_integer("date_send", value, 32)),
            _ => return None,
        })
    }

    /// The integer that a `MODULO` key takes modulo, from its text form; `None` means "ask PostgreSQL", or that the type cannot be
    /// one.
    pub fn modulo_text(self, text: &[u8]) -> Option<i64> {
        match self {
            Self::Bool => parse::boolean(text).map(i64::from),
            Self::Char => parse::char(text).map(|byte| i64::from(byte as i8)),
            Self::Int2 => parse::int2(text).map(i64::from),
            Self::Int4 => parse::int4(text).map(i64::from),
            Self::Int8 => parse::int8(text),
            Self::Date => parse::date(text).map(i64::from),
            _ => None,
        }
    }

    /// The integer that a `MODULO` key takes modulo, from its binary send format; `None` if the type cannot be one.
    pub fn modulo_value(self, bytes: &[u8]) -> Option<Result<i64, BadKey>> {
        Some(match self {
            Self::Bool => array(bytes).map(|[b]: [u8; 1]| i64::from(b != 0)),
            Self::Char => array(bytes).map(|[b]: [u8; 1]| i64::from(b as i8)),
            Self::Int2 => array(bytes).map(|b| i64::from(i16::from_be_bytes(b))),
            Self::Int4 | Self::Date => array(bytes).map(|b| i64::from(i32::from_be_bytes(b))),
            Self::Int8 => array(bytes).map(i64::from_be_bytes),
            _ => return None,
        })
    }
}

/// SQL for the bucket of a hash key, given as types and column expressions, on PostgreSQL 15 to 18: for audits and row
/// filters. A NULL column leaves the seed as it is, as in [`KeyHasher`].
pub fn sql_bucket(key: &[(KeyType, &str)]) -> String {
    let hash = key.iter().fold("0::bigint".to_owned(), |seed, (key_type, column)| {
        format!("CASE WHEN {column} IS NULL THEN {seed} ELSE {} END", key_type.sql_hash(column, &seed))
    });
    format!("({hash} & 4095)")
}

/// Reads the big-endian integer that a send function makes; also right for infinite dates, which subtraction refuses.
fn sent_as_integer(send: &str, value: &str, bits: u32) -> String {
    let integer = if bits == 64 { "int8" } else { "int4" };
    format!("('x' || encode({send}({value}), 'hex'))::bit({bits})::{integer}")
}

#[inline]
fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], BadKey> {
    bytes.try_into().map_err(|_| BadKey)
}

/// `hashint8extended`: also right for int2 and int4, whose functions give the same for the same number.
#[inline(always)]
pub fn hash_int8(value: i64, seed: u64) -> u64 {
    let (low, high) = (value as u32, (value >> 32) as u32);
    hash_u32(low ^ if value >= 0 { high } else { !high }, seed)
}

/// `hashfloat8extended`.
fn hash_float8(value: f64, seed: u64) -> u64 {
    if value == 0.0 {
        return seed;
    }
    let value = if value.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { value };
    hash_bytes(&value.to_le_bytes(), seed)
}

/// `hashbpcharextended`: trailing blanks do not count.
fn hash_bpchar(text: &[u8], seed: u64) -> u64 {
    let length = text.iter().rposition(|b| *b != b' ').map_or(0, |last| last + 1);
    hash_bytes(&text[..length], seed)
}

/// `hash_numeric_extended` of a finite value; zeros at both ends do not count.
fn hash_numeric(digits: &[i16], weight: i16, seed: u64) -> u64 {
    let Some(first) = digits.iter().position(|d| *d != 0) else { return seed.wrapping_sub(1) };
    let last = digits.iter().rposition(|d| *d != 0).unwrap_or(first);
    let weight = i64::from(weight) - first as i64;
    let significant = &digits[first..=last];
    let mut short = [0u8; 64];
    let hash = if significant.len() * 2 <= short.len() {
        for (bytes, digit) in short.chunks_exact_mut(2).zip(significant) {
            bytes.copy_from_slice(&digit.to_le_bytes());
        }
        hash_bytes(&short[..significant.len() * 2], seed)
    } else {
        let long: Vec<u8> = significant.iter().flat_map(|d| d.to_le_bytes()).collect();
        hash_bytes(&long, seed)
    };
    hash ^ weight as u64
}

/// The send format of `numeric`: ndigits, weight, sign, dscale, then base-10000 digits; `numeric_recv` drops what
/// stands behind the display scale.
fn hash_numeric_binary(bytes: &[u8], seed: u64) -> Result<u64, BadKey> {
    let words = bytes.chunks_exact(2);
    if !words.remainder().is_empty() {
        return Err(BadKey);
    }
    let mut words = words.map(|w| i16::from_be_bytes([w[0], w[1]]));
    let mut next = || words.next().ok_or(BadKey);
    let (count, weight, sign, scale) = (next()? as u16, next()?, next()? as u16, next()? as u16);
    let mut digits: Vec<i16> = words.collect();
    if digits.len() != usize::from(count) || digits.iter().any(|d| !(0..10_000).contains(d)) {
        return Err(BadKey);
    }
    match sign {
        0 | 0x4000 => {}
        // NaN and the infinities.
        0xC000 | 0xD000 | 0xF000 => return Ok(seed),
        _ => return Err(BadKey),
    }
    let whole_digits = i32::from(weight) + 1;
    let kept = (whole_digits + (i32::from(scale) + 3) / 4).max(0) as usize;
    if digits.len() >= kept {
        digits.truncate(kept);
        if let (Some(last), 1..=3) = (digits.last_mut(), scale % 4) {
            *last -= *last % [1, 1000, 100, 10][usize::from(scale % 4)];
        }
    }
    Ok(hash_numeric(&digits, weight, seed))
}

fn hash_timetz(time: i64, zone_seconds_west: i32, seed: u64) -> u64 {
    hash_int8(time, seed) ^ hash_u32(zone_seconds_west as u32, seed)
}

/// `interval_hash_extended`: a month counts 30 days; only the low 64 bits of the span enter.
fn hash_interval(time: i64, days: i32, months: i32, seed: u64) -> u64 {
    let days = i64::from(months) * 30 + i64::from(days);
    hash_int8(time.wrapping_add(days.wrapping_mul(parse::USECS_PER_DAY)), seed)
}

/// PostgreSQL's `hash…extended` of a value in the type's binary send format (text in the server's encoding).
pub fn hash_binary(key_type: KeyType, bytes: &[u8], seed: u64) -> Result<u64, BadKey> {
    Ok(match key_type {
        KeyType::Int8 | KeyType::Time | KeyType::Timestamp | KeyType::TimestampTz | KeyType::Money => {
            hash_int8(i64::from_be_bytes(array(bytes)?), seed)
        }
        KeyType::Int4 | KeyType::Date | KeyType::Oid => hash_u32(u32::from_be_bytes(array(bytes)?), seed),
        KeyType::Int2 => hash_u32(i32::from(i16::from_be_bytes(array(bytes)?)) as u32, seed),
        KeyType::Bool => hash_u32(u32::from(array::<1>(bytes)?[0] != 0), seed),
        KeyType::Char => hash_u32(i32::from(array::<1>(bytes)?[0] as i8) as u32, seed),
        KeyType::Text | KeyType::Name | KeyType::Bytea => hash_bytes(bytes, seed),
        KeyType::Bpchar => hash_bpchar(bytes, seed),
        KeyType::Float4 => hash_float8(f64::from(f32::from_be_bytes(array(bytes)?)), seed),
        KeyType::Float8 => hash_float8(f64::from_be_bytes(array(bytes)?), seed),
        KeyType::Uuid => hash_bytes(&array::<16>(bytes)?, seed),
        KeyType::Numeric => hash_numeric_binary(bytes, seed)?,
        KeyType::TimeTz => {
            let bytes = array::<12>(bytes)?;
            let (time, zone) = bytes.split_at(8);
            hash_timetz(i64::from_be_bytes(array(time)?), i32::from_be_bytes(array(zone)?), seed)
        }
        KeyType::Interval => {
            let bytes = array::<16>(bytes)?;
            let (time, rest) = bytes.split_at(8);
            let (days, months) = rest.split_at(4);
            hash_interval(
                i64::from_be_bytes(array(time)?),
                i32::from_be_bytes(array(days)?),
                i32::from_be_bytes(array(months)?),
                seed,
            )
        }
    })
}

/// PostgreSQL's `hash…extended` of a value in text form, as the type's input function reads it with no type modifier.
///
/// `None` means "ask PostgreSQL": the text is wrong, or a spelling whose meaning we do not know for sure.
pub fn hash_text(key_type: KeyType, text: &[u8], seed: u64) -> Option<u64> {
    match key_type {
        KeyType::Int8 => parse::int8(text).map(|v| hash_int8(v, seed)),
        KeyType::Int4 => parse::int4(text).map(|v| hash_u32(v as u32, seed)),
        KeyType::Int2 => parse::int2(text).map(|v| hash_u32(i32::from(v) as u32, seed)),
        KeyType::Oid => parse::oid(text).map(|v| hash_u32(v, seed)),
        KeyType::Bool => parse::boolean(text).map(|v| hash_u32(u32::from(v), seed)),
        KeyType::Char => parse::char(text).map(|v| hash_u32(u32::from(v), seed)),
        KeyType::Text => Some(hash_bytes(text, seed)),
        // `namein` cuts at 63 bytes, at a character's boundary.
        KeyType::Name => (text.len() < 64).then(|| hash_bytes(text, seed)),
        KeyType::Bpchar => Some(hash_bpchar(text, seed)),
        KeyType::Bytea => {
            let bytes: Vec<u8> = parse::bytea(text)?.collect::<Option<_>>()?;
            Some(hash_bytes(&bytes, seed))
        }
        KeyType::Float4 => parse::float4(text).map(|v| hash_float8(f64::from(v), seed)),
        KeyType::Float8 => parse::float8(text).map(|v| hash_float8(v, seed)),
        KeyType::Date => parse::date(text).map(|v| hash_u32(v as u32, seed)),
        KeyType::Time => parse::time(text).map(|v| hash_int8(v, seed)),
        KeyType::Timestamp => parse::timestamp(text).map(|v| hash_int8(v, seed)),
        KeyType::TimestampTz => parse::timestamptz(text).map(|v| hash_int8(v, seed)),
        KeyType::Uuid => parse::uuid(text).map(|v| hash_bytes(&v, seed)),
        KeyType::Numeric => {
            let mut digits = Vec::new();
            parse::numeric(text, &mut digits).map(|decimal| hash_numeric(&digits, decimal.weight, seed))
        }
        KeyType::Interval => parse::interval(text).map(|(months, days, time)| hash_interval(time, days, months, seed)),
        KeyType::Money | KeyType::TimeTz => None,
    }
}

/// Hashes the columns of one key in order: each column's hash is the seed of the next, a NULL leaves it as it is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct KeyHasher {
    seed: u64,
}

impl KeyHasher {
    /// A key with no column yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column in binary send format.
    #[inline]
    pub fn binary(&mut self, key_type: KeyType, value: Option<&[u8]>) -> Result<(), BadKey> {
        if let Some(bytes) = value {
            self.seed = hash_binary(key_type, bytes, self.seed)?;
        }
        Ok(())
    }

    /// Adds a column in text form; `None` means "ask PostgreSQL" and leaves the hasher unchanged.
    pub fn text(&mut self, key_type: KeyType, value: Option<&[u8]>) -> Option<()> {
        if let Some(text) = value {
            self.seed = hash_text(key_type, text, self.seed)?;
        }
        Some(())
    }

    /// The 64-bit hash of the columns so far.
    pub fn hash(&self) -> u64 {
        self.seed
    }

    /// The bucket of the columns so far.
    #[inline]
    pub fn bucket(&self) -> u16 {
        (self.seed % BUCKETS as u64) as u16
    }
}
