//! The bytes of one column of a page.

#[derive(Clone, Copy)]
pub struct PageColumn<'a> {
    pub rows: usize,
    pub bytes: &'a [u8],
}
