//! Random messages, also wrong ones, get from a coordinator the answers of one PostgreSQL; it neither falls nor hangs, keeps no
//! transaction open on a datanode, and does not grow. See [`e2e::protocol`] for what is compared.
//!
//! `LOXO_FUZZ_SEED` is the first case's seed (1 by default, a fresh one by `make fuzz`), each next case has the next number;
//! `LOXO_FUZZ_CASES` says how many (default 120); `LOXO_FUZZ_SECONDS` runs for that long instead. A failure prints the messages, as
//! few as still differ, and the seed that runs it again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use e2e::protocol::compare::Comparison;
use e2e::protocol::messages::Message;
use e2e::protocol::sequence::sequence;
use e2e::protocol::{Both, contents, shrink};
use testkit::{Cluster, Rng, Server, ServerOptions, number};

/// Cases of a run that does not say how many.
const CASES: u64 = 120;
/// One case in so many is about the first bytes of a connection.
const STARTUPS: u64 = 6;
/// More failures than this add nothing.
const FAILURES_MAX: usize = 10;
/// The datanodes are looked at after so many cases.
const AUDITED_CASES: u64 = 25;
/// How long a session's end may take.
const END_MAX: Duration = Duration::from_secs(20);
/// By how much a coordinator may grow.
const GROWTH_MAX_KB: u64 = 200 * 1024;

#[test]
fn messages_are_answered_like_by_one_postgresql() {
    let cluster = Cluster::start(3, 1).expect("a cluster");
    let options = ServerOptions::like(&mut cluster.connect(0).expect("a session")).expect("its locale");
    let both = Both { reference: Server::start(&options).expect("a stock server"), cluster };
    both.set_up().expect("the tables");
    let limit = number("LOXO_FUZZ_SECONDS").map(Duration::from_secs);
    let cases = number("LOXO_FUZZ_CASES").unwrap_or(CASES);
    let failures_max = number("LOXO_FUZZ_FAILURES").map_or(FAILURES_MAX, |most| most as usize);
    let first = number("LOXO_FUZZ_SEED").unwrap_or(1);
    let started = Instant::now();
    let mut run = Run::new(both);
    let mut done = 0;
    while limit.map_or(done < cases, |limit| started.elapsed() < limit) && run.failures < failures_max {
        run.case(first + done);
        done += 1;
        if done.is_multiple_of(AUDITED_CASES) {
            run.audit();
        }
    }
    run.audit();
    let seconds = started.elapsed().as_secs_f64();
    let Run { messages, tally, failures, .. } = run;
    eprintln!("{messages} messages in {done} cases from seed {first} in {seconds:.0} s: {tally:?}, {failures} differ");
    assert!(tally.contains_key("the same") && failures == 0);
}

struct Run {
    both: Both,
    /// Looks at the tables of the stock server, and of the cluster.
    looks: [testkit::wire::Client; 2],
    /// What the tables hold when a sequence begins.
    full: e2e::protocol::Contents,
    pids: Vec<u32>,
    memory_kb: u64,
    messages: usize,
    tally: BTreeMap<&'static str, usize>,
    failures: usize,
}

impl Run {
    fn new(both: Both) -> Self {
        let mut looks = [both.reference.connect().expect("a session"), both.cluster.connect(0).expect("a session")];
        let full = contents(&mut looks[0]).expect("the rows");
        let mut run = Self {
            both,
            looks,
            full,
            pids: Vec::new(),
            memory_kb: 0,
            messages: 0,
            tally: BTreeMap::new(),
            failures: 0,
        };
        run.pids = run.coordinators();
        run.memory_kb = run.memory_kb();
        run
    }

    fn case(&mut self, seed: u64) {
        if seed.is_multiple_of(STARTUPS) {
            let (packets, outcome) = self.both.startup_case(seed);
            self.messages += outcome.messages;
            self.count(&outcome.comparison);
            if let Comparison::Different(difference) = outcome.comparison {
                self.fail(seed, &packets, &difference);
            }
            return;
        }
        let mut rng = Rng::new(seed);
        let said = sequence(&mut rng);
        // Borders of packets fall anywhere.
        let piece = [usize::MAX, usize::MAX, 1 + rng.below(40)][rng.below(3)];
        let Some(mut last) = self.attempt(seed, &said, piece, true) else { return };
        let small =
            shrink(said, |fewer| self.attempt(seed, fewer, piece, false).map(|difference| last = difference).is_some());
        let again = self.attempt(seed, &small, piece, false);
        let difference = again.unwrap_or_else(|| format!("  not each time; the last time:\n{last}"));
        self.fail(seed, &small, &difference);
    }

