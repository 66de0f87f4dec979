//! Changes that the home node works out: see [`planner::StagedDml`].
//!
//! The rows of the stage come back through a cursor, a batch at a time, and are applied by their addresses: first every
//! DELETE, then every UPDATE, then every INSERT, so that no row meets the key of one that is about to go. A row whose new key
//! belongs to another node is deleted in the first pass and inserted in the last; nothing is remembered in between, the
//! stage is read again.
//!
//! An address holds while nobody else changes the row. A statement alone and one in a READ COMMITTED block keep other writers
//! off the table, by a lock from before the rows are read; in a REPEATABLE READ block PostgreSQL itself says if somebody did
//! (40001).

use std::sync::Arc;

use bytes::Bytes;
use catalog::NodeId;
use pgerror::{PgError, Result, SqlState};
use pgproto::backend::Field;
use planner::{Input, Plan, Route, RowColumn, StagedAction, StagedDml};

use crate::backend::call::Call;
use crate::backend::call::is_node_specific;
use crate::backend::call::travels_in_binary;
use crate::backend::isolation::Isolation;
use crate::block::Mode;
use crate::dml::staged::INSERT_VALUES_MAX;
use crate::dml::writes::Write;
use crate::engine::gather::without_position;
use crate::engine::mover::rows::Values;
use crate::engine::output::Output;
use crate::engine::row_router::RowRouter;
use crate::engine::run::Completion;
use crate::engine::spool::Spool;
use crate::engine::temp::placement::rename;
use crate::session::Session;

/// `oid`.
const OID: u32 = 26;
/// `text`, as which a bare constant comes.
const TEXT: u32 = 25;
/// `unknown`.
const UNKNOWN: u32 = 705;
/// `tid`.
const TID: u32 = 27;

/// The rows of an action that lie on one node, or that are new.
#[derive(Clone, Copy)]
struct Share<'a> {
    change: &'a StagedDml,
    number: usize,
    action: &'a StagedAction,
    source: Option<NodeId>,
    pass: Pass,
    binary: bool,
}

/// What the user has to be lent for a change, beside what PostgreSQL asks for.
struct Lacking {
    address: bool,
    rights: &'static [&'static str],
}

/// What is done to all rows before the next is begun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Delete,
    Update,
    Insert,
}

impl Session {
    /// See the module's page.
    pub(crate) async fn write_staged_dml(
        &mut self,
        change: &StagedDml,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let mut nodes = self.gathered_nodes(&change.inputs);
        nodes.extend(change.target.distribution.nodes());
        nodes.sort_unstable();
        nodes.dedup();
        let target = change.target.qualified_name();
        if !self.in_block() && self.is_consistent() {
            return self.write_under_snapshot(&nodes, &target, Write::StagedDml(change), call, output).await;
        }
        self.refuse_serializable(&nodes)?;
        self.atomically(async |this| {
            this.lacking(change, call).await?;
            if !this.isolation().is_some_and(Isolation::keeps_snapshot) {
                this.keep_writers_off(&change.target.distribution.nodes(), std::slice::from_ref(&target)).await?;
                this.statement_finished();
            }
            let plan = || Plan::StagedDml(Box::new(change.clone()));
            this.apart(plan, async |this| this.staged_dml_in_block(change, call, output).await).await
        })
        .await
    }

    /// Runs inside a block.
    pub(crate) async fn staged_dml_in_block(
        &mut self,
        change: &StagedDml,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let done = self.change_part(change, call, output).await?;
        if change.rights_sql.is_none() && done.rows() == Some(0) {
            // No datanode has been asked for more than to read.
            self.check_rights(Some(&change.original), call).await?;
        }
        Ok(done)
    }

