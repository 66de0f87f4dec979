//! Which role used the processors, and which of them sets the pace.

use std::path::Path;

use pgerror::Result;
use rustix::time::{ClockId, clock_gettime};

use crate::tools::cpu;
use crate::tools::network::{self, Interfaces};
use crate::tools::waits::{Class, Profile};

/// Share of all processors, or of what an interface carries, above which that is the limit.
const BUSY_SHARE: f64 = 0.85;
/// Share of what backends were seen to do above which one class is the reason.
const WAIT_SHARE: f64 = 0.5;
/// Of the time of its sessions, above which a role computes rather than waits.
const COMPUTING_SHARE: f64 = 0.7;
/// Linux counts processor time in hundredths of a second, for each process: less than this says nothing.
const SECONDS_MIN: f64 = 0.3;

/// Root processes of the roles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roles {
    pub(crate) datanodes: Vec<u32>,
    pub(crate) coordinators: Vec<u32>,
    pub(crate) gtm: Vec<u32>,
}

/// What was used until now, or in an interval: all figures are of the same one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Used {
    /// By the clock; those below are processor seconds.
    pub(crate) seconds: f64,
    /// Each datanode's.
    pub(crate) datanodes: Vec<f64>,
    /// Seconds of each coordinator.
    pub(crate) coordinators: Vec<f64>,
    pub(crate) gtm: f64,
    /// This program: it makes the rows or reads the files.
    pub(crate) loader: f64,
    /// Everything on this machine.
    pub(crate) machine: f64,
    /// What went over the network.
    pub(crate) network: Interfaces,
}

/// How many sessions load, and where: a session computes on one core at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) cores: usize,
    /// Of all coordinators.
    pub(crate) streams: usize,
    /// That take part.
    pub(crate) coordinators: usize,
}

impl Roles {
    /// The roles of the cluster in a directory, whose datanodes have these postmasters.
    pub(crate) fn of(dir: &Path, datanodes: Vec<u32>) -> Result<Self> {
        Ok(Self { datanodes, coordinators: cpu::find(dir, &["coordinator"])?, gtm: cpu::find(dir, &["gtm"])? })
    }

    pub(crate) fn used(&self) -> Result<Used> {
        let servers = [&self.datanodes[..], &self.coordinators, &self.gtm].concat();
        let (clock, look) = (clock_gettime(ClockId::Monotonic), cpu::Look::now()?);
        Ok(Used {
            seconds: clock.tv_sec as f64 + clock.tv_nsec as f64 / 1e9,
            datanodes: look.each_seconds(&self.datanodes),
            coordinators: look.each_seconds(&self.coordinators),
            gtm: look.tree_seconds(&self.gtm),
            loader: look.own_seconds(std::process::id(), &servers),
            machine: cpu::machine_seconds()?,
            network: network::interfaces()?,
        })
    }
}

impl Used {
    pub(crate) fn since(&self, before: &Self) -> Self {
        let each = |now: &[f64], then: &[f64]| now.iter().zip(then).map(|(now, then)| now - then).collect();
        let carried = self.network.iter().filter_map(|(name, now)| {
            let then = before.network.get(name)?;
            Some((name.clone(), now.since(*then)))
        });
        Self {
            seconds: self.seconds - before.seconds,
            datanodes: each(&self.datanodes, &before.datanodes),
            coordinators: each(&self.coordinators, &before.coordinators),
            gtm: self.gtm - before.gtm,
            loader: self.loader - before.loader,
            machine: self.machine - before.machine,
            network: carried.collect(),
        }
    }

    pub(crate) fn all_datanodes(&self) -> f64 {
        self.datanodes.iter().sum()
    }

    pub(crate) fn all_coordinators(&self) -> f64 {
        self.coordinators.iter().sum()
    }

    fn others(&self) -> f64 {
        (self.machine - self.all_datanodes() - self.all_coordinators() - self.gtm - self.loader).max(0.0)
    }

