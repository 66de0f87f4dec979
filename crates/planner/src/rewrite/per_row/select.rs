//! A query whose calls are taken out, in rounds: those in FROM, those that say which rows there are (WHERE, GROUP BY, arguments of
//! aggregates, DISTINCT, ORDER BY), those of HAVING, and those of the select list, which PostgreSQL makes last.
//!
//! ```text
//! SELECT f(x) FROM t WHERE g(y) ORDER BY z LIMIT 3
//!   first   rows  SELECT y, x, z FROM t             each  g(y)    then  SELECT f(x) FROM … WHERE g ORDER BY z LIMIT 3
//!   second  rows  SELECT x FROM … WHERE g ORDER BY z LIMIT 3      each  f(x)    then  SELECT f FROM …
//! ```

use pg_query::protobuf::{self, FuncCall, ResTarget, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::Result;

use super::expression::Place;
use super::slots::{Draft, rows_item};
use super::{effects, from, having, join};
use crate::facts::functions::function_facts;
use crate::select::shape;
use crate::tree::{self, Get, Walk, and_then, enough};

/// The query that gives the rows, and the one over them; `None` if there are no calls to take out, or not so.
pub(super) fn split(draft: &mut Draft<'_>, query: &SelectStmt) -> Result<Option<(SelectStmt, SelectStmt)>> {
    let is_plain = !tree::is_operation(query)
        && query.values_lists.is_empty()
        && query.into_clause.is_none()
        && !draft.calls_in(&query.with_clause)?
        && !draft.calls_in(&query.limit_count)?
        && !draft.calls_in(&query.limit_offset)?;
    if !is_plain || !draft.calls_in(query)? {
        return Ok(None);
    }
    let mut query = query.clone();
    query.target_list.iter_mut().for_each(tree::name_output);
    join::by_where(draft, &mut query)?;
    draft.know_tables(&query.from_clause)?;
    if let Some(split) = from::split(draft, &query)? {
        draft.fails |= effects::meet(draft.ctx, &draft.functions, &draft.functions_in(&split.1)?)?;
        return Ok(Some(split));
    }
    if draft.calls_in(&query.from_clause)? {
        return Ok(None);
    }
    // How often equal ones are called counts if calls do.
    let is_sorted = !query.sort_clause.is_empty() || !query.distinct_clause.is_empty();
    draft.fails |= shape::merges_sets(draft.ctx, &query.target_list, is_sorted)?
        && crate::try_any(draft.functions_in(&query.target_list)?, |function| {
            Ok(function_facts(draft.ctx, function)?.differs_each_time()
                || effects::change_rows(draft.ctx, &[function])?)
        })?;
    let level = Level::of(draft, &query)?;
    let split = match level.has_early_calls {
        true => level.early(draft, &query)?,
        false if draft.calls_in(&query.having_clause)? => having::split(draft, &query)?,
        false => level.late(draft, &query)?,
    };
    // Whether all rows are there before the first group is, or window, is the plan's to say.
    if !query.group_clause.is_empty() || level.has_windows {
        draft.fails |= effects::meet(draft.ctx, &draft.functions, &draft.functions_in(&split.1)?)?;
    }
    // A round that takes nothing out would be followed by the same again.
    Ok((!draft.calls.is_empty()).then_some(split))
}

pub(super) fn value_mut(target: &mut Node) -> Option<&mut Node> {
    target.get_mut::<ResTarget>().and_then(|target| target.val.as_deref_mut())
}

/// What kind of query it is.
struct Level {
    is_grouped: bool,
    has_windows: bool,
    has_early_calls: bool,
    /// Rows come, and calls are made, one after the other.
    streams: bool,
}

/// The conditions without calls, those with them, each over the slots of its own, and all of the latter as one: a call of the next is
/// made only where those before it are true.
pub(super) fn conditions(
    draft: &mut Draft<'_>,
    whole: Option<&Node>,
    group: &[Node],
) -> Result<(Vec<Node>, Vec<Node>, Option<Node>)> {
    let (early, late) = split_conditions(draft, whole)?;
    let (mut kept, mut when) = (Vec::new(), None::<Node>);
    let known = draft.calls.len();
    draft.in_conditions = true;
    for condition in &late {
        let place = Place { group, when: when.as_ref(), only_columns: when.is_some() };
        let condition = draft.part(condition, place)?;
        when = Some(and_then(when, condition.clone()));
        kept.push(condition);
    }
    draft.in_conditions = false;
    // For which rows it comes to a sub-select, and whether before it looks for rows, is its plan's.
    draft.fails |= draft.calls.iter().skip(known).any(|call| call.once);
    Ok((early, kept, when))
}

impl Level {
    fn of(draft: &Draft<'_>, query: &SelectStmt) -> Result<Self> {
        let is_grouped = shape::is_aggregated(draft.ctx, query)?;
        let has_windows = !shape::windows(query)?.is_empty();
        let is_distinct = !query.distinct_clause.is_empty();
        let mut has_early_calls = draft.calls_in(&query.where_clause)?
            || draft.calls_in(&query.group_clause)?
            || draft.calls_in(&query.sort_clause)?
            || draft.calls_in(&query.window_clause)?
            || draft.calls_in(&query.distinct_clause)?
            || (is_distinct && !tree::has_distinct_on(query) && draft.calls_in(&query.target_list)?);
        shape::walk_level(query, &mut |node| {
            if let tree::Ref::FuncCall(call) = node
                && (call.over.is_some() || shape::is_aggregate(draft.ctx, call))
            {
                has_early_calls = has_early_calls || calls_below(draft, call).unwrap_or(true);
            }
        })?;
        let streams = !is_grouped && !has_windows && !is_distinct && query.sort_clause.is_empty();
        Ok(Self { is_grouped, has_windows, has_early_calls, streams })
    }

    /// Only the select list has calls.
    fn late(&self, draft: &mut Draft<'_>, query: &SelectStmt) -> Result<(SelectStmt, SelectStmt)> {
        let group = query.group_clause.clone();
        let place = Place { group: &group, when: None, only_columns: false };
        let mut rest = SelectStmt { from_clause: vec![rows_item()], ..tree::empty_select() };
        for target in &query.target_list {
            let mut target = target.clone();
            if let Some(value) = value_mut(&mut target) {
                draft.at_target = draft.is_call(value)?;
                *value = draft.part(value, place)?;
            }
            rest.target_list.push(target);
        }
        draft.fails |= draft.multiplies(false)?;
        let mut rows = SelectStmt { target_list: draft.targets(), ..query.clone() };
        let has_sets = draft.calls.iter().any(|call| call.is_set);
        if has_sets {
            // LIMIT counts the rows of the sets.
            rest.limit_count = rows.limit_count.take();
            rest.limit_offset = rows.limit_offset.take();
            rest.limit_option = rows.limit_option;
            rows.limit_option = tree::empty_select().limit_option;
            draft.fails |= rest.limit_option == protobuf::LimitOption::WithTies as i32;
        } else if rows.limit_offset.is_some() {
            skip_later(draft, &mut rows, &mut rest)?;
        }
        Ok((rows, rest))
    }

    /// The calls that say which rows there are; in a plain query those of the select list too, row by row.
    fn early(&self, draft: &mut Draft<'_>, query: &SelectStmt) -> Result<(SelectStmt, SelectStmt)> {
        let mut rest = SelectStmt { with_clause: None, from_clause: vec![rows_item()], ..query.clone() };
        let (early, kept, when) = conditions(draft, query.where_clause.as_deref(), &[])?;
        rest.where_clause = tree::conjunction(kept).map(Box::new);
        draft.fails |= !query.locking_clause.is_empty();
        rest.locking_clause = Vec::new();
        let mut over = Over { when: when.as_ref(), known: Vec::new() };
        let is_distinct = !query.distinct_clause.is_empty() && !tree::has_distinct_on(query);
        for item in rest.group_clause.iter_mut().chain(&mut rest.distinct_clause) {
            over.whole(draft, item)?;
        }
        if !self.is_grouped && !self.has_windows {
            for item in &mut rest.sort_clause {
                tree::sorted_mut(item).map_or(Ok(()), |value| over.whole(draft, value))?;
            }
        }
        for target in &mut rest.target_list {
            let Some(value) = value_mut(target) else { continue };
            if self.streams || is_distinct && !self.is_grouped && query.sort_clause.is_empty() {
                // Nothing is sorted: PostgreSQL makes the calls of each output column.
                over.known.clear();
                draft.at_target = draft.is_call(value)?;
            }
            match self.streams || is_distinct {
                true if !self.is_grouped => over.whole(draft, value)?,
                _ => over.within(draft, value)?,
            }
        }
        over.within(draft, &mut rest.having_clause)?;
        over.within(draft, &mut rest.window_clause)?;
        if self.is_grouped || self.has_windows {
            over.within(draft, &mut rest.sort_clause)?;
        }
        if self.streams && rest.limit_count.is_some() && !draft.calls.iter().any(|call| call.is_set) {
            draft.enough = Some((when.clone(), enough(&rest)?));
        }
        draft.fails |= draft.multiplies(when.is_some())?;
        let rows = SelectStmt {
            with_clause: query.with_clause.clone(),
            target_list: draft.targets(),
            from_clause: query.from_clause.clone(),
            where_clause: tree::conjunction(early).map(Box::new),
            ..tree::empty_select()
        };
        Ok((rows, rest))
    }
}

/// PostgreSQL makes the calls for rows that OFFSET leaves out too.
fn skip_later(draft: &mut Draft<'_>, rows: &mut SelectStmt, rest: &mut SelectStmt) -> Result<()> {
    draft.fails |= rows.limit_option == protobuf::LimitOption::WithTies as i32;
    if rows.limit_count.is_some() {
        rows.limit_count = Some(Box::new(enough(rows)?));
    }
    rest.limit_offset = rows.limit_offset.take();
    rest.limit_option = protobuf::LimitOption::Count as i32;
    Ok(())
}

/// The conditions without calls, and those with them: PostgreSQL makes the dear ones last.
pub(super) fn split_conditions(draft: &Draft<'_>, condition: Option<&Node>) -> Result<(Vec<Node>, Vec<Node>)> {
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for condition in tree::conjuncts(condition) {
        match draft.calls_in(condition)? {
            false => early.push(condition.clone()),
            true => late.push(condition.clone()),
        }
    }
    Ok((early, late))
}

fn calls_below(draft: &Draft<'_>, call: &FuncCall) -> Result<bool> {
    Ok(draft.calls_in(&call.args)?
        || draft.calls_in(&call.agg_order)?
        || draft.calls_in(&call.agg_filter)?
        || draft.calls_in(&call.over)?)
}

/// Puts slots into the parts of a query that is computed over the rows.
struct Over<'w> {
    /// WHERE, if it has calls.
    when: Option<&'w Node>,
    /// Expressions that are computed once, and what they have become.
    known: Vec<(Node, Node)>,
}

