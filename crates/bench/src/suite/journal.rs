//! Samples on disk from the moment they are measured, so that an interrupted run goes on where it was.
//!
//! A file of JSON, a line each: first what is measured, then one sample after the other. A line that is cut off, because the
//! machine stopped in the middle of it, was not measured.

use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use pgerror::{PgError, Result, SqlState};
use serde::{Deserialize, Serialize};

use super::result::Sample;

/// Where samples are kept until the report is complete.
#[derive(Debug)]
pub struct Journal {
    file: Option<(PathBuf, std::fs::File)>,
    known: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    experiment: String,
    sample: Sample,
}

impl Journal {
    /// Keeps nothing.
    pub fn none() -> Self {
        Self { file: None, known: Vec::new() }
    }

    /// Continues the file if it is of a run of the same `plan` (one line that says all that figures depend on), or begins it.
    ///
    /// # Errors
    /// When it cannot be read or written, or is of another run.
    pub fn open(path: &Path, plan: &str) -> Result<Self> {
        let failed =
            |e: std::io::Error| PgError::new(SqlState::IO_ERROR, format!("cannot use {}: {e}", path.display()));
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(failed(error)),
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut lines = whole.lines();
        if lines.next().is_some_and(|head| head != plan) {
            return Err(PgError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("{} was left by an interrupted run of another command", path.display()),
            )
            .hint("Repeat that command to go on with it, or remove the file."));
        }
        let known = lines.map(serde_json::from_str).collect::<std::result::Result<Vec<Line>, _>>();
        let known = known.map_err(|error| failed(error.into()))?;
        let mut file =
            std::fs::OpenOptions::new().create(true).write(true).truncate(false).open(path).map_err(failed)?;
        let write = |file: &mut std::fs::File| {
            file.set_len(whole.len() as u64)?;
            file.seek(std::io::SeekFrom::End(0))?;
            if whole.is_empty() { writeln!(file, "{plan}") } else { Ok(()) }
        };
        write(&mut file).map_err(failed)?;
        Ok(Self { file: Some((path.to_owned(), file)), known })
    }

    /// What is known of an experiment.
    pub fn of(&self, experiment: &str) -> Vec<Sample> {
        self.known.iter().filter(|line| line.experiment == experiment).map(|line| line.sample.clone()).collect()
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Nothing was measured yet.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Once more, on disk if there is a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, experiment: &str, sample: Sample) -> Result<()> {
        let line = Line { experiment: experiment.to_owned(), sample };
        if let Some((_, file)) = &mut self.file {
            let text = serde_json::to_string(&line).map_err(|error| PgError::internal(error.to_string()))?;
            writeln!(file, "{text}")?;
        }
        self.known.push(line);
        Ok(())
    }

    /// What is known of an experiment and is so is of no use.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn forget(&mut self, experiment: &str, is_so: impl Fn(&Sample) -> bool) -> Result<()> {
        self.known.retain(|line| line.experiment != experiment || !is_so(&line.sample));
        if let Some((path, file)) = &mut self.file {
            let text = std::fs::read_to_string(&*path)?;
            let head = text.lines().next().unwrap_or_default();
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{head}")?;
            for line in &self.known {
                writeln!(
                    file,
                    "{}",
                    serde_json::to_string(line).map_err(|error| PgError::internal(error.to_string()))?
                )?;
            }
        }
        Ok(())
    }

    /// The report has all of it.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn close(self) -> Result<()> {
        match self.file {
            Some((path, _)) => Ok(std::fs::remove_file(path)?),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::result::{Readings, THIS};
    use super::*;

    fn sample(point: &str, round: usize) -> Sample {
        let readings = Readings::default().figure("tps", 0.1 + 0.2).line("rate", vec![(0.5, 7.0)]);
        Sample { point: point.to_owned(), build: THIS.to_owned(), round, seconds: 1.5, others_cores: 0.0, readings }
    }

    #[test]
    fn a_run_goes_on_where_it_was() {
        let dir = std::env::temp_dir().join(format!("bench-journal-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("r.steps");
        let mut journal = Journal::open(&path, "plan").unwrap();
        journal.add("a", sample("p", 1)).unwrap();
        journal.add("b", sample("q", 1)).unwrap();
        drop(journal);
        // A power cut in the middle of a line.
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"experiment\": \"a\", \"sam");
        std::fs::write(&path, text).unwrap();
        let mut journal = Journal::open(&path, "plan").unwrap();
        assert_eq!(journal.of("a"), [sample("p", 1)]);
        journal.add("a", sample("p", 2)).unwrap();
        drop(journal);
        assert!(Journal::open(&path, "another plan").is_err());
        let journal = Journal::open(&path, "plan").unwrap();
        assert_eq!((journal.of("a").len(), journal.len()), (2, 3));
        let mut journal = journal;
        journal.forget("a", |sample| sample.round == 2).unwrap();
        assert_eq!(journal.of("a"), [sample("p", 1)]);
        journal.forget("a", |_| true).unwrap();
        drop(journal);
        let journal = Journal::open(&path, "plan").unwrap();
        assert_eq!((journal.of("b").len(), journal.len()), (1, 1));
        journal.close().unwrap();
        assert!(!path.exists());
        std::fs::remove_dir(&dir).unwrap();
    }
}
