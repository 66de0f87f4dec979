//! Starting `ALTER CLUSTER REBALANCE`, and telling how far it is.

use std::time::Duration;

use pgerror::{PgError, Result, SqlState};
use serde::Serialize;

use super::{coordinator, primary, read_members};
use crate::config::Config;
use crate::progress::Progress;
use crate::sql::{Session, identifier};

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

const PROGRESS_SQL: &str = "SELECT state, buckets_done, buckets_total, rows_moved, bytes_moved, \
     extract(epoch FROM changed - started)::int8, rows_per_second::int8, extract(epoch FROM time_left)::int8, message FROM pgxc_rebalance";

/// The nodes that a rebalance which is under way empties.
const UNDER_WAY_SQL: &str = "SELECT array_to_string(without, ' ') FROM loxo.rebalance WHERE state = 'running'";

/// How far the moves are, as the view `pgxc_rebalance` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Rebalance {
    pub state: String,
    pub buckets_done: u64,
    pub buckets_total: u64,
    pub rows_moved: u64,
    pub bytes_moved: u64,
    /// Since it began.
    pub seconds: u64,
    /// While it was not paused.
    pub rows_per_second: Option<u64>,
    /// `None` if that cannot be told yet.
    pub seconds_left: Option<u64>,
    /// What it waits for, or why it has failed.
    pub message: Option<String>,
}

impl Rebalance {
    /// How far it is, in one line.
    pub fn line(&self) -> String {
        let Self { state, buckets_done, buckets_total, rows_moved, bytes_moved, .. } = self;
        let megabytes = bytes_moved / 1_000_000;
        let mut line =
            format!("{state}: {buckets_done} of {buckets_total} buckets, {rows_moved} rows ({megabytes} MB) moved");
        if let Some(rate) = self.rows_per_second {
            line += &format!(", {rate} rows/s");
        }
        if let Some(seconds) = self.seconds_left {
            line += &format!(", {} left", duration(seconds));
        }
        if let Some(message) = &self.message {
            line += &format!("; {message}");
        }
        line
    }
}

/// In the two largest units that say something.
fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..600 => format!("{} min {} s", seconds / 60, seconds % 60),
        600..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// The rebalance that runs, is paused or has failed; `None` also on a cluster of a version that knew none.
pub(crate) async fn unfinished(primary: &Session) -> Result<Option<Rebalance>> {
    match look(primary).await {
        Ok(seen) => Ok(["running", "paused", "failed"].contains(&seen.state.as_str()).then_some(seen)),
        Err(error) if error.code() == SqlState::UNDEFINED_TABLE => Ok(None),
        Err(error) => Err(error),
    }
}

/// Spreads the rows anew over all datanodes, or over all but one that is to leave; says how far it is, and returns at the
/// end. Coordinators carry the job on by themselves: dropping this future does not stop it, and another call finds it.
pub async fn rebalance(config: &Config, without: Option<&str>, progress: &Progress) -> Result<Rebalance> {
    let primary = primary(config).await?;
    if !is_under_way(config, &primary, without).await? {
        let without = without.map(|name| format!(" WITHOUT NODE ({})", identifier(name))).unwrap_or_default();
        coordinator(config).await?.run(&format!("ALTER CLUSTER REBALANCE{without}")).await?;
    }
    let mut shown = String::new();
    loop {
        let seen = look(&primary).await?;
        match seen.state.as_str() {
            "done" => return Ok(seen),
            "running" | "paused" => {}
            _ => return Err(ended(&seen)),
        }
        let line = seen.line();
        if line != shown {
            progress.line(&line);
            shown = line;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Is just this being done already? A new statement would begin to count anew.
async fn is_under_way(config: &Config, primary: &Session, without: Option<&str>) -> Result<bool> {
    let Some(row) = primary.rows(UNDER_WAY_SQL).await?.into_iter().next() else { return Ok(false) };
    let emptied = row.into_iter().flatten().next().unwrap_or_default();
    let members = read_members(config, primary).await?;
    let wanted = without.and_then(|name| members.into_iter().find(|member| member.name == name));
    Ok(emptied == wanted.map_or_else(String::new, |member| member.id.to_string()))
}

fn ended(seen: &Rebalance) -> PgError {
    let text = format!("the rebalance has {}", if seen.state == "failed" { "failed" } else { "been cancelled" });
    let error = PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
        .hint("What has been moved is where it belongs; run the same command again for the rest.");
    match &seen.message {
        Some(message) => error.detail(message.clone()),
        None => error,
    }
}

async fn look(primary: &Session) -> Result<Rebalance> {
    let mut row = primary.rows(PROGRESS_SQL).await?.into_iter().next().unwrap_or_default().into_iter();
    let mut next = || row.next().flatten();
    let number = |text: Option<String>| text.and_then(|text| text.parse::<u64>().ok());
    Ok(Rebalance {
        state: next().unwrap_or_default(),
        buckets_done: number(next()).unwrap_or(0),
        buckets_total: number(next()).unwrap_or(0),
        rows_moved: number(next()).unwrap_or(0),
        bytes_moved: number(next()).unwrap_or(0),
        seconds: number(next()).unwrap_or(0),
        rows_per_second: number(next()),
        seconds_left: number(next()),
        message: next(),
    })
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
            ..Rebalance::default()
        };
        assert_eq!(seen.line(), "running: 3 of 819 buckets, 40 rows (2 MB) moved");
        (seen.rows_per_second, seen.seconds_left) = (Some(1000), Some(61));
        assert!(seen.line().ends_with(" moved, 1000 rows/s, 1 min 1 s left"));
        assert_eq!([59, 3599, 7260].map(duration), ["59 s", "59 min", "2 h 1 min"]);
        (seen.rows_per_second, seen.seconds_left) = (None, None);
        seen.message = Some("canceling statement due to lock timeout".to_owned());
        assert!(seen.line().ends_with(" moved; canceling statement due to lock timeout"));
        seen.state = "failed".to_owned();
        assert!(ended(&seen).to_string().contains("has failed"));
    }
}
