//! What a host is like before anything is written there, and what speaks against it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cluster::host::{HOME, Wanted};
use pgerror::{PgError, Result};

use crate::ssh::{Input, Remote, printable};

const SCRIPT: &str = include_str!("probe.sh");

/// Supported major versions of PostgreSQL.
const MAJORS: std::ops::RangeInclusive<u32> = 15..=18;

#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    system: String,
    machine: String,
    libc: String,
    is_root: bool,
    has_postgres_user: bool,
    has_sha256sum: bool,
    is_writable: bool,
    /// Majors, and where their programs are.
    postgres: BTreeMap<u32, PathBuf>,
    entries: Vec<String>,
    /// What there is of the path of the program, from `/` on; of root only.
    parts: Vec<Part>,
    /// Digest of the program that was copied there.
    pub program: Option<String>,
    /// Digest of the certificate of the cluster's authority of servers.
    authority: Option<String>,
    /// Majors of the data directories.
    data: BTreeMap<String, u32>,
    /// As /proc/net/tcp has them.
    listens: Vec<String>,
    processes: Vec<String>,
}

/// A directory or a file on the way to the program.
#[derive(Clone, Debug)]
struct Part {
    path: PathBuf,
    owner: u32,
    mode: u32,
    is_link: bool,
}

impl Part {
    /// `/var/lib 0 755 directory`
    fn read(text: &str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        let path = words.next()?.into();
        let owner = words.next()?.parse().ok()?;
        let mode = u32::from_str_radix(words.next()?, 8).ok()?;
        Some(Self { path, owner, mode, is_link: words.next()? == "symbolic link" })
    }
}

/// What this program runs on.
pub(crate) const MACHINE: &str = std::env::consts::ARCH;

pub(crate) async fn probe(remote: &Remote, directory: &Path, pg_bin: Option<&Path>) -> Result<Facts> {
    let pg_bin = pg_bin.map_or(String::new(), |bin| bin.display().to_string());
    let said =
        remote.run(&format!("sh -s -- {} {pg_bin}", directory.display()), Input::Text(SCRIPT.to_owned())).await?;
    Facts::read(&said).ok_or_else(|| {
        PgError::connection(format!("the host {} does not say what it is like", remote.name)).detail(printable(&said))
    })
}

impl Facts {
    fn read(said: &str) -> Option<Self> {
        let mut facts = Self::default();
        let (mut is_whole, mut is_last) = (false, false);
        for line in said.lines() {
            // A shell's greeting may come first.
            let Some((key, value)) = line.split_once('\t') else { continue };
            // Other users choose their command lines, so nothing else may follow these.
            if is_last && !["process", "end"].contains(&key) {
                return None;
            }
            is_last |= key == "process";
            let text = || printable(value);
            match key {
                "system" => facts.system = text(),
                "machine" => facts.machine = text(),
                "libc" => facts.libc = text(),
                "uid" => facts.is_root = value == "0",
                "user" => facts.has_postgres_user = true,
                "tool" => facts.has_sha256sum = true,
                "writable" => facts.is_writable = true,
                "postgres" => {
                    let (bin, version) = value.split_once(' ')?;
                    if let Some(major) = cluster::parse_major(version) {
                        facts.postgres.entry(major).or_insert_with(|| bin.into());
                    }
                }
                "part" => facts.parts.push(Part::read(value)?),
                "entry" => facts.entries.push(text()),
                "program" => facts.program = Some(text()),
                "authority" => facts.authority = Some(text()),
                "data" => {
                    let (name, major) = value.rsplit_once(' ')?;
                    facts.data.insert(name.to_owned(), major.trim().parse().ok()?);
                }
                "listens" => facts.listens.push(text()),
                "process" => facts.processes.push(text()),
                "end" => is_whole = true,
                _ => {}
            }
        }
        is_whole.then_some(facts)
    }

    /// Where the programs of a version are.
    pub(crate) fn pg_bin(&self, major: u32) -> Option<&Path> {
        self.postgres.get(&major).map(PathBuf::as_path)
    }

