//! COPY FROM of lines that only PostgreSQL can complete or split: by way of a temp copy of the table on the home node. And
//! COPY into tables that only the home node has.

use copyfmt::{CopyOptions, Format, OnError, RowLines};
use pgerror::{PgError, Result, SqlState};
use pgproto::frontend;
use planner::parse::{CopyStatement, CopyValue};
use planner::{CopyFrom, CopyHome, Stage};

use crate::backend::call::Call;
use crate::backend::pool::sequence_values::without_own_context;
use crate::copy::from::{column_list, copy_options};
use crate::copy::input::{CLIENT_GAVE_UP, CopySource};
use crate::dml::staged::without_copy_context;
use crate::engine::gather::without_position;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::engine::spool::Spool;
use crate::session::Session;

/// The conditions of a table as actions of ALTER TABLE, in the order in which PostgreSQL checks them.
const CHECKS: &str = "SELECT (SELECT string_agg(action, ', ' ORDER BY kind, name) FROM ( \
       SELECT 1, a.attname, format('ALTER %I SET NOT NULL', a.attname) FROM pg_catalog.pg_attribute a \
       WHERE a.attrelid = t.oid AND a.attnum > 0 AND a.attnotnull AND NOT a.attisdropped \
       UNION ALL SELECT 2, c.conname, format('ADD CONSTRAINT %I %s', c.conname, pg_get_constraintdef(c.oid)) \
       FROM pg_catalog.pg_constraint c WHERE c.conrelid = t.oid AND c.contype = 'c' \
     ) AS actions (kind, name, action)) FROM pg_catalog.pg_class AS t WHERE t.oid =";

impl Session {
    async fn create_copy_stage(&mut self, stage: &Stage) -> Result<()> {
        let home = self.home;
        let target = catalog::quote_literal(&stage.target.qualified_name());
        // LIKE wants to read the table, COPY FROM does not.
        let may_read = format!("SELECT pg_catalog.has_table_privilege({target}, 'SELECT')");
        let may_read =
            self.rows_on(home, &may_read).await?.first().and_then(|row| row.first()?.as_deref()) == Some(b"t");
        match checking_stage(stage).filter(|_| may_read) {
            Some(sql) if self.makes_temp(home).await? => self.run_on(home, &sql).await.map(drop)?,
            Some(_) => {
                self.create_temp(home, &stage.table, &stage.definitions).await?;
                self.add_checks(stage).await?;
            }
            None => self.create_temp(home, &stage.table, &stage.definitions).await?,
        }
        let leased = self.links.link(home)?;
        (leased.temp, leased.gathered) = (true, true);
        Ok(())
    }

    /// Gives a stage the target's conditions.
    async fn add_checks(&mut self, stage: &Stage) -> Result<()> {
        let target = catalog::quote_literal(&stage.target.qualified_name());
        let rows =
            self.rows_on(self.home, &planner::own_text(&format!("{CHECKS} {target}::pg_catalog.regclass"))?).await?;
        let Some(checks) = rows.into_iter().flatten().flatten().next() else { return Ok(()) };
        let table = catalog::quote_identifier(&stage.table);
        let sql = format!("ALTER TABLE pg_temp.{table} {}", String::from_utf8_lossy(&checks));
        self.run_on(self.home, &sql).await.map(drop)
    }

    /// A COPY of nothing: may the table's rows be frozen? (They are not, since they come by way of the stage.)
    async fn check_freeze(&mut self, plan: &CopyFrom, source: &mut CopySource<'_>) -> Result<()> {
        let Some(node) = plan.target.distribution.nodes().into_iter().next() else { return Ok(()) };
        let sql = format!("COPY {} FROM STDIN (FREEZE)", plan.target.qualified_name());
        self.start_copy(&[node], &sql, source).await?;
        let leased = self.links.link(node)?;
        frontend::copy_done(leased.link.connection.out());
        leased.flush().await?;
        leased.finish().await.map(|_| ())
    }

