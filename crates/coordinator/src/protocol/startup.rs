//! From the first byte of a connection to its first ReadyForQuery.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use executor::{Identity, Session, TlsStatus};
use pgerror::{PgError, Result, SqlState};
use pgproto::frame::Cursor;
use pgproto::frontend::{self, request};
use pgproto::hba::{Attempt, ClientName, Method, Rules};
use pgproto::{FrameReader, FrameWriter, backend, scram};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::protocol::socket::Socket;
use crate::protocol::startup_settings::{Initial, initial_settings};
use crate::shared::admission::Admitted;
use crate::shared::failed_logins::Login;
use crate::shared::figures::REFUSED_LOGINS;
use crate::shared::tls::{Encrypted, Tls};
use crate::shared::{Authentication, CancelKey, Shared};

/// A client has this long to authenticate (`authentication_timeout`).
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(60);
/// `MAX_STARTUP_PACKET_LENGTH` of PostgreSQL, and the length word, which it does not count.
const STARTUP_BYTES_MAX: usize = 10_004;
/// Longest message of a client that is not authenticated yet (`PQ_SMALL_MESSAGE_LIMIT`).
const MESSAGE_BYTES_MAX: usize = 10_000;
const NAME_BYTES_MAX: usize = 63;

/// What a connection turned out to be.
pub(crate) enum Opening {
    Session {
        socket: Box<Socket>,
        session: Box<Session>,
        /// The client is pg_dump.
        is_dump: bool,
        /// `application_name`.
        application: String,
        tls: Option<TlsStatus>,
        admitted: Admitted,
    },
    /// The stream is closed once the cancel has been passed on: that is what the client waits for.
    Cancel { key: CancelKey, stream: (FrameReader, FrameWriter) },
    /// Closed again, or answered with an error.
    Nothing,
}

/// Answers the startup packet and authenticates.
pub(crate) async fn open(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr) -> Result<Opening> {
    let deadline = tokio::time::Instant::now() + AUTHENTICATION_TIMEOUT;
    let ends = Addresses { peer, own: stream.local_addr()? };
    let secured = tokio::time::timeout_at(deadline, secured(shared.tls(), stream)).await;
    let secured = secured.unwrap_or_else(|_| Err(PgError::connection("no startup packet came in time")));
    let Some(opened) = secured.inspect_err(|error| log_failure(&[], peer, error))? else {
        return Ok(Opening::Nothing);
    };
    let Ends { mut reader, mut writer, channel } = opened;
    reader.limit(MESSAGE_BYTES_MAX);
    let negotiation = negotiate(shared, &mut reader, &mut writer, &channel, ends);
    let opened = tokio::time::timeout_at(deadline, negotiation).await;
    let error = match opened {
        Ok(Ok(First::Session { session, admitted, is_dump, application })) => {
            reader.expect(frontend::length_max);
            let socket = Box::new(Socket::new(reader, writer));
            let tls = match channel {
                Channel::Plain => None,
                Channel::Encrypted(encrypted) => Some(encrypted.status),
            };
            return Ok(Opening::Session { socket, session, is_dump, application, tls, admitted });
        }
        Ok(Ok(First::Cancel(key))) => return Ok(Opening::Cancel { key, stream: (reader, writer) }),
        Ok(Ok(First::Nothing)) => return Ok(Opening::Nothing),
        Ok(Err(error)) => {
            error.with(pgerror::field::SEVERITY, "FATAL").with(pgerror::field::SEVERITY_LOCALIZED, "FATAL")
        }
        Err(_) => {
            let late = PgError::fatal(SqlState::INVALID_AUTHORIZATION, "canceling authentication due to timeout");
            log_failure(&[], peer, &late);
            late
        }
    };
    backend::error(writer.buffer(), &error);
    writer.shutdown().await?;
    Err(error)
}

/// Both ends of a client's connection before anything is known of him.
struct Ends {
    reader: FrameReader,
    writer: FrameWriter,
    channel: Channel,
}

enum Channel {
    Plain,
    Encrypted(Encrypted),
}

/// Addresses of both ends of a client's connection.
#[derive(Clone, Copy)]
struct Addresses {
    peer: SocketAddr,
    own: SocketAddr,
}

