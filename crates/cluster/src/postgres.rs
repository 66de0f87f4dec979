//! PostgreSQL's programs on this machine: where they are, which version, as which OS user they run.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use pgerror::{PgError, Result, SqlState};
use tokio::process::Command;

use crate::disk;

/// Supported major versions.
pub(crate) const MAJOR_MIN: u32 = 15;
pub(crate) const MAJOR_MAX: u32 = 18;

/// Where Debian and Ubuntu put the servers, one directory a major version.
const DEBIAN_ROOT: &str = "/usr/lib/postgresql";

/// A directory with `initdb` and `postgres`.
#[derive(Clone, Debug)]
pub(crate) struct Installation {
    pub(crate) bin: PathBuf,
}

/// The OS user that servers run as, when that is not the invoking one.
#[derive(Clone, Debug)]
pub(crate) struct OsUser {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Installation {
    /// Takes the directory that was asked for, or looks for one.
    pub(crate) fn find(asked: Option<&Path>) -> Result<Self> {
        if let Some(bin) = asked {
            let bin = disk::absolute(bin)?;
            let found = Self::at(&bin)
                .ok_or_else(|| missing(format!("there is no initdb and postgres in \"{}\"", bin.display())))?;
            found.major().and_then(|major| supported(major, &bin))?;
            return Ok(found);
        }
        let mut refusal = None;
        for found in places().iter().filter_map(|bin| Self::at(bin)) {
            match found.major().and_then(|major| supported(major, &found.bin)) {
                Ok(()) => return Ok(found),
                Err(e) => refusal = refusal.or(Some(e)),
            }
        }
        Err(refusal.unwrap_or_else(|| missing("no PostgreSQL server programs were found".to_owned())))
    }

    /// Follows links of the programs, so that one installation has one name.
    fn at(bin: &Path) -> Option<Self> {
        let complete = |bin: &Path| ["initdb", "postgres", "pg_ctl"].iter().all(|p| bin.join(p).is_file());
        let real = bin.join("postgres").canonicalize().ok()?.parent()?.to_owned();
        [real, bin.to_owned()].into_iter().find(|bin| complete(bin)).map(|bin| Self { bin })
    }

    fn major(&self) -> Result<u32> {
        let program = self.bin.join("postgres");
        let output = std::process::Command::new(&program).arg("--version").output();
        let output = output.map_err(disk::context("run", &program))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        parse_major(&text).ok_or_else(|| missing(format!("\"{}\" does not tell its version", program.display())))
    }

    /// A command that runs one of the programs as `user`, with nothing of the caller's PostgreSQL environment.
    pub(crate) fn command(&self, program: &str, user: Option<&OsUser>) -> Command {
        run_as(&self.bin.join(program), user)
    }
}

/// Directories where PostgreSQL's programs may be: `PATH`, Debian's (newest supported version first), `pg_config`'s.
pub(crate) fn places() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.extend((MAJOR_MIN..=MAJOR_MAX).rev().map(|major| Path::new(DEBIAN_ROOT).join(format!("{major}/bin"))));
    places.extend(pg_config_bindir());
    places
}

/// A command with closed stdin, no `PG…` variables, untranslated messages, and killed if its future is dropped.
pub(crate) fn run_as(program: &Path, user: Option<&OsUser>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C").stdin(Stdio::null()).kill_on_drop(true);
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
    command
}

fn supported(major: u32, bin: &Path) -> Result<()> {
    if (MAJOR_MIN..=MAJOR_MAX).contains(&major) {
        return Ok(());
    }
    Err(PgError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("PostgreSQL {major} in \"{}\" is not supported", bin.display()),
    )
    .hint(format!("Install PostgreSQL {MAJOR_MIN} to {MAJOR_MAX}, or name its bin directory with --pg-bin.")))
}

/// The major version in `postgres (PostgreSQL) 15.20 (Debian …)`, also of `19beta1`.
pub fn parse_major(text: &str) -> Option<u32> {
    let version = text.split(") ").nth(1)?;
    version.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
}

fn pg_config_bindir() -> Option<PathBuf> {
    let output = std::process::Command::new("pg_config").arg("--bindir").output().ok()?;
    Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
}

fn missing(message: String) -> PgError {
    PgError::new(SqlState::UNDEFINED_FILE, message)
        .hint("On Debian and Ubuntu run \"apt install postgresql\"; elsewhere name the bin directory with --pg-bin.")
}

impl OsUser {
    /// PostgreSQL refuses to run as root: then it is `postgres`. Any other user runs the servers as themselves.
    pub(crate) fn for_servers() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let passwd = disk::read(Path::new("/etc/passwd"))?;
        let ids = passwd.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            (fields.first() == Some(&"postgres")).then_some(())?;
            Some(Self { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
        });
        ids.map(Some).ok_or_else(|| {
            PgError::new(SqlState::UNDEFINED_OBJECT, "there is no OS user \"postgres\" to run the servers as")
                .detail("PostgreSQL does not run as root.")
                .hint("Run \"apt install postgresql\" or \"adduser --system --group postgres\", or run loxo as an ordinary user.")
        })
    }

    /// May this user pass through every directory above and including `path`?
    pub(crate) fn reaches(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let passes = |dir: &Path| match dir.metadata() {
            Ok(meta) if meta.uid() == self.uid => meta.mode() & 0o100 != 0,
            Ok(meta) if meta.gid() == self.gid => meta.mode() & 0o010 != 0,
            Ok(meta) => meta.mode() & 0o001 != 0,
            // What does not exist yet will be made for this user.
            Err(_) => true,
        };
        path.ancestors().all(passes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(parse_major("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)\n"), Some(15));
        assert_eq!(parse_major("postgres (PostgreSQL) 19beta1\n"), Some(19));
        assert_eq!(parse_major("something else"), None);
        assert!(supported(14, Path::new("/x")).unwrap_err().to_string().contains("--pg-bin"));
    }

    #[test]
    fn a_directory_without_postgresql_is_refused_with_a_way_out() {
        let error = Installation::find(Some(Path::new("/proc"))).unwrap_err().to_string();
        assert!(error.contains("/proc") && error.contains("apt install postgresql"), "{error}");
    }
}