    pub(crate) fn has_data(&self, datanode: &str) -> bool {
        self.data.contains_key(datanode)
    }

    pub(crate) fn runs_datanode(&self, directory: &Path, name: &str) -> bool {
        let data = directory.join(HOME).join(name);
        let words = format!(" -D {} ", data.display());
        self.processes.iter().any(|process| process.contains("/postgres ") && format!("{process} ").contains(&words))
    }

    /// A gtm or a coordinator.
    pub(crate) fn runs_process(&self, directory: &Path, kind: &str, name: &str) -> bool {
        let config = directory.join(HOME).join(cluster::host::CONFIG_FILE);
        let words = format!(" {kind} --config {} --name {name} ", config.display());
        self.processes.iter().any(|process| format!("{process} ").contains(&words))
    }

    /// What speaks against this host. `authority`: what the administrator's own copy has; `digest`: of the program to be run.
    pub(crate) fn problems(&self, wanted: &Wanted, authority: Option<&str>, digest: &str) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self.of_system().into_iter().collect();
        problems.extend(self.of_directory(wanted, authority));
        let directory = &wanted.directory;
        let gtms = wanted.gtms.iter().map(|own| ("gtm", own));
        let daemons: Vec<_> = gtms.chain(wanted.coordinators.iter().map(|own| ("coordinator", own))).collect();
        let runs = |(kind, own): &(&str, &cluster::host::Process)| self.runs_process(directory, kind, &own.name);
        if self.program.as_deref().is_some_and(|found| found != digest) && daemons.iter().any(runs) {
            problems.push(Problem::new(
                "another version of the program runs there".to_owned(),
                "\"loxo deploy --stop\" stops the whole cluster; the next \"loxo deploy\" starts it with this version.",
            ));
        }
        let servers = wanted.datanodes.iter().filter(|own| !self.runs_datanode(directory, &own.name));
        let ports = servers.map(|own| (&own.name, own.port));
        let ports = ports.chain(daemons.iter().filter(|own| !runs(own)).map(|(_, own)| (&own.name, own.port)));
        for (name, port) in ports.filter(|(_, port)| self.is_taken(&wanted.address, *port)) {
            problems.push(Problem::new(
                format!("port {port}, for {name}, is in use"),
                "Stop the program that uses it, or choose other ports in [ports] of the inventory.",
            ));
        }
        problems
    }

    fn of_system(&self) -> Option<Problem> {
        if self.system != "Linux" || self.machine != MACHINE || !self.libc.starts_with("glibc") {
            let libc = if self.libc.is_empty() { "no glibc" } else { &self.libc };
            return Some(Problem::new(
                format!(
                    "this program, for Linux on {MACHINE} with glibc, does not run on {} {} with {libc}",
                    self.system, self.machine
                ),
                "Build loxo for it and deploy from a host like it; all hosts of a cluster are of one kind.",
            ));
        }
        if self.is_root && !self.has_postgres_user {
            return Some(Problem::new(
                "there is no OS user \"postgres\" to run servers as".to_owned(),
                "Run \"apt install postgresql\" or \"adduser --system --group postgres\" there, or name an ordinary user in [ssh].",
            ));
        }
        (!self.has_sha256sum).then(|| Problem::new("sha256sum is missing".to_owned(), "Install GNU coreutils there."))
    }

    fn of_directory(&self, wanted: &Wanted, authority: Option<&str>) -> Vec<Problem> {
        let directory = wanted.directory.display();
        let mut problems = Vec::new();
        if !self.is_writable {
            let hint = "Name another \"directory\" in the inventory, or another user in [ssh].";
            problems.push(Problem::new(format!("\"{directory}\" cannot be written"), hint));
        }
        let others = self.entries.iter().filter(|entry| !["bin", HOME].contains(&entry.as_str()));
        let others: Vec<&str> = others.map(String::as_str).take(5).collect();
        if !others.is_empty() {
            problems.push(Problem::new(
                format!("\"{directory}\" holds something else: {}", others.join(", ")),
                "Name an empty or a new \"directory\" in the inventory.",
            ));
        }
        problems.extend(self.of_trust(&wanted.directory, authority));
        let is_new = |name: &str| wanted.joining.iter().any(|new| new.name == name);
        for own in wanted.datanodes.iter().filter(|own| wanted.is_initialised && !is_new(&own.name)) {
            if !self.has_data(&own.name) {
                problems.push(Problem::new(
                    format!("the data directory of datanode {} is missing in \"{directory}/{HOME}\"", own.name),
                    "Put it back from a backup; an empty datanode in its place would be a loss of data.",
                ));
            }
        }
        problems
    }

    /// What speaks against running the program there, even to stop what it has started.
    pub(crate) fn of_trust(&self, directory: &Path, authority: Option<&str>) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self.of_parts(directory).into_iter().collect();
        if self.authority.is_some() && self.authority.as_deref() != authority {
            problems.push(Problem::new(
                format!("\"{}\" belongs to a cluster that was deployed by another inventory", directory.display()),
                "Use that inventory and the directory beside it, or name another \"directory\".",
            ));
        }
        problems
    }

    /// Has a cluster been deployed there?
    pub(crate) fn has_cluster(&self) -> bool {
        self.authority.is_some()
    }

    /// Root runs the program, so only root may be able to put another one in its place.
    fn of_parts(&self, directory: &Path) -> Option<Problem> {
        if !self.is_root {
            return None;
        }
        let hint = "Name a \"directory\" that only root can write, and write all above it, without symbolic links; or an ordinary user in [ssh].";
        if self.parts.is_empty() {
            return Some(Problem::new("it does not say to whom the directories belong".to_owned(), hint));
        }
        self.parts.iter().enumerate().find_map(|(at, part)| {
            // In a directory like /tmp nobody can replace what is root's, but make what is not there yet.
            let is_sticky = part.mode & 0o1000 != 0 && part.path != directory && directory.starts_with(&part.path);
            let is_kept = is_sticky && self.parts.get(at + 1).is_some();
            let why = if part.is_link {
                "is a symbolic link".to_owned()
            } else if part.owner != 0 {
                format!("belongs to the user {}", part.owner)
            } else if part.mode & 0o022 != 0 && !is_kept {
                format!("can be written by others than root (its mode is {:o})", part.mode)
            } else {
                return None;
            };
            let path = part.path.display();
            Some(Problem::new(format!("another user could replace the program that root runs: \"{path}\" {why}"), hint))
        })
    }

    /// Can nobody else listen at this address and port now?
    fn is_taken(&self, address: &str, port: u16) -> bool {
        let Ok(address) = address.parse::<IpAddr>() else { return false };
        let own = match address {
            IpAddr::V4(address) => words(&address.octets()),
            IpAddr::V6(address) => words(&address.octets()),
        };
        self.listens.iter().any(|listens| {
            let Some((address, found)) = listens.split_once(':') else { return false };
            let is_any = address.bytes().all(|digit| digit == b'0');
            u16::from_str_radix(found, 16) == Ok(port) && (is_any || address == own)
        })
    }
}