/// Lays TLS under the connection if the client asks for it and the coordinator has a certificate. `None`: the client has left.
async fn secured(tls: Option<&Tls>, mut stream: TcpStream) -> Result<Option<Ends>> {
    /// What a TLS connection begins with.
    const HANDSHAKE: u8 = 22;
    /// A request for encryption: its own length and a code. No more is read, so that nothing but TLS can follow it.
    const REQUEST_BYTES: u32 = 8;
    let encrypted = async |tls: &Tls, stream, is_direct| {
        let (reader, writer, encrypted) = tls.accept(stream, is_direct).await?;
        Ok(Some(Ends { reader, writer, channel: Channel::Encrypted(encrypted) }))
    };
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first[0] == HANDSHAKE {
        return match tls {
            Some(tls) => encrypted(tls, stream, true).await,
            None => Ok(None),
        };
    }
    let mut asked = 0;
    loop {
        let Some(length) = word(&mut stream).await? else { return Ok(None) };
        let mut head = BytesMut::from(&length.to_be_bytes()[..]);
        if length == REQUEST_BYTES {
            let Some(code) = word(&mut stream).await? else { return Ok(None) };
            match (code, tls) {
                (request::SSL, Some(tls)) => {
                    stream.write_all(b"S").await?;
                    return encrypted(tls, stream, false).await;
                }
                // The one after the other, not one of them again.
                (request::SSL | request::GSS_ENCRYPTION, _) if code != asked => {
                    asked = code;
                    // Before the answer: what comes after it the client may say.
                    let is_unasked = has_bytes(&stream).await?;
                    stream.write_all(b"N").await?;
                    if is_unasked {
                        let what = if code == request::SSL { "SSL" } else { "GSSAPI encryption" };
                        return Err(refuse_unasked(&mut stream, what).await?);
                    }
                    continue;
                }
                _ => head.extend_from_slice(&code.to_be_bytes()),
            }
        }
        let (read, write) = stream.into_split();
        let mut reader = FrameReader::new(read);
        reader.buffer().extend_from_slice(&head);
        return Ok(Some(Ends { reader, writer: FrameWriter::new(write), channel: Channel::Plain }));
    }
}

/// Four bytes, and no more; `None` if the stream ends before.
async fn word(stream: &mut TcpStream) -> Result<Option<u32>> {
    match stream.read_u32().await {
        Ok(word) => Ok(Some(word)),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error.into()),
    }
}

enum First {
    Session { session: Box<Session>, admitted: Admitted, is_dump: bool, application: String },
    Cancel(CancelKey),
    Nothing,
}

