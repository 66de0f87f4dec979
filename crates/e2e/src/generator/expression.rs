//! Expressions of a wanted kind, and conditions. Nothing here can fail for one order of evaluation and not for another: no
//! division by a column, no cast that a value may not survive.

use super::kind::Kind;
use super::part::{Part, seq};
use super::scope::Generator;

/// Operators and functions: what they give, how they are written (`?` is an argument) and what they take.
const OPERATIONS: &[(Kind, &str, &[Kind])] = &[
    (Kind::Small, "(? + 1::int2)", &[Kind::Small]),
    (Kind::Small, "abs(?)", &[Kind::Small]),
    (Kind::Int, "(? + ?)", &[Kind::Int, Kind::Int]),
    (Kind::Int, "(? - ?)", &[Kind::Int, Kind::Small]),
    (Kind::Int, "(? % 3)", &[Kind::Int]),
    (Kind::Int, "(? / 2)", &[Kind::Int]),
    (Kind::Int, "(-?)", &[Kind::Int]),
    (Kind::Int, "length(?)", &[Kind::Text]),
    (Kind::Int, "length(?)", &[Kind::Word]),
    (Kind::Int, "?::int4", &[Kind::Small]),
    (Kind::Int, "?::int4", &[Kind::Bool]),
    (Kind::Int, "(? - ?)", &[Kind::Date, Kind::Date]),
    (Kind::Int, "cardinality(?)", &[Kind::Ints]),
    (Kind::Int, "(?)[1]", &[Kind::Ints]),
    (Kind::Int, "extract(day from ?)::int4", &[Kind::Date]),
    (Kind::Int, "strpos(?, 'a')", &[Kind::Text]),
    (Kind::Int, "num_nulls(?, ?)", &[Kind::Text, Kind::Int]),
    (Kind::Int, "ascii(?)", &[Kind::Text]),
    (Kind::Big, "(? + ?)", &[Kind::Big, Kind::Int]),
    (Kind::Big, "?::int8", &[Kind::Int]),
    (Kind::Big, "round(?)::int8", &[Kind::Numeric]),
    (Kind::Numeric, "(? + ?)", &[Kind::Numeric, Kind::Numeric]),
    (Kind::Numeric, "(? * 2)", &[Kind::Numeric]),
    (Kind::Numeric, "(? - ?)", &[Kind::Numeric, Kind::Int]),
    (Kind::Numeric, "(? / 4)", &[Kind::Numeric]),
    (Kind::Numeric, "round(?, 1)", &[Kind::Numeric]),
    (Kind::Numeric, "?::numeric", &[Kind::Int]),
    (Kind::Float, "(? + ?)", &[Kind::Float, Kind::Float]),
    (Kind::Float, "(? * 0.5)", &[Kind::Float]),
    (Kind::Float, "?::float8", &[Kind::Int]),
    (Kind::Float, "floor(?)", &[Kind::Float]),
    (Kind::Text, "(? || ?)", &[Kind::Text, Kind::Text]),
    (Kind::Text, "upper(?)", &[Kind::Text]),
    (Kind::Text, "substr(?, 1, 2)", &[Kind::Text]),
    (Kind::Text, "?::text", &[Kind::Int]),
    (Kind::Text, "?::text", &[Kind::Mood]),
    (Kind::Text, "?::text", &[Kind::Uuid]),
    (Kind::Text, "?::text", &[Kind::Bool]),
    (Kind::Text, "?::text", &[Kind::Padded]),
    (Kind::Text, "(? || ?)", &[Kind::Padded, Kind::Text]),
    (Kind::Bool, "(? = ?)", &[Kind::Padded, Kind::Text]),
    (Kind::Bool, "(? < ?)", &[Kind::Text, Kind::Padded]),
    (Kind::Int, "length(?)", &[Kind::Padded]),
    (Kind::Text, "concat(?, '-', ?)", &[Kind::Text, Kind::Int]),
    (Kind::Text, "coalesce(?, 'none')", &[Kind::Text]),
    (Kind::Text, "to_char(?, 'YYYY-MM')", &[Kind::Date]),
    (Kind::Text, "replace(?, 'a', 'x')", &[Kind::Text]),
    (Kind::Text, "lpad(?, 3, '*')", &[Kind::Text]),
    (Kind::Text, "left(md5(?), 4)", &[Kind::Text]),
    (Kind::Text, "(? COLLATE \"C\")", &[Kind::Word]),
    (Kind::Text, "(? ->> 'a')", &[Kind::Json]),
    (Kind::Text, "array_to_string(?, ',', 'nil')", &[Kind::Ints]),
    (Kind::Text, "jsonb_typeof(?)", &[Kind::Json]),
    (Kind::Word, "lower(?)", &[Kind::Word]),
    (Kind::Word, "(? COLLATE \"en-x-icu\")", &[Kind::Text]),
    (Kind::Date, "(? + ?)", &[Kind::Date, Kind::Small]),
    (Kind::Date, "?::date", &[Kind::Stamp]),
    (Kind::Stamp, "(? + interval '1 day')", &[Kind::Stamp]),
    (Kind::Stamp, "date_trunc('month', ?)", &[Kind::Stamp]),
    (Kind::Stamp, "?::timestamp", &[Kind::Date]),
    (Kind::Zoned, "(? - interval '2 hours')", &[Kind::Zoned]),
    (Kind::Zoned, "date_trunc('day', ?)", &[Kind::Zoned]),
    (Kind::Json, "to_jsonb(?)", &[Kind::Int]),
    (Kind::Json, "jsonb_build_object('x', ?)", &[Kind::Text]),
    (Kind::Json, "(? -> 'b')", &[Kind::Json]),
    (Kind::Ints, "array[?, ?]", &[Kind::Int, Kind::Int]),
    (Kind::Ints, "(? || ?)", &[Kind::Ints, Kind::Int]),
    (Kind::Ints, "array_remove(?, 3)", &[Kind::Ints]),
    (Kind::Ints, "(?)[1:2]", &[Kind::Ints]),
    (Kind::Bool, "(? @> ?)", &[Kind::Ints, Kind::Ints]),
    (Kind::Bool, "(? && ?)", &[Kind::Ints, Kind::Ints]),
    (Kind::Bool, "(? @> ?)", &[Kind::Json, Kind::Json]),
    (Kind::Bool, "(? = ANY (?))", &[Kind::Int, Kind::Ints]),
    (Kind::Bool, "(? <> ALL (?))", &[Kind::Int, Kind::Ints]),
    (Kind::Bool, "(? LIKE 'a%')", &[Kind::Text]),
    (Kind::Bool, "(? NOT LIKE '%b')", &[Kind::Text]),
    (Kind::Bool, "(? ~ '^[a-z]')", &[Kind::Text]),
    (Kind::Bool, "(? ILIKE 'A%')", &[Kind::Text]),
    (Kind::Bool, "starts_with(?, 'a')", &[Kind::Text]),
    (Kind::Bool, "(? IS TRUE)", &[Kind::Bool]),
    (Kind::Bool, "(? IS NOT FALSE)", &[Kind::Bool]),
    (Kind::Bool, "(? IS UNKNOWN)", &[Kind::Bool]),
    (Kind::Bool, "(? > ?)", &[Kind::Int, Kind::Big]),
    (Kind::Bool, "(? = ?)", &[Kind::Int, Kind::Numeric]),
    (Kind::Bool, "(? = ?)", &[Kind::Float, Kind::Int]),
    (Kind::Bool, "(? = ?)", &[Kind::Small, Kind::Big]),
    (Kind::Bool, "(? < ?)", &[Kind::Date, Kind::Stamp]),
    (Kind::Bool, "(? = ?)", &[Kind::Date, Kind::Zoned]),
    (Kind::Bool, "((?, ?) < (?, ?))", &[Kind::Int, Kind::Text, Kind::Int, Kind::Text]),
    (Kind::Bool, "((?, ?) = (?, ?))", &[Kind::Int, Kind::Int, Kind::Int, Kind::Int]),
    (Kind::Bool, "(row(?, ?) IS DISTINCT FROM row(?, ?))", &[Kind::Int, Kind::Date, Kind::Int, Kind::Date]),
    (Kind::Bool, "(row(?, ?) IS NOT NULL)", &[Kind::Int, Kind::Text]),
];

