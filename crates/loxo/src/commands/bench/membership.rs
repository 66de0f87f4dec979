//! Datanodes that come to a local cluster and go, for `loxo bench grow`.

use std::path::{Path, PathBuf};

use bench::grow::Datanodes;
use cluster::{Config, Progress, local, membership};
use pgerror::Result;

/// Datanodes of a cluster on this machine.
pub(super) struct Here {
    dir: PathBuf,
}

impl Datanodes for Here {
    async fn add(&self) -> Result<(String, String)> {
        let added = local::node::add(&self.dir, None, &Progress::stderr()).await?;
        let uri = self.config()?.endpoint(&added.host, added.port)?.uri();
        Ok((added.name, uri))
    }

    async fn fill(&self) -> Result<()> {
        membership::rebalance(&self.config()?, membership::Extent::Buckets, "", &Progress::quiet()).await.map(drop)
    }

    async fn remove(&self, name: &str) -> Result<()> {
        let kept = local::node::remove(&self.dir, name, &Progress::quiet()).await?;
        // The benchmark has made the server, and its rows are elsewhere.
        kept.map_or(Ok(()), |kept| Ok(std::fs::remove_dir_all(kept)?))
    }
}

impl Here {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    fn config(&self) -> Result<Config> {
        Config::load(&self.dir.join("cluster.toml"))
    }
}
