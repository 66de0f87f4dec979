//! psql scripts: cut into steps, with a marker after each, so that the output of each can be told apart.

use std::path::Path;

use crate::script::{comment_length, token_length};

/// What psql does at one go: a statement with the COPY data or the backslash command that ends it, or a backslash
/// command by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// 1-based line of its first character.
    pub line: usize,
    /// Its text, up to the semicolon or the end of the line.
    pub text: String,
    /// Data of COPY FROM STDIN.
    pub copy_data: Option<String>,
}

impl Step {
    /// Is it a backslash command by itself?
    pub fn is_command(&self) -> bool {
        self.text.starts_with('\\')
    }

    /// The first word in capitals; of a backslash command the command.
    pub fn head(&self) -> String {
        self.text.split_ascii_whitespace().next().unwrap_or_default().trim_end_matches(';').to_uppercase()
    }
}

/// Cuts a script into steps.
pub fn steps(source: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = source;
    loop {
        rest = skip_blank(rest);
        if rest.is_empty() {
            return steps;
        }
        let line = 1 + source[..source.len() - rest.len()].matches('\n').count();
        let end = if rest.starts_with('\\') { line_end(rest) } else { statement_end(rest) };
        let text = rest[..end].trim_end().to_owned();
        rest = &rest[end..];
        let copy_data = is_copy_from_stdin(&text).then(|| {
            let body = rest.split_once('\n').map_or("", |(_, body)| body);
            let end = if body.starts_with("\\.\n") { 0 } else { body.find("\n\\.\n").map_or(body.len(), |at| at + 1) };
            rest = body[end..].strip_prefix("\\.\n").unwrap_or("");
            body[..end].to_owned()
        });
        steps.push(Step { line, text, copy_data });
    }
}

fn skip_blank(mut rest: &str) -> &str {
    loop {
        rest = rest.trim_start();
        if rest.starts_with("--") {
            rest = &rest[line_end(rest)..];
        } else if rest.starts_with("/*") {
            rest = &rest[comment_length(rest)..];
        } else {
            return rest;
        }
    }
}

fn line_end(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

/// Length of the statement at the head of `sql` with what ends it: a semicolon outside parentheses and of a BEGIN ATOMIC
/// body, or a backslash command.
fn statement_end(sql: &str) -> usize {
    let (mut at, mut parentheses, mut blocks) = (0, 0_i32, 0_i32);
    let may_have_body = sql.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("create"));
    while at < sql.len() {
        let rest = &sql[at..];
        let word = word_length(rest);
        match rest.as_bytes()[0] {
            b';' if parentheses <= 0 && blocks <= 0 => return at + 1,
            // `\;` joins statements into one message, `\:` is a colon; any other command sends the statement.
            b'\\' if rest.starts_with("\\;") || rest.starts_with("\\:") => at += 1,
            b'\\' => return at + line_end(rest),
            b'(' => parentheses += 1,
            b')' => parentheses -= 1,
            _ if word > 0 => blocks += if may_have_body { block_step(&sql[..at], &rest[..word], blocks) } else { 0 },
            _ => {}
        }
        at += if word > 0 { word } else { token_length(rest, sql[..at].chars().next_back()) };
    }
    sql.len()
}

/// Length of the word at the head of `sql`, 0 if there is none. An E before a quote belongs to the quote.
fn word_length(sql: &str) -> usize {
    let length = sql.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(sql.len());
    let is_word = sql.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let is_prefix = length == 1 && sql[1..].starts_with('\'');
    if is_word && !is_prefix { length } else { 0 }
}

/// How a word changes the depth of BEGIN ATOMIC … END, in which CASE … END may stand.
fn block_step(before: &str, word: &str, blocks: i32) -> i32 {
    let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
    let after_begin = before.trim_end().get(before.trim_end().len().saturating_sub(5)..);
    if is("atomic") && after_begin.is_some_and(|word| word.eq_ignore_ascii_case("begin")) || blocks > 0 && is("case") {
        1
    } else if blocks > 0 && is("end") {
        -1
    } else {
        0
    }
}

fn is_copy_from_stdin(sql: &str) -> bool {
    let words: Vec<String> =
        sql.split_ascii_whitespace().map(|word| word.trim_end_matches(';').to_ascii_lowercase()).collect();
    words.first().is_some_and(|word| word == "copy") && words.windows(2).any(|pair| pair == ["from", "stdin"])
}

