//! The program go-tpc, which makes TPC-C's rows and runs its transactions.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pgerror::{PgError, Result, SqlState};
use serde::Deserialize;
use tokio::process::Command;

use crate::suite::{Figure, Readings};
use crate::tools::program::{self, Address};

/// The only one whose output is known to be what is read here.
const INSTALL: &str = "go install github.com/pingcap/go-tpc/cmd/go-tpc@v1.0.12";

/// As go-tpc calls the transactions, and as figures and tables do.
pub(super) const TRANSACTIONS: [(&str, &str, &str); 5] = [
    ("NEW_ORDER", "new_order_", "New-Order"),
    ("PAYMENT", "payment_", "Payment"),
    ("ORDER_STATUS", "order_status_", "Order-Status"),
    ("DELIVERY", "delivery_", "Delivery"),
    ("STOCK_LEVEL", "stock_level_", "Stock-Level"),
];

/// Where it is.
///
/// # Errors
/// SQLSTATE 42704 with the command that installs it.
pub fn program() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let places = [
        variable("GOBIN"),
        variable("GOPATH").map(|path| path.join("bin")),
        variable("HOME").map(|home| home.join("go/bin")),
    ];
    let places: Vec<PathBuf> = places.into_iter().flatten().collect();
    program::find("go-tpc", &places).ok_or_else(|| {
        PgError::new(SqlState::UNDEFINED_OBJECT, "go-tpc is not installed")
            .hint(format!("With Go, which Debian's package golang-go has: {INSTALL}"))
    })
}

/// The program that runs it, and for how many warehouses.
#[derive(Clone, Debug)]
pub(super) struct GoTpc {
    program: PathBuf,
    warehouses: u32,
}

/// What a run has done.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Done {
    /// New orders a minute.
    tpmc: f64,
    /// By go-tpc's name.
    of: BTreeMap<String, Times>,
    /// Transactions that were given up because they waited for each other, as on any server.
    deadlocks: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    count: f64,
    mean_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
}

/// What [`Done::add_to`] adds.
pub(super) fn figures() -> Vec<Figure> {
    let times = |(_, prefix, _): (&str, &str, &str)| {
        ["latency_ms", "p50_ms", "p99_ms"].map(|figure| Figure::cost(&format!("{prefix}{figure}"), "ms"))
    };
    let first = [Figure::rate("tpmc", "new orders/min"), Figure::fact("deadlocks", "deadlocks")];
    first.into_iter().chain(TRANSACTIONS.into_iter().flat_map(times)).collect()
}

impl GoTpc {
    pub(super) fn of(warehouses: u32) -> Result<Self> {
        Ok(Self { program: program()?, warehouses })
    }

    /// Makes tables with rows in a database that has none.
    pub(super) async fn prepare(&self, workload: &str, uri: &str) -> Result<()> {
        let mut command = self.command([workload, "prepare"], uri, None)?;
        // Each loads a district at a time.
        command.args(["--threads", "4"]);
        if workload == "tpcc" {
            command.arg("--no-check");
        }
        program::output(command).await.map(drop)
    }

    /// For so many seconds.
    pub(super) fn run(&self, uri: &str, schema: Option<&str>, clients: u32, seconds: u32) -> Result<Command> {
        let mut command = self.command(["tpcc", "run"], uri, schema)?;
        command.args(["--threads", &clients.to_string(), "--time", &format!("{seconds}s")]);
        // A deadlock ends a transaction and not the run. Other errors are found in what it says.
        command.args(["--ignore-error", "--output", "json"]);
        Ok(command)
    }

    /// The conditions of consistency of clause 3.3.2, for all warehouses; without the eleventh, which deliveries break.
    pub(super) async fn check(&self, uri: &str, schema: Option<&str>) -> Result<()> {
        let text = program::output(self.command(["tpcc", "check"], uri, schema)?).await?;
        match text.lines().find(|line| line.contains("failed")) {
            None if text.contains("Finished") => Ok(()),
            found => Err(program::failed("the check of TPC-C's consistency", found.unwrap_or(&text))),
        }
    }

    fn command(&self, words: [&str; 2], uri: &str, schema: Option<&str>) -> Result<Command> {
        let address = Address::of(uri)?;
        let mut command = Command::new(&self.program);
        command.args(words).args(["--driver", "postgres", "--host", &address.host]);
        command.args(["--port", &address.port.to_string(), "--user", &address.user, "--db", &address.database]);
        command.args(["--warehouses", &self.warehouses.to_string()]);
        address.environment(&mut command, schema);
        Ok(command)
    }
}

