//! Tables in every role, with their rows; and the text that makes them on either side.

use testkit::Rng;

use super::kind::{COLUMNS, Kind};

/// A table or view as queries see it.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Names and kinds of its columns; the first is `id`, unique in tables.
    pub columns: Vec<(String, Kind)>,
    /// The distribution clause's words; `None` for views and temporary tables.
    pub distribution: Option<String>,
    /// Columns of a unique index.
    pub unique: Option<Vec<String>>,
    /// INSERT, UPDATE and DELETE are tried on it.
    pub is_changed: bool,
    /// Each row has an `id` of its own.
    pub has_id: bool,
    /// Statements that make it; `/*dist: …*/` stands where the distribution clause belongs.
    pub statements: Vec<String>,
}

/// What the statements of a case are about.
#[derive(Clone, Debug)]
pub struct World {
    /// What it was made from.
    pub seed: u64,
    /// Tables first, then views over them.
    pub tables: Vec<Table>,
}

/// Tables without those that every world has: the partitioned and the temporary one.
const PLAIN_TABLES: usize = 5;

impl World {
    /// Everything follows from the seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut tables: Vec<Table> =
            (1..=PLAIN_TABLES).map(|number| table(&format!("t{number}"), Role::Plain, &mut rng)).collect();
        tables.push(table("parts", Role::Partitioned, &mut rng));
        tables.push(table("tmp", Role::Temporary, &mut rng));
        for number in 1..=2 {
            let view = view(&format!("v{number}"), &tables[..=PLAIN_TABLES], &mut rng);
            tables.push(view);
        }
        Self { seed, tables }
    }

    /// All statements that make it; `distributed`: with `DISTRIBUTE BY`.
    pub fn statements(&self, distributed: bool) -> Vec<String> {
        let mut all = vec!["CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad')".to_owned()];
        for table in &self.tables {
            all.extend(table.statements.iter().map(|statement| match (&table.distribution, distributed) {
                (Some(distribution), true) => {
                    let clause = match distribution.strip_prefix("TO ") {
                        Some(_) => distribution.clone(),
                        None => format!("DISTRIBUTE BY {distribution}"),
                    };
                    statement.replace(&format!("/*dist: {distribution}*/"), &clause)
                }
                _ => statement.clone(),
            }));
        }
        all
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Plain,
    Partitioned,
    Temporary,
}

fn table(name: &str, role: Role, rng: &mut Rng) -> Table {
    let mut chosen: Vec<&(&str, &str, Kind, bool)> = COLUMNS.iter().filter(|_| rng.one_in(3)).collect();
    // Enough of the same columns everywhere that joins have something to do.
    for (number, column) in COLUMNS[..2].iter().enumerate() {
        if !chosen.iter().any(|other| other.0 == column.0) && !rng.one_in(4) {
            chosen.insert(number.min(chosen.len()), column);
        }
    }
    let mut columns = vec![("id".to_owned(), Kind::Int)];
    columns.extend(chosen.iter().map(|column| (column.0.to_owned(), column.2)));
    let keys: Vec<&str> =
        std::iter::once("id").chain(chosen.iter().filter(|column| column.3).map(|column| column.0)).collect();
    let (distribution, key) = distribution(&keys, &columns, rng);
    let unique = unique(role, distribution.as_deref(), &key, rng);
    let mut elements = vec!["id int".to_owned()];
    elements.extend(chosen.iter().map(|column| format!("{} {}", column.0, column.1)));
    let distribution = if role == Role::Temporary { None } else { distribution };
    if let Some(unique) = &unique {
        let word = if unique.len() == 1 { "PRIMARY KEY" } else { "UNIQUE" };
        elements.push(format!("{word} ({})", unique.join(", ")));
    }
    let temporary = if role == Role::Temporary { "TEMP " } else { "" };
    let partition = if role == Role::Partitioned { " PARTITION BY RANGE (id)" } else { "" };
    let clause = distribution.iter().map(|words| format!(" /*dist: {words}*/")).collect::<String>();
    let mut statements = vec![format!("CREATE {temporary}TABLE {name} ({}){partition}{clause}", elements.join(", "))];
    if role == Role::Partitioned {
        statements.push(format!("CREATE TABLE {name}_low PARTITION OF {name} FOR VALUES FROM (MINVALUE) TO (10)"));
        statements.push(format!("CREATE TABLE {name}_high PARTITION OF {name} DEFAULT"));
    }
    statements.extend(rows(name, &columns, rng));
    if rng.one_in(2) {
        let (column, kind) = &columns[rng.below(columns.len())];
        if *kind != Kind::Json {
            statements.push(format!("CREATE INDEX ON {name} ({column})"));
        }
    }
    Table { name: name.to_owned(), columns, distribution, unique, is_changed: true, has_id: true, statements }
}

