//! `pg_total_relation_size('t')` and its kin of a partitioned table: the sum over its nodes.

use pg_query::protobuf::{FuncCall, RangeFunction, RangeSubselect, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use crate::context::{Context, Named};
use crate::facts::functions::facts;
use crate::facts::sized::{asks_size, sized_table};
use crate::plan::{FinalSql, Gather, Input};
use crate::tree::{self, Get, Syntax, Walk};

/// The plan of a query, or of a change of the home node's tables, that reads no tables of the user's besides; `None` if it does.
pub(crate) fn plan(ctx: &Context<'_>, query: &NodeEnum) -> Result<Option<Gather>> {
    if ctx.names(query, |named| !matches!(named, Named::Home(_)))? {
        return Ok(None);
    }
    let mut rewritten = query.clone();
    let mut inputs: Vec<Input> = Vec::new();
    rewritten.rewrite(&mut |node: &mut Node| {
        tree::name_output(node);
        if let Some(value) = call_in_from(ctx, node) {
            *node = value;
            return Ok(true);
        }
        let Some(call) = node.get::<FuncCall>() else { return Ok(true) };
        let Some(table) = sized_table(ctx, call.args.first()).filter(|_| asks_size(ctx, call)) else { return Ok(true) };
        let sql = format!("SELECT {} AS size", tree::deparse_expression(node)?);
        let name = ctx.input_table(format_args!("g{}", inputs.len() + 1));
        *node = tree::parse_expression(&format!("(SELECT pg_catalog.sum(size)::pg_catalog.int8 FROM {name})"))?;
        let nodes = table.distribution.nodes();
        inputs.push(Input { table: name, nodes, sql, indexes: Vec::new(), exchange_plan: None });
        Ok(false)
    })?;
    if facts(ctx, &rewritten)?.refused.is_some() {
        return Ok(None);
    }
    let final_sql = FinalSql::plain(tree::deparse(&rewritten)?);
    Ok(Some(Gather::new(ctx.home(), inputs, final_sql)))
}

/// `FROM pg_relation_size('t') AS s` as `FROM (SELECT pg_relation_size('t')) AS s (s)`, where the call is an expression.
fn call_in_from(ctx: &Context<'_>, item: &Node) -> Option<Node> {
    let item = item.get::<RangeFunction>()?;
    let [Node { node: Some(NodeEnum::List(list)) }] = item.functions.as_slice() else { return None };
    let call = list.items.first()?;
    let function = call.get::<FuncCall>()?;
    if !asks_size(ctx, function) || item.ordinality || !item.coldeflist.is_empty() {
        return None;
    }
    let name = tree::last_name(&function.funcname)?;
    let mut alias = item.alias.clone().unwrap_or_else(|| tree::alias(name));
    if alias.colnames.is_empty() {
        alias.colnames.push(tree::string(&alias.aliasname));
    }
    let select = SelectStmt { target_list: vec![tree::target(call.clone(), Some("size"))], ..tree::empty_select() };
    Some(RangeSubselect { lateral: item.lateral, subquery: select.into_box(), alias: Some(alias) }.into_node())
}
