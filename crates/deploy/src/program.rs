//! This program, which has to run on the hosts too.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use pgerror::{PgError, Result, SqlState};
use sha2::{Digest, Sha256};

use crate::ssh::{Input, Remote};

#[derive(Clone, Debug)]
pub(crate) struct Program {
    path: PathBuf,
    /// SHA-256, in hexadecimal.
    pub digest: String,
}

impl Program {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let mut file = File::open(path)?;
        let mut hash = Sha256::new();
        let mut block = vec![0; 1 << 20];
        loop {
            match file.read(&mut block)? {
                0 => break,
                n => hash.update(&block[..n]),
            }
        }
        Ok(Self { path: path.to_owned(), digest: hex(&hash.finalize()) })
    }

    /// Whole or not at all; and only if the host can run it.
    pub(crate) async fn copy_to(&self, remote: &Remote, directory: &Path) -> Result<()> {
        let (bin, digest, directory) = (directory.join("bin"), &self.digest, directory.display());
        let bin = bin.display();
        let script = format!(
            "set -e; umask 022; mkdir -p {bin}; new={bin}/loxo.new; trap \"rm -f $new; rmdir {bin} {directory} 2>/dev/null || :\" EXIT; cat >$new; \
             set -- $(sha256sum $new); [ $1 = {digest} ] || {{ echo \"the program did not arrive whole\" >&2; exit 1; }}; \
             chmod 755 $new; $new --version >/dev/null || {{ echo \"it does not run there\" >&2; exit 1; }}; mv $new {bin}/loxo"
        );
        let copied = remote.run(&format!("sh -c '{script}'"), Input::File(File::open(&self.path)?)).await;
        copied.map(drop).map_err(|error| match error.code() {
            SqlState::IO_ERROR => PgError::new(error.code(), format!("the program cannot be copied to the host {}", remote.name))
                .detail(error.text(pgerror::field::DETAIL).into_owned())
                .hint("If it does not run there, build loxo on the oldest system among the hosts, and deploy with that program."),
            _ => error,
        })
    }
}

pub(crate) fn digest_of(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
