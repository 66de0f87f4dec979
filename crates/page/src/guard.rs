//! Which requests are none of ours, and what browsers must not do with answers.
//!
//! A page of another site may send requests to loopback from the browser of someone who is logged in. It cannot read the token, nor
//! set its header; beyond that a request must name a loopback host (so no name of that site's that leads to 127.0.0.1) and, if the
//! browser says where it comes from, come from this page.

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONNECTION, HOST, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;

/// Refuses what is none of ours, and adds what browsers must know to every answer.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let is_page = request.uri().path() == "/";
    let mut response = match is_ours(request.headers(), is_page) {
        true => next.run(request).await,
        false => (StatusCode::FORBIDDEN, "This page answers to loopback names, and to itself.\n").into_response(),
    };
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // One request a connection, so that its time is limited.
        (CONNECTION, "close"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// A link on another site may lead to the page itself, which tells nothing; all else must come from it.
fn is_ours(headers: &HeaderMap, is_page: bool) -> bool {
    let Some(host) = text(headers, HOST).filter(|host| is_loopback(host)) else { return false };
    let comes_from = text(headers, HeaderName::from_static("sec-fetch-site"));
    let has_origin = headers.contains_key(ORIGIN);
    let is_same_origin = text(headers, ORIGIN).and_then(|origin| origin.strip_prefix("http://")) == Some(host);
    is_page || (!has_origin || is_same_origin) && comes_from.is_none_or(|site| site == "same-origin")
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// With any port: a tunnel may begin at another one.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(is_page: bool, headers: &[(&'static str, &'static str)]) -> bool {
        let pairs =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        is_ours(&pairs.collect(), is_page)
    }

    #[test]
    fn only_the_page_itself_asks() {
        let host = ("host", "localhost:8433");
        assert!(
            ours(false, &[host]) && ours(false, &[("host", "[::1]:8433")]) && ours(false, &[("host", "127.0.0.1")])
        );
        assert!(ours(false, &[host, ("origin", "http://localhost:8433"), ("sec-fetch-site", "same-origin")]));
        for wrong in [
            &[][..],
            &[("host", "evil.example:8433")],
            &[("host", "127.0.0.1.evil.example")],
            &[host, ("origin", "http://evil.example")],
            &[host, ("origin", "http://localhost:9999")],
            &[host, ("origin", "null")],
            &[host, ("sec-fetch-site", "cross-site")],
            &[host, ("sec-fetch-site", "same-site")],
        ] {
            assert!(!ours(false, wrong), "{wrong:?}");
        }
        assert!(ours(true, &[host, ("sec-fetch-site", "cross-site")]), "a link");
        assert!(!ours(true, &[("host", "evil.example")]));
    }
}
