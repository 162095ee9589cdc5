//! Errors of predicates and expressions.
//!
//! All kinds but the last four are mistakes in the expression, and their messages name the position, the
//! construct or the column.

use arrow_schema::DataType;
use std::borrow::Cow;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ExprError {
    /// `position` counts characters from 1.
    #[error("at character {position}: {message}")]
    Syntax { position: usize, message: String },

    #[error("expected a value after `{after}` at character {position}")]
    NoValue { after: String, position: usize },

    #[error("{construct} is not supported in an expression{hint}")]
    Unsupported { construct: String, hint: String },

    #[error("the expression is nested too deeply (more than {limit} levels)")]
    TooDeep { limit: usize },

    #[error("the expression is too large: more than {limit}")]
    TooLarge { limit: String },

    #[error("no column `{name}`{hint}; {available}")]
    UnknownColumn { name: String, hint: String, available: String },

    #[error("column `{name}` is ambiguous: {candidates}")]
    AmbiguousColumn { name: String, candidates: String },

    #[error("{message}")]
    Type { message: String },

    /// An integer beyond 128 bits, or beyond the type of a cast.
    #[error("{message}")]
    Overflow { message: String },

    #[error("the batch has no column `{column}` of type {expected}{found}")]
    Batch { column: String, expected: DataType, found: String },

    #[error("the evaluation was stopped")]
    Stopped,

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

const LONGEST: usize = 100;

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
