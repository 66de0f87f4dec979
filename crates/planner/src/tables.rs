//! Which tables a data change names: the one it changes and those it reads.

use std::collections::HashSet;

use catalog::Catalog;
use pg_query::NodeEnum;
use pg_query::protobuf::RangeVar;
use pgerror::Result;

use crate::parse;
use crate::plan::Input;
use crate::tree::{Ref, Walk, text_of};

/// The table that INSERT, UPDATE, DELETE or MERGE changes, as the statement names it; of a query the first that its WITH changes.
/// `None` for any other statement.
pub fn written_table(sql: &str) -> Result<Option<String>> {
    let statements = parse(sql)?;
    Ok(statements.first().and_then(|statement| target(statement.node()?)).map(name))
}

/// The tables that a data change reads besides, as it names them: sub-selects, FROM, USING. No WITH items.
pub fn read_tables(sql: &str) -> Result<Vec<String>> {
    let statements = parse(sql)?;
    let Some(node) = statements.first().and_then(|statement| statement.node()) else { return Ok(Vec::new()) };
    let (mut named, mut with_items) = (Vec::new(), HashSet::new());
    node.walk(&mut |part| {
        match part {
            Ref::RangeVar(table) => named.push(table),
            Ref::CommonTableExpr(item) => drop(with_items.insert(item.ctename.as_str())),
            _ => {}
        }
        Ok(true)
    })?;
    let target = target(node);
    let mut tables: Vec<String> = named
        .into_iter()
        .filter(|table| !target.is_some_and(|target| std::ptr::eq(target, *table)))
        .filter(|table| !table.schemaname.is_empty() || !with_items.contains(table.relname.as_str()))
        .map(name)
        .collect();
    tables.sort_unstable();
    tables.dedup();
    Ok(tables)
}

/// Does a query read nothing but these inputs, and call no function of the user's, which might read more?
pub fn reads_only(sql: &str, inputs: &[Input], catalog: &Catalog) -> bool {
    let Ok(statements) = parse(sql) else { return false };
    let Some(node) = statements.first().and_then(|statement| statement.node()) else { return false };
    let mut only = true;
    let walked = node.walk(&mut |part| {
        if let Ref::FuncCall(call) = part {
            let name = call.funcname.last().and_then(text_of).unwrap_or_default();
            only &= catalog.functions(name).is_empty();
        }
        Ok(true)
    });
    let read = read_tables(sql).unwrap_or_else(|_| vec![String::new()]);
    let is_input = |name: &String| {
        let name = name.strip_prefix("pg_temp.").unwrap_or(name);
        inputs.iter().any(|input| catalog::quote_identifier(&input.table) == name)
    };
    walked.is_ok() && only && read.iter().all(is_input)
}

fn target(node: &NodeEnum) -> Option<&RangeVar> {
    match node {
        NodeEnum::InsertStmt(insert) => insert.relation.as_ref(),
        NodeEnum::UpdateStmt(update) => update.relation.as_ref(),
        NodeEnum::DeleteStmt(delete) => delete.relation.as_ref(),
        NodeEnum::MergeStmt(merge) => merge.relation.as_ref(),
        NodeEnum::SelectStmt(select) => {
            let items = select.with_clause.iter().flat_map(|with| &with.ctes);
            let mut queries = items.filter_map(|item| match &item.node {
                Some(NodeEnum::CommonTableExpr(item)) => item.ctequery.as_deref()?.node.as_ref(),
                _ => None,
            });
            // A query in WITH has no target, for it changes nothing.
            queries.find_map(|query| if matches!(query, NodeEnum::SelectStmt(_)) { None } else { target(query) })
        }
        _ => None,
    }
}

fn name(table: &RangeVar) -> String {
    let relation = catalog::quote_identifier(&table.relname);
    match table.schemaname.is_empty() {
        true => relation,
        false => format!("{}.{relation}", catalog::quote_identifier(&table.schemaname)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_told_from_the_sources() {
        let sql = "WITH w AS (SELECT * FROM c) UPDATE s.\"T\" SET a = 1 FROM w, b WHERE x IN (SELECT y FROM s.d)";
        assert_eq!(written_table(sql).unwrap().as_deref(), Some("s.\"T\""));
        assert_eq!(read_tables(sql).unwrap(), ["b", "c", "s.d"]);
        assert_eq!(read_tables("INSERT INTO t SELECT * FROM t").unwrap(), ["t"]);
        assert_eq!(read_tables("INSERT INTO t VALUES (1)").unwrap(), [""; 0]);
        assert_eq!(written_table("SELECT * FROM t FOR UPDATE").unwrap(), None);
    }
}
