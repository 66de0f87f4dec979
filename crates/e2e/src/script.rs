//! Case files: cut into statements, with directives, COPY data and distribution clauses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// One statement of a case file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// 1-based line of its first character.
    pub line: usize,
    /// Its text without the semicolon, `/*dist: …*/` still in it.
    pub text: String,
    /// `-- refused`: `None` if absent; empty for every run.
    pub refused: Option<Vec<String>>,
    /// 1-based line of that directive, 0 if absent.
    pub refused_line: usize,
    /// `-- params: …`
    pub parameters: Option<Vec<Option<String>>>,
    /// Rows are compared in order.
    pub ordered: bool,
    /// Data of COPY FROM STDIN.
    pub copy_data: Option<String>,
    /// `-- @name`: the session of this statement and of those behind it.
    pub session: Option<String>,
    /// `-- differs`, as `refused`.
    pub differs: Option<Vec<String>>,
    /// `-- may differ`, as `refused`.
    pub may_differ: Option<Vec<String>>,
    /// `-- deadlock`: the statement closes a circle of waits, which one of those in it has to leave.
    pub deadlock: bool,
    /// `-- hears`: the session waits for a notification after this statement.
    pub hears: bool,
}

/// A way to distribute the tables of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Every table takes its alternative of this index (modulo their number); the text names it in reports.
    Alternative(usize, String),
    /// The k-th table takes its k-th alternative.
    Mixed,
}

impl Variant {
    /// As `-- refused:` names it; also good for a schema name.
    pub fn tag(&self) -> String {
        match self {
            Variant::Alternative(index, _) => format!("v{}", index + 1),
            Variant::Mixed => "mixed".into(),
        }
    }

    /// Are a few rows brought to one node? In every other variant tables as small as those of the files are to be exchanged like
    /// large ones.
    pub fn brings_few_rows(&self) -> bool {
        matches!(self, Variant::Alternative(index, _) if index % 2 == 1)
    }
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Variant::Alternative(_, name) => write!(f, "{} {name}", self.tag()),
            Variant::Mixed => f.write_str("mixed"),
        }
    }
}

const DIST: &str = "/*dist:";

/// The case files of a directory and of those in it.
///
/// # Panics
/// When one cannot be listed.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let of_path = |path: PathBuf| match path.is_dir() {
        true => files(&path),
        false => Vec::from_iter(path.extension().is_some_and(|extension| extension == "sql").then_some(path)),
    };
    paths.flat_map(of_path).collect()
}

/// Cuts a file into statements.
pub fn parse(source: &str) -> Vec<Statement> {
    let mut statements = Vec::new();
    let mut rest = source;
    let mut next = Statement::default();
    let line_of = |rest: &str| 1 + source[..source.len() - rest.len()].matches('\n').count();
    loop {
        rest = skip_between(rest, &mut next, line_of);
        if rest.is_empty() {
            return statements;
        }
        next.line = line_of(rest);
        let end = statement_end(rest);
        next.text = rest[..end].trim_end().to_owned();
        next.ordered |= is_ordered(&next.text);
        rest = rest[end..].strip_prefix(';').unwrap_or("");
        if is_copy_from_stdin(&next.text) {
            let body = rest.split_once('\n').map_or("", |(_, body)| body);
            let end = if body.starts_with("\\.\n") { 0 } else { body.find("\n\\.\n").map_or(body.len(), |at| at + 1) };
            next.copy_data = Some(body[..end].to_owned());
            rest = body[end..].strip_prefix("\\.\n").unwrap_or("");
        }
        statements.push(std::mem::take(&mut next));
    }
}

/// Skips white space and comments before a statement and takes the directives in them.
fn skip_between<'a>(mut rest: &'a str, next: &mut Statement, line_of: impl Fn(&str) -> usize) -> &'a str {
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("--") {
            let (line, after) = comment.split_once('\n').unwrap_or((comment, ""));
            directive(line.trim(), line_of(rest), next);
            rest = after;
        } else if rest.starts_with("/*") {
            rest = &rest[comment_length(rest)..];
        } else {
            return rest;
        }
    }
}

fn directive(line: &str, number: usize, next: &mut Statement) {
    let list = |text: &str| text.split('|').map(|item| item.trim().to_owned()).collect::<Vec<_>>();
    match line.split_once(':').map_or((line, None), |(word, value)| (word.trim(), Some(value))) {
        ("refused", value) => {
            next.refused = Some(value.map_or(Vec::new(), list));
            next.refused_line = number;
        }
        ("ordered", None) => next.ordered = true,
        ("differs", value) => next.differs = Some(value.map_or(Vec::new(), list)),
        ("may differ", value) => next.may_differ = Some(value.map_or(Vec::new(), list)),
        ("deadlock", None) => next.deadlock = true,
        ("hears", None) => next.hears = true,
        (word, None) if word.starts_with('@') => next.session = Some(word[1..].to_owned()),
        ("params", Some(value)) => {
            let null = |item: String| if item == "\\N" { None } else { Some(item) };
            next.parameters = Some(list(value).into_iter().map(null).collect());
        }
        _ => {}
    }
}

