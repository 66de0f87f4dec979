//! Starting `ALTER CLUSTER REBALANCE`, and telling how far it is.

use std::time::Duration;

use pgerror::{PgError, Result, SqlState};

use super::coordinator;
use crate::config::Config;
use crate::progress::Progress;
use crate::sql::{Session, identifier};

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

const PROGRESS_SQL: &str = "SELECT state, buckets_done, buckets_total, rows_moved, bytes_moved, \
     extract(epoch FROM clock_timestamp() - started)::int8, message FROM pgxc_rebalance";

/// How far the moves are, as the view `pgxc_rebalance` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct Rebalance {
    pub state: String,
    pub buckets_done: u64,
    pub buckets_total: u64,
    pub rows_moved: u64,
    pub bytes_moved: u64,
    pub seconds: u64,
    pub message: String,
}

impl Rebalance {
    /// The job has not come to its end.
    fn is_under_way(&self) -> bool {
        !matches!(self.state.as_str(), "done" | "failed" | "cancelled")
    }

    fn line(&self) -> String {
        let Self { buckets_done, buckets_total, rows_moved, bytes_moved, seconds, .. } = self;
        let message = if self.message.is_empty() { String::new() } else { format!(": {}", self.message) };
        format!(
            "{buckets_done} of {buckets_total} buckets, {rows_moved} rows ({} MB) moved in {seconds} s{message}",
            bytes_moved / 1_000_000
        )
    }
}

/// Spreads the rows anew over all datanodes, or over all but the one that is to leave; says how far it is. Once started the
/// job goes on without the caller: dropping this future does not stop it. `None`: there was nothing to move.
pub async fn rebalance(config: &Config, without: Option<&str>, progress: &Progress) -> Result<Option<Rebalance>> {
    let without = without.map(|name| format!(" WITHOUT NODE {}", identifier(name))).unwrap_or_default();
    let worker = coordinator(config).await?;
    let watcher = coordinator(config).await?;
    let sql = format!("ALTER CLUSTER REBALANCE{without}");
    let mut work = std::pin::pin!(worker.run(&sql));
    let mut shown = String::new();
    // The statement may end before the job does: both are waited for.
    let mut is_started = false;
    loop {
        tokio::select! {
            ended = &mut work, if !is_started => {
                ended?;
                is_started = true;
            }
            () = tokio::time::sleep(PAUSE) => {}
        }
        let seen = look(&watcher).await?;
        if let Some(seen) = &seen
            && seen.line() != shown
            && seen.is_under_way()
        {
            shown = seen.line();
            progress.line(&shown);
        }
        match seen {
            _ if !is_started => {}
            Some(seen) if seen.is_under_way() => {}
            Some(seen) if seen.state == "done" => return Ok(Some(seen)),
            Some(seen) => {
                let text = format!("the rows were not moved completely ({}): {}", seen.state, seen.message);
                return Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
                    .hint("What has been moved is where it belongs; run the same command again for the rest."));
            }
            None => return Ok(None),
        }
    }
}

async fn look(session: &Session) -> Result<Option<Rebalance>> {
    let Some(row) = session.rows(PROGRESS_SQL).await?.into_iter().next() else { return Ok(None) };
    let mut row = row.into_iter().map(Option::unwrap_or_default);
    let mut next = || row.next().unwrap_or_default();
    let number = |text: String| text.parse().unwrap_or(0);
    Ok(Some(Rebalance {
        state: next(),
        buckets_done: number(next()),
        buckets_total: number(next()),
        rows_moved: number(next()),
        bytes_moved: number(next()),
        seconds: number(next()),
        message: next(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        let mut seen = Rebalance {
            state: "running".to_owned(),
            buckets_done: 3,
            buckets_total: 819,
            rows_moved: 40,
            bytes_moved: 2_500_000,
            seconds: 7,
            message: String::new(),
        };
        assert_eq!(seen.line(), "3 of 819 buckets, 40 rows (2 MB) moved in 7 s");
        assert!(seen.is_under_way());
        seen.message = "table t".to_owned();
        assert!(seen.line().ends_with(" s: table t"));
        seen.state = "failed".to_owned();
        assert!(!seen.is_under_way());
    }
}
