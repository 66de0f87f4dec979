//! The datanodes' settings: profiles, their lines in postgresql.conf with the reason beside each.
//!
//! `docs/settings.md` lists the same settings at length; a test keeps the two together.

use std::collections::BTreeMap;
use std::fmt::Write;

use pgerror::{PgError, Result};
use serde::{Deserialize, Serialize};

use crate::config::invalid::invalid;

/// First line of the part of postgresql.conf that is ours; everything from here on is written anew.
const MARK: &str = "# ---- settings of loxo: written by \"loxo up\", see docs/settings.md ----";

/// What the datanodes are tuned for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Mixed work.
    #[default]
    Default,
    /// Loading and large queries: no replication, few checkpoints.
    Bulk,
    /// Many short transactions.
    Oltp,
}

/// What the machine gives to each datanode.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Main memory in MiB, or the control group's limit if that is lower.
    pub memory_mib: u64,
    /// Processors that may be used.
    pub cores: u64,
    /// Datanodes that share them.
    pub datanodes: u64,
}

impl Machine {
    /// Memory of one datanode in MiB.
    fn share_mib(self) -> u64 {
        (self.memory_mib / self.datanodes).max(256)
    }

    /// Connections that each of so many coordinators may have to each datanode, so that all their backends take half of the memory at
    /// most.
    pub(crate) fn pool_size(self, coordinators: usize) -> usize {
        const BACKEND_MIB: u64 = 4;
        (self.memory_mib / 2 / BACKEND_MIB / self.datanodes) as usize / coordinators.max(1)
    }

    /// This machine, shared by so many datanodes.
    pub fn here(datanodes: usize) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let total_kib = read("/proc/meminfo")
            .lines()
            .find_map(|l| l.strip_prefix("MemTotal:")?.split_ascii_whitespace().next()?.parse::<u64>().ok());
        // No limit is the word "max", which is not a number.
        let limit = read("/sys/fs/cgroup/memory.max").trim().parse::<u64>().map_or(u64::MAX, |bytes| bytes >> 20);
        let memory_mib = total_kib.map_or(2048, |kib| kib >> 10).min(limit);
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        Self { memory_mib, cores, datanodes: datanodes.max(1) as u64 }
    }
}

/// One line of postgresql.conf.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The parameter's name.
    pub name: String,
    /// Its value, unquoted.
    pub value: String,
    /// Why it is set.
    pub reason: &'static str,
}

/// Parameters that the cluster itself depends on: `--set` may not touch them.
const OWNED: [&str; 8] = [
    "port",
    "listen_addresses",
    "unix_socket_directories",
    "cluster_name",
    "data_directory",
    "hba_file",
    "external_pid_file",
    "logging_collector",
];

/// Parses one `--set name=value`. Whether PostgreSQL knows the name, it says itself when it starts.
pub fn parse_assignment(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        invalid(format!("\"{text}\" is not a setting")).hint("Write --set name=value, e.g. --set work_mem=64MB.")
    })?;
    let name = name.trim().to_ascii_lowercase();
    let word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
    if name.is_empty() || !word || name.as_bytes()[0].is_ascii_digit() {
        return Err(invalid(format!("\"{name}\" is not the name of a setting")));
    }
    if value.contains(['\n', '\r', '\0']) {
        return Err(invalid(format!("the value of \"{name}\" has more than one line")));
    }
    if OWNED.contains(&name.as_str()) {
        return Err(invalid(format!("\"{name}\" cannot be set: the cluster depends on it"))
            .hint("Ports follow from --port, places from --dir."));
    }
    Ok((name, value.trim().to_owned()))
}

/// The settings of a datanode that listens on `port`, in the order of the file; `set` overrides and adds.
pub fn settings(
    profile: Profile,
    machine: Machine,
    port: u16,
    title: &str,
    socket_dir: Option<&str>,
    set: &BTreeMap<String, String>,
) -> Vec<Setting> {
    let mut list = Vec::with_capacity(40);
    let mut add = |name: &str, value: String, reason| list.push(Setting { name: name.to_owned(), value, reason });
    network(port, title, socket_dir, &mut add);
    transactions(set, &mut add);
    memory(profile, machine, &mut add);
    wal(profile, machine, &mut add);
    planner(machine, &mut add);
    for (name, value) in set {
        let reason = "given with --set";
        match list.iter_mut().find(|s| s.name == *name) {
            Some(setting) => (setting.value, setting.reason) = (value.clone(), reason),
            None => list.push(Setting { name: name.clone(), value: value.clone(), reason }),
        }
    }
    list
}

type Add<'a> = dyn FnMut(&str, String, &'static str) + 'a;

fn network(port: u16, title: &str, socket_dir: Option<&str>, add: &mut Add) {
    add("port", port.to_string(), "P + 100, P + 101, … for the cluster's port P");
    add("listen_addresses", "127.0.0.1".into(), "trust authentication: only programs of this machine may connect");
    add(
        "unix_socket_directories",
        socket_dir.unwrap_or_default().to_owned(),
        "coordinators come by a socket in the data directory, unless its path exceeds the 107 bytes allowed",
    );
    add("cluster_name", title.into(), "shown in the title of every server process, so ps tells whose it is");
    add("log_line_prefix", "%m [%p] %q%u@%d %a ".into(), "time, process, user, database and program of each log line");
    add("log_checkpoints", "off".into(), "a bulk load checkpoints often; the log shows what went wrong, not that");
}

