//! INSERT of rows that lack nothing but numbers of sequences: these are drawn first, by the session's own backend on the home
//! node, and become parameters of a statement that is routed like any other. No stage is needed then.
//!
//! ```text
//! INSERT INTO t (v) VALUES ($1), ($2)   →   nextval twice;   INSERT INTO t (v, id) VALUES ($1, $3), ($2, $4)
//! ```

use std::borrow::Cow;

use catalog::{Column, Generated, Meaning};
use pg_query::protobuf::{FuncCall, InsertStmt, List, OverridingKind, SelectStmt, TypeCast};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::insert::Insert;
use super::stage;
use crate::context::{Context, Named};
use crate::parse::{self, Statement};
use crate::plan::Drawn;
use crate::tree::{self, Get, Syntax};

/// Further parameters of one statement; its multi-row INSERT goes on by the stage.
const DRAWN_MAX: usize = 20_000;

/// `None` if the statement needs another way.
pub(crate) fn drawn(ctx: &Context<'_>, statement: &Statement) -> Result<Option<Drawn>> {
    let Some(NodeEnum::InsertStmt(insert)) = statement.node() else { return Ok(None) };
    if insert.with_clause.is_some() || !may_draw(ctx, insert)? {
        return Ok(None);
    }
    let insert = with_rows(insert);
    Insert::of_table(ctx, statement, &insert)?.map_or(Ok(None), |insert| insert.drawn())
}

/// Has the table a column that a sequence might fill? Told first, since most have none.
fn may_draw(ctx: &Context<'_>, insert: &InsertStmt) -> Result<bool> {
    let named = insert.relation.as_ref().map(|name| ctx.resolve(name)).transpose()?;
    let Some(Named::Distributed(relation)) = named else { return Ok(false) };
    let draws =
        |column: &Column| column.generated.is_identity() || column.default.is_some() && !column.default_is_stable;
    Ok(relation.columns.iter().any(draws))
}

/// DEFAULT VALUES is a row without values.
fn with_rows(insert: &InsertStmt) -> Cow<'_, InsertStmt> {
    if insert.select_stmt.is_some() {
        return Cow::Borrowed(insert);
    }
    let row = tree::node(NodeEnum::List(pg_query::protobuf::List { items: Vec::new() }));
    let values = SelectStmt { values_lists: vec![row], ..tree::empty_select() };
    let values = values.into_node();
    Cow::Owned(InsertStmt { select_stmt: Some(Box::new(values)), ..insert.clone() })
}

impl Insert<'_> {
    fn drawn(&self) -> Result<Option<Drawn>> {
        // The stage knows how to store columns that the user may not write.
        let is_own_right = !self.ctx.catalog.has_column_grants(self.relation.oid);
        if !is_own_right || self.is_ragged() || !self.needs_home() || !self.needs_only_defaults() {
            return Ok(None);
        }
        let Some(given) = self.known_columns() else { return Ok(None) };
        let unsafe_columns: Vec<&Column> = self.unsafe_columns();
        let sequences: Option<Vec<(&Column, String)>> =
            unsafe_columns.iter().map(|column| Some((*column, self.draw_of(column)?))).collect();
        let Some(sequences) = sequences else { return Ok(None) };
        self.check_identity()?;
        let is_given = |(column, _): &&(&Column, String)| given.contains(&column.name);
        let draws_of_row = sequences.iter().filter(|sequence| !is_given(sequence)).count();
        // The tree of so many rows is large: it is not copied for nothing.
        let rows = self.insert.select_stmt.get::<SelectStmt>().map_or(0, |query| query.values_lists.len());
        if rows * draws_of_row > DRAWN_MAX {
            return Ok(None);
        }
        self.with_parameters(given, &sequences)
    }

    /// The expression that draws a column's number, if it is nothing but that.
    pub(crate) fn draw_of(&self, column: &Column) -> Option<String> {
        match column.generated {
            generated if generated.is_identity() => Some(stage::identity(&self.relation, column)),
            Generated::No => {
                let default = column.default.as_deref()?;
                let node = tree::parse_expression(default).ok()?;
                is_draw(self.ctx, &node).then(|| default.to_owned())
            }
            _ => None,
        }
    }

    fn with_parameters(&self, given: Vec<String>, sequences: &[(&Column, String)]) -> Result<Option<Drawn>> {
        let lost = || PgError::internal("an INSERT of rows without rows");
        let mut insert = self.insert.clone();
        let Some(values) = insert.select_stmt.get_mut::<SelectStmt>() else { return Err(lost()) };
        let mut number = self.statement.parameters;
        let mut next = || {
            number += 1;
            tree::parameter(number)
        };
        let mut draws = Vec::with_capacity(sequences.len());
        // As they stand: they may be parts of columns.
        let mut targets = match insert.cols.is_empty() {
            true => given.iter().map(|name| tree::target_name_only(name)).collect(),
            false => insert.cols.clone(),
        };
        for (column, draw) in sequences {
            let place = given.iter().position(|name| *name == column.name);
            let mut count = 0;
            for row in &mut values.values_lists {
                let Some(row) = row.get_mut::<List>() else { return Err(lost()) };
                match place {
                    None => {
                        row.items.push(next());
                        count += 1;
                    }
                    Some(at) => {
                        let item = row.items.get_mut(at).ok_or_else(lost)?;
                        if tree::is_default(item) {
                            *item = next();
                            count += 1;
                        }
                    }
                }
            }
            if place.is_none() {
                targets.push(tree::target_name_only(&column.name));
            }
            draws.push((draw.clone(), count));
        }
        if number > self.statement.parameters + DRAWN_MAX {
            return Ok(None);
        }
        insert.cols = targets;
        if sequences.iter().any(|(column, _)| column.generated == Generated::IdentityAlways) {
            insert.r#override = OverridingKind::OverridingSystemValue as i32;
        }
        let node = insert.into_tree();
        let rest =
            Statement { is_rewritten: self.statement.is_rewritten, ..parse::build(&tree::deparse(&node)?, node)? };
        Ok(Some(Drawn { draws, rest: Box::new(rest) }))
    }
}

/// `nextval('s'::regclass)`.
fn is_draw(ctx: &Context<'_>, node: &Node) -> bool {
    let Some(call) = node.get::<FuncCall>() else { return false };
    let is_name = |arg: &Node| arg.get::<TypeCast>().and_then(|cast| tree::quoted(cast.arg.get()?)).is_some();
    ctx.calls(call, Meaning::NextValue) && call.args.iter().all(is_name)
}
