//! Gathers rows of fragments into temp tables on the home node and runs the final statement there.
//!
//! A row is never decoded: a DataRow whose columns are all binary is, byte for byte, a tuple of binary COPY, so the
//! coordinator only changes the frames around it. Types whose binary form holds object ids that differ between nodes
//! (composites, arrays of user types) go as text.
//!
//! The home node's own part of a fragment never leaves it (`CREATE TEMP TABLE … AS`). The temp tables live in the home
//! node's transaction, which therefore cannot be PREPAREd: it becomes the commit point.

use std::collections::HashSet;

use bytes::Bytes;
use catalog::{NodeId, quote_identifier};
use pgerror::{PgError, Result, field};
use pgproto::backend::Field;
use planner::{FinalSql, Gather, Input, Plan, Route};

use crate::backend::call::Call;
use crate::backend::call::travels_in_binary;
use crate::backend::isolation::Isolation;
use crate::backend::leased::LeasedConnection;
use crate::backend::slot::Slot;
use crate::block::Mode;
use crate::engine::fixed_text::{restore, travelling};
use crate::engine::mover::rows::copy_into;
use crate::engine::mover::{Delivery, Gives, Moved, Worker, move_rows};
use crate::engine::output::Output;
use crate::engine::row_router::RowRouter;
use crate::engine::run::Completion;
use crate::engine::sorted_merge::give_up;
use crate::engine::temp::own_temp::TempAs;
use crate::session::Session;

/// What a filled input looks like.
pub(crate) struct Filled {
    pub(crate) columns: Vec<Field>,
    /// Its rows travel in binary form.
    pub(crate) binary: bool,
}

impl Session {
    /// See the module's page.
    pub(crate) async fn gather(&mut self, gather: &Gather, call: &Call, output: &mut Output<'_>) -> Result<Completion> {
        match gather.lent.is_empty() {
            true => self.gather_own(gather, call, output).await,
            false => self.gather_lent(gather, call, output).await,
        }
    }

    pub(crate) async fn gather_own(
        &mut self,
        gather: &Gather,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        if self.sink != self.home {
            // A part of a statement whose temp tables are beside the block already.
            let completion = self.gather_in_block(gather, call, output).await?;
            self.drop_inputs(&gather.inputs).await?;
            return Ok(completion);
        }
        if let Some(merge) = gather.merged()
            && let Some(completion) = self.run_merge(merge, call, output).await?
        {
            return Ok(completion);
        }
        if !gather.writes && self.gathers_beside(&gather.inputs, &gather.final_sql).await? {
            if let Some(completion) = self.gather_bound_few(gather, call, output).await? {
                return Ok(completion);
            }
            let nodes = self.gathered_nodes(&gather.inputs);
            self.lend_on(&nodes).await?;
            let sql = self.gather_beside(&gather.inputs, &gather.final_sql, call).await?;
            let beside = self.beside_home();
            let part = vec![(beside, self.lent_text(beside, &sql).into_owned())];
            let result = self.scatter(Mode::InBlock, part, call, output).await;
            self.close_beside().await;
            let completion = result.map_err(without_position)?;
            return self.take_back_on(&nodes).await.map(|()| completion);
        }
        if !gather.writes
            && let Some(completion) = self.gather_few_optimistically(gather, call, output).await?
        {
            return Ok(completion);
        }
        let nodes = self.gathered_nodes(&gather.inputs);
        match (gather.writes, self.in_block()) {
            (false, _) => {
                let read = self.begin_read(&nodes, gather.inputs.iter().map(|input| input.sql.as_str())).await?;
                let result = self.gather_under_snapshot(&nodes, gather, call, output).await;
                self.end_read(read).await;
                result
            }
            (true, true) => self.gather_in_transaction(gather, call, output).await,
            (true, false) => self.write_gathered(&nodes, gather, call, output).await,
        }
    }

    async fn gather_under_snapshot(
        &mut self,
        nodes: &[NodeId],
        gather: &Gather,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        self.lend_on(nodes).await?;
        let completion = match self.gather_in_parameters(gather, call, output).await? {
            Some(completion) => completion,
            None => self.gather_in_transaction(gather, call, output).await?,
        };
        self.take_back_on(nodes).await?;
        Ok(completion)
    }