/// Length of the statement at the head of `sql`, up to but not including its semicolon.
fn statement_end(sql: &str) -> usize {
    let mut at = 0;
    while at < sql.len() {
        if sql.as_bytes()[at] == b';' {
            return at;
        }
        at += token_length(&sql[at..], sql[..at].chars().next_back());
    }
    sql.len()
}

/// Length of the quoted string, quoted identifier, dollar-quoted string or comment at the head of `sql`, else of its
/// first character.
pub(crate) fn token_length(sql: &str, before: Option<char>) -> usize {
    let first = sql.chars().next().map_or(1, char::len_utf8);
    match sql.as_bytes()[0] {
        b'\'' => quoted_length(sql, '\'', matches!(before, Some('e' | 'E'))),
        b'"' => quoted_length(sql, '"', false),
        b'-' if sql.starts_with("--") => sql.find('\n').unwrap_or(sql.len()),
        b'/' if sql.starts_with("/*") => comment_length(sql),
        b'$' if !before.is_some_and(|c| c.is_alphanumeric() || c == '_') => dollar_length(sql).unwrap_or(first),
        _ => first,
    }
}

fn quoted_length(sql: &str, quote: char, backslash: bool) -> usize {
    let mut characters = sql.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        if c == '\\' && backslash {
            characters.next();
        } else if c == quote {
            return at + 1;
        }
    }
    sql.len()
}

pub(crate) fn comment_length(sql: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < sql.len() {
        match &sql.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    sql.len()
}

fn dollar_length(sql: &str) -> Option<usize> {
    let tag_end = 1 + sql[1..].find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
    let starts_with_digit = sql[1..].starts_with(|c: char| c.is_ascii_digit());
    if sql.as_bytes()[tag_end] != b'$' || starts_with_digit {
        return None;
    }
    let tag = &sql[..=tag_end];
    Some(sql[tag.len()..].find(tag).map_or(sql.len(), |at| at + 2 * tag.len()))
}

fn is_copy_from_stdin(sql: &str) -> bool {
    let words: Vec<String> = sql.split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
    words.first().is_some_and(|word| word == "copy") && words.windows(2).any(|pair| pair == ["from", "stdin"])
}

/// Does the outermost query have ORDER BY?
pub(crate) fn is_ordered(sql: &str) -> bool {
    let mut outermost = String::new();
    let (mut depth, mut at) = (0, 0);
    while at < sql.len() {
        let length = token_length(&sql[at..], sql[..at].chars().next_back());
        match &sql[at..at + length] {
            "(" => depth += 1,
            ")" => depth -= 1,
            token if depth == 0 && length == token.chars().next().map_or(0, char::len_utf8) => {
                outermost.push_str(token)
            }
            _ => outermost.push(' '),
        }
        at += length;
    }
    let words: Vec<String> = outermost.split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
    let head = words.first().map_or("", String::as_str);
    // In CREATE … AS and INSERT the ORDER BY is not the answer's.
    let returns_the_query = !matches!(head, "create" | "insert" | "declare" | "prepare");
    matches!(head, "fetch" | "show") || (returns_the_query && words.windows(2).any(|pair| pair == ["order", "by"]))
}

/// All alternatives of a `/*dist: …*/` list.
fn alternatives(list: &str) -> Vec<&str> {
    list.split('|').map(str::trim).collect()
}

/// The `/*dist: …*/` lists of a text, in order.
fn lists(text: &str) -> impl Iterator<Item = &str> {
    text.split(DIST).skip(1).filter_map(|after| after.split_once("*/").map(|(list, _)| list))
}

/// The runs a file asks for.
pub fn variants(statements: &[Statement]) -> Vec<Variant> {
    let all: Vec<Vec<&str>> = statements.iter().flat_map(|s| lists(&s.text)).map(alternatives).collect();
    let longest = all.iter().max_by_key(|list| list.len()).cloned().unwrap_or_else(|| vec!["default"]);
    let several = all.iter().filter(|list| list.len() > 1).count() > 1;
    let single = longest.iter().enumerate().map(|(i, name)| Variant::Alternative(i, (*name).to_owned()));
    single.chain(several.then_some(Variant::Mixed)).collect()
}

/// Writes the distribution clauses of a variant into a statement. `table` counts the lists seen so far in the file.
pub fn distribute(text: &str, variant: &Variant, table: &mut usize) -> String {
    let mut parts = text.split(DIST);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (list, after) = part.split_once("*/").unwrap_or((part, ""));
        let choices = alternatives(list);
        let index = match variant {
            Variant::Alternative(index, _) => *index,
            Variant::Mixed => *table,
        };
        *table += 1;
        let choice = choices[index % choices.len()];
        if choice != "default" {
            let (kind, columns) = choice.split_at(choice.find('(').unwrap_or(choice.len()));
            out.push_str(&format!("DISTRIBUTE BY {} {columns}", kind.to_ascii_uppercase()));
        }
        out.push_str(after);
    }
    out
}

