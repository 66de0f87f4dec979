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
//!   names mean (tables it has made or locked, temporary tables), since a function made in it gives it a transaction id.
//! - What is kept is kept for one text, user, search path, settings, parameter types and catalog version; a session that sees
//!   other objects than its fellows keeps nothing.
//! - Literals are read under the session's settings, and printed under fixed ones that every setting reads alike.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use catalog::{Catalog, NodeId, Oid};
use pgerror::{PgError, Result, SqlState, field};
use planner::{Analysis, Statement, Undeclared, Uses};

use crate::call::Call;
use crate::context::Context;
use crate::describe::Description;
use crate::load::{Row, number, optional, text};
use crate::session::{BESIDE, Mode, Session};
use crate::temp_names::TempNames;

/// Longer texts are planned by their own words: they are lists of constants.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Longest wait for a lock on another link than the block's own.
const BESIDE_LOCK_TIMEOUT_MS: u32 = 20;

/// Analyses that are kept, and the bytes of their texts.
const KEPT_MAX: usize = 4096;
const KEPT_BYTES_MAX: usize = 16 << 20;

/// What PostgreSQL prints so is read alike under all settings.
const PRINTING: &str = "SET LOCAL search_path = ''; SET LOCAL datestyle = 'ISO'; SET LOCAL intervalstyle = 'postgres'; \
     SET LOCAL extra_float_digits = 1; SET LOCAL bytea_output = 'hex'; SET LOCAL quote_all_identifiers = off; \
     SET LOCAL lc_monetary = 'C'; SET LOCAL client_encoding = 'UTF8'";

/// The statement, then each object of the user's that it depends on: its catalog and its id.
const READ_BACK: &str = "SELECT pg_catalog.pg_get_function_sqlbody(p.oid), d.refclassid::pg_catalog.oid, d.refobjid \
     FROM pg_catalog.pg_proc p LEFT JOIN pg_catalog.pg_depend d \
       ON d.classid OPERATOR(pg_catalog.=) 1255 AND d.objid OPERATOR(pg_catalog.=) p.oid \
         AND d.refobjid OPERATOR(pg_catalog.>=) 16384 \
     WHERE p.proname OPERATOR(pg_catalog.=) 'loxo_analyse' \
       AND p.pronamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()";

/// Columns of [`READ_BACK`].
const COLUMNS: usize = 3;

/// Object ids of PostgreSQL's catalogs, the same on every server.
const PG_CLASS: Oid = 1259;
const PG_PROC: Oid = 1255;
const PG_OPERATOR: Oid = 2617;
const PG_TYPE: Oid = 1247;

/// Analyses of one catalog version, shared by all sessions of a coordinator.
#[derive(Default)]
pub(crate) struct Analyses {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    catalog_version: u64,
    bytes: usize,
    by_key: HashMap<Key, Analysis>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    sql: String,
    user: String,
    search_path: Vec<String>,
    settings: u64,
    types: Vec<Oid>,
}

impl Analyses {
    fn get(&self, catalog_version: u64, key: &Key) -> Option<Analysis> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.catalog_version == catalog_version { kept.by_key.get(key).cloned() } else { None }
    }

    fn insert(&self, catalog_version: u64, key: Key, analysis: Analysis) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = kept.by_key.len() >= KEPT_MAX || kept.bytes + key.sql.len() > KEPT_BYTES_MAX;
        if kept.catalog_version != catalog_version || is_full {
            *kept = Kept { catalog_version, ..Kept::default() };
        }
        kept.bytes += key.sql.len();
        kept.by_key.insert(key, analysis);
    }
}

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

