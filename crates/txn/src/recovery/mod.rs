//! Resolves in-doubt transactions: those that are prepared somewhere while nobody is left to finish them. From the
//! datanodes alone, by anyone, at any time, as often as one likes; the gtm does it every second.
//!
//! For each prepared transaction with a gid of ours, ask the commit point's node which the gid names
//! ([`crate::decision`]): the decision is there: `COMMIT PREPARED`; its transaction is over without one: `ROLLBACK
//! PREPARED`; it still runs, or the node is down: leave it. Those that users prepared and keep are none of our business
//! until their registry says how they end ([`crate::user_prepared`]).
//!
//! # Why no race can split a transaction
//! * *Committed here means committed everywhere.* A coordinator sends the commit point's COMMIT only after every other
//!   writer said that it is prepared, and a prepared transaction does not go away by itself. So a reader of the decision may
//!   commit whatever is prepared under that gid, and nothing of that gid can have been rolled back before: a rollback needs
//!   the commit point's transaction to be over *without* a decision, and it cannot be both.
//! * *Rolled back means never committed.* "Over" is learned from `pg_xact_status`, which looks into the list of running
//!   transactions before the commit log, so it does not say `aborted` of one that is just committing. The decision is looked
//!   for after that, with a new snapshot: if it is not visible then, it never will be.
//! * *A coordinator that dies* takes its connection to the commit point along: the backend there rolls back, unless COMMIT has
//!   arrived already. Until the backend notices, its transaction is in progress, and we wait. A PREPARE may arrive after we
//!   have looked; the next pass finds it.
//! * *A commit point that crashes* has ended its transaction one way or the other once it answers again. It may
//!   give out the xid again: a new owner in progress only makes us wait, and its commit is not taken for ours, because it
//!   did not insert our decision. The gid's xid is an `xid8`, so wraparound never makes two transactions look alike; for an
//!   old one whose commit log is cut off (`NULL`) or one the node forgot (`in the future`) the decision alone counts.
//! * *Two at once* (coordinator and gtm, or two gtms) try the same thing; the second gets 42704, or 55000 while the first is at
//!   it, and both are fine.
//!
//! # A commit point that is gone for ever
//! A datanode that was given up (`loxo.lost_datanode` on the primary one) is asked no more. What is prepared elsewhere under its
//! gids, and was not finished by the coordinator within [`LOST_MIN`], is committed. Only the lost node knew whether it was, but a
//! transaction that a client was told of as committed is never undone like this, and one that was prepared everywhere is whole on
//! all nodes that are left. What may be torn is one that lost its coordinator too in the few milliseconds in which not all of its
//! nodes were prepared yet: its parts that were are committed. The wait is for coordinators: one that lives and has not decided
//! rolls back what it has prepared within that time, and reaches the lost node no more once its catalog is that without it.
//! Users' transactions are registered on the primary datanode, which cannot be given up.
//!
//! # Clearing up decisions
//! A decision is deleted when it is older than a minute and no node holds a prepared transaction of its gid. It must have
//! been *read before* the nodes' prepared transactions are listed: it was committed by then, so all its writers were
//! prepared, and a writer that is not in the list is finished. Which nodes there are is asked in between (page `members`). If
//! one node does not answer, nothing is deleted. The minute is for a coordinator that lost the answer to its COMMIT and asks for up
//! to 10 s.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::time::Duration;

use futures_util::future::join_all;
use pgerror::{PgError, Result, SqlState};
use pgproto::{ConnectOptions, Connection};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::control_point;
use crate::datanodes::Datanodes;
use crate::decision::{self, Fate};
use crate::figures;
use crate::gid::{Gid, Kind};
use crate::members::{MEMBERS_SQL, Members};

mod user;

/// No node may hold up a pass for longer: then it counts as down.
const NODE_MAX: Duration = Duration::from_secs(5);
/// Old decisions are cleared up this often, and at most so many per node at once.
const CLEAR_INTERVAL: Duration = Duration::from_secs(10);
const CLEAR_ROWS_MAX: usize = 20_000;

/// A coordinator that has not decided gives up within this time: the wait for a registration, and for the gate.
const LOST_MIN: Duration = Duration::from_secs(30);

/// A transaction prepared on a datanode whose outcome is not known, or could not be carried out, yet.
#[derive(Clone, Debug)]
pub struct InDoubt {
    /// Its name.
    pub gid: Gid,
    /// Where it is prepared.
    pub node: u16,
    /// In which database.
    pub database: String,
    /// Why it is not resolved, for people.
    pub reason: String,
}

impl InDoubt {
    /// Is it just in the middle of its commit?
    pub fn is_running(&self) -> bool {
        self.reason == RUNNING
    }
}

