//! What rules make of a change: see [`rewrite::rules`](crate::rewrite::rules).

use catalog::Oid;

use crate::parse::Statement;

/// What rules made of a change.
#[derive(Clone, Debug)]
pub struct Rewritten {
    /// In the order in which they run.
    pub steps: Vec<Step>,
    /// The answer if no step gives one.
    pub tag: &'static str,
    /// The statement itself is not among the steps: nobody has looked whether the user may run it.
    pub checks_rights: bool,
    /// What the owners of the tables and views that have the rules need rights for.
    pub of_owners: Vec<OfOwner>,
}

/// One of the statements.
#[derive(Clone, Debug)]
pub struct Step {
    /// No rule is to be looked for any more.
    pub statement: Statement,
    /// Its rows and its tag are the client's.
    pub answers: bool,
}

/// What a rule does with a table or view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfOwner {
    /// The relation whose owner needs the rights.
    pub relation: Oid,
    /// Its name, for messages.
    pub name: String,
    /// On which.
    pub on: Oid,
    /// `SELECT`, `INSERT`, ….
    pub rights: Vec<&'static str>,
    /// Policies say which rows are there.
    pub has_policies: bool,
}
