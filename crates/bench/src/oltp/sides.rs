//! The sides that get the statements: a stock server, PgBouncer in front of it, a coordinator.

use std::path::{Path, PathBuf};

use pgerror::{PgError, Result, SqlState};
use tokio_postgres::Client;

use crate::load::Target;
use crate::suite::{Figure, Readings, Step, WRONG};
use crate::tools::pgbouncer::{self, PgBouncer};
use crate::tools::stock::{Pattern, StockServer, WorkDir};
use crate::tools::transfer::{Accounts, SUM, Sums, TransferSum};
use crate::tools::{cpu, sql};

pub(super) const DIRECT: &str = "direct";
pub(super) const PGBOUNCER: &str = "PgBouncer";
pub(super) const CLUSTER: &str = "cluster";
/// Not one of the sides: money that moves beside the load.
pub(super) const TRANSFER: &str = "transfer-sum";

/// Accounts of the transfer-sum.
const ACCOUNTS: u32 = 1000;
/// Sessions that move money, and sessions that sum it.
const SESSIONS: (usize, usize) = (2, 2);

/// Is it installed?
pub(super) fn has_pgbouncer() -> bool {
    pgbouncer::program().is_ok()
}

/// What a report says of the side that it lacks.
pub(super) fn remark(pgbouncer: bool) -> Option<String> {
    let why = if has_pgbouncer() { "" } else { ": it is not installed (Debian's package pgbouncer)" };
    (!pgbouncer).then(|| format!("Nothing went through PgBouncer{why}."))
}

/// In the order of the turns.
pub(super) fn names(pgbouncer: bool) -> Vec<&'static str> {
    [DIRECT, PGBOUNCER, CLUSTER].into_iter().filter(|side| pgbouncer || *side != PGBOUNCER).collect()
}

/// All sides of each load by turns, and once the transfer-sum beside it.
pub(super) fn steps(labels: &[String], sides: &[&str], rounds: usize, seconds: f64) -> Vec<Step> {
    let of_label = |label: &String| {
        let points: Vec<String> = sides.iter().map(|side| point(label, side)).collect();
        let mut steps = Step::by_turns(&points, rounds, seconds);
        steps.push(Step { point: point(label, TRANSFER), round: 1, seconds });
        steps
    };
    labels.iter().flat_map(of_label).collect()
}

/// Name of a load by so many clients.
pub(super) fn by_clients(clients: u32) -> String {
    if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") }
}

/// Name of a step.
pub(super) fn point(label: &str, side: &str) -> String {
    format!("{label}: {side}")
}

/// Label and side of a step.
pub(super) fn parts(step: &Step) -> Result<(&str, &str)> {
    step.point.rsplit_once(": ").ok_or_else(|| PgError::internal(format!("no step is called \"{}\"", step.point)))
}

/// Field order is drop order: the servers stop before their directory goes.
pub(super) struct Sides {
    pgbouncer: Option<PgBouncer>,
    stock: StockServer,
    pub(super) stock_client: Client,
    pub(super) coordinator: Client,
    coordinators: Vec<String>,
    datanodes: Vec<Client>,
    datanode_pids: Vec<u32>,
    coordinator_pids: Vec<u32>,
    gtm_pids: Vec<u32>,
    pattern: Pattern,
    accounts: Accounts,
    dir: WorkDir,
}

/// Processor seconds of a turn.
pub(super) struct Used {
    servers: f64,
    between: f64,
    gtm: f64,
}

/// What every experiment on these sides measures.
pub(super) fn figures() -> Vec<Figure> {
    vec![
        Figure::cost("server_cpu_us", "µs"),
        Figure::cost("coordinator_cpu_us", "µs"),
        Figure::cost("gtm_cpu_us", "µs"),
        Figure::fact("transactions", "transactions"),
        Figure::rate("transfers_per_second", "transfers/s"),
        Figure::rate("sums_per_second", "sums/s"),
        Figure::cost("wrong_sums", "wrong sums"),
    ]
}

impl Used {
    /// Processor time of one transaction among so many, by role.
    pub(super) fn readings(&self, transactions: f64) -> Readings {
        let micros = |seconds: f64| seconds * 1e6 / transactions.max(1.0);
        Readings::default()
            .figure("transactions", transactions)
            .figure("server_cpu_us", micros(self.servers))
            .figure("coordinator_cpu_us", micros(self.between))
            .figure("gtm_cpu_us", micros(self.gtm))
    }
}

