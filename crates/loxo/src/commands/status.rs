//! `loxo status`.

use std::path::PathBuf;

use cluster::local::{self, State, Status};
use cluster::{Config, Named, Overview, duration};
use pgerror::{PgError, Result, SqlState};

use super::DirArgument;

/// Show what runs: processes, ports, versions, how far a rebalance is, transactions in doubt
///
/// Of a local cluster: running (it answers), starting (there is a process, but it does not answer yet), dead. Exits with 0
/// whatever the state is, and with 1 if there is no cluster in the directory.
///
/// With --config, of real hosts: gtms, coordinators, datanodes with their standbys, databases, jobs, transactions in doubt,
/// and what is wrong with them. Exits with 1 if anything is. Of a process that does not hear this host, for want of a
/// certificate or a key, it says only whether it listens.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo status
  loxo status --config /etc/loxo.toml
  loxo status --json | jq -r '.processes[] | select(.state != \"running\") | .name'")]
pub struct Arguments {
    /// Configuration file of a cluster of real hosts
    #[arg(long, value_name = "F", conflicts_with = "dir")]
    config: Option<PathBuf>,
    #[command(flatten)]
    dir: DirArgument,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    let mut dir = arguments.dir.path();
    if let Some(path) = &arguments.config {
        let config = Config::load(path)?;
        match &config.local {
            None => return of_hosts(&config, arguments.json).await,
            Some(local) => dir = local.dir.clone(),
        }
    }
    let status = local::status(&dir).await?;
    let json = arguments.json.then(|| serde_json::to_string_pretty(&status));
    print(json, || table(&status))
}

async fn of_hosts(config: &Config, as_json: bool) -> Result<()> {
    let seen = cluster::overview(config).await?;
    print(as_json.then(|| serde_json::to_string_pretty(&seen)), || overview(&seen))?;
    match seen.wrong.len() {
        0 => Ok(()),
        wrong => {
            let verb = if wrong == 1 { "is" } else { "are" };
            let text = format!("{} {verb} wrong with cluster \"{}\"", super::count(wrong, "thing"), seen.name);
            Err(PgError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text)
                .hint("\"loxo check --config F\" says of most what to do."))
        }
    }
}

fn print(json: Option<serde_json::Result<String>>, text: impl FnOnce() -> String) -> Result<()> {
    match json {
        None => super::print(&text()),
        Some(json) => super::print(&format!("{}\n", json.map_err(|e| PgError::internal(e.to_string()))?)),
    }
}

fn overview(seen: &Overview) -> String {
    let well = if seen.wrong.is_empty() { "all is well" } else { "not all is well" };
    let mut lines =
        vec![format!("cluster {}: {well}", seen.name), line("name", "kind", "address", "state", "for", "version")];
    let named = |kind, one: &Named| {
        let state = match (one.process.is_up, one.process.leads) {
            (Some(true), Some(true)) => "leads",
            (Some(true), Some(false)) => "stands by",
            (Some(true), None) => "up",
            (Some(false), _) => "DOWN",
            (None, _) => "unknown",
        };
        let version = one.process.version.as_deref().unwrap_or("-");
        line(&one.name, kind, &one.address, state, &time(one.process.up_seconds), version)
    };
    lines.extend(seen.gtms.iter().map(|gtm| named("gtm", gtm)));
    lines.extend(seen.coordinators.iter().map(|coordinator| named("coordinator", coordinator)));
    for one in &seen.datanodes {
        let kind = if one.primary { "primary" } else { "datanode" };
        let state = if one.is_up { "up" } else { "DOWN" };
        let version = one.version.as_deref().unwrap_or("-");
        lines.push(line(&one.name, kind, &one.address, state, &time(one.up_seconds), version));
        lines.extend(one.standbys.iter().map(|standby| {
            let seconds = standby.behind_seconds.map_or(String::new(), |seconds| format!(", {seconds} s"));
            let (bytes, state, sync) = (standby.behind_bytes, &standby.state, &standby.sync);
            format!("  standby {} at {}: {state}, {sync}, {bytes} bytes{seconds} behind", standby.name, standby.address)
        }));
    }
    lines.extend(seen.layout.map(|layout| format!("layout of the metadata: {layout}")));
    lines.push(format!(
        "databases: {}",
        if seen.databases.is_empty() { "-".to_owned() } else { seen.databases.join(", ") }
    ));
    for (title, list) in [
        ("under way:", seen.jobs.clone()),
        ("transactions in doubt:", seen.in_doubt.iter().map(|one| one.line()).collect()),
        ("wrong:", seen.wrong.clone()),
    ] {
        if !list.is_empty() {
            lines.push(title.to_owned());
            lines.extend(list.into_iter().map(|line| format!("  {line}")));
        }
    }
    lines.join("\n") + "\n"
}

fn time(seconds: Option<u64>) -> String {
    seconds.map_or("-".to_owned(), duration)
}

fn line(name: &str, kind: &str, address: &str, state: &str, up: &str, version: &str) -> String {
    format!("{name:<12} {kind:<12} {address:<24} {state:<10} {up:<14} {version}")
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
    lines.extend(status.in_doubt.iter().map(|one| format!("  {}", one.line())));
    lines.join("\n") + "\n"
}
