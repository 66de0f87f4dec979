//! What CH-benCHmark has found: rates alone and beside each other, and the time of each query.

use super::ch::{ALONE, BESIDE, COUNT, FAILED, milliseconds};
use super::sides::{CLUSTER, DIRECT, TRANSFER, point};
use crate::suite::{Cell, Chart, Samples, Sheet, Table};

const SIDES: [&str; 2] = [DIRECT, CLUSTER];

pub(super) fn sheet(samples: &Samples) -> Sheet {
    let names: Vec<String> = (1..=COUNT).map(|number| format!("Q{number}")).collect();
    let chart = |what: &str| {
        let values = |name: &str, side: &str| {
            let number = names.iter().position(|known| known == name).map_or(0, |at| at + 1);
            samples.values(&point(what, side), &milliseconds(number))
        };
        Chart::bars(&format!("Milliseconds of a query: {what}"), "ms", &names, &SIDES, values)
    };
    Sheet {
        findings: findings(samples),
        tables: vec![rates(samples), times(samples, &names), sums(samples)],
        charts: vec![chart(ALONE), chart(BESIDE)],
    }
}

fn rates(samples: &Samples) -> Table {
    let columns = ["load", "figure", DIRECT, CLUSTER, "cluster / direct"];
    let mut table = Table::new("Queries an hour, and new orders per minute", &columns);
    let figures = [
        (ALONE, "queries_per_hour", "queries/h"),
        (ALONE, "server_cpu_us", "CPU µs of a query: servers"),
        (ALONE, "coordinator_cpu_us", "CPU µs of a query: coordinators"),
        (BESIDE, "queries_per_hour", "queries/h"),
        (BESIDE, "tpmc", "tpmC"),
        (BESIDE, "new_order_latency_ms", "ms of a New-Order"),
        (BESIDE, "new_order_p99_ms", "99 % of them, ms"),
    ];
    for (load, figure, name) in figures {
        let mut row = vec![Cell::text(load), Cell::text(name)];
        row.extend(SIDES.map(|side| samples.cell(&point(load, side), figure, 1)));
        row.push(samples.ratio(figure, &point(load, CLUSTER), &point(load, DIRECT)));
        table.push(row);
    }
    table
}

fn times(samples: &Samples, names: &[String]) -> Table {
    let columns =
        ["query", "direct", "cluster", "cluster / direct", "beside: direct", "beside: cluster", "cluster / direct"];
    let mut table = Table::new("Milliseconds of a query, alone and beside TPC-C", &columns);
    for (at, name) in names.iter().enumerate() {
        let figure = milliseconds(at + 1);
        let mut row = vec![Cell::text(name)];
        for load in [ALONE, BESIDE] {
            row.extend(SIDES.map(|side| samples.cell(&point(load, side), &figure, 0)));
            row.push(samples.ratio(&figure, &point(load, CLUSTER), &point(load, DIRECT)));
        }
        table.push(row);
    }
    table
}

fn sums(samples: &Samples) -> Table {
    let columns = ["load", "transfers/s", "sums/s", "wrong sums"];
    let mut table = Table::new("Transfer-sum: money moved between datanodes and summed beside the load", &columns);
    let figures = ["transfers_per_second", "sums_per_second", "wrong_sums"];
    let cells = figures.map(|figure| samples.cell(&point(BESIDE, TRANSFER), figure, 0));
    table.push(std::iter::once(Cell::text(BESIDE)).chain(cells).collect());
    table
}

fn findings(samples: &Samples) -> Vec<String> {
    let mut all = Vec::new();
    let drop = |side: &str, figure: &str| {
        let of = |load| samples.median(&point(load, side), figure);
        Some((of(BESIDE)? / of(ALONE)? - 1.0) * 100.0)
    };
    if let (Some(direct), Some(cluster)) = (drop(DIRECT, "queries_per_hour"), drop(CLUSTER, "queries_per_hour")) {
        all.push(format!(
            "Beside TPC-C the queries' rate changes by {direct:+.0} % on one server, by {cluster:+.0} % on the cluster."
        ));
    }
    for load in [ALONE, BESIDE] {
        if let Some(failed) = samples.word(&point(load, CLUSTER), FAILED) {
            all.push(format!("The cluster has not answered, {load}: {failed}"));
        }
    }
    if let Some(wrong) = samples.median(&point(BESIDE, TRANSFER), "wrong_sums") {
        all.push(match wrong {
            0.0 => "No sum was wrong while money moved between datanodes beside both.".to_owned(),
            _ => format!("{wrong:.0} SUMS WERE WRONG while money moved between datanodes beside both."),
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{Readings, Sample, THIS};

    fn sample(point: String, per_hour: f64, failed: Option<&str>) -> Sample {
        let mut readings = Readings::default().figure("queries_per_hour", per_hour).figure("q1_ms", 2.0);
        readings = failed.into_iter().fold(readings, |readings, text| readings.word(FAILED, text));
        let build = THIS.to_owned();
        Sample { point, build, round: 1, seconds: 1.0, others_cores: 0.0, readings }
    }

    #[test]
    fn what_is_not_answered_is_said_first() {
        let samples = [
            sample(point(ALONE, DIRECT), 100.0, None),
            sample(point(ALONE, CLUSTER), 200.0, Some("Q5: no")),
            sample(point(BESIDE, DIRECT), 50.0, None),
            sample(point(BESIDE, CLUSTER), 150.0, None),
        ];
        let sheet = sheet(&Samples::of(&samples, THIS));
        assert_eq!(
            sheet.findings,
            [
                "Beside TPC-C the queries' rate changes by -50 % on one server, by -25 % on the cluster.",
                "The cluster has not answered, queries alone: Q5: no",
            ]
        );
        assert_eq!((sheet.tables[0].rows.len(), sheet.tables[1].rows.len()), (2, 1));
        assert_eq!(sheet.tables[0].rows[0][4].shown(), "2.00");
    }
}