impl Sides {
    /// Starts a stock server with the datanodes' settings, and room for so many clients.
    pub(super) async fn start(target: &Target, clients: u32, pgbouncer: bool) -> Result<Self> {
        let (Some(coordinator), Some(_)) = (target.coordinators.first(), target.datanodes.first()) else {
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the benchmark needs a coordinator and a datanode"));
        };
        let (mut datanodes, mut patterns) = (Vec::new(), Vec::new());
        for uri in &target.datanodes {
            let datanode = sql::connect(uri).await?;
            patterns.push(Pattern::of(&datanode).await?);
            datanodes.push(datanode);
        }
        let datanode_pids = patterns.iter().map(|pattern| pattern.postmaster).collect();
        let connections = clients + if pgbouncer { PgBouncer::connections(clients) } else { 0 };
        let pattern = patterns.swap_remove(0).with_room_for(&datanodes[0], connections).await?;
        let work = format!("{}-bench-{}", target.dir.display(), std::process::id());
        let dir = pattern.make_dir(Path::new(&work))?;
        eprintln!("Starting a stock server with the datanodes' settings in {work}");
        let stock = StockServer::start(&pattern, dir.path(), "stock")?;
        let pgbouncer = match pgbouncer {
            true => Some(PgBouncer::start(&pattern, dir.path(), &stock, clients)?),
            false => None,
        };
        let coordinator = sql::connect(coordinator).await?;
        Accounts::make(&coordinator, ACCOUNTS).await?;
        Ok(Self {
            pgbouncer,
            stock_client: sql::connect(&stock.uri).await?,
            stock,
            coordinator,
            coordinators: target.coordinators.clone(),
            accounts: Accounts::find(&target.datanodes).await?,
            datanodes,
            datanode_pids,
            coordinator_pids: cpu::find(&target.dir, &["coordinator"])?,
            gtm_pids: cpu::find(&target.dir, &["gtm"])?,
            pattern,
            dir,
        })
    }

    /// A program beside the servers'.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.pattern.program(name)
    }

    /// Where files of a run may lie.
    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where a side takes statements. A client that prepares them needs a connection of PgBouncer's for itself.
    pub(super) fn uri(&self, side: &str, prepares: bool) -> String {
        match &self.pgbouncer {
            Some(bouncer) if side == PGBOUNCER => bouncer.uri(prepares),
            _ if side == CLUSTER => self.coordinators[0].clone(),
            _ => self.stock.uri.clone(),
        }
    }

    /// Another one than that which gets the load, if there is one.
    pub(super) fn last_coordinator(&self) -> String {
        self.coordinators[self.coordinators.len() - 1].clone()
    }

    /// Lets a side work, after a checkpoint of all servers.
    pub(super) async fn turn<T>(&self, side: &str, work: impl Future<Output = Result<T>>) -> Result<(T, Used)> {
        for server in self.datanodes.iter().chain([&self.stock_client]) {
            sql::run(server, "CHECKPOINT").await?;
        }
        let (servers, between, gtm) = match &self.pgbouncer {
            Some(bouncer) if side == PGBOUNCER => (vec![self.stock.postmaster], vec![bouncer.pid()], Vec::new()),
            _ if side == CLUSTER => (self.datanode_pids.clone(), self.coordinator_pids.clone(), self.gtm_pids.clone()),
            _ => (vec![self.stock.postmaster], Vec::new(), Vec::new()),
        };
        let used = || -> Result<[f64; 3]> {
            Ok([cpu::tree_seconds(&servers)?, cpu::tree_seconds(&between)?, cpu::tree_seconds(&gtm)?])
        };
        let before = used()?;
        let done = work.await?;
        let after = used()?;
        Ok((done, Used { servers: after[0] - before[0], between: after[1] - before[1], gtm: after[2] - before[2] }))
    }

    /// Moves and sums money beside a load that goes through the coordinator.
    pub(super) async fn transfer_sum<T>(&self, load: impl Future<Output = Result<T>>) -> Result<Readings> {
        let money = TransferSum::begin(&self.accounts, &self.coordinators, SESSIONS).await?;
        load.await?;
        money.end().await.map(|sums| read(&sums))
    }

    /// At the end all money must be there; the accounts are dropped.
    pub(super) async fn end(self) -> Result<()> {
        let (sum, total) = (sql::number(&self.coordinator, SUM).await?, self.accounts.total());
        if sum != total {
            return Err(PgError::internal(format!("money was made or lost: the accounts hold {sum}, not {total}")));
        }
        sql::run(&self.coordinator, "DROP TABLE bench_account").await
    }
}

/// A wrong sum is a wrong answer.
fn read(sums: &Sums) -> Readings {
    let readings = Readings::default()
        .figure("transfers_per_second", sums.transfers_per_second)
        .figure("sums_per_second", sums.sums_per_second)
        .figure("wrong_sums", sums.wrong as f64);
    match sums.wrong {
        0 => readings,
        wrong => readings.word(WRONG, format!("{wrong} sums were not the whole money")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_load_has_its_turns_and_then_the_transfer_sum() {
        let points: Vec<String> =
            steps(&["a".to_owned()], &names(false), 2, 1.0).into_iter().map(|step| step.point).collect();
        assert_eq!(points, ["a: direct", "a: cluster", "a: direct", "a: cluster", "a: transfer-sum"]);
        let step = Step { point: point("simple: 8", CLUSTER), round: 1, seconds: 1.0 };
        assert_eq!(parts(&step).unwrap(), ("simple: 8", CLUSTER));
    }

    #[test]
    fn a_wrong_sum_is_a_wrong_answer() {
        let sums = |wrong| Sums { transfers_per_second: 1.0, sums_per_second: 2.0, wrong };
        assert!(read(&sums(0)).words.is_empty());
        let readings = read(&sums(2));
        assert_eq!((readings.figures["wrong_sums"], readings.words.contains_key(WRONG)), (2.0, true));
    }
}