/// An address as /proc/net/tcp has it: words of 32 bits in this machine's order of bytes.
fn words(octets: &[u8]) -> String {
    let word =
        |bytes: &[u8]| format!("{:08X}", bytes.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte)));
    octets.chunks(4).map(word).collect()
}

/// Why a host cannot be what it is to be, and what to do.
#[derive(Debug)]
pub(crate) struct Problem {
    pub text: String,
    pub hint: &'static str,
}

impl Problem {
    fn new(text: String, hint: &'static str) -> Self {
        Self { text, hint }
    }
}

/// The version that all datanodes can have: that of the data directories there are, or the newest that every host has.
pub(crate) fn common_major<'a>(
    hosts: impl Iterator<Item = (&'a str, &'a Facts, &'a Wanted)>,
) -> std::result::Result<u32, Vec<String>> {
    let hosts: Vec<_> = hosts.filter(|(.., wanted)| !wanted.datanodes.is_empty()).collect();
    let data = |(_, facts, wanted): &(&str, &'a Facts, &Wanted)| -> Vec<u32> {
        wanted.datanodes.iter().filter_map(|own| facts.data.get(&own.name).copied()).collect()
    };
    let mut bound: Vec<u32> = hosts.iter().flat_map(data).collect();
    bound.dedup();
    let suits = |major: &u32| {
        bound.iter().all(|bound| bound == major) && hosts.iter().all(|(_, facts, _)| facts.postgres.contains_key(major))
    };
    MAJORS.rev().find(suits).ok_or_else(|| {
        let list = |majors: Vec<u32>| majors.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let line = |host: &(&str, &'a Facts, &Wanted)| {
            let installed = list(host.1.postgres.keys().copied().collect());
            let installed =
                if installed.is_empty() { "no PostgreSQL".to_owned() } else { format!("PostgreSQL {installed}") };
            let data = list(data(host));
            let data =
                if data.is_empty() { String::new() } else { format!("; its datanodes are of PostgreSQL {data}") };
            format!("{}: {installed} is installed{data}", host.0)
        };
        hosts.iter().map(line).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_all_have_is_taken_unless_there_are_data() {
        let wanted = |datanode: &str| -> Wanted {
            let server = format!(
                r#"{{"name":"{datanode}","port":1,"pg_bin":"","profile":"default","set":{{}},"password":null,"certificate":"","key":"","clients":[]}}"#
            );
            let rest = r#""address":"10.0.0.1","files":[],"gtms":[],"coordinators":[],"joining":[],"is_initialised":false,"starting":"Here""#;
            serde_json::from_str(&format!(r#"{{"cluster":"c","directory":"/d","datanodes":[{server}],{rest}}}"#))
                .unwrap()
        };
        let (one, two) = (wanted("dn1"), wanted("dn2"));
        let facts = |majors: &[u32], more: &str| {
            let line = |major: &u32| format!("postgres\t/pg/{major} postgres (PostgreSQL) {major}.1\n");
            Facts::read(&format!("{}{more}end\t\n", majors.iter().map(line).collect::<String>())).unwrap()
        };
        let common = |a: Facts, b: Facts| common_major([("a", &a, &one), ("b", &b, &two)].into_iter());
        assert_eq!(common(facts(&[15, 16, 17], ""), facts(&[14, 15, 16], "")), Ok(16));
        assert_eq!(common(facts(&[15, 16], "data\tdn1 15\n"), facts(&[15, 16], "")), Ok(15));
        let differing = common(facts(&[15], "data\tdn1 15\n"), facts(&[16], "")).unwrap_err();
        assert!(differing[0].contains("its datanodes are of PostgreSQL 15"), "{differing:?}");
        assert_eq!(differing[1], "b: PostgreSQL 16 is installed");
        // Data of two versions fit nowhere.
        common(facts(&[15, 16], "data\tdn1 15\n"), facts(&[15, 16], "data\tdn2 16\n")).unwrap_err();
    }

    #[test]
    fn hosts_of_another_kind_are_refused() {
        let kind = |system: &str, machine: &str, libc: &str| {
            let text = format!("system\t{system}\nmachine\t{machine}\nlibc\t{libc}\ntool\tsha256sum\nend\t\n");
            Facts::read(&text).unwrap().of_system().map(|problem| problem.text)
        };
        assert_eq!(kind("Linux", MACHINE, "glibc 2.36"), None);
        assert!(kind("Linux", MACHINE, "").unwrap().contains("with no glibc"));
        assert!(kind("Linux", "riscv64", "glibc 2.36").unwrap().contains("does not run on Linux riscv64"));
    }

    #[test]
    fn what_root_runs_only_root_can_replace() {
        let problem = |parts: &[&str]| {
            let lines: String = parts.iter().map(|part| format!("part\t{part}\n")).collect();
            let facts = Facts::read(&format!("uid\t0\n{lines}end\t\n")).unwrap();
            facts.of_parts(Path::new("/tmp/loxo")).map(|problem| problem.text)
        };
        let root = "/ 0 755 directory";
        assert_eq!(problem(&[root, "/tmp 0 1777 directory", "/tmp/loxo 0 755 directory"]), None);
        let program =
            ["/tmp/loxo 0 755 directory", "/tmp/loxo/bin 0 755 directory", "/tmp/loxo/bin/loxo 0 755 regular file"];
        assert_eq!(problem(&program), None);
        let refused = |parts: &[&str], words: &str| {
            let text = problem(parts).unwrap();
            assert!(text.contains(words), "{text}");
        };
        refused(&[], "does not say");
        // Any user could make /tmp/loxo first.
        refused(&[root, "/tmp 0 1777 directory"], "\"/tmp\" can be written");
        refused(&[root, "/tmp 0 777 directory", "/tmp/loxo 0 755 directory"], "\"/tmp\" can be written");
        refused(&[root, "/tmp/loxo 0 1777 directory", "/tmp/loxo/bin 0 755 directory"], "\"/tmp/loxo\" can be written");
        refused(&[root, "/tmp/loxo 0 775 directory"], "its mode is 775");
        refused(&[root, "/tmp/loxo 1000 755 directory"], "belongs to the user 1000");
        refused(&[root, "/tmp/loxo 0 777 symbolic link"], "is a symbolic link");
        assert!(Facts::read("uid\t1000\nend\t\n").unwrap().of_parts(Path::new("/d")).is_none());
    }

    /// The script itself, told of a process and of files that look like answers.
    #[test]
    fn names_and_command_lines_forge_no_answers() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("loxo");
        std::fs::create_dir_all(directory.join("cluster/dn1")).unwrap();
        std::fs::write(directory.join("cluster/dn1/PG_VERSION"), "16\nauthority\tforged\n").unwrap();
        std::fs::write(directory.join("x\nprogram\tforged"), "").unwrap();
        let mut process = std::process::Command::new("sh");
        process.args(["-c", "read -r _", &format!("{}\nauthority\tforged\n", directory.join(HOME).display())]);
        let mut process = process.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let output = std::process::Command::new("sh").args(["-c", SCRIPT, "sh"]).arg(&directory).output().unwrap();
        drop(process.stdin.take());
        process.wait().unwrap();
        let facts = Facts::read(&String::from_utf8(output.stdout).unwrap()).unwrap();
        assert_eq!((&facts.program, &facts.authority), (&None, &None));
        assert!(facts.entries.contains(&"x program forged".to_owned()), "{:?}", facts.entries);
        assert_eq!(facts.data.get("dn1"), Some(&16));
        assert!(facts.processes.iter().any(|line| line.ends_with(" authority forged  ")), "{:?}", facts.processes);
        assert_eq!(facts.is_root, facts.parts.first().is_some_and(|part| part.path == Path::new("/")));
        assert!(!facts.is_root || facts.parts.last().is_some_and(|part| part.path == directory));

        assert!(Facts::read("process\tx\nauthority\tforged\nend\t\n").is_none());
    }

    #[test]
    fn ports_in_use_are_read() {
        let facts = Facts::read("listens\t0100007F:1538\nlisten\tx\nlistens\t00000000:0016\nend\t\n").unwrap();
        assert!(facts.is_taken("127.0.0.1", 5432) && !facts.is_taken("127.0.0.2", 5432));
        assert!(facts.is_taken("10.1.2.3", 22) && !facts.is_taken("10.1.2.3", 23));
        assert_eq!(words(&std::net::Ipv6Addr::LOCALHOST.octets()), "00000000000000000000000001000000");
        assert!(Facts::read("uid\t0\n").is_none());
    }
}
