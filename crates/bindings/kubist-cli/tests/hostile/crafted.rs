//! Tables with changed contents in every kind of file, and correct checksums. They must not crash, hang or
//! exhaust anything, and `verify --deep` must notice results that contradict the rest of the table.

use std::fs;
use std::path::{Path, PathBuf};

use kubist::Table;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::frames::{self, Piece, What};
use super::truth::{self, Known, difference, is_noticed};
use super::{Attack, FINE, Outcome, Verdict};

struct Crafted {
    tables: Vec<(Known, Vec<Piece>)>,
    saved: PathBuf,
}

pub fn prepare(folder: &Path) -> Box<dyn Attack> {
    let tables = truth::tables(folder).into_iter().map(|known| {
        let pieces = frames::pieces(&known.at);
        (known, pieces)
    });
    Box::new(Crafted { tables: tables.collect(), saved: folder.join("saved") })
}

const ODD: [u64; 10] = [0, 1, 127, 255, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 40, i64::MAX as u64, u64::MAX];

fn change(bytes: &mut [u8], random: &mut StdRng) {
    for _ in 0..random.random_range(1..4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..4) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes[at] = random.random(),
            kind => {
                let width = if kind == 2 { 4 } else { 8 };
                let odd = ODD.choose(random).expect("numbers").to_le_bytes();
                let end = bytes.len().min(at + width);
                bytes[at..end].copy_from_slice(&odd[..end - at]);
            }
        }
    }
}

/// Also inserts, removes or duplicates bytes.
fn change_all(bytes: &mut Vec<u8>, random: &mut StdRng) {
    let at = random.random_range(0..=bytes.len());
    match random.random_range(0..8) {
        0 => bytes.truncate(at),
        1 => bytes.extend((0..random.random_range(1..64)).map(|_| random.random::<u8>())),
        2 => {
            let end = bytes.len().min(at + random.random_range(1..100));
            bytes.drain(at..end);
        }
        3 => {
            let end = bytes.len().min(at + random.random_range(1..100));
            let twice = bytes[at..end].to_vec();
            bytes.splice(at..at, twice);
        }
        4 if bytes.len() > 4 => {
            // Replaces a number in the JSON by an absurd one, or text if there is none.
            let digits: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
            if let Some(at) = digits.choose(random) {
                let texts: [&[u8]; 5] = [b"99999999999999999999", b"-", b"1e400", b"[", b"\""];
                bytes.splice(*at..*at, texts.choose(random).expect("texts").iter().copied());
            }
        }
        _ => change(bytes, random),
    }
}

impl Attack for Crafted {
    fn play(&mut self, random: &mut StdRng) -> Verdict {
        let (known, pieces) = self.tables.choose(random).expect("tables");
        let piece = pieces.choose(random);
        let (file, kind) = match (piece, random.random_ratio(1, 2)) {
            (Some(piece), true) => (known.at.join(format!("segments/{}.seg", piece.segment)), "segments"),
            _ => {
                let others: Vec<_> =
                    known.files.iter().filter(|file| file.extension().is_none_or(|e| e != "seg")).collect();
                let file = others.choose(random).expect("files").to_path_buf();
                let name = file.strip_prefix(&known.at).expect("within").components().next().expect("a part");
                let kind = name.as_os_str().to_str().expect("a name").to_string();
                (
                    file,
                    ["table", "grid", "logs", "rewrites", "checkpoints", "alterations", "garbage", "writers"]
                        .into_iter()
                        .find(|of| *of == kind)
                        .unwrap_or("other"),
                )
            }
        };
        let bytes = fs::read(&file).expect("a file of the table");
        let mut must_be_noticed = matches!(kind, "rewrites" | "checkpoints" | "logs");
        let crafted = match (kind, piece) {
            _ if random.random_ratio(1, 50) => frames::version(&bytes, random.random_range(0..4)),
            ("segments", Some(piece)) => {
                must_be_noticed = piece.what != What::Page;
                match piece.what == What::ZoneMap && random.random_bool(0.4) {
                    true => {
                        must_be_noticed = false;
                        frames::chunk(&bytes, piece, |bytes| change(bytes, random)).unwrap_or_else(|| bytes.clone())
                    }
                    false => frames::piece(&bytes, piece, |bytes| change(bytes, random)),
                }
            }
            ("logs", _) if file.extension().is_some_and(|extension| extension == "ack") => {
                frames::acknowledgement(&bytes, *ODD.choose(random).expect("numbers"))
            }
            ("logs", _) => frames::log(&bytes, random.random_range(0..50), |bytes| change_all(bytes, random)),
            _ => frames::object(&bytes, |bytes| change_all(bytes, random)),
        };
        let salvages = random.random_ratio(1, 10);
        let told = |what: &str| format!("{what} ({})", file.display());
        truth::with(&file, &crafted, || {
            let answers = truth::answers(&known.at);
            let noticed = is_noticed(&known.at);
            if salvages {
                let _ = fs::remove_dir_all(&self.saved);
                let (from, to) = (known.at.to_str().expect("UTF-8"), self.saved.to_str().expect("UTF-8"));
                let _ = Table::salvage(from, to, &Default::default(), &mut |_, _| {});
            }
            match answers.map(|answers| difference(&answers, &known.answers)) {
                Ok(Some((lost, what))) if must_be_noticed && !noticed => {
                    let outcome = if lost { Outcome::Lost } else { Outcome::Wrong };
                    (outcome, told(&format!("verify does not notice: {what}")))
                }
                _ => FINE,
            }
        })
    }
}
