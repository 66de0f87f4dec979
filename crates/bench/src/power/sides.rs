//! Both sides with TPC-H's tables, and one query on them.

use pgerror::{PgError, Result, SqlState};

use super::options::{FAILED, PowerOptions};
use super::queries::{self, Query};
use super::tables::{self, SCHEMA};
use crate::beside::{Beside, Timed, timed};
use crate::load::Target;
use crate::suite::{Readings, WRONG};
use crate::tools::sql;

/// What the steps need.
pub struct Sides {
    options: PowerOptions,
    pub(super) beside: Beside,
    /// A run that goes on has measured the load already, and still needs the tables.
    is_loaded: bool,
}

impl Sides {
    pub(super) async fn prepare(options: &PowerOptions, target: &Target) -> Result<Self> {
        let beside = Beside::start(target, SCHEMA).await?;
        Ok(Self { options: options.clone(), beside, is_loaded: false })
    }

    /// Once; gives what was measured then.
    pub(super) async fn load(&mut self) -> Result<Option<Readings>> {
        if self.is_loaded {
            return Ok(None);
        }
        let PowerOptions { scale_factor, layout, work_mem, timeout_seconds, keep_tables, .. } = &self.options;
        // Loading is not what the time limit is for.
        self.beside.set(work_mem, 0).await?;
        let cluster_has_them = *keep_tables && self.has_tables().await?;
        let blocks = |table: &str| tables::blocks(table, *scale_factor);
        let readings = self.beside.load(&tables::texts(layout), cluster_has_them, blocks).await?;
        self.beside.set(work_mem, *timeout_seconds).await?;
        self.is_loaded = true;
        Ok(Some(readings))
    }

    /// Whole ones: lineitem is the last one that is filled.
    async fn has_tables(&self) -> Result<bool> {
        let exists = format!("SELECT count(to_regclass('{SCHEMA}.lineitem'))");
        let any = format!("SELECT count(*) FROM (SELECT 1 FROM {SCHEMA}.lineitem LIMIT 1) AS first");
        let cluster = &self.beside.cluster;
        Ok(sql::number(cluster, &exists).await? == 1 && sql::number(cluster, &any).await? == 1)
    }

    /// A view that the query needs is there while it is measured.
    pub(super) async fn measure(&self, query: &Query) -> Result<Readings> {
        let around = async |statement: &Option<String>| {
            for client in [&self.beside.plain, &self.beside.cluster] {
                if let Some(statement) = statement {
                    sql::run(client, statement).await?;
                }
            }
            Ok::<_, PgError>(())
        };
        around(&query.before).await?;
        let measured = self.measure_sides(query).await;
        around(&query.after).await?;
        measured
    }

    async fn measure_sides(&self, query: &Query) -> Result<Readings> {
        let (plain, workers) = match self.on_one_server(query).await {
            Ok(measured) => measured,
            Err(error) if error.code() == SqlState::QUERY_CANCELED => {
                return Ok(Readings::default().word(FAILED, format!("one server: {}", error.message())));
            }
            Err(error) => return Err(error),
        };
        let (found, readings) = self.beside.on_cluster(&query.sql).await?;
        let readings = readings.figure("stock", plain.seconds).figure("stock_with_workers", workers);
        let found = match found {
            Ok(found) => found,
            Err(error) => return Ok(readings.word(FAILED, format!("{} ({})", error.message(), error.code()))),
        };
        let readings = readings.figure("cluster", found.seconds);
        Ok(match self.judge(query.number, plain.rows, found.rows) {
            Some(how) => readings.word(WRONG, how),
            None => readings,
        })
    }

    /// Rows and seconds without workers, and seconds with them.
    async fn on_one_server(&self, query: &Query) -> Result<(Timed, f64)> {
        let plain = timed(&self.beside.plain, &query.sql).await?;
        let workers = timed(&self.beside.workers, &query.sql).await?;
        Ok((plain, workers.seconds))
    }

    /// How the rows differ from those that are right.
    fn judge(&self, number: usize, mut expected: Vec<Vec<String>>, mut found: Vec<Vec<String>>) -> Option<String> {
        let official = match self.options.scale_factor == 1.0 {
            true => queries::compare_with_official(number, &found),
            false => None,
        };
        // Rows that ORDER BY does not tell apart may come in any order.
        expected.sort();
        found.sort();
        if expected != found {
            return Some(format!("{} rows, not those of one server ({})", found.len(), expected.len()));
        }
        official.map(|difference| format!("not the official answer: {difference}"))
    }
}
