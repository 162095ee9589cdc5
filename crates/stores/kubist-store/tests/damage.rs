//! Damage at every bit and every length is distinguished from an unfinished append. It is reported with file and
//! offset, and never repaired by cutting the log.

#![allow(clippy::single_range_in_vec_init)] // a list of one range is meant

use std::path::PathBuf;

use crate::common::{file, open, payloads};
use kubist_simulate::SimDisk;
use kubist_store::disk::{Disk, Open};
use kubist_store::{Error, LocalStore, Store, StoreExt};

const ENTRIES: [&[u8]; 4] = [b"the first entry", b"", b"a third, somewhat longer entry", b"last"];

struct Log {
    machine: SimDisk,
    store: LocalStore,
    positions: Vec<u64>,
    bytes: Vec<u8>,
}

fn log() -> Log {
    let machine = SimDisk::new(1);
    let store = open(&machine).unwrap();
    let mut owner = store.own_log("w").unwrap();
    let mut positions = vec![owner.position()];
    for entry in ENTRIES {
        positions.push(owner.append(entry).unwrap());
    }
    drop(owner);
    let bytes = machine.contents(&log_file()).unwrap();
    assert_eq!(bytes.len() as u64, *positions.last().unwrap());
    Log { machine, store, positions, bytes }
}

impl Log {
    fn set(&self, bytes: &[u8]) {
        self.machine.damage(&log_file(), |file| *file = bytes.to_vec());
    }

    fn lose_acknowledgement(&self) {
        self.machine.damage(&acknowledgement_file(), |file| file.clear());
    }

    fn acknowledge(&self, length: u64) {
        let mut bytes = self.machine.contents(&acknowledgement_file()).unwrap();
        bytes[16..24].copy_from_slice(&length.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[16..24]);
        bytes[24..28].copy_from_slice(&checksum.to_le_bytes());
        self.machine.damage(&acknowledgement_file(), |file| *file = bytes.clone());
    }

    fn entry_at(&self, at: u64) -> usize {
        self.positions.iter().filter(|&&position| position <= at).count() - 1
    }
}

fn log_file() -> PathBuf {
    file("logs/w.log")
}

fn acknowledgement_file() -> PathBuf {
    file("logs/w.ack")
}

fn assert_damaged<T>(answer: Result<T, Error>, at: u64, case: &str) {
    match answer {
        Err(Error::Damaged { file, offset, .. }) => {
            assert!(file.ends_with("logs/w.log"), "{case}: {file}");
            assert_eq!(offset, at, "{case}");
        }
        Err(error) => panic!("{case}: {error}"),
        Ok(_) => panic!("{case} went unnoticed"),
    }
}

#[test]
fn every_flipped_bit_of_an_acknowledged_entry_is_damage() {
    let log = log();
    for bit in log.positions[0] as usize * 8..log.bytes.len() * 8 {
        let mut bad = log.bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        log.set(&bad);
        let case = format!("bit {bit}");
        let entry = log.entry_at(bit as u64 / 8);
        let at = log.positions[entry];
        assert_damaged(log.store.read_log("w", 0), at, &case);
        assert_damaged(log.store.own_log("w"), at, &case);
        assert_eq!(log.store.check_log("w").unwrap().len(), 1, "{case}");
        assert_eq!(log.machine.contents(&log_file()).unwrap(), bad, "{case} was changed");
        let after = log.store.read_log("w", log.positions[entry + 1]).unwrap();
        assert_eq!(payloads(&after), ENTRIES[entry + 1..], "{case}");
    }
}

#[test]
fn pieces_before_damage_are_given() {
    let log = log();
    for damaged in 1..ENTRIES.len() {
        let mut bad = log.bytes.clone();
        bad[log.positions[damaged] as usize + 4] ^= 1;
        log.set(&bad);
        for (entry, expected) in ENTRIES[..damaged].iter().enumerate() {
            let piece = log.store.read_log_piece("w", log.positions[entry], 0).unwrap();
            assert_eq!((payloads(&piece), piece.next), (vec![expected.to_vec()], log.positions[entry + 1]));
        }
        assert_damaged(log.store.read_log_piece("w", log.positions[damaged], 0), log.positions[damaged], "a piece");
    }
}

