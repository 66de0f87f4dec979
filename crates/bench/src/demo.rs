//! `loxo demo`: makes the lineitem table, loads it through all coordinators at once, and shows what came of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::HumanCount;
use pgerror::{PgError, Result, SqlState};
use tokio::task::JoinSet;

use crate::lineitem::{Blocks, Columns, Format, estimated_rows};
use crate::tools::copy_in::{Cancel, copy_blocks, generate};
use crate::tools::progress::Progress;
use crate::tools::sql;
use crate::tools::stats::{grouped, text_table};

/// What to load, and where.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// Connection URIs of the coordinators; streams are dealt to them in turn.
    pub coordinators: Vec<String>,
    /// Name and connection URI of each datanode, to count its rows there.
    pub datanodes: Vec<(String, String)>,
    /// TPC-H scale factor: 1 is 6,001,215 rows, 0.4 GB.
    pub scale_factor: f64,
    /// Concurrent COPY streams; `None` is two a coordinator.
    pub streams: Option<usize>,
    /// False for a plain PostgreSQL server in place of a cluster: no `DISTRIBUTE BY`.
    pub distributed: bool,
}

/// What a stream did: its row count, or why it did not commit.
type StreamResult = (usize, Result<u64>);

/// Runs the demonstration; prints to standard output, progress to standard error. Ctrl-C rolls back the running streams.
///
/// # Errors
/// A server's error, or SQLSTATE 57014 after Ctrl-C; the detail says what was kept.
pub async fn run(options: &DemoOptions) -> Result<()> {
    let first = options
        .coordinators
        .first()
        .ok_or_else(|| PgError::new(SqlState::CONFIG_FILE_ERROR, "no coordinator is given"))?;
    let coordinator = sql::connect(first).await?;
    create_table(&coordinator, options.distributed).await?;
    let progress = Arc::new(Progress::new());
    let rows = load(options, &progress).await?;
    let (seconds, bytes) = (progress.elapsed().as_secs_f64(), progress.bytes() as f64);
    print_load(options, rows, bytes, seconds).await?;
    for query in [
        "SELECT count(*) FROM lineitem",
        "SELECT l_shipinstruct, count(*), min(l_shipdate), max(l_shipdate) FROM lineitem GROUP BY l_shipinstruct ORDER BY l_shipinstruct",
    ] {
        let started = Instant::now();
        let answer = sql::table(&coordinator, query).await?;
        println!("{query};\n{}({:.0} ms)\n", text_table(&answer), started.elapsed().as_secs_f64() * 1e3);
    }
    println!("Go on with:  psql {first}");
    Ok(())
}

async fn create_table(coordinator: &tokio_postgres::Client, distributed: bool) -> Result<()> {
    let exists = sql::scalar(coordinator, "SELECT to_regclass('lineitem') IS NOT NULL").await?;
    if exists == "t" {
        println!("Table lineitem exists: it is dropped and loaded anew.");
        sql::run(coordinator, "DROP TABLE lineitem").await?;
    }
    let clause = if distributed { " DISTRIBUTE BY HASH (l_orderkey)" } else { "" };
    println!("CREATE TABLE lineitem (… 7 columns …){clause};");
    sql::run(coordinator, &format!("CREATE TABLE lineitem {}{clause}", Columns::Seven.definition())).await
}

/// Loads all parts at once; gives the rows that were committed.
async fn load(options: &DemoOptions, progress: &Arc<Progress>) -> Result<u64> {
    let streams = options.streams.unwrap_or(2 * options.coordinators.len()).max(1);
    println!(
        "Loading scale factor {} in {streams} COPY streams over {} coordinators",
        options.scale_factor,
        options.coordinators.len()
    );
    let cancel = Cancel::default();
    let mut tasks = JoinSet::new();
    for stream in 0..streams {
        let uri = options.coordinators[stream % options.coordinators.len()].clone();
        let blocks = Blocks::new(options.scale_factor, stream + 1, streams, Columns::Seven, Format::Text);
        let (progress, cancel) = (progress.clone(), cancel.clone());
        tasks.spawn(async move { (stream, load_part(&uri, blocks, &progress, &cancel).await) });
    }
    let results = tokio::select! {
        results = wait_for_all(&mut tasks, &cancel) => results,
        never = progress.show(estimated_rows(options.scale_factor)) => match never {},
    };
    conclude(results)
}

