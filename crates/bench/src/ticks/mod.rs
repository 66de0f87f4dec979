//! `loxo bench ticks`: ever more datanodes and ever more processes that load, into a table with one index.
//!
//! Ticks of an exchange, distributed by their symbol, which is the one index. For each number of datanodes a cluster, on which
//! each number of loaders sends the same rows over connections of its own, by turns to a stock server and through the coordinators.

mod report;
mod rows;

use std::path::Path;
use std::time::Instant;

use futures_util::future::try_join_all;
use pgerror::{PgError, Result, SqlState};
use tokio_postgres::Client;

use crate::load::{Target, connect_all};
use crate::suite::{Experiment, Figure, Readings, Samples, Sheet, Stage, Step, settings};
use crate::tools::roles::Roles;
use crate::tools::stock::{Pattern, StockServer, WorkDir};
use crate::tools::{copy_in, cpu, sql};
use rows::{Part, WATCHED, symbol};

const TABLE: &str = "bench_ticks";
const STOCK: &str = "one server";
const CLUSTER: &str = "cluster";
/// More files would only be smaller.
const PARTS_MAX: u64 = 64;

/// What to measure.
#[derive(Clone, Debug)]
pub struct TicksOptions {
    /// Rows of one load, whatever the number of loaders.
    pub rows: u64,
    /// Datanodes of the clusters, one after the other.
    pub datanodes: Vec<u16>,
    /// Sessions that load.
    pub loaders: Vec<u16>,
    /// Measurements of each.
    pub rounds: usize,
}

impl TicksOptions {
    /// Three million rows.
    pub fn full() -> Self {
        Self { rows: 3_000_000, datanodes: vec![1, 2, 4, 6], loaders: vec![1, 2, 4, 8], rounds: 3 }
    }

    /// Less than three minutes.
    pub fn quick() -> Self {
        Self { rows: 300_000, rounds: 1, ..Self::full() }
    }

    /// So many that each number of loaders gets as many each, if that is not too many.
    fn parts(&self) -> u64 {
        let common = |a: u64, b: u64| (1..=b).map(|n| a * n).find(|multiple| multiple % b == 0).unwrap_or(a);
        let loaders = || self.loaders.iter().map(|loaders| u64::from(*loaders).max(1));
        match loaders().fold(1, common) {
            parts if parts <= PARTS_MAX => parts,
            _ => loaders().max().unwrap_or(1),
        }
    }
}

fn point(datanodes: u16, loaders: u16, side: &str) -> String {
    format!("{datanodes} datanodes, {loaders} loaders: {side}")
}

/// The experiment.
pub struct Ticks(pub TicksOptions);

/// The side that stores the rows.
struct Place {
    uris: Vec<String>,
    servers: Vec<String>,
    roles: Roles,
    clause: &'static str,
}

/// Field order is drop order: the server stops before its directory goes.
pub struct Bench {
    parts: Vec<Part>,
    stock: Place,
    cluster: Place,
    _server: StockServer,
    _dir: WorkDir,
}

impl Experiment for Ticks {
    type Bench = Bench;

    fn name(&self) -> &'static str {
        "ticks"
    }

    fn title(&self) -> String {
        "Ever more datanodes and ever more loaders: ticks of an exchange, with an index on the symbol".to_owned()
    }

    fn about(&self) -> String {
        "Each load has the same rows, in order of time, sent by COPY over one, two or more connections at once; the table is distributed by \
         the symbol, and has an index on it. One stock PostgreSQL server with the datanodes' settings and the cluster take turns, for each \
         number of datanodes. All datanodes share this machine's cores and its disk: with machines of their own, their rate grows with their \
         number until coordinators or loaders set the pace."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let TicksOptions { rows, datanodes, loaders, rounds } = &self.0;
        let [datanodes, loaders] =
            [datanodes, loaders].map(|list| list.iter().map(u16::to_string).collect::<Vec<_>>().join(", "));
        settings(&[("rows", rows), ("datanodes", &datanodes), ("loaders", &loaders), ("rounds", rounds)])
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            Figure::rate("rows_per_second", "rows/s"),
            Figure::cost("server_cpu_per_million", "CPU s"),
            Figure::cost("coordinator_cpu_per_million", "CPU s"),
            Figure::cost("busiest_cpu_per_million", "CPU s"),
            Figure::cost("lookup_ms", "ms"),
            Figure::fact("rows", "rows"),
        ]
    }

    fn stages(&self) -> Vec<Stage> {
        let seconds = 0.5 + 2.0 * self.0.rows as f64 / 1e6;
        let stage = |datanodes: &u16| {
            let of_loaders = |loaders: &u16| {
                let points = [STOCK, CLUSTER].map(|side| point(*datanodes, *loaders, side));
                Step::by_turns(&points, self.0.rounds, seconds)
            };
            Stage { steps: self.0.loaders.iter().flat_map(of_loaders).collect(), ..Stage::of(*datanodes, 2) }
        };
        self.0.datanodes.iter().map(stage).collect()
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Bench> {
        Bench::prepare(&self.0, target).await
    }

    async fn step(&self, bench: &mut Bench, step: &Step) -> Result<Readings> {
        let all = self.0.datanodes.iter().flat_map(|datanodes| self.0.loaders.iter().map(move |n| (*datanodes, *n)));
        let all = all.flat_map(|(datanodes, loaders)| [STOCK, CLUSTER].map(|side| (datanodes, loaders, side)));
        let found = all.into_iter().find(|(datanodes, loaders, side)| point(*datanodes, *loaders, side) == step.point);
        let (_, loaders, side) = found.ok_or_else(|| PgError::internal(format!("no load {}", step.point)))?;
        bench.load(if side == STOCK { &bench.stock } else { &bench.cluster }, usize::from(loaders)).await
    }

    async fn finish(&self, _: Bench) -> Result<Option<String>> {
        let text = "After every load rows were counted and volumes summed, and the rows of one symbol were found by its index.";
        Ok(Some(text.to_owned()))
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        report::sheet(&self.0, samples)
    }
}

