//! Curves: in a line of text, and as an SVG picture.

use std::fmt::Write;

use super::report::Second;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Characters of a line at most; then a character stands for several seconds.
const WIDTH_MAX: usize = 100;

/// A character a second (or the mean of several), as high as its share of `highest`.
pub(crate) fn sparkline(values: &[f64], highest: f64) -> String {
    let together = values.len().div_ceil(WIDTH_MAX).max(1);
    let means = values.chunks(together).map(|chunk| chunk.iter().sum::<f64>() / chunk.len() as f64);
    let level = |value: f64| (value / highest.max(1e-9) * BLOCKS.len() as f64).ceil() as usize;
    means.map(|mean| BLOCKS[level(mean).clamp(1, BLOCKS.len()) - 1]).collect()
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 70.0;

/// Transactions a second above, 99th percentiles of writers and readers below, states as coloured grounds.
pub(crate) fn svg(seconds: &[Second]) -> String {
    let end = seconds.last().map_or(1.0, |second| second.at.as_secs_f64());
    let x = |at: f64| LEFT + at / end * (WIDTH - LEFT - 10.0);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        2.0 * HEIGHT + 90.0
    );
    let mut from = 0.0;
    for group in seconds.chunk_by(|a, b| a.state == b.state) {
        let to = group.last().map_or(from, |second| second.at.as_secs_f64());
        let (state, fill) = (group[0].state, if group[0].state == "alone" { "#f4f4f4" } else { "#e3edf9" });
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "<rect x=\"{:.1}\" y=\"25\" width=\"{:.1}\" height=\"{}\" fill=\"{fill}\" stroke=\"white\"/>\
             <text x=\"{:.1}\" y=\"18\">{state}</text>",
            x(from),
            x(to) - x(from),
            2.0 * HEIGHT + 40.0,
            x(from) + 3.0
        );
        from = to;
    }
    type Curve = (&'static str, &'static str, fn(&Second) -> f64);
    let above: [Curve; 1] = [("transactions/s", "#1f5fa8", |second| second.writers.per_second)];
    let below: [Curve; 2] = [
        ("writers' p99, ms", "#c0392b", |second| second.writers.p99_ms),
        ("readers' p99, ms", "#27895a", |second| second.readers.p99_ms),
    ];
    for (curves, bottom) in [(&above[..], HEIGHT + 25.0), (&below[..], 2.0 * HEIGHT + 65.0)] {
        let all = curves.iter().flat_map(|(.., value)| seconds.iter().map(value));
        let highest = all.fold(0.0, f64::max).max(1e-9);
        for (n, (name, color, value)) in curves.iter().enumerate() {
            let point = |second: &Second| {
                format!("{:.1},{:.1}", x(second.at.as_secs_f64()), bottom - value(second) / highest * (HEIGHT - 20.0))
            };
            let points: Vec<String> = seconds.iter().map(point).collect();
            let _ = writeln!(
                text,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{color}\">{name}</text>",
                points.join(" "),
                LEFT + 8.0 + 130.0 * n as f64,
                bottom - HEIGHT + 14.0
            );
        }
        let _ = writeln!(
            text,
            "<text x=\"5\" y=\"{:.1}\">{highest:.0}</text><text x=\"5\" y=\"{bottom:.1}\">0</text>",
            bottom - HEIGHT + 24.0
        );
    }
    let _ = writeln!(
        text,
        "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"end\">{end:.0} s</text>\n</svg>",
        WIDTH - 10.0,
        2.0 * HEIGHT + 82.0
    );
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::seen::Figures;
    use super::*;

    #[test]
    fn a_line_rises_with_its_values() {
        assert_eq!(sparkline(&[0.0, 1.0, 4.0, 8.0], 8.0), "▁▁▄█");
        assert_eq!(sparkline(&[], 8.0), "");
        assert_eq!(sparkline(&vec![1.0; 250], 1.0).chars().count(), 84);
    }

    #[test]
    fn the_picture_names_each_state_once_and_has_three_curves() {
        let second = |n: u64, state| Second {
            at: Duration::from_secs(n),
            state,
            rows_moved: 0,
            writers: Figures::default(),
            readers: Figures::default(),
        };
        let text = svg(&[second(1, "alone"), second(2, "alone"), second(3, "filling")]);
        assert_eq!(text.matches("<polyline").count(), 3);
        assert_eq!((text.matches(">alone<").count(), text.matches(">filling<").count()), (1, 1));
    }
}
