//! The contents of a table without its id, times, hash chains and their checksums, so that two tables with the same
//! recipe and version have equal bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use kubist::store::{Store, open_local};
use kubist_format::checkpoint::{Body, decode_body, split};
use kubist_format::digest::Head;
use kubist_index::cube::Geometry;
use kubist_index::forest::Forest;

/// Digits of the creation time (ms) at the end of a segment's name.
const TIME_DIGITS: usize = 13;
/// Tag and length of the time section of a log entry.
const TIME_SECTION: [u8; 6] = [16, 0, 8, 0, 0, 0];

pub fn contents(at: &Path) -> BTreeMap<String, Vec<u8>> {
    let store = open_local(at).expect("a table's folder");
    let names = Names::of(&store);
    let mut found = BTreeMap::new();
    for name in store.list("").expect("objects") {
        let mut bytes = store.get(&name).expect("a sound object").expect("an object that is listed").to_vec();
        if name.starts_with("garbage/") {
            bytes.fill(0);
        }
        if name.starts_with("rewrites/") {
            unlink(&mut bytes, 1, 16);
        }
        found.insert(names.without(name.clone().into_bytes()), names.without(bytes));
    }
    for writer in store.logs().expect("logs") {
        for (number, entry) in store.read_log(&writer, 0).expect("a sound log").entries.iter().enumerate() {
            let mut bytes = entry.bytes.to_vec();
            unlink(&mut bytes, 17, 24);
            found.insert(format!("logs/{writer}, entry {}", number + 1).into_bytes(), names.without(bytes));
        }
    }
    let pages = pages(&store);
    for segment in store.segments().expect("segments") {
        let end = store.segment_len(&segment).expect("a segment").expect("a segment that is listed");
        let mut bytes = store.read(&segment, &[16..end]).expect("a segment's bytes").remove(0).to_vec();
        let of_segment = pages.iter().filter(|(name, ..)| *name == segment);
        let of_segment =
            of_segment.map(|(_, offset, length)| *offset as usize - 16..(offset + *length as u64) as usize - 16);
        let mut checked: Vec<Range<usize>> = of_segment.collect();
        // A digest follows, whose list names segments.
        if let Some(begin) = checked.iter().map(|page| page.end).max() {
            let head = Head::decode(&bytes[begin..]).expect("a sound digest");
            let places = head.places();
            checked.extend((!places.is_empty()).then(|| begin + places.start as usize..begin + places.end as usize));
        }
        for Range { start: begin, end } in checked {
            let checksum = crc32c::crc32c(&bytes[begin + 4..end]).to_le_bytes();
            assert_eq!(bytes[begin..begin + 4], checksum, "a checksum of {segment}");
            bytes[begin..begin + 4].fill(0);
        }
        found.insert(names.without(format!("segments/{segment}").into_bytes()), names.without(bytes));
    }
    found.into_iter().map(|(name, bytes)| (String::from_utf8(name).expect("a name"), bytes)).collect()
}

fn unlink(bytes: &mut [u8], begin: usize, length: usize) {
    assert_eq!(bytes[begin..begin + 2], [28, 0], "the section that links an entry is the first");
    bytes[begin + 6..begin + 6 + length].fill(0);
}

struct Names(Vec<(Vec<u8>, Vec<u8>)>);

