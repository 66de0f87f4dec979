//! An INSERT by way of a stage table on the home node.

use catalog::Column;
use pg_query::Node;
use pg_query::protobuf::{InsertStmt, OverridingKind};
use pgerror::{PgError, Result};

use super::{Insert, Markers, is_list, overriding, source, tail, values};
use crate::dml::{row_parts, stage};
use crate::plan::{Clauses, Direct, FinalSql, Input, InsertStaged, Plan, RowColumn, STAGE, column_list};
use crate::tree::{self, Ask, Syntax};

impl Insert<'_> {
    /// By way of the stage table.
    pub(super) fn staged(&self) -> Result<Plan> {
        if stage::stored_columns(&self.relation).is_empty() {
            return Err(PgError::unsupported("an INSERT of rows without columns that one node makes for others")
                .hint("Give the table a column."));
        }
        self.check_identity()?;
        let mut fill = self.insert.clone();
        fill.relation = Some(tree::table("", STAGE, None));
        fill.on_conflict_clause = None;
        fill.returning_clause = None;
        fill.r#override = OverridingKind::OverridingNotSet as i32;
        if fill.cols.is_empty() && fill.select_stmt.is_some() {
            fill.cols = self.given_columns().iter().map(|name| tree::target_name_only(name)).collect();
        }
        let mut stage = stage::stage(&self.relation, self.ctx.session.now);
        let is_rows = self.rows().is_some();
        overriding::ignore_values(&self.overridden(), &self.given_columns(), is_rows, &mut fill, &mut stage);
        let direct = self.direct();
        let (inputs, types) = self.fill_source(&mut fill, direct.is_some())?;
        let direct = direct.filter(|_| matches!(inputs.as_slice(), [input] if input.exchange_plan.is_some()));
        let text = tree::deparse(&fill.into_tree())?;
        Ok(Plan::InsertStaged(Box::new(InsertStaged {
            node: self.ctx.home(),
            inputs,
            stage,
            fill: FinalSql { text, types },
            target_sql: tail::target(self.insert, &self.relation),
            tail: tail::text(self.insert)?,
            names_columns_only: tail::names_columns_only(self.insert, &self.relation)?,
            clauses: Clauses::of(self.insert),
            parameters: self.statement.parameters,
            direct,
            original: self.statement.sql.to_string(),
            rights_sql: self.ctx.catalog.has_column_grants(self.relation.oid).then(|| self.statement.sql.to_string()),
            through: None,
        })))
    }

    /// How rows of other nodes may go straight to theirs: COPY sets no other column, so none may have a default.
    fn direct(&self) -> Option<Direct> {
        let is_bare = self.overridden().is_empty()
            && tail::text(self.insert).is_ok_and(|tail| tail.is_empty())
            && !self.insert.cols.iter().any(row_parts::is_part)
            && !is_list(self.insert)
            && !row_parts::has_records(self.insert);
        let given: Option<Vec<&Column>> =
            self.given_columns().into_iter().map(|name| self.relation.column(name)).collect();
        let given = given.filter(|_| is_bare && !self.relation.is_barrier)?;
        let stored = stage::stored_columns(&self.relation);
        let is_given = |column: &Column| given.iter().any(|other| other.number == column.number);
        let has_default = |column: &Column| column.default.is_some() || column.generated.is_identity();
        let all_stored = given.iter().all(|column| stored.iter().any(|other| other.number == column.number));
        if !all_stored || stored.into_iter().any(|column| !is_given(column) && has_default(column)) {
            return None;
        }
        let columns: Vec<RowColumn> = given.into_iter().map(stage::row_column).collect();
        let target = self.relation.qualified_name();
        Some(Direct {
            route: stage::route(&self.relation, &columns),
            copy_sql: format!("COPY {target} ({}) FROM STDIN (FORMAT binary)", column_list(&columns)),
            columns,
        })
    }

    /// Plain rows are evaluated as they stand; a query is planned like any other.
    fn fill_source(&self, fill: &mut InsertStmt, straight: bool) -> Result<(Vec<Input>, Markers)> {
        let is_bare = |value: &Node| !value.has_sub_select().unwrap_or(true);
        let reads_nothing = self.rows().is_some_and(|rows| rows.into_iter().flatten().all(is_bare));
        if !self.facts.has_what_functions_read(self.ctx.home()) {
            if self.has_defaults() {
                self.facts.check_functions_at_home(self.ctx)?;
            }
        } else if reads_nothing {
            return Ok(Default::default());
        }
        if is_list(fill) {
            return values::compute_apart(self.ctx, fill, !self.facts.has_what_functions_read(self.ctx.home()));
        }
        let Some(query) = fill.select_stmt.as_deref().and_then(|n| n.node.clone()) else {
            return Ok(Default::default());
        };
        let (inputs, source) = source(self.ctx, self.insert, &query, straight)?;
        fill.select_stmt = tree::parse_select(&source.text)?.into_box();
        Ok((inputs, source.types))
    }
}
