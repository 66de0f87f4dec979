//! The eight TPC-H tables: definitions, distributions, indexes, and rows as CSV.

use std::fmt::Write;

use pgerror::{PgError, Result};
use tpchgen::csv::*;
use tpchgen::generators::*;

/// How the tables lie on the datanodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// lineitem and orders by orderkey, part and partsupp by partkey, the rest on every node.
    Mixed,
    /// Every table by the first column of its primary key.
    Hash,
}

/// One table.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    columns: &'static str,
    primary_key: &'static str,
    /// Columns of further indexes: TPC-H's foreign keys.
    indexes: &'static [&'static str],
    replicated: bool,
}

/// In an order in which a table comes after those it refers to.
pub(crate) const TABLES: [Table; 8] = [
    Table {
        name: "region",
        columns: "r_regionkey integer NOT NULL, r_name char(25) NOT NULL, r_comment varchar(152)",
        primary_key: "r_regionkey",
        indexes: &[],
        replicated: true,
    },
    Table {
        name: "nation",
        columns: "n_nationkey integer NOT NULL, n_name char(25) NOT NULL, n_regionkey integer NOT NULL, \
                  n_comment varchar(152)",
        primary_key: "n_nationkey",
        indexes: &["n_regionkey"],
        replicated: true,
    },
    Table {
        name: "supplier",
        columns: "s_suppkey bigint NOT NULL, s_name char(25) NOT NULL, s_address varchar(40) NOT NULL, \
                  s_nationkey integer NOT NULL, s_phone char(15) NOT NULL, s_acctbal numeric(15,2) NOT NULL, \
                  s_comment varchar(101) NOT NULL",
        primary_key: "s_suppkey",
        indexes: &["s_nationkey"],
        replicated: true,
    },
    Table {
        name: "customer",
        columns: "c_custkey bigint NOT NULL, c_name varchar(25) NOT NULL, c_address varchar(40) NOT NULL, \
                  c_nationkey integer NOT NULL, c_phone char(15) NOT NULL, c_acctbal numeric(15,2) NOT NULL, \
                  c_mktsegment char(10) NOT NULL, c_comment varchar(117) NOT NULL",
        primary_key: "c_custkey",
        indexes: &["c_nationkey"],
        replicated: true,
    },
    Table {
        name: "part",
        columns: "p_partkey bigint NOT NULL, p_name varchar(55) NOT NULL, p_mfgr char(25) NOT NULL, \
                  p_brand char(10) NOT NULL, p_type varchar(25) NOT NULL, p_size integer NOT NULL, \
                  p_container char(10) NOT NULL, p_retailprice numeric(15,2) NOT NULL, p_comment varchar(23) NOT NULL",
        primary_key: "p_partkey",
        indexes: &[],
        replicated: false,
    },
    Table {
        name: "partsupp",
        columns: "ps_partkey bigint NOT NULL, ps_suppkey bigint NOT NULL, ps_availqty integer NOT NULL, \
                  ps_supplycost numeric(15,2) NOT NULL, ps_comment varchar(199) NOT NULL",
        primary_key: "ps_partkey, ps_suppkey",
        indexes: &["ps_suppkey"],
        replicated: false,
    },
    Table {
        name: "orders",
        columns: "o_orderkey bigint NOT NULL, o_custkey bigint NOT NULL, o_orderstatus char(1) NOT NULL, \
                  o_totalprice numeric(15,2) NOT NULL, o_orderdate date NOT NULL, o_orderpriority char(15) NOT NULL, \
                  o_clerk char(15) NOT NULL, o_shippriority integer NOT NULL, o_comment varchar(79) NOT NULL",
        primary_key: "o_orderkey",
        indexes: &["o_custkey"],
        replicated: false,
    },
    Table {
        name: "lineitem",
        columns: "l_orderkey bigint NOT NULL, l_partkey bigint NOT NULL, l_suppkey bigint NOT NULL, \
                  l_linenumber integer NOT NULL, l_quantity numeric(15,2) NOT NULL, \
                  l_extendedprice numeric(15,2) NOT NULL, l_discount numeric(15,2) NOT NULL, \
                  l_tax numeric(15,2) NOT NULL, l_returnflag char(1) NOT NULL, l_linestatus char(1) NOT NULL, \
                  l_shipdate date NOT NULL, l_commitdate date NOT NULL, l_receiptdate date NOT NULL, \
                  l_shipinstruct char(25) NOT NULL, l_shipmode char(10) NOT NULL, l_comment varchar(44) NOT NULL",
        primary_key: "l_orderkey, l_linenumber",
        indexes: &["l_partkey, l_suppkey", "l_suppkey"],
        replicated: false,
    },
];

impl Table {
    /// CREATE TABLE; `layout` is `None` on a stock server.
    pub(crate) fn create_sql(&self, layout: Option<Layout>) -> String {
        let clause = match layout {
            None => String::new(),
            Some(Layout::Mixed) if self.replicated => " DISTRIBUTE BY REPLICATION".to_owned(),
            Some(_) => {
                let key = self.primary_key.split(',').next().unwrap_or(self.primary_key);
                format!(" DISTRIBUTE BY HASH ({key})")
            }
        };
        format!("CREATE TABLE {} ({}){clause}", self.name, self.columns)
    }

    /// What is made once the rows are there.
    pub(crate) fn index_sql(&self) -> Vec<String> {
        let mut all = vec![format!("ALTER TABLE {} ADD PRIMARY KEY ({})", self.name, self.primary_key)];
        all.extend(self.indexes.iter().map(|columns| format!("CREATE INDEX ON {} ({columns})", self.name)));
        all
    }
}

/// The rows of one table as CSV text, in blocks of at least `block_bytes` (but for the last one).
pub(crate) fn blocks(table: &str, scale_factor: f64, block_bytes: usize) -> Result<Box<dyn Iterator<Item = String>>> {
    macro_rules! lines {
        ($generator:ident, $csv:ident) => {
            Box::new(in_blocks($generator::new(scale_factor, 1, 1).iter().map($csv::new), block_bytes))
        };
    }
    Ok(match table {
        "region" => lines!(RegionGenerator, RegionCsv),
        "nation" => lines!(NationGenerator, NationCsv),
        "supplier" => lines!(SupplierGenerator, SupplierCsv),
        "customer" => lines!(CustomerGenerator, CustomerCsv),
        "part" => lines!(PartGenerator, PartCsv),
        "partsupp" => lines!(PartSuppGenerator, PartSuppCsv),
        "orders" => lines!(OrderGenerator, OrderCsv),
        "lineitem" => lines!(LineItemGenerator, LineItemCsv),
        other => return Err(PgError::internal(format!("no TPC-H table is called {other}"))),
    })
}

fn in_blocks<R: std::fmt::Display>(
    mut rows: impl Iterator<Item = R>,
    block_bytes: usize,
) -> impl Iterator<Item = String> {
    std::iter::from_fn(move || {
        let mut block = String::with_capacity(block_bytes + 1024);
        while block.len() < block_bytes {
            let Some(row) = rows.next() else { break };
            // Writing to a String cannot fail.
            let _ = writeln!(block, "{row}");
        }
        (!block.is_empty()).then_some(block)
    })
}
