//! What a statement under construction can name: columns of its own level, of outer levels, and CTEs.

use testkit::Rng;

use super::kind::{KINDS, Kind};
use super::world::World;

/// Something in FROM.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its alias.
    pub alias: String,
    /// Names and kinds of its columns.
    pub columns: Vec<(String, Kind)>,
    /// A column that tells its rows apart.
    pub id: Option<String>,
    /// It is a table, not a view, sub-select or function.
    pub is_table: bool,
}

/// A WITH query.
#[derive(Clone, Debug)]
pub struct Common {
    /// Its name.
    pub name: String,
    /// Names and kinds of its columns.
    pub columns: Vec<(String, Kind)>,
}

/// Makes one statement.
#[derive(Debug)]
pub struct Generator<'w> {
    /// The tables there are.
    pub world: &'w World,
    pub(super) rng: Rng,
    /// Sources of each query level, the innermost last.
    pub(super) levels: Vec<Vec<Source>>,
    pub(super) commons: Vec<Common>,
    names: usize,
    /// How many more sub-selects may come: keeps statements readable and joins small.
    pub(super) selects_left: usize,
}

impl<'w> Generator<'w> {
    /// For one statement.
    pub fn new(world: &'w World, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let selects_left = [0, 1, 2, 4, 6][rng.below(5)];
        Self { world, rng, levels: Vec::new(), commons: Vec::new(), names: 0, selects_left }
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.rng.one_in(n)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound)
    }

    pub(super) fn word(&mut self, words: &[&'static str]) -> &'static str {
        words[self.rng.below(words.len())]
    }

    pub(super) fn kind(&mut self) -> Kind {
        KINDS[self.rng.below(KINDS.len())]
    }

    /// A name that no other item of the statement has.
    pub(super) fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// True if another sub-select may come, which is then counted.
    pub(super) fn may_select(&mut self) -> bool {
        let may = self.selects_left > 0;
        self.selects_left -= usize::from(may);
        may
    }

    /// Qualified columns of a kind at the innermost level.
    pub(super) fn columns_here(&self, kind: Kind) -> Vec<String> {
        self.levels.last().map(|level| columns_of(level, kind)).unwrap_or_default()
    }

    /// A qualified column of a kind: mostly of the innermost level, now and then of an outer one.
    pub(super) fn column(&mut self, kind: Kind) -> Option<String> {
        let outer = self.levels.len() > 1 && self.one_in(4);
        let last = self.levels.len().checked_sub(1)?;
        let level = if outer { self.below(last) } else { last };
        let columns = columns_of(&self.levels[level], kind);
        (!columns.is_empty()).then(|| columns[self.rng.below(columns.len())].clone())
    }

    /// Any column of the innermost level, with its kind.
    pub(super) fn any_column(&mut self) -> Option<(String, Kind)> {
        let level = self.levels.last()?;
        let all: Vec<(String, Kind)> = level.iter().flat_map(qualified).collect();
        (!all.is_empty()).then(|| all[self.rng.below(all.len())].clone())
    }
}

/// Qualified columns of a kind.
pub(super) fn columns_of(sources: &[Source], kind: Kind) -> Vec<String> {
    sources.iter().flat_map(qualified).filter(|(_, other)| *other == kind).map(|(name, _)| name).collect()
}

/// All columns of a source, qualified.
pub(super) fn qualified(source: &Source) -> impl Iterator<Item = (String, Kind)> + '_ {
    source.columns.iter().map(|(name, kind)| (format!("{}.{name}", source.alias), *kind))
}
