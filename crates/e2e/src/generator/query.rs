//! SELECT: plain, grouped, with windows, set operations, WITH; and the ends that make an answer determined.

use super::kind::Kind;
use super::part::{Part, seq};
use super::scope::{Common, Generator, Source, qualified};

/// A query and how its answer is to be compared.
#[derive(Clone, Debug)]
pub struct Query {
    /// All but its end.
    head: Part,
    /// ORDER BY and LIMIT.
    tail: Part,
    /// Rows come in a determined order.
    pub ordered: bool,
    /// A column may be of type numeric.
    pub has_numeric: bool,
}

impl Query {
    /// The whole text. Where it is about the order of rows, the end is not to be left out.
    pub fn part(&self, keep_order: bool) -> Part {
        let tail = Box::new(self.tail.clone());
        seq![self.head.clone(), if keep_order { Part::Fixed(tail) } else { Part::Optional(tail) }]
    }
}

/// How deep sub-selects and expressions go.
const DEPTH: usize = 3;

impl Generator<'_> {
    /// A whole statement.
    pub fn query(&mut self) -> Query {
        let with = match self.one_in(5) {
            true => self.with_clause(),
            false => Part::Seq(Vec::new()),
        };
        let kinds: Vec<Kind> = (0..1 + self.below(5)).map(|_| self.kind()).collect();
        match self.below(24) {
            0 => return self.whole_rows(),
            1 => {
                let (head, tail) = (seq![with, self.star()], Part::Seq(Vec::new()));
                return Query { head, tail, ordered: false, has_numeric: true };
            }
            2 => {
                let (body, tail) = self.ordered_by_expression(&kinds);
                let has_numeric = kinds.contains(&Kind::Numeric);
                return Query { head: seq![with, body], tail, ordered: true, has_numeric };
            }
            _ => {}
        }
        let body = self.select_body(&kinds, DEPTH);
        let (tail, ordered) = match self.below(3) {
            0 => (Part::Seq(Vec::new()), false),
            1 => (seq![" ORDER BY ", self.total_order(kinds.len())], true),
            _ => (self.limited(kinds.len()), true),
        };
        Query { head: seq![with, body], tail, ordered, has_numeric: kinds.contains(&Kind::Numeric) }
    }

    /// A query of these kinds, for use in parentheses.
    pub(super) fn select(&mut self, kinds: &[Kind], depth: usize) -> Part {
        let body = self.select_body(kinds, depth);
        match self.one_in(5) {
            true => seq![body, Part::optional(self.limited(kinds.len()))],
            false => body,
        }
    }

    /// `(SELECT …)` of one column and at most one row.
    pub(super) fn scalar_select(&mut self, kind: Kind, depth: usize) -> Part {
        let (from, sources) = self.from(depth.min(1));
        self.levels.push(sources);
        let filter = self.where_clause(depth);
        let aggregate = if self.one_in(3) { None } else { self.aggregate(kind, depth.min(1)) };
        let part = match aggregate {
            Some(aggregate) => seq!["(SELECT ", aggregate, " FROM ", from, filter, ")"],
            None => {
                let value = self.value(kind, depth.min(1));
                seq!["(SELECT ", value, " AS c1 FROM ", from, filter, " ORDER BY 1 LIMIT 1)"]
            }
        };
        self.levels.pop();
        part
    }

    fn select_body(&mut self, kinds: &[Kind], depth: usize) -> Part {
        match self.below(12) {
            0 | 1 if depth > 0 && self.may_select() => self.set_operation(kinds, depth - 1),
            2 if self.one_in(3) => seq!["VALUES ", self.values_rows(kinds)],
            3 | 4 => self.grouped(kinds, depth),
            5 => self.aggregated(kinds, depth),
            6 => self.windowed(kinds, depth),
            7 => self.distinct_on(kinds, depth),
            _ => self.plain(kinds, depth),
        }
    }

    fn set_operation(&mut self, kinds: &[Kind], depth: usize) -> Part {
        let word =
            self.word(&["UNION", "UNION ALL", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]);
        let (left, right) = (self.select(kinds, depth), self.select(kinds, depth));
        let part = seq!["(", left.clone(), format!(") {word} ("), right.clone(), ")"];
        part.or(vec![left, right])
    }

    fn where_clause(&mut self, depth: usize) -> Part {
        match self.one_in(3) {
            true => Part::Seq(Vec::new()),
            false => Part::optional(seq![" WHERE ", self.condition(depth.min(2))]),
        }
    }

    fn plain(&mut self, kinds: &[Kind], depth: usize) -> Part {
        let (from, sources) = self.from(depth);
        self.levels.push(sources);
        let filter = self.where_clause(depth);
        let distinct = if self.one_in(6) { Part::optional("DISTINCT ") } else { Part::Seq(Vec::new()) };
        let mut targets = Vec::new();
        for (number, kind) in kinds.iter().enumerate() {
            let value = match kind {
                Kind::Int if self.one_in(25) => "generate_series(1, 2)".into(),
                _ => self.value(*kind, depth.min(2)),
            };
            targets.push(seq![value, format!(" AS c{}", number + 1)]);
        }
        self.levels.pop();
        seq!["SELECT ", distinct, Part::list(targets), " FROM ", from, filter]
    }

    fn aggregated(&mut self, kinds: &[Kind], depth: usize) -> Part {
        let (from, sources) = self.from(depth);
        self.levels.push(sources);
        let filter = self.where_clause(depth);
        let targets = self.aggregated_targets(kinds, &[], depth);
        let having = match self.one_in(6) {
            true => Part::optional(seq![" HAVING ", self.having(depth)]),
            false => Part::Seq(Vec::new()),
        };
        self.levels.pop();
        seq!["SELECT ", Part::list(targets), " FROM ", from, filter, having]
    }

    /// One aggregate a column, or a constant where there is none of the kind; at the places of `keys`, these.
    fn aggregated_targets(&mut self, kinds: &[Kind], keys: &[(usize, Part)], depth: usize) -> Vec<Part> {
        let mut targets = Vec::new();
        for (number, kind) in kinds.iter().enumerate() {
            let value = match keys.iter().find(|key| key.0 == number) {
                Some((_, key)) => key.clone(),
                None => match self.aggregate(*kind, depth.min(2)) {
                    Some(aggregate) => aggregate,
                    None => self.constant(*kind),
                },
            };
            targets.push(seq![value, format!(" AS c{}", number + 1)]);
        }
        targets
    }

    fn having(&mut self, depth: usize) -> Part {
        let kind = self.word_kind(&[Kind::Big, Kind::Int, Kind::Numeric, Kind::Text]);
        let operator = self.word(&[" > ", " <= ", " <> ", " = "]);
        match self.aggregate(kind, depth.min(1)) {
            Some(aggregate) => seq!["(", aggregate, operator, self.constant(kind), ")"],
            None => "count(*) > 1".into(),
        }
    }

    fn word_kind(&mut self, kinds: &[Kind]) -> Kind {
        kinds[self.below(kinds.len())]
    }

    fn grouped(&mut self, kinds: &[Kind], depth: usize) -> Part {
        let (from, sources) = self.from(depth);
        self.levels.push(sources);
        let filter = self.where_clause(depth);
        let sets = self.one_in(3);
        let mut keys: Vec<(usize, Part)> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for (number, kind) in kinds.iter().enumerate() {
            if !self.one_in(2) {
                continue;
            }
            let columns = self.columns_here(*kind);
            match columns.get(self.below(columns.len().max(1))) {
                Some(column) if sets || self.one_in(2) => {
                    keys.push((number, column.clone().into()));
                    names.push(column.clone());
                }
                _ if sets => {}
                _ => {
                    let value = self.value(*kind, 1);
                    keys.push((number, value));
                    names.push((number + 1).to_string());
                }
            }
        }
        if names.is_empty() {
            // A key that is not among the output columns.
            names.extend(self.any_column().map(|column| column.0));
        }
        let over = names.first().filter(|name| name.contains('.')).cloned();
        let group = if names.is_empty() { "()".to_owned() } else { names.join(", ") };
        let group = match (sets, self.below(4)) {
            (true, 0) => format!("ROLLUP ({group})"),
            (true, 1) if names.len() < 4 => format!("CUBE ({group})"),
            (true, 2) if !names.is_empty() => format!("GROUPING SETS (({group}), ({}), ())", names[0]),
            _ => group,
        };
        let mut targets = self.aggregated_targets(kinds, &keys, depth);
        if let (Some(at), Some(over)) = (kinds.iter().position(|kind| *kind == Kind::Big), over)
            && self.one_in(3)
        {
            targets[at] = format!("rank() OVER (PARTITION BY {over} ORDER BY count(*)) AS c{}", at + 1).into();
        }
        let having = self.grouped_having(&names, depth);
        self.levels.pop();
        seq!["SELECT ", Part::list(targets), " FROM ", from, filter, format!(" GROUP BY {group}"), having]
    }

    /// HAVING with an aggregate, or with any condition over the grouped columns.
    fn grouped_having(&mut self, names: &[String], depth: usize) -> Part {
        if !self.one_in(3) {
            return Part::Seq(Vec::new());
        }
        if self.one_in(2) {
            return Part::optional(seq![" HAVING ", self.having(depth)]);
        }
        let Some(level) = self.levels.pop() else { return Part::Seq(Vec::new()) };
        let grouped = |source: &Source| {
            let all = qualified(source).zip(&source.columns);
            let columns = all.filter(|((name, _), _)| names.contains(name)).map(|(_, column)| column.clone()).collect();
            Source { columns, id: None, ..source.clone() }
        };
        self.levels.push(level.iter().map(grouped).collect());
        let condition = self.condition(depth.min(2));
        self.levels.pop();
        self.levels.push(level);
        Part::optional(seq![" HAVING ", condition])
    }

    fn windowed(&mut self, kinds: &[Kind], depth: usize) -> Part {
        let (from, sources) = self.from(depth);
        self.levels.push(sources);
        let filter = self.where_clause(depth);
        let named = match (self.one_in(2), self.any_column(), self.any_column()) {
            (true, Some((partition, _)), Some((order, _))) => {
                Some((self.fresh("win"), format!("PARTITION BY {partition} ORDER BY {order}")))
            }
            _ => None,
        };
        let name = named.as_ref().map(|named| named.0.as_str());
        let mut targets = Vec::new();
        for (number, kind) in kinds.iter().enumerate() {
            let window = if self.one_in(2) { None } else { self.window(*kind, name, depth) };
            let value = match window {
                Some(window) => window,
                None => self.value(*kind, depth.min(1)),
            };
            targets.push(seq![value, format!(" AS c{}", number + 1)]);
        }
        self.levels.pop();
        let window = match named {
            Some((name, definition)) => format!(" WINDOW {name} AS ({definition})").into(),
            None => Part::Seq(Vec::new()),
        };
        seq!["SELECT ", Part::list(targets), " FROM ", from, filter, window]
    }

    fn distinct_on(&mut self, kinds: &[Kind], depth: usize) -> Part {
        let (from, sources) = self.from(depth);
        self.levels.push(sources);
        let filter = self.where_clause(depth);
        let targets: Vec<Part> = kinds
            .iter()
            .enumerate()
            .map(|(number, kind)| seq![self.value(*kind, depth.min(1)), format!(" AS c{}", number + 1)])
            .collect();
        self.levels.pop();
        let keys = 1 + self.below(kinds.len());
        let on: Vec<String> = (1..=keys).map(|number| number.to_string()).collect();
        let order: Vec<String> = (1..=kinds.len()).map(|number| number.to_string()).collect();
        let head = format!("SELECT * FROM (SELECT DISTINCT ON ({}) ", on.join(", "));
        let tail = format!(" ORDER BY {}) {}", order.join(", "), self.fresh("d"));
        seq![head, Part::list(targets), " FROM ", from, filter, tail]
    }

    /// Every output column, in any order and direction: rows that tie are the same.
    fn total_order(&mut self, columns: usize) -> String {
        let start = self.below(columns);
        let items = (0..columns).map(|number| {
            let number = (start + number) % columns + 1;
            let direction = self.word(&["", "", " DESC", " NULLS FIRST", " DESC NULLS LAST", " ASC"]);
            format!("{number}{direction}")
        });
        items.collect::<Vec<_>>().join(", ")
    }

    fn limited(&mut self, columns: usize) -> Part {
        let order = self.total_order(columns);
        let count = self.constant(Kind::Count);
        let limit = match self.below(5) {
            0 => seq![" FETCH FIRST (", count, ") ROWS WITH TIES"],
            1 => seq![" OFFSET ", count],
            2 => seq![" LIMIT ", count, Part::optional(seq![" OFFSET ", self.constant(Kind::Count)])],
            _ => seq![" LIMIT ", count],
        };
        seq![" ORDER BY ", order, Part::optional(limit)]
    }

    fn with_clause(&mut self) -> Part {
        let mut items = Vec::new();
        let recursive = self.one_in(4);
        if recursive {
            items.push(self.recursive());
        }
        for _ in 0..1 + self.below(2) {
            let kinds: Vec<Kind> = (0..1 + self.below(3)).map(|_| self.kind()).collect();
            let query = self.select(&kinds, 1);
            let name = self.fresh("cte");
            let hint = self.word(&["", "", "MATERIALIZED ", "NOT MATERIALIZED "]);
            let columns: Vec<(String, Kind)> =
                kinds.iter().enumerate().map(|(number, kind)| (format!("c{}", number + 1), *kind)).collect();
            let list: Vec<&str> = columns.iter().map(|column| column.0.as_str()).collect();
            items.push(seq![format!("{name}({}) AS {hint}(", list.join(", ")), query, ")"]);
            self.commons.push(Common { name, columns });
        }
        let word = if recursive { "WITH RECURSIVE " } else { "WITH " };
        seq![word, Part::list(items), " "]
    }

    /// Ends, because UNION keeps no pair of numbers twice, or because a counter does.
    fn recursive(&mut self) -> Part {
        let tables: Vec<_> = self.world.tables.iter().filter(|table| table.has_id).collect();
        let (table, other) = (tables[self.below(tables.len())], tables[self.below(tables.len())]);
        let name = self.fresh("rec");
        let columns = vec![("c1".to_owned(), Kind::Int), ("c2".to_owned(), Kind::Int)];
        let numbers = |table: &super::world::Table| -> Vec<String> {
            let all = table.columns.iter().filter(|column| column.1 == Kind::Int);
            all.map(|column| column.0.clone()).collect()
        };
        let (mine, others) = (numbers(table), numbers(other));
        let (start, step) = (&mine[self.below(mine.len())], &others[self.below(others.len())]);
        let text = match self.below(2) {
            0 => format!(
                "SELECT id, {start} FROM {} UNION SELECT o.id, r.c2 FROM {name} r JOIN {} o ON o.{step} = r.c1",
                table.name, other.name
            ),
            _ => format!("SELECT id, 1 FROM {} UNION ALL SELECT c1 + 1, c2 + 1 FROM {name} WHERE c2 < 4", table.name),
        };
        self.commons.push(Common { name: name.clone(), columns });
        format!("{name}(c1, c2) AS ({text})").into()
    }

    /// `SELECT *` over any joins: with USING and NATURAL the columns are not just those of the tables in a row.
    fn star(&mut self) -> Part {
        let (from, sources) = self.from(DEPTH - 1);
        let alias = sources[self.below(sources.len())].alias.clone();
        self.levels.push(sources);
        let filter = self.where_clause(2);
        self.levels.pop();
        let target = if self.one_in(3) { format!("{alias}.*") } else { "*".to_owned() };
        seq![format!("SELECT {target} FROM "), from, filter]
    }

    /// An order that the output does not show, made total by the tables' ids.
    fn ordered_by_expression(&mut self, kinds: &[Kind]) -> (Part, Part) {
        let (mut from, first) = self.id_source();
        let mut sources = vec![first];
        if self.one_in(2) {
            let (other, second) = self.id_source();
            let word = self.word(&[" LEFT JOIN ", " JOIN ", " CROSS JOIN "]);
            let condition = match word {
                " CROSS JOIN " => String::new(),
                _ => format!(" ON {}.id = {}.id", sources[0].alias, second.alias),
            };
            from = seq![from, word, other, condition];
            sources.push(second);
        }
        let ids: Vec<String> = sources.iter().map(|source| format!("{}.id", source.alias)).collect();
        self.levels.push(sources);
        let filter = self.where_clause(2);
        let targets = kinds.iter().map(|kind| self.value(*kind, 2)).collect();
        let key = self.kind();
        let direction = self.word(&["", " DESC", " NULLS FIRST"]);
        let order =
            seq![" ORDER BY ", Part::optional(seq!["coalesce(NULL, ", self.value(key, 1), ")", direction, ", "])];
        self.levels.pop();
        let limit = Part::optional(seq![" LIMIT ", self.constant(Kind::Count)]);
        (seq!["SELECT ", Part::list(targets), " FROM ", from, filter], seq![order, ids.join(", "), limit])
    }

    fn id_source(&mut self) -> (Part, Source) {
        loop {
            let (part, source) = self.table_source();
            if source.id.is_some() {
                return (part, source);
            }
        }
    }

    /// Whole rows of a table, row locks.
    fn whole_rows(&mut self) -> Query {
        let (from, source) = self.table_source();
        let alias = source.alias.clone();
        let (is_table, id) = (source.is_table, source.id.clone());
        self.levels.push(vec![source]);
        let filter = self.where_clause(1);
        self.levels.pop();
        let target = match (self.below(5), &id) {
            // The row of a view is of type record here, and of the view's own type there.
            (0, _) if is_table => alias.clone(),
            (1, _) => format!("{alias}::text, {alias} IS NULL"),
            (2, _) if is_table => format!("tableoid::regclass::text, {alias}.*"),
            (3, _) => format!("to_jsonb({alias})"),
            _ => "*".to_owned(),
        };
        let lock = match is_table && self.one_in(2) {
            true => {
                let word = self.word(&["UPDATE", "SHARE", "NO KEY UPDATE", "KEY SHARE"]);
                Part::optional(format!(" FOR {word}"))
            }
            false => Part::Seq(Vec::new()),
        };
        let order = match id {
            Some(id) if self.one_in(2) => Part::optional(format!(" ORDER BY {alias}.{id}")),
            _ => Part::Seq(Vec::new()),
        };
        let head = seq![format!("SELECT {target} FROM "), from, filter];
        Query { head, tail: seq![order, lock], ordered: false, has_numeric: true }
    }
}
