//! Aggregates as in SQL: groups and aggregates of expressions, arithmetic with intervals, and exact
//! integers, decimals, dates and times.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, Float64Array, Int64Array,
    RecordBatch, TimestampMillisecondArray, UInt64Array,
};
use arrow_buffer::i256;
use arrow_schema::DataType;
use kubist::store::MemoryStore;
use kubist::{
    Dimension, Domain, ErrorKind, Estimate, EstimateOptions, Figure, Query, Snapshot, Stop, Table, TableOptions, Value,
    WriterOptions,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const ROWS: usize = 20_000;

struct Drops {
    diameter: Vec<f64>,
    deposited: Vec<bool>,
    id: Vec<i64>,
}

fn drops(seed: u64, rows: usize) -> Drops {
    let mut random = SmallRng::seed_from_u64(seed);
    let diameter: Vec<f64> = (0..rows).map(|_| 1e-6 + 29e-6 * random.random::<f64>().powi(2)).collect();
    let deposited = diameter.iter().map(|d| random.random::<f64>() < d / 4e-5).collect();
    Drops { diameter, deposited, id: (0..rows as i64).map(|row| (1 << 60) + row).collect() }
}

impl Drops {
    fn batch(&self) -> RecordBatch {
        let rows = self.id.len();
        let mut random = SmallRng::seed_from_u64(5);
        let x: Float64Array = (0..rows).map(|_| random.random::<f64>()).collect();
        let time = self.id.iter().map(|id| Some((id - (1 << 60)) * 1_000_003).filter(|time| time % 7 != 0));
        let price = self.id.iter().map(|id| Some(i128::from(*id) * 1_000_000_007));
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("x", Arc::new(x)),
            ("diameter", Arc::new(Float64Array::from(self.diameter.clone()))),
            ("deposited", Arc::new(BooleanArray::from(self.deposited.clone()))),
            ("id", Arc::new(Int64Array::from(self.id.clone()))),
            (
                "big",
                Arc::new(UInt64Array::from_iter_values(self.id.iter().map(|id| u64::MAX - (*id as u64 - (1 << 60))))),
            ),
            ("time", Arc::new(time.collect::<TimestampMillisecondArray>())),
            ("day", Arc::new(Date32Array::from_iter_values((0..rows as i32).map(|row| row % 400)))),
            ("price", Arc::new(price.collect::<Decimal128Array>().with_precision_and_scale(38, 4).unwrap())),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
    }
}

fn table(batch: &RecordBatch, seed: u64) -> Snapshot {
    let options = TableOptions {
        dimensions: vec![Dimension {
            column: "x".into(),
            domain: Domain::Linear(Value::Float(0.0), Value::Float(1.0)),
        }],
        identity: vec!["id".into()],
        capacity: Some(512),
        seed,
        ..TableOptions::default()
    };
    let table = Table::create(Arc::new(MemoryStore::new("t")), batch.schema(), &options).unwrap();
    let mut writer = table.writer(&WriterOptions::default()).unwrap();
    writer.append(batch).unwrap();
    writer.commit().unwrap();
    table.snapshot().unwrap()
}

fn wish(aggregates: &[&str], group_by: &[&str], fraction: f64) -> EstimateOptions {
    let texts = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
    EstimateOptions {
        aggregates: texts(aggregates),
        group_by: texts(group_by),
        query: Query { sample: Some(fraction), ..Query::default() },
        ..EstimateOptions::default()
    }
}

fn near(found: Option<f64>, expected: f64) {
    let found = found.unwrap();
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} is not {expected}");
}

const FRACTION: &str = "sum(deposited*power(diameter,3))/sum(power(diameter,3))";

