//! Planning with the session's catalog.

use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use catalog::{Catalog, Meaning, NodeId, Oid};
use pgerror::{PgError, Result, SqlState, field};
use pgproto::backend::Field;
use planner::{DdlPlan, Expanded, Moment, OutputColumn, Plan, ReadAs, SessionFacts, Statement, StatementKind};

use crate::backend::call::Call;
use crate::backend::isolation::Isolation;
use crate::backend::own_statements::Own;
use crate::backend::pool::sequence_values::not_here;
use crate::block::Mode;
use crate::block::table_locks::LockedCopies;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::plan_cache::analysis::Asked;
use crate::session::Session;
use crate::session::describe::{Description, parameter_facts};
use crate::shared::figures::count_plan;
use crate::shared::long_texts::lengthy;
use crate::shared::plan_validity::PlanValidity;
use crate::shared::templates::{Holds, Planned};

impl Session {
    /// Plans a statement. An error of the planner about a statement that PostgreSQL would refuse anyway becomes PostgreSQL's.
    pub async fn plan(&mut self, statement: &Statement, call: &Call, known: Option<&Description>) -> Result<Plan> {
        if let Some(plan) = self.kept_plan(statement, call, known).await? {
            count_plan(false);
            self.must_be_planned_alike(&plan, statement, call).await?;
            return Ok(plan.plan.clone());
        }
        count_plan(true);
        let lessons = std::mem::take(&mut self.lessons);
        let planned = self.plan_at_one_moment(statement, call, known).await;
        if planned.is_ok() {
            Box::pin(self.learn(lessons, call)).await;
        }
        match planned {
            Ok(Plan::AutoReplicate(moves)) => {
                Box::pin(self.auto_replicate(&moves)).await?;
                Box::pin(self.plan(statement, call, known)).await
            }
            Ok(Plan::Ddl(ddl)) if !ddl.moves.is_empty() => {
                self.check_auto_replicate(statement, &ddl).await?;
                Ok(Plan::Ddl(ddl))
            }
            Ok(plan) => Ok(plan),
            // PostgreSQL has said it already.
            Err(error) if is_of_postgresql(&error) => Err(error),
            Err(error)
                if error.code() == SqlState::FEATURE_NOT_SUPPORTED || error.code() == SqlState::UNDEFINED_TABLE =>
            {
                if let Some(sql) = describable(statement) {
                    self.describe(&sql, &call.fragment_types(&sql)).await?;
                    self.refuse_without_rights(&sql, call).await?;
                }
                self.try_on_home(statement).await?;
                Err(error)
            }
            Err(error) => {
                self.try_on_home(statement).await?;
                Err(error)
            }
        }
    }

    /// Before tables are moved for a schema change PostgreSQL is asked whether the user may make it. Tables of others do not
    /// give way to it.
    async fn check_auto_replicate(&mut self, statement: &Statement, ddl: &DdlPlan) -> Result<()> {
        let notices = self.take_notices();
        let tried = self.try_on_home(statement).await;
        // They come when it is done.
        self.take_notices();
        self.notices = notices;
        tried?;
        self.must_own(&ddl.moves).await.map_err(|error| match error.code() {
            // Outside a transaction nothing was tried.
            SqlState::INSUFFICIENT_PRIVILEGE if !ddl.outside_transaction => {
                PgError::unsupported("a schema change for which another's table would get another distribution")
                    .detail(format!("{}.", error.message()))
                    .hint("Let its owner run ALTER TABLE … DISTRIBUTE BY first.")
            }
            _ => error,
        })
    }

