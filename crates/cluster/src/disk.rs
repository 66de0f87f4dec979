//! Files and directories, with errors that name the path.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pgerror::{PgError, Result, SqlState};

/// Adds "what was tried with which path" to an I/O error, and a way out for the common ones.
pub(crate) fn context(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> PgError {
    let text = format!("could not {what} \"{}\"", path.display());
    move |e| {
        let error = |code| PgError::new(code, format!("{text}: {e}"));
        match e.kind() {
            ErrorKind::PermissionDenied => {
                error(SqlState::INSUFFICIENT_PRIVILEGE).hint("Choose a directory you may write to with --dir.")
            }
            ErrorKind::StorageFull => error(SqlState::DISK_FULL).hint("Free some space, or choose another --dir."),
            ErrorKind::NotFound => error(SqlState::UNDEFINED_FILE),
            _ => error(SqlState::IO_ERROR),
        }
    }
}

/// Reads a text file.
pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(context("read", path))
}

/// Writes a file so that a crash leaves the old or the new content, never half of it.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    // Behind the whole name: a datanode `dn4` has a file `dn4.joining`, and `dn4.new` is its directory while initdb works.
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    let mut file = std::fs::File::create(&draft).map_err(context("create", &draft))?;
    file.write_all(text.as_bytes()).map_err(context("write", &draft))?;
    file.sync_all().map_err(context("write", &draft))?;
    std::fs::rename(&draft, path).map_err(context("replace", path))
}

/// Removes a directory with all that is in it; directories in it at the same time, and what else is there last.
pub(crate) async fn remove_all(dir: &Path) -> Result<()> {
    let mut parts = tokio::task::JoinSet::new();
    for entry in std::fs::read_dir(dir).map_err(context("read", dir))? {
        let path = entry.map_err(context("read", dir))?.path();
        if path.is_dir() && !path.is_symlink() {
            parts.spawn_blocking(move || std::fs::remove_dir_all(&path).map_err(context("remove", &path)));
        }
    }
    parts.join_all().await.into_iter().collect::<Result<()>>()?;
    std::fs::remove_dir_all(dir).map_err(context("remove", dir))
}

/// A file in memory that has no name.
pub(crate) fn unnamed() -> Result<std::fs::File> {
    let fd = rustix::fs::memfd_create("loxo-output", rustix::fs::MemfdFlags::CLOEXEC);
    fd.map(std::fs::File::from)
        .map_err(|e| PgError::new(SqlState::IO_ERROR, format!("could not make a file in memory: {e}")))
}

/// [`unnamed`], with a text to be read from its beginning.
pub(crate) fn unnamed_with(text: &str) -> Result<std::fs::File> {
    use std::io::{Seek, Write};
    let mut file = unnamed()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// Reads a file from its beginning to its end.
pub(crate) fn read_back(file: &mut std::fs::File) -> Result<String> {
    use std::io::{Read, Seek};
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Makes a path absolute and resolves what exists of it, so that one directory has one name.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).map_err(context("resolve", path))?;
    if let Ok(real) = path.canonicalize() {
        return Ok(real);
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(absolute(parent)?.join(name)),
        _ => Ok(path),
    }
}

/// Fails with 53100 unless `bytes` are free where `path` is or will be.
pub(crate) fn check_space(path: &Path, bytes: u64) -> Result<()> {
    const MIB: u64 = 1 << 20;
    let existing = path.ancestors().find(|p| p.exists()).unwrap_or(Path::new("/"));
    let stat = rustix::fs::statvfs(existing).map_err(|e| context("look at", existing)(e.into()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free >= bytes {
        return Ok(());
    }
    Err(PgError::new(SqlState::DISK_FULL, format!("not enough disk space at \"{}\"", path.display()))
        .detail(format!("{} MiB are free, at least {} MiB are needed.", free / MIB, bytes.div_ceil(MIB)))
        .hint("Free some space, or choose a directory on another disk with --dir."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_said_to_be_full() {
        let error = check_space(Path::new("/tmp/not/there/yet"), u64::MAX).unwrap_err();
        assert_eq!(error.code(), SqlState::DISK_FULL);
        assert!(check_space(Path::new("/tmp/not/there/yet"), 1).is_ok());
    }

    #[test]
    fn a_path_that_does_not_exist_yet_is_made_absolute() {
        assert_eq!(absolute(Path::new("/proc/self/../no/such")).unwrap(), Path::new("/proc/no/such"));
    }
}
