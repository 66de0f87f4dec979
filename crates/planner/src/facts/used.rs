//! Which tables a statement may use, by itself or by way of views and functions: for callers that ask whether one of them matters.

use std::collections::HashSet;

use catalog::{Catalog, Function, Oid, Relation};
use pg_query::NodeEnum;

use crate::parse::{CopySubject, Statement, StatementKind, bodies::statements_of, parse};
use crate::tree::{Ask, Ref, Walk, is_about_rows, is_temporary_schema, qualified};

/// Names in statements.
#[derive(Default)]
struct Names {
    /// Schema, if one is written, and name of tables and views.
    tables: HashSet<(Option<String>, String)>,
    /// Names of functions that are called.
    calls: HashSet<String>,
    /// Something is not to be read.
    hidden: bool,
}

/// May the text, under this search path (`None`: any), use this table, by its own name, that of a table above it, or through a view or a function? What
/// a function computes the text of is left out: no node runs that as a part of the statement.
pub fn may_use(sql: &str, relation: &Relation, catalog: &Catalog, path: Option<&[String]>) -> bool {
    reach((Names::of(sql), path), Vec::new(), relation, catalog) == Some(true)
}

/// May the function use this table? In doubt it may.
pub(crate) fn function_may_use(function: &Function, relation: &Relation, catalog: &Catalog) -> bool {
    reach((Names::default(), None), vec![function], relation, catalog) != Some(false)
}

/// Where bare names are looked up; `None`: in any schema. The path of a function's body is nobody's to say before it runs.
type Path<'p> = Option<&'p [String]>;

/// `None`: not as far as it can be read.
fn reach<'c>(
    names: (Names, Path<'_>),
    mut functions: Vec<&'c Function>,
    relation: &Relation,
    catalog: &'c Catalog,
) -> Option<bool> {
    let mut seen: HashSet<Oid> = functions.iter().map(|function| function.oid).collect();
    let (mut pending, mut hidden) = (vec![names], false);
    loop {
        while let Some((names, path)) = pending.pop() {
            if names.reach(relation, catalog, path) {
                return Some(true);
            }
            hidden |= names.hidden;
            for view in catalog.relations().filter(|view| names.has(view, catalog, path) && seen.insert(view.oid)) {
                pending.extend(view.view_definition.as_deref().map(|definition| (Names::of(definition), None)));
            }
            let called = catalog.all_functions().filter(|function| names.calls.contains(&function.name));
            functions.extend(called.filter(|function| seen.insert(function.oid)));
        }
        match functions.pop() {
            Some(function) => {
                let mut names = Names::default();
                names.body(&function.language, &function.definition);
                pending.push((names, None));
            }
            None if hidden => return None,
            None => return Some(false),
        }
    }
}

impl Names {
    fn of(sql: &str) -> Self {
        let mut names = Names::default();
        match parse(sql) {
            Ok(statements) => statements.iter().for_each(|statement| names.statement(statement)),
            Err(_) => names.hidden = true,
        }
        names
    }

    fn body(&mut self, language: &str, definition: &str) {
        match statements_of(language, definition) {
            Some(statements) => statements.iter().for_each(|statement| self.tree(statement)),
            // Libraries that read tables are refused where they are called.
            None => self.hidden |= !["c", "internal"].contains(&language),
        }
    }

    fn statement(&mut self, statement: &Statement) {
        if let Some(query) = statement.query_tree().filter(|query| is_about_rows(query)) {
            return self.tree(query);
        }
        match (&statement.kind, statement.node()) {
            (StatementKind::Redistribute(moved), _) => {
                self.tables.insert((moved.schema.clone(), moved.name.clone()));
            }
            (StatementKind::Copy(copy), _) => {
                if let CopySubject::Relation { schema, name, .. } = &copy.subject {
                    self.tables.insert((schema.clone(), name.clone()));
                }
            }
            (StatementKind::Do, _) => self.body("plpgsql", &statement.sql),
            (_, Some(NodeEnum::CallStmt(call))) => call.funccall.iter().for_each(|call| self.tree(call.as_ref())),
            (_, Some(_)) => self.utility(&statement.node_sql),
            // A command of the cluster's own names no table.
            (_, None) => {}
        }
    }

    fn tree(&mut self, tree: &impl Walk) {
        let walked = tree.each(|part| match part {
            Ref::RangeVar(table) => {
                let schema = (!table.schemaname.is_empty()).then(|| table.schemaname.clone());
                self.tables.insert((schema, table.relname.clone()));
            }
            Ref::FuncCall(call) => {
                let (schema, name) = qualified(&call.funcname);
                self.calls.insert(name.to_owned());
                // The catalog does not have it.
                self.hidden |= schema.is_some_and(is_temporary_schema);
            }
            _ => {}
        });
        // An operator, a cast or a default may call any function, but none of them names a table here.
        self.hidden |= walked.is_err();
    }

    /// Notes what a statement uses whose tree is not walked here.
    fn utility(&mut self, sql: &str) {
        let Ok(parsed) = pg_query::parse(sql, 0) else {
            self.hidden = true;
            return;
        };
        let parts = |name: &String| match name.split_once('.') {
            Some((schema, name)) => (Some(schema.to_owned()), name.to_owned()),
            None => (None, name.clone()),
        };
        self.tables.extend(parsed.tables().iter().map(parts));
        self.calls.extend(parsed.functions().iter().map(|name| parts(name).1));
    }

    fn has(&self, relation: &Relation, catalog: &Catalog, path: Path<'_>) -> bool {
        let is_there = |schema: Option<String>| self.tables.contains(&(schema, relation.name.clone()));
        let found = |path: &[String]| path.iter().find_map(|schema| catalog.relation(schema, &relation.name));
        is_there(Some(relation.schema.clone()))
            || is_there(None) && path.is_none_or(|path| found(path).is_some_and(|found| found.oid == relation.oid))
    }

    /// The table itself or one above it.
    fn reach(&self, relation: &Relation, catalog: &Catalog, path: Path<'_>) -> bool {
        let mut above = relation.parents.iter().filter_map(|parent| catalog.relation_by_oid(*parent));
        self.has(relation, catalog, path) || above.any(|parent| self.reach(parent, catalog, path))
    }
}