    /// We refuse a DDL statement: if PostgreSQL would too, its error is the better one. It is tried on the home node and
    /// taken back.
    async fn try_on_home(&mut self, statement: &Statement) -> Result<()> {
        let Some(sql) = planner::as_schema_change(statement) else { return Ok(()) };
        let home = self.home;
        if self.in_block() {
            self.run_on(home, "SAVEPOINT loxo_try").await?;
            let tried = self.run_on(home, &sql).await;
            self.run_on(home, "ROLLBACK TO loxo_try; RELEASE loxo_try").await?;
            return about_the_statement(statement, tried);
        }
        self.begin_own(Isolation::ReadCommitted, Vec::new(), false);
        let tried = self.run_on(home, &sql).await;
        self.rollback().await;
        match tried {
            // The transaction is ours.
            Err(error) if error.code() == SqlState::ACTIVE_SQL_TRANSACTION => Ok(()),
            tried => about_the_statement(statement, tried),
        }
    }

    /// One moment for all nodes: a transaction block takes its time from the first node it touches, any other statement over
    /// several nodes from the home node. What runs elsewhere, and reads the clock, is planned with that time in its text.
    async fn plan_at_one_moment(
        &mut self,
        statement: &Statement,
        call: &Call,
        known: Option<&Description>,
    ) -> Result<Plan> {
        let planned = self.plan_once(statement, call, known, None).await;
        let holds = planned.as_ref().map_or(Holds::Once, |planned| planned.holds);
        let first = planned.map(|planned| planned.plan);
        // LOCK TABLE computes nothing; where it comes first, what keeps its snapshot takes that after it.
        if first.as_ref().is_err_and(is_of_postgresql) || statement.kind == StatementKind::Lock {
            return first;
        }
        let clock = self.clock();
        if call.now.is_none() && first.as_ref().is_ok_and(|plan| self.reads_moments_by(plan)) {
            return first;
        }
        // What the home node evaluates of its own accord would get another time.
        // Temp tables of a block that may be PREPAREd are filled by another transaction.
        let elsewhere = call.now.is_some() || clock.is_some_and(|clock| clock != self.home) || self.stays_clean();
        let default_reads_clock = elsewhere && first.as_ref().is_ok_and(Plan::default_reads_clock);
        let default_reads_clock =
            default_reads_clock || planner::sets_default(statement) || self.parts_read_clock(statement).await?;
        if !default_reads_clock && !planner::reads_clock(statement) {
            if let Ok(plan) = &first {
                self.keep_plan(statement, call, known, (plan, holds)).await?;
            }
            return first;
        }
        let now = match &call.now {
            Some(now) => Moment::clone(now),
            None => self.moment(clock.unwrap_or(self.home)).await?,
        };
        if !statement.has_moving_constant() {
            return self.plan_once(statement, call, known, Some(&now)).await.map(|planned| planned.plan);
        }
        let typed = self.with_typed_words(statement, call).await?;
        let statement = typed.as_ref().unwrap_or(statement);
        // PostgreSQL's analysis would read the clock for it.
        let read = match self.read_by_postgresql(statement, call, Meaning::Now).await? {
            None => self.read_by_postgresql(statement, call, Meaning::StatementTime).await?,
            read => read,
        };
        let rewritten = planner::at_one_moment(read.as_ref().unwrap_or(statement), &now)?;
        // Defaults go with what the statement itself says.
        let now = (default_reads_clock || elsewhere || rewritten.is_some()).then_some(&now);
        let planned = match rewritten {
            Some(rewritten) => self.plan_once(&rewritten, call, known, now).await,
            None if default_reads_clock => self.plan_once(statement, call, known, now).await,
            None => return first,
        };
        planned.map(|planned| planned.plan)
    }

    /// The statement with types for words like `'now'` that get them from where they stand.
    async fn with_typed_words(&mut self, statement: &Statement, call: &Call) -> Result<Option<Statement>> {
        let loaded = self.catalog().await?;
        let search_path = self.search_path(&loaded.catalog).await?;
        let temporary = self.temp_relations().await?;
        let mut left = Vec::new();
        loop {
            let Some(marked) = planner::with_marked_words(statement, &left)? else { return Ok(None) };
            match self.answer_to(&marked, call, None, &loaded.catalog, &search_path, &temporary).await? {
                Asked::Analysed(analysis) => {
                    return planner::with_typed_words(statement, &marked.analysed(&analysis));
                }
                Asked::Refused(at) => match at.and_then(|at| planner::word_at(&marked.sql, at)) {
                    Some(word) if !left.contains(&word) => left.push(word),
                    _ => return Ok(None),
                },
                Asked::Locked | Asked::Impossible => return Ok(None),
            }
        }
    }

