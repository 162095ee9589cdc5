//! The summary of a block: the bounds of its numbers, and the number of missing values.

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use kubist_expr::{Nulls, Zone};
use kubist_index::order::{self, Keyed};

use crate::bounds;
use crate::decode;
use crate::fetch::FetchedValues;
use crate::layout::{Layout, Storage, Variable};
use crate::shape::{Rect, Tiling};

/// The flag of a block that could not be read during indexing.
const UNREADABLE: u8 = 2;
const NAN: u8 = 1;
pub const BYTES: usize = 22;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The order key of the minimum. Without numbers, `least` is above `greatest`.
    pub least: u64,
    pub greatest: u64,
    /// The number of missing values, at most 2^32 - 1.
    pub missing: u32,
    flags: u8,
    any: bool,
}

impl Summary {
    pub fn of(values: &ArrayRef) -> Summary {
        let Some(keys) = order::keys(values) else { return Summary::unknown() };
        let (low, high) = order::number_keys(values.data_type());
        let mut summary = Summary::counted(values.len(), values.null_count());
        for (row, key) in keys.into_iter().enumerate() {
            if values.is_null(row) {
                continue;
            }
            if key < low || key > high {
                summary.flags |= NAN;
                continue;
            }
            summary.least = summary.least.min(key);
            summary.greatest = summary.greatest.max(key);
        }
        summary
    }

    fn counted(values: usize, missing: usize) -> Summary {
        let any = missing < values;
        Summary { missing: u32::try_from(missing).unwrap_or(u32::MAX), any, ..Summary::nothing() }
    }

    pub fn of_found(variable: &Variable, found: &FetchedValues<'_>) -> Summary {
        match found {
            FetchedValues::Stored(bytes) => Summary::of_stored(variable, bytes),
            FetchedValues::Array(values) => Summary::of_array(variable, values),
        }
    }

    fn of_stored(variable: &Variable, bytes: &[u8]) -> Summary {
        let packing = &variable.packing;
        let (scale, offset) = (packing.scale.unwrap_or(1.0), packing.offset.unwrap_or(0.0));
        // With such a packing, a number may become NaN.
        if !(scale.is_finite() && scale != 0.0 && offset.is_finite()) {
            return Summary::of(&decode::array(variable, bytes));
        }
        let bounds = bounds::of(variable, bytes);
        let mut summary = Summary::counted(bytes.len() / variable.number.bytes() as usize, bounds.missing);
        (summary.least, summary.greatest) = (bounds.least, bounds.greatest);
        if bounds.has_nan {
            summary.flags |= NAN;
        }
        if packing.is_packed() && summary.least <= summary.greatest {
            let stored = variable.number.data_type();
            let unpacked = |key: u64| (order::number(&stored, key) * scale + offset).key();
            let (one, other) = (unpacked(summary.least), unpacked(summary.greatest));
            (summary.least, summary.greatest) = (one.min(other), one.max(other));
        }
        summary
    }

    fn of_array(variable: &Variable, values: &ArrayRef) -> Summary {
        let data = values.to_data();
        let width = variable.number.bytes() as usize;
        let bytes = &data.buffers()[0][data.offset() * width..][..data.len() * width];
        let part = |(start, end): (usize, usize)| Summary::of_stored(variable, &bytes[start * width..end * width]);
        match values.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => part((0, data.len())),
            Some(nulls) => nulls
                .valid_slices()
                .map(part)
                .fold(Summary::counted(data.len(), nulls.null_count()), |all, next| all.with(&next)),
        }
    }

    pub fn unknown() -> Summary {
        Summary { least: 0, greatest: u64::MAX, missing: 1, flags: UNREADABLE | NAN, any: true }
    }

    pub fn nothing() -> Summary {
        Summary { least: u64::MAX, greatest: 0, missing: 0, flags: 0, any: false }
    }

    pub fn has_nan(&self) -> bool {
        self.flags & NAN != 0
    }

    pub fn is_unreadable(&self) -> bool {
        self.flags & UNREADABLE != 0
    }

    pub fn with(&self, other: &Summary) -> Summary {
        Summary {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
            missing: self.missing.saturating_add(other.missing),
            flags: self.flags | other.flags,
            any: self.any || other.any,
        }
    }

    pub fn zone(&self, data_type: &DataType) -> Zone {
        if self.is_unreadable() {
            return Zone { min: 0, max: u64::MAX, nulls: Nulls::Some };
        }
        let nulls = match (self.missing, self.any) {
            (0, _) => Nulls::None,
            (_, true) => Nulls::Some,
            (_, false) => Nulls::All,
        };
        let (low, high) = order::number_keys(data_type);
        let (mut min, mut max) = (self.least, self.greatest);
        if self.has_nan() {
            // The keys of NaN are on both sides of the numbers.
            (min, max) = match min > max {
                true => (high.saturating_add(1), u64::MAX),
                false => (min, u64::MAX),
            };
            if low > 0 && min > max {
                (min, max) = (0, low - 1);
            }
        }
        Zone { min, max, nulls }
    }

    pub fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&self.least.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.greatest.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.missing.to_le_bytes());
        (bytes[20], bytes[21]) = (self.flags, u8::from(self.any));
        bytes
    }

    pub fn from_bytes(bytes: &[u8; BYTES]) -> Summary {
        let (least, rest) = bytes.split_at(8);
        let (greatest, rest) = rest.split_at(8);
        let word = |part: &[u8]| part.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        Summary {
            least: word(least),
            greatest: word(greatest),
            missing: word(&rest[..4]) as u32,
            flags: rest[4],
            any: rest[5] != 0,
        }
    }
}

