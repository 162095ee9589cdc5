//! What can be wrong with a predicate, and what the caller can do about it.
//!
//! Every kind but the last four is a mistake in the question: the message names
//! the position, the construct or the column, so that the user can correct
//! it. The last four say that a row's integer is too large, that a batch does not fit
//! the schema that the predicate was bound to, that the caller stopped the evaluation, or
//! that a kernel gave up on it.

use arrow_schema::DataType;
use std::borrow::Cow;

/// Why an expression cannot be parsed, bound or evaluated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ExprError {
    /// The text is not an expression. `position` counts characters from 1.
    #[error("at character {position}: {message}")]
    Syntax { position: usize, message: String },

    /// The text ends, or goes on with something else, where a value must stand behind an operator.
    #[error("expected a value after `{after}` at character {position}")]
    NoValue { after: String, position: usize },

    /// The text may be SQL, but not the part of SQL that predicates are.
    #[error("{construct} is not supported in an expression{hint}")]
    Unsupported { construct: String, hint: String },

    /// The expression is nested deeper than it may be.
    #[error("the expression is nested too deeply (more than {limit} levels)")]
    TooDeep { limit: usize },

    /// The expression is larger than it may be; `limit` says what of it, and how much.
    #[error("the expression is too large: more than {limit}")]
    TooLarge { limit: String },

    /// No column of this name.
    #[error("no column `{name}`{hint}; {available}")]
    UnknownColumn { name: String, hint: String, available: String },

    /// More than one column could be meant.
    #[error("column `{name}` is ambiguous: {candidates}")]
    AmbiguousColumn { name: String, candidates: String },

    /// The operands' types do not go together.
    #[error("{message}")]
    Type { message: String },

    /// An integer beyond 128 bits, or beyond the type of a cast.
    #[error("{message}")]
    Overflow { message: String },

    /// A batch that does not fit the predicate's schema.
    #[error("the batch has no column `{column}` of type {expected}{found}")]
    Batch { column: String, expected: DataType, found: String },

    /// The caller stopped the evaluation.
    #[error("the evaluation was stopped")]
    Stopped,

    /// An Arrow kernel failed.
    #[error("evaluating the predicate: {message}")]
    Evaluation { message: String },
}

impl ExprError {
    pub(crate) fn unsupported(construct: impl Into<String>) -> Self {
        ExprError::Unsupported { construct: construct.into(), hint: String::new() }
    }

    pub(crate) fn unsupported_but(construct: impl Into<String>, hint: &str) -> Self {
        ExprError::Unsupported { construct: construct.into(), hint: format!("; {hint}") }
    }

    pub(crate) fn type_mistake(message: impl Into<String>) -> Self {
        ExprError::Type { message: message.into() }
    }
}

/// Characters of a text or a name that a message repeats.
const LONGEST: usize = 100;

/// What a message says of something that may be long.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

impl From<arrow_schema::ArrowError> for ExprError {
    fn from(error: arrow_schema::ArrowError) -> Self {
        ExprError::Evaluation { message: error.to_string() }
    }
}
