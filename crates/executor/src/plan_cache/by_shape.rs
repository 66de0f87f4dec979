//! The short way to a plan: statements that differ from an earlier one in their constants only.
//!
//! A program sends the same few statements over and over. The first of a shape is only remembered, the second is learned
//! (see [`planner::Template`]) if the plan by PostgreSQL's analysis is what its words alone say, and from the third on neither
//! PostgreSQL's parser nor the planner is asked: the
//! constants at the key's places say which node, or it is all nodes, and the text goes there unchanged. If a simple query's constants are whole
//! numbers in plain places, they go as parameters of a statement that the datanode has prepared, which spares it the same.
//!
//! Invariants: the cache holds templates of one catalog version; the search path is part of the key; a session that sees
//! other tables than its fellows does not use it. Debug builds plan every statement that is not too long both ways and compare.

use std::sync::Arc;

use bytes::Bytes;
use catalog::{Catalog, NodeId};
use pgerror::{PgError, Result, SqlState, field};
use planner::{Learned, ManyRows, Parameter, Parameterised, Plan, SessionFacts, Shape, Stop, Template};

use crate::backend::call::Call;
use crate::session::Session;
use crate::session::describe::parameter_facts;
use crate::session::pipeline::Again;
use crate::session::temp_names::TempNames;
use crate::shared::long_texts::lengthy;
use crate::shared::plan_validity::PlanValidity;
use crate::shared::search_paths::Path;
use crate::shared::templates::{Entry, Lesson, Scratch};

/// An INSERT of many rows as long as this is planned by one row of each kind at once: the tree of all rows takes hundreds of
/// times the memory of the text.
const MANY_ROWS_BYTES: usize = 64 << 10;

/// Debug builds compare the plans of texts that are no longer: the tree of all rows is what this road spares.
const COMPARED_BYTES_MAX: usize = 1 << 20;

/// Shorter ones with more kinds of rows are not worth the learning.
const KINDS_OF_SHORT_MAX: usize = 4;

/// A plan found by its shape.
#[derive(Debug)]
pub struct Quick {
    /// What to run.
    pub plan: Plan,
    /// How to run it, if not as the statement came: numbers of a simple query go as parameters of a prepared statement, and so may
    /// the time.
    pub call: Option<Call>,
    text: Option<Parameterised>,
    /// The node is not the one whose time counts: see [`Session::at_block_time`].
    lacks_moment: bool,
    /// The statement's only template, if it has just one.
    template: Option<Arc<Template>>,
    /// The nodes get a text with more in it than the user's.
    pub is_completed: bool,
}

impl Quick {
    /// Is the error about the prepared statement that we made of a simple query ("cached plan must not change result type")?
    pub fn is_stale(&self, error: &PgError) -> bool {
        self.call.is_some() && error.code() == SqlState::FEATURE_NOT_SUPPORTED
    }

    /// Is [`Session::at_block_time`] to be asked?
    pub fn lacks_moment(&self) -> bool {
        self.lacks_moment
    }

    fn with_text(mut self, text: Parameterised, call: &Call) -> Self {
        if let Plan::Forward(forward) = &mut self.plan {
            forward.sql.clone_from(&text.sql);
        }
        Self { call: with_parameters(&text, call), text: Some(text), ..self }
    }

    /// The error with its position in the user's text.
    pub fn place(&self, error: PgError) -> PgError {
        match (&self.text, error.text(field::POSITION).parse()) {
            (Some(text), Ok(position)) => error.position(text.user_position(position)),
            _ => error,
        }
    }
}

/// The call with the text's own parameters behind those that it has; `None` if there are none.
fn with_parameters(text: &Parameterised, call: &Call) -> Option<Call> {
    const INT4: u32 = 23;
    const TIMESTAMPTZ: u32 = 1184;
    let Parameterised { values, moments, .. } = text;
    if values.is_empty() && moments.is_empty() {
        return None;
    }
    let given = call.parameters.as_ref().map_or(0, |parameters| parameters.values.len());
    let mut parameters = call.own_parameters(given);
    parameters.types.extend(values.iter().map(|_| INT4).chain(moments.iter().map(|_| TIMESTAMPTZ)));
    let texts = values.iter().chain(moments);
    parameters.values.extend(texts.map(|value| Some(Bytes::copy_from_slice(value.as_bytes()))));
    if !parameters.formats.is_empty() {
        parameters.formats.resize(parameters.values.len(), 0);
    }
    Some(Call { parameters: Some(Arc::new(parameters)), ..call.clone() })
}

