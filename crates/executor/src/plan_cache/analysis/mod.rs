//! PostgreSQL's own analysis of a statement, by which it is planned: see [`planner::Analysis`].
//!
//! The statement becomes the body of a function in `pg_temp`, in a transaction that is rolled back, and is read back as
//! PostgreSQL has understood it. What it depends on stands in `pg_depend`, by object ids. Both travel in one round trip:
//!
//! ```text
//! BEGIN; CREATE FUNCTION pg_temp.loxo_analyse(types) … BEGIN ATOMIC <statement>; END;
//! SET LOCAL search_path = ''; SELECT pg_get_function_sqlbody(…), pg_depend …; ROLLBACK
//! ```
//!
//! Invariants:
//! - It changes nothing and is seen by nobody. A block's own transaction is left alone unless only that knows what the
//!   names mean (tables it has made or locked, temporary tables), since a function made in it gives it a transaction id. There
//!   the function stands in `pg_temp` only if the block cannot be prepared anyway. A statement that meets a lock on the other
//!   link, and names nothing of the user's that could be meant otherwise, is planned by its words.
//! - What is kept is kept for one text, user, search path, settings, parameter types and catalog version; a session that sees
//!   other objects than its fellows keeps nothing.
//! - Literals are read under the session's settings, and printed under fixed ones that every setting reads alike.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use catalog::{Catalog, Meaning, NodeId, Oid, meaning};
use pgerror::{PgError, Result, SqlState, field};
use planner::{Analysis, Marked, SessionFacts, Statement, Undeclared, Uses, WantedBody};

mod read_under;
mod without_temp;

use crate::shared::analyses::{Key, Pins};

use crate::backend::{call::Call, slot::Slot};
use crate::block::Mode;
use crate::session::Session;
use crate::session::describe::Description;
use crate::session::temp_names::TempNames;
use crate::shared::catalog_load::{Row, number, optional, text};
use crate::shared::context::Context;

/// Longer INSERTs of nothing but constants are planned by their own words, in which there is no name but the table's.
const ROWS_BYTES_MAX: usize = 64 << 10;

/// The tree of a longer text may take hundreds of times its bytes, and such texts are rarely sent twice.
const KEPT_TEXT_BYTES_MAX: usize = 64 << 10;

/// Longest wait for a lock on another link than the block's own.
const BESIDE_LOCK_TIMEOUT_MS: u32 = 20;

/// What PostgreSQL prints so is read alike under all settings.
const PRINTING: &str = "SET LOCAL search_path = ''; SET LOCAL datestyle = 'ISO'; SET LOCAL intervalstyle = 'postgres'; \
     SET LOCAL extra_float_digits = 1; SET LOCAL bytea_output = 'hex'; SET LOCAL quote_all_identifiers = off; \
     SET LOCAL lc_monetary = 'C'; SET LOCAL client_encoding = 'UTF8'";

/// The statement, its analysed tree if that is not too large, the objects of the user's that it depends on: of each its
/// catalog and its id; the session's time zone; and the schemas of types in it that the user may not name, in hexadecimal. Of
/// the function in a schema.
const READ_BACK: &str = "SELECT pg_catalog.pg_get_function_sqlbody(p.oid), \
       CASE WHEN pg_catalog.pg_column_size(p.prosqlbody) < 65536 THEN p.prosqlbody END, \
       (SELECT pg_catalog.string_agg(pg_catalog.concat(d.refclassid, ' ', d.refobjid), ',') FROM pg_catalog.pg_depend d \
        WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.refobjid >= 16384), \
       pg_catalog.current_setting('TimeZone'), \
       (SELECT pg_catalog.string_agg(DISTINCT pg_catalog.encode(pg_catalog.convert_to(n.nspname, 'UTF8'), 'hex'), ',') \
        FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_type t ON t.oid = d.refobjid \
        JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
        WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid \
        AND d.refclassid = 'pg_catalog.pg_type'::pg_catalog.regclass \
        AND NOT pg_catalog.has_schema_privilege(n.oid, 'USAGE')) \
     FROM pg_catalog.pg_proc p WHERE p.proname = 'loxo_analyse' AND p.pronamespace = ";

