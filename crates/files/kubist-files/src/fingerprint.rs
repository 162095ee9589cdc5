//! Fingerprints by which a table recognizes ingested files.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use blake2b_simd::Params;

use crate::error::{Error, Result};
use crate::source::open;

/// Files up to this size are read as a whole.
const SMALL: u64 = 1 << 26;
/// Number of blocks to read from a larger file: the first at its start, the last at its end.
const PIECES: u64 = 64;
const PIECE: usize = 1 << 16;
const DIGEST_BYTES: usize = 12;

/// A digest of names, sizes and contents; only some blocks of a large file are read.
///
/// # Errors
///
/// As for [`open`], and if a file cannot be read.
pub fn fingerprint(files: &[PathBuf]) -> Result<String> {
    let mut state = Params::new().hash_length(DIGEST_BYTES).to_state();
    for path in files {
        let mut file = open(path)?;
        let failed = |error| Error::io(path, error);
        let size = file.metadata().map_err(failed)?.len();
        state.update(format!("{}:{size};", name(path)).as_bytes());
        let mut piece = vec![0; PIECE];
        if size <= SMALL {
            loop {
                let read = file.read(&mut piece).map_err(failed)?;
                if read == 0 {
                    break;
                }
                state.update(&piece[..read]);
            }
            continue;
        }
        for number in 0..PIECES {
            let from = number * (size - PIECE as u64) / (PIECES - 1);
            file.seek(SeekFrom::Start(from)).map_err(failed)?;
            file.read_exact(&mut piece).map_err(failed)?;
            state.update(&piece);
        }
    }
    Ok(state.finalize().to_hex().to_string())
}

/// The text by which a table records a completely ingested file: its name and fingerprint.
///
/// # Errors
///
/// As for [`fingerprint`].
pub fn known_as(path: &Path) -> Result<String> {
    Ok(format!("{}:{}", name(path), fingerprint(&[path.to_path_buf()])?))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_fingerprint_is_of_names_sizes_and_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let (one, other) = (path("a.csv", b"x\n1\n"), path("b.csv", b"x\n1\n"));
        // hashlib.blake2b(b"a.csv:4;x\n1\n", digest_size=12).hexdigest()
        assert_eq!(fingerprint(std::slice::from_ref(&one)).unwrap(), "e855c862d1ac3c12577f61ad");
        assert_ne!(fingerprint(&[one]).unwrap(), fingerprint(&[other]).unwrap());
        let large = path("large", b"");
        std::fs::File::options().write(true).open(&large).unwrap().set_len(SMALL + 1).unwrap();
        let before = fingerprint(std::slice::from_ref(&large)).unwrap();
        let mut file = std::fs::File::options().write(true).open(&large).unwrap();
        file.seek(SeekFrom::Start(SMALL)).unwrap();
        file.write_all(b"!").unwrap();
        assert_ne!(before, fingerprint(&[large]).unwrap());
    }
}
