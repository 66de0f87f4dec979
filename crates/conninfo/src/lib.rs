//! Where our own commands connect to, written as libpq has it: a URI or words, completed by `PG…` variables and the files in
//! `~/.postgresql`.
//!
//! ```text
//!  text ─► words (ssl… aside) ─► tokio_postgres::Config ─┬─► Target::options    for pgproto's Connection
//!                └─► Encryption ────────────────────────┴─► Target::connect    a client of tokio-postgres, over Connector
//! ```
//!
//! * [`ssl`]: `sslmode`, `sslrootcert`, `sslcert`, `sslkey`, which tokio-postgres does not know.
//! * [`connector`]: TLS of `pgproto` for tokio-postgres.
//!
//! Invariant: an option that is not understood is an error, never ignored.

pub mod connector;
mod ssl;

use pgerror::{PgError, Result, SqlState};
use pgproto::scram::Secret;
use pgproto::{ConnectOptions, Encryption};
use tokio_postgres::config::{ChannelBinding, Host, SslMode, SslNegotiation};
use tokio_postgres::{Client, Config, NoTls};

use crate::connector::Connector;

/// Finds a value of the environment.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A server, whom to be there, and how to reach it.
#[derive(Clone, Debug)]
pub struct Target {
    config: Config,
    encryption: Encryption,
}

impl Target {
    /// Reads a URI or libpq's `key=value` words.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_with(text, &|name| std::env::var(name).ok())
    }

    fn parse_with(text: &str, environment: Lookup<'_>) -> Result<Self> {
        let (rest, words) = ssl::taken_out_of(text)?;
        let encryption = words.encryption(environment)?;
        let mut config: Config = rest.parse().map_err(|error| invalid(format!("not a connection URI: {error}")))?;
        complete(&mut config, environment)?;
        config.ssl_mode(match &encryption {
            Encryption::Plain => SslMode::Disable,
            Encryption::Preferred(_) => SslMode::Prefer,
            Encryption::Required(_) => SslMode::Require,
        });
        Ok(Self { config, encryption })
    }

    /// For a connection of `pgproto`, which goes to one host by TCP.
    pub fn options(&self) -> Result<ConnectOptions> {
        let config = &self.config;
        let host = match config.get_hosts() {
            [Host::Tcp(host)] => host.clone(),
            [Host::Unix(_)] => return Err(invalid("connections over Unix sockets are not supported".to_owned())),
            _ => return Err(invalid("a URI names one host; give several URIs instead".to_owned())),
        };
        if config.get_channel_binding() == ChannelBinding::Require {
            return Err(
                invalid("channel_binding=require is not supported here".to_owned()).hint("Use sslmode=verify-full.")
            );
        }
        if config.get_ssl_negotiation() != SslNegotiation::Postgres {
            return Err(invalid("sslnegotiation=direct is not supported here".to_owned()).hint("Leave it out."));
        }
        let user = config.get_user().ok_or_else(|| invalid("the connection URI names no user".to_owned()))?;
        let password = config.get_password().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        Ok(ConnectOptions {
            host,
            port: config.get_ports().first().copied().unwrap_or(5432),
            user: user.to_owned(),
            database: config.get_dbname().unwrap_or(user).to_owned(),
            secret: password.map(Secret::Password),
            parameters: config
                .get_options()
                .map(|options| ("options".to_owned(), options.to_owned()))
                .into_iter()
                .collect(),
            encryption: self.encryption.clone(),
            proof: None,
        })
    }

    /// Connects. The connection runs in the background until the client is dropped; its error reaches every request of the client.
    pub async fn connect(&self) -> std::result::Result<Client, tokio_postgres::Error> {
        match self.encryption.tls() {
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                tokio::spawn(connection);
                Ok(client)
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(Connector::new(tls.clone())).await?;
                tokio::spawn(connection);
                Ok(client)
            }
        }
    }
}

/// What the text does not say.
fn complete(config: &mut Config, environment: Lookup<'_>) -> Result<()> {
    if config.get_hosts().is_empty() {
        config.host(environment("PGHOST").unwrap_or_else(|| "localhost".to_owned()));
    }
    if config.get_ports().is_empty()
        && let Some(port) = environment("PGPORT")
    {
        config.port(port.parse().map_err(|_| invalid(format!("PGPORT is no port: \"{port}\"")))?);
    }
    if config.get_user().is_none()
        && let Some(user) = environment("PGUSER").or_else(|| environment("USER"))
    {
        config.user(user);
    }
    if config.get_dbname().is_none()
        && let Some(database) = environment("PGDATABASE")
    {
        config.dbname(database);
    }
    if config.get_password().is_none()
        && let Some(password) = environment("PGPASSWORD")
    {
        config.password(password);
    }
    Ok(())
}

fn invalid(what: String) -> PgError {
    PgError::new(SqlState::INVALID_PARAMETER_VALUE, what).hint("Write for example postgresql://me@host:5433/postgres.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str, environment: &[(&str, &str)]) -> Result<ConnectOptions> {
        let lookup =
            |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Target::parse_with(text, &lookup)?.options()
    }

    #[test]
    fn a_uri_and_words_say_the_same() {
        for text in [
            "postgresql://me@h:5433/d?sslmode=require&options=-c%20geqo%3Doff",
            "host=h port=5433 user=me dbname=d sslmode = 'require' options='-c geqo=off'",
        ] {
            let options = options(text, &[("PGSSLMODE", "disable"), ("PGUSER", "other")]).unwrap();
            assert_eq!((&*options.host, options.port, &*options.user, &*options.database), ("h", 5433, "me", "d"));
            assert_eq!(options.parameters, [("options".to_owned(), "-c geqo=off".to_owned())]);
            assert!(matches!(options.encryption, Encryption::Required(_)), "{text}");
        }
    }

    #[test]
    fn the_environment_says_what_the_text_does_not() {
        let environment =
            [("PGHOST", "h"), ("PGPORT", "1"), ("PGUSER", "u"), ("PGDATABASE", "d"), ("PGSSLMODE", "disable")];
        let options = options("postgresql://", &environment).unwrap();
        assert_eq!((&*options.host, options.port, &*options.user, &*options.database), ("h", 1, "u", "d"));
        assert!(matches!(options.encryption, Encryption::Plain));
    }

    #[test]
    fn encryption_is_preferred_unless_something_else_is_said() {
        assert!(matches!(options("postgresql://u@h", &[]).unwrap().encryption, Encryption::Preferred(_)));
        assert!(options("postgresql://u@h?sslmode=verify-full", &[]).unwrap_err().to_string().contains("sslrootcert"));
        assert!(options("postgresql://u@h?sslmode=sometimes", &[]).unwrap_err().to_string().contains("sometimes"));
        assert!(options("host=h user=u sslmode=''", &[]).is_err(), "libpq takes no empty one either");
        assert!(options("postgresql://u@h?ssl%6Dode=verify-full", &[]).is_err(), "sslrootcert is missing");
        assert!(options("postgresql://u@h?sslcert=/c", &[]).unwrap_err().to_string().contains("private key"));
        let missing = options("postgresql://u@h?sslmode=verify-ca&sslrootcert=/no/such/file", &[]).unwrap_err();
        assert!(missing.to_string().contains("/no/such/file"));
        for unknown in ["sslcrl=x", "channel_binding=require", "sslnegotiation=direct&sslmode=require"] {
            assert!(options(&format!("postgresql://u@h?{unknown}"), &[]).is_err(), "{unknown}");
        }
    }
}
