//! Adds correct checksums, which a fuzzer would not find.

/// The bytes after their checksum.
pub fn checked(bytes: &[u8]) -> Vec<u8> {
    let mut checked = crc32c::crc32c(bytes).to_le_bytes().to_vec();
    checked.extend_from_slice(bytes);
    checked
}
