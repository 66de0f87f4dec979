//! One moment for all nodes: `now()`, `statement_timestamp()` and their kin as constants.
//!
//! Each datanode has its own transaction and so its own `now()`. A statement whose parts run on several nodes, or that is
//! part of a transaction over several, gets that of one node instead, written into its text. What a function's body reads cannot
//! be written there: the home node alone calls it then.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use catalog::{Catalog, Meaning, Oid, Relation, meaning};
use pg_query::protobuf::{
    AConst, AlterTableCmd, AlterTableStmt, AlterTableType, ColumnDef, ConstrType, Constraint, DropBehavior, FuncCall,
    ResTarget, SqlValueFunctionOp as Op, TypeCast, TypeName,
};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use crate::context::Context;
use crate::facts::functions::facts;
use crate::parse::{COMMON, Statement, StatementKind, bodies::statements_of, mark, shape::is_moment};
use crate::plan::Plan;
use crate::session::Moment;
use crate::tree::{self, Ask, Get, Ref, Syntax, Walk};

/// The statement with every `now()`, `statement_timestamp()`, `CURRENT_TIMESTAMP`, `CURRENT_DATE`, … replaced by a
/// constant; `None` if there is none, or if it is not a query, a data change, EXPLAIN of these, CREATE TABLE AS, COPY (query) or
/// ALTER TABLE … ADD COLUMN. `clock_timestamp()` stays as it is; views and bodies of functions get theirs where they are put in.
pub fn at_one_moment(statement: &Statement, moment: &Moment) -> Result<Option<Statement>> {
    use StatementKind::{AlterTable, Copy, CreateTableAs, Delete, Explain, Insert, Merge, Select, Update};
    if !reads_clock(statement) {
        return Ok(None);
    }
    match &statement.kind {
        Select | Insert | Update | Delete | Merge | CreateTableAs | AlterTable => {}
        Copy(_) | Explain(_) => return statement.with_inner(|inner| at_one_moment(inner, moment)),
        _ => return Ok(None),
    }
    let Some(mut tree) = statement.node().cloned() else { return Ok(None) };
    let found = match &mut tree {
        NodeEnum::CreateTableAsStmt(create) => replace(&mut create.query, moment)?,
        NodeEnum::AlterTableStmt(alter) => replace_defaults(alter, moment)?,
        other => replace(other, moment)?,
    };
    if found { statement.with_whole_tree(tree).map(Some) } else { Ok(None) }
}

/// A new column's default is what the rows get that are there, and then what new ones get: the first as a constant.
fn replace_defaults(alter: &mut AlterTableStmt, moment: &Moment) -> Result<bool> {
    let mut later = Vec::new();
    for command in &mut alter.cmds {
        let Some(command) = command.get_mut::<AlterTableCmd>() else { continue };
        let Some(column) = command.def.get_mut::<ColumnDef>() else { continue };
        if command.subtype != AlterTableType::AtAddColumn as i32 {
            continue;
        }
        for constraint in &mut column.constraints {
            let Some(constraint) = constraint.get_mut::<Constraint>() else { continue };
            let default = constraint.raw_expr.clone();
            if constraint.contype == ConstrType::ConstrDefault as i32 && replace(&mut constraint.raw_expr, moment)? {
                later.push(
                    AlterTableCmd {
                        subtype: AlterTableType::AtColumnDefault as i32,
                        name: column.colname.clone(),
                        def: default,
                        behavior: DropBehavior::DropRestrict as i32,
                        ..AlterTableCmd::default()
                    }
                    .into_node(),
                );
            }
        }
    }
    let found = !later.is_empty();
    alter.cmds.append(&mut later);
    Ok(found)
}

/// The expression of a column default, likewise; `None` if it reads no clock.
pub(crate) fn expression_at(expression: &str, moment: &Moment) -> Option<String> {
    let mut node = tree::parse_expression(expression).ok()?;
    let found = replace(&mut node, moment).ok()?;
    found.then(|| tree::deparse_expression(&node).ok()).flatten()
}

/// For callers that only ask whether there is a place for one.
pub fn some_moment() -> Moment {
    let time = || "2000-01-01 00:00:00+00".to_owned();
    Moment { transaction: time(), statement: time() }
}

/// Does a view that the statement reads, perhaps a temporary one, have a place for one?
pub fn views_read_clock(statement: &Statement, catalog: &Catalog, temporary: &[Arc<Relation>]) -> bool {
    let mut seen: HashSet<Oid> = HashSet::new();
    code_reads_clock(statement, |node, code| {
        let Ref::RangeVar(name) = node else { return Ok(()) };
        let own = temporary.iter().filter(|view| view.name == name.relname);
        for view in catalog.relations_named(&name.relname).chain(own) {
            if let Some(definition) = view.view_definition.as_deref().filter(|_| seen.insert(view.oid)) {
                code.push(tree::parse_select(definition)?.into_tree());
            }
        }
        Ok(())
    })
}

