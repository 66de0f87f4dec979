//! Rows that travel between nodes as text: in words that do not depend on the session's settings.
//!
//! Rows travel in binary where they can. A type of the user's may have no binary form that another node understands (an array
//! or a composite value has object ids in it), and then the row is text. As the user's settings would have it, that text could
//! be ambiguous or rounded: `DateStyle`, `IntervalStyle` and `extra_float_digits` decide. But what the statement computes
//! must still be computed under the user's settings (`d::text`). So the rows are made first, and only then, for their
//! output, are the settings changed, by the statement itself; afterwards they are put back:
//!
//! ```text
//! WITH loxo_rows AS MATERIALIZED (query), loxo_fixed AS MATERIALIZED (SELECT set_config(…) FROM (SELECT count(*) FROM loxo_rows))
//! SELECT loxo_rows.* FROM loxo_fixed, loxo_rows
//! ```
//!
//! Input needs nothing of the kind: these words mean the same under all settings.
//!
//! What the coordinator itself holds, in variables of a body it runs, is in these words too. It asks for such rows in binary then, and
//! has the home node print them.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use pgerror::{PgError, Result};
use pgproto::backend;

use crate::backend::call::{Call, Parameters};
use crate::backend::leased::LeasedConnection;
use crate::backend::request::{Event, frame_bodies};
use crate::block::Block;
use crate::engine::estimates::BYTES_AT_ONCE;
use crate::session::Session;

/// Settings and the values under which no value is ambiguous or rounded.
const FIXED: [(&str, &str); 4] =
    [("DateStyle", "ISO"), ("IntervalStyle", "iso_8601"), ("extra_float_digits", "3"), ("bytea_output", "hex")];

/// The query whose rows are to travel, in binary or as text. After one as text [`restore`] must follow.
pub(crate) fn travelling(sql: &str, binary: bool) -> Cow<'_, str> {
    match binary {
        true => Cow::Borrowed(sql),
        false => Cow::Owned(format!(
            "WITH loxo_rows AS MATERIALIZED ({sql}), loxo_fixed AS MATERIALIZED \
             ({} FROM (SELECT pg_catalog.count(*) FROM loxo_rows) loxo_all) \
             SELECT loxo_rows.* FROM loxo_fixed, loxo_rows",
            fix()
        )),
    }
}

/// Changes the settings for the output of the statements that follow in the transaction.
pub(crate) fn fix() -> String {
    let calls = FIXED.map(|(name, value)| {
        format!(
            "pg_catalog.set_config('loxo.kept_{name}', pg_catalog.current_setting('{name}'), true), \
             pg_catalog.set_config('{name}', '{value}', true)"
        )
    });
    format!("SELECT {}", calls.join(", "))
}

/// Puts the settings back.
pub(crate) fn restore() -> String {
    let calls = FIXED.map(|(name, _)| {
        format!(
            "pg_catalog.set_config('{name}', coalesce(nullif(pg_catalog.current_setting('loxo.kept_{name}', true), ''), \
             pg_catalog.current_setting('{name}')), true), pg_catalog.set_config('loxo.kept_{name}', '', true)"
        )
    });
    format!("SELECT {}", calls.join(", "))
}

/// Types whose text depends on none of these settings: numbers but for floating point, texts, uuid, bytea, json, addresses, and
/// arrays of the commonest.
const PLAIN: [u32; 40] = [
    16, 17, 18, 19, 20, 21, 23, 25, 26, 27, 114, 142, 650, 829, 869, 1042, 1043, 1083, 1560, 1562, 1700, 2278, 2950,
    3614, 3615, 3802, 1000, 1001, 1002, 1003, 1005, 1007, 1009, 1014, 1015, 1016, 1028, 1231, 2951, 3807,
];

impl Session {
    /// A number that stands for the settings of the session and its open block.
    pub fn settings_now(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let made = self.block.as_ref().map(Block::settings_made);
        (self.settings().fingerprint(), made).hash(&mut hasher);
        hasher.finish()
    }

