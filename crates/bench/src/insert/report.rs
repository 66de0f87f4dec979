//! What `loxo bench insert` shows.

use super::{CLUSTER, DIRECT, Line, RELAY, SIDES, Shape};
use crate::suite::{Cell, Chart, Readings, Samples, Sheet, Table};

/// Processor time in microseconds a row: one entry a process, `servers` of them first, then coordinators and gtm, or the relay.
pub(super) fn readings(rows_per_second: f64, processes: &[f64], servers: usize) -> Readings {
    let (servers, coordinators) = processes.split_at(servers.min(processes.len()));
    Readings::default()
        .figure("rows_per_second", rows_per_second)
        .figure("server_cpu_us", servers.iter().sum())
        .figure("busiest_server_cpu_us", servers.iter().copied().fold(0.0, f64::max))
        .figure("coordinator_cpu_us", coordinators.iter().sum())
}

pub(super) fn sheet(lines: &[Line], samples: &Samples) -> Sheet {
    let mut tables = vec![rates(lines, samples)];
    if lines.iter().any(|line| line.datanodes != lines[0].datanodes) {
        tables.push(scaling(lines, samples));
    }
    let names: Vec<String> = lines.iter().map(|line| line.point("")).collect();
    let chart = Chart::bars("Rows per second", "rows/s", &names, &SIDES, |name, side| {
        samples.values(&format!("{name}{side}"), "rows_per_second")
    });
    Sheet { findings: lines.iter().filter_map(|line| finding(line, samples)).collect(), tables, charts: vec![chart] }
}

/// How close awaited INSERTs of one row come to a hop that does nothing.
fn finding(line: &Line, samples: &Samples) -> Option<String> {
    if line.shape != Shape::Each {
        return None;
    }
    let rate = |side| samples.median(&line.point(side), "rows_per_second");
    let (direct, relay, cluster) = (rate(DIRECT)?, rate(RELAY)?, rate(CLUSTER)?);
    Some(format!(
        "Awaited INSERTs of one row, rows on {}, {} datanodes: the cluster has {:.2} of the rate of a bare relay, which has {:.2} of one \
         server's.",
        line.spread.name(),
        line.datanodes,
        cluster / relay,
        relay / direct
    ))
}

fn rates(lines: &[Line], samples: &Samples) -> Table {
    let columns = [
        "shape",
        "rows on",
        "datanodes",
        "direct rows/s",
        "relay rows/s",
        "cluster rows/s",
        "cluster / direct",
        "cluster / relay",
        "CPU µs: stock",
        "CPU µs: relay",
        "CPU µs: datanodes",
        "CPU µs: coordinator",
    ];
    let mut table = Table::new("Rows per second, and processor time of a row", &columns);
    for line in lines {
        let [direct, relay, cluster] = SIDES.map(|side| line.point(side));
        table.push(vec![
            Cell::text(line.shape.name()),
            Cell::text(line.spread.name()),
            Cell::text(line.datanodes.to_string()),
            samples.cell(&direct, "rows_per_second", 0),
            samples.cell(&relay, "rows_per_second", 0),
            samples.cell(&cluster, "rows_per_second", 0),
            samples.ratio("rows_per_second", &cluster, &direct),
            samples.ratio("rows_per_second", &cluster, &relay),
            samples.cell(&direct, "server_cpu_us", 1),
            samples.cell(&relay, "coordinator_cpu_us", 1),
            samples.cell(&cluster, "server_cpu_us", 1),
            samples.cell(&cluster, "coordinator_cpu_us", 1),
        ]);
    }
    table
}

/// How work grows and the critical path shrinks with more datanodes.
fn scaling(lines: &[Line], samples: &Samples) -> Table {
    let columns =
        ["shape", "rows on", "datanodes", "CPU µs: all", "against the first", "CPU µs: critical path", "speed-up"];
    let mut table = Table::new("Processor time of a row with more datanodes", &columns);
    let sum = |line: &Line, server: &str| {
        let point = line.point(CLUSTER);
        Some(samples.median(&point, server)? + samples.median(&point, "coordinator_cpu_us")?)
    };
    for line in lines {
        let is_first = |first: &&Line| (first.shape, first.spread) == (line.shape, line.spread);
        let Some(first) = lines.iter().find(is_first) else { continue };
        let [all, path] = ["server_cpu_us", "busiest_server_cpu_us"].map(|server| sum(line, server));
        let [first_all, first_path] = ["server_cpu_us", "busiest_server_cpu_us"].map(|server| sum(first, server));
        table.push(vec![
            Cell::text(line.shape.name()),
            Cell::text(line.spread.name()),
            Cell::text(line.datanodes.to_string()),
            Cell::of(all.as_slice(), 1),
            Cell::ratio(all, first_all),
            Cell::of(path.as_slice(), 1),
            Cell::ratio(first_path, path),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::Spread;
    use super::*;
    use crate::suite::{Sample, THIS};

    #[test]
    fn awaited_rows_are_compared_with_a_bare_relay() {
        let line = |shape| Line { datanodes: 2, shape, spread: Spread::OneKey };
        let sample = |(side, rate): (&str, f64)| Sample {
            point: line(Shape::Each).point(side),
            build: THIS.to_owned(),
            round: 1,
            seconds: 1.0,
            others_cores: 0.0,
            readings: readings(rate, &[2.0, 1.5], 1),
        };
        let all = [(DIRECT, 20_000.0), (RELAY, 10_000.0), (CLUSTER, 9000.0)].map(sample);
        let sheet = sheet(&[line(Shape::Each), line(Shape::Values)], &Samples::of(&all, THIS));
        let [finding] = &sheet.findings[..] else { panic!("{:?}", sheet.findings) };
        assert!(finding.contains("0.90 of the rate of a bare relay, which has 0.50 of one server's"), "{finding}");
        let shown: Vec<String> = sheet.tables[0].rows[0].iter().map(Cell::shown).collect();
        assert_eq!((shown[6].as_str(), shown[7].as_str(), shown[9].as_str()), ("0.45", "0.90", "1.5"));
    }

    #[test]
    fn the_critical_path_is_the_busiest_server_and_what_all_need() {
        let line = |datanodes| Line { datanodes, shape: Shape::Values, spread: Spread::ManyKeys };
        let sample = |datanodes, processes: &[f64]| Sample {
            point: line(datanodes).point(CLUSTER),
            build: THIS.to_owned(),
            round: 1,
            seconds: 1.0,
            others_cores: 0.0,
            readings: readings(1.0, processes, usize::from(datanodes)),
        };
        let all = [sample(1, &[4.0, 1.0]), sample(2, &[2.5, 1.0, 0.5, 0.5])];
        let table = scaling(&[line(1), line(2)], &Samples::of(&all, THIS));
        let last: Vec<Vec<String>> = table.rows.iter().map(|row| row[3..].iter().map(Cell::shown).collect()).collect();
        assert_eq!(last, [["5.0", "1.00", "5.0", "1.00"], ["4.5", "0.90", "3.5", "1.43"]]);
    }
}
