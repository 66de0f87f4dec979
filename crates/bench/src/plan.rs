//! `loxo bench plan`: the cluster needed for a given load rate, projected from what a row has cost here.
//!
//! Processor time by role and bytes of a row are measured; that they stay the same on other machines, in other numbers, is assumed. So
//! the outcome is a projection, and says so.

use std::fmt;

use pgerror::{PgError, Result, SqlState};

use crate::suite::{Cell, Outcome, Samples, THIS, Table};

/// What is wanted, of which machines.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// Rows a second.
    pub rows_per_second: f64,
    /// Cores of each machine.
    pub cores: u32,
    /// How much of its cores a machine should use at most.
    pub busy_share: f64,
}

/// What a row costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    datanode_cpu: f64,
    coordinator_cpu: f64,
    input_bytes: f64,
    wire_bytes: f64,
    wal_bytes: f64,
}

/// The machines, and where the figures come from.
#[derive(Clone, Debug)]
pub struct Plan {
    table: Table,
    source: Table,
    notes: Vec<String>,
}

/// Projects from the outcome of `loxo bench bulk`.
///
/// # Errors
/// If it has not measured what a row costs.
pub fn plan(options: &PlanOptions, bulk: &Outcome) -> Result<Plan> {
    let samples = Samples::of(&bulk.samples, THIS);
    let mut points: Vec<&str> = bulk.samples.iter().map(|sample| sample.point.as_str()).collect();
    points.sort_unstable();
    points.dedup();
    let columns = [
        "load",
        "datanodes: cores",
        "machines",
        "coordinators: cores",
        "machines",
        "into the coordinators, Gbit/s",
        "to the datanodes, Gbit/s",
        "to each datanode, Gbit/s",
        "WAL of each datanode, MB/s",
    ];
    let title = format!(
        "Projected for {} rows/s, machines of {} cores",
        Cell::number(options.rows_per_second, 0).shown(),
        options.cores
    );
    let mut table = Table::new(title, &columns);
    let columns =
        ["load", "datanodes, CPU µs", "coordinators, CPU µs", "input bytes", "bytes to datanodes", "WAL bytes"];
    let mut source = Table::new("What a row has cost here", &columns);
    for kind in ["logged", "unlogged"] {
        let of_kind = points.iter().filter(|point| point.starts_with(&format!("{kind},")));
        let Some(cost) = cost(&samples, of_kind) else { continue };
        table.push(row(kind, options, &cost));
        source.push(vec![
            Cell::text(kind),
            Cell::number(cost.datanode_cpu * 1e6, 3),
            Cell::number(cost.coordinator_cpu * 1e6, 3),
            Cell::number(cost.input_bytes, 1),
            Cell::number(cost.wire_bytes, 1),
            Cell::number(cost.wal_bytes, 1),
        ]);
    }
    if source.rows.is_empty() {
        return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, "the report does not say what a row costs")
            .hint("Use the JSON of \"loxo bench bulk --report\"."));
    }
    let mut notes = vec![format!(
        "A PROJECTION, not a measurement: it assumes that a row costs the same on those machines as here, that streams keep all of them \
         busy to {:.0} %, and that neither network nor disks are the limit.",
        options.busy_share * 100.0
    )];
    if bulk.others_cores.median > 0.2 {
        notes.push(format!(
            "Other programs had {:.1} cores while it was measured, which makes a row dearer than it is.",
            bulk.others_cores.median
        ));
    }
    Ok(Plan { table, source, notes })
}

/// The cheapest of the loads of one kind: one coordinator or several should not matter for a row.
fn cost<'p>(samples: &Samples, points: impl Iterator<Item = &'p &'p str>) -> Option<Cost> {
    let of_point = |point: &&str| {
        let figure = |name| samples.median(point, name);
        Some(Cost {
            datanode_cpu: figure("datanode_cpu_per_million")? / 1e6,
            coordinator_cpu: figure("coordinator_cpu_per_million")? / 1e6,
            input_bytes: figure("input_bytes_a_row")?,
            wire_bytes: figure("wire_bytes_a_row")?,
            wal_bytes: figure("wal_bytes_a_row")?,
        })
    };
    let sum = |cost: &Cost| cost.datanode_cpu + cost.coordinator_cpu;
    points.filter_map(of_point).min_by(|a, b| sum(a).total_cmp(&sum(b)))
}

fn row(kind: &str, options: &PlanOptions, cost: &Cost) -> Vec<Cell> {
    let rate = options.rows_per_second;
    let machines = |cores: f64| (cores / (f64::from(options.cores) * options.busy_share)).ceil().max(1.0);
    let (datanodes, coordinators) = (rate * cost.datanode_cpu, rate * cost.coordinator_cpu);
    let gigabits = |bytes: f64| rate * bytes * 8.0 / 1e9;
    vec![
        Cell::text(kind),
        Cell::number(datanodes, 1),
        Cell::number(machines(datanodes), 0),
        Cell::number(coordinators, 1),
        Cell::number(machines(coordinators), 0),
        Cell::number(gigabits(cost.input_bytes), 1),
        Cell::number(gigabits(cost.wire_bytes), 1),
        Cell::number(gigabits(cost.wire_bytes) / machines(datanodes), 2),
        Cell::number(rate * cost.wal_bytes / 1e6 / machines(datanodes), 0),
    ]
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}", self.source, self.table)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_and_machines_follow_from_what_a_row_costs() {
        let cost = Cost {
            datanode_cpu: 0.45e-6,
            coordinator_cpu: 0.09e-6,
            input_bytes: 56.0,
            wire_bytes: 95.0,
            wal_bytes: 110.0,
        };
        let options = PlanOptions { rows_per_second: 100e6, cores: 16, busy_share: 0.8 };
        let shown: Vec<String> = row("logged", &options, &cost).iter().map(Cell::shown).collect();
        // 45 and 9 cores, of which a machine gives 12.8.
        assert_eq!(shown, ["logged", "45.0", "4", "9.0", "1", "44.8", "76.0", "19.00", "2,750"]);
    }
}
