//! The page itself: one document, put together from its three files at build time.

use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use crate::Options;

const HTML: &str = include_str!("../assets/page.html");
const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = concat!(include_str!("../assets/draw.js"), include_str!("../assets/page.js"));

/// With a nonce of its own, so that the browser runs and styles by nothing else.
pub(crate) fn document(options: &Options, nonce: &str) -> Response {
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    // Names first: what they put in is no place for the rest.
    let page = HTML
        .replace("{name}", &escaped(&options.name))
        .replace("{database}", &escaped(&options.database))
        .replace("{nonce}", nonce)
        .replace("{style}", STYLE)
        .replace("{script}", SCRIPT);
    let mut response = page.into_response();
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, html);
    match HeaderValue::try_from(policy) {
        Ok(policy) => drop(response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy)),
        // A nonce is hexadecimal digits; without a policy there is no page.
        Err(_) => return axum::http::StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
    response
}

/// For HTML, and without braces.
fn escaped(text: &str) -> String {
    let mut html = String::new();
    for letter in text.chars() {
        match letter {
            '&' | '<' | '>' | '"' | '\'' | '{' | '}' => html.push_str(&format!("&#{};", u32::from(letter))),
            other => html.push(other),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text() {
        assert_eq!(escaped("a\"<{b"), "a&#34;&#60;&#123;b");
        assert!(!SCRIPT.contains("innerHTML") && !SCRIPT.contains("</script"));
        for place in ["{name}", "{database}", "{nonce}", "{style}", "{script}"] {
            assert!(HTML.contains(place), "{place}");
        }
        for wrong in [" style=", " onclick=", "http://", "https://"] {
            let at = HTML.find(wrong);
            assert!(at.is_none(), "{wrong}");
        }
    }
}
