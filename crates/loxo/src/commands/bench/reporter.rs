//! Runs experiments and writes what they have found: text on the terminal, one page and its JSON.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bench::suite::{AGAINST, Experiment, FORMAT, Journal, Machine, Report, THIS, drive, utc};
use cluster::settings::Profile;
use pgerror::{PgError, Result, SqlState};

use super::clusters::{self, Local};
use crate::commands::print;

/// Figures, samples of a run that has not ended, and a file that is being written.
const BESIDE: [&str; 3] = [JSON, STEPS, PART];
const JSON: &str = "json";
const STEPS: &str = "steps";
const PART: &str = "part";

/// What every experiment takes.
#[derive(clap::Args)]
pub(super) struct Common {
    /// Fewer rows, shorter runs: less than three minutes on two cores
    #[arg(long)]
    pub(super) quick: bool,
    /// Write a report there, and its JSON beside; an interrupted run goes on when the command is repeated
    #[arg(long, value_name = "FILE.html", value_parser = page)]
    pub(super) report: Option<PathBuf>,
    /// Forget what an interrupted run has measured
    #[arg(long, requires = "report")]
    pub(super) afresh: bool,
    /// Measure another build of loxo too, by turns with this one, on a cluster of its own
    #[arg(long, value_name = "LOXO")]
    pub(super) against: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Not one of the files that are written beside the page.
fn page(text: &str) -> std::result::Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let taken = path.extension().filter(|name| BESIDE.iter().any(|beside| name == beside));
    match (taken, path.file_name()) {
        (Some(name), _) => {
            Err(format!("the page cannot end in .{}: a file of that name lies beside it", name.display()))
        }
        (None, None) => Err("not the name of a file".to_owned()),
        (None, Some(_)) => Ok(path),
    }
}

/// One run of the command.
pub(super) struct Reporter {
    report: Report,
    journal: Journal,
    builds: Vec<&'static str>,
    page: Option<PathBuf>,
    against: Option<PathBuf>,
    is_json: bool,
    /// The first experiment that failed.
    failed: Option<PgError>,
}

impl Reporter {
    /// `plan` says all that figures depend on: a run that goes on must have the same.
    pub(super) async fn begin(common: &Common, plan: &[String]) -> Result<Self> {
        let against = match &common.against {
            Some(program) => Some(clusters::other_build(program).await?),
            None => None,
        };
        let build = clusters::this_build()?;
        let journal = match &common.report {
            Some(page) => {
                let path = page.with_extension(STEPS);
                if common.afresh && path.exists() {
                    std::fs::remove_file(&path)?;
                }
                let head = serde_json::json!({"experiments": plan, "build": build, "against": against});
                Journal::open(&path, &head.to_string())?
            }
            None => Journal::none(),
        };
        Ok(Self {
            report: Report {
                format: FORMAT,
                build,
                against,
                begun: utc(SystemTime::now()),
                command: std::env::args().collect::<Vec<_>>().join(" "),
                machine: Machine::look(&std::env::temp_dir())?,
                experiments: Vec::new(),
            },
            journal,
            builds: if common.against.is_some() { vec![AGAINST, THIS] } else { vec![THIS] },
            page: common.report.clone(),
            against: common.against.clone(),
            is_json: common.json,
            failed: None,
        })
    }

    /// Runs one experiment and shows it. Only Ctrl-C ends the run; another error is kept for its end.
    pub(super) async fn run<E: Experiment>(
        &mut self,
        experiment: &E,
        command: &str,
        kept: Option<PathBuf>,
        profile: Profile,
    ) -> Result<()> {
        let local = Local { kept, profile, against: self.against.clone() };
        let run = drive(experiment, command, &local, &self.builds, &mut self.journal).await?;
        if !self.is_json {
            print(&format!("{}\n", run.outcome))?;
        }
        self.report.experiments.push(run.outcome);
        self.write()?;
        match run.ended {
            Ok(()) => Ok(()),
            Err(error) if run.is_interrupted => Err(self.kept_so_far(error)),
            Err(error) => {
                eprintln!("{}: {error}", experiment.name());
                self.failed.get_or_insert(error);
                Ok(())
            }
        }
    }

    fn kept_so_far(&self, error: PgError) -> PgError {
        match &self.page {
            Some(page) => error
                .detail(format!("{} has what was measured until then.", page.display()))
                .hint("Repeat the command to go on; with --afresh it begins anew."),
            None => error.hint("With --report FILE.html a repeated command goes on where it was."),
        }
    }

    fn write(&self) -> Result<()> {
        let Some(page) = &self.page else { return Ok(()) };
        let write = |path: &Path, text: String| {
            // A reader sees the old report or the new one.
            let part = path.with_extension(PART);
            let done = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, path));
            done.map_err(|e| PgError::new(SqlState::IO_ERROR, format!("cannot write {}: {e}", path.display())))
        };
        write(&page.with_extension(JSON), self.report.to_json())?;
        write(page, self.report.to_html())
    }

    /// Everything was measured, or failed.
    pub(super) fn finish(self) -> Result<()> {
        if self.is_json {
            print(&self.report.to_json())?;
        }
        if let Some(page) = &self.page {
            eprintln!("the report is {}, its figures {}", page.display(), page.with_extension(JSON).display());
        }
        match self.failed {
            Some(error) => Err(error),
            None => self.journal.close(),
        }
    }
}

/// What an experiment's figures depend on, in a line.
pub(super) fn plan<E: Experiment>(experiment: &E, kept: Option<&Path>, profile: Profile) -> Result<String> {
    let settings: Vec<String> = experiment.settings().iter().map(|(name, value)| format!("{name} {value}")).collect();
    let cluster = match kept {
        Some(dir) => format!("the cluster in {}", std::path::absolute(dir)?.display()),
        None => format!("new clusters of the profile {profile}"),
    };
    Ok(format!("{}: {}; {cluster}", experiment.name(), settings.join(", ")))
}
