//! `loxo node`.

use cluster::join::Join;
use std::io::{IsTerminal, Write};

use cluster::membership::{self, Loss, LostRows, Member, NodeStatus};
use cluster::{Config, Datanode, Progress, local};
use pgerror::{PgError, Result, SqlState};

use super::{ClusterArgument, DirArgument, rebalance};

/// Add, list and remove datanodes, and choose the primary one
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
/// On failure the server is as it was. Of several databases one after the other gets the datanode; a call that ends in between
/// says so, and is taken up by another one. docs/growing.md tells the steps.
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
/// Rows are estimates of the last ANALYZE, as PostgreSQL's planner uses them. Rows and MB are those of all databases, buckets those of
/// the first one. Databases that lack a datanode are named: "loxo node add" or "remove" was interrupted, and goes on if run again.
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
/// Its rows in all databases are moved to the other datanodes first, while the cluster works on. Interrupted, it can simply be run again. On
/// this machine the server is stopped then, and its data directory stays as NAME.removed. The primary datanode
/// cannot be removed: another one can take its part, see "loxo node primary".
///
/// With --lost datanodes are taken out whose servers are gone for good, with all rows that they alone held. It is said what
/// those are, and asked whether that is meant.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo node remove dn4
  loxo node remove dn4 --config /etc/loxo.toml
  loxo node remove dn4 --lost              its server and its disks are gone")]
struct Remove {
    /// The datanode; several only with --lost
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    cluster: ClusterArgument,
    /// Give up what they alone held; they must not answer
    #[arg(long)]
    lost: bool,
    /// Do not ask
    #[arg(long, requires = "lost")]
    yes: bool,
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
            let config = Config::load_numbered(path).await?;
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
        Err(error) => {
            let id = join.left_after(error.clone()).await?;
            join.check_complete(id, &error).await?;
            id
        }
    };
    let Datanode { name, host, port, .. } = new;
    super::print(&format!(
        "{name} is a datanode now. Add it to {}, on all hosts, so that coordinators and gtms find the cluster through it too:\n\n\
         [[datanode]]\nname = \"{name}\"\nid = {id}\nhost = \"{host}\"\nport = {port}\n",
        config.path.display()
    ))
}

async fn list(arguments: List) -> Result<()> {
    let nodes = membership::list(&arguments.cluster.load().await?).await?;
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
        let mut state = node.trouble.as_deref().unwrap_or("running").to_owned();
        if !node.lacking.is_empty() {
            state += &format!("; not a datanode of: {}", node.lacking.join(", "));
        }
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
    let members = membership::primary::hand_over(&Config::load_numbered(path).await?, name, None, &progress).await?;
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
    let (names, cluster) = (&arguments.names, &arguments.cluster);
    if arguments.lost {
        let loss = membership::loss(&cluster.load().await?, names).await?;
        super::print(&told(names, &loss))?;
        confirm(names, arguments.yes)?;
    }
    let said = tokio::select! {
        said = taken_out(names, cluster, arguments.lost, &progress) => said?,
        name = cluster::interrupted() => return Err(rebalance::left_running(name)),
    };
    super::print(&said)
}

async fn taken_out(names: &[String], cluster: &ClusterArgument, lost: bool, progress: &Progress) -> Result<String> {
    let none = format!("{} no {} any more", listed(names), if names.len() == 1 { "datanode" } else { "datanodes" });
    let stop = if lost { "Keep its server from coming back" } else { "Stop its server" };
    let Some(path) = &cluster.config else {
        let dir = cluster.dir.path();
        let kept = match (lost, names) {
            (true, _) => local::node::give_up(&dir, names, progress).await?,
            (false, [name]) => local::node::remove(&dir, name, progress).await?.into_iter().collect(),
            (false, _) => return Err(one_by_one()),
        };
        let kept: Vec<String> = kept.iter().map(|kept| kept.display().to_string()).collect();
        return Ok(match kept.is_empty() {
            true => format!("{none}. {stop}.\n"),
            false => format!("{none}; its data directory is {} now\n", kept.join(", ")),
        });
    };
    let config = Config::load_numbered(path).await?;
    match (lost, names) {
        (true, _) => membership::give_up(&config, names, progress).await?,
        (false, [name]) => membership::remove(&config, name, progress).await?,
        (false, _) => return Err(one_by_one()),
    }
    let path = path.display();
    Ok(format!(
        "{none}. {stop}, and remove it from {path}; give datanodes that follow it there \"id = …\", as \"loxo node list\" shows it.\n"
    ))
}

