//! The settings a client asks for when it connects.

use executor::{SNAPSHOT, Settings, SnapshotMode, own_setting_name};
use pgerror::{PgError, Result, SqlState, field};

/// What a client asks for.
#[derive(Default)]
pub(super) struct Initial {
    pub(super) settings: Settings,
    /// SET commands of those that the coordinator obeys itself.
    pub(super) own: Vec<(&'static str, String)>,
    pub(super) snapshot: Option<SnapshotMode>,
}

/// Startup parameters other than the connection's own are settings, as are `-c name=value` in `options`.
pub(super) fn initial_settings(parameters: &[(String, String)]) -> Result<Initial> {
    let mut initial = Initial::default();
    let mut set = |name: &str, value: &str| {
        if name.eq_ignore_ascii_case(SNAPSHOT) {
            initial.snapshot = Some(SnapshotMode::named(value)?);
            return Ok::<_, PgError>(());
        }
        if executor::reads_constants_otherwise(&name.to_ascii_lowercase(), Some(value)) {
            return Err(executor::other_constants().with(field::SEVERITY, "FATAL"));
        }
        let command = set_command(name, value);
        match own_setting_name(&name.to_ascii_lowercase()) {
            Some(known) => initial.own.push((known, command)),
            None => initial.settings.set(&name.to_ascii_lowercase(), command),
        }
        Ok(())
    };
    // They come first wherever they stand, as in `process_startup_options` (PostgreSQL's `postinit.c`).
    let options = parameters.iter().rfind(|(name, _)| name == "options").map(|(_, value)| command_line_settings(value));
    for (name, value) in options.transpose()?.unwrap_or_default() {
        set(&name, &value)?;
    }
    for (name, value) in parameters {
        match name.as_str() {
            "user" | "database" | "replication" | "options" => {}
            name if name.starts_with("_pq_.") => {}
            name => set(name, value)?,
        }
    }
    Ok(initial)
}

fn set_command(name: &str, value: &str) -> String {
    let quoted: Vec<String> = name.split('.').map(catalog::quote_identifier).collect();
    let list = name.eq_ignore_ascii_case("search_path") || name.eq_ignore_ascii_case("DateStyle");
    // A list must stay a list: each element is quoted by itself.
    let value = match list {
        true => {
            let parts: Vec<String> =
                value.split(',').map(|part| catalog::quote_literal(part.trim().trim_matches('"'))).collect();
            parts.join(", ")
        }
        false => catalog::quote_literal(value),
    };
    format!("SET {} = {value}", quoted.join("."))
}

/// `-c name=value`, `-cname=value` and `--name=value`; a backslash takes the next character as it is (pg_split_opts).
fn command_line_settings(options: &str) -> Result<Vec<(String, String)>> {
    let mut words: Vec<String> = vec![String::new()];
    let mut characters = options.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => words.last_mut().into_iter().for_each(|word| word.extend(characters.next())),
            ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' => words.push(String::new()),
            other => words.last_mut().into_iter().for_each(|word| word.push(other)),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let assignment = match (word.as_str(), word.strip_prefix("-c"), word.strip_prefix("--")) {
            ("-c", _, _) => words.next(),
            (_, Some(rest), _) | (_, _, Some(rest)) => Some(rest.to_owned()),
            _ => None,
        };
        let assignment = match assignment {
            Some(assignment) => assignment,
            None => {
                return Err(PgError::fatal(
                    SqlState::SYNTAX_ERROR,
                    format!("invalid command-line argument for server process: {word}"),
                )
                .hint("Only -c name=value and --name=value are understood."));
            }
        };
        let Some((name, value)) = assignment.split_once('=') else {
            return Err(PgError::fatal(
                SqlState::SYNTAX_ERROR,
                format!("{} requires a value", if word.starts_with("--") { word } else { format!("-c {assignment}") }),
            ));
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_split_as_postgresql_does() {
        let settings = command_line_settings("-c geqo=off  -csearch_path=a,b --work-mem=64MB -c x.y=a\\ b").unwrap();
        let expected = [("geqo", "off"), ("search_path", "a,b"), ("work_mem", "64MB"), ("x.y", "a b")];
        assert_eq!(settings, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert!(command_line_settings("-x 1").is_err());
    }
}
