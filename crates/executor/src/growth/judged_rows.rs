//! Which rows of one node another one has too: for [`repair`](crate::growth::repair).
//!
//! ```text
//!  from   COPY (SELECT ctid, … WHERE they belong on the other node) ──▶ loxo.repair_N on the other node
//!  to     same: the whole row is there, as text. others: a row with its key is there. The rest: missing
//!  to     COPY (SELECT ctid, judgement) ──▶ loxo.repair_N on the first node, where it says what becomes of its rows
//! ```
//!
//! The tables are made and dropped in the transaction, so nobody else sees them. They are no temporary ones, since a transaction that has
//! used such cannot be prepared.
//!
//! Among equal rows as many as the other node has are taken for the same. Keys are those of all unique indexes, with their
//! operators, collations, expressions and predicates, whether they are deferrable or not. What an exclusion constraint forbids the
//! move itself finds, and fails.

use catalog::{NodeId, Relation, quote_identifier, quote_literal};
use pgerror::Result;

use crate::growth::rows::Travel;
use crate::session::Session;
use crate::shared::catalog_load::{Row, number, text};

const AT: &str = "\"loxo:at\"";
const JUDGEMENT: &str = "\"loxo:judgement\"";

/// How many of the rows there are of each kind. Those of [`SAME`] are counted when they are deleted.
pub(super) struct Judged {
    pub(super) missing: i64,
    pub(super) others: i64,
}

/// The other node has no such row.
pub(super) const MISSING: &str = "missing";
/// It has the same one.
pub(super) const SAME: &str = "same";
/// It has one with the same key.
const OTHERS: &str = "others";

/// A condition on the table, on the node of the rows that were judged.
pub(super) fn judged_as(table: &Relation, judgement: &str) -> String {
    format!("ctid IN (SELECT {AT} FROM {} WHERE {JUDGEMENT} = '{judgement}')", stage(table))
}

/// Where its rows are judged. Two tables may be repaired at the same time.
fn stage(table: &Relation) -> String {
    format!("loxo.repair_{}", table.oid)
}

/// A row's values, but for computed ones, as one text.
pub(super) fn whole_row(table: &Relation) -> String {
    format!("ROW({})::text COLLATE \"C\"", Travel::of(table).columns)
}

/// A key of a unique index.
struct Key {
    /// Expression, with its collation, and operator of each part.
    parts: Vec<(String, String)>,
    predicate: String,
    nulls_are_equal: bool,
}

impl Session {
    /// Looks at the rows of `from` for which the condition is true. [`Session::forget_judged`] must follow.
    pub(super) async fn judge(
        &mut self,
        table: &Relation,
        (from, to): (NodeId, NodeId),
        condition: &str,
    ) -> Result<Judged> {
        let (name, stage) = (table.qualified_name(), stage(table));
        let make =
            format!("CREATE UNLOGGED TABLE {stage} (LIKE {name} INCLUDING GENERATED, {AT} tid, {JUDGEMENT} text)");
        self.run_on(to, &make).await?;
        self.run_on(from, &format!("CREATE UNLOGGED TABLE {stage} ({AT} tid, {JUDGEMENT} text)")).await?;
        let mut travel = Travel::of(table);
        let read = format!("(SELECT ctid{} FROM ONLY {name} WHERE {condition})", with_comma(&travel.columns));
        travel.columns = format!("{AT}{}", with_comma(&travel.columns));
        self.pass_rows((from, &travel.copy_out(&read)), (to, &travel.copy_in(&stage))).await?;

        self.run_on(to, &mark_same(table)).await?;
        for key in self.keys_on(to, &name).await? {
            self.run_on(to, &mark_others(table, &key)).await?;
        }
        self.run_on(to, &format!("UPDATE {stage} SET {JUDGEMENT} = '{MISSING}' WHERE {JUDGEMENT} IS NULL")).await?;
        let out = format!("COPY {stage} ({AT}, {JUDGEMENT}) TO STDOUT (FORMAT binary)");
        let into = format!("COPY {stage} ({AT}, {JUDGEMENT}) FROM STDIN (FORMAT binary)");
        self.pass_rows((to, &out), (from, &into)).await?;
        self.run_on(to, &format!("DROP TABLE {stage}")).await?;

        let count = |judgement: &str| format!("count(*) FILTER (WHERE {JUDGEMENT} = '{judgement}')");
        let sql = format!("SELECT {}, {} FROM {stage}", count(MISSING), count(OTHERS));
        let counts = self.rows_on(from, &sql).await?;
        let of = |column| counts.first().map(|row| number(row, column)).transpose().map(Option::unwrap_or_default);
        Ok(Judged { missing: of(0)?, others: of(1)? })
    }

    pub(super) async fn forget_judged(&mut self, table: &Relation, from: NodeId) -> Result<()> {
        self.run_on(from, &format!("DROP TABLE {}", stage(table))).await.map(drop)
    }

