//! Routes each request to its handler.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, SET_COOKIE};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;

use crate::ask::{Estimates, Histograms, Nothing, Paths, Points, Records, parse};
use crate::connections::Connection;
use crate::guard::{Guard, cookie_name};
use crate::problem::{Problem, Result};
use crate::respond::{Answer, Work, full_response, json as answer_json, of_json, of_problem, stream};
use crate::served_table::ServedTable;
use crate::{answer, estimate, histogram, page, points};

/// Interval between checks of a table.
const CHECK_TABLE: Duration = Duration::from_millis(150);
const LONGEST_WAIT: f64 = 30.0;

pub struct ServerState {
    pub tables: Vec<Arc<ServedTable>>,
    pub guard: Guard,
    pub work: Work,
    /// Requests that wait for changes are cheap but long, so they have slots of their own.
    pub watchers: Work,
    pub body_bytes: usize,
    pub body_patience: Duration,
}

pub async fn answer(state: Arc<ServerState>, request: Request<Incoming>) -> Response<Answer> {
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    if request.body().is_end_stream() {
        connection.iter().for_each(|connection| connection.is_answered());
    }
    let mut response = match route(&state, request).await {
        Ok(response) => response,
        Err(problem) => of_problem(&problem),
    };
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    headers.insert(HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer"));
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin"));
    response.map(|answer| answer.then_silent(connection))
}

async fn route(state: &Arc<ServerState>, request: Request<Incoming>) -> Result<Response<Answer>> {
    let uri = request.uri().clone();
    state.guard.check(request.headers(), uri.query())?;
    let path = uri.path();
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    match (&parts[..], request.method()) {
        (["v1", ..], &Method::OPTIONS) => allowed("GET, POST"),
        (["v1"], &Method::GET) => {
            Ok(of_json(StatusCode::OK, &json!({ "kubist": env!("CARGO_PKG_VERSION"), "interface": 1 })))
        }
        (["v1", "openapi.json"], &Method::GET) => Ok(full_response(page::DESCRIPTION, "application/json")),
        (["v1", "tables"], &Method::GET) => {
            let state = state.clone();
            answer_json(&state.work.clone(), move |_| {
                let tables = state.tables.iter().map(|table| {
                    let now = table.now()?;
                    Ok(json!({ "name": table.name, "version": now.version, "rows": now.about["rows"] }))
                });
                Ok(json!({ "tables": tables.collect::<Result<Vec<_>>>()? }))
            })
            .await
        }
        (["v1", "tables", name, rest @ ..], method) => {
            let table = state.table(name)?;
            match (rest, method) {
                ([], &Method::GET) => {
                    let version = of_query_if_there(uri.query(), "version")?;
                    answer_json(&state.work, move |_| Ok(table.at(version.as_deref())?.described(&table.name))).await
                }
                (["info"], &Method::GET) => {
                    let version = of_query_if_there(uri.query(), "version")?;
                    answer_json(&state.work, move |cancel| {
                        Ok(table.at(version.as_deref())?.laid_out(&table.name, cancel)?)
                    })
                    .await
                }
                (["changes"], &Method::GET) => changes(state, table, uri.query()).await,
                (["query"], &Method::POST | &Method::GET) => {
                    let asked = match *method {
                        // Browsers stream only GET responses to disk.
                        Method::GET => Bytes::from(of_query(uri.query(), "ask")?),
                        _ => body(state, request).await?,
                    };
                    let (region, asked) = parse::<Records>(&asked)?;
                    stream(&state.work, move |out| {
                        let pinned = table.at(region.version.as_deref())?;
                        let query = asked.request(&region, &out.cancel)?;
                        out.header("kubist-version", &pinned.version);
                        answer::send(pinned.snapshot.query(query)?, asked.format, &table.name, out)
                    })
                    .await
                }
                (["trajectories"], &Method::POST) => {
                    let (region, asked) = parse::<Paths>(&body(state, request).await?)?;
                    stream(&state.work, move |out| {
                        let pinned = table.at(region.version.as_deref())?;
                        let (through, query) = asked.requests(&region, &out.cancel)?;
                        out.header("kubist-version", &pinned.version);
                        let paths = pinned.snapshot.trajectories(&through, &asked.by, &query)?;
                        answer::send(paths, asked.format, &table.name, out)
                    })
                    .await
                }
                (["points"], &Method::POST) => {
                    let (region, asked) = parse::<Points>(&body(state, request).await?)?;
                    stream(&state.work, move |out| {
                        let pinned = table.at(region.version.as_deref())?;
                        points::send(&pinned.snapshot, &region, &asked, out)
                    })
                    .await
                }
                (["estimate"], &Method::POST) => {
                    let (region, asked) = parse::<Estimates>(&body(state, request).await?)?;
                    stream(&state.work, move |out| {
                        let pinned = table.at(region.version.as_deref())?;
                        estimate::send(&pinned.snapshot, &region, &asked, out)
                    })
                    .await
                }
                (["count"], &Method::POST) => {
                    let (region, Nothing {}) = parse(&body(state, request).await?)?;
                    answer_json(&state.work, move |cancel| {
                        let pinned = table.at(region.version.as_deref())?;
                        let count = pinned.snapshot.count(region.request(cancel))?;
                        Ok(json!({ "count": count, "version": pinned.version }))
                    })
                    .await
                }
                (["histogram"], &Method::POST) => {
                    let (region, asked) = parse::<Histograms>(&body(state, request).await?)?;
                    answer_json(&state.work, move |cancel| {
                        let pinned = table.at(region.version.as_deref())?;
                        histogram::of_sample(&pinned.snapshot, &region, &asked, cancel)
                    })
                    .await
                }
                ([] | ["changes"], _) => allowed("GET"),
                (["query"], _) => allowed("GET, POST"),
                (["trajectories" | "points" | "count" | "histogram" | "estimate"], _) => allowed("POST"),
                _ => Err(nothing_at(path)),
            }
        }
        (["v1", ..], &Method::GET) => Err(nothing_at(path)),
        (_, &Method::GET | &Method::HEAD) => match page::file(path) {
            Some(_) if path == "/" && state.guard.in_address(uri.query()) => Ok(with_cookie(state)),
            Some(response) => Ok(response),
            None => Err(nothing_at(path)),
        },
        _ => allowed("GET"),
    }
}

impl ServerState {
    fn table(&self, name: &str) -> Result<Arc<ServedTable>> {
        let found = self.tables.iter().find(|table| table.name == name).cloned();
        found.ok_or_else(|| {
            Problem::new(StatusCode::NOT_FOUND, "no_such_table", format!("no table {name:?} is served here"))
        })
    }
}

fn nothing_at(path: &str) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "nothing_here",
        format!("there is nothing at {path:?}; /v1/openapi.json lists the addresses"),
    )
}

