//! Malformed files for `kubist ingest`. A refused file leaves nothing in the table, an accepted one leaves it
//! intact, and no process ends abnormally.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::command::{judged, sound_rows, verdict};
use super::{Attack, Outcome, Verdict, set};

struct Inputs {
    folder: PathBuf,
    table: PathBuf,
    rows: u64,
    sound: Vec<(String, Vec<u8>)>,
}

pub fn prepare(folder: &Path) -> Box<dyn Attack> {
    let table = folder.join("table");
    set::copied(&set::newest().join("lookups/table"), &table);
    let mut sound = Vec::new();
    for ending in ["csv", "parquet", "arrow", "arrows"] {
        let code = judged(folder, &["query", "table", "--limit", "300", "-o", &format!("sound.{ending}")]);
        assert!(matches!(code, Ok(0)), "{code:?}");
        sound.push((ending.to_string(), fs::read(folder.join(format!("sound.{ending}"))).expect("records")));
    }
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../files/kubist-files/tests/data");
    for name in ["numpy-plain.npz", "numpy-deflated.npz"] {
        sound.push(("npz".into(), fs::read(data.join(name)).expect("an archive")));
    }
    sound.push(("csv.gz".into(), zipped(&sound[0].1)));
    let rows = sound_rows(&table).expect("a sound table");
    Box::new(Inputs { folder: folder.to_path_buf(), table, rows, sound })
}

fn zipped(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).expect("memory");
    out.finish().expect("memory")
}

fn mutated(bytes: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut made = bytes.to_vec();
    for _ in 0..random.random_range(1..6) {
        if made.is_empty() {
            break;
        }
        let at = random.random_range(0..made.len());
        match random.random_range(0..6) {
            0 => made[at] ^= 1 << random.random_range(0..8),
            1 => made[at] = random.random(),
            2 => made.truncate(at),
            3 => {
                let odd = [0, 1, u32::MAX, i32::MAX as u32, 1 << 24].choose(random).expect("numbers").to_le_bytes();
                let end = made.len().min(at + 4);
                made[at..end].copy_from_slice(&odd[..end - at]);
            }
            4 => {
                let end = made.len().min(at + random.random_range(1..200));
                made.drain(at..end);
            }
            _ => {
                let piece: &[u8] = [b"\"".as_slice(), b"\n", b",", b"\0", b"\xff\xfe", b"1e999", b"\x1b[2J", b"\r"]
                    .choose(random)
                    .expect("pieces");
                made.splice(at..at, piece.iter().copied());
            }
        }
    }
    made
}

/// Files that each target one weakness: extension and bytes.
fn crafted(random: &mut StdRng) -> (&'static str, Vec<u8>) {
    let header = b"pid,x,y,age,name\n";
    let row = b"1,2,3,4,five\n";
    match random.random_range(0..9) {
        0 => ("csv", [header.as_slice(), b"1,2,3,4,\"never closed\n", &row.repeat(50_000)].concat()),
        1 => ("csv", (0..200_000).map(|n| format!("c{n},")).collect::<String>().into_bytes()),
        2 => ("csv", [header.as_slice(), &vec![b'9'; 20 << 20]].concat()),
        3 => ("csv.gz", zipped(&vec![b' '; 200 << 20])),
        4 => ("csv.gz", zipped(&[header.as_slice(), &row.repeat(100_000), b"\"", &vec![b'x'; 50 << 20]].concat())),
        5 => ("csv", [b"\xff\xfe".as_slice(), header, row].concat()),
        6 => ("csv", [b"pid,pid,x,y,\x1b[31mage\n".as_slice(), row].concat()),
        7 => ("npz", vec![b'P'; random.random_range(0..1000)]),
        _ => ("csv", [header.as_slice(), b"9223372036854775808,1e400,nan,-inf,\n", b"1,2\n"].concat()),
    }
}

impl Attack for Inputs {
    fn play(&mut self, random: &mut StdRng) -> Verdict {
        let (ending, bytes) = match random.random_ratio(1, 15) {
            true => {
                let (ending, bytes) = crafted(random);
                (ending.to_string(), bytes)
            }
            false => {
                let (ending, bytes) = self.sound.choose(random).expect("files");
                (ending.clone(), mutated(bytes, random))
            }
        };
        let name = format!("in.{ending}");
        fs::write(self.folder.join(&name), bytes).expect("the file");
        let fresh = random.random_ratio(1, 4);
        verdict(match fresh {
            true => self.into_a_new_table(&name),
            false => self.into_the_table(&name),
        })
    }
}

impl Inputs {
    fn into_a_new_table(&self, name: &str) -> Result<(), Verdict> {
        let new = self.folder.join("new");
        let _ = fs::remove_dir_all(&new);
        let code = judged(&self.folder, &["ingest", "new", name, "--dimensions", "x,y"])?;
        let rows = sound_rows(&new)?;
        match code != 0 && rows > 0 {
            true => Err((Outcome::Wrong, format!("{name} was refused, and {rows} rows of it are there"))),
            false => Ok(()),
        }
    }

    fn into_the_table(&mut self, name: &str) -> Result<(), Verdict> {
        let code = judged(&self.folder, &["ingest", "table", name])?;
        let rows = sound_rows(&self.table)?;
        let before = std::mem::replace(&mut self.rows, rows);
        match rows {
            _ if rows < before => Err((Outcome::Lost, format!("{rows} rows after {name}, {before} before"))),
            _ if code != 0 && rows != before => {
                Err((Outcome::Wrong, format!("{name} was refused, and {} rows of it are there", rows - before)))
            }
            _ if rows > 20_000 => {
                fs::remove_dir_all(&self.table).expect("the table");
                set::copied(&set::newest().join("lookups/table"), &self.table);
                self.rows = sound_rows(&self.table)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
