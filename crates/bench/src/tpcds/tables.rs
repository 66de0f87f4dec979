//! The 24 tables: definitions, distributions, keys, and rows as CSV from crate `tpcdsgen`.

use pgerror::{PgError, Result};
use tpcdsgen::config::{Session, SessionBuilder, Table};
use tpcdsgen::csv::*;
use tpcdsgen::row::*;

use crate::beside::{CsvBlocks, TableText, in_blocks};

/// By which column the fact tables lie on the datanodes; dimensions are on all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// By ticket or order: a sale and its return lie together.
    Order,
    /// By item: all channels' sales and returns of an item, and its inventory, lie together.
    Item,
}

/// A table that grows with sales.
struct Fact {
    name: &'static str,
    item: &'static str,
    /// Ticket or order number; inventory has none.
    order: Option<&'static str>,
    primary_key: &'static str,
}

const FACTS: [Fact; 7] = [
    fact("store_sales", "ss_item_sk", Some("ss_ticket_number"), "ss_item_sk, ss_ticket_number"),
    fact("store_returns", "sr_item_sk", Some("sr_ticket_number"), "sr_item_sk, sr_ticket_number"),
    fact("catalog_sales", "cs_item_sk", Some("cs_order_number"), "cs_item_sk, cs_order_number"),
    fact("catalog_returns", "cr_item_sk", Some("cr_order_number"), "cr_item_sk, cr_order_number"),
    fact("web_sales", "ws_item_sk", Some("ws_order_number"), "ws_item_sk, ws_order_number"),
    fact("web_returns", "wr_item_sk", Some("wr_order_number"), "wr_item_sk, wr_order_number"),
    fact("inventory", "inv_item_sk", None, "inv_item_sk, inv_date_sk, inv_warehouse_sk"),
];

const fn fact(name: &'static str, item: &'static str, order: Option<&'static str>, primary_key: &'static str) -> Fact {
    Fact { name, item, order, primary_key }
}

/// One CREATE TABLE after the other, the key of a dimension first.
const DEFINITIONS: &str = include_str!("tables.sql");

impl Layout {
    /// As the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Order => "order",
            Layout::Item => "item",
        }
    }

    fn column(self, fact: &Fact) -> &'static str {
        match self {
            Layout::Order => fact.order.unwrap_or(fact.item),
            Layout::Item => fact.item,
        }
    }
}

/// In the order in which they are loaded.
pub(super) fn tables(layout: Layout) -> Result<Vec<TableText>> {
    let statements = DEFINITIONS.split("CREATE TABLE ").skip(1);
    statements.map(|rest| table(layout, rest)).collect()
}

/// `rest` comes after CREATE TABLE.
fn table(layout: Layout, rest: &str) -> Result<TableText> {
    let wrong = || PgError::internal(format!("no definition of a table: {rest}"));
    let (name, columns) = rest.split_once(" (").ok_or_else(wrong)?;
    let (columns, _) = columns.split_once(");").ok_or_else(wrong)?;
    let (distribution, primary_key) = match FACTS.iter().find(|fact| fact.name == name) {
        Some(fact) => (format!("DISTRIBUTE BY HASH ({})", layout.column(fact)), fact.primary_key),
        None => {
            let first = columns.split_whitespace().next().ok_or_else(wrong)?;
            ("DISTRIBUTE BY REPLICATION".to_owned(), first)
        }
    };
    Ok(TableText {
        name: name.to_owned(),
        create: format!("CREATE TABLE {name} ({columns})"),
        distribution,
        keys: vec![format!("ALTER TABLE {name} ADD PRIMARY KEY ({primary_key})")],
    })
}

