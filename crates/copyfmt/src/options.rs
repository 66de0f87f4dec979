//! COPY's options: `ProcessCopyOptions` of PostgreSQL's `copy.c`, from the parser's list to a plain struct and back.

use std::fmt::Write;

use pgerror::{PgError, Result, SqlState};

use crate::utf8::Encoding;

/// `FORMAT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Format {
    Text,
    Csv,
    Binary,
}

/// `HEADER`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Header {
    No,
    Yes,
    Match,
}

/// `ON_ERROR` (PostgreSQL's since 17, ours on every version).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum OnError {
    Stop,
    Ignore,
}

/// The columns of `FORCE_QUOTE`, `FORCE_NULL`, `FORCE_NOT_NULL`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub enum ForceColumns {
    #[default]
    None,
    All,
    Columns(Vec<String>),
}

impl ForceColumns {
    /// Is this column in it?
    pub fn contains(&self, column: &str) -> bool {
        match self {
            ForceColumns::None => false,
            ForceColumns::All => true,
            ForceColumns::Columns(names) => names.iter().any(|name| name == column),
        }
    }
}

/// An option's argument as PostgreSQL's grammar gives it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum OptionValue {
    None,
    Text(String),
    Integer(i64),
    Boolean(bool),
    Star,
    List(Vec<String>),
}

/// The options of one COPY, checked, with defaults filled in.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct CopyOptions {
    pub format: Format,
    pub freeze: bool,
    pub delimiter: u8,
    pub null: String,
    /// Stands for the column's default (PostgreSQL 16).
    pub default: Option<String>,
    pub header: Header,
    pub quote: u8,
    pub escape: u8,
    pub force_quote: ForceColumns,
    pub force_not_null: ForceColumns,
    pub force_null: ForceColumns,
    /// As written; `None` means the session's client_encoding.
    pub encoding: Option<String>,
    pub on_error: OnError,
    /// PostgreSQL's since 18.
    pub reject_limit: Option<i64>,
    /// PostgreSQL's since 17, in lower case.
    pub log_verbosity: Option<String>,
}

impl CopyOptions {
    /// The defaults of a format.
    pub fn new(format: Format) -> Self {
        let csv = format == Format::Csv;
        CopyOptions {
            format,
            freeze: false,
            delimiter: if csv { b',' } else { b'\t' },
            null: if csv { String::new() } else { "\\N".to_owned() },
            default: None,
            header: Header::No,
            quote: b'"',
            escape: b'"',
            force_quote: ForceColumns::None,
            force_not_null: ForceColumns::None,
            force_null: ForceColumns::None,
            encoding: None,
            on_error: OnError::Stop,
            reject_limit: None,
            log_verbosity: None,
        }
    }

    /// From the parser's (name, argument) pairs, of the parenthesised and of the old syntax alike. Errors are
    /// PostgreSQL's, except that they carry no position.
    pub fn from_pairs(pairs: &[(String, OptionValue)], is_from: bool, server_version: u32) -> Result<Self> {
        let mut given = Given::default();
        for (name, value) in pairs {
            given.read(name, value, is_from, server_version)?;
        }
        Checker { is_from, server_version }.finish(given)
    }

