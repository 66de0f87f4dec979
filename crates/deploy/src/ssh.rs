//! Commands on hosts by the system's `ssh`, over one connection a host.

use std::fs::{File, Permissions};
use std::io::{Read, Seek};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use pgerror::{PgError, Result, SqlState};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::inventory::{Host, Ssh};

/// Bytes that are kept of stdout, and of stderr.
const SAID_MAX: u64 = 16 << 20;
const LOOK: Duration = Duration::from_millis(100);

const SOCKETS_PREFIX: &str = "loxo-ssh-";
/// Longest path of a Unix socket on Linux, without its NUL (`sockaddr_un`).
const SOCKET_PATH_MAX: usize = 107;
/// `/`, the prefix, 6 letters, `/`, the host's number, and what ssh adds while it makes the socket: a dot and 16 letters.
const SOCKET_NAME_MAX: usize = 1 + SOCKETS_PREFIX.len() + 6 + 1 + 5 + 17;

/// ssh itself has failed, not the command.
const SSH_FAILED: i32 = 255;

/// What a command reads.
pub(crate) enum Input {
    Text(String),
    File(File),
}

/// A host that commands can be run on.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    /// Its address in the inventory.
    pub name: String,
    arguments: Vec<String>,
    destination: String,
}

impl Remote {
    /// `sockets`: where the connection's socket is to be.
    pub(crate) fn new(host: &Host, at: usize, ssh: &Ssh, sockets: &Path) -> Self {
        let control = sockets.join(at.to_string());
        // Ssh takes the first value of an option that it finds: nobody is asked for a password, and of the rest the user's own come
        // before these.
        let first = ["BatchMode=yes".to_owned()].into_iter().chain(ssh.options.iter().cloned());
        let ours = [
            // A host gets nothing that it could use against others.
            "ForwardAgent=no".to_owned(),
            "ForwardX11=no".to_owned(),
            "ClearAllForwardings=yes".to_owned(),
            "ConnectTimeout=10".to_owned(),
            "ServerAliveInterval=10".to_owned(),
            "ServerAliveCountMax=3".to_owned(),
            // One connection for all commands; it ends by itself if this process is killed.
            "ControlMaster=auto".to_owned(),
            "ControlPersist=60".to_owned(),
            format!("ControlPath={}", control.display()),
        ];
        let options = first.chain(ours).flat_map(|option| ["-o".to_owned(), option]);
        let mut arguments: Vec<String> = options.chain(["-T".to_owned()]).collect();
        arguments.extend(ssh.port.into_iter().flat_map(|port| ["-p".to_owned(), port.to_string()]));
        arguments.extend(ssh.user.iter().flat_map(|user| ["-l".to_owned(), user.clone()]));
        let name = host.address.to_string();
        let destination = host.ssh.clone().unwrap_or_else(|| name.clone());
        Self { name, arguments, destination }
    }

    /// Runs a command of the host's shell; gives what it wrote to stdout.
    pub(crate) async fn run(&self, command: &str, input: Input) -> Result<String> {
        // In a file, since the connection that stays could keep a pipe open.
        let mut said = tempfile::tempfile()?;
        let mut ssh = Command::new("ssh");
        ssh.args(&self.arguments).arg("--").arg(&self.destination).arg(command);
        ssh.stdout(Stdio::piped()).stderr(said.try_clone()?).kill_on_drop(true);
        let text = match input {
            Input::Text(text) => {
                ssh.stdin(Stdio::piped());
                text
            }
            Input::File(file) => {
                ssh.stdin(file);
                String::new()
            }
        };
        let mut child = ssh.spawn().map_err(|error| {
            PgError::new(SqlState::UNDEFINED_FILE, format!("could not run ssh: {error}"))
                .hint("Install it: on Debian and Ubuntu \"apt install openssh-client\".")
        })?;
        let stdin = child.stdin.take();
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A command that ends without reading everything says why by itself.
                let _ = stdin.write_all(text.as_bytes()).await;
                let _ = stdin.shutdown().await;
            }
        };
        let mut answer = Vec::new();
        let mut stdout = child.stdout.take().map(|stdout| stdout.take(SAID_MAX + 1));
        let listen = async {
            if let Some(stdout) = &mut stdout {
                stdout.read_to_end(&mut answer).await?;
            }
            std::io::Result::Ok(answer.len() as u64 <= SAID_MAX)
        };
        let work = async {
            let (is_some, ()) = tokio::join!(listen, feed);
            Ok::<_, PgError>(if is_some? { Some(child.wait().await?) } else { None })
        };
        let status = tokio::select! {
            status = work => status?,
            () = grown(&said) => None,
        };
        // What is not waited for is killed.
        let Some(status) = status else {
            return Err(self.failed(format!("It has said more than {} MiB.", SAID_MAX >> 20)));
        };
        if status.success() {
            return Ok(String::from_utf8_lossy(&answer).into_owned());
        }
        let mut words = Vec::new();
        said.rewind()?;
        said.take(SAID_MAX).read_to_end(&mut words)?;
        let words = printable(String::from_utf8_lossy(&words).trim());
        Err(if status.code() == Some(SSH_FAILED) { self.unreachable(words) } else { self.failed(words) })
    }

    fn unreachable(&self, words: String) -> PgError {
        let hint = if words.contains("Host key verification failed") {
            "Compare the key that the host shows with its own (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub there), \
             and put it into your known_hosts, for example by connecting once by hand."
        } else if words.contains("Permission denied") {
            "Have the host accept your key (ssh-copy-id), or name user and key in [ssh] of the inventory."
        } else {
            "Check \"address\", \"ssh\" and [ssh] in the inventory: \"ssh\" to this host must work without a question."
        };
        PgError::connection(format!("the host {} cannot be reached by ssh", self.name)).detail(words).hint(hint)
    }

    fn failed(&self, words: String) -> PgError {
        PgError::new(SqlState::IO_ERROR, format!("a command on the host {} has failed", self.name)).detail(words)
    }

    /// Ends the connection.
    async fn close(&self) {
        let mut ssh = Command::new("ssh");
        ssh.args(&self.arguments).args(["-O", "exit", "--"]).arg(&self.destination);
        ssh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // There may be none.
        let _ = ssh.status().await;
    }
}

