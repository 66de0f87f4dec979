//! Are the rows that have come those that have gone? Count and sum of hashes, table by table.
//!
//! The old node sends the hash of each row that it deletes along with it. The new one hashes what it has stored.

use bytes::{Buf, Bytes, BytesMut};
use catalog::{Oid, Relation};
use pgerror::{PgError, Result, SqlState};
use pgproto::frontend;

use crate::growth::rows::{Format, Passed};
use crate::growth::slices::{Moving, Place};
use crate::session::Session;
use crate::shared::catalog_load::{Row, number, optional};

/// Hashes of a row as SQL. The second takes more than twice as long, and any type.
const RECORD_HASH: &str = "pg_catalog.hash_record_extended(loxo_row.*, 0)";
const TEXT_HASH: &str = "pg_catalog.hashtextextended((loxo_row.*)::pg_catalog.text, 0)";

/// A frame's tag and length.
const FRAME_HEADER_BYTES: usize = 5;
/// An int8 as a field of binary COPY: its length, and the value.
const HASH_FIELD_BYTES: usize = 12;

/// Takes the last field of each row of a COPY away, which is its hash, and adds it up.
pub(crate) struct Hashes {
    format: Format,
    is_begun: bool,
    sum: i128,
}

impl Hashes {
    pub(crate) fn new(format: Format) -> Self {
        Self { format, is_begun: false, sum: 0 }
    }

    pub(crate) fn sum(&self) -> i128 {
        self.sum
    }

    /// The same CopyData frames, one row each, without their hashes. 08P01 if the last field is none.
    pub(crate) fn take(&mut self, run: Bytes) -> Result<Bytes> {
        let mut out = BytesMut::with_capacity(run.len());
        let mut rest = &run[..];
        while !rest.is_empty() {
            let length = rest.get(1..FRAME_HEADER_BYTES).map(|mut length| length.get_u32() as usize + 1);
            let frame = length.and_then(|length| rest.get(..length));
            let frame = frame.ok_or_else(|| PgError::protocol("a run of CopyData ends amid a frame"))?;
            rest.advance(frame.len());
            let row = frame.get(FRAME_HEADER_BYTES..).unwrap_or_default();
            let done = match self.format {
                Format::Binary => self.take_binary(row, &mut out),
                Format::Text => self.take_text(row, &mut out),
            };
            done.ok_or_else(|| PgError::protocol("a row of COPY came without its hash"))?;
        }
        Ok(out.freeze())
    }

    fn take_binary(&mut self, row: &[u8], out: &mut BytesMut) -> Option<()> {
        let header = if self.is_begun { 0 } else { copyfmt::BINARY_HEADER.len() };
        self.is_begun = true;
        let (header, row) = row.split_at_checked(header)?;
        let (mut count, fields) = row.split_at_checked(2)?;
        let count = count.get_i16();
        // The end of all rows.
        if count == -1 && fields.is_empty() {
            frontend::copy_data_parts(out, &[header, row]);
            return Some(());
        }
        let (kept, mut hash) = fields.split_at_checked(fields.len().checked_sub(HASH_FIELD_BYTES)?)?;
        (hash.get_u32() == 8).then_some(())?;
        self.sum += i128::from(hash.get_i64());
        frontend::copy_data_parts(out, &[header, &count.checked_sub(1)?.to_be_bytes(), kept]);
        Some(())
    }

    fn take_text(&mut self, row: &[u8], out: &mut BytesMut) -> Option<()> {
        let line = row.strip_suffix(b"\n")?;
        let (kept, hash) = match line.iter().rposition(|byte| *byte == b'\t') {
            Some(tab) => (line.get(..tab)?, line.get(tab + 1..)?),
            None => (&[][..], line),
        };
        self.sum += i128::from(std::str::from_utf8(hash).ok()?.parse::<i64>().ok()?);
        frontend::copy_data_parts(out, &[kept, b"\n"]);
        Some(())
    }
}

/// Count and sum of the rows of each table that are in some buckets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sums(Vec<(u64, i128)>);

impl Sums {
    /// The answer to [`sums_sql`] about so many tables.
    pub(super) fn of(rows: &[Row], tables: usize) -> Result<Self> {
        let mut sums = vec![(0, 0); tables];
        for row in rows {
            let place = sums.get_mut(number::<usize>(row, 0)?).ok_or_else(|| PgError::internal("a sum of no table"))?;
            *place = (number(row, 1)?, sum_at(row, 2)?);
        }
        Ok(Self(sums))
    }

