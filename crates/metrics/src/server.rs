//! The port: `GET /metrics` and `GET /health`, one request a connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// A request must be there, and its answer read, within this time.
const REQUEST_MAX: Duration = Duration::from_secs(5);
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Connections at a time; others wait.
const CONNECTIONS_MAX: usize = 16;

/// What the port tells.
pub trait Source: Send + Sync + 'static {
    /// The page of figures.
    fn page(&self) -> String;

    /// Does the process do its work?
    ///
    /// # Errors
    /// Why not.
    fn health(&self) -> Result<String, String>;
}

/// Answers until the future is dropped.
pub async fn serve(listener: TcpListener, source: Arc<dyn Source>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: it passes.
                tracing::warn!(%error, "could not accept a connection to the port of figures");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let source = source.clone();
        tokio::spawn(async move {
            // A reader that does not take the answer is no error.
            let _ = tokio::time::timeout(REQUEST_MAX, answer(stream, &*source)).await;
            drop(place);
        });
    }
}

async fn answer(mut stream: TcpStream, source: &dyn Source) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > REQUEST_BYTES_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    stream.write_all(response(&request, source).as_bytes()).await?;
    stream.shutdown().await
}

fn response(request: &[u8], source: &dyn Source) -> String {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (status, body) = match (method, path) {
        (b"GET", b"/metrics") => ("200 OK", source.page()),
        (b"GET", b"/health") => match source.health() {
            Ok(text) => ("200 OK", text + "\n"),
            Err(text) => ("503 Service Unavailable", text + "\n"),
        },
        (b"GET", _) => ("404 Not Found", "There are /metrics and /health.\n".to_owned()),
        _ => ("405 Method Not Allowed", "Only GET is answered.\n".to_owned()),
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ill;

    impl Source for Ill {
        fn page(&self) -> String {
            "a 1\n".into()
        }

        fn health(&self) -> Result<String, String> {
            Err("the gtm is away".into())
        }
    }

    #[test]
    fn requests_are_answered() {
        let first = |request: &str| {
            let answer = response(request.as_bytes(), &Ill);
            (answer[9..12].to_owned(), answer.split_once("\r\n\r\n").unwrap_or_default().1.to_owned())
        };
        assert_eq!(first("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), ("200".into(), "a 1\n".into()));
        assert_eq!(first("GET /metrics?x=1 HTTP/1.0\r\n\r\n").0, "200");
        assert_eq!(first("GET /health HTTP/1.1\r\n\r\n"), ("503".into(), "the gtm is away\n".into()));
        assert_eq!(first("GET / HTTP/1.1\r\n\r\n").0, "404");
        assert_eq!(first("POST /metrics HTTP/1.1\r\n\r\n").0, "405");
    }
}
