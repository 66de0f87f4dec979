//! `loxo node`.

use cluster::join::Join;
use cluster::membership::{self, Member, NodeStatus};
use cluster::{Config, Datanode, Progress, local};
use pgerror::{PgError, Result, SqlState};

use super::{ClusterArgument, DirArgument, rebalance};

/// Add, list and remove the datanodes of a running cluster
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo node add                                                        one more datanode for the local cluster
  loxo node add --rebalance                                            and its share of the rows
  loxo node add --config F --name dn4 --host 10.0.0.24 --port 5432     a server that runs already
  loxo node list
  loxo node remove dn4
  loxo node primary dn2                                                before dn1 can be removed")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Add(Add),
    List(List),
    Remove(Remove),
    Primary(Primary),
}

/// Make a PostgreSQL server a datanode of a running cluster
///
/// Gives an empty server the cluster's roles, schema and metadata, and then makes it a datanode, while the cluster works on.
/// Only schema changes wait for a moment. The new datanode has no rows at first: "loxo rebalance" moves its share there. On
/// this machine the server is made too; with --config it must run, empty, and with the settings that "loxo check" wants.
/// On failure the server is as it was. docs/growing.md tells the steps.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo node add                                                        the next of the local cluster: dn3, dn4, …
  loxo node add big --rebalance                                        of this name, with its share of the rows
  loxo node add --config F --name dn4 --host 10.0.0.24 --port 5432     a server that runs already")]
struct Add {
    /// Name of the new datanode of a local cluster [default: the next dnN]
    #[arg(conflicts_with = "config")]
    next: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgument,
    /// Name of the new datanode
    #[arg(long, value_name = "N", requires = "config")]
    name: Option<String>,
    /// Where coordinators reach the new server
    #[arg(long, value_name = "H", requires = "config")]
    host: Option<String>,
    /// The new server's port
    #[arg(long, value_name = "P", requires = "config")]
    port: Option<u16>,
    /// Move the new datanode's share of the rows there at once
    #[arg(long)]
    rebalance: bool,
}

/// Show the datanodes: addresses, how many buckets and rows they hold, whether they answer
///
/// Rows are estimates of the last ANALYZE, as PostgreSQL's planner uses them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo node list
  loxo node list --json | jq -r '.[] | select(.trouble) | .name'")]
struct List {
    #[command(flatten)]
    cluster: ClusterArgument,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Empty a datanode and take it out of a running cluster
///
/// Its rows are moved to the other datanodes first, while the cluster works on. Interrupted, it can simply be run again. On
/// this machine the server is stopped then, and its data directory stays as NAME.removed. The primary datanode cannot be removed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo node remove dn4
  loxo node remove dn4 --config /etc/loxo.toml")]
struct Remove {
    /// The datanode
    name: String,
    #[command(flatten)]
    cluster: ClusterArgument,
}

/// Make another datanode the primary one
///
/// The primary datanode holds sequences, large objects and what gtms agree by, so it cannot leave the cluster before another one
/// does that. No coordinator and no gtm may run meanwhile: of a local cluster they are stopped and started again, which takes
/// some seconds; real hosts' you stop yourself. No row moves.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo node primary dn2
  loxo node primary dn2 --config /etc/loxo.toml")]
struct Primary {
    /// The datanode
    name: String,
    #[command(flatten)]
    cluster: ClusterArgument,
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::Add(arguments) => add(arguments).await,
        Command::List(arguments) => list(arguments).await,
        Command::Remove(arguments) => remove(arguments).await,
        Command::Primary(arguments) => primary(arguments).await,
    }
}

async fn add(arguments: Add) -> Result<()> {
    let progress = Progress::stderr();
    let config = match &arguments.cluster.config {
        None => add_here(&arguments.cluster.dir, arguments.next.as_deref(), &progress).await?,
        Some(path) => {
            let config = Config::load(path)?;
            let new = named(&config, &arguments)?;
            add_there(&config, &new, &progress).await?;
            config
        }
    };
    if arguments.rebalance {
        return rebalance::move_rows(&config, &progress).await;
    }
    progress.line("it has no rows yet; \"loxo rebalance\" moves its share of them there");
    Ok(())
}

async fn add_here(dir: &DirArgument, name: Option<&str>, progress: &Progress) -> Result<Config> {
    let added = local::node::add(&dir.path(), name, progress).await?;
    super::print(&format!("{} is a datanode now, on port {}\n", added.name, added.port))?;
    Config::load(&dir.path().join("cluster.toml"))
}

/// What the command line says, filled up with what the configuration says of a datanode of that name.
fn named(config: &Config, arguments: &Add) -> Result<Datanode> {
    let missing = |what: &str| {
        PgError::new(SqlState::CONFIG_FILE_ERROR, format!("--{what} is missing"))
            .hint("Write for example: loxo node add --config F --name dn4 --host 10.0.0.24 --port 5432")
    };
    let name = arguments.name.clone().ok_or_else(|| missing("name"))?;
    let configured = config.datanodes.iter().find(|node| node.name == name);
    let host = arguments.host.clone().or(configured.map(|node| node.host.clone())).ok_or_else(|| missing("host"))?;
    let port = arguments.port.or(configured.map(|node| node.port)).ok_or_else(|| missing("port"))?;
    Ok(Datanode { name, id: None, host, port, primary: false, preferred: false })
}

