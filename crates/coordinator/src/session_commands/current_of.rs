//! WHERE CURRENT OF: UPDATE and DELETE of the row that a cursor stands on.
//!
//! A cursor that locks rows has a column more for each table that it locks, which says where the row lies. FETCH takes it off and
//! remembers it ([`Places`]). A positioned statement asks the row's node for the key of what has become of that row, and is then
//! run as one that names the row by its key.
//!
//! Invariant: the row that is changed is the one that the cursor has locked, by its address, or a later version of it; another that
//! has got its key meanwhile is none.

use std::pin::pin;

use executor::{Call, Completion};
use pgerror::{PgError, Result, SqlState};
use planner::parse::{Fetch, FetchDirection, Statement, StatementKind};
use planner::{CurrentOf, LockTarget, LockedBy};

use super::client_session::ClientSession;

/// Most rows of one FETCH whose places are kept, for a loop that gets several at once; of more the last one's.
const PLACES_MAX: usize = 1000;

/// Where the rows are that a cursor locks.
pub(super) struct Places {
    /// In the order of the columns.
    targets: Vec<LockTarget>,
    /// The search path under which names of tables stand in the places.
    path: u64,
    /// For each row of the last FETCH, for each of `targets`.
    fetched: Vec<Vec<String>>,
    /// The row of these that the cursor stands on.
    at: Option<usize>,
}

impl Places {
    pub(super) fn of(targets: Vec<LockTarget>, path: u64) -> Self {
        Self { targets, path, fetched: Vec::new(), at: None }
    }

    /// How many columns say them.
    pub(super) fn columns(&self) -> usize {
        self.targets.len()
    }

    /// PostgreSQL stands on the last row of a FETCH that gives as many as are asked for, else behind the last of all.
    fn fetched(&mut self, mut places: Vec<Vec<String>>, fetch: &Fetch) {
        let wanted = match fetch.direction {
            FetchDirection::Forward | FetchDirection::Backward => fetch.count.unsigned_abs(),
            FetchDirection::Absolute | FetchDirection::Relative => 1,
        };
        let is_on_row = usize::try_from(wanted).is_ok_and(|wanted| wanted == places.len());
        if places.len() > PLACES_MAX {
            places.drain(..places.len() - 1);
        }
        self.at = places.len().checked_sub(1).filter(|_| is_on_row);
        self.fetched = places;
    }
}

impl ClientSession {
    /// FETCH and MOVE in a cursor with places.
    pub(super) async fn fetch_placed(
        &mut self,
        fetch: &Fetch,
        statement: &Statement,
        call: &Call,
    ) -> Result<Completion> {
        let cursor = self.cursor(&fetch.cursor).await?;
        let (slot, columns) = (cursor.slot, cursor.places.as_ref().map_or(0, Places::columns));
        let cancel = self.session.cancel_set();
        let (watch, mut output) = self.socket.split(None);
        // The next cursor of this name may have other columns.
        let call = Call { one_off: true, ..call.clone() };
        let stays = fetch.count == 0;
        if fetch.is_move && stays {
            let work = self.session.forward_to(slot, &statement.sql, &call, &mut output);
            return watch.during(&cancel, pin!(work)).await;
        }
        let sql = as_fetch(fetch);
        let work = self.session.fetch_placed(slot, &sql, columns, fetch.is_move, &call, &mut output);
        let fetched = watch.during(&cancel, pin!(work)).await;
        let kept = self.cursors.get_mut(&fetch.cursor).and_then(|cursor| cursor.places.as_mut());
        let count = match (fetched, kept) {
            (Ok(places), kept) => {
                let count = places.len();
                if let Some(kept) = kept.filter(|_| !stays) {
                    kept.fetched(places, fetch);
                }
                count
            }
            (Err(error), kept) => {
                // PostgreSQL cannot run it again.
                kept.into_iter().for_each(|kept| kept.at = None);
                return Err(error);
            }
        };
        Ok(Completion::Tag(format!("{} {count}", if fetch.is_move { "MOVE" } else { "FETCH" })))
    }

    /// A loop over a cursor has come to this row of those that it got at once.
    pub(crate) fn cursor_stands_on(&mut self, cursor: &str, row: usize) {
        if let Some(places) = self.cursors.get_mut(cursor).and_then(|cursor| cursor.places.as_mut()) {
            places.at = Some(row).filter(|row| *row < places.fetched.len());
        }
    }

    /// A statement with WHERE CURRENT OF as one that names the row by its key; `None` for any other.
    pub(crate) async fn at_current(&mut self, statement: &Statement) -> Result<Option<Statement>> {
        use StatementKind::{Copy, Delete, Explain, Insert, Merge, Select, Update};
        let may_have_it = match statement.kind {
            Copy(_) | Delete | Explain(_) | Update => true,
            Insert | Merge | Select => statement.has_with(),
            _ => false,
        };
        if !may_have_it {
            return Ok(None);
        }
        let Some((range, cursor)) = planner::current_of(&statement.sql) else { return Ok(None) };
        let Some(changed) = self.session.changes_current(statement).await? else { return Ok(None) };
        let condition = self.row_of(&cursor, &changed).await?;
        let mut sql = statement.sql.to_string();
        sql.replace_range(range, &format!("WHERE {condition}"));
        let Some(mut by_key) = planner::parse(&sql)?.into_iter().next() else { return Ok(None) };
        by_key.offset = statement.offset;
        Ok(Some(by_key.in_place_of(statement)))
    }

