//! The page and the OpenAPI description, which are built into this library.

use bytes::Bytes;
use hyper::Response;
use hyper::header::{CACHE_CONTROL, HeaderName, HeaderValue};

use crate::respond::{Answer, full_response};

/// OpenAPI 3.1, served at `/v1/openapi.json`.
pub const DESCRIPTION: &str = include_str!("openapi.json");

const FILES: &[(&str, &str, &[u8])] = &[
    ("/", "text/html; charset=utf-8", include_bytes!(concat!(env!("KUBIST_PAGE"), "/index.html"))),
    ("/app.js", "text/javascript; charset=utf-8", include_bytes!(concat!(env!("KUBIST_PAGE"), "/app.js"))),
    ("/first.js", "text/javascript; charset=utf-8", include_bytes!(concat!(env!("KUBIST_PAGE"), "/first.js"))),
    ("/app.css", "text/css; charset=utf-8", include_bytes!(concat!(env!("KUBIST_PAGE"), "/app.css"))),
];

/// The page loads nothing from other hosts, and other sites cannot frame it.
const POLICY: &str = "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

pub fn file(path: &str) -> Option<Response<Answer>> {
    let (_, media_type, bytes) = FILES.iter().find(|(name, ..)| *name == path)?;
    let mut response = full_response(Bytes::from_static(bytes), media_type);
    // A new build has the same URLs.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response.headers_mut().insert(HeaderName::from_static("content-security-policy"), HeaderValue::from_static(POLICY));
    Some(response)
}