impl Session {
    /// The plan of one statement (no semicolon, no blanks round it), if one of its shape was planned before and the plan
    /// is sure to be the same; [`Session::plan`] otherwise.
    pub fn plan_quickly(&mut self, sql: &str, call: &Call) -> Option<Quick> {
        lengthy(sql.len(), || self.plan_by_one_like_it(sql, call, sql.len() >= MANY_ROWS_BYTES))
    }

    /// Kinds of rows that are not known are learned `at_once`, or when they come again.
    fn plan_by_one_like_it(&mut self, sql: &str, call: &Call, at_once: bool) -> Option<Quick> {
        if self.status() == b'E' || !self.is_ordinary() || self.autocommit_is_serializable() {
            return None;
        }
        self.lessons.clear();
        let loaded = self.context.current_catalog()?;
        if self.has_outlived(&loaded) {
            return None;
        }
        let path = self.known_search_path(&loaded.catalog)?;
        let under = (&*loaded.catalog, &path);
        let mut scratch = std::mem::take(&mut self.scratch);
        let plan = match scratch.rows.scan(sql) {
            true => self.plan_rows(sql, &mut scratch, call, under, at_once),
            false => self.plan_by_shape(sql, &mut scratch, call, under),
        };
        self.scratch = scratch;
        plan.filter(|_| self.plan_from(PlanValidity::new(&loaded, sql, Some(&path))).is_ok())
    }

    /// The plan of a long INSERT of many rows of which none like it was planned before: by one row of each kind, once what the rows lack
    /// is in the text.
    pub async fn plan_by_single_rows(&mut self, sql: &str, call: &Call) -> Result<Option<Quick>> {
        let is_long = sql.len() >= MANY_ROWS_BYTES && self.status() != b'E';
        if !is_long || !lengthy(sql.len(), || self.scratch.rows.scan(sql)) {
            return Ok(None);
        }
        // A new session does not know these yet.
        let loaded = self.catalog().await?;
        self.search_path(&loaded.catalog).await?;
        if let Some(quick) = self.plan_rows_at_once(sql, call).await {
            return Ok(Some(quick));
        }
        let Some(completed) = self.completed(sql, call).await? else { return Ok(None) };
        let quick = self.plan_rows_at_once(&completed, call).await;
        Ok(quick.map(|quick| Quick { is_completed: true, ..quick }))
    }

    /// Learns what is not known of the kinds of rows.
    pub(super) async fn plan_rows_at_once(&mut self, sql: &str, call: &Call) -> Option<Quick> {
        let quick = lengthy(sql.len(), || self.plan_by_one_like_it(sql, call, true));
        if quick.is_some() {
            return quick;
        }
        let lessons = std::mem::take(&mut self.lessons);
        match lessons.is_empty() || !self.learn(lessons, call).await {
            true => None,
            false => lengthy(sql.len(), || self.plan_by_one_like_it(sql, call, true)),
        }
    }

    /// The node of one more execution of the statement that was planned last, with other parameters; `None`: plan it.
    /// `clock` is the node whose time counts, if one does.
    pub(crate) fn place_again(&self, again: &Again, sql: &str, call: &Call, clock: Option<NodeId>) -> Option<NodeId> {
        let parameters = parameter_facts(call, None);
        let node = again.template.place(sql, &again.shape, &parameters)?;
        if again.template.reads_clock() && clock.is_some_and(|clock| clock != node) {
            return None;
        }
        if cfg!(debug_assertions) {
            let plan = again.template.plan(sql, &again.shape, &parameters)?;
            self.must_be_planned_so(&plan, sql, &parameters, again.validity.catalog());
        }
        Some(node)
    }

    /// What [`Session::place_again`] needs of the statement that was planned last.
    pub(crate) fn again(&mut self, quick: &Quick) -> Option<Again> {
        if quick.lacks_moment {
            return None;
        }
        let (template, validity) = (quick.template.clone()?, self.validity.take()?);
        Some(Again { template, shape: self.scratch.shape.clone(), validity })
    }

    /// Is this still the version of the catalog?
    pub fn is_current(&self, catalog_version: u64) -> bool {
        self.context.current_catalog().is_some_and(|loaded| loaded.catalog.version() == catalog_version)
    }