impl Session {
    /// The statement as PostgreSQL reads it, ready to be planned; as it is if PostgreSQL cannot be asked.
    pub(crate) async fn analysed(
        &mut self,
        statement: &Statement,
        call: &Call,
        known: Option<&Description>,
        catalog: &Catalog,
        search_path: &[String],
        temporary: &TempNames,
    ) -> Result<Option<Statement>> {
        let Some(sql) = statement.to_analyse().filter(|sql| sql.len() <= TEXT_BYTES_MAX) else { return Ok(None) };
        let Some(place) = self.place_of_analysis(statement, temporary) else { return Ok(None) };
        let sees_the_same = temporary.all.is_empty() && !statement.names_temporary(&[]);
        let is_kept = place != Place::Block && sees_the_same && !statement.has_moving_constant();
        let key = Key {
            user: self.identity().user.clone(),
            search_path: search_path.to_vec(),
            settings: self.settings_in_force(),
            types: call.parameters.as_ref().map(|parameters| parameters.types.clone()).unwrap_or_default(),
            sql,
        };
        let kept = if is_kept { self.context.analyses.get(catalog.version(), &key) } else { None };
        let analysis = match kept {
            Some(analysis) => analysis,
            None => {
                let asked = self.analyse(statement, &key.sql, place, call, known, catalog).await?;
                let Some(analysis) = asked else { return Ok(None) };
                if is_kept {
                    self.context.analyses.insert(catalog.version(), key, analysis.clone());
                }
                analysis
            }
        };
        Ok(Some(statement.analysed(&analysis)))
    }

    /// `None`: nowhere.
    fn place_of_analysis(&self, statement: &Statement, temporary: &TempNames) -> Option<Place> {
        let Some(block) = &self.block else { return Some(Place::Home) };
        let only_here = block.schema_changed || block.ran_ddl || block.locked || block.fills_table;
        if !only_here && !statement.names_temporary(&temporary.all) {
            return (!self.held.contains_key(&BESIDE)).then_some(Place::Beside);
        }
        (!block.failed && !block.read_only).then_some(Place::Block)
    }

    /// All that the session has set, and the block so far.
    fn settings_in_force(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.login.as_ref().map(|login| login.stamp).hash(&mut hasher);
        match &self.block {
            None => self.settings.fingerprint().hash(&mut hasher),
            Some(block) => (block.settings_at_begin.fingerprint(), block.settings_made()).hash(&mut hasher),
        }
        hasher.finish()
    }

