//! What has become of rows, in the end.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use catalog::{Generated, Relation};
use pgerror::{PgError, Result};

use crate::dml::trigger_events::RowTold;

/// A row's text as it was and as it is.
pub(super) type Texts = (Option<Bytes>, Option<Bytes>);

/// A row's values as texts, generated columns' too.
pub(super) type Values = Vec<Option<Bytes>>;

/// A row as it was before the statement and as it is after it.
pub(super) struct RowChange {
    pub(super) old: Option<Values>,
    pub(super) new: Option<Values>,
    /// The columns (0-based) that got other values, without generated ones.
    pub(super) columns: Vec<usize>,
}

impl RowChange {
    pub(super) fn is_deleted(&self) -> bool {
        self.new.is_none()
    }

    pub(super) fn is_updated(&self) -> bool {
        self.old.is_some() && !self.columns.is_empty()
    }

    pub(super) fn is_new(&self) -> bool {
        self.old.is_none()
    }
}

/// What has become of a table's rows.
pub(super) struct Changed {
    pub(super) table: Arc<Relation>,
    /// By way of which the other copies are changed, where the user has not all rights on the table.
    pub(super) view: Option<String>,
    /// Its policies hold for the user there.
    pub(super) is_under_policies: bool,
    rows: Vec<RowChange>,
}

impl Changed {
    pub(super) fn of(table: &Arc<Relation>, rows: Vec<Texts>) -> Result<Self> {
        let count = table.columns.len();
        let values = |text: Option<Bytes>| text.map(|text| values_of_row(&text, count)).transpose();
        let is_stored = |at: &usize| !matches!(table.columns[*at].generated, Generated::Stored | Generated::Virtual);
        let changes = rows.into_iter().map(|(old, new)| {
            let (old, new) = (values(old)?, values(new)?);
            let columns = match (&old, &new) {
                (Some(old), Some(new)) => {
                    let columns: Vec<usize> = (0..count).filter(is_stored).filter(|at| old[*at] != new[*at]).collect();
                    // Generated ones alone are another now.
                    let is_plain = |at: &usize| table.columns[*at].generated == Generated::No;
                    if columns.is_empty() { (0..count).filter(is_plain).collect() } else { columns }
                }
                (_, Some(_)) => (0..count).filter(is_stored).collect(),
                (_, None) => Vec::new(),
            };
            Ok(RowChange { columns, old, new })
        });
        Ok(Self { table: table.clone(), view: None, is_under_policies: false, rows: changes.collect::<Result<_>>()? })
    }

    pub(super) fn has(&self, which: fn(&RowChange) -> bool) -> bool {
        self.rows.iter().any(which)
    }

