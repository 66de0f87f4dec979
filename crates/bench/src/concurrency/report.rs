//! Tables and charts of concurrent loads.

use super::{Concurrency, Method, Side, point};
use crate::suite::{Axis, Cell, Chart, Kind, Point, Samples, Series, Sheet, Table, cores};
use crate::tools::waits::Class;

pub(super) fn sheet(experiment: &Concurrency, samples: &Samples) -> Sheet {
    let mut charts: Vec<Chart> =
        Side::ALL.iter().map(|side| rates(experiment, samples, *side, "COPY", Method::is_copy)).collect();
    charts.extend(Side::ALL.iter().map(|side| rates(experiment, samples, *side, "INSERT", |method| !method.is_copy())));
    charts.extend(Side::ALL.iter().map(|side| waits(experiment, samples, *side)));
    Sheet { findings: findings(experiment, samples), tables: vec![table(experiment, samples)], charts }
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
        let share = |class: Class| samples.median(&at, &format!("share, {}", class.name())).unwrap_or_default();
        let (class, share) =
            Class::ALL.map(|class| (class, share(class))).into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let of_theory = theory(samples, method, most, side)
            .map_or(String::new(), |theory| format!(", {:.0} % of theory", rate * 100.0 / theory));
        Some(format!(
            "{at}: {} rows/s{of_theory}; backends were mostly {} ({:.0} %).",
            Cell::number(rate, 0).shown(),
            class.name(),
            share * 100.0
        ))
    };
    let all = Method::ALL.into_iter().flat_map(|method| Side::ALL.map(|side| (method, side)));
    all.filter(|(method, _)| method.is_copy()).filter_map(one).collect()
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

fn waits(experiment: &Concurrency, samples: &Samples, side: Side) -> Chart {
    let cases: Vec<(Method, u16)> = experiment.cases().filter(|(method, _)| method.is_copy()).collect();
    let name =
        |(method, processes): &(Method, u16)| format!("{} × {processes}", method.name().trim_start_matches("COPY, "));
    let of_class = |class: Class| {
        let figure = format!("share, {}", class.name());
        let one = |(at, (method, processes)): (usize, &(Method, u16))| {
            let y = samples.median(&point(*method, *processes, side), &figure)?;
            Some(Point { x: at as f64, y, range: None })
        };
        let points = cases.iter().enumerate().filter_map(one).collect();
        Series { name: class.name().to_owned(), points, dashed: false }
    };
    Chart {
        title: format!("What backends were seen to do, {}", side.name()),
        kind: Kind::Stacked,
        x: Axis::categories(cases.iter().map(name)),
        y: Axis::linear("share of looks"),
        series: Class::ALL.map(of_class).to_vec(),
        ..Chart::default()
    }
}
