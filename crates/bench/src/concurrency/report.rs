//! Tables and charts of concurrent loads.

use super::{Concurrency, Method, Side, point};
use crate::profile;
use crate::suite::{Axis, Cell, Chart, Point, Samples, Series, Sheet, Table, cores};

pub(super) fn sheet(experiment: &Concurrency, samples: &Samples) -> Sheet {
    let mut charts: Vec<Chart> =
        Side::ALL.iter().map(|side| rates(experiment, samples, *side, "COPY", Method::is_copy)).collect();
    charts.extend(Side::ALL.iter().map(|side| rates(experiment, samples, *side, "INSERT", |method| !method.is_copy())));
    for (what, is_copy) in [("COPY", true), ("INSERT", false)] {
        charts.extend(Side::ALL.map(|side| waits(experiment, samples, side, what, is_copy)));
    }
    let points =
        experiment.cases().flat_map(|(method, processes)| Side::ALL.map(|side| point(method, processes, side)));
    let events = profile::table("What backends were seen to do, by wait event (CPU is none)", points, samples);
    Sheet { findings: findings(experiment, samples), tables: vec![table(experiment, samples), events], charts }
}

/// The rate of one process times their number, up to the number of cores.
fn theory(samples: &Samples, method: Method, processes: u16, side: Side) -> Option<f64> {
    let one = samples.median(&point(method, 1, side), "rows_per_second")?;
    Some(one * f64::from(processes.min(cores() as u16)))
}

/// The most common thing that backends did at the largest number of processes.
fn findings(experiment: &Concurrency, samples: &Samples) -> Vec<String> {
    let Some(most) = experiment.0.processes.iter().copied().max() else { return Vec::new() };
    let one = |(method, side): (Method, Side)| {
        let at = point(method, most, side);
        let rate = samples.median(&at, "rows_per_second")?;
        let of_theory = theory(samples, method, most, side)
            .map_or(String::new(), |theory| format!(", {:.0} % of theory", rate * 100.0 / theory));
        let seen = profile::most_common(samples, &at).map_or(String::new(), |(class, share)| {
            format!("; backends were mostly {} ({:.0} %)", class.name(), share * 100.0)
        });
        Some(format!("{at}: {} rows/s{of_theory}{seen}.", Cell::number(rate, 0).shown()))
    };
    let all = Method::ALL.into_iter().flat_map(|method| Side::ALL.map(|side| (method, side)));
    all.filter_map(one).collect()
}

fn table(experiment: &Concurrency, samples: &Samples) -> Table {
    let columns = [
        "how",
        "processes",
        "one server rows/s",
        "of theory",
        "cluster rows/s",
        "of theory",
        "cluster / one server",
        "CPU s a million: one server",
        "CPU s a million: datanodes",
        "CPU s a million: coordinators",
    ];
    let mut table = Table::new("Rows per second of all processes together", &columns);
    for (method, processes) in experiment.cases() {
        let [stock, cluster] = Side::ALL.map(|side| point(method, processes, side));
        let of_theory = |side: Side| {
            let rate = samples.median(&point(method, processes, side), "rows_per_second");
            Cell::ratio(rate, theory(samples, method, processes, side))
        };
        table.push(vec![
            Cell::text(method.name()),
            Cell::text(processes.to_string()),
            samples.cell(&stock, "rows_per_second", 0),
            of_theory(Side::Stock),
            samples.cell(&cluster, "rows_per_second", 0),
            of_theory(Side::Cluster),
            samples.ratio("rows_per_second", &cluster, &stock),
            samples.cell(&stock, "server_cpu_per_million", 3),
            samples.cell(&cluster, "server_cpu_per_million", 3),
            samples.cell(&cluster, "coordinator_cpu_per_million", 3),
        ]);
    }
    table
}

fn rates(
    experiment: &Concurrency,
    samples: &Samples,
    side: Side,
    what: &str,
    is_shown: impl Fn(Method) -> bool,
) -> Chart {
    let processes = &experiment.0.processes;
    let methods: Vec<Method> = Method::ALL.into_iter().filter(|method| is_shown(*method)).collect();
    let curve = |method: &Method| {
        let one = |processes: &u16| {
            Point::of(f64::from(*processes), &samples.values(&point(*method, *processes, side), "rows_per_second"))
        };
        Series { name: method.name().to_owned(), points: processes.iter().filter_map(one).collect(), dashed: false }
    };
    let of_theory = |processes: &u16| {
        let y = theory(samples, *methods.first()?, *processes, side)?;
        Some(Point { x: f64::from(*processes), y, range: None })
    };
    let theory = Series {
        name: format!("theory: one process × processes, up to {} cores", cores()),
        points: processes.iter().filter_map(of_theory).collect(),
        dashed: true,
    };
    Chart {
        title: format!("{what}, {}", side.name()),
        x: Axis::linear("processes"),
        y: Axis::linear("rows/s"),
        series: methods.iter().map(curve).chain([theory]).collect(),
        ..Chart::default()
    }
}

fn waits(experiment: &Concurrency, samples: &Samples, side: Side, what: &str, is_copy: bool) -> Chart {
    let case = |(method, processes): (Method, u16)| {
        (format!("{} × {processes}", method.name().trim_start_matches("COPY, ")), point(method, processes, side))
    };
    let cases: Vec<(String, String)> =
        experiment.cases().filter(|(method, _)| method.is_copy() == is_copy).map(case).collect();
    profile::chart(&format!("What backends were seen to do, {what}, {}", side.name()), "", &cases, samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::concurrency::ConcurrencyOptions;
    use crate::suite::{Readings, Sample, THIS};
    use crate::tools::waits::Profile;

    #[test]
    fn every_point_has_its_wait_events() {
        let experiment = Concurrency(ConcurrencyOptions { processes: vec![1, 2], ..ConcurrencyOptions::quick() });
        let profile = Profile::from([("Lock: extend".to_owned(), 0.75), ("CPU".to_owned(), 0.25)]);
        let sample = |(method, processes): (Method, u16)| Sample {
            point: point(method, processes, Side::Cluster),
            build: THIS.to_owned(),
            round: 1,
            seconds: 1.0,
            others_cores: 0.0,
            readings: profile::add(Readings::default().figure("rows_per_second", 1000.0), &profile),
        };
        let all: Vec<Sample> = experiment.cases().map(sample).collect();
        let sheet = sheet(&experiment, &Samples::of(&all, THIS));
        let [_, events] = &sheet.tables[..] else { panic!("{:?}", sheet.tables) };
        assert_eq!((events.rows.len(), events.rows[0][1].shown()), (all.len(), "Lock: extend".to_owned()));
        let inserts = sheet.charts.iter().find(|chart| chart.title == "What backends were seen to do, INSERT, cluster");
        let drawn: f64 = inserts.unwrap().series.iter().flat_map(|series| &series.points).map(|point| point.y).sum();
        // INSERTs and transactions, by one process and by two.
        assert_eq!(drawn, 4.0);
        assert!(
            sheet.findings.iter().any(|finding| finding.starts_with("INSERTs of 1,000 rows, 2 processes: cluster"))
        );
    }
}