    /// All nodes that a gather over these inputs reads.
    pub(crate) fn gathered_nodes(&self, inputs: &[Input]) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = inputs.iter().flat_map(|input| input.nodes.iter().copied()).collect();
        nodes.push(self.home);
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    async fn gather_in_transaction(
        &mut self,
        gather: &Gather,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        if self.stays_clean() && self.goes_apart(&Plan::Gather(gather.clone())).await? {
            return self.beside_it(async |this| this.gather_in_block(gather, call, output).await).await;
        }
        if self.is_read_only() {
            if gather.writes {
                let what = "a change that gathers rows, in a READ ONLY transaction";
                return Err(PgError::unsupported(what).hint("Leave READ ONLY out."));
            }
            self.refuse_temp_tables_beside(&gather.final_sql).await?;
            return self.beside(async |this| this.gather_in_block(gather, call, output).await).await;
        }
        let completion = self.gather_in_block(gather, call, output).await?;
        self.drop_inputs(&gather.inputs).await?;
        Ok(completion)
    }

    /// [`Session::beside`] sees no temp tables of the user's.
    pub(crate) async fn refuse_temp_tables_beside(&mut self, sql: &FinalSql) -> Result<()> {
        let own: Vec<String> = self.temp_relations().await?.all.iter().map(|name| quote_identifier(name)).collect();
        if own.is_empty() {
            return Ok(());
        }
        let read = planner::Tables::in_text(&sql.text)?.read;
        let bare = |name: &String| name.strip_prefix("pg_temp.").unwrap_or(name).to_owned();
        match read.iter().map(bare).find(|name| own.contains(name)) {
            None => Ok(()),
            Some(name) => {
                let what =
                    format!("a query that gathers rows and reads temporary table {name}, in a READ ONLY transaction");
                Err(PgError::unsupported(what).hint("Leave READ ONLY out."))
            }
        }
    }

    /// A read-only transaction may not make temp tables: a second session on the home node does, with the same snapshot. It
    /// cannot be exported while a savepoint is open.
    pub(crate) async fn beside<T>(&mut self, work: impl AsyncFnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let keeps_snapshot = self.isolation().is_some_and(Isolation::keeps_snapshot);
        let begin = match self.exported_snapshot().await? {
            Some(id) => format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE; SET TRANSACTION SNAPSHOT {id}"),
            None if keeps_snapshot => {
                return Err(PgError::unsupported(
                    "a query that gathers rows, after a savepoint in a read-only REPEATABLE READ transaction",
                )
                .hint("Run one such query before the first savepoint, or leave READ ONLY out."));
            }
            None => "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE".to_owned(),
        };
        self.open_beside(&begin).await?;
        let result = work(self).await;
        self.close_beside().await;
        result
    }

    /// The id of the block's snapshot on the home node, as a literal; `None` if it cannot be had.
    async fn exported_snapshot(&mut self) -> Result<Option<String>> {
        if let Some(known) = self.block.as_ref().and_then(|block| block.exported.clone()) {
            return Ok(Some(known));
        }
        if self.has_savepoints() {
            return Ok(None);
        }
        let rows = self.rows_on(self.home, "SELECT pg_catalog.pg_export_snapshot()").await?;
        let id = rows.first().and_then(|row| row.first()?.clone()).unwrap_or_default();
        let id = catalog::quote_literal(&String::from_utf8_lossy(&id));
        if let Some(block) = self.block.as_mut().filter(|block| block.isolation.keeps_snapshot()) {
            block.exported = Some(id.clone());
        }
        Ok(Some(id))
    }

    pub(crate) async fn gather_in_block(
        &mut self,
        gather: &Gather,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let sql = self.fill_all(&gather.inputs, &gather.final_sql, call).await?;
        let part = vec![(self.sink, self.lent_text(self.sink, &sql).into_owned())];
        // The next statement's inputs bear the same names and may have other types.
        let call = Call { one_off: true, ..call.clone() };
        self.scatter(Mode::InBlock, part, &call, output).await.map_err(without_position)
    }

    /// Fills the inputs; gives the final statement with its type markers replaced.
    pub(crate) async fn fill_all(
        &mut self,
        inputs: &[Input],
        final_sql: &planner::FinalSql,
        call: &Call,
    ) -> Result<String> {
        let mut filled = Vec::with_capacity(inputs.len());
        for input in inputs {
            filled.push(self.fill(input, call, inputs.len() > 1).await.map_err(without_position)?.0);
        }
        let columns: Vec<&[Field]> = filled.iter().map(|filled| filled.columns.as_slice()).collect();
        self.resolve_types(final_sql, &columns).await
    }

