//! `loxo node add --rebalance` and `loxo node remove`, killed at any moment and run again as their user would, while processes of the
//! cluster die too. A datanode that has come gets its share of rows without a key by `loxo rebalance --level`.
//!
//! ```text
//!  command ── kill -9: itself, a coordinator, the gtm, a datanode ──► loxo up ──► what now? ──► the same command, or loxo rebalance --level
//! ```
//!
//! [`Still`] are tables that nobody writes: their rows must be the same wherever they lie.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pgerror::Result;
use testkit::wire::Client;
use testkit::{Cluster, Rng};

use crate::aftermath;
use crate::processes::{self, failure};

/// With all faults and restarts.
const DONE_MAX: Duration = Duration::from_secs(240);
/// Between two looks.
const POLL: Duration = Duration::from_millis(2);
/// Moments of a command that have no mark of their own come within this.
const MOMENT_MS: usize = 5000;
/// Behind a mark.
const BEHIND_MARK_MS: usize = 150;
/// A mark that has not come by then is past already.
const MARK_MAX: Duration = Duration::from_secs(15);
/// Between a death and `loxo up`.
const DEAD_MS: usize = 1500;
/// A command may have the directory's lock.
const UP_MAX: Duration = Duration::from_secs(60);
/// One fault in so many meets the command itself.
const COMMAND_ONE_IN: usize = 2;
/// The user of a killed `loxo rebalance --level` may leave the rest to the cluster.
const LEAVE_ONE_IN: usize = 2;

/// What a user wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Wish<'n> {
    /// One more datanode, which gets this name, with its share of the rows of each table.
    Add(&'n str),
    Remove(&'n str),
}

/// What was done to it.
#[derive(Debug, Default)]
pub struct Report {
    /// Faults by whom they met: `the command`, `dn1`.
    pub faults: BTreeMap<String, usize>,
    /// How often a command was run.
    pub runs: usize,
    /// What those that failed by themselves said last.
    pub refusals: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs of commands; killed: {:?}; refusals: {:?}", self.runs, self.faults, self.refusals)
    }
}

/// Fulfils the wish, with so many faults on the way. At the end all runs, and the rows lie where they shall.
///
/// # Errors
/// When the wish does not come true, or something is left behind.
pub fn fulfil(cluster: &Cluster, wish: Wish<'_>, faults: usize, rng: &mut Rng) -> Result<Report> {
    let mut work = Work { cluster, wish, rng, faults, report: Report::default(), end: Instant::now() + DONE_MAX };
    while let Some(command) = work.next_command()? {
        work.run(&command)?;
    }
    work.come_to_rest()?;
    Ok(work.report)
}

struct Work<'a> {
    cluster: &'a Cluster,
    wish: Wish<'a>,
    rng: &'a mut Rng,
    /// Still to come.
    faults: usize,
    report: Report,
    end: Instant,
}

