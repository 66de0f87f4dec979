//! Which role used the processors, and which of them sets the pace.

use std::path::Path;

use pgerror::Result;

use crate::tools::cpu;
use crate::tools::waits::{Class, Profile};

/// Share of all processors above which they are the limit.
const BUSY_SHARE: f64 = 0.85;
/// Share of what backends were seen to do above which one class is the reason.
const WAIT_SHARE: f64 = 0.5;

/// Root processes of the roles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roles {
    pub(crate) datanodes: Vec<u32>,
    pub(crate) coordinators: Vec<u32>,
    pub(crate) gtm: Vec<u32>,
}

/// Processor seconds until now, or of an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Used {
    /// Seconds of each datanode.
    pub(crate) datanodes: Vec<f64>,
    /// Seconds of each coordinator.
    pub(crate) coordinators: Vec<f64>,
    pub(crate) gtm: f64,
    /// This program: it makes the rows or reads the files.
    pub(crate) loader: f64,
    /// Everything on this machine.
    pub(crate) machine: f64,
}

impl Roles {
    /// The roles of the cluster in a directory, whose datanodes have these postmasters.
    pub(crate) fn of(dir: &Path, datanodes: Vec<u32>) -> Result<Self> {
        Ok(Self { datanodes, coordinators: cpu::find(dir, &["coordinator"])?, gtm: cpu::find(dir, &["gtm"])? })
    }

    pub(crate) fn used(&self) -> Result<Used> {
        let servers = [&self.datanodes[..], &self.coordinators, &self.gtm].concat();
        Ok(Used {
            datanodes: cpu::each_seconds(&self.datanodes)?,
            coordinators: cpu::each_seconds(&self.coordinators)?,
            gtm: cpu::tree_seconds(&self.gtm)?,
            loader: cpu::own_seconds(&servers)?,
            machine: cpu::machine_seconds()?,
        })
    }
}

impl Used {
    pub(crate) fn since(&self, before: &Self) -> Self {
        let each = |now: &[f64], then: &[f64]| now.iter().zip(then).map(|(now, then)| now - then).collect();
        Self {
            datanodes: each(&self.datanodes, &before.datanodes),
            coordinators: each(&self.coordinators, &before.coordinators),
            gtm: self.gtm - before.gtm,
            loader: self.loader - before.loader,
            machine: self.machine - before.machine,
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

    /// What keeps the load from being faster, in words.
    pub(crate) fn bottleneck(&self, seconds: f64, cores: usize, waits: &Profile) -> String {
        let all = seconds * cores as f64;
        if self.machine >= BUSY_SHARE * all {
            let roles = [
                ("datanodes", self.all_datanodes()),
                ("coordinators", self.all_coordinators()),
                ("this program, which sends the rows", self.loader),
                ("other programs", self.others()),
            ];
            let parts: Vec<String> = roles
                .iter()
                .filter(|(_, used)| *used >= 0.01 * all)
                .map(|(name, used)| format!("{name} {:.0} %", used * 100.0 / all))
                .collect();
            return format!("the processors of this machine ({})", parts.join(", "));
        }
        let most = Class::ALL.map(|class| (class, class.share(waits))).into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        match most {
            Some((class, share)) if share >= WAIT_SHARE => {
                let what = match class {
                    Class::Computing => {
                        "the datanodes' backends, each on a core of its own: more streams or datanodes would help"
                    }
                    Class::WaitingForRows => "coordinators, network or the sender of rows: the datanodes wait for rows",
                    Class::Wal => "the WAL of the datanodes",
                    Class::Extending => "growing the tables' files",
                    Class::Disk => "the datanodes' disks",
                    Class::Locks => "locks within the datanodes",
                    Class::Other => "something else the datanodes wait for",
                };
                format!("{what} ({:.0} % of the looks)", share * 100.0)
            }
            _ => "no single one".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(machine: f64) -> Used {
        Used { datanodes: vec![6.0, 6.0], coordinators: vec![3.0], gtm: 0.0, loader: 1.0, machine }
    }

    #[test]
    fn full_processors_are_the_limit_whatever_is_waited_for() {
        let waits = Profile::from([("IO: WalSync".to_owned(), 1.0)]);
        let text = used(19.0).bottleneck(10.0, 2, &waits);
        assert_eq!(
            text,
            "the processors of this machine (datanodes 60 %, coordinators 15 %, this program, which sends the rows 5 %, other programs 15 %)"
        );
        assert!(used(16.0).bottleneck(10.0, 2, &waits).starts_with("the WAL"));
    }

    #[test]
    fn who_waits_for_rows_is_not_the_limit() {
        let waits = Profile::from([("Client: ClientRead".to_owned(), 0.6), ("CPU".to_owned(), 0.4)]);
        assert!(used(8.0).bottleneck(10.0, 2, &waits).starts_with("coordinators, network or the sender"));
        let waits = Profile::from([("Client: ClientRead".to_owned(), 0.45), ("CPU".to_owned(), 0.45)]);
        assert_eq!(used(8.0).bottleneck(10.0, 2, &waits), "no single one");
    }
}
