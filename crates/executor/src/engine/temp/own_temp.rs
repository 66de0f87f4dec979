//! Temp tables of ours, in backends that have the user's rights, and not always the right to make temp tables.
//!
//! What a coordinator does by way of a temp table, one PostgreSQL does without. So a role that may make none has an empty one made for
//! it, by a function that proves a coordinator calls it, and owns it; PostgreSQL asks for that right wherever something is made in
//! `pg_temp`, and nowhere else. All the rest is done with the user's own rights:
//!
//! ```text
//! may make temp tables                          may not
//!
//! CREATE TEMP TABLE t AS fragment WITH DATA     SELECT types and collations of the fragment's columns
//!                                               loxo.make_temp(…), loxo.index_temp(…)
//!                                               INSERT INTO pg_temp.t fragment
//! COPY pg_temp.t FROM STDIN                     the same
//! ALTER TABLE t ADD PRIMARY KEY (…); ANALYZE    ANALYZE
//!
//! CREATE TEMP TABLE t (a type DEFAULT …)        loxo.make_temp(…)
//!                                               ALTER TABLE pg_temp.t ADD COLUMN a type DEFAULT …
//! ```
//!
//! Where every role has the right, as PostgreSQL gives it, and nobody has default privileges for tables, nobody is asked: the catalog
//! says so.

use bytes::Bytes;
use catalog::{Oid, quote_identifier, quote_literal};
use futures_util::future::join_all;
use pgerror::{PgError, Result, SqlState};
use pgproto::backend::Field;
use planner::Index;

use crate::backend::call::Call;
use crate::backend::leased::LeasedConnection;
use crate::backend::own_calls::OwnCall;
use crate::backend::request::Event;
use crate::backend::request::frame_bodies;
use crate::backend::slot::{Slot, slots};
use crate::backend::type_ids::is_storable;
use crate::block::Mode;
use crate::session::Session;
use crate::session::temp_names::MAY_MAKE_TEMPORARY;

/// A temp table of what a query gives.
pub(crate) struct TempAs<'a> {
    /// Its bare name.
    pub(crate) table: &'a str,
    /// Its columns' names; none if they are those of the query.
    pub(crate) columns: Vec<String>,
    /// The query's columns.
    pub(crate) fields: &'a [Field],
    pub(crate) sql: &'a str,
    pub(crate) indexes: &'a [Index],
    /// Rows of other nodes come into it.
    pub(crate) receives: bool,
}

/// What a table needs to know of a column of a query.
struct Shape {
    type_oid: u32,
    modifier: i32,
    /// 0 if its type has none.
    collation: u32,
}

impl TempAs<'_> {
    fn create_sql(&self, with_rows: bool) -> String {
        let names: Vec<String> = self.columns.iter().map(|name| quote_identifier(name)).collect();
        let list = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
        let (table, no) = (quote_identifier(self.table), if with_rows { "" } else { "NO " });
        format!("CREATE TEMP TABLE {table}{list} ON COMMIT DROP AS {} WITH {no}DATA", self.sql)
    }

    /// As SQL values.
    fn names(&self) -> Vec<String> {
        match self.columns.is_empty() {
            true => {
                self.fields.iter().map(|f| value(&f.name, "pg_catalog.current_setting('client_encoding')")).collect()
            }
            false => self.columns.iter().map(|name| value(name.as_bytes(), "'UTF8'")).collect(),
        }
    }

    /// For each column its type, as a domain if it is one, and its collation. The join gives one row and runs
    /// nothing of the query; without OFFSET a cast to a domain would be made of the missing row.
    fn shape_sql(&self) -> String {
        let column = |number: usize| {
            format!(
                "(SELECT pg_catalog.concat_ws(' ', t.oid, t.typtype, CASE WHEN t.typcollation OPERATOR(pg_catalog.=) 0 \
                 THEN '0' ELSE coalesce(pg_catalog.pg_collation_for(s.c{number})::pg_catalog.regcollation::pg_catalog.oid\
                 ::pg_catalog.text, '-') END, pg_catalog.format_type(t.oid, NULL)) \
                 FROM pg_catalog.pg_type t WHERE t.oid OPERATOR(pg_catalog.=) pg_catalog.pg_typeof(s.c{number})::pg_catalog.oid)"
            )
        };
        let numbers = 1..=self.fields.len();
        let names: Vec<String> = numbers.clone().map(|number| format!("c{number}")).collect();
        let columns: Vec<String> = numbers.map(column).collect();
        format!(
            "SELECT {} FROM (SELECT 1) one LEFT JOIN (SELECT * FROM ({}) query OFFSET 0) s ({}) ON false",
            columns.join(", "),
            self.sql,
            names.join(", ")
        )
    }

    /// From the answer to [`TempAs::shape_sql`].
    fn shapes(&self, row: &[Option<Bytes>]) -> Result<Vec<Shape>> {
        if row.len() != self.fields.len() {
            return Err(not_told());
        }
        let shape = |(value, field): (&Option<Bytes>, &Field)| {
            let told = String::from_utf8_lossy(value.as_deref().unwrap_or_default()).into_owned();
            let mut words = told.splitn(4, ' ');
            let mut word = || words.next().ok_or_else(not_told);
            let (oid, kind, collation, name) = (word()?, word()?, word()?, word()?);
            if collation == "-" {
                return Err(no_collation(&String::from_utf8_lossy(&field.name), name));
            }
            // PostgreSQL describes a domain as the type underneath.
            let modifier = if kind == "d" { -1 } else { field.type_modifier };
            let number = |word: &str| word.parse().map_err(|_| not_told());
            Ok(Shape { type_oid: number(oid)?, modifier, collation: number(collation)? })
        };
        row.iter().zip(self.fields).map(shape).collect()
    }

    fn make_call(&self, shapes: &[Shape]) -> OwnCall {
        let list = |values: &mut dyn Iterator<Item = String>| values.collect::<Vec<_>>().join(", ");
        make_call(
            self.table,
            &self.names().join(", "),
            &list(&mut shapes.iter().map(|shape| shape.type_oid.to_string())),
            &list(&mut shapes.iter().map(|shape| shape.modifier.to_string())),
            &list(&mut shapes.iter().map(|shape| shape.collation.to_string())),
        )
    }
}