impl Bench {
    async fn prepare(options: &TicksOptions, target: &Target) -> Result<Self> {
        if target.coordinators.is_empty() || target.datanodes.is_empty() {
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the benchmark needs a coordinator and a datanode"));
        }
        let mut patterns = Vec::new();
        for datanode in connect_all(&target.datanodes).await? {
            patterns.push(Pattern::of(&datanode).await?);
        }
        let datanodes = patterns.iter().map(|pattern| pattern.postmaster).collect();
        let dir = patterns[0].make_dir(Path::new(&format!("{}-bench-{}", target.dir.display(), std::process::id())))?;
        let server = StockServer::start(&patterns[0], dir.path(), "stock")?;
        Ok(Self {
            parts: rows::write(dir.path(), options.rows, options.parts())?,
            stock: Place {
                uris: vec![server.uri.clone()],
                servers: vec![server.uri.clone()],
                roles: Roles { datanodes: vec![server.postmaster], ..Roles::default() },
                clause: "",
            },
            cluster: Place {
                uris: target.coordinators.clone(),
                servers: target.datanodes.clone(),
                roles: Roles::of(&target.dir, datanodes)?,
                clause: "DISTRIBUTE BY HASH (symbol)",
            },
            _server: server,
            _dir: dir,
        })
    }

    async fn load(&self, place: &Place, loaders: usize) -> Result<Readings> {
        let uris: Vec<String> = place.uris.iter().cycle().take(loaders).cloned().collect();
        let clients = connect_all(&uris).await?;
        sql::run(&clients[0], &format!("DROP TABLE IF EXISTS {TABLE}")).await?;
        sql::run(&clients[0], &format!("CREATE TABLE {TABLE} ({}) {}", rows::COLUMNS, place.clause)).await?;
        sql::run(&clients[0], &format!("CREATE INDEX ON {TABLE} (symbol)")).await?;
        for server in connect_all(&place.servers).await? {
            sql::run(&server, "CHECKPOINT").await?;
        }
        let servers = || cpu::each_seconds(&place.roles.datanodes);
        let between = || cpu::tree_seconds(&[&place.roles.coordinators[..], &place.roles.gtm].concat());
        let (servers_before, between_before, began) = (servers()?, between()?, Instant::now());
        try_join_all(clients.iter().enumerate().map(|(number, client)| self.send(client, number, loaders))).await?;
        let seconds = began.elapsed().as_secs_f64();
        let between_used = between()? - between_before;
        let used: Vec<f64> = servers()?.iter().zip(&servers_before).map(|(after, before)| after - before).collect();
        let lookup_ms = self.check(&clients[0]).await?;
        sql::run(&clients[0], &format!("DROP TABLE {TABLE}")).await?;
        let rows = self.parts.iter().map(|part| part.rows).sum::<u64>() as f64;
        let per_million = 1e6 / rows;
        Ok(Readings::default()
            .figure("rows_per_second", rows / seconds)
            .figure("rows", rows)
            .figure("server_cpu_per_million", used.iter().sum::<f64>() * per_million)
            .figure("busiest_cpu_per_million", used.iter().copied().fold(0.0, f64::max) * per_million)
            .figure("coordinator_cpu_per_million", between_used * per_million)
            .figure("lookup_ms", lookup_ms))
    }

    /// Every so-manieth file, one after the other.
    async fn send(&self, client: &Client, number: usize, loaders: usize) -> Result<()> {
        for part in self.parts.iter().skip(number).step_by(loaders) {
            let copy = format!("COPY {TABLE} FROM STDIN (FORMAT csv)");
            let sent = copy_in::copy_file(client, &copy, &part.path, None).await?;
            if sent != part.rows {
                return Err(PgError::internal(format!("{sent} of {} rows were loaded", part.rows)));
            }
        }
        Ok(())
    }

    /// All rows are there; gives the milliseconds in which those of one symbol were found.
    async fn check(&self, client: &Client) -> Result<f64> {
        let total = |of: fn(&Part) -> u64| self.parts.iter().map(of).sum::<u64>();
        let wanted = [total(|part| part.rows), total(|part| part.volume)].map(|number| number.to_string());
        let found = sql::table(client, &format!("SELECT count(*), sum(volume) FROM {TABLE}")).await?;
        if found.get(1).is_none_or(|row| *row != wanted) {
            return Err(PgError::internal(format!("rows and volume are {:?}, not {wanted:?}", found.get(1))));
        }
        let (began, wanted) = (Instant::now(), total(|part| part.watched));
        let name = symbol(WATCHED);
        let rows = sql::number(client, &format!("SELECT count(*) FROM {TABLE} WHERE symbol = '{name}'")).await?;
        match rows == wanted {
            true => Ok(began.elapsed().as_secs_f64() * 1000.0),
            false => Err(PgError::internal(format!("{name} has {rows} rows, not {wanted}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loader_gets_as_many_files() {
        let parts = |loaders: &[u16]| TicksOptions { loaders: loaders.to_vec(), ..TicksOptions::full() }.parts();
        assert_eq!((parts(&[1, 2, 4, 8]), parts(&[3, 2]), parts(&[1])), (8, 6, 1));
        assert_eq!(parts(&[7, 16, 30]), 30);
    }
}
