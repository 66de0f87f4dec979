//! Texts of queries: our own, or those of a directory.
//!
//! TPC-DS's 99 queries are the TPC's: its licence lets a user of the kit change and run them, and does not let us hand them on as part of
//! this program. So they are read from where the user has put them, and without them queries of our own are run.

use std::path::Path;

use md5::{Digest, Md5};
use pgerror::{PgError, Result, SqlState};

/// In the form in which `dsqgen` writes a stream of queries.
const OWN: &str = include_str!("own.sql");
const BEGIN: &str = "-- start query ";
const END: &str = "-- end query ";

/// One query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    /// In reports, and to choose it by.
    pub name: String,
    /// One statement or several.
    pub sql: String,
}

/// What is run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queries {
    /// Where they come from, for people.
    pub source: String,
    /// In the order in which they are run.
    pub list: Vec<Query>,
}

impl Queries {
    /// Those that this program brings along.
    pub fn own() -> Self {
        Self { source: "this program's own".to_owned(), list: of_stream(OWN) }
    }

    /// The files `*.sql` of a directory: a query each, named as the file is (leading zeros and `query` left out), or streams of `dsqgen`.
    ///
    /// # Errors
    /// The directory cannot be read, or holds no query.
    pub fn of_dir(dir: &Path) -> Result<Self> {
        let failed =
            |why: String| PgError::new(SqlState::IO_ERROR, format!("no queries from {}: {why}", dir.display()));
        let entries = std::fs::read_dir(dir).map_err(|error| failed(error.to_string()))?;
        let mut list = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| failed(error.to_string()))?.path();
            if path.extension().is_none_or(|extension| extension != "sql") {
                continue;
            }
            let text =
                std::fs::read_to_string(&path).map_err(|error| failed(format!("{}: {error}", path.display())))?;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            match of_stream(&text) {
                queries if queries.is_empty() => list.push(Query { name: short(&stem), sql: text.trim().to_owned() }),
                queries => list.extend(queries),
            }
        }
        list.sort_by_key(|query| by_number(&query.name));
        if let Some(two) = list.windows(2).find(|two| two[0].name == two[1].name) {
            return Err(failed(format!("there are two with the name {}", two[0].name)));
        }
        match list.is_empty() {
            true => Err(failed("there is no file *.sql".to_owned())
                .hint("Write them with the TPC's dsqgen, or as 1.sql to 99.sql.")),
            false => Ok(Self { source: dir.display().to_string(), list }),
        }
    }

    /// Only those with these names.
    ///
    /// # Errors
    /// A name is not there.
    pub fn only(self, names: &[String]) -> Result<Self> {
        if names.is_empty() {
            return Ok(self);
        }
        let is_missing = |name: &&String| self.list.iter().all(|query| query.name != **name);
        if let Some(missing) = names.iter().find(is_missing) {
            let all: Vec<&str> = self.list.iter().map(|query| query.name.as_str()).collect();
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, format!("there is no query {missing}"))
                .hint(format!("There are {}.", all.join(", "))));
        }
        let list = self.list.into_iter().filter(|query| names.contains(&query.name)).collect();
        Ok(Self { list, ..self })
    }

    /// How many, from where, and a checksum of their texts: a run that goes on must have the same.
    pub(super) fn described(&self) -> String {
        let mut md5 = Md5::new();
        for query in &self.list {
            md5.update(query.name.as_bytes());
            md5.update(query.sql.as_bytes());
        }
        let sum: String = md5.finalize().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("{} of {} (MD5 {sum}…)", self.list.len(), self.source)
    }
}

impl Query {
    /// The query's text without `LIMIT n` at the end of a statement; `None` if it has none.
    pub(super) fn without_limit(&self) -> Option<String> {
        let mut found = false;
        let statement = |text: &str| {
            let words: Vec<&str> = text.split_whitespace().rev().take(2).collect();
            match words[..] {
                [number, limit] if limit.eq_ignore_ascii_case("limit") && number.parse::<u64>().is_ok() => {
                    found = true;
                    let rest = text.trim_end().strip_suffix(number).unwrap_or(text).trim_end();
                    rest.strip_suffix(limit).unwrap_or(rest).trim_end().to_owned()
                }
                _ => text.to_owned(),
            }
        };
        let text: Vec<String> = self.sql.split(';').map(statement).collect();
        found.then(|| text.join(";"))
    }
}

