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

const PROGRESS_SQL: &str = "SELECT state, buckets_done, buckets_total, rows_moved, bytes_moved, rows_levelled, rows_to_level, \
     extract(epoch FROM changed - started)::int8, rows_per_second::int8, extract(epoch FROM time_left)::int8, message FROM pgxc_rebalance";

/// The nodes that a rebalance which is under way empties, and whether it levels.
const UNDER_WAY_SQL: &str = "SELECT array_to_string(without, ' '), level FROM loxo.rebalance WHERE state = 'running'";

/// How far the moves are, as the view `pgxc_rebalance` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Rebalance {
    pub state: String,
    pub buckets_done: u64,
    pub buckets_total: u64,
    pub rows_moved: u64,
    pub bytes_moved: u64,
    /// Rows of tables without a key, and how many of them there are to move in all.
    pub rows_levelled: u64,
    pub rows_to_level: u64,
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
        if self.rows_to_level > 0 {
            line += &format!(", {} of {} rows levelled", self.rows_levelled, self.rows_to_level);
        }
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
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..600 => format!("{} min {} s", seconds / 60, seconds % 60),
        600..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
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

/// What is to be spread anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent<'n> {
    /// Buckets, over all datanodes.
    Buckets,
    /// Also rows of tables without a key, over the datanodes of each.
    Level,
    /// Buckets and rows, over all datanodes but this one, which is to leave.
    Without(&'n str),
}

/// Spreads the rows of one database anew; says how far it is, with a label, and returns at the end. Coordinators carry the job on by themselves: dropping this future does not stop it, and another call finds it.
pub async fn rebalance(config: &Config, extent: Extent<'_>, label: &str, progress: &Progress) -> Result<Rebalance> {
    let primary = primary(config).await?;
    // Coordinators look for work only in databases that somebody uses.
    let mut used = coordinator(config).await;
    if !is_under_way(config, &primary, extent).await? {
        let clause = match extent {
            Extent::Buckets => String::new(),
            Extent::Level => " LEVEL".to_owned(),
            Extent::Without(name) => format!(" WITHOUT NODE ({})", identifier(name)),
        };
        let session = used.as_ref().map_err(PgError::clone)?;
        session.run(&format!("ALTER CLUSTER REBALANCE{clause}")).await?;
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
            progress.line(&format!("{label}{line}"));
            shown = line;
        }
        if !answers(&used).await {
            used = coordinator(config).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn answers(session: &Result<Session>) -> bool {
    match session {
        Ok(session) => session.run("SELECT 1").await.is_ok(),
        Err(_) => false,
    }
}

/// Is just this being done already? A new statement would begin to count anew.
async fn is_under_way(config: &Config, primary: &Session, extent: Extent<'_>) -> Result<bool> {
    let Some(row) = primary.rows(UNDER_WAY_SQL).await?.into_iter().next() else { return Ok(false) };
    let mut row = row.into_iter().map(Option::unwrap_or_default);
    let (emptied, levels) = (row.next().unwrap_or_default(), row.next().as_deref() == Some("t"));
    let wanted = match extent {
        Extent::Without(name) => {
            let members = read_members(config, primary).await?;
            members.into_iter().find(|member| member.name == name).map(|member| member.id.to_string())
        }
        Extent::Buckets | Extent::Level => None,
    };
    Ok(emptied == wanted.unwrap_or_default() && levels == (extent == Extent::Level))
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
        rows_levelled: number(next()).unwrap_or(0),
        rows_to_level: number(next()).unwrap_or(0),
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
        assert_eq!([59, 3599, 7260, 180_000].map(duration), ["59 s", "59 min", "2 h 1 min", "2 d 2 h"]);
        (seen.rows_per_second, seen.seconds_left) = (None, None);
        (seen.rows_levelled, seen.rows_to_level) = (5, 6);
        assert!(seen.line().ends_with(" moved, 5 of 6 rows levelled"));
        seen.rows_to_level = 0;
        seen.message = Some("canceling statement due to lock timeout".to_owned());
        assert!(seen.line().ends_with(" moved; canceling statement due to lock timeout"));
        seen.state = "failed".to_owned();
        assert!(ended(&seen).to_string().contains("has failed"));
    }
}