/// What a pass of recovery did and could not do.
#[derive(Debug, Default)]
pub struct Report {
    /// Prepared transactions that were committed or rolled back.
    pub resolved: usize,
    /// Those that have to wait.
    pub waiting: Vec<InDoubt>,
    /// Datanodes that could not be asked; they may hold more.
    pub unreachable: Vec<(u16, PgError)>,
}

/// One pass over all nodes (as a superuser): resolves what can be resolved now and reports the rest.
pub async fn resolve_all(nodes: &Datanodes) -> Report {
    Recovery::new(nodes).pass().await
}

/// The task of a gtm that stands by: a pass at once and then every `interval`, for ever.
pub(crate) async fn run(members: &Members, interval: Duration) -> Infallible {
    let mut nodes = members.of_anybody().await;
    control_point!("members-known");
    loop {
        let mut passes = Passes::new(members, &nodes);
        nodes = loop {
            if let Pass::Outdated(found) = passes.next().await {
                break found;
            }
            tokio::time::sleep(interval).await;
        };
    }
}

/// What a pass has come to.
pub(crate) enum Pass {
    /// It was over all datanodes of the cluster.
    Whole(Report),
    /// It was over those that were known: the primary datanode did not say which there are now.
    Partial,
    /// It was none, because there are other datanodes than were known: these.
    Outdated(Datanodes),
}

/// One pass after the other, with a log, connections that are kept, and now and then a clearing up.
pub(crate) struct Passes<'a> {
    members: &'a Members,
    nodes: &'a Datanodes,
    recovery: Recovery,
    troubles: HashSet<String>,
    next_clearing: Instant,
}

impl<'a> Passes<'a> {
    pub(crate) fn new(members: &'a Members, nodes: &'a Datanodes) -> Self {
        let recovery = Recovery::new(nodes);
        Self { members, nodes, recovery, troubles: HashSet::new(), next_clearing: Instant::now() }
    }

    /// See the module's page, and that of [`crate::members`], for the order of its steps.
    pub(crate) async fn next(&mut self) -> Pass {
        let over = match Instant::now() >= self.next_clearing {
            true => {
                self.next_clearing = Instant::now() + CLEAR_INTERVAL;
                Some(self.recovery.over().await)
            }
            false => None,
        };
        let found = self.recovery.members(self.members).await;
        if let Ok(found) = &found
            && !found.are(self.nodes)
        {
            return Pass::Outdated(found.clone());
        }
        let report = self.recovery.pass().await;
        figures::RESOLVED.add(report.resolved as u64);
        figures::note_in_doubt(report.waiting.iter().map(|doubt| (doubt.gid, doubt.node)));
        if let (Some(over), Ok(_)) = (over, &found) {
            self.recovery.clear(over, &report).await;
        }
        if report.resolved > 0 {
            info!(resolved = report.resolved, "recovery finished in-doubt transactions");
        }
        let unknown = found.as_ref().err().filter(|_| report.unreachable.is_empty());
        self.troubles = tell_troubles(&report, unknown, std::mem::take(&mut self.troubles));
        match found {
            Ok(_) => Pass::Whole(report),
            Err(_) => Pass::Partial,
        }
    }
}

/// Logs what is new since the last pass; a transaction in the middle of its commit is no trouble.
fn tell_troubles(report: &Report, unknown: Option<&PgError>, known: HashSet<String>) -> HashSet<String> {
    let waiting = report.waiting.iter().filter(|w| !w.is_running());
    let waiting = waiting.map(|w| format!("transaction {} is in doubt on datanode {}: {}", w.gid, w.node, w.reason));
    let down = report.unreachable.iter().map(|(node, error)| format!("datanode {node}: {}", error.message()));
    let unknown = unknown.map(|error| format!("the datanodes are not known: {}", error.message()));
    let troubles: HashSet<String> = waiting.chain(down).chain(unknown).collect();
    troubles.difference(&known).for_each(|trouble| warn!("recovery: {trouble}"));
    troubles
}

/// The reason of those that are left alone because the commit point's transaction runs.
const RUNNING: &str = "its commit point has not decided yet";

/// Keeps its connections between passes.
struct Recovery {
    nodes: BTreeMap<u16, Node>,
}

impl Recovery {
    fn new(nodes: &Datanodes) -> Self {
        let node = |(id, options): (u16, &ConnectOptions)| {
            (id, Node { id, options: options.clone(), connections: HashMap::new(), has_schema: false })
        };
        Self { nodes: nodes.iter().map(node).collect() }
    }

