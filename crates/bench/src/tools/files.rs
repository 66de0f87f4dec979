//! lineitem as files that servers read.

use std::path::{Path, PathBuf};

use pgerror::{PgError, Result, SqlState};
use tokio::task::JoinSet;

use crate::lineitem::{Blocks, Columns, Format};

/// One file a stream; gives the files, the rows of each, and the bytes of all.
pub(crate) async fn write_files(
    scale_factor: f64,
    columns: Columns,
    format: Format,
    dir: &Path,
    streams: usize,
) -> Result<(Vec<PathBuf>, Vec<u64>, u64)> {
    let mut tasks = JoinSet::new();
    for part in 1..=streams {
        let path = dir.join(format!("lineitem{part:03}"));
        let blocks = Blocks::new(scale_factor, part, streams, columns, format);
        tasks.spawn_blocking(move || write_file(blocks, path));
    }
    let (mut files, mut bytes) = (Vec::new(), 0);
    while let Some(joined) = tasks.join_next().await {
        let written = joined.map_err(|e| PgError::internal(e.to_string()))?;
        let (file, file_rows, file_bytes) = written?;
        bytes += file_bytes;
        files.push((file, file_rows));
    }
    files.sort();
    let (files, rows) = files.into_iter().unzip();
    Ok((files, rows, bytes))
}

fn write_file(mut blocks: Blocks, path: PathBuf) -> Result<(PathBuf, u64, u64)> {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    let failed = |e: std::io::Error| PgError::new(SqlState::IO_ERROR, format!("cannot write {}: {e}", path.display()));
    let mut file = std::fs::File::create(&path).map_err(failed)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o644)).map_err(failed)?;
    let (mut block, mut rows, mut bytes) = (Vec::new(), 0, 0);
    loop {
        block.clear();
        let count = blocks.fill(&mut block);
        if count == 0 {
            return Ok((path, rows, bytes));
        }
        file.write_all(&block).map_err(failed)?;
        rows += count;
        bytes += block.len() as u64;
    }
}
