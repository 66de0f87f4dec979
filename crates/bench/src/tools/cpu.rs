//! CPU time of processes, from /proc.
//!
//! A PostgreSQL backend that has ended is in its postmaster's `cutime`/`cstime` (the postmaster waits for its children);
//! one that lives is found by its parent. So own time + time of waited-for children, summed over a process and all its
//! living descendants, never loses anything, and the difference of two readings is what was used in between.

use std::collections::HashMap;
use std::path::Path;

use pgerror::{PgError, Result};

/// Linux shows times to user space in 1/100 s on every architecture PostgreSQL packages exist for (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// What /proc/PID/stat says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// utime + stime + cutime + cstime.
    ticks: u64,
    /// cutime + cstime.
    ticks_of_children: u64,
}

/// CPU seconds of these processes and all their descendants, living or waited for.
///
/// # Errors
/// When /proc cannot be read.
pub fn tree_seconds(roots: &[u32]) -> Result<f64> {
    Ok(Look::now()?.tree_seconds(roots))
}

/// CPU seconds of each of these processes by itself, with its descendants.
///
/// # Errors
/// When /proc cannot be read.
pub fn each_seconds(roots: &[u32]) -> Result<Vec<f64>> {
    Ok(Look::now()?.each_seconds(roots))
}

/// All processes at one moment: what is read of one look is of the same interval.
pub(crate) struct Look(HashMap<u32, Stat>);

impl Look {
    pub(crate) fn now() -> Result<Self> {
        let stat = |pid: u32| Some((pid, parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?));
        Ok(Self(pids()?.into_iter().filter_map(stat).collect()))
    }

    pub(crate) fn tree_seconds(&self, roots: &[u32]) -> f64 {
        self.seconds(|pid| self.belongs(roots, pid))
    }

    pub(crate) fn each_seconds(&self, roots: &[u32]) -> Vec<f64> {
        roots.iter().map(|root| self.tree_seconds(&[*root])).collect()
    }

    /// Of a process and its descendants, but for `without` and theirs: a cluster that this process has started consists of its
    /// children.
    pub(crate) fn own_seconds(&self, own: u32, without: &[u32]) -> f64 {
        self.seconds(|pid| self.belongs(&[own], pid) && !self.belongs(without, pid))
    }

    fn seconds(&self, is_wanted: impl Fn(u32) -> bool) -> f64 {
        let wanted = self.0.iter().filter(|(pid, _)| is_wanted(**pid));
        wanted.map(|(_, stat)| stat.ticks).sum::<u64>() as f64 / TICKS_PER_SECOND
    }

    /// Is it one of the roots, or does it come from one?
    fn belongs(&self, roots: &[u32], mut pid: u32) -> bool {
        // A process tree is not deeper than the number of processes.
        for _ in 0..self.0.len() {
            if roots.contains(&pid) {
                return true;
            }
            match self.0.get(&pid) {
                Some(stat) => pid = stat.parent,
                None => return false,
            }
        }
        false
    }
}

/// CPU seconds of a thread of this process, by its place in /proc.
///
/// # Errors
/// When /proc cannot be read.
pub(crate) fn thread_seconds(place: &Path) -> Result<f64> {
    let stat = std::fs::read_to_string(place.join("stat"))?;
    let ticks = parse(&stat).map(|stat| stat.ticks - stat.ticks_of_children);
    ticks
        .map(|ticks| ticks as f64 / TICKS_PER_SECOND)
        .ok_or_else(|| PgError::internal("a thread has no times in /proc"))
}

/// CPU seconds of this process's children that have ended and were waited for.
///
/// # Errors
/// When /proc cannot be read.
pub fn children_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    parse(&stat)
        .map(|stat| stat.ticks_of_children as f64 / TICKS_PER_SECOND)
        .ok_or_else(|| PgError::internal("/proc/self/stat is not what it was"))
}

/// CPU seconds of all processes of this machine together.
///
/// # Errors
/// When /proc cannot be read.
pub fn machine_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    busy_ticks(&stat)
        .map(|ticks| ticks as f64 / TICKS_PER_SECOND)
        .ok_or_else(|| PgError::internal("/proc/stat is not what it was"))
}

