//! What the gtm reads off a datanode: who waits for whom.

use std::time::Duration;

use bytes::Bytes;
use pgerror::{PgError, Result};
use pgproto::{ConnectOptions, Connection};
use tokio::time::timeout;

use super::{Backend, DeadlockVictim};

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
    /// Without those that are prepared: they wait for nobody.
    pub(crate) blockers: Vec<i32>,
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

    /// The waits here now. Costs one glance at the list of backends as long as nobody does.
    pub(crate) async fn waits(&mut self) -> Result<Vec<Wait>> {
        let node = self.id;
        let rows = self.query(&waits_sql()).await?;
        Ok(rows.into_iter().filter_map(|row| read_wait(node, &row)).collect())
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

/// The waits, oldest first. The list of locks is only read if some backend waits for one.
fn waits_sql() -> String {
    format!(
        "SELECT l.pid, coalesce(a.leader_pid, l.pid), (extract(epoch FROM l.waitstart) * 1000000)::int8, b.pids, \
            l.locktype = 'advisory', concat(l.mode, ' on ', CASE l.locktype \
                WHEN 'transactionid' THEN concat('transaction ', l.transactionid) \
                WHEN 'relation' THEN concat('relation ', l.relation::regclass) \
                WHEN 'tuple' THEN concat('tuple (', l.page, ',', l.tuple, ') of relation ', l.relation::regclass) \
                WHEN 'advisory' THEN concat('advisory lock [', concat_ws(',', l.database, l.classid, l.objid, l.objsubid), ']') \
                ELSE l.locktype END) \
         FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_get_activity(NULL) a ON a.pid = l.pid \
         CROSS JOIN LATERAL pg_catalog.pg_blocking_pids(l.pid) AS b(pids) \
         WHERE EXISTS (SELECT FROM pg_catalog.pg_stat_get_activity(NULL) WHERE wait_event_type = 'Lock') \
         AND NOT l.granted AND l.waitstart < clock_timestamp() - interval '100 ms' \
         ORDER BY l.waitstart LIMIT {WAITS_MAX}"
    )
}

fn read_wait(node: u16, row: &[Option<Bytes>]) -> Option<Wait> {
    let [Some(waiter), Some(backend), Some(since), Some(pids), Some(is_advisory), Some(what)] = row else {
        return None;
    };
    let pids = text(pids);
    let pids = pids.trim_matches(['{', '}']).split(',').filter_map(|pid| pid.parse().ok());
    Some(Wait {
        backend: Backend { node, pid: number(backend)? },
        waiter: number(waiter)?,
        since_us: number(since)?,
        what: text(what),
        is_advisory: is_advisory.as_ref() == b"t",
        // 0 stands for a prepared transaction.
        blockers: pids.filter(|pid| *pid != 0).collect(),
    })
}

fn text(value: &Bytes) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn number<T: std::str::FromStr>(value: &Bytes) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Cancels what the backend runs if it is still in the wait that the chosen names; says whether it was. `connection`: to
/// that node, as a superuser.
pub async fn cancel_if_waiting(connection: &mut Connection, chosen: &DeadlockVictim) -> Result<bool> {
    let DeadlockVictim { backend, waiter, since_us, .. } = chosen;
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
    fn a_row_of_the_query_is_read() {
        let cell = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let mut row =
            [cell("7"), cell("6"), cell("123"), cell("{5,0,8}"), cell("f"), cell("ShareLock on transaction 9")];
        let wait = read_wait(1, &row).unwrap();
        assert_eq!((wait.backend, wait.waiter, wait.since_us), (Backend { node: 1, pid: 6 }, 7, 123));
        assert_eq!((wait.what.as_str(), wait.is_advisory), ("ShareLock on transaction 9", false));
        assert_eq!(wait.blockers, [5, 8]);
        row[3] = None;
        assert!(read_wait(1, &row).is_none());
    }
}
