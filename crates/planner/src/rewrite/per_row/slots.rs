//! Slots and calls so far, and how they are written into the three texts.

use std::collections::HashMap;

use catalog::Function;
use pg_query::protobuf::{ColumnRef, FuncCall, RangeFunction, RangeVar, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::effects::{called_by_views, may_touch, sees_changes};
use crate::context::{Context, Named};
use crate::facts::functions;
use crate::plan::{Enough, PerRow, RowCall};
use crate::rewrite::returns::Shape;
use crate::select::shape::gives_set;
use crate::tree::{self, Ask, Get, Ref, Syntax, Walk};

/// The alias of the rows, and of slots while the texts are made.
pub(super) const ROWS: &str = "loxo_r";

/// A slot as an expression holds it until all are known: `loxo_r.r3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A column of the rows.
    Row(usize),
    /// A value that a call gives.
    Value(usize),
    /// The empty value of a function that returns `void`.
    Void(usize),
    /// The rows that a call gives.
    Set(usize),
}

impl Slot {
    pub fn node(self) -> Node {
        let name = match self {
            Slot::Row(at) => format!("r{at}"),
            Slot::Value(at) => format!("v{at}"),
            Slot::Void(at) => format!("o{at}"),
            Slot::Set(at) => format!("s{at}"),
        };
        tree::column(&[ROWS, &name])
    }

    pub fn of(node: &Node) -> Option<Self> {
        Self::of_column(node.get()?)
    }

    pub fn of_column(column: &ColumnRef) -> Option<Self> {
        let [rows, name] = column.fields.as_slice() else { return None };
        let name = tree::text_of(name).filter(|_| tree::text_of(rows) == Some(ROWS))?;
        let (kind, at) = name.split_at_checked(1)?;
        let at = at.parse().ok()?;
        Some(match kind {
            "r" => Slot::Row(at),
            "v" => Slot::Value(at),
            "o" => Slot::Void(at),
            "s" => Slot::Set(at),
            _ => return None,
        })
    }
}

/// A call as it will be made.
pub(super) struct Call {
    pub query: SelectStmt,
    pub when: Option<Node>,
    pub columns: usize,
    pub is_set: bool,
    pub once: bool,
}

/// A call that gives a set, and where its slots begin.
pub(super) struct SetCall {
    pub call: Node,
    pub when: Option<Node>,
    /// It is all of an output column.
    pub is_target: bool,
    pub columns: usize,
    pub first: usize,
}

/// What one round takes out of a query.
pub(super) struct Draft<'a> {
    pub ctx: &'a Context<'a>,
    parameters: usize,
    /// The select list of the rows.
    pub columns: Vec<Node>,
    pub calls: Vec<Call>,
    pub sets: Vec<SetCall>,
    /// Conditions are taken apart, which are judged row by row.
    pub in_conditions: bool,
    /// What comes next is all of an output column.
    pub at_target: bool,
    /// Slots of calls so far.
    pub values: usize,
    pub enough: Option<(Option<Node>, Node)>,
    pub changes_first: bool,
    pub one_by_one: bool,
    /// The table that an INSERT fills whose rows are made before they are stored: VOLATILE functions that may read it are called
    /// here too, each after the rows before it.
    pub filled: Option<RangeVar>,
    /// They change rows, which VOLATILE functions see: those that read them are called here too, each in its turn.
    pub writers: Vec<&'a Function>,
    /// The tables that the rows come from, by their aliases, as types.
    pub tables: HashMap<String, String>,
    /// The functions that are called.
    pub functions: Vec<&'a Function>,
    /// Something cannot be taken apart.
    pub fails: bool,
}

impl<'a> Draft<'a> {
    pub fn new(ctx: &'a Context<'a>, parameters: usize) -> Self {
        Self {
            ctx,
            parameters,
            columns: Vec::new(),
            calls: Vec::new(),
            sets: Vec::new(),
            in_conditions: false,
            at_target: false,
            values: 0,
            enough: None,
            changes_first: false,
            one_by_one: false,
            filled: None,
            writers: Vec::new(),
            tables: HashMap::new(),
            functions: Vec::new(),
            fails: false,
        }
    }

    /// Notes the tables among these items of FROM.
    pub fn know_tables(&mut self, items: &[Node]) -> Result<()> {
        for item in items {
            item.walk(&mut |node| {
                if let Ref::RangeVar(name) = node
                    && let Named::Distributed(table) | Named::View(table) = self.ctx.resolve(name)?
                {
                    self.tables.insert(tree::alias_of(name).to_owned(), table.qualified_name());
                }
                Ok(!matches!(node, Ref::SelectStmt(_)))
            })?;
        }
        Ok(())
    }