fn not_told() -> PgError {
    PgError::internal("a column's type was not told")
}

/// A text in some encoding, which need not be the one that the session speaks.
fn value(bytes: &[u8], encoding: &str) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => quote_literal(text),
        _ => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("pg_catalog.convert_from(pg_catalog.decode('{digits}', 'hex'), {encoding})")
        }
    }
}

/// As of `CREATE TABLE AS`.
fn no_collation(column: &str, type_name: &str) -> PgError {
    let message = format!("no collation was derived for column \"{column}\" with collatable type {type_name}");
    PgError::new(SqlState::INDETERMINATE_COLLATION, message)
        .hint("Use the COLLATE clause to set the collation explicitly.")
}

fn make_call(table: &str, names: &str, types: &str, modifiers: &str, collations: &str) -> OwnCall {
    let arguments = format!(
        "{}, ARRAY[{names}]::pg_catalog.name[], ARRAY[{types}]::pg_catalog.oid[], ARRAY[{modifiers}]::pg_catalog.int4[], \
         ARRAY[{collations}]::pg_catalog.oid[]",
        value(table.as_bytes(), "'UTF8'")
    );
    OwnCall::new("make_temp", arguments)
}

fn index_call(table: &str, index: &Index) -> OwnCall {
    let columns: Vec<String> = index.columns.iter().map(|name| value(name.as_bytes(), "'UTF8'")).collect();
    let arguments = format!(
        "{}, ARRAY[{}]::pg_catalog.name[], {}",
        value(table.as_bytes(), "'UTF8'"),
        columns.join(", "),
        index.is_key
    );
    OwnCall::new("index_temp", arguments)
}

impl Session {
    /// May the session's role make temp tables? `node` is asked if need be.
    pub(crate) async fn makes_temp(&mut self, slot: impl Into<Slot>) -> Result<bool> {
        if !self.withholds_temp {
            return Ok(true);
        }
        let key = (self.schema_version, self.settings_now());
        if let Some((_, makes)) = self.makes_temp.filter(|(under, _)| *under == key) {
            return Ok(makes);
        }
        let rows = self.rows_on(slot, MAY_MAKE_TEMPORARY).await?;
        let makes = rows.first().and_then(|row| row.first()?.as_deref()) == Some(b"t");
        self.note_makes_temp(makes);
        Ok(makes)
    }

    /// Has somebody asked, and the answer was no?
    pub(crate) fn known_to_make_no_temp(&self) -> bool {
        let key = (self.schema_version, self.settings_now());
        self.withholds_temp && self.makes_temp == Some((key, false))
    }

    pub(crate) fn note_makes_temp(&mut self, makes: bool) {
        self.makes_temp = Some(((self.schema_version, self.settings_now()), makes));
    }