impl<'a> Work<'a> {
    /// What a user does, who looks first which datanodes there are and what the rebalance says; `None`: nothing.
    fn next_command(&mut self) -> Result<Option<Vec<&'a str>>> {
        if Instant::now() > self.end {
            return Err(failure(format!("{:?} is not done after {DONE_MAX:?}: {}", self.wish, self.report)));
        }
        self.up()?;
        let members = aftermath::datanodes(self.cluster)?;
        let is_there = |name: &str| members.iter().any(|(member, _)| member == name);
        Ok(match self.wish {
            Wish::Add(name) if !is_there(name) => Some(vec!["node", "add", "--rebalance"]),
            Wish::Add(_) => {
                let state = "SELECT state FROM loxo.rebalance WHERE level";
                let state = self.states(state)?;
                let is_left = state == ["running"] && self.rng.one_in(LEAVE_ONE_IN);
                (state != ["done"] && !is_left).then(|| vec!["rebalance", "--level"])
            }
            // Also one that was killed when the datanode was none any more has more to do, if nobody has done it.
            Wish::Remove(name) => {
                let is_over = !is_there(name) && !self.cluster.dir().join(name).exists();
                (!is_over).then(|| vec!["node", "remove", name])
            }
        })
    }

    /// Until it has ended in some way.
    fn run(&mut self, arguments: &[&str]) -> Result<()> {
        self.report.runs += 1;
        let said = self.cluster.scratch().join("said");
        let output = File::create(&said)?;
        let mut command = self.cluster.loxo_command(arguments);
        let command = command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let mut child = Running(command.spawn()?);
        while !self.has_ended(&mut child)? {
            if self.faults > 0 {
                self.faults -= 1;
                self.strike(&mut child)?;
            } else if Instant::now() > self.end {
                let said = fs::read_to_string(&said)?;
                return Err(failure(format!("loxo {} does not end: {said}{}", arguments.join(" "), self.report)));
            }
            std::thread::sleep(POLL);
        }
        if child.0.wait()?.code().is_some_and(|code| code != 0) {
            self.report.refusals.push(fs::read_to_string(&said)?);
        }
        Ok(())
    }

    fn has_ended(&self, child: &mut Running) -> Result<bool> {
        Ok(child.0.try_wait()?.is_some())
    }

    /// Waits for a moment, and kills somebody then.
    fn strike(&mut self, child: &mut Running) -> Result<()> {
        let mark = self.mark();
        let behind = if mark.is_some() { BEHIND_MARK_MS } else { MOMENT_MS };
        let waited_from = Instant::now();
        if let Some((file, shall_exist)) = &mark {
            while file.exists() != *shall_exist && waited_from.elapsed() < MARK_MAX && !self.has_ended(child)? {
                std::thread::sleep(POLL);
            }
        }
        let moment = Instant::now() + Duration::from_millis(self.rng.below(behind) as u64);
        while Instant::now() < moment && !self.has_ended(child)? {
            std::thread::sleep(POLL);
        }
        if self.rng.one_in(COMMAND_ONE_IN) && !self.has_ended(child)? {
            child.0.kill()?;
            self.note("the command");
            return Ok(());
        }
        let mut alive = processes::running(self.cluster)?;
        if alive.is_empty() {
            return Ok(());
        }
        let victim = alive.swap_remove(self.rng.below(alive.len()));
        processes::kill(self.cluster, &victim)?;
        self.note(&victim.name);
        std::thread::sleep(Duration::from_millis(self.rng.below(DEAD_MS) as u64));
        self.up()
    }

    fn note(&mut self, who: &str) {
        *self.report.faults.entry(who.to_owned()).or_default() += 1;
    }

    /// Something that shows in files how far a command is: each has its turn as often as moments that show nowhere.
    fn mark(&mut self) -> Option<(PathBuf, bool)> {
        let dir = self.cluster.dir();
        let (name, marks): (&str, &[(&str, bool)]) = match self.wish {
            Wish::Add(name) => (name, &[(".joining", true), ("/postmaster.pid", true), (".joining", false)]),
            Wish::Remove(name) => (name, &[("/postmaster.pid", false), (".removed", true)]),
        };
        let turn = self.rng.below(2 * marks.len());
        marks.get(turn).map(|(suffix, shall_exist)| (dir.join(format!("{name}{suffix}")), *shall_exist))
    }

    /// A user waits while another command has the lock.
    fn up(&self) -> Result<()> {
        let end = Instant::now() + UP_MAX;
        loop {
            match self.cluster.up() {
                Err(error) if Instant::now() > end => return Err(error),
                Err(_) => std::thread::sleep(POLL * 50),
                Ok(_) => return Ok(()),
            }
        }
    }

    fn states(&self, sql: &str) -> Result<Vec<String>> {
        Ok(self.cluster.connect_datanode(0)?.strings(sql)?.concat())
    }

    fn ask(&self, sql: &str) -> Result<String> {
        self.cluster.connect_datanode(0)?.scalar(sql)
    }

    /// The job comes to its end by itself, and nothing is left of what was killed.
    fn come_to_rest(&self) -> Result<()> {
        while self.ask("SELECT state FROM loxo.rebalance")? != "done" {
            if Instant::now() > self.end {
                let shown = self.cluster.connect_datanode(0)?.strings("SELECT * FROM loxo.rebalance")?;
                return Err(failure(format!("the rebalance does not end: {shown:?}; {}", self.report)));
            }
            std::thread::sleep(POLL * 10);
        }
        let mut left = indexes(self.cluster)?;
        left.extend(self.strange_entries()?);
        left.extend(self.strange_nodes()?);
        if matches!(self.wish, Wish::Add(_)) {
            left.extend(uneven(self.cluster)?);
        }
        if left.is_empty() { Ok(()) } else { Err(failure(format!("left behind: {left:?}; {}", self.report))) }
    }

    /// Directories and files of half-made servers, and servers that run without being datanodes.
    fn strange_entries(&self) -> Result<Vec<String>> {
        let members = aftermath::datanodes(self.cluster)?;
        let is_member = |name: &str| members.iter().any(|(member, _)| member == name);
        let mut strange = Vec::new();
        for entry in fs::read_dir(self.cluster.dir())?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_aside = matches!(self.wish, Wish::Remove(removed) if name.strip_prefix(removed).is_some_and(|rest| rest.starts_with(".removed")));
            let (is_server, is_removed) =
                (name.starts_with("dn"), is_aside && !entry.path().join("postmaster.pid").exists());
            if is_server && !is_member(&name) && !is_removed {
                strange.push(name);
            }
        }
        Ok(strange)
    }

    /// The configuration and the metadata name the datanodes that are to be there.
    fn strange_nodes(&self) -> Result<Vec<String>> {
        let configured = fs::read_to_string(self.cluster.dir().join("cluster.toml"))?;
        let is_configured = |name: &str| configured.contains(&format!("name = \"{name}\""));
        let members = aftermath::datanodes(self.cluster)?;
        let mut strange: Vec<String> = members
            .iter()
            .filter(|(name, _)| !is_configured(name))
            .map(|(name, _)| format!("{name} is not configured"))
            .collect();
        let (name, shall_be) = match self.wish {
            Wish::Add(name) => (name, true),
            Wish::Remove(name) => (name, false),
        };
        let is_member = members.iter().any(|(member, _)| member == name);
        if (is_member, is_configured(name)) != (shall_be, shall_be) {
            strange.push(format!("{name}: a member {is_member}, configured {}", is_configured(name)));
        }
        Ok(strange)
    }
}

