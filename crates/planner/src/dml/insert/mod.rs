//! INSERT: to one node, split by key, node by node, or by way of a stage table on the home node.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::{Column, Distribution, KeyColumn, NodeId, Oid, Relation};
use pg_query::protobuf::{InsertStmt, List, OverridingKind, SelectStmt};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};
use placement::KeyType;

use super::{Target, check_same_everywhere, is_replicated, row_parts, stage};
use crate::context::{Context, Named};
use crate::facts::clock::default_reads;
use crate::facts::constant::{self, Constant};
use crate::facts::{Facts, functions::facts};
use crate::parse::Statement;
use crate::plan::{Clauses, FinalSql, Forward, Gather, Input, InsertSplit, Plan, Replicate, Scatter};
use crate::select;
use crate::select::locality::{Analyzer, Env, RowDistribution};
use crate::tree::{self, Ask, Get, Syntax};
use crate::views;

mod overriding;
mod staged;
pub(in crate::dml) mod tail;
mod values;

/// Plans an INSERT.
pub(crate) fn insert(ctx: &Context<'_>, statement: &Statement) -> Result<Plan> {
    let tree = &*views::over_tables(ctx, statement)?;
    let NodeEnum::InsertStmt(insert) = tree else { return Err(PgError::internal("not an INSERT")) };
    let insert = with_pulled_down(insert)?;
    let facts = facts(ctx, insert.as_ref())?;
    let Some(name) = &insert.relation else { return Err(PgError::internal("INSERT without a target")) };
    let relation = match crate::dml::target(ctx, name, &facts)? {
        Target::Home => return into_home(ctx, statement, &insert, &facts),
        Target::Table(relation) => relation,
    };
    Insert { ctx, statement, insert: &insert, relation, facts }.plan()
}

/// Where an INSERT that is a part of another statement runs, if it can where its source is.
pub(crate) fn place_of_insert(
    ctx: &Context<'_>,
    statement: &Statement,
    env: &Env<'_>,
) -> Result<Option<RowDistribution>> {
    let Some(NodeEnum::InsertStmt(insert)) = statement.node() else { return Ok(None) };
    let insert = with_pulled_down(insert)?;
    let facts = facts(ctx, insert.as_ref())?;
    let Some(name) = &insert.relation else { return Ok(None) };
    let Target::Table(relation) = crate::dml::target(ctx, name, &facts)? else { return Ok(None) };
    let insert = Insert { ctx, statement, insert: &insert, relation, facts };
    insert.check()?;
    if insert.needs_home() || is_replicated(&insert.relation) {
        return Ok(None);
    }
    if let Some(rows) = insert.rows() {
        let one = |nodes: Vec<NodeId>| nodes.windows(2).all(|pair| pair[0] == pair[1]).then(|| nodes[..1].to_vec());
        let nodes = insert.nodes_of_rows(&rows).filter(|nodes| insert.is_one_moment(nodes)).and_then(one);
        return Ok(nodes.map(RowDistribution::Replicated));
    }
    if insert.is_colocated(env)? { insert.source(env) } else { Ok(None) }
}

/// `WITH … INSERT … SELECT` means the same as `INSERT … WITH … SELECT` as long as only the query reads the WITH items. The tree of an
/// INSERT of many rows is large, so it is not copied if it has no WITH.
fn with_pulled_down(insert: &InsertStmt) -> Result<Cow<'_, InsertStmt>> {
    if insert.with_clause.is_none() {
        return Ok(Cow::Borrowed(insert));
    }
    let mut insert = insert.clone();
    let with = insert.with_clause.take();
    match insert.select_stmt.as_deref_mut().and_then(|n| n.node.as_mut()) {
        Some(NodeEnum::SelectStmt(select)) if select.with_clause.is_none() => {
            select.with_clause = with;
            Ok(Cow::Owned(insert))
        }
        _ => {
            Err(PgError::unsupported("INSERT with two WITH clauses or none to its query")
                .hint("Write one WITH clause."))
        }
    }
}

