//! A kill at each control point of the product, and what must be true then.
//!
//! ```text
//! list of points ◄── source of all crates
//! round: start the victim with its order ─► pairs are written and read ─► the point is reached, the victim dies
//!        ─► what died is started again ─► nothing in doubt within 5 s ─► audit
//! ```
//!
//! Whose point it is, is found by trying: the first coordinator is given the order, then the gtm. With the
//! other faults the victim only waits at the point, a datanode is killed or the victim frozen meanwhile, and then it goes on.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgerror::Result;
use testkit::{Cluster, Rng};

use crate::aftermath;
use crate::moves;
use crate::pairs::{Control, Seen, Table};
use crate::processes::{self, Kind, Process, failure};
use crate::session::Outcome;

/// In-doubt transactions must be resolved so soon after everything runs again.
pub const RESOLVED_MAX: Duration = Duration::from_secs(20);
/// Reads over several datanodes must be answered so soon after: a new gtm waits for leases and fences first.
const SERVED_MAX: Duration = Duration::from_secs(20);
/// A point that no transaction comes to within this belongs to another process.
const REACHED_MAX: Duration = Duration::from_secs(6);
/// Rows without a bucket move after all that have one.
const REACHED_BY_MOVES_MAX: Duration = Duration::from_secs(40);
/// Writers and readers go on so long while the victim is dead.
const AFTERMATH: Duration = Duration::from_millis(300);
/// Once in so many rounds a datanode stays dead for longer than any commit waits for it.
const LONG_DEATH_ONE_IN: usize = 6;
const LONG_DEATH: Duration = Duration::from_secs(7);
/// How long a frozen process stands still: shorter than a barrier's limit, and longer than a lease.
const FROZEN_MS: std::ops::Range<usize> = 200..4000;
/// Orders name a visit between the first and this.
const VISITS_MAX: usize = 12;
/// Between two looks into the log.
const POLL: Duration = Duration::from_millis(5);

/// What happens at the point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The process that comes to the point dies there.
    Victim,
    /// A datanode dies while the process waits there.
    Datanode,
    /// The process stands still there for up to some seconds.
    Freeze,
}

/// A control point of the product.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Point {
    pub name: String,
    /// Processes that may come to it, the likeliest first, judged by its file. A wrong guess only costs time.
    pub kinds: [Kind; 2],
    /// The point is only reached when rows move between datanodes.
    pub needs_moves: bool,
}

/// All control points that the product's source names, in the order of files and lines.
///
/// # Errors
/// When the source cannot be read.
pub fn from_source() -> Result<Vec<Point>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in fs::read_dir(crates)?.flatten() {
        rust_files(&entry.path().join("src"), &mut files)?;
    }
    files.sort();
    let mut points: Vec<Point> = Vec::new();
    for file in files {
        let of_gtm = file.parent().is_some_and(|dir| dir.ends_with("gtm")) && !file.ends_with("client.rs");
        // What comes before a datanode is given up has a test of its own, tests/lost.rs; and so has another name, tests/renamed.rs.
        if file.ends_with("growth/lost.rs") || file.ends_with("commands/rename_database.rs") {
            continue;
        }
        // Points of commands, not of programs that run on; loxo's own tests kill them there.
        if file.ends_with("join/mod.rs") || file.parent().is_some_and(|dir| dir.ends_with("membership")) {
            continue;
        }
        let needs_moves = file.parent().is_some_and(|dir| dir.ends_with("growth"));
        let kinds = if of_gtm { [Kind::Gtm, Kind::Coordinator] } else { [Kind::Coordinator, Kind::Gtm] };
        let text = fs::read_to_string(&file)?;
        // The macro's name and parenthesis, not written in one piece: this file is read too.
        let calls = text.split(concat!("control_point!", "(\"")).skip(1);
        let named = calls.filter_map(|rest| rest.split_once("\");")).map(|(name, _)| name.to_owned());
        for name in named {
            if !name.contains(['"', '\n']) && !points.iter().any(|point| point.name == name) {
                points.push(Point { name, kinds, needs_moves });
            }
        }
    }
    Ok(points)
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    // A crate without src is none.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Is the binary under test one that has control points?
///
/// # Errors
/// When it has none, with what to do.
pub fn check_binary() -> Result<()> {
    let path = testkit::loxo_binary()?;
    let needle = b"LOXO_CONTROL_POINTS";
    let has_points = fs::read(&path)?.windows(needle.len()).any(|window| window == needle);
    let hint = "cargo build -p loxo --features control-points";
    has_points.then_some(()).ok_or_else(|| failure(format!("{} has no control points: {hint}", path.display())))
}

