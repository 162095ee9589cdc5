//! What zones hold, unpacked when it is first looked at: a question looks at little of it.

use std::ops::Deref;
use std::sync::OnceLock;

use bytes::Bytes;

use crate::wire::Short;

/// Something that is stored of each zone.
pub trait Unpack: Sized {
    /// The inverse of packing; `rounded`: its bounds are rounded outwards.
    ///
    /// # Errors
    ///
    /// [`Short`] if the bytes end too soon.
    fn unpack(packed: &[u8], zones: usize, rounded: bool) -> Result<Self, Short>;
}

/// Bytes, or what they say.
#[derive(Clone, Debug)]
pub struct Lazy<T> {
    zones: usize,
    rounded: bool,
    packed: Bytes,
    unpacked: OnceLock<T>,
}

impl<T> Lazy<T> {
    /// Of bytes that were checked to be long enough.
    pub fn packed(packed: Bytes, zones: usize, rounded: bool) -> Lazy<T> {
        Lazy { zones, rounded, packed, unpacked: OnceLock::new() }
    }

    /// Of what was never packed.
    pub fn unpacked(unpacked: T) -> Lazy<T> {
        Lazy { zones: 0, rounded: false, packed: Bytes::new(), unpacked: unpacked.into() }
    }

    /// The bytes as they are stored and the number of zones, if bounds are rounded already.
    pub fn rounded(&self) -> Option<(&[u8], usize)> {
        self.rounded.then_some((&self.packed[..], self.zones))
    }

    /// How many bytes it is packed into; none if it never was.
    pub fn packed_bytes(&self) -> usize {
        self.packed.len()
    }
}

impl<T: Unpack> Deref for Lazy<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.unpacked
            .get_or_init(|| T::unpack(&self.packed, self.zones, self.rounded).expect("a length that was checked"))
    }
}

impl<T: Unpack + PartialEq> PartialEq for Lazy<T> {
    fn eq(&self, other: &Lazy<T>) -> bool {
        **self == **other
    }
}