    async fn pass(&mut self) -> Report {
        let listed = join_all(self.nodes.values_mut().map(Node::prepared)).await;
        let (mut report, mut doubts) = (Report::default(), Vec::new());
        for (node, result) in self.nodes.keys().zip(listed) {
            match result {
                Ok(prepared) => doubts.extend(prepared),
                Err(error) => report.unreachable.push((*node, error)),
            }
        }
        for doubt in doubts {
            match self.resolve(&doubt).await {
                Ok(resolved) => report.resolved += usize::from(resolved),
                Err(reason) => report.waiting.push(InDoubt { reason, ..doubt }),
            }
        }
        report
    }

    /// Resolves one, or says why not. False: it is not in doubt but kept for a user.
    async fn resolve(&mut self, doubt: &InDoubt) -> Result<bool, String> {
        let InDoubt { gid, node, database, .. } = doubt;
        let at = gid.commit_point;
        let verb = match self.nodes.get_mut(&at) {
            None => self.without_commit_point(doubt).await?,
            Some(commit_point) => match commit_point.fate(database, gid).await {
                Ok(Fate::Committed) => "COMMIT",
                Ok(Fate::Aborted | Fate::NoDecision) => "ROLLBACK",
                Ok(Fate::InProgress) => return Err(RUNNING.to_owned()),
                Ok(Fate::Kept) => return Ok(false),
                Err(error) => return Err(format!("its commit point, datanode {at}, cannot tell: {}", error.message())),
            },
        };
        if (gid.kind, verb) == (Kind::User, "COMMIT") {
            self.mark_finishing(doubt).await?;
        }
        let Some(participant) = self.nodes.get_mut(node) else {
            return Err(format!("datanode {node} is not a node of this cluster"));
        };
        match participant.execute(database, &format!("{verb} PREPARED '{gid}'")).await {
            Ok(()) => {
                info!(%gid, node, verb, "resolved an in-doubt transaction");
                Ok(true)
            }
            Err(error) if error.code() == SqlState::UNDEFINED_OBJECT => Ok(true),
            Err(error) => Err(format!("{verb} PREPARED failed: {}", error.message())),
        }
    }

    /// See the module's page.
    async fn without_commit_point(&mut self, doubt: &InDoubt) -> Result<&'static str, String> {
        let InDoubt { gid, node, database, .. } = doubt;
        let at = gid.commit_point;
        let unknown = format!("its commit point, datanode {at}, is not a node of this cluster");
        // One that is about to be given up may yet be kept; and so it may in this transaction's database, when others have given it up.
        let lost =
            format!("SELECT FROM loxo.lost_datanode WHERE id = {at} AND id NOT IN (SELECT n.id FROM loxo.node AS n)");
        let is_lost = match self.nodes.values_mut().next() {
            Some(primary) => !primary
                .query(database, &lost)
                .await
                .map_err(|error| format!("{unknown}: {}", error.message()))?
                .is_empty(),
            None => false,
        };
        if !is_lost || gid.kind != Kind::Commit {
            return Err(unknown);
        }
        let age = LOST_MIN.as_secs();
        let old = format!(
            "SELECT FROM pg_catalog.pg_prepared_xacts WHERE gid = '{gid}' \
             AND prepared < pg_catalog.clock_timestamp() - interval '{age} s'"
        );
        let asked = match self.nodes.get_mut(node) {
            Some(participant) => participant.ask(&old).await.map_err(|error| error.message().into_owned())?,
            None => Vec::new(),
        };
        match asked.is_empty() {
            true => Err(format!(
                "its commit point, datanode {at}, was given up; it is committed {age} s after it was prepared"
            )),
            false => Ok("COMMIT"),
        }
    }

    /// As the primary datanode says.
    async fn members(&mut self, members: &Members) -> Result<Datanodes> {
        match self.nodes.values_mut().next() {
            Some(primary) => members.read(&primary.ask(MEMBERS_SQL).await?),
            None => Ok(Datanodes::default()),
        }
    }

    /// What may be cleared up after a pass that begins later.
    async fn over(&mut self) -> Over {
        let decisions = join_all(self.nodes.values_mut().map(Node::old_decisions)).await;
        Over { decisions, ended: self.ended_by_users().await }
    }

    /// Deletes what nobody needs any more, as the pass has found.
    async fn clear(&mut self, over: Over, report: &Report) {
        if !report.unreachable.is_empty() {
            return;
        }
        let Over { decisions, ended } = over;
        let needed: HashSet<String> = report.waiting.iter().map(|w| w.gid.to_string()).collect();
        let deletions = self.nodes.values_mut().zip(decisions).map(|(node, old)| node.delete_decisions(old, &needed));
        for error in join_all(deletions).await.into_iter().filter_map(Result::err) {
            warn!("recovery could not clear up old decisions: {}", error.message());
        }
        self.forget_ended(ended, &needed).await;
    }
}

/// What is old, and perhaps not needed any more, by node.
struct Over {
    /// Gids of decisions.
    decisions: Vec<Result<Vec<String>>>,
    /// Gids of users' transactions whose end is decided.
    ended: Vec<Vec<String>>,
}