    /// Rows of one kind, together if the same columns of them have changed.
    pub(super) fn groups(&self, which: fn(&RowChange) -> bool) -> Vec<Vec<&RowChange>> {
        let mut groups: HashMap<&[usize], Vec<&RowChange>> = HashMap::new();
        for row in self.rows.iter().filter(|row| which(row)) {
            groups.entry(&row.columns).or_default().push(row);
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by(|a, b| a[0].columns.cmp(&b[0].columns));
        groups
    }
}

/// One entry for each row that is not as it was, by table.
pub(super) fn net(told: Vec<RowTold>) -> Vec<(String, String, Vec<Texts>)> {
    let mut tables: Vec<(String, String, Net)> = Vec::new();
    for row in told {
        let known = tables.iter().position(|(schema, table, _)| *schema == row.schema && *table == row.table);
        let at = known.unwrap_or_else(|| {
            tables.push((row.schema, row.table, Net::default()));
            tables.len() - 1
        });
        tables[at].2.add(row.old, row.new);
    }
    let is_change = |(old, new): &Texts| old != new;
    let nets = tables.into_iter();
    nets.map(|(schema, table, net)| (schema, table, net.rows.into_iter().filter(is_change).collect())).collect()
}

#[derive(Default)]
struct Net {
    rows: Vec<Texts>,
    /// Where the rows that look so now are among them. Of equal ones any will do.
    current: HashMap<Bytes, Vec<usize>>,
}

impl Net {
    fn add(&mut self, old: Option<Bytes>, new: Option<Bytes>) {
        let known = old.as_ref().and_then(|old| self.current.get_mut(old)?.pop());
        let at = known.unwrap_or_else(|| {
            self.rows.push((old, None));
            self.rows.len() - 1
        });
        if let Some(new) = &new {
            self.current.entry(new.clone()).or_default().push(at);
        }
        self.rows[at].1 = new;
    }
}

/// Tables to which others of them refer come before those.
pub(super) fn referenced_first(tables: &mut [Changed]) {
    let oids: BTreeSet<u32> = tables.iter().map(|changed| changed.table.oid).collect();
    let mut depth: HashMap<u32, usize> = HashMap::new();
    for _ in 0..tables.len() {
        for changed in tables.iter() {
            let table = &changed.table;
            let others = table.foreign_keys.iter().map(|key| key.referenced).filter(|oid| *oid != table.oid);
            let below = others.filter(|oid| oids.contains(oid)).map(|oid| depth.get(&oid).copied().unwrap_or(0) + 1);
            let own = below.max().unwrap_or(0).min(oids.len());
            depth.insert(table.oid, own);
        }
    }
    tables.sort_by_key(|changed| depth.get(&changed.table.oid).copied().unwrap_or(0));
}

/// Takes the text of a row apart, as `record_out` (PostgreSQL's `rowtypes.c`) writes it.
fn values_of_row(text: &[u8], count: usize) -> Result<Values> {
    let broken = || PgError::protocol("a row's text cannot be read");
    let inner = text.strip_prefix(b"(").and_then(|text| text.strip_suffix(b")")).ok_or_else(broken)?;
    let mut values = Vec::with_capacity(count);
    let mut at = 0;
    // A row of one column that is NULL looks like one without columns.
    while count > 0 || !inner.is_empty() {
        let (mut value, mut quoted, mut any) = (BytesMut::new(), false, false);
        while let Some(byte) = inner.get(at).copied() {
            match byte {
                b',' if !quoted => break,
                b'"' if quoted && inner.get(at + 1) == Some(&b'"') => {
                    value.put_u8(b'"');
                    at += 1;
                }
                b'"' => (quoted, any) = (!quoted, true),
                b'\\' => {
                    value.put_u8(*inner.get(at + 1).ok_or_else(broken)?);
                    at += 1;
                }
                other => value.put_u8(other),
            }
            at += 1;
        }
        values.push((any || !value.is_empty()).then(|| value.freeze()));
        if at >= inner.len() {
            break;
        }
        at += 1;
        if at == inner.len() {
            values.push(None);
            break;
        }
    }
    match values.len() == count {
        true => Ok(values),
        false => Err(PgError::internal("a row has other columns than its table in the catalog")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str, count: usize) -> Vec<Option<String>> {
        let values = values_of_row(text.as_bytes(), count).unwrap();
        values.into_iter().map(|value| value.map(|value| String::from_utf8_lossy(&value).into_owned())).collect()
    }

    #[test]
    fn rows_are_taken_apart() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            values("(1,,\"\",\"a \"\"b\"\" \\\\ (c),d\",)", 5),
            [some("1"), None, some(""), some("a \"b\" \\ (c),d"), None]
        );
        assert_eq!(values("(x)", 1), [some("x")]);
        assert_eq!(values("()", 1), [None]);
        assert_eq!(values("()", 0), [] as [Option<String>; 0]);
        assert!(values_of_row(b"(1,2)", 3).is_err());
    }

    #[test]
    fn steps_of_a_row_are_put_together() {
        let told = |old: &'static str, new: &'static str| RowTold {
            schema: "s".into(),
            table: "t".into(),
            old: (!old.is_empty()).then(|| Bytes::from(old)),
            new: (!new.is_empty()).then(|| Bytes::from(new)),
        };
        let rows = net(vec![
            told("(1)", "(2)"),
            told("(2)", "(3)"),
            told("", "(7)"),
            told("(7)", ""),
            told("(5)", "(6)"),
            told("(6)", "(5)"),
            told("(9)", ""),
        ]);
        let [(_, _, rows)] = rows.as_slice() else { panic!("one table") };
        let text = |value: &Option<Bytes>| value.clone().map(|value| String::from_utf8_lossy(&value).into_owned());
        let rows: Vec<_> = rows.iter().map(|(old, new)| (text(old), text(new))).collect();
        assert_eq!(rows, [(Some("(1)".into()), Some("(3)".into())), (Some("(9)".into()), None)]);
    }
}
