//! Charts as SVG inside a page: colours are the page's variables, so that they follow its light or dark scheme.

use std::fmt::Write;

use super::html::escape;
use super::result::{Axis, Chart, Kind, Point, Series};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 46.0;
/// Colours of the page.
pub(super) const COLORS: usize = 8;
/// Lines across the picture, about.
const TICKS: f64 = 5.0;
/// The part of a group's width that its bars fill.
const GROUP_SHARE: f64 = 0.8;
/// Names below the bars that fit without being turned.
const NAME_CHARS: usize = 9;
/// A turned name takes so much height a character.
const TURNED_HEIGHT: f64 = 6.0;

/// From where to where an axis goes, in values, and where that is in the picture.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Scale {
    /// Round numbers that hold all values; a linear one begins at 0.
    fn vertical(chart: &Chart) -> Self {
        let heights = |series: &Series| -> Vec<f64> {
            let all = series.points.iter().flat_map(|point| [Some(point.y), point.range.map(|range| range.1)]);
            all.flatten().collect()
        };
        let mut values: Vec<f64> = match chart.kind {
            Kind::Stacked => (0..chart.x.categories.len()).map(|at| stack(&chart.series, at as f64)).collect(),
            Kind::Lines | Kind::Bars => chart.series.iter().flat_map(heights).collect(),
        };
        values.extend(chart.references.iter().map(|mark| mark.at));
        values.retain(|value| value.is_finite());
        let high = values.iter().copied().fold(0.0, f64::max);
        let (from, to) = (HEIGHT - BOTTOM, TOP);
        if chart.y.logarithmic {
            let low = values.iter().copied().filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
            let (low, high) = if low < high { (low, high) } else { (1.0, 10.0) };
            let (low, high) = (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil()));
            return Self { low, high: high.max(low * 10.0), from, to, logarithmic: true };
        }
        let high = if high > 0.0 { high } else { 1.0 };
        let step = nice_step(high / TICKS);
        Self { low: 0.0, high: (high / step).ceil() * step, from, to, logarithmic: false }
    }

    /// As far as the points go.
    fn horizontal(chart: &Chart) -> Self {
        let (from, to) = (LEFT, WIDTH - RIGHT);
        if chart.kind != Kind::Lines {
            let count = chart.x.categories.len().max(1) as f64;
            return Self { low: -0.5, high: count - 0.5, from, to, logarithmic: false };
        }
        let all =
            || chart.series.iter().flat_map(|series| &series.points).map(|point| point.x).filter(|x| x.is_finite());
        let (low, high) = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN, f64::max));
        let (low, high) = match low.total_cmp(&high) {
            std::cmp::Ordering::Less => (low, high),
            std::cmp::Ordering::Equal => (low - 0.5, low + 0.5),
            std::cmp::Ordering::Greater => (0.0, 1.0),
        };
        Self { low, high, from, to, logarithmic: chart.x.logarithmic && low > 0.0 }
    }

    fn place(&self, value: f64) -> f64 {
        let share = match self.logarithmic {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + share * (self.to - self.from)
    }

    /// Where a line goes across.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let powers = (self.high / self.low).log10().round() as i32;
            return (0..=powers).map(|power| self.low * 10f64.powi(power)).collect();
        }
        let step = nice_step((self.high - self.low) / TICKS);
        let first = (self.low / step).ceil() as i64;
        (first..).map(|n| n as f64 * step).take_while(|value| *value <= self.high + step * 1e-6).collect()
    }
}

/// All series at one place.
fn stack(series: &[Series], x: f64) -> f64 {
    series.iter().flat_map(|series| &series.points).filter(|point| point.x == x).map(|point| point.y).sum()
}

/// 1, 2 or 5 times a power of ten, at least `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].iter().map(|times| times * power).find(|step| *step >= least * 0.999).unwrap_or(10.0 * power)
}