/// [`READ_BACK`] of `pg_temp`.
const MY_TEMP: &str = "pg_catalog.pg_my_temp_schema()";

/// Columns of [`READ_BACK`].
const COLUMNS: usize = 5;

/// Object ids of PostgreSQL's catalogs, the same on every server.
const PG_CLASS: Oid = 1259;
const PG_PROC: Oid = 1255;
const PG_OPERATOR: Oid = 2617;
const PG_TYPE: Oid = 1247;

/// Where a statement is analysed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On the session's link to the home node, in a transaction of its own.
    Home,
    /// On another link of the same user, since the block's own is in its transaction.
    Beside,
    /// Inside the block.
    Block,
}

impl Place {
    fn node(self, home: NodeId) -> Slot {
        if self == Place::Beside { Slot::beside(home) } else { home.into() }
    }
}

/// One statement that is to be analysed.
#[derive(Clone, Copy)]
struct Request<'a> {
    statement: &'a Statement,
    /// The query or change of rows in it.
    sql: &'a str,
    place: Place,
    call: &'a Call,
    known: Option<&'a Description>,
    catalog: &'a Catalog,
    search_path: &'a [String],
    /// Relations in `pg_temp` that a bare name does not mean.
    hidden: &'a [String],
}

impl Request<'_> {
    /// Is the error about a lock, which may be the block's own?
    fn is_locked(&self, error: &PgError) -> bool {
        self.place == Place::Beside && error.code() == SqlState::LOCK_NOT_AVAILABLE
    }
}

/// Its parameters: their types, as they can be written.
struct ParametersOf {
    names: Vec<String>,
    undeclared: Vec<Undeclared>,
}

/// What has come of asking PostgreSQL.
pub(crate) enum Asked {
    Analysed(Analysis),
    /// It refuses the text as the body of a function, for what stands at this byte if that is known.
    Refused(Option<usize>),
    /// A table is locked, perhaps by the block itself.
    Locked,
    /// There is a parameter whose type cannot be written.
    Impossible,
}

impl Session {
    /// The statement as PostgreSQL reads it, ready to be planned; as it is if PostgreSQL cannot be asked. An error if it does not take
    /// the statement at all.
    pub(crate) async fn analysed(
        &mut self,
        statement: &Statement,
        call: &Call,
        known: Option<&Description>,
        catalog: &Catalog,
        search_path: &[String],
        temporary: &TempNames,
    ) -> Result<Option<Statement>> {
        match self.answer_to(statement, call, known, catalog, search_path, temporary).await? {
            Asked::Analysed(analysis) => {
                let analysed = statement.analysed(&analysis);
                let named = analysed.with_catalogs_named(catalog, &temporary.all)?;
                Ok(Some(named.unwrap_or(analysed)))
            }
            Asked::Refused(_) => {
                // In PostgreSQL's words for the user's own text, with the place in it.
                let sql = statement.to_analyse().unwrap_or_default();
                let described = self.describe(&sql, &call.fragment_types(&sql)).await;
                described.map_err(|error| placed(error, &statement.sql, &sql))?;
                Ok(None)
            }
            Asked::Locked | Asked::Impossible => Ok(None),
        }
    }

