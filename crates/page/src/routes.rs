//! Requests and their answers.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::client::{self, Failure, Login};
use crate::document::document;
use crate::guard::guard;
use crate::listen::Limited;
use crate::questions::{Question, sees_all};
use crate::sessions::{SESSIONS_MAX, Session, Sessions, Trouble, secret};
use crate::{Inside, Options, SlowStatement};

const BODY_BYTES_MAX: usize = 8 << 10;
const TOKEN: &str = "x-loxo-token";
/// Few passwords can be tried at a time; the coordinator counts those that fail besides, as it does for any client of this host.
const LOGINS_MAX: usize = 4;
/// A connection, and a statement.
const LOGIN_MAX: Duration = Duration::from_secs(15);
const REFUSED_WAITS: Duration = Duration::from_secs(1);

/// What all requests share.
struct Server {
    options: Options,
    inside: Arc<dyn Inside>,
    sessions: Sessions,
    logins: Arc<Semaphore>,
    /// Name of the cookie, one for this port: cookies are a host's.
    cookie: String,
}

type Shared = State<Arc<Server>>;

/// An answer that is not the one hoped for.
enum Refusal {
    Status(StatusCode, &'static str),
    Failed(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Refusal::Failed(failure)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, failure) = match self {
            Refusal::Status(status, message) => (status, Failure::new("", message)),
            Refusal::Failed(failure) => (StatusCode::UNPROCESSABLE_ENTITY, failure),
        };
        answer(status, &json!({ "error": failure }))
    }
}

type Answer = Result<Response, Refusal>;

fn answer(status: StatusCode, value: &Value) -> Response {
    let mut response = (status, value.to_string()).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn good(value: &Value) -> Answer {
    Ok(answer(StatusCode::OK, value))
}

pub(crate) async fn serve(listener: TcpListener, options: Options, inside: Arc<dyn Inside>) {
    let port = listener.local_addr().map_or(0, |address| address.port());
    let server = Arc::new(Server {
        options,
        inside,
        sessions: Sessions::default(),
        logins: Arc::new(Semaphore::new(LOGINS_MAX)),
        cookie: format!("loxo_page_{port}"),
    });
    let routes = Router::new()
        .route("/", get(page))
        .route("/api/login", post(login))
        .route("/api/logout", post(logout))
        .route("/api/now", get(now))
        .route("/api/map", get(map))
        .route("/api/slow", get(slow))
        .route("/api/signal", post(signal))
        .route("/api/plan", post(explain))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(guard))
        .with_state(server.clone());
    tokio::select! {
        ended = axum::serve(Limited::new(listener), routes) => {
            if let Err(error) = ended {
                tracing::error!(%error, "the page ended");
            }
        }
        () = server.sessions.sweep() => {}
    }
}

async fn page(State(server): Shared) -> Response {
    document(&server.options, &secret())
}

async fn login(State(server): Shared, headers: HeaderMap, body: Bytes) -> Answer {
    let login: Login = read(&headers, &body)?;
    let Ok(place) = server.logins.clone().acquire_owned().await else { return Err(full()) };
    let before = server.cookie_of(&headers);
    if !server.sessions.has_room(&login.user, before) {
        return Err(full());
    }
    let (user, database) = (login.user.clone(), login.database.clone());
    let encryption = server.inside.encryption().map_err(|error| Failure::new("58000", error.message().to_string()))?;
    // A client that hangs up keeps its place, and its wait, nevertheless.
    let coordinator = server.inside.coordinator();
    let task = tokio::spawn(async move {
        let _place = place;
        let attempt = async {
            let link = client::connect(coordinator, &encryption, login).await?;
            let sees_all = sees_all(&link).await?;
            Ok((link, sees_all))
        };
        let late = || Failure::new("08006", "the coordinator does not answer");
        let ended = tokio::time::timeout(LOGIN_MAX, attempt).await.unwrap_or_else(|_| Err(late()));
        if ended.is_err() {
            tokio::time::sleep(REFUSED_WAITS).await;
        }
        ended
    });
    let ended = task.await.unwrap_or_else(|error| Err(Failure::new("XX000", error.to_string())));
    let (link, sees_all) = ended?;
    let (cookie, token) = server.sessions.begin(link, user.clone(), before).ok_or_else(full)?;
    tracing::debug!(user, database, "someone has logged in to the page");
    let told = json!({ "token": token, "user": user, "database": database, "coordinator": server.options.name, "sees_all": sees_all });
    let mut response = answer(StatusCode::OK, &told);
    set_cookie(&mut response, &format!("{}={cookie}; Path=/; HttpOnly; SameSite=Strict", server.cookie));
    Ok(response)
}

fn full() -> Refusal {
    debug_assert_eq!(SESSIONS_MAX, 16, "the text says so");
    Refusal::Status(StatusCode::SERVICE_UNAVAILABLE, "16 users of this page are logged in; wait until one has left")
}