/// The rows of a table.
pub(super) fn blocks(table: &str, scale_factor: f64) -> Result<CsvBlocks> {
    let session = SessionBuilder::new().with_scale_factor(scale_factor).build();
    let session = session.map_err(|error| PgError::internal(error.to_string()))?;
    macro_rules! lines {
        ($table:ident, $generator:ident, $csv:ident) => {
            rows($generator::new(session.clone(), count(&session, Table::$table)), |row| $csv::new(row).to_string())
        };
    }
    Ok(match table {
        "call_center" => lines!(CallCenter, CallCenterRowGenerator, CallCenterCsv),
        "catalog_page" => lines!(CatalogPage, CatalogPageRowGenerator, CatalogPageCsv),
        "customer" => lines!(Customer, CustomerRowGenerator, CustomerCsv),
        "customer_address" => lines!(CustomerAddress, CustomerAddressRowGenerator, CustomerAddressCsv),
        "customer_demographics" => {
            lines!(CustomerDemographics, CustomerDemographicsRowGenerator, CustomerDemographicsCsv)
        }
        "date_dim" => lines!(DateDim, DateDimRowGenerator, DateDimCsv),
        "household_demographics" => {
            lines!(HouseholdDemographics, HouseholdDemographicsRowGenerator, HouseholdDemographicsCsv)
        }
        "income_band" => lines!(IncomeBand, IncomeBandRowGenerator, IncomeBandCsv),
        "item" => lines!(Item, ItemRowGenerator, ItemCsv),
        "promotion" => lines!(Promotion, PromotionRowGenerator, PromotionCsv),
        "reason" => lines!(Reason, ReasonRowGenerator, ReasonCsv),
        "ship_mode" => lines!(ShipMode, ShipModeRowGenerator, ShipModeCsv),
        "store" => lines!(Store, StoreRowGenerator, StoreCsv),
        "time_dim" => lines!(TimeDim, TimeDimRowGenerator, TimeDimCsv),
        "warehouse" => lines!(Warehouse, WarehouseRowGenerator, WarehouseCsv),
        "web_page" => lines!(WebPage, WebPageRowGenerator, WebPageCsv),
        "web_site" => lines!(WebSite, WebSiteRowGenerator, WebSiteCsv),
        "store_sales" => lines!(StoreSales, StoreSalesRowGenerator, StoreSalesCsv),
        "catalog_sales" => lines!(CatalogSales, CatalogSalesRowGenerator, CatalogSalesCsv),
        "web_sales" => lines!(WebSales, WebSalesRowGenerator, WebSalesCsv),
        // Those of so many sales.
        "store_returns" => lines!(StoreSales, StoreReturnsRowGenerator, StoreReturnsCsv),
        "catalog_returns" => lines!(CatalogSales, CatalogReturnsRowGenerator, CatalogReturnsCsv),
        "web_returns" => lines!(WebSales, WebReturnsRowGenerator, WebReturnsCsv),
        "inventory" => lines!(Inventory, InventoryRowGenerator, InventoryCsv),
        other => return Err(PgError::internal(format!("no TPC-DS table is called {other}"))),
    })
}

fn rows<G>(generator: G, line: fn(&G::Item) -> String) -> CsvBlocks
where
    G: Iterator + Send + 'static,
{
    Box::new(in_blocks(generator.map(move |row| line(&row))))
}

/// How many rows a generator makes others from: orders of several lines, for sales.
fn count(session: &Session, table: Table) -> u64 {
    session.get_scaling().get_row_count(table)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tpcdsgen::csv::csv_header;

    use super::*;

    #[test]
    fn every_table_has_the_columns_that_the_generator_writes() {
        let ours = tables(Layout::Order).unwrap();
        assert_eq!(ours.len(), 24);
        for table in ours {
            let of_generator = Table::values().iter().find(|other| other.get_name() == table.name).unwrap();
            let (_, columns) = table.create.split_once('(').unwrap();
            // The comma in numeric(7,2) has no blank behind it.
            let columns = columns.split(",\n").flat_map(|line| line.split(", "));
            let names: Vec<&str> = columns.map(|column| column.split_whitespace().next().unwrap()).collect();
            assert_eq!(names.join(","), csv_header(*of_generator, ','), "{}", table.name);
        }
    }

    #[test]
    fn sales_and_their_returns_lie_together() {
        for (layout, column) in
            [(Layout::Order, ["ss_ticket_number", "sr_ticket_number"]), (Layout::Item, ["ss_item_sk", "sr_item_sk"])]
        {
            let all = tables(layout).unwrap();
            let distribution = |name: &str| all.iter().find(|table| table.name == name).unwrap().distribution.clone();
            let found = ["store_sales", "store_returns"].map(distribution);
            assert_eq!(found, column.map(|column| format!("DISTRIBUTE BY HASH ({column})")));
            assert_eq!(distribution("item"), "DISTRIBUTE BY REPLICATION");
            assert_eq!(distribution("inventory"), "DISTRIBUTE BY HASH (inv_item_sk)");
        }
    }

    #[test]
    fn returns_are_of_sales() {
        let lines = |table| blocks(table, 0.001).unwrap().collect::<String>();
        // item and ticket are columns 3 and 10 of both.
        let keys = |text: &str| -> BTreeSet<(String, String)> {
            let of = |line: &str| {
                let cells: Vec<&str> = line.split(',').collect();
                (cells[2].to_owned(), cells[9].to_owned())
            };
            text.lines().map(of).collect()
        };
        let (sales, returns) = (keys(&lines("store_sales")), keys(&lines("store_returns")));
        assert!(sales.len() > 1000 && !returns.is_empty(), "{} {}", sales.len(), returns.len());
        assert!(returns.is_subset(&sales));
    }
}
