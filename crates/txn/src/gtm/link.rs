//! The stream between a coordinator and a gtm. With certificates of the cluster both sides show theirs before anything is said;
//! who has none is never heard.

use pgerror::Result;
use pgproto::tls::Mutual;
use pgproto::{FrameReader, FrameWriter};
use tokio::net::TcpStream;

/// To a gtm at "host:port".
pub(super) async fn connect(address: &str, secured: Option<&Mutual>) -> Result<(FrameReader, FrameWriter)> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    match secured {
        Some(mutual) => Ok(mutual.connect(stream).await?),
        None => Ok(plain(stream)),
    }
}

/// From somebody who has connected.
pub(super) async fn accept(stream: TcpStream, secured: Option<&Mutual>) -> Result<(FrameReader, FrameWriter)> {
    stream.set_nodelay(true)?;
    match secured {
        Some(mutual) => Ok(mutual.accept(stream).await?),
        None => Ok(plain(stream)),
    }
}

fn plain(stream: TcpStream) -> (FrameReader, FrameWriter) {
    let (read, write) = stream.into_split();
    (FrameReader::new(read), FrameWriter::new(write))
}
