//! One connection, and one COPY on it.

use std::sync::Arc;

use bytes::Bytes;
use conninfo::Target;
use copyfmt::{BINARY_HEADER, BINARY_TRAILER, CopyOptions, Eol, Format};
use futures_util::FutureExt;
use pgerror::{PgError, Result, SqlState};
use pgproto::backend::{self, tag};
use pgproto::{ConnectOptions, Connection, frontend};

use crate::files::cut::{BLOCK_BYTES, Piece};
use crate::files::input::Source;
use crate::files::lines::{self, Sent};
use crate::options;

/// Connects to a URI (or libpq's `key=value` words).
pub(crate) async fn connect(uri: &str) -> Result<Connection> {
    open(parse(uri)?).await
}

/// As the user of the URI, to its database, but on another server.
pub(crate) async fn connect_to(uri: &str, host: String, port: u16) -> Result<Connection> {
    open(ConnectOptions { host, port, ..parse(uri)? }).await
}

async fn open(options: ConnectOptions) -> Result<Connection> {
    Connection::connect(&options).await.map_err(|error| {
        // The connection was made for coordinators, which connect to datanodes only.
        let message = error.message().replace("the datanode", "the server");
        error.with(pgerror::field::MESSAGE, message)
    })
}

fn parse(uri: &str) -> Result<ConnectOptions> {
    let mut options = Target::parse(uri)?.options()?;
    let own = [
        ("application_name", "loxo load"),
        ("client_encoding", "UTF8"),
        // They are not shown; and while a block is written nobody reads, so many long ones could block both sides.
        ("client_min_messages", "error"),
    ];
    options.parameters.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Ok(options)
}