    /// Makes the temp table of one input and fills it from all nodes.
    pub(crate) async fn fill(&mut self, input: &Input, call: &Call, analyze: bool) -> Result<(Filled, Vec<Moved>)> {
        let home = self.sink;
        let filled = self.describe_input(home, input, call).await?;
        if let Some(exchange_plan) = &input.exchange_plan {
            self.create_input(home, input, &filled, false, call).await?;
            let copy = copy_into(&quote_identifier(&input.table), true);
            let route = Route::Single { node: home.node() };
            Box::pin(self.pour(exchange_plan, &route, Some(home), &copy, filled.binary, call)).await?;
            self.finish_input(input, analyze).await?;
            return Ok((filled, Vec::new()));
        }
        let binary = filled.binary;
        let sql = travelling(&input.sql, binary);
        let version = self.schema_version;
        let remotes: Vec<NodeId> = input.nodes.iter().copied().filter(|node| home != *node).collect();
        if input.nodes.contains(&home.node()) {
            self.causality.touch(home.node());
        }
        self.connect_to(&remotes).await?;
        for node in &remotes {
            self.acquire(*node, Mode::InBlock).await?;
            self.causality.touch(*node);
            let leased = self.links.link(*node)?;
            leased.start(&sql, &call.with_formats(vec![i16::from(binary)]), version);
            leased.flush().await?;
        }

        // Beside the home node its own session is one of the sources.
        let here = home.is_main() && input.nodes.contains(&home.node());
        let created = self.create_input(home, input, &filled, here, call).await;
        let own = created.as_ref().ok().filter(|_| here).map(|tag| Moved::stayed(home.node(), tag.as_deref()));
        let mut moved = match remotes.is_empty() {
            true => created.map(|_| Vec::new())?,
            false => self.pump(&remotes, &quote_identifier(&input.table), binary, created).await?,
        };
        moved.extend(own);
        self.finish_input(input, analyze).await?;
        Ok((filled, moved))
    }

    /// The columns of a fragment, as a node that stands for all describes them.
    pub(crate) async fn describe_input(&mut self, slot: impl Into<Slot>, input: &Input, call: &Call) -> Result<Filled> {
        let slot = slot.into();
        self.acquire(slot, Mode::InBlock).await?;
        let sql = self.lent_text(slot, &input.sql);
        let leased = self.links.link(slot)?;
        leased.start_describe(&sql, &call.fragment_types(&sql));
        leased.flush().await?;
        let columns = leased.read_description().await?.1.unwrap_or_default();
        let binary = columns.iter().all(|column| travels_in_binary(column.type_oid));
        Ok(Filled { columns, binary })
    }

    /// Makes the temp table of an input, with the node's own rows or empty.
    pub(crate) async fn create_input(
        &mut self,
        slot: Slot,
        input: &Input,
        filled: &Filled,
        with_rows: bool,
        call: &Call,
    ) -> Result<Option<String>> {
        let sql = self.lent_text(slot, &input.sql).into_owned();
        let leased = self.links.link(slot)?;
        (leased.temp, leased.gathered) = (true, true);
        self.create_temp_as(slot, &temp_of(input, filled, &sql), with_rows, call).await
    }

    /// Makes it empty; another session on the node reads the fragment's text.
    pub(crate) async fn create_input_like(
        &mut self,
        reader: impl Into<Slot>,
        slot: Slot,
        input: &Input,
        filled: &Filled,
        call: &Call,
    ) -> Result<()> {
        let reader = reader.into();
        let sql = self.lent_text(reader, &input.sql).into_owned();
        let leased = self.links.link(slot)?;
        (leased.temp, leased.gathered) = (true, true);
        self.make_temp_like(reader, slot, &temp_of(input, filled, &sql), call).await
    }

    /// What is to be done once the rows are there.
    pub(crate) async fn finish_input(&mut self, input: &Input, analyze: bool) -> Result<()> {
        self.index_temp(self.sink, &input.table, &input.indexes).await?;
        if analyze {
            self.run_on(self.sink, &format!("ANALYZE pg_temp.{}", quote_identifier(&input.table))).await?;
        }
        Ok(())
    }

    /// Moves the rows of `remotes` into a temp table, whose name is quoted. `created` is how making the table ended: after an error the remotes
    /// are still read to their end.
    pub(crate) async fn pump(
        &mut self,
        remotes: &[impl Copy + Into<Slot>],
        table: &str,
        binary: bool,
        created: Result<Option<String>>,
    ) -> Result<Vec<Moved>> {
        let mut sources = self.links.take(remotes)?;
        if let Err(error) = created {
            give_up(&mut sources).await;
            self.links.put_back(sources);
            return Err(error);
        }
        let mut sink = self.links.take(&[self.sink])?;
        let result = match sink.first_mut() {
            Some(sink) => fill_table(&mut sources, sink, table, binary).await,
            None => Err(PgError::internal("the home node's link is missing")),
        };
        self.links.put_back(sink);
        self.links.put_back(sources);
        if result.is_ok() && !binary {
            self.links.broadcast(remotes, &restore()).await?;
        }
        result.inspect(|moved| self.count_moved(moved))
    }

