//! The options of a step writer, and the report on a step. A step is the output of a simulation at one time, and
//! becomes one commit of its writer.

use std::fmt;
use std::time::Duration;

use kubist::Cancel;

use crate::budget::BudgetOptions;

#[derive(Clone, Debug)]
pub struct StepOptions {
    /// The name of the writer; `None`: the first free name of `writer-1`, `writer-2`, …
    pub name: Option<String>,
    /// Longest wait for a name that another writer still uses, or for space in a full queue.
    pub timeout: Duration,
    /// The approximate memory for the rows of a commit, in bytes, before they go to scratch files; `None`: 1 GiB.
    pub memory_bytes: Option<usize>,
    /// Whether a thread optimizes the layout after commits.
    pub optimize: bool,
    /// Number of steps that may wait while a thread commits earlier ones. `None`: no queue, so `end` commits the step
    /// and returns when it is durable.
    pub queue: Option<usize>,
    /// The behaviour if the queue or the ring has no space for a step.
    pub when_full: WhenFull,
    /// Number of threads that sort and encode the rows of a queued step.
    pub threads: usize,
    /// Whether this process does nothing but commit. Otherwise its threads run at low priority, to leave the core to
    /// the solver.
    pub dedicated: bool,
    /// Whether each commit has the step number as its token. A step that is written again, such as after a restart,
    /// then changes nothing.
    pub tokens: bool,
    /// Limits on the rows and bytes to store; a larger step is sampled.
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

/// The behaviour if the queue or the ring has no space for a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// Waits for space, at most until the timeout.
    #[default]
    Block,
    /// Stores only the rows of lowest priority that fit, which are a random sample, and reports a warning. Waits until
    /// at least an eighth of the rows fits.
    Thin,
    /// Fails with `Busy`, but the step stays open, so the call can be repeated.
    Fail,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub step: i64,
    pub rows: u64,
    /// Bytes written to the table; 0 while the step is queued.
    pub bytes: u64,
    /// Duration of the commit; 0 while the step is queued.
    pub seconds: f64,
    /// True if the step is committed, false if it waits in a queue.
    pub durable: bool,
    /// True if a commit with the same token exists, so nothing was written.
    pub repeated: bool,
    /// True if the step was given up and has no rows.
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
