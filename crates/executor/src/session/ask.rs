//! Short questions and commands to nodes that the session works with: texts, and calls of functions of schema `loxo`.

use bytes::Bytes;
use catalog::{NodeId, Relation};
use futures_util::future::join_all;
use pgerror::Result;

use crate::backend::own_calls::{OwnCall, answers};
use crate::backend::slot::{Slot, slots};
use crate::block::Mode;
use crate::session::Session;

impl Session {
    /// Runs a statement without parameters on one node of the block and drops its rows.
    pub(crate) async fn run_on(&mut self, slot: impl Into<Slot>, sql: &str) -> Result<Option<String>> {
        let slot = slot.into();
        self.acquire(slot, Mode::InBlock).await?;
        self.causality.touch(slot.node());
        let leased = self.links.link(slot)?;
        leased.link.connection.query(sql.as_bytes());
        leased.flush().await?;
        leased.finish().await
    }

    /// One text on several nodes of the block at once; notices of these nodes are dropped, the primary's are enough.
    pub(crate) async fn run_on_all(&mut self, nodes: &[impl Copy + Into<Slot>], sql: &str) -> Result<()> {
        self.connect_to(nodes).await?;
        for node in nodes {
            self.acquire(*node, Mode::InBlock).await?;
            self.links.link(*node)?.link.connection.query(sql.as_bytes());
        }
        self.links.finish_all(nodes).await?;
        for node in nodes {
            self.links.link(*node)?.link.connection.take_notices();
        }
        Ok(())
    }

    /// Rows, as text, of a statement without parameters on one slot of the block.
    pub(crate) async fn rows_on(&mut self, slot: impl Into<Slot>, sql: &str) -> Result<Vec<Vec<Option<Bytes>>>> {
        let slot = slot.into();
        self.acquire_to_ask(slot).await?;
        let leased = self.links.link(slot)?;
        leased.link.connection.query(sql.as_bytes());
        leased.flush().await?;
        leased.skip_preamble().await?;
        Ok(leased.link.connection.read_rows().await?.0)
    }

    /// A command that takes no snapshot.
    pub(crate) async fn command_in(&mut self, slot: impl Into<Slot>, mode: Mode, sql: &str) -> Result<()> {
        let slot = slot.into();
        self.acquire_as_is(slot, mode).await?;
        let leased = self.links.link(slot)?;
        leased.link.connection.query(sql.as_bytes());
        leased.flush().await?;
        leased.finish().await.map(|_| ())
    }

    /// Runs a command without rows on a slot that the session works with.
    pub async fn command_on(&mut self, slot: impl Into<Slot>, sql: &str) -> Result<()> {
        let slot = slot.into();
        self.acquire(slot, self.mode()).await?;
        self.command_in(slot, self.mode(), sql).await
    }

    /// Makes calls on a slot of the block, one after the other, in one message. Gives what the last one returns.
    pub(crate) async fn call_on(&mut self, slot: impl Into<Slot>, calls: &[OwnCall]) -> Result<Option<Bytes>> {
        let slot = slot.into();
        Ok(self.call(&[slot], calls).await?.pop().flatten())
    }

    /// A call on several nodes of the block at once.
    pub(crate) async fn call_on_all(&mut self, nodes: &[impl Copy + Into<Slot>], call: &OwnCall) -> Result<()> {
        self.call(nodes, std::slice::from_ref(call)).await.map(drop)
    }

    /// Gives the user rights on a table, until [`Session::take_rights_back`], which wants what this gives: what all had on the
    /// nodes where the user lacked them.
    pub(crate) async fn lend_rights(
        &mut self,
        nodes: &[NodeId],
        table: &str,
        rights: &[&str],
    ) -> Result<Vec<(NodeId, String)>> {
        let wanted = format!(", '{{{}}}'::pg_catalog.text[]", rights.join(","));
        let mut lent = Vec::new();
        for node in nodes {
            let before = self.call_on(*node, &[OwnCall::about("lend_rights", table, &wanted)]).await?;
            lent.extend(before.map(|before| (*node, String::from_utf8_lossy(&before).into_owned())));
        }
        Ok(lent)
    }

    pub(crate) async fn take_rights_back(&mut self, table: &str, lent: Vec<(NodeId, String)>) -> Result<()> {
        for (node, before) in lent {
            let before = format!(", {}", catalog::quote_literal(&before));
            self.call_on(node, &[OwnCall::about("take_rights_back", table, &before)]).await?;
        }
        Ok(())
    }

