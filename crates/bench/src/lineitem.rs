//! TPC-H lineitem as COPY input. The rows come from crate `tpchgen`; the text is written by hand, because formatting
//! through `std::fmt` costs more than making the rows.

use std::fmt::Write as _;
use std::sync::OnceLock;

use tpchgen::dates::TPCHDate;
use tpchgen::decimal::TPCHDecimal;
use tpchgen::distribution::Distributions;
use tpchgen::generators::{LineItem, LineItemGenerator, LineItemGeneratorIterator};
use tpchgen::text::TextPool;

/// Bytes in a block, give or take a row.
pub const BLOCK_BYTES: usize = 256 * 1024;

/// Which columns of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Columns {
    /// Four bigints, two dates and a char(25): the table of Postgres-XL's published load figures.
    Seven,
    /// All of TPC-H's.
    Sixteen,
    /// The key, and all of TPC-H's several times over as a jsonb document of about 1,700 bytes: wide, but not so wide that
    /// servers compress it, which would hide everything else.
    Json,
    /// The seven with l_shipinstruct as text, which is 1 MB long in a part's first row.
    Blob,
}

/// Bytes of the first row's text in [`Columns::Blob`].
const BLOB_BYTES: usize = 1 << 20;

/// Bytes after which a document of [`Columns::Json`] ends.
const DOCUMENT_BYTES: usize = 1500;

/// How rows are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// COPY's text format: tabs, no quotes.
    Text,
    /// COPY's CSV format; only l_comment is quoted.
    Csv,
}

impl Columns {
    /// The column list of CREATE TABLE, with parentheses.
    pub fn definition(self) -> &'static str {
        match self {
            Columns::Seven => {
                "(l_orderkey bigint NOT NULL, l_partkey bigint NOT NULL, l_suppkey bigint NOT NULL, \
                 l_linenumber bigint NOT NULL, l_shipdate date NOT NULL, l_receiptdate date NOT NULL, \
                 l_shipinstruct char(25) NOT NULL)"
            }
            Columns::Sixteen => {
                "(l_orderkey bigint NOT NULL, l_partkey bigint NOT NULL, l_suppkey bigint NOT NULL, \
                 l_linenumber integer NOT NULL, l_quantity numeric(15,2) NOT NULL, \
                 l_extendedprice numeric(15,2) NOT NULL, l_discount numeric(15,2) NOT NULL, \
                 l_tax numeric(15,2) NOT NULL, l_returnflag char(1) NOT NULL, l_linestatus char(1) NOT NULL, \
                 l_shipdate date NOT NULL, l_commitdate date NOT NULL, l_receiptdate date NOT NULL, \
                 l_shipinstruct char(25) NOT NULL, l_shipmode char(10) NOT NULL, l_comment varchar(44) NOT NULL)"
            }
            Columns::Json => "(l_orderkey bigint NOT NULL, l_linenumber bigint NOT NULL, l_document jsonb NOT NULL)",
            Columns::Blob => {
                "(l_orderkey bigint NOT NULL, l_partkey bigint NOT NULL, l_suppkey bigint NOT NULL, \
                 l_linenumber bigint NOT NULL, l_shipdate date NOT NULL, l_receiptdate date NOT NULL, \
                 l_shipinstruct text NOT NULL)"
            }
        }
    }

    /// Their number.
    pub fn count(self) -> usize {
        match self {
            Columns::Seven | Columns::Blob => 7,
            Columns::Sixteen => 16,
            Columns::Json => 3,
        }
    }

    /// What the rows are, in a report.
    pub fn describe(self) -> &'static str {
        match self {
            Columns::Seven => "7 columns",
            Columns::Sixteen => "16 columns",
            Columns::Json => "a key and a jsonb document",
            Columns::Blob => "7 columns, the first row of 1 MB",
        }
    }
}

impl Format {
    /// The option list of COPY.
    pub fn options(self) -> &'static str {
        match self {
            Format::Text => "(FORMAT text)",
            Format::Csv => "(FORMAT csv)",
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Csv => "CSV",
        }
    }
}

/// About how many rows a scale factor has: orders have one to seven lines, so the exact number is known only at the end.
pub fn estimated_rows(scale_factor: f64) -> u64 {
    (6_001_215.0 * scale_factor).round() as u64
}

/// The rows of one part, block by block.
pub struct Blocks {
    rows: LineItemGeneratorIterator<'static>,
    columns: Columns,
    format: Format,
    dates: &'static [[u8; 10]],
    is_first: bool,
}

impl Blocks {
    /// Part `part` (1-based) of `parts`; any part is made directly, without the ones before it.
    pub fn new(scale_factor: f64, part: usize, parts: usize, columns: Columns, format: Format) -> Self {
        debug_assert!(1 <= part && part <= parts);
        let distributions = Distributions::static_default();
        let pool = match columns {
            Columns::Seven | Columns::Blob => comments_unused(distributions),
            Columns::Sixteen | Columns::Json => TextPool::get_or_init_default(),
        };
        let (part, parts) = (part as i32, parts as i32);
        let generator =
            LineItemGenerator::new_with_distributions_and_text_pool(scale_factor, part, parts, distributions, pool);
        Self { rows: generator.iter(), columns, format, dates: dates(), is_first: true }
    }

