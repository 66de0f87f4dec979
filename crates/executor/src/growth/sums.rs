//! Are the rows that have come those that have gone? Count and sum of hashes, table by table.

use catalog::{Oid, Relation};
use pgerror::{PgError, Result, SqlState};

use crate::growth::rows::Passed;
use crate::growth::slices::{Moving, Place};
use crate::session::Session;
use crate::shared::catalog_load::{Row, number, optional};

/// Hashes of a row as SQL. The second takes more than twice as long, and any type.
const RECORD_HASH: &str = "pg_catalog.hash_record_extended(loxo_row, 0)";
const TEXT_HASH: &str = "pg_catalog.hashtextextended(loxo_row::pg_catalog.text, 0)";

/// Counts and sums of each table's rows in some buckets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sums(Vec<(u64, String)>);

impl Sums {
    /// The answer to [`sums_sql`] about so many tables.
    pub(super) fn of(rows: &[Row], tables: usize) -> Result<Self> {
        let mut sums = vec![(0, String::new()); tables];
        for row in rows {
            let place = sums.get_mut(number::<usize>(row, 0)?).ok_or_else(|| PgError::internal("a sum of no table"))?;
            *place = (number(row, 1)?, optional(row, 2)?.unwrap_or_default().to_owned());
        }
        Ok(Self(sums))
    }

    /// Everything has come, and nothing else where it was looked for; `passed` is what each table's COPY has carried. 55000: some rows
    /// are not there.
    pub(super) fn check(
        &self,
        after: &Self,
        passed: &[Passed],
        (tables, places): (&[Moving<'_>], &[Place]),
    ) -> Result<()> {
        for ((((before, after), passed), moving), place) in
            self.0.iter().zip(&after.0).zip(passed).zip(tables).zip(places)
        {
            if after.0 < passed.rows && *place != Place::Anywhere {
                return Err(PgError::new(
                    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("rows of {} went into free space amid others, where an index finds them", moving.name),
                ));
            }
            if before != after || before.0 != passed.rows {
                return Err(PgError::internal(format!(
                    "rows of {} came out changed: {} with sum {} before, {} passed on, {} with sum {} after",
                    moving.name, before.0, before.1, passed.rows, after.0, after.1
                )));
            }
        }
        Ok(())
    }
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
