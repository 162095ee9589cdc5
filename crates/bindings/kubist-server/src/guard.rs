//! Decides which requests are allowed.
//!
//! A page of another site must not read tables through a user's browser. Such a page can send requests to
//! loopback, even under its own host name (DNS rebinding), but cannot forge the headers `Host` and `Origin`. So
//! the server accepts only loopback names on loopback, and requires a token on other addresses.

use std::hash::{DefaultHasher, Hash, Hasher};

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, StatusCode};

use crate::problem::{Problem, Result};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

#[derive(Clone, Debug)]
pub struct Guard {
    /// It listens on loopback only.
    pub loopback: bool,
    pub token: Option<String>,
}

impl Guard {
    /// `query` is the part of the URL after `?`.
    pub fn check(&self, headers: &HeaderMap, query: Option<&str>) -> Result<()> {
        let forbidden = |why: String| Problem::new(StatusCode::FORBIDDEN, "forbidden", why);
        let host = text(headers, HOST).unwrap_or_default();
        if self.loopback && !is_loopback(host) {
            return Err(forbidden(format!(
                "the request names the host {host:?}, but this server accepts only localhost and loopback addresses"
            )));
        }
        if let Some(origin) = text(headers, ORIGIN) {
            let of_host = origin.split_once("://").map(|(_, host)| host);
            if of_host != Some(host) {
                return Err(forbidden(format!("requests from pages of {origin:?} are not allowed")));
            }
        }
        // Downloads and images have no origin, but browsers send this header.
        if matches!(text(headers, FETCH_SITE), Some("cross-site" | "same-site")) && !navigates(headers) {
            return Err(forbidden("requests from pages of other sites are not allowed".into()));
        }
        match &self.token {
            Some(token) if !shown(headers, query, token).any(|shown| same(&shown, token)) => Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "token",
                "a token is required: use the address that the server printed, or send Authorization: Bearer TOKEN",
            )),
            _ => Ok(()),
        }
    }

    /// True if a URL contains the token, which then becomes a cookie.
    pub fn in_address(&self, query: Option<&str>) -> bool {
        let token = self.token.as_deref();
        token.is_some_and(|token| of_query(query).is_some_and(|shown| same(shown, token)))
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn of_query(query: Option<&str>) -> Option<&str> {
    query?.split('&').find_map(|part| part.strip_prefix("token="))
}

/// Browsers send cookies to all ports of a host, so each token needs another cookie name.
pub fn cookie_name(token: &str) -> String {
    let mut hasher = DefaultHasher::new();
    token.hash(&mut hasher);
    format!("kubist-token-{:08x}", hasher.finish() as u32)
}

/// In the Authorization header, cookie and URL.
fn shown<'a>(headers: &'a HeaderMap, query: Option<&'a str>, token: &str) -> impl Iterator<Item = String> + use<'a> {
    let bearer = text(headers, AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned);
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let name = cookie_name(token);
    let cookie = cookies
        .flat_map(|value| value.split(';'))
        .find_map(|part| part.trim().strip_prefix(&name)?.strip_prefix('=').map(str::to_owned));
    [bearer, cookie, of_query(query).map(str::to_owned)].into_iter().flatten()
}

fn navigates(headers: &HeaderMap) -> bool {
    text(headers, FETCH_DEST) == Some("document")
}

/// Compares in constant time, so that the time does not reveal the first difference.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_its_own_names_reach_loopback() {
        let guard = Guard { loopback: true, token: None };
        for host in ["localhost:8080", "127.0.0.1:8080", "[::1]:80", "127.0.0.1", "LOCALHOST"] {
            assert!(guard.check(&headers(&[("host", host)]), None).is_ok(), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil.example:80", "10.0.0.1"] {
            assert!(guard.check(&headers(&[("host", host)]), None).is_err(), "{host}");
        }
        let asks = |origin| guard.check(&headers(&[("host", "localhost:1"), ("origin", origin)]), None);
        assert!(asks("http://localhost:1").is_ok());
        for origin in ["http://evil.example", "null", "http://localhost:2"] {
            assert!(asks(origin).is_err(), "{origin}");
        }
        let embeds = |dest| {
            let sent = [("host", "localhost:1"), ("sec-fetch-site", "cross-site"), ("sec-fetch-dest", dest)];
            guard.check(&headers(&sent), None)
        };
        assert!(embeds("document").is_ok() && embeds("image").is_err());
    }

    #[test]
    fn a_token_is_shown_in_one_of_three_ways() {
        let guard = Guard { loopback: false, token: Some("abc".into()) };
        let ok = |pairs: &[(&'static str, &str)], query| guard.check(&headers(pairs), query).is_ok();
        assert!(ok(&[("authorization", "Bearer abc")], None));
        let name = cookie_name("abc");
        assert!(ok(&[("cookie", &*format!("a=b; {name}=abc"))], None));
        assert!(ok(&[], Some("x=1&token=abc")));
        for (pairs, query) in [
            (vec![], None),
            (vec![("authorization", "Bearer abd")], None),
            (vec![("cookie", &*format!("{name}x=abc"))], None),
            (vec![("cookie", &*format!("{name}=abd"))], None),
            (vec![("cookie", "kubist-token=abc")], None),
            (vec![], Some("token=")),
            (vec![], Some("token=abcd")),
        ] {
            assert!(!ok(&pairs, query), "{pairs:?} {query:?}");
        }
    }
}