impl Over<'_> {
    /// An expression that is computed for each row that WHERE lets through. One that is there already is not computed again.
    fn whole(&mut self, draft: &mut Draft<'_>, value: &mut Node) -> Result<()> {
        if let Some((_, made)) = self.known.iter().find(|(known, _)| tree::same_expression(known, value)) {
            *value = made.clone();
            return Ok(());
        }
        if shape::ordinal(value).is_some() {
            return Ok(());
        }
        let place = Place { group: &[], when: self.when, only_columns: self.when.is_some() };
        let made = draft.part(value, place)?;
        self.known.push((std::mem::replace(value, made.clone()), made));
        Ok(())
    }

    /// What is computed of groups, or after windows: arguments of aggregates are whole, all else is left as it is.
    fn within(&mut self, draft: &mut Draft<'_>, tree: &mut impl Walk) -> Result<()> {
        tree.rewrite(&mut |node| {
            if let Some((_, made)) = self.known.iter().find(|(known, _)| tree::same_expression(known, node)) {
                *node = made.clone();
                return Ok(false);
            }
            match &mut node.node {
                Some(NodeEnum::FuncCall(call)) if call.over.is_some() || shape::is_aggregate(draft.ctx, call) => {
                    self.aggregate(draft, call)?;
                    Ok(false)
                }
                Some(NodeEnum::ColumnRef(_)) => {
                    let value = node.clone();
                    *node = draft.column(&value);
                    Ok(false)
                }
                Some(NodeEnum::SubLink(_)) => {
                    draft.fails = true;
                    Ok(false)
                }
                _ => Ok(true),
            }
        })
    }

    fn aggregate(&mut self, draft: &mut Draft<'_>, call: &mut FuncCall) -> Result<()> {
        let filter = match call.agg_filter.as_deref_mut() {
            Some(filter) => {
                let place = Place { group: &[], when: self.when, only_columns: self.when.is_some() };
                *filter = draft.part(filter, place)?;
                Some(and_then(self.when.cloned(), filter.clone()))
            }
            None => self.when.cloned(),
        };
        let place = Place { group: &[], when: filter.as_ref(), only_columns: filter.is_some() };
        for argument in &mut call.args {
            *argument = draft.part(argument, place)?;
        }
        for item in &mut call.agg_order {
            if let Some(value) = tree::sorted_mut(item) {
                *value = draft.part(value, place)?;
            }
        }
        call.over.as_deref_mut().map_or(Ok(()), |over| self.within(draft, over))
    }
}