    /// The slot of a column that the rows have to have.
    pub fn column(&mut self, value: &Node) -> Node {
        let known = self.columns.iter().position(|known| tree::same_expression(known, value));
        let is_plain = matches!(&value.node, Some(NodeEnum::ColumnRef(_)));
        let at = known.filter(|_| is_plain).unwrap_or_else(|| {
            self.columns.push(value.clone());
            self.columns.len() - 1
        });
        Slot::Row(at).node()
    }

    /// The select list of the rows: there is always a column, which is then as long as there are rows.
    pub fn targets(&mut self) -> Vec<Node> {
        if self.columns.is_empty() {
            self.columns.push(tree::integer(1));
        }
        let target = |(at, value): (usize, &Node)| tree::target(value.clone(), Some(&format!("c{at}")));
        self.columns.iter().enumerate().map(target).collect()
    }

    /// Would the rows be as many as a set in their select list has, where PostgreSQL counts them otherwise: beside another set, or after WHERE?
    pub fn multiplies(&self, is_after_where: bool) -> Result<bool> {
        if !is_after_where && !self.calls.iter().any(|call| call.is_set) {
            return Ok(false);
        }
        let mut found = false;
        for column in &self.columns {
            column.walk(&mut |node| {
                if let Ref::FuncCall(call) = node {
                    found |= gives_set(self.ctx, call);
                }
                Ok(!found && !matches!(node, Ref::SubLink(_)))
            })?;
        }
        Ok(found)
    }

    /// The texts. All columns of the rows are known now.
    pub fn finish(self, rows: NodeEnum, rest: NodeEnum) -> Result<PerRow> {
        let of_row = |node: &Node| self.of_row(node);
        let query = |value: &Node| -> Result<String> {
            let target_list = vec![tree::target(of_row(value)?, None)];
            tree::deparse_select(&SelectStmt { target_list, ..tree::empty_select() })
        };
        let calls = self.calls.iter().map(|call| {
            let select = call.query.clone().into_node();
            let sql = of_row(&select)?.node.as_ref().map(tree::deparse).transpose()?.unwrap_or_default();
            let when = call.when.as_ref().map(query).transpose()?;
            Ok(RowCall { sql, when, columns: call.columns, is_set: call.is_set, once: call.once })
        });
        let calls = calls.collect::<Result<_>>()?;
        let enough = match &self.enough {
            Some((when, count)) => Some(Enough { when: when.as_ref().map(query).transpose()?, count: query(count)? }),
            None => None,
        };
        let mut rest = tree::node(rest);
        self.write_rest(&mut rest)?;
        Ok(PerRow {
            rows: tree::deparse(&rows)?,
            columns: self.columns.len(),
            calls,
            rest: rest.node.as_ref().map(tree::deparse).transpose()?.unwrap_or_default(),
            changes_first: self.changes_first,
            one_by_one: self.one_by_one,
            enough,
            parameters: self.parameters,
            is_volatile: self.functions.iter().any(|function| function.volatility == 'v'),
        })
    }

    /// The place of a slot among all.
    fn place(&self, slot: Slot) -> usize {
        match slot {
            Slot::Row(at) => at,
            Slot::Value(at) | Slot::Void(at) | Slot::Set(at) => self.columns.len() + at,
        }
    }

    /// An expression over the values of one row.
    fn of_row(&self, value: &Node) -> Result<Node> {
        let mut value = value.clone();
        value.rewrite(&mut |node| {
            let Some(slot) = Slot::of(node) else { return Ok(true) };
            debug_assert!(!matches!(slot, Slot::Set(_)), "a set is no value of one row");
            let place = self.place(slot);
            let parameter = tree::parse_expression(&format!("${}", self.parameters + place + 1))?;
            *node = self.valued(slot, parameter)?;
            Ok(false)
        })?;
        Ok(value)
    }

    /// Puts the rows into the rest, and their columns in place of slots.
    fn write_rest(&self, rest: &mut Node) -> Result<()> {
        let mut used = vec![false; self.columns.len() + self.values];
        rest.rewrite(&mut |node| {
            if let Some(item) = node.get::<RangeFunction>()
                && is_rows(item)
            {
                return Ok(false);
            }
            let Some(slot) = Slot::of(node) else { return Ok(true) };
            let place = self.place(slot);
            used[place] = true;
            *node = self.valued(slot, tree::column(&[ROWS, &column_name(place)]))?;
            Ok(false)
        })?;
        if !used.contains(&true) {
            used[0] = true;
        }
        let places: Vec<usize> = used.iter().enumerate().filter_map(|(at, used)| used.then_some(at)).collect();
        rest.rewrite(&mut |node| {
            if let Some(item) = node.get_mut::<RangeFunction>()
                && is_rows(item)
            {
                *item = self.unnested(&places)?;
                return Ok(false);
            }
            Ok(true)
        })
    }

