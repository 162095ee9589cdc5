//! One column of a page, as its bytes.

/// The smallest key of a packed chunk and the bits that the largest difference from it
/// needs, and how many values are null; all 0 for opaque types. In version 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Frame {
    pub base: u64,
    pub width: u8,
    pub nulls: u16,
}

/// One column of one page.
#[derive(Clone, Copy)]
pub struct PageColumn<'a> {
    /// Rows of the page.
    pub rows: usize,
    /// If the zone map has it, as in version 1 of the format.
    pub frame: Option<Frame>,
    pub bytes: &'a [u8],
}
