//! The names of a table's objects and segments.

/// The header and the schema of the creation.
pub const TABLE: &str = "table";
pub const GRID: &str = "grid";
/// The writers that were declared.
pub const WRITERS: &str = "writers";
/// The mark of a table that is being dropped.
pub const DROPPED: &str = "dropped";

/// While it is there and the header is not, the rest is what a copy or a salvage was about to
/// make, or has left when it was interrupted.
pub const UNFINISHED: &str = "unfinished";

/// The writers that fill a copy, and what is salvaged.
pub const COPY: &str = "copy";
pub const SALVAGE: &str = "salvage";

pub const REWRITES: &str = "rewrites/";
pub const CHECKPOINTS: &str = "checkpoints/";
pub const ALTERATIONS: &str = "alterations/";
pub const GARBAGE: &str = "garbage/";
pub const LEASES: &str = "leases/";
/// What writers are at, that is to come into the table once.
pub const CLAIMS: &str = "claims/";
/// Notes of parts of segments that are not needed any more.
pub const HOLES: &str = "holes/";

/// How the names of segments of pages begin; they end with the time of their creation.
pub const PAGES_SEGMENT: &str = "pages-";
/// How the names of rewrites' segments begin; they end with the time of their
/// creation, so that no name is ever used again.
pub const REWRITE_SEGMENT: &str = "rewrite-";

/// The number in the name of a rewrite or an alteration.
pub fn number_of(name: &str) -> u64 {
    name.rsplit_once('/').and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

/// The object of a rewrite.
pub fn rewrite_name(number: u64) -> String {
    format!("{REWRITES}{number:020}")
}

/// The file of a segment, as messages name it.
pub fn segment_file(location: &str, segment: &str) -> String {
    format!("{location}/segments/{segment}.seg")
}
