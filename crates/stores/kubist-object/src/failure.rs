//! Translates the service's errors into messages that say what to do.
//!
//! The service gives the reason as a code (`<Code>SlowDown</Code>`). All services with this protocol use the same
//! codes.

use std::io;

use kubist_store::{Error, Result};

use crate::contact::{innermost, is_given_up};
use crate::credentials::NoCredentials;
use crate::location::Location;

/// Codes of requests that are wrong or not permitted, so a retry is useless.
const NO_PERMISSION: &[(&str, &str)] = &[
    ("AccessDenied", "no permission: check the policies of the bucket and of the access key's user"),
    ("AllAccessDisabled", "the service has disabled access to the bucket"),
    ("InvalidAccessKeyId", "the service does not know the access key"),
    ("SignatureDoesNotMatch", "the secret key does not match the access key"),
    ("ExpiredToken", "the credentials have expired"),
    ("ExpiredTokenException", "the credentials have expired"),
    ("TokenRefreshRequired", "the credentials have expired"),
    ("InvalidToken", "the session token is not valid"),
    ("RequestTimeTooSkewed", "this machine's clock differs too much from the service's: set it"),
];
const WRONG_PLACE: &[(&str, &str)] = &[
    ("NoSuchBucket", "there is no such bucket"),
    ("AuthorizationHeaderMalformed", "the bucket is in another region: set it with AWS_REGION or ?region="),
    ("PermanentRedirect", "the bucket is in another region: set it with AWS_REGION or ?region="),
    ("InvalidBucketName", "this is not a valid bucket name"),
    ("NotImplemented", "the service does not support this request"),
    ("MethodNotAllowed", "the service does not support this request"),
];
const FULL: &[&str] = &["QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "EntityTooLarge"];

#[derive(Debug, Clone, Copy)]
pub struct ObjectRequest<'a> {
    pub operation: &'static str,
    pub key: &'a str,
}

pub fn code(error: &object_store::Error) -> Option<String> {
    let text = error.to_string();
    let (_, behind) = text.split_once("<Code>")?;
    Some(behind.split_once("</Code>")?.0.to_owned())
}

/// Whether the key does not exist. A missing bucket is another error.
pub fn is_absent(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { .. }) && code(error).as_deref() != Some("NoSuchBucket")
}

/// Whether the key is taken, or another client is writing or deleting it.
pub fn is_taken(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. })
}

pub fn is_behind(error: &object_store::Error) -> bool {
    code(error).as_deref() == Some("InvalidRange") || error.to_string().contains("416 Range Not Satisfiable")
}

/// Whether the service refused the request without a reason.
pub fn is_unexplained(error: &object_store::Error) -> bool {
    code(error).is_none() && error.to_string().contains("non-2xx status code: 4")
}

pub fn may_pass(error: &object_store::Error) -> bool {
    use object_store::Error as Of;
    let known =
        |code: &str| NO_PERMISSION.iter().chain(WRONG_PLACE).any(|(known, _)| *known == code) || FULL.contains(&code);
    match error {
        Of::Generic { .. } if is_given_up(error) => false,
        Of::Generic { .. } => !code(error).is_some_and(|code| known(&code)) && !error.to_string().contains("redirect"),
        _ => false,
    }
}

pub fn failed(location: &Location, asked: ObjectRequest<'_>, error: object_store::Error) -> Error {
    use object_store::Error as Of;
    let file = format!("{location} ({})", asked.key);
    let because = |kind, why: String| Error::Io {
        operation: asked.operation,
        file: file.clone(),
        source: io::Error::new(kind, why),
    };
    let code = code(&error);
    let meaning = |table: &[(&str, &'static str)]| {
        let code = code.as_deref()?;
        table.iter().find(|(known, _)| *known == code).map(|(_, why)| format!("{why} ({code})"))
    };
    if let Some(why) = meaning(NO_PERMISSION) {
        return because(io::ErrorKind::PermissionDenied, why);
    }
    if let Some(why) = meaning(WRONG_PLACE) {
        return because(io::ErrorKind::Unsupported, why);
    }
    if code.as_deref().is_some_and(|code| FULL.contains(&code)) {
        return Error::NoSpace { operation: asked.operation, file };
    }
    match &error {
        Of::Unauthenticated { source, .. } if source.is::<NoCredentials>() => {
            because(io::ErrorKind::PermissionDenied, source.to_string())
        }
        Of::PermissionDenied { .. } | Of::Unauthenticated { .. } => {
            let why = "no permission, and the service gives no reason: check the credentials, the region \
                       and the bucket's policy";
            because(io::ErrorKind::PermissionDenied, why.into())
        }
        Of::Generic { .. } if error.to_string().contains("redirect") => {
            let why = "the bucket is in another region: set it with AWS_REGION or ?region=";
            because(io::ErrorKind::Unsupported, why.into())
        }
        Of::Generic { .. } => Error::Unreachable { location: location.to_string(), why: why(&error) },
        _ => because(io::ErrorKind::Other, error.to_string()),
    }
}

fn why(error: &object_store::Error) -> String {
    if let Some(code) = code(error) {
        return match code.as_str() {
            "SlowDown" | "ServiceUnavailable" | "TooManyRequests" => {
                format!("the service keeps asking for fewer requests ({code})")
            }
            code => format!("the service answered {code}"),
        };
    }
    innermost(error)
}

/// # Errors
///
/// As for [`failed`].
pub fn checked<T>(location: &Location, asked: ObjectRequest<'_>, result: object_store::Result<T>) -> Result<T> {
    result.map_err(|error| failed(location, asked, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(body: &str) -> object_store::Error {
        object_store::Error::Generic { store: "S3", source: format!("status 400: {body}").into() }
    }

    #[test]
    fn codes_say_what_to_do() {
        let location = Location::parse("s3://bucket/table").unwrap();
        let asked = ObjectRequest { operation: "read", key: "table" };
        for (code, kind, word) in [
            ("AccessDenied", io::ErrorKind::PermissionDenied, "no permission"),
            ("ExpiredToken", io::ErrorKind::PermissionDenied, "expired"),
            ("RequestTimeTooSkewed", io::ErrorKind::PermissionDenied, "clock"),
            ("NoSuchBucket", io::ErrorKind::Unsupported, "no such bucket"),
            ("AuthorizationHeaderMalformed", io::ErrorKind::Unsupported, "region"),
        ] {
            let error = answered(&format!("<Error><Code>{code}</Code></Error>"));
            assert!(!may_pass(&error), "{code}");
            let Error::Io { source, file, .. } = failed(&location, asked, error) else { panic!("{code}") };
            assert_eq!(source.kind(), kind, "{code}");
            assert!(source.to_string().contains(word) && source.to_string().contains(code), "{source}");
            assert!(file.contains("s3://bucket/table"), "{file}");
        }
        let slow = answered("<Error><Code>SlowDown</Code></Error>");
        assert!(may_pass(&slow));
        let slow = failed(&location, asked, slow);
        assert!(matches!(&slow, Error::Unreachable { why, .. } if why.contains("fewer requests")), "{slow}");
        let full = failed(&location, asked, answered("<Code>QuotaExceeded</Code>"));
        assert!(matches!(full, Error::NoSpace { .. }), "{full}");
    }
}
