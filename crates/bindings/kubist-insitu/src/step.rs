//! Options and reports of steps.

use std::fmt;
use std::time::Duration;

use kubist::Cancel;

use crate::budget::BudgetOptions;

#[derive(Clone, Debug)]
pub struct StepOptions {
    /// Default: the first free name.
    pub name: Option<String>,
    /// Longest wait for the writer's name, or for space in a full queue.
    pub timeout: Duration,
    /// As in `kubist::WriterOptions`.
    pub memory_bytes: Option<usize>,
    pub optimize: bool,
    /// With `None` a step is durable when it ends.
    pub queue: Option<usize>,
    pub when_full: WhenFull,
    pub threads: usize,
    /// The process only commits, so its threads keep their priority.
    pub dedicated: bool,
    /// The step number is the token, so a repeated step is not written again.
    pub tokens: bool,
    pub budget: BudgetOptions,
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// The call waits, up to the timeout.
    #[default]
    Block,
    /// Keeps the records of lowest priority and reports an event, but waits if not even an eighth fits.
    Thin,
    /// Fails with `Busy`; the step stays open.
    Fail,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub step: i64,
    pub rows: u64,
    pub bytes: u64,
    pub seconds: f64,
    /// Otherwise it is queued.
    pub durable: bool,
    /// Its token was already committed, so nothing was written.
    pub repeated: bool,
    pub abandoned: bool,
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { step, rows, bytes, seconds, repeated, abandoned, .. } = self;
        match (abandoned, repeated) {
            (true, _) => write!(out, "step {step} is abandoned"),
            (_, true) => write!(out, "step {step} was already written: {rows} rows"),
            _ => write!(out, "step {step} is durable: {rows} rows, {bytes} bytes, {seconds:.3} s"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Info,
    Warning,
    Error,
}
