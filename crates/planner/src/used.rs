//! Which tables a text may use, by its own words or by way of views and functions: for who asks whether one of them matters.

use std::collections::HashSet;

use catalog::{Catalog, Relation};

use crate::parse;
use crate::tree::{Ref, Walk, text_of};

/// Names in texts.
#[derive(Default)]
struct Names {
    /// Schema, if one is written, and name of tables and views.
    tables: HashSet<(Option<String>, String)>,
    /// Names of functions that are called.
    calls: HashSet<String>,
}

/// May the text use this table, by its own name, that of a table above it, or through a view or a function? In the body of a function
/// every word may be a name.
pub fn may_use(sql: &str, relation: &Relation, catalog: &Catalog) -> bool {
    let mut seen = HashSet::new();
    let mut texts: Vec<Names> = vec![Names::of(sql)];
    while let Some(names) = texts.pop() {
        if names.reach(relation, catalog) {
            return true;
        }
        for view in catalog.relations().filter(|view| names.has(view) && seen.insert(view.oid)) {
            texts.extend(view.view_definition.as_deref().map(Names::of));
        }
        let called = catalog.all_functions().filter(|function| names.calls.contains(&function.name));
        let called: Vec<_> = called.filter(|function| seen.insert(function.oid)).collect();
        texts.extend(called.into_iter().map(|function| Names::of_words(&function.definition)));
    }
    false
}

impl Names {
    fn of(sql: &str) -> Self {
        let mut names = Names::default();
        let Ok(statements) = parse(sql) else { return Self::of_words(sql) };
        for statement in &statements {
            let Some(node) = statement.node() else { return Self::of_words(sql) };
            let walked = node.walk(&mut |part| {
                match part {
                    Ref::RangeVar(table) => {
                        let schema = (!table.schemaname.is_empty()).then(|| table.schemaname.clone());
                        names.tables.insert((schema, table.relname.clone()));
                    }
                    Ref::FuncCall(call) => {
                        names.calls.extend(call.funcname.last().and_then(text_of).map(str::to_owned));
                    }
                    _ => {}
                }
                Ok(true)
            });
            // An operator, a cast or a default may call any function, but none of them names a table here.
            if walked.is_err() {
                return Self::of_words(sql);
            }
        }
        names
    }

    /// Every word of a text that is not SQL, or no plain query.
    fn of_words(text: &str) -> Self {
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
        let plain = text.split(|c: char| !is_part(c)).filter(|word| !word.is_empty()).map(str::to_lowercase);
        let quoted = text.split('"').map(str::to_owned);
        let words: HashSet<String> = plain.chain(quoted).collect();
        Self { tables: words.iter().map(|word| (None, word.clone())).collect(), calls: words }
    }

    fn has(&self, relation: &Relation) -> bool {
        let with = |schema: Option<String>| self.tables.contains(&(schema, relation.name.clone()));
        with(None) || with(Some(relation.schema.clone()))
    }

    /// The table itself or one above it.
    fn reach(&self, relation: &Relation, catalog: &Catalog) -> bool {
        let above = relation.parents.iter().filter_map(|parent| catalog.relation_by_oid(*parent));
        self.has(relation) || above.into_iter().any(|parent| self.reach(parent, catalog))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_words_in_their_places() {
        let names = Names::of("SELECT t.a AS orders, f(1) FROM s.items AS t WHERE note = 'lines'");
        assert_eq!(names.tables, HashSet::from([(Some("s".to_owned()), "items".to_owned())]));
        assert_eq!(names.calls, HashSet::from(["f".to_owned()]));
        let words = Names::of_words("BEGIN PERFORM g(x) FROM Items, \"Odd name\"; END");
        assert!(words.calls.contains("g") && words.tables.contains(&(None, "items".to_owned())));
        assert!(words.tables.contains(&(None, "Odd name".to_owned())));
    }
}