#[test]
fn an_acknowledged_log_cut_at_any_byte_is_damage() {
    let log = log();
    for length in log.positions[0]..log.bytes.len() as u64 {
        log.set(&log.bytes[..length as usize]);
        let case = format!("cut to {length}");
        assert_damaged(log.store.read_log("w", 0), length, &case);
        assert_damaged(log.store.read_log("w", *log.positions.last().unwrap()), length, &case);
        assert_damaged(log.store.own_log("w"), length, &case);
        assert_eq!(log.store.check_log("w").unwrap().len(), 1, "{case}");
        assert_eq!(log.machine.contents(&log_file()).unwrap().len() as u64, length);
    }
}

/// All earlier appends were acknowledged.
#[test]
fn an_unacknowledged_log_cut_at_any_byte_is_torn() {
    let log = log();
    for length in log.positions[0]..=log.bytes.len() as u64 {
        let whole = log.entry_at(length);
        log.set(&log.bytes[..length as usize]);
        log.acknowledge(log.positions[whole]);
        let tail = log.store.read_log("w", 0).unwrap();
        assert_eq!(payloads(&tail), ENTRIES[..whole], "cut to {length}");
        assert_eq!((tail.next, tail.durable), (log.positions[whole], log.positions[whole]));
        let mut owner = log.store.own_log("w").unwrap();
        assert_eq!(owner.position(), log.positions[whole], "cut to {length}");
        let settled = log.store.read_log("w", 0).unwrap();
        assert_eq!((settled.next, settled.durable), (tail.next, tail.next));
        owner.append(b"and on").unwrap();
        let tail = log.store.read_log("w", 0).unwrap();
        assert_eq!(payloads(&tail)[..whole], ENTRIES[..whole]);
        assert_eq!(payloads(&tail)[whole..], [b"and on"]);
        assert!(log.store.check_log("w").unwrap().is_empty());
    }
}

/// The broken entry may have been acknowledged.
#[test]
fn a_log_cut_inside_an_entry_is_damaged_if_its_acknowledgement_is_lost_too() {
    let log = log();
    for length in log.positions[0]..=log.bytes.len() as u64 {
        let whole = log.entry_at(length);
        log.set(&log.bytes[..length as usize]);
        log.lose_acknowledgement();
        let case = format!("cut to {length}");
        if log.positions[whole] == length {
            assert_eq!(payloads(&log.store.read_log("w", 0).unwrap()), ENTRIES[..whole], "{case}");
            continue;
        }
        assert_damaged(log.store.read_log("w", 0), log.positions[whole], &case);
        assert_damaged(log.store.own_log("w"), log.positions[whole], &case);
        assert_eq!(log.machine.contents(&log_file()).unwrap().len() as u64, length, "{case} was changed");
        let sound = log.store.read_sound_log("w", 0).unwrap();
        let entries: Vec<&[u8]> = sound.entries.iter().map(|entry| &entry.bytes[..]).collect();
        assert_eq!(entries, ENTRIES[..whole], "{case}");
        assert_eq!((sound.broken.len(), sound.damage.is_some()), (1, true), "{case}");
    }
}

