//! The steps, in their order, each on all hosts at the same time.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cluster::host::{Answer, Deed, Report, Step, Wanted};
use cluster::{Config, Progress};
use pgerror::{PgError, Result, SqlState};
use rustix::fs::{FlockOperation, flock};
use tokio::task::JoinSet;

use crate::inventory::Inventory;
use crate::kept::{AUTHORITY_FILE, CONFIG_FILE, Kept, PASSWORD_FILE};
use crate::plan::Plan;
use crate::probe::{Facts, Problem, common_major, probe};
use crate::program::{Program, digest_of};
use crate::ssh::{Connections, Input, Remote, printable};

/// What is asked for.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Options {
    pub inventory: PathBuf,
    /// Only say what would be done.
    pub dry_run: bool,
    /// The program to be copied: the caller's own.
    pub loxo: PathBuf,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Outcome {
    /// A line each.
    pub lines: Vec<String>,
}

/// Makes the cluster what the inventory says.
pub async fn deploy(options: &Options, progress: &Progress) -> Result<Outcome> {
    let run = Run::begin(options, *progress)?;
    run.guarded(Run::deploy).await
}

/// Stops all processes of the cluster; the data stay.
pub async fn stop(options: &Options, progress: &Progress) -> Result<Outcome> {
    let run = Run::begin(options, *progress)?;
    run.guarded(Run::stop).await
}

struct Run {
    options: Options,
    inventory: Inventory,
    kept: Kept,
    plan: Plan,
    remotes: Vec<Remote>,
    progress: Progress,
    connections: Option<Connections>,
    _lock: std::fs::File,
}

