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

use catalog::system_views::Asked;
use catalog::{BuiltinFunction, Catalog, Function, Leavings, Meaning, Oid, Relation};
use pg_query::protobuf::{CopyStmt, FuncCall, InsertStmt, RangeVar, SelectStmt, VariableSetKind, VariableSetStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use crate::facts::builtins::{Class, class_of};
use crate::facts::setting_calls::constant_name;
use crate::parse::{Statement, StatementKind, asks_cluster, bodies::statements_of};
use crate::plan::tables::named_relations;
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
    /// The code of a function is searched: those that call each other have no answer yet.
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
            let asks = &mut self.found.asks;
            asks.own |= asked == Asked::Own;
            asks.sessions |= matches!(asked, Asked::Sessions | Asked::Locks | Asked::Backends(_));
            asks.locks |= asked == Asked::Locks;
            asks.sizes |= asked == Asked::Sizes;
            asks.databases |= asked == Asked::Databases;
            asks.snapshot |= asked == Asked::Snapshot;
            if let Asked::View(view) | Asked::Backends(view) = asked {
                asks.views.insert(view.to_owned());
            }
        }
        let catalog = self.catalog;
        catalog.functions(name).iter().for_each(|function| self.function(function));
        if let Some(name) = tree::own_name(&call.funcname) {
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
                for relation in named_relations(self.catalog, name).filter(|_| copy.is_from && !given.is_empty()) {
                    self.defaults_of(relation, |column| !given.contains(column));
                }
            }
            (None, None) => {}
        }
    }

    /// What an INSERT leaves out gets its default.
    fn insert(&mut self, insert: &InsertStmt) {
        let Some(name) = &insert.relation else { return };
        let named: Vec<&str> = insert.cols.iter().filter_map(tree::name_of).collect();
        let width = insert.select_stmt.get::<SelectStmt>().and_then(tree::width);
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

    fn defaults_of(&mut self, relation: &Relation, wanted: impl Fn(&str) -> bool) {
        for column in relation.columns.iter().filter(|column| wanted(&column.name)) {
            self.found.drawn |= column.generated.is_identity();
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
            let called: Vec<Oid> = called.copied().collect();
            catalog.functions_by_oid(&called).for_each(|function| self.function(function));
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