    /// The row that a cursor stands on, by its key; no row if it is gone.
    async fn row_of(&mut self, name: &str, changed: &CurrentOf) -> Result<String> {
        let refused = |detail: String| {
            Err(PgError::unsupported(format!("WHERE CURRENT OF cursor \"{name}\"")).detail(detail).hint(
                "Declare the cursor in this transaction as a SELECT … FOR UPDATE from tables with primary keys, or name the row by its key.",
            ))
        };
        let state = |message: String| Err(PgError::new(invalid_state(), message));
        if self.portal_called(name).is_some() {
            return refused("It is a portal of the extended protocol.".to_owned());
        }
        let path = self.session.settings_mut().path_fingerprint();
        let cursor = self.cursor(name).await?;
        if cursor.is_kept {
            return state(format!("cursor \"{name}\" is held from a previous transaction"));
        }
        let Some(places) = &cursor.places else {
            return refused("It does not lock its rows, or not those of tables alone.".to_owned());
        };
        let table = changed.relation.qualified_name();
        let meant: Vec<usize> = (0..places.targets.len()).filter(|at| places.targets[*at].name() == table).collect();
        let short = &changed.relation.name;
        let of = match meant.as_slice() {
            [of] => *of,
            [] if changed.relation.has_children || !changed.relation.parents.is_empty() => {
                return refused(format!("It may reach rows of table \"{short}\" by another table's name."));
            }
            [] => {
                return state(format!(
                    "cursor \"{name}\" does not have a FOR UPDATE/SHARE reference to table \"{short}\""
                ));
            }
            _ => {
                return state(format!(
                    "cursor \"{name}\" has multiple FOR UPDATE/SHARE references to table \"{short}\""
                ));
            }
        };
        let target = places.targets[of].clone();
        let is_family = target.by == LockedBy::Address { names_table: true };
        if matches!(target.by, LockedBy::Key { .. }) {
            return refused(format!("It locks rows of the replicated table \"{short}\" beside others."));
        }
        let has_family = is_family || changed.relation.has_children;
        if has_family && changed.relation.kind != catalog::RelationKind::PartitionedTable {
            return refused(format!("Table \"{short}\" has children, whose rows its key does not tell apart."));
        }
        if is_family && places.path != path {
            return refused("The search path is another than when it was declared.".to_owned());
        }
        if changed.key.is_empty() {
            return refused(format!("Table \"{short}\" has no primary key."));
        }
        let Some(place) = places.at.and_then(|at| places.fetched.get(at)?.get(of)).cloned() else {
            return state(format!("cursor \"{name}\" is not positioned on a row"));
        };
        self.session.require_plain_text("WHERE CURRENT OF", changed.key.iter().map(|column| column.type_oid)).await?;
        let names: Vec<String> = changed.key.iter().map(|column| catalog::quote_identifier(&column.name)).collect();
        let values = match self.session.row_at(&target, &place, &names).await {
            Err(error) if error.code() == SqlState::INSUFFICIENT_PRIVILEGE => {
                return refused(format!(
                    "The role has rights on some columns of table \"{short}\" only, or not on its partition."
                ));
            }
            values => values?,
        };
        let Some(values) = values else { return Ok("false".to_owned()) };
        let alias = catalog::quote_identifier(&changed.alias);
        let equal = names.iter().zip(&changed.key).zip(values).map(|((name, column), value)| {
            let value = String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
            // Another `=` may come before PostgreSQL's in the search path.
            let equals = if column.type_oid < catalog::FIRST_USER_OID { "OPERATOR(pg_catalog.=)" } else { "=" };
            format!("{alias}.{name} {equals} {}::{}", catalog::quote_literal(&value), column.type_name)
        });
        Ok(equal.collect::<Vec<_>>().join(" AND "))
    }
}

/// 24000.
fn invalid_state() -> SqlState {
    SqlState::from_bytes(b"24000").unwrap_or(SqlState::INTERNAL_ERROR)
}

/// A FETCH that goes where FETCH or MOVE goes.
fn as_fetch(fetch: &Fetch) -> String {
    let direction = match fetch.direction {
        FetchDirection::Forward => "FORWARD",
        FetchDirection::Backward => "BACKWARD",
        FetchDirection::Absolute => "ABSOLUTE",
        FetchDirection::Relative => "RELATIVE",
    };
    let count = if fetch.count == i64::MAX { "ALL".to_owned() } else { fetch.count.to_string() };
    format!("FETCH {direction} {count} FROM {}", catalog::quote_identifier(&fetch.cursor))
}
