//! Directories and files.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use pgerror::Result;

use super::wanted::File;
use crate::disk;
use crate::postgres::OsUser;

/// Makes a directory that no other user may look into.
pub(super) fn make_directory(path: &Path) -> Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made.map_err(disk::context("create", path)),
    }
}

/// By root, where nobody else may write.
pub(super) fn make_directory_of(path: &Path, user: &OsUser) -> Result<()> {
    make_directory(path)?;
    lchown(path, Some(user.uid), Some(user.gid)).map_err(disk::context("change the owner of", path))
}

/// Is any of them another one, or open to others?
pub(super) fn differ(home: &Path, files: &[File]) -> bool {
    files.iter().any(|file| !is_there(&home.join(&file.path), &file.text, file.mode))
}

/// Writes those that differ.
pub(super) fn write_all(home: &Path, files: &[File]) -> Result<()> {
    for file in files {
        let path = home.join(&file.path);
        if let Some(folder) = path.parent().filter(|folder| *folder != home) {
            make_directory(folder)?;
        }
        write(&path, &file.text, file.mode)?;
    }
    Ok(())
}

fn is_there(path: &Path, text: &str, mode: u32) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.mode() & 0o777 == mode)
        && std::fs::read(path).is_ok_and(|found| found == text.as_bytes())
}

/// When the newest of them was written, in seconds since 1970.
pub(super) fn newest(paths: &[PathBuf]) -> Result<f64> {
    let mut newest = 0.0;
    for path in paths {
        let found = std::fs::metadata(path).map_err(disk::context("look at", path))?;
        newest = f64::max(newest, found.mtime() as f64 + found.mtime_nsec() as f64 / 1e9);
    }
    Ok(newest)
}

pub(super) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(disk::context("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Writes so that a kill leaves the old or the new file, and no other user ever reads it. Says whether it was another one.
pub(super) fn write(path: &Path, text: &str, mode: u32) -> Result<bool> {
    if is_there(path, text, mode) {
        return Ok(false);
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = Path::new(&draft);
    remove(draft)?;
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(draft);
    let mut file = opened.map_err(disk::context("create", draft))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(disk::context("write", draft))?;
    // Whatever the umask has left of it.
    file.set_permissions(std::fs::Permissions::from_mode(mode)).map_err(disk::context("open to others", draft))?;
    std::fs::rename(draft, path).map_err(disk::context("replace", path)).map(|()| true)
}