/// `dn3 is`, `dn3 and dn4 are`.
fn listed(names: &[String]) -> String {
    format!("{} {}", names.join(" and "), if names.len() == 1 { "is" } else { "are" })
}

fn one_by_one() -> PgError {
    PgError::new(SqlState::CONFIG_FILE_ERROR, "datanodes are emptied one after the other")
        .hint("Name one of them; several only with --lost.")
}

/// Buckets of each bucket map.
const BUCKETS: usize = 4096;

/// What is gone with a datanode.
fn told(names: &[String], all: &[Loss]) -> String {
    let mut text = format!("{} lost. With that is gone for good:\n", listed(names));
    for loss in all {
        if all.len() > 1 {
            text += &format!("database {}:\n", loss.database);
        }
        text += &told_of(loss);
    }
    text += "Rows of the other datanodes stay as they are; foreign keys may refer to rows that are gone.\n";
    if all.iter().any(|loss| !loss.in_doubt.is_empty()) {
        text += "Transactions whose outcome nobody else knows will be committed where they are prepared:\n";
    }
    for (gid, node) in all.iter().flat_map(|loss| &loss.in_doubt) {
        text += &format!("  {gid} on {node}\n");
    }
    text
}

fn told_of(loss: &Loss) -> String {
    let mut text = String::new();
    for (map, buckets) in &loss.maps {
        let of = if *map == 1 { "the map over all datanodes".to_owned() } else { format!("map {map}") };
        text += &format!("  {buckets} of {} buckets of {of}\n", BUCKETS);
    }
    if !loss.tables.is_empty() {
        text += &format!("{:<32} {:>14}  which\n", "rows of table", "about");
    }
    for LostRows { table, which, rows } in &loss.tables {
        let rows = rows.map_or("?".to_owned(), |rows| rows.to_string());
        text += &format!("{table:<32} {rows:>14}  {which}\n");
    }
    text
}

fn confirm(names: &[String], is_meant: bool) -> Result<()> {
    if is_meant {
        return Ok(());
    }
    let refused = |text: &str| PgError::new(SqlState::QUERY_CANCELED, text);
    if !std::io::stdin().is_terminal() {
        return Err(refused("nothing was done: this wants a confirmation").hint("Say --yes if that is meant."));
    }
    let wanted = names.join(" ");
    super::print(&format!("Type {wanted} to go on: "))?;
    std::io::stdout().flush()?;
    let mut typed = String::new();
    std::io::stdin().read_line(&mut typed)?;
    match typed.trim() == wanted {
        true => Ok(()),
        false => Err(refused("nothing was done")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_told() {
        let rows = |table: &str, rows| LostRows { table: table.to_owned(), which: "some".to_owned(), rows };
        let loss = Loss {
            database: "sales".to_owned(),
            tables: vec![rows("public.t", Some(7)), rows("public.alone", None)],
            maps: vec![(1, 1024), (3, 4096)],
            in_doubt: vec![("loxo_1_2_3_4_5".to_owned(), "dn1".to_owned())],
        };
        let text = told(&["dn3".to_owned()], std::slice::from_ref(&loss));
        assert!(!text.contains("sales"), "{text}");
        for line in [
            "  1024 of 4096 buckets of the map over all datanodes",
            "  4096 of 4096 buckets of map 3",
            "  loxo_1_2_3_4_5 on dn1",
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(text.lines().any(|line| words(line) == ["public.alone", "?", "some"]), "{text}");
        assert!(!told(&["dn3".to_owned()], &[Loss::default()]).contains("Transactions"));
        assert!(told(&["dn3".to_owned()], &[Loss::default(), loss]).contains("database sales:\n"));
    }

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
            lacking: if trouble.is_some() { vec!["d".to_owned()] } else { Vec::new() },
        };
        let text = table(&[node("dn1", None), node("dn2", Some("no answer"))]);
        let words: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[0], ["dn1", "0", "10.0.0.1:5432", "primary", "2048", "7", "9", "running"]);
        assert_eq!(
            words[1],
            ["dn2", "0", "10.0.0.1:5432", "2048", "-", "-", "no", "answer;", "not", "a", "datanode", "of:", "d"]
        );
    }
}
