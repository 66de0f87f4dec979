//! Links between processes that break, or swallow what is said over them, while both ends live.
//!
//! ```text
//!  gtm, gtm2, the last coordinator ── relay, one for each peer ──► datanodes, gtms
//! ```
//!
//! Such a process has a configuration of its own, in which each of its peers is a relay. So one process may lose
//! another that everybody else still reaches: a leading gtm its lock on the primary datanode, a coordinator the gtm.
//!
//! Invariants: a relay never changes what goes through, nor its order; what it holds back while silent comes later, unless it breaks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pgerror::Result;
use testkit::{Cluster, Rng, loxo_binary};

use crate::processes::{self, Kind, Process, failure};

/// Between the end of a fault and the next one.
const CALM_MS: Range<usize> = 500..3000;
/// How long a fault lasts: shorter than a lease, and longer than every limit of the gtm.
const FAULT_MS: Range<usize> = 100..7000;
/// A process that starts can be connected to so soon.
const START_MAX: Duration = Duration::from_secs(20);
/// Between two tries to.
const POLL: Duration = Duration::from_millis(20);

/// What a relay does with what it is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Whole,
    /// Keeps it for later, like a network that loses packets for a while.
    Silent,
    /// Ends all connections and takes no new ones.
    Broken,
}

struct State {
    mode: Mode,
    /// Both ends of all connections.
    streams: Vec<TcpStream>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, mode: Mode) {
        let mut state = self.lock();
        state.mode = mode;
        if mode == Mode::Broken {
            state.streams.drain(..).for_each(|stream| _ = stream.shutdown(Shutdown::Both));
        }
        self.changed.notify_all();
    }

    /// Waits out silence; false if nothing may pass any more.
    fn lets_pass(&self) -> bool {
        let mut state = self.lock();
        while state.mode == Mode::Silent {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.mode == Mode::Whole
    }
}

/// One link. Its threads end with the test's process.
struct Relay {
    /// As in a report: `gtm-dn1`.
    name: String,
    shared: Arc<Shared>,
}

impl Relay {
    /// To a port of this machine; gives its own.
    fn start(name: String, to: u16) -> Result<(Self, u16)> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let state = Mutex::new(State { mode: Mode::Whole, streams: Vec::new() });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let relay = Self { name, shared: shared.clone() };
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = shared.clone();
                thread::spawn(move || _ = connect(&shared, client, to));
            }
        });
        Ok((relay, port))
    }
}

/// Both directions of a connection, until it ends.
fn connect(shared: &Arc<Shared>, client: TcpStream, to: u16) -> std::io::Result<()> {
    if !shared.lets_pass() {
        return Ok(());
    }
    let server = TcpStream::connect(("127.0.0.1", to))?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    {
        let mut state = shared.lock();
        if state.mode == Mode::Broken {
            return Ok(());
        }
        state.streams.extend([client.try_clone()?, server.try_clone()?]);
    }
    let back = (shared.clone(), server.try_clone()?, client.try_clone()?);
    thread::spawn(move || pass(&back.0, back.1, back.2));
    pass(shared, client, server);
    Ok(())
}

fn pass(shared: &Shared, mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !shared.lets_pass() || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // An end is news too, and news wait.
    shared.lets_pass();
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// A cluster some of whose processes reach their peers over relays. Dropped, those processes are killed.
pub struct Detours<'a> {
    cluster: &'a Cluster,
    /// The processes, and the file each was configured by.
    processes: Vec<Process>,
    relays: Vec<Relay>,
}

/// What was done to the links.
#[derive(Debug, Default)]
#[allow(missing_docs)]
pub struct Report {
    /// Faults by mode and link.
    pub faults: BTreeMap<String, usize>,
}

impl<'a> Detours<'a> {
    /// Starts the gtms and the last coordinator anew, each with relays to all its peers.
    ///
    /// # Errors
    /// When one of them does not start.
    pub fn start(cluster: &'a Cluster) -> Result<Self> {
        let mut detours = Self { cluster, processes: Vec::new(), relays: Vec::new() };
        let last = format!("coord{}", cluster.coordinators().len());
        let running = processes::running(cluster)?;
        let whom = |process: &&Process| process.kind == Kind::Gtm || process.name == last;
        for process in running.iter().filter(whom) {
            processes::kill(cluster, process)?;
            detours.restart(process)?;
        }
        Ok(detours)
    }