    /// Lines that only PostgreSQL can complete (defaults, generated values): into a temp copy of the table first. It has the
    /// table's name, so errors read as they should.
    pub(crate) async fn copy_staged(
        &mut self,
        plan: &CopyFrom,
        stage: &Stage,
        statement: &CopyStatement,
        options: &CopyOptions,
        mut source: CopySource<'_>,
    ) -> Result<u64> {
        let version = self.catalog().await?.catalog.server_version();
        datanode_can_ignore(options, version)?;
        if options.freeze {
            self.check_freeze(plan, &mut source).await?;
        }
        let may_insert = self.check_copy_rights(plan).await?;
        self.create_copy_stage(stage).await?;
        let mut sql = format!(
            "COPY pg_temp.{}{} FROM STDIN {}",
            catalog::quote_identifier(&stage.table),
            column_list(plan, self.encoding_of_links().is_some()),
            all_options(options, statement)
        );
        if let Some(condition) = &plan.where_sql {
            sql.push_str(" WHERE ");
            sql.push_str(condition);
        }
        self.start_copy(&[self.home], &sql, &mut source).await?;
        let mut lines = (options.format == Format::Csv).then(|| RowLines::new(options, version));
        self.feed_home(source, options, plan.columns.len(), lines.as_mut())
            .await
            .map_err(|error| without_own_context(crate::engine::temp::placement::rename_stage(error, stage)))?;
        let (table, nodes) = (plan.target.qualified_name(), plan.target.distribution.nodes());
        let lent = if may_insert { self.lend_rights(&nodes, &table, &["INSERT"]).await? } else { Vec::new() };
        let mut nothing = Spool::default();
        let drained = self.drain_stage(stage, None, &Call::default(), &mut Output::spool(&mut nothing)).await;
        // If rows were left out, nobody knows which.
        let all_rows = plan.where_sql.is_none() && options.on_error == OnError::Stop;
        let header = u64::from(options.header != copyfmt::Header::No);
        let line_of = |row: u64| lines.as_ref().map_or(Some(row + header), |lines| lines.line(row));
        let rows = drained.map_err(|error| match all_rows {
            true => copyfmt::renumber(error, &stage.target.name, line_of),
            false => without_copy_context(error),
        })?;
        self.take_rights_back(&table, lent).await?;
        self.run_on(self.home, &format!("DROP TABLE pg_temp.{}", catalog::quote_identifier(&stage.table))).await?;
        Ok(rows)
    }

