//! The rows of an INSERT, UPDATE, DELETE or COPY, made before anything is done with them: the coordinator runs triggers for each.
//!
//! ```text
//! UPDATE t SET a = 1 WHERE b > 2
//!   create  CREATE TEMP TABLE loxo_made (a int, b int, loxo_old t)
//!   fill    INSERT INTO pg_temp.loxo_made (a, b, loxo_old) SELECT 1, t.b, ROW(t.a, t.b)::t FROM t WHERE t.b > 2
//!   read    SELECT loxo_old, ROW(a, b)::t FROM pg_temp.loxo_made
//! ```
//!
//! The rows go through a temp table like the one that is changed, since values are then converted as in an assignment to it, and left
//! out columns get its defaults. There are no constraints in it, and generated columns are NULL.

use std::sync::Arc;

use catalog::{Catalog, Column, Generated, Relation, RelationKind, quote_identifier};
use pg_query::protobuf::{self, CopyStmt, InsertStmt, RangeVar, ResTarget, ReturningClause, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::dml::{self, Part};
use crate::facts::functions::SYSTEM_COLUMNS;
use crate::plan::MadeRows;
use crate::tree::{self, Ask, Get, Ref, Syntax};

/// The temp table.
const TABLE: &str = "loxo_made";
/// Its column of the row as it is.
const OLD: &str = "loxo_old";

/// The change of a table or view.
pub(crate) struct Change<'a> {
    pub catalog: &'a Catalog,
    pub relation: &'a Arc<Relation>,
    pub target: &'a RangeVar,
    pub has_analysis: bool,
}

