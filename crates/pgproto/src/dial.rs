//! Opens the stream to a server: TCP, or the Unix socket of one on the same machine, which costs the processors less.
//!
//! As in libpq a host that begins with `/` is the directory of the socket, over which nothing is encrypted.

use std::time::Duration;

use pgerror::{PgError, Result};
use tokio::net::{TcpStream, UnixStream};

use crate::frame::{FrameReader, FrameWriter};
use crate::tls::{self, Encryption, Peer};
use crate::unix;

/// Time between probes of a connection over which nothing has come; see [`notice_dead_host`].
const PROBE_INTERVAL: Duration = Duration::from_secs(6);
/// Unanswered ones that break it.
const PROBES_MAX: u32 = 4;

/// What may lie unread in a Unix socket. The kernel's usual limit holds three frames of a COPY, so that sender and server would
/// wake each other for every few of them; a limit of the system's may be lower.
const SEND_BUFFER_BYTES: usize = 512 * 1024;

/// For messages: where that is.
pub(crate) fn place(host: &str, port: u16) -> String {
    match host.starts_with('/') {
        true => format!("{host}/.s.PGSQL.{port}"),
        false => format!("{host}:{port}"),
    }
}

/// A stream to a server, over which nothing of the protocol proper has been said yet.
pub(crate) struct Opened {
    pub(crate) reader: FrameReader,
    pub(crate) writer: FrameWriter,
    pub(crate) way: Way,
}

/// What a connection goes over.
pub(crate) enum Way {
    /// To a server on this machine.
    Socket,
    Plain,
    Encrypted(Peer),
}

/// Connects, and has the connection encrypted if that is asked for.
pub(crate) async fn open(host: &str, port: u16, encryption: &Encryption) -> Result<Opened> {
    if host.starts_with('/') {
        let stream = UnixStream::connect(place(host, port)).await?;
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES).map_err(std::io::Error::from)?;
        let (read, write) = unix::split(stream.into_std()?)?;
        return Ok(Opened { reader: FrameReader::new(read), writer: FrameWriter::new(write), way: Way::Socket });
    }
    let mut stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    notice_dead_host(&stream).map_err(std::io::Error::from)?;
    if let Some(tls) = encryption.tls() {
        if tls::ask(&mut stream).await? {
            let (stream, peer) = tls.connect(stream, host).await.map_err(|error| {
                // What rustls does not take was said by somebody: no broken connection, no silence.
                let text = format!("TLS: {error}");
                let failed = match error.kind() {
                    std::io::ErrorKind::InvalidData => PgError::protocol(text),
                    _ => PgError::connection(text),
                };
                failed.hint("Compare sslmode, sslrootcert, sslcert and sslkey with the server's certificate and its pg_hba.conf.")
            })?;
            let (read, write) = tokio::io::split(stream);
            let (reader, writer) = (FrameReader::new(read), FrameWriter::new(write));
            return Ok(Opened { reader, writer, way: Way::Encrypted(peer) });
        }
        if matches!(encryption, Encryption::Required(_)) {
            return Err(PgError::protocol("server does not support SSL, but SSL was required")
                .hint("Set ssl = on in its postgresql.conf; a coordinator needs tls_certificate and tls_key."));
        }
    }
    let (read, write) = stream.into_split();
    Ok(Opened { reader: FrameReader::new(read), writer: FrameWriter::new(write), way: Way::Plain })
}

/// A machine that is gone without a word breaks the connection within half a minute, also while an answer is waited for that
/// may rightly take long. A server that merely computes answers the probes.
fn notice_dead_host(stream: &TcpStream) -> rustix::io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, PROBES_MAX)?;
    // For bytes that were sent and never acknowledged, which probes do not cover.
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(stream, PROBE_INTERVAL.as_millis() as u32 * (PROBES_MAX + 1))?;
    Ok(())
}
