//! Entry point of the fuzz target in `fuzz/`; not part of the public interface.

use crate::extents::{Extent, checksum};
use crate::format::{Footer, Tree, read_header};

/// Decodes any bytes as a file and as a tree, where encoding a decoded tree must return the same bytes.
pub fn sealed(bytes: &[u8]) {
    let _ = read_header(bytes);
    let _ = Footer::decode(bytes, bytes.len() as u64);
    if let Ok(tree) = Tree::decode(bytes, 1 << 40) {
        assert_eq!(tree.encode(), bytes);
    }
    let (nonce, position) = ([1; 16], 1 << 40);
    let tree = Extent { position, length: bytes.len() as u64, checksum: checksum(&nonce, position, bytes) };
    let footer = Footer { nonce, tree };
    assert_eq!(Footer::decode(&footer.encode(), tree.end() + footer.encode().len() as u64), Ok(footer));
}
