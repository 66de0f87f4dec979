//! One `loxo load` from its arguments to its summary.

use std::sync::Arc;
use std::thread::available_parallelism;

use copyfmt::{CopyOptions, Format};
use pgerror::{PgError, Result, SqlState, field};
use pgproto::Connection;

use crate::commit::atomic;
use crate::commit::batches;
use crate::commit::journal::Journal;
use crate::commit::rejects::Rejects;
use crate::files::counters::Counters;
use crate::files::cut::{BLOCK_BYTES, Limits};
use crate::files::input::{self, Source};
use crate::files::readers::{self, Plan};
use crate::options::{LoadOptions, literal};
use crate::parquet;
use crate::progress::Progress;
use crate::server::indexes::{self, Indexes};
use crate::server::monitor::{Monitor, Seen};
use crate::server::session::{self, CopyTarget};

/// Less than this is loaded before a second stream has connected.
const BYTES_FOR_STREAMS: u64 = 32 * 1024 * 1024;
/// More streams than these must be asked for.
const STREAMS_DEFAULT_MAX: usize = 8;
/// Bytes of one savepoint, without batches.
const SAVEPOINT_BYTES: u64 = 8 * 1024 * 1024;
/// Pieces that wait in the queue, a stream, if each is a block.
const BLOCKS_WAITING: usize = 3;

/// What a load did.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Summary {
    /// Rows committed by this run.
    pub rows: u64,
    /// Rows that the server refused.
    pub rejected: u64,
    /// Rows that runs of this name committed before.
    pub rows_before: u64,
    pub bytes: u64,
    pub files: usize,
    pub seconds: f64,
    pub streams: usize,
    /// Part of the streams' time in which they had nothing to send, because the files were not read fast enough.
    pub starved: f64,
    /// What the servers' COPYs were seen at.
    pub seen: Seen,
    /// Indexes that were made after the load, and how long that took; not part of `seconds`.
    pub indexes: usize,
    pub index_seconds: f64,
}

/// Loads the files.
///
/// # Errors
/// A file that cannot be read, or the server's error, with file and line where it is about a row; SQLSTATE 57014 after Ctrl-C.
pub async fn load(options: &LoadOptions) -> Result<Summary> {
    let job = Job::prepare(options).await?;
    let counters = Arc::clone(&job.counters);
    let total = job.sources.iter().map(|source| source.bytes).sum::<Option<u64>>();
    let is_guess = options.copy.format.is_none() && format_of(&job.sources) == "text";
    let silence = std::future::pending();
    let monitor = Arc::clone(&job.monitor);
    let shown = Progress { counters: &counters, monitor: &monitor };
    let show = async { if options.progress { shown.show(total).await } else { silence.await } };
    let indexes = job.indexes.clone();
    tokio::select! {
        summary = job.run_without_indexes() => summary.map_err(|error| if is_guess { taken_for_text(error) } else { error }),
        never = show => match never {},
        never = monitor.watch(&options.to[0]) => match never {},
        () = interrupted(&counters) => {
            let error = PgError::new(SqlState::QUERY_CANCELED, "the load was interrupted");
            Err(if options.drop_indexes { indexes.are_missing(error) } else { error })
        }
    }
}

/// Waits for Ctrl-C at a time when nothing is half committed.
async fn interrupted(counters: &Counters) {
    loop {
        match tokio::signal::ctrl_c().await {
            Ok(()) if counters.is_committing() => {}
            Ok(()) => return,
            // Without a handler the signal ends the program by itself.
            Err(_) => std::future::pending().await,
        }
    }
}

pub(crate) async fn server_version(connection: &mut Connection) -> Result<u32> {
    let version = session::value(connection, "SHOW server_version_num").await?;
    version.parse().map_err(|_| PgError::protocol(format!("version \"{version}\"")))
}

/// Schema and name of a table.
pub(crate) async fn resolve(connection: &mut Connection, table: &str) -> Result<(String, String)> {
    let sql = format!(
        "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace \
         WHERE c.oid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass",
        literal(table)
    );
    let rows = connection.query_rows(&sql).await?;
    match rows.first().map(Vec::as_slice) {
        Some([Some(schema), Some(name)]) => {
            Ok((String::from_utf8_lossy(schema).into_owned(), String::from_utf8_lossy(name).into_owned()))
        }
        _ => Err(PgError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{table}\" does not exist"))),
    }
}

