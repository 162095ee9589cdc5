//! Options of the optimizer: thresholds and limits.

use kubist_types::{Cancel, Replication};

const BYTES_AT_ONCE: u64 = 512 << 20;

#[derive(Clone, Debug)]
pub struct OptimizeOptions {
    /// A subtree is rewritten when at least this fraction of its rows is debt. Low values give a better layout, high
    /// values fewer written bytes.
    pub debt_share: f64,
    /// Largest number of rows in memory.
    pub rows_at_once: u64,
    /// Target fraction of a core's time. Below 1, the optimizer uses one core at low priority, and sleeps after
    /// rewrites; at 1 all cores.
    pub core_share: f64,
    /// Plans once, does the cheap work and one large rewrite; otherwise the optimizer works until nothing is left.
    pub one_round: bool,
    /// Adds a grid when the data no longer fits the newest one.
    pub follow_data: bool,
    /// The replication; `None` uses the table's setting.
    pub replication: Option<Replication>,
    /// Rewrites runs whose compression or strata differ from the table's settings.
    pub recompress: bool,
    /// Small secondary indexes are merged when there are more, because each search for a value reads all.
    pub few_lookups: usize,
    pub cancel: Cancel,
}

impl Default for OptimizeOptions {
    fn default() -> Self {
        OptimizeOptions {
            debt_share: 0.05,
            rows_at_once: 4_000_000,
            core_share: 1.0,
            one_round: false,
            follow_data: true,
            replication: None,
            recompress: false,
            few_lookups: 32,
            cancel: Cancel::default(),
        }
    }
}

impl OptimizeOptions {
    pub fn fits(&self, rows: u64, bytes: u64) -> bool {
        rows <= self.rows_at_once && bytes <= BYTES_AT_ONCE
    }

    /// Options for work next to commits: few written bytes, most of the machine left free.
    pub fn background() -> OptimizeOptions {
        OptimizeOptions {
            debt_share: 0.5,
            rows_at_once: 250_000,
            core_share: 0.4,
            one_round: true,
            ..OptimizeOptions::default()
        }
    }
}
