//! Clusters that live as long as a stage of an experiment.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use bench::Target;
use bench::suite::{AGAINST, Build, Clusters, Stage, utc};
use cluster::local::{self, UpOptions};
use cluster::settings::Profile;
use cluster::{Config, Progress};
use pgerror::{PgError, Result, SqlState};
use tokio::process::Command;

/// On this machine: the one in a directory, which goes on running, or new ones, which are removed.
pub(super) struct Local {
    pub(super) kept: Option<PathBuf>,
    pub(super) profile: Profile,
    /// The other build, which makes its cluster itself: a cluster's metadata are those of the build that has made it.
    pub(super) against: Option<PathBuf>,
}

impl Local {
    fn dir(&self, build: &str) -> PathBuf {
        std::env::temp_dir().join(format!("loxo-bench-{}-{build}", std::process::id()))
    }

    fn other(&self, build: &str) -> Option<&Path> {
        self.against.as_deref().filter(|_| build == AGAINST)
    }
}

impl Clusters for Local {
    async fn start(&self, stage: &Stage, build: &str) -> Result<Target> {
        if let Some(dir) = &self.kept {
            local::up(&UpOptions::new(dir, std::env::current_exe()?), &Progress::stderr()).await?;
            return target(dir);
        }
        let dir = self.dir(build);
        let port = local::free_port(stage.coordinators, stage.datanodes)?;
        if let Some(program) = self.other(build) {
            let numbers = [("--datanodes", stage.datanodes), ("--coordinators", stage.coordinators), ("--port", port)];
            let mut command = Command::new(program);
            command.arg("up").arg("--dir").arg(&dir).args(["--profile", &self.profile.to_string()]);
            numbers.iter().for_each(|(name, number)| {
                command.args([*name, &number.to_string()]);
            });
            stage.set.iter().for_each(|(name, value)| {
                command.args(["--set", &format!("{name}={value}")]);
            });
            run(&mut command).await?;
            return target(&dir);
        }
        let options = UpOptions {
            datanodes: Some(usize::from(stage.datanodes)),
            coordinators: Some(usize::from(stage.coordinators)),
            port: Some(port),
            profile: Some(self.profile),
            set: stage.set.iter().cloned().collect(),
            ..UpOptions::new(&dir, std::env::current_exe()?)
        };
        local::up(&options, &Progress::quiet()).await?;
        target(&dir)
    }

    async fn stop(&self, build: &str) -> Result<()> {
        if self.kept.is_some() {
            return Ok(());
        }
        let dir = self.dir(build);
        match self.other(build) {
            Some(program) => run(Command::new(program).args(["down", "--wipe", "--dir"]).arg(&dir)).await,
            None => local::down(&dir, true, &Progress::quiet()).await.map(drop),
        }
    }
}

/// To its end: a terminal's Ctrl-C is for this program, which then stops what the other one has started.
async fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).process_group(0).output().await?;
    let failed = || {
        let program = command.as_std().get_program().to_string_lossy();
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        PgError::new(SqlState::IO_ERROR, format!("{program} failed")).detail(why)
    };
    if output.status.success() { Ok(()) } else { Err(failed()) }
}

/// The cluster in a directory, by whatever command it was made.
fn target(dir: &Path) -> Result<Target> {
    // As its processes have it on their command lines.
    let dir = dir.canonicalize()?;
    let config = Config::load(&dir.join("cluster.toml"))?;
    let datanodes = config.datanodes.iter().map(|node| Ok(config.endpoint(&node.host, node.port)?.uri()));
    Ok(Target {
        coordinators: config.coordinator_uris()?,
        datanodes: datanodes.collect::<Result<_>>()?,
        dir,
        distributed: true,
    })
}

/// How many datanodes the cluster in a directory has.
pub(super) fn size(dir: &Path) -> Result<u16> {
    Ok(Config::load(&dir.join("cluster.toml"))?.datanodes.len() as u16)
}

/// How many coordinators it has.
pub(super) fn coordinators(dir: &Path) -> Result<u16> {
    Ok(Config::load(&dir.join("cluster.toml"))?.coordinators.len() as u16)
}

/// What this program is.
pub(super) fn this_build() -> Result<Build> {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    build(&std::env::current_exe()?, format!("loxo {}", env!("CARGO_PKG_VERSION")), profile)
}

/// What another program is.
pub(super) async fn other_build(program: &Path) -> Result<Build> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .await
        .map_err(|error| PgError::new(SqlState::IO_ERROR, format!("cannot run {}: {error}", program.display())))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || !version.starts_with("loxo ") {
        return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, format!("{} is no loxo", program.display())));
    }
    build(program, version, "not known")
}

fn build(program: &Path, version: String, profile: &str) -> Result<Build> {
    let written = utc(std::fs::metadata(program)?.modified()?);
    Ok(Build { program: program.display().to_string(), version, profile: profile.to_owned(), written })
}
