//! `--create`: the table that files are for.
//!
//! A Parquet file says what its columns are. Of a CSV or text file the header gives the names, and a sample of its rows the
//! types: of those that all its values fit the narrowest, and text if there is none or any doubt. A later value may not
//! fit; then the load fails and names it.

use std::sync::Arc;

use copyfmt::{CopyOptions, Format};
use pgerror::{PgError, Result, SqlState};
use pgproto::Connection;

use crate::files::counters::Counters;
use crate::files::cut::{BLOCK_BYTES, Cutter, Limits};
use crate::files::input::{self, Source};
use crate::load::server_version;
use crate::options::{LoadOptions, literal};
use crate::server::session;
use crate::server::sql::identifier;

/// Rows and bytes of the first file that are looked at.
const SAMPLE_ROWS: usize = 20_000;
const SAMPLE_BYTES: u64 = 8 * 1024 * 1024;

/// Makes the table for the files and gives the statement. `None`: it is there, and batches of it may be loaded.
///
/// # Errors
/// The server's, among them that the table exists; or why no table can be made of the files.
pub async fn create(options: &LoadOptions, distribute_by: Option<&str>) -> Result<Option<String>> {
    let sources = input::expand(&options.files)?;
    let uri = options.to.first().ok_or_else(|| PgError::connection("no coordinator is named"))?;
    let mut connection = session::connect(uri).await?;
    let exists = format!("SELECT pg_catalog.to_regclass({}) IS NOT NULL", literal(&options.table));
    if options.batch.is_some() && session::value(&mut connection, &exists).await? == "t" {
        return Ok(None);
    }
    let columns = columns(&mut connection, options, &sources).await?;
    let distribution = distribute_by.map(|by| format!("\nDISTRIBUTE BY {by}")).unwrap_or_default();
    let lines: Vec<String> = columns.iter().map(|(name, of)| format!("    {} {of}", identifier(name))).collect();
    let sql = format!("CREATE TABLE {} (\n{}\n){distribution}", options.table, lines.join(",\n"));
    connection.execute(&sql).await?;
    Ok(Some(sql))
}

/// Names and types.
async fn columns(
    connection: &mut Connection,
    options: &LoadOptions,
    sources: &[Source],
) -> Result<Vec<(String, String)>> {
    let Some(source) = sources.first() else {
        return Err(PgError::new(SqlState::INVALID_PARAMETER_VALUE, "no file is named"));
    };
    if let Some(group) = &source.group {
        let names = group.columns.iter().map(|column| column.name.clone()).collect();
        return Ok(folded(names).into_iter().zip(group.columns.iter().map(|column| column.sql_type.clone())).collect());
    }
    if source.path.is_none() || source.bytes.is_none() {
        return Err(PgError::unsupported("\"--create\" from what can be read only once")
            .hint("Write it to a file first, or make the table yourself."));
    }
    if !options.copy.header {
        return Err(PgError::unsupported("\"--create\" from a file without a header")
            .hint("Add --header if the first line names the columns, else make the table yourself."));
    }
    let version = server_version(connection).await?;
    let mut copy = options.copy.clone();
    copy.format.get_or_insert_with(|| crate::load::format_of(sources).to_owned());
    let copy = copy.checked(version, true)?;
    if copy.format == Format::Binary {
        return Err(PgError::unsupported("\"--create\" from a binary file").hint("It names no columns."));
    }
    let mut sample = sample(source, &copy, version)?.into_iter();
    let header = sample.next().ok_or_else(|| {
        PgError::new(SqlState::BAD_COPY_FILE_FORMAT, format!("\"{}\" is empty: it names no columns", source.name))
    })?;
    let mut types = vec![Guess::default(); header.len()];
    for row in sample {
        types.iter_mut().zip(&row).for_each(|(guess, value)| guess.add(value.as_deref()));
    }
    let name = |value: Option<Vec<u8>>| String::from_utf8_lossy(&value.unwrap_or_default()).trim().to_owned();
    let names = folded(header.into_iter().map(name).collect());
    Ok(names.into_iter().zip(types.iter().map(|guess| guess.sql_type().to_owned())).collect())
}

/// In small letters, as SQL has names without quotes; where two would become one, as they are.
fn folded(names: Vec<String>) -> Vec<String> {
    let small: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let is_alone = |name: &String| small.iter().filter(|other| *other == name).count() == 1;
    names.into_iter().zip(&small).map(|(name, small)| if is_alone(small) { small.clone() } else { name }).collect()
}

type Row = Vec<Option<Vec<u8>>>;

/// The first rows, the header among them.
fn sample(source: &Source, options: &CopyOptions, server_version: u32) -> Result<Vec<Row>> {
    let cutter = Cutter {
        file: 0,
        name: &source.name,
        options,
        server_version,
        header: false,
        limits: Limits { rows: 1, bytes: u64::MAX },
        block_bytes: BLOCK_BYTES,
        done: &[],
        part: None,
    };
    let (mut rows, mut failure) = (Vec::new(), None);
    let mut input = input::open(source, Arc::new(Counters::new()))?;
    cutter.run(&mut *input, &mut |piece| {
        let line = piece.blocks.concat();
        let end = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
        match copyfmt::fields_of(&line[..end], options) {
            Ok(fields) => rows.push(fields),
            Err(error) => failure = Some(crate::files::lines::locate(error, &source.name, piece.span.lines_before + 1)),
        }
        failure.is_none() && rows.len() < SAMPLE_ROWS && piece.end < SAMPLE_BYTES
    })?;
    failure.map_or(Ok(rows), Err)
}

