//! Commands that PostgreSQL does not know: EXECUTE DIRECT, CLEAN CONNECTION; and where those of databases, nodes and groups begin.

use pgerror::{PgError, Result, SqlState};
use planner::parse::{CleanTarget, ClusterCommand, Statement, StatementKind};

use crate::backend::call::Call;
use crate::backend::isolation::Isolation;
use crate::block::Mode;
use crate::engine::output::Output;
use crate::engine::run::Completion;
use crate::growth::nodes::{known, no_node};
use crate::session::Session;

impl Session {
    pub(crate) async fn cluster_command(
        &mut self,
        command: &ClusterCommand,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        let tag = match command {
            ClusterCommand::ExecuteDirect { nodes, query } => {
                return self.execute_direct(nodes, query, call, output).await;
            }
            ClusterCommand::CreateGroup { name, members } => {
                self.create_group(name, members).await?;
                "CREATE NODE GROUP"
            }
            ClusterCommand::AlterGroup(name, change) => {
                self.alter_group(name, change).await?;
                "ALTER NODE GROUP"
            }
            ClusterCommand::DropGroup(name) => {
                self.drop_group(name).await?;
                "DROP NODE GROUP"
            }
            ClusterCommand::CleanConnection(target) => {
                self.require_superuser("CLEAN CONNECTION").await?;
                if let CleanTarget::Nodes(names) | CleanTarget::Coordinators(names) = target {
                    let loaded = self.catalog().await?;
                    let is_known = |name: &String| known(&loaded.catalog).any(|node| node.name == *name);
                    names.iter().find(|name| !is_known(name)).map_or(Ok(()), |name| Err(no_node(name)))?;
                }
                self.context.pool.clear().await;
                "CLEAN CONNECTION"
            }
            ClusterCommand::CreateNode(name, options) => {
                Box::pin(self.create_node(name, options)).await?;
                "CREATE NODE"
            }
            ClusterCommand::AlterNode(name, options) => {
                Box::pin(self.alter_node(name, options)).await?;
                "ALTER NODE"
            }
            ClusterCommand::DropNode(name) => {
                Box::pin(self.drop_node(name)).await?;
                "DROP NODE"
            }
            ClusterCommand::DropLostNodes(names) => {
                Box::pin(self.drop_lost_nodes(names)).await?;
                "DROP NODE"
            }
            ClusterCommand::Rebalance { without, level, rate } => {
                self.want_rebalance(without, *level, *rate).await?;
                "ALTER CLUSTER"
            }
            ClusterCommand::ControlRebalance(control) => {
                self.control_rebalance(*control).await?;
                "ALTER CLUSTER"
            }
            ClusterCommand::Repair { schema, name } => {
                Box::pin(self.repair_table(schema.as_deref(), name)).await?;
                "ALTER CLUSTER"
            }
            ClusterCommand::CreateDatabase { name, template, sql } => {
                Box::pin(self.create_database(name, template.as_deref(), sql)).await?;
                "CREATE DATABASE"
            }
            ClusterCommand::DropDatabase { name, missing_ok, force, sql } => {
                Box::pin(self.drop_database(name, *missing_ok, *force, sql)).await?;
                "DROP DATABASE"
            }
            ClusterCommand::RenameDatabase { name, new_name } => {
                Box::pin(self.rename_database(name, new_name)).await?;
                "ALTER DATABASE"
            }
            ClusterCommand::CreateBarrier => {
                self.require_superuser("CREATE BARRIER").await?;
                return Err(PgError::unsupported("CREATE BARRIER").hint("Back up the datanodes while no one writes."));
            }
            ClusterCommand::PauseCluster => {
                self.require_superuser("PAUSE CLUSTER").await?;
                return Err(PgError::unsupported("PAUSE CLUSTER").hint("Stop the coordinators: `loxo down`."));
            }
        };
        Ok(Completion::Tag(tag.to_owned()))
    }

    /// One read-only statement on one node, as it is. For a look at a datanode, so superusers only, as in Postgres-XL.
    async fn execute_direct(
        &mut self,
        nodes: &[String],
        query: &str,
        call: &Call,
        output: &mut Output<'_>,
    ) -> Result<Completion> {
        self.require_superuser("EXECUTE DIRECT").await?;
        let statements = planner::parse(query)?;
        let [Statement { kind: StatementKind::Select | StatementKind::Show(_) | StatementKind::Explain(_), .. }] =
            statements.as_slice()
        else {
            return Err(PgError::unsupported("EXECUTE DIRECT of anything but one SELECT, SHOW or EXPLAIN")
                .hint("Change data through the coordinator; it keeps the datanodes consistent."));
        };
        let [name] = nodes else {
            return Err(PgError::unsupported("EXECUTE DIRECT on several nodes").hint("Name one node."));
        };
        let loaded = self.catalog().await?;
        let node = loaded.catalog.node_by_name(name).map(|node| node.id).ok_or_else(|| no_node(name))?;
        // Whatever functions the statement calls, nothing may change behind the coordinators' back.
        if self.in_block() {
            return self.scatter(Mode::InBlock, vec![(node, query.to_owned())], call, output).await;
        }
        self.begin(Some(Isolation::ReadCommitted), " READ ONLY", Some(true));
        let result = self.scatter(Mode::InBlock, vec![(node, query.to_owned())], call, output).await;
        self.rollback().await;
        result
    }

    /// One change of our own tables, on all nodes.
    pub(crate) async fn change_metadata(&mut self, sql: &str) -> Result<()> {
        let nodes = self.context.nodes();
        let sql = sql.to_owned();
        self.atomically(async |this| this.schema_change(&nodes, &sql).await).await
    }

    pub(crate) async fn require_superuser(&mut self, what: &str) -> Result<()> {
        let rows = self.rows_on(self.home, "SHOW is_superuser").await?;
        if rows.first().and_then(|row| row.first()?.as_deref()) == Some(b"on") {
            return Ok(());
        }
        Err(PgError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("must be superuser to use {what}")))
    }
}
