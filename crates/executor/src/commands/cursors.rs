//! Cursors: where their rows are kept, and which session on which node has them.

use bytes::Bytes;
use catalog::NodeId;
use pgerror::{PgError, Result};
use pgproto::backend::Field;
use planner::{CurrentOf, FinalSql, Gather, Input, LockTarget, Plan, Statement};

use crate::backend::call::Call;
use crate::backend::call::travels_in_binary;
use crate::backend::slot::Slot;
use crate::backend::type_ids::is_storable;
use crate::block::Mode;
use crate::engine::gather::Filled;
use crate::engine::output::Output;
use crate::engine::spool::Spool;
use crate::engine::temp::own_temp::TempAs;
use crate::session::Session;

impl Session {
    /// Declares a cursor over a query that one of `nodes` can answer; gives the node.
    pub async fn declare_on_node(&mut self, nodes: &[NodeId], sql: &str, call: &Call) -> Result<NodeId> {
        let node = self.choose(nodes);
        let version = self.schema_version;
        self.acquire(node, Mode::InBlock).await?;
        self.causality.touch(node);
        let leased = self.links.link(node)?;
        leased.start(sql, &Call { describe: false, result_formats: Vec::new(), ..call.clone() }, version);
        leased.flush().await?;
        leased.finish().await?;
        Ok(node)
    }

    /// See [`planner::changes_current`].
    pub async fn changes_current(&mut self, statement: &Statement) -> Result<Option<CurrentOf>> {
        self.with_facts(|catalog, facts| planner::changes_current(statement, catalog, facts)).await
    }

    /// See [`planner::with_places`].
    pub async fn with_places(
        &mut self,
        statement: &Statement,
        node: NodeId,
    ) -> Result<Option<(String, Vec<LockTarget>)>> {
        self.with_facts(|catalog, facts| planner::with_places(statement, node, catalog, facts)).await
    }

    /// A cursor WITH HOLD was made there: its backend stays with the session, and cannot be prepared in this transaction.
    pub fn keep_cursor(&mut self, slot: Slot) {
        self.links.pin(slot);
        if let Some(leased) = self.links.get_mut(slot) {
            leased.temp = leased.begun;
        }
    }

    /// The cursors that the session's backend on a node has open.
    pub async fn cursor_names(&mut self, slot: impl Into<Slot>) -> Result<Vec<String>> {
        let rows = self.rows_on(slot, "SELECT name FROM pg_catalog.pg_cursors").await?;
        let names = rows.into_iter().flatten().flatten();
        Ok(names.map(|name| String::from_utf8_lossy(&name).into_owned()).collect())
    }