impl Names {
    fn of(store: &dyn Store) -> Names {
        let header = store.get("table").expect("a sound header").expect("a header");
        let id = json(&header)["id"].as_str().expect("an id").to_string();
        let mut pairs = vec![(id.clone().into_bytes(), vec![b'#'; id.len()])];
        let mut times: BTreeMap<(String, String), ()> = BTreeMap::new();
        let mut seek = |bytes: &[u8]| {
            for end in TIME_DIGITS + 1..=bytes.len() {
                let digits = &bytes[end - TIME_DIGITS..end];
                let before = &bytes[..end - TIME_DIGITS];
                if before.last() != Some(&b'-') || !digits.iter().all(u8::is_ascii_digit) {
                    continue;
                }
                let owner: Vec<u8> = before.iter().rev().take_while(|byte| is_of_name(**byte)).copied().collect();
                let owner = owner.into_iter().rev().map(char::from).collect();
                times.insert((owner, String::from_utf8_lossy(digits).into_owned()), ());
            }
        };
        for name in store.list("").expect("objects") {
            seek(name.as_bytes());
            seek(&store.get(&name).expect("a sound object").expect("an object that is listed"));
        }
        for writer in store.logs().expect("logs") {
            store.read_log(&writer, 0).expect("a sound log").entries.iter().for_each(|entry| seek(&entry.bytes));
        }
        let mut of_owner: BTreeMap<&str, usize> = BTreeMap::new();
        for (owner, time) in times.keys() {
            let rank = of_owner.entry(owner).or_default();
            *rank += 1;
            pairs.push((format!("{owner}{time}").into_bytes(), format!("{owner}{rank:#>TIME_DIGITS$}").into_bytes()));
        }
        for name in store.list("alterations/").expect("alterations") {
            let said = json(&store.get(&name).expect("a sound alteration").expect("an alteration that is listed"));
            let text =
                |key: &str| said[key].as_str().map_or_else(|| said[key].to_string(), str::to_string).into_bytes();
            pairs.push((text("previous"), vec![b'#'; 32]));
            if said["kind"] == "grid" {
                pairs.extend(["token", "unix_ms"].map(|key| (text(key), vec![b'#'; text(key).len()])));
            }
        }
        for name in store.list("checkpoints/").expect("checkpoints") {
            let said = json(&store.get(&name).expect("a sound checkpoint").expect("a checkpoint that is listed"));
            let history = &said["history"];
            let writers = history["writers"].as_object().expect("writers").values().map(|own| &own["chain"]);
            let chains = writers.chain([&history["rewritten"]]);
            pairs.extend(chains.map(|chain| (chain.as_str().expect("a chain").into(), vec![b'#'; 32])));
        }
        Names(pairs)
    }

    fn without(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        for (text, instead) in &self.0 {
            let mut at = 0;
            while let Some(found) = bytes[at..].windows(text.len()).position(|window| window == text) {
                at += found;
                bytes[at..at + text.len()].copy_from_slice(instead);
                at += text.len();
            }
        }
        let mut at = 0;
        while let Some(found) = bytes[at..].windows(TIME_SECTION.len()).position(|window| window == TIME_SECTION) {
            at += found + TIME_SECTION.len();
            let Some(time) = bytes.get(at..at + 8) else { break };
            let milliseconds = u64::from_le_bytes(time.try_into().expect("eight bytes"));
            if (1_500_000_000_000..5_000_000_000_000).contains(&milliseconds) {
                bytes[at..at + 8].fill(0);
            }
        }
        bytes
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

fn json(bytes: &[u8]) -> serde_json::Value {
    let length = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes")) as usize;
    serde_json::from_slice(&bytes[4..4 + length]).expect("JSON")
}

fn pages(store: &dyn Store) -> Vec<(String, u64, u32)> {
    let header = store.get("table").expect("a sound header").expect("a header");
    let dimensions = json(&header)["dimensions"].as_array().expect("dimensions").len();
    let forest = &mut Forest::of(Geometry::new(dimensions).expect("a geometry"));
    let mut found = Vec::new();
    for name in store.list("checkpoints/").expect("checkpoints") {
        let bytes = store.get(&name).expect("a sound checkpoint").expect("a checkpoint that is listed");
        let (_, body) = split(&bytes).expect("a sound checkpoint");
        if let Body::Pages(leaves, _) = decode_body(body, forest).expect("a list of pages") {
            found.extend(leaves.into_iter().map(|leaf| (leaf.segment.to_string(), leaf.offset, leaf.length)));
        }
    }
    found
}
