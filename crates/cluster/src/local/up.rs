//! `loxo up`: makes the cluster if it is not there, starts what does not run, also coordinators and a gtm that are asked for beside
//! those there are, and waits until all of it answers. Then adds the datanodes that are missing, if more are asked for.
//!
//! ```text
//!   plan ─▶ check (ports, space, reach) ─▶ make what is missing ─▶ start what is dead ─▶ metadata ─▶ answers
//!                                            └──────────── on any failure or Ctrl-C: undo ───────────────┘
//! ```

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pgerror::{PgError, Result, SqlState};

use super::layout::Shape;
use super::lock::Lock;
use super::{COORDINATORS_DEFAULT, DATANODES_DEFAULT, Kind, Layout, PORT_DEFAULT, Part, daemon, datanode, down, node};
use crate::Progress;
use crate::config::{Local, invalid};
use crate::membership;
use crate::postgres::{Installation, OsUser};
use crate::settings::Profile;
use crate::{disk, init, proc, upgrade};

/// Free space a new datanode needs: about 40 MB of system catalogs, then WAL.
pub(crate) const SPACE_NEW_DATANODE: u64 = 256 << 20;
/// Free space below which starting a datanode makes no sense.
const SPACE_DATANODE: u64 = 32 << 20;

/// What is asked for. `None` means: as the cluster is, or the default for a new one.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct UpOptions {
    pub dir: PathBuf,
    pub datanodes: Option<usize>,
    pub coordinators: Option<usize>,
    /// A second gtm that takes over when the first dies.
    pub gtm_standby: bool,
    pub port: Option<u16>,
    pub pg_bin: Option<PathBuf>,
    pub profile: Option<Profile>,
    /// Replaces the stored settings if not empty.
    pub set: BTreeMap<String, String>,
    /// The binary that is run as gtm and coordinator; must be the caller's own.
    pub loxo: PathBuf,
}

impl UpOptions {
    /// A cluster in `dir`, everything else by default.
    pub fn new(dir: impl Into<PathBuf>, loxo: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            datanodes: None,
            coordinators: None,
            gtm_standby: false,
            port: None,
            pg_bin: None,
            profile: None,
            set: BTreeMap::new(),
            loxo: loxo.into(),
        }
    }
}

/// Brings the cluster up and returns its layout once every part answers. What runs already is left alone. On failure,
/// SIGINT or SIGTERM everything this call started is stopped, and a cluster that was never up is removed; but if a datanode
/// cannot be added to it, the cluster runs as it was.
pub async fn up(options: &UpOptions, progress: &Progress) -> Result<Layout> {
    let dir = disk::absolute(&options.dir)?;
    let run = Run::plan(&dir, options, progress)?;
    run.check()?;
    let existed = dir.exists();
    run.make_directory()?;
    let lock = Lock::take(&dir)?;
    // Again under the lock: another call may have made or started the cluster meanwhile. What is dead now is what this
    // call starts, and stops again if it fails.
    let run = Run::plan(&dir, options, progress)?;
    let dead = run.dead_parts();
    let outcome = tokio::select! {
        outcome = run.bring_up(&dead) => outcome,
        name = proc::interrupted() => Err(PgError::new(SqlState::QUERY_CANCELED, format!("stopped by {name}"))),
    };
    let error = match outcome {
        Ok(Outcome::Runs) => return grown(run.layout, options, progress).await,
        Ok(Outcome::OtherNodes) => {
            drop(lock);
            return Box::pin(up(options, progress)).await;
        }
        Err(error) => error,
    };
    if let Err(trouble) = run.undo(&dead, existed).await {
        progress.line(&format!("could not clean up: {trouble}"));
    }
    drop(lock);
    Err(error)
}

/// The cluster, which runs, with as many datanodes as are asked for.
async fn grown(mut layout: Layout, options: &UpOptions, progress: &Progress) -> Result<Layout> {
    if options.datanodes.is_some() {
        node::complete_locked(layout.dir(), progress).await?;
    }
    while options.datanodes.is_some_and(|wanted| layout.config().datanodes.len() < wanted) {
        let added = node::add_locked(layout.dir(), None, progress).await?;
        progress.line(&format!("{} is a datanode now", added.name));
        layout = Layout::load(layout.dir())?.unwrap_or(layout);
    }
    Ok(layout)
}

