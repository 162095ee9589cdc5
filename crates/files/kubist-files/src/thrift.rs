//! A subset of Thrift's compact protocol, to check the lengths in a Parquet file before its reader allocates memory.

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    Short,
    Damaged,
}

pub type Result<T> = std::result::Result<T, Trouble>;

const DEEPEST: usize = 64;

pub mod kind {
    pub const I32: u8 = 5;
    pub const LIST: u8 = 9;
    pub const STRUCT: u8 = 12;
}

pub struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Thrift<'a> {
    pub fn new(bytes: &'a [u8]) -> Thrift<'a> {
        Thrift { bytes, at: 0 }
    }

    pub fn position(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = self.bytes.get(self.at).ok_or(Trouble::Short)?;
        self.at += 1;
        Ok(*byte)
    }

    fn pass(&mut self, bytes: u64) -> Result<()> {
        let bytes = usize::try_from(bytes).map_err(|_| Trouble::Damaged)?;
        let end = self.at.checked_add(bytes).ok_or(Trouble::Damaged)?;
        if end > self.bytes.len() {
            return Err(Trouble::Short);
        }
        self.at = end;
        Ok(())
    }

    fn unsigned(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Trouble::Damaged)
    }

    pub fn number(&mut self) -> Result<i64> {
        let folded = self.unsigned()?;
        Ok((folded >> 1) as i64 ^ -((folded & 1) as i64))
    }

    /// The number and the type of a list's elements.
    pub fn list(&mut self) -> Result<(u64, u8)> {
        let head = self.byte()?;
        let size = if head >> 4 == 15 { self.unsigned()? } else { u64::from(head >> 4) };
        // Each element has at least one byte.
        if size > (self.bytes.len() - self.at) as u64 {
            return Err(Trouble::Short);
        }
        Ok((size, head & 15))
    }

    /// Reads a structure. `each` gets a field's number and type, and reads the field or returns `false` to skip it.
    pub fn fields(&mut self, each: &mut dyn FnMut(&mut Thrift<'a>, i64, u8) -> Result<bool>) -> Result<()> {
        self.fields_below(DEEPEST, each)
    }

    fn fields_below(
        &mut self,
        deepest: usize,
        each: &mut dyn FnMut(&mut Thrift<'a>, i64, u8) -> Result<bool>,
    ) -> Result<()> {
        let mut id = 0i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            id = match head >> 4 {
                0 => self.number()?,
                step => id.saturating_add(i64::from(step)),
            };
            if !each(self, id, head & 15)? {
                self.skip(head & 15, deepest)?;
            }
        }
    }

    fn skip(&mut self, kind: u8, deepest: usize) -> Result<()> {
        let deeper = deepest.checked_sub(1).ok_or(Trouble::Damaged)?;
        match kind {
            // A boolean's value is in its type.
            1 | 2 => Ok(()),
            3 => self.pass(1),
            4..=6 => self.unsigned().map(|_| ()),
            7 => self.pass(8),
            8 => {
                let length = self.unsigned()?;
                self.pass(length)
            }
            kind::LIST | 10 => {
                let (size, element) = self.list()?;
                (0..size).try_for_each(|_| self.skip_element(element, deeper))
            }
            11 => {
                let size = self.unsigned()?;
                if size == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                (0..size).try_for_each(|_| {
                    self.skip_element(kinds >> 4, deeper)?;
                    self.skip_element(kinds & 15, deeper)
                })
            }
            kind::STRUCT => self.fields_below(deeper, &mut |_, _, _| Ok(false)),
            _ => Err(Trouble::Damaged),
        }
    }

    /// Skips an element of a list or map, where a boolean is a separate byte.
    fn skip_element(&mut self, kind: u8, deepest: usize) -> Result<()> {
        match kind {
            1 | 2 => self.pass(1),
            kind => self.skip(kind, deepest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_read_and_passed_over() {
        // 1: i32 = 150; 3: list of two binaries; 4: a struct with a boolean; 20: i64 = -1.
        let bytes = [0x15, 0xac, 0x02, 0x29, 0x28, 1, b'a', 0, 0x1c, 0x11, 0, 0x06, 40, 1, 0];
        let mut found = Vec::new();
        let mut thrift = Thrift::new(&bytes);
        thrift
            .fields(&mut |thrift, id, kind| match kind {
                5 | 6 => {
                    found.push((id, thrift.number()?));
                    Ok(true)
                }
                _ => Ok(false),
            })
            .unwrap();
        assert_eq!((found, thrift.position()), (vec![(1, 150), (20, -1)], bytes.len()));
        for length in 0..bytes.len() {
            let outcome = Thrift::new(&bytes[..length]).fields(&mut |_, _, _| Ok(false));
            assert_eq!(outcome, Err(Trouble::Short), "{length}");
        }
    }

    #[test]
    fn depth_and_lengths_are_bounded() {
        let deep = [0x1c; 10_000];
        assert_eq!(Thrift::new(&deep).fields(&mut |_, _, _| Ok(false)), Err(Trouble::Damaged));
        let long = [0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(Thrift::new(&long).fields(&mut |_, _, _| Ok(false)).is_err());
    }
}
