//! A connection to a datanode.
//!
//! The caller queues messages into [`Connection::out`], sends them with [`Connection::flush`] and reads the answers with
//! [`Connection::recv`] or, for rows, [`Connection::recv_run`]. Notices and notifications are set aside until
//! [`Connection::take_notices`]; ParameterStatus keeps [`Connection::parameter`] up to date. The connection counts how many
//! ReadyForQuery it is owed. It may go back into a pool only when it [`is_idle`]
//! (nothing owed, no transaction). Any I/O or protocol error marks it broken.
//!
//! [`is_idle`]: Connection::is_idle

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{self, tag};
use crate::cancel::CancelKey;
use crate::dial::{self, Opened, Way};
use crate::frame::{Cursor, Frame, FrameReader, FrameWriter};
use crate::reported::Reported;
use crate::tls::Encryption;
use crate::{frontend, scram};
use bytes::{Bytes, BytesMut};
use pgerror::{PgError, Result, SqlState, field};

/// Where and as whom to connect.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct ConnectOptions {
    /// A name, an address, or the directory of the server's Unix socket.
    pub host: String,
    pub port: u16,
    pub user: String,
    pub database: String,
    pub secret: Option<scram::Secret>,
    /// Further startup parameters, e.g. `application_name`.
    pub parameters: Vec<(String, String)>,
    pub encryption: Encryption,
    /// How the server shows that it is the one meant; `None` takes any.
    pub proof: Option<Arc<dyn Proof>>,
}

/// Tells whether a server that was reached is the one meant. Asked on every new connection, before anything else is read.
pub trait Proof: Send + Sync + std::fmt::Debug {
    /// What to ask in this database.
    fn question(&self, database: &str) -> Question;
}

/// Values as text.
pub type Rows = Vec<Vec<Option<Bytes>>>;

/// One query, and what its answer has to be.
pub struct Question {
    /// By the simple protocol.
    pub sql: String,
    /// An error: this is another server.
    pub judge: Box<dyn FnOnce(Result<Rows>) -> Result<()> + Send>,
}

/// Longest wait for a datanode to accept and authenticate.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The status byte of ReadyForQuery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum TransactionStatus {
    Idle,
    InTransaction,
    Failed,
}

impl TransactionStatus {
    /// `I`, `T` or `E`.
    pub fn letter(self) -> u8 {
        match self {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InTransaction => b'T',
            TransactionStatus::Failed => b'E',
        }
    }
}

fn closed() -> PgError {
    PgError::connection("the datanode closed the connection unexpectedly")
}

/// Most bytes of notices and notifications that are kept until somebody takes them.
const NOTICE_BYTES_MAX: usize = 256 << 20;

/// See the module's page.
pub struct Connection {
    reader: FrameReader,
    writer: FrameWriter,
    reported: Reported,
    cancel_key: CancelKey,
    status: TransactionStatus,
    syncs_owed: u32,
    broken: bool,
    notices: Vec<Frame>,
    notice_bytes: usize,
}

impl Connection {
    /// Connects, authenticates, and has the server show that it is the one meant.
    pub async fn connect(options: &ConnectOptions) -> Result<Self> {
        Self::connect_and(options, |_| {}).await
    }

