//! Hosts that are network namespaces, each with an ssh server of its own; they share the machine's file system. They may be booted: then
//! each has a systemd of its own, in namespaces of processes and mounts, that runs the ssh server and knows of no other unit but those that are
//! made there.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use testkit::TempDir;

/// One bridge in the administrator's namespace, and a pair of interfaces to each host. `$1`: the directory, `$2`: a prefix of names,
/// behind it the hosts' addresses.
const MAKE: &str = r#"
dir=$1 name=$2 booted=$3; shift 3
mkdir -p /run/sshd
ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
ssh-keygen -q -t ed25519 -N '' -f "$dir/host_key"
ssh-keygen -q -t ed25519 -N '' -f "$dir/other_key"
ip netns add "${name}a"
ip -n "${name}a" link set lo up
ip -n "${name}a" link add bridge type bridge
ip -n "${name}a" addr add 10.0.0.2/24 dev bridge
ip -n "${name}a" link set bridge up
at=0
for address in "$@"; do
    at=$((at + 1)) host=$name$at
    ip netns add "$host"
    ip -n "${name}a" link add "to$at" type veth peer name eth0 netns "$host"
    ip -n "${name}a" link set "to$at" master bridge up
    ip -n "$host" link set lo up
    ip -n "$host" addr add "$address/24" dev eth0
    ip -n "$host" link set eth0 up
    mkdir "$dir/$address" "$dir/units-$address"
    sshd="/usr/sbin/sshd -f /dev/null -E $dir/sshd.log -o ListenAddress=$address -o HostKey=$dir/host_key"
    sshd="$sshd -o AuthorizedKeysFile=$dir/key.pub -o PidFile=none -o UsePAM=no -o StrictModes=no -o PermitRootLogin=yes"
    echo "$sshd" >"$dir/sshd-$address"
    [ "$booted" ] || ip netns exec "$host" $sshd
    echo "$address $(cut -d' ' -f1,2 "$dir/host_key.pub")" >>"$dir/known_hosts"
    echo "$address $(cut -d' ' -f1,2 "$dir/other_key.pub")" >>"$dir/other_hosts"
done
"#;

/// Boots a host: `$1` the directory, `$2` the host's namespace, `$3` its address, `$4` what follows. Systems would kill each other's processes
/// in one cgroup.
const BOOT: &str = r#"
mount --make-rprivate /
mkdir -p "$1/cgroup"
mount -t cgroup2 none "$1/cgroup"
mkdir "$1/cgroup/$2.$$"
echo $$ >"$1/cgroup/$2.$$/cgroup.procs"
umount "$1/cgroup"
exec ip netns exec "$2" unshare --fork --pid --mount --cgroup --uts --mount-proc --kill-child sh -euc "$4" init "$1" "$3"
"#;

/// Its first process. No unit and no generator of the machine's own is there.
const INIT: &str = r#"
mount -t tmpfs none /run
mkdir -p /run/systemd /run/sshd /run/lock
mount -t tmpfs none /usr/lib/systemd/system-generators
mount -t tmpfs none /usr/lib/systemd/system
cd /usr/lib/systemd/system
for target in sysinit basic shutdown network-online multi-user; do
    printf '[Unit]\nDefaultDependencies=no\n' >$target.target
done
printf '[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=%s -D\n' "$(cat "$1/sshd-$2")" >sshd.service
mkdir multi-user.target.wants
ln -s ../sshd.service multi-user.target.wants/
mount --bind "$1/units-$2" /etc/systemd/system
# What a first process changes of a machine.
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
echo 0123456789abcdef0123456789abcdef >/run/machine-id
[ ! -e /etc/machine-id ] || mount --bind /run/machine-id /etc/machine-id
[ ! -e /dev/console ] || mount --bind /dev/null /dev/console
mount -t cgroup2 none /sys/fs/cgroup
exec env container=other /lib/systemd/systemd --system --unit=multi-user.target --log-target=null
"#;

/// However the test ends: all processes in the namespaces, then those.
const CLEAN_UP: &str = r#"
trap '' INT TERM HUP
read -r _
for host in $(ip netns list | cut -d' ' -f1 | grep "^$2[a0-9]"); do
    ip netns pids "$host" | xargs -r kill -9
    ip netns del "$host"
done
unshare --mount --cgroup sh -c '
    mkdir -p "$1/cgroup" && mount -t cgroup2 none "$1/cgroup" &&
    for _ in $(seq 100); do find "$1/cgroup" -depth -type d -path "$1/cgroup/$2*" -exec rmdir {} + && break; sleep 0.05; done
' sh "$1" "$2"
for _ in $(seq 100); do rm -rf "$1" && break; done
"#;