fn distribution(keys: &[&str], columns: &[(String, Kind)], rng: &mut Rng) -> (Option<String>, Vec<String>) {
    let to_node = if rng.one_in(8) { " TO NODE (dn1)" } else { "" };
    let kind_of = |name: &str| columns.iter().find(|column| column.0 == name).map(|column| column.1);
    let one = keys[rng.below(keys.len())];
    let other = keys[rng.below(keys.len())];
    let (words, key) = match rng.below(10) {
        0 | 1 => ("REPLICATION".to_owned(), vec![]),
        2 => ("ROUNDROBIN".to_owned(), vec![]),
        // MODULO beside a column of a type of the user's own is refused.
        3 if matches!(kind_of(one), Some(Kind::Int | Kind::Small | Kind::Big | Kind::Bool | Kind::Date))
            && kind_of("m").is_none() =>
        {
            (format!("MODULO ({one})"), vec![one])
        }
        4 if one != other => (format!("HASH ({one}, {other})"), vec![one, other]),
        5 => ("HASH (id)".to_owned(), vec!["id"]),
        6 if keys.contains(&"i") => ("HASH (i)".to_owned(), vec!["i"]),
        _ => (format!("HASH ({one})"), vec![one]),
    };
    (Some(words + to_node), key.into_iter().map(str::to_owned).collect())
}

/// A unique key that every datanode can enforce for itself.
fn unique(role: Role, distribution: Option<&str>, key: &[String], rng: &mut Rng) -> Option<Vec<String>> {
    let replicated = role == Role::Temporary || distribution.is_some_and(|words| words.starts_with("REPLICATION"));
    let mut columns = if replicated { Vec::new() } else { key.to_vec() };
    if columns.is_empty() && !replicated || rng.one_in(3) {
        return None;
    }
    if !columns.iter().any(|column| column == "id") {
        columns.push("id".to_owned());
    }
    Some(columns)
}

fn rows(name: &str, columns: &[(String, Kind)], rng: &mut Rng) -> Option<String> {
    let count = if rng.one_in(8) { 0 } else { 1 + rng.below(24) };
    let row = |id: usize, rng: &mut Rng| {
        let mut values = vec![id.to_string()];
        values.extend(columns[1..].iter().map(|(_, kind)| value(*kind, rng)));
        format!("({})", values.join(", "))
    };
    let rows: Vec<String> = (1..=count).map(|id| row(id, rng)).collect();
    (!rows.is_empty()).then(|| format!("INSERT INTO {name} VALUES {}", rows.join(", ")))
}

/// A value for a column, now and then NULL.
pub fn value(kind: Kind, rng: &mut Rng) -> String {
    if rng.one_in(5) { "NULL".to_owned() } else { format!("'{}'", kind.value(rng.below(12))) }
}

fn view(name: &str, tables: &[Table], rng: &mut Rng) -> Table {
    let table = &tables[rng.below(tables.len())];
    let other = &tables[rng.below(tables.len())];
    let (column, kind) = &table.columns[rng.below(table.columns.len())];
    let same: Vec<&String> = other.columns.iter().filter(|column| column.1 == *kind).map(|column| &column.0).collect();
    let (query, columns) = match rng.below(3) {
        0 => {
            let names: Vec<&str> = table.columns.iter().map(|column| column.0.as_str()).collect();
            (format!("SELECT {} FROM {} WHERE id > 2", names.join(", "), table.name), table.columns.clone())
        }
        1 if !same.is_empty() => {
            let join = if rng.one_in(2) { "LEFT JOIN" } else { "JOIN" };
            let (left, right, key) = (&table.name, &other.name, same[rng.below(same.len())]);
            let columns = vec![("id".to_owned(), Kind::Int), ("x".to_owned(), *kind), ("oid2".to_owned(), Kind::Int)];
            let select = format!("SELECT l.id, l.{column} AS x, r.id AS oid2");
            (format!("{select} FROM {left} l {join} {right} r ON l.{column} = r.{key}"), columns)
        }
        _ => {
            let columns = vec![("g".to_owned(), *kind), ("b".to_owned(), Kind::Big)];
            (format!("SELECT {column} AS g, count(*) AS b FROM {} GROUP BY {column}", table.name), columns)
        }
    };
    Table {
        name: name.to_owned(),
        columns,
        distribution: None,
        unique: None,
        is_changed: false,
        has_id: false,
        statements: vec![format!("CREATE VIEW {name} AS {query}")],
    }
}