impl Done {
    /// Reads what a run with `--output json` has printed.
    pub(super) fn read(text: &str) -> Result<Self> {
        let mut done = Self::default();
        for line in text.lines() {
            if line.contains("failed, err") {
                if !line.contains("deadlock detected") {
                    return Err(program::failed("a transaction of go-tpc", line));
                }
                done.deadlocks += 1;
            }
            let Ok(rows) = serde_json::from_str::<Vec<Row>>(line) else { continue };
            for row in rows {
                row.add_to(&mut done)?;
            }
        }
        match done.tpmc > 0.0 {
            true => Ok(done),
            false => Err(program::failed("go-tpc", "It has told no tpmC: not one order was made in this time.")),
        }
    }

    pub(super) fn transactions(&self) -> f64 {
        self.of.values().map(|times| times.count).sum()
    }

    pub(super) fn add_to(&self, readings: Readings) -> Readings {
        let readings = readings.figure("tpmc", self.tpmc).figure("deadlocks", self.deadlocks as f64);
        let of = |readings: Readings, (name, prefix, _): &(&str, &str, &str)| match self.of.get(*name) {
            None => readings,
            Some(times) => readings
                .figure(&format!("{prefix}latency_ms"), times.mean_ms)
                .figure(&format!("{prefix}p50_ms"), times.p50_ms)
                .figure(&format!("{prefix}p99_ms"), times.p99_ms),
        };
        TRANSACTIONS.iter().fold(readings, of)
    }
}

/// One line of a table of go-tpc; every value is a text.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Row {
    #[serde(rename = "Prefix")]
    prefix: String,
    #[serde(rename = "Operation")]
    operation: String,
    #[serde(rename = "Count")]
    count: String,
    #[serde(rename = "Sum(ms)")]
    sum_ms: String,
    #[serde(rename = "50th(ms)")]
    p50_ms: String,
    #[serde(rename = "99th(ms)")]
    p99_ms: String,
    #[serde(rename = "tpmC")]
    tpmc: String,
}

impl Row {
    fn add_to(&self, done: &mut Done) -> Result<()> {
        let number = |text: &str| {
            text.parse::<f64>().map_err(|_| program::failed("go-tpc", &format!("It says \"{text}\" for a number.")))
        };
        if !self.tpmc.is_empty() {
            done.tpmc = number(&self.tpmc)?;
        }
        // Those of an interval, and transactions that were given up, do not count.
        if self.prefix.trim() != "[Summary]" || self.operation.ends_with("_ERR") {
            return Ok(());
        }
        let count = number(&self.count)?;
        // Its own mean is that of a histogram, whose steps are a tenth of a value and at least a millisecond.
        let mean_ms = number(&self.sum_ms)? / count.max(1.0);
        let times = Times { count, mean_ms, p50_ms: number(&self.p50_ms)?, p99_ms: number(&self.p99_ms)? };
        done.of.insert(self.operation.clone(), times);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = r#"[2026-01-01 00:00:00] execute run failed, err exec UPDATE stock failed pq: deadlock detected
[{"50th(ms)":"9.0","99th(ms)":"9.0","Count":"7","Operation":"NEW_ORDER","Prefix":"[Current] ","Sum(ms)":"63.0"}]
Finished
[{"50th(ms)":"8.0","99th(ms)":"20.5","Avg(ms)":"9.9","Count":"10","Operation":"NEW_ORDER","Prefix":"[Summary] ","Sum(ms)":"95.0"},{"50th(ms)":"1.0","99th(ms)":"1.0","Count":"1","Operation":"NEW_ORDER_ERR","Prefix":"[Summary] ","Sum(ms)":"1.0"},{"50th(ms)":"4.0","99th(ms)":"5.0","Count":"5","Operation":"PAYMENT","Prefix":"[Summary] ","Sum(ms)":"20.0"}]
[{"efficiency":"6077.2%","tpmC":"781.5","tpmTotal":"1732.6"}]
"#;

    #[test]
    fn a_summary_is_read() {
        let done = Done::read(SAID).unwrap();
        assert_eq!((done.tpmc, done.deadlocks, done.transactions()), (781.5, 1, 15.0));
        assert_eq!(done.of["NEW_ORDER"], Times { count: 10.0, mean_ms: 9.5, p50_ms: 8.0, p99_ms: 20.5 });
        let readings = done.add_to(Readings::default());
        assert_eq!(readings.figures["payment_latency_ms"], 4.0);
        assert!(!readings.figures.contains_key("delivery_p50_ms"));
    }

    #[test]
    fn an_error_that_a_server_does_not_have_to_give_fails_the_run() {
        let said = SAID.replace("deadlock detected", "column \"x\" does not exist");
        assert!(format!("{:?}", Done::read(&said).unwrap_err()).contains("does not exist"));
        assert!(Done::read("Finished\n").is_err());
    }
}