    /// What the stage, which is the user's own, would not ask for: WHERE reads the table's columns, and the lines' columns are inserted. Is
    /// the user to be lent the right to insert all that the stage brings, having rights on the columns of the lines?
    async fn check_copy_rights(&mut self, plan: &CopyFrom) -> Result<bool> {
        let name = plan.target.qualified_name();
        if let Some(condition) = &plan.where_sql {
            let read = format!("SELECT 1 FROM ONLY {name} WHERE {condition}");
            self.check_rights(Some(&read), &Call::simple()).await.map_err(without_position)?;
        }
        let name = catalog::quote_literal(&name);
        let may = |column: &planner::RowColumn| {
            let column = catalog::quote_literal(&column.name);
            format!("pg_catalog.has_column_privilege({name}, {column}, 'INSERT')")
        };
        let columns = plan.columns.iter().map(may).collect::<Vec<_>>().join(" AND ");
        let columns = if columns.is_empty() { "false" } else { &columns };
        let may = format!("SELECT pg_catalog.has_table_privilege({name}, 'INSERT'), {columns}");
        let rows = self.rows_on(self.home, &may).await?;
        let is_true = |at: usize| rows.first().and_then(|row| row.get(at)?.as_deref()) == Some(b"t");
        if !is_true(0) && !is_true(1) {
            let message = format!("permission denied for table {}", plan.target.name);
            return Err(PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        Ok(is_true(1) && self.catalog().await?.catalog.has_column_grants(plan.target.oid))
    }

    /// Runs `COPY table FROM` of what only the home node has. `sql` is the statement's text.
    pub async fn copy_home(
        &mut self,
        plan: &CopyHome,
        statement: &CopyStatement,
        sql: &str,
        mut source: CopySource<'_>,
    ) -> Result<Completion> {
        self.links.cancel().cannot_be_repeated();
        let version = self.catalog().await?.catalog.server_version();
        let options = copy_options(statement, true, version);
        let sql = match (&source, &options) {
            // The node says best what is wrong with it.
            (CopySource::Client(..), _) => sql.to_owned(),
            (CopySource::File(_), Ok(options)) => home_sql(plan, statement, options),
            (CopySource::File(_), Err(error)) => return self.conclude(Err(error.clone())).await,
        };
        self.note_write(true);
        let result = self
            .atomically(async |this| {
                let columns = this.start_copy(&[plan.node], &sql, &mut source).await?;
                this.links.link(plan.node)?.temp = true;
                match options {
                    Ok(options) => this.feed_home(source, &options, columns, None).await,
                    Err(error) => {
                        this.abandon_copy(&[plan.node]).await;
                        Err(error)
                    }
                }
            })
            .await;
        let tag =
            self.conclude(result).await?.ok_or_else(|| PgError::internal("a COPY ended without a command tag"))?;
        Ok(Completion::Tag(tag))
    }

    /// The rest of a COPY on the home node, which gets the input as it is; `lines` are counted on the way.
    async fn feed_home(
        &mut self,
        source: CopySource<'_>,
        options: &CopyOptions,
        columns: usize,
        mut lines: Option<&mut RowLines>,
    ) -> Result<Option<String>> {
        let home = self.home;
        let mut input = self.open_input(source, options, columns, &[home]).await?;
        let failure = loop {
            let chunk = match input.next().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            if let Some(lines) = &mut lines {
                lines.push(chunk.clone());
            }
            let connection = &mut self.links.link(home)?.link.connection;
            connection.out().extend_from_slice(&frontend::copy_data_header(chunk.len()));
            connection.write_through(&chunk).await?;
        };
        let leased = self.links.link(home)?;
        match &failure {
            // The reason comes back in the node's error, with the line it had come to.
            Some(error) => {
                let message = error.message();
                let reason = message.strip_prefix(CLIENT_GAVE_UP).unwrap_or("the input failed");
                frontend::copy_fail(leased.link.connection.out(), reason.as_bytes());
            }
            None => frontend::copy_done(leased.link.connection.out()),
        }
        leased.flush().await?;
        let ended = leased.finish().await;
        match failure {
            Some(error) if error.code() != SqlState::QUERY_CANCELED => Err(error),
            _ => ended,
        }
    }
}

/// A COPY of a file, which we read, into what only the home node has.
fn home_sql(plan: &CopyHome, statement: &CopyStatement, options: &CopyOptions) -> String {
    let mut sql = format!("COPY {} FROM STDIN {}", plan.what, all_options(options, statement));
    if options.freeze {
        sql = sql.replacen('(', "(FREEZE, ", 1);
    }
    if let Some(condition) = &plan.where_sql {
        sql.push_str(" WHERE ");
        sql.push_str(condition);
    }
    sql
}

/// Here it is the home node that leaves rows out.
fn datanode_can_ignore(options: &CopyOptions, version: u32) -> Result<()> {
    let wanted = match options {
        CopyOptions { reject_limit: Some(_), .. } => 180_000,
        CopyOptions { log_verbosity: Some(word), .. } if word == "silent" => 180_000,
        CopyOptions { on_error: OnError::Ignore, .. } => 170_000,
        CopyOptions { log_verbosity: Some(_), .. } => 170_000,
        _ => return Ok(()),
    };
    match version >= wanted {
        true => Ok(()),
        false => Err(PgError::unsupported(
            "COPY with ON_ERROR of lines that only the primary datanode can complete or split, before PostgreSQL 18,",
        )
        .hint("Give values to all columns that have a sequence, and use UTF8.")),
    }
}

/// A stage with the target's conditions, so that a line that breaks one is named as PostgreSQL names it. `None` where they
/// must not be checked yet (a trigger may change the row).
fn checking_stage(stage: &Stage) -> Option<String> {
    let target = &stage.target;
    if target.has_triggers {
        return None;
    }
    let name = target.qualified_name();
    let table = catalog::quote_identifier(&stage.table);
    let mut sql = format!(
        "CREATE TEMP TABLE {table} (LIKE {name} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED) \
         ON COMMIT DROP"
    );
    for column in target.columns.iter().filter(|column| column.generated.is_identity()) {
        sql.push_str(&format!(
            "; ALTER TABLE pg_temp.{table} ALTER {} SET DEFAULT \
             {}",
            catalog::quote_identifier(&column.name),
            planner::identity(target, column)
        ));
    }
    Some(sql)
}

/// Options for a node that gets the input as it is, header and encoding included.
fn all_options(options: &CopyOptions, statement: &CopyStatement) -> String {
    let mut list = options.to_sql();
    let mut more = Vec::new();
    for (name, value) in &statement.options {
        match (name.as_str(), value) {
            ("header", Some(CopyValue::Text(value))) => more.push(format!("HEADER {value}")),
            ("header", Some(CopyValue::Integer(value))) => more.push(format!("HEADER {value}")),
            ("header", _) => more.push("HEADER".to_owned()),
            _ => {}
        }
    }
    if let Some(encoding) = &options.encoding {
        more.push(format!("ENCODING {}", catalog::quote_literal(encoding)));
    }
    if !more.is_empty() {
        list = list.replacen('(', &format!("({}, ", more.join(", ")), 1);
    }
    list
}
