//! The 22 queries with the specification's validation parameters, and the official answers for scale factor 1.

use pgerror::{PgError, Result};
use tpchgen::q_and_a::{answers_sf1, queries};

/// How many queries there are.
pub(crate) const COUNT: usize = 22;

/// Values for `:1`, `:2`, … of each query (TPC-H 2.4, "Query Validation").
const PARAMETERS: [&[&str]; COUNT] = [
    &["90"],
    &["15", "BRASS", "EUROPE"],
    &["BUILDING", "1995-03-15"],
    &["1993-07-01"],
    &["ASIA", "1994-01-01"],
    &["1994-01-01", "0.06", "24"],
    &["FRANCE", "GERMANY"],
    &["BRAZIL", "AMERICA", "ECONOMY ANODIZED STEEL"],
    &["green"],
    &["1993-10-01"],
    &["GERMANY", "0.0001"],
    &["MAIL", "SHIP", "1994-01-01"],
    &["special", "requests"],
    &["1995-09-01"],
    &["1996-01-01"],
    &["Brand#45", "MEDIUM POLISHED", "49", "14", "23", "45", "19", "3", "36", "9"],
    &["Brand#23", "MED BOX"],
    &["300"],
    &["Brand#12", "Brand#23", "Brand#34", "1", "10", "20"],
    &["forest", "1994-01-01", "CANADA"],
    &["SAUDI ARABIA"],
    &["13", "31", "23", "29", "30", "18", "17"],
];

/// Queries of which only the first rows are asked for.
const LIMITS: [(usize, usize); 5] = [(2, 100), (3, 10), (10, 20), (18, 100), (21, 100)];

/// A query as the statements to run: what to prepare, the query itself, what to clean up.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) number: usize,
    pub(crate) before: Option<String>,
    pub(crate) sql: String,
    pub(crate) after: Option<String>,
}

/// Query `number`, 1 to 22. Views of different streams have different names.
pub(crate) fn query(number: usize, scale_factor: f64, stream: usize) -> Result<Query> {
    let missing = || PgError::internal(format!("TPC-H has no query {number}"));
    let template = queries::query(number as i32).ok_or_else(missing)?;
    let parameters = PARAMETERS.get(number - 1).ok_or_else(missing)?;
    // PostgreSQL's intervals have no precision for days.
    let mut text = template.replace(":s", &stream.to_string()).replace("day (3)", "day");
    // The longest number first: `:1` is the beginning of `:10`.
    for (i, value) in parameters.iter().enumerate().rev() {
        let value = if number == 11 && i == 1 { format!("{:.10}", 0.0001 / scale_factor) } else { (*value).to_owned() };
        text = text.replace(&format!(":{}", i + 1), &value);
    }
    let mut statements = text.split(';').map(|s| s.trim().to_owned()).filter(|s| !s.is_empty());
    let all: Vec<String> = statements.by_ref().collect();
    let [before @ .., _] = all.as_slice() else { return Err(missing()) };
    let (before, mut sql, after) = match before {
        [] => (None, all[0].clone(), None),
        [create, select] => (Some(create.clone()), select.clone(), Some(all[2].clone())),
        _ => return Err(missing()),
    };
    if let Some((_, rows)) = LIMITS.iter().find(|(limited, _)| *limited == number) {
        sql.push_str(&format!("\nlimit {rows}"));
    }
    Ok(Query { number, before, sql, after })
}

/// Does a result agree with the official answer for scale factor 1? Gives the first difference.
pub(crate) fn compare_with_official(number: usize, rows: &[Vec<String>]) -> Option<String> {
    let answer = answers_sf1::answer(number as i32)?;
    let expected: Vec<Vec<&str>> = answer
        .lines()
        .filter(|line| !line.trim().is_empty())
        .skip(1)
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    if expected.len() != rows.len() {
        return Some(format!("{} rows instead of {}", rows.len(), expected.len()));
    }
    // The answer file has the part keys of query 11 cut short.
    let first = usize::from(number == 11);
    for (i, (row, wanted)) in rows.iter().zip(&expected).enumerate() {
        if row.len() != wanted.len() {
            return Some(format!("row {}: {} columns instead of {}", i + 1, row.len(), wanted.len()));
        }
        let differs = row.iter().zip(wanted).skip(first).find(|(value, wanted)| !agrees(value.trim(), wanted));
        if let Some((value, wanted)) = differs {
            return Some(format!("row {}: {value} instead of {wanted}", i + 1));
        }
    }
    None
}

/// The answers are rounded to two digits, and some sums a little more (the specification allows 1 %).
fn agrees(value: &str, wanted: &str) -> bool {
    if value == wanted {
        return true;
    }
    match (value.parse::<f64>(), wanted.parse::<f64>()) {
        (Ok(value), Ok(wanted)) => (value - wanted).abs() <= f64::max(0.0101, wanted.abs() * 1e-6),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_has_all_its_parameters() {
        for number in 1..=COUNT {
            let query = query(number, 1.0, 0).unwrap();
            let all = [query.before, Some(query.sql), query.after];
            for text in all.into_iter().flatten() {
                let left =
                    text.match_indices(':').find(|(at, _)| text[at + 1..].starts_with(|c: char| c.is_ascii_digit()));
                assert!(left.is_none(), "query {number}: {text}");
            }
        }
        let view = |stream| query(15, 1.0, stream).unwrap().before.unwrap();
        assert!(view(0).contains("revenue0") && view(3).contains("revenue3"), "{}", view(3));
        assert!(query(11, 0.1, 0).unwrap().sql.contains("0.0010000000"));
    }

    #[test]
    fn numbers_agree_within_their_rounding() {
        assert!(agrees("25.5220058532573370", "25.52"));
        assert!(!agrees("25.54", "25.52"));
        assert!(!agrees("FRANCE", "GERMANY"));
    }
}