    /// Makes an empty temp table of these columns, as CREATE TABLE has them.
    pub(crate) async fn create_temp(
        &mut self,
        node: impl Into<Slot>,
        table: &str,
        definitions: &[String],
    ) -> Result<()> {
        let node = node.into();
        let name = quote_identifier(table);
        if self.makes_temp(node).await? {
            return self.run_on(node, &planner::create_temp_table(&name, definitions)).await.map(drop);
        }
        self.call_on(node, &[make_call(table, "", "", "", "")]).await?;
        if definitions.is_empty() {
            return Ok(());
        }
        let columns: Vec<String> = definitions.iter().map(|column| format!("ADD COLUMN {column}")).collect();
        self.run_on(node, &format!("ALTER TABLE pg_temp.{name} {}", columns.join(", "))).await.map(drop)
    }

    /// Makes an empty temp table of these columns on the home node.
    pub async fn create_temp_at_home(&mut self, table: &str, definitions: &[String]) -> Result<()> {
        self.create_temp(self.home, table, definitions).await
    }

    /// Makes an empty temp table on the home node that is defined by another relation; `shape` is a query with its columns.
    pub async fn create_temp_like(&mut self, table: &str, definitions: &[String], shape: &str) -> Result<()> {
        let home = self.home;
        if self.makes_temp(home).await? {
            return self.create_temp(home, table, definitions).await;
        }
        let fields = self.describe_on(home, shape).await?.unwrap_or_default();
        let made = TempAs { table, columns: Vec::new(), fields: &fields, sql: shape, indexes: &[], receives: true };
        self.create_temp_as(home, &made, false, &Call::simple()).await.map(drop)
    }

    /// Makes a temp table of a query, with the node's own rows or empty; gives the command's tag.
    pub(crate) async fn create_temp_as(
        &mut self,
        node: impl Into<Slot>,
        made: &TempAs<'_>,
        with_rows: bool,
        call: &Call,
    ) -> Result<Option<String>> {
        let node = node.into();
        let started = self.start_temp_as(&[node], made, with_rows.then_some(node), call).await?;
        Ok(self.links.finish_all(&started).await?.pop().flatten())
    }

    /// Makes a temp table of a query on several nodes, with the rows of `filled`. Gives those that have still to be waited for.
    pub(crate) async fn start_temp_as(
        &mut self,
        nodes: &[impl Copy + Into<Slot>],
        made: &TempAs<'_>,
        filled: Option<Slot>,
        call: &Call,
    ) -> Result<Vec<Slot>> {
        let nodes = slots(nodes);
        let Some(first) = nodes.first() else { return Ok(Vec::new()) };
        if !made.fields.iter().all(|field| is_storable(field.type_oid)) {
            return Err(PgError::unsupported("a query that moves records without a type between datanodes")
                .hint("Cast ROW(…) to a type, or give its fields one by one."));
        }
        self.refuse_users_code_in(*first, made, call).await?;
        if self.makes_temp(*first).await? {
            for node in &nodes {
                self.start_on(&[*node], &made.create_sql(filled == Some(*node)), call)?;
            }
            return Ok(nodes);
        }
        let call = Call { one_off: true, ..call.with_formats(Vec::new()) };
        self.make_empty(&nodes, made, &call).await?;
        let Some(filled) = filled else { return Ok(Vec::new()) };
        self.start_on(&[filled], &format!("INSERT INTO pg_temp.{} {}", quote_identifier(made.table), made.sql), &call)?;
        Ok(vec![filled])
    }

    /// Has the table made for a role that may not make it. Each node has its own ids of types.
    async fn make_empty(&mut self, nodes: &[Slot], made: &TempAs<'_>, call: &Call) -> Result<()> {
        let shapes = match made.fields.is_empty() {
            true => vec![Vec::new(); nodes.len()],
            false => self.one_row_on(nodes, &made.shape_sql(), call).await?,
        };
        for (node, row) in nodes.iter().zip(&shapes) {
            let mut calls = vec![made.make_call(&made.shapes(row)?)];
            calls.extend(made.indexes.iter().map(|index| index_call(made.table, index)));
            self.call_on(*node, &calls).await?;
        }
        Ok(())
    }

