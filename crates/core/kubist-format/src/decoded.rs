//! A page of a column as it was decoded.

use arrow_buffer::Buffer;

/// What was decoded, in as little as can be: it is read from memory each time that it is used, and whoever follows
/// pointers to it waits at each.
#[derive(Debug, PartialEq)]
pub struct DecodedPage {
    /// As the column under construction has them: words of 32 or 64 bits, or one bit each.
    pub(crate) values: Buffer,
    /// One bit each, unless all are valid.
    pub(crate) valid: Option<Box<[u8]>>,
}

impl DecodedPage {
    /// Of values as a column under construction has them, and which are valid.
    pub fn new(values: Buffer, valid: Option<Box<[u8]>>) -> DecodedPage {
        DecodedPage { values, valid }
    }

    /// The bytes of what it holds.
    pub fn bytes(&self) -> usize {
        self.values.len() + self.valid.as_ref().map_or(0, |valid| valid.len())
    }

    /// Has the processor fetch it, if it has an instruction for that, and does not wait for it.
    pub fn fetch_ahead(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            const LINE: usize = 64;
            const MOST: usize = 8192;
            for line in self.values.as_slice()[..self.values.len().min(MOST)].chunks(LINE) {
                // SAFETY: every such machine has the instruction, which changes nothing but what its caches hold.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
            }
        }
    }
}