/// Which kinds of values there were.
#[derive(Clone, Copy, Debug, Default)]
struct Guess {
    boolean: bool,
    integer: bool,
    decimal: bool,
    exponent: bool,
    date: bool,
    timestamp: bool,
    timestamptz: bool,
    other: bool,
}

impl Guess {
    fn add(&mut self, value: Option<&[u8]>) {
        let Some(value) = value else { return };
        let kind = match std::str::from_utf8(value) {
            Ok(text) if is_boolean(text) => &mut self.boolean,
            Ok(text) if text.parse::<i64>().is_ok() && is_plain_number(text) => &mut self.integer,
            Ok(text) if is_plain_number(text) => &mut self.decimal,
            Ok(text) if is_exponential(text) => &mut self.exponent,
            Ok(text) => match point_in_time(text) {
                Some(Point::Date) => &mut self.date,
                Some(Point::Local) => &mut self.timestamp,
                Some(Point::Zoned) => &mut self.timestamptz,
                None => &mut self.other,
            },
            Err(_) => &mut self.other,
        };
        *kind = true;
    }

    fn sql_type(&self) -> &'static str {
        let Self { boolean, integer, decimal, exponent, date, timestamp, timestamptz, other } = *self;
        let is_number = integer || decimal || exponent;
        let is_time = date || timestamp || timestamptz;
        match () {
            () if other || u8::from(boolean) + u8::from(is_number) + u8::from(is_time) != 1 => "text",
            () if boolean => "boolean",
            () if exponent => "double precision",
            () if decimal => "numeric",
            () if integer => "bigint",
            () if timestamptz => "timestamptz",
            () if timestamp => "timestamp",
            () => "date",
        }
    }
}

fn is_boolean(text: &str) -> bool {
    ["t", "f", "true", "false"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Digits with at most one point and a sign. Zeros in front are those of a code, and would be lost.
fn is_plain_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    all_digits(whole) && all_digits(fraction) && (whole == "0" || !whole.starts_with('0'))
}

fn is_exponential(text: &str) -> bool {
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else { return false };
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    // What a double cannot hold is not one.
    let is_held = text.parse::<f64>().is_ok_and(f64::is_finite);
    is_plain_number(mantissa) && exponent.len() <= 3 && exponent.bytes().all(|byte| byte.is_ascii_digit()) && is_held
}

enum Point {
    Date,
    Local,
    Zoned,
}

/// `2020-01-31`, `2020-01-31 23:59[:59[.9]]`, the same with a `T`, and with a zone: `Z`, `+02`, `-03:30`.
fn point_in_time(text: &str) -> Option<Point> {
    let (date, rest) = text.split_at_checked(10)?;
    if !is_date(date) {
        return None;
    }
    if rest.is_empty() {
        return Some(Point::Date);
    }
    let rest = rest.strip_prefix([' ', 'T'])?;
    let at = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (time, zone) = rest.split_at(at);
    let is_zone = |zone: &str| zone == "Z" || is_clock(&zone[1..], 1, 15);
    match zone {
        _ if !is_clock(time, 2, 23) => None,
        "" => Some(Point::Local),
        zone if is_zone(zone) => Some(Point::Zoned),
        _ => None,
    }
}

fn is_date(text: &str) -> bool {
    let parts: Vec<Option<u32>> = text.split('-').map(number).collect();
    let [Some(year), Some(month), Some(day)] = parts[..] else { return false };
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    year > 0 && (1..=days).contains(&day) && text.as_bytes()[4] == b'-' && text.as_bytes()[7] == b'-'
}

/// `hh[:mm[:ss[.fff]]]` with so many parts at least.
fn is_clock(text: &str, parts_min: usize, hour_max: u32) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let parts: Vec<Option<u32>> = whole.split(':').map(|part| number(part).filter(|_| part.len() == 2)).collect();
    let maxima = [hour_max, 59, 59];
    let fits = parts.len() <= 3 && parts.iter().zip(maxima).all(|(part, max)| part.is_some_and(|part| part <= max));
    fits && parts.len() >= parts_min && number(fraction).is_some() && (fraction == "0" || parts.len() == 3)
}

fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_small_letters_would_make_one_stay_as_they_are() {
        let names = ["Id", "b", "B", "a Blank"].map(str::to_owned).to_vec();
        assert_eq!(folded(names), ["id", "b", "B", "a blank"]);
    }

    #[test]
    fn the_narrowest_type_that_all_values_have() {
        let cases: [(&[&str], &str); 20] = [
            (&[], "text"),
            (&["1", "-9223372036854775808"], "bigint"),
            (&["1", "9223372036854775808"], "numeric"),
            (&["1", "0.50"], "numeric"),
            (&["1.5", "1e5"], "double precision"),
            (&["1e999"], "text"),
            (&["01234"], "text"),
            (&["1", ""], "text"),
            (&["true", "F"], "boolean"),
            (&["t", "1"], "text"),
            (&["2020-02-29"], "date"),
            (&["2021-02-29"], "text"),
            (&["2020-02-29", "2020-02-29 23:59"], "timestamp"),
            (&["2020-02-29T23:59:59.123"], "timestamp"),
            (&["2020-02-29 23:59:59Z", "2020-02-29 23:59"], "timestamptz"),
            (&["2020-02-29 23:59:59.5-03:30"], "timestamptz"),
            (&["2020-02-29 24:59:59"], "text"),
            (&["2020-02-29 1"], "text"),
            (&["20200229"], "bigint"),
            (&["2020-02-29", "1"], "text"),
        ];
        for (values, expected) in cases {
            let mut guess = Guess::default();
            guess.add(None);
            values.iter().for_each(|value| guess.add(Some(value.as_bytes())));
            assert_eq!(guess.sql_type(), expected, "{values:?}");
        }
    }
}
