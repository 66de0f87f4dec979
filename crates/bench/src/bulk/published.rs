//! What others have published of the same table, to be read beside our figures, per vCPU.

use crate::suite::{Cell, Table};

struct Published {
    what: &'static str,
    rows_per_second: f64,
    datanodes: f64,
    source: &'static str,
}

/// vCPUs of an EC2 i2.xlarge, which ran one datanode each.
const VCPUS_A_DATANODE: f64 = 4.0;

const FIRST: &str = "2ndquadrant.com, Load data in Postgres-XL at over 9M rows/sec (2016)";
const SECOND: &str = "2ndquadrant.com, Postgres-XL Scalability for Loading Data (2016)";

/// 24 COPYs of dbgen's chunks, 7 columns of lineitem, coordinators on c3.8xlarge with 32 vCPUs each.
const PUBLISHED: [Published; 4] = [
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
    Published { what: "Postgres-XL, 24 datanodes, unlogged", rows_per_second: 13.5e6, datanodes: 24.0, source: SECOND },
];

/// The best of ours above theirs.
pub(super) fn table(ours: &[(String, f64)], cores: usize) -> Table {
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

/// The figure of the largest published cluster.
pub(super) fn rows_per_second_and_vcpu() -> f64 {
    let [.., largest] = PUBLISHED;
    largest.rows_per_second / (largest.datanodes * VCPUS_A_DATANODE)
}