    /// These rows have come, and nothing else where it was looked for: `passed` is what has gone from each table. 55000: some rows are
    /// not there.
    pub(super) fn check(&self, passed: &[Passed], (tables, places): (&[Moving<'_>], &[Place])) -> Result<()> {
        for (((&(rows, sum), passed), moving), place) in self.0.iter().zip(passed).zip(tables).zip(places) {
            if rows < passed.rows && *place != Place::Anywhere {
                return Err(PgError::new(
                    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("rows of {} went into free space amid others, where an index finds them", moving.name),
                ));
            }
            if (rows, sum) != (passed.rows, passed.hashes) {
                return Err(came_out_changed(&moving.name, passed, (rows, sum)));
            }
        }
        Ok(())
    }
}

/// XX000 about rows of a table that are others now.
pub(super) fn came_out_changed(table: &str, passed: &Passed, (rows, sum): (u64, i128)) -> PgError {
    PgError::internal(format!(
        "rows of {table} came out changed: {} with sum {} have gone, {rows} with sum {sum} are there",
        passed.rows, passed.hashes
    ))
}

/// A sum of hashes, 0 of no rows.
pub(super) fn sum_at(row: &Row, column: usize) -> Result<i128> {
    let Some(sum) = optional(row, column)? else { return Ok(0) };
    sum.parse().map_err(|_| PgError::internal("a sum of hashes is no number"))
}

/// What asks a datanode for them; `hashes` are those of the tables' rows, which are in these places.
pub(super) fn sums_sql(tables: &[Moving<'_>], hashes: &[&str], places: &[Place], buckets: &[u16]) -> String {
    let ask = |(number, ((moving, hash), place)): (usize, ((&Moving<'_>, &&str), &Place))| {
        let (table, condition, place) = (&moving.name, moving.condition(buckets), place.condition());
        format!(
            "SELECT {number}, pg_catalog.count(*), pg_catalog.sum({hash}) FROM ONLY {table} AS loxo_row WHERE {condition}{place}"
        )
    };
    let asked: Vec<String> = tables.iter().zip(hashes).zip(places).enumerate().map(ask).collect();
    asked.join(" UNION ALL ")
}

impl Session {
    /// The hash of a row of each table as SQL, which calls it `loxo_row`.
    pub(super) async fn row_hashes(&mut self, tables: impl Iterator<Item = &Relation>) -> Result<Vec<&'static str>> {
        let tables: Vec<&Relation> = tables.collect();
        let hashable = self.with_hashes(&tables).await?;
        let hash = |table: &&Relation| if hashable.contains(&table.oid) { RECORD_HASH } else { TEXT_HASH };
        Ok(tables.iter().map(hash).collect())
    }

    /// Those of the tables all of whose columns are of types with a hash function of their own.
    async fn with_hashes(&mut self, tables: &[&Relation]) -> Result<Vec<Oid>> {
        let oids: Vec<String> = tables.iter().map(|table| table.oid.to_string()).collect();
        let sql = format!(
            "SELECT c.oid FROM pg_class AS c WHERE c.oid = ANY ('{{{}}}'::oid[]) AND NOT EXISTS ( \
                 SELECT FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND NOT EXISTS ( \
                     SELECT FROM pg_opclass AS o JOIN pg_am AS m ON m.oid = o.opcmethod AND m.amname = 'hash' \
                     JOIN pg_amproc AS p ON p.amprocfamily = o.opcfamily AND p.amproclefttype = o.opcintype AND p.amprocnum = 2 \
                     WHERE o.opcdefault AND o.opcintype = CASE a.atttypid WHEN 'varchar'::regtype THEN 'text'::regtype ELSE a.atttypid END))",
            oids.join(",")
        );
        let rows = self.rows_on(self.home, &planner::own_text(&sql)?).await?;
        rows.iter().map(|row| number(row, 0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(rows: &[&[u8]]) -> Bytes {
        let mut frames = BytesMut::new();
        rows.iter().for_each(|row| frontend::copy_data(&mut frames, row));
        frames.freeze()
    }

    #[test]
    fn a_hash_is_taken_out_of_binary_rows_and_added_up() {
        let hash = |hash: i64| [&[0, 0, 0, 8][..], &hash.to_be_bytes()].concat();
        let first = [&copyfmt::BINARY_HEADER[..], &[0, 2, 0, 0, 0, 1, b'a'], &hash(i64::MAX)].concat();
        let second = [&[0, 2, 255, 255, 255, 255][..], &hash(i64::MAX)].concat();
        let mut hashes = Hashes::new(Format::Binary);
        let kept = hashes.take(frames(&[&first, &second])).unwrap();
        let third = [&[0, 1][..], &hash(-3)].concat();
        let rest = hashes.take(frames(&[&third, &[255, 255]])).unwrap();
        let first = [&copyfmt::BINARY_HEADER[..], &[0, 1, 0, 0, 0, 1, b'a']].concat();
        assert_eq!(kept, frames(&[&first, &[0, 1, 255, 255, 255, 255]]));
        assert_eq!(rest, frames(&[&[0, 0], &[255, 255]]));
        assert_eq!(hashes.sum(), 2 * i128::from(i64::MAX) - 3);
    }

    #[test]
    fn a_hash_is_taken_out_of_rows_of_text() {
        let mut hashes = Hashes::new(Format::Text);
        let kept = hashes.take(frames(&[b"a\\tb\t\\N\t-5\n", b"7\n"])).unwrap();
        assert_eq!((kept, hashes.sum()), (frames(&[b"a\\tb\t\\N\n", b"\n"]), 2));
    }

    #[test]
    fn what_has_no_hash_is_refused() {
        let refused = |format, run: Bytes| Hashes::new(format).take(run).unwrap_err().code();
        let short = [&copyfmt::BINARY_HEADER[..], &[0, 1, 0, 0, 0, 1, b'a']].concat();
        assert_eq!(refused(Format::Binary, frames(&[&short])), SqlState::PROTOCOL_VIOLATION);
        assert_eq!(refused(Format::Binary, frames(&[b""])), SqlState::PROTOCOL_VIOLATION);
        assert_eq!(refused(Format::Text, frames(&[b"a\tb\n"])), SqlState::PROTOCOL_VIOLATION);
        let whole = frames(&[b"a\t1\n"]);
        assert_eq!(refused(Format::Text, whole.slice(..whole.len() - 1)), SqlState::PROTOCOL_VIOLATION);
    }
}
