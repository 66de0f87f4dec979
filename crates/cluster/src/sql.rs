//! The few statements this room sends to servers: one connection, simple protocol, values as text.
//!
//! A narrow door, so that the client library behind it can be exchanged without touching its callers.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conninfo::connector::Connector;
use pgerror::{PgError, Result, SqlState, field};
use pgproto::Encryption;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Connection, NoTls, SimpleQueryMessage};

/// A server that does not answer a connection attempt within this time counts as unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Notices that nobody has asked for are dropped beyond these.
const NOTICES_MAX: usize = 10_000;

/// Where and as whom to connect.
#[derive(Clone)]
#[allow(missing_docs)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub database: String,
    pub password: Option<String>,
    pub encryption: Encryption,
    /// This endpoint's encryption for programs of PostgreSQL: variables of libpq.
    pub environment: Vec<(&'static str, String)>,
}

/// The password is in no log.
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.uri())
    }
}

impl Endpoint {
    /// `postgresql://user@host:port/database`, without the password.
    pub fn uri(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("postgresql://{}@{host}:{}/{}", self.user, self.port, self.database)
    }
}

/// One open connection; closed when dropped.
pub struct Session {
    client: tokio_postgres::Client,
    place: String,
    /// What the server has said beside its answers, since the last call of `run_noting`.
    notices: Arc<Mutex<Vec<String>>>,
}

impl Session {
    /// Connects and logs in. Errors carry the server's own fields if it said anything; else 08006 with the address.
    pub async fn connect(to: &Endpoint) -> Result<Self> {
        Self::connect_with(to, "").await
    }

    /// [`Session::connect`] with settings, as `-c name=value`.
    pub(crate) async fn connect_with(to: &Endpoint, settings: &str) -> Result<Self> {
        let place = format!("{}:{}", to.host, to.port);
        let mut config = tokio_postgres::Config::new();
        config.host(&to.host).port(to.port).user(&to.user).dbname(&to.database).application_name("loxo");
        // What users have made in schemas of a role's or a database's search path must not be called from here.
        config.options(format!("-c search_path=pg_catalog,pg_temp {settings}"));
        if let Some(password) = &to.password {
            config.password(password);
        }
        let notices = Arc::new(Mutex::new(Vec::new()));
        let attempt = async {
            match to.encryption.tls() {
                None => {
                    let (client, connection) = config.connect(NoTls).await.map_err(|e| translate(&e, &place))?;
                    tokio::spawn(hear(connection, notices.clone()));
                    Ok::<_, PgError>(client)
                }
                Some(tls) => {
                    config.ssl_mode(SslMode::Require);
                    let connector = Connector::new(tls.clone());
                    let (client, connection) = config.connect(connector).await.map_err(|e| translate(&e, &place))?;
                    tokio::spawn(hear(connection, notices.clone()));
                    Ok(client)
                }
            }
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, attempt).await {
            Ok(client) => Ok(Self { client: client?, place, notices: notices.clone() }),
            Err(_) => {
                let seconds = CONNECT_TIMEOUT.as_secs();
                Err(PgError::connection(format!("no answer from {place} within {seconds} s")))
            }
        }
    }

    /// Runs statements and forgets their rows.
    pub async fn run(&self, sql: &str) -> Result<()> {
        self.client.batch_execute(sql).await.map_err(|e| translate(&e, &self.place))
    }

    /// Runs a statement and gives the notices that came with it.
    pub async fn run_noting(&self, sql: &str) -> Result<Vec<String>> {
        let taken = || std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner));
        taken();
        self.run(sql).await?;
        Ok(taken())
    }

    /// Runs a statement and returns its rows; NULL is `None`.
    pub async fn rows(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        let messages = self.client.simple_query(sql).await.map_err(|e| translate(&e, &self.place))?;
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|i| row.get(i).map(str::to_owned)).collect()),
            _ => None,
        });
        Ok(rows.collect())
    }

    /// The first column of the first row; `None` for no row or NULL.
    pub async fn value(&self, sql: &str) -> Result<Option<String>> {
        Ok(self.rows(sql).await?.into_iter().next().and_then(|row| row.into_iter().next().flatten()))
    }
}

/// Drives a connection, and keeps what its server remarks. The session that uses it sees an error from its own call.
async fn hear<S, T>(mut connection: Connection<S, T>, notices: Arc<Mutex<Vec<String>>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        let mut heard = notices.lock().unwrap_or_else(PoisonError::into_inner);
        if let AsyncMessage::Notice(notice) = message
            && heard.len() < NOTICES_MAX
        {
            heard.push(notice.message().to_owned());
        }
    }
}

/// A string literal, right under both settings of `standard_conforming_strings`.
pub fn literal(text: &str) -> String {
    let prefix = if text.contains('\\') { "E" } else { "" };
    format!("{prefix}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// A quoted identifier.
pub fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Keeps every field the server sent; for anything else names the place and the cause.
fn translate(error: &tokio_postgres::Error, place: &str) -> PgError {
    let Some(server) = error.as_db_error() else {
        let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
        return PgError::connection(format!("could not talk to the server at {place}: {cause}"));
    };
    let code = SqlState::from_bytes(server.code().code().as_bytes()).unwrap_or(SqlState::INTERNAL_ERROR);
    let mut translated =
        PgError::new(code, server.message()).with(field::SEVERITY_LOCALIZED, server.severity().to_owned());
    if let Some(detail) = server.detail() {
        translated = translated.detail(detail);
    }
    if let Some(hint) = server.hint() {
        translated = translated.hint(hint);
    }
    match server.where_() {
        Some(context) => translated.context(context),
        None => translated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_survive_quotes_and_backslashes() {
        assert_eq!(literal("a'b"), "'a''b'");
        assert_eq!(literal("a\\'"), "E'a\\\\'''");
    }

    #[test]
    fn an_ipv6_host_is_bracketed_in_a_uri() {
        let endpoint = Endpoint {
            host: "::1".into(),
            port: 5433,
            user: "u".into(),
            database: "d".into(),
            password: None,
            encryption: Encryption::Plain,
            environment: Vec::new(),
        };
        assert_eq!(endpoint.uri(), "postgresql://u@[::1]:5433/d");
    }
}