    /// [`Session::staged_dml_in_block`] for a part of a statement.
    pub(crate) async fn change_part(
        &mut self,
        change: &StagedDml,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        self.may_change(change.command)?;
        let columns = self.complain_of(&change.original, call).await?;
        let lacks = self.lacking(change, call).await?;
        self.check_rights(change.rights_sql.as_deref(), call).await?;
        let address = if lacks.address { self.lend_address(&change.target).await? } else { Vec::new() };
        if call.describe
            && output.wants_description()
            && let Some(columns) = columns.filter(|_| !change.returning.is_empty())
        {
            output.description(&columns);
        }
        self.create_temp(self.sink, planner::STAGE, &change.definitions).await.map_err(without_position)?;
        let sink = self.links.link(self.sink)?;
        (sink.temp, sink.gathered) = (true, true);
        let call = Call { one_off: true, ..call.clone() };
        let filled = self.fill_stage(change, &call).await;
        let change = &filled.map_err(|error| rename(without_position(error), &change.target))?;
        self.statement_finished();
        if change.command == "MERGE" {
            self.check_once().await?;
        }
        let binary = change.columns.iter().chain(&change.returned).all(|c| travels_in_binary(c.type_oid));
        let (table, nodes) = (change.target.qualified_name(), change.target.distribution.nodes());
        let rights = match lacks.rights {
            [] => Vec::new(),
            lacking => self.lend_rights(&nodes, &table, lacking).await?,
        };
        let mut total = 0;
        for pass in [Pass::Delete, Pass::Update, Pass::Insert] {
            for (number, action) in change.actions.iter().enumerate() {
                let share = Share { change, number, action, source: None, pass, binary };
                total += self.apply(share, &call, output).await?;
            }
        }
        let tables =
            std::iter::once("loxo_stage").chain(change.inputs.iter().map(|input: &Input| input.table.as_str()));
        let tables: Vec<String> = tables.map(|table| format!("pg_temp.{table}")).collect();
        self.run_on(self.sink, &format!("DROP TABLE {}", tables.join(", "))).await?;
        self.take_rights_back(&table, rights).await?;
        self.take_address_back(&change.target, address).await?;
        Ok(Completion::Tag(format!("{} {total}", change.command)))
    }

    /// PostgreSQL's own errors about the user's text; gives the columns of RETURNING.
    pub(crate) async fn complain_of(&mut self, original: &str, call: &Call) -> Result<Option<Vec<Field>>> {
        self.acquire(self.home, Mode::InBlock).await?;
        let home = self.links.link(self.home)?;
        home.start_describe(original, &call.fragment_types(original));
        home.flush().await?;
        home.read_description().await.map(|description| description.1)
    }