const COMPARISONS: &[&str] = &["=", "=", "=", "<>", "<", "<=", ">", ">="];

impl Generator<'_> {
    /// A constant.
    pub(super) fn constant(&mut self, kind: Kind) -> Part {
        Part::Value(kind, self.below(12))
    }

    /// A constant beside something of the kind: now and then without its type.
    pub(super) fn operand(&mut self, kind: Kind) -> Part {
        if self.one_in(3) { Part::Untyped(kind, self.below(12)) } else { self.constant(kind) }
    }

    /// An expression.
    pub(super) fn value(&mut self, kind: Kind, depth: usize) -> Part {
        if depth == 0 || self.one_in(3) {
            return self.leaf(kind);
        }
        let part = match self.below(12) {
            0 if self.may_select() => self.scalar_select(kind, depth - 1),
            1 => {
                let (condition, then, other) =
                    (self.condition(depth - 1), self.value(kind, depth - 1), self.value(kind, depth - 1));
                seq!["CASE WHEN ", condition, " THEN ", then, Part::optional(seq![" ELSE ", other]), " END"]
            }
            2 => seq!["coalesce(", self.value(kind, depth - 1), ", ", self.leaf(kind), ")"],
            3 => seq!["nullif(", self.value(kind, depth - 1), ", ", self.leaf(kind), ")"],
            4 if !matches!(kind, Kind::Json | Kind::Ints | Kind::Bool) => {
                let word = self.word(&["greatest(", "least("]);
                seq![word, self.value(kind, depth - 1), ", ", self.leaf(kind), ")"]
            }
            5 if kind == Kind::Bool => self.condition(depth - 1),
            _ => self.operation(kind, depth),
        };
        let simpler = vec![self.leaf(kind), seq!["NULL::", kind.type_name()]];
        part.or(simpler)
    }

    /// A column or a constant.
    pub(super) fn leaf(&mut self, kind: Kind) -> Part {
        if self.one_in(12) {
            return seq!["NULL::", kind.type_name()];
        }
        match self.column(kind) {
            Some(column) if !self.one_in(5) => column.into(),
            _ => self.constant(kind),
        }
    }

    fn operation(&mut self, kind: Kind, depth: usize) -> Part {
        let fitting: Vec<_> = OPERATIONS.iter().filter(|operation| operation.0 == kind).collect();
        if fitting.is_empty() {
            return self.leaf(kind);
        }
        let (_, template, kinds) = fitting[self.below(fitting.len())];
        let arguments = kinds.iter().map(|kind| self.value(*kind, depth - 1)).collect();
        fill(template, arguments)
    }

    /// A condition.
    pub(super) fn condition(&mut self, depth: usize) -> Part {
        let part = match self.below(if depth == 0 { 7 } else { 16 }) {
            0..=2 => self.comparison(depth),
            3 => {
                let kind = self.kind();
                let word = self.word(&[" IS NULL)", " IS NOT NULL)"]);
                seq!["(", self.leaf(kind), word]
            }
            4 => {
                let kind = self.kind();
                let word = self.word(&[" IN (", " IN (", " NOT IN ("]);
                let items = (0..1 + self.below(3)).map(|_| self.operand(kind)).collect();
                seq!["(", self.leaf(kind), word, Part::list(items), "))"]
            }
            5 => {
                let kind = self.kind();
                let word = self.word(&[" BETWEEN ", " BETWEEN SYMMETRIC ", " NOT BETWEEN "]);
                seq!["(", self.leaf(kind), word, self.leaf(kind), " AND ", self.leaf(kind), ")"]
            }
            6 => {
                let kind = self.kind();
                let word = self.word(&[" IS DISTINCT FROM ", " IS NOT DISTINCT FROM "]);
                seq!["(", self.leaf(kind), word, self.leaf(kind), ")"]
            }
            7 | 8 => {
                let separator = self.word(&[" AND ", " AND ", " OR "]);
                let items = (0..2 + self.below(2)).map(|_| self.condition(depth - 1)).collect();
                seq!["(", Part::List { items, separator, least: 1 }, ")"]
            }
            9 => seq!["(NOT ", self.condition(depth - 1), ")"],
            10..=13 if self.may_select() => self.condition_with_select(depth - 1),
            _ => self.operation(Kind::Bool, depth.max(1)),
        };
        part.or(vec!["true".into(), "false".into()])
    }

    fn comparison(&mut self, depth: usize) -> Part {
        let kind = self.kind();
        let operator = self.word(COMPARISONS);
        let left = self.value(kind, depth.min(1));
        let right = if self.one_in(3) { self.operand(kind) } else { self.leaf(kind) };
        seq!["(", left, format!(" {operator} "), right, ")"]
    }

    /// EXISTS, IN, ANY, ALL, and a comparison with a scalar sub-select.
    fn condition_with_select(&mut self, depth: usize) -> Part {
        let kind = self.kind();
        match self.below(7) {
            0 | 1 => {
                let word = self.word(&["EXISTS (", "(NOT EXISTS ("]);
                let query = self.select(&[kind], depth);
                seq![word, query, if word.starts_with('(') { "))" } else { ")" }]
            }
            2 | 3 => {
                let word = self.word(&[" IN (", " NOT IN ("]);
                let left = self.leaf(kind);
                seq!["(", left, word, self.select(&[kind], depth), "))"]
            }
            4 => {
                let other = self.kind();
                let word = self.word(&[") IN (", ") NOT IN ("]);
                let (left, right) = (self.leaf(kind), self.leaf(other));
                seq!["((", left, ", ", right, word, self.select(&[kind, other], depth), "))"]
            }
            5 => {
                let operator = self.word(COMPARISONS);
                let word = self.word(&["ANY", "ALL"]);
                let left = self.leaf(kind);
                seq!["(", left, format!(" {operator} {word} ("), self.select(&[kind], depth), "))"]
            }
            _ => {
                let operator = self.word(COMPARISONS);
                let left = self.leaf(kind);
                seq!["(", left, format!(" {operator} "), self.scalar_select(kind, depth), ")"]
            }
        }
    }
}

/// Writes arguments into a template's question marks.
pub(super) fn fill(template: &str, arguments: Vec<Part>) -> Part {
    let mut words = template.split('?');
    let mut parts = vec![Part::from(words.next().unwrap_or_default())];
    for (argument, word) in arguments.into_iter().zip(words) {
        parts.push(argument);
        parts.push(word.into());
    }
    Part::Seq(parts)
}