async fn add_there(config: &Config, new: &Datanode, progress: &Progress) -> Result<()> {
    let join = Join::new(config, new, progress).await?;
    let outcome = tokio::select! {
        outcome = join.add() => outcome,
        name = cluster::interrupted() => Err(PgError::new(SqlState::QUERY_CANCELED, format!("stopped by {name}"))),
    };
    let id = match outcome {
        Ok(id) => id,
        Err(error) => join.settled(error).await?,
    };
    let Datanode { name, host, port, .. } = new;
    super::print(&format!(
        "{name} is a datanode now. Add it to {}, on all hosts, so that coordinators and gtms find the cluster through it too:\n\n\
         [[datanode]]\nname = \"{name}\"\nid = {id}\nhost = \"{host}\"\nport = {port}\n",
        config.path.display()
    ))
}

async fn list(arguments: List) -> Result<()> {
    let nodes = membership::list(&arguments.cluster.load()?).await?;
    if !arguments.json {
        return super::print(&table(&nodes));
    }
    let text = serde_json::to_string_pretty(&nodes).map_err(|e| PgError::internal(e.to_string()))?;
    super::print(&format!("{text}\n"))
}

fn table(nodes: &[NodeStatus]) -> String {
    let mut text = format!(
        "{:<12} {:>4}  {:<24} {:<8} {:>7} {:>14} {:>10}  state\n",
        "name", "id", "address", "", "buckets", "rows", "MB"
    );
    for node in nodes {
        let address = format!("{}:{}", node.host, node.port);
        let number = |value: Option<i64>| value.map_or("-".to_owned(), |value| value.to_string());
        let (rows, megabytes) = (number(node.rows), number(node.bytes.map(|bytes| bytes / 1_000_000)));
        let role = if node.primary { "primary" } else { "" };
        let state = node.trouble.as_deref().unwrap_or("running");
        text += &format!(
            "{:<12} {:>4}  {address:<24} {role:<8} {:>7} {rows:>14} {megabytes:>10}  {state}\n",
            node.name, node.id, node.buckets
        );
    }
    text
}

async fn primary(arguments: Primary) -> Result<()> {
    let progress = Progress::stderr();
    let name = &arguments.name;
    let Some(path) = &arguments.cluster.config else {
        let dir = arguments.cluster.dir.path();
        local::primary::hand_over(&dir, name, &std::env::current_exe()?, &progress).await?;
        return super::print(&format!("{name} is the primary datanode now\n"));
    };
    let members = membership::primary::hand_over(&Config::load(path)?, name, None, &progress).await?;
    let nodes: Vec<String> = members
        .iter()
        .map(|node| {
            let Member { id, name, host, port, .. } = node;
            format!("[[datanode]]\nname = \"{name}\"\nid = {id}\nhost = \"{host}\"\nport = {port}\n")
        })
        .collect();
    super::print(&format!(
        "{name} is the primary datanode now. Write the datanodes in this order into {}, on all hosts, before you start coordinators and \
         gtms again:\n\n{}",
        path.display(),
        nodes.join("\n")
    ))
}

async fn remove(arguments: Remove) -> Result<()> {
    let progress = Progress::stderr();
    let name = &arguments.name;
    let work = async || -> Result<String> {
        match &arguments.cluster.config {
            None => {
                let kept = local::node::remove(&arguments.cluster.dir.path(), name, &progress).await?;
                let where_to = match kept {
                    Some(kept) => format!("its data directory is {} now", kept.display()),
                    None => "stop its server".to_owned(),
                };
                Ok(format!("{name} is no datanode any more; {where_to}\n"))
            }
            Some(path) => {
                membership::remove(&Config::load(path)?, name, &progress).await?;
                let path = path.display();
                Ok(format!(
                    "{name} is no datanode any more. Stop its server, and remove it from {path}; give datanodes \
                     that follow it there \"id = …\", as \"loxo node list\" shows it.\n"
                ))
            }
        }
    };
    let said = tokio::select! {
        said = work() => said?,
        name = cluster::interrupted() => return Err(rebalance::left_running(name)),
    };
    super::print(&said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_who_does_not_answer() {
        let node = |name: &str, trouble: Option<&str>| NodeStatus {
            name: name.to_owned(),
            id: 0,
            host: "10.0.0.1".to_owned(),
            port: 5432,
            primary: trouble.is_none(),
            buckets: 2048,
            rows: trouble.is_none().then_some(7),
            bytes: trouble.is_none().then_some(9_000_000),
            trouble: trouble.map(str::to_owned),
        };
        let text = table(&[node("dn1", None), node("dn2", Some("no answer"))]);
        let words: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[0], ["dn1", "0", "10.0.0.1:5432", "primary", "2048", "7", "9", "running"]);
        assert_eq!(words[1], ["dn2", "0", "10.0.0.1:5432", "2048", "-", "-", "no", "answer"]);
    }
}
