//! `loxo load --direct`: a coordinator inside this program, so that rows go from here to the datanodes.
//!
//! It is a coordinator like any other: the same gtm, catalog and commit. Only this program is meant to connect: it listens on a
//! loopback port while the load lasts, and asks for the password that the datanodes ask for, if they ask for one.

use std::net::{Ipv4Addr, SocketAddr};

use cluster::Config;
use coordinator::{Authentication, Coordinator};
use pgerror::{PgError, Result, SqlState};

/// Connections to each datanode; a stream needs two.
const POOL_SIZE: usize = 64;

/// Runs until it is dropped.
pub struct Direct {
    /// What to connect to.
    pub uri: String,
    server: tokio::task::JoinHandle<Result<()>>,
}

impl Direct {
    /// Starts it.
    pub async fn start(config: &Config) -> Result<Self> {
        let password = config.password()?;
        if password.is_none() && config.cluster.sslcert.is_some() {
            let text = "everybody on this host could use the datanodes' certificate while rows are loaded directly";
            return Err(PgError::new(SqlState::CONFIG_FILE_ERROR, text)
                .hint("Set password_file in [cluster], or load without --direct."));
        }
        let authentication = if password.is_some() { Authentication::Scram } else { Authentication::Trust };
        let name = format!("load{}", std::process::id());
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let options = crate::commands::coordinator::options(
            config,
            cluster::certificates::LOADER,
            name,
            listen,
            authentication,
            POOL_SIZE,
        )?;
        let coordinator = Coordinator::bind(options).await?;
        let mut words = vec![
            ("host", Ipv4Addr::LOCALHOST.to_string()),
            ("port", coordinator.listens().borrow().port().to_string()),
            ("user", config.cluster.user.clone()),
            ("dbname", config.cluster.database.clone()),
        ];
        words.extend(password.map(|password| ("password", password)));
        let word =
            |(name, value): (&str, String)| format!("{name}='{}'", value.replace('\\', "\\\\").replace('\'', "\\'"));
        let uri = words.into_iter().map(word).collect::<Vec<_>>().join(" ");
        Ok(Self { uri, server: tokio::spawn(coordinator.serve()) })
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.server.abort();
    }
}
