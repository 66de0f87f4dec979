//! Medians, and numbers and tables as text.

/// The middle value; the mean of the middle two; 0 for none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Half of the distance from the smallest to the greatest value, as a share of the median. `None` for fewer than two values, which
/// say nothing of how they spread, or for a median of 0.
pub(crate) fn half_range(values: &[f64]) -> Option<f64> {
    let fold = |start: f64, with: fn(f64, f64) -> f64| values.iter().copied().fold(start, with);
    let (median, range) = (median(values), fold(f64::MIN, f64::max) - fold(f64::MAX, f64::min));
    (values.len() > 1 && median != 0.0).then(|| range / 2.0 / median.abs())
}

/// 6001215 as `6,001,215`.
pub(crate) fn grouped(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

/// Columns aligned, numbers to the right, a line under the head (the first row).
pub(crate) fn text_table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let is_number = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit() || c == '-') && !cell.contains("-0");
    let right: Vec<bool> = (0..columns)
        .map(|column| rows.get(1).and_then(|row| row.get(column)).is_some_and(|cell| is_number(cell)))
        .collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().enumerate().map(|(i, cell)| match right[i] {
            true => format!("{cell:>width$}", width = widths[i]),
            false => format!("{cell:<width$}", width = widths[i]),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
        if number == 0 {
            let lines: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            text.push_str(&lines.join("  "));
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn one_value_says_nothing_of_the_spread() {
        assert_eq!((half_range(&[]), half_range(&[5.0]), half_range(&[0.0, 0.0])), (None, None, None));
        assert_eq!(half_range(&[8.0, 10.0, 14.0]), Some(0.3));
    }

    #[test]
    fn tables_line_up() {
        let rows = [vec!["name".to_owned(), "rows".to_owned()], vec!["dn1".to_owned(), "12,345".to_owned()]];
        assert_eq!(text_table(&rows), "name    rows\n────  ──────\ndn1   12,345\n");
    }
}