    /// What PostgreSQL says to a statement, whether it takes it or not.
    pub(crate) async fn answer_to(
        &mut self,
        statement: &Statement,
        call: &Call,
        known: Option<&Description>,
        catalog: &Catalog,
        search_path: &[String],
        temporary: &TempNames,
    ) -> Result<Asked> {
        let Some(sql) = statement.to_analyse() else { return Ok(Asked::Impossible) };
        if sql.len() > ROWS_BYTES_MAX && statement.inserts_constants() {
            return Ok(Asked::Impossible);
        }
        let Some(place) = self.place_of_analysis(statement, catalog, temporary) else { return Ok(Asked::Impossible) };
        let sees_the_same = temporary.is_empty() && !statement.names_temporary(&[]);
        let is_kept = place != Place::Block
            && sees_the_same
            && sql.len() <= KEPT_TEXT_BYTES_MAX
            && !statement.has_moving_constant();
        self.analysis_is_common = is_kept;
        let key = Key {
            user: self.identity().user.clone(),
            search_path: search_path.to_vec(),
            settings: self.settings_in_force(),
            types: call.parameters.as_ref().map(|parameters| parameters.types.clone()).unwrap_or_default(),
            sql,
        };
        let sql = key.sql.clone();
        let hidden = &temporary.hidden();
        let request = Request { statement, sql: &sql, place, call, known, catalog, search_path, hidden };
        let mut asked = match is_kept {
            true => self.kept_or_analysed(key, &request).await?,
            false => self.ask_about(&sql, &request).await?,
        };
        if matches!(asked, Asked::Locked) && self.can_analyse_inside() && !statement.is_plain(catalog) {
            // The lock may be the block's own, or that of a session that waits for it.
            asked = self.ask_about(&sql, &Request { place: Place::Block, ..request }).await?;
        }
        Ok(asked)
    }

    /// The statement as PostgreSQL reads it if it names functions of this meaning and a user's function has such a name too: elsewhere it means
    /// PostgreSQL's own.
    pub async fn read_by_postgresql(
        &mut self,
        statement: &Statement,
        call: &Call,
        meaning: Meaning,
    ) -> Result<Option<Statement>> {
        let loaded = self.catalog().await?;
        if meaning::names(meaning).all(|name| loaded.catalog.functions(name).is_empty()) {
            return Ok(None);
        }
        let search_path = self.search_path(&loaded.catalog).await?;
        let temporary = self.temp_relations().await?;
        self.analysed(statement, call, None, &loaded.catalog, &search_path, &temporary).await
    }

    async fn kept_or_analysed(&mut self, key: Key, request: &Request<'_>) -> Result<Asked> {
        let (context, version) = (self.context.clone(), request.catalog.schema_version());
        if let Some(analysis) = context.analyses.get(version, &key) {
            return Ok(Asked::Analysed(analysis));
        }
        if let Some(marked) = Marked::of(&key.sql, &[])
            && let Some(analysis) = self.analysed_by_shape(&key, marked, request).await?
        {
            self.must_be_analysed_so(&analysis, request).await?;
            return Ok(Asked::Analysed(analysis));
        }
        let asked = self.ask_about(request.sql, request).await?;
        if let Asked::Analysed(analysis) = &asked
            && self.analysis_is_common
        {
            context.analyses.insert(version, key, analysis.clone());
        }
        Ok(asked)
    }

    /// By another statement that differs in its constants only; `None` if none came before, or they mean too much.
    async fn analysed_by_shape(
        &mut self,
        key: &Key,
        all_marked: Marked,
        request: &Request<'_>,
    ) -> Result<Option<Analysis>> {
        let (context, version) = (self.context.clone(), request.catalog.schema_version());
        let key_of = |marked: &Marked| Key { sql: marked.text.clone(), ..key.clone() };
        let shape = key_of(&all_marked);
        let mut marked = match context.analyses.pins(version, &shape) {
            // Debug builds mark at once, so that tests compare as many statements as they can.
            None if !cfg!(debug_assertions) => return Ok(None),
            Some(Pins::All) => return Ok(None),
            None | Some(Pins::Seen) => all_marked,
            Some(Pins::These(pinned)) => match Marked::of(&key.sql, &pinned) {
                Some(marked) => marked,
                None => return Ok(None),
            },
        };
        if let Some(analysis) = context.analyses.get(version, &key_of(&marked)) {
            return marked.filled(&analysis);
        }
        loop {
            let pinned = match self.ask_about(&marked.text, request).await? {
                Asked::Analysed(analysis) => match marked.lost(&analysis)? {
                    None => {
                        context.analyses.pin(version, shape, Pins::These(marked.pinned()));
                        if self.analysis_is_common {
                            context.analyses.insert(version, key_of(&marked), analysis.clone());
                        }
                        return marked.filled(&analysis);
                    }
                    pinned => pinned,
                },
                Asked::Refused(at) => at.and_then(|at| marked.pinned_at(at)),
                Asked::Locked | Asked::Impossible => return Ok(None),
            };
            match pinned.and_then(|pinned| Marked::of(&key.sql, &pinned)) {
                Some(less) => marked = less,
                None => {
                    context.analyses.pin(version, shape, Pins::All);
                    return Ok(None);
                }
            }
        }
    }

