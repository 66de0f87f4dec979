//! What a statement may leave in the backends that run it: settings, the values of sequences, locks, temporary objects.
//!
//! A backend serves many sessions, so one that may hold something of its last session must not get to the next as it is. That
//! follows from the code that a statement may reach, and from nothing else: a function of PostgreSQL's own by what `pg_proc`
//! says of it, one in C by its author's word (PARALLEL SAFE: it touches nothing of the session), one in SQL or PL/pgSQL
//! by its body, and what nobody can read by the worst that it could do.
//!
//! Names are not resolved here: a name stands for all that it could mean. What a table's triggers, defaults, constraints and
//! policies call counts for every statement that names the table; what operators, casts and types call, for all statements.

use std::collections::HashSet;

use catalog::{BuiltinFunction, Catalog, Function, Generated, Leavings, Meaning, Oid, Relation};
use pg_query::protobuf::{
    CopyStmt, FuncCall, InsertStmt, RangeVar, ResTarget, SelectStmt, VariableSetKind, VariableSetStmt,
};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use crate::facts::bodies::statements_of;
use crate::facts::builtins::{Class, class_of};
use crate::facts::setting_calls::constant_name;
use crate::parse::{Asked, Statement, StatementKind, asks_cluster};
use crate::tree::{self, Ask, Get, Ref, Walk};

/// What the statement itself and all code that it reaches may leave.
pub fn leavings(statement: &Statement, catalog: &Catalog) -> Leavings {
    use StatementKind as Kind;
    let mut search = Search::new(catalog);
    search.found.add(catalog.unnamed_leavings(|| of_unnamed(catalog)));
    match (&statement.kind, statement.node()) {
        (Kind::Select | Kind::Insert | Kind::Update | Kind::Delete | Kind::Merge | Kind::Copy(_), Some(tree)) => {
            search.statement(tree);
        }
        (Kind::Explain(explain), _) => return leavings(&explain.inner, catalog),
        (Kind::DeclareCursor(declare), _) => return leavings(&declare.inner, catalog),
        (Kind::Call, Some(NodeEnum::CallStmt(call))) => {
            call.funccall.iter().for_each(|call| search.tree(call.as_ref()));
        }
        (Kind::Do, _) => search.body("plpgsql", &statement.sql),
        // A cursor's query counts where it is declared.
        (kind, _) if kind.is_sessions_own() && !matches!(kind, Kind::Execute { .. }) => {}
        (Kind::Lock, _) => {}
        // A schema change computes defaults and constraints, and event triggers may hang on it.
        _ => search.found.add(&Leavings::told()),
    }
    search.found
}

fn of_unnamed(catalog: &Catalog) -> Leavings {
    let mut search = Search::new(catalog);
    let functions = catalog.all_functions().filter(|function| catalog.unnamed_functions().contains(&function.oid));
    functions.for_each(|function| search.function(function));
    search.found
}

fn of_function(function: &Function, catalog: &Catalog) -> Leavings {
    let mut search = Search { is_nested: true, ..Search::new(catalog) };
    search.function(function);
    search.found
}

struct Search<'a> {
    catalog: &'a Catalog,
    found: Leavings,
    functions: HashSet<Oid>,
    relations: HashSet<Oid>,
    /// The code of a function is searched: those that call each other have no verdict yet.
    is_nested: bool,
}

impl<'a> Search<'a> {
    fn new(catalog: &'a Catalog) -> Self {
        Self {
            catalog,
            found: Leavings::default(),
            functions: HashSet::new(),
            relations: HashSet::new(),
            is_nested: false,
        }
    }

    /// A statement as it was parsed.
    fn statement(&mut self, statement: &NodeEnum) {
        match statement {
            statement if tree::is_about_rows(statement) => self.tree(statement),
            NodeEnum::CopyStmt(copy) => self.copy(copy),
            NodeEnum::VariableSetStmt(set) => self.set(set),
            NodeEnum::NotifyStmt(_) => self.found.notifies = true,
            NodeEnum::CallStmt(call) => call.funccall.iter().for_each(|call| self.tree(call.as_ref())),
            // In a function's body: a temporary table, PREPARE, LISTEN, a cursor, a schema change, …
            _ => self.found.add(&Leavings { any_setting: true, ..Leavings::told() }),
        }
    }