/// `max_connections` of a datanode with these settings of its own.
pub fn max_connections(set: &BTreeMap<String, String>) -> usize {
    const CONNECTIONS: usize = 250;
    set.get("max_connections").and_then(|v| v.parse().ok()).unwrap_or(CONNECTIONS)
}

fn transactions(set: &BTreeMap<String, String>, add: &mut Add) {
    let connections = max_connections(set);
    add("max_connections", connections.to_string(), "all coordinators' pools together, and room for an administrator");
    add(
        "max_prepared_transactions",
        connections.to_string(),
        "each session may be between the phases of a two-phase commit",
    );
    add("fsync", "on".into(), "a confirmed commit survives a power failure");
    add("full_page_writes", "on".into(), "a page torn by a power failure is repaired from the WAL");
    add("synchronous_commit", "on".into(), "the commit point of a distributed transaction must be on disk");
    add("max_locks_per_transaction", "256".into(), "one statement may lock every partition of a table");
}

/// A quarter of the memory is PostgreSQL's own cache, the rest the operating system's; all of it is shared out.
fn memory(profile: Profile, machine: Machine, add: &mut Add) {
    let share = machine.share_mib();
    let mib = |n: u64| format!("{n}MB");
    let work_mem = match profile {
        Profile::Default => (share / 128).clamp(4, 256),
        Profile::Bulk => (share / 32).clamp(16, 1024),
        Profile::Oltp => (share / 256).clamp(4, 64),
    };
    add("shared_buffers", mib((share / 4).clamp(64, 16 * 1024)), "a quarter of this datanode's share of the memory");
    add("effective_cache_size", mib(share * 3 / 4), "what the planner may assume to be cached, here or in the kernel");
    add("work_mem", mib(work_mem), "memory of one sort or hash; several run at a time in each session");
    add("maintenance_work_mem", mib((share / 16).clamp(64, 2048)), "memory for building an index and for VACUUM");
    add("huge_pages", "try".into(), "fewer page table entries where the kernel has huge pages");
}

/// More datanodes than this share the disk's room for WAL, instead of each having its own.
const DATANODES_OF_FULL_WAL: u64 = 16;

fn wal(profile: Profile, machine: Machine, add: &mut Add) {
    let (wal_gib, timeout) = match profile {
        Profile::Default => (4, "15min"),
        Profile::Bulk => (16, "30min"),
        Profile::Oltp => (8, "15min"),
    };
    let wal_mib = wal_gib * 1024 * DATANODES_OF_FULL_WAL / machine.datanodes.max(DATANODES_OF_FULL_WAL);
    let mib = |n: u64| format!("{n}MB");
    if profile == Profile::Bulk {
        add("wal_level", "minimal".into(), "a COPY into a table made or truncated in its transaction writes no WAL");
        add("max_wal_senders", "0".into(), "wal_level = minimal requires it");
    } else {
        add("wal_level", "replica".into(), "standbys and base backups stay possible");
    }
    add("max_wal_size", mib(wal_mib), "checkpoints come by time, not in the middle of a load");
    add("min_wal_size", mib((wal_mib / 4).min(1024)), "WAL files are recycled instead of made anew");
    add("checkpoint_timeout", timeout.into(), "fewer full page images");
    add("checkpoint_completion_target", "0.9".into(), "spreads the writes of a checkpoint");
    let buffers = mib((machine.share_mib() / 16).clamp(16, 64));
    add("wal_buffers", buffers, "a COPY fills the default 16 MB between two flushes");
    let compression = if profile == Profile::Oltp { "on" } else { "off" };
    add(
        "wal_compression",
        compression.into(),
        "full page images of scattered updates shrink; a load only pays the processor time",
    );
    add("bgwriter_lru_maxpages", "1000".into(), "backends find clean buffers during a load");
}

fn planner(machine: Machine, add: &mut Add) {
    let per_node = machine.cores.div_ceil(machine.datanodes);
    let gather = if per_node == 1 { 0 } else { per_node / 2 };
    add("jit", "off".into(), "compiling costs more than the short fragments of a distributed plan gain");
    add("random_page_cost", "1.1".into(), "solid state disks and cached data");
    add("effective_io_concurrency", "200".into(), "solid state disks serve many reads at a time");
    add("default_statistics_target", "200".into(), "estimates decide between broadcast and repartition");
    add("max_worker_processes", (8 + machine.cores).to_string(), "parallel workers and background workers");
    add("max_parallel_workers", machine.cores.to_string(), "no more workers than processors");
    add(
        "max_parallel_workers_per_gather",
        gather.to_string(),
        "all datanodes work on the same statement: share the processors",
    );
    add("autovacuum_vacuum_insert_scale_factor", "0.1".into(), "freshly loaded tables get their visibility map early");
}

