//! Errors as an HTTP status and a JSON body.

use std::io;
use std::sync::Arc;

use arrow_schema::ArrowError;
use hyper::StatusCode;
use parquet::errors::ParquetError;

pub type Result<T, E = Problem> = std::result::Result<T, E>;

/// An error response: `{"error": {"code": ..., "message": ...}}`.
#[derive(Clone, Debug)]
pub struct Problem {
    pub status: StatusCode,
    pub code: &'static str,
    pub message: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Problem {
        Problem { status, code, message: message.into(), source: None }
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

impl std::error::Error for Problem {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as &(dyn std::error::Error + 'static))
    }
}

impl From<kubist::Error> for Problem {
    fn from(error: kubist::Error) -> Problem {
        use kubist::{Error, ErrorKind};
        let (status, code) = match error.kind() {
            ErrorKind::InvalidInput => (StatusCode::BAD_REQUEST, "invalid"),
            ErrorKind::NotFound => (StatusCode::NOT_FOUND, "not_a_table"),
            ErrorKind::NotHere => (StatusCode::CONFLICT, "not_here"),
            ErrorKind::Expired if matches!(error, Error::SnapshotExpired { .. }) => (StatusCode::GONE, "gone"),
            ErrorKind::Expired if matches!(error, Error::Replaced { .. }) => (StatusCode::GONE, "replaced"),
            ErrorKind::Cancelled => (StatusCode::GATEWAY_TIMEOUT, "too_long"),
            ErrorKind::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
            ErrorKind::NoSpace => (StatusCode::INSUFFICIENT_STORAGE, "no_space"),
            ErrorKind::Corrupt => (StatusCode::INTERNAL_SERVER_ERROR, "damaged"),
            ErrorKind::Permission => (StatusCode::INTERNAL_SERVER_ERROR, "not_permitted"),
            ErrorKind::Unsupported if matches!(error, Error::Newer(_)) => (StatusCode::INTERNAL_SERVER_ERROR, "newer"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "failed"),
        };
        Problem::new(status, code, error.to_string()).because(error)
    }
}

impl Problem {
    pub fn of_arrow(error: ArrowError) -> Problem {
        match error {
            ArrowError::IoError(_, error) => Problem::of_sending(error),
            ArrowError::OffsetOverflowError(_) => {
                Problem::invalid(format!("{error}: request fewer rows at once")).because(error)
            }
            error => Problem::failed(error),
        }
    }

    pub fn of_parquet(error: ParquetError) -> Problem {
        match error {
            ParquetError::External(error) => match error.downcast::<io::Error>() {
                Ok(error) => Problem::of_sending(*error),
                Err(error) => Problem::failed(ParquetError::External(error)),
            },
            error => Problem::failed(error),
        }
    }

    pub fn of_sending(error: io::Error) -> Problem {
        match error.kind() {
            io::ErrorKind::TimedOut => {
                Problem::new(StatusCode::GATEWAY_TIMEOUT, "too_long", error.to_string()).because(error)
            }
            _ => Problem::failed(error),
        }
    }

    fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error.to_string()).because(error)
    }

    fn because(self, source: impl std::error::Error + Send + Sync + 'static) -> Problem {
        Problem { source: Some(Arc::new(source)), ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;
    use kubist::Error;

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
        assert_eq!(of(Error::NotHere { location: text("t"), bytes: 1 }), (409, "not_here"));
        assert_eq!(of(Error::SnapshotExpired { location: text("t"), why: text("w") }), (410, "gone"));
        assert_eq!(of(Error::Replaced { location: text("t"), why: text("w") }), (410, "replaced"));
        assert_eq!(of(Error::Refused(text("x"))), (500, "failed"));
        assert_eq!(of(Error::Damaged { file: text("f"), offset: 1, what: text("w") }), (500, "damaged"));
        assert_eq!(of(Error::Newer(text("x"))), (500, "newer"));
        assert_eq!(of(Error::Busy(text("x"))), (503, "busy"));
        assert_eq!(of(io(io::ErrorKind::TimedOut)), (503, "unavailable"));
        assert_eq!(of(io(io::ErrorKind::StorageFull)), (507, "no_space"));
        assert_eq!(of(io(io::ErrorKind::PermissionDenied)), (500, "not_permitted"));
        assert_eq!(of(Error::internal("x")), (500, "failed"));
    }

    #[test]
    fn a_failure_to_send_keeps_its_kind_and_its_cause() {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the client does not read");
        for problem in
            [Problem::of_sending(late()), Problem::of_arrow(late().into()), Problem::of_parquet(late().into())]
        {
            assert_eq!((problem.status.as_u16(), problem.code), (504, "too_long"));
            let source = problem.source().and_then(|source| source.downcast_ref::<io::Error>());
            assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::TimedOut));
        }
        let gone = Problem::of_sending(io::ErrorKind::BrokenPipe.into());
        assert_eq!((gone.status.as_u16(), gone.code), (500, "failed"));
        assert!(gone.source().is_some_and(|source| source.is::<io::Error>()));
    }

    #[test]
    fn a_failure_to_encode_keeps_its_cause() {
        let problem = Problem::of_arrow(ArrowError::OffsetOverflowError(7));
        assert_eq!((problem.status.as_u16(), problem.code), (400, "invalid"));
        let problem = Problem::of_arrow(ArrowError::CastError("x".into()));
        assert_eq!(problem.code, "failed");
        assert!(problem.source().is_some_and(|source| source.is::<ArrowError>()));
        let problem = Problem::of_parquet(ParquetError::General("x".into()));
        assert!(problem.source().is_some_and(|source| source.is::<ParquetError>()));
        let problem = Problem::from(Error::Busy("x".into()));
        assert!(problem.source().is_some_and(|source| source.is::<Error>()));
    }
}
