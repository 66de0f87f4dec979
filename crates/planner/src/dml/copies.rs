//! A row of a replicated table has another address on each copy: the home node finds them all.
//!
//! ```text
//!  stage: what becomes of the first copy's rows ── by what tells rows apart ──> the same for every other copy
//! ```
//!
//! Rows are told apart by the primary key; without one by their text and, among equal ones, by a number: they are as good as one
//! another. In a table with children the child's name belongs to it, since a key may be each child's own.

use catalog::{Column, Distribution, NodeId, Relation, quote_identifier};
use pg_query::protobuf::SelectStmt;
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::change::Draft;
use super::stage;
use crate::plan::Input;
use crate::tree;

/// What tells the rows of a replicated table apart on every node.
pub(super) struct Copies {
    first: NodeId,
    others: Vec<NodeId>,
    /// More output of a fragment.
    pub identity: Vec<Node>,
    /// Its columns.
    names: Vec<String>,
}

impl Copies {
    /// `rows` is the fragment that reads the table.
    pub fn of(relation: &Relation, first: NodeId, rows: &SelectStmt) -> Result<Self> {
        let Distribution::Replicated { nodes } = &relation.distribution else {
            return Err(PgError::internal("copies of a table that has none"));
        };
        let others = nodes.iter().copied().filter(|node| *node != first).collect();
        let mut expressions = Vec::new();
        if relation.has_children {
            expressions.push("tableoid::pg_catalog.regclass::pg_catalog.text".to_owned());
        }
        let key = relation.unique_keys.iter().find(|key| key.primary).map(|key| key.columns.as_slice());
        match key {
            Some(columns) => {
                let names = columns.iter().filter_map(|number| relation.column_at(*number));
                expressions.extend(names.map(|column| quote_identifier(&column.name)));
            }
            None => {
                let text = format!("({}.*)::pg_catalog.text", quote_identifier(row_name(rows)?));
                expressions.push(text.clone());
                expressions.push(format!("pg_catalog.row_number() OVER (PARTITION BY tableoid, {text} ORDER BY ctid)"));
            }
        }
        let names: Vec<String> = (1..=expressions.len()).map(|number| format!("loxo_is{number}")).collect();
        let output = |(text, name): (&String, &String)| Ok(tree::target(tree::parse_expression(text)?, Some(name)));
        let identity = expressions.iter().zip(&names).map(output).collect::<Result<_>>()?;
        Ok(Self { first, others, identity, names })
    }

    /// Reads the other copies too, and gives the texts that put their rows into the stage.
    pub fn fills(
        &self,
        draft: &Draft<'_>,
        rows: SelectStmt,
        inputs: &mut Vec<Input>,
        columns: &[Column],
    ) -> Result<Vec<String>> {
        let table = |node: NodeId| draft.ctx.input_table(format_args!("t{}", node.0));
        let mut select = rows;
        select.target_list = address().to_vec();
        select.target_list.extend(self.identity.clone());
        let names: Vec<String> = columns.iter().map(|column| quote_identifier(&column.name)).collect();
        let list = |of: &str| names.iter().map(|name| format!(", {of}{name}")).collect::<String>();
        let same: Vec<String> = self.names.iter().map(|name| format!("c.{name} = f.{name}")).collect();
        let mut fills = Vec::new();
        for node in &self.others {
            inputs.push(read_of(table(*node), *node, &select)?);
            fills.push(format!(
                "INSERT INTO {stage} (loxo_action, loxo_node, loxo_table, loxo_ctid{}) \
                 SELECT s.loxo_action, {}, c.loxo_table, c.loxo_ctid{} FROM {stage} AS s \
                 JOIN {} AS f ON f.loxo_table = s.loxo_table AND f.loxo_ctid = s.loxo_ctid \
                 JOIN {} AS c ON {} WHERE s.loxo_node = {}",
                list(""),
                node.0,
                list("s."),
                table(self.first),
                table(*node),
                same.join(" AND "),
                self.first.0,
                stage = stage::TABLE,
            ));
        }
        Ok(fills)
    }
}

/// Where a row lies on its node.
pub(super) fn address() -> [Node; 2] {
    ["tableoid", "ctid"].map(|column| {
        let name = if column == "ctid" { "loxo_ctid" } else { "loxo_table" };
        tree::target(tree::column(&[column]), Some(name))
    })
}

/// One node's rows.
pub(super) fn read_of(table: String, node: NodeId, select: &SelectStmt) -> Result<Input> {
    let sql = tree::deparse_select(select)?;
    Ok(Input { table, nodes: vec![node], sql, after_create: Vec::new(), dag: None })
}

/// What a fragment calls its table.
fn row_name(rows: &SelectStmt) -> Result<&str> {
    match rows.from_clause.first().and_then(|item| item.node.as_ref()) {
        Some(NodeEnum::RangeVar(name)) => Ok(name.alias.as_ref().map_or(&name.relname, |alias| &alias.aliasname)),
        _ => Err(PgError::internal("a fragment without a table")),
    }
}