/// A table that only the home node has, e.g. a temp table.
fn into_home(ctx: &Context<'_>, statement: &Statement, insert: &InsertStmt, facts: &Facts) -> Result<Plan> {
    let node = ctx.home();
    let forward = || Plan::Forward(Forward::of(statement, vec![node], true));
    // A temporary table is where the statement is finished, so what its clauses read can come there with the rest.
    if !facts.modifying_cte && tail::reads_elsewhere(ctx, insert, node)? {
        let tree = insert.clone().into_tree();
        let gather = crate::select::fallback(ctx, &tree, facts, "ON CONFLICT or RETURNING reads other nodes")?;
        return Ok(Plan::Gather(Gather { writes: true, ..gather }));
    }
    let Some(query) = insert.select_stmt.as_deref().and_then(|n| n.node.as_ref()) else { return Ok(forward()) };
    let is_home = |part: &RowDistribution| match part {
        RowDistribution::Any | RowDistribution::Home => true,
        RowDistribution::Replicated(nodes) => nodes.contains(&node),
        RowDistribution::Partitioned(_) => false,
    };
    if let NodeEnum::SelectStmt(select) = query
        && let Ok(block) = Analyzer::new(ctx).block(select, &Env::default())
        && is_home(&block.part)
        && facts.has_what_functions_read(node)
        && ctx.copies.is_none()
    {
        return Ok(forward());
    }
    if facts.modifying_cte {
        return Err(PgError::unsupported("a data-modifying WITH").hint("Run the data changes one by one."));
    }
    let mut rewritten = insert.clone();
    let (inputs, types) = match is_list(insert) {
        true => values::compute_apart(ctx, &mut rewritten, !facts.has_what_functions_read(node))?,
        false => {
            let (inputs, source) = source(ctx, insert, query, false)?;
            rewritten.select_stmt = tree::parse_select(&source.text)?.into_box();
            (inputs, source.types)
        }
    };
    let final_sql = FinalSql { text: tree::deparse(&rewritten.into_tree())?, types };
    Ok(Plan::Gather(Gather { writes: true, ..Gather::new(node, inputs, final_sql) }))
}

/// Is it a list of VALUES and nothing more? Then each value may be DEFAULT, and has a type of its own.
fn is_list(insert: &InsertStmt) -> bool {
    insert
        .select_stmt
        .get::<SelectStmt>()
        .is_some_and(|query| !query.values_lists.is_empty() && query.with_clause.is_none() && !tree::is_ordered(query))
}

/// What an INSERT over rows of several nodes reads on the home node. A `ROW(…)` in VALUES has the type of its column only where it is
/// assigned to that, so such rows are not made elsewhere.
fn source(ctx: &Context<'_>, insert: &InsertStmt, query: &NodeEnum, straight: bool) -> Result<(Vec<Input>, FinalSql)> {
    // WITH stood before INSERT, so each value has a type of its own.
    if let NodeEnum::SelectStmt(list) = query
        && list.with_clause.is_some()
        && (list.values_lists.len() > 1 || list.values_lists.iter().any(has_default))
    {
        return Err(PgError::unsupported(
            "WITH and VALUES of several rows, or with DEFAULT, that need other nodes' rows",
        )
        .hint("Insert the rows one by one, or write INSERT … SELECT."));
    }
    match row_parts::has_records(insert) {
        true => select::copied(ctx, query).map(|gather| (gather.inputs, gather.final_sql)),
        false => select::source_of_insert(ctx, query, straight),
    }
}

/// Where the rows of a query are; `None` if it is not local.
fn place_of(ctx: &Context<'_>, query: &SelectStmt, env: &Env<'_>) -> Result<Option<RowDistribution>> {
    match Analyzer::new(ctx).block(query, env) {
        Ok(block) => Ok(Some(block.part)),
        Err(select::locality::Not::Local(_)) => Ok(None),
        Err(select::locality::Not::Refused(error)) => Err(error),
    }
}