    /// The text of a slot as its value.
    fn valued(&self, slot: Slot, text: Node) -> Result<Node> {
        let marker = PerRow::type_marker(self.place(slot));
        let text = tree::deparse_expression(&text)?;
        tree::parse_expression(&match slot {
            Slot::Row(_) | Slot::Value(_) => format!("CAST({text} AS {marker})"),
            Slot::Void(_) => format!("CASE WHEN {text} IS NOT NULL THEN CAST('' AS pg_catalog.void) END"),
            Slot::Set(_) => format!("pg_catalog.unnest(CAST({text} AS {marker}[]))"),
        })
    }

    fn unnested(&self, places: &[usize]) -> Result<RangeFunction> {
        let array =
            |place: &usize| format!("pg_catalog.unnest(CAST(${} AS pg_catalog.text[]))", self.parameters + place + 1);
        let arrays: Vec<String> = places.iter().map(array).collect();
        let names: Vec<String> = places.iter().map(|place| column_name(*place)).collect();
        let text = format!("SELECT FROM ROWS FROM ({}) AS {ROWS} ({})", arrays.join(", "), names.join(", "));
        match tree::parse_select(&text)?.from_clause.pop().and_then(|item| item.node) {
            Some(NodeEnum::RangeFunction(item)) => Ok(item),
            _ => Err(pgerror::PgError::internal("rows that are no item of FROM")),
        }
    }

    /// The functions of which this is a call, if the coordinator has to run it: more than one where overloads take as many arguments.
    pub fn ours(&self, call: &FuncCall) -> Result<Vec<&'a Function>> {
        let meant = self.ctx.user_functions(call);
        Ok(if crate::try_any(&meant, |function| self.is_ours(function))? { meant } else { Vec::new() })
    }

    fn is_ours(&self, function: &Function) -> Result<bool> {
        let facts = functions::function_facts(self.ctx, function)?;
        let is_read = ["sql", "plpgsql"].contains(&function.language.as_str()) && function.kind == 'f';
        let sees_rows = match &self.filled {
            Some(filled) => may_touch(self.ctx, &[function], filled)?,
            None => facts.reads.is_some() && sees_changes(self.ctx, &self.writers, function),
        };
        Ok(is_read && (sees_rows || facts.refused.is_some()))
    }

    /// Is it a call of ours as a whole?
    pub fn is_call(&self, value: &Node) -> Result<bool> {
        value.get::<FuncCall>().map_or(Ok(false), |call| Ok(!self.ours(call)?.is_empty()))
    }

    /// Is there a call of ours in it, whatever the level?
    pub fn calls_in(&self, tree: &impl Walk) -> Result<bool> {
        Ok(!self.functions_in(tree)?.is_empty())
    }

    /// The functions of all such calls, and those of views that no node reads at the right time.
    pub fn functions_in(&self, tree: &impl Walk) -> Result<Vec<&'a Function>> {
        let is_by_turns = !self.writers.is_empty() || self.filled.is_some();
        let mut found = if is_by_turns { called_by_views(self.ctx, tree)? } else { Vec::new() };
        found.retain(|function| self.is_ours(function).unwrap_or(true));
        for call in tree.calls()? {
            found.extend(self.ours(call)?);
        }
        Ok(found)
    }

    /// What the call gives: the same for all that it may mean.
    pub fn shape(&self, functions: &[&Function]) -> Option<Shape> {
        let mut shapes = functions.iter().map(|function| Shape::of(self.ctx, function));
        let first = shapes.next()??;
        match functions.len() {
            1 => Some(first),
            _ => {
                let is_value = |shape: &Shape| !shape.set && !shape.is_void && shape.columns().len() == 1;
                (is_value(&first) && shapes.all(|shape| shape.as_ref().is_some_and(is_value))).then_some(first)
            }
        }
    }
}

/// What the rest calls the column of a slot; no table has one of that name.
fn column_name(place: usize) -> String {
    format!("loxo_c{place}")
}

/// The place of the rows in FROM.
pub(super) fn rows_item() -> Node {
    let alias = Some(tree::alias(ROWS));
    tree::node(NodeEnum::RangeFunction(RangeFunction { alias, ..RangeFunction::default() }))
}

fn is_rows(item: &RangeFunction) -> bool {
    item.functions.is_empty() && item.alias.as_ref().is_some_and(|alias| alias.aliasname == ROWS)
}
