//! The policy of the optimizer: how far it goes, and what it leaves to other optimizers.

use kubist_types::{Cancel, Replication};

/// Stored bytes that are rewritten at once, in memory.
const BYTES_AT_ONCE: u64 = 512 << 20;

/// How far the optimizer goes.
#[derive(Clone, Debug)]
pub struct OptimizeOptions {
    /// Rewrites a part of the tree when at least this share of its rows is debt:
    /// low values give a better layout, high ones fewer bytes written.
    pub debt_share: f64,
    /// Rows that are rewritten at once, in memory.
    pub rows_at_once: u64,
    /// Below 1: works on one core only, gives way to others there, and rests so long
    /// after rewrites that it takes this share of it. At 1 it takes all cores.
    pub core_share: f64,
    /// Looks at the table once and does what is cheap there and one large rewrite, for a
    /// caller that comes again as long as there is something to do. Otherwise goes on
    /// until nothing is left.
    pub one_round: bool,
    /// Gives the table another grid when the data has outgrown the newest.
    pub follow_data: bool,
    /// Which records to copy downwards; `None`: as the table says.
    pub replication: Option<Replication>,
    /// Rewrites the runs that use another compression than the table.
    pub recompress: bool,
    /// Merges small lookups once there are more than so many: each question for a value asks all of them.
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
    /// Are so many rows, and so many stored bytes, rewritten or copied at once?
    pub fn fits(&self, rows: u64, bytes: u64) -> bool {
        rows <= self.rows_at_once && bytes <= BYTES_AT_ONCE
    }

    /// For work beside commits: few bytes written, and most of the machine left alone.
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
