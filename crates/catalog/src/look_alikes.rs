//! Names that both an object of PostgreSQL's and one of a user's have.

use std::collections::HashSet;

/// See the module's page.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct LookAlikes {
    pub functions: HashSet<String>,
    pub operators: HashSet<String>,
    pub types: HashSet<String>,
    /// Users' operators of these that views use, written or not (`USING`).
    pub operators_in_views: HashSet<String>,
}

impl LookAlikes {
    /// Notes a name of a `f`unction, an `o`perator, one in a `v`iew, or a type.
    pub fn add(&mut self, kind: char, name: &str) {
        let names = match kind {
            'f' => &mut self.functions,
            'o' => &mut self.operators,
            'v' => &mut self.operators_in_views,
            _ => &mut self.types,
        };
        names.insert(name.to_owned());
    }

    /// All of them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        [&self.functions, &self.operators, &self.types].into_iter().flatten().map(String::as_str)
    }
}