/// Queries between lines of `dsqgen`, named by their template (`… using template query7.tpl`) or by their number.
fn of_stream(text: &str) -> Vec<Query> {
    let query = |part: &str| {
        let (head, rest) = part.split_once('\n')?;
        let template = head.split_whitespace().find_map(|word| word.strip_suffix(".tpl"));
        let name = template.or_else(|| head.split_whitespace().next())?;
        let sql = rest.split(END).next()?.trim();
        Some(Query { name: short(name), sql: sql.to_owned() })
    };
    text.split(BEGIN).skip(1).filter_map(query).collect()
}

/// `query07` as `7`.
fn short(name: &str) -> String {
    let rest = name.trim_start_matches("query").trim_start_matches(['_', '-', 'q']).trim_start_matches('0');
    if rest.is_empty() { name.to_owned() } else { rest.to_owned() }
}

/// 2 before 10, 14a before 14b.
fn by_number(name: &str) -> (u64, String) {
    let digits: String = name.chars().take_while(char::is_ascii_digit).collect();
    (digits.parse().unwrap_or(u64::MAX), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(sql: &str) -> Query {
        Query { name: "1".to_owned(), sql: sql.to_owned() }
    }

    #[test]
    fn a_limit_is_taken_off_the_end_only() {
        assert_eq!(query("select 1 limit 10").without_limit().as_deref(), Some("select 1"));
        assert_eq!(
            query("select 1\nLIMIT 100;\nselect 2 limit 5 ;\n").without_limit().as_deref(),
            Some("select 1;\nselect 2;\n")
        );
        assert_eq!(query("select * from (select 1 limit 1) x").without_limit(), None);
        assert_eq!(query("select 1 as limit, limit_2").without_limit(), None);
    }

    #[test]
    fn a_stream_of_dsqgen_is_cut_into_queries() {
        // Some versions end the line with the seed.
        let text = "-- start query 1 in stream 0 using template query96.tpl and seed 7\nselect 1;\n-- end query 1 in stream 0\n";
        let plain = "-- start query 1 in stream 0 using template query96.tpl\nselect 1;\n\n-- end query 1 in stream 0\n\
                     -- start query 2 in stream 0 using template query7.tpl\nselect 2;\nselect 3;\n-- end query 2 in stream 0\n";
        let found = of_stream(plain);
        assert_eq!(found.iter().map(|query| &*query.name).collect::<Vec<_>>(), ["96", "7"]);
        assert_eq!((found[0].sql.as_str(), found[1].sql.as_str()), ("select 1;", "select 2;\nselect 3;"));
        assert_eq!(of_stream(text)[0].name, "96");
    }

    #[test]
    fn a_directory_is_read_in_the_order_of_its_numbers() {
        let dir = std::env::temp_dir().join(format!("loxo-queries-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (file, text) in [
            ("query10.sql", "select 10;\n"),
            ("02.sql", "select 2"),
            ("readme.txt", "no"),
            ("14b.sql", "b"),
            ("14a.sql", "a"),
        ] {
            std::fs::write(dir.join(file), text).unwrap();
        }
        let found = Queries::of_dir(&dir);
        let empty = Queries::of_dir(&dir.join("none"));
        std::fs::write(dir.join("query_2.sql"), "select 3").unwrap();
        let twice = Queries::of_dir(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
        let found = found.unwrap();
        let names: Vec<&str> = found.list.iter().map(|query| query.name.as_str()).collect();
        assert_eq!(names, ["2", "10", "14a", "14b"]);
        assert!(empty.is_err());
        assert!(twice.unwrap_err().message().contains("two with the name 2"));
        assert_eq!(
            found.clone().only(&["10".to_owned()]).unwrap().list,
            [Query { name: "10".to_owned(), sql: "select 10;".to_owned() }]
        );
        assert!(found.only(&["11".to_owned()]).unwrap_err().message().contains("no query 11"));
    }

    #[test]
    fn our_own_queries_have_names_and_one_statement_each() {
        let own = Queries::own();
        assert!(!own.list.is_empty());
        let mut names: Vec<&str> = own.list.iter().map(|query| query.name.as_str()).collect();
        names.dedup();
        assert_eq!(names.len(), own.list.len());
        for query in &own.list {
            assert_eq!(query.sql.matches(';').count(), 1, "{}", query.name);
            assert!(query.sql.ends_with(';'), "{}", query.name);
        }
    }
}
