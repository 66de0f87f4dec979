//! What the home node's EXPLAIN says of fragments: how many rows it expects. Kept for a while, for all sessions.
//!
//! An old or missing estimate makes a plan slower, never wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pgerror::{Result, SqlState};

use crate::call::Call;
use crate::session::{BESIDE, Mode, Session};

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
    catalog_version: u64,
    rows: Arc<HashMap<String, f64>>,
}

impl Estimates {
    /// Rows by text, as far as they are known.
    pub(crate) fn known(&self, catalog_version: u64) -> Arc<HashMap<String, f64>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.as_ref() {
            Some(kept) if kept.catalog_version == catalog_version && kept.since.elapsed() < AGE_MAX => {
                kept.rows.clone()
            }
            _ => Arc::default(),
        }
    }

    fn add(&self, catalog_version: u64, more: HashMap<String, f64>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_good = |kept: &Kept| {
            kept.catalog_version == catalog_version && kept.since.elapsed() < AGE_MAX && kept.rows.len() < TEXTS_MAX
        };
        match kept.as_mut().filter(|kept| is_good(kept)) {
            Some(kept) => Arc::make_mut(&mut kept.rows).extend(more),
            None => *kept = Some(Kept { since: Instant::now(), catalog_version, rows: Arc::new(more) }),
        }
    }
}

impl Session {
    /// Asks the home node about these texts. One that it cannot explain has no estimate.
    pub(crate) async fn estimate(&mut self, texts: &[String], call: &Call, catalog_version: u64) -> Result<()> {
        let mut rows = HashMap::new();
        // A text that cannot be explained would be the end of an open transaction.
        let asked = if self.in_block() { BESIDE } else { self.home };
        let mut canceled = None;
        for text in texts {
            match self.node_plan(asked, Mode::Autocommit, &format!("EXPLAIN {text}"), call).await {
                Ok(lines) => rows.extend(lines.first().and_then(|line| rows_of(line)).map(|rows| (text.clone(), rows))),
                Err(error) if error.code() == SqlState::QUERY_CANCELED => {
                    canceled = Some(error);
                    break;
                }
                Err(_) => {}
            }
        }
        if asked == BESIDE {
            self.let_go(BESIDE);
        }
        self.context.estimates.add(catalog_version, rows);
        canceled.map_or(Ok(()), Err)
    }
}

/// `Seq Scan on t  (cost=0.00..35.50 rows=2550 width=4)` → 2550.
fn rows_of(line: &str) -> Option<f64> {
    let (_, rest) = line.rsplit_once(" rows=")?;
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_off_the_first_line() {
        assert_eq!(rows_of("Seq Scan on t  (cost=0.00..35.50 rows=2550 width=4)"), Some(2550.0));
        assert_eq!(rows_of("Result"), None);
    }

    #[test]
    fn another_catalog_has_no_estimates_yet() {
        let estimates = Estimates::default();
        estimates.add(1, HashMap::from([("a".to_owned(), 1.0)]));
        estimates.add(1, HashMap::from([("b".to_owned(), 2.0)]));
        assert_eq!(estimates.known(1).len(), 2);
        assert!(estimates.known(2).is_empty());
    }
}
