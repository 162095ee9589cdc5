//! Reusable memory for copies of the solver's columns.
//!
//! The first write to new memory takes about as long as the copy itself, so buffers of committed steps are
//! reused. The pool never holds more than was in use at once.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_buffer::Buffer;
use kubist::ErrorKind;

use crate::failure::{Failure, Result};

/// Largest size of a reused buffer, relative to the copy.
const ROOMY: usize = 2;

#[derive(Clone, Default)]
pub struct Copies(Arc<Mutex<Vec<Vec<u8>>>>);

impl Copies {
    /// # Errors
    ///
    /// `Unavailable` if memory is short.
    pub fn take(&self, bytes: usize) -> Result<Vec<u8>> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |capacity: usize| capacity >= bytes && capacity / ROOMY <= bytes;
        let best = (0..kept.len()).filter(|at| fits(kept[*at].capacity())).min_by_key(|at| kept[*at].capacity());
        // Frees the smallest buffer instead, so that the pool does not grow.
        let place = best.or_else(|| (0..kept.len()).min_by_key(|at| kept[*at].capacity()));
        let found = place.map(|at| kept.swap_remove(at)).filter(|_| best.is_some());
        drop(kept);
        found.map_or_else(|| buffer(bytes), Ok)
    }

    /// A buffer whose memory returns to the pool after the last use.
    pub fn lend(&self, bytes: Vec<u8>) -> Buffer {
        let length = bytes.len();
        let lent = Arc::new(Lent { bytes, home: self.clone() });
        match std::ptr::NonNull::new(lent.bytes.as_ptr().cast_mut()) {
            // SAFETY: the bytes exist unchanged as long as the buffer owns `lent`.
            Some(first) => unsafe { Buffer::from_custom_allocation(first, length, lent) },
            None => Buffer::from_vec(Vec::<u8>::new()),
        }
    }
}

struct Lent {
    bytes: Vec<u8>,
    home: Copies,
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        if bytes.capacity() > 0 {
            self.home.0.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
        }
    }
}

/// # Errors
///
/// `Unavailable` if memory is short, because a solver must not abort.
pub fn buffer(bytes: usize) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    let refused = |_| Failure::new(ErrorKind::Unavailable, format!("out of memory for a copy of {bytes} bytes"));
    buffer.try_reserve_exact(bytes).map_err(refused)?;
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(copies: &Copies, bytes: &[u8]) -> Buffer {
        let mut buffer = copies.take(bytes.len()).unwrap();
        buffer.extend_from_slice(bytes);
        copies.lend(buffer)
    }

    fn kept(copies: &Copies) -> usize {
        copies.0.lock().unwrap().len()
    }

    #[test]
    fn memory_of_one_step_is_that_of_the_next() {
        let copies = Copies::default();
        let (first, second) = (copied(&copies, &[1; 1000]), copied(&copies, &[2; 4000]));
        let (of_first, of_second) = (first.as_ptr(), second.as_ptr());
        let part = second.slice(10);
        drop((first, second));
        assert_eq!(kept(&copies), 1);
        drop(part);
        assert_eq!(kept(&copies), 2);
        let (again, more) = (copied(&copies, &[3; 3900]), copied(&copies, &[4; 900]));
        assert_eq!((again.as_ptr(), more.as_ptr()), (of_second, of_first));
        assert_eq!((again.as_slice(), more.as_slice()), (&[3; 3900][..], &[4; 900][..]));
        assert_eq!(kept(&copies), 0);
    }

    #[test]
    fn there_is_never_more_than_was_in_use_at_once() {
        let copies = Copies::default();
        for round in 1..50 {
            let all: Vec<Buffer> = (0..3).map(|_| copied(&copies, &vec![7; 100 * round])).collect();
            assert!(all.iter().all(|buffer| buffer.iter().all(|byte| *byte == 7)));
            drop(all);
            assert_eq!(kept(&copies), 3);
        }
        assert_eq!(copied(&copies, &[]).len(), 0);
    }
}