/// The whole postgresql.conf: what initdb wrote (locale, time zone, comments), then our part. An earlier part of ours
/// is replaced.
pub fn render(existing: &str, settings: &[Setting]) -> String {
    let base = existing.find(MARK).map_or(existing, |at| &existing[..at]);
    let mut text =
        format!("{}\n\n{MARK}\n# A line further down wins over the same name further up.\n", base.trim_end());
    for setting in settings {
        let line = format!("{} = '{}'", setting.name, setting.value.replace('\\', "\\\\").replace('\'', "''"));
        writeln!(text, "{line:<48} # {}", setting.reason).expect("writing to a String cannot fail");
    }
    text
}

/// pg_hba.conf of a local datanode.
pub const HBA: &str = "\
# Written by \"loxo up\". The server listens on 127.0.0.1 only; every user of this machine may connect.
# The socket lies in the data directory, which is closed to others.
# TYPE  DATABASE     USER  ADDRESS       METHOD
local   all          all                 trust
host    all          all   127.0.0.1/32  trust
host    replication  all   127.0.0.1/32  trust
";

impl std::str::FromStr for Profile {
    type Err = PgError;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "default" => Ok(Profile::Default),
            "bulk" => Ok(Profile::Bulk),
            "oltp" => Ok(Profile::Oltp),
            _ => Err(invalid(format!("there is no profile \"{text}\"")).hint("Profiles are default, bulk and oltp.")),
        }
    }
}

impl std::fmt::Display for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Profile::Default => "default",
            Profile::Bulk => "bulk",
            Profile::Oltp => "oltp",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine { memory_mib: 16 * 1024, cores: 8, datanodes: 4 };

    fn list(profile: Profile, set: &[(&str, &str)]) -> Vec<Setting> {
        let set = set.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        settings(profile, MACHINE, 5533, "/d/dn1", Some("/d/dn1"), &set)
    }

    fn value(list: &[Setting], name: &str) -> String {
        let mut found = list.iter().filter(|s| s.name == name);
        let value = found.next().unwrap_or_else(|| panic!("{name} is not set")).value.clone();
        assert!(found.next().is_none(), "{name} is set twice");
        value
    }

    #[test]
    fn the_memory_is_shared_out() {
        let list = list(Profile::Default, &[]);
        assert_eq!(value(&list, "shared_buffers"), "1024MB");
        assert_eq!(value(&list, "max_parallel_workers_per_gather"), "1");
    }

    #[test]
    fn many_datanodes_share_what_few_have_each() {
        let here = |datanodes| Machine { memory_mib: 24 * 1024, cores: 2, datanodes };
        let sizes = |datanodes| {
            let list = settings(Profile::Default, here(datanodes), 5533, "/d/dn1", None, &BTreeMap::new());
            ["max_wal_size", "min_wal_size", "wal_buffers"].map(|name| value(&list, name))
        };
        assert_eq!(sizes(2), ["4096MB", "1024MB", "64MB"]);
        assert_eq!(sizes(64), ["1024MB", "256MB", "24MB"]);
        assert_eq!([1, 2, 8].map(|coordinators| here(64).pool_size(coordinators)), [48, 24, 6]);
    }

    #[test]
    fn every_profile_keeps_data_safe() {
        for profile in [Profile::Default, Profile::Bulk, Profile::Oltp] {
            let list = list(profile, &[]);
            for name in ["fsync", "full_page_writes", "synchronous_commit"] {
                assert_eq!(value(&list, name), "on", "{profile}");
            }
        }
    }

    #[test]
    fn set_overrides_and_prepared_transactions_follow_the_connections() {
        let list = list(Profile::Bulk, &[("max_connections", "500"), ("wal_level", "logical"), ("a.b", "it's")]);
        assert_eq!(value(&list, "max_prepared_transactions"), "500");
        assert_eq!(value(&list, "wal_level"), "logical");
        assert!(render("", &list).contains("a.b = 'it''s'"));
    }

    #[test]
    fn rendering_twice_changes_nothing() {
        let settings = list(Profile::Oltp, &[]);
        let once = render("timezone = 'UTC'\n", &settings);
        assert_eq!(render(&once, &settings), once);
        assert!(once.starts_with("timezone = 'UTC'\n"));
    }

    #[test]
    fn assignments_are_checked() {
        assert_eq!(parse_assignment("Work_Mem = 64MB").unwrap(), ("work_mem".into(), "64MB".into()));
        assert!(parse_assignment("work_mem").is_err());
        assert!(parse_assignment("port=1").unwrap_err().to_string().contains("--port"));
        assert!(parse_assignment("x y=1").is_err());
    }

    #[test]
    fn the_manual_names_every_setting() {
        let manual = include_str!("../../../docs/settings.md");
        for profile in [Profile::Default, Profile::Bulk, Profile::Oltp] {
            for setting in list(profile, &[]) {
                assert!(manual.contains(&format!("`{}`", setting.name)), "{} is not in docs/settings.md", setting.name);
            }
        }
    }
}
