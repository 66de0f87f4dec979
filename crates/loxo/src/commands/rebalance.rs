//! `loxo rebalance`.

use cluster::membership::{self, Extent, Levelling, Move, Rebalance};
use cluster::{Config, Progress};
use pgerror::{PgError, Result, SqlState};

use super::ClusterArgument;

/// Spread the rows evenly over the datanodes of a running cluster
///
/// Moves as few of the 4096 buckets as possible so that each datanode has its share, while the cluster works on. The cluster
/// does it by itself: Ctrl-C ends this command, not the moves, and another call shows how far they are. Of several databases one is
/// done after the other.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo rebalance --plan        what would move, from where to where
  loxo rebalance               move it, and say how far it is
  loxo rebalance --level       have each datanode hold as many rows of each ROUNDROBIN table too")]
pub struct Arguments {
    #[command(flatten)]
    cluster: ClusterArgument,
    /// Only print what would move; rows and sizes are estimates
    #[arg(long)]
    plan: bool,
    /// Also move rows of ROUNDROBIN tables from fuller to emptier datanodes; all rows of these tables are counted first
    #[arg(long)]
    level: bool,
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    let config = arguments.cluster.load().await?;
    let extent = if arguments.level { Extent::Level } else { Extent::Buckets };
    match arguments.plan {
        true => print_plans(&config, arguments.level).await,
        false => move_extent(&config, extent, &Progress::stderr()).await,
    }
}

async fn print_plans(config: &Config, level: bool) -> Result<()> {
    let databases = cluster::databases(config).await?;
    for config in &databases {
        let moves = membership::plan(config).await?;
        let levelling = if level { membership::level_plan(config).await? } else { Vec::new() };
        if databases.len() > 1 {
            super::print(&format!("database {}:\n", config.cluster.database))?;
        }
        super::print(&planned(&moves, &levelling))?;
    }
    Ok(())
}

/// Moves the rows and says what was moved.
pub async fn move_rows(config: &Config, progress: &Progress) -> Result<()> {
    move_extent(config, Extent::Buckets, progress).await
}

/// One database after the other.
async fn move_extent(config: &Config, extent: Extent<'_>, progress: &Progress) -> Result<()> {
    let databases = cluster::databases(config).await?;
    for config in &databases {
        let label = match databases.len() {
            1 => String::new(),
            _ => format!("database {}: ", config.cluster.database),
        };
        let moved = tokio::select! {
            moved = membership::rebalance(config, extent, &label, progress) => moved?,
            name = cluster::interrupted() => return Err(left_running(name)),
        };
        super::print(&format!("{label}{}", said(&moved)))?;
    }
    Ok(())
}

/// The command was interrupted, the moves are not.
pub fn left_running(name: &str) -> PgError {
    PgError::new(SqlState::QUERY_CANCELED, format!("stopped by {name}; moves of rows that have begun go on"))
        .hint("TABLE pgxc_rebalance shows how far they are, and so does the same command again.")
}

fn said(moved: &Rebalance) -> String {
    if moved.buckets_done == 0 && moved.rows_moved == 0 {
        return "nothing had to be moved\n".to_owned();
    }
    format!(
        "{} and {} rows ({} MB) were moved in {} s\n",
        super::count(moved.buckets_done as usize, "bucket"),
        moved.rows_moved,
        moved.bytes_moved / 1_000_000,
        moved.seconds
    )
}

fn planned(moves: &[Move], levelling: &[Levelling]) -> String {
    match (moves, levelling) {
        ([], []) => "nothing has to be moved\n".to_owned(),
        ([], levelling) => level_table(levelling),
        (moves, []) => table(moves),
        (moves, levelling) => format!("{}\n{}", table(moves), level_table(levelling)),
    }
}

fn level_table(levelling: &[Levelling]) -> String {
    let width = levelling.iter().map(|one| one.table.chars().count()).max().unwrap_or(0).max("table".len());
    let mut text = format!("{:<width$} {:<12} {:<12} {:>14}\n", "table", "from", "to", "rows");
    for Levelling { table, from, to, rows } in levelling {
        text += &format!("{table:<width$} {from:<12} {to:<12} {rows:>14}\n");
    }
    text
}

fn table(moves: &[Move]) -> String {
    let mut text = format!("{:<12} {:<12} {:>7} {:>14} {:>10}\n", "from", "to", "buckets", "rows", "MB");
    let (mut buckets, mut rows, mut bytes) = (0, 0, 0);
    for one in moves {
        let megabytes = one.bytes / 1_000_000;
        text += &format!("{:<12} {:<12} {:>7} {:>14} {megabytes:>10}\n", one.from, one.to, one.buckets.len(), one.rows);
        (buckets, rows, bytes) = (buckets + one.buckets.len(), rows + one.rows, bytes + one.bytes);
    }
    text + &format!("{:<12} {:<12} {buckets:>7} {rows:>14} {:>10}\n", "all", "", bytes / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_summed_up() {
        let one = |to: &str, rows| Move {
            from: "dn1".to_owned(),
            to: to.to_owned(),
            buckets: vec![1, 2],
            rows,
            bytes: 3_000_000,
        };
        let text = table(&[one("dn3", 10), one("dn4", 20)]);
        let last: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last, ["all", "4", "30", "6"]);
        let level = |table: &str, rows| Levelling {
            table: table.to_owned(),
            from: "dn1".to_owned(),
            to: "dn3".to_owned(),
            rows,
        };
        let text = planned(&[one("dn3", 10)], &[level("public.long_name", 5), level("public.t", 1234)]);
        let last: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(last, ["public.t", "dn1", "dn3", "1234"]);
        assert!(text.contains("public.long_name dn1          dn3                       5\n"), "{text}");
        assert_eq!(planned(&[], &[]), "nothing has to be moved\n");
    }
}
