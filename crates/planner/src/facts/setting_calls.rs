//! Calls of `set_config()`: they set something in one session of many, so all others must hear of it.
//!
//! ```text
//! SELECT set_config('role', $1, true), 1                       → SELECT ('role')::text, ($1)::text, (true)::bool
//! SELECT set_config(name, 'x', false) FROM pg_settings WHERE … → SELECT (name)::text, …::text, …::bool FROM pg_settings WHERE …
//! ```

use std::collections::BTreeSet;

use catalog::{Meaning, meaning};
use pg_query::NodeEnum;
use pg_query::protobuf::{FuncCall, RangeVar, ResTarget, SelectStmt};
use pgerror::Result;

use crate::parse::Statement;
use crate::tree::{self, Ask, Get, Ref};

/// Where a statement calls `set_config()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingCalls {
    /// Nowhere.
    None,
    /// In the select list of a query whose every row makes each call once, and that gives the same however often it runs: a
    /// query of the calls' arguments, three columns for each.
    Listed(String),
    /// Anywhere else; their names, if all of them are constants.
    Hidden(Option<BTreeSet<String>>),
}

/// Searches a statement. A bare name is taken for one of `pg_catalog`: where it may be another, the statement is to be read by PostgreSQL first.
pub fn setting_calls(statement: &Statement) -> Result<SettingCalls> {
    let Some(tree) = statement.node() else { return Ok(SettingCalls::None) };
    let (mut calls, mut others, mut names) = (0, false, Some(BTreeSet::new()));
    tree.each(|node| match node {
        Ref::FuncCall(call) if means(call, Meaning::SetConfig) => {
            calls += 1;
            match (&mut names, constant_name(call)) {
                (Some(names), Some(name)) => drop(names.insert(name)),
                _ => names = None,
            }
        }
        Ref::FuncCall(call) => others |= !means(call, Meaning::Setting),
        Ref::SubLink(_) | Ref::SqlvalueFunction(_) => others = true,
        _ => {}
    })?;
    match tree {
        _ if calls == 0 => Ok(SettingCalls::None),
        NodeEnum::SelectStmt(select) if !others && is_plain(select) => {
            Ok(listed(select, calls)?.unwrap_or(SettingCalls::Hidden(names)))
        }
        _ => Ok(SettingCalls::Hidden(names)),
    }
}

/// The setting that a call of `set_config()` names, in lower case, if that can be told from the call itself.
pub(crate) fn constant_name(call: &FuncCall) -> Option<String> {
    tree::under_casts(call.args.first()?).get().and_then(tree::quoted).map(str::to_ascii_lowercase)
}

fn means(call: &FuncCall, meaning: Meaning) -> bool {
    tree::own_name(&call.funcname).is_some_and(|name| meaning::is_named(name, meaning))
}

/// Rows of no table or of the settings, each as it is.
fn is_plain(select: &SelectStmt) -> bool {
    let frame = SelectStmt { target_list: Vec::new(), from_clause: Vec::new(), where_clause: None, ..select.clone() };
    let is_settings =
        |name: &RangeVar| name.relname == "pg_settings" && ["", "pg_catalog"].contains(&&*name.schemaname);
    frame == tree::empty_select()
        && match select.from_clause.as_slice() {
            [] => true,
            [item] => matches!(&item.node, Some(NodeEnum::RangeVar(name)) if is_settings(name)),
            _ => false,
        }
}

fn listed(select: &SelectStmt, calls: usize) -> Result<Option<SettingCalls>> {
    let mut columns = Vec::new();
    for target in &select.target_list {
        let Some(target) = target.get::<ResTarget>() else { continue };
        let Some(call) = target.val.get::<FuncCall>() else { continue };
        if let ([name, value, is_local], true) = (call.args.as_slice(), means(call, Meaning::SetConfig)) {
            for (argument, of) in [(name, "text"), (value, "text"), (is_local, "bool")] {
                columns.push(format!("({})::pg_catalog.{of}", tree::deparse_expression(argument)?));
            }
        }
    }
    if columns.len() != 3 * calls {
        return Ok(None);
    }
    let mut query = tree::parse_select(&format!("SELECT {}", columns.join(", ")))?;
    query.from_clause = select.from_clause.clone();
    query.where_clause = select.where_clause.clone();
    tree::deparse_select(&query).map(SettingCalls::Listed).map(Some)
}
