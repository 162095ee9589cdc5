/// The first byte of an opaque chunk: the values of all rows, or each value once.
pub(crate) const OPAQUE_PLAIN: u8 = 0;
pub(crate) const OPAQUE_DICTIONARY: u8 = 1;

#[derive(Clone, Copy)]
pub struct PageColumn<'a> {
    pub rows: usize,
    pub bytes: &'a [u8],
}
