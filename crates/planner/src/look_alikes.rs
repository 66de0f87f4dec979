//! Texts that PostgreSQL has printed, where users have made objects that look like PostgreSQL's own.
//!
//! A view is bound to functions, operators and types when it is made; its definition as a text names them again. PostgreSQL leaves
//! out the schema of what it finds in `pg_catalog` at the time of printing. Read under another search path, `count(name)` may mean
//! an aggregate `count(text)` of anybody who may create one there: it comes before PostgreSQL's `count("any")`, and would run
//! with the rights of whoever reads the view. So where there is an object of the same name, whatever its schema, the text
//! gets `pg_catalog` in front of the name.
//!
//! `NULLIF`, `IS DISTINCT FROM`, `USING` and simple `CASE` cannot be written so: their operator is PostgreSQL's own wherever that
//! is for the very types, and `pg_catalog` does not come last in the search path.

use std::collections::HashSet;

use pg_query::protobuf::{AExprKind, SubLinkType};
use pg_query::{Node, NodeEnum};

use crate::tree::{self, Walk};

/// Names that both an object of PostgreSQL's and one of a user's have.
#[derive(Clone, Debug, Default)]
pub struct LookAlikes {
    functions: HashSet<String>,
    operators: HashSet<String>,
    types: HashSet<String>,
}

impl LookAlikes {
    /// Notes a name of a `f`unction, an `o`perator or a type.
    pub fn add(&mut self, kind: char, name: &str) {
        let names = match kind {
            'f' => &mut self.functions,
            'o' => &mut self.operators,
            _ => &mut self.types,
        };
        names.insert(name.to_owned());
    }

    /// A printed statement; as it is if it cannot be read.
    pub fn statement(&self, sql: &str) -> String {
        self.written(sql).unwrap_or_else(|| sql.to_owned())
    }

    /// The same for an expression.
    pub fn expression(&self, sql: &str) -> String {
        let written = self.written(&format!("SELECT {sql}"));
        match written.as_deref().and_then(|written| written.strip_prefix("SELECT ")) {
            // It may become part of another expression.
            Some(written) if sql.starts_with('(') => format!("({written})"),
            Some(written) => written.to_owned(),
            None => sql.to_owned(),
        }
    }

    /// The same for a type.
    pub fn type_name(&self, sql: &str) -> String {
        let written = self.expression(&format!("NULL::{sql}"));
        written.strip_prefix("NULL::").unwrap_or(sql).to_owned()
    }

    fn written(&self, sql: &str) -> Option<String> {
        if ![&self.functions, &self.operators, &self.types]
            .into_iter()
            .flatten()
            .any(|name| sql.contains(name.as_str()))
        {
            return None;
        }
        let parsed = pg_query::parse(sql, 0).ok()?;
        let mut node = *parsed.protobuf.stmts.into_iter().next()?.stmt?;
        let mut found = false;
        node.rewrite(&mut |node: &mut Node| {
            found |= self.qualify(node);
            Ok(true)
        })
        .ok()?;
        if found { tree::deparse(&node.node?).ok() } else { None }
    }

    fn qualify(&self, node: &mut Node) -> bool {
        use AExprKind::{AexprOp, AexprOpAll, AexprOpAny};
        match &mut node.node {
            Some(NodeEnum::FuncCall(call)) => put_schema(&self.functions, &mut call.funcname),
            Some(NodeEnum::AExpr(of)) => {
                let has_place = [AexprOp, AexprOpAll, AexprOpAny].iter().any(|kind| of.kind == *kind as i32);
                has_place && put_schema(&self.operators, &mut of.name)
            }
            Some(NodeEnum::TypeCast(cast)) => {
                cast.type_name.as_mut().is_some_and(|of| put_schema(&self.types, &mut of.names))
            }
            Some(NodeEnum::SubLink(link)) => {
                // IN.
                if link.sub_link_type() == SubLinkType::AnySublink && link.oper_name.is_empty() {
                    let mut name = vec![tree::string("=")];
                    let is_taken = put_schema(&self.operators, &mut name);
                    if is_taken {
                        link.oper_name = name;
                    }
                    return is_taken;
                }
                put_schema(&self.operators, &mut link.oper_name)
            }
            _ => false,
        }
    }
}

fn put_schema(taken: &HashSet<String>, name: &mut Vec<Node>) -> bool {
    let is_taken = matches!(name.as_slice(), [only] if tree::text_of(only).is_some_and(|only| taken.contains(only)));
    if is_taken {
        name.insert(0, tree::string("pg_catalog"));
    }
    is_taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_taken_get_their_schema() {
        let mut known = LookAlikes::default();
        assert_eq!(known.statement("SELECT count(a) FROM t"), "SELECT count(a) FROM t");
        [('f', "count"), ('o', "="), ('t', "text")].into_iter().for_each(|(kind, name)| known.add(kind, name));
        assert_eq!(
            known.statement(" SELECT count(a), max(b), util.count(c) FROM t WHERE d = e AND f IN (SELECT g FROM u) AND h::text < 'x'::text"),
            "SELECT pg_catalog.count(a), max(b), util.count(c) FROM t WHERE d OPERATOR(pg_catalog.=) e \
             AND f OPERATOR(pg_catalog.=) ANY (SELECT g FROM u) AND h::pg_catalog.text < 'x'::pg_catalog.text"
        );
        assert_eq!(known.expression("(a || 'b'::text)"), "(a || 'b'::pg_catalog.text)");
        assert_eq!(known.expression("now()"), "now()");
        assert_eq!(known.type_name("text[]"), "pg_catalog.text[]");
        assert_eq!(known.type_name("numeric(10,2)"), "numeric(10,2)");
        assert_eq!(known.type_name("character varying(5)"), "character varying(5)");
    }
}