/// The one value of a query; an error if there is none.
pub(crate) async fn value(connection: &mut Connection, sql: &str) -> Result<String> {
    let rows = connection.query_rows(sql).await?;
    let first = rows.into_iter().next().and_then(|row| row.into_iter().next().flatten());
    let bytes = first.ok_or_else(|| PgError::protocol(format!("no value from: {sql}")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Runs a statement that must do what it says: COMMIT and PREPARE TRANSACTION of a failed transaction answer `ROLLBACK`.
pub(crate) async fn must(connection: &mut Connection, sql: &str, command_tag: &str) -> Result<()> {
    let answer = connection.execute(sql).await?;
    if answer == command_tag {
        return Ok(());
    }
    Err(PgError::new(SqlState::IN_FAILED_SQL_TRANSACTION, format!("the server answered {answer} to {command_tag}")))
}

/// What every COPY of a load has in common.
#[derive(Debug)]
pub(crate) struct CopyTarget {
    /// `COPY t (a, b) FROM STDIN (…)`
    pub(crate) statement: String,
    /// As the server's CONTEXT names it.
    pub(crate) relation: String,
    pub(crate) options: CopyOptions,
    pub(crate) server_version: u32,
    pub(crate) sources: Arc<Vec<Source>>,
}

/// The COPY statement of a load.
pub(crate) fn copy_statement(table: &str, columns: &[String], options: &CopyOptions) -> String {
    let list = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
    format!("COPY {table}{list} FROM STDIN {}", options::sql(options))
}

/// A COPY under way on a connection.
pub(crate) struct CopyIn<'a> {
    target: &'a CopyTarget,
    sent: Sent,
    eol: Eol,
    /// Nothing may follow what was sent.
    closed: bool,
    /// Why the server ended it.
    refusal: Option<Refusal>,
}

/// An error about what was sent.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// Its CONTEXT has the line of the file.
    pub(crate) error: PgError,
    /// `None`: it names no line.
    pub(crate) line: Option<u64>,
}

impl<'a> CopyIn<'a> {
    pub(crate) async fn begin(connection: &mut Connection, target: &'a CopyTarget) -> Result<Self> {
        connection.query(target.statement.as_bytes());
        connection.flush().await?;
        let frame = connection.recv().await?;
        match frame.tag {
            tag::COPY_IN => {}
            tag::ERROR => {
                let error = PgError::decode_body(frame.body);
                connection.drain().await?;
                return Err(error);
            }
            other => return Err(pgproto::connection::unexpected(other, "COPY")),
        }
        let copy = Self { target, sent: Sent::default(), eol: Eol::Unknown, closed: false, refusal: None };
        if target.options.format == Format::Binary {
            frontend::copy_data(connection.out(), &BINARY_HEADER);
        }
        Ok(copy)
    }

    /// May this piece follow what was sent?
    pub(crate) fn accepts(&self, piece: &Piece) -> bool {
        !self.closed && (self.eol == piece.eol || self.eol == Eol::Unknown || piece.eol == Eol::Unknown)
    }

    pub(crate) async fn send(&mut self, connection: &mut Connection, piece: &Piece) -> Result<()> {
        debug_assert!(self.accepts(piece));
        self.sent.add(piece);
        self.closed = piece.unterminated;
        if piece.eol != Eol::Unknown {
            self.eol = piece.eol;
        }
        for block in &piece.blocks {
            for part in block.chunks(BLOCK_BYTES) {
                if let Err(error) = send_part(connection, part).await {
                    // The server's reason is better than that the connection broke, if it left one.
                    return Err(self.answer(connection).await.err().unwrap_or(error));
                }
            }
            // An error is answered at once, the end of the COPY only to CopyDone.
            if let Some(answer) = connection.recv().now_or_never() {
                let frame = answer?;
                return Err(match frame.tag {
                    tag::ERROR => self.locate(PgError::decode_body(frame.body)),
                    other => pgproto::connection::unexpected(other, "COPY"),
                });
            }
        }
        Ok(())
    }

    /// Ends the COPY; gives the server's count of rows.
    pub(crate) async fn finish(&mut self, connection: &mut Connection) -> Result<u64> {
        if self.target.options.format == Format::Binary {
            frontend::copy_data(connection.out(), &BINARY_TRAILER);
        }
        frontend::copy_done(connection.out());
        connection.flush().await?;
        self.answer(connection).await
    }

    async fn answer(&mut self, connection: &mut Connection) -> Result<u64> {
        let (mut rows, mut failure) = (0, None);
        loop {
            let frame = connection.recv().await?;
            match frame.tag {
                tag::COMMAND_COMPLETE => {
                    let answer = backend::decode_command_complete(frame.body)?;
                    rows = backend::split_command_tag(&answer).1.unwrap_or(0);
                }
                tag::ERROR => {
                    let error = self.locate(PgError::decode_body(frame.body));
                    if error.is_fatal() {
                        return Err(error);
                    }
                    failure = Some(error);
                }
                tag::READY_FOR_QUERY => return failure.map_or(Ok(rows), Err),
                _ => {}
            }
        }
    }

    fn locate(&mut self, error: PgError) -> PgError {
        let (error, place) = self.sent.renumber(error, &self.target.relation);
        self.refusal = Some(Refusal { error: error.clone(), line: place.map(|(_, line)| line) });
        match place {
            Some((file, line)) => lines::locate(error, &self.target.sources[file].name, line),
            None => error,
        }
    }

    /// Why the server ended the COPY, if it did.
    pub(crate) fn into_refusal(self) -> Option<Refusal> {
        self.refusal
    }
}

async fn send_part(connection: &mut Connection, part: &[u8]) -> Result<()> {
    connection.out().extend_from_slice(&frontend::copy_data_header(part.len()));
    connection.write_through(part).await
}

/// The rows that a COPY … TO STDOUT sends, given to `take`; their number.
pub(crate) async fn copy_out(
    connection: &mut Connection,
    sql: &str,
    mut take: impl FnMut(Bytes) -> Result<()>,
) -> Result<u64> {
    connection.query(sql.as_bytes());
    connection.flush().await?;
    let (mut rows, mut failure) = (0, None);
    loop {
        let frame = connection.recv().await?;
        match frame.tag {
            tag::COPY_DATA => take(frame.body)?,
            tag::COMMAND_COMPLETE => {
                let answer = backend::decode_command_complete(frame.body)?;
                rows = backend::split_command_tag(&answer).1.unwrap_or(0);
            }
            tag::ERROR => failure = Some(PgError::decode_body(frame.body)),
            tag::READY_FOR_QUERY => return failure.map_or(Ok(rows), Err),
            _ => {}
        }
    }
}