/// The written chunks; `None` means all.
pub fn written(variable: &Variable, tiling: &Tiling) -> Option<Vec<u64>> {
    let Storage::Chunks { table, .. } = &variable.storage else { return None };
    let some = (table.len() as u64) < tiling.chunks();
    some.then(|| table.iter().map(|chunk| chunk.number).collect())
}

/// The summary of unwritten blocks; `None` if the format has none.
pub fn of_fill(variable: &Variable) -> Option<Summary> {
    let Storage::Chunks { fill, .. } = &variable.storage else { return None };
    Some(Summary::of(&decode::array(variable, &decode::stored(variable, *fill))))
}

/// The summary of an unwritten rectangle; `None` if a part of it was written.
pub fn of_unwritten(layout: &Layout, variable: &Variable, rect: &Rect) -> Option<Summary> {
    let Storage::Chunks { shape, table, .. } = &variable.storage else { return None };
    let tiling = Tiling::new(&layout.shape(variable), shape, shape).ok()?;
    let is_written = match tiling.count_over(rect) > table.len() as u64 {
        true => table.iter().any(|chunk| tiling.chunk_rect(chunk.number).intersect(rect).is_some()),
        false => {
            let is_there = |chunk: u64| table.binary_search_by_key(&chunk, |own| own.number).is_ok();
            tiling.chunks_over(rect).into_iter().any(is_there)
        }
    };
    if is_written { None } else { of_fill(variable) }
}

/// The summaries of all blocks. Unwritten chunks contain the fill value, and their blocks share one summary.
#[derive(Clone, Debug)]
pub struct Summaries {
    /// The written chunks, ascending; `None` means all.
    written: Option<Vec<u64>>,
    blocks_in_chunk: u64,
    own: Vec<Summary>,
    fill: Summary,
}

impl Summaries {
    pub fn new(variable: &Variable, tiling: &Tiling) -> Summaries {
        let written = written(variable, tiling);
        let chunks = written.as_ref().map_or(tiling.chunks(), |written| written.len() as u64);
        let blocks_in_chunk = tiling.blocks_in_chunk();
        let own = vec![Summary::nothing(); chunks.saturating_mul(blocks_in_chunk) as usize];
        Summaries { written, blocks_in_chunk, own, fill: of_fill(variable).unwrap_or_else(Summary::unknown) }
    }

    /// The blocks that have summaries, ascending.
    pub fn blocks(&self) -> impl Iterator<Item = u64> {
        let chunk = |place: u64| self.written.as_ref().map_or(place, |written| written[place as usize]);
        let each = self.blocks_in_chunk.max(1);
        (0..self.own.len() as u64).map(move |place| chunk(place / each) * each + place % each)
    }

    fn place(&self, block: u64) -> Option<usize> {
        let (chunk, inner) = (block / self.blocks_in_chunk.max(1), block % self.blocks_in_chunk.max(1));
        let at = match &self.written {
            Some(written) => written.binary_search(&chunk).ok()? as u64,
            None => chunk,
        };
        Some((at * self.blocks_in_chunk + inner) as usize)
    }

    pub fn get(&self, block: u64) -> Summary {
        self.place(block).and_then(|place| self.own.get(place)).copied().unwrap_or(self.fill)
    }

    pub fn set(&mut self, block: u64, summary: Summary) {
        if let Some(own) = self.place(block).and_then(|place| self.own.get_mut(place)) {
            *own = summary;
        }
    }

    pub fn own(&self) -> &[Summary] {
        &self.own
    }