#[test]
fn a_fraction_by_bins_is_one_call() {
    let drops = drops(1, ROWS);
    let snapshot = table(&drops.batch(), 0);
    let estimate = snapshot
        .estimate(&wish(&[FRACTION, "count()"], &["bin(diameter, 5e-6), deposited IS NULL"], 1.0), &mut |_| {})
        .unwrap();
    let mut expected: BTreeMap<i64, (f64, f64, u64)> = BTreeMap::new();
    for (diameter, deposited) in drops.diameter.iter().zip(&drops.deposited) {
        let bin = expected.entry((diameter / 5e-6).floor() as i64).or_default();
        let volume = diameter.powi(3);
        *bin = (bin.0 + if *deposited { volume } else { 0.0 }, bin.1 + volume, bin.2 + 1);
    }
    assert_eq!(estimate.groups.num_rows(), expected.len());
    let edges = estimate.groups["bin(diameter, 5e-6)"].as_primitive::<Float64Type>().values().to_vec();
    assert!(estimate.groups["deposited IS NULL"].as_boolean().false_count() == expected.len());
    for (group, (bin, (above, below, count))) in expected.iter().enumerate() {
        assert_eq!(edges[group], format!("{}e-6", bin * 5).parse::<f64>().unwrap());
        near(estimate.figures[2 * group].value, above / below);
        near(estimate.figures[2 * group + 1].value, *count as f64);
        assert!(estimate.figures[2 * group].exact);
    }
}

#[test]
fn groups_are_of_any_expression() {
    let drops = drops(2, ROWS);
    let snapshot = table(&drops.batch(), 0);
    let groups = |by: &str| snapshot.estimate(&wish(&["count()"], &[by], 1.0), &mut |_| {}).unwrap();
    let found = groups("floor(diameter*1e5)");
    assert_eq!(found.groups.column(0).as_primitive::<Float64Type>().values()[..], [0.0, 1.0, 2.0]);
    let found = groups("date_trunc('day', time)");
    let days = found.groups.column(0).as_primitive::<TimestampMillisecondType>();
    assert!(days.iter().flatten().all(|day| day % 86_400_000 == 0) && days.null_count() == 1, "{days:?}");
    let found = groups("id % 3");
    assert_eq!(found.groups.column(0).as_primitive::<Int64Type>().values()[..], [0, 1, 2]);
    assert_eq!(groups("bin(id, 1000000) * 16").groups.column(0).data_type(), &DataType::Decimal128(38, 0));
    let found = groups("CASE WHEN diameter < 1e-5 THEN 'small' ELSE 'large' END");
    let names: Vec<Option<&str>> = found.groups.column(0).as_string::<i32>().iter().collect();
    assert_eq!(names, [Some("large"), Some("small")]);
    let small = drops.diameter.iter().filter(|diameter| **diameter < 1e-5).count();
    assert_eq!(found.figures[1].own.as_ref().map(|own| own.texts()[0].clone()), Some(Some(small.to_string())));
    let refused = |by: &str| snapshot.estimate(&wish(&["count()"], &[by], 1.0), &mut |_| {}).unwrap_err();
    for (by, message) in [
        ("diametr", "no column `diametr`; did you mean `diameter`?"),
        ("floor(diametr)", "group_by floor(diametr): no column `diametr`; did you mean `diameter`?"),
        ("2 + 3", "the same for every row"),
        ("CASE WHEN deposited THEN 1 ELSE 'a' END", "the number 1 in one branch and the text 'a' in another"),
        ("id / 0 +", "expected a value after `+`"),
    ] {
        let error = refused(by);
        assert!(error.kind() == ErrorKind::InvalidInput && error.to_string().contains(message), "{by}: {error}");
    }
    let error = refused("floor(x * 1e6)");
    assert!(error.to_string().contains("there are more than 10,000 groups; group by something coarser"), "{error}");
}

