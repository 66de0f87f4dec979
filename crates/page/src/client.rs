//! A connection to the coordinator, as any client has one.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use conninfo::connector::Connector;
use pgproto::Encryption;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, NoTls, SimpleQueryMessage};

const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Limit of each statement, so that nothing here keeps the cluster busy.
const STATEMENT_MAX: &str = "5s";
/// Warnings of one statement: one for each datanode that does not answer, at most.
const NOTICES_MAX: usize = 100;
/// Bytes of a line, a warning or an error.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// Name and password of a login. It has no `Debug`: the password is in no log.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) database: String,
}

/// PostgreSQL's error, or that there is no connection (08006).
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Failure {
    pub(crate) code: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), detail: None, hint: None }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error.as_db_error() {
            Some(told) => Self {
                code: told.code().code().to_owned(),
                message: cut(told.message()),
                detail: told.detail().map(cut),
                hint: told.hint().map(cut),
            },
            None => Self::new("08006", error.to_string()),
        }
    }
}

/// The beginning of a text that is too long for the page.
pub(crate) fn cut(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    let ends = text.char_indices().map(|(at, letter)| at + letter.len_utf8());
    let end = ends.take_while(|end| *end <= TEXT_BYTES_MAX).last().unwrap_or_default();
    format!("{} …", text.get(..end).unwrap_or_default())
}

/// A connection, closed when it is dropped.
pub(crate) struct Link {
    pub(crate) client: Client,
    notices: Arc<Mutex<Vec<String>>>,
}

impl Link {
    /// What the coordinator has remarked since the last call.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The rows of one of our own statements, which have a LIMIT.
    pub(crate) async fn rows(&self, sql: &str) -> Result<Rows, Failure> {
        let messages = self.client.simple_query(sql).await?;
        let rows = messages.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let object = |row: tokio_postgres::SimpleQueryRow| {
            let columns = row.columns().iter().map(|column| column.name().to_owned());
            columns.enumerate().map(|(at, name)| (name, row.get(at).map_or(Value::Null, Value::from))).collect()
        };
        Ok(rows.map(object).collect())
    }
}

/// Drives a connection, and keeps what the coordinator remarks. An error reaches the user of the connection.
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
            heard.push(cut(notice.message()));
        }
    }
}

/// Rows as objects of texts by column; NULL is null.
pub(crate) type Rows = Vec<Map<String, Value>>;

/// Connects by TCP from this host: the coordinator's rules for this address decide.
pub(crate) async fn connect(to: SocketAddr, encryption: &Encryption, login: Login) -> Result<Link, Failure> {
    let notices: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut config = Config::new();
    config.host(reachable(to.ip()).to_string()).port(to.port()).user(login.user).dbname(login.database);
    config.application_name("loxo page").options(format!("-c statement_timeout={STATEMENT_MAX}"));
    if !login.password.is_empty() {
        config.password(login.password);
    }
    let attempt = async {
        let client = match encryption.tls() {
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                tokio::spawn(hear(connection, Arc::clone(&notices)));
                client
            }
            Some(tls) => {
                config.ssl_mode(SslMode::Require);
                let (client, connection) = config.connect(Connector::new(tls.clone())).await?;
                tokio::spawn(hear(connection, Arc::clone(&notices)));
                client
            }
        };
        // Functions and operators of users must not be called from here; `plan` takes the path of the role's own for its transaction.
        client.batch_execute("SET search_path = pg_catalog, pg_temp").await?;
        Ok(client)
    };
    match tokio::time::timeout(CONNECT_MAX, attempt).await {
        Ok(client) => Ok(Link { client: client.map_err(|error: Error| Failure::from(error))?, notices }),
        Err(_) => Err(Failure::new("08006", "the coordinator does not answer")),
    }
}

/// A wildcard is no address to connect to.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_letters() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"x".repeat(TEXT_BYTES_MAX)).len(), TEXT_BYTES_MAX);
        let long = cut(&format!("x{}", "ä".repeat(TEXT_BYTES_MAX)));
        assert_eq!(long, format!("x{} …", "ä".repeat(TEXT_BYTES_MAX / 2 - 1)));
    }
}