    /// The node of the block on which a function has opened a cursor of this name.
    pub async fn node_of_cursor(&mut self, name: &str) -> Result<Option<Slot>> {
        for slot in self.links.begun() {
            if self.cursor_names(slot).await?.iter().any(|open| open == name) {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// Gathers the result of `query` into a temp table on the home node and declares a cursor over that; gives the session
    /// there that has it.
    #[allow(clippy::too_many_arguments)]
    pub async fn declare_gathered(
        &mut self,
        inputs: &[Input],
        final_sql: &FinalSql,
        declaration: &str,
        cursor: &str,
        query: &str,
        hold: bool,
        call: &Call,
    ) -> Result<Slot> {
        self.widen_for_several().await?;
        // The next cursor of this name, or the next gathered table, may have other columns.
        let call = &Call { one_off: true, ..call.clone() };
        let is_read_only = self.is_read_only();
        // PostgreSQL keeps the rows of one WITH HOLD in the session's own backend.
        let may_keep = !hold && self.stays_clean();
        let gather = Gather {
            node: self.home,
            inputs: inputs.to_vec(),
            final_sql: final_sql.clone(),
            writes: false,
            merge: None,
            lent: Vec::new(),
        };
        let is_apart = may_keep && self.goes_apart(&Plan::Gather(gather)).await?;
        let place = if is_read_only || is_apart { self.cursor_holder() } else { self.home.into() };
        let fields = self.columns_to_keep(query, call).await?;
        let table = format!("loxo_cursor_{cursor}");
        // The columns of a query may share a name, those of a table may not.
        let columns: Vec<String> = (1..=fields.len()).map(|i| format!("loxo_c{i}")).collect();
        let outputs: Vec<String> = fields
            .iter()
            .zip(&columns)
            .map(|(field, column)| {
                let name = String::from_utf8_lossy(&field.name).into_owned();
                format!("{column} AS {}", catalog::quote_identifier(&name))
            })
            .collect();
        if self.gathers_beside(inputs, final_sql).await? {
            let sql = self.gather_beside(inputs, final_sql, call).await?;
            let brought = self.bring_from_beside(&sql, place, &table, &columns, call).await;
            self.close_beside().await;
            brought?;
        } else if is_apart {
            let keep = async |this: &mut Self| {
                let sql = this.fill_all(inputs, final_sql, call).await?;
                this.bring_from_beside(&sql, place, &table, &columns, call).await
            };
            self.beside_it(keep).await?;
        } else if is_read_only {
            self.refuse_temp_tables_beside(final_sql).await?;
            let keep = async |this: &mut Self| {
                let sql = this.fill_all(inputs, final_sql, call).await?;
                this.bring_from_beside(&sql, place, &table, &columns, call).await
            };
            self.beside(keep).await?;
        } else {
            let sql = self.fill_all(inputs, final_sql, call).await?;
            let made = TempAs { table: &table, columns, fields: &fields, sql: &sql, indexes: &[], receives: false };
            self.links.link(place)?.temp = true;
            self.create_temp_as(place, &made, true, call).await?;
            self.drop_inputs(inputs).await?;
        }
        let table = catalog::quote_identifier(&table);
        self.command_on(place, &format!("{declaration}SELECT {} FROM pg_temp.{table}", outputs.join(", "))).await?;
        Ok(place)
    }

    /// Keeps the rows of a plan in a temp table and declares a cursor over that; gives the session there that has it.
    pub async fn declare_rows(
        &mut self,
        plan: &Plan,
        declaration: &str,
        cursor: &str,
        query: &str,
        call: &Call,
    ) -> Result<Slot> {
        let place = if self.is_read_only() || self.stays_clean() { self.cursor_holder() } else { self.home.into() };
        let mut fields = self.columns_to_keep(query, call).await?;
        if let Plan::Locked(locked) = plan
            && locked.keeps_places
        {
            fields.extend((1..=locked.targets.len()).map(place_field));
        }
        let binary = fields.iter().all(|field| travels_in_binary(field.type_oid));
        let mut spool = Spool::of(self.work_mem());
        self.note_write(true);
        let call = Call { one_off: true, ..call.with_formats(vec![i16::from(binary)]) };
        self.run_plan(plan, &call, &mut Output::spool(&mut spool)).await?;
        let outputs: Vec<String> = fields
            .iter()
            .enumerate()
            .map(|(at, field)| {
                let name = String::from_utf8_lossy(&field.name).into_owned();
                format!("loxo_c{} AS {}", at + 1, catalog::quote_identifier(&name))
            })
            .collect();
        let types = self.type_names(&Filled { columns: fields, binary }).await?;
        let columns: Vec<String> = types.iter().enumerate().map(|(at, of)| format!("loxo_c{} {of}", at + 1)).collect();
        if place.is_cursor_holder() {
            self.open_cursor_holder().await?;
        }
        let table = format!("loxo_cursor_{cursor}");
        self.create_temp(place, &table, &columns).await?;
        let table = catalog::quote_identifier(&table);
        let link = self.links.link(place)?;
        (link.temp, link.gathered) = (true, true);
        let sink = std::mem::replace(&mut self.sink, place);
        let put = self.put_rows(&table, spool, binary).await;
        self.sink = sink;
        put?;
        self.command_on(place, &format!("{declaration}SELECT {} FROM pg_temp.{table}", outputs.join(", "))).await?;
        Ok(place)
    }

    /// The columns of a cursor whose rows are kept in a temp table.
    async fn columns_to_keep(&mut self, query: &str, call: &Call) -> Result<Vec<Field>> {
        let fields = self.describe(query, &call.fragment_types(query)).await?.fields.unwrap_or_default();
        match fields.iter().all(|field| is_storable(field.type_oid)) {
            true => Ok(fields),
            false => Err(PgError::unsupported("a cursor over rows of several nodes that gives records without a type")
                .hint("Cast ROW(…) to a type, or give its fields one by one.")),
        }
    }

    /// Drops what [`Session::declare_gathered`] made for a cursor that is closed.
    pub async fn drop_cursor_table(&mut self, place: Slot, cursor: &str) -> Result<()> {
        let table = catalog::quote_identifier(&format!("loxo_cursor_{cursor}"));
        self.command_on(place, &format!("DROP TABLE IF EXISTS pg_temp.{table}")).await
    }
}

/// A column that says where rows are.
fn place_field(number: usize) -> Field {
    const TEXT: u32 = 25;
    let name = Bytes::from(format!("loxo_place_{number}"));
    Field { name, table_oid: 0, column_number: 0, type_oid: TEXT, type_size: -1, type_modifier: -1, format: 0 }
}