    fn tree(&mut self, tree: &impl Walk) {
        if self.walk(tree).is_err() {
            self.found.add(&Leavings::anything());
        }
    }

    fn walk(&mut self, tree: &impl Walk) -> Result<()> {
        let (mut changes, mut defaults) = (false, false);
        tree.each(|node| {
            changes |= matches!(node, Ref::InsertStmt(_) | Ref::UpdateStmt(_) | Ref::DeleteStmt(_) | Ref::MergeStmt(_));
            defaults |= matches!(node, Ref::SetToDefault(_) | Ref::MergeStmt(_));
        })?;
        tree.each(|node| match node {
            Ref::FuncCall(call) => self.call(call),
            // `x.f` may be `f(x)`.
            Ref::ColumnRef(column) => self.attributes(&column.fields),
            Ref::AIndirection(part) => self.attributes(&part.indirection),
            Ref::RangeVar(name) => self.relations(name, changes, defaults),
            Ref::InsertStmt(insert) => self.insert(insert),
            _ => {}
        })
    }

    fn attributes(&mut self, names: &[Node]) {
        let catalog = self.catalog;
        for name in names.iter().filter_map(tree::text_of) {
            catalog.functions(name).iter().for_each(|function| self.function(function));
        }
    }

    fn call(&mut self, call: &FuncCall) {
        let Some(name) = tree::last_name(&call.funcname) else { return };
        if let Some(asked) = asks_cluster(call) {
            self.found.asks_sessions |= asked != Asked::Sizes;
            self.found.asks_locks |= asked == Asked::Locks;
            self.found.asks_sizes |= asked == Asked::Sizes;
        }
        let catalog = self.catalog;
        catalog.functions(name).iter().for_each(|function| self.function(function));
        let schema = if call.funcname.len() > 1 { tree::text_of(&call.funcname[0]) } else { None };
        if schema.is_none_or(|schema| schema == "pg_catalog") {
            let functions = catalog.builtins().functions(name).iter();
            functions.for_each(|function| self.system_function(call, function));
        }
    }

    fn system_function(&mut self, call: &FuncCall, function: &BuiltinFunction) {
        let class = class_of(self.catalog.builtins(), function);
        // What some take from the session is another value each time.
        if function.volatility != 'v' || function.parallel == 's' || class == Class::Volatile {
            return;
        }
        match function.meaning {
            Some(Meaning::SetConfig) => self.set_config(call),
            Some(Meaning::Notify) => self.found.notifies = true,
            Some(Meaning::NextValue | Meaning::SetValue) => self.found.drawn = true,
            Some(Meaning::LastValue) => self.found.reads_drawn = true,
            Some(Meaning::Seed) => self.found.at_home = true,
            Some(Meaning::Text) => {}
            _ if function.parallel == 'u' => self.found.at_home = true,
            _ => self.found.told = true,
        }
    }

    fn set_config(&mut self, call: &FuncCall) {
        match constant_name(call) {
            Some(name) => drop(self.found.settings.insert(name)),
            None => self.found.any_setting = true,
        }
    }

    /// SET and RESET in a body.
    fn set(&mut self, set: &VariableSetStmt) {
        match set.kind() {
            // SET TRANSACTION and its kin.
            VariableSetKind::VarSetMulti | VariableSetKind::VarResetAll => self.found.any_setting = true,
            _ => drop(self.found.settings.insert(set.name.to_ascii_lowercase())),
        }
    }

    fn function(&mut self, function: &Function) {
        if !self.functions.insert(function.oid) {
            return;
        }
        let catalog = self.catalog;
        match self.is_nested {
            true => self.code(function),
            false => self.found.add(function.leavings.get_or_init(|| of_function(function, catalog))),
        }
    }

    fn code(&mut self, function: &Function) {
        let catalog = self.catalog;
        if function.kind == 'a' {
            catalog.functions_by_oid(&function.parts).for_each(|part| self.function(part));
        }
        match function.language.as_str() {
            _ if function.kind == 'a' => {}
            "c" | "internal" if function.is_parallel_safe || function.volatility != 'v' => {}
            language => self.body(language, &function.definition),
        }
    }

    fn body(&mut self, language: &str, definition: &str) {
        match statements_of(language, definition) {
            Some(statements) => statements.iter().for_each(|statement| self.statement(statement)),
            None => self.found.add(&Leavings::anything()),
        }
    }

