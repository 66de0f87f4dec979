//! Ticks of an exchange as files: a symbol, when, at what price, how many, and the best bid and ask.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pgerror::{PgError, Result, SqlState};

use crate::tools::random::Random;

pub(super) const COLUMNS: &str = "symbol text NOT NULL, traded timestamp NOT NULL, price numeric(10,2) NOT NULL, \
                                  volume int NOT NULL, bid numeric(10,2) NOT NULL, ask numeric(10,2) NOT NULL";
/// About as many as a large exchange lists.
const SYMBOLS: usize = 4000;
const BLOCK_BYTES: usize = 256 << 10;
/// A trading day.
const SECONDS: usize = 6 * 3600 + 1800;

/// One file, and what is in it.
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) rows: u64,
    pub(super) volume: u64,
    /// Its rows of [`WATCHED`].
    pub(super) watched: u64,
}

/// A symbol whose rows are counted through the index.
pub(super) const WATCHED: usize = 7;

pub(super) fn symbol(number: usize) -> String {
    format!("S{number:04}")
}

/// Files of about as many rows each, one a part.
pub(super) fn write(dir: &Path, rows: u64, parts: u64) -> Result<Vec<Part>> {
    let of_part = |number: u64| rows * (number + 1) / parts - rows * number / parts;
    (0..parts).map(|number| write_part(dir, number, of_part(number))).collect()
}

fn write_part(dir: &Path, number: u64, rows: u64) -> Result<Part> {
    let path = dir.join(format!("ticks{number:03}.csv"));
    let failed = |e: std::io::Error| PgError::new(SqlState::IO_ERROR, format!("cannot write {}: {e}", path.display()));
    let mut file = std::fs::File::create(&path).map_err(failed)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o644)).map_err(failed)?;
    let mut random = Random(number + 1);
    let (mut text, mut volume, mut watched) = (String::with_capacity(BLOCK_BYTES + 128), 0, 0);
    for row in 0..rows {
        let (traded, shares) = add_row(&mut text, &mut random, row, rows);
        volume += shares;
        watched += u64::from(traded == WATCHED);
        if text.len() >= BLOCK_BYTES {
            file.write_all(text.as_bytes()).map_err(failed)?;
            text.clear();
        }
    }
    file.write_all(text.as_bytes()).map_err(failed)?;
    drop(file);
    Ok(Part { path, rows, volume, watched })
}

/// In the order of time; gives the symbol's number and the volume.
fn add_row(text: &mut String, random: &mut Random, row: u64, rows: u64) -> (usize, u64) {
    let number = random.below(SYMBOLS);
    let micros = row * (SECONDS as u64 * 1_000_000) / rows.max(1);
    let second = micros / 1_000_000 + 9 * 3600 + 1800;
    let price = 1000 + (number * 37) % 40_000 + random.below(200);
    let (bid, ask) = (price - random.below(3), price + random.below(3));
    let volume = (random.below(50) as u64 + 1) * 10;
    let cents = |price: usize| format!("{}.{:02}", price / 100, price % 100);
    // A String takes whatever is written to it.
    let _ = writeln!(
        text,
        "{},2026-01-05 {:02}:{:02}:{:02}.{:06},{},{volume},{},{}",
        symbol(number),
        second / 3600,
        second / 60 % 60,
        second % 60,
        micros % 1_000_000,
        cents(price),
        cents(bid),
        cents(ask)
    );
    (number, volume)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_all_rows_in_the_order_of_time() {
        let dir = std::env::temp_dir().join(format!("loxo-ticks-test-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let parts = write(&dir, 1001, 4).unwrap();
        assert_eq!(parts.iter().map(|part| part.rows).sum::<u64>(), 1001);
        let text = std::fs::read_to_string(&parts[1].path).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(rows.len() as u64, parts[1].rows);
        assert!(rows.iter().all(|row| row.len() == 6 && row[0].len() == 5));
        assert!(rows[0][1] == "2026-01-05 09:30:00.000000" && rows.is_sorted_by_key(|row| row[1]));
        assert_eq!(rows.iter().map(|row| row[3].parse::<u64>().unwrap()).sum::<u64>(), parts[1].volume);
        assert_eq!(rows.iter().filter(|row| row[0] == symbol(WATCHED)).count() as u64, parts[1].watched);
    }
}
