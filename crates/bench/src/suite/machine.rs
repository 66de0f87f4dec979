//! The machine that is measured on, and how busy it is with other things.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use pgerror::Result;
use serde::{Deserialize, Serialize};

use crate::tools::cpu;
use crate::tools::stats::median;

/// How long one looks at how busy the machine is.
const LOOK: Duration = Duration::from_millis(500);
const FLUSHES: usize = 20;

/// What figures depend on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the processor.
    pub processor: String,
    /// Cores that this program may use.
    pub cores: usize,
    /// Main memory.
    pub memory_gib: f64,
    /// Name of the operating system.
    pub system: String,
    /// Version of Linux.
    pub kernel: String,
    /// File system and device of the directory of clusters.
    pub disk: String,
    /// Median time of a write of 8 KiB and its flush to that disk.
    pub flush_ms: f64,
}

impl Machine {
    /// This one, with the disk that `dir` lies on.
    ///
    /// # Errors
    /// When `dir` cannot be written to.
    pub fn look(dir: &Path) -> Result<Self> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let (cpuinfo, meminfo, release) = (read("/proc/cpuinfo"), read("/proc/meminfo"), read("/etc/os-release"));
        let kib = after(&meminfo, "MemTotal:").and_then(|text| text.trim_end_matches("kB").trim().parse::<f64>().ok());
        Ok(Self {
            processor: after(&cpuinfo, "model name").unwrap_or_default().trim_start_matches(':').trim().to_owned(),
            cores: cores(),
            memory_gib: kib.unwrap_or_default() / f64::from(1 << 20),
            system: after(&release, "PRETTY_NAME=").unwrap_or("Linux").trim_matches('"').to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            disk: disk(&read("/proc/mounts"), dir),
            flush_ms: flush_ms(dir)?,
        })
    }
}

/// Processors that this program may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The rest of the first line that begins so.
fn after<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// `ext4 on /dev/sda1`: the mount whose path is the longest that leads to `dir`.
fn disk(mounts: &str, dir: &Path) -> String {
    let mount = |line: &'_ str| -> Option<(usize, String)> {
        let mut words = line.split(' ');
        let (device, path, kind) = (words.next()?, words.next()?, words.next()?);
        dir.starts_with(path).then(|| (path.len(), format!("{kind} on {device}")))
    };
    mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length).map_or(String::new(), |(_, text)| text)
}

/// What a COMMIT waits for.
fn flush_ms(dir: &Path) -> Result<f64> {
    let path = dir.join(format!("loxo-bench-flush-{}", std::process::id()));
    let times = || -> std::io::Result<Vec<f64>> {
        let mut file = std::fs::File::create(&path)?;
        let mut once = || {
            let began = Instant::now();
            file.write_all(&[1; 8192])?;
            file.sync_data()?;
            Ok(began.elapsed().as_secs_f64() * 1e3)
        };
        (0..FLUSHES).map(|_| once()).collect()
    };
    let times = times();
    let _ = std::fs::remove_file(&path);
    Ok(median(&times?))
}

/// How busy the machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Linux's load average of the last minute.
    pub average: f64,
    /// Cores that were busy for half a second in which this program did nothing.
    pub busy_cores: f64,
    /// Share of the last ten seconds in which a task waited for a processor (pressure stall information), if Linux tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_share: Option<f64>,
}

impl Load {
    /// Now.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub async fn look() -> Result<Self> {
        let (before, began) = (cpu::machine_seconds()?, Instant::now());
        tokio::time::sleep(LOOK).await;
        let busy_cores = (cpu::machine_seconds()? - before) / began.elapsed().as_secs_f64();
        let averages = std::fs::read_to_string("/proc/loadavg")?;
        let average = averages.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default();
        let waiting_share = std::fs::read_to_string("/proc/pressure/cpu").ok().and_then(|text| some_avg10(&text));
        Ok(Self { average, busy_cores, waiting_share })
    }
}

/// `some avg10=1.53 avg60=…`
fn some_avg10(text: &str) -> Option<f64> {
    let percent: f64 = after(text, "some avg10=")?.split(' ').next()?.parse().ok()?;
    Some(percent / 100.0)
}

/// `2026-11-26 11:22:13`, UTC.
pub fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Date of a day counted from 1970-01-01. A year is counted from March, so that the leap day is its last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let at = |seconds| utc(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(at(1_795_692_133), "2026-11-26 11:22:13");
        assert_eq!(at(4_107_542_400), "2100-03-01 00:00:00");
    }

    #[test]
    fn the_disk_is_the_one_mounted_nearest() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/vdb /tmpfiles xfs rw 0 0\n";
        assert_eq!(disk(mounts, Path::new("/tmp/x")), "tmpfs on tmpfs");
        assert_eq!(disk(mounts, Path::new("/var/lib")), "ext4 on /dev/vda");
    }

    #[test]
    fn pressure_is_a_share() {
        assert_eq!(some_avg10("some avg10=12.50 avg60=1.00 avg300=0.10 total=1\n"), Some(0.125));
        assert_eq!(some_avg10(""), None);
    }

    #[test]
    fn this_machine() {
        let machine = Machine::look(&std::env::temp_dir()).unwrap();
        assert!(machine.cores > 0 && machine.memory_gib > 0.1 && machine.flush_ms > 0.0, "{machine:?}");
    }
}
