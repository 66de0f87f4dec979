//! A row group column by column, a batch of rows at a time, into lines.

use std::fs::File;
use std::io::{self, Read};

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType, FixedLenByteArray, Int96};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::schema::{Column, Kind, Unit};
use crate::text;

/// Rows decoded at once.
const BATCH_ROWS: usize = 1024;
/// The Julian day that begins at noon of 1970-01-01.
const JULIAN_DAY_1970: i64 = 2_440_588;

/// The rows of one group as text: read them.
pub struct GroupRows {
    columns: Vec<Values>,
    rows: u64,
    rows_read: u64,
    /// Lines; those from `at` on are not given out yet.
    lines: Vec<u8>,
    at: usize,
}

impl GroupRows {
    pub(crate) fn new(reader: &SerializedFileReader<File>, group: usize, columns: Vec<Column>) -> Result<Self> {
        let group = reader.get_row_group(group)?;
        let rows = u64::try_from(group.metadata().num_rows()).unwrap_or_default();
        let values = |(index, column): (usize, Column)| {
            let descriptor = group.metadata().column(index).column_descr_ptr();
            Ok(Values {
                kind: column.kind,
                is_optional: descriptor.max_def_level() > 0,
                name: column.name,
                reader: Typed::new(group.get_column_reader(index)?),
                levels: Vec::with_capacity(BATCH_ROWS),
                next: 0,
            })
        };
        let columns = columns.into_iter().enumerate().map(values).collect::<Result<_>>()?;
        Ok(Self { columns, rows, rows_read: 0, lines: Vec::new(), at: 0 })
    }

    /// Rows given out or about to be.
    pub fn rows_read(&self) -> u64 {
        self.rows_read
    }

    fn fill(&mut self) -> Result<()> {
        self.lines.clear();
        self.at = 0;
        let left = usize::try_from(self.rows - self.rows_read).unwrap_or(usize::MAX);
        let count = left.min(BATCH_ROWS);
        for column in &mut self.columns {
            column.read(count)?;
        }
        for row in 0..count {
            for column in &mut self.columns {
                column.append(row, &mut self.lines)?;
                self.lines.push(b'\t');
            }
            self.lines.pop();
            self.lines.push(b'\n');
        }
        self.rows_read += count as u64;
        Ok(())
    }
}