/// Can each of the nodes give all rows of a query?
fn is_whole(ctx: &Context<'_>, query: &SelectStmt, nodes: &[NodeId]) -> Result<bool> {
    Ok(match place_of(ctx, query, &Env::default())? {
        Some(RowDistribution::Any) => true,
        Some(RowDistribution::Replicated(whole)) => nodes.iter().all(|node| whole.contains(node)),
        Some(RowDistribution::Home | RowDistribution::Partitioned(_)) | None => false,
    })
}

pub(crate) struct Insert<'a> {
    pub(crate) ctx: &'a Context<'a>,
    pub(crate) statement: &'a Statement,
    pub(crate) insert: &'a InsertStmt,
    pub(crate) relation: Arc<Relation>,
    facts: Facts,
}

/// Markers of a [`FinalSql`].
type Markers = Vec<(usize, usize)>;

impl<'a> Insert<'a> {
    /// An INSERT into a distributed table; `None` if its target is something else, or refused.
    pub(crate) fn of_table(
        ctx: &'a Context<'a>,
        statement: &'a Statement,
        insert: &'a InsertStmt,
    ) -> Result<Option<Self>> {
        let Some(Named::Distributed(relation)) = insert.relation.as_ref().map(|name| ctx.resolve(name)).transpose()?
        else {
            return Ok(None);
        };
        let facts = facts(ctx, insert)?;
        Ok(facts.refused.is_none().then_some(Self { ctx, statement, insert, relation, facts }))
    }
}