struct Job<'a> {
    options: &'a LoadOptions,
    sources: Arc<Vec<Source>>,
    streams: usize,
    server_version: u32,
    copy: CopyOptions,
    relation: String,
    /// With `batch`, or for more than one stream.
    journal: Option<Journal>,
    done: std::collections::HashMap<String, Vec<crate::files::cut::Done>>,
    rows_before: u64,
    rejects: Option<Arc<Rejects>>,
    columns: Vec<String>,
    indexes: Indexes,
    counters: Arc<Counters>,
    monitor: Arc<Monitor>,
}

impl<'a> Job<'a> {
    async fn prepare(options: &'a LoadOptions) -> Result<Self> {
        let sources = Arc::new(input::expand(&options.files)?);
        let uri = options.to.first().ok_or_else(|| PgError::connection("no coordinator is named"))?;
        if sources.is_empty() {
            return Err(PgError::new(SqlState::INVALID_PARAMETER_VALUE, "no file is named"));
        }
        let mut connection = session::connect(uri).await?;
        let server_version = server_version(&mut connection).await?;
        let parquet = parquet::columns(&sources, &options.copy)?;
        let mut copy = options.copy.clone();
        copy.format.get_or_insert_with(|| if parquet.is_some() { "text" } else { format_of(&sources) }.to_owned());
        let copy = copy.checked(server_version, true)?;
        let (schema, relation) = resolve(&mut connection, &options.table).await?;
        let columns = match parquet {
            Some(parquet) if options.columns.is_empty() => parquet::named(&mut connection, options, &parquet).await?,
            _ => options.columns.clone(),
        };
        let streams = options.streams.unwrap_or_else(|| match options.rejects.is_some() && options.batch.is_none() {
            // Then it is the first of two rows with the same key that is loaded.
            true => 1,
            false => streams_for(&sources, options.to.len()),
        });
        let rejects = match &options.rejects {
            Some(_) if copy.format == Format::Binary => {
                let error = PgError::unsupported("\"--rejects\" with binary files");
                return Err(error.hint("Binary rows have no lines that could be written to a file of rejected rows."));
            }
            Some(path) => Some(Arc::new(Rejects::open(path, options.reject_limit, options.batch.is_some())?)),
            None => None,
        };
        let indexes = Indexes::of(&schema, &relation);
        let monitor = Arc::new(Monitor::of(&schema, &relation));
        let mut job = Self {
            options,
            sources,
            streams,
            server_version,
            copy,
            relation,
            journal: None,
            done: Default::default(),
            rows_before: 0,
            rejects,
            columns,
            indexes,
            counters: Arc::new(Counters::new()),
            monitor,
        };
        if options.batch.is_some() {
            let name = options.name.clone().unwrap_or_else(|| job.default_name(&schema));
            let journal = Journal::open(&mut connection, &schema, name).await?;
            (job.done, job.rows_before) = journal.done(&mut connection).await?;
            job.journal = Some(journal);
        } else if streams > 1 {
            job.journal = Some(Journal::open(&mut connection, &schema, atomic::new_name()).await?);
        }
        job.drop_indexes(&mut connection).await?;
        Ok(job)
    }

    async fn drop_indexes(&self, connection: &mut Connection) -> Result<()> {
        let before = self.indexes.dropped(connection).await?.len();
        if before > 0 {
            eprintln!("{before} indexes that another load dropped are made again after this one");
        }
        if self.options.drop_indexes {
            self.indexes.drop_all(connection).await?;
        }
        Ok(())
    }

    /// Loads, and makes the indexes again that were dropped, whatever became of the load.
    async fn run_without_indexes(self) -> Result<Summary> {
        let (indexes, to) = (self.indexes.clone(), &self.options.to);
        let loaded = self.run().await;
        let started = std::time::Instant::now();
        match loaded {
            Ok(mut summary) => {
                summary.indexes = indexes.restore(to).await?;
                summary.index_seconds = started.elapsed().as_secs_f64();
                Ok(summary)
            }
            Err(error) if indexes::must_wait(&error) => Err(indexes.are_missing(error)),
            Err(error) => match indexes.restore(to).await {
                Ok(_) => Err(error),
                Err(_) => Err(indexes.are_missing(error)),
            },
        }
    }

