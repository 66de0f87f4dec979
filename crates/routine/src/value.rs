//! Values, as text, and where they are kept.

use bytes::Bytes;
use pgerror::{PgError, Result, SqlState};

/// A type on the home node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Type {
    pub oid: u32,
    pub modifier: i32,
    /// As SQL, with length and precision.
    pub name: String,
    /// Columns of a row type.
    pub fields: Option<Vec<(String, Type)>>,
    /// What a domain is over.
    pub over: Option<Box<Type>>,
}

impl Type {
    /// A value as it is assigned to the type, as SQL: what is too long for it is an error, while a cast would cut it.
    pub fn assigned(&self, value: &str) -> String {
        let size = self.modifier;
        let cast = |value: &str| format!("CAST({value} AS {})", self.name);
        if let (Some(function), true) = (sized(self.oid), size >= 0) {
            return format!("{function}(CAST({value} AS {function}), {size}, false)");
        }
        match (&self.over, element(self.oid).and_then(sized)) {
            (Some(over), _) if over.has_length() => cast(&over.assigned(value)),
            (None, Some(function)) if size >= 0 => format!(
                "(SELECT CASE WHEN c.n IS NOT NULL THEN {} END FROM (SELECT CAST({value} AS {function}[]) AS whole) v, \
                 LATERAL (SELECT pg_catalog.count({function}(e, {size}, false)) AS n FROM pg_catalog.unnest(v.whole) e) c)",
                cast("v.whole")
            ),
            _ => cast(value),
        }
    }

    fn has_length(&self) -> bool {
        self.modifier >= 0 || self.over.as_ref().is_some_and(|over| over.has_length())
    }

    /// What a domain is over in the end; the type itself if it is none.
    pub(crate) fn base(&self) -> &Type {
        self.over.as_deref().map_or(self, Type::base)
    }
}

/// The type, and the function that gives its values a length, if it has one.
fn sized(oid: u32) -> Option<&'static str> {
    match oid {
        VARCHAR => Some("pg_catalog.varchar"),
        BPCHAR => Some("pg_catalog.bpchar"),
        BIT => Some("pg_catalog.\"bit\""),
        VARBIT => Some("pg_catalog.varbit"),
        _ => None,
    }
}

/// Elements of the arrays of such types.
fn element(oid: u32) -> Option<u32> {
    match oid {
        1015 => Some(VARCHAR),
        1014 => Some(BPCHAR),
        1561 => Some(BIT),
        1563 => Some(VARBIT),
        _ => None,
    }
}

/// First object id a user can own: such a type has another id on each node.
pub(crate) const FIRST_USER_OID: u32 = 16384;

/// A value with the type it came with.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Typed {
    pub oid: u32,
    pub modifier: i32,
    pub value: Option<Bytes>,
}

impl Typed {
    pub(crate) fn text(value: Option<String>) -> Self {
        Typed { oid: TEXT, modifier: -1, value: value.map(Bytes::from) }
    }
}

pub(crate) const BOOL: u32 = 16;
pub(crate) const OID: u32 = 26;
pub(crate) const INT2: u32 = 21;
pub(crate) const INT4: u32 = 23;
pub(crate) const INT8: u32 = 20;
pub(crate) const TEXT: u32 = 25;
pub(crate) const BPCHAR: u32 = 1042;
pub(crate) const VARCHAR: u32 = 1043;
pub(crate) const BIT: u32 = 1560;
pub(crate) const VARBIT: u32 = 1562;
pub(crate) const NUMERIC: u32 = 1700;
pub(crate) const RECORD: u32 = 2249;

/// Is a text of the one type a text of the other with the same meaning?
pub(crate) fn is_same_text(from: u32, from_modifier: i32, to: u32, to_modifier: i32) -> bool {
    let whole = to_modifier == -1;
    match (from, to) {
        _ if from == to => whole || from_modifier == to_modifier,
        (INT2, INT4 | INT8 | NUMERIC) | (INT4, INT8 | NUMERIC) | (INT8, NUMERIC) => whole,
        (VARCHAR, TEXT) | (TEXT, VARCHAR) => whole,
        _ => false,
    }
}

const SYSTEM_COLUMNS: [&str; 6] = ["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"];

/// A column of a record.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub name: String,
    pub typed: Typed,
}

/// What a variable may hold.
#[derive(Clone, Debug)]
pub(crate) enum Holds {
    Scalar(Type),
    /// Rows of this type.
    Row(Type),
    /// Rows of any type.
    Record,
}

/// A variable.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub name: String,
    pub holds: Holds,
    pub value: Option<Bytes>,
    /// Cells of a row or record; `None`: not assigned yet.
    pub cells: Option<Vec<Cell>>,
    /// `tableoid` of a trigger's row.
    pub tableoid: Option<Cell>,
    /// The row as a whole is NULL, which is not a row of NULLs.
    pub is_null: bool,
    pub constant: bool,
    pub not_null: bool,
}

impl Variable {
    pub fn scalar(name: impl Into<String>, of: Type, value: Option<Bytes>) -> Self {
        let (name, holds) = (name.into(), Holds::Scalar(of));
        Self { name, holds, value, cells: None, tableoid: None, is_null: false, constant: false, not_null: false }
    }

