//! A table or a query into a file, or a table into a file for each datanode.
//!
//! One COPY, so one snapshot; of several the snapshots are of one moment. Files have their names only when all of them are
//! whole and on the disk.

use std::path::PathBuf;
use std::time::Instant;

use bytes::Bytes;
use copyfmt::Format;
use pgerror::{PgError, Result, SqlState};
use pgproto::Connection;
use tokio::task::JoinSet;

use crate::files::readers;
use crate::options::{self, Copy, literal};
use crate::output::{Compression, Output};
use crate::server::session;
use crate::server::sql::{identifier, number, text};

/// How often the nodes are to be seen as of one moment.
const SNAPSHOT_TRIES: usize = 5;

/// What `loxo unload` is asked to do.
#[derive(Clone, Debug)]
pub struct UnloadOptions {
    /// A table as SQL names it, or a query.
    pub what: String,
    /// Connection URI of a coordinator.
    pub from: String,
    /// The directory; made if it is missing.
    pub to: PathBuf,
    /// COPY's options; the format is CSV if none is given.
    pub copy: Copy,
    /// A file for each datanode, all at once?
    pub per_node: bool,
    /// How the file is compressed.
    pub compression: Compression,
    /// Write over a file that is there?
    pub overwrite: bool,
}

/// What was written.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Unloaded {
    pub files: Vec<PathBuf>,
    pub rows: u64,
    /// Before compression.
    pub bytes: u64,
    pub seconds: f64,
}

/// Writes the files.
///
/// # Errors
/// The server's, or one of writing; there is no new file then.
pub async fn unload(options: &UnloadOptions) -> Result<Unloaded> {
    let started = Instant::now();
    let mut connection = session::connect(&options.from).await?;
    let version = crate::load::server_version(&mut connection).await?;
    let mut copy = options.copy.clone();
    copy.format.get_or_insert_with(|| "csv".to_owned());
    let checked = copy.checked(version, false)?;
    let is_query = is_query(&options.what);
    let (what, name) = match is_query {
        true => (format!("({})", options.what.trim_end().trim_end_matches(';')), "query".to_owned()),
        false => (options.what.clone(), crate::load::resolve(&mut connection, &options.what).await?.1),
    };
    let list = options::sql(&checked);
    let header = if copy.header { "HEADER, " } else { "" };
    let sql = format!("COPY {what} TO STDOUT ({header}{}", list.strip_prefix('(').unwrap_or(&list));
    let file = |node: &str| {
        let extension = extension(checked.format);
        let file = format!("{name}{node}.{extension}{}", options.compression.extension());
        options.to.join(file.replace('/', "_"))
    };
    let written = match options.per_node {
        true if is_query => {
            return Err(PgError::unsupported("\"--per-node\" with a query").hint("Name a table, or leave it out."));
        }
        true => per_node(options, &mut connection, &sql, file).await?,
        false => {
            let output = Output::create(&file(""), options)?;
            vec![copy_into(&mut connection, &sql, output).await?]
        }
    };
    let (mut files, mut rows, mut bytes) = (Vec::new(), 0, 0);
    for (output, count) in written {
        bytes += output.bytes;
        rows += count;
        files.push(output.publish()?);
    }
    Ok(Unloaded { files, rows, bytes, seconds: started.elapsed().as_secs_f64() })
}

fn extension(format: Format) -> &'static str {
    match format {
        Format::Csv => "csv",
        Format::Text => "txt",
        Format::Binary => "bin",
    }
}

/// Gives the file, which is whole and on the disk, and its rows.
async fn copy_into(connection: &mut Connection, sql: &str, mut output: Output) -> Result<(Output, u64)> {
    let rows = session::copy_out(connection, sql, |bytes| output.write(&bytes)).await?;
    output.complete()?;
    Ok((output, rows))
}