    /// One name for each command line.
    fn default_name(&self, schema: &str) -> String {
        let files = input::files(&self.sources);
        // It is part of a key, whose length is limited.
        let checksum = crc32fast::hash(files.join("\n").as_bytes());
        format!("{schema}.{} from {} and {} more, {checksum:08x}", self.relation, files[0], files.len() - 1)
    }

    async fn run(self) -> Result<Summary> {
        let options = self.options;
        let (limits, waiting) = match options.batch {
            Some(batch) => (Limits { rows: batch.rows, bytes: batch.bytes }, 1),
            None if self.rejects.is_some() => (Limits { rows: u64::MAX, bytes: SAVEPOINT_BYTES }, 1),
            None => (Limits { rows: u64::MAX, bytes: BLOCK_BYTES as u64 }, BLOCKS_WAITING * self.streams),
        };
        let target = CopyTarget {
            statement: session::copy_statement(&options.table, &self.columns, &self.copy),
            relation: self.relation,
            options: self.copy.clone(),
            server_version: self.server_version,
            sources: Arc::clone(&self.sources),
        };
        let plan = Plan {
            sources: Arc::clone(&self.sources),
            options: self.copy,
            server_version: self.server_version,
            header: options.copy.header,
            limits,
            done: self.done,
            counters: Arc::clone(&self.counters),
        };
        let (queue, readers) = readers::start(plan, self.streams, waiting);
        let (to, counters, rejects) = (options.to.clone(), Arc::clone(&self.counters), self.rejects.clone());
        let rows = match (options.batch, self.journal) {
            (Some(_), Some(journal)) => {
                let streams = batches::Streams { to, target, queue, journal, counters, rejects };
                batches::run(streams, self.streams, readers).await.map_err(go_on)?
            }
            (_, journal) => {
                if let Some(journal) = journal.as_ref().filter(|_| options.progress) {
                    let (table, name) = (&options.table, journal.load());
                    eprintln!("should this die while it commits: loxo load {table} --finish {name}");
                }
                let streams = atomic::Streams { to, target, queue, counters, rejects, count: self.streams };
                atomic::run(streams, readers, journal.as_ref()).await?
            }
        };
        let seconds = self.counters.elapsed().as_secs_f64();
        Ok(Summary {
            rows,
            rejected: self.rejects.map_or(0, |rejects| rejects.count()),
            rows_before: self.rows_before,
            bytes: self.counters.bytes(),
            files: input::files(&self.sources).len(),
            seconds,
            streams: self.streams,
            seen: self.monitor.result(),
            indexes: 0,
            index_seconds: 0.0,
            starved: self.counters.starved_seconds() / (seconds * self.streams as f64).max(1e-6),
        })
    }
}

fn go_on(error: PgError) -> PgError {
    let hint = "What was committed stays; the same command goes on after it.";
    match error.get(field::HINT) {
        Some(own) => {
            let own = String::from_utf8_lossy(own).into_owned();
            error.hint(format!("{own} {hint}"))
        }
        None => error.hint(hint),
    }
}

/// The error where no option has said what the input is.
fn taken_for_text(error: PgError) -> PgError {
    let is_about_form = [SqlState::BAD_COPY_FILE_FORMAT, SqlState::INVALID_TEXT_REPRESENTATION].contains(&error.code());
    match is_about_form && error.get(field::HINT).is_none() {
        true => {
            error.hint("It was read in COPY's text format, since no name says .csv. Add --format csv if it is CSV.")
        }
        false => error,
    }
}

/// CSV if every file says so, else text.
pub(crate) fn format_of(sources: &[Source]) -> &'static str {
    let is_csv = |source: &Source| source.name.to_ascii_lowercase().contains(".csv");
    if sources.iter().all(is_csv) { "csv" } else { "text" }
}

fn streams_for(sources: &[Source], coordinators: usize) -> usize {
    let bytes = sources.iter().map(|source| source.bytes).sum::<Option<u64>>();
    if bytes.is_some_and(|bytes| bytes < BYTES_FOR_STREAMS) {
        return 1;
    }
    let cores = available_parallelism().map_or(1, usize::from);
    coordinators.max(cores / 2).min(STREAMS_DEFAULT_MAX)
}