/// May a function that the statement names, or one that it calls, have a body with a place for one? Such a body may be put into the statement.
pub fn bodies_read_clock(statement: &Statement, catalog: &Catalog) -> bool {
    let mut seen: HashSet<Oid> = HashSet::new();
    code_reads_clock(statement, |node, code| {
        let Ref::FuncCall(call) = node else { return Ok(()) };
        for function in catalog.functions(tree::qualified(&call.funcname).1) {
            if seen.insert(function.oid) {
                code.extend(statements_of(&function.language, &function.definition).unwrap_or_default());
            }
        }
        Ok(())
    })
}

/// Does code that the statement leads to read the clock? `add` adds what one node leads to. In doubt it does.
fn code_reads_clock(statement: &Statement, mut add: impl FnMut(Ref<'_>, &mut Vec<NodeEnum>) -> Result<()>) -> bool {
    let mut pending: Vec<Cow<'_, NodeEnum>> = statement.query_tree().map(Cow::Borrowed).into_iter().collect();
    while let Some(tree) = pending.pop() {
        let mut code = Vec::new();
        let walked = tree.walk(&mut |node| add(node, &mut code).map(|()| true));
        if walked.is_err() || code.iter().any(reads) {
            return true;
        }
        pending.extend(code.into_iter().map(Cow::Owned));
    }
    false
}

/// The statement with marks in the places of its words that get their types from where they stand (`SET at = 'now'`), for PostgreSQL to
/// analyse; `None` if there are none, or too many. Those `left` alone are something else, say a label of an enum.
pub fn with_marked_words(statement: &Statement, left: &[u32]) -> Result<Option<Statement>> {
    let is_about_rows = statement.kind.row_command().is_some() && !statement.sql.contains(COMMON);
    let Some(mut tree) = statement.node().filter(|_| is_about_rows).cloned() else { return Ok(None) };
    let words = put_for_words(&mut tree, |nth, _| {
        let mark = || tree::parse_expression(&format!("'{} {}'", mark(nth), time_mark(nth)));
        (!left.contains(&nth)).then(mark).transpose()
    })?;
    if words as usize == left.len() || words > MARKS_MAX { Ok(None) } else { statement.with_whole_tree(tree).map(Some) }
}

/// Which word's mark stands at a byte of the marked text.
pub fn word_at(marked: &str, at: usize) -> Option<u32> {
    let text = marked.get(at..)?.strip_prefix('\'')?;
    (0..MARKS_MAX).find(|nth| text.starts_with(&mark(*nth)))
}

/// All that is left of a mark as a time of day.
fn time_mark(nth: u32) -> String {
    format!("12:34:56.29{nth:03}1")
}

/// The statement with the types that PostgreSQL has given to the marks: `SET at = 'now'::timestamptz`. `None` if none is that of a date or
/// a time.
pub fn with_typed_words(statement: &Statement, marked: &Statement) -> Result<Option<Statement>> {
    let (Some(mut tree), Some(analysed)) = (statement.node().cloned(), marked.node()) else { return Ok(None) };
    // A mark that has also become something else is left alone, as one of which nothing is to be seen.
    let (mut all, mut typed) = (Vec::new(), Vec::new());
    analysed.each(|node| match node {
        Ref::TypeCast(cast) => {
            let text = cast.arg.get::<AConst>().and_then(tree::quoted);
            let of = cast.type_name.as_ref().filter(|of| of.array_bounds.is_empty());
            let is_time = |of: &&TypeName| tree::own_name(&of.names).is_some_and(|name| has_days(name).is_some());
            typed.extend(text.map(str::to_owned).zip(of.filter(is_time).cloned()));
        }
        Ref::AConst(constant) => all.extend(tree::quoted(constant).map(str::to_owned)),
        _ => {}
    })?;
    let mut found = false;
    put_for_words(&mut tree, |nth, word| {
        let (day, time) = (mark(nth), time_mark(nth));
        let mut types = typed.iter().filter(|(text, _)| text.starts_with(&day) || text.starts_with(&time));
        let count = all.iter().filter(|text| text.contains(&day) || text.contains(&time)).count();
        let Some((_, of)) = types.next().filter(|_| types.count() + 1 == count) else { return Ok(None) };
        found = true;
        let cast = TypeCast { arg: Some(Box::new(word.clone())), type_name: Some(of.clone()), location: -1 };
        Ok(Some(cast.into_node()))
    })?;
    if found { statement.with_whole_tree(tree).map(Some) } else { Ok(None) }
}

/// Number of different marks.
const MARKS_MAX: u32 = 128;

/// Puts something in the place of each word that no cast gives its type to, in their order; tells how many there are.
fn put_for_words(tree: &mut impl Walk, mut instead: impl FnMut(u32, &Node) -> Result<Option<Node>>) -> Result<u32> {
    let mut count = 0;
    tree.put(|node| match &node.node {
        Some(NodeEnum::TypeCast(cast)) if word_of(cast).is_some() => Ok(Some(node.clone())),
        Some(NodeEnum::AConst(constant)) if tree::quoted(constant).is_some_and(is_moment) => {
            count += 1;
            if count > MARKS_MAX { Ok(None) } else { instead(count - 1, node) }
        }
        _ => Ok(None),
    })?;
    Ok(count)
}

/// Puts the constants in; was there any place for one?
pub(crate) fn replace(tree: &mut impl Walk, moment: &Moment) -> Result<bool> {
    tree.put(|node| {
        if let Some(target) = node.get_mut::<ResTarget>() {
            keep_name(target);
        }
        constant(node, moment).map(|text| tree::parse_expression(&text)).transpose()
    })
}

/// Where in a tree the clock is read by a call, and what stands for it; `None` if it is read in another way too.
pub(crate) fn constants_in(expression: &(impl Walk + Clone), moment: &Moment) -> Option<Vec<(usize, String)>> {
    let (mut found, mut all) = (Vec::new(), 0);
    let mut whole = expression.clone();
    whole
        .rewrite(&mut |node: &mut Node| {
            let location = match &node.node {
                Some(NodeEnum::FuncCall(call)) if clock_of(call).is_some() => call.location,
                Some(NodeEnum::SqlvalueFunction(function)) if cast_of(function.op).is_some() => function.location,
                Some(NodeEnum::AConst(constant)) if tree::quoted(constant).is_some_and(is_moment) => -1,
                _ => return Ok(true),
            };
            all += 1;
            found.extend(usize::try_from(location).ok().zip(constant(node, moment)));
            Ok(true)
        })
        .ok()?;
    (found.len() == all).then_some(found)
}

/// Has the statement a place for such a constant? In doubt it has.
pub fn reads_clock(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::AlterTable => true,
        StatementKind::Explain(explain) => reads_clock(&explain.inner),
        StatementKind::CreateTableAs | StatementKind::Copy(_) => statement.query_tree().is_some_and(reads),
        _ => statement.node().is_some_and(reads),
    }
}