    /// Is no text ambiguous or rounded under the session's settings, of whatever type?
    pub async fn prints_exactly(&mut self) -> Result<bool> {
        const ARE_PLAIN: &str = "SELECT pg_catalog.starts_with(pg_catalog.current_setting('DateStyle'), 'ISO') \
             AND pg_catalog.current_setting('extra_float_digits')::int OPERATOR(pg_catalog.>) 0";
        let settings = self.settings_now();
        if let Some((_, are_plain)) = self.plain_text.filter(|(under, _)| *under == settings) {
            return Ok(are_plain);
        }
        let rows = self.rows_on(self.home, ARE_PLAIN).await?;
        let are_plain = rows.first().and_then(|row| row.first()?.as_deref()) == Some(b"t");
        self.plain_text = Some((settings, are_plain));
        Ok(are_plain)
    }

    /// For values of these types that come as text from where the settings cannot be changed between computing and printing
    /// them: are they neither ambiguous nor rounded?
    pub async fn require_plain_text(&mut self, what: &str, types: impl IntoIterator<Item = u32>) -> Result<()> {
        match types.into_iter().all(|of| PLAIN.contains(&of)) || self.prints_exactly().await? {
            true => Ok(()),
            false => Err(not_exact(what)),
        }
    }

    /// Rows that have come in binary, as text in those words: the home node prints what is not printed here.
    pub async fn exact_texts(&mut self, what: &str, types: &[NamedType], rows: Vec<Row>) -> Result<Vec<Row>> {
        let far: Vec<usize> = (0..types.len()).filter(|at| !is_printed_here(types[*at].oid)).collect();
        let far_types: Vec<NamedType> = far.iter().map(|at| types[*at].clone()).collect();
        let values = rows.iter().map(|row| far.iter().map(|at| row[*at].clone()).collect());
        let printed = match far.is_empty() {
            true => Vec::new(),
            false => {
                self.rows_on(self.home, &fix()).await?;
                let printed = self.print(&far_types, 1, values.collect()).await;
                let printed = printed.map_err(|error| match is_about_values(&error) {
                    true => not_exact(what).detail(error.message()),
                    false => error,
                })?;
                self.rows_on(self.home, &restore()).await?;
                printed
            }
        };
        let mut printed = printed.into_iter();
        let exact = |mut row: Row| {
            let mut texts = printed.next().unwrap_or_default().into_iter();
            for (at, value) in row.iter_mut().enumerate() {
                match is_printed_here(types[at].oid) {
                    true => *value = value.take().map(|value| printed_here(types[at].oid, value)),
                    false => *value = texts.next().flatten(),
                }
            }
            row
        };
        Ok(rows.into_iter().map(exact).collect())
    }

    /// A value in those words as the session's settings print it.
    pub async fn as_set(&mut self, of: NamedType, value: Bytes) -> Result<Bytes> {
        if PLAIN.contains(&of.oid) {
            return Ok(value);
        }
        let printed = self.print(&[of], 0, vec![vec![Some(value)]]).await?;
        Ok(printed.into_iter().flatten().flatten().next().unwrap_or_default())
    }

    /// The home node's texts of values in this format.
    async fn print(&mut self, types: &[NamedType], format: i16, rows: Vec<Row>) -> Result<Vec<Row>> {
        let value = |(at, of): (usize, &NamedType)| match &of.name {
            Some(name) => format!("${}::{name}", at + 1),
            None => format!("${}", at + 1),
        };
        let sql = format!("SELECT {}", types.iter().enumerate().map(value).collect::<Vec<_>>().join(", "));
        let oids: Vec<u32> = types.iter().map(|of| of.oid).collect();
        self.acquire_to_ask(self.home).await?;
        let leased = self.links.link(self.home)?;
        let (mut printed, mut failure) = (Vec::with_capacity(rows.len()), None);
        let mut rows = rows.into_iter();
        while rows.len() > 0 {
            let (mut asked, mut bytes) = (0, 0);
            while let Some(row) = if bytes < BYTES_AT_ONCE { rows.next() } else { None } {
                bytes += sql.len() + row.iter().flatten().map(Bytes::len).sum::<usize>();
                asked += 1;
                let parameters = Parameters { types: oids.clone(), formats: vec![format], values: row };
                let call = Call { parameters: Some(Arc::new(parameters)), one_off: true, ..Call::default() };
                leased.start(&sql, &call, 0);
            }
            leased.flush().await?;
            for _ in 0..asked {
                match leased.printed().await {
                    Ok(row) => printed.extend(row),
                    Err(error) => drop(failure.get_or_insert(error)),
                }
            }
        }
        failure.map_or(Ok(printed), Err)
    }
}