impl Run {
    fn begin(options: &Options, progress: Progress) -> Result<Self> {
        let inventory = Inventory::load(&options.inventory)?;
        let lock = std::fs::File::open(&options.inventory)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            PgError::new(SqlState::LOCK_NOT_AVAILABLE, "another \"loxo deploy\" is at work on this inventory")
                .hint("Wait for it to end, then try again.")
        })?;
        let kept = Kept::beside(&options.inventory)?;
        let plan = Plan::new(&inventory, kept.config()?.as_ref(), kept.path(CONFIG_FILE))?;
        let connections = Connections::new(inventory.hosts.iter(), &inventory.ssh)?;
        let remotes = connections.remotes.clone();
        let connections = Some(connections);
        Ok(Self { options: options.clone(), inventory, kept, plan, remotes, progress, connections, _lock: lock })
    }

    /// Runs it to its end or to Ctrl-C, and ends the connections.
    async fn guarded(mut self, work: impl AsyncFnOnce(&mut Self) -> Result<Outcome>) -> Result<Outcome> {
        let outcome = tokio::select! {
            outcome = work(&mut self) => outcome,
            name = cluster::interrupted() => Err(PgError::new(SqlState::QUERY_CANCELED, format!("stopped by {name}"))
                .hint("The same command goes on from here.")),
        };
        if let Some(connections) = self.connections.take() {
            connections.close().await;
        }
        outcome
    }

    async fn deploy(&mut self) -> Result<Outcome> {
        let program = Program::read(&self.options.loxo)?;
        let outlines = self.outlines();
        let facts = self.progress.step("looking at the hosts", self.probe(&outlines)).await?;
        let major = self.refuse(&facts, &outlines, &program)?;
        if self.options.dry_run {
            return Ok(Outcome { lines: self.foretold(&facts, &outlines, &program) });
        }
        self.kept.prepare(&self.plan.config, &self.plan.servers(&self.inventory))?;
        let mut done = Done::default();
        let copied = self.progress.step("copying the program", self.copy(&facts, &outlines, program)).await?;
        done.add(&self.progress, copied);

        let bins = |at: usize| facts[at].pg_bin(major).map(PathBuf::from).unwrap_or_default();
        let bins: Vec<PathBuf> = (0..facts.len()).map(bins).collect();
        self.datanodes(&facts, &bins, &mut done).await?;
        let report = self.once(Step::Initialise, &bins, &mut done).await?;
        if self.plan.config.cluster.id != report.cluster_id {
            self.plan.config.cluster.id = report.cluster_id;
            self.kept.write_config(&self.plan.config)?;
        }
        self.everywhere(Step::Gtms, &bins, &mut done).await?;
        self.everywhere(Step::Coordinators, &bins, &mut done).await?;
        if !self.plan.joining.is_empty() {
            self.join(&bins, &mut done).await?;
        }
        let report = self.once(Step::Check, &bins, &mut done).await?;
        let mut lines = done.summary();
        lines.extend(report.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines.push(done.after_a_reboot());
        lines.extend(self.ways_in()?);
        Ok(Outcome { lines })
    }

    async fn stop(&mut self) -> Result<Outcome> {
        let outlines = self.outlines();
        let facts = self.progress.step("looking at the hosts", self.probe(&outlines)).await?;
        self.refuse_untrusted(&facts, &outlines)?;
        let hosts = self.remotes.iter().cloned().zip(outlines).zip(facts);
        // Where the program never was nothing runs.
        let asked: Vec<_> = hosts.filter(|(_, facts)| facts.program.is_some()).map(|(asked, _)| asked).collect();
        let mut done = Done::default();
        for step in [Step::StopCoordinators, Step::StopGtms, Step::StopDatanodes] {
            self.ask(step, asked.clone(), &mut done).await?;
        }
        Ok(Outcome { lines: done.summary() })
    }

    /// What each host has to be, without what is secret.
    fn outlines(&self) -> Vec<Wanted> {
        self.inventory.hosts.iter().map(|host| self.plan.outline(&self.inventory, host)).collect()
    }

    async fn probe(&self, outlines: &[Wanted]) -> Result<Vec<Facts>> {
        let pg_bin = self.inventory.cluster.pg_bin.clone();
        let asked = self.remotes.iter().zip(outlines).map(|(remote, outline)| {
            let (remote, directory, pg_bin) = (remote.clone(), outline.directory.clone(), pg_bin.clone());
            async move { probe(&remote, &directory, pg_bin.as_deref()).await }
        });
        all(asked).await
    }

    /// What another cluster, or another user of a host, could make of a call.
    fn refuse_untrusted(&self, facts: &[Facts], outlines: &[Wanted]) -> Result<()> {
        let authority = self.authority();
        let mut found = Found::default();
        for ((remote, facts), outline) in self.remotes.iter().zip(facts).zip(outlines) {
            found.add(&remote.name, facts.of_trust(&outline.directory, authority.as_deref()));
        }
        self.look_for_config(facts, &mut found)?;
        found.refuse("the hosts are not this inventory's alone; nothing was stopped")
    }

    /// Digest of what the administrator has.
    fn authority(&self) -> Option<String> {
        self.kept.read(AUTHORITY_FILE).ok().map(|text| digest_of(&text))
    }

    /// Without the configuration nobody knows what the cluster is made of.
    fn look_for_config(&self, facts: &[Facts], found: &mut Found) -> Result<()> {
        if self.authority().is_some() && self.kept.config()?.is_none() && facts.iter().any(Facts::has_cluster) {
            found
                .texts
                .push(format!("\"{}\" is missing, and the cluster exists", self.kept.path(CONFIG_FILE).display()));
            found.hints.insert("Bring loxo.toml back; \"cluster/loxo.toml\" on a coordinator's host is a copy.");
        }
        Ok(())
    }

    /// Everything that can be known to fail is found here; gives PostgreSQL's major version.
    fn refuse(&self, facts: &[Facts], outlines: &[Wanted], program: &Program) -> Result<u32> {
        let authority = self.authority();
        let mut found = Found::default();
        for ((remote, facts), outline) in self.remotes.iter().zip(facts).zip(outlines) {
            found.add(&remote.name, facts.problems(outline, authority.as_deref(), &program.digest));
        }
        self.look_for_config(facts, &mut found)?;
        let hosts = self.remotes.iter().zip(facts).zip(outlines);
        let major = common_major(hosts.map(|((remote, facts), outline)| (remote.name.as_str(), facts, outline)));
        const UNFIT: &str = "the hosts are not fit for the inventory; nothing was written";
        match major {
            Ok(major) => found.refuse(UNFIT).map(|()| major),
            Err(lines) => {
                found
                    .texts
                    .push("there is no version of PostgreSQL, 15 to 18, that all hosts of datanodes have:".to_owned());
                found.texts.extend(lines);
                found.hints.insert("Install the same major version on them (\"apt install postgresql\"), or name where it is with \"pg_bin\".");
                Err(found.error(UNFIT))
            }
        }
    }

    /// What a call would do.
    fn foretold(&self, facts: &[Facts], outlines: &[Wanted], program: &Program) -> Vec<String> {
        let mut lines = Vec::new();
        for ((remote, facts), outline) in self.remotes.iter().zip(facts).zip(outlines) {
            let (host, directory) = (&remote.name, &outline.directory);
            let mut tell = |name: &str, runs: bool, is_there: bool| {
                let what = match (runs, is_there) {
                    (true, _) => "runs",
                    (false, true) => "would be started",
                    (false, false) => "would be made and started",
                };
                lines.push(format!("{host}: {name} {what}"));
            };
            for own in &outline.datanodes {
                tell(&own.name, facts.runs_datanode(directory, &own.name), facts.has_data(&own.name));
            }
            for own in &outline.gtms {
                tell(&own.name, facts.runs_process(directory, "gtm", &own.name), true);
            }
            for own in &outline.coordinators {
                tell(&own.name, facts.runs_process(directory, "coordinator", &own.name), true);
            }
            if facts.program.as_ref() != Some(&program.digest) {
                lines.push(format!("{host}: the program would be copied to {}/bin", directory.display()));
            }
        }
        if self.plan.config.cluster.id.is_none() {
            lines.push("the datanodes would become a cluster".to_owned());
        }
        lines
            .extend(self.plan.joining.iter().map(|new| format!("{} would become a datanode of the cluster", new.name)));
        lines
    }

    async fn copy(&self, facts: &[Facts], outlines: &[Wanted], program: Program) -> Result<Vec<(String, Report)>> {
        let copies = self.remotes.iter().zip(facts).zip(outlines).map(|((remote, facts), outline)| {
            let is_there = facts.program.as_ref() == Some(&program.digest);
            let (remote, directory, program) = (remote.clone(), outline.directory.clone(), program.clone());
            async move {
                if !is_there {
                    program.copy_to(&remote, &directory).await?;
                }
                let done = (!is_there).then(|| "copied".to_owned());
                let deed = Deed { subject: "program".to_owned(), done };
                Ok((remote.name, Report { deeds: vec![deed], ..Report::default() }))
            }
        });
        all(copies).await
    }

    fn wanted(&self, at: usize, bins: &[PathBuf]) -> Result<Wanted> {
        self.plan.wanted(&self.inventory, &self.inventory.hosts[at], &bins[at], &self.kept)
    }

    /// The superuser's password goes where a data directory is to be made, and nowhere else.
    async fn datanodes(&self, facts: &[Facts], bins: &[PathBuf], done: &mut Done) -> Result<()> {
        let mut asked = Vec::new();
        for (at, remote) in self.remotes.iter().enumerate() {
            let mut wanted = self.wanted(at, bins)?;
            for new in wanted.datanodes.iter_mut().filter(|own| !facts[at].has_data(&own.name)) {
                new.password = Some(self.kept.password()?);
            }
            asked.push((remote.clone(), wanted));
        }
        self.ask(Step::Datanodes, asked, done).await
    }

    async fn ask(&self, step: Step, asked: Vec<(Remote, Wanted)>, done: &mut Done) -> Result<()> {
        let reports = self.progress.step(step.name(), ask_all(step, asked)).await?;
        done.add(&self.progress, reports);
        Ok(())
    }

    /// On all hosts that it is about.
    async fn everywhere(&self, step: Step, bins: &[PathBuf], done: &mut Done) -> Result<()> {
        let mut asked = Vec::new();
        for (at, remote) in self.remotes.iter().enumerate() {
            asked.push((remote.clone(), self.wanted(at, bins)?));
        }
        self.ask(step, asked, done).await
    }

    /// On the first host of a coordinator.
    async fn once(&self, step: Step, bins: &[PathBuf], done: &mut Done) -> Result<Report> {
        let at = self.inventory.hosts.iter().position(|host| host.coordinator.is_some()).unwrap_or(0);
        let asked = ask(step, self.remotes[at].clone(), self.wanted(at, bins)?);
        let (host, report) = self.progress.step(step.name(), asked).await?;
        done.add(&self.progress, vec![(host, report.clone())]);
        Ok(report)
    }

    /// New datanodes are written into the configuration when they are some, and then everybody gets it.
    async fn join(&mut self, bins: &[PathBuf], done: &mut Done) -> Result<()> {
        let report = self.once(Step::Join, bins, done).await?;
        for new in std::mem::take(&mut self.plan.joining) {
            let id = report.joined.get(&new.name).copied();
            self.plan.config.datanodes.push(cluster::Datanode { id, ..new });
        }
        self.kept.write_config(&self.plan.config)?;
        self.everywhere(Step::Coordinators, bins, done).await
    }

    fn ways_in(&self) -> Result<Vec<String>> {
        let (authority, password) = (self.kept.path(AUTHORITY_FILE), self.kept.path(PASSWORD_FILE));
        let config: &Config = &self.plan.config;
        let uri = |uri: String| format!("  psql \"{uri}?sslmode=verify-full&sslrootcert={}\"", authority.display());
        let mut lines = vec![format!("connect with the password in {}:", password.display())];
        lines.extend(config.coordinator_uris()?.into_iter().map(uri));
        Ok(lines)
    }
}