async fn load_part(uri: &str, blocks: Blocks, progress: &Progress, cancel: &Cancel) -> Result<u64> {
    let client = sql::connect(uri).await?;
    let copy = format!("COPY lineitem FROM STDIN {}", Format::Text.options());
    copy_blocks(&client, &copy, generate(blocks), progress, cancel).await
}

/// Waits for every stream. The first failure or Ctrl-C stops the others, which then roll back.
async fn wait_for_all(tasks: &mut JoinSet<StreamResult>, cancel: &Cancel) -> Vec<StreamResult> {
    let mut results = Vec::new();
    let mut interrupted = false;
    loop {
        tokio::select! {
            joined = tasks.join_next() => match joined {
                None => return results,
                Some(Ok(result)) => {
                    if result.1.is_err() {
                        cancel.cancel();
                    }
                    results.push(result);
                }
                Some(Err(panic)) => {
                    cancel.cancel();
                    results.push((0, Err(PgError::internal(format!("a stream ended abnormally: {panic}")))));
                }
            },
            _ = tokio::signal::ctrl_c(), if !interrupted => {
                interrupted = true;
                eprintln!("Stopping: rolling back the running COPY streams …");
                cancel.cancel();
            }
        }
    }
}

/// The sum of the rows, or the first real error with what was kept.
fn conclude(results: Vec<StreamResult>) -> Result<u64> {
    let kept: Vec<u64> = results.iter().filter_map(|(_, result)| result.as_ref().ok().copied()).collect();
    let (rows, streams) = (kept.iter().sum::<u64>(), results.len());
    let errors = results.into_iter().filter_map(|(_, result)| result.err());
    // The streams that were stopped because another one failed say only that.
    match errors.min_by_key(|error| error.code() == SqlState::QUERY_CANCELED) {
        None => Ok(rows),
        Some(error) => Err(error.detail(format!(
            "{} of {streams} streams were finished and are kept ({} rows in table lineitem); the others left nothing behind.",
            kept.len(),
            HumanCount(rows)
        ))),
    }
}

async fn print_load(options: &DemoOptions, rows: u64, bytes: f64, seconds: f64) -> Result<()> {
    let mut table = vec![
        ["rows", "seconds", "rows/s", "MB/s"].map(str::to_owned).to_vec(),
        vec![
            grouped(rows),
            format!("{seconds:.1}"),
            grouped((rows as f64 / seconds) as u64),
            format!("{:.0}", bytes / 1e6 / seconds),
        ],
    ];
    println!("\n{}", text_table(&table));
    table = vec![["datanode", "rows", "share"].map(str::to_owned).to_vec()];
    let mut sum = 0;
    for (name, uri) in &options.datanodes {
        let datanode = tokio::time::timeout(Duration::from_secs(30), sql::connect(uri))
            .await
            .map_err(|_| PgError::connection(format!("datanode {name} does not answer")))??;
        let count = sql::number(&datanode, "SELECT count(*) FROM lineitem").await?;
        sum += count;
        table.push(vec![name.clone(), grouped(count), format!("{:.1} %", 100.0 * count as f64 / rows.max(1) as f64)]);
    }
    table.push(vec!["all".into(), grouped(sum), String::new()]);
    println!("{}", text_table(&table));
    if sum == rows {
        return Ok(());
    }
    Err(PgError::internal(format!("the datanodes hold {sum} rows, but {rows} were loaded")))
}