/// 1500000 as `1.5M`.
fn short(value: f64) -> String {
    let (divisor, unit) = match value.abs() {
        v if v >= 1e9 => (1e9, "G"),
        v if v >= 1e6 => (1e6, "M"),
        v if v >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let text = format!("{:.3}", value / divisor);
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A figure with its title and legend.
pub(super) fn figure(chart: &Chart) -> String {
    let mut text = format!("<figure>\n<h4>{}</h4>\n", escape(&chart.title));
    let (x, y) = (Scale::horizontal(chart), Scale::vertical(chart));
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{}\">",
        HEIGHT + names_height(chart),
        escape(&chart.title)
    );
    frame(&mut text, chart, &x, &y);
    match chart.kind {
        Kind::Lines => chart.series.iter().enumerate().for_each(|(n, series)| curve(&mut text, n, series, &x, &y)),
        Kind::Bars | Kind::Stacked => bars(&mut text, chart, &x, &y),
    }
    for mark in &chart.references {
        let (label, at) = (escape(&mark.label), y.place(mark.at));
        let _ = writeln!(
            text,
            "<line class=\"ref\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" data-value=\"{}\"/>\
             <text class=\"note\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            WIDTH - RIGHT,
            mark.at,
            WIDTH - RIGHT - 4.0,
            at - 4.0
        );
    }
    for mark in &chart.marks {
        let (label, at) = (escape(&mark.label), x.place(mark.at));
        let _ = writeln!(
            text,
            "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\" data-value=\"{}\"><title>{label}</title></line>",
            HEIGHT - BOTTOM,
            mark.at
        );
    }
    text.push_str("</svg>\n<figcaption>");
    for (n, series) in chart.series.iter().enumerate() {
        let dashed = if series.dashed { " dashed" } else { "" };
        let _ = write!(text, "<span class=\"key c{}{dashed}\"></span>{} ", n % COLORS, escape(&series.name));
    }
    let mut marks: Vec<&str> = chart.marks.iter().map(|mark| mark.label.as_str()).collect();
    marks.dedup();
    for label in marks {
        let _ = write!(text, "<span class=\"key upright\"></span>{} ", escape(label));
    }
    text + "</figcaption>\n</figure>\n"
}

/// Lines across, numbers and names.
fn frame(text: &mut String, chart: &Chart, x: &Scale, y: &Scale) {
    for value in y.ticks() {
        let at = y.place(value);
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            short(value)
        );
    }
    match chart.kind {
        Kind::Lines => {
            for value in places(chart, x) {
                below(text, x.place(value), &short(value), false);
            }
        }
        Kind::Bars | Kind::Stacked => {
            let is_turned = is_turned(&chart.x);
            for (n, name) in chart.x.categories.iter().enumerate() {
                below(text, x.place(n as f64), name, is_turned);
            }
        }
    }
    let _ = writeln!(
        text,
        "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text class=\"axis\" x=\"{LEFT}\" y=\"11\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT + names_height(chart) - 8.0,
        escape(&chart.x.label),
        escape(&chart.y.label)
    );
}

/// A name or number below the axis.
fn below(text: &mut String, at: f64, name: &str, is_turned: bool) {
    let (top, name) = (HEIGHT - BOTTOM + 16.0, escape(name));
    let how = match is_turned {
        true => format!("text-anchor=\"end\" transform=\"rotate(-60 {at:.1} {top:.1})\""),
        false => "text-anchor=\"middle\"".to_owned(),
    };
    let _ = writeln!(text, "<text x=\"{at:.1}\" y=\"{top:.1}\" {how}>{name}</text>");
}

/// What turned names need more than others.
fn names_height(chart: &Chart) -> f64 {
    let longest = chart.x.categories.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    if is_turned(&chart.x) { longest as f64 * TURNED_HEIGHT } else { 0.0 }
}

fn is_turned(axis: &Axis) -> bool {
    axis.categories.len() > 4 && axis.categories.iter().any(|name| name.chars().count() > NAME_CHARS)
}

/// Few different values stand below the axis themselves.
fn places(chart: &Chart, scale: &Scale) -> Vec<f64> {
    let mut all: Vec<f64> = chart.series.iter().flat_map(|series| &series.points).map(|point| point.x).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    if all.len() <= 8 { all } else { scale.ticks() }
}

fn tip(series: &Series, x: &str, point: &Point) -> String {
    let range = point.range.map_or(String::new(), |(low, high)| format!(" ({} to {})", short(low), short(high)));
    escape(&format!("{}, {x}: {}{range}", series.name, short(point.y)))
}

fn curve(text: &mut String, number: usize, series: &Series, x: &Scale, y: &Scale) {
    let color = number % COLORS;
    let points: Vec<&Point> = series.points.iter().filter(|point| point.x.is_finite() && point.y.is_finite()).collect();
    let line: Vec<String> =
        points.iter().map(|point| format!("{:.1},{:.1}", x.place(point.x), y.place(point.y))).collect();
    let dashed = if series.dashed { " dashed" } else { "" };
    let _ = writeln!(text, "<polyline class=\"line s{color}{dashed}\" points=\"{}\"/>", line.join(" "));
    // Many points are a line, with nothing to point at.
    let radius = if series.dashed || points.len() > 60 { 1.0 } else { 3.5 };
    for point in points {
        let (at, height) = (x.place(point.x), y.place(point.y));
        if let Some((low, high)) = point.range {
            let _ = writeln!(
                text,
                "<line class=\"range s{color}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                y.place(low),
                y.place(high)
            );
        }
        let _ = writeln!(
            text,
            "<circle class=\"dot f{color}\" cx=\"{at:.1}\" cy=\"{height:.1}\" r=\"{radius}\" data-x=\"{}\" data-value=\"{}\">\
             <title>{}</title></circle>",
            point.x,
            point.y,
            tip(series, &short(point.x), point)
        );
    }
}

