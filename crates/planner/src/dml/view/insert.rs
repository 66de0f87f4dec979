//! INSERT into a view whose rows are dealt out: each node gets its own through the view, which checks them there.

use catalog::{Column, Relation};
use pg_query::protobuf::{InsertStmt, SelectStmt};
use pgerror::Result;

use super::refused;
use crate::dml::insert::tail;
use crate::parse::Statement;
use crate::plan::{InsertSplit, InsertStaged, RowColumn, Through};
use crate::tree::{self, Get, Syntax};

/// A view's columns, and those of the table under it that they are.
#[derive(Default)]
pub(super) struct Shown(Option<Vec<(String, Option<String>)>>);

impl Shown {
    /// One view deeper: what a column of the last one is there.
    pub fn under(&mut self, columns: impl Iterator<Item = (String, Option<String>)>) {
        let columns: Vec<_> = columns.collect();
        let Some(shown) = &mut self.0 else { return self.0 = Some(columns) };
        for (_, of) in shown {
            let found = of.as_ref().and_then(|of| columns.iter().find(|(name, _)| name == of));
            *of = found.and_then(|(_, of)| of.clone());
        }
    }

    /// What the view calls a column of the table.
    fn name_of(&self, column: &str) -> Option<String> {
        let found = self.0.iter().flatten().find(|(_, of)| of.as_deref() == Some(column));
        found.map(|(name, _)| name.clone())
    }
}

fn original(statement: &Statement) -> Option<&InsertStmt> {
    statement.node()?.get()
}

/// The rows of each node as the user wrote them.
pub(super) fn split(statement: &Statement, split: &mut InsertSplit) -> Result<()> {
    let Some((insert, query)) = original(statement).and_then(|i| Some((i, i.select_stmt.get::<SelectStmt>()?))) else {
        return Ok(());
    };
    for ((_, sql), places) in split.parts.iter_mut().zip(&split.places) {
        let mut values = query.clone();
        values.values_lists = places.iter().filter_map(|row| query.values_lists.get(*row as usize).cloned()).collect();
        let select_stmt = values.into_box();
        *sql = tree::deparse(&InsertStmt { select_stmt, ..insert.clone() }.into_tree())?;
    }
    Ok(())
}

/// Rows that the home node has made, if the view shows all that it has made: a column that nothing gives a value is NULL anywhere.
pub(super) fn staged(statement: &Statement, view: &Relation, shown: &Shown, staged: &mut InsertStaged) -> Result<()> {
    let Some(insert) = original(statement) else { return Ok(()) };
    let has_default = |column: &Column| column.default.is_some() || column.generated.is_identity();
    staged.stage.keep(|column| has_default(column) || shown.name_of(&column.name).is_some());
    let mut columns = Vec::new();
    for RowColumn { name, .. } in &staged.stage.columns {
        let Some(name) = shown.name_of(name) else {
            let why = format!("It has CHECK OPTION and does not show column \"{name}\", whose value one node makes.");
            return Err(refused(view, &why));
        };
        columns.push(name);
    }
    staged.target_sql = tail::target(insert, view);
    staged.tail = tail::text(insert)?;
    staged.direct = None;
    staged.through = Some(Through { columns });
    Ok(())
}