    /// Runs a sequence; gives what differs.
    fn attempt(&mut self, seed: u64, said: &[Message], piece: usize, counts: bool) -> Option<String> {
        let outcome = self.both.sequence_case(said, piece);
        self.messages += outcome.messages;
        if self.looks[0].simple("SELECT 1").is_err() {
            self.stock_server_fell(seed);
            return None;
        }
        if counts {
            self.count(&outcome.comparison);
        }
        let tables = self.both.tables_differ(&mut self.looks, &outcome.comparison, &self.full);
        let tables = tables.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", shown(said)));
        match outcome.comparison {
            Comparison::Different(difference) => Some(difference),
            Comparison::Same | Comparison::LeftOut(_) => tables,
        }
    }

    /// PostgreSQL itself does not survive each sequence. It starts again by itself.
    fn stock_server_fell(&mut self, seed: u64) {
        eprintln!("seed {seed}: the stock server has crashed");
        self.count(&Comparison::LeftOut("the stock server crashes"));
        let started = Instant::now();
        self.looks[0] = loop {
            match self.both.reference.connect() {
                Ok(look) => break look,
                Err(error) => assert!(started.elapsed() < END_MAX, "seed {seed}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        self.looks.iter_mut().for_each(|look| drop(look.run(e2e::protocol::texts::FILL).expect("the rows")));
    }

    fn count(&mut self, comparison: &Comparison) {
        let name = match comparison {
            Comparison::Same => "the same",
            Comparison::LeftOut(reason) => reason,
            Comparison::Different(_) => "not the same",
        };
        *self.tally.entry(name).or_default() += 1;
    }

    fn fail(&mut self, seed: u64, said: &[Message], difference: &str) {
        eprintln!(
            "seed {seed}, messages:\n{}{difference}  again with LOXO_FUZZ_CASES=1 LOXO_FUZZ_SEED={seed}\n",
            shown(said)
        );
        self.failures += 1;
    }

    /// Of the coordinator: it lives, has not panicked, keeps nothing open and has not grown.
    fn audit(&mut self) {
        assert_eq!(self.coordinators(), self.pids, "a coordinator has gone");
        assert_eq!(self.panics(), Vec::<String>::new());
        assert!(self.memory_kb() < self.memory_kb + GROWTH_MAX_KB, "a coordinator has {} KiB", self.memory_kb());
        let started = Instant::now();
        while let Some(open) = self.open_transaction() {
            assert!(started.elapsed() < END_MAX, "a transaction is open on a datanode: {open}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn coordinators(&self) -> Vec<u32> {
        self.both.cluster.coordinator_pids().expect("the process table")
    }

    fn memory_kb(&self) -> u64 {
        let of = |pid: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0)
        };
        self.pids.iter().map(of).sum()
    }

    /// Lines of the logs that tell of a panic.
    fn panics(&self) -> Vec<String> {
        let logs = std::fs::read_dir(self.both.cluster.dir().join("log")).into_iter().flatten().flatten();
        let texts =
            logs.map(|log| String::from_utf8_lossy(&std::fs::read(log.path()).unwrap_or_default()).into_owned());
        let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
        texts.flat_map(lines).filter(|line| line.contains("panicked")).collect()
    }

    /// What a datanode says of a transaction that a coordinator has left open.
    fn open_transaction(&self) -> Option<String> {
        let sql = "SELECT coalesce(string_agg(state || ': ' || query, '; '), '') FROM pg_stat_activity \
                   WHERE application_name = 'loxo' AND xact_start IS NOT NULL AND pid <> pg_backend_pid()";
        let nodes = 0..self.both.cluster.datanodes().len();
        let open = |node| self.both.cluster.connect_datanode(node).expect("a session").scalar(sql).expect("a row");
        nodes.map(open).find(|open| !open.is_empty())
    }
}

fn shown(said: &[Message]) -> String {
    said.iter().map(|message| format!("    {}\n", message.escape_ascii())).collect()
}