    /// `(FORMAT csv, …)` for a datanode's COPY: header, encoding and freeze are left to the caller, who strips the
    /// first, sets the second by client_encoding, and knows whether the third is possible.
    pub fn to_sql(&self) -> String {
        let defaults = CopyOptions::new(self.format);
        let mut sql = match self.format {
            Format::Text => "(FORMAT text".to_owned(),
            Format::Csv => "(FORMAT csv".to_owned(),
            Format::Binary => return "(FORMAT binary)".to_owned(),
        };
        let mut add = |name: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = write!(sql, ", {name} {value}");
        };
        let character = |byte: u8| literal(&char::from(byte).to_string());
        if self.delimiter != defaults.delimiter {
            add("DELIMITER", &character(self.delimiter));
        }
        if self.null != defaults.null {
            add("NULL", &literal(&self.null));
        }
        if let Some(default) = &self.default {
            add("DEFAULT", &literal(default));
        }
        if self.format == Format::Csv {
            if self.quote != b'"' {
                add("QUOTE", &character(self.quote));
            }
            if self.escape != self.quote {
                add("ESCAPE", &character(self.escape));
            }
            let forced = [
                ("FORCE_QUOTE", &self.force_quote),
                ("FORCE_NOT_NULL", &self.force_not_null),
                ("FORCE_NULL", &self.force_null),
            ];
            for (name, columns) in forced {
                match columns {
                    ForceColumns::None => {}
                    ForceColumns::All => add(name, "*"),
                    ForceColumns::Columns(names) => add(name, &column_list(names)),
                }
            }
        }
        if self.on_error == OnError::Ignore {
            add("ON_ERROR", "ignore");
        }
        if let Some(limit) = self.reject_limit {
            add("REJECT_LIMIT", &limit.to_string());
        }
        if let Some(verbosity) = &self.log_verbosity {
            add("LOG_VERBOSITY", verbosity);
        }
        sql.push(')');
        sql
    }
}

