//! CREATE, ALTER and DROP NODE GROUP: names for lists of datanodes. `TO GROUP` of a table means the list as it is then, so tables stay
//! where they are whatever becomes of the group.

use catalog::{Catalog, NodeId, quote_identifier, quote_literal};
use pgerror::{PgError, Result, SqlState};
use planner::parse::GroupChange;

use crate::growth::nodes::no_node;
use crate::session::Session;
use crate::shared::catalog_load::{numbers, text};

impl Session {
    pub(crate) async fn create_group(&mut self, name: &str, members: &[String]) -> Result<()> {
        self.require_superuser("CREATE NODE GROUP").await?;
        let loaded = self.catalog().await?;
        if is_known(&loaded.catalog, name) {
            return Err(twice(name));
        }
        let members = ids(&loaded.catalog, members)?;
        let list = listed(&members);
        let sql = format!("INSERT INTO loxo.node_group (name, members) VALUES ({}, {list})", quote_literal(name));
        self.atomically(async |this| {
            this.keep_datanodes(&members, &sql).await?;
            this.schema_change(&this.context.nodes(), &sql).await
        })
        .await
    }

    pub(crate) async fn alter_group(&mut self, name: &str, change: &GroupChange) -> Result<()> {
        self.require_superuser("ALTER NODE GROUP").await?;
        let loaded = self.catalog().await?;
        let named = format!("WHERE name OPERATOR(pg_catalog.=) {}", quote_literal(name));
        let nodes: &[String] = match change {
            GroupChange::Rename(_) => &[],
            GroupChange::Add(nodes) | GroupChange::Delete(nodes) | GroupChange::With(nodes) => nodes,
        };
        let ids = ids(&loaded.catalog, nodes)?;
        let known = "SELECT name, members FROM loxo.node_group";
        self.atomically(async |this| {
            this.keep_datanodes(&ids, "ALTER NODE GROUP").await?;
            // As it is now that no other session changes it.
            let rows = this.rows_on(this.home, known).await?;
            let group = |of: &str| rows.iter().find(|row| text(row, 0).is_ok_and(|name| name == of));
            let members = numbers(Some(text(group(name).ok_or_else(|| no_group(name))?, 1)?))?;
            let set = match change {
                GroupChange::Rename(new) if group(new).is_some() => return Err(twice(new)),
                GroupChange::Rename(new) => format!("name = {}", quote_literal(new)),
                _ => {
                    let members = members.into_iter().map(NodeId).collect();
                    format!("members = {}", listed(&changed(name, members, change, &ids, nodes)?))
                }
            };
            let sql = format!("UPDATE loxo.node_group SET {set} {named}");
            this.schema_change(&this.context.nodes(), &sql).await
        })
        .await
    }

    pub(crate) async fn drop_group(&mut self, name: &str) -> Result<()> {
        self.require_superuser("DROP NODE GROUP").await?;
        if !is_known(&self.catalog().await?.catalog, name) {
            return Err(no_group(name));
        }
        let named = format!("WHERE name OPERATOR(pg_catalog.=) {}", quote_literal(name));
        self.change_metadata(&format!("DELETE FROM loxo.node_group {named}")).await
    }

    /// Begins a schema change; from here on no datanode leaves. One of these may have since the catalog was read.
    async fn keep_datanodes(&mut self, nodes: &[NodeId], sql: &str) -> Result<()> {
        let gone = format!(
            "SELECT FROM pg_catalog.unnest({}::pg_catalog.int2[]) AS m (id) \
             WHERE NOT EXISTS (SELECT FROM loxo.node AS n WHERE n.id OPERATOR(pg_catalog.=) m.id)",
            listed(nodes)
        );
        self.begin_schema_change(sql).await?;
        self.raise_version().await?;
        match self.rows_on(self.home, &gone).await?.is_empty() {
            true => Ok(()),
            false => Err(PgError::new(
                SqlState::SERIALIZATION_FAILURE,
                "a datanode has left the cluster since the statement began",
            )
            .hint("Run it again, without that datanode.")),
        }
    }
}

/// The members after the change, of which there are some.
fn changed(
    name: &str,
    mut members: Vec<NodeId>,
    change: &GroupChange,
    ids: &[NodeId],
    named: &[String],
) -> Result<Vec<NodeId>> {
    let complain = |code, of: &str| {
        let message = format!("datanode {} is {of} of node group {}", named.join(", "), quote_identifier(name));
        Err(PgError::new(code, message))
    };
    match change {
        GroupChange::Add(_) if ids.iter().any(|id| members.contains(id)) => {
            return complain(SqlState::DUPLICATE_OBJECT, "already a member");
        }
        GroupChange::Add(_) => members.extend(ids),
        GroupChange::Delete(_) if !ids.iter().all(|id| members.contains(id)) => {
            return complain(SqlState::UNDEFINED_OBJECT, "no member");
        }
        GroupChange::Delete(_) => members.retain(|id| !ids.contains(id)),
        GroupChange::With(_) | GroupChange::Rename(_) => members = ids.to_vec(),
    }
    members.sort_unstable();
    if members.is_empty() {
        let message = format!("node group {} would have no member", quote_identifier(name));
        return Err(
            PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint("DROP NODE GROUP takes it away.")
        );
    }
    Ok(members)
}

/// In order, each once.
fn ids(catalog: &Catalog, names: &[String]) -> Result<Vec<NodeId>> {
    let id = |name: &String| catalog.node_by_name(name).map(|node| node.id).ok_or_else(|| no_node(name));
    let mut ids: Vec<NodeId> = names.iter().map(id).collect::<Result<_>>()?;
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// A literal of an array.
fn listed(ids: &[NodeId]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| id.0.to_string()).collect();
    format!("'{{{}}}'", ids.join(","))
}

fn is_known(catalog: &Catalog, name: &str) -> bool {
    catalog.groups().iter().any(|group| group.name == name)
}

fn twice(name: &str) -> PgError {
    PgError::new(SqlState::DUPLICATE_OBJECT, format!("node group \"{name}\" already exists"))
}

fn no_group(name: &str) -> PgError {
    PgError::new(SqlState::UNDEFINED_OBJECT, format!("node group \"{name}\" does not exist"))
}