    /// Is this what PostgreSQL makes of the statement itself? Debug builds ask it.
    async fn must_be_analysed_so(&mut self, analysis: &Analysis, request: &Request<'_>) -> Result<()> {
        if cfg!(debug_assertions)
            && let Asked::Analysed(itself) = self.ask_about(request.sql, request).await?
            && !itself.is_the_same(analysis)?
        {
            // A type may keep less of a constant's text, as 63 bytes of a name. Or another session has changed the schema meanwhile.
            let texts = [itself.printed()?, analysis.printed()?];
            let read = [self.ask_about(&texts[0], request).await?, self.ask_about(&texts[1], request).await?];
            let is_same = match &read {
                [Asked::Analysed(one), Asked::Analysed(other)] => one.is_the_same(other)?,
                _ => false,
            };
            assert!(is_same || !self.is_current(request.catalog.version()), "{}: {analysis:?}", request.sql);
        }
        Ok(())
    }

    async fn ask_about(&mut self, sql: &str, request: &Request<'_>) -> Result<Asked> {
        let Some(parameters) = self.parameters_of(request).await? else { return Ok(Asked::Impossible) };
        match self.ask(sql, &parameters.names.join(", "), request.place).await {
            Ok(rows) => {
                let analysis = analysis_of(&rows, &parameters.undeclared)?
                    .qualified(request.catalog, request.hidden)?
                    .as_written(sql)?;
                let analysis = self.with_bodies(analysis, request).await?;
                Ok(analysis.map_or(Asked::Locked, Asked::Analysed))
            }
            Err(error) if request.is_locked(&error) => Ok(Asked::Locked),
            Err(error) if is_about_the_statement(&error) => {
                tracing::debug!(%error, "not analysed");
                let position = error.text(field::POSITION).parse::<usize>().ok();
                let character = position.and_then(|position| position.checked_sub(1));
                let byte = |character: usize| sql.char_indices().nth(character).map(|(at, _)| at);
                Ok(Asked::Refused(character.and_then(byte)))
            }
            Err(error) => Err(error),
        }
    }

    /// `None`: nowhere.
    fn place_of_analysis(&self, statement: &Statement, catalog: &Catalog, temporary: &TempNames) -> Option<Place> {
        let Some(block) = &self.block else { return Some(Place::Home) };
        let only_here = block.schema_changed || block.ran_ddl || block.locked || block.fills_table;
        let sees_it = only_here || statement.names_temporary(&temporary.bare());
        if !sees_it && !self.links.has(self.beside_home()) {
            return Some(Place::Beside);
        }
        let is_needed = sees_it || !statement.is_plain(catalog);
        (is_needed && self.can_analyse_inside()).then_some(Place::Block)
    }

    /// May a function be made in the block's own transaction?
    fn can_analyse_inside(&self) -> bool {
        self.block.as_ref().is_some_and(|block| !block.failed && !block.read_only)
    }