impl Insert<'_> {
    fn plan(self) -> Result<Plan> {
        self.check()?;
        if self.is_ragged() {
            // Any node says what is wrong with it.
            return Ok(Plan::Forward(Forward::of(self.statement, vec![self.ctx.home()], true)));
        }
        if self.ctx.copies.is_some() || self.needs_home() {
            return self.staged();
        }
        match &self.relation.distribution {
            Distribution::Replicated { .. } => self.replicated(),
            Distribution::RoundRobin { .. } => self.round_robin(),
            _ => self.keyed(),
        }
    }

    fn check(&self) -> Result<()> {
        tail::check_key(self.ctx, self.insert, &self.relation)?;
        tail::check_sub_selects(self.ctx, self.insert, &self.relation)?;
        tail::check_home(self.ctx, self.insert, &self.relation)?;
        if let Some(conflict) = self.insert.on_conflict_clause.as_ref().filter(|_| is_replicated(&self.relation)) {
            check_same_everywhere(&facts(self.ctx, conflict)?, &self.relation.name)?;
        }
        Ok(())
    }

    /// Something only the home node may evaluate: sequences, catalog look-ups, defaults that are not the same everywhere.
    pub(crate) fn needs_home(&self) -> bool {
        !self.needs_only_defaults() || !self.unsafe_columns().is_empty()
    }

    /// Is there nothing for the home node but defaults?
    pub(crate) fn needs_only_defaults(&self) -> bool {
        self.facts.home.is_none() && self.overridden().is_empty()
    }

    /// Columns with defaults that only the home node may evaluate, where the statement uses them.
    pub(crate) fn unsafe_columns(&self) -> Vec<&Column> {
        let given = self.given_columns();
        let replicated = is_replicated(&self.relation);
        let is_safe = |column: &Column| {
            !column.generated.is_identity()
                && match &column.default {
                    None => true,
                    Some(text) if replicated => self.constant_default(text).is_some(),
                    Some(_) => column.default_is_stable,
                }
        };
        let rows = self.rows().unwrap_or_default();
        let is_used = |column: &&Column| match given.iter().position(|name| *name == column.name) {
            None => true,
            Some(at) => rows.iter().any(|row| row.get(at).is_some_and(tree::is_default)),
        };
        let stored = stage::stored_columns(&self.relation).into_iter();
        stored.filter(is_used).filter(|column| !is_safe(column)).collect()
    }

    /// The columns of bare rows of values.
    pub(crate) fn known_columns(&self) -> Option<Vec<String>> {
        self.rows()?;
        Some(self.given_columns().into_iter().map(str::to_owned).collect())
    }

    /// The columns that the statement gives values for, in order.
    fn given_columns(&self) -> Vec<&str> {
        let Some(query) = self.insert.select_stmt.get::<SelectStmt>() else { return Vec::new() };
        if !self.insert.cols.is_empty() {
            return self.insert.cols.iter().filter_map(tree::name_of).collect();
        }
        let all = self.relation.columns.iter().map(|c| c.name.as_str());
        all.take(tree::width(query).unwrap_or(usize::MAX)).collect()
    }

    /// The identity columns whose given values OVERRIDING USER VALUE ignores.
    fn overridden(&self) -> Vec<&Column> {
        if self.insert.r#override != OverridingKind::OverridingUserValue as i32 {
            return Vec::new();
        }
        let given = self.given_columns().into_iter().filter_map(|name| self.relation.column(name));
        given.filter(|column| column.generated.is_identity()).collect()
    }

    /// The rows of a bare VALUES list.
    fn rows(&self) -> Option<Vec<&[Node]>> {
        let query = self.insert.select_stmt.get::<SelectStmt>().filter(|_| is_list(self.insert))?;
        query.values_lists.iter().map(|row| row.get::<List>().map(|row| row.items.as_slice())).collect()
    }

    /// Is there a DEFAULT in them?
    fn has_defaults(&self) -> bool {
        self.rows().into_iter().flatten().flatten().any(tree::is_default)
    }

    /// Rows of different lengths, which PostgreSQL refuses.
    pub(crate) fn is_ragged(&self) -> bool {
        self.rows().is_some_and(|rows| rows.windows(2).any(|pair| pair[0].len() != pair[1].len()))
    }

    fn constant_default(&self, text: &str) -> Option<Constant> {
        let node = tree::parse_expression(text).ok()?;
        let facts = facts(self.ctx, &node).ok()?;
        if facts.clock.is_some() { None } else { Constant::of(&node, self.ctx) }
    }

    fn replicated(self) -> Result<Plan> {
        let nodes = self.ctx.primary_first(self.relation.distribution.nodes());
        let same = self.facts.volatile.is_none() && self.facts.clock.is_none() && self.facts.order_sensitive.is_none();
        // A query may give each copy another order of rows or, over floats, other last digits: evaluate it once.
        let is_alike = !is_replicated(&self.relation) || same && self.rows().is_some();
        match is_alike && self.source_is_on(&nodes)? {
            true => Ok(Plan::Replicate(Replicate::of(self.statement, nodes))),
            false => self.staged(),
        }
    }

    /// Can each of the nodes evaluate the source completely?
    fn source_is_on(&self, nodes: &[NodeId]) -> Result<bool> {
        let Some(query) = self.insert.select_stmt.get::<SelectStmt>() else { return Ok(true) };
        let is_whole = is_whole(self.ctx, query, nodes)?;
        Ok(is_whole && nodes.iter().all(|node| self.facts.has_what_functions_read(*node)))
    }

    fn round_robin(self) -> Result<Plan> {
        let mut nodes = self.relation.distribution.nodes();
        if self.source_is_on(&nodes)? {
            if let Some(clock) = self.ctx.session.clock.filter(|_| self.default_reads_clock()) {
                if !nodes.contains(&clock) {
                    return self.staged();
                }
                nodes = vec![clock];
            }
            return Ok(Plan::Forward(Forward::of(self.statement, nodes, true)));
        }
        // Rows that nodes compute on their own may stay where they are.
        if let Some(RowDistribution::Partitioned(split)) = self.source(&Env::default())?
            && split.nodes.iter().all(|n| nodes.contains(n))
            && self.facts.volatile.is_none()
            && self.is_one_moment(&split.nodes)
        {
            return Ok(Plan::Scatter(Scatter::of(self.statement, split.nodes, true)));
        }
        self.staged()
    }

    /// Where the rows of the query can be computed; `None` if they must be gathered.
    fn source(&self, env: &Env<'_>) -> Result<Option<RowDistribution>> {
        self.insert.select_stmt.get().map_or(Ok(None), |query| place_of(self.ctx, query, env))
    }

    fn keyed(self) -> Result<Plan> {
        if let Some(rows) = self.rows() {
            let nodes = self.nodes_of_rows(&rows);
            self.ctx.session.stop.check()?;
            return match nodes {
                Some(nodes) if self.is_one_moment(&nodes) => self.routed(&nodes),
                _ => self.staged(),
            };
        }
        if !self.is_colocated(&Env::default())? {
            return self.staged();
        }
        match self.source(&Env::default())? {
            Some(RowDistribution::Partitioned(split)) if self.is_one_moment(&split.nodes) => {
                Ok(Plan::Scatter(Scatter::of(self.statement, split.nodes, true)))
            }
            // The source's key is a constant, so it has rows on this node only.
            Some(RowDistribution::Replicated(nodes)) if nodes.len() == 1 && self.is_one_moment(&nodes) => {
                Ok(Plan::Forward(Forward::of(self.statement, nodes, true)))
            }
            _ => self.staged(),
        }
    }

    /// Do all rows get the same `now()`? Each node has its own; one node, or none asked, is fine.
    fn is_one_moment(&self, nodes: &[NodeId]) -> bool {
        let by_default = self.default_reads_clock();
        // Other statements of the transaction go to other nodes: one node gives all of them its time.
        if by_default && self.ctx.session.in_transaction {
            return nodes.iter().all(|node| *node == nodes[0] && self.ctx.session.clock.is_none_or(|c| c == *node));
        }
        nodes.windows(2).all(|pair| pair[0] == pair[1]) || !(self.facts.clock.is_some() || by_default)
    }

    /// Does a column get a default that reads the clock?
    fn default_reads_clock(&self) -> bool {
        let given = self.given_columns();
        let uses_default = self.has_defaults();
        let by_default = |column: &Column| {
            (uses_default || !given.contains(&column.name.as_str()))
                && column.default.as_ref().is_some_and(|text| default_reads(self.ctx, text))
        };
        self.relation.columns.iter().any(by_default)
    }

    /// Does every row of the source stay on its node, because the target's key gets the source's key?
    fn is_colocated(&self, env: &Env<'_>) -> Result<bool> {
        if self.facts.volatile.is_some() {
            return Ok(false);
        }
        let Some(query) = self.insert.select_stmt.get::<SelectStmt>() else { return Ok(false) };
        let given = self.given_columns();
        let mut positions = Vec::new();
        for key in self.relation.distribution.key() {
            let Some(column) = self.relation.column_at(key.number) else { return Ok(false) };
            let Some(position) = given.iter().position(|g| *g == column.name) else { return Ok(false) };
            // Assignment to varchar(n), numeric(p, s), … may change the value.
            if self.ctx.catalog.value_type(column.type_oid, column.type_modifier).1 != -1 {
                return Ok(false);
            }
            positions.push(position);
        }
        let Ok(block) = Analyzer::of_all_nodes(self.ctx).block(query, env) else { return Ok(false) };
        let RowDistribution::Partitioned(split) = &block.part else { return Ok(false) };
        let same_type = |position: &usize, key_type: KeyType| {
            let source = block.columns.as_ref().and_then(|c| c.get(*position)).and_then(|c| c.key_type);
            source.is_some_and(|s| {
                s == key_type || (s.hash_class() == KeyType::Int8 && key_type.hash_class() == KeyType::Int8)
            })
        };
        let types = self.relation.distribution.key().iter().zip(&positions).all(|(k, p)| same_type(p, k.key_type));
        Ok(types && split.has_key_at(&positions) && split.is_in_space_of(&self.relation.distribution))
    }

    /// The node of every row, if all keys are known.
    fn nodes_of_rows(&self, rows: &[&[Node]]) -> Option<Vec<NodeId>> {
        let given = self.given_columns();
        let place = |of: &KeyColumn| {
            let column = self.relation.column_at(of.number)?;
            Some((column, given.iter().position(|name| *name == column.name)))
        };
        let key: Vec<(&Column, Option<usize>)> =
            self.relation.distribution.key().iter().map(place).collect::<Option<_>>()?;
        let has_links = rows.iter().copied().flatten().any(|value| value.has_sub_select().unwrap_or(true));
        if has_links || self.facts.function_nodes.is_some() {
            return None;
        }
        let node = |row: &&[Node]| {
            self.ctx.session.stop.check().ok()?;
            self.node_of_row(row, &key)
        };
        rows.iter().map(node).collect()
    }

    fn node_of_row(&self, row: &[Node], key: &[(&Column, Option<usize>)]) -> Option<NodeId> {
        let mut values = Vec::with_capacity(key.len());
        for (column, position) in key {
            let given = position.and_then(|at| row.get(at)).filter(|value| !tree::is_default(value));
            let value = match (given, &column.default) {
                (Some(value), _) => Constant::of(value, self.ctx)?,
                (None, Some(text)) => self.constant_default(text)?,
                (None, None) => Constant::Null,
            };
            if !fits(&value, self.ctx.catalog.value_type(column.type_oid, column.type_modifier)) {
                return None;
            }
            values.push(value);
        }
        let values: Vec<&Constant> = values.iter().collect();
        constant::node_of_row(&self.relation.distribution, &values)
    }

    /// All rows have a node: one node gets the user's text, several get their rows.
    fn routed(&self, nodes: &[NodeId]) -> Result<Plan> {
        let mut by_node: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (row, node) in nodes.iter().enumerate() {
            by_node.entry(*node).or_default().push(row);
        }
        if let [(node, _)] = by_node.iter().collect::<Vec<_>>().as_slice() {
            return Ok(Plan::Forward(Forward::of(self.statement, vec![**node], true)));
        }
        let Some(query) = self.insert.select_stmt.get::<SelectStmt>() else {
            return Err(PgError::internal("VALUES without rows"));
        };
        let (mut parts, mut places) = (Vec::new(), Vec::new());
        for (node, rows) in by_node {
            self.ctx.session.stop.check()?;
            // Nothing but these rows is copied: see `rows` for what the query is beside them.
            let values_lists = rows.iter().map(|row| query.values_lists[*row].clone()).collect();
            let values = SelectStmt { values_lists, ..tree::empty_select() };
            let part = InsertStmt {
                relation: self.insert.relation.clone(),
                cols: self.insert.cols.clone(),
                select_stmt: values.into_box(),
                on_conflict_clause: self.insert.on_conflict_clause.clone(),
                returning_clause: self.insert.returning_clause.clone(),
                with_clause: self.insert.with_clause.clone(),
                r#override: self.insert.r#override,
            };
            parts.push((node, tree::deparse(&part.into_tree())?));
            places.push(rows.into_iter().map(|row| row as u64).collect());
        }
        Ok(Plan::InsertSplit(InsertSplit {
            parts,
            places,
            clauses: Clauses::of(self.insert),
            is_snapshot_independent: false,
        }))
    }
}

fn has_default(row: &Node) -> bool {
    row.get::<List>().is_some_and(|row| row.items.iter().any(tree::is_default))
}

/// Does a column whose values are of this type with this modifier surely keep the value as it is?
fn fits(value: &Constant, (type_oid, modifier): (Oid, i32)) -> bool {
    if modifier == -1 || *value == Constant::Null {
        return true;
    }
    let (Constant::Untyped(text) | Constant::Number(text) | Constant::Text(_, text)) = value else { return false };
    const VARCHAR: u32 = 1043;
    const BPCHAR: u32 = 1042;
    const NUMERIC: u32 = 1700;
    match type_oid {
        // Blanks at the end are cut off if they are too many, in some encodings by bytes.
        VARCHAR | BPCHAR => {
            let most = usize::try_from(i64::from(modifier) - 4).unwrap_or(0);
            text.len() <= most || (text.chars().count() <= most && !text.ends_with(' '))
        }
        NUMERIC => {
            let scale = (modifier - 4) & 0x7ff;
            let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'-');
            let digits = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
            plain && scale < 1024 && i32::try_from(digits).is_ok_and(|d| d <= scale)
        }
        _ => false,
    }
}