/// Waits until the file is larger than what is taken.
async fn grown(file: &File) {
    while file.metadata().is_ok_and(|file| file.len() <= SAID_MAX) {
        tokio::time::sleep(LOOK).await;
    }
}

/// What a host says, for a terminal that obeys control characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// Where sockets can be: their paths are short, and mean to ssh what they are.
fn place_of_sockets(asked: PathBuf) -> PathBuf {
    let is_plain =
        asked.as_os_str().as_encoded_bytes().iter().all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(b));
    match is_plain && asked.as_os_str().len() <= SOCKET_PATH_MAX - SOCKET_NAME_MAX {
        true => asked,
        false => PathBuf::from("/tmp"),
    }
}

/// The connections to all hosts.
pub(crate) struct Connections {
    pub remotes: Vec<Remote>,
    _sockets: TempDir,
}

impl Connections {
    pub(crate) fn new<'a>(hosts: impl Iterator<Item = &'a Host>, ssh: &Ssh) -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(SOCKETS_PREFIX).permissions(Permissions::from_mode(0o700));
        let sockets = builder.tempdir_in(place_of_sockets(std::env::temp_dir()))?;
        let remotes = hosts.enumerate().map(|(at, host)| Remote::new(host, at, ssh, sockets.path())).collect();
        Ok(Self { remotes, _sockets: sockets })
    }

    pub(crate) async fn close(self) {
        for remote in &self.remotes {
            remote.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_user_come_first_but_nothing_is_asked() {
        let host = Host {
            address: [10, 0, 0, 1].into(),
            names: Vec::new(),
            ssh: None,
            directory: None,
            gtm: true,
            coordinator: None,
            datanodes: Vec::new(),
        };
        let ssh = Ssh { options: vec!["ConnectTimeout=60".to_owned(), "BatchMode=no".to_owned()], ..Ssh::default() };
        let arguments = Remote::new(&host, 0, &ssh, Path::new("/tmp/s")).arguments;
        let at = |word: &str| arguments.iter().position(|found| found == word).unwrap();
        assert!(at("BatchMode=yes") < at("BatchMode=no"));
        assert!(at("ConnectTimeout=60") < at("ConnectTimeout=10"));
        assert!(at("ForwardAgent=no") < at("-T") && at("ClearAllForwardings=yes") < at("-T"));
    }

    #[test]
    fn sockets_are_where_they_can_be() {
        assert_eq!(place_of_sockets("/var/tmp".into()), Path::new("/var/tmp"));
        assert_eq!(place_of_sockets("/var/%h".into()), Path::new("/tmp"));
        let longest = format!("/{}", "x".repeat(SOCKET_PATH_MAX - SOCKET_NAME_MAX - 1));
        assert_eq!(place_of_sockets(longest.clone().into()), Path::new(&longest));
        assert_eq!(place_of_sockets(format!("{longest}x").into()), Path::new("/tmp"));
    }

    #[test]
    fn a_host_moves_no_cursor() {
        assert_eq!(printable("a\u{1b}[2Jb\r\nc\u{9b}d"), "a\u{fffd}[2Jb\u{fffd}\nc\u{fffd}d");
    }
}