impl Change<'_> {
    pub fn refused(&self, why: &str) -> PgError {
        let what = if self.relation.kind == RelationKind::View { "view" } else { "table" };
        let hint = match self.relation.kind {
            RelationKind::View => "Change the tables themselves, or write a simpler statement.",
            _ => "Write a simpler statement, or make the trigger AFTER … FOR EACH ROW.",
        };
        let error = PgError::unsupported(format!("this change of {what} \"{}\"", self.relation.name));
        error.detail(why).hint(hint)
    }

    pub fn alias(&self) -> &str {
        tree::alias_of(self.target)
    }

    pub fn made_rows(&self, tree: &NodeEnum) -> Result<MadeRows> {
        if let NodeEnum::CopyStmt(copy) = tree {
            return self.of_copy(copy);
        }
        // A DELETE has no new rows, so it draws no defaults for them and meets no domain that forbids NULL.
        let (columns, new) = match tree {
            NodeEnum::DeleteStmt(_) => (Vec::new(), format!("CAST(NULL AS {})", self.relation.qualified_name())),
            _ => (self.definitions(), self.whole(TABLE)),
        };
        let old = format!("{OLD} {}", self.relation.qualified_name());
        Ok(MadeRows {
            table: TABLE.to_owned(),
            definitions: columns.into_iter().chain([old]).collect(),
            fill: tree::deparse(&self.fill(tree)?.into_tree())?,
            read: format!("SELECT {OLD}, {new} FROM pg_temp.{TABLE} ORDER BY ctid"),
            drop: format!("DROP TABLE pg_temp.{TABLE}"),
        })
    }

    /// All columns under an alias as a row.
    pub fn whole(&self, alias: &str) -> String {
        let alias = quote_identifier(alias);
        let column = |column: &Column| format!("{alias}.{}", quote_identifier(&column.name));
        let columns: Vec<String> = self.relation.columns.iter().map(column).collect();
        format!("CAST(ROW({}) AS {})", columns.join(", "), self.relation.qualified_name())
    }

    fn definitions(&self) -> Vec<String> {
        let definition = |column: &Column| match column.generated.is_computed() {
            true => format!("{} {}", quote_identifier(&column.name), column.type_name),
            false => dml::definition(self.relation, column, None),
        };
        self.relation.columns.iter().map(definition).collect()
    }

    fn fill(&self, tree: &NodeEnum) -> Result<InsertStmt> {
        match tree {
            NodeEnum::InsertStmt(insert) => self.of_insert(insert),
            NodeEnum::UpdateStmt(update) => {
                let new = self.assigned(&update.target_list)?;
                self.of_rows(new, update.where_clause.clone(), &update.from_clause, update.with_clause.clone())
            }
            NodeEnum::DeleteStmt(delete) => {
                self.of_rows(Vec::new(), delete.where_clause.clone(), &delete.using_clause, delete.with_clause.clone())
            }
            _ => Err(PgError::internal("no change of rows")),
        }
    }

    /// Lines go into a temp table of the same name, so that errors read as they should. It has the generated columns, which
    /// PostgreSQL does not let them fill.
    fn of_copy(&self, copy: &CopyStmt) -> Result<MadeRows> {
        let table = format!("pg_temp.{}", quote_identifier(&self.relation.name));
        let definition = |column: &Column| dml::definition(self.relation, column, None);
        let value = |column: &Column| match column.generated {
            Generated::Stored | Generated::Virtual => "NULL".to_owned(),
            _ => quote_identifier(&column.name),
        };
        let values: Vec<String> = self.relation.columns.iter().map(value).collect();
        let fill = CopyStmt { relation: Some(tree::table("pg_temp", &self.relation.name, None)), ..copy.clone() };
        Ok(MadeRows {
            table: self.relation.name.clone(),
            definitions: self.relation.columns.iter().map(definition).collect(),
            fill: tree::deparse(&fill.into_tree())?,
            read: format!(
                "SELECT NULL, CAST(ROW({}) AS {}) FROM {table} ORDER BY ctid",
                values.join(", "),
                self.relation.qualified_name()
            ),
            drop: format!("DROP TABLE {table}"),
        })
    }

    fn table() -> RangeVar {
        tree::table("pg_temp", TABLE, None)
    }

    fn of_insert(&self, insert: &InsertStmt) -> Result<InsertStmt> {
        let mut insert = InsertStmt {
            relation: Some(Self::table()),
            returning_clause: None,
            on_conflict_clause: None,
            ..insert.clone()
        };
        if insert.cols.is_empty() && insert.select_stmt.is_some() {
            if !self.has_analysis {
                return Err(self.refused("It does not name its columns."));
            }
            // A value for each column, or PostgreSQL would have named those that have one.
            insert.cols = self.relation.columns.iter().map(|column| tree::target_name_only(&column.name)).collect();
        }
        let is_plain =
            |node: &Node| matches!(&node.node, Some(NodeEnum::ResTarget(target)) if target.indirection.is_empty());
        match insert.cols.iter().all(is_plain) {
            true => Ok(insert),
            false => Err(self.refused("It assigns to a part of a column.")),
        }
    }

    /// The rows that a condition chooses, after their new values. Nobody else changes those of a table from here on.
    fn of_rows(
        &self,
        new: Vec<Part>,
        where_clause: Option<Box<Node>>,
        others: &[Node],
        with_clause: Option<protobuf::WithClause>,
    ) -> Result<InsertStmt> {
        if matches!(where_clause.as_deref(), Some(Node { node: Some(NodeEnum::CurrentOfExpr(_)) })) {
            return Err(self.refused("It has WHERE CURRENT OF."));
        }
        let mut query = SelectStmt { where_clause, with_clause, ..tree::empty_select() };
        let cols = new.iter().map(Part::target).chain([tree::target_name_only(OLD)]).collect();
        query.target_list = new.into_iter().map(|part| tree::target(part.value, None)).collect();
        query.target_list.push(tree::target(tree::parse_expression(&self.whole(self.alias()))?, None));
        query.from_clause = vec![tree::node(NodeEnum::RangeVar(self.target.clone()))];
        query.from_clause.extend_from_slice(others);
        if self.relation.kind != RelationKind::View {
            let table = tree::node(NodeEnum::RangeVar(tree::table("", self.alias(), None)));
            query.locking_clause.push(tree::for_update(vec![table]));
        }
        Ok(InsertStmt {
            relation: Some(Self::table()),
            cols,
            select_stmt: query.into_box(),
            r#override: protobuf::OverridingKind::OverridingNotSet as i32,
            ..InsertStmt::default()
        })
    }

    /// The new value of each column; of generated ones none is known yet.
    fn assigned(&self, targets: &[Node]) -> Result<Vec<Part>> {
        let null = |column: &Column| tree::parse_expression(&format!("NULL::{}", column.type_name));
        let kept = |column: &Column| match column.generated.is_computed() {
            true => null(column),
            false => Ok(tree::column(&[self.alias(), &column.name])),
        };
        let mut values: Vec<Node> = self.relation.columns.iter().map(kept).collect::<Result<_>>()?;
        for target in targets {
            let Some(target) = target.get::<ResTarget>() else { continue };
            let at = self.relation.columns.iter().position(|column| column.name == target.name);
            let (Some(at), Some(value), true) = (at, &target.val, target.indirection.is_empty()) else {
                return Err(self.refused("It assigns to a part of a column."));
            };
            let column = &self.relation.columns[at];
            match (&value.node, column.generated) {
                (Some(NodeEnum::MultiAssignRef(_)), _) => {
                    return Err(self.refused("It assigns several columns from one sub-select."));
                }
                (Some(NodeEnum::SetToDefault(_)), Generated::Stored | Generated::Virtual) => {}
                (Some(NodeEnum::SetToDefault(_)), Generated::No) => {
                    values[at] = column.default.as_deref().map_or_else(|| null(column), tree::parse_expression)?;
                }
                (Some(NodeEnum::SetToDefault(_)), _) => {
                    values[at] = tree::parse_expression(&dml::identity(self.relation, column))?;
                }
                _ => values[at] = value.as_ref().clone(),
            }
        }
        let parts = |(column, value)| dml::parts(self.catalog, column, value);
        Ok(self.relation.columns.iter().zip(&values).flat_map(parts).collect())
    }

    /// RETURNING over an array of rows, which is the parameter after those of the user.
    pub fn returning(&self, clause: &ReturningClause, parameters: usize, tree: &NodeEnum) -> Result<String> {
        let has_others = tree::reads_others(tree);
        let is_more = clause.exprs.any(|node| match node {
            Ref::SubLink(_) => true,
            Ref::ColumnRef(column) => self.is_elsewhere(&column.fields, has_others),
            _ => false,
        })?;
        if is_more || !clause.options.is_empty() {
            return Err(self.refused("Its RETURNING is more than an expression over the row."));
        }
        let of = self.relation.qualified_name();
        let rows = format!("SELECT FROM pg_catalog.unnest(CAST(${} AS {of}[])) AS r", parameters + 1);
        let mut query = tree::parse_select(&rows)?;
        if let Some(Node { node: Some(NodeEnum::RangeFunction(item)) }) = query.from_clause.first_mut() {
            item.alias = Some(tree::alias(self.alias()));
        }
        query.target_list = clause.exprs.clone();
        tree::deparse_select(&query)
    }

    /// Is it a column of another table, as far as one can tell, or one that every table has beside its own?
    fn is_elsewhere(&self, fields: &[Node], has_others: bool) -> bool {
        let name = fields.last().and_then(tree::text_of);
        let is_of_system =
            name.is_some_and(|name| SYSTEM_COLUMNS.contains(&name) && self.relation.column(name).is_none());
        let is_ours =
            fields.len() == 2 && fields.first().and_then(tree::text_of) == Some(self.alias()) && name.is_some();
        is_of_system || has_others && !is_ours
    }
}