    /// What templates are found by: shape and search path, and whether one row stands for many.
    fn write_key(key: &mut Vec<u8>, shape: &Shape, is_row: bool, path: &Path) {
        key.clear();
        key.extend_from_slice(shape.text());
        let mut put = |schema: &str| {
            key.push(0);
            key.extend_from_slice(schema.as_bytes());
        };
        path.iter().for_each(|schema| put(schema));
        if is_row {
            put("\0");
        }
    }

    /// What is known of a shape. `None`: it is to be learned.
    fn entry(&self, key: &[u8], catalog: &Catalog, at_once: bool) -> Option<Entry<Template>> {
        let version = catalog.version();
        let templates = &self.context.templates;
        match templates.get(version, key) {
            Some(Entry::Seen) => None,
            // Debug builds learn at once, so that tests compare as many plans as they can.
            None if !at_once && !cfg!(debug_assertions) => {
                templates.insert(version, key.to_vec(), Entry::Seen);
                Some(Entry::Seen)
            }
            entry => entry,
        }
    }

    /// Learns templates. Is there one for each lesson?
    pub(crate) async fn learn(&mut self, lessons: Vec<Lesson>, call: &Call) -> bool {
        for lesson in lessons {
            let Some(loaded) = self.context.current_catalog() else { return false };
            let learned = self.template_of(&lesson, call, &loaded.catalog).await.ok().flatten();
            let entry = learned.map_or(Entry::Never, |template| Entry::Known(Arc::new(template)));
            let is_never = matches!(entry, Entry::Never);
            self.context.templates.insert(loaded.catalog.version(), lesson.key, entry);
            if is_never {
                return false;
            }
        }
        true
    }

    async fn template_of(&mut self, lesson: &Lesson, call: &Call, catalog: &Catalog) -> Result<Option<Template>> {
        let statements = planner::parse(lesson.twice.as_ref().unwrap_or(&lesson.sql))?;
        let [statement] = statements.as_slice() else { return Ok(None) };
        let Some(path) = self.known_search_path(catalog) else { return Ok(None) };
        let parameters = parameter_facts(call, None);
        let facts = SessionFacts { search_path: &path, parameters: &parameters, ..self.bare_facts() };
        let Some(template) = Template::learn(&lesson.sql, &lesson.shape, catalog, &facts) else { return Ok(None) };
        let temporary = TempNames::default();
        let analysed = self.analysed(statement, call, None, catalog, &path, &temporary).await?;
        let Some(analysed) = analysed else { return Ok(None) };
        let facts = SessionFacts { search_path: &path, parameters: &parameters, ..self.bare_facts() };
        let plan = planner::plan(&analysed, catalog, &facts)?;
        let by_words = match &lesson.twice {
            None => template.plan(&lesson.sql, &lesson.shape, &parameters),
            Some(twice) => {
                let mut rows = ManyRows::default();
                let is_read = rows.scan(twice);
                is_read.then(|| rows.plan(twice, &[(&template, &lesson.shape)], &parameters)).flatten()
            }
        };
        Ok(by_words.is_some_and(|by_words| plan.does_the_same(&by_words)).then_some(template))
    }