    /// Appends whole rows to `block` until it holds [`BLOCK_BYTES`] or the part ends; returns the number of rows, 0 at
    /// the end.
    pub fn fill(&mut self, block: &mut Vec<u8>) -> u64 {
        let mut count = 0;
        while block.len() < BLOCK_BYTES {
            let Some(row) = self.rows.next() else { break };
            match self.columns {
                Columns::Seven => self.write_seven(&row, block),
                Columns::Sixteen => self.write_sixteen(&row, block),
                Columns::Json => self.write_document(&row, block),
                Columns::Blob => self.write_blob(&row, block),
            }
            self.is_first = false;
            count += 1;
        }
        count
    }

    fn delimiter(&self) -> u8 {
        match self.format {
            Format::Text => b'\t',
            Format::Csv => b',',
        }
    }

    fn write_seven(&self, row: &LineItem, out: &mut Vec<u8>) {
        self.write_keys_and_dates(row, out);
        out.extend_from_slice(row.l_shipinstruct.as_bytes());
        out.push(b'\n');
    }

    fn write_keys_and_dates(&self, row: &LineItem, out: &mut Vec<u8>) {
        let delimiter = self.delimiter();
        self.write_keys(row, out);
        out.extend_from_slice(self.date(row.l_shipdate));
        out.push(delimiter);
        out.extend_from_slice(self.date(row.l_receiptdate));
        out.push(delimiter);
    }

    fn write_blob(&self, row: &LineItem, out: &mut Vec<u8>) {
        self.write_keys_and_dates(row, out);
        match self.is_first {
            // Not the same again and again, which PostgreSQL would compress to nothing.
            true => {
                out.extend((0..BLOB_BYTES as u64).map(|i| b'a' + ((i * i).wrapping_mul(0x9e37_79b9) >> 20) as u8 % 26))
            }
            false => out.extend_from_slice(row.l_shipinstruct.as_bytes()),
        }
        out.push(b'\n');
    }

    fn write_document(&self, row: &LineItem, out: &mut Vec<u8>) {
        write_integer(row.l_orderkey, out);
        out.push(self.delimiter());
        write_integer(i64::from(row.l_linenumber), out);
        out.push(self.delimiter());
        let document = self.document(row);
        match self.format {
            Format::Text => out.extend_from_slice(document.as_bytes()),
            Format::Csv => {
                out.push(b'"');
                out.extend_from_slice(document.replace('"', "\"\"").as_bytes());
                out.push(b'"');
            }
        }
        out.push(b'\n');
    }

    /// Entries until there are [`DOCUMENT_BYTES`]. Nothing in TPC-H's words needs an escape.
    fn document(&self, row: &LineItem) -> String {
        let mut text = String::from("{\"lines\": [");
        for entry in 0.. {
            let comma = if entry == 0 { "" } else { ", " };
            // A `String` takes whatever is written to it.
            let _ = write!(
                text,
                "{comma}{{\"entry\": {entry}, \"part\": {}, \"supplier\": {}, \"price\": {}, \"discount\": {}, \
                 \"shipped\": \"{}\", \"returned\": {}, \"mode\": \"{}\", \"comment\": \"{}\"}}",
                row.l_partkey + entry,
                row.l_suppkey,
                row.l_extendedprice,
                row.l_discount,
                row.l_shipdate,
                row.l_returnflag == "R",
                row.l_shipmode,
                row.l_comment,
            );
            if text.len() >= DOCUMENT_BYTES {
                break;
            }
        }
        text.push_str("]}");
        text
    }

    fn write_sixteen(&self, row: &LineItem, out: &mut Vec<u8>) {
        let delimiter = self.delimiter();
        self.write_keys(row, out);
        write_integer(row.l_quantity, out);
        out.push(delimiter);
        for amount in [row.l_extendedprice, row.l_discount, row.l_tax] {
            write_cents(amount, out);
            out.push(delimiter);
        }
        for word in [row.l_returnflag, row.l_linestatus] {
            out.extend_from_slice(word.as_bytes());
            out.push(delimiter);
        }
        for date in [row.l_shipdate, row.l_commitdate, row.l_receiptdate] {
            out.extend_from_slice(self.date(date));
            out.push(delimiter);
        }
        for word in [row.l_shipinstruct, row.l_shipmode] {
            out.extend_from_slice(word.as_bytes());
            out.push(delimiter);
        }
        match self.format {
            // TPC-H's grammar has commas in comments, but no quote, backslash or tab.
            Format::Text => out.extend_from_slice(row.l_comment.as_bytes()),
            Format::Csv => {
                out.push(b'"');
                out.extend_from_slice(row.l_comment.as_bytes());
                out.push(b'"');
            }
        }
        out.push(b'\n');
    }