    /// Could the user still say PREPARE TRANSACTION of his block? LOCK and TRUNCATE hide tables, but change no schema.
    fn may_be_prepared(&self) -> bool {
        self.block.as_ref().is_some_and(|block| !block.schema_changed || !block.hides_schema())
            && self.links.get(self.home).is_none_or(|leased| !leased.temp)
    }

    /// All that the session has set, and the block so far.
    pub(crate) fn settings_in_force(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.links.known_login().map(|login| login.stamp).hash(&mut hasher);
        match &self.block {
            None => self.settings().fingerprint().hash(&mut hasher),
            Some(block) => (block.settings_at_begin.fingerprint(), block.settings_made()).hash(&mut hasher),
        }
        hasher.finish()
    }

    /// With the bodies of functions that may have to be put into the statement, and of those that they call. `None`: one of them
    /// names a table that is locked.
    async fn with_bodies(&mut self, mut analysis: Analysis, request: &Request<'_>) -> Result<Option<Analysis>> {
        loop {
            let facts = SessionFacts { search_path: request.search_path, ..self.bare_facts() };
            let wanted = planner::wanted_bodies(&analysis, request.catalog, &facts)?;
            if wanted.is_empty() {
                return Ok(Some(analysis));
            }
            for WantedBody { function, parameters, sql } in wanted {
                self.analysis_is_common &= !planner::parse(&sql)?.iter().any(Statement::has_moving_constant);
                let body = match self.ask(&sql, &parameters, request.place).await {
                    Ok(rows) => Some(analysis_of(&rows, &[])?.qualified(request.catalog, request.hidden)?),
                    Err(error) if request.is_locked(&error) => return Ok(None),
                    Err(error) if is_about_the_statement(&error) => None,
                    Err(error) => return Err(error),
                };
                analysis = analysis.with_body(function, body.as_ref());
            }
        }
    }

    /// `None` if one of them has a type that cannot be written.
    async fn parameters_of(&mut self, request: &Request<'_>) -> Result<Option<ParametersOf>> {
        let types = self.types_of_parameters(request).await?;
        let Some(names) = self.context.clone().type_names_of(request.catalog, &types).await? else { return Ok(None) };
        let declared = request.call.declared_types();
        let is_undeclared = |at: &usize| declared.get(*at).is_none_or(|oid| *oid == 0);
        let given = request.call.parameters.as_ref().map(|parameters| parameters.types.as_slice()).unwrap_or_default();
        let parameter = |at: usize| Undeclared {
            number: at as i32 + 1,
            type_name: names[at].clone(),
            was_declared: given.get(at).is_some_and(|oid| *oid != 0),
        };
        let undeclared = (0..names.len()).filter(is_undeclared).map(parameter).collect();
        Ok(Some(ParametersOf { names, undeclared }))
    }

    async fn types_of_parameters(&mut self, request: &Request<'_>) -> Result<Vec<Oid>> {
        let Request { statement, sql, call, known, .. } = *request;
        if statement.parameters == 0 {
            return Ok(Vec::new());
        }
        let declared = call.parameters.as_ref().map(|parameters| parameters.types.clone()).unwrap_or_default();
        match known {
            Some(known) if known.parameters.len() >= statement.parameters => Ok(known.parameters.clone()),
            _ if declared.len() >= statement.parameters && !declared.contains(&0) => Ok(declared),
            _ => Ok(self.describe(sql, &call.fragment_types(sql)).await?.parameters),
        }
    }

