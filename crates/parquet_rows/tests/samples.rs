//! Files of other writers, with what these were given: `samples/make.py` wrote both.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use pgerror::Result;

fn samples() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "parquet")).collect()
}

/// As in the texts: columns, types, rows.
fn text_of(path: &Path) -> Result<String> {
    let contents = parquet_rows::contents(path)?;
    let line = |cells: Vec<&str>| cells.join("\t") + "\n";
    let mut text = line(contents.columns.iter().map(|column| column.name.as_str()).collect());
    text += &line(contents.columns.iter().map(|column| column.sql_type.as_str()).collect());
    for group in 0..contents.groups.len() {
        parquet_rows::rows(path, group)?.read_to_string(&mut text)?;
    }
    Ok(text)
}

/// Digits behind the last one of a fraction of a second that is not 0 say nothing.
fn without_zeros(text: &str) -> String {
    let is_clock = |cell: &str| cell.contains(':') && cell.contains('.');
    let short = |cell: &str| match cell.strip_suffix("+00") {
        Some(stamp) if is_clock(cell) => format!("{}+00", stamp.trim_end_matches('0')),
        None if is_clock(cell) => cell.trim_end_matches('0').to_owned(),
        _ => cell.to_owned(),
    };
    let line = |line: &str| line.split('\t').map(short).collect::<Vec<_>>().join("\t");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn files_of_other_writers_are_read_as_what_was_written_or_refused() {
    let samples = samples();
    assert!(samples.len() > 20, "{} samples", samples.len());
    for path in samples {
        let expected = fs::read_to_string(path.with_extension("txt")).unwrap();
        let found = match expected.strip_prefix("refused: ") {
            Some(_) => format!("refused: {}\n", text_of(&path).expect_err("a refusal").message()),
            None => text_of(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        };
        assert_eq!(without_zeros(&found), without_zeros(&expected), "{}", path.display());
    }
}
