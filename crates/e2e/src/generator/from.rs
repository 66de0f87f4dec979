//! FROM: tables, views, sub-selects, LATERAL, functions, VALUES, and all kinds of joins of them.

use super::kind::Kind;
use super::part::{Part, seq};
use super::scope::{Generator, Source, columns_of, qualified};

impl Generator<'_> {
    /// A FROM list. Its sources are for the caller to open a level with.
    pub(super) fn from(&mut self, depth: usize) -> (Part, Vec<Source>) {
        let (mut part, mut sources) = self.source(depth);
        let joins = [0, 0, 0, 1, 1, 1, 2, 2, 3][self.below(9)];
        for _ in 0..joins {
            (part, sources) = self.join(part, sources, depth);
        }
        if sources.len() < 3 && self.one_in(10) {
            let (other, more) = self.source(depth);
            part = seq![part, ", ", other];
            sources.extend(more);
        }
        (part, sources)
    }

    /// A single table with an alias.
    pub(super) fn table_source(&mut self) -> (Part, Source) {
        let table = &self.world.tables[self.rng.below(self.world.tables.len())];
        let alias = self.fresh("a");
        let source = Source {
            alias: alias.clone(),
            columns: table.columns.clone(),
            id: table.has_id.then(|| "id".to_owned()),
            is_table: table.is_changed,
        };
        (format!("{} {alias}", table.name).into(), source)
    }

    fn source(&mut self, depth: usize) -> (Part, Vec<Source>) {
        let (part, source) = match self.below(12) {
            0 | 1 if depth > 0 && self.may_select() => self.derived("", depth - 1),
            2 => self.function(),
            3 => self.values_source(),
            4 | 5 if !self.commons.is_empty() => self.common_source(),
            _ => self.table_source(),
        };
        (part, vec![source])
    }

    fn derived(&mut self, word: &str, depth: usize) -> (Part, Source) {
        let kinds: Vec<Kind> = (0..1 + self.below(4)).map(|_| self.kind()).collect();
        let query = self.select(&kinds, depth);
        let source = self.opaque("q", "c", &kinds);
        (seq![word, "(", query, format!(") {}({})", source.alias, names(&source))], source)
    }

    fn opaque(&mut self, alias: &str, column: &str, kinds: &[Kind]) -> Source {
        let alias = self.fresh(alias);
        let columns = kinds.iter().enumerate().map(|(n, kind)| (format!("{column}{}", n + 1), *kind)).collect();
        Source { alias, columns, id: None, is_table: false }
    }

    fn common_source(&mut self) -> (Part, Source) {
        let common = self.commons[self.rng.below(self.commons.len())].clone();
        let alias = self.fresh("w");
        let part = format!("{} {alias}", common.name).into();
        (part, Source { alias, columns: common.columns, id: None, is_table: false })
    }

    fn function(&mut self) -> (Part, Source) {
        let (call, kinds): (Part, &[Kind]) = match self.below(3) {
            0 => ("generate_series(1, 4)".into(), &[Kind::Int]),
            1 => (seq!["unnest(", self.constant(Kind::Ints), ") WITH ORDINALITY"], &[Kind::Int, Kind::Big]),
            _ => ("ROWS FROM (generate_series(1, 3), unnest(array['a', 'b']))".into(), &[Kind::Int, Kind::Text]),
        };
        let source = self.opaque("f", "c", kinds);
        (seq![call, format!(" {}({})", source.alias, names(&source))], source)
    }

    fn values_source(&mut self) -> (Part, Source) {
        let kinds: Vec<Kind> = (0..1 + self.below(3)).map(|_| self.kind()).collect();
        let rows = self.values_rows(&kinds);
        let source = self.opaque("r", "c", &kinds);
        (seq!["(VALUES ", rows, format!(") {}({})", source.alias, names(&source))], source)
    }

    /// `(1, 'a'), (2, NULL)`.
    pub(super) fn values_rows(&mut self, kinds: &[Kind]) -> Part {
        let rows = (0..1 + self.below(3)).map(|_| {
            let mut values = Vec::new();
            for kind in kinds {
                let null = self.one_in(6);
                values.push(if null { seq!["NULL::", kind.type_name()] } else { self.constant(*kind) });
            }
            seq!["(", Part::List { items: values, separator: ", ", least: kinds.len() }, ")"]
        });
        Part::list(rows.collect())
    }

    fn join(&mut self, left: Part, mut sources: Vec<Source>, depth: usize) -> (Part, Vec<Source>) {
        if self.one_in(8) && self.may_select() {
            return self.lateral(left, sources, depth);
        }
        let (right, others) = self.source(depth);
        let word = self.word(&[" JOIN ", " JOIN ", " LEFT JOIN ", " LEFT JOIN ", " RIGHT JOIN ", " FULL JOIN "]);
        let common = common_columns(&sources, &others);
        let joined = match self.below(10) {
            0 => seq![left.clone(), " CROSS JOIN ", right],
            1 if !common.is_empty() => seq![left.clone(), " NATURAL", word, right],
            2 | 3 if !common.is_empty() => {
                let count = 1 + self.below(common.len().min(2));
                let start = self.below(common.len());
                let chosen: Vec<&str> = (0..count).map(|n| common[(start + n) % common.len()].as_str()).collect();
                seq![left.clone(), word, right, format!(" USING ({})", chosen.join(", "))]
            }
            _ => {
                let condition = self.join_condition(&sources, &others, word == " FULL JOIN ", depth);
                seq![left.clone(), word, right, " ON ", condition]
            }
        };
        sources.extend(others);
        (joined.or(vec![left]), sources)
    }

    fn lateral(&mut self, left: Part, mut sources: Vec<Source>, depth: usize) -> (Part, Vec<Source>) {
        self.levels.push(sources.clone());
        let (right, other) = self.derived("LATERAL ", depth.saturating_sub(1));
        self.levels.pop();
        let joined = match self.below(3) {
            0 => seq![left.clone(), " CROSS JOIN ", right],
            1 => seq![left.clone(), " JOIN ", right, " ON true"],
            _ => seq![left.clone(), " LEFT JOIN ", right, " ON true"],
        };
        sources.push(other);
        (joined.or(vec![left]), sources)
    }

    fn join_condition(&mut self, left: &[Source], right: &[Source], only_equal: bool, depth: usize) -> Part {
        let mut conditions: Vec<Part> = Vec::new();
        let count = [1, 1, 1, 2][self.below(4)];
        for _ in 0..count {
            conditions.extend(self.join_pair(left, right, only_equal));
        }
        if conditions.is_empty() {
            return "1 = 1".into();
        }
        if !only_equal && self.one_in(4) {
            self.levels.push(left.iter().chain(right).cloned().collect());
            conditions.push(self.condition(depth.min(1)));
            self.levels.pop();
        }
        Part::List { items: conditions, separator: " AND ", least: 1 }
    }

    fn join_pair(&mut self, left: &[Source], right: &[Source], only_equal: bool) -> Option<Part> {
        let mine: Vec<(String, Kind)> = left.iter().flat_map(qualified).collect();
        // A kind that both sides have, most of the time found within a few tries.
        for _ in 0..6 {
            let (column, kind) = mine.get(self.below(mine.len().max(1)))?.clone();
            let theirs = columns_of(right, kind);
            let Some(other) = theirs.get(self.below(theirs.len().max(1))) else { continue };
            let operator = match only_equal {
                true => "=",
                false => self.word(&["=", "=", "=", "=", "=", "=", "<", ">=", "<>"]),
            };
            let turned = self.one_in(2);
            return Some(match (kind, self.below(8)) {
                (Kind::Int, 0) => format!("{column} {operator} {other} + 1").into(),
                (Kind::Text, 0) => format!("upper({column}) {operator} upper({other})").into(),
                (_, 1) if !only_equal => format!("{column} IS NOT DISTINCT FROM {other}").into(),
                _ if turned => format!("{other} = {column}").into(),
                _ => format!("{column} {operator} {other}").into(),
            });
        }
        None
    }
}

fn names(source: &Source) -> String {
    source.columns.iter().map(|column| column.0.as_str()).collect::<Vec<_>>().join(", ")
}

/// Columns that exactly one source of each side has, with the same name and kind.
fn common_columns(left: &[Source], right: &[Source]) -> Vec<String> {
    let count = |sources: &[Source], name: &str| {
        sources.iter().flat_map(|source| &source.columns).filter(|column| column.0 == name).count()
    };
    let all = left.iter().flat_map(|source| &source.columns);
    let once = all.filter(|(name, kind)| {
        let same = right.iter().flat_map(|source| &source.columns).any(|column| column == &(name.clone(), *kind));
        same && count(left, name) == 1 && count(right, name) == 1
    });
    once.map(|column| column.0.clone()).collect()
}