    /// Do views or functions, which may be put into the statement, read the clock?
    async fn parts_read_clock(&mut self, statement: &Statement) -> Result<bool> {
        let loaded = self.catalog().await?;
        Ok(planner::bodies_read_clock(statement, &loaded.catalog)
            || planner::views_read_clock(statement, &loaded.catalog, &self.temp_relations().await?.views))
    }

    /// An error as the home node has it when it reads the user's own text: with its exact place, and with a hint if there is
    /// one. In other words it would be of something that only we understand. The node is asked beside the session's own
    /// transaction, which has failed.
    pub async fn as_read_by_home(&mut self, sql: &str, error: PgError) -> PgError {
        let read = self.read_beside(sql).await;
        self.close_beside().await;
        read.err().filter(|other| other.message() == error.message()).unwrap_or(error)
    }

    /// The error of a statement of which nodes got parts. PostgreSQL understands all of a statement before it runs any of it, so
    /// what the home node says to the whole text goes before what a node has found in its part. Types of parameters may say more
    /// than the text, and objects that the session has made are not seen beside it: then it is asked for the place only.
    pub async fn as_whole_read_by_home(&mut self, sql: &str, call: &Call, error: PgError) -> PgError {
        let error = error.without(field::POSITION);
        if !is_of_postgresql(&error) || !is_of_class(&error, &["22", "23", "42", "P0"]) {
            return error;
        }
        let sees_all = self.is_ordinary() && call.parameters.is_none();
        let read = self.read_beside(sql).await;
        self.close_beside().await;
        let goes_first = |other: &PgError| {
            let is_of_text = other.get(field::POSITION).is_some() && is_of_class(other, &["0A", "22", "42"]);
            other.message() == error.message() || (sees_all && is_of_text)
        };
        read.err().filter(goes_first).unwrap_or(error)
    }

    /// The result of a COPY; an error that its options were found to have, or that is about a place in its text, in the home
    /// node's words. Without `sql` nobody is asked.
    pub(crate) async fn copy_placed_by_home<T>(
        &mut self,
        sql: Option<&str>,
        is_from: bool,
        is_checked: bool,
        result: Result<T>,
    ) -> Result<T> {
        // One with a context is about the data.
        let is_of_text = |error: &PgError| error.get(field::POSITION).is_some() && error.get(field::WHERE).is_none();
        match (result, sql) {
            (Err(error), Some(sql)) if !is_checked || is_of_text(&error) => {
                let refused = self.copy_beside(sql, is_from).await;
                self.close_beside().await;
                Err(better_worded(error, refused.err()))
            }
            (Err(error), None) if is_of_text(&error) => Err(error.without(field::POSITION)),
            (result, _) => result,
        }
    }

    /// Gives the user's own text to the home node. If that takes it, it is left in the middle: a COPY FROM has got no data, a
    /// COPY TO may change nothing. The session's own block may hold a lock on the table.
    async fn copy_beside(&mut self, sql: &str, is_from: bool) -> Result<()> {
        let beside = self.beside_home();
        self.acquire_as_is(beside, Mode::Autocommit).await?;
        let leased = self.links.link(beside)?;
        let begin = if is_from { "BEGIN" } else { "BEGIN READ ONLY" };
        leased.link.connection.execute(&format!("{begin}; SET LOCAL lock_timeout TO 1")).await?;
        leased.begun = true;
        leased.link.connection.query(sql.as_bytes());
        leased.flush().await?;
        leased.next().await.map(|_| ())
    }

    async fn read_beside(&mut self, sql: &str) -> Result<()> {
        let beside = self.beside_home();
        self.acquire_as_is(beside, Mode::Autocommit).await?;
        let leased = self.links.link(beside)?;
        leased.link.connection.execute("BEGIN READ ONLY; SET LOCAL lock_timeout TO 1").await?;
        leased.begun = true;
        leased.start_describe(sql, &[]);
        leased.flush().await?;
        leased.read_description().await.map(|_| ())
    }