fn bars(text: &mut String, chart: &Chart, x: &Scale, y: &Scale) {
    let unit = x.place(1.0) - x.place(0.0);
    let side_by_side = if chart.kind == Kind::Bars { chart.series.len().max(1) as f64 } else { 1.0 };
    let width = unit * GROUP_SHARE / side_by_side;
    let mut below = vec![0.0; chart.x.categories.len()];
    for (number, series) in chart.series.iter().enumerate() {
        for point in &series.points {
            let Some(name) = chart.x.categories.get(point.x as usize) else { continue };
            let base = &mut below[point.x as usize];
            let left = match chart.kind {
                Kind::Stacked => x.place(point.x) - width / 2.0,
                _ => x.place(point.x) - unit * GROUP_SHARE / 2.0 + width * number as f64,
            };
            let (lower, upper) = match chart.kind {
                Kind::Stacked => (*base, *base + point.y),
                _ => (y.low, point.y),
            };
            let (top, bottom) = (y.place(upper), y.place(lower));
            let _ = writeln!(
                text,
                "<rect class=\"bar f{}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" data-x=\"{}\" data-value=\"{}\">\
                 <title>{}</title></rect>",
                number % COLORS,
                (width - 1.0).max(0.5),
                (bottom - top).max(0.0),
                point.x,
                point.y,
                tip(series, name, point)
            );
            if let (Some((low, high)), Kind::Bars) = (point.range, chart.kind) {
                let middle = left + width / 2.0;
                let _ = writeln!(
                    text,
                    "<line class=\"range\" x1=\"{middle:.1}\" x2=\"{middle:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                    y.place(low),
                    y.place(high)
                );
            }
            *base += point.y;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::result::Mark;
    use super::*;

    fn chart(kind: Kind) -> Chart {
        let point = |x: f64, y: f64| Point { x, y, range: Some((y * 0.9, y * 1.1)) };
        let series = |name: &str, times: f64| Series {
            name: name.to_owned(),
            points: vec![point(0.0, 10.0 * times), point(1.0, 35.0 * times)],
            dashed: false,
        };
        let mark = |at| Mark { at, label: "<mark>".to_owned() };
        Chart {
            title: "a & b".to_owned(),
            kind,
            x: Axis::categories(["one".to_owned(), "two".to_owned()]),
            y: Axis::linear("rows/s"),
            series: vec![series("x", 1.0), series("y", 2.0)],
            references: vec![mark(50.0)],
            marks: vec![mark(0.5)],
        }
    }

    #[test]
    fn every_point_is_drawn_with_its_value() {
        for (kind, element) in [(Kind::Lines, "<circle"), (Kind::Bars, "<rect"), (Kind::Stacked, "<rect")] {
            let text = figure(&chart(kind));
            assert_eq!(text.matches(element).count(), 4, "{text}");
            for value in ["10", "35", "20", "70", "50"] {
                assert!(text.contains(&format!("data-value=\"{value}\"")), "{value}: {text}");
            }
            assert!(text.contains("a &amp; b") && text.contains("&lt;mark&gt;") && !text.contains("NaN"), "{text}");
        }
    }

    #[test]
    fn stacked_bars_end_where_the_sum_is() {
        let scale = Scale::vertical(&chart(Kind::Stacked));
        assert_eq!((scale.low, scale.high), (0.0, 150.0));
        let text = figure(&chart(Kind::Stacked));
        // 35 + 70 of 150.
        let top = format!("y=\"{:.1}\"", scale.place(105.0));
        assert!(text.contains(&top), "{top}: {text}");
    }

    #[test]
    fn scales_are_of_round_numbers() {
        assert_eq!(["0.7", "1", "3", "1200"].map(|n| nice_step(n.parse().unwrap())), [1.0, 1.0, 5.0, 2000.0]);
        let mut logarithmic = chart(Kind::Lines);
        logarithmic.y.logarithmic = true;
        let scale = Scale::vertical(&logarithmic);
        assert_eq!((scale.low, scale.high, scale.ticks().len()), (10.0, 100.0, 2));
        assert_eq!((short(1_500_000.0), short(2500.0), short(0.25)), ("1.5M".into(), "2500".into(), "0.25".into()));
    }

    #[test]
    fn a_single_point_is_in_the_middle() {
        let mut chart = chart(Kind::Lines);
        chart.series.iter_mut().for_each(|series| series.points.retain(|point| point.x == 1.0));
        for logarithmic in [false, true] {
            chart.x.logarithmic = logarithmic;
            let scale = Scale::horizontal(&chart);
            assert_eq!((scale.low, scale.high), (0.5, 1.5));
            assert!((scale.from..scale.to).contains(&scale.place(1.0)));
        }
    }

    #[test]
    fn nothing_measured_is_an_empty_picture() {
        for kind in [Kind::Lines, Kind::Bars, Kind::Stacked] {
            let text = figure(&Chart { kind, ..Chart::default() });
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }
}