async fn negotiate(
    shared: &Arc<Shared>,
    reader: &mut FrameReader,
    writer: &mut FrameWriter,
    channel: &Channel,
    ends: Addresses,
) -> Result<First> {
    let Some(packet) = startup_packet(reader).await? else { return Ok(First::Nothing) };
    let mut cursor = Cursor::new(packet);
    match cursor.u32()? {
        request::CANCEL => {
            let key = cursor.i32().and_then(|process_id| Ok((process_id, cursor.i32()?)));
            Ok(key.map_or(First::Nothing, First::Cancel))
        }
        version if version >> 16 == 3 => {
            let parameters = startup_parameters(cursor)?;
            negotiate_version(version, &parameters, writer);
            let is_dump = parameters.iter().any(|(name, value)| name == "application_name" && value == "pg_dump");
            let opened = authenticate(shared, &parameters, reader, writer, channel, ends).await;
            let (session, admitted, application) =
                opened.inspect_err(|error| log_failure(&parameters, ends.peer, error))?;
            Ok(First::Session { session: Box::new(session), admitted, is_dump, application })
        }
        version => {
            let (major, minor) = (version >> 16, version & 0xffff);
            let message = format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0");
            if major >= 3 || version == 0 {
                return Err(PgError::fatal(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            // Before version 3 an error was a text.
            writer.buffer().extend_from_slice(format!("EFATAL:  {message}\n\0").as_bytes());
            writer.shutdown().await?;
            Ok(First::Nothing)
        }
    }
}

/// Bytes that came before the answer might be somebody else's.
async fn refuse_unasked(stream: &mut TcpStream, request: &str) -> Result<PgError> {
    let error =
        PgError::fatal(SqlState::PROTOCOL_VIOLATION, format!("received unencrypted data after {request} request"))
            .detail("This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.");
    let mut answer = BytesMut::new();
    backend::error(&mut answer, &error);
    stream.write_all(&answer).await?;
    Ok(error)
}

/// Without waiting for any.
async fn has_bytes(stream: &TcpStream) -> Result<bool> {
    let mut some = [0];
    tokio::select! {
        biased;
        came = stream.peek(&mut some) => Ok(came? > 0),
        () = std::future::ready(()) => Ok(false),
    }
}

/// Names are cut to what PostgreSQL keeps of them (`NAMEDATALEN`) before anybody is asked who that is (`ProcessStartupPacket`).
fn cut(mut name: String) -> String {
    let end = (0..=name.len().min(NAME_BYTES_MAX)).rev().find(|at| name.is_char_boundary(*at));
    name.truncate(end.unwrap_or(0));
    name
}

/// An attack on passwords shows in the log. What the client has said stays on the line.
fn log_failure(parameters: &[(String, String)], peer: SocketAddr, error: &PgError) {
    let user = parameters.iter().find(|(name, _)| name == "user").map_or("", |(_, user)| user);
    let (code, message) = (error.code(), error.message().replace(['\n', '\r'], " "));
    REFUSED_LOGINS.add(code.as_str(), 1);
    tracing::warn!(?user, %peer, code = code.as_str(), "login refused: {message}");
}

/// `None` if the client hangs up, or sends a length that cannot be: that may be anything, and gets no answer.
async fn startup_packet(reader: &mut FrameReader) -> Result<Option<Bytes>> {
    loop {
        let buffer = reader.buffer();
        if buffer.len() >= 4 {
            let length = u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]) as usize;
            if !(8..=STARTUP_BYTES_MAX).contains(&length) {
                tracing::warn!("invalid length of startup packet");
                return Ok(None);
            }
            if buffer.len() >= length {
                let mut packet = buffer.split_to(length);
                packet.advance(4);
                return Ok(Some(packet.freeze()));
            }
        }
        if reader.fill().await? == 0 {
            return Ok(None);
        }
    }
}

/// Names and values up to an empty name, which must be the last byte. What is not closed by a NUL ends with the packet.
fn startup_parameters(cursor: Cursor) -> Result<Vec<(String, String)>> {
    let text = |bytes: &[u8]| {
        String::from_utf8(bytes.to_vec())
            .map_err(|_| PgError::fatal(SqlState::PROTOCOL_VIOLATION, "a startup parameter is not UTF-8"))
    };
    let packet = cursor.rest();
    let string_at = |at: usize| packet[at..].split(|byte| *byte == 0).next().unwrap_or_default();
    let mut parameters = Vec::new();
    let mut at = 0;
    while at < packet.len() && packet[at] != 0 {
        let name = string_at(at);
        let value_at = at + name.len() + 1;
        if value_at >= packet.len() {
            break;
        }
        let value = string_at(value_at);
        parameters.push((text(name)?, text(value)?));
        at = value_at + value.len() + 1;
    }
    match at + 1 == packet.len() {
        true => Ok(parameters),
        false => Err(PgError::fatal(
            SqlState::PROTOCOL_VIOLATION,
            "invalid startup packet layout: expected terminator as last byte",
        )),
    }
}

/// libpq asks for newer minor versions and made-up options to keep servers honest.
fn negotiate_version(version: u32, parameters: &[(String, String)], writer: &mut FrameWriter) {
    let unknown: Vec<Bytes> = parameters
        .iter()
        .filter(|(name, _)| name.starts_with("_pq_."))
        .map(|(name, _)| Bytes::from(name.clone()))
        .collect();
    if version > frontend::PROTOCOL_3_0 || !unknown.is_empty() {
        backend::negotiate_version(writer.buffer(), frontend::PROTOCOL_3_0, &unknown);
    }
}

async fn authenticate(
    shared: &Arc<Shared>,
    parameters: &[(String, String)],
    reader: &mut FrameReader,
    writer: &mut FrameWriter,
    channel: &Channel,
    ends: Addresses,
) -> Result<(Session, Admitted, String)> {
    let find = |wanted: &str| parameters.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let user = find("user").map(cut).filter(|user| !user.is_empty()).ok_or_else(|| {
        PgError::fatal(SqlState::INVALID_AUTHORIZATION, "no PostgreSQL user name specified in startup packet")
    })?;
    let database = find("database").map(cut).filter(|name| !name.is_empty()).unwrap_or_else(|| user.clone());
    let login = Login::new(ends.peer.ip(), &user);
    let method = match &*shared.authentication() {
        // A client may have come to another address before the file was read again.
        Authentication::Trust if !ends.peer.ip().to_canonical().is_loopback() => {
            let text = "this coordinator lets clients of its own host in, and no others";
            return Err(PgError::fatal(SqlState::INVALID_AUTHORIZATION, text));
        }
        Authentication::Trust => Method::Trust,
        Authentication::Scram => Method::Scram,
        Authentication::Rules(rules) => {
            let is_encrypted = matches!(channel, Channel::Encrypted(_));
            let (peer, own) = (ends.peer.ip().to_canonical(), ends.own.ip());
            let attempt = Attempt { user: &user, database: &database, peer, own, is_encrypted };
            let method = rules.judge(&attempt, &roles_of(shared, rules, &user).await?)?.clone();
            if let Method::Certificate { map, name } = &method {
                // Nobody guesses a certificate: those that do not fit are not counted.
                check_certificate(channel, *name, &user, |name| rules.is_user(name, &user, map.as_deref()))?;
            }
            method
        }
    };
    // A rule that rejects the client says so first.
    if matches!(channel, Channel::Plain) && shared.tls().is_some_and(Tls::is_required) {
        return Err(PgError::fatal(
            SqlState::INVALID_AUTHORIZATION,
            "this coordinator takes encrypted connections only",
        )
        .hint("Connect with sslmode=require or better."));
    }
    let service = shared.context().service();
    let own_secret = service.secret.clone().filter(|_| service.user == user);
    // Commands of the cluster go on in a database that is closed to clients.
    let is_own = service.user == user && find("application_name").as_deref() == Some("loxo");
    let secret = match method {
        // The coordinator can be nobody on the datanodes but itself, unless they ask for nothing either.
        Method::Trust | Method::Certificate { .. } => own_secret,
        Method::Scram => {
            let keys = scram_exchange(shared, &login, reader, writer, channel).await?;
            // The coordinator's own secret follows a change of the password, the keys do not.
            Some(own_secret.unwrap_or(scram::Secret::Keys(keys)))
        }
    };
    backend::authentication(writer.buffer(), 0, b"");
    let mut context = shared.databases().of_name(&database).await?;
    if find("replication").is_some_and(|value| value != "false" && value != "off") {
        return Err(PgError::fatal(
            SqlState::FEATURE_NOT_SUPPORTED,
            "a coordinator does not serve replication connections",
        )
        .hint("Replicate the datanodes."));
    }
    // What is wrong with them is said to nobody who may not come in.
    let (initial, refused) = match initial_settings(parameters) {
        Ok(initial) => (initial, None),
        Err(error) => (Default::default(), Some(error)),
    };
    let Initial { settings, own, snapshot } = initial;
    let identity = Identity { user, database, secret };
    let mut session = Session::new(context.clone(), identity.clone(), settings.clone());
    session.activity().comes_to(&identity.database, &identity.user);
    let mut started = session.come_in(is_own).await;
    // There may be another one of that name by now, or none.
    let gone = [SqlState::CONFIG_FILE_ERROR, SqlState::INVALID_CATALOG_NAME];
    if started.as_ref().is_err_and(|error| gone.contains(&error.code()))
        && shared.databases().has_changed(&identity.database).await?
    {
        shared.databases().leave(&identity.database);
        context = shared.databases().of_name(&identity.database).await?;
        session = Session::new(context, identity, settings);
        session.activity().comes_to(&session.identity().database, &session.identity().user);
        started = session.come_in(is_own).await;
    }
    let reported = started?;
    if let Some(error) = refused {
        return Err(error);
    }
    let is_superuser = reported.get("is_superuser").is_some_and(|value| value == "on");
    let admitted = shared.admission().admit(is_superuser)?;
    if !is_superuser {
        session.check_connection_limits().await?;
    }
    let given = session.take_given_settings().await?;
    session.settings_mut().set_snapshot(snapshot.or(given).unwrap_or_default(), false);
    for (name, sql) in own {
        session.set_own(name, &sql, false).await?;
        session.release();
    }
    session.settings_mut().are_the_start();
    let out = writer.buffer();
    for (name, value) in &reported {
        backend::parameter_status(out, name, value);
    }
    // Without one of its own the session goes by the name of the coordinator's links.
    let is_named = session.settings_mut().has("application_name");
    let application = reported.get("application_name").filter(|_| is_named).cloned().unwrap_or_default();
    Ok((session, admitted, application))
}

/// All roles that a user is a member of, himself among them, if the rules name any (`is_member_of_role_nosuper`).
async fn roles_of(shared: &Arc<Shared>, rules: &Rules, user: &str) -> Result<HashSet<String>> {
    if !rules.ask_for_roles() {
        return Ok(HashSet::new());
    }
    let sql = format!(
        "WITH RECURSIVE found (oid) AS (SELECT oid FROM pg_catalog.pg_authid WHERE rolname = {} UNION \
         SELECT m.roleid FROM pg_catalog.pg_auth_members AS m JOIN found ON m.member = found.oid) \
         SELECT a.rolname FROM pg_catalog.pg_authid AS a JOIN found USING (oid)",
        catalog::quote_literal(user)
    );
    let rows = shared.context().query_as_service(shared.context().home(), &sql).await?;
    let names = rows.into_iter().filter_map(|row| row.into_iter().next().flatten());
    Ok(names.map(|name| String::from_utf8_lossy(&name).into_owned()).collect())
}

/// By which the client proves who he is. `is_users`: does this name lead to the user?
fn check_certificate(channel: &Channel, name: ClientName, user: &str, is_users: impl Fn(&str) -> bool) -> Result<()> {
    let Channel::Encrypted(Encrypted { certificate: Some(subject), .. }) = channel else {
        return Err(PgError::fatal(SqlState::INVALID_AUTHORIZATION, "connection requires a valid client certificate"));
    };
    match subject.name(name).is_some_and(is_users) {
        true => Ok(()),
        false => Err(PgError::fatal(
            SqlState::INVALID_AUTHORIZATION,
            format!("certificate authentication failed for user \"{user}\""),
        )),
    }
}

async fn scram_exchange(
    shared: &Arc<Shared>,
    login: &Login<'_>,
    reader: &mut FrameReader,
    writer: &mut FrameWriter,
    channel: &Channel,
) -> Result<scram::Keys> {
    shared.failed_logins().hold(login).await?;
    let user = login.user();
    let sql = format!(
        "SELECT rolpassword, rolcanlogin FROM pg_catalog.pg_authid WHERE rolname = {} \
         AND (rolvaliduntil IS NULL OR rolvaliduntil > now())",
        catalog::quote_literal(user)
    );
    let rows = shared.context().query_as_service(shared.context().home(), &sql).await?;
    let stored = rows.first().and_then(|row| row.first()?.clone()).map(|v| String::from_utf8_lossy(&v).into_owned());
    let may_log_in = rows.first().and_then(|row| row.get(1)?.as_deref()) == Some(b"t");
    let verifier = match stored.as_deref().and_then(scram::Verifier::parse) {
        Some(verifier) => verifier,
        None => scram::Verifier::mock(shared.context().seal().await?.salt_of(user)),
    };

    let binding = match channel {
        Channel::Encrypted(encrypted) => encrypted.binding.as_ref(),
        Channel::Plain => None,
    };
    // The better one first.
    let offered = binding.map(|_| scram::MECHANISM_PLUS).into_iter().chain([scram::MECHANISM]);
    let mechanisms: String = offered.clone().flat_map(|name| [name, "\0"]).chain(["\0"]).collect();
    backend::authentication(writer.buffer(), 10, mechanisms.as_bytes());
    writer.flush().await?;
    let mut cursor = Cursor::new(password_message(reader).await?);
    let chosen = cursor.cstr()?;
    let Some(mechanism) = offered.clone().find(|name| name.as_bytes() == chosen.as_ref()) else {
        return Err(PgError::fatal(
            SqlState::PROTOCOL_VIOLATION,
            "client selected an invalid SASL authentication mechanism",
        ));
    };
    let is_bound = mechanism == scram::MECHANISM_PLUS;
    let first = match usize::try_from(cursor.i32()?) {
        Ok(length) => cursor.bytes(length)?,
        // It has not said anything yet, and is asked to.
        Err(_) => {
            backend::authentication(writer.buffer(), 11, b"");
            writer.flush().await?;
            password_message(reader).await?
        }
    };
    let server = scram::Server::new(verifier, &first, binding, is_bound)?;
    backend::authentication(writer.buffer(), 11, server.first().as_bytes());
    writer.flush().await?;
    let proof = password_message(reader).await?;
    let (last, keys) = shared.failed_logins().judge(login, Instant::now(), || server.finish(&proof, user))?;
    backend::authentication(writer.buffer(), 12, last.as_bytes());
    if !may_log_in {
        let text = format!("role \"{user}\" is not permitted to log in");
        return Err(PgError::fatal(SqlState::INVALID_AUTHORIZATION, text));
    }
    Ok(keys)
}

async fn password_message(reader: &mut FrameReader) -> Result<Bytes> {
    match reader.next().await? {
        Some(frame) if frame.tag == frontend::tag::PASSWORD => Ok(frame.body),
        Some(_) => Err(PgError::fatal(SqlState::PROTOCOL_VIOLATION, "expected SASL response")),
        None => Err(PgError::connection("the client closed the connection during authentication")),
    }
}
