//! Names that both an object of PostgreSQL's and one of a user's have.

use std::collections::HashSet;

use crate::Oid;

/// See the module's page.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct LookAlikes {
    pub functions: HashSet<String>,
    pub operators: HashSet<String>,
    pub types: HashSet<String>,
    /// Views that use a user's operator `=`, or read another that does.
    pub views: HashSet<Oid>,
    /// Views in whose text a user's operator may have no place: see [`Relation::hides_operator`](crate::Relation).
    pub hiding: HashSet<Oid>,
}

impl LookAlikes {
    /// Notes a name of a `f`unction, an `o`perator or a type.
    pub fn add(&mut self, kind: char, name: &str) {
        let names = match kind {
            'f' => &mut self.functions,
            'o' => &mut self.operators,
            _ => &mut self.types,
        };
        names.insert(name.to_owned());
    }

    /// All of them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        [&self.functions, &self.operators, &self.types].into_iter().flatten().map(String::as_str)
    }
}