    /// What keeps the load from being faster, in words: the first of these that is found.
    pub(crate) fn bottleneck(&self, load: Load, waits: &Profile) -> String {
        if self.seconds < SECONDS_MIN {
            return format!("not known: {:.2} s are too short to tell who computes", self.seconds);
        }
        let busy = self.busy_machine(load.cores).or_else(|| self.busy_interface());
        busy.or_else(|| self.waited_for(load, waits)).unwrap_or_else(|| "no single one".to_owned())
    }

    fn busy_machine(&self, cores: usize) -> Option<String> {
        let all = self.seconds * cores as f64;
        let roles = [
            ("datanodes", self.all_datanodes()),
            ("coordinators", self.all_coordinators()),
            ("gtm", self.gtm),
            ("this program, which sends the rows", self.loader),
            ("other programs", self.others()),
        ];
        let parts = roles.iter().filter(|(_, used)| *used >= 0.01 * all);
        let parts: Vec<String> = parts.map(|(name, used)| format!("{name} {:.0} %", used * 100.0 / all)).collect();
        (self.machine >= BUSY_SHARE * all).then(|| format!("the processors of this machine ({})", parts.join(", ")))
    }

    fn busy_interface(&self) -> Option<String> {
        let shares = self.network.iter().filter_map(|(name, traffic)| Some((name, traffic.share(self.seconds)?)));
        let (name, share) = shares.max_by(|a, b| a.1.total_cmp(&b.1))?;
        (share >= BUSY_SHARE).then(|| format!("the network: {name} carries {:.0} % of what it can", share * 100.0))
    }

    /// By what the datanodes' backends were seen to do.
    fn waited_for(&self, load: Load, waits: &Profile) -> Option<String> {
        let shares = Class::ALL.map(|class| (class, class.share(waits)));
        let (class, share) = shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        if share < WAIT_SHARE {
            return None;
        }
        let what = match class {
            Class::Computing => {
                "the datanodes' backends, each on a core of its own: more streams or datanodes would help".to_owned()
            }
            Class::WaitingForRows => self.sender(load),
            Class::Sending => {
                "the network or the receiver: the datanodes wait until what they send is taken".to_owned()
            }
            Class::Wal => "the WAL of the datanodes".to_owned(),
            Class::Extending => "growing the tables' files".to_owned(),
            Class::Disk => "the datanodes' disks".to_owned(),
            Class::Locks => "locks within the datanodes".to_owned(),
            Class::Other => "something else the datanodes wait for".to_owned(),
        };
        let event = class.most_common(waits).filter(|_| class != Class::Computing);
        let event = event.map_or(String::new(), |event| format!(", most often {event}"));
        Some(format!("{what} ({:.0} % of the looks{event})", share * 100.0))
    }

