//! The texts by which the nodes do what a [`StagedDml`] says.

use catalog::NodeId;

use crate::plan::{STAGE, StagedDml, column_list, values_list};

impl StagedDml {
    /// The rows of an action, of one node or (new ones) of none, as `columns` and then the address.
    pub fn read_sql(&self, action: usize, node: Option<NodeId>) -> String {
        let mut names: Vec<String> = self.columns.iter().map(|c| catalog::quote_identifier(&c.name)).collect();
        names.extend(["loxo_table".to_owned(), "loxo_ctid".to_owned()]);
        names.extend(self.returned.iter().map(|column| column.name.clone()));
        let of_node = node.map(|node| format!(" AND loxo_node OPERATOR(pg_catalog.=) {}", node.0)).unwrap_or_default();
        format!("SELECT {} FROM {STAGE} WHERE loxo_action OPERATOR(pg_catalog.=) {action}{of_node}", names.join(", "))
    }

    fn address_types(&self) -> Vec<&str> {
        let returned = self.returned.iter().map(|column| column.type_name.as_str());
        ["pg_catalog.oid", "pg_catalog.tid"].into_iter().chain(returned).collect()
    }

    fn address_names(&self) -> String {
        let returned = self.returned.iter().map(|column| format!(", {}", column.name));
        ["loxo_table, loxo_ctid".to_owned()].into_iter().chain(returned).collect()
    }

    fn is_addressed(&self) -> String {
        let alias = catalog::quote_identifier(&self.alias);
        format!(
            "{alias}.tableoid OPERATOR(pg_catalog.=) loxo_v.loxo_table \
             AND {alias}.ctid OPERATOR(pg_catalog.=) loxo_v.loxo_ctid"
        )
    }

    fn target_sql(&self) -> String {
        format!("{} AS {}", self.target.qualified_name(), catalog::quote_identifier(&self.alias))
    }

    /// PostgreSQL complains of a row that a MERGE may not change, where UPDATE and DELETE pass over it: so what a policy says of a
    /// MERGE's rows is told by a MERGE only.
    fn merge_sql(&self, values: &str, names: &str, action: &str) -> String {
        let (target, addressed) = (self.target_sql(), self.is_addressed());
        format!("MERGE INTO {target} USING ({values}) AS loxo_v ({names}) ON {addressed} WHEN MATCHED THEN {action}")
    }

    fn is_guarded_merge(&self) -> bool {
        self.command == "MERGE" && self.target.is_barrier
    }

    /// Deletes rows by their addresses; rows that move return nothing here.
    pub fn delete_sql(&self, rows: usize, moved: bool) -> String {
        let values = values_list(&self.address_types(), rows, self.parameters);
        if self.is_guarded_merge() {
            return self.merge_sql(&values, &self.address_names(), "DELETE");
        }
        format!(
            "DELETE FROM {} USING ({values}) AS loxo_v ({}) WHERE {}{}",
            self.target_sql(),
            self.address_names(),
            self.is_addressed(),
            if moved { "" } else { &self.returning }
        )
    }

    /// Sets these columns; a row's values are those, then its address.
    pub fn update_sql(&self, columns: &[usize], rows: usize) -> String {
        let mut types: Vec<&str> = columns.iter().map(|at| self.columns[*at].type_name.as_str()).collect();
        types.extend(self.address_types());
        let set = columns.iter().enumerate().map(|(i, at)| {
            let name = catalog::quote_identifier(&self.columns[*at].name);
            format!("{name} = loxo_v.loxo_{i}")
        });
        let set = set.collect::<Vec<_>>().join(", ");
        let names: Vec<String> = (0..columns.len()).map(|i| format!("loxo_{i}")).collect();
        let (values, names) =
            (values_list(&types, rows, self.parameters), format!("{}, {}", names.join(", "), self.address_names()));
        if self.is_guarded_merge() {
            return self.merge_sql(&values, &names, &format!("UPDATE SET {set}"));
        }
        format!(
            "UPDATE {} SET {set} FROM ({values}) AS loxo_v ({names}) WHERE {}{}",
            self.target_sql(),
            self.is_addressed(),
            self.returning
        )
    }

    /// Inserts whole rows.
    pub fn insert_sql(&self, rows: usize) -> String {
        let types: Vec<&str> = self.columns.iter().map(|column| column.type_name.as_str()).collect();
        format!(
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE {}{}",
            self.target_sql(),
            column_list(&self.columns),
            values_list(&types, rows, self.parameters),
            self.returning
        )
    }
}
