//! Which columns a file has, and what a value of each means.

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};
use pgerror::{PgError, Result, SqlState};

/// `i128` holds so many decimal digits.
const DIGITS_MAX: i32 = 38;

/// A column of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// As the file has it.
    pub name: String,
    /// The SQL type that holds all its values.
    pub sql_type: String,
    pub(crate) kind: Kind,
}

/// Parts of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Milli,
    Micro,
    Nano,
}

impl Unit {
    pub(crate) fn digits(self) -> usize {
        match self {
            Unit::Milli => 3,
            Unit::Micro => 6,
            Unit::Nano => 9,
        }
    }

    pub(crate) fn per_second(self) -> i64 {
        match self {
            Unit::Milli => 1_000,
            Unit::Micro => 1_000_000,
            Unit::Nano => 1_000_000_000,
        }
    }
}

/// What a value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    /// An integer of 8 to 64 bits; unsigned ones lie in signed integers of the same width.
    Integer {
        is_signed: bool,
    },
    Float,
    /// In two bytes with the lowest first.
    Half,
    Text,
    Bytes,
    Uuid,
    Date,
    Time(Unit),
    Timestamp {
        unit: Unit,
        is_utc: bool,
    },
    /// Nanoseconds of a day and a Julian day: an instant, as its writers (Hive, Impala, Spark) meant it.
    Int96,
    /// In an integer, or in bytes with the highest first.
    Decimal {
        scale: usize,
    },
}

/// All columns, in the file's order.
pub(crate) fn columns(schema: &SchemaDescriptor) -> Result<Vec<Column>> {
    // Leaves of lists, maps and structs have a root that is a group.
    let plain = |index: usize| {
        let (root, column) = (schema.get_column_root(index), schema.column(index));
        match root.is_primitive() && column.max_rep_level() == 0 {
            true => describe(&column),
            false => Err(refused(root.name(), "a list, a map or a struct")),
        }
    };
    let columns: Vec<Column> = (0..schema.num_columns()).map(plain).collect::<Result<_>>()?;
    match columns.is_empty() {
        true => Err(PgError::new(SqlState::FEATURE_NOT_SUPPORTED, "a Parquet file without columns cannot be loaded")),
        false => Ok(columns),
    }
}

fn refused(column: &str, what: &str) -> PgError {
    PgError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("Parquet column \"{column}\" is {what}, which is not read"))
        .hint("Write the file without it, or as text (JSON), or load a CSV file.")
}

fn describe(column: &ColumnDescriptor) -> Result<Column> {
    let (kind, sql_type) = kind(column)?;
    Ok(Column { name: column.name().to_owned(), sql_type, kind })
}

fn kind(column: &ColumnDescriptor) -> Result<(Kind, String)> {
    let (kind, name) = match column.logical_type_ref() {
        Some(logical) => logical_kind(column, logical)?,
        None => converted_kind(column)?,
    };
    Ok((kind, name))
}

fn logical_kind(column: &ColumnDescriptor, logical: &LogicalType) -> Result<(Kind, String)> {
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::MILLIS => Ok(Unit::Milli),
        TimeUnit::MICROS => Ok(Unit::Micro),
        TimeUnit::NANOS => Ok(Unit::Nano),
        #[allow(unreachable_patterns)]
        _ => Err(refused(column.name(), "of a unit of time that is not known")),
    };
    Ok(match logical {
        LogicalType::String | LogicalType::Enum => (Kind::Text, "text".to_owned()),
        LogicalType::Json => (Kind::Text, "jsonb".to_owned()),
        LogicalType::Integer(integer) => integer_kind(integer.bit_width.into(), integer.is_signed),
        LogicalType::Decimal(decimal) => decimal_kind(column, decimal.precision, decimal.scale)?,
        LogicalType::Date => (Kind::Date, "date".to_owned()),
        LogicalType::Time(time) => (Kind::Time(unit(&time.unit)?), "time".to_owned()),
        LogicalType::Timestamp(stamp) => timestamp_kind(unit(&stamp.unit)?, stamp.is_adjusted_to_u_t_c),
        LogicalType::Uuid => (Kind::Uuid, "uuid".to_owned()),
        LogicalType::Float16 => (Kind::Half, "real".to_owned()),
        // Nothing but NULLs.
        LogicalType::Unknown => (physical_kind(column).0, "text".to_owned()),
        other => return Err(refused(column.name(), &format!("of type {other:?}"))),
    })
}

fn converted_kind(column: &ColumnDescriptor) -> Result<(Kind, String)> {
    Ok(match column.converted_type() {
        ConvertedType::NONE => physical_kind(column),
        ConvertedType::UTF8 | ConvertedType::ENUM => (Kind::Text, "text".to_owned()),
        ConvertedType::JSON => (Kind::Text, "jsonb".to_owned()),
        ConvertedType::DECIMAL => decimal_kind(column, column.type_precision(), column.type_scale())?,
        ConvertedType::DATE => (Kind::Date, "date".to_owned()),
        ConvertedType::TIME_MILLIS => (Kind::Time(Unit::Milli), "time".to_owned()),
        ConvertedType::TIME_MICROS => (Kind::Time(Unit::Micro), "time".to_owned()),
        // Before there were logical types all of them were instants.
        ConvertedType::TIMESTAMP_MILLIS => timestamp_kind(Unit::Milli, true),
        ConvertedType::TIMESTAMP_MICROS => timestamp_kind(Unit::Micro, true),
        ConvertedType::INT_8 => integer_kind(8, true),
        ConvertedType::INT_16 => integer_kind(16, true),
        ConvertedType::INT_32 => integer_kind(32, true),
        ConvertedType::INT_64 => integer_kind(64, true),
        ConvertedType::UINT_8 => integer_kind(8, false),
        ConvertedType::UINT_16 => integer_kind(16, false),
        ConvertedType::UINT_32 => integer_kind(32, false),
        ConvertedType::UINT_64 => integer_kind(64, false),
        other => return Err(refused(column.name(), &format!("of type {other}"))),
    })
}

fn physical_kind(column: &ColumnDescriptor) -> (Kind, String) {
    match column.physical_type() {
        Physical::BOOLEAN => (Kind::Boolean, "boolean".to_owned()),
        Physical::INT32 => integer_kind(32, true),
        Physical::INT64 => integer_kind(64, true),
        Physical::INT96 => (Kind::Int96, "timestamptz".to_owned()),
        Physical::FLOAT => (Kind::Float, "real".to_owned()),
        Physical::DOUBLE => (Kind::Float, "double precision".to_owned()),
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => (Kind::Bytes, "bytea".to_owned()),
    }
}

fn integer_kind(bits: i32, is_signed: bool) -> (Kind, String) {
    let name = match (bits, is_signed) {
        (8 | 16, true) | (8, false) => "smallint",
        (32, true) | (16, false) => "integer",
        (64, true) | (32, false) => "bigint",
        _ => "numeric(20)",
    };
    (Kind::Integer { is_signed }, name.to_owned())
}

fn timestamp_kind(unit: Unit, is_utc: bool) -> (Kind, String) {
    let name = if is_utc { "timestamptz" } else { "timestamp" };
    (Kind::Timestamp { unit, is_utc }, name.to_owned())
}

fn decimal_kind(column: &ColumnDescriptor, precision: i32, scale: i32) -> Result<(Kind, String)> {
    match usize::try_from(scale) {
        Ok(digits) if precision <= DIGITS_MAX => {
            Ok((Kind::Decimal { scale: digits }, format!("numeric({precision},{scale})")))
        }
        _ => Err(refused(column.name(), &format!("a decimal({precision},{scale})"))),
    }
}