fn allowed(methods: &'static str) -> Result<Response<Answer>> {
    let problem =
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", format!("this address accepts {methods} only"));
    let mut response = of_problem(&problem);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    Ok(response)
}

/// Moves the token from the URL, which the browser's history keeps, into a cookie.
fn with_cookie(state: &ServerState) -> Response<Answer> {
    let mut response = full_response(Bytes::new(), "text/plain");
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    let token = state.guard.token.as_deref().unwrap_or_default();
    if let Ok(value) = format!("{}={token}; Path=/; HttpOnly; SameSite=Lax", cookie_name(token)).parse() {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    response
}

/// The whole body of a request. It must be JSON, because a page of another site can send other types without a
/// preflight request.
async fn body(state: &ServerState, request: Request<Incoming>) -> Result<Bytes> {
    let media_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if media_type.split(';').next().map(str::trim) != Some("application/json") {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "media_type",
            format!("the body must be application/json, not {media_type:?}"),
        ));
    }
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let collected = Limited::new(request.into_body(), state.body_bytes).collect();
    match tokio::time::timeout(state.body_patience, collected).await {
        Ok(Ok(body)) => {
            connection.iter().for_each(|connection| connection.is_answered());
            Ok(body.to_bytes())
        }
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("the body of the request is larger than the limit of {} bytes", state.body_bytes),
        )),
        Ok(Err(error)) => Err(Problem::invalid(format!("cannot read the body of the request: {error}"))),
        Err(_) => {
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the body of the request did not arrive in time"))
        }
    }
}

fn of_query(query: Option<&str>, name: &str) -> Result<String> {
    of_query_if_there(query, name)?
        .ok_or_else(|| Problem::invalid(format!("{name}: this parameter is missing in the address")))
}

fn of_query_if_there(query: Option<&str>, name: &str) -> Result<Option<String>> {
    let parts = query.unwrap_or_default().split('&');
    let found = parts.filter_map(|part| part.split_once('=')).find(|(key, _)| *key == name);
    let Some((_, value)) = found else { return Ok(None) };
    let value =
        decoded(value).ok_or_else(|| Problem::invalid(format!("{name}: {value:?} is not percent-encoded UTF-8")))?;
    Ok(Some(value))
}

fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let (high, low) = (rest.next()?, rest.next()?);
                let digit = |byte: u8| char::from(byte).to_digit(16);
                (digit(high)? * 16 + digit(low)?) as u8
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Responds when the table has another version than the client knows, or when `patience` ends.
async fn changes(state: &Arc<ServerState>, table: Arc<ServedTable>, query: Option<&str>) -> Result<Response<Answer>> {
    let known = of_query(query, "version")?;
    let patience = of_query(query, "patience").unwrap_or("25".into()).parse::<f64>();
    let Some(patience) = patience.ok().filter(|seconds| *seconds >= 0.0) else {
        return Err(Problem::invalid("patience: seconds, at least 0"));
    };
    let patience = patience.min(LONGEST_WAIT);
    answer_json(&state.watchers, move |cancel| {
        let begun = std::time::Instant::now();
        loop {
            let now = table.now()?;
            if now.version != known || begun.elapsed().as_secs_f64() >= patience {
                return Ok(now.described(&table.name));
            }
            cancel.check()?;
            std::thread::sleep(CHECK_TABLE);
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_decoded() {
        assert_eq!(of_query(Some("a=1&ask=%7b%22x%22%3A+1%7D"), "ask").unwrap(), "{\"x\": 1}");
        assert_eq!(of_query(Some("ask=l%C3%A4nge"), "ask").unwrap(), "länge");
        for bad in ["ask=%", "ask=%4", "ask=%zz", "ask=%ff", "asks=1", ""] {
            assert!(of_query(Some(bad), "ask").is_err(), "{bad}");
        }
    }
}