    /// [`Connection::connect`], and what `queue` queues travels with the question about the server, and its answers are the caller's to read.
    pub async fn connect_and(options: &ConnectOptions, queue: impl FnOnce(&mut Self) + Send) -> Result<Self> {
        let place = dial::place(&options.host, options.port);
        let attempt = async {
            let mut this = Self::log_in(options, &place).await?;
            this.prove(options, &place, queue).await.map(|()| this)
        };
        match tokio::time::timeout(CONNECT_TIMEOUT, attempt).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) if error.code() == SqlState::CONNECTION_FAILURE => {
                let hint = match error.get(field::HINT) {
                    Some(_) => error.text(field::HINT).into_owned(),
                    None => "Is the server running there? `loxo check` tells which do not answer.".to_owned(),
                };
                Err(PgError::connection(format!("could not connect to the datanode at {place}: {}", error.message()))
                    .hint(hint))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(PgError::connection(format!("the datanode at {place} did not answer within 10 s"))),
        }
    }

    /// With the password that the server takes, if that may have changed.
    async fn log_in(options: &ConnectOptions, place: &str) -> Result<Self> {
        let Some(scram::Secret::Kept(kept)) = &options.secret else { return Self::connect_inner(options).await };
        let (mut password, mut tried) = (kept.present(), Vec::new());
        loop {
            let secret = Some(scram::Secret::Password(password.clone()));
            match Self::connect_inner(&ConnectOptions { secret, ..options.clone() }).await {
                Err(error) if error.code() == SqlState::INVALID_PASSWORD => {
                    tried.push(password);
                    password = kept.another(&tried).ok_or_else(|| kept.refused(place, &error))?;
                }
                Err(error) => return Err(error),
                Ok(connection) => {
                    kept.is_right(place, password);
                    return Ok(connection);
                }
            }
        }
    }

    async fn connect_inner(options: &ConnectOptions) -> Result<Self> {
        let Opened { reader, writer, way } = dial::open(&options.host, options.port, &options.encryption).await?;
        let mut this = Self {
            reader,
            writer,
            reported: Reported::default(),
            cancel_key: CancelKey::new(&options.host, options.port, 0, Bytes::new(), options.encryption.clone()),
            status: TransactionStatus::Idle,
            syncs_owed: 1,
            broken: false,
            notices: Vec::new(),
            notice_bytes: 0,
        };
        let mut parameters = vec![("user", options.user.as_str()), ("database", options.database.as_str())];
        parameters.extend(options.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        frontend::startup(this.out(), &parameters);
        this.flush().await?;
        this.authenticate(options, &way).await?;
        loop {
            let frame = this.recv().await?;
            match frame.tag {
                tag::BACKEND_KEY_DATA => {
                    let mut cursor = Cursor::new(frame.body);
                    this.cancel_key.process_id = cursor.i32()?;
                    this.cancel_key.secret = cursor.rest();
                }
                tag::READY_FOR_QUERY => return Ok(this),
                tag::ERROR => return Err(PgError::decode_body(frame.body)),
                other => return Err(unexpected(other, "startup")),
            }
        }
    }

    async fn prove(&mut self, options: &ConnectOptions, place: &str, queue: impl FnOnce(&mut Self)) -> Result<()> {
        let question = options.proof.as_ref().map(|proof| proof.question(&options.database));
        if let Some(question) = &question {
            self.query(question.sql.as_bytes());
        }
        queue(self);
        self.flush().await?;
        let Some(Question { judge, .. }) = question else { return Ok(()) };
        let answer = self.read_rows().await.map(|(rows, _)| rows);
        if let (Err(error), true) = (&answer, self.broken) {
            return Err(error.clone());
        }
        judge(answer).map_err(|error| {
            let message = format!("the server at {place} {}", error.message());
            error.with(field::MESSAGE, message)
        })
    }

    async fn authenticate(&mut self, options: &ConnectOptions, way: &Way) -> Result<()> {
        let mut exchange: Option<scram::Client> = None;
        loop {
            let frame = self.recv().await?;
            match frame.tag {
                tag::ERROR => return Err(PgError::decode_body(frame.body)),
                tag::AUTHENTICATION => {}
                other => return Err(unexpected(other, "authentication")),
            }
            let mut cursor = Cursor::new(frame.body);
            let mut answer = BytesMut::new();
            match (cursor.u32()?, &mut exchange) {
                (0, _) => return Ok(()),
                (3, _) => match &options.secret {
                    Some(scram::Secret::Password(_)) if !way.is_secure() => {
                        let text =
                            "the server asks for the password itself, and nothing shows that it is the one meant";
                        return Err(PgError::fatal(SqlState::INVALID_AUTHORIZATION, text)
                            .hint("Use scram-sha-256 in its pg_hba.conf, or sslmode=verify-full."));
                    }
                    Some(scram::Secret::Password(password)) => {
                        answer.extend_from_slice(password.as_bytes());
                        answer.extend_from_slice(&[0]);
                    }
                    _ => return Err(no_password(options)),
                },
                (10, _) => {
                    let secret = options.secret.clone().ok_or_else(|| no_password(options))?;
                    let client = scram_client(secret, &cursor.rest(), way)?;
                    let first = client.first();
                    answer.extend_from_slice(client.mechanism().as_bytes());
                    answer.extend_from_slice(&[0]);
                    answer.extend_from_slice(&(first.len() as u32).to_be_bytes());
                    answer.extend_from_slice(first.as_bytes());
                    exchange = Some(client);
                }
                (11, Some(client)) => answer.extend_from_slice(client.respond(&cursor.rest())?.as_bytes()),
                (12, Some(client)) => {
                    client.finish(&cursor.rest())?;
                    continue;
                }
                (kind, _) => {
                    return Err(PgError::new(
                        SqlState::INVALID_AUTHORIZATION,
                        format!("the datanode asks for authentication method {kind}, which is not supported"),
                    )
                    .hint("Use trust or scram-sha-256 in the datanode's pg_hba.conf."));
                }
            }
            frontend::password(self.out(), &answer);
            self.flush().await?;
        }
    }

    /// Where the builders of [`frontend`] write.
    pub fn out(&mut self) -> &mut BytesMut {
        self.writer.buffer()
    }

    /// Queues a Sync and counts the ReadyForQuery it will bring.
    pub fn sync(&mut self) {
        frontend::sync(self.writer.buffer());
        self.syncs_owed += 1;
    }

    /// Counts the ReadyForQuery of a Sync that the caller will queue later, so that the connection is not drained until then.
    pub fn owe_sync(&mut self) {
        self.syncs_owed += 1;
    }

    /// [`Connection::owe_sync`] was for a Sync that is not needed any more.
    pub fn forgive_sync(&mut self) {
        self.syncs_owed = self.syncs_owed.saturating_sub(1);
    }

    /// How many ReadyForQuery are still to come, or to be asked for.
    pub fn syncs_owed(&self) -> u32 {
        self.syncs_owed
    }

    /// Queues a simple query and counts the ReadyForQuery it will bring.
    pub fn query(&mut self, sql: &[u8]) {
        frontend::query(self.writer.buffer(), sql);
        self.syncs_owed += 1;
    }

    /// Sends what is queued.
    pub async fn flush(&mut self) -> Result<()> {
        let given_up = &self.cancel_key.given_up;
        let result = tokio::select! {
            biased;
            result = self.writer.flush() => result,
            error = given_up.comes() => Err(error),
        };
        self.note(result)
    }

    /// Sends what is queued, then `bytes` (whole frames or a part of one) without copying them.
    pub async fn write_through(&mut self, bytes: &[u8]) -> Result<()> {
        let given_up = &self.cancel_key.given_up;
        let result = tokio::select! {
            biased;
            result = self.writer.write_through(bytes) => result,
            error = given_up.comes() => Err(error),
        };
        self.note(result)
    }

    /// The next message other than notices, notifications and parameter reports. Cancel-safe.
    pub async fn recv(&mut self) -> Result<Frame> {
        loop {
            let given_up = &self.cancel_key.given_up;
            let result = tokio::select! {
                biased;
                result = self.reader.next() => result,
                error = given_up.comes() => Err(error),
            };
            let result = result.and_then(|frame| frame.ok_or_else(closed));
            let frame = self.note(result)?;
            if let Some(frame) = self.sort(frame)? {
                return Ok(frame);
            }
        }
    }

    /// Waits, while nothing is under way, until the server says something unasked, which [`Connection::take_notices`] gives then.
    /// An error if that is the end of the session. Cancel-safe.
    pub async fn hear(&mut self) -> Result<()> {
        while self.notices.is_empty() {
            let result = self.reader.next().await.and_then(|frame| frame.ok_or_else(closed));
            let frame = self.note(result)?;
            if let Some(frame) = self.sort(frame)? {
                self.broken = true;
                return Err(match frame.tag {
                    tag::ERROR => PgError::decode_body(frame.body),
                    other => unexpected(other, "a time of listening"),
                });
            }
        }
        Ok(())
    }

    /// A run of whole frames with this tag, headers included, as one slice, or else the next other message.
    pub async fn recv_run(&mut self, run_tag: u8) -> Result<Run> {
        loop {
            let run = self.reader.take_run(run_tag);
            if let Some((bytes, count)) = self.note(run)? {
                return Ok(Run::Frames(bytes, count));
            }
            let other = self.reader.try_next();
            if let Some(frame) = self.note(other)? {
                if let Some(frame) = self.sort(frame)? {
                    return Ok(Run::Other(frame));
                }
                continue;
            }
            let given_up = &self.cancel_key.given_up;
            let filled = tokio::select! {
                biased;
                filled = self.reader.fill() => filled,
                error = given_up.comes() => Err(error),
            };
            if self.note(filled)? == 0 {
                self.broken = true;
                return Err(closed());
            }
        }
    }

    /// Keeps asynchronous messages aside and follows the transaction status.
    fn sort(&mut self, frame: Frame) -> Result<Option<Frame>> {
        match frame.tag {
            tag::NOTICE | tag::NOTIFICATION => {
                self.notice_bytes += frame.body.len();
                if self.notice_bytes > NOTICE_BYTES_MAX {
                    self.broken = true;
                    let message = "a datanode has more than 256 MiB of messages about one statement";
                    return Err(PgError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                        .detail("They are what functions raise, and the rows for whose sake triggers have to run.")
                        .hint("Change fewer rows at once."));
                }
                self.notices.push(frame);
                Ok(None)
            }
            tag::PARAMETER_STATUS => {
                self.reported.note(backend::decode_parameter_status(frame.body.clone())?);
                Ok(None)
            }
            tag::READY_FOR_QUERY => {
                self.syncs_owed = self.syncs_owed.saturating_sub(1);
                self.status = match frame.body.first() {
                    Some(b'T') => TransactionStatus::InTransaction,
                    Some(b'E') => TransactionStatus::Failed,
                    _ => TransactionStatus::Idle,
                };
                Ok(Some(frame))
            }
            tag::ERROR => {
                // FATAL means that the backend is gone.
                self.broken |= PgError::decode_body(frame.body.clone()).is_fatal();
                Ok(Some(frame))
            }
            _ => Ok(Some(frame)),
        }
    }

    fn note<T>(&mut self, result: Result<T>) -> Result<T> {
        self.broken |= result.is_err();
        result
    }

    /// Reads and drops messages until nothing is owed; the first error among them is returned.
    pub async fn drain(&mut self) -> Result<()> {
        let mut first = None;
        while self.syncs_owed > 0 {
            let frame = self.recv().await?;
            if frame.tag == tag::ERROR {
                first.get_or_insert(PgError::decode_body(frame.body));
            } else if frame.tag == tag::COPY_IN {
                frontend::copy_fail(self.out(), b"abandoned");
                self.flush().await?;
            }
        }
        first.map_or(Ok(()), Err)
    }

    /// Runs statements by the simple protocol; gives the command tag of the last one.
    pub async fn execute(&mut self, sql: &str) -> Result<String> {
        Ok(self.rows(sql).await?.1)
    }

    /// Runs statements by the simple protocol; gives all rows as text values.
    pub async fn query_rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<Bytes>>>> {
        Ok(self.rows(sql).await?.0)
    }

    async fn rows(&mut self, sql: &str) -> Result<(Vec<Vec<Option<Bytes>>>, String)> {
        self.query(sql.as_bytes());
        self.flush().await?;
        self.read_rows().await
    }

    /// Reads the answer to a simple query that was queued and sent before.
    pub async fn read_rows(&mut self) -> Result<(Vec<Vec<Option<Bytes>>>, String)> {
        let (mut rows, mut command_tag, mut failure) = (Vec::new(), String::new(), None);
        loop {
            let frame = self.recv().await?;
            match frame.tag {
                tag::DATA_ROW => rows.push(backend::decode_data_row(frame.body)?),
                tag::COMMAND_COMPLETE => command_tag = backend::decode_command_complete(frame.body)?,
                tag::ERROR => failure = Some(PgError::decode_body(frame.body)),
                tag::READY_FOR_QUERY => break,
                _ => {}
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok((rows, command_tag)),
        }
    }

    /// Transaction status as of the last ReadyForQuery.
    pub fn status(&self) -> TransactionStatus {
        self.status
    }

    /// Nothing owed, outside a transaction, not broken.
    pub fn is_idle(&self) -> bool {
        !self.broken && self.syncs_owed == 0 && self.status == TransactionStatus::Idle
    }

    /// Has every answer been read?
    pub fn is_drained(&self) -> bool {
        self.syncs_owed == 0
    }

    /// For a connection that lay idle: has the server said or closed anything meanwhile? Both mean that it is gone
    /// (a restart, an administrator's command).
    pub fn looks_alive(&mut self) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let read = std::pin::pin!(self.reader.fill()).poll(&mut context);
        self.broken |= read.is_ready();
        !self.broken
    }

    /// For a connection with nothing under way: why it is gone, if the server has said or done that already. Does not wait.
    pub fn last_words(&mut self) -> Option<PgError> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let read = match std::pin::pin!(self.reader.fill()).poll(&mut context) {
            std::task::Poll::Pending => return None,
            std::task::Poll::Ready(read) => read,
        };
        if read.as_ref().is_ok_and(|bytes| *bytes > 0) {
            while let Ok(Some(frame)) = self.reader.try_next() {
                let is_error = frame.tag == tag::ERROR;
                match self.sort(frame) {
                    Ok(Some(frame)) if is_error => {
                        self.broken = true;
                        return Some(PgError::decode_body(frame.body));
                    }
                    Ok(None) => {}
                    _ => self.broken = true,
                }
            }
            return self.broken.then(closed);
        }
        self.broken = true;
        Some(closed())
    }

    /// Must this connection be thrown away?
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Marks the connection as unusable.
    pub fn mark_broken(&mut self) {
        self.broken = true;
    }

    /// A value reported by ParameterStatus.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.reported.values.get(name).map(String::as_str)
    }

    /// All of them.
    pub fn parameters(&self) -> &HashMap<String, String> {
        &self.reported.values
    }

    /// How often the backend has said that it reads constants in another way.
    pub fn readings(&self) -> u64 {
        self.reported.readings
    }

    /// Notices and notifications that came since the last call.
    pub fn take_notices(&mut self) -> Vec<Frame> {
        self.notice_bytes = 0;
        std::mem::take(&mut self.notices)
    }

    /// Undoes [`Connection::take_notices`], for some of them.
    pub fn put_back_notices(&mut self, notices: Vec<Frame>) {
        self.notice_bytes += notices.iter().map(|frame| frame.body.len()).sum::<usize>();
        self.notices.splice(0..0, notices);
    }

    /// What a CancelRequest for this backend needs.
    pub fn cancel_key(&self) -> &CancelKey {
        &self.cancel_key
    }
}

