//! Types, their values, and the columns tables are made of. Values are few, so that joins find partners and groups have
//! several rows; sums of floating point values are exact, so that no order of addition shows.

/// A type as far as expressions are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Small,
    Int,
    Big,
    Numeric,
    Float,
    Text,
    /// char(3): values of other lengths would be equal to others and look different.
    Padded,
    /// Text with a collation of its own.
    Word,
    Bool,
    Date,
    Stamp,
    Zoned,
    Uuid,
    Json,
    Ints,
    Mood,
    /// Only for LIMIT and OFFSET: a small bigint that is not negative.
    Count,
}

/// Kinds of columns and expressions.
pub const KINDS: &[Kind] = &[
    Kind::Small,
    Kind::Int,
    Kind::Int,
    Kind::Big,
    Kind::Numeric,
    Kind::Float,
    Kind::Text,
    Kind::Text,
    Kind::Padded,
    Kind::Word,
    Kind::Bool,
    Kind::Date,
    Kind::Stamp,
    Kind::Zoned,
    Kind::Uuid,
    Kind::Json,
    Kind::Ints,
    Kind::Mood,
];

/// Columns that tables choose from: name, type, kind, and whether it can be a hash key. A name means the same type
/// everywhere, so that NATURAL and USING have something to join.
pub const COLUMNS: &[(&str, &str, Kind, bool)] = &[
    ("i", "int", Kind::Int, true),
    ("k", "int", Kind::Int, true),
    ("s", "smallint", Kind::Small, true),
    ("b", "bigint", Kind::Big, true),
    ("n", "numeric(8,2)", Kind::Numeric, true),
    ("f", "float8", Kind::Float, true),
    ("t", "text", Kind::Text, true),
    ("v", "varchar(8)", Kind::Text, true),
    ("c", "char(3)", Kind::Padded, true),
    ("w", "text COLLATE \"en-x-icu\"", Kind::Word, true),
    ("o", "bool", Kind::Bool, true),
    ("d", "date", Kind::Date, true),
    ("ts", "timestamp", Kind::Stamp, true),
    ("tz", "timestamptz", Kind::Zoned, true),
    ("u", "uuid", Kind::Uuid, true),
    ("j", "jsonb", Kind::Json, false),
    ("a", "int[]", Kind::Ints, false),
    ("m", "mood", Kind::Mood, false),
];

impl Kind {
    /// The type's name in casts.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Small => "int2",
            Self::Int => "int4",
            Self::Big | Self::Count => "int8",
            Self::Numeric => "numeric",
            Self::Float => "float8",
            Self::Text | Self::Word => "text",
            Self::Padded => "char(3)",
            Self::Bool => "bool",
            Self::Date => "date",
            Self::Stamp => "timestamp",
            Self::Zoned => "timestamptz",
            Self::Uuid => "uuid",
            Self::Json => "jsonb",
            Self::Ints => "int4[]",
            Self::Mood => "mood",
        }
    }

    fn values(self) -> &'static [&'static str] {
        match self {
            Self::Small | Self::Int | Self::Big => &["0", "1", "2", "3", "4", "5", "6", "7", "8", "-1", "12"],
            Self::Count => &["3", "1", "5", "2", "0", "8", "13"],
            Self::Numeric => &["0.00", "1.00", "1.50", "2.00", "-3.25", "7.10", "12.00"],
            Self::Float => &["0", "1", "1.5", "2", "-3.25", "7", "12"],
            Self::Text | Self::Padded | Self::Word => &["a", "b", "", "A", "ab", "ä", "zz", "B", "a b"],
            Self::Bool => &["true", "false"],
            Self::Date => &["2024-01-01", "2024-02-29", "2024-03-01", "1999-12-31", "2024-01-02"],
            Self::Stamp => {
                &["2024-01-01 00:00:00", "2024-02-29 12:30:00", "2024-01-02 00:00:00", "1999-12-31 23:59:59"]
            }
            Self::Zoned => &[
                "2024-01-01 00:00:00+00",
                "2024-02-29 12:30:00+02",
                "2024-01-02 00:00:00+00",
                "1999-12-31 23:59:59+00",
            ],
            Self::Uuid => &[
                "00000000-0000-0000-0000-000000000001",
                "00000000-0000-0000-0000-000000000002",
                "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            ],
            Self::Json => &["1", "null", "{\"a\": 1}", "{\"a\": 2, \"b\": [1, 2]}", "[1, 2, 3]", "\"x\""],
            Self::Ints => &["{}", "{1}", "{1,2,3}", "{3,NULL}", "{2,1}"],
            Self::Mood => &["sad", "ok", "glad"],
        }
    }

    /// The n-th value as text; numbers go round.
    pub fn value(self, index: usize) -> &'static str {
        self.values()[index % self.values().len()]
    }

    /// The n-th value as SQL.
    pub fn literal(self, index: usize) -> String {
        let value = self.value(index);
        match self {
            Self::Int | Self::Count if value.starts_with('-') => format!("({value})"),
            Self::Int | Self::Count | Self::Bool => value.to_owned(),
            // A bare literal is what people write; its type comes from what it is compared with, or is text.
            Self::Text if index.is_multiple_of(2) => format!("'{value}'"),
            _ => format!("'{value}'::{}", self.type_name()),
        }
    }

    /// Can min() and max() take it, on every version?
    pub fn has_minimum(self) -> bool {
        !matches!(self, Self::Bool | Self::Uuid | Self::Json)
    }
}
