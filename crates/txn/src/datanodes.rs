//! The datanodes of the cluster and how they are reached.

use std::collections::BTreeMap;

use pgproto::ConnectOptions;

/// A database of the cluster beside the first one. Of one that was dropped and made again the id is another.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs)]
pub struct Database {
    pub name: String,
    /// As `loxo.database` in the first one has it, and `loxo.identity` in this one on each datanode for its cluster's id.
    pub id: String,
}

impl Database {
    /// The database of this name and id.
    pub fn new(name: impl Into<String>, id: impl Into<String>) -> Self {
        Self { name: name.into(), id: id.into() }
    }
}

/// Datanodes by their ids. An id stands for one server for ever, so there are holes where datanodes were removed.
#[derive(Clone, Debug, Default)]
pub struct Datanodes(BTreeMap<u16, ConnectOptions>);

impl Datanodes {
    /// How to reach this one.
    pub fn get(&self, id: u16) -> Option<&ConnectOptions> {
        self.0.get(&id)
    }

    /// All of them, in the order of their ids.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u16, &ConnectOptions)> {
        self.0.iter().map(|(id, options)| (*id, options))
    }

    /// These servers, in another database.
    #[must_use]
    pub fn in_database(&self, database: &str) -> Self {
        let there = |options: &ConnectOptions| ConnectOptions { database: database.to_owned(), ..options.clone() };
        self.iter().map(|(id, options)| (id, there(options))).collect()
    }

    /// Are they the same, at the same addresses?
    pub(crate) fn are(&self, others: &Self) -> bool {
        let addresses = |datanodes: &Self| -> Vec<(u16, String, u16)> {
            datanodes.iter().map(|(id, options)| (id, options.host.clone(), options.port)).collect()
        };
        addresses(self) == addresses(others)
    }

    /// The primary datanode: the lowest id, because it is the first in every configuration and never removed.
    pub fn primary(&self) -> Option<&ConnectOptions> {
        self.0.values().next()
    }
}

impl FromIterator<(u16, ConnectOptions)> for Datanodes {
    fn from_iter<I: IntoIterator<Item = (u16, ConnectOptions)>>(datanodes: I) -> Self {
        Self(datanodes.into_iter().collect())
    }
}
