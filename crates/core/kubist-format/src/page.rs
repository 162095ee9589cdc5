//! The bytes of one column of a page.

/// One column of one page.
#[derive(Clone, Copy)]
pub struct PageColumn<'a> {
    /// Rows of the page.
    pub rows: usize,
    pub bytes: &'a [u8],
}
