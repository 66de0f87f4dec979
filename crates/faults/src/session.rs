//! A client's session that comes back after its coordinator died, and what became of its transactions.

use std::time::{Duration, Instant};

use pgerror::{PgError, Result, SqlState, field};
use testkit::wire::{Answer, Client};

/// Longer than any wait that the product allows itself (30 s): a session that is silent for so long hangs.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Between two tries to connect.
const POLL: Duration = Duration::from_millis(20);

/// How a transaction ended, as far as its client can know.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// The commit was acknowledged.
    Committed,
    /// The server said, or it is certain, that nothing of it will ever be there.
    Refused,
    /// The commit was asked for and the answer is lost.
    Unknown,
}

/// A session of one thread.
#[derive(Debug)]
pub struct Session {
    port: u16,
    setup: String,
    client: Option<Client>,
    connections: usize,
}

impl Session {
    /// Not connected yet; `setup` is run on each new connection.
    pub fn new(port: u16, setup: &str) -> Self {
        Self { port, setup: setup.to_owned(), client: None, connections: 0 }
    }

    /// Connects if there is no live connection.
    ///
    /// # Errors
    /// When the coordinator cannot be reached or refuses.
    pub fn connect(&mut self) -> Result<()> {
        if self.client.is_none() {
            let mut client = Client::connect(self.port)?;
            client.set_silence_max(SILENCE_MAX)?;
            if !self.setup.is_empty() {
                client.run(&self.setup)?;
            }
            self.client = Some(client);
            self.connections += 1;
        }
        Ok(())
    }

    /// How often it has connected: a server's session each time.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// Connects, trying again until `deadline`; says whether it succeeded.
    pub fn connect_until(&mut self, deadline: Instant) -> bool {
        while self.connect().is_err() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(POLL);
        }
        true
    }

    /// Runs one statement: its rows, or its error. A broken connection is dropped (08006).
    ///
    /// # Errors
    /// The statement's or the connection's.
    pub fn run(&mut self, sql: &str) -> Result<Answer> {
        self.ask(sql).and_then(|mut answer| match answer.error.take() {
            Some(error) => Err(error),
            None => Ok(answer),
        })
    }

    /// Rows as text, NULL as `\N`.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn strings(&mut self, sql: &str) -> Result<Vec<Vec<String>>> {
        let rows = self.run(sql)?.rows.into_iter();
        let texts = rows.map(|row| {
            let text = row.into_iter().map(|v| v.map_or("\\N".into(), |v| String::from_utf8_lossy(&v).into_owned()));
            text.collect()
        });
        Ok(texts.collect())
    }

    /// The only value, a number.
    ///
    /// # Errors
    /// As [`Session::run`]; also when it is something else.
    pub fn number(&mut self, sql: &str) -> Result<i64> {
        let value = self.strings(sql)?.into_iter().flatten().next();
        let number = value.as_deref().and_then(|text| text.parse().ok());
        number.ok_or_else(|| PgError::protocol(format!("not a number: {value:?} from: {sql}")))
    }

    /// Runs a statement that commits (COMMIT, or one outside a block) and tells the outcome, with the error if there is one.
    pub fn commit(&mut self, sql: &str) -> (Outcome, Option<PgError>) {
        if let Err(error) = self.connect() {
            return (Outcome::Refused, Some(error));
        }
        match self.ask(sql) {
            Err(error) => (Outcome::Unknown, Some(error)),
            Ok(Answer { error: Some(error), .. }) => (after_error(sql, &error), Some(error)),
            Ok(Answer { tag: Some(tag), .. }) if tag == "ROLLBACK" => (Outcome::Refused, None),
            Ok(_) => (Outcome::Committed, None),
        }
    }

    /// Asks for the commit and is gone before the answer, as a client that dies.
    pub fn commit_and_leave(&mut self) -> Outcome {
        match self.client.take().map(|mut client| client.send_query("COMMIT")) {
            Some(Ok(())) => Outcome::Unknown,
            // It could not even be asked for.
            Some(Err(_)) | None => Outcome::Refused,
        }
    }

    /// Leaves a transaction that failed, or the connection if that does not go.
    pub fn abandon(&mut self) {
        if self.client.is_some() && self.run("ROLLBACK").is_err() {
            self.client = None;
        }
    }

    /// The answer with the server's error in it; Err if the connection broke.
    fn ask(&mut self, sql: &str) -> Result<Answer> {
        self.connect()?;
        let Some(client) = &mut self.client else { return Err(PgError::connection("there is no connection")) };
        let answered = client.simple(sql);
        if answered.is_err() {
            self.client = None;
        }
        answered
    }
}

/// What an error says about the outcome. A COMMIT that fails has rolled back, unless it says otherwise; a statement that is its
/// own transaction may have committed when the datanode that ran it went away.
fn after_error(sql: &str, error: &PgError) -> Outcome {
    let code = error.code();
    let unknown = code == SqlState::STATEMENT_COMPLETION_UNKNOWN || error.text(field::SEVERITY) == "FATAL";
    let gone = code.as_str().starts_with("08") || code.as_str().starts_with("57P0");
    if unknown || (gone && sql != "COMMIT") { Outcome::Unknown } else { Outcome::Refused }
}