/// Entries may be longer than the buffer of a read.
#[test]
fn damage_of_long_logs_is_told_from_an_unfinished_append() {
    let lengths = [3_000_000, 20_000_000, 0, 3_000_000, 3_000_000, 3_000_000, 9_000_000, 1];
    let entries: Vec<Vec<u8>> = (0u8..).zip(lengths).map(|(number, length)| vec![number; length]).collect();
    let machine = SimDisk::new(1);
    let store = open(&machine).unwrap();
    let mut owner = store.own_log("w").unwrap();
    let mut positions = vec![owner.position()];
    entries.iter().for_each(|entry| positions.push(owner.append(entry).unwrap()));
    drop(owner);
    let bytes = machine.contents(&log_file()).unwrap();
    let log = Log { machine, store, positions, bytes };
    assert!(payloads(&log.store.read_log("w", 0).unwrap()) == entries);
    let mut from = 0;
    for expected in [&entries[..2], &entries[2..6], &entries[6..7], &entries[7..], &[]] {
        let piece = log.store.read_log_piece("w", from, 8_500_000).unwrap();
        assert!(payloads(&piece) == expected, "from {from}");
        from = piece.next;
    }
    let of_head = [0, 1, 6].map(|entry| (entry, log.positions[entry]));
    let of_payload = [1, 4, 7].map(|entry| (entry, log.positions[entry + 1] - 1));
    for (damaged, byte) in of_head.into_iter().chain(of_payload) {
        let (at, case) = (log.positions[damaged], format!("byte {byte} of entry {damaged}"));
        let mut bad = log.bytes.clone();
        bad[byte as usize] ^= 1;
        log.set(&bad);
        assert_damaged(log.store.read_log("w", 0), at, &case);
        assert_damaged(log.store.own_log("w"), at, &case);
        assert_eq!(log.store.check_log("w").unwrap().len(), 1, "{case}");
        if damaged > 0 {
            assert!(payloads(&log.store.read_log_piece("w", 0, 1).unwrap()) == entries[..1], "{case}");
        }
        assert_damaged(log.store.read_log_piece("w", at, 1), at, &case);
    }
    for torn in [1, 6] {
        log.set(&log.bytes[..log.positions[torn + 1] as usize - 1]);
        log.acknowledge(log.positions[torn]);
        assert_eq!(log.store.read_log("w", 0).unwrap().next, log.positions[torn]);
        assert_eq!(log.store.own_log("w").unwrap().position(), log.positions[torn]);
        assert_eq!(log.machine.contents(&log_file()).unwrap().len() as u64, log.positions[torn]);
    }
}

#[test]
fn a_log_that_ends_before_what_was_read_of_it_says_so() {
    let log = log();
    log.set(&log.bytes[..log.positions[2] as usize]);
    log.lose_acknowledgement();
    assert_eq!(log.store.read_log("w", log.positions[4]).unwrap().next, log.positions[2]);
}

#[test]
fn what_lies_behind_damage_is_read_with_what_lies_before() {
    let log = log();
    let mut bad = log.bytes.clone();
    bad[log.positions[2] as usize + 14] ^= 1;
    log.set(&bad);
    let sound = log.store.read_sound_log("w", 0).unwrap();
    let entries: Vec<&[u8]> = sound.entries.iter().map(|entry| &entry.bytes[..]).collect();
    assert_eq!(entries, [ENTRIES[0], ENTRIES[1], ENTRIES[3]]);
    assert_eq!((sound.broken[0].position, sound.broken.len()), (log.positions[2], 1));
    assert_eq!((sound.broken[0].bytes.len(), sound.next), (ENTRIES[2].len(), log.positions[4]));
    assert!(matches!(sound.damage, Some(Error::Damaged { offset, .. }) if offset == log.positions[2]));
}

/// If a log's file lost its name, no reader would see an entry in it.
#[test]
fn an_owner_whose_log_is_removed_or_replaced_refuses() {
    for replaced in [false, true] {
        let log = log();
        let mut owner = log.store.own_log("w").unwrap();
        log.machine.process().unlink(&log_file()).unwrap();
        if replaced {
            log.machine.process().open(&log_file(), Open::Create).unwrap().write_at(&log.bytes, 0).unwrap();
        }
        let refused = owner.append(b"lost");
        assert!(matches!(&refused, Err(Error::Damaged { what, .. }) if what.contains("removed or replaced")));
        assert!(matches!(owner.append(b"lost"), Err(Error::Refused { .. })));
    }
}

#[test]
fn a_flipped_bit_is_damage_without_an_acknowledgement_if_entries_follow() {
    let log = log();
    let last = log.positions[ENTRIES.len() - 1];
    for bit in log.positions[0] as usize * 8..last as usize * 8 {
        let mut bad = log.bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        log.set(&bad);
        log.lose_acknowledgement();
        let case = format!("bit {bit}");
        let at = log.positions[log.entry_at(bit as u64 / 8)];
        assert_damaged(log.store.read_log("w", 0), at, &case);
        assert_damaged(log.store.own_log("w"), at, &case);
        assert_eq!(log.machine.contents(&log_file()).unwrap(), bad, "{case} was changed");
    }
}