/// What [`Connection::recv_run`] found.
#[allow(missing_docs)]
pub enum Run {
    /// Whole frames in one slice, and their number.
    Frames(Bytes, usize),
    Other(Frame),
}

/// The best of the mechanisms that a server offers.
fn scram_client(secret: scram::Secret, offer: &[u8], way: &Way) -> Result<scram::Client> {
    let offers = |name: &str| offer.split(|byte| *byte == 0).any(|offered| offered == name.as_bytes());
    let binding = match way {
        Way::Encrypted(peer) => peer.binding.as_ref(),
        Way::Socket | Way::Plain => None,
    };
    let client = scram::Client::new(secret, binding, offers(scram::MECHANISM_PLUS));
    match offers(client.mechanism()) {
        true => Ok(client),
        false => Err(PgError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "none of the server's SASL authentication mechanisms are supported",
        )),
    }
}

impl Way {
    /// Can a password be said aloud?
    fn is_secure(&self) -> bool {
        match self {
            Way::Socket => true,
            Way::Plain => false,
            Way::Encrypted(peer) => peer.is_verified,
        }
    }
}

fn no_password(options: &ConnectOptions) -> PgError {
    PgError::fatal(
        SqlState::INVALID_PASSWORD,
        format!("the datanode at {} asks for a password and there is none", dial::place(&options.host, options.port)),
    )
}

/// A message that has no place in the protocol's present state.
pub fn unexpected(tag: u8, during: &str) -> PgError {
    PgError::protocol(format!("unexpected message '{}' during {during}", char::from(tag)))
}