    /// What a node's clock says: `now()` and `statement_timestamp()`.
    pub(crate) async fn moment(&mut self, node: NodeId) -> Result<Moment> {
        self.acquire_to_ask(node).await?;
        let leased = self.links.link(node)?;
        Own::Moment.queue(&mut leased.link.connection);
        leased.link.connection.sync();
        leased.flush().await?;
        leased.skip_preamble().await?;
        let read = leased.link.connection.read_rows().await;
        let (rows, _) = read.inspect_err(|error| leased.give_up_without_statements(error))?;
        let mut values =
            rows.into_iter().flatten().map(|value| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned());
        let mut next = || values.next().unwrap_or_default();
        let (transaction, statement) = (next(), next());
        // Outside a block the two are one, but a prepared statement begins its transaction with Bind and itself with Execute.
        let statement = if self.in_block() { statement } else { transaction.clone() };
        Ok(Moment { transaction, statement })
    }

    /// With `now` it is planned with that time. The time is written into what PostgreSQL has analysed, since the analysis is kept by its
    /// text.
    pub(crate) async fn plan_once(
        &mut self,
        statement: &Statement,
        call: &Call,
        known: Option<&Description>,
        now: Option<&Moment>,
    ) -> Result<Planned> {
        let loaded = self.catalog().await?;
        self.note_leavings(statement, &loaded.catalog);
        // The analysis of the statement needs no values.
        let reads_drawn = std::mem::take(&mut self.leaves.reads_drawn);
        let search_path = self.search_path(&loaded.catalog).await?;
        let temporary = self.temp_relations().await?;
        let validity = match temporary.views.is_empty() {
            true => PlanValidity::new(&loaded, &statement.sql, Some(&search_path)),
            // Their definitions may have been printed under another path.
            false => PlanValidity::new(&loaded, &format!("{}{}", statement.sql, temporary.definitions()), None),
        };
        let (loaded, unfit_to_write) = self.plan_from(validity)?;
        let described;
        let known = match known {
            None if statement.creates_table_as() => match statement.query_to_describe() {
                Some(query) => {
                    described = self.describe_filler(statement, &query, &call.fragment_types(&query)).await?;
                    Some(&described)
                }
                None => None,
            },
            known => known,
        };
        let columns: Option<Vec<OutputColumn>> =
            known.and_then(|description| description.fields.as_ref()).map(|fields| {
                let column = |field: &Field| OutputColumn {
                    name: String::from_utf8_lossy(&field.name).into_owned(),
                    type_oid: field.type_oid,
                    type_modifier: field.type_modifier,
                };
                fields.iter().map(column).collect()
            });
        let analysed = self.analysed(statement, call, known, &loaded.catalog, &search_path, &temporary).await?;
        let is_unknown = analysed.is_none() && known.is_none();
        let is_common = analysed.is_some() && self.analysis_is_common;
        let statement = analysed.as_ref().unwrap_or(statement);
        let at_moment = now.map(|now| planner::at_one_moment(statement, now)).transpose()?.flatten();
        let statement = at_moment.as_ref().unwrap_or(statement);
        self.leaves.reads_drawn = reads_drawn;
        let with_drawn = self.with_values_drawn(statement, &loaded.catalog).await?;
        let statement = with_drawn.as_ref().unwrap_or(statement);
        let parameters = parameter_facts(call, known);
        let depends = AtomicU8::new(0);
        let is_common = is_common && with_drawn.is_none() && now.is_none();
        let (mut changed, mut estimated) = (None, false);
        loop {
            let estimates = self.context.estimates.known(loaded.catalog.schema_version());
            let facts = SessionFacts {
                search_path: &search_path,
                temp_relations: &temporary.names,
                temp_views: &temporary.views,
                temp_code: &temporary.code,
                temp_functions: &temporary.functions,
                temp_types: &temporary.types,
                parameters: &parameters,
                describe: columns.as_deref(),
                now,
                exchanges: changed.as_deref().map_or(self.exchanges(), |changed| self.exchanges_but(changed)),
                estimates: Some(&estimates),
                few_rows: self.few_rows(),
                depends: Some(&depends),
                ..self.bare_facts()
            };
            let plan = lengthy(statement.sql.len(), || planner::plan(statement, &loaded.catalog, &facts))?;
            if let Some(error) = unfit_to_write.as_ref().filter(|_| plan.facts().writes) {
                return Err(error.clone());
            }
            self.copies_to_lock = LockedCopies::default();
            let may_lock = plan.facts().writes && !self.is_read_only();
            if let Some(block) = self.block.as_ref().filter(|_| may_lock) {
                let find = || planner::locked_copies(statement, &loaded.catalog, &facts);
                let tables = lengthy(statement.sql.len(), find)?;
                self.copies_to_lock = LockedCopies { tables, after_changes: block.wrote };
            }
            if statement.kind == StatementKind::RefreshMaterializedView
                && !statement.runs_as_owner()
                && let Some(view) = planner::refreshed(statement, &loaded.catalog, &facts)?
                && let Some(owner) = self.other_owner(view).await?
            {
                let plan = planner::refresh_as(&owner, statement, &loaded.catalog, &facts)?;
                self.refuse_code_behind_refresh(view).await?;
                return Ok(Planned::once(plan));
            }
            let mut holds =
                if is_common && changed.is_none() { Holds::of(depends.load(Ordering::Relaxed)) } else { Holds::Once };
            if !statement.reads_as_owner() {
                let views = planner::expanded_views(&plan, statement, &loaded.catalog, &facts)?;
                if !views.read.is_empty() || !views.tables.is_empty() {
                    holds = Holds::Once;
                }
                let others = self.others_views(&views, call).await?;
                if let Some(first) = others.first() {
                    let lifted: Option<Vec<Oid>> = others.iter().map(|read| read.under).collect();
                    let plan = match &lifted {
                        Some(lifted) => planner::views_first(statement, &loaded.catalog, &facts, lifted)?,
                        None => None,
                    };
                    let plan = plan.ok_or_else(|| with_other_rights(first))?;
                    if loaded.catalog.all_functions().next().is_some() {
                        self.refuse_code_behind_views(&lifted.unwrap_or_default()).await?;
                    }
                    return Ok(Planned::once(plan));
                }
            }
            if is_unknown && matches!(plan, Plan::Gather(_) | Plan::ExchangePlan(_)) {
                self.describe(&statement.sql, &call.fragment_types(&statement.sql)).await?;
            }
            let Some(exchange_plan) = plan.exchange_plan() else { return Ok(Planned { plan, holds }) };
            if changed.is_none() && self.block.as_ref().is_some_and(|block| block.wrote) {
                changed = Some(self.changed_tables().await?);
            } else if !estimated && !exchange_plan.estimates_wanted.is_empty() {
                self.estimate(&exchange_plan.estimates_wanted, call, loaded.catalog.schema_version()).await?;
                estimated = true;
            } else {
                return Ok(Planned::once(plan));
            }
        }
    }