/// What speaks against a call, of all hosts.
#[derive(Default)]
struct Found {
    texts: Vec<String>,
    hints: BTreeSet<&'static str>,
}

impl Found {
    fn add(&mut self, host: &str, problems: Vec<Problem>) {
        for problem in problems {
            self.texts.push(format!("{host}: {}", problem.text));
            self.hints.insert(problem.hint);
        }
    }

    fn refuse(self, text: &str) -> Result<()> {
        if self.texts.is_empty() { Ok(()) } else { Err(self.error(text)) }
    }

    fn error(self, text: &str) -> PgError {
        PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
            .detail(self.texts.join("\n          "))
            .hint(self.hints.into_iter().collect::<Vec<_>>().join("\n        "))
    }
}

/// What was done, and what was left alone.
#[derive(Default)]
struct Done {
    changed: BTreeSet<String>,
    left: BTreeSet<String>,
    /// Hosts where nobody starts processes.
    unattended: BTreeSet<String>,
}

impl Done {
    fn add(&mut self, progress: &Progress, reports: Vec<(String, Report)>) {
        for (host, report) in reports {
            if report.is_unattended {
                self.unattended.insert(host.clone());
            }
            for Deed { subject, done } in report.deeds {
                let subject = if subject == "program" { format!("program on {host}") } else { subject };
                match done {
                    Some(done) => {
                        progress.line(&format!("{host}: {subject}: {done}"));
                        self.changed.insert(subject);
                    }
                    None => drop(self.left.insert(subject)),
                }
            }
        }
    }

