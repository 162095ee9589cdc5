//! Arbitrary bytes, after a correct checksum, as the zone map of a run.
#![no_main]

use kubist_format::zone_map::ZoneMap;
use libfuzzer_sys::fuzz_target;

mod checked;

fuzz_target!(|bytes: &[u8]| {
    let Ok(map) = ZoneMap::decode(&checked::checked(bytes)) else { return };
    assert_eq!(map.priorities.len(), map.zones());
    for (index, column) in map.columns.iter().enumerate() {
        map.run_zone(index);
        for zone in 0..map.zones() {
            map.zone(zone, column);
        }
    }
});