impl LeasedConnection {
    /// The row that a question of [`Session::print`] is answered by.
    async fn printed(&mut self) -> Result<Option<Row>> {
        let mut row = None;
        loop {
            match self.next().await? {
                Event::Done => return Ok(row),
                Event::Rows(run, _) => {
                    if let Some(body) = frame_bodies(&run).next() {
                        row = Some(backend::decode_data_row(run.slice_ref(body))?);
                    }
                }
                _ => {}
            }
        }
    }
}

/// A value whose type means something else on the home node, or that nobody can read in binary. A cancel, say, is none.
fn is_about_values(error: &PgError) -> bool {
    ["22", "42", "0A"].iter().any(|class| error.code().as_str().starts_with(class))
}

/// A type on the home node.
#[derive(Clone, Debug)]
pub struct NamedType {
    /// Its id.
    pub oid: u32,
    /// As SQL, of a type of the user's.
    pub name: Option<String>,
}

/// Values of a row.
type Row = Vec<Option<Bytes>>;

fn not_exact(what: &str) -> PgError {
    PgError::unsupported(format!("{what} under these settings"))
        .detail("Dates, times, floating point numbers and composite values would travel in words that are ambiguous or rounded.")
        .hint("Set DateStyle to ISO and extra_float_digits to 1 or more.")
}

const BOOL: u32 = 16;
const INT2: u32 = 21;
const INT4: u32 = 23;
const INT8: u32 = 20;
/// Types whose binary form is their text: name, text, json, xml, unknown, bpchar, varchar, cstring, void.
const TEXTS: [u32; 9] = [19, 25, 114, 142, 705, 1042, 1043, 2275, 2278];

fn is_printed_here(of: u32) -> bool {
    matches!(of, BOOL | INT2 | INT4 | INT8) || TEXTS.contains(&of)
}

/// A value in binary as text; what has another length than its type is left to the reader.
fn printed_here(of: u32, value: Bytes) -> Bytes {
    let number = match (of, &value[..]) {
        (BOOL, [value]) => return Bytes::from_static(if *value == 0 { b"f" } else { b"t" }),
        (INT2, [a, b]) => i64::from(i16::from_be_bytes([*a, *b])),
        (INT4, [a, b, c, d]) => i64::from(i32::from_be_bytes([*a, *b, *c, *d])),
        (INT8, eight) if eight.len() == 8 => eight.iter().fold(0, |sum, byte| sum << 8 | i64::from(*byte)),
        _ => return value,
    };
    Bytes::from(number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed() {
        let printed = |of, value: &[u8]| printed_here(of, Bytes::copy_from_slice(value));
        assert_eq!(printed(INT2, &(-2i16).to_be_bytes()), "-2");
        assert_eq!(printed(INT4, &i32::MIN.to_be_bytes()), "-2147483648");
        assert_eq!(printed(INT8, &i64::MIN.to_be_bytes()), "-9223372036854775808");
        assert_eq!((printed(BOOL, &[1]), printed(BOOL, &[0])), (Bytes::from("t"), Bytes::from("f")));
    }

    #[test]
    fn only_text_is_wrapped() {
        assert_eq!(travelling("SELECT 1", true), "SELECT 1");
        assert!(travelling("SELECT 1", false).starts_with("WITH loxo_rows AS MATERIALIZED (SELECT 1), "));
    }
}
