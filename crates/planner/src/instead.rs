//! Changes of views with INSTEAD OF triggers: the coordinator makes the rows, and the triggers do what they do.
//!
//! ```text
//! UPDATE v SET a = 1 WHERE b > 2 RETURNING a
//!   rows   INSERT INTO pg_temp.loxo_instead (a, b, loxo_old) SELECT 1, v.b, ROW(v.a, v.b)::v FROM v WHERE v.b > 2
//!   each   the view's triggers, with OLD and NEW
//!   then   SELECT a FROM unnest($1::v[]) AS v
//! ```
//!
//! The rows go through a temp table like the view, since values are then converted as in an assignment, and left out columns get the
//! view's defaults.

use std::sync::Arc;

use catalog::{Relation, quote_identifier};
use pg_query::protobuf::{self, Alias, InsertStmt, RangeVar, ReturningClause, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use crate::context::{Context, Named};
use crate::parse::Statement;
use crate::routine::Routine;
use crate::tree::{self, Walk};

/// `TRIGGER_TYPE_…` of `pg_trigger.h`.
const INSTEAD: i16 = 64;
const ON_INSERT: i16 = 4;
const ON_DELETE: i16 = 8;
const ON_UPDATE: i16 = 16;

/// The temp table.
const TABLE: &str = "loxo_instead";
/// Its column of the row as it is.
const OLD: &str = "loxo_old";

/// See the module's page.
#[derive(Clone, Debug)]
pub struct Instead {
    /// The view, and its schema.
    pub view: String,
    #[allow(missing_docs)]
    pub schema: String,
    /// `INSERT`, `UPDATE` or `DELETE`.
    pub operation: &'static str,
    /// The triggers, in the order in which they are run.
    pub triggers: Vec<String>,
    /// The temp table.
    pub table: &'static str,
    /// Its columns as CREATE TABLE has them.
    pub definitions: Vec<String>,
    /// A query with the same columns.
    pub shape: String,
    /// Give it the view's defaults.
    pub defaults: Vec<String>,
    /// Fills it.
    pub fill: String,
    /// Gives its rows, OLD and NEW.
    pub read: String,
    /// Drops it.
    pub drop: String,
    /// RETURNING over an array of rows, which is the first parameter after those of the user.
    pub returning: Option<String>,
    /// The user's parameters.
    pub parameters: usize,
}

/// How the statement is run if it changes such a view.
pub(crate) fn plan(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Routine>> {
    let Some(tree) = statement.node() else { return Ok(None) };
    let (target, event, operation, returning) = match tree {
        NodeEnum::InsertStmt(insert) => (&insert.relation, ON_INSERT, "INSERT", &insert.returning_clause),
        NodeEnum::UpdateStmt(update) => (&update.relation, ON_UPDATE, "UPDATE", &update.returning_clause),
        NodeEnum::DeleteStmt(delete) => (&delete.relation, ON_DELETE, "DELETE", &delete.returning_clause),
        _ => return Ok(None),
    };
    let Some(target) = target else { return Ok(None) };
    let view = match ctx.resolve(target)? {
        Named::View(view) if view.captured.iter().any(|one| one.kind & INSTEAD != 0 && one.kind & event != 0) => view,
        _ => return Ok(None),
    };
    let change = Change { view: &view, target, has_analysis: ctx.analysis.is_some() };
    if let Some(other) = view.captured.iter().find(|one| one.kind & INSTEAD == 0) {
        return Err(change.refused(&format!("Its trigger \"{}\" is one FOR EACH STATEMENT.", other.name)));
    }
    let fill = change.fill(tree)?;
    let returning =
        returning.as_ref().map(|clause| change.returning(clause, statement.parameters, tree)).transpose()?;
    let of_event = view.captured.iter().filter(|one| one.kind & event != 0);
    let mut triggers: Vec<String> = of_event.map(|one| one.name.clone()).collect();
    triggers.sort();
    Ok(Some(Routine::Instead(Box::new(Instead {
        view: view.name.clone(),
        schema: view.schema.clone(),
        operation,
        triggers,
        table: TABLE,
        definitions: change.definitions(),
        shape: format!("SELECT (v.r).*, v.r AS {OLD} FROM (SELECT CAST(NULL AS {}) AS r) AS v", view.qualified_name()),
        defaults: change.defaults(),
        fill,
        read: format!("SELECT {OLD}, {} FROM pg_temp.{TABLE} ORDER BY ctid", change.whole(TABLE)),
        drop: format!("DROP TABLE pg_temp.{TABLE}"),
        returning,
        parameters: statement.parameters,
    }))))
}

struct Change<'a> {
    view: &'a Arc<Relation>,
    target: &'a RangeVar,
    has_analysis: bool,
}

impl Change<'_> {
    fn refused(&self, why: &str) -> PgError {
        PgError::unsupported(format!("this change of view \"{}\"", self.view.name))
            .detail(why)
            .hint("Change the tables themselves, or write a simpler statement.")
    }

    fn alias(&self) -> &str {
        self.target.alias.as_ref().map_or(&self.target.relname, |alias| &alias.aliasname)
    }

    /// All columns under an alias as a row of the view.
    fn whole(&self, alias: &str) -> String {
        let alias = quote_identifier(alias);
        let column = |column: &catalog::Column| format!("{alias}.{}", quote_identifier(&column.name));
        let columns: Vec<String> = self.view.columns.iter().map(column).collect();
        format!("CAST(ROW({}) AS {})", columns.join(", "), self.view.qualified_name())
    }

    fn definitions(&self) -> Vec<String> {
        let view = self.view.qualified_name();
        vec![format!("LIKE {view}"), format!("{OLD} {view}")]
    }

    fn defaults(&self) -> Vec<String> {
        let default = |column: &catalog::Column| {
            let (name, value) = (quote_identifier(&column.name), column.default.as_ref()?);
            Some(format!("ALTER TABLE pg_temp.{TABLE} ALTER COLUMN {name} SET DEFAULT {value}"))
        };
        self.view.columns.iter().filter_map(default).collect()
    }

    fn fill(&self, tree: &NodeEnum) -> Result<String> {
        let filled = match tree {
            NodeEnum::InsertStmt(insert) => self.of_insert(insert)?,
            NodeEnum::UpdateStmt(update) => {
                let query = SelectStmt {
                    target_list: self.assigned(&update.target_list)?,
                    where_clause: update.where_clause.clone(),
                    ..tree::empty_select()
                };
                self.of_rows(query, &update.from_clause, update.with_clause.clone())?
            }
            NodeEnum::DeleteStmt(delete) => {
                let query = SelectStmt { where_clause: delete.where_clause.clone(), ..tree::empty_select() };
                self.of_rows(query, &delete.using_clause, delete.with_clause.clone())?
            }
            _ => return Err(PgError::internal("no change of a view")),
        };
        tree::deparse(&NodeEnum::InsertStmt(Box::new(filled)))
    }

    fn table() -> RangeVar {
        tree::table("pg_temp", TABLE, None)
    }

    fn of_insert(&self, insert: &InsertStmt) -> Result<InsertStmt> {
        if insert.on_conflict_clause.is_some() {
            return Err(self.refused("It has ON CONFLICT."));
        }
        let mut insert = InsertStmt { relation: Some(Self::table()), returning_clause: None, ..insert.clone() };
        if insert.cols.is_empty() && insert.select_stmt.is_some() {
            if !self.has_analysis {
                return Err(self.refused("It does not name its columns."));
            }
            // A value for each column, or PostgreSQL would have named those that have one.
            insert.cols = self.view.columns.iter().map(|column| tree::target_name_only(&column.name)).collect();
        }
        let is_plain =
            |node: &Node| matches!(&node.node, Some(NodeEnum::ResTarget(target)) if target.indirection.is_empty());
        match insert.cols.iter().all(is_plain) {
            true => Ok(insert),
            false => Err(self.refused("It assigns to a part of a column.")),
        }
    }

    /// The rows of the view that a condition chooses, after the columns that `query` has already.
    fn of_rows(
        &self,
        mut query: SelectStmt,
        others: &[Node],
        with_clause: Option<protobuf::WithClause>,
    ) -> Result<InsertStmt> {
        let has_new = !query.target_list.is_empty();
        query.target_list.push(tree::target(tree::parse_expression(&self.whole(self.alias()))?, None));
        query.from_clause = vec![tree::node(NodeEnum::RangeVar(self.target.clone()))];
        query.from_clause.extend_from_slice(others);
        query.with_clause = with_clause;
        let new = self.view.columns.iter().filter(|_| has_new).map(|column| column.name.as_str());
        Ok(InsertStmt {
            relation: Some(Self::table()),
            cols: new.chain([OLD]).map(tree::target_name_only).collect(),
            select_stmt: Some(Box::new(tree::node(NodeEnum::SelectStmt(Box::new(query))))),
            r#override: protobuf::OverridingKind::OverridingNotSet as i32,
            ..InsertStmt::default()
        })
    }

    /// The new value of each column.
    fn assigned(&self, targets: &[Node]) -> Result<Vec<Node>> {
        let mut values: Vec<Node> =
            self.view.columns.iter().map(|column| tree::column(&[self.alias(), &column.name])).collect();
        for target in targets {
            let Some(NodeEnum::ResTarget(target)) = &target.node else { continue };
            let at = self.view.columns.iter().position(|column| column.name == target.name);
            let (Some(at), Some(value), true) = (at, &target.val, target.indirection.is_empty()) else {
                return Err(self.refused("It assigns to a part of a column."));
            };
            match &value.node {
                Some(NodeEnum::MultiAssignRef(_)) => {
                    return Err(self.refused("It assigns several columns from one sub-select."));
                }
                Some(NodeEnum::SetToDefault(_)) => {
                    let default = self.view.columns[at].default.as_deref().unwrap_or("NULL");
                    values[at] = tree::parse_expression(default)?;
                }
                _ => values[at] = value.as_ref().clone(),
            }
        }
        Ok(values.into_iter().map(|value| tree::target(value, None)).collect())
    }

    /// RETURNING over the rows that the triggers gave back, or OLD.
    fn returning(&self, clause: &ReturningClause, parameters: usize, tree: &NodeEnum) -> Result<String> {
        let others = match tree {
            NodeEnum::UpdateStmt(update) => !update.from_clause.is_empty(),
            NodeEnum::DeleteStmt(delete) => !delete.using_clause.is_empty(),
            _ => false,
        };
        let mut has_sub_select = false;
        clause.exprs.walk(&mut |node| {
            has_sub_select |= matches!(node, tree::Ref::SubLink(_));
            Ok(true)
        })?;
        if others || has_sub_select || !clause.options.is_empty() {
            return Err(self.refused("Its RETURNING is more than an expression over the row."));
        }
        let rows = format!(
            "SELECT FROM pg_catalog.unnest(CAST(${} AS {}[])) AS r",
            parameters + 1,
            self.view.qualified_name()
        );
        let mut query = tree::parse_select(&rows)?;
        if let Some(Node { node: Some(NodeEnum::RangeFunction(item)) }) = query.from_clause.first_mut() {
            item.alias = Some(Alias { aliasname: self.alias().to_owned(), colnames: Vec::new() });
        }
        query.target_list = clause.exprs.clone();
        tree::deparse_select(&query)
    }
}
