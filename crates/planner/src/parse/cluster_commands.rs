//! Commands of the cluster that PostgreSQL's grammar does not know, read from the scanner's tokens.

use pgerror::{PgError, Result, SqlState};
use plpgsql::tokens::{Cursor, Token};

use super::{CleanTarget, ClusterCommand, GroupChange, NodeOptions, RebalanceControl};

/// The command, if the statement is one of ours.
pub(crate) fn find<'a>(sql: &'a str, tokens: &[Token<'a>]) -> Result<Option<ClusterCommand>> {
    let mut cursor = Cursor::new(sql, tokens);
    let command = if cursor.accept("execute direct") {
        execute_direct(&mut cursor)?
    } else if cursor.accept("create node group") {
        let name = cursor.identifier()?;
        cursor.expect("with")?;
        ClusterCommand::CreateGroup { name, members: cursor.name_list()? }
    } else if cursor.accept("alter node group") {
        ClusterCommand::AlterGroup(cursor.identifier()?, group_change(&mut cursor)?)
    } else if cursor.accept("drop node group") {
        ClusterCommand::DropGroup(cursor.identifier()?)
    } else if cursor.accept("create node") {
        ClusterCommand::CreateNode(cursor.identifier()?, node_options(&mut cursor)?)
    } else if cursor.accept("alter node") || cursor.accept("alter cluster node") {
        ClusterCommand::AlterNode(cursor.identifier()?, node_options(&mut cursor)?)
    } else if cursor.accept("alter cluster rebalance") {
        rebalance(&mut cursor)?
    } else if cursor.accept("alter cluster repair") {
        let (schema, name) = cursor.qualified_name()?;
        ClusterCommand::Repair { schema, name }
    } else if cursor.accept("drop node") {
        drop_node(&mut cursor)?
    } else if cursor.accept("clean connection") {
        clean_connection(&mut cursor)?
    } else if cursor.accept("create barrier") {
        let _id = if cursor.at_end() { None } else { Some(cursor.string()?) };
        ClusterCommand::CreateBarrier
    } else if cursor.accept("pause cluster") || cursor.accept("unpause cluster") {
        ClusterCommand::PauseCluster
    } else {
        return Ok(None);
    };
    cursor.finish()?;
    Ok(Some(command))
}

fn group_change(cursor: &mut Cursor<'_, '_>) -> Result<GroupChange> {
    if cursor.accept("add node") {
        cursor.name_list().map(GroupChange::Add)
    } else if cursor.accept("delete node") {
        cursor.name_list().map(GroupChange::Delete)
    } else if cursor.accept("rename to") {
        cursor.identifier().map(GroupChange::Rename)
    } else {
        cursor.expect("with")?;
        cursor.name_list().map(GroupChange::With)
    }
}

fn execute_direct(cursor: &mut Cursor<'_, '_>) -> Result<ClusterCommand> {
    cursor.expect("on")?;
    // Postgres-XC wanted no parentheses.
    let nodes = if cursor.at_char('(') { cursor.name_list()? } else { vec![cursor.identifier()?] };
    Ok(ClusterCommand::ExecuteDirect { nodes, query: cursor.string()? })
}

fn drop_node(cursor: &mut Cursor<'_, '_>) -> Result<ClusterCommand> {
    let mut names = vec![cursor.identifier()?];
    while cursor.accept_char(',') {
        names.push(cursor.identifier()?);
    }
    match (cursor.accept("lost"), names.as_slice()) {
        (true, _) => Ok(ClusterCommand::DropLostNodes(names)),
        (false, [name]) => Ok(ClusterCommand::DropNode(name.clone())),
        (false, _) => Err(cursor.error()),
    }
}

