//! `loxo status`.

use cluster::local::{self, State, Status};
use pgerror::{PgError, Result};

use super::DirArgument;

/// Show what runs: processes, ports, versions, how far a rebalance is, transactions in doubt
///
/// States: running (it answers), starting (there is a process, but it does not answer yet), dead. Exits with 0
/// whatever the state is, and with 1 if there is no cluster in the directory.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo status
  loxo status --json | jq -r '.processes[] | select(.state != \"running\") | .name'")]
pub struct Arguments {
    #[command(flatten)]
    dir: DirArgument,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    let status = local::status(&arguments.dir.path()).await?;
    if !arguments.json {
        return super::print(&table(&status));
    }
    let text = serde_json::to_string_pretty(&status).map_err(|e| PgError::internal(e.to_string()))?;
    super::print(&format!("{text}\n"))
}

fn word(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Dead => "dead",
        State::Starting => "starting",
        State::Degraded => "degraded",
    }
}

fn table(status: &Status) -> String {
    let mut lines = vec![
        format!("cluster in {}: {}", status.dir.display(), word(status.state)),
        format!("{:<12} {:<12} {:>6} {:>9}  {:<9} version", "name", "kind", "port", "pid", "state"),
    ];
    lines.extend(status.processes.iter().map(|p| {
        let pid = p.pid.map_or("-".to_owned(), |pid| pid.to_string());
        let version = p.version.as_deref().unwrap_or("-");
        let role = p.role.map_or(String::new(), |role| format!(" ({role})"));
        format!("{:<12} {:<12} {:>6} {pid:>9}  {:<9} {version}{role}", p.name, p.kind, p.port, word(p.state))
    }));
    lines.push("connect with:".to_owned());
    lines.extend(status.coordinators.iter().map(|uri| format!("  psql {uri}")));
    lines.extend(status.pages.first().map(|_| format!("look at it with a browser: {}", status.pages.join(" "))));
    let place = status.rebalance_database.as_ref().map_or(String::new(), |name| format!("in database {name} "));
    lines.extend(status.rebalance.iter().map(|rebalance| format!("rebalance {place}{}", rebalance.line())));
    if !status.in_doubt.is_empty() {
        lines.push("transactions in doubt:".to_owned());
    }
    lines.extend(
        status
            .in_doubt
            .iter()
            .map(|t| format!("  {} on {}, prepared {} by {} in {}", t.gid, t.node, t.prepared, t.owner, t.database)),
    );
    lines.join("\n") + "\n"
}
