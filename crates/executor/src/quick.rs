//! The short way to a plan: statements that differ from an earlier one in their constants only.
//!
//! A program sends the same few statements over and over. The first of a shape is only remembered, the second is learned
//! (see [`planner::Template`]), and from the third on neither PostgreSQL's parser nor the planner is asked: the
//! constants at the key's places say which node, and the text goes there unchanged.
//!
//! Invariants: the cache holds templates of one catalog version; the search path is part of the key; a session that sees
//! other tables than its fellows does not use it. Debug builds plan every statement both ways and compare.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use catalog::Catalog;
use planner::{Plan, SessionFacts, Shape, Template};

use crate::call::Call;
use crate::describe::parameter_facts;
use crate::session::Session;

/// The cache is emptied when it has grown to this.
const SHAPES_MAX: usize = 4096;

/// Templates, shared by all sessions of a coordinator.
#[derive(Default)]
pub(crate) struct TemplateCache {
    entries: Mutex<(u64, HashMap<Vec<u8>, Entry>)>,
}

#[derive(Clone)]
enum Entry {
    /// Once: most texts of ad-hoc queries never come again.
    Seen,
    /// It has to be planned each time.
    Never,
    Known(Arc<Template>),
}

impl TemplateCache {
    fn get(&self, catalog_version: u64, key: &[u8]) -> Option<Entry> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.0 == catalog_version { entries.1.get(key).cloned() } else { None }
    }

    fn insert(&self, catalog_version: u64, key: Vec<u8>, entry: Entry) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.0 != catalog_version || entries.1.len() >= SHAPES_MAX {
            entries.1.clear();
            entries.0 = catalog_version;
        }
        entries.1.insert(key, entry);
    }
}

/// A session's buffers, kept for the next statement.
#[derive(Default)]
pub(crate) struct Scratch {
    shape: Shape,
    key: Vec<u8>,
}

impl Session {
    /// The plan of one statement (no semicolon, no blanks round it), if one of its shape was planned before and the plan
    /// is sure to be the same; [`Session::plan`] otherwise.
    pub fn plan_quickly(&mut self, sql: &str, call: &Call) -> Option<Plan> {
        if self.status() == b'E' || !self.is_ordinary() {
            return None;
        }
        let catalog = self.context.current_catalog()?.catalog.clone();
        let mut scratch = std::mem::take(&mut self.scratch);
        let plan = match scratch.shape.scan(sql) && self.write_key(&mut scratch, &catalog) {
            true => self.plan_by_shape(sql, &scratch, call, &catalog),
            false => None,
        };
        self.scratch = scratch;
        plan
    }

    /// Is this still the version of the catalog?
    pub fn is_current(&self, catalog_version: u64) -> bool {
        self.context.current_catalog().is_some_and(|loaded| loaded.catalog.version() == catalog_version)
    }

    /// Shape and search path. False if the search path is not known yet.
    fn write_key(&self, scratch: &mut Scratch, catalog: &Catalog) -> bool {
        let Scratch { shape, key } = scratch;
        key.clear();
        key.extend_from_slice(shape.text());
        let mut put = |schema: &str| {
            key.push(0);
            key.extend_from_slice(schema.as_bytes());
        };
        match &self.search_path {
            Some(path) => path.iter().for_each(|schema| put(schema)),
            None if self.search_path_was_set => return false,
            None => self.default_search_path(catalog).for_each(put),
        }
        true
    }

    fn plan_by_shape(&mut self, sql: &str, scratch: &Scratch, call: &Call, catalog: &Catalog) -> Option<Plan> {
        let version = catalog.version();
        let templates = &self.context.templates;
        let parameters = parameter_facts(call, None);
        let template = match templates.get(version, &scratch.key) {
            Some(Entry::Known(template)) => template,
            Some(Entry::Never) => return None,
            // Debug builds learn at once, so that tests compare as many plans as they can.
            None if !cfg!(debug_assertions) => {
                templates.insert(version, scratch.key.clone(), Entry::Seen);
                return None;
            }
            _ => {
                let path = self.known_search_path(catalog);
                let facts = SessionFacts { search_path: &path, parameters: &parameters, ..self.bare_facts() };
                let learned = Template::learn(sql, &scratch.shape, catalog, &facts).map(Arc::new);
                let entry = learned.clone().map_or(Entry::Never, Entry::Known);
                templates.insert(version, scratch.key.clone(), entry);
                learned?
            }
        };
        let forward = template.plan(sql, &scratch.shape, &parameters)?;
        if template.reads_clock() && self.clock().is_some_and(|clock| !forward.nodes.contains(&clock)) {
            return None;
        }
        if cfg!(debug_assertions) {
            let path = self.known_search_path(catalog);
            let facts = SessionFacts { search_path: &path, parameters: &parameters, ..self.bare_facts() };
            let fresh = planner::parse(sql).and_then(|statements| planner::plan(&statements[0], catalog, &facts));
            assert!(
                matches!(&fresh, Ok(Plan::Forward(fresh)) if *fresh == forward),
                "{sql}: {forward:?}, not {fresh:?}"
            );
        }
        self.catalog_version = version;
        Some(Plan::Forward(forward))
    }

    fn known_search_path(&self, catalog: &Catalog) -> Vec<String> {
        match &self.search_path {
            Some(path) => path.clone(),
            None => self.default_search_path(catalog).map(str::to_owned).collect(),
        }
    }

    /// The facts of a session without temp tables but for search path and parameters.
    fn bare_facts(&self) -> SessionFacts<'static> {
        SessionFacts {
            home: self.home,
            search_path: &[],
            temp_relations: &[],
            parameters: &[],
            describe: None,
            in_transaction: self.in_block(),
            clock: self.clock(),
            now: None,
            estimates: None,
        }
    }
}