/// The cluster as it shall be: the one in the directory, if it is what is asked for, or a new one.
fn plan(dir: &Path, options: &UpOptions) -> Result<Layout> {
    let Some(layout) = Layout::load(dir)? else {
        let mut entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        // A call that was killed early, or is about to go on, has made these two.
        if entries.any(|entry| entry.file_name() != "lock" && entry.file_name() != "log") {
            let text = format!("\"{}\" holds something else than a loxo cluster", dir.display());
            return Err(
                PgError::new(SqlState::WRONG_OBJECT_TYPE, text).hint("Choose an empty or a new directory with --dir.")
            );
        }
        let shape = Shape {
            coordinators: options.coordinators.unwrap_or(COORDINATORS_DEFAULT),
            gtms: if options.gtm_standby { 2 } else { 1 },
            datanodes: options.datanodes.unwrap_or(DATANODES_DEFAULT),
        };
        return Layout::new(
            dir,
            options.port.unwrap_or(PORT_DEFAULT),
            shape,
            options.profile.unwrap_or_default(),
            options.set.clone(),
            Installation::find(options.pg_bin.as_deref())?.bin,
        );
    };
    check_same_shape(&layout, options)?;
    let adds_standby = options.gtm_standby && layout.config().gtms.len() < 2;
    let layout = if adds_standby { layout.with_standby() } else { layout };
    let more = options.coordinators.filter(|wanted| *wanted > layout.config().coordinators.len());
    let layout = if let Some(wanted) = more { layout.with_coordinators(wanted)? } else { layout };
    let old = layout.local();
    let pg_bin = options.pg_bin.as_deref().map(|bin| Installation::find(Some(bin))).transpose()?;
    let new = Local {
        profile: options.profile.unwrap_or(old.profile),
        set: if options.set.is_empty() { old.set.clone() } else { options.set.clone() },
        pg_bin: pg_bin.map_or_else(|| old.pg_bin.clone(), |found| found.bin),
        ..old.clone()
    };
    let same = new.profile == old.profile && new.set == old.set && new.pg_bin == old.pg_bin;
    if !same && layout.is_running() {
        return Err(invalid(format!("the cluster in \"{}\" runs with other settings", dir.display()))
            .hint("Run \"loxo down\" first, then \"loxo up\" with the new settings; the data stays."));
    }
    Ok(layout.with_local(new))
}

/// Nodes and ports are part of the metadata: they do not change by a command line. But nodes can be added.
fn check_same_shape(layout: &Layout, options: &UpOptions) -> Result<()> {
    let config = layout.config();
    let can_grow = layout.cluster_id().is_some();
    let asked = [
        ("datanodes", options.datanodes, config.datanodes.len()),
        ("coordinators", options.coordinators, config.coordinators.len()),
        ("port", options.port.map(usize::from), usize::from(layout.local().port)),
    ];
    for (what, wanted, have) in asked {
        if let Some(wanted) = wanted
            && wanted != have
            && !(what != "port" && wanted > have && can_grow)
        {
            let dir = layout.dir().display();
            if what == "datanodes" && can_grow {
                return Err(invalid(format!("the cluster in \"{dir}\" has {have} datanodes, more than {wanted}"))
                    .hint("\"loxo node remove\" takes a datanode out of a running cluster."));
            }
            return Err(invalid(format!("the cluster in \"{dir}\" has --{what} {have}, not {wanted}")).hint(format!(
                "Leave --{what} away to start it as it is, choose another --dir for a second cluster, \
                 or remove this one and its data with \"loxo down --dir {dir} --wipe\"."
            )));
        }
    }
    Ok(())
}

/// What came of it.
enum Outcome {
    Runs,
    /// Nodes have come, gone or changed by a command that was killed: the configuration has them now, and is to be read again.
    OtherNodes,
}

/// One call of `up`.
struct Run {
    layout: Layout,
    postgres: Installation,
    user: Option<OsUser>,
    loxo: PathBuf,
    progress: Progress,
    /// The configuration file as it was.
    before: Option<String>,
}

impl Run {
    fn plan(dir: &Path, options: &UpOptions, progress: &Progress) -> Result<Self> {
        let layout = plan(dir, options)?;
        Ok(Self {
            before: std::fs::read_to_string(layout.config_file()).ok(),
            user: OsUser::for_servers()?,
            postgres: Installation::find(Some(&layout.local().pg_bin))?,
            loxo: options.loxo.clone(),
            progress: *progress,
            layout,
        })
    }