    /// A statement that asks for values of sequences which another backend had, with these values in it.
    async fn with_values_drawn(&mut self, statement: &Statement, catalog: &Catalog) -> Result<Option<Statement>> {
        if !self.leaves.reads_drawn || !self.links.drawn().are_any() {
            return Ok(None);
        }
        // The link is for this statement from now on, whatever it has; what the statement draws it has not drawn yet.
        let leaves = std::mem::take(&mut self.leaves);
        let acquired = self.acquire_to_ask(self.home).await;
        self.leaves = leaves;
        acquired?;
        // Nothing is on its way there when the plan turns out to need another link first.
        let leased = self.links.link(self.home)?;
        leased.flush().await?;
        leased.skip_preamble().await?;
        let Some(elsewhere) = self.links.drawn_elsewhere(self.context.pool()).await? else { return Ok(None) };
        let with_drawn = planner::with_values_drawn(statement, catalog, &elsewhere.remembered)?;
        let left = planner::leavings(with_drawn.as_ref().unwrap_or(statement), catalog);
        if left.reads_drawn && !left.drawn && self.links.drawn().present().is_none() {
            return Err(not_here());
        }
        self.leaves.reads_drawn = left.reads_drawn || elsewhere.were_lost;
        Ok(with_drawn)
    }