/// Writes a file's `-- refused` lines anew. `refused` says of a statement's line in which of `variants` the cluster
/// refused it.
pub fn bless(source: &str, variants: &[Variant], refused: &BTreeMap<usize, BTreeSet<String>>) -> String {
    let statements = parse(source);
    let mut out = String::new();
    for (number, line) in (1..).zip(source.split_inclusive('\n')) {
        if let Some(names) = refused.get(&number) {
            let all = variants.iter().all(|variant| names.contains(&variant.tag()));
            let list: Vec<&str> = names.iter().map(String::as_str).collect();
            let list = if all { String::new() } else { format!(": {}", list.join(" | ")) };
            out.push_str(&format!("-- refused{list}\n"));
        }
        if !statements.iter().any(|statement| statement.refused_line == number) {
            out.push_str(line);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        parse(source).into_iter().map(|s| s.text).collect()
    }

    #[test]
    fn semicolons_in_quotes_comments_and_bodies_do_not_end_a_statement() {
        assert_eq!(texts("select ';' ; select \"a;b\""), ["select ';'", "select \"a;b\""]);
        assert_eq!(texts("select e'\\';' ; x"), ["select e'\\';'", "x"]);
        assert_eq!(texts("a $$;$$ ; b $q$ ; $$ ; $q$; $1;"), ["a $$;$$", "b $q$ ; $$ ; $q$", "$1"]);
        assert_eq!(texts("a -- ;\n b; c /* ; /* ; */ ; */ d;"), ["a -- ;\n b", "c /* ; /* ; */ ; */ d"]);
    }

    #[test]
    fn directives_belong_to_the_next_statement() {
        let statements = parse("-- refused: v2 | mixed\na;\n-- params: 1 | \\N\n-- ordered\nb;\nc");
        assert_eq!(statements[0].refused.as_deref(), Some(&["v2".to_owned(), "mixed".to_owned()][..]));
        assert_eq!(statements[1].parameters, Some(vec![Some("1".to_owned()), None]));
        assert!(statements[1].ordered && !statements[2].ordered);
        assert_eq!(statements[2].line, 6);
    }

    #[test]
    fn copy_data_follows_its_statement() {
        let statements = parse("copy t from stdin;\n1;\n2\n\\.\nselect 1;\ncopy t from stdin;\n\\.\n");
        assert_eq!(statements[0].copy_data.as_deref(), Some("1;\n2\n"));
        assert_eq!(statements[1].text, "select 1");
        assert_eq!(statements[2].copy_data.as_deref(), Some(""));
    }

    #[test]
    fn only_the_outermost_order_by_counts() {
        assert!(is_ordered("select a from t ORDER\n BY a"));
        assert!(is_ordered("fetch all from c"));
        assert!(!is_ordered("select 'order by', \"order\" by from (select 1 order by 1) x"));
        assert!(!is_ordered("insert into t select 1 order by 1"));
    }

    #[test]
    fn a_variant_picks_one_alternative_a_table() {
        let source = "create table t (a int) /*dist: hash(a) | replication*/; create table u (b int) /*dist: hash(b) | roundrobin*/";
        let statements = parse(source);
        let variants = variants(&statements);
        let written: Vec<Vec<String>> = variants
            .iter()
            .map(|variant| {
                let mut table = 0;
                statements.iter().map(|s| distribute(&s.text, variant, &mut table)).collect()
            })
            .collect();
        assert_eq!(written[0][0], "create table t (a int) DISTRIBUTE BY HASH (a)");
        assert_eq!(written[1][1], "create table u (b int) DISTRIBUTE BY ROUNDROBIN ");
        assert_eq!(variants[2], Variant::Mixed);
        assert_eq!(
            written[2],
            ["create table t (a int) DISTRIBUTE BY HASH (a)", "create table u (b int) DISTRIBUTE BY ROUNDROBIN "]
        );
    }

    #[test]
    fn blessing_replaces_the_refusals_and_nothing_else() {
        let source =
            "create table t (a int) /*dist: hash(a) | replication*/;\n-- refused\n-- ordered\na;\n  b;\n-- note\nc;\n";
        let variants = variants(&parse(source));
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let refused = BTreeMap::from([(5, names(&["v2"])), (7, names(&["v1", "v2"]))]);
        let expected = "create table t (a int) /*dist: hash(a) | replication*/;\n-- ordered\na;\n-- refused: v2\n  b;\n-- note\n-- refused\nc;\n";
        assert_eq!(bless(source, &variants, &refused), expected);
        assert_eq!(parse(expected).len(), parse(source).len());
    }
}