    async fn ask(&mut self, sql: &str, arguments: &str, place: Place) -> Result<Vec<Row>> {
        let create = |schema: &str| create_function(schema, sql, arguments);
        if self.known_to_make_no_temp() || (place == Place::Block && self.may_be_prepared()) {
            return self.ask_in_own_schema(create, place).await;
        }
        let (opening, end) = self.frame(place);
        let opening = format!("{opening}; SET LOCAL check_function_bodies = off; ");
        let in_temp = create("pg_temp");
        let whole = format!("{opening}{in_temp}; {PRINTING}; {READ_BACK}{MY_TEMP}; {end}");
        let result = self.ask_on(place.node(self.home), &whole, end).await;
        match place {
            Place::Home | Place::Beside => self.leave(place),
            Place::Block => {
                if let Some(leased) = self.links.get_mut(self.home) {
                    // A transaction that has used pg_temp cannot be prepared.
                    leased.temp = true;
                }
            }
        }
        if let Err(error) = &result
            && error.code() == SqlState::INSUFFICIENT_PRIVILEGE
            && !self.may_make_temporary(place).await?
        {
            return self.ask_in_own_schema(create, place).await;
        }
        result.map_err(|error| placed_within(error, before_body(&opening, &in_temp)))
    }

    async fn ask_in_own_schema(&mut self, create: impl Fn(&str) -> String, place: Place) -> Result<Vec<Row>> {
        let asked = self.ask_without_temp(create, place).await;
        self.leave(place);
        let (result, before) = asked?;
        result.map_err(|error| placed_within(error, before))
    }

    /// Gives back what only the analysis needed.
    fn leave(&mut self, place: Place) {
        if place == Place::Beside {
            self.links.let_go(self.beside_home());
        }
        if self.block.is_none() {
            self.release();
        }
    }

    /// What opens a transaction to analyse in, and what takes it back.
    fn frame(&self, place: Place) -> (String, &'static str) {
        let begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE".to_owned();
        match place {
            Place::Home => (begin, "ROLLBACK"),
            Place::Beside => {
                let made = self.block.as_ref().map(|block| block.settings_made()).unwrap_or_default();
                let begin = made.iter().fold(begin, |sql, command| format!("{sql}; {command}"));
                (format!("{begin}; SET LOCAL lock_timeout = '{BESIDE_LOCK_TIMEOUT_MS}ms'"), "ROLLBACK")
            }
            Place::Block => (
                "SAVEPOINT loxo_analyse".to_owned(),
                "ROLLBACK TO SAVEPOINT loxo_analyse; RELEASE SAVEPOINT loxo_analyse",
            ),
        }
    }

    async fn acquire_at(&mut self, node: Slot) -> Result<()> {
        match node.is_beside() {
            true => self.acquire_as_is(node, Mode::Autocommit).await,
            false => self.acquire_to_ask(node).await,
        }
    }

    /// The rows of a text of several statements; `end` is sent if one of them fails.
    async fn ask_on(&mut self, node: Slot, sql: &str, end: &str) -> Result<Vec<Row>> {
        self.acquire_at(node).await?;
        let leased = self.links.link(node)?;
        leased.link.connection.query(sql.as_bytes());
        leased.flush().await?;
        leased.skip_preamble().await?;
        let result = leased.link.connection.read_rows().await;
        if result.is_err() && leased.link.connection.is_drained() && !leased.link.connection.is_broken() {
            leased.link.connection.execute(end).await?;
        }
        // Whatever is said about the function is no news to the user.
        leased.link.connection.take_notices();
        Ok(result?.0)
    }
}

impl Context {
    /// Types as they can be written in a list of arguments; `None` if one of them cannot.
    async fn type_names_of(self: Arc<Self>, catalog: &Catalog, types: &[Oid]) -> Result<Option<Vec<String>>> {
        if types.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let builtin = self.builtin_types().await?;
        let name = |oid: &Oid| match catalog.user_type(*oid) {
            Some(known) => {
                let (schema, name) = (&known.schema, &known.name);
                Some(format!("{}.{}", catalog::quote_identifier(schema), catalog::quote_identifier(name)))
            }
            None => builtin.get(oid).cloned(),
        };
        Ok(types.iter().map(name).collect())
    }