/// A command; it does not outlive the task that waits for it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended as a rule.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Indexes of a rebalance, which go with it.
fn indexes(cluster: &Cluster) -> Result<Vec<String>> {
    let sql = "SELECT relname FROM pg_class WHERE relkind IN ('i', 'I') AND relname LIKE 'loxo%' \
        AND relnamespace <> 'loxo'::regnamespace";
    let mut found = Vec::new();
    for (name, port) in aftermath::datanodes(cluster)? {
        let rows = Client::connect(port)?.strings(sql)?;
        found.extend(rows.into_iter().flatten().map(|index| format!("{name}: index {index}")));
    }
    Ok(found)
}

/// Rows of the table without a key, which are as many on each datanode once they are levelled.
fn uneven(cluster: &Cluster) -> Result<Option<String>> {
    let mut counts = Vec::new();
    for (_, port) in aftermath::datanodes(cluster)? {
        let count = Client::connect(port)?.scalar("SELECT count(*) FROM still_scattered")?;
        counts.push(count.parse::<usize>().unwrap_or(0));
    }
    let (least, most) = (counts.iter().min(), counts.iter().max());
    let is_even = most.zip(least).is_some_and(|(most, least)| most - least <= 1 + most / 50);
    Ok((!is_even).then(|| format!("rows of still_scattered: {counts:?}")))
}

/// Tables of all kinds that nobody writes.
#[derive(Debug)]
pub struct Still {
    sums: Vec<String>,
}

/// Large enough on each datanode for the index of a rebalance, and small ones.
const STILL: &[(&str, &str, usize)] = &[
    ("still_hashed", "DISTRIBUTE BY HASH (k)", 16_000),
    ("still_modulo", "DISTRIBUTE BY MODULO (k)", 500),
    ("still_scattered", "DISTRIBUTE BY ROUNDROBIN", 5_000),
    ("still_copied", "DISTRIBUTE BY REPLICATION", 500),
];

impl Still {
    /// Makes them.
    ///
    /// # Errors
    /// A statement's.
    pub fn create(cluster: &Cluster) -> Result<Self> {
        let mut client = cluster.connect(0)?;
        for (table, clause, rows) in STILL {
            client.run(&format!("CREATE TABLE {table} (k int, v text) {clause}"))?;
            client.run(&format!(
                "INSERT INTO {table} SELECT k, repeat(md5(k::text), 32) FROM generate_series(1, {rows}) AS k"
            ))?;
        }
        Ok(Self { sums: sums(cluster)? })
    }

    /// # Errors
    /// When other rows are there now, or copies differ.
    pub fn check(&self, cluster: &Cluster) -> Result<()> {
        let now = sums(cluster)?;
        if now == self.sums { Ok(()) } else { Err(failure(format!("rows are {now:?}, and were {:?}", self.sums))) }
    }
}

/// As a client sees them, and the copy of each datanode.
fn sums(cluster: &Cluster) -> Result<Vec<String>> {
    let sum = |table: &str| {
        format!("SELECT concat(count(*), ' ', md5(string_agg(md5(t::text), '' ORDER BY k))) FROM {table} AS t")
    };
    let mut client = cluster.connect(0)?;
    let mut sums = STILL.iter().map(|(table, ..)| client.scalar(&sum(table))).collect::<Result<Vec<_>>>()?;
    for (_, port) in aftermath::datanodes(cluster)? {
        sums.push(Client::connect(port)?.scalar(&sum("still_copied"))?);
    }
    // All copies are one.
    sums.dedup();
    Ok(sums)
}