    /// Lets the user read where rows of a table lie, until [`Session::take_address_back`], which wants what this gives: the columns
    /// that the user could not read on each node.
    pub(crate) async fn lend_address(&mut self, table: &Relation) -> Result<Vec<(NodeId, String)>> {
        let mut lent = Vec::new();
        for node in table.distribution.nodes() {
            let columns = self.call_on(node, &[OwnCall::about("lend_address", &table.qualified_name(), "")]).await?;
            lent.extend(columns.map(|columns| (node, String::from_utf8_lossy(&columns).into_owned())));
        }
        Ok(lent)
    }

    pub(crate) async fn take_address_back(&mut self, table: &Relation, lent: Vec<(NodeId, String)>) -> Result<()> {
        for (node, columns) in lent {
            let columns = format!(", {}", catalog::quote_literal(&columns));
            self.call_on(node, &[OwnCall::about("take_address_back", &table.qualified_name(), &columns)]).await?;
        }
        Ok(())
    }

    /// Lets the user change a table with its owner's rights, by way of a view in schema `loxo`, until [`Session::take_views_back`].
    /// Gives the view's name.
    pub(crate) async fn lend_change(&mut self, nodes: &[NodeId], table: &Relation, rights: &str) -> Result<String> {
        let view = format!("lent_{:032x}", rand::random::<u128>());
        let arguments = format!(", {}, {}", catalog::quote_literal(&view), catalog::quote_literal(rights));
        self.call_on_all(nodes, &OwnCall::about("lend_change", &table.qualified_name(), &arguments)).await?;
        Ok(view)
    }

    pub(crate) async fn take_views_back(&mut self, nodes: &[NodeId], views: &[String]) -> Result<()> {
        let views = views.iter().map(|view| catalog::quote_literal(view)).collect::<Vec<_>>().join(", ");
        self.call_on_all(nodes, &OwnCall::new("take_back", format!("ARRAY[{views}]::pg_catalog.name[]"))).await
    }

    /// Does PostgreSQL let the user name what is in the table's schema, and insert into all columns of the table? A third answer is
    /// yes if there is no use in the rights of the table's owner, who lacks one of these.
    pub(crate) async fn may_insert(&mut self, table: &Relation, rights: &str) -> Result<[bool; 3]> {
        let owner_may =
            rights.split(", ").map(|right| format!("pg_catalog.has_table_privilege(c.relowner, c.oid, '{right}')"));
        let may = format!(
            "SELECT pg_catalog.has_schema_privilege({}, 'USAGE'), pg_catalog.has_table_privilege(c.oid, 'INSERT'), NOT ({}) \
             FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) {}",
            catalog::quote_literal(&table.schema),
            owner_may.collect::<Vec<_>>().join(" AND "),
            table.oid
        );
        let rows = self.rows_on(self.home, &may).await?;
        let has = |at: usize| rows.first().and_then(|row| row.get(at)?.as_deref()) == Some(b"t");
        Ok([has(0), has(1), has(2)])
    }

    /// The user's rights to read and to change the table, column by column, as GRANT has them; each with a comma before it.
    pub(crate) async fn rights_to_columns(&mut self, table: &Relation) -> Result<String> {
        const RIGHTS: [&str; 2] = ["SELECT", "UPDATE"];
        let listed = RIGHTS.map(|right| {
            format!(
                "pg_catalog.string_agg(pg_catalog.quote_ident(a.attname), ', ') \
                 FILTER (WHERE pg_catalog.has_column_privilege(a.attrelid, a.attnum, '{right}'))"
            )
        });
        let sql = format!(
            "SELECT {} FROM pg_catalog.pg_attribute a WHERE a.attrelid OPERATOR(pg_catalog.=) {} \
             AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped",
            listed.join(", "),
            table.oid
        );
        let row = self.rows_on(self.home, &sql).await?.into_iter().next().unwrap_or_default();
        let granted = RIGHTS.iter().zip(row).filter_map(|(right, columns)| Some((right, columns?)));
        Ok(granted.map(|(right, columns)| format!(", {right} ({})", String::from_utf8_lossy(&columns))).collect())
    }

    async fn call(&mut self, nodes: &[impl Copy + Into<Slot>], calls: &[OwnCall]) -> Result<Vec<Option<Bytes>>> {
        let seal = self.context.seal().await?;
        let slots = slots(nodes);
        self.connect_to(&slots).await?;
        for slot in &slots {
            self.acquire(*slot, Mode::InBlock).await?;
            self.causality.touch(slot.node());
            let connection = &mut self.links.link(*slot)?.link.connection;
            calls.iter().for_each(|call| call.queue(&seal, connection));
        }
        let called = self.links.of(&slots);
        let answers = join_all(called.map(|(_, leased)| answers(leased, calls.len()))).await;
        answers.into_iter().collect()
    }
}
