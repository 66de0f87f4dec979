//! The sessions that work while datanodes come and go.
//!
//! * Writers move money in blocks of two UPDATEs, of accounts that lay on different datanodes at the beginning. A block that fails
//!   is tried again, whatever the error, and its time goes on.
//! * Readers sum all balances, each time one statement.
//! * One session asks TPC-H's queries 1 and 6 and compares their rows with those of the first time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgerror::{PgError, Result, SqlState};
use tokio::task::JoinSet;
use tokio_postgres::Client;

use super::seen::{Seen, WRITER};
use crate::tools::random::Random;
use crate::tools::sql;
use crate::tools::transfer::{Accounts, END_MAX, SUM};

/// Before a lost connection is made anew.
const CONNECT_PAUSE: Duration = Duration::from_millis(50);

const QUERIES: [&str; 2] = [
    "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)), \
     sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*) \
     FROM bench_lineitem WHERE l_shipdate <= date '1998-12-01' - interval '90 days' GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT sum(l_extendedprice * l_discount) FROM bench_lineitem WHERE l_shipdate >= date '1994-01-01' \
     AND l_shipdate < date '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
];

/// What the sessions share.
#[derive(Debug)]
pub(crate) struct Shared {
    began: Instant,
    coordinators: Vec<String>,
    accounts: Accounts,
    stop: AtomicBool,
    /// COMMITs whose outcome was not told.
    pub(crate) unknown: AtomicU64,
    pub(crate) writers: Seen,
    pub(crate) readers: Seen,
    pub(crate) queries: Seen,
}

/// Running sessions; the drop ends them.
pub(crate) struct Workload {
    pub(crate) shared: Arc<Shared>,
    sessions: JoinSet<()>,
}

impl Workload {
    pub(crate) async fn start(
        coordinators: &[String],
        accounts: Accounts,
        (writers, readers): (u32, u32),
        began: Instant,
    ) -> Result<Self> {
        let shared = Arc::new(Shared {
            began,
            coordinators: coordinators.to_vec(),
            accounts,
            stop: AtomicBool::new(false),
            unknown: AtomicU64::new(0),
            writers: Seen::new(WRITER, began),
            readers: Seen::new("reader", began),
            queries: Seen::new("TPC-H", began),
        });
        let mut sessions = JoinSet::new();
        for n in 0..writers as usize {
            sessions.spawn(write(Link::open(&shared, n).await?, Random(n as u64 + 1)));
        }
        for n in 0..readers as usize {
            sessions.spawn(read(Link::open(&shared, n).await?));
        }
        let asking = Link::open(&shared, 0).await?;
        let mut expected = Vec::new();
        for query in QUERIES {
            expected.push(sql::table(&asking.client, query).await?);
        }
        sessions.spawn(ask(asking, expected));
        Ok(Self { shared, sessions })
    }

    /// Lets everybody finish what he has begun.
    pub(crate) async fn end(mut self) -> Result<Arc<Shared>> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let all = async {
            while let Some(ended) = self.sessions.join_next().await {
                ended.map_err(|error| PgError::internal(error.to_string()))?;
            }
            Ok(())
        };
        match tokio::time::timeout(END_MAX, all).await {
            Ok(ended) => ended.map(|()| self.shared.clone()),
            Err(_) => Err(PgError::internal(format!("a session hangs: no answer for {} s", END_MAX.as_secs()))),
        }
    }
}

/// A session of the workload with its connection.
struct Link {
    shared: Arc<Shared>,
    uri: String,
    client: Client,
}

impl Shared {
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

impl Link {
    async fn open(shared: &Arc<Shared>, n: usize) -> Result<Self> {
        let uri = shared.coordinators[n % shared.coordinators.len()].clone();
        Ok(Self { shared: shared.clone(), client: sql::connect(&uri).await?, uri })
    }

    fn stops(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Notes an error, and connects anew if the connection is gone.
    async fn after(&mut self, error: &PgError, who: &Seen) {
        who.trouble(Some(error.code().to_string()), error.message().into_owned());
        while self.client.is_closed() && !self.stops() {
            match sql::connect(&self.uri).await {
                Ok(client) => self.client = client,
                Err(_) => tokio::time::sleep(CONNECT_PAUSE).await,
            }
        }
    }

    /// Moves some money in a block.
    async fn transfer(&self, random: &mut Random) -> Result<()> {
        self.shared.accounts.begin_transfer(&self.client, random).await?;
        let committed = sql::run(&self.client, "COMMIT").await;
        if let Err(error) = &committed
            && (self.client.is_closed() || error.code() == SqlState::STATEMENT_COMPLETION_UNKNOWN)
        {
            self.shared.unknown.fetch_add(1, Ordering::Relaxed);
        }
        committed
    }
}

async fn write(mut link: Link, mut random: Random) {
    let shared = link.shared.clone();
    let mut began = Instant::now();
    while !link.stops() {
        match link.transfer(&mut random).await {
            Ok(()) => {
                shared.writers.success(began.elapsed());
                began = Instant::now();
            }
            Err(error) => link.after(&error, &shared.writers).await,
        }
    }
}

async fn read(mut link: Link) {
    let shared = link.shared.clone();
    let mut began = Instant::now();
    while !link.stops() {
        match sql::number(&link.client, SUM).await {
            Ok(sum) => {
                shared.readers.success(began.elapsed());
                if sum != shared.accounts.total() {
                    shared.readers.trouble(None, format!("{sum} instead of {}", shared.accounts.total()));
                }
                began = Instant::now();
            }
            Err(error) => link.after(&error, &shared.readers).await,
        }
    }
}

async fn ask(mut link: Link, expected: Vec<Vec<Vec<String>>>) {
    let shared = link.shared.clone();
    let mut began = Instant::now();
    for (query, expected) in QUERIES.iter().zip(&expected).cycle() {
        if link.stops() {
            return;
        }
        match sql::table(&link.client, query).await {
            Ok(rows) => {
                shared.queries.success(began.elapsed());
                if rows != *expected {
                    shared.queries.trouble(None, format!("{rows:?} instead of {expected:?}"));
                }
                began = Instant::now();
            }
            Err(error) => link.after(&error, &shared.queries).await,
        }
    }
}
