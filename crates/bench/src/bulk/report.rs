//! Tables and charts of bulk loads.

use super::{Bulk, Case, Question};
use crate::suite::{Axis, Cell, Chart, Kind, Mark, Point, Samples, Series, Sheet, Table, cores};
use crate::{profile, published};

pub(super) fn sheet(bulk: &Bulk, samples: &Samples) -> Sheet {
    let cases: Vec<Case> = bulk.cases().into_iter().filter(|case| samples.at(&case.point()).next().is_some()).collect();
    let mut charts = vec![rates(bulk, samples)];
    if bulk.question == Question::Scaling {
        charts.push(per_datanode(bulk, samples));
    }
    charts.push(processor_time(&cases, samples));
    charts.push(waits(&cases, samples));
    let events = "What the datanodes' backends were seen to do, by wait event (CPU is none)";
    let events = profile::table(events, cases.iter().map(|case| case.point()), samples);
    let mut tables = vec![table(&cases, samples), roles(&cases, samples), events];
    if let Some((case, rate)) = best(&cases, samples) {
        let counted = samples.median(&case.point(), "count_rows_per_second");
        let counted = counted.map(|rate| (format!("count(*): {}", case.point()), rate));
        let ours: Vec<(String, f64)> = [(case.point(), rate)].into_iter().chain(counted).collect();
        tables.push(published::rates(&ours, cores()));
    }
    Sheet { findings: findings(&cases, samples), tables, charts }
}

