//! Changes that need rows of other nodes, or that move rows: the home node works out what is to become of which row.
//!
//! ```text
//!  target rows (address, columns) ────┐
//!  other tables' rows ────────────────┴─ home: the user's join and expressions ─ stage ─ each node: by ctid
//!                                                                                   └─ rows with a new key: DELETE and INSERT
//! ```
//!
//! The statement becomes a query over gathered rows (see [`gather`](crate::select)), in which the target is a sub-select of all nodes' rows with
//! two more columns. What the query gives for a row goes through a temp table with the target's columns, so that values are cast as an assignment
//! casts them. A row's address is its node, the table it lies in (the target or one of its children) and its `ctid`. Of replicated tables there
//! is one copy here: see [`first_copy`](crate::first_copy).
//!
//! Invariants: a row's `ctid` holds from the moment it is read to the moment it is used (one snapshot, or other writers kept
//! off: the executor's part); a row is changed at most once; what a node does to its rows on its own (constraints, triggers,
//! policies) it does here too, and a row moves to another node only if none of these could tell DELETE and INSERT from UPDATE.

use std::sync::Arc;

use catalog::{Column, Distribution, Generated, NodeId, Relation, RelationKind};
use pg_query::protobuf::{RangeVar, ResTarget, ReturningClause, SelectStmt, WithClause};
use pg_query::{Node, NodeEnum};
use pgerror::{PgError, Result};

use super::returning::Returning;
use super::{is_replicated, lock, row_parts, several_copies, stage};
use crate::context::Context;
use crate::dml::key_moves;
use crate::facts::functions::facts;
use crate::parse::Statement;
use crate::plan::{FinalSql, Input, Plan, STAGE, StagedAction, StagedDml};
use crate::select::{self, names::names_row, row_address};
use crate::tree::{self, Ask, Get, Ref, Syntax};

/// What a clause does to the rows it is about.
pub(super) enum Kind {
    Update,
    Delete,
    Insert,
    /// DO NOTHING, which later clauses of a MERGE do not get.
    Nothing,
}

/// One action: all of an UPDATE or DELETE, or a WHEN of a MERGE.
pub(super) struct Clause {
    pub kind: Kind,
    /// It is about rows of the target, not about those that the target lacks.
    pub matched: bool,
    /// The condition of a MERGE's WHEN.
    pub condition: Option<Node>,
    /// Columns and their values; `None` is DEFAULT.
    pub values: Vec<(String, Option<Node>)>,
}

impl Clause {
    /// Is there a sub-select in its condition?
    pub fn asks_elsewhere(&self) -> bool {
        self.condition.as_ref().is_some_and(|condition| condition.may_have(|node| matches!(node, Ref::SubLink(_))))
    }
}

/// A statement taken apart.
pub(super) struct Draft<'a> {
    pub ctx: &'a Context<'a>,
    pub statement: &'a Statement,
    /// The first word of the command tag.
    pub command: &'static str,
    pub name: &'a RangeVar,
    pub relation: Arc<Relation>,
    /// FROM; the target is its first item or, in a MERGE, the right side of the only join.
    pub from: Vec<Node>,
    pub condition: Option<Node>,
    pub with: Option<WithClause>,
    pub returning: Option<&'a ReturningClause>,
    pub clauses: Vec<Clause>,
    /// Why the nodes cannot do it on their own.
    pub reason: &'a str,
}