fn rebalance(cursor: &mut Cursor<'_, '_>) -> Result<ClusterCommand> {
    for (word, control) in
        [("pause", RebalanceControl::Pause), ("resume", RebalanceControl::Resume), ("cancel", RebalanceControl::Cancel)]
    {
        if cursor.accept(word) {
            return Ok(ClusterCommand::ControlRebalance(control));
        }
    }
    let without = match cursor.accept("without node") {
        false => Vec::new(),
        true if cursor.at_char('(') => cursor.name_list()?,
        true => vec![cursor.identifier()?],
    };
    let level = cursor.accept("level");
    let rate = match cursor.accept("rate") {
        true => Some(cursor.value()?.parse().ok().filter(|rate| *rate > 0).ok_or_else(|| {
            PgError::new(SqlState::INVALID_PARAMETER_VALUE, "RATE wants a positive number of rows a second")
        })?),
        false => None,
    };
    Ok(ClusterCommand::Rebalance { without, level, rate })
}

/// `WITH (TYPE = 'datanode', HOST = 'h', PORT = 5432, PRIMARY, PREFERRED = false)`; order is free.
fn node_options(cursor: &mut Cursor<'_, '_>) -> Result<NodeOptions> {
    let mut options = NodeOptions::default();
    cursor.expect("with")?;
    cursor.expect_char('(')?;
    loop {
        let name = cursor.value()?.to_lowercase();
        let value = if cursor.accept_char('=') { Some(cursor.value()?) } else { None };
        match (name.as_str(), value) {
            ("type", Some(value)) => options.node_type = Some(node_type(&value)?),
            ("host", Some(value)) => options.host = Some(value),
            ("port", Some(value)) => options.port = Some(port(&value)?),
            ("primary", value) => options.primary = Some(boolean("primary", value)?),
            ("preferred", value) => options.preferred = Some(boolean("preferred", value)?),
            (other, _) => {
                let message = format!("unrecognized or incomplete node option \"{other}\"");
                return Err(PgError::new(SqlState::SYNTAX_ERROR, message)
                    .hint("Known are TYPE, HOST, PORT, PRIMARY and PREFERRED."));
            }
        }
        if !cursor.accept_char(',') {
            break;
        }
    }
    cursor.expect_char(')')?;
    Ok(options)
}

fn node_type(value: &str) -> Result<String> {
    let lower = value.to_lowercase();
    match lower.as_str() {
        "coordinator" | "datanode" | "gtm" => Ok(lower),
        _ => Err(PgError::new(SqlState::INVALID_PARAMETER_VALUE, format!("\"{value}\" is not a type of node"))
            .hint("It is coordinator or datanode.")),
    }
}

fn port(value: &str) -> Result<u16> {
    let port = value.parse().ok().filter(|p| *p > 0);
    port.ok_or_else(|| PgError::new(SqlState::INVALID_PARAMETER_VALUE, "port value is out of range"))
}

fn boolean(name: &str, value: Option<String>) -> Result<bool> {
    match value.as_deref().map(str::to_lowercase).as_deref() {
        None | Some("true" | "on" | "yes" | "1") => Ok(true),
        Some("false" | "off" | "no" | "0") => Ok(false),
        Some(_) => Err(PgError::new(SqlState::SYNTAX_ERROR, format!("{name} requires a Boolean value"))),
    }
}

fn clean_connection(cursor: &mut Cursor<'_, '_>) -> Result<ClusterCommand> {
    cursor.expect("to")?;
    let target = if cursor.accept("coordinator") {
        CleanTarget::Coordinators(cursor.name_list()?)
    } else if cursor.accept("node") {
        CleanTarget::Nodes(cursor.name_list()?)
    } else {
        cursor.expect("all")?;
        cursor.accept("force");
        CleanTarget::All
    };
    let of_database = cursor.accept("for database") && cursor.identifier().map(|_| true)?;
    let of_user = cursor.accept("to user") && cursor.identifier().map(|_| true)?;
    if !of_database && !of_user {
        return Err(PgError::new(SqlState::SYNTAX_ERROR, "CLEAN CONNECTION needs FOR DATABASE or TO USER"));
    }
    Ok(ClusterCommand::CleanConnection(target))
}
