//! A decoded page of a column.

use arrow_buffer::Buffer;

/// Few memory blocks, because each pointer to follow would be a cache miss.
#[derive(Debug, PartialEq)]
pub struct DecodedPage {
    /// Words of 32 or 64 bits, or one bit each, as column builders use them.
    pub(crate) values: Buffer,
    /// One validity bit per row; `None` if all are valid.
    pub(crate) valid: Option<Box<[u8]>>,
}

impl DecodedPage {
    pub fn new(values: Buffer, valid: Option<Box<[u8]>>) -> DecodedPage {
        DecodedPage { values, valid }
    }

    pub fn bytes(&self) -> usize {
        self.values.len() + self.valid.as_ref().map_or(0, |valid| valid.len())
    }

    /// Prefetches the page into the processor's cache without waiting.
    pub fn fetch_ahead(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            const LINE: usize = 64;
            const MOST: usize = 8192;
            for line in self.values.as_slice()[..self.values.len().min(MOST)].chunks(LINE) {
                // SAFETY: every x86-64 processor has the instruction, and it changes only the caches.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
            }
        }
    }
}
