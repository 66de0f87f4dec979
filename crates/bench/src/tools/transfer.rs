//! The transfer-sum: money moves between datanodes in blocks while others sum all of it. A sum that has seen half of a block, or a
//! block of one datanode before that of another, is not the whole money: a system that shows one has no consistent snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgerror::{PgError, Result};
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::tools::random::Random;
use crate::tools::sql;

/// What every account holds at first.
pub(crate) const BALANCE: u64 = 1000;
/// Sum of all accounts.
pub(crate) const SUM: &str = "SELECT sum(balance) FROM bench_account";
/// A task that has not ended so long after it was told to hangs.
pub(crate) const END_MAX: Duration = Duration::from_secs(120);

/// Accounts by the datanode they lay on when they were made.
#[derive(Clone, Debug)]
pub(crate) struct Accounts(Vec<Vec<u32>>);

impl Accounts {
    /// Makes the table `bench_account` anew.
    pub(crate) async fn make(client: &Client, number: u32) -> Result<()> {
        sql::run(client, "DROP TABLE IF EXISTS bench_account").await?;
        let table = "CREATE TABLE bench_account (id int PRIMARY KEY, balance bigint NOT NULL, changes bigint NOT NULL) \
                     DISTRIBUTE BY HASH (id)";
        sql::run(client, table).await?;
        let fill = format!("INSERT INTO bench_account SELECT g, {BALANCE}, 0 FROM generate_series(1, {number}) g");
        sql::run(client, &fill).await
    }

    /// Looks where they lie.
    pub(crate) async fn find(datanodes: &[String]) -> Result<Self> {
        let mut all = Vec::new();
        for uri in datanodes {
            let datanode = sql::connect(uri).await?;
            let rows = sql::table(&datanode, "SELECT id FROM bench_account").await?;
            let ids: Vec<u32> = rows.iter().skip(1).flatten().filter_map(|id| id.parse().ok()).collect();
            if !ids.is_empty() {
                all.push(ids);
            }
        }
        if all.is_empty() { Err(PgError::internal("there are no accounts")) } else { Ok(Self(all)) }
    }

    /// What they hold together, at any time.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(Vec::len).sum::<usize>() as u64 * BALANCE
    }

    /// Moves some money between two datanodes in a block that is not committed yet, and is rolled back after an error.
    pub(crate) async fn begin_transfer(&self, client: &Client, random: &mut Random) -> Result<()> {
        let changes = self.choose(random);
        let block = async {
            sql::run(client, "BEGIN").await?;
            for (id, by) in changes {
                let update =
                    format!("UPDATE bench_account SET balance = balance + {by}, changes = changes + 1 WHERE id = {id}");
                sql::run(client, &update).await?;
            }
            Ok(())
        };
        if let Err(error) = block.await {
            if !client.is_closed() {
                sql::run(client, "ROLLBACK").await?;
            }
            return Err(error);
        }
        Ok(())
    }

    /// Two accounts and what each gets; the one with the smaller id first, so that nobody deadlocks.
    fn choose(&self, random: &mut Random) -> [(u32, i64); 2] {
        let groups = &self.0;
        let first = random.below(groups.len());
        // With one datanode only both lie there.
        let second = (first + 1 + random.below(groups.len().saturating_sub(1))) % groups.len();
        let mut of = |group: usize| groups[group][random.below(groups[group].len())];
        let (from, to) = (of(first), of(second));
        let amount = random.below(100) as i64 + 1;
        let mut changes = [(from, -amount), (to, amount)];
        changes.sort_unstable();
        changes
    }
}

/// Sessions that move money and sessions that sum it, beside whatever else is done meanwhile; the drop ends them. An error of one
/// is an error of the measurement: nobody has a reason to fail.
pub(crate) struct TransferSum {
    shared: Arc<Shared>,
    sessions: JoinSet<Result<()>>,
    began: Instant,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    pub(crate) transfers_per_second: f64,
    pub(crate) sums_per_second: f64,
    pub(crate) wrong: u64,
}