    fn copy(&mut self, copy: &CopyStmt) {
        match (&copy.relation, &copy.query) {
            (_, Some(query)) => self.tree(query.as_ref()),
            (Some(name), None) => {
                self.relations(name, copy.is_from, false);
                let given: HashSet<&str> = copy.attlist.iter().filter_map(tree::text_of).collect();
                if copy.is_from && !given.is_empty() {
                    self.defaults(name, |column| !given.contains(column));
                }
            }
            (None, None) => {}
        }
    }

    /// What an INSERT leaves out gets its default.
    fn insert(&mut self, insert: &InsertStmt) {
        let Some(name) = &insert.relation else { return };
        let named: Vec<&str> = insert
            .cols
            .iter()
            .filter_map(|column| column.get::<ResTarget>().map(|target| target.name.as_str()))
            .collect();
        let width = insert.select_stmt.as_ref().and_then(|select| width(select));
        let catalog = self.catalog;
        for relation in named_relations(catalog, name) {
            // Values without names are those of the first columns.
            let given: HashSet<&str> = match (named.is_empty(), width) {
                (false, _) => named.iter().copied().collect(),
                (true, Some(width)) => relation.columns.iter().take(width).map(|c| c.name.as_str()).collect(),
                (true, None) => HashSet::new(),
            };
            self.defaults_of(relation, |column| !given.contains(column));
        }
    }

    fn defaults(&mut self, name: &RangeVar, wanted: impl Fn(&str) -> bool) {
        let catalog = self.catalog;
        named_relations(catalog, name).for_each(|relation| self.defaults_of(relation, &wanted));
    }

    fn defaults_of(&mut self, relation: &Relation, wanted: impl Fn(&str) -> bool) {
        for column in relation.columns.iter().filter(|column| wanted(&column.name)) {
            self.found.drawn |= matches!(column.generated, Generated::IdentityAlways | Generated::IdentityByDefault);
            let Some(default) = &column.default else { continue };
            match tree::parse_select(&format!("SELECT {default}")) {
                Ok(select) => self.tree(&select),
                Err(_) => self.found.add(&Leavings::anything()),
            }
        }
    }

    fn relations(&mut self, name: &RangeVar, changes: bool, defaults: bool) {
        let catalog = self.catalog;
        for relation in named_relations(catalog, name) {
            if defaults {
                self.defaults_of(relation, |_| true);
            }
            if self.relations.insert(relation.oid) {
                self.relation(relation, changes);
            }
        }
    }

    fn relation(&mut self, relation: &Relation, changes: bool) {
        let catalog = self.catalog;
        if let Some(code) = &relation.code {
            let (policies, others) = (&code.policies, [&code.triggers, &code.expressions]);
            let called = others.into_iter().filter(|_| changes).chain([policies]).flatten();
            let called: HashSet<Oid> = called.copied().collect();
            let functions = catalog.all_functions().filter(|function| called.contains(&function.oid));
            functions.for_each(|function| self.function(function));
        }
        // A change of a view changes what is below it; what a rule makes of a change is planned by itself.
        if let Some(definition) = &relation.view_definition {
            match tree::parse_select(definition) {
                Ok(select) if !changes => self.tree(&select),
                Ok(select) => self.changed_view(&select),
                Err(_) => self.found.add(&Leavings::anything()),
            }
        }
    }

    fn changed_view(&mut self, select: &impl Walk) {
        self.tree(select);
        let walked = select.each(|node| {
            if let Ref::RangeVar(name) = node {
                let catalog = self.catalog;
                for relation in named_relations(catalog, name) {
                    self.defaults_of(relation, |_| true);
                    self.relation_below(relation);
                }
            }
        });
        debug_assert!(walked.is_ok());
    }

    fn relation_below(&mut self, relation: &Relation) {
        match &relation.view_definition {
            None => self.relation(relation, true),
            Some(_) if self.relations.insert(relation.oid) => self.relation(relation, true),
            Some(_) => {}
        }
    }
}

fn named_relations<'c>(catalog: &'c Catalog, name: &'c RangeVar) -> impl Iterator<Item = &'c Relation> {
    let schema = name.schemaname.as_str();
    let named = catalog.relations_named(&name.relname);
    named.filter(move |relation| schema.is_empty() || relation.schema == schema).map(|relation| relation.as_ref())
}

