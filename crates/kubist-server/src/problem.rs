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

    /// The snapshot of that name is no longer, or was never, at hand.
    pub fn gone(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::GONE, "gone", message)
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
        use kubist::Error::*;
        let (status, code) = match &error {
            Invalid(_) => (StatusCode::BAD_REQUEST, "invalid"),
            NotATable { .. } => (StatusCode::NOT_FOUND, "not_a_table"),
            SnapshotExpired { .. } => (StatusCode::GONE, "gone"),
            Cancelled => (StatusCode::GATEWAY_TIMEOUT, "too_long"),
            Busy(_) => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Damaged { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "damaged"),
            Newer(_) => (StatusCode::INTERNAL_SERVER_ERROR, "newer"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        };
        Problem::new(status, code, error.to_string())
    }
}

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