    fn write_keys(&self, row: &LineItem, out: &mut Vec<u8>) {
        let delimiter = self.delimiter();
        for key in [row.l_orderkey, row.l_partkey, row.l_suppkey, i64::from(row.l_linenumber)] {
            write_integer(key, out);
            out.push(delimiter);
        }
    }

    fn date(&self, date: TPCHDate) -> &[u8; 10] {
        &self.dates[date.into_inner() as usize]
    }
}

/// The default pool is 300 MB of text and takes seconds to make; the seven columns need none of it. The random numbers
/// of the other columns do not depend on the pool.
fn comments_unused(distributions: &Distributions) -> &'static TextPool {
    static POOL: OnceLock<TextPool> = OnceLock::new();
    POOL.get_or_init(|| TextPool::new(4096, distributions))
}

/// All dates of TPC-H (1992-01-01 to 1998-12-31) as text.
fn dates() -> &'static [[u8; 10]] {
    static DATES: OnceLock<Vec<[u8; 10]>> = OnceLock::new();
    const DAYS: i32 = 2557;
    let text = |day: i32| {
        let date = TPCHDate::new(tpchgen::dates::MIN_GENERATE_DATE + day).to_string();
        let mut bytes = [b'0'; 10];
        bytes.copy_from_slice(&date.as_bytes()[..10]);
        bytes
    };
    DATES.get_or_init(|| (0..DAYS).map(text).collect())
}

fn write_integer(value: i64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

fn write_cents(value: TPCHDecimal, out: &mut Vec<u8>) {
    let cents = value.0;
    debug_assert!(cents >= 0, "TPC-H has no negative amounts in lineitem");
    write_integer(cents / 100, out);
    let fraction = (cents % 100) as u8;
    out.extend_from_slice(&[b'.', b'0' + fraction / 10, b'0' + fraction % 10]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(parts: usize, columns: Columns, format: Format) -> (String, u64) {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for part in 1..=parts {
            let mut blocks = Blocks::new(0.002, part, parts, columns, format);
            loop {
                let mut block = Vec::new();
                let rows = blocks.fill(&mut block);
                if rows == 0 {
                    break;
                }
                bytes.extend_from_slice(&block);
                count += rows;
            }
        }
        (String::from_utf8(bytes).expect("ASCII"), count)
    }

    #[test]
    fn rows_are_those_of_tpchgen() {
        let (text, count) = all(1, Columns::Sixteen, Format::Text);
        let expected: Vec<String> = LineItemGenerator::new(0.002, 1, 1).iter().map(|row| row.to_string()).collect();
        assert_eq!(count as usize, expected.len());
        for (line, expected) in text.lines().zip(expected) {
            assert_eq!(format!("{}|", line.replace('\t', "|")), expected);
        }
    }

    #[test]
    fn the_seven_columns_are_seven_of_the_sixteen() {
        let (seven, sixteen) = (all(1, Columns::Seven, Format::Csv).0, all(1, Columns::Sixteen, Format::Text).0);
        for (seven, sixteen) in seven.lines().zip(sixteen.lines()) {
            let all: Vec<&str> = sixteen.split('\t').collect();
            let picked: Vec<&str> = [0, 1, 2, 3, 10, 12, 13].iter().map(|column| all[*column]).collect();
            assert_eq!(seven.split(',').collect::<Vec<_>>(), picked);
        }
    }

    #[test]
    fn documents_are_wide_and_the_same_in_both_formats() {
        let (text, csv) = (all(1, Columns::Json, Format::Text).0, all(1, Columns::Json, Format::Csv).0);
        for (text, csv) in text.lines().zip(csv.lines()) {
            let (key, document) = text.rsplit_once('\t').expect("three columns");
            let value: serde_json::Value = serde_json::from_str(document).expect("JSON");
            assert!(value["lines"].as_array().is_some_and(|lines| lines.len() > 5), "{document}");
            assert!((DOCUMENT_BYTES..2000).contains(&document.len()), "{}", document.len());
            assert_eq!(csv, format!("{},\"{}\"", key.replace('\t', ","), document.replace('"', "\"\"")));
        }
    }

    #[test]
    fn only_the_first_row_is_huge() {
        let (text, _) = all(1, Columns::Blob, Format::Text);
        let lengths: Vec<usize> = text.lines().map(str::len).collect();
        assert!(lengths[0] > BLOB_BYTES && lengths[1..].iter().all(|length| *length < 80), "{}", lengths[0]);
    }

    #[test]
    fn parts_put_together_are_the_whole() {
        assert_eq!(all(3, Columns::Seven, Format::Csv), all(1, Columns::Seven, Format::Csv));
    }

    #[test]
    fn integers_of_every_length() {
        for value in [0, 7, 10, -1, 1234567890, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            write_integer(value, &mut out);
            assert_eq!(String::from_utf8(out).expect("ASCII"), value.to_string());
        }
    }
}