#[derive(Debug)]
struct Shared {
    accounts: Accounts,
    stop: AtomicBool,
    transfers: AtomicU64,
    sums: AtomicU64,
    wrong: AtomicU64,
}

impl TransferSum {
    /// Money is moved through the first coordinator and summed through the others, if there are any.
    pub(crate) async fn begin(
        accounts: &Accounts,
        coordinators: &[String],
        (movers, readers): (usize, usize),
    ) -> Result<Self> {
        let (Some(first), others) = (coordinators.first(), coordinators.get(1..).unwrap_or_default()) else {
            return Err(PgError::internal("money cannot move without a coordinator"));
        };
        let others = if others.is_empty() { coordinators } else { others };
        let zero = AtomicU64::default;
        let (accounts, stop) = (accounts.clone(), AtomicBool::new(false));
        let shared = Arc::new(Shared { accounts, stop, transfers: zero(), sums: zero(), wrong: zero() });
        let mut sessions = JoinSet::new();
        for n in 0..movers {
            sessions.spawn(shared.clone().keep_moving(sql::connect(first).await?, Random(n as u64 + 1)));
        }
        for uri in others.iter().cycle().take(readers) {
            sessions.spawn(shared.clone().keep_summing(sql::connect(uri).await?));
        }
        Ok(Self { shared, sessions, began: Instant::now() })
    }

    /// Lets everybody finish what he has begun.
    pub(crate) async fn end(mut self) -> Result<Sums> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.shared.stop.store(true, Ordering::Relaxed);
        let all = async {
            while let Some(ended) = self.sessions.join_next().await {
                ended.map_err(|error| PgError::internal(error.to_string()))??;
            }
            Ok(())
        };
        let hangs = |_| {
            let text = format!("a session that moves or sums money hangs: no answer for {} s", END_MAX.as_secs());
            Err(PgError::internal(text))
        };
        tokio::time::timeout(END_MAX, all).await.unwrap_or_else(hangs)?;
        if count(&self.shared.transfers) == 0 || count(&self.shared.sums) == 0 {
            return Err(PgError::internal("no money was moved, or none was summed"));
        }
        let per_second = |counter: &AtomicU64| count(counter) as f64 / self.began.elapsed().as_secs_f64();
        Ok(Sums {
            transfers_per_second: per_second(&self.shared.transfers),
            sums_per_second: per_second(&self.shared.sums),
            wrong: count(&self.shared.wrong),
        })
    }
}

impl Shared {
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    async fn keep_moving(self: Arc<Self>, client: Client, mut random: Random) -> Result<()> {
        while !self.stops() {
            self.accounts.begin_transfer(&client, &mut random).await?;
            sql::run(&client, "COMMIT").await?;
            self.transfers.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn keep_summing(self: Arc<Self>, client: Client) -> Result<()> {
        while !self.stops() {
            let sum = sql::number(&client, SUM).await?;
            self.sums.fetch_add(1, Ordering::Relaxed);
            if sum != self.accounts.total() {
                self.wrong.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_moves_between_datanodes_and_stays_as_much() {
        let accounts = Accounts(vec![vec![1, 4, 6], vec![2, 5], vec![3]]);
        let node = |id: u32| accounts.0.iter().position(|ids| ids.contains(&id));
        let mut random = Random(1);
        for _ in 0..200 {
            let [(first, by), (second, back)] = accounts.choose(&mut random);
            assert!(first < second && by + back == 0 && by != 0, "{first} {by} {second} {back}");
            assert_ne!(node(first), node(second));
        }
        assert_eq!(accounts.total(), 6000);
    }

    #[test]
    fn one_datanode_has_both_accounts() {
        let changes = Accounts(vec![vec![7]]).choose(&mut Random(1));
        assert_eq!((changes[0].0, changes[1].0, changes[0].1 + changes[1].1), (7, 7, 0));
    }
}
