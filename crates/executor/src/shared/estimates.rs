//! What datanodes have said of the rows that fragments give, and their cost, kept for a while for all sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use planner::Expected;

/// Tables grow and are analysed without anybody telling us.
pub(crate) const AGE_MAX: Duration = Duration::from_secs(20);

const TEXTS_MAX: usize = 2_000;

/// See the module's page.
#[derive(Default)]
pub(crate) struct Estimates {
    kept: Mutex<Option<Kept>>,
}

struct Kept {
    since: Instant,
    schema_version: u64,
    expected: Arc<HashMap<String, Expected>>,
}

impl Estimates {
    /// By text, as far as they are known.
    pub(crate) fn known(&self, schema_version: u64) -> Arc<HashMap<String, Expected>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.as_ref() {
            Some(kept) if kept.schema_version == schema_version && kept.since.elapsed() < AGE_MAX => {
                kept.expected.clone()
            }
            _ => Arc::default(),
        }
    }

    pub(crate) fn add(&self, schema_version: u64, more: HashMap<String, Expected>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_good = |kept: &Kept| {
            kept.schema_version == schema_version && kept.since.elapsed() < AGE_MAX && kept.expected.len() < TEXTS_MAX
        };
        match kept.as_mut().filter(|kept| is_good(kept)) {
            Some(kept) => Arc::make_mut(&mut kept.expected).extend(more),
            None => *kept = Some(Kept { since: Instant::now(), schema_version, expected: Arc::new(more) }),
        }
    }
}

/// From the first line of an EXPLAIN: `Seq Scan on t  (cost=0.00..35.50 rows=2550 width=4)`.
pub(crate) fn expected_of(line: &str) -> Option<Expected> {
    let (_, costs) = line.rsplit_once("(cost=")?;
    let (_, total) = costs.split_once("..")?;
    let (_, rows) = total.split_once(" rows=")?;
    let number = |text: &str| text.split(' ').next()?.parse().ok();
    Some(Expected { cost: number(total)?, rows: number(rows)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_is_read_off_the_first_line() {
        assert_eq!(expected_of("Result"), None);
        let line = "Seq Scan on t  (cost=0.00..35.50 rows=2550 width=4)";
        assert_eq!(expected_of(line), Some(Expected { cost: 35.5, rows: 2550.0 }));
    }

    #[test]
    fn another_schema_has_no_estimates_yet() {
        let estimates = Estimates::default();
        let expected = Expected { rows: 1.0, cost: 2.0 };
        estimates.add(1, HashMap::from([("a".to_owned(), expected)]));
        estimates.add(1, HashMap::from([("b".to_owned(), expected)]));
        assert_eq!(estimates.known(1).len(), 2);
        assert!(estimates.known(2).is_empty());
    }
}