/// The form that is right under both settings of `standard_conforming_strings`.
fn literal(text: &str) -> String {
    let prefix = if text.contains('\\') { "E" } else { "" };
    format!("{prefix}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn column_list(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
    format!("({})", quoted.join(", "))
}

/// What was written, before defaults.
#[derive(Default)]
struct Given {
    format: Option<Format>,
    freeze: Option<bool>,
    delimiter: Option<String>,
    null: Option<String>,
    default: Option<String>,
    header: Option<Header>,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: Option<ForceColumns>,
    force_not_null: Option<ForceColumns>,
    force_null: Option<ForceColumns>,
    encoding: Option<String>,
    on_error: Option<OnError>,
    reject_limit: Option<i64>,
    log_verbosity: Option<String>,
}

impl Given {
    fn read(&mut self, name: &str, value: &OptionValue, is_from: bool, version: u32) -> Result<()> {
        match name {
            "format" => once(&mut self.format, || format(&text(name, value)?)),
            "freeze" => once(&mut self.freeze, || boolean(name, value)),
            "delimiter" => once(&mut self.delimiter, || text(name, value)),
            "null" => once(&mut self.null, || text(name, value)),
            "default" if version >= 160_000 => once(&mut self.default, || text(name, value)),
            "header" => once(&mut self.header, || header(name, value, is_from)),
            "quote" => once(&mut self.quote, || text(name, value)),
            "escape" => once(&mut self.escape, || text(name, value)),
            "force_quote" => once(&mut self.force_quote, || columns(name, value, true)),
            "force_not_null" => once(&mut self.force_not_null, || columns(name, value, version >= 170_000)),
            "force_null" => once(&mut self.force_null, || columns(name, value, version >= 170_000)),
            "encoding" => once(&mut self.encoding, || encoding(name, value)),
            // A router leaves rows out by itself, so these do not ask for a version.
            "on_error" if is_from || version >= 170_000 => once(&mut self.on_error, || on_error(name, value, is_from)),
            "log_verbosity" if is_from || version >= 170_000 => {
                once(&mut self.log_verbosity, || verbosity(name, value))
            }
            "reject_limit" if is_from || version >= 180_000 => {
                once(&mut self.reject_limit, || reject_limit(name, value))
            }
            _ => Err(syntax(format!("option \"{name}\" not recognized"))),
        }
    }
}

fn once<T>(slot: &mut Option<T>, read: impl FnOnce() -> Result<T>) -> Result<()> {
    if slot.is_some() {
        return Err(syntax("conflicting or redundant options"));
    }
    *slot = Some(read()?);
    Ok(())
}

fn syntax(message: impl Into<String>) -> PgError {
    PgError::new(SqlState::SYNTAX_ERROR, message)
}

fn invalid(message: impl Into<String>) -> PgError {
    PgError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn not_supported(message: impl Into<String>) -> PgError {
    PgError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

/// `defGetString`.
fn text(name: &str, value: &OptionValue) -> Result<String> {
    match value {
        OptionValue::None => Err(syntax(format!("{name} requires a parameter"))),
        OptionValue::Text(text) => Ok(text.clone()),
        OptionValue::Integer(number) => Ok(number.to_string()),
        OptionValue::Boolean(value) => Ok(value.to_string()),
        OptionValue::Star => Ok("*".to_owned()),
        OptionValue::List(names) => Ok(names.join(".")),
    }
}

/// `defGetBoolean`.
fn boolean(name: &str, value: &OptionValue) -> Result<bool> {
    let word = match value {
        OptionValue::None => return Ok(true),
        OptionValue::Boolean(value) => return Ok(*value),
        OptionValue::Integer(number @ (0 | 1)) => return Ok(*number == 1),
        OptionValue::Text(word) => word.to_ascii_lowercase(),
        _ => String::new(),
    };
    match word.as_str() {
        "true" | "on" => Ok(true),
        "false" | "off" => Ok(false),
        _ => Err(syntax(format!("{name} requires a Boolean value"))),
    }
}

fn format(name: &str) -> Result<Format> {
    match name {
        "text" => Ok(Format::Text),
        "csv" => Ok(Format::Csv),
        "binary" => Ok(Format::Binary),
        _ => Err(invalid(format!("COPY format \"{name}\" not recognized"))),
    }
}

/// `defGetCopyHeaderChoice`.
fn header(name: &str, value: &OptionValue, is_from: bool) -> Result<Header> {
    if let OptionValue::Text(word) = value
        && word.eq_ignore_ascii_case("match")
    {
        return match is_from {
            true => Ok(Header::Match),
            false => Err(not_supported(format!("cannot use \"{word}\" with HEADER in COPY TO"))),
        };
    }
    match boolean(name, value) {
        Ok(value) => Ok(if value { Header::Yes } else { Header::No }),
        Err(_) => Err(syntax(format!("{name} requires a Boolean value or \"match\""))),
    }
}

fn columns(name: &str, value: &OptionValue, star: bool) -> Result<ForceColumns> {
    match value {
        OptionValue::Star if star => Ok(ForceColumns::All),
        OptionValue::List(names) => Ok(ForceColumns::Columns(names.clone())),
        _ => Err(invalid(format!("argument to option \"{name}\" must be a list of column names"))),
    }
}

/// The name is looked up by the datanode that the COPY is announced to; here only its spelling can be checked.
fn encoding(name: &str, value: &OptionValue) -> Result<String> {
    let encoding = text(name, value)?;
    match encoding.is_empty() {
        true => Err(invalid(format!("argument to option \"{name}\" must be a valid encoding name"))),
        false => Ok(encoding),
    }
}

fn on_error(name: &str, value: &OptionValue, is_from: bool) -> Result<OnError> {
    if !is_from {
        return Err(invalid("COPY ON_ERROR cannot be used with COPY TO"));
    }
    match text(name, value)?.to_ascii_lowercase().as_str() {
        "stop" => Ok(OnError::Stop),
        "ignore" => Ok(OnError::Ignore),
        other => Err(invalid(format!("COPY ON_ERROR \"{other}\" not recognized"))),
    }
}

fn verbosity(name: &str, value: &OptionValue) -> Result<String> {
    let word = text(name, value)?.to_ascii_lowercase();
    match word.as_str() {
        "default" | "verbose" | "silent" => Ok(word),
        _ => Err(invalid(format!("COPY LOG_VERBOSITY \"{word}\" not recognized"))),
    }
}

fn reject_limit(name: &str, value: &OptionValue) -> Result<i64> {
    let limit = match value {
        OptionValue::Integer(number) => Some(*number),
        OptionValue::Text(text) => text.parse().ok(),
        OptionValue::None => return Err(syntax(format!("{name} requires a numeric value"))),
        _ => None,
    };
    match limit.ok_or_else(|| syntax(format!("{name} requires a numeric value")))? {
        limit if limit > 0 => Ok(limit),
        limit => Err(invalid(format!("REJECT_LIMIT ({limit}) must be greater than zero"))),
    }
}

/// The checks across options, in PostgreSQL's order.
struct Checker {
    is_from: bool,
    server_version: u32,
}

impl Checker {
    fn finish(&self, given: Given) -> Result<CopyOptions> {
        let format = given.format.unwrap_or(Format::Text);
        self.check_binary(&given, format)?;
        let defaults = CopyOptions::new(format);
        let delimiter = given.delimiter.as_ref().map_or(Ok(defaults.delimiter), |d| self.delimiter(d))?;
        let null = given.null.clone().unwrap_or(defaults.null);
        self.check_newlines("null", &null)?;
        if let Some(default) = &given.default {
            self.check_newlines("default", default)?;
        }
        self.check_text_delimiter(format, delimiter)?;
        if format == Format::Binary && given.header.is_some_and(|h| h != Header::No) {
            return Err(self.error("cannot specify HEADER in BINARY mode"));
        }
        let quote = self.quote(given.quote.as_deref(), format, delimiter)?;
        let escape = self.escape(given.escape.as_deref(), format, quote)?;
        self.check_force(&given, format)?;
        self.check_null_against(&null, "NULL", format, delimiter, quote)?;
        if let Some(default) = &given.default {
            self.check_default(default, &null, format, delimiter, quote)?;
        }
        if format == Format::Binary && given.on_error.is_some_and(|o| o != OnError::Stop) {
            return Err(syntax("only ON_ERROR STOP is allowed in BINARY mode"));
        }
        if given.reject_limit.is_some() && given.on_error != Some(OnError::Ignore) {
            return Err(invalid("COPY REJECT_LIMIT requires ON_ERROR to be set to IGNORE"));
        }
        Ok(CopyOptions {
            format,
            freeze: given.freeze.unwrap_or(false),
            delimiter,
            null,
            default: given.default,
            header: given.header.unwrap_or(Header::No),
            quote,
            escape,
            force_quote: given.force_quote.unwrap_or_default(),
            force_not_null: given.force_not_null.unwrap_or_default(),
            force_null: given.force_null.unwrap_or_default(),
            encoding: given.encoding,
            on_error: given.on_error.unwrap_or(OnError::Stop),
            reject_limit: given.reject_limit,
            log_verbosity: given.log_verbosity,
        })
    }

    fn check_binary(&self, given: &Given, format: Format) -> Result<()> {
        let written = [
            ("DELIMITER", given.delimiter.is_some()),
            ("NULL", given.null.is_some()),
            ("DEFAULT", given.default.is_some()),
        ];
        match written.iter().find(|(_, is_written)| format == Format::Binary && *is_written) {
            Some((name, _)) => Err(syntax(format!("cannot specify {name} in BINARY mode"))),
            None => Ok(()),
        }
    }

    fn delimiter(&self, delimiter: &str) -> Result<u8> {
        match delimiter.as_bytes() {
            [b'\n' | b'\r'] => Err(invalid("COPY delimiter cannot be newline or carriage return")),
            [byte] => Ok(*byte),
            _ => Err(not_supported("COPY delimiter must be a single one-byte character")),
        }
    }

    fn check_newlines(&self, what: &str, text: &str) -> Result<()> {
        match text.contains(['\n', '\r']) {
            true => Err(invalid(format!("COPY {what} representation cannot use newline or carriage return"))),
            false => Ok(()),
        }
    }

    fn check_text_delimiter(&self, format: Format, delimiter: u8) -> Result<()> {
        let special = delimiter.is_ascii_lowercase() || delimiter.is_ascii_digit() || matches!(delimiter, b'\\' | b'.');
        match format != Format::Csv && special {
            true => Err(invalid(format!("COPY delimiter cannot be \"{}\"", char::from(delimiter)))),
            false => Ok(()),
        }
    }

    fn quote(&self, quote: Option<&str>, format: Format, delimiter: u8) -> Result<u8> {
        let Some(quote) = quote else {
            return match format == Format::Csv && delimiter == b'"' {
                true => Err(invalid("COPY delimiter and quote must be different")),
                false => Ok(b'"'),
            };
        };
        self.csv_only("quote", "QUOTE", format)?;
        match quote.as_bytes() {
            [byte] if *byte == delimiter => Err(invalid("COPY delimiter and quote must be different")),
            [byte] => Ok(*byte),
            _ => Err(not_supported("COPY quote must be a single one-byte character")),
        }
    }

    fn escape(&self, escape: Option<&str>, format: Format, quote: u8) -> Result<u8> {
        let Some(escape) = escape else { return Ok(quote) };
        self.csv_only("escape", "ESCAPE", format)?;
        match escape.as_bytes() {
            [byte] => Ok(*byte),
            _ => Err(not_supported("COPY escape must be a single one-byte character")),
        }
    }

    fn check_force(&self, given: &Given, format: Format) -> Result<()> {
        let is_written = |columns: &Option<ForceColumns>| columns.as_ref().is_some_and(|c| *c != ForceColumns::None);
        for (columns, old, new, for_from) in [
            (&given.force_quote, "force quote", "FORCE_QUOTE", false),
            (&given.force_not_null, "force not null", "FORCE_NOT_NULL", true),
            (&given.force_null, "force null", "FORCE_NULL", true),
        ] {
            if !is_written(columns) {
                continue;
            }
            self.csv_only(old, new, format)?;
            if for_from != self.is_from {
                let (this, other) = if for_from { ("TO", "FROM") } else { ("FROM", "TO") };
                return Err(match self.server_version >= 170_000 {
                    true => invalid(format!("COPY {new} cannot be used with COPY {this}")),
                    false => not_supported(format!("COPY {old} only available using COPY {other}")),
                });
            }
        }
        Ok(())
    }

    fn csv_only(&self, old: &str, new: &str, format: Format) -> Result<()> {
        if format == Format::Csv {
            return Ok(());
        }
        Err(match self.server_version >= 170_000 {
            true => not_supported(format!("COPY {new} requires CSV mode")),
            false => not_supported(format!("COPY {old} available only in CSV mode")),
        })
    }

    fn check_null_against(&self, text: &str, name: &str, format: Format, delimiter: u8, quote: u8) -> Result<()> {
        if format == Format::Binary {
            return Ok(());
        }
        if text.as_bytes().contains(&delimiter) {
            return Err(match self.server_version >= 170_000 {
                true => invalid(format!("COPY delimiter character must not appear in the {name} specification")),
                false => not_supported(format!("COPY delimiter must not appear in the {name} specification")),
            });
        }
        if format == Format::Csv && text.as_bytes().contains(&quote) {
            let message = format!("CSV quote character must not appear in the {name} specification");
            return Err(if self.server_version >= 170_000 { invalid(message) } else { not_supported(message) });
        }
        Ok(())
    }

    fn check_default(&self, default: &str, null: &str, format: Format, delimiter: u8, quote: u8) -> Result<()> {
        if !self.is_from {
            return Err(match self.server_version >= 170_000 {
                true => invalid("COPY DEFAULT cannot be used with COPY TO"),
                false => not_supported("COPY DEFAULT only available using COPY FROM"),
            });
        }
        self.check_null_against(default, "DEFAULT", format, delimiter, quote)?;
        match default == null {
            true => Err(self.error("NULL specification and DEFAULT specification cannot be the same")),
            false => Ok(()),
        }
    }

    fn error(&self, message: &str) -> PgError {
        if self.server_version >= 170_000 { invalid(message) } else { not_supported(message) }
    }
}

impl CopyOptions {
    /// The encoding to read the input in; `session` is the client_encoding. Texts in binary input are always in that, and
    /// need not be split.
    pub(crate) fn input_encoding(&self, session: &str) -> Result<Encoding> {
        if self.format == Format::Binary {
            return Ok(Encoding::by_name(session).unwrap_or(Encoding::Other));
        }
        Encoding::by_name(self.encoding.as_deref().unwrap_or(session))
    }
}
