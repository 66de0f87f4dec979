//! What load, streams and refresh functions have shown.

use super::options::{Part, PowerOptions};
use super::streams::{SIDES, failed_on, wrong_on};
use crate::beside;
use crate::suite::{Cell, Samples, Table, WRONG};

/// The tables of what was measured.
pub(super) fn tables(options: &PowerOptions, datanodes: u16, samples: &Samples) -> Vec<Table> {
    let title = format!("Load, all tables together, {datanodes} datanodes");
    let load = beside::load_table_of(samples, &Part::Load.point(datanodes), &title);
    let tables = [load, streams(options, datanodes, samples), refresh(datanodes, samples)];
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn refresh(datanodes: u16, samples: &Samples) -> Table {
    let columns = ["function", "stock", "cluster", "cluster / stock", "rows afterwards"];
    let mut table = Table::new(format!("Refresh functions, milliseconds, {datanodes} datanodes"), &columns);
    for (part, name) in [(Part::Insert, "RF1, new orders come"), (Part::Delete, "RF2, old orders go")] {
        let point = part.point(datanodes);
        let milliseconds = |side| samples.values(&point, side).iter().map(|seconds| seconds * 1e3).collect::<Vec<_>>();
        let rows = samples.word(&point, WRONG).map_or("the same".to_owned(), |how| format!("WRONG: {how}"));
        table.push(vec![
            Cell::text(name),
            Cell::of(&milliseconds("stock"), 0),
            Cell::of(&milliseconds("cluster"), 0),
            Cell::ratio(samples.median(&point, "cluster"), samples.median(&point, "stock")),
            Cell::text(rows),
        ]);
    }
    table
}

fn streams(options: &PowerOptions, datanodes: u16, samples: &Samples) -> Table {
    let columns = ["side", "seconds", "queries/h", "cluster / this side", "answers"];
    let mut table = Table::new(format!("{} streams at once, {datanodes} datanodes", options.streams), &columns);
    let point = Part::Streams.point(datanodes);
    if samples.at(&point).next().is_none() {
        return table;
    }
    let number = |value: Option<f64>, decimals| value.map_or(Cell::of(&[], 0), |value| Cell::number(value, decimals));
    // Also of a side that has failed, and so has no number.
    table.rows.extend(SIDES.map(|(side, name)| {
        let seconds = samples.median(&point, side);
        let answers = match (samples.word(&point, &wrong_on(side)), samples.word(&point, &failed_on(side))) {
            (Some(how), _) => format!("WRONG: {how}"),
            (None, Some(error)) => format!("failed: {error}"),
            (None, None) => "right".to_owned(),
        };
        vec![
            Cell::text(name),
            number(seconds, 2),
            number(rate(options, datanodes, samples, side), 0),
            Cell::ratio(samples.median(&point, "cluster"), seconds),
            Cell::text(answers),
        ]
    }));
    table
}

/// Queries an hour, if all were answered.
fn rate(options: &PowerOptions, datanodes: u16, samples: &Samples, side: &str) -> Option<f64> {
    let seconds = samples.median(&Part::Streams.point(datanodes), side)?;
    Some((options.streams * options.queries.len()) as f64 * 3600.0 / seconds)
}

pub(super) fn findings(options: &PowerOptions, datanodes: u16, samples: &Samples) -> Option<String> {
    samples.at(&Part::Streams.point(datanodes)).next()?;
    let shown = |side| {
        rate(options, datanodes, samples, side)
            .map_or("not all of its".to_owned(), |rate| Cell::number(rate, 0).shown())
    };
    let [stock, workers, cluster] = SIDES.map(|(side, _)| shown(side));
    let streams = options.streams;
    Some(format!(
        "{datanodes} datanodes: {streams} streams at once get {cluster} queries/h answered, from one server {stock} without workers and \
         {workers} with them."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::power::tables::Layout;
    use crate::suite::{Readings, Sample, THIS};

    #[test]
    fn a_side_that_has_failed_is_shown() {
        let readings = Readings::default().figure("stock", 3600.0).figure("cluster", 1800.0);
        let readings = readings.word(&failed_on("stock_with_workers"), "Q3 in stream 1: no");
        let sample = |point: Part, readings| {
            let (point, build) = (point.point(2), THIS.to_owned());
            Sample { point, build, round: 1, seconds: 1.0, others_cores: 0.0, readings }
        };
        let refreshed = Readings::default().figure("stock", 0.2).figure("cluster", 0.4).word(WRONG, "orders: 1, not 2");
        let samples = [sample(Part::Streams, readings), sample(Part::Insert, refreshed)];
        let samples = Samples::of(&samples, THIS);
        let options = PowerOptions { streams: 3, queries: vec![1, 6], ..PowerOptions::quick(Layout::Mixed) };
        let tables = tables(&options, 2, &samples);
        let shown = |table: &Table, row: usize| table.rows[row].iter().map(Cell::shown).collect::<Vec<_>>();
        assert_eq!(shown(&tables[0], 0), ["stock", "3,600.00", "6", "0.50", "right"]);
        assert_eq!(shown(&tables[0], 1), ["with workers", "–", "–", "–", "failed: Q3 in stream 1: no"]);
        assert_eq!(shown(&tables[1], 0), ["RF1, new orders come", "200", "400", "2.00", "WRONG: orders: 1, not 2"]);
        assert_eq!((tables.len(), tables[1].rows.len()), (2, 1));
        let said = findings(&options, 2, &samples).unwrap();
        assert!(
            said.contains("get 12 queries/h") && said.contains("6 without workers and not all of its with"),
            "{said}"
        );
        assert_eq!(findings(&options, 4, &samples), None);
    }
}
