//! Reader of little-endian fields from bytes that may be too short.

/// Maximum bytes of an Arrow IPC stream of a schema or of one row of one column.
pub const MOST_STREAM_BYTES: u64 = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnexpectedEnd;

pub struct Reader<'a> {
    bytes: &'a [u8],
}

macro_rules! fields {
    ($($name:ident)*) => {$(
        /// # Errors
        ///
        /// [`UnexpectedEnd`] if too few bytes are left.
        pub fn $name(&mut self) -> Result<$name, UnexpectedEnd> {
            let bytes = self.bytes(size_of::<$name>())?;
            Ok($name::from_le_bytes(bytes.try_into().map_err(|_| UnexpectedEnd)?))
        }
    )*};
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    /// # Errors
    ///
    /// [`UnexpectedEnd`] if too few bytes are left.
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], UnexpectedEnd> {
        let (head, rest) = self.bytes.split_at_checked(length).ok_or(UnexpectedEnd)?;
        self.bytes = rest;
        Ok(head)
    }

    fields!(u8 u16 u32 u64 u128);

    /// # Errors
    ///
    /// [`UnexpectedEnd`] if too few bytes are left, or they are not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, UnexpectedEnd> {
        let length = self.u32()? as usize;
        std::str::from_utf8(self.bytes(length)?).map_err(|_| UnexpectedEnd)
    }

    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

pub fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}