    /// The summary of all blocks that overlap a rectangle; `None` if the rectangle is empty. Each unwritten chunk costs
    /// one step, but if few chunks were written, only these are visited.
    pub fn over(&self, tiling: &Tiling, rect: &Rect) -> Option<Summary> {
        let of_chunk = |chunk: u64| match self.place(chunk * self.blocks_in_chunk) {
            None => Some(self.fill),
            Some(_) => tiling.blocks_of(chunk, rect).map(|block| self.get(block)).reduce(|all, next| all.with(&next)),
        };
        let all = tiling.count_over(rect);
        match &self.written {
            Some(written) if (written.len() as u64) < all => {
                let inside = written.iter().filter(|chunk| tiling.chunk_rect(**chunk).intersect(rect).is_some());
                let found = inside.filter_map(|chunk| of_chunk(*chunk)).reduce(|all, next| all.with(&next));
                Some(found.map_or(self.fill, |found| found.with(&self.fill)))
            }
            _ => tiling.chunks_over(rect).into_iter().filter_map(of_chunk).reduce(|all, next| all.with(&next)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Number, Packing};
    use arrow_array::{Float32Array, RecordBatch};
    use arrow_schema::{Field, Schema};
    use kubist_expr::{Predicate, Verdict, never};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn value() -> impl Strategy<Value = Option<f32>> {
        prop_oneof![
            3 => (-3i8..4).prop_map(|value| Some(f32::from(value))),
            1 => Just(None),
            1 => prop_oneof![Just(Some(f32::NAN)), Just(Some(-f32::NAN)), Just(Some(f32::INFINITY))],
        ]
    }

    proptest! {
        #[test]
        fn verdicts_of_summaries_hold(values in proptest::collection::vec(value(), 1..12), which in 0usize..9) {
            let condition = ["x > 1", "x <= -1", "x = 2", "NOT x < 0", "x IS NULL", "isnan(x)", "x IS NOT NULL",
                "x BETWEEN -1 AND 1", "NOT isnan(x)"][which];
            let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Float32, true)]));
            let predicate = Predicate::parse(condition, &schema).unwrap();
            let array: ArrayRef = Arc::new(Float32Array::from(values));
            let summary = Summary::of(&array);
            let summary = Summary::from_bytes(&summary.to_bytes());
            let rows = array.len();
            let batch = RecordBatch::try_new(schema, vec![array]).unwrap();
            let found = predicate.evaluate(&batch, &never).unwrap().true_count();
            match predicate.verdict(&|_| summary.zone(&DataType::Float32)) {
                Verdict::None => prop_assert_eq!(found, 0),
                Verdict::All => prop_assert_eq!(found, rows),
                Verdict::Some => {}
            }
        }
    }

    fn stored() -> impl Strategy<Value = (Variable, Vec<u8>)> {
        let numbers = [
            Number::I8,
            Number::I16,
            Number::I32,
            Number::I64,
            Number::U8,
            Number::U16,
            Number::U32,
            Number::U64,
            Number::F16,
            Number::F32,
            Number::F64,
        ];
        let float = |number: Number, value: f64| match number {
            Number::F16 => u64::from(half::f16::from_f64(value).to_bits()),
            Number::F32 => u64::from((value as f32).to_bits()),
            _ => value.to_bits(),
        };
        let bits = move |number: Number| {
            let odd = [0.0, -0.0, 1.5, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN];
            prop_oneof![any::<u64>(), 0u64..5, (0usize..8).prop_map(move |at| float(number, odd[at]))]
        };
        let factor = prop_oneof![Just(None), Just(Some(-0.5)), Just(Some(0.0)), Just(Some(1e300)), Just(Some(3.0))];
        let of = move |number: Number| {
            let bits = bits(number);
            let cells = proptest::collection::vec(bits.clone(), 0..70);
            let missing = proptest::collection::vec(bits, 0..3);
            (Just(number), any::<bool>(), cells, missing, factor.clone(), factor.clone())
        };
        proptest::sample::select(numbers.to_vec()).prop_flat_map(of).prop_map(
            |(number, big_endian, cells, missing, scale, offset)| {
                let variable = Variable {
                    name: "x".into(),
                    dimensions: vec![0],
                    number,
                    big_endian,
                    packing: Packing { scale, offset, missing },
                    unit: None,
                    calendar: None,
                    storage: Storage::Contiguous { offset: 0 },
                };
                let bytes = cells.iter().flat_map(|bits| decode::stored(&variable, *bits)).collect();
                (variable, bytes)
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn stored_numbers_are_summarised_as_their_values((variable, bytes) in stored()) {
            let values = decode::array(&variable, &bytes);
            let expected = Summary::of(&values);
            prop_assert_eq!(Summary::of_found(&variable, &FetchedValues::Stored(bytes.into())), expected);
            if !variable.packing.is_packed() {
                let plain = Variable { big_endian: false, packing: Packing::default(), ..variable };
                prop_assert_eq!(Summary::of_found(&plain, &FetchedValues::Array(values.slice(0, values.len()))), expected);
            }
        }
    }
}