    /// All names that the FROM of a statement may give a meaning; `None` if not all of them are known.
    pub async fn names_in_from(&mut self, sql: &str) -> Result<Option<std::collections::HashSet<String>>> {
        self.with_facts(|catalog, facts| planner::names_in_from(sql, catalog, facts)).await
    }

    /// Views that are replaced by their definitions are read with the user's rights. Gives what is to be read under them with other
    /// rights, where the answer could be another.
    async fn others_views<'v>(&mut self, views: &'v Expanded, call: &Call) -> Result<Vec<&'v ReadAs>> {
        if views.read.is_empty() && views.tables.is_empty() {
            return Ok(Vec::new());
        }
        let is_open = |(_, view): &(String, Oid)| format!("has_table_privilege({view}::oid, 'SELECT')");
        let is_owner = |owner: &String| format!("CURRENT_USER = {}", catalog::quote_literal(owner));
        let is_other = |read: &ReadAs| {
            let (owner, table, policies) = (catalog::quote_literal(&read.owner), read.table, read.has_policies);
            format!(
                "(SELECT CURRENT_USER <> {owner} AND (NOT has_table_privilege({table}::oid, 'SELECT') \
                 OR NOT has_schema_privilege(c.relnamespace, 'USAGE') OR {policies} \
                 AND (row_security_active({table}::oid) OR NOT (r.rolsuper OR r.rolbypassrls \
                   OR pg_has_role(r.oid, c.relowner, 'USAGE') AND NOT c.relforcerowsecurity))) \
                 FROM pg_catalog.pg_roles r, pg_catalog.pg_class c WHERE r.rolname = {owner} AND c.oid = {table})"
            )
        };
        let questions = views.read.iter().map(is_open).chain(views.owners.iter().map(is_owner));
        let questions: Vec<String> = questions.chain(views.tables.iter().map(is_other)).collect();
        let sql = planner::own_text(&format!("SELECT {}", questions.join(", ")))?;
        let answers = self.rows_on(self.home, &sql).await?.into_iter().next().unwrap_or_default();
        let (own, others) = answers.split_at_checked(views.read.len() + views.owners.len()).unwrap_or_default();
        let is_true = |answer: &Option<Bytes>| answer.as_deref() == Some(b"t");
        let others = views.tables.iter().zip(others).filter(|(_, answer)| is_true(answer)).map(|(read, _)| read);
        let others: Vec<&ReadAs> = others.collect();
        // Rights on columns, and those of the views' owners, PostgreSQL looks at when a statement is about to run.
        if views.nested || !own.iter().all(is_true) {
            self.require_rights(&views.sql, call).await?;
        }
        Ok(others)
    }

    /// The owner of a materialized view, if it is another role than the present one, which may refresh it, or than the one that has
    /// logged in, which the present one can become again.
    async fn other_owner(&mut self, view: Oid) -> Result<Option<String>> {
        let sql = format!(
            "SELECT r.rolname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_roles r ON r.oid = c.relowner \
             WHERE c.oid = {view} AND (r.rolname <> CURRENT_USER OR r.rolname <> {}) \
             AND pg_has_role(r.oid, 'USAGE')",
            catalog::quote_literal(&self.links.identity().user)
        );
        let rows = self.rows_on(self.home, &planner::own_text(&sql)?).await?;
        let owner = rows.into_iter().next().and_then(|row| row.into_iter().next().flatten());
        Ok(owner.map(|owner| String::from_utf8_lossy(&owner).into_owned()))
    }

    /// Runs a plan of our own inside another statement.
    pub(crate) async fn run_plan(&mut self, plan: &Plan, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        let result = Box::pin(self.dispatch(plan, call, output)).await;
        if result.is_err() {
            self.fail();
        }
        result
    }

    /// May the session's role do with the server's files what a COPY of this kind does? That it may not is PostgreSQL's to say:
    /// the words are those of its version.
    pub async fn may_copy(&mut self, what: ServerFiles) -> Result<()> {
        let (role, without_effect) = match what {
            ServerFiles::Read => ("pg_read_server_files", "COPY pg_catalog.pg_class FROM '/dev/null'"),
            ServerFiles::Write => ("pg_write_server_files", "COPY (SELECT) TO '/dev/null'"),
            ServerFiles::Execute => ("pg_execute_server_program", "COPY (SELECT) TO PROGRAM ':'"),
        };
        let sql = format!("SELECT pg_catalog.pg_has_role({}, 'USAGE')", catalog::quote_literal(role));
        let rows = self.rows_on(self.home, &sql).await?;
        if rows.first().and_then(|row| row.first()?.as_deref()) == Some(b"t") {
            return Ok(());
        }
        self.rows_on(self.home, without_effect).await.map(drop)
    }
}

