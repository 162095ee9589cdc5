//! Failures of a command: one line for people, and one exit code, which `kubist --help` documents, for scripts.
//! The codes follow the kinds of [`kubist::Error`].

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::Path;

pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The numbers are exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Unsound = 1,
    Usage = 2,
    Existence = 3,
    System = 4,
    /// Ctrl-C or SIGTERM.
    Interrupted = 130,
    /// The reader has closed our output; no message.
    ReaderGone = 0,
}

#[derive(Debug)]
pub struct Failure {
    pub kind: Kind,
    pub message: String,
}

impl Failure {
    pub fn usage(message: impl Display) -> Failure {
        Failure { kind: Kind::Usage, message: message.to_string() }
    }

    pub fn interrupted() -> Failure {
        Failure { kind: Kind::Interrupted, message: "interrupted".to_string() }
    }

    pub fn io(path: &Path, error: &std::io::Error) -> Failure {
        let kind = match error.kind() {
            ErrorKind::NotFound | ErrorKind::AlreadyExists => Kind::Existence,
            ErrorKind::BrokenPipe => Kind::ReaderGone,
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::IsADirectory => Kind::Usage,
            _ => Kind::System,
        };
        let message = match error.kind() {
            ErrorKind::NotFound => absent(path),
            _ => format!("{}: {error}", path.display()),
        };
        Failure { kind, message }
    }

    pub fn within(self, context: impl Display) -> Failure {
        Failure { message: format!("{context}: {}", self.message), ..self }
    }

    pub fn noting(self, note: impl Display) -> Failure {
        Failure { message: format!("{}; {note}", self.message), ..self }
    }
}

/// Suggests a similar name in the same folder.
pub fn absent(path: &Path) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names: Vec<String> = beside.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let near = kubist_expr::nearest(&name, names.iter().map(String::as_str));
    let meant = near.first().map(|near| path.with_file_name(near));
    let meant = meant.map_or(String::new(), |meant| format!("; did you mean {}?", meant.display()));
    format!("{} does not exist{meant}", path.display())
}

impl From<kubist_files::Error> for Failure {
    fn from(error: kubist_files::Error) -> Failure {
        let kind = match error.kind() {
            kubist_files::Kind::Missing => Kind::Existence,
            kubist_files::Kind::System => Kind::System,
            _ => Kind::Usage,
        };
        Failure { kind, message: error.to_string() }
    }
}

impl From<kubist_ingest::Error> for Failure {
    fn from(error: kubist_ingest::Error) -> Failure {
        use kubist_ingest::Error::*;
        match error {
            Table(error) => error.into(),
            File(error) => error.into(),
            Invalid(message) | NoPositions(message) => Failure::usage(message),
            Busy(message) => Failure { kind: Kind::System, message },
            Source { message, cause, .. } => match cause.downcast() {
                Ok(failure) => *failure,
                Err(_) => Failure::usage(message),
            },
        }
    }
}

impl From<kubist_plot::Error> for Failure {
    fn from(error: kubist_plot::Error) -> Failure {
        use kubist_plot::Error::*;
        let kind = match &error {
            Cancelled => return Failure::interrupted(),
            Missing { .. } | NotDrawable { .. } | Values { .. } => Kind::Usage,
            _ => Kind::System,
        };
        Failure { kind, message: error.to_string() }
    }
}

impl From<kubist::Error> for Failure {
    fn from(error: kubist::Error) -> Failure {
        let kind = match error.kind() {
            kubist::ErrorKind::Cancelled => return Failure::interrupted(),
            kubist::ErrorKind::InvalidInput => Kind::Usage,
            kubist::ErrorKind::Corrupt => Kind::Unsound,
            kubist::ErrorKind::NotFound
            | kubist::ErrorKind::NotHere
            | kubist::ErrorKind::Exists
            | kubist::ErrorKind::Unsupported => Kind::Existence,
            // Includes kinds added later.
            _ => Kind::System,
        };
        Failure { kind, message: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_the_engines_errors() {
        let kind = |error: kubist::Error| Failure::from(error).kind;
        assert_eq!(kind(kubist::Error::Invalid("x".into())), Kind::Usage);
        assert_eq!(kind(kubist::Error::Cancelled), Kind::Interrupted);
        for failed in [ErrorKind::StorageFull, ErrorKind::PermissionDenied, ErrorKind::TimedOut] {
            assert_eq!(kind(kubist::Error::io("cannot write t", failed.into())), Kind::System);
        }
        assert_eq!(kind(kubist::Error::internal("x")), Kind::System);
        assert_eq!(kind(kubist::Error::Damaged { file: "f".into(), offset: 1, what: "w".into() }), Kind::Unsound);
        assert_eq!(kind(kubist::Error::NotHere { location: "t".into(), bytes: 1 }), Kind::Existence);
        assert_eq!(kind(kubist::Error::NotATable { location: "t".into(), why: "w".into() }), Kind::Existence);
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = std::fs::File::open("no/such/file").unwrap_err();
        let failure = Failure::io(Path::new("no/such/file"), &error);
        assert_eq!((failure.kind, failure.message.as_str()), (Kind::Existence, "no/such/file does not exist"));
    }
}