    /// Why the datanodes wait for rows: somebody computes all the time of his sessions, or all wait for each other.
    fn sender(&self, Load { cores, streams, coordinators }: Load) -> String {
        let share = |used: f64, sessions: usize| used / (self.seconds * sessions.min(cores).max(1) as f64);
        let of_one = streams.div_ceil(coordinators.max(1));
        let busiest = self.coordinators.iter().copied().fold(0.0, f64::max);
        let (coordinator, sender) = (share(busiest, of_one), share(self.loader, streams));
        if coordinator.max(sender) < COMPUTING_SHARE {
            return format!(
                "the network or the disk that the rows come from: the datanodes wait for rows, and neither the busiest coordinator \
                 ({:.0} %) nor the sender ({:.0} %) computes most of the time of its sessions",
                coordinator * 100.0,
                sender * 100.0
            );
        }
        let (who, busy) = if coordinator >= sender {
            (if coordinators > 1 { "the busiest coordinator" } else { "the coordinator" }, coordinator)
        } else {
            ("this program, which sends the rows", sender)
        };
        format!(
            "{who}: it computes {:.0} % of the time of its sessions while the datanodes wait for rows",
            busy * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::network::Traffic;

    const LOAD: Load = Load { cores: 8, streams: 8, coordinators: 2 };

    /// In ten seconds.
    fn used(coordinators: [f64; 2], loader: f64, machine: f64) -> Used {
        let coordinators = coordinators.to_vec();
        Used { seconds: 10.0, datanodes: vec![6.0, 6.0], coordinators, loader, machine, ..Used::default() }
    }

    fn waits(events: &[(&str, f64)]) -> Profile {
        events.iter().map(|(event, share)| ((*event).to_owned(), *share)).collect()
    }

    #[test]
    fn full_processors_are_the_limit_whatever_is_waited_for() {
        let waits = waits(&[("IO: WalSync", 0.75), ("LWLock: WALWrite", 0.25)]);
        let two_cores = Load { cores: 2, ..LOAD };
        assert_eq!(
            used([3.0, 0.0], 1.0, 19.0).bottleneck(two_cores, &waits),
            "the processors of this machine (datanodes 60 %, coordinators 15 %, this program, which sends the rows 5 %, other programs 15 %)"
        );
        assert_eq!(
            used([3.0, 0.0], 1.0, 16.0).bottleneck(two_cores, &waits),
            "the WAL of the datanodes (100 % of the looks, most often IO: WalSync)"
        );
    }

    #[test]
    fn a_full_interface_is_the_limit() {
        let traffic = |received| Traffic { received, sent: 1.0, bits_per_second: Some(1e9) };
        let carrying = |bytes| {
            let network =
                Interfaces::from([("eth0".to_owned(), traffic(bytes)), ("lo".to_owned(), Traffic::default())]);
            Used { network, ..used([3.0, 0.0], 1.0, 16.0) }
        };
        assert_eq!(
            carrying(1.125e9).bottleneck(LOAD, &Profile::new()),
            "the network: eth0 carries 90 % of what it can"
        );
        assert_eq!(carrying(1e9).bottleneck(LOAD, &Profile::new()), "no single one");
    }

    #[test]
    fn who_does_not_send_rows_fast_enough_is_named() {
        let waits = waits(&[("Client: ClientRead", 0.6), ("CPU", 0.4)]);
        // Four sessions of one coordinator are 40 seconds.
        assert_eq!(
            used([30.0, 10.0], 1.0, 60.0).bottleneck(LOAD, &waits),
            "the busiest coordinator: it computes 75 % of the time of its sessions while the datanodes wait for rows \
             (60 % of the looks, most often Client: ClientRead)"
        );
        let through_one = Load { coordinators: 1, ..LOAD };
        assert!(
            used([70.0, 0.0], 1.0, 60.0)
                .bottleneck(through_one, &waits)
                .starts_with("the coordinator: it computes 88 %")
        );
        let sends = used([10.0, 10.0], 64.0, 60.0).bottleneck(LOAD, &waits);
        assert!(sends.starts_with("this program, which sends the rows: it computes 80 %"), "{sends}");
        let neither = used([10.0, 10.0], 8.0, 40.0).bottleneck(LOAD, &waits);
        assert!(neither.starts_with("the network or the disk that the rows come from"), "{neither}");
        assert!(neither.contains("coordinator (25 %)") && neither.contains("sender (10 %)"), "{neither}");
    }

    #[test]
    fn half_of_the_looks_must_agree() {
        let waits = waits(&[("Client: ClientRead", 0.45), ("CPU", 0.45), ("Client: ClientWrite", 0.1)]);
        assert_eq!(used([3.0, 0.0], 1.0, 16.0).bottleneck(LOAD, &waits), "no single one");
    }

    #[test]
    fn an_interval_is_the_same_for_the_clock_and_for_processors() {
        let roles = Roles { datanodes: vec![std::process::id()], ..Roles::default() };
        let before = roles.used().unwrap();
        while roles.used().unwrap().since(&before).datanodes[0] < 0.5 {}
        let used = roles.used().unwrap().since(&before);
        // Hundredths of a second, of each core and of each process.
        let most = (used.seconds + 0.05) * crate::suite::cores() as f64;
        assert!(used.machine <= most && used.datanodes[0] <= most, "{used:?}");
        assert!(Used { seconds: 0.1, ..used }.bottleneck(LOAD, &Profile::new()).starts_with("not known: 0.10 s"));
    }
}
