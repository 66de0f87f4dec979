//! What the gtm reads off a datanode: who waits for whom.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use pgerror::{PgError, Result};
use pgproto::{ConnectOptions, Connection};
use tokio::time::timeout;

use super::{Backend, Verdict};
use crate::gid::Gid;

/// A datanode that does not answer by then is left out of this look.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// Waits that are read of one node. Those that wait longest are in every circle.
const WAITS_MAX: usize = 1000;

/// A backend that waits for a lock for more than 100 ms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wait {
    /// The leader, if a parallel worker waits.
    pub(crate) backend: Backend,
    pub(crate) waiter: i32,
    pub(crate) since_us: i64,
    /// "ShareLock on transaction 745"
    pub(crate) what: String,
    pub(crate) is_advisory: bool,
    pub(crate) blockers: Vec<i32>,
    /// Distributed transactions, prepared here, that block it.
    pub(crate) prepared: Vec<Gid>,
}

/// The gtm's eye on one datanode.
pub(crate) struct Eye {
    id: u16,
    options: ConnectOptions,
    connection: Option<Connection>,
}

impl Eye {
    pub(crate) fn new(id: u16, options: ConnectOptions) -> Self {
        Self { id, options, connection: None }
    }

    /// Who waits here now. Costs one glance at the list of backends as long as nobody does.
    pub(crate) async fn waits(&mut self) -> Result<Vec<Wait>> {
        let node = self.id;
        let rows = self.query(&waits_sql()).await?;
        Ok(rows.into_iter().filter_map(|row| read_wait(node, &row)).collect())
    }

    /// The backends here whose running transactions are the commit points of these gids.
    pub(crate) async fn committing(&mut self, gids: &BTreeSet<Gid>) -> Result<BTreeMap<Gid, Backend>> {
        // pg_locks knows the short form of an xid, which is unique among running transactions.
        let short = |gid: &Gid| (gid.xid as u32).to_string();
        let list: Vec<String> = gids.iter().map(short).collect();
        let sql = format!(
            "SELECT transactionid, pid FROM pg_catalog.pg_locks WHERE locktype = 'transactionid' AND granted \
             AND mode = 'ExclusiveLock' AND pid IS NOT NULL AND transactionid::text = ANY ('{{{}}}')",
            list.join(",")
        );
        let node = self.id;
        let mut running = BTreeMap::new();
        for row in self.query(&sql).await? {
            if let [Some(xid), Some(pid)] = row.as_slice()
                && let Some(pid) = number(pid)
            {
                running.insert(text(xid), Backend { node, pid });
            }
        }
        Ok(gids.iter().filter_map(|gid| Some((*gid, *running.get(&short(gid))?))).collect())
    }

    async fn query(&mut self, sql: &str) -> Result<Vec<Vec<Option<Bytes>>>> {
        let kept = self.connection.take().filter(Connection::is_idle);
        let work = async {
            let mut connection = match kept {
                Some(connection) => connection,
                None => Connection::connect(&self.options).await?,
            };
            let rows = connection.query_rows(sql).await?;
            Ok::<_, PgError>((connection, rows))
        };
        let slow = |_| PgError::connection(format!("datanode {} did not answer within 2 s", self.id));
        let (connection, rows) = timeout(LOOK_MAX, work).await.map_err(slow)??;
        self.connection = Some(connection);
        Ok(rows)
    }
}

/// The waits, oldest first. The list of locks is only read if some backend waits for one; of a blocker that is prepared
/// (process id 0) its holders are listed with their modes.
fn waits_sql() -> String {
    let gids = Gid::prefix();
    format!(
        "SELECT l.pid, coalesce(a.leader_pid, l.pid), (extract(epoch FROM l.waitstart) * 1000000)::int8, b.pids, \
            l.locktype = 'advisory', l.mode, CASE l.locktype \
                WHEN 'transactionid' THEN concat('transaction ', l.transactionid) \
                WHEN 'relation' THEN concat('relation ', l.relation::regclass) \
                WHEN 'tuple' THEN concat('tuple (', l.page, ',', l.tuple, ') of relation ', l.relation::regclass) \
                WHEN 'advisory' THEN concat('advisory lock [', concat_ws(',', l.database, l.classid, l.objid, l.objsubid), ']') \
                ELSE l.locktype END, \
            CASE WHEN 0 = ANY (b.pids) THEN (SELECT string_agg(concat(h.mode, ' ', p.gid), E'\\n') \
                FROM pg_catalog.pg_locks h JOIN pg_catalog.pg_prepared_xact() p \
                    ON h.virtualtransaction = concat('-1/', p.transaction) \
                WHERE h.granted AND h.pid IS NULL AND starts_with(p.gid, '{gids}') \
                AND (h.locktype, h.database, h.relation, h.page, h.tuple, h.virtualxid, h.transactionid, h.classid, h.objid, h.objsubid) \
                IS NOT DISTINCT FROM \
                (l.locktype, l.database, l.relation, l.page, l.tuple, l.virtualxid, l.transactionid, l.classid, l.objid, l.objsubid)) END \
         FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_get_activity(NULL) a ON a.pid = l.pid \
         CROSS JOIN LATERAL pg_catalog.pg_blocking_pids(l.pid) AS b(pids) \
         WHERE EXISTS (SELECT FROM pg_catalog.pg_stat_get_activity(NULL) WHERE wait_event_type = 'Lock') \
         AND NOT l.granted AND l.waitstart < clock_timestamp() - interval '100 ms' \
         ORDER BY l.waitstart LIMIT {WAITS_MAX}"
    )
}