    /// The temp tables of a finished gather inside a block would be in the way of the next one.
    pub(crate) async fn drop_inputs(&mut self, inputs: &[Input]) -> Result<()> {
        let tables: Vec<String> =
            inputs.iter().map(|input| format!("pg_temp.{}", quote_identifier(&input.table))).collect();
        if !tables.is_empty() {
            self.run_on(self.sink, &format!("DROP TABLE {}", tables.join(", "))).await?;
        }
        Ok(())
    }

    /// The columns' types as SQL, for a table that is to hold such values.
    pub(crate) async fn type_names(&mut self, filled: &Filled) -> Result<Vec<String>> {
        self.refuse_users_code_of_all(filled.columns.iter().map(|column| column.type_oid)).await?;
        let wanted = filled
            .columns
            .iter()
            .map(|column| format!("pg_catalog.format_type({}, {})", column.type_oid, column.type_modifier));
        let sql = format!("SELECT {}", wanted.collect::<Vec<_>>().join(", "));
        let row = self.rows_on(self.sink, &sql).await?.into_iter().next().unwrap_or_default();
        Ok(row.into_iter().map(|name| String::from_utf8_lossy(&name.unwrap_or_default()).into_owned()).collect())
    }

    /// Replaces the type markers of a final statement; only a server can print a type's name.
    pub(crate) async fn resolve_types(&mut self, sql: &planner::FinalSql, inputs: &[&[Field]]) -> Result<String> {
        if sql.types.is_empty() {
            return Ok(sql.text.clone());
        }
        let wanted: Vec<String> = sql
            .types
            .iter()
            .map(|(input, column)| {
                let field = inputs.get(input - 1).and_then(|columns| columns.get(column - 1));
                let (oid, modifier) = field.map_or((0, -1), |field| (field.type_oid, field.type_modifier));
                format!("pg_catalog.format_type({oid}, {modifier})")
            })
            .collect();
        let rows = self.rows_on(self.sink, &format!("SELECT {}", wanted.join(", "))).await?;
        let names: Vec<String> = rows
            .first()
            .map(|row| {
                row.iter().map(|v| String::from_utf8_lossy(v.as_deref().unwrap_or_default()).into_owned()).collect()
            })
            .unwrap_or_default();
        Ok(sql.resolve(|input, column| {
            let at = sql.types.iter().position(|marker| *marker == (input, column)).unwrap_or(0);
            names.get(at).cloned().unwrap_or_default()
        }))
    }
}

fn temp_of<'a>(input: &'a Input, filled: &'a Filled, sql: &'a str) -> TempAs<'a> {
    let columns = names_if_twice(&filled.columns);
    TempAs { table: &input.table, columns, fields: &filled.columns, sql, indexes: &input.indexes, receives: true }
}

/// A query may give several columns of one name, a table may not have them: the later ones get names of ours. Nobody refers
/// to them by name, since that would be ambiguous. None if no name comes twice.
pub(crate) fn names_if_twice(columns: &[Field]) -> Vec<String> {
    let names: HashSet<&Bytes> = columns.iter().map(|column| &column.name).collect();
    if names.len() == columns.len() { Vec::new() } else { distinct_names(columns) }
}

/// A name for each column.
pub(crate) fn distinct_names(columns: &[Field]) -> Vec<String> {
    let mut seen = HashSet::new();
    let name = |(i, column): (usize, &Field)| match seen.insert(column.name.clone()) {
        true => String::from_utf8_lossy(&column.name).into_owned(),
        false => format!("loxo_column_{}", i + 1),
    };
    columns.iter().enumerate().map(name).collect()
}

/// A position points into our own text, which the user never saw.
pub(crate) fn without_position(error: PgError) -> PgError {
    error.without(field::POSITION)
}

/// The answers of sources that are under way go into a temp table.
pub(crate) async fn fill_table(
    sources: &mut [(Slot, LeasedConnection)],
    sink: &mut (Slot, LeasedConnection),
    table: &str,
    binary: bool,
) -> Result<Vec<Moved>> {
    let (node, leased) = (sink.0.node(), &mut sink.1);
    let route = Route::Single { node };
    let mut workers = vec![Worker { node, leased, gives: Gives::Nothing, takes: true }];
    for (slot, leased) in sources {
        workers.push(Worker { node: slot.node(), leased, gives: Gives::Answer, takes: false });
    }
    let to = Delivery { copy: &copy_into(table, binary), at_once: true, then: None };
    move_rows(workers, RowRouter::new(&route, binary, 0), &to).await
}