    fn after_a_reboot(&self) -> String {
        let hosts: Vec<&str> = self.unattended.iter().map(String::as_str).collect();
        match hosts.is_empty() {
            true => "systemd starts these processes after a reboot of a host".to_owned(),
            false => format!(
                "nothing starts the processes of {} after a reboot: run \"loxo deploy\" again then",
                hosts.join(", ")
            ),
        }
    }

    fn summary(&self) -> Vec<String> {
        let list = |names: Vec<&String>| names.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let left: Vec<&String> = self.left.difference(&self.changed).collect();
        let mut lines = Vec::new();
        match self.changed.is_empty() {
            true => lines.push("nothing was to be done".to_owned()),
            false => lines.push(format!("changed: {}", list(self.changed.iter().collect()))),
        }
        if !left.is_empty() {
            lines.push(format!("left as it was: {}", list(left)));
        }
        lines
    }
}

async fn ask_all(step: Step, asked: Vec<(Remote, Wanted)>) -> Result<Vec<(String, Report)>> {
    all(asked.into_iter().map(|(remote, wanted)| ask(step, remote, wanted))).await
}

async fn ask(step: Step, remote: Remote, wanted: Wanted) -> Result<(String, Report)> {
    let text = serde_json::to_string(&wanted).map_err(|error| PgError::internal(error.to_string()))?;
    let command = format!("{}/bin/loxo host {}", wanted.directory.display(), step.name());
    let said = remote.run(&command, Input::Text(text)).await?;
    let answer = said.lines().last().unwrap_or_default();
    let answer: Answer = serde_json::from_str(answer).map_err(|error| {
        PgError::protocol(format!("the host {} answers what is not understood: {error}", remote.name))
            .detail(printable(&said))
    })?;
    match answer.with_texts(printable).result() {
        Ok(report) => Ok((remote.name, report)),
        Err(error) => {
            let text = format!("on the host {}: {}", remote.name, error.message());
            Err(error.with(pgerror::field::MESSAGE, text))
        }
    }
}

/// Waits for all, and gives their results in order, or the first error.
async fn all<T: Send + 'static>(
    work: impl Iterator<Item = impl Future<Output = Result<T>> + Send + 'static>,
) -> Result<Vec<T>> {
    let mut tasks = JoinSet::new();
    for (at, work) in work.enumerate() {
        tasks.spawn(async move { (at, work.await) });
    }
    let mut results = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let (at, result) = done.map_err(|error| PgError::internal(format!("a task died: {error}")))?;
        results.push((at, result));
    }
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