    /// Rows of an index that is also an exclusion constraint are compared by other operators.
    async fn keys_on(&mut self, node: NodeId, table: &str) -> Result<Vec<Key>> {
        let sql = format!(
            "SELECT i.indexrelid, pg_get_indexdef(i.indexrelid, k.nth, true) || coalesce((SELECT format(' COLLATE %I.%I', n.nspname, c.collname) \
                   FROM pg_collation AS c JOIN pg_namespace AS n ON n.oid = c.collnamespace WHERE c.oid = i.indcollation[k.nth - 1]), ''), \
                 format('OPERATOR(%I.%s)', n.nspname, o.oprname), coalesce(pg_get_expr(i.indpred, i.indrelid), 'true'), \
                 coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::bool, false) \
             FROM pg_index AS i CROSS JOIN LATERAL generate_series(1, i.indnkeyatts) AS k (nth) \
             JOIN pg_opclass AS l ON l.oid = i.indclass[k.nth - 1] \
             JOIN pg_amop AS a ON a.amopfamily = l.opcfamily AND a.amoplefttype = l.opcintype AND a.amoprighttype = l.opcintype \
                 AND a.amopstrategy = 3 AND a.amoppurpose = 's' \
             JOIN pg_operator AS o ON o.oid = a.amopopr JOIN pg_namespace AS n ON n.oid = o.oprnamespace \
             JOIN pg_am AS m ON m.oid = l.opcmethod \
             WHERE i.indrelid = {}::regclass AND i.indisunique AND i.indisvalid AND NOT i.indisexclusion AND m.amname = 'btree' \
             ORDER BY i.indexrelid, k.nth",
            quote_literal(table)
        );
        let mut keys: Vec<(u32, Key)> = Vec::new();
        for row in self.rows_on(node, &sql).await? {
            let index = number(&row, 0)?;
            if keys.last().is_none_or(|(last, _)| *last != index) {
                keys.push((index, Key::without_parts(&row)?));
            }
            if let Some((_, key)) = keys.last_mut() {
                key.parts.push((text(&row, 1)?.to_owned(), text(&row, 2)?.to_owned()));
            }
        }
        Ok(keys.into_iter().map(|(_, key)| key).collect())
    }
}

impl Key {
    fn without_parts(row: &Row) -> Result<Self> {
        Ok(Self { parts: Vec::new(), predicate: text(row, 3)?.to_owned(), nulls_are_equal: text(row, 4)? == "t" })
    }

    /// The query of a table, or of what stands in for it, with its parts as columns.
    fn read(&self, what: &str, more: &str) -> String {
        let parts = self.parts.iter().enumerate().map(|(nth, (expression, _))| format!("({expression}) AS k{nth}"));
        let parts: Vec<String> = parts.collect();
        format!("(SELECT {}{more} FROM {what} WHERE {})", parts.join(", "), self.predicate)
    }

    fn equal(&self) -> String {
        let part = |(nth, (_, operator)): (usize, &(String, String))| {
            let equal = format!("mine.k{nth} {operator} there.k{nth}");
            match self.nulls_are_equal {
                true => format!("({equal} OR mine.k{nth} IS NULL AND there.k{nth} IS NULL)"),
                false => equal,
            }
        };
        self.parts.iter().enumerate().map(part).collect::<Vec<_>>().join(" AND ")
    }
}

fn with_comma(columns: &str) -> String {
    if columns.is_empty() { String::new() } else { format!(", {columns}") }
}

fn mark_same(table: &Relation) -> String {
    let (name, whole, stage) = (table.qualified_name(), whole_row(table), stage(table));
    format!(
        "WITH mine AS MATERIALIZED (SELECT {AT} AS at, {whole} AS whole, row_number() OVER (PARTITION BY {whole}) AS nth FROM {stage}), \
              there AS MATERIALIZED (SELECT {whole} AS whole FROM ONLY {name} \
                  WHERE hashtextextended({whole}, 0) IN (SELECT hashtextextended(whole, 0) FROM mine)), \
              counted AS (SELECT whole, count(*) AS times FROM there GROUP BY whole) \
         UPDATE {stage} SET {JUDGEMENT} = '{SAME}' WHERE {AT} IN \
             (SELECT mine.at FROM mine JOIN counted ON counted.whole = mine.whole WHERE mine.nth <= counted.times)"
    )
}

/// Expressions of an index may name the table.
fn mark_others(table: &Relation, key: &Key) -> String {
    let (alias, stage) = (quote_identifier(&table.name), stage(table));
    let mine = key.read(&format!("{stage} AS {alias}"), &format!(", {AT} AS at, {JUDGEMENT} AS judgement"));
    let there = key.read(&format!("ONLY {} AS {alias}", table.qualified_name()), "");
    format!(
        "UPDATE {stage} SET {JUDGEMENT} = '{OTHERS}' WHERE {AT} IN \
             (SELECT mine.at FROM {mine} AS mine JOIN {there} AS there ON {} WHERE mine.judgement IS NULL)",
        key.equal()
    )
}
