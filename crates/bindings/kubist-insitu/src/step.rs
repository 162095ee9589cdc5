//! How steps are written, and what is said of each.

use std::fmt;
use std::time::Duration;

use kubist::Cancel;

use crate::budget::BudgetOptions;

/// How steps are written.
#[derive(Clone, Debug)]
pub struct StepOptions {
    /// The writer's name in the table; `None`: the first free one.
    pub name: Option<String>,
    /// How long a call waits: for the name while another has it, for room in a full queue.
    pub timeout: Duration,
    /// As of `kubist::WriterOptions`.
    pub memory_bytes: Option<usize>,
    pub optimize: bool,
    /// Steps that may wait while the solver goes on; `None`: a step is durable when it ends.
    pub queue: Option<usize>,
    pub when_full: WhenFull,
    /// Threads that commit what is queued.
    pub threads: usize,
    /// The process does nothing but commit: its threads need not give way to a solver.
    pub dedicated: bool,
    /// Each step's commit has a token of its own: a step that is in the table already, of the
    /// same writer, is not written again.
    pub tokens: bool,
    /// What is kept of each step.
    pub budget: BudgetOptions,
    /// Stops commits.
    pub cancel: Cancel,
}

impl Default for StepOptions {
    fn default() -> StepOptions {
        StepOptions {
            name: None,
            timeout: Duration::from_secs(60),
            memory_bytes: None,
            optimize: false,
            queue: None,
            when_full: WhenFull::Block,
            threads: 1,
            dedicated: false,
            tokens: false,
            budget: BudgetOptions::default(),
            cancel: Cancel::default(),
        }
    }
}

/// What happens to a step that finds the queue full; doors name it in lower case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// The call waits, up to the timeout.
    #[default]
    Block,
    /// Fewer of the step's records are kept, those of lowest priority, and an event says so. Where
    /// even an eighth finds no room the call waits.
    Thin,
    /// The call fails at once as `Busy`; the step stays open, to be ended later or abandoned.
    Fail,
}

/// What became of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub step: i64,
    pub rows: u64,
    /// Bytes written, where it is durable.
    pub bytes: u64,
    /// Time that the commit took.
    pub seconds: f64,
    /// It survives a crash; otherwise it is queued.
    pub durable: bool,
    /// Its token was known: it had been written before, and was not again.
    pub repeated: bool,
    pub abandoned: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { step, rows, bytes, seconds, repeated, abandoned, .. } = self;
        match (abandoned, repeated) {
            (true, _) => write!(out, "step {step} is abandoned"),
            (_, true) => write!(out, "step {step} had been written before: {rows} rows"),
            _ => write!(out, "step {step} is durable: {rows} rows, {bytes} bytes, {seconds:.3} s"),
        }
    }
}

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Info,
    Warning,
    Error,
}