async fn logout(State(server): Shared, headers: HeaderMap) -> Answer {
    server.session(&headers)?;
    server.sessions.end(server.cookie_of(&headers).unwrap_or_default());
    let mut response = answer(StatusCode::OK, &json!({}));
    set_cookie(&mut response, &format!("{}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0", server.cookie));
    Ok(response)
}

fn set_cookie(response: &mut Response, cookie: &str) {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
}

/// What changes each second. A part that fails, say for a coordinator that does not answer, leaves the others as they are.
async fn now(State(server): Shared, headers: HeaderMap) -> Answer {
    let session = server.session(&headers)?;
    let mut parts = ask(server.clone(), &headers, session, Question::Now).await?;
    let health = server.inside.health();
    parts["health"] = json!({ "ok": health.is_ok(), "text": health.unwrap_or_else(|why| why) });
    parts["figures"] = Value::from(server.inside.figures());
    good(&parts)
}

/// What changes seldom.
async fn map(State(server): Shared, headers: HeaderMap) -> Answer {
    let session = server.session(&headers)?;
    good(&ask(server.clone(), &headers, session, Question::Map).await?)
}

/// Those that have ended, under the rule of `pg_stat_activity`.
async fn slow(State(server): Shared, headers: HeaderMap) -> Answer {
    let session = server.session(&headers)?;
    // The rights of now, not of the login.
    let sees = ask(server.clone(), &headers, session, Question::Sees).await?;
    let is_members = |user: &str| sees["roles"].as_array().is_some_and(|roles| roles.iter().any(|role| role == user));
    let may_see = |statement: &SlowStatement| sees["all"] == true || is_members(&statement.user);
    let statements: Vec<SlowStatement> = server.inside.slow().into_iter().filter(may_see).collect();
    good(&json!({ "slow": statements }))
}

/// Which session, and whether it is ended or its statement is cancelled.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Signal {
    pid: i32,
    ends: bool,
}

async fn signal(State(server): Shared, headers: HeaderMap, body: Bytes) -> Answer {
    let session = server.session(&headers)?;
    let Signal { pid, ends } = read(&headers, &body)?;
    // Other numbers mean groups of processes to an operating system.
    if pid <= 0 {
        return Err(Refusal::Status(StatusCode::BAD_REQUEST, "a session has a number above 0"));
    }
    good(&ask(server.clone(), &headers, session, Question::Signal { pid, ends }).await?)
}

/// A statement whose plan is wanted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
}

async fn explain(State(server): Shared, headers: HeaderMap, body: Bytes) -> Answer {
    let session = server.session(&headers)?;
    let Text { text } = read(&headers, &body)?;
    good(&ask(server.clone(), &headers, session, Question::Plan(text)).await?)
}

/// A body of JSON; other types can be sent by forms of other sites.
fn read<T: DeserializeOwned>(headers: &HeaderMap, body: &Bytes) -> Result<T, Refusal> {
    if headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) != Some("application/json") {
        return Err(Refusal::Status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json"));
    }
    serde_json::from_slice(body)
        .map_err(|_| Refusal::Status(StatusCode::BAD_REQUEST, "the body is not what is expected"))
}

/// Asks by the session's connection, to the end even if the browser leaves: nothing is ever left half done on it. A session whose
/// connection is gone, or on which a statement does not come back, is over.
async fn ask(
    server: Arc<Server>,
    headers: &HeaderMap,
    session: Arc<Session>,
    question: Question,
) -> Result<Value, Refusal> {
    let Ok(place) = session.places.clone().try_acquire_owned() else {
        return Err(Refusal::Status(
            StatusCode::TOO_MANY_REQUESTS,
            "the answers to earlier requests have not come yet",
        ));
    };
    let cookie = server.cookie_of(headers).unwrap_or_default().to_owned();
    let task = tokio::spawn(async move {
        let _place = place;
        let result = question.ask(&session).await;
        if matches!(result, Err(Trouble::Over)) {
            server.sessions.end(&cookie);
        }
        result
    });
    match task.await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Trouble::Failed(failure))) => Err(Refusal::Failed(failure)),
        Ok(Err(Trouble::Over)) | Err(_) => {
            Err(Refusal::Status(StatusCode::UNAUTHORIZED, "the connection to the coordinator is gone: log in again"))
        }
    }
}

impl Server {
    fn cookie_of<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(name, _)| *name == self.cookie).map(|(_, value)| value).next()
    }

    /// By cookie and token: 401 without the one, 403 without the other.
    fn session(&self, headers: &HeaderMap) -> Result<Arc<Session>, Refusal> {
        let found = self.cookie_of(headers).and_then(|cookie| self.sessions.find(cookie));
        let session = found.ok_or(Refusal::Status(StatusCode::UNAUTHORIZED, "log in first"))?;
        let token = headers.get(TOKEN).and_then(|token| token.to_str().ok()).unwrap_or_default();
        if !session.has_token(token) {
            return Err(Refusal::Status(StatusCode::FORBIDDEN, "the token is not the session's: log in again"));
        }
        session.is_used();
        Ok(session)
    }
}