    /// PostgreSQL's own types that a value can have; they never change.
    async fn builtin_types(&self) -> Result<&HashMap<Oid, String>> {
        let read = async || {
            let sql = "SELECT oid, CASE WHEN oid OPERATOR(pg_catalog.=) 1042 THEN 'bpchar' ELSE 'pg_catalog.' OPERATOR(pg_catalog.||) pg_catalog.quote_ident(typname) END \
                       FROM pg_catalog.pg_type WHERE oid < 16384 AND typtype <> 'p'";
            let rows = self.query_as_service(self.home(), sql).await?;
            rows.iter().map(|row| Ok((number(row, 0)?, text(row, 1)?.to_owned()))).collect()
        };
        self.builtin_types.get_or_try_init(read).await
    }
}

fn analysis_of(rows: &[Row], undeclared: &[Undeclared]) -> Result<Analysis> {
    // Settings that the block has made may give rows of their own.
    let rows: Vec<&Row> = rows.iter().filter(|row| row.len() == COLUMNS).collect();
    let first = rows.first().ok_or_else(|| PgError::internal("an analysed statement without an answer"))?;
    let mut uses = Uses::default();
    uses.read_tree(optional(first, 1)?.unwrap_or_default());
    let unreadable = || PgError::internal("an analysed statement that depends on something that cannot be read");
    for used in optional(first, 2)?.into_iter().flat_map(|all| all.split(',')) {
        let (class, object) = used.split_once(' ').ok_or_else(unreadable)?;
        let object = object.parse().map_err(|_| unreadable())?;
        match class.parse().map_err(|_| unreadable())? {
            PG_CLASS => uses.relations.insert(object),
            PG_PROC => uses.functions.insert(object),
            PG_OPERATOR => uses.operators.insert(object),
            PG_TYPE => uses.types.insert(object),
            _ => false,
        };
    }
    let closed = optional(first, 4)?.into_iter().flat_map(|all| all.split(',')).map(of_hex).collect::<Option<_>>();
    uses.closed = closed.ok_or_else(unreadable)?;
    let body = optional(first, 0)?.ok_or_else(|| PgError::internal("an analysed statement without a text"))?;
    Ok(Analysis::new(body, uses, undeclared)?.in_zone(text(first, 3)?))
}

fn of_hex(digits: &str) -> Option<String> {
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    String::from_utf8((0..digits.len()).step_by(2).map(byte).collect::<Option<_>>()?).ok()
}

/// The text as the body of a function, from its second line on.
fn create_function(schema: &str, sql: &str, arguments: &str) -> String {
    format!("CREATE FUNCTION {schema}.loxo_analyse({arguments}) RETURNS void LANGUAGE sql BEGIN ATOMIC\n{sql}\n; END")
}

/// The characters before the user's text.
fn before_body(opening: &str, create: &str) -> usize {
    let head = create.split_once('\n').map_or(0, |(head, _)| head.chars().count() + 1);
    opening.chars().count() + head
}

/// An error about a whole text, with its place in what comes after its first `before` characters.
fn placed_within(error: PgError, before: usize) -> PgError {
    match error.text(field::POSITION).parse::<usize>() {
        Ok(position) if position > before => error.position(position - before),
        _ => error.without(field::POSITION),
    }
}

/// An error about a part of a statement, with its place in the whole.
fn placed(error: PgError, whole: &str, part: &str) -> PgError {
    match (whole.find(part), error.text(field::POSITION).parse::<usize>()) {
        (Some(at), Ok(position)) if at > 0 => error.position(whole[..at].chars().count() + position),
        _ => error,
    }
}

/// Not of the server or the session: PostgreSQL has something against the text. Input functions of types fail with any code; PostgreSQL
/// then says at which constant.
fn is_about_the_statement(error: &PgError) -> bool {
    let code = error.code();
    let class = &code.as_str()[..2];
    // A table that is opened for a name has a place too when its lock is not to be had, or the server is going.
    let is_of_server = ["08", "25", "40", "53", "55", "57", "58"].contains(&class);
    let has_place = !error.text(field::POSITION).is_empty();
    ["0A", "22", "42", "54", "2B", "3F"].contains(&class) || (has_place && !is_of_server && !error.is_fatal())
}