/// May the default in a column's definition read the clock?
pub(crate) fn definition_reads_clock(definition: &str) -> bool {
    let parsed = tree::parse_one(&format!("CREATE TABLE f ({definition})"));
    let Ok(Some(NodeEnum::CreateStmt(create))) = parsed else { return true };
    create.table_elts.iter().any(|column| match &column.node {
        Some(NodeEnum::ColumnDef(column)) => {
            let reads_it = |constraint: &Node| constraint.get::<Constraint>().is_none_or(|of| reads(&of.raw_expr));
            column.constraints.iter().any(reads_it)
        }
        _ => true,
    })
}

/// May an expression read the clock? In doubt it does.
pub(crate) fn expression_reads(expression: &str) -> bool {
    tree::parse_expression(expression).map_or(true, |expression| reads(&expression))
}

/// Does the default of a column, or a function that it calls, read the clock?
pub(crate) fn default_reads(ctx: &Context<'_>, default: &str) -> bool {
    let Ok(node) = tree::parse_expression(default) else { return true };
    facts(ctx, &node).map_or(true, |facts| facts.clock.is_some())
}

fn reads(tree: &impl Walk) -> bool {
    tree.may_have(|node| is_clock(node))
}

fn is_clock(node: Ref<'_>) -> bool {
    match node {
        Ref::FuncCall(call) => clock_of(call).is_some(),
        Ref::SqlvalueFunction(function) => cast_of(function.op).is_some(),
        // Its type may be said further off.
        Ref::AConst(constant) => tree::quoted(constant).is_some_and(is_moment),
        _ => false,
    }
}

/// The column of `SELECT now()` is called `now`, whatever stands there in its place.
fn keep_name(target: &mut ResTarget) {
    if target.name.is_empty() && reads(&target.val) {
        target.name = tree::output_name(target);
    }
}