struct Node {
    id: u16,
    options: ConnectOptions,
    /// By database: a prepared transaction can only be finished in its own.
    connections: HashMap<String, Connection>,
    /// `loxo init` has been here.
    has_schema: bool,
}

type Rows = Vec<Vec<Option<bytes::Bytes>>>;

impl Node {
    /// All transactions prepared here under a gid of ours.
    async fn prepared(&mut self) -> Result<Vec<InDoubt>> {
        let sql = format!(
            "SELECT gid, database FROM pg_catalog.pg_prepared_xacts \
             WHERE pg_catalog.starts_with(gid, '{}') OR pg_catalog.starts_with(gid, '{}') ORDER BY prepared",
            Kind::Commit.prefix(),
            Kind::User.prefix()
        );
        let rows = self.ask(&sql).await?;
        let node = self.id;
        let read = |row: Vec<Option<bytes::Bytes>>| {
            let mut texts = row.into_iter().map(|value| String::from_utf8(value?.to_vec()).ok());
            let (gid, database) = (texts.next()??.parse().ok()?, texts.next()??);
            Some(InDoubt { gid, node, database, reason: String::new() })
        };
        Ok(rows.into_iter().filter_map(read).collect())
    }

    async fn fate(&mut self, database: &str, gid: &Gid) -> Result<Fate> {
        self.bounded(database, async |connection| decision::fate(connection, gid).await).await
    }

    /// The first query of a pass, in the node's database.
    async fn ask(&mut self, sql: &str) -> Result<Rows> {
        let database = self.options.database.clone();
        let was_kept = self.connections.contains_key(&database);
        let answer = self.query(&database, sql).await;
        if answer.is_err() && was_kept {
            // Kept since the last pass and dead by now, as all others are when the node was restarted.
            self.connections.clear();
            return self.query(&database, sql).await;
        }
        answer
    }

    async fn query(&mut self, database: &str, sql: &str) -> Result<Rows> {
        self.bounded(database, async |connection| connection.query_rows(sql).await).await
    }

    async fn execute(&mut self, database: &str, sql: &str) -> Result<()> {
        self.query(database, sql).await.map(drop)
    }

    /// A gtm may be there before the cluster is.
    async fn has_schema(&mut self) -> Result<bool> {
        if !self.has_schema {
            let database = self.options.database.clone();
            let sql = "SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'loxo'";
            self.has_schema = !self.query(&database, sql).await?.is_empty();
        }
        Ok(self.has_schema)
    }

    /// Gids of decisions older than a minute.
    async fn old_decisions(&mut self) -> Result<Vec<String>> {
        if !self.has_schema().await? {
            return Ok(Vec::new());
        }
        let database = self.options.database.clone();
        let sql = format!(
            "SELECT gid FROM loxo.decision WHERE at < pg_catalog.clock_timestamp() - interval '1 minute' LIMIT {CLEAR_ROWS_MAX}"
        );
        let rows = self.query(&database, &sql).await?;
        Ok(rows.into_iter().flatten().flatten().filter_map(|gid| String::from_utf8(gid.to_vec()).ok()).collect())
    }

    async fn delete_decisions(&mut self, old: Result<Vec<String>>, needed: &HashSet<String>) -> Result<()> {
        // Only what reads as a gid of ours may be put into SQL. The rest stays.
        let is_done = |gid: &String| !needed.contains(gid) && gid.parse::<Gid>().is_ok();
        let done: Vec<String> = old?.into_iter().filter(is_done).collect();
        if done.is_empty() {
            return Ok(());
        }
        let database = self.options.database.clone();
        self.execute(&database, &format!("DELETE FROM loxo.decision WHERE gid = ANY ('{{{}}}')", done.join(","))).await
    }

    /// Runs `work` on this node's connection to a database. A connection that an error or the limit has left in the middle
    /// of an answer is thrown away.
    async fn bounded<T>(&mut self, database: &str, work: impl AsyncFnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let kept = self.connections.remove(database).filter(Connection::is_idle);
        let options = ConnectOptions { database: database.to_owned(), ..self.options.clone() };
        let attempt = async {
            let mut connection = match kept {
                Some(connection) => connection,
                None => Connection::connect(&options).await?,
            };
            let result = work(&mut connection).await;
            Ok::<_, PgError>((connection, result))
        };
        let timed_out = |_| PgError::connection(format!("datanode {} did not answer within 5 s", self.id));
        let (connection, result) = timeout(NODE_MAX, attempt).await.map_err(timed_out)??;
        // There may be many others.
        if connection.is_idle() && database == self.options.database {
            self.connections.insert(database.to_owned(), connection);
        }
        result
    }
}
