//! Texts that PostgreSQL has printed, where users have made objects that look like PostgreSQL's own.
//!
//! A view is bound to functions, operators and types when it is made, a statement when PostgreSQL analyses it; the text that
//! is printed of either names them again. PostgreSQL leaves out the schema of what it finds in `pg_catalog` at the time of
//! printing. Read under another search path, `count(name)` may mean an aggregate `count(text)` of any role that may create one
//! there: it comes before PostgreSQL's `count("any")`, and would run with the rights of the view's reader. So where there
//! is an object of the same name, whatever its schema, the text gets `pg_catalog` in front of the name.
//!
//! `NULLIF`, `IS DISTINCT FROM`, `USING` and simple `CASE` cannot be written so: their operator is PostgreSQL's own wherever that
//! is for the very types, and `pg_catalog` does not come last in the search path.

use std::collections::HashSet;

use catalog::LookAlikes;
use pg_query::protobuf::{AExprKind, SubLinkType, TypeName};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use crate::tree::{self, Walk};

/// Puts schemas before such names.
#[derive(Clone, Copy, Debug)]
pub struct Qualifier<'c>(pub &'c LookAlikes);

impl Qualifier<'_> {
    /// A printed statement; as it is if it cannot be read.
    pub fn statement(&self, sql: &str) -> String {
        self.written(sql).unwrap_or_else(|| sql.to_owned())
    }

    /// A printed expression; as it is if it cannot be read.
    pub fn expression(&self, sql: &str) -> String {
        let written = self.written(&format!("SELECT {sql}"));
        match written.as_deref().and_then(|written| written.strip_prefix("SELECT ")) {
            // It may become part of another expression.
            Some(written) if sql.starts_with('(') => format!("({written})"),
            Some(written) => written.to_owned(),
            None => sql.to_owned(),
        }
    }

    /// A printed type; as it is if it cannot be read.
    pub fn type_name(&self, sql: &str) -> String {
        let written = self.expression(&format!("NULL::{sql}"));
        written.strip_prefix("NULL::").unwrap_or(sql).to_owned()
    }

    fn written(&self, sql: &str) -> Option<String> {
        if !self.0.names().any(|name| sql.contains(name)) {
            return None;
        }
        let parsed = pg_query::parse(sql, 0).ok()?;
        let mut node = *parsed.protobuf.stmts.into_iter().next()?.stmt?;
        if self.tree(&mut node).ok()? { tree::deparse(&node.node?).ok() } else { None }
    }

    /// A text of ours, in which functions, operators and types are PostgreSQL's own.
    pub fn own_expression(&self, text: &str) -> Result<Node> {
        let mut node = tree::parse_expression(text)?;
        self.tree(&mut node)?;
        Ok(node)
    }

    /// The name of a function of PostgreSQL's, as it can be written beside all others.
    pub fn own_function(&self, name: &str) -> Vec<Node> {
        let mut name = vec![tree::string(name)];
        put_schema(&self.0.functions, &mut name);
        name
    }

    /// A tree of what PostgreSQL has printed. Was there such a name?
    pub fn tree(&self, node: &mut Node) -> Result<bool> {
        let mut found = false;
        if self.0.names().next().is_some() {
            node.rewrite(&mut |node: &mut Node| {
                found |= self.qualify(node);
                Ok(true)
            })?;
        }
        Ok(found)
    }

    fn qualify(&self, node: &mut Node) -> bool {
        use AExprKind::{AexprOp, AexprOpAll, AexprOpAny};
        match &mut node.node {
            Some(NodeEnum::FuncCall(call)) => put_schema(&self.0.functions, &mut call.funcname),
            Some(NodeEnum::AExpr(of)) => {
                let has_place = matches!(of.kind(), AexprOp | AexprOpAll | AexprOpAny);
                has_place && put_schema(&self.0.operators, &mut of.name)
            }
            Some(NodeEnum::RangeFunction(item)) => self.0.functions.contains("unnest") && tree::spread_unnest(item),
            Some(NodeEnum::TypeCast(cast)) => self.of_type(&mut cast.type_name),
            Some(NodeEnum::ColumnDef(column)) => self.of_type(&mut column.type_name),
            Some(NodeEnum::RangeTableFuncCol(column)) => self.of_type(&mut column.type_name),
            Some(NodeEnum::XmlSerialize(xml)) => self.of_type(&mut xml.type_name),
            Some(NodeEnum::SortBy(by)) => put_schema(&self.0.operators, &mut by.use_op),
            Some(NodeEnum::SubLink(link)) => {
                let is_in = link.sub_link_type() == SubLinkType::AnySublink && link.oper_name.is_empty();
                if is_in && self.0.operators.contains("=") {
                    link.oper_name.push(tree::string("="));
                }
                put_schema(&self.0.operators, &mut link.oper_name)
            }
            _ => false,
        }
    }

    fn of_type(&self, of: &mut Option<TypeName>) -> bool {
        of.as_mut().is_some_and(|of| put_schema(&self.0.types, &mut of.names))
    }
}

fn put_schema(taken: &HashSet<String>, name: &mut Vec<Node>) -> bool {
    let is_taken = matches!(name.as_slice(), [only] if tree::text_of(only).is_some_and(|only| taken.contains(only)));
    if is_taken {
        name.insert(0, tree::string("pg_catalog"));
    }
    is_taken
}