fn constant(node: &Node, moment: &Moment) -> Option<String> {
    let now = &moment.transaction;
    match node.node.as_ref()? {
        NodeEnum::FuncCall(call) => {
            let time = match clock_of(call)? {
                Meaning::StatementTime => &moment.statement,
                _ => &moment.transaction,
            };
            Some(format!("'{time}'::pg_catalog.timestamptz"))
        }
        NodeEnum::SqlvalueFunction(function) => {
            let name = cast_of(function.op)?;
            let precision = if function.typmod >= 0 { format!("({})", function.typmod) } else { String::new() };
            Some(format!("('{now}'::pg_catalog.timestamptz)::pg_catalog.{name}{precision}"))
        }
        NodeEnum::TypeCast(cast) => {
            let moment = match word_of(cast)? {
                Word::Now => format!("'{now}'::pg_catalog.timestamptz"),
                Word::Day(days) => {
                    format!("('{now}'::pg_catalog.timestamptz)::pg_catalog.date OPERATOR(pg_catalog.+) ({days})")
                }
            };
            let arg = tree::parse_expression(&moment).ok()?;
            let cast = TypeCast { arg: Some(Box::new(arg)), ..(**cast).clone() };
            tree::deparse_expression(&cast.into_node()).ok()
        }
        _ => None,
    }
}

/// A time that is the same wherever a statement asks for it. Takes a bare name for one of `pg_catalog`: where it may be another, the
/// statement is to be read by PostgreSQL first.
pub(crate) fn clock_of(call: &FuncCall) -> Option<Meaning> {
    let name = tree::own_name(&call.funcname).filter(|_| call.args.is_empty());
    let meaning = name.and_then(meaning::without_arguments);
    meaning.filter(|meaning| matches!(meaning, Meaning::Now | Meaning::StatementTime))
}

/// Is it one, since nobody else's function has that name?
pub(crate) fn is_of_postgresql(call: &FuncCall, catalog: &Catalog) -> bool {
    clock_of(call).is_some() && catalog.functions(tree::qualified(&call.funcname).1).is_empty()
}

/// What PostgreSQL reads the clock for in a constant.
enum Word {
    Now,
    /// Midnight so many days from today.
    Day(i32),
}

/// `'now'::timestamptz`, `date 'today'` and the like.
fn word_of(cast: &TypeCast) -> Option<Word> {
    let text = text_in(cast.arg.as_deref()?)?;
    let of = cast.type_name.as_ref().filter(|of| of.array_bounds.is_empty())?;
    let has_day = has_days(tree::last_name(&of.names)?)?;
    match text.trim().to_ascii_lowercase().as_str() {
        "now" => Some(Word::Now),
        "yesterday" if has_day => Some(Word::Day(-1)),
        "today" if has_day => Some(Word::Day(0)),
        "tomorrow" if has_day => Some(Word::Day(1)),
        _ => None,
    }
}

/// Is it a type of points in time, and one that knows days?
fn has_days(name: &str) -> Option<bool> {
    match name {
        "timestamptz" | "timestamp" | "date" => Some(true),
        "timetz" | "time" => Some(false),
        _ => None,
    }
}

/// A quoted constant, perhaps as a text.
fn text_in(node: &Node) -> Option<&str> {
    match node.node.as_ref()? {
        NodeEnum::AConst(constant) => tree::quoted(constant),
        NodeEnum::TypeCast(cast) => {
            let of = cast.type_name.as_ref().filter(|of| of.array_bounds.is_empty() && of.typmods.is_empty())?;
            ["text", "varchar"].contains(&tree::qualified(&of.names).1).then(|| text_in(cast.arg.as_deref()?))?
        }
        _ => None,
    }
}

/// The type of a `CURRENT_…` value; `None` for CURRENT_USER and the like.
pub(crate) fn cast_of(op: i32) -> Option<&'static str> {
    Some(match Op::try_from(op).ok()? {
        Op::SvfopCurrentDate => "date",
        Op::SvfopCurrentTime | Op::SvfopCurrentTimeN => "timetz",
        Op::SvfopCurrentTimestamp | Op::SvfopCurrentTimestampN => "timestamptz",
        Op::SvfopLocaltime | Op::SvfopLocaltimeN => "time",
        Op::SvfopLocaltimestamp | Op::SvfopLocaltimestampN => "timestamp",
        _ => return None,
    })
}

impl Plan {
    /// May a default that the home node evaluates read the clock?
    pub fn default_reads_clock(&self) -> bool {
        let reads_clock = |definitions: &[String]| definitions.iter().any(|column| definition_reads_clock(column));
        match self.change() {
            Plan::InsertStaged(insert) => reads_clock(&insert.stage.definitions),
            Plan::StagedDml(change) => reads_clock(&change.definitions),
            Plan::CopyFrom(copy) => copy.stage.as_ref().is_some_and(|stage| reads_clock(&stage.definitions)),
            Plan::SequencedCtes(parts) => parts.steps.iter().any(|step| step.plan.default_reads_clock()),
            _ => false,
        }
    }
}