/// What a COPY with a file or a program wants of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum ServerFiles {
    Read,
    Write,
    Execute,
}

fn with_other_rights(read: &ReadAs) -> PgError {
    let ReadAs { view, owner, .. } = read;
    if read.under.is_none() {
        let what =
            format!("this change of view \"{view}\", whose table is changed with the rights of role \"{owner}\",");
        return PgError::unsupported(what)
            .detail("The datanodes cannot make it each for itself.")
            .hint("Change rows of one datanode at a time, or change them as that role.");
    }
    PgError::unsupported(format!(
        "view \"{view}\", which reads tables with the rights of role \"{owner}\", in a statement that moves its rows"
    ))
    .hint("Read the view in a query of its own, or as that role.")
}

fn is_of_class(error: &PgError, classes: &[&str]) -> bool {
    classes.iter().any(|class| error.code().as_str().starts_with(class))
}

/// Has a datanode said it? Its errors name the place in its source.
fn is_of_postgresql(error: &PgError) -> bool {
    error.get(field::ROUTINE).is_some()
}

/// An error about the home node's own rows (class 23) says nothing of the statement, nor one about the column that is named only to
/// ask whether the table's distribution may be changed.
fn about_the_statement<T>(statement: &Statement, tried: Result<T>) -> Result<()> {
    let is_of_column = |error: &PgError| {
        matches!(statement.kind, StatementKind::Redistribute(_)) && error.code() == SqlState::UNDEFINED_COLUMN
    };
    match tried {
        Err(error) if is_of_column(&error) => Ok(()),
        Err(error) if !error.code().as_str().starts_with("23") => Err(error),
        _ => Ok(()),
    }
}

/// The text that PostgreSQL can be asked about before the statement runs.
fn describable(statement: &Statement) -> Option<String> {
    match &statement.kind {
        StatementKind::Select
        | StatementKind::Insert
        | StatementKind::Update
        | StatementKind::Delete
        | StatementKind::Merge => Some(statement.sql.to_string()),
        _ => statement.query_to_describe(),
    }
}

/// The home node's error about a COPY, if it is the same with its place, or what PostgreSQL finds before an error of ours. It
/// may not know a table that this transaction has made, nor get a lock that it holds, nor know an option that we take on every
/// version.
fn better_worded(error: PgError, said: Option<PgError>) -> PgError {
    let could_look = |said: &PgError| {
        let knows_less = said.message().starts_with("option \"") && said.message().ends_with("not recognized");
        !knows_less && (said.code() == error.code() || !matches!(said.code().as_str(), "42P01" | "55P03"))
    };
    let is_ours = error.get(field::POSITION).is_none();
    let is_better = |said: &PgError| said.message() == error.message() || (is_ours && could_look(said));
    said.filter(is_better).unwrap_or_else(|| error.without(field::POSITION))
}
