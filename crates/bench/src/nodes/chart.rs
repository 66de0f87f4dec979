//! Times over the number of datanodes as an SVG picture, both axes logarithmic: what costs twice as much with twice as many is a line
//! that rises as steeply as the dashed one.

use std::fmt::Write;

use super::Size;
use super::report::FIGURES;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 60.0;
/// Room for the names of the curves.
const RIGHT: f64 = 270.0;
const BOTTOM: f64 = 30.0;

/// By their names for machines.
const CURVES: [(&str, &str); 7] = [
    ("point_ms", "#1f5fa8"),
    ("sum_ms", "#27895a"),
    ("consistent_ms", "#8ab17d"),
    ("join_ms", "#c0392b"),
    ("commit_two_ms", "#e08e0b"),
    ("commit_all_ms", "#8e44ad"),
    ("ddl_ms", "#555555"),
];

/// Title, colour, points.
type Curve = (&'static str, &'static str, Vec<(f64, f64)>);

pub(super) fn svg(sizes: &[Size]) -> String {
    let curves: Vec<Curve> = CURVES
        .iter()
        .filter_map(|(name, color)| curve(name, sizes).map(|(title, points)| (title, *color, points)))
        .collect();
    let all = || curves.iter().flat_map(|(.., points)| points);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let (low, high) =
            all().map(of).fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        if low < high { (low, high) } else { (low.min(1.0), low.min(1.0) + 1.0) }
    };
    let ((x_low, x_high), (y_low, y_high)) = (range(|point| point.0), range(|point| point.1));
    let (y_low, y_high) = (y_low.floor(), y_high.ceil());
    let x = |value: f64| LEFT + (value - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - (value - y_low) / (y_high - y_low) * (HEIGHT - BOTTOM - 15.0);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    // Writing to a String cannot fail.
    for power in y_low as i32..=y_high as i32 {
        let at = y(f64::from(power));
        let _ = writeln!(
            text,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/><text x=\"5\" y=\"{:.1}\">{} ms</text>",
            WIDTH - RIGHT,
            at + 4.0,
            10f64.powi(power)
        );
    }
    for size in sizes {
        let at = x((size.datanodes as f64).log10());
        let _ = writeln!(
            text,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 8.0,
            size.datanodes
        );
    }
    let steep = (y_high - y_low).min(x_high - x_low);
    let _ = writeln!(
        text,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#aaa\" stroke-dasharray=\"4 4\"/>",
        x(x_low),
        y(y_low),
        x(x_low + steep),
        y(y_low + steep)
    );
    for (title, color, points) in &curves {
        let line: Vec<String> = points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
        let end = points.last().map_or(0.0, |(_, value)| y(*value));
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{color}\">{title}</text>",
            line.join(" "),
            WIDTH - RIGHT + 6.0,
            end + 4.0
        );
    }
    text + "</svg>\n"
}

/// Title and points of a figure, as logarithms to the base 10.
fn curve(name: &str, sizes: &[Size]) -> Option<(&'static str, Vec<(f64, f64)>)> {
    let (title, _, value, _) = FIGURES.iter().find(|(_, of, ..)| *of == name)?;
    let point = |size: &Size| value(size).map(|value| ((size.datanodes as f64).log10(), value.max(1e-3).log10()));
    Some((title, sizes.iter().filter_map(point).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_is_there() {
        let size = |datanodes| Size { datanodes, point_ms: 0.4, sum_ms: datanodes as f64, ..Size::default() };
        let text = svg(&[size(1), size(4), size(16)]);
        assert_eq!(text.matches("<polyline").count(), CURVES.len());
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(!svg(&[size(3)]).contains("NaN"));
    }
}