impl Read for GroupRows {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.lines.len() && self.rows_read < self.rows {
            self.fill().map_err(io::Error::other)?;
        }
        let count = buffer.len().min(self.lines.len() - self.at);
        buffer[..count].copy_from_slice(&self.lines[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// A column with the values of the batch.
struct Values {
    name: String,
    kind: Kind,
    is_optional: bool,
    reader: Typed,
    /// 0 is NULL, for each row.
    levels: Vec<i16>,
    /// The value of the next row that is not NULL.
    next: usize,
}

enum Typed {
    Boolean(TypedColumn<parquet::data_type::BoolType>),
    Int32(TypedColumn<parquet::data_type::Int32Type>),
    Int64(TypedColumn<parquet::data_type::Int64Type>),
    Int96(TypedColumn<parquet::data_type::Int96Type>),
    Float(TypedColumn<parquet::data_type::FloatType>),
    Double(TypedColumn<parquet::data_type::DoubleType>),
    Bytes(TypedColumn<parquet::data_type::ByteArrayType>),
    Fixed(TypedColumn<parquet::data_type::FixedLenByteArrayType>),
}

/// A column of one physical type.
struct TypedColumn<T: DataType> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
}

impl<T: DataType> TypedColumn<T> {
    fn new(reader: ColumnReaderImpl<T>) -> Self {
        Self { reader, values: Vec::with_capacity(BATCH_ROWS) }
    }

    /// Reads so many rows; fewer only where the column ends.
    fn read(&mut self, count: usize, levels: Option<&mut Vec<i16>>) -> Result<usize> {
        self.values.clear();
        Ok(self.reader.read_records(count, levels, None, &mut self.values)?.0)
    }
}

impl Typed {
    fn new(reader: ColumnReader) -> Self {
        match reader {
            ColumnReader::BoolColumnReader(reader) => Typed::Boolean(TypedColumn::new(reader)),
            ColumnReader::Int32ColumnReader(reader) => Typed::Int32(TypedColumn::new(reader)),
            ColumnReader::Int64ColumnReader(reader) => Typed::Int64(TypedColumn::new(reader)),
            ColumnReader::Int96ColumnReader(reader) => Typed::Int96(TypedColumn::new(reader)),
            ColumnReader::FloatColumnReader(reader) => Typed::Float(TypedColumn::new(reader)),
            ColumnReader::DoubleColumnReader(reader) => Typed::Double(TypedColumn::new(reader)),
            ColumnReader::ByteArrayColumnReader(reader) => Typed::Bytes(TypedColumn::new(reader)),
            ColumnReader::FixedLenByteArrayColumnReader(reader) => Typed::Fixed(TypedColumn::new(reader)),
        }
    }
}

impl Values {
    fn read(&mut self, count: usize) -> Result<()> {
        self.next = 0;
        self.levels.clear();
        let levels = self.is_optional.then_some(&mut self.levels);
        let found = match &mut self.reader {
            Typed::Boolean(column) => column.read(count, levels),
            Typed::Int32(column) => column.read(count, levels),
            Typed::Int64(column) => column.read(count, levels),
            Typed::Int96(column) => column.read(count, levels),
            Typed::Float(column) => column.read(count, levels),
            Typed::Double(column) => column.read(count, levels),
            Typed::Bytes(column) => column.read(count, levels),
            Typed::Fixed(column) => column.read(count, levels),
        };
        match found {
            Ok(found) if found == count => Ok(()),
            Ok(_) => Err(self.wrong("has fewer values than the row group has rows")),
            Err(ParquetError::General(why)) => Err(self.wrong(&format!("cannot be read: {why}"))),
            Err(error) => Err(self.wrong(&format!("cannot be read: {error}"))),
        }
    }

    fn wrong(&self, what: &str) -> ParquetError {
        ParquetError::General(format!("column \"{}\" {what}", self.name))
    }

    fn append(&mut self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        if self.is_optional && self.levels[row] == 0 {
            out.extend_from_slice(b"\\N");
            return Ok(());
        }
        let at = self.next;
        self.next += 1;
        let is_known = match &self.reader {
            Typed::Boolean(column) => column.values.get(at).is_some_and(|value| {
                out.push(if *value { b't' } else { b'f' });
                true
            }),
            Typed::Int32(column) => column.values.get(at).is_some_and(|value| int32(out, self.kind, *value)),
            Typed::Int64(column) => column.values.get(at).is_some_and(|value| int64(out, self.kind, *value)),
            Typed::Int96(column) => column.values.get(at).is_some_and(|value| int96(out, value)),
            Typed::Float(column) => column.values.get(at).is_some_and(|value| {
                text::float(out, f64::from(*value), value);
                true
            }),
            Typed::Double(column) => column.values.get(at).is_some_and(|value| {
                text::float(out, *value, value);
                true
            }),
            Typed::Bytes(column) => {
                column.values.get(at).is_some_and(|value: &ByteArray| bytes(out, self.kind, value.data()))
            }
            Typed::Fixed(column) => {
                column.values.get(at).is_some_and(|value: &FixedLenByteArray| bytes(out, self.kind, value.data()))
            }
        };
        match is_known {
            true => Ok(()),
            false => Err(self.wrong("has a value that is not of its type")),
        }
    }
}

fn int32(out: &mut Vec<u8>, kind: Kind, value: i32) -> bool {
    match kind {
        Kind::Integer { is_signed: false } => text::display(out, value as u32),
        Kind::Date => text::date(out, value.into()),
        other => return int64(out, other, value.into()),
    }
    true
}

fn int64(out: &mut Vec<u8>, kind: Kind, value: i64) -> bool {
    match kind {
        Kind::Integer { is_signed: true } => text::display(out, value),
        Kind::Integer { is_signed: false } => text::display(out, value as u64),
        Kind::Decimal { scale } => text::decimal(out, value.into(), scale),
        Kind::Time(unit) => text::time(out, value, unit),
        Kind::Timestamp { unit, is_utc } => text::timestamp(out, value, unit, is_utc),
        _ => return false,
    }
    true
}

fn int96(out: &mut Vec<u8>, value: &Int96) -> bool {
    let [low, high, day] = value.data() else { return false };
    let nanoseconds = (u64::from(*high) << 32 | u64::from(*low)) as i64;
    text::instant(out, i64::from(*day as i32) - JULIAN_DAY_1970, nanoseconds, Unit::Nano, true);
    true
}

fn bytes(out: &mut Vec<u8>, kind: Kind, value: &[u8]) -> bool {
    match kind {
        Kind::Text => text::text(out, value),
        Kind::Bytes => text::bytes(out, value),
        Kind::Uuid => text::hexadecimal(out, value),
        Kind::Half => match value {
            [low, high] => {
                let value = text::half(u16::from_le_bytes([*low, *high]));
                text::float(out, f64::from(value), value);
            }
            _ => return false,
        },
        Kind::Decimal { scale } => match text::big_endian(value) {
            Some(unscaled) => text::decimal(out, unscaled, scale),
            None => return false,
        },
        _ => return false,
    }
    true
}
