//! Names of a table's objects and segments.

pub const TABLE: &str = "table";
pub const GRID: &str = "grid";
pub const WRITERS: &str = "writers";
pub const DROPPED: &str = "dropped";

/// Marks an unfinished copy or salvage: without a header, the other objects are incomplete.
pub const UNFINISHED: &str = "unfinished";

/// The writers that fill a copy, and the table that is salvaged.
pub const COPY: &str = "copy";
pub const SALVAGE: &str = "salvage";

pub const REWRITES: &str = "rewrites/";
pub const CHECKPOINTS: &str = "checkpoints/";
pub const ALTERATIONS: &str = "alterations/";
pub const GARBAGE: &str = "garbage/";
pub const LEASES: &str = "leases/";
/// Claims of writers on work that must enter the table once.
pub const CLAIMS: &str = "claims/";
pub const HOLES: &str = "holes/";
/// Snapshots whose files must stay.
pub const HOLDS: &str = "holds/";
/// A copy's records of its origin, and of the sites with which it exchanged rows.
pub const SYNC: &str = "sync/";

/// Prefix of segments of pages, whose names end with the creation time.
pub const PAGES_SEGMENT: &str = "pages-";
/// Prefix of segments of rewrites, whose names end with the creation time, so that none is reused.
pub const REWRITE_SEGMENT: &str = "rewrite-";

pub fn number_of(name: &str) -> u64 {
    name.rsplit_once('/').and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

pub fn rewrite_name(number: u64) -> String {
    format!("{REWRITES}{number:020}")
}

pub fn segment_file(location: &str, segment: &str) -> String {
    format!("{location}/segments/{segment}.seg")
}