#[test]
fn formulas_of_aggregates_are_plain_arithmetic_once_all_is_read() {
    let drops = drops(3, ROWS);
    let snapshot = table(&drops.batch(), 0);
    let n = ROWS as f64;
    let sum: f64 = drops.diameter.iter().sum();
    let square: f64 = drops.diameter.iter().map(|d| d * d).sum();
    let deposited = drops.deposited.iter().filter(|deposited| **deposited).count() as f64;
    for (text, expected) in [
        ("sum(diameter) / count()", sum / n),
        ("sum(diameter)/count(*)", sum / n),
        ("100 * share(deposited)", 100.0 * deposited / n),
        ("sqrt(mean(diameter*diameter) - power(mean(diameter), 2))", (square / n - (sum / n).powi(2)).sqrt()),
        ("avg(deposited * diameter) + 0 * SUM (x)", {
            drops.diameter.iter().zip(&drops.deposited).map(|(d, on)| if *on { *d } else { 0.0 }).sum::<f64>() / n
        }),
        ("-sum(diameter)", -sum),
        ("CASE WHEN count() > 10 THEN sum(deposited) ELSE 0 END", deposited),
        ("greatest(mean(diameter), mean(diameter) * 2)", 2.0 * sum / n),
    ] {
        let estimate = snapshot.estimate(&wish(&[text], &[], 1.0), &mut |_| {}).unwrap();
        assert!(estimate.figures[0].exact && estimate.stopped == Stop::Exact);
        let found = estimate.figures[0].value.unwrap();
        assert!((found - expected).abs() <= 1e-7 * expected.abs(), "{text}: {found} is not {expected}");
    }
    let figure = |text: &str| snapshot.estimate(&wish(&[text], &[], 1.0), &mut |_| {}).unwrap().figures[0].clone();
    assert_eq!(figure("sum(diameter) / sum(diameter * 0)").value, None);
    for (text, message) in [
        ("sum(diameter) / max(diameter)", "max cannot be part of a formula: only sum, count, mean (avg) and share can"),
        ("sum(diameter) / diameter", "no column `diameter`"),
        ("sum(diameter) > 3", "it is a condition"),
        ("sum(diameter", "is not closed"),
        ("sum(diameter) +", "expected a value after `+`"),
        ("sum(nope) / count()", "no column `nope`"),
        ("sum(mean(diameter)) / 2", "the function `mean` is not supported"),
    ] {
        let error = snapshot.estimate(&wish(&[text], &[], 1.0), &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[test]
fn rounded_formulas_have_the_image_of_the_interval() {
    let drops = drops(5, 8_000);
    let batch = drops.batch();
    let inner = "1e6 * sum(diameter) / count()";
    let truth = 1e6 * drops.diameter.iter().sum::<f64>() / 8_000.0;
    let image = |name: &str, x: f64| match name {
        "round" => x.round(),
        "floor" => x.floor(),
        "ceil" => x.ceil(),
        "bin" => (x * 4.0).floor() / 4.0,
        _ => (x * 10.0).round() / 10.0,
    };
    let (mut held, mut tries, mut wide) = (0, 0, 0);
    for seed in 0..60 {
        let snapshot = table(&batch, seed);
        let around = snapshot.estimate(&wish(&[inner], &[], 0.5), &mut |_| {}).unwrap().figures[0].clone();
        for (name, text) in [
            ("round", format!("round({inner})")),
            ("floor", format!("floor({inner})")),
            ("ceil", format!("ceil({inner})")),
            ("bin", format!("bin({inner}, 0.25)")),
            ("digits", format!("round({inner}, 1)")),
        ] {
            let estimate = snapshot.estimate(&wish(&[&text], &[], 0.5), &mut |_| {}).unwrap();
            let figure = &estimate.figures[0];
            assert!(!figure.exact && estimate.warnings.is_empty(), "{text}: {:?}", estimate.warnings);
            assert!((figure.low - image(name, around.low)).abs() < 1e-9, "{text}: {figure:?} of {around:?}");
            assert!((figure.high - image(name, around.high)).abs() < 1e-9, "{text}: {figure:?} of {around:?}");
            assert!((figure.value.unwrap() - image(name, around.value.unwrap())).abs() < 1e-9);
            held += usize::from((figure.low..=figure.high).contains(&image(name, truth)));
            wide += usize::from(figure.low < figure.high);
            tries += 1;
        }
    }
    assert!(held as f64 / tries as f64 > 0.9 && wide > 0 && wide < tries, "{held} of {tries}, {wide} wide");
    // An expression with rounding has no interval and is refused at once.
    let snapshot = table(&batch, 0);
    let estimate = snapshot.estimate(&wish(&["mean(diameter) + floor(mean(x))"], &[], 0.05), &mut |_| {}).unwrap();
    assert!((estimate.figures[0].low, estimate.figures[0].high) == (f64::NEG_INFINITY, f64::INFINITY));
    assert!(estimate.warnings.iter().any(|warning| warning.contains("no interval until all records are read")));
}

/// At least 95 % of the intervals, minus 3.5 standard errors, contain the truth; `SEEDS=2000` tries more.
#[test]
fn intervals_of_expressions_hold_the_truth() {
    let drops = drops(4, 8_000);
    let batch = drops.batch();
    let kinds: [(&str, Option<&str>); 6] = [
        (FRACTION, None),
        (FRACTION, Some("id >= 0")),
        ("sum(CASE WHEN deposited THEN power(diameter, 3) ELSE 0 END)", Some("id >= 0")),
        ("sqrt(mean(diameter*diameter) - power(mean(diameter), 2))", None),
        ("mean(bin(diameter, 1e-6) + deposited * 1e-6)", None),
        ("sum(diameter) / count() * 1e6", Some("diameter >= 2e-6 AND diameter < 2e-5")),
    ];
    let truths: Vec<f64> = {
        let snapshot = table(&batch, 0);
        let truth = |(text, filter): &(&str, Option<&str>)| {
            let mut wish = wish(&[text], &[], 1.0);
            wish.query.filter = filter.map(str::to_owned);
            snapshot.estimate(&wish, &mut |_| {}).unwrap().figures[0].value.unwrap()
        };
        kinds.iter().map(truth).collect()
    };
    let seeds: u64 = std::env::var("SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    let slack = 3.5 * (0.95 * 0.05 / seeds as f64).sqrt();
    let mut held = [0; 6];
    let mut errors = [const { Vec::new() }; 6];
    for seed in 1..=seeds {
        let snapshot = table(&batch, seed);
        for (kind, (text, filter)) in kinds.iter().enumerate() {
            let mut wish = wish(&[text], &[], 0.1);
            wish.query.filter = filter.map(str::to_owned);
            let Figure { value, low, high, exact, .. } =
                snapshot.estimate(&wish, &mut |_| {}).unwrap().figures[0].clone();
            assert!(!exact && low.is_finite() && high.is_finite(), "{text}");
            held[kind] += usize::from((low..=high).contains(&truths[kind]));
            errors[kind].push(value.unwrap() - truths[kind]);
        }
    }
    for ((kind, held), errors) in kinds.iter().zip(held).zip(errors) {
        let share = held as f64 / seeds as f64;
        assert!((0.95 - slack..=0.95 + slack).contains(&share), "{kind:?}: {share}");
        let mean = errors.iter().sum::<f64>() / seeds as f64;
        let spread = errors.iter().map(|error| (error - mean).powi(2)).sum::<f64>() / seeds as f64;
        assert!(mean.abs() < 4.0 * (spread / seeds as f64).sqrt(), "{kind:?} leans by {mean}");
    }
}

fn own(estimate: &Estimate, index: usize) -> Option<String> {
    estimate.figures[index].own.as_ref().and_then(|own| own.texts()[0].clone())
}

#[test]
fn whole_numbers_keep_all_their_digits() {
    let drops = drops(5, 2_001);
    let snapshot = table(&drops.batch(), 0);
    let told = |text: &str| own(&snapshot.estimate(&wish(&[text], &[], 1.0), &mut |_| {}).unwrap(), 0).unwrap();
    let first = 1i128 << 60;
    assert_eq!(told("min(id)"), first.to_string());
    assert_eq!(told("max(id)"), (first + 2_000).to_string());
    assert_eq!(told("median(id)"), (first + 1_000).to_string());
    assert_eq!(told("quantile(id, 0.25)"), (first + 500).to_string());
    assert_eq!(told("sum(id)"), (2_001 * first + 2_000 * 2_001 / 2).to_string());
    assert_eq!(told("sum(id * 1000)"), (1_000 * (2_001 * first + 2_000 * 2_001 / 2)).to_string());
    assert_eq!(told("max(id + 1)"), (first + 2_001).to_string());
    assert_eq!(told("max(big)"), u64::MAX.to_string());
    assert_eq!(told("min(big)"), (u64::MAX - 2_000).to_string());
    assert_eq!(told("p50(big)"), (u64::MAX - 1_000).to_string());
    assert_eq!(told("count()"), "2001");
    assert_eq!(
        told("count(time)"),
        drops.id.iter().filter(|id| (**id - (1 << 60)) * 1_000_003 % 7 != 0).count().to_string()
    );
    assert_eq!(told("sum(deposited)"), drops.deposited.iter().filter(|on| **on).count().to_string());
    assert_eq!(told("max(time)"), "1970-01-24T03:33:26");
    assert_eq!(told("min(day)"), "1970-01-01");
    assert_eq!(told("max(day)"), "1971-02-04");
    assert_eq!(told("median(date_trunc('month', day))"), "1970-07-01");
    let price = |number: i128| {
        let unscaled = number.to_string();
        let (whole, rest) = unscaled.split_at(unscaled.len() - 4);
        format!("{whole}.{rest}")
    };
    assert_eq!(told("min(price)"), price(first * 1_000_000_007));
    assert_eq!(told("max(price)"), price((first + 2_000) * 1_000_000_007));
    assert_eq!(told("median(price)"), price((first + 1_000) * 1_000_000_007));
    assert_eq!(told("sum(price)"), price((2_001 * first + 2_000 * 2_001 / 2) * 1_000_000_007));
    let estimate = snapshot.estimate(&wish(&["max(id)", "count()"], &["deposited"], 1.0), &mut |_| {}).unwrap();
    let batch = estimate.to_batch().unwrap();
    let values = batch["value"].as_primitive::<Int64Type>();
    assert!(values.values().contains(&((1 << 60) + 2_000)) && estimate.figures.len() == 4);
    let estimate = snapshot.estimate(&wish(&["max(time)"], &["time IS NULL"], 1.0), &mut |_| {}).unwrap();
    let latest = estimate.to_batch().unwrap()["value"].clone();
    assert!(matches!(latest.data_type(), DataType::Timestamp(..)) && (latest.len(), latest.null_count()) == (2, 1));
    let mixed = snapshot.estimate(&wish(&["max(id)", "mean(x)"], &[], 1.0), &mut |_| {}).unwrap();
    assert_eq!(mixed.to_batch().unwrap()["value"].data_type(), &DataType::Float64);
    assert_eq!(mixed.in_words(&mixed.figures[0]), "1,152,921,504,606,848,976 exactly");
}

#[test]
fn decimals_beyond_128_bits_are_floats_but_for_their_ends() {
    let most = i256::from_i128(i128::MAX).wrapping_mul(i256::from_i128(1_000));
    let wide = (0..100).map(|row| Some(most.wrapping_sub(i256::from_i128(row))));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("x", Arc::new((0..100).map(|row| Some(f64::from(row) / 100.0)).collect::<Float64Array>())),
        ("id", Arc::new(Int64Array::from_iter_values(0..100))),
        ("wide", Arc::new(wide.collect::<Decimal256Array>().with_precision_and_scale(50, 2).unwrap())),
    ];
    let snapshot = table(&RecordBatch::try_from_iter(columns).unwrap(), 0);
    let estimate =
        snapshot.estimate(&wish(&["max(wide)", "sum(wide)", "median(wide)"], &[], 1.0), &mut |_| {}).unwrap();
    assert_eq!(own(&estimate, 0).as_deref(), Some("1701411834604692317316873037158841057270.00"));
    near(estimate.figures[1].value, 100.0 * 1.701_411_834_604_692_4e39);
    near(estimate.figures[2].value, 1.701_411_834_604_692_4e39);
}

#[test]
fn a_sample_has_values_of_its_own_types() {
    let drops = drops(6, ROWS);
    let snapshot = table(&drops.batch(), 3);
    let estimate = snapshot
        .estimate(&wish(&["median(id)", "max(big)", "median(time)", "sum(id)"], &[], 0.1), &mut |_| {})
        .unwrap();
    let [median, largest, time, sum] = &estimate.figures[..] else { panic!("four figures") };
    let Some(ids) = &median.own else { panic!("{median:?}") };
    assert!(!median.exact && ids.low < ids.value && ids.value < ids.high, "{median:?}");
    assert!(largest.exact && largest.own.as_ref().unwrap().texts()[0] == Some(u64::MAX.to_string()));
    assert!(estimate.in_words(time).starts_with("1970-0"), "{}", estimate.in_words(time));
    assert!(sum.own.is_none() && !sum.exact);
}
