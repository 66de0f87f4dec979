//! Figures of all nodes, for statements that ask for sizes or read PostgreSQL's views of statistics (page `all_sessions`).
//!
//! How they are added up is said in `statistics.sql`; only sizes are added up here.

use std::collections::BTreeMap;

use bytes::Bytes;
use catalog::{NodeId, quote_literal};
use pgerror::{PgError, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::backend::cancel::Question;
use crate::backend::statement_figures::ToldStatement;
use crate::commands::all_sessions::{Rights, Rows, in_utf8};
use crate::session::Session;

/// Users' tables and indexes, and of what is replicated the nodes that have a copy. Like PostgreSQL's functions about sizes it waits
/// for a session that has locked a whole table.
const SIZES: &str = "SELECT c.copies, c.name, pg_catalog.jsonb_build_array( \
       pg_catalog.pg_table_size(c.oid), pg_catalog.pg_indexes_size(c.oid), pg_catalog.pg_relation_size(c.oid)) \
     FROM (SELECT c.oid, pg_catalog.format('%I.%I', n.nspname, c.relname) AS name, \
         (SELECT pg_catalog.array_to_json(k.nodes) FROM loxo.class k LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid \
           WHERE k.relid = coalesce(i.indrelid, c.oid) AND k.locator = 'R') AS copies \
       FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
       WHERE c.relkind IN ('r', 'm', 'p', 'i') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'loxo') \
         AND n.nspname !~ '^pg_(toast|temp)') c";

/// Lines that coordinators have: as the function of layout 11 reads them, which has not all columns, and as rows of the home node.
const STATEMENTS: [&str; 2] = ["loxo_stat_statements", "loxo_statements"];

/// Where rows and pages of tables are told.
const COUNTED: &str = "pg_class";
/// Of users' tables and indexes, and of what is replicated the nodes that have a copy. It runs in the session's own backends, so no
/// name or operator is left to the search path.
const COUNTS: &str = "SELECT pg_catalog.encode(pg_catalog.convert_to(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object( \
       'schema', n.nspname, 'name', c.relname, 'tuples', c.reltuples, 'pages', pg_catalog.jsonb_build_object( \
         'relpages', c.relpages, 'relallvisible', c.relallvisible, \
         'relallfrozen', coalesce(pg_catalog.jsonb_object_field(pg_catalog.to_jsonb(c), 'relallfrozen'), '0'::pg_catalog.jsonb)), \
       'copies', coalesce((SELECT pg_catalog.to_jsonb(k.nodes) FROM loxo.class AS k \
         WHERE k.relid OPERATOR(pg_catalog.=) coalesce(i.indrelid, c.oid) AND k.locator OPERATOR(pg_catalog.=) 'R'), '[]'::pg_catalog.jsonb) \
     ))::pg_catalog.text, 'UTF8'), 'hex') \
     FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace \
     LEFT JOIN pg_catalog.pg_index AS i ON i.indexrelid OPERATOR(pg_catalog.=) c.oid \
     WHERE c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p,m,i,I}'::pg_catalog.\"char\"[]) \
         AND n.nspname OPERATOR(pg_catalog.!~) '^(pg_.*|information_schema|loxo)$'";

/// What a node tells of a table or an index.
#[derive(Deserialize)]
struct Counted {
    schema: String,
    name: String,
    /// -1: nobody has counted.
    tuples: f64,
    /// By column.
    pages: BTreeMap<String, i64>,
    copies: Vec<u16>,
}

const DATABASES: &str = "SELECT datname, pg_catalog.pg_database_size(oid) FROM pg_catalog.pg_database";

/// What the nodes tell, as `loxo.sessions()` gives it to its readers.
#[derive(Default)]
pub(super) struct Figures {
    /// Sizes of a table, its indexes, its rows; added up, by name.
    pub(super) sizes: BTreeMap<String, [u64; 3]>,
    /// Sizes of databases, added up, by name.
    pub(super) databases: BTreeMap<String, u64>,
    /// Rows of each view, of each node.
    pub(super) views: BTreeMap<String, Vec<Value>>,
}

impl Session {
    /// What the statement asks for.
    ///
    /// # Errors
    /// Those of the nodes: a sum without one's part would be wrong.
    pub(super) async fn figures(&mut self, rights: &Rights) -> Result<Figures> {
        let mut figures = Figures::default();
        if self.leaves.asks.sizes {
            figures.sizes = added_sizes(self.on_all_nodes(SIZES).await, self.home)?;
        }
        if self.leaves.asks.databases {
            figures.databases = added_databases(self.on_all_nodes(DATABASES).await, rights)?;
        }
        for view in self.leaves.asks.views.clone() {
            let rows = match view.as_str() {
                view if view == STATEMENTS[0] => self.statements(rights).await?,
                view if view == STATEMENTS[1] => rows_of(self.home, &self.statements(rights).await?),
                COUNTED => rows_of(self.home, &self.counts().await?),
                view => self.rows_of_view(view).await?,
            };
            figures.views.insert(view, rows);
        }
        Ok(figures)
    }