impl Draft<'_> {
    /// The plan, or why there is none.
    pub fn plan(self) -> Result<Plan> {
        self.check()?;
        let moves = self.moves() && !key_moves::moves_afterwards(self.ctx.catalog, &self.relation);
        let rooted = if moves { rooted(self.ctx, self.name, &self.relation) } else { None };
        let columns = self.stage_columns(moves);
        let returning = Returning::of(&self, moves)?;
        let mut query = self.query(&columns, &returning).into_tree();
        lock::unlock(self.ctx, &self.relation, &mut query)?;
        let has_addresses = row_address::rename(&mut query)?;
        let facts = facts(self.ctx, &query)?;
        // What all copies have may be read there, but not what the statement itself changes.
        let is_replicated = matches!(self.relation.distribution, Distribution::Replicated { .. });
        let is_read_there = |nodes: &Vec<NodeId>| nodes.contains(&self.ctx.home()) && !is_replicated;
        if !facts.function_nodes.as_ref().is_none_or(is_read_there) || facts.modifying_cte {
            return Err(self.refused("It calls a function that reads tables, or changes rows in WITH."));
        }
        // A replicated target is gathered too, for the addresses of its rows.
        let gathers_all = has_addresses || is_replicated || self.ctx.session.in_transaction;
        let copies = self.ctx.copies.or(gathers_all.then_some("loxo_"));
        let gathering = Context { copies, ..*self.ctx };
        let mut inputs = select::gather_tables(&gathering, &mut query, &facts, self.reason)?;
        let NodeEnum::SelectStmt(mut query) = query else { return Err(PgError::internal("a query that is none")) };
        self.read_target(&mut query, &mut inputs)?;

        let mut fills = Vec::new();
        let mut actions = Vec::new();
        for (number, clause) in self.clauses.iter().enumerate() {
            let Some(action) = self.action(clause, &columns, moves) else { continue };
            fills.push(FinalSql::plain(self.fill(number, actions.len(), &columns, &query, &returning)?));
            actions.push(action);
        }
        let rows: Vec<_> = columns.iter().map(stage::row_column).collect();
        Ok(Plan::StagedDml(Box::new(StagedDml {
            node: self.ctx.home(),
            original: self.statement.sql.to_string(),
            command: self.command,
            inputs,
            definitions: self.definitions(&columns),
            fills,
            actions,
            route: stage::route(&self.relation, &rows),
            columns: rows,
            alias: self.alias().to_owned(),
            returned: returning.columns(),
            returned_sql: returning.types_sql(&query)?,
            returning: returning.text,
            parameters: self.statement.parameters,
            rooted,
            rights_sql: None,
            target: self.relation,
        })))
    }

    pub(super) fn refused(&self, why: &str) -> PgError {
        PgError::unsupported(format!("this {}", self.command))
            .detail(format!("{why} It cannot run on each node alone: {}.", self.reason))
            .hint("Join on the distribution keys, pin the key by a constant, or use replicated tables.")
    }

    pub(super) fn alias(&self) -> &str {
        tree::alias_of(self.name)
    }

    fn check(&self) -> Result<()> {
        if is_replicated(&self.relation) {
            return Err(several_copies(&self.relation, self.reason));
        }
        let of_clauses = self.clauses.iter().flat_map(|clause| {
            clause.condition.iter().chain(clause.values.iter().filter_map(|(_, value)| value.as_ref()))
        });
        for part in self.from.iter().chain(&self.condition).chain(of_clauses) {
            if names_row(part, |name| name == self.alias())? {
                return Err(self.refused("It uses the target's row as a whole."));
            }
        }
        for clause in self.clauses.iter().filter(|clause| matches!(clause.kind, Kind::Update)) {
            for (name, value) in &clause.values {
                let computed = self.relation.column(name).is_some_and(|column| column.generated != Generated::No);
                if computed && value.is_none() {
                    return Err(self.refused("It sets an identity or generated column to DEFAULT."));
                }
            }
        }
        Ok(())
    }

    /// Does an UPDATE set a column of the key?
    fn moves(&self) -> bool {
        let keys = self.relation.key_names();
        let updates = self.clauses.iter().filter(|clause| matches!(clause.kind, Kind::Update));
        updates.flat_map(|clause| &clause.values).any(|(name, _)| keys.contains(&name.as_str()))
    }

    /// The columns of a row in the stage: all that a new row needs, or those that are changed.
    fn stage_columns(&self, moves: bool) -> Vec<Column> {
        let inserts = moves || self.clauses.iter().any(|clause| matches!(clause.kind, Kind::Insert));
        let is_set = |column: &Column| {
            self.clauses.iter().flat_map(|clause| &clause.values).any(|(name, _)| *name == column.name)
        };
        stage::stored_columns(&self.relation).into_iter().filter(|c| inserts || is_set(c)).cloned().collect()
    }

    fn definitions(&self, columns: &[Column]) -> Vec<String> {
        let mut definitions: Vec<String> = [("action", "int4"), ("node", "int4"), ("table", "oid"), ("ctid", "tid")]
            .into_iter()
            .map(|(name, of)| format!("loxo_{name} pg_catalog.{of}"))
            .collect();
        definitions.extend(columns.iter().map(|c| stage::definition(&self.relation, c, self.ctx.session.now)));
        definitions
    }

    /// What a clause gives for a column; `None` if the stage's default does.
    fn value(&self, clause: &Clause, column: &Column) -> Option<Node> {
        match clause.values.iter().find(|(name, _)| *name == column.name) {
            Some((_, value)) => value.clone(),
            None if matches!(clause.kind, Kind::Insert | Kind::Nothing) => None,
            None => Some(tree::column(&[self.alias(), &column.name])),
        }
    }

    /// All expressions of all clauses as one query's output, so that they are gathered for together: of each clause first
    /// the condition (or `true`), then a value for each column (or NULL); last what RETURNING takes from other tables.
    fn query(&self, columns: &[Column], returning: &Returning) -> SelectStmt {
        let mut targets = Vec::new();
        for clause in &self.clauses {
            targets.push(clause.condition.clone().unwrap_or_else(|| tree::integer(1)));
            targets.extend(columns.iter().map(|column| self.value(clause, column).unwrap_or_else(|| tree::integer(0))));
        }
        SelectStmt {
            target_list: (targets.into_iter().map(|value| tree::target(value, None)))
                .chain(returning.foreign.iter().cloned())
                .collect(),
            from_clause: self.from.clone(),
            where_clause: self.condition.clone().map(Box::new),
            with_clause: self.with.clone(),
            ..tree::empty_select()
        }
    }

    /// Replaces the target's gathered table by one that says where each row lies.
    fn read_target(&self, query: &mut SelectStmt, inputs: &mut Vec<Input>) -> Result<()> {
        let lost = || PgError::internal("the target of a change was not gathered");
        let item = query.from_clause.first_mut().ok_or_else(lost)?;
        let place = match &mut item.node {
            Some(NodeEnum::JoinExpr(join)) if self.command == "MERGE" => join.rarg.as_deref_mut().ok_or_else(lost)?,
            _ => item,
        };
        let Some(gathered) = place.get::<RangeVar>() else { return Err(lost()) };
        let gathered = gathered.relname.clone();
        let at = inputs.iter().position(|input| input.table == gathered).ok_or_else(lost)?;
        let input = inputs[at].clone();

        let rows = tree::parse_select(&input.sql)?;
        let mut parts = Vec::new();
        for node in &input.nodes {
            let mut select = rows.clone();
            select.target_list.extend(address());
            select.target_list.push(tree::target(tree::integer(i64::from(node.0)), Some("loxo_node")));
            let table = self.ctx.input_table(format_args!("t{}", node.0));
            parts.push(format!("SELECT * FROM {table}"));
            let sql = tree::deparse_select(&select)?;
            inputs.push(Input { table, nodes: vec![*node], sql, indexes: Vec::new(), exchange_plan: None });
        }
        let alias = catalog::quote_identifier(self.alias());
        let mut rows = tree::parse_select(&format!("SELECT 1 FROM ({}) AS {alias}", parts.join(" UNION ALL ")))?;
        *place = rows.from_clause.pop().ok_or_else(lost)?;

        if !query.any(|node| matches!(node, Ref::RangeVar(name) if name.relname == gathered))? {
            inputs.remove(at);
        }
        Ok(())
    }

    /// `INSERT INTO loxo_stage … SELECT …` for one clause.
    fn fill(
        &self,
        number: usize,
        action: usize,
        columns: &[Column],
        query: &SelectStmt,
        returning: &Returning,
    ) -> Result<String> {
        let clause = &self.clauses[number];
        let first = number * (columns.len() + 1);
        let mut names = vec!["loxo_action".to_owned()];
        let mut select = SelectStmt { target_list: Vec::new(), ..query.clone() };
        select.target_list.push(tree::target(tree::integer(action as i64), None));
        if clause.matched {
            let parts = ["loxo_node", "loxo_table", "loxo_ctid"];
            let address = parts.map(|part| tree::column(&[self.alias(), part]));
            names.extend(parts.map(str::to_owned));
            select.target_list.extend(address.iter().map(|column| tree::target(column.clone(), None)));
            // Any one of several partners of a row will do, as in PostgreSQL.
            if self.command != "MERGE" && self.from.len() > 1 {
                select.distinct_clause = address.to_vec();
            }
        }
        for (position, column) in columns.iter().enumerate() {
            if self.value(clause, column).is_some() {
                let Some(NodeEnum::ResTarget(output)) = &query.target_list[first + 1 + position].node else { continue };
                let Some(value) = &output.val else { continue };
                for part in row_parts::parts(self.ctx.catalog, column, value) {
                    names.push(part.name());
                    select.target_list.push(tree::target(part.value, None));
                }
            }
        }
        for (column, value) in returning.columns().into_iter().zip(returning.values(query)) {
            names.push(column.name);
            select.target_list.push(value.clone());
        }
        if self.command == "MERGE" {
            let condition = self.merge_condition(number, columns, query)?;
            select.where_clause = Some(Box::new(tree::parse_expression(&condition)?));
        }
        Ok(format!("INSERT INTO {} ({}) {}", STAGE, names.join(", "), tree::deparse_select(&select)?))
    }

    /// A row of the join takes the first WHEN of its kind whose condition holds. Those behind it are not evaluated, and none for others.
    fn merge_condition(&self, number: usize, columns: &[Column], query: &SelectStmt) -> Result<String> {
        let node = format!("{}.loxo_node", catalog::quote_identifier(self.alias()));
        let matched = self.clauses[number].matched;
        // A sub-select must not be computed for rows of the target before they are joined: they are looked at behind an outer join.
        let found = match (matched, self.clauses[..=number].iter().any(Clause::asks_elsewhere)) {
            (true, true) => format!("coalesce({node}, -1) OPERATOR(pg_catalog.>=) 0"),
            (true, false) => format!("{node} IS NOT NULL"),
            (false, _) => format!("{node} IS NULL"),
        };
        let mut arms = String::new();
        for (at, clause) in self.clauses[..=number].iter().enumerate().filter(|(_, clause)| clause.matched == matched) {
            let target = query.target_list[at * (columns.len() + 1)].get::<ResTarget>();
            let condition = match (&clause.condition, target.and_then(|target| target.val.as_deref())) {
                (Some(_), Some(value)) => tree::deparse_expression(value)?,
                _ => "true".to_owned(),
            };
            arms.push_str(&format!(" WHEN {condition} THEN {}", at == number));
        }
        match arms == " WHEN true THEN true" {
            true => Ok(found),
            false => Ok(format!("{found} AND CASE WHEN NOT ({found}) THEN false{arms} END")),
        }
    }

    /// `None` if nothing is to be done.
    fn action(&self, clause: &Clause, columns: &[Column], moves: bool) -> Option<StagedAction> {
        let keys = self.relation.key_names();
        match clause.kind {
            Kind::Nothing => None,
            Kind::Delete => Some(StagedAction::Delete),
            Kind::Insert => Some(StagedAction::Insert),
            Kind::Update => {
                let is_set = |name: &str| clause.values.iter().any(|(set, _)| set == name);
                let set = (0..columns.len()).filter(|at| is_set(&columns[*at].name)).collect();
                Some(StagedAction::Update { columns: set, moves: moves && keys.iter().any(|key| is_set(key)) })
            }
        }
    }
}

/// A row moves by DELETE and INSERT, which nobody may be told of. Why rows must not, unless they stay on their nodes.
pub(super) fn rooted(ctx: &Context<'_>, name: &RangeVar, relation: &Arc<Relation>) -> Option<&'static str> {
    // Without ONLY, rows of children too.
    let family = if name.inh { ctx.family(relation) } else { vec![relation.clone()] };
    let mut keys = ctx.catalog.relations().flat_map(|other| &other.foreign_keys);
    if family.len() > 1 && relation.kind != RelationKind::PartitionedTable {
        Some("the table has inheritance children")
    } else if family.iter().any(|table| table.has_other_triggers) {
        Some("the table has triggers")
    } else if family.iter().any(|table| table.is_barrier) {
        Some("the table has row level security")
    } else if relation.is_partition {
        Some("the table is a partition")
    } else if keys.any(|key| family.iter().any(|table| key.referenced == table.oid)) {
        Some("foreign keys refer to it")
    } else {
        None
    }
}

/// Where a row lies on its node.
fn address() -> [Node; 2] {
    [("tableoid", "loxo_table"), ("ctid", "loxo_ctid")]
        .map(|(column, name)| tree::target(tree::column(&[column]), Some(name)))
}