    fn dead_parts(&self) -> Vec<Part> {
        self.layout.parts().into_iter().filter(|part| self.layout.pid(part).is_none()).collect()
    }

    /// Everything that can be known to fail is found here, before anything is touched.
    fn check(&self) -> Result<()> {
        let dir = self.layout.dir();
        if let Some(user) = &self.user
            && !dir.parent().is_none_or(|parent| user.reaches(parent))
        {
            return Err(PgError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("the OS user \"postgres\" cannot get to \"{}\"", dir.display()),
            )
            .detail("Started by root, the servers run as that user.")
            .hint("Choose a directory like /var/lib/loxo with --dir, or run loxo as an ordinary user."));
        }
        let mut space = 0;
        for part in self.dead_parts() {
            proc::check_port_free(part.port, &part.name)?;
            let is_new = !self.layout.data_dir(&part.name).exists();
            space += match part.kind {
                Kind::Datanode if is_new => SPACE_NEW_DATANODE,
                Kind::Datanode => SPACE_DATANODE,
                Kind::Gtm | Kind::Coordinator => 0,
            };
            if part.kind == Kind::Datanode && is_new && self.layout.cluster_id().is_some() {
                return Err(self.lost(&part.name));
            }
        }
        disk::check_space(dir, space)
    }

    fn lost(&self, name: &str) -> PgError {
        let data = self.layout.data_dir(name);
        PgError::new(
            SqlState::UNDEFINED_FILE,
            format!("the data directory \"{}\" of datanode {name} is missing", data.display()),
        )
        .detail("The cluster has been up before, so an empty datanode would be a loss of data.")
        .hint("Put the directory back from a backup, or remove the whole cluster with \"loxo down --wipe\".")
    }

    /// D, its log directory and D/cluster.toml, all owned by the servers' OS user.
    fn make_directory(&self) -> Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        let (dir, log) = (self.layout.dir(), self.layout.log_dir());
        if let Some(parent) = dir.parent() {
            std::fs::create_dir_all(parent).map_err(disk::context("create", parent))?;
        }
        for place in [dir, &log] {
            match std::fs::DirBuilder::new().mode(0o700).create(place) {
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                other => other.map_err(disk::context("create", place))?,
            }
            datanode::own(place, self.user.as_ref())?;
        }
        Ok(())
    }

    async fn bring_up(&self, dead: &[Part]) -> Result<Outcome> {
        self.write_configuration()?;
        let datanodes: Vec<Part> = dead.iter().filter(|p| p.kind == Kind::Datanode).cloned().collect();
        self.make_datanodes(&datanodes).await?;
        self.start_datanodes(&datanodes).await?;
        self.initialise().await?;
        self.upgrade().await?;
        self.write_configuration()?;
        membership::primary::finish(self.layout.config()).await?;
        if node::correct(self.layout.dir(), &self.progress).await? {
            return Ok(Outcome::OtherNodes);
        }
        self.start_daemons(dead).await?;
        self.note_nodes().await?;
        Ok(Outcome::Runs)
    }

    /// With the cluster's id as soon as it has one.
    fn write_configuration(&self) -> Result<()> {
        let mut config = self.layout.config().clone();
        config.cluster.id = self.layout.cluster_id().or(config.cluster.id);
        let file = self.layout.config_file();
        disk::write(&file, &config.to_toml()?)?;
        datanode::own(&file, self.user.as_ref())
    }

    async fn make_datanodes(&self, dead: &[Part]) -> Result<()> {
        let missing: Vec<&Part> = dead.iter().filter(|p| !self.layout.data_dir(&p.name).exists()).collect();
        let mut tasks = tokio::task::JoinSet::new();
        for part in &missing {
            let (layout, postgres, user, name) =
                (self.layout.clone(), self.postgres.clone(), self.user.clone(), part.name.clone());
            tasks.spawn(async move {
                datanode::create(&layout, &name, &postgres, user.as_ref(), &datanode::Making::local(&layout)).await
            });
        }
        let label = format!("creating the datanodes in {}", self.layout.dir().display());
        self.progress.step(&label, all(tasks)).await?;
        dead.iter().try_for_each(|part| datanode::configure(&self.layout, part, self.user.as_ref()))
    }

    async fn start_datanodes(&self, dead: &[Part]) -> Result<()> {
        let mut tasks = tokio::task::JoinSet::new();
        for part in dead.iter().cloned() {
            let (layout, postgres, user) = (self.layout.clone(), self.postgres.clone(), self.user.clone());
            tasks.spawn(async move { datanode::start(&layout, &part.name, &postgres, user.as_ref()).await });
        }
        self.progress.step("starting the datanodes", all(tasks)).await?;
        self.wait_for(Kind::Datanode).await
    }

    /// Waits until every part of a kind answers, also those that ran before this call.
    async fn wait_for(&self, kind: Kind) -> Result<()> {
        for part in self.layout.parts().iter().filter(|p| p.kind == kind) {
            let wait = daemon::wait_until_it_answers(&self.layout, part);
            self.progress.step(&format!("waiting for {}", part.name), wait).await?;
        }
        Ok(())
    }

    /// Metadata on all datanodes, once in the cluster's life.
    async fn initialise(&self) -> Result<()> {
        if self.layout.cluster_id().is_some() {
            return Ok(());
        }
        let id = self.progress.step("writing the metadata", init(self.layout.config())).await?;
        disk::write(&self.layout.marker(), &format!("{id}\n"))?;
        datanode::own(&self.layout.marker(), self.user.as_ref())
    }

    /// Those of a cluster that an earlier version has made.
    async fn upgrade(&self) -> Result<()> {
        let upgraded = self.progress.step("upgrading the metadata", upgrade(self.layout.config())).await?;
        if let Some(layout) = upgraded {
            self.progress.line(&format!("the metadata of layout {layout} were upgraded"));
        }
        Ok(())
    }

    /// The gtm first, since coordinators look for it; then all coordinators at once.
    async fn start_daemons(&self, dead: &[Part]) -> Result<()> {
        for kind in [Kind::Gtm, Kind::Coordinator] {
            for part in dead.iter().filter(|p| p.kind == kind) {
                daemon::start(&self.layout, part, &self.loxo, self.user.as_ref())?;
            }
            self.wait_for(kind).await?;
        }
        Ok(())
    }

    /// The metadata have new coordinators and gtms too.
    async fn note_nodes(&self) -> Result<()> {
        let config = self.layout.config();
        let noted = membership::others(config).await?;
        let parts = self.layout.parts().into_iter().filter(|part| part.kind != Kind::Datanode);
        for part in parts.filter(|part| !noted.contains(&part.name)) {
            let create = format!(
                "CREATE NODE {} WITH (TYPE = '{}', HOST = '127.0.0.1', PORT = {})",
                part.name, part.kind, part.port
            );
            membership::coordinator(config).await?.run(&create).await?;
            self.progress.line(&format!("{} is part of the cluster now", part.name));
        }
        Ok(())
    }

    /// Back to how it was before this call.
    async fn undo(&self, dead: &[Part], existed: bool) -> Result<()> {
        let is_new = self.layout.cluster_id().is_none();
        let how = if is_new { down::Stop::AtOnce } else { down::Stop::Orderly };
        down::stop(&self.layout, dead, how, &self.progress).await?;
        let dir = self.layout.dir();
        if is_new && !existed {
            let removed = std::fs::remove_dir_all(dir);
            if removed.as_ref().is_err_and(|error| error.kind() == ErrorKind::DirectoryNotEmpty) {
                // A program that was just being started has made more files, and is found now.
                down::stop(&self.layout, dead, how, &self.progress).await?;
                return std::fs::remove_dir_all(dir).map_err(disk::context("remove", dir));
            }
            return removed.map_err(disk::context("remove", dir));
        }
        if !is_new {
            let file = self.layout.config_file();
            self.before.as_ref().map_or(Ok(()), |text| disk::write(&file, text))?;
            return datanode::own(&file, self.user.as_ref());
        }
        // The directory was the user's, empty or left by a call that was killed: it stays, its content goes.
        for entry in std::fs::read_dir(dir).map_err(disk::context("read", dir))?.flatten() {
            let path = entry.path();
            let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.map_err(disk::context("remove", &path))?;
        }
        Ok(())
    }
}

/// Waits for all tasks and returns the first error; tasks are not abandoned half-way.
async fn all(mut tasks: tokio::task::JoinSet<Result<()>>) -> Result<()> {
    let mut outcome = Ok(());
    while let Some(done) = tasks.join_next().await {
        let result = done.unwrap_or_else(|e| Err(PgError::internal(format!("a task died: {e}"))));
        outcome = outcome.and(result);
    }
    outcome
}
