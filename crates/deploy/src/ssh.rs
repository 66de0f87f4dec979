//! Commands on hosts by the system's `ssh`, over one connection a host.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::Stdio;

use pgerror::{PgError, Result, SqlState};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::inventory::{Host, Ssh};

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
        let mut arguments: Vec<String> = [
            // Nobody is asked for a password, and nothing else of ours may hang.
            "BatchMode=yes".to_owned(),
            "ConnectTimeout=10".to_owned(),
            "ServerAliveInterval=10".to_owned(),
            "ServerAliveCountMax=3".to_owned(),
            // One connection for all commands; it ends by itself if this process is killed.
            "ControlMaster=auto".to_owned(),
            "ControlPersist=60".to_owned(),
            format!("ControlPath={}", control.display()),
        ]
        .into_iter()
        .chain(ssh.options.iter().cloned())
        .flat_map(|option| ["-o".to_owned(), option])
        .chain(["-T".to_owned()])
        .collect();
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
        let (output, ()) = tokio::join!(child.wait_with_output(), feed);
        let output = output?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let mut words = Vec::new();
        said.rewind()?;
        said.read_to_end(&mut words)?;
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        Err(if output.status.code() == Some(SSH_FAILED) { self.unreachable(words) } else { self.failed(words) })
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

/// The connections to all hosts.
pub(crate) struct Connections {
    pub remotes: Vec<Remote>,
    _sockets: TempDir,
}

impl Connections {
    pub(crate) fn new<'a>(hosts: impl Iterator<Item = &'a Host>, ssh: &Ssh) -> Result<Self> {
        let sockets = tempfile::Builder::new().prefix("loxo-ssh-").tempdir()?;
        let remotes = hosts.enumerate().map(|(at, host)| Remote::new(host, at, ssh, sockets.path())).collect();
        Ok(Self { remotes, _sockets: sockets })
    }

    pub(crate) async fn close(self) {
        for remote in &self.remotes {
            remote.close().await;
        }
    }
}
