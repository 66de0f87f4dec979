//! The eight TPC-H tables: definitions, distributions, indexes, and rows as CSV.

use std::fmt;
use std::str::FromStr;

use pgerror::{PgError, Result};
use tpchgen::csv::*;
use tpchgen::generators::*;

pub(super) use crate::beside::in_blocks;
use crate::beside::{CsvBlocks, TableText};

/// Schema of the cluster's tables.
pub(super) const SCHEMA: &str = "bench_power";
const REPLICATED: &str = "replicated";

/// How the tables lie on the datanodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Layout {
    /// lineitem and orders by orderkey, part and partsupp by partkey, the rest on every node.
    Mixed,
    /// Every table by the first column of its primary key.
    Hash,
    /// As [`Layout::Mixed`], but for these tables: by that column, or `None` on every node.
    Chosen(Vec<(&'static str, Option<String>)>),
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

impl Layout {
    /// The column that a table is distributed by; `None` on every node.
    fn key<'t>(&'t self, table: &'t Table) -> Option<&'t str> {
        if let Layout::Chosen(chosen) = self
            && let Some((_, key)) = chosen.iter().find(|(name, _)| *name == table.name)
        {
            return key.as_deref();
        }
        let first = table.primary_key.split(',').next();
        first.filter(|_| *self == Layout::Hash || !table.replicated)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Layout::Mixed => f.write_str("mixed"),
            Layout::Hash => f.write_str("hash"),
            Layout::Chosen(chosen) => {
                let one =
                    |(table, key): &(&str, Option<String>)| format!("{table}={}", key.as_deref().unwrap_or(REPLICATED));
                f.write_str(&chosen.iter().map(one).collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl FromStr for Layout {
    type Err = String;

    /// `mixed`, `hash`, or `TABLE=COLUMN,…` with `replicated` in place of a column.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let one = |text: &str| {
            let (name, key) = text.split_once('=').ok_or_else(|| format!("\"{text}\" is not TABLE=COLUMN"))?;
            let table = TABLES.iter().find(|table| table.name == name);
            let table = table.ok_or_else(|| format!("TPC-H has no table \"{name}\""))?;
            if key != REPLICATED && !table.column_names().contains(&key) {
                return Err(format!("{name} has no column \"{key}\""));
            }
            Ok((table.name, (key != REPLICATED).then(|| key.to_owned())))
        };
        match text {
            "mixed" => Ok(Layout::Mixed),
            "hash" => Ok(Layout::Hash),
            _ => text.split(',').map(one).collect::<std::result::Result<_, _>>().map(Layout::Chosen),
        }
    }
}

impl Table {
    pub(crate) fn column_names(&self) -> Vec<&'static str> {
        // The comma in numeric(15,2) has no blank behind it.
        self.columns.split(", ").filter_map(|column| column.split_whitespace().next()).collect()
    }

    fn text(&self, layout: &Layout) -> TableText {
        let Self { name, columns, primary_key, .. } = self;
        let key = layout.key(self);
        // A unique key holds the whole distribution key: where that is another column, an index does, on both sides.
        let is_unique = key.is_none_or(|key| primary_key.split(", ").any(|column| column == key));
        let mut keys = vec![match is_unique {
            true => format!("ALTER TABLE {name} ADD PRIMARY KEY ({primary_key})"),
            false => format!("CREATE INDEX ON {name} ({primary_key})"),
        }];
        keys.extend(self.indexes.iter().map(|columns| format!("CREATE INDEX ON {name} ({columns})")));
        TableText {
            name: (*name).to_owned(),
            create: format!("CREATE TABLE {name} ({columns})"),
            distribution: match key {
                Some(key) => format!("DISTRIBUTE BY HASH ({key})"),
                None => "DISTRIBUTE BY REPLICATION".to_owned(),
            },
            keys,
        }
    }
}

/// In the order in which they are loaded.
pub(super) fn texts(layout: &Layout) -> Vec<TableText> {
    TABLES.iter().map(|table| table.text(layout)).collect()
}

/// The rows of one table as CSV text.
pub(super) fn blocks(table: &str, scale_factor: f64) -> Result<CsvBlocks> {
    macro_rules! lines {
        ($generator:ident, $csv:ident) => {
            Box::new(in_blocks($generator::new(scale_factor, 1, 1).iter().map($csv::new)))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(layout: &str, table: &str) -> (String, String) {
        let layout: Layout = layout.parse().unwrap();
        let text = texts(&layout).into_iter().find(|text| text.name == table).unwrap();
        (text.distribution, text.keys[0].clone())
    }

    #[test]
    fn tables_lie_where_the_layout_says() {
        let key = |key: &str| format!("DISTRIBUTE BY HASH ({key})");
        assert_eq!(of("mixed", "lineitem").0, key("l_orderkey"));
        assert_eq!(of("mixed", "customer").0, "DISTRIBUTE BY REPLICATION");
        assert_eq!(of("hash", "customer").0, key("c_custkey"));
        let chosen = "lineitem=l_partkey,part=replicated,customer=c_custkey";
        assert_eq!(
            of(chosen, "lineitem"),
            (key("l_partkey"), "CREATE INDEX ON lineitem (l_orderkey, l_linenumber)".to_owned())
        );
        assert_eq!(of(chosen, "part").0, "DISTRIBUTE BY REPLICATION");
        assert_eq!(
            of(chosen, "customer"),
            (key("c_custkey"), "ALTER TABLE customer ADD PRIMARY KEY (c_custkey)".to_owned())
        );
        assert_eq!(of(chosen, "orders").0, key("o_orderkey"));
        assert_eq!(chosen.parse::<Layout>().unwrap().to_string(), chosen);
        for wrong in ["", "all", "lineitem=x", "lines=l_partkey", "lineitem=l_partkey,"] {
            assert!(wrong.parse::<Layout>().is_err(), "{wrong}");
        }
    }
}
