//! Values of zones that are unpacked on first use, because a query uses few.

use std::ops::Deref;
use std::sync::OnceLock;

use bytes::Bytes;

use crate::wire::UnexpectedEnd;

pub trait Unpack: Sized {
    /// # Errors
    ///
    /// [`UnexpectedEnd`] if the bytes end too soon.
    fn unpack(packed: &[u8], zones: usize) -> Result<Self, UnexpectedEnd>;
}

#[derive(Clone, Debug)]
pub struct Lazy<T> {
    /// The stored bytes and the number of zones; `None` if the values were never packed.
    packed: Option<(Bytes, usize)>,
    unpacked: OnceLock<T>,
}

impl<T> Lazy<T> {
    /// The length of the bytes was checked.
    pub fn packed(packed: Bytes, zones: usize) -> Lazy<T> {
        Lazy { packed: Some((packed, zones)), unpacked: OnceLock::new() }
    }

    pub fn unpacked(unpacked: T) -> Lazy<T> {
        Lazy { packed: None, unpacked: unpacked.into() }
    }

    pub fn stored(&self) -> Option<(&[u8], usize)> {
        self.packed.as_ref().map(|(packed, zones)| (&packed[..], *zones))
    }

    /// 0 if it was never packed.
    pub fn packed_bytes(&self) -> usize {
        self.packed.as_ref().map_or(0, |(packed, _)| packed.len())
    }
}

impl<T: Unpack> Deref for Lazy<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.unpacked.get_or_init(|| {
            let (packed, zones) = self.packed.as_ref().expect("values that are unpacked or packed");
            T::unpack(packed, *zones).expect("a length that was checked")
        })
    }
}

impl<T: Unpack + PartialEq> PartialEq for Lazy<T> {
    fn eq(&self, other: &Lazy<T>) -> bool {
        **self == **other
    }
}