    fn restart(&mut self, process: &Process) -> Result<()> {
        let dir = self.cluster.dir();
        let text = fs::read_to_string(dir.join("cluster.toml"))?;
        let (mut detoured, mut section, mut nodes, mut gtms) = (String::new(), "", 0, 0);
        // A cluster of one machine is reached over sockets in its directories, past every relay.
        for line in text.lines().take_while(|line| *line != "[local]") {
            if line.starts_with('[') {
                section = line;
            }
            let peer = match (section, line.strip_prefix("port = ")) {
                ("[[datanode]]", Some(port)) => {
                    nodes += 1;
                    Some((format!("dn{nodes}"), port))
                }
                // Gtms do not talk to each other, and need the ports that they listen on.
                ("[[gtm]]", Some(port)) if process.kind == Kind::Coordinator => {
                    gtms += 1;
                    Some((format!("gtm{gtms}"), port))
                }
                _ => None,
            };
            let _ = match peer {
                Some((name, port)) => {
                    let to = port.parse().map_err(|_| failure(format!("{line} is no port")))?;
                    let (relay, port) = Relay::start(format!("{}-{name}", process.name), to)?;
                    self.relays.push(relay);
                    writeln!(detoured, "port = {port}")
                }
                None => writeln!(detoured, "{line}"),
            };
        }
        let config = dir.join(format!("{}.toml", process.name));
        fs::write(&config, detoured)?;
        let log = fs::File::options().append(true).create(true).open(dir.join(format!("log/{}.log", process.name)))?;
        let kind = if process.kind == Kind::Gtm { "gtm" } else { "coordinator" };
        let mut command = Command::new(loxo_binary()?);
        command.arg(kind).arg("--config").arg(config).args(["--name", &process.name]);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let pid = command.spawn()?.id();
        self.processes.push(Process { pid: i32::try_from(pid).unwrap_or_default(), ..process.clone() });
        if process.kind == Kind::Coordinator {
            let deadline = Instant::now() + START_MAX;
            while self.cluster.connect(self.cluster.coordinators().len() - 1).is_err() {
                if Instant::now() >= deadline {
                    let log = fs::read_to_string(dir.join(format!("log/{}.log", process.name))).unwrap_or_default();
                    let last: Vec<&str> = log.lines().rev().take(3).collect();
                    return Err(failure(format!("{} does not start: {last:?}", process.name)));
                }
                thread::sleep(POLL);
            }
        }
        Ok(())
    }

    /// Faults until `end`; all links are whole when it returns.
    pub fn run(&self, seed: u64, end: Instant) -> Report {
        let (mut rng, mut report) = (Rng::new(seed), Report::default());
        loop {
            let (calm, fault) = (between(&mut rng, CALM_MS), between(&mut rng, FAULT_MS));
            if Instant::now() + calm >= end && !report.faults.is_empty() {
                return report;
            }
            thread::sleep(calm);
            let mode = if rng.one_in(2) { Mode::Silent } else { Mode::Broken };
            let hit = self.draw(&mut rng);
            hit.iter().for_each(|relay| relay.shared.set(mode));
            thread::sleep(fault.min(end.saturating_duration_since(Instant::now())));
            hit.iter().for_each(|relay| relay.shared.set(Mode::Whole));
            for relay in hit {
                *report.faults.entry(format!("{mode:?} {}", relay.name)).or_default() += 1;
            }
        }
    }

    /// One link, all links of a process, or all links to a peer.
    fn draw(&self, rng: &mut Rng) -> Vec<&Relay> {
        let one = &self.relays[rng.below(self.relays.len())];
        let ends = |relay: &Relay| relay.name.split_once('-').map(|(of, to)| (of.to_owned(), to.to_owned()));
        let (of, to) = ends(one).unwrap_or_default();
        match rng.below(3) {
            0 => vec![one],
            1 => self.relays.iter().filter(|relay| ends(relay).is_some_and(|ends| ends.0 == of)).collect(),
            _ => self.relays.iter().filter(|relay| ends(relay).is_some_and(|ends| ends.1 == to)).collect(),
        }
    }
}

impl Drop for Detours<'_> {
    fn drop(&mut self) {
        for process in &self.processes {
            let _ = processes::kill(self.cluster, process);
        }
        for relay in &self.relays {
            relay.shared.set(Mode::Broken);
        }
    }
}

fn between(rng: &mut Rng, range: Range<usize>) -> Duration {
    Duration::from_millis((range.start + rng.below(range.len())) as u64)
}
