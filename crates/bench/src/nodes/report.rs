//! What was found, a column a number of datanodes.

use crate::suite::{Axis, Better, Cell, Chart, Figure, Kind, Point, Samples, Series, Sheet, Table};

/// A figure and how it is shown.
pub(super) struct Shown {
    title: &'static str,
    name: &'static str,
    unit: &'static str,
    better: Better,
    decimals: usize,
}

const fn cost(title: &'static str, name: &'static str, unit: &'static str, decimals: usize) -> Shown {
    Shown { title, name, unit, better: Better::Lower, decimals }
}

const fn rate(title: &'static str, name: &'static str, unit: &'static str) -> Shown {
    Shown { title, name, unit, better: Better::Higher, decimals: 0 }
}

pub(super) const FIGURES: [Shown; 17] = [
    rate("COPY, rows/s", "copy_rows_per_s", "rows/s"),
    cost("start, s", "cluster_start_s", "s", 1),
    cost("memory after the start, MiB", "memory_mib", "MiB", 0),
    cost("read of one row, ms", "point_ms", "ms", 2),
    cost("sum over all datanodes, ms", "sum_ms", "ms", 2),
    cost("sum beside 4 writers, local, ms", "local_ms", "ms", 2),
    cost("sum beside 4 writers, consistent, ms", "consistent_ms", "ms", 2),
    cost("what the snapshot adds, ms", "snapshot_ms", "ms", 2),
    cost("join that exchanges rows, ms", "join_ms", "ms", 1),
    cost("COMMIT of two datanodes, ms", "commit_two_ms", "ms", 2),
    cost("COMMIT of all datanodes, ms", "commit_all_ms", "ms", 2),
    cost("CREATE TABLE and DROP TABLE, ms", "ddl_ms", "ms", 1),
    cost("many clients: connections to a datanode", "connections", "connections", 0),
    rate("many clients: transactions/s", "transactions_per_s", "transactions/s"),
    rate("many clients: reads of one row/s", "reads_per_s", "reads/s"),
    cost("many clients: longest statement, ms", "longest_ms", "ms", 0),
    cost("many clients: memory, MiB", "memory_clients_mib", "MiB", 0),
];

impl Shown {
    pub(super) fn figure(&self) -> Figure {
        Figure { name: self.name.to_owned(), unit: self.unit.to_owned(), better: self.better }
    }
}

pub(super) fn point(datanodes: u16) -> String {
    format!("{datanodes} datanodes")
}

pub(super) fn sheet(sizes: &[u16], samples: &Samples) -> Sheet {
    let measured: Vec<u16> = sizes.iter().copied().filter(|size| samples.at(&point(*size)).next().is_some()).collect();
    let names: Vec<String> = measured.iter().map(u16::to_string).collect();
    let mut columns = vec!["datanodes"];
    columns.extend(names.iter().map(String::as_str));
    let mut table = Table::new("", &columns);
    for Shown { title, name, decimals, .. } in &FIGURES {
        let cells = measured.iter().map(|size| samples.cell(&point(*size), name, *decimals));
        table.push(std::iter::once(Cell::text(*title)).chain(cells).collect());
    }
    Sheet { findings: Vec::new(), tables: vec![table], charts: vec![chart(&measured, samples)] }
}

/// Both axes logarithmic: what costs twice as much with twice as many is a line that rises as steeply as a diagonal.
fn chart(sizes: &[u16], samples: &Samples) -> Chart {
    let curve = |shown: &Shown| {
        let one = |size: &u16| Point::of(f64::from(*size), &samples.values(&point(*size), shown.name));
        Series { name: shown.title.to_owned(), points: sizes.iter().filter_map(one).collect(), dashed: false }
    };
    let is_drawn = |shown: &&Shown| {
        ["point_ms", "sum_ms", "consistent_ms", "join_ms", "commit_two_ms", "commit_all_ms", "ddl_ms"]
            .contains(&shown.name)
    };
    Chart {
        title: "Times over the number of datanodes".to_owned(),
        kind: Kind::Lines,
        x: Axis::logarithmic("datanodes"),
        y: Axis::logarithmic("ms"),
        series: FIGURES.iter().filter(is_drawn).map(curve).collect(),
        ..Chart::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{Readings, Sample, THIS};

    #[test]
    fn what_one_datanode_cannot_have_is_a_dash() {
        let sample = |datanodes, two: Option<f64>| Sample {
            point: point(datanodes),
            build: THIS.to_owned(),
            round: 1,
            seconds: 1.0,
            others_cores: 0.0,
            readings: two
                .into_iter()
                .fold(Readings::default().figure("sum_ms", 1.0), |r, ms| r.figure("commit_two_ms", ms)),
        };
        let samples = Samples::of(&[sample(1, None), sample(2, Some(3.0))], THIS);
        let sheet = sheet(&[1, 2, 4], &samples);
        let shown: Vec<Vec<String>> =
            sheet.tables[0].rows.iter().map(|row| row.iter().map(Cell::shown).collect()).collect();
        assert_eq!(
            shown,
            [["sum over all datanodes, ms", "1.00", "1.00"], ["COMMIT of two datanodes, ms", "–", "3.00"]]
        );
        assert_eq!(sheet.charts[0].series.len(), 7);
    }
}