    /// What statements have cost on all coordinators.
    async fn statements(&mut self, rights: &Rights) -> Result<Vec<Value>> {
        let answers = self.ask_coordinators(&Question::Statements).await?;
        let mut all: Vec<ToldStatement> = Vec::new();
        for answer in answers {
            let told = serde_json::from_slice::<Vec<ToldStatement>>(&answer);
            all.extend(told.map_err(|_| PgError::protocol("another coordinator is not understood"))?);
        }
        all.sort_unstable_by(|one, other| one.key().cmp(&other.key()));
        all.dedup_by(|again, line| {
            let is_same = again.key() == line.key();
            if is_same {
                line.add(again);
            }
            is_same
        });
        for line in all.iter_mut().filter(|line| !rights.sees_of(&line.usename)) {
            line.query = "<insufficient privilege>".to_owned();
        }
        // A database of bytes has no place for what JSON writes as \\u.
        let encoding = self.home_parameters().and_then(|mut known| known.remove("server_encoding"));
        if encoding.is_some_and(|name| name != "UTF8") {
            for line in &mut all {
                [&mut line.query, &mut line.usename, &mut line.datname].into_iter().for_each(to_ascii);
            }
        }
        all.into_iter().map(|line| serde_json::to_value(line).map_err(not_read)).collect()
    }

    /// The list that a node gives as JSON in hexadecimal digits, to this session's role.
    async fn told_by<T: DeserializeOwned>(&mut self, node: NodeId, sql: &str) -> Result<Vec<T>> {
        let answer = self.rows_on(node, sql).await?;
        match answer.into_iter().flatten().next().flatten() {
            Some(rows) => in_utf8(&rows).ok_or_else(figures_not_understood),
            None => Ok(Vec::new()),
        }
    }

    /// Rows and pages of each table and index on all nodes.
    async fn counts(&mut self) -> Result<Vec<Value>> {
        let mut all: BTreeMap<(String, String), (f64, BTreeMap<String, i64>)> = BTreeMap::new();
        for node in self.context.nodes() {
            let told: Vec<Counted> = self.told_by(node, COUNTS).await?;
            for one in told.into_iter().filter(|one| is_counted(&one.copies, node, self.home)) {
                let (tuples, pages) = all.entry((one.schema, one.name)).or_insert((-1.0, BTreeMap::new()));
                if one.tuples >= 0.0 {
                    *tuples = tuples.max(0.0) + one.tuples;
                }
                for (column, more) in one.pages {
                    let sum = pages.entry(column).or_default();
                    // As many as the column's type can say.
                    *sum = sum.saturating_add(more).min(i32::MAX.into());
                }
            }
        }
        let row = |((schema, name), (tuples, pages)): ((String, String), (f64, BTreeMap<String, i64>))| {
            let mut counts: Map<String, Value> = pages.into_iter().map(|(column, sum)| (column, sum.into())).collect();
            counts.insert("reltuples".to_owned(), tuples.into());
            json!({ "schemaname": schema, "relname": name, "counts": counts })
        };
        Ok(all.into_iter().map(row).collect())
    }

    /// Each node's in a view of PostgreSQL, as the session's role sees them.
    async fn rows_of_view(&mut self, view: &str) -> Result<Vec<Value>> {
        let sql = format!(
            "SELECT pg_catalog.encode(pg_catalog.convert_to(pg_catalog.jsonb_agg(v)::pg_catalog.text, 'UTF8'), 'hex') \
             FROM loxo.own_statistics({}) AS v",
            quote_literal(view)
        );
        let mut all = Vec::new();
        for node in self.context.nodes() {
            let rows: Vec<Value> = self.told_by(node, &sql).await?;
            all.push(json!({ "node": node.0, "rows": rows }));
        }
        Ok(all)
    }
}

/// As `loxo.told_statistics` reads them.
fn rows_of(node: NodeId, rows: &[Value]) -> Vec<Value> {
    vec![json!({ "node": node.0, "rows": rows })]
}

/// Of a table with copies one counts, which is as large as any other; of others all nodes' parts do.
fn is_counted(copies: &[u16], node: NodeId, home: NodeId) -> bool {
    let shown = if copies.contains(&home.0) { Some(&home.0) } else { copies.iter().min() };
    shown.is_none_or(|shown| *shown == node.0)
}

fn added_sizes(nodes: Vec<(NodeId, Result<Rows>)>, home: NodeId) -> Result<BTreeMap<String, [u64; 3]>> {
    let mut all: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    for (node, rows) in nodes {
        for row in rows? {
            let [copies, Some(name), Some(sizes)] = row.as_slice() else { continue };
            let copies: Vec<u16> =
                copies.as_ref().map_or(Ok(Vec::new()), |list| serde_json::from_slice(list)).map_err(not_read)?;
            if !is_counted(&copies, node, home) {
                continue;
            }
            let more: [Option<u64>; 3] = serde_json::from_slice(sizes).map_err(not_read)?;
            let sizes = all.entry(text(name)).or_default();
            sizes.iter_mut().zip(more).for_each(|(size, more)| *size += more.unwrap_or_default());
        }
    }
    Ok(all)
}

fn added_databases(nodes: Vec<(NodeId, Result<Rows>)>, rights: &Rights) -> Result<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for (_, rows) in nodes {
        for row in rows? {
            let [Some(name), Some(size)] = row.as_slice() else { continue };
            let name = text(name);
            if rights.databases.contains(&name) {
                let size: u64 = serde_json::from_slice(size).map_err(not_read)?;
                *all.entry(name).or_default() += size;
            }
        }
    }
    Ok(all)
}

fn to_ascii(text: &mut String) {
    if !text.is_ascii() {
        *text = text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect();
    }
}

fn text(value: &Bytes) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn not_read(_: serde_json::Error) -> PgError {
    figures_not_understood()
}

fn figures_not_understood() -> PgError {
    PgError::protocol("a datanode's figures are not understood")
}