/// How many columns a query has, if it is VALUES or says so in its select list.
fn width(query: &Node) -> Option<usize> {
    let select = query.get::<SelectStmt>()?;
    if let Some(Node { node: Some(NodeEnum::List(row)) }) = select.values_lists.first() {
        return Some(row.items.len());
    }
    let has_star = select.target_list.may_have(|node| matches!(node, Ref::AStar(_)));
    let counted = !has_star && select.larg.is_none() && !select.target_list.is_empty();
    counted.then_some(select.target_list.len())
}

#[cfg(test)]
mod tests {
    use catalog::Builder;

    use super::*;

    fn catalog(functions: &[(&str, &str, &str)]) -> Catalog {
        let mut builder = Builder::new(1, 150_000);
        let builtins = catalog::Builtins::from_lines(include_str!("../../tests/common/builtins.tsv")).unwrap();
        builder.builtins(builtins.into());
        for (number, (name, language, body)) in functions.iter().enumerate() {
            builder.function(Function {
                oid: 16384 + number as Oid,
                schema: "public".into(),
                name: (*name).into(),
                language: (*language).into(),
                volatility: 'v',
                kind: 'f',
                is_public: true,
                definition: format!(
                    "CREATE FUNCTION public.{name}() RETURNS int LANGUAGE {language} AS $function${body}$function$"
                ),
                parts: Vec::new(),
                is_parallel_safe: false,
                is_trigger: false,
                sets_path: false,
                arguments: (0, None),
                leavings: Default::default(),
            });
        }
        builder.build()
    }

    fn left(sql: &str, functions: &[(&str, &str, &str)]) -> Leavings {
        leavings(&crate::parse(sql).unwrap()[0], &catalog(functions))
    }

    #[test]
    fn words_in_literals_and_names_are_nothing() {
        for sql in [
            "SELECT 'pg_advisory_lock(1)', 'nextval'",
            "SELECT nextval FROM t WHERE pg_advisory_lock = 1",
            "SELECT max(random()) FROM t",
            "BEGIN",
        ] {
            assert!(left(sql, &[]).is_nothing(), "{sql}");
        }
    }

    #[test]
    fn calls_are_found_wherever_they_stand() {
        assert!(left("SELECT (SELECT nextval('s'))", &[]).drawn);
        assert!(left("WITH a AS (SELECT pg_catalog.pg_advisory_lock(1)) SELECT * FROM a", &[]).told);
        assert!(left("SELECT pg_notify('a', 'b')", &[]).notifies);
        let set = left("SELECT set_config('App.X'::text, v, true) FROM t", &[]);
        assert_eq!(set.settings.iter().collect::<Vec<_>>(), ["app.x"]);
        assert!(left("SELECT set_config(name, v, true) FROM t", &[]).any_setting);
    }

    #[test]
    fn functions_are_what_their_bodies_are() {
        let functions = [
            ("plain", "sql", "SELECT 1"),
            ("sets", "plpgsql", "BEGIN SET LOCAL app.y = 1; PERFORM set_config('app.x', '1', false); RETURN 1; END"),
            ("outer_one", "plpgsql", "BEGIN RETURN sets() + inner_one(); END"),
            ("inner_one", "plpgsql", "BEGIN RETURN outer_one(); END"),
            ("makes", "sql", "CREATE TEMP TABLE x(); SELECT 1"),
            ("runs", "plpgsql", "BEGIN EXECUTE 'SELECT 1'; RETURN 1; END"),
            ("other", "plpython3u", "return 1"),
        ];
        assert!(left("SELECT plain()", &functions).is_nothing());
        for sql in ["SELECT sets()", "SELECT outer_one()", "SELECT t.inner_one FROM t"] {
            let found = left(sql, &functions);
            assert_eq!(found.settings.iter().collect::<Vec<_>>(), ["app.x", "app.y"], "{sql}");
            assert!(!found.hidden && !found.any_setting, "{sql}");
        }
        assert!(left("SELECT makes()", &functions).told);
        assert!(left("DO $$BEGIN PERFORM nextval('s'); END$$", &functions).drawn);
        for sql in ["SELECT runs()", "SELECT other()"] {
            assert!(left(sql, &functions).hidden, "{sql}");
        }
    }
}
