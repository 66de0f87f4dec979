//! INSERT, UPDATE, DELETE, MERGE whose effect is determined: no row is changed by two others, new rows have ids of their own.

use super::kind::Kind;
use super::part::{Part, seq};
use super::scope::{Generator, Source};
use super::world::{Table, value};

/// A statement that changes rows.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its text.
    pub part: Part,
    /// The table that it changes.
    pub table: String,
}

impl Generator<'_> {
    /// A whole statement. `fresh_id`: ids from here on are not taken.
    pub fn change(&mut self, fresh_id: usize) -> Change {
        let tables: Vec<&Table> = self.world.tables.iter().filter(|table| table.is_changed).collect();
        let table = tables[self.below(tables.len())].clone();
        let part = match self.below(12) {
            0 | 1 => self.insert_values(&table, fresh_id),
            2 | 3 => self.insert_select(&table, fresh_id),
            4 => self.upsert(&table),
            5..=7 => self.update(&table),
            8 | 9 => self.delete(&table),
            _ => self.merge(&table, fresh_id),
        };
        Change { part, table: table.name }
    }

    fn target(&mut self, table: &Table) -> Source {
        let alias = self.fresh("x");
        Source { alias, columns: table.columns.clone(), id: Some("id".to_owned()), is_table: true }
    }

    fn insert_values(&mut self, table: &Table, fresh_id: usize) -> Part {
        let rows = (0..1 + self.below(4)).map(|row| {
            let mut values = vec![(fresh_id + row).to_string()];
            values.extend(table.columns[1..].iter().map(|(_, kind)| value(*kind, &mut self.rng)));
            format!("({})", values.join(", ")).into()
        });
        let rows = Part::list(rows.collect());
        seq![format!("INSERT INTO {} VALUES ", table.name), rows, self.returning(None, table)]
    }

    fn insert_select(&mut self, table: &Table, fresh_id: usize) -> Part {
        let with_id: Vec<&Table> = self.world.tables.iter().filter(|table| table.has_id).collect();
        let source = with_id[self.below(with_id.len())].clone();
        let alias = self.fresh("a");
        self.levels.push(vec![Source {
            alias: alias.clone(),
            columns: source.columns.clone(),
            id: Some("id".to_owned()),
            is_table: true,
        }]);
        let mut names = vec!["id".to_owned()];
        let mut values = vec![format!("{fresh_id} + {alias}.id").into()];
        for (name, kind) in &table.columns[1..] {
            if !self.one_in(4) {
                names.push(name.clone());
                values.push(self.assigned(*kind));
            }
        }
        let condition = self.condition(2);
        self.levels.pop();
        let head = format!("INSERT INTO {} ({}) SELECT ", table.name, names.join(", "));
        let values = Part::List { items: values, separator: ", ", least: names.len() };
        let filter = Part::optional(seq![" WHERE ", condition]);
        seq![head, values, format!(" FROM {} {alias}", source.name), filter, self.returning(None, table)]
    }

    fn upsert(&mut self, table: &Table) -> Part {
        let Some(unique) = &table.unique else { return self.update(table) };
        let rows = (0..1 + self.below(3)).map(|row| {
            let mut values = vec![(1 + row * 7 + self.below(6)).to_string()];
            values.extend(table.columns[1..].iter().map(|(_, kind)| value(*kind, &mut self.rng)));
            format!("({})", values.join(", ")).into()
        });
        let rows = match unique.as_slice() {
            [_] => seq!["VALUES ", Part::list(rows.collect())],
            // Beside a key of several columns an id would come twice, were it not the key of a row that is there.
            key => {
                let names: Vec<&str> = table.columns.iter().map(|column| column.0.as_str()).collect();
                let known: String = key.iter().map(|column| format!(" AND {column} IS NOT NULL")).collect();
                let remainder = self.below(7);
                format!("SELECT {} FROM {} WHERE id % 7 = {remainder}{known}", names.join(", "), table.name).into()
            }
        };
        let settable: Vec<String> = table.columns.iter().map(|column| column.0.clone()).collect();
        let column = &settable[self.below(settable.len())];
        let action = match self.below(3) {
            0 => "DO NOTHING".to_owned(),
            _ if unique.contains(column) => "DO NOTHING".to_owned(),
            1 => format!("DO UPDATE SET {column} = EXCLUDED.{column} WHERE {}.id < 8", table.name),
            _ => format!("DO UPDATE SET {column} = EXCLUDED.{column}"),
        };
        let conflict = format!(" ON CONFLICT ({}) {action}", unique.join(", "));
        seq![format!("INSERT INTO {} ", table.name), rows, conflict, self.returning(None, table)]
    }

    /// A value that the column's type takes, whatever its length.
    fn assigned(&mut self, kind: Kind) -> Part {
        if self.one_in(5) {
            return self.operand(kind);
        }
        match kind {
            Kind::Text | Kind::Small | Kind::Numeric => self.leaf(kind),
            kind => self.value(kind, 1),
        }
    }

    fn assignments(&mut self, table: &Table, alias: &str) -> Part {
        let mut items = Vec::new();
        for _ in 0..1 + self.below(2) {
            let (name, kind) = &table.columns[self.below(table.columns.len())];
            if name == "id" || items.iter().any(|(other, _)| other == name) {
                continue;
            }
            let value = self.assigned(*kind);
            items.push((name.clone(), value));
        }
        if items.is_empty() {
            items.push(("id".to_owned(), format!("{alias}.id").into()));
        }
        Part::list(items.into_iter().map(|(name, value)| seq![format!("{name} = "), value]).collect())
    }

    fn update(&mut self, table: &Table) -> Part {
        let target = self.target(table);
        let alias = target.alias.clone();
        let joined = self.partner(&target);
        let mut level = vec![target];
        level.extend(joined.iter().map(|joined| joined.1.clone()));
        self.levels.push(level);
        let assignments = match self.one_in(25) {
            true => format!("id = {alias}.id + 3000").into(),
            false => self.assignments(table, &alias),
        };
        // "id = id" is ambiguous beside another table.
        let assignments =
            if joined.is_some() && table.columns.len() == 1 { format!("id = {alias}.id").into() } else { assignments };
        let condition = self.condition(2);
        self.levels.pop();
        let head = format!("UPDATE {} {alias} SET ", table.name);
        let tail = match joined {
            Some((from, _, link)) => {
                seq![" FROM ", from, " WHERE ", link, Part::optional(seq![" AND ", condition])]
            }
            None => Part::optional(seq![" WHERE ", condition]),
        };
        seq![head, assignments, tail, self.returning(Some(&alias), table)]
    }

    /// A table to join a change with, and the condition that gives each row of the target one partner at most.
    fn partner(&mut self, target: &Source) -> Option<(Part, Source, String)> {
        if self.one_in(2) {
            return None;
        }
        let (part, source) = self.table_source();
        let id = source.id.clone()?;
        let numbers: Vec<&String> =
            target.columns.iter().filter(|column| column.1 == Kind::Int).map(|column| &column.0).collect();
        let column = numbers[self.below(numbers.len())];
        let link = format!("{}.{column} = {}.{id}", target.alias, source.alias);
        Some((part, source, link))
    }

    fn delete(&mut self, table: &Table) -> Part {
        let target = self.target(table);
        let alias = target.alias.clone();
        let joined = self.partner(&target);
        let mut level = vec![target];
        level.extend(joined.iter().map(|joined| joined.1.clone()));
        self.levels.push(level);
        let condition = self.condition(2);
        self.levels.pop();
        let head = format!("DELETE FROM {} {alias}", table.name);
        let tail = match joined {
            Some((from, _, link)) => seq![" USING ", from, " WHERE ", link, " AND ", condition],
            None => seq![format!(" WHERE {alias}.id % 3 = 1"), Part::optional(seq![" AND ", condition])],
        };
        seq![head, tail, self.returning(Some(&alias), table)]
    }

    fn merge(&mut self, table: &Table, fresh_id: usize) -> Part {
        let target = self.target(table);
        let alias = target.alias.clone();
        let Some((from, source, link)) = self.partner(&target) else { return self.delete(table) };
        let other = source.alias.clone();
        self.levels.push(vec![target, source.clone()]);
        let mut clauses = Vec::new();
        let condition = self.condition(1);
        let assignments = self.assignments(table, &alias);
        if !self.one_in(3) {
            clauses.push(seq![
                " WHEN MATCHED",
                Part::optional(seq![" AND ", condition]),
                " THEN UPDATE SET ",
                assignments
            ]);
        }
        if self.one_in(3) {
            clauses.push(" WHEN MATCHED THEN DELETE".into());
        }
        self.levels.pop();
        self.levels.push(vec![source]);
        if self.one_in(2) || clauses.is_empty() {
            let condition = self.condition(1);
            let mut names = vec!["id".to_owned()];
            let mut values = vec![format!("{fresh_id} + {other}.id").into()];
            for (name, kind) in &table.columns[1..] {
                names.push(name.clone());
                values.push(self.assigned(*kind));
            }
            let values = Part::List { items: values, separator: ", ", least: names.len() };
            clauses.push(seq![
                " WHEN NOT MATCHED",
                Part::optional(seq![" AND ", condition]),
                format!(" THEN INSERT ({}) VALUES (", names.join(", ")),
                values,
                ")"
            ]);
        }
        self.levels.pop();
        let head = format!("MERGE INTO {} {alias} USING ", table.name);
        seq![head, from, format!(" ON {link}"), Part::List { items: clauses, separator: "", least: 1 }]
    }

    fn returning(&mut self, alias: Option<&str>, table: &Table) -> Part {
        let name = alias.unwrap_or(&table.name);
        match self.below(5) {
            0 => Part::optional(format!(" RETURNING {name}.*")),
            1 => Part::optional(format!(" RETURNING {name}.id + 1 AS next")),
            _ => Part::Seq(Vec::new()),
        }
    }
}