    /// The types of a table's columns on the node; domains are not taken for what they are over.
    pub(super) async fn types_in_temp(&mut self, slot: Slot, made: &TempAs<'_>, call: &Call) -> Result<Vec<Oid>> {
        let call = Call { one_off: true, ..call.with_formats(Vec::new()) };
        let rows = match made.fields.is_empty() {
            true => Vec::new(),
            false => self.one_row_on(&[slot], &made.shape_sql(), &call).await?,
        };
        let type_of = |told: &Option<Bytes>| {
            let told = String::from_utf8_lossy(told.as_deref().unwrap_or_default());
            told.split(' ').next().and_then(|oid| oid.parse().ok())
        };
        rows.iter().flatten().map(|told| type_of(told).ok_or_else(not_told)).collect()
    }

    /// Makes an empty table where nobody reads the query's text, which `reader`, on the same node, has read.
    pub(crate) async fn make_temp_like(
        &mut self,
        reader: Slot,
        slot: Slot,
        made: &TempAs<'_>,
        call: &Call,
    ) -> Result<()> {
        self.refuse_users_code_in(reader, made, call).await?;
        let call = Call { one_off: true, ..call.with_formats(Vec::new()) };
        let row = self.one_row_on(&[reader], &made.shape_sql(), &call).await?.pop().unwrap_or_default();
        self.call_on(slot, &[made.make_call(&made.shapes(&row)?)]).await.map(drop)
    }

    /// The last row that a statement gives on each of the nodes.
    async fn one_row_on(&mut self, nodes: &[Slot], sql: &str, call: &Call) -> Result<Vec<Vec<Option<Bytes>>>> {
        self.connect_to(nodes).await?;
        for node in nodes {
            self.acquire(*node, Mode::InBlock).await?;
        }
        self.start_on(nodes, sql, call)?;
        let mut links = self.links.take(nodes)?;
        let rows = join_all(links.iter_mut().map(|(_, leased)| last_row(leased))).await;
        self.links.put_back(links);
        rows.into_iter().collect()
    }

    /// Makes the indexes of a table that is filled, unless it had them from the start.
    pub(crate) async fn index_temp(&mut self, node: Slot, table: &str, indexes: &[Index]) -> Result<()> {
        if indexes.is_empty() || !self.makes_temp(node).await? {
            return Ok(());
        }
        for index in indexes {
            self.run_on(node, &index.create_sql(&quote_identifier(table))).await?;
        }
        Ok(())
    }
}

async fn last_row(leased: &mut LeasedConnection) -> Result<Vec<Option<Bytes>>> {
    leased.flush().await?;
    let mut row = Vec::new();
    loop {
        match leased.next().await? {
            Event::Done => return Ok(row),
            Event::Rows(run, _) => {
                for body in frame_bodies(&run) {
                    row = pgproto::backend::decode_data_row(Bytes::copy_from_slice(body))?;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, type_modifier: i32) -> Field {
        Field {
            name: Bytes::copy_from_slice(name.as_bytes()),
            table_oid: 0,
            column_number: 0,
            type_oid: 1043,
            type_size: -1,
            type_modifier,
            format: 0,
        }
    }

    fn shapes(told: &[&str]) -> Result<OwnCall> {
        let fields = [field("a", 9), field("b\u{e4}", 9)];
        let sql = "SELECT a, b\u{e4} FROM t";
        let made = TempAs { table: "loxo_g1", columns: Vec::new(), fields: &fields, sql, indexes: &[], receives: true };
        let row: Vec<Option<Bytes>> = told.iter().map(|value| Some(Bytes::copy_from_slice(value.as_bytes()))).collect();
        made.shapes(&row).map(|shapes| made.make_call(&shapes))
    }

    #[test]
    fn a_table_is_made_of_what_the_columns_really_are() {
        let call = shapes(&["1043 b 100 character varying", "20001 d 950 own.label"]).unwrap();
        assert_eq!(
            call.arguments,
            "'loxo_g1', ARRAY['a', pg_catalog.convert_from(pg_catalog.decode('62c3a4', 'hex'), \
             pg_catalog.current_setting('client_encoding'))]::pg_catalog.name[], ARRAY[1043, 20001]::pg_catalog.oid[], \
             ARRAY[9, -1]::pg_catalog.int4[], ARRAY[100, 950]::pg_catalog.oid[]"
        );
    }

    #[test]
    fn a_column_of_no_collation_is_refused_as_by_create_table_as() {
        let error = shapes(&["1043 b 100 character varying", "25 b - text"]).unwrap_err();
        assert_eq!(error.code(), SqlState::INDETERMINATE_COLLATION);
        assert!(shapes(&["1043 b 100 character varying"]).is_err());
    }
}
