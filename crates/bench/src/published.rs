//! What others have published of the same tables, to be read beside our figures, per vCPU.

use crate::suite::{Cell, Mark, Table};

struct Published {
    what: &'static str,
    rows_per_second: f64,
    datanodes: f64,
    source: &'static str,
}

/// Of an EC2 i2.xlarge, which ran one datanode each.
const VCPUS_A_DATANODE: f64 = 4.0;

const FIRST: &str = "2ndquadrant.com, Load data in Postgres-XL at over 9M rows/sec (2016)";
const SECOND: &str = "2ndquadrant.com, Postgres-XL Scalability for Loading Data (2016)";

/// 24 COPYs of dbgen's chunks, 7 columns of lineitem, coordinators on c3.8xlarge with 32 vCPUs each.
const LARGEST: Published =
    Published { what: "Postgres-XL, 24 datanodes, unlogged", rows_per_second: 13.5e6, datanodes: 24.0, source: SECOND };
const OF_A_DATANODE: Published =
    Published { what: "Postgres-XL, each datanode", rows_per_second: 560e3, datanodes: 1.0, source: SECOND };
const PUBLISHED: [Published; 6] = [
    Published {
        what: "Postgres-XL, 16 datanodes, 1 coordinator, unlogged",
        rows_per_second: 6.7e6,
        datanodes: 16.0,
        source: FIRST,
    },
    Published {
        what: "Postgres-XL, 16 datanodes, 2 coordinators, unlogged",
        rows_per_second: 9.0e6,
        datanodes: 16.0,
        source: FIRST,
    },
    Published {
        what: "Postgres-XL, 16 datanodes, 2 coordinators, logged",
        rows_per_second: 8.5e6,
        datanodes: 16.0,
        source: FIRST,
    },
    LARGEST,
    OF_A_DATANODE,
    Published { what: "count(*): Postgres-XL, 16 datanodes", rows_per_second: 82e6, datanodes: 16.0, source: FIRST },
];

/// The best of ours above theirs.
pub(crate) fn rates(ours: &[(String, f64)], cores: usize) -> Table {
    let columns = ["what", "rows/s", "vCPUs of the datanodes", "rows/s per vCPU", "source"];
    let mut table = Table::new("Beside published figures", &columns);
    for (what, rows_per_second) in ours {
        table.push(vec![
            Cell::text(format!("{what}; all roles share the cores")),
            Cell::number(*rows_per_second, 0),
            Cell::number(cores as f64, 0),
            Cell::number(rows_per_second / cores as f64, 0),
            Cell::text("this run"),
        ]);
    }
    for Published { what, rows_per_second, datanodes, source } in PUBLISHED {
        let vcpus = datanodes * VCPUS_A_DATANODE;
        table.push(vec![
            Cell::text(what),
            Cell::number(rows_per_second, 0),
            Cell::number(vcpus, 0),
            Cell::number(rows_per_second / vcpus, 0),
            Cell::text(source),
        ]);
    }
    table
}

/// TPC-H, 3 TB, 22 queries: how many times as fast as one server 16 datanodes were.
const TPCH: (&str, f64, f64, &str) =
    ("Postgres-XL, TPC-H 3 TB", 16.0, 6.4, "2ndquadrant.com, Benchmarking Postgres-XL (2015)");

/// Ours are numbers of datanodes, and how many times as fast as one server they are; above the published ones.
pub(crate) fn speed_ups(ours: &[(u16, f64)], cores: usize) -> Table {
    let columns = [
        "what",
        "datanodes",
        "vCPUs of the datanodes",
        "times one server's speed",
        "per vCPU of the datanodes",
        "source",
    ];
    let mut table = Table::new("Beside published figures", &columns);
    let mut push = |what: &str, datanodes: f64, vcpus: f64, times: f64, source: &str| {
        table.push(vec![
            Cell::text(what),
            Cell::number(datanodes, 0),
            Cell::number(vcpus, 0),
            Cell::number(times, 2),
            Cell::number(times / vcpus, 3),
            Cell::text(source),
        ]);
    };
    for (datanodes, times) in ours {
        let what = "sum of the queries, one server without workers; both sides have the same cores";
        push(what, f64::from(*datanodes), cores as f64, *times, "this run");
    }
    let (what, datanodes, times, source) = TPCH;
    push(what, datanodes, datanodes * VCPUS_A_DATANODE, times, source);
    table
}

/// Of the largest cluster.
pub(crate) fn rows_per_second_and_vcpu() -> f64 {
    LARGEST.rows_per_second / (LARGEST.datanodes * VCPUS_A_DATANODE)
}

/// A line across a chart of rows per second and datanode.
pub(crate) fn of_a_datanode() -> Mark {
    let label = format!("{}, with {VCPUS_A_DATANODE} vCPUs for itself", OF_A_DATANODE.what);
    Mark { at: OF_A_DATANODE.rows_per_second, label }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_figures_stand_beside_ours_per_vcpu() {
        let ours = [("logged".to_owned(), 2e6), ("count(*): logged".to_owned(), 20e6)];
        let table = rates(&ours, 2);
        let per_vcpu: Vec<String> = table.rows.iter().map(|row| row[3].shown()).collect();
        let expected = ["1,000,000", "10,000,000", "104,688", "140,625", "132,812", "140,625", "140,000", "1,281,250"];
        assert_eq!(per_vcpu, expected);
        let speed_ups = speed_ups(&[(2, 1.5)], 2);
        let times: Vec<[String; 2]> = speed_ups.rows.iter().map(|row| [row[3].shown(), row[4].shown()]).collect();
        assert_eq!(times, [["1.50", "0.750"], ["6.40", "0.100"]]);
        assert_eq!(rows_per_second_and_vcpu(), 140_625.0);
        assert!(of_a_datanode().label.contains("each datanode, with 4 vCPUs"));
    }
}
