//! What went wrong, as a status and a JSON body that says it in words.

use hyper::StatusCode;

pub type Result<T, E = Problem> = std::result::Result<T, E>;

/// An answer that is an error: `{"error": {"code": ..., "message": ...}}`.
#[derive(Clone, Debug)]
pub struct Problem {
    pub status: StatusCode,
    /// One word for programs.
    pub code: &'static str,
    pub message: String,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Problem {
        Problem { status, code, message: message.into() }
    }

    pub fn invalid(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    pub fn body(&self) -> serde_json::Value {
        serde_json::json!({ "error": { "code": self.code, "message": self.message } })
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl From<kubist::Error> for Problem {
    fn from(error: kubist::Error) -> Problem {
        use kubist::{Error, ErrorKind};
        let (status, code) = match error.kind() {
            ErrorKind::InvalidInput => (StatusCode::BAD_REQUEST, "invalid"),
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not_a_table"),
            ErrorKind::Expired if matches!(error, Error::SnapshotExpired { .. }) => (StatusCode::GONE, "gone"),
            ErrorKind::Cancelled => (StatusCode::GATEWAY_TIMEOUT, "too_long"),
            ErrorKind::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            ErrorKind::NoSpace => (StatusCode::INSUFFICIENT_STORAGE, "no_space"),
            ErrorKind::Corrupt => (StatusCode::INTERNAL_SERVER_ERROR, "damaged"),
            ErrorKind::Permission => (StatusCode::INTERNAL_SERVER_ERROR, "not_permitted"),
            ErrorKind::Unsupported if matches!(error, Error::Newer(_)) => (StatusCode::INTERNAL_SERVER_ERROR, "newer"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        };
        Problem::new(status, code, error.to_string())
    }
}

// What fails here is the encoding of an answer: the input was accepted before.

impl From<arrow_schema::ArrowError> for Problem {
    fn from(error: arrow_schema::ArrowError) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string())
    }
}

impl From<parquet::errors::ParquetError> for Problem {
    fn from(error: parquet::errors::ParquetError) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string())
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubist::Error;
    use std::io;

    #[test]
    fn status_and_code_follow_the_kind() {
        let of = |error: Error| {
            let problem = Problem::from(error);
            (problem.status.as_u16(), problem.code)
        };
        let io = |kind: io::ErrorKind| Error::io("cannot read t", kind.into());
        let text = |message: &str| message.to_string();
        assert_eq!(of(Error::Invalid(text("x"))), (400, "invalid"));
        assert_eq!(of(Error::NotATable { location: text("t"), why: text("w") }), (404, "not_a_table"));
        assert_eq!(of(Error::SnapshotExpired { location: text("t"), why: text("w") }), (410, "gone"));
        assert_eq!(of(Error::Refused(text("x"))), (500, "failed"));
        assert_eq!(of(Error::Damaged { file: text("f"), offset: 1, what: text("w") }), (500, "damaged"));
        assert_eq!(of(Error::Newer(text("x"))), (500, "newer"));
        assert_eq!(of(Error::Busy(text("x"))), (503, "busy"));
        assert_eq!(of(io(io::ErrorKind::TimedOut)), (503, "unavailable"));
        assert_eq!(of(io(io::ErrorKind::StorageFull)), (507, "no_space"));
        assert_eq!(of(io(io::ErrorKind::PermissionDenied)), (500, "not_permitted"));
        assert_eq!(of(Error::internal("x")), (500, "failed"));
    }
}
