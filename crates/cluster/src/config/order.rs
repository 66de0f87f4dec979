//! Which datanode of the file has which id: the metadata of a running cluster know it by the datanode's name, so the order of the
//! file's lines counts for `loxo init` only.

use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pgerror::Result;
use tokio::time::timeout;

use super::{Config, Datanode};
use crate::sql::Session;

/// Longest wait for a datanode that says how they are numbered. Without an answer the file's order counts, and whoever connects to a
/// datanode checks which one it is.
const ANSWER_MAX: Duration = Duration::from_secs(5);

const MEMBERS_SQL: &str = "SELECT n.name, n.id, n.is_primary, i.cluster_id FROM loxo.node AS n, loxo.identity AS i \
                           WHERE n.type = 'D'";

/// A datanode, as the metadata have it.
struct Known {
    name: String,
    id: u16,
    is_primary: bool,
}

impl Config {
    /// [`Config::load`]; datanodes without an `id` in the file have the one of the metadata, if a datanode can be asked.
    pub async fn load_numbered(path: &Path) -> Result<Self> {
        let mut config = Self::load(path)?;
        let known = timeout(ANSWER_MAX, config.known_datanodes()).await.unwrap_or_default();
        let lists_primary =
            config.datanodes.iter().any(|node| known.iter().any(|k| k.is_primary && k.name == node.name));
        if !lists_primary || config.datanodes.iter().any(|node| node.id.is_some()) {
            return Ok(config);
        }
        // Behind them come those that are still to be added.
        let mut next = known.iter().map(|known| known.id.saturating_add(1)).max().unwrap_or(0);
        for node in &mut config.datanodes {
            let known = known.iter().find(|known| known.name == node.name);
            (node.id, node.primary) = match known {
                Some(known) => (Some(known.id), known.is_primary),
                None => (Some(next), false),
            };
            next = next.saturating_add(u16::from(known.is_none()));
        }
        config.datanodes.sort_by_key(|node| node.id);
        config.validate()?;
        Ok(config)
    }

    /// The answer of the first that has one; empty before `loxo init`.
    async fn known_datanodes(&self) -> Vec<Known> {
        let mut answers: FuturesUnordered<_> = self.datanodes.iter().map(|node| self.ask(node)).collect();
        while let Some(answer) = answers.next().await {
            if let Some(known) = answer {
                return known;
            }
        }
        Vec::new()
    }

    /// `None`: it does not answer, has no metadata, or those of another cluster.
    async fn ask(&self, node: &Datanode) -> Option<Vec<Known>> {
        let endpoint = self.endpoint(&node.host, node.port).ok()?;
        let rows = Session::connect(&endpoint).await.ok()?.rows(MEMBERS_SQL).await.ok()?;
        let known = |row: Vec<Option<String>>| {
            let [name, id, is_primary, cluster] = <[Option<String>; 4]>::try_from(row).ok()?;
            let is_ours = self.cluster.id.as_ref().is_none_or(|own| cluster.as_ref() == Some(own));
            is_ours.then_some(())?;
            Some(Known { name: name?, id: id?.parse().ok()?, is_primary: is_primary? == "t" })
        };
        rows.into_iter().map(known).collect()
    }

    /// The primary datanode comes first, as it does in every cluster that `loxo init` makes.
    pub(super) fn put_primary_first(&mut self) {
        match self.datanodes.iter().position(|node| node.primary) {
            Some(place) => self.datanodes[..=place].rotate_right(1),
            None => {
                if let Some(first) = self.datanodes.first_mut() {
                    first.primary = true;
                }
            }
        }
    }
}
