//! What the backends of servers wait for, sampled from `pg_stat_activity`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pgerror::{PgError, Result};
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::tools::sql;

/// Between two looks. A look costs a server about a tenth of a millisecond.
const LOOK: Duration = Duration::from_millis(50);

/// What client backends wait for that do something, but for those that look.
const SAMPLE: &str = "\
SELECT coalesce(wait_event_type, 'CPU'), coalesce(wait_event, ''), count(*) FROM pg_stat_activity \
WHERE backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid() AND application_name NOT LIKE 'loxo gtm%' \
GROUP BY 1, 2";

/// How often which event was seen: `IO: WALSync`; `CPU` for none.
pub(crate) type Profile = BTreeMap<String, f64>;

/// Looks at servers until it is ended or dropped.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    looks: JoinSet<Result<Profile>>,
}

impl Watch {
    pub(crate) async fn begin(servers: &[String]) -> Result<Self> {
        let (stop, mut looks) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for uri in servers {
            looks.spawn(look(sql::connect(uri).await?, stop.clone()));
        }
        Ok(Self { stop, looks })
    }

    /// Shares of all that was seen, together 1; empty if nothing was.
    pub(crate) async fn end(mut self) -> Result<Profile> {
        self.stop.store(true, Ordering::Relaxed);
        let mut counts = Profile::new();
        while let Some(seen) = self.looks.join_next().await {
            for (event, count) in seen.map_err(|error| PgError::internal(error.to_string()))?? {
                *counts.entry(event).or_default() += count;
            }
        }
        let sum: f64 = counts.values().sum();
        counts.values_mut().for_each(|count| *count /= sum);
        Ok(counts)
    }
}

async fn look(client: Client, stop: Arc<AtomicBool>) -> Result<Profile> {
    let mut counts = Profile::new();
    while !stop.load(Ordering::Relaxed) {
        for row in sql::table(&client, SAMPLE).await?.into_iter().skip(1) {
            let [kind, event, count] = row.as_slice() else { continue };
            let name = if event.is_empty() { kind.clone() } else { format!("{kind}: {event}") };
            *counts.entry(name).or_default() += count.parse().unwrap_or(0.0);
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(counts)
}

/// What events mean to the reader of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Computing,
    WaitingForRows,
    Sending,
    Wal,
    Extending,
    Disk,
    Locks,
    Other,
}

impl Class {
    pub(crate) const ALL: [Class; 8] = [
        Class::Computing,
        Class::WaitingForRows,
        Class::Sending,
        Class::Wal,
        Class::Extending,
        Class::Disk,
        Class::Locks,
        Class::Other,
    ];

    /// PostgreSQL's documentation, table of wait events.
    pub(crate) fn of(event: &str) -> Self {
        match event.split_once(": ") {
            None => Class::Computing,
            Some(("Client", "ClientWrite")) => Class::Sending,
            Some(("Client", _)) => Class::WaitingForRows,
            Some(("IO" | "LWLock", name)) if name.to_ascii_uppercase().starts_with("WAL") => Class::Wal,
            Some(("Lock", "extend")) | Some(("IO", "DataFileExtend" | "DataFileWrite")) => Class::Extending,
            Some(("IO", _)) => Class::Disk,
            Some(("Lock" | "LWLock" | "BufferPin", _)) => Class::Locks,
            Some(_) => Class::Other,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Class::Computing => "computing",
            Class::WaitingForRows => "waiting for rows",
            Class::Sending => "sending",
            Class::Wal => "WAL",
            Class::Extending => "growing the table",
            Class::Disk => "disk",
            Class::Locks => "locks",
            Class::Other => "other",
        }
    }

    /// Share of a profile.
    pub(crate) fn share(self, profile: &Profile) -> f64 {
        profile.iter().filter(|(event, _)| Class::of(event) == self).map(|(_, share)| share).sum()
    }

    /// The event of this class that was seen most often.
    pub(crate) fn most_common(self, profile: &Profile) -> Option<&str> {
        let of_class = profile.iter().filter(|(event, _)| Class::of(event) == self);
        of_class.max_by(|a, b| a.1.total_cmp(b.1)).map(|(event, _)| event.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_belong_to_classes() {
        let all = [
            "CPU",
            "Client: ClientRead",
            "Client: ClientWrite",
            "LWLock: WALWrite",
            "LWLock: WALInsert",
            "IO: WalSync",
            "Lock: extend",
            "IO: DataFileRead",
        ];
        let classes = all.map(Class::of);
        use Class::*;
        assert_eq!(classes, [Computing, WaitingForRows, Sending, Wal, Wal, Wal, Extending, Disk]);
        let profile = Profile::from([
            ("CPU".to_owned(), 0.25),
            ("IO: WalSync".to_owned(), 0.5),
            ("IO: WalWrite".to_owned(), 0.25),
        ]);
        assert_eq!((Wal.share(&profile), Computing.share(&profile)), (0.75, 0.25));
        assert_eq!((Wal.most_common(&profile), Locks.most_common(&profile)), (Some("IO: WalSync"), None));
    }
}