/// `cpu  user nice system idle iowait irq softirq steal …`
fn busy_ticks(stat: &str) -> Option<u64> {
    let words = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let ticks: Vec<u64> = words.map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else { return None };
    Some(user + nice + system + irq + softirq + steal)
}

/// Memory of these processes and all their descendants in MiB, of what several share a part each (proportional set size).
///
/// # Errors
/// When /proc cannot be read.
pub fn tree_memory(roots: &[u32]) -> Result<f64> {
    let pss = |pid: u32| -> Option<u64> {
        // A process may end while we look.
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Pss:")?.split_ascii_whitespace().next()?.parse().ok())
    };
    let look = Look::now()?;
    let kib: u64 = look.0.keys().filter(|pid| look.belongs(roots, **pid)).filter_map(|pid| pss(*pid)).sum();
    Ok(kib as f64 / 1024.0)
}

/// Processes whose command line has a word that contains `dir` and whose first argument is one of `commands`.
///
/// # Errors
/// When /proc cannot be read.
pub fn find(dir: &Path, commands: &[&str]) -> Result<Vec<u32>> {
    let dir = dir.to_string_lossy();
    let mut found = Vec::new();
    for pid in pids()? {
        // A process may end while we look.
        let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).into_owned();
        let words: Vec<&str> = line.split('\0').collect();
        let is_wanted = words.get(1).is_some_and(|word| commands.contains(word));
        if is_wanted && words.iter().any(|word| word.contains(dir.as_ref())) {
            found.push(pid);
        }
    }
    Ok(found)
}

fn pids() -> Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc").map_err(|e| PgError::internal(format!("cannot read /proc: {e}")))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Fields are counted after the command name, which is in parentheses and may hold anything (proc(5)).
fn parse(stat: &str) -> Option<Stat> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
    let own = (11..13).map(number).sum::<Option<u64>>()?;
    let ticks_of_children = (13..15).map(number).sum::<Option<u64>>()?;
    Some(Stat { parent: number(1)? as u32, ticks: own + ticks_of_children, ticks_of_children })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_busy_with_everything_but_idling_and_waiting() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 1 2\n"), Some(63));
        assert_eq!(busy_ticks("intr 1"), None);
        assert!(machine_seconds().unwrap() > 0.0);
    }

    #[test]
    fn a_name_with_blanks_and_parentheses() {
        let line = "42 (a b) c) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5";
        assert_eq!(parse(line), Some(Stat { parent: 7, ticks: 100, ticks_of_children: 70 }));
    }

    #[test]
    fn a_cluster_that_we_have_started_is_not_our_own_work() {
        let stat = |parent, ticks| Stat { parent, ticks, ticks_of_children: 0 };
        // 7 has started a gtm (8), a coordinator (9), whose worker is 10, and a helper of its own (11).
        let look = Look(HashMap::from([
            (1, stat(0, 10_000)),
            (7, stat(1, 100)),
            (8, stat(7, 1000)),
            (9, stat(7, 2000)),
            (10, stat(9, 4000)),
            (11, stat(7, 50)),
        ]));
        assert_eq!(look.own_seconds(7, &[8, 9]), 1.5);
        assert_eq!(look.own_seconds(7, &[]), 71.5);
    }

    #[test]
    fn our_own_work_and_that_of_an_ended_child_are_counted() {
        let me = std::process::id();
        let before = tree_seconds(&[me]).expect("a reading");
        let children = children_seconds().expect("a reading");
        // By its own clock: where others work, time passes without it.
        while tree_seconds(&[me]).expect("a reading") < before + 0.15 {}
        let status = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
            .status()
            .expect("a shell");
        assert!(status.success());
        let used = tree_seconds(&[me]).expect("a reading") - before;
        assert!((0.1..20.0).contains(&used), "{used}");
        let of_children = children_seconds().expect("a reading") - children;
        assert!(of_children > 0.0 && of_children < used, "{of_children} of {used}");
        assert!(tree_memory(&[me]).expect("a reading") > 0.5);
    }
}