pub struct Hosts {
    dir: TempDir,
    name: String,
    addresses: Vec<String>,
    watchdog: Child,
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Why hosts cannot be booted here.
pub fn cannot_boot() -> Option<&'static str> {
    if !Path::new("/lib/systemd/systemd").exists() || !runs("systemctl", &["--version"]) {
        return Some("systemd is not installed");
    }
    let mounts = "mount -t cgroup2 none /mnt && mkdir /mnt/lxp$$ && rmdir /mnt/lxp$$";
    match runs("unshare", &["--mount", "--pid", "--fork", "--cgroup", "sh", "-c", mounts]) {
        true => missing(),
        false => Some("a cgroup cannot be made (it takes root and cgroups of version 2)"),
    }
}

/// Why there can be none here.
pub fn missing() -> Option<&'static str> {
    let probe = format!("lxp{}", std::process::id());
    if !Path::new("/usr/sbin/sshd").exists() || !runs("ssh", &["-V"]) {
        return Some("ssh and sshd are not installed (scripts/install-deps.sh --tests)");
    }
    if !runs("ip", &["netns", "add", &probe]) {
        return Some("network namespaces cannot be made (it takes root)");
    }
    let makes = |arguments: &[&str]| runs("ip", &[&["-n", probe.as_str(), "link", "add"], arguments].concat());
    let has_links = makes(&["bridge", "type", "bridge"]) && makes(&["to1", "type", "veth", "peer", "name", "eth0"]);
    let is_gone = runs("ip", &["netns", "del", &probe]);
    if !has_links || !is_gone {
        return Some("network namespaces cannot have bridges and pairs of interfaces");
    }
    // Without PAM sshd lets a locked account in by no key.
    let shadow = std::fs::read_to_string("/etc/shadow").unwrap_or_default();
    if shadow.lines().any(|line| line.starts_with("root:!")) {
        return Some("the account root is locked (passwd -S root), so sshd does not let it in");
    }
    None
}

impl Hosts {
    pub fn new(addresses: &[&str]) -> Self {
        Self::make(addresses, "")
    }

    /// With systemd on each.
    pub fn booted(addresses: &[&str]) -> Self {
        let hosts = Self::make(addresses, "booted");
        (0..addresses.len()).for_each(|at| hosts.boot(at));
        hosts
    }

    /// As after a power failure if it runs already.
    pub fn boot(&self, at: usize) {
        while let Some((pid, _)) = self.processes_and_ssh(at).first() {
            runs("kill", &["-KILL", &pid.to_string()]);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--cgroup", "sh", "-euc", BOOT, "boot"]).arg(self.dir.path());
        unshare.args([&format!("{}{}", self.name, at + 1), &self.addresses[at], INIT]);
        unshare.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // It ends with the host.
        drop(unshare.spawn().unwrap());
    }

    fn make(addresses: &[&str], booted: &str) -> Self {
        let dir = TempDir::new("deploy").unwrap();
        // Root runs programs in it, so it has to be root's.
        chown(dir.path(), Some(0), Some(0)).unwrap();
        // Tests of one process may run at the same time.
        let name = format!("lx{}{}", std::process::id(), if booted.is_empty() { "h" } else { "b" });
        let mut watchdog = Command::new("sh");
        watchdog.args(["-c", CLEAN_UP, "watchdog"]).arg(dir.path()).arg(&name);
        watchdog.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let watchdog = watchdog.spawn().unwrap();
        let mut make = Command::new("sh");
        make.args(["-euc", MAKE, "make"]).arg(dir.path()).args([&name, booted]).args(addresses);
        let made = make.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { dir, name, addresses: addresses.iter().map(|address| (*address).to_owned()).collect(), watchdog }
    }

    /// The administrator's directory, and the hosts' file system.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn address(&self, at: usize) -> &str {
        &self.addresses[at]
    }

    /// Where a host has the cluster.
    pub fn home(&self, at: usize) -> PathBuf {
        self.path(&self.addresses[at]).join("loxo/cluster")
    }

    fn command(&self, namespace: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec"]).arg(format!("{}{namespace}", self.name)).arg(program);
        // What a killed deployment leaves of ssh's sockets goes with the rest.
        command.current_dir(self.dir.path()).env("TMPDIR", self.dir.path());
        command
    }

    /// A command of the administrator's.
    pub fn admin(&self, program: &str) -> Command {
        self.command("a", program)
    }

    /// A command on a host.
    pub fn on(&self, at: usize, program: &str) -> Command {
        self.command(&(at + 1).to_string(), program)
    }

    /// Pids and command lines of what runs on a host beside its ssh server.
    pub fn processes(&self, at: usize) -> Vec<(i32, String)> {
        let mut all = self.processes_and_ssh(at);
        all.retain(|(_, line)| !line.contains("sshd"));
        all
    }

    fn processes_and_ssh(&self, at: usize) -> Vec<(i32, String)> {
        let pids = Command::new("ip").args(["netns", "pids", &format!("{}{}", self.name, at + 1)]).output().unwrap();
        let process = |pid: &str| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            (!line.is_empty()).then_some((pid.parse().ok()?, line))
        };
        String::from_utf8_lossy(&pids.stdout).lines().filter_map(process).collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

/// What it said, if it ended with this status.
#[track_caller]
pub fn said(output: &Output, status: i32) -> String {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(status), "{text}");
    text
}