/// One COPY a node, on the node itself, all in the snapshots of one REPEATABLE READ block: those are of one moment.
async fn per_node(
    options: &UnloadOptions,
    block: &mut Connection,
    sql: &str,
    file: impl Fn(&str) -> PathBuf,
) -> Result<Vec<(Output, u64)>> {
    let nodes = nodes(block, &options.what).await?;
    let snapshots = snapshots(block, &options.what, &nodes).await?;
    let mut tasks = JoinSet::new();
    for (node, snapshot) in nodes.into_iter().zip(snapshots) {
        let output = Output::create(&file(&format!(".{}", node.name)), options)?;
        let (from, sql) = (options.from.clone(), sql.to_owned());
        tasks.spawn(async move {
            let mut connection = session::connect_to(&from, node.host, node.port).await?;
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?;
            connection.execute(&format!("SET TRANSACTION SNAPSHOT {}", literal(&snapshot))).await?;
            copy_into(&mut connection, &sql, output).await
        });
    }
    // Until the COPYs have ended, the block holds the table.
    let written = readers::all(tasks).await?;
    block.execute("COMMIT").await?;
    Ok(written)
}

/// Snapshots of the nodes, as of one moment, in a block that holds the table. A busy machine may be too slow for it once or twice.
async fn snapshots(block: &mut Connection, table: &str, nodes: &[Node]) -> Result<Vec<String>> {
    for _ in 1..SNAPSHOT_TRIES {
        match snapshots_once(block, table, nodes).await {
            Err(error) if error.code() == SqlState::SERIALIZATION_FAILURE => block.execute("ROLLBACK").await?,
            result => return result,
        };
    }
    snapshots_once(block, table, nodes).await
}

async fn snapshots_once(block: &mut Connection, table: &str, nodes: &[Node]) -> Result<Vec<String>> {
    block.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?;
    block.execute(&format!("LOCK TABLE {table} IN ACCESS SHARE MODE")).await?;
    let mut snapshots = Vec::new();
    for node in nodes {
        let export = format!("EXECUTE DIRECT ON ({}) 'SELECT pg_catalog.pg_export_snapshot()'", identifier(&node.name));
        snapshots.push(session::value(block, &export).await?);
    }
    Ok(snapshots)
}

struct Node {
    name: String,
    host: String,
    port: u16,
}

/// The nodes that have rows of a table; of a replicated one the first.
async fn nodes(connection: &mut Connection, table: &str) -> Result<Vec<Node>> {
    let no_cluster = || {
        PgError::unsupported(format_args!("\"--per-node\" for \"{table}\", which is no distributed table,"))
            .hint("Leave it out.")
    };
    let exists = "SELECT pg_catalog.to_regclass('pg_catalog.pgxc_class') IS NOT NULL";
    if session::value(connection, exists).await? != "t" {
        return Err(no_cluster());
    }
    let sql = format!(
        "SELECT n.node_name, n.node_host, n.node_port, c.pclocatortype FROM pg_catalog.pgxc_class c \
         JOIN pg_catalog.pgxc_node n ON n.oid OPERATOR(pg_catalog.=) ANY (c.nodeoids) \
         WHERE c.pcrelid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass ORDER BY n.node_name",
        literal(table)
    );
    let rows = connection.query_rows(&sql).await?;
    let is_replicated = matches!(rows.first(), Some(row) if text(row, 3)? == "R");
    let wanted = if is_replicated { 1 } else { rows.len() };
    if wanted == 0 {
        return Err(no_cluster());
    }
    let node = |row: &Vec<Option<Bytes>>| Ok(Node { name: text(row, 0)?, host: text(row, 1)?, port: number(row, 2)? });
    rows.iter().take(wanted).map(node).collect()
}

fn is_query(what: &str) -> bool {
    let first = what.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let is_keyword = ["select", "with", "values", "table"].iter().any(|word| first.eq_ignore_ascii_case(word));
    is_keyword && what.trim().contains(char::is_whitespace)
}