fn read_wait(node: u16, row: &[Option<Bytes>]) -> Option<Wait> {
    let [Some(waiter), Some(backend), Some(since), Some(pids), Some(is_advisory), Some(mode), Some(object), prepared] =
        row
    else {
        return None;
    };
    let (pids, mode) = (text(pids), text(mode));
    let prepared = prepared.as_ref().map(text).unwrap_or_default();
    let prepared = prepared.lines().filter_map(|line| {
        let (held, gid) = line.split_once(' ')?;
        gid.parse().ok().filter(|_| conflict(held, &mode))
    });
    Some(Wait {
        backend: Backend { node, pid: number(backend)? },
        waiter: number(waiter)?,
        since_us: number(since)?,
        what: format!("{mode} on {}", text(object)),
        is_advisory: is_advisory.as_ref() == b"t",
        blockers: pids
            .trim_matches(['{', '}'])
            .split(',')
            .filter_map(|pid| pid.parse().ok())
            .filter(|pid| *pid != 0)
            .collect(),
        prepared: prepared.collect(),
    })
}

/// PostgreSQL's table of conflicting lock modes ("Table-Level Lock Modes" in its manual). An unknown mode conflicts.
fn conflict(held: &str, wanted: &str) -> bool {
    const MODES: [&str; 8] = [
        "AccessShareLock",
        "RowShareLock",
        "RowExclusiveLock",
        "ShareUpdateExclusiveLock",
        "ShareLock",
        "ShareRowExclusiveLock",
        "ExclusiveLock",
        "AccessExclusiveLock",
    ];
    // Bit i: conflicts with MODES[i].
    const CONFLICTS: [u8; 8] =
        [0b1000_0000, 0b1100_0000, 0b1111_0000, 0b1111_1000, 0b1110_1100, 0b1111_1100, 0b1111_1110, 0b1111_1111];
    let index = |mode: &str| MODES.iter().position(|known| *known == mode);
    match (index(held), index(wanted)) {
        (Some(held), Some(wanted)) => CONFLICTS[held] & (1 << wanted) != 0,
        _ => true,
    }
}

fn text(value: &Bytes) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn number<T: std::str::FromStr>(value: &Bytes) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Cancels what the backend runs if it is still in the wait that the verdict names; says whether it was. `connection`: to
/// that node, as a superuser.
pub async fn cancel_if_waiting(connection: &mut Connection, verdict: &Verdict) -> Result<bool> {
    let Verdict { backend, waiter, since_us, .. } = verdict;
    let sql = format!(
        "SELECT pg_catalog.pg_cancel_backend({}) FROM pg_catalog.pg_locks WHERE pid = {waiter} AND NOT granted \
         AND (extract(epoch FROM waitstart) * 1000000)::int8 = {since_us}",
        backend.pid
    );
    let rows = connection.query_rows(&sql).await?;
    Ok(rows.first().and_then(|row| row.first()?.as_deref()) == Some(b"t"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_modes_conflict_as_in_the_manual() {
        for (held, wanted, expected) in [
            ("RowExclusiveLock", "RowExclusiveLock", false),
            ("RowExclusiveLock", "ShareLock", true),
            ("ShareLock", "RowExclusiveLock", true),
            ("ShareLock", "ShareLock", false),
            ("AccessShareLock", "ExclusiveLock", false),
            ("AccessShareLock", "AccessExclusiveLock", true),
            ("ExclusiveLock", "RowShareLock", true),
            ("ExclusiveLock", "ShareLock", true),
        ] {
            assert_eq!(conflict(held, wanted), expected, "{held} and {wanted}");
            assert_eq!(conflict(wanted, held), expected, "{wanted} and {held}");
        }
    }

    #[test]
    fn a_row_of_the_query_is_read() {
        let cell = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let gid = "loxo_1_2_77_00000000000000ff_5";
        let holders = format!("ExclusiveLock {gid}\nExclusiveLock loxo_not_ours\nAccessShareLock {gid}");
        let mut row =
            vec![cell("7"), cell("6"), cell("123"), cell("{5,0}"), cell("f"), cell("ShareLock"), cell("transaction 9")];
        row.push(Some(Bytes::from(holders)));
        let wait = read_wait(1, &row).unwrap();
        assert_eq!((wait.backend, wait.waiter, wait.since_us), (Backend { node: 1, pid: 6 }, 7, 123));
        assert_eq!((wait.what.as_str(), wait.is_advisory), ("ShareLock on transaction 9", false));
        assert_eq!((wait.blockers, wait.prepared), (vec![5], vec![gid.parse().unwrap()]));
        row[3] = None;
        assert!(read_wait(1, &row).is_none());
    }
}