/// What one round showed.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Round {
    pub point: String,
    pub fault: Fault,
    /// Whose point it is; `None` if no transaction came there.
    pub victim: Option<Kind>,
    pub outcomes: [usize; 3],
    /// Looks of readers that saw whole pairs.
    pub looks: usize,
    /// Until nothing was in doubt any more, from the moment when everything ran again.
    pub resolved_after: Duration,
    /// Until a reader got an answer, from the same moment.
    pub served_after: Duration,
    /// Half pairs that were seen.
    pub halves: Vec<String>,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { point, fault, victim, looks, halves, .. } = self;
        let [committed, refused, unknown] = self.outcomes;
        write!(
            f,
            "{point} ({fault:?}, reached by {victim:?}): {committed} acknowledged, {refused} refused, {unknown} unknown; \
             {looks} looks, {} halves; resolved after {} ms, served after {} ms",
            halves.len(),
            self.resolved_after.as_millis(),
            self.served_after.as_millis()
        )
    }
}

/// Rounds on one cluster.
pub struct Runner<'a> {
    cluster: &'a Cluster,
    table: Table,
    rng: Rng,
    /// Points that a process comes to only once, by point.
    rare: HashSet<String>,
    /// Whose point it is, as far as found out.
    owners: HashMap<String, Kind>,
}

impl<'a> Runner<'a> {
    /// The cluster needs two coordinators and two datanodes.
    ///
    /// # Errors
    /// When the table cannot be made.
    pub fn new(cluster: &'a Cluster, seed: u64) -> Result<Self> {
        Ok(Self {
            cluster,
            table: Table::create(cluster)?,
            rng: Rng::new(seed),
            rare: HashSet::new(),
            owners: HashMap::new(),
        })
    }

    /// One round. Which process comes to the point, and whether more than once, is found out by the first.
    ///
    /// # Errors
    /// Whatever is not as it must be, but for half pairs that were seen: those are in the [`Round`].
    pub fn round(&mut self, point: &Point, fault: Fault) -> Result<Round> {
        let name = &point.name;
        let kinds = self.owners.get(name).map_or(point.kinds.to_vec(), |kind| vec![*kind]);
        let visit = if self.rare.contains(name) { 1 } else { 1 + self.rng.below(VISITS_MAX) };
        let visits = if visit == 1 { vec![1] } else { vec![visit, 1] };
        let tries: Vec<_> = kinds.iter().flat_map(|kind| visits.iter().map(|visit| (*kind, *visit))).collect();
        let mut last = None;
        // All once more, and longer, before it is said that nobody comes.
        for (patience, (kind, number)) in [1, 5].iter().flat_map(|times| tries.iter().map(move |one| (*times, *one))) {
            let round = self.attempt(point, fault, (kind, number), patience)?;
            if round.victim.is_some() {
                self.owners.insert(name.clone(), kind);
                if number < visit {
                    self.rare.insert(name.clone());
                }
                return Ok(round);
            }
            last = Some(round);
        }
        last.ok_or_else(|| failure("no process to try".to_owned()))
    }

    fn attempt(&mut self, at: &Point, fault: Fault, (kind, visit): (Kind, usize), patience: u32) -> Result<Round> {
        let point = at.name.as_str();
        let go = self.cluster.scratch().join("go");
        // What an earlier round left would let everyone pass.
        let _ = fs::remove_file(&go);
        let action = if fault == Fault::Victim { "abort" } else { "hold" };
        let order = format!("{point}={action}@{visit}");
        let armed = self.arm(kind, at.needs_moves, &order, &go)?;
        let (port, others) = (self.cluster.coordinators()[0], &self.cluster.coordinators()[1..]);
        let (rng, cluster) = (&mut self.rng, self.cluster);
        let (seen, (reached, back)) = self.table.run(port, others, |control| {
            with_moves(cluster, at.needs_moves, || {
                let reached = strike(cluster, &armed, at, fault, &go, rng, patience);
                if at.needs_moves {
                    // A process that comes to the point too late for this round is not to stay there: the moves go on to their end.
                    let _ = fs::write(&go, "");
                }
                std::thread::sleep(AFTERMATH);
                // A standby that takes over has the order too, and would die while `loxo up` looks at it.
                let dead = if fault == Fault::Victim { kill_armed(cluster, &armed).map(drop) } else { Ok(()) };
                (reached, dead.and_then(|()| come_back(cluster, control)))
            })
        });
        let round = self.judge(point, fault, (reached?).then_some(kind), back?, seen);
        disarm(cluster, &armed)?;
        round.map_err(|error| failure(format!("{order}, {kind:?}: {error}")))
    }

    /// Starts the victims anew with the order. A gtm may come to its point before `loxo up` is content.
    fn arm(&self, kind: Kind, needs_moves: bool, order: &str, go: &Path) -> Result<Vec<Armed>> {
        let mut victims = processes::running(self.cluster)?;
        // Any coordinator may be the one that moves rows.
        let may_come = |process: &Process| needs_moves || kind != Kind::Coordinator || process.name == "coord1";
        victims.retain(|process| process.kind == kind && may_come(process));
        let mut armed = Vec::new();
        for process in victims {
            processes::kill(self.cluster, &process)?;
            armed.push(Armed { log_begin: log(self.cluster, &process.name).len(), name: process.name, pid: None });
        }
        let go = go.to_string_lossy();
        let started = self.cluster.up_with(&[("LOXO_CONTROL_POINTS", order), ("LOXO_CONTROL_GO", &go)]);
        if kind == Kind::Coordinator {
            started?;
        }
        for armed in &mut armed {
            armed.pid = processes::find(self.cluster, &armed.name).ok().map(|process| process.pid);
        }
        Ok(armed)
    }

