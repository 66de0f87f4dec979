//! The directory that a cluster's processes of one host live in, and what these are.

use std::fmt;
use std::path::{Path, PathBuf};

/// What a process of the cluster is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Datanode,
    Gtm,
    Coordinator,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Datanode => "datanode",
            Kind::Gtm => "gtm",
            Kind::Coordinator => "coordinator",
        })
    }
}

/// One process (with its children) of the cluster.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Part {
    pub kind: Kind,
    pub name: String,
    pub port: u16,
}

/// Where each thing is.
#[derive(Clone, Debug)]
pub struct Directory {
    dir: PathBuf,
    config_file: PathBuf,
}

impl Directory {
    /// `dir` must be absolute. The configuration is a file in it.
    pub(crate) fn new(dir: &Path, config_file: &str) -> Self {
        Self { dir: dir.to_owned(), config_file: dir.join(config_file) }
    }

    /// The directory itself, absolute.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The configuration that gtms and coordinators read.
    pub fn config_file(&self) -> PathBuf {
        self.config_file.clone()
    }

    /// Data directory of a datanode.
    pub fn data_dir(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Where the processes' output goes.
    pub fn log_dir(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// Output of one process.
    pub fn log_file(&self, name: &str) -> PathBuf {
        self.log_dir().join(format!("{name}.log"))
    }
}
