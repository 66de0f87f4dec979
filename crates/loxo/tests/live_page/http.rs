//! A little of a browser's HTTP.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

/// One more than any answer takes.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// GET without a body, POST with one.
pub fn request(port: u16, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the page's port");
    stream.set_read_timeout(Some(SILENCE_MAX)).expect("a limit");
    stream.write_all(text_of(port, path, headers, body).as_bytes()).expect("a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let answer = String::from_utf8(answer).expect("UTF-8");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

/// Tries to log in.
pub fn login(port: u16, user: &str, password: &str) -> Answer {
    let body = json!({ "user": user, "password": password, "database": "postgres" }).to_string();
    request(port, "/api/login", &[("Content-Type", "application/json")], Some(&body))
}

/// A request as it is sent.
pub fn text_of(port: u16, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> String {
    let method = if body.is_some() { "POST" } else { "GET" };
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    if headers.iter().all(|(name, _)| *name != "Host") {
        text += &format!("Host: 127.0.0.1:{port}\r\n");
    }
    headers.iter().for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
    let body = body.unwrap_or_default();
    text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    text
}

/// Someone who is logged in.
pub struct User {
    port: u16,
    pub cookie: String,
    pub token: String,
}

impl User {
    pub fn login(port: u16, user: &str, password: &str) -> Self {
        let answer = login(port, user, password);
        assert_eq!(answer.status, 200, "{answer:?}");
        let cookie = answer.head.split_once("set-cookie: ").expect("a cookie").1;
        let cookie = cookie.split_once(';').expect("an end").0.to_owned();
        Self { port, cookie, token: answer.json()["token"].as_str().expect("a token").to_owned() }
    }

    fn request(&self, path: &str, body: Option<&str>) -> Answer {
        let mut headers = vec![("Cookie", self.cookie.as_str()), ("X-Loxo-Token", self.token.as_str())];
        headers.extend(body.map(|_| ("Content-Type", "application/json")));
        request(self.port, path, &headers, body)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request(path, None)
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.request(path, Some(&body.to_string()))
    }

    /// The rows of a part of what there is now.
    pub fn rows(&self, part: &str) -> Vec<Value> {
        let now = self.get("/api/now").json();
        now[part]["rows"].as_array().unwrap_or_else(|| panic!("{part}: {}", now[part])).clone()
    }
}
