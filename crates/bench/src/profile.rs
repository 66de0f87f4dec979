//! What backends were seen to do, as figures of a sample, and as a chart and a table of many samples.

use crate::suite::{Axis, Cell, Chart, Kind, Point, Readings, Samples, Series, Table};
use crate::tools::waits::{Class, Profile};

/// Events of a profile that are kept, and those that a table shows.
const KEPT: usize = 10;
const SHOWN: usize = 3;
/// Begin of the names of the figures.
const CLASS: &str = "share, ";
const EVENT: &str = "event, ";

/// Shares of classes and of the most common events. A load too short to be seen has none: that is not the same as shares of 0.
pub(crate) fn add(mut readings: Readings, profile: &Profile) -> Readings {
    if profile.is_empty() {
        return readings;
    }
    for class in Class::ALL {
        readings = readings.figure(&format!("{CLASS}{}", class.name()), class.share(profile));
    }
    let mut events: Vec<(&String, &f64)> = profile.iter().collect();
    events.sort_by(|a, b| b.1.total_cmp(a.1));
    events.truncate(KEPT);
    events.into_iter().fold(readings, |readings, (event, share)| readings.figure(&format!("{EVENT}{event}"), *share))
}

/// Of a class, the mean over the rounds that have a profile: means add up to 1, medians do not.
fn share(samples: &Samples, point: &str, class: Class) -> Option<f64> {
    let values = samples.values(point, &format!("{CLASS}{}", class.name()));
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The class that was seen most often.
pub(crate) fn most_common(samples: &Samples, point: &str) -> Option<(Class, f64)> {
    let shares = Class::ALL.into_iter().filter_map(|class| Some((class, share(samples, point, class)?)));
    shares.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Events with their means, the most common first.
fn events(samples: &Samples, point: &str) -> Vec<(String, f64)> {
    let (mut sums, mut rounds) = (Profile::new(), 0.0);
    for sample in samples.at(point) {
        let figures = sample.readings.figures.iter();
        let seen: Vec<(&str, f64)> =
            figures.filter_map(|(name, share)| Some((name.strip_prefix(EVENT)?, *share))).collect();
        rounds += if seen.is_empty() { 0.0 } else { 1.0 };
        seen.into_iter().for_each(|(event, share)| *sums.entry(event.to_owned()).or_default() += share);
    }
    let mut all: Vec<(String, f64)> = sums.into_iter().map(|(event, sum)| (event, sum / rounds)).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// A bar a case, which has a name and a point.
pub(crate) fn chart(title: &str, label: &str, cases: &[(String, String)], samples: &Samples) -> Chart {
    let of_class = |class: Class| {
        let one = |(at, (_, point)): (usize, &(String, String))| {
            Some(Point { x: at as f64, y: share(samples, point, class)?, range: None })
        };
        let points = cases.iter().enumerate().filter_map(one).collect();
        Series { name: class.name().to_owned(), points, dashed: false }
    };
    Chart {
        title: title.to_owned(),
        kind: Kind::Stacked,
        x: Axis { label: label.to_owned(), ..Axis::categories(cases.iter().map(|(name, _)| name.clone())) },
        y: Axis::linear("share of looks"),
        series: Class::ALL.map(of_class).to_vec(),
        ..Chart::default()
    }
}

/// The most common events by their names; `CPU` is none.
pub(crate) fn table(title: &str, points: impl Iterator<Item = String>, samples: &Samples) -> Table {
    let columns = ["load", "most often", "% of looks", "then", "%", "then", "%"];
    debug_assert_eq!(columns.len(), 1 + 2 * SHOWN);
    let mut table = Table::new(title, &columns);
    for point in points {
        let mut events = events(samples, &point).into_iter();
        let mut row = vec![Cell::text(point)];
        for _ in 0..SHOWN {
            let (event, share) = events.next().unzip();
            row.push(Cell::text(event.unwrap_or_default()));
            row.push(share.map_or(Cell::text(""), |share| Cell::number(share * 100.0, 0)));
        }
        table.push(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{Sample, THIS};

    fn sample(round: usize, profile: &[(&str, f64)]) -> Sample {
        let profile = profile.iter().map(|(event, share)| ((*event).to_owned(), *share)).collect();
        let (point, build) = ("p".to_owned(), THIS.to_owned());
        let readings = add(Readings::default(), &profile);
        Sample { point, build, round, seconds: 1.0, others_cores: 0.0, readings }
    }

    #[test]
    fn a_round_that_was_too_short_to_be_seen_does_not_halve_the_others() {
        let all = [sample(1, &[]), sample(2, &[("CPU", 0.25), ("IO: WALSync", 0.75)]), sample(3, &[("CPU", 1.0)])];
        assert!(all[0].readings.figures.is_empty());
        let samples = Samples::of(&all, THIS);
        let chart = chart("t", "", &[("a".to_owned(), "p".to_owned())], &samples);
        let shares: Vec<f64> = chart.series.iter().map(|series| series.points[0].y).collect();
        assert_eq!((shares.iter().sum::<f64>(), shares[0], shares[3]), (1.0, 0.625, 0.375));
        assert_eq!(most_common(&samples, "p"), Some((Class::Computing, 0.625)));
        assert_eq!(most_common(&samples, "q"), None);
    }

    #[test]
    fn events_are_told_by_their_names() {
        let all = [sample(1, &[("CPU", 0.25), ("IO: WALSync", 0.75)]), sample(2, &[("IO: WALWrite", 1.0)])];
        let table = table("t", ["p".to_owned(), "q".to_owned()].into_iter(), &Samples::of(&all, THIS));
        let shown: Vec<String> = table.rows[0].iter().map(Cell::shown).collect();
        assert_eq!(shown, ["p", "IO: WALWrite", "50", "IO: WALSync", "38", "CPU", "12"]);
        assert_eq!(table.rows.len(), 1);
    }
}
