//! Fragments whose few rows have travelled in parameters: what was asked about them is kept for a while, for all sessions.
//!
//! An old estimate makes a statement slower, never wrong: where more rows come than were expected, temp tables take their place.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pgproto::backend::Field;
use planner::Expected;

use crate::shared::search_paths;

/// Tables grow and are analysed without anybody telling us. A session that is told too little finds out as the rows come.
const AGE_MAX: Duration = Duration::from_secs(60);

const FRAGMENTS_MAX: usize = 2_000;

/// What makes a fragment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FragmentKey {
    pub(crate) sql: String,
    /// Those of its parameters that are declared.
    pub(crate) types: Vec<u32>,
    /// What names in it depend on.
    pub(crate) path: search_paths::Key,
}

/// What a node has said of it.
#[derive(Debug)]
pub(crate) struct Fragment {
    pub(crate) fields: Vec<Field>,
    /// As SQL, of each column; empty as long as nobody has asked.
    pub(crate) types: Vec<String>,
    pub(crate) expected: Option<Expected>,
}

/// See the module's page.
#[derive(Default)]
pub(crate) struct FewRows(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    schema_version: u64,
    fragments: HashMap<FragmentKey, (Instant, Arc<Fragment>)>,
}

impl FewRows {
    /// All of these, if all are known.
    pub(crate) fn known(&self, keys: &[FragmentKey], schema_version: u64) -> Option<Vec<Arc<Fragment>>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |key| {
            let (since, fragment) = kept.fragments.get(key)?;
            (since.elapsed() < AGE_MAX).then(|| fragment.clone())
        };
        if kept.schema_version == schema_version { keys.iter().map(known).collect() } else { None }
    }

    pub(crate) fn keep(&self, fragments: impl IntoIterator<Item = (FragmentKey, Arc<Fragment>)>, schema_version: u64) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.schema_version != schema_version || kept.fragments.len() > FRAGMENTS_MAX {
            *kept = Kept { schema_version, fragments: HashMap::new() };
        }
        let now = Instant::now();
        kept.fragments.extend(fragments.into_iter().map(|(key, fragment)| (key, (now, fragment))));
    }

    /// More rows have come than were expected.
    pub(crate) fn forget(&self, keys: &[FragmentKey]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter().for_each(|key| drop(kept.fragments.remove(key)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_known_together_and_under_one_schema() {
        let few = FewRows::default();
        let path = search_paths::Key { user: "u".to_owned(), login: 0, settings: 0 };
        let key = |sql: &str| FragmentKey { sql: sql.to_owned(), types: vec![23], path: path.clone() };
        let fragment = || Arc::new(Fragment { fields: Vec::new(), types: Vec::new(), expected: None });
        few.keep([(key("a"), fragment()), (key("b"), fragment())], 1);
        assert_eq!(few.known(&[key("a"), key("b")], 1).map(|all| all.len()), Some(2));
        assert!(few.known(&[key("a")], 2).is_none() && few.known(&[key("a"), key("c")], 1).is_none());
        few.forget(&[key("a")]);
        assert!(few.known(&[key("a")], 1).is_none() && few.known(&[key("b")], 1).is_some());
        few.keep([(key("c"), fragment())], 2);
        assert!(few.known(&[key("b")], 1).is_none() && few.known(&[key("c")], 2).is_some());
    }
}
