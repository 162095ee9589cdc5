//! Different values of a column of bytes, numbered in the order of their first row.

use std::collections::HashMap;

const SLOTS: usize = 256;

#[derive(Default)]
pub struct Distinct {
    values: Vec<Box<[u8]>>,
    numbers: HashMap<Box<[u8]>, u32>,
    /// Numbers of recent values by their length and first bytes; `None` in an empty slot.
    recent: Vec<(u64, Option<u32>)>,
}

impl Distinct {
    pub fn values(&self) -> &[Box<[u8]>] {
        &self.values
    }

    /// Returns the number of a value, after adding it if it is new.
    #[inline]
    pub fn number(&mut self, value: &[u8]) -> u32 {
        let mut first = [0; 8];
        let length = value.len().min(8);
        first[..length].copy_from_slice(&value[..length]);
        let head = u64::from_le_bytes(first) ^ (value.len() as u64) << 56;
        let slot = (head.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % SLOTS;
        if self.recent.is_empty() {
            self.recent = vec![(0, None); SLOTS];
        }
        if let (known, Some(number)) = self.recent[slot]
            && known == head
            && *self.values[number as usize] == *value
        {
            return number;
        }
        let number = match self.numbers.get(value) {
            Some(number) => *number,
            None => {
                let number = self.values.len() as u32;
                self.values.push(value.into());
                self.numbers.insert(value.into(), number);
                number
            }
        };
        self.recent[slot] = (head, Some(number));
        number
    }
}
