//! What is measured, and what its parts are called.

use super::queries;
use super::tables::Layout;

/// What to measure.
#[derive(Clone, Debug)]
pub struct PowerOptions {
    /// TPC-H scale factor.
    pub scale_factor: f64,
    /// Where the tables lie.
    pub layout: Layout,
    /// Runs of each query on each side; the fastest counts. So many pairs of refresh functions too.
    pub rounds: usize,
    /// Numbers of the queries to run, 1 to 22.
    pub queries: Vec<usize>,
    /// Sessions that run all queries at the same time; 0 leaves that out.
    pub streams: usize,
    /// `work_mem` on both sides.
    pub work_mem: String,
    /// A query that takes longer is given up.
    pub timeout_seconds: u32,
    /// Use the tables that a run before has left in the cluster, and leave them there: so they are not refreshed.
    pub keep_tables: bool,
}

impl PowerOptions {
    /// All queries, three times, two streams, scale factor 1.
    pub fn new(layout: Layout) -> Self {
        Self {
            scale_factor: 1.0,
            layout,
            rounds: 3,
            queries: (1..=queries::COUNT).collect(),
            streams: 2,
            work_mem: "256MB".to_owned(),
            timeout_seconds: 300,
            keep_tables: false,
        }
    }

    /// Less than three minutes.
    pub fn quick(layout: Layout) -> Self {
        Self { scale_factor: 0.1, rounds: 2, ..Self::new(layout) }
    }
}

/// Word of a sample: an error in place of rows.
pub(super) const FAILED: &str = "failed";

/// One of what is measured on a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Load,
    Query(usize),
    Streams,
    /// New orders come.
    Insert,
    /// Old orders go.
    Delete,
}

impl Part {
    /// As its point is called in samples.
    pub(super) fn point(self, datanodes: u16) -> String {
        let name = match self {
            Part::Load => "load".to_owned(),
            Part::Query(number) => format!("Q{number}"),
            Part::Streams => "streams".to_owned(),
            Part::Insert => "RF1".to_owned(),
            Part::Delete => "RF2".to_owned(),
        };
        format!("{name}, {datanodes} datanodes")
    }

    pub(super) fn of_point(point: &str) -> Option<Self> {
        Some(match point.split(',').next()? {
            "load" => Part::Load,
            "streams" => Part::Streams,
            "RF1" => Part::Insert,
            "RF2" => Part::Delete,
            query => Part::Query(query.strip_prefix('Q')?.parse().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_again_by_their_points() {
        for part in [Part::Load, Part::Query(7), Part::Query(22), Part::Streams, Part::Insert, Part::Delete] {
            assert_eq!(Part::of_point(&part.point(4)), Some(part));
        }
        assert_eq!(Part::of_point("check"), None);
    }
}