    /// `None`: PostgreSQL takes the statement, but not as the body of a function.
    async fn analyse(
        &mut self,
        statement: &Statement,
        sql: &str,
        place: Place,
        call: &Call,
        known: Option<&Description>,
        catalog: &Catalog,
    ) -> Result<Option<Analysis>> {
        let types = self.types_of_parameters(statement, sql, call, known).await?;
        let Some(names) = self.context.clone().type_names_of(catalog, &types).await? else { return Ok(None) };
        let declared = call.declared_types();
        let is_undeclared = |at: &usize| declared.get(*at).is_none_or(|oid| *oid == 0);
        let given = call.parameters.as_ref().map(|parameters| parameters.types.as_slice()).unwrap_or_default();
        let parameter = |at: usize| Undeclared {
            number: at as i32 + 1,
            type_name: names[at].clone(),
            was_declared: given.get(at).is_some_and(|oid| *oid != 0),
        };
        let undeclared: Vec<Undeclared> = (0..names.len()).filter(is_undeclared).map(parameter).collect();
        match self.ask(sql, &names.join(", "), place).await {
            Ok(rows) => analysis_of(&rows, &undeclared).map(Some),
            // The lock may be the block's own, or that of somebody who waits for it: the statement goes by its words.
            Err(error) if place == Place::Beside && error.code() == SqlState::LOCK_NOT_AVAILABLE => Ok(None),
            Err(error) if is_about_the_statement(&error) => {
                // In PostgreSQL's words for the user's own text, with the place in it.
                let described = self.describe(sql, &call.declared_types()).await;
                described.map_err(|error| placed(error, &statement.sql, sql))?;
                tracing::debug!(%error, "planned without analysis");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    async fn types_of_parameters(
        &mut self,
        statement: &Statement,
        sql: &str,
        call: &Call,
        known: Option<&Description>,
    ) -> Result<Vec<Oid>> {
        if statement.parameters == 0 {
            return Ok(Vec::new());
        }
        let declared = call.parameters.as_ref().map(|parameters| parameters.types.clone()).unwrap_or_default();
        match known {
            Some(known) if known.parameters.len() >= statement.parameters => Ok(known.parameters.clone()),
            _ if declared.len() >= statement.parameters && !declared.contains(&0) => Ok(declared),
            _ => Ok(self.describe(sql, &call.declared_types()).await?.parameters),
        }
    }

    async fn ask(&mut self, sql: &str, arguments: &str, place: Place) -> Result<Vec<Row>> {
        let steps = format!(
            "SET LOCAL check_function_bodies = off; \
             CREATE FUNCTION pg_temp.loxo_analyse({arguments}) RETURNS void LANGUAGE sql BEGIN ATOMIC\n{sql}\n; END; \
             {PRINTING}; {READ_BACK}"
        );
        let begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
        match place {
            Place::Home => self.ask_on(self.home, &format!("{begin}; {steps}; ROLLBACK"), "ROLLBACK").await,
            Place::Beside => {
                let made = self.block.as_ref().map(|block| block.settings_made()).unwrap_or_default();
                let begin = made.iter().fold(begin.to_owned(), |sql, command| format!("{sql}; {command}"));
                let begin = format!("{begin}; SET LOCAL lock_timeout = '{BESIDE_LOCK_TIMEOUT_MS}ms'");
                let result = self.ask_on(BESIDE, &format!("{begin}; {steps}; ROLLBACK"), "ROLLBACK").await;
                self.let_go(BESIDE);
                result
            }
            Place::Block => {
                let end = "ROLLBACK TO SAVEPOINT loxo_analyse; RELEASE SAVEPOINT loxo_analyse";
                let result = self.ask_on(self.home, &format!("SAVEPOINT loxo_analyse; {steps}; {end}"), end).await;
                let home = self.home;
                if let Some(held) = self.held.get_mut(&home) {
                    // A transaction that has used pg_temp cannot be prepared.
                    held.temp = true;
                }
                result
            }
        }
    }

    /// The rows of a text of several statements; `end` is sent if one of them fails.
    async fn ask_on(&mut self, node: NodeId, sql: &str, end: &str) -> Result<Vec<Row>> {
        match node {
            BESIDE => self.hold_as_is(BESIDE, Mode::Autocommit).await?,
            home => self.hold_to_ask(home).await?,
        }
        let held = self.link(node)?;
        held.link.connection.query(sql.as_bytes());
        held.flush().await?;
        held.skip_preamble().await?;
        let result = held.link.connection.read_rows().await;
        if result.is_err() && held.link.connection.is_settled() && !held.link.connection.is_broken() {
            held.link.connection.execute(end).await?;
        }
        // Whatever is said about the function is no news to the user.
        held.link.connection.take_notices();
        if self.block.is_none() {
            self.release();
        }
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
            let sql = "SELECT oid, 'pg_catalog.' OPERATOR(pg_catalog.||) pg_catalog.quote_ident(typname) \
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
    for row in rows.iter().filter(|row| row.get(1).is_some_and(Option::is_some)) {
        let object = number(row, 2)?;
        match number(row, 1)? {
            PG_CLASS => uses.relations.insert(object),
            PG_PROC => uses.functions.insert(object),
            PG_OPERATOR => uses.operators.insert(object),
            PG_TYPE => uses.types.insert(object),
            _ => false,
        };
    }
    let body = optional(first, 0)?.ok_or_else(|| PgError::internal("an analysed statement without a text"))?;
    Analysis::new(body, uses, undeclared)
}

/// An error about a part of a statement, with its place in the whole.
fn placed(error: PgError, whole: &str, part: &str) -> PgError {
    match (whole.find(part), error.text(field::POSITION).parse::<usize>()) {
        (Some(at), Ok(position)) if at > 0 => error.position(whole[..at].chars().count() + position),
        _ => error,
    }
}

/// Not of the server or the session: PostgreSQL has something against the text.
fn is_about_the_statement(error: &PgError) -> bool {
    let code = error.code();
    let class = &code.as_str()[..2];
    ["0A", "22", "42", "54", "2B", "3F"].contains(&class)
}