const MARKER: &str = "<<<parity ";

/// The script that psql gets. COPY data lie in files of `dir`: inline, psql would take them for SQL if the server refuses
/// the COPY.
///
/// # Errors
/// When `dir` cannot be written.
pub fn marked(steps: &[Step], dir: &Path) -> std::io::Result<String> {
    let mut script = String::new();
    for (number, step) in steps.iter().enumerate() {
        match &step.copy_data {
            None => script.push_str(&step.text),
            Some(data) => {
                let file = dir.join(format!("copy-{number}.data"));
                std::fs::write(&file, data)?;
                script.push_str(&client_copy(&step.text, &file));
            }
        }
        script.push_str(&format!("\n\\echo {MARKER}{number} :SQLSTATE\n"));
    }
    Ok(script)
}

/// `COPY … FROM STDIN …` as `\copy … FROM 'file' …`, which psql wants on one line.
fn client_copy(sql: &str, file: &Path) -> String {
    let line = sql.trim_end_matches(';').split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let at = line.to_ascii_lowercase().find("from stdin").unwrap_or(line.len());
    let options = line.get(at + "from stdin".len()..).unwrap_or_default();
    format!("\\{} from '{}'{options}", line[..at].trim_end().to_ascii_lowercase(), file.display())
}

/// What one step printed, and the SQLSTATE psql had after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    /// Output and messages in the order they came.
    pub text: String,
    /// psql's variable SQLSTATE.
    pub state: String,
}

/// Cuts psql's output at the markers. A step that psql skipped or did not come to has no entry.
pub fn printed(output: &str, steps: usize) -> Vec<Option<Printed>> {
    let mut printed = vec![None; steps];
    let mut rest = output;
    while let Some((text, after)) = rest.split_once(MARKER) {
        let (tail, next) = after.split_once('\n').unwrap_or((after, ""));
        let (number, state) = tail.split_once(' ').unwrap_or((tail, ""));
        if let Some(entry) = number.parse::<usize>().ok().and_then(|number| printed.get_mut(number)) {
            *entry = Some(Printed { text: text.to_owned(), state: state.to_owned() });
        }
        rest = next;
    }
    printed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        steps(source).into_iter().map(|step| step.text).collect()
    }

    #[test]
    fn statements_end_where_psql_ends_them() {
        assert_eq!(texts("select 1; select (2;\n3); -- x\n"), ["select 1;", "select (2;\n3);"]);
        assert_eq!(texts("\\d t\nselect 1 \\gset x_\n\\if :x\n"), ["\\d t", "select 1 \\gset x_", "\\if :x"]);
        assert_eq!(texts("select 1\\; select 2\\; select 3;"), ["select 1\\; select 2\\; select 3;"]);
        assert_eq!(texts("select e'\\';', 'a;' || $$;$$; x"), ["select e'\\';', 'a;' || $$;$$;", "x"]);
    }

    #[test]
    fn semicolons_of_a_sql_body_do_not_end_it() {
        let body = "create function f() returns int begin atomic select case when true then 1 end; select 2; end;";
        assert_eq!(texts(&format!("{body} begin; end;")), [body, "begin;", "end;"]);
    }

    #[test]
    fn copy_data_go_to_a_file() {
        let steps = steps("copy t (a,\n b) from stdin csv;\n1;'\n\\.\nselect 1;\n");
        assert_eq!(steps[0].copy_data.as_deref(), Some("1;'\n"));
        assert_eq!(client_copy(&steps[0].text, Path::new("/f")), "\\copy t (a, b) from '/f' csv");
        assert_eq!((steps[1].text.as_str(), steps[1].line), ("select 1;", 5));
    }

    #[test]
    fn output_is_told_apart_by_markers() {
        let output = format!("a\nb\n{MARKER}0 00000\nERROR:  x\n{MARKER}2 42P01\n");
        let printed = printed(&output, 4);
        assert_eq!(printed[0], Some(Printed { text: "a\nb\n".into(), state: "00000".into() }));
        assert_eq!(printed[1], None);
        assert_eq!(printed[2], Some(Printed { text: "ERROR:  x\n".into(), state: "42P01".into() }));
        assert_eq!(printed[3], None);
    }
}