fn best(cases: &[Case], samples: &Samples) -> Option<(Case, f64)> {
    let rate = |case: &Case| Some((*case, samples.median(&case.point(), "rows_per_second")?));
    cases.iter().filter_map(rate).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The fastest, and what sets the pace of each size.
fn findings(cases: &[Case], samples: &Samples) -> Vec<String> {
    let best = best(cases, samples).map(|(case, rate)| {
        let (rows, scanned) =
            (Cell::number(rate, 0).shown(), samples.cell(&case.point(), "count_rows_per_second", 0).shown());
        let terabytes = samples.cell(&case.point(), "terabytes_per_hour", 3).shown();
        format!("Fastest: {}: {rows} rows/s, {terabytes} TB/h; count(*) scans {scanned} rows/s.", case.point())
    });
    let pace = |case: &Case| {
        let word = samples.word(&case.point(), "pace")?;
        Some(format!("{}: what sets the pace is {word}.", case.point()))
    };
    best.into_iter().chain(cases.iter().filter_map(pace)).collect()
}

fn table(cases: &[Case], samples: &Samples) -> Table {
    let columns = [
        "table",
        "datanodes",
        "coordinators",
        "rows/s",
        "rows/s a datanode",
        "MB/s",
        "TB/h",
        "seconds",
        "count(*), rows/s",
    ];
    let mut table = Table::new("Rate", &columns);
    for case in cases {
        let point = case.point();
        let each: Vec<f64> =
            samples.values(&point, "rows_per_second").iter().map(|rate| rate / f64::from(case.datanodes)).collect();
        table.push(vec![
            Cell::text(case.kind()),
            Cell::text(case.datanodes.to_string()),
            Cell::text(case.coordinators.to_string()),
            samples.cell(&point, "rows_per_second", 0),
            Cell::of(&each, 0),
            samples.cell(&point, "megabytes_per_second", 0),
            samples.cell(&point, "terabytes_per_hour", 3),
            samples.cell(&point, "seconds", 2),
            samples.cell(&point, "count_rows_per_second", 0),
        ]);
    }
    table
}

fn roles(cases: &[Case], samples: &Samples) -> Table {
    let columns =
        ["table", "datanodes", "coordinators", "datanodes: all", "the busiest", "coordinators: all", "this program"];
    let mut table = Table::new("Processor seconds per million rows, by role", &columns);
    for case in cases {
        let cell = |figure| samples.cell(&case.point(), figure, 3);
        table.push(vec![
            Cell::text(case.kind()),
            Cell::text(case.datanodes.to_string()),
            Cell::text(case.coordinators.to_string()),
            cell("datanode_cpu_per_million"),
            cell("busiest_datanode_cpu_per_million"),
            cell("coordinator_cpu_per_million"),
            cell("loader_cpu_per_million"),
        ]);
    }
    table
}

/// Over the number of coordinators, or of datanodes.
fn rates(bulk: &Bulk, samples: &Samples) -> Chart {
    let cases = bulk.cases();
    let point = |case: &Case, x: u16| Point::of(f64::from(x), &samples.values(&case.point(), "rows_per_second"));
    let series = |name: String, points: Vec<Point>| Series { name, points, dashed: false };
    let series: Vec<Series> = match bulk.question {
        Question::Rate => {
            let of_kind = |is_logged: bool| {
                let of_it = cases.iter().filter(|case| case.is_logged == is_logged);
                let name = if is_logged { "logged" } else { "unlogged" };
                series(name.to_owned(), of_it.filter_map(|case| point(case, case.coordinators)).collect())
            };
            bulk.kinds().map(of_kind).collect()
        }
        Question::Scaling => lines_over_datanodes(bulk, |case| point(case, case.datanodes)),
    };
    let label = if bulk.question == Question::Rate { "coordinators" } else { "datanodes" };
    let of_vcpu = published::rows_per_second_and_vcpu() * cores() as f64;
    Chart {
        title: "Rows per second".to_owned(),
        x: Axis::linear(label),
        y: Axis::linear("rows/s"),
        series,
        references: vec![Mark {
            at: of_vcpu,
            label: format!("Postgres-XL's 24 datanodes, per {} vCPUs of them", cores()),
        }],
        ..Chart::default()
    }
}

/// A line a kind and number of coordinators.
fn lines_over_datanodes(bulk: &Bulk, point: impl Fn(&Case) -> Option<Point>) -> Vec<Series> {
    let cases = bulk.cases();
    let line = |is_logged: bool, coordinators: u16| {
        let of_it = cases.iter().filter(|case| (case.is_logged, case.coordinators) == (is_logged, coordinators));
        let points: Vec<Point> = of_it.clone().filter_map(&point).collect();
        let kind = of_it.clone().next().map_or("", |case| case.kind());
        Series { name: format!("{kind}, {coordinators} coordinators"), points, dashed: false }
    };
    bulk.kinds()
        .flat_map(|kind| bulk.options.coordinators.iter().map(move |count| (kind, *count)))
        .map(|(kind, count)| line(kind, count))
        .collect()
}

fn per_datanode(bulk: &Bulk, samples: &Samples) -> Chart {
    let point = |case: &Case| {
        let rates = samples.values(&case.point(), "rows_per_second");
        let each: Vec<f64> = rates.iter().map(|rate| rate / f64::from(case.datanodes)).collect();
        Point::of(f64::from(case.datanodes), &each)
    };
    Chart {
        title: "Rows per second and datanode".to_owned(),
        x: Axis::linear("datanodes"),
        y: Axis::linear("rows/s"),
        series: lines_over_datanodes(bulk, point),
        references: vec![published::of_a_datanode()],
        ..Chart::default()
    }
}

/// What bars stand for.
const CASES: &str = "table, datanodes + coordinators";

fn short(case: &Case) -> String {
    format!("{} {}+{}", case.kind(), case.datanodes, case.coordinators)
}

fn stacked(title: &str, unit: &str, cases: &[Case], series: Vec<Series>) -> Chart {
    Chart {
        title: title.to_owned(),
        kind: Kind::Stacked,
        x: Axis { label: CASES.to_owned(), ..Axis::categories(cases.iter().map(short)) },
        y: Axis::linear(unit),
        series,
        ..Chart::default()
    }
}

fn processor_time(cases: &[Case], samples: &Samples) -> Chart {
    let roles = [
        ("datanodes", "datanode_cpu_per_million"),
        ("coordinators", "coordinator_cpu_per_million"),
        ("this program", "loader_cpu_per_million"),
    ];
    let series = roles.map(|(name, figure)| of_cases(name, cases, |case| samples.median(&case.point(), figure)));
    stacked("Processor seconds per million rows, by role", "CPU s", cases, series.to_vec())
}

fn waits(cases: &[Case], samples: &Samples) -> Chart {
    let cases: Vec<(String, String)> = cases.iter().map(|case| (short(case), case.point())).collect();
    profile::chart("What the datanodes' backends were seen to do", CASES, &cases, samples)
}

fn of_cases(name: &str, cases: &[Case], value: impl Fn(&Case) -> Option<f64>) -> Series {
    let point = |(at, case): (usize, &Case)| Some(Point { x: at as f64, y: value(case)?, range: None });
    Series { name: name.to_owned(), points: cases.iter().enumerate().filter_map(point).collect(), dashed: false }
}
