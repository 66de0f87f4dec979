//! `loxo rebalance`.

use cluster::membership::{self, Move, Rebalance};
use cluster::{Config, Progress};
use pgerror::{PgError, Result, SqlState};

use super::ClusterArgument;

/// Spread the rows evenly over the datanodes of a running cluster
///
/// Moves as few of the 4096 buckets as possible so that each datanode has its share, while the cluster works on. The cluster
/// does it by itself: Ctrl-C ends this command, not the moves, and another call shows how far they are.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  loxo rebalance --plan        what would move, from where to where
  loxo rebalance               move it, and say how far it is")]
pub struct Arguments {
    #[command(flatten)]
    cluster: ClusterArgument,
    /// Only print what would move; rows and sizes are estimates
    #[arg(long)]
    plan: bool,
}

/// Runs the command.
pub async fn run(arguments: Arguments) -> Result<()> {
    let config = arguments.cluster.load()?;
    match arguments.plan {
        true => super::print(&table(&membership::plan(&config).await?)),
        false => move_rows(&config, &Progress::stderr()).await,
    }
}

/// Moves the rows and says what was moved.
pub async fn move_rows(config: &Config, progress: &Progress) -> Result<()> {
    let moved = tokio::select! {
        moved = membership::rebalance(config, None, progress) => moved?,
        name = cluster::interrupted() => return Err(left_running(name)),
    };
    super::print(&said(&moved))
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

fn table(moves: &[Move]) -> String {
    if moves.is_empty() {
        return "nothing has to be moved\n".to_owned();
    }
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
        assert_eq!(table(&[]), "nothing has to be moved\n");
    }
}
