//! `loxo bench tpcc`: TPC-C by the program go-tpc, through a coordinator and straight to one stock server.
//!
//! go-tpc makes tables and rows on the stock server; they are copied to the cluster, so that both sides begin with the same. All tables
//! are distributed by the warehouse, and the items are on every datanode. Of the payments go-tpc has 15 % of another warehouse's
//! customer, so some transactions commit on two datanodes. There are no waits of the keyboard (`--wait`): so few warehouses would be
//! asleep, and a rate is the aim. At the end go-tpc checks the conditions of consistency on both sides.

use pgerror::{PgError, Result};

use super::gotpc::{self, Done, GoTpc, TRANSACTIONS};
use super::sheet::Measured;
use super::sides::{self, CLUSTER, Sides, TRANSFER, has_pgbouncer};
use super::twin;
use crate::load::Target;
use crate::suite::{Experiment, Figure, Readings, Samples, Sheet, Stage, Step, settings};
use crate::tools::{program, sql};

pub use super::gotpc::program;

/// In the cluster; the stock server has no other tables.
pub(super) const SCHEMA: &str = "bench_tpcc";

pub(super) const TABLES: [(&str, &str); 9] = [
    ("warehouse", "DISTRIBUTE BY HASH (w_id)"),
    ("district", "DISTRIBUTE BY HASH (d_w_id)"),
    ("customer", "DISTRIBUTE BY HASH (c_w_id)"),
    ("history", "DISTRIBUTE BY HASH (h_w_id)"),
    ("new_order", "DISTRIBUTE BY HASH (no_w_id)"),
    ("orders", "DISTRIBUTE BY HASH (o_w_id)"),
    ("order_line", "DISTRIBUTE BY HASH (ol_w_id)"),
    ("stock", "DISTRIBUTE BY HASH (s_w_id)"),
    ("item", "DISTRIBUTE BY REPLICATION"),
];

/// What to measure.
#[derive(Clone, Debug)]
pub struct TpccOptions {
    /// Half a million rows each.
    pub warehouses: u32,
    /// Sessions, one run after the other.
    pub clients: Vec<u32>,
    /// Seconds of one run.
    pub seconds: u32,
    /// Rounds a side.
    pub rounds: usize,
    /// Also through PgBouncer.
    pub pgbouncer: bool,
}

impl TpccOptions {
    /// Ten warehouses.
    pub fn full() -> Self {
        Self { warehouses: 10, clients: vec![1, 8, 64, 256], seconds: 20, rounds: 3, pgbouncer: has_pgbouncer() }
    }

    /// Less than three minutes.
    pub fn quick() -> Self {
        Self { warehouses: 2, clients: vec![8, 64], seconds: 4, rounds: 2, ..Self::full() }
    }

    fn labels(&self) -> Vec<String> {
        self.clients.iter().map(|clients| sides::by_clients(*clients)).collect()
    }
}

/// The experiment.
pub struct Tpcc(pub TpccOptions);

/// What a round needs.
pub struct Bench {
    go_tpc: GoTpc,
    sides: Sides,
}

impl Experiment for Tpcc {
    type Bench = Bench;

    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn title(&self) -> String {
        "TPC-C through a coordinator and straight to one stock server".to_owned()
    }

    fn about(&self) -> String {
        "go-tpc's transactions go by turns to a coordinator and to one stock PostgreSQL server with the datanodes' settings, there also \
         through PgBouncer if it is installed. Both sides begin with the same rows. All tables are distributed by the warehouse, the items are \
         on every datanode. There is no keying and thinking time, so the rates are not those of an audited TPC-C. Times of go-tpc have steps of \
         a tenth, and of a millisecond at least; means are exact. Beside each load, in a run of its own, sessions move money between \
         datanodes and others sum it through another coordinator: no sum may be wrong."
            .to_owned()
    }

    fn settings(&self) -> Vec<(String, String)> {
        let TpccOptions { warehouses, clients, seconds, rounds, pgbouncer } = &self.0;
        let clients = clients.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        settings(&[
            ("warehouses", warehouses),
            ("clients", &clients),
            ("seconds of a round", seconds),
            ("rounds", rounds),
            ("through PgBouncer too", pgbouncer),
        ])
    }

