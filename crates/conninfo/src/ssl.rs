//! The words about TLS in a connection string.

use std::path::PathBuf;

use pgerror::Result;
use pgproto::Encryption;
use pgproto::tls::{Files, SslMode};

use crate::{Lookup, invalid};

/// What is taken out; `None`: not said.
#[derive(Default)]
pub(crate) struct Words {
    mode: Option<String>,
    root: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
}

impl Words {
    /// Is it one of these? Then it is kept.
    fn keep(&mut self, name: &str, value: &str) -> bool {
        let place = match name {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.root,
            "sslcert" => &mut self.certificate,
            "sslkey" => &mut self.key,
            _ => return false,
        };
        // An empty file is none; an empty mode is wrong.
        *place = (name == "sslmode" || !value.is_empty()).then(|| value.to_owned());
        true
    }

    /// With what the environment and `~/.postgresql` add. A file there need not be; one that is named must.
    pub(crate) fn encryption(self, environment: Lookup<'_>) -> Result<Encryption> {
        let mode: SslMode = match self.mode.or_else(|| environment("PGSSLMODE")) {
            Some(word) => word.parse()?,
            None => SslMode::Prefer,
        };
        let home = environment("HOME").map(|home| PathBuf::from(home).join(".postgresql"));
        let file = |said: Option<String>, variable: &str, usual: &str| {
            let usual = || home.as_ref().map(|home| home.join(usual)).filter(|path| path.exists());
            said.or_else(|| environment(variable)).map(PathBuf::from).or_else(usual)
        };
        let root = file(self.root, "PGSSLROOTCERT", "root.crt");
        let certificate = file(self.certificate, "PGSSLCERT", "postgresql.crt");
        let key = file(self.key, "PGSSLKEY", "postgresql.key");
        if root.as_deref().is_some_and(|root| root.as_os_str() == "system") {
            return Err(invalid("sslrootcert=system is not supported".to_owned())
                .hint("Name the system's file, for example /etc/ssl/certs/ca-certificates.crt."));
        }
        if let (Some(certificate), None) = (&certificate, &key) {
            return Err(invalid(format!("certificate present, but not private key: \"{}\"", certificate.display()))
                .hint("Set sslkey."));
        }
        Encryption::load(mode, &Files { root, own: certificate.zip(key) })
    }
}

/// The text without them, and them.
pub(crate) fn taken_out_of(text: &str) -> Result<(String, Words)> {
    match text.starts_with("postgresql://") || text.starts_with("postgres://") {
        true => out_of_uri(text),
        false => out_of_words(text),
    }
}

fn out_of_uri(uri: &str) -> Result<(String, Words)> {
    let mut words = Words::default();
    let Some((before, query)) = uri.split_once('?') else { return Ok((uri.to_owned(), words)) };
    let mut others = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !words.keep(&decoded(name)?, &decoded(value)?) {
            others.push(pair);
        }
    }
    let rest = if others.is_empty() { before.to_owned() } else { format!("{before}?{}", others.join("&")) };
    Ok((rest, words))
}

/// `%41` is A.
fn decoded(text: &str) -> Result<String> {
    let wrong = || invalid(format!("invalid percent-encoded token: \"{text}\""));
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok()).ok_or_else(wrong)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// `name = value`, the value in quotes if it has blanks; a backslash takes the next character as it is.
fn out_of_words(text: &str) -> Result<(String, Words)> {
    let mut words = Words::default();
    let mut others = Vec::new();
    let mut characters = text.chars().peekable();
    loop {
        while characters.next_if(|c| c.is_whitespace()).is_some() {}
        if characters.peek().is_none() {
            return Ok((others.join(" "), words));
        }
        let mut name = String::new();
        while let Some(character) = characters.next_if(|c| !c.is_whitespace() && *c != '=') {
            name.push(character);
        }
        while characters.next_if(|c| c.is_whitespace()).is_some() {}
        if characters.next() != Some('=') {
            return Err(invalid(format!("missing \"=\" after \"{name}\" in connection info string")));
        }
        while characters.next_if(|c| c.is_whitespace()).is_some() {}
        let is_quoted = characters.next_if_eq(&'\'').is_some();
        let mut value = String::new();
        loop {
            match characters.next() {
                Some('\'') if is_quoted => break,
                Some('\\') => value.extend(characters.next()),
                Some(blank) if !is_quoted && blank.is_whitespace() => break,
                Some(other) => value.push(other),
                None if is_quoted => {
                    return Err(invalid("unterminated quoted string in connection info string".to_owned()));
                }
                None => break,
            }
        }
        if !words.keep(&name, &value) {
            others.push(format!("{name}='{}'", value.replace('\\', "\\\\").replace('\'', "\\'")));
        }
    }
}
