//! What triggers BEFORE … FOR EACH STATEMENT change. PostgreSQL takes their statement's snapshot before they fire, so it does not
//! see that; here it begins after them. So a statement that might is refused.
//!
//! Which tables' rows they have changed the datanodes know, by whatever way it was (`pg_stat_xact_user_tables`). The counts there
//! may begin with those of earlier transactions, but stay as they are while none of this one's statements changes a row. So all nodes
//! are asked before and after, if the statement reads any table.

use std::collections::{HashMap, HashSet};

use pgerror::{PgError, Result};
use planner::Statement;
use syntax::Ask;

use crate::backend::slot::Slot;
use crate::block::Mode;
use crate::session::Session;
use crate::session::temp_names::TempNames;
use crate::shared::catalog_load::{flag, number, optional};
use crate::shared::plan_validity::PlanValidity;

/// Schema and name.
type Name = (String, String);

/// How many rows have been inserted, updated and deleted, as far as each node knows.
type Counts = HashMap<(Slot, Name), u64>;

/// What a statement reads, and what its tables' counts were before it.
pub struct RowsRead {
    tables: HashSet<Name>,
    temporary: HashSet<String>,
    before: Counts,
}

impl Session {
    /// Before the triggers of the statement, whose plan is valid; `None` if it reads no table.
    pub async fn rows_read(&mut self, statement: &Statement) -> Result<Option<RowsRead>> {
        let (Some(validity), Some(tree)) = (self.validity.clone(), statement.node()) else { return Ok(None) };
        let mut text = syntax::read_by(tree)?;
        let temp = self.temp_relations().await?;
        let temporary = temporary_in(&text, &temp)?;
        if temp.views.iter().any(|view| temporary.contains(&view.name)) {
            text += &temp.definitions();
        }
        let tables = tables_in(&validity, &text);
        if tables.is_empty() && temporary.is_empty() {
            return Ok(None);
        }
        Ok(Some(RowsRead { tables, temporary, before: self.rows_changed().await? }))
    }

    /// 0A000 if rows that the statement reads are others than they were.
    pub async fn refuse_newer_rows(&mut self, read: &RowsRead) -> Result<()> {
        let is_read = |(schema, name): &Name| {
            read.tables.contains(&(schema.clone(), name.clone()))
                || schema.starts_with("pg_temp_") && read.temporary.contains(name)
        };
        let now = self.rows_changed().await?;
        let newer = now.iter().filter(|(of, rows)| read.before.get(*of) != Some(*rows));
        match newer.map(|((_, name), _)| name).find(|name| is_read(name)) {
            None => Ok(()),
            Some((_, name)) => Err(PgError::unsupported(format!(
                "a trigger BEFORE … FOR EACH STATEMENT that changes rows of table \"{name}\" for a statement that reads it"
            ))
            .detail("PostgreSQL's statement would not see what it changes.")
            .hint("Make it an AFTER trigger, or have it change another table.")),
        }
    }

    /// Within the block, on all nodes.
    async fn rows_changed(&mut self) -> Result<Counts> {
        let sql = planner::own_text(
            "SELECT schemaname, relname, n_tup_ins + n_tup_upd + n_tup_del, are_kept \
             FROM (SELECT current_setting('track_counts')::bool) AS s (are_kept) \
             LEFT JOIN pg_stat_xact_user_tables ON n_tup_ins + n_tup_upd + n_tup_del > 0",
        )?;
        let mut counts = HashMap::new();
        for node in self.context.nodes() {
            let slot = Slot::from(node);
            self.acquire(slot, Mode::InBlock).await?;
            for row in self.rows_on(slot, &sql).await? {
                if !flag(&row, 3)? {
                    return Err(PgError::unsupported(
                        "a trigger BEFORE … FOR EACH STATEMENT that the coordinator runs, without track_counts,",
                    )
                    .hint("SET track_counts = on."));
                }
                if let (Some(schema), Some(name)) = (optional(&row, 0)?, optional(&row, 1)?) {
                    counts.insert((slot, (schema.to_owned(), name.to_owned())), number(&row, 2)?);
                }
            }
        }
        Ok(counts)
    }
}

/// Tables that the text may use, and those that policies read of tables in it or in the statement.
fn tables_in(validity: &PlanValidity, text: &str) -> HashSet<Name> {
    let catalog = validity.catalog();
    let policed = validity.tables_in(&validity.sql).filter_map(|table| table.code.as_ref());
    let by_policies = policed.flat_map(|code| &code.policy_tables).filter_map(|oid| catalog.relation_by_oid(*oid));
    let all = validity.tables_in(text).chain(by_policies.map(|table| table.as_ref()));
    all.map(|table| (table.schema.clone(), table.name.clone())).collect()
}

/// Names that may be those of temporary tables, in the text or in a temporary view.
fn temporary_in(text: &str, temp: &TempNames) -> Result<HashSet<String>> {
    if temp.is_empty() {
        return Ok(HashSet::new());
    }
    let views = temp.views.iter().filter_map(|view| view.view_definition.as_deref());
    let mut names = HashSet::new();
    for text in std::iter::once(text).chain(views).filter(|text| !text.is_empty()) {
        let tree = syntax::parse_one(text).map_err(|error| PgError::internal(error.to_string()))?;
        for name in tree.iter().map(Ask::tables).collect::<Result<Vec<_>>>()?.concat() {
            names.insert(name.relname.clone());
        }
    }
    Ok(names)
}