    fn figures(&self) -> Vec<Figure> {
        gotpc::figures().into_iter().chain(sides::figures()).collect()
    }

    fn stages(&self) -> Vec<Stage> {
        let names = sides::names(self.0.pgbouncer);
        let steps = sides::steps(&self.0.labels(), &names, self.0.rounds, f64::from(self.0.seconds) + 1.0);
        vec![Stage { steps, ..Stage::of(2, 2) }]
    }

    async fn prepare(&self, _: &Stage, target: &Target) -> Result<Bench> {
        let go_tpc = GoTpc::of(self.0.warehouses)?;
        let most = self.0.clients.iter().copied().max().unwrap_or_default();
        let sides = Sides::start(target, most, self.0.pgbouncer).await?;
        fill(&go_tpc, &sides).await?;
        Ok(Bench { go_tpc, sides })
    }

    async fn step(&self, bench: &mut Bench, step: &Step) -> Result<Readings> {
        let (label, side) = sides::parts(step)?;
        let at = self.0.labels().iter().position(|known| known == label);
        let clients = at.and_then(|at| self.0.clients.get(at).copied());
        let clients = clients.ok_or_else(|| PgError::internal(format!("no load is called \"{label}\"")))?;
        match side {
            TRANSFER => bench.sides.transfer_sum(bench.round(CLUSTER, clients, self.0.seconds)).await,
            _ => bench.round(side, clients, self.0.seconds).await,
        }
    }

    async fn finish(&self, bench: Bench) -> Result<Option<String>> {
        check(&bench.go_tpc, bench.sides).await.map(Some)
    }

    fn sheet(&self, samples: &Samples) -> Sheet {
        let measured = Measured {
            samples,
            by: "clients",
            labels: self.0.labels(),
            sides: sides::names(self.0.pgbouncer),
            rate: ("tpmc", "tpmC", "new orders per minute (tpmC)"),
        };
        let mut sheet = measured.sheet();
        let kinds = TRANSACTIONS.map(|(_, prefix, name)| (prefix, name));
        sheet.tables.insert(1, measured.times("Milliseconds of a transaction", &kinds));
        sheet
    }
}

impl Bench {
    async fn round(&self, side: &str, clients: u32, seconds: u32) -> Result<Readings> {
        let schema = (side == CLUSTER).then_some(SCHEMA);
        // Go's driver prepares each statement.
        let command = self.go_tpc.run(&self.sides.uri(side, true), schema, clients, seconds)?;
        let (text, used) = self.sides.turn(side, program::output(command)).await?;
        let done = Done::read(&text)?;
        Ok(done.add_to(used.readings(done.transactions())))
    }
}

/// TPC-C's tables on both sides; gives the session that is within the cluster's schema.
pub(super) async fn fill(go_tpc: &GoTpc, sides: &Sides) -> Result<tokio_postgres::Client> {
    let cluster = sql::connect(&sides.uri(CLUSTER, false)).await?;
    twin::make_schema(&cluster, SCHEMA).await?;
    go_tpc.prepare("tpcc", &sides.uri(sides::DIRECT, false)).await?;
    twin::copy(&sides.stock_client, &cluster, &TABLES).await?;
    Ok(cluster)
}

/// At the end: are both sides consistent? The cluster is asked through another coordinator than the one that got the load.
pub(super) async fn check(go_tpc: &GoTpc, sides: Sides) -> Result<String> {
    // Condition 10 looks for the payments of each customer; without an index PostgreSQL reads all of the warehouse for each.
    let index = "CREATE INDEX ON history (h_c_w_id, h_c_d_id, h_c_id)";
    sql::run(&sides.stock_client, index).await?;
    let cluster = sql::connect(&sides.last_coordinator()).await?;
    sql::run(&cluster, &format!("SET search_path = {SCHEMA}")).await?;
    sql::run(&cluster, index).await?;
    go_tpc.check(&sides.uri(sides::DIRECT, false), None).await?;
    go_tpc.check(&sides.last_coordinator(), Some(SCHEMA)).await?;
    sql::run(&sides.coordinator, &format!("DROP SCHEMA {SCHEMA} CASCADE")).await?;
    sides.end().await?;
    Ok("Both sides have TPC-C's conditions of consistency (3.3.2.1 to 10, and 12), as go-tpc checks them, and no money was made or lost."
        .to_owned())
}