    /// What the user has to be lent. Rows are found again by their `ctid`, which PostgreSQL shows to nobody who has rights on some columns
    /// only. One that may move, or is compared with new ones, is read as a whole: then that does not help. New rows come with all their
    /// columns, whichever the user has named, and one that moves is deleted and inserted.
    async fn lacking(&mut self, change: &StagedDml, call: &Call) -> Result<Lacking> {
        let nothing = Lacking { address: false, rights: &[] };
        if change.rights_sql.is_some() {
            return Ok(nothing);
        }
        let target = &change.target;
        let moves = change.actions.iter().any(|action| matches!(action, StagedAction::Update { moves: true, .. }));
        let adds = change.actions.contains(&StagedAction::Insert);
        let may = |right: &str| format!("pg_catalog.has_table_privilege({}::pg_catalog.oid, '{right}')", target.oid);
        let changes = if change.command == "MERGE" { "SELECT" } else { change.command };
        let arrive: &'static [&'static str] = match (moves && change.rooted.is_none(), adds) {
            (true, _) => &["INSERT", "DELETE"],
            (false, true) => &["INSERT"],
            (false, false) => &[],
        };
        let all = std::iter::once(&"SELECT").chain(arrive).map(|right| may(right)).collect::<Vec<_>>().join(" AND ");
        let rights = planner::own_text(&format!("SELECT {} AND {}, {all}", may("SELECT"), may(changes)))?;
        let rows = self.rows_on(self.home, &rights).await?;
        let has = |at: usize| rows.first().and_then(|row| row.get(at)?.as_deref()) == Some(b"t");
        let (reads_all, has_all) = (has(0), has(1));
        if reads_all && has_all {
            return Ok(nothing);
        }
        self.check_rights(Some(&change.original), call).await?;
        let reads_rows = moves || (adds && change.actions.len() > 1);
        if reads_all || !reads_rows {
            return Ok(Lacking { address: !reads_all, rights: if has_all { &[] } else { arrive } });
        }
        let what =
            format!("this {} by a role with rights on some columns of table \"{}\"", change.command, target.name);
        Err(PgError::unsupported(what).hint("GRANT the rights on the table, or change rows of one datanode at a time."))
    }

    /// PostgreSQL checks rights on what a statement names when it is about to run, and so for EXPLAIN.
    pub(crate) async fn check_rights(&mut self, sql: Option<&str>, call: &Call) -> Result<()> {
        match sql {
            None => Ok(()),
            Some(sql) => self.node_plan(self.home, Mode::InBlock, &format!("EXPLAIN {sql}"), call).await.map(drop),
        }
    }

    /// Gives the change with the types of all columns.
    async fn fill_stage(&mut self, change: &StagedDml, call: &Call) -> Result<StagedDml> {
        // The texts have no type markers: what is gathered are whole tables.
        let nothing = planner::FinalSql::plain("");
        self.fill_all(&change.inputs, &nothing, call).await?;
        let change = StagedDml { returned: self.add_returned(change, call).await?, ..change.clone() };
        let version = self.schema_version;
        for fill in &change.fills {
            let types = change.columns.iter().chain(&change.returned).map(|column| column.type_oid);
            self.refuse_users_code_staged(&fill.text, types, call).await?;
            let home = self.links.link(self.sink)?;
            home.start(&fill.text, &call.with_formats(Vec::new()), version);
            home.flush().await?;
            home.finish().await?;
        }
        Ok(change)
    }

    /// Gives the stage the columns of other tables that RETURNING names.
    async fn add_returned(&mut self, change: &StagedDml, call: &Call) -> Result<Vec<RowColumn>> {
        if change.returned.is_empty() {
            return Ok(Vec::new());
        }
        let home = self.links.link(self.sink)?;
        home.start_describe(&change.returned_sql, &call.fragment_types(&change.returned_sql));
        home.flush().await?;
        let fields = home.read_description().await?.1.unwrap_or_default();
        let mut returned = change.returned.clone();
        for (column, field) in returned.iter_mut().zip(&fields) {
            let unknown = field.type_oid == UNKNOWN;
            (column.type_oid, column.type_modifier) =
                (if unknown { TEXT } else { field.type_oid }, field.type_modifier);
            let (oid, modifier) = (column.type_oid, column.type_modifier);
            let name = self.rows_on(self.sink, &format!("SELECT pg_catalog.format_type({oid}, {modifier})")).await?;
            let name = name.into_iter().next().and_then(|row| row.into_iter().next().flatten()).unwrap_or_default();
            column.type_name = String::from_utf8_lossy(&name).into_owned();
            let add = format!("ALTER TABLE pg_temp.loxo_stage ADD COLUMN {} {}", column.name, column.type_name);
            self.run_on(self.sink, &add).await?;
        }
        Ok(returned)
    }

    /// As PostgreSQL words it.
    async fn check_once(&mut self) -> Result<()> {
        let twice = "SELECT 1 FROM pg_temp.loxo_stage WHERE loxo_node IS NOT NULL \
                     GROUP BY loxo_node, loxo_table, loxo_ctid HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 1 LIMIT 1";
        if self.rows_on(self.sink, twice).await?.is_empty() {
            return Ok(());
        }
        let code = SqlState::from_bytes(b"21000").unwrap_or(SqlState::INTERNAL_ERROR);
        Err(PgError::new(code, "MERGE command cannot affect row a second time")
            .hint("Ensure that not more than one source row matches any one target row."))
    }

    /// One pass of one action; gives the number of rows that count.
    async fn apply(&mut self, all: Share<'_>, call: &Call, output: &mut Output<'_>) -> Result<u64> {
        let has_part = match all.action {
            StagedAction::Insert if all.pass == Pass::Insert => return self.apply_share(all, call, output).await,
            StagedAction::Insert => false,
            StagedAction::Delete => all.pass == Pass::Delete,
            StagedAction::Update { moves, .. } => *moves || all.pass == Pass::Update,
        };
        let mut total = 0;
        let mut nodes = all.change.target.distribution.nodes();
        nodes.retain(|_| has_part);
        for node in nodes {
            total += self.apply_share(Share { source: Some(node), ..all }, call, output).await?;
            // The next node is not to know less than this one has shown.
            self.statement_finished();
        }
        Ok(total)
    }

    async fn apply_share(&mut self, share: Share<'_>, call: &Call, output: &mut Output<'_>) -> Result<u64> {
        let stays = share.source.map(|node| Route::Single { node });
        let route = match (share.action, &stays) {
            (StagedAction::Delete | StagedAction::Update { moves: false, .. }, Some(stays)) => stays,
            _ => &share.change.route,
        };
        self.open_stage(&share.change.read_sql(share.number, share.source), share.binary).await?;
        let mut router = RowRouter::new(route, share.binary, self.links.number()).of_encoding(self.encoding_of_links());
        let mut total = 0;
        loop {
            let batch = self.fetch_batch(&mut router).await?;
            if batch.rows == 0 {
                break;
            }
            for (place, mut part) in batch.per_node {
                total += self.apply_rows(share, place, &part.take_rows()?, call, output).await?;
            }
        }
        self.close_stage().await?;
        Ok(total)
    }

    /// Rows that belong to `place` from now on.
    async fn apply_rows(
        &mut self,
        share: Share<'_>,
        place: NodeId,
        rows: &[Bytes],
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<u64> {
        let change = share.change;
        let address = change.columns.len();
        let addressed = address..address + 2 + change.returned.len();
        let moved = share.source.is_some_and(|source| source != place);
        let (node, keep): (NodeId, Vec<usize>) = match (share.pass, share.action, share.source) {
            (Pass::Delete, StagedAction::Delete, _) => (place, addressed.collect()),
            (Pass::Delete, StagedAction::Update { .. }, Some(source)) if moved => (source, addressed.collect()),
            (Pass::Update, StagedAction::Update { columns, .. }, _) if !moved => {
                (place, columns.iter().copied().chain(addressed).collect())
            }
            (Pass::Insert, StagedAction::Update { .. }, _) if moved => (place, (0..address).collect()),
            (Pass::Insert, StagedAction::Insert, _) => (place, (0..address).collect()),
            _ => return Ok(0),
        };
        let leaves = share.pass == Pass::Delete && moved;
        if let (true, Some(why)) = (leaves, change.rooted) {
            return Err(refused_move(change, why));
        }
        let values_max = INSERT_VALUES_MAX.saturating_sub(change.parameters);
        let mut total = 0;
        for chunk in rows.chunks((values_max / keep.len().max(1)).max(1)) {
            let chunk_call = values_of(change, call, chunk, &keep, share.binary)?;
            let sql = match (share.pass, share.action) {
                (Pass::Delete, _) => change.delete_sql(chunk.len(), leaves),
                (Pass::Update, StagedAction::Update { columns, .. }) => change.update_sql(columns, chunk.len()),
                _ => change.insert_sql(chunk.len()),
            };
            let part = vec![(node, sql)];
            let mut nothing = Spool::default();
            let done = match leaves {
                true => self.scatter(Mode::InBlock, part, &chunk_call, &mut Output::spool(&mut nothing)).await,
                false => self.scatter(Mode::InBlock, part, &chunk_call, output).await,
            };
            let Completion::Tag(tag) = done.map_err(without_position)? else { continue };
            let count = pgproto::backend::split_command_tag(&tag).1.unwrap_or(0);
            if leaves && count != chunk.len() as u64 {
                return Err(PgError::new(SqlState::SERIALIZATION_FAILURE, "a row that was to move is gone")
                    .hint("Run the statement again."));
            }
            total += if leaves { 0 } else { count };
        }
        Ok(total)
    }
}

fn refused_move(change: &StagedDml, why: &str) -> PgError {
    PgError::unsupported(format!("a change of the distribution key of table \"{}\"", change.target.name))
        .detail(format!("A row would be deleted on one node and inserted on another, but {why}."))
        .hint("DELETE the row and INSERT it again.")
}

/// The user's parameters, then these values of each row.
fn values_of(change: &StagedDml, call: &Call, rows: &[Bytes], keep: &[usize], binary: bool) -> Result<Call> {
    let mut parameters = call.own_parameters(change.parameters);
    let mut values = Vec::new();
    for row in rows {
        values.clear();
        for value in Values::of(row) {
            values.push(value?);
        }
        for at in keep {
            let oid = match at.checked_sub(change.columns.len()) {
                None => change.columns[*at].type_oid,
                Some(0) => OID,
                Some(1) => TID,
                Some(returned) => change.returned[returned - 2].type_oid,
            };
            parameters.formats.push(i16::from(binary));
            parameters.types.push(if is_node_specific(oid) { 0 } else { oid });
            parameters.values.push(values.get(*at).copied().flatten().map(|value| row.slice_ref(value)));
        }
    }
    Ok(Call { parameters: Some(Arc::new(parameters)), ..call.clone() })
}