#[test]
fn any_acknowledgement_is_survived_and_a_bad_one_is_found() {
    let log = log();
    let good = log.machine.contents(&acknowledgement_file()).unwrap();
    let mut bad: Vec<Vec<u8>> = (0..good.len()).map(|length| good[..length].to_vec()).collect();
    bad.push([&good[..], b"!"].concat());
    bad.extend((0..good.len() * 8).map(|bit| {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        bad
    }));
    for bad in bad {
        log.machine.damage(&acknowledgement_file(), |file| file.clone_from(&bad));
        let tail = log.store.read_log("w", 0).unwrap();
        assert_eq!(payloads(&tail), ENTRIES);
        assert_eq!(tail.durable, log.positions[0]);
        assert_eq!(log.store.check_log("w").unwrap().len(), 1);
        drop(log.store.own_log("w").unwrap());
        let owned = log.machine.contents(&acknowledgement_file()).unwrap();
        assert_eq!(owned[..good.len()], good, "an owner acknowledges anew");
    }
}

#[test]
fn a_torn_tail_behind_the_acknowledgement_is_cut_by_its_next_owner_only() {
    let log = log();
    let torn = [&log.bytes[..], &log.bytes[log.positions[0] as usize..][..9]].concat();
    log.set(&torn);
    assert_eq!(payloads(&log.store.read_log("w", 0).unwrap()), ENTRIES);
    assert_eq!(log.store.check_log("w").unwrap().len(), 1);
    assert_eq!(log.machine.contents(&log_file()).unwrap(), torn, "a reader cut it");
    drop(log.store.own_log("w").unwrap());
    assert_eq!(log.machine.contents(&log_file()).unwrap(), log.bytes);
    assert!(log.store.check_log("w").unwrap().is_empty());
}

#[test]
fn headers_are_checked() {
    let log = log();
    log.store.put_if_absent("table", b"grid").unwrap();
    let mut segment = log.store.create_segment("s").unwrap();
    let offset = segment.append(&[b"page"]).unwrap();
    segment.sync().unwrap();
    let fresh = || open(&log.machine).unwrap();
    let asked = || {
        [
            fresh().read_log("w", 0).map(drop),
            fresh().own_log("w").map(drop),
            fresh().get("table").map(drop),
            fresh().read("s", &[offset..offset + 4]).map(drop),
        ]
    };
    let files = ["logs/w.log", "table", "segments/s.seg"].map(file);
    let good: Vec<Vec<u8>> = files.iter().map(|f| log.machine.contents(f).unwrap()).collect();
    let set = |change: &dyn Fn(&mut Vec<u8>)| {
        for (file, good) in files.iter().zip(&good) {
            let mut bad = good.clone();
            change(&mut bad);
            log.machine.damage(file, |file| file.clone_from(&bad));
        }
    };
    assert!(asked().iter().all(Result::is_ok));
    for bit in 0..16 * 8 {
        set(&|file| file[bit / 8] ^= 1 << (bit % 8));
        for answer in asked() {
            assert!(matches!(answer, Err(Error::Damaged { .. })), "bit {bit}: {answer:?}");
        }
    }
    for length in 0..16 {
        set(&|file| file.truncate(length));
        for answer in asked() {
            assert!(matches!(answer, Err(Error::Damaged { .. })), "{length} bytes: {answer:?}");
        }
    }
    set(&|file| {
        file[8..12].copy_from_slice(&2u32.to_le_bytes());
        let checksum = crc32c::crc32c(&file[..12]);
        file[12..16].copy_from_slice(&checksum.to_le_bytes());
    });
    for answer in asked() {
        assert!(matches!(answer, Err(Error::Newer { found: 2, known: 1, .. })), "{answer:?}");
    }
}

#[test]
fn messages_name_file_and_offset() {
    let log = log();
    let mut segment = log.store.create_segment("s").unwrap();
    segment.append(&[b"page"]).unwrap();
    segment.sync().unwrap();
    let message = log.store.read("s", &[18..29]).unwrap_err().to_string();
    assert_eq!(
        message,
        "/data/store/segments/s.seg is damaged at byte 18: a read needs 11 bytes, but the file \
         ends at byte 20"
    );
    log.set(&log.bytes[..20]);
    let message = log.store.read_log("w", 0).unwrap_err().to_string();
    let end = log.bytes.len();
    assert_eq!(
        message,
        format!(
            "/data/store/logs/w.log is damaged at byte 20: it ends here, but was acknowledged up \
             to byte {end}"
        )
    );
}
