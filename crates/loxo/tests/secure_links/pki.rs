//! A private authority, made with openssl.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Its files are in a directory: `NAME.crt` and `NAME.key`.
pub struct Authority {
    pub dir: PathBuf,
    pub name: &'static str,
}

impl Authority {
    pub fn new(dir: &Path, name: &'static str) -> Self {
        let authority = Self { dir: dir.to_owned(), name };
        openssl(
            authority.command("req", name).args(["-x509", "-days", "30"]).arg("-out").arg(authority.file(name, "crt")),
        );
        authority
    }

    /// For somebody of this name, and hosts like `DNS:localhost`; valid for so many days.
    pub fn issue(&self, name: &str, hosts: &str, days: i32) {
        let request = self.file(name, "csr");
        let mut ask = self.command("req", name);
        // Without any extension it would be of X.509's version 1.
        ask.args(["-addext", "keyUsage=digitalSignature"]);
        if !hosts.is_empty() {
            ask.args(["-addext", &format!("subjectAltName={hosts}")]);
        }
        openssl(ask.arg("-out").arg(&request));
        let mut sign = Command::new("openssl");
        sign.args(["x509", "-req", "-copy_extensions", "copy", "-CAcreateserial", "-days", &days.to_string()]);
        sign.arg("-in").arg(request).arg("-CA").arg(self.file(self.name, "crt"));
        sign.arg("-CAkey").arg(self.file(self.name, "key")).arg("-out").arg(self.file(name, "crt"));
        openssl(&mut sign);
    }

    fn command(&self, what: &str, name: &str) -> Command {
        let mut command = Command::new("openssl");
        command.args([what, "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        command.args(["-subj", &format!("/O=test/CN={name}")]).arg("-keyout").arg(self.file(name, "key"));
        command
    }

    pub fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.dir.join(format!("{name}.{kind}"))
    }
}

fn openssl(command: &mut Command) {
    let output = command.output().expect("openssl runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
