//! Tables and charts of loads by datanodes and loaders.

use super::{CLUSTER, STOCK, TicksOptions, point};
use crate::suite::{Axis, Cell, Chart, Point, Samples, Series, Sheet, Table};

pub(super) fn sheet(options: &TicksOptions, samples: &Samples) -> Sheet {
    Sheet {
        findings: fastest(options, samples).into_iter().collect(),
        tables: vec![table(options, samples)],
        charts: vec![chart(options, samples)],
    }
}

fn table(options: &TicksOptions, samples: &Samples) -> Table {
    let columns = [
        "datanodes",
        "loaders",
        "one server rows/s",
        "cluster rows/s",
        "cluster / one server",
        "CPU s a million: one server",
        "CPU s a million: datanodes",
        "CPU s a million: busiest datanode",
        "CPU s a million: coordinators, gtm",
        "a symbol's rows, ms: one server",
        "a symbol's rows, ms: cluster",
    ];
    let mut table = Table::new("Rows per second of all loaders together", &columns);
    for (datanodes, loaders) in cases(options) {
        let [stock, cluster] = [STOCK, CLUSTER].map(|side| point(datanodes, loaders, side));
        table.push(vec![
            Cell::text(datanodes.to_string()),
            Cell::text(loaders.to_string()),
            samples.cell(&stock, "rows_per_second", 0),
            samples.cell(&cluster, "rows_per_second", 0),
            samples.ratio("rows_per_second", &cluster, &stock),
            samples.cell(&stock, "server_cpu_per_million", 3),
            samples.cell(&cluster, "server_cpu_per_million", 3),
            samples.cell(&cluster, "busiest_cpu_per_million", 3),
            samples.cell(&cluster, "coordinator_cpu_per_million", 3),
            samples.cell(&stock, "lookup_ms", 1),
            samples.cell(&cluster, "lookup_ms", 1),
        ]);
    }
    table
}

/// A curve for each number of datanodes, and one for all turns of the stock server.
fn chart(options: &TicksOptions, samples: &Samples) -> Chart {
    let curve = |name: String, sizes: &[u16], side: &str| {
        let one = |loaders: &u16| {
            let values = sizes.iter().flat_map(|size| samples.values(&point(*size, *loaders, side), "rows_per_second"));
            Point::of(f64::from(*loaders), &values.collect::<Vec<f64>>())
        };
        Series { name, points: options.loaders.iter().filter_map(one).collect(), dashed: false }
    };
    let clusters = options.datanodes.iter().map(|size| curve(format!("{size} datanodes"), &[*size], CLUSTER));
    Chart {
        title: "Rows per second by loaders".to_owned(),
        x: Axis::linear("loaders"),
        y: Axis::linear("rows/s"),
        series: clusters.chain([curve(STOCK.to_owned(), &options.datanodes, STOCK)]).collect(),
        ..Chart::default()
    }
}

fn fastest(options: &TicksOptions, samples: &Samples) -> Option<String> {
    let rate = |(datanodes, loaders): (u16, u16)| {
        let rate = samples.median(&point(datanodes, loaders, CLUSTER), "rows_per_second")?;
        Some((datanodes, loaders, rate))
    };
    let (datanodes, loaders, rate) = cases(options).filter_map(rate).max_by(|a, b| a.2.total_cmp(&b.2))?;
    Some(format!("Fastest: {datanodes} datanodes and {loaders} loaders, {} rows/s.", Cell::number(rate, 0).shown()))
}

fn cases(options: &TicksOptions) -> impl Iterator<Item = (u16, u16)> {
    options.datanodes.iter().flat_map(|datanodes| options.loaders.iter().map(move |loaders| (*datanodes, *loaders)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{Readings, Sample, THIS};

    #[test]
    fn the_fastest_is_named() {
        let sample = |(datanodes, loaders, side, rate): (u16, u16, &str, f64)| {
            let readings = Readings::default().figure("rows_per_second", rate);
            let (point, build) = (point(datanodes, loaders, side), THIS.to_owned());
            Sample { point, build, round: 1, seconds: 1.0, others_cores: 0.0, readings }
        };
        let samples = [(1, 2, STOCK, 50.0), (1, 2, CLUSTER, 40.0), (2, 2, STOCK, 70.0), (2, 2, CLUSTER, 60.0)];
        let samples = Samples::of(&samples.map(sample), THIS);
        let options = TicksOptions { datanodes: vec![1, 2], loaders: vec![2], ..TicksOptions::full() };
        let sheet = sheet(&options, &samples);
        assert_eq!(sheet.findings, ["Fastest: 2 datanodes and 2 loaders, 60 rows/s."]);
        assert_eq!(sheet.tables[0].rows[0][4].shown(), "0.80");
        let stock = &sheet.charts[0].series[2];
        assert_eq!((stock.points[0].y, stock.points[0].range), (60.0, Some((50.0, 70.0))));
    }
}
