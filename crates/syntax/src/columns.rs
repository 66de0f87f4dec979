//! Which columns of a table in FROM a statement may read, as far as names tell.

use pg_query::protobuf::{ColumnRef, RangeVar, SelectStmt};
use pg_query::{Node, NodeEnum};

use super::ask::Ask;
use super::get::Get;
use super::parts::{is_star, returned_by, text_of, value_of};
use super::walk::Ref;

/// May the statement read one of these columns of this item of FROM: by its name, in a whole row, behind `*`?
pub fn may_read(statement: &NodeEnum, table: &RangeVar, columns: &[&str]) -> bool {
    if columns.is_empty() {
        return false;
    }
    let name = table.alias.as_ref().map_or(table.relname.as_str(), |alias| alias.aliasname.as_str());
    let renames = table.alias.as_ref().is_some_and(|alias| !alias.colnames.is_empty());
    let is_one = |column: &str| columns.contains(&column);
    let names_one = |column: &ColumnRef| match column.fields.as_slice() {
        // Without a table's name `*` is asked about where it stands.
        [_] if is_star(&column.fields) => false,
        [.., of, last] if is_star(std::slice::from_ref(last)) => text_of(of) == Some(name),
        [.., of, last] => text_of(last) == Some(name) || text_of(of) == Some(name) && text_of(last).is_some_and(is_one),
        [one] => text_of(one).is_some_and(|column| column == name || is_one(column)),
        [] => false,
    };
    let is_among = |items: &[Node]| items.iter().any(|item| is_joined(item, table));
    renames
        || !returned_by(statement).is_empty() && !matches!(statement, NodeEnum::InsertStmt(_))
        || statement.may_have(|node| match node {
            Ref::ColumnRef(column) => names_one(column),
            Ref::SelectStmt(select) => has_star(select) && is_among(&select.from_clause),
            // Its columns have two names then.
            Ref::JoinExpr(join) => {
                let is_of_all = join.is_natural
                    || join.alias.is_some()
                    || join.using_clause.iter().any(|column| text_of(column).is_some_and(is_one));
                is_of_all && [&join.larg, &join.rarg].into_iter().flatten().any(|item| is_joined(item, table))
            }
            _ => false,
        })
}

/// Is it the table, or a join that has it?
fn is_joined(item: &Node, table: &RangeVar) -> bool {
    match &item.node {
        Some(NodeEnum::RangeVar(of)) => of.location == table.location,
        Some(NodeEnum::JoinExpr(join)) => {
            [&join.larg, &join.rarg].into_iter().flatten().any(|item| is_joined(item, table))
        }
        _ => false,
    }
}

/// `*`, not `t.*`.
fn has_star(select: &SelectStmt) -> bool {
    let column = |target| value_of(target).and_then(|value| value.get::<ColumnRef>());
    select.target_list.iter().filter_map(column).any(|column| column.fields.len() == 1 && is_star(&column.fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(sql: &str) -> bool {
        let parsed = pg_query::parse(sql, 0).unwrap();
        let statement = parsed.protobuf.stmts[0].stmt.as_ref().unwrap().node.as_ref().unwrap();
        let tables = statement.tables().unwrap();
        let table = tables.into_iter().find(|table| table.relname == "c").unwrap();
        may_read(statement, table, &["a", "b"])
    }

    #[test]
    fn columns_are_found_wherever_they_are_named() {
        for sql in [
            "SELECT a FROM c",
            "SELECT 1 FROM c WHERE c.b > 0",
            "SELECT 1 FROM s.c AS x WHERE s.x.b > 0",
            "SELECT * FROM c",
            "TABLE c",
            "SELECT x.* FROM c x, d",
            "SELECT * FROM (SELECT 1) s JOIN (d JOIN c ON true) ON true",
            "SELECT count(x) FROM c x",
            "SELECT (x).a FROM c x",
            "SELECT 1 FROM d NATURAL JOIN c",
            "SELECT 1 FROM d JOIN c USING (a)",
            "SELECT j.z FROM (d JOIN c ON true) AS j",
            "SELECT z FROM c AS x (y, z)",
            "WITH w AS (SELECT * FROM c) SELECT 1 FROM w",
            "SELECT 1 FROM d WHERE EXISTS (SELECT FROM c WHERE a = d.e)",
            "UPDATE t SET v = 1 FROM c RETURNING *",
            "INSERT INTO t SELECT a FROM c",
        ] {
            assert!(reads(sql), "{sql}");
        }
        for sql in [
            "SELECT e FROM c",
            "SELECT d.a, count(*) FROM c x JOIN d ON d.e = x.e GROUP BY d.a",
            "SELECT d.* FROM c, d",
            "SELECT * FROM (SELECT e FROM c) s",
            "SELECT * FROM d WHERE e IN (SELECT e FROM c)",
            "INSERT INTO t SELECT e FROM c RETURNING *",
        ] {
            assert!(!reads(sql), "{sql}");
        }
    }
}