    /// Is this what the planner says? Debug builds ask it.
    fn must_be_planned_so(&self, plan: &Plan, sql: &str, parameters: &[Parameter<'_>], catalog: &Catalog) {
        if cfg!(debug_assertions) && sql.len() <= COMPARED_BYTES_MAX {
            let path = self.known_search_path(catalog).unwrap_or_default();
            let facts = SessionFacts { search_path: &path, parameters, ..self.bare_facts() };
            let fresh = planner::parse(sql).and_then(|statements| planner::plan(&statements[0], catalog, &facts));
            // The statement may have been cancelled before the planner was through.
            let is_stopped = fresh.as_ref().is_err_and(|error| error.code() == SqlState::QUERY_CANCELED);
            let is_same = fresh.as_ref().is_ok_and(|fresh| fresh.does_the_same(plan));
            assert!(is_stopped || is_same, "{sql}: {plan:?}, not {fresh:?}");
        }
    }

    /// An INSERT of many rows.
    fn plan_rows(
        &mut self,
        sql: &str,
        scratch: &mut Scratch,
        call: &Call,
        (catalog, path): (&Catalog, &Path),
        at_once: bool,
    ) -> Option<Quick> {
        let Scratch { rows, key, .. } = scratch;
        if !at_once && rows.kinds() > KINDS_OF_SHORT_MAX {
            return None;
        }
        let (mut known, mut lessons) = (Vec::new(), Vec::new());
        for kind in 0..rows.kinds() {
            let (one, mut shape) = (rows.one(sql, kind), Shape::default());
            if !shape.scan(&one) {
                return None;
            }
            Self::write_key(key, &shape, true, path);
            match self.entry(key, catalog, at_once) {
                Some(Entry::Known(template)) => known.push((template, shape)),
                Some(Entry::Never) => return None,
                Some(Entry::Seen) => {}
                None => {
                    lessons.push(Lesson { sql: one, twice: Some(rows.twice(sql, kind)), shape, key: key.clone() });
                }
            }
        }
        if known.len() < rows.kinds() {
            self.lessons = lessons;
            return None;
        }
        let learned: Vec<Learned<'_>> = known.iter().map(|(template, shape)| (&**template, shape)).collect();
        let parameters = parameter_facts(call, None);
        let plan = rows.plan(sql, &learned, &parameters)?;
        if !known.iter().all(|(template, _)| self.may_read_clock(template, &plan)) {
            return None;
        }
        self.must_be_planned_so(&plan, sql, &parameters, catalog);
        self.note_catalog(catalog);
        Some(Quick { plan, call: None, text: None, lacks_moment: false, template: None, is_completed: false })
    }

    /// A plan over several nodes reads no clock.
    fn may_read_clock(&self, template: &Template, plan: &Plan) -> bool {
        match plan {
            Plan::Forward(forward) if template.reads_clock() => {
                self.clock().is_none_or(|clock| forward.nodes.contains(&clock))
            }
            _ => true,
        }
    }

    pub(crate) fn note_catalog(&mut self, catalog: &Catalog) {
        self.catalog_version = catalog.version();
        self.schema_version = catalog.schema_version();
        self.catalog_defers = catalog.defers_constraints();
        self.withholds_temp = catalog.withholds_temp();
    }

    fn plan_by_shape(
        &mut self,
        sql: &str,
        scratch: &mut Scratch,
        call: &Call,
        (catalog, path): (&Catalog, &Path),
    ) -> Option<Quick> {
        let Scratch { shape, key, .. } = scratch;
        if !shape.scan(sql) {
            return None;
        }
        Self::write_key(key, shape, false, path);
        let template = match self.entry(key, catalog, false) {
            Some(Entry::Known(template)) => template,
            Some(Entry::Never | Entry::Seen) => return None,
            None => {
                let (shape, key) = (shape.clone(), key.clone());
                self.lessons = vec![Lesson { sql: sql.to_owned(), twice: None, shape, key }];
                return None;
            }
        };
        let parameters = parameter_facts(call, None);
        let plan = template.plan(sql, shape, &parameters)?;
        let lacks_moment = !self.may_read_clock(&template, &plan);
        if lacks_moment && !template.takes_moment(sql) {
            return None;
        }
        self.must_be_planned_so(&plan, sql, &parameters, catalog);
        self.note_catalog(catalog);
        let text = match call.parameters {
            None if !lacks_moment => template.parameterise(sql, shape),
            _ => None,
        };
        let quick = Quick { plan, call: None, text: None, lacks_moment, template: Some(template), is_completed: false };
        Some(match text {
            Some(text) => quick.with_text(text, call),
            None => quick,
        })
    }

    /// A plan whose node is another than the one whose time counts, with that time in its text. `None`: it is to be planned.
    pub async fn at_block_time(&mut self, quick: Quick, sql: &str, call: &Call) -> Result<Option<Quick>> {
        let (Some(clock), Some(template)) = (self.clock(), &quick.template) else { return Ok(None) };
        let moment = self.moment(clock).await?;
        let own = call.parameters.as_ref().map(|parameters| parameters.values.len());
        let text = template.at_one_moment(sql, &self.scratch.shape, &moment, own);
        Ok(text.map(|text| quick.with_text(text, call)))
    }

    /// The facts of a session without temp tables but for search path and parameters.
    pub(crate) fn bare_facts(&self) -> SessionFacts<'static> {
        SessionFacts {
            home: self.home,
            search_path: &[],
            temp_relations: &[],
            temp_views: &[],
            temp_code: &[],
            temp_functions: &[],
            temp_types: &[],
            parameters: &[],
            describe: None,
            in_transaction: self.in_block(),
            clock: self.clock(),
            now: None,
            exchanges: self.exchanges(),
            estimates: None,
            few_rows: 0.0,
            stop: Stop::by(self.links.cancel().interrupt().flag()),
            depends: None,
        }
    }
}