    fn judge(
        &self,
        point: &str,
        fault: Fault,
        victim: Option<Kind>,
        (resolved_after, served_after): (Duration, Duration),
        seen: Seen,
    ) -> Result<Round> {
        aftermath::until_quiet(self.cluster, RESOLVED_MAX)?;
        self.table.audit(self.cluster, &seen)?;
        let count = |outcome| seen.outcomes.values().filter(|o| **o == outcome).count();
        let outcomes = [Outcome::Committed, Outcome::Refused, Outcome::Unknown].map(count);
        let Seen { looks, halves, .. } = seen;
        Ok(Round { point: point.to_owned(), fault, victim, outcomes, looks, resolved_after, served_after, halves })
    }
}

/// Does it while rows move; they lie as before afterwards.
fn with_moves<T>(
    cluster: &Cluster,
    moves: bool,
    work: impl FnOnce() -> (Result<bool>, Result<T>),
) -> (Result<bool>, Result<T>) {
    let over = AtomicBool::new(!moves);
    std::thread::scope(|scope| {
        let moving = scope.spawn(|| moves::back_and_forth(cluster, || !over.load(Ordering::Relaxed)));
        let (reached, back) = work();
        over.store(true, Ordering::Relaxed);
        let moved = moving.join().unwrap_or_else(|_| Err(failure("the moves panicked".to_owned())));
        (reached, moved.and(back))
    })
}

/// A process with an order.
struct Armed {
    name: String,
    /// `None`: it did not live until `loxo up` had looked.
    pid: Option<i32>,
    /// Length of its log before.
    log_begin: usize,
}

fn log(cluster: &Cluster, name: &str) -> Vec<u8> {
    // No log yet is an empty one.
    fs::read(cluster.dir().join("log").join(format!("{name}.log"))).unwrap_or_default()
}

/// Waits until one of the victims says that it is at the point; kills a datanode there if that is the fault.
fn strike(
    cluster: &Cluster,
    armed: &[Armed],
    point: &Point,
    fault: Fault,
    go: &Path,
    rng: &mut Rng,
    patience: u32,
) -> Result<bool> {
    let said = format!("control point {} reached", point.name);
    let deadline = Instant::now() + patience * if point.needs_moves { REACHED_BY_MOVES_MAX } else { REACHED_MAX };
    let reached = || {
        armed.iter().any(|armed| {
            let log = log(cluster, &armed.name);
            String::from_utf8_lossy(log.get(armed.log_begin..).unwrap_or_default()).contains(&said)
        })
    };
    while !reached() {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(POLL);
    }
    match fault {
        Fault::Victim => return Ok(true),
        Fault::Datanode => {
            let name = format!("dn{}", 1 + rng.below(cluster.datanodes().len()));
            processes::kill(cluster, &processes::find(cluster, &name)?)?;
        }
        Fault::Freeze => {
            let mut frozen = processes::running(cluster)?;
            frozen.retain(|process| armed.iter().any(|armed| armed.pid == Some(process.pid)));
            let pids = frozen.iter().map(|process| processes::freeze(cluster, process)).collect::<Result<Vec<_>>>()?;
            let time = FROZEN_MS.start + rng.below(FROZEN_MS.len());
            std::thread::sleep(Duration::from_millis(time as u64));
            pids.iter().for_each(|pids| processes::thaw(pids));
        }
    }
    fs::write(go, "")?;
    if fault == Fault::Datanode && rng.one_in(LONG_DEATH_ONE_IN) {
        std::thread::sleep(LONG_DEATH);
    }
    Ok(true)
}

/// Starts what is dead and gives how long it took then until nothing was in doubt, and until a reader got an answer.
fn come_back(cluster: &Cluster, control: &Control) -> Result<(Duration, Duration)> {
    cluster.up()?;
    let (begin, looks) = (Instant::now(), control.looks());
    control.stop_writers();
    let resolved_after = aftermath::until_resolved(cluster, RESOLVED_MAX)?;
    while control.looks() == looks {
        if begin.elapsed() > SERVED_MAX {
            return Err(failure(format!("no reader got an answer within {SERVED_MAX:?}")));
        }
        std::thread::sleep(POLL);
    }
    Ok((resolved_after, begin.elapsed()))
}

/// A process that still has an order must not carry it out in a later round.
fn disarm(cluster: &Cluster, armed: &[Armed]) -> Result<()> {
    if kill_armed(cluster, armed)? { cluster.up().map(drop) } else { Ok(()) }
}

/// Were there any?
fn kill_armed(cluster: &Cluster, armed: &[Armed]) -> Result<bool> {
    let mut live = processes::running(cluster)?;
    live.retain(|process| armed.iter().any(|armed| armed.pid == Some(process.pid)));
    live.iter().try_for_each(|process| processes::kill(cluster, process))?;
    Ok(!live.is_empty())
}
