//! A bounds-checked reader for the bytes of an index.

type Outcome<T> = std::result::Result<T, String>;

pub struct Reading<'a> {
    bytes: &'a [u8],
}

impl<'a> Reading<'a> {
    pub fn of(bytes: &'a [u8]) -> Reading<'a> {
        Reading { bytes }
    }

    pub fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn take(&mut self, length: usize) -> Outcome<&'a [u8]> {
        if length > self.bytes.len() {
            return Err("a section is too short".into());
        }
        let (part, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Ok(part)
    }

    pub fn word(&mut self) -> Outcome<u64> {
        self.take(8).map(|part| part.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
    }

    pub fn half(&mut self) -> Outcome<u32> {
        self.take(4).map(|part| part.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)))
    }

    /// Checks that `count` entries with `bytes` bytes each are left.
    pub fn holds(&self, count: u64, bytes: usize) -> Outcome<usize> {
        match count.checked_mul(bytes as u64) {
            Some(needed) if needed <= self.bytes.len() as u64 => Ok(count as usize),
            _ => Err(format!("it lists {count} entries, more than it contains")),
        }
    }
}