    pub fn new(name: impl Into<String>, of: Option<Type>) -> Self {
        let mut variable = Self {
            name: name.into(),
            holds: Holds::Record,
            value: None,
            cells: None,
            tableoid: None,
            is_null: true,
            constant: false,
            not_null: false,
        };
        if let Some(of) = of {
            match &of.fields {
                Some(fields) => {
                    variable.cells = Some(fields.iter().map(|(name, of)| empty_cell(name, of)).collect());
                    variable.holds = Holds::Row(of);
                }
                None => variable.holds = Holds::Scalar(of),
            }
        }
        variable
    }

    /// The text of a row or record.
    pub fn row(&self) -> Option<Bytes> {
        let cells = self.cells.as_ref().filter(|_| !self.is_null)?;
        Some(row_text(cells.iter().map(|cell| cell.typed.value.as_deref())))
    }

    /// A field of a row.
    pub fn cell(&self, field: &str) -> Result<&Cell> {
        let cells = self.cells.as_ref().ok_or_else(|| self.unassigned())?;
        let found = cells.iter().chain(&self.tableoid).find(|cell| cell.name == field);
        found.ok_or_else(|| self.no_field(field))
    }

    pub fn cell_mut(&mut self, field: &str) -> Result<&mut Cell> {
        let (unassigned, no_field) = (self.unassigned(), self.no_field(field));
        let cells = self.cells.as_mut().ok_or(unassigned)?;
        self.is_null = false;
        cells.iter_mut().find(|cell| cell.name == field).ok_or(no_field)
    }

    pub fn unassigned(&self) -> PgError {
        PgError::new(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("record \"{}\" is not assigned yet", self.name),
        )
        .detail("The tuple structure of a not-yet-assigned record is indeterminate.")
    }

    fn no_field(&self, field: &str) -> PgError {
        if SYSTEM_COLUMNS.contains(&field) {
            return PgError::unsupported(format!("system column \"{field}\" of variable \"{}\"", self.name))
                .detail("It means something on the row's own node only.")
                .hint("Leave it out; tableoid is known of OLD and NEW in triggers of tables.");
        }
        PgError::new(SqlState::UNDEFINED_COLUMN, format!("record \"{}\" has no field \"{field}\"", self.name))
    }
}

pub(crate) fn empty_cell(name: &str, of: &Type) -> Cell {
    Cell { name: name.to_owned(), typed: Typed { oid: of.oid, modifier: of.modifier, value: None } }
}

/// The text of a row, as PostgreSQL writes it.
pub fn row_text<'a>(values: impl Iterator<Item = Option<&'a [u8]>>) -> Bytes {
    let mut text = vec![b'('];
    for (at, value) in values.enumerate() {
        if at > 0 {
            text.push(b',');
        }
        let Some(value) = value else { continue };
        let quotes = value.is_empty() || value.iter().any(|b| b"\"\\(), \t\n\r\x0b\x0c".contains(b));
        if !quotes {
            text.extend_from_slice(value);
            continue;
        }
        text.push(b'"');
        for byte in value {
            if *byte == b'"' || *byte == b'\\' {
                text.push(*byte);
            }
            text.push(*byte);
        }
        text.push(b'"');
    }
    text.push(b')');
    Bytes::from(text)
}

/// The fields of a row's text.
pub fn row_fields(text: &[u8]) -> Result<Vec<Option<Bytes>>> {
    let inner = text.strip_prefix(b"(").and_then(|text| text.strip_suffix(b")"));
    let inner = inner.ok_or_else(|| PgError::internal("the text of a row has no brackets"))?;
    let (mut fields, mut field, mut is_null, mut quoted) = (Vec::new(), Vec::new(), true, false);
    let mut bytes = inner.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' if quoted && bytes.peek() == Some(&b'"') => field.extend(bytes.next()),
            b'"' => (quoted, is_null) = (!quoted, false),
            b'\\' => {
                field.extend(bytes.next());
                is_null = false;
            }
            b',' if !quoted => {
                fields.push((!is_null).then(|| Bytes::from(std::mem::take(&mut field))));
                is_null = true;
            }
            other => {
                field.push(other);
                is_null = false;
            }
        }
    }
    fields.push((!is_null).then(|| Bytes::from(field)));
    Ok(fields)
}

/// The text of a one-dimensional array.
pub fn array_text<'a>(values: impl Iterator<Item = Option<&'a [u8]>>) -> Bytes {
    let mut text = vec![b'{'];
    for (at, value) in values.enumerate() {
        if at > 0 {
            text.push(b',');
        }
        let Some(value) = value else {
            text.extend_from_slice(b"NULL");
            continue;
        };
        text.push(b'"');
        for byte in value {
            if *byte == b'"' || *byte == b'\\' {
                text.push(b'\\');
            }
            text.push(*byte);
        }
        text.push(b'"');
    }
    text.push(b'}');
    Bytes::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_are_written() {
        let values: [Option<&[u8]>; 6] = [Some(b"1"), None, Some(b""), Some(b"a \"b\""), Some(b"x\\y,"), None];
        let text = row_text(values.into_iter());
        assert_eq!(&text[..], br#"(1,,"","a ""b""","x\\y,",)"#);
        let fields = row_fields(&text).unwrap();
        assert_eq!(fields.iter().map(|f| f.as_deref()).collect::<Vec<_>>(), values);
    }

    #[test]
    fn arrays_are_quoted() {
        assert_eq!(&array_text([Some(&b"a\"\\"[..]), None].into_iter())[..], br#"{"a\"\\",NULL}"#);
    }
}
