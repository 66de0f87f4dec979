//! What datanodes have said of the number of rows that fragments give, kept for a while for all sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Tables grow and are analysed without anybody telling us.
const AGE_MAX: Duration = Duration::from_secs(20);

const TEXTS_MAX: usize = 2_000;

/// See the module's page.
#[derive(Default)]
pub(crate) struct Estimates {
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    since: Instant,
    schema_version: u64,
    rows: Arc<HashMap<String, f64>>,
}

impl Estimates {
    /// Rows by text, as far as they are known.
    pub(crate) fn known(&self, schema_version: u64) -> Arc<HashMap<String, f64>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.as_ref() {
            Some(kept) if kept.schema_version == schema_version && kept.since.elapsed() < AGE_MAX => kept.rows.clone(),
            _ => Arc::default(),
        }
    }

    pub(crate) fn add(&self, schema_version: u64, more: HashMap<String, f64>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_good = |kept: &Kept| {
            kept.schema_version == schema_version && kept.since.elapsed() < AGE_MAX && kept.rows.len() < TEXTS_MAX
        };
        match kept.as_mut().filter(|kept| is_good(kept)) {
            Some(kept) => Arc::make_mut(&mut kept.rows).extend(more),
            None => *kept = Some(Kept { since: Instant::now(), schema_version, rows: Arc::new(more) }),
        }
    }
}

/// The first line of an EXPLAIN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Expected {
    pub(crate) cost: f64,
    pub(crate) rows: f64,
}

impl Expected {
    /// `Seq Scan on t  (cost=0.00..35.50 rows=2550 width=4)`
    pub(crate) fn of(line: &str) -> Option<Self> {
        let (_, costs) = line.rsplit_once("(cost=")?;
        let (_, total) = costs.split_once("..")?;
        let (_, rows) = total.split_once(" rows=")?;
        let number = |text: &str| text.split(' ').next()?.parse().ok();
        Some(Self { cost: number(total)?, rows: number(rows)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_read_off_the_first_line() {
        assert_eq!(Expected::of("Result"), None);
        let line = "Seq Scan on t  (cost=0.00..35.50 rows=2550 width=4)";
        assert_eq!(Expected::of(line), Some(Expected { cost: 35.5, rows: 2550.0 }));
    }

    #[test]
    fn another_schema_has_no_estimates_yet() {
        let estimates = Estimates::default();
        estimates.add(1, HashMap::from([("a".to_owned(), 1.0)]));
        estimates.add(1, HashMap::from([("b".to_owned(), 2.0)]));
        assert_eq!(estimates.known(1).len(), 2);
        assert!(estimates.known(2).is_empty());
    }
}
