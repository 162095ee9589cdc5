#[derive(Clone, Copy)]
pub struct PageColumn<'a> {
    pub rows: usize,
    pub bytes: &'a [u8],
}
