//! Results against brute force over the causal past of each operation.

use std::collections::{BTreeMap, BTreeSet};

use crate::histories::{History, Op, history, joined};

fn replaced(history: &History, number: usize, test: impl Fn(Op) -> bool) -> bool {
    history.ops.iter().any(|later| later.seen.contains(&number) && test(later.op))
}

#[test]
fn sets_follow_equation_4_1_and_registers_show_all_concurrent_values() {
    for seed in 0..3000 {
        let history = history(seed);
        let state = joined(&history.states);
        for key in 0..3u8 {
            let (mut tags, mut notes) = (BTreeSet::new(), Vec::new());
            for (number, noted) in history.ops.iter().enumerate() {
                match noted.op {
                    Op::Tag(of, tag) if of == key => {
                        let gone = |op| {
                            matches!(op, Op::Tag(k, t) | Op::Untag(k, t) if (k, t) == (key, tag))
                                || op == Op::Remove(key)
                        };
                        if !replaced(&history, number, gone) {
                            tags.insert(tag);
                        }
                    }
                    Op::Note(of, value) if of == key => {
                        if !replaced(&history, number, |op| {
                            matches!(op, Op::Note(k, _) if k == key) || op == Op::Remove(key)
                        }) {
                            notes.push(value);
                        }
                    }
                    _ => {}
                }
            }
            notes.sort_unstable();
            let record = state.store.get(&key).cloned().unwrap_or_default();
            let mut shown: Vec<u32> = record.note.values().copied().collect();
            shown.sort_unstable();
            assert_eq!(record.tags.elements().copied().collect::<BTreeSet<_>>(), tags, "seed {seed}");
            assert_eq!(shown, notes, "seed {seed}");
        }
    }
}

#[test]
fn counters_count_everything() {
    for seed in 0..3000 {
        let history = history(seed);
        if history.ops.iter().any(|noted| matches!(noted.op, Op::Remove(_))) {
            continue;
        }
        let mut sums: BTreeMap<u8, i128> = BTreeMap::new();
        for noted in &history.ops {
            if let Op::Count(key, amount) = noted.op {
                *sums.entry(key).or_default() += i128::from(amount);
            }
        }
        let state = joined(&history.states);
        for (key, sum) in sums {
            assert_eq!(state.store.get(&key).map_or(0, |record| record.reads.sum()), sum, "seed {seed}");
        }
    }
}

#[test]
fn a_removed_counter_keeps_a_concurrent_increment() {
    use kubist_crdt::{Causal, DotFun, DotMap, Tally};
    type Counters = Causal<u8, DotMap<&'static str, DotFun<u8, Tally>>>;
    let mut one = Counters::default();
    one.change(1, |map, dot| map.changing("reads", |counter| counter.counting(5, dot)));
    let mut two = one.clone();
    one.change(1, |map, _| map.removing(&"reads"));
    two.change(2, |map, dot| map.changing("reads", |counter| counter.counting(2, dot)));
    one.join(&two);
    assert_eq!(one.store.get("reads").map(|counter| counter.sum()), Some(2));
}
